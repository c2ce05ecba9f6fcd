// The program as a child process: commands other than generate, --help, and wrong command lines.
#include "base/error.h"
#include "commands/inspect/inspect.h"
#include "tests/support/files/gguf_writer.h"
#include "tests/support/program.h"

// Of one model alone a directory is as good as the file.
Test(other_commands, a_directory_with_one_model_is_that_model) {
    TestRun r = program_shell(test_text("D=%s; mkdir -p $D && cp $MODEL $D/m.gguf && "
                                        "for M in $MODEL $D; do $RUN tokenize $M -i 'Once upon'; "
                                        "$RUN tokenize -z $M -i 'Once upon'; "
                                        "$RUN $M -i Once -t 0 --max-tokens 4 -q; done",
                                        test_temporary("one")));
    check_status(&r, 0);
    size_t half = r.out_size / 2;
    CHECK(half > 20 && !memcmp(r.out, r.out + half, half) && r.out_size == 2 * half, "%s", r.out);
    test_run_free(&r);
}

Test(other_commands, tokenize_and_back) {
    TestRun r = program("tokenize|-z|%s|-i|%s", small_model(), "Once upon");
    CHECK_STRING(r.out, "435 462\n");
    test_run_free(&r);
    r = program("tokenize|%s|--bos|-i|%s", small_model(), "Once upon");
    CHECK_STRING(r.out, "1 435 462\n");
    test_run_free(&r);
    r = program("tokenize|-z|%s|--decode|-i|%s", small_model(), "1 435 462");
    CHECK_STRING(r.out, "Once upon");
    test_run_free(&r);
    char line[600];
    snprintf(line, sizeof line, "tokenize|%s|--lines", small_model());
    r = program_input(line, "Once\n\nupon", 10);
    CHECK_STRING(r.out, "435\n\n462\n");
    test_run_free(&r);
    r = program("tokenize|%s|--decode|-i|%s", small_model(), "1 99999");
    check_status(&r, 2);
    test_run_free(&r);
}

Test(other_commands, inspect_says_what_is_there) {
    TestRun r = program("inspect|%s|--json", small_model());
    check_status(&r, 0);
    char value[4000];
    CHECK_STRING(json_value(value, r.out, "container"), "\"GGUF v3\"");
    CHECK_STRING(json_value(value, r.out, "n_layers"), "6");
    CHECK_STRING(json_value(value, r.out, "dim"), "192");
    CHECK_STRING(json_value(value, r.out, "n_kv_heads"), "2");
    test_run_free(&r);
    r = program("inspect|%s|--all", small_model());
    CHECK(strstr(r.out, "blk.5.ffn_down.weight"), "%s", r.out);
    test_run_free(&r);
    r = program("inspect|%s", small_model());
    CHECK(strstr(r.out, "\nblk.0-5 ") && strstr(r.out, "6 equal layers") &&
              !strstr(r.out, "blk.5.ffn_down.weight"),
          "%s", r.out);
    test_run_free(&r);
}

static void check_inspected(const char *model, const char *line, const char *json) {
    TestRun r = program("inspect|%s|--all", test_reference_model(model));
    if (strstr(r.err, "it has no JSON")) SKIP("this build reads no safetensors");
    check_status(&r, 0);
    CHECK(strstr(r.out, line), "%s: %s", model, r.out);
    test_run_free(&r);
    r = program("inspect|%s|--json", test_reference_model(model));
    check_status(&r, 0);
    CHECK(strstr(r.out, json), "%s: %s", model, r.out);
    test_run_free(&r);
}

// What is multiplied, divided, bent or added elsewhere than usual; and where llama.cpp differs.
Test(other_commands, inspect_names_what_a_family_does_beside_the_usual) {
    check_inspected("granite", "\nresidual     blocks add 0.", "\"residual_scale\":0.");
    check_inspected("granite", "\nlogits       divided by ", "\"logit_divisor\":");
    check_inspected("gemma2", ", head tied to the embedding\n", "\"tied\":true");
    check_inspected("gpt_neox", ", head of its own\n", "\"tied\":false");
    check_inspected("granite", "\nembedding    times ", "\"embedding_scale\":");
    check_inspected("granite", "\nscores       times ", "\"attention_scale\":");
    check_inspected("gemma2", "\nscore cap    ", "\"score_softcap\":");
    check_inspected("ministral3", "\nqueries      times 1 + 0.", "\"query_growth\":0.");
    check_inspected("gpt_neox", "\nresidual     both blocks read the same input",
                    "\"parallel_residual\":true");
    check_inspected("gpt_neox", "llama.cpp has the tanh form of GELU",
                    "\"activation\":\"gelu (erf)\"");
}

