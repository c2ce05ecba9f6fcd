// When another process truncates a mapped file, reading its lost pages raises SIGBUS. The
// handler here answers faults inside our own mappings with a page of zeros and remembers that it
// did; any other fault is passed to the handler that was installed before.
//
// A signal handler can only find its data in globals, so the table below is the one exception to
// the rule that there are none. Slots are claimed and released with atomics; the handler only
// reads.
#include "base/mapping.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct Slot {
    _Atomic uintptr_t base; // 0: free
    _Atomic uintptr_t end;
    atomic_bool damaged;
} Slot;

static Slot slots[MAPPING_FILES];
static struct sigaction previous;
static pthread_once_t installed = PTHREAD_ONCE_INIT;
static uintptr_t page_bytes;

static void hand_on(int number, const siginfo_t *info) {
    sigaction(number, &previous, NULL);
    if (info->si_code <= 0) raise(number); // sent by kill(): returning would not raise it again
}

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

static void install_handler(void) {
    page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
    struct sigaction action = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, &previous);
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

static bool cannot(Error *error, const char *what) {
    ErrorCode code = errno == ENOMEM ? ERROR_MEMORY : ERROR_IO;
    return error_set(error, code, "cannot %s: %s", what, strerror(errno));
}

static bool map_descriptor(Mapping *mapping, int descriptor, Error *error) {
    struct stat status;
    if (fstat(descriptor, &status)) return cannot(error, "look at it");
    if (!S_ISREG(status.st_mode)) return error_set(error, ERROR_IO, "not a regular file");
    if (status.st_size == 0) return error_set(error, ERROR_FILE, "the file is empty");
    size_t size = (size_t)status.st_size;
    void *data = mmap(NULL, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (data == MAP_FAILED) return cannot(error, "map it");
    mapping->data = data;
    mapping->size = size;
    pthread_once(&installed, install_handler);
    mapping->slot = slot_claim((uintptr_t)data, (uintptr_t)data + size);
    if (mapping->slot >= 0) return true;
    munmap(data, size);
    mapping->data = NULL;
    return error_set(error, ERROR_IO, "more than %d files are open at once", MAPPING_FILES);
}

bool mapping_open(Mapping *mapping, const char *path, Error *error) {
    *mapping = (Mapping){.path = path, .slot = -1};
    // O_NONBLOCK: opening a FIFO must not wait for a writer.
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (descriptor < 0) return cannot(error, "open it");
    bool ok = map_descriptor(mapping, descriptor, error);
    close(descriptor);
    return ok;
}

void mapping_close(Mapping *mapping) {
    if (mapping->slot < 0) return;
    atomic_store(&slots[mapping->slot].end, 0);
    munmap((void *)(uintptr_t)mapping->data, mapping->size);
    atomic_store(&slots[mapping->slot].base, 0);
    mapping->slot = -1;
}

bool mapping_damaged(const Mapping *mapping) {
    return mapping->slot >= 0 && atomic_load(&slots[mapping->slot].damaged);
}

void mapping_drop(const Mapping *mapping, const void *data, size_t bytes) {
    if (mapping->slot < 0) return;
    uintptr_t start = ((uintptr_t)data + page_bytes - 1) & ~(page_bytes - 1);
    uintptr_t end = ((uintptr_t)data + bytes) & ~(page_bytes - 1);
    if (start < end) madvise((void *)start, end - start, MADV_DONTNEED);
}

bool is_directory(const char *path) {
    struct stat status;
    return !stat(path, &status) && S_ISDIR(status.st_mode);
}
