// chat --session: a conversation in several runs is the one of a single run, token for token and
// bit for bit, whatever comes between.
#include "base/error.h"
#include "commands/cache/cache_file.h"
#include "tests/support/program.h"

#include <signal.h>
#include <unistd.h>

#define CHAT "chat|%s|--template|llama2|-q|-t|0|--max-tokens|9"

static char path_of[4][300];
static char *session_path(int which, const char *name) {
    snprintf(path_of[which], sizeof path_of[which], "%s", test_temporary(name));
    return path_of[which];
}

// One message in a run of its own.
static void say(const char *path, const char *message, const char *more) {
    TestRun run = program(CHAT "|--session|%s|-i|%s%s", small_model(), path, message, more);
    check_status(&run, 0);
    test_run_free(&run);
}

// Messages, a line each, in one run.
static void say_all(const char *path, const char *lines, const char *more) {
    char line[1000];
    snprintf(line, sizeof line, CHAT "|--session|%s%s", small_model(), path, more);
    TestRun run = program_input(line, lines, strlen(lines));
    check_status(&run, 0);
    test_run_free(&run);
}

static void check_equal_files(const char *a, const char *b) {
    size_t a_size, b_size;
    char *first = test_read_file(a, &a_size), *second = test_read_file(b, &b_size);
    CHECK(a_size == b_size && !memcmp(first, second, a_size), "%s and %s differ (%zu, %zu bytes)",
          a, b, a_size, b_size);
    free(first);
    free(second);
}

static void need_editor(void) {
    if (!TEST_EDIT) SKIP("this build has no line editor (EDIT=0)");
    setenv("TERM", "xterm", 1);
    setenv("NO_COLOR", "1", 1);
}

// The whole file: text, ids, keys and values.
Test(session, of_three_runs_is_that_of_one) {
    static const char *const WAYS[] = {"|--precision|f32|--kv|f32", "|--precision|a16|--kv|f16",
                                       "|--precision|a8|--kv|bf16", "|--repeat-penalty|1.3",
                                       "|-y|Be brief."};
    for (size_t i = 0; i < sizeof WAYS / sizeof *WAYS; i++) {
        char *parts = session_path(0, test_text("parts%zu", i));
        say(parts, "Lily had a cat", WAYS[i]);
        say(parts, "The dog ran", WAYS[i]);
        say(parts, "And then", i == 4 ? "" : WAYS[i]); // its system message is in the file
        char *whole = session_path(1, test_text("whole%zu", i));
        say_all(whole, "Lily had a cat\nThe dog ran\nAnd then\n", WAYS[i]);
        check_equal_files(parts, whole);
    }
}

// Its tokens are read again by the other precision: the cache is that of a run which computed them.
Test(session, in_another_precision_is_computed_again_from_its_ids) {
    char *path = session_path(0, "precision");
    char ids[4000] = "";
    CacheFile file = {0};
    Error error = {0};
    say(path, "Lily had a cat", "");
    TestRun run = program(CHAT "|--session|%s|-i|The dog ran|--precision|a8", small_model(), path);
    check_status(&run, 0);
    test_run_free(&run);
    CHECK(cache_file_open(&file, path, &error), "%s", error.message);
    CHECK_STRING(file.key.values[3], "a8");
    for (int i = 0, used = 0; i < file.cached; i++)
        used += snprintf(ids + used, sizeof ids - (size_t)used, "%s%d", i ? "," : "",
                         (int)file.ids.ids[i]);
    char *other = session_path(1, "computed");
    run = program("generate|%s|-q|--prompt-ids|%s|--ids|--max-tokens|1|--precision|a8|--cache|%s",
                  small_model(), ids, other);
    check_status(&run, 0);
    test_run_free(&run);
    // The bytes of the parts, without their checksums, which are over the header too.
    CacheFile computed;
    size_t size, other_size;
    CHECK(cache_file_open(&computed, other, &error), "%s", error.message);
    char *bytes = test_read_file(path, &size), *wanted = test_read_file(other, &other_size);
    CHECK(computed.cached == file.cached && computed.parts_bytes == file.parts_bytes,
          "other sizes");
    size_t each = file.parts_bytes / file.n_parts; // no layer has a window: all parts are equal
    for (size_t i = 0; i < file.n_parts; i++)
        CHECK(!memcmp(bytes + file.parts_at + i * each, wanted + computed.parts_at + i * each,
                      each - 8),
              "part %zu", i);
    free(bytes);
    free(wanted);
    cache_file_close(&file);
    cache_file_close(&computed);
}

