// A process inside the sandbox tries what code that a file brought along would try. Each attempt is
// made in a child process; those on files of this test first outside, where they must succeed.
#include "base/sandbox.h"

#include "tests/test.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

// Nothing here may do harm where it is not refused: tests run as root too, on machines that others
// use. So what changes more than this test's own files and processes has an operand that is not
// there, and fails outside with another error than EPERM.
static const char NOWHERE[] = "/nowhere/for-a-test";
static char there[300], fresh[300]; // a file that exists, one that does not
static char directory[300];         // of both
static int file = -1;               // `there`, open for reading and writing
static pid_t other;                 // another process of this user

static long call_open_to_write(void) {
    return open(there, O_WRONLY);
}
static long call_create(void) {
    return open(fresh, O_RDWR | O_CREAT, 0600);
}
static long call_unnamed(void) {
    return open(directory, O_TMPFILE | O_RDWR, 0600);
}
static long call_truncate(void) {
    return truncate(there, 0);
}
static long call_ftruncate(void) {
    return ftruncate(file, 0);
}
static long call_unlink(void) {
    return unlinkat(AT_FDCWD, there, 0);
}
static long call_rename(void) {
    return renameat(AT_FDCWD, there, AT_FDCWD, fresh);
}
static long call_link(void) {
    return linkat(AT_FDCWD, there, AT_FDCWD, fresh, 0);
}
static long call_symlink(void) {
    return symlinkat("a", AT_FDCWD, fresh);
}
static long call_mkdir(void) {
    return mkdirat(AT_FDCWD, fresh, 0700);
}
static long call_chmod(void) {
    return chmod(there, 0777);
}
static long call_fchmod(void) {
    return fchmod(file, 0777);
}
static long call_socket(void) {
    return socket(AF_INET, SOCK_STREAM, 0);
}
static long call_unix_socket(void) {
    return socket(AF_UNIX, SOCK_STREAM, 0);
}
static long call_execve(void) {
    return execl("/bin/true", "true", NULL);
}
static long call_fork(void) {
    return syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
}
static long call_clone3(void) {
    uint64_t arguments[8] = {[4] = SIGCHLD};
    return syscall(SYS_clone3, arguments, sizeof arguments);
}
static long call_ptrace(void) {
    return ptrace(PTRACE_SEIZE, other, 0, 0);
}
static long call_kill(void) {
    return kill(other, SIGURG);
}
static long call_unshare(void) {
    return unshare(CLONE_FS);
}
static long call_mprotect(void) {
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return page == MAP_FAILED ? 0 : mprotect(page, 4096, PROT_READ | PROT_EXEC);
}
static long call_mmap(void) {
    void *page =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return page == MAP_FAILED ? -1 : 0;
}
static long call_memfd(void) {
    return memfd_create("a", 0);
}
static long call_process_memory(void) {
    return syscall(SYS_process_vm_readv, other, 0, 0, 0, 0, 0);
}
static long call_prctl(void) {
    return prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
}
static long call_chdir(void) {
    return chdir("/");
}
static long call_mount(void) {
    return mount("none", NOWHERE, "tmpfs", 0, NULL);
}
static long call_bpf(void) {
    return syscall(SYS_bpf, 99, NULL, 0);
}
static long call_type_into_terminal(void) {
    return ioctl(-1, TIOCSTI, "a");
}
static long call_connect(void) {
    return connect(file, &(struct sockaddr){AF_UNSPEC, ""}, 16);
}

typedef struct Attempt {
    const char *name;
    long (*call)(void);
    bool works_outside; // for any user, on what belongs to this test: tried there
} Attempt;

static const Attempt ATTEMPTS[] = {
    {"open for writing", call_open_to_write, true},
    {"create", call_create, true},
    {"O_TMPFILE", call_unnamed, true},
    {"truncate", call_truncate, true},
    {"ftruncate", call_ftruncate, true},
    {"unlink", call_unlink, true},
    {"rename", call_rename, true},
    {"link", call_link, true},
    {"symlink", call_symlink, true},
    {"mkdir", call_mkdir, true},
    {"chmod", call_chmod, true},
    {"fchmod", call_fchmod, true},
    {"socket", call_socket, true},
    {"socket of the machine", call_unix_socket, true},
    {"execve", call_execve, true},
    {"fork", call_fork, true},
    {"clone3", call_clone3, true},
    {"ptrace", call_ptrace, false},
    {"kill another", call_kill, true},
    {"unshare", call_unshare, true},
    {"mprotect PROT_EXEC", call_mprotect, true},
    {"mmap PROT_EXEC", call_mmap, true},
    {"memfd_create", call_memfd, true},
    {"process_vm_readv", call_process_memory, false},
    {"prctl", call_prctl, true},
    {"chdir", call_chdir, true},
    {"mount", call_mount, false},
    {"bpf", call_bpf, false},
    {"TIOCSTI", call_type_into_terminal, false},
    {"connect", call_connect, false},
};
enum { N_ATTEMPTS = sizeof ATTEMPTS / sizeof *ATTEMPTS };

static void need_sandbox(void) {
    char what[100];
    if (!strstr(sandbox_describe(what, sizeof what), "seccomp") || strstr(what, "no seccomp"))
        SKIP("no sandbox here: %s", what);
}

