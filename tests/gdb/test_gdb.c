// The gdb commands of scripts/limpid-gdb.py, in batch mode: they print the values that the program
// computes without a debugger. Skipped where gdb is absent or may not trace.
#include "model/model.h"
#include "tests/support/debugger.h"
#include "tests/support/files/random_blocks.h"
#include "weights/checkpoint.h"
#include "weights/quant.h"

#include <unistd.h>

enum { REFERENCE = sizeof TEST_BACKEND == sizeof "reference" };
static const char SAMPLES[] = "sampler_sample"; // called between two passes
static const int32_t PROMPT[] = {DEBUGGED_IDS};
enum { LENGTH = sizeof PROMPT / sizeof *PROMPT, DIM = 192, HEADS = 6, HEAD_DIM = 32 };

// ---- where ----

Test(gdb, says_where_it_stands) {
    need_debugger();
    TestRun r =
        debugger("limpid break q_rotated 2\nrun\nlimpid where\n"
                 "limpid next\nlimpid next layer_out 3\nlimpid next logits\n"
                 "limpid next embedding\nlimpid where\ndelete\nlimpid next token_embedding\n",
                 debugged_line());
    CHECK(r.status == 0, "exit %d: %s%s", r.status, r.out, r.err);
    check_prints(&r, "\nlayer 2 of 6, attention: q_rotated, queries after RoPE\n"
                     "5 rows in this pass, one token each\n"
                     "  row 0   sequence 0, position 0    token 1 \"<s>\"\n");
    check_prints(&r, "  row 4   sequence 0, position 4    token 410 \"");
    check_prints(&r, "time\"\ncache: sequence 0 holds 5 of 7 positions\n"
                     "layer 2 of 6, attention: k_rotated, keys");
    check_prints(&r, "\nlayer 3 of 6, feed-forward: layer_out, ");
    check_prints(&r, "\nlogits: logits, ");
    check_prints(&r, "before the layers: embedding, ");
    check_prints(&r, "\n1 row in this pass, one token each\n"
                     "  row 0   sequence 0, position 5    token 1999 \",\"\n"
                     "cache: sequence 0 holds 6 of 7 positions\n");
    check_prints(&r, "the program has ended\n");
    test_run_free(&r);
}

// `make install` strips the program: the message says how to have one with names.
Test(gdb, tells_a_stripped_program_from_one_with_names) {
    need_debugger();
    if (system("strip --version > /dev/null 2>&1")) SKIP("no strip on this machine");
    const char *copy = test_temporary("stripped");
    TestRun r =
        program_shell(test_text("strip -o %s $RUN && gdb -nx -batch -x scripts/limpid-gdb.py "
                                "-ex 'limpid break q' %s",
                                copy, copy));
    CHECK(strstr(r.err,
                 "no function observe with debug information: this wants a limpid that is not "
                 "stripped, of `make debug` or of `make install STRIP=`\n"),
          "%s%s", r.out, r.err);
    test_run_free(&r);
}

// With --draft two models run: the draft's passes say that they are its own.
Test(gdb, names_the_draft_model) {
    need_debugger();
    if (TEST_EMULATED) SKIP("a device that is not batch-invariant takes no drafts");
    char line[600];
    snprintf(line, sizeof line,
             "%s --draft builtin --draft-tokens 2 --prompt-ids 1,435,462,262,410 -t 0 --ids "
             "--max-tokens 8 -j 1 -q",
             small_model());
    TestRun r = debugger("limpid break logits\nrun\nlimpid where\nbreak speculation_propose\n"
                         "continue\nlimpid where\ndelete\nlimpid next logits\nlimpid where\n"
                         "limpid next-layer\n",
                         line);
    check_good(&r);
    check_prints(&r, "\nlogits: logits, one unnormalised");
    check_prints(&r, "\nbetween two forward passes, in speculation_propose\n");
    const char *draft = strstr(r.out, "\ndraft model, logits: logits, one unnormalised");
    CHECK(draft && strstr(draft + 1, "\ndraft model, logits: logits, one unnormalised"), "%s",
          r.out);
    check_prints(&r, "\ndraft model, layer 0 of 6, attention: att_norm");
    test_run_free(&r);
}