// Behind the header, which has a checksum of its own: the tokens are there, the bytes are the same.
Test(session, with_a_damaged_cache_is_computed_again) {
    char *path = session_path(0, "damaged"), *whole = session_path(1, "undamaged");
    static const int LONGER[] = {0, -1, 1, -2000}; // 0: another bit
    size_t size;
    say_all(whole, "Lily had a cat\nThe dog ran\n", "");
    for (size_t i = 0; i < sizeof LONGER / sizeof *LONGER; i++) {
        unlink(path);
        say(path, "Lily had a cat", "");
        char *bytes = test_read_file(path, &size); // and a 0 behind them
        if (!LONGER[i]) bytes[size - 100] ^= 4;
        test_write_file(path, bytes, size + (size_t)LONGER[i]);
        free(bytes);
        TestRun run =
            program("chat|%s|--template|llama2|-t|0|--max-tokens|9|--session|%s|-i|The dog ran",
                    small_model(), path);
        check_status(&run, 0);
        CHECK(strstr(run.err, "it is damaged; its "), "%s", run.err);
        test_run_free(&run);
        check_equal_files(path, whole);
    }
}

Test(session, says_what_it_goes_on_with) {
    char *path = session_path(0, "said");
    const char *line = "chat|%s|--template|llama2|-t|0|--max-tokens|4|--session|%s|-i|a b%s";
    const char *const MORE[][2] = {
        {"", ": a new conversation\n"},
        {"", " tokens of the conversation from "},
        {"|--kv|f32", " was made with cache type f16, this run has f32: its "},
        {"|-y|Be brief.", ": the session has another system message than -y; 3 exchanges, which "
                          "the model will read again\n"},
        {"|-c|20|--context-overflow|shift", " tokens, the context room for 20; 4 exchanges, which"},
        {"|-c|70", ", with the conversation before it, "},
    };
    for (size_t i = 0; i < sizeof MORE / sizeof *MORE; i++) {
        TestRun run = program(line, small_model(), path, MORE[i][0]);
        CHECK(strstr(run.err, MORE[i][1]), "%s: %s", MORE[i][0], run.err);
        test_run_free(&run);
    }
    TestRun run = program("chat|%s|--template|mistral-v1|-t|0|--max-tokens|4|--session|%s|-i|a",
                          small_model(), path);
    CHECK(strstr(run.err, ": the session has the chat format llama2, this run mistral-v1; "), "%s",
          run.err);
    test_run_free(&run);
}

// /undo, /clear, /load and a system message in the second run; each file is one that goes on.
Test(session, goes_on_after_commands) {
    static const char *const COMMANDS[] = {"/undo\n", "/clear\n", "/system Be brief.\n", "/retry\n",
                                           "/stats\n"};
    static const int TURNS[] = {2, 1, 3, 3, 3}; // with another message behind it
    setenv("TERM", "dumb", 1);
    for (size_t i = 0; i < sizeof COMMANDS / sizeof *COMMANDS; i++) {
        char line[1000];
        char *path = session_path(0, test_text("command%zu", i));
        say_all(path, "Lily had a cat\nThe dog ran\n", "");
        const TypedKeys keys[] = {{"> ", COMMANDS[i]}, {"> ", "And then\n"}, {"> ", "/exit\n"}};
        snprintf(line, sizeof line, CHAT "|--session|%s", small_model(), path);
        TestRun run = program_typed(line, keys, 3);
        CHECK(run.status == 0, "%s: exit %d, %s", COMMANDS[i], run.status, run.out);
        test_run_free(&run);
        CacheFile file;
        Error error = {0};
        CHECK(cache_file_open(&file, path, &error), "%s", error.message);
        int turns = 0;
        for (size_t c = 0; c + 7 < file.text.length; c++)
            turns += !memcmp(file.text.text + c, "\"user\"", 6);
        CHECK(turns == TURNS[i], "%s: %d turns", COMMANDS[i], turns);
        CHECK(file.cached > 0 && file.ids.count - (size_t)file.cached <= 1, "%s: %d of %zu cached",
              COMMANDS[i], file.cached, file.ids.count);
        cache_file_close(&file);
        say(path, "More", "");
    }
}

