// scripts/fidelity: green on a model that matches its reference; red, with the cause and exit
// code 1, on one that does not.
#include "tests/support/program.h"

#include <sys/stat.h>
#include <unistd.h>

static const char PYTHON[] = "/usr/bin/python3";

// The table of the models in `folder`, on the backend of this build.
static TestRun table(const char *folder) {
    const char *numpy[] = {PYTHON, "-c", "import numpy", NULL};
    if (access(PYTHON, X_OK)) SKIP("no %s", PYTHON);
    TestRun run = test_run(numpy, NULL, 0);
    bool missing = run.status != 0;
    test_run_free(&run);
    if (missing) SKIP("no numpy: apt install python3-numpy");
    const char *work = test_temporary("fidelity");
    const char *argv[] = {PYTHON,     "scripts/fidelity", "--models",   folder,   "--builds",
                          TEST_BUILD, "--backends",       TEST_BACKEND, "--work", work,
                          NULL};
    return test_run(argv, NULL, 0);
}

static void link_file(const char *folder, const char *name) {
    char from[1000], to[1000], *here = getcwd(NULL, 0);
    snprintf(from, sizeof from, "%s/%s/%s", here, test_reference_model("llama-tied"), name);
    snprintf(to, sizeof to, "%s/model/%s", folder, name);
    CHECK(!symlink(from, to), "%s", to);
    free(here);
}

// A folder with one model, whose config.json has `to` in place of `from`.
static const char *folder_with(const char *name, const char *from, const char *to) {
    const char *folder = test_temporary(name);
    size_t size;
    char path[1000];
    CHECK(!mkdir(folder, 0700));
    snprintf(path, sizeof path, "%s/model", folder);
    CHECK(!mkdir(path, 0700));
    snprintf(path, sizeof path, "%s/config.json", test_reference_model("llama-tied"));
    char *config = test_read_file(path, &size);
    char *at = strstr(config, from);
    CHECK(at && strlen(from) == strlen(to), "%s", from);
    memcpy(at, to, strlen(to));
    snprintf(path, sizeof path, "%s/model/config.json", folder);
    test_write_file(path, config, size);
    free(config);
    link_file(folder, "config.v4.json");
    link_file(folder, "model.safetensors");
    link_file(folder, "reference.safetensors");
    return folder;
}

Test(fidelity, a_model_that_is_what_its_reference_says_is_green) {
    TestRun run = table(folder_with("right", "rms_norm_eps", "rms_norm_eps"));
    CHECK(run.status == 0, "%s %s", run.out, run.err);
    CHECK(strstr(run.out, "| model | safetensors, config 5 |") && strstr(run.out, ".bin v0") &&
              strstr(run.out, "GGUF (convert)") && strstr(run.out, "gemma4"),
          "%s", run.out);
    CHECK(!strstr(run.out, "RED") && strstr(run.out, "8 of 8 rows green"), "%s", run.out);
    test_run_free(&run);
}

// -S: without the packages of Debian.
Test(fidelity, without_numpy_the_rows_of_bin_are_left_out) {
    char line[1000];
    snprintf(line, sizeof line,
             "/usr/bin/python3 -S scripts/fidelity --models %s --builds %s --backends %s --work %s",
             folder_with("plain", "rms_norm_eps", "rms_norm_eps"), TEST_BUILD, TEST_BACKEND,
             test_temporary("fidelity-plain"));
    if (access(PYTHON, X_OK)) SKIP("no %s", PYTHON);
    TestRun run = program_shell(line);
    CHECK(run.status == 0, "%s %s", run.out, run.err);
    CHECK(strstr(run.out, "3 of 3 rows green") && strstr(run.err, "no rows for .bin"), "%s %s",
          run.out, run.err);
    test_run_free(&run);
}

// Only config.json is changed: the GGUF is converted from it, the second config stays right.
Test(fidelity, another_eps_is_red) {
    bool public = test_data_if_any("reference-models") != NULL;
    TestRun run =
        table(public ? folder_with("wrong", "\"rms_norm_eps\": 0.001", "\"rms_norm_eps\": 0.002")
                     : folder_with("wrong", "\"rms_norm_eps\": 1e-05", "\"rms_norm_eps\": 2e-03"));
    CHECK_INT(run.status, 1);
    CHECK(strstr(run.out, "| model | safetensors, config 5 |") && strstr(run.out, "**RED** ") &&
              strstr(run.out, "logits 0.") && strstr(run.out, "**RED**: 2 of 8 rows"),
          "%s", run.out);
    test_run_free(&run);
}
