// Bulk copies into the shared memory of one block and the barriers that count their bytes (mbarrier
// and cp.async.bulk in the PTX ISA): for the emulator and for the interpreter of PTX.
//
// A barrier is in phases 0, 1, 2, ..; `expect` begins the count of one, which ends when so many
// bytes have arrived. As late as possible: until a thread asks whether the phase has ended, there
// are NaNs where a copy goes.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

class CopyBarriers {
  public:
    // Each returns nullptr, or what is wrong. Alignment is checked here; that memory exists, by the
    // caller.
    const char *init(uint64_t *barrier);
    const char *expect(uint64_t *barrier, unsigned bytes);
    const char *copy(void *to, const void *from, unsigned bytes, uint64_t *barrier);

    // Lets the bytes that are under way to the barrier arrive.
    void arrive(uint64_t *barrier);

    // Whether the phase with that parity has ended: the one before the present one has the other
    // parity, and nothing is known of earlier ones.
    const char *test(uint64_t *barrier, unsigned parity, bool *ended);

    // Why that phase, which has not ended, has not.
    const char *missing(const uint64_t *barrier) const;

    // The block has ended: no copy may be under way any more. Its barriers are gone.
    const char *end();

  private:
    struct Barrier {
        unsigned phase;
        bool expects;                      // the present phase has begun to count
        unsigned expected, asked, arrived; // bytes
    };
    struct Copy {
        char *to;
        const char *from;
        unsigned bytes;
        const uint64_t *barrier;
    };
    std::map<const uint64_t *, Barrier> barriers; // by where they lie
    std::vector<Copy> copies;                     // under way

    const char *check(const uint64_t *barrier) const;
    void end_phase(uint64_t *barrier);
};
