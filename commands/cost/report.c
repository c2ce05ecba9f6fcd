// Two kinds of work are told apart: one more token, which reads all weights and the whole cache,
// and a prompt, whose tokens share each read of the weights.
#include "commands/cost/cost.h"

#include "commands/shared/output.h"
#include "kernels/precision.h"
#include "weights/quant.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// All that the two forms of the report have.
typedef struct Figures {
    Work decode, prompt;
    WorkCost decode_cost, prompt_cost;
    ModelMemory memory;
    double decode_rate, prompt_rate; // tokens/s at most; 0: not known
} Figures;

// Weights and cache: activations stay in the processor's caches. Also the bytes that bench counts.
static double read_bytes(const Operation *o) {
    return o->weight_bytes + o->kv_bytes;
}

static double rate(const CostRun *r, const Work *work, const Operation *total) {
    double seconds = machine_seconds(&r->machine, total->flops, read_bytes(total));
    return seconds > 0 ? work->sequences * work->tokens / seconds : 0;
}

// The caller frees them. NULL: exit code 5.
static Figures *find_figures(const CostRun *r, Error *error) {
    Figures *f = malloc(sizeof *f);
    if (!f) {
        error_set(error, ERROR_MEMORY, "out of memory for the figures");
        return NULL;
    }
    f->decode = cost_decode(r, r->seq);
    f->prompt = cost_prompt(r, r->seq);
    work_cost(&f->decode_cost, r->planned, &r->weights, &f->decode);
    work_cost(&f->prompt_cost, r->planned, &r->weights, &f->prompt);
    f->memory = model_memory(r->planned, &r->model_options);
    f->decode_rate = rate(r, &f->decode, &f->decode_cost.total);
    f->prompt_rate = rate(r, &f->prompt, &f->prompt_cost.total);
    return f;
}

// All bytes of an operation, where it is looked at alone.
static double moved_bytes(const Operation *o) {
    return read_bytes(o) + o->kv_written_bytes + o->activation_bytes;
}

static const char *limit_name(const CostRun *r, double flops, double bytes) {
    if (machine_ridge(&r->machine) <= 0) return "-";
    return memory_is_limit(&r->machine, flops, bytes) ? "memory" : "compute";
}

// ---- text ----

static void print_model(const CostRun *r) {
    const Config *c = r->config;
    char escaped[200];
    output_print(
        "%s: %s, %d layers, dim %d, hidden %d, %d heads of %d channels, %d for keys and "
        "values, vocabulary %d\n",
        escape_bytes(escaped, sizeof escaped, r->options->model, strlen(r->options->model)),
        c->family, c->n_layers, c->dim, c->hidden_dim, c->n_heads, c->head_dim, c->n_kv_heads,
        c->vocab_size);
    output_print("%.1f million parameters, %s%s; cache %s",
                 parameter_count(r->planned, &r->weights) / 1e6, r->is_outline ? "" : "mostly ",
                 dtype_info(r->dtype)->name, kv_name(r->model_options.kv_type));
    if (r->machine.ridge > 0)
        output_print("; ridge %.6g FLOP/byte, as given", r->machine.ridge);
    else if (machine_ridge(&r->machine) > 0)
        output_print("; %s: memory %.4g GB/s, %.4g GFLOP/s, ridge %.3g FLOP/byte", r->machine.name,
                     r->machine.read / 1e9, r->machine.flops / 1e9, machine_ridge(&r->machine));
    output_print("\n");
}

// Lines fit into 80 columns: the longest name is "scores, window 32768".
static void print_line(const CostRun *r, const char *name, const Operation *o, double tokens) {
    char layers[16] = "", limit[16] = "";
    if (o->flops > 0)
        snprintf(limit, sizeof limit, "  %s", limit_name(r, o->flops, moved_bytes(o)));
    if (o->layers > 1) snprintf(layers, sizeof layers, "%d", o->layers);
    output_print("%-20s %6s %10.2f %11.2f %9.2f %10.2f%s\n", name, layers, o->flops / tokens / 1e6,
                 o->weight_bytes / tokens / 1e6, o->kv_bytes / tokens / 1e6, operation_intensity(o),
                 limit);
}

static void print_work(const CostRun *r, const WorkCost *cost, double tokens) {
    output_print("%-20s %6s %10s %11s %9s %10s  %s\n", "operation", "layers", "MFLOP", "weights MB",
                 "cache MB", "FLOP/byte", "limit");
    for (int i = 0; i < cost->count; i++) {
        const Operation *o = &cost->operations[i];
        char name[40];
        if (o->window)
            snprintf(name, sizeof name, "%s, window %d", operation_name(o->id), o->window);
        else
            snprintf(name, sizeof name, "%s", operation_name(o->id));
        print_line(r, name, o, tokens);
    }
    print_line(r, "all", &cost->total, tokens);
}

