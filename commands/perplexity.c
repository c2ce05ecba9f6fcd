// perplexity: how well the model predicts a text, and how much its predictions differ from those of
// a saved run. perplexity/scoring.h has the definitions.
//
//   options -> window and stride -> text to ids -> how many tokens are scored -> files of logits
//     -> model -> for each window: empty the cache, feed it in chunks, score its rows -> figures
#include "commands/commands.h"
#include "commands/perplexity/ablate_each.h"
#include "commands/perplexity/patterns.h"
#include "commands/perplexity/saved_logits.h"
#include "commands/perplexity/windows.h"
#include "commands/shared/inputs.h"
#include "commands/shared/interrupt.h"
#include "commands/shared/output.h"
#include "commands/shared/prompt.h"
#include "commands/shared/session.h"
#include "kernels/precision.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// What is scored, and where its logits are written to and compared with.
typedef struct Run {
    Session session;
    IdList ids;
    int32_t bos; // --second-half: the first token of every window; -1: the window's own
    TextWindows windows;
    size_t rows, used; // tokens scored; tokens of the text that are read
    Score score;
    FileSet inputs;
    OutputFile target;   // --save-logits
    LogitsWriter writer; // into it
    SavedLogits saved;   // --kl
    Divergence divergence;
    PatternTable patterns; // --patterns
    HeadRanking ranking;   // --ablate-each
} Run;

// ---- the text ----

// --ids FILE: any text of numbers, no BOS added, no bytes counted. False: exit code 2, 4 or 5.
static bool read_ids(Run *run, Error *error) {
    const Options *o = run->session.options;
    Text text = {0};
    TextLimit limit = text_limit();
    Options of_file = {.file = o->ids_file};
    bool good = text_read(&text, &of_file, &limit, error) &&
                ids_parse(&run->ids, text.bytes, text.length, o->ids_file, error) &&
                session_check_ids(&run->session, &run->ids, error);
    text_free(&text);
    return good;
}

// The text, and the bytes that are scored, for bits per byte.
static bool read_prompt(Run *run, Error *error) {
    Session *s = &run->session;
    size_t length = 0;
    TextLimit limit = text_limit();
    if (!text_encode(&run->ids, s, false, &limit, &length, error)) return false;
    if (tokenizer_adds_bos(s->tokenizer)) run->bos = tokenizer_bos(s->tokenizer);
    run->score.bytes = length;
    // Nothing predicts the first token. Where it is no BOS, its bytes are not scored; a control
    // token of the text has those that it is spelt with.
    if (run->bos < 0 && run->ids.count) {
        size_t first = 0;
        tokenizer_piece(s->tokenizer, run->ids.ids[0], true, true, &first);
        run->score.bytes = first < length ? length - first : 0;
    }
    return true;
}

static bool read_text(Run *run, Error *error) {
    bool good = run->session.options->ids_file ? read_ids(run, error) : read_prompt(run, error);
    if (!good || run->ids.count >= 2) return good;
    const Options *o = run->session.options;
    return error_set(error, ERROR_USAGE, "the text has %zu tokens, at least 2 are needed%s",
                     run->ids.count,
                     o->file || o->ids_file ? "" : ": -f FILE gives one, as does standard input");
}

static bool check_window(const Run *run, int64_t window, int64_t stride, Error *error) {
    const Options *o = run->session.options;
    int context = run->session.config->max_seq_len;
    if (window > context)
        return error_set(error, ERROR_USAGE, "--window: got %" PRId64 ", the model's context is %d",
                         window, context);
    if (stride > window)
        return error_set(error, ERROR_USAGE,
                         "--stride: got %" PRId64 ", wanted at most the window, %" PRId64, stride,
                         window);
    if (!o->second_half) return true;
    if (option_given(o, OPTION_STRIDE))
        return error_set(error, ERROR_USAGE,
                         "--second-half takes no --stride: its windows do not overlap");
    if (window < 4)
        return error_set(error, ERROR_USAGE,
                         "--window: got %" PRId64 ", --second-half wants at least 4", window);
    return true;
}

