// The same run again: token by token, until one differs, since from there on the rows are of
// another text. A row is the same where its hash is: every bit of every logit.
#include "commands/replay/replay.h"
#include "commands/shared/logprobs.h"
#include "commands/shared/output.h"
#include "commands/shared/prompt.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// One of the two tokens where the runs part, in both of them. NaN: the recording does not have it.
typedef struct Candidate {
    int32_t id;
    double logits[2], probabilities[2]; // recorded, now
} Candidate;

typedef struct Comparison {
    const Recording *recorded;
    size_t compared;   // tokens that were run
    size_t other_rows; // of these, rows of logits with other bits
    size_t first_row;  // of these the first; without one `compared`
    uint64_t first_hash;
    double largest;          // difference of a recorded token's logit
    size_t largest_at;       // its token
    bool parted;             // the last token that was run differs
    Candidate candidates[2]; // then: the recorded token, the one of now
} Comparison;

// ---- the run ----

static Candidate candidate(const RecordedToken *t, int32_t id, const float *logits, double total) {
    bool chosen = id == t->id, other = id == t->other;
    return (Candidate){
        .id = id,
        .logits = {chosen  ? (double)t->logit
                   : other ? (double)t->other_logit
                           : NAN,
                   (double)logits[id]},
        .probabilities = {chosen  ? t->probability
                          : other ? t->other_probability
                                  : NAN,
                          exp((double)logits[id] - total)},
    };
}

static void take_token(Comparison *c, int32_t id, const float *logits) {
    const RecordedToken *t = &c->recorded->tokens[c->compared];
    int vocab_size = c->recorded->vocab_size;
    uint64_t hash = fnv1a(FNV_START, logits, (size_t)vocab_size * sizeof *logits);
    double difference = fabs((double)logits[t->id] - (double)t->logit);
    if (hash != t->hash && !c->other_rows++) {
        c->first_row = c->compared;
        c->first_hash = hash;
    }
    if (difference > c->largest) {
        c->largest = difference;
        c->largest_at = c->compared;
    }
    c->parted = id != t->id;
    if (c->parted) {
        double total = log_sum_exp_f64(logits, vocab_size);
        c->candidates[0] = candidate(t, t->id, logits, total);
        c->candidates[1] = candidate(t, id, logits, total);
    }
    c->compared++;
}

// Ctrl-C: false with exit code 130; what was compared until then stays.
static bool run_tokens(Replay *r, Comparison *c, Error *error) {
    Session *s = &r->session;
    Decoder decoder = {0};
    size_t count = c->recorded->n_tokens;
    DecoderOptions options = {
        .sampler = r->sampler->sampler, .max_tokens = count, .wants_logits = true};
    Progress progress;
    bool good = decoder_begin(&decoder, s->model, &options, error);
    progress_begin(&progress, "replay", s->options->quiet);
    while (good && c->compared < count && !c->parted) {
        int id = decoder_next(&decoder, error);
        good = session_result(s, id >= 0, error);
        if (!good) break;
        take_token(c, id, decoder_logits(&decoder));
        sampler_accept(r->sampler->sampler, id);
        progress_update(&progress, (double)c->compared / (double)count);
    }
    progress_end(&progress);
    decoder_end(&decoder);
    return good;
}

// ---- the report ----

static void print_cell(double logit, double probability) {
    if (isnan(logit))
        output_print("  %11s %11s", "?", "?");
    else
        output_print("  %11.6f %11.7f", logit, probability);
}

// The token itself comes last, since it has any width.
static void print_parting(const Comparison *c, char **labels) {
    output_print("token %zu of %zu differs\n\n", c->compared - 1, c->recorded->n_tokens);
    output_print("%-17s %8s  %-23s  now\n", "", "", "recorded");
    output_print("%-17s %8s  %11s %11s  %11s %11s  token\n", "", "id", "logit", "probability",
                 "logit", "probability");
    for (int i = 0; i < 2; i++) {
        const Candidate *candidate = &c->candidates[i];
        output_print("%-17s %8d", i ? "sampled now" : "sampled recorded", (int)candidate->id);
        for (int run = 0; run < 2; run++)
            print_cell(candidate->logits[run], candidate->probabilities[run]);
        output_print("  ");
        output_text(labels[i], strlen(labels[i]));
        output_print("\n");
    }
    if (c->recorded->options.temperature > 0)
        output_print("both with the uniform number %.9g\n",
                     (double)c->recorded->tokens[c->compared - 1].uniform);
    output_print("\n");
}

