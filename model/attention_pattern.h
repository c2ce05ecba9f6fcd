// Which keys a layer's queries see, from the model's Config or as somebody asked to look at it.
#pragma once

#include "kernels/kernels.h"
#include "weights/config.h"

// The layer's own pattern: causal, with its window.
KeyPattern attention_pattern(const Config *config, int layer);

// "causal", "local:8", "strided:4", "global:4", "block:8" -> pattern; false: not one of these.
bool attention_pattern_parse(KeyPattern *pattern, const char *text);

// Number of (query, key) pairs of n positions that a pattern keeps.
uint64_t attention_pattern_count(const KeyPattern *pattern, int n);
