// inspect on a terminal of 24 lines and 80 columns: what is shown first, and what only --all shows.
#include "commands/inspect/inspect.h"
#include "tests/support/files/gguf_writer.h"
#include "tests/support/program.h"

// With the prompt below them they fit 24 lines.
enum { LINES = 23, COLUMNS = 80 };

static int count_lines(const char *text) {
    int lines = 0;
    for (const char *at = text, *end; *at; at = end + 1, lines++) {
        end = strchr(at, '\n');
        CHECK(end, "an unfinished line: %s", text);
        CHECK(end - at <= COLUMNS, "%.*s", (int)(end - at), at);
    }
    return lines;
}

// What a user looks for first is there, in few enough lines, none of which the terminal breaks.
static void check_fits(const char *model) {
    static const char *const WANTED[] = {"file  ",     "\ncontainer  ", "\nfamily  ",
                                         "\nlayers  ", "\nheads  ",     " bytes a token (f16)",
                                         "vocabulary", "context  ",     "tokenizer  ",
                                         "\nmemory  ", "\ntensor  ",    " parameters, "};
    TestRun r = program("inspect|%s", model);
    if (strstr(r.err, "it has no JSON")) SKIP("this build reads no safetensors");
    check_status(&r, 0);
    CHECK(count_lines(r.out) <= LINES, "%s", r.out);
    for (size_t i = 0; i < sizeof WANTED / sizeof *WANTED; i++)
        CHECK(strstr(r.out, WANTED[i]), "no \"%s\" in %s", WANTED[i], r.out);
    test_run_free(&r);
}

Test(inspect, of_the_builtin_model_fits_a_screen) {
    need_builtin();
    check_fits("builtin");
    TestRun r = program("inspect|builtin");
    CHECK(strstr(r.out, "\ndescription  Tells short stories ") &&
              strstr(r.out, "; license MIT\n") && !strstr(r.out, "Seen: "),
          "%s", r.out);
    test_run_free(&r);
    r = program("inspect|builtin|--all");
    CHECK(strstr(r.out, "cannot talk.\n             Trained by ") &&
              strstr(r.out, "             Seen: ") && strstr(r.out, "\nlicense      MIT\n"),
          "%s", r.out);
    test_run_free(&r);
}

Test(inspect, of_every_family_fits_a_screen) {
    static const char *const MODELS[] = {"llama-untied",    "llama-rope-llama3",
                                         "mistral-window8", "qwen2",
                                         "qwen3",           "gemma2",
                                         "gemma3",          "gpt2",
                                         "gpt_neox",        "phi3",
                                         "smollm3",         "olmo2",
                                         "olmo3",           "granite",
                                         "ministral3",      "exaone4"};
    for (size_t i = 0; i < sizeof MODELS / sizeof *MODELS; i++)
        check_fits(test_reference_model(MODELS[i]));
}

// ---- texts of the file ----

static const char *written(GgufFile *file) {
    size_t size = 0;
    uint8_t *bytes = gguf_write(file, &size);
    gguf_file_free(file);
    const char *path = test_temporary("screen.gguf");
    test_write_file(path, bytes, size);
    free(bytes);
    return path;
}

// Rows that belong together share a line where they fit; an author's text is cut, a warning is not.
Test(inspect, joins_short_rows_and_cuts_long_texts) {
    GgufFile *file = gguf_tiny_llama();
    gguf_set_text(file, "general.description", "One line.\nAnother line.");
    gguf_set_text(file, "general.author", test_text("%0200d", 1));
    gguf_set_text(file, "general.license", "a license of so many words that no room is left");
    gguf_add_tensor(file, test_text("%063d", 2), DTYPE_F32, 4, 4);
    const char *path = written(file);
    TestRun r = program("inspect|%s", path);
    check_status(&r, 0);
    CHECK(count_lines(r.out) <= LINES, "%s", r.out);
    CHECK(strstr(r.out, "\nnorm         rms, eps 1e-05; QK norm none; activation silu, gated\n"),
          "%s", r.out);
    CHECK(strstr(r.out, "\ndescription  One line....\n") && !strstr(r.out, "Another"), "%s", r.out);
    CHECK(strstr(r.out, "00000...\n"), "%s", r.out);
    CHECK(strstr(r.out, "\nwarning      1 tensors are not used, the first is\n             0000"),
          "%s", r.out);
    CHECK(strstr(r.out, "0002\n"), "%s", r.out);
    test_run_free(&r);
    r = program("inspect|%s|--all", path);
    CHECK(strstr(r.out, "\nactivation   silu, gated\n") &&
              strstr(r.out, "\ndescription  One line.\n             Another line.\n") &&
              strstr(r.out, "0001\n"),
          "%s", r.out);
    test_run_free(&r);
}

