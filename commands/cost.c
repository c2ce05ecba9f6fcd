// cost: what a model computes, reads and takes, before anything is loaded: FLOPs, bytes and memory
// from the shapes in a file, in a config.json or of a preset. Runs nothing but with --measure.
#include "commands/cost/cost.h"
#include "commands/commands.h"
#include "commands/shared/output.h"
#include "weights/quant.h"

#include <inttypes.h>
#include <string.h>

static const char PRESETS[] = "presets"; // instead of a model: the table of all of them
enum { DEFAULT_SEQ = 2048, MEASURED_SEQ = 32 };

static bool wants_ranks(const Options *o) {
    return o->ranks || o->layers_per_rank.count;
}

// What is printed. Each report has options of its own; one that it does not use is refused.
enum {
    WHOLE = 1,
    INTENSITY = 2,
    SAVINGS = 4,
    SWEEP = 8,
    FIT = 16,
    RANKS = 32,
    MEASURE = 64,
    TABLE = 128, // of the presets
    EVERY = 255
};
static const struct {
    OptionId id;
    int reports;
} USED_BY[] = {
    {OPTION_SEQ, EVERY & ~INTENSITY},
    {OPTION_COST_BATCH, EVERY & ~(INTENSITY | SAVINGS | TABLE)},
    {OPTION_COST_TYPE, EVERY & ~(SAVINGS | SWEEP)},
    {OPTION_KV, EVERY & ~INTENSITY},
    {OPTION_PATTERN, WHOLE | MEASURE},
    {OPTION_MACHINE, WHOLE | INTENSITY},
    {OPTION_RIDGE, WHOLE | INTENSITY},
    {OPTION_JSON, WHOLE | MEASURE},
    {OPTION_CSV, SWEEP},
    {OPTION_SVG, SWEEP},
    {OPTION_PNG, SWEEP},
};

static const char *report_name(int report) {
    return report & INTENSITY ? "--intensity"
           : report & SAVINGS ? "--savings"
           : report & SWEEP   ? "--sweep"
           : report & FIT     ? "--max-memory"
           : report & RANKS   ? "--ranks"
           : report & MEASURE ? "--measure"
           : report & TABLE   ? "presets"
                              : "the whole report";
}

// The reports that were asked for.
static int asked_reports(const Options *o) {
    int asked = (o->intensity ? INTENSITY : 0) | (o->savings ? SAVINGS : 0) |
                (o->sweep ? SWEEP : 0) | (o->max_memory ? FIT : 0) | (wants_ranks(o) ? RANKS : 0) |
                (o->measure ? MEASURE : 0) | (!strcmp(o->model, PRESETS) ? TABLE : 0);
    return asked ? asked : WHOLE;
}

static bool check_options(const Options *o, Error *error) {
    int report = asked_reports(o);
    if (report & (report - 1))
        return error_set(error, ERROR_USAGE,
                         "one of --intensity, --savings, --sweep, --max-memory, --ranks and "
                         "--measure at a time, and none with presets");
    for (size_t i = 0; i < sizeof USED_BY / sizeof *USED_BY; i++)
        if (option_given(o, USED_BY[i].id) && !(USED_BY[i].reports & report))
            return error_set(error, ERROR_USAGE, "--%s: %s does not use it",
                             options_first_given(o, &USED_BY[i].id, 1), report_name(report));
    if (option_given(o, OPTION_RIDGE) && option_given(o, OPTION_MACHINE))
        return error_set(error, ERROR_USAGE, "one of --ridge and --machine");
    int named = o->layers_per_rank.count;
    if (named && option_given(o, OPTION_RANKS) && o->ranks != named)
        return error_set(error, ERROR_USAGE, "--ranks: got %" PRId64 ", --layers-per-rank is of %d",
                         o->ranks, named);
    double bytes;
    return !o->max_memory || cost_parse_size(&bytes, o->max_memory, error);
}

// A preset is no file: nothing beside it is read.
static bool open_files(PictureFiles *files, const Options *o, Error *error) {
    Options without_model = *o;
    if (outline_is_meant(o->model) && !ends_with(o->model, ".json")) without_model.model = NULL;
    return (!o->svg && !o->png) || picture_files_open(files, &without_model, error);
}

// ---- the work ----

Work cost_decode(const CostRun *r, double seq) {
    return (Work){.sequences = r->batch,
                  .start = seq - 1,
                  .tokens = 1,
                  .decode = true,
                  .max_rows = r->planned->options.max_rows,
                  .pattern = r->pattern};
}

Work cost_prompt(const CostRun *r, double seq) {
    return (Work){.sequences = r->batch,
                  .tokens = seq,
                  .max_rows = r->planned->options.max_rows,
                  .pattern = r->pattern};
}

// ---- the weights ----

