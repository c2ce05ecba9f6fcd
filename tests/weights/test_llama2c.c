// llama2.c files: every version read back, and what HOSTILE L01 - L06 says must be refused.
#include "tests/support/changed_bytes.h"
#include "tests/support/files/llama2c_writer.h"
#include "tests/test.h"
#include "weights/checkpoint.h"
#include "weights/quant.h"

#include <limits.h>

typedef struct Variant {
    const char *name;
    int version;
    bool tied;
} Variant;

static const Variant VARIANTS[] = {
    {"v0 tied", 0, true},    {"v0 untied", 0, false}, {"v1 tied", 1, true},
    {"v1 untied", 1, false}, {"v2 tied", 2, true},    {"v2 untied", 2, false},
};
enum { N_VARIANTS = sizeof VARIANTS / sizeof *VARIANTS };

// Opened over a copy of its own, which ends where the file ends, so that ASan sees a read past it.
// True: accepted (and closed again).
static bool opens(const void *bytes, size_t size, Error *error) {
    Checkpoint *checkpoint = NULL;
    char *copy = malloc(size + !size);
    memcpy(copy, bytes, size);
    *error = (Error){0};
    bool good = checkpoint_open_memory(&checkpoint, "m.bin", copy, size, error);
    checkpoint_close(checkpoint);
    free(copy);
    return good;
}

static void check_refused(const char *what, const void *bytes, size_t size, const char *message) {
    Error error;
    CHECK(!opens(bytes, size, &error), "%s was accepted", what);
    CHECK(error.code == ERROR_FILE && !strncmp(error.message, "m.bin: ", 7), "%s: %s", what,
          error.message);
    CHECK(strstr(error.message, message), "%s: \"%s\" is not in \"%s\"", what, message,
          error.message);
}

static char *tiny(const Variant *variant, size_t *size) {
    BinShape shape = bin_shape_tiny(variant->version, variant->tied);
    return bin_bytes(size, &shape, 7);
}

// ---- what is read ----

static const TensorPlan *find(const Checkpoint *checkpoint, const char *name) {
    size_t count;
    const TensorPlan *tensors = checkpoint_tensors(checkpoint, &count);
    for (size_t i = 0; i < count; i++)
        if (!strcmp(tensors[i].name, name)) return &tensors[i];
    return NULL;
}

Test(llama2c, every_version_is_recognised_by_its_content) {
    for (size_t i = 0; i < N_VARIANTS; i++) {
        size_t size;
        char *file = tiny(&VARIANTS[i], &size), wanted[32];
        CHECK(size <= 4096, "%zu bytes", size);
        Checkpoint *checkpoint = NULL;
        Error error = {0};
        CHECK(checkpoint_open_memory(&checkpoint, "m.bin", file, size, &error), "%s: %s",
              VARIANTS[i].name, error.message);
        snprintf(wanted, sizeof wanted, "llama2.c v%d", VARIANTS[i].version);
        CHECK_STRING(checkpoint_container_name(checkpoint), wanted);
        const Config *c = checkpoint_config(checkpoint);
        CHECK(c->dim == 8 && c->hidden_dim == 12 && c->n_layers == 1 && c->n_heads == 2);
        CHECK(c->n_kv_heads == 1 && c->vocab_size == 6 && c->max_seq_len == 5);
        CHECK(c->head_dim == 4 && c->rope_dim == 4 && c->rope.theta == 10000);
        CHECK_NEAR(c->norm_eps, 1e-5, 1e-12);
        CHECK(c->bos_id == 1 && c->n_eos_ids == 2 && c->eos_ids[0] == 1 && c->eos_ids[1] == 2);
        CHECK_INT(checkpoint_unused(checkpoint), 0);
        const Weights *w = checkpoint_weights(checkpoint);
        CHECK((w->head.data == w->token_embedding.data) == VARIANTS[i].tied, "%s",
              VARIANTS[i].name);
        CHECK(w->layers[0].wq.rope_dim == 4 && w->layers[0].wk.rope_dim == 4);
        CHECK(!w->layers[0].wv.rope_dim && !w->layers[0].wo.rope_dim);
        checkpoint_close(checkpoint);
        free(file);
    }
}

