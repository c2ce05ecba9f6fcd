// diff on models: one weight is changed, and diff must name where; precisions and backends stay
// within their budgets.
#include "tests/support/traces.h"

#include <unistd.h>

// ---- a model with one wrong weight ----

// Where a tensor of a safetensors file lies.
static size_t offset_of(const char *path, const char *name) {
    SafetensorsFile file = open_trace(path);
    const SafetensorsTensor *tensor = safetensors_find(&file, name);
    CHECK(tensor, "no %s", name);
    size_t offset = tensor->plan.offset;
    safetensors_close(&file);
    return offset;
}

// Multiplies one element of a weight by 1.5.
static void spoil(const char *directory, const char *name, size_t element) {
    char path[700];
    snprintf(path, sizeof path, "%s/model.safetensors", directory);
    size_t size = 0, offset = offset_of(path, name) + 4 * element;
    char *bytes = test_read_file(path, &size);
    float value;
    memcpy(&value, bytes + offset, 4);
    CHECK(fabsf(value) > 0.01f, "element %zu of %s is %g", element, name, (double)value);
    value *= 1.5f;
    memcpy(bytes + offset, &value, 4);
    test_write_file(path, bytes, size);
    free(bytes);
}

typedef struct Mistake {
    const char *weight; // of the made model
    size_t element;
    const char *answer;
} Mistake;

// Row 3 of k_proj (8, 24), column 5: element 3 of the tensor; and so on.
static const Mistake MISTAKES[] = {
    {"model.layers.2.self_attn.k_proj.weight", 3 * 24 + 5,
     "The first that differs is model.layers.2.self_attn.k_proj (layer 2), at position 0 (token "
     "7), element 3: "},
    {"model.layers.0.mlp.up_proj.weight", 43 * 24,
     "The first that differs is model.layers.0.mlp.up_proj (layer 0), at position 0 (token 7), "
     "element 43: "},
    {"model.layers.3.post_attention_layernorm.weight", 9,
     "The first that differs is model.layers.3.post_attention_layernorm (layer 3), at position 0 "
     "(token 7), element 9: "},
    {"model.embed_tokens.weight", 9 * 24 + 1, // token 9 stands at position 2
     "The first that differs is model.embed_tokens, at position 2 (token 9), element 1: "},
    {"lm_head.weight", 50 * 24,
     "The first that differs is lm_head, at position 0 (token 7), element 50: "},
};

Test(diff, names_the_weight_that_is_wrong) {
    char *good = made_hugging_face("good");
    char *a = write_trace(good, "--prompt-ids|7,8,9,10|--precision|f32", "a.safetensors");
    for (size_t i = 0; i < sizeof MISTAKES / sizeof *MISTAKES; i++) {
        char *bad = made_hugging_face("bad");
        spoil(bad, MISTAKES[i].weight, MISTAKES[i].element);
        char *b = write_trace(bad, "--prompt-ids|7,8,9,10|--precision|f32", "b.safetensors");
        TestRun r = program("diff|%s|%s", a, b);
        check_says(&r, ERROR_ANSWER_NO, MISTAKES[i].answer);
        r = program("diff|%s|%s|-q|--only|layers.0.input_layernorm", a, b);
        check_status(&r, strstr(MISTAKES[i].weight, "embed") ? ERROR_ANSWER_NO : 0);
        test_run_free(&r);
        free(b);
        free(bad);
    }
    free(a);
    free(good);
}

// With another theta, projections are right and rotations are wrong from position 1 on.
Test(diff, names_the_rotation_where_theta_is_wrong) {
    char *good = made_hugging_face("good"), *bad = made_hugging_face("bad"), path[700];
    snprintf(path, sizeof path, "%s/config.json", bad);
    size_t size = 0;
    char *config = test_read_file(path, &size), *theta = strstr(config, "10000");
    CHECK(theta, "%s", config);
    theta[0] = '9';
    test_write_file(path, config, size);
    char *a = write_trace(good, "--prompt-ids|7,8,9,10|--precision|f32", "a.safetensors");
    char *b = write_trace(bad, "--prompt-ids|7,8,9,10|--precision|f32", "b.safetensors");
    TestRun r = program("diff|%s|%s", a, b);
    check_says(
        &r, ERROR_ANSWER_NO,
        "The first that differs is model.layers.0.self_attn.q_rotated (layer 0), at position "
        "1 (token 8), element ");
    free(config);
    free(a);
    free(b);
    free(good);
    free(bad);
}

