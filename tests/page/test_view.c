// view: what the page holds is what trace, lens, attention and perplexity say of the same prompt,
// bit for bit where it says so; its sums and statistics follow from these numbers; a vocabulary
// cannot break out of it; refusals.
#include "base/error.h"
#include "tests/support/files/llama2c_writer.h"
#include "tests/support/files/safetensors_writer.h"
#include "tests/support/program.h"
#include "tests/support/traces.h"
#include "weights/checkpoint.h"
#include "weights/quant.h"

#include <jansson.h>
#include <unistd.h>
#include <zlib.h>

#define IDS "--prompt-ids|1,403,407,261,390,407"
enum { TOKENS = 9 }; // with -n 3
#define RUN IDS "|-n|3"

// ---- the page, read back ----

typedef struct PageFile {
    char *text;
    size_t size;
    json_t *core;
} PageFile;

static const char *between(const char *text, const char *begin, const char *end, size_t *length) {
    const char *at = strstr(text, begin);
    const char *to = at ? strstr(at + strlen(begin), end) : NULL;
    if (!to) return NULL;
    *length = (size_t)(to - at) - strlen(begin);
    return at + strlen(begin);
}

static PageFile open_page(const char *path) {
    PageFile p = {0};
    size_t length = 0;
    p.text = test_read_file(path, &p.size);
    const char *core =
        between(p.text, "<script type=\"application/json\" id=\"core\">", "</script>", &length);
    json_error_t problem;
    CHECK(core, "no core");
    p.core = json_loadb(core, length, 0, &problem);
    CHECK(p.core, "core: %s at %d", problem.text, problem.position);
    CHECK_INT(json_integer_value(json_object_get(p.core, "format")), 1);
    return p;
}

static void close_page(PageFile *p) {
    json_decref(p->core);
    free(p->text);
}

static PageFile view(const char *model, const char *options) {
    const char *path = test_temporary("page.html");
    TestRun r = program("view|%s|%s|-q|--force|--out|%s", model, options, path);
    check_status(&r, 0);
    CHECK(!r.out_size && !r.err_size, "%s%s", r.out, r.err);
    test_run_free(&r);
    return open_page(path);
}

static uint8_t *decode_base64(const char *text, size_t length, size_t *size) {
    static const char DIGITS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint8_t *out = malloc(length + 1);
    uint32_t bits = 0;
    int n = 0;
    *size = 0;
    for (size_t i = 0; i < length && text[i] != '='; i++) {
        const char *digit = memchr(DIGITS, text[i], 64);
        CHECK(digit, "character %d", text[i]);
        bits = bits << 6 | (uint32_t)(digit - DIGITS);
        n += 6;
        if (n >= 8) out[(*size)++] = (uint8_t)(bits >> (n -= 8));
    }
    return out;
}

static uint8_t *inflate_raw(const uint8_t *bytes, size_t size, size_t *inflated) {
    enum { ROOM = 1 << 25 };
    uint8_t *out = malloc(ROOM);
    z_stream z = {.next_in = (Bytef *)(uintptr_t)bytes,
                  .avail_in = (uInt)size,
                  .next_out = out,
                  .avail_out = ROOM};
    CHECK_INT(inflateInit2(&z, -15), Z_OK);
    CHECK_INT(inflate(&z, Z_FINISH), Z_STREAM_END);
    *inflated = ROOM - z.avail_out;
    inflateEnd(&z);
    return out;
}

// The bytes of a block, malloced; NULL: the page has none of this name.
static uint8_t *block(const PageFile *p, const char *name, size_t *size) {
    char id[60];
    size_t length = 0;
    snprintf(id, sizeof id, "id=\"b-%s\" data-coding=\"", name);
    const char *at = strstr(p->text, id);
    if (!at) return NULL;
    bool packed = !strncmp(at + strlen(id), "deflate", 7);
    size_t planes = strtoul(strstr(at, "planes=\"") + 8, NULL, 10);
    const char *text = between(at, ">", "</script>", &length);
    uint8_t *raw = decode_base64(text, length, size);
    if (!packed) {
        CHECK_INT(planes, 1);
        return raw;
    }
    uint8_t *split = inflate_raw(raw, *size, size), *out = malloc(*size + 1);
    for (size_t i = 0; i < *size; i++)
        out[i] = split[i % planes * (*size / planes) + i / planes];
    free(raw);
    free(split);
    return out;
}

static float *floats(const PageFile *p, const char *name, size_t count) {
    size_t size = 0;
    uint8_t *bytes = block(p, name, &size);
    CHECK(bytes, "no block %s", name);
    CHECK(size == count * sizeof(float), "block %s: %zu bytes, wanted %zu floats", name, size,
          count);
    return (float *)(void *)bytes;
}

static const char *text_of(const json_t *object, const char *key) {
    return json_string_value(json_object_get(object, key));
}

static int64_t integer_of(const json_t *object, const char *key) {
    return json_integer_value(json_object_get(object, key));
}

static const json_t *stage_of(const PageFile *p, const char *id) {
    size_t i;
    const json_t *stage;
    json_array_foreach(json_object_get(p->core, "stages"), i,
                       stage) if (!strcmp(text_of(stage, "id"), id)) return stage;
    TEST_FAIL("no stage %s", id);
    return NULL;
}

static size_t width_of(const json_t *stage) {
    size_t width = 1, i;
    const json_t *size;
    json_array_foreach(json_object_get(stage, "shape"), i, size) width *=
        (size_t)json_integer_value(size);
    return width;
}

// The values of a stage (rows, width), malloced, by the rules of the format.
static float *stage_values(const PageFile *p, const json_t *stage) {
    size_t rows = (size_t)integer_of(stage, "rows"), width = width_of(stage), size = 0;
    size_t count = rows * width;
    float *out = malloc(count * sizeof *out);
    const char *coding = text_of(stage, "coding");
    if (!strcmp(coding, "sum")) {
        const json_t *of = json_object_get(stage, "of");
        float *a = stage_values(p, stage_of(p, json_string_value(json_array_get(of, 0))));
        float *b = stage_values(p, stage_of(p, json_string_value(json_array_get(of, 1))));
        for (size_t i = 0; i < count; i++)
            out[i] = a[i] + b[i];
        free(a);
        free(b);
        return out;
    }
    uint8_t *bytes = block(p, text_of(stage, "block"), &size);
    uint8_t *at = bytes + integer_of(stage, "offset");
    if (!strcmp(coding, "f32")) {
        memcpy(out, at, count * sizeof *out);
    } else {
        CHECK_STRING(coding, "i8");
        for (size_t i = 0; i < count; i++) {
            float most;
            memcpy(&most, at + i / width * 4, sizeof most);
            float q = (float)(int8_t)at[rows * 4 + i] / 127;
            out[i] = copysignf(most * q * q, q);
        }
    }
    free(bytes);
    return out;
}