// Of YaRN the factor of cos and sin, where it is not the formula's: 0.1 ln(8) + 1 = 1.20794.
Test(other_commands, inspect_names_a_yarn_factor_that_llama_cpp_leaves_out) {
    static const float FACTORS[] = {1.5f, 1.2079442f};
    for (int i = 0; i < 2; i++) {
        GgufFile *file = gguf_tiny_llama();
        gguf_set_text(file, "llama.rope.scaling.type", "yarn");
        gguf_set_f32(file, "llama.rope.scaling.factor", 8.0f);
        gguf_set_u32(file, "llama.rope.scaling.original_context_length", 16);
        gguf_set_f32(file, "llama.rope.scaling.yarn_attn_factor", FACTORS[i]);
        size_t size;
        uint8_t *bytes = gguf_write(file, &size);
        gguf_file_free(file);
        char *path = strdup(test_temporary("yarn.gguf"));
        test_write_file(path, bytes, size);
        free(bytes);
        TestRun r = program("inspect|%s", path);
        check_status(&r, 0);
        CHECK(strstr(r.out, "scaling yarn, 8 times 16 positions\n"), "%s", r.out);
        CHECK(!strstr(r.out, "cos and sin times 1.5") == (i == 1), "%s", r.out);
        test_run_free(&r);
        free(path);
    }
}

// The model's context is 512 tokens, so that --seq 512 is all of it.
Test(other_commands, inspect_and_cost_say_the_same_of_the_memory) {
    char cost[4000], value[4000], wanted[80];
    TestRun r = program("cost|%s|--seq|512|--ridge|1|--json|-q", small_model());
    check_status(&r, 0);
    json_value(cost, r.out, "peak_memory_bytes");
    TestRun other = program("inspect|%s|--json", small_model());
    CHECK_STRING(json_value(value, other.out, "peak_memory_bytes"), cost);
    json_value(cost, r.out, "kv_bytes_per_token");
    CHECK_STRING(json_value(value, other.out, "kv_bytes_per_token"), cost);
    test_run_free(&other);
    // 6 layers, keys and values, 2 heads of 32 channels, 2 bytes.
    snprintf(wanted, sizeof wanted, "2 for keys and values: %d bytes a token (f16)",
             6 * 2 * 2 * 32 * 2);
    other = program("inspect|%s", small_model());
    CHECK(strstr(other.out, wanted), "%s", other.out);
    test_run_free(&other);
    test_run_free(&r);
}

static TensorPlan planned(const char *name, DType dtype, uint64_t rows) {
    return (TensorPlan){
        .name = name, .dtype = dtype, .n_dims = 2, .shape = {rows, 32}, .bytes = rows};
}

// Layers 0, 1 and 3 have the same tensors, in another order; 2 another type, 4 another shape, 5
// another name. Tensors with another prefix, and outside layers, are shown alone.
Test(other_commands, inspect_shows_layers_that_are_equal_in_one_row) {
    const TensorPlan tensors[] = {
        planned("embd.weight", DTYPE_F16, 1), planned("blk.0.a", DTYPE_F16, 2),
        planned("blk.0.b", DTYPE_Q8_0, 4),    planned("blk.1.b", DTYPE_Q8_0, 4),
        planned("blk.1.a", DTYPE_F16, 2),     planned("blk.2.a", DTYPE_F32, 2),
        planned("blk.2.b", DTYPE_Q8_0, 4),    planned("blk.3.a", DTYPE_F16, 2),
        planned("blk.3.b", DTYPE_Q8_0, 4),    planned("blk.4.a", DTYPE_F16, 3),
        planned("blk.4.b", DTYPE_Q8_0, 4),    planned("blk.5.a", DTYPE_F16, 2),
        planned("blk.5.c", DTYPE_Q8_0, 4),    planned("v.blk.0.a", DTYPE_F16, 2),
        planned("blk.99999.a", DTYPE_F16, 2),
    };
    static const char *const ROWS[] = {"tensor", "embd.weight ", "blk.0-1,3 ", "blk.2 ",
                                       "blk.4 ", "blk.5 ",       "v.blk.0.a ", "blk.99999.a "};
    const char *path = test_temporary("table.txt");
    CHECK(freopen(path, "w", stdout));
    CHECK(inspect_print_tensors(tensors, sizeof tensors / sizeof *tensors, 24, NULL));
    fflush(stdout);
    size_t size = 0;
    char *text = test_read_file(path, &size), *rest = text, *line;
    text[size - 1] = '\0';
    CHECK_STRING(strsep(&rest, "\n"), "");
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        line = strsep(&rest, "\n");
        CHECK(line && !strncmp(line, ROWS[i], strlen(ROWS[i])), "row %zu: %s", i, line);
        if (i == 2) CHECK(strstr(line, " 18  3 equal layers, 2 tensors"), "%s", line);
    }
    CHECK(!rest, "%s", rest);
    free(text);
}

