// The loop from prompt to text, with what is shown on the way.
//
//   prompt -> session_feed (chunks) -> decoder_next -> id -> ends the text? -> sampler_accept
//          -> tokenizer_piece -> stop texts hold back -> whole characters -> show
//
// What a token's bytes pass on their way, for --stop "END" and a character of 3 bytes in two
// tokens:
//
//   pieces        "the E"     "gg \xe2\x82"     "\xac"
//   stop text     "the "      "Egg \xe2\x82"    "\xac"      E could have begun END
//   characters    "the "      "Egg "            euro sign
#include "commands/shared/generation.h"
#include "commands/shared/interrupt.h"
#include "commands/shared/output.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *stop_reason_name(StopReason reason) {
    static const char *const NAMES[] = {"eos",       "length", "stop",   "context",
                                        "interrupt", "loop",   "grammar"};
    return NAMES[reason];
}

// Where nothing is shown the bytes go the same way: --stop works with --ids too.
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
bool generation_show_rest(Generation *g, Error *error) {
    const char *out = NULL;
    size_t count = 0;
    stop_text_flush(&g->stop_text, &out, &count);
    if (!utf8_stream_push(&g->characters, out, count, &out, &count, error)) return false;
    show_bytes(g, out, count);
    utf8_stream_flush(&g->characters, &out, &count);
    if (!g->whole_characters) show_bytes(g, out, count);
    return true;
}

// Whether the newest tokens are a stretch said three times. Called once for each token.
static bool is_loop(Generation *g) {
    const int32_t *last = g->ids.ids + g->ids.count - 1;
    bool found = false;
    for (size_t i = 0; i < LOOP_TOKENS; i++) {
        size_t length = LOOP_TOKENS + i;
        bool same = g->ids.count > length && last[-(ptrdiff_t)length] == *last;
        g->repeated[i] = same ? g->repeated[i] + 1 : 0;
        found = found || g->repeated[i] >= 2 * length;
    }
    return found;
}

bool generation_take(Generation *g, int32_t id, const float *logits, bool *ended, Error *error) {
    const Session *s = g->session;
    if (!g->ignore_eos && session_stops_at(s, id)) {
        g->stop = STOP_EOS;
        g->end_id = id;
        *ended = true;
        return true;
    }
    limpid_error problem = {0};
    bool accepted = limpid_sampler_accept(g->sampler, id, &problem);
    if (!session_problem(error, accepted, &problem)) return session_grammar_prefix(s, error);
    size_t length = 0;
    const char *piece = "";
    if (s->tokenizer)
        piece = tokenizer_piece(s->tokenizer, id, g->first && !g->ids.count, false, &length);
    if (g->before) g->before(g->context, id, logits, length);
    if (!show_token(g, piece, length, ended, error)) return false;
    if (*ended) g->stop = STOP_AT_TEXT;
    // After show_token, since it may ask the tokenizer for other pieces.
    if (g->token) g->token(g->context, id, logits, piece, length);
    if (!id_list_push(&g->ids, id, error)) return false;
    if (!g->stop_at_loops || !is_loop(g) || *ended) return true;
    g->stop = STOP_LOOP;
    *ended = true;
    return true;
}

bool generation_goes_on(Generation *g, int left) {
    g->stop = STOP_LENGTH;
    if (g->ids.count == g->max_new || !output_good()) return false;
    g->stop = STOP_INTERRUPT;
    if (interrupt_asked()) return false;
    g->stop = STOP_CONTEXT;
    return left > 0;
}

// The next token into *id, as limpid_sample would give it. *ended: the grammar allows none. False:
// exit code 2, 3, 5, 6, 7 or 130.
static bool next_token(Generation *g, Decoder *d, int *id, bool *ended, Error *error) {
    if (!sampler_prepare(g->sampler, ended, error))
        return session_grammar_prefix(g->session, error);
    if (*ended) {
        g->stop = STOP_GRAMMAR;
        return true;
    }
    *id = decoder_next(d, error);
    if (*id < 0) return false;
    return sampler_check(g->sampler, *id, error) || session_grammar_prefix(g->session, error);
}

