// The table of every option, and its reader. What an option does is its command's business.
#include "commands/shared/options.h"
#include "weights/builtin.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum OptionKind {
    KIND_FLAG,
    KIND_TEXT,
    KIND_TEXTS,    // may be given several times
    KIND_INTEGER,  // low .. high
    KIND_UNSIGNED, // the whole of uint64
    KIND_NUMBER,   // low .. high
    KIND_LIST,     // integers low .. high, separated by commas
    KIND_CHOICE,   // one of `choices`, separated by |; the value is its index
} OptionKind;

typedef struct OptionRow {
    OptionId id;
    const char *name;
    char letter; // 0: none
    OptionKind kind;
    size_t offset; // of the field in Options
    unsigned commands;
    double low, high;
    const char *choices;
    const char *hint; // what the flag means, where other programs mean something else by it
} OptionRow;

#define FIELD(name) offsetof(Options, name)
enum {
    TEXT_COMMANDS = FOR_GENERATE | FOR_CHAT,
    MODEL_COMMANDS = TEXT_COMMANDS | FOR_BENCH | FOR_PERPLEXITY | FOR_TRACE | FOR_SELFTEST,
    PROMPT_COMMANDS = TEXT_COMMANDS | FOR_TOKENIZE | FOR_TRACE | FOR_SELFTEST,
    INPUT_COMMANDS = PROMPT_COMMANDS | FOR_PERPLEXITY,
    TOKENIZER_COMMANDS = MODEL_COMMANDS | FOR_TOKENIZE | FOR_INSPECT | FOR_CONVERT,
    ALL_COMMANDS = TOKENIZER_COMMANDS | FOR_DIFF,
};
static const double MANY = 1 << 30; // of tokens

