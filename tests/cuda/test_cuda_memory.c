// What a model takes on a GPU is counted before any of it is taken: to the byte, since the plan and
// the allocations go by the same formulas.
#include "model/model.h"
#include "tests/cuda/emulator.h"
#include "tests/support/files/tiny_model.h"
#include "tests/test.h"

static const size_t PLENTY = (size_t)1 << 34;

static TinyShape shape_of(DType dtype) {
    TinyShape shape = tiny_shape();
    shape.dim = 64, shape.hidden_dim = 96; // rows that hold whole blocks
    shape.dtype = dtype;
    shape.biases = true;
    shape.n_layers = 2;
    shape.max_seq_len = 200; // attention needs room for partial sums
    return shape;
}

static Model *try_open(const TinyModel *tiny, Precision precision, int max_rows, Error *error) {
    ModelOptions options = {.precision = precision, .max_rows = max_rows, .max_logit_rows = 2};
    *error = (Error){0};
    return model_open(&tiny->config, &tiny->weights, &options, error);
}

// Opens and runs it with all the memory there is: what it takes.
static size_t bytes_taken(const TinyModel *tiny, Precision precision, int max_rows) {
    static const int32_t TOKENS[] = {1, 2, 3, 4, 5, 6, 7};
    Error error;
    CHECK_INT(emulator_memory_used(), 0);
    Model *model = try_open(tiny, precision, max_rows, &error);
    CHECK(model, "%s", error.message);
    tiny_model_forward(model, &(Batch){.n = 7, .tokens = TOKENS});
    size_t taken = emulator_memory_used();
    model_close(model);
    return taken;
}

Test(cuda_memory, is_counted_to_the_byte) {
    static const DType TYPES[] = {DTYPE_F32, DTYPE_BF16, DTYPE_Q8_0, DTYPE_Q5_1};
    for (int i = 0; i < 24; i++) {
        TinyShape shape = shape_of(TYPES[i / 6]);
        Precision precision = (Precision)(i % 3);
        int max_rows = i % 2 ? 70 : 5; // with and without cuBLASLt
        TinyModel *tiny = tiny_model_open(&shape);
        size_t taken = bytes_taken(tiny, precision, max_rows);
        emulator_memory(taken);
        CHECK(bytes_taken(tiny, precision, max_rows) == taken, "another time, another size");
        emulator_memory(taken - 1);
        Error error;
        CHECK(!try_open(tiny, precision, max_rows, &error), "a byte too little");
        CHECK_INT(error.code, ERROR_DEVICE);
        CHECK(strstr(error.message, "GPU: needs "), "%s", error.message);
        emulator_memory(PLENTY);
        tiny_model_close(tiny);
    }
}

// One line with both numbers, before anything is allocated on the GPU or sent to it.
Test(cuda_memory, too_little_is_told_before_loading) {
    TinyShape shape = shape_of(DTYPE_F32);
    TinyModel *tiny = tiny_model_open(&shape);
    size_t taken = bytes_taken(tiny, PRECISION_F32, 5),
           cache = 2u * 2 * 200 * 80 * 4; // k and v, layers, positions, kv_dim, f32
    char wanted[100];
    Error error;
    emulator_memory(taken - cache); // without the cache it would just fit
    emulator_fail_call(0, 0);
    CHECK(!try_open(tiny, PRECISION_F32, 5, &error), "opened");
    CHECK(emulator_calls() < 25, "%ld host calls", emulator_calls());
    snprintf(wanted, sizeof wanted,
             "GPU: needs %.1f MiB, %.1f free; a smaller context (-c) takes less",
             (double)taken / 0x1p20, (double)(taken - cache) / 0x1p20);
    CHECK_STRING(error.message, wanted);
    emulator_memory(taken - cache - 1); // nor would it then
    CHECK(!try_open(tiny, PRECISION_F32, 5, &error), "opened");
    CHECK(!strstr(error.message, "-c"), "%s", error.message);
    CHECK_INT(emulator_live_objects(), 0);
    emulator_memory(PLENTY);
    tiny_model_close(tiny);
}

// A cache of more than 100 GiB.
Test(cuda_memory, large_numbers_are_gibibytes) {
    TinyShape shape = shape_of(DTYPE_F32);
    shape.max_seq_len = 1 << 26;
    TinyModel *tiny = tiny_model_open(&shape);
    Error error;
    CHECK(!try_open(tiny, PRECISION_F32, 5, &error), "opened");
    CHECK(strstr(error.message, " GiB, 16.0 free"), "%s", error.message);
    tiny_model_close(tiny);
}
