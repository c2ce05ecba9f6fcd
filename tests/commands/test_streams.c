// Standard streams, signals, terminals and resource limits, with the program as a child process.
#include "base/error.h"
#include "base/text.h"
#include "tests/support/files/conversions.h"
#include "tests/support/program.h"

#include <unistd.h>

// A tiny model with this context, and with this vocabulary unless it is NULL.
static const char *tiny_model(const char *name, const char *const *tokens, uint32_t context) {
    GgufFile *file = gguf_tiny_llama();
    if (tokens) gguf_set_strings(file, "tokenizer.ggml.tokens", tokens, 8);
    gguf_set_text(file, "general.name", tokens ? "\x1b]0;evil\a" : "tiny");
    gguf_set_u32(file, "llama.context_length", context);
    size_t size = 0;
    uint8_t *bytes = gguf_write(file, &size);
    gguf_file_free(file);
    const char *path = test_temporary(name);
    test_write_file(path, bytes, size);
    free(bytes);
    return path;
}

static void shell_status(const char *script, int wanted) {
    TestRun r = program_shell(script);
    CHECK(r.status == wanted, "%s: exit %d, wanted %d; %s", script, r.status, wanted, r.err);
    test_run_free(&r);
}

Test(streams, output_that_cannot_be_written_is_exit_4) {
    static const char *const WORDS[] = {
        "$MODEL -n 5 -i x",
        "$MODEL -n 5 -i x --json",
        "$MODEL -n 5 -i x --ids",
        "$MODEL -n 5 -i x --logprobs 2",
        "chat $MODEL --template llama2 -i x --max-tokens 5",
        "bench $MODEL --pp 8 --tg 4 -r 1 --no-limits",
        "perplexity $MODEL -f Makefile --window 64",
        "tokenize $MODEL -i x",
        "inspect $MODEL",
        "selftest $MODEL",
        "--help",
        "--limits",
    };
    if (access("/dev/full", W_OK)) SKIP("no /dev/full on this machine");
    for (size_t i = 0; i < sizeof WORDS / sizeof *WORDS; i++) {
        char script[300];
        snprintf(script, sizeof script, "$RUN %s >/dev/full", WORDS[i]);
        TestRun r = program_shell(script); // one line, without statistics beside it
        check_refused(&r, 4, "standard output: No space left on device");
    }
}

// A byte-level vocabulary whose merge names a token that it lacks.
static const char *model_of_bad_merges(void) {
    static const char *const TOKENS[] = {"<|end|>", "a", "b", "c", "d", "e", "f", "g"};
    static const char *const MERGES[] = {"a z"};
    GgufFile *file = gguf_tiny_llama();
    gguf_set_text(file, "tokenizer.ggml.model", "gpt2");
    gguf_set_strings(file, "tokenizer.ggml.tokens", TOKENS, 8);
    gguf_set_strings(file, "tokenizer.ggml.merges", MERGES, 1);
    size_t size = 0;
    uint8_t *bytes = gguf_write(file, &size);
    gguf_file_free(file);
    const char *path = test_temporary("merges.gguf");
    test_write_file(path, bytes, size);
    free(bytes);
    return path;
}

Test(streams, errors_of_a_tokenizer_in_a_gguf_name_the_file) {
    static const char *const WORDS[] = {
        "generate|%s|-i|x",        "tokenize|-z|%s|-i|x",      "chat|%s|-i|x",
        "trace|%s|-i|x|-o|%s.out", "perplexity|%s|-f|LICENSE", "attention|%s|-i|x"};
    char path[600];
    snprintf(path, sizeof path, "%s", model_of_bad_merges());
    for (size_t i = 0; i < sizeof WORDS / sizeof *WORDS; i++) {
        char line[900];
        snprintf(line, sizeof line, WORDS[i], path, path);
        TestRun r = program("%s", line);
        check_refused(&r, ERROR_FILE, "merges.gguf: merge 0: ");
    }
}