// clang-format off
static const OptionRow ROWS[] = {
    {OPTION_PROMPT, "prompt", 'i', KIND_TEXT, FIELD(prompt), PROMPT_COMMANDS, 0, 0, NULL, NULL},
    {OPTION_FILE, "file", 'f', KIND_TEXT, FIELD(file), INPUT_COMMANDS, 0, 0, NULL, NULL},
    {OPTION_PROMPT_IDS, "prompt-ids", 0, KIND_TEXT, FIELD(prompt_ids), FOR_GENERATE | FOR_TRACE | FOR_SELFTEST, 0, 0, NULL, NULL},
    {OPTION_TEMPERATURE, "temp", 't', KIND_NUMBER, FIELD(temperature), TEXT_COMMANDS, 0, 1e6, NULL,
     "-t is the temperature, as in llama2.c; threads are -j"},
    {OPTION_TEMPERATURE, "temperature", 0, KIND_NUMBER, FIELD(temperature), TEXT_COMMANDS, 0, 1e6, NULL, NULL},
    {OPTION_TOP_P, "top-p", 'p', KIND_NUMBER, FIELD(top_p), TEXT_COMMANDS, 0, 1, NULL,
     "-p is top-p, as in llama2.c; the prompt is -i"},
    {OPTION_TOP_K, "top-k", 0, KIND_INTEGER, FIELD(top_k), TEXT_COMMANDS, 0, MANY, NULL, "0 keeps all"},
    {OPTION_MIN_P, "min-p", 0, KIND_NUMBER, FIELD(min_p), TEXT_COMMANDS, 0, 1, NULL, NULL},
    {OPTION_TYPICAL_P, "typical-p", 0, KIND_NUMBER, FIELD(typical_p), TEXT_COMMANDS, 0, 1, NULL, NULL},
    {OPTION_REPEAT_PENALTY, "repeat-penalty", 0, KIND_NUMBER, FIELD(repeat_penalty), TEXT_COMMANDS, 0.01, 100, NULL, "1 is none"},
    {OPTION_PRESENCE_PENALTY, "presence-penalty", 0, KIND_NUMBER, FIELD(presence_penalty), TEXT_COMMANDS, -100, 100, NULL, NULL},
    {OPTION_FREQUENCY_PENALTY, "frequency-penalty", 0, KIND_NUMBER, FIELD(frequency_penalty), TEXT_COMMANDS, -100, 100, NULL, NULL},
    {OPTION_REPEAT_LAST, "repeat-last-n", 0, KIND_INTEGER, FIELD(repeat_last), TEXT_COMMANDS, 0, MANY, NULL, "0 is the whole context"},
    {OPTION_SEED, "seed", 's', KIND_UNSIGNED, FIELD(seed), TEXT_COMMANDS, 0, 0, NULL, "without it the seed is random and printed"},
    {OPTION_STEPS, "steps", 'n', KIND_INTEGER, FIELD(steps), TEXT_COMMANDS, 0, MANY, NULL,
     "-n counts forward passes, as in llama2.c; 0 is the whole context"},
    {OPTION_MAX_TOKENS, "max-tokens", 0, KIND_INTEGER, FIELD(max_tokens), TEXT_COMMANDS, 0, MANY, NULL, NULL},
    {OPTION_STOP, "stop", 0, KIND_TEXTS, FIELD(stops), TEXT_COMMANDS, 0, 0, NULL, NULL},
    {OPTION_IGNORE_EOS, "ignore-eos", 0, KIND_FLAG, FIELD(ignore_eos), TEXT_COMMANDS, 0, 0, NULL, NULL},
    {OPTION_MODE, "mode", 'm', KIND_CHOICE, FIELD(mode), TEXT_COMMANDS, 0, 0, "generate|chat",
     "-m is the mode, as in llama2.c; the model stands by itself: run MODEL"},
    {OPTION_SYSTEM, "system", 'y', KIND_TEXT, FIELD(system), TEXT_COMMANDS, 0, 0, NULL, NULL},
    {OPTION_TEMPLATE, "template", 0, KIND_TEXT, FIELD(chat_template), FOR_CHAT | FOR_GENERATE, 0, 0, NULL, NULL},
    {OPTION_TOKENIZER, "tokenizer", 'z', KIND_TEXT, FIELD(tokenizer), TOKENIZER_COMMANDS, 0, 0, NULL, NULL},
    {OPTION_THREADS, "threads", 'j', KIND_LIST, FIELD(threads), MODEL_COMMANDS, 0, 256, NULL, "0 is all this process may use"},
    {OPTION_CONTEXT, "ctx-size", 'c', KIND_INTEGER, FIELD(context), TEXT_COMMANDS, 1, 1 << 22, NULL, NULL},
    {OPTION_KV, "kv", 0, KIND_CHOICE, FIELD(kv), MODEL_COMMANDS, 0, 0, "f32|f16|bf16", NULL},
    {OPTION_PRECISION, "precision", 0, KIND_CHOICE, FIELD(precision), MODEL_COMMANDS, 0, 0, "f32|a16|a8", NULL},
    {OPTION_NO_CACHE, "no-cache", 0, KIND_FLAG, FIELD(no_cache), FOR_GENERATE, 0, 0, NULL, NULL},
    {OPTION_LOGPROBS, "logprobs", 0, KIND_INTEGER, FIELD(logprobs), FOR_GENERATE, 0, 100, NULL, "the number of alternatives"},
    {OPTION_IDS, "ids", 0, KIND_FLAG, FIELD(ids), FOR_GENERATE | FOR_TOKENIZE, 0, 0, NULL, NULL},
    {OPTION_IDS_FILE, "ids", 0, KIND_TEXT, FIELD(ids_file), FOR_PERPLEXITY, 0, 0, NULL, NULL},
    {OPTION_SPECIAL, "special", 0, KIND_FLAG, FIELD(special), FOR_GENERATE | FOR_TOKENIZE | FOR_PERPLEXITY | FOR_TRACE, 0, 0, NULL, NULL},
    {OPTION_WINDOW, "window", 0, KIND_INTEGER, FIELD(window), FOR_PERPLEXITY, 1, 1 << 22, NULL, NULL},
    {OPTION_STRIDE, "stride", 0, KIND_INTEGER, FIELD(stride), FOR_PERPLEXITY, 1, 1 << 22, NULL, NULL},
    {OPTION_WINDOWS, "windows", 0, KIND_INTEGER, FIELD(windows), FOR_PERPLEXITY, 0, MANY, NULL, "0 is all the text has"},
    {OPTION_SECOND_HALF, "second-half", 0, KIND_FLAG, FIELD(second_half), FOR_PERPLEXITY, 0, 0, NULL, NULL},
    {OPTION_SAVE_LOGITS, "save-logits", 0, KIND_TEXT, FIELD(save_logits), FOR_PERPLEXITY, 0, 0, NULL, NULL},
    {OPTION_KL, "kl", 0, KIND_TEXT, FIELD(kl), FOR_PERPLEXITY, 0, 0, NULL, NULL},
    {OPTION_LINES, "lines", 0, KIND_FLAG, FIELD(lines), FOR_TOKENIZE, 0, 0, NULL, NULL},
    {OPTION_PIECES, "pieces", 0, KIND_FLAG, FIELD(pieces), FOR_TOKENIZE, 0, 0, NULL, NULL},
    {OPTION_BOS, "bos", 0, KIND_FLAG, FIELD(bos), FOR_TOKENIZE, 0, 0, NULL, NULL},
    {OPTION_DECODE, "decode", 0, KIND_FLAG, FIELD(decode), FOR_TOKENIZE, 0, 0, NULL, NULL},
    {OPTION_PROMPT_LENGTHS, "prompt-length", 0, KIND_LIST, FIELD(prompt_lengths), FOR_BENCH, 1, 1 << 22, NULL, NULL},
    {OPTION_PROMPT_LENGTHS, "pp", 0, KIND_LIST, FIELD(prompt_lengths), FOR_BENCH, 1, 1 << 22, NULL, NULL},
    {OPTION_GEN, "gen", 0, KIND_INTEGER, FIELD(gen), FOR_BENCH, 1, 1 << 22, NULL, NULL},
    {OPTION_GEN, "tg", 0, KIND_INTEGER, FIELD(gen), FOR_BENCH, 1, 1 << 22, NULL, NULL},
    {OPTION_DEPTHS, "depth", 0, KIND_LIST, FIELD(depths), FOR_BENCH, 0, 1 << 22, NULL, NULL},
    {OPTION_BATCHES, "batch", 0, KIND_LIST, FIELD(batches), FOR_BENCH, 1, 1024, NULL, "sequences decoded side by side"},
    {OPTION_REPETITIONS, "repetitions", 'r', KIND_INTEGER, FIELD(repetitions), FOR_BENCH, 1, 1000, NULL, NULL},
    {OPTION_ONLY, "only", 0, KIND_CHOICE, FIELD(only), FOR_BENCH, 0, 0, "prefill|decode", NULL},
    {OPTION_NO_LIMITS, "no-limits", 0, KIND_FLAG, FIELD(no_limits), FOR_BENCH, 0, 0, NULL, NULL},
    {OPTION_OUT, "out", 'o', KIND_TEXT, FIELD(out), FOR_TRACE, 0, 0, NULL, NULL},
    {OPTION_ONLY_NAMES, "only", 0, KIND_TEXTS, FIELD(only_names), FOR_TRACE | FOR_DIFF, 0, 0, NULL, NULL},
    {OPTION_NEW_TOKENS, "max-tokens", 'n', KIND_INTEGER, FIELD(new_tokens), FOR_TRACE, 0, MANY, NULL,
     "tokens generated behind the prompt"},
    {OPTION_ATTENTION, "attention", 0, KIND_FLAG, FIELD(attention), FOR_TRACE, 0, 0, NULL, NULL},
    {OPTION_BUDGET, "budget", 0, KIND_TEXT, FIELD(budget), FOR_DIFF, 0, 0, NULL, NULL},
    {OPTION_ALL, "all", 0, KIND_FLAG, FIELD(all), FOR_DIFF, 0, 0, NULL, NULL},
    {OPTION_TYPE, "type", 0, KIND_CHOICE, FIELD(type), FOR_CONVERT, 0, 0, "f32|f16|bf16|q8_0|q4_0",
     "without it every tensor keeps its type"},
    {OPTION_FORCE, "force", 0, KIND_FLAG, FIELD(force), FOR_CONVERT, 0, 0, NULL, NULL},
    {OPTION_JSON, "json", 0, KIND_FLAG, FIELD(json), FOR_GENERATE | FOR_BENCH | FOR_PERPLEXITY | FOR_INSPECT | FOR_DIFF | FOR_SELFTEST, 0, 0, NULL, NULL},
    {OPTION_CSV, "csv", 0, KIND_FLAG, FIELD(csv), FOR_BENCH, 0, 0, NULL, NULL},
    {OPTION_MARKDOWN, "markdown", 0, KIND_FLAG, FIELD(markdown), FOR_BENCH, 0, 0, NULL, NULL},
    {OPTION_COLOR, "color", 0, KIND_CHOICE, FIELD(color), ALL_COMMANDS, 0, 0, "auto|always|never", NULL},
    {OPTION_QUIET, "quiet", 'q', KIND_FLAG, FIELD(quiet), ALL_COMMANDS, 0, 0, NULL, NULL},
    {OPTION_VERBOSE, "verbose", 'v', KIND_FLAG, FIELD(verbose), ALL_COMMANDS, 0, 0, NULL, NULL},
    {OPTION_HELP, "help", 'h', KIND_FLAG, FIELD(help), ALL_COMMANDS, 0, 0, NULL, NULL},
};
// clang-format on
enum { N_ROWS = sizeof ROWS / sizeof *ROWS };

