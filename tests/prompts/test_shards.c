// --shard and merge: the files of all shards are, merged, byte for byte the file of one machine,
// whoever started the processes; what is missing or does not belong together is said.
#include "tests/support/program.h"

#include <sys/resource.h>
#include <unistd.h>

enum { PROMPTS = TEST_SANITIZED ? 21 : 101 };

typedef struct Files {
    char prompts[300], whole[300], out[300], merged[300];
} Files;

static void write_prompts(const char *path) {
    FILE *file = fopen(path, "w");
    CHECK(file, "no %s", path);
    for (int i = 0; i < PROMPTS; i++) {
        if (i % 13 == 5) fprintf(file, "\n");
        if (i % 17 == 7)
            fprintf(file, "{\"id\":%d,\"promt\":\"a\"}\n", i);
        else if (i % 17 == 8)
            fprintf(file, "{\"id\":0,\"prompt\":\"a\"}\n"); // that of the first line
        else
            fprintf(file, "{\"id\":%d,\"prompt\":\"Once upon a time\",\"seed\":%d}\n", i, i);
    }
    fclose(file);
}

#define GENERATE "generate|%s|--prompts|%s|--out|%s|-q|--max-tokens|8"

static void run_well(const Files *f, const char *out, const char *options) {
    TestRun run = program(GENERATE "%s", small_model(), f->prompts, out, options);
    check_status(&run, 0);
    test_run_free(&run);
}

static Files files_open(void) {
    Files f = {0};
    snprintf(f.prompts, sizeof f.prompts, "%s", test_temporary_new("prompts"));
    snprintf(f.whole, sizeof f.whole, "%s", test_temporary_new("whole"));
    snprintf(f.out, sizeof f.out, "%s", test_temporary_new("out.jsonl"));
    snprintf(f.merged, sizeof f.merged, "%s", test_temporary_new("merged"));
    write_prompts(f.prompts);
    run_well(&f, f.whole, "|--force");
    return f;
}

static const char *shard_of(char out[400], const Files *f, int index, int count) {
    snprintf(out, 400, "%.*s.%d-of-%d.jsonl", (int)strlen(f->out) - 6, f->out, index, count);
    return out;
}

// What merge prints: the digest, from the sixteen digits before the newline.
static void digest_of(char out[17], const char *file, const char *to) {
    TestRun run = to ? program("merge|%s|--out|%s|--force", file, to) : program("merge|%s", file);
    check_status(&run, 0);
    CHECK(run.out_size > 17, "\"%s\"", run.out);
    snprintf(out, 17, "%s", run.out + run.out_size - 17);
    test_run_free(&run);
}

static void check_merged(const Files *f, int count) {
    char digests[2][17], name[400];
    size_t sizes[2];
    digest_of(digests[0], f->whole, NULL);
    digest_of(digests[1], shard_of(name, f, count / 2, count), f->merged);
    CHECK_STRING(digests[1], digests[0]);
    char *texts[] = {test_read_file(f->whole, &sizes[0]), test_read_file(f->merged, &sizes[1])};
    CHECK(sizes[0] == sizes[1] && !memcmp(texts[0], texts[1], sizes[0]), "the files differ");
    free(texts[0]);
    free(texts[1]);
}

static void run_shards(const Files *f, int count) {
    char options[80];
    for (int i = 0; i < count; i++) {
        snprintf(options, sizeof options, "|--parallel|%d|--force|--shard|%d/%d", 1 + i, i, count);
        run_well(f, f->out, options);
    }
}

Test(shards, merged_they_are_the_file_of_one_machine) {
    Files f = files_open();
    static const int COUNTS[] = {2, 3, 4, 7};
    for (int i = 0; i < 4; i++) {
        run_shards(&f, COUNTS[i]);
        check_merged(&f, COUNTS[i]);
    }
}

Test(shards, more_shards_than_prompts_are_fine) {
    Files f = files_open();
    write_prompts(f.prompts);
    test_write_file(f.prompts, "{\"prompt\":\"a\"}\n{\"prompt\":\"b\"}\n", 30);
    run_well(&f, f.whole, "|--force");
    run_shards(&f, 5);
    check_merged(&f, 5);
}