static void print_memory_line(const char *name, double bytes, const char *what) {
    if (bytes > 0) output_print("%-12s %12.2f MB  %s\n", name, bytes / 1e6, what);
}

static void print_memory(const CostRun *r, const Figures *f) {
    const ModelMemory *m = &f->memory;
    char cache[160];
    snprintf(cache, sizeof cache,
             "keys and values of %.0f x %.0f tokens; %.2f MB of them are needed", r->batch, r->seq,
             r->batch * kv_needed_bytes(r->config, &r->pattern, r->seq, r->model_options.kv_type) /
                 1e6);
    output_print("\nmemory, as a model is opened for this (%s)\n",
                 device_info(r->planned->device)->description);
    print_memory_line("weights", m->weights,
                      "matrices, norms and biases as the device stores them");
    print_memory_line("cache", m->cache, cache);
    print_memory_line("scratch", m->scratch, "activations of a pass, logits");
    print_memory_line("rope", m->rope, "cos and sin of every position");
    print_memory_line("operations", m->operations, "what the operations need besides");
    print_memory_line("host", m->host, "logits and lists on the host");
    print_memory_line("file", m->file,
                      device_info(r->planned->device)->borrows_weights
                          ? "the file's matrices, which stay where they are"
                          : "of the file while it is loaded: its largest matrix");
    print_memory_line("all", model_memory_peak(m), "at most at any time, besides the program");
}

// Of the pairs that a causal prompt has in the same layers.
static void print_pattern(const CostRun *r, const Figures *f) {
    Work causal = f->prompt;
    causal.pattern = (KeyPattern){0};
    double all = operation_flops(r->config, OPERATION_SCORES, &causal);
    output_print(".\nThe pattern %s shows %.4g %% of the keys that the prompt sees without it",
                 r->options->pattern,
                 100 * operation_flops(r->config, OPERATION_SCORES, &f->prompt) / all);
}

static void print_conclusion(const CostRun *r, const Figures *f) {
    const Operation *d = &f->decode_cost.total, *p = &f->prompt_cost.total;
    double tokens = r->batch * r->seq;
    output_print("\nThe prompt: %.1f GFLOP in %.0f pass%s of at most %.0f rows", p->flops / 1e9,
                 work_passes(&f->prompt), work_passes(&f->prompt) > 1 ? "es" : "",
                 f->prompt.max_rows);
    if (f->prompt_rate > 0)
        output_print("; %s-bound: %.3g s at least (%.0f tokens/s)",
                     limit_name(r, p->flops, read_bytes(p)), tokens / f->prompt_rate,
                     f->prompt_rate);
    if (r->options->pattern) print_pattern(r, f);
    output_print(".\nStoring all scores of a layer would take %.2f MB; they are never stored.\n",
                 r->batch *
                     score_bytes(r->config, r->seq, r->seq,
                                 (double)kv_element_bytes(r->model_options.kv_type)) /
                     1e6);
    output_print("Decode reads %.2f MB per token: %.2f of weights, %.2f of the cache",
                 read_bytes(d) / r->batch / 1e6, d->weight_bytes / r->batch / 1e6,
                 d->kv_bytes / r->batch / 1e6);
    if (f->decode_rate > 0)
        output_print("; %s-bound: at %.4g GB/s at most %.0f tokens/s",
                     limit_name(r, d->flops, read_bytes(d)), r->machine.read / 1e9, f->decode_rate);
    output_print(".\n");
}

bool cost_print(const CostRun *r, Error *error) {
    Figures *f = find_figures(r, error);
    if (!f) return false;
    print_model(r);
    output_print("\none more token: the last of %.0f", r->seq);
    if (r->batch > 1) output_print(", in %.0f sequences at once; for each token", r->batch);
    output_print("\n");
    print_work(r, &f->decode_cost, r->batch);
    output_print("\na prompt of %.0f tokens", r->seq);
    if (r->batch > 1) output_print(" in each of %.0f sequences", r->batch);
    output_print(": for each token\n");
    print_work(r, &f->prompt_cost, r->batch * r->seq);
    print_memory(r, f);
    print_conclusion(r, f);
    free(f);
    return true;
}

// ---- JSON ----

