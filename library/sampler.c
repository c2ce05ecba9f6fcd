// limpid_sampler: a Sampler of model/, and the grammar of its text. What comes from the caller is
// checked here: numbers by their ranges in sampler_open, lists before they are read.
#include "library/handles.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- limpid_sampling -> SamplerOptions ----

enum { MOST_BREAKERS = 1024, MOST_BIASES = 1 << 20 };

static float or_off(float value, float off) {
    return value == 0.0f ? off : value;
}

// DRY counts from -1, all tokens, and has 0 for none.
static DryOptions dry_options(const limpid_sampling *s) {
    return (DryOptions){.multiplier = s->dry_multiplier,
                        .base = s->dry_multiplier != 0.0f ? s->dry_base : 1.0f,
                        .allowed_length = s->dry_allowed_length,
                        .last = s->dry_last ? s->dry_last : -1};
}

static SamplerOptions sampler_options(const limpid_sampling *s) {
    SamplerOptions o = sampler_defaults();
    o.rule.temperature = s->temperature;
    o.rule.top_k = s->top_k;
    o.rule.top_p = or_off(s->top_p, 1.0f);
    o.rule.min_p = s->min_p;
    o.rule.typical_p = or_off(s->typical_p, 1.0f);
    o.rule.xtc = s->xtc_probability != 0.0f ? s->xtc_threshold : 0.0f;
    o.repeat_penalty = or_off(s->repeat_penalty, 1.0f);
    o.presence_penalty = s->presence_penalty;
    o.frequency_penalty = s->frequency_penalty;
    o.repeat_last = s->repeat_last;
    o.seed = s->seed;
    o.dry = dry_options(s);
    o.xtc_probability = s->xtc_probability;
    o.mirostat_tau = s->mirostat_tau;
    o.mirostat_eta = s->mirostat_eta;
    return o;
}

static bool check_list(const char *name, const void *list, size_t count, size_t most,
                       Error *error) {
    if (count > most)
        return error_set(error, ERROR_USAGE, "n_%s: got %zu, wanted 0 to %zu", name, count, most);
    return !count || list || error_set(error, ERROR_USAGE, "%s: got NULL for %zu", name, count);
}

static bool check_lists(const limpid_sampling *s, Error *error) {
    size_t most_numbers = SIZE_MAX / sizeof *s->numbers;
    if (!check_list("biases", s->biases, s->n_biases, MOST_BIASES, error) ||
        !check_list("dry_breakers", s->dry_breakers, s->n_dry_breakers, MOST_BREAKERS, error) ||
        !check_list("numbers", s->numbers, s->n_numbers, most_numbers, error))
        return false;
    for (size_t i = 0; i < s->n_dry_breakers; i++)
        if (!s->dry_breakers[i] || !*s->dry_breakers[i])
            return error_set(error, ERROR_USAGE, "dry_breakers: number %zu is %s", i,
                             s->dry_breakers[i] ? "empty" : "NULL");
    for (size_t i = 0; i < s->n_numbers; i++)
        if (!(s->numbers[i] >= 0.0f && s->numbers[i] < 1.0f))
            return error_set(error, ERROR_USAGE, "numbers: got %g, wanted 0 to below 1",
                             (double)s->numbers[i]);
    return s->dry_last >= 0 ||
           error_set(error, ERROR_USAGE, "dry_last: wanted 0 or more, got %d", s->dry_last);
}

// What a SamplerOptions borrows until sampler_open.
typedef struct Lists {
    LogitBias *biases;
    BreakerList breakers;
} Lists;

static bool fill_lists(Lists *lists, SamplerOptions *o, const limpid_sampling *s,
                       const limpid_context *c, Error *error) {
    lists->biases = malloc(s->n_biases * sizeof *lists->biases + 1);
    if (!lists->biases)
        return error_set(error, ERROR_MEMORY, "no memory for %zu biases", s->n_biases);
    for (size_t i = 0; i < s->n_biases; i++)
        lists->biases[i] = (LogitBias){s->biases[i].id, s->biases[i].bias};
    o->biases = lists->biases;
    o->n_biases = s->n_biases;
    if (!sampler_options_good(o, c->run->config.vocab_size, error)) return false;
    if (dry_is_on(&o->dry) &&
        !breakers_find(&lists->breakers, c->model, s, c->run->options.stop, error))
        return false;
    o->dry.breakers = lists->breakers.at;
    o->dry.n_breakers = lists->breakers.count;
    return true;
}