// ---- against a trace ----

static void check_statistics(const json_t *stage, const float *values) {
    size_t rows = (size_t)integer_of(stage, "rows"), width = width_of(stage), i;
    const json_t *stats = json_object_get(stage, "stats"), *extreme;
    float low = INFINITY, high = -INFINITY, largest = 0;
    for (size_t j = 0; j < rows * width; j++) {
        low = fminf(low, values[j]);
        high = fmaxf(high, values[j]);
        largest = fmaxf(largest, fabsf(values[j]));
    }
    CHECK((float)json_number_value(json_array_get(stats, 0)) == low);
    CHECK((float)json_number_value(json_array_get(stats, 1)) == high);
    json_array_foreach(json_object_get(stage, "extremes"), i, extreme) {
        size_t at = (size_t)json_integer_value(json_array_get(extreme, 0)) * width +
                    (size_t)json_integer_value(json_array_get(extreme, 1));
        CHECK((float)json_number_value(json_array_get(extreme, 2)) == values[at]);
        if (!i) CHECK(fabsf(values[at]) == largest);
    }
}

// Of a picture: half a level of the square root, and two digits of its largest.
static void check_picture(const char *id, const float *got, const float *wanted, size_t rows,
                          size_t width) {
    for (size_t t = 0; t < rows; t++) {
        float most = 0;
        for (size_t i = t * width; i < (t + 1) * width; i++)
            most = fmaxf(most, fabsf(wanted[i]));
        for (size_t i = t * width; i < (t + 1) * width; i++) {
            double root = sqrt(fabs((double)wanted[i]) / (double)most);
            double shown = sqrt(fabs((double)got[i]) / (double)most);
            CHECK(most == 0 || fabs(root - shown) < 0.036, "%s: %g shown as %g", id,
                  (double)wanted[i], (double)got[i]);
        }
    }
}

// Every stage of the page is the trace's; returns how many have the very bits.
static size_t check_stages(const PageFile *p, const SafetensorsFile *trace) {
    size_t i, exact = 0;
    const json_t *stage;
    json_array_foreach(json_object_get(p->core, "stages"), i, stage) {
        const char *id = text_of(stage, "id");
        size_t rows = (size_t)integer_of(stage, "rows"), width = width_of(stage);
        float *wanted = trace_values(trace, text_of(stage, "name"), rows, width);
        float *got = stage_values(p, stage);
        check_statistics(stage, wanted);
        if (json_is_true(json_object_get(stage, "exact"))) {
            CHECK(!memcmp(got, wanted, rows * width * sizeof *got), "%s", id);
            exact++;
        } else if (strcmp(text_of(stage, "coding"), "sum")) {
            check_picture(id, got, wanted, rows, width);
        }
        free(got);
        free(wanted);
    }
    return exact;
}

// (n_heads, T, T) of the trace, its lower triangle on the page.
static void check_weights(const PageFile *p, const SafetensorsFile *trace, bool bytes) {
    size_t layers = (size_t)integer_of(p->core, "layers"), heads, n, i, size;
    for (size_t l = 0; l < layers; l++) {
        char name[100], id[24];
        bool found = false;
        for (i = 0; i < trace->count && !found; i++) {
            snprintf(name, sizeof name, ".%zu.", l);
            const char *full = trace->tensors[i].plan.name;
            found = strstr(full, name) && strstr(full, ".attn_weights");
        }
        CHECK(found, "no weights of layer %zu", l);
        const TensorPlan *plan = &trace->tensors[i - 1].plan;
        heads = plan->shape[0], n = plan->shape[1];
        snprintf(id, sizeof id, "A%zu", l);
        uint8_t *got = block(p, id, &size);
        CHECK(got && size == heads * (n * (n + 1) / 2) * (bytes ? 1 : 4), "%s: %zu bytes", id,
              size);
        size_t at = 0;
        for (size_t h = 0; h < heads; h++)
            for (size_t q = 0; q < n; q++)
                for (size_t k = 0; k <= q; k++, at++) {
                    float weight, shown;
                    memcpy(&weight, plan->data + 4 * ((h * n + q) * n + k), 4);
                    if (!bytes) memcpy(&shown, got + 4 * at, 4);
                    CHECK(bytes ? abs(got[at] - (int)lrintf(weight * 255)) <= 1 : shown == weight,
                          "layer %zu, head %zu, query %zu, key %zu", l, h, q, k);
                }
        free(got);
    }
}

static void check_ids(const PageFile *p, const SafetensorsFile *trace) {
    const SafetensorsTensor *ids = safetensors_find(trace, "input_ids");
    const json_t *shown = json_object_get(p->core, "ids");
    CHECK_INT(json_array_size(shown), ids->plan.shape[0]);
    for (size_t i = 0; i < ids->plan.shape[0]; i++) {
        int64_t id;
        memcpy(&id, ids->plan.data + 8 * i, sizeof id);
        CHECK_INT(json_integer_value(json_array_get(shown, i)), id);
    }
}

static SafetensorsFile traced(const char *model, const char *options) {
    char with[400];
    snprintf(with, sizeof with, "--attention|%s", options);
    char *path = write_trace(model, with, "view.safetensors");
    SafetensorsFile trace = open_trace(path);
    free(path);
    return trace;
}

static void check_against_trace(const char *model, const char *options, const char *more,
                                bool bytes) {
    char all[400];
    snprintf(all, sizeof all, "%s%s", options, more);
    PageFile p = view(model, all);
    SafetensorsFile trace = traced(model, options);
    check_ids(&p, &trace);
    check_weights(&p, &trace, bytes);
    size_t stages = json_array_size(json_object_get(p.core, "stages"));
    size_t exact = check_stages(&p, &trace), layers = (size_t)integer_of(p.core, "layers");
    CHECK(exact && stages >= 9 * layers, "%zu of %zu stages are exact", exact, stages);
    safetensors_close(&trace);
    close_page(&p);
}

