// The readers of tokenizer files that limpid parses itself. A .model file is read in
// sentencepiece/, a GGUF's vocabulary comes parsed. Each fills a zeroed Tokenizer, as internal.h
// says. False: exit code 3 or 5.
#pragma once

#include "tokenizer/internal.h"

// A JSON text: a whole tokenizer.json, or a vocab.json, for which `merges` is the text of
// merges.txt (tokenizer_json.c). `pretokenizer` overrides the file's splitting pattern; NULL: it
// does not.
bool tokenizer_json_open(Tokenizer *tokenizer, TextSpan json, TextSpan merges,
                         const char *pretokenizer, Error *error);

// The tiktoken text form: lines of "base64 rank" (tiktoken.c).
bool tiktoken_open(Tokenizer *tokenizer, TextSpan text, const char *pretokenizer, Error *error);

// llama2.c's tokenizer.bin (tokenizer_bin.c). vocab_size: the model's, 0: unknown.
bool tokenizer_bin_open(Tokenizer *tokenizer, const uint8_t *bytes, size_t size, int vocab_size,
                        Error *error);