static bool open_sampler(limpid_sampler *s, limpid_context *c, const limpid_sampling *sampling,
                         Error *error) {
    Lists lists = {0};
    SamplerOptions options = sampler_options(sampling);
    const Model *run = c->run;
    s->vocab_size = run->config.vocab_size;
    // One more than the context: the last token is accepted but never fed.
    if (check_lists(sampling, error) && fill_lists(&lists, &options, sampling, c, error))
        s->sampler =
            sampler_open(run->device, s->vocab_size, run->options.context + 1, &options, error);
    free(lists.biases);
    free(lists.breakers.at);
    if (!s->sampler) return false;
    if (sampling->n_numbers) sampler_give(s->sampler, sampling->numbers, sampling->n_numbers);
    if (!sampling->grammar) return true;
    if (!constraint_open(&s->constraint, sampling->grammar, c->model, run->options.stop, error) ||
        !matcher_prepare(s->constraint.matcher, error))
        return false;
    sampler_allow(s->sampler, s->constraint.mask);
    sampler_refuse(s->sampler, constraint_refuses, &s->constraint);
    return true;
}

limpid_sampler *limpid_sampler_open(limpid_context *c, const limpid_sampling *sampling,
                                    limpid_error *error) {
    static const limpid_sampling GREEDY = {0};
    Error cause = {0};
    limpid_sampler *s = context_given(c, &cause) ? calloc(1, sizeof *s) : NULL;
    bool good = s ? open_sampler(s, c, sampling ? sampling : &GREEDY, &cause)
                  : error_set(&cause, ERROR_MEMORY, "no memory for a sampler");
    if (library_result(error, good, &cause)) return s;
    limpid_sampler_close(s);
    return NULL;
}

void limpid_sampler_close(limpid_sampler *s) {
    if (!s) return;
    constraint_close(&s->constraint);
    sampler_close(s->sampler);
    free(s);
}

// ---- one text ----

bool limpid_sampler_begin(limpid_sampler *s, const int32_t *prompt, size_t n, int flags,
                          limpid_error *error) {
    Error cause = {0};
    bool good = !(flags & ~LIMPID_BEGIN) ||
                error_set(&cause, ERROR_USAGE, "flags: got %d, wanted LIMPID_BEGIN or 0", flags);
    good = good && sampler_given(s, &cause) && check_list("prompt", prompt, n, SIZE_MAX, &cause);
    for (size_t i = 0; good && i < n; i++)
        good = library_id(prompt[i], s->vocab_size, &cause);
    if (!library_result(error, good, &cause)) return false;
    for (size_t i = 0; i < n; i++)
        sampler_accept(s->sampler, prompt[i]);
    sampler_begin_text(s->sampler);
    if (s->constraint.grammar) constraint_begin(&s->constraint, flags & LIMPID_BEGIN);
    return true;
}

bool limpid_sampler_within(limpid_sampler *s, size_t tokens) {
    if (s && s->constraint.grammar) constraint_within(&s->constraint, tokens);
    return s;
}

bool sampler_prepare(limpid_sampler *s, bool *ended, Error *error) {
    *ended = false;
    return !s->constraint.grammar || constraint_find(&s->constraint, ended, error);
}

bool sampler_check(const limpid_sampler *s, int32_t id, Error *error) {
    if (!s->constraint.grammar) return true;
    if (s->constraint.problem.code) return error_copy(error, &s->constraint.problem);
    return constraint_allows(&s->constraint, id) ||
           error_set(error, ERROR_USAGE, "every token that the grammar allows has probability 0");
}

int32_t limpid_sample(limpid_sampler *s, const float *logits, limpid_error *error) {
    Error cause = {0};
    int32_t id = -1;
    bool ended;
    if (sampler_given(s, &cause) && !logits)
        error_set(&cause, ERROR_USAGE, "there are no logits to sample from");
    else if (s && sampler_prepare(s, &ended, &cause))
        id = sampler_next(s->sampler, logits, &cause);
    bool good = id >= 0 && sampler_check(s, id, &cause);
    if (id >= 0 && !good) sampler_rewind(s->sampler, 1); // the next call has the same number
    return library_result(error, good, &cause) ? id : -1;
}

bool limpid_sampler_accept(limpid_sampler *s, int32_t id, limpid_error *error) {
    Error cause = {0};
    bool good = sampler_given(s, &cause) && library_id(id, s->vocab_size, &cause) &&
                (!s->constraint.grammar || constraint_accept(&s->constraint, id, &cause));
    if (good) sampler_accept(s->sampler, id);
    return library_result(error, good, &cause);
}

bool limpid_sampler_forget(limpid_sampler *s, size_t n) {
    if (!s || n > (size_t)sampler_accepted(s->sampler)) return false;
    sampler_forget(s->sampler, (int)n);
    if (s->constraint.grammar) constraint_forget(&s->constraint, n);
    return true;
}

int limpid_sampler_ending(limpid_sampler *s, limpid_error *error) {
    Error cause = {0};
    bool complete = true, ended = false;
    bool good =
        sampler_given(s, &cause) &&
        (!s->constraint.grammar || (constraint_complete(&s->constraint, &complete, &cause) &&
                                    (!complete || sampler_prepare(s, &ended, &cause))));
    if (!library_result(error, good, &cause)) return -1;
    return ended ? LIMPID_MUST_END : complete ? LIMPID_MAY_END : LIMPID_GOES_ON;
}

float limpid_sampler_number(const limpid_sampler *s) {
    return s ? sampler_last_uniform(s->sampler) : 0;
}
