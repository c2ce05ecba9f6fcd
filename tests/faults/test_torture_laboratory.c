// Fault injection, as in test_torture.c, for the commands that look inside a run, and for threads
// that do not start.
#include "tests/support/faults.h"
#include "tests/test.h"

#include <stdio.h>

#define TINY "--prompt-ids", "1,3,4", "-j", "1", "--quiet"

// ---- attention, lens, mask, cost ----

Test(torture_laboratory, memory_of_attention) {
    WALK("memory", 0, "attention", fault_gguf(), TINY, "--layer", "1", "--csv");
}

Test(torture_laboratory, memory_of_attention_rollout) {
    WALK("memory", 0, "attention", fault_gguf(), TINY, "--rollout");
}

Test(torture_laboratory, memory_of_attention_explained) {
    WALK("memory", 0, "attention", fault_gguf(), TINY, "--layer", "0", "--head", "1", "--explain",
         "2");
}

Test(torture_laboratory, files_of_a_picture) {
    char out[300];
    snprintf(out, sizeof out, "%s", test_temporary("attention.svg"));
    WALK("files", 4, "attention", fault_gguf(), TINY, "--svg", out, "--force");
}

Test(torture_laboratory, memory_of_lens) {
    WALK("memory", 0, "lens", fault_gguf(), TINY);
}

Test(torture_laboratory, memory_of_attribution) {
    WALK("memory", 0, "lens", fault_gguf(), TINY, "--attribute", "--json");
}

Test(torture_laboratory, files_of_lens) {
    WALK("files", 4, "lens", fault_gguf(), TINY, "--csv");
}

Test(torture_laboratory, memory_of_mask) {
    WALK("memory", 0, "mask", "local:2+global:1", "--seq", "8");
}

Test(torture_laboratory, memory_and_files_of_cost) {
    WALK("memory", 0, "cost", fault_gguf(), "--machine", "a100", "--seq", "8", "-j", "1");
    WALK("files", 4, "cost", fault_gguf(), "--machine", "a100", "--seq", "8", "-j", "1");
}

Test(torture_laboratory, memory_of_a_page) {
    char out[300];
    snprintf(out, sizeof out, "%s", test_temporary("inspect.html"));
    WALK("memory", 0, "inspect", fault_gguf(), "--html", out, "--force");
    WALK("files", 4, "inspect", fault_gguf(), "--html", out, "--force");
}

// ---- replay ----

static void replay_through(const char *kind, int other) {
    char out[300];
    snprintf(out, sizeof out, "%s", test_temporary("recording.json"));
    PREPARE("generate", fault_gguf(), TINY, "-s", "1", "--max-tokens", "3", "--record", out,
            "--force");
    need_fault_json("replay", out);
    WALK(kind, other, "replay", out, "--quiet");
    WALK(kind, other, "replay", out, "--quiet", "--at", "1", "--token", "4", "--json");
}

Test(torture_laboratory, memory_of_replay) {
    replay_through("memory", 0);
}

Test(torture_laboratory, files_of_replay) {
    replay_through("files", 4);
}

Test(torture_laboratory, a_recording_is_whole_or_absent) {
    char out[300];
    snprintf(out, sizeof out, "%s", test_temporary("recording.json"));
    WALK("memory", 0, "generate", fault_gguf(), TINY, "-s", "1", "--max-tokens", "3", "--record",
         out, "--force");
    WALK("files", 4, "generate", fault_gguf(), TINY, "-s", "1", "--max-tokens", "3", "--record",
         out, "--force");
}

// ---- interventions ----

static void interventions_through(const char *kind, int other) {
    char rows[300], out[300], patch[400];
    snprintf(rows, sizeof rows, "%s", test_temporary("rows.safetensors"));
    snprintf(out, sizeof out, "%s", test_temporary("out.safetensors"));
    snprintf(patch, sizeof patch, "layers.1.ffn_out[1]=%s", rows);
    PREPARE("trace", fault_gguf(), TINY, "--only", "layers.1.*", "-o", rows, "--force");
    need_fault_json("diff", rows);
    WALK(kind, other, "trace", fault_gguf(), TINY, "--ablate", "L0.H1", "--ablate-to", "mean",
         "--patch", patch, "-o", out, "--force");
}

Test(torture_laboratory, memory_of_interventions) {
    interventions_through("memory", 0);
}

Test(torture_laboratory, files_of_interventions) {
    interventions_through("files", 4);
}

// ---- view ----

static void view_through(const char *kind, int other) {
    char out[300];
    snprintf(out, sizeof out, "%s", test_temporary("view.html"));
    WALK(kind, other, "view", fault_gguf(), TINY, "-o", out, "--force");
}

Test(torture_laboratory, memory_of_view) {
    view_through("memory", 0);
}

Test(torture_laboratory, files_of_view) {
    view_through("files", 4);
}

// ---- perplexity ----

static void perplexity_through(const char *kind, int other) {
    char text[300], saved[300];
    snprintf(text, sizeof text, "%s", test_temporary("text"));
    snprintf(saved, sizeof saved, "%s", test_temporary("logits.safetensors"));
    test_write_file(text, "a b a b", 7);
    WALK(kind, other, "perplexity", fault_gguf(), "-f", text, "-j", "1", "--quiet", "--save-logits",
         saved, "--force");
    PREPARE("perplexity", fault_gguf(), "-f", text, "-j", "1", "--save-logits", saved, "--force");
    WALK(kind, other, "perplexity", fault_gguf(), "-f", text, "-j", "1", "--quiet", "--kl", saved);
}