// A conversation that begins as the one before it computes what is new alone, with the same bits.
Test(session, takes_the_beginning_of_the_cache_after_clear) {
    char line[1000];
    char *path = session_path(0, "cleared"), *fresh = session_path(1, "fresh");
    setenv("TERM", "dumb", 1);
    const TypedKeys keys[] = {{"> ", "Lily had a cat\n"},
                              {"> ", "/clear\n"},
                              {"> ", "Lily had a dog\n"},
                              {"> ", "/exit\n"}};
    snprintf(line, sizeof line, CHAT "|-y|Be brief.|--session|%s", small_model(), path);
    TestRun run = program_typed(line, keys, 4);
    CHECK(run.status == 0, "exit %d: %s", run.status, run.out);
    test_run_free(&run);
    say(fresh, "Lily had a dog", "|-y|Be brief.");
    check_equal_files(path, fresh);
}

Test(session, goes_on_where_the_context_is_full) {
    char *path = session_path(0, "full");
    for (int i = 0; i < 8; i++)
        say(path, "Lily had a cat", "|-c|48|--context-overflow|shift");
    for (int i = 0; i < 8; i++)
        say(path, "Lily had a cat", "|-c|48|--context-overflow|sinks|--force");
}

Test(session, no_other_file_is_lost) {
    char *path = session_path(0, "other");
    test_write_file(path, "a text that is longer than the header of a cache file", 53);
    TestRun run = program(CHAT "|-i|a|--session|%s|--force", small_model(), path);
    check_refused(&run, ERROR_FILE, "no file of limpid's --cache");
    run = program(CHAT "|-i|a|--session|%s", small_model(), "weights/builtin.gguf");
    check_refused(&run, ERROR_FILE, "no file of limpid's --cache");
    run = program(CHAT "|-i|a|--session|%s", small_model(), "/nowhere/at/all");
    check_refused(&run, ERROR_IO, "No such file");
    run = program(CHAT "|-i|a|--session|%s|--transcript|%s", small_model(), "/tmp/a", "/tmp/a");
    check_refused(&run, ERROR_USAGE, "name one file");
    // By another name, or with /save: its bytes stay.
    char *mine = session_path(2, "mine"), *link = strdup(test_temporary("link"));
    run = program(CHAT "|-i|a|--session|%s", small_model(), mine);
    check_status(&run, 0);
    test_run_free(&run);
    CHECK(!symlink(mine, link), "link");
    run = program(CHAT "|-i|b|--session|%s|--transcript|%s|--force", small_model(), mine, link);
    check_refused(&run, ERROR_USAGE, "name one file");
    run = program(CHAT "|-i|a|--session|%s", small_model(), mine);
    check_status(&run, 0);
    test_run_free(&run);
    free(link);
    // A cache of generate has no conversation.
    char *cache = session_path(1, "cache");
    run = program("generate|%s|-q|--prompt-ids|1,3|--ids|--max-tokens|1|--cache|%s", small_model(),
                  cache);
    check_status(&run, 0);
    test_run_free(&run);
    run = program(CHAT "|-i|a|--session|%s", small_model(), cache);
    check_refused(&run, ERROR_FILE, "holds a prompt of generate --cache, no conversation");
    run = program(CHAT "|-i|a|--session|%s|--force", small_model(), cache);
    check_refused(&run, ERROR_FILE, "holds a prompt of generate --cache, no conversation");
}

Test(session, of_another_model_says_so) {
    char *path = session_path(0, "of-another");
    size_t size;
    char *bytes = test_read_file(small_model(), &size), *other = session_path(1, "another.gguf");
    bytes[size - 100] ^= 1;
    test_write_file(other, bytes, size);
    free(bytes);
    say(path, "Lily had a cat", "");
    TestRun run =
        program("chat|%s|--template|llama2|-t|0|--max-tokens|4|--session|%s|-i|a", other, path);
    CHECK(strstr(run.err, test_text(": the session is of another model: %s; 1 exchange, which",
                                    small_model())),
          "%s", run.err);
    test_run_free(&run);
}

// How often the file's conversation has a text.
static int count_of(const char *path, const char *text) {
    CacheFile file;
    Error error = {0};
    CHECK(cache_file_open(&file, path, &error), "%s", error.message);
    int count = 0;
    for (size_t i = 0, n = strlen(text); i + n <= file.text.length; i++)
        count += !memcmp(file.text.text + i, text, n);
    cache_file_close(&file);
    return count;
}

