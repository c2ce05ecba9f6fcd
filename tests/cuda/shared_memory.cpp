// The shared memory of a block, and bulk copies into it: whether the memory is there, and what a
// thread does that waits. What the barriers of copies count: tests/ptx/copy_barriers.h.
//
// Bytes arrive when a thread waits for them. Under a schedule of blocks side by side it is drawn
// whether they arrive at once.
#include "tests/cuda/fibers.h"
#include "tests/cuda/schedule.h"

#include <cstdlib>
#include <cstring>

namespace emulator {

namespace {

constexpr unsigned PAGE = 4096;

bool within(const void *p, size_t bytes, const void *memory, size_t memory_bytes) {
    size_t at = (size_t)((const char *)p - (const char *)memory);
    return memory && p >= memory && at <= memory_bytes && bytes <= memory_bytes - at;
}

void check_shared(const void *p, size_t bytes, const char *wrong) {
    const SharedMemory &m = shared_memory();
    if (!within(p, bytes, m.named, m.named_bytes) &&
        !within(p, bytes, m.launched, m.launched_bytes))
        die(wrong, true);
}

CopyBarriers &copies_of(const uint64_t *barrier) {
    check_shared(barrier, sizeof *barrier, "a copy barrier outside of the block's shared memory");
    return shared_memory().copies;
}

void check(const char *wrong) {
    if (wrong) die(wrong, true);
}

// Of the whole source: that it is the GPU's, and may be read already (hidden_memory.cpp).
void check_source(const void *from, unsigned bytes) {
    uint64_t begin = 0, end = 0, address = (uint64_t)(uintptr_t)from;
    if (!memory_at(address, &begin, &end) || bytes > end - address)
        die("a bulk copy from outside of the GPU's memory", true);
    const volatile char *p = (const volatile char *)from;
    for (unsigned i = 0; i < bytes; i += PAGE)
        (void)p[i];
    if (bytes) (void)p[bytes - 1];
}

} // namespace

// Exactly as large as asked for, so that AddressSanitizer sees who goes past it.
static void *new_memory(size_t bytes) {
    void *memory = nullptr;
    if (posix_memalign(&memory, 128, bytes)) die("no memory");
    memset(memory, 0xff, bytes); // NaN
    return memory;
}

void shared_memory_fill(SharedMemory *m, size_t launched_bytes) {
    if (m->named) memset(m->named, 0xff, m->named_bytes);
    if (m->launched) memset(m->launched, 0xff, launched_bytes);
    if (!m->launched && launched_bytes) m->launched = new_memory(launched_bytes);
    m->launched_bytes = launched_bytes;
}

void shared_memory_free(SharedMemory *m) {
    free(m->named);
    free(m->launched);
    *m = {};
}

void *block_memory(size_t bytes) {
    SharedMemory &m = shared_memory();
    if (bytes + m.launched_bytes > MAX_BLOCK_MEMORY)
        die("more shared memory than a block can have");
    if (!m.named) {
        m.named = new_memory(bytes);
        m.named_bytes = bytes;
    }
    if (m.named_bytes != bytes) die("two kinds of shared memory in one kernel");
    return m.named;
}

void *launched_memory(size_t bytes) {
    if (bytes > shared_memory().launched_bytes)
        die("more shared memory than the launch asks for", true);
    return shared_memory().launched;
}

void give_up() {
    die("a thread gives up waiting", true);
}

// ---- bulk copies ----

void copy_barrier_init(uint64_t *barrier) {
    if (compute_capability() < 90) die("bulk copies before sm_90", true);
    check(copies_of(barrier).init(barrier));
}

void copies_expected(uint64_t *barrier, unsigned bytes) {
    check(copies_of(barrier).expect(barrier, bytes));
}

void copy_bulk(void *to, const void *from, unsigned bytes, uint64_t *barrier) {
    CopyBarriers &copies = copies_of(barrier);
    check_shared(to, bytes, "a bulk copy to outside of the block's shared memory");
    check_source(from, bytes);
    check(copies.copy(to, from, bytes, barrier));
    if (side_by_side && draw(2)) copies.arrive(barrier);
}

void wait_for_bulk(uint64_t *barrier, unsigned parity) {
    may_switch("wait_for_bulk");
    CopyBarriers &copies = copies_of(barrier);
    for (bool ended = false, again = false;; again = true) {
        check(copies.test(barrier, parity, &ended));
        if (ended) return;
        spin(copies.missing(barrier), again);
    }
}

} // namespace emulator
