// The table of all options, and the parser that reads it. What an option does is up to its command.
#include "commands/shared/options.h"
#include "weights/checkpoint.h"

#include <errno.h>
#include <fnmatch.h>
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
    char short_name; // 0: none
    OptionKind kind;
    size_t offset; // of the field in Options
    unsigned commands;
    double low, high;
    const char *choices;
    const char *meaning; // of the flag or of a value; appended to the error message
} OptionRow;

#define FIELD(name) offsetof(Options, name)
enum {
    TEXT_COMMANDS = FOR_GENERATE | FOR_CHAT,
    MODEL_COMMANDS =
        TEXT_COMMANDS | FOR_BENCH | FOR_PERPLEXITY | FOR_TRACE | FOR_SELFTEST | FOR_ATTENTION,
    PROMPT_COMMANDS = TEXT_COMMANDS | FOR_TOKENIZE | FOR_TRACE | FOR_SELFTEST | FOR_ATTENTION,
    INPUT_COMMANDS = PROMPT_COMMANDS | FOR_PERPLEXITY,
    TOKENIZER_COMMANDS = MODEL_COMMANDS | FOR_TOKENIZE | FOR_INSPECT | FOR_CONVERT,
    ALL_COMMANDS = TOKENIZER_COMMANDS | FOR_DIFF,
};
static const double MANY = 1 << 30; // of tokens

