// A conversation at a terminal: commands, what stays in it and what leaves, and how an answer ends.
// What the model was told is read in the transcript and in what /save wrote.
#include "base/error.h"
#include "tests/support/files/gguf_writer.h"
#include "tests/support/program.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define COUNT(keys) (sizeof(keys) / sizeof *(keys))

// Runs the chat without the line editor, whose own tests are test_line_editor.c: TERM=dumb.
static TestRun chat_typed(const char *model, const char *more, const TypedKeys *keys,
                          size_t count) {
    char line[1200];
    setenv("TERM", "dumb", 1);
    snprintf(line, sizeof line, "chat|%s|--template|llama2|-q%s%s", model,
             strstr(more, "|-t|") ? "" : "|-t|0", more);
    return program_typed(line, keys, count);
}

// A file's text, and its path by the name of test_temporary.
static char *text_of(const char *name) {
    size_t size = 0;
    char *text = test_read_file(test_temporary(name), &size);
    CHECK(text, "no %s", name);
    return text;
}

static int count_of(const char *text, const char *part) {
    int count = 0;
    for (const char *at = text; (at = strstr(at, part)); at += strlen(part))
        count++;
    return count;
}

static TypedKeys command(char keys[700], const char *format, const char *name) {
    snprintf(keys, 700, format, test_temporary(name));
    return (TypedKeys){"> ", keys};
}

Test(conversation, commands_are_not_sent_and_two_slashes_send_one) {
    static const TypedKeys KEYS[] = {{"> ", "/nope x\n"}, {"> ", "/help\n"},  {"> ", "//path\n"},
                                     {"> ", "/\n"},       {"> ", "/stats\n"}, {"> ", "/exit\n"}};
    char more[700];
    snprintf(more, sizeof more, "|--max-tokens|2|--transcript|%s", test_temporary("sent.jsonl"));
    TestRun r = chat_typed(small_model(), more, KEYS, COUNT(KEYS));
    CHECK(r.status == 0, "exit %d: %s", r.status, r.out);
    CHECK(strstr(r.out, "/nope is no command"), "%s", r.out);
    CHECK(strstr(r.out, "1 exchange; "), "%s", r.out);
    char *sent = text_of("sent.jsonl");
    CHECK_INT(count_of(sent, "\n"), 2);
    CHECK(strstr(sent, "{\"role\":\"user\",\"content\":\"/path\"}\n"), "%s", sent);
    free(sent);
    test_run_free(&r);
}

// The same message after /undo and after /retry finds the cache as it was: the same answer.
Test(conversation, undo_and_retry_go_back_to_the_same_answer) {
    static const TypedKeys KEYS[] = {{"> ", "Lily had a cat\n"}, {"> ", "The dog ran\n"},
                                     {"> ", "/undo\n"},          {"> ", "The dog ran\n"},
                                     {"> ", "/retry\n"},         {"> ", "\x04"}};
    char more[700], first[400], event[400], second[400], third[400];
    snprintf(more, sizeof more, "|--max-tokens|12|--repeat-penalty|1.3|--transcript|%s",
             test_temporary("undo.jsonl"));
    TestRun r = chat_typed(small_model(), more, KEYS, COUNT(KEYS));
    CHECK(r.status == 0, "exit %d: %s", r.status, r.out);
    char *lines = text_of("undo.jsonl");
    CHECK(sscanf(lines,
                 "%*[^\n]\n%*[^\n]\n%*[^\n]\n%399[^\n]\n%399[^\n]\n%*[^\n]\n%399[^\n]\n%*[^\n]\n"
                 "%*[^\n]\n%399[^\n]",
                 first, event, second, third) == 4,
          "%s", lines);
    CHECK_STRING(event, "{\"event\":\"undo\"}"); // who reads the file takes the exchange back too
    CHECK_STRING(second, first);
    CHECK_STRING(third, first);
    free(lines);
    test_run_free(&r);
}

Test(conversation, what_was_saved_is_loaded_again) {
    char a[700], b[700], c[700];
    const TypedKeys keys[] = {{"> ", "/system Be brief.\n"},
                              {"> ", "One \"two\" \u00e9\n"},
                              command(a, "/save %s\n", "first.json"),
                              {"> ", "/clear\n"},
                              {"> ", "forgotten\n"},
                              command(b, "/load \"%s\"\n", "first.json"),
                              {"> ", "/stats\n"},
                              command(c, "/save %s\n", "second.json"),
                              {"> ", "/exit\n"}};
    TestRun r = chat_typed(small_model(), "|--max-tokens|4", keys, COUNT(keys));
    CHECK(r.status == 0, "exit %d: %s", r.status, r.out);
    if (strstr(r.out, "without jansson")) SKIP("this build reads no JSON");
    char *first = text_of("first.json"), *second = text_of("second.json");
    CHECK(strstr(first, "\"system\",\"content\":\"Be brief.\""), "%s", first);
    CHECK(strstr(first, "\"user\",\"content\":\"One \\\"two\\\" \u00e9\""), "%s", first);
    CHECK(strstr(first, "\"digest\":\"") && !strstr(first, "\"ids\":[]"), "%s", first);
    // All but the ids, which are to be read anew.
    *strstr(first, "\"ids\"") = *strstr(second, "\"ids\"") = '\0';
    CHECK_STRING(second, first);
    free(first);
    free(second);
    test_run_free(&r);
}