// What a path may have in it reaches no terminal, in results, notes and errors.
Test(streams, control_bytes_of_a_path_are_escaped) {
    static const char *const WORDS[] = {
        "inspect|%s",
        "%s|-i|x|--max-tokens|2|-v",
        "perplexity|%s|-f|LICENSE|--window|32|--windows|1",
        "perplexity|%s|-f|LICENSE|--window|32|--windows|1|--save-logits|%s.logits",
        "perplexity|%s|-f|LICENSE|--window|32|--windows|1|--kl|%s.logits",
        "convert|%s|%s.gguf",
        "convert|%s|%s.directory",
        "trace|%s|-i|x|-o|%s.safetensors",
        "diff|%1$s.safetensors|%1$s.safetensors",
        "bench|%s|--pp|4|--tg|4|-r|1|--no-limits",
        "bench|%s|--no-cache|--gen|2|-r|1",
        "cost|%s|--seq|8",
        "%s.absent|-i|x",
        "diff|%1$s.safetensors|%1$s",
        "convert|%s|%1$s"};
    char path[600], directory[500];
    snprintf(directory, sizeof directory, "%s", test_temporary(""));
    snprintf(path, sizeof path, "%s/a\x1b[31m\ab.gguf", directory);
    size_t size = 0;
    char *bytes = test_read_file(small_model(), &size);
    test_write_file(path, bytes, size);
    free(bytes);
    for (size_t i = 0; i < sizeof WORDS / sizeof *WORDS; i++) {
        char line[1500];
        snprintf(line, sizeof line, WORDS[i], path, path);
        TestRun r = program("%s", line);
        CHECK(!memchr(r.out, '\x1b', r.out_size) && !memchr(r.err, '\x1b', r.err_size), "%s: %s%s",
              WORDS[i], r.out, r.err);
        CHECK(!memchr(r.out, '\a', r.out_size) && !memchr(r.err, '\a', r.err_size), "%s", WORDS[i]);
        bool shown = strstr(r.out, "\\x1b[31m\\x07b") || strstr(r.err, "\\x1b[31m\\x07b") ||
                     strstr(r.err, "this build reads no");
        CHECK(shown || i == 1 || i == 2 || i == 4 || i == 8, "%s: %s%s", WORDS[i], r.out, r.err);
        test_run_free(&r);
    }
}

// The error line is the only line: no statistics or notes beside it.
Test(streams, nothing_is_told_beside_an_error) {
    TestRun r = program("chat|%s|-i|hi|--template|%s", small_model(), "chatml");
    check_refused(&r, ERROR_USAGE, "needs the token <|im_start|>");
    r = program("chat|%s|-i|hi|--template|llama2|-c|%s", small_model(), "4");
    check_refused(&r, ERROR_USAGE, "the context room for 4");
}

Test(streams, closed_streams_are_not_taken_by_files) {
    shell_status("$RUN $MODEL -n 5 -q -i x >&-", 4);
    shell_status("$RUN $MODEL -n 5 -q -i x <&- >&- 2>&-", 4);
    shell_status("$RUN $MODEL -n 5 -q <&-", 4);
    TestRun r = program_shell("$RUN $MODEL -t 0 -n 5 -i 'Once upon' 2>&-");
    check_status(&r, 0);
    CHECK_STRING(r.out, "Once upon a time,\n"); // no statistics among it
    test_run_free(&r);
}

Test(streams, a_closed_pipe_ends_quietly) {
    static const char ENDLESS[] = "{ $RUN %s -n 0 -i a -q --ignore-eos; echo $? >&2; } | head -c 1";
    char script[700] = "trap '' PIPE; ";
    size_t trap = strlen(script);
    snprintf(script + trap, sizeof script - trap, ENDLESS, conversion_endless());
    TestRun r = program_shell(script + trap);
    CHECK_STRING(r.err, "141\n");
    test_run_free(&r);
    r = program_shell(script);
    CHECK_STRING(r.err, "141\n"); // as if it had not been ignored
    test_run_free(&r);
}

Test(streams, ctrl_c_ends_the_text_with_statistics_and_130) {
    char line[600];
    snprintf(line, sizeof line, "%s|-n|0|-i|a|--ignore-eos|-s|1", conversion_endless());
    TestRun r = program_interrupted(line, "ab");
    CHECK_INT(r.status, 130); // by the signal itself, as a shell wants it
    const char *statistics = strstr(r.out, "\nrun: ");
    // Of a single token there is no rate yet.
    CHECK(statistics && strstr(statistics, "; first in "), "%s", r.out);
    CHECK(!strstr(r.out, "interrupted"), "%s", r.out);
    test_run_free(&r);
}

