// cost --ranks: what each of several processes takes of a model (model/ranks.h), and what their
// network allows. Memory is that of the table that a model is opened by, so it is exact; rates are
// ceilings, from the bytes that cross the network alone.
#include "commands/cost/cost.h"

#include "commands/shared/output.h"
#include "model/ranks.h"

// Ethernet, in bytes/s, without the frames' own bytes.
static const struct {
    const char *name;
    double rate;
} NETWORKS[] = {{"1 GbE", 125e6}, {"10 GbE", 1250e6}};

// Bytes of the residual stream from a rank to the next, and of logits from the last to the first.
static double stream_bytes(const CostRun *r) {
    return (double)r->config->dim * sizeof(float);
}

static double logit_bytes(const CostRun *r) {
    return (double)r->config->vocab_size * sizeof(float);
}

static bool print_rank(const CostRun *r, int rank, LayerRange layers, Error *error) {
    ModelOptions options = r->model_options;
    options.max_rows = ranks_rows(&options);
    options.layers = layers;
    Model *planned = model_plan(checkpoint_config(r->checkpoint), &r->weights, &options, error);
    if (!planned) return false;
    ModelMemory m = model_memory(planned, &options);
    output_print(
        "%4d  %5d - %-5d %12.2f %10.2f %10.2f %10.2f %14.2f\n", rank, layers.first, layers.end - 1,
        m.weights / 1e6, m.cache / 1e6, (m.scratch + m.rope + m.operations + m.host + m.file) / 1e6,
        model_memory_peak(&m) / 1e6, ranks_token_bytes(layers, r->config, &r->weights) / 1e6);
    model_close(planned);
    return true;
}

// One sequence waits for every message; of a prompt only the last token has logits, and every link
// carries another chunk at the same time.
static void print_network(const CostRun *r, int n) {
    double links = n - 1, stream = stream_bytes(r), logits = logit_bytes(r);
    output_print(
        "\nA token crosses %.0f link%s with %.0f bytes each, and %.0f bytes of logits return: "
        "%.0f bytes,\n%.0f messages one after another. What the network allows at most, without "
        "latency:\n",
        links, links == 1 ? "" : "s", stream, logits, links * stream + logits, (double)n);
    output_print("%-10s %24s %24s\n", "network", "one sequence, tokens/s", "a prompt, tokens/s");
    for (int i = 0; i < 2; i++)
        output_print("%-10s %24.0f %24.0f\n", NETWORKS[i].name,
                     NETWORKS[i].rate / (links * stream + logits), NETWORKS[i].rate / stream);
    output_print(
        "One sequence is computed by one rank after another, so the ranks read the bytes of a "
        "token no\nfaster than one machine would.\n");
}

bool cost_print_ranks(const CostRun *r, Error *error) {
    const IntegerList *asked = &r->options->layers_per_rank;
    int n = asked->count ? asked->count : (int)r->options->ranks;
    LayerRange ranges[RANKS_MOST];
    if (!ranks_split(ranges, n, asked->count ? asked->values : NULL, r->config, &r->weights, error))
        return false;
    output_print("%d rank%s, %.0f x %.0f tokens: memory of each\n\n", n, n == 1 ? "" : "s",
                 r->batch, r->seq);
    output_print("%4s  %13s %12s %10s %10s %10s %14s\n", "rank", "layers", "weights MB", "cache MB",
                 "other MB", "all MB", "MB a token");
    for (int rank = 0; rank < n; rank++)
        if (!print_rank(r, rank, ranges[rank], error)) return false;
    if (n > 1) print_network(r, n);
    return true;
}
