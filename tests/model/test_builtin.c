// The model inside the program: the text and the bits of the logits that every build must give.
#include "base/hash.h"
#include "model/model.h"
#include "tests/support/program.h"
#include "tests/test.h"
#include "tokenizer/tokenizer.h"
#include "weights/checkpoint.h"

enum { STEPS = 48, TEXT = 1024, LARGEST_FILE = 4000000 };
static const char PROMPT[] = "Once upon a time";

static Checkpoint *open_builtin(void) {
    Error error = {0};
    Checkpoint *checkpoint = NULL;
    need_builtin();
    CHECK(checkpoint_open(&checkpoint, BUILTIN_NAME, &error), "%s", error.message);
    return checkpoint;
}

static Tokenizer *open_tokenizer(const Checkpoint *checkpoint) {
    Error error = {0};
    TokenizerSource source = {.vocabulary = checkpoint_vocabulary(checkpoint)};
    Tokenizer *tokenizer = tokenizer_open(&source, &error);
    CHECK(tokenizer, "%s", error.message);
    return tokenizer;
}

// ---- the golden story ----

typedef struct Told {
    char text[TEXT];
    uint64_t hash; // of all rows of logits that tokens were sampled from: FNV-1a
} Told;

static int best_of(const float *logits, int count) {
    int best = 0;
    for (int t = 1; t < count; t++)
        if (logits[t] > logits[best]) best = t;
    return best;
}

// Greedy, from BOS and the prompt on.
static void tell(Told *told, const Checkpoint *checkpoint, Precision precision) {
    Error error = {0};
    IdList ids = {0};
    const Config *config = checkpoint_config(checkpoint);
    ModelOptions options = {.precision = precision, .kv_type = KV_F32, .context = 2 * STEPS};
    Tokenizer *tokenizer = open_tokenizer(checkpoint);
    Model *model = model_open(config, checkpoint_weights(checkpoint), &options, &error);
    CHECK(model, "%s", error.message);
    CHECK(id_list_push(&ids, tokenizer_bos(tokenizer), &error) &&
          tokenizer_encode(tokenizer, &ids, PROMPT, strlen(PROMPT), false, &error));
    *told = (Told){.hash = FNV_START};
    size_t used = 0;
    for (int i = 0, fed = 0; i < STEPS; i++) {
        Batch batch = {.n = (int)ids.count - fed, .tokens = ids.ids + fed};
        fed = (int)ids.count;
        CHECK(model_forward(model, &batch, &error), "%s", error.message);
        const float *logits = model_logits(model, 0);
        told->hash = fnv1a(told->hash, logits, (size_t)config->vocab_size * sizeof *logits);
        int32_t id = best_of(logits, config->vocab_size);
        CHECK(id_list_push(&ids, id, &error), "%s", error.message);
        size_t length = 0;
        const char *piece = tokenizer_piece(tokenizer, id, false, false, &length);
        CHECK(used + length < TEXT, "the text is too long");
        memcpy(told->text + used, piece, length);
        used += length;
    }
    id_list_free(&ids);
    model_close(model);
    tokenizer_close(tokenizer);
}

static const char STORY[] =
    ", there was a little girl named Lily. She loved to play outside in the sun. One day, she saw "
    "a "
    "big, red ball in the sky. She wanted to play with it, but she didn't want to play.\n\n";

Test(builtin, tells_the_golden_story_in_every_precision) {
    Checkpoint *checkpoint = open_builtin();
    for (int p = 0; p < 2; p++) { // a8 rounds too coarsely to promise a text
        Told told;
        tell(&told, checkpoint, (Precision)p);
        CHECK_STRING(told.text, STORY);
    }
    checkpoint_close(checkpoint);
}

// The cpu backend promises the same bits on every machine, whatever its instruction set.
Test(builtin, logits_have_the_golden_bits_in_every_precision) {
    static const uint64_t WANTED[] = {[PRECISION_F32] = 0x2fd4cb1715709ace,
                                      [PRECISION_A16] = 0xb1a5269f2b88bcf6,
                                      [PRECISION_A8] = 0x29df01b36d5ff146};
    if (strcmp(TEST_BACKEND, "cpu")) SKIP("the %s backend promises no bits", TEST_BACKEND);
    Checkpoint *checkpoint = open_builtin();
    for (int p = 0; p < 3; p++) {
        Told told;
        tell(&told, checkpoint, (Precision)p);
        CHECK(told.hash == WANTED[p], "precision %d: got 0x%016llx, wanted 0x%016llx", p,
              (unsigned long long)told.hash, (unsigned long long)WANTED[p]);
    }
    checkpoint_close(checkpoint);
}

// ---- its metadata ----

Test(builtin, is_a_nanochat_of_at_most_4_megabytes) {
    Checkpoint *checkpoint = open_builtin();
    const Config *config = checkpoint_config(checkpoint);
    CHECK_STRING(config->family, "nanochat");
    CHECK(config->n_heads > config->n_kv_heads, "grouped queries");
    CHECK(checkpoint_file_bytes(checkpoint) <= LARGEST_FILE);
    CHECK_INT(checkpoint_unused(checkpoint), 0);
    checkpoint_close(checkpoint);
}

Test(builtin, says_where_it_comes_from) {
    Checkpoint *checkpoint = open_builtin();
    const TextSpan *about = checkpoint_about(checkpoint);
    TextSpan text = about[ABOUT_DESCRIPTION];
    CHECK(memmem(text.text, text.length, "TinyStories", 11));
    CHECK(about[ABOUT_LICENSE].length > 0);
    checkpoint_close(checkpoint);
}

Test(builtin, splits_text_and_puts_it_together_again) {
    static const char TEXTS[][64] = {"Once upon a time", "\n\n\"Hi,\" said Tom.", "  two  blanks ",
                                     "\xc3\xa9t\xc3\xa9 \xe2\x98\x83 \xf0\x9f\x98\x80", "\xff\x00"};
    Checkpoint *checkpoint = open_builtin();
    Tokenizer *tokenizer = open_tokenizer(checkpoint);
    for (size_t i = 0; i < sizeof TEXTS / sizeof *TEXTS; i++) {
        IdList ids = {0};
        Error error = {0};
        char back[256];
        size_t used = 0;
        CHECK(tokenizer_encode(tokenizer, &ids, TEXTS[i], strlen(TEXTS[i]), false, &error));
        for (size_t k = 0; k < ids.count; k++) {
            size_t length = 0;
            const char *piece = tokenizer_piece(tokenizer, ids.ids[k], k == 0, false, &length);
            CHECK(used + length < sizeof back);
            memcpy(back + used, piece, length);
            used += length;
        }
        CHECK(used == strlen(TEXTS[i]) && !memcmp(back, TEXTS[i], used), "text %zu", i);
        id_list_free(&ids);
    }
    tokenizer_close(tokenizer);
    checkpoint_close(checkpoint);
}