Test(streams, ctrl_c_stops_the_answer_and_not_the_chat) {
    static const TypedKeys KEYS[] = {
        {"> ", "a b a\n"}, {"ab", "\x03"}, {"> ", "b a\n"}, {"ab", "\x03"}, {"> ", "\x04"}};
    char line[600];
    setenv("TERM", "dumb", 1); // with the line editor: tests/chat/
    snprintf(line, sizeof line, "chat|%s|--template|llama2|--ignore-eos|-c|500000|-s|1",
             conversion_endless());
    TestRun r = program_typed(line, KEYS, sizeof KEYS / sizeof *KEYS);
    CHECK(r.status == 0, "exit %d: %s", r.status, r.out);
    const char *first = strstr(r.out, "run: prompt ");
    CHECK(first && strstr(first + 1, "run: prompt "), "two answers: %s", r.out);
    CHECK(!strstr(r.out, "is full"), "%s", r.out);
    test_run_free(&r);
}

// The chat's prompt mark is bold on a terminal, unless TERM, NO_COLOR or --color forbid it.
Test(streams, no_color_and_dumb_terminals_are_honoured) {
    static const struct {
        const char *no_color, *term, *more;
        bool bold;
    } CASES[] = {
        {NULL, "xterm", "", true},
        {"1", "xterm", "", false},
        {"", "xterm", "", true},
        {NULL, "dumb", "", false},
        {NULL, "xterm", "|--color|never", false},
        {"1", "dumb", "|--color|always", true},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        if (CASES[i].no_color)
            setenv("NO_COLOR", CASES[i].no_color, 1);
        else
            unsetenv("NO_COLOR");
        setenv("TERM", CASES[i].term, 1);
        char line[600];
        snprintf(line, sizeof line, "chat|%s|--template|llama2|-q|--no-history%s", small_model(),
                 CASES[i].more);
        TestRun r = program_typed(line, &(TypedKeys){">", "\x04"}, 1);
        CHECK(r.status == 0, "case %zu: exit %d", i, r.status);
        CHECK(!strstr(r.out, "\x1b[1m") == !CASES[i].bold, "case %zu: %s", i, r.out);
        test_run_free(&r);
    }
}

// ---- --color surprise ----

static void use_colors(const char *depth) {
    unsetenv("NO_COLOR");
    setenv("TERM", "xterm", 1);
    setenv("COLORTERM", depth, 1);
}

// Text without its escape sequences, malloced. What is between two of them is whole characters.
static char *without_escapes(const char *text) {
    char *out = malloc(strlen(text) + 1), *end = out;
    while (*text) {
        size_t run = strcspn(text, "\x1b");
        for (size_t i = 0; i < run;) {
            uint32_t character;
            size_t n = utf8_decode(text + i, run - i, &character);
            CHECK(n, "an escape sequence cuts a character: %s", text);
            i += n;
        }
        memcpy(end, text, run);
        end += run;
        text += run;
        if (*text) text += strcspn(text, "m") + 1;
    }
    *end = '\0';
    return out;
}

static bool is_reset(const char *text) {
    const char *set = NULL, *reset = NULL;
    for (const char *at = text; (at = strstr(at, "\x1b[48;")); at++)
        set = at;
    for (const char *at = text; (at = strstr(at, "\x1b[49m")); at++)
        reset = at;
    return set && reset && set < reset;
}

// Its colours are the program's own, and no bytes to be spelt out.
Test(streams, surprise_draws_its_scale_on_a_terminal) {
    use_colors("");
    TestRun r = program_typed(
        test_text("%s|-i|Once upon|-t|0|--max-tokens|3|--color|surprise", small_model()), NULL, 0);
    check_status(&r, 0);
    CHECK(strstr(r.out, "run: 0 \x1b[") && strstr(r.out, " bits and more"), "%s", r.out);
    CHECK(!strstr(r.out, "\\x1b"), "%s", r.out);
    test_run_free(&r);
}

