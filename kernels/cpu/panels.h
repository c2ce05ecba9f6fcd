// A packed matrix: panels of 16 output rows, one row per lane. A kernel never adds across lanes, so
// the result of a row does not depend on its neighbours.
//
// Float types are stored in strips of up to four panels side by side, read as one stream:
//
//     strip of w panels:   k = 0: row 0 .. 16w-1 | k = 1: row 0 .. 16w-1 | ...
//
// Quantised types are cut into cells of 32 columns. Two cells make a pair, eight make a superblock
// of 256 columns (the last superblock of a row may be shorter). All parts start on cache lines:
//
//     panel:       superblock | superblock | ...
//     superblock:  d[16], dmin[16] (K-quants) | pair | pair | pair | pair
//     pair:        scales of cell 0 | scales of cell 1 | planes of cell 0 | planes of cell 1
//
// This order makes one stream of rising addresses. Scales in a separate stream of the same page
// cost half of the bandwidth on Zen 4.
//
// The elements of a cell are stored as unsigned integers: signed ones have a constant, the centre,
// added (Q4_0: 0 .. 15, Q8_0: 0 .. 255). They are split into planes of 8, 4, 2 and 1 bits. A plane
// consists of vectors of 64 bytes, four bytes for each row. A byte of a plane of b bits has
// 8/b fields; field f of all planes makes the element:
//
//     byte 4r + i:   | f = 8/b - 1 | ... | f = 1 | f = 0 |   f = 8/b and up: the next 64 bytes
//     field f of it: column 8 (f / 2) + 2 (f % 2) + (0, 4, 1, 5)[i] of row r,   f = 0 .. 7
//
// A shift and a mask (neither for 8 bits) give "byte vector" f: 64 elements to be multiplied with
// bytes (the digits of the activations). Word vector j has columns 2j and 2j + 1 of 16 rows, to be
// multiplied with int16: the lower bytes of byte vector f's 16-bit words are word vector
// j = 4 (f / 2) + f % 2, the upper bytes word vector j + 2.
//
//     type     planes     bytes   scales of a cell, 16 rows each          packed / stored
//     Q8_0     8          512     d: half                                 1.00
//     Q8_GROUP 8          512     float                                   1.06 at groups of 64
//     Q4_0     4          256     d: half                                 1.00
//     Q4_1     4          256     d, m: half                              1.00
//     Q5_0     4 1        320     d: half                                 1.00
//     Q5_1     4 1        320     d, m: half                              1.00
//     Q2_K     2          128     sc + 16 sm: byte, for two groups        1.00
//     Q3_K     2 1        192     sc: int8, for two groups                1.05
//     Q4_K     4          256     sc, sm: byte                            1.03
//     Q5_K     4 1        320     sc, sm: byte                            1.02
//     Q6_K     4 2        384     sc: int8, for two groups                1.01
#pragma once

#include "kernels/kernels.h"
#include "weights/quant.h"

enum {
    PANEL_ROWS = 16,
    STRIP_PANELS = 4, // float types
    CELL_COLS = 32,
    SUPERBLOCK_CELLS = 8,
};

typedef struct PanelFormat {
    uint16_t plane_bytes; // of a cell; 0: a float type
    uint8_t scale_bytes;  // of a cell
    uint8_t header_bytes; // of a superblock: d, dmin
    uint8_t high_bits;    // of the second plane: 0, 1 or 2
    uint8_t low_bits;     // of the first plane: 8, 4 or 2; float types: bytes per element
    uint8_t groups;       // scale groups per cell: 1 of 32 or 2 of 16
    uint8_t centre;       // element = stored - centre; a power of two, or 0
    bool affine;          // element * s + m
} PanelFormat;

// A function and not a table, so that a kernel for one type is compiled with its numbers.
static inline PanelFormat panel_format(DType dtype) {
    switch (dtype) { // planes, scales, header, high, low, groups, centre, affine
    case DTYPE_F32: return (PanelFormat){0, 0, 0, 0, 4, 0, 0, false};
    case DTYPE_F16:
    case DTYPE_BF16: return (PanelFormat){0, 0, 0, 0, 2, 0, 0, false};
    case DTYPE_Q8_0: return (PanelFormat){512, 32, 0, 0, 8, 1, 128, false};
    case DTYPE_Q8_GROUP: return (PanelFormat){512, 64, 0, 0, 8, 1, 128, false};
    case DTYPE_Q4_0: return (PanelFormat){256, 32, 0, 0, 4, 1, 8, false};
    case DTYPE_Q4_1: return (PanelFormat){256, 64, 0, 0, 4, 1, 0, true};
    case DTYPE_Q5_0: return (PanelFormat){320, 32, 0, 1, 4, 1, 16, false};
    case DTYPE_Q5_1: return (PanelFormat){320, 64, 0, 1, 4, 1, 0, true};
    case DTYPE_Q2_K: return (PanelFormat){128, 32, 64, 0, 2, 2, 0, true};
    case DTYPE_Q3_K: return (PanelFormat){192, 32, 64, 1, 2, 2, 4, false};
    case DTYPE_Q4_K: return (PanelFormat){256, 32, 64, 0, 4, 1, 0, true};
    case DTYPE_Q5_K: return (PanelFormat){320, 32, 64, 1, 4, 1, 0, true};
    case DTYPE_Q6_K: return (PanelFormat){384, 32, 64, 2, 4, 2, 32, false};
    case DTYPE_COUNT: break;
    }
    return (PanelFormat){0};
}

struct DeviceMatrix {
    DType dtype; // as packed
    size_t rows, cols;
    size_t n_panels;    // of 16 rows, the last one filled up with zeros
    size_t panel_bytes; // quantised: of each panel; float types: of 16 rows in a strip
    uint8_t *panels;    // owned
};

// Where the scales and the planes of cell c begin in their superblock, and where the superblock
// ends.
static inline size_t cell_scales_at(const PanelFormat *f, size_t c) {
    return f->header_bytes + c / 2 * 2 * (f->scale_bytes + f->plane_bytes) + c % 2 * f->scale_bytes;
}
static inline size_t cell_planes_at(const PanelFormat *f, size_t c) {
    size_t pair = f->header_bytes + c / 2 * 2 * (f->scale_bytes + f->plane_bytes);
    return pair + 2 * f->scale_bytes + c % 2 * f->plane_bytes;
}
static inline size_t superblock_bytes(const PanelFormat *f, size_t n_cells) {
    return cell_planes_at(f, n_cells - 1) + f->plane_bytes;
}
