// cost: its numbers agree with each other, with what bench reports and with what a run counts; what
// --max-memory says fits is the longest that does; its refusals are one line.
#include "base/error.h"
#include "tests/support/program.h"

#include <unistd.h>

static double number(const char *json, const char *key) {
    char text[4000];
    return atof(json_value(text, json, key));
}

static TestRun cost(const char *model, const char *options) {
    TestRun r = program("cost|%s|--json|--machine|a100|-j|1|%s", model, options);
    CHECK(r.status == 0 && r.err_size == 0, "%s %s: %s", model, options, r.err);
    return r;
}

// The sum of a key over the operations of one kind of work.
static double sum(const char *json, const char *work, const char *key) {
    char mark[40], wanted[40];
    double total = 0;
    snprintf(mark, sizeof mark, "{\"work\":\"%s\"", work);
    snprintf(wanted, sizeof wanted, "\"%s\":", key);
    for (const char *at = json; (at = strstr(at, mark)); at++)
        total += atof(strstr(at, wanted) + strlen(wanted));
    return total;
}

Test(cost, totals_are_the_sums_of_operations) {
    TestRun r = cost(small_model(), "--seq|100|--batch|3");
    CHECK_NEAR(sum(r.out, "decode", "flops") / 3, number(r.out, "flops_per_token"), 1e-3);
    CHECK_NEAR(sum(r.out, "decode", "weight_bytes") / 3, number(r.out, "weight_bytes_per_token"),
               1e-3);
    CHECK_NEAR(sum(r.out, "decode", "kv_bytes") / 3, number(r.out, "kv_read_bytes_per_token"),
               1e-3);
    CHECK_NEAR(sum(r.out, "prompt", "flops") / 300, number(r.out, "prompt_flops_per_token"), 1e-3);
    CHECK_NEAR(number(r.out, "kv_bytes"), 300 * number(r.out, "kv_bytes_per_token"), 0);
    double memory = 0;
    static const char *const PARTS[] = {"weights",    "cache", "scratch", "rope",
                                        "operations", "host",  "file"};
    const char *at = strstr(r.out, "\"memory\":{");
    for (int i = 0; i < 7; i++)
        memory += number(at, PARTS[i]);
    CHECK_NEAR(memory, number(r.out, "peak_memory_bytes"), 0);
    test_run_free(&r);
}

// One function counts for both.
Test(cost, bench_reports_the_same_bytes_per_token) {
    if (TEST_EMULATED) SKIP("an emulator takes too long for bench");
    TestRun r = cost(small_model(), "--seq|10");
    double bytes =
        number(r.out, "weight_bytes_per_token") + number(r.out, "kv_read_bytes_per_token");
    test_run_free(&r);
    r = program("bench|%s|--json|--only|decode|--gen|1|--depth|9|--no-limits|-r|1|-j|1|-q",
                small_model());
    check_status(&r, 0);
    const char *decode = strstr(r.out, "\"decode\":{");
    CHECK(decode, "%s", r.out);
    CHECK_NEAR(number(decode, "bytes_per_token"), bytes, 0);
    test_run_free(&r);
}

static const char GPT2[] =
    "{\"model_type\":\"gpt2\",\"n_embd\":768,\"n_layer\":12,\"n_head\":12,\"vocab_size\":50257,"
    "\"n_positions\":1024}";

Test(cost, a_config_and_the_preset_of_the_same_sizes_agree) {
    const char *path = test_temporary("gpt2.json");
    test_write_file(path, GPT2, sizeof GPT2 - 1);
    TestRun a = cost("gpt2", "--seq|1000"), b = cost(path, "--seq|1000");
    CHECK_STRING(strstr(a.out, "\"family\""), strstr(b.out, "\"family\""));
    CHECK(strstr(a.out, "\"parameters\":124439808,"), "%.200s", a.out);
    CHECK(strstr(a.out, "\"kv_bytes_per_token\":36864,"), "%.600s", a.out);
    test_run_free(&a);
    test_run_free(&b);
}

