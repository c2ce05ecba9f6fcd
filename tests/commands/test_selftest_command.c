// selftest as a user calls it: files of every container and family, its output, its errors.
#include "base/error.h"
#include "tests/support/files/conversions.h"
#include "tests/support/files/gguf_writer.h"
#include "tests/support/files/llama2c_writer.h"
#include "tests/support/program.h"

enum { REFERENCE = sizeof TEST_BACKEND == sizeof "reference" }; // has one thread: one check less

// "12 held, 0 failed, 0 do not apply", of a model to which `held` checks apply.
static const char *verdicts(int held) {
    held -= REFERENCE;
    return test_text("\n%d held, 0 failed, %d do%s not apply; ", held, 12 - held,
                     held == 11 ? "es" : "");
}

static void check_says(const char *line, const char *wanted) {
    TestRun r = program("selftest|%s", line);
    CHECK(r.status == 0, "%s: exit %d: %s%s", line, r.status, r.out, r.err);
    CHECK(strstr(r.out, wanted), "%s: no \"%s\" in %s", line, wanted, r.out);
    CHECK_STRING(r.err, "");
    test_run_free(&r);
}

Test(selftest_command, holds_on_a_gguf_and_a_bin_in_every_precision) {
    static const char *const WAYS[] = {"", "|--precision|f32|-j|1", "|--precision|a8|--kv|f32"};
    BinShape shape = bin_shape_blocks();
    size_t size;
    char line[1000], *bytes = bin_bytes(&size, &shape, 3);
    const char *bin = test_temporary("made.bin");
    test_write_file(bin, bytes, size);
    free(bytes);
    const char *models[] = {small_model(), bin, test_data_if_any("stories260K/stories260K.gguf"),
                            test_data_if_any("stories260K/stories260K.bin")};
    for (int i = 0; i < (REFERENCE ? 1 : 3); i++)
        for (int k = 0; k < 4 && models[k]; k++) { // a .bin without a tokenizer: ids
            snprintf(line, sizeof line, "%s%s", models[k], WAYS[i]);
            check_says(line, verdicts(12));
        }
}

// More rows than one pass takes, and more positions than are compared; plain loops take too long.
Test(selftest_command, holds_on_a_long_prompt) {
    char line[2000];
    snprintf(line, sizeof line, "%s|--prompt-ids|1", small_model());
    for (int i = 0; i < (REFERENCE ? 39 : 299); i++)
        sprintf(line + strlen(line), ",%d", 259 + i % 250);
    check_says(line, REFERENCE ? "40 tokens\n" : "300 tokens\n");
}

Test(selftest_command, holds_on_every_reference_model) {
    static const struct {
        const char *name;
        int held;
    } MODELS[] = {{"llama-tied", 12},
                  {"llama-untied", 12},
                  {"llama-rope-llama3", 12},
                  {"qwen2", 12},
                  {"mistral-window8", 12},
                  {"qwen3", 12},
                  {"qwen3-bf16", 12},
                  {"gemma3", 12},
                  {"gemma3-bf16", 12},
                  {"olmo2", 12},
                  {"smollm3", 12},
                  {"phi3", 12},
                  {"nanochat", 12},
                  {"gpt2", 8},
                  {"gemma2", 12},
                  {"granite", 12},
                  {"gpt_neox", 11},
                  {"hunyuan_v1_dense", 12},
                  {"exaone4", 12},
                  {"ernie4_5", 12}};
    for (size_t i = 0; i < sizeof MODELS / sizeof *MODELS; i++) {
        char line[600];
        snprintf(line, sizeof line, "%s%s", test_reference_model(MODELS[i].name),
                 i % 2 ? "|--precision|f32" : "");
        check_says(line, verdicts(MODELS[i].held));
    }
}

// Random weights in block formats. Needs no other file.
Test(selftest_command, holds_on_a_random_model) {
    static const char *const TYPES[] = {"Q4_K", "Q6_K", "F16"};
    for (int i = 0; i < 3; i++) {
        char path[600];
        snprintf(path, sizeof path, "%s", test_temporary("random.gguf"));
        const char *argv[] = {TEST_BUILD "/tests/random_model",
                              "--dim",
                              "256",
                              "--hidden",
                              "512",
                              "--layers",
                              "2",
                              "--heads",
                              "6",
                              "--kv-heads",
                              "2",
                              "--head-dim",
                              "64",
                              "--vocab",
                              "300",
                              "--ctx",
                              "48",
                              "--type",
                              TYPES[i],
                              path,
                              NULL};
        TestRun made = test_run(argv, NULL, 0);
        CHECK(made.status == 0, "%s", made.err);
        test_run_free(&made);
        check_says(path, verdicts(12));
    }
}

