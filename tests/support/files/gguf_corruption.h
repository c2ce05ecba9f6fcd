// Functions that each make a valid GGUF file wrong in one way, with the arguments of a row of the
// corpus.
#pragma once

#include "tests/support/files/gguf_corpus.h"

void corrupt_as_it_is(GgufFile *f, const GgufCase *c);
void corrupt_version(GgufFile *f, const GgufCase *c);
void corrupt_said_tensors(GgufFile *f, const GgufCase *c);
void corrupt_said_keys(GgufFile *f, const GgufCase *c);
void corrupt_tail(GgufFile *f, const GgufCase *c);
void corrupt_key_length(GgufFile *f, const GgufCase *c);
void corrupt_key_text(GgufFile *f, const GgufCase *c);
void corrupt_long_key(GgufFile *f, const GgufCase *c);
void corrupt_value_type(GgufFile *f, const GgufCase *c);
void corrupt_string_length(GgufFile *f, const GgufCase *c);
void corrupt_array_length(GgufFile *f, const GgufCase *c);
void corrupt_nested_arrays(GgufFile *f, const GgufCase *c);
void corrupt_third_string_overruns(GgufFile *f, const GgufCase *c);
void corrupt_set_u32(GgufFile *f, const GgufCase *c);
void corrupt_set_f32(GgufFile *f, const GgufCase *c);
void corrupt_set_text(GgufFile *f, const GgufCase *c);
void corrupt_set_bool(GgufFile *f, const GgufCase *c);
void corrupt_remove_key(GgufFile *f, const GgufCase *c);
void corrupt_set_alignment(GgufFile *f, const GgufCase *c);
void corrupt_set_raw_type(GgufFile *f, const GgufCase *c);
void corrupt_long_text(GgufFile *f, const GgufCase *c);
void corrupt_add_key(GgufFile *f, const GgufCase *c);
void corrupt_many_keys(GgufFile *f, const GgufCase *c);
void corrupt_many_tensors(GgufFile *f, const GgufCase *c);
void corrupt_rename_tensor(GgufFile *f, const GgufCase *c);
void corrupt_add_tensor_of_length(GgufFile *f, const GgufCase *c);
void corrupt_twice_a_tensor(GgufFile *f, const GgufCase *c);
void corrupt_n_dims(GgufFile *f, const GgufCase *c);
void corrupt_dims(GgufFile *f, const GgufCase *c);
void corrupt_dims_and_type(GgufFile *f, const GgufCase *c);
void corrupt_sizes_that_sum_up(GgufFile *f, const GgufCase *c);
void corrupt_type_number(GgufFile *f, const GgufCase *c);
void corrupt_offset(GgufFile *f, const GgufCase *c);
void corrupt_all_on_one_range(GgufFile *f, const GgufCase *c);
void corrupt_gap(GgufFile *f, const GgufCase *c);
void corrupt_remove_tensor(GgufFile *f, const GgufCase *c);
void corrupt_add_tensor(GgufFile *f, const GgufCase *c);
void corrupt_layer_array(GgufFile *f, const GgufCase *c);
void corrupt_yarn(GgufFile *f, const GgufCase *c);
void corrupt_tokens(GgufFile *f, const GgufCase *c);
void corrupt_numbers(GgufFile *f, const GgufCase *c);
void corrupt_one_score(GgufFile *f, const GgufCase *c);
void corrupt_one_type(GgufFile *f, const GgufCase *c);
void corrupt_one_token(GgufFile *f, const GgufCase *c);
void corrupt_nul_in_token(GgufFile *f, const GgufCase *c);
void corrupt_merges(GgufFile *f, const GgufCase *c);
void corrupt_charsmap(GgufFile *f, const GgufCase *c);
void corrupt_split(GgufFile *f, const GgufCase *c);
