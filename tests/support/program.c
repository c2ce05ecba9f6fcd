#include "tests/support/program.h"

#include <pty.h>
#include <sys/wait.h>
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

TestRun program(const char *format, const char *a, const char *b) {
    char line[LINE_SIZE];
    snprintf(line, sizeof line, format, a, b);
    return program_input(line, NULL, 0);
}

const char *small_model(void) {
    return test_data("stories260K/stories260K.gguf");
}

TestRun program_shell(const char *script) {
    char text[3000];
    snprintf(text, sizeof text, "RUN=%s; MODEL=%s; %s", TEST_RUN, small_model(), script);
    return test_run((const char *const[]){"sh", "-c", text, NULL}, NULL, 0);
}

TestRun program_terminal(const char *line) {
    Words words;
    split(&words, line);
    fflush(NULL);
    int terminal = -1;
    pid_t child = forkpty(&terminal, NULL, NULL, NULL);
    if (child < 0) SKIP("no pseudo-terminal on this machine");
    if (child == 0) {
        execvp(words.argv[0], (char *const *)words.argv);
        _exit(127);
    }
    TestRun run = {.out = calloc(1, 1 << 20), .err = calloc(1, 1)};
    for (ssize_t got; run.out_size < (1 << 20) - 1; run.out_size += (size_t)got) {
        got = read(terminal, run.out + run.out_size, (1 << 20) - 1 - run.out_size);
        if (got <= 0) break; // EIO: the other end is closed
    }
    int status = 0;
    waitpid(child, &status, 0);
    close(terminal);
    run.status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    return run;
}

void check_status(const TestRun *run, int wanted) {
    CHECK(run->status == wanted, "exit %d, wanted %d; %s", run->status, wanted, run->err);
}

void check_refused(TestRun *run, int status, const char *because) {
    check_status(run, status);
    CHECK_INT(run->out_size, 0);
    CHECK(!strncmp(run->err, "run: ", 5), "%s", run->err);
    CHECK(strchr(run->err, '\n') == run->err + run->err_size - 1, "not one line: %s", run->err);
    CHECK(run->err_size <= 400, "%zu bytes", run->err_size);
    CHECK(strstr(run->err, because), "\"%s\" does not say \"%s\"", run->err, because);
    test_run_free(run);
}
