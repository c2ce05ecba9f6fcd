// Ablation, patching and steering: what a trace shows of them is worked out by hand from the trace
// without them; what they do to later numbers, from identities.
#include "base/error.h"
#include "tests/support/traces.h"
#include "weights/checkpoint.h"
#include "weights/quant.h"

#include <sys/stat.h>
#include <unistd.h>

// Of the built-in model.
enum { TOKENS = 6, DIM = 192, HEADS = 6, HEAD_DIM = 32, LAYERS = 6, VOCAB = 2048 };
#define EXACT "--precision|f32|--kv|f32|"
#define IDS EXACT "--prompt-ids|1,403,407,261,390,410"
#define OTHER_IDS EXACT "--prompt-ids|1,500,31,77,1044,12"

typedef struct Trace {
    char *path;
    SafetensorsFile file;
} Trace;

static Trace trace_of(const char *options, const char *name) {
    Trace t = {.path = write_trace(small_model(), options, name)};
    t.file = open_trace(t.path);
    return t;
}

static void trace_free(Trace *t) {
    safetensors_close(&t->file);
    free(t->path);
}

static float *values(const Trace *t, const char *name, size_t width) {
    return trace_values(&t->file, name, TOKENS, width);
}

// How many of the rows' elements differ in their bits.
static size_t differing(const Trace *a, const Trace *b, const char *name, size_t width) {
    size_t count = 0;
    float *x = values(a, name, width), *y = values(b, name, width);
    for (size_t i = 0; i < TOKENS * width; i++)
        count += memcmp(x + i, y + i, sizeof *x) != 0;
    free(x), free(y);
    return count;
}

// ---- ablation ----

#define HEAD_OF_TEST 3
#define LAYER_OF_TEST "model.layers.2"

// Everything before is as it was; the head is zero, its neighbours are as they were.
static void check_heads(const Trace *plain, const Trace *ablated, const float *wanted) {
    CHECK_INT(differing(plain, ablated, "model.layers.1", DIM), 0);
    CHECK_INT(differing(plain, ablated, LAYER_OF_TEST ".self_attn.q_proj", DIM), 0);
    float *before = values(plain, LAYER_OF_TEST ".self_attn.heads", DIM);
    float *after = values(ablated, LAYER_OF_TEST ".self_attn.heads", DIM);
    for (size_t i = 0; i < TOKENS * DIM; i++) {
        bool of_head = i % DIM / HEAD_DIM == HEAD_OF_TEST;
        double should = of_head ? (double)wanted[i % HEAD_DIM] : (double)before[i];
        CHECK(fabs((double)after[i] - should) < 1e-6, "element %zu: %.9g, wanted %.9g", i,
              (double)after[i], should);
    }
    free(before), free(after);
    CHECK(differing(plain, ablated, "logits", VOCAB) > TOKENS * VOCAB / 2, "the logits stay");
}

// What reads the heads: wo of the file times the heads of the trace, in float64.
static void check_projection(const Trace *t) {
    Error error = {0};
    Checkpoint *checkpoint;
    CHECK(checkpoint_open(&checkpoint, small_model(), &error), "%s", error.message);
    const Matrix *wo = &checkpoint_weights(checkpoint)->layers[2].wo;
    float row[DIM], *heads = values(t, LAYER_OF_TEST ".self_attn.heads", DIM);
    float *out = values(t, LAYER_OF_TEST ".self_attn.o_proj", DIM);
    for (size_t r = 0; r < DIM; r++) {
        matrix_row(row, wo, r);
        for (size_t i = 0; i < TOKENS; i++) {
            double sum = 0;
            for (size_t k = 0; k < DIM; k++)
                sum += (double)row[k] * (double)heads[i * DIM + k];
            CHECK(fabs(sum - (double)out[i * DIM + r]) < 2e-5, "token %zu, channel %zu", i, r);
        }
    }
    free(heads), free(out);
    checkpoint_close(checkpoint);
}

