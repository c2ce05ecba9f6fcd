// Speculation changes no token, no logit and no state, whoever drafts and however badly; and the
// lookup finds what a search through the whole text finds.
#include "base/hash.h"
#include "model/decoder.h"
#include "model/speculation/drafts.h"
#include "tests/support/files/tiny_model.h"
#include "tests/test.h"

#include <math.h>
#include <string.h>

enum { CONTEXT = 96, LONGEST_PROMPT = 40 };

// ---- the lookup ----

static int matching(const int32_t *text, int a, int b) {
    int length = 0;
    while (length < LOOKUP_LONGEST && length <= a && text[a - length] == text[b - length])
        length++;
    return length;
}

// Every place of the last token, newest first.
static int find_slowly(const int32_t *text, int count, int *next) {
    int longest = 0, seen = 0;
    for (int i = count - 2; i >= 0; i--) {
        if (text[i] != text[count - 1] || seen++ >= LOOKUP_PLACES) continue;
        int length = matching(text, i, count - 1);
        if (length > longest) longest = length, *next = i + 1;
    }
    return longest;
}

static void check_found(const Lookup *l) {
    int next = -1, wanted = -1;
    int length = lookup_find(l, &next), length_wanted = find_slowly(l->text, l->count, &wanted);
    CHECK(length == length_wanted, "length %d, not %d, of %d", length, length_wanted, l->count);
    CHECK(next == wanted, "next %d, not %d", next, wanted);
}

// Texts of few tokens, which repeat themselves, cut back now and then.
Test(lookup, finds_what_a_search_of_the_whole_text_finds) {
    uint64_t state = 1;
    for (int round = 0; round < 200; round++) {
        Lookup l;
        Error error = {0};
        int vocab_size = 1 + (int)(splitmix64(&state) % 12);
        int capacity = round < 4 ? 2000 : 150;
        CHECK(lookup_init(&l, vocab_size, capacity, &error), "%s", error.message);
        for (int i = 0; i < 2 * capacity; i++) {
            if (l.count == capacity || splitmix64(&state) % 40 == 0)
                lookup_truncate(&l, (int)(splitmix64(&state) % (uint64_t)(l.count + !l.count)));
            lookup_push(&l, (int32_t)(splitmix64(&state) % (uint64_t)vocab_size));
            if (round >= 4 || i % 50 == 0) check_found(&l);
        }
        lookup_free(&l);
    }
}

Test(lookup, the_longest_match_wins_and_of_these_the_newest) {
    static const int32_t TEXT[] = {1, 2, 7, 2, 8, 1, 2, 9, 1, 2};
    Lookup l;
    Error error = {0};
    int next = -1, out[8];
    CHECK(lookup_init(&l, 10, 20, &error), "%s", error.message);
    CHECK_INT(lookup_find(&l, &next), 0);
    for (int i = 0; i < 10; i++)
        lookup_push(&l, TEXT[i]);
    CHECK_INT(lookup_find(&l, &next), 2); // 1 2 at 0 and at 5, not the 2 at 3
    CHECK_INT(next, 7);
    static const int32_t FOLLOWS[] = {9, 1, 2, 9, 1, 2, 9, 1}; // the last five in a circle
    lookup_copy(&l, next, out, 8);
    CHECK(!memcmp(out, FOLLOWS, sizeof FOLLOWS));
    lookup_truncate(&l, 7); // 1 2 7 2 8 1 2
    CHECK_INT(lookup_find(&l, &next), 2);
    CHECK_INT(next, 2);
    lookup_free(&l);
}

// ---- a run with and without ----

typedef enum Drafter { NOBODY, LOOKUP, SELF, OTHER } Drafter;

typedef struct Case {
    TinyShape shape;
    Precision precision;
    SamplerOptions sampler;
    Drafter drafter;
    int fixed, prompt, most; // most: tokens asked for
    int early;               // that are not taken
    bool goes_back;          // then as far as it can
    bool wants_logits;
    uint64_t seed; // of the prompt
} Case;

typedef struct Result {
    int32_t ids[CONTEXT + 1];
    int count, cache, lowest; // the least length that the cache can be cut to
    int back;                 // tokens that it went back
    uint64_t hash;
    float uniform;
    SpeculationCounts counts;
} Result;

