// Tokenizer: text <-> token ids, of whatever kind, behind one small interface.
//
//     Tokenizer *tokenizer = tokenizer_open(&source, &error);
//     IdList ids = {0};
//     tokenizer_encode(tokenizer, &ids, text, length, false, &error);
//     for (...) tokenizer_decode(tokenizer, &state, id, out, write) ...
//
// Kinds: sentencepiece .model (through libsentencepiece), SPM-BPE (GGUF "llama", tokenizer.bin,
// and the byte-fallback tokenizer.json of Gemma, Llama 2, Mistral), byte-level BPE (GGUF "gpt2",
// tokenizer.json, vocab.json + merges.txt, the tiktoken text form).
#pragma once

#include "base/error.h"
#include "base/ids.h"
#include "weights/vocabulary.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Tokenizer Tokenizer;

typedef struct TokenizerSource {
    const char *path;             // a file, or a directory with tokenizer.json / tokenizer.model /
                                  // tokenizer.bin / vocab.json + merges.txt; or NULL
    const Vocabulary *vocabulary; // of a GGUF, used when path is NULL; borrowed until close
    const char *pretokenizer;     // name that overrides the file's splitting pattern, or NULL
    int vocab_size;               // the model's; tokenizer.bin needs it. 0: unknown
} TokenizerSource;

// NULL: exit code 3 (bad or unsupported file, naming it and the place), 4, 5.
Tokenizer *tokenizer_open(const TokenizerSource *source, Error *error);
void tokenizer_close(Tokenizer *tokenizer); // NULL is fine

// Appends the ids of `length` bytes of text (any bytes, NUL and invalid UTF-8 included); adds no
// BOS or EOS. With `special`, control tokens written in the text are recognised; without, only
// user-defined ones are, as every reference does. O(n log n). False: exit code 5.
bool tokenizer_encode(const Tokenizer *tokenizer, IdList *ids, const char *text, size_t length,
                      bool special, Error *error);

// The bytes that one token adds to a text. `first`: nothing but BOS came before it (SPM kinds then
// drop one leading space). Control tokens add nothing unless `special`. Returns a borrowed pointer,
// valid until the next call on this tokenizer, and its length; an id out of range adds nothing.
const char *tokenizer_piece(Tokenizer *tokenizer, int32_t id, bool first, bool special,
                            size_t *length);

// The piece as the vocabulary spells it ("▁the", "<0x0A>", "Ġthe"), for tables; not terminated.
TextSpan tokenizer_spelling(const Tokenizer *tokenizer, int32_t id);
TokenType tokenizer_type(const Tokenizer *tokenizer, int32_t id);

// Id of the token spelt exactly like this (control tokens included), or -1.
int tokenizer_find(const Tokenizer *tokenizer, const char *spelling);

int tokenizer_size(const Tokenizer *tokenizer);
int tokenizer_bos(const Tokenizer *tokenizer);       // -1: none
bool tokenizer_adds_bos(const Tokenizer *tokenizer); // a prompt of this model begins with BOS
// Every id that ends a text or a turn: the file's eos, eot, eom and the well-known names
// (<|eot_id|> <|eom_id|> <|im_end|> <|end|> <end_of_turn> <|endoftext|> <|end_of_text|> </s>).
size_t tokenizer_stops(const Tokenizer *tokenizer, int32_t *out, size_t capacity);
const char *tokenizer_description(const Tokenizer *tokenizer); // "byte-level BPE, pattern llama3"

// The work counter of the O(n log n) test: steps of merging since the tokenizer was opened.
uint64_t tokenizer_steps(const Tokenizer *tokenizer);

// Streaming: collects token bytes and releases only whole UTF-8 characters.
//   utf8_stream_push: appends `length` bytes; *out/*out_length are what can be shown now (borrowed
//   until the next call). An invalid byte is released as it is, as soon as it is known to be one.
//   utf8_stream_flush: releases what is left (half a character at the end).
typedef struct Utf8Stream {
    char *buffer;
    size_t capacity, pending, released;
} Utf8Stream;
bool utf8_stream_push(Utf8Stream *stream, const char *bytes, size_t length, const char **out,
                      size_t *out_length, Error *error);
void utf8_stream_flush(Utf8Stream *stream, const char **out, size_t *out_length);
void utf8_stream_free(Utf8Stream *stream);
