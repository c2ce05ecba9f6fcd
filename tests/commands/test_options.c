// The parser of the command line, the texts that describe it, and what filters a model's text on
// its way to the screen.
#include "commands/commands.h"
#include "commands/shared/option_rows.h"
#include "commands/shared/output.h"
#include "commands/shared/stop_text.h"
#include "tests/test.h"

#include <ctype.h>
#include <math.h>

enum { MAX_ARGUMENTS = 24 };

static const char *const NAMES[] = {"generate", "chat",     "bench",   "perplexity", "tokenize",
                                    "inspect",  "selftest", "convert", "trace",      "diff",
                                    "lens",     "cost",     "mask",    "attention",  "replay",
                                    "view",     "merge"};
enum { N_NAMES = sizeof NAMES / sizeof *NAMES };

// Parses the words of `line` (separated by |) for a command.
static bool parse(Options *options, CommandBit command, const char *line, Error *error) {
    static char copy[1000];
    char *argv[MAX_ARGUMENTS + 1] = {"run"};
    int argc = 1;
    snprintf(copy, sizeof copy, "%s", line);
    for (char *rest = copy, *word; argc < MAX_ARGUMENTS && (word = strsep(&rest, "|"));)
        argv[argc++] = word;
    *error = (Error){0};
    return options_parse(options, command, argc, argv, error);
}

static void refused(CommandBit command, const char *line, const char *because) {
    Options o;
    Error error;
    CHECK(!parse(&o, command, line, &error), "%s was accepted", line);
    CHECK_INT(error.code, ERROR_USAGE);
    CHECK(strstr(error.message, because), "%s: \"%s\" does not say \"%s\"", line, error.message,
          because);
}

Test(options, numbers_are_read_whole) {
    int64_t integer = 0;
    uint64_t whole = 0;
    double number = 0;
    CHECK(parse_integer(&integer, "-12") && integer == -12);
    CHECK(!parse_integer(&integer, "1e3"));
    CHECK(!parse_integer(&integer, ""));
    CHECK(!parse_integer(&integer, "-"));
    CHECK(!parse_integer(&integer, " 1"));
    CHECK(!parse_integer(&integer, "9223372036854775808"));
    CHECK(parse_unsigned(&whole, "18446744073709551615") && whole == UINT64_MAX);
    CHECK(!parse_unsigned(&whole, "18446744073709551616"));
    CHECK(!parse_unsigned(&whole, "-1"));
    CHECK(parse_number(&number, "0.75") && number == 0.75);
    CHECK(parse_number(&number, "1e-45") && number > 0);
    CHECK(!parse_number(&number, "0,75"));
    CHECK(!parse_number(&number, "nan"));
    CHECK(!parse_number(&number, "0x1p3"));
    CHECK(!parse_number(&number, "1.5x"));
    CHECK(!parse_number(&number, ""));
    CHECK(!parse_number(&number, "e"));
}

Test(options, llama2c_flags_keep_their_meaning) {
    Options o;
    Error error;
    CHECK(parse(&o, FOR_GENERATE, "m.bin|-t|0.8|-p|0.5|-s|7|-n|200|-i|Once|-z|tok.bin|-m",
                &error) == false);
    CHECK(parse(&o, FOR_GENERATE, "m.bin|-t|0.8|-p|0.5|-s|7|-n|200|-i|Once", &error));
    CHECK_STRING(o.model, "m.bin");
    CHECK_NEAR(o.temperature, 0.8, 0);
    CHECK_NEAR(o.top_p, 0.5, 0);
    CHECK_INT(o.seed, 7);
    CHECK_INT(o.steps, 200);
    CHECK_STRING(o.prompt, "Once");
    CHECK(parse(&o, FOR_GENERATE, "-z|tok.bin|-m|chat|-y|Be brief|m.bin", &error));
    CHECK_STRING(o.tokenizer, "tok.bin");
    CHECK_STRING(o.system, "Be brief");
    CHECK_INT(o.mode, MODE_CHAT);
    CHECK_STRING(o.model, "m.bin");
}