Test(interventions, an_ablated_head_writes_zero_and_nothing_before_it_changes) {
    static const float ZERO[HEAD_DIM] = {0};
    Trace plain = trace_of(IDS, "plain.safetensors");
    Trace ablated = trace_of(IDS "|--ablate|L2.H3", "ablated.safetensors");
    check_heads(&plain, &ablated, ZERO);
    check_projection(&ablated);
    trace_free(&plain), trace_free(&ablated);
}

Test(interventions, ablation_to_the_mean_sets_the_mean_over_the_positions) {
    float mean[HEAD_DIM] = {0};
    Trace plain = trace_of(IDS, "plain.safetensors");
    Trace ablated = trace_of(IDS "|--ablate|L2.H3|--ablate-to|mean", "mean.safetensors");
    float *heads = values(&plain, LAYER_OF_TEST ".self_attn.heads", DIM);
    for (size_t i = 0; i < TOKENS; i++)
        for (size_t k = 0; k < HEAD_DIM; k++)
            mean[k] += heads[i * DIM + HEAD_OF_TEST * HEAD_DIM + k] / TOKENS;
    check_heads(&plain, &ablated, mean);
    free(heads);
    trace_free(&plain), trace_free(&ablated);
}

// Without any attention branch and any FFN the stream is the embedding from end to end.
Test(interventions, without_any_branch_the_stream_is_the_embedding) {
    Trace t = trace_of(IDS "|--ablate|L*.att,L0-5.ffn", "nothing.safetensors");
    float *in = values(&t, "model.embed_norm", DIM), *out = values(&t, "model.layers.5", DIM);
    for (size_t i = 0; i < TOKENS * DIM; i++)
        CHECK(in[i] == out[i], "element %zu: %.9g, %.9g", i, (double)in[i], (double)out[i]);
    free(in), free(out);
    trace_free(&t);
}

// ---- patching ----

// The stream after a layer is all that later layers know of the text.
Test(interventions, the_stream_of_another_text_gives_the_logits_of_that_text) {
    Trace other = trace_of(OTHER_IDS, "other.safetensors");
    char options[600];
    snprintf(options, sizeof options, IDS "|--patch|model.layers.2=%s", other.path);
    Trace patched = trace_of(options, "patched.safetensors");
    CHECK_INT(differing(&other, &patched, "model.layers.2", DIM), 0);
    CHECK_INT(differing(&other, &patched, "logits", VOCAB), 0);
    trace_free(&patched);
    // At the last position of the last layer alone: the logits of that row, and of no other.
    snprintf(options, sizeof options, IDS "|--patch|blocks.5.hook_resid_post[-1]=%s", other.path);
    Trace plain = trace_of(IDS, "plain.safetensors"), last = trace_of(options, "last.safetensors");
    float *a = values(&other, "logits", VOCAB), *b = values(&last, "logits", VOCAB);
    CHECK(!memcmp(a + (TOKENS - 1) * VOCAB, b + (TOKENS - 1) * VOCAB, VOCAB * sizeof *a), "row");
    size_t changed = differing(&plain, &last, "logits", VOCAB);
    CHECK(changed > VOCAB / 2 && changed <= VOCAB, "%zu logits have changed", changed);
    free(a), free(b);
    trace_free(&plain), trace_free(&last), trace_free(&other);
}

static void check_element(const char *index, const char *value, size_t from, size_t to) {
    char option[200];
    snprintf(option, sizeof option, IDS "|--patch|layers.1.att_out%s=%s", index, value);
    Trace plain = trace_of(IDS, "plain.safetensors"), t = trace_of(option, "element.safetensors");
    float *a = values(&plain, "model.layers.1.self_attn.o_proj", DIM);
    float *b = values(&t, "model.layers.1.self_attn.o_proj", DIM);
    for (size_t i = 0; i < TOKENS * DIM; i++) {
        float wanted = i >= from && i < to ? (float)atof(value) : a[i];
        CHECK(b[i] == wanted, "%s, element %zu: %.9g, wanted %.9g", index, i, (double)b[i],
              (double)wanted);
    }
    free(a), free(b);
    trace_free(&plain), trace_free(&t);
}

