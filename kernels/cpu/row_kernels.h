// The table that the lanes/ files for rows, attention and sampling export, one per instruction set.
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef struct RowKernels {
    int unused;
} RowKernels;