// Else the program would run to its end in search of it.
Test(gdb, does_not_look_for_a_layer_that_the_model_lacks) {
    need_debugger();
    static const char *const COMMANDS[] = {"limpid next att_norm 6", "limpid break q 99"};
    TestRun r = debugger(
        test_text("limpid break q_rotated 2\nrun\n%slimpid where\n", attempts(COMMANDS, 2)),
        debugged_line());
    CHECK(r.status == 0, "exit %d: %s%s", r.status, r.out, r.err);
    check_prints(&r,
                 "refused: layer 6: there are 6, from 0\nrefused: layer 99: there are 6, from 0\n"
                 "layer 2 of 6, attention: q_rotated");
    test_run_free(&r);
}

// Before a model is open any layer may be one of it; what gdb cannot compare leaves no breakpoint.
Test(gdb, a_layer_that_is_no_number_leaves_no_breakpoint) {
    need_debugger();
    static const char *const COMMANDS[] = {"limpid break att_heads 99999999999999999999",
                                           "limpid break att_heads two", "limpid break q \u00b2",
                                           "limpid break q 08"};
    TestRun r = debugger(test_text("%spython print('breakpoints:', [b.condition for b in "
                                   "gdb.breakpoints() if b.visible])\n",
                                   attempts(COMMANDS, sizeof COMMANDS / sizeof *COMMANDS)),
                         debugged_line());
    check_good(&r);
    check_prints(&r, "refused: limpid break STAGE [LAYER]\nrefused: limpid break STAGE [LAYER]\n"
                     "refused: limpid break STAGE [LAYER]\nBreakpoint 1 at ");
    check_prints(&r, "breakpoints: ['id == STAGE_Q && layer == 8']\n");
    test_run_free(&r);
}

// final_norm is a stage and a weight: at the stage its name means the stage, as in `limpid set`.
Test(gdb, a_stage_at_hand_goes_before_a_weight_of_its_name) {
    need_debugger();
    TestRun r = debugger("limpid break layer_out 5\nrun\nlimpid tensor final_norm\n"
                         "limpid next final_norm\nlimpid tensor final_norm\n",
                         debugged_line());
    CHECK(r.status == 0, "exit %d: %s%s", r.status, r.out, r.err);
    check_prints(&r, "final_norm (192) F32");
    check_prints(&r, "final_norm (1, 192) F32");
    test_run_free(&r);
}

// Every stage of the model has words, and a breakpoint on it is one that gdb takes.
Test(gdb, knows_every_stage) {
    need_debugger();
    char script[4000] = "";
    for (int id = 0; id < STAGE_COUNT; id++) {
        bool inside = id >= STAGE_ATT_NORM && id <= STAGE_LAYER_OUT;
        sprintf(script + strlen(script), "limpid break %s %s\n", stage_name((StageId)id),
                inside ? "5" : "");
    }
    strcat(script, "python print(len(STAGES), 'stages')\n");
    TestRun r = debugger(script, debugged_line());
    CHECK(r.status == 0, "exit %d: %s%s", r.status, r.out, r.err);
    check_prints(&r, test_text("%d stages\n", STAGE_COUNT));
    test_run_free(&r);
}

Test(gdb, stands_in_a_kernel_and_between_passes) {
    need_debugger();
    TestRun r = debugger(test_text("break kv_write\nrun\nlimpid where\ndelete\nbreak %s\ncontinue\n"
                                   "limpid where\n",
                                   SAMPLES),
                         debugged_line());
    CHECK(r.status == 0, "exit %d: %s%s", r.status, r.out, r.err);
    check_prints(&r, "\nlayer 0 of 6, attention, in kv_write < ");
    check_prints(
        &r,
        test_text("\nbetween two forward passes, in %s\n5 rows in the last pass, one token each\n",
                  SAMPLES));
    test_run_free(&r);
}

// ---- tensors ----

typedef struct Rows5 {
    Checkpoint *checkpoint;
    Model *model;
    float q[LENGTH * DIM], x[LENGTH * DIM]; // of layer 2: rotated queries, the stream behind it
} Rows5;

