// --importance: which input channels of the weight matrices matter, from their activations.
//
// A row of weights w and its stored form w' give results that differ by sum_i (w_i - w'_i) a_i. If
// the activations a_i of different channels are independent, the mean square of that is
// sum_i (w_i - w'_i)^2 mean(a_i^2): so the mean square of each channel is the weight of its error.
//
//   stage            input of
//   att_norm         wq, wk, wv
//   att_heads        wo
//   ffn_norm         w_gate, w_up
//   ffn_activated    w_down
//   final_norm       the head
#include "commands/convert/convert.h"

#include "model/observe.h"

// Rows that count as if all channels had been alike in them: where the text is short, what it
// leaves silent is not known to be silent.
enum { PRIOR_ROWS = 64 };

// One row in so many is a row of the final norm: the head is the largest matrix, and its input is
// wanted, not its product.
enum { HEAD_EVERY = 16 };

typedef struct Channels {
    double *sums; // (width) of squares
    int width;
    uint64_t rows;
} Channels;

enum { ATT_IN, ATT_HEADS, FFN_IN, FFN_HIDDEN, N_INPUTS };

typedef struct Gathering {
    Arena arena;
    Session *session;
    Channels *layers; // (n_layers, N_INPUTS)
    Channels head;
} Gathering;

static Channels *channels_at(Gathering *g, const Stage *stage) {
    switch (stage->id) {
    case STAGE_ATT_NORM: return &g->layers[stage->layer * N_INPUTS + ATT_IN];
    case STAGE_ATT_HEADS: return &g->layers[stage->layer * N_INPUTS + ATT_HEADS];
    case STAGE_FFN_NORM: return &g->layers[stage->layer * N_INPUTS + FFN_IN];
    case STAGE_FFN_ACTIVATED: return &g->layers[stage->layer * N_INPUTS + FFN_HIDDEN];
    case STAGE_FINAL_NORM: return &g->head;
    default: return NULL;
    }
}

// Attached as an intervention that changes nothing, since those name the stages that they want; a
// listener would have all of them copied.
static bool add_squares(void *context, const Model *model, Stage *stage) {
    Channels *c = channels_at(context, stage);
    (void)model;
    for (int row = 0; c && row < stage->shape[0]; row++)
        for (int i = 0; i < c->width; i++) {
            double a = (double)stage->data[(size_t)row * (size_t)c->width + (size_t)i];
            c->sums[i] += a * a;
        }
    if (c) c->rows += (uint64_t)stage->shape[0];
    return false;
}

static bool feed_chunk(void *context, const TextChunk *chunk, Error *error) {
    Gathering *g = context;
    bool wants[CHUNK_ROWS];
    for (int i = 0; i < chunk->n; i++)
        wants[i] = i % HEAD_EVERY == 0;
    const TextChunk some = {chunk->n, chunk->ids, wants, chunk->begins};
    return windows_forward(g->session, &some, error);
}

static bool make_channels(Gathering *g, Channels *c, int width, Error *error) {
    *c = (Channels){arena_alloc(&g->arena, (uint64_t)width, sizeof *c->sums, error), width, 0};
    return c->sums;
}

static bool make_sums(Gathering *g, const Config *c, Error *error) {
    const int widths[N_INPUTS] = {c->dim, c->q_dim, c->dim, c->hidden_dim};
    uint64_t n = (uint64_t)c->n_layers * N_INPUTS;
    g->layers = arena_alloc(&g->arena, n, sizeof *g->layers, error);
    bool good = g->layers && make_channels(g, &g->head, c->dim, error);
    for (uint64_t i = 0; good && i < n; i++)
        good = make_channels(g, &g->layers[i], widths[i % N_INPUTS], error);
    return good;
}

// Mean squares, in units of their mean over the channels; NULL with exit code 5.
static float *means(Arena *arena, const Channels *c, Error *error) {
    float *out = arena_alloc(arena, (uint64_t)c->width, sizeof *out, error);
    double total = 0;
    if (!out) return NULL;
    for (int i = 0; i < c->width; i++)
        total += c->sums[i];
    double share = (double)c->rows / (double)(c->rows + PRIOR_ROWS);
    for (int i = 0; i < c->width; i++)
        out[i] = total > 0 ? (float)(share * c->sums[i] * c->width / total + 1 - share) : 1;
    return out;
}

static bool finish(Importance *importance, const Gathering *g, int n_layers, Error *error) {
    OutgoingImportance *of = &importance->of;
    of->layers = arena_alloc(&importance->arena, (uint64_t)n_layers, sizeof *of->layers, error);
    bool good = of->layers && (of->head = means(&importance->arena, &g->head, error));
    for (int l = 0; good && l < n_layers; l++) {
        const Channels *c = &g->layers[l * N_INPUTS];
        LayerImportance *to = &of->layers[l];
        float **const at[N_INPUTS] = {&to->att_in, &to->att_heads, &to->ffn_in, &to->ffn_hidden};
        for (int i = 0; good && i < N_INPUTS; i++)
            good = (*at[i] = means(&importance->arena, &c[i], error));
    }
    return good;
}

bool importance_gather(Importance *importance, Session *s, SampleText *sample, Error *error) {
    static const uint32_t STAGES = 1u << STAGE_ATT_NORM | 1u << STAGE_ATT_HEADS |
                                   1u << STAGE_FFN_NORM | 1u << STAGE_FFN_ACTIVATED |
                                   1u << STAGE_FINAL_NORM;
    Gathering g = {.session = s};
    SessionModel wanted = {.context = (int)sample->windows.window, .max_logit_rows = CHUNK_ROWS};
    const WindowsShow show = {"importance", s->options->quiet};
    bool good = make_sums(&g, s->config, error) && session_open_model(s, &wanted, error) &&
                model_intervene(s->model, add_squares, &g, STAGES, error) &&
                windows_feed(&sample->text, feed_chunk, &g, &show, error) &&
                finish(importance, &g, s->config->n_layers, error);
    session_close_model(s);
    arena_free(&g.arena);
    return good;
}

void importance_free(Importance *importance) {
    arena_free(&importance->arena);
    *importance = (Importance){0};
}
