// Messages typed at a terminal: what the keys mean is read in the history file, which has each
// message as it was sent.
#include "base/bytes.h"
#include "commands/chat/line_editor.h"
#include "tests/support/files/conversions.h"
#include "tests/support/program.h"

#include <locale.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_KEYS = 16 };
#define MARK "\x1b[?2004h" // what only comes before a new line
#define COUNT(keys) (sizeof(keys) / sizeof *(keys))

static void need_editor(void) {
    if (!TEST_EDIT) SKIP("this build has no line editor (EDIT=0)");
}

// A history directory of this test, and its file in it.
static const char *use_history(const char *name) {
    static char path[600];
    snprintf(path, sizeof path, "%s/limpid/history", test_temporary(name));
    setenv("XDG_STATE_HOME", test_temporary(name), 1);
    setenv("TERM", "xterm", 1);
    return path;
}

static TestRun chat_typed(const char *more, const TypedKeys *keys, size_t count) {
    char line[600];
    snprintf(line, sizeof line, "chat|%s|--template|llama2|-q|-t|0|--max-tokens|3|--color|never%s",
             small_model(), more);
    return program_typed(line, keys, count);
}

// Types the keys and wants this history.
static void check_messages(const char *name, const TypedKeys *keys, size_t count,
                           const char *wanted) {
    need_editor();
    const char *path = use_history(name);
    TestRun r = chat_typed("", keys, count);
    CHECK(r.status == 0, "exit %d: %s", r.status, r.out);
    size_t size = 0;
    char *history = test_read_file(path, &size);
    CHECK(history && size == strlen(wanted) && !memcmp(history, wanted, size), "%.*s", (int)size,
          history ? history : "");
    free(history);
    test_run_free(&r);
}

Test(line_editor, cursor_keys_home_and_erase_change_the_line) {
    static const TypedKeys KEYS[] = {
        {MARK "> ", "ac\x1b[Db\x01<\x05>\n"},            // left, Home and End by Ctrl-A and Ctrl-E
        {MARK "> ", "bc\x1b[Ha\x1b[Fdx\x7f\n"},          // Home, End, erase
        {MARK "> ", "\u65e5\u672c\U0001f600\x7f\x7f\n"}, // whole characters are erased
        {MARK "> ", "\x04"},
    };
    check_messages("edited", KEYS, COUNT(KEYS), "<abc>\nabcd\n\u65e5\n");
}

Test(line_editor, a_paste_is_one_message_and_waits_for_enter) {
    static const TypedKeys KEYS[] = {
        {MARK "> ", "\x1b[200~one\rtwo\r\x1b[31mthree\r\x1b[201~"},
        {"three", "\n"},
        {MARK "> ", "\x04"},
    };
    check_messages("pasted", KEYS, COUNT(KEYS), "one\\ntwo\\n[31mthree\n");
}

Test(line_editor, quotes_and_a_backslash_continue_a_message) {
    static const TypedKeys KEYS[] = {
        {MARK "> ", "\"\"\"\n"},        {MARK ". ", "a\n"},   {MARK ". ", "b\n"},
        {MARK ". ", "\"\"\"\n"},        {MARK "> ", "c\\\n"}, {MARK ". ", "d\n"},
        {MARK "> ", "\"\"\"e\"\"\"\n"}, {MARK "> ", "\x04"},
    };
    check_messages("several", KEYS, COUNT(KEYS), "a\\nb\nc\\nd\ne\n");
}

Test(line_editor, a_line_of_wide_characters_on_two_rows_is_shown_as_it_is) {
    need_editor();
    if (system("/usr/bin/python3 -c 'import pyte' 2>/dev/null")) SKIP("no pyte");
    TestRun r = program_shell("/usr/bin/python3 tests/programs/check_wide_line.py $RUN $MODEL");
    CHECK(r.status == 0, "%s%s", r.out, r.err);
    test_run_free(&r);
}

