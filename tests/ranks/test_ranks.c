// A model on 2, 3 and 4 ranks gives the bytes of one process: the same program, started by mpirun
// on this machine. And a rank that goes ends the job. Only in a build of MPI=1.
#include "tests/support/program.h"

// -q of mpirun: the line of ours alone, without its own remarks.
#define MPIRUN "timeout 120 mpirun --allow-run-as-root --oversubscribe -q "

static void need_mpirun(void) {
    if (system("command -v mpirun >/dev/null")) SKIP("no mpirun on this machine");
}

// What the program prints with these words, on `n` ranks; 1: without mpirun.
static TestRun on_ranks(int n, const char *words) {
    char script[2500], start[100] = "";
    if (n > 1) snprintf(start, sizeof start, MPIRUN "-n %d ", n);
    snprintf(script, sizeof script, "%s$RUN %s -q -j 1 </dev/null", start, words);
    return program_shell(script);
}

// Of --json: all that a run computes, without its rates.
static void cut_rates(TestRun *run) {
    char *rates = strstr(run->out, ",\"prompt_tokens_per_second\"");
    if (rates) *rates = '\0';
}

static void check_same(const char *words, int least, int most) {
    TestRun alone = on_ranks(1, words);
    CHECK_INT(alone.status, 0);
    cut_rates(&alone);
    CHECK(strlen(alone.out) > 20, "%s: %s", words, alone.out);
    for (int n = least; n <= most; n++) {
        TestRun run = on_ranks(n, words);
        CHECK(run.status == 0, "%d ranks, %s: %s", n, words, run.err);
        cut_rates(&run);
        CHECK(!strcmp(run.out, alone.out), "%d ranks, %s:\n%s%s", n, words, run.out, alone.out);
        CHECK_STRING(run.err, alone.err);
        test_run_free(&run);
    }
    test_run_free(&alone);
}

Test(ranks, give_the_ids_and_logits_of_one_process) {
    need_mpirun();
    need_builtin();
    check_same("--prompt-ids 1,403,407 --max-tokens 40 -t 0 --json", 2, 4);
    check_same("--prompt-ids 1,403,407 --max-tokens 40 -t 0.8 -s 3 --json --precision a8", 2, 4);
    check_same("--prompt-ids 1,403,407 --max-tokens 40 -t 0.8 -s 3 --json --precision f32 --kv "
               "f32",
               2, 4);
    check_same("-i 'Once upon a time' -t 0 --max-tokens 30 --json --no-cache", 3, 3);
    check_same("-i 'Once upon a time' -t 0 --max-tokens 30 --json --pattern local:8+global:1", 3,
               3);
}

// Without --json a token goes from the logits to the next pass without the host.
Test(ranks, give_the_text_that_is_sampled_on_the_device) {
    need_mpirun();
    need_builtin();
    check_same("-i 'Once upon a time' -t 0.8 -s 1 --max-tokens 60", 2, 4);
    check_same("-i 'Once upon a time' -t 0.8 -s 1 --max-tokens 40 --repeat-penalty 1.2", 3, 3);
}

// 400 tokens: more chunks than messages that can be on their way.
Test(ranks, have_the_chunks_of_a_long_prompt_under_way_together) {
    need_mpirun();
    need_builtin();
    check_same("--prompt-ids \"$(seq -s , 3 402)\" --max-tokens 5 -t 0 --json", 2, 4);
}

// Else the next rank has a chunk only after the last one is computed.
Test(ranks, pass_large_messages_on_while_they_compute) {
    need_mpirun();
    char script[500];
    snprintf(script, sizeof script, MPIRUN "-n 2 " TEST_BUILD "/tests/large_message %s",
             test_temporary_new("arrived"));
    TestRun run = program_shell(script);
    CHECK(run.status == 0, "%s", run.err);
    test_run_free(&run);
}

Test(ranks, may_have_any_number_of_layers) {
    need_mpirun();
    need_builtin();
    TestRun alone = on_ranks(1, "--prompt-ids 1,403 --max-tokens 30 -t 0 --json");
    cut_rates(&alone);
    static const char *const LAYERS[] = {"1,4,1", "4,1,1", "1,1,4"};
    for (int i = 0; i < 3; i++) {
        char words[200];
        snprintf(words, sizeof words,
                 "--prompt-ids 1,403 --max-tokens 30 -t 0 --json --layers-per-rank %s", LAYERS[i]);
        TestRun run = on_ranks(3, words);
        cut_rates(&run);
        CHECK_INT(run.status, 0);
        CHECK_STRING(run.out, alone.out);
        test_run_free(&run);
    }
    test_run_free(&alone);
}

