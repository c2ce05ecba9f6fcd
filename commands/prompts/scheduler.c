// Continuous batching: every pass has one row of each text that is being written, and up to
// PROMPT_ROWS rows of prompts that are still to be read. A text that ends is replaced at once.
//
//   slot        pass 1          pass 2          pass 3
//   0           prompt A 0..39  A 40            A 41        a row of logits from which 41 came
//   1           prompt B 0..87  B 88..104       B 105
//   2                           prompt C 0..90  C 91
//
// A slot is a sequence of the cache. Its tokens are `ids`, of which the cache holds the first:
// those up to `until` are fed, and rows from the prompt's last on give logits. For a text that is
// one row at a time, since the next id is not known before; for a continuation it is several.
//
// Equal beginnings are computed once: a new prompt takes over the keys and values of the slot whose
// ids begin like it, and waits while another one that shares more with it is being read.
#include "commands/prompts/prompts.h"
#include "commands/shared/interrupt.h"
#include "commands/shared/logprobs.h"
#include "commands/shared/output.h"

#include <stdlib.h>
#include <string.h>

typedef struct Slot {
    Request *request; // borrowed; NULL: free, with a sequence whose keys others may take over
    Sample *sample;
    IdList ids;
    size_t until;
    uint64_t began; // the order in which prompts are read
    Session session;
    Generation generation; // session, sampler and stops of this text
    size_t before;         // cached ids before the pass
    int n_rows;            // of the pass
    int n_logits;          // those that gave logits, from first_logits on
    int first_logits;
    bool ended;
} Slot;

struct Scheduler {
    const Session *session;
    Slot *slots; // (n)
    int n;
    Request **waiting; // (n_waiting) whose samples have not all begun
    size_t n_waiting, room;
    uint64_t clock;
    int32_t *tokens, *sequences; // (max_rows) of the pass
    bool *wants_logits;
    int n_rows, n_logit_rows;
    SchedulerCounts counts;
};

// A beginning that is shorter is computed again: to copy it costs about as much.
enum { LEAST_SHARED = 8 };

// ---- opening ----

static bool open_lists(Scheduler *s, Error *error) {
    size_t rows = (size_t)s->session->model->options.max_rows;
    s->slots = calloc((size_t)s->n, sizeof *s->slots);
    s->waiting = calloc((size_t)s->n, sizeof(Request *));
    s->room = (size_t)s->n;
    s->tokens = calloc(rows, sizeof *s->tokens);
    s->sequences = calloc(rows, sizeof *s->sequences);
    s->wants_logits = calloc(rows, sizeof *s->wants_logits);
    return (s->slots && s->waiting && s->tokens && s->sequences && s->wants_logits) ||
           error_set(error, ERROR_MEMORY, "no memory for %d texts side by side", s->n);
}

Scheduler *scheduler_open(const Session *session, int n, Error *error) {
    Scheduler *s = calloc(1, sizeof *s);
    if (!s) {
        error_set(error, ERROR_MEMORY, "no memory for %d texts side by side", n);
        return NULL;
    }
    s->session = session;
    s->n = n;
    if (open_lists(s, error)) return s;
    scheduler_close(s);
    return NULL;
}

// The text of a slot, ended or not.
static void close_text(Slot *slot) {
    limpid_sampler_close(slot->generation.sampler);
    generation_free(&slot->generation);
    slot->generation = (Generation){0};
    slot->request = NULL;
    slot->sample = NULL;
}

void scheduler_close(Scheduler *s) {
    if (!s) return;
    for (int i = 0; s->slots && i < s->n; i++) {
        close_text(&s->slots[i]);
        id_list_free(&s->slots[i].ids);
    }
    free(s->slots);
    free(s->waiting);
    free(s->tokens);
    free(s->sequences);
    free(s->wants_logits);
    free(s);
}

// ---- equal beginnings ----

static KvCache *cache_of(const Scheduler *s) {
    return &s->session->model->cache;
}

