// A prompt's matrices take FLOPs in proportion to its length, its attention to the length squared,
// until windows bound it.
#include "commands/cost/cost.h"

#include "commands/shared/output.h"
#include "kernels/precision.h"

#include <stdio.h>
#include <string.h>

// ---- the crossover ----

static const double LONGEST = 0x1p40; // that is looked for

static bool attention_outgrows(const Config *c, double length, bool attention_block) {
    Work work = {.sequences = 1, .tokens = length};
    double attention =
        operation_flops(c, OPERATION_SCORES, &work) + operation_flops(c, OPERATION_VALUES, &work);
    double block = 0;
    for (OperationId id = OPERATION_WQ; id <= OPERATION_WO; id++)
        block += operation_flops(c, id, &work);
    return attention >= (attention_block ? block : model_flops(c, &work)) - attention;
}

// The share of attention never falls with the length, so halving intervals finds the first.
double cost_crossover(const Config *c, bool attention_block) {
    double below = 0, length = 1;
    while (!attention_outgrows(c, length, attention_block)) {
        if (length >= LONGEST) return 0;
        below = length;
        length *= 2;
    }
    while (length - below > 1) {
        double middle = (double)(int64_t)((below + length) / 2);
        if (attention_outgrows(c, middle, attention_block))
            length = middle;
        else
            below = middle;
    }
    return length;
}

static void print_crossover(const char *what, double length) {
    if (length > 0)
        output_print("Scores and values take as many FLOPs as %s from %.0f tokens on.\n", what,
                     length);
    else
        output_print("Scores and values never take as many FLOPs as %s: windows bound them.\n",
                     what);
}

// ---- the lengths ----

enum { MOST_LENGTHS = 32, N_PARTS = 4 };
static const char *const PARTS[N_PARTS] = {"wq wk wv wo", "scores, values", "feed-forward", "head"};

typedef struct Sweep {
    int count;
    double lengths[MOST_LENGTHS];
    double flops[MOST_LENGTHS][N_PARTS];
} Sweep;

static int part_of(OperationId id) {
    if (id == OPERATION_SCORES || id == OPERATION_VALUES) return 1;
    if (id >= OPERATION_GATE && id <= OPERATION_DOWN) return 2;
    return id == OPERATION_HEAD ? 3 : 0;
}

// 1, 2, 4, .. and --seq itself; without it up to the model's context.
static void fill(Sweep *s, const CostRun *r) {
    double last = option_given(r->options, OPTION_SEQ) ? r->seq : r->config->max_seq_len;
    for (double length = 1; s->count < MOST_LENGTHS; length *= 2) {
        double n = length < last ? length : last;
        Work work = {.sequences = r->batch, .tokens = n};
        s->lengths[s->count] = n;
        for (OperationId id = 0; id < OPERATION_IDS; id++)
            s->flops[s->count][part_of(id)] += operation_flops(r->config, id, &work);
        s->count++;
        if (n >= last) return;
    }
}

static double all_parts(const Sweep *s, int i) {
    double sum = 0;
    for (int part = 0; part < N_PARTS; part++)
        sum += s->flops[i][part];
    return sum;
}

static void print_lengths(const CostRun *r, const Sweep *s) {
    bool csv = r->options->csv;
    double element = (double)kv_element_bytes(r->model_options.kv_type);
    if (csv)
        output_print("tokens,flops,projection_flops,attention_flops,ffn_flops,head_flops,"
                     "score_bytes,kv_bytes\n");
    else
        output_print("%9s %12s %12s %10s %16s %12s\n", "tokens", "GFLOP", "attention", "share, %",
                     "scores/layer MB", "KV MB");
    for (int i = 0; i < s->count; i++) {
        double n = s->lengths[i], all = all_parts(s, i), attention = s->flops[i][1];
        double scores = r->batch * score_bytes(r->config, n, n, element);
        double kv = r->batch * kv_needed_bytes(r->config, NULL, n, r->model_options.kv_type);
        if (csv)
            output_print("%.0f,%.0f,%.0f,%.0f,%.0f,%.0f,%.0f,%.0f\n", n, all, s->flops[i][0],
                         attention, s->flops[i][2], s->flops[i][3], scores, kv);
        else
            output_print("%9.0f %12.4g %12.4g %10.2f %16.4g %12.4g\n", n, all / 1e9,
                         attention / 1e9, 100 * attention / all, scores / 1e6, kv / 1e6);
    }
}

// ---- the picture: which part takes which share ----

typedef struct SweepPicture {
    float shares[N_PARTS * MOST_LENGTHS];
    char texts[MOST_LENGTHS][16];
    const char *labels[MOST_LENGTHS];
    Panel panel;
    Picture picture;
} SweepPicture;

static void draw(SweepPicture *p, const Sweep *s) {
    for (int i = 0; i < s->count; i++) {
        snprintf(p->texts[i], sizeof p->texts[i], "%.0f", s->lengths[i]);
        p->labels[i] = p->texts[i];
        for (int part = 0; part < N_PARTS; part++)
            p->shares[part * s->count + i] = (float)(s->flops[i][part] / all_parts(s, i));
    }
    p->panel = (Panel){.values = p->shares};
    p->picture = (Picture){.title = "share of the FLOPs of a prompt, by its length in tokens",
                           .panels = &p->panel,
                           .n_panels = 1,
                           .rows = N_PARTS,
                           .cols = (size_t)s->count,
                           .row_labels = PARTS,
                           .col_labels = p->labels,
                           .high = 1};
}

bool cost_print_sweep(const CostRun *r, Error *error) {
    Sweep sweep = {0};
    SweepPicture picture;
    bool files = picture_files_wanted(r->files);
    fill(&sweep, r);
    draw(&picture, &sweep);
    if (files && !picture_files_write(r->files, &picture.picture, error)) return false;
    print_lengths(r, &sweep);
    if (r->options->csv) return true;
    output_print("\n");
    print_crossover("wq, wk, wv and wo", cost_crossover(r->config, true));
    print_crossover("all matrices", cost_crossover(r->config, false));
    output_print("\n");
    Terminal window = output_window(r->options->color);
    return files || picture_print(&picture.picture, &window, error);
}