// Token 4 is the byte 0.
Test(conversation, an_answer_of_nul_bytes_is_saved_and_loaded) {
    char a[700], b[700], c[700];
    const TypedKeys keys[] = {{"> ", "One\n"},
                              command(a, "/save '%s'\n", "nul.json"),
                              {"> ", "/clear\n"},
                              command(b, "/load %s\n", "nul.json"),
                              command(c, "/save %s\n", "nul2.json"),
                              {"> ", "/exit\n"}};
    TestRun r =
        chat_typed(small_model(), "|--max-tokens|2|--logit-bias|4:+1000", keys, COUNT(keys));
    CHECK(r.status == 0, "exit %d: %s", r.status, r.out);
    if (strstr(r.out, "without jansson")) SKIP("this build reads no JSON");
    char *second = text_of("nul2.json");
    CHECK(strstr(second, "\"assistant\",\"content\":\"\\u0000\\u0000\""), "%s", second);
    free(second);
    test_run_free(&r);
}

#define USER "{\"role\":\"user\",\"content\":\"a\"}"
#define ASSISTANT "{\"role\":\"assistant\",\"content\":\"b\"}"

Test(conversation, a_file_of_another_model_is_loaded_and_that_is_said) {
    char a[700];
    static const char TEXT[] =
        "{\"model\":{\"path\":\"/far/other.gguf\",\"digest\":\"0123\"},\"messages\":[" USER
        "," ASSISTANT "]}";
    test_write_file(test_temporary("other.json"), TEXT, sizeof TEXT - 1);
    const TypedKeys keys[] = {command(a, "/load %s\n", "other.json"), {"> ", "\x04"}};
    TestRun r = chat_typed(small_model(), "", keys, COUNT(keys));
    CHECK(r.status == 0, "exit %d: %s", r.status, r.out);
    if (strstr(r.out, "without jansson")) SKIP("this build reads no JSON");
    CHECK(strstr(r.out, "is of another model, /far/other.gguf"), "%s", r.out);
    CHECK(strstr(r.out, "loaded: 1 exchange"), "%s", r.out);
    test_run_free(&r);
}

// Blanks are no message, and a command may stand behind some. A system message that leaves no room
// is refused before it is in the way of every message.
Test(conversation, blanks_are_not_sent_and_a_system_message_must_fit) {
    static char keys[2200];
    snprintf(keys, sizeof keys, "/system %02000d\n", 0);
    const TypedKeys typed[] = {{"> ", "   \n"}, {"> ", "  /stats\n"}, {"> ", keys},
                               {"> ", "One\n"}, {"> ", "/stats\n"},   {"> ", "/exit\n"}};
    TestRun r = chat_typed(small_model(), "|-c|64|--max-tokens|2", typed, COUNT(typed));
    CHECK(r.status == 0, "exit %d: %s", r.status, r.out);
    CHECK(strstr(r.out, "0 exchanges; "), "%s", r.out);
    CHECK(strstr(r.out, "/system: the system message has "), "%s", r.out);
    CHECK(strstr(r.out, "1 exchange; "), "%s", r.out);
    test_run_free(&r);
    TestRun begun =
        program("chat|%s|--template|llama2|-q|-c|64|-i|One|--system|%0900d", small_model(), 0);
    CHECK_INT(begun.status, ERROR_USAGE);
    CHECK(strstr(begun.err, "the system message has "), "%s", begun.err);
    test_run_free(&begun);
}

Test(conversation, a_file_of_a_session_is_not_loaded_and_is_named) {
    char a[700];
    test_write_file(test_temporary("kept.chat"), "limpidkv\2\0\0\0", 12);
    const TypedKeys keys[] = {command(a, "/load %s\n", "kept.chat"), {"> ", "\x04"}};
    TestRun r = chat_typed(small_model(), "", keys, COUNT(keys));
    CHECK(r.status == 0, "exit %d: %s", r.status, r.out);
    CHECK(strstr(r.out, "--session"), "%s", r.out);
    test_run_free(&r);
}