Test(view, has_the_stages_and_weights_of_a_trace_of_the_same_run) {
    check_against_trace(small_model(), RUN, "", false);
    check_against_trace(small_model(), RUN "|--precision|f32", "|--layers|0-1,4", false);
}

// From 25 tokens on pictures, from 48 on bytes for attention, but for --layers.
Test(view, has_pictures_of_the_stages_of_a_long_text) {
    check_against_trace(small_model(), IDS "|-n|24", "", false);
    PageFile p = view(small_model(), IDS "|-n|54|--layers|2");
    SafetensorsFile trace = traced(small_model(), IDS "|-n|54");
    check_stages(&p, &trace);
    CHECK(!json_is_true(json_object_get(stage_of(&p, "1.att_out"), "exact")));
    const char *const ALL[] = {
        "att_norm",      "q",        "k", "v", "att_heads", "att_residual", "ffn_up",
        "ffn_activated", "layer_out"};
    for (size_t i = 0; i < sizeof ALL / sizeof *ALL; i++) {
        char id[40];
        snprintf(id, sizeof id, "2.%s", ALL[i]);
        CHECK(json_is_true(json_object_get(stage_of(&p, id), "exact")), "%s", id);
    }
    size_t exact = 0, bytes = 0;
    free(block(&p, "A2", &exact));
    free(block(&p, "A3", &bytes));
    CHECK_INT(exact, 4 * bytes);
    safetensors_close(&trace);
    close_page(&p);
}

Test(view, has_the_stages_of_every_family) {
    static const char *const FAMILIES[] = {"gemma3",   "olmo2",   "qwen3",    "gpt2",
                                           "nanochat", "phi3",    "smollm3",  "mistral-window8",
                                           "gemma2",   "granite", "gpt_neox", "hunyuan_v1_dense"};
    for (size_t i = 0; i < sizeof FAMILIES / sizeof *FAMILIES; i++)
        check_against_trace(test_reference_model(FAMILIES[i]),
                            "--prompt-ids|1,5,9,12,30,7,5,9,11,2,3,9|-n|2", "", false);
}

// Heads that the run changes are stored in every layer: weights and values do not give them.
Test(view, has_the_heads_that_a_run_changes) {
    check_against_trace(small_model(), RUN "|--ablate|L2.H1", "|--layers|0", false);
    PageFile p = view(small_model(), RUN "|--ablate|L2.H1|--layers|0");
    const json_t *stage = stage_of(&p, "2.att_heads");
    CHECK(json_is_true(json_object_get(stage, "exact")));
    float *values = stage_values(&p, stage);
    for (size_t i = 0; i < TOKENS * 192; i++)
        CHECK(i % 192 / 32 != 1 || values[i] == 0, "element %zu", i);
    free(values);
    close_page(&p);
}

// Of each layer, a bit for each key of the lower triangle.
Test(view, says_which_keys_a_pattern_hides) {
    enum { BYTES = (TOKENS * (TOKENS + 1) / 2 + 7) / 8 };
    size_t size = 0;
    PageFile p = view(small_model(), RUN);
    CHECK(!block(&p, "hidden", &size), "nothing is hidden");
    close_page(&p);
    p = view(small_model(), RUN "|--pattern|local:4");
    uint8_t *bits = block(&p, "hidden", &size);
    CHECK(bits && size == 6 * BYTES, "%zu bytes", size);
    for (size_t l = 0; l < 6; l++)
        for (size_t q = 0, at = 0; q < TOKENS; q++)
            for (size_t k = 0; k <= q; k++, at++)
                CHECK((bits[l * BYTES + at / 8] >> at % 8 & 1) == (q - k > 2), "%zu, %zu", q, k);
    free(bits);
    close_page(&p);
}

// ---- predictions ----

// Logits (T, vocab) of the trace.
static float *logits_of(const SafetensorsFile *trace, size_t rows, size_t *vocab_size) {
    const SafetensorsTensor *t = safetensors_find(trace, "logits");
    if (!t) t = safetensors_find(trace, "lm_head");
    *vocab_size = t->plan.shape[1];
    return trace_values(trace, t->plan.name, rows, *vocab_size);
}

static double log_sum(const float *logits, size_t count, double below, double temperature) {
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        if ((double)logits[i] < below) sum += exp((double)logits[i] / temperature);
    return log(sum);
}

Test(view, candidates_and_the_rest_are_all_of_the_logits) {
    PageFile p = view(small_model(), RUN);
    SafetensorsFile trace = traced(small_model(), RUN);
    size_t vocab_size, size, count = 512;
    float *logits = logits_of(&trace, TOKENS, &vocab_size);
    uint32_t *ids = (uint32_t *)(void *)floats(&p, "topIds", TOKENS * count);
    float *top = floats(&p, "topLogits", TOKENS * count);
    double *rest = (double *)(void *)block(&p, "restLse", &size);
    CHECK_INT(size, TOKENS * 40 * sizeof *rest);
    for (size_t t = 0; t < TOKENS; t++) {
        const float *row = logits + t * vocab_size;
        for (size_t k = 0; k < count; k++) {
            CHECK(top[t * count + k] == row[ids[t * count + k]], "token %zu, candidate %zu", t, k);
            CHECK(!k || top[t * count + k] <= top[t * count + k - 1]);
        }
        double last = (double)top[t * count + count - 1];
        for (int i = 0; i < 40; i++)
            CHECK_NEAR(rest[t * 40 + (size_t)i], log_sum(row, vocab_size, last, (i + 1) * 0.05),
                       1e-9 * fabs(rest[t * 40 + (size_t)i]));
        if (!t) continue;
        const float *before = row - vocab_size;
        size_t id = (size_t)json_integer_value(json_array_get(json_object_get(p.core, "ids"), t));
        double surprise = (log_sum(before, vocab_size, INFINITY, 1) - (double)before[id]) / M_LN2;
        CHECK_NEAR(json_number_value(json_array_get(json_object_get(p.core, "surprise"), t)),
                   surprise, 1e-5);
    }
    free(ids);
    free(top);
    free(rest);
    free(logits);
    safetensors_close(&trace);
    close_page(&p);
}

