// convert, killed before each of its calls on files, and with each of them failing: what its output
// leads to is the model that was there or the new one, whole, and nothing else is lost.
// scripts/torture_convert does it as often as one likes.
#include "base/hash.h"
#include "tests/support/faults.h"
#include "tests/support/files/conversions.h"
#include "tests/support/files/hf_directory.h"
#include "tests/support/program.h"
#include "weights/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

// ---- what is in a directory ----

static uint64_t of_entry(const char *path, const char *name);

// The same for the same names, kinds, modes and bytes, in whatever order they are read.
static uint64_t of_directory(const char *path) {
    uint64_t sum = 0;
    DIR *entries = opendir(path);
    CHECK(entries, "no %s", path);
    for (struct dirent *e; (e = readdir(entries));) {
        char inside[800];
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
        snprintf(inside, sizeof inside, "%s/%s", path, e->d_name);
        sum += of_entry(inside, e->d_name);
    }
    closedir(entries);
    return sum;
}

static uint64_t of_entry(const char *path, const char *name) {
    struct stat status;
    uint64_t hash = fnv1a(FNV_START, name, strlen(name)), inner = 0;
    char target[200];
    size_t size = 0;
    CHECK(!lstat(path, &status), "%s", path);
    hash = fnv1a(hash, &status.st_mode, sizeof status.st_mode);
    if (S_ISDIR(status.st_mode)) {
        inner = of_directory(path);
        return fnv1a(hash, &inner, sizeof inner);
    }
    if (S_ISLNK(status.st_mode)) {
        ssize_t length = readlink(path, target, sizeof target);
        return fnv1a(hash, target, (size_t)length);
    }
    char *bytes = test_read_file(path, &size);
    hash = fnv1a(hash, bytes, size);
    free(bytes);
    return hash;
}

static bool opens(const char *path) {
    Checkpoint *checkpoint = NULL;
    bool good = checkpoint_open(&checkpoint, path, NULL);
    checkpoint_close(checkpoint);
    return good;
}

// ---- an output that holds one of two models ----

typedef struct Scene {
    char home[300], output[400]; // the output is alone in its home
    char *models[2];
    uint64_t states[2]; // of the output with either model
    bool plain;
} Scene;

static void argv_of(const Scene *s, int model, const char *argv[9]) {
    const char *const words[] = {TEST_RUN, "convert", s->models[model],      s->output, "--force",
                                 "-q",     "--type",  model ? "f16" : "f32", NULL};
    memcpy(argv, words, sizeof words);
}

static void convert_undisturbed(const Scene *s, int model) {
    const char *argv[9];
    argv_of(s, model, argv);
    TestRun run = run_with_fault(&(Fault){.kind = "files"}, argv);
    check_status(&run, 0);
    test_run_free(&run);
}

static Scene scene(const char *name, const char *output) {
    Scene s = {0};
    snprintf(s.home, sizeof s.home, "%s", test_temporary(name));
    snprintf(s.output, sizeof s.output, "%s/%s", s.home, output);
    CHECK_INT(mkdir(s.home, 0700), 0);
    for (int i = 0; i < 2; i++) {
        GgufFile *file = gguf_tiny_llama();
        gguf_set_u32(file, "llama.context_length", i ? 48 : 32);
        s.models[i] = strdup(conversion_gguf(test_text("%s-%d.gguf", name, i), file));
    }
    return s;
}

// Files of a user's own in the directory that is replaced.
static void add_files(const char *directory) {
    char path[700];
    CHECK(!mkdir(directory, 0700) || errno == EEXIST, "%s", directory);
    CHECK_INT(chmod(directory, 0750), 0);
    hf_write(directory, "README.md", "about these models");
    hf_path(path, directory, "link");
    CHECK_INT(symlink("README.md", path), 0);
    hf_path(path, directory, "notes");
    CHECK_INT(mkdir(path, 0700), 0);
    hf_write(path, "of-mine.txt", "notes");
    strcat(path, "/deeper");
    CHECK_INT(mkdir(path, 0750), 0);
    hf_write(path, "model.safetensors", "of the same name, deeper down");
}

