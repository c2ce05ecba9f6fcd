#include "commands/shared/generation.h"
#include "commands/shared/interrupt.h"
#include "commands/shared/output.h"
#include "commands/shared/progress.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

const char *stop_reason_name(StopReason reason) {
    static const char *const NAMES[] = {"eos", "length", "stop", "context", "interrupt"};
    return NAMES[reason];
}

static void show_bytes(Generation *g, const char *bytes, size_t length) {
    if (g->show && length) g->show(g->context, bytes, length);
}

// Sends a token's bytes through the stop texts and the character gate. *found: the text ends here.
static bool show_token(Generation *g, const char *piece, size_t length, bool *found, Error *error) {
    const char *out = NULL;
    size_t count = 0;
    if (!stop_text_push(&g->stop_text, piece, length, &out, &count, found, error)) return false;
    if (!count) return true;
    if (!utf8_stream_push(&g->characters, out, count, &out, &count, error)) return false;
    show_bytes(g, out, count);
    return true;
}

// The end of the text: what was held back for a stop text or for the rest of a character.
static bool show_rest(Generation *g, Error *error) {
    const char *out = NULL;
    size_t count = 0;
    stop_text_flush(&g->stop_text, &out, &count);
    if (!utf8_stream_push(&g->characters, out, count, &out, &count, error)) return false;
    show_bytes(g, out, count);
    utf8_stream_flush(&g->characters, &out, &count);
    show_bytes(g, out, count);
    return true;
}

// A device of its own need not wait for the host where nothing is asked of it between two tokens.
static bool feeds_back(const Generation *g) {
    const Model *m = g->session->model;
    return device_info(m->device)->pipeline_depth > 0 && !g->no_cache && !g->wants_hash &&
           !g->wants_logits && g->max_new > 0 && !m->listener && sampler_is_plain(g->sampler);
}

static int context_left(const Generation *g) {
    const Model *model = g->session->model;
    if (g->feedback.model) return feedback_left(&g->feedback);
    return model->options.context - kv_cache_length(&model->cache, 0);
}

// One more token for the model: behind the cache, or everything anew.
static bool feed_next(Generation *g, int32_t id, Error *error) {
    size_t fed = 0;
    if (g->feedback.model) return true; // fed already
    if (!g->no_cache) return session_feed(g->session, &id, 1, &fed, error);
    kv_cache_reset(&g->session->model->cache, 0);
    return session_feed(g->session, g->all.ids, g->all.count, &fed, error);
}

// The next token, and the logits it was drawn from where they are on the host. -1: an error.
static int next_id(Generation *g, const float **logits, Error *error) {
    *logits = NULL;
    if (g->feedback.model) return feedback_next(&g->feedback, error);
    *logits = model_logits(g->session->model, 0);
    size_t bytes = (size_t)g->session->config->vocab_size * sizeof **logits;
    if (g->wants_hash) g->logits_hash = fnv1a(g->logits_hash, *logits, bytes);
    return sampler_next(g->sampler, *logits, error);
}

// Takes one token from the logits. *ended: g->stop is set.
static bool draw(Generation *g, bool *ended, Error *error) {
    Session *s = g->session;
    const float *logits;
    int id = next_id(g, &logits, error);
    if (id < 0) return false;
    if (!g->first_token_at) g->first_token_at = seconds_now();
    if (!g->ignore_eos && session_stops_at(s, id)) {
        g->stop = STOP_EOS;
        g->end_id = id;
        *ended = true;
        return true;
    }
    sampler_accept(g->sampler, id);
    size_t length = 0;
    const char *piece = "";
    if (s->tokenizer)
        piece = tokenizer_piece(s->tokenizer, id, g->first && !g->ids.count, false, &length);
    if (!show_token(g, piece, length, ended, error)) return false;
    // Last, since it may ask the tokenizer for other pieces.
    if (g->token) g->token(g->context, id, logits, piece, length);
    if (!id_list_push(&g->ids, id, error)) return false;
    if (g->no_cache && !id_list_push(&g->all, id, error)) return false;
    if (*ended) g->stop = STOP_AT_TEXT;
    return true;
}

static bool decode(Generation *g, Error *error) {
    for (bool ended = false;;) {
        g->stop = STOP_LENGTH;
        if (g->ids.count == g->max_new) return true;
        if (!draw(g, &ended, error)) return false;
        if (ended || g->ids.count == g->max_new || !output_good()) return true;
        g->stop = STOP_INTERRUPT;
        if (interrupt_asked()) return true;
        g->stop = STOP_CONTEXT;
        if (!context_left(g)) return true;
        if (!feed_next(g, g->ids.ids[g->ids.count - 1], error)) return false;
    }
}

