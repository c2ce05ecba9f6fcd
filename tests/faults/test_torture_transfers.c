// Reads and writes that end by EINTR or move a single byte, each in turn: every command prints and
// writes what it does without. tests/faults/faults.c makes them.
#include "tests/support/faults.h"
#include "tests/support/files/llama2c_writer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define TINY "--prompt-ids", "1,3,4", "-j", "1", "--quiet"

static void move(const char *const *argv, const char *input, bool varies) {
    static const char *const KINDS[] = {"again", "short"};
    for (int i = 0; i < 2; i++)
        walk_through(&(Walk){
            .kind = KINDS[i], .argv = argv, .input = input, .varies = varies, .survives = true});
}
#define MOVE(input_, ...) move((const char *const[]){TEST_RUN, __VA_ARGS__, NULL}, input_, false)

static const char *some_text(void) {
    const char *path = test_temporary("text");
    test_write_file(path, "a b a b", 7);
    return path;
}

Test(torture_transfers, of_prompts) {
    MOVE("a b a", "generate", fault_gguf(), "--quiet", "-t", "0", "-j", "2", "--max-tokens", "4");
    MOVE(NULL, "generate", fault_gguf(), "-f", some_text(), "--quiet", "-t", "0", "-j", "1",
         "--max-tokens", "2");
    MOVE("a b", "tokenize", fault_gguf());
    MOVE(NULL, "tokenize", "-z", fault_gguf(), "-i", "a b");
    MOVE(NULL, "perplexity", fault_gguf(), "-f", some_text(), "-j", "1", "--quiet");
}

Test(torture_transfers, of_a_llama2c_file) {
    BinShape shape = bin_shape_tiny(0, true);
    size_t size;
    char *bin = bin_bytes(&size, &shape, 7);
    const char *path = test_temporary("tiny.bin");
    test_write_file(path, bin, size);
    free(bin);
    MOVE(NULL, "generate", path, TINY, "-t", "0", "--ids", "--max-tokens", "2");
}

Test(torture_transfers, of_a_directory) {
    const char *directory = fault_directory();
    need_fault_json("inspect", directory);
    MOVE(NULL, "generate", directory, TINY, "-t", "0", "--ids", "--max-tokens", "2");
    MOVE(NULL, "inspect", directory);
}

Test(torture_transfers, of_what_looks_inside) {
    char out[300];
    snprintf(out, sizeof out, "%s", test_temporary("attention.svg"));
    MOVE(NULL, "attention", fault_gguf(), TINY, "--svg", out, "--force");
    MOVE(NULL, "lens", fault_gguf(), TINY);
    MOVE(NULL, "cost", fault_gguf(), "--machine", "a100", "--seq", "8", "-j", "1");
    snprintf(out, sizeof out, "%s", test_temporary("inspect.html"));
    MOVE(NULL, "inspect", fault_gguf(), "--html", out, "--force");
}

// What a run of these leaves is the same file each time.
static void file_of(const char *const *argv, const char *out) {
    size_t size = 0, now = 0;
    move(argv, NULL, false);
    char *after = test_read_file(out, &now);
    TestRun run = test_run(argv, NULL, 0);
    CHECK_INT(run.status, 0);
    test_run_free(&run);
    char *plain = test_read_file(out, &size);
    CHECK(size && size == now && !memcmp(plain, after, size), "%s: another file", argv[1]);
    free(plain);
    free(after);
}
#define FILE_OF(out_, ...)                                                                         \
    file_of((const char *const[]){TEST_RUN, __VA_ARGS__, out_, "--force", NULL}, out_)

Test(torture_transfers, of_files_that_are_written) {
    char out[300], logits[300];
    snprintf(out, sizeof out, "%s", test_temporary("out.gguf"));
    snprintf(logits, sizeof logits, "%s", test_temporary("logits.safetensors"));
    FILE_OF(out, "convert", fault_gguf(), "--quiet");
    FILE_OF(out, "trace", fault_gguf(), TINY, "-o");
    FILE_OF(out, "generate", fault_gguf(), TINY, "-s", "1", "--max-tokens", "3", "--record");
    FILE_OF(logits, "perplexity", fault_gguf(), "-f", some_text(), "-j", "1", "--quiet",
            "--save-logits");
    FILE_OF(out, "view", fault_gguf(), TINY, "-o");
}

