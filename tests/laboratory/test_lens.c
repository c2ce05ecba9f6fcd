// lens: its last depth is the model's own prediction, earlier ones are worked out again from a
// trace, its statistics follow from its logits, and the parts of a logit add up to it.
#include "base/error.h"
#include "commands/lens/distribution.h"
#include "tests/support/files/conversions.h"
#include "tests/support/files/gguf_writer.h"
#include "tests/support/files/llama2c_writer.h"
#include "tests/support/program.h"
#include "tests/support/traces.h"
#include "weights/checkpoint.h"
#include "weights/quant.h"

#include <time.h>
#include <unistd.h>

#define IDS "--prompt-ids|1,403,407,261,390,410"
#define EXACT "--precision|f32|--kv|f32"
enum { TOKENS = 6, MOST_VOCAB = 4096 };

static TestRun lens(const char *model, const char *options) {
    TestRun r = program("lens|%s|" EXACT "|%s", model, options);
    CHECK(r.status == 0, "%s %s: %s", model, options, r.err);
    return r;
}

typedef struct Row {
    int layer, position, rank, id;
    char half[16];
    double logit, probability;
} Row;

static bool next_row(const char **at, Row *row) {
    int length;
    if (sscanf(*at, "%d,%15[^,],%d,%d,%d,%lf,%lf\n%n", &row->layer, row->half, &row->position,
               &row->rank, &row->id, &row->logit, &row->probability, &length) != 7)
        return false;
    *at += length;
    return true;
}

// The logits of one half-layer at the last position by id, from --csv --top of the vocabulary.
static int read_logits(double *logits, const TestRun *r, int layer, const char *half) {
    int count = 0;
    double before = INFINITY, sum = 0;
    Row row;
    CHECK(!strncmp(r->out, "layer,half,position,rank,id,logit,probability\n", 46), "%.50s", r->out);
    for (const char *at = strchr(r->out, '\n') + 1; next_row(&at, &row);) {
        if (row.layer != layer || strcmp(row.half, half)) continue;
        CHECK(row.rank == ++count && row.logit <= before && row.id < MOST_VOCAB, "rank %d", count);
        before = logits[row.id] = row.logit;
        sum += row.probability;
    }
    CHECK(fabs(sum - 1) < 1e-5, "probabilities add up to %.9g", sum);
    return count;
}

// ---- against a trace ----

// rmsnorm(x) w . head with the soft cap, by the formula, in float64.
static double logit_by_hand(const Weights *w, const Config *c, const float *x, int id) {
    float row[1024];
    double squares = 0, sum = 0;
    CHECK(c->dim <= 1024 && c->norm == NORM_RMS, "another kind of model");
    matrix_row(row, &w->head, (size_t)id);
    for (int i = 0; i < c->dim; i++)
        squares += (double)x[i] * (double)x[i];
    double scale = 1 / sqrt(squares / c->dim + (double)c->norm_eps);
    for (int i = 0; i < c->dim; i++)
        sum += (double)row[i] * (double)x[i] * scale *
               (w->final_norm ? (double)w->final_norm[i] : 1.0);
    double cap = (double)c->logit_softcap;
    return cap != 0 ? cap * tanh(sum / cap) : sum;
}

static void check_depth(const Checkpoint *checkpoint, const SafetensorsFile *trace,
                        const TestRun *r, int layer, const char *half) {
    const Config *c = checkpoint_config(checkpoint);
    double logits[MOST_VOCAB];
    char name[80];
    snprintf(name, sizeof name, "model.layers.%d%s", layer,
             strcmp(half, "ffn") ? ".attn_residual" : "");
    CHECK_INT(read_logits(logits, r, layer, half), c->vocab_size);
    float *x = trace_values(trace, name, TOKENS, (size_t)c->dim);
    for (int id = 0; id < c->vocab_size; id += 7) {
        double wanted = logit_by_hand(checkpoint_weights(checkpoint), c,
                                      x + (size_t)(TOKENS - 1) * (size_t)c->dim, id);
        CHECK(fabs(logits[id] - wanted) < 2e-4, "%s, token %d: %.9g, wanted %.9g", name, id,
              logits[id], wanted);
    }
    free(x);
}

