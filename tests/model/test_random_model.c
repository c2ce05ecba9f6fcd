// The random_model program: its models open and run in every type and family.
#include "model/model.h"
#include "tests/test.h"
#include "weights/checkpoint.h"
#include "weights/quant.h"

static char *write_model(const char *family, const char *type, const char *name) {
    char *path = strdup(test_temporary(name));
    const char *argv[] = {TEST_BUILD "/tests/random_model",
                          "--family",
                          family,
                          "--dim",
                          "256",
                          "--hidden",
                          "512",
                          "--layers",
                          "2",
                          "--heads",
                          "4",
                          "--kv-heads",
                          "2",
                          "--head-dim",
                          "64",
                          "--vocab",
                          "300",
                          "--ctx",
                          "32",
                          "--type",
                          type,
                          path,
                          NULL};
    TestRun run = test_run(argv, NULL, 0);
    CHECK(run.status == 0, "%s %s: %s", family, type, run.err);
    test_run_free(&run);
    return path;
}

// Logits of about 1, as those of a trained model: activations neither vanish nor explode.
static void check_logits(const float *logits, int count, const char *type) {
    double squares = 0.0;
    for (int t = 0; t < count; t++)
        squares += (double)logits[t] * (double)logits[t];
    double deviation = sqrt(squares / count);
    CHECK(deviation > 0.05 && deviation < 20.0, "%s: deviation %g", type, deviation);
}

static void check_model(const char *family, DType dtype) {
    const char *type = dtype_info(dtype)->name;
    char *path = write_model(family, type, "random.gguf");
    Error error = {0};
    Checkpoint *checkpoint = NULL;
    CHECK(checkpoint_open(&checkpoint, path, &error), "%s %s: %s", family, type, error.message);
    const Config *config = checkpoint_config(checkpoint);
    CHECK_STRING(config->family, family);
    CHECK(checkpoint_weights(checkpoint)->layers[1].wq.dtype == dtype, "%s", type);
    CHECK_INT(checkpoint_vocabulary(checkpoint)->n_tokens, 300);
    CHECK_INT(checkpoint_unused(checkpoint), 0);
    ModelOptions options = {.precision = PRECISION_A16};
    Model *model = model_open(config, checkpoint_weights(checkpoint), &options, &error);
    CHECK(model, "%s %s: %s", family, type, error.message);
    int32_t ids[] = {1, 5, 299};
    CHECK(model_forward(model, &(Batch){.n = 3, .tokens = ids}, &error), "%s %s: %s", family, type,
          error.message);
    check_logits(model_logits(model, 0), config->vocab_size, test_text("%s %s", family, type));
    model_close(model);
    checkpoint_close(checkpoint);
    free(path);
}

Test(random_model, opens_and_runs_in_every_type) {
    for (DType dtype = 0; dtype < DTYPE_COUNT; dtype++)
        if (dtype_info(dtype)->gguf_type >= 0) check_model("llama", dtype);
}

Test(random_model, opens_and_runs_in_every_family) {
    static const char *const FAMILIES[] = {"qwen2",    "qwen3",  "gemma3",  "olmo2", "exaone4",
                                           "ernie4_5", "arcee",  "smollm3", "phi3",  "gpt2",
                                           "nanochat", "gemma2", "granite"};
    for (size_t i = 0; i < sizeof FAMILIES / sizeof *FAMILIES; i++)
        check_model(FAMILIES[i], DTYPE_Q8_0);
}

Test(random_model, says_what_it_does_not_understand) {
    static const char *const WRONG[][3] = {
        {"--shape", "7b", "x"},   {"--type", "Q9_9", "x"},         {"--dim", "0", "x"},
        {"--dim", "12x", "x"},    {"--vocab", "259", "/dev/null"}, {"--heads", "7", "/dev/null"},
        {"--colour", "red", "x"}, {"--family", "t5", "/dev/null"}};
    for (size_t i = 0; i < sizeof WRONG / sizeof *WRONG; i++) {
        const char *argv[] = {TEST_BUILD "/tests/random_model", WRONG[i][0], WRONG[i][1],
                              WRONG[i][2], NULL};
        TestRun run = test_run(argv, NULL, 0);
        CHECK_INT(run.status, 2);
        CHECK(!strncmp(run.err, "random_model: ", 14), "%s", run.err);
        test_run_free(&run);
    }
}
