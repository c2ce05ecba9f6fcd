// LIMPID_CUDA: each switch turns its part off, and leaves the numbers as they are.
#include "model/decoder.h"
#include "tests/cuda/emulator.h"
#include "tests/support/device.h"
#include "tests/support/files/tiny_model.h"
#include "tests/support/program.h"

enum { PROMPT = 66, STEPS = 3, VOCABULARY = 320 };

// What a prompt and some steps behind it gave, and took.
typedef struct Seen {
    float prompt[VOCABULARY], step[VOCABULARY]; // logits of the last row
    long kernels, calls;                        // of the last step
    long products;                              // of cuBLASLt, for the prompt
    int32_t sampled[STEPS];                     // then, on the device
    int depth;
    char description[224];
} Seen;

static void keep(float *logits, const Model *model) {
    memcpy(logits, model_logits(model, 0), (size_t)model->config.vocab_size * sizeof *logits);
}

// Tokens that are drawn and fed on the device.
static void draw(Model *model, int32_t sampled[STEPS]) {
    Error error = {0};
    SamplerOptions options = sampler_defaults();
    options.rule.temperature = 1.0f;
    Sampler *sampler = sampler_open(model->device, model->config.vocab_size, 10, &options, &error);
    Decoder decoder;
    CHECK(sampler &&
              decoder_begin(&decoder, model,
                            &(DecoderOptions){.sampler = sampler, .max_tokens = STEPS + 1}, &error),
          "%s", error.message);
    for (int i = 0; i < STEPS; i++) {
        sampled[i] = decoder_next(&decoder, &error);
        CHECK(sampled[i] >= 0, "%s", error.message);
    }
    decoder_end(&decoder);
    sampler_close(sampler);
}

static Seen run(const TinyModel *tiny, const char *switches) {
    Seen seen = {0};
    int32_t tokens[PROMPT];
    for (int i = 0; i < PROMPT; i++)
        tokens[i] = (37 * i + 11) % tiny->config.vocab_size;
    if (switches) setenv("LIMPID_CUDA", switches, 1);
    Model *model = tiny_model_run(
        tiny, (ModelOptions){.precision = PRECISION_A16, .kv_type = KV_F16, .max_rows = PROMPT});
    unsetenv("LIMPID_CUDA");
    long products = emulator_cublas_products();
    tiny_model_forward(model, &(Batch){.n = PROMPT, .tokens = tokens});
    seen.products = emulator_cublas_products() - products;
    keep(seen.prompt, model);
    for (int i = 0; i < STEPS; i++) {
        long kernels = emulator_kernels();
        emulator_fail_call(0, 0); // counts from here
        tiny_model_forward(model, &(Batch){.n = 1, .tokens = tokens + i});
        seen.calls = emulator_calls();
        seen.kernels = emulator_kernels() - kernels;
    }
    keep(seen.step, model);
    draw(model, seen.sampled);
    const DeviceInfo *info = device_info(model->device);
    seen.depth = info->pipeline_depth;
    snprintf(seen.description, sizeof seen.description, "%s", info->description);
    model_close(model);
    return seen;
}

static TinyModel *some_model(void) {
    TinyShape shape = tiny_shape_of_blocks();
    shape.dtype = DTYPE_Q8_0;
    shape.max_seq_len = 2 * PROMPT;
    return tiny_model_open(&shape);
}

static void check_bits(const float *a, const float *b, int n, const char *what) {
    for (int i = 0; i < n; i++)
        CHECK(a[i] == b[i], "%s: logit %d is %.9g, with all on %.9g", what, i, (double)a[i],
              (double)b[i]);
}

Test(cuda_switches, those_of_a_step_leave_every_bit_as_it_is) {
    static const char *const NAMES[] = {"nograph", "nofuse", "nopdl", "noprefetch",
                                        "nofew",   "nofeed", "sync",  "nofuse,nograph,sync"};
    TinyModel *tiny = some_model();
    Seen all = run(tiny, NULL);
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        Seen seen = run(tiny, NAMES[i]);
        check_bits(seen.step, all.step, tiny->config.vocab_size, NAMES[i]);
        check_bits(seen.prompt, all.prompt, tiny->config.vocab_size, NAMES[i]);
        for (int t = 0; t < STEPS; t++)
            CHECK(seen.sampled[t] == all.sampled[t], "%s: token %d is %d, with all on %d", NAMES[i],
                  t, seen.sampled[t], all.sampled[t]);
    }
    tiny_model_close(tiny);
}

