// stories260K, a real trained model: greedy text equal to llama2.c's own golden output, from every
// container, with the same logits from each.
#include "base/hash.h"
#include "model/model.h"
#include "tests/test.h"
#include "tokenizer/tokenizer.h"
#include "weights/checkpoint.h"

enum { STEPS = 200, TEXT = 4096 };

static const char *const CONTAINERS[] = {"stories260K/stories260K.bin",
                                         "stories260K/stories260K.gguf"};

typedef struct Told {
    int32_t ids[STEPS];
    uint64_t hash; // of every logit, FNV-1a
} Told;

static int argmax_of(const float *logits, int count) {
    int best = 0;
    for (int t = 1; t < count; t++)
        if (logits[t] > logits[best]) best = t;
    return best;
}

static void tell(Told *told, Checkpoint *checkpoint, Precision precision, KvType kv_type) {
    Error error = {0};
    ModelOptions options = {.precision = precision, .kv_type = kv_type, .context = STEPS};
    Model *model =
        model_open(checkpoint_config(checkpoint), checkpoint_weights(checkpoint), &options, &error);
    CHECK(model, "%s", error.message);
    int vocab_size = checkpoint_config(checkpoint)->vocab_size;
    int32_t token = 1; // BOS
    told->hash = FNV_START;
    for (int i = 0; i < STEPS; i++) {
        CHECK(model_forward(model, &(Batch){.n = 1, .tokens = &token}, &error), "%s",
              error.message);
        const float *logits = model_logits(model, 0);
        told->hash = fnv1a(told->hash, logits, (size_t)vocab_size * sizeof *logits);
        told->ids[i] = token = argmax_of(logits, vocab_size);
    }
    model_close(model);
}

static Checkpoint *open_stories(const char *name) {
    Error error = {0};
    Checkpoint *checkpoint = NULL;
    CHECK(checkpoint_open(&checkpoint, test_data(name), &error), "%s", error.message);
    return checkpoint;
}

static void check_text(const Told *told, const Checkpoint *gguf) {
    Error error = {0};
    size_t size = 0, length = 0, used = 0;
    char *wanted = test_read_file(test_data("stories260K/expected_t0_n200.txt"), &size);
    char text[TEXT];
    TokenizerSource source = {.vocabulary = checkpoint_vocabulary(gguf)};
    Tokenizer *tokenizer = tokenizer_open(&source, &error);
    CHECK(tokenizer, "%s", error.message);
    for (int i = 0; i < STEPS; i++) {
        const char *piece = tokenizer_piece(tokenizer, told->ids[i], i == 0, false, &length);
        CHECK(used + length < TEXT, "the text is too long");
        memcpy(text + used, piece, length);
        used += length;
    }
    while (size && wanted[size - 1] == '\n')
        size--;
    CHECK(used >= size && !memcmp(text, wanted, size), "got: %.*s", (int)used, text);
    free(wanted);
    tokenizer_close(tokenizer);
}

Test(stories, greedy_text_is_the_golden_one_in_every_precision) {
    Checkpoint *gguf = open_stories(CONTAINERS[1]);
    for (int p = 0; p < 2; p++) { // a8 rounds too coarsely to promise a text
        Told told;
        tell(&told, gguf, (Precision)p, p ? KV_F16 : KV_F32);
        check_text(&told, gguf);
    }
    checkpoint_close(gguf);
}

Test(stories, every_container_gives_the_same_bits) {
    for (int p = 0; p < 3; p++) {
        Told told[2];
        for (int i = 0; i < 2; i++) {
            Checkpoint *checkpoint = open_stories(CONTAINERS[i]);
            tell(&told[i], checkpoint, (Precision)p, KV_F32);
            checkpoint_close(checkpoint);
        }
        CHECK(told[0].hash == told[1].hash, "precision %d: logits differ", p);
    }
}