static void keep(void *context, const Model *model, const Stage *stage) {
    Rows5 *kept = context;
    (void)model;
    if (stage->layer != 2) return;
    if (stage->id == STAGE_Q_ROTATED) memcpy(kept->q, stage->data, sizeof kept->q);
    if (stage->id == STAGE_LAYER_OUT) memcpy(kept->x, stage->data, sizeof kept->x);
}

// The same pass in this process, which has the same kernels.
static Rows5 *run_here(void) {
    Rows5 *kept = calloc(1, sizeof *kept);
    Error error = {0};
    ModelOptions options = {.precision = PRECISION_F32, .context = 7, .threads = 1};
    CHECK(kept && checkpoint_open(&kept->checkpoint, small_model(), &error), "%s", error.message);
    kept->model = model_open(checkpoint_config(kept->checkpoint),
                             checkpoint_weights(kept->checkpoint), &options, &error);
    CHECK(kept->model, "%s", error.message);
    CHECK(model_listen(kept->model, keep, kept, false, &error), "%s", error.message);
    CHECK(model_forward(kept->model, &(Batch){.n = LENGTH, .tokens = PROMPT}, &error), "%s",
          error.message);
    return kept;
}

static void close_here(Rows5 *kept) {
    model_close(kept->model);
    checkpoint_close(kept->checkpoint);
    free(kept);
}

// "0.5 -1.25 ...": the first values as the commands print them.
static const char *as_printed(const float *values, int count) {
    static char text[400];
    text[0] = '\0';
    for (int i = 0; i < count; i++)
        sprintf(text + strlen(text), "%s%.6g", i ? " " : "", (double)values[i]);
    return text;
}

static const char *extremes(const float *values, size_t count) {
    double low = (double)values[0], high = low;
    for (size_t i = 0; i < count; i++) {
        low = fmin(low, (double)values[i]);
        high = fmax(high, (double)values[i]);
    }
    return test_text("min %.6g  max %.6g  mean ", low, high);
}

Test(gdb, tensors_are_what_the_model_computes) {
    need_debugger();
    Rows5 *here = run_here();
    TestRun r =
        debugger("limpid break q_rotated 2\nlimpid break layer_out 2\nlimpid break logits\nrun\n"
                 "limpid tensor q --row 3\nlimpid tensor stage\ncontinue\n"
                 "limpid tensor x --row 4\ncontinue\nlimpid tensor logits --row 0\n"
                 "limpid tensor tokens\nlimpid tensor rope.sin --row 0\n",
                 debugged_line());
    CHECK(r.status == 0, "exit %d: %s%s", r.status, r.out, r.err);
    const float *q = here->q + 3 * DIM;
    check_prints(&r, "q (5, 6, 32) F32\nrow 3: ");
    check_prints(&r, extremes(q, DIM));
    for (int h = 0; h < HEADS; h++)
        check_prints(&r, test_text("  head %d   %s ...\n", h, as_printed(q + HEAD_DIM * h, 8)));
    check_prints(&r, "stage (5, 6, 32) F32\n");
    check_prints(&r, extremes(here->q, LENGTH * DIM));
    check_prints(&r, test_text("\n  %s ...\n", as_printed(here->x + 4 * DIM, 8)));
    const float *logits = model_logits(here->model, 0);
    check_prints(&r, test_text("  largest: 1999 \",\" %.6g, 406 \"", (double)logits[1999]));
    check_prints(&r, extremes(logits, 2048));
    check_prints(&r, "tokens (5) int32\n");
    check_prints(&r, "1 435 462 262 410\n");
    check_prints(&r, "rope.sin (7, 16) F32\nrow 0: min -0  max -0  mean 0  rms 0  NaN 0\n");
    test_run_free(&r);
    close_here(here);
}

// A NaN in the weights of layer 1's norm is counted where it is, and not before.
Test(gdb, counts_what_is_not_a_number) {
    need_debugger();
    TestRun r =
        debugger("limpid break att_norm 1\nrun\nlimpid tensor x\nset var model->scratch.x[7] = "
                 "0.0/0.0\nlimpid tensor x\nlimpid tensor x --row 1\n",
                 debugged_line());
    CHECK(r.status == 0, "exit %d: %s%s", r.status, r.out, r.err);
    check_prints(&r, "NaN 0\n");
    check_prints(&r, "NaN 1\n");
    test_run_free(&r);
}