static void begin(void) {
    need_sandbox();
    snprintf(there, sizeof there, "%s", test_temporary("there"));
    snprintf(fresh, sizeof fresh, "%s", test_temporary("fresh"));
    snprintf(directory, sizeof directory, "%s", there);
    *strrchr(directory, '/') = '\0';
    other = fork();
    if (!other) {
        alarm(60); // where a check fails, nobody ends it
        pause();
        _exit(0);
    }
}

static void end(void) {
    kill(other, SIGKILL);
    waitpid(other, NULL, 0);
}

// The exit code of a child process that calls `act`: 0 allowed, 1 EPERM or EACCES, 2 ENOSYS, else
// 3. SIGSYS or another signal: above 128.
static int in_child(const SandboxOutputs *outputs, long (*act)(void)) {
    test_write_file(there, "content", 7);
    remove(fresh);
    file = open(there, O_RDWR);
    pid_t child = fork();
    if (!child) {
        if (outputs && !sandbox_enter(outputs)) _exit(9);
        errno = 0;
        long result = act();
        if (result >= 0) _exit(0);
        _exit(errno == EPERM || errno == EACCES ? 1 : errno == ENOSYS ? 2 : 3);
    }
    int status = 0;
    waitpid(child, &status, 0);
    close(file);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

Test(sandbox, refuses_each_of_thirty_ways_out) {
    begin();
    for (int i = 0; i < N_ATTEMPTS; i++) {
        const Attempt *a = &ATTEMPTS[i];
        int outside = a->works_outside ? in_child(NULL, a->call) : 0;
        int inside = in_child(&(SandboxOutputs){0}, a->call);
        CHECK(!outside, "%s: %d without a sandbox", a->name, outside);
        // libc falls back from clone3 to clone, whose flags can be seen.
        CHECK(inside == (a->call == call_clone3 ? 2 : 1), "%s: %d inside", a->name, inside);
    }
    end();
}

// ---- what goes on working ----

static long read_file(void) {
    char bytes[7];
    int descriptor = open(there, O_RDONLY);
    return read(descriptor, bytes, sizeof bytes) == 7 && !memcmp(bytes, "content", 7) ? 0 : -1;
}

static void *nothing(void *context) {
    return context;
}

static long start_thread(void) {
    pthread_t thread;
    return pthread_create(&thread, NULL, nothing, NULL) || pthread_join(thread, NULL) ? -1 : 0;
}

static long list_directory(void) {
    return open(directory, O_RDONLY | O_DIRECTORY);
}

Test(sandbox, lets_files_be_read_and_threads_be_started) {
    begin();
    CHECK_INT(in_child(&(SandboxOutputs){0}, read_file), 0);
    CHECK_INT(in_child(&(SandboxOutputs){0}, list_directory), 0);
    CHECK_INT(in_child(&(SandboxOutputs){0}, start_thread), 0);
    end();
}

// ---- outputs ----

Test(sandbox, lets_outputs_be_written_in_their_directory_alone) {
    begin();
    char what[100];
    if (!strstr(sandbox_describe(what, sizeof what), "landlock ABI"))
        SKIP("outputs are kept apart by Landlock: %s", what);
    char made[400];
    snprintf(made, sizeof made, "%s-missing/model/out.gguf", fresh);
    SandboxOutputs here = {{fresh}, 1, false}, elsewhere = {{"/proc/out"}, 1, false};
    SandboxOutputs deep = {{made}, 1, true};
    long (*const WRITES[])(void) = {call_create, call_open_to_write, call_truncate, call_unlink,
                                    call_rename, call_link,          call_mkdir};
    for (size_t i = 0; i < sizeof WRITES / sizeof *WRITES; i++) {
        bool by_filter = WRITES[i] == call_truncate;
        CHECK(in_child(&here, WRITES[i]) == by_filter, "%zu beside an output", i);
        CHECK(in_child(&deep, WRITES[i]) == by_filter, "%zu around a directory", i);
        CHECK(in_child(&elsewhere, WRITES[i]) == 1, "%zu away from the output", i);
    }
    CHECK_INT(in_child(&here, call_socket), 1);
    CHECK_INT(in_child(&here, call_execve), 1);
    CHECK_INT(in_child(&here, call_fork), 1);
    end();
}

// ---- after the files are open ----

static atomic_int closed;

static void *read_later(void *context) {
    while (!closed)
        sched_yield();
    *(long *)context = open(there, O_RDONLY) < 0 && errno == EPERM;
    return NULL;
}

// 0: neither this thread nor one that ran already can open a file.
static long read_after_closing(void) {
    pthread_t thread;
    long refused = 0;
    pthread_create(&thread, NULL, read_later, &refused);
    sandbox_close_files();
    closed = 1;
    pthread_join(thread, NULL);
    errno = 0;
    return open(there, O_RDONLY) < 0 && errno == EPERM && refused ? 0 : -1;
}

Test(sandbox, opens_nothing_in_any_thread_once_files_are_closed) {
    begin();
    CHECK_INT(in_child(&(SandboxOutputs){0}, read_after_closing), 0);
    end();
}