Test(options, long_names_and_defaults) {
    Options o;
    Error error;
    CHECK(parse(&o, FOR_GENERATE, "m|--temp=0|--top-k|40|--stop|a|--stop|b|--json", &error));
    CHECK_NEAR(o.temperature, 0, 0);
    CHECK_INT(o.top_k, 40);
    CHECK_INT(o.stops.count, 2);
    CHECK_STRING(o.stops.texts[1], "b");
    CHECK(o.json && option_given(&o, OPTION_JSON) && !option_given(&o, OPTION_SEED));
    CHECK_INT(o.max_tokens, 256);
    CHECK_INT(o.kv, KV_F16);
    CHECK_NEAR(o.top_p, 0.9, 0);
    CHECK(parse(&o, FOR_GENERATE, "m|--precision|f32", &error));
    CHECK_INT(o.kv, KV_F32); // follows the precision
    CHECK(parse(&o, FOR_GENERATE, "m|--precision|f32|--kv|f16", &error));
    CHECK_INT(o.kv, KV_F16);
    CHECK(parse(&o, FOR_GENERATE, "m|--precision|f32|--kv|bf16", &error));
    CHECK_INT(o.kv, KV_BF16);
    CHECK(parse(&o, FOR_BENCH, "m|-j|1,2,4|--pp|64", &error));
    CHECK_INT(o.threads.count, 3);
    CHECK_INT(o.threads.values[2], 4);
    CHECK_INT(o.prompt_lengths.values[0], 64);
}

// What bench would take is of no use to those who typed another command.
Test(options, a_number_of_threads_is_refused_as_one_number) {
    refused(FOR_GENERATE, "m|-j|9999", "-j: got \"9999\", wanted an integer 0 .. 256; 0 is all");
    refused(FOR_COST, "m|--threads|x", "--threads: got \"x\", wanted an integer 0 .. 256; 0 is");
    refused(FOR_GENERATE, "m|-j|2,4", "-j takes one number of threads; only bench takes several");
    refused(FOR_BENCH, "m|-j|1,9999", "wanted up to 32 integers, separated by commas, 0 .. 256;");
    refused(FOR_GENERATE, "m|--layers-per-rank|0", "wanted up to 32 integers, separated by commas");
    Options o;
    Error error;
    CHECK(!parse(&o, FOR_GENERATE, "m|-j|9999", &error) && !strstr(error.message, "bench"));
}

Test(options, values_of_other_programs_are_answered) {
    refused(FOR_GENERATE, "m|-p|Once upon", "-p is top-p, as in llama2.c; the prompt is -i");
    refused(FOR_GENERATE, "m|-m|model.gguf", "the model is `run MODEL` or --model MODEL");
    refused(FOR_GENERATE, "m|-t|8", "-t is temperature; threads are -j 8");
    refused(FOR_CHAT, "m|-t8", "(a temperature over 2 is --temp 8)");
    refused(FOR_GENERATE, "m|-n|-1", "-n counts all tokens but the first, as in llama2.c");
    refused(FOR_GENERATE, "m|--n-predict|-1", "-n 0 goes on to the end of the context");
    refused(FOR_CHAT, "m|-c|0", "without it the model's own");
    refused(FOR_GENERATE, "m|Once upon", "the prompt is -i");
}

Test(options, names_of_other_programs_mean_ours) {
    Options o;
    Error error;
    CHECK(parse(&o, FOR_GENERATE,
                "--model|m|--predict|7|--temperature|8|--top_p=0.5|--repeat_last-n|3", &error),
          "%s", error.message);
    CHECK_STRING(o.model, "m");
    CHECK_INT(o.max_tokens, 7);
    CHECK_NEAR(o.temperature, 8, 0);
    CHECK_NEAR(o.top_p, 0.5, 0);
    CHECK_INT(o.repeat_last, 3);
    CHECK(parse(&o, FOR_CHAT, "m|--n_predict|9|--system_prompt|a_b|-t|2", &error));
    CHECK_INT(o.max_tokens, 9);
    CHECK_STRING(o.system, "a_b"); // a value keeps its underscores
    CHECK(parse(&o, FOR_GENERATE, "m|-i|--top_p|--stop=a_b", &error));
    CHECK_STRING(o.prompt, "--top_p");
    CHECK_STRING(o.stops.texts[0], "a_b");
    CHECK(parse(&o, FOR_CONVERT, "--model|m|out", &error));
    CHECK_STRING(o.model, "m");
    CHECK_STRING(o.other, "out");
    refused(FOR_GENERATE, "a|--model|b", "\"a\" is one argument too many");
}

