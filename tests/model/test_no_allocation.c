// Between model_open and model_close nothing allocates: malloc and its relatives are replaced by
// ones that count while armed.
#include "model/decoder.h"
#include "tests/support/files/tiny_model.h"
#include "tests/test.h"

#include <errno.h>
#include <stdatomic.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define OWN_ALLOCATOR 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define OWN_ALLOCATOR 1
#endif
#endif
#if !defined(__GLIBC__)
#define OWN_ALLOCATOR 1 // no other allocator to call
#endif

static atomic_bool armed;
static atomic_int allocations;

#ifndef OWN_ALLOCATOR

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

static void note(void) {
    if (atomic_load(&armed)) atomic_fetch_add(&allocations, 1);
}

void *malloc(size_t size) {
    note();
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size) {
    note();
    return __libc_calloc(count, size);
}

void *realloc(void *memory, size_t size) {
    note();
    return __libc_realloc(memory, size);
}

void *aligned_alloc(size_t alignment, size_t size) {
    note();
    return __libc_memalign(alignment, size);
}

int posix_memalign(void **memory, size_t alignment, size_t size) {
    note();
    *memory = __libc_memalign(alignment, size);
    return *memory ? 0 : ENOMEM;
}

#endif

// A prompt in chunks, single tokens, two sequences, a copy, a truncation, samples of every kind,
// and a decoder.
static void use(Model *model, Sampler *const *samplers, int n_samplers) {
    int32_t tokens[40], sequences[40];
    for (int i = 0; i < 40; i++) {
        tokens[i] = i % 50;
        sequences[i] = i % 2;
    }
    tiny_model_forward(model, &(Batch){.n = 40, .tokens = tokens, .sequences = sequences});
    kv_cache_copy(&model->cache, 1, 0);
    kv_cache_truncate(&model->cache, 0, 10);
    for (int i = 0; i < 10; i++) {
        Error error = {0};
        tiny_model_forward(model, &(Batch){.n = 1, .tokens = tokens + i});
        for (int k = 0; k < n_samplers; k++) {
            int token = sampler_next(samplers[k], model_logits(model, 0), &error);
            CHECK(token >= 0, "%s", error.message);
            sampler_accept(samplers[k], token);
        }
    }
    Error error = {0};
    Decoder decoder;
    DecoderOptions greedy = {.max_tokens = 5, .first = tokens, .n_sequences = 2};
    CHECK(decoder_begin(&decoder, model, &greedy, &error), "%s", error.message);
    while (decoder_left(&decoder) > 0)
        CHECK(decoder_next(&decoder, &error) >= 0, "%s", error.message);
    decoder_end(&decoder);
    kv_cache_reset(&model->cache, 0);
}

static void check_shape(const TinyShape *shape, Precision precision, int threads) {
    static const SampleRule RULES[] = {
        {0, 0, 1, 0, 1, 0}, {1, 0, 1, 0, 1, 0}, {1, 5, 1, 0, 1, 0}, {1, 0, 0.9f, 0.05f, 0.8f, 0}};
    enum { N = sizeof RULES / sizeof *RULES };
    TinyModel *tiny = tiny_model_open(shape);
    Error error = {0};
    ModelOptions options = {.threads = threads,
                            .precision = precision,
                            .kv_type = precision ? KV_F16 : KV_F32,
                            .n_sequences = 2,
                            .max_logit_rows = 2,
                            .max_rows = 16};
    Model *model = model_open(&tiny->config, &tiny->weights, &options, &error);
    CHECK(model, "%s", error.message);
    Sampler *samplers[N];
    for (int k = 0; k < N; k++) {
        SamplerOptions rule = sampler_defaults();
        rule.rule = RULES[k];
        rule.repeat_penalty = 1.1f;
        rule.frequency_penalty = 0.1f;
        rule.dry.multiplier = 0.8f;
        if (k == 1) rule.mirostat_tau = 3.0f;
        samplers[k] = sampler_open(model->device, shape->vocab_size, 64, &rule, &error);
        CHECK(samplers[k], "%s", error.message);
    }
    atomic_store(&armed, true);
    use(model, samplers, N);
    use(model, samplers, N);
    atomic_store(&armed, false);
    for (int k = 0; k < N; k++)
        sampler_close(samplers[k]);
    model_close(model);
    tiny_model_close(tiny);
}

Test(allocation, none_between_open_and_close) {
#ifdef OWN_ALLOCATOR
    SKIP("the sanitizer has the allocator");
#endif
    static const DType TYPES[] = {DTYPE_F32, DTYPE_F16, DTYPE_Q8_0, DTYPE_Q4_0};
    for (size_t t = 0; t < sizeof TYPES / sizeof *TYPES; t++)
        for (int p = 0; p < 3; p++) {
            TinyShape shape = tiny_shape();
            shape.dtype = TYPES[t];
            shape.head_dim = 32;
            shape.post_norms = t == 1;
            shape.biases = shape.layer_norm = t == 2;
            shape.qk_norm = t == 3 ? QK_NORM_PER_HEAD : QK_NORM_NONE;
            check_shape(&shape, (Precision)p, 1 + p);
        }
    CHECK_INT(atomic_load(&allocations), 0);
}

// The trap itself: an armed malloc is seen.
Test(allocation, is_noticed_when_it_happens) {
#ifdef OWN_ALLOCATOR
    SKIP("the sanitizer has the allocator");
#endif
    atomic_store(&armed, true);
    void *volatile memory = malloc(10);
    atomic_store(&armed, false);
    free(memory);
    CHECK_INT(atomic_exchange(&allocations, 0), 1);
}
