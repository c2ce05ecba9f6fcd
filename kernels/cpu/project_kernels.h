// The table that lanes/project.c exports, one per instruction set.
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef struct ProjectKernels {
    int unused;
} ProjectKernels;
