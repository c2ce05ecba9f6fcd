// Lines of prompts that nobody vouches for: each is answered, or its answer says what is wrong, and
// the lines around it have their answers.
#include "base/hash.h"
#include "commands/prompts/prompts.h"
#include "tests/support/files/gguf_writer.h"
#include "tests/support/program.h"

#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <unistd.h>

// Runs lines and gives back the answers, each with its newline. The caller frees them.
static char *answers_of(const char *model, const char *lines, size_t size) {
    char prompts[300], out[300];
    snprintf(prompts, sizeof prompts, "%s", test_temporary("prompts"));
    snprintf(out, sizeof out, "%s", test_temporary("out"));
    test_write_file(prompts, lines, size);
    TestRun run = program("generate|%s|--prompts|%s|--out|%s|--force|-q|-c|64|--max-tokens|2|-t|0",
                          model, prompts, out);
    check_status(&run, 0);
    CHECK_INT((int)run.err_size, 0);
    test_run_free(&run);
    return test_read_file(out, &size);
}

static char *answers_to(const char *lines, size_t size) {
    return answers_of(small_model(), lines, size);
}

static int count_lines(const char *text) {
    int count = 0;
    for (; *text; text++)
        count += *text == '\n';
    return count;
}

// A line between two good ones: it is answered by an error that has `because`.
static void check_error_of(const char *line, size_t size, const char *because) {
    static const char GOOD[] = "{\"id\":\"%s\",\"prompt\":\"a\"}\n";
    char *all = malloc(size + 200);
    size_t length = (size_t)snprintf(all, 100, GOOD, "before");
    memcpy(all + length, line, size);
    length += size;
    all[length++] = '\n';
    length += (size_t)snprintf(all + length, 100, GOOD, "after");
    char *text = answers_to(all, length);
    CHECK_INT(count_lines(text), 5);
    char *at = strchr(strchr(text, '\n') + 1, '\n') + 1; // behind the first answer
    json_t *answer = json_loadb(at, strcspn(at, "\n"), 0, NULL);
    const char *message = json_string_value(json_object_get(answer, "error"));
    CHECK(message && strstr(message, because), "got \"%.200s\", wanted \"%s\"", at, because);
    CHECK_INT((int)json_integer_value(json_object_get(answer, "line")), 2);
    CHECK(strstr(at, "\"after\",\"text\"") && strstr(text, "\"before\",\"text\""), "%s", text);
    json_decref(answer);
    free(text);
    free(all);
}

// The message is this, and nothing that only the command line has stands behind it.
static void check_whole_error_of(const char *line, const char *message) {
    char wanted[200];
    size_t size = 0;
    char *text = answers_to(line, strlen(line)), *at = strstr(text, "\"error\":");
    json_t *whole = json_string(message);
    char *quoted = json_dumps(whole, JSON_ENCODE_ANY);
    size = (size_t)snprintf(wanted, sizeof wanted, "\"error\":%s,", quoted);
    CHECK(at && !strncmp(at, wanted, size), "got %s, wanted %s", at, wanted);
    free(quoted);
    json_decref(whole);
    free(text);
}

Test(prompt_lines, messages_are_of_the_line_and_not_of_the_command_line) {
    check_whole_error_of("[]", "wanted an object, got an array");
    check_whole_error_of("{\"prompt\":\"a\",\"seed\":-3}",
                         "\"seed\": got \"-3\", wanted an integer 0 .. 2^64-1");
    check_whole_error_of("{\"prompt\":\"a\",\"temperature\":-1}",
                         "\"temperature\": got \"-1\", wanted a number 0 .. 1e+06");
    check_whole_error_of("{\"prompt\":\"a\",\"max_tokens\":-1}",
                         "\"max_tokens\": got \"-1\", wanted an integer 0 .. 1073741824");
    check_whole_error_of("{\"prompt\":\"a\\u0000b\"}",
                         "offset 20: invalid JSON: \\u0000 is not allowed");
}

#define WRONG(line_, because_) check_error_of(line_, sizeof(line_) - 1, because_)

