#include "tests/cuda/schedule.h"

#include <cstdlib>
#include <numeric>
#include <utility>

namespace emulator {

namespace {

constexpr uint64_t SEED = 88172645463325252ull;

uint64_t state = SEED;

uint64_t next_random(uint64_t *random) {
    *random ^= *random << 13, *random ^= *random >> 7, *random ^= *random << 17;
    return *random;
}

} // namespace

int schedule() {
    const char *text = getenv("EMULATOR_SCHEDULE");
    int kind = text ? atoi(text) : 0;
    static int seed;
    if (kind != seed) state = SEED + (uint64_t)kind * 0x9e3779b97f4a7c15ull;
    seed = kind;
    return kind;
}

unsigned draw(unsigned below) {
    return (unsigned)((next_random(&state) >> 16) % below);
}

ThreadOrder thread_order(unsigned n, int kind) {
    if (kind >= SIDE_BY_SIDE) kind = (int)draw(SIDE_BY_SIDE);
    ThreadOrder order = {std::vector<unsigned>(n), kind < 3 ? n : 32};
    uint64_t random = SEED;
    for (unsigned i = 0; i < n; i++)
        order.threads[i] = kind == 1 || kind == 4 ? n - 1 - i : i;
    for (unsigned i = n - 1; kind == 2 && i; i--)
        std::swap(order.threads[i], order.threads[next_random(&random) % (i + 1)]);
    return order;
}

BlockOrder::BlockOrder(dim3 blocks, int order)
    : grid(blocks), kind(order), count((uint64_t)grid.x * grid.y * grid.z), first(0), step(1) {
    if (kind < SIDE_BY_SIDE) return;
    first = draw(1u << 31) % count;
    do
        step = 1 + draw(1u << 31) % count;
    while (std::gcd(step, count) != 1);
}

uint3 BlockOrder::at(uint64_t b) const {
    if (kind != 1 && kind != 4) {
        b = (first + b * step) % count;
        return {(unsigned)(b % grid.x), (unsigned)(b / grid.x % grid.y),
                (unsigned)(b / grid.x / grid.y)};
    }
    b = count - 1 - b;
    return {(unsigned)(b / grid.z / grid.y), (unsigned)(b / grid.z % grid.y),
            (unsigned)(b % grid.z)};
}

} // namespace emulator