bool cost_retype(Weights *out, Arena *arena, const Weights *from, const Config *c, DType dtype,
                 Error *error) {
    size_t count = (size_t)c->n_layers;
    *out = *from;
    out->layers = arena_alloc(arena, count, sizeof *out->layers, error);
    if (!out->layers) return false;
    memcpy(out->layers, from->layers, count * sizeof *out->layers);
    for (OperationId id = 0; id < OPERATION_HEAD; id++)
        for (int l = 0; l < c->n_layers && operation_matrix(out, id, l); l++)
            operation_matrix(out, id, l)->dtype =
                dtype_fitting(dtype, operation_matrix(out, id, l)->cols);
    Matrix *const ends[] = {&out->token_embedding, &out->position_embedding, &out->head};
    for (int i = 0; i < 3; i++)
        ends[i]->dtype = dtype_fitting(dtype, ends[i]->cols);
    return true;
}

// The type of the most bytes of what a token meets.
static DType main_dtype(const Weights *w, const Config *c) {
    double bytes[DTYPE_COUNT] = {0};
    int most = 0;
    for (OperationId id = 0; id < OPERATION_IDS; id++)
        for (int l = 0; l < (id == OPERATION_HEAD ? 1 : c->n_layers); l++) {
            const Matrix *m = operation_matrix(w, id, l);
            if (m) bytes[m->dtype] += (double)matrix_bytes(m);
        }
    for (int type = 1; type < DTYPE_COUNT; type++)
        if (bytes[type] > bytes[most]) most = type;
    return (DType)most;
}

static bool open_checkpoint(CostRun *r, Error *error) {
    const Options *o = r->options;
    bool typed = option_given(o, OPTION_COST_TYPE);
    DType dtype = typed ? OPTION_DTYPES[o->type] : DTYPE_F16;
    r->is_outline = outline_is_meant(o->model);
    if (r->is_outline ? !checkpoint_open_outline(&r->checkpoint, o->model, dtype, error)
                      : !checkpoint_open(&r->checkpoint, o->model, error))
        return false;
    const Config *config = checkpoint_config(r->checkpoint);
    r->weights = *checkpoint_weights(r->checkpoint);
    if (typed && !r->is_outline &&
        !cost_retype(&r->weights, &r->arena, checkpoint_weights(r->checkpoint), config, dtype,
                     error))
        return false;
    r->dtype = main_dtype(&r->weights, config);
    return true;
}

// ---- the command ----

static bool plan(CostRun *r, Error *error) {
    const Options *o = r->options;
    const Config *config = checkpoint_config(r->checkpoint);
    int64_t usual = o->measure ? MEASURED_SEQ : DEFAULT_SEQ;
    int64_t seq = option_given(o, OPTION_SEQ)   ? o->seq
                  : usual < config->max_seq_len ? usual
                                                : config->max_seq_len;
    r->seq = (double)seq;
    r->batch = (double)o->batch;
    r->model_options = (ModelOptions){.threads = o->threads.values[0],
                                      .precision = (Precision)o->precision,
                                      .kv_type = (KvType)o->kv,
                                      .context = (int)seq,
                                      .n_sequences = (int)o->batch,
                                      .max_logit_rows = (int)o->batch};
    r->planned = model_plan(config, &r->weights, &r->model_options, error);
    if (!r->planned) return error_prefix(error, o->model);
    r->config = &r->planned->config;
    bool too_long = seq > config_longest_context(config);
    if (too_long && (o->measure || o->max_memory))
        return error_set(error, ERROR_USAGE, "--seq: got %" PRId64 ", the model's context is %d",
                         seq, config_longest_context(config));
    if (too_long && !o->quiet)
        note("%" PRId64 " tokens: more than the model's context of %d", seq, config->max_seq_len);
    // Counts need no device: where there is none, its figures are unknown.
    WorkCost token;
    work_cost(&token, r->planned, &r->weights,
              &(Work){.sequences = 1, .tokens = 1, .decode = true, .max_rows = 1});
    if (!o->savings && !o->sweep && !o->max_memory && !o->measure && !wants_ranks(o))
        r->machine = option_given(o, OPTION_RIDGE)
                         ? (Machine){.name = "--ridge", .ridge = o->ridge}
                         : machine_open((MachineKind)o->machine, &r->model_options, r->dtype,
                                        token.total.weight_bytes);
    return true;
}

static bool report(const CostRun *r, Error *error) {
    const Options *o = r->options;
    if (o->sweep) return cost_print_sweep(r, error);
    if (o->max_memory) return cost_print_fit(r, error);
    if (o->measure) return cost_print_measure(r, error);
    if (wants_ranks(o)) return cost_print_ranks(r, error);
    if (!o->savings && !o->intensity)
        return o->json ? cost_print_json(r, error) : cost_print(r, error);
    if (o->savings)
        cost_print_savings(r);
    else
        cost_print_intensity(r);
    return true;
}

bool cost_command(const Options *o, Error *error) {
    PictureFiles files = {0};
    CostRun run = {.options = o, .files = &files};
    if (!check_options(o, error) ||
        (o->pattern && !attention_pattern_parse(&run.pattern, o->pattern, error)))
        return false;
    if (!strcmp(o->model, PRESETS)) return cost_print_presets(o, error);
    bool good = open_files(&files, o, error) && open_checkpoint(&run, error) && plan(&run, error) &&
                report(&run, error);
    model_close(run.planned);
    arena_free(&run.arena);
    checkpoint_close(run.checkpoint);
    picture_files_free(&files);
    return good;
}
