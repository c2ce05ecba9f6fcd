// trace: a file of every stage. Its values are compared with those of transformers
// (../shared/data/reference-models), and with what each stage must make of the one before it.
#include "commands/trace/file.h"
#include "tests/support/files/conversions.h"
#include "tests/support/traces.h"

#include <unistd.h>

// ---- values ----

typedef struct Reference {
    SafetensorsFile file, trace;
    const char *model;
} Reference;

// Compares `theirs` of the reference with `ours` of the trace. share: relative to the largest
// value.
static void check_tensor(const Reference *r, const char *theirs, const char *ours, double absolute,
                         double share) {
    const SafetensorsTensor *a = safetensors_find(&r->file, theirs);
    const SafetensorsTensor *b = safetensors_find(&r->trace, ours);
    CHECK(a && b, "%s: no %s or %s", r->model, theirs, ours);
    CHECK(a->plan.bytes == b->plan.bytes && a->plan.n_dims == b->plan.n_dims, "%s", ours);
    for (uint32_t i = 0; i < a->plan.n_dims; i++)
        CHECK_INT(b->plan.shape[i], a->plan.shape[i]);
    size_t count = a->plan.bytes / 4;
    float *wanted = trace_values(&r->file, theirs, 0, 0);
    float *got = trace_values(&r->trace, ours, 0, 0);
    double largest = 0;
    for (size_t i = 0; i < count; i++)
        largest = fmax(largest, fabs((double)wanted[i]));
    for (size_t i = 0; i < count; i++)
        if (!(fabs((double)got[i] - (double)wanted[i]) <= absolute + share * largest))
            TEST_FAIL("%s %s [%zu]: got %.9g, wanted %.9g", r->model, ours, i, (double)got[i],
                      (double)wanted[i]);
    free(wanted);
    free(got);
}

static void check_layers(const Reference *r, const char *layers, const char *attention) {
    char theirs[80], ours[160];
    for (int l = 0;; l++) {
        snprintf(theirs, sizeof theirs, "p1.layer_out.%02d", l);
        if (!safetensors_find(&r->file, theirs)) {
            CHECK(l >= 2, "%d layers", l);
            return;
        }
        snprintf(ours, sizeof ours, "%s%d", layers, l);
        check_tensor(r, theirs, ours, 0, 3e-5);
        snprintf(theirs, sizeof theirs, "p1.attn.%02d", l);
        snprintf(ours, sizeof ours, "%s%d.%s.attn_weights", layers, l, attention);
        check_tensor(r, theirs, ours, 1e-4, 0);
    }
}

static void check_reference(const char *model) {
    char directory[300], path[400], options[2000] = "--precision|f32|--attention|--prompt-ids|";
    Reference r = {.model = model};
    snprintf(directory, sizeof directory, "%s", test_reference_model(model));
    snprintf(path, sizeof path, "%s/reference.safetensors", directory);
    r.file = open_trace(path);
    const TensorPlan *ids = &safetensors_find(&r.file, "p1.input_ids")->plan;
    for (size_t i = 0; i < ids->shape[0]; i++) {
        int64_t id;
        memcpy(&id, ids->data + 8 * i, 8);
        sprintf(options + strlen(options), "%s%d", i ? "," : "", (int)id);
    }
    char *trace = write_trace(directory, options, "reference.safetensors");
    r.trace = open_trace(trace);
    bool gpt2 = !strcmp(model, "gpt2"), nanochat = !strcmp(model, "nanochat");
    const TensorPlan *ours = &safetensors_find(&r.trace, "input_ids")->plan;
    CHECK(ours->bytes == ids->bytes && !memcmp(ours->data, ids->data, ids->bytes), "input_ids");
    check_tensor(&r, "p1.embed",
                 gpt2       ? "transformer.drop"
                 : nanochat ? "model.embed_norm"
                            : "model.embed_tokens",
                 0, 3e-5);
    check_layers(&r, gpt2 ? "transformer.h." : "model.layers.", gpt2 ? "attn" : "self_attn");
    check_tensor(&r, "p1.final_norm", gpt2 ? "transformer.ln_f" : "model.norm", 0, 3e-5);
    check_tensor(&r, "p1.logits", nanochat ? "logits" : "lm_head", 2.5e-4, 0);
    safetensors_close(&r.file);
    safetensors_close(&r.trace);
    free(trace);
}