// Places worked out by hand from the layout: v0 begins with the embedding (6 x 8), one norm (8),
// wq (8 x 8), wk, wv (4 x 8), wo (8 x 8), a norm (8), w1, w2, w3 (96 each), a norm, freq_cis (5 x
// 4).
Test(llama2c, tensors_stand_where_the_format_puts_them) {
    static const struct {
        const char *name;
        size_t v0, v1; // floats from the start of the tensors
    } PLACES[] = {
        {"tok_embeddings.weight", 0, 24},
        {"layers.0.attention_norm.weight", 48, 0},
        {"layers.0.attention.wq.weight", 56, 72},
        {"layers.0.attention.wk.weight", 120, 136},
        {"layers.0.attention.wv.weight", 152, 168},
        {"layers.0.attention.wo.weight", 184, 200},
        {"layers.0.ffn_norm.weight", 248, 8},
        {"layers.0.feed_forward.w1.weight", 256, 264},
        {"layers.0.feed_forward.w2.weight", 352, 360},
        {"layers.0.feed_forward.w3.weight", 448, 456},
        {"norm.weight", 544, 16},
        {"output.weight", 572, 552},
    };
    for (int version = 0; version < 2; version++) {
        BinShape shape = bin_shape_tiny(version, false);
        size_t size;
        char *file = bin_bytes(&size, &shape, 7);
        Checkpoint *checkpoint = NULL;
        Error error = {0};
        CHECK(checkpoint_open_memory(&checkpoint, "m.bin", file, size, &error), "%s",
              error.message);
        for (size_t i = 0; i < sizeof PLACES / sizeof *PLACES; i++) {
            const TensorPlan *tensor = find(checkpoint, PLACES[i].name);
            CHECK(tensor, "%s", PLACES[i].name);
            CHECK_INT(tensor->offset,
                      bin_start(&shape) + 4 * (version ? PLACES[i].v1 : PLACES[i].v0));
            CHECK(tensor->data == (const uint8_t *)file + tensor->offset);
        }
        CHECK_INT(find(checkpoint, "output.weight")->offset + 4 * 48, size);
        checkpoint_close(checkpoint);
        free(file);
    }
}

Test(llama2c, version_2_is_elements_times_the_scale_of_their_group) {
    BinShape shape = bin_shape_tiny(2, true);
    size_t size;
    char *file = bin_bytes(&size, &shape, 7);
    // norms: 3 x 8 floats; the embedding's 48 elements follow, then its 12 scales
    const int8_t *q = (const int8_t *)(file + 256 + 96);
    const char *scales = file + 256 + 96 + 48;
    Checkpoint *checkpoint = NULL;
    Error error = {0};
    CHECK(checkpoint_open_memory(&checkpoint, "m.bin", file, size, &error), "%s", error.message);
    const Matrix *embedding = &checkpoint_weights(checkpoint)->token_embedding;
    CHECK(embedding->dtype == DTYPE_Q8_GROUP && embedding->group_size == 4);
    for (size_t row = 0; row < 6; row++) {
        float got[8], scale;
        matrix_row(got, embedding, row);
        for (size_t i = 0; i < 8; i++) {
            memcpy(&scale, scales + 4 * (row * 2 + i / 4), 4);
            CHECK_NEAR(got[i], (float)q[row * 8 + i] * scale, 0);
        }
    }
    checkpoint_close(checkpoint);
    free(file);
}

Test(llama2c, stories260K_opens) {
    size_t size;
    char *file = test_read_file(test_data("stories260K/stories260K.bin"), &size);
    Error error;
    Checkpoint *checkpoint = NULL;
    bool good = checkpoint_open_memory(&checkpoint, "m.bin", file, size, &error);
    const Config *c = good ? checkpoint_config(checkpoint) : NULL;
    CHECK(c && c->dim == 64 && c->n_layers == 5 && c->n_heads == 8 && c->n_kv_heads == 4 &&
          c->vocab_size == 512 && c->max_seq_len == 512 && c->hidden_dim == 172);
    checkpoint_close(checkpoint);
    free(file);
}

// ---- L01: lengths ----

Test(llama2c, l01_every_length_but_the_right_one_is_refused) {
    for (size_t i = 0; i < N_VARIANTS; i++) {
        size_t size;
        char *file = tiny(&VARIANTS[i], &size);
        file = realloc(file, size + 4096);
        memset(file + size, 0, 4096);
        Error error;
        CHECK(opens(file, size, &error), "%s: %s", VARIANTS[i].name, error.message);
        for (size_t cut = 0; cut < size + 4096; cut += cut < size + 8 ? 1 : 97) {
            if (cut == size) continue;
            CHECK(!opens(file, cut, &error), "%s: %zu of %zu bytes", VARIANTS[i].name, cut, size);
            CHECK_INT(error.code, ERROR_FILE);
        }
        char message[128];
        snprintf(message, sizeof message,
                 "wants a file of %zu bytes, got %zu: is it incomplete, a download that was "
                 "interrupted?",
                 size, size - 4);
        check_refused("four bytes short", file, size - 4, message);
        CHECK(!opens(file, size + 4, &error) && !strstr(error.message, "incomplete"), "%s",
              error.message);
        free(file);
    }
}