static bool all_digits(const char *text) {
    if (!*text) return false;
    for (; *text; text++)
        if (*text < '0' || *text > '9') return false;
    return true;
}

bool parse_unsigned(uint64_t *out, const char *text) {
    if (!all_digits(text)) return false;
    errno = 0;
    unsigned long long value = strtoull(text, NULL, 10);
    if (errno) return false;
    *out = value;
    return true;
}

bool parse_integer(int64_t *out, const char *text) {
    if (!all_digits(text + (*text == '-'))) return false;
    errno = 0;
    long long value = strtoll(text, NULL, 10);
    if (errno) return false;
    *out = value;
    return true;
}

// strtod alone would take "nan", "0x1p3" and leading blanks too.
bool parse_number(double *out, const char *text) {
    if (strspn(text, "0123456789.eE+-") != strlen(text)) return false;
    char *end = NULL;
    double value = strtod(text, &end);
    if (end == text || *end) return false;
    *out = value;
    return true;
}

static bool parse_list(IntegerList *list, const OptionRow *row, const char *text) {
    char item[32];
    list->count = 0;
    for (;;) {
        size_t length = strcspn(text, ",");
        int64_t value = 0;
        if (length >= sizeof item || list->count == OPTIONS_MAX_LIST) return false;
        memcpy(item, text, length);
        item[length] = '\0';
        if (!parse_integer(&value, item) || (double)value < row->low || (double)value > row->high)
            return false;
        list->values[list->count++] = (int)value;
        if (!text[length]) return true;
        text += length + 1;
    }
}

