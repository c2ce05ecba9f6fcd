// Fault injection: each allocation and each file call of a command fails, once alone and once with
// all calls after it. The command must end with the right exit code and one line, or, if it can do
// without that call, with its usual output. tests/faults/faults.c makes the calls fail.
#include "tests/support/faults.h"
#include "tests/support/files/gguf_writer.h"
#include "tests/support/files/llama2c_writer.h"
#include "tests/support/files/safetensors_writer.h"
#include "tests/support/files/sentencepiece_writer.h"
#include "tests/test.h"
#include "tokenizer/sentencepiece/sentencepiece_c.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct Walk {
    const char *kind; // "memory" or "files"
    const char *const *argv;
    const char *input; // standard input; NULL: empty
    TestRun wanted;    // the undisturbed run
    int other_code;    // a code besides 5 that a failure may have; 0: none
} Walk;

static bool one_error_line(const TestRun *run) {
    char *newline = memchr(run->err, '\n', run->err_size);
    return !strncmp(run->err, "run: ", 5) && newline == run->err + run->err_size - 1;
}

// The run has its usual output; or the right exit code, one error line, and a beginning of the
// usual output.
static void check_fault(const Walk *walk, long at, bool for_ever) {
    Fault fault = {.kind = walk->kind, .at = at, .for_ever = for_ever, .input = walk->input};
    TestRun run = run_with_fault(&fault, walk->argv);
    const TestRun *wanted = &walk->wanted;
    bool same = run.out_size == wanted->out_size && !memcmp(run.out, wanted->out, run.out_size);
    size_t text = run.out_size; // a text that breaks off still ends its line
    if (text && run.out[text - 1] == '\n') text--;
    bool beginning = text <= wanted->out_size && !memcmp(run.out, wanted->out, text);
    bool survived = run.status == 0 && same;
    bool refused = (run.status == 5 || (walk->other_code && run.status == walk->other_code)) &&
                   beginning && one_error_line(&run);
    CHECK(survived || refused, "%s call %ld%s of %s %s: exit %d, out \"%.60s\", err \"%.200s\"",
          walk->kind, at, for_ever ? " and on" : "", walk->argv[1], walk->argv[2], run.status,
          run.out, run.err);
    test_run_free(&run);
}

static void walk_through(Walk *walk) {
    need_faults();
    walk->wanted = test_run(walk->argv, walk->input, walk->input ? strlen(walk->input) : 0);
    CHECK_INT(walk->wanted.status, 0);
    long calls = count_calls(&(Fault){.kind = walk->kind, .input = walk->input}, walk->argv);
    CHECK(calls > 0, "nothing to walk through");
    for (long at = 1; at <= calls; at++)
        for (int for_ever = 0; for_ever < 2; for_ever++)
            check_fault(walk, at, for_ever);
    fprintf(stderr, "%ld %s calls of %s\n", calls, walk->kind, walk->argv[1]);
    test_run_free(&walk->wanted);
}

static const char *tiny_gguf(void) {
    const char *path = test_temporary("tiny.gguf");
    GgufFile *file = gguf_tiny_llama();
    size_t size;
    uint8_t *bytes = gguf_write(file, &size);
    test_write_file(path, bytes, size);
    free(bytes);
    gguf_file_free(file);
    return path;
}

static const char *tiny_directory(void) {
    const char *directory = test_temporary("tiny");
    BinShape shape = bin_shape_tiny(0, true);
    size_t size;
    char *bin = bin_bytes(&size, &shape, 7);
    write_hugging_face(directory, bin, size);
    free(bin);
    return directory;
}

// Some builds have no JSON reader.
static void need_json(const char *command, const char *path) {
    const char *const argv[] = {TEST_RUN, command, path, NULL};
    need_faults();
    TestRun run = test_run(argv, NULL, 0);
    bool cannot = strstr(run.err, "this build") != NULL;
    test_run_free(&run);
    if (cannot) SKIP("this build reads no JSON");
}

