// The parser of the command line: it reads the table in option_rows.c.
//
//   rows of the command -> getopt's tables -> for each word of argv:
//     an option of another program is answered (unknown_options.c), underscores become dashes
//     -> getopt_long -> take_option -> store at row->offset
//   words that are no options: the model, for diff and convert a second name, else an error
#include "base/text.h"
#include "commands/shared/option_rows.h"
#include "commands/shared/output.h"
#include "weights/checkpoint.h"

#include <assert.h>
#include <ctype.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

bool parse_unsigned(uint64_t *out, const char *text) {
    size_t length = strlen(text);
    return length && decimal_take(text, length, out) == length;
}

bool parse_integer(int64_t *out, const char *text) {
    uint64_t value;
    bool negative = *text == '-';
    if (!parse_unsigned(&value, text + negative)) return false;
    if (value > (uint64_t)INT64_MAX + negative) return false;
    *out = (int64_t)(negative ? -value : value);
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

// "1,2,4", each within the row's range. False: malformed, out of range, or too many.
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

bool parse_choice(int *out, const char *choices, const char *text) {
    size_t length = strlen(text);
    for (int i = 0;; i++) {
        size_t choice = strcspn(choices, "|");
        if (choice == length && !strncasecmp(choices, text, length)) { // "Q4_K_M" as in file names
            *out = i;
            return true;
        }
        if (!choices[choice]) return false;
        choices += choice + 1;
    }
}

// What the row says of the option; what it says of its letter only to those who typed that.
static const char *meaning_for(const OptionRow *row, const char *typed) {
    const char *meaning = row->meaning ? row->meaning : "";
    bool of_letter = row->short_name && meaning[0] == '-' && meaning[1] == row->short_name;
    return typed && of_letter && strlen(typed) != 2 ? "" : meaning;
}

// The message for a malformed value: the option, the value, what is wanted. False.
static bool refuse_value(const OptionRow *row, const char *typed, const char *text,
                         CommandBit command, Error *error) {
    char wanted[120];
    bool several = row->kind == KIND_LIST && !(row->one_of_list & command);
    const char *meaning = meaning_for(row, typed);
    switch (row->kind) {
    case KIND_CHOICE: snprintf(wanted, sizeof wanted, "one of %s", row->choices); break;
    case KIND_UNSIGNED: snprintf(wanted, sizeof wanted, "an integer 0 .. 2^64-1"); break;
    case KIND_NUMBER:
        snprintf(wanted, sizeof wanted, "a number %g .. %g", row->low, row->high);
        break;
    default:
        snprintf(wanted, sizeof wanted, "%s %.0f .. %.0f",
                 several ? "up to 32 integers, separated by commas," : "an integer", row->low,
                 row->high);
    }
    return error_set(error, ERROR_USAGE, "%.40s%sgot \"%.80s\", wanted %s%s%s", typed ? typed : "",
                     typed ? ": " : "", text, wanted, *meaning ? "; " : "", meaning);
}

bool option_store(Options *options, const OptionRow *row, const char *typed, const char *text,
                  CommandBit command, Error *error) {
    void *field = (char *)options + row->offset;
    int64_t integer = 0;
    double number = 0;
    bool good = true;
    switch (row->kind) {
    case KIND_FLAG: *(bool *)field = true; break;
    case KIND_TEXT: *(const char **)field = text; break;
    case KIND_TEXTS: {
        TextList *list = field;
        assert(typed);
        if (!*text) return error_set(error, ERROR_USAGE, "%s: the text is empty", typed);
        if (list->count == OPTIONS_MAX_STOPS)
            return error_set(error, ERROR_USAGE, "%s is given more than %d times", typed,
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
    return good || refuse_value(row, typed, text, command, error);
}

// Fields that are not named begin as 0, false or NULL.
static void set_defaults(Options *o) {
    *o = (Options){
        .temperature = 1,
        .top_p = 0.9,
        .typical_p = 1,
        .repeat_penalty = 1,
        .xtc_threshold = 0.1,
        .dry_base = 1.75,
        .dry_allowed_length = 2,
        .dry_last = -1,
        .mirostat_lr = 0.1,
        .mirostat_ent = 5,
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
        .batch = 1,
        .mask_seq = 32,
    };
}

// The error for an `argument` that getopt does not know.
static bool refuse_option(const char *argument, int letter, CommandBit command, Error *error) {
    size_t length = strcspn(argument, "=");
    for (const OptionRow *row = option_rows(); row->name; row++) {
        bool same = !strncmp(argument, "--", 2) ? strlen(row->name) == length - 2 &&
                                                      !memcmp(row->name, argument + 2, length - 2)
                                                : row->short_name && row->short_name == letter;
        if (same && !(row->commands & command))
            return error_set(error, ERROR_USAGE,
                             "%.60s is not an option of this command "
                             "(`run COMMAND --help` lists them)",
                             argument);
        if (same && row->kind == KIND_FLAG)
            return error_set(error, ERROR_USAGE, "--%s takes no value", row->name);
    }
    return refuse_unknown(argument, command, error);
}

// The first row of an option: two names of one option, and an abbreviation of both, mean the same
// row.
static int first_row(OptionId id) {
    int first = 0;
    while (option_rows()[first].id != id)
        first++;
    return first;
}

// getopt's two tables, made of the rows that belong to the command. A long option's value is 256 +
// its row.
static void make_getopt_tables(struct option *longs, char *shorts, CommandBit command) {
    *shorts++ = '-'; // words that are no options come in their order, so none is passed by
    *shorts++ = ':'; // reports a missing value apart from an unknown option
    for (const OptionRow *row = option_rows(); row->name; row++) {
        if (!(row->commands & command)) continue;
        int has = row->kind == KIND_FLAG ? no_argument : required_argument;
        *longs++ = (struct option){row->name, has, NULL, 256 + first_row(row->id)};
        if (!row->short_name) continue;
        *shorts++ = row->short_name;
        if (has == required_argument) *shorts++ = ':';
    }
    *shorts = '\0';
    *longs = (struct option){0};
}

static const OptionRow *row_of(int code, CommandBit command) {
    if (code >= 256) return &option_rows()[code - 256];
    for (const OptionRow *row = option_rows(); row->name; row++)
        if (row->short_name == code && (row->commands & command)) return row;
    return NULL;
}

// With its other names, since the first may have been one of them. False.
static bool refuse_second(const OptionRow *given, const char *typed, Error *error) {
    char names[120] = "";
    size_t used = 0;
    for (const OptionRow *row = option_rows(); row->name; row++)
        if (row->id == given->id && row != given && used < sizeof names)
            used += (size_t)snprintf(names + used, sizeof names - used, ", --%s", row->name);
    return error_set(error, ERROR_USAGE,
                     *names ? "%s is given twice (--%s%s are one option)" : "%s is given twice",
                     typed, given->name, names);
}

// One result of getopt_long. ':' is a missing value, '?' an option that it does not know. `name`:
// of a long option, as it is in full.
static bool take_option(Options *options, int code, const char *name, CommandBit command,
                        char **argv, Error *error) {
    if (code == ':') {
        const OptionRow *row = row_of(optopt, command);
        const char *meaning = row ? meaning_for(row, argv[optind - 1]) : "";
        return error_set(error, ERROR_USAGE, "%.60s wants a value%s%s", argv[optind - 1],
                         *meaning ? "; " : "", meaning);
    }
    if (code == '?') {
        // For a bad letter inside "-xyz", optind may still point at the word itself.
        char letter[3] = {'-', (char)optopt, '\0'};
        bool is_letter = optopt > 0 && optopt < 256;
        return refuse_option(is_letter ? letter : argv[optind - 1], optopt, command, error);
    }
    const OptionRow *row = row_of(code, command);
    char typed[40];
    if (code < 256)
        snprintf(typed, sizeof typed, "-%c", code);
    else
        snprintf(typed, sizeof typed, "--%s", name);
    if (option_given(options, row->id) && row->kind != KIND_TEXTS)
        return refuse_second(row, typed, error);
    options->given[row->id] = true;
    if (!option_store(options, row, typed, optarg, command, error)) return false;
    // In other programs -t is the number of threads.
    double t = options->temperature;
    if (code != 't' || row->id != OPTION_TEMPERATURE || t <= 2) return true;
    char threads[24] = "";
    if (t == floor(t)) snprintf(threads, sizeof threads, " %.0f", t);
    return error_set(
        error, ERROR_USAGE,
        "-t %.20s: -t is temperature; threads are -j%s (a temperature over 2 is --temp "
        "%.20s)",
        optarg, threads, optarg);
}

// The command line as it is walked through.
typedef struct Walk {
    CommandBit command;
    int argc;
    char **argv;
    char *words[3]; // the first that are no options
    int n_words;    // all of them
    struct {
        const ForeignOption *option;
        const char *word;
    } skipped[8]; // the first of them
    int n_skipped;
} Walk;

static void add_word(Walk *w, char *word) {
    if (w->n_words < 3) w->words[w->n_words] = word;
    w->n_words++;
}

// "--top_p=1" is "--top-p=1".
static void replace_underscores(char *word) {
    if (strncmp(word, "--", 2) != 0) return;
    for (char *c = word; *c && *c != '='; c++)
        if (*c == '_') *c = '-';
}

bool option_is_of(const char *name, size_t length, int commands) {
    for (const OptionRow *row = option_rows(); row->name; row++)
        if (row->commands & commands && strlen(row->name) == length &&
            !memcmp(row->name, name, length))
            return true;
    return false;
}

// Whether a word is in full an option of other commands alone: getopt takes --json for the
// abbreviation of --json-schema where that is the only one.
static bool is_of_others(const char *word, CommandBit command) {
    if (strncmp(word, "--", 2) != 0) return false;
    size_t length = strcspn(word + 2, "=");
    return option_is_of(word + 2, length, ~0) && !option_is_of(word + 2, length, (int)command);
}

// Options of other programs, from the next word on.
static bool skip_foreign(Walk *w, Error *error) {
    while (optind < w->argc) {
        replace_underscores(w->argv[optind]);
        const char *word = w->argv[optind];
        const ForeignOption *option = foreign_option(word, w->command);
        if (!option && is_of_others(word, w->command))
            return refuse_option(word, 0, w->command, error);
        if (!option) break;
        if (option->refused_by & (int)w->command)
            return error_set(error, ERROR_USAGE, "%.40s is not an option of limpid: %s", word,
                             option->answer);
        if (w->n_skipped < 8) {
            w->skipped[w->n_skipped].option = option;
            w->skipped[w->n_skipped++].word = word;
        }
        const char *next = optind + 1 < w->argc ? w->argv[optind + 1] : NULL;
        optind += foreign_words(option, word, next);
    }
    return true;
}

static bool walk(Walk *w, Options *options, Error *error) {
    // Static for their size: getopt has one walk at a time anyway.
    static struct option longs[MOST_OPTION_ROWS + 1];
    static char shorts[2 * MOST_OPTION_ROWS + 3];
    make_getopt_tables(longs, shorts, w->command);
    opterr = 0;
    optind = 0; // 0: getopt starts over
    getopt_long(1, w->argv, shorts, longs, NULL);
    optind = 1;
    for (;;) {
        if (!skip_foreign(w, error)) return false;
        const char *word = optind < w->argc ? w->argv[optind] : "";
        int index = 0, code = getopt_long(w->argc, w->argv, shorts, longs, &index);
        if (code == -1) break;
        if (code == 1) {
            add_word(w, optarg);
        } else if (!take_option(options, code, longs[index].name, w->command, w->argv, error)) {
            // getopt reads "-nlg 99" as -n with the value "lg". "-t5x" is no word.
            Error misspelt = {0};
            if (word[0] && word[1] && isalpha((unsigned char)word[2]) &&
                refuse_misspelt(word, w->command, &misspelt))
                *error = misspelt;
            return false;
        }
    }
    for (; optind < w->argc; optind++) // behind --
        add_word(w, w->argv[optind]);
    return true;
}

// The words that are no options, in their order.
static bool take_words(Options *options, Walk *w, Error *error) {
    int taken = 0;
    bool named = option_given(options, OPTION_MODEL);
    if (!named && w->n_words)
        *(w->command == FOR_MASK ? &options->pattern : &options->model) = w->words[taken++];
    else if (!named && !(w->command & (FOR_DIFF | FOR_CONVERT | FOR_MASK | FOR_REPLAY | FOR_MERGE)))
        options->model = BUILTIN_NAME;
    if (taken < w->n_words && w->command & (FOR_DIFF | FOR_CONVERT | FOR_VIEW))
        options->other = w->words[taken++];
    if (taken >= w->n_words) return true;
    return error_set(error, ERROR_USAGE, "\"%.60s\" is one argument too many after the %s%s",
                     w->words[taken],
                     w->command == FOR_MASK     ? "pattern"
                     : w->command == FOR_REPLAY ? "recording"
                     : w->command == FOR_MERGE  ? "file of answers"
                                                : "model",
                     w->command & (FOR_GENERATE | FOR_CHAT) ? "; the prompt is -i TEXT" : "");
}

// --force without a file that it could replace. The other commands always write one, or may: chat
// has /save.
static bool check_force(const Options *o, CommandBit command, Error *error) {
    static const OptionId FILES[] = {OPTION_HTML, OPTION_SVG,    OPTION_PNG,  OPTION_SAVE_LOGITS,
                                     OPTION_OUT,  OPTION_RECORD, OPTION_CACHE};
    static const unsigned MAY_WRITE = FOR_INSPECT | FOR_ATTENTION | FOR_LENS | FOR_COST | FOR_MASK |
                                      FOR_PERPLEXITY | FOR_GENERATE;
    char names[120] = "";
    size_t used = 0;
    if (!o->force || !(command & MAY_WRITE) || o->mode == MODE_CHAT) return true;
    for (size_t i = 0; i < sizeof FILES / sizeof *FILES; i++) {
        const OptionRow *row = &option_rows()[first_row(FILES[i])];
        if (option_given(o, row->id)) return true;
        if ((row->commands & command) && used < sizeof names)
            used += (size_t)snprintf(names + used, sizeof names - used, "%s--%s", used ? ", " : "",
                                     row->name);
    }
    return error_set(error, ERROR_USAGE, "--force goes with %s", names);
}

bool options_parse(Options *options, CommandBit command, int argc, char **argv, Error *error) {
    Walk w = {.command = command, .argc = argc, .argv = argv};
    set_defaults(options);
    if (!walk(&w, options, error)) return false;
    if (options->help) return true;
    if (!take_words(options, &w, error)) return false;
    if (command != FOR_BENCH && options->threads.count > 1)
        return error_set(error, ERROR_USAGE,
                         "-j takes one number of threads; only bench takes several");
    if (!check_force(options, command, error)) return false;
    if (!option_given(options, OPTION_KV) && options->precision == PRECISION_F32)
        options->kv = KV_F32;
    for (int i = 0; i < w.n_skipped && !options->quiet; i++)
        note("%.40s is skipped: %s", w.skipped[i].word, w.skipped[i].option->answer);
    return true;
}

const char *options_first_given(const Options *o, const OptionId *ids, size_t count) {
    for (size_t i = 0; i < count; i++)
        for (const OptionRow *row = option_rows(); option_given(o, ids[i]) && row->name; row++)
            if (row->id == ids[i]) return row->name;
    return NULL;
}

bool only_matches(const TextList *patterns, const char *name) {
    for (int i = 0; i < patterns->count; i++)
        if (name_matches(patterns->texts[i], name)) return true;
    return !patterns->count;
}