// ---- inspect --html ----

// Just after `text`, which is what comes next.
static const char *behind(const char *at, const char *text) {
    CHECK(!strncmp(at, text, strlen(text)), "wanted %s, got %.60s", text, at);
    return at + strlen(text);
}

static const char *check_entity(const char *at) {
    static const char *const KNOWN[] = {"&amp;", "&lt;", "&gt;", "&quot;"};
    for (size_t i = 0; i < sizeof KNOWN / sizeof *KNOWN; i++)
        if (!strncmp(at, KNOWN[i], strlen(KNOWN[i]))) return at + strlen(KNOWN[i]);
    CHECK(false, "a bare &: %.60s", at);
    return at;
}

// The attributes of a tag, up to its > or />.
static const char *check_attributes(const char *at) {
    for (;;) {
        at += strspn(at, " \n");
        if (*at == '>' || *at == '/') return at;
        at += strspn(at, "abcdefghijklmnopqrstuvwxyz-");
        at = behind(at, "=\"");
        while (*at != '"') {
            CHECK(*at && *at != '<', "an open attribute: %.60s", at);
            at = *at == '&' ? check_entity(at) : at + 1;
        }
        at++;
    }
}

// The page is well-formed: tags in pairs, attributes quoted, no bare < and &. Its scripts, counted,
// are the only places where text is not escaped, and have no < either.
static int check_well_formed(const char *at) {
    char open[20][16];
    int depth = 0, scripts = 0;
    for (at = behind(at, "<!DOCTYPE html>"); *at;) {
        size_t length = strcspn(at + 1 + (at[1] == '/'), " />\n");
        const char *name = at + 1 + (*at && at[1] == '/');
        if (*at == '&') {
            at = check_entity(at);
        } else if (*at != '<') {
            at++;
        } else if (at[1] == '/') {
            CHECK(depth && strlen(open[depth - 1]) == length &&
                      !strncmp(open[depth - 1], name, length),
                  "closes %.20s, not %s", name, depth ? open[depth - 1] : "anything");
            at = behind(name + length, ">");
            depth--;
        } else {
            CHECK(length && length < 16 && depth < 20, "no tag: %.60s", at);
            scripts += !strncmp(name, "script", length);
            snprintf(open[depth++], 16, "%.*s", (int)length, name);
            at = check_attributes(name + length);
            if (*at == '/') depth--, at++;
            at = behind(at, ">");
        }
    }
    CHECK_INT(depth, 0);
    return scripts;
}

static char *write_page(const char *model) {
    size_t size = 0;
    const char *path = test_temporary("page.html");
    TestRun r = program("inspect|%s|--html|%s|--force", model, path);
    check_status(&r, 0);
    CHECK_STRING(r.out, "");
    test_run_free(&r);
    char *page = test_read_file(path, &size);
    page = realloc(page, size + 1);
    page[size] = '\0';
    CHECK_INT(strlen(page), size);
    return page;
}