// ---- L01: bytes ----

static bool opens_or_names_file(const void *bytes, size_t size, Error *error) {
    bool good = opens(bytes, size, error);
    CHECK(good || !strncmp(error->message, "m.bin: ", 7), "%s", error->message);
    return good;
}

Test(llama2c, any_byte_of_a_header_changed_is_a_result_or_an_error) {
    for (size_t i = 0; i < N_VARIANTS; i++) {
        size_t size;
        char *file = tiny(&VARIANTS[i], &size);
        size_t header = VARIANTS[i].version ? 256 : 28;
        check_changed_bytes(opens_or_names_file, file, size, header, NULL, 0);
        free(file);
    }
}

// ---- L02, L03, L06: fields ----

static const char *const FIELD_NAMES[7] = {"dim",        "hidden_dim", "n_layers", "n_heads",
                                           "n_kv_heads", "vocab_size", "seq_len"};

// One field of a header changed.
static void check_field(const Variant *variant, int field, int32_t value, const char *message) {
    size_t size;
    char *file = tiny(variant, &size), what[80];
    memcpy(file + (variant->version ? 8 : 0) + 4 * field, &value, 4);
    snprintf(what, sizeof what, "%s with %s = %d", variant->name, FIELD_NAMES[field], value);
    check_refused(what, file, size, message);
    free(file);
}

Test(llama2c, l02_each_field_out_of_range_is_named) {
    static const int32_t VALUES[] = {0, -1, INT_MIN, INT_MAX, 1 << 30};
    for (size_t i = 0; i < N_VARIANTS; i++)
        for (int field = 0; field < 7; field++)
            for (size_t v = 0; v < sizeof VALUES / sizeof *VALUES; v++) {
                // -1 is a vocabulary of one token and a head of its own in v0: the size is wrong
                bool one_token = !VARIANTS[i].version && field == 5 && VALUES[v] == -1;
                check_field(&VARIANTS[i], field, VALUES[v],
                            one_token ? "wants a file of" : FIELD_NAMES[field]);
            }
}

Test(llama2c, limits_of_the_header_on_both_sides) {
    static const struct {
        int field;
        int32_t largest;
    } LIMITS[] = {{0, 65536}, {1, 65536}, {2, 1024}, {5, 1 << 22}, {6, 1 << 22}};
    for (size_t i = 0; i < sizeof LIMITS / sizeof *LIMITS; i++) {
        // at the limit only the size of the file is wrong
        check_field(&VARIANTS[0], LIMITS[i].field, LIMITS[i].largest, "wants a file of");
        check_field(&VARIANTS[0], LIMITS[i].field, LIMITS[i].largest + 1,
                    FIELD_NAMES[LIMITS[i].field]);
    }
    check_field(&VARIANTS[0], 3, 1025, "n_heads: wanted 1 .. 1024, got 1025");
}

Test(llama2c, l03_heads_that_do_not_fit) {
    for (size_t i = 0; i < N_VARIANTS; i++) {
        int at = VARIANTS[i].version ? 8 : 0; // of dim
        check_field(&VARIANTS[i], 3, 3,
                    test_text("offset %d: n_heads: 3 does not divide dim 8", at + 12));
        check_field(
            &VARIANTS[i], 3, 8,
            test_text("offset %d: n_heads: heads of 1 channels, wanted an even number", at + 12));
        check_field(&VARIANTS[i], 4, 4,
                    test_text("offset %d: n_kv_heads: 4 does not divide n_heads 2", at + 16));
        check_field(&VARIANTS[i], 4, 3,
                    test_text("offset %d: n_kv_heads: 3 does not divide n_heads 2", at + 16));
    }
}