static bool parse_choice(int *out, const char *choices, const char *text) {
    size_t length = strlen(text);
    for (int i = 0;; i++) {
        size_t choice = strcspn(choices, "|");
        if (choice == length && !memcmp(choices, text, length)) {
            *out = i;
            return true;
        }
        if (!choices[choice]) return false;
        choices += choice + 1;
    }
}

// "-p" where the option has a letter, else "--min-p".
static void spell(char out[40], const OptionRow *row) {
    if (row->letter)
        snprintf(out, 40, "-%c", row->letter);
    else
        snprintf(out, 40, "--%s", row->name);
}

static bool refuse_value(const OptionRow *row, const char *text, Error *error) {
    char wanted[120], flag[40];
    spell(flag, row);
    switch (row->kind) {
    case KIND_CHOICE: snprintf(wanted, sizeof wanted, "one of %s", row->choices); break;
    case KIND_UNSIGNED: snprintf(wanted, sizeof wanted, "an integer 0 .. 2^64-1"); break;
    case KIND_NUMBER:
        snprintf(wanted, sizeof wanted, "a number %g .. %g", row->low, row->high);
        break;
    default:
        snprintf(wanted, sizeof wanted, "%s %.0f .. %.0f",
                 row->kind == KIND_LIST ? "up to 16 integers, separated by commas," : "an integer",
                 row->low, row->high);
    }
    return error_set(error, ERROR_USAGE, "%s: got \"%.80s\", wanted %s%s%s", flag, text, wanted,
                     row->hint ? "; " : "", row->hint ? row->hint : "");
}