// Sums of the columns parameters and bytes are the totals of --json, and every tensor is there.
Test(other_commands, inspect_page_has_every_tensor_and_the_totals) {
    char value[4000];
    char *page = write_page(small_model());
    CHECK_INT(check_well_formed(page), 1);
    CHECK(!strstr(page, "http:") && !strstr(page, "https:") && !strstr(page, "src="), "fetches");
    unsigned long long sums[2] = {0}, rows = 0, number;
    const char *at = strstr(page, "<tbody>\n<tr><td class=\"n\"");
    CHECK(at, "no tensors");
    for (; (at = strstr(at, "<tr><td")); rows++) {
        CHECK(sscanf(at, "<tr><td class=\"n\" data-v=\"%llu\"", &number) == 1 && number == rows,
              "row %llu", rows);
        for (int i = 0; i < 2; i++) {
            at = strstr(at + 20, "data-v=\"");
            if (!i) at = strstr(at, "data-v=\"");
            sums[i] += strtoull(at + 8, NULL, 10);
        }
    }
    TestRun r = program("inspect|%s|--json", small_model());
    const char *totals = strstr(r.out, "\"totals\":");
    CHECK(totals, "%s", r.out);
    CHECK_INT(rows, atoll(strstr(totals, "\"tensors\":") + 10));
    CHECK_INT(sums[0], atoll(json_value(value, totals, "parameters")));
    CHECK_INT(sums[1], atoll(json_value(value, totals, "bytes")));
    CHECK(strstr(page, ">blk.5.ffn_down.weight<") && strstr(page, "theta 10000"), "%.400s", page);
    test_run_free(&r);
    free(page);
}

#define HOSTILE "</script></pre><script>alert(1)</script>\"'&amp;\x1b[2J\xe2\x80\xae\xff<b"
#define ESCAPED                                                                                    \
    "&lt;/script&gt;&lt;/pre&gt;&lt;script&gt;alert(1)&lt;/script&gt;&quot;'&amp;amp;"             \
    "\xef\xbf\xbd[2J\xef\xbf\xbd\xef\xbf\xbd&lt;b"

// Names and texts of a file become text of the page, whatever they are.
Test(other_commands, inspect_page_escapes_what_the_file_says) {
    GgufFile *file = gguf_tiny_llama();
    gguf_set_text(file, "general.license", HOSTILE);
    gguf_set_text(file, "general.author", HOSTILE);
    gguf_set_text(file, "tokenizer.chat_template", HOSTILE);
    gguf_add_tensor(file, "x<script>alert(2)&\"", DTYPE_F32, 4, 4);
    size_t size = 0;
    uint8_t *bytes = gguf_write(file, &size);
    gguf_file_free(file);
    const char *path = test_temporary("a<b>&.gguf");
    test_write_file(path, bytes, size);
    free(bytes);
    char *page = write_page(path);
    CHECK_INT(check_well_formed(page), 1);
    int found = 0;
    for (const char *at = page; (at = strstr(at, ESCAPED)); at++)
        found++;
    CHECK_INT(found, 3);
    CHECK(strstr(page, ">x&lt;script&gt;alert(2)&amp;&quot;<"), "the tensor's name");
    CHECK(strstr(page, "a&lt;b&gt;&amp;.gguf</title>"), "%.3000s", page);
    free(page);
}

Test(other_commands, inspect_page_replaces_no_file) {
    const char *path = test_temporary("page2.html");
    remove(path);
    TestRun r = program("inspect|%s|--html|%s", small_model(), path);
    check_status(&r, 0);
    test_run_free(&r);
    r = program("inspect|%s|--html|%s", small_model(), path);
    check_refused(&r, ERROR_USAGE, "--force");
    r = program("inspect|%s|--html|%s|--force", small_model(), small_model());
    check_refused(&r, ERROR_USAGE, "builtin");
    r = program("inspect|%s|--html|no/such/directory/page.html", small_model());
    check_refused(&r, ERROR_IO, "no/such");
}

// The mean nll of a text equals the mean over the lines of --logprobs.
Test(other_commands, perplexity_is_the_mean_of_the_log_probabilities) {
    const char *path = test_temporary("ids.txt");
    test_write_file(path, "1, 435, 462\n[262 410]", 21);
    TestRun r = program("perplexity|%s|--ids|%s|--json|-q", small_model(), path);
    check_status(&r, 0);
    char value[4000];
    CHECK_STRING(json_value(value, r.out, "tokens"), "4");
    double mean = strtod(json_value(value, r.out, "mean_nll"), NULL);
    double perplexity = strtod(json_value(value, r.out, "perplexity"), NULL);
    CHECK_STRING(json_value(value, r.out, "bits_per_byte"), "null");
    test_run_free(&r);
    CHECK_NEAR(perplexity, exp(mean), 1e-9 * perplexity);
    // Greedy text from BOS is "Once upon a time": each of the four was the likeliest.
    r = program("%s|--prompt-ids|1|-t|0|--max-tokens|4|--logprobs|0|-q", small_model());
    double sum = 0;
    const char *at = r.out;
    for (int i = 0; i < 4; i++) {
        at = strstr(at, "\"logprob\":");
        CHECK(at, "%s", r.out);
        sum -= strtod(at += 10, NULL);
    }
    test_run_free(&r);
    CHECK_NEAR(mean, sum / 4, 1e-6);
}