static size_t cached(const Scheduler *s, int i) {
    return (size_t)kv_cache_length(cache_of(s), i);
}

// How many ids of the request's prompt, but its last, the first `count` ids of a slot begin with.
static size_t common(const Slot *slot, size_t count, const Request *r) {
    size_t n = 0, most = r->prompt - 1;
    if (most > count) most = count;
    while (n < most && slot->ids.ids[n] == r->ids.ids[n])
        n++;
    return n;
}

// The slot whose cached ids share most with the request. *soon: what one shares once its prompt is
// read, if that is more.
static int best_source(const Scheduler *s, const Request *r, size_t *shared, size_t *soon) {
    int best = -1;
    *shared = *soon = 0;
    for (int i = 0; i < s->n; i++) {
        const Slot *slot = &s->slots[i];
        size_t now = common(slot, cached(s, i), r);
        size_t later = slot->request ? common(slot, slot->until, r) : now;
        // Of equals a free one, whose keys stay where they are.
        if (now > *shared || (now == *shared && best >= 0 && !slot->request)) {
            *shared = now;
            best = i;
        }
        if (later > *soon) *soon = later;
    }
    return best;
}

// Of the free slots the one that has cached least.
static int free_slot(const Scheduler *s) {
    int found = -1;
    for (int i = 0; i < s->n; i++)
        if (!s->slots[i].request && (found < 0 || cached(s, i) < cached(s, found))) found = i;
    return found;
}

// Gives the slot's sequence the keys and values that the prompt shares with another.
static void share(Scheduler *s, int to, int from, size_t count) {
    if (from >= 0 && from != to && count >= LEAST_SHARED) kv_cache_copy(cache_of(s), to, from);
    if (from != to && count < LEAST_SHARED) count = 0;
    s->counts.shared_tokens += (size_t)kv_cache_go_back(cache_of(s), to, (int)count);
}

// ---- texts begin ----

// `show`: whole characters of a text.
static void collect(void *context, const char *bytes, size_t length) {
    buffer_put(context, bytes, length);
}

// Of its text, as far as the context goes. The last token needs no place in the cache.
static int tokens_left(const Slot *slot) {
    int known = (int)(slot->request->prompt + slot->generation.ids.count);
    return slot->session.model->options.context + 1 - known;
}

static bool open_text(Slot *slot, Error *error) {
    Request *r = slot->request;
    Generation *g = &slot->generation;
    const Tokenizer *tokenizer = slot->session.tokenizer;
    *g = (Generation){
        .session = &slot->session,
        .max_new = (size_t)r->options.max_tokens,
        .stops = &r->options.stops,
        .ignore_eos = r->options.ignore_eos,
        .show = collect,
        .context = &slot->sample->text,
        .first = r->prompt == 1 && tokenizer && r->ids.ids[0] == tokenizer_bos(tokenizer),
    };
    uint64_t seed = r->options.seed = slot->sample->seed;
    g->sampler = open_sampler(&slot->session, &(SamplerWanted){0}, &seed, error);
    bool good = g->sampler && begin_text(g->sampler, r->ids.ids, r->prompt, g->first, error);
    if (good) generation_begin(g, r->prompt, tokens_left(slot));
    return good;
}

static bool open_score(Slot *slot, Error *error) {
    const Request *r = slot->request;
    size_t count = r->ids.count - r->prompt;
    slot->generation = (Generation){.logits_hash = FNV_START};
    slot->sample->greedy = true;
    slot->sample->logprobs = malloc(count * sizeof(double));
    return slot->sample->logprobs ||
           error_set(error, ERROR_MEMORY, "no memory for a continuation of %zu tokens", count);
}

static bool copy_ids(Slot *slot, Error *error) {
    const Request *r = slot->request;
    slot->ids.count = 0;
    for (size_t i = 0; i < r->ids.count; i++)
        if (!id_list_push(&slot->ids, r->ids.ids[i], error)) return false;
    slot->until = r->scores ? r->ids.count - 1 : r->prompt;
    return true;
}