Test(lens, equals_the_norm_and_the_head_of_a_traced_residual) {
    Error error = {0};
    Checkpoint *checkpoint;
    CHECK(checkpoint_open(&checkpoint, small_model(), &error), "%s", error.message);
    const Config *c = checkpoint_config(checkpoint);
    char options[200];
    snprintf(options, sizeof options, "--csv|--position|%d|--top|%d|" IDS, TOKENS - 1,
             c->vocab_size);
    char *path = write_trace(small_model(), EXACT "|" IDS, "lens.safetensors");
    SafetensorsFile trace = open_trace(path);
    TestRun r = lens(small_model(), options);
    check_depth(checkpoint, &trace, &r, 0, "attention");
    check_depth(checkpoint, &trace, &r, 2, "ffn");
    check_depth(checkpoint, &trace, &r, c->n_layers - 1, "attention");
    test_run_free(&r);
    safetensors_close(&trace);
    free(path);
    checkpoint_close(checkpoint);
}

// The same bits: %.9g keeps a float32.
static void check_last_depth(const char *model, int n_layers, int vocab_size) {
    char options[100];
    double logits[MOST_VOCAB];
    char *path = write_trace(model, EXACT "|" IDS, "logits.safetensors");
    SafetensorsFile trace = open_trace(path);
    snprintf(options, sizeof options, "--csv|--position|%d|--top|%d|" IDS, TOKENS - 1, vocab_size);
    TestRun r = lens(model, options);
    CHECK_INT(read_logits(logits, &r, n_layers - 1, "ffn"), vocab_size);
    float *wanted = trace_values(&trace, "logits", TOKENS, (size_t)vocab_size);
    for (int id = 0; id < vocab_size; id++)
        CHECK((float)logits[id] == wanted[(TOKENS - 1) * vocab_size + id], "%s, token %d: %.9g",
              model, id, logits[id]);
    free(wanted);
    test_run_free(&r);
    safetensors_close(&trace);
    free(path);
}

Test(lens, ends_with_the_logits_of_the_model) {
    check_last_depth(small_model(), 6, 2048);
}

// ---- identities ----

// Entropy, KL divergence and rank, worked out from all logits of the two depths.
Test(lens, statistics_follow_from_the_logits) {
    enum { VOCAB = 2048, LAYER = 1 };
    double p[VOCAB], f[VOCAB], z = 0, zf = 0, entropy = 0, kl = 0;
    char options[200], value[4000];
    snprintf(options, sizeof options, "--csv|--position|%d|--top|%d|" IDS, TOKENS - 1, VOCAB);
    TestRun r = lens(small_model(), options);
    CHECK_INT(read_logits(p, &r, LAYER, "attention"), VOCAB);
    CHECK_INT(read_logits(f, &r, 5, "ffn"), VOCAB);
    test_run_free(&r);
    int winner = 0, rank = 1;
    for (int i = 0; i < VOCAB; i++) {
        z += exp(p[i]);
        zf += exp(f[i]);
        if (f[i] > f[winner]) winner = i;
    }
    for (int i = 0; i < VOCAB; i++) {
        double q = exp(p[i]) / z, g = exp(f[i]) / zf;
        entropy -= q * log2(q);
        kl += g * log2(g / q);
        rank += p[i] > p[winner];
    }
    snprintf(options, sizeof options, "--json|--position|%d|" IDS, TOKENS - 1);
    r = lens(small_model(), options);
    const char *cell = strstr(r.out, "\"layer\":1,\"half\":\"attention\"");
    CHECK(cell, "%s", r.out);
    CHECK(fabs(atof(json_value(value, cell, "entropy_bits")) - entropy) < 1e-4, "%s", value);
    CHECK(fabs(atof(json_value(value, cell, "kl_bits")) - kl) < 1e-4, "%s, wanted %g", value, kl);
    CHECK_INT(atoi(json_value(value, cell, "rank_of_winner")), rank);
    test_run_free(&r);
}

static void check_sum(const char *model, const char *more) {
    char sum[4000], logit[4000], options[200];
    snprintf(options, sizeof options, "--attribute|--json|--prompt-ids|1,5,9,12,30%s", more);
    TestRun r = lens(model, options);
    double s = atof(json_value(sum, r.out, "sum")), l = atof(json_value(logit, r.out, "logit"));
    CHECK(fabs(s - l) <= 2e-6 * fmax(1, fabs(l)), "%s: parts %s, logit %s", model, sum, logit);
    test_run_free(&r);
}