// Each is told in one line, and the conversation goes on.
Test(conversation, a_file_that_holds_none_is_not_loaded_and_says_why) {
    static const char *const FILES[][2] = {
        {"{}", "no messages in it"},
        {"{\"format\":\"limpid-chat 2\",\"messages\":[]}", "format: got limpid-chat 2"},
        {"{\"format\":7,\"messages\":[7]}", "message 0: wanted role and content, both texts"},
        {"{\"messages\":[7]}", "message 0: wanted role and content, both texts"},
        {"{\"messages\":[{\"role\":\"king\",\"content\":\"a\"}]}", "got the role \"king\""},
        {"{\"messages\":[" ASSISTANT "]}", "message 0: wanted one of the user"},
        {"{\"messages\":[" USER "," USER "]}", "message 1: wanted one of the assistant"},
        {"{\"messages\":[" USER "]}", "the last message has no answer"},
        {"{\"messages\":[" USER "," ASSISTANT "],\"left\":2}", "left is 2 of 1 exchanges"},
    };
    enum { N = COUNT(FILES) };
    char lines[N][700];
    TypedKeys keys[N + 1] = {[N] = {"> ", "\x04"}};
    for (int i = 0; i < N; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d.json", i);
        test_write_file(test_temporary(name), FILES[i][0], strlen(FILES[i][0]));
        keys[i] = command(lines[i], "/load %s\n", name);
    }
    TestRun r = chat_typed(small_model(), "", keys, N + 1);
    CHECK(r.status == 0, "exit %d: %s", r.status, r.out);
    if (strstr(r.out, "without jansson")) SKIP("this build reads no JSON");
    CHECK_INT(count_of(r.out, "run: /load: "), N);
    for (int i = 0; i < N; i++)
        CHECK(strstr(r.out, FILES[i][1]), "%s: %s", FILES[i][1], r.out);
    test_run_free(&r);
}

Test(conversation, outputs_are_checked_as_others_are) {
    static const char *const FILES[] = {"|--transcript|weights/builtin.gguf",
                                        "|--transcript|weights/builtin.gguf|--force"};
    for (int i = 0; i < 2; i++) {
        TestRun r = chat_typed(small_model(), FILES[i], NULL, 0);
        CHECK(r.status == 2, "%s: exit %d: %s", FILES[i], r.status, r.out);
        test_run_free(&r);
    }
    static const TypedKeys KEYS[] = {{"> ", "/save weights/builtin.gguf\n"},
                                     {"> ", "/load README.md\n"},
                                     {"> ", "/set temperature x\n"},
                                     {"> ", "\x04"}};
    TestRun r = chat_typed(small_model(), "|--force", KEYS, COUNT(KEYS));
    CHECK(r.status == 0, "exit %d: %s", r.status, r.out);
    CHECK_INT(count_of(r.out, "run: /save: "), 1);
    CHECK_INT(count_of(r.out, "(/save --force FILE)"), 0); // it would not help
    CHECK_INT(count_of(r.out, "run: /load: "), 1);
    CHECK_INT(count_of(r.out, "run: /set: "), 1);
    test_run_free(&r);
}

Test(conversation, a_file_that_is_there_is_saved_over_where_that_is_said) {
    char asks[700], forces[700];
    const TypedKeys refused[] = {
        {"> ", "hello\n"}, command(asks, "/save %s\n", "there.json"), {"> ", "\x04"}};
    const TypedKeys forced[] = {{"> ", "hello\n"},
                                command(forces, "/save --force %s\n", "there.json"),
                                {"> ", "/save --force weights/builtin.gguf\n"},
                                {"> ", "/save --force\n"},
                                {"> ", "/save --force=x\n"},
                                {"> ", "\x04"}};
    test_write_file(test_temporary("there.json"), "of the user", 11);
    TestRun r = chat_typed(small_model(), "|--max-tokens|2", refused, COUNT(refused));
    CHECK(strstr(r.out, "is there already"), "%s", r.out);
    CHECK(strstr(r.out, "(/save --force FILE)"), "%s", r.out);
    char *text = text_of("there.json");
    CHECK(!strncmp(text, "of the user", 11), "%s", text);
    free(text);
    test_run_free(&r);
    r = chat_typed(small_model(), "|--max-tokens|2", forced, COUNT(forced));
    CHECK(r.status == 0, "exit %d: %s", r.status, r.out);
    CHECK_INT(count_of(r.out, "run: saved: "), 1);
    CHECK_INT(count_of(r.out, "run: /save: "), 3); // the model is an input, which nothing replaces
    CHECK_INT(count_of(r.out, "run: /save: --force comes first, then the file"), 2);
    text = text_of("there.json");
    CHECK(strstr(text, "\"content\":\"hello\""), "%s", text);
    free(text);
    test_run_free(&r);
}

Test(conversation, the_oldest_exchanges_leave_a_full_context) {
    TypedKeys keys[9];
    for (int i = 0; i < 8; i++)
        keys[i] = (TypedKeys){"> ", "Once there was a little girl\n"};
    keys[8] = (TypedKeys){"> ", "\x04"};
    TestRun r = chat_typed(small_model(), "|-c|128|--max-tokens|20|-y|Be kind.", keys, 9);
    CHECK(r.status == 0, "exit %d: %s", r.status, r.out);
    CHECK(strstr(r.out, "the oldest exchange left it"), "%s", r.out);
    CHECK_INT(count_of(r.out, "the answer was ended at 20 tokens"), 8);
    test_run_free(&r);
    r = chat_typed(small_model(), "|-c|128|--max-tokens|20|--context-overflow|stop", keys, 9);
    // The last message is not sent, and what was said can still be saved or taken back.
    CHECK(r.status == 0 && strstr(r.out, "it was not sent; /undo takes back"), "exit %d: %s",
          r.status, r.out);
    CHECK(strstr(strstr(r.out, "it was not sent"), "> "), "no prompt after it: %s", r.out);
    test_run_free(&r);
}

