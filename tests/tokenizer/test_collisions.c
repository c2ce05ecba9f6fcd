// Vocabularies and merges whose entries collide under a hash without a key load like others. Here
// are hashes of the usual kind, multiply and shift, and entries made for them: with 20,000 entries
// in one bucket, a table takes 2 * 10^8 steps.
#include "tests/support/tokenizers.h"
#include "tests/test.h"

#include <time.h>

static const uint64_t GOLDEN = 0x9e3779b97f4a7c15u;

static double cpu_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// The fastest of three loads.
static double load_seconds(const Vocabulary *v) {
    double best = INFINITY;
    for (int i = 0; i < 3; i++) {
        double started = cpu_seconds();
        tokenizer_close(test_open_vocabulary(v));
        best = fmin(best, cpu_seconds() - started);
    }
    return best;
}

static void check_same_time(const Vocabulary *random, const Vocabulary *colliding) {
    double usual = load_seconds(random), seconds = load_seconds(colliding);
    CHECK(seconds < 6 * usual + 0.005, "%g s, and %g s with random entries", seconds, usual);
}

// ---- tokens ----

enum { TOKENS = 20000, LENGTH = 16 };

typedef struct Spellings {
    char text[TOKENS][LENGTH];
    TextSpan spans[TOKENS];
    float scores[TOKENS];
} Spellings;

static uint64_t mix(uint64_t h, uint64_t word) {
    h = (h ^ word) * 0xff51afd7ed558ccdu;
    return h ^ h >> 32;
}

// Eight bytes at a time, as in MurmurHash.
static uint64_t unkeyed_hash(const char *text) {
    uint64_t words[2];
    memcpy(words, text, sizeof words);
    uint64_t h = mix(mix(GOLDEN ^ LENGTH, words[0]), words[1]) * 0xc4ceb9fe1a85ec53u;
    return h ^ h >> 29;
}

// The second word undoes what the first one did.
static void spell(Spellings *s, bool colliding) {
    TestRandom random = {11};
    for (size_t i = 0; i < TOKENS; i++) {
        uint64_t words[2] = {test_random(&random), test_random(&random)};
        if (colliding) words[1] = mix(GOLDEN ^ LENGTH, words[0]) ^ 1;
        memcpy(s->text[i], words, LENGTH);
        s->spans[i] = (TextSpan){s->text[i], LENGTH};
        CHECK(!colliding || unkeyed_hash(s->text[i]) == unkeyed_hash(s->text[0]));
    }
}

static Vocabulary vocabulary_of(const Spellings *s) {
    Vocabulary v = VOCABULARY_ABSENT;
    v.model = "llama";
    v.n_tokens = TOKENS;
    v.tokens = s->spans;
    v.scores = s->scores;
    return v;
}

Test(collisions, tokens_that_collide_without_a_key_load_like_others) {
    Spellings *random = calloc(1, sizeof *random), *colliding = calloc(1, sizeof *colliding);
    spell(random, false);
    spell(colliding, true);
    Vocabulary usual = vocabulary_of(random), hostile = vocabulary_of(colliding);
    check_same_time(&usual, &hostile);
    Tokenizer *t = test_open_vocabulary(&hostile);
    for (int i = 0; i < TOKENS; i += 97) {
        TextSpan s = tokenizer_spelling(t, i);
        CHECK(s.length == LENGTH && !memcmp(s.text, colliding->text[i], LENGTH));
    }
    tokenizer_close(t);
    free(random);
    free(colliding);
}

// ---- merges ----

// Words of three letters, and of six: every merge joins two of three.
enum { WORDS = 26 * 26 * 26 / 2, MERGES = 40000, BUCKETS = 1 << 17, HOMES = BUCKETS / 1024 };

typedef struct Merges {
    char words[WORDS][3], wholes[MERGES][6], lines[MERGES][7];
    TextSpan tokens[26 + WORDS + MERGES], spans[MERGES];
    size_t n_tokens, n_merges;
} Merges;

static size_t unkeyed_bucket(uint64_t left, uint64_t right) {
    uint64_t h = (left << 32 | right) * GOLDEN;
    return (h ^ h >> 29) & (BUCKETS - 1);
}

static void add_merge(Merges *m, const char *left, const char *right) {
    size_t i = m->n_merges++;
    memcpy(m->wholes[i], left, 3);
    memcpy(m->wholes[i] + 3, right, 3);
    memcpy(m->lines[i], left, 3);
    m->lines[i][3] = ' ';
    memcpy(m->lines[i] + 4, right, 3);
    m->spans[i] = (TextSpan){m->lines[i], 7};
    m->tokens[m->n_tokens++] = (TextSpan){m->wholes[i], 6};
}

// Ids of the words follow those of the letters.
static void make_merges(Merges *m, bool colliding) {
    static const char LETTERS[] = "abcdefghijklmnopqrstuvwxyz";
    for (size_t i = 0; i < 26; i++)
        m->tokens[m->n_tokens++] = (TextSpan){LETTERS + i, 1};
    for (size_t i = 0; i < WORDS; i++) {
        m->words[i][0] = LETTERS[i % 26];
        m->words[i][1] = LETTERS[i / 26 % 26];
        m->words[i][2] = LETTERS[i / 676];
        m->tokens[m->n_tokens++] = (TextSpan){m->words[i], 3};
    }
    for (size_t left = 0; left < WORDS && m->n_merges < MERGES; left++)
        for (size_t right = 0; right < WORDS && m->n_merges < MERGES; right++) {
            bool fits = colliding ? unkeyed_bucket(26 + left, 26 + right) < HOMES
                                  : (left + right) % 1024 == 0;
            if (fits) add_merge(m, m->words[left], m->words[right]);
        }
    CHECK_INT(m->n_merges, MERGES);
}

static Vocabulary bpe_of(const Merges *m) {
    Vocabulary v = VOCABULARY_ABSENT;
    v.model = "gpt2";
    v.pre = "gpt2";
    v.n_tokens = m->n_tokens;
    v.tokens = m->tokens;
    v.n_merges = m->n_merges;
    v.merges = m->spans;
    return v;
}

Test(collisions, merges_that_collide_without_a_key_load_like_others) {
    Merges *random = calloc(1, sizeof *random), *colliding = calloc(1, sizeof *colliding);
    make_merges(random, false);
    make_merges(colliding, true);
    Vocabulary usual = bpe_of(random), hostile = bpe_of(colliding);
    check_same_time(&usual, &hostile);
    free(random);
    free(colliding);
}
