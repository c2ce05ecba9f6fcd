// Signals that end the program, stop it and let it go on, at moments of every kind of work: what
// was written is whole, the terminal is as it was, and no signal but the first of a kind is needed.
#include "commands/shared/interrupt.h"
#include "commands/view/page.h"
#include "tests/support/files/conversions.h"
#include "tests/support/program.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

// ---- a child process ----

typedef struct Child {
    pid_t pid;
    int out; // the end of a pipe; -1: its output goes to /dev/null
} Child;

// In a process group of its own, as a shell starts a job: a group without a shell does not stop.
static Child start(const char *const *argv, const char *input, bool piped) {
    int ends[2] = {-1, open("/dev/null", O_RDWR | O_CLOEXEC)};
    if (piped) CHECK(!pipe2(ends, O_CLOEXEC));
    fflush(NULL);
    Child child = {.pid = fork(), .out = ends[0]};
    if (child.pid == 0) {
        alarm(60); // whatever it waits for, not for ever
        setpgid(0, 0);
        dup2(open(input ? input : "/dev/null", O_RDONLY), 0);
        dup2(ends[1], 1);
        dup2(ends[1], 2);
        execvp(argv[0], (char *const *)argv);
        _exit(127);
    }
    setpgid(child.pid, child.pid);
    close(ends[1]);
    return child;
}