// They take the words that they take in their program, so that what follows keeps its meaning.
Test(options, flags_of_other_programs_are_skipped_where_they_change_nothing) {
    Options o;
    Error error;
    CHECK(parse(&o, FOR_GENERATE,
                "-q|-ngl|99|-fa|--no_mmap|--n-gpu-layers=5|-fa|on|m|-i|-ngl|-ub|512", &error),
          "%s", error.message);
    CHECK_STRING(o.model, "m");
    CHECK_STRING(o.prompt, "-ngl"); // a value
    CHECK(parse(&o, FOR_CHAT, "-q|-cnv|--swa-full|m", &error));
    CHECK_STRING(o.model, "m");
    CHECK(parse(&o, FOR_BENCH, "-q|-r|3|m", &error)); // its own -r
    CHECK_INT(o.repetitions, 3);
    CHECK(parse(&o, FOR_GENERATE, "-q|--|-ngl", &error));
    CHECK_STRING(o.model, "-ngl");
}

Test(options, flags_of_other_programs_that_change_the_text_are_answered_whole) {
    refused(FOR_GENERATE, "m|-cnv", "-cnv is not an option of limpid: a conversation is");
    refused(FOR_CHAT, "m|-no-cnv", "-no-cnv is not");
    refused(FOR_GENERATE, "-hf|a/b", "-hf is not an option of limpid: limpid downloads nothing");
    refused(FOR_CHAT, "m|-sys|Be brief",
            "-sys is not an option of limpid: the system prompt is -y");
    refused(FOR_GENERATE, "m|-np|2", "-np is not");
    refused(FOR_CHAT, "m|-st", "run chat MODEL -i TEXT");
    refused(FOR_GENERATE, "m|-r|User:", "--stop TEXT");
    refused(FOR_GENERATE, "m|--cache_type_k|q8_0", "--kv f32");
    refused(FOR_GENERATE, "m|-l|15043+1", "-l is not an option of limpid: a bias of a token's");
    refused(FOR_CHAT, "m|--samplers|top_k;temperature", "samplers have one order");
    refused(FOR_GENERATE, "m|--kv-bits|8", "--kv f32");
    refused(FOR_GENERATE, "m|--top_nsigma|1", "limpid does not have that sampler");
    refused(FOR_CHAT, "m|--in-prefix|### ",
            "--in-prefix is not an option of limpid: what stands around a message in `run chat`");
    refused(FOR_GENERATE, "m|--in_suffix=a", "is the chat format, --template NAME");
    refused(FOR_BENCH, "--list-devices",
            "--list-devices is not an option of limpid: a program made by `make BACKEND=cuda`");
}

// An option of limpid comes first, whatever other programs mean by its name.
Test(options, no_option_is_taken_for_one_of_another_program) {
    for (const OptionRow *row = option_rows(); row->name; row++)
        for (size_t i = 0; i < N_NAMES; i++) {
            CommandBit bit = command_find(NAMES[i])->bit;
            char word[40], letter[] = {'-', row->short_name, '\0'};
            snprintf(word, sizeof word, "--%s", row->name);
            if (!(row->commands & bit)) continue;
            CHECK(!foreign_option(word, bit), "%s %s", NAMES[i], word);
            CHECK(!row->short_name || !foreign_option(letter, bit), "%s %s", NAMES[i], letter);
        }
    CHECK(foreign_option("-r", FOR_GENERATE) && !foreign_option("-r", FOR_BENCH));
}

Test(options, a_choice_may_be_in_capitals) {
    Options o;
    Error error;
    CHECK(parse(&o, FOR_CONVERT, "m|out|--type|Q4_K_M", &error), "%s", error.message);
    int small = o.type;
    CHECK(parse(&o, FOR_CONVERT, "m|out|--type|q4_k_m", &error), "%s", error.message);
    CHECK_INT(small, o.type);
    CHECK(parse(&o, FOR_GENERATE, "m|--kv|BF16", &error), "%s", error.message);
    CHECK_INT(o.kv, KV_BF16);
}