// ---- every stage, against an independent implementation ----

static void need_numpy(void) {
    if (access("/usr/bin/python3", X_OK)) SKIP("no /usr/bin/python3");
    TestRun r =
        test_run((const char *const[]){"/usr/bin/python3", "-c", "import numpy", NULL}, NULL, 0);
    bool missing = r.status != 0;
    test_run_free(&r);
    if (missing) SKIP("no numpy: apt install python3-numpy");
}

// Compares with the trace of scripts/reference_numpy.py, which computes in float64 from the
// definitions: the names are the same, and all tensors are within the budget.
static void check_stages(const char *model) {
    const char *ids = "9,8,7,6,5,4,3,2,1,0,11,12,13,200,250,256";
    char *theirs = strdup(test_temporary("numpy.safetensors")), options[200];
    const char *numpy[] = {"/usr/bin/python3",
                           "-B",
                           "scripts/reference_numpy.py",
                           model,
                           "--prompt-ids",
                           ids,
                           "--out",
                           theirs,
                           "--force",
                           NULL};
    TestRun r = test_run(numpy, NULL, 0);
    CHECK(r.status == 0, "%s: %s", model, r.err);
    test_run_free(&r);
    snprintf(options, sizeof options, "--precision|f32|--attention|--prompt-ids|%s", ids);
    char *ours = write_trace(model, options, "ours.safetensors");
    r = program("diff|%s|%s", theirs, ours);
    CHECK(r.status == 0 && !strstr(r.out, "only in"), "%s: %s", model, r.out);
    check_says(&r, 0, "within the budget f32");
    free(ours);
    free(theirs);
}

static TestRun reference_numpy(const char *model, const char *options) {
    char command[1000];
    snprintf(command, sizeof command, "/usr/bin/python3 -B scripts/reference_numpy.py %s %s", model,
             options);
    return program_shell(command);
}

// A mistyped name must not cost a file, least of all the model.
Test(diff, the_numpy_reference_refuses_in_one_line) {
    static const char *const IDS[] = {"1,5,999999", "1,x", "5,-1", "1,,2"};
    need_numpy();
    char *model = strdup(test_temporary("reference")),
         *out = strdup(test_temporary("kept.safetensors"));
    TestRun r = program("convert|builtin|%s|-q|--force", model);
    check_status(&r, 0);
    test_run_free(&r);
    char *weights = strdup(test_text("%s/model.safetensors", model));
    r = reference_numpy(model, test_text("--prompt-ids 1,5 --force --out %s", weights));
    check_refused_by("reference_numpy", &r, ERROR_USAGE, "belongs to the model");
    r = program("inspect|%s", model);
    check_status(&r, 0);
    test_run_free(&r);
    test_write_file(out, "notes", 5);
    r = reference_numpy(model, test_text("--prompt-ids 1,5 --out %s", out));
    check_refused_by("reference_numpy", &r, ERROR_USAGE, "exists: --force replaces it");
    for (size_t i = 0; i < sizeof IDS / sizeof *IDS; i++) {
        r = reference_numpy(model, test_text("--prompt-ids=%s --force --out %s", IDS[i], out));
        check_refused_by("reference_numpy", &r, ERROR_USAGE,
                         "--prompt-ids: wanted ids of 0 to 2047");
    }
    size_t size;
    char *kept = test_read_file(out, &size);
    CHECK(size == 5 && !memcmp(kept, "notes", 5));
    r = reference_numpy(model, test_text("--prompt-ids 1,5 --force --out %s", out));
    check_status(&r, 0);
    test_run_free(&r);
    r = reference_numpy("no-such-model", "--prompt-ids 1,5");
    check_refused_by("reference_numpy", &r, ERROR_IO, "no-such-model/config.json: No such file");
    r = reference_numpy(model, "--prompt-ids 1,5 --out no-such-folder/trace.safetensors");
    check_refused_by("reference_numpy", &r, ERROR_IO,
                     "no-such-folder/trace.safetensors: No such file");
    free(kept);
    free(weights);
    free(model);
    free(out);
}

Test(diff, every_stage_of_every_family_is_that_of_numpy) {
    static const char *const MODELS[] = {"gpt2",
                                         "llama-tied",
                                         "llama-untied",
                                         "llama-rope-llama3",
                                         "mistral-window8",
                                         "qwen2",
                                         "qwen3",
                                         "gemma3",
                                         "olmo2",
                                         "nanochat",
                                         "phi3",
                                         "smollm3",
                                         "qwen3-bf16",
                                         "gemma3-bf16"};
    need_numpy();
    for (size_t i = 0; i < sizeof MODELS / sizeof *MODELS; i++) {
        check_stages(test_reference_model(MODELS[i]));
    }
}