// Window and stride from the options; the text is not read yet. False: exit code 2.
static bool plan(Run *run, Error *error) {
    const Options *o = run->session.options;
    int context = run->session.config->max_seq_len;
    int64_t window = (int64_t)windows_default(context);
    if (option_given(o, OPTION_WINDOW)) window = o->window;
    int64_t stride = option_given(o, OPTION_STRIDE) ? o->stride : window;
    run->windows =
        (TextWindows){(size_t)window, (size_t)stride, (size_t)o->windows, o->second_half};
    return check_window(run, window, stride, error);
}

// Counts the tokens to score. A window is at most as long as the text.
static bool count_rows(Run *run, Error *error) {
    TextWindows *w = &run->windows;
    size_t count = run->ids.count;
    if (w->second_half && w->window > count)
        return error_set(error, ERROR_USAGE,
                         "the text has %zu tokens, fewer than one window of %zu", count, w->window);
    if (w->window > count) w->window = count;
    if (w->stride > w->window) w->stride = w->window;
    run->rows = text_windows_scored(w, count, &run->used);
    if (w->second_half || run->used < count) run->score.bytes = 0;
    // Bits per byte only make sense if every token of the text was scored.
    return true;
}

// ---- scoring ----

// One scored token, `target` in the ids of the text: its row of logits goes to the score, to
// --save-logits, to the comparison with --kl, and its figures to --csv. False: exit code 3, 4 or 5
// of a file.
static bool score_row(Run *run, const float *logits, const int32_t *target, Error *error) {
    int vocab_size = run->session.config->vocab_size;
    double kl = 0, nll = score_add(&run->score, logits, vocab_size, *target);
    if (run->writer.out && !logits_writer_put(&run->writer, logits, error)) return false;
    if (run->saved.path) {
        const float *exact = saved_logits_next(&run->saved, error);
        if (!exact) return false;
        kl = divergence_add(&run->divergence, exact, logits, vocab_size);
    }
    if (!run->session.options->csv) return true;
    output_print("%td,%" PRId32 ",%.9g", target - run->ids.ids, *target, nll);
    if (run->saved.path) output_print(",%.9g", kl);
    output_print("\n");
    return true;
}

static bool score_chunk(void *context, const TextChunk *chunk, Error *error) {
    Run *run = context;
    Session *s = &run->session;
    if (run->patterns.count) {
        windows_begin(s, chunk);
        return patterns_score(&run->patterns, s, chunk, error);
    }
    if (!windows_forward(s, chunk, error)) return false;
    for (int i = 0, row = 0; i < chunk->n; i++)
        if (chunk->wants[i] &&
            !score_row(run, model_logits(s->model, row++), &chunk->ids[i + 1], error))
            return false;
    return true;
}

static WindowedText windowed(const Run *run) {
    return (WindowedText){run->ids.ids, run->ids.count, &run->windows, run->bos};
}

static bool score_text(Run *run, Error *error) {
    if (run->session.options->csv && !run->patterns.count)
        output_print(run->saved.path ? "position,id,nll,kl\n" : "position,id,nll\n");
    const WindowedText text = windowed(run);
    const WindowsShow show = {"perplexity", run->session.options->quiet};
    interrupt_begin();
    bool good = windows_feed(&text, score_chunk, run, &show, error);
    // A pass sees it too, but not one that came behind the last.
    if (good && interrupt_asked()) good = error_set(error, ERROR_INTERRUPTED, "interrupted");
    interrupt_end();
    return good;
}

// ---- files of logits ----

// Before the text is scored: may --save-logits be written?
static bool check_target(Run *run, const Options *o, Error *error) {
    run->target = (OutputFile){.path = o->save_logits,
                               .inputs = &run->inputs,
                               .force = o->force,
                               .stop = interrupt_flag()};
    return !o->save_logits ||
           (inputs_find(&run->inputs, o, error) && inputs_check(&run->target, o, error));
}

