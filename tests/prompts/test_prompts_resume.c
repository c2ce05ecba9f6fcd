// generate --resume: whatever ended a run, the next ones finish the file, and it is byte for byte
// the file of a run that nothing ended.
#include "base/error.h"
#include "base/hash.h"
#include "tests/support/program.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FEW = 30, PROMPTS = TEST_SANITIZED ? FEW : 200 };

typedef struct Files {
    char prompts[300], whole[300], out[300];
    char *wanted; // the bytes of `whole`, owned
    size_t size;
} Files;

static void write_prompts(const char *path, int n) {
    FILE *file = fopen(path, "w");
    CHECK(file, "no %s", path);
    for (int i = 0; i < n; i++)
        fprintf(file,
                i % 10 == 9 ? "{\"id\":%d,\"promt\":\"a\"}\n"
                            : "{\"id\":%d,\"prompt\":\"Once upon a time there was a\","
                              "\"max_tokens\":40,\"seed\":%d}\n",
                i, i);
    fclose(file);
}

static TestRun run_to(const char *prompts, const char *out, const char *options) {
    return program("generate|%s|--prompts|%s|--out|%s|--ignore-eos|-q%s", small_model(), prompts,
                   out, options);
}

static void run_well(const char *prompts, const char *out, const char *options) {
    TestRun run = run_to(prompts, out, options);
    check_status(&run, 0);
    test_run_free(&run);
}

static Files files_open(int n) {
    Files f = {0};
    snprintf(f.prompts, sizeof f.prompts, "%s", test_temporary_new("prompts"));
    snprintf(f.whole, sizeof f.whole, "%s", test_temporary_new("whole"));
    snprintf(f.out, sizeof f.out, "%s", test_temporary_new("out"));
    write_prompts(f.prompts, n);
    run_well(f.prompts, f.whole, "");
    f.wanted = test_read_file(f.whole, &f.size);
    return f;
}

static void check_whole(const Files *f) {
    size_t size = 0;
    char *got = test_read_file(f->out, &size);
    CHECK(size == f->size && !memcmp(got, f->wanted, size), "%zu bytes, wanted %zu", size, f->size);
    free(got);
}

// The bytes that are there are the first of those wanted, up to the last newline.
static size_t check_beginning(const Files *f) {
    size_t size = 0;
    if (access(f->out, R_OK)) return 0;
    char *got = test_read_file(f->out, &size);
    CHECK(size <= f->size && !memcmp(got, f->wanted, size), "%zu bytes differ", size);
    free(got);
    return size;
}

// Starts a run and kills it after so many microseconds. True: it was faster.
static bool run_and_kill(const Files *f, useconds_t after) {
    const char *const argv[] = {TEST_RUN, "generate",   small_model(), "--prompts",    f->prompts,
                                "--out",  f->out,       "--resume",    "-q",           "-j",
                                "1",      "--parallel", "3",           "--ignore-eos", NULL};
    pid_t child = fork();
    int status = 0;
    CHECK(child >= 0, "no process");
    if (!child) {
        execv(argv[0], (char *const *)argv);
        _exit(127);
    }
    usleep(after);
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    CHECK(WIFSIGNALED(status) || !WEXITSTATUS(status), "status %d", status);
    return !WIFSIGNALED(status);
}

Test(prompts_resume, a_run_killed_at_random_moments_is_finished_with_every_id_once) {
    Files f = files_open(PROMPTS);
    uint64_t state = 21;
    int kills = 0;
    for (bool done = false; !done && kills < 400; kills += !done) {
        // Longer and longer, so that it ends on a slow machine too.
        done =
            run_and_kill(&f, (useconds_t)(splitmix64(&state) % 100000) + 5000 * (useconds_t)kills);
        check_beginning(&f);
    }
    CHECK(kills > 2, "it was never killed");
    check_whole(&f);
    free(f.wanted);
}