// Where the conversation is to be read from its beginning again it is not sent either, and nothing
// is lost: a first message, and one behind a longer system message.
Test(conversation, a_message_that_does_not_fit_is_never_the_end) {
    char longer[200] = "/system Be", message[300] = "";
    for (int i = 0; i < 90; i++) {
        strcat(message, " so");
        if (i < 36) strcat(longer, " so");
    }
    strcat(longer, "\n");
    strcat(message, "\n");
    const TypedKeys keys[] = {{"> ", message}, {"> ", "The dog\n"}, {"> ", longer},
                              {"> ", "Tom\n"}, {"> ", "/undo\n"},   {"> ", "\x04"}};
    TestRun r = chat_typed(small_model(), "|-c|80|--max-tokens|9|--context-overflow|stop", keys,
                           COUNT(keys));
    CHECK(r.status == 0, "exit %d: %s", r.status, r.out);
    CHECK_INT(count_of(r.out, "it was not sent"), 2);
    CHECK(strstr(r.out, "the message has, with the conversation before it, "), "%s", r.out);
    CHECK(strstr(r.out, "the last message and its answer are forgotten"), "%s", r.out);
    test_run_free(&r);
}

// Behind a longer system message the last message does not fit any more: nothing takes the place of
// its answer, so that stays, and the transcript has no "undo".
Test(conversation, a_retry_without_an_answer_loses_nothing) {
    char longer[200] = "/system Be", more[700], kept[700];
    for (int i = 0; i < 42; i++)
        strcat(longer, " so");
    strcat(longer, "\n");
    const TypedKeys keys[] = {
        {"> ", "Tom and the dog so so so so so so so so so so so so so so so so so so\n"},
        {"> ", longer},
        {"> ", "/retry\n"},
        {"> ", "/stats\n"},
        command(kept, "/save %s\n", "kept.json"),
        {"> ", "\x04"}};
    snprintf(more, sizeof more, "|-c|80|--max-tokens|9|--context-overflow|stop|--transcript|%s",
             test_temporary("kept.jsonl"));
    TestRun r = chat_typed(small_model(), more, keys, COUNT(keys));
    CHECK(r.status == 0, "exit %d: %s", r.status, r.out);
    CHECK(strstr(r.out, "it was not sent") && strstr(r.out, "the one before stays"), "%s", r.out);
    CHECK(strstr(r.out, "1 exchange; "), "%s", r.out);
    char *saved = text_of("kept.json"), *lines = text_of("kept.jsonl");
    CHECK(strstr(saved, "Tom and the dog") && strstr(saved, "\"assistant\""), "%s", saved);
    CHECK_INT(count_of(lines, "\n"), 2);
    CHECK(!strstr(lines, "undo"), "%s", lines);
    free(saved);
    free(lines);
    test_run_free(&r);
}

// An exchange is there whole or not at all.
Test(conversation, a_transcript_on_a_full_disk_ends_with_a_whole_exchange) {
    const char *path = test_temporary("full.jsonl");
    TestRun r = program_shell(test_text(
        "ulimit -f 4; for i in $(seq 40); do echo \"The dog and the cat number $i ran all "
        "day to the park and saw a bird that sang for a long time in a tall tree\"; done | $RUN "
        "chat $MODEL --template llama2 -q -t 0 --max-tokens 9 --context-overflow shift "
        "--transcript %s",
        path));
    check_status(&r, ERROR_IO);
    char *lines = text_of("full.jsonl");
    int users = count_of(lines, "\"role\":\"user\"");
    CHECK(users > 1 && users < 40, "%d", users);
    CHECK_INT(count_of(lines, "\"role\":\"assistant\""), users);
    CHECK_INT(count_of(lines, "\n"), 2 * users);
    CHECK(lines[strlen(lines) - 1] == '\n', "%s", lines);
    free(lines);
    test_run_free(&r);
}

// At a terminal the conversation goes on without it; a retry that did not fit takes nothing back.
Test(conversation, a_full_transcript_does_not_end_what_is_typed) {
    const char *path = test_temporary("typed.jsonl");
    static const TypedKeys KEYS[] = {{"> ", "Tom had a cat\n"},
                                     {"> ", "/retry\n"},
                                     {"> ", "The dog ran\n"},
                                     {"> ", "/stats\n"},
                                     {"> ", "\x04"}};
    struct rlimit before, limit;
    CHECK(!getrlimit(RLIMIT_FSIZE, &before));
    limit = before;
    limit.rlim_cur = 200;
    CHECK(!setrlimit(RLIMIT_FSIZE, &limit));
    TestRun r = chat_typed("builtin", test_text("|--max-tokens|20|--transcript|%s", path), KEYS,
                           COUNT(KEYS));
    CHECK(!setrlimit(RLIMIT_FSIZE, &before));
    CHECK(r.status == 4, "exit %d: %s", r.status, r.out);
    CHECK(strstr(r.out, "goes on without its transcript") && strstr(r.out, "2 exchanges; "), "%s",
          r.out);
    CHECK(strstr(r.out, "the transcript is not complete"), "%s", r.out);
    char *lines = text_of("typed.jsonl");
    CHECK_INT(count_of(lines, "\n"), 2);
    CHECK(!strstr(lines, "undo") && strstr(lines, "Tom had a cat"), "%s", lines);
    free(lines);
    test_run_free(&r);
}