Test(session, keeps_what_has_left_the_context) {
    static const char *const MESSAGES[] = {"Lily had a cat", "The dog ran", "And then", "Tom"};
    char *path = session_path(0, "left"), *whole = session_path(1, "left-whole");
    const char *small = "|-c|48|--context-overflow|shift";
    for (int i = 0; i < 4; i++)
        say(path, MESSAGES[i], small);
    say_all(whole, "Lily had a cat\nThe dog ran\nAnd then\nTom\n", small);
    check_equal_files(path, whole);
    CHECK_INT(count_of(path, "\"left\":"), 1);
    for (int i = 0; i < 4; i++)
        CHECK(count_of(path, MESSAGES[i]) == 1, "%s is not in it", MESSAGES[i]);
    // A larger context reads them again: the tokens are those of a conversation that never was
    // in a small one.
    TestRun run = program("chat|%s|--template|llama2|-t|0|--max-tokens|9|--session|%s|-i|Again|"
                          "-c|200",
                          small_model(), path);
    check_status(&run, 0);
    CHECK(strstr(run.err, "the context has room for more of it; 4 exchanges, which"), "%s",
          run.err);
    test_run_free(&run);
    CHECK_INT(count_of(path, "\"left\":"), 0);
    for (int i = 0; i < 4; i++)
        CHECK(count_of(path, MESSAGES[i]) == 1, "%s is not in it", MESSAGES[i]);
}

// The second run is refused while the first has the file open, be it new or not; and a run that
// was refused, or said nothing, leaves no file.
Test(session, is_of_one_run_at_a_time) {
    static const char COMMAND[] =
        "(echo Lily; sleep 3) | $RUN chat $MODEL --template llama2 -q -t 0 "
        "--max-tokens 4 --session %s >/dev/null & sleep 1; $RUN chat $MODEL --template llama2 -q "
        "-t 0 --max-tokens 4 --session %s -i Tom; status=$?; wait; exit $status";
    char *path = session_path(0, "locked");
    for (int i = 0; i < 2; i++) {
        TestRun run = program_shell(test_text(COMMAND, path, path));
        check_refused(&run, ERROR_IO, "another run has it open");
        CHECK_INT(count_of(path, "\"content\":\"Lily\""), i + 1);
    }
    char *unused = session_path(1, "unused");
    say_all(unused, "", "");
    CHECK(access(unused, F_OK), "there is a file");
    TestRun run = program(CHAT "|-c|4|--session|%s|-i|Lily had a cat", small_model(), unused);
    check_refused(&run, ERROR_USAGE, "the message");
    CHECK(access(unused, F_OK), "there is a file");
}

// What has come to the name meanwhile is not the session: it stays, and the conversation is beside
// it, also where a signal ends it.
Test(session, does_not_replace_what_has_come_to_its_name) {
    static const char *const COMES[] = {"rm $S; echo mine > $S; exec 3>&-",
                                        "echo mine > $S; exec 3>&-",
                                        "echo mine > $S; kill -TERM $!"};
    for (int i = 0; i < 3; i++) {
        const char *path = session_path(0, test_text("taken%d", i));
        TestRun r = program_shell(test_text(
            "S=%s; mkfifo $S.in; $RUN chat $MODEL --template llama2 -q -t 0 --max-tokens 3 "
            "--session $S --transcript $S.t < $S.in & exec 3> $S.in; echo Tom >&3; "
            "until [ -s $S.t ]; do sleep 0.05; done; %s; wait $!; echo \"status $?\"; cat $S",
            path, COMES[i]));
        CHECK(strstr(r.out, i < 2 ? "status 4\nmine\n" : "\nmine\n"), "%s: %s%s", COMES[i], r.out,
              r.err);
        CHECK(strstr(r.err, test_text("the conversation is beside it, in taken%d.1", i)), "%s",
              r.err);
        CHECK(!strstr(r.err, "lost"), "%s", r.err);
        test_run_free(&r);
        r = program(CHAT "|--session|%s.1|-i|And then", small_model(), path);
        check_status(&r, 0);
        test_run_free(&r);
    }
}

// A megabyte of keys and values has no room in 8 KB, and the texts have.
Test(session, keeps_the_texts_where_there_is_no_room_for_the_rest) {
    const char *path = session_path(0, "narrow");
    TestRun r = program_shell(test_text(
        "ulimit -f 16; echo \"Tom had a cat\" | $RUN chat $MODEL --template llama2 -q -t 0 "
        "--max-tokens 9 --session %s",
        path));
    check_status(&r, 0);
    CHECK(strstr(r.err, "the texts alone are kept"), "%s", r.err);
    test_run_free(&r);
    r = program(CHAT "|--session|%s|-i|And then", small_model(), path);
    check_status(&r, 0);
    test_run_free(&r);
}

