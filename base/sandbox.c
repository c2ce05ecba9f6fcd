// The filter is made here and not with libseccomp: it is the table below and thirty lines, and so
// `make core` has it too. Landlock has no functions in libc; its constants are written out, since
// the headers of a distribution are older than its kernel.
//
//   table -> for each row: load number | equal? | load argument | mask | equal? | allow
//            the last instruction refuses with EPERM what no row allowed
#include "base/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

// The runtimes of the sanitizers, which make calls of their own: NULL where none is linked. Not by
// macros of this file's own compilation: some builds check the kernels alone.
extern void __asan_init(void) __attribute__((weak));
extern void __tsan_init(void) __attribute__((weak));
extern void __msan_init(void) __attribute__((weak));

static bool sanitized(void) {
    return __asan_init || __tsan_init || __msan_init;
}

#ifndef DEVICE_DRIVER
#define DEVICE_DRIVER 0 // 1: a GPU's driver runs in this process
#endif

// ---- Landlock ----

enum { CREATE_RULESET = 444, ADD_RULE = 445, RESTRICT_SELF = 446 }; // the same on all processors

// linux/landlock.h. Rights that an older kernel does not know must not be asked for.
enum {
    FS_EXECUTE = 1 << 0,
    FS_WRITES = 1 << 1 | 0x1ff0, // write, remove and make of every kind
    FS_REFER = 1 << 13,          // ABI 2: rename into another directory
    FS_TRUNCATE = 1 << 14,       // ABI 3
    NET_TCP = 3,                 // ABI 4: bind, connect
    SCOPES = 3,                  // ABI 6: abstract sockets, signals of this process alone
    RULE_PATH_BENEATH = 1,
};
typedef struct Ruleset {
    uint64_t files, network, scopes;
} Ruleset;
typedef struct __attribute__((packed)) PathRule {
    uint64_t allowed;
    int32_t directory;
} PathRule;

static int landlock_abi(void) {
    enum { VERSION = 1 };
    long abi = syscall(CREATE_RULESET, NULL, 0, VERSION);
    return abi > 0 ? (int)abi : 0;
}

static uint64_t write_rights(int abi) {
    return FS_WRITES | (abi >= 2 ? FS_REFER : 0) | (abi >= 3 ? FS_TRUNCATE : 0);
}

// Cuts the last part off a path; false: there is none. "a" becomes ".", "/a" becomes "/".
static bool to_parent(char *path) {
    char *slash = strrchr(path, '/');
    if (!strcmp(path, ".") || !strcmp(path, "/")) return false;
    if (!slash)
        memcpy(path, ".", 2);
    else
        slash[slash == path] = '\0';
    return true;
}

// The process enters once, and needs no memory that could be refused: not a frame of the stack
// either.
static char path[PATH_MAX], around[PATH_MAX];