// A tiny model of that shape, and what has to be closed.
typedef struct Opened {
    TinyModel *tiny;
    Model *model;
} Opened;

static Opened open_model(const TinyShape *shape, Precision precision) {
    Opened o = {.tiny = tiny_model_open(shape)};
    o.model = tiny_model_run(o.tiny, (ModelOptions){.context = CONTEXT,
                                                    .precision = precision,
                                                    .max_rows = 24,
                                                    .max_logit_rows = SPECULATION_MAX + 1});
    return o;
}

static void close_model(Opened *o) {
    model_close(o->model);
    tiny_model_close(o->tiny);
}

static Opened open_drafter(const Case *c) {
    TinyShape shape = c->shape;
    if (c->drafter == OTHER) shape.seed += 77, shape.n_layers = 1, shape.window = 0;
    return open_model(&shape, c->precision);
}

// Prompts that repeat themselves, of few tokens.
static int make_prompt(const Case *c, int32_t ids[LONGEST_PROMPT]) {
    uint64_t state = c->seed;
    int period = 2 + (int)(splitmix64(&state) % 9);
    for (int i = 0; i < c->prompt; i++)
        ids[i] = i >= period && splitmix64(&state) % 8
                     ? ids[i - period]
                     : (int32_t)(splitmix64(&state) % (uint64_t)c->shape.vocab_size);
    return c->prompt;
}

// All but the last `early` of the tokens asked for: drafts go further than the text, then.
static void sample_all(Result *r, Decoder *d, Sampler *sampler, Model *model, const Case *c) {
    Error error = {0};
    size_t bytes = (size_t)model->config.vocab_size * sizeof(float);
    r->hash = FNV_START;
    for (r->count = 0; decoder_left(d) > c->early; r->count++) {
        int32_t id = decoder_next(d, &error);
        CHECK(id >= 0, "token %d: %s", r->count, error.message);
        if (d->options.wants_logits) r->hash = fnv1a(r->hash, decoder_logits(d), bytes);
        sampler_accept(sampler, id);
        r->ids[r->count] = id;
    }
    if (c->goes_back) // where rows of guesses are still in the cache
        for (r->back = r->count - 1;
             r->back > 0 && !decoder_rewind(d, r->back, r->ids[r->count - r->back - 1]);)
            r->back--;
    decoder_end(d);
}

static void run(Result *r, const Case *c, Drafter drafter) {
    Error error = {0};
    int32_t ids[LONGEST_PROMPT];
    int n = make_prompt(c, ids);
    Opened o = open_model(&c->shape, c->precision), draft = {0};
    if (drafter >= SELF) draft = open_drafter(c);
    SpeculationOptions options = {.vocab_size = c->shape.vocab_size,
                                  .context = CONTEXT,
                                  .draft = draft.model,
                                  .fixed = c->fixed};
    Speculation *s = drafter == NOBODY ? NULL : speculation_open(&options, &error);
    Sampler *sampler =
        sampler_open(o.model->device, c->shape.vocab_size, CONTEXT + 1, &c->sampler, &error);
    CHECK(sampler && (s || drafter == NOBODY), "%s", error.message);
    for (int i = 0; i < n; i++)
        sampler_accept(sampler, ids[i]);
    if (s) speculation_text(s, 0, ids, n);
    tiny_model_forward(o.model, &(Batch){.n = n, .tokens = ids});
    Decoder d;
    CHECK(decoder_begin(&d, o.model,
                        &(DecoderOptions){.sampler = sampler,
                                          .max_tokens = (size_t)c->most,
                                          .wants_logits = c->wants_logits,
                                          .speculation = s},
                        &error),
          "%s", error.message);
    memset(r, 0, sizeof *r);
    sample_all(r, &d, sampler, o.model, c);
    r->cache = kv_cache_length(&o.model->cache, 0);
    r->lowest = o.model->cache.lowest[0];
    r->uniform = sampler_uniform(sampler);
    if (s) r->counts = speculation_counts(s);
    speculation_close(s);
    sampler_close(sampler);
    close_model(&o);
    close_model(&draft);
}