static void learn_states(Scene *s) {
    for (int i = 0; i < 2; i++) {
        convert_undisturbed(s, i);
        s->states[i] = of_entry(s->output, "");
        CHECK(opens(s->output), "%s", s->output);
    }
    CHECK(s->states[0] != s->states[1], "the same model twice");
}

// Which model it is; fails the test where it is neither.
static int model_of(const Scene *s, const char *when, long at) {
    uint64_t state = of_entry(s->output, "");
    CHECK(state == s->states[0] || state == s->states[1], "%s call %ld: a mixture", when, at);
    CHECK(opens(s->output), "%s call %ld: it does not open", when, at);
    return state == s->states[1];
}

// Nothing is left of the runs before.
static void check_clean(const Scene *s) {
    convert_undisturbed(s, 0);
    CHECK_INT(model_of(s, "undisturbed", 0), 0);
    CHECK_INT(test_entries(s->home), 1);
}

static void kill_through(const Scene *s) {
    long at = 1;
    for (int status = 128 + SIGKILL; status; at++) {
        const char *argv[9];
        argv_of(s, !model_of(s, "before", at), argv);
        TestRun run = run_with_fault(&(Fault){.kind = "kill", .at = at, .plain = s->plain}, argv);
        status = run.status;
        CHECK(!status || status == 128 + SIGKILL, "exit %d: %s", status, run.err);
        test_run_free(&run);
        model_of(s, "killed at", at);
    }
    fprintf(stderr, "killed at %ld calls\n", at - 2);
    CHECK(at > 20, "only %ld calls", at);
    check_clean(s);
}

// Ctrl-C and its like at each call: the program removes what it has made by itself.
static void interrupt_through(const Scene *s) {
    static const int SIGNALS[] = {SIGINT, SIGTERM, SIGHUP, SIGXCPU};
    Fault fault = {.kind = "interrupt", .at = 1, .count_path = test_temporary("count")};
    const char *argv[9];
    argv_of(s, 0, argv);
    for (long calls = count_calls(&fault, argv, 0); fault.at <= calls; fault.at++) {
        int wanted = !model_of(s, "before", fault.at);
        argv_of(s, wanted, argv);
        fault.signal = SIGNALS[fault.at % 4];
        TestRun run = run_with_fault(&fault, argv);
        int now = model_of(s, "interrupted at", fault.at);
        CHECK(run.status == 128 + fault.signal || (!run.status && now == wanted),
              "call %ld: exit %d, %s", fault.at, run.status, run.err);
        test_run_free(&run);
        CHECK(test_entries(s->home) == 1, "call %ld leaves something behind", fault.at);
    }
    CHECK(fault.at > 20, "only %ld calls", fault.at);
}

// Success is the new model; a failure says why in one line.
static void fail_once(const Scene *s, const Fault *fault, bool *done) {
    const char *argv[9];
    char *count = NULL;
    int wanted = !model_of(s, "before", fault->at);
    argv_of(s, wanted, argv);
    TestRun run = run_with_fault(fault, argv);
    int now = model_of(s, "failed", fault->at);
    bool refused = run.status == 4 || (fault->then && run.status == 5);
    CHECK(run.status ? refused : now == wanted, "call %ld, errno %d: exit %d, %s", fault->at,
          fault->error, run.status, run.err);
    CHECK(!run.status || (!strncmp(run.err, "run: ", 5) &&
                          strchr(run.err, '\n') == run.err + run.err_size - 1),
          "call %ld: %s", fault->at, run.err);
    count = test_read_file(fault->count_path, NULL);
    *done = atol(count) < fault->at;
    free(count);
    test_run_free(&run);
}

static void fail_through(const Scene *s) {
    // Once with the error that suits the call (ENOSPC, EIO), once interrupted, once for ever, and
    // once with no memory from then on.
    for (int i = 0; i < 4; i++) {
        bool done = false;
        for (long at = 1; !done; at++)
            fail_once(s,
                      &(Fault){.kind = "files",
                               .at = at,
                               .error = i == 1 ? EINTR : 0,
                               .for_ever = i == 2,
                               .then = i == 3 ? "memory" : NULL,
                               .plain = s->plain,
                               .count_path = test_temporary("count")},
                      &done);
    }
    check_clean(s);
}

