// From named weights on the host to the device: the loading half of model_open.
#pragma once

#include "model/model.h"

// What model_weigh has found.
typedef struct WeightBytes {
    double matrices; // as they are stored
    size_t vectors;  // norms and biases, as they will be allocated
} WeightBytes;

// Checks every shape against the config and tells the device's plan of every matrix. False with
// exit code 3 (the tensor, wanted and got) or 5.
bool model_weigh(Model *m, const Weights *weights, WeightBytes *bytes, Error *error);

// Hands all weights to the device. False with exit code 3, 5 or 6; what was uploaded is freed by
// model_close.
bool model_upload(Model *m, const Weights *weights, const WeightBytes *bytes, Error *error);