Test(selftest_command, prints_what_it_compared) {
    TestRun r = program("selftest|%s|-i|%s", small_model(), "Once upon a time there was a dog.");
    CHECK(strstr(r.out, "\nheld            cached = uncached "), "%s", r.out);
    CHECK(strstr(r.out, "same bits"), "%s", r.out);
    CHECK(strstr(r.out, ", bound "), "%s", r.out);
    int lines = 0;
    for (const char *c = r.out; *c; c++)
        lines += *c == '\n';
    CHECK_INT(lines, 14); // what was run, twelve checks, the count
    test_run_free(&r);
}

Test(selftest_command, refuses_prompts_that_it_cannot_use) {
    static const struct {
        const char *words, *because;
    } CASES[] = {
        {"--prompt-ids|1,2,3", "the prompt has 3 tokens, wanted 4 .. 341"},
        {"--prompt-ids|1,2,3,2048", "2048"},
        {"--prompt-ids|1,2,x,4", "no token id"},
        {"-i|", "tokens, wanted 4"},
        {"-i|a|--prompt-ids|1,2,3,4", "one of -i, -f and --prompt-ids"},
        {"-n|5", "not an option of this command"},
        {"--precision|f64", "f32|a16|a8"},
        {"-j|1,2", "one number of threads"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        TestRun r = program("selftest|%s|%s", small_model(), CASES[i].words);
        check_refused(&r, ERROR_USAGE, CASES[i].because);
    }
    char ids[4000] = "--prompt-ids|1";
    for (int i = 0; i < 341; i++)
        strcat(ids, ",7");
    TestRun r = program("selftest|%s|%s", small_model(), ids);
    check_refused(&r, ERROR_USAGE, "the prompt has 342 tokens, wanted 4 .. 341");
    r = program("selftest|%s", "Makefile");
    check_refused(&r, ERROR_FILE, "Makefile");
}

// It does not wait for standard input.
Test(selftest_command, reads_no_standard_input) {
    char line[600];
    snprintf(line, sizeof line, "selftest|%s|-q", small_model());
    TestRun r = program_input(line, "x", 1);
    check_status(&r, 0);
    CHECK(strstr(r.out, "24 tokens"), "%s", r.out);
    test_run_free(&r);
}

// A tiny file with all weights set to one value.
static const char *constant_model(float value, int32_t seq_len) {
    BinShape shape = bin_shape_tiny(0, false);
    size_t size;
    shape.seq_len = seq_len;
    char *bin = bin_bytes(&size, &shape, 7);
    for (size_t at = 28; at + 4 <= size; at += 4)
        memcpy(bin + at, &value, 4);
    const char *path = test_temporary("constant.bin");
    test_write_file(path, bin, size);
    free(bin);
    return path;
}

Test(selftest_command, nan_is_exit_7_and_zeros_are_accepted) {
    TestRun r = program("selftest|%s", constant_model(NAN, 12));
    check_refused(&r, ERROR_NONFINITE, "constant.bin: ");
    r = program("selftest|%s", constant_model(0, 12));
    check_status(&r, 0);
    CHECK(strstr(r.out, " 0 failed"), "%s", r.out);
    test_run_free(&r);
    r = program("selftest|%s", constant_model(0, 5));
    check_refused(&r, ERROR_FILE, "constant.bin: a context of 5 is too short");
}

// ---- --golden ----

// "9 of 9 have the bits", from the backend that promises it; another one says that it does not.
static void check_golden(const char *model) {
    TestRun r = program("selftest|--golden|%s", model);
    CHECK(r.status == 0, "%s: exit %d: %s%s", model, r.status, r.out, r.err);
    if (REFERENCE)
        CHECK(strstr(r.out, "this one computes in another order"), "%s: %s", model, r.out);
    else
        CHECK(strstr(r.out, ": 9 of 9 have the bits of the table, 9 the text\n"), "%s: %s", model,
              r.out);
    test_run_free(&r);
}

Test(selftest_golden, built_in_model_has_the_bits_of_the_table) {
    need_builtin();
    check_golden("builtin");
}

Test(selftest_golden, public_file_has_them_from_its_path) {
    const char *path = public_model();
    check_golden(path);
}

// A text that a full disk ended is no other text.
// Its texts have to fit: with the name of the file that is too small.
Test(selftest_golden, refuses_a_model_of_too_short_a_context) {
    GgufFile *file = gguf_tiny_llama();
    gguf_set_u32(file, "llama.context_length", 40);
    const char *path = conversion_gguf("short.gguf", file);
    TestRun r = program("selftest|--golden|%s", path);
    check_status(&r, ERROR_FILE);
    CHECK(strstr(r.err,
                 test_text("%s: a context of 40 is too short: prompt 3 and its text have ", path)),
          "%s", r.err);
    test_run_free(&r);
}

Test(selftest_golden, full_output_is_no_verdict) {
    need_builtin();
    TestRun r = program_shell("$RUN selftest --golden > /dev/full");
    check_status(&r, 4);
    CHECK(strstr(r.err, "standard output"), "%s", r.err);
    test_run_free(&r);
}

Test(selftest_golden, page_takes_nothing_that_it_ignores) {
    static const char *const OPTIONS[] = {"--json", "-z|/nonexistent", "-j|3"};
    for (size_t i = 0; i < 3; i++) {
        TestRun r = program("selftest|--golden|--markdown|%s", OPTIONS[i]);
        check_status(&r, 2);
        test_run_free(&r);
    }
}

Test(selftest_golden, a_file_that_is_not_there_is_named) {
    TestRun r = program("selftest|--golden|/nonexistent.gguf");
    check_refused(&r, ERROR_IO, "/nonexistent.gguf: cannot open it");
}

Test(selftest_golden, large_models_have_the_bits_of_the_table) {
    if (REFERENCE) SKIP("plain loops take minutes");
    check_golden(test_model_file("SmolLM2-135M-Instruct.Q4_1.gguf"));
    check_golden(test_model_file("gemma-3-270m-Q4_K_M.gguf"));
}

Test(selftest_golden, instruction_sets_and_threads_change_no_bit) {
    if (REFERENCE) SKIP("it has no instruction sets");
    if (TEST_SANITIZED) SKIP("portable C takes seconds a token with sanitizers");
    need_builtin();
    TestRun r = program_shell("LIMPID_ISA=portable $RUN selftest --golden -j 3 | tail -n 1");
    CHECK(strstr(r.out, "portable (plain C): 9 of 9 have the bits"), "%s%s", r.out, r.err);
    test_run_free(&r);
}

// coreutils' sha256sum is the other opinion.
Test(selftest_golden, file_without_a_row_is_named_with_its_sum) {
    TestRun r =
        program_shell("F=$(mktemp -d)/other.gguf && $RUN convert $MODEL $F --type f16 -q && "
                      "S=$(sha256sum $F | cut -d' ' -f1) && $RUN selftest --golden $F; "
                      "echo \"status $?, sha256 $S\"; rm -r ${F%/*}");
    const char *sum = strstr(r.out, "status 1, sha256 ");
    CHECK(sum && strlen(sum) > 70, "%s%s", r.out, r.err);
    CHECK(strstr(r.out, "computed   prompt 1  f32  logits "), "%s", r.out);
    CHECK(strstr(r.err, "not in the table of docs/golden.md"), "%s", r.err);
    CHECK(strstr(r.err, test_text("sha256 %.64s\n", sum + strlen("status 1, sha256 "))), "%s%s",
          r.out, r.err);
    test_run_free(&r);
}

Test(selftest_golden, page_is_printed_from_the_table) {
    TestRun r = program("selftest|--golden|--markdown");
    size_t size;
    char *page = test_read_file("docs/golden.md", &size);
    CHECK_STRING(r.out, page);
    free(page);
    test_run_free(&r);
}

Test(selftest_golden, refuses_what_would_change_its_numbers) {
    static const char *const LINES[][2] = {{"--precision|a8", "leave out --precision"},
                                           {"--kv|f32", "leave out --kv"},
                                           {"-i|Hello", "leave out --prompt"},
                                           {"tests", "tests is a directory"}};
    for (size_t i = 0; i < sizeof LINES / sizeof *LINES; i++) {
        TestRun r = program("selftest|--golden|%s", LINES[i][0]);
        check_refused(&r, ERROR_USAGE, LINES[i][1]);
    }
    TestRun r = program("selftest|--markdown");
    check_refused(&r, ERROR_USAGE, "--markdown with --golden alone");
}