Test(prompts_resume, a_file_cut_anywhere_is_finished) {
    Files f = files_open(PROMPTS);
    uint64_t state = 5;
    for (int i = 0; i < (TEST_SANITIZED ? 4 : 16); i++) {
        size_t cut = i < 3 ? (size_t)i * 100 : i == 3 ? f.size - 1 : splitmix64(&state) % f.size;
        test_write_file(f.out, f.wanted, cut);
        run_well(f.prompts, f.out, i % 2 ? "|--resume|--parallel|1" : "|--resume");
        check_whole(&f);
    }
    run_well(f.prompts, f.out, "|--resume"); // nothing is left to do
    check_whole(&f);
    free(f.wanted);
}

// It is not ours, and stays.
Test(prompts_resume, what_is_behind_the_end_is_refused) {
    static const char *const MORE[] = {"{\"mine\":\"notes\"}\n", "no newline"};
    Files f = files_open(FEW);
    for (int i = 0; i < 2; i++) {
        size_t size, more = strlen(MORE[i]);
        char *both = malloc(f.size + more);
        memcpy(both, f.wanted, f.size);
        memcpy(both + f.size, MORE[i], more);
        test_write_file(f.out, both, f.size + more);
        TestRun run = run_to(f.prompts, f.out, "|--resume");
        check_refused(&run, 3, "there is more behind the end of the answers");
        char *there = test_read_file(f.out, &size);
        CHECK(size == f.size + more && !memcmp(there, both, size), "%zu bytes", size);
        free(there);
        free(both);
    }
    free(f.wanted);
}

// The path leads to another file: that is told.
Test(prompts_resume, a_file_that_was_replaced_meanwhile_is_told) {
    Files f = files_open(FEW);
    TestRun run = program_shell(test_text(
        "mkfifo %s.in; $RUN generate $MODEL --prompts %s.in --out %s -q & exec 3> %s.in; "
        "head -n 2 %s >&3; until [ -s %s ]; do sleep 0.05; done; mv %s %s.old; "
        "echo mine > %s; exec 3>&-; wait $!; echo \"status $?\"; cat %s",
        f.prompts, f.prompts, f.out, f.prompts, f.prompts, f.out, f.out, f.out, f.out, f.out));
    CHECK_STRING(run.out, "status 4\nmine\n");
    CHECK(strstr(run.err, "no longer leads to the answers"), "%s", run.err);
    test_run_free(&run);
    free(f.wanted);
}

// What a run leaves that was ended while it loaded its model.
Test(prompts_resume, an_empty_file_is_as_good_as_none) {
    Files f = files_open(FEW);
    test_write_file(f.out, "", 0);
    run_well(f.prompts, f.out, "");
    check_whole(&f);
    free(f.wanted);
}

Test(prompts_resume, without_a_file_it_begins_one) {
    Files f = files_open(FEW);
    run_well(f.prompts, f.out, "|--resume");
    check_whole(&f);
    free(f.wanted);
}

Test(prompts_resume, prompts_that_were_added_are_answered) {
    Files f = files_open(FEW);
    char half[300];
    snprintf(half, sizeof half, "%s", test_temporary_new("half"));
    write_prompts(half, FEW / 2);
    run_well(half, f.out, "");
    run_well(f.prompts, f.out, "|--resume");
    check_whole(&f);
    free(f.wanted);
}

// The line of answers that did not fit is not there in part.
Test(prompts_resume, a_full_disk_is_one_line_and_leaves_whole_answers) {
    Files f = files_open(PROMPTS);
    char script[1200];
    snprintf(script, sizeof script,
             "ulimit -f 12; exec $RUN generate $MODEL --prompts %s --out %s --ignore-eos -q",
             f.prompts, f.out);
    TestRun run = program_shell(script);
    check_refused(&run, 4, "File too large");
    size_t size = check_beginning(&f);
    CHECK(size > 4096 && f.wanted[size - 1] == '\n', "%zu bytes", size);
    run_well(f.prompts, f.out, "|--resume");
    check_whole(&f);
    free(f.wanted);
}