// Allows writing beneath the nearest directory around `path` that is there, with 2 levels beneath
// the one around that. Of "/" itself: everywhere. From the real path of the first on, which has no
// ".." whose parent would be another directory.
static void allow_around(int ruleset, uint64_t rights, int levels) {
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/')
        path[--length] = '\0';
    bool found = !strcmp(path, "/") && realpath(path, around);
    while (!found && to_parent(path))
        found = realpath(path, around);
    for (int up = 1; found && up < levels; up++)
        to_parent(around);
    int directory = found ? open(around, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
    PathRule rule = {.allowed = rights, .directory = directory};
    if (directory < 0) return;
    syscall(ADD_RULE, ruleset, RULE_PATH_BENEATH, &rule, 0);
    close(directory);
}

static bool enter_landlock(const SandboxOutputs *outputs) {
    int abi = landlock_abi();
    uint64_t writes = DEVICE_DRIVER ? 0 : write_rights(abi);
    Ruleset wanted = {FS_EXECUTE | writes, abi >= 4 ? NET_TCP : 0, abi >= 6 ? SCOPES : 0};
    size_t size = abi >= 6 ? 24 : abi >= 4 ? 16 : 8;
    int ruleset = abi ? (int)syscall(CREATE_RULESET, &wanted, size, 0) : -1;
    if (ruleset < 0) return false;
    for (size_t i = 0; writes && i < outputs->count; i++) {
        int levels = outputs->directories ? 2 : 1;
        if (snprintf(path, sizeof path, "%s", outputs->paths[i]) < PATH_MAX)
            allow_around(ruleset, writes, levels);
        // The file may be a link to elsewhere.
        if (realpath(outputs->paths[i], path)) allow_around(ruleset, writes, levels);
    }
    bool good = !syscall(RESTRICT_SELF, ruleset, 0);
    close(ruleset);
    return good;
}

// ---- the table of system calls ----

typedef enum Need {
    ALWAYS,
    FILES,   // until sandbox_close_files
    OUTPUTS, // with outputs
    READS,   // without outputs, until sandbox_close_files
} Need;

// Allowed where (argument & mask) == value; mask 0: with any arguments. OWN_ID: value is the id of
// this process.
typedef struct Call {
    int number;
    Need need;
    uint8_t argument;
    uint32_t mask, value;
} Call;

enum { ANY = 0, OWN_ID = UINT16_MAX }; // no other row has this value
#define PLAIN(name, need)                                                                          \
    { SYS_##name, need, 0, ANY, 0 }
// Bits of open() that write; O_TMPFILE holds O_DIRECTORY, which reading a directory has too.
#define WRITING (O_ACCMODE | O_CREAT | O_TRUNC | (O_TMPFILE & ~O_DIRECTORY))

static const Call CALLS[] = {
    PLAIN(futex, ALWAYS),
    PLAIN(read, ALWAYS),
    PLAIN(write, ALWAYS),
    PLAIN(madvise, ALWAYS),
    PLAIN(sched_yield, ALWAYS),
    PLAIN(clock_gettime, ALWAYS),
    PLAIN(clock_nanosleep, ALWAYS),
    PLAIN(nanosleep, ALWAYS),
    PLAIN(clock_getres, ALWAYS),
    PLAIN(gettimeofday, ALWAYS),
    // memory: none of it can be executed
    {SYS_mmap, ALWAYS, 2, PROT_EXEC, 0},
    {SYS_mprotect, ALWAYS, 2, PROT_EXEC, 0},
    PLAIN(munmap, ALWAYS),
    PLAIN(mremap, ALWAYS),
    PLAIN(brk, ALWAYS),
    PLAIN(mincore, ALWAYS),
    // descriptors that are open
    PLAIN(pread64, ALWAYS),
    PLAIN(readv, ALWAYS),
    PLAIN(writev, ALWAYS),
    PLAIN(lseek, ALWAYS),
    PLAIN(close, ALWAYS),
    PLAIN(fstat, ALWAYS),
    PLAIN(fcntl, ALWAYS),
    PLAIN(fadvise64, ALWAYS),
    PLAIN(pselect6, ALWAYS),
    PLAIN(ppoll, ALWAYS),
    PLAIN(getdents64, ALWAYS),
    // a terminal is asked what it is, and a line editor sets its modes; TIOCSTI would type into it
    {SYS_ioctl, ALWAYS, 1, UINT32_MAX, TCGETS},
    {SYS_ioctl, ALWAYS, 1, UINT32_MAX, TCSETS},
    {SYS_ioctl, ALWAYS, 1, UINT32_MAX, TCSETSW},
    {SYS_ioctl, ALWAYS, 1, UINT32_MAX, TCSETSF},
    {SYS_ioctl, ALWAYS, 1, UINT32_MAX, TIOCGWINSZ},
// names of files, without opening them
#ifdef SYS_newfstatat
    PLAIN(newfstatat, ALWAYS),
#endif
    PLAIN(statx, ALWAYS),
    PLAIN(faccessat, ALWAYS),
    PLAIN(faccessat2, ALWAYS),
    PLAIN(readlinkat, ALWAYS),
    PLAIN(getcwd, ALWAYS),
    PLAIN(statfs, ALWAYS),
    PLAIN(fstatfs, ALWAYS),
    // threads, not processes; clone3, whose flags a filter cannot see, is answered apart
    {SYS_clone, ALWAYS, 0, CLONE_THREAD, CLONE_THREAD},
    PLAIN(set_robust_list, ALWAYS),
    PLAIN(rseq, ALWAYS),
    PLAIN(gettid, ALWAYS),
    PLAIN(getpid, ALWAYS),
    PLAIN(exit, ALWAYS),
    PLAIN(exit_group, ALWAYS),
    PLAIN(sched_getaffinity, ALWAYS),
    PLAIN(sched_setaffinity, ALWAYS),
    PLAIN(sched_getparam, ALWAYS),
    PLAIN(sched_getscheduler, ALWAYS),
    PLAIN(getcpu, ALWAYS),
    PLAIN(membarrier, ALWAYS),
    PLAIN(sysinfo, ALWAYS),
    PLAIN(uname, ALWAYS),
    PLAIN(getrusage, ALWAYS),
    PLAIN(times, ALWAYS),
    PLAIN(prlimit64, ALWAYS),
    PLAIN(getuid, ALWAYS),
    PLAIN(geteuid, ALWAYS),
    PLAIN(getgid, ALWAYS),
    PLAIN(getegid, ALWAYS),
    PLAIN(getrandom, ALWAYS),
    // signals, to this process
    PLAIN(rt_sigaction, ALWAYS),
    PLAIN(rt_sigprocmask, ALWAYS),
    PLAIN(rt_sigreturn, ALWAYS),
    PLAIN(sigaltstack, ALWAYS),
    PLAIN(restart_syscall, ALWAYS),
    {SYS_tgkill, ALWAYS, 0, UINT32_MAX, OWN_ID},
    {SYS_kill, ALWAYS, 0, UINT32_MAX, OWN_ID},
    // another filter can only forbid more
    PLAIN(seccomp, FILES),
    {SYS_openat, READS, 2, WRITING, O_RDONLY},
    PLAIN(openat, OUTPUTS),
#ifdef SYS_open // older names, of x86 alone
    {SYS_open, READS, 1, WRITING, O_RDONLY},
    PLAIN(open, OUTPUTS),
    PLAIN(unlink, OUTPUTS),
    PLAIN(rmdir, OUTPUTS),
    PLAIN(rename, OUTPUTS),
    PLAIN(link, OUTPUTS),
    PLAIN(mkdir, OUTPUTS),
    PLAIN(stat, ALWAYS),
    PLAIN(lstat, ALWAYS),
    PLAIN(access, ALWAYS),
    PLAIN(readlink, ALWAYS),
    PLAIN(poll, ALWAYS),
    PLAIN(select, ALWAYS),
    PLAIN(time, ALWAYS),
    PLAIN(getrlimit, ALWAYS),
    PLAIN(arch_prctl, ALWAYS),
#endif
#ifdef SYS_renameat
    PLAIN(renameat, OUTPUTS),
#endif
    // outputs; Landlock says where
    PLAIN(pwrite64, OUTPUTS),
    PLAIN(fsync, OUTPUTS),
    PLAIN(sync_file_range, OUTPUTS),
    PLAIN(fdatasync, OUTPUTS),
    PLAIN(ftruncate, OUTPUTS),
    PLAIN(fallocate, OUTPUTS),
    PLAIN(flock, OUTPUTS),
    PLAIN(linkat, OUTPUTS),
    PLAIN(renameat2, OUTPUTS),
    PLAIN(unlinkat, OUTPUTS),
    PLAIN(mkdirat, OUTPUTS),
    PLAIN(symlinkat, OUTPUTS),
    PLAIN(fchmod, OUTPUTS),
    PLAIN(fchown, OUTPUTS),
    PLAIN(getxattr, OUTPUTS),
    PLAIN(fsetxattr, OUTPUTS),
    PLAIN(utimensat, OUTPUTS),
    PLAIN(copy_file_range, OUTPUTS),
};
enum { N_CALLS = sizeof CALLS / sizeof *CALLS, MOST_MASKED = 16, AROUND = 12 };

// ---- seccomp ----

#if defined(__x86_64__)
enum { ARCHITECTURE = (int)AUDIT_ARCH_X86_64 };
#elif defined(__aarch64__)
enum { ARCHITECTURE = (int)AUDIT_ARCH_AARCH64 };
#else
enum { ARCHITECTURE = 0 };
#endif

static bool has_outputs, filtered, closed; // of the process, as what they speak of is

static bool wants(Need need, bool files) {
    return need == ALWAYS || (need == FILES && files) || (need == OUTPUTS && has_outputs) ||
           (need == READS && files && !has_outputs);
}

typedef struct sock_filter Instruction;

static Instruction *refuse(Instruction *at, int error) {
    *at++ = (Instruction)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)error);
    return at;
}

