// selftest: identities that hold for every model of this kind, checked on the user's own file. This
// file chooses the prompt, runs the checks (commands/selftest/) and prints what they found. With
// --golden: the numbers of public files instead (commands/selftest/golden.h).
//
//   options -> session -> prompt -> the subject: an open model and reference logits, one token at a
//   time -> each check: a Finding -> a line, or JSON at the end -> exit code 1 if one failed
#include "commands/commands.h"
#include "commands/selftest/checks.h"
#include "commands/selftest/golden.h"
#include "commands/shared/output.h"
#include "commands/shared/prompt.h"
#include "commands/shared/session.h"
#include "kernels/precision.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

// ---- the list of checks ----

// Checks that use the open model come first; the last two open other ones. Columns: the name for
// people, the name for scripts, the function.
static const Check CHECKS[N_CHECKS] = {
    {"cached = uncached", "cache", check_cache},
    {"prompt at once = token by token", "at_once", check_at_once},
    {"batched = one sequence at a time", "batch", check_batch},
    {"earlier logits ignore later tokens", "causal", check_causal},
    {"truncated = never extended", "truncate", check_truncate},
    {"a copied sequence continues the same", "copy", check_copy},
    {"softmax rows sum to 1", "softmax", check_softmax},
    {"repeated KV heads = grouped attention", "repeat_kv", check_repeat_kv},
    {"half = interleaved RoPE, permuted rows", "rope_pairing", check_rope_pairing},
    {"weightless norm and RoPE commute", "norm_commutes", check_norm_commutes},
    {"1, 2, 3 and 7 threads", "threads", check_threads},
    {"wq, wk stored in the other row order", "row_order", check_row_order},
};

const Check *selftest_check(int i) {
    return i >= 0 && i < N_CHECKS ? &CHECKS[i] : NULL;
}

bool selftest_run(const Check *check, Subject *s, Finding *f, Error *error) {
    *f = (Finding){.layer = -1, .position = -1};
    return (s->model || subject_reopen(s, NULL, error)) && check->run(s, f, error);
}

// ---- the prompt ----

enum { DEFAULT_TOKENS = 24 };

static const char DEFAULT_TEXT[] =
    "Once upon a time, there was a little girl who asked how a machine can talk. Her grandmother "
    "said: it reads every word you gave it, and then it guesses the next one.";

// A text where the model has a tokenizer, else ids from a generator with a fixed seed. Not
// inlined: its copies of session and options would be on the command's frame while checks run.
static __attribute__((noinline)) bool default_prompt(IdList *ids, const Session *s, size_t room,
                                                     Error *error) {
    size_t wanted = room < DEFAULT_TOKENS ? room : DEFAULT_TOKENS;
    Options options = *s->options;
    Session with_text = *s;
    options.prompt = DEFAULT_TEXT;
    with_text.options = &options;
    Error ignored = {0};
    if (prompt_encode(ids, &with_text, &ignored) && ids->count >= wanted) {
        ids->count = wanted;
        return true;
    }
    uint64_t state = 1;
    for (ids->count = 0; ids->count < wanted;) {
        state = state * 6364136223846793005u + 1442695040888963407u; // Knuth's MMIX
        int32_t id = (int32_t)((state >> 33) % (uint64_t)s->config->vocab_size);
        if (!id_list_push(ids, id, error)) return false;
    }
    return true;
}

// The prompt of the options, else the default one; as long as the model's context allows.
static bool choose_prompt(IdList *ids, Session *s, Error *error) {
    const Options *o = s->options;
    int room = subject_max_tokens(s->config);
    if (room < SELFTEST_MIN_TOKENS)
        return error_set(error, ERROR_FILE, "%s: a context of %d is too short for a selftest",
                         checkpoint_path(s->checkpoint), s->config->max_seq_len);
    bool asked = o->prompt || o->file || o->prompt_ids;
    if (!asked) return default_prompt(ids, s, (size_t)room, error);
    if (!prompt_encode(ids, s, error)) return false;
    if (ids->count < SELFTEST_MIN_TOKENS || ids->count > (size_t)room)
        return error_set(error, ERROR_USAGE, "the prompt has %zu tokens, wanted %d .. %d",
                         ids->count, SELFTEST_MIN_TOKENS, room);
    return true;
}

// ---- output ----

typedef struct Result {
    const Check *check;
    Finding finding;
    double seconds;
} Result;

// Part of the JSON output, like the keys of the checks.
static const char *verdict(const Finding *f) {
    if (f->inapplicable) return "does not apply";
    return finding_held(f) ? "held" : "FAILED";
}

// Of the largest difference, where the check has layers or positions.
static void print_place(const Finding *f) {
    if (f->layer >= 0) output_print(", layer %d", f->layer);
    if (f->position >= 0) output_print(", position %d", f->position);
}

// "held  name  same bits  9,216 values  0.02 s", or the largest difference beside its bound.
static void print_result(const Result *r) {
    const Finding *f = &r->finding;
    char figure[60];
    output_print("%-15s %-39s ", verdict(f), r->check->name);
    if (f->inapplicable) {
        output_print("%s\n", f->inapplicable);
        return;
    }
    if (!f->different)
        snprintf(figure, sizeof figure, "same bits");
    else if (f->bound > 0)
        snprintf(figure, sizeof figure, "within %.1e, bound %.1e", f->largest, f->bound);
    else
        snprintf(figure, sizeof figure, "%" PRIu64 " differ, by up to %.2e", f->different,
                 f->largest);
    output_print("%-30s %10" PRIu64 " values %7.2f s", figure, f->compared, r->seconds);
    if (!finding_held(f)) print_place(f);
    output_print("\n");
}

