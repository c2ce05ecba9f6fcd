// Functions that each make a valid GGUF file wrong in one way, with the arguments of a row of the
// corpus.
#pragma once

#include "tests/support/files/gguf_corpus.h"

void bend_as_it_is(GgufFile *f, const GgufCase *c);
void bend_version(GgufFile *f, const GgufCase *c);
void bend_said_tensors(GgufFile *f, const GgufCase *c);
void bend_said_keys(GgufFile *f, const GgufCase *c);
void bend_tail(GgufFile *f, const GgufCase *c);
void bend_key_length(GgufFile *f, const GgufCase *c);
void bend_key_text(GgufFile *f, const GgufCase *c);
void bend_long_key(GgufFile *f, const GgufCase *c);
void bend_value_type(GgufFile *f, const GgufCase *c);
void bend_string_length(GgufFile *f, const GgufCase *c);
void bend_array_length(GgufFile *f, const GgufCase *c);
void bend_nested_arrays(GgufFile *f, const GgufCase *c);
void bend_third_string_overruns(GgufFile *f, const GgufCase *c);
void bend_set_u32(GgufFile *f, const GgufCase *c);
void bend_set_f32(GgufFile *f, const GgufCase *c);
void bend_set_text(GgufFile *f, const GgufCase *c);
void bend_set_bool(GgufFile *f, const GgufCase *c);
void bend_remove_key(GgufFile *f, const GgufCase *c);
void bend_set_alignment(GgufFile *f, const GgufCase *c);
void bend_set_raw_type(GgufFile *f, const GgufCase *c);
void bend_long_text(GgufFile *f, const GgufCase *c);
void bend_add_key(GgufFile *f, const GgufCase *c);
void bend_many_keys(GgufFile *f, const GgufCase *c);
void bend_many_tensors(GgufFile *f, const GgufCase *c);
void bend_rename_tensor(GgufFile *f, const GgufCase *c);
void bend_add_tensor_of_length(GgufFile *f, const GgufCase *c);
void bend_twice_a_tensor(GgufFile *f, const GgufCase *c);
void bend_n_dims(GgufFile *f, const GgufCase *c);
void bend_dims(GgufFile *f, const GgufCase *c);
void bend_dims_and_type(GgufFile *f, const GgufCase *c);
void bend_sizes_that_sum_up(GgufFile *f, const GgufCase *c);
void bend_type_number(GgufFile *f, const GgufCase *c);
void bend_offset(GgufFile *f, const GgufCase *c);
void bend_all_on_one_range(GgufFile *f, const GgufCase *c);
void bend_gap(GgufFile *f, const GgufCase *c);
void bend_remove_tensor(GgufFile *f, const GgufCase *c);
void bend_add_tensor(GgufFile *f, const GgufCase *c);
void bend_layer_array(GgufFile *f, const GgufCase *c);
void bend_yarn(GgufFile *f, const GgufCase *c);
void bend_tokens(GgufFile *f, const GgufCase *c);
void bend_numbers(GgufFile *f, const GgufCase *c);
void bend_one_score(GgufFile *f, const GgufCase *c);
void bend_one_type(GgufFile *f, const GgufCase *c);
void bend_one_token(GgufFile *f, const GgufCase *c);
void bend_nul_in_token(GgufFile *f, const GgufCase *c);
void bend_merges(GgufFile *f, const GgufCase *c);
void bend_charsmap(GgufFile *f, const GgufCase *c);
void bend_split(GgufFile *f, const GgufCase *c);