// The same text; characters of several tokens stay whole; a newline and the end have no colour.
Test(streams, surprise_colours_the_text_and_changes_no_byte_of_it) {
    static const char *const PROMPTS[] = {"Once upon a time",
                                          "H\u00e4llo \U0001f642 world\nthe end"};
    use_colors("");
    for (size_t i = 0; i < 2; i++) {
        TestRun plain = program("%s|-i|%s|-t|0|--max-tokens|30", small_model(), PROMPTS[i]);
        TestRun r =
            program("%s|-i|%s|-t|0|--max-tokens|30|--color|surprise", small_model(), PROMPTS[i]);
        check_status(&r, 0);
        char *text = without_escapes(r.out);
        CHECK_STRING(text, plain.out);
        CHECK(strstr(r.out, "\x1b[48;5;"), "one of 256 colours: %s", r.out);
        CHECK(is_reset(r.out), "%s", r.out);
        CHECK(i == 0 || strstr(r.out, "\x1b[49m\n"), "a newline has no colour: %s", r.out);
        CHECK(strstr(r.err, "-log2 p of each token") && strstr(r.err, "temperature 1"), "%s",
              r.err);
        free(text);
        test_run_free(&plain);
        test_run_free(&r);
    }
}

// The lightness of the backgrounds in order; returns how many.
static int backgrounds(double *out, int most, const char *text) {
    int count = 0, red, green, blue;
    for (const char *at = text; (at = strstr(at, "\x1b[48;2;")); at++) {
        CHECK(count < most && sscanf(at + 7, "%d;%d;%dm", &red, &green, &blue) == 3, "%s", at);
        out[count++] = 0.2126 * red + 0.7152 * green + 0.0722 * blue;
    }
    return count;
}

// The less likely of two tokens by --logprobs has no darker background; the sampler's own
// temperature and cuts do not matter.
Test(streams, surprise_is_that_of_the_unmodified_distribution) {
    enum { TOKENS = 40 };
    double shown[2 * TOKENS], logprobs[TOKENS];
    static const char OPTIONS[] = "-t|1.7|--top-k|50|-s|5|--repeat-penalty|1.3|--max-tokens|40";
    char value[4000];
    int count = 0;
    use_colors("truecolor");
    TestRun r = program("%s|-i|Once|%s|--logprobs|0", small_model(), OPTIONS);
    for (const char *at = r.out; *at && count < TOKENS; at = strchr(at, '\n') + 1)
        logprobs[count++] = atof(json_value(value, at, "logprob"));
    CHECK_INT(count, TOKENS);
    test_run_free(&r);
    r = program("%s|-i|Once|%s|--color|surprise", small_model(), OPTIONS);
    CHECK_INT(backgrounds(shown, 2 * TOKENS, r.out), 1 + TOKENS); // the prompt's token comes first
    test_run_free(&r);
    for (int i = 0; i < TOKENS; i++)
        for (int j = 0; j < TOKENS; j++)
            CHECK(logprobs[i] <= logprobs[j] || shown[1 + i] <= shown[1 + j], "%g %g: %g %g",
                  logprobs[i], logprobs[j], shown[1 + i], shown[1 + j]);
}

// A token of the prompt has the colour that it has where the model writes it itself.
Test(streams, surprise_of_a_prompt_is_that_of_its_tokens) {
    use_colors("truecolor");
    TestRun written =
        program("%s|-i|Once upon|-t|0|--max-tokens|30|--color|surprise|-q", small_model());
    char *text = without_escapes(written.out);
    text[strlen(text) - 1] = '\0';
    TestRun given =
        program("%s|-i|%s|-t|0|--max-tokens|0|--color|surprise|-q", small_model(), text);
    check_status(&given, 0);
    CHECK_STRING(given.out, written.out);
    CHECK_INT(given.err_size, 0);
    free(text);
    test_run_free(&written);
    test_run_free(&given);
}