// One token per turn. Ctrl-C ends the text and is no failure: true with STOP_INTERRUPT. False: exit
// code 4, 5, 6 or 7.
static bool decode(Generation *g, Decoder *d, Error *error) {
    size_t bytes = (size_t)g->session->config->vocab_size * sizeof(float);
    g->stop = STOP_LENGTH;
    for (bool more = g->max_new > 0, ended = false; more;
         more = !ended && generation_goes_on(g, decoder_left(d))) {
        Error cause = {0};
        int id = -1;
        bool good = next_token(g, d, &id, &ended, &cause);
        if (!good && cause.code == ERROR_INTERRUPTED) {
            g->stop = STOP_INTERRUPT;
            return true;
        }
        error_copy(error, &cause);
        if (!session_result(g->session, good, error)) return false;
        if (ended) return true;
        const float *logits = d->options.wants_logits ? decoder_logits(d) : NULL;
        // The hash is over the bytes of every row that a token was sampled from, in order: with
        // equal hashes two runs sampled from the same bits.
        if (g->wants_hash) g->logits_hash = fnv1a(g->logits_hash, logits, bytes);
        if (!g->first_token_at) g->first_token_at = seconds_now();
        if (g->sampled && !g->sampled(g->context, id, logits, error)) return false;
        if (!generation_take(g, id, logits, &ended, error)) return false;
    }
    return true;
}

// As session_feed; where `read` wants logits every row of the prompt goes through the head too, but
// the last, which has a pass of its own for the decoder to sample from.
static bool feed_prompt(Generation *g, const int32_t *prompt, size_t count, size_t *fed,
                        Error *error) {
    enum { MOST = 64 };
    const ModelOptions *o = &g->session->model->options;
    int most = o->max_logit_rows < o->max_rows ? o->max_logit_rows : o->max_rows;
    bool wants[MOST], good = true;
    size_t before_last = g->read ? count - 1 : 0;
    Progress progress;
    memset(wants, true, sizeof wants);
    progress_begin(&progress, "prompt", g->session->options->quiet);
    for (size_t at = 0, n; good && at < before_last; at += n) {
        n = before_last - at;
        if (n > (size_t)most) n = (size_t)most;
        if (n > MOST) n = MOST;
        Batch batch = {.n = (int)n, .tokens = prompt + at, .wants_logits = wants};
        good = session_forward(g->session, &batch, error);
        for (size_t i = 0; good && i < n; i++)
            g->read(g->context, at + i, model_logits(g->session->model, (int)i));
        progress_update(&progress, (double)(at + n) / (double)count);
    }
    progress_end(&progress);
    good = good && session_feed(g->session, prompt + before_last, count - before_last, fed, error);
    *fed += before_last;
    return good;
}

void generation_begin(Generation *g, size_t prompt_tokens, int left) {
    size_t most = !g->shifts && (size_t)left < g->max_new ? (size_t)left : g->max_new;
    limpid_sampler_within(g->sampler, most);
    g->stop_text.stops = g->stops;
    g->logits_hash = FNV_START;
    g->end_id = -1;
    g->prompt_tokens = prompt_tokens;
    g->stop = STOP_LENGTH;
}

// ---- drafts ----

// The text that the drafts continue is now that of the cache. Returns the counts so far.
static SpeculationCounts begin_drafts(Generation *g, int before, const int32_t *prompt,
                                      size_t count) {
    if (!g->speculation) return (SpeculationCounts){0};
    speculation_text(g->speculation, before, prompt, (int)count);
    return speculation_counts(g->speculation);
}

static void end_drafts(Generation *g, const SpeculationCounts *before) {
    if (!g->speculation) return;
    SpeculationCounts now = speculation_counts(g->speculation);
    g->drafts.drafted = now.drafted - before->drafted;
    g->drafts.accepted = now.accepted - before->accepted;
    g->drafts.passes = now.passes - before->passes;
    g->drafts.declined = now.declined - before->declined;
    g->drafts.beyond_draft = now.beyond_draft;
}

// ---- where the context is full ----

