// Runs a prompt and one more token and counts what was done: the counters are in the loops of
// kernels/reference/; what is allocated is counted by every backend.
#include "commands/cost/cost.h"

#include "commands/shared/interrupt.h"
#include "commands/shared/output.h"
#include "commands/shared/session.h"

#include <math.h>
#include <stdlib.h>

enum { MOST_COUNTS = 16 };

typedef struct Count {
    const char *work, *what;
    double predicted, counted; // counted NaN: this backend does not count
} Count;

typedef struct Measure {
    const CostRun *run;
    Model *model;
    Count counts[MOST_COUNTS];
    int n;
    int32_t *tokens, *sequences; // of the longest batch
} Measure;

static void add_count(Measure *m, const char *work, const char *what, double predicted,
                      double counted) {
    m->counts[m->n++] = (Count){work, what, predicted, counted};
}

// What was done between two counts, beside its prediction.
static void compare(Measure *m, const char *name, const Work *work, const DeviceCounts *before) {
    WorkCost cost;
    DeviceCounts now;
    bool counts = device_counts(m->model->device, &now);
    double unknown = counts ? 0 : (double)NAN;
    work_cost(&cost, m->model, &m->run->weights, work);
    double attention = operation_flops(m->run->config, OPERATION_SCORES, work) +
                       operation_flops(m->run->config, OPERATION_VALUES, work);
    add_count(m, name, "FLOP with weights", cost.total.flops - attention,
              unknown + 2 * (double)(now.weight_products - before->weight_products));
    add_count(m, name, "FLOP of attention", attention,
              unknown + 2 * (double)(now.attention_products - before->attention_products));
    add_count(m, name, "weight bytes", cost.total.weight_bytes,
              unknown + (double)(now.weight_bytes - before->weight_bytes));
    add_count(m, name, "cache bytes read", cost.total.kv_query_bytes,
              unknown + (double)(now.kv_read_bytes - before->kv_read_bytes));
    add_count(m, name, "cache bytes written", cost.total.kv_written_bytes,
              unknown + (double)(now.kv_written_bytes - before->kv_written_bytes));
}

// `count` tokens of each sequence, one sequence after another.
static bool run_tokens(Measure *m, int count, Error *error) {
    int n = 0, batch = (int)m->run->batch;
    bool *wants = calloc((size_t)count * (size_t)batch, sizeof *wants);
    if (!wants) return error_set(error, ERROR_MEMORY, "no memory for %d rows", count * batch);
    for (int q = 0; q < batch; q++)
        for (int i = 0; i < count; i++, n++) {
            m->tokens[n] = (int32_t)((q + i) % m->run->config->vocab_size);
            m->sequences[n] = q;
            wants[n] = i + 1 == count;
        }
    Batch all = {.n = n, .tokens = m->tokens, .sequences = m->sequences, .wants_logits = wants};
    bool good = model_forward(m->model, &all, error);
    free(wants);
    return good;
}

// A prompt of all tokens but one, then the last.
static bool run_all(Measure *m, Error *error) {
    const CostRun *r = m->run;
    DeviceCounts before;
    Work prompt = cost_prompt(r, r->seq - 1), decode = cost_decode(r, r->seq);
    if (r->seq > 1) {
        (void)device_counts(m->model->device, &before);
        if (!run_tokens(m, (int)r->seq - 1, error)) return false;
        compare(m, "prompt", &prompt, &before);
    }
    (void)device_counts(m->model->device, &before);
    if (!run_tokens(m, 1, error)) return false;
    compare(m, "decode", &decode, &before);
    ModelMemory memory = model_memory(m->model, &r->model_options);
    add_count(m, "memory", "bytes of the device", model_memory_device(&memory),
              (double)device_taken(m->model->device));
    return true;
}

static bool open_and_run(Measure *m, Error *error) {
    const CostRun *r = m->run;
    size_t rows = (size_t)(r->seq * r->batch);
    m->tokens = calloc(rows, sizeof *m->tokens);
    m->sequences = calloc(rows, sizeof *m->sequences);
    if (!m->tokens || !m->sequences)
        return error_set(error, ERROR_MEMORY, "no memory for %zu rows", rows);
    Progress progress;
    ModelOptions options = r->model_options;
    options.progress = progress_update;
    options.progress_context = &progress;
    options.stop = interrupt_flag();
    progress_begin(&progress, "loading", r->options->quiet);
    m->model = model_open(r->config, &r->weights, &options, error);
    progress_end(&progress);
    if (!m->model) return error_prefix(error, r->options->model);
    m->model->pattern = r->pattern;
    interrupt_begin();
    bool good = run_all(m, error);
    interrupt_end();
    return session_result(&(Session){.checkpoint = r->checkpoint}, good, error);
}

// ---- the report ----

static bool is_equal(const Count *c) {
    return isnan(c->counted) || c->counted == c->predicted;
}

static void print_text(const Measure *m) {
    const CostRun *r = m->run;
    output_print("%s; %.0f x %.0f tokens: a prompt of all but one, then the last\n"
                 "%-8s %-22s %20s %20s\n",
                 device_info(m->model->device)->description, r->batch, r->seq, "", "", "predicted",
                 "counted");
    for (int i = 0; i < m->n; i++) {
        const Count *c = &m->counts[i];
        output_print("%-8s %-22s %20.0f ", c->work, c->what, c->predicted);
        if (isnan(c->counted))
            output_print("%20s\n", "-");
        else
            output_print("%20.0f  %s\n", c->counted, is_equal(c) ? "equal" : "DIFFERENT");
    }
    if (isnan(m->counts[0].counted))
        output_print("Only plain loops count what they do: make BACKEND=reference.\n");
    output_print("The process has had %.1f MB of memory at most.\n",
                 (double)peak_memory_bytes() / 1e6);
}

static void print_json(const Measure *m) {
    JsonWriter w = {0};
    writer_begin(&w, NULL, '[');
    for (int i = 0; i < m->n; i++) {
        const Count *c = &m->counts[i];
        writer_begin(&w, NULL, '{');
        writer_string(&w, "work", c->work);
        writer_string(&w, "what", c->what);
        writer_number(&w, "predicted", c->predicted);
        writer_number(&w, "counted", c->counted);
        if (isnan(c->counted))
            writer_string(&w, "equal", NULL);
        else
            writer_bool(&w, "equal", is_equal(c));
        writer_end(&w, '}');
    }
    writer_end(&w, ']');
    writer_line(&w);
}

static bool verdict(const Measure *m, Error *error) {
    for (int i = 0; i < m->n; i++)
        if (!is_equal(&m->counts[i]))
            return error_set(error, ERROR_ANSWER_NO, "%s: %s: predicted %.0f, counted %.0f",
                             m->counts[i].work, m->counts[i].what, m->counts[i].predicted,
                             m->counts[i].counted);
    return true;
}

bool cost_print_measure(const CostRun *r, Error *error) {
    Measure m = {.run = r};
    if (r->is_outline || option_given(r->options, OPTION_COST_TYPE))
        return error_set(error, ERROR_USAGE,
                         "--measure runs the model: a file with weights, without --type");
    bool good = open_and_run(&m, error);
    if (good && r->options->json)
        print_json(&m);
    else if (good)
        print_text(&m);
    good = good && verdict(&m, error);
    model_close(m.model);
    free(m.tokens);
    free(m.sequences);
    return good;
}