// Of a license of several lines the first, also behind the family.
Test(inspect, cuts_a_license_to_its_first_line) {
    GgufFile *file = gguf_tiny_llama();
    gguf_set_text(file, "general.license", "MIT\nas of 2020");
    TestRun r = program("inspect|%s", written(file));
    CHECK(strstr(r.out, "; license MIT...\n") && !strstr(r.out, "2020"), "%s", r.out);
    test_run_free(&r);
}

// A note on standard error of every command that reads text by it; of inspect a line of the report.
Test(inspect, says_that_a_file_does_not_say_how_text_is_split) {
    static const char *const TOKENS[] = {"<unk>", "<s>", "</s>", "a", "b", "c", "ab", "d"};
    static const int32_t TYPES[] = {3, 3, 3, 1, 1, 1, 1, 1};
    static const char SPLIT[] = "does not say how text is split";
    for (int says = 0; says < 2; says++) {
        GgufFile *file = gguf_tiny_llama();
        gguf_set_text(file, "tokenizer.ggml.model", "gpt2");
        gguf_set_strings(file, "tokenizer.ggml.tokens", TOKENS, 8);
        gguf_set_array(file, "tokenizer.ggml.token_type", GGUF_I32, TYPES, 8);
        gguf_set_strings(file, "tokenizer.ggml.merges", (const char *const[]){"a b"}, 1);
        if (says) gguf_set_text(file, "tokenizer.ggml.pre", "smollm");
        const char *path = written(file);
        TestRun r = program("inspect|%s", path);
        check_status(&r, 0);
        if (strstr(r.out, "no PCRE2")) SKIP("this build splits no text");
        CHECK((strstr(r.out, SPLIT) != NULL) == !says, "%s", r.out);
        CHECK_STRING(r.err, "");
        test_run_free(&r);
        r = program("generate|%s|-i|a|-n|2|-t|0", path);
        check_status(&r, 0);
        CHECK((strstr(r.err, SPLIT) != NULL) == !says, "%s", r.err);
        test_run_free(&r);
        r = program("tokenize|%s|-i|a", path);
        check_status(&r, 0);
        CHECK((strstr(r.err, SPLIT) != NULL) == !says, "%s", r.err);
        test_run_free(&r);
        r = program("generate|%s|--prompt-ids|3|-n|2|-t|0", path); // no text is split
        CHECK(!strstr(r.err, SPLIT), "%s", r.err);
        test_run_free(&r);
    }
}

// However much a file says of itself.
Test(inspect, leaves_out_texts_where_there_is_no_room) {
    GgufFile *file = gguf_tiny_llama();
    gguf_set_text(file, "general.description", test_text("%0800d", 3));
    for (int i = 0; i < 3; i++)
        gguf_set_text(file, (const char *[]){"general.author", "general.url", "general.version"}[i],
                      "some words");
    gguf_set_text(file, "general.license", "a license of so many words that no room is left");
    for (int i = 0; i < 2; i++)
        gguf_add_tensor(file, test_text("%063d", i), DTYPE_F32, 4, 4);
    const char *path = written(file);
    TestRun r = program("inspect|%s", path);
    check_status(&r, 0);
    CHECK(count_lines(r.out) <= LINES, "%s", r.out);
    test_run_free(&r);
    r = program("inspect|%s|--all", path);
    CHECK(strstr(r.out, test_text("%0800d\n", 3)), "not whole: %s", r.out);
    test_run_free(&r);
}

// ---- the table of a mix ----

// Two tensors of one layer have another type; sums of plain FNV hashes would be those of the other
// layers.
Test(inspect, shows_a_layer_of_other_types_in_a_row_of_its_own) {
    need_builtin();
    const char *out = test_temporary("other-types.gguf");
    TestRun r = program("convert|builtin|%s|--type|q4_0|-q|--tensor-type|blk.1.attn_q.weight=q8_0|"
                        "--tensor-type|blk.1.attn_k.weight=q8_0",
                        out);
    check_status(&r, 0);
    test_run_free(&r);
    r = program("inspect|%s", out);
    CHECK(strstr(r.out, "\nblk.0,2-5 ") && strstr(r.out, "\nblk.1  "), "%s", r.out);
    test_run_free(&r);
}

enum { MIXED = 40 };

// What inspect_print_tensors prints, malloced.
static char *print_table(const TensorPlan *tensors, size_t count, int most_rows) {
    const char *path = test_temporary("mix.txt");
    CHECK(freopen(path, "w", stdout));
    CHECK(inspect_print_tensors(tensors, count, most_rows, NULL));
    fflush(stdout);
    size_t size = 0;
    char *text = test_read_file(path, &size);
    text = realloc(text, size + 1);
    text[size] = '\0';
    return text;
}