static void print_rows(const Comparison *c) {
    if (!c->other_rows) {
        output_print("all %zu rows of logits have the same bits\n", c->compared);
        return;
    }
    output_print("%zu of %zu rows of logits have other bits, the first is that of token %zu\n",
                 c->other_rows, c->compared, c->first_row);
    output_print("largest difference in the logit of a recorded token: %.3g, token %zu\n",
                 c->largest, c->largest_at);
}

static void print_result(const Comparison *c, char **labels) {
    if (!c->parted && !c->other_rows) {
        output_print("the same bits: %zu tokens\n", c->compared);
        return;
    }
    if (c->parted)
        print_parting(c, labels);
    else
        output_print("the same %zu tokens, from other bits\n", c->compared);
    print_rows(c);
}

static void write_candidate(JsonWriter *w, const char *key, const Candidate *c, const char *label) {
    writer_begin(w, key, '{');
    writer_integer(w, "id", c->id);
    writer_string(w, "token", label);
    writer_number(w, "logit", c->logits[0]);
    writer_number(w, "probability", c->probabilities[0]);
    writer_number(w, "logit_now", c->logits[1]);
    writer_number(w, "probability_now", c->probabilities[1]);
    writer_end(w, '}');
}

static void write_hash(JsonWriter *w, const char *key, uint64_t hash) {
    char text[FNV_HEX];
    snprintf(text, sizeof text, "%016" PRIx64, hash);
    writer_string(w, key, text);
}

static void write_first_row(JsonWriter *w, const Comparison *c) {
    writer_begin(w, "first_row", '{');
    writer_integer(w, "token", (int64_t)c->first_row);
    write_hash(w, "hash", c->recorded->tokens[c->first_row].hash);
    write_hash(w, "hash_now", c->first_hash);
    writer_end(w, '}');
}

static void write_result(const Replay *r, const Comparison *c, char **labels) {
    JsonWriter w = {0};
    writer_begin(&w, NULL, '{');
    writer_bool(&w, "same_bits", !c->parted && !c->other_rows);
    writer_bool(&w, "same_tokens", !c->parted);
    writer_integer(&w, "tokens", (int64_t)c->recorded->n_tokens);
    writer_integer(&w, "compared", (int64_t)c->compared);
    writer_integer(&w, "rows_with_other_bits", (int64_t)c->other_rows);
    if (c->other_rows)
        write_first_row(&w, c);
    else
        writer_string(&w, "first_row", NULL);
    writer_number(&w, "largest_logit_difference", c->largest);
    if (c->parted) {
        writer_begin(&w, "first_token", '{');
        writer_integer(&w, "token", (int64_t)c->compared - 1);
        writer_number(&w, "uniform", (double)c->recorded->tokens[c->compared - 1].uniform);
        write_candidate(&w, "recorded", &c->candidates[0], labels[0]);
        write_candidate(&w, "sampled", &c->candidates[1], labels[1]);
        writer_end(&w, '}');
    } else {
        writer_string(&w, "first_token", NULL);
    }
    writer_bool(&w, "same_model", !strcmp(r->digest, r->recorded.digest));
    writer_string(&w, "recorded_device", r->recorded.device);
    writer_string(&w, "device", device_info(r->session.model->device)->description);
    writer_end(&w, '}');
    writer_line(&w);
}

// Exit code 1; the answer itself is on standard output.
static bool answer_no(const Comparison *c, Error *error) {
    if (c->parted) return error_set(error, ERROR_ANSWER_NO, "token %zu differs", c->compared - 1);
    return error_set(error, ERROR_ANSWER_NO, "the tokens are the same, the bits are not");
}

static bool report(const Replay *r, const Comparison *c, Error *error) {
    int32_t ids[] = {c->candidates[0].id, c->candidates[1].id};
    char **labels = token_labels(&r->session, &(IdList){.ids = ids, .count = 2}, error);
    if (!labels) return false;
    if (r->given->json)
        write_result(r, c, labels);
    else
        print_result(c, labels);
    free(labels);
    return (!c->parted && !c->other_rows) || answer_no(c, error);
}

bool replay_compare(Replay *r, Error *error) {
    Comparison c = {.recorded = &r->recorded};
    if (!r->recorded.n_tokens) {
        if (r->given->json && !report(r, &c, error)) return false;
        return error_set(error, ERROR_ANSWER_NO, "the recording has no tokens to compare");
    }
    if (!replay_feed(r, 0, error)) return false;
    bool good = run_tokens(r, &c, error);
    c.first_row = c.other_rows ? c.first_row : c.compared;
    if (!good && error->code == ERROR_INTERRUPTED && !r->given->quiet)
        note("interrupted after %zu of %zu tokens, %s", c.compared, r->recorded.n_tokens,
             c.other_rows ? "with other bits" : "with the same bits");
    return good && report(r, &c, error);
}