Test(interventions, a_patch_sets_the_elements_that_its_index_names) {
    check_element("[2,17]", "2.5", 2 * DIM + 17, 2 * DIM + 18);
    check_element("[-1,-1]", "-3", TOKENS * DIM - 1, TOKENS * DIM);
    check_element("[1:3]", "0.25", DIM, 3 * DIM);
    check_element("[4,:8]", "1", 4 * DIM, 4 * DIM + 8);
    check_element("", "0", 0, TOKENS * DIM);
}

static void check_alias(const char *alias, const char *name) {
    char first[200], second[200];
    snprintf(first, sizeof first, IDS "|--patch|%s[1]=0.5", alias);
    snprintf(second, sizeof second, IDS "|--patch|%s[1]=0.5", name);
    Trace a = trace_of(first, "alias.safetensors"), b = trace_of(second, "own.safetensors");
    CHECK_INT(differing(&a, &b, "logits", VOCAB), 0);
    trace_free(&a), trace_free(&b);
}

Test(interventions, names_of_TransformerLens_and_of_modules_mean_the_same_stages) {
    check_alias("blocks.1.hook_resid_pre", "layers.0.layer_out");
    check_alias("blocks.0.hook_resid_pre", "embedding");
    check_alias("blocks.1.ln1.hook_normalized", "layers.1.att_norm");
    check_alias("blocks.1.attn.hook_z", "model.layers.1.self_attn.heads");
    check_alias("blocks.2.mlp.hook_pre", "model.layers.2.mlp.fc1"); // it has no gate
    check_alias("ln_final.hook_normalized", "model.norm");
}

// NaN is planted, shown by the trace, and named with its stage.
Test(interventions, a_planted_nan_is_named_where_it_was_planted) {
    TestRun r = program("generate|%s|" IDS "|--patch|layers.3.ffn_up[2,7]=nan", small_model());
    check_refused(&r, 7, "layers.3.ffn_up at position 2 holds nan");
}

// ---- steering ----

// One tensor of `rows` rows (0: a plain vector) whose element i is i / 64.
static const char *write_vectors(const char *name, int rows) {
    const char *path = test_temporary(name);
    char header[200];
    int n = (rows ? rows : 1) * DIM;
    FILE *file = fopen(path, "wb");
    if (rows)
        snprintf(header, sizeof header,
                 "{\"v\":{\"dtype\":\"F32\",\"shape\":[%d,%d],\"data_offsets\":[0,%d]}}", rows, DIM,
                 4 * n);
    else
        snprintf(header, sizeof header,
                 "{\"v\":{\"dtype\":\"F32\",\"shape\":[%d],\"data_offsets\":[0,%d]}}", DIM, 4 * n);
    uint64_t length = strlen(header);
    fwrite(&length, sizeof length, 1, file);
    fwrite(header, 1, length, file);
    for (int i = 0; i < n; i++) {
        float value = (float)i / 64;
        fwrite(&value, sizeof value, 1, file);
    }
    fclose(file);
    return path;
}

static void check_steered(int rows, double first) {
    const char *path = write_vectors("vector.safetensors", rows);
    char options[600];
    snprintf(options, sizeof options, IDS "|--steer|%s:-0.5@L2-L3", path);
    Trace plain = trace_of(IDS, "plain.safetensors"), t = trace_of(options, "steered.safetensors");
    CHECK_INT(differing(&plain, &t, "model.layers.1", DIM), 0);
    float *a = values(&plain, "model.layers.2", DIM), *b = values(&t, "model.layers.2", DIM);
    for (size_t i = 0; i < TOKENS * DIM; i++) {
        double wanted = (double)a[i] - 0.5 * (first + (double)(i % DIM) / 64);
        CHECK(fabs((double)b[i] - wanted) < 1e-6, "element %zu: %.9g, wanted %.9g", i, (double)b[i],
              wanted);
    }
    free(a), free(b);
    trace_free(&plain), trace_free(&t);
}

Test(interventions, steering_adds_the_vector_to_what_leaves_the_layer) {
    check_steered(0, 0);
    check_steered(LAYERS, 2 * DIM / 64.0); // row 2
}

// ---- the commands ----

static double json_number(TestRun r, const char *key) {
    char text[4000];
    check_status(&r, 0);
    double value = atof(json_value(text, r.out, key));
    test_run_free(&r);
    return value;
}

