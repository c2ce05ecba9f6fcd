// What kernels write, hidden from those that have not waited for it, under a schedule of blocks
// side by side (EMULATOR_SCHEDULE=5 and above).
//
// A kernel launched to overlap starts while the one before it runs, and that one may have started
// while the one before it ran, and so on. So until a thread has waited, everything that any kernel
// writes can be half written or still be read. The rule is therefore the same for chains of any
// length: before the wait a thread loads only from allocations into which no kernel has ever
// stored (weights, constants: what the host has copied there), and stores to none. Prefetches,
// which change no value, are free.
//
//   no kernel has stored into it    can be read; the first store faults, and marks it
//   kernels store into it           can be read and written; nothing while a thread runs that has
//                                   not waited
//
// By pages of their own for every allocation, so that a whole one is either. Stricter than a GPU:
// a kernel may load before its wait what was written before the host last waited for the stream,
// or two kernels earlier; here it may not. Less strict: the first store into an allocation may come
// after the load; the next pass shows it. A debugger sees a SIGSEGV for every allocation that is
// marked (gdb: handle SIGSEGV nostop noprint pass).
#include "tests/cuda/fibers.h"

#include <csignal>
#include <cstdint>
#include <map>
#include <sys/mman.h>
#include <ucontext.h>

#if defined(__SANITIZE_ADDRESS__)
#define EMULATOR_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define EMULATOR_ASAN 1
#endif
#endif
#ifdef EMULATOR_ASAN
#include <sanitizer/asan_interface.h>
#define POISON(p, bytes) __asan_poison_memory_region(p, bytes)
#define UNPOISON(p, bytes) __asan_unpoison_memory_region(p, bytes)
#else
#define POISON(p, bytes)
#define UNPOISON(p, bytes)
#endif

namespace emulator {

namespace {

constexpr size_t PAGE = 4096;

struct Allocation {
    size_t pages; // that can be accessed; one before and one behind cannot
    bool written; // a kernel has stored into it
};

std::map<char *, Allocation> allocations;
bool hidden;
struct sigaction earlier_action;

size_t whole_bytes(const Allocation &a) {
    return (a.pages + 2) * PAGE;
}

std::pair<char *const, Allocation> *find(const void *p) {
    auto after = allocations.upper_bound((char *)p);
    if (after == allocations.begin()) return nullptr;
    --after;
    return (char *)p < after->first + after->second.pages * PAGE ? &*after : nullptr;
}

// What can be done to it now.
void protect(const std::pair<char *const, Allocation> &entry) {
    const Allocation &a = entry.second;
    int can = !a.written ? PROT_READ : hidden ? PROT_NONE : PROT_READ | PROT_WRITE;
    if (mprotect(entry.first, a.pages * PAGE, can)) die("mprotect fails");
}

bool is_store(const void *context) {
#ifdef __x86_64__
    return ((const ucontext_t *)context)->uc_mcontext.gregs[REG_ERR] & 2;
#else
    (void)context;
    return false; // it is not known
#endif
}

void on_fault(int number, siginfo_t *info, void *context) {
    auto *entry = find(info->si_addr);
    if (entry && has_to_wait()) {
        if (is_store(context)) die("a store before wait_for_earlier_kernels");
        die("an access to what kernels write before wait_for_earlier_kernels");
    }
    if (entry && !entry->second.written) {
        entry->second.written = true;
        protect(*entry);
    } else if (earlier_action.sa_flags & SA_SIGINFO) { // AddressSanitizer's
        earlier_action.sa_sigaction(number, info, context);
    } else {
        sigaction(number, &earlier_action, nullptr); // the access faults again
    }
}

// Once. A test's child has its parent's.
void watch_faults() {
    static bool watching;
    if (watching) return;
    watching = true;
    struct sigaction action = {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    sigaction(SIGSEGV, &action, &earlier_action);
}

} // namespace

void *watched_memory_take(size_t bytes) {
    watch_faults();
    Allocation a = {(bytes + PAGE - 1) / PAGE, false};
    if (bytes > SIZE_MAX - 3 * PAGE) return nullptr;
    void *whole = mmap(nullptr, whole_bytes(a), PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (whole == MAP_FAILED) return nullptr;
    char *memory = (char *)whole + PAGE;
    protect(*allocations.emplace(memory, a).first);
    POISON(memory + bytes, (a.pages + 1) * PAGE - bytes);
    return memory;
}

bool watched_memory_give(void *memory) {
    auto entry = allocations.find((char *)memory);
    if (entry == allocations.end()) return false;
    size_t bytes = whole_bytes(entry->second);
    allocations.erase(entry);
    UNPOISON((char *)memory - PAGE, bytes);
    munmap((char *)memory - PAGE, bytes);
    return true;
}

void hide_memory(bool hide) {
    if (hidden == hide) return;
    hidden = hide;
    for (const auto &entry : allocations)
        if (entry.second.written) protect(entry);
}

void watched_memory_open(void *memory) {
    auto *entry = find(memory);
    if (!entry || entry->second.written) return;
    if (mprotect(entry->first, entry->second.pages * PAGE, PROT_READ | PROT_WRITE))
        die("mprotect fails");
}

void watched_memory_close(void *memory) {
    auto *entry = find(memory);
    if (entry) protect(*entry);
}

} // namespace emulator
