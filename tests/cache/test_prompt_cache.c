// generate --cache: with the file the logits have the bits of a run without it, whatever part of
// the prompt came from it; and no file is lost.
#include "base/error.h"
#include "tests/support/faults.h"
#include "tests/support/program.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#define IDS "1,435,462,262,410,286,339,262,349,355,400,389,280,311,505,263,300,301,302,303"
#define LINE "generate|%s|--prompt-ids|%s|--top-k|40|-s|1|--max-tokens|6|--json|-j|2"

// A path that a later call does not reuse.
static const char *cache_path(const char *name) {
    static char paths[4][300];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, 300, "%s", test_temporary(name));
    return path;
}

// The hash of all logits; `options` are words separated by |, each with a | before it.
static void hash_of(char out[4000], const char *ids, const char *options) {
    char line[2000];
    snprintf(line, sizeof line, LINE "%s", small_model(), ids, options);
    TestRun run = program("%s", line);
    check_status(&run, 0);
    json_value(out, run.out, "logits_hash");
    test_run_free(&run);
}

// With the file: the same hash, and so many tokens from it.
static void check_same(const char *ids, const char *options, const char *path, int cached) {
    char line[2000], wanted[4000], got[4000], number[4000], alone[200];
    snprintf(alone, sizeof alone, "%s", strstr(options, "|--cache-read-only") ? "" : options);
    char *force = strstr(alone, "|--force"); // comes last, and needs a file
    if (force) *force = '\0';
    hash_of(wanted, ids, alone);
    snprintf(line, sizeof line, LINE "%s|--cache|%s", small_model(), ids, options, path);
    TestRun run = program("%s", line);
    check_status(&run, 0);
    json_value(got, run.out, "logits_hash");
    CHECK_STRING(got, wanted);
    json_value(number, run.out, "cached_tokens");
    CHECK(atoi(number) == cached, "%s of the tokens are from the file, not %d; %s", number, cached,
          line);
    test_run_free(&run);
}

Test(prompt_cache, changes_no_bit_in_any_precision) {
    static const char *const PRECISIONS[] = {"f32", "a16", "a8"}, *const TYPES[] = {"f32", "f16",
                                                                                    "bf16"};
    char options[100];
    for (int p = 0; p < 3; p++)
        for (int t = 0; t < 3; t++) {
            const char *path = cache_path(test_text("%d%d.kv", p, t));
            snprintf(options, sizeof options, "|--precision|%s|--kv|%s", PRECISIONS[p], TYPES[t]);
            check_same(IDS, options, path, 0);
            check_same(IDS, options, path, 19);            // the last one is computed
            check_same(IDS ",304,305", options, path, 20); // longer
            check_same("1,435,462,263", options, path, 3); // another end
            check_same("1,435,462,263,9", options, path, 4);
            check_same("2,435,462", options, path, 0); // another beginning
            check_same("2", options, path, 0);         // the beginning of what is there
            check_same("2,435", options, path, 1);
        }
}

Test(prompt_cache, changes_no_bit_within_a_pattern_with_drafts_and_for_a_sampled_text) {
    const char *path = cache_path("pattern.kv");
    check_same(IDS, "|--pattern|local:6+global:2", path, 0);
    check_same(IDS, "|--pattern|local:6+global:2", path, 19);
    check_same(IDS, "|--pattern|global:2+local:6|--force", path, 0);
    path = cache_path("drafts.kv");
    check_same(IDS, "|--speculate|lookup|--draft-tokens|3", path, 0);
    check_same(IDS, "|--speculate|lookup|--draft-tokens|3", path, 19);
    path = cache_path("sampled.kv");
    check_same(IDS, "|-t|2|--repeat-penalty|1.3", path, 0);
    check_same(IDS, "|-t|2|--repeat-penalty|1.3", path, 19);
}

// A file that holds the prompt and more stays; one that does not begins with the prompt afterwards.
Test(prompt_cache, holds_the_new_prompt_afterwards) {
    const char *path = cache_path("updated.kv");
    check_same(IDS, "", path, 0);
    check_same("1,435,462", "", path, 2);
    check_same(IDS, "", path, 19);
    check_same("1,435,9,10,11", "", path, 2);
    check_same(IDS, "", path, 2);
}

Test(prompt_cache, says_how_much_came_from_it) {
    const char *path = cache_path("said.kv"), *model = small_model();
    TestRun run =
        program("generate|%s|--prompt-ids|1,435,462|-t|0|--max-tokens|1|--cache|%s", model, path);
    CHECK(strstr(run.err, "a new file, for the 3 tokens of the prompt\n"), "%s", run.err);
    test_run_free(&run);
    run = program("generate|%s|--prompt-ids|1,435,463|-t|0|--max-tokens|1|--cache|%s", model, path);
    CHECK(strstr(run.err, test_text("run: 2 of 3 prompt tokens from %s\n", path)), "%s", run.err);
    test_run_free(&run);
}

