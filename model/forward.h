// What the files behind model_forward share; nobody outside model/ needs it.
#pragma once

#include "model/model.h"

// Checks a batch against the model and the cache before anything is computed; see model_forward.
bool batch_check(Model *m, const Batch *batch, Error *error);

// Takes rows of the batch from `start` on into m->piece, uploads them and books them in the cache.
// As many as fit max_rows; a row that shortens its sequence begins a piece of its own, since the
// rows before it must not see what it writes.
void piece_take(Model *m, const Batch *batch, int start);

// The pass itself, piece by piece, without checks before or after.
void forward_batch(Model *m, const Batch *batch);

// Passes of a row for each of the sequences 0 .. n - 1, which go on with the tokens that `drawn`
// (n, device) holds. Their logits (n, vocab_size) take the place of those before. Only the device
// knows the tokens and the positions, from forward_drawn_begin on, which comes before the first.
void forward_drawn_begin(Model *m, int n);
void forward_drawn(Model *m, const int32_t *drawn, int n);

// False where one of `count` numbers is NaN or infinite.
bool all_finite(const float *numbers, size_t count);

// Some logit of the batch just run is not finite: runs it once more, looking at every stage, and
// fills `error` (exit code 7) with the first one that holds NaN or infinity. Returns false.
bool blame_stage(Model *m, const Batch *batch, Error *error);