static Instruction *load(Instruction *at, size_t offset) {
    *at++ = (Instruction)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset);
    return at;
}

// Goes on with the next instruction where the loaded word is `value`, else skips `others`.
static Instruction *match(Instruction *at, uint32_t value, uint8_t others) {
    *at++ = (Instruction)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, others);
    return at;
}

// The lower half of an argument, which is all that the kernel reads of these.
static Instruction *allow(Instruction *at, const Call *call) {
    enum { HALF = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? 4 : 0 };
    at = load(at, offsetof(struct seccomp_data, nr));
    at = match(at, (uint32_t)call->number, call->mask ? 4 : 1);
    if (call->mask) {
        bool own = call->value == OWN_ID && call->mask == UINT32_MAX;
        at = load(at, offsetof(struct seccomp_data, args) + 8u * call->argument + HALF);
        *at++ = (Instruction)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, call->mask);
        at = match(at, own ? (uint32_t)getpid() : call->value, 1);
    }
    *at++ = (Instruction)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    return at;
}

// With TSYNC the filter holds for threads that run already.
static bool install(bool files) {
    Instruction program[3 * (N_CALLS + MOST_MASKED) + AROUND], *at = program;
    const Instruction *end = program + sizeof program / sizeof *program;
    at = load(at, offsetof(struct seccomp_data, arch));
    at = match(at, (uint32_t)ARCHITECTURE, 1);
    *at++ = (Instruction)BPF_JUMP(BPF_JMP | BPF_JA, 1, 0, 0);
    at = refuse(at, EPERM);
    for (size_t i = 0; i < N_CALLS; i++)
        if (wants(CALLS[i].need, files) && at < end - AROUND) at = allow(at, &CALLS[i]);
    at = load(at, offsetof(struct seccomp_data, nr));
    at = match(at, SYS_clone3, 1);
    at = refuse(at, ENOSYS); // libc then calls clone
    at = refuse(at, EPERM);
    struct sock_fprog filter = {.len = (unsigned short)(at - program), .filter = program};
    return !syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter);
}

