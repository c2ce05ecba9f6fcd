// Bad GGUF files, and valid ones close to them, one row each: what is changed in a valid file, and
// the error that must come of it.
//
//     for (size_t i = 0; i < gguf_corpus_count(); i++) {
//         const GgufCase *bad = gguf_corpus(i);
//         uint8_t *bytes = gguf_case_write(bad, &size);   // malloced
//
// Nothing is random: every machine gets the same bytes.
#pragma once

#include "tests/support/files/gguf_writer.h"

typedef struct GgufCase {
    const char *id;      // "G25 dims 2^32 x 2^32"
    ErrorCode code;      // ERROR_NONE: it must open
    const char *message; // a part of it
    void (*corrupt)(GgufFile *file, const struct GgufCase *row);
    const char *name; // key or tensor, as `corrupt` wants it
    uint64_t a, b;
    double real;
    const char *text;
} GgufCase;

size_t gguf_corpus_count(void);
const GgufCase *gguf_corpus(size_t i);
uint8_t *gguf_case_write(const GgufCase *row, size_t *size);
