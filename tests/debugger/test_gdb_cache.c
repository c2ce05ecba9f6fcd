// What attention reads, as gdb shows it: the cached keys and values.
#include "model/model.h"
#include "tests/support/debugger.h"
#include "weights/checkpoint.h"

static const int32_t PROMPT[] = {DEBUGGED_IDS};
enum { LENGTH = sizeof PROMPT / sizeof *PROMPT, HEADS = 6, KV_HEADS = 2, HEAD_DIM = 32 };

// The model of debugged_line after its prompt's pass, in this process, which has the same kernels.
typedef struct Here {
    Checkpoint *checkpoint;
    Model *model;
} Here;

static Here open_here(void) {
    Here here = {0};
    Error error = {0};
    ModelOptions options = {.precision = PRECISION_F32, .context = 7, .threads = 1};
    CHECK(checkpoint_open(&here.checkpoint, small_model(), &error), "%s", error.message);
    here.model = model_open(checkpoint_config(here.checkpoint), checkpoint_weights(here.checkpoint),
                            &options, &error);
    CHECK(here.model, "%s", error.message);
    CHECK(model_forward(here.model, &(Batch){.n = LENGTH, .tokens = PROMPT}, &error), "%s",
          error.message);
    return here;
}

static void close_here(Here *here) {
    model_close(here->model);
    checkpoint_close(here->checkpoint);
}

// ---- keys and values ----

// "key, length 5.6" and 8 numbers a line.
static const char *as_printed(const char *what, const float *values) {
    static char text[2000];
    double squares = 0;
    for (int i = 0; i < HEAD_DIM; i++)
        squares += (double)values[i] * (double)values[i];
    sprintf(text, "%s, length %.6g\n", what, sqrt(squares));
    for (int i = 0; i < HEAD_DIM; i++)
        sprintf(text + strlen(text), "%s %12.6g%s", i % 8 ? "" : " ", (double)values[i],
                i % 8 == 7 ? "\n" : "");
    return text;
}

Test(gdb_cache, shows_the_keys_and_values_of_a_head) {
    need_debugger();
    Here here = open_here();
    TestRun r = debugger("limpid break q_rotated 2\nrun\nlimpid kv 1 1 3\nlimpid kv 1 0\n"
                         "limpid next att_heads 2\nlimpid kv 2 0 4\n",
                         debugged_line());
    check_good(&r);
    for (int layer = 1; layer <= 2; layer++) {
        float k[HEAD_DIM], v[HEAD_DIM];
        kv_read(here.model->device, &(KvView){here.model->cache.kv, layer}, 0, layer % 2, layer + 2,
                k, v);
        check_prints(&r, as_printed("key", k));
        check_prints(&r, as_printed("value", v));
    }
    check_prints(&r, "layer 1, KV head 1: 5 of 7 positions, F32\nposition 3, token 262 \"");
    check_prints(&r, "layer 1, KV head 0: 5 of 7 positions, F32\nposition 0    key length 5.6");
    check_prints(&r, "  1 \"<s>\"\nposition 1    key length ");
    test_run_free(&r);
    close_here(&here);
}

// The cache has its length when a pass begins, and its content layer by layer.
Test(gdb_cache, shows_no_key_before_it_is_written) {
    static const char *const COMMANDS[] = {"limpid kv 2 0", "limpid kv 3 0 0", "limpid kv 1 0 5",
                                           "limpid kv 6 0", "limpid kv 0 2",   "limpid kv 1"};
    need_debugger();
    TestRun r = debugger(test_text("limpid break q_rotated 2\nrun\n%s"
                                   "limpid next q_rotated 2\nlimpid kv 2 0\nlimpid kv 1 0\n",
                                   attempts(COMMANDS, sizeof COMMANDS / sizeof *COMMANDS)),
                         debugged_line());
    check_good(&r);
    check_prints(&r, "refused: layer 2 has no keys yet: limpid next att_heads 2\n");
    check_prints(&r, "refused: layer 3 has no keys yet: limpid next att_heads 3\n");
    check_prints(&r, "refused: position 5: there are 5, from 0\n");
    check_prints(&r, "refused: layer 6: there are 6, from 0\n");
    check_prints(&r, "refused: KV head 2: there are 2, from 0\n");
    check_prints(&r, "refused: limpid kv L H [POS]\n");
    check_prints(&r, "layer 2, KV head 0: 5 of 7 positions, F32\n"); // those of the prompt
    check_prints(&r, "layer 1, KV head 0: 6 of 7 positions, F32\n");
    test_run_free(&r);
}
