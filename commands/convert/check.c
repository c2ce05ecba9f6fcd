// --check: the model and what became of it, side by side over a text.
//
//   sample_text_read   a file -> ids -> windows
//   check_output       both models; each chunk through both; their logits compared row by row
//
// The figures are those of perplexity (perplexity/scoring.h), without files of logits in between.
#include "commands/convert/convert.h"

#include "commands/shared/output.h"
#include "commands/shared/prompt.h"

#include <stdio.h>

// Windows of 1024 tokens: enough that a difference of a percent is seen, in a minute or two.
enum { DEFAULT_WINDOWS = 8 };

// ---- the text ----

bool sample_text_read(SampleText *sample, const char *path, const Session *s, Error *error) {
    size_t length, used, window = windows_default(s->config->max_seq_len);
    TextLimit limit = text_limit();
    Options of_file = {.file = path};
    Session reader = *s;
    reader.options = &of_file;
    if (!session_need_tokenizer(s, error) ||
        !text_encode(&sample->ids, &reader, false, &limit, &length, error))
        return false;
    if (sample->ids.count < 2)
        return error_set(error, ERROR_USAGE,
                         "%.300s: the text has %zu tokens, at least 2 are needed", path,
                         sample->ids.count);
    if (window > sample->ids.count) window = sample->ids.count;
    size_t most =
        option_given(s->options, OPTION_WINDOWS) ? (size_t)s->options->windows : DEFAULT_WINDOWS;
    sample->windows = (TextWindows){.window = window, .stride = window, .max_windows = most};
    sample->text = (WindowedText){sample->ids.ids, sample->ids.count, &sample->windows, -1};
    sample->rows = text_windows_scored(&sample->windows, sample->ids.count, &used);
    return true;
}

void sample_text_free(SampleText *sample) {
    id_list_free(&sample->ids);
    *sample = (SampleText){0};
}

// ---- the comparison ----

typedef struct Check {
    Session *source, result;
    Score scores[2]; // of the source and of the result
    Divergence divergence;
} Check;

static bool compare_chunk(void *context, const TextChunk *chunk, Error *error) {
    Check *c = context;
    int vocab_size = c->source->config->vocab_size;
    if (!windows_forward(c->source, chunk, error) || !windows_forward(&c->result, chunk, error))
        return false;
    for (int i = 0, row = 0; i < chunk->n; i++) {
        if (!chunk->wants[i]) continue;
        const float *exact = model_logits(c->source->model, row);
        const float *got = model_logits(c->result.model, row++);
        score_add(&c->scores[0], exact, vocab_size, chunk->ids[i + 1]);
        score_add(&c->scores[1], got, vocab_size, chunk->ids[i + 1]);
        divergence_add(&c->divergence, exact, got, vocab_size);
    }
    return true;
}

static void print_json(const Figures f[2], const DivergenceSummary *d, size_t rows) {
    JsonWriter w = {0};
    writer_begin(&w, NULL, '{');
    writer_integer(&w, "tokens", (int64_t)rows);
    writer_number(&w, "perplexity_source", f[0].perplexity);
    writer_number(&w, "perplexity_result", f[1].perplexity);
    writer_number(&w, "kl_mean", d->kl_mean);
    writer_number(&w, "kl_p99", d->kl_p99);
    writer_number(&w, "kl_max", d->kl_max);
    writer_number(&w, "top1_agreement", d->top1_agreement);
    writer_end(&w, '}');
    writer_line(&w);
}

static void print(Check *c, size_t rows) {
    Figures f[2] = {score_figures(&c->scores[0]), score_figures(&c->scores[1])};
    DivergenceSummary d = divergence_summary(&c->divergence);
    if (c->source->options->json) {
        print_json(f, &d, rows);
    } else {
        output_print("perplexity     %.4f -> %.4f (%+.2f %%) on %zu token%s\n", f[0].perplexity,
                     f[1].perplexity, 100 * (f[1].perplexity / f[0].perplexity - 1), rows,
                     rows == 1 ? "" : "s");
        output_print("KL divergence  %.3g nats, 99 %% within %.3g, largest %.3g\n", d.kl_mean,
                     d.kl_p99, d.kl_max);
        output_print("same top-1     %.3f %%\n", 100 * d.top1_agreement);
    }
    output_flush();
}

bool check_output(Session *source, SampleText *sample, const char *path, Error *error) {
    Options of_result = *source->options;
    Check c = {.source = source};
    SessionModel wanted = {.context = (int)sample->windows.window, .max_logit_rows = CHUNK_ROWS};
    const WindowsShow show = {"check", source->options->quiet};
    of_result.model = path;
    bool good = session_open(&c.result, &of_result, error) &&
                divergence_init(&c.divergence, sample->rows, error) &&
                session_open_model(source, &wanted, error) &&
                session_open_model(&c.result, &wanted, error) &&
                windows_feed(&sample->text, compare_chunk, &c, &show, error);
    if (good) print(&c, sample->rows);
    divergence_free(&c.divergence);
    session_close(&c.result);
    return good;
}
