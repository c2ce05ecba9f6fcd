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

Test(torture_compound, of_what_compares) {
    char trace[300], out[300];
    snprintf(trace, sizeof trace, "%s", test_temporary("trace.safetensors"));
    snprintf(out, sizeof out, "%s", test_temporary("page.html"));
    PREPARE("trace", fault_gguf(), TINY, "-o", trace, "--force");
    BOTH(NULL, "mask", "local:2+global:1", "--seq", "8");
    BOTH(NULL, "cost", fault_gguf(), "--machine", "a100", "--seq", "8", "-j", "1");
    BOTH(NULL, "view", fault_gguf(), TINY, "-o", out, "--force");
    need_fault_json("diff", trace);
    BOTH(NULL, "diff", trace, trace, "-q");
}

Test(torture_compound, of_what_runs_again) {
    char recording[300], prompts[300], answers[300];
    static const char LINES[] = "{\"id\":\"a\",\"prompt_ids\":[1,3]}\n{\"id\":\"b\"}\n";
    snprintf(recording, sizeof recording, "%s", test_temporary("recording.json"));
    snprintf(prompts, sizeof prompts, "%s", test_temporary("prompts.jsonl"));
    snprintf(answers, sizeof answers, "%s", test_temporary("answers.jsonl"));
    test_write_file(prompts, LINES, sizeof LINES - 1);
    PREPARE("generate", fault_gguf(), TINY, "-s", "1", "--max-tokens", "3", "--record", recording,
            "--force");
    need_fault_json("replay", recording);
    PREPARE("generate", fault_gguf(), "--prompts", prompts, "--out", answers, "-t", "0",
            "--max-tokens", "2", "-q", "--force");
    BOTH(NULL, "replay", recording, "--quiet");
    BOTH(NULL, "merge", answers);
}

// These print times.
Test(torture_compound, of_what_measures) {
    const char *const bench[] = {TEST_RUN, "bench",       fault_gguf(), "--pp", "2",
                                 "--tg",   "2",           "-r",         "1",    "-j",
                                 "1",      "--no-limits", NULL};
    const char *const selftest[] = {TEST_RUN,  "selftest", fault_gguf(), "--prompt-ids",
                                    "1,3,4,5", "-j",       "1",          NULL};
    const char *const *const runs[] = {bench, selftest};
    for (size_t i = 0; i < 2; i++)
        for (int memory = 0; memory < 2; memory++)
            walk_through(&(Walk){.kind = memory ? "memory" : "files",
                                 .argv = runs[i],
                                 .then = memory ? "files" : "memory",
                                 .other_code = 4,
                                 .varies = true});
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

// ---- by the kernel ----

// strace fails system calls, those of libc itself too: stdio's writes, which no library sees.
static TestRun traced(const char *trace, const char *const *argv) {
    const char *words[40] = {"strace", "-f", "-qq", "-o", test_temporary("strace"), "-e", trace};
    size_t n = 7;
    for (; *argv; argv++)
        words[n++] = *argv;
    return test_run(words, NULL, 0);
}

// How many calls of that name a run makes. The first ones are the loader's.
static int count_traced(const char *call, const char *const *argv) {
    char line[80];
    int count = 0;
    snprintf(line, sizeof line, "trace=%s", call);
    TestRun run = traced(line, argv);
    CHECK(run.status == 0, "%s", run.err);
    test_run_free(&run);
    char *text = test_read_file(test_temporary("strace"), NULL);
    snprintf(line, sizeof line, " %s(", call);
    for (const char *at = text; (at = strstr(at, line)); at++)
        count++;
    free(text);
    return count;
}

// Returns how many calls it let fail.
static int inject(const char *call, const char *cause, const char *const *argv) {
    static const char *const ONLY_LOADED[] = {TEST_RUN, "--version", NULL};
    char line[80];
    TestRun wanted = test_run(argv, NULL, 0);
    int calls = count_traced(call, argv);
    int loader = count_traced(call, ONLY_LOADED);
    for (int at = loader + 1; at <= calls; at++) {
        snprintf(line, sizeof line, "inject=%s:error=%s:when=%d", call, cause, at);
        TestRun run = traced(line, argv);
        const char *newline = strchr(run.err, '\n');
        bool same = run.status == 0 && run.out_size == wanted.out_size &&
                    !memcmp(run.out, wanted.out, run.out_size);
        bool refused = (run.status == 4 || run.status == 5) && !strncmp(run.err, "run: ", 5) &&
                       newline == run.err + run.err_size - 1;
        CHECK(same || refused, "%s %d of %s, %s: exit %d, \"%s\", \"%s\"", call, at, argv[1], cause,
              run.status, run.out, run.err);
        test_run_free(&run);
    }
    test_run_free(&wanted);
    return calls > loader ? calls - loader : 0;
}

// When not even the sandbox can be built, the program runs without.
static const char *const INJECTED[][2] = {
    {"openat", "EIO"},
    {"openat", "EMFILE"},
    {"read", "EIO"},
    {"read", "EINTR"},
    {"pread64", "EIO"},
    {"pread64", "EINTR"},
    {"mmap", "ENOMEM"},
    {"newfstatat", "EIO"},
    {"write", "ENOSPC"},
    {"write", "EINTR"},
    {"pwrite64", "EIO"},
    {"pwrite64", "EINTR"},
    {"fsync", "EIO"},
    {"linkat", "EIO"},
    {"renameat", "EIO"},
    {"fallocate", "EINTR"},
    {"close", "EIO"},
    {"clone3", "EAGAIN"},
    {"prctl", "EINVAL"},
    {"seccomp", "EINVAL"},
    {"mprotect", "ENOMEM"},
    {"munmap", "EINVAL"},
    {"madvise", "EINVAL"},
    {"fcntl", "EINVAL"},
    {"sched_getaffinity", "EINVAL"},
    {"rt_sigaction", "EINVAL"},
    {"landlock_create_ruleset", "ENOSYS"},
};

static void inject_all(const char *const *argv) {
    need_faults();
    TestRun run = traced("trace=none", (const char *const[]){"true", NULL});
    bool can = run.status == 0;
    test_run_free(&run);
    if (!can) SKIP("no strace on this machine, or it may trace nothing");
    int failed = 0;
    for (size_t i = 0; i < sizeof INJECTED / sizeof *INJECTED; i++)
        failed += inject(INJECTED[i][0], INJECTED[i][1], argv);
    fprintf(stderr, "%d system calls of %s\n", failed, argv[1]);
    CHECK(failed > 20, "only %d calls", failed);
}
#define INJECT_ALL(...) inject_all((const char *const[]){TEST_RUN, __VA_ARGS__, NULL})

Test(torture_compound, by_the_kernel_in_generate) {
    INJECT_ALL("generate", fault_gguf(), "--prompt-ids", "1,3,4", "-j", "2", "--quiet", "-t", "0",
               "--max-tokens", "2");
}

Test(torture_compound, by_the_kernel_in_convert) {
    const char *out = test_temporary("kernel.gguf");
    INJECT_ALL("convert", fault_gguf(), out, "--force", "--quiet");
}