// Every fourth model of scripts/make_tiny_models.py, which needs no data folder.
Test(diff, every_stage_of_models_with_odd_sizes_is_that_of_numpy) {
    need_numpy();
    if (access("build/tiny-models/models.txt", R_OK)) SKIP("no build/tiny-models");
    size_t size;
    char *list = test_read_file("build/tiny-models/models.txt", &size), model[300];
    int line = 0;
    for (char *name = strtok(list, "\n"); name; name = strtok(NULL, "\n")) {
        if (line++ % 4) continue;
        snprintf(model, sizeof model, "build/tiny-models/%s", name);
        check_stages(model);
    }
    CHECK(line > 20, "%d models", line);
    free(list);
}

// ---- precisions ----

// A quantised model in f32, a16 and a8: each differs by no more than its own budget, and by more
// than the budget before it.
Test(diff, every_precision_keeps_its_own_budget_and_no_narrower_one) {
    char *model = strdup(test_temporary("random.gguf"));
    const char *argv[] = {TEST_BUILD "/tests/random_model",
                          "--dim",
                          "256",
                          "--hidden",
                          "512",
                          "--layers",
                          "3",
                          "--heads",
                          "4",
                          "--kv-heads",
                          "2",
                          "--head-dim",
                          "64",
                          "--vocab",
                          "300",
                          "--ctx",
                          "64",
                          "--type",
                          "Q4_0",
                          model,
                          NULL};
    TestRun made = test_run(argv, NULL, 0);
    check_status(&made, 0);
    test_run_free(&made);
    static const struct {
        const char *options, *budget, *narrower;
    } RUNS[] = {{"--precision|a16|--kv|f32", "a16", "f32"},
                {"--precision|f32|--kv|f16", "f16", "f32"},
                {"--precision|a16", "f16", "f32"},
                {"--precision|f32|--kv|bf16", "a8", "a16"},
                {"--precision|a8", "a8", "a16"}};
    const char *prompt = "--attention|--prompt-ids|1,2,3,4,5,6,7,8,9,10,11,12,250,260,270";
    char options[300], line[2000], answer[100];
    snprintf(options, sizeof options, "%s|--precision|f32", prompt);
    char *a = write_trace(model, options, "f32.safetensors");
    for (size_t i = 0; i < sizeof RUNS / sizeof *RUNS; i++) {
        snprintf(options, sizeof options, "%s|%s", prompt, RUNS[i].options);
        char *b = write_trace(model, options, "other.safetensors");
        TestRun r = program("diff|%s|%s", a, b);
        snprintf(answer, sizeof answer, "All 51 tensors are within the budget %s;", RUNS[i].budget);
        check_says(&r, 0, answer);
        snprintf(line, sizeof line, "diff|%s|%s|--budget|%s", a, b, RUNS[i].narrower);
        r = program_input(line, NULL, 0);
        check_says(&r, ERROR_ANSWER_NO, " over the budget");
        free(b);
    }
    free(a);
    free(model);
}

// The other backend's program, where it has been built.
Test(diff, cpu_and_reference_agree) {
    const char *other =
        strcmp(TEST_BACKEND, "cpu") ? "build/cpu-release/run" : "build/reference-release/run";
    if (access(other, X_OK)) SKIP("%s is not built", other);
    char out[300];
    snprintf(out, sizeof out, "%s", test_temporary("other.safetensors"));
    static const char *const MODELS[] = {"gemma3", "gpt2", "nanochat", "qwen3"};
    for (size_t i = 0; i < sizeof MODELS / sizeof *MODELS; i++) {
        const char *model = test_reference_model(MODELS[i]);
        const char *argv[] = {
            other,         "trace", model,         "--prompt-ids", "9,8,7,6,5,4,3,2,1,9,8,7",
            "--precision", "f32",   "--attention", "--force",      "--out",
            out,           "-q",    NULL};
        TestRun r = test_run(argv, NULL, 0);
        check_status(&r, 0);
        test_run_free(&r);
        char *here =
            write_trace(model, "--prompt-ids|9,8,7,6,5,4,3,2,1,9,8,7|--precision|f32|--attention",
                        "here.safetensors");
        r = program("diff|%s|%s", here, out);
        check_says(&r, 0, "within the budget f32");
        free(here);
    }
}
