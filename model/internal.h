// What the files of model/ share. Nothing outside model/ includes it but tests. Who calls whom:
//
//   model_open      -> model_check_weights, model_upload (upload.c), rope_tables (rope.c)
//   model_forward   -> check_model_batch -> for each chunk: chunk_take -> layers (forward.c)
//                      -> all_finite, else find_nonfinite_stage (finite.c)
//   decoder_next    -> model_forward, or forward_sampled on the device
#pragma once

#include "model/model.h"

// ---- chunks: a batch in parts that the scratch can hold (chunk.c) ----

// Checks a batch against the model and the cache before anything is computed; see model_forward.
bool check_model_batch(Model *m, const Batch *batch, Error *error);

// Takes rows of the batch from `start` on into m->chunk, uploads them and enters them in the cache:
// as many as fit max_rows. A row that shortens its sequence begins a chunk of its own, since the
// rows before it must not see what it writes.
void chunk_take(Model *m, const Batch *batch, int start);

// ---- passes (forward.c) ----

// Whether options.stop was set in this pass: then its results are not to be used.
static inline bool model_stopped(Model *m) {
    return pass_stopped(&m->stop);
}

// Before the passes of a batch, or of all tokens that a Decoder computes.
static inline void model_clear_stop(Model *m) {
    m->stop.seen = 0;
}

// All chunks of a batch, without checks before or after.
void forward_batch(Model *m, const Batch *batch);

// The layers of this process for the rows of m->chunk.
void run_chunk(Model *m);

// The end of a pass: the final norm, the head and the soft cap, for the rows of m->chunk that want
// logits, from the residual stream in scratch.x.
void forward_logits(Model *m);

// One pass of a row for each of the sequences 0 .. n - 1, which continue with the tokens that
// `sampled` (n, device) holds. Their logits (n, vocab_size) replace those before. Only the device
// knows the tokens and the positions, from forward_sampled_begin on, which comes before the first.
void forward_sampled_begin(Model *m, int n);
void forward_sampled(Model *m, const int32_t *sampled, int n);

// ---- logits to the host (unembed.c) ----

// The first failure of the device, or of another process that has layers of the model; code
// ERROR_NONE while all is well. Borrowed.
const Error *model_failure(const Model *m);

// All rows of logits of the passes just run, to m->host_logits. False: the device failed (6), or
// the work was stopped (130), and m->n_host_rows stays 0.
bool fetch_logits(Model *m, Error *error);

// ---- NaN and infinity (finite.c) ----

// False where one of `count` numbers is NaN or infinite.
bool all_finite(const float *numbers, size_t count);
bool logits_finite(const Model *m); // of m->host_logits

// Some logit of the batch just run is not finite: runs it again with a listener on every stage and
// fills `error` (exit code 7) with the first stage that holds NaN or infinity. Returns false.
bool find_nonfinite_stage(Model *m, const Batch *batch, Error *error);

// ---- memory: what model_open allocates (memory.c) ----

// Replaces every 0 that means the default by that default.
ModelOptions model_defaults(const Config *config, const ModelOptions *options);

// One buffer of the scratch: the offset of its pointer in Scratch, its bytes in whole lines of 64.
typedef struct ScratchPart {
    size_t field, bytes;
} ScratchPart;
enum { SCRATCH_PARTS = 14 };
size_t scratch_parts(ScratchPart parts[SCRATCH_PARTS], const Config *config,
                     const ModelOptions *options); // the bytes of all

size_t logits_bytes(const Config *config, const ModelOptions *options); // device or host
size_t rope_bytes(const Config *config, const ModelOptions *options);   // one table: cos or sin
bool has_local_rope(const Config *config);

typedef struct HostMemory {
    size_t logits, lengths, chunk, layers;
    size_t stream, rows; // of messages to other ranks; 0 where all layers are here
} HostMemory;
HostMemory host_memory(const Config *config, const ModelOptions *options);

// What the device is told before the first allocation; m->weight_bytes are counted.
MemoryPlan memory_plan(const Model *m, const ModelOptions *options);

// ---- weights to the device (upload.c) ----

// Checks every shape against the config, counts m->weight_bytes and tells the device's plan of
// every matrix. Reads no weight. False with exit code 3 (the tensor, wanted and got) or 5.
bool model_check_weights(Model *m, const Weights *weights, Error *error);

// Hands all weights to the device. False with exit code 3, 5 or 6; what was uploaded is freed by
// model_close.
bool model_upload(Model *m, const Weights *weights, Error *error);

// ---- rotary position tables (rope.c) ----

// out[rope_dim / 2]: radians per position of each pair, for a context of `max_seq_len` positions,
// and what cos and sin are multiplied by. Double precision inside, rounded once.
void rope_frequencies(double *out, double *magnitude, const RopeConfig *rope, int rope_dim,
                      int max_seq_len);

// cos[max_seq_len, rope_dim / 2] and sin, from those frequencies; sin carries the sign.
// False: no memory.
bool rope_tables(float *cos, float *sin, const RopeConfig *rope, int rope_dim, int max_seq_len);

// Makes the tables that queries are rotated with out of those of rope_tables; rope->query_growth.
void rope_grow(float *cos_table, float *sin_table, const RopeConfig *rope, int rope_dim,
               int max_seq_len);
