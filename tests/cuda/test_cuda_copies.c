// What passes between the host and the GPU beside weights: sampled tokens, which the kernel that
// draws them writes to the host itself, and uploads, whose bytes the caller may use again at once.
#include "tests/cuda/emulator.h"
#include "tests/support/device.h"

enum { VOCAB = 40 };
static const SampleRule GREEDY = {0}, PLAIN = {1.0f, 0, 1.0f, 0.0f, 1.0f, 0},
                        SORTED = {1.0f, 0, 1.0f, 0.0f, 0.9f, 0};

// Rows of logits whose largest is so much larger that every rule draws it.
typedef struct Draws {
    Device *device;
    float *logits, *uniform; // device (2, VOCAB), (2)
    int32_t *out;            // device (2)
} Draws;

static Draws draws_open(void) {
    static const uint16_t ZEROS[VOCAB];
    static const float HALVES[2] = {0.5f, 0.5f};
    Matrix m = {.dtype = DTYPE_F16, .rows = VOCAB, .cols = 1, .data = ZEROS};
    Draws d = {.device = test_device(1, PRECISION_F32)};
    CHECK(device_matrix(d.device, &m), "%s", device_error(d.device)->message);
    device_reserve(d.device, 2);
    d.logits = device_alloc(d.device, sizeof(float) * 2 * VOCAB);
    d.uniform = upload_floats(d.device, HALVES, 2);
    d.out = device_alloc(d.device, 2 * sizeof *d.out);
    return d;
}

// Draws two rows: `token`, and the token after it.
static void draw(const Draws *d, const SampleRule *rule, int token) {
    float logits[2 * VOCAB] = {0};
    logits[token] = logits[VOCAB + token + 1] = 60.0f;
    device_upload(d->device, d->logits, logits, sizeof logits);
    sample(d->device, d->out, d->logits, 2, VOCAB, rule, d->uniform);
}

Test(cuda_copies, a_token_reaches_the_host_without_a_call) {
    static const SampleRule *const RULES[] = {&GREEDY, &PLAIN, &SORTED};
    Draws d = draws_open();
    for (int i = 0; i < 12; i++) {
        int slot = i % SEND_SLOTS;
        draw(&d, RULES[i % 3], i);
        emulator_fail_call(0, 0);
        device_send(d.device, slot, d.out);
        CHECK_INT(emulator_calls(), 0);
        CHECK_INT(device_receive(d.device, slot), i);
    }
    test_device_close(d.device);
}

// All slots in flight, draws that nobody sends between them, and the last read first.
Test(cuda_copies, tokens_in_flight_keep_apart) {
    Draws d = draws_open();
    for (int round = 0; round < 3; round++) {
        for (int slot = 0; slot < SEND_SLOTS; slot++) {
            draw(&d, &PLAIN, 30);
            draw(&d, &GREEDY, 3 * slot + round);
            device_send(d.device, slot, d.out);
            draw(&d, &GREEDY, 35);
        }
        for (int slot = SEND_SLOTS - 1; slot >= 0; slot--)
            CHECK_INT(device_receive(d.device, slot), 3 * slot + round);
        draw(&d, &GREEDY, 36); // a slot that is sent again before it was read: the last one counts
        device_send(d.device, 0, d.out);
    }
    test_device_close(d.device);
}

Test(cuda_copies, a_row_without_a_draw_sends_its_answer) {
    static const SampleRule *const RULES[] = {&GREEDY, &PLAIN, &SORTED};
    Draws d = draws_open();
    for (int i = 0; i < 3; i++) {
        for (int kind = 0; kind < 2; kind++) { // a NaN: -1; nothing but -infinity: 0
            float logits[2 * VOCAB] = {0};
            for (int t = 0; t < VOCAB; t++)
                logits[t] = kind ? -INFINITY : t == 7 ? NAN : 1.0f;
            device_upload(d.device, d.logits, logits, sizeof logits);
            sample(d.device, d.out, d.logits, 2, VOCAB, RULES[i], d.uniform);
            device_send(d.device, 2, d.out);
            CHECK_INT(device_receive(d.device, 2), kind ? 0 : -1);
        }
    }
    test_device_close(d.device);
}

// A token that the host has put there, or that is not the first of the draw.
Test(cuda_copies, what_was_not_drawn_is_sent_too) {
    Draws d = draws_open();
    int32_t mine = 1234;
    draw(&d, &PLAIN, 5);
    device_send(d.device, 1, d.out + 1);
    draw(&d, &PLAIN, 6);
    device_upload(d.device, d.out, &mine, sizeof mine);
    device_send(d.device, 0, d.out);
    device_send(d.device, 3, d.out); // the same again
    CHECK_INT(device_receive(d.device, 0), 1234);
    CHECK_INT(device_receive(d.device, 1), 6);
    CHECK_INT(device_receive(d.device, 3), 1234);
    test_device_close(d.device);
}

// The host waits in a loop of its own: a GPU that has failed must end it.
Test(cuda_copies, waiting_ends_with_a_failure) {
    Draws d = draws_open();
    draw(&d, &PLAIN, 5);
    device_send(d.device, 0, d.out);
    emulator_fail_call(1, 719);
    CHECK_INT(device_receive(d.device, 0), -1);
    CHECK(strstr(device_error(d.device)->message, "GPU: cudaStreamQuery"), "%s",
          device_error(d.device)->message);
    emulator_fail_call(0, 0);
    device_close(d.device);
    CHECK_INT(emulator_live_objects(), 0);
}

// ---- uploads ----

static void fill(uint8_t *bytes, size_t count, unsigned seed) {
    for (size_t i = 0; i < count; i++)
        bytes[i] = (uint8_t)(seed + i * 2654435761u / 65536);
}

// The emulator copies as late as it may. Sizes: many small ones, the whole of the pinned memory,
// more than that.
Test(cuda_copies, uploaded_bytes_are_the_callers_again_at_once) {
    static const struct {
        size_t bytes;
        int uploads;
    } ROWS[] = {{4, 3}, {100, 2000}, {1 << 20, 3}, {(5 << 20) + 7, 2}, {3, 5}};
    Device *device = test_device(1, PRECISION_F32);
    for (size_t row = 0; row < sizeof ROWS / sizeof *ROWS; row++) {
        size_t bytes = ROWS[row].bytes, all = bytes * (size_t)ROWS[row].uploads;
        uint8_t *host = malloc(bytes), *got = malloc(all), *to = device_alloc(device, all);
        for (int i = 0; i < ROWS[row].uploads; i++) {
            fill(host, bytes, (unsigned)i);
            device_upload(device, to + (size_t)i * bytes, host, bytes);
            memset(host, 0xee, bytes);
        }
        free(host);
        device_download(device, got, to, all);
        CHECK(!device_error(device)->code, "%s", device_error(device)->message);
        uint8_t *wanted = malloc(bytes);
        for (int i = 0; i < ROWS[row].uploads; i++) {
            fill(wanted, bytes, (unsigned)i);
            CHECK(!memcmp(got + (size_t)i * bytes, wanted, bytes), "upload %d of %zu bytes", i,
                  bytes);
        }
        free(wanted), free(got);
        device_free(device, to);
    }
    test_device_close(device);
}