Test(llama2c, l06_products_of_2_to_the_32_and_more_do_not_wrap) {
    static const int32_t HEADERS[][7] = {
        {65536, 65536, 1, 1, 1, 65536, 1},            // vocab_size * dim = 2^32
        {65536, 65536, 1024, 1, 1, 1 << 22, 1 << 22}, // every field at its limit
        {32768, 32768, 4, 1, 1, 1, 1},                // layers * dim * dim = 2^32
    };
    for (size_t i = 0; i < sizeof HEADERS / sizeof *HEADERS; i++) {
        char file[1028] = {0};
        memcpy(file, HEADERS[i], sizeof HEADERS[i]);
        check_refused("a product", file, sizeof file, "wants a file of");
    }
}

// A story ends with token 1 or 2, where there are so many.
Test(llama2c, the_ids_of_a_small_vocabulary_are_inside_it) {
    for (int vocab_size = 1; vocab_size <= 3; vocab_size++) {
        BinShape shape = bin_shape_tiny(0, true);
        shape.vocab_size = vocab_size;
        size_t size;
        char *file = bin_bytes(&size, &shape, 7);
        Checkpoint *checkpoint = NULL;
        Error error = {0};
        CHECK(checkpoint_open_memory(&checkpoint, "m.bin", file, size, &error), "%s",
              error.message);
        const Config *c = checkpoint_config(checkpoint);
        CHECK_INT(c->bos_id, vocab_size > 1 ? 1 : -1);
        CHECK_INT(c->n_eos_ids, vocab_size - 1);
        checkpoint_close(checkpoint);
        free(file);
    }
}

// ---- L04, L05: kinds ----

Test(llama2c, l04_the_sign_of_vocab_size_and_the_size_of_the_file_agree) {
    check_field(&VARIANTS[0], 5, -6, "the size fits a tied head");
    check_field(&VARIANTS[1], 5, 6, "the size fits a head that is not tied");
    for (size_t i = 2; i < N_VARIANTS; i++) { // there it is a byte of its own
        size_t size;
        char *file = tiny(&VARIANTS[i], &size);
        file[36] = !file[36];
        check_refused(VARIANTS[i].name, file, size,
                      VARIANTS[i].tied ? "the size fits a tied head"
                                       : "the size fits a head that is not tied");
        free(file);
    }
    for (size_t i = 0; i < N_VARIANTS; i++) { // another size fits neither
        size_t size;
        Error error;
        char *file = tiny(&VARIANTS[i], &size);
        CHECK(!opens(file, size - 1, &error) && !strstr(error.message, "the size fits"), "%s",
              error.message);
        free(file);
    }
}

Test(llama2c, l05_other_magics_versions_and_groups) {
    static const struct {
        size_t at;
        int32_t value;
        const char *message;
    } CASES[] = {
        {4, 0, "version 0 is unknown"},
        {4, 3, "version 3 is unknown"},
        {4, INT_MIN, "version -2147483648 is unknown"},
        {0, 0x32346b61,
         "dim: wanted 1 .. 65536, got 842296161"}, // the magic with its bytes swapped
        {37, 0, "offset 37: group_size: wanted 1 .. 8, got 0"},
        {37, -1, "offset 37: group_size: wanted 1 .. 8, got -1"},
        {37, 3, "offset 37: group_size: 3 does not divide dim 8 and hidden_dim 12"},
        {37, 8, "offset 37: group_size: 8 does not divide dim 8 and hidden_dim 12"},
        {37, 9, "offset 37: group_size: wanted 1 .. 8, got 9"},
        {37, 2, "wants a file of"}, // a good group, of another file
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        size_t size;
        char *file = tiny(&VARIANTS[4], &size);
        memcpy(file + CASES[i].at, &CASES[i].value, 4);
        check_refused(CASES[i].message, file, size, CASES[i].message);
        free(file);
    }
    size_t size;
    char *file = tiny(&VARIANTS[2], &size);
    file[36] = 2;
    check_refused("shared_classifier 2", file, size,
                  "offset 36: shared_classifier: wanted 0 or 1, got 2");
    free(file);
    file = tiny(&VARIANTS[0], &size);
    for (int i = 0; i < 7; i++) {
        char swapped[4] = {file[4 * i + 3], file[4 * i + 2], file[4 * i + 1], file[4 * i]};
        memcpy(file + 4 * i, swapped, 4);
    }
    check_refused("big-endian", file, size, "dim: wanted 1 .. 65536, got 134217728");
    memcpy(file, "GGUF", 4);
    Error error;
    CHECK(!opens(file, size, &error) && error.code == ERROR_FILE);
    free(file);
}
