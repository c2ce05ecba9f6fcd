// Bulk copies to shared memory and the barriers that count their bytes: one arrival a phase, and
// what else is expected of one. The bytes arrive when a lane asks whether the phase has ended.
#include "tests/ptx/interpreter.h"

namespace ptx {

namespace {

uint64_t address_of(const Warp &w, const Operand &o, unsigned lane, int64_t offset) {
    return lane_bits(w, o, lane) + (uint64_t)offset;
}

uint64_t *barrier_at(const Warp &w, const Instruction &i, unsigned lane, uint64_t address) {
    Instruction place = i;
    place.space = Space::SHARED;
    return (uint64_t *)locate(w, place, lane, address, sizeof(uint64_t));
}

void check(const Warp &w, const Instruction &i, unsigned lane, const char *wrong) {
    if (wrong) fail(w, i, lane, "%s", wrong);
}

void init(Warp &w, const Instruction &i, uint32_t lanes) {
    each(lanes, [&](unsigned l) {
        uint64_t arrivals = lane_bits(w, i.sources[1], l);
        if (arrivals != 1) fail(w, i, l, "%llu arrivals a phase", (unsigned long long)arrivals);
        uint64_t *barrier = barrier_at(w, i, l, address_of(w, i.sources[0], l, i.offset));
        check(w, i, l, w.block->bulk_copies.init(barrier));
    });
}

void expect(Warp &w, const Instruction &i, uint32_t lanes) {
    each(lanes, [&](unsigned l) {
        uint64_t *barrier = barrier_at(w, i, l, address_of(w, i.sources[0], l, i.offset));
        unsigned bytes = (unsigned)lane_bits(w, i.sources[1], l);
        check(w, i, l, w.block->bulk_copies.expect(barrier, bytes));
    });
}

// Sources: where to, where from, bytes, the barrier.
void copy(Warp &w, const Instruction &i, uint32_t lanes) {
    each(lanes, [&](unsigned l) {
        uint64_t to = address_of(w, i.sources[0], l, i.offset);
        uint64_t from = address_of(w, i.sources[1], l, i.offset_from);
        unsigned bytes = (unsigned)lane_bits(w, i.sources[2], l);
        Instruction place = i; // the one end, then the other
        place.space = Space::GLOBAL;
        locate(w, place, l, from, 16);
        if (bytes > place.block_end - from) fail(w, i, l, "%u bytes end outside of memory", bytes);
        place.space = Space::SHARED;
        uint8_t *shared = locate(w, place, l, to, 16);
        if (bytes > w.block->shared_bytes - to) fail(w, i, l, "%u bytes end outside", bytes);
        uint64_t *barrier = barrier_at(w, i, l, lane_bits(w, i.sources[3], l));
        check(w, i, l,
              w.block->bulk_copies.copy(shared, (const void *)(uintptr_t)from, bytes, barrier));
    });
}

void test(Warp &w, const Instruction &i, uint32_t lanes) {
    uint32_t yes = 0;
    each(lanes, [&](unsigned l) {
        uint64_t *barrier = barrier_at(w, i, l, address_of(w, i.sources[0], l, i.offset));
        bool ended = false;
        unsigned parity = (unsigned)lane_bits(w, i.sources[1], l);
        check(w, i, l, w.block->bulk_copies.test(barrier, parity, &ended));
        yes |= (uint32_t)ended << l;
    });
    uint32_t *d = values<uint32_t>(w, i.results[0]);
    *d = (*d & ~lanes) | yes;
}

bool decode_copy(Kernel &kernel, Instruction &i, const Statement &s) {
    address(kernel, i, s.operands.at(1));
    i.offset_from = i.offset;
    address(kernel, i, s.operands.at(3));
    if (i.offset) reject(kernel, i, "not implemented: an offset of the barrier");
    address(kernel, i, s.operands.at(0));
    i.sources = {i.sources[2], i.sources[0], operand(kernel, i, s.operands.at(2), 4), i.sources[1]};
    i.run = copy;
    return s.operands.size() == 4;
}

} // namespace

bool decode_bulk(Kernel &kernel, Instruction &i, const Statement &s) {
    if (s.opcode == "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes")
        return decode_copy(kernel, i, s);
    if (s.opcode == "mbarrier.init.shared::cta.b64") {
        address(kernel, i, s.operands.at(0));
        i.sources.push_back(operand(kernel, i, s.operands.at(1), 4));
        i.run = init;
        return s.operands.size() == 2;
    }
    bool expects = s.opcode == "mbarrier.arrive.expect_tx.shared::cta.b64";
    if (!expects && s.opcode != "mbarrier.try_wait.parity.shared::cta.b64") return false;
    if (!expects) i.results.push_back(operand(kernel, i, s.operands.at(0), PREDICATE));
    address(kernel, i, s.operands.at(1));
    i.sources.push_back(operand(kernel, i, s.operands.at(2), 4));
    i.control = expects ? Control::NONE : Control::POLL;
    i.run = expects ? expect : test;
    return s.operands.size() == 3 && (!expects || s.operands[0] == "_");
}

} // namespace ptx