// ---- who started the process ----

// With variables of the environment set, the answers are those of shard `index` of `count`.
static void check_environment(const char *variables, int index, int count) {
    Files f = files_open();
    char script[2000], name[400], by_option[400];
    size_t sizes[2];
    snprintf(script, sizeof script,
             "%s $RUN generate $MODEL --prompts %s --out %s -q --force --max-tokens 8", variables,
             f.prompts, f.out);
    TestRun run = program_shell(script);
    check_status(&run, 0);
    test_run_free(&run);
    if (count == 1)
        snprintf(name, sizeof name, "%s", f.out);
    else
        shard_of(name, &f, index, count);
    char *got = test_read_file(name, &sizes[0]);
    snprintf(by_option, sizeof by_option, "|--force|--shard|%d/%d", index, count);
    run_well(&f, f.out, by_option);
    char *wanted = test_read_file(name, &sizes[1]);
    CHECK(sizes[0] == sizes[1] && !memcmp(got, wanted, sizes[0]), "%s", variables);
    free(got);
    free(wanted);
}

Test(shards, rank_and_size_come_from_slurm_open_mpi_and_pmi) {
    check_environment("SLURM_PROCID=2 SLURM_NTASKS=5", 2, 5);
    check_environment("SLURM_JOB_ID=9 SLURM_STEP_ID=0 SLURM_PROCID=2 SLURM_NTASKS=5", 2, 5);
    check_environment("SLURM_ARRAY_TASK_ID=7 SLURM_ARRAY_TASK_COUNT=3 SLURM_ARRAY_TASK_MIN=5", 2,
                      3);
    check_environment("SLURM_ARRAY_TASK_ID=9 SLURM_ARRAY_TASK_COUNT=3 SLURM_ARRAY_TASK_MIN=5 "
                      "SLURM_ARRAY_TASK_STEP=2",
                      2, 3);
    check_environment("OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=3", 1, 3);
    check_environment("PMI_RANK=0 PMI_SIZE=2", 0, 2);
    // mpirun inside of a Slurm job
    check_environment("SLURM_PROCID=0 SLURM_NTASKS=2 OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=4",
                      3, 4);
    // an array of jobs of two tasks each
    check_environment("SLURM_JOB_ID=9 SLURM_STEP_ID=0 SLURM_PROCID=1 SLURM_NTASKS=2 "
                      "SLURM_ARRAY_TASK_ID=1 SLURM_ARRAY_TASK_COUNT=3 SLURM_ARRAY_TASK_MIN=0",
                      3, 6);
}

Test(shards, one_process_is_no_shard) {
    check_environment("OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1", 0, 1);
    // the script of a batch job, before srun
    check_environment("SLURM_JOB_ID=9 SLURM_PROCID=0 SLURM_NTASKS=4", 0, 1);
    // the shell of salloc, whose step is SLURM_INTERACTIVE_STEP of slurm.h
    check_environment("SLURM_JOB_ID=9 SLURM_STEP_ID=4294967290 SLURM_PROCID=0 SLURM_NTASKS=4", 0,
                      1);
}

static TestRun with_input(const char *variables) {
    return program_shell(
        test_text("echo '{\"prompt\":\"a\"}' | %s $RUN generate $MODEL --prompts - "
                  "--out %s --force --max-tokens 1",
                  variables, test_temporary("of-input")));
}

// srun gives it to all of its processes, and sets PMI's variables too where it is asked to.
Test(shards, standard_input_of_mpirun_is_refused) {
    TestRun run = with_input("OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2");
    check_refused(&run, 2, "mpirun gives standard input to one of its 2 processes");
    run = with_input("PMI_RANK=1 PMI_SIZE=3");
    check_refused(&run, 2, "mpirun gives standard input to one of its 3 processes");
    run = with_input("PMI_RANK=1 PMI_SIZE=2 SLURM_JOB_ID=5 SLURM_STEP_ID=0 SLURM_PROCID=1 "
                     "SLURM_NTASKS=2");
    check_status(&run, 0);
    CHECK(strstr(run.err, "shard 1 of 2 (SLURM_PROCID)"), "%s", run.err);
    test_run_free(&run);
    run = with_input("OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1 SLURM_ARRAY_TASK_ID=0 "
                     "SLURM_ARRAY_TASK_COUNT=2 SLURM_ARRAY_TASK_MIN=0");
    check_status(&run, 0);
    test_run_free(&run);
}

