#include "tests/support/same_bits.h"

#include "model/model.h"
#include "tests/test.h"
#include "weights/checkpoint.h"

enum { PROMPT = 9, STEPS = EMULATED(3, 24), ROWS = PROMPT + STEPS };

// Logits of every row that a short prompt and greedy steps after it give: (ROWS, vocab_size),
// malloced.
static float *logits_of(const char *path, Precision precision, size_t *count) {
    Checkpoint *checkpoint = NULL;
    Error error = {0};
    CHECK(checkpoint_open(&checkpoint, path, &error), "%s", error.message);
    const Config *config = checkpoint_config(checkpoint);
    ModelOptions options = {
        .threads = 2, .precision = precision, .context = ROWS, .max_logit_rows = PROMPT};
    if (config->max_seq_len < ROWS) options.context = config->max_seq_len;
    Model *model = model_open(config, checkpoint_weights(checkpoint), &options, &error);
    CHECK(model, "%s", error.message);
    int rows = options.context - 1, prompt = rows < PROMPT ? rows : PROMPT;
    size_t vocab = (size_t)config->vocab_size;
    float *out = malloc((size_t)rows * vocab * sizeof *out);
    int32_t tokens[PROMPT];
    bool all[PROMPT];
    for (int i = 0; i < prompt; i++) {
        tokens[i] = 1 + (i * 37) % (config->vocab_size - 1);
        all[i] = true;
    }
    Batch batch = {.n = prompt, .tokens = tokens, .wants_logits = all};
    CHECK(model_forward(model, &batch, &error), "%s", error.message);
    for (int i = 0; i < prompt; i++)
        memcpy(out + (size_t)i * vocab, model_logits(model, i), vocab * sizeof *out);
    for (int i = prompt; i < rows; i++) {
        const float *last = out + (size_t)(i - 1) * vocab;
        int32_t id = 0;
        for (int j = 1; j < config->vocab_size; j++)
            if (last[j] > last[id]) id = j;
        CHECK(model_forward(model, &(Batch){.n = 1, .tokens = &id}, &error), "%s", error.message);
        memcpy(out + (size_t)i * vocab, model_logits(model, 0), vocab * sizeof *out);
    }
    *count = (size_t)rows * vocab;
    model_close(model);
    checkpoint_close(checkpoint);
    return out;
}

void check_same_bits(const char *const *paths, int n_paths, Precision precision) {
    size_t count, other;
    float *first = logits_of(paths[0], precision, &count);
    double largest = 0;
    for (size_t i = 0; i < count; i++)
        largest = fmax(largest, fabs((double)first[i]));
    CHECK(largest > 0.01 && largest < 1000, "logits up to %g", largest);
    for (int i = 1; i < n_paths; i++) {
        float *logits = logits_of(paths[i], precision, &other);
        CHECK_INT(other, count);
        for (size_t j = 0; j < count; j++)
            if (memcmp(&logits[j], &first[j], sizeof *logits) != 0)
                TEST_FAIL("%s differs from %s at element %zu: %.9g, %.9g", paths[i], paths[0], j,
                          (double)logits[j], (double)first[j]);
        free(logits);
    }
    free(first);
}