#define WALK(kind_, other_, ...)                                                                   \
    do {                                                                                           \
        const char *const argv_[] = {TEST_RUN, __VA_ARGS__, NULL};                                 \
        walk_through(&(Walk){.kind = kind_, .argv = argv_, .other_code = other_});                 \
    } while (0)

Test(torture, memory_of_generate) {
    WALK("memory", 0, "generate", tiny_gguf(), "--quiet", "-t", "0", "-j", "2", "--max-tokens",
         "4");
}

Test(torture, memory_of_sampling_and_json) {
    WALK("memory", 0, "generate", tiny_gguf(), "--quiet", "-s", "1", "-j", "1", "-p", "0.5",
         "--max-tokens", "4", "--ids");
}

// A message that does not fit memory is no end of the conversation.
Test(torture, memory_of_chat) {
    char lines[100000];
    memset(lines, 'a', sizeof lines);
    memcpy(lines, "a b\nb a\n", 8); // and a third message, which the buffer grows for
    lines[sizeof lines - 1] = '\0';
    const char *const argv[] = {TEST_RUN, "chat",    tiny_gguf(),    "--template", "llama2",
                                "-c",     "64",      "-t",           "0",          "-j",
                                "1",      "--quiet", "--max-tokens", "2",          NULL};
    walk_through(&(Walk){.kind = "memory", .argv = argv, .input = lines});
}

Test(torture, memory_of_perplexity) {
    const char *path = test_temporary("text");
    test_write_file(path, "a b a b", 7);
    WALK("memory", 0, "perplexity", tiny_gguf(), "-f", path, "-j", "1", "--quiet");
}

Test(torture, memory_of_inspect) {
    WALK("memory", 0, "inspect", tiny_gguf());
}

Test(torture, memory_of_tokenize) {
    WALK("memory", 0, "tokenize", tiny_gguf(), "-i", "a b a");
}

// jansson's allocations too. At several places it reports a failed one as bad JSON.
Test(torture, memory_of_a_directory) {
    const char *directory = tiny_directory();
    need_json("inspect", directory);
    WALK("memory", 0, "generate", directory, "--quiet", "-t", "0", "-j", "1", "--prompt-ids",
         "1,3,4", "--ids", "--max-tokens", "2");
}

// The library reports a failed allocation of its own in several ways.
static void sentencepiece_through(unsigned model_type) {
    static const char *const PIECES[] = {"\xe2\x96\x81", "a", "b", "ab", "ba"};
    ModelWriter w = {0};
    model_usual_pieces(&w, false);
    for (size_t i = 0; i < 5; i++)
        model_piece(&w, PIECES[i], strlen(PIECES[i]), -(float)i, 1);
    model_trainer(&w, model_type, false);
    size_t size; // a rule, so that the library encodes BPE too
    uint8_t *charsmap = charsmap_of_runs(3, "b", &size);
    model_normalizer(&w, true, charsmap, size);
    free(charsmap);
    const char *path = test_temporary("tokenizer.model");
    test_write_file(path, w.bytes, w.size);
    model_writer_free(&w);
    WALK("memory", 0, "tokenize", "-z", path, "-i", "ab a?? b");
}

Test(torture, memory_of_a_unigram_model) {
    if (!sentencepiece_available()) SKIP("built without sentencepiece");
    sentencepiece_through(1);
}

Test(torture, memory_of_a_sentencepiece_bpe_model) {
    if (!sentencepiece_available()) SKIP("built without sentencepiece");
    sentencepiece_through(2);
}

// Strings of every length, so that jansson's buffer grows at every kind of byte, a closing quote
// too: if that allocation fails, version 2.14 by itself reads past the end.
Test(torture, memory_of_a_tokenizer_json) {
    char text[8000], vocabulary[6000] = "";
    for (int length = 1, used = 0; length <= 70; length++)
        used += sprintf(vocabulary + used, ",\"%0*d\":%d", length, 0, length);
    snprintf(text, sizeof text,
             "{\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,"
             "\"use_regex\":true},\"decoder\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\","
             "\"vocab\":{\"a\":0%s},\"merges\":[\"0 0\"]}}",
             vocabulary);
    const char *path = test_temporary("tokenizer.json");
    test_write_file(path, text, strlen(text));
    need_json("tokenize", path);
    WALK("memory", 0, "tokenize", "-z", path, "-i", "a000");
}