Test(conversation, a_transcript_is_of_one_run_at_a_time) {
    const char *path = test_temporary("shared.jsonl");
    TestRun r = program_shell(test_text(
        "mkfifo %s.in; $RUN chat $MODEL --template llama2 -q -t 0 --max-tokens 3 --transcript %s < "
        "%s.in & exec 3> %s.in; until [ -e %s ]; do sleep 0.05; done; echo Tom >&3; "
        "until [ -s %s ]; do sleep 0.05; done; $RUN chat $MODEL --template llama2 -q -i Lily "
        "--transcript %s --force; echo \"second $?\"; exec 3>&-; wait; cat %s",
        path, path, path, path, path, path, path, path));
    CHECK(strstr(r.out, "second 4"), "%s%s", r.out, r.err);
    CHECK(strstr(r.err, "another run has it open"), "%s", r.err);
    CHECK(strstr(r.out, "\"content\":\"Tom\"") && !strstr(r.out, "Lily"), "%s", r.out);
    test_run_free(&r);
}

Test(conversation, a_length_that_leaves_no_answer_is_said_once) {
    TestRun r = program("chat|%s|--template|llama2|-n|2|-i|Lily had a cat", small_model());
    check_status(&r, 0);
    CHECK_INT(count_of(r.err, "-n 2 counts all tokens but the first"), 1);
    test_run_free(&r);
}

// --force begins it anew, and not under its other names.
Test(conversation, a_transcript_that_is_replaced_keeps_its_other_names) {
    const char *path = test_temporary("anew.jsonl");
    TestRun r = program_shell(test_text(
        "echo old > %s; ln %s %s.link; $RUN chat $MODEL --template llama2 -q -t 0 "
        "--max-tokens 3 -i "
        "Lily --transcript %s --force > %s.answer && cat %s.link && grep -c old %s || true",
        path, path, path, path, path, path, path));
    check_status(&r, 0);
    CHECK_STRING(r.out, "old\n0\n");
    test_run_free(&r);
}

// What penalties count: generate, given the ids of the conversation, goes on with the same answer.
// The first answer is cut off, so its last token is fed with the second message.
Test(conversation, every_token_counts_once_for_penalties) {
    enum { TOKENS = 6 };
    char a[700];
    const TypedKeys keys[] = {{"> ", "Lily had a red ball\n"},
                              {"> ", "Tom\n"},
                              command(a, "/save %s\n", "counted.json"),
                              {"> ", "\x04"}};
    TestRun r =
        chat_typed(small_model(), "|--max-tokens|6|--frequency-penalty|1.2", keys, COUNT(keys));
    CHECK(r.status == 0, "exit %d: %s", r.status, r.out);
    test_run_free(&r);
    char *saved = text_of("counted.json"), *ids = strstr(saved, "\"ids\":[") + 7;
    char *end = strchr(ids, ']'), line[4000], wanted[100] = "";
    *end = '\0';
    char *answer = end;
    for (int i = 0; i < TOKENS; i++)
        for (answer--; *answer != ',';)
            answer--;
    *answer++ = '\0';
    snprintf(wanted, sizeof wanted, "%s\n", answer);
    for (char *c = wanted; *c; c++)
        if (*c == ',') *c = '\n';
    snprintf(line, sizeof line,
             "generate|%s|-t|0|--frequency-penalty|1.2|--max-tokens|6|-q|--ids|--prompt-ids|%s",
             small_model(), ids);
    r = program_input(line, NULL, 0);
    CHECK_STRING(r.out, wanted);
    test_run_free(&r);
    free(saved);
}

Test(conversation, a_base_model_is_told_to_be_one) {
    char line[600];
    setenv("TERM", "dumb", 1);
    snprintf(line, sizeof line, "chat|%s|--template|llama2|--color|never", small_model());
    TestRun r = program_typed(line, &(TypedKeys){"> ", "\x04"}, 1);
    CHECK(r.status == 0 && strstr(r.out, "a base model"), "exit %d: %s", r.status, r.out);
    test_run_free(&r);
}

// A model that generates for minutes.
static const char *endless_model(void) {
    GgufFile *file = gguf_tiny_llama();
    size_t size = 0;
    gguf_set_u32(file, "llama.context_length", 1 << 19);
    uint8_t *bytes = gguf_write(file, &size);
    gguf_file_free(file);
    const char *path = test_temporary("endless.gguf");
    test_write_file(path, bytes, size);
    free(bytes);
    return path;
}