// A file's own type, given by name, changes nothing; a wider one does.
Test(cost, types_are_those_that_convert_writes) {
    const char *gguf = test_temporary("f16.gguf");
    TestRun r = program("convert|%s|%s|--type|f16|-q", small_model(), gguf);
    check_status(&r, 0);
    test_run_free(&r);
    TestRun a = cost(gguf, "--seq|64"), b = cost(small_model(), "--seq|64|--type|f16");
    CHECK_STRING(strstr(a.out, "\"parameters\""), strstr(b.out, "\"parameters\""));
    test_run_free(&a);
    test_run_free(&b);
}

// ---- what fits ----

static double peak(int seq) {
    char options[60];
    snprintf(options, sizeof options, "--seq|%d", seq);
    TestRun r = cost("smollm2-135m", options);
    double bytes = number(r.out, "peak_memory_bytes");
    test_run_free(&r);
    return bytes;
}

Test(cost, the_longest_context_is_the_last_that_fits) {
    TestRun r = program("cost|smollm2-135m|--max-memory|450M|-j|1");
    check_status(&r, 0);
    int f32 = 0, f16 = 0;
    const char *line = strstr(r.out, "\nas stored");
    CHECK(line && sscanf(line, " as stored %*f %d %d", &f32, &f16) == 2, "%s", r.out);
    CHECK(f16 > f32 && f32 > 100 && f16 < 8192, "%d, %d", f32, f16);
    CHECK(peak(f16) <= 450 * 0x1p20, "%g", peak(f16));
    CHECK(peak(f16 + 1) > 450 * 0x1p20, "%g", peak(f16 + 1));
    test_run_free(&r);
    r = program("cost|smollm2-135m|--max-memory|100M|-j|1");
    check_status(&r, 0);
    CHECK(strstr(r.out, "fit in none of these types"), "%s", r.out);
    test_run_free(&r);
}

// ---- tables ----

// Attention block: 8 d^2 S against 4 d S (S + 1) / 2, equal from S = 4 d - 1 on.
Test(cost, the_crossover_is_where_the_formulas_meet) {
    TestRun r = program("cost|llama-7b|--sweep|--seq|64|-j|1");
    check_status(&r, 0);
    CHECK(strstr(r.out, "wq, wk, wv and wo from 16383 tokens on"), "%s", r.out);
    test_run_free(&r);
    // 15 of 18 layers see at most 512 keys, the others let attention grow.
    r = program("cost|mistral-7b|--sweep|--seq|64|-j|1");
    CHECK(strstr(r.out, "never take as many FLOPs as all matrices"), "%s", r.out);
    test_run_free(&r);
}

Test(cost, the_sweep_is_csv_and_pictures_too) {
    const char *svg = test_temporary("sweep.svg");
    TestRun r = program("cost|gpt2|--sweep|--csv|--seq|100|--svg|%s|-j|1", svg);
    check_status(&r, 0);
    CHECK(
        !strncmp(r.out, "tokens,flops,projection_flops,attention_flops,ffn_flops,head_flops,", 67),
        "%s", r.out);
    double tokens = 0, all = 0, parts[4];
    int lines = 0, length;
    for (const char *at = strchr(r.out, '\n') + 1;
         sscanf(at, "%lf,%lf,%lf,%lf,%lf,%lf,%*f,%*f\n%n", &tokens, &all, &parts[0], &parts[1],
                &parts[2], &parts[3], &length) == 6;
         at += length, lines++)
        CHECK_NEAR(parts[0] + parts[1] + parts[2] + parts[3], all, 0);
    CHECK_INT(lines, 8); // 1 .. 64, 100
    CHECK_INT(tokens, 100);
    size_t size;
    char *text = test_read_file(svg, &size);
    CHECK(!strncmp(text, "<svg", 4) || !strncmp(text, "<?xml", 5), "%.40s", text);
    CHECK(strstr(text, "scores, values"), "%.400s", text);
    free(text);
    test_run_free(&r);
    r = program("cost|gpt2|--sweep|--svg|%s|-j|1", svg);
    check_refused(&r, ERROR_USAGE, "--force");
}

