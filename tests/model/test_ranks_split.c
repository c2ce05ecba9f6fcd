// Which layers are whose when several processes share a model, what each of them takes, and that
// the parts of a model have all that the whole has, once. No message is sent here: tests/ranks/ has
// the processes.
#include "model/cost.h"
#include "model/ranks.h"
#include "tests/support/files/tiny_model.h"
#include "tests/test.h"
#include "weights/checkpoint.h"

static void check_ranges(const LayerRange *got, int n, const int *ends) {
    for (int r = 0; r < n; r++) {
        CHECK_INT(got[r].first, r ? ends[r - 1] : 0);
        CHECK_INT(got[r].end, ends[r]);
    }
}

// Layers of this shape have 4 * 64 * 64 + 3 * 64 * 128 = 40960 numbers, the head as many as
// vocab_size * 64.
static TinyModel *open_layers(int n_layers, int vocab_size, bool untied) {
    return tiny_model_open(&(TinyShape){.dim = 64,
                                        .hidden_dim = 128,
                                        .n_layers = n_layers,
                                        .n_heads = 2,
                                        .n_kv_heads = 2,
                                        .head_dim = 32,
                                        .vocab_size = vocab_size,
                                        .max_seq_len = 64,
                                        .dtype = DTYPE_F32,
                                        .untied = untied});
}

static void check_split(int n_layers, int vocab_size, int n, const int *ends) {
    LayerRange ranges[RANKS_MOST];
    Error error = {0};
    TinyModel *tiny = open_layers(n_layers, vocab_size, true);
    CHECK(ranks_split(ranges, n, NULL, &tiny->config, &tiny->weights, &error), "%s", error.message);
    check_ranges(ranges, n, ends);
    tiny_model_close(tiny);
}

// A head of 640 * 64 numbers is as long as a layer.
Test(ranks_split, layers_and_head_are_shared_evenly_by_bytes) {
    check_split(8, 2, 2, (const int[]){4, 8});
    check_split(8, 2, 3, (const int[]){3, 5, 8});
    check_split(7, 640, 2, (const int[]){4, 7});
    check_split(5, 1920, 2, (const int[]){4, 5});
    check_split(8, 2, 1, (const int[]){8});
}

// The head is longer than all layers together.
Test(ranks_split, every_rank_has_a_layer) {
    check_split(4, 6400, 4, (const int[]){1, 2, 3, 4});
    check_split(4, 6400, 3, (const int[]){2, 3, 4});
    check_split(6, 2, 6, (const int[]){1, 2, 3, 4, 5, 6});
}

// A head of 20 layers is more than a share of 33 / 4: the last rank has one layer with it, and the
// twelve others are shared by three ranks, not left to the first.
Test(ranks_split, a_large_head_is_made_up_for_by_all_other_ranks) {
    check_split(13, 12800, 4, (const int[]){4, 8, 12, 13});
    check_split(13, 12800, 2, (const int[]){12, 13});
}

Test(ranks_split, other_numbers_are_refused) {
    LayerRange ranges[RANKS_MOST];
    Error error = {0};
    TinyModel *tiny = open_layers(4, 8, false);
    const Config *c = &tiny->config;
    const Weights *w = &tiny->weights;
    CHECK(ranks_split(ranges, 3, (const int[]){1, 2, 1}, c, w, &error), "%s", error.message);
    check_ranges(ranges, 3, (const int[]){1, 3, 4});
    CHECK(!ranks_split(ranges, 2, (const int[]){1, 2}, c, w, &error));
    CHECK_STRING(error.message, "--layers-per-rank: 3 layers in all, the model has 4");
    CHECK_INT(error.code, ERROR_USAGE);
    error = (Error){0};
    CHECK(!ranks_split(ranges, 5, NULL, c, w, &error));
    CHECK_STRING(error.message, "5 ranks: at most 4, for 4 layers");
    tiny_model_close(tiny);
}

static Model *plan_part(const TinyModel *tiny, LayerRange layers) {
    Error error = {0};
    Model *m = model_plan(&tiny->config, &tiny->weights,
                          &(ModelOptions){.threads = 1, .layers = layers}, &error);
    CHECK(m, "%s", error.message);
    return m;
}

// Sums of what three parts have, against the model: a tied head is a matrix of its own where the
// embedding is in another process.
static void check_parts(bool untied) {
    TinyModel *tiny = open_layers(5, 96, untied);
    static const LayerRange PARTS[] = {{0, 2}, {2, 3}, {3, 5}};
    Model *whole = plan_part(tiny, (LayerRange){0});
    ModelMemory all = model_memory(whole, &whole->options);
    double matrices = 0, cache[3], read = 0;
    size_t vectors = 0;
    for (int r = 0; r < 3; r++) {
        Model *part = plan_part(tiny, PARTS[r]);
        matrices += part->weight_bytes.matrices;
        vectors += part->weight_bytes.vectors;
        cache[r] = model_memory(part, &part->options).cache;
        read += ranks_token_bytes(PARTS[r], &tiny->config, &tiny->weights);
        model_close(part);
    }
    double head = (double)matrix_bytes(&tiny->weights.head);
    CHECK(matrices == whole->weight_bytes.matrices + (untied ? 0 : head), "%.0f", matrices);
    CHECK(vectors == whole->weight_bytes.vectors, "%zu", vectors);
    // A cache has bytes of its own besides those of each layer.
    CHECK(cache[0] == cache[2] && all.cache == cache[1] + 4 * (cache[0] - cache[1]), "%.0f",
          all.cache);
    CHECK(read == 5 * 40960 * 4 + head, "%.0f", read);
    model_close(whole);
    tiny_model_close(tiny);
}

Test(ranks_split, the_parts_of_a_model_are_the_model) {
    check_parts(true);
    check_parts(false);
}

// The bytes that a part is opened with are those that were predicted.
Test(ranks_split, a_part_takes_what_its_plan_says) {
    TinyModel *tiny = open_layers(5, 96, false);
    static const LayerRange PARTS[] = {{0, 2}, {2, 3}, {3, 5}, {0, 5}};
    for (int r = 0; r < 4; r++) {
        Error error = {0};
        ModelOptions options = {.threads = 1, .context = 40, .layers = PARTS[r]};
        Model *m = model_open(&tiny->config, &tiny->weights, &options, &error);
        CHECK(m, "%s", error.message);
        ModelMemory memory = model_memory(m, &options);
        CHECK(model_memory_device(&memory) == (double)device_taken(m->device),
              "part %d: %.0f planned, %zu taken", r, model_memory_device(&memory),
              device_taken(m->device));
        CHECK((m->token_embedding != NULL) == (r == 0 || r == 3));
        CHECK((m->head != NULL) == (r >= 2));
        for (int l = 0; l < 5; l++)
            CHECK((m->layers[l].wq.weight != NULL) == (l >= PARTS[r].first && l < PARTS[r].end));
        model_close(m);
    }
    tiny_model_close(tiny);
}
