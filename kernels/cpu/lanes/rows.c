// Exports the table of row_kernels.h for one instruction set.
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/simd.h"

extern const RowKernels ISA_NAME(row_kernels);
const RowKernels ISA_NAME(row_kernels) = {0};