Test(other_commands, perplexity_scores_every_token_once_in_any_window) {
    const char *path = test_temporary("text.txt");
    static const char TEXT[] = "Once upon a time, there was a little girl named Lily. She loved to "
                               "play outside in the park. One day, she saw a big, red ball.";
    test_write_file(path, TEXT, sizeof TEXT - 1);
    static const char *const WAYS[] = {"", "|--window|7", "|--window|7|--stride|3", "|--window|1"};
    char value[4000], tokens[4000] = "";
    double whole = 0;
    for (int i = 0; i < 4; i++) {
        char line[600];
        snprintf(line, sizeof line, "perplexity|%s|-f|%s|--json|-q%s", small_model(), path,
                 WAYS[i]);
        TestRun r = program_input(line, NULL, 0);
        check_status(&r, 0);
        json_value(value, r.out, "tokens");
        if (i)
            CHECK_STRING(value, tokens);
        else
            snprintf(tokens, sizeof tokens, "%s", value);
        double mean = strtod(json_value(value, r.out, "mean_nll"), NULL);
        double bits = strtod(json_value(value, r.out, "bits_per_byte"), NULL);
        CHECK_NEAR(bits, mean * strtod(tokens, NULL) / log(2) / (sizeof TEXT - 1), 1e-9);
        if (!i)
            whole = mean;
        else
            CHECK(mean > whole, "window %s: %g, whole %g", WAYS[i], mean, whole);
        test_run_free(&r);
    }
}

// Nothing predicts the first token. Where it is no BOS, the bytes of the others are scored: of a
// model whose BOS is turned off, 19 of "Once upon a time, a dog", which begins with "Once".
Test(other_commands, bits_are_of_the_bytes_that_are_scored) {
    static const char KEY[] = "tokenizer.ggml.add_bos_token", TEXT[] = "Once upon a time, a dog";
    size_t size = 0, at = 0;
    char *model = test_read_file(small_model(), &size), value[4000];
    while (at + sizeof KEY < size && memcmp(model + at, KEY, sizeof KEY - 1) != 0)
        at++;
    CHECK(at + sizeof KEY + 4 < size && model[at + sizeof KEY + 3] == 1, "no %s", KEY);
    model[at + sizeof KEY + 3] = 0; // behind a type of four bytes
    const char *path = test_temporary("no-bos.gguf");
    test_write_file(path, model, size);
    free(model);
    char line[600];
    snprintf(line, sizeof line, "perplexity|%s|--json|-q", path);
    TestRun r = program_input(line, TEXT, sizeof TEXT - 1);
    check_status(&r, 0);
    double tokens = strtod(json_value(value, r.out, "tokens"), NULL);
    double mean = strtod(json_value(value, r.out, "mean_nll"), NULL);
    CHECK_NEAR(strtod(json_value(value, r.out, "bits_per_byte"), NULL), mean * tokens / log(2) / 19,
               1e-9);
    test_run_free(&r);
}