// The text has ended: its results go to the request.
static bool end_text(Slot *slot, Error *error) {
    Generation *g = &slot->generation;
    Sample *sample = slot->sample;
    bool good = slot->request->scores || generation_show_rest(g, error);
    if (sample->text.failed) good = error_set(error, ERROR_MEMORY, "text: out of memory");
    sample->logits_hash = g->logits_hash;
    sample->stop = g->stop;
    sample->ids = g->ids;
    g->ids = (IdList){0};
    slot->request->ended++;
    close_text(slot);
    return good;
}

// Begins the next sample of a request in slot `at`.
static bool begin(Scheduler *s, Request *r, int at, int from, size_t shared, Error *error) {
    Slot *slot = &s->slots[at];
    Error cause = {0};
    share(s, at, from, shared);
    slot->request = r;
    slot->sample = &r->samples[r->begun++];
    slot->session = *s->session;
    slot->session.options = &r->options;
    slot->began = s->clock++;
    if (!copy_ids(slot, error)) return false;
    s->counts.prompt_tokens += r->prompt;
    bool good = r->scores ? open_score(slot, &cause) : open_text(slot, &cause);
    if (!good && !request_blame(r, slot->sample, &cause, error)) return false;
    if (good && (r->scores || slot->generation.max_new)) return true;
    return good ? end_text(slot, error) : (r->ended++, close_text(slot), true);
}

static void drop_first_waiting(Scheduler *s) {
    memmove(s->waiting, s->waiting + 1, --s->n_waiting * sizeof(Request *));
}

// Fills free slots, in the order of the requests.
static bool begin_waiting(Scheduler *s, Error *error) {
    while (s->n_waiting) {
        Request *r = s->waiting[0];
        size_t shared, soon;
        int at = free_slot(s), from = best_source(s, r, &shared, &soon);
        if (at < 0 || (soon > shared && soon >= LEAST_SHARED)) return true;
        if (from >= 0 && !s->slots[from].request) at = from;
        if (!begin(s, r, at, from, shared, error)) return false;
        if (r->begun == r->n_samples) drop_first_waiting(s);
    }
    return true;
}

// ---- a pass ----

static bool reads_prompt(const Scheduler *s, int i) {
    const Slot *slot = &s->slots[i];
    return slot->request && slot->until - cached(s, i) > 1;
}

// Adds rows of a slot to the pass: at most `most`, and only while there is room for their logits.
static int add_rows(Scheduler *s, int i, int most) {
    Slot *slot = &s->slots[i];
    int most_logits = s->session->model->options.max_logit_rows, n = 0;
    size_t at = slot->before = cached(s, i);
    slot->n_logits = 0;
    slot->first_logits = s->n_logit_rows;
    for (; n < most && at < slot->until; n++, at++) {
        bool wants = at + 1 >= slot->request->prompt;
        if (wants && s->n_logit_rows == most_logits) break;
        s->tokens[s->n_rows] = slot->ids.ids[at];
        s->sequences[s->n_rows] = i;
        s->wants_logits[s->n_rows++] = wants;
        s->n_logit_rows += wants;
        slot->n_logits += wants;
    }
    slot->n_rows = n;
    return n;
}

// Of the slots that read a prompt the one that began first and is behind `after`; -1: none.
static int next_reader(const Scheduler *s, uint64_t after, bool any) {
    int found = -1;
    for (int i = 0; i < s->n; i++) {
        bool behind = any || s->slots[i].began > after;
        if (behind && reads_prompt(s, i) &&
            (found < 0 || s->slots[i].began < s->slots[found].began))
            found = i;
    }
    return found;
}

