// SavedLogits: the logits of every scored position of a text, in a safetensors file, so that other
// runs (another precision, cache, backend, program) can be held against them.
//
//   targets  I64 (rows)              the ids that the rows predict
//   logits   F32 (rows, vocab_size)  before softmax, as the model gives them
//
// The metadata says what they belong to: format "limpid-logits", text_hash, window, stride,
// second_half, vocab_size, and for people model, precision, kv. A row takes 4 vocab_size bytes.
// Measured on SmolLM2: float16 would halve that, and its rounding alone be a divergence of 4e-7
// nats (log-probabilities; 4e-6 for logits), as much as all that the default precision differs by.
#pragma once

#include "base/error.h"
#include "commands/perplexity/scoring.h"
#include "weights/hf/safetensors.h"
#include "weights/out/write.h"

// What two runs must share.
typedef struct LogitsKey {
    TextWindows windows;
    int vocab_size;
    size_t rows, used;  // scored positions; ids that the windows look at
    const int32_t *ids; // (used) of the text, borrowed
    const char *model;  // of this run, for people
    const char *precision, *kv;
} LogitsKey;

// ---- out ----

typedef struct LogitsWriter {
    SafetensorsWriter *out;
    size_t row_bytes, rows;
} LogitsWriter;

// Begins the file and writes the targets. False: exit code 4 or 5.
bool logits_writer_open(LogitsWriter *writer, const char *path, const LogitsKey *key, Error *error);
bool logits_writer_put(LogitsWriter *writer, const float *logits, Error *error); // the next row
bool logits_writer_finish(LogitsWriter *writer, Error *error);
void logits_writer_close(LogitsWriter *writer); // without finish nothing is left behind

uint64_t saved_logits_bytes(const LogitsKey *key); // what the file will take

// ---- in ----

typedef struct SavedLogits {
    SafetensorsFile file;
    const char *path;
    const uint8_t *rows; // inside the mapping, at any alignment
    float *row;          // (vocab_size) owned
    size_t row_bytes, n_rows, next;
    const char *model, *precision, *kv; // of the run that was saved; borrowed, or NULL
} SavedLogits;

// Exit code 3 with what differs where the file is no such file or belongs to another text, window
// or vocabulary.
bool saved_logits_open(SavedLogits *saved, const char *path, const LogitsKey *key, Error *error);
// The next row, borrowed until the call after. NULL: exit code 3 (not finite) or 4 (the file was
// cut).
const float *saved_logits_next(SavedLogits *saved, Error *error);
void saved_logits_close(SavedLogits *saved); // zeroed is fine