Test(conversation, a_loop_ends_an_answer_after_three_stretches_of_64_tokens) {
    static const TypedKeys KEYS[] = {{"> ", "a\n"}, {"> ", "/stats\n"}, {"> ", "\x04"}};
    TestRun r = chat_typed(small_model(), "|--frequency-penalty|-100|-c|512", KEYS, COUNT(KEYS));
    CHECK(r.status == 0, "exit %d: %s", r.status, r.out);
    CHECK(strstr(r.out, "over and over"), "%s", r.out);
    test_run_free(&r);
}

Test(conversation, what_was_answered_before_ctrl_c_stays) {
    static const TypedKeys KEYS[] = {
        {"> ", "a b\n"}, {"ab", "\x03"}, {"> ", "/stats\n"}, {"> ", "\x04"}};
    char more[700];
    snprintf(more, sizeof more, "|--ignore-eos|-c|500000|--transcript|%s|-t|1|-s|1",
             test_temporary("stopped.jsonl"));
    TestRun r = chat_typed(endless_model(), more, KEYS, COUNT(KEYS));
    CHECK(r.status == 0, "exit %d: %s", r.status, r.out);
    CHECK(strstr(r.out, "1 exchange; "), "%s", r.out);
    char *lines = text_of("stopped.jsonl");
    CHECK(strstr(lines, "\"stop\":\"interrupt\"}\n") && strstr(lines, "assistant\",\"content\":\""),
          "%s", lines);
    CHECK(!strstr(lines, "assistant\",\"content\":\"\""), "%s", lines);
    free(lines);
    test_run_free(&r);
}

// With the editor: one that comes between the end of an answer and the next line ends nothing. Most
// of these come at that moment or just behind it.
Test(conversation, ctrl_c_a_moment_after_an_answer_loses_nothing) {
    enum { ROUNDS = 40 };
    TypedKeys keys[2 * ROUNDS + 2];
    if (!TEST_EDIT) SKIP("this build has no line editor (EDIT=0)");
    for (int i = 0; i < ROUNDS; i++) {
        keys[2 * i] = (TypedKeys){"\x1b[?2004h> ", "a\n"};
        keys[2 * i + 1] = (TypedKeys){"was ended", "\x03"};
    }
    keys[2 * ROUNDS] = (TypedKeys){"\x1b[?2004h> ", "/stats\n"};
    keys[2 * ROUNDS + 1] = (TypedKeys){"exchange", "\x04"};
    setenv("TERM", "xterm", 1);
    setenv("NO_COLOR", "1", 1);
    char line[700];
    snprintf(line, sizeof line, "chat|%s|--template|llama2|-q|-t|0|--max-tokens|2|--no-history",
             small_model());
    TestRun r = program_typed(line, keys, COUNT(keys));
    CHECK(r.status == 0, "exit %d: %s", r.status, r.out);
    CHECK_INT(count_of(r.out, "was ended"), ROUNDS);
    CHECK(strstr(r.out, " exchanges, "), "%s", r.out); // of /stats
    test_run_free(&r);
}

// With the editor: keys typed during an answer are the next line, and not among the answer.
Test(conversation, typing_during_an_answer_begins_the_next_message) {
    static const TypedKeys KEYS[] = {{"\x1b[?2004h> ", "a b\n"},
                                     {"ab", "/zzz"},
                                     {"ab", "\x03"},
                                     {"/zzz", "\n"},
                                     {"\x1b[?2004h> ", "\x04"}};
    char line[1200];
    if (!TEST_EDIT) SKIP("this build has no line editor (EDIT=0)");
    setenv("TERM", "xterm", 1);
    setenv("NO_COLOR", "1", 1);
    snprintf(line, sizeof line,
             "chat|%s|--template|llama2|-q|--no-history|--ignore-eos|-c|500000|-s|1",
             endless_model());
    TestRun r = program_typed(line, KEYS, COUNT(KEYS));
    CHECK(r.status == 0, "exit %d: %s", r.status, r.out);
    CHECK_INT(count_of(r.out, "/zzz"), 2); // on the line, and in the answer to it
    CHECK(strstr(r.out, "/zzz is no command"), "%s", r.out);
    test_run_free(&r);
}

// Every token is made byte 0xe2, which begins a character of three: two of them are two that are no
// character, of which the second could still become one. generate shows bytes as they are.
Test(conversation, a_limit_never_cuts_a_character) {
    static const char OPTIONS[] = "-t|0|-q|-i|a|--logit-bias|230:1000";
    TestRun r = program("chat|%s|--template|llama2|%s|--max-tokens|1", small_model(), OPTIONS);
    CHECK_STRING(r.out, "\n");
    test_run_free(&r);
    r = program("chat|%s|--template|llama2|%s|--max-tokens|2", small_model(), OPTIONS);
    CHECK_STRING(r.out, "\xe2\n");
    test_run_free(&r);
    r = program("generate|%s|%s|--max-tokens|1", small_model(), OPTIONS);
    CHECK_STRING(r.out, "a\xe2\n");
    test_run_free(&r);
}

