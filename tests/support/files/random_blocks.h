// Random weights made in the stored form itself, of every type and at the speed of memory: sane
// scales, no NaN, no denormals. No test framework: tests/programs/random_model.c is a program of
// its own.
#pragma once

#include "weights/matrix.h"

#include <stddef.h>
#include <stdint.h>

// The same generator as test_random, splitmix64.

// `data` = `count` elements (a multiple of the block) of about the given deviation, any address.
// `dtype` is not Q8_GROUP.
void random_elements(uint64_t *state, void *data, DType dtype, size_t count, float deviation);