static int status_of(Child *child) {
    int status = 0;
    CHECK(waitpid(child->pid, &status, 0) == child->pid);
    if (child->out >= 0) close(child->out);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

// Up to 40 ms: from before main to the middle of the work.
static void wait_a_moment(TestRandom *random) {
    struct timespec moment = {.tv_nsec = (long)(test_random(random) % 40000000)};
    nanosleep(&moment, NULL);
}

// ---- what ends the program ----

// Either the end of the work, or that of the signal.
static void end_at_random(const char *const *argv, int number, TestRandom *random) {
    Child child = start(argv, NULL, false);
    wait_a_moment(random);
    kill(child.pid, number);
    int status = status_of(&child);
    CHECK(status == 128 + number || status == 0, "%s, signal %d: exit %d", argv[1], number, status);
}

static const int ENDS[] = {SIGINT, SIGTERM, SIGHUP};

Test(signals, end_the_work_at_any_moment) {
    enum { MOMENTS = 8 };
    const char *model = conversion_endless();
    const char *const lines[][12] = {
        {TEST_RUN, "generate", model, "-n", "0", "-i", "a", "--ignore-eos", NULL},
        {TEST_RUN, "perplexity", model, "-f", "LICENSE", NULL},
        {TEST_RUN, "chat", model, "--template", "llama2", "-i", "a", "--ignore-eos", NULL},
        {TEST_RUN, "bench", model, "--tg", "1000", "--no-limits", NULL},
    };
    TestRandom random = {1};
    for (size_t i = 0; i < COUNT(lines); i++)
        for (size_t n = 0; n < COUNT(ENDS); n++)
            for (int moment = 0; moment < MOMENTS; moment++)
                end_at_random(lines[i], ENDS[n], &random);
}

// Reads the child's output until `after` is in it, then to its end once the signal is sent, and
// `number` / 256 behind it.
static char *output_around(Child *child, const char *after, int number) {
    enum { MOST = 1 << 20 };
    char *text = calloc(1, MOST);
    size_t size = 0;
    bool sent = false;
    for (ssize_t got; (got = read(child->out, text + size, MOST - 1 - size)) > 0;) {
        size += (size_t)got;
        if (sent || !strstr(text, after)) continue;
        kill(child->pid, number % 256);
        if (number / 256) kill(child->pid, number / 256);
        sent = true;
    }
    CHECK(sent, "no \"%s\": %s", after, text);
    return text;
}

// As with Ctrl-C: the text ends with its line, the statistics follow, and the signal ends it.
Test(signals, end_a_text_with_statistics) {
    const char *const argv[] = {TEST_RUN, "generate", conversion_endless(), "-n", "0",
                                "-i",     "a",        "--ignore-eos",       "-s", "1",
                                NULL};
    for (size_t n = 0; n < COUNT(ENDS); n++) {
        Child child = start(argv, NULL, true);
        char *text = output_around(&child, "ab", ENDS[n]);
        CHECK_INT(status_of(&child), 128 + ENDS[n]);
        CHECK(strstr(text, "\nrun: prompt "), "%s", text);
        free(text);
    }
}

// It does not go on with the next line, as it does after Ctrl-C.
Test(signals, end_a_conversation_from_a_pipe_with_the_answer) {
    const char *const argv[] = {TEST_RUN,     "chat",   conversion_endless(),
                                "--template", "llama2", "--ignore-eos",
                                "-c",         "500000", "-s",
                                "1",          NULL};
    const char *lines = test_temporary("lines");
    test_write_file(lines, "a b a\nb a\n", 10);
    // Ctrl-C, which would end the answer alone, changes nothing.
    for (int behind = 0; behind <= SIGINT; behind += SIGINT) {
        Child child = start(argv, lines, true);
        char *text = output_around(&child, "ab", SIGTERM + 256 * behind);
        CHECK_INT(status_of(&child), 128 + SIGTERM);
        const char *first = strstr(text, "run: prompt ");
        CHECK(first && !strstr(first + 1, "run: prompt "), "%s", text);
        free(text);
    }
}

// nohup: what is ignored stays so.
Test(signals, stay_ignored) {
    TestRun r = program_shell("trap '' HUP; $RUN $MODEL -n 0 -i a -q --max-tokens 200 -t 0 & P=$!; "
                              "sleep 0.02; kill -HUP $P; wait $P");
    CHECK(r.status == 0, "exit %d: %s", r.status, r.err);
    test_run_free(&r);
}

// Compression takes most of the time of a page: it ends with the block that it is in, unfinished.
Test(signals, end_the_compression_of_a_page) {
    enum { SIZE = 1 << 20 };
    Error error = {0};
    Page page = {0};
    char *numbers = calloc(1, SIZE);
    interrupt_begin();
    CHECK(page_block(&page, "before", numbers, SIZE, 4, &error), "%s", error.message);
    size_t before = page.blocks.size;
    raise(SIGINT);
    CHECK(!page_block(&page, "after", numbers, SIZE, 4, &error));
    interrupt_end();
    CHECK_INT(error.code, ERROR_INTERRUPTED);
    CHECK(page.blocks.size - before < 1000, "%zu bytes more", page.blocks.size - before);
    page_free(&page);
    free(numbers);
}

// ---- what stops it for a while ----

Test(signals, a_stop_changes_nothing) {
    const char *const argv[] = {TEST_RUN, "generate", small_model(),  "-t",  "0",
                                "-i",     "Once",     "-q",           "-j",  "2",
                                "-n",     "0",        "--max-tokens", "150", NULL};
    TestRun plain = test_run(argv, NULL, 0);
    check_status(&plain, 0);
    TestRandom random = {2};
    for (int moment = 0; moment < 12; moment++) {
        siginfo_t what = {0};
        Child child = start(argv, NULL, true);
        wait_a_moment(&random);
        kill(child.pid, SIGTSTP);
        // Stopped, or at its end already, of which status_of shall hear.
        CHECK(!waitid(P_PID, (id_t)child.pid, &what, WSTOPPED | WEXITED | WNOWAIT));
        kill(child.pid, SIGCONT);
        char text[8192] = "";
        size_t size = 0;
        for (ssize_t got; (got = read(child.out, text + size, sizeof text - 1 - size)) > 0;)
            size += (size_t)got;
        CHECK_INT(status_of(&child), 0);
        CHECK_STRING(text, plain.out);
    }
    test_run_free(&plain);
}

// ---- a chat at a terminal ----

static TestRun chat(const TypedKeys *keys, size_t count, int number) {
    char line[600];
    if (!TEST_EDIT) SKIP("this build has no line editor (EDIT=0)");
    setenv("TERM", "xterm", 1);
    snprintf(line, sizeof line,
             "chat|%s|--template|llama2|--ignore-eos|-c|500000|-s|1|--color|never|--no-history",
             conversion_endless());
    TestRun r = program_job(line, keys, count, number);
    CHECK(!strstr(r.out, "NOT BACK"), "%s", r.out);
    return r;
}

#define MARK "\x1b[?2004h> "

// Ctrl-Z while a line is edited, in an answer, and with keys that wait. The next key waits for the
// stop: what the answer wrote before it may still be on its way, and two stops at once are one.
Test(signals, ctrl_z_gives_the_terminal_to_the_shell) {
    static const TypedKeys KEYS[] = {
        {MARK, "\x1a"},         {"terminal back]", ""}, {MARK, "a b a\n"},
        {"ab", "\x1a"},         {"terminal back]", ""}, {"ab", "\x1a"},
        {"terminal back]", ""}, {"ab", "\x03"},         {MARK, "\x04"}};
    TestRun r = chat(KEYS, COUNT(KEYS), 0);
    CHECK(r.status == 0 && strstr(r.out, "[ended 0, terminal back]"), "exit %d: %s", r.status,
          r.out);
    int stops = 0;
    for (const char *at = r.out; (at = strstr(at, "[stopped 20, terminal back]")); at++)
        stops++;
    CHECK(stops == 3, "%d stops: %s", stops, r.out);
    test_run_free(&r);
}

Test(signals, the_terminal_is_given_back_whatever_ends_a_chat) {
    static const int NUMBERS[] = {SIGTERM, SIGHUP, SIGQUIT, SIGXCPU, SIGINT};
    for (size_t i = 0; i < COUNT(NUMBERS); i++)
        for (int answers = 0; answers < 2; answers++) {
            int number = NUMBERS[i];
            bool goes_on = number == SIGINT;
            const TypedKeys keys[] = {
                {MARK, answers ? "a b a\n" : "x"}, {answers ? "ab" : "x", NULL}, {MARK, "\x04"}};
            TestRun r = chat(keys, 2 + goes_on, number);
            CHECK(r.status == (goes_on ? 0 : 128 + number), "signal %d%s: exit %d: %s", number,
                  answers ? " in an answer" : "", r.status, r.out);
            test_run_free(&r);
        }
}

// ---- the script that does it for hours ----

// Without the library a fault would be counted and never happen.
Test(signals, the_script_wants_the_library_of_faults) {
    TestRun run = program_shell("dir=$(mktemp -d); mkdir $dir/tests; touch $dir/run; "
                                "/usr/bin/python3 scripts/random_commands --build $dir; code=$?; "
                                "rm -r $dir; exit $code");
    if (run.status == 127) SKIP("no python3 on this machine");
    check_status(&run, ERROR_IO);
    CHECK(strstr(run.err, "random_commands: no ") && strstr(run.err, "/tests/faults.so"), "%s",
          run.err);
    test_run_free(&run);
}

// It prints how long Ctrl-C takes. A time under load says little, so of processor time, and with
// room: that it is no matter of the work that is left, which is endless.
Test(signals, the_script_finds_no_strange_end) {
    if (access(TEST_BUILD "/tests/faults.so", R_OK)) SKIP("no " TEST_BUILD "/tests/faults.so");
    if (TEST_SANITIZED) SKIP("sanitizers bring their own allocator");
    TestRun run = program_shell(
        "/usr/bin/python3 scripts/random_commands --minutes 0.05 --seed 3 --build " TEST_BUILD);
    if (run.status == 127) SKIP("no python3 on this machine");
    CHECK(!run.status && strstr(run.out, " runs (seed 3): 0 findings;"), "%s%s", run.out, run.err);
    const char *spent = strstr(run.out, "processor time from Ctrl-C");
    const char *longest = spent ? strstr(spent, "longest ") : NULL;
    CHECK(!longest || atoi(longest + 8) < 1000, "%s", run.out);
    test_run_free(&run);
}