// A terminal that collects lines itself cuts them at 4,095 bytes.
Test(line_editor, a_line_of_6000_characters_is_sent_whole) {
    // In two parts, since a write of more than the terminal's queue would wait for the program, and
    // the program for a reader of its output.
    static char first[3001], second[3002], wanted[6002];
    for (int i = 0; i < 6000; i++)
        wanted[i] = i == 2999 ? '<' : (char)('a' + i % 26);
    memcpy(first, wanted, 3000);
    memcpy(second, wanted + 3000, 3000);
    strcpy(second + 3000, "\n");
    strcpy(wanted + 6000, "\n");
    const TypedKeys keys[] = {{MARK "> ", first}, {"<", second}, {MARK "> ", "\x04"}};
    need_editor();
    const char *path = use_history("long");
    TestRun r = chat_typed("", keys, 3);
    // The built-in model's context has no room for it.
    CHECK(r.status == 0 && strstr(r.out, "was not sent"), "exit %d", r.status);
    size_t size = 0;
    char *history = test_read_file(path, &size);
    CHECK(history && size == 6001 && !memcmp(history, wanted, 6001), "%zu bytes", size);
    free(history);
    test_run_free(&r);
}

// Its end is found behind what there is no room for.
Test(line_editor, a_paste_beyond_the_limit_ends_and_is_not_sent) {
    enum { SIZE = LIMIT_PROMPT + (1 << 17) };
    char *paste = malloc(SIZE + 16);
    strcpy(paste, "\x1b[200~");
    memset(paste + 6, 'a', SIZE);
    strcpy(paste + 6 + SIZE, "\x1b[201~");
    const TypedKeys keys[] = {{MARK "> ", paste}, {"aaa", "\n"}, {MARK "> ", "\x04"}};
    need_editor();
    use_history("paste");
    TestRun r = chat_typed("|-c|64", keys, 3);
    CHECK(r.status == 0 && strstr(r.out, "the message has over "), "exit %d: %s", r.status, r.out);
    test_run_free(&r);
    free(paste);
}

Test(line_editor, the_history_is_there_in_the_next_session_for_its_owner_alone) {
    static const TypedKeys FIRST[] = {
        {MARK "> ", "one\n"}, {MARK "> ", "two\n"}, {MARK "> ", "\x04"}};
    static const TypedKeys SECOND[] = {{MARK "> ", "\x1b[A\x1b[A!\n"}, {MARK "> ", "\x04"}};
    struct stat state;
    need_editor();
    const char *path = use_history("sessions");
    TestRun r = chat_typed("", FIRST, COUNT(FIRST));
    test_run_free(&r);
    CHECK(!stat(path, &state) && (state.st_mode & 0777) == 0600);
    r = chat_typed("", SECOND, COUNT(SECOND));
    test_run_free(&r);
    size_t size = 0;
    char *history = test_read_file(path, &size);
    CHECK(history && size == 13 && !memcmp(history, "one\ntwo\none!\n", 13), "%.*s", (int)size,
          history);
    free(history);
}

// Ctrl-D behind some lines ends the conversation, and what was typed is in the history; a paste of
// more than 64 KB is not, which would take the place of all others.
Test(line_editor, lines_that_were_not_sent_are_in_the_history_and_large_ones_are_not) {
    enum { SIZE = 70000 };
    char *paste = malloc(SIZE + 16);
    strcpy(paste, "\x1b[200~");
    memset(paste + 6, 'a', SIZE);
    strcpy(paste + 6 + SIZE, "\x1b[201~\n");
    const TypedKeys keys[] = {{MARK "> ", "one\n"},
                              {MARK "> ", paste},
                              {MARK "> ", "\"\"\"two\n"},
                              {MARK ". ", "three\n"},
                              {MARK ". ", "\x04"}};
    check_messages("unsent", keys, COUNT(keys), "one\n\"\"\"two\\nthree\\n\n");
    free(paste);
}

