// From named weights on the host to the device: the loading half of model_open.
#pragma once

#include "model/model.h"

// Checks every shape against the config and hands all weights to the device. False with exit code 3
// (the tensor, wanted and got), 5 or 6; what was uploaded is freed by model_close.
bool model_upload(Model *m, const Weights *weights, Error *error);
