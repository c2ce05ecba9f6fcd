// The emulator's twin of kernels/cuda/machine.h, under the same names: what no CPU has, in plain
// loops. The include path chooses between the two.
#pragma once

#include <array>
#include <cuda_runtime.h>
#include <map>
#include <math.h>
#include <stdint.h>
#include <string.h>
#include <vector>

extern "C" {
#include "weights/quant.h"
}

enum { WARP = 32 };
#define ALL_LANES 0xffffffffu
#define DEVICE_FUNCTION
#define UNROLL
#define NO_UNROLL

template <class T> static inline T &block_memory() {
    return *(T *)emulator::block_memory(sizeof(T));
}

static inline int dot4(int a, int b, int sum) {
    for (int i = 0; i < 32; i += 8)
        sum += (int)(int8_t)(a >> i) * (int)(int8_t)(b >> i);
    return sum;
}

static inline unsigned first_bytes(const unsigned (&w)[4]) {
    return (w[0] & 255) | (w[1] & 255) << 8 | (w[2] & 255) << 16 | w[3] << 24;
}

static inline float half_value(uint16_t h) {
    return half_to_float(h);
}
static inline uint16_t half_bits(float f) {
    return float_to_half(f);
}

static inline float power_of_2(float x) {
    return exp2f(x);
}

static inline void wait_for_earlier_kernels() {
    emulator::wait_for_earlier_kernels();
}
static inline void let_next_kernel_start() {}
static inline unsigned arrive(unsigned *counter, unsigned count) {
    return atomicAdd(counter, count);
}
static inline void arrive_and_go(unsigned *counter) {
    atomicAdd(counter, 1u);
}
static inline void give_up() {
    emulator::give_up();
}
static inline void store_for_host(uint64_t *p, uint64_t value) {
    emulator::store_for_host(p, value);
}
static inline int4 load_stream(const void *p) {
    return *(const int4 *)p;
}

static inline void prefetch(const uint8_t *p, unsigned bytes) {
    if (!bytes) return;
    (void)*(const volatile uint8_t *)p; // is it there?
    (void)*(const volatile uint8_t *)(p + bytes - 1);
}

// Every lane shows the others its twelve numbers; kernels/cuda/machine.h says which of them lies
// where.
static inline void multiply_halves(float (&d)[4], const unsigned (&a)[4], unsigned b0,
                                   unsigned b1) {
    const unsigned words[6] = {a[0], a[1], a[2], a[3], b0, b1};
    float mine[12];
    for (int w = 0; w < 6; w++) {
        mine[2 * w] = half_value((uint16_t)words[w]);
        mine[2 * w + 1] = half_value((uint16_t)(words[w] >> 16));
    }
    const uint64_t *lanes = emulator::exchange_all((uintptr_t)mine, "multiply_halves");
    int i = (int)emulator::lane() / 4, j = (int)emulator::lane() % 4 * 2;
    for (int e = 0; e < 4; e++) {
        for (int k = 0; k < 16; k++) {
            const float *left = (const float *)lanes[i * 4 + k % 8 / 2];
            const float *right = (const float *)lanes[(j + e % 2) * 4 + k % 8 / 2];
            d[e] =
                fmaf(left[2 * (e / 2 + 2 * (k / 8)) + k % 2], right[8 + 2 * (k / 8) + k % 2], d[e]);
        }
    }
    emulator::sync_warp("multiply_halves");
}

static inline void load_matrices(unsigned (&m)[4], const void *row) {
    const uint64_t *rows = emulator::exchange_all((uintptr_t)row, "load_matrices");
    unsigned i = emulator::lane() / 4, j = emulator::lane() % 4 * 2;
    for (unsigned k = 0; k < 4; k++) {
        const uint16_t *of = (const uint16_t *)rows[8 * k + i];
        m[k] = of[j] | (unsigned)of[j + 1] << 16;
    }
}
static inline void load_matrices_transposed(unsigned (&m)[4], const void *row) {
    const uint64_t *rows = emulator::exchange_all((uintptr_t)row, "load_matrices_transposed");
    unsigned i = emulator::lane() / 4, j = emulator::lane() % 4 * 2;
    for (unsigned k = 0; k < 4; k++) {
        const uint16_t *first = (const uint16_t *)rows[8 * k + j];
        const uint16_t *second = (const uint16_t *)rows[8 * k + j + 1];
        m[k] = first[i] | (unsigned)second[i] << 16;
    }
}

// As late as possible: until the thread waits there are NaNs where it copies to.
struct AsyncCopy {
    void *to;
    const void *from; // NULL: zeros
};
static inline std::vector<AsyncCopy> &async_copies() { // of the thread that is running
    static std::map<std::array<unsigned, 4>, std::vector<AsyncCopy>> of_threads;
    return of_threads[{threadIdx.x, blockIdx.x, blockIdx.y, blockIdx.z}];
}
static inline void copy_async(void *to, const void *from, bool wanted) {
    memset(to, 0xff, 16);
    if (wanted) (void)*(const volatile char *)from; // may it be read already?
    async_copies().push_back({to, wanted ? from : nullptr});
}
static inline void wait_for_copies() {
    std::vector<AsyncCopy> &copies = async_copies();
    for (const AsyncCopy &copy : copies)
        copy.from ? memcpy(copy.to, copy.from, 16) : memset(copy.to, 0, 16);
    copies.clear();
}

typedef uint64_t CopyBarrier;
static inline void copy_barrier_init(CopyBarrier *barrier) {
    emulator::copy_barrier_init(barrier);
}
static inline void copy_barriers_made() {}
static inline void copies_expected(CopyBarrier *barrier, unsigned bytes) {
    emulator::copies_expected(barrier, bytes);
}
static inline void copy_bulk(void *to, const void *from, unsigned bytes, CopyBarrier *barrier) {
    emulator::copy_bulk(to, from, bytes, barrier);
}
static inline void wait_for_bulk(CopyBarrier *barrier, unsigned parity) {
    emulator::wait_for_bulk(barrier, parity);
}

static inline unsigned load_counter(const unsigned *counter) {
    emulator::may_switch("load_counter");
    const volatile unsigned *now = counter;
    unsigned count = *now;
    return emulator::poll(counter, count, "load_counter") ? *now : count;
}

template <class T> static inline T &launched_memory() {
    return *(T *)emulator::launched_memory(sizeof(T));
}

static inline void *library_open(const char *path) {
    return emulator::library_open(path);
}
static inline void *library_symbol(void *library, const char *name) {
    return emulator::library_symbol(library, name);
}
static inline void library_close(void *library) {
    emulator::library_close(library);
}
static inline bool driver_is_ready() {
    return true;
}

// Switching fibers is most of the emulator's time: one exchange makes the tree that butterflies
// would make of five.
static inline float warp_sum(float v) {
    return emulator::tree(
        v, [](float a, float b) __attribute__((always_inline)) { return a + b; });
}
static inline float warp_max(float v) {
    return emulator::tree(
        v, [](float a, float b) __attribute__((always_inline)) { return fmaxf(a, b); });
}
static inline uint64_t warp_largest(uint64_t v) {
    return emulator::tree(
        v, [](uint64_t a, uint64_t b) __attribute__((always_inline)) { return b > a ? b : a; });
}