Test(options, a_misspelt_name_gets_the_nearest) {
    refused(FOR_GENERATE, "m|--tmep|1", "unknown option --tmep: did you mean --temp?");
    refused(FOR_GENERATE, "m|--max-token=1x", "--max-token");
    refused(FOR_GENERATE, "m|--sede=1", "did you mean --seed?");
    refused(FOR_BENCH, "m|--promt-length|8", "did you mean --prompt-length?");
    // Of one dash: getopt reads the first letter alone.
    refused(FOR_GENERATE, "m|-nlg|99", "unknown option -nlg: did you mean -ngl?");
    refused(FOR_GENERATE, "m|-tempp|1", "unknown option -tempp: did you mean --temp?");
    refused(FOR_CHAT, "m|-lora|x", "unknown option -lora: did you mean --lora?");
    refused(FOR_GENERATE, "m|-xyz", "unknown option -x");
    refused(FOR_GENERATE, "m|-t5x", "-t: got \"5x\"");
    refused(FOR_GENERATE, "m|--repeat|1",
            "--repeat is ambiguous: --repeat-penalty, --repeat-last-n");
    refused(FOR_GENERATE, "m|--entirely-else",
            "unknown option --entirely-else (`run COMMAND --help");
    CHECK_STRING(command_nearest("bnech"), "bench");
    CHECK_STRING(command_nearest("perplexty"), "perplexity");
    CHECK(!command_nearest("model"));
    CHECK(!command_nearest(""));
}

Test(options, what_is_out_of_range_is_refused) {
    static const char *const LINES[] = {
        "m|-n|-1",
        "m|-n|2147483648",
        "m|-n|1e3",
        "m|-n|abc",
        "m|-n|",
        "m|-t|-1",
        "m|-t|nan",
        "m|-t|inf",
        "m|-t|1e30",
        "m|-p|1.5",
        "m|-p|nan",
        "m|--top-k|-1",
        "m|-j|-1",
        "m|-j|10000",
        "m|-j|abc",
        "m|-s|-1",
        "m|-s|x",
        "m|-j|1,2",
        "m|--precision|8",
        "m|-s|18446744073709551616",
        "m|--ctx-size|0",
        "m|--stop|",
        "m|--xtc-probability|nan",
        "m|--xtc-probability|1.01",
        "m|--xtc-threshold|0",
        "m|--dry-multiplier|-1",
        "m|--dry-base|0.9",
        "m|--dry-allowed-length|-1",
        "m|--dry-penalty-last-n|-2",
        "m|--dry-sequence-breaker|",
        "m|--mirostat|1",
        "m|--mirostat-lr|inf",
        "m|--mirostat-tau|0",
        "m|--mirostat-ent|5|--mirostat-tau|5",
        "m|--logit-bias|",
        "m|--json=1",
        "m|-t|1|-t|1",
        "m|--temp|1|--temperature|1",
    };
    for (size_t i = 0; i < sizeof LINES / sizeof *LINES; i++)
        refused(FOR_GENERATE, LINES[i], "");
}

Test(options, unknown_and_misplaced_options_are_told_apart) {
    refused(FOR_GENERATE, "m|--bogus", "unknown");
    refused(FOR_GENERATE, "m|-Z", "unknown");
    refused(FOR_GENERATE, "m|--window|3", "not an option of this command");
    refused(FOR_BENCH, "m|-i|x", "not an option of this command");
    refused(FOR_CHAT, "m|--parallel|3", "run generate --prompts FILE --parallel N");
    // And no abbreviation of --json-schema.
    refused(FOR_CHAT, "m|--json|-q", "--json is not an option of this command");
    refused(FOR_GENERATE, "m|-i", "wants a value");
    refused(FOR_GENERATE, "m|--seed", "wants a value");
}

Test(options, a_hundred_thousand_arguments_are_refused) {
    enum { MANY = 100000 };
    char **argv = malloc((MANY + 1) * sizeof *argv);
    for (int i = 0; i < MANY; i++)
        argv[i] = "x";
    argv[MANY] = NULL;
    Options o;
    Error error = {0};
    bool good = options_parse(&o, FOR_GENERATE, MANY, argv, &error);
    free(argv);
    CHECK(!good);
    CHECK_INT(error.code, ERROR_USAGE);
}

// The length of an option's long name that begins at `text`; 0: none does.
static int long_option(const char *text) {
    int length = 2;
    if (strncmp(text, "--", 2) != 0 || !isalpha((unsigned char)text[2])) return 0;
    while (isalpha((unsigned char)text[length]) || text[length] == '-')
        length++;
    return length;
}