Test(lens, parts_add_up_to_the_logit) {
    check_sum(small_model(), "");
    check_sum(small_model(), "|--position|2|--token|77");
}

// Post norms, biases, LayerNorm, soft caps, tied and untied heads, scaled embeddings.
Test(lens, parts_add_up_in_every_family) {
    static const char *const MODELS[] = {
        "llama-tied", "mistral-window8", "qwen2",        "qwen3",
        "gemma3",     "olmo2",           "smollm3",      "phi3",
        "gpt2",       "nanochat",        "llama-untied", "gemma2",
        "granite",    "gpt_neox",        "ministral3",   "hunyuan_v1_dense",
        "exaone4",    "olmo3",           "arcee",        "ernie4_5"};
    for (size_t i = 0; i < sizeof MODELS / sizeof *MODELS; i++)
        check_sum(test_reference_model(MODELS[i]), "");
}

// Every part once: the embedding, heads and FFN of each layer; they add up in CSV as well.
Test(lens, lists_every_part_once) {
    TestRun r = lens(small_model(), "--attribute|--csv|" IDS);
    const char *at = r.out;
    double sum = 0, logit;
    int count = -1;
    for (; at; at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL, count++) {
        const char *comma =
            strchr(at, '\n') ? memrchr(at, ',', (size_t)(strchr(at, '\n') - at)) : 0;
        if (comma && count >= 0 && sscanf(comma, ",%lf", &logit) == 1) sum += logit;
    }
    CHECK_INT(count - 1, 1 + 6 * (6 + 1));
    test_run_free(&r);
    char value[4000];
    r = lens(small_model(), "--attribute|--json|" IDS);
    CHECK(fabs(atof(json_value(value, r.out, "sum")) - sum) < 1e-6, "%g, %s", sum, value);
    test_run_free(&r);
}

// ---- attention patterns ----

// The last half-layer under a pattern is the prediction of generate under it.
Test(lens, pattern_is_that_of_generate) {
    static const char *const PATTERNS[] = {"causal", "window:2", "local:2+global:1"};
    double before = 0;
    char value[4000], options[200];
    for (int i = 0; i < 3; i++) {
        TestRun r = program("generate|%s|" EXACT "|" IDS "|-t|0|--max-tokens|1|--logprobs|1|"
                            "--pattern|%s",
                            small_model(), PATTERNS[i]);
        check_status(&r, 0);
        double logprob = atof(json_value(value, r.out, "logprob"));
        int id = atoi(json_value(value, r.out, "id"));
        test_run_free(&r);
        snprintf(options, sizeof options, "--csv|--top|1|--position|%d|" IDS "|--pattern|%s",
                 TOKENS - 1, PATTERNS[i]);
        r = lens(small_model(), options);
        Row row = {0};
        for (const char *at = strchr(r.out, '\n') + 1; next_row(&at, &row);) {
        }
        CHECK_INT(row.id, id);
        CHECK_NEAR(log(row.probability), logprob, 1e-5);
        CHECK(i == 0 || fabs(logprob - before) > 1e-3, "%s hides nothing", PATTERNS[i]);
        before = logprob;
        test_run_free(&r);
    }
}

// ---- what is printed ----

Test(lens, shows_where_it_decides) {
    TestRun r = program("lens|%s|-i|Once upon a time|--top|1", small_model());
    check_status(&r, 0);
    CHECK(strstr(r.out, "probability of the token that wins in the end"), "%s", r.out);
    CHECK(strstr(r.out, "\nposition 4: the next token is "), "%s", r.out);
    CHECK(strstr(r.out, "\n    5 ffn            1 "), "%s", r.out);
    test_run_free(&r);
}

// Lines of the table, whose characters take one column each; their number.
static int check_80_columns(const TestRun *r) {
    const char *line = strstr(r->out, "\nlayer half ");
    int lines = 0;
    CHECK(line, "%s", r->out);
    for (line++; *line; line += strcspn(line, "\n") + 1, lines++) {
        int columns = 0;
        for (const char *c = line; *c != '\n'; c++)
            columns += (*c & 0xc0) != 0x80;
        CHECK(columns <= 80, "%d columns: %.*s", columns, (int)strcspn(line, "\n"), line);
    }
    return lines;
}

