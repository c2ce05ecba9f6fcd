// Changes while the model runs: checked once against the stages that it computes, then applied to
// every row that they mean.
//
//   interventions_attach   a pass of one token: which stages there are, and their shapes
//                          a pass of the prompt, where a mean is wanted
//                          model_intervene with `change_stage`, at the stages that are changed
#include "commands/intervene/intervene.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

bool interventions_add(Interventions *i, const Change *change, Error *error) {
    if (i->count == i->room) {
        size_t room = i->room ? 2 * i->room : 16;
        Change *grown = realloc(i->changes, room * sizeof *grown);
        if (!grown) {
            free(change->rows);
            return error_set(error, ERROR_MEMORY, "no memory for %zu interventions", room);
        }
        i->changes = grown;
        i->room = room;
    }
    i->changes[i->count++] = *change;
    return true;
}

void interventions_close(Interventions *i) {
    if (!i) return;
    for (size_t k = 0; k < i->count; k++)
        free(i->changes[k].rows);
    free(i->changes);
    free(i);
}

// ---- one pass ----

static bool means(const Change *c, const Stage *stage) {
    return c->place.id == stage->id && c->place.layer == stage->layer;
}

// Calls `act` with each element that the change means: the stage's, and the change's own of that
// row (NULL where it has none).
typedef void Act(const Change *change, float *element, float *own);

static void act_on_row(const Change *c, float *row, float *own, Act *act) {
    for (int a = c->index[0].begin; a < c->index[0].end; a++)
        for (int b = c->index[1].begin; b < c->index[1].end; b++) {
            size_t at = (size_t)a * c->width + (size_t)b;
            act(c, row + at, own ? own + at : NULL);
        }
}

// The rows of the stage that the change means. False: there are none.
static bool act_on_stage(const Change *c, const Stage *stage, Act *act) {
    bool any = false;
    for (int i = 0; i < stage->rows.n; i++) {
        int p = stage->rows.positions[i];
        if (c->sequence >= 0 && stage->rows.sequences[i] != c->sequence) continue;
        if (p < c->positions.begin || p >= c->positions.end) continue;
        // A trace has no more rows than its own text has positions.
        if (c->kind == CHANGE_TO_ROWS && (size_t)p >= c->n_rows) continue;
        size_t own = c->kind == CHANGE_TO_ROWS ? (size_t)p * c->row_size : 0;
        act_on_row(c, stage->data + (size_t)i * c->row_size, c->rows ? c->rows + own : NULL, act);
        any = true;
    }
    return any;
}

static void set_element(const Change *c, float *element, float *own) {
    if (c->kind == CHANGE_TO_VALUE)
        *element = c->value;
    else if (c->kind == CHANGE_ADDS)
        *element += c->value * *own;
    else
        *element = *own;
}

static bool change_stage(void *context, const Model *model, Stage *stage) {
    const Interventions *all = context;
    bool changed = false;
    (void)model;
    for (size_t k = 0; k < all->count; k++)
        if (means(&all->changes[k], stage))
            changed |= act_on_stage(&all->changes[k], stage, set_element);
    return changed;
}

// ---- the first pass: which stages there are ----

// Numbers from the end of `size` elements; -1 alone is the range -1 .. 0.
static void from_end(Range *r, int size) {
    if (r->end < 0 || (r->begin < 0 && !r->end)) r->end += size;
    if (r->begin < 0) r->begin += size;
}

// An index of `size` elements. False: it does not fit.
static bool resolve(Range *r, int size) {
    from_end(r, size);
    if (r->end == INT_MAX) r->end = size;
    return r->begin >= 0 && r->begin < r->end && r->end <= size;
}

// A row of one dimension becomes (1, width).
static bool resolve_index(Change *c, const Stage *stage, Error *error) {
    int n_dims = stage->shape[2] ? 2 : 1;
    if (c->n_index > n_dims)
        return error_set(error, ERROR_USAGE, "%s: a row of %s has %d dimension%s", c->text,
                         stage_name(stage->id), n_dims, n_dims > 1 ? "s" : "");
    for (int d = 0; d < n_dims; d++)
        if (!resolve(&c->index[d], stage->shape[1 + d]))
            return error_set(error, ERROR_USAGE, "%s: a row of %s has the indices 0 to %d there",
                             c->text, stage_name(stage->id), stage->shape[1 + d] - 1);
    c->width = (size_t)stage->shape[n_dims];
    if (n_dims > 1) return true;
    c->index[1] = c->index[0];
    c->index[0] = (Range){0, 1};
    return true;
}

static bool check_change(Change *c, const Model *m, const Stage *stage, Error *error) {
    size_t row_size = stage_size(stage) / (size_t)stage->shape[0];
    if (stage_is_residual(m, stage))
        return error_set(error, ERROR_USAGE,
                         "%s: this model has no norm there; layers.N.layer_out is what is read",
                         c->text);
    if (c->rows && c->row_size != row_size)
        return error_set(error, ERROR_USAGE, "%s: the file's rows have %zu elements, %s has %zu",
                         c->text, c->row_size, stage_name(stage->id), row_size);
    c->row_size = row_size;
    c->seen = true;
    if (!resolve_index(c, stage, error)) return false;
    if (c->kind != CHANGE_TO_MEAN) return true;
    c->rows = calloc(row_size, sizeof *c->rows);
    return c->rows || error_set(error, ERROR_MEMORY, "no memory for a row of %zu", row_size);
}

