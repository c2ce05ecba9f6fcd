// Tile registers of AMX: a left factor and a right one of signed bytes, and sums in int32 (Intel's
// Software Developer's Manual, volume 1, chapter 18).
//
//     sums (n, 16) += left (n, depth) x right (depth, 16)         n <= 16, depth <= 64
//
// In memory, rows of the left factor and of the sums are any stride apart. Of the right factor four
// rows lie together, four bytes for each of 16 columns, as in the byte vectors of panels.h.
//
// EMULATED_TILES puts memory and AVX-512 in place of the registers: for tests on processors without
// AMX, and for AddressSanitizer, which does not see what a tile instruction reads.
#pragma once

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

// What each register holds. No enum: gcc makes names of registers out of these.
#define SUMS_0 0
#define SUMS_1 1
#define SUMS_2 2
#define SUMS_3 3
#define LEFT_0 4
#define LEFT_1 5
#define RIGHT_0 6
#define RIGHT_1 7

// The operand of LDTILECFG.
typedef struct TileConfig {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} TileConfig;

static inline TileConfig tile_config(int n, int depth) {
    TileConfig config = {.palette = 1};
    for (int i = SUMS_0; i <= RIGHT_1; i++) {
        config.row_bytes[i] = i == LEFT_0 || i == LEFT_1 ? (uint16_t)depth : 64;
        config.rows[i] = (uint8_t)(i >= RIGHT_0 ? depth / 4 : n);
    }
    return config;
}

#if defined(EMULATED_TILES)

static __thread struct {
    TileConfig config;
    uint8_t __attribute__((aligned(64))) rows[RIGHT_1 + 1][16][64];
} tiles;

// Of all registers; sets them to zero.
static inline void tiles_configure(int n, int depth) {
    memset(&tiles, 0, sizeof tiles);
    tiles.config = tile_config(n, depth);
}
static inline void tiles_release(void) {
    memset(&tiles, 0xff, sizeof tiles);
}
static inline void tiles_see_memory(void) {}
static inline void tile_zero(int tile) {
    memset(tiles.rows[tile], 0, sizeof tiles.rows[tile]);
}
// Most rows are whole. Under AddressSanitizer a memcpy is a call; a vector's address is checked all
// the same.
static inline void tile_copy_row(uint8_t *to, const uint8_t *from, size_t bytes) {
    if (bytes == 64)
        _mm512_storeu_si512(to, _mm512_loadu_si512(from));
    else
        memcpy(to, from, bytes);
}
static inline void tile_load(int tile, const void *from, size_t stride) {
    tile_zero(tile);
    for (size_t i = 0; i < tiles.config.rows[tile]; i++)
        tile_copy_row(tiles.rows[tile][i], (const uint8_t *)from + i * stride,
                      tiles.config.row_bytes[tile]);
}
static inline void tile_store(int tile, void *to, size_t stride) {
    for (size_t i = 0; i < tiles.config.rows[tile]; i++)
        tile_copy_row((uint8_t *)to + i * stride, tiles.rows[tile][i],
                      tiles.config.row_bytes[tile]);
}
// VNNI multiplies unsigned bytes with signed ones: (l + 128) r - 128 r.
static inline void tile_multiply(int sums, int left, int right) {
    typedef int32_t __attribute__((may_alias)) Four; // a memcpy is a call under ASan
    const __m512i of_128 = _mm512_set1_epi8((char)0x80);
    __m512i more = _mm512_setzero_si512();
    for (int k = 0; k < tiles.config.rows[right]; k++)
        more = _mm512_dpbusd_epi32(more, of_128, _mm512_load_si512(tiles.rows[right][k]));
    for (int t = 0; t < tiles.config.rows[sums]; t++) {
        const Four *fours = (const Four *)tiles.rows[left][t];
        __m512i sum = _mm512_sub_epi32(_mm512_load_si512(tiles.rows[sums][t]), more);
        for (int k = 0; k < tiles.config.rows[right]; k++) {
            __m512i l = _mm512_xor_si512(_mm512_set1_epi32(fours[k]), of_128);
            sum = _mm512_dpbusd_epi32(sum, l, _mm512_load_si512(tiles.rows[right][k]));
        }
        _mm512_store_si512(tiles.rows[sums][t], sum);
    }
}

#else

// Of all registers; sets them to zero. In assembler: of the configuration, gcc 12's intrinsic is
// said to read 8 bytes of 64, and stores to the others are left out.
static inline void tiles_configure(int n, int depth) {
    const TileConfig config = tile_config(n, depth);
    __asm__ volatile("ldtilecfg %0" : : "m"(config));
}
// Else every switch of threads would save the registers.
#define tiles_release() _tile_release()
// gcc 12 does not know that a tile is loaded from memory, and could move stores behind the load.
static inline void tiles_see_memory(void) {
    __asm__ volatile("" ::: "memory");
}
#define tile_zero(tile) _tile_zero(tile)
#define tile_load(tile, from, stride) _tile_loadd(tile, from, stride)
#define tile_store(tile, to, stride) _tile_stored(tile, to, stride)
#define tile_multiply(sums, left, right) _tile_dpbssd(sums, left, right)

#endif
