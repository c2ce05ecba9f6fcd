// attention: what each token attends to, as pictures in the terminal, SVG or PNG, or as numbers.
//
//   options -> prompt -> model -> attention_capture: (T, T) matrices of the chosen layers and heads
//     -> over layers: none | mean | rollout -> list of HeadMatrix
//     -> picture | files | CSV | JSON | table of entropies
//   --explain: prompt -> model -> explanation_compute -> table | CSV | JSON
//   --rope: attention_rope, a run of its own
#include "commands/attention/attention.h"
#include "commands/attention/explain.h"
#include "commands/commands.h"
#include "commands/shared/output.h"
#include "commands/shared/prompt.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_TOP = 10 };
typedef enum Grid { GRID_HEADS, GRID_LAYERS } Grid; // in the order of --grid

// ---- which matrices ----

static bool check_explain(const Options *o, Error *error) {
    if (!option_given(o, OPTION_EXPLAIN))
        return !option_given(o, OPTION_TOP) ||
               error_set(error, ERROR_USAGE, "--top is of --explain");
    if (!option_given(o, OPTION_LAYER) || !option_given(o, OPTION_HEAD))
        return error_set(error, ERROR_USAGE, "--explain is of one head: --layer L --head H");
    if (o->mean || o->rollout || o->entropy || o->stage != ATTENTION_WEIGHTS ||
        option_given(o, OPTION_GRID))
        return error_set(error, ERROR_USAGE,
                         "--explain is of one head, without --mean, --rollout, --grid, --stage and "
                         "--entropy");
    if (o->svg || o->png)
        return error_set(error, ERROR_USAGE, "--svg and --png are pictures, --explain is a table");
    return true;
}

static bool check_options(const Options *o, Error *error) {
    bool layer = option_given(o, OPTION_LAYER), head = option_given(o, OPTION_HEAD);
    bool grid = option_given(o, OPTION_GRID);
    if (o->mean && o->rollout)
        return error_set(error, ERROR_USAGE, "--mean and --rollout exclude each other");
    if ((o->mean || o->rollout) && head)
        return error_set(error, ERROR_USAGE, "--head chooses one head, --%s is over all of them",
                         o->mean ? "mean" : "rollout");
    if (o->rollout && (grid || o->stage != ATTENTION_WEIGHTS))
        return error_set(error, ERROR_USAGE, "--rollout is one matrix, of --stage weights");
    if (o->entropy && o->stage != ATTENTION_WEIGHTS)
        return error_set(error, ERROR_USAGE, "--entropy is of --stage weights");
    if (grid && o->grid == GRID_HEADS && (!layer || head || o->mean))
        return error_set(error, ERROR_USAGE, "--grid heads is all heads of a layer: --layer L");
    if (grid && o->grid == GRID_LAYERS && (layer || (!head && !o->mean)))
        return error_set(error, ERROR_USAGE,
                         "--grid layers is one head over all layers: --head H, or --mean");
    if (o->csv && o->json) return error_set(error, ERROR_USAGE, "--csv and --json: one of them");
    if (option_given(o, OPTION_MASK_SEQ))
        return error_set(error, ERROR_USAGE, "--seq is of --rope");
    return check_explain(o, error);
}

bool attention_check_range(const Options *o, const Config *c, Error *error) {
    if (option_given(o, OPTION_LAYER) && o->layer >= c->n_layers)
        return error_set(error, ERROR_USAGE,
                         "--layer: got %" PRId64 ", the model has layers 0 .. %d", o->layer,
                         c->n_layers - 1);
    if (option_given(o, OPTION_HEAD) && o->head >= c->n_heads)
        return error_set(error, ERROR_USAGE, "--head: got %" PRId64 ", the model has heads 0 .. %d",
                         o->head, c->n_heads - 1);
    return true;
}

static bool check_position(const Options *o, size_t n, Error *error) {
    int64_t count = (int64_t)n;
    if (!option_given(o, OPTION_EXPLAIN) || (o->explain < count && o->explain >= -count))
        return true;
    return error_set(error, ERROR_USAGE,
                     "--explain: got %" PRId64 ", the prompt has positions 0 .. %" PRId64
                     ", or -%" PRId64 " .. -1 from its end",
                     o->explain, count - 1, count);
}

// One picture of a whole model can only be a mean.
static bool is_mean(const Options *o) {
    bool numbers = o->csv || o->json || o->entropy;
    return o->mean || o->rollout ||
           (!numbers && !option_given(o, OPTION_LAYER) && !option_given(o, OPTION_HEAD));
}