// Every option that a help text names is one of the command, and the text fits a screen.
Test(options, help_names_what_exists_and_fits_a_screen) {
    for (size_t i = 0; i < N_NAMES; i++) {
        const Command *command = command_find(NAMES[i]);
        CHECK(command, "%s", NAMES[i]);
        int lines = 0, column = 0;
        for (const char *c = command->help; *c; c++) {
            column = *c == '\n' ? 0 : column + 1;
            lines += *c == '\n';
            CHECK(column <= 80, "%s: line %d is longer than 80", NAMES[i], lines + 1);
            int length = c == command->help || !isalnum(c[-1]) ? long_option(c) : 0;
            if (!length) continue;
            char line[80];
            snprintf(line, sizeof line, "m|%.*s", length, c);
            Options o;
            Error error;
            if (!parse(&o, command->bit, line, &error))
                CHECK(strstr(error.message, "wants a value") || strstr(error.message, "goes with"),
                      "%s: %s", NAMES[i], error.message);
        }
        CHECK(lines <= 24, "%s: %d lines", NAMES[i], lines);
        CHECK(strstr(command->help, "    ./run "), "%s: no example", NAMES[i]);
    }
}

// A file of the source tree as text, owned; "\\-" (troff's hyphen) becomes "-".
static char *read_source(const char *path) {
    size_t size = 0, used = 0;
    char *bytes = test_read_file(path, &size), *text = malloc(size + 1);
    CHECK(bytes && text, "%s", path);
    for (size_t i = 0; i < size; i++)
        if (bytes[i] != '\\' || i + 1 == size || bytes[i + 1] != '-') text[used++] = bytes[i];
    text[used] = '\0';
    free(bytes);
    return text;
}

static bool some_command_has(const char *option, int length) {
    static const char *const OF_PROGRAM[] = {"--help", "--version", "--limits"};
    char line[80];
    snprintf(line, sizeof line, "m|%.*s", length, option);
    for (int i = 0; i < 3; i++)
        if (!strcmp(line + 2, OF_PROGRAM[i])) return true;
    for (size_t i = 0; i < N_NAMES; i++) {
        Options o;
        Error error;
        if (parse(&o, command_find(NAMES[i])->bit, line, &error)) return true;
        if (strstr(error.message, "wants a value")) return true;
    }
    return false;
}

// Does a line that begins with `begin` have this word?
static bool line_has(const char *text, const char *begin, const char *word) {
    size_t length = strlen(word);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, begin, strlen(begin)) != 0) continue;
        const char *end = strchrnul(line, '\n');
        for (const char *c = line + 1; c + length <= end; c++)
            if (!strncmp(c, word, length) && !isalnum((unsigned char)c[-1]) &&
                !isalnum((unsigned char)c[length]))
                return true;
    }
    return false;
}

// The options of generate and chat by their first names; the others are other programs'.
Test(options, of_generate_and_chat_are_in_the_manual_page) {
    char *text = read_source("docs/limpid.1");
    OptionId last = (OptionId)-1;
    for (const OptionRow *row = option_rows(); row->name; last = row->id, row++) {
        char written[80];
        snprintf(written, sizeof written, "--%s", row->name);
        if (row->id != last && row->commands & (FOR_GENERATE | FOR_CHAT))
            CHECK(strstr(text, written), "%s", written);
    }
    free(text);
}

// Every command is in the manual page, and every option in it exists.
Test(options, the_manual_page_names_what_exists) {
    char *text = read_source("docs/limpid.1"), *debugger = strstr(text, ".SH DEBUGGER");
    for (size_t i = 0; i < N_NAMES; i++)
        CHECK(line_has(text, ".B", NAMES[i]), "no %s", NAMES[i]);
    for (const char *c = text; *c; c++) {
        if (c == debugger) c = strstr(c, "\n.SH "); // gdb's commands have options of their own
        int length = c > text && !isspace((unsigned char)c[-1]) ? 0 : long_option(c);
        if (length) CHECK(some_command_has(c, length), "%.*s", length, c);
    }
    free(text);
}

// ---- filters of a model's text ----

static void filtered(const char *in, size_t length, const char *wanted) {
    char out[200];
    size_t n = terminal_filter(out, in, length);
    out[n] = '\0';
    CHECK_STRING(out, wanted);
}

