// A program that tries all inputs of something: every float32, or every number of 16 bits.
//
//     static const Part PARTS[] = {{"exp", "exp_float, units in the last place", all_exp, true}};
//
//     int main(int argc, char **argv) {
//         return exhaustive(argc, argv, PARTS, 1);
//     }
//
//     PROGRAM                     all of it;  PROGRAM exp ta: the parts whose names begin so
//     PROGRAM --every 65537 ..    each 65537th float32: some seconds, for the tests
#pragma once

#include "kernels/cpu/cpu.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// What a thread found: the worst error in a part's own unit, and whether one was over its bound.
typedef struct Tally {
    uint64_t inputs, wrong;
    double worst;
    float at;          // where
    const char *where; // which rule or instruction set; NULL: there is one
} Tally;

typedef struct Range {
    uint64_t first, end, every; // bit patterns
} Range;

typedef struct Part {
    const char *name, *says;
    void (*run)(Range range, Tally *tally);
    bool floats; // over all float32, by all threads; else over 2^16, by one
} Part;

// A result whose error is this, in the part's unit; above the bound it is wrong.
void tally_take(Tally *t, double error, double bound, float x, const char *where);

float float_of_bits(uint32_t bits);
double half_value(uint16_t h); // by its definition

// The instruction sets of this program that this processor has, best first, portable last; their
// number. A range is tried with all of them.
enum { MOST_SETS = 8 };
size_t supported_sets(const CpuKernels **sets);

// Runs the parts and prints a line for each; the exit code.
int exhaustive(int argc, char **argv, const Part *parts, size_t n_parts);