// A NaN in the residual stream of layer 1 does not reach q, k and v, whose norm came before it.
// Reading x waits for the device, which would write x later otherwise.
Test(gdb, finds_the_first_stage_that_is_not_finite) {
    need_debugger();
    TestRun r = debugger("limpid break att_norm 1\nrun\nlimpid tensor x\n"
                         "set var model->scratch.x[7] = 0.0/0.0\nlimpid nan\n",
                         debugged_line());
    CHECK(r.status == 0, "exit %d: %s%s", r.status, r.out, r.err);
    check_prints(&r, "layers.1.att_residual: row 0, element 7 is nan\n");
    test_run_free(&r);
    r = debugger("limpid break att_norm 1\nrun\ndelete\nlimpid nan\n", debugged_line());
    CHECK(r.status == 0, "exit %d: %s%s", r.status, r.out, r.err);
    check_prints(&r, "the program has ended\n");
    test_run_free(&r);
}

// 64 characters for 192 values: each is the largest of three, and @ is the tensor's largest
// alone.
Test(gdb, draws_strips) {
    need_debugger();
    Rows5 *here = run_here();
    char wanted[80] = "\nrow 4   ";
    float largest = 0;
    for (int i = 0; i < LENGTH * DIM; i++)
        largest = fmaxf(largest, fabsf(here->q[i]));
    for (int c = 0; c < DIM / 3; c++) {
        const float *q = here->q + (LENGTH - 1) * DIM + 3 * c;
        double most = fmaxf(fabsf(q[0]), fmaxf(fabsf(q[1]), fabsf(q[2])));
        sprintf(wanted + strlen(wanted), "%c", ".:-=+*#%@"[(int)(most / (double)largest * 8)]);
    }
    TestRun r = debugger("limpid break q_rotated 2\nrun\nlimpid heat stage\n", debugged_line());
    CHECK(r.status == 0, "exit %d: %s%s", r.status, r.out, r.err);
    check_prints(&r, test_text("stage (5, 6, 32): . is 0, @ is %.6g, ", (double)largest));
    check_prints(&r, test_text("%s\n", wanted));
    test_run_free(&r);
    close_here(here);
    r = debugger("limpid break q_rotated 2\nrun\nlimpid tensor x\n"
                 "set var model->scratch.x[5] = -1.0/0.0\nlimpid heat x\n",
                 debugged_line());
    const char *strip = strstr(strstr(r.out, "! is NaN") ? strstr(r.out, "! is NaN") : "", "row 0");
    CHECK(strip && strip[8] != '!' && strip[9] == '!' && strip[10] != '!', "%s", r.out);
    test_run_free(&r);
}

// In a terminal of 256 colours, where neither gdb's own style nor NO_COLOR is against it.
Test(gdb, strips_have_colours_in_a_terminal) {
    need_debugger();
    static const char COMMANDS[] = "limpid break q_rotated 2\nrun\nlimpid heat stage\n";
    const char *script = test_temporary("heat.gdb");
    test_write_file(script, COMMANDS, strlen(COMMANDS));
    static const char *const CASES[][2] = {{"NO_COLOR=", "on"}, {"NO_COLOR=1", "on"}, {"", "off"}};
    for (int i = 0; i < 3; i++) {
        TestRun r = program_shell(test_text(
            "%s TERM=xterm-256color python3 -c 'import pty, sys; pty.spawn(sys.argv[1:])' "
            "gdb -nx -q -iex 'set style enabled %s' -iex 'set confirm off' "
            "-iex 'set pagination off' -x scripts/limpid-gdb.py -x %s -ex quit "
            "--args $RUN %s",
            CASES[i][0], CASES[i][1], script, debugged_line()));
        if (r.status == 127) SKIP("no python3 on this machine");
        CHECK(strstr(r.out, "row 4   "), "%s%s", r.out, r.err);
        CHECK_INT(strstr(r.out, "row 4   \x1b[38;5;") != NULL, i == 0);
        CHECK_INT(strstr(r.out, ";48;5;227m@") != NULL, i == 0);
        test_run_free(&r);
    }
}

