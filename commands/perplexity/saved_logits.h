// SavedLogits: the logits of every scored token of a text, in a safetensors file, to compare other
// runs with them (another precision, cache, backend or program).
//
//   targets  I64 (rows)              the ids of the scored tokens
//   logits   F32 (rows, vocab_size)  the rows that predict them, before softmax
//
// The metadata identifies them: format "limpid-logits", text_hash, window, stride, second_half,
// vocab_size; and for the reader: model, precision, kv. A row takes 4 * vocab_size bytes. Float16
// would halve that, but on SmolLM2 its rounding alone is a divergence of 4e-7 nats for log
// probabilities and 4e-6 for logits, as much as that of the default precision.
#pragma once

#include "base/error.h"
#include "commands/perplexity/scoring.h"
#include "weights/hf/safetensors.h"
#include "weights/out/write.h"

// What two runs must have in common.
typedef struct LogitsKey {
    TextWindows windows;
    int vocab_size;
    size_t rows, used;  // scored tokens; tokens that the windows read
    const int32_t *ids; // (used) of the text, borrowed
    int32_t bos;        // begins each window of the second halves in place of its id; -1: none does
    const char *model;  // of this run, for the reader
    const char *precision, *kv;
} LogitsKey;

// ---- out ----

typedef struct LogitsWriter {
    SafetensorsWriter *out;
    size_t row_bytes, rows;
} LogitsWriter;

// Begins the file and writes the targets. False: exit code 2, 4 or 5.
bool logits_writer_open(LogitsWriter *writer, const OutputFile *place, const LogitsKey *key,
                        Error *error);
bool logits_writer_put(LogitsWriter *writer, const float *logits, Error *error); // the next row
bool logits_writer_finish(LogitsWriter *writer, Error *error);
void logits_writer_close(LogitsWriter *writer); // without finish nothing is left behind

uint64_t saved_logits_bytes(const LogitsKey *key); // size of the file

// ---- in ----

typedef struct SavedLogits {
    SafetensorsFile file;
    const char *path;
    const uint8_t *rows; // inside the mapping, at any alignment
    float *row;          // (vocab_size) owned
    size_t row_bytes, n_rows, next;
    const char *model, *precision, *kv; // of the run that was saved; borrowed, or NULL
} SavedLogits;

// Exit code 3, with what differs, if this is no file of saved logits, or one of another text,
// window or vocabulary.
bool saved_logits_open(SavedLogits *saved, const char *path, const LogitsKey *key, Error *error);
// The next row, borrowed until the next call. NULL: exit code 3 (a value is not finite) or 4 (the
// file was cut short).
const float *saved_logits_next(SavedLogits *saved, Error *error);
void saved_logits_close(SavedLogits *saved); // zeroed is fine