// Single rows first: no text waits for the prompt of another.
static void plan_pass(Scheduler *s) {
    s->n_rows = s->n_logit_rows = 0;
    for (int i = 0; i < s->n; i++) {
        s->slots[i].n_rows = s->slots[i].n_logits = 0;
        if (s->slots[i].request && !reads_prompt(s, i)) add_rows(s, i, 1);
    }
    int left = PROMPT_ROWS;
    uint64_t after = 0;
    for (bool any = true; left; any = false) {
        int i = next_reader(s, after, any);
        if (i < 0) return;
        after = s->slots[i].began;
        left -= add_rows(s, i, left);
    }
}

// ---- what a row of logits says ----

static const float *logits_of(const Scheduler *s, int row) {
    return model_logits(s->session->model, row);
}

// The hashes of up to eight rows at a time, since one waits for a multiplication after every byte.
static void hash_rows(const Scheduler *s, Slot *const *slots, int n) {
    size_t bytes = (size_t)s->session->config->vocab_size * sizeof(float);
    uint64_t hashes[8];
    const uint8_t *rows[8];
    // Places that are left over hash the first row again.
    for (int i = 0; i < 8 && n; i++) {
        const Slot *slot = slots[i < n ? i : 0];
        hashes[i] = slot->generation.logits_hash;
        rows[i] = (const uint8_t *)logits_of(s, slot->first_logits);
    }
    for (size_t at = 0; at < bytes && n; at++)
        for (int i = 0; i < 8; i++)
            hashes[i] = fnv1a(hashes[i], rows[i] + at, 1);
    for (int i = 0; i < n; i++)
        slots[i]->generation.logits_hash = hashes[i];
}

// Every row that a token is sampled from, as generation.c has it.
static void hash_texts(const Scheduler *s) {
    Slot *slots[8];
    int n = 0;
    for (int i = 0; i < s->n; i++) {
        Slot *slot = &s->slots[i];
        if (!slot->n_logits || slot->request->scores || slot->ended) continue;
        slots[n++] = slot;
        if (n == 8) hash_rows(s, slots, n);
        n %= 8;
    }
    hash_rows(s, slots, n);
}

// The log-probabilities of a continuation's ids, one for each row.
static bool score(Scheduler *s, int at, Error *error) {
    Slot *slot = &s->slots[at];
    Sample *sample = slot->sample;
    Generation *g = &slot->generation;
    int vocab_size = s->session->config->vocab_size;
    size_t next = cached(s, at) + 1 - (size_t)slot->n_logits; // the token after the first row
    for (int i = 0; i < slot->n_logits; i++, next++) {
        const float *logits = logits_of(s, slot->first_logits + i);
        int32_t id = slot->ids.ids[next];
        double logprob = logits[id] - log_sum_exp(logits, vocab_size);
        g->logits_hash = fnv1a(g->logits_hash, logits, (size_t)vocab_size * sizeof *logits);
        sample->logprobs[next - slot->request->prompt] = logprob;
        sample->logprob += logprob;
        sample->greedy = sample->greedy && likeliest(logits, vocab_size) == id;
        s->counts.new_tokens++;
        if (!id_list_push(&g->ids, id, error)) return false;
    }
    return next < slot->ids.count || end_text(slot, error);
}

// The next token of a text.
static bool sample_text(Scheduler *s, Slot *slot, Error *error) {
    Generation *g = &slot->generation;
    const float *logits = logits_of(s, slot->first_logits);
    int id = sampler_next(g->sampler->sampler, logits, error);
    if (id < 0) return false;
    if (!sampler_check(g->sampler, id, error)) return session_grammar_prefix(s->session, error);
    size_t before = g->ids.count;
    bool ended = false;
    if (!generation_take(g, id, logits, &ended, error)) return false;
    s->counts.new_tokens += g->ids.count - before;
    if (g->ids.count > before)
        slot->sample->logprob += logits[id] - log_sum_exp(logits, s->session->config->vocab_size);
    slot->ended = ended || !generation_goes_on(g, tokens_left(slot));
    slot->until = slot->ids.count + !slot->ended;
    return slot->ended || id_list_push(&slot->ids, id, error);
}