static void write_result(JsonWriter *w, const Result *r) {
    const Finding *f = &r->finding;
    writer_begin(w, NULL, '{');
    writer_string(w, "check", r->check->key);
    writer_string(w, "name", r->check->name);
    writer_string(w, "result", verdict(f));
    writer_string(w, "reason", f->inapplicable);
    writer_bool(w, "same_bits", !f->inapplicable && !f->different);
    writer_number(w, "largest_difference", f->largest);
    writer_number(w, "bound", f->bound);
    writer_integer(w, "values", (int64_t)f->compared);
    writer_integer(w, "layer", f->layer);
    writer_integer(w, "position", f->position);
    writer_number(w, "seconds", r->seconds);
    writer_end(w, '}');
}

typedef struct Counts {
    int held, failed, inapplicable;
} Counts;

static Counts count(const Result *results) {
    Counts counts = {0};
    for (int i = 0; i < N_CHECKS; i++) {
        const Finding *f = &results[i].finding;
        counts.inapplicable += f->inapplicable != NULL;
        counts.held += finding_held(f);
    }
    counts.failed = N_CHECKS - counts.held - counts.inapplicable;
    return counts;
}

// `run selftest --help` lists the keys.
static void write_results(const Session *s, const Subject *subject, const Result *results) {
    Counts counts = count(results);
    JsonWriter w = {0};
    writer_begin(&w, NULL, '{');
    writer_string(&w, "family", s->config->family);
    writer_string(&w, "container", checkpoint_container_name(s->checkpoint));
    writer_string(&w, "precision", precision_name((Precision)s->options->precision));
    writer_ids(&w, "prompt_ids", subject->ids, (size_t)subject->n);
    writer_begin(&w, "checks", '[');
    for (int i = 0; i < N_CHECKS; i++)
        write_result(&w, &results[i]);
    writer_end(&w, ']');
    writer_integer(&w, "held", counts.held);
    writer_integer(&w, "failed", counts.failed);
    writer_integer(&w, "does_not_apply", counts.inapplicable);
    writer_end(&w, '}');
    writer_line(&w);
}

// ---- the command ----

// Runs one check with its own progress bar and takes the time. False: it could not be run.
static bool run_one(Result *r, const Session *s, Subject *subject, Error *error) {
    Progress progress;
    progress_begin(&progress, r->check->name, s->options->quiet);
    subject->progress = progress_update;
    subject->progress_context = &progress;
    double started = seconds_now();
    bool good = selftest_run(r->check, subject, &r->finding, error);
    r->seconds = seconds_now() - started;
    subject->progress = NULL;
    subject->progress_context = NULL;
    progress_end(&progress);
    return session_result(s, good, error);
}

// Each line is printed as soon as its check has run. JSON waits for all.
static bool run_all(Result *results, const Session *s, Subject *subject, Error *error) {
    const Options *o = s->options;
    if (!o->json)
        output_print("%s, %d layers, %s; %s; %d tokens\n", s->config->family, s->config->n_layers,
                     precision_name((Precision)o->precision),
                     device_info(subject->model->device)->description, subject->n);
    for (int i = 0; i < N_CHECKS; i++) {
        results[i].check = selftest_check(i);
        if (!run_one(&results[i], s, subject, error)) return false;
        if (o->json) continue;
        print_result(&results[i]);
        output_flush();
    }
    return true;
}

// False with exit code 1 and the first failure in the message.
static bool conclude(const Session *s, const Subject *subject, const Result *results,
                     Error *error) {
    Counts counts = count(results);
    if (s->options->json)
        write_results(s, subject, results);
    else
        output_print("%d held, %d failed, %d do%s not apply; %.1f s\n", counts.held, counts.failed,
                     counts.inapplicable, counts.inapplicable == 1 ? "es" : "",
                     seconds_now() - s->started);
    if (!counts.failed) return true;
    const Result *first = results;
    while (first->finding.inapplicable || finding_held(&first->finding))
        first++;
    return error_set(error, ERROR_ANSWER_NO, "%s: %d of %d identities failed, the first: %s",
                     checkpoint_path(s->checkpoint), counts.failed, counts.failed + counts.held,
                     first->check->name);
}

static bool check_identities(const Options *options, Error *error) {
    Session s = {0};
    IdList ids = {0};
    Subject subject = {0};
    Result results[N_CHECKS] = {0};
    ModelOptions model = {.threads = options->threads.values[0],
                          .precision = (Precision)options->precision,
                          .kv_type = (KvType)options->kv};
    Progress progress;
    progress_begin(&progress, "loading", options->quiet);
    bool good = check_prompt(options, error) && session_open(&s, options, error) &&
                choose_prompt(&ids, &s, error);
    if (good) {
        subject.progress = progress_update;
        subject.progress_context = &progress;
        good = subject_open(&subject, s.config, checkpoint_weights(s.checkpoint), &model, ids.ids,
                            (int)ids.count, error) ||
               error_prefix(error, options->model);
    }
    progress_end(&progress);
    good = good && run_all(results, &s, &subject, error) && conclude(&s, &subject, results, error);
    subject_close(&subject);
    id_list_free(&ids);
    session_close(&s);
    return good;
}

bool selftest_command(const Options *options, Error *error) {
    if (options->golden) return golden_command(options, error);
    if (options->markdown)
        return error_set(error, ERROR_USAGE, "selftest has --markdown with --golden alone");
    return check_identities(options, error);
}