// Of the same ids perplexity says the mean.
Test(view, surprise_is_what_perplexity_averages) {
    PageFile p = view(small_model(), IDS);
    const char *ids = test_temporary("ids.txt");
    test_write_file(ids, "1 403 407 261 390 407\n", 22);
    TestRun r = program("perplexity|%s|--ids|%s|--json", small_model(), ids);
    check_status(&r, 0);
    char value[4000];
    double sum = 0;
    for (size_t t = 1; t < 6; t++)
        sum += json_number_value(json_array_get(json_object_get(p.core, "surprise"), t));
    CHECK_NEAR(sum / 5 * M_LN2, atof(json_value(value, r.out, "mean_nll")), 1e-5);
    test_run_free(&r);
    close_page(&p);
}

static double number_of(const json_t *object, const char *key) {
    return json_number_value(json_object_get(object, key));
}

static json_t *json_of(TestRun *r) {
    check_status(r, 0);
    json_error_t problem;
    json_t *root = json_loads(r->out, 0, &problem);
    CHECK(root, "%s", problem.text);
    test_run_free(r);
    return root;
}

Test(view, lens_is_that_of_the_command_lens) {
    enum { N = 6, DEPTHS = 13, TOP = 10 };
    PageFile p = view(small_model(), IDS);
    TestRun r = program("lens|%s|" IDS "|--json|--top|10", small_model());
    json_t *lens = json_of(&r);
    uint32_t *ids = (uint32_t *)(void *)floats(&p, "lensIds", DEPTHS * N * TOP);
    float *shares = floats(&p, "lensP", DEPTHS * N * TOP);
    float *numbers = floats(&p, "lensStat", DEPTHS * N * 4);
    size_t i, k;
    const json_t *cell, *token;
    json_array_foreach(json_object_get(lens, "cells"), i, cell) {
        bool ffn = !strcmp(text_of(cell, "half"), "ffn");
        size_t depth = 1 + 2 * (size_t)integer_of(cell, "layer") + ffn;
        size_t at = depth * N + (size_t)integer_of(cell, "position");
        CHECK(numbers[4 * at] == (float)number_of(cell, "entropy_bits"), "cell %zu", i);
        CHECK(numbers[4 * at + 1] == (float)number_of(cell, "kl_bits"), "cell %zu", i);
        CHECK(numbers[4 * at + 2] == (float)number_of(cell, "probability_of_winner"), "%zu", i);
        CHECK((int64_t)numbers[4 * at + 3] == integer_of(cell, "rank_of_winner"), "cell %zu", i);
        json_array_foreach(json_object_get(cell, "top"), k, token) {
            CHECK_INT(ids[at * TOP + k], integer_of(token, "id"));
            CHECK(shares[at * TOP + k] == (float)number_of(token, "probability"), "cell %zu", i);
        }
    }
    CHECK_INT(i, (DEPTHS - 1) * N);
    free(ids);
    free(shares);
    free(numbers);
    json_decref(lens);
    close_page(&p);
}

// ---- heads and parts ----

// The mean of number `which` of the rows from `first` on, those without it left out; NaN of none.
static double mean_of_rows(const float *numbers, size_t which, size_t first, size_t n) {
    double sum = 0, count = 0;
    for (size_t t = first; t < n; t++) {
        double x = (double)numbers[4 * t + which];
        if (!isnan(x)) sum += x, count++;
    }
    return sum / count;
}

static void check_heads(const char *model, const char *options, size_t layers, size_t heads,
                        size_t n) {
    size_t count = layers * heads;
    PageFile p = view(model, options);
    float *numbers = floats(&p, "headStat", count * n * 4);
    TestRun r = program("attention|%s|%s|--entropy|--json", model, options);
    json_t *all = json_of(&r);
    for (size_t h = 0; h < count; h++) {
        const json_t *head = json_array_get(all, h);
        const float *rows = numbers + h * n * 4;
        CHECK(isnan(rows[1]) && rows[2] == 1, "the first token sees itself alone");
        CHECK_NEAR(mean_of_rows(rows, 0, 0, n), number_of(head, "entropy_bits"), 1e-5);
        CHECK_NEAR(mean_of_rows(rows, 1, 0, n), number_of(head, "share_of_maximum"), 1e-5);
        CHECK_NEAR(mean_of_rows(rows, 2, 1, n), number_of(head, "first_token"), 1e-5);
        CHECK_NEAR(mean_of_rows(rows, 3, 0, n), number_of(head, "mean_distance"), 1e-5);
    }
    json_decref(all);
    free(numbers);
    close_page(&p);
}

Test(view, heads_have_the_statistics_of_the_command_attention) {
    check_heads(small_model(), IDS, 6, 6, 6);
    const char *windowed = test_reference_model("mistral-window8");
    PageFile p = view(windowed, "--prompt-ids|1,5,9,12,30,7,5,9,11,2,3,9,20,21");
    size_t layers = (size_t)integer_of(p.core, "layers"),
           heads = (size_t)integer_of(p.core, "heads");
    close_page(&p);
    check_heads(windowed, "--prompt-ids|1,5,9,12,30,7,5,9,11,2,3,9,20,21", layers, heads, 14);
}

Test(view, weights_and_one_number_of_a_row_give_the_scores_of_the_command_attention) {
    enum { N = 6, HEADS = 36, PAIRS = N * (N + 1) / 2 };
    PageFile p = view(small_model(), IDS);
    float *sums = floats(&p, "scoreLse", HEADS * N);
    TestRun r = program("attention|%s|" IDS "|--stage|scaled|--csv", small_model());
    check_status(&r, 0);
    int layer, head, query, key, length, rows = 0;
    double score;
    for (const char *at = strchr(r.out, '\n') + 1;
         sscanf(at, "%d,%d,%d,%d,%lf\n%n", &layer, &head, &query, &key, &score, &length) == 5;
         at += length, rows++) {
        char name[20];
        snprintf(name, sizeof name, "A%d", layer);
        float *weights = floats(&p, name, 6 * PAIRS);
        float weight = weights[head * PAIRS + query * (query + 1) / 2 + key];
        CHECK_NEAR(log((double)weight) + (double)sums[(layer * 6 + head) * N + query], score,
                   2e-5 * fmax(1, fabs(score)));
        free(weights);
    }
    CHECK_INT(rows, HEADS * PAIRS);
    test_run_free(&r);
    free(sums);
    close_page(&p);
}