Test(line_editor, a_history_that_can_only_be_read_is_read) {
    need_editor();
    if (!geteuid()) SKIP("root writes to every file");
    const char *path = use_history("readonly");
    TestRun first = chat_typed("", (TypedKeys[]){{MARK "> ", "one\n"}, {MARK "> ", "\x04"}}, 2);
    test_run_free(&first);
    CHECK(!chmod(path, 0400));
    TestRun r =
        chat_typed("", (TypedKeys[]){{MARK "> ", "\x1b[A!"}, {"one!", "\x03"}, {"> ", "\x04"}}, 3);
    CHECK(strstr(r.out, "one!"), "%s", r.out);
    test_run_free(&r);
}

// A file over a megabyte is cut to its last part, but not where that is inside one long message.
Test(line_editor, a_history_with_a_long_last_message_is_kept) {
    enum { SIZE = 1200000, LAST = 300000 };
    static const TypedKeys KEYS[] = {{MARK "> ", "\x04"}};
    need_editor();
    const char *path = use_history("longest");
    TestRun first = chat_typed("", (TypedKeys[]){{MARK "> ", "one\n"}, {MARK "> ", "\x04"}}, 2);
    test_run_free(&first);
    char *text = malloc(SIZE);
    for (int i = 0; i < SIZE; i++)
        text[i] = (i + 1) % 100 && i != SIZE - 1 ? 'a' : '\n';
    memset(text + SIZE - 1 - LAST, 'b', LAST);
    test_write_file(path, text, SIZE);
    TestRun r = chat_typed("", KEYS, 1);
    CHECK_INT(r.status, 0);
    size_t size = 0;
    char *history = test_read_file(path, &size);
    CHECK(size == SIZE && !memcmp(history, text, SIZE), "%zu bytes", size);
    test_run_free(&r);
    free(history);
    free(text);
}

// Also when it was the first one, and whatever is in front of it or is escaped in it.
Test(line_editor, a_message_said_again_is_in_the_history_once) {
    static const char *const SAID[] = {"a",    "a", "xa", "a",     "a",     "b\nb",
                                       "b\nb", "b", "b",  "b\\nb", "b\\nb", "a"};
    const char *path = use_history("again");
    for (size_t i = 0; i < sizeof SAID / sizeof *SAID; i++)
        history_append(path, SAID[i], strlen(SAID[i]));
    size_t size = 0;
    char *history = test_read_file(path, &size);
    static const char WANTED[] = "a\nxa\na\nb\\nb\nb\nb\\\\nb\na\n";
    CHECK(history && size == sizeof WANTED - 1 && !memcmp(history, WANTED, size), "%.*s", (int)size,
          history ? history : "");
    free(history);
}

Test(line_editor, no_history_and_one_that_cannot_be_written_are_no_error) {
    static const TypedKeys KEYS[] = {{MARK "> ", "one\n"}, {MARK "> ", "\x04"}};
    need_editor();
    const char *path = use_history("none");
    TestRun r = chat_typed("|--no-history", KEYS, COUNT(KEYS));
    CHECK(r.status == 0 && access(path, F_OK), "exit %d", r.status);
    test_run_free(&r);
    setenv("XDG_STATE_HOME", "/dev/null", 1);
    r = chat_typed("", KEYS, COUNT(KEYS));
    CHECK(r.status == 0 && !strstr(r.out, "/dev/null"), "exit %d: %s", r.status, r.out);
    test_run_free(&r);
}

// No shell could continue the program: Ctrl-Z does nothing, and the line is not written again.
Test(line_editor, ctrl_z_without_a_shell_leaves_the_line_as_it_is) {
    static const TypedKeys KEYS[] = {
        {MARK "> ", "stays"}, {"stays", "\x1a"}, {MARK, "!\n"}, {MARK "> ", "\x04"}};
    check_messages("stopped", KEYS, COUNT(KEYS), "stays!\n");
    TestRun r = chat_typed("", KEYS, COUNT(KEYS));
    const char *line = strstr(r.out, "stays");
    CHECK(line && !strstr(line + 1, "stays"), "%s", r.out);
    test_run_free(&r);
}