static bool kernel_filters(void) {
    uint32_t action = SECCOMP_RET_ERRNO;
    return ARCHITECTURE != 0 && !syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action);
}

// ---- entering ----

// Why there is no sandbox, or NULL.
static const char *reason_for_none(void) {
    const char *preloaded = getenv("LD_PRELOAD");
    if (sanitized()) return "this build has a sanitizer";
    if (preloaded && strstr(preloaded, "vgpreload")) return "under valgrind";
    return NULL;
}

bool sandbox_enter(const SandboxOutputs *outputs) {
    if (reason_for_none() || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return false;
    has_outputs = outputs->count > 0;
    bool guarded = enter_landlock(outputs);
    filtered = !DEVICE_DRIVER && kernel_filters() && install(true);
    return guarded || filtered;
}

void sandbox_close_files(void) {
    if (filtered && !has_outputs && !closed) closed = install(false);
}

const char *sandbox_describe(char *out, size_t size) {
    const char *reason = reason_for_none(); // valgrind does not know all that is asked below
    int abi = reason ? 0 : landlock_abi();
    bool filters = !reason && !DEVICE_DRIVER && kernel_filters();
    if (!reason && !abi && !filters) reason = "this kernel offers neither landlock nor seccomp";
    if (reason)
        snprintf(out, size, "none: %s", reason);
    else if (!abi)
        snprintf(out, size, "seccomp, no landlock");
    else
        snprintf(out, size, "landlock ABI %d, %s", abi,
                 filters         ? "seccomp"
                 : DEVICE_DRIVER ? "no seccomp: the driver of the GPU needs its calls"
                                 : "no seccomp");
    return out;
}
