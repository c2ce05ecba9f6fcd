// What tests share: data paths, random numbers, files, child processes, and the plain main.
#include "base/hash.h"
#include "tests/test.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

// A formatted text that lives until the program ends: the list keeps it reachable for leak checks.
__attribute__((format(printf, 1, 2))) static char *kept_text(const char *format, ...) {
    static struct Kept {
        struct Kept *next;
        char text[];
    } * kept;
    va_list arguments;
    va_start(arguments, format);
    char text[1024];
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    struct Kept *entry = malloc(sizeof *entry + strlen(text) + 1);
    if (!entry) abort();
    entry->next = kept;
    kept = entry;
    return strcpy(entry->text, text);
}

const char *test_text(const char *format, ...) {
    static char text[4096];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return text;
}

const char *test_data(const char *name) {
    const char *path = kept_text("../shared/data/%s", name);
    if (access(path, R_OK)) SKIP("no %s on this machine", path);
    return path;
}

const char *test_data_if_any(const char *name) {
    const char *path = kept_text("../shared/data/%s", name);
    return access(path, R_OK) ? NULL : path;
}

const char *test_reference_model(const char *name) {
    static const char *const TINY[][2] = {{"llama-untied", "llama"},
                                          {"llama-rope-llama3", "llama-linear"},
                                          {"mistral-window8", "mistral-window"},
                                          {"qwen3-bf16", "qwen3"}};
    const char *path = kept_text("../shared/data/reference-models/%s", name);
    if (!access(path, R_OK)) return path;
    path = kept_text("../shared/data/reference-models-2026/%s", name);
    if (!access(path, R_OK)) return path;
    for (size_t i = 0; i < sizeof TINY / sizeof *TINY; i++)
        if (!strcmp(name, TINY[i][0])) name = TINY[i][1];
    path = kept_text("build/tiny-models/%s", name);
    if (access(path, R_OK)) SKIP("no %s: it is made with numpy (apt install python3-numpy)", path);
    return path;
}

const char *test_model_file(const char *name) {
    const char *directory = getenv("LIMPID_MODELS");
    const char *path = kept_text("%s/%s", directory ? directory : "models", name);
    if (access(path, R_OK)) SKIP("no %s on this machine (scripts/get_model fetches it)", path);
    return path;
}

uint64_t test_random(TestRandom *random) {
    return splitmix64(&random->state);
}

float test_random_float(TestRandom *random, float low, float high) {
    return low + (high - low) * (float)(test_random(random) >> 40) * 0x1p-24f;
}

float test_random_normal(TestRandom *random) {
    double u = ((double)(test_random(random) >> 11) + 1) * 0x1p-53;
    double v = (double)(test_random(random) >> 11) * 0x1p-53;
    return (float)(sqrt(-2 * log(u)) * cos(6.283185307179586 * v));
}

char *test_read_file(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    if (!file) TEST_FAIL("cannot open %s", path);
    fseek(file, 0, SEEK_END);
    size_t length = (size_t)ftell(file);
    rewind(file);
    char *bytes = malloc(length + 1);
    if (!bytes || fread(bytes, 1, length, file) != length) TEST_FAIL("cannot read %s", path);
    bytes[length] = '\0';
    fclose(file);
    if (size) *size = length;
    return bytes;
}

void test_write_file(const char *path, const void *bytes, size_t size) {
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(bytes, 1, size, file) != size || fclose(file))
        TEST_FAIL("cannot write %s", path);
}

static char temporary_directory[64];
static pid_t temporary_owner;

static void temporary_remove(void) {
    if (getpid() != temporary_owner) return;
    char command[100];
    snprintf(command, sizeof command, "rm -rf %s", temporary_directory);
    if (system(command)) fprintf(stderr, "could not remove %s\n", temporary_directory);
}

const char *test_temporary(const char *name) {
    if (!temporary_directory[0] || temporary_owner != getpid()) {
        snprintf(temporary_directory, sizeof temporary_directory, "/tmp/limpid-test-XXXXXX");
        if (!mkdtemp(temporary_directory)) TEST_FAIL("cannot make a temporary directory");
        temporary_owner = getpid();
        atexit(temporary_remove);
    }
    return kept_text("%s/%s", temporary_directory, name);
}

const char *test_temporary_new(const char *name) {
    static int count;
    return test_temporary(test_text("%d-%s", count++, name));
}

int test_entries(const char *directory) {
    DIR *open_directory = opendir(directory);
    int count = 0;
    CHECK(open_directory, "%s", directory);
    for (struct dirent *e; (e = readdir(open_directory));)
        count += strcmp(e->d_name, ".") && strcmp(e->d_name, "..");
    closedir(open_directory);
    return count;
}