// Integers as such, as far as doubles are exact.
static void write_count(JsonWriter *w, const char *key, double value) {
    if (value == floor(value) && fabs(value) < 0x1p53)
        writer_integer(w, key, (int64_t)value);
    else
        writer_number(w, key, value);
}

static void write_known(JsonWriter *w, const char *key, double value) {
    writer_number(w, key, value > 0 ? value : (double)NAN);
}

static void write_operations(JsonWriter *w, const CostRun *r, const WorkCost *cost,
                             const char *work) {
    for (int i = 0; i < cost->count; i++) {
        const Operation *o = &cost->operations[i];
        writer_begin(w, NULL, '{');
        writer_string(w, "work", work);
        writer_string(w, "name", operation_name(o->id));
        writer_integer(w, "layers", o->layers);
        writer_integer(w, "window", o->window);
        write_count(w, "flops", o->flops);
        write_count(w, "weight_bytes", o->weight_bytes);
        write_count(w, "kv_bytes", o->kv_bytes);
        write_count(w, "kv_written_bytes", o->kv_written_bytes);
        write_count(w, "activation_bytes", o->activation_bytes);
        writer_number(w, "intensity", operation_intensity(o));
        writer_string(w, "limit",
                      o->flops > 0 && machine_ridge(&r->machine) > 0
                          ? limit_name(r, o->flops, moved_bytes(o))
                          : NULL);
        writer_end(w, '}');
    }
}

static void write_totals(JsonWriter *w, const CostRun *r, const Figures *f) {
    const Operation *d = &f->decode_cost.total, *p = &f->prompt_cost.total;
    KvType kv = r->model_options.kv_type;
    double each = r->batch, tokens = r->batch * r->seq;
    write_count(w, "flops_per_token", d->flops / each);
    write_count(w, "weight_bytes_per_token", d->weight_bytes / each);
    write_count(w, "kv_read_bytes_per_token", d->kv_bytes / each);
    write_count(w, "kv_bytes_per_token", kv_needed_bytes(r->config, &r->pattern, 1, kv));
    write_count(w, "kv_bytes", r->batch * kv_needed_bytes(r->config, &r->pattern, r->seq, kv));
    write_count(w, "score_bytes",
                r->batch * score_bytes(r->config, r->seq, r->seq, (double)kv_element_bytes(kv)));
    write_count(w, "prompt_flops_per_token", p->flops / tokens);
    write_count(w, "prompt_weight_bytes_per_token", p->weight_bytes / tokens);
    write_count(w, "peak_memory_bytes", model_memory_peak(&f->memory));
}

static void write_memory(JsonWriter *w, const ModelMemory *m) {
    writer_begin(w, "memory", '{');
    write_count(w, "weights", m->weights);
    write_count(w, "cache", m->cache);
    write_count(w, "scratch", m->scratch);
    write_count(w, "rope", m->rope);
    write_count(w, "operations", m->operations);
    write_count(w, "host", m->host);
    write_count(w, "file", m->file);
    writer_end(w, '}');
}

bool cost_print_json(const CostRun *r, Error *error) {
    JsonWriter w = {0};
    Figures *f = find_figures(r, error);
    if (!f) return false;
    writer_begin(&w, NULL, '{');
    writer_string(&w, "model", r->options->model);
    writer_string(&w, "family", r->config->family);
    write_count(&w, "parameters", parameter_count(r->planned, &r->weights));
    writer_string(&w, "type", dtype_info(r->dtype)->name);
    writer_string(&w, "kv", kv_name(r->model_options.kv_type));
    writer_string(&w, "pattern", r->options->pattern);
    write_count(&w, "seq", r->seq);
    write_count(&w, "batch", r->batch);
    write_totals(&w, r, f);
    write_memory(&w, &f->memory);
    writer_begin(&w, "machine", '{');
    writer_string(&w, "name", r->machine.name);
    write_known(&w, "bytes_per_second", r->machine.read);
    write_known(&w, "flops_per_second", r->machine.flops);
    write_known(&w, "ridge", machine_ridge(&r->machine));
    writer_end(&w, '}');
    write_known(&w, "decode_tokens_per_second", f->decode_rate);
    write_known(&w, "prompt_tokens_per_second", f->prompt_rate);
    writer_begin(&w, "operations", '[');
    write_operations(&w, r, &f->decode_cost, "decode");
    write_operations(&w, r, &f->prompt_cost, "prompt");
    writer_end(&w, ']');
    writer_end(&w, '}');
    writer_line(&w);
    free(f);
    return true;
}