// A text of a grammar ends where nothing more is allowed: before the row of logits counts.
static bool ask_grammars(Scheduler *s, Error *error) {
    for (int i = 0; i < s->n; i++) {
        Slot *slot = &s->slots[i];
        Error cause = {0};
        slot->ended = false;
        if (!slot->n_logits || slot->request->scores) continue;
        bool ended = false, good = sampler_prepare(slot->generation.sampler, &ended, &cause) ||
                                   session_grammar_prefix(s->session, &cause);
        if (!good && !request_blame(slot->request, slot->sample, &cause, error)) return false;
        if (ended) slot->generation.stop = STOP_GRAMMAR;
        slot->ended = ended || !good;
    }
    return true;
}

static bool take_logits(Scheduler *s, Error *error) {
    if (!ask_grammars(s, error)) return false;
    hash_texts(s);
    for (int i = 0; i < s->n; i++) {
        Slot *slot = &s->slots[i];
        Error cause = {0};
        if (!slot->n_logits) continue;
        if (slot->request->scores) {
            if (!score(s, i, error)) return false;
            continue;
        }
        if (!slot->ended && !sample_text(s, slot, &cause)) {
            if (!request_blame(slot->request, slot->sample, &cause, error)) return false;
            slot->ended = true;
        }
        if (interrupt_asked()) return error_set(error, ERROR_INTERRUPTED, "interrupted");
        if (slot->ended && !end_text(slot, error)) return false;
    }
    return true;
}

// ---- the interface ----

void scheduler_add(Scheduler *s, Request *request) {
    s->waiting[s->n_waiting++] = request;
}

bool scheduler_wants(const Scheduler *s) {
    return s->n_waiting < s->room && (!s->n_waiting || free_slot(s) >= 0);
}

bool scheduler_busy(const Scheduler *s) {
    for (int i = 0; i < s->n; i++)
        if (s->slots[i].request) return true;
    return s->n_waiting;
}

// The planned rows.
static bool run_pass(Scheduler *s, Error *error) {
    Batch batch = {.n = s->n_rows,
                   .tokens = s->tokens,
                   .sequences = s->sequences,
                   .wants_logits = s->wants_logits};
    s->counts.passes++;
    return session_forward(s->session, &batch, error) && take_logits(s, error);
}

// A number of the pass is not finite: each text's rows once more by themselves, whose bits are the
// same, so that only the line whose numbers they are has an error for an answer.
static bool run_each(Scheduler *s, Error *error) {
    for (int i = 0; i < s->n; i++) {
        s->slots[i].n_logits = 0;
        if (s->slots[i].n_rows) kv_cache_go_back(cache_of(s), i, (int)s->slots[i].before);
    }
    for (int i = 0; i < s->n; i++) {
        Slot *slot = &s->slots[i];
        Error cause = {0};
        if (!slot->n_rows) continue;
        s->n_rows = s->n_logit_rows = 0;
        add_rows(s, i, slot->n_rows);
        bool good = run_pass(s, &cause);
        slot->n_logits = 0; // they are taken
        if (good) continue;
        if (!slot->request || !request_blame(slot->request, slot->sample, &cause, error))
            return error_copy(error, &cause);
        kv_cache_go_back(cache_of(s), i, (int)slot->before);
        if (!end_text(slot, error)) return false;
    }
    return true;
}

bool scheduler_step(Scheduler *s, Error *error) {
    Error cause = {0};
    if (!begin_waiting(s, error)) return false;
    plan_pass(s);
    if (!s->n_rows || run_pass(s, &cause)) return true;
    if (cause.code != ERROR_NONFINITE) return error_copy(error, &cause);
    return run_each(s, error);
}

SchedulerCounts scheduler_counts(const Scheduler *s) {
    return s->counts;
}
