// The reference models: what transformers computed in float32, against the whole path from the
// files to the logits. Tolerances are those of ../shared/data/reference-models/README.md: another
// order of summation stays within 2.5e-4 of the logits, 3e-5 of a layer's largest value and 1e-4 of
// the attention weights, and every mistake that it lists (a window off by one, another theta, no
// scaling) is a thousand times that.
#include "tests/support/reference_model.h"
#include "tests/test.h"

#include <unistd.h>

static const char *const MODELS[] = {
    "llama-tied", "llama-untied", "llama-rope-llama3", "mistral-window8", "qwen2",   "qwen3",
    "qwen3-bf16", "gemma3",       "gemma3-bf16",       "olmo2",           "smollm3", "phi3",
    "gpt2",       "nanochat"};
enum { N_MODELS = sizeof MODELS / sizeof *MODELS };
static const ReferenceErrors BUDGET = {.logits = 2.5e-4, .rows = 3e-5, .weights = 1e-4};

static void check_models(bool spelling_4) {
    for (int i = 0; i < N_MODELS; i++) {
        ReferenceModel model;
        char name[100];
        if (TEST_EMULATED && strstr(MODELS[i], "-bf16")) continue; // a family once
        snprintf(name, sizeof name, "reference-models/%s", MODELS[i]);
        const char *directory = test_data(name);
        reference_model_open(&model, directory,
                             spelling_4 ? reference_model_version_4(directory) : NULL, &BUDGET);
        reference_model_check(&model, "p0");
        reference_model_check(&model, "p1");
        reference_model_close(&model);
    }
}

Test(reference_models, logits_layers_and_greedy_ids_are_those_of_transformers) {
    check_models(false);
}

Test(reference_models, the_spelling_of_transformers_4_is_the_same_model) {
    if (!strcmp(TEST_BACKEND, "cuda"))
        SKIP("the reader has no part in a device, and it takes a minute");
    check_models(true);
}

// reference_numpy is compared with transformers here, since it is the reference for the tiny
// models.
Test(reference_models, reference_numpy_computes_the_same) {
    if (access("/usr/bin/python3", X_OK)) SKIP("no /usr/bin/python3");
    const char *folder = test_data("reference-models");
    const char *numpy[] = {"/usr/bin/python3", "-c", "import numpy", NULL};
    const char *check[] = {"/usr/bin/python3", "tests/programs/check_reference_numpy.py", folder,
                           NULL};
    TestRun run = test_run(numpy, NULL, 0);
    bool missing = run.status != 0;
    test_run_free(&run);
    if (missing) SKIP("no numpy: apt install python3-numpy");
    run = test_run(check, NULL, 0);
    int lines = 0;
    for (const char *at = run.out; (at = strstr(at, "ok  ")); at++)
        lines++;
    CHECK_INT(run.status, 0);
    CHECK_INT(lines, 2 * N_MODELS);
    test_run_free(&run);
}
