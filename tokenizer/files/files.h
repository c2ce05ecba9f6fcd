// Readers of tokenizer files. Each fills a Tokenizer from tokenizer_new, as internal.h describes.
// False: exit code 2 (unknown `pretokenizer`), 3, 5. SentencePiece .model files are read in
// sentencepiece/; the vocabulary of a GGUF arrives parsed.
#pragma once

#include "tokenizer/internal.h"

// tokenizer.json, or vocab.json with `merges`, the text of merges.txt (tokenizer_json.c).
// `pretokenizer`: the name of a pattern that overrides the file's, or NULL.
bool tokenizer_json_open(Tokenizer *tokenizer, TextSpan json, TextSpan merges,
                         const char *pretokenizer, Error *error);

// The text format of tiktoken: lines of "base64 rank" (tiktoken.c).
bool tiktoken_open(Tokenizer *tokenizer, TextSpan text, const char *pretokenizer, Error *error);

// llama2.c's tokenizer.bin (tokenizer_bin.c). vocab_size: the model's, which must match; 0:
// unknown.
bool tokenizer_bin_open(Tokenizer *tokenizer, const uint8_t *bytes, size_t size, int vocab_size,
                        Error *error);