// Opens the file of --kl, which must be of the same text and windows, and begins that of
// --save-logits. False: exit code 2, 3, 4 or 5; nothing has been computed yet.
static bool open_logits(Run *run, Error *error) {
    const Options *o = run->session.options;
    char model[100];
    const char *slash = strrchr(o->model, '/'), *name = slash && slash[1] ? slash + 1 : o->model;
    LogitsKey key = {.windows = run->windows,
                     .vocab_size = run->session.config->vocab_size,
                     .rows = run->rows,
                     .used = run->used,
                     .ids = run->ids.ids,
                     .bos = run->bos,
                     .model = escape_bytes(model, sizeof model, name, strlen(name)),
                     .precision = precision_name((Precision)o->precision),
                     .kv = kv_name((KvType)o->kv)};
    if (o->kl && !(saved_logits_open(&run->saved, o->kl, &key, error) &&
                   divergence_init(&run->divergence, run->rows, error)))
        return false;
    if (!o->save_logits) return true;
    if (!logits_writer_open(&run->writer, &run->target, &key, error)) return false;
    if (!o->quiet)
        note("saving %zu rows of %d logits, %.1f MB, to %s", run->rows, key.vocab_size,
             (double)saved_logits_bytes(&key) / 1e6, o->save_logits);
    return true;
}

// ---- the result ----

// `d` NULL: without --kl.
static void print_text(const Run *run, const Figures *f, const DivergenceSummary *d) {
    const TextWindows *w = &run->windows;
    char name[3][100];
    output_print("tokens         %" PRIu64 " in windows of %zu, ", run->score.count, w->window);
    if (w->second_half)
        output_print("the second half of each\n");
    else
        output_print("stride %zu\n", w->stride);
    output_print("mean nll       %.6f nats\n", f->mean);
    output_print("perplexity     %.4f", f->perplexity);
    if (isfinite(f->error)) output_print(" +- %.4f", f->error); // not of one token
    output_print("\n");
    if (run->score.bytes) output_print("bits per byte  %.5f\n", f->bits);
    output_print("top-1          %.2f %%\n", 100 * f->top1);
    if (!d) return;
    const char *of[] = {run->saved.model, run->saved.precision, run->saved.kv};
    for (int i = 0; i < 3; i++)
        escape_bytes(name[i], sizeof name[i], of[i] ? of[i] : "?", of[i] ? strlen(of[i]) : 1);
    output_print("against        %s, precision %s, cache %s\n", name[0], name[1], name[2]);
    output_print("KL divergence  %.3g nats, 99 %% within %.3g, largest %.3g\n", d->kl_mean,
                 d->kl_p99, d->kl_max);
    output_print("same top-1     %.3f %%\n", 100 * d->top1_agreement);
    output_print("logit error    largest %.3g, root mean square %.3g\n", d->max_logit_error,
                 d->rms_logit_error);
}

// NaN figures (bits per byte of ids) become null.
static void print_json(const Run *run, const Figures *f, const DivergenceSummary *d,
                       double seconds) {
    JsonWriter w = {0};
    writer_begin(&w, NULL, '{');
    writer_integer(&w, "tokens", (int64_t)run->score.count);
    writer_number(&w, "mean_nll", f->mean);
    writer_number(&w, "perplexity", f->perplexity);
    writer_number(&w, "standard_error", f->error);
    writer_number(&w, "bits_per_byte", f->bits);
    writer_number(&w, "top1", f->top1);
    writer_integer(&w, "window", (int64_t)run->windows.window);
    writer_integer(&w, "stride", (int64_t)run->windows.stride);
    writer_number(&w, "tokens_per_second", (double)run->score.count / seconds);
    if (d) {
        writer_number(&w, "kl_mean", d->kl_mean);
        writer_number(&w, "kl_p99", d->kl_p99);
        writer_number(&w, "kl_max", d->kl_max);
        writer_number(&w, "top1_agreement", d->top1_agreement);
        writer_number(&w, "max_logit_error", d->max_logit_error);
        writer_number(&w, "rms_logit_error", d->rms_logit_error);
    }
    writer_end(&w, '}');
    writer_line(&w);
}

// tokens/s counts scored tokens, not those that are fed again as context.
static void print_run(Run *run, double seconds) {
    const Options *o = run->session.options;
    Figures f = score_figures(&run->score);
    DivergenceSummary summary = divergence_summary(&run->divergence);
    const DivergenceSummary *d = run->saved.path ? &summary : NULL;
    if (o->json)
        print_json(run, &f, d, seconds);
    else if (!o->csv) // its lines were printed as the tokens were scored
        print_text(run, &f, d);
    output_flush();
    if (!o->quiet && output_good())
        fprintf(stderr, "%s: %.1f tokens/s; memory %.1f MB%s\n", program_name(),
                (double)run->score.count / seconds, (double)peak_memory_bytes() / 1e6,
                build_remark());
}