Test(streams, surprise_is_plain_where_colours_are_not_wanted) {
    use_colors("");
    static const char *const MODES[] = {"auto", "never", "always", "surprise"};
    for (int i = 0; i < 4; i++) {
        if (i == 3) setenv("NO_COLOR", "1", 1);
        TestRun r = program("%s|-i|Once|-t|0|--max-tokens|9|--color|%s", small_model(), MODES[i]);
        check_status(&r, 0);
        CHECK(!strchr(r.out, '\x1b') && !strchr(r.err, '\x1b'), "%s", r.out);
        CHECK(i < 3 || strstr(r.err, "the text has no colours"), "%s", r.err);
        test_run_free(&r);
    }
    TestRun r = program("%s|-i|Once|--color|surprise|--ids", small_model());
    check_refused(&r, ERROR_USAGE, "colours text");
    r = program("%s|-m|chat|--color|surprise", small_model());
    check_refused(&r, ERROR_USAGE, "not of chat");
    r = program("%s|-m|chat|--json", small_model());
    check_refused(&r, ERROR_USAGE, "--json does not go with -m chat");
    r = program("%s|-m|chat|--template|llama2|-i|a|--max-tokens|2|--color|never|-q", small_model());
    check_status(&r, 0);
    test_run_free(&r);
    r = program("perplexity|%s|--color|surprise", small_model());
    check_refused(&r, ERROR_USAGE, "auto|always|never");
}

Test(streams, surprise_leaves_no_colour_behind_at_ctrl_c) {
    char line[600];
    use_colors("");
    snprintf(line, sizeof line, "%s|-n|0|-i|a|--ignore-eos|-s|1|--color|surprise",
             conversion_endless());
    TestRun r = program_interrupted(line, "mb\x1b[39m");
    CHECK_INT(r.status, 130);
    char *statistics = strstr(r.out, "\nrun: ");
    CHECK(statistics, "%s", r.out);
    *statistics = '\0';
    CHECK(is_reset(r.out), "%s", r.out);
    test_run_free(&r);
}

// A character of the prompt that is several tokens is shown whole on a terminal.
Test(streams, a_prompt_is_echoed_in_whole_characters) {
    char line[600];
    snprintf(line, sizeof line, "%s|-i|H\u00e4llo \U0001f642|--max-tokens|0|-q", small_model());
    TestRun r = program_terminal(line);
    check_status(&r, 0);
    CHECK(strstr(r.out, "H\u00e4llo \U0001f642"), "%s", r.out);
    test_run_free(&r);
}

Test(streams, the_locale_changes_nothing) {
    TestRun plain = program_shell("$RUN $MODEL -t 0.5 -p 0.9 -s 3 -n 20 -q");
    TestRun other = program_shell("LC_ALL=de_DE.UTF-8 LANG=tr_TR HOME= TMPDIR=/nonexistent "
                                  "$RUN $MODEL -t 0.5 -p 0.9 -s 3 -n 20 -q");
    check_status(&other, 0);
    CHECK_STRING(plain.out, other.out);
    test_run_free(&plain);
    test_run_free(&other);
}

// Cuts the model file in half while the program waits for its prompt: it has mapped the file and
// not read the weights yet. (A chat has read them, if the backend packs weights.) Where it ends
// before the prompt comes, writing that must not end the shell too.
static TestRun cut_short(const char *words) {
    char script[1500];
    snprintf(script, sizeof script,
             "D=$(mktemp -d); T=$D/cut.gguf; cp $MODEL $T; chmod u+w $T; mkfifo $D/in; "
             "$RUN %s <$D/in & P=$!; exec 3>$D/in; "
             "for i in $(seq 500); do grep -q cut.gguf /proc/$P/maps && break; sleep 0.02; done; "
             "truncate -s 1700000 $T; trap '' PIPE; echo Once upon 2>/dev/null >&3; exec 3>&-; "
             "wait $P; E=$?; "
             "rm -r $D; exit $E",
             words);
    return program_shell(script);
}

Test(streams, a_model_cut_short_before_its_weights_are_read) {
    static const char *const WORDS[] = {"$T -n 5 -q", "$T -n 5 --json", "perplexity $T"};
    for (size_t i = 0; i < sizeof WORDS / sizeof *WORDS; i++) {
        TestRun r = cut_short(WORDS[i]);
        check_refused(&r, ERROR_IO, "cut.gguf: the file was cut short while");
    }
}