// The tokens that stay, of the prompt and the new ones.
static bool choose_kept(const Generation *g, const int32_t *prompt, size_t count, IdList *kept,
                        Error *error) {
    const Session *s = g->session;
    size_t half = (size_t)s->model->options.context / 2, all = count + g->ids.count;
    size_t newest = half ? half : 1;
    bool bos = newest > 1 && s->tokenizer && prompt[0] == tokenizer_bos(s->tokenizer);
    kept->count = 0;
    if (bos && !id_list_push(kept, prompt[0], error)) return false;
    for (size_t i = all - newest + bos; i < all; i++)
        if (!id_list_push(kept, i < count ? prompt[i] : g->ids.ids[i - count], error)) return false;
    return true;
}

// Reads them in place of all that the cache and the sampler have. Ctrl-C: true, with g->stop.
static bool shift_context(Generation *g, const int32_t *prompt, size_t count, IdList *kept,
                          Error *error) {
    Error cause = {0};
    if (!choose_kept(g, prompt, count, kept, error)) return false;
    kv_cache_reset(&g->session->model->cache, 0);
    // A grammar goes on with the whole text: it is the model that reads less of it.
    sampler_reset(g->sampler->sampler);
    sampler_begin_text(g->sampler->sampler);
    for (size_t i = 0; i < kept->count; i++)
        sampler_accept(g->sampler->sampler, kept->ids[i]);
    if (g->speculation) speculation_text(g->speculation, 0, kept->ids, (int)kept->count);
    g->n_shifts++;
    g->kept = kept->count;
    Batch batch = {.n = (int)kept->count, .tokens = kept->ids};
    if (session_forward(g->session, &batch, &cause)) return true;
    if (cause.code != ERROR_INTERRUPTED) return error_copy(error, &cause);
    g->stop = STOP_INTERRUPT;
    return true;
}

// The text, behind a prompt in the cache; a decoder lasts until the context is full.
static bool decode_text(Generation *g, const int32_t *prompt, size_t count, Error *error) {
    IdList kept = {0};
    bool good = true, more = true;
    while (good && more) {
        Decoder decoder = {0};
        DecoderOptions options = {.sampler = g->sampler->sampler,
                                  .max_tokens = g->max_new - g->ids.count,
                                  .wants_logits = g->wants_hash || g->wants_logits || g->sampled,
                                  .recompute = !g->no_cache ? NULL
                                               : kept.count ? kept.ids
                                                            : prompt,
                                  .speculation = g->speculation};
        good = decoder_begin(&decoder, g->session->model, &options, error) &&
               decode(g, &decoder, error);
        decoder_end(&decoder);
        more = g->stop == STOP_CONTEXT && g->shifts;
        if (good && more) good = shift_context(g, prompt, count, &kept, error);
        more = more && g->stop != STOP_INTERRUPT;
    }
    id_list_free(&kept);
    return good;
}

// The prompt into the cache. *read: all of it, before Ctrl-C. False: as generation_run.
static bool read_prompt(Generation *g, const int32_t *prompt, size_t count, bool *read,
                        Error *error) {
    Model *model = g->session->model;
    int room = model->options.context - kv_cache_length(&model->cache, 0);
    size_t fed = 0, left = count - g->cached;
    assert(g->cached < count);
    if (!session_check_room("the prompt", left, room, error)) return false;
    double started = seconds_now();
    if (!feed_prompt(g, prompt + g->cached, left, &fed, error)) return false;
    g->prompt_seconds = seconds_now() - started;
    g->prompt_read = fed;
    *read = fed == left;
    return true;
}

bool generation_run(Generation *g, const int32_t *prompt, size_t count, Error *error) {
    bool read = false;
    Model *model = g->session->model;
    int before = kv_cache_length(&model->cache, 0) - (int)g->cached;
    generation_begin(g, count, model->options.context - before - (int)count + 1);
    if (!read_prompt(g, prompt, count, &read, error)) return false;
    g->stop = STOP_INTERRUPT;
    // Ctrl-C during the prompt: there is no text.
    if (!read) return true;
    if (g->was_read && !g->was_read(g->context, error)) return false;
    SpeculationCounts drafts = begin_drafts(g, before, prompt, count);
    if (g->begin) g->begin(g->context);
    if (g->catch_interrupt) interrupt_begin();
    bool good = decode_text(g, prompt, count, error);
    end_drafts(g, &drafts);
    g->decode_seconds = g->first_token_at ? seconds_now() - g->first_token_at : 0;
    // After a failure the text so far is shown too.
    return generation_show_rest(g, good ? error : NULL) && good;
}