typedef struct Collector {
    int fd;
    char *bytes;
    size_t size, capacity;
} Collector;

static bool collect(Collector *c) {
    if (c->size + 4097 > c->capacity) {
        c->capacity = 2 * c->capacity + 8192;
        c->bytes = realloc(c->bytes, c->capacity);
    }
    ssize_t got = read(c->fd, c->bytes + c->size, 4096);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) return true;
    if (got <= 0) return false;
    c->size += (size_t)got;
    return true;
}

TestRun test_run(const char *const *argv, const char *input, size_t input_size) {
    int in[2], out[2], err[2];
    if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC) || pipe2(err, O_CLOEXEC))
        TEST_FAIL("no pipes");
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        dup2(in[0], 0);
        dup2(out[1], 1);
        dup2(err[1], 2);
        execvp(argv[0], (char *const *)argv);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    close(err[1]);
    fcntl(in[1], F_SETFL, O_NONBLOCK);
    void (*old)(int) = signal(SIGPIPE, SIG_IGN);
    Collector o = {.fd = out[0]}, e = {.fd = err[0]};
    size_t sent = 0;
    bool out_open = true, err_open = true;
    if (!input) input_size = 0;
    while (out_open || err_open) {
        if (in[1] >= 0 && sent == input_size) {
            close(in[1]);
            in[1] = -1;
        }
        struct pollfd fds[3] = {{out_open ? o.fd : -1, POLLIN, 0},
                                {err_open ? e.fd : -1, POLLIN, 0},
                                {in[1], POLLOUT, 0}};
        poll(fds, 3, -1);
        if (fds[0].revents) out_open = collect(&o);
        if (fds[1].revents) err_open = collect(&e);
        if (in[1] >= 0 && fds[2].revents) {
            ssize_t wrote = write(in[1], input + sent, input_size - sent);
            if (wrote > 0)
                sent += (size_t)wrote;
            else if (errno != EAGAIN && errno != EINTR)
                sent = input_size;
        }
    }
    if (in[1] >= 0) close(in[1]);
    close(o.fd);
    close(e.fd);
    signal(SIGPIPE, old);
    int status = 0;
    waitpid(child, &status, 0);
    TestRun run = {.status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status),
                   .out = o.bytes,
                   .err = e.bytes,
                   .out_size = o.size,
                   .err_size = e.size};
    run.out[run.out_size] = run.err[run.err_size] = '\0';
    return run;
}

void test_run_free(TestRun *run) {
    free(run->out);
    free(run->err);
}

#if !TEST_EMULATED // the emulator has more of them: tests/cuda/fibers.cpp
// AddressSanitizer asks for its options here: what is too large is refused, as by malloc itself.
// Visible: gcc's runtime is a shared library.
__attribute__((visibility("default"))) const char *__asan_default_options(void);
const char *__asan_default_options(void) {
    return "allocator_may_return_null=1";
}
#endif

#ifdef TEST_PLAIN

static TestCase *first_case, **last_case = &first_case;
static jmp_buf leave;
enum { PASSED, FAILED, SKIPPED };

void test_register(TestCase *test) {
    *last_case = test;
    last_case = &test->next;
}

void test_fail(const char *file, int line, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "FAILED %s:%d: ", file, line);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    longjmp(leave, FAILED);
}

void test_skip(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "SKIPPED: ");
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    longjmp(leave, SKIPPED);
}

static int run_case(const TestCase *test) {
    int result = setjmp(leave);
    if (!result) test->run();
    return result;
}

// argv[1]: only tests whose "suite/name" contains it, or "=suite/name": that one; those that follow:
// and none that contains one.
static bool is_chosen(const char *name, int argc, char **argv) {
    if (argc > 1 && argv[1][0] == '=') return !strcmp(name, argv[1] + 1);
    for (int i = 2; i < argc; i++)
        if (strstr(name, argv[i])) return false;
    return argc < 2 || strstr(name, argv[1]);
}

int main(int argc, char **argv) {
    int count[3] = {0};
    for (TestCase *test = first_case; test; test = test->next) {
        char name[256];
        snprintf(name, sizeof name, "%s/%s", test->suite, test->name);
        if (!is_chosen(name, argc, argv)) continue;
        int result = run_case(test);
        count[result]++;
        if (result == FAILED) fprintf(stderr, "FAILED %s\n", name);
    }
    fprintf(stderr, "plain: %d passed, %d failed, %d skipped\n", count[PASSED], count[FAILED],
            count[SKIPPED]);
    return count[FAILED] || !(count[PASSED] + count[SKIPPED]);
}

#endif