// Which matrices are kept. Rollout needs all heads of every layer up to --layer.
static void choose(AttentionCapture *c, const Options *o, const Config *config) {
    bool layer = option_given(o, OPTION_LAYER), head = option_given(o, OPTION_HEAD);
    c->first_layer = layer && !o->rollout ? (int)o->layer : 0;
    c->n_layers = layer ? (o->rollout ? (int)o->layer + 1 : 1) : config->n_layers;
    c->first_head = head ? (int)o->head : 0;
    c->n_heads = head ? 1 : config->n_heads;
    c->mean = is_mean(o);
}

// Whether the matrices of the layers become one.
static bool joins_layers(const AttentionCapture *c) {
    const Options *o = c->session->options;
    return o->rollout ||
           (c->mean && !option_given(o, OPTION_LAYER) && !option_given(o, OPTION_GRID));
}

// ---- over layers ----

// The mean over the layers, into the first one's matrix. A key that some layers hide has weight 0
// there, so that the weights of a query still add up to 1; it has no score there, so that the mean
// of scores is over the other layers.
static void mean_of_layers(const AttentionCapture *c) {
    size_t cells = c->tokens->count * c->tokens->count;
    bool weights = c->stage == ATTENTION_WEIGHTS;
    float *out = attention_matrix(c, c->first_layer, 0);
    for (size_t i = 0; i < cells; i++) {
        double sum = 0;
        int seen = 0;
        for (int l = 0; l < c->n_layers; l++) {
            float value = attention_matrix(c, c->first_layer + l, 0)[i];
            if (!isnan(value)) sum += (double)value, seen++;
        }
        out[i] = seen ? (float)(sum / (weights ? c->n_layers : seen)) : NAN;
    }
}

// A hidden key has weight 0.
static double without_nan(float value) {
    return isnan(value) ? 0.0 : (double)value;
}

// Attention rollout (Abnar and Zuidema 2020, arXiv 2005.00928): the product of the layers' matrices
// (W + I) / 2, the last one on the left, W the mean of the heads. Into the first layer's matrix.
static bool roll_out(const AttentionCapture *c, Error *error) {
    size_t n = c->tokens->count;
    double *rolled = calloc(2 * n * n, sizeof *rolled);
    if (!rolled) return error_set(error, ERROR_MEMORY, "no memory for %zu x %zu weights", n, n);
    double *next = rolled + n * n;
    for (size_t i = 0; i < n; i++)
        rolled[i * n + i] = 1;
    for (int l = 0; l < c->n_layers; l++) {
        const float *w = attention_matrix(c, l, 0);
        memset(next, 0, n * n * sizeof *next);
        for (size_t q = 0; q < n; q++)
            for (size_t k = 0; k <= q; k++) {
                double a = (without_nan(w[q * n + k]) + (q == k)) / 2;
                for (size_t t = 0; t <= k; t++)
                    next[q * n + t] += a * rolled[k * n + t];
            }
        memcpy(rolled, next, n * n * sizeof *next);
    }
    float *out = attention_matrix(c, 0, 0);
    for (size_t q = 0; q < n; q++)
        for (size_t k = 0; k < n; k++)
            out[q * n + k] = k <= q ? (float)rolled[q * n + k] : NAN;
    free(rolled);
    return true;
}

// ---- the report ----

static void entitle(HeadMatrix *m) {
    char layer[24] = "all layers", head[24];
    if (m->layer >= 0) snprintf(layer, sizeof layer, "layer %d", m->layer);
    if (m->joined) snprintf(layer, sizeof layer, "layers 0-%d", m->joined - 1);
    snprintf(head, sizeof head,
             m->head == MEAN_OF_HEADS ? "mean of heads"
             : m->head == ROLLOUT     ? "rollout"
                                      : "head %d",
             m->head);
    snprintf(m->title, sizeof m->title, "%s, %s", layer, head);
}

