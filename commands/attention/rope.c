// attention --rope: how similar a vector is to itself at another position, once RoPE has rotated
// both. Rotated by the kernel and the tables that the model's layer uses:
//
//   similarity(m, n) = cos(R_m v, R_n v)       R_m: the rotation of position m
//
// It depends on m - n alone. With v = (1, 1, ..), whose pairs of channels are all as long, it is
// the mean of cos((m - n) f) over the frequencies f; channels that do not rotate count as f = 0.
// Without rotation it is 1 everywhere: attention could not tell positions apart.
//
// Beside it what came before RoPE: the sinusoidal encodings of Vaswani et al. 2017 (section 3.5),
// which are added to the embeddings. They too depend on m - n alone.
#include "commands/attention/attention.h"
#include "commands/intervene/intervene.h"
#include "commands/shared/interrupt.h"
#include "commands/shared/output.h"
#include "commands/shared/prompt.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Similarity {
    Session *session;
    IdList tokens; // owned; empty unless a head is chosen
    int layer;
    int n;           // positions
    bool is_rotated; // `vector` is complete: later stages are not looked at

    float *vector;     // (head_dim) v; ones, or a query of the head
    float *rotated;    // (n, head_dim) R_m v
    float *with;       // (n, n)
    float *without;    // (n, n) of v itself
    float *sinusoidal; // (n, n) of two encodings as wide as the embeddings
    double spread;     // the largest difference of two entries with the same distance in `with`
} Similarity;

static const Options *options_of(const Similarity *s) {
    return s->session->options;
}

static bool takes_query(const Options *o) {
    return option_given(o, OPTION_HEAD);
}

// ---- options ----

static bool check_options(const Options *o, Error *error) {
    bool prompt = option_given(o, OPTION_PROMPT) || option_given(o, OPTION_FILE) ||
                  option_given(o, OPTION_PROMPT_IDS);
    if (o->mean || o->rollout || o->entropy || o->stage != ATTENTION_WEIGHTS ||
        option_given(o, OPTION_GRID) || option_given(o, OPTION_EXPLAIN) ||
        option_given(o, OPTION_TOP) || option_given(o, OPTION_PATTERN))
        return error_set(error, ERROR_USAGE,
                         "--rope goes with --layer, --head, --seq, --svg, --png, --csv, --json");
    if (option_given(o, OPTION_HEAD) && !option_given(o, OPTION_LAYER))
        return error_set(error, ERROR_USAGE, "--rope --head H wants --layer L too");
    if (prompt && !takes_query(o))
        return error_set(error, ERROR_USAGE,
                         "--rope takes a query of the prompt with --layer L --head H; without it "
                         "a vector of ones, and no prompt");
    if (interventions_asked(o) && !takes_query(o))
        return error_set(error, ERROR_USAGE,
                         "--rope runs no text without --layer L --head H: there is nothing that "
                         "--ablate, --patch or --steer could change");
    if (o->csv && o->json) return error_set(error, ERROR_USAGE, "--csv and --json: one of them");
    return check_prompt(o, error);
}

// The layer of --layer, else the first that rotates. False: exit code 2, there is none.
static bool choose_layer(Similarity *s, Error *error) {
    const Config *c = s->session->config;
    const Options *o = options_of(s);
    if (c->position != POSITION_ROPE)
        return error_set(error, ERROR_USAGE,
                         "--rope: %s has no RoPE: positions are learned vectors, added to the "
                         "embeddings",
                         c->family);
    bool chosen = option_given(o, OPTION_LAYER);
    for (s->layer = chosen ? (int)o->layer : 0; c->layers[s->layer].no_rope; s->layer++)
        if (chosen || s->layer + 1 == c->n_layers)
            return chosen
                       ? error_set(error, ERROR_USAGE, "--rope: layer %d has no RoPE", s->layer)
                       : error_set(error, ERROR_USAGE, "--rope: no layer of this model has RoPE");
    return true;
}

// --seq, or fewer where the model's context is shorter than the default.
static bool choose_length(Similarity *s, Error *error) {
    const Options *o = options_of(s);
    int longest = config_longest_context(s->session->config);
    s->n = (int)o->mask_seq;
    if (s->n > longest && !option_given(o, OPTION_MASK_SEQ)) s->n = longest;
    if (s->n <= longest) return true;
    return error_set(error, ERROR_USAGE, "--seq: got %d, the model's context is %d", s->n, longest);
}