// The bytes of a file before and after a run that is refused.
static void check_kept(const char *path, const char *options, int status, const char *because) {
    size_t size, after_size;
    char line[2000], *before = test_read_file(path, &size);
    snprintf(line, sizeof line, LINE "%s|--cache|%s", small_model(), IDS, options, path);
    TestRun run = program("%s", line);
    check_refused(&run, status, because);
    char *after = test_read_file(path, &after_size);
    CHECK(size == after_size && !memcmp(before, after, size), "%s has changed", path);
    free(before);
    free(after);
}

Test(prompt_cache, of_another_run_is_refused_and_kept) {
    const char *path = cache_path("other.kv");
    check_same(IDS, "", path, 0);
    check_kept(path, "|--precision|a8", ERROR_FILE,
               "made with precision a16, this run has a8; --force begins it anew");
    check_kept(path, "|--kv|f32", ERROR_FILE, "made with cache type f16, this run has f32");
    check_kept(path, "|--pattern|local:8", ERROR_FILE,
               "made with pattern causal, this run has local:8");
    check_kept(path, "|--precision|a8|--force|--cache-read-only", ERROR_FILE, "made with");
    check_same(IDS, "|--precision|a8|--force", path, 0);
    check_same(IDS, "|--precision|a8", path, 19);
    TestRun run = program("generate|%s|--prompt-ids|1,3|--ids|--cache|%s", fault_gguf(), path);
    check_refused(&run, ERROR_FILE, "made with model ");
}

Test(prompt_cache, is_never_put_in_place_of_another_file) {
    const char *path = cache_path("text.txt"), *model = cache_path("model.gguf");
    size_t size;
    char *bytes = test_read_file(small_model(), &size);
    test_write_file(path, "a text that is longer than a header of a cache file", 51);
    check_kept(path, "", ERROR_FILE, "no file of limpid's --cache");
    check_kept(path, "|--force", ERROR_FILE, "no file of limpid's --cache");
    // An empty file is as good as none.
    const char *empty = cache_path("empty.kv");
    test_write_file(empty, "", 0);
    check_same(IDS, "", empty, 0);
    check_same(IDS, "", empty, 19);
    test_write_file(model, bytes, size);
    TestRun run = program("generate|%s|--prompt-ids|1,3|--ids|--cache|%s", model, model);
    check_refused(&run, ERROR_FILE, "no file of limpid's --cache");
    // A file that the run reads is an input, whatever is in it.
    const char *cache = cache_path("cache.kv");
    check_same(IDS, "", cache, 0);
    run = program("generate|%s|-f|%s|--ids|--cache|%s", model, cache, cache);
    check_refused(&run, ERROR_USAGE, "is read by this run");
    run = program("generate|%s|--prompt-ids|1,3|--ids|--cache|/dev/null", model);
    check_refused(&run, ERROR_IO, "not a regular file");
    run = program("generate|%s|--prompt-ids|1,3|--ids|--cache|%s", model, "/nowhere/at/all");
    check_refused(&run, ERROR_IO, "No such file or directory");
    free(bytes);
}

Test(prompt_cache, is_never_put_in_place_of_a_conversation) {
    const char *path = cache_path("conversation.chat");
    TestRun run = program("chat|%s|--template|llama2|-q|-t|0|--max-tokens|4|--session|%s|-i|a b",
                          small_model(), path);
    check_status(&run, 0);
    test_run_free(&run);
    check_kept(path, "", ERROR_FILE, "holds a conversation of chat --session");
    check_kept(path, "|--force", ERROR_FILE, "holds a conversation of chat --session");
}

// Nor of one whose file is empty as yet.
Test(prompt_cache, is_never_put_in_place_of_a_conversation_that_goes_on) {
    char script[1500], *path = strdup(cache_path("begun.chat"));
    snprintf(script, sizeof script,
             "F=%s; rm -f $F $F.in; mkfifo $F.in\n"
             "$RUN chat $MODEL --template llama2 -q -t 0 --max-tokens 4 --session $F <$F.in &\n"
             "exec 3>$F.in\n"
             "until [ -e $F ]; do kill -0 $! || break; sleep 0.02; done; sleep 0.1\n"
             "$RUN generate $MODEL -i a -n 4 -q --cache $F; STATUS=$?\n"
             "echo a b >&3; exec 3>&-; wait $!; exit $STATUS",
             path);
    TestRun run = program_shell(script);
    CHECK(run.status == ERROR_IO && strstr(run.err, "another run has it open"), "exit %d: %s",
          run.status, run.err);
    test_run_free(&run);
    check_kept(path, "", ERROR_FILE, "holds a conversation of chat --session");
    free(path);
}

// In its header and in its last part, of which the second is found when the model is open.
Test(prompt_cache, that_is_damaged_begins_anew_with_force) {
    for (int i = 0; i < 3; i++) {
        const char *path = cache_path(test_text("damaged%d.kv", i));
        check_same(IDS, "", path, 0);
        size_t size;
        char *bytes = test_read_file(path, &size);
        bytes[i ? size - 100 : 50] ^= 4;
        test_write_file(path, bytes, i < 2 ? size : 20); // the last one is cut
        free(bytes);
        check_kept(path, "", ERROR_FILE, "--force begins it anew");
        check_same(IDS, "|--force", path, 0);
        check_same(IDS, "", path, 19);
    }
}

