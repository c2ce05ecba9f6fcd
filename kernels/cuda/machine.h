// What a kernel can ask of an NVIDIA GPU beyond plain C++, each behind a small inline function. It
// is found by the include path: on the emulator tests/cuda/machine.h stands in its place, with the
// same names. What is built on them, the same for both, is in block.h.
#pragma once

#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <math.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

enum { WARP = 32 };
#define ALL_LANES 0xffffffffu

#define DEVICE_FUNCTION __host__ __device__

// Before a loop whose index selects registers. The emulator leaves it out: clang would unroll too,
// and compile for minutes.
#define UNROLL _Pragma("unroll")
#define NO_UNROLL _Pragma("unroll 1")

// The block's shared memory: a kernel uses one struct of it.
template <class T> static __device__ __forceinline__ T &block_memory() {
    __shared__ T memory;
    return memory;
}

// sum + a.x b.x + a.y b.y + a.z b.z + a.w b.w of four signed bytes each.
static __device__ __forceinline__ int dot4(int a, int b, int sum) {
    return __dp4a(a, b, sum);
}

// The lowest byte of each of four words.
static __device__ __forceinline__ unsigned first_bytes(const unsigned (&w)[4]) {
    return __byte_perm(__byte_perm(w[0], w[1], 0x0040), __byte_perm(w[2], w[3], 0x0040), 0x5410);
}

static __device__ __forceinline__ float half_value(uint16_t h) {
    return __half2float(__ushort_as_half(h));
}
static __device__ __forceinline__ uint16_t half_bits(float f) {
    return __half_as_ushort(__float2half_rn(f));
}

// 2^x, within two units of the last place; what is below 2^-126 is 0.
static __device__ __forceinline__ float power_of_2(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// Programmatic dependent launch. After the first call a kernel sees what earlier kernels wrote; the
// second call lets the next kernel start its prologue.
static __device__ __forceinline__ void wait_for_earlier_kernels() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
static __device__ __forceinline__ void let_next_kernel_start() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
#endif
}

// Adds `count` to *counter and returns the number before. What the thread has written, or has
// seen behind a barrier of its block, is visible to those that count later; it sees what those
// before it wrote.
static __device__ __forceinline__ unsigned arrive(unsigned *counter, unsigned count) {
    unsigned before;
    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], %2;"
                 : "=r"(before)
                 : "l"(counter), "r"(count)
                 : "memory");
    return before;
}

// A word of the host's pinned memory, which a GPU addresses as the host does (unified addressing).
// 64 bits travel as one, so the host finds either all of it or nothing.
static __device__ __forceinline__ void store_for_host(uint64_t *p, uint64_t value) {
    asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(p), "l"(value) : "memory");
}

// 16 bytes that are read once: they are not kept in the L1 cache.
static __device__ __forceinline__ int4 load_stream(const void *p) {
    int4 v;
    asm volatile("ld.global.nc.L1::no_allocate.v4.s32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p));
    return v;
}

// Asks for `bytes` bytes to be brought to the L2 cache, by one instruction; at the ends less than
// 16 bytes are left out. Before sm_90 there is no such instruction: nothing is done.
static __device__ __forceinline__ void prefetch(const uint8_t *p, unsigned bytes) {
#if __CUDA_ARCH__ >= 900
    unsigned skip = (unsigned)(-(uintptr_t)p & 15);
    if (bytes < skip + 16) return;
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(p + skip),
                 "r"((bytes - skip) & ~15u)
                 : "memory");
#endif
}

// d += a b of one warp on the tensor cores: a is 16 by 16 and b 16 by 8 f16 values, d is 16 by
// 8 floats; a word packs two neighbours. Lane l, with i = l / 4 and j = l % 4 * 2, holds
//   a[0] a(i, j ..)   a[1] a(i + 8, j ..)   a[2] a(i, j + 8 ..)   a[3] a(i + 8, j + 8 ..)
//   b0   b(j .., i)   b1   b(j + 8 .., i)   d[0], d[1] d(i, j ..)  d[2], d[3] d(i + 8, j ..)
static __device__ __forceinline__ void multiply_halves(float (&d)[4], const unsigned (&a)[4],
                                                       unsigned b0, unsigned b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Four 8 by 8 matrices of halves from shared memory, one a word: lane l gives the address of row l
// % 8 of matrix l / 8, 16 bytes. It gets columns j and j + 1 of row i, in the terms above;
// transposed: rows j and j + 1 of column i.
static __device__ __forceinline__ void load_matrices(unsigned (&m)[4], const void *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
                 : "r"((unsigned)__cvta_generic_to_shared(row))
                 : "memory");
}
static __device__ __forceinline__ void load_matrices_transposed(unsigned (&m)[4], const void *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
                 : "r"((unsigned)__cvta_generic_to_shared(row))
                 : "memory");
}