// What does not fit stands on lines below, under the same heading.
Test(lens, the_table_fits_into_80_columns) {
    TestRun r = program("lens|%s|-i|Once upon a time|--top|12", small_model());
    check_status(&r, 0);
    CHECK_INT(check_80_columns(&r) > 1 + 2 * 12, 1);
    CHECK(strstr(r.out, ",\n                                            "), "%s", r.out);
    int tokens = 0;
    for (const char *at = strstr(r.out, "layer half"); (at = strchr(at, '.')); at++)
        tokens += at[-1] == '0' && (at[3] == ',' || at[3] == '\n');
    CHECK_INT(tokens, 12 * 12);
    test_run_free(&r);
}

Test(lens, the_table_cuts_a_token_that_is_wider_than_its_column) {
    char letters[61];
    memset(letters, 'w', 60), letters[60] = '\0';
    const char *tokens[] = {"<unk>", "<s>", "</s>", "\u2581", "a", "b", letters, "<0x0A>"};
    GgufFile *file = gguf_tiny_llama();
    gguf_set_strings(file, "tokenizer.ggml.tokens", tokens, 8);
    TestRun r = program("lens|%s|--prompt-ids|4,6,5|--top|8", conversion_gguf("wide.gguf", file));
    check_status(&r, 0);
    check_80_columns(&r);
    letters[29] = '\0';
    CHECK(strstr(r.out, test_text(" %s\u2026 0.", letters)), "%s", r.out);
    test_run_free(&r);
}

// A grid with more half-layers than columns keeps the tokens beside it.
Test(lens, keeps_its_labels_in_a_narrow_window) {
    BinShape shape = bin_shape_blocks();
    shape.n_layers = 50;
    size_t size;
    char *bytes = bin_bytes(&size, &shape, 1);
    const char *path = test_temporary("deep.bin");
    test_write_file(path, bytes, size);
    free(bytes);
    TestRun r = program("lens|%s|--prompt-ids|1,3,5", path);
    check_status(&r, 0);
    const char *line = strstr(r.out, "\n2 5 ");
    CHECK(line, "the label of position 2: %s", r.out);
    CHECK_INT(strcspn(line + 1, "\n"), 2 + 15 + 50);
    CHECK(strstr(r.out, " 1   a cell is the largest of 1 x 2\n"), "%s", r.out);
    test_run_free(&r);
}

// Of 60 characters as many as 47 bytes hold with the mark behind them, none of them in part.
Test(lens, marks_a_label_that_it_cuts) {
    char letters[121] = "";
    for (int i = 0; i < 60; i++)
        memcpy(letters + 2 * i, "\u00e9", 3);
    const char *tokens[] = {"<unk>", "<s>", "</s>", "\u2581", "a", "b", letters, "<0x0A>"};
    GgufFile *file = gguf_tiny_llama();
    gguf_set_strings(file, "tokenizer.ggml.tokens", tokens, 8);
    const char *path = conversion_gguf("letters.gguf", file);
    TestRun r = program("lens|%s|--prompt-ids|4,6,5", path);
    check_status(&r, 0);
    letters[44] = '\0'; // 22 letters, and three bytes of the mark
    CHECK(strstr(r.out, test_text("%s\u2026", letters)), "%s", r.out);
    CHECK(!strstr(r.out, test_text("%s\u00e9", letters)), "%s", r.out);
    test_run_free(&r);
}

Test(lens, writes_a_picture) {
    const char *svg = test_temporary("lens.svg");
    unlink(svg);
    TestRun r = program("lens|%s|" IDS "|--svg|%s", small_model(), svg);
    check_status(&r, 0);
    CHECK_STRING(r.out, "");
    test_run_free(&r);
    r = program("lens|%s|" IDS "|--svg|%s", small_model(), svg);
    check_refused(&r, ERROR_USAGE, "--force");
}