static SpeculationCounts check_same(const Case *c) {
    static Result without, with;
    run(&without, c, NOBODY);
    run(&with, c, c->drafter);
    CHECK_INT(with.count, without.count);
    for (int i = 0; i < with.count; i++)
        CHECK(with.ids[i] == without.ids[i], "drafter %d, prompt %d: token %d of %d is %d, not %d",
              (int)c->drafter, (int)c->seed, i, with.count, with.ids[i], without.ids[i]);
    CHECK(with.hash == without.hash, "drafter %d, prompt %d: the logits", (int)c->drafter,
          (int)c->seed);
    CHECK_INT(with.cache, without.cache);
    CHECK_INT(with.lowest, without.lowest);
    CHECK_INT(with.back, without.back);
    CHECK(with.uniform == without.uniform, "the generator");
    return with.counts;
}

static SamplerOptions sampling(int kind) {
    SamplerOptions o = sampler_defaults();
    o.seed = 5 + (uint64_t)kind;
    o.rule.temperature = kind == 0 ? 0.0f : kind == 1 ? 1.0f : 0.3f;
    if (kind == 2) o.rule.top_p = 0.9f, o.rule.top_k = 20;
    if (kind == 3) o.repeat_penalty = 1.2f, o.presence_penalty = 0.3f, o.repeat_last = 12;
    if (kind == 4) o.mirostat_tau = 3.0f;
    if (kind == 5) o.dry.multiplier = 0.8f, o.rule.xtc = 0.05f, o.xtc_probability = 0.5f;
    return o;
}
enum { SAMPLINGS = 6 };

static Case case_of(int i) {
    Case c = {.shape = tiny_shape(), .drafter = LOOKUP + i % 3, .most = 60};
    c.shape.n_layers = 2;
    c.shape.window = i % 4 == 1 ? 8 : 0;
    c.shape.post_norms = i % 5 == 2;
    c.shape.qk_norm = i % 7 == 3 ? QK_NORM_PER_HEAD : QK_NORM_NONE;
    c.precision = (Precision)(i / 3 % 3);
    c.sampler = sampling(i % SAMPLINGS);
    c.fixed = 1 + i % SPECULATION_MAX;
    c.prompt = 1 + i * 7 % LONGEST_PROMPT;
    c.wants_logits = i % 2 == 0;
    c.early = i % 3 ? 0 : 9;
    c.goes_back = i % 5 == 1 || i % 5 == 4;
    c.seed = (uint64_t)i;
    return c;
}

Test(speculation, changes_nothing_over_hundreds_of_prompts) {
    SpeculationCounts all = {0};
    for (int i = 0; i < EMULATED(6, SANITIZED(120, 360)); i++) {
        Case c = case_of(i);
        SpeculationCounts counts = check_same(&c);
        all.drafted += counts.drafted;
        all.accepted += counts.accepted;
    }
    if (EMULATED(1, 0)) return; // that device is not batch-invariant
    CHECK(all.accepted > 500 && all.drafted - all.accepted > SANITIZED(150, 500), "%d of %d",
          (int)all.accepted, (int)all.drafted);
}

Test(speculation, changes_nothing_where_the_context_ends) {
    for (int i = 0; i < EMULATED(3, SANITIZED(15, 45)); i++) {
        Case c = case_of(i);
        c.most = 1000;
        check_same(&c);
        c.most = 1 + i % 5;
        c.early = 0;
        check_same(&c);
    }
}

// Measured, the drafts are others in each run; the text is not.
Test(speculation, changes_nothing_where_it_is_measured) {
    for (int i = 0; i < EMULATED(3, SANITIZED(20, 60)); i++) {
        Case c = case_of(i);
        c.fixed = 0;
        check_same(&c);
    }
}

