#include "commands/cost/cost.h"

#include "commands/shared/output.h"
#include "kernels/precision.h"

#include <math.h>
#include <stdio.h>

// ---- what the cache saves ----

static void print_cache_savings(const CostRun *r) {
    static const int LENGTHS[] = {10, 50, 100, 200, 500, 1000};
    output_print("What the cache saves: rows through the layers for n tokens, one after another\n"
                 "%8s %12s %12s %8s %14s %14s\n",
                 "n", "without", "with", "ratio", "GFLOP without", "GFLOP with");
    for (size_t i = 0; i < sizeof LENGTHS / sizeof *LENGTHS; i++) {
        CacheSavings s = cache_savings(r->config, LENGTHS[i]);
        output_print("%8d %12.0f %12.0f %8.1f %14.3f %14.3f\n", LENGTHS[i], s.rows_without,
                     s.rows_with, s.rows_without / s.rows_with, s.flops_without / 1e9,
                     s.flops_with / 1e9);
    }
}

// ---- what shared heads save ----

static void print_head_savings(const CostRun *r) {
    const Config *c = r->config;
    HeadCost all = head_cost(c, c->n_heads, r->seq, r->model_options.kv_type);
    output_print("\nWhat sharing keys and values saves: one layer, cache of %.0f tokens in %s\n"
                 "%-6s %8s %10s %18s %8s %14s %8s\n",
                 r->seq, kv_name(r->model_options.kv_type), "", "heads", "KV heads",
                 "attention weights", "saved", "cache bytes", "saved");
    for (int kv = c->n_heads; kv >= 1; kv--) {
        if (c->n_heads % kv) continue;
        HeadCost cost = head_cost(c, kv, r->seq, r->model_options.kv_type);
        output_print("%-6s %8d %10d %18.0f %6.2f %% %14.0f %6.2f %%%s\n",
                     kv == c->n_heads ? "MHA"
                     : kv == 1        ? "MQA"
                                      : "GQA",
                     c->n_heads, kv, cost.parameters, 100 - 100 * cost.parameters / all.parameters,
                     cost.kv_bytes, 100 - 100 * cost.kv_bytes / all.kv_bytes,
                     kv == c->n_kv_heads ? "  this model" : "");
    }
}

void cost_print_savings(const CostRun *r) {
    KvType kv = r->model_options.kv_type;
    double whole =
        2.0 * r->config->kv_dim * r->seq * r->config->n_layers * (double)kv_element_bytes(kv);
    double needed = kv_needed_bytes(r->config, NULL, r->seq, kv);
    print_cache_savings(r);
    print_head_savings(r);
    if (needed == whole) return;
    output_print("\nWindows: of %.0f bytes in a cache of %.0f tokens, %.0f are ever seen again "
                 "(%.1f %%)\n",
                 whole, r->seq, needed, 100 * needed / whole);
}

// ---- intensities ----

// As lectures count them: numbers of two bytes, every query meets every key, one head, nothing
// stays in a cache between two operations.
void cost_print_intensity(const CostRun *r) {
    static const int LENGTHS[] = {1, 8, 64, 256, 1024, 4096};
    const Config *c = r->config;
    double ridge = machine_ridge(&r->machine);
    output_print("FLOP per byte of one product, numbers of 2 bytes, S tokens; %s has %.3g: above "
                 "it arithmetic is the limit (C), below it memory (M)\n%6s %14s %14s %14s %14s "
                 "%14s %14s\n",
                 r->machine.name, ridge, "S", "wq", "scores", "values", "wo", "w_up", "head");
    for (size_t i = 0; i < sizeof LENGTHS / sizeof *LENGTHS; i++) {
        double s = LENGTHS[i];
        const double shapes[][3] = {{s, c->dim, c->q_dim},      {s, c->head_dim, s},
                                    {s, s, c->head_dim},        {s, c->q_dim, c->dim},
                                    {s, c->dim, c->hidden_dim}, {s, c->dim, c->vocab_size}};
        output_print("%6.0f", s);
        for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
            double intensity = product_intensity(shapes[k][0], shapes[k][1], shapes[k][2], 2);
            output_print(" %12.4f %s", intensity, ridge <= 0 ? "-" : intensity > ridge ? "C" : "M");
        }
        output_print("\n");
    }
}

// ---- presets ----

static bool print_preset(const char *name, const Options *o, Error *error) {
    Checkpoint *checkpoint = NULL;
    DType dtype = option_given(o, OPTION_COST_TYPE) ? OPTION_DTYPES[o->type] : DTYPE_F16;
    KvType kv = (KvType)o->kv;
    if (!checkpoint_open_outline(&checkpoint, name, dtype, error)) return false;
    const Config *c = checkpoint_config(checkpoint);
    const Weights *weights = checkpoint_weights(checkpoint);
    Model *planned = model_plan(c, weights, &(ModelOptions){.threads = 1}, error);
    if (planned) {
        double seq = option_given(o, OPTION_SEQ) ? (double)o->seq : c->max_seq_len;
        double bytes = planned->weight_bytes.matrices + (double)planned->weight_bytes.vectors;
        output_print("%-14s %6d %6d %5d %8d %8d %13.0f %10.1f %14.0f %9.0f %11.1f\n", name,
                     c->n_layers, c->dim, c->n_heads, c->n_kv_heads, c->head_dim,
                     parameter_count(planned, weights), bytes / 1e6,
                     kv_needed_bytes(c, NULL, 1, kv), seq, kv_needed_bytes(c, NULL, seq, kv) / 1e6);
    }
    model_close(planned);
    checkpoint_close(checkpoint);
    return planned;
}

bool cost_print_presets(const Options *o, Error *error) {
    bool good = true;
    output_print("%-14s %6s %6s %5s %8s %8s %13s %10s %14s %9s %11s\n", "preset", "layers", "dim",
                 "heads", "KV heads", "channels", "parameters", "weights MB", "KV bytes/token",
                 "tokens", "KV cache MB");
    for (size_t i = 0; good && preset_at(i); i++)
        good = print_preset(preset_at(i)->name, o, error);
    return good;
}