#define TEXT_IDS "1,403,407,261,390,410,12,77,31,500,407,261,390,77,1044,12"

static const char *ids_file(void) {
    const char *path = test_temporary("ids.txt");
    FILE *file = fopen(path, "w");
    fputs(TEXT_IDS, file);
    fclose(file);
    return path;
}

// The loss from the logits of a trace with the same ablation.
Test(interventions, perplexity_scores_the_logits_that_a_trace_shows) {
    const char *ids = ids_file();
    int32_t tokens[16] = {1, 403, 407, 261, 390, 410, 12, 77, 31, 500, 407, 261, 390, 77, 1044, 12};
    Trace t = trace_of(EXACT "--prompt-ids|" TEXT_IDS "|--ablate|L1.H*,L4.ffn", "loss.safetensors");
    float *logits = trace_values(&t.file, "logits", 16, VOCAB);
    double loss = 0;
    for (int i = 0; i < 15; i++) {
        double sum = 0;
        for (int k = 0; k < VOCAB; k++)
            sum += exp((double)logits[i * VOCAB + k]);
        loss += (log(sum) - (double)logits[i * VOCAB + tokens[i + 1]]) / 15;
    }
    double mean = json_number(
        program("perplexity|%s|--ids|%s|" EXACT "--json|--ablate|L1.H*,L4.ffn", small_model(), ids),
        "mean_nll");
    CHECK(fabs(mean - loss) < 1e-6, "%.9g, wanted %.9g", mean, loss);
    free(logits);
    trace_free(&t);
}

// Every head once, in falling order; a row is what perplexity says of that head alone, to the
// digit.
Test(interventions, ablate_each_gives_the_loss_of_every_head_alone) {
    const char *ids = ids_file();
    bool seen[LAYERS][HEADS] = {0};
    double before = INFINITY, losses[LAYERS][HEADS];
    TestRun r =
        program("perplexity|%s|--ids|%s|--window|9|--ablate-each|--csv", small_model(), ids);
    check_status(&r, 0);
    CHECK(!strncmp(r.out, "layer,head,mean_nll,change,perplexity\n", 38), "%.60s", r.out);
    int layer, head, length, rows = 0;
    double loss, change;
    for (const char *at = r.out + 38;
         sscanf(at, "%d,%d,%lf,%lf,%*f\n%n", &layer, &head, &loss, &change, &length) == 4;
         at += length, rows++) {
        CHECK(loss <= before && layer < LAYERS && head < HEADS && !seen[layer][head], "row %d",
              rows);
        seen[layer][head] = true;
        before = losses[layer][head] = loss;
    }
    CHECK_INT(rows, LAYERS * HEADS);
    test_run_free(&r);
    for (int i = 0; i < 3; i++) {
        int l = 2 * i, h = 5 - 2 * i;
        double alone =
            json_number(program("perplexity|%s|--ids|%s|--window|9|--json|--ablate|L%d.H%d",
                                small_model(), ids, l, h),
                        "mean_nll");
        CHECK(fabs(losses[l][h] - alone) < 1e-7, "L%d.H%d: %.9g, alone %.9g", l, h, losses[l][h],
              alone);
    }
}

// Greedy decoding takes the likeliest token of the trace with the same changes, with and without a
// cache, on any number of threads.
Test(interventions, generate_goes_on_from_the_changed_logits) {
    Trace t = trace_of(IDS "|-n|4|--ablate|L0.H*,L3.ffn", "greedy.safetensors");
    const SafetensorsTensor *ids = safetensors_find(&t.file, "input_ids");
    char wanted[100] = "";
    for (int i = TOKENS; i < TOKENS + 4; i++) {
        int64_t id;
        memcpy(&id, ids->plan.data + (size_t)i * sizeof id, sizeof id);
        snprintf(wanted + strlen(wanted), 20, "%lld\n", (long long)id);
    }
    static const char *const WAYS[] = {"-j|1", "-j|2", "--no-cache"};
    for (int i = 0; i < 3; i++) {
        TestRun r = program("generate|%s|" IDS "|--ids|-t|0|--max-tokens|4|--ignore-eos|-q|%s|"
                            "--ablate|L0.H*,L3.ffn",
                            small_model(), WAYS[i]);
        check_status(&r, 0);
        CHECK(!strcmp(r.out, wanted), "%s: %s, wanted %s", WAYS[i], r.out, wanted);
        test_run_free(&r);
    }
    trace_free(&t);
}

