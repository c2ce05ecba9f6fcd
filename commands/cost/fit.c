// What fits into a given memory, from the table that model_open allocates by: for each type of the
// weights and of the cache the longest context.
#include "commands/cost/cost.h"

#include "commands/shared/output.h"
#include "kernels/precision.h"
#include "weights/quant.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool cost_parse_size(double *bytes, const char *text, Error *error) {
    static const char UNITS[] = "KMGT";
    char number[32];
    size_t length = strlen(text);
    const char *unit = length ? strchr(UNITS, toupper((unsigned char)text[length - 1])) : NULL;
    size_t digits = length - (unit && *unit);
    snprintf(number, sizeof number, "%.*s", (int)(digits < 31 ? digits : 31), text);
    bool good = digits && digits < sizeof number && parse_number(bytes, number) && *bytes > 0;
    for (ptrdiff_t i = 0; good && unit && i <= unit - UNITS; i++)
        *bytes *= 1024;
    if (good && *bytes < 0x1p60) return true;
    return error_set(error, ERROR_USAGE,
                     "--max-memory: got \"%.80s\", wanted bytes, or a number with K, M, G or T, "
                     "such as 4G",
                     text);
}

// A type of the weights: what the model has, or one that convert could make of it.
typedef struct Choice {
    const char *name;
    Arena arena;
    Weights weights;
    Model *planned;
} Choice;

static bool plan_choice(Choice *c, const CostRun *r, DType dtype, bool as_stored, Error *error) {
    const Config *config = checkpoint_config(r->checkpoint);
    c->name = as_stored ? "as stored" : dtype_info(dtype)->name;
    c->weights = r->weights;
    if (!as_stored && !cost_retype(&c->weights, &c->arena, &r->weights, config, dtype, error))
        return false;
    c->planned = model_plan(config, &c->weights, &r->model_options, error);
    return c->planned;
}

static void close_choice(Choice *c) {
    model_close(c->planned);
    arena_free(&c->arena);
}

static double peak(const Choice *c, const CostRun *r, KvType kv, int context) {
    ModelOptions options = r->model_options;
    options.kv_type = kv;
    options.context = context;
    ModelMemory memory = model_memory(c->planned, &options);
    return model_memory_peak(&memory);
}

// The longest context that fits, at most `most`; 0: not even one position. Memory grows with it.
static int longest(const Choice *c, const CostRun *r, KvType kv, double bytes, int most) {
    if (peak(c, r, kv, most) <= bytes) return most;
    int fits = 0, over = most;
    while (over - fits > 1) {
        int middle = fits + (over - fits) / 2;
        if (peak(c, r, kv, middle) <= bytes)
            fits = middle;
        else
            over = middle;
    }
    return fits;
}

// One line of the table: what is needed for a single token, and the longest contexts.
static void print_choice(const Choice *c, const CostRun *r, double bytes, int most) {
    output_print("%-10s %10.1f", c->name, peak(c, r, KV_F16, 1) / 1e6);
    for (KvType kv = 0; kv < KV_TYPE_COUNT; kv++) {
        int context = longest(c, r, kv, bytes, most);
        char text[32] = "-";
        if (context) snprintf(text, sizeof text, "%d%s", context, context == most ? " (all)" : "");
        output_print(" %16s", text);
    }
    output_print("\n");
}

// Of the choices in their order, from the most exact on, the first that holds --seq tokens.
static void print_answer(const Choice *found, const CostRun *r, double bytes) {
    if (!found) {
        output_print("\n%.0f x %.0f tokens fit in none of these types.\n", r->batch, r->seq);
        return;
    }
    double needed = peak(found, r, r->model_options.kv_type, (int)r->seq);
    output_print("\n%.0f x %.0f tokens fit with weights %s and a cache in %s: %.1f MB, %.1f MB are "
                 "left.\n",
                 r->batch, r->seq, found->name, kv_name(r->model_options.kv_type), needed / 1e6,
                 (bytes - needed) / 1e6);
}

// Types of fewer bytes than the model's own; its own comes first.
static bool is_smaller(DType dtype, const CostRun *r) {
    const DTypeInfo *a = dtype_info(dtype), *b = dtype_info(r->dtype);
    return (double)a->block_bytes / a->block < (double)b->block_bytes / b->block;
}

bool cost_print_fit(const CostRun *r, Error *error) {
    static const DType TYPES[] = {DTYPE_COUNT, DTYPE_F16, DTYPE_Q8_0, DTYPE_Q4_0};
    enum { N_TYPES = sizeof TYPES / sizeof *TYPES };
    Choice choices[N_TYPES] = {0}, *found = NULL;
    double bytes = 0;
    int most = config_longest_context(r->config);
    bool good = cost_parse_size(&bytes, r->options->max_memory, error);
    if (good)
        output_print("The longest context in %.1f MB (%s), batch %.0f; with %s\n"
                     "%-10s %10s %16s %16s %16s\n",
                     bytes / 1e6, r->options->max_memory, r->batch,
                     device_info(r->planned->device)->description, "weights", "least MB",
                     "cache f32", "cache f16", "cache bf16");
    for (int i = 0; good && i < N_TYPES; i++) {
        if (i && !is_smaller(TYPES[i], r)) continue;
        good = plan_choice(&choices[i], r, TYPES[i], !i, error);
        if (!good) break;
        print_choice(&choices[i], r, bytes, most);
        bool fits = peak(&choices[i], r, r->model_options.kv_type, (int)r->seq) <= bytes;
        if (!found && fits) found = &choices[i];
    }
    if (good) print_answer(found, r, bytes);
    for (int i = 0; i < N_TYPES; i++)
        close_choice(&choices[i]);
    return good;
}
