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

// One more pass, of one row: sequence 0 goes on with the token that `drawn` (device) holds. Its
// logits take the place of those before. Only the device knows the token and the positions.
void forward_drawn(Model *m, const int32_t *drawn);

// False where one of `count` numbers is NaN or infinite.
bool all_finite(const float *numbers, size_t count);

// Some logit of the batch just run is not finite: runs it once more, looking at every stage, and
// fills `error` (exit code 7) with the first one that holds NaN or infinity. Returns false.
bool blame_stage(Model *m, const Batch *batch, Error *error);
