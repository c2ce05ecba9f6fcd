// Memory of the GPU and of the host that is set as a whole: of much memory only what is touched
// costs time, since tests open many devices, and each reserves some 90 MB of which they use little.
#include "tests/cuda/fibers.h"

#include <cstdint>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

namespace emulator {

namespace {

constexpr size_t CHUNK = 1 << 20; // a multiple of any page

// A file of so many equal bytes, in memory; -1: the system has none.
int open_chunk(int value) {
    int file = memfd_create("emulator", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, CHUNK)) return -1;
    void *bytes = mmap(nullptr, CHUNK, PROT_WRITE, MAP_SHARED, file, 0);
    if (bytes == MAP_FAILED) return -1;
    memset(bytes, value, CHUNK);
    munmap(bytes, CHUNK);
    return file;
}

} // namespace

// The same file over and over. A page is copied when something is stored there.
void fill(void *memory, int value, size_t bytes) {
    static const int zeros = open_chunk(0), ones = open_chunk(0xff);
    static const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    int file = !value ? zeros : value == 0xff ? ones : -1;
    char *at = (char *)memory, *end = at + bytes;
    uint64_t begin = 0, past = 0;
    bool inside = memory_at((uintptr_t)at, &begin, &past) && bytes <= past - (uintptr_t)at;
    if (bytes < CHUNK || file < 0 || !inside) { // memset: AddressSanitizer reports what is not
        memset(memory, value, bytes);
        return;
    }
    char *first = (char *)(((uintptr_t)at + page - 1) / page * page),
         *last = end - (uintptr_t)end % page;
    memset(at, value, (size_t)(first - at));
    memset(last, value, (size_t)(end - last));
    for (; first < last; first += CHUNK) {
        size_t size = (size_t)(last - first) < CHUNK ? (size_t)(last - first) : CHUNK;
        if (mmap(first, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, file, 0) != first)
            die("mmap fails");
    }
}

} // namespace emulator