// The first ids of 2 to 200 are in every vocabulary; some of these models have a window of 8.
Test(ranks, run_every_family) {
    static const char *const FAMILIES[] = {"gemma3",
                                           "gemma3-bf16",
                                           "gpt2",
                                           "llama-rope-llama3",
                                           "llama-tied",
                                           "llama-untied",
                                           "mistral-window8",
                                           "nanochat",
                                           "olmo2",
                                           "phi3",
                                           "qwen2",
                                           "qwen3",
                                           "qwen3-bf16",
                                           "smollm3"};
    need_mpirun();
    test_data("reference-models/README.md");
    for (size_t i = 0; i < sizeof FAMILIES / sizeof *FAMILIES; i++) {
        char words[400];
        snprintf(words, sizeof words,
                 "../shared/data/reference-models/%s --prompt-ids \"$(seq -s , 5 44)\" "
                 "--max-tokens 12 -t 0 --json --ignore-eos",
                 FAMILIES[i]);
        check_same(words, 2, 2);
    }
}

Test(ranks, give_the_perplexity_of_one_process) {
    need_mpirun();
    need_builtin();
    check_same("perplexity -f README.md --windows 2", 2, 4);
    check_same("perplexity -f README.md --windows 1 --window 200 --stride 100", 3, 3);
}

// Sequences are copied and begun anew in the caches of all ranks.
Test(ranks, answer_a_file_of_prompts_as_one_process) {
    need_mpirun();
    need_builtin();
    char *to = strdup(test_temporary("ranks")), script[2000];
    snprintf(script, sizeof script,
             "mkdir -p %s; cd %s; p=$OLDPWD/$RUN; for i in 1 2 3 4 5 6; do echo "
             "'{\"id\":\"'$i'\",\"prompt\":\"Once upon '$i'\",\"max_tokens\":12,\"samples\":2}'; "
             "done >in; w='--prompts in -t 0.8 -s 1 -q -j 1'; $p $w --out one </dev/null && " MPIRUN
             "-n 3 $p $w --out three --layers-per-rank 2,3,1 </dev/null && cmp one three && wc -l "
             "<three",
             to, to);
    TestRun run = program_shell(script);
    CHECK(run.status == 0, "%s%s", run.out, run.err);
    CHECK(atoi(run.out) >= 6, "%s", run.out);
    test_run_free(&run);
    free(to);
}

Test(ranks, are_measured_by_bench) {
    need_mpirun();
    need_builtin();
    TestRun run = on_ranks(3, "bench --pp 64 --gen 8 --batch 1,3 --depth 0,20 -r 1 --csv");
    CHECK(run.status == 0, "%s", run.err);
    int lines = 0;
    for (const char *at = run.out; (at = strchr(at, '\n')); at++)
        lines++;
    CHECK_INT(lines, 9); // a header; prompt and text of 2 batches at 2 depths
    test_run_free(&run);
}

// Two network namespaces are two machines for MPI; every packet between them is late. The ranks of
// one of them talk through its own loopback.
Test(ranks, give_the_same_bits_over_a_slow_network) {
    static const char WORDS[] = "--prompt-ids \"$(seq -s , 3 90)\" --max-tokens 20 -t 0 --json";
    char script[2000];
    need_mpirun();
    need_builtin();
    TestRun alone = on_ranks(1, WORDS);
    cut_rates(&alone);
    for (int ms = 0; ms <= 10; ms += 5) {
        snprintf(
            script, sizeof script,
            "export RUN=$(realpath $RUN); timeout 100 python3 tests/ranks/slow_link.py 0.0%02d "
            "sh -c 'mpirun --allow-run-as-root --oversubscribe -q --mca plm_rsh_agent $AGENT "
            "--mca pml ob1 --mca btl tcp,self --mca btl_tcp_if_include 10.77.0.0/24 --mca "
            "oob_tcp_if_include 10.77.0.0/24 --host 10.77.0.1:2,10.77.0.2:2 -n 3 $RUN %s -q "
            "-j 1' </dev/null",
            ms, WORDS);
        TestRun run = program_shell(script);
        if (run.status == 77) SKIP("no network namespaces: %s", run.err);
        cut_rates(&run);
        CHECK(run.status == 0, "%d ms: %s", ms, run.err);
        CHECK_STRING(run.out, alone.out);
        test_run_free(&run);
    }
    test_run_free(&alone);
}