Test(prompt_lines, what_is_no_object_is_answered_by_an_error) {
    WRONG("nothing", "invalid JSON");
    WRONG("{\"prompt\":\"a\"", "invalid JSON");
    WRONG("{\"prompt\":\"a\"} {}", "invalid JSON");
    WRONG("[1,2]", "wanted an object, got an array");
    WRONG("\"a\"", "invalid JSON");
    WRONG("{\"prompt\":\"a\0b\"}", "NUL");
    WRONG("{\"prompt\":\"a\\u0000b\"}", "invalid JSON");
    WRONG("{\"prompt\":\"\xff\xfe\"}", "invalid JSON");
    WRONG("{\"prompt\":\"\\ud800\"}", "invalid JSON");
    WRONG("{\"prompt\":\"a\",\"prompt\":\"b\"}", "invalid JSON");
}

Test(prompt_lines, wrong_types_and_ranges_are_named) {
    WRONG("{\"prompt\":5}", "\"prompt\": wanted a text, got an integer");
    WRONG("{\"prompt\":\"a\",\"max_tokens\":-1}", "\"max_tokens\"");
    WRONG("{\"prompt\":\"a\",\"max_tokens\":1.5}", "wanted an integer, got a real number");
    WRONG("{\"prompt\":\"a\",\"max_tokens\":99999999999999}", "wanted an integer 0 ..");
    WRONG("{\"prompt\":\"a\",\"max_tokens\":999999999999999999999999}", "invalid JSON");
    WRONG("{\"prompt\":\"a\",\"temperature\":\"hot\"}", "wanted a number, got a string");
    WRONG("{\"prompt\":\"a\",\"temperature\":-1}", "\"temperature\"");
    WRONG("{\"prompt\":\"a\",\"top_p\":1e300}", "\"top_p\"");
    WRONG("{\"prompt\":\"a\",\"seed\":-3}", "\"seed\"");
    WRONG("{\"prompt\":\"a\",\"seed\":true}", "\"seed\": wanted an integer, got true");
    WRONG("{\"prompt\":\"a\",\"stop\":[\"\"]}", "the text is empty");
    WRONG("{\"prompt\":\"a\",\"stop\":[1]}", "\"stop\": wanted texts");
    WRONG("{\"prompt\":\"a\",\"samples\":0}", "\"samples\": wanted 1 ..");
    WRONG("{\"prompt\":\"a\",\"samples\":1000000}", "\"samples\": wanted 1 ..");
    WRONG("{\"prompt\":\"a\",\"prompt_ids\":[1]}", ", got two");
    WRONG("{\"id\":3}", ", got none");
    WRONG("{\"prompt_ids\":[]}", "there are none");
    WRONG("{\"prompt_ids\":[1,-1]}", "id -1 is not below");
    WRONG("{\"prompt_ids\":[4000000000]}", "is not below the vocabulary size");
    WRONG("{\"prompt_ids\":[1.0]}", "wanted integers, got a real number");
    WRONG("{\"prompt_ids\":\"1,2\"}", "wanted an array of ids");
    WRONG("{\"promt\":\"a\"}", "\"promt\" is no key");
    WRONG("{\"id\":1.5,\"prompt\":\"a\"}", "\"id\": wanted a text or an integer");
    WRONG("{\"id\":null,\"prompt\":\"a\"}", "\"id\": wanted a text or an integer");
    WRONG("{\"prompt\":\"a\",\"continuation\":\"\"}",
          "\"continuation\": there is nothing to score");
    WRONG("{\"prompt\":\"a\",\"continuation_ids\":[]}",
          "\"continuation_ids\": there is nothing to score");
    WRONG("{\"prompt\":\"a\",\"continuation\":\"b\",\"continuation_ids\":[1]}", "wanted one of");
    WRONG("{\"prompt\":\"a\",\"continuation\":\"b\",\"samples\":2}",
          "\"samples\" does not go with a continuation");
    WRONG("{\"prompt\":\"a\",\"continuation\":\"b\",\"max_tokens\":0}",
          "\"max_tokens\" does not go with a continuation");
    WRONG("{\"prompt\":\"a\",\"continuation_ids\":[1],\"max_tokens\":5}",
          "\"max_tokens\" does not go with a continuation");
    WRONG("{\"prompt\":\"a\",\"continuation\":\"b\",\"temperature\":0}",
          "\"temperature\" does not go with a continuation");
    WRONG("{\"prompt\":\"a\",\"continuation\":\"b\",\"stop\":[\".\"]}",
          "\"stop\" does not go with a continuation");
    WRONG("{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}", "no known chat format");
    WRONG("{\"messages\":[{\"role\":\"wizard\",\"content\":\"a\"}]}", "got the role \"wizard\"");
    WRONG("{\"messages\":[]}", "wanted an array");
    WRONG("{\"messages\":[7]}", "message 0");
    WRONG("{\"messages\":[{\"role\":\"user\",\"content\":\"a\",\"name\":\"b\"}]}",
          "and nothing else");
}

