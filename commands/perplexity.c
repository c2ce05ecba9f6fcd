// perplexity: how surprised the model is by a text.
//
//   nll(t) = -log p(token t | the tokens before it in its window)
//   perplexity = e^(mean nll), its standard error = perplexity * deviation(nll) / sqrt(count)
//
// Windows of `window` tokens begin at 0, stride, 2 stride ...; the one that begins at b predicts
// tokens b+1 .. b+window, of which it scores those that no earlier window has:
//
//   stride = window      |bbbb|          every token but the text's first is scored once
//                             |bbbb|
//   stride < window      |bbbb|
//                           |..bb|       . fed again as context, b scored
#include "commands/commands.h"
#include "commands/logprobs.h"
#include "commands/output.h"
#include "commands/progress.h"
#include "commands/prompt.h"
#include "commands/session.h"
#include "commands/writer.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE_ROWS = 128, DEFAULT_WINDOW = 1024 };

typedef struct Score {
    uint64_t count, top1; // tokens scored; of these the likeliest one
    double sum, sum_squares;
    uint64_t bytes; // of the text; 0: unknown
} Score;

typedef struct Plan {
    size_t window, stride;
} Plan;

static bool read_ids(IdList *ids, const Session *s, Error *error) {
    const Options *o = s->options;
    Text text = {0};
    Options of_file = {.file = o->ids_file};
    bool good = text_read(&text, &of_file, error) &&
                ids_parse(ids, text.bytes, text.length, o->ids_file, error) &&
                session_check_ids(s, ids, error);
    text_free(&text);
    return good;
}

static bool encode_text(IdList *ids, Score *score, Session *s, Error *error) {
    Text text = {0};
    if (!session_need_tokenizer(s, error) || !text_read(&text, s->options, error)) return false;
    bool good = !tokenizer_adds_bos(s->tokenizer) || tokenizer_bos(s->tokenizer) < 0 ||
                id_list_push(ids, tokenizer_bos(s->tokenizer), error);
    good = good && tokenizer_encode(s->tokenizer, ids, text.bytes ? text.bytes : "", text.length,
                                    s->options->special, error);
    score->bytes = text.length;
    text_free(&text);
    return good;
}

static bool plan(Plan *p, const Session *s, Error *error) {
    const Options *o = s->options;
    int context = s->config->max_seq_len;
    int64_t window = context < DEFAULT_WINDOW ? context : DEFAULT_WINDOW;
    if (option_given(o, OPTION_WINDOW)) window = o->window;
    int64_t stride = option_given(o, OPTION_STRIDE) ? o->stride : window;
    if (window > context)
        return error_set(error, ERROR_USAGE, "--window: got %" PRId64 ", the model's context is %d",
                         window, context);
    if (stride > window)
        return error_set(error, ERROR_USAGE,
                         "--stride: got %" PRId64 ", wanted at most the window, %" PRId64, stride,
                         window);
    *p = (Plan){(size_t)window, (size_t)stride};
    return true;
}

static void score_row(Score *score, const float *logits, int vocab_size, int32_t target) {
    double nll = log_sum_exp(logits, vocab_size) - (double)logits[target];
    int best = 0;
    for (int i = 1; i < vocab_size; i++)
        if (logits[i] > logits[best]) best = i;
    score->count++;
    score->top1 += best == target;
    score->sum += nll;
    score->sum_squares += nll * nll;
}

// Feeds ids[begin .. end) from an empty cache and scores what follows each from `first` on.
static bool score_window(Score *score, Session *s, const IdList *ids, size_t begin, size_t end,
                         size_t first, Error *error) {
    bool wants[PIECE_ROWS];
    kv_cache_reset(&s->model->cache, 0);
    for (size_t at = begin; at < end;) {
        int n = end - at < PIECE_ROWS ? (int)(end - at) : PIECE_ROWS, wanted = 0;
        for (int i = 0; i < n; i++)
            wanted += wants[i] = at + (size_t)i + 1 >= first && at + (size_t)i + 1 < ids->count;
        Batch batch = {.n = n, .tokens = ids->ids + at, .wants_logits = wants};
        bool good = model_forward(s->model, &batch, error);
        if (checkpoint_damaged(s->checkpoint)) *error = (Error){0};
        if (!session_check(s, error) || !good) return false;
        for (int i = 0, row = 0; i < n && row < wanted; i++)
            if (wants[i])
                score_row(score, model_logits(s->model, row++), s->config->vocab_size,
                          ids->ids[at + (size_t)i + 1]);
        at += (size_t)n;
    }
    return true;
}