Test(gdb, saves_the_bits_of_a_tensor_once) {
    need_debugger();
    Rows5 *here = run_here();
    const char *path = test_temporary("q.safetensors");
    unlink(path);
    const char *save = test_text("limpid break q_rotated 2\nrun\nlimpid save stage %s\n"
                                 "limpid save stage %s\n",
                                 path, path);
    TestRun r = debugger(save, debugged_line());
    CHECK_INT(r.status, 1);
    CHECK(strstr(r.err, "exists, and is not replaced"), "%s%s", r.out, r.err);
    size_t size = 0;
    char *bytes = test_read_file(path, &size);
    uint64_t header;
    memcpy(&header, bytes, sizeof header);
    CHECK_INT(size, sizeof header + header + sizeof here->q);
    CHECK(strstr(bytes + sizeof header, "\"shape\": [5, 6, 32]"), "the shape");
    CHECK(!memcmp(bytes + sizeof header + header, here->q, sizeof here->q), "the values");
    free(bytes);
    test_run_free(&r);
    close_here(here);
}

// A file that cannot be written whole is not left behind.
Test(gdb, a_failed_save_leaves_no_file) {
    need_debugger();
    const char *path = test_temporary("cut.safetensors");
    unlink(path);
    TestRun r = debugger(
        test_text("limpid break q_rotated 2\nrun\n"
                  "python import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
                  "python resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))\n"
                  "limpid save stage %s\n",
                  path),
        debugged_line());
    CHECK_INT(r.status, 1);
    CHECK(strstr(r.err, "writing: File too large"), "%s%s", r.out, r.err);
    CHECK(access(path, F_OK) != 0, "%s is there", path);
    test_run_free(&r);
}

// The probability of the likeliest token, in double; then the token itself, which is sampled.
Test(gdb, shows_the_next_token_and_its_probability) {
    need_debugger();
    Rows5 *here = run_here();
    const float *logits = model_logits(here->model, 0);
    double total = 0;
    for (int t = 0; t < 2048; t++)
        total += exp((double)logits[t] - (double)logits[1999]);
    TestRun r = debugger("limpid break logits\nrun\nlimpid logits 1\ndelete\nlimpid next-token\n"
                         "limpid next-token\n",
                         debugged_line());
    CHECK(r.status == 0, "exit %d: %s%s", r.status, r.out, r.err);
    check_prints(&r, test_text("  %10.6g  %8.6f  1999 \",\"\n", (double)logits[1999], 1 / total));
    check_prints(&r, "the prompt has been read; no token has been sampled yet\n");
    check_prints(&r, "token 1 of the text: 1999 \",\", position 5\n");
    test_run_free(&r);
    close_here(here);
}

Test(gdb, weights_are_those_of_the_file) {
    need_debugger();
    Rows5 *here = run_here();
    const LayerWeights *w = &checkpoint_weights(here->checkpoint)->layers[2];
    TestRun r = debugger("limpid break layer_out 2\nrun\nlimpid tensor layers.2.att_norm\n"
                         "python\ntry: gdb.execute('limpid tensor layers.2.wq --row 5')\n"
                         "except gdb.error as error: print('refused:', error)\nend\n",
                         debugged_line());
    CHECK(r.status == 0, "exit %d: %s%s", r.status, r.out, r.err);
    check_prints(&r, "layers.2.att_norm (192) F32\n");
    check_prints(&r, test_text("%s ...\n", as_printed(w->att_norm, 8)));
    float row[DIM];
    matrix_row(row, &w->wq, 5);
    if (REFERENCE) {
        check_prints(&r, "layers.2.wq (192, 192) Q8_0\nrow 5: ");
        check_prints(&r, test_text("\n  %s ...\n", as_printed(row, 8)));
    } else {
        check_prints(&r, "refused: layers.2.wq: this backend packs its matrices");
    }
    test_run_free(&r);
    close_here(here);
}

Test(gdb, cached_keys_are_those_of_the_backend) {
    need_calls();
    Rows5 *here = run_here();
    TestRun r = debugger("limpid break layer_out 2\nrun\nlimpid tensor layers.2.keys --row 2\n",
                         debugged_line());
    check_good(&r);
    check_prints(&r, "layers.2.keys (5, 2, 32) F32\nrow 2: ");
    float k[HEAD_DIM];
    kv_read(here->model->device, &(KvView){here->model->cache.kv, 2}, 0, 1, 2, k, NULL);
    check_prints(&r, test_text("  head 1   %s ...\n", as_printed(k, 8)));
    test_run_free(&r);
    close_here(here);
}

