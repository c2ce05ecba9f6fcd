// A library for LD_PRELOAD that makes one call fail, so that a test can let each of them fail in
// turn:
//
//   FAULT=memory | files | threads | kill | interrupt | again | short
//                          which calls: malloc and its relatives, the calls on files, or those that
//                          start a thread; kill: the process ends by SIGKILL in place of a call on
//                          files; interrupt: it gets a signal before one; again, short: a read or a
//                          write ends by EINTR, or moves a single byte
//   FAULT_AT=N             the N-th such call after main began fails (0: none)
//   FAULT_ON=1             all later ones fail too
//   FAULT_THEN=memory | files
//                          from then on these fail as well: a fault while another is dealt with
//   FAULT_ERRNO=N          errno of a call on files that fails, in place of what suits the call
//   FAULT_SIGNAL=N         of interrupt, in place of SIGINT
//   FAULT_PLAIN=1          a file system without files that have no name (O_TMPFILE) and without
//                          flags of renameat2, as some network disks, and one that renames no
//                          directories, as some overlays; 2: without hard links too, as mounts of
//                          object stores
//   FAULT_EXCEPT=LIBRARY   its allocations, and those of what it calls, neither count nor fail
//   FAULT_COUNT=FILE       receives the number of calls at exit; without a fault also, a line each,
//                          the numbers of those worth a try: the first, the second and the last
//                          call from each place (the innermost return addresses)
//
// Memory calls go to glibc's own entry points: looking up a symbol could itself allocate. Counting
// starts at main; libraries allocate before it.
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);

static bool armed, memory_kind, files_kind, threads_kind, then_memory, then_files, kill_kind,
    interrupt_kind, again_kind, short_kind, for_ever, plain, no_links;
static int given_errno, given_signal;
static long fail_at;
static const char *excepted;
static atomic_long calls;
static atomic_bool struck; // the N-th call has failed

// Opened at the start: the program's sandbox lets no new file be written. A high number, since
// tests count on the low ones.
static int count_file = -1;

// ---- where calls come from ----

enum { FRAMES = 16, PLACES = 1 << 14 }; // up to five frames are of this library

typedef struct Place {
    uint64_t hash; // of the return addresses; 0: none
    long first, second, last;
} Place;
static Place places[PLACES];
static atomic_flag places_lock = ATOMIC_FLAG_INIT;

static uint64_t hash_of_place(void) {
    void *frames[FRAMES];
    uint64_t hash = 14695981039346656037u; // FNV-1a, a word at a time
    for (int i = backtrace(frames, FRAMES); i-- > 0;)
        hash = (hash ^ (uintptr_t)frames[i]) * 1099511628211u;
    return hash ? hash : 1;
}

static void note_place(long number) {
    uint64_t hash = hash_of_place();
    while (atomic_flag_test_and_set(&places_lock))
        ;
    for (size_t i = 0; i < PLACES; i++) { // where the table is full a place is left out
        Place *place = &places[(hash + i) % PLACES];
        if (place->hash && place->hash != hash) continue;
        place->hash = hash;
        if (!place->first)
            place->first = number;
        else if (!place->second)
            place->second = number;
        else
            place->last = number;
        break;
    }
    atomic_flag_clear(&places_lock);
}

// backtrace() allocates when it is first called, so that is before main.
static void prepare_places(void) {
    backtrace(&(void *){NULL}, 1);
}

static bool fails(bool kind) {
    if (!armed || !kind) return false;
    long number = atomic_fetch_add(&calls, 1) + 1;
    if (!fail_at && count_file >= 0) note_place(number);
    if (!fail_at || number < fail_at) return false;
    atomic_store(&struck, true);
    return number == fail_at || for_ever;
}

static bool is_excepted(void) {
    void *frames[24];
    Dl_info of;
    static __thread bool inside;
    if (!armed || !excepted || inside) return false;
    inside = true;
    bool found = false;
    for (int i = backtrace(frames, 24); i-- > 0 && !found;)
        found = dladdr(frames[i], &of) && of.dli_fname && strstr(of.dli_fname, excepted);
    inside = false;
    return found;
}

static bool no_memory(void) {
    if (is_excepted()) return false;
    if (!fails(memory_kind) && !(armed && then_memory && atomic_load(&struck))) return false;
    errno = ENOMEM;
    return true;
}

static bool no_file(int error) {
    if (!fails(files_kind) && !(armed && then_files && atomic_load(&struck))) return false;
    if (kill_kind) kill(getpid(), SIGKILL);
    if (interrupt_kind) raise(given_signal);
    if (interrupt_kind) return false;
    errno = given_errno ? given_errno : error;
    return true;
}

