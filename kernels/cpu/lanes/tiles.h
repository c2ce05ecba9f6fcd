// Tile registers of AMX: a left factor of signed bytes, a right one, and int32 sums (Intel's
// Software Developer's Manual, volume 1, chapter 18).
//
//     sums (n, 16) += left (n, depth) x right (depth, 16)         n <= 16, depth <= 64
//
// The right factor lies in memory by fours of its rows: 16 times 4 bytes, as the byte vectors of
// panels.h.
#pragma once

#include <immintrin.h>
#include <stdint.h>

// The operand of LDTILECFG.
typedef struct TileConfig {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} TileConfig;

// What each register holds. No enum: gcc makes names of registers out of these.
#define SUMS_0 0
#define SUMS_1 1
#define SUMS_2 2
#define SUMS_3 3
#define LEFT_0 4
#define LEFT_1 5
#define RIGHT_0 6
#define RIGHT_1 7

// gcc 12 takes its instructions for ones that read no memory: before them goes this.
static inline void tiles_see_memory(void) {
    __asm__ volatile("" ::: "memory");
}

// Sets all registers to zero.
static inline void tiles_configure(int n, int depth) {
    TileConfig config = {.palette = 1};
    for (int i = SUMS_0; i <= RIGHT_1; i++) {
        config.row_bytes[i] = i == LEFT_0 || i == LEFT_1 ? (uint16_t)depth : 64;
        config.rows[i] = (uint8_t)(i >= RIGHT_0 ? depth / 4 : n);
    }
    __asm__ volatile("" ::"r"(&config) : "memory");
    _tile_loadconfig(&config);
}