// ---- convert: the files that it leaves ----

// The directory has the files of a run without faults, or those from before it: all whole.
// Temporary files remain at most where nothing could be removed, and the next run removes them.
static void convert_through(const char *kind, int other, const char *from, const char *to) {
    const char *directory = test_temporary("made");
    char out[300];
    if (access(directory, F_OK)) CHECK(!mkdir(directory, 0700));
    snprintf(out, sizeof out, "%s/%s", directory, to);
    WALK(kind, other, "convert", from, out, "--force", "--quiet");
    const char *const again[] = {TEST_RUN, "convert", from, out, "--force", "--quiet", NULL};
    TestRun last = test_run(again, NULL, 0);
    CHECK_INT(last.status, 0);
    test_run_free(&last);
    DIR *made = opendir(directory);
    for (struct dirent *e; (e = readdir(made));)
        CHECK(strncmp(e->d_name, ".limpid", 7) != 0, "%s was left behind", e->d_name);
    closedir(made);
    const char *const argv[] = {TEST_RUN, "inspect", out, NULL};
    TestRun run = test_run(argv, NULL, 0);
    CHECK(run.status == 0, "%s", run.err);
    test_run_free(&run);
}

Test(torture, memory_of_convert) {
    convert_through("memory", 0, tiny_gguf(), "out.gguf");
}

Test(torture, files_of_convert) {
    convert_through("files", 4, tiny_gguf(), "out.gguf");
}

Test(torture, memory_of_convert_to_a_directory) {
    need_json("inspect", tiny_directory());
    convert_through("memory", 0, tiny_gguf(), "hf");
}

Test(torture, files_of_convert_to_a_directory) {
    need_json("inspect", tiny_directory());
    convert_through("files", 4, tiny_gguf(), "hf");
}

// Open, map and write that fail are all exit code 4, with the cause from errno.
Test(torture, files_of_generate) {
    WALK("files", 4, "generate", tiny_gguf(), "--quiet", "-t", "0", "-j", "1", "--max-tokens", "4");
}

Test(torture, files_of_inspect) {
    WALK("files", 4, "inspect", tiny_gguf());
}

Test(torture, files_of_a_directory) {
    const char *directory = tiny_directory();
    need_json("inspect", directory);
    WALK("files", 4, "generate", directory, "--quiet", "-t", "0", "-j", "1", "--prompt-ids",
         "1,3,4", "--ids", "--max-tokens", "2");
}

// ---- trace and diff ----

static void trace_through(const char *kind, int other) {
    char out[300];
    snprintf(out, sizeof out, "%s", test_temporary("trace.safetensors"));
    WALK(kind, other, "trace", tiny_gguf(), "-i", "a b", "-n", "2", "--attention", "-j", "1",
         "--quiet", "--force", "-o", out);
}

Test(torture, memory_of_trace) {
    trace_through("memory", 0);
}

Test(torture, files_of_trace) {
    trace_through("files", 4);
}

static void diff_through(const char *kind, int other) {
    char out[300];
    need_json("inspect", tiny_directory());
    snprintf(out, sizeof out, "%s", test_temporary("trace.safetensors"));
    const char *const argv[] = {TEST_RUN, "trace", tiny_gguf(), "--only", "lm_head",
                                "-i",     "a b",   "-o",        out,      NULL};
    TestRun run = test_run(argv, NULL, 0);
    CHECK(run.status == 0, "%s", run.err);
    test_run_free(&run);
    WALK(kind, other, "diff", out, out);
}

Test(torture, memory_of_diff) {
    diff_through("memory", 0);
}

Test(torture, files_of_diff) {
    diff_through("files", 4);
}
