// A fault while another is dealt with: once a call on files has failed there is no memory to say so
// with; once there is no memory, no file can be written, removed or closed. And a second way to
// make calls fail, in the kernel's place and not the library's: strace.
#include "tests/support/faults.h"

#include <sys/stat.h>
#include <unistd.h>

#define TINY "--prompt-ids", "1,3,4", "-j", "1", "--quiet"

static void both_ways(const char *const *argv, const char *input) {
    walk_through(
        &(Walk){.kind = "files", .argv = argv, .input = input, .then = "memory", .other_code = 4});
    walk_through(
        &(Walk){.kind = "memory", .argv = argv, .input = input, .then = "files", .other_code = 4});
}
#define BOTH(input_, ...) both_ways((const char *const[]){TEST_RUN, __VA_ARGS__, NULL}, input_)

static const char *some_text(void) {
    const char *path = test_temporary("text");
    test_write_file(path, "a b a b", 7);
    return path;
}

Test(torture_compound, of_texts) {
    BOTH(NULL, "generate", fault_gguf(), TINY, "-t", "0", "--max-tokens", "2");
    BOTH(NULL, "tokenize", fault_gguf(), "-i", "a b a");
    BOTH(NULL, "perplexity", fault_gguf(), "-f", some_text(), "-j", "1", "--quiet");
    BOTH("a b\nb a\n", "chat", fault_gguf(), "--template", "llama2", "-c", "64", "-t", "0", "-j",
         "1", "--quiet", "--max-tokens", "2");
}

Test(torture_compound, of_what_looks_inside) {
    char out[300];
    snprintf(out, sizeof out, "%s", test_temporary("out"));
    BOTH(NULL, "inspect", fault_gguf());
    BOTH(NULL, "lens", fault_gguf(), TINY);
    BOTH(NULL, "attention", fault_gguf(), TINY, "--svg", out, "--force");
}

Test(torture_compound, of_a_directory) {
    const char *directory = fault_directory();
    need_fault_json("inspect", directory);
    BOTH(NULL, "inspect", directory);
}

// What stands there stays, or the new one does: convert_kills.
Test(torture_compound, of_files_that_are_written) {
    char model[300], trace[300], recording[300];
    snprintf(model, sizeof model, "%s", test_temporary("model.gguf"));
    snprintf(trace, sizeof trace, "%s", test_temporary("trace.safetensors"));
    snprintf(recording, sizeof recording, "%s", test_temporary("recording.json"));
    BOTH(NULL, "convert", fault_gguf(), model, "--force", "--quiet");
    BOTH(NULL, "trace", fault_gguf(), TINY, "-o", trace, "--force");
    BOTH(NULL, "generate", fault_gguf(), TINY, "-s", "1", "--max-tokens", "3", "--record",
         recording, "--force");
}

Test(torture_compound, of_threads_without_memory) {
    const char *const argv[] = {
        TEST_RUN, "generate",     fault_gguf(), "--prompt-ids", "1,3,4", "-t", "0", "-j",
        "4",      "--max-tokens", "2",          "--quiet",      NULL};
    walk_through(&(Walk){.kind = "threads", .argv = argv, .then = "memory"});
}