Test(prompts_resume, ctrl_c_keeps_what_is_answered) {
    Files f = files_open(PROMPTS);
    char line[1000];
    snprintf(line, sizeof line,
             "generate|%s|--prompts|%s|--out|%s|--ignore-eos|-j|1|--parallel|1|-v", small_model(),
             f.prompts, f.out);
    TestRun run = program_interrupted(line, "cache");
    CHECK_INT(run.status, 128 + SIGINT);
    test_run_free(&run);
    check_beginning(&f);
    run_well(f.prompts, f.out, "|--resume");
    check_whole(&f);
    free(f.wanted);
}

// A pipe gives its next line when it has an answer: nothing waits for more lines, and a signal ends
// the waiting.
Test(prompts_resume, a_pipe_that_waits_is_answered_and_ended_by_a_signal) {
    static const int SIGNALS[] = {SIGTERM, SIGHUP};
    Files f = files_open(PROMPTS);
    for (size_t i = 0; i < sizeof SIGNALS / sizeof *SIGNALS; i++) {
        char script[2000];
        snprintf(script, sizeof script,
                 "O=%s; rm -f $O $O.in; mkfifo $O.in\n"
                 "$RUN generate $MODEL --prompts - --out $O -q <$O.in &\n"
                 "exec 3>$O.in; echo '{\"id\":\"a\",\"prompt\":\"a\",\"max_tokens\":2}' >&3\n"
                 "for T in $(seq 500); do grep -q '\"id\":\"a\"' $O && break; sleep 0.02; done\n"
                 "grep -c '\"id\":\"a\"' $O; kill -%d $!; wait $!",
                 f.out, SIGNALS[i]);
        TestRun run = program_shell(script);
        CHECK(run.status == 128 + SIGNALS[i] && !strcmp(run.out, "1\n"), "exit %d: %s%s",
              run.status, run.out, run.err);
        test_run_free(&run);
    }
    free(f.wanted);
}

// Nothing of that run is lost: its file stays, and is as long as it was.
Test(prompts_resume, a_file_that_another_run_writes_is_left_alone) {
    Files f = files_open(PROMPTS);
    test_write_file(f.out, f.wanted, f.size / 2);
    int file = open(f.out, O_RDWR | O_CLOEXEC);
    CHECK(file >= 0 && !flock(file, LOCK_EX));
    TestRun run = run_to(f.prompts, f.out, "|--resume");
    check_refused(&run, ERROR_IO, "another run has it open");
    close(file);
    CHECK_INT((int)check_beginning(&f), (int)(f.size / 2));
    free(f.wanted);
}

// ---- what is refused ----

static void check_kept(const Files *f, const char *options, int status, const char *because) {
    test_write_file(f->out, f->wanted, f->size / 2);
    TestRun run = run_to(f->prompts, f->out, options);
    check_refused(&run, status, because);
    CHECK_INT((int)check_beginning(f), (int)(f->size / 2));
}

Test(prompts_resume, answers_of_other_options_are_kept_and_refused) {
    Files f = files_open(FEW);
    check_kept(&f, "|--resume|-t|0.5", 3, "the answers there are of other options");
    check_kept(&f, "|--resume|--seed|9", 3, "other options");
    check_kept(&f, "|--resume|--precision|a8", 3, "other options");
    free(f.wanted);
}

Test(prompts_resume, answers_of_another_model_are_refused) {
    Files f = files_open(FEW);
    char other[300];
    snprintf(other, sizeof other, "%s", test_temporary_new("other.gguf"));
    TestRun run = program("convert|%s|%s|--type|f16|-q", small_model(), other);
    check_status(&run, 0);
    test_run_free(&run);
    run = program("generate|%s|--prompts|%s|--out|%s|--ignore-eos|-q|--resume", other, f.prompts,
                  f.whole);
    check_refused(&run, 3, "the answers there are of another model");
    free(f.wanted);
}

