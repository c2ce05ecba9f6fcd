// What every kind of tokenizer has to do with a long text: O(n log n) steps of merging, under two
// seconds for a megabyte, and no more of the stack than a short text takes.
#pragma once

#include "tokenizer/tokenizer.h"

// Encodes texts of 1 MB (64 KB under sanitizers), each in a thread with a small stack: one letter,
// spaces, newlines, a CJK character, digits, punctuation, pairs, random bytes. Fails the test where
// the whole takes more than 2.3 times the steps of its half, or too long. Then 28 shorter texts
// that are hard for some tokenizer: four times the text in less than eight times the time. With
// LIMPID_LONG_TEXTS in the environment it prints the processor time that a megabyte of each takes.
void test_long_texts(Tokenizer *tokenizer);