static bool store(Options *options, const OptionRow *row, const char *text, Error *error) {
    void *field = (char *)options + row->offset;
    int64_t integer = 0;
    double number = 0;
    bool good = true;
    switch (row->kind) {
    case KIND_FLAG: *(bool *)field = true; break;
    case KIND_TEXT: *(const char **)field = text; break;
    case KIND_TEXTS: {
        TextList *list = field;
        if (!*text) return error_set(error, ERROR_USAGE, "--%s: the text is empty", row->name);
        if (list->count == OPTIONS_MAX_STOPS)
            return error_set(error, ERROR_USAGE, "--%s: given more than %d times", row->name,
                             OPTIONS_MAX_STOPS);
        list->texts[list->count++] = text;
        break;
    }
    case KIND_INTEGER:
        good = parse_integer(&integer, text) && (double)integer >= row->low &&
               (double)integer <= row->high;
        if (good) *(int64_t *)field = integer;
        break;
    case KIND_UNSIGNED: good = parse_unsigned(field, text); break;
    case KIND_NUMBER:
        good = parse_number(&number, text) && number >= row->low && number <= row->high;
        if (good) *(double *)field = number;
        break;
    case KIND_LIST: good = parse_list(field, row, text); break;
    case KIND_CHOICE: good = parse_choice(field, row->choices, text); break;
    }
    return good || refuse_value(row, text, error);
}

static void set_defaults(Options *o) {
    *o = (Options){
        .temperature = 1,
        .top_p = 0.9,
        .typical_p = 1,
        .repeat_penalty = 1,
        .max_tokens = 256,
        .kv = KV_F16,
        .precision = PRECISION_A16,
        .threads = {{0}, 1},
        .prompt_lengths = {{512}, 1},
        .depths = {{0}, 1},
        .batches = {{1}, 1},
        .gen = 64,
        .repetitions = 5,
        .only = BENCH_BOTH,
    };
}

// What getopt could not place. `argument` is the word it stumbled over.
static bool refuse_option(const char *argument, int letter, CommandBit command, Error *error) {
    size_t length = strcspn(argument, "=");
    for (int r = 0; r < N_ROWS; r++) {
        const OptionRow *row = &ROWS[r];
        bool same = !strncmp(argument, "--", 2) ? strlen(row->name) == length - 2 &&
                                                      !memcmp(row->name, argument + 2, length - 2)
                                                : row->letter && row->letter == letter;
        if (same && !(row->commands & command))
            return error_set(error, ERROR_USAGE,
                             "%.60s is not an option of this command "
                             "(run COMMAND --help lists them)",
                             argument);
        if (same && row->kind == KIND_FLAG)
            return error_set(error, ERROR_USAGE, "--%s takes no value", row->name);
    }
    return error_set(error, ERROR_USAGE, "unknown or ambiguous option %.60s (try --help)",
                     argument);
}