// ---- what goes wrong ----

static void check_ended(const char *script, int status, const char *because) {
    TestRun run = program_shell(script);
    CHECK(run.status == status, "status %d: %s", run.status, run.err);
    CHECK(strstr(run.err, because), "%s", run.err);
    char *end = strchr(run.err, '\n');
    CHECK(end && !end[1], "more than a line: %s", run.err);
    test_run_free(&run);
}

Test(ranks, tell_a_missing_file_of_one_machine) {
    need_mpirun();
    need_builtin();
    check_ended(MPIRUN "-n 3 sh -c 'm=builtin; [ $OMPI_COMM_WORLD_RANK = 2 ] && m=/nowhere/x.gguf; "
                       "exec '$RUN' $m -i Once -q' </dev/null",
                6, "rank 2: /nowhere/x.gguf: cannot open it");
}

Test(ranks, tell_that_one_machine_has_another_model) {
    char script[1000];
    need_mpirun();
    need_builtin();
    const char *other = test_reference_model("qwen3");
    snprintf(script, sizeof script,
             MPIRUN "-n 2 sh -c 'm=builtin; [ $OMPI_COMM_WORLD_RANK = 1 ] && m=%s; "
                    "exec '$RUN' $m -i Once -q' </dev/null",
             other);
    check_ended(script, 6, "rank 1: another model than that of rank 0");
}

static const char *converted(const char *from, const char *name, const char *type) {
    const char *to = test_temporary(name);
    TestRun run = program("convert|%s|%s|--type|%s|-q", from, to, type);
    CHECK(run.status == 0, "%s", run.err);
    test_run_free(&run);
    return to;
}

// Of equal sizes and norms: another type, and other numbers of one type.
Test(ranks, tell_that_one_machine_has_another_quantisation) {
    char exact[300], rough[300], script[1000];
    need_mpirun();
    need_builtin();
    snprintf(exact, sizeof exact, "%s", converted("builtin", "exact.gguf", "f32"));
    snprintf(rough, sizeof rough, "%s", converted("builtin", "small.gguf", "q4_0"));
    snprintf(rough, sizeof rough, "%s", converted(rough, "rough.gguf", "f32"));
    const char *const others[] = {"builtin", rough};
    for (int i = 0; i < 2; i++) {
        snprintf(script, sizeof script,
                 MPIRUN "-n 2 sh -c 'm=%s; [ $OMPI_COMM_WORLD_RANK = 1 ] && m=%s; "
                        "exec '$RUN' $m -i Once -q' </dev/null",
                 exact, others[i]);
        check_ended(script, 6, "rank 1: another model than that of rank 0");
    }
}

// The same weights with another theta are another model.
Test(ranks, tell_that_one_machine_has_another_configuration) {
    char other[300], script[2000];
    need_mpirun();
    need_builtin();
    snprintf(other, sizeof other, "%s", test_temporary("theta"));
    TestRun run = program("convert|builtin|%s|-q", other);
    CHECK(run.status == 0, "%s", run.err);
    test_run_free(&run);
    snprintf(
        script, sizeof script,
        "cp -r %s %s.2 && sed -i 's/\"rope_theta\": [^,]*/\"rope_theta\": 123/' %s.2/config.json "
        "&& grep -q '\"rope_theta\": 123,' %s.2/config.json",
        other, other, other, other);
    run = program_shell(script);
    check_status(&run, 0);
    test_run_free(&run);
    snprintf(script, sizeof script,
             MPIRUN "-n 2 sh -c 'm=%s; [ $OMPI_COMM_WORLD_RANK = 1 ] && m=$m.2; "
                    "exec '$RUN' $m -i Once -q; rm -r %s.2' </dev/null",
             other, other);
    check_ended(script, 6, "rank 1: another model than that of rank 0");
}

