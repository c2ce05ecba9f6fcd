#include "tests/support/program.h"

#include "weights/checkpoint.h"

#include <pty.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

enum { MAX_WORDS = 32, LINE_SIZE = 16384 };

typedef struct Words {
    char line[LINE_SIZE];
    const char *argv[MAX_WORDS + 1];
} Words;

static void split(Words *words, const char *line) {
    *words = (Words){.argv = {TEST_RUN}};
    snprintf(words->line, sizeof words->line, "%s", line);
    int argc = 1;
    for (char *rest = words->line, *word; argc < MAX_WORDS && (word = strsep(&rest, "|"));)
        words->argv[argc++] = word;
}

TestRun program_input(const char *line, const char *input, size_t size) {
    Words words;
    split(&words, line);
    return test_run(words.argv, input, size);
}

TestRun program(const char *format, ...) {
    char line[LINE_SIZE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    return program_input(line, NULL, 0);
}

void need_builtin(void) {
    size_t size = 0;
    if (!builtin_bytes(&size)) SKIP("this build has no model of its own (BUILTIN=0)");
}

const char *small_model(void) {
    return "weights/builtin.gguf";
}

const char *windowed_model(void) {
    static char path[300];
    snprintf(path, sizeof path, "%s", test_temporary("window.gguf"));
    const char *argv[] = {TEST_BUILD "/tests/random_model",
                          "--family",
                          "gemma3",
                          "--dim",
                          "64",
                          "--hidden",
                          "128",
                          "--layers",
                          "6",
                          "--heads",
                          "2",
                          "--kv-heads",
                          "1",
                          "--head-dim",
                          "32",
                          "--vocab",
                          "300",
                          "--ctx",
                          "4096",
                          "--window",
                          "8",
                          "--type",
                          "F32",
                          path,
                          NULL};
    TestRun run = test_run(argv, NULL, 0);
    CHECK(run.status == 0, "%s", run.err);
    test_run_free(&run);
    return path;
}

const char *public_model(void) {
    return test_data("stories260K/stories260K.gguf");
}

TestRun program_shell(const char *script) {
    char text[3000];
    const char *model = strstr(script, "$MODEL") ? small_model() : "";
    snprintf(text, sizeof text, "RUN=%s; MODEL=%s; %s", TEST_RUN, model, script);
    return test_run((const char *const[]){"sh", "-c", text, NULL}, NULL, 0);
}

enum { SCREEN = 1 << 20 };

static int wait_status(pid_t child) {
    int status = 0;
    waitpid(child, &status, 0);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static TestRun screen_open(void) {
    return (TestRun){.out = calloc(1, SCREEN), .err = calloc(1, 1)};
}

// Appends what there is to read; false at the end (EIO: the other side of a terminal is closed).
static bool screen_read(TestRun *run, int fd) {
    ssize_t got = read(fd, run->out + run->out_size, SCREEN - 1 - run->out_size);
    if (got > 0) run->out_size += (size_t)got;
    return got > 0;
}

// ---- as a shell ----

static void say_modes(const char *what, int status) {
    struct termios modes;
    bool known = !tcgetattr(0, &modes);
    bool given_back = known && (modes.c_lflag & ECHO) && (modes.c_lflag & ICANON);
    dprintf(1, "[%s %d, terminal %s]", what, status, given_back ? "back" : "NOT BACK");
}

// A job in the foreground of this session's terminal: what stops it is told and goes on.
static _Noreturn void be_shell(char *const *argv) {
    signal(SIGTTOU, SIG_IGN);
    pid_t job = fork();
    if (job == 0) {
        setpgid(0, 0);
        tcsetpgrp(0, getpid());
        signal(SIGTTOU, SIG_DFL);
        execvp(argv[0], argv);
        _exit(127);
    }
    setpgid(job, job);
    dprintf(1, "[job %ld]", (long)job);
    for (int status = 0; waitpid(job, &status, WUNTRACED) == job;) {
        tcsetpgrp(0, getpgrp());
        if (!WIFSTOPPED(status)) {
            int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
            say_modes("ended", code);
            _exit(code);
        }
        say_modes("stopped", WSTOPSIG(status));
        tcsetpgrp(0, job);
        kill(-job, SIGCONT);
    }
    _exit(127);
}

// Presses these keys where the text before them has appeared; else false.
static bool press(TestRun *run, int terminal, const TypedKeys *keys, int number, size_t *seen) {
    const char *at = strstr(run->out + *seen, keys->after);
    const char *job = strstr(run->out, "[job ");
    struct termios modes;
    if (!at) return false;
    if (tcgetattr(terminal, &modes)) return true;
    run->drops_output |= !(modes.c_lflag & NOFLSH);
    bool types = keys->keys && *keys->keys && strncmp(keys->keys, "$ ", 2);
    bool waits = keys->keys && !types; // what has come since is the next key's
    *seen = waits ? (size_t)(at - run->out) + strlen(keys->after) : run->out_size;
    if (!keys->keys) return job && !kill(atoi(job + 5), number);
    if (!types && *keys->keys) return !system(keys->keys + 2);
    return waits || write(terminal, keys->keys, strlen(keys->keys)) > 0;
}

// It can still be waited for.
static bool has_ended(pid_t child) {
    siginfo_t info = {0};
    return waitid(P_PID, (id_t)child, &info, WEXITED | WNOHANG | WNOWAIT) || info.si_pid == child;
}

static TestRun typed_at(const char *line, const TypedKeys *typed, size_t count, int number) {
    Words words;
    split(&words, line);
    fflush(NULL);
    int terminal = -1;
    pid_t child = forkpty(&terminal, NULL, NULL, NULL);
    if (child < 0) SKIP("no pseudo-terminal on this machine");
    if (child == 0) {
        alarm(60); // whatever it waits for, not for ever
        setrlimit(RLIMIT_CORE, &(struct rlimit){0});
        if (number >= 0) be_shell((char *const *)words.argv);
        execvp(words.argv[0], (char *const *)words.argv);
        _exit(127);
    }
    TestRun run = screen_open();
    size_t next = 0, seen = 0;
    for (bool ended = false; !ended;) { // a read may fail while the program goes on
        ended = has_ended(child);
        for (; screen_read(&run, terminal); ended = false)
            while (next < count && press(&run, terminal, &typed[next], number, &seen))
                next++;
        if (!ended) usleep(1000);
    }
    run.status = wait_status(child);
    close(terminal);
    return run;
}

TestRun program_typed(const char *line, const TypedKeys *typed, size_t count) {
    return typed_at(line, typed, count, -1);
}

TestRun program_job(const char *line, const TypedKeys *typed, size_t count, int number) {
    return typed_at(line, typed, count, number);
}

TestRun program_terminal(const char *line) {
    return program_typed(line, NULL, 0);
}

TestRun program_interrupted(const char *line, const char *after) {
    Words words;
    split(&words, line);
    fflush(NULL);
    int ends[2];
    CHECK(!pipe(ends));
    pid_t child = fork();
    if (child == 0) {
        alarm(60); // whatever it waits for, not for ever
        dup2(ends[1], 1);
        dup2(ends[1], 2);
        close(ends[0]);
        signal(SIGINT, SIG_DFL);
        execvp(words.argv[0], (char *const *)words.argv);
        _exit(127);
    }
    close(ends[1]);
    TestRun run = screen_open();
    while (!strstr(run.out, after) && screen_read(&run, ends[0])) {
    }
    kill(child, SIGINT);
    while (screen_read(&run, ends[0])) {
    }
    close(ends[0]);
    run.status = wait_status(child);
    return run;
}

void check_status(const TestRun *run, int wanted) {
    CHECK(run->status == wanted, "exit %d, wanted %d; %s", run->status, wanted, run->err);
}

void check_refused(TestRun *run, int status, const char *because) {
    check_refused_by("run", run, status, because);
}

void check_refused_by(const char *program, TestRun *run, int status, const char *because) {
    size_t length = strlen(program);
    check_status(run, status);
    CHECK_INT(run->out_size, 0);
    CHECK(!strncmp(run->err, program, length) && !strncmp(run->err + length, ": ", 2), "%s",
          run->err);
    CHECK(strchr(run->err, '\n') == run->err + run->err_size - 1, "not one line: %s", run->err);
    CHECK(run->err_size <= 400, "%zu bytes", run->err_size);
    CHECK(strstr(run->err, because), "\"%s\" does not say \"%s\"", run->err, because);
    test_run_free(run);
}

const char *json_value(char out[4000], const char *json, const char *key) {
    char pattern[80];
    snprintf(pattern, sizeof pattern, "\"%s\":", key);
    const char *at = strstr(json, pattern);
    CHECK(at, "no key %s in %s", key, json);
    at += strlen(pattern);
    size_t length = *at == '"'   ? strcspn(at + 1, "\"") + 2
                    : *at == '[' ? strcspn(at, "]") + 1
                                 : strcspn(at, ",}");
    snprintf(out, 4000, "%.*s", (int)length, at);
    return out;
}