// Greedy and sampled: the draft takes the same numbers of the generator.
Test(speculation, all_drafts_of_the_model_itself_are_accepted) {
    if (EMULATED(1, 0)) SKIP("that device is not batch-invariant");
    SpeculationCounts others = {0};
    for (int i = 0; i < 12; i++) {
        Case c = case_of(i);
        c.drafter = SELF;
        c.early = 0;
        c.shape.untied = true; // else each token is followed by itself
        c.sampler = sampling(i % 3);
        SpeculationCounts counts = check_same(&c);
        CHECK(counts.drafted > 20, "%d", (int)counts.drafted);
        CHECK(counts.accepted == counts.drafted, "%d of %d", (int)counts.accepted,
              (int)counts.drafted);
        c.drafter = OTHER;
        counts = check_same(&c);
        others.drafted += counts.drafted;
        others.accepted += counts.accepted;
    }
    CHECK(5 * others.accepted < others.drafted, "another: %d of %d", (int)others.accepted,
          (int)others.drafted);
}

// ---- what can go wrong ----

// The embedding of one token is NaN: a draft that the text does not take must not end it.
Test(speculation, a_draft_without_finite_logits_ends_nothing) {
    enum { BAD = 9 };
    int32_t ids[] = {1, 2, BAD, 3, 4, 1, 2};
    Error error = {0};
    TinyShape shape = tiny_shape();
    shape.dtype = DTYPE_F32;
    shape.untied = true;
    int32_t wanted[12];
    for (int with = 0; with < 2; with++) {
        TinyModel *tiny = tiny_model_open(&shape);
        Model *m = tiny_model_run(tiny, (ModelOptions){.context = CONTEXT, .max_logit_rows = 16});
        tiny_model_forward(m, &(Batch){.n = 2, .tokens = ids});
        // From here on the model has that embedding.
        float *row = (float *)(uintptr_t)tiny->weights.token_embedding.data + BAD * shape.dim;
        for (int i = 0; i < shape.dim; i++)
            row[i] = NAN;
        Model *bad = tiny_model_run(tiny, (ModelOptions){.context = CONTEXT, .max_logit_rows = 16});
        tiny_model_forward(bad, &(Batch){.n = 2, .tokens = ids});
        SpeculationOptions options = {
            .vocab_size = shape.vocab_size, .context = CONTEXT, .fixed = 4};
        Speculation *s = with ? speculation_open(&options, &error) : NULL;
        if (s) speculation_text(s, 0, ids, 7);
        Decoder d;
        CHECK(
            decoder_begin(&d, bad, &(DecoderOptions){.max_tokens = 12, .speculation = s}, &error));
        for (int i = 0; i < 12; i++) {
            // Behind the first token its text stands again, with BAD as a draft.
            if (s && !i) speculation_text(s, 0, ids, 7);
            int32_t id = decoder_next(&d, &error);
            CHECK(id >= 0, "token %d: %s", i, error.message);
            if (s && !i) {
                int32_t again[] = {id, BAD, 5, id};
                speculation_text(s, 0, again, 4);
            }
            if (!with) wanted[i] = id;
            CHECK(id == wanted[i], "token %d", i);
        }
        CHECK(!s || !d.options.speculation, "it met no bad draft");
        decoder_end(&d);
        speculation_close(s);
        model_close(m);
        model_close(bad);
        tiny_model_close(tiny);
    }
}

Test(speculation, a_draft_of_a_shorter_context_stops_there) {
    Error error = {0};
    Case c = case_of(0);
    TinyModel *tiny = tiny_model_open(&c.shape);
    Model *draft = tiny_model_run(tiny, (ModelOptions){.context = 10});
    SpeculationOptions options = {
        .vocab_size = c.shape.vocab_size, .context = CONTEXT, .draft = draft, .fixed = 8};
    Speculation *s = speculation_open(&options, &error);
    int32_t ids[20] = {1, 2, 3}, out[SPECULATION_MAX];
    CHECK(s, "%s", error.message);
    for (int count = 1; count <= 20; count++) {
        speculation_text(s, 0, ids, count);
        int room = 10 - count + 1, wanted = room < 0 ? 0 : room < 8 ? room : 8;
        CHECK_INT(speculation_propose(s, NULL, out, SPECULATION_MAX), wanted);
    }
    speculation_close(s);
    model_close(draft);
    tiny_model_close(tiny);
}