// Answers that a former version wrote are no broken file.
Test(prompts_resume, answers_of_another_format_are_refused_as_that) {
    Files f = files_open(FEW);
    char *at = strstr(f.wanted, "limpid-answers ") + strlen("limpid-answers ");
    *at = '1';
    check_kept(&f, "|--resume", 3, "answers of another version of limpid (limpid-answers 1)");
    free(f.wanted);
}

Test(prompts_resume, what_differs_is_named_where_the_model_has_a_chat_format) {
    Files f = files_open(FEW);
    run_well(f.prompts, f.whole, "|--force|--template|llama2");
    free(f.wanted);
    f.wanted = test_read_file(f.whole, &f.size);
    check_kept(&f, "|--resume|--template|llama2|-t|0.5", 3, "of other options");
    check_kept(&f, "|--resume|--template|chatml", 3, "of another chat format");
    check_kept(&f, "|--resume|--template|llama2|--system|a", 3, "of another system message");
    test_write_file(f.out, f.wanted, f.size / 2);
    run_well(f.prompts, f.out, "|--resume|--template|llama2");
    check_whole(&f);
    free(f.wanted);
}

// Flips a letter behind the first `key` of the bytes.
static void change_behind(char *bytes, size_t size, const char *key) {
    char *at = memmem(bytes, size, key, strlen(key));
    CHECK(at, "no %s", key);
    at[strlen(key)] ^= 1;
}

// Model and options are as before: what differs are the tokens' texts.
Test(prompts_resume, answers_of_another_vocabulary_are_refused) {
    Files f = files_open(FEW);
    char other[300];
    size_t size = 0;
    snprintf(other, sizeof other, "%s", test_temporary_new("other.gguf"));
    char *model = test_read_file(small_model(), &size);
    change_behind(model, size, "gir");
    test_write_file(other, model, size);
    TestRun run = program("generate|%s|--prompts|%s|--out|%s|--ignore-eos|-q|--resume", other,
                          f.prompts, f.whole);
    check_refused(&run, 3, "the answers there are of another vocabulary");
    free(model);
    free(f.wanted);
}

Test(prompts_resume, answers_of_another_backend_are_refused) {
    Files f = files_open(FEW);
    change_behind(f.wanted, f.size, "\"backend\":\"");
    check_kept(&f, "|--resume", 3, "another backend");
    free(f.wanted);
}

Test(prompts_resume, a_grammar_is_known_by_its_content_and_not_by_its_path) {
    Files f = files_open(FEW);
    char options[400], grammar[300];
    snprintf(grammar, sizeof grammar, "%s", test_temporary_new("a.gbnf"));
    snprintf(options, sizeof options, "|--force|--grammar|%s", grammar);
    test_write_file(grammar, "root ::= [a-m]+", 15);
    run_well(f.prompts, f.whole, options);
    free(f.wanted);
    f.wanted = test_read_file(f.whole, &f.size);
    test_write_file(f.out, f.wanted, f.size / 2);
    // Elsewhere.
    snprintf(grammar, sizeof grammar, "%s", test_temporary_new("b.gbnf"));
    snprintf(options, sizeof options, "|--resume|--grammar|%s", grammar);
    test_write_file(grammar, "root ::= [a-m]+", 15);
    run_well(f.prompts, f.out, options);
    check_whole(&f);
    test_write_file(grammar, "root ::= [a-k]+", 15);
    check_kept(&f, options, 3, "another grammar");
    check_kept(&f, "|--resume", 3, "another grammar");
    free(f.wanted);
}

// Replaces the first `from` in the prompts by `to`, and what is there stays and is refused.
static void check_edited(const Files *f, const char *from, const char *to, const char *because) {
    size_t size = 0;
    char *lines = test_read_file(f->prompts, &size), *at = strstr(lines, from);
    CHECK(at && strlen(from) == strlen(to), "no %s", from);
    memcpy(at, to, strlen(to));
    test_write_file(f->prompts, lines, size);
    check_kept(f, "|--resume", 3, because);
    memcpy(at, from, strlen(from));
    test_write_file(f->prompts, lines, size);
    free(lines);
}