// ---- the vector ----

// Listener: the query of the last token as it is before RoPE, after the QK norm where that comes
// first.
static void keep_query(void *context, const Model *model, const Stage *stage) {
    Similarity *s = context;
    const Config *c = &model->config;
    if (stage->layer != s->layer || s->is_rotated) return;
    if (stage->id == STAGE_Q_ROTATED) s->is_rotated = true;
    if (stage->id != STAGE_Q && stage->id != STAGE_Q_NORM) return;
    size_t row = (size_t)stage->rows.n - 1, head = (size_t)options_of(s)->head;
    size_t at = (row * (size_t)c->n_heads + head) * (size_t)c->head_dim;
    memcpy(s->vector, stage->data + at, (size_t)c->head_dim * sizeof *s->vector);
}

// Tokens before the last go through the layers with nobody attached: the last has a pass of its
// own.
static bool take_query(Similarity *s, Error *error) {
    Model *model = s->session->model;
    size_t fed = 0, last = s->tokens.count - 1;
    bool good = session_feed(s->session, s->tokens.ids, last, &fed, error);
    if (good && fed == last)
        good = model_listen(model, keep_query, s, false, error) &&
               session_feed(s->session, s->tokens.ids + last, 1, &fed, error);
    model_listen(model, NULL, NULL, false, NULL);
    if (good && interrupt_asked()) return error_set(error, ERROR_INTERRUPTED, "interrupted");
    return good;
}

// ---- rotation ----

// n copies of the vector, copy m rotated to position m, max_rows of them at a time.
static void rotate(Similarity *s, float *x, int32_t *positions) {
    const Config *c = s->session->config;
    Model *model = s->session->model;
    Device *d = model->device;
    size_t width = (size_t)c->head_dim;
    const RopeTable *table = c->layers[s->layer].local_rope ? &model->rope_local : &model->rope;
    for (int first = 0, n; first < s->n; first += n) {
        n = s->n - first < model->options.max_rows ? s->n - first : model->options.max_rows;
        float *at = s->rotated + (size_t)first * width;
        device_upload(d, x, at, (size_t)n * width * sizeof *at);
        device_begin(d, &(PassShape){.n = n, .max_position = first + n - 1});
        // rope reads positions only: tokens and sequences are never looked at.
        const int32_t *row = positions + first;
        rope(d, x, 1, c->head_dim, table, &(Rows){n, row, row, row});
        device_end(d);
        device_download(d, at, x, (size_t)n * width * sizeof *at);
    }
}

static bool rotate_copies(Similarity *s, Error *error) {
    Device *d = s->session->model->device;
    size_t width = (size_t)s->session->config->head_dim;
    size_t rows = (size_t)s->session->model->options.max_rows, count = (size_t)s->n;
    int32_t *numbers = malloc(count * sizeof *numbers);
    if (!numbers) return error_set(error, ERROR_MEMORY, "no memory for %d positions", s->n);
    for (size_t m = 0; m < count; m++) {
        numbers[m] = (int32_t)m;
        memcpy(s->rotated + m * width, s->vector, width * sizeof *s->rotated);
    }
    float *x = device_alloc(d, rows * width * sizeof *x);
    int32_t *positions = device_alloc(d, count * sizeof *positions);
    if (x && positions) {
        device_upload(d, positions, numbers, count * sizeof *positions);
        rotate(s, x, positions);
    }
    device_free(d, positions);
    device_free(d, x);
    free(numbers);
    return !device_error(d)->code || error_copy(error, device_error(d));
}

// ---- similarities ----

static float cosine(const float *a, const float *b, size_t count) {
    double ab = 0, aa = 0, bb = 0;
    for (size_t i = 0; i < count; i++) {
        ab += (double)a[i] * (double)b[i];
        aa += (double)a[i] * (double)a[i];
        bb += (double)b[i] * (double)b[i];
    }
    return aa > 0 && bb > 0 ? (float)(ab / sqrt(aa * bb)) : 0.0f;
}

