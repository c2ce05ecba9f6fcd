// What commands refuse before they compute: options that exclude one another, values out of their
// range, files that are not what they should be. Each is its exit code and one line that says why.
#include "base/error.h"
#include "tests/support/program.h"

#include <errno.h>
#include <sys/stat.h>

typedef struct Refusal {
    const char *line; // of shell; $D is an empty directory, $IN has the options of a prompt
    const char *because;
    int status; // 0: ERROR_USAGE
} Refusal;

static void check_all(const Refusal *rows, size_t count) {
    const char *directory = test_temporary("refused");
    int wrong = 0;
    CHECK(!mkdir(directory, 0700) || errno == EEXIST, "%s", directory);
    for (size_t i = 0; i < count; i++) {
        const char *script =
            test_text("D=%s; rm -rf $D/*; IN='-i ab -q -j 1'; %s", directory, rows[i].line);
        TestRun r = program_shell(script);
        int status = rows[i].status ? rows[i].status : ERROR_USAGE;
        const char *end = strchr(r.err, '\n');
        if (r.status == status && !r.out_size && end == r.err + r.err_size - 1 &&
            !strncmp(r.err, "run: ", 5) && strstr(r.err, rows[i].because)) {
            test_run_free(&r);
            continue;
        }
        fprintf(stderr, "%s\n  exit %d, wanted %d, and \"%s\": %s\n", rows[i].line, r.status,
                status, rows[i].because, r.err);
        wrong++;
        test_run_free(&r);
    }
    CHECK_INT(wrong, 0);
}

#define CHECK_ALL(rows) check_all(rows, sizeof(rows) / sizeof *(rows))

Test(refusals, of_the_laboratory) {
    need_builtin();
    static const Refusal ROWS[] = {
        {"$RUN attention $MODEL --rope --csv --json", "--csv and --json: one of them", 0},
        {"$RUN attention $MODEL $IN --svg $D/a --png $D/a", "--svg and --png are the same file", 0},
        {"$RUN cost $MODEL --json --sweep", "--json: --sweep does not use it", 0},
        {"$RUN cost $MODEL --measure --seq 512000", "the model's context is 512", 0},
        {"$RUN lens $MODEL $IN --patch layers.0.att_out=$D/none", "none: ", ERROR_IO},
        {"$RUN view $MODEL $IN", "--out FILE is needed: where to write the page", 0},
        {"$RUN view $MODEL $IN --out $D/v --budget f32", "--budget is of two traces", 0},
        {"$RUN view $MODEL $IN --out $D/v --layers 0-77", "wanted layers 0 .. ", 0},
        {"$RUN view $MODEL -i ab -n 5000 --out $D/v", "are to be generated", 0},
    };
    CHECK_ALL(ROWS);
}

#define QUIET " >/dev/null 2>&1; "
#define TRACE "$RUN trace $MODEL -i ab --out $D/t" QUIET
Test(refusals, of_pages_of_traces) {
    need_builtin();
    static const Refusal ROWS[] = {
        {TRACE "$RUN view $D/t --out $D/v -i ab", "a trace has its tokens: no -i", 0},
        {TRACE "$RUN view $D/t --out $D/v --budget f32", "--budget is of two traces", 0},
        {TRACE "$RUN view $D/t --out $D/v --pattern local:2", "--pattern is of a run", 0},
        {TRACE "$RUN view $D/t --out $D/v --ablate L1.H1", "--ablate is of a run", 0},
        {TRACE "$RUN view $D/t --out $D/v --patch nothing", "--patch is of a run", 0},
        {TRACE "$RUN view $D/t --out $D/v --kv f32", "--kv is of a run", 0},
        {TRACE "head -c 5000 $D/t >$D/cut; $RUN view $D/cut --out $D/v", "file is incomplete",
         ERROR_FILE},
        {TRACE "$RUN inspect $D/t", "a trace of a run, not a model", ERROR_FILE},
        {TRACE "$RUN diff $D/t $D/t --only nothing", "--only nothing: no tensor", 0},
        {"$RUN trace $MODEL -i ab --out $D/t --only nothing --only q_prok",
         "--only nothing: no stage", 0},
        {TRACE "$RUN trace $MODEL -i abc --out $D/u" QUIET "$RUN view $D/t $D/u --out $D/v",
         "the traces have different tokens from position", ERROR_ANSWER_NO},
    };
    CHECK_ALL(ROWS);
}

