// config.json and generation_config.json going out: hf_config.c the other way.
#pragma once

#include "base/buffer.h"
#include "weights/out/outgoing.h"

// Appends the text of a config.json that makes this model again, in the spelling that transformers
// 4 and 5 both read. False: exit code 3 where the family's class has no key for what the model
// does, named.
bool hf_config_write(Buffer *json, const Outgoing *out, Error *error);

// The same for generation_config.json: sampling defaults and the ids that end a text.
void hf_generation_write(Buffer *json, const Checkpoint *from);