// As some programs write integers.
Test(prompt_lines, an_integer_may_have_a_point_and_zeros) {
    static const char LINES[] = "{\"prompt\":\"Once\",\"max_tokens\":3}\n"
                                "{\"prompt\":\"Once\",\"max_tokens\":3.0}\n";
    char *answers = answers_to(LINES, sizeof LINES - 1);
    char *first = strstr(answers, "\"ids\":["),
         *second = first ? strstr(first + 1, "\"ids\":[") : NULL;
    CHECK(first && second, "%s", answers);
    size_t length = (size_t)(strchr(first, ']') - first);
    CHECK(!memcmp(first, second, length + 1), "%s", answers);
    int commas = 0;
    for (size_t i = 0; i < length; i++)
        commas += first[i] == ',';
    CHECK_INT(commas, 2);
    free(answers);
}

Test(prompt_lines, a_prompt_longer_than_the_context_is_an_error_of_its_line) {
    char line[1000] = "{\"prompt\":\"";
    for (int i = 0; i < 150; i++)
        memcpy(line + 11 + 4 * i, "dog ", 5);
    strcat(line, "\"}");
    check_error_of(line, strlen(line), "the context room for 64");
}

Test(prompt_lines, a_line_beyond_the_limit_is_passed_over) {
    size_t size = (16 << 20) + 5000000;
    char *line = malloc(size);
    memset(line, 'x', size);
    check_error_of(line, size, "a line of more than 16777216 bytes");
    free(line);
}

Test(prompt_lines, deep_brackets_and_many_values_are_an_error_of_their_line) {
    enum { MANY = 3000000 };
    char *line = malloc(MANY);
    memset(line, '[', MANY);
    check_error_of(line, MANY, "nested deeper");
    memset(line, ',', MANY);
    line[0] = '[';
    check_error_of(line, MANY, "JSON with more than");
    free(line);
}

Test(prompt_lines, an_id_that_stands_twice_is_answered_once) {
    static const char LINES[] = "{\"id\":\"1\",\"prompt\":\"a\"}\n{\"id\":1,\"prompt\":\"a\"}\n"
                                "{\"id\":\"1\",\"prompt\":\"b\"}\n{\"prompt\":\"c\"}\n"
                                "{\"id\":4,\"prompt\":\"d\"}\n";
    char *text = answers_to(LINES, sizeof LINES - 1);
    CHECK_INT(count_lines(text), 7);
    CHECK(strstr(text, "{\"id\":null,\"line\":3,\"error\":\"\\\"id\\\": \\\"1\\\" stands on"), "%s",
          text);
    CHECK(strstr(text, "{\"id\":4,\"text\""), "%s", text);
    CHECK(strstr(text, "{\"id\":null,\"line\":5,\"error\":\"\\\"id\\\": 4 stands on"), "%s", text);
    free(text);
}

Test(prompt_lines, empty_files_blank_lines_and_a_missing_newline_are_fine) {
    char *text = answers_to("", 0);
    CHECK_INT(count_lines(text), 2);
    CHECK(strstr(text, "{\"end\":true,\"answers\":0}"), "%s", text);
    free(text);
    static const char LINES[] = "\n  \r\n\t\n{\"prompt\":\"a\"}\r\n\n{\"prompt\":\"b\"}";
    text = answers_to(LINES, sizeof LINES - 1);
    CHECK_INT(count_lines(text), 4);
    CHECK(strstr(text, "{\"id\":4,\"text\"") && strstr(text, "{\"id\":6,\"text\""), "%s", text);
    free(text);
}

// What a line says in characters that JSON escapes comes back the same.
Test(prompt_lines, ids_keep_their_characters) {
    static const char LINES[] = "{\"id\":\"<\\\"\\\\ \\u00e9\\u2028\\n\",\"prompt\":\"a\"}\n";
    char *text = answers_to(LINES, sizeof LINES - 1), *at = strchr(text, '\n') + 1;
    json_t *answer = json_loadb(at, strcspn(at, "\n"), 0, NULL);
    CHECK_STRING(json_string_value(json_object_get(answer, "id")), "<\"\\ \xc3\xa9\xe2\x80\xa8\n");
    json_decref(answer);
    free(text);
}

// ---- numbers that are not finite ----

