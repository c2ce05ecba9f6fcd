// The plan of tensors, whatever the container: sizes, names and ranges, each limit on both sides.
#include "tests/test.h"
#include "weights/container.h"

// ---- one tensor ----

Test(plan, bytes_follow_from_type_and_shape) {
    static const struct {
        DType dtype;
        uint32_t n_dims;
        uint64_t shape[4], elements, bytes;
        const char *message; // NULL: accepted
    } ROWS[] = {
        {DTYPE_F32, 0, {0}, 1, 4, NULL}, // a scalar
        {DTYPE_F32, 1, {7}, 7, 28, NULL},
        {DTYPE_F16, 2, {3, 5}, 15, 30, NULL},
        {DTYPE_BF16, 3, {2, 3, 5}, 30, 60, NULL},
        {DTYPE_F32, 4, {2, 3, 5, 7}, 210, 840, NULL},
        {DTYPE_F32, 2, {0, 5}, 0, 0, NULL},
        {DTYPE_F32, 2, {5, 0}, 0, 0, NULL},
        {DTYPE_Q8_0, 2, {3, 32}, 96, 102, NULL}, // three blocks of 2 + 32
        {DTYPE_Q8_0, 2, {3, 64}, 192, 204, NULL},
        {DTYPE_Q4_0, 2, {32, 0}, 0, 0, NULL},
        {DTYPE_Q8_0, 2, {32, 3}, 0, 0, "rows of 3 elements, wanted a multiple of 32 for Q8_0"},
        {DTYPE_Q8_0, 1, {33}, 0, 0, "rows of 33 elements, wanted a multiple of 32"},
        {DTYPE_Q8_0, 0, {0}, 0, 0, "rows of 1 elements, wanted a multiple of 32"},
        {DTYPE_F32, 2, {1ull << 32, 1ull << 32}, 0, 0, "its size overflows"},
        {DTYPE_F32, 1, {1ull << 62}, 0, 0, "its size overflows"},
        {DTYPE_F32, 1, {1ull << 61}, 0, 0, "its size overflows"}, // 2^63 bytes
        {DTYPE_F32, 1, {(1ull << 61) - 1}, (1ull << 61) - 1, (1ull << 63) - 4, NULL},
        {DTYPE_F16, 1, {(1ull << 62) - 1}, (1ull << 62) - 1, (1ull << 63) - 2, NULL},
    };
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        TensorPlan tensor = {.name = "t", .dtype = ROWS[i].dtype, .n_dims = ROWS[i].n_dims};
        memcpy(tensor.shape, ROWS[i].shape, sizeof ROWS[i].shape);
        Error error = {0};
        bool good = plan_measure(&tensor, &error);
        CHECK(good == !ROWS[i].message, "row %zu: %s", i, error.message);
        if (good) {
            CHECK(tensor.bytes == ROWS[i].bytes, "row %zu", i);
            CHECK(plan_elements(&tensor) == ROWS[i].elements, "row %zu", i);
            continue;
        }
        CHECK_INT(error.code, ERROR_FILE);
        CHECK(strstr(error.message, "tensor \"t\": ") && strstr(error.message, ROWS[i].message),
              "row %zu: %s", i, error.message);
    }
}

// ---- all of them ----

static Checkpoint *reserved(uint64_t n, Error *error) {
    Checkpoint *c = calloc(1, sizeof *c);
    if (!plan_reserve(c, n, error)) CHECK(error->code, "refused without a word");
    return c;
}

static void drop(Checkpoint *c) {
    arena_free(&c->arena);
    free(c);
}

Test(plan, as_many_tensors_as_the_limit_and_no_more) {
    Error error = {0};
    Checkpoint *c = reserved(LIMIT_TENSORS, &error);
    CHECK(!error.code && c->n_tensors == LIMIT_TENSORS, "%s", error.message);
    for (size_t i = 0; i < LIMIT_TENSORS; i++)
        CHECK(!c->tensors[i].name && !c->tensors[i].bytes && !c->used[i]);
    drop(c);
    c = reserved(LIMIT_TENSORS + 1, &error);
    CHECK_STRING(error.message, "65537 tensors, at most 65536 are read");
    CHECK_INT(c->n_tensors, 0);
    drop(c);
    Error none = {0};
    c = reserved(0, &none);
    CHECK(plan_finish(c, &none) && !none.code, "%s", none.message);
    drop(c);
}

