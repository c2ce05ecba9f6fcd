// Who drafts (lookup.c, draft.c), how many, and what became of the drafts. The rule is in
// speculate.h.
//
//   propose -> drafts[0 .. n-1], of which n_verified go into the pass
//   take    -> is the token drafts[at]? -> the rate of this kind of draft -> the text
//
// Drafts of a lookup that were declined are compared with the text all the same, which costs
// nothing: so a text that begins to repeat itself is noticed.
#include "model/speculation/speculate.h"
#include "model/speculation/drafts.h"

#include <stdlib.h>

enum {
    KINDS = 9,            // of drafts, by what they are likely to be worth: length of the match
    FEWEST_DECLINED = 16, // before another trial, and
    MOST_DECLINED = 512,
    TRIAL_DRAFTS = 4,
    RATE_MEMORY = 64, // drafts
};

// Of `tries` drafts `hits` were right; both are halved at RATE_MEMORY.
typedef struct Rate {
    int hits, tries;
} Rate;

struct Speculation {
    SpeculationOptions options;
    Lookup lookup; // its text is that of a draft model too
    Draft draft;
    int32_t drafts[SPECULATION_MAX];
    int n_drafts, n_verified, at, kind;
    Rate rates[KINDS];
    double single;        // seconds of a pass of one row; 0: not measured
    double row;           // and of each row more
    double draft_seconds; // of a draft
    double reading;       // of a token that the draft has missed; 0: not measured
    double elapsed;       // in passes
    double spent;         // by the draft model, in trials and on the first reading
    int taken;            // tokens
    bool measured_row, is_trial;
    bool is_warm; // the draft model has had a pass: the first, from cold memory, says nothing
    int declined, patience; // proposals since the last trial, and until the next
    unsigned worthwhile;    // proposals that were worth their pass
    SpeculationCounts counts;
};

Speculation *speculation_open(const SpeculationOptions *options, Error *error) {
    Speculation *s = calloc(1, sizeof *s);
    if (!s) {
        error_set(error, ERROR_MEMORY, "no memory for speculation");
        return NULL;
    }
    s->options = *options;
    s->patience = FEWEST_DECLINED;
    // One more than the context: the last token is sampled but never fed.
    bool good = lookup_init(&s->lookup, options->vocab_size, options->context + 1, error) &&
                (!options->draft || draft_init(&s->draft, options->draft, SPECULATION_MAX, error));
    if (good) return s;
    speculation_close(s);
    return NULL;
}

void speculation_close(Speculation *s) {
    if (!s) return;
    lookup_free(&s->lookup);
    draft_free(&s->draft);
    free(s);
}

void speculation_text(Speculation *s, int keep, const int32_t *ids, int count) {
    if (keep > s->lookup.count) keep = 0;
    lookup_truncate(&s->lookup, keep);
    draft_truncate(&s->draft, keep);
    for (int i = 0; i < count && s->lookup.count < s->lookup.capacity; i++)
        lookup_push(&s->lookup, ids[i]);
    s->n_drafts = s->n_verified = s->at = 0;
}

SpeculationCounts speculation_counts(const Speculation *s) {
    return s->counts;
}

const Error *speculation_failure(const Speculation *s) {
    return &s->draft.failure;
}

int speculation_length(const Speculation *s) {
    return s->lookup.count;
}

// ---- does it pay? ----

// Before anything is known: more for a longer match. That counts as much as BELIEF drafts.
static double rate_now(const Speculation *s) {
    const double BELIEF = 4, SHORTEST = 0.2, STEP = 0.08, OF_A_MODEL = 0.6;
    const Rate *rate = &s->rates[s->kind];
    double before = s->options.draft ? OF_A_MODEL : SHORTEST + STEP * s->kind;
    return (rate->hits + BELIEF * before) / (rate->tries + BELIEF);
}

static void rate_count(Rate *rate, bool hit) {
    rate->tries++;
    rate->hits += hit;
    if (rate->tries < RATE_MEMORY) return;
    rate->tries /= 2;
    rate->hits /= 2;
}

static void smooth(double *mean, double value, bool first, double share) {
    *mean = first ? value : *mean + share * (value - *mean);
}

// A pass of several rows takes no less than one of one row would: what is known of that may be old,
// of a shorter text or of a busier machine.
void speculation_measure(Speculation *s, int rows, double seconds) {
    s->elapsed += seconds;
    if (rows == 1) {
        smooth(&s->single, seconds, s->single <= 0, 0.125);
        return;
    }
    if (s->single <= 0 || s->single > seconds) s->single = seconds;
    smooth(&s->row, (seconds - s->single) / (rows - 1), !s->measured_row, 0.25);
    s->measured_row = true;
}

// The number of drafts with the most tokens a second. *gain: seconds a token, against none.
static int best_count(const Speculation *s, int most, double *gain) {
    const double MARGIN = 1.05;
    double row = s->measured_row ? s->row : s->single / 4; // a guess that lets it be tried
    double rate = rate_now(s), kept = 1, tokens = 1, best = MARGIN / s->single;
    int count = 0;
    for (int k = 1; k <= most; k++) {
        kept *= rate;
        tokens += kept;
        double speed = tokens / (s->single + k * (row + s->draft_seconds));
        if (speed <= best) continue;
        best = speed;
        count = k;
    }
    *gain = count ? s->single - 1 / best : 0;
    return count;
}