// clang-format off
static const OptionRow ROWS[] = {
    {.id = OPTION_PROMPT, .name = "prompt", .short_name = 'i', .kind = KIND_TEXT,
     .offset = FIELD(prompt), .commands = PROMPT_COMMANDS},
    {.id = OPTION_FILE, .name = "file", .short_name = 'f', .kind = KIND_TEXT, .offset = FIELD(file),
     .commands = INPUT_COMMANDS},
    {.id = OPTION_PROMPT_IDS, .name = "prompt-ids", .kind = KIND_TEXT, .offset = FIELD(prompt_ids),
     .commands = FOR_GENERATE | FOR_TRACE | FOR_SELFTEST | FOR_ATTENTION},
    {.id = OPTION_TEMPERATURE, .name = "temp", .short_name = 't', .kind = KIND_NUMBER,
     .offset = FIELD(temperature), .commands = TEXT_COMMANDS, .high = 1e6,
     .meaning = "-t is the temperature, as in llama2.c; threads are -j"},
    {.id = OPTION_TEMPERATURE, .name = "temperature", .kind = KIND_NUMBER,
     .offset = FIELD(temperature), .commands = TEXT_COMMANDS, .high = 1e6},
    {.id = OPTION_TOP_P, .name = "top-p", .short_name = 'p', .kind = KIND_NUMBER,
     .offset = FIELD(top_p), .commands = TEXT_COMMANDS, .high = 1,
     .meaning = "-p is top-p, as in llama2.c; the prompt is -i"},
    {.id = OPTION_TOP_K, .name = "top-k", .kind = KIND_INTEGER, .offset = FIELD(top_k),
     .commands = TEXT_COMMANDS, .high = MANY, .meaning = "0 keeps all"},
    {.id = OPTION_MIN_P, .name = "min-p", .kind = KIND_NUMBER, .offset = FIELD(min_p),
     .commands = TEXT_COMMANDS, .high = 1},
    {.id = OPTION_TYPICAL_P, .name = "typical-p", .kind = KIND_NUMBER, .offset = FIELD(typical_p),
     .commands = TEXT_COMMANDS, .high = 1},
    {.id = OPTION_REPEAT_PENALTY, .name = "repeat-penalty", .kind = KIND_NUMBER,
     .offset = FIELD(repeat_penalty), .commands = TEXT_COMMANDS, .low = 0.01, .high = 100,
     .meaning = "1 is none"},
    {.id = OPTION_PRESENCE_PENALTY, .name = "presence-penalty", .kind = KIND_NUMBER,
     .offset = FIELD(presence_penalty), .commands = TEXT_COMMANDS, .low = -100, .high = 100},
    {.id = OPTION_FREQUENCY_PENALTY, .name = "frequency-penalty", .kind = KIND_NUMBER,
     .offset = FIELD(frequency_penalty), .commands = TEXT_COMMANDS, .low = -100, .high = 100},
    {.id = OPTION_REPEAT_LAST, .name = "repeat-last-n", .kind = KIND_INTEGER,
     .offset = FIELD(repeat_last), .commands = TEXT_COMMANDS, .high = MANY,
     .meaning = "0 is the whole context"},
    {.id = OPTION_SEED, .name = "seed", .short_name = 's', .kind = KIND_UNSIGNED,
     .offset = FIELD(seed), .commands = TEXT_COMMANDS,
     .meaning = "without it the seed is random and printed"},
    {.id = OPTION_STEPS, .name = "steps", .short_name = 'n', .kind = KIND_INTEGER,
     .offset = FIELD(steps), .commands = TEXT_COMMANDS, .high = MANY,
     .meaning = "-n counts forward passes, as in llama2.c; 0 is the whole context"},
    {.id = OPTION_MAX_TOKENS, .name = "max-tokens", .kind = KIND_INTEGER,
     .offset = FIELD(max_tokens), .commands = TEXT_COMMANDS, .high = MANY},
    {.id = OPTION_STOP, .name = "stop", .kind = KIND_TEXTS, .offset = FIELD(stops),
     .commands = TEXT_COMMANDS},
    {.id = OPTION_IGNORE_EOS, .name = "ignore-eos", .kind = KIND_FLAG, .offset = FIELD(ignore_eos),
     .commands = TEXT_COMMANDS},
    {.id = OPTION_MODE, .name = "mode", .short_name = 'm', .kind = KIND_CHOICE,
     .offset = FIELD(mode), .commands = TEXT_COMMANDS, .choices = "generate|chat",
     .meaning = "-m is the mode, as in llama2.c; the model has no flag: run MODEL"},
    {.id = OPTION_SYSTEM, .name = "system", .short_name = 'y', .kind = KIND_TEXT,
     .offset = FIELD(system), .commands = TEXT_COMMANDS},
    {.id = OPTION_TEMPLATE, .name = "template", .kind = KIND_TEXT, .offset = FIELD(chat_template),
     .commands = FOR_CHAT | FOR_GENERATE},
    {.id = OPTION_TOKENIZER, .name = "tokenizer", .short_name = 'z', .kind = KIND_TEXT,
     .offset = FIELD(tokenizer), .commands = TOKENIZER_COMMANDS},
    {.id = OPTION_THREADS, .name = "threads", .short_name = 'j', .kind = KIND_LIST,
     .offset = FIELD(threads), .commands = MODEL_COMMANDS, .high = 256,
     .meaning = "0 is all that this process may use"},
    {.id = OPTION_CONTEXT, .name = "ctx-size", .short_name = 'c', .kind = KIND_INTEGER,
     .offset = FIELD(context), .commands = TEXT_COMMANDS, .low = 1, .high = 1 << 22},
    {.id = OPTION_KV, .name = "kv", .kind = KIND_CHOICE, .offset = FIELD(kv),
     .commands = MODEL_COMMANDS, .choices = "f32|f16|bf16"},
    {.id = OPTION_PRECISION, .name = "precision", .kind = KIND_CHOICE, .offset = FIELD(precision),
     .commands = MODEL_COMMANDS, .choices = "f32|a16|a8"},
    {.id = OPTION_NO_CACHE, .name = "no-cache", .kind = KIND_FLAG, .offset = FIELD(no_cache),
     .commands = FOR_GENERATE},
    {.id = OPTION_LOGPROBS, .name = "logprobs", .kind = KIND_INTEGER, .offset = FIELD(logprobs),
     .commands = FOR_GENERATE, .high = 100, .meaning = "the number of alternatives"},
    {.id = OPTION_IDS, .name = "ids", .kind = KIND_FLAG, .offset = FIELD(ids),
     .commands = FOR_GENERATE | FOR_TOKENIZE},
    {.id = OPTION_IDS_FILE, .name = "ids", .kind = KIND_TEXT, .offset = FIELD(ids_file),
     .commands = FOR_PERPLEXITY},
    {.id = OPTION_SPECIAL, .name = "special", .kind = KIND_FLAG, .offset = FIELD(special),
     .commands = FOR_GENERATE | FOR_TOKENIZE | FOR_PERPLEXITY | FOR_TRACE | FOR_ATTENTION},
    {.id = OPTION_WINDOW, .name = "window", .kind = KIND_INTEGER, .offset = FIELD(window),
     .commands = FOR_PERPLEXITY, .low = 1, .high = 1 << 22},
    {.id = OPTION_STRIDE, .name = "stride", .kind = KIND_INTEGER, .offset = FIELD(stride),
     .commands = FOR_PERPLEXITY, .low = 1, .high = 1 << 22},
    {.id = OPTION_WINDOWS, .name = "windows", .kind = KIND_INTEGER, .offset = FIELD(windows),
     .commands = FOR_PERPLEXITY, .high = MANY, .meaning = "0 is all the text has"},
    {.id = OPTION_SECOND_HALF, .name = "second-half", .kind = KIND_FLAG,
     .offset = FIELD(second_half), .commands = FOR_PERPLEXITY},
    {.id = OPTION_SAVE_LOGITS, .name = "save-logits", .kind = KIND_TEXT,
     .offset = FIELD(save_logits), .commands = FOR_PERPLEXITY},
    {.id = OPTION_KL, .name = "kl", .kind = KIND_TEXT, .offset = FIELD(kl),
     .commands = FOR_PERPLEXITY},
    {.id = OPTION_LINES, .name = "lines", .kind = KIND_FLAG, .offset = FIELD(lines),
     .commands = FOR_TOKENIZE},
    {.id = OPTION_PIECES, .name = "pieces", .kind = KIND_FLAG, .offset = FIELD(pieces),
     .commands = FOR_TOKENIZE},
    {.id = OPTION_BOS, .name = "bos", .kind = KIND_FLAG, .offset = FIELD(bos),
     .commands = FOR_TOKENIZE},
    {.id = OPTION_DECODE, .name = "decode", .kind = KIND_FLAG, .offset = FIELD(decode),
     .commands = FOR_TOKENIZE},
    {.id = OPTION_PROMPT_LENGTHS, .name = "prompt-length", .kind = KIND_LIST,
     .offset = FIELD(prompt_lengths), .commands = FOR_BENCH, .low = 1, .high = 1 << 22},
    {.id = OPTION_PROMPT_LENGTHS, .name = "pp", .kind = KIND_LIST, .offset = FIELD(prompt_lengths),
     .commands = FOR_BENCH, .low = 1, .high = 1 << 22},
    {.id = OPTION_GEN, .name = "gen", .kind = KIND_INTEGER, .offset = FIELD(gen),
     .commands = FOR_BENCH, .low = 1, .high = 1 << 22},
    {.id = OPTION_GEN, .name = "tg", .kind = KIND_INTEGER, .offset = FIELD(gen),
     .commands = FOR_BENCH, .low = 1, .high = 1 << 22},
    {.id = OPTION_DEPTHS, .name = "depth", .kind = KIND_LIST, .offset = FIELD(depths),
     .commands = FOR_BENCH, .high = 1 << 22},
    {.id = OPTION_BATCHES, .name = "batch", .kind = KIND_LIST, .offset = FIELD(batches),
     .commands = FOR_BENCH, .low = 1, .high = 1024, .meaning = "sequences decoded in one batch"},
    {.id = OPTION_REPETITIONS, .name = "repetitions", .short_name = 'r', .kind = KIND_INTEGER,
     .offset = FIELD(repetitions), .commands = FOR_BENCH, .low = 1, .high = 1000},
    {.id = OPTION_ONLY, .name = "only", .kind = KIND_CHOICE, .offset = FIELD(only),
     .commands = FOR_BENCH, .choices = "prefill|decode"},
    {.id = OPTION_NO_LIMITS, .name = "no-limits", .kind = KIND_FLAG, .offset = FIELD(no_limits),
     .commands = FOR_BENCH},
    {.id = OPTION_OUT, .name = "out", .short_name = 'o', .kind = KIND_TEXT, .offset = FIELD(out),
     .commands = FOR_TRACE},
    {.id = OPTION_ONLY_NAMES, .name = "only", .kind = KIND_TEXTS, .offset = FIELD(only_names),
     .commands = FOR_TRACE | FOR_DIFF},
    {.id = OPTION_NEW_TOKENS, .name = "max-tokens", .short_name = 'n', .kind = KIND_INTEGER,
     .offset = FIELD(new_tokens), .commands = FOR_TRACE, .high = MANY,
     .meaning = "tokens generated after the prompt"},
    {.id = OPTION_ATTENTION, .name = "attention", .kind = KIND_FLAG, .offset = FIELD(attention),
     .commands = FOR_TRACE},
    {.id = OPTION_BUDGET, .name = "budget", .kind = KIND_TEXT, .offset = FIELD(budget),
     .commands = FOR_DIFF},
    {.id = OPTION_ALL, .name = "all", .kind = KIND_FLAG, .offset = FIELD(all),
     .commands = FOR_DIFF},
    {.id = OPTION_LAYER, .name = "layer", .kind = KIND_INTEGER, .offset = FIELD(layer),
     .commands = FOR_ATTENTION, .high = MANY},
    {.id = OPTION_HEAD, .name = "head", .kind = KIND_INTEGER, .offset = FIELD(head),
     .commands = FOR_ATTENTION, .high = MANY},
    {.id = OPTION_GRID, .name = "grid", .kind = KIND_CHOICE, .offset = FIELD(grid),
     .commands = FOR_ATTENTION, .choices = "heads|layers"},
    {.id = OPTION_MEAN, .name = "mean", .kind = KIND_FLAG, .offset = FIELD(mean),
     .commands = FOR_ATTENTION},
    {.id = OPTION_ROLLOUT, .name = "rollout", .kind = KIND_FLAG, .offset = FIELD(rollout),
     .commands = FOR_ATTENTION},
    {.id = OPTION_STAGE, .name = "stage", .kind = KIND_CHOICE, .offset = FIELD(stage),
     .commands = FOR_ATTENTION, .choices = "raw|scaled|weights"},
    {.id = OPTION_ENTROPY, .name = "entropy", .kind = KIND_FLAG, .offset = FIELD(entropy),
     .commands = FOR_ATTENTION},
    {.id = OPTION_SVG, .name = "svg", .kind = KIND_TEXT, .offset = FIELD(svg),
     .commands = FOR_ATTENTION},
    {.id = OPTION_PNG, .name = "png", .kind = KIND_TEXT, .offset = FIELD(png),
     .commands = FOR_ATTENTION},
    {.id = OPTION_TYPE, .name = "type", .kind = KIND_CHOICE, .offset = FIELD(type),
     .commands = FOR_CONVERT, .choices = "f32|f16|bf16|q8_0|q4_0",
     .meaning = "without it every tensor keeps its type"},
    {.id = OPTION_FORCE, .name = "force", .kind = KIND_FLAG, .offset = FIELD(force),
     .commands = FOR_CONVERT | FOR_TRACE | FOR_PERPLEXITY | FOR_ATTENTION},
    {.id = OPTION_JSON, .name = "json", .kind = KIND_FLAG, .offset = FIELD(json),
     .commands = FOR_GENERATE | FOR_BENCH | FOR_PERPLEXITY | FOR_INSPECT | FOR_DIFF |
                 FOR_SELFTEST | FOR_ATTENTION},
    {.id = OPTION_CSV, .name = "csv", .kind = KIND_FLAG, .offset = FIELD(csv),
     .commands = FOR_BENCH | FOR_ATTENTION},
    {.id = OPTION_MARKDOWN, .name = "markdown", .kind = KIND_FLAG, .offset = FIELD(markdown),
     .commands = FOR_BENCH},
    {.id = OPTION_COLOR, .name = "color", .kind = KIND_CHOICE, .offset = FIELD(color),
     .commands = ALL_COMMANDS, .choices = "auto|always|never"},
    {.id = OPTION_QUIET, .name = "quiet", .short_name = 'q', .kind = KIND_FLAG,
     .offset = FIELD(quiet), .commands = ALL_COMMANDS},
    {.id = OPTION_VERBOSE, .name = "verbose", .short_name = 'v', .kind = KIND_FLAG,
     .offset = FIELD(verbose), .commands = ALL_COMMANDS},
    {.id = OPTION_HELP, .name = "help", .short_name = 'h', .kind = KIND_FLAG, .offset = FIELD(help),
     .commands = ALL_COMMANDS},
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

// strtod alone would also accept "nan", "0x1p3" and leading blanks.
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

// "-p" if the option has a short name, else "--min-p".
static void spell(char out[40], const OptionRow *row) {
    if (row->short_name)
        snprintf(out, 40, "-%c", row->short_name);
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
                     row->meaning ? "; " : "", row->meaning ? row->meaning : "");
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
            return error_set(error, ERROR_USAGE, "--%s is given more than %d times", row->name,
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
        .stage = 2, // weights
    };
}