// A tensor of `bytes` at `at` in the data.
typedef struct Piece {
    const char *name;
    size_t at, bytes;
} Piece;

static const uint8_t DATA[16];

// NULL: accepted, and *order is where each tensor comes; else the message.
static const char *finished(const Piece *pieces, size_t n, uint32_t *order) {
    static Error error;
    error = (Error){0};
    Checkpoint *c = reserved(n, &error);
    for (size_t i = 0; i < n; i++)
        c->tensors[i] = (TensorPlan){.name = pieces[i].name,
                                     .data = DATA + pieces[i].at,
                                     .offset = pieces[i].at,
                                     .bytes = pieces[i].bytes};
    bool good = plan_finish(c, &error);
    for (size_t i = 0; i < n && good; i++) {
        order[i] = c->plan_order[i];
        CHECK(names_find(&c->names, pieces[i].name) == (int64_t)i, "%s", pieces[i].name);
    }
    drop(c);
    CHECK(good == !error.code);
    return good ? NULL : error.message;
}

Test(plan, tensors_are_ordered_by_their_addresses) {
    static const Piece PIECES[] = {{"c", 8, 4}, {"a", 0, 4}, {"d", 12, 4}, {"b", 4, 4}};
    uint32_t order[4];
    const char *message = finished(PIECES, 4, order);
    CHECK(!message, "%s", message);
    CHECK(order[0] == 1 && order[1] == 3 && order[2] == 0 && order[3] == 2);
}

// An empty tensor may lie at the beginning or the end of another one, or where nothing is, and
// comes first where two have one address, in whatever order the file has them.
Test(plan, empty_tensors_overlap_nothing) {
    static const Piece ROWS[][3] = {
        {{"empty", 4, 0}, {"one", 4, 1}, {"two", 5, 2}},
        {{"one", 4, 1}, {"empty", 4, 0}, {"two", 5, 2}},
        {{"two", 5, 2}, {"one", 4, 1}, {"empty", 5, 0}},
        {{"empty", 4, 0}, {"also", 4, 0}, {"one", 4, 1}},
        {{"one", 4, 1}, {"empty", 4, 0}, {"also", 4, 0}},
        {{"empty", 9, 0}, {"eight", 0, 8}, {"last", 16, 0}},
    };
    uint32_t order[3];
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        const char *message = finished(ROWS[i], 3, order);
        CHECK(!message, "row %zu: %s", i, message);
        for (int j = 1; j < 3; j++) {
            const Piece *before = &ROWS[i][order[j - 1]], *piece = &ROWS[i][order[j]];
            CHECK(before->at + before->bytes <= piece->at, "row %zu: %s", i, piece->name);
        }
    }
}

Test(plan, overlaps_of_one_byte_are_refused) {
    static const Piece ROWS[][2] = {
        {{"a", 0, 5}, {"b", 4, 4}}, {{"b", 4, 4}, {"a", 0, 5}},  {{"a", 4, 1}, {"b", 4, 1}},
        {{"b", 4, 2}, {"a", 4, 1}}, {{"a", 0, 16}, {"b", 4, 0}},
    };
    uint32_t order[2];
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        const char *message = finished(ROWS[i], 2, order);
        CHECK(message, "row %zu is accepted", i);
        CHECK(strstr(message, "overlap at offset 4"), "row %zu: %s", i, message);
    }
    CHECK_STRING(finished(ROWS[0], 2, order), "tensors \"a\" and \"b\" overlap at offset 4");
}

Test(plan, names_are_there_of_a_length_and_different) {
    char longest[LIMIT_NAME_LENGTH + 2] = "";
    memset(longest, 'n', LIMIT_NAME_LENGTH);
    Piece pieces[] = {{"a", 0, 1}, {"b", 1, 1}};
    uint32_t order[2];
    pieces[1].name = longest;
    CHECK(!finished(pieces, 2, order));
    longest[LIMIT_NAME_LENGTH] = 'n';
    CHECK_STRING(finished(pieces, 2, order), "a tensor's name has 257 bytes, wanted 1 to 256");
    pieces[1].name = "";
    CHECK_STRING(finished(pieces, 2, order), "a tensor's name has 0 bytes, wanted 1 to 256");
    pieces[1].name = "a";
    CHECK_STRING(finished(pieces, 2, order), "tensor \"a\" appears twice");
}
