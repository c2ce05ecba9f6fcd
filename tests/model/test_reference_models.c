// The reference models: what transformers computed in float32, against the whole path from the
// files to the logits. Tolerances are those of ../shared/data/reference-models/README.md, which are
// those of the models of 2026 too: another order of summation stays within 2.5e-4 of the logits,
// 3e-5 of a layer's largest value and 1e-4 of the attention weights, and every mistake that it
// lists (a window off by one, another theta, no scaling) is a thousand times that.
#include "tests/support/reference_model.h"
#include "tests/test.h"

#include <unistd.h>

static const char *const MODELS[] = {
    "llama-tied", "llama-untied", "llama-rope-llama3", "mistral-window8", "qwen2",   "qwen3",
    "qwen3-bf16", "gemma3",       "gemma3-bf16",       "olmo2",           "smollm3", "phi3",
    "gpt2",       "nanochat"};
// Those of the families of 2026 that limpid runs.
static const char *const MODELS_2026[] = {"arcee",
                                          "ernie4_5",
                                          "exaone4",
                                          "gemma2",
                                          "gpt_neox",
                                          "granite",
                                          "granitemoehybrid-dense",
                                          "hunyuan_v1_dense",
                                          "ministral3",
                                          "olmo3",
                                          "phi3-longrope"};
enum {
    N_MODELS = sizeof MODELS / sizeof *MODELS,
    N_2026 = sizeof MODELS_2026 / sizeof *MODELS_2026
};
static const ReferenceErrors BUDGET = {.logits = 2.5e-4, .rows = 3e-5, .weights = 1e-4};

// `files`: NULL, or another form of the model.
static void check_model(const char *directory, const char *files) {
    ReferenceModel model;
    reference_model_open(&model, directory, files, &BUDGET);
    reference_model_check(&model, "p0");
    reference_model_check(&model, "p1");
    reference_model_close(&model);
}

static void check_folder(const char *folder, const char *const *names, int n, bool spelling_4) {
    for (int i = 0; i < n; i++) {
        char name[100];
        if (TEST_EMULATED && strstr(names[i], "-bf16")) continue; // a family once
        snprintf(name, sizeof name, "%s/%s", folder, names[i]);
        const char *directory = test_data(name);
        const char *files = NULL;
        if (spelling_4 && !access(test_text("%s/config.v4.json", directory), R_OK))
            files = reference_model_version_4(directory);
        if (files || !spelling_4) check_model(directory, files);
    }
}

static void check_models(bool spelling_4) {
    check_folder("reference-models", MODELS, N_MODELS, spelling_4);
    check_folder("reference-models-2026", MODELS_2026, N_2026, spelling_4);
}

Test(reference_models, logits_layers_and_greedy_ids_are_those_of_transformers) {
    check_models(false);
}

Test(reference_models, the_spelling_of_transformers_4_is_the_same_model) {
    if (!strcmp(TEST_BACKEND, "cuda"))
        SKIP("the reader has no part in a device, and it takes a minute");
    check_models(true);
}

// As llama.cpp's converter would write them, with a vocabulary of stand-ins.
Test(reference_models, ggufs_of_llama_cpp_are_the_same_models) {
    static const char *const GGUFS[] = {"gemma2", "granite", "olmo3"};
    for (size_t i = 0; i < sizeof GGUFS / sizeof *GGUFS; i++) {
        const char *directory = test_data(test_text("reference-models-2026/%s", GGUFS[i]));
        check_model(directory,
                    test_data(test_text("reference-models-2026/gguf/%s.gguf", GGUFS[i])));
    }
}

// reference_numpy is compared with transformers here, since it is the reference for the tiny
// models.
Test(reference_models, reference_numpy_computes_the_same) {
    if (access("/usr/bin/python3", X_OK)) SKIP("no /usr/bin/python3");
    const char *numpy[] = {"/usr/bin/python3", "-c", "import numpy", NULL};
    const char *check[] = {"/usr/bin/python3", "tests/programs/check_reference_numpy.py",
                           test_data("reference-models"), test_data("reference-models-2026"), NULL};
    TestRun run = test_run(numpy, NULL, 0);
    bool missing = run.status != 0;
    test_run_free(&run);
    if (missing) SKIP("no numpy: apt install python3-numpy");
    run = test_run(check, NULL, 0);
    int lines = 0;
    for (const char *at = run.out; (at = strstr(at, "ok  ")); at++)
        lines++;
    CHECK_INT(run.status, 0);
    CHECK_INT(lines, 2 * N_MODELS + 2 * N_2026 - 1); // ministral3 has one spelling
    test_run_free(&run);
}