// ---- blocks ----

// Every block format, unpacked by scripts/gdb/limpid_blocks.py: the bits of `dequantise`.
static void check_blocks(DType dtype) {
    static const char SCRIPT[] =
        "import sys, struct\n"
        "sys.path.insert(0, 'scripts/gdb')\n"
        "from limpid_blocks import BLOCKS, block_values\n"
        "size, count, unpack = BLOCKS[sys.argv[1]]\n"
        "data = sys.stdin.buffer.read()\n"
        "for at in range(0, len(data), count):\n"
        "    values = block_values(data[at:at + count], unpack)\n"
        "    assert len(values) == size\n"
        "    sys.stdout.buffer.write(struct.pack('<%df' % size, *values))\n";
    enum { BLOCKS = 12, MOST = BLOCKS * 256 };
    const DTypeInfo *info = dtype_info(dtype);
    size_t count = BLOCKS * (size_t)info->block, bytes = dtype_row_bytes(dtype, count);
    char *blocks = malloc(bytes);
    float wanted[MOST];
    uint64_t state = 3;
    CHECK(blocks);
    random_elements(&state, blocks, dtype, count, 0.7f);
    dequantise(wanted, dtype, blocks, count);
    TestRun r = test_run((const char *const[]){"python3", "-B", "-c", SCRIPT, info->name, NULL},
                         blocks, bytes);
    free(blocks);
    if (r.status == 127) {
        test_run_free(&r);
        SKIP("no python3 on this machine");
    }
    CHECK(r.status == 0, "%s: %s", info->name, r.err);
    CHECK_INT(r.out_size, count * sizeof(float));
    CHECK(!memcmp(r.out, wanted, count * sizeof(float)), "%s", info->name);
    test_run_free(&r);
}

Test(gdb, blocks_are_unpacked_to_the_bits) {
    int checked = 0;
    for (int dtype = 0; dtype < DTYPE_COUNT; dtype++)
        if (dtype_info((DType)dtype)->block > 1) {
            check_blocks((DType)dtype);
            checked++;
        }
    CHECK_INT(checked, 10);
}

// ---- print ----

// A line each; where the memory cannot be read, what gdb says without them.
Test(gdb, prints_structures_in_a_line) {
    need_debugger();
    TestRun r = debugger("break device_matrix\nrun\nprint *matrix\nprint/r *matrix\ndelete\n"
                         "break model_forward\ncontinue\nprint *batch\nset $b = *batch\n"
                         "set var $b.n = 30\nset var $b.tokens = 0\nprint $b\n"
                         "delete\nlimpid break q_rotated 2\ncontinue\n"
                         "print model->config\nprint model->cache\nprint model->cache.lengths[0]\n",
                         debugged_line());
    check_good(&r);
    check_prints(&r, " = Q8_0 (2048, 192)\n");
    check_prints(&r, " = {dtype = DTYPE_Q8_0, rows = 2048, cols = 192, data = 0x");
    check_prints(&r, " = 5 rows, tokens 1 435 462 262 410\n");
    check_prints(&r, " = 30 rows, tokens none\n");
    check_prints(&r, " = nanochat: 6 layers, dim 192, hidden_dim 768, 6 heads of 32, 2 KV heads, "
                     "vocabulary 2048, context 512\n");
    check_prints(&r, " = 5 of 7 positions, 6 layers, 2 KV heads of 32, F32\n$");
    test_run_free(&r);
}

// ---- what cannot be answered ----

// gdb's own `help limpid NAME`, and the list of `limpid help`.
Test(gdb, has_help_for_every_command) {
    static const char *const NAMES[] = {
        "where",  "tensor",    "break", "next", "next-layer", "next-token", "rewind", "set-token",
        "logits", "attention", "kv",    "heat", "set",        "diff",       "nan",    "save"};
    need_debugger();
    char script[4000] = "python print('commands:', len([n for n in gdb.execute('help limpid', "
                        "to_string=True).splitlines() if n.startswith('limpid ')]))\n";
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        sprintf(script + strlen(script), "help limpid %s\n", NAMES[i]);
    strcat(script, "python print('list:')\nlimpid help\n");
    TestRun r = debugger(script, debugged_line());
    check_good(&r);
    const char *list = strstr(r.out, "list:\n");
    CHECK(list, "%s", r.out);
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        check_prints(&r, test_text("\nlimpid %s", NAMES[i]));
        CHECK(strstr(list, test_text("\nlimpid %s ", NAMES[i])), "%s is not in %s", NAMES[i], list);
    }
    check_prints(&r, test_text("commands: %zu\n", sizeof NAMES / sizeof *NAMES + 1)); // and help
    test_run_free(&r);
}