static bool compare(Similarity *s, Error *error) {
    size_t n = (size_t)s->n, width = (size_t)s->session->config->head_dim;
    for (size_t m = 0; m < n; m++) {
        if (interrupt_asked()) return error_set(error, ERROR_INTERRUPTED, "interrupted");
        for (size_t k = 0; k <= m; k++) {
            const float *a = s->rotated + m * width, *b = s->rotated + k * width;
            s->with[m * n + k] = s->with[k * n + m] = cosine(a, b, width);
            s->without[m * n + k] = s->without[k * n + m] = cosine(s->vector, s->vector, width);
            double off = fabs((double)s->with[m * n + k] - (double)s->with[(m - k) * n]);
            if (off > s->spread) s->spread = off;
        }
    }
    return true;
}

// PE(m) has sin(m f) and cos(m f) for each frequency f = 10000^(-2i / dim), so its length is always
// sqrt(dim / 2), and sin a sin b + cos a cos b = cos(a - b): the cosine of PE(m) and PE(m +
// distance) is the mean of cos(distance f).
static float sinusoidal_similarity(int dim, size_t distance) {
    double sum = 0;
    for (int i = 0; i < dim / 2; i++)
        sum += cos((double)distance * pow(10000, -2.0 * i / dim));
    return (float)(2 * sum / dim);
}

static void compare_sinusoidal(Similarity *s) {
    size_t n = (size_t)s->n;
    for (size_t d = 0; d < n; d++) {
        float similarity = sinusoidal_similarity(s->session->config->dim, d);
        for (size_t m = d; m < n; m++)
            s->sinusoidal[m * n + m - d] = s->sinusoidal[(m - d) * n + m] = similarity;
    }
}

// ---- outputs ----

static const RopeConfig *rope_of(const Similarity *s) {
    const Config *c = s->session->config;
    return c->layers[s->layer].local_rope ? &c->rope_local : &c->rope;
}

// What the picture is of: the caller frees it. NULL: exit code 5.
static char *title_of(const Similarity *s, Error *error) {
    const Config *c = s->session->config;
    char **labels = token_labels(s->session, &s->tokens, error), *title = NULL;
    size_t last = s->tokens.count - 1, room = 200;
    if (!labels) return NULL;
    if (takes_query(options_of(s))) room += strlen(labels[last]);
    if (!(title = malloc(room)))
        error_set(error, ERROR_MEMORY, "no memory for a title");
    else if (takes_query(options_of(s)))
        snprintf(title, room,
                 "layer %d, RoPE with theta %g, %d of %d channels: cosine of head %d's query for "
                 "%s with itself",
                 s->layer, (double)rope_of(s)->theta, c->rope_dim, c->head_dim,
                 (int)options_of(s)->head, labels[last]);
    else
        snprintf(title, room,
                 "layer %d, RoPE with theta %g, %d of %d channels: cosine of a vector of ones "
                 "with itself",
                 s->layer, (double)rope_of(s)->theta, c->rope_dim, c->head_dim);
    free(labels);
    return title;
}

// Distances 0 to 8, then 16, 32 .. and the largest; those between are in the CSV.
static void print_table(const Similarity *s) {
    size_t n = (size_t)s->n, step = 1;
    output_print("\ndistance  with RoPE  without  sinusoidal\n");
    for (size_t d = 0; d < n; d += step) {
        output_print("%8zu  %9.4f  %7.4f  %10.4f\n", d, (double)s->with[d], (double)s->without[d],
                     (double)s->sinusoidal[d]);
        step = d < 8 ? 1 : d;
        if (d + step >= n && d < n - 1) step = n - 1 - d;
    }
    output_print("\nWith RoPE, entries with the same distance differ by at most %.1e.\n",
                 s->spread);
}

static void print_csv(const Similarity *s) {
    size_t n = (size_t)s->n;
    output_print("query,key,with_rope,without_rope,sinusoidal\n");
    for (size_t m = 0; m < n && output_good(); m++)
        for (size_t k = 0; k < n; k++)
            output_print("%zu,%zu,%.9g,%.9g,%.9g\n", m, k, (double)s->with[m * n + k],
                         (double)s->without[m * n + k], (double)s->sinusoidal[m * n + k]);
}