Test(prompts_resume, a_prompt_that_was_edited_behind_its_answer_is_refused_by_its_id) {
    Files f = files_open(FEW);
    check_edited(&f, "upon", "UPON", "the prompt with the id 0 is not the one that was answered");
    check_edited(&f, "\"seed\":3", "\"seed\":4", "the id 3 is not");
    check_edited(&f, "\"promt\"", "\"prom_\"", "(line 10 of ");
    check_edited(&f, "\"seed\":3", "\"seed\":4", "--force begins anew");
    // A line that has no answer yet may change.
    char last[40];
    snprintf(last, sizeof last, "\"seed\":%d}", FEW - 2);
    size_t size = 0;
    char *lines = test_read_file(f.prompts, &size), *at = strstr(lines, last);
    CHECK(at, "no %s", last);
    memcpy(at, "\"sEed\"", 6);
    test_write_file(f.prompts, lines, size);
    test_write_file(f.out, f.wanted, f.size / 2);
    run_well(f.prompts, f.out, "|--resume");
    free(lines);
    // FNV-1a 64 of the bytes of the line, without its newline.
    static const char LINE[] = "{\"prompt\":\"a\",\"max_tokens\":0}";
    char wanted[60];
    snprintf(wanted, sizeof wanted, "\"line_hash\":\"%016" PRIx64 "\"}",
             fnv1a(FNV_START, LINE, sizeof LINE - 1));
    test_write_file(f.prompts, LINE, sizeof LINE - 1);
    run_well(f.prompts, f.out, "|--force");
    char *answers = test_read_file(f.out, &size);
    CHECK(strstr(answers, wanted), "no %s in %s", wanted, answers);
    free(answers);
    free(f.wanted);
}

Test(prompts_resume, answers_of_other_prompts_are_refused) {
    Files f = files_open(FEW);
    test_write_file(f.out, f.wanted, f.size);
    write_prompts(f.prompts, 1);
    FILE *file = fopen(f.prompts, "a");
    fprintf(file, "{\"id\":77,\"prompt\":\"b\"}\n");
    fclose(file);
    TestRun run = run_to(f.prompts, f.out, "|--resume");
    check_refused(&run, 3, "answer 2 has the id 1, and");
    CHECK_INT((int)check_beginning(&f), (int)f.size);
    write_prompts(f.prompts, 1);
    run = run_to(f.prompts, f.out, "|--resume");
    check_refused(&run, 3, "has no line there");
    free(f.wanted);
}

// The token 4 is the byte 0, which no C string can hold and JSON can.
Test(prompts_resume, answers_of_nul_bytes_are_read_again) {
    Files f = {0};
    snprintf(f.prompts, sizeof f.prompts, "%s", test_temporary_new("prompts"));
    snprintf(f.out, sizeof f.out, "%s", test_temporary_new("out"));
    write_prompts(f.prompts, 3);
    run_well(f.prompts, f.out, "|--logit-bias|4:+1000");
    f.wanted = test_read_file(f.out, &f.size);
    CHECK(strstr(f.wanted, "\"text\":\"\\u0000\\u0000"), "%s", f.wanted);
    test_write_file(f.out, f.wanted, (size_t)(strstr(f.wanted, "{\"id\":2") - f.wanted) + 9);
    run_well(f.prompts, f.out, "|--logit-bias|4:+1000|--resume");
    check_whole(&f);
    TestRun run = program("merge|%s", f.out);
    check_status(&run, 0);
    test_run_free(&run);
    free(f.wanted);
}