Test(line_editor, ctrl_c_clears_the_line_and_twice_ends) {
    static const TypedKeys KEYS[] = {{MARK "> ", "gone"},
                                     {"gone", "\x03"},
                                     {MARK "> ", "kept\n"},
                                     {MARK "> ", "\x03"},
                                     {MARK "> ", "\x03"}};
    need_editor();
    const char *path = use_history("cleared");
    TestRun r = chat_typed("", KEYS, COUNT(KEYS));
    CHECK(r.status == 130, "exit %d: %s", r.status, r.out);
    CHECK(strstr(r.out, "Ctrl-C again"), "%s", r.out);
    CHECK(!r.drops_output, "Ctrl-C would drop what is being written");
    CHECK(strstr(r.out, "\x1b[?2004h") && strrchr(r.out, 'h') < strrchr(r.out, 'l'), "%s", r.out);
    test_run_free(&r);
    size_t size = 0;
    char *history = test_read_file(path, &size);
    CHECK(history && size == 5 && !memcmp(history, "kept\n", 5), "%.*s", (int)size, history);
    free(history);
}

// The endless answer ends by Ctrl-C; the lines that were pasted meanwhile wait for Enter.
Test(line_editor, a_paste_during_an_answer_is_one_message) {
    static const TypedKeys KEYS[] = {{MARK "> ", "a b\n"}, {"ab", "\x1b[200~one\rtwo\x1b[201~"},
                                     {"ab", "\x03"},       {"two", "\n"},
                                     {"ab", "\x03"},       {"> ", "\x04"}};
    char line[1200];
    need_editor();
    const char *path = use_history("pasted early");
    snprintf(line, sizeof line,
             "chat|%s|--template|llama2|-q|--ignore-eos|-c|500000|-s|1|--color|never",
             conversion_endless());
    TestRun r = program_typed(line, KEYS, COUNT(KEYS));
    CHECK(r.status == 0, "exit %d: %s", r.status, r.out);
    // Until Ctrl-C the terminal is told to mark what is pasted.
    const char *answer = strstr(r.out, "abab"), *off = strstr(r.out, "\x1b[?2004l");
    CHECK(answer && off && answer < off, "%s", r.out);
    test_run_free(&r);
    size_t size = 0;
    char *history = test_read_file(path, &size);
    CHECK(history && size == 13 && !memcmp(history, "a b\none\\ntwo\n", 13), "%.*s", (int)size,
          history ? history : "");
    free(history);
}

// Ctrl-R begins a search, which the second Ctrl-C ends, and not the conversation.
Test(line_editor, two_ctrl_c_with_a_key_between_end_nothing) {
    static const TypedKeys KEYS[] = {{MARK "> ", "\x03"},
                                     {"ends the conversation", "\x12"},
                                     {"bck", "\x03"},
                                     {"ends the conversation", "\x04"}};
    need_editor();
    use_history("searched");
    TestRun r = chat_typed("", KEYS, COUNT(KEYS));
    CHECK(r.status == 0, "exit %d: %s", r.status, r.out);
    test_run_free(&r);
}

// By hand, behind a mark of 2 columns in a window of 10.
Test(line_editor, knows_the_row_of_the_cursor) {
    static const struct {
        const wchar_t *text;
        size_t rows;
    } LINES[] = {
        {L"", 0},
        {L"1234567", 0},
        {L"12345678", 1}, // the row is full: the cursor is in the next
        {L"123456789", 1},
        {L"1234567\u65e5", 1}, // two columns wide, of which one is left
        {L"123456\u65e5\u65e5", 1},
        {L"a\nb", 1},
        {L"a\t1", 0},
        {L"a\t12", 1}, // the tab ends at column 8
        {L"a\n1234567890123456789012345", 3},
    };
    setlocale(LC_CTYPE, "C.UTF-8");
    for (size_t i = 0; i < COUNT(LINES); i++) {
        size_t rows = line_rows(LINES[i].text, LINES[i].text + wcslen(LINES[i].text), 2, 10);
        CHECK(rows == LINES[i].rows, "line %zu: %zu rows", i, rows);
    }
}
