// The sampler that the options ask for: --logit-bias as numbers, and for every other option the
// field of limpid_sampling.
//
//   "ID:BIAS,ID:BIAS"   ID an integer, BIAS a number with or without sign, or -inf. llama.cpp's
//                       spelling without a colon is read too: 15043+1, 15043-inf
#include "commands/shared/generation.h"
#include "commands/shared/output.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

enum { MOST_BIASES = 4096 };

// ---- logit bias ----

// One entry, which ends at `length`.
static bool parse_bias(limpid_bias *out, const char *text, size_t length) {
    char item[64];
    int64_t id = 0;
    double bias = -INFINITY;
    if (length >= sizeof item) return false;
    memcpy(item, text, length);
    item[length] = '\0';
    size_t digits = strspn(item, "0123456789");
    const char *number = item + digits + (item[digits] == ':');
    if (number == item + digits && *number != '+' && *number != '-') return false;
    if (strcmp(number, "-inf") != 0 &&
        (!parse_number(&bias, number) || !(fabs(bias) <= 1e6))) // the sampler's own range
        return false;
    item[digits] = '\0';
    if (!parse_integer(&id, item) || id > INT32_MAX) return false;
    *out = (limpid_bias){(int32_t)id, (float)bias};
    return true;
}

// All entries of all texts, into `out` where it is not NULL. How many there are; 0 with exit code 2
// where one is malformed.
static size_t parse_biases(limpid_bias *out, const TextList *texts, Error *error) {
    size_t count = 0;
    for (int i = 0; i < texts->count; i++) {
        const char *text = texts->texts[i];
        for (size_t length = 0;; text += length + 1) {
            limpid_bias bias;
            length = strcspn(text, ",");
            if (!parse_bias(&bias, text, length)) {
                error_set(error, ERROR_USAGE,
                          "--logit-bias: got \"%.*s\", wanted ID:BIAS, such as 5:+1.5, with a bias "
                          "-1e6 .. 1e6 or -inf",
                          length < 60 ? (int)length : 60, text);
                return 0;
            }
            if (out) out[count] = bias;
            count++;
            if (!text[length]) break;
        }
    }
    return count;
}

bool sampling_check(const Options *o, Error *error) {
    if (!o->logit_biases.count) return true;
    size_t count = parse_biases(NULL, &o->logit_biases, error);
    if (count <= MOST_BIASES) return count;
    return error_set(error, ERROR_USAGE, "--logit-bias: wanted at most %d entries, got %zu",
                     MOST_BIASES, count);
}

// What is only for another option.
static void note_dependent(const Options *o) {
    const struct {
        OptionId id;
        bool is_on;
        const char *of;
    } DEPENDENT[] = {{OPTION_XTC_THRESHOLD, o->xtc_probability > 0, "--xtc-probability"},
                     {OPTION_DRY_BASE, o->dry_multiplier > 0, "--dry-multiplier"},
                     {OPTION_DRY_ALLOWED_LENGTH, o->dry_multiplier > 0, "--dry-multiplier"},
                     {OPTION_DRY_LAST, o->dry_multiplier > 0, "--dry-multiplier"},
                     {OPTION_DRY_BREAKERS, o->dry_multiplier > 0, "--dry-multiplier"},
                     {OPTION_MIROSTAT_LR, o->mirostat, "--mirostat 2"},
                     {OPTION_MIROSTAT_ENT, o->mirostat, "--mirostat 2"}};
    for (size_t i = 0; i < sizeof DEPENDENT / sizeof *DEPENDENT; i++) {
        const char *name = options_first_given(o, &DEPENDENT[i].id, 1);
        if (name && !DEPENDENT[i].is_on)
            note("--%s has no effect: it is for %s", name, DEPENDENT[i].of);
    }
}

// A text is taken as it is, where llama.cpp reads escapes.
static void note_escapes(const char *option, const TextList *texts) {
    for (int i = 0; i < texts->count; i++) {
        const char *at = texts->texts[i];
        while ((at = strchr(at, '\\')) && !(at[1] && strchr("nrt", at[1])))
            at++;
        if (at)
            note("%s %s: \\ and %c are two characters here; a shell writes the one as $'\\%c'",
                 option, texts->texts[i], at[1], at[1]);
    }
}

