// Which instruction sets this program holds, and which of them this processor has.
#include "kernels/cpu/cpu.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

#include <string.h>

// The tables that lanes/project_quantised.c, lanes/rows.c and lanes/limits.c export (ISA_NAME in
// simd.h). All code outside lanes/ reaches them through CpuKernels.
#define ISA_TABLES(isa)                                                                            \
    extern const ProjectKernels project_kernels_##isa;                                             \
    extern const RowKernels row_kernels_##isa;                                                     \
    extern const LimitKernels limit_kernels_##isa

ISA_TABLES(portable);
static const CpuKernels portable = {"portable", "plain C", &project_kernels_portable,
                                    &row_kernels_portable, &limit_kernels_portable};

#if defined(__x86_64__)
ISA_TABLES(avx2);
ISA_TABLES(avx512);
// On x86-64 all are in the program, each compiled with its own -m options; nothing of avx2 or
// avx512 runs before isa_supported has said yes.
static const CpuKernels avx2 = {"avx2", "fma, f16c", &project_kernels_avx2, &row_kernels_avx2,
                                &limit_kernels_avx2};
static const CpuKernels avx512 = {"avx512", "vnni, bf16", &project_kernels_avx512,
                                  &row_kernels_avx512, &limit_kernels_avx512};
#if defined(WITH_AMX)
// The matrix unit multiplies many rows; all else is avx512's.
extern const ProjectKernels project_kernels_amx;
extern const LimitKernels limit_kernels_amx;
static const CpuKernels amx = {"amx", "avx512, vnni, bf16", &project_kernels_amx,
                               &row_kernels_avx512, &limit_kernels_amx};
static const CpuKernels *const LIST[] = {&amx, &avx512, &avx2, &portable};
#else
static const CpuKernels *const LIST[] = {&avx512, &avx2, &portable};
#endif
#elif defined(__aarch64__)
ISA_TABLES(neon);
ISA_TABLES(dotprod);
ISA_TABLES(i8mm);
// neon is in every AArch64 processor, dotprod in those since about 2018, i8mm since about 2021.
static const CpuKernels neon = {"neon", "armv8-a", &project_kernels_neon, &row_kernels_neon,
                                &limit_kernels_neon};
static const CpuKernels dotprod = {"dotprod", "neon, sdot", &project_kernels_dotprod,
                                   &row_kernels_dotprod, &limit_kernels_dotprod};
static const CpuKernels i8mm = {"i8mm", "neon, sdot, usdot", &project_kernels_i8mm,
                                &row_kernels_i8mm, &limit_kernels_i8mm};
static const CpuKernels *const LIST[] = {&i8mm, &dotprod, &neon, &portable};
#else
static const CpuKernels *const LIST[] = {&portable};
#endif

const CpuKernels *const *isa_list(size_t *count) {
    *count = sizeof LIST / sizeof *LIST;
    return LIST;
}

#if defined(WITH_AMX)
// A program asks for the registers once, for all its threads: a thread that is interrupted with
// something in them takes eight kilobytes more, and Linux before 5.16 does not know them
// (Documentation/arch/x86/xstate.rst).
static bool has_amx(void) {
#if defined(EMULATED_TILES)
    return true;
#else
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };
    const unsigned tile = 1u << 24, int8 = 1u << 25; // CPUID leaf 7, EDX
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d & tile) || !(d & int8)) return false;
    return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
#endif
}
#endif

#if defined(__x86_64__)
// clang 14 does not know this feature's name. CPUID leaf 1, ECX bit 29.
static bool has_f16c(void) {
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid(1, &a, &b, &c, &d) && (c >> 29 & 1);
}
#endif

// Measured (lanes/cells.h) on an Intel Xeon with AMX and on AMD's Zen 5 and Zen 4; the latter is of
// family 19h, and its own prefetchers are enough. Other processors of Intel are taken for that
// Xeon, all the rest for a Zen 5.
Prefetch isa_prefetch(void) {
#if defined(__x86_64__)
    if (__builtin_cpu_is("amdfam19h")) return PREFETCH_NONE;
    if (__builtin_cpu_is("intel")) return PREFETCH_L1_AND_L2;
#endif
    return PREFETCH_L1;
}

// __builtin_cpu_supports also asks whether the operating system saves the registers. For F16C that
// is covered by avx2, which has the same registers.
bool isa_supported(const CpuKernels *kernels) {
#if defined(__x86_64__)
    bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
    if (kernels == &avx2) return has_avx2;
    bool has_avx512 = has_avx2 && __builtin_cpu_supports("avx512f") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vnni") &&
                      __builtin_cpu_supports("avx512bf16");
    if (kernels == &avx512) return has_avx512;
#if defined(WITH_AMX)
    if (kernels == &amx) return has_avx512 && has_amx();
#endif
#elif defined(__aarch64__)
    // The kernel's bits; glibc's headers are older than some of them on some systems.
    const unsigned long asimddp = 1ul << 20, i8mm_bit = 1ul << 13;
    bool has_dotprod = getauxval(AT_HWCAP) & asimddp;
    bool has_i8mm = has_dotprod && getauxval(AT_HWCAP2) & i8mm_bit;
    if (kernels == &neon) return true;
    if (kernels == &dotprod) return has_dotprod;
    if (kernels == &i8mm) return has_i8mm;
#endif
    return kernels == &portable;
}