Test(shards, an_option_comes_before_the_environment_and_the_choice_is_told) {
    Files f = files_open();
    char script[2000], name[400];
    snprintf(script, sizeof script,
             "PMI_RANK=1 PMI_SIZE=2 $RUN generate $MODEL --prompts %s --out %s --max-tokens 2 "
             "--shard 3/4",
             f.prompts, f.out);
    TestRun run = program_shell(script);
    check_status(&run, 0);
    CHECK(strstr(run.err, "shard 3 of 4 (--shard) to"), "%s", run.err);
    CHECK(!access(shard_of(name, &f, 3, 4), R_OK), "no %s", name);
    test_run_free(&run);
    *strstr(script, "--shard") = '\0';
    run = program_shell(script);
    check_status(&run, 0);
    CHECK(strstr(run.err, "shard 1 of 2 (PMI_RANK) to"), "%s", run.err);
    test_run_free(&run);
}

Test(shards, what_is_no_shard_is_refused) {
    static const char *const WRONG[] = {"1",   "2/2",   "-1/2", "1/0",
                                        "a/b", "1/2/3", "/2",   "0/99999999"};
    for (size_t i = 0; i < sizeof WRONG / sizeof *WRONG; i++) {
        TestRun run =
            program("generate|%s|--prompts|x|--out|y|--shard|%s", small_model(), WRONG[i]);
        check_refused(&run, 2, "--shard: got");
    }
    TestRun run = program_shell("PMI_RANK=2 PMI_SIZE=2 $RUN generate --prompts x --out y");
    check_refused(&run, 2, "PMI_RANK is 2, and PMI_SIZE 2");
    run = program_shell("PMI_RANK=x PMI_SIZE=2 $RUN generate --prompts x --out y");
    check_refused(&run, 2, "PMI_RANK is \"x\"");
    run =
        program_shell("SLURM_ARRAY_TASK_ID=8 SLURM_ARRAY_TASK_COUNT=2 SLURM_ARRAY_TASK_MIN=1 $RUN "
                      "generate --prompts x --out y");
    check_refused(&run, 2, "an array with gaps");
}

// ---- mpirun ----

// Four processes, of which one is killed; then all again.
Test(shards, four_ranks_of_mpirun_one_killed_and_started_again) {
    TestRun there = program_shell("command -v mpirun");
    bool has = !there.status;
    test_run_free(&there);
    if (!has) SKIP("there is no mpirun (Debian's openmpi-bin)");
    Files f = files_open();
    char script[2000];
    snprintf(script, sizeof script,
             "M='mpirun --allow-run-as-root --oversubscribe -n 4'; "
             "A=\"generate $MODEL --prompts %s --out %s -q --max-tokens 8 -j 1 --resume\"; "
             "$M sh -c \"test \\$OMPI_COMM_WORLD_RANK != 2 || exec timeout -s KILL 0.06 $RUN $A; "
             "exec $RUN $A\"; $M $RUN $A",
             f.prompts, f.out);
    TestRun run = program_shell(script);
    CHECK_INT(run.status, 0);
    test_run_free(&run);
    check_merged(&f, 4);
}

// ---- merge ----

Test(shards, merge_names_a_file_that_is_missing_or_not_complete) {
    Files f = files_open();
    char name[400], other[400];
    size_t size = 0;
    run_shards(&f, 3);
    shard_of(name, &f, 1, 3);
    char *bytes = test_read_file(name, &size);
    unlink(name);
    TestRun run = program("merge|%s", shard_of(other, &f, 0, 3));
    check_refused(&run, 4, "1-of-3");
    test_write_file(name, bytes, size - 10);
    run = program("merge|%s", other);
    check_refused(&run, 3, "is not complete: start its run again with --resume");
    char *more = malloc(size + 5);
    memcpy(more, bytes, size);
    memcpy(more + size, "more\n", 5);
    test_write_file(name, more, size + 5);
    free(more);
    run = program("merge|%s", other);
    check_refused(&run, 3, "there is more behind the end of the answers");
    bytes[size - 2] = '\0'; // the last line is there, and one of the answers is not
    char *second = strchr(bytes, '\n') + 1, *third = strchr(second, '\n') + 1;
    bytes[size - 2] = '}';
    memmove(second, third, size - (size_t)(third - bytes));
    test_write_file(name, bytes, size - (size_t)(third - second));
    run = program("merge|%s|--out|%s", other, f.merged);
    check_refused(&run, 3, "and its last line counts others");
    CHECK(access(f.merged, F_OK), "it was written all the same");
    free(bytes);
}