static void print_json(const Similarity *s) {
    const Config *c = s->session->config;
    size_t n = (size_t)s->n;
    JsonWriter w = {0};
    writer_begin(&w, NULL, '{');
    writer_integer(&w, "layer", s->layer);
    if (takes_query(options_of(s))) writer_integer(&w, "head", options_of(s)->head);
    writer_number(&w, "theta", (double)rope_of(s)->theta);
    writer_integer(&w, "rope_dim", c->rope_dim);
    writer_integer(&w, "head_dim", c->head_dim);
    writer_integer(&w, "positions", s->n);
    writer_number(&w, "spread", s->spread);
    writer_floats(&w, "by_distance", s->with, n);
    writer_floats(&w, "without_rope", s->without, n);
    writer_floats(&w, "sinusoidal", s->sinusoidal, n);
    writer_begin(&w, "similarity", '[');
    for (size_t m = 0; m < n && output_good(); m++)
        writer_floats(&w, NULL, s->with + m * n, n);
    writer_end(&w, ']');
    writer_end(&w, '}');
    writer_line(&w);
}

static bool print(const Similarity *s, const PictureFiles *files, Error *error) {
    const Options *o = options_of(s);
    char *title = title_of(s, error);
    if (!title) return false;
    Panel panels[] = {
        {"with RoPE", s->with}, {"without", s->without}, {"sinusoidal", s->sinusoidal}};
    size_t n = (size_t)s->n;
    Picture picture = {
        .title = title, .panels = panels, .n_panels = 3, .rows = n, .cols = n, .high = 1};
    for (size_t i = 0; i < n * n; i++) {
        float least = s->with[i] < s->sinusoidal[i] ? s->with[i] : s->sinusoidal[i];
        if (least < picture.low) picture.low = least;
    }
    Terminal window = output_window(o->color);
    bool wanted = picture_files_wanted(files), numbers = o->csv || o->json;
    bool good = !wanted || picture_files_write(files, &picture, error);
    if (good && !wanted && !numbers) good = picture_print(&picture, &window, error);
    if (good && !wanted && !numbers) print_table(s);
    if (good && o->csv) print_csv(s);
    if (good && o->json) print_json(s);
    free(title);
    return good;
}

// ---- the run ----

static bool reserve(Similarity *s, Error *error) {
    size_t n = (size_t)s->n, width = (size_t)s->session->config->head_dim;
    s->vector = malloc((width + n * width + 3 * n * n) * sizeof *s->vector);
    if (!s->vector)
        return error_set(error, ERROR_MEMORY, "no memory for %d x %d similarities", s->n, s->n);
    for (size_t i = 0; i < width; i++)
        s->vector[i] = 1;
    s->rotated = s->vector + width;
    s->with = s->rotated + n * width;
    s->without = s->with + n * n;
    s->sinusoidal = s->without + n * n;
    return true;
}

static bool compute(Similarity *s, Error *error) {
    interrupt_begin();
    bool good = (!takes_query(options_of(s)) || take_query(s, error)) && rotate_copies(s, error) &&
                compare(s, error);
    if (good) compare_sinusoidal(s);
    interrupt_end();
    return session_result(s->session, good, error);
}

// The prompt of --head. False: exit code 2, 3, 4 or 5.
static bool read_prompt(Similarity *s, Error *error) {
    if (!takes_query(options_of(s))) return true;
    return prompt_encode(&s->tokens, s->session, error) &&
           session_check_room("the prompt", s->tokens.count,
                              config_longest_context(s->session->config), error);
}

bool attention_rope(const Options *o, Error *error) {
    Session session = {0};
    Similarity s = {.session = &session};
    PictureFiles files = {0};
    bool good = check_options(o, error) && picture_files_open(&files, o, error) &&
                session_open(&session, o, error) &&
                attention_check_range(o, session.config, error) && choose_layer(&s, error) &&
                choose_length(&s, error) && read_prompt(&s, error);
    int prompt = (int)s.tokens.count, longest = prompt > s.n ? prompt : s.n;
    int rows = longest < SESSION_MAX_ROWS ? longest : SESSION_MAX_ROWS;
    SessionModel wanted = {.context = longest, .max_rows = rows};
    good = good && session_open_model(&session, &wanted, error) &&
           (!takes_query(o) || session_intervene(&session, s.tokens.ids, s.tokens.count, error)) &&
           reserve(&s, error) && compute(&s, error) && print(&s, &files, error);
    id_list_free(&s.tokens);
    free(s.vector);
    picture_files_free(&files);
    session_close(&session);
    return good;
}