static bool check_stage(void *context, const Model *m, Stage *stage) {
    Interventions *all = context;
    for (size_t k = 0; k < all->count && !all->failure.code; k++)
        if (means(&all->changes[k], stage) && !all->changes[k].seen)
            check_change(&all->changes[k], m, stage, &all->failure);
    return false;
}

// Positions from the end are those of the prompt. Those behind it may come, up to the context.
static bool resolve_positions(Change *c, size_t n_prompt, int context, Error *error) {
    int n = (int)n_prompt;
    from_end(&c->positions, n);
    if (c->positions.begin < 0 || c->positions.begin >= c->positions.end)
        return error_set(error, ERROR_USAGE, "%s: no such position in a prompt of %d tokens",
                         c->text, n);
    if (c->positions.begin >= context)
        return error_set(error, ERROR_USAGE,
                         "%s: no such position: the prompt has %d tokens, and a pass at most %d",
                         c->text, n, context);
    // A range without an end goes as far as the file's text.
    int last = c->positions.end == INT_MAX ? c->positions.begin : c->positions.end - 1;
    if (c->kind != CHANGE_TO_ROWS || (size_t)last < c->n_rows) return true;
    return error_set(error, ERROR_USAGE, "%s: the file has positions 0 to %zu", c->text,
                     c->n_rows - 1);
}

static bool check_changes(Interventions *all, int context, Error *error) {
    if (all->failure.code) return error_copy(error, &all->failure);
    for (size_t k = 0; k < all->count; k++) {
        Change *c = &all->changes[k];
        if (!c->seen)
            return error_set(error, ERROR_USAGE, "%s: this model does not compute %s", c->text,
                             stage_name(c->place.id));
        if (!resolve_positions(c, all->n_prompt, context, error)) return false;
    }
    return true;
}

// ---- the pass of the prompt: means ----

static void add_to_own(const Change *c, float *element, float *own) {
    (void)c;
    *own += *element;
}

static bool sum_stage(void *context, const Model *model, Stage *stage) {
    Interventions *all = context;
    (void)model;
    for (size_t k = 0; k < all->count; k++)
        if (all->changes[k].kind == CHANGE_TO_MEAN && means(&all->changes[k], stage))
            act_on_stage(&all->changes[k], stage, add_to_own);
    return false;
}

static bool run_pass(Interventions *all, Model *m, Intervention *intervention, const int32_t *ids,
                     size_t n, Error *error) {
    Error cause = {0};
    if (!model_intervene(m, intervention, all, UINT32_MAX, error)) return false;
    kv_cache_reset(&m->cache, 0);
    bool good = model_forward(m, &(Batch){.n = (int)n, .tokens = ids}, &cause);
    kv_cache_reset(&m->cache, 0);
    // NaN in the model's numbers is for the command to report: a trace shows where it comes from.
    return good || cause.code == ERROR_NONFINITE || error_copy(error, &cause);
}

// The means of the prompt's rows, as far as the context holds them.
static bool find_means(Interventions *all, Model *m, const int32_t *prompt, Error *error) {
    size_t n = all->n_prompt, room = (size_t)m->options.context;
    bool wanted = false;
    for (size_t k = 0; k < all->count; k++)
        wanted |= all->changes[k].kind == CHANGE_TO_MEAN;
    if (!wanted) return true;
    if (n > room) n = room;
    if (!run_pass(all, m, sum_stage, prompt, n, error)) return false;
    for (size_t k = 0; k < all->count; k++)
        for (size_t i = 0; all->changes[k].kind == CHANGE_TO_MEAN && i < all->changes[k].row_size;
             i++)
            all->changes[k].rows[i] /= (float)n;
    return true;
}

bool interventions_change(const Interventions *all, StageId id, int layer) {
    for (size_t k = 0; all && k < all->count; k++)
        if (all->changes[k].place.id == id && all->changes[k].place.layer == layer) return true;
    return false;
}

static bool change_any(const Interventions *all, uint32_t stages) {
    for (size_t k = 0; all && k < all->count; k++)
        if (stages >> all->changes[k].place.id & 1) return true;
    return false;
}

// Behind the last layer.
enum { HEAD_STAGES = 1u << STAGE_FINAL_NORM | 1u << STAGE_UNCAPPED | 1u << STAGE_LOGITS };

bool interventions_break_parts(const Interventions *all) {
    return change_any(all, 1u << STAGE_ATT_PROJECTED | 1u << STAGE_ATT_OUT |
                               1u << STAGE_ATT_RESIDUAL | 1u << STAGE_LAYER_OUT | HEAD_STAGES);
}

bool interventions_check_lens(const Interventions *all, Error *error) {
    return !change_any(all, HEAD_STAGES) ||
           error_set(error, ERROR_USAGE,
                     "the lens reads every layer by the model's own final norm and head: leave out "
                     "changes of final_norm and of logits");
}

bool interventions_attach(Interventions *all, Model *m, const int32_t *prompt, size_t n_prompt,
                          Error *error) {
    if (!all) return true;
    uint32_t stages = 0;
    all->n_prompt = n_prompt;
    if (!run_pass(all, m, check_stage, prompt, 1, error) ||
        !check_changes(all, m->options.context, error) || !find_means(all, m, prompt, error))
        return false;
    for (size_t k = 0; k < all->count; k++)
        stages |= 1u << all->changes[k].place.id;
    return model_intervene(m, change_stage, all, stages, error);
}