Test(refusals, of_measurements) {
    need_builtin();
    static const Refusal ROWS[] = {
        {"$RUN bench $MODEL --json --csv", "one of --json, --csv and --markdown", 0},
        {"$RUN bench $MODEL --pp 1,2,3,4,5,6,7,8 --depth 0,1,2,3,4,5,6,7 --batch 1,2,3,4,5,6,7,8",
         "combinations", 0},
        {"LIMPID_ISA=cray $RUN generate $MODEL $IN", "LIMPID_ISA=cray: wanted one of ",
         ERROR_DEVICE},
        {"$RUN selftest $MODEL --markdown", "selftest has --markdown with --golden alone", 0},
        {"$RUN selftest --golden tests", "tests is a directory: --golden takes one", 0},
        {"$RUN selftest $MODEL --golden $IN", "of its own: leave out --", 0},
    };
    CHECK_ALL(ROWS);
}

Test(refusals, of_perplexity) {
    need_builtin();
    static const Refusal ROWS[] = {
        {"printf '' >$D/f; $RUN perplexity $MODEL -f $D/f", "tokens, at least 2 are needed\n", 0},
        {"$RUN perplexity $MODEL </dev/null",
         "tokens, at least 2 are needed: -f FILE gives one, as does standard input\n", 0},
        {"$RUN perplexity $MODEL -f LICENSE --window 100000", "the model's context is", 0},
        {"$RUN perplexity $MODEL -f LICENSE --window 16 --stride 17", "at most the window, 16", 0},
        {"$RUN perplexity $MODEL -f LICENSE --ablate-each --ablate L0.H0",
         "--ablate-each excludes --ablate", 0},
        {"$RUN perplexity $MODEL -f LICENSE --all", "--all is of --ablate-each", 0},
        {"$RUN perplexity $MODEL -f LICENSE --ids LICENSE", "-f and --ids: one of them", 0},
        {"$RUN perplexity $MODEL -f LICENSE --csv --json", "--csv and --json: one of them", 0},
        {"$RUN perplexity $MODEL -f LICENSE --patterns causal --csv --json",
         "--csv and --json: one of them", 0},
        {"$RUN perplexity $MODEL -f LICENSE --patterns causal --pattern causal",
         "--patterns excludes --pattern", 0},
        {"$RUN perplexity $MODEL -f LICENSE --patterns causal,,causal", "an empty pattern", 0},
        {"$RUN perplexity $MODEL -f LICENSE --patterns local:$(printf %0900d 1)", "is longer than",
         0},
        {"$RUN perplexity $MODEL -f LICENSE --patterns $(printf causal,%.0s $(seq 50))causal",
         "more than ", 0},
        {"$RUN convert $MODEL $D/o --json", "--json is the form of what --check prints", 0},
        {"$RUN convert $MODEL $D/o --windows 2", "--windows goes with --check or --importance", 0},
        {"printf '' >$D/f; $RUN convert $MODEL $D/o.gguf --type q8_0 -q --check $D/f",
         "tokens, at least 2 are needed", 0},
    };
    CHECK_ALL(ROWS);
}

