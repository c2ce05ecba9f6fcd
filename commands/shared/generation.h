// Generation: from the tokens of a prompt to those of a text, for generate and chat. Runs the
// prompt, then samples and runs one token at a time until something ends the text.
//
//     limpid_sampler_begin(sampler, prompt_ids, n, 0, &problem);
//     Generation g = {.session = &s, .sampler = sampler, .max_new = 256, .show = print_text};
//     generation_run(&g, prompt_ids, n, &error);   // g.stop says why it ended
//     generation_free(&g);
#pragma once

#include "base/hash.h"
#include "commands/shared/session.h"
#include "commands/shared/stop_text.h"
#include "model/decoder.h"
#include "model/sampler.h"

typedef enum StopReason {
    STOP_EOS,       // the model ended its text
    STOP_LENGTH,    // as many tokens as were asked for
    STOP_AT_TEXT,   // --stop
    STOP_CONTEXT,   // the context is full
    STOP_INTERRUPT, // Ctrl-C
    STOP_LOOP,      // it says the same over and over
    STOP_GRAMMAR,   // nothing more is allowed
} StopReason;

// A text that repeats a stretch of LOOP_TOKENS tokens or more three times over does not come out of
// it. A loop of fewer tokens has a multiple among these lengths.
enum { LOOP_TOKENS = 64 };

typedef struct Generation {
    // set by the caller
    Session *session;
    limpid_sampler *sampler; // behind limpid_sampler_begin, which has got the prompt
    size_t max_new;
    const TextList *stops;
    Speculation *speculation; // NULL: one token a pass
    bool ignore_eos;
    bool no_cache;     // every pass runs the whole text again; the cache is empty before
    bool wants_hash;   // logits_hash is computed
    bool wants_logits; // `token` takes logits
    bool stop_at_loops;
    bool whole_characters;     // bytes of a character that the text's end has cut are left out
    bool catch_interrupt;      // from the first token on; before it Ctrl-C ends the program at once
    const uint64_t *told_seed; // printed with the statistics; NULL: it is not
    bool shifts;               // where the context is full the oldest tokens leave it
    size_t cached;             // tokens of the prompt that are in the cache already, not all
    bool first; // the first new token begins a text: SPM kinds drop its leading space
    // The logits after prompt token `index`, for each but the last; NULL: not wanted. Then up to
    // the model's max_logit_rows tokens are read at a time.
    void (*read)(void *context, size_t index, const float *logits);
    // Called once, when the model has read the whole prompt: first the one that may fail, which
    // ends the run; NULL: not wanted.
    bool (*was_read)(void *context, Error *error);
    void (*begin)(void *context);
    // Every new token of `length` bytes before any of its text is shown, with the logits as for
    // `token`; NULL: not wanted.
    void (*before)(void *context, int32_t id, const float *logits, size_t length);
    // Text in whole characters, as soon as it can be shown; NULL: not wanted.
    void (*show)(void *context, const char *bytes, size_t length);
    // Every new token with its bytes and, with wants_logits or wants_hash, the logits that it was
    // sampled from (else NULL); NULL: not wanted.
    void (*token)(void *context, int32_t id, const float *logits, const char *piece, size_t length);
    // Every sampled token, the one that ends the text too, with its logits; NULL: not wanted. False
    // with `error` ends the run.
    bool (*sampled)(void *context, int32_t id, const float *logits, Error *error);
    void *context;

    // results
    IdList ids; // new tokens, without the one that ended the text
    StopReason stop;
    int32_t end_id;                    // STOP_EOS: the token that ended the text; else -1
    uint64_t logits_hash;              // FNV-1a of all rows of logits that tokens were sampled from
    size_t prompt_tokens, prompt_read; // of them, those that this run has computed
    size_t n_shifts, kept;             // how often tokens have left; how many stayed each time
    SpeculationCounts drafts;          // of this text
    double prompt_seconds, decode_seconds;
    double first_token_at; // seconds_now of the first token; 0: there was none
    // internal
    StopText stop_text;
    Utf8Stream characters;
    uint32_t repeated[LOOP_TOKENS]; // newest tokens equal to those LOOP_TOKENS + i before them
} Generation;

// With `shifts` a full context is emptied but for BOS, where the text begins with it, and the
// newest tokens, half of the context in all. They are read again as a text of their own: what
// follows has the bits of a run whose prompt they are.
//
// Appends the prompt, from `cached` on, to what the cache holds, then generates. False: exit code 2
// (prompt and context in the message), 4, 5, 6, 7. Ctrl-C is no error but a StopReason.
bool generation_run(Generation *g, const int32_t *prompt, size_t count, Error *error);

// The steps of it, for who runs several texts side by side (commands/prompts/): between the first
// and the last of them tokens are sampled and taken, one by one; at the end what was held back of
// the text is shown.
// `left`: the tokens that the context has room for, the last of which needs no place in the cache;
// a text of a grammar keeps to them and to max_new.
void generation_begin(Generation *g, size_t prompt_tokens, int left);
// Adds a sampled token to the text. *ended: the text ends here, g->stop says why. False: exit code
// 2 (the grammar has no such text) or 5.
bool generation_take(Generation *g, int32_t id, const float *logits, bool *ended, Error *error);
// Whether another token is wanted, and fits a context with room for `left`; else g->stop says why
// not.
bool generation_goes_on(Generation *g, int left);
bool generation_show_rest(Generation *g, Error *error); // false: exit code 5
void generation_free(Generation *g);

const char *stop_reason_name(StopReason reason); // "eos", "length", ...

// ---- sampling.c ----

// Whether --logit-bias can be read; before anything is opened. False: exit code 2.
bool sampling_check(const Options *options, Error *error);
// Whether its ids are below vocab_size. False: exit code 2 or 5.
bool sampling_check_tokens(const Options *options, int vocab_size, Error *error);
// The entries of all --logit-bias; the caller frees *biases. False: exit code 2 or 5.
bool sampling_biases(limpid_bias **biases, size_t *count, const Options *options, Error *error);
// Says which of the options that were given have no effect beside others.
void sampling_note(const Options *options);

// What a sampler is opened with besides the options.
typedef struct SamplerWanted {
    const GenerationDefaults *defaults; // the model's, for what the options leave open; NULL: none
    const float *numbers;               // (n_numbers) of limpid_sampling; borrowed
    size_t n_numbers;
} SamplerWanted;

// The sampler that the options ask for, with the session's grammar. What they and `defaults` leave
// open is taken from the table of options. *seed: the one in use. NULL: exit code 2, 3 (no
// tokenizer, which dry's sequence breakers need) or 5.
limpid_sampler *open_sampler(const Session *session, const SamplerWanted *wanted, uint64_t *seed,
                             Error *error);
// The settings that open_sampler takes, as text.
void print_sampling(Buffer *out, const Session *session, const GenerationDefaults *defaults);
// limpid_sampler_begin.
bool begin_text(limpid_sampler *sampler, const int32_t *prompt, size_t count, bool first,
                Error *error);

// A note where the text ended before the grammar allows an end.
void print_incomplete(const Generation *g);

// "prompt 5 tokens, 312/s; text 60, 56.9/s; first in 0.006 s; 14.9 MB" on standard error: tokens
// per second, seconds to the first token of the text, the peak of memory or the seed to be told.
// "prompt 12 of 40": the others were in the cache, or Ctrl-C came before them.
void print_statistics(const Generation *g);
double prompt_rate(const Generation *g); // tokens/s; NaN where nothing was measured
double decode_rate(const Generation *g);