// Files of shards without prompts are alike but for the shard.
Test(shards, merge_opens_more_files_than_a_process_may_unasked) {
    enum { SHARDS = 64, LIMIT = 48 };
    static const char KEY[] = "\"shard\":\"";
    Files f = files_open();
    char name[400], options[40];
    size_t size = 0;
    test_write_file(f.prompts, "", 0);
    snprintf(options, sizeof options, "|--force|--shard|0/%d", SHARDS);
    run_well(&f, f.out, options);
    char *first = test_read_file(shard_of(name, &f, 0, SHARDS), &size);
    char *index = strstr(first, KEY);
    CHECK(index, "%s", first);
    index += strlen(KEY);
    for (int i = 1; i < SHARDS; i++) {
        FILE *file = fopen(shard_of(name, &f, i, SHARDS), "w");
        CHECK(file, "no %s", name);
        fprintf(file, "%.*s%d%s", (int)(index - first), first, i, index + 1);
        fclose(file);
    }
    struct rlimit limit;
    CHECK(!getrlimit(RLIMIT_NOFILE, &limit));
    rlim_t before = limit.rlim_cur;
    limit.rlim_cur = LIMIT;
    CHECK(!setrlimit(RLIMIT_NOFILE, &limit));
    TestRun run = program("merge|%s", name);
    limit.rlim_cur = before;
    CHECK(!setrlimit(RLIMIT_NOFILE, &limit));
    check_status(&run, 0);
    CHECK(strstr(run.out, "from 64 files"), "%s", run.out);
    test_run_free(&run);
    free(first);
}

Test(shards, merge_refuses_other_options_and_ids_that_stand_twice) {
    Files f = files_open();
    char first[400], second[400];
    run_shards(&f, 2);
    run_well(&f, f.out, "|--force|--shard|1/2|-t|0.3");
    TestRun run = program("merge|%s", shard_of(first, &f, 0, 2));
    check_refused(&run, 3, "is of other options than");
    // Each shard's prompts by themselves, so that no shard sees the ids of the other.
    shard_of(second, &f, 1, 2);
    test_write_file(f.prompts, "{\"id\":1,\"prompt\":\"a\"}\n{\"id\":2,\"prompt\":\"a\"}\n", 44);
    run_well(&f, f.out, "|--force|--shard|0/2");
    test_write_file(f.prompts, "{\"id\":2,\"prompt\":\"a\"}\n{\"id\":1,\"prompt\":\"a\"}\n", 44);
    run_well(&f, f.out, "|--force|--shard|1/2");
    run = program("merge|%s", first);
    check_refused(&run, 3, "the id 1 stands twice");
}

Test(shards, merge_never_writes_over_its_inputs_nor_what_is_there) {
    Files f = files_open();
    char name[400];
    run_shards(&f, 2);
    shard_of(name, &f, 1, 2);
    TestRun run = program("merge|%s|--out|%s|--force", name, name);
    check_refused(&run, 2, "is read by this run");
    run = program("merge|%s|--out|%s", name, f.whole);
    check_refused(&run, 2, "is there already");
    run = program("merge");
    check_refused(&run, 2, "merge wants one of the files");
    run = program("merge|%s", f.prompts);
    check_refused(&run, 3, "is not a file of answers");
    run = program("merge|%s", small_model());
    check_refused(&run, 3, "is not a file of answers");
    test_write_file(f.merged, "{}", 2); // without a newline
    run = program("merge|%s", f.merged);
    check_refused(&run, 3, "is not a file of answers");
}