Test(session, that_is_empty_is_new_and_a_damaged_one_begins_anew_with_force) {
    char *path = session_path(0, "begins");
    size_t size;
    test_write_file(path, "", 0);
    say(path, "Lily had a cat", "");
    char *bytes = test_read_file(path, &size);
    bytes[50] ^= 4;
    test_write_file(path, bytes, size);
    free(bytes);
    TestRun run = program(CHAT "|-i|a|--session|%s", small_model(), path);
    check_refused(&run, ERROR_FILE, "damaged; --force begins it anew");
    say(path, "Tom", "|--force");
    CHECK_INT(count_of(path, "Lily"), 0);
    CHECK_INT(count_of(path, "Tom"), 1);
}

// A message that is lost is not said to be kept.
Test(session, is_not_kept_where_the_first_message_is_refused) {
    char *path = session_path(0, "refused");
    size_t size, after_size;
    say(path, "Lily had a cat", "");
    char *before = test_read_file(path, &size);
    TestRun run =
        program("chat|%s|--template|llama2|-t|0|-c|12|--session|%s|-i|Tom", small_model(), path);
    check_status(&run, ERROR_USAGE);
    CHECK(!strstr(run.err, "kept"), "%s", run.err);
    test_run_free(&run);
    char *after = test_read_file(path, &after_size);
    CHECK(size == after_size && !memcmp(before, after, size), "it was written");
    free(before);
    free(after);
}

// Ctrl-C twice is exit code 130, and the conversation is kept all the same.
Test(session, is_kept_where_ctrl_c_ends_it) {
    static const TypedKeys KEYS[] = {
        {"\x1b[?2004h> ", "The dog ran\n"}, {"\x1b[?2004h> ", "\x03"}, {"\x1b[?2004h> ", "\x03"}};
    char line[1000];
    need_editor();
    char *path = session_path(0, "ended"), *whole = session_path(1, "whole");
    say(path, "Lily had a cat", "");
    snprintf(line, sizeof line, CHAT "|--no-history|--session|%s", small_model(), path);
    TestRun run = program_typed(line, KEYS, 3);
    CHECK(run.status == 130, "exit %d: %s", run.status, run.out);
    test_run_free(&run);
    say_all(whole, "Lily had a cat\nThe dog ran\n", "");
    check_equal_files(path, whole);
}

// While the next message is waited for, in a pipe: SIGHUP comes twice at once, as from a terminal
// and its shell. (A shell's background job ignores SIGINT.)
Test(session, is_kept_where_a_signal_ends_it_between_two_lines) {
    static const char *const SIGNALS[] = {"TERM", "HUP", "XCPU"};
    char script[2000], *path = session_path(0, "signalled"),
                       *whole = session_path(1, "signalled-whole");
    say(whole, "Lily had a cat", "");
    for (size_t i = 0; i < sizeof SIGNALS / sizeof *SIGNALS; i++) {
        unlink(path);
        snprintf(script, sizeof script,
                 "rm -f %s.in; mkfifo %s.in\n"
                 "$RUN chat $MODEL --template llama2 -t 0 --max-tokens 9 --session %s "
                 "<%s.in >/dev/null 2>%s.err &\n"
                 "exec 3>%s.in; echo 'Lily had a cat' >&3\n"
                 "until grep -q 'run: prompt' %s.err; do kill -0 $! || break; sleep 0.02; done\n"
                 "sleep 0.1; kill -%s $!; sleep 0.001; kill -%s $!; wait $!; STATUS=$?; cat "
                 "%s.err; exit $STATUS",
                 path, path, path, path, path, path, path, SIGNALS[i], SIGNALS[i], path);
        TestRun run = program_shell(script);
        int number = i == 0 ? SIGTERM : i == 1 ? SIGHUP : SIGXCPU;
        CHECK(run.status == 128 + number && strstr(run.out, "what was said before is kept"),
              "%s: exit %d: %s%s", SIGNALS[i], run.status, run.out, run.err);
        test_run_free(&run);
        check_equal_files(path, whole);
    }
}