// The error for an `argument` that getopt does not know.
static bool refuse_option(const char *argument, int letter, CommandBit command, Error *error) {
    size_t length = strcspn(argument, "=");
    for (int r = 0; r < N_ROWS; r++) {
        const OptionRow *row = &ROWS[r];
        bool same = !strncmp(argument, "--", 2) ? strlen(row->name) == length - 2 &&
                                                      !memcmp(row->name, argument + 2, length - 2)
                                                : row->short_name && row->short_name == letter;
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

// The first row of an option: two names of one option, and an abbreviation of both, mean the same
// row.
static int first_row(int r) {
    int first = 0;
    while (ROWS[first].id != ROWS[r].id)
        first++;
    return first;
}

// getopt's two tables, made of the rows that belong to the command. A long option's value is 256 +
// its row.
static void make_getopt_tables(struct option *longs, char *shorts, CommandBit command) {
    *shorts++ = ':'; // reports a missing value apart from an unknown option
    for (int r = 0; r < N_ROWS; r++) {
        const OptionRow *row = &ROWS[r];
        if (!(row->commands & command)) continue;
        int has = row->kind == KIND_FLAG ? no_argument : required_argument;
        *longs++ = (struct option){row->name, has, NULL, 256 + first_row(r)};
        if (!row->short_name) continue;
        *shorts++ = row->short_name;
        if (has == required_argument) *shorts++ = ':';
    }
    *shorts = '\0';
    *longs = (struct option){0};
}

static const OptionRow *row_of(int code, CommandBit command) {
    if (code >= 256) return &ROWS[code - 256];
    for (int r = 0; r < N_ROWS; r++)
        if (ROWS[r].short_name == code && (ROWS[r].commands & command)) return &ROWS[r];
    return NULL;
}

static bool take_option(Options *options, int code, CommandBit command, char **argv, Error *error) {
    if (code == ':') {
        const OptionRow *row = row_of(optopt, command);
        return error_set(error, ERROR_USAGE, "%.60s wants a value%s%s", argv[optind - 1],
                         row && row->meaning ? "; " : "", row && row->meaning ? row->meaning : "");
    }
    if (code == '?') {
        // For a bad letter inside "-xyz", optind may still point at the word itself.
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
    optind = 0; // 0: getopt starts over, and permutes argv
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
        return error_set(error, ERROR_USAGE,
                         "-j takes one number of threads; only bench takes several");
    if (!option_given(options, OPTION_KV) && options->precision == PRECISION_F32)
        options->kv = KV_F32;
    return true;
}

bool only_matches(const TextList *patterns, const char *name) {
    if (!patterns->count) return true;
    for (const char *end = name; end; end = strchr(end, '.')) {
        end += *end == '.';
        for (int i = 0; i < patterns->count; i++)
            if (!fnmatch(patterns->texts[i], end, 0)) return true;
    }
    return false;
}