// Attention and the lens show the changed run: a silenced layer 0 changes what layer 1 attends to.
Test(interventions, pictures_show_the_changed_run) {
    static const char *const LINES[] = {"attention|%s|" IDS "|--csv|--layer|1|--head|0%s",
                                        "lens|%s|" IDS "|--csv|--position|5%s",
                                        "lens|%s|" IDS "|--attribute|--csv%s"};
    for (int i = 0; i < 3; i++) {
        char line[300], changed[300];
        snprintf(line, sizeof line, LINES[i], small_model(), "");
        snprintf(changed, sizeof changed, LINES[i], small_model(), "|--ablate|L0.H*");
        TestRun a = program("%s", line), b = program("%s", changed);
        check_status(&a, 0), check_status(&b, 0);
        CHECK(strcmp(a.out, b.out), "%s: nothing changes", changed);
        test_run_free(&a), test_run_free(&b);
    }
}

// The parts of a logit of an ablated run add up to its logit; where something else is added to the
// stream they cannot.
Test(interventions, parts_of_a_logit_add_up_in_an_ablated_run) {
    char sum[4000], logit[4000];
    TestRun r = program("lens|%s|" IDS "|--attribute|--json|--ablate|L2.H*,L3.ffn", small_model());
    check_status(&r, 0);
    double a = atof(json_value(sum, r.out, "sum")), b = atof(json_value(logit, r.out, "logit"));
    CHECK(fabs(a - b) < 2e-6 * fmax(1, fabs(b)), "parts %s, logit %s", sum, logit);
    test_run_free(&r);
    r = program("lens|%s|" IDS "|--attribute|--ablate|L2.att", small_model());
    check_refused(&r, 2, "--attribute adds up what heads and FFNs write");
}

// ---- what is refused ----

static void check_refuses(const char *option, int status, const char *because) {
    TestRun r = program("generate|%s|" IDS "|%s", small_model(), option);
    check_refused(&r, status, because);
}