Test(cuda_switches, a_step_shows_what_is_off) {
    TinyModel *tiny = some_model();
    Seen all = run(tiny, NULL);
    CHECK_INT(all.kernels, 1 + 5 * tiny->config.n_layers + 1);
    Seen seen = run(tiny, "nograph");
    CHECK_INT(seen.kernels, all.kernels);
    CHECK(seen.calls >= all.calls + seen.kernels - 1, "%ld host calls, replayed %ld", seen.calls,
          all.calls);
    long launched = seen.calls;
    CHECK(run(tiny, "sync").calls >= launched + all.kernels, "a launch is not waited for");
    CHECK(run(tiny, "nofuse").kernels > all.kernels, "fused with nofuse");
    CHECK(run(tiny, "nofew").kernels > all.kernels, "fused into kernels that nofew leaves out");
    CHECK(all.depth > 0, "a depth of %d", all.depth);
    CHECK_INT(run(tiny, "nofeed").depth, 0);
    tiny_model_close(tiny);
}

// Other kernels with another order of their sums: near, and not the same.
Test(cuda_switches, a_prompt_shows_what_is_off) {
    TinyModel *tiny = some_model();
    Seen all = run(tiny, NULL);
    CHECK(all.products > 0, "no products by cuBLASLt");
    static const char *const NAMES[] = {"notiles", "noblas"};
    for (int i = 0; i < 2; i++) {
        Seen seen = run(tiny, NAMES[i]);
        int differ = 0;
        for (int t = 0; t < tiny->config.vocab_size; t++) {
            differ += seen.prompt[t] != all.prompt[t];
            CHECK_NEAR(seen.prompt[t], all.prompt[t], 0.02);
        }
        CHECK(differ, "%s: the same bits", NAMES[i]);
        CHECK_INT(seen.products, i ? 0 : all.products);
    }
    tiny_model_close(tiny);
}

Test(cuda_switches, the_device_says_what_is_off) {
    TinyModel *tiny = some_model();
    Seen seen = run(tiny, "sync,nofuse");
    CHECK(strstr(seen.description, ", LIMPID_CUDA=nograph,nofuse,sync"), "%s", seen.description);
    seen = run(tiny, "");
    CHECK(!strstr(seen.description, "LIMPID_CUDA"), "%s", seen.description);
    tiny_model_close(tiny);
}

// Of a step's first host calls, each failing once: how many are told under the kernel's name.
static int times_named(const TinyModel *tiny, const char *switches) {
    int named = 0;
    int32_t token = 1;
    for (long call = 1; call < 12; call++) {
        Error error = {0};
        setenv("LIMPID_CUDA", switches, 1);
        Model *model = tiny_model_run(tiny, (ModelOptions){.precision = PRECISION_A16});
        unsetenv("LIMPID_CUDA");
        emulator_fail_call(call, 719);
        bool done = model_forward(model, &(Batch){.n = 1, .tokens = &token}, &error);
        emulator_fail_call(0, 0);
        named += !done && strstr(error.message, "GPU: embed_kernel, grid (");
        model_close(model);
    }
    return named;
}

// A kernel fails while it runs, behind its launch: only who waits there knows its name.
Test(cuda_switches, sync_names_the_kernel_that_failed) {
    TinyModel *tiny = some_model();
    CHECK_INT(times_named(tiny, "nograph"), 1); // the launch
    CHECK_INT(times_named(tiny, "sync"), 2);    // and the wait
    tiny_model_close(tiny);
}

Test(cuda_switches, a_name_that_there_is_not_is_refused_with_those_that_there_are) {
    setenv("LIMPID_CUDA", "nograph,nofuze", 1);
    Device *device = device_open(1, PRECISION_A16);
    const Error *error = device_error(device);
    CHECK_INT(error->code, ERROR_USAGE);
    CHECK_STRING(error->message, "LIMPID_CUDA: no switch \"nofuze\"; there are nograph, nofuse, "
                                 "nopdl, noprefetch, notiles, noblas, nofew, nofeed, sync, persistent");
    device_close(device);
    CHECK_INT(emulator_live_objects(), 0);
    TestRun refused = program("%s|--prompt-ids|1,2|-n|4", small_model());
    unsetenv("LIMPID_CUDA");
    check_refused(&refused, ERROR_USAGE, "there are nograph, nofuse, nopdl");
}