// A terminal of 80 columns, which is what a pseudo-terminal without a size is taken for.
Test(conversation, an_answer_breaks_between_words) {
    static const TypedKeys KEYS[] = {{"\x1b[?2004h> ", "Once upon a time\n"},
                                     {"\x1b[?2004h> ", "\x04"}};
    char line[1200];
    if (!TEST_EDIT) SKIP("this build has no line editor (EDIT=0)");
    setenv("TERM", "xterm", 1);
    setenv("NO_COLOR", "1", 1);
    snprintf(line, sizeof line,
             "chat|%s|--template|llama2|-q|--no-history|-t|0|--max-tokens|120|--ignore-eos|"
             "--transcript|%s",
             small_model(), test_temporary("wrapped.jsonl"));
    TestRun r = program_typed(line, KEYS, COUNT(KEYS));
    CHECK(r.status == 0, "exit %d: %s", r.status, r.out);
    // The transcript has the text without these breaks: each is one of its spaces.
    char *lines = text_of("wrapped.jsonl"),
         *text = strstr(lines, "assistant\",\"content\":\"") + 22;
    const char *screen = strstr(r.out, "upon a time");
    CHECK(screen, "%s", r.out);
    screen = strchr(screen, '\n') + 1;
    int column = 0, breaks = 0;
    for (; *text != '"'; text++, screen++) {
        if (*screen == '\r' && *text == ' ') {
            CHECK(screen[1] == '\n');
            screen++;
            breaks++;
            column = 0;
            continue;
        }
        if (!strncmp(text, "\\u000a", 6)) { // a newline of the text itself
            CHECK(screen[0] == '\r' && screen[1] == '\n');
            text += 5;
            screen++;
            column = 0;
            continue;
        }
        if (text[0] == '\\') text++;
        CHECK(*screen == *text, "%.40s | %.40s", screen, text);
        CHECK(++column <= 80);
    }
    CHECK(breaks > 1, "%s", r.out);
    free(lines);
    test_run_free(&r);
}

// The file that it wrote itself, in a home directory; not one that another wrote.
Test(conversation, its_own_file_is_saved_over) {
    static const TypedKeys TWICE[] = {{"> ", "hello\n"},
                                      {"> ", "/save ~/mine.json\n"},
                                      {"> ", "there\n"},
                                      {"> ", "/save ~/mine.json\n"},
                                      {"> ", "\x04"}};
    char home[600], file[700];
    snprintf(home, sizeof home, "%s", test_temporary("home"));
    snprintf(file, sizeof file, "%s/mine.json", home);
    CHECK(!mkdir(home, 0700) && !setenv("HOME", home, 1));
    TestRun r = chat_typed(small_model(), "|--max-tokens|2", TWICE, COUNT(TWICE));
    CHECK(r.status == 0, "exit %d: %s", r.status, r.out);
    CHECK_INT(count_of(r.out, "run: saved: "), 2);
    size_t size = 0;
    char *text = test_read_file(file, &size);
    CHECK(text && strstr(text, "\"content\":\"there\""), "%s", text ? text : "no file");
    free(text);
    test_run_free(&r);
    test_write_file(file, "other", 5);
    r = chat_typed(small_model(), "|--max-tokens|2", TWICE, COUNT(TWICE));
    CHECK_INT(count_of(r.out, "run: saved: "), 0);
    CHECK_INT(count_of(r.out, "is there already"), 2);
    text = test_read_file(file, &size);
    CHECK(text && size == 5 && !memcmp(text, "other", 5));
    free(text);
    test_run_free(&r);
}

Test(conversation, set_alone_shows_what_is_in_force) {
    static const TypedKeys KEYS[] = {{"> ", "/set\n"},
                                     {"> ", "/set top-p 3\n"},
                                     {"> ", "/set top_p 0.25\n"},
                                     {"> ", "/set xtc-probability 0.5\n"},
                                     {"> ", "/set\n"},
                                     {"> ", "\x04"}};
    TestRun r = chat_typed(small_model(), "|-t|0.5|-s|7", KEYS, COUNT(KEYS));
    CHECK(r.status == 0, "exit %d: %s", r.status, r.out);
    CHECK(strstr(r.out, "temperature 0.5, top-p 0.9, "), "%s", r.out);
    CHECK(strstr(r.out, "max-tokens 1024, seed 7"), "%s", r.out);
    CHECK(strstr(r.out, "/set: top-p: got \"3\", wanted a number 0 .. 1\r\n"), "%s", r.out);
    CHECK(strstr(r.out, "temperature 0.5, top-p 0.25, "), "%s", r.out);
    CHECK(strstr(r.out, ", xtc-probability 0.5, "), "%s", r.out);
    test_run_free(&r);
}