Test(interventions, a_change_that_no_model_or_this_model_has_not_is_refused) {
    static const struct {
        const char *option, *because;
    } CASES[] = {
        {"--ablate|L6.H1", "the model's layers are 0 to 5"},
        {"--ablate|L3", "--ablate: got \"L3\", wanted"},
        {"--ablate|L1.H2,", "--ablate: got \"\", wanted"},
        {"--ablate|L1.H99999999999", "wanted such as L3.H5"},
        {"--ablate|L3-2.H1", "wanted such as L3.H5"},
        {"--ablate-to|mean", "give that too"},
        {"--patch|layers.1.att_out", "wanted NAME=VALUE"},
        {"--patch|layers.1.att_out[1=0", "wanted NAME=VALUE"},
        {"--patch|layers.1.att_out[1,2,3,4]=0", "wanted NAME=VALUE"},
        {"--patch|layers.1.nothing=0", "no stage is called \"layers.1.nothing\""},
        {"--patch|layers.6.att_out=0", "the model's layers are 0 to 5"},
        {"--patch|layers.99999999.att_out=0", "the model's layers are 0 to 5"},
        {"--patch|blocks.99999999999.hook_z=0", "no stage is called"},
        {"--patch|layers.1.att_weights=0", "already summed"},
        {"--steer|x@4", "wanted FILE[:SCALE]@L4-L8"},
        {"--steer|x@L6", "the model's layers are 0 to 5"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++)
        check_refuses(CASES[i].option, 2, CASES[i].because);
    check_refuses("--record|x.json|--ablate|L1.H1", 2, "--record excludes --ablate");
    check_refuses("--patch|layers.1.att_out=/nonexistent", 4, "/nonexistent: cannot open it");
    TestRun r = program("perplexity|%s|-f|README.md|--patterns|causal,window:4|--ablate|L1.H1|"
                        "--ablate-to|mean",
                        small_model());
    check_refused(&r, ERROR_USAGE, "--patterns excludes --ablate-to mean");
    check_refuses("--steer|/nonexistent@L1", 4, "/nonexistent: cannot open it");
}

// What only the first pass can tell: the shapes of the stages.
Test(interventions, an_index_outside_of_a_stage_is_refused) {
    static const struct {
        const char *option, *because;
    } CASES[] = {
        {"--ablate|L1.H6", "a row of att_heads has the indices 0 to 5 there"},
        {"--patch|layers.1.att_out[0,192]=0", "the indices 0 to 191"},
        {"--patch|layers.1.att_out[0,1,1]=0", "a row of att_out has 1 dimension"},
        {"--patch|layers.1.att_out[-7]=0", "no such position in a prompt of 6 tokens"},
        {"--patch|layers.1.att_out[9999]=0", "no such position: the prompt has 6 tokens"},
        {"--patch|layers.1.ffn_gate=0", "this model does not compute ffn_gate"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        TestRun r = program("generate|%s|" IDS "|%s", small_model(), CASES[i].option);
        check_refused(&r, 2, CASES[i].because);
    }
}

static void check_bad_file(const char *bytes, size_t length, const char *option, int status,
                           const char *because) {
    const char *path = test_temporary("bad.safetensors");
    FILE *file = fopen(path, "wb");
    fwrite(bytes, 1, length, file);
    fclose(file);
    TestRun r = program("generate|%s|" IDS "|%s%s%s", small_model(),
                        strstr(option, "steer") ? "--steer|" : option, path,
                        strstr(option, "steer") ? "@L1" : "");
    check_refused(&r, status, because);
}

Test(interventions, a_file_that_is_no_vector_is_refused) {
    static const char OTHER[] =
        "\x3a\0\0\0\0\0\0\0"
        "{\"v\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}    "
        "abcd";
    check_bad_file("", 0, "steer", 3, "bad.safetensors");
    check_bad_file("no tensors here at all", 22, "steer", 3, "bad.safetensors");
    check_bad_file(OTHER, sizeof OTHER - 1, "steer", 3, "wanted one, of F32, F16 or BF16");
    check_bad_file(OTHER, sizeof OTHER - 1, "--patch|layers.1.att_out=", 3, "has no tensor");
}

// The file of a patch is read: no output may replace it.
Test(interventions, a_trace_never_replaces_the_file_of_a_patch) {
    Trace other = trace_of(OTHER_IDS, "kept.safetensors");
    struct stat before, after;
    CHECK(!stat(other.path, &before), "stat");
    TestRun r = program("trace|%s|" IDS "|--patch|layers.1.att_out=%s|--force|--out|%s",
                        small_model(), other.path, other.path);
    check_refused(&r, 2, "kept.safetensors");
    CHECK(!stat(other.path, &after) && before.st_ino == after.st_ino &&
              before.st_size == after.st_size,
          "the file has changed");
    trace_free(&other);
}

// The page says what was changed, and has no parts of logits where they would not add up.
Test(interventions, a_page_shows_the_changed_run) {
    const char *page = test_temporary("page.html");
    static const char *const CHANGES[] = {"L2.H*", "L2.att"};
    for (int i = 0; i < 2; i++) {
        TestRun r = program("view|%s|" IDS "|--out|%s|--force|--ablate|%s", small_model(), page,
                            CHANGES[i]);
        check_status(&r, 0);
        test_run_free(&r);
        FILE *file = fopen(page, "r");
        char *text = calloc(1, 1 << 24);
        CHECK(file && fread(text, 1, (1 << 24) - 1, file) > 1000, "no page");
        char wanted[60];
        snprintf(wanted, sizeof wanted, "\"interventions\":\"--ablate %s\"", CHANGES[i]);
        CHECK(strstr(text, wanted), "%s", wanted);
        CHECK_INT(strstr(text, "id=\"b-dla\"") != NULL, i == 0);
        free(text);
        fclose(file);
    }
}