Test(ranks, tell_a_wrong_command_line_once) {
    need_mpirun();
    need_builtin();
    check_ended(MPIRUN "-n 3 $RUN --bogus </dev/null", 2, "unknown option --bogus");
    check_ended(MPIRUN "-n 7 $RUN -i a </dev/null", 2, "at most 6, for 6 layers");
    check_ended(MPIRUN "-n 2 $RUN -i a --layers-per-rank 1,2,3 </dev/null", 2, "3 numbers for 2");
    check_ended(MPIRUN "-n 2 $RUN -i a --layers-per-rank 1,2 </dev/null", 2, "the model has 6");
    check_ended(MPIRUN "-n 2 $RUN -i a --ablate L0.H1 </dev/null", 2, "in one process");
    check_ended(MPIRUN "-n 2 -x LIMPID_RANK_SECONDS=soon $RUN -i a </dev/null", 2,
                "LIMPID_RANK_SECONDS=soon: seconds are expected");
    check_ended(MPIRUN "-n 2 $RUN /nowhere/x.gguf -i a </dev/null", 4, "cannot open it");
}

// The others would wait for it.
Test(ranks, tell_what_is_wrong_with_the_words_of_one) {
    need_mpirun();
    need_builtin();
    check_ended(MPIRUN "-n 1 $RUN -i a : -n 1 $RUN -i a --bogus </dev/null", 2,
                "unknown option --bogus");
    // Rank 0 alone uses these numbers.
    check_ended(MPIRUN "-n 1 $RUN -i a --layers-per-rank 3,2,1 : -n 1 $RUN -i a "
                       "--layers-per-rank 3,3 </dev/null",
                2, "3 numbers for 2 ranks");
    check_ended(MPIRUN "-n 1 $RUN -i a -n 3 --layers-per-rank 3,3 : -n 1 $RUN -i a -n 3 "
                       "--layers-per-rank 3,2,1 </dev/null",
                0, "");
}

// A process whose work is its own tells its errors itself, whatever rank it has.
Test(ranks, tell_what_is_wrong_with_the_work_of_one) {
    static const char *const LINES[] = {
        "$RUN merge",
        "$RUN convert $MODEL $D/out.gguf --type nonsense",
        "echo '{\"prompt\":\"a\"}' >$D/p; echo old >$D/a.1-of-2.jsonl; "
        "$RUN $MODEL --prompts $D/p --out $D/a.jsonl",
    };
    for (size_t i = 0; i < sizeof LINES / sizeof *LINES; i++) {
        TestRun r = program_shell(
            test_text("export OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2; D=%s; mkdir -p $D; %s",
                      test_temporary("own"), LINES[i]));
        check_status(&r, 2);
        CHECK(!strncmp(r.err, "run: ", 5) && strchr(r.err, '\n') == r.err + r.err_size - 1,
              "%s: %s", LINES[i], r.err);
        test_run_free(&r);
    }
}

// The program of a rank is the child of the one that mpirun has started, with the same variables.
#define SIGNAL_RANK(number, rank, seconds)                                                         \
    "(" MPIRUN "-n 3 -x LIMPID_RANK_SECONDS=" seconds " -x LIMPID_TEST_JOB=$$ $RUN perplexity -f " \
    "docs/laboratory.md --stride 1 -q -j 1 </dev/null >/dev/null) & job=$!; "                      \
    "for turn in $(seq 100); do sleep 0.2; for p in $(pgrep -x run); do "                          \
    "e=$(tr '\\0' '\\n' 2>/dev/null </proc/$p/environ) || continue; "                              \
    "case $e in *LIMPID_TEST_JOB=$$*) ;; *) continue ;; esac; "                                    \
    "case $e in *OMPI_COMM_WORLD_RANK=" rank "*) ;; *) continue ;; esac; "                         \
    "read -r x x x parent x </proc/$p/stat; "                                                      \
    "[ \"$(cat /proc/$parent/comm)\" = run ] && [ $turn -gt 10 ] && kill -" number " $p && break " \
    "2; done; done; wait $job"

Test(ranks, end_with_code_6_where_one_is_killed) {
    need_mpirun();
    need_builtin();
    check_ended(SIGNAL_RANK("KILL", "0", "60"), 6, "rank 0 was killed by signal 9");
    check_ended(SIGNAL_RANK("KILL", "1", "60"), 6, "rank 1 was killed by signal 9");
    check_ended(SIGNAL_RANK("KILL", "2", "60"), 6, "rank 2 was killed by signal 9");
}

Test(ranks, end_with_code_6_where_one_does_not_answer) {
    need_mpirun();
    need_builtin();
    // Rank 0 waits half as long again: on a busy machine a second may pass before rank 2 waits too.
    check_ended(SIGNAL_RANK("STOP", "1", "5"), 6, "rank 1 has not answered rank 2 for 5 s");
}
