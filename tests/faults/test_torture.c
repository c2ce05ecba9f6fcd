// Fault injection: each allocation and each file call of a command fails, once alone and once with
// all calls after it. The command must end with the right exit code and one line, or, if it can do
// without that call, with its usual output. tests/faults/faults.c makes the calls fail.
#include "tests/support/faults.h"
#include "tests/support/files/gguf_writer.h"
#include "tests/support/files/llama2c_writer.h"
#include "tests/support/files/sentencepiece_writer.h"
#include "tests/test.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

Test(torture, memory_of_generate) {
    WALK("memory", 0, "generate", fault_gguf(), "--quiet", "-t", "0", "-j", "2", "--max-tokens",
         "4");
}

Test(torture, memory_of_sampling_and_json) {
    WALK("memory", 0, "generate", fault_gguf(), "--quiet", "-s", "1", "-j", "1", "-p", "0.5",
         "--max-tokens", "4", "--ids");
}

static const char *grammar_file(const char *name, const char *text) {
    const char *path = test_temporary(name);
    test_write_file(path, text, strlen(text));
    return path;
}

Test(torture, memory_of_a_grammar) {
    const char *path =
        grammar_file("a.gbnf", "root ::= (x | \"b\" root? ){1,9}\n"
                               "x ::= \" \"? [a-c\\u00e9]{1,20} \"(\" x? \")\" | \"a\"\n");
    WALK("memory", 0, "generate", fault_gguf(), "--quiet", "-t", "0", "-j", "1", "--max-tokens",
         "4", "--grammar", path);
}

// A vocabulary that can write "[1".
Test(torture, memory_of_a_json_schema) {
    static const char *const TOKENS[] = {"<unk>", "<s>", "</s>", "\xe2\x96\x81",
                                         "[",     "]",   "1",    "<0x0A>"};
    const char *schema = grammar_file(
        "a.json", "{\"anyOf\":[{\"enum\":[\"a\",1]},{\"type\":\"object\",\"properties\":{\"a\":{"
                  "\"minLength\":2},\"b\":{\"$ref\":\"#\"},\"c\":{\"pattern\":\"a\\\\n[b\\\"]\"}}},"
                  "{\"items\":{\"maximum\":3,\"type\":"
                  "\"integer\"}},true]}");
    const char *model = test_temporary("brackets.gguf");
    GgufFile *file = gguf_tiny_llama();
    gguf_set_strings(file, "tokenizer.ggml.tokens", TOKENS, sizeof TOKENS / sizeof *TOKENS);
    size_t size;
    uint8_t *bytes = gguf_write(file, &size);
    test_write_file(model, bytes, size);
    free(bytes);
    gguf_file_free(file);
    need_fault_json("inspect", fault_directory());
    WALK("memory", 0, "generate", model, "-i", "1", "--quiet", "-t", "0", "-j", "1", "--max-tokens",
         "4", "--json-schema", schema);
}

Test(torture, files_of_a_grammar) {
    const char *path = grammar_file("b.gbnf", "root ::= \"a\"+");
    WALK("files", 4, "generate", fault_gguf(), "--quiet", "-t", "0", "-j", "1", "--max-tokens", "4",
         "--grammar", path);
}

// A message that does not fit memory is no end of the conversation.
Test(torture, memory_of_chat) {
    char lines[100000];
    memset(lines, 'a', sizeof lines);
    // And a third message, which the buffer grows for, and which does not fit.
    memcpy(lines, "a b\nb a\n", 8);
    lines[sizeof lines - 1] = '\0';
    const char *const argv[] = {TEST_RUN, "chat",    fault_gguf(),   "--template", "llama2",
                                "-c",     "64",      "-t",           "0",          "-j",
                                "1",      "--quiet", "--max-tokens", "2",          NULL};
    walk_through(
        &(Walk){.kind = "memory", .argv = argv, .input = lines, .usual_code = ERROR_USAGE});
}

Test(torture, memory_and_files_of_perplexity) {
    const char *path = test_temporary("text");
    test_write_file(path, "a b a b", 7);
    WALK("memory", 0, "perplexity", fault_gguf(), "-f", path, "-j", "1", "--quiet");
    WALK("files", 4, "perplexity", fault_gguf(), "-f", path, "-j", "1", "--quiet");
}

Test(torture, memory_of_inspect) {
    WALK("memory", 0, "inspect", fault_gguf());
}

Test(torture, memory_and_files_of_tokenize) {
    WALK("memory", 0, "tokenize", fault_gguf(), "-i", "a b a");
    WALK("files", 4, "tokenize", fault_gguf(), "-i", "a b a");
}

// A file that is read and replaced; each walk leaves one, or none, for the next.
static void cache_through(const char *kind, int other) {
    char path[300];
    snprintf(path, sizeof path, "%s", test_temporary("prompt.kv"));
    WALK(kind, other, "generate", fault_gguf(), "--quiet", "-t", "0", "-j", "1", "--max-tokens",
         "2", "--prompt-ids", "1,3,4", "--ids", "--cache", path, "--force");
    TestRun run = program("generate|%s|-q|--prompt-ids|1,3|--ids|--cache|%s", fault_gguf(), path);
    CHECK(run.status == 0, "%s", run.err);
    test_run_free(&run);
    WALK(kind, other, "generate", fault_gguf(), "--quiet", "-t", "0", "-j", "1", "--max-tokens",
         "2", "--prompt-ids", "1,4,3,4", "--ids", "--cache", path, "--precision", "a8", "--force");
}