Test(refusals, of_replacing_no_file) {
    need_builtin();
    static const Refusal ROWS[] = {
        {"$RUN inspect $MODEL --force", "run: --force goes with --html\n", 0},
        {"$RUN inspect $MODEL --json --force", "run: --force goes with --html\n", 0},
        {"$RUN attention $MODEL $IN --force", "run: --force goes with --svg, --png\n", 0},
        {"$RUN lens $MODEL $IN --force", "run: --force goes with --svg, --png\n", 0},
        {"$RUN cost $MODEL --force", "run: --force goes with --svg, --png\n", 0},
        {"$RUN mask causal --force", "run: --force goes with --svg, --png\n", 0},
        {"$RUN perplexity $MODEL -f LICENSE --force", "run: --force goes with --save-logits\n", 0},
        {"$RUN $MODEL $IN --force", "run: --force goes with --out, --record, --cache\n", 0},
    };
    CHECK_ALL(ROWS);
}

Test(refusals, of_texts) {
    need_builtin();
    static const Refusal ROWS[] = {
        {"$RUN tokenize $MODEL -i a -f LICENSE", "the input is one of -i and -f", 0},
        {"$RUN chat $MODEL --template llama2 -i a -f LICENSE", "the message is one of -i and -f",
         0},
        {"$RUN chat $MODEL --template nosuch -i a", "got \"nosuch\", wanted one of chatml", 0},
        {"$RUN chat $MODEL -i a", "no known chat format in this model", 0},
        {"$RUN generate $MODEL $IN --draft $MODEL --speculate lookup",
         "drafts come from one of --draft and --speculate lookup", 0},
        {"$RUN generate $MODEL $IN --draft-tokens 3", "is for --speculate lookup and --draft", 0},
        {"$RUN generate $MODEL $IN --cache $D/c --record $D/c", "--cache and --record name one", 0},
        {"$RUN generate $MODEL $IN $(printf -- '--stop a%.0s ' $(seq 99))", "is given more than",
         0},
        {"$RUN generate $MODEL $IN $(printf -- '--logit-bias 3:+1%.0s ' $(seq 2000))",
         "--logit-bias", 0},
        {"$RUN generate $MODEL $IN --logit-bias 3:+1,999999:1",
         "run: --logit-bias: wanted a token 0 to 2047, got 999999", 0},
    };
    CHECK_ALL(ROWS);
}

#define TO(out) "$RUN generate $MODEL -q -j 1 --max-tokens 1 -t 0 --prompts $D/p --out $D/" out " "
#define PROMPTS(text, out) "echo '{\"prompt\":\"" text "\"}' >$D/p; " TO(out)
Test(refusals, of_files_of_prompts) {
    need_builtin();
    static const Refusal ROWS[] = {
        {PROMPTS("a", "a") "--color surprise", "--prompts does not go with --color surprise", 0},
        {PROMPTS("a", "a") "-m chat", "does not go with -m chat: a line has \"messages\"", 0},
        {PROMPTS("a", "a") "--template nosuch", "got \"nosuch\", wanted one of", 0},
        {PROMPTS("a", "a") QUIET PROMPTS("b", "a") "--resume",
         "the prompt with the id 1 is not the one that was answered", ERROR_FILE},
        {PROMPTS("a", "a") "--shard 0/2" QUIET "mv $D/a.0-of-2 $D/b; $RUN merge $D/b --out $D/m",
         "no \".0-of-2\" in its name, so the others are not found", 0},
        {PROMPTS("a", "a") "--shard 0/2" QUIET "cp $D/a.0-of-2 $D/a.1-of-2; "
                           "$RUN merge $D/a.0-of-2 --out $D/m",
         "a.1-of-2: has shard 0 of 2", ERROR_FILE},
        {PROMPTS("a", "a") "--shard 0/2" QUIET
                           "cp $D/a.0-of-2 $D/a.1-of-2; " TO("a") "--shard 1/2 --resume",
         "has shard 0 of 2, this run is 1 of 2", ERROR_FILE},
        {": >$D/a; $RUN merge $D/a --out $D/m", "has no answers yet", ERROR_FILE},
    };
    CHECK_ALL(ROWS);
}
