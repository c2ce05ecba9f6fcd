// Tokenizer: text <-> token ids. One interface for all algorithms.
//
//     Tokenizer *tokenizer = tokenizer_open(&source, &error);
//     IdList ids = {0};
//     tokenizer_encode(tokenizer, &ids, text, length, false, &error);
//     for (...) tokenizer_decode(tokenizer, &state, id, out, write) ...
//
// Algorithms and formats: SentencePiece .model (unigram and BPE), SPM-BPE (GGUF "llama",
// tokenizer.bin, and the byte-fallback tokenizer.json of Gemma, Llama 2, Mistral), byte-level BPE
// (GGUF "gpt2", tokenizer.json, vocab.json + merges.txt, the tiktoken text form).
#pragma once

#include "base/arena.h"
#include "base/buffer.h"
#include "base/error.h"
#include "weights/vocabulary.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Tokenizer Tokenizer;

typedef struct TokenizerSource {
    const char *path;             // a file, or a directory with tokenizer.json / tokenizer.model /
                                  // tokenizer.bin / vocab.json + merges.txt; or NULL
    const Vocabulary *vocabulary; // of a GGUF, used when path is NULL; borrowed until close
    const char *pretokenizer;     // overrides the file's pre-tokenizer pattern by name, or NULL
    int vocab_size;               // the model's; tokenizer.bin needs it. 0: unknown
} TokenizerSource;

// A file is copied before anything is checked; nothing of it stays open. NULL: exit code 3 (bad or
// unsupported file; the message has its path and the offset), 4 (cannot read, or written to
// meanwhile), 5.
Tokenizer *tokenizer_open(const TokenizerSource *source, Error *error);
void tokenizer_close(Tokenizer *tokenizer); // NULL is fine

// Appends the ids of `length` bytes of text (any bytes, NUL and invalid UTF-8 included); adds no
// BOS or EOS. With `special`, control tokens written in the text become their ids; without, only
// user-defined tokens do, as in the reference implementations. O(n log n). False: exit code 3 (the
// normalizer of a .model makes the text too long), 5.
bool tokenizer_encode(const Tokenizer *tokenizer, IdList *ids, const char *text, size_t length,
                      bool special, Error *error);

// Decodes one token. `first`: it is the first token of the text, or only BOS precedes it (SPM then
// drops one leading space). Control tokens decode to nothing unless `special`, ids out of range to
// nothing. Returns a pointer that is valid until the next call on this tokenizer, and its length.
const char *tokenizer_piece(Tokenizer *tokenizer, int32_t id, bool first, bool special,
                            size_t *length);

// The token's string in the vocabulary ("▁the", "<0x0A>", "Ġthe"), for tables; not terminated.
TextSpan tokenizer_spelling(const Tokenizer *tokenizer, int32_t id);
TokenType tokenizer_type(const Tokenizer *tokenizer, int32_t id);

// The id of the token with exactly this string (control tokens included), or -1.
int tokenizer_find(const Tokenizer *tokenizer, const char *spelling);

int tokenizer_size(const Tokenizer *tokenizer);
// Leaves out the tokens from `count` on, for which a model has no weights: some vocabularies have
// one more than the model, such as Gemma 3's <image_soft_token>. False, and nothing has changed:
// they are more than control tokens, so the vocabulary is another model's.
bool tokenizer_limit(Tokenizer *tokenizer, int count);
int tokenizer_bos(const Tokenizer *tokenizer);       // -1: none
bool tokenizer_adds_bos(const Tokenizer *tokenizer); // a prompt of this model begins with BOS
// Every id that ends a text or a chat message: the file's eos, eot, eom and the well-known names
// (<|eot_id|> <|eom_id|> <|im_end|> <|end|> <end_of_turn> <|endoftext|> <|end_of_text|> </s>).
size_t tokenizer_stops(const Tokenizer *tokenizer, int32_t *out, size_t capacity);
const char *tokenizer_description(const Tokenizer *tokenizer); // "byte-level BPE, pattern llama3"

// FNV-1a of what it was opened from (the file, or the fields of a GGUF) and of its description:
// tokenizers that encode differently have different digests. So has one vocabulary in two formats.
uint64_t tokenizer_digest(const Tokenizer *tokenizer);

// The first byte that was left out of a text since the tokenizer was opened, because the vocabulary
// has no token for it; -1: none.
int tokenizer_dropped(const Tokenizer *tokenizer);

// Steps of the merge loop since the tokenizer was opened; a test of O(n log n) reads it.
uint64_t tokenizer_steps(const Tokenizer *tokenizer);

// Streaming: collects the bytes of tokens and releases complete UTF-8 characters only.
//   utf8_stream_push: appends `length` bytes; *out/*out_length are what can be printed now
//   (borrowed until the next call). An invalid byte is released unchanged, once no continuation can
//   make it valid. utf8_stream_flush: releases the rest (an incomplete character at the end).
typedef struct Utf8Stream {
    char *buffer;
    size_t capacity, pending, released;
} Utf8Stream;
bool utf8_stream_push(Utf8Stream *stream, const char *bytes, size_t length, const char **out,
                      size_t *out_length, Error *error);
void utf8_stream_flush(Utf8Stream *stream, const char **out, size_t *out_length);
void utf8_stream_free(Utf8Stream *stream);

// ---- conversion (export.c) ----

// A tokenizer of any format as the Vocabulary of a GGUF, and such a Vocabulary as tokenizer.model
// or tokenizer.json.

// The spellings are borrowed from the tokenizer, the rest from `arena`. False: exit code 3 where a
// GGUF cannot express this tokenizer (a unigram model, a normalizer with a charsmap, a
// pre-tokenizer pattern without a name), 5.
bool tokenizer_export(const Tokenizer *tokenizer, Vocabulary *out, Arena *arena, Error *error);

// Appends a file with this vocabulary to `out` and sets *name to its usual name: "tokenizer.model"
// for model "llama", "tokenizer.json" for "gpt2". False: exit code 3 where the format cannot
// express it. Out of memory is left to out->failed.
bool vocabulary_write(Buffer *out, const Vocabulary *vocabulary, const char **name, Error *error);

// Appends the tokenizer_config.json that belongs to it: transformers reads the tokenizer class and
// the special tokens there.
void vocabulary_write_config(Buffer *out, const Vocabulary *vocabulary);