// A text given again after a cut, as a conversation is; more than it holds is a new text.
Test(speculation, a_text_is_cut_and_goes_on) {
    Error error = {0};
    SpeculationOptions options = {.vocab_size = 10, .context = 20, .fixed = 3};
    static const int32_t TEXT[] = {1, 2, 3, 4, 1, 2};
    Speculation *s = speculation_open(&options, &error);
    int32_t out[SPECULATION_MAX];
    CHECK(s, "%s", error.message);
    speculation_text(s, 0, TEXT, 6);
    CHECK_INT(speculation_propose(s, NULL, out, 15), 3);
    CHECK(out[0] == 3 && out[1] == 4 && out[2] == 1);
    CHECK_INT(speculation_propose(s, NULL, out, 2), 2);
    CHECK_INT(speculation_propose(s, NULL, out, 0), 0);
    speculation_text(s, 3, TEXT, 1); // 1 2 3 1
    CHECK_INT(speculation_length(s), 4);
    CHECK_INT(speculation_propose(s, NULL, out, 1), 1);
    CHECK_INT(out[0], 2);
    speculation_text(s, 5, TEXT + 1, 2); // it has 4
    CHECK_INT(speculation_length(s), 2);
    CHECK_INT(speculation_propose(s, NULL, out, 15), 0);
    for (int i = 0; i < 40; i++)
        speculation_take(s, 3); // beyond the context, where nothing is kept
    CHECK_INT(speculation_length(s), 21);
    speculation_close(s);
}

// ---- the rule ----

static Speculation *measured(double single, int rows, double seconds) {
    Error error = {0};
    SpeculationOptions options = {.vocab_size = 10, .context = 4000};
    static const int32_t TEXT[] = {1, 2, 3, 4, 1};
    Speculation *s = speculation_open(&options, &error);
    CHECK(s, "%s", error.message);
    speculation_text(s, 0, TEXT, 5);
    speculation_measure(s, 1, single);
    speculation_measure(s, rows, seconds);
    return s;
}

// How many of `count` proposals were drafted, in a text that is or is not as the lookup expects.
static int drafted(Speculation *s, int count, bool repeats) {
    int passes = 0;
    uint64_t state = (uint64_t)speculation_length(s); // another text each time
    for (int i = 0; i < count; i++) {
        int32_t out[SPECULATION_MAX];
        passes += speculation_propose(s, NULL, out, SPECULATION_MAX) > 0;
        int32_t other = (int32_t)(splitmix64(&state) % 10);
        speculation_take(s, repeats ? 1 + (speculation_length(s)) % 4 : other);
    }
    return passes;
}

Test(speculation, is_off_where_rows_cost_what_they_bring) {
    Speculation *s = measured(1.0, 5, 5.0); // a row more takes as long as a pass
    int passes = drafted(s, 2000, true);
    CHECK(passes <= 10, "%d", passes); // trials
    speculation_close(s);
    s = measured(1.0, 5, 1.4);
    passes = drafted(s, 2000, true);
    CHECK(passes > 1900, "%d", passes);
    speculation_close(s);
}

Test(speculation, is_off_where_drafts_are_wrong_and_on_again_where_they_are_right) {
    Speculation *s = measured(1.0, 5, 1.8);
    drafted(s, 300, false);
    int passes = drafted(s, 1000, false);
    CHECK(passes < 60, "%d", passes);
    drafted(s, 200, true);
    passes = drafted(s, 400, true);
    CHECK(passes > 380, "%d", passes);
    speculation_close(s);
}

// Before any draft was verified.
Test(speculation, a_short_match_has_to_prove_itself_and_a_long_one_is_tried) {
    static const int32_t SHORT[] = {1, 2, 3, 1}, LONG[] = {1, 2, 3, 4, 5, 6, 7, 1, 2, 3, 4, 5, 6};
    int32_t out[SPECULATION_MAX];
    Speculation *s = measured(1.0, 5, 2.2); // 0.3 for each row more
    speculation_text(s, 0, SHORT, 4);
    CHECK_INT(speculation_propose(s, NULL, out, SPECULATION_MAX), 0);
    speculation_text(s, 0, LONG, 13);
    CHECK(speculation_propose(s, NULL, out, SPECULATION_MAX) > 0);
    CHECK_INT(out[0], 7);
    speculation_close(s);
}