// --ablate-each has its own scoring, of many sequences side by side.
static bool check_ablate_each(const Options *o, Error *error) {
    const char *other = o->patterns                         ? "patterns"
                        : o->kl                             ? "kl"
                        : o->save_logits                    ? "save-logits"
                        : o->ablate                         ? "ablate"
                        : o->patches.count                  ? "patch"
                        : o->steers.count                   ? "steer"
                        : option_given(o, OPTION_ABLATE_TO) ? "ablate-to"
                                                            : NULL;
    if (o->all && !o->ablate_each)
        return error_set(error, ERROR_USAGE, "--all is of --ablate-each");
    return !o->ablate_each || !other ||
           error_set(error, ERROR_USAGE, "--ablate-each excludes --%s", other);
}

static bool rank_heads(Run *run, Error *error) {
    const WindowedText text = windowed(run);
    if (!ranking_run(&run->ranking, &run->session, &text, error)) return false;
    ranking_print(&run->ranking, run->session.options);
    output_flush();
    return true;
}

// The whole text, and what is printed of it.
static bool score_and_print(Run *run, Error *error) {
    double started = seconds_now();
    if (run->ranking.count) return rank_heads(run, error);
    if (!score_text(run, error)) return false;
    if (run->writer.out && !logits_writer_finish(&run->writer, error)) return false;
    if (run->patterns.count)
        patterns_print(&run->patterns, run->session.options, &run->windows);
    else
        print_run(run, seconds_now() - started);
    return true;
}

static bool check_patterns(Run *run, const Options *o, Error *error) {
    if (o->csv && o->json) return error_set(error, ERROR_USAGE, "--csv and --json: one of them");
    if (o->patterns && (o->pattern || o->kl || o->save_logits))
        return error_set(error, ERROR_USAGE, "--patterns excludes --%s",
                         o->pattern ? "pattern"
                         : o->kl    ? "kl"
                                    : "save-logits");
    // The means are taken once, and each pattern has its own.
    if (o->patterns && o->ablate_to)
        return error_set(error, ERROR_USAGE,
                         "--patterns excludes --ablate-to mean: give one --pattern");
    return !o->patterns || patterns_parse(&run->patterns, o->patterns, error);
}

// A terminal is no text: nobody types one there.
static bool check_source(const Options *o, Error *error) {
    if (o->file && o->ids_file)
        return error_set(error, ERROR_USAGE, "-f and --ids: one of them is the text");
    if (o->file || o->ids_file || !isatty(STDIN_FILENO)) return true;
    return error_set(error, ERROR_USAGE,
                     "no text: it is -f FILE, --ids FILE or standard input from a file or a pipe");
}

bool perplexity_command(const Options *options, Error *error) {
    Run *run = calloc(1, sizeof *run); // with its table of patterns too large for the stack
    if (!run) return error_set(error, ERROR_MEMORY, "out of memory for a run");
    run->bos = -1;
    bool good = check_source(options, error) && check_ablate_each(options, error) &&
                check_patterns(run, options, error) && check_target(run, options, error) &&
                session_open(&run->session, options, error) && plan(run, error) &&
                read_text(run, error) && count_rows(run, error);
    SessionModel wanted = {.context = (int)run->windows.window,
                           .n_sequences =
                               options->ablate_each ? RANKING_SEQUENCES : run->patterns.count,
                           .max_logit_rows = CHUNK_ROWS};
    good = good && open_logits(run, error) && session_open_model(&run->session, &wanted, error) &&
           session_intervene(&run->session, run->ids.ids, run->ids.count, error);
    if (run->patterns.count)
        good =
            good && patterns_open(&run->patterns, run->session.model, run->rows, CHUNK_ROWS, error);
    if (options->ablate_each)
        good = good && ranking_open(&run->ranking, run->session.config, error);
    good = good && score_and_print(run, error);
    ranking_free(&run->ranking);
    patterns_free(&run->patterns);
    logits_writer_close(&run->writer);
    saved_logits_close(&run->saved);
    divergence_free(&run->divergence);
    id_list_free(&run->ids);
    file_set_free(&run->inputs);
    session_close(&run->session);
    free(run);
    return good;
}