Test(trace, more_than_the_disk_has_left_is_refused_with_both_sizes) {
    Error error = {0};
    CHECK(trace_check_size("t", 5e9, 5e9, &error) && trace_check_size("t", 5e9, -1, &error));
    CHECK(!trace_check_size("t", 82.6e9, 72.1e9, &error) && error.code == ERROR_IO);
    CHECK_STRING(error.message, "t: the trace would take 82.6 GB, the disk has 72.1 GB left; "
                                "--only NAME makes it smaller");
    error = (Error){0};
    CHECK(!trace_check_size("t", 1.25e6, 0.3e6, &error));
    CHECK_STRING(error.message, "t: the trace would take 1.2 MB, the disk has 0.3 MB left; "
                                "--only NAME makes it smaller");
}

Test(trace, has_the_values_of_transformers) {
    static const char *const MODELS[] = {
        "llama-tied",      "llama-untied", "gpt2",       "llama-rope-llama3",
        "mistral-window8", "qwen2",        "qwen3-bf16", "gemma3-bf16",
        "olmo2",           "smollm3",      "phi3",       "nanochat"};
    for (size_t i = 0; i < sizeof MODELS / sizeof *MODELS; i++)
        check_reference(MODELS[i]);
}

// Computes each step from the stage before it, on a made model.
Test(trace, stages_follow_from_one_another) {
    enum { N = 7, DIM = 24, HIDDEN = 44 };
    char *model = made_model();
    char *path = write_trace(model, "--prompt-ids|5,4,3,2,1,0,59|--precision|f32|--attention",
                             "identities.safetensors");
    SafetensorsFile file = open_trace(path);
    float *in = trace_values(&file, "model.layers.1", N, DIM);
    float *o = trace_values(&file, "model.layers.2.self_attn.o_proj", N, DIM);
    float *middle = trace_values(&file, "model.layers.2.attn_residual", N, DIM);
    float *down = trace_values(&file, "model.layers.2.mlp.down_proj", N, DIM);
    float *out = trace_values(&file, "model.layers.2", N, DIM);
    for (int i = 0; i < N * DIM; i++) {
        CHECK(middle[i] == in[i] + o[i], "element %d of the first residual", i);
        CHECK(out[i] == middle[i] + down[i], "element %d of the second residual", i);
    }
    float *gate = trace_values(&file, "model.layers.2.mlp.gate_proj", N, HIDDEN);
    float *up = trace_values(&file, "model.layers.2.mlp.up_proj", N, HIDDEN);
    float *activated = trace_values(&file, "model.layers.2.mlp.activated", N, HIDDEN);
    for (int i = 0; i < N * HIDDEN; i++) {
        double g = (double)gate[i];
        CHECK_NEAR(activated[i], g / (1 + exp(-g)) * (double)up[i], 1e-5);
    }
    // At position 0 the angle is 0, and the only visible key has weight 1.
    float *q = trace_values(&file, "model.layers.2.self_attn.q_proj", N, DIM);
    float *rotated = trace_values(&file, "model.layers.2.self_attn.q_rotated", N, DIM);
    CHECK(!memcmp(q, rotated, DIM * sizeof *q), "position 0 is not rotated");
    CHECK(memcmp(q + DIM, rotated + DIM, DIM * sizeof *q), "position 1 is rotated");
    float *weights = trace_values(&file, "model.layers.2.self_attn.attn_weights", 6, N);
    for (int row = 0; row < 6 * N; row++) {
        double sum = 0;
        for (int t = 0; t < N; t++) {
            sum += (double)weights[row * N + t];
            if (t > row % N) CHECK(weights[row * N + t] == 0, "row %d sees key %d", row, t);
        }
        CHECK_NEAR(sum, 1, 1e-6);
    }
    float *all[] = {in, o, middle, down, out, gate, up, activated, q, rotated, weights};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    safetensors_close(&file);
    free(path);
    free(model);
}

// ---- prompts and generated tokens ----

static void check_same(const char *a, const char *b) {
    TestRun r = program("diff|%s|%s|--budget|0|-q", a, b);
    CHECK(r.status == 0, "%s", r.out);
    test_run_free(&r);
}