Test(prompts_resume, answers_with_other_line_ends_are_refused_as_that) {
    Files f = files_open(FEW);
    char script[700];
    snprintf(script, sizeof script, "sed 's/$/\\r/' %s > %s", f.whole, f.out);
    TestRun run = program_shell(script);
    check_status(&run, 0);
    test_run_free(&run);
    run = run_to(f.prompts, f.out, "|--resume");
    check_refused(&run, 3, "do not end as they were written");
    run = program("merge|%s", f.out);
    check_refused(&run, 3, "do not end as they were written");
    free(f.wanted);
}

// A file of somebody else's stays as it is.
static void check_foreign(const Files *f, const char *bytes) {
    size_t size = 0;
    test_write_file(f->out, bytes, strlen(bytes));
    TestRun run = run_to(f->prompts, f->out, "|--resume");
    check_refused(&run, 3, "is not a file of answers");
    char *left = test_read_file(f->out, &size);
    CHECK(size == strlen(bytes) && !memcmp(left, bytes, size), "got \"%.*s\"", (int)size, left);
    free(left);
}

Test(prompts_resume, a_file_of_one_line_without_its_newline_is_kept_unless_a_run_began_it) {
    static const char *const FOREIGN[] = {"{\"name\":\"my-app\"}",
                                          "x",
                                          "{\"limpid\":\"limpid-x",
                                          "{\"limpid\":1}",
                                          "\xff",
                                          "{",
                                          "{\"limpid\"",
                                          "{\"limpid\":\"limpid-answers 2, and my notes"};
    Files f = files_open(FEW);
    for (size_t i = 0; i < sizeof FOREIGN / sizeof *FOREIGN; i++)
        check_foreign(&f, FOREIGN[i]);
    size_t size = (64 << 20) + 7; // longer than a line of answers may be
    char *large = malloc(size + 1);
    memset(large, 'x', size);
    large[size] = '\0';
    check_foreign(&f, large);
    free(large);
    char *joined = strdup(f.wanted); // all lines have become one
    for (char *at = joined; (at = strchr(at, '\n'));)
        *at = '\r';
    check_foreign(&f, joined);
    free(joined);
    for (size_t cut = 0; cut < 500; cut += 13) { // the empty file too
        test_write_file(f.out, f.wanted, cut);
        run_well(f.prompts, f.out, "|--resume");
        check_whole(&f);
    }
    free(f.wanted);
}

static ino_t file_number(const char *path) {
    struct stat status;
    CHECK(!stat(path, &status), "no %s", path);
    return status.st_ino;
}

// --force puts a new file in the place of the old one, which may have other names, and not before
// there is an answer.
Test(prompts_resume, what_force_replaces_is_whole_until_there_is_an_answer) {
    Files f = files_open(FEW);
    const char *other = test_temporary_new("other");
    test_write_file(f.out, "old", 3);
    CHECK(!link(f.out, other), "no second name");
    char script[500];
    snprintf(script, sizeof script,
             "sleep 2 | timeout -s INT 0.7 $RUN --prompts - --out %s --force -q; true", f.out);
    TestRun run = program_shell(script);
    test_run_free(&run);
    CHECK(file_number(f.out) == file_number(other), "replaced without an answer");
    run_well(f.prompts, f.out, "|--force");
    check_whole(&f);
    size_t size;
    char *old = test_read_file(other, &size);
    CHECK_STRING(old, "old");
    free(old);
    free(f.wanted);
}

Test(prompts_resume, what_is_no_file_of_answers_is_refused) {
    Files f = files_open(FEW);
    check_foreign(&f, "a text\nthat is somebody's\n");
    check_foreign(&f, "{\"a\":1}\n");
    char *header_end = memchr(f.wanted, '\n', f.size);
    size_t header = (size_t)(header_end - f.wanted) + 1;
    char *bytes = malloc(f.size + 10);
    memcpy(bytes, f.wanted, header);
    memcpy(bytes + header, "\0\0\0\n", 4);
    test_write_file(f.out, bytes, header + 4);
    TestRun run = run_to(f.prompts, f.out, "|--resume");
    check_refused(&run, 3, "line 2");
    free(bytes);
    free(f.wanted);
}