Test(cost, savings_and_intensities_are_the_known_ones) {
    static const char *const SAVED[] = {"      10           55           10      5.5",
                                        "      50         1275           50     25.5",
                                        "     500       125250          500    250.5",
                                        "MHA          32         32",
                                        "MQA          32          1",
                                        "50.00 %"};
    TestRun r = program("cost|llama-7b|--savings|-j|1");
    check_status(&r, 0);
    for (size_t i = 0; i < sizeof SAVED / sizeof *SAVED; i++)
        CHECK(strstr(r.out, SAVED[i]), "no \"%s\" in %s", SAVED[i], r.out);
    test_run_free(&r);
    static const char *const INTENSITIES[] = {
        "     1       0.9995 M       0.4981 M       0.4981 M",
        "   256     227.5556 C      64.0000 M      64.0000 M",
        "  4096    1365.3333 C     120.4706 M     120.4706 M"};
    r = program("cost|llama-7b|--intensity|--machine|a100|-j|1");
    check_status(&r, 0);
    for (int i = 0; i < 3; i++)
        CHECK(strstr(r.out, INTENSITIES[i]), "no \"%s\" in %s", INTENSITIES[i], r.out);
    test_run_free(&r);
}

Test(cost, prints_for_people) {
    TestRun r = program("cost|gemma3-270m|--machine|h200|-j|1");
    check_status(&r, 0);
    static const char *const TEXTS[] = {
        "scores, window 512", "values ", "memory-bound: at 4800 GB/s",
        "one more token: the last of 2048", "a prompt of 2048 tokens"};
    for (size_t i = 0; i < sizeof TEXTS / sizeof *TEXTS; i++)
        CHECK(strstr(r.out, TEXTS[i]), "no \"%s\" in %s", TEXTS[i], r.out);
    test_run_free(&r);
    r = program("cost|presets");
    check_status(&r, 0);
    CHECK(strstr(r.out, "gpt2-xl"), "%s", r.out);
    test_run_free(&r);
}

// Of operations, from the heading of a table to the empty line behind it.
Test(cost, tables_of_operations_fit_into_80_columns) {
    TestRun r = program("cost|gemma3-270m|--machine|h200|-j|1");
    check_status(&r, 0);
    int tables = 0;
    for (char *at = r.out; (at = strstr(at, "\noperation ")); tables++)
        for (at++; *at != '\n'; at += strcspn(at, "\n") + 1)
            CHECK(strcspn(at, "\n") <= 80, "%.*s", (int)strcspn(at, "\n"), at);
    CHECK_INT(tables, 2);
    test_run_free(&r);
}

// ---- predicted and counted ----

static void check_measure(const char *model, const char *options) {
    TestRun r = program("cost|%s|--measure|-q|%s", model, options);
    CHECK(r.status == 0, "%s: %s%s", model, r.out, r.err);
    CHECK(!strstr(r.out, "DIFFERENT"), "%s", r.out);
    int equal = 0;
    for (const char *at = r.out; (at = strstr(at, "  equal\n")); at++)
        equal++;
    CHECK_INT(equal, strcmp(TEST_BACKEND, "reference") ? 1 : 11);
    test_run_free(&r);
}

Test(cost, what_is_measured_is_what_was_predicted) {
    check_measure(small_model(), "-j|2");
    check_measure(small_model(), "--seq|2|--batch|3|--precision|f32");
    check_measure(small_model(), "--seq|40|--batch|2|--precision|a8|--kv|bf16");
}

// A fast backend counts only what it allocates.
Test(cost, what_was_not_counted_is_not_called_equal) {
    TestRun r = program("cost|%s|--measure|--json|-q", small_model());
    CHECK(r.status == 0, "%s", r.err);
    int wanted = strcmp(TEST_BACKEND, "reference") ? 10 : 0, null = 0;
    for (const char *at = r.out; (at = strstr(at, "\"counted\":null,\"equal\":null")); at++)
        null++;
    CHECK_INT(null, wanted);
    CHECK(!strstr(r.out, "null,\"equal\":true") && strstr(r.out, ",\"equal\":true"), "%s", r.out);
    test_run_free(&r);
}