bool generation_run(Generation *g, const int32_t *prompt, size_t count, Error *error) {
    g->stop_text.stops = g->stops;
    g->logits_hash = FNV_START;
    g->end_id = -1;
    g->prompt_tokens = count;
    int left = context_left(g);
    if (count > (size_t)left)
        return error_set(error, ERROR_USAGE, "the prompt has %zu tokens, the context %sroom for %d",
                         count, left < g->session->model->options.context ? "still " : "", left);
    for (size_t i = 0; i < count; i++) {
        sampler_accept(g->sampler, prompt[i]);
        if (g->no_cache && !id_list_push(&g->all, prompt[i], error)) return false;
    }
    double started = seconds_now();
    size_t fed = 0;
    if (!session_feed(g->session, prompt, count, &fed, error)) return false;
    double prompt_done = seconds_now();
    g->prompt_seconds = prompt_done - started;
    g->stop = STOP_INTERRUPT;
    if (fed < count) return true;
    if (g->begin) g->begin(g->context);
    if (g->catch_interrupt) interrupt_begin();
    if (feeds_back(g)) feedback_begin(&g->feedback, g->session->model, g->sampler, g->max_new);
    bool good = decode(g, error);
    if (g->feedback.model) feedback_end(&g->feedback);
    g->decode_seconds = g->first_token_at ? seconds_now() - g->first_token_at : 0;
    // What was made before a failure is shown too.
    return show_rest(g, good ? error : NULL) && good;
}

void generation_free(Generation *g) {
    id_list_free(&g->ids);
    id_list_free(&g->all);
    stop_text_free(&g->stop_text);
    utf8_stream_free(&g->characters);
}

static uint64_t random_seed(void) {
    uint64_t seed = 0;
    if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) != (ssize_t)sizeof seed)
        seed = (uint64_t)time(NULL);
    return seed;
}

static float choose(const Options *o, OptionId id, double option, float of_model) {
    return !option_given(o, id) && of_model >= 0 ? of_model : (float)option;
}

Sampler *open_sampler(const Session *s, const GenerationDefaults *defaults, uint64_t *seed,
                      Error *error) {
    static const GenerationDefaults NONE = {-1, -1, -1, -1, -1};
    const Options *o = s->options;
    if (!defaults) defaults = &NONE;
    SamplerOptions options = sampler_defaults();
    *seed = option_given(o, OPTION_SEED) ? o->seed : random_seed();
    options.seed = *seed;
    int vocab_size = s->config->vocab_size;
    float top_k = choose(o, OPTION_TOP_K, (double)o->top_k, defaults->top_k);
    options.rule = (SampleRule){
        .temperature = choose(o, OPTION_TEMPERATURE, o->temperature, defaults->temperature),
        .top_k = top_k < (float)vocab_size ? (int)top_k : vocab_size,
        .top_p = choose(o, OPTION_TOP_P, o->top_p, defaults->top_p),
        .min_p = choose(o, OPTION_MIN_P, o->min_p, defaults->min_p),
        .typical_p = (float)o->typical_p,
    };
    options.repeat_penalty =
        choose(o, OPTION_REPEAT_PENALTY, o->repeat_penalty, defaults->repetition_penalty);
    options.presence_penalty = (float)o->presence_penalty;
    options.frequency_penalty = (float)o->frequency_penalty;
    options.repeat_last = (int)o->repeat_last;
    int context = s->model->options.context;
    return sampler_open(s->model->device, vocab_size, context + 1, &options, error);
}

double prompt_rate(const Generation *g) {
    return g->prompt_seconds > 0 ? (double)g->prompt_tokens / g->prompt_seconds : NAN;
}

// The first token is the prompt's work; what is timed is one pass per further token.
double decode_rate(const Generation *g) {
    size_t passes = g->ids.count + (g->stop == STOP_EOS) - (g->first_token_at > 0);
    return passes && g->decode_seconds > 0 ? (double)passes / g->decode_seconds : NAN;
}

void print_statistics(const Generation *g) {
    double prompt = prompt_rate(g), text = decode_rate(g);
    fprintf(stderr, "run: prompt %zu tokens", g->prompt_tokens);
    if (isfinite(prompt)) fprintf(stderr, ", %.1f tokens/s", prompt);
    fprintf(stderr, "; text %zu tokens", g->ids.count);
    if (isfinite(text)) fprintf(stderr, ", %.1f tokens/s", text);
    if (g->first_token_at)
        fprintf(stderr, "; first token after %.3f s", g->first_token_at - g->session->started);
    fprintf(stderr, "; memory %.1f MB\n", (double)peak_memory_bytes() / 1e6);
}
