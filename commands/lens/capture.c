// The listener of the lens, and the distributions that it computes from residual streams.
#include "commands/lens/lens.h"

#include "commands/shared/interrupt.h"
#include "commands/shared/logprobs.h"
#include "commands/shared/output.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int lens_depths(const LensCapture *c) {
    return 2 * c->session->config->n_layers;
}

static size_t cell_index(const LensCapture *c, size_t position, int depth) {
    return (position - c->first) * (size_t)lens_depths(c) + (size_t)depth;
}

const LensCell *lens_cell(const LensCapture *c, size_t position, int depth) {
    return c->cells + cell_index(c, position, depth);
}

const LensToken *lens_top(const LensCapture *c, size_t position, int depth) {
    return c->top_tokens + cell_index(c, position, depth) * (size_t)c->top;
}

// ---- residual streams of one pass ----

// The rows of a pass that are looked at. Their streams lie in the order in which they are used,
// which is the reverse of the layers', since every depth is compared with the last:
//   row 0: depth 2 L - 1, ..., 1, 0;  row 1: depth 2 L - 1, ...        (rows, depths, dim)
typedef struct Streams {
    const LensCapture *capture;
    float *x;
    size_t first; // position of row 0
    size_t rows;
} Streams;

// Listener.
static void keep(void *context, const Model *model, const Stage *stage) {
    Streams *s = context;
    const LensCapture *c = s->capture;
    size_t dim = (size_t)model->config.dim, depths = (size_t)lens_depths(c);
    if (stage->id != STAGE_ATT_RESIDUAL && stage->id != STAGE_LAYER_OUT) return;
    size_t depth = 2 * (size_t)stage->layer + (stage->id == STAGE_LAYER_OUT);
    for (int i = 0; i < stage->rows.n; i++) {
        size_t position = (size_t)stage->rows.positions[i];
        if (position < c->first || position >= c->first + c->count) continue;
        if (!s->rows) s->first = position;
        size_t row = position - s->first;
        memcpy(s->x + (row * depths + depths - 1 - depth) * dim, stage->data + (size_t)i * dim,
               dim * sizeof *s->x);
        if (row >= s->rows) s->rows = row + 1;
    }
}

// ---- the run ----

static void take_vector(LensCapture *c, Final *f, size_t position, int depth, const float *logits) {
    size_t i = cell_index(c, position, depth);
    int vocab_size = c->session->config->vocab_size;
    if (depth == lens_depths(c) - 1) {
        final_take(f, logits, vocab_size);
        c->winners[position - c->first] = f->winner;
    }
    LensToken *top = c->top_tokens + i * (size_t)c->top;
    c->cells[i] = lens_measure(top, c->top, f, logits, vocab_size);
}

LensSizes lens_sizes(const LensCapture *c) {
    enum { FEWER = 4 }; // logits are in memory twice, and one row after another is looked at
    const Config *config = c->session->config;
    size_t depths = (size_t)lens_depths(c), vocab_size = (size_t)config->vocab_size;
    return (LensSizes){.rows = session_rows(c->tokens->count, depths * (size_t)config->dim),
                       .unembedded = session_rows(c->count * depths, FEWER * vocab_size)};
}

// All depths of all rows of a pass, in blocks.
static bool unembed(LensCapture *c, const Streams *s, Final *f, Progress *progress, Error *error) {
    Model *model = c->session->model;
    size_t depths = (size_t)lens_depths(c), dim = (size_t)model->config.dim;
    size_t vectors = s->rows * depths, most = (size_t)lens_sizes(c).unembedded;
    for (size_t at = 0, n; at < vectors; at += n) {
        n = vectors - at < most ? vectors - at : most;
        if (!session_result(c->session, model_unembed(model, s->x + at * dim, (int)n, error),
                            error))
            return false;
        for (size_t i = 0; i < n; i++)
            take_vector(c, f, s->first + (at + i) / depths, (int)(depths - 1 - (at + i) % depths),
                        model_logits(model, (int)i));
        size_t done = (s->first - c->first) * depths + at + n;
        progress_update(progress, (double)done / (double)(c->count * depths));
        if (interrupt_asked()) return error_set(error, ERROR_INTERRUPTED, "interrupted");
    }
    return true;
}

static bool run(LensCapture *c, Streams *s, Final *f, Error *error) {
    size_t end = c->first + c->count, most = (size_t)lens_sizes(c).rows;
    Progress progress;
    bool good = true;
    progress_begin(&progress, "lens", c->session->options->quiet);
    for (size_t at = 0, n; good && at < end; at += n) {
        n = end - at < most ? end - at : most;
        s->rows = 0;
        good = session_forward(c->session, &(Batch){.n = (int)n, .tokens = c->tokens->ids + at},
                               error) &&
               unembed(c, s, f, &progress, error);
    }
    progress_end(&progress);
    return good;
}

// In double: positions, layers and --top are far apart from what 64 bits of their product hold.
static bool check_size(const LensCapture *c, Error *error) {
    double cells = (double)c->count * lens_depths(c);
    double bytes = cells * (double)(sizeof *c->cells + (size_t)c->top * sizeof *c->top_tokens);
    if (bytes <= (double)LENS_BYTES) return true;
    return error_set(error, ERROR_USAGE,
                     "%zu positions x %d half-layers x %d tokens take %.3g GB, at most %.3g GB: "
                     "choose one with --position, fewer with --top, or give a shorter prompt",
                     c->count, lens_depths(c), c->top, bytes / 1e9, (double)LENS_BYTES / 1e9);
}

bool lens_capture(LensCapture *c, Error *error) {
    if (!check_size(c, error)) return false;
    const Config *config = c->session->config;
    Streams s = {.capture = c};
    Final f = {0};
    size_t depths = (size_t)lens_depths(c), cells = c->count * depths;
    c->winners = malloc(c->count * sizeof *c->winners);
    c->cells = malloc(cells * sizeof *c->cells);
    c->top_tokens = malloc(cells * (size_t)c->top * sizeof *c->top_tokens);
    s.x = malloc((size_t)lens_sizes(c).rows * depths * (size_t)config->dim * sizeof *s.x);
    bool good = c->winners && c->cells && c->top_tokens && s.x;
    if (!good) error_set(error, ERROR_MEMORY, "no memory for the lens of %zu positions", c->count);
    good = good && final_open(&f, config->vocab_size, error);
    good = good && model_listen(c->session->model, keep, &s, false, error);
    interrupt_begin();
    good = good && run(c, &s, &f, error);
    interrupt_end();
    model_listen(c->session->model, NULL, NULL, false, NULL);
    free(s.x);
    final_close(&f);
    if (!good) lens_capture_free(c);
    return good;
}

void lens_capture_free(LensCapture *c) {
    free(c->winners);
    free(c->cells);
    free(c->top_tokens);
    c->winners = NULL;
    c->cells = NULL;
    c->top_tokens = NULL;
}