Test(torture_laboratory, memory_of_saved_logits) {
    perplexity_through("memory", 0);
}

Test(torture_laboratory, files_of_saved_logits) {
    perplexity_through("files", 4);
}

Test(torture_laboratory, memory_of_each_head_ablated) {
    const char *text = test_temporary("text");
    test_write_file(text, "a b a b", 7);
    WALK("memory", 0, "perplexity", fault_gguf(), "-f", text, "-j", "1", "--quiet",
         "--ablate-each");
}

// ---- chat ----

Test(torture_laboratory, files_of_chat) {
    const char *const argv[] = {TEST_RUN, "chat",    fault_gguf(),   "--template", "llama2",
                                "-c",     "64",      "-t",           "0",          "-j",
                                "1",      "--quiet", "--max-tokens", "2",          NULL};
    walk_through(&(Walk){.kind = "files", .argv = argv, .input = "a b\nb a\n", .other_code = 4});
}

// A conversation at a terminal, with a history. However it ends, the terminal is given back.
// libedit does not survive a failed allocation of its own: line_editor_open sees to it that none is
// needed.
static void typed_through(const char *kind, const char *line, const TypedKeys *keys, size_t count) {
    const char *count_path = test_temporary("typed-count");
    long calls = 1;
    for (long at = 0; at <= calls; at++)
        for (int for_ever = 0; for_ever < 2; for_ever++) {
            Fault fault = {.kind = kind,
                           .at = at,
                           .for_ever = for_ever,
                           .except = "/libedit",
                           .count_path = count_path};
            TestRun run = typed_with_fault(&fault, line, keys, count);
            bool refused = at && (run.status == 5 || run.status == 4) && strstr(run.out, "run: ");
            CHECK(run.status == 0 || refused, "%s call %ld%s: exit %d, %s", kind, at,
                  for_ever ? " and on" : "", run.status, run.out);
            CHECK(strstr(run.out, ", terminal back]") && !strstr(run.out, "NOT BACK"),
                  "%s call %ld%s: %s", kind, at, for_ever ? " and on" : "", run.out);
            test_run_free(&run);
            char *number = test_read_file(count_path, NULL);
            if (!at) calls = atol(number);
            free(number);
        }
    fprintf(stderr, "%ld %s calls at a terminal\n", calls, kind);
    CHECK(calls > 5, "%ld calls", calls);
}

static void talk_through(const char *kind) {
    static const TypedKeys KEYS[] = {{"> ", "a b\n"}, {"> ", "/history\n"}, {"> ", "\x04"}};
    char line[600];
    if (!TEST_EDIT) SKIP("this build has no line editor (EDIT=0)");
    need_faults();
    setenv("TERM", "xterm", 1);
    setenv("XDG_STATE_HOME", test_temporary("state"), 1);
    snprintf(line, sizeof line,
             "chat|%s|--template|llama2|--color|never|-c|64|-t|0|-j|1|-q|--max-tokens|2",
             fault_gguf());
    typed_through(kind, line, KEYS, 3);
}

Test(torture_laboratory, memory_of_a_typed_chat) {
    talk_through("memory");
}

Test(torture_laboratory, files_of_a_typed_chat) {
    talk_through("files");
}

// ---- what measures: how it ends ----

static void measured_through(const char *const *argv) {
    walk_through(&(Walk){.kind = "memory", .argv = argv, .varies = true});
    walk_through(&(Walk){.kind = "files", .argv = argv, .varies = true, .other_code = 4});
}

Test(torture_laboratory, memory_and_files_of_bench) {
    const char *const argv[] = {TEST_RUN, "bench",       fault_gguf(), "--pp", "2",
                                "--tg",   "2",           "-r",         "1",    "-j",
                                "1",      "--no-limits", "--quiet",    NULL};
    measured_through(argv);
}

Test(torture_laboratory, memory_and_files_of_selftest) {
    const char *const argv[] = {TEST_RUN, "selftest", fault_gguf(), "--prompt-ids", "1,3,4,5", "-j",
                                "1",      "--quiet",  NULL};
    measured_through(argv);
}

Test(torture_laboratory, memory_and_files_of_patterns_side_by_side) {
    const char *text = test_temporary("text");
    test_write_file(text, "a b a b", 7);
    const char *const argv[] = {TEST_RUN,  "perplexity", fault_gguf(),     "-f", text, "-j", "1",
                                "--quiet", "--patterns", "causal,local:2", NULL};
    measured_through(argv);
}

// ---- threads ----

Test(torture_laboratory, threads_that_do_not_start) {
    WALK("threads", 0, "generate", fault_gguf(), "--prompt-ids", "1,3,4", "-t", "0", "-j", "4",
         "--max-tokens", "2", "--quiet");
    WALK("threads", 0, "perplexity", fault_gguf(), "-f", "/proc/self/status", "-j", "3",
         "--windows", "1", "--quiet");
}