Test(streams, a_model_cut_short_in_a_chat) {
    TestRun r = cut_short("chat $T --template llama2 -t 0 --max-tokens 5 -q");
    if (r.status) {
        check_refused(&r, ERROR_IO, "cut short");
        return;
    }
    TestRun whole = program_shell("echo Once upon | "
                                  "$RUN chat $MODEL --template llama2 -t 0 --max-tokens 5 -q");
    CHECK_STRING(r.out, whole.out);
    test_run_free(&whole);
    test_run_free(&r);
}

// ---- tokens with control characters ----

// A model whose tokens are characters that a terminal acts on.
static const char *evil_model(void) {
    static const char *const TOKENS[] = {
        "<unk>", "<s>", "</s>", "\xe2\x96\x81", "\x1b[2J\a", "\xc2\x9bm", "\r\b\xe2\x80\xae",
        "<0x1B>"};
    return tiny_model("evil.gguf", TOKENS, 64);
}

static void check_harmless(const TestRun *r) {
    for (size_t i = 0; i < r->out_size; i++) {
        unsigned char c = (unsigned char)r->out[i];
        CHECK(c >= 0x20 || c == '\n' || c == '\t' || (c == '\r' && r->out[i + 1] == '\n'),
              "byte %02x at %zu", c, i);
        CHECK(c != 0x7f && !(c == 0xc2 && (unsigned char)r->out[i + 1] < 0xa0), "at %zu", i);
    }
    CHECK(!strstr(r->out, "\xe2\x80\xae"), "a bidirectional override");
}

Test(streams, nothing_active_reaches_a_terminal) {
    static const char *const LINES[] = {
        "%s|-i||--temp|50|-p|1|-s|1|-n|60|--ignore-eos|-q",
        "%s|-i||--temp|50|-p|1|-s|2|-n|60|--ignore-eos|--json|-q",
        "%s|-i||--temp|50|-p|1|-s|3|-n|60|--ignore-eos|--logprobs|3|-q",
        "inspect|%s|-v",
        "inspect|%s|--json",
        "tokenize|%s|--decode|-i|4 5 6 7",
        "tokenize|%s|--pieces|-i|\x1b[2J\a\r\b",
    };
    for (size_t i = 0; i < sizeof LINES / sizeof *LINES; i++) {
        char line[600];
        snprintf(line, sizeof line, LINES[i], evil_model());
        TestRun r = program_terminal(line);
        CHECK(r.status == 0, "%s: exit %d, %s", line, r.status, r.out);
        check_harmless(&r);
        test_run_free(&r);
    }
}

Test(streams, a_pipe_gets_the_bytes_as_they_are) {
    TestRun r = program("tokenize|%s|--decode|-i|4 5 6 7", evil_model());
    CHECK_STRING(r.out, "\x1b[2J\a\xc2\x9bm\r\b\xe2\x80\xae\x1b");
    test_run_free(&r);
}

// With scarce resources the program answers or prints one error line; no signal kills it.
Test(streams, small_limits_are_an_exit_code) {
    // Sanitizers need a larger stack.
    if (!TEST_SANITIZED) shell_status("ulimit -s 128; $RUN $MODEL -n 5 -q -i x >/dev/null", 0);
    shell_status("T=$(mktemp); ulimit -f 0; $RUN $MODEL -n 5 -q -i x >$T; E=$?; rm $T; exit $E", 4);
}

// Address space in steps: memory runs out at another place each time. Status 127 is the loader's,
// from before main.
Test(streams, little_memory_is_exit_5_or_enough) {
    if (TEST_SANITIZED) SKIP("sanitizers need terabytes of address space");
    int enough = 0;
    for (int megabytes = 8; megabytes <= 1024; megabytes += megabytes / 4) {
        char script[100];
        snprintf(script, sizeof script, "ulimit -v %d; $RUN $MODEL -n 5 -q -i x -j 2",
                 1024 * megabytes);
        TestRun r = program_shell(script);
        enough += r.status == 0;
        if (r.status == ERROR_MEMORY && megabytes < 64) {
            check_refused(&r, ERROR_MEMORY, "");
            continue;
        }
        CHECK(r.status == 0 || (r.status == 127 && megabytes < 64), "%d MB: exit %d, %s", megabytes,
              r.status, r.err);
        test_run_free(&r);
    }
    CHECK(enough, "1 GB is not enough");
}

