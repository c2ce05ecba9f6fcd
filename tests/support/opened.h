// A model of limpid.h with one context, and the ids of a prompt: what tests of the library have.
#pragma once

#include "limpid.h"

enum { TEST_MOST_IDS = 256 };
#define TEST_PROMPT "Once upon a time"

typedef struct Opened {
    limpid_model *model;
    limpid_context *context;
    limpid_info info;
    int32_t ids[TEST_MOST_IDS]; // of TEST_PROMPT
    int n;
} Opened;

Opened test_opened(const limpid_options *options); // small_model(); NULL: all 0
void test_opened_close(Opened *o);
void test_eval(Opened *o, const limpid_batch *batch); // fails the test where it fails
