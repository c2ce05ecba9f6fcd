#include "tests/ptx/copy_barriers.h"

#include <cstring>

namespace {

constexpr unsigned MOST_BYTES = (1 << 20) - 1; // that an mbarrier counts

// What a barrier's memory holds, so that a store into it is seen: nothing that a kernel may read.
uint64_t mark(const uint64_t *barrier, unsigned phase) {
    return ((uint64_t)(uintptr_t)barrier << 16 | (uint16_t)phase) ^ 0x6d62617272696572ull;
}

bool is_aligned(const void *p, unsigned to) {
    return (uintptr_t)p % to == 0;
}

} // namespace

const char *CopyBarriers::check(const uint64_t *barrier) const {
    auto known = barriers.find(barrier);
    if (known == barriers.end()) return "a copy barrier that is not initialised";
    if (*barrier != mark(barrier, known->second.phase))
        return "a copy barrier that a store has overwritten";
    return nullptr;
}

const char *CopyBarriers::init(uint64_t *barrier) {
    if (!is_aligned(barrier, 8)) return "a copy barrier that is not at a multiple of 8 bytes";
    if (barriers.count(barrier)) return "a copy barrier that is initialised twice";
    barriers[barrier] = {};
    *barrier = mark(barrier, 0);
    return nullptr;
}

void CopyBarriers::end_phase(uint64_t *barrier) {
    Barrier &b = barriers[barrier];
    if (!b.expects || b.arrived < b.expected) return;
    b = {b.phase + 1, false, 0, 0, 0};
    *barrier = mark(barrier, b.phase);
}

const char *CopyBarriers::expect(uint64_t *barrier, unsigned bytes) {
    if (const char *wrong = check(barrier)) return wrong;
    Barrier &b = barriers[barrier];
    if (b.expects) return "copies_expected before the phase before it has ended";
    if (bytes > MOST_BYTES) return "copies_expected with more bytes than a barrier can count";
    b.expects = true, b.expected = bytes;
    end_phase(barrier); // of no bytes
    return nullptr;
}

const char *CopyBarriers::copy(void *to, const void *from, unsigned bytes, uint64_t *barrier) {
    if (const char *wrong = check(barrier)) return wrong;
    if (!bytes || bytes % 16) return "a bulk copy whose size is not a multiple of 16";
    if (!is_aligned(to, 16) || !is_aligned(from, 16))
        return "a bulk copy from or to what is not at a multiple of 16 bytes";
    Barrier &b = barriers[barrier];
    if (!b.expects) return "a bulk copy before the copies_expected of its phase";
    if (bytes > b.expected - b.asked) return "bulk copies of more bytes than copies_expected says";
    for (const Copy &c : copies)
        if ((char *)to < c.to + c.bytes && c.to < (char *)to + bytes)
            return "a bulk copy to where another one is under way";
    b.asked += bytes;
    memset(to, 0xff, bytes);
    copies.push_back({(char *)to, (const char *)from, bytes, barrier});
    return nullptr;
}

void CopyBarriers::arrive(uint64_t *barrier) {
    std::vector<Copy> left;
    for (const Copy &c : copies) {
        if (c.barrier != barrier) {
            left.push_back(c);
            continue;
        }
        memcpy(c.to, c.from, c.bytes);
        barriers[barrier].arrived += c.bytes;
    }
    copies.swap(left);
    end_phase(barrier);
}

const char *CopyBarriers::test(uint64_t *barrier, unsigned parity, bool *ended) {
    if (const char *wrong = check(barrier)) return wrong;
    if (parity > 1) return "a parity that is neither 0 nor 1";
    if (barriers[barrier].phase % 2 == parity) arrive(barrier);
    *ended = barriers[barrier].phase % 2 != parity;
    return nullptr;
}

const char *CopyBarriers::missing(const uint64_t *barrier) const {
    auto known = barriers.find(barrier);
    if (known == barriers.end() || !known->second.expects)
        return "wait_for_bulk of a phase without copies_expected";
    return "wait_for_bulk of a phase that expects more bytes than are copied";
}

const char *CopyBarriers::end() {
    bool under_way = !copies.empty();
    barriers.clear();
    copies.clear();
    return under_way ? "the block ends with bulk copies under way" : nullptr;
}