// As in "| head -1": SIGPIPE ends the program once the conversation is kept.
Test(session, is_kept_where_nobody_reads_any_more) {
    char script[1000], *path = session_path(0, "unread");
    snprintf(
        script, sizeof script,
        "{ echo 'Lily had a cat'; sleep 0.3; echo 'The dog ran'; sleep 0.3; echo 'And then'; } |"
        "{ $RUN chat $MODEL --template llama2 -t 0 --max-tokens 9 --session %s 2>%s.err;"
        " echo $? >%s.status; } | head -1; cat %s.err; exit $(cat %s.status)",
        path, path, path, path, path);
    TestRun run = program_shell(script);
    CHECK(run.status == 128 + SIGPIPE && strstr(run.out, "the conversation is kept in"),
          "exit %d: %s%s", run.status, run.out, run.err);
    test_run_free(&run);
    CHECK_INT(count_of(path, "Lily had a cat"), 1);
}

Test(session, is_kept_where_a_signal_ends_it_at_the_line_editor) {
    static const TypedKeys KEYS[] = {
        {"\x1b[?2004h> ", "Lily had a cat\n"}, {"\x1b[?2004h> ", "x"}, {"x", NULL}};
    static const int NUMBERS[] = {SIGTERM, SIGHUP, SIGXCPU};
    char line[1000];
    need_editor();
    char *path = session_path(0, "typed"), *whole = session_path(1, "typed-whole");
    say(whole, "Lily had a cat", "");
    for (size_t i = 0; i < sizeof NUMBERS / sizeof *NUMBERS; i++) {
        unlink(path);
        snprintf(line, sizeof line, CHAT "|--no-history|--session|%s", small_model(), path);
        TestRun run = program_job(line, KEYS, 3, NUMBERS[i]);
        CHECK(run.status == 128 + NUMBERS[i], "exit %d: %s", run.status, run.out);
        test_run_free(&run);
        check_equal_files(path, whole);
    }
}

// In a pipe the other messages are answered, and the exit code tells.
Test(session, messages_of_a_pipe_that_do_not_fit_are_told_by_the_exit_code) {
    char line[1000], lines[700] = "Lily had a cat\n", *path = session_path(0, "some");
    for (int i = 0; i < 60; i++)
        strcat(lines, " a cat");
    strcat(lines, "\nThe dog ran\n");
    snprintf(line, sizeof line, CHAT "|-c|64|--context-overflow|shift|--session|%s", small_model(),
             path);
    TestRun run = program_input(line, lines, strlen(lines));
    CHECK(run.status == ERROR_USAGE && strstr(run.err, "1 message did not fit: not sent"),
          "exit %d: %s", run.status, run.err);
    test_run_free(&run);
    CHECK_INT(count_of(path, "Lily had a cat"), 1);
    CHECK_INT(count_of(path, "The dog ran"), 1);
    CHECK_INT(count_of(path, "a cat a cat"), 0);
    unlink(path);
    snprintf(line, sizeof line, CHAT "|-c|64|--context-overflow|stop|--session|%s", small_model(),
             path);
    run = program_input(line, lines, strlen(lines));
    CHECK(run.status == ERROR_USAGE && strstr(run.err, "the conversation ends here") &&
              strstr(run.err, "1 message did not fit: not sent"),
          "exit %d: %s", run.status, run.err);
    test_run_free(&run);
    CHECK_INT(count_of(path, "Lily had a cat"), 1);
}

// Nothing is answered, so the exit code says so; what was said before stays.
Test(session, a_message_of_i_that_does_not_fit_is_refused_in_every_way) {
    static const char *const WAYS[] = {"shift", "stop"};
    char *path = session_path(0, "unfit"), words[400] = "";
    size_t size, after_size;
    for (int i = 0; i < 30; i++)
        strcat(words, " a cat");
    for (size_t i = 0; i < sizeof WAYS / sizeof *WAYS; i++) {
        unlink(path);
        say(path, "Lily had a cat", test_text("|-c|64|--context-overflow|%s", WAYS[i]));
        char *before = test_read_file(path, &size);
        TestRun run = program(CHAT "|-c|64|--context-overflow|%s|--session|%s|-i|%s", small_model(),
                              WAYS[i], path, words);
        check_refused(&run, ERROR_USAGE, "the message has");
        char *after = test_read_file(path, &after_size);
        CHECK(size == after_size && !memcmp(before, after, size), "%s: it was written", WAYS[i]);
        free(before);
        free(after);
    }
}