Test(gdb, one_line_says_why_not) {
    static const char *const CASES[][2] = {
        {"limpid tensor nothing", "no tensor nothing: x x_norm branch q k v "},
        {"limpid tensor layers.6.wq", "layers.6.wq: the layers are 0 .. 5"},
        {"limpid tensor layers.1.w", "no tensor layers.1.w: x "},
        {"limpid tensor layers.1.bq", "layers.1.bq: not in this model"},
        {"limpid tensor layers.1.att_post_norm", "layers.1.att_post_norm: not in this model"},
        {"limpid tensor position_embedding", "position_embedding: not in this model"},
        {"limpid tensor rope_local.cos", "rope_local.cos: not in this model"},
        {"limpid tensor q --row 5", "q: the rows are 0 .. 4"},
        {"limpid tensor q --row x", "limpid tensor NAME [--row N]\n"},
        {"limpid tensor q --row \u00b2", "limpid tensor NAME [--row N]\n"},
        {"limpid tensor layers.\u00b2.wq", "no tensor layers.\u00b2.wq: x "},
        {"limpid tensor", "limpid tensor NAME [--row N]; names: x "},
        {"limpid break", "limpid break STAGE [LAYER]; stages: token_embedding "},
        {"limpid break rope", "no stage rope: token_embedding "},
        {"limpid next logits 3", "logits is computed once for all layers"},
        {"limpid next q one", "limpid next [STAGE [LAYER]]\n"},
        {"limpid next q 9999999999", "limpid next [STAGE [LAYER]]\n"},
        {"limpid logits many", "limpid logits [N]"},
        {"limpid save x", "limpid save NAME FILE"},
        {"limpid save x /nowhere/x.safetensors", "/nowhere/x.safetensors: No such file"},
        {"limpid heat", "limpid heat NAME"},
        {"limpid nan x", "limpid nan takes no argument"},
        {"limpid next-token x", "limpid next-token takes no argument"},
        {"limpid whither", "no command limpid whither; limpid help lists the commands"},
    };
    need_debugger();
    char script[4000] = "limpid help\n"
                        "python\n"
                        "def attempt(line):\n"
                        "    try: gdb.execute(line)\n"
                        "    except gdb.error as error: print('refused:', error)\n"
                        "attempt('limpid where')\n"
                        "attempt('limpid next')\n"
                        "end\n"
                        "break main\nrun\n"
                        "python attempt('limpid tensor x')\n"
                        "python attempt('limpid tensor stage')\n"
                        "limpid break q 1\ncontinue\n";
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++)
        sprintf(script + strlen(script), "python attempt('%s')\n", CASES[i][0]);
    strcat(script, "finish\npython attempt('limpid tensor stage')\n");
    TestRun r = debugger(script, debugged_line());
    CHECK(r.status == 0, "exit %d: %s%s", r.status, r.out, r.err);
    check_prints(&r, "limpid where   ");
    check_prints(&r, "refused: the program is not running");
    check_prints(&r, "refused: no frame here has a model");
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++)
        check_prints(&r, test_text("refused: %s", CASES[i][1]));
    check_prints(&r, "refused: stage: only inside observe");
    CHECK(!strstr(r.out, "Traceback") && !strstr(r.err, "Traceback"), "%s%s", r.out, r.err);
    test_run_free(&r);
    r = debugger("limpid break q_rotated 2\nrun\nlimpid tensor nothing\nlimpid where\n",
                 debugged_line());
    CHECK_INT(r.status, 1); // a script ends at its first error
    CHECK(!strstr(r.out, "rows in this pass"), "%s", r.out);
    test_run_free(&r);
}