// What one run has written, another reads.
Test(torture_transfers, of_files_of_other_runs) {
    char trace[300], recording[300], saved[300];
    snprintf(trace, sizeof trace, "%s", test_temporary("trace.safetensors"));
    snprintf(recording, sizeof recording, "%s", test_temporary("recording.json"));
    snprintf(saved, sizeof saved, "%s", test_temporary("logits.safetensors"));
    TestRun run =
        program("trace|%s|--prompt-ids|1,3,4|--only|lm_head|-o|%s|--force", fault_gguf(), trace);
    test_run_free(&run);
    run = program("generate|%s|--prompt-ids|1,3,4|-s|1|--max-tokens|3|--record|%s|--force|-q",
                  fault_gguf(), recording);
    test_run_free(&run);
    run = program("perplexity|%s|-f|%s|--save-logits|%s|--force", fault_gguf(), some_text(), saved);
    test_run_free(&run);
    need_fault_json("replay", recording);
    MOVE(NULL, "diff", trace, trace);
    MOVE(NULL, "replay", recording, "--quiet");
    MOVE(NULL, "perplexity", fault_gguf(), "-f", some_text(), "-j", "1", "--quiet", "--kl", saved);
}

Test(torture_transfers, of_what_measures) {
    move((const char *const[]){TEST_RUN, "bench", fault_gguf(), "--pp", "2", "--tg", "2", "-r", "1",
                               "-j", "1", "--no-limits", "--quiet", NULL},
         NULL, true);
    move((const char *const[]){TEST_RUN, "selftest", fault_gguf(), "--prompt-ids", "1,3,4,5", "-j",
                               "1", "--quiet", NULL},
         NULL, true);
}

Test(torture_transfers, of_a_transcript) {
    char out[300];
    snprintf(out, sizeof out, "%s", test_temporary("talk.jsonl"));
    MOVE("a b\nb a\n", "chat", fault_gguf(), "--template", "llama2", "-c", "64", "-t", "0", "-j",
         "1", "--quiet", "--max-tokens", "2", "--transcript", out, "--force");
}

// ---- the history of a chat ----

enum { REMEMBERED = 30000 }; // messages: more than a megabyte, of which the end is kept

#define END "0029999\nnew\n"

// Messages of 40 bytes, the newest last.
static void write_history(const char *path) {
    char *bytes = malloc(REMEMBERED * 41 + 1), *at = bytes;
    for (int i = 0; i < REMEMBERED; i++)
        at += sprintf(at, "%040d\n", i);
    test_write_file(path, bytes, (size_t)(at - bytes));
    free(bytes);
}

// A long history is cut to its end, whatever a call of it moves, and gets the new message.
Test(torture_transfers, of_a_history) {
    static const TypedKeys KEYS[] = {{"\x1b[?2004h> ", "new\n"}, {"\x1b[?2004h> ", "\x04"}};
    static const char *const KINDS[] = {"again", "short"};
    char line[600], path[400], count_path[400];
    need_faults();
    if (!TEST_EDIT) SKIP("this build has no line editor (EDIT=0)");
    setenv("TERM", "xterm", 1);
    setenv("XDG_STATE_HOME", test_temporary("state"), 1);
    CHECK(!mkdir(test_temporary("state"), 0700) && !mkdir(test_temporary("state/limpid"), 0700));
    snprintf(path, sizeof path, "%s", test_temporary("state/limpid/history"));
    snprintf(count_path, sizeof count_path, "%s", test_temporary("typed-count"));
    snprintf(line, sizeof line,
             "chat|%s|--template|llama2|--color|never|-c|64|-t|0|-j|1|-q|--max-tokens|1",
             fault_gguf());
    for (int kind = 0; kind < 2; kind++)
        for (long at = 1, calls = 1; at <= calls; at++) {
            size_t size = 0;
            write_history(path);
            Fault fault = {.kind = KINDS[kind], .at = at, .count_path = count_path};
            TestRun run = typed_with_fault(&fault, line, KEYS, 2);
            CHECK(!run.status, "%s call %ld: exit %d, %s", KINDS[kind], at, run.status, run.out);
            test_run_free(&run);
            char *count = test_read_file(count_path, NULL);
            calls = atol(count);
            free(count);
            char *history = test_read_file(path, &size);
            CHECK(size > 250000 && size < 270000, "%s call %ld: %zu bytes", KINDS[kind], at, size);
            CHECK(!strcmp(history + size - strlen(END), END), "%s call %ld: it ends \"%s\"",
                  KINDS[kind], at, history + size - 50);
            free(history);
        }
}