#define BAD "\xef\xbf\xbd"
Test(output, nothing_active_reaches_a_terminal) {
    filtered("a\tb\n", 4, "a\tb\n");
    filtered("\x1b[2J", 4, BAD "[2J");
    filtered("\x1b]0;x\a", 6, BAD "]0;x" BAD);
    filtered("a\rb\bc\x7f", 6, "a" BAD "b" BAD "c" BAD);
    filtered("\xc2\x9b"
             "31m",
             5, BAD "31m"); // C1 as UTF-8
    filtered("\x9b"
             "31m",
             4, BAD "31m");           // and as a byte
    filtered("\xe2\x80\xae", 3, BAD); // right-to-left override
    filtered("\xe2\x81\xa6", 3, BAD); // isolate
    filtered("\xc3\xa9\xe4\xb8\xad\xf0\x9f\x98\x80", 9, "\xc3\xa9\xe4\xb8\xad\xf0\x9f\x98\x80");
    filtered("\xe4\xb8", 2, BAD BAD); // half a character
    filtered("a\0b", 3, "a" BAD "b");
}

static void check_bar(double share, double seconds, int columns, const char *wanted) {
    char line[120];
    int width = progress_line(line, sizeof line, "loading", share, seconds, columns);
    CHECK_STRING(line, wanted);
    CHECK(width == (int)strlen(line) && width < columns, "%d columns", width);
}

Test(output, a_progress_bar_has_the_time_left_and_fits_the_window) {
    check_bar(0.5, 7, 80, "loading [###############...............]  50 %, 0:07 left");
    check_bar(0.5, 7, 40, "loading [######......]  50 %, 0:07 left");
    check_bar(0.01, 100, 40, "loading [.........]   1 %, 2:45:00 left");
    check_bar(0, 1, 40, "loading [.......................]   0 %");
    check_bar(NAN, 1, 40, "loading [.......................]   0 %");
    check_bar(1.5, 9, 40, "loading [############] 100 %, 0:00 left");
    check_bar(0.5, 7, 28, " 50 %, 0:07 left");
    check_bar(0.5, 7, 8, " 50 %, ");
    check_bar(0.5, 7, 1, "");
}

// Feeds `text` in pieces of every size; what comes out must be `wanted`.
static void stops_at(const TextList *stops, const char *text, const char *wanted,
                     bool wants_found) {
    for (size_t piece = 1; piece <= strlen(text); piece++) {
        StopText stop = {.stops = stops};
        char shown[200] = "";
        const char *out = NULL;
        size_t length = 0;
        bool found = false;
        for (size_t i = 0; i < strlen(text) && !found; i += piece) {
            size_t n = strlen(text) - i < piece ? strlen(text) - i : piece;
            CHECK(stop_text_push(&stop, text + i, n, &out, &length, &found, NULL));
            strncat(shown, out, length);
        }
        stop_text_flush(&stop, &out, &length);
        strncat(shown, out, length);
        stop_text_free(&stop);
        CHECK_STRING(shown, wanted);
        CHECK_INT(found, wants_found);
    }
}

Test(stop_text, ends_before_the_text_however_it_is_cut) {
    TextList two = {{"END", "nn"}, 2};
    stops_at(&two, "one ENxENEND more", "one ENxEN", true);
    stops_at(&two, "a banner END", "a ba", true);
    stops_at(&two, "never EN", "never EN", false);
    TextList overlap = {{"aab"}, 1};
    stops_at(&overlap, "aaaaab!", "aaa", true);
    TextList none = {.count = 0};
    stops_at(&none, "plain", "plain", false);
}

// The option as it was typed, and what is said of a letter only to those who typed that.
Test(options, messages_name_what_was_typed) {
    refused(FOR_GENERATE, "m|--temp|0.5f", "--temp: got \"0.5f\", wanted a number 0 .. 1e+06");
    refused(FOR_GENERATE, "m|--top_p=1.5", "--top-p: got \"1.5\", wanted a number 0 .. 1");
    refused(FOR_GENERATE, "m|-p|3", "-p: got \"3\", wanted a number 0 .. 1; -p is top-p");
    refused(FOR_GENERATE, "m|--n-predict|4|--max-tokens|4",
            "--max-tokens is given twice (--max-tokens, ");
    refused(FOR_GENERATE, "m|-s|1|--seed|2", "--seed is given twice");
    Options o;
    Error error = {0};
    CHECK(!parse(&o, FOR_GENERATE, "m|--temp|0.5f", &error) && !strstr(error.message, "threads"));
}