// As many as `parts` names, and they add up to what the head gave, before a soft cap.
static void check_parts(const char *model, const char *options, size_t n) {
    PageFile p = view(model, options);
    SafetensorsFile trace = traced(model, options);
    const json_t *attribution = json_object_get(p.core, "attribution");
    size_t parts = json_array_size(json_object_get(attribution, "parts"));
    size_t vocab_size = safetensors_find(&trace, "lm_head")->plan.shape[1];
    float *logits = trace_values(&trace, "lm_head", n, vocab_size);
    float *dla = floats(&p, "dla", n * 5 * parts);
    for (size_t v = 0; v < n * 5; v++) {
        const json_t *targets = json_array_get(json_object_get(attribution, "targets"), v / 5);
        int64_t id = json_integer_value(json_array_get(targets, v % 5));
        double sum = 0;
        for (size_t i = 0; i < parts; i++)
            sum += (double)dla[v * parts + i];
        CHECK_NEAR(sum, logits[v / 5 * vocab_size + (size_t)id], 1e-3);
    }
    free(dla);
    free(logits);
    safetensors_close(&trace);
    close_page(&p);
}

Test(view, parts_add_up_to_the_logits) {
    static const char *const FAMILIES[] = {"gemma3",   "olmo2",  "qwen3",   "gpt2",
                                           "nanochat", "gemma2", "granite", "gpt_neox"};
    check_parts(small_model(), RUN "|--precision|f32", TOKENS);
    for (size_t i = 0; i < sizeof FAMILIES / sizeof *FAMILIES; i++)
        check_parts(test_reference_model(FAMILIES[i]),
                    "--prompt-ids|1,5,9,12,30|-n|2|--precision|f32", 7);
}

static double rms(const float *x, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)x[i];
    return sqrt(sum / (double)n);
}

// From the stages of the trace and the rows of wo.
Test(view, the_river_is_the_size_of_what_the_trace_has) {
    enum { LAYER = 2, HEAD = 3, T = 4, DIM = 192, HEAD_DIM = 32 };
    PageFile p = view(small_model(), RUN);
    SafetensorsFile trace = traced(small_model(), RUN);
    Checkpoint *checkpoint = NULL;
    Error error = {0};
    CHECK(checkpoint_open(&checkpoint, small_model(), &error), "%s", error.message);
    float *in = trace_values(&trace, "model.layers.1", TOKENS, DIM);
    float *out = trace_values(&trace, "model.layers.2.self_attn.o_proj", TOKENS, DIM);
    float *heads = trace_values(&trace, "model.layers.2.self_attn.heads", TOKENS, DIM);
    float *flow = floats(&p, "flow", 6 * TOKENS * 7),
          *norms = floats(&p, "headNorm", 6 * TOKENS * 6);
    const float *here = flow + (LAYER * TOKENS + T) * 7, *a = in + T * DIM, *b = out + T * DIM;
    double cosine = 0, squares = 0;
    for (size_t i = 0; i < DIM; i++) {
        float row[DIM];
        double sum = 0;
        cosine += (double)a[i] * (double)b[i] / DIM / rms(a, DIM) / rms(b, DIM);
        matrix_row(row, &checkpoint_weights(checkpoint)->layers[LAYER].wo, i);
        for (size_t j = HEAD * HEAD_DIM; j < (HEAD + 1) * HEAD_DIM; j++)
            sum += (double)row[j] * (double)heads[T * DIM + j];
        squares += sum * sum;
    }
    CHECK_NEAR(here[0], rms(a, DIM), 1e-6 * rms(a, DIM));
    CHECK_NEAR(here[1], rms(b, DIM), 1e-6 * rms(b, DIM));
    CHECK_NEAR(here[5], cosine, 1e-6);
    CHECK_NEAR(norms[(LAYER * TOKENS + T) * 6 + HEAD], sqrt(squares / DIM), 1e-5);
    free(in);
    free(out);
    free(heads);
    free(flow);
    free(norms);
    checkpoint_close(checkpoint);
    safetensors_close(&trace);
    close_page(&p);
}

// ---- weights ----

static void check_matrix(const PageFile *p, const json_t *weight, const Matrix *m) {
    size_t rows = (size_t)json_integer_value(json_array_get(json_object_get(weight, "shape"), 0));
    size_t columns =
        (size_t)json_integer_value(json_array_get(json_object_get(weight, "shape"), 1));
    size_t size, group = (size_t)integer_of(weight, "group");
    CHECK(rows == m->rows && columns == m->cols, "%zu x %zu", rows, columns);
    uint8_t *bytes = block(p, text_of(weight, "block"), &size);
    CHECK_STRING(text_of(weight, "coding"), "q8");
    float *row = malloc(columns * sizeof *row), *scales = (float *)(void *)bytes;
    const int8_t *integers = (const int8_t *)bytes + rows * columns / group * 4;
    for (size_t i = 0; i < rows * columns; i++) {
        if (i % columns == 0) matrix_row(row, m, i / columns);
        float value = (float)integers[i] * scales[i / group];
        CHECK(value == row[i % columns], "%s, element %zu", text_of(weight, "name"), i);
    }
    free(row);
    free(bytes);
}

Test(view, the_built_in_model_has_every_weight) {
    need_builtin();
    PageFile p = view("builtin", IDS);
    Checkpoint *checkpoint = NULL;
    Error error = {0};
    CHECK(checkpoint_open(&checkpoint, "builtin", &error), "%s", error.message);
    const Weights *w = checkpoint_weights(checkpoint);
    size_t i, numbers = 0, found = 0;
    const json_t *weight;
    json_array_foreach(json_object_get(p.core, "weights"), i, weight) {
        const char *name = text_of(weight, "name");
        const json_t *shape = json_object_get(weight, "shape");
        numbers += (size_t)(json_integer_value(json_array_get(shape, 0)) *
                            json_integer_value(json_array_get(shape, 1)));
        const Matrix *m = !strcmp(name, "token_embedding")   ? &w->token_embedding
                          : !strcmp(name, "layers.3.wk")     ? &w->layers[3].wk
                          : !strcmp(name, "layers.5.w_down") ? &w->layers[5].w_down
                          : !strcmp(name, "head")            ? &w->head
                                                             : NULL;
        if (m) check_matrix(&p, weight, m), found++;
    }
    CHECK_INT(found, 4);
    CHECK(numbers >= (size_t)integer_of(json_object_get(p.core, "model"), "parameters"), "%zu",
          numbers);
    checkpoint_close(checkpoint);
    close_page(&p);
}

// ---- a hostile vocabulary ----

