// What attention reads, as gdb shows it: the cached keys and values, and the weights over them.
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

static Here load_here(void) {
    Here here = {0};
    Error error = {0};
    ModelOptions options = {.precision = PRECISION_F32, .context = 7, .threads = 1};
    CHECK(checkpoint_open(&here.checkpoint, small_model(), &error), "%s", error.message);
    here.model = model_open(checkpoint_config(here.checkpoint), checkpoint_weights(here.checkpoint),
                            &options, &error);
    CHECK(here.model, "%s", error.message);
    return here;
}

static void run_here(Here *here) {
    Error error = {0};
    CHECK(model_forward(here->model, &(Batch){.n = LENGTH, .tokens = PROMPT}, &error), "%s",
          error.message);
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

// Before anything is tried: a call that fails leaves a breakpoint on the program's stack.
Test(gdb_cache, says_where_gdb_cannot_call) {
    need_debugger();
    if (debugger_calls()) SKIP("gdb can call functions of a program here");
    static const char *const COMMANDS[] = {"limpid kv 2 1", "limpid attention 2 3", "limpid next q",
                                           "limpid tensor layers.2.keys"};
    TestRun r = debugger(test_text("limpid break att_heads 2\nrun\n%smaint info breakpoints\n",
                                   attempts(COMMANDS, 4)),
                         debugged_line());
    int refused = 0;
    for (const char *at = r.out; (at = strstr(at, "refused: this needs gdb 14 or newer")); at++)
        refused++;
    CHECK_INT(refused, 3); // not `next`
    CHECK(!strstr(r.out, "call dummy"), "%s", r.out);
    test_run_free(&r);
}

Test(gdb_cache, shows_the_keys_and_values_of_a_head) {
    need_calls();
    Here here = load_here();
    run_here(&here);
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
    need_calls();
    TestRun r = debugger(test_text("limpid break q_rotated 2\nrun\n%s"
                                   "limpid next q_rotated 2\nlimpid kv 2 0\nlimpid kv 1 0\n"
                                   "limpid tensor layers.2.keys\nlimpid tensor layers.1.keys\n",
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
    check_prints(&r, "layers.2.keys (5, 2, 32) F32");
    check_prints(&r, "layers.1.keys (6, 2, 32) F32");
    test_run_free(&r);
}

// A ring of 528 positions keeps the newest, and nothing says which rows of a tensor they would be.
Test(gdb_cache, a_layer_with_a_window_is_shown_by_its_heads) {
    if (TEST_EMULATED) SKIP("600 tokens take an emulator too long");
    static const char *const COMMANDS[] = {"limpid tensor layers.1.keys", "limpid kv 1 0 75"};
    need_calls();
    char text[601], line[700];
    for (int i = 0; i < 600; i++)
        text[i] = (char)('A' + i % 26);
    test_write_file(test_temporary("letters"), text, 600);
    snprintf(line, sizeof line, "%s -f %s --max-tokens 2 --ids -q", windowed_model(),
             test_temporary("letters"));
    // The prompt is two passes: 512 rows and 92, with 4 tokens in front of the text.
    TestRun r = debugger(test_text("limpid break att_heads 1\nrun\nlimpid next att_heads 1\n%s"
                                   "limpid tensor layers.5.keys\n",
                                   attempts(COMMANDS, 2)),
                         line);
    check_good(&r);
    check_prints(&r,
                 "refused: layers.1.keys: this layer has a window, and keeps positions 76 .. 603: "
                 "limpid kv 1 HEAD\n");
    check_prints(&r, "refused: position 75: this layer has a window, and keeps 76 .. 603\n");
    check_prints(&r, "layers.5.keys (512, 1, 32) F16"); // without a window, of the first pass
    test_run_free(&r);
}

// Functions of the backend are known by name, and none of the commands has one of the same.
Test(gdb_cache, shows_the_cache_of_a_file_of_prompts) {
    need_calls();
    const char *prompts = test_temporary("three.jsonl");
    test_write_file(prompts, "{\"prompt_ids\":[1,435,462]}\n", 27);
    TestRun r = debugger("limpid break att_heads 2\nrun\nlimpid kv 2 1\n",
                         test_text("%s --prompts %s --out %s --force -q --max-tokens 1",
                                   small_model(), prompts, test_temporary("three.out")));
    check_good(&r);
    check_prints(&r, "layer 2, KV head 1: 3 of ");
    test_run_free(&r);
}

// ---- attention ----

enum { CONTEXT = 7, LAYER = 2, HEAD = 3 };

// The weights of LAYER, as the backend computes them.
static void keep_weights(void *context, const Model *model, const Stage *stage) {
    (void)model;
    if (stage->id == STAGE_ATT_WEIGHTS && stage->layer == LAYER)
        memcpy(context, stage->data, sizeof(float) * LENGTH * HEADS * CONTEXT);
}

// The lines behind a row's header: "  0.482312  ##########  position 3    262 ..".
static void check_row(const TestRun *r, int row, const float *wanted) {
    const char *line = strstr(r->out, test_text("head %d with KV head 1: row %d, ", HEAD, row));
    CHECK(line, "no row %d in %s%s", row, r->out, r->err);
    for (int t = 0; t <= row; t++) {
        if (wanted[t] == 0.0f) continue; // not seen
        line = strchr(line, '\n') + 1;
        const char *position = strstr(line, "position ");
        CHECK(position && atoi(position + 9) == t, "row %d, key %d: %s", row, t, line);
        CHECK(fabs(atof(line) - (double)wanted[t]) < 2e-6, "row %d, key %d: %.9g, not %s", row, t,
              (double)wanted[t], line);
        CHECK(strtol(position + 13, NULL, 10) == PROMPT[t], "token of %d: %s", t, line);
    }
    const char *rest = strchr(line, '\n') + 1;
    CHECK(!strstr(rest, "position") || strstr(rest, "position") > strstr(rest, "row"), "%s", rest);
}

// `pattern`: as for --pattern; NULL: none.
static void check_attention(const char *pattern) {
    static float weights[LENGTH * HEADS * CONTEXT];
    char line[800];
    Here here = load_here();
    Error error = {0};
    if (pattern)
        CHECK(attention_pattern_parse(&here.model->pattern, pattern, &error), "%s", error.message);
    CHECK(model_listen(here.model, keep_weights, weights, true, &error), "%s", error.message);
    run_here(&here);
    snprintf(line, sizeof line, "%s%s%s", debugged_line(), pattern ? " --pattern " : "",
             pattern ? pattern : "");
    TestRun r = debugger("limpid break att_heads 2\nrun\nlimpid attention 2 3 1\n"
                         "limpid attention 2 3 3\nlimpid next layer_out 2\n"
                         "limpid attention 2 3\nlimpid attention 2 0 0\n",
                         line);
    check_good(&r);
    for (int row = 1; row < LENGTH; row += row == 1 ? 2 : 1)
        check_row(&r, row, weights + (row * HEADS + HEAD) * CONTEXT);
    check_prints(&r, "row 0, position 0, token 1 \"<s>\" sees 1 key\n  1.000000  ##########");
    test_run_free(&r);
    close_here(&here);
}

Test(gdb_cache, attention_is_what_the_backend_computes) {
    need_calls();
    check_attention(NULL);
    check_attention("window:2");
    check_attention("local:2+global:1");
    check_attention("strided:2");
    check_attention("block:2");
}

// Of many keys the largest weights, and the sum of the others: 10 of 42 keys at most.
Test(gdb_cache, attention_lists_the_largest_weights) {
    need_calls();
    char line[1200];
    snprintf(line, sizeof line, "%s --prompt-ids 1", small_model());
    for (int i = 0; i < 41; i++)
        sprintf(line + strlen(line), ",%d", 300 + 7 * i);
    strcat(line, " -t 0 --max-tokens 1 -j 1 -q --ids");
    TestRun r =
        debugger("limpid break att_heads 1\nrun\nlimpid attention 1 2\nlimpid kv 1 0\n", line);
    check_good(&r);
    double total = 0;
    int lines = 0;
    const char *at = strstr(r.out, "sees 42 keys\n");
    CHECK(at, "%s%s", r.out, r.err);
    for (at = strchr(at, '\n') + 1; *at == ' '; at = strchr(at, '\n') + 1, lines++)
        total += atof(at);
    CHECK_INT(lines, 33);
    CHECK(fabs(total - 1) < 1e-4, "%g in all", total);
    check_prints(&r, "  the 10 other keys together\n");
    check_prints(&r, "... positions 0 .. 9; print one with limpid kv 1 0 POS\nposition 10 ");
    test_run_free(&r);
}

Test(gdb_cache, attention_says_where_it_is_at_hand) {
    static const char *const COMMANDS[] = {"limpid attention 2 0", "limpid attention 3 0",
                                           "limpid attention 2 6", "limpid attention 6 0",
                                           "limpid attention 2"};
    need_calls();
    char script[4000];
    snprintf(script, sizeof script, "limpid break q_rotated 2\nrun\n%slimpid next att_heads 2\n%s",
             attempts(COMMANDS, 5),
             attempts((const char *const[]){"limpid attention 2 0 5", "limpid set q[4, 3, 8] = nan",
                                            "limpid attention 2 3"},
                      3));
    TestRun r = debugger(script, debugged_line());
    check_good(&r);
    check_prints(&r, "refused: the queries of layer 2 are not at hand: limpid next att_heads 2\n"
                     "refused: the queries of layer 3 are not at hand: limpid next att_heads 3\n"
                     "refused: head 6: there are 6, from 0\nrefused: layer 6: there are 6, from 0\n"
                     "refused: limpid attention L H [ROW]\n");
    check_prints(&r, "refused: row 5: there are 5, from 0\nq[4, 3, 8]: was ");
    check_prints(&r, "refused: the scores hold NaN or infinity: limpid tensor q, limpid kv L H");
    test_run_free(&r);
}
