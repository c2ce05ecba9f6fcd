// When another process truncates a mapped file, reading its lost pages raises SIGBUS. The
// handler here answers faults inside our own mappings with a page of zeros and remembers that it
// did; any other fault is passed to the handler that was installed before.
//
// A signal handler can only find its data in globals, so the table below is the one exception to
// the rule that there are none. Slots are claimed and released with atomics; the handler only
// reads. Signals belong to the program: before it has called mapping_guard nothing here is written.
#include "base/mapping.h"
#include "base/arena.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SMALL_STEP = 64 << 10 };

// One mapping that the handler looks after: addresses base .. end - 1.
typedef struct Slot {
    _Atomic uintptr_t base; // 0: free
    _Atomic uintptr_t end;
    atomic_bool damaged;
} Slot;

static Slot slots[MAPPING_FILES];
static struct sigaction previous;
static pthread_once_t installed = PTHREAD_ONCE_INIT;
static uintptr_t page_bytes; // 0: no handler was asked for

// Puts the earlier handler back and returns: the instruction runs again, faults again, and that
// handler gets the signal.
static void hand_on(int number, const siginfo_t *info) {
    sigaction(number, &previous, NULL);
    if (info->si_code <= 0) raise(number); // sent by kill(): returning would not raise it again
}

// Only mmap, which is a plain system call on Linux, and lock-free atomics. MAP_FIXED replaces the
// page that has gone; the instruction then runs again and reads zeros.
static void on_bus_error(int number, siginfo_t *info, void *context) {
    (void)context;
    int saved = errno;
    uintptr_t at = (uintptr_t)info->si_addr;
    for (size_t i = 0; info->si_code > 0 && i < MAPPING_FILES; i++) {
        uintptr_t base = atomic_load(&slots[i].base);
        if (!base || at < base || at >= atomic_load(&slots[i].end)) continue;
        void *page = (void *)(at & ~(page_bytes - 1));
        if (mmap(page, page_bytes, PROT_READ, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) ==
            MAP_FAILED)
            break;
        atomic_store(&slots[i].damaged, true);
        errno = saved;
        return;
    }
    hand_on(number, info);
    errno = saved;
}

// Once for the process. SA_ONSTACK, for programs that run with a signal stack of their own.
static void install_handler(void) {
    page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
    struct sigaction action = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, &previous);
}

void mapping_guard(void) {
    pthread_once(&installed, install_handler);
}

static uintptr_t page_size(void) {
    return (uintptr_t)sysconf(_SC_PAGESIZE);
}

// The end of a free slot is 0, so a slot that is only half claimed holds no address.
static int slot_claim(uintptr_t base, uintptr_t end) {
    for (int i = 0; i < MAPPING_FILES; i++) {
        uintptr_t expected = 0;
        if (atomic_load(&slots[i].base)) continue;
        if (!atomic_compare_exchange_strong(&slots[i].base, &expected, base)) continue;
        atomic_store(&slots[i].damaged, false);
        atomic_store(&slots[i].end, end);
        return i;
    }
    return -1;
}

// MAP_PRIVATE: pages that are read show what others write to the file; nothing here writes to them.
static bool map_pages(Mapping *mapping, Error *error) {
    size_t size = mapping->reader.size;
    void *data = mmap(NULL, size, PROT_READ, MAP_PRIVATE, mapping->reader.descriptor, 0);
    if (data == MAP_FAILED)
        return error_set(error, errno == ENOMEM ? ERROR_MEMORY : ERROR_IO, "cannot map it: %s",
                         strerror(errno));
    if (page_bytes) mapping->slot = slot_claim((uintptr_t)data, (uintptr_t)data + size);
    if (page_bytes && mapping->slot < 0) {
        munmap(data, size);
        return error_set(error, ERROR_IO, "more than %d files are open at once", MAPPING_FILES);
    }
    mapping->data = data;
    mapping->mapped = true;
    mapping->size = size;
    return true;
}

bool mapping_open(Mapping *mapping, const char *path, Error *error) {
    *mapping = (Mapping){.path = path, .slot = -1};
    if (!file_reader_open(&mapping->reader, path, error)) return false;
    if (map_pages(mapping, error)) return true;
    file_reader_close(&mapping->reader);
    return false;
}

Mapping mapping_of_memory(const char *path, const void *bytes, size_t size) {
    return (Mapping){.path = path,
                     .data = bytes,
                     .size = size,
                     .loaded = size,
                     .reader.descriptor = -1,
                     .slot = -1};
}

// Rounded up.
static size_t whole_pages(size_t bytes) {
    return (bytes + page_size() - 1) & ~(page_size() - 1);
}

// Memory of our own takes the place of the pages in question, then the file is read into it: large
// pages, since to get a page takes as long as to fill it; less of a small file.
bool mapping_load(Mapping *mapping, size_t end, Error *error) {
    size_t from = mapping->loaded; // the end of a step
    // Steps of 64 KiB for small files, else of a large page: a header is read piece by piece, and
    // each piece costs a system call or two.
    size_t step = mapping->size < 16 * LARGE_PAGE ? SMALL_STEP : LARGE_PAGE;
    if (end <= from) return true;
    end = (end + step - 1) & ~(step - 1);
    if (end > mapping->size) end = mapping->size;
    uint8_t *at = (uint8_t *)(uintptr_t)mapping->data + from;
    if (mmap(at, end - from, PROT_READ | PROT_WRITE, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1,
             0) == MAP_FAILED)
        return error_set(error, ERROR_MEMORY, "out of memory: %zu bytes", end - from);
    memory_large_pages(at, end - from);
    if (!file_reader_get(&mapping->reader, at, from, end - from, error)) return false;
    mapping->loaded = end;
    return true;
}

bool mapping_seal(Mapping *mapping, Error *error) {
    return file_reader_finish(&mapping->reader, error);
}

void mapping_close(Mapping *mapping) {
    file_reader_close(&mapping->reader);
    if (!mapping->mapped) return;
    // First the end, so that the handler matches no address; the base last, which frees the slot.
    if (mapping->slot >= 0) atomic_store(&slots[mapping->slot].end, 0);
    munmap((void *)(uintptr_t)mapping->data, mapping->size);
    if (mapping->slot >= 0) atomic_store(&slots[mapping->slot].base, 0);
    mapping->slot = -1;
    mapping->mapped = false;
}

bool mapping_damaged(const Mapping *mapping) {
    return mapping->slot >= 0 && atomic_load(&slots[mapping->slot].damaged);
}

bool mapping_check(const Mapping *mapping, Error *error) {
    return !mapping->mapped || file_reader_check(&mapping->reader, mapping->path, error);
}

void mapping_drop(const Mapping *mapping, const void *data, size_t bytes) {
    if (!mapping->mapped) return;
    uintptr_t start = whole_pages((uintptr_t)data);
    uintptr_t end = ((uintptr_t)data + bytes) & ~(page_size() - 1);
    uintptr_t loaded = whole_pages((uintptr_t)mapping->data + mapping->loaded);
    if (start < loaded) start = loaded; // dropped memory of our own would come back as zeros
    if (start < end) madvise((void *)start, end - start, MADV_DONTNEED);
}

bool is_directory(const char *path) {
    struct stat status;
    return !stat(path, &status) && S_ISDIR(status.st_mode);
}