static Scene directory_scene(const char *name) {
    need_faults();
    Scene s = scene(name, "models");
    add_files(s.output);
    learn_states(&s);
    return s;
}

static Scene file_scene(const char *name, bool plain) {
    need_faults();
    Scene s = scene(name, "model.gguf");
    s.plain = plain;
    learn_states(&s);
    return s;
}

Test(convert_kills, a_directory_has_the_old_model_or_the_new_one) {
    Scene s = directory_scene("killed");
    kill_through(&s);
}

Test(convert_kills, a_directory_has_either_model_whatever_call_fails) {
    Scene s = directory_scene("failed");
    fail_through(&s);
}

Test(convert_kills, a_file_is_the_old_model_or_the_new_one) {
    Scene named = file_scene("killed-named", true), unnamed = file_scene("killed-unnamed", false);
    kill_through(&unnamed);
    kill_through(&named);
}

Test(convert_kills, a_file_is_either_model_whatever_call_fails) {
    Scene named = file_scene("failed-named", true), unnamed = file_scene("failed-unnamed", false);
    fail_through(&unnamed);
    fail_through(&named);
}

Test(convert_kills, an_interrupted_run_leaves_nothing_behind) {
    Scene directory = directory_scene("stopped"), file = file_scene("stopped-file", false);
    interrupt_through(&directory);
    interrupt_through(&file);
}

// ---- where no model was ----

// Until it is all there, it is not there, or does not open.
static void kill_into(const char *name, bool exists, bool plain) {
    need_faults();
    Scene s = scene(name, "models");
    convert_undisturbed(&s, 0);
    if (exists) add_files(s.output);
    uint64_t whole = of_entry(s.output, "");
    for (int status = 128 + SIGKILL, at = 1; status; at++) {
        const char *argv[9], *const remove[] = {"rm", "-rf", s.output, NULL};
        TestRun run = test_run(remove, NULL, 0);
        check_status(&run, 0);
        test_run_free(&run);
        if (exists) add_files(s.output);
        argv_of(&s, 0, argv);
        run = run_with_fault(&(Fault){.kind = "kill", .at = at, .plain = plain}, argv);
        status = run.status;
        CHECK(!status || status == 128 + SIGKILL, "exit %d: %s", status, run.err);
        test_run_free(&run);
        bool there = opens(s.output);
        CHECK(there || status, "done and not there");
        if (!there) continue;
        // What is left inside is the empty directory in which the files gathered.
        convert_undisturbed(&s, 0);
        CHECK(of_entry(s.output, "") == whole, "call %d: half a model", at);
    }
    CHECK_INT(test_entries(s.home), 1);
}

Test(convert_kills, a_new_directory_opens_once_it_is_whole) {
    kill_into("new", false, false);
    kill_into("new-plain", false, true);
}

Test(convert_kills, a_directory_of_other_files_opens_once_it_is_whole) {
    kill_into("filled", true, false);
}

// ---- file systems that lack what this needs ----

Test(convert_kills, without_exchange_a_directory_is_refused_before_the_work) {
    Scene s = directory_scene("plain");
    const char *argv[9];
    convert_undisturbed(&s, 0);
    argv_of(&s, 1, argv);
    TestRun run = run_with_fault(&(Fault){.kind = "files", .plain = true}, argv);
    check_refused(&run, ERROR_USAGE,
                  "a directory of this file system cannot be replaced as a whole");
    CHECK_INT(model_of(&s, "refused", 0), 0);
    CHECK_INT(test_entries(s.home), 1);
}

// ---- the script that does it thousands of times ----

Test(convert_kills, the_script_finds_nothing_lost) {
    need_faults();
    TestRun run =
        program_shell("/usr/bin/python3 scripts/torture_convert --kills 20 --build " TEST_BUILD);
    if (run.status == 127) SKIP("no python3 on this machine");
    CHECK(!run.status && strstr(run.out, " kills, nothing lost"), "%s%s", run.out, run.err);
    test_run_free(&run);
}