// Rising logits are the worst order: each token goes in front of all before it. Kept in order while
// they are read, the half-layers of one position of SmolLM2 would take a minute and a half, without
// a look at Ctrl-C.
Test(lens, ranks_a_whole_vocabulary_in_a_moment) {
    enum { VOCAB = 262144 };
    float *logits = malloc(VOCAB * sizeof *logits);
    LensToken *top = malloc(VOCAB * sizeof *top);
    CHECK(logits && top, "no memory");
    for (int i = 0; i < VOCAB; i++)
        logits[i] = (float)(i / 2); // in pairs of equals
    clock_t began = clock();
    lens_find_top(top, VOCAB, logits, VOCAB);
    double seconds = (double)(clock() - began) / CLOCKS_PER_SEC;
    for (int k = 0; k < VOCAB; k++)
        CHECK_INT(top[k].id, VOCAB - 2 - 2 * (k / 2) + k % 2);
    CHECK(seconds < 3, "%.1f s", seconds);
    free(top);
    free(logits);
}

Test(lens, finds_the_largest_and_of_equals_the_lower_ids) {
    static const float LOGITS[] = {1, 3, -INFINITY, 3, 2, 3, 0};
    static const int WANTED[] = {1, 3, 5, 4, 0, 6, 2};
    for (int count = 1; count <= 7; count++) {
        LensToken top[7];
        lens_find_top(top, count, LOGITS, 7);
        for (int k = 0; k < count; k++)
            CHECK(top[k].id == WANTED[k] && top[k].logit == LOGITS[WANTED[k]], "%d of %d: %d", k,
                  count, (int)top[k].id);
    }
}

Test(lens, refuses_what_it_cannot_do) {
    static const struct {
        const char *options, *because;
    } CASES[] = {
        {"--position|6", "the prompt has positions 0 .. 5"},
        {"--top|0", "1 .. 1048576"},
        {"--top|2049", "the vocabulary has 2048"},
        {"--token|1", "--token is of --attribute"},
        {"--attribute|--token|2048", "the vocabulary has ids 0 .. 2047"},
        {"--csv|--json", "one of them"},
        {"--attribute|--svg|x.svg", "not of --attribute"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        TestRun r = program("lens|%s|" IDS "|%s", small_model(), CASES[i].options);
        check_refused(&r, ERROR_USAGE, CASES[i].because);
    }
}

// 4 half-layers of 1,500 positions with all 50,000 tokens would take 3.6 GB.
Test(lens, refuses_results_that_fill_the_memory) {
    enum { MANY = 1500 };
    BinShape shape = bin_shape_blocks();
    shape.seq_len = MANY;
    shape.vocab_size = 50000;
    size_t size;
    char *bytes = bin_bytes(&size, &shape, 1), ids[2 * MANY + 1];
    const char *path = test_temporary("long.bin");
    test_write_file(path, bytes, size);
    free(bytes);
    for (int i = 0; i < 2 * MANY; i++)
        ids[i] = i % 2 ? ',' : '1';
    ids[2 * MANY - 1] = '\0';
    TestRun r = program("lens|%s|--top|50000|--prompt-ids|%s", path, ids);
    check_refused(&r, ERROR_USAGE, "choose one with --position");
}

// The numbers of one position, beside a picture of all.
Test(lens, has_a_picture_of_all_positions_beside_the_numbers_of_one) {
    need_builtin();
    const char *picture = test_temporary("positions.svg");
    TestRun alone = program("lens|-i|The cat sat|--position|1|--csv"),
            both = program("lens|-i|The cat sat|--position|1|--csv|--svg|%s", picture);
    check_status(&both, 0);
    CHECK_STRING(both.out, alone.out);
    size_t size = 0;
    char *svg = test_read_file(picture, &size);
    CHECK(strstr(svg, "sat"), "no last token in the picture");
    free(svg);
    test_run_free(&alone);
    test_run_free(&both);
}

// The lens has the model's own norm and head for every layer: a run with others has no lens, and
// patched logits are no sum of parts.
Test(lens, refuses_changes_of_what_it_reads_by) {
    need_builtin();
    TestRun r = program("lens|-i|The cat|--patch|logits[:,5]=100");
    check_refused(&r, ERROR_USAGE, "final norm and head");
    r = program("lens|-i|The cat|--patch|final_norm=0");
    check_refused(&r, ERROR_USAGE, "final norm and head");
    r = program("lens|-i|The cat|--attribute|--patch|logits[:,5]=100");
    check_refused(&r, ERROR_USAGE, "--attribute adds up");
    r = program("view|-i|The cat|--out|%s|--patch|logits[:,5]=100", test_temporary("lens.html"));
    check_refused(&r, ERROR_USAGE, "final norm and head");
}