Test(cost, three_families_measure_as_predicted) {
    static const char *const MODELS[] = {"llama-tied", "gpt2",      "gemma3", "nanochat",
                                         "olmo2",      "granite",   "gemma2", "gpt_neox",
                                         "arcee",      "ministral3"};
    for (int i = 0; i < EMULATED(3, 5); i++)
        check_measure(test_reference_model(MODELS[i]), "--seq|24");
}

Test(cost, what_is_measured_under_a_pattern_is_what_was_predicted) {
    check_measure(small_model(), "--seq|24|--pattern|local:6+global:2|--batch|2");
    check_measure(test_reference_model("gemma3"), "--seq|24|--pattern|strided:5+strided:3");
}

// 37 keys of 2001 (33 around the query, 4 in front), each 2 x 512 numbers of 2 bytes in 32 layers.
Test(cost, a_pattern_leaves_the_keys_that_it_shows) {
    TestRun r = cost("llama-7b", "--seq|2001|--pattern|local:64+global:4"),
            all = cost("llama-7b", "--seq|2001");
    CHECK_NEAR(number(r.out, "kv_read_bytes_per_token"), 37 * 524288.0, 0);
    CHECK_NEAR(number(r.out, "kv_bytes"), 37 * 524288.0, 0);
    CHECK_NEAR(number(r.out, "kv_bytes_per_token"), 524288, 0);
    CHECK_NEAR(number(all.out, "kv_read_bytes_per_token"), 2001 * 524288.0, 0);
    CHECK_NEAR(number(all.out, "flops_per_token") - number(r.out, "flops_per_token"),
               (2001 - 37) * 4.0 * 4096 * 32, 0);
    CHECK(strstr(r.out, "\"pattern\":\"local:64+global:4\"") && strstr(all.out, "\"pattern\":null"),
          "%.300s", r.out);
    test_run_free(&r);
    test_run_free(&all);
}

Test(cost, a_ridge_of_ones_own_decides_what_is_the_limit) {
    TestRun a = program("cost|llama-7b|--intensity|--ridge|100|-j|1");
    check_status(&a, 0);
    CHECK(strstr(a.out, "--ridge has 100:"), "%s", a.out);
    CHECK(strstr(a.out, "  1024     682.6667 C     102.4000 C"), "%s", a.out);
    test_run_free(&a);
    a = program("cost|llama-7b|--ridge|1e6|-j|1");
    check_status(&a, 0);
    CHECK(strstr(a.out, "; ridge 1e+06 FLOP/byte, as given\n"), "%s", a.out);
    CHECK(!strstr(a.out, "  compute\n") && strstr(a.out, "  memory\n"), "%s", a.out);
    test_run_free(&a);
}

static const char EIGHT_HEADS[] =
    "{\"model_type\":\"llama\",\"hidden_size\":256,\"intermediate_size\":512,"
    "\"num_hidden_layers\":1,\"num_attention_heads\":8,\"num_key_value_heads\":8,"
    "\"vocab_size\":64,\"max_position_embeddings\":128}";

// The table of a popular lecture says -25, -50 and -75 %, which is neither column.
Test(cost, shared_heads_save_a_part_of_the_weights_and_more_of_the_cache) {
    static const char *const LINES[] = {
        "MHA           8          8             262144   0.00 %         131072   0.00 %",
        "GQA           8          4             196608  25.00 %          65536  50.00 %",
        "GQA           8          2             163840  37.50 %          32768  75.00 %",
        "MQA           8          1             147456  43.75 %          16384  87.50 %"};
    const char *path = test_temporary("eight.json");
    test_write_file(path, EIGHT_HEADS, sizeof EIGHT_HEADS - 1);
    TestRun r = program("cost|%s|--savings|-j|1", path);
    check_status(&r, 0);
    for (int i = 0; i < 4; i++)
        CHECK(strstr(r.out, LINES[i]), "no \"%s\" in %s", LINES[i], r.out);
    test_run_free(&r);
}