// Where a draft model has much to read, a few tokens tell how long that takes.
static void measure_reading(Speculation *s) {
    enum { WARM = 4, MEASURED = 32 };
    int count = s->lookup.count;
    DraftTime time;
    if (!s->options.draft || s->options.fixed || s->reading > 0 || s->single <= 0) return;
    if (draft_behind(&s->draft, count) <= MEASURED) return;
    if (!s->is_warm) draft_read(&s->draft, s->lookup.text, count, WARM, &time);
    s->is_warm = true;
    draft_read(&s->draft, s->lookup.text, count, MEASURED, &time);
    if (time.n_read) s->reading = time.reading / time.n_read;
    s->spent += time.reading;
}

// Whether a draft model may read what it has missed. Where drafts pay: what they win back in as
// many tokens as there were so far. Else it is part of a trial, and those have a share of the time.
static bool can_read(const Speculation *s, double gain, int trial) {
    enum { FEW = 32 };
    const double SHARE = 0.05;
    if (!s->options.draft) return true;
    double seconds = s->reading * draft_behind(&s->draft, s->lookup.count);
    if (!trial) return seconds <= gain * (s->taken > FEW ? s->taken : FEW);
    return s->spent + seconds + trial * s->draft_seconds <= SHARE * s->elapsed;
}

// How many drafts are worth their pass, trials included. Now and then a pass that would have been
// worth it goes without, so that its time without is known.
static int choose_count(Speculation *s, int most) {
    enum { WITHOUT_FIRST = 8, WITHOUT_EVERY = 128 };
    if (s->options.fixed) return s->options.fixed < most ? s->options.fixed : most;
    if (s->single <= 0) {
        s->counts.declined++;
        return 0;
    }
    double gain;
    int count = best_count(s, most, &gain);
    if (count && can_read(s, gain, 0)) {
        s->declined = 0;
        s->patience = FEWEST_DECLINED;
        return s->worthwhile++ % WITHOUT_EVERY == WITHOUT_FIRST ? 0 : count;
    }
    s->counts.declined++;
    count = most < TRIAL_DRAFTS ? most : TRIAL_DRAFTS;
    if (++s->declined < s->patience || !can_read(s, 0, count)) return 0;
    s->declined = 0;
    s->is_trial = true;
    if (s->patience < MOST_DECLINED) s->patience *= 2;
    return count;
}

// ---- proposals ----

// All that can be verified are drafted, of which the first few may be.
static int look_up(Speculation *s, int most) {
    int next = 0, length = lookup_find(&s->lookup, &next);
    if (!length) return 0;
    s->kind = length < KINDS ? length - 1 : KINDS - 1;
    s->n_drafts = most;
    lookup_copy(&s->lookup, next, s->drafts, most);
    return choose_count(s, most);
}

// Drafts cost time, so it is decided first how many.
static int ask_draft(Speculation *s, const Sampler *sampler, int most) {
    s->is_trial = false;
    s->counts.beyond_draft = s->lookup.count > s->options.draft->options.context;
    measure_reading(s);
    int count = choose_count(s, most);
    if (!count) return 0;
    DraftTime time;
    s->n_drafts = draft_propose(&s->draft, s->lookup.text, s->lookup.count, sampler,
                                s->options.vocab_size, s->drafts, count, &time);
    bool is_warm = s->is_warm;
    s->is_warm = true;
    if (!is_warm) return s->n_drafts;
    if (time.guess > 0) smooth(&s->draft_seconds, time.guess, s->draft_seconds <= 0, 0.25);
    if (time.reading > 0) smooth(&s->reading, time.reading / time.n_read, s->reading <= 0, 0.25);
    if (s->is_trial) s->spent += time.reading + s->n_drafts * time.guess;
    return s->n_drafts;
}

int speculation_propose(Speculation *s, const Sampler *sampler, int32_t *out, int most) {
    if (most > SPECULATION_MAX) most = SPECULATION_MAX;
    s->n_drafts = s->n_verified = s->at = s->kind = 0;
    if (most < 1) return 0;
    int count = s->options.draft ? ask_draft(s, sampler, most) : look_up(s, most);
    for (int i = 0; i < count; i++)
        out[i] = s->drafts[i];
    s->n_verified = count;
    s->counts.drafted += (uint64_t)count;
    s->counts.passes += count > 0;
    return count;
}

// A draft behind one that was wrong says nothing.
void speculation_take(Speculation *s, int32_t token) {
    if (s->lookup.count < s->lookup.capacity) lookup_push(&s->lookup, token);
    s->taken++;
    if (s->at >= s->n_drafts) return;
    bool hit = s->drafts[s->at] == token;
    rate_count(&s->rates[s->kind], hit);
    s->counts.accepted += hit && s->at < s->n_verified;
    s->at = hit ? s->at + 1 : s->n_drafts;
    // What follows a declined draft is proposed anew, from a longer match.
    if (s->at > s->n_verified) s->at = s->n_drafts;
}