static bool score_text(Score *score, Session *s, const IdList *ids, const Plan *p, Error *error) {
    Progress progress;
    progress_begin(&progress, "perplexity", s->options->quiet);
    bool good = true;
    for (size_t begin = 0, first = 1; good && first < ids->count; begin += p->stride) {
        size_t end = begin + p->window < ids->count ? begin + p->window : ids->count;
        good = score_window(score, s, ids, begin, end, first, error);
        first = end + 1;
        progress_update(&progress, (double)end / (double)ids->count);
    }
    progress_end(&progress);
    return good;
}

static void print_score(const Score *score, const Plan *p, const Options *o, double seconds) {
    double n = (double)score->count, mean = score->sum / n;
    double variance = n > 1 ? (score->sum_squares - n * mean * mean) / (n - 1) : NAN;
    double deviation = sqrt(variance > 0 ? variance : 0), perplexity = exp(mean);
    double error = n > 1 ? perplexity * deviation / sqrt(n) : NAN;
    double bits = score->bytes ? score->sum / log(2) / (double)score->bytes : NAN;
    if (!o->json) {
        output_print("tokens         %" PRIu64 " in windows of %zu, stride %zu\n", score->count,
                     p->window, p->stride);
        output_print("mean nll       %.6f nats\n", mean);
        output_print("perplexity     %.4f +- %.4f\n", perplexity, error);
        if (score->bytes) output_print("bits per byte  %.5f\n", bits);
        output_print("top-1          %.2f %%\n", 100 * (double)score->top1 / n);
    } else {
        JsonWriter w = {0};
        writer_begin(&w, NULL, '{');
        writer_integer(&w, "tokens", (int64_t)score->count);
        writer_number(&w, "mean_nll", mean);
        writer_number(&w, "perplexity", perplexity);
        writer_number(&w, "standard_error", error);
        writer_number(&w, "bits_per_byte", bits);
        writer_number(&w, "top1", (double)score->top1 / n);
        writer_integer(&w, "window", (int64_t)p->window);
        writer_integer(&w, "stride", (int64_t)p->stride);
        writer_number(&w, "tokens_per_second", n / seconds);
        writer_end(&w, '}');
        writer_line(&w);
    }
    output_flush();
    if (!o->quiet && output_good())
        fprintf(stderr, "run: %.1f tokens/s; memory %.1f MB\n", n / seconds,
                (double)peak_memory_bytes() / 1e6);
}

bool perplexity_command(const Options *options, Error *error) {
    Session s = {0};
    IdList ids = {0};
    Score score = {0};
    Plan p = {0};
    bool good = session_open(&s, options, error) && plan(&p, &s, error);
    if (good && options->ids_file)
        good = read_ids(&ids, &s, error);
    else if (good)
        good = encode_text(&ids, &score, &s, error);
    if (good && ids.count < 2)
        good = error_set(error, ERROR_USAGE, "the text has %zu tokens, at least 2 are needed",
                         ids.count);
    if (good && p.window > ids.count) p.window = ids.count;
    if (good && p.stride > p.window) p.stride = p.window;
    SessionModel wanted = {.context = (int)p.window, .max_logit_rows = PIECE_ROWS};
    good = good && session_open_model(&s, &wanted, error);
    double started = seconds_now();
    good = good && score_text(&score, &s, &ids, &p, error);
    if (good) print_score(&score, &p, options, seconds_now() - started);
    id_list_free(&ids);
    session_close(&s);
    return good;
}