// ---- refusals ----

Test(cost, refuses_what_it_cannot_do) {
    static const struct {
        const char *model, *options, *because;
        int status;
    } CASES[] = {
        {"gpt2", "--seq|0", "--seq: got \"0\"", ERROR_USAGE},
        {"gpt2", "--seq|4194305", "--seq: got", ERROR_USAGE},
        {"gpt2", "--seq|2000", "the model has 1024 learned positions", ERROR_USAGE},
        {"gpt2", "--measure", "a file with weights", ERROR_USAGE},
        {"gpt2", "--csv", "--csv: the whole report does not use it", ERROR_USAGE},
        {"gpt2", "--sweep|--savings", "at a time", ERROR_USAGE},
        {"gpt2", "--ridge|0", "--ridge: got \"0\"", ERROR_USAGE},
        {"gpt2", "--ridge|156|--machine|a100", "one of --ridge and --machine", ERROR_USAGE},
        {"gpt2", "--ridge|156|--sweep", "--ridge: --sweep does not use it", ERROR_USAGE},
        {"builtin", "--measure|--type|f32", "without --type", ERROR_USAGE},
        {"gpt2", "--savings|--batch|3", "--batch: --savings does not", ERROR_USAGE},
        {"gpt2", "--intensity|--seq|3", "--seq: --intensity does not", ERROR_USAGE},
        {"presets", "--json", "--json: presets does not", ERROR_USAGE},
        {"presets", "--sweep", "none with presets", ERROR_USAGE},
        {"gpt2", "--pattern|local:4|--savings", "--pattern: --savings does not", ERROR_USAGE},
        {"gpt2", "--pattern|locale:4", "none of causal", ERROR_USAGE},
        {"gpt2", "--max-memory|4X", "wanted bytes", ERROR_USAGE},
        {"smollm2-135m", "--max-memory|4G|--seq|9000|-q", "the model's context is 8192",
         ERROR_USAGE},
        {"gpt2", "--ranks|3|--layers-per-rank|6,6", "--layers-per-rank is of 2", ERROR_USAGE},
        {"gpt2", "--max-memory|G", "wanted bytes", ERROR_USAGE},
        {"gpt2", "--max-memory|-1", "wanted bytes", ERROR_USAGE},
        {"no-such-model", "-q", "no-such-model", ERROR_IO},
        {"no-such-config.json", "-q", "no-such-config.json", ERROR_IO},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        TestRun r = program("cost|%s|%s", CASES[i].model, CASES[i].options);
        check_refused(&r, CASES[i].status, CASES[i].because);
    }
}

// The largest sizes of a config.json, in a second and without a crash.
Test(cost, huge_configs_are_only_numbers) {
    static const char HUGE_CONFIG[] =
        "{\"model_type\":\"llama\",\"hidden_size\":65536,\"intermediate_size\":65536,"
        "\"num_hidden_layers\":1024,\"num_attention_heads\":1024,\"num_key_value_heads\":1024,"
        "\"vocab_size\":4194304,\"max_position_embeddings\":4194304}";
    const char *path = test_temporary("huge.json");
    test_write_file(path, HUGE_CONFIG, sizeof HUGE_CONFIG - 1);
    TestRun r = cost(path, "--seq|4194304|--batch|1024");
    CHECK(number(r.out, "peak_memory_bytes") > 1e18, "%.900s", r.out);
    CHECK(number(r.out, "flops_per_token") > 1e13, "%.900s", r.out);
    test_run_free(&r);
    r = program("cost|%s|--max-memory|4G|-j|1|-q", path);
    check_status(&r, 0);
    CHECK(strstr(r.out, "fit in none"), "%s", r.out);
    test_run_free(&r);
    test_write_file(path, "[1]", 3);
    r = program("cost|%s", path);
    check_refused(&r, ERROR_FILE, "wanted an object");
    test_write_file(path, "{\"model_type\":\"llama\",\"hidden_size\":-1}", 39);
    r = program("cost|%s", path);
    check_refused(&r, ERROR_FILE, "hidden_size");
}
