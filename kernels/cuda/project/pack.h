// Packing: rows as a file stores them -> the planes that matrix.h samples, on the host, by several
// threads at once.
//
//     Packer *packer = packer_open(&matrix, 0);
//     packer_run(packer, to, first, count); // as often as it takes, in any order
//     packer_close(packer);
//
// A matrix is a run of units, which are packed by themselves: 32 columns of a row (K-quants: a
// block of 256; float types: 16 bytes of a padded row). Unit u is the same bytes of each plane
// whoever packs it.
#pragma once

#include "weights/matrix.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { PACK_MOST_THREADS = 32, N_PLANES = 4 };

// What a matrix becomes. Planes in the order of matrix.h: low, high, scales, supers.
typedef struct PackedShape {
    DType dtype;                 // Q8_GROUP with odd groups becomes F32
    size_t units, row_units;     // of the matrix, of a row
    size_t unit_bytes[N_PLANES]; // 0: there is no such plane
} PackedShape;

PackedShape packed_shape(const Matrix *matrix);

typedef struct Packer Packer;

// Borrows what the matrix points to. threads 0: as many as this process may use and the matrix is
// worth; fewer where the system refuses. NULL: no memory.
Packer *packer_open(const Matrix *matrix, int threads);
void packer_close(Packer *packer); // NULL is fine

// Units first .. first + count - 1: to = count units of the low plane, then of the high one, ..
void packer_run(Packer *packer, uint8_t *to, size_t first, size_t count);

#ifdef __cplusplus
}
#endif