// 300 tokens are generated, then fed as a prompt, in chunks of 256 rows.
Test(trace, generated_and_fed_tokens_give_the_same_values) {
    char *model = made_model(), line[300], ids[4000] = "--attention|--prompt-ids|7";
    char *grown = write_trace(model, "--attention|--prompt-ids|7|-n|299", "grown.safetensors");
    SafetensorsFile file = open_trace(grown);
    const TensorPlan *tokens = &safetensors_find(&file, "input_ids")->plan;
    CHECK_INT(tokens->shape[0], 300);
    snprintf(line, sizeof line,
             "generate|%s|--prompt-ids|7|--ids|-t|0|--max-tokens|299|--ignore-eos|-q", model);
    TestRun r = program_input(line, NULL, 0);
    check_status(&r, 0);
    char *at = r.out;
    for (size_t i = 1; i < 300; i++) {
        int64_t id;
        memcpy(&id, tokens->data + 8 * i, 8);
        CHECK_INT(strtol(at, &at, 10), id);
        sprintf(ids + strlen(ids), ",%d", (int)id);
    }
    char *prompt = write_trace(model, ids, "prompt.safetensors");
    check_same(grown, prompt);
    test_run_free(&r);
    safetensors_close(&file);
    free(prompt);
    free(grown);
    free(model);
}

Test(trace, one_model_gives_one_trace_from_every_container) {
    char *bin = made_model(), *directory = made_hugging_face("made-hf");
    char *a = write_trace(bin, "--attention|--prompt-ids|7,8,9", "bin.safetensors");
    char *b = write_trace(directory, "--attention|--prompt-ids|7,8,9", "hf.safetensors");
    check_same(a, b);
    free(a);
    free(b);
    free(bin);
    free(directory);
}

Test(trace, stories260K_gives_one_trace_from_gguf_and_bin) {
    char options[600];
    const char *gguf = test_data_if_any("stories260K/stories260K.gguf"), *bin, *tokenizer;
    if (gguf) {
        bin = test_data("stories260K/stories260K.bin");
        tokenizer = test_data("stories260K/tok512.bin");
    } else { // a random one of ours
        bin = conversion_bin_of_words("words.bin", 0);
        tokenizer = conversion_tokenizer_bin("words");
        gguf = test_temporary("words.gguf");
        snprintf(options, sizeof options, "%%s|%%s|-z|%s", tokenizer);
        convert(options, bin, gguf);
    }
    snprintf(options, sizeof options, "-i|Once|--attention|-z|%s", tokenizer);
    char *a = write_trace(gguf, "-i|Once|--attention", "gguf.safetensors");
    char *b = write_trace(bin, options, "bin.safetensors");
    check_same(a, b);
    free(a);
    free(b);
}

// ---- names and metadata ----

Test(trace, only_what_is_named) {
    static const struct {
        const char *options;
        size_t count;
    } CASES[] = {
        {"--prompt-ids|1|--only|q_proj", 4},
        {"--prompt-ids|1|--only|self_attn.q_proj|--only|lm_head", 5},
        {"--prompt-ids|1|--only|layers.3.*", 15 - 1},
        {"--prompt-ids|1|--only|model.layers.3", 1},
        {"--prompt-ids|1|--only|attn_weights", 4},
        {"--prompt-ids|1", 1 + 4 * 15 + 2},
        {"--prompt-ids|1|--attention", 1 + 4 * 16 + 2},
    };
    char *model = made_model();
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        char *path = write_trace(model, CASES[i].options, "only.safetensors");
        SafetensorsFile file = open_trace(path);
        CHECK(file.count == CASES[i].count + 1, "%s: %zu tensors", CASES[i].options, file.count);
        safetensors_close(&file);
        free(path);
    }
    free(model);
}

Test(trace, metadata_say_what_the_run_was) {
    static const char *const WANTED[][2] = {{"family", "llama"},
                                            {"precision", "a16"},
                                            {"kv", "f16"},
                                            {"prompt_tokens", "2"},
                                            {"prompt_ids", "5,6"},
                                            {"config",
                                             "{\"dim\":24,\"hidden_dim\":44,\"n_layers\":4,"
                                             "\"n_heads\":6,\"n_kv_heads\":2,\"head_dim\":4,"
                                             "\"vocab_size\":60}"}};
    char *model = made_model();
    char *path = write_trace(model, "--prompt-ids|5,6|-n|2|--only|norm", "metadata.safetensors");
    SafetensorsFile file = open_trace(path);
    Error error = {0};
    const char *value;
    for (size_t i = 0; i < sizeof WANTED / sizeof *WANTED; i++) {
        CHECK(safetensors_metadata(&file, WANTED[i][0], &value, &error), "%s", error.message);
        CHECK(value, "no %s", WANTED[i][0]);
        CHECK_STRING(value, WANTED[i][1]);
    }
    CHECK(safetensors_metadata(&file, "model", &value, &error) && value, "model");
    CHECK_STRING(value, model);
    safetensors_close(&file);
    free(path);
    free(model);
}

