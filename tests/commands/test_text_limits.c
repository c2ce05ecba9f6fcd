// How long a text may be: every command refuses a longer one while it reads it, with one line, and
// without taking memory for it.
#include "base/bytes.h"
#include "tests/support/program.h"

#include <sys/resource.h>

enum {
    CONTEXT = 512,
    PROMPT = LIMIT_PROMPT + CONTEXT * LIMIT_PROMPT_TOKEN
}; // of the built-in model

// The most that any child process of this test has had.
static size_t peak_bytes(void) {
    struct rusage usage;
    getrusage(RUSAGE_CHILDREN, &usage);
    return (size_t)usage.ru_maxrss * 1024;
}

// One wording, whatever the file is for.
Test(text_limits, a_text_that_cannot_be_read_is_named_as_other_files_are) {
    need_builtin();
    static const char *const LINES[] = {"-f|%s", "tokenize|-f|%s", "perplexity|-f|%s",
                                        "perplexity|--ids|%s", "-i|a|--grammar|%s"};
    const char *paths[] = {test_temporary("absent"), "/"};
    for (size_t i = 0; i < sizeof LINES / sizeof *LINES; i++)
        for (int directory = 0; directory < 2; directory++) {
            char line[700];
            snprintf(line, sizeof line, LINES[i], paths[directory]);
            TestRun r = program_input(line, NULL, 0);
            const char *why = directory ? "cannot read it: Is a directory"
                                        : "cannot open it: No such file or directory";
            check_refused(&r, ERROR_IO, test_text("%s: %s", paths[directory], why));
        }
}

static void check_endless(const char *line, int status, const char *because) {
    TestRun r = program_input(line, NULL, 0);
    check_refused(&r, status, because);
}

Test(text_limits, an_endless_prompt_is_refused_while_it_is_read) {
    need_builtin();
    static const char WANTED[] = "/dev/zero: more than 1114112 bytes, the limit for a context of "
                                 "512 tokens (see --limits)";
    check_endless("-f|/dev/zero", ERROR_USAGE, WANTED);
    check_endless("chat|--template|llama2|-f|/dev/zero|-q", ERROR_USAGE, WANTED);
    check_endless(test_text("trace|-f|/dev/zero|--out|%s", test_temporary("endless")), ERROR_USAGE,
                  WANTED);
    check_endless("-f|/dev/zero|-c|256", ERROR_USAGE,
                  "more than 1081344 bytes, the limit for a context of 256");
    CHECK(TEST_SANITIZED || peak_bytes() < 48 << 20, "%zu bytes", peak_bytes());
}

// A line that is too long is passed over, and the next one is read: but not for ever.
Test(text_limits, an_endless_line_of_prompts_or_answers_is_refused) {
    need_builtin();
    const char *out = test_temporary("answers.jsonl");
    TestRun r = program_input("merge|/dev/null", NULL, 0);
    bool cannot = strstr(r.err, "without jansson");
    test_run_free(&r);
    if (cannot) SKIP("this build reads no JSON");
    check_endless(test_text("generate|--prompts|/dev/zero|--out|%s|-q", out), ERROR_FILE,
                  "/dev/zero: line 1 has no end: over 1024 MB");
    check_endless("merge|/dev/zero", ERROR_FILE, "/dev/zero: line 1 has no end: over 4096 MB");
}

Test(text_limits, an_endless_text_is_refused_while_it_is_read) {
    need_builtin();
    static const char WANTED[] = "/dev/zero: more than 33554432 bytes (see --limits)";
    check_endless("tokenize|-f|/dev/zero", ERROR_USAGE, WANTED);
    check_endless("tokenize|--decode|-f|/dev/zero", ERROR_USAGE, WANTED);
    check_endless("perplexity|-f|/dev/zero", ERROR_USAGE, WANTED);
    check_endless("perplexity|--ids|/dev/zero", ERROR_USAGE, WANTED);
    CHECK(TEST_SANITIZED || peak_bytes() < LIMIT_TEXT + (48 << 20), "%zu bytes", peak_bytes());
}

static TestRun with_input(const char *line, size_t size) {
    char *text = malloc(size + 1);
    memset(text, 'a', size);
    text[size] = '\n';
    TestRun r = program_input(line, text, size + 1);
    free(text);
    return r;
}

// One byte less is read to its end: then the tokens are counted.
Test(text_limits, the_limit_itself_is_allowed) {
    need_builtin();
    TestRun r = with_input("-q", PROMPT);
    check_refused(&r, ERROR_USAGE, "standard input: more than 1114112 bytes");
    r = with_input("-q", PROMPT - 1);
    check_refused(&r, ERROR_USAGE, "tokens, the context room for 512");
    r = with_input("chat|--template|llama2|-q", PROMPT + 1); // a line: its newline does not count
    check_refused(&r, ERROR_USAGE, "standard input: more than 1114112 bytes");
    r = with_input("chat|--template|llama2|-q", PROMPT);
    check_refused(&r, ERROR_USAGE, "tokens, the context room for 512");
}

Test(text_limits, a_line_without_a_newline_is_a_message) {
    need_builtin();
    TestRun with = program_input("chat|--template|llama2|-t|0|-q|--max-tokens|4", "Once\n", 5);
    TestRun without = program_input("chat|--template|llama2|-t|0|-q|--max-tokens|4", "Once", 4);
    check_status(&with, 0);
    check_status(&without, 0);
    CHECK(with.out_size > 1);
    CHECK_STRING(with.out, without.out);
    test_run_free(&with);
    test_run_free(&without);
}

// 12 MB of address space are left to a program that waits for a message: the line does not fit.
Test(text_limits, a_message_that_does_not_fit_memory_is_exit_5) {
    if (TEST_SANITIZED) SKIP("sanitizers need terabytes of address space");
    need_builtin();
    static const char SCRIPT[] =
        "D=$(mktemp -d); mkfifo $D/in; $RUN chat --template llama2 -q -j 1 -c 512 <$D/in & P=$!; "
        "exec 3>$D/in; for i in $(seq 500); do grep -q 'S (sleeping)' /proc/$P/status && break; "
        "sleep 0.01; done; S=$(awk '/VmSize/ {print $2 * 1024}' /proc/$P/status); "
        "prlimit --pid $P --as=$((S + 200000)); head -c 1100000 /dev/zero | tr '\\0' a >&3; "
        "exec 3>&-; wait $P; E=$?; rm -r $D; exit $E";
    TestRun r = program_shell(SCRIPT);
    check_refused(&r, ERROR_MEMORY, "standard input: out of memory");
}
