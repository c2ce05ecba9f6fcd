// Generation: tokens in, tokens out, for generate and chat: feed the prompt, sample, feed what was
// sampled, until something ends it.
//
//     Generation g = {.session = &s, .sampler = sampler, .max_new = 256, .show = print_text};
//     generation_run(&g, prompt_ids, n, &error);   // g.stop says why it ended
//     generation_free(&g);
#pragma once

#include "base/hash.h"
#include "commands/shared/session.h"
#include "commands/shared/stop_text.h"
#include "model/feedback.h"
#include "model/sampler.h"

typedef enum StopReason {
    STOP_EOS,       // the model ended its text
    STOP_LENGTH,    // as many tokens as were asked for
    STOP_AT_TEXT,   // --stop
    STOP_CONTEXT,   // the context is full
    STOP_INTERRUPT, // Ctrl-C
} StopReason;

typedef struct Generation {
    // set by the caller
    Session *session;
    Sampler *sampler;
    size_t max_new;
    const TextList *stops;
    bool ignore_eos, no_cache, wants_hash;
    bool wants_logits;    // `token` does; without that and wants_hash they may stay on the device
    bool catch_interrupt; // from the first token on; before it Ctrl-C ends the program at once
    bool first;           // the first new token begins a text: SPM kinds drop its leading space
    // Once, when the model has read the whole prompt; NULL: not wanted.
    void (*begin)(void *context);
    // Text as it can be shown, whole characters; NULL: not wanted.
    void (*show)(void *context, const char *bytes, size_t length);
    // Every new token with the logits it was drawn from (NULL: see wants_logits) and its bytes;
    // NULL: not wanted.
    void (*token)(void *context, int32_t id, const float *logits, const char *piece, size_t length);
    void *context;

    // results
    IdList ids; // new tokens, without the one that ended the text
    StopReason stop;
    int32_t end_id;       // STOP_EOS: the token that ended the text; else -1
    uint64_t logits_hash; // FNV-1a of every row of logits sampled from
    size_t prompt_tokens;
    double prompt_seconds, decode_seconds;
    double first_token_at; // seconds_now when the first token was there; 0: none came
    // inner
    Feedback feedback; // begun where tokens are drawn and fed back on the device
    IdList all;        // no_cache: prompt and new tokens
    StopText stop_text;
    Utf8Stream characters;
} Generation;

// The prompt goes behind what the cache holds. False: exit code 2 (prompt and context in the
// message), 4, 5, 6, 7. Ctrl-C is no error but a reason to stop.
bool generation_run(Generation *g, const int32_t *prompt, size_t count, Error *error);
void generation_free(Generation *g);

const char *stop_reason_name(StopReason reason); // "eos", "length", ...

// The sampler that the options ask for; where one is not given, `defaults` (of the model) or what
// the options table says. *seed: the one in use. NULL: exit code 2 or 5.
Sampler *open_sampler(const Session *session, const GenerationDefaults *defaults, uint64_t *seed,
                      Error *error);

// "prompt 5 tokens, 312.10 tokens/s; ..." on standard error.
void print_statistics(const Generation *g);
double prompt_rate(const Generation *g); // tokens/s; NaN where nothing was measured
double decode_rate(const Generation *g);
