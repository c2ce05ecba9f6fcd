// SentencePiece models written by hand, right ones and wrong ones: a tiny protobuf writer. And the
// ids that the library has for them.
//
//     ModelWriter w = {0};
//     model_piece(&w, "<unk>", 5, 0, 2);
//     model_trainer(&w, 2, true);
//     ... w.bytes, w.size ...
//     model_writer_free(&w);
#pragma once

#include "tests/test.h"
#include "tokenizer/tokenizer.h"

typedef struct ModelWriter {
    uint8_t *bytes;
    size_t size, capacity;
} ModelWriter; // zero it first

void model_writer_free(ModelWriter *w);
void model_raw(ModelWriter *w, const void *bytes, size_t size);
void model_varint(ModelWriter *w, uint64_t value);
void model_tag(ModelWriter *w, uint32_t field, unsigned wire);
void model_number(ModelWriter *w, uint32_t field, uint64_t value);
void model_bytes(ModelWriter *w, uint32_t field, const void *bytes, size_t size);

// The messages of a model. type 0: the field is left out.
void model_piece(ModelWriter *w, const char *text, size_t length, float score, unsigned type);
void model_trainer(ModelWriter *w, unsigned model_type, bool byte_fallback);
// Neither extra whitespace removed nor a charsmap, unless given.
void model_normalizer(ModelWriter *w, bool dummy_prefix, const void *charsmap, size_t size);

// <unk>, <s>, </s>, and the 256 byte pieces where asked for.
void model_usual_pieces(ModelWriter *w, bool bytes);

// A charsmap with one rule: `depth` bytes 'a' (and every shorter run of them) become `to`.
// malloced; free it.
uint8_t *charsmap_of_runs(unsigned depth, const char *to, size_t *size);

// Opens a model from bytes in memory; NULL where it is refused.
Tokenizer *sentencepiece_open_bytes(const void *bytes, size_t size, Error *error);

// A BPE model of "a", "b", "ab" and a space.
ModelWriter model_small(void);

// These open what `w` holds and free `w`. The test fails unless it is refused as a bad file for
// this cause, or is taken.
void model_refused(ModelWriter *w, const char *cause);
Tokenizer *model_taken(ModelWriter *w);
void model_fine(ModelWriter *w); // taken, and closed again

// A model of some forty short pieces of three letters and U+2581: normal, unused and user-defined
// ones, scores with ties, with and without bytes. plain: the normalizer only escapes spaces and no
// user-defined piece has one; else it also has rules, prefixes and the rest at random.
ModelWriter model_random(TestRandom *random, unsigned model_type, bool plain);

// ---- the library as an oracle: Debian's spm_encode ----

// Fails the test unless the lines have the ids that spm_encode prints for them. Every line ends
// with a newline. Skips the test where there is no spm_encode.
void same_as_spm_encode(Tokenizer *t, const void *model, size_t size, const char *text,
                        size_t length);
// The same with lines of runs of up to `longest` of two of the units after one another.
void model_same_as_library(const void *model, size_t size, const char *const *units, size_t n_units,
                           size_t longest);