// The same of a call that moves `size` bytes: it may also move one alone.
static bool no_transfer(size_t *size, int error) {
    if (again_kind && fails(true)) {
        errno = EINTR;
        return true;
    }
    if (short_kind && fails(true) && *size) *size = 1;
    return no_file(error);
}

void *malloc(size_t size) {
    return no_memory() ? NULL : __libc_malloc(size);
}

void *calloc(size_t count, size_t size) {
    return no_memory() ? NULL : __libc_calloc(count, size);
}

void *realloc(void *old, size_t size) {
    return no_memory() ? NULL : __libc_realloc(old, size);
}

void *memalign(size_t alignment, size_t size) {
    return no_memory() ? NULL : __libc_memalign(alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size) {
    return memalign(alignment, size);
}

int posix_memalign(void **out, size_t alignment, size_t size) {
    void *memory = memalign(alignment, size);
    if (!memory) return ENOMEM;
    *out = memory;
    return 0;
}

void *mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset) {
    bool anonymous = flags & MAP_ANONYMOUS;
    if (anonymous ? no_memory() : no_file(ENODEV)) return MAP_FAILED;
    return (void *)syscall(SYS_mmap, address, length, protection, flags, fd, offset);
}

static bool lacks(bool feature, int error) {
    if (plain && feature) errno = error;
    return plain && feature;
}

static int open_path(int directory, const char *path, int flags, int mode) {
    if (lacks((flags & O_TMPFILE) == O_TMPFILE, EOPNOTSUPP)) return -1;
    if (no_file(EIO)) return -1;
    return (int)syscall(SYS_openat, directory, path, flags, mode);
}

#define OPEN(name_)                                                                                \
    int name_(const char *path, int flags, ...) {                                                  \
        va_list arguments;                                                                         \
        va_start(arguments, flags);                                                                \
        int mode = flags & O_CREAT ? va_arg(arguments, int) : 0;                                   \
        va_end(arguments);                                                                         \
        return open_path(AT_FDCWD, path, flags, mode);                                             \
    }
OPEN(open)
OPEN(open64)

int openat(int directory, const char *path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    int mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, int) : 0;
    va_end(arguments);
    return open_path(directory, path, flags, mode);
}

ssize_t read(int fd, void *buffer, size_t size) {
    return no_transfer(&size, EIO) ? -1 : syscall(SYS_read, fd, buffer, size);
}

ssize_t pread(int fd, void *buffer, size_t size, off_t offset) {
    return no_transfer(&size, EIO) ? -1 : syscall(SYS_pread64, fd, buffer, size, offset);
}

ssize_t pwrite(int fd, const void *buffer, size_t size, off_t offset) {
    return no_transfer(&size, ENOSPC) ? -1 : syscall(SYS_pwrite64, fd, buffer, size, offset);
}

int fallocate(int fd, int mode, off_t offset, off_t length) {
    return no_file(ENOSPC) ? -1 : (int)syscall(SYS_fallocate, fd, mode, offset, length);
}

// Waiting for the disk would take most of a test's time, and what it guards against (a crash of the
// machine) is none that a test can make.
int fsync(int fd) {
    (void)fd;
    return no_file(EIO) ? -1 : 0;
}

int sync_file_range(int fd, off_t at, off_t count, unsigned flags) {
    (void)fd, (void)at, (void)count, (void)flags;
    return no_file(EIO) ? -1 : 0;
}

int linkat(int from, const char *old, int to, const char *new, int flags) {
    if (lacks(no_links, EPERM)) return -1;
    return no_file(EIO) ? -1 : (int)syscall(SYS_linkat, from, old, to, new, flags);
}

static bool is_directory(int at, const char *path) {
    struct stat status;
    return !fstatat(at, path, &status, AT_SYMLINK_NOFOLLOW) && S_ISDIR(status.st_mode);
}

int renameat(int from, const char *old, int to, const char *new) {
    if (lacks(plain && is_directory(from, old), EXDEV)) return -1;
    return no_file(EIO) ? -1 : (int)syscall(SYS_renameat, from, old, to, new);
}

int renameat2(int from, const char *old, int to, const char *new, unsigned flags) {
    if (lacks(flags, EINVAL)) return -1;
    return no_file(EIO) ? -1 : (int)syscall(SYS_renameat2, from, old, to, new, flags);
}