// 16 bytes of global memory to shared memory, through no register; zeros where they are not wanted,
// and nothing is read. They are there behind wait_for_copies for the thread that asked, for others
// behind a barrier after it.
static __device__ __forceinline__ void copy_async(void *to, const void *from, bool wanted) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
                     (unsigned)__cvta_generic_to_shared(to)),
                 "l"(from), "r"(wanted ? 16 : 0)
                 : "memory");
}
static __device__ __forceinline__ void wait_for_copies() {
    asm volatile("cp.async.wait_all;" ::: "memory");
}

// ---- bulk copies into shared memory, and the barriers that count their bytes (sm_90) ----
//
// A barrier goes through phases: each begins with copies_expected, and ends when so many bytes have
// arrived. Phases have parities 0, 1, 0, ..

typedef uint64_t CopyBarrier; // in shared memory

static __device__ __forceinline__ unsigned shared_address(const void *p) {
    return (unsigned)__cvta_generic_to_shared(p);
}

// By one thread of the block. Other threads, and copies, may use it behind copy_barriers_made,
// which the same thread calls, and a barrier of theirs.
static __device__ __forceinline__ void copy_barrier_init(CopyBarrier *barrier) {
#if __CUDA_ARCH__ >= 900
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(barrier))
                 : "memory");
#endif
}
static __device__ __forceinline__ void copy_barriers_made() {
#if __CUDA_ARCH__ >= 900
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}

// By one thread, before the copies of the phase.
static __device__ __forceinline__ void copies_expected(CopyBarrier *barrier, unsigned bytes) {
#if __CUDA_ARCH__ >= 900
    asm volatile(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
        "r"(bytes)
        : "memory");
#endif
}

// A multiple of 16 bytes from global memory, both ends on 16 bytes.
static __device__ __forceinline__ void copy_bulk(void *to, const void *from, unsigned bytes,
                                                 CopyBarrier *barrier) {
#if __CUDA_ARCH__ >= 900
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1], %2, [%3];" ::"r"(shared_address(to)),
                 "l"(from), "r"(bytes), "r"(shared_address(barrier))
                 : "memory");
#endif
}

// Returns when the phase of that parity has ended; the thread sees what was copied.
static __device__ __forceinline__ void wait_for_bulk(CopyBarrier *barrier, unsigned parity) {
#if __CUDA_ARCH__ >= 900
    unsigned ended;
    do
        asm volatile("{\n\t.reg .pred p;\n\t"
                     "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n\t"
                     "selp.u32 %0, 1, 0, p;\n\t}"
                     : "=r"(ended)
                     : "r"(shared_address(barrier)), "r"(parity)
                     : "memory");
    while (!ended);
#endif
}

// The same where nobody asks for the number before: the thread need not wait for it.
static __device__ __forceinline__ void arrive_and_go(unsigned *counter) {
    asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(counter) : "memory");
}

// *counter, with all that was stored before those that have counted to it (arrive).
static __device__ __forceinline__ unsigned load_counter(const unsigned *counter) {
    unsigned count;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(count) : "l"(counter) : "memory");
    return count;
}

// Ends the kernel as one that failed.
static __device__ __forceinline__ void give_up() {
    asm volatile("trap;");
}

// The block's shared memory where a kernel is launched with its size (LAUNCH_COOPERATIVE): for more
// than 48 KiB.
template <class T> static __device__ __forceinline__ T &launched_memory() {
    extern __shared__ __align__(128) unsigned char bytes[];
    return *(T *)bytes;
}

// A shared library opened at run time, and its functions by name. It is never unmapped: a library
// that has registered kernels with the driver must stay.
static inline void *library_open(const char *path) {
    return dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
}
static inline void *library_symbol(void *library, const char *name) {
    return dlsym(library, name);
}
static inline void library_close(void *library) {
    dlclose(library);
}

// Whether the driver has made its device files (Linux), or is another one that needs none (WSL).
static inline bool driver_is_ready() {
    return !access("/dev/nvidia-uvm", F_OK) || !access("/dev/dxg", F_OK);
}

// ---- over the 32 lanes of a warp, every lane has the result; butterflies, so the order is fixed
// ----

static __device__ __forceinline__ float warp_sum(float v) {
    for (int bits = WARP / 2; bits; bits /= 2)
        v += __shfl_xor_sync(ALL_LANES, v, bits);
    return v;
}
static __device__ __forceinline__ float warp_max(float v) {
    for (int bits = WARP / 2; bits; bits /= 2)
        v = fmaxf(v, __shfl_xor_sync(ALL_LANES, v, bits));
    return v;
}
static __device__ __forceinline__ uint64_t warp_largest(uint64_t v) {
    // The upper words first; then, of the lanes that have the largest, the lower words. One
    // instruction for each word, where a butterfly over 64 bits takes ten shuffles.
    unsigned high = __reduce_max_sync(ALL_LANES, (unsigned)(v >> 32));
    unsigned low = __reduce_max_sync(ALL_LANES, v >> 32 == high ? (unsigned)v : 0u);
    return (uint64_t)high << 32 | low;
}
