#include "tests/support/faults.h"
#include "tests/support/files/gguf_writer.h"
#include "tests/support/files/llama2c_writer.h"
#include "tests/support/files/safetensors_writer.h"

#include <unistd.h>

static const char SHIM[] = TEST_BUILD "/tests/faults.so";

void need_faults(void) {
    if (TEST_SANITIZED) SKIP("sanitizers bring their own allocator");
    if (access(SHIM, R_OK)) SKIP("no %s", SHIM);
    if (access(TEST_RUN, X_OK)) SKIP("no %s", TEST_RUN);
}

static void set_number(const char *name, long value) {
    char text[24];
    snprintf(text, sizeof text, "%ld", value);
    setenv(name, text, 1);
}

static void set_fault(const Fault *fault) {
    setenv("LD_PRELOAD", SHIM, 1);
    setenv("FAULT", fault->kind, 1);
    set_number("FAULT_AT", fault->at);
    if (fault->count_path) setenv("FAULT_COUNT", fault->count_path, 1);
    if (fault->for_ever) setenv("FAULT_ON", "1", 1);
    if (fault->error) set_number("FAULT_ERRNO", fault->error);
    if (fault->except) setenv("FAULT_EXCEPT", fault->except, 1);
    if (fault->signal) set_number("FAULT_SIGNAL", fault->signal);
    if (fault->then) setenv("FAULT_THEN", fault->then, 1);
    if (fault->plain) set_number("FAULT_PLAIN", fault->plain);
}

static void clear_fault(void) {
    static const char *const NAMES[] = {"LD_PRELOAD",   "FAULT",       "FAULT_AT",    "FAULT_COUNT",
                                        "FAULT_ON",     "FAULT_ERRNO", "FAULT_PLAIN", "FAULT_THEN",
                                        "FAULT_SIGNAL", "FAULT_EXCEPT"};
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        unsetenv(NAMES[i]);
}

TestRun run_with_fault(const Fault *fault, const char *const *argv) {
    set_fault(fault);
    TestRun run = test_run(argv, fault->input, fault->input ? strlen(fault->input) : 0);
    clear_fault();
    return run;
}

TestRun typed_with_fault(const Fault *fault, const char *line, const TypedKeys *keys,
                         size_t count) {
    set_fault(fault);
    TestRun run = program_job(line, keys, count, 0);
    clear_fault();
    return run;
}

// What FAULT_COUNT receives of a run without a fault; the caller frees it.
static char *count_places(const Fault *fault, const char *const *argv, int usual_code) {
    Fault none = *fault;
    none.at = 0;
    none.count_path = test_temporary("count");
    TestRun run = run_with_fault(&none, argv);
    CHECK_INT(run.status, usual_code);
    test_run_free(&run);
    return test_read_file(none.count_path, NULL);
}

long count_calls(const Fault *fault, const char *const *argv, int usual_code) {
    char *text = count_places(fault, argv, usual_code);
    long count = atol(text);
    free(text);
    return count;
}

// ---- each call in turn ----

static bool one_error_line(const TestRun *run) {
    char *newline = memchr(run->err, '\n', run->err_size);
    return !strncmp(run->err, "run: ", 5) && newline == run->err + run->err_size - 1;
}

static void check_fault(const Walk *walk, long at, bool for_ever) {
    Fault fault = {.kind = walk->kind,
                   .at = at,
                   .for_ever = for_ever,
                   .then = walk->then,
                   .input = walk->input};
    TestRun run = run_with_fault(&fault, walk->argv);
    const TestRun *wanted = &walk->wanted;
    bool same = walk->varies ||
                (run.out_size == wanted->out_size && !memcmp(run.out, wanted->out, run.out_size));
    size_t text = run.out_size; // a text that breaks off still ends its line
    if (text && run.out[text - 1] == '\n') text--;
    bool beginning =
        walk->varies || (text <= wanted->out_size && !memcmp(run.out, wanted->out, text));
    bool survived = run.status == walk->usual_code && same;
    bool refused = !walk->survives &&
                   (run.status == 5 || (walk->other_code && run.status == walk->other_code)) &&
                   beginning && one_error_line(&run);
    CHECK(survived || refused, "%s call %ld%s%s of %s %s: exit %d, out \"%.60s\", err \"%.200s\"",
          walk->kind, at, for_ever ? " and on" : "", walk->then ? " (compound)" : "", walk->argv[1],
          walk->argv[2], run.status, run.out, run.err);
    test_run_free(&run);
}

// Thousands of calls come from some hundred places.
enum { FEW_CALLS = 100 };

// The call to try after `at`: the next number of the text, or without one the next of all calls.
static bool next_call(long *at, long calls, const char **numbers) {
    if (!*numbers) return ++*at <= calls;
    char *end = NULL;
    *at = strtol(*numbers, &end, 10);
    bool found = end != *numbers;
    *numbers = end;
    return found;
}

void walk_through(Walk *walk) {
    need_faults();
    walk->wanted = test_run(walk->argv, walk->input, walk->input ? strlen(walk->input) : 0);
    CHECK_INT(walk->wanted.status, walk->usual_code);
    char *places = count_places(&(Fault){.kind = walk->kind, .input = walk->input}, walk->argv,
                                walk->usual_code);
    long calls = strtol(places, NULL, 10), tried = 0;
    CHECK(calls > 0, "nothing to walk through");
    // A call that is interrupted for ever is made for ever.
    int ways = strcmp(walk->kind, "again") ? 2 : 1;
    bool all = calls <= FEW_CALLS || getenv("LIMPID_ALL_FAULTS");
    const char *numbers = all ? NULL : strchr(places, '\n');
    for (long at = 0; next_call(&at, calls, &numbers); tried++)
        for (int for_ever = 0; for_ever < ways; for_ever++)
            check_fault(walk, at, for_ever);
    fprintf(stderr, "%ld of %ld %s calls of %s\n", tried, calls, walk->kind, walk->argv[1]);
    free(places);
    test_run_free(&walk->wanted);
}

const char *fault_gguf(void) {
    const char *path = test_temporary("tiny.gguf");
    GgufFile *file = gguf_tiny_llama();
    size_t size;
    uint8_t *bytes = gguf_write(file, &size);
    test_write_file(path, bytes, size);
    free(bytes);
    gguf_file_free(file);
    return path;
}

const char *fault_directory(void) {
    const char *directory = test_temporary("tiny");
    BinShape shape = bin_shape_tiny(0, true);
    size_t size;
    char *bin = bin_bytes(&size, &shape, 7);
    write_hugging_face(directory, bin, size);
    free(bin);
    return directory;
}

// Some builds have no JSON reader.
void prepare(const char *const *argv) {
    need_faults();
    TestRun run = test_run(argv, NULL, 0);
    CHECK(run.status == 0, "%s", run.err);
    test_run_free(&run);
}

void need_fault_json(const char *command, const char *path) {
    const char *const argv[] = {TEST_RUN, command, path, NULL};
    need_faults();
    TestRun run = test_run(argv, NULL, 0);
    bool cannot = strstr(run.err, "this build") || strstr(run.err, "built without jansson");
    test_run_free(&run);
    if (cannot) SKIP("this build reads no JSON");
}