int mkdirat(int directory, const char *path, mode_t mode) {
    return no_file(EIO) ? -1 : (int)syscall(SYS_mkdirat, directory, path, mode);
}

int unlinkat(int directory, const char *path, int flags) {
    return no_file(EIO) ? -1 : (int)syscall(SYS_unlinkat, directory, path, flags);
}

int unlink(const char *path) {
    return unlinkat(AT_FDCWD, path, 0);
}

int rmdir(const char *path) {
    return unlinkat(AT_FDCWD, path, AT_REMOVEDIR);
}

int fchmod(int fd, mode_t mode) {
    return no_file(EIO) ? -1 : (int)syscall(SYS_fchmod, fd, mode);
}

// The descriptor is closed all the same, as Linux does it.
int close(int fd) {
    bool failed = no_file(EIO);
    int cause = errno, result = (int)syscall(SYS_close, fd);
    if (failed) errno = cause;
    return failed ? -1 : result;
}

ssize_t write(int fd, const void *buffer, size_t size) {
    if (fd != STDERR_FILENO && no_transfer(&size, ENOSPC)) return -1;
    return syscall(SYS_write, fd, buffer, size);
}

int fstat(int fd, struct stat *status) {
    return no_file(EIO) ? -1 : (int)syscall(SYS_fstat, fd, status);
}

typedef int StartThread(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*begin)(void *),
                   void *argument) {
    StartThread *real = (StartThread *)dlsym(RTLD_NEXT, "pthread_create");
    return fails(threads_kind) ? EAGAIN : real(thread, attributes, begin, argument);
}

static int (*real_main)(int, char **, char **);

static void open_count(void) {
    const char *path = getenv("FAULT_COUNT");
    if (!path) return;
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    count_file = fcntl(fd, F_DUPFD, 200);
    syscall(SYS_close, fd);
}

static void write_number(long number) {
    char text[32];
    int length = snprintf(text, sizeof text, "%ld\n", number);
    if (syscall(SYS_write, count_file, text, length) != length) _exit(99);
}

static void write_count(void) {
    armed = false;
    if (count_file < 0) return;
    write_number(atomic_load(&calls));
    for (size_t i = 0; i < PLACES && !fail_at; i++) {
        const long numbers[] = {places[i].first, places[i].second, places[i].last};
        for (size_t n = 0; n < 3 && numbers[n]; n++)
            write_number(numbers[n]);
    }
    syscall(SYS_close, count_file);
}

static int armed_main(int argc, char **argv, char **environment) {
    const char *kind = getenv("FAULT"), *at = getenv("FAULT_AT");
    const char *number = getenv("FAULT_ERRNO"), *then = getenv("FAULT_THEN");
    const char *signal_number = getenv("FAULT_SIGNAL");
    memory_kind = kind && !strcmp(kind, "memory");
    kill_kind = kind && !strcmp(kind, "kill");
    interrupt_kind = kind && !strcmp(kind, "interrupt");
    again_kind = kind && !strcmp(kind, "again");
    short_kind = kind && !strcmp(kind, "short");
    files_kind = kill_kind || interrupt_kind || (kind && !strcmp(kind, "files"));
    threads_kind = kind && !strcmp(kind, "threads");
    then_memory = then && !strcmp(then, "memory");
    then_files = then && !strcmp(then, "files");
    for_ever = getenv("FAULT_ON") != NULL;
    plain = getenv("FAULT_PLAIN") != NULL;
    no_links = plain && *getenv("FAULT_PLAIN") == '2';
    fail_at = at ? atol(at) : 0;
    given_errno = number ? atoi(number) : 0;
    given_signal = signal_number ? atoi(signal_number) : SIGINT;
    excepted = getenv("FAULT_EXCEPT");
    prepare_places();
    open_count();
    atexit(write_count);
    armed = true;
    return real_main(argc, argv, environment);
}

typedef int StartMain(int (*)(int, char **, char **), int, char **, void (*)(void), void (*)(void),
                      void (*)(void), void *);
int __libc_start_main(int (*main_)(int, char **, char **), int argc, char **argv,
                      void (*init)(void), void (*fini)(void), void (*rtld_fini)(void), void *stack);

int __libc_start_main(int (*main_)(int, char **, char **), int argc, char **argv,
                      void (*init)(void), void (*fini)(void), void (*rtld_fini)(void),
                      void *stack) {
    StartMain *real = (StartMain *)dlsym(RTLD_NEXT, "__libc_start_main");
    real_main = main_;
    return real(armed_main, argc, argv, init, fini, rtld_fini, stack);
}