// What does something to the likeliest token in llama.cpp, or means another thing there. A line of
// --prompts may have a temperature of its own.
static void note_differences(const Options *o) {
    const char *name = o->xtc_probability > 0 ? "xtc-probability"
                       : o->typical_p < 1     ? "typical-p"
                       : o->mirostat          ? "mirostat"
                                              : NULL;
    if (name && option_given(o, OPTION_TEMPERATURE) && o->temperature == 0 && !o->prompts)
        note("--%s has no effect at temperature 0, which takes the likeliest token", name);
    bool penalised =
        o->repeat_penalty != 1 || o->presence_penalty != 0 || o->frequency_penalty != 0;
    if (option_given(o, OPTION_REPEAT_LAST) && o->repeat_last == 0 && penalised)
        note("--repeat-last-n 0 is the whole context, not off: without the penalties it is off");
    if (o->dry_multiplier > 0) note_escapes("--dry-sequence-breaker", &o->dry_breakers);
    note_escapes("--stop", &o->stops);
}

void sampling_note(const Options *o) {
    static const OptionId CUTS[] = {OPTION_TOP_K, OPTION_TOP_P, OPTION_MIN_P, OPTION_TYPICAL_P,
                                    OPTION_XTC_PROBABILITY};
    bool cuts = false;
    for (size_t i = 0; i < sizeof CUTS / sizeof *CUTS; i++)
        cuts = cuts || option_given(o, CUTS[i]);
    if (!o->quiet) note_dependent(o);
    if (!o->quiet) note_differences(o);
    if (o->mirostat && cuts && !o->quiet)
        note("--mirostat 2 takes the place of --top-k, --top-p, --min-p, --typical-p and --xtc-*");
}

bool sampling_biases(limpid_bias **biases, size_t *count, const Options *o, Error *error) {
    if (!sampling_check(o, error)) return false;
    *count = o->logit_biases.count ? parse_biases(NULL, &o->logit_biases, error) : 0;
    *biases = malloc(*count * sizeof **biases + 1);
    if (!*biases) return error_set(error, ERROR_MEMORY, "no memory for %zu biases", *count);
    if (*count) parse_biases(*biases, &o->logit_biases, error);
    return true;
}

// The sampler checks them too, but knows no names of options.
static bool check_bias_tokens(const limpid_bias *biases, size_t count, int vocab_size,
                              Error *error) {
    for (size_t i = 0; i < count; i++)
        if (biases[i].id >= vocab_size)
            return error_set(error, ERROR_USAGE, "--logit-bias: wanted a token 0 to %d, got %d",
                             vocab_size - 1, (int)biases[i].id);
    return true;
}

bool sampling_check_tokens(const Options *o, int vocab_size, Error *error) {
    limpid_bias *biases = NULL;
    size_t count = 0;
    bool good = sampling_biases(&biases, &count, o, error) &&
                check_bias_tokens(biases, count, vocab_size, error);
    free(biases);
    return good;
}

// ---- the sampler ----

// From the kernel; the time of day where it has no random numbers yet. Of six digits: it is printed
// to be typed again, in a line that fits a window.
static uint64_t random_seed(void) {
    uint32_t seed = 0;
    if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) != (ssize_t)sizeof seed)
        seed = (uint32_t)time(NULL);
    return seed % 1000000;
}

// The option where it is given, else the default where there is one (>= 0), else the option's own
// default.
static float choose(const Options *o, OptionId id, double option, float default_value) {
    return !option_given(o, id) && default_value >= 0 ? default_value : (float)option;
}

// In limpid_sampling a share of 0 is off; here it keeps the first token alone, as the least number
// does.
static float share(float value) {
    return value == 0.0f ? FLT_MIN : value;
}

// Option by option: the command line, else the model's own default, else the table of options.
static void choose_cuts(limpid_sampling *out, const Options *o, const GenerationDefaults *defaults,
                        int vocab_size) {
    float top_k = choose(o, OPTION_TOP_K, (double)o->top_k, defaults->top_k);
    out->temperature = choose(o, OPTION_TEMPERATURE, o->temperature, defaults->temperature);
    out->top_k = top_k < (float)vocab_size ? (int)top_k : vocab_size;
    out->top_p = share(choose(o, OPTION_TOP_P, o->top_p, defaults->top_p));
    out->min_p = choose(o, OPTION_MIN_P, o->min_p, defaults->min_p);
    out->typical_p = share((float)o->typical_p);
    out->repeat_penalty =
        choose(o, OPTION_REPEAT_PENALTY, o->repeat_penalty, defaults->repetition_penalty);
}