// A tokenizer.bin of as many tokens as the built-in model has: these are 3, 4, ...
static const char *hostile_tokenizer(const char *const *pieces, const size_t *lengths,
                                     size_t count) {
    char *bytes = calloc(2048, 80);
    size_t at = 4;
    uint32_t longest = 40;
    memcpy(bytes, &longest, 4);
    for (uint32_t i = 0; i < 2048; i++) {
        char made[20];
        bool given = i >= 3 && i < 3 + count;
        const char *text = given ? pieces[i - 3] : made;
        snprintf(made, sizeof made, i == 0 ? "<unk>" : i == 1 ? "<s>" : i == 2 ? "</s>" : "w%u", i);
        uint32_t length = (uint32_t)(given ? lengths[i - 3] : strlen(made));
        memcpy(bytes + at + 4, &length, 4);
        memcpy(bytes + at + 8, text, length);
        at += 8 + length;
    }
    const char *path = test_temporary("hostile.bin");
    test_write_file(path, bytes, at);
    free(bytes);
    return path;
}

Test(view, pieces_of_a_hostile_vocabulary_stay_inside_the_core) {
    static const char *const PIECES[] = {"</script><b>", "a\xff\xe2\x82", "x\u2028y",
                                         "<!--",         "\"\\\n\t\x01",  "<ScRiPt>"};
    static const char *const SHOWN[] = {"</script><b>", "a\\xFF\\xE2\\x82", "x\u2028y",
                                        "<!--",         "\"\\\n\t\x01",     "<ScRiPt>"};
    size_t lengths[6], length = 0;
    for (size_t i = 0; i < 6; i++)
        lengths[i] = strlen(PIECES[i]);
    char options[400];
    snprintf(options, sizeof options, "-z|%s|--prompt-ids|1,3,4,5,6,7,8",
             hostile_tokenizer(PIECES, lengths, 6));
    PageFile p = view(small_model(), options);
    const json_t *pieces = json_object_get(p.core, "pieces");
    for (size_t i = 0; i < 6; i++) {
        char id[8];
        snprintf(id, sizeof id, "%zu", i + 3);
        CHECK_STRING(text_of(pieces, id), SHOWN[i]);
    }
    const char *core = between(p.text, "id=\"core\">", "</script>", &length);
    CHECK(!memchr(core, '<', length), "a < in the core");
    CHECK(!memmem(core, length, "\u2028", 3), "a line separator in the core");
    close_page(&p);
}

// ---- traces ----

static PageFile view_traces(const char *a, const char *b, const char *more) {
    const char *path = test_temporary("traces.html");
    TestRun r =
        program("view|%s%s%s|-q|--force|--out|%s%s", a, b ? "|" : "", b ? b : "", path, more);
    check_status(&r, 0);
    test_run_free(&r);
    return open_page(path);
}

// Its tokens would have other texts.
Test(view, a_tokenizer_of_a_larger_vocabulary_is_refused) {
    char *trace = write_trace(test_reference_model("llama"), "--prompt-ids|1,5,9", "vocab.st");
    TestRun r =
        program("view|%s|--out|%s|-z|%s", trace, test_temporary("vocab.html"), small_model());
    check_refused(&r, ERROR_FILE, "the tokenizer has 2048 tokens, the model only");
    free(trace);
}

Test(view, a_trace_gives_a_page_with_all_of_its_tensors) {
    static const char *const FAMILIES[] = {"gemma3",   "olmo2",   "gpt2",
                                           "nanochat", "granite", "gpt_neox"};
    for (size_t i = 0; i < 1 + sizeof FAMILIES / sizeof *FAMILIES; i++) {
        const char *model = i ? test_reference_model(FAMILIES[i - 1]) : small_model();
        char *path =
            write_trace(model, "--attention|--prompt-ids|1,5,9,12,30,5", "page.safetensors");
        SafetensorsFile trace = open_trace(path);
        PageFile p = view_traces(path, NULL, "");
        CHECK_STRING(text_of(p.core, "kind"), "trace");
        check_ids(&p, &trace);
        check_weights(&p, &trace, false);
        size_t layers = (size_t)integer_of(p.core, "layers");
        bool capped = safetensors_find(&trace, "logits");
        size_t stages = json_array_size(json_object_get(p.core, "stages"));
        // Without ids, weights and logits, of which a trace may have them before a change too.
        CHECK_INT(stages, trace.count - 2 - layers);
        CHECK_INT(check_stages(&p, &trace), stages);
        stage_of(&p, "1.ffn_out"); // names of this family are known
        stage_of(&p, "1.att_residual");
        stage_of(&p, "embedding");
        bool post_norms = i == 1 || i == 2; // Gemma 3, OLMo 2
        if (post_norms || strstr(model, "granite")) stage_of(&p, "1.att_projected");
        bool norm = strstr(text_of(stage_of(&p, "1.att_out"), "name"), "layernorm");
        CHECK(norm == post_norms, "%s", model);
        CHECK(json_is_true(json_object_get(p.core, "river")), "%s", model);
        CHECK(json_object_get(p.core, "candidates"), "%s %d", model, capped);
        close_page(&p);
        safetensors_close(&trace);
        free(path);
    }
}