// The first row of an option, so that its two names are one and an abbreviation of both is clear.
static int first_row(int r) {
    int first = 0;
    while (ROWS[first].id != ROWS[r].id)
        first++;
    return first;
}

// getopt's two tables, of the rows that the command has. `value` of a long option is 256 + row.
static void make_getopt_tables(struct option *longs, char *shorts, CommandBit command) {
    *shorts++ = ':'; // a missing value is told apart from an unknown option
    for (int r = 0; r < N_ROWS; r++) {
        const OptionRow *row = &ROWS[r];
        if (!(row->commands & command)) continue;
        int has = row->kind == KIND_FLAG ? no_argument : required_argument;
        *longs++ = (struct option){row->name, has, NULL, 256 + first_row(r)};
        if (!row->letter) continue;
        *shorts++ = row->letter;
        if (has == required_argument) *shorts++ = ':';
    }
    *shorts = '\0';
    *longs = (struct option){0};
}

static const OptionRow *row_of(int code, CommandBit command) {
    if (code >= 256) return &ROWS[code - 256];
    for (int r = 0; r < N_ROWS; r++)
        if (ROWS[r].letter == code && (ROWS[r].commands & command)) return &ROWS[r];
    return NULL;
}

static bool take_option(Options *options, int code, CommandBit command, char **argv, Error *error) {
    if (code == ':') {
        const OptionRow *row = row_of(optopt, command);
        return error_set(error, ERROR_USAGE, "%.60s wants a value%s%s", argv[optind - 1],
                         row && row->hint ? "; " : "", row && row->hint ? row->hint : "");
    }
    if (code == '?') {
        // For a bad letter inside "-xyz" optind may still stand on the word itself.
        char letter[3] = {'-', (char)optopt, '\0'};
        bool is_letter = optopt > 0 && optopt < 256;
        return refuse_option(is_letter ? letter : argv[optind - 1], optopt, command, error);
    }
    const OptionRow *row = row_of(code, command);
    if (option_given(options, row->id) && row->kind != KIND_TEXTS)
        return error_set(error, ERROR_USAGE, "--%s is given twice", row->name);
    options->given[row->id] = true;
    return store(options, row, optarg, error);
}

bool options_parse(Options *options, CommandBit command, int argc, char **argv, Error *error) {
    struct option longs[N_ROWS + 1];
    char shorts[2 * N_ROWS + 2];
    set_defaults(options);
    make_getopt_tables(longs, shorts, command);
    opterr = 0;
    optind = 0; // 0: getopt starts anew, and permutes
    for (int code; (code = getopt_long(argc, argv, shorts, longs, NULL)) != -1;)
        if (!take_option(options, code, command, argv, error)) return false;
    if (options->help) return true;
    if (optind < argc)
        options->model = argv[optind++];
    else if (!(command & (FOR_DIFF | FOR_CONVERT)))
        options->model = BUILTIN_NAME;
    if (optind < argc && command & (FOR_DIFF | FOR_CONVERT)) options->other = argv[optind++];
    if (optind < argc)
        return error_set(error, ERROR_USAGE, "\"%.60s\" is one argument too many after the model%s",
                         argv[optind], command & TEXT_COMMANDS ? "; the prompt is -i TEXT" : "");
    if (command != FOR_BENCH && options->threads.count > 1)
        return error_set(error, ERROR_USAGE, "-j: one number of threads, only bench takes several");
    if (!option_given(options, OPTION_KV) && options->precision == PRECISION_F32)
        options->kv = KV_F32;
    return true;
}