static limpid_sampling sampling_of(const Options *o) {
    bool none = o->dry_breakers.count == 1 && !strcmp(o->dry_breakers.texts[0], "none");
    return (limpid_sampling){
        .presence_penalty = (float)o->presence_penalty,
        .frequency_penalty = (float)o->frequency_penalty,
        .repeat_last = (int)o->repeat_last,
        .xtc_probability = (float)o->xtc_probability,
        .xtc_threshold = (float)o->xtc_threshold,
        .mirostat_tau = o->mirostat ? (float)o->mirostat_ent : 0.0f,
        .mirostat_eta = (float)o->mirostat_lr,
        .dry_multiplier = o->dry_last ? (float)o->dry_multiplier : 0.0f,
        .dry_base = (float)o->dry_base,
        .dry_allowed_length = (int)o->dry_allowed_length,
        .dry_last = o->dry_last < 0 ? 0 : (int)o->dry_last,
        .dry_breakers = o->dry_breakers.count ? o->dry_breakers.texts : NULL,
        .n_dry_breakers = none ? 0 : (size_t)o->dry_breakers.count,
    };
}

// "temperature 0.7, top-p 0.9, ...": what is always there, and of the rest what is not off.
void print_sampling(Buffer *out, const Session *s, const GenerationDefaults *defaults) {
    const Options *o = s->options;
    limpid_sampling sampling = sampling_of(o);
    choose_cuts(&sampling, o, defaults, s->config->vocab_size);
    const struct {
        const char *name;
        double value, off;
    } rest[] = {
        {"typical-p", o->typical_p, 1},
        {"presence-penalty", o->presence_penalty, 0},
        {"frequency-penalty", o->frequency_penalty, 0},
        {"xtc-probability", o->xtc_probability, 0},
        {"dry-multiplier", o->dry_multiplier, 0},
        {"mirostat", o->mirostat, 0},
    };
    buffer_print(out, "temperature %g, top-p %g, top-k %d, min-p %g, repeat-penalty %g",
                 (double)sampling.temperature, (double)sampling.top_p, sampling.top_k,
                 (double)sampling.min_p, (double)sampling.repeat_penalty);
    for (size_t i = 0; i < sizeof rest / sizeof *rest; i++)
        if (rest[i].value != rest[i].off) buffer_print(out, ", %s %g", rest[i].name, rest[i].value);
}

limpid_sampler *open_sampler(const Session *s, const SamplerWanted *wanted, uint64_t *seed,
                             Error *error) {
    static const GenerationDefaults NONE = {-1, -1, -1, -1, -1};
    const Options *o = s->options;
    limpid_sampling sampling = sampling_of(o);
    choose_cuts(&sampling, o, wanted->defaults ? wanted->defaults : &NONE, s->config->vocab_size);
    *seed = option_given(o, OPTION_SEED) ? o->seed : random_seed();
    sampling.seed = *seed;
    sampling.numbers = wanted->numbers;
    sampling.n_numbers = wanted->n_numbers;
    sampling.grammar = s->grammar;
    limpid_bias *biases = NULL;
    limpid_sampler *sampler = NULL;
    limpid_error problem = {0};
    if (sampling_biases(&biases, &sampling.n_biases, o, error) &&
        check_bias_tokens(biases, sampling.n_biases, s->config->vocab_size, error)) {
        sampling.biases = biases;
        sampler = limpid_sampler_open(s->context, &sampling, &problem);
        session_problem(error, sampler, &problem);
    }
    free(biases);
    return sampler;
}

bool begin_text(limpid_sampler *sampler, const int32_t *prompt, size_t count, bool first,
                Error *error) {
    limpid_error problem = {0};
    bool good = limpid_sampler_begin(sampler, prompt, count, first ? LIMPID_BEGIN : 0, &problem);
    return session_problem(error, good, &problem);
}