// Fills `out` (n_layers x n_heads) and returns how many there are.
static size_t list_matrices(HeadMatrix *out, const AttentionCapture *c, const Options *o) {
    size_t count = 0;
    bool joined = joins_layers(c);
    for (int l = 0; l < (joined ? 1 : c->n_layers); l++)
        for (int h = 0; h < (c->mean ? 1 : c->n_heads); h++) {
            HeadMatrix *m = &out[count++];
            int layer = c->first_layer + l, head = c->first_head + h;
            *m = (HeadMatrix){.layer = joined ? ALL_LAYERS : layer,
                              .head = c->mean ? MEAN_OF_HEADS : head,
                              .values = attention_matrix(c, layer, head)};
            if (joined && c->n_layers < c->session->config->n_layers) m->joined = c->n_layers;
            if (o->rollout) m->head = ROLLOUT;
            entitle(m);
        }
    return count;
}

static bool print_report(const AttentionReport *r, Error *error) {
    const Options *o = r->options;
    bool files = picture_files_wanted(r->files);
    if (files && !attention_write_files(r, error)) return false;
    if (o->entropy) return attention_print_entropy(r, error);
    if (o->csv)
        attention_print_csv(r);
    else if (o->json)
        attention_print_json(r);
    else if (!files)
        return attention_print_picture(r, error);
    return true;
}

static bool report(const AttentionCapture *c, const PictureFiles *files, Error *error) {
    static const char *const TITLES[] = {"q . k", "scaled q . k", "attention weights"};
    const Session *s = c->session;
    HeadMatrix *matrices = malloc((size_t)c->n_layers * (size_t)c->n_heads * sizeof *matrices);
    char **labels = token_labels(s, c->tokens, error);
    bool good = labels && matrices;
    if (labels && !matrices) error_set(error, ERROR_MEMORY, "no memory for %d layers", c->n_layers);
    if (good) {
        AttentionReport r = {.options = s->options,
                             .files = files,
                             .matrices = matrices,
                             .n_matrices = list_matrices(matrices, c, s->options),
                             .n = c->tokens->count,
                             .ids = c->tokens->ids,
                             .labels = (const char *const *)labels,
                             .weights = c->stage == ATTENTION_WEIGHTS,
                             .title = TITLES[c->stage]};
        good = print_report(&r, error);
    }
    free(matrices);
    free(labels);
    return good;
}

static bool run_explain(Session *s, const IdList *tokens, Error *error) {
    const Options *o = s->options;
    Explanation e = {
        .session = s,
        .tokens = tokens,
        .layer = (int)o->layer,
        .head = (int)o->head,
        .position = (size_t)(o->explain < 0 ? o->explain + (int64_t)tokens->count : o->explain)};
    if (!explanation_compute(&e, error)) return false;
    bool good = true;
    if (o->csv)
        explanation_print_csv(&e);
    else if (o->json)
        explanation_print_json(&e);
    else
        good = explanation_print(&e, option_given(o, OPTION_TOP) ? (size_t)o->top : DEFAULT_TOP,
                                 error);
    explanation_free(&e);
    return good;
}

static bool run(Session *s, const PictureFiles *files, const IdList *tokens, Error *error) {
    if (option_given(s->options, OPTION_EXPLAIN)) return run_explain(s, tokens, error);
    const Options *o = s->options;
    AttentionCapture c = {.session = s, .tokens = tokens, .stage = (AttentionStage)o->stage};
    choose(&c, o, s->config);
    if (!attention_capture(&c, error)) return false;
    bool good = true;
    if (o->rollout)
        good = roll_out(&c, error);
    else if (joins_layers(&c))
        mean_of_layers(&c);
    good = good && report(&c, files, error);
    attention_capture_free(&c);
    return good;
}

bool attention_command(const Options *o, Error *error) {
    if (o->rope) return attention_rope(o, error);
    Session s = {0};
    IdList tokens = {0};
    PictureFiles files = {0};
    bool good =
        check_options(o, error) && check_prompt(o, error) && picture_files_open(&files, o, error) &&
        session_open(&s, o, error) && attention_check_range(o, s.config, error) &&
        prompt_encode(&tokens, &s, error) &&
        session_check_room("the prompt", tokens.count, config_longest_context(s.config), error) &&
        check_position(o, tokens.count, error);
    int n = (int)tokens.count;
    int rows = good ? session_rows(tokens.count, (size_t)s.config->n_heads * tokens.count) : 0;
    good =
        good &&
        session_open_model(&s, &(SessionModel){.context = n, .max_rows = rows, .full_cache = true},
                           error) &&
        session_intervene(&s, tokens.ids, tokens.count, error) && run(&s, &files, &tokens, error);
    id_list_free(&tokens);
    picture_files_free(&files);
    session_close(&s);
    return good;
}