Test(torture, memory_of_a_prompt_cache) {
    cache_through("memory", 0);
}

enum { LONG_CONTEXT = 32768 }; // has room for all of these runs

// The first run begins the file, the others go on with it: no two of them print the same.
static void session_through(const char *kind, int other) {
    char line[800], path[300], model[300];
    const char *argv[24] = {TEST_RUN};
    size_t size;
    need_fault_json("inspect", fault_directory());
    GgufFile *file = gguf_tiny_llama();
    snprintf(path, sizeof path, "%s", test_temporary("session.kv"));
    snprintf(model, sizeof model, "%s", test_temporary("long.gguf"));
    gguf_set_u32(file, "llama.context_length", LONG_CONTEXT);
    uint8_t *bytes = gguf_write(file, &size);
    test_write_file(model, bytes, size);
    free(bytes);
    gguf_file_free(file);
    snprintf(line, sizeof line,
             "chat %s --template llama2 -c %d -t 0 -j 1 -q --max-tokens 2 "
             "-i a --session %s",
             model, LONG_CONTEXT, path);
    int words = 1;
    for (char *word = strtok(line, " "); word; word = strtok(NULL, " "))
        argv[words++] = word;
    walk_through(&(Walk){.kind = kind, .argv = argv, .other_code = other, .varies = true});
}

Test(torture, memory_of_a_session) {
    session_through("memory", 0);
}

Test(torture, files_of_a_session) {
    session_through("files", 4);
}

Test(torture, files_of_a_prompt_cache) {
    cache_through("files", 4);
}

static void llama2c_through(const char *kind, int other) {
    BinShape shape = bin_shape_tiny(0, true);
    size_t size;
    char *bin = bin_bytes(&size, &shape, 7);
    const char *path = test_temporary("tiny.bin");
    test_write_file(path, bin, size);
    free(bin);
    WALK(kind, other, "generate", path, "--quiet", "-t", "0", "-j", "1", "--prompt-ids", "1,3,4",
         "--ids", "--max-tokens", "2");
}

Test(torture, memory_and_files_of_a_llama2c_file) {
    llama2c_through("memory", 0);
    llama2c_through("files", 4);
}

// jansson's allocations too. At several places it reports a failed one as bad JSON.
Test(torture, memory_of_a_directory) {
    const char *directory = fault_directory();
    need_fault_json("inspect", directory);
    WALK("memory", 0, "generate", directory, "--quiet", "-t", "0", "-j", "1", "--prompt-ids",
         "1,3,4", "--ids", "--max-tokens", "2");
}

static void sentencepiece_through(unsigned model_type) {
    static const char *const PIECES[] = {"\xe2\x96\x81", "a", "b", "ab", "ba"};
    ModelWriter w = {0};
    model_usual_pieces(&w, false);
    for (size_t i = 0; i < 5; i++)
        model_piece(&w, PIECES[i], strlen(PIECES[i]), -(float)i, 1);
    model_trainer(&w, model_type, false);
    size_t size; // of a rule
    uint8_t *charsmap = charsmap_of_runs(3, "b", &size);
    model_normalizer(&w, true, charsmap, size);
    free(charsmap);
    const char *path = test_temporary("tokenizer.model");
    test_write_file(path, w.bytes, w.size);
    model_writer_free(&w);
    WALK("memory", 0, "tokenize", "-z", path, "-i", "ab a?? b");
}

Test(torture, memory_of_a_unigram_model) {
    sentencepiece_through(1);
}

Test(torture, memory_of_a_sentencepiece_bpe_model) {
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
    need_fault_json("tokenize", path);
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
    convert_through("memory", 0, fault_gguf(), "out.gguf");
}

Test(torture, files_of_convert) {
    convert_through("files", 4, fault_gguf(), "out.gguf");
}

Test(torture, memory_of_convert_to_a_directory) {
    need_fault_json("inspect", fault_directory());
    convert_through("memory", 0, fault_gguf(), "hf");
}

Test(torture, files_of_convert_to_a_directory) {
    need_fault_json("inspect", fault_directory());
    convert_through("files", 4, fault_gguf(), "hf");
}

// Open, map and write that fail are all exit code 4, with the cause from errno.
Test(torture, files_of_generate) {
    WALK("files", 4, "generate", fault_gguf(), "--quiet", "-t", "0", "-j", "1", "--max-tokens",
         "4");
}

Test(torture, files_of_inspect) {
    WALK("files", 4, "inspect", fault_gguf());
}

Test(torture, files_of_a_directory) {
    const char *directory = fault_directory();
    need_fault_json("inspect", directory);
    WALK("files", 4, "generate", directory, "--quiet", "-t", "0", "-j", "1", "--prompt-ids",
         "1,3,4", "--ids", "--max-tokens", "2");
}

// ---- trace and diff ----

static void trace_through(const char *kind, int other) {
    char out[300];
    snprintf(out, sizeof out, "%s", test_temporary("trace.safetensors"));
    WALK(kind, other, "trace", fault_gguf(), "-i", "a b", "-n", "2", "--attention", "-j", "1",
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
    need_fault_json("inspect", fault_directory());
    snprintf(out, sizeof out, "%s", test_temporary("trace.safetensors"));
    const char *const argv[] = {TEST_RUN, "trace", fault_gguf(), "--only", "lm_head",
                                "-i",     "a b",   "-o",         out,      NULL};
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