// A file with one NaN among its weights: the error line comes before any text.
Test(streams, a_nan_among_the_weights_is_exit_7) {
    size_t size = 0;
    GgufFile *file = gguf_tiny_llama();
    float nan = NAN;
    memcpy(gguf_find_tensor(file, "blk.0.attn_norm.weight")->data + 2 * sizeof nan, &nan,
           sizeof nan);
    uint8_t *bytes = gguf_write(file, &size);
    gguf_file_free(file);
    const char *path = test_temporary("nan.gguf");
    test_write_file(path, bytes, size);
    free(bytes);
    static const char *const LINES[] = {"%s|-i|ab", "perplexity|%s|-f|LICENSE",
                                        "chat|%s|--template|llama2|-i|ab",
                                        "bench|%s|--pp|8|--tg|4|-r|1|--no-limits"};
    for (size_t i = 0; i < sizeof LINES / sizeof *LINES; i++) {
        TestRun r = program(LINES[i], path);
        check_refused(&r, ERROR_NONFINITE, "layers.0.att_norm at position 0 holds nan");
    }
}

// Every command runs on a tiny model.
Test(streams, every_command_runs_on_a_tiny_file) {
    static const char *const LINES[] = {
        "%s|-i|ab|-n|8|-q",
        "generate|%s|-i|ab|--json|-q",
        "bench|%s|--no-limits|-r|1|--gen|4|--pp|8|-q",
        "tokenize|%s|-i|abab",
        "inspect|%s",
        "selftest|%s",
        "chat|%s|--template|llama2|-i|ab|--max-tokens|4|-q",
    };
    const char *path = tiny_model("tiny.gguf", NULL, 64);
    for (size_t i = 0; i < sizeof LINES / sizeof *LINES; i++) {
        TestRun r = program(LINES[i], path);
        CHECK(r.status == 0, "%s: exit %d, %s", LINES[i], r.status, r.err);
        CHECK(r.out_size > 0, "%s", LINES[i]);
        test_run_free(&r);
    }
}

Test(streams, inspect_warns_of_a_tokenizer_that_is_too_small) {
    const char *few = tiny_model("few.gguf", NULL, 64);
    TestRun r = program("inspect|builtin|-z|%s", few);
    CHECK(strstr(r.out, "\nwarning      the tokenizer has ") &&
              strstr(r.out, " tokens, the model 2048: the others have no text\n"),
          "%s%s", r.out, r.err);
    test_run_free(&r);
    r = program("inspect|%s", few);
    CHECK(!strstr(r.out, "warning"), "%s", r.out);
    test_run_free(&r);
}

Test(streams, what_is_no_model_is_one_line) {
    TestRun r = program("%s", "/nonexistent");
    check_refused(&r, ERROR_IO, "\"/nonexistent\" is neither a command nor a file");
    r = program("%s", "bnech|model.gguf|--json");
    check_refused(&r, ERROR_USAGE,
                  "\"bnech\" is neither a command nor a file: did you mean bench?");
    r = program("%s", "Once upon a time");
    check_refused(&r, ERROR_USAGE,
                  "\"Once upon a time\" is neither a command nor a file: a prompt is given by -i");
    r = program("generate|%s", "/nonexistent");
    check_refused(&r, ERROR_IO, "/nonexistent: cannot open it");
    r = program("%s", "");
    check_refused(&r, ERROR_IO, "\"\" is neither");
    r = program("%s", "/dev/zero");
    check_refused(&r, ERROR_IO, "/dev/zero");
    r = program("%s", "no\x1b[31m\nsuch");
    check_refused(&r, ERROR_IO, "\\x1b[31m\\x0asuch");
    char name[10001];
    memset(name, 'n', sizeof name);
    name[sizeof name - 1] = '\0';
    r = program("%s", name);
    check_refused(&r, ERROR_IO, "nnn");
    r = program("inspect|%s", "Makefile");
    check_refused(&r, ERROR_FILE, "Makefile");
}
