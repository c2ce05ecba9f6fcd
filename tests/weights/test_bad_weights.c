// HOSTILE L07: files that are right in every length and wrong in a number. NaN and infinity end
// with exit code 7 wherever they stand; zeros and denormals are numbers like others.
#include "model/model.h"
#include "tests/support/files/llama2c_writer.h"
#include "tests/test.h"
#include "weights/checkpoint.h"

enum { N_TOKENS = 5, V0_FLOATS = 544 + 8, FREQ_FLOATS = 20, HEAD_FLOATS = 48 };

// Runs every token of the vocabulary; the error code of the pass.
static ErrorCode run(const char *bin, size_t size, char message[ERROR_MESSAGE_SIZE]) {
    static const int32_t TOKENS[N_TOKENS] = {0, 1, 2, 3, 4};
    Checkpoint *checkpoint = NULL;
    Error error = {0};
    CHECK(checkpoint_open_memory(&checkpoint, "m.bin", bin, size, &error), "%s", error.message);
    ModelOptions options = {.threads = 1, .precision = PRECISION_F32};
    Model *model =
        model_open(checkpoint_config(checkpoint), checkpoint_weights(checkpoint), &options, &error);
    if (model) model_forward(model, &(Batch){.n = N_TOKENS, .tokens = TOKENS}, &error);
    model_close(model);
    checkpoint_close(checkpoint);
    memcpy(message, error.message, ERROR_MESSAGE_SIZE);
    return error.code;
}

// The untied tiny file with `count` floats from `at` on set to `value`.
static void check_code(size_t at, size_t count, float value, ErrorCode wanted) {
    BinShape shape = bin_shape_tiny(0, false);
    size_t size;
    char *bin = bin_bytes(&size, &shape, 7), message[ERROR_MESSAGE_SIZE];
    for (size_t i = 0; i < count; i++)
        memcpy(bin + 28 + 4 * (at + i), &value, 4);
    ErrorCode code = run(bin, size, message);
    free(bin);
    if (code != wanted)
        TEST_FAIL("%zu floats at %zu are %g: exit code %d (%s), wanted %d", count, at,
                  (double)value, code, message, wanted);
}

Test(bad_weights, all_nan_or_infinite_is_exit_7_and_zeros_and_denormals_run) {
    size_t all = V0_FLOATS + FREQ_FLOATS + HEAD_FLOATS;
    check_code(0, 0, 0, ERROR_NONE);
    check_code(0, all, NAN, ERROR_NONFINITE);
    check_code(0, all, INFINITY, ERROR_NONFINITE);
    check_code(0, all, 0, ERROR_NONE);
    check_code(0, all, 1e-40f, ERROR_NONE);
}

Test(bad_weights, one_nan_in_any_tensor_is_exit_7) {
    // the first element of every tensor of the layout that test_llama2c.c works out by hand
    static const size_t TENSORS[] = {0, 48, 56, 120, 152, 184, 248, 256, 352, 448, 544, 572};
    for (size_t i = 0; i < sizeof TENSORS / sizeof *TENSORS; i++) {
        check_code(TENSORS[i], 1, NAN, ERROR_NONFINITE);
        check_code(TENSORS[i], 1, -INFINITY, ERROR_NONFINITE);
    }
    check_code(V0_FLOATS, FREQ_FLOATS, NAN, ERROR_NONE); // freq_cis is not read
}