// Not where another has written to it, and not where it has more than the conversation now.
Test(conversation, its_own_file_is_not_saved_over_where_that_would_lose_something) {
    static const struct {
        const char *name, *between;
    } WAYS[] = {{"undone", "/undo\n"}, {"cleared", "/clear\n"}, {"changed", NULL}};
    for (size_t i = 0; i < COUNT(WAYS); i++) {
        char home[600], file[700], change[800];
        snprintf(home, sizeof home, "%s", test_temporary(WAYS[i].name));
        snprintf(file, sizeof file, "%s/mine.json", home);
        snprintf(change, sizeof change, "$ printf other >%s", file);
        CHECK(!mkdir(home, 0700) && !setenv("HOME", home, 1));
        const TypedKeys keys[] = {{"> ", "hello\n"},
                                  {"> ", "/save ~/mine.json\n"},
                                  {"saved: ", WAYS[i].between ? "" : change},
                                  {"> ", WAYS[i].between ? WAYS[i].between : "there\n"},
                                  {"> ", "/save ~/mine.json\n"},
                                  {"> ", "\x04"}};
        TestRun r = chat_typed(small_model(), "|--max-tokens|2", keys, COUNT(keys));
        CHECK(r.status == 0, "exit %d: %s", r.status, r.out);
        CHECK_INT(count_of(r.out, "run: saved: "), 1);
        CHECK_INT(count_of(r.out, "is there already"), 1);
        size_t size = 0;
        char *text = test_read_file(file, &size);
        CHECK(text && strstr(text, WAYS[i].between ? "\"content\":\"hello\"" : "other"), "%s",
              text);
        free(text);
        test_run_free(&r);
    }
}

// ---- thoughts of earlier answers ----

// With the tokens of DeepSeek's format.
static const char *model_that_thinks(void) {
#define DS(name) "<\xef\xbd\x9c" name "\xef\xbd\x9c>"
    static const char *const TOKENS[] = {"<unk>",
                                         DS("begin\xe2\x96\x81of\xe2\x96\x81sentence"),
                                         DS("end\xe2\x96\x81of\xe2\x96\x81sentence"),
                                         "\xe2\x96\x81",
                                         "a",
                                         "b",
                                         DS("User"),
                                         DS("Assistant")};
    static const int32_t TYPES[] = {2, 3, 3, 1, 1, 1, 3, 3};
    GgufFile *file = gguf_tiny_llama();
    gguf_set_strings(file, "tokenizer.ggml.tokens", TOKENS, COUNT(TOKENS));
    gguf_set_array(file, "tokenizer.ggml.token_type", GGUF_I32, TYPES, COUNT(TYPES));
    size_t size;
    uint8_t *bytes = gguf_write(file, &size);
    const char *path = test_temporary("thinks.gguf");
    test_write_file(path, bytes, size);
    free(bytes);
    gguf_file_free(file);
    return path;
}

// The tokens of a conversation are those of a file of prompts that has it, which renders it anew:
// the format's prompt begins a thought, which its history has not.
Test(conversation, thoughts_of_earlier_answers_are_dropped) {
#define THINKING "|--template|deepseek-r1|-t|0|--max-tokens|6|-q|--logit-bias|0:-inf,2:-inf"
    char model[400], save[700], value[4000], line[900];
    snprintf(model, sizeof model, "%s", model_that_thinks());
    TypedKeys keys[] = {{"> ", "a b\n"},
                        {"> ", "b a\n"},
                        command(save, "/save %s\n", "thinks.json"),
                        {"> ", "\x04"}};
    setenv("TERM", "dumb", 1);
    TestRun chat = program_typed(test_text("chat|%s|--no-history" THINKING, model), keys, 4);
    check_status(&chat, 0);
    test_run_free(&chat);
    char *saved = text_of("thinks.json");
    for (char *at = saved; (at = strchr(at, '\n'));)
        *at = ' ';
    // {"messages":[a, answer, b, answer], ..}: the line of prompts has the first three.
    const char *begin = strchr(saved, '['), *end = begin;
    for (int message = 0; message < 3; message++)
        end = strchr(end, '}') + 1;
    int length = snprintf(line, sizeof line, "{\"messages\":%.*s]}\n", (int)(end - begin), begin);
    char *prompts = strdup(test_temporary("thinks.jsonl"));
    test_write_file(prompts, line, (size_t)length);
    const char *answers = test_temporary_new("thinks.answers");
    TestRun run = program("generate|%s|--prompts|%s|--out|%s" THINKING, model, prompts, answers);
    if (strstr(run.err, "without jansson")) SKIP("this build reads no JSON");
    check_status(&run, 0);
    test_run_free(&run);
    char *text = test_read_file(answers, NULL);
    int prompt_tokens = atoi(json_value(value, strchr(text, '\n') + 1, "prompt_tokens"));
    const char *ids = strstr(saved, "\"ids\":[");
    CHECK(ids && prompt_tokens > 15, "%s%s", saved, text);
    snprintf(value, sizeof value, "%.*s", (int)strcspn(ids, "]"), ids);
    CHECK_INT(1 + count_of(value, ","), prompt_tokens + 6);
    free(saved);
    free(text);
    free(prompts);
}