Test(other_commands, bench_json_has_the_figures_that_scripts_read) {
    TestRun r = program("bench|%s|--json|--no-limits|--pp|16|--gen|8|-r|1|--depth|0,8|--batch|1,2",
                        small_model());
    check_status(&r, 0);
    char value[4000];
    const char *prefill = strstr(r.out, "\"prefill\":{"), *decode = strstr(r.out, "\"decode\":{");
    CHECK(prefill && decode && prefill < decode, "%s", r.out);
    CHECK(strtod(json_value(value, prefill, "tokens_per_second"), NULL) > 0);
    CHECK(strtod(json_value(value, decode, "tokens_per_second"), NULL) > 0);
    int rows = 0;
    for (const char *at = strstr(r.out, "\"rows\":["); (at = strstr(at, "{\"kind\":")); at++)
        rows++;
    CHECK_INT(rows, 2 * 2 * 2); // prefill and decode, depths, batches
    test_run_free(&r);
    r = program("bench|%s|--csv|--no-limits|--gen|8|-r|1|--only|decode", small_model());
    CHECK(!strncmp(r.out, "kind,threads,length,", 20) && strstr(r.out, "\ndecode,"), "%s", r.out);
    CHECK(!strstr(r.out, "prefill"), "%s", r.out);
    test_run_free(&r);
    double flops[2]; // of a token of a prompt
    for (int all = 0; all < 2; all++) {
        r = program("bench|%s|--json|--no-limits|--only|prefill|--pp|16|-r|1%s", small_model(),
                    all ? "|--all-logits" : "");
        check_status(&r, 0);
        CHECK_STRING(json_value(value, r.out, "all_logits"), all ? "true" : "false");
        flops[all] = strtod(json_value(value, r.out, "gflop_per_second"), NULL) /
                     strtod(json_value(value, r.out, "tokens_per_second"), NULL);
        test_run_free(&r);
    }
    CHECK(flops[1] > flops[0], "%g %g", flops[0], flops[1]); // 15 more products with the head
    r = program("bench|%s|--only|decode|--pp|16", small_model());
    check_refused(&r, 2, "--only decode has no rows of --pp");
    r = program("bench|%s|--only|prefill|--gen|8", small_model());
    check_refused(&r, 2, "--only prefill has no rows of --gen");
    r = program("bench|%s|--only|decode|--all-logits", small_model());
    check_refused(&r, 2, "--all-logits needs rows of --pp");
    r = program("bench|--no-cache|--all-logits");
    check_refused(&r, 2, "--all-logits needs rows of --pp");
}

Test(other_commands, help_and_version_go_to_stdout) {
    TestRun r = program("--help");
    check_status(&r, 0);
    CHECK(strstr(r.out, "perplexity") && !r.err_size, "%s", r.out);
    test_run_free(&r);
    r = program("bench|--help");
    check_status(&r, 0);
    CHECK(strstr(r.out, "--depth"), "%s", r.out);
    test_run_free(&r);
    r = program("--version");
    CHECK(!strncmp(r.out, "limpid ", 7), "%s", r.out);
    test_run_free(&r);
    r = program("--limits");
    CHECK(strstr(r.out, "1024") && strstr(r.out, "layers"), "%s", r.out);
    test_run_free(&r);
}

// ---- wrong command lines ----

Test(other_commands, wrong_command_lines_are_one_line_and_exit_2) {
    static const struct {
        const char *words, *because;
    } CASES[] = {
        {"|-p|Once upon", "-p is top-p, as in llama2.c; the prompt is -i"},
        {"|-n|-1", "-n counts all tokens but the first"},
        {"|-n|1e3", "1e3"},
        {"|-n|", "\"\""},
        {"|-t|nan", "nan"},
        {"|-t|-1", "-1"},
        {"|--top-p|1.5", "1.5"},
        {"|--top-k|-1", "-1"},
        {"|-j|257", "0 .. 256"},
        {"|-s|18446744073709551616", "2^64-1"},
        {"|--bogus\x1b[2J", "\\x1b"},
        {"|-i", "wants a value"},
        {"|-n|1|-n|2", "twice"},
        {"|one|two", "too many"},
        {"|-i|a|-f|b", "one of"},
        {"|-c|9999999", "-c"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        TestRun r = program("%s%s", small_model(), CASES[i].words);
        check_refused(&r, ERROR_USAGE, CASES[i].because);
    }
}

// Standard input is the terminal too: nobody is waited for.
Test(other_commands, perplexity_on_a_terminal_asks_for_a_text) {
    TestRun r = program_terminal("perplexity");
    CHECK_INT(r.status, ERROR_USAGE);
    CHECK(strstr(r.out, "no text: it is -f FILE"), "%s", r.out);
    test_run_free(&r);
}

Test(other_commands, extremes_inside_the_range_work) {
    static const char *const WORDS[] = {"|-t|1e-45", "|--temp|1000000",          "|-p|0",
                                        "|-p|1",     "|--top-k|99999999",        "|-s|0",
                                        "|-j|256",   "|-s|18446744073709551615", "|--min-p|1"};
    for (size_t i = 0; i < sizeof WORDS / sizeof *WORDS; i++) {
        char more[100];
        snprintf(more, sizeof more, "|-n|4|-q%s", WORDS[i]);
        TestRun r = program("%s%s", small_model(), more);
        check_status(&r, 0);
        test_run_free(&r);
    }
}