Test(prompt_cache, goes_with_options_that_leave_the_model_alone) {
    static const char *const REFUSED[][2] = {
        {"--no-cache", "excludes --no-cache"},
        {"--ablate|L0.H0", "excludes --ablate"},
        {"--color|surprise", "excludes --color surprise"},
        {"-m|chat", "chat has --session"},
    };
    const char *path = cache_path("refused.kv");
    for (size_t i = 0; i < sizeof REFUSED / sizeof *REFUSED; i++) {
        TestRun run = program("generate|%s|--prompt-ids|1,3|--cache|%s|%s", small_model(), path,
                              REFUSED[i][0]);
        check_refused(&run, ERROR_USAGE, REFUSED[i][1]);
        CHECK(access(path, F_OK), "%s: there is a file", REFUSED[i][0]);
    }
    TestRun run = program("generate|%s|--prompt-ids|1,3|--cache-read-only", small_model());
    check_refused(&run, ERROR_USAGE, "--cache FILE");
}

Test(prompt_cache, that_is_read_only_stays_as_it_is) {
    const char *path = cache_path("read-only.kv");
    check_same("1,435,462", "", path, 0);
    size_t size, after_size;
    char *before = test_read_file(path, &size);
    check_same(IDS, "|--cache-read-only", path, 3);
    char *after = test_read_file(path, &after_size);
    CHECK(size == after_size && !memcmp(before, after, size), "it was written");
    free(before);
    free(after);
    TestRun run = program("generate|%s|--prompt-ids|1,3|--cache-read-only|--cache|%s",
                          small_model(), cache_path("absent.kv"));
    check_refused(&run, ERROR_IO, "is not there");
}

Test(prompt_cache, that_may_not_be_read_or_written_is_an_error_before_the_work) {
    const char *path = cache_path("mode.kv"), *directory = cache_path("directory");
    if (!geteuid()) SKIP("root may do all");
    check_same("1,435,462", "", path, 0);
    CHECK_INT(chmod(path, 0), 0);
    TestRun run = program("generate|%s|--prompt-ids|1,3|--ids|--cache|%s", small_model(), path);
    check_refused(&run, ERROR_IO, "Permission denied");
    CHECK_INT(mkdir(directory, 0500), 0);
    run = program("generate|%s|--prompt-ids|1,3|--ids|--cache|%s/a.kv", small_model(), directory);
    check_refused(&run, ERROR_IO, "Permission denied");
}

Test(prompt_cache, with_no_room_on_the_disk_leaves_the_old_file) {
    const char *path = cache_path("full.kv");
    char hash[4000];
    check_same("1,435,462", "", path, 0);
    hash_of(hash, IDS, "");
    size_t size;
    char *before = test_read_file(path, &size);
    TestRun run = program_shell(
        test_text("ulimit -f 8; $RUN $MODEL -q --prompt-ids " IDS " --ids --cache %s", path));
    check_refused(&run, ERROR_IO, "File too large");
    size_t after_size;
    char *after = test_read_file(path, &after_size);
    CHECK(size == after_size && !memcmp(before, after, size), "the old file has changed");
    free(before);
    free(after);
    check_same(IDS, "", path, 3);
}

// Killed before each of its calls on files: the file holds one prompt or the other, whole, and the
// next run leaves nothing beside it.
Test(prompt_cache, killed_at_any_call_holds_one_of_the_two_prompts) {
    need_faults();
    char directory[300], path[320];
    snprintf(directory, sizeof directory, "%s", test_temporary("kills"));
    snprintf(path, sizeof path, "%s/a.kv", directory);
    CHECK_INT(mkdir(directory, 0700), 0);
    long at = 1;
    for (int status = 128 + SIGKILL; status; at++) {
        const char *ids = at % 2 ? "1,3,4" : "1,4,3,4";
        const char *const argv[] = {
            TEST_RUN, "generate", fault_gguf(), "--prompt-ids", ids, "--ids",   "-t", "0",
            "-q",     "-j",       "1",          "--max-tokens", "1", "--cache", path, NULL};
        TestRun run = run_with_fault(&(Fault){.kind = "kill", .at = at, .plain = at % 4 < 2}, argv);
        status = run.status;
        CHECK(!status || status == 128 + SIGKILL, "exit %d: %s", status, run.err);
        test_run_free(&run);
        if (access(path, F_OK)) continue;
        const char *const again[] = {
            TEST_RUN, "generate",          fault_gguf(), "--prompt-ids", ids, "--ids",
            "-q",     "--cache",           path,         "-t",           "0", "--max-tokens",
            "1",      "--cache-read-only", NULL};
        run = test_run(again, NULL, 0);
        CHECK(run.status == 0, "killed at call %ld: %s", at, run.err);
        test_run_free(&run);
    }
    CHECK(at > 20, "only %ld calls", at);
    CHECK_INT(test_entries(directory), 1);
}
