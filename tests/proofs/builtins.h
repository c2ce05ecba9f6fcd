// What gcc's checked arithmetic does, for Frama-C, which does not know it.
#pragma once

#include <stdint.h>

/*@ requires \valid(out); assigns *out;
    ensures (\result == 0) <==> (a + b <= 0xffffffffffffffff);
    ensures \result == 0 ==> *out == a + b; */
int __builtin_add_overflow(uint64_t a, uint64_t b, uint64_t *out);

/*@ requires \valid(out); assigns *out;
    ensures (\result == 0) <==> (a * b <= 0xffffffffffffffff);
    ensures \result == 0 ==> *out == a * b; */
int __builtin_mul_overflow(uint64_t a, uint64_t b, uint64_t *out);