// Unknown names, other shapes and types, a stream that is no sum, no metadata, ids without a text.
Test(view, a_trace_of_another_program_gives_what_it_has) {
    static const int64_t ids[] = {5, 900, 5};
    static const float a[] = {1, 2, 3, 4, 5, 6}, b[] = {10, 20, 30, 40, 50, INFINITY},
                       wrong[] = {11, 22, 33, 44, 55.5f, 66}, other[] = {7, 8};
    static const uint16_t narrow[] = {0x3f80, 0xbf80, 0x4000, 0x7fc0, 0, 0x8000}; // bfloat16
    static const uint8_t odd[3] = {1, 2, 3};
    const WriterTensor TENSORS[] = {
        {"input_ids", "I64", 1, {3}, ids, sizeof ids},
        {"model.embed_tokens", "F32", 2, {3, 2}, a, sizeof a},
        {"model.layers.0.self_attn.o_proj", "F32", 2, {3, 2}, b, sizeof b},
        {"model.layers.0.attn_residual", "F32", 2, {3, 2}, wrong, sizeof wrong},
        {"model.layers.0.mlp.down_proj", "BF16", 2, {3, 2}, narrow, sizeof narrow},
        {"model.layers.00.mlp.down_proj", "F32", 2, {3, 2}, a, sizeof a},
        {"</script>\xe2\x80\xa8", "F32", 2, {3, 2}, a, sizeof a},
        {"other.rows", "F32", 2, {1, 2}, other, sizeof other},
        {"bytes", "U8", 1, {3}, odd, sizeof odd},
    };
    size_t size = 0, length = 0;
    char *bytes = safetensors_bytes(&size, TENSORS, sizeof TENSORS / sizeof *TENSORS, 0);
    const char *path = test_temporary("foreign.safetensors");
    test_write_file(path, bytes, size);
    PageFile p = view_traces(path, NULL, "");
    CHECK_INT(json_array_size(json_object_get(p.core, "stages")), 6);
    CHECK_STRING(text_of(stage_of(&p, "0.att_residual"), "coding"), "f32");
    float *got = stage_values(&p, stage_of(&p, "0.att_residual"));
    CHECK(!memcmp(got, wrong, sizeof wrong));
    free(got);
    got = stage_values(&p, stage_of(&p, "0.ffn_out"));
    CHECK(got[0] == 1 && got[1] == -1 && got[2] == 2 && isnan(got[3]) && signbit(got[5]));
    free(got);
    const json_t *stats = json_object_get(stage_of(&p, "0.att_out"), "stats");
    CHECK_INT(json_integer_value(json_array_get(stats, 4)), 1);
    stage_of(&p, "model.layers.00.mlp.down_proj"); // the second of its name has none
    CHECK(json_is_null(json_object_get(p.core, "heads")) && !json_object_get(p.core, "candidates"));
    const char *core = between(p.text, "id=\"core\">", "</script>", &length);
    CHECK(!memchr(core, '<', length), "a < in the core");
    close_page(&p);
    free(bytes);
}

// Layer 2's att_norm has a NaN weight, as in test_trace.c.
Test(view, values_that_are_not_finite_are_on_the_page_of_a_trace) {
    char *model = made_model();
    const char *path = test_temporary("nan.safetensors");
    size_t size = 0;
    char *bytes = test_read_file(model, &size);
    float nan = NAN;
    memcpy(bytes + 28 + sizeof nan * (60 * 24 + 2 * 24 + 5), &nan, sizeof nan);
    test_write_file(model, bytes, size);
    TestRun r = program("trace|%s|--attention|--prompt-ids|1,2|-q|--force|-o|%s", model, path);
    check_status(&r, ERROR_NONFINITE);
    test_run_free(&r);
    PageFile p = view_traces(path, NULL, "");
    const json_t *norm = stage_of(&p, "2.att_norm");
    float *values = stage_values(&p, norm);
    for (size_t i = 0; i < 24; i++)
        CHECK(isnan(values[i]) == (i == 5), "element %zu", i);
    CHECK_INT(json_integer_value(json_array_get(json_object_get(norm, "stats"), 3)), 2);
    CHECK(!json_object_get(p.core, "candidates"), "of logits that are NaN");
    free(values);
    close_page(&p);
    r = program("view|%s|--prompt-ids|1,2|-q|-o|%s", model, test_temporary("none.html"));
    check_refused(&r, ERROR_NONFINITE, "holds nan");
    free(bytes);
    free(model);
}

Test(view, two_traces_show_the_first_difference_that_diff_names) {
    char *a = write_trace(small_model(), IDS "|--precision|f32", "a.safetensors");
    char *b = write_trace(small_model(), IDS "|--precision|a8", "b.safetensors");
    TestRun r = program("diff|%s|%s|--json", a, b);
    char name[4000], first[4000];
    snprintf(first, sizeof first, "%s", json_value(name, r.out, "name"));
    int64_t over = atoi(json_value(name, r.out, "over"));
    test_run_free(&r);
    PageFile p = view_traces(a, b, "");
    CHECK_STRING(text_of(p.core, "kind"), "diff");
    const json_t *diff = json_object_get(p.core, "diff"), *entry, *shown;
    if (over) {
        shown = stage_of(&p, text_of(diff, "first"));
        CHECK(strstr(first, text_of(shown, "name")), "%s", first);
    } else {
        CHECK(json_is_null(json_object_get(diff, "first")));
    }
    size_t i;
    SafetensorsFile file_a = open_trace(a), file_b = open_trace(b);
    json_array_foreach(json_object_get(diff, "entries"), i, entry) {
        const char *id = text_of(entry, "id");
        bool logits = !strcmp(id, "logits"), weights = strstr(id, "attn_weights");
        CHECK_STRING(text_of(entry, "view"), logits ? "sampler" : weights ? "head" : "tensor");
        if (strcmp(id, "3.ffn_out")) continue;
        CHECK_INT(integer_of(entry, "layer"), 3);
        float *x = trace_values(&file_a, "model.layers.3.mlp.fc2", 6, 192);
        float *y = trace_values(&file_b, "model.layers.3.mlp.fc2", 6, 192), most = 0;
        for (size_t j = 0; j < 6 * 192; j++)
            most = fmaxf(most, fabsf(x[j] - y[j]));
        CHECK_NEAR(number_of(entry, "maxAbs"), most, 1e-6 * (double)most);
        free(x);
        free(y);
    }
    CHECK(i > 60, "%zu entries", i);
    safetensors_close(&file_a);
    safetensors_close(&file_b);
    close_page(&p);
    free(a);
    free(b);
}

// The entry of the tensor that has this name or is this stage.
static const json_t *entry_of(const PageFile *p, const char *id) {
    size_t i;
    const json_t *entry, *entries = json_object_get(json_object_get(p->core, "diff"), "entries");
    json_array_foreach(entries, i, entry) if (!strcmp(text_of(entry, "id"), id)) return entry;
    TEST_FAIL("no entry %s", id);
    return NULL;
}