// ---- errors ----

Test(trace, refuses_what_it_cannot_do) {
    char *model = made_model();
    const char *out = test_temporary("refused.safetensors");
    TestRun r = program("trace|%s|--prompt-ids|1", model);
    check_refused(&r, ERROR_USAGE, "--out");
    r = program("trace|%s|--prompt-ids|1|-o|%s", model, model);
    check_refused(&r, ERROR_USAGE, "is read by this run");
    r = program("trace|%s|--prompt-ids|1|-o|%s|--only|nothing", model, out);
    check_refused(&r, ERROR_USAGE, "no stage");
    r = program("trace|%s|--prompt-ids|60|-o|%s", model, out);
    check_refused(&r, ERROR_USAGE, "60");
    r = program("trace|%s|--prompt-ids|1|-n|320|-o|%s", model, out);
    check_refused(&r, ERROR_USAGE, "context is 320");
    r = program("trace|%s|--prompt-ids|1|-i|x|-o|%s", model, out);
    check_refused(&r, ERROR_USAGE, "one of -i");
    r = program("trace|%s|-i|x|-o|%s", model, out);
    check_refused(&r, ERROR_FILE, "tokenizer");
    r = program("trace|%s|--prompt-ids|1|-o|%s", "/nonexistent", out);
    check_refused(&r, ERROR_IO, "/nonexistent");
    r = program("trace|%s|--prompt-ids|1|-o|%s", model, "/nonexistent/x");
    check_refused(&r, ERROR_IO, "/nonexistent/x");
    r = program("trace|%s|--prompt-ids|1|-o|%s", model, "/dev/full");
    check_refused(&r, ERROR_IO, "/dev/full");
    r = program("trace|%s|--prompt-ids|1|-o|%s", model, "/tmp");
    check_refused(&r, ERROR_IO, "/tmp");
    CHECK(access(out, F_OK), "something was left behind");
    free(model);
}

// The disk fills up while the file is written; standard output is closed.
Test(trace, failed_writes_are_exit_4_and_leave_nothing) {
    char *model = made_model();
    const char *out = test_temporary("full.safetensors");
    char script[2000];
    snprintf(script, sizeof script,
             "ulimit -f 40; $RUN trace %s --prompt-ids 1,2,3,4,5,6,7,8 -o %s", model, out);
    TestRun r = program_shell(script);
    check_refused(&r, ERROR_IO, "full.safetensors");
    CHECK(access(out, F_OK), "something was left behind");
    snprintf(script, sizeof script, "$RUN trace %s --prompt-ids 1 -o %s >&-", model, out);
    r = program_shell(script);
    check_refused(&r, ERROR_IO, "standard output");
    free(model);
}

// A model that makes NaN is traced to the end, and the exit code says so.
Test(trace, values_that_are_not_finite_are_written_and_reported) {
    char *model = made_model();
    const char *out = test_temporary("nan.safetensors");
    size_t size = 0;
    char *bytes = test_read_file(model, &size);
    float nan = NAN;
    memcpy(bytes + 28 + sizeof nan * (60 * 24 + 2 * 24 + 5), &nan,
           sizeof nan); // layer 2's att_norm
    test_write_file(model, bytes, size);
    TestRun r = program("trace|%s|--prompt-ids|1,2|-q|-o|%s", model, out);
    CHECK_INT(r.status, ERROR_NONFINITE);
    CHECK(strstr(r.err, "layers.2.att_norm at position 0 holds nan"), "%s", r.err);
    SafetensorsFile file = open_trace(out);
    float *before = trace_values(&file, "model.layers.1", 2, 24);
    float *norm = trace_values(&file, "model.layers.2.input_layernorm", 2, 24);
    for (int i = 0; i < 24; i++)
        CHECK(isfinite(before[i]) && isnan(norm[i]) == (i == 5), "element %d", i);
    free(before);
    free(norm);
    safetensors_close(&file);
    test_run_free(&r);
    free(bytes);
    free(model);
}