void generation_free(Generation *g) {
    id_list_free(&g->ids);
    stop_text_free(&g->stop_text);
    utf8_stream_free(&g->characters);
}

double prompt_rate(const Generation *g) {
    return g->prompt_seconds > 0 ? (double)g->prompt_read / g->prompt_seconds : NAN;
}

// The prompt's pass gives the first token, so there is one pass fewer than sampled tokens.
double decode_rate(const Generation *g) {
    // The token that ended the text was sampled from a pass too, although it is not in ids.
    size_t passes = g->ids.count + (g->stop == STOP_EOS) - (g->first_token_at > 0);
    return passes && g->decode_seconds > 0 ? (double)passes / g->decode_seconds : NAN;
}

// "2416/s", "56.9/s"; nothing where it was not measured.
static void put_rate(Buffer *line, double rate) {
    if (isfinite(rate)) buffer_print(line, rate < 100 ? ", %.1f/s" : ", %.0f/s", rate);
}

// "0.012", "0.25", "43.5"
static void put_seconds(Buffer *line, double seconds) {
    buffer_print(line, "; first in %.*f s", seconds < 0.1 ? 3 : seconds < 10 ? 2 : 1, seconds);
}

void print_incomplete(const Generation *g) {
    if (limpid_sampler_ending(g->sampler, NULL) != LIMPID_GOES_ON) return;
    const Constraint *c = &g->sampler->constraint;
    bool too_few = (g->stop == STOP_LENGTH || g->stop == STOP_CONTEXT) && c->least > g->ids.count &&
                   c->least < MATCHER_ENDLESS;
    char why[64] = "";
    if (too_few)
        snprintf(why, sizeof why, "; the shortest text of the grammar takes %u tokens", c->least);
    note("the text ended (%s) before the grammar allows an end: it is incomplete%s",
         stop_reason_name(g->stop), why);
}

static const char *why_no_drafts(const Generation *g) {
    if (g->drafts.beyond_draft) return "none, the text is beyond the draft model's context";
    if (g->drafts.declined) return "none was worth its time";
    if (g->session->options->draft) return "none, too few tokens were left to guess";
    return "none, the text did not repeat itself";
}

static void print_drafts(const Generation *g) {
    const SpeculationCounts *c = &g->drafts;
    if (!g->speculation) return;
    const Error *failure = speculation_failure(g->speculation);
    if (failure->code) note("drafts: the draft model was left out: %s", failure->message);
    if (c->beyond_draft && c->drafted)
        note("drafts: none behind the end of the draft model's context");
    if (!c->drafted) {
        if (!failure->code) note("drafts: %s", why_no_drafts(g));
        return;
    }
    note("drafts: %" PRIu64 " of %" PRIu64 " accepted (%.0f %%), in %" PRIu64 " pass%s",
         c->accepted, c->drafted, 100.0 * (double)c->accepted / (double)c->drafted, c->passes,
         c->passes == 1 ? "" : "es");
}

// One line, which fits a window of 80 columns but for very large numbers, and one for drafts.
void print_statistics(const Generation *g) {
    Buffer line = {0};
    buffer_print(&line, "prompt ");
    // The rest was in the cache, or Ctrl-C came before it.
    if (g->prompt_read < g->prompt_tokens)
        buffer_print(&line, "%zu of %zu", g->prompt_read, g->prompt_tokens);
    else
        buffer_print(&line, "%zu token%s", g->prompt_tokens, g->prompt_tokens == 1 ? "" : "s");
    put_rate(&line, prompt_rate(g));
    buffer_print(&line, "; text %zu", g->ids.count);
    put_rate(&line, decode_rate(g));
    if (g->first_token_at) put_seconds(&line, g->first_token_at - g->session->started);
    if (g->told_seed)
        buffer_print(&line, "; seed %" PRIu64, *g->told_seed);
    else
        buffer_print(&line, "; %.1f MB", (double)peak_memory_bytes() / 1e6);
    buffer_print(&line, "%s", build_remark());
    buffer_zeros(&line, 1);
    if (!line.failed) note("%s", (const char *)line.bytes);
    buffer_free(&line);
    print_drafts(g);
}