// A model whose embedding of token 5 holds NaN. Its head is a matrix of its own, so that only texts
// with that token have it among their numbers, and never samples it: its row is 0.
static const char *model_with_nan(void) {
    size_t size = 0;
    float nan = NAN;
    GgufFile *file = gguf_tiny_llama();
    const GgufTensor *embedding = gguf_find_tensor(file, "token_embd.weight");
    size_t row = (size_t)embedding->dims[0] * sizeof nan;
    gguf_add_tensor(file, "output.weight", DTYPE_F32, embedding->dims[0], embedding->dims[1]);
    memset(gguf_find_tensor(file, "output.weight")->data + 5 * row, 0, row);
    memcpy(gguf_find_tensor(file, "token_embd.weight")->data + 5 * row, &nan, sizeof nan);
    uint8_t *bytes = gguf_write(file, &size);
    gguf_file_free(file);
    const char *path = test_temporary("nan.gguf");
    test_write_file(path, bytes, size);
    free(bytes);
    return path;
}

// The beginnings are shared, the texts side by side: what is not finite is one text's own.
Test(prompt_lines, a_number_that_is_not_finite_is_an_error_of_its_line_alone) {
    static const char GOOD[] = "{\"id\":\"a\",\"prompt_ids\":[1,4,6,4,4,6,4,6,4,4]}\n"
                               "{\"id\":\"b\",\"prompt_ids\":[1,4,6,4,4,6,4,6,4,6,3]}\n"
                               "{\"id\":\"c\",\"prompt_ids\":[1,6],\"continuation_ids\":[4,4]}\n";
    static const char BAD[] = "{\"id\":\"x\",\"prompt_ids\":[1,4,6,4,4,6,4,6,4,5,4]}\n"
                              "{\"id\":\"y\",\"prompt_ids\":[1,6],\"continuation_ids\":[5,4]}\n"
                              "{\"id\":\"z\",\"prompt_ids\":[5],\"samples\":3}\n";
    char lines[1000], path[300];
    snprintf(path, sizeof path, "%s", model_with_nan());
    snprintf(lines, sizeof lines, "%.*s%s%s", (int)(strchr(GOOD, '\n') + 1 - GOOD), GOOD, BAD,
             strchr(GOOD, '\n') + 1);
    char *alone = answers_of(path, GOOD, sizeof GOOD - 1), *at = strchr(alone, '\n') + 1;
    char *all = answers_of(path, lines, strlen(lines));
    CHECK_INT(count_lines(alone), 5);
    CHECK_INT(count_lines(all), 8);
    for (int i = 0; i < 3; i++) {
        char *end = strchr(at, '\n') + 1, kept = *end;
        *end = '\0';
        CHECK(strstr(all, at) && strstr(at, "logits_hash"), "no %s in %s", at, all);
        *end = kept;
        at = end;
    }
    for (int i = 0; i < 3; i++) {
        char wanted[200];
        snprintf(
            wanted, sizeof wanted,
            "{\"id\":\"%c\",\"line\":%d,\"error\":\"the model's numbers are not finite (NaN or "
            "infinity): `generate` with this prompt names the first\"",
            'x' + i, i + 2);
        CHECK(strstr(all, wanted), "no %s in %s", wanted, all);
    }
    free(alone);
    free(all);
}

// Its hash is that of all its bytes, also of those that no buffer holds.
Test(prompt_lines, a_line_that_is_too_long_has_the_hash_of_all_of_it) {
    enum { LENGTH = 1500 };
    static char text[2 * LENGTH + 8];
    memset(text, 'a', LENGTH);
    memcpy(text + LENGTH, "\nab\n", 4);
    memset(text + LENGTH + 4, 'b', LENGTH); // without a newline
    const char *path = test_temporary("long");
    test_write_file(path, text, 2 * LENGTH + 4);
    LineReader reader = {.file = open(path, O_RDONLY), .most = 400, .path = path};
    static const size_t FIRST[] = {0, LENGTH + 1, LENGTH + 4}, SIZES[] = {LENGTH, 2, LENGTH};
    Error error = {0};
    for (int i = 0; i < 3; i++) {
        Line line;
        bool ended = true;
        CHECK(line_next(&reader, &line, &ended, &error) && !ended, "%s", error.message);
        CHECK_INT(line.too_long, i != 1);
        CHECK(line.hash == fnv1a(FNV_START, text + FIRST[i], SIZES[i]), "line %d", i + 1);
    }
    close(reader.file);
    line_reader_free(&reader);
}