// Forty layers, no two of which are equal, under a name longer than its column; layer l has l + 1
// bytes, and the embedding, which comes last, the most.
Test(inspect, shows_the_largest_rows_of_a_mix_and_counts_the_others) {
    char names[MIXED][60];
    TensorPlan tensors[MIXED + 1];
    for (int i = 0; i < MIXED; i++) {
        snprintf(names[i], sizeof names[i], "model.language_model.layers.%d.mlp.weight", i);
        tensors[i] = (TensorPlan){.name = names[i],
                                  .dtype = DTYPE_Q8_0,
                                  .n_dims = 2,
                                  .shape = {(uint64_t)i + 1, 32},
                                  .bytes = (uint64_t)i + 1};
    }
    tensors[MIXED] = (TensorPlan){.name = "model.language_model.embed_tokens.weight",
                                  .dtype = DTYPE_F16,
                                  .n_dims = 2,
                                  .shape = {512, 32},
                                  .bytes = 1000};
    char *text = print_table(tensors, MIXED + 1, 5);
    CHECK_STRING(text,
                 "\n"
                 "tensor                       type            bytes  shape\n"
                 ".._model.layers.37           Q8_0               38  1 layer, 1 tensors\n"
                 ".._model.layers.38           Q8_0               39  1 layer, 1 tensors\n"
                 ".._model.layers.39           Q8_0               40  1 layer, 1 tensors\n"
                 ".._model.embed_tokens.weight F16              1000  (512, 32)\n"
                 "others                                         703  37 more rows: see --all\n");
    free(text);
    text = print_table(tensors, MIXED + 1, 0);
    CHECK(strstr(text, "\nmodel.language_model.layers.0.mlp.weight ") && !strstr(text, "others"),
          "%s", text);
    free(text);
}

// Something else that is numbered does not hide the layers.
Test(inspect, finds_the_layers_behind_other_numbered_tensors) {
    char names[9][30];
    TensorPlan tensors[9];
    for (int i = 0; i < 9; i++) {
        snprintf(names[i], sizeof names[i], i < 1 ? "aux.%d.weight" : "layers.%d.weight", i);
        tensors[i] = (TensorPlan){
            .name = names[i], .dtype = DTYPE_F32, .n_dims = 1, .shape = {8}, .bytes = 32};
    }
    char *text = print_table(tensors, 9, 5);
    CHECK(strstr(text, "\nlayers.1-8 ") && strstr(text, "8 equal layers"), "%s", text);
    free(text);
}

// JSON has what the text has: notes, scales that differ by layer, no RoPE where no layer rotates.
Test(inspect, writes_notes_and_scales_as_json) {
    TestRun r = program("inspect|%s|--json", test_reference_model("ministral3"));
    if (strstr(r.err, "it has no JSON")) SKIP("this build reads no safetensors");
    check_status(&r, 0);
    CHECK(strstr(r.out, "\"notes\":[]") && strstr(r.out, "\"rope_magnitude\":1,"), "%s", r.out);
    test_run_free(&r);
}

Test(inspect, writes_what_differs_from_llama_cpp_as_json) {
    TestRun r = program("inspect|%s|--json", test_reference_model("gpt_neox"));
    if (strstr(r.err, "it has no JSON")) SKIP("this build reads no safetensors");
    check_status(&r, 0);
    CHECK(strstr(r.out, "\"notes\":[\"llama.cpp has the tanh form of GELU here; this is "
                        "transformers' erf\"]"),
          "%s", r.out);
    test_run_free(&r);
}

// Of 12 channels a head: 1 / sqrt(12) in the first layer, half of that in the second.
Test(inspect, writes_the_scale_of_each_layer_as_json) {
    const char *from = test_reference_model("gpt2"), *copy = test_temporary("by_layer");
    TestRun r = program_shell(test_text(
        "mkdir %s && cat %s/model.safetensors > %s/model.safetensors && "
        "sed 's/\\(inverse_layer_idx\": \\)false/\\1true/' %s/config.json > %s/config.json && "
        "$RUN inspect %s --json",
        copy, from, copy, from, copy, copy));
    if (strstr(r.err, "it has no JSON")) SKIP("this build reads no safetensors");
    check_status(&r, 0);
    CHECK(strstr(r.out, "\"attention_scales\":[0.288675"), "%s", r.out);
    CHECK(strstr(r.out, ",0.144337") && strstr(r.out, ",0.09622504"), "%s", r.out);
    test_run_free(&r);
}