// Equal values may have other bits; a tensor may be in one trace only, or have no difference.
Test(view, two_traces_say_what_was_compared) {
    static const int64_t ids[] = {5, 6};
    static const float a[] = {1, 0}, b[] = {1, -0.0f};
    static const uint16_t narrow[] = {0x3f80, 0}; // bfloat16
    const WriterTensor A[] = {
        {"input_ids", "I64", 1, {2}, ids, sizeof ids}, {"same", "F32", 2, {2, 1}, a, sizeof a},
        {"zero", "F32", 2, {2, 1}, a, sizeof a},       {"type", "F32", 2, {2, 1}, a, sizeof a},
        {"shape", "F32", 2, {2, 1}, a, sizeof a},      {"integers", "I64", 1, {2}, ids, sizeof ids},
        {"a", "F32", 2, {2, 1}, a, sizeof a},
    };
    const WriterTensor B[] = {
        {"input_ids", "I64", 1, {2}, ids, sizeof ids},
        {"same", "F32", 2, {2, 1}, a, sizeof a},
        {"zero", "F32", 2, {2, 1}, b, sizeof b},
        {"type", "BF16", 2, {2, 1}, narrow, sizeof narrow},
        {"shape", "F32", 2, {1, 2}, a, sizeof a},
        {"integers", "I64", 1, {2}, ids, sizeof ids},
        {"b", "F32", 2, {2, 1}, a, sizeof a},
        {"c", "F32", 2, {2, 1}, a, sizeof a},
    };
    static const struct {
        const char *id, *verdict;
        int same; // bits; -1: not said
    } WANTED[] = {{"same", "within", 1},
                  {"zero", "within", 0},
                  {"type", "within", 0},
                  {"shape", "other shape", -1},
                  {"integers", "not compared", -1}};
    const char *paths[] = {test_temporary("in-a.safetensors"), test_temporary("in-b.safetensors")};
    for (int i = 0; i < 2; i++) {
        size_t size = 0, count = i ? sizeof B / sizeof *B : sizeof A / sizeof *A;
        char *bytes = safetensors_bytes(&size, i ? B : A, count, 0);
        test_write_file(paths[i], bytes, size);
        free(bytes);
    }
    PageFile p = view_traces(paths[0], paths[1], "");
    const json_t *diff = json_object_get(p.core, "diff");
    CHECK_INT(integer_of(diff, "onlyA"), 1);
    CHECK_INT(integer_of(diff, "onlyB"), 2);
    for (size_t i = 0; i < sizeof WANTED / sizeof *WANTED; i++) {
        const json_t *entry = entry_of(&p, WANTED[i].id);
        const json_t *same = json_object_get(entry, "sameBits");
        CHECK_STRING(text_of(entry, "verdict"), WANTED[i].verdict);
        CHECK((same ? json_is_true(same) : -1) == WANTED[i].same, "%s", WANTED[i].id);
        CHECK_INT(integer_of(entry, "layer"), -1);
    }
    CHECK(json_is_null(json_object_get(entry_of(&p, "integers"), "view")));
    close_page(&p);
}

// ---- sizes, refusals ----

Test(view, a_page_of_smollm2_is_within_its_budget) {
    const char *model = test_model_file("SmolLM2-135M-Instruct.Q4_1.gguf");
    static const struct {
        int tokens;
        size_t most;
    } BUDGETS[] = {{16, 6000000}, {64, 12000000}};
    for (size_t i = 0; i < 2; i++) {
        char options[1000] = "--prompt-ids|";
        for (int t = 0; t < BUDGETS[i].tokens; t++) // as different as in no text
            sprintf(options + strlen(options), "%s%d", t ? "," : "", 500 + 701 * t);
        PageFile p = view(model, options);
        CHECK_INT(json_array_size(json_object_get(p.core, "ids")), BUDGETS[i].tokens);
        printf("%d tokens of SmolLM2: %zu bytes of %zu\n", BUDGETS[i].tokens, p.size,
               BUDGETS[i].most);
        CHECK(p.size <= BUDGETS[i].most, "%zu bytes", p.size);
        close_page(&p);
    }
}

static void refused(const char *options, int status, const char *because) {
    TestRun r = program_input(options, NULL, 0);
    check_refused(&r, status, because);
}

Test(view, refuses_what_it_cannot_show) {
    const char *out = test_temporary("refused.html");
    char *trace = write_trace(small_model(), IDS, "r.safetensors");
    char *longer = write_trace(small_model(), IDS "|-n|1", "longer.safetensors");
    char line[2000];
    const struct {
        const char *format, *because;
        int status;
    } CASES[] = {
        {"view|%s|-i|a", "--out FILE is needed", ERROR_USAGE},
        {"view|%s|-i|a|-o|%s|--layers|6", "layers 0 .. 5", ERROR_USAGE},
        {"view|%s|-i|a|-o|%s|--layers|3-1", "layers 0 .. 5", ERROR_USAGE},
        {"view|%s|-i|a|-o|%s|--layers|1,", "layers 0 .. 5", ERROR_USAGE},
        {"view|%s|-i|a|-o|%s|-n|512", "context is 512", ERROR_USAGE},
        {"view|%s|-i|a|-f|Makefile|-o|%s", "one of -i, -f", ERROR_USAGE},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        snprintf(line, sizeof line, CASES[i].format, small_model(), out);
        refused(line, CASES[i].status, CASES[i].because);
    }
    snprintf(line, sizeof line, "view|%s|-i|a|-o|%s", trace, out);
    refused(line, ERROR_USAGE, "a trace has its tokens");
    snprintf(line, sizeof line, "view|%s|%s|-o|%s", trace, longer, out);
    refused(line, ERROR_ANSWER_NO, "different tokens from position 6");
    snprintf(line, sizeof line, "view|%s|-o|%s|--budget|0", trace, out);
    refused(line, ERROR_USAGE, "--budget is of two traces");
    snprintf(line, sizeof line, "view|%s|%s|-o|%s", trace, small_model(), out);
    refused(line, ERROR_FILE, "builtin");
    snprintf(line, sizeof line, "view|%s|-o|%s|--force", trace, trace);
    refused(line, ERROR_USAGE, "r.safetensors");
    snprintf(line, sizeof line, "view|%s|%s|-o|%s|--force", trace, longer, longer);
    refused(line, ERROR_USAGE, "longer.safetensors");
    CHECK(access(out, F_OK), "a file was left behind");
    test_write_file(out, "mine", 4);
    snprintf(line, sizeof line, "view|%s|-i|a|-o|%s", small_model(), out);
    refused(line, ERROR_USAGE, "--force");
    free(trace);
    free(longer);
}

// 511 tokens of the built-in model are seconds of work.
Test(view, ctrl_c_leaves_no_file) {
    const char *out = test_temporary("interrupted.html");
    char line[600];
    snprintf(line, sizeof line, "view|%s|-i|a|-n|500|-v|-o|%s", small_model(), out);
    TestRun r = program_interrupted(line, "context");
    CHECK_INT(r.status, 130);
    CHECK(access(out, F_OK), "a file was left behind");
    test_run_free(&r);
}
