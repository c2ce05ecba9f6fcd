// diff on made-up tensors: figures worked by hand, names, orders, files that are no traces.
// test_diff_models.c runs it on models.
#include "tests/support/files/safetensors_writer.h"
#include "tests/support/traces.h"
#include "weights/out/write.h"

#include <sys/resource.h>

// ---- figures by hand ----

static WriterTensor floats(const char *name, size_t rows, size_t cols, const float *values) {
    WriterTensor tensor = {.dtype = "F32",
                           .rank = 2,
                           .shape = {rows, cols},
                           .data = values,
                           .bytes = rows * cols * sizeof *values};
    snprintf(tensor.name, sizeof tensor.name, "%s", name);
    return tensor;
}

static char *write_tensors(const char *name, const WriterTensor *tensors, size_t count) {
    size_t size = 0;
    char *path = strdup(test_temporary(name)), *bytes = safetensors_bytes(&size, tensors, count, 0);
    test_write_file(path, bytes, size);
    free(bytes);
    return path;
}

// The same name in both files.
static TestRun diff_of(const char *name, size_t rows, size_t cols, const float *a, const float *b,
                       const char *options) {
    WriterTensor in_a = floats(name, rows, cols, a), in_b = floats(name, rows, cols, b);
    char *path_a = write_tensors("a.safetensors", &in_a, 1);
    char *path_b = write_tensors("b.safetensors", &in_b, 1), line[2000];
    snprintf(line, sizeof line, "diff|%s|%s%s", path_a, path_b, options);
    TestRun r = program_input(line, NULL, 0);
    free(path_a);
    free(path_b);
    return r;
}

Test(diff, figures_are_those_worked_by_hand) {
    // The dot product is 1 + 4 + 9 + 20 = 34, the squares are 30 and 39: 34 / sqrt(1170).
    static const float A[] = {1, 2, 3, 4}, B[] = {1, 2, 3, 5};
    TestRun r = diff_of("h.12.x", 2, 2, A, B, "|--json|--budget|0.2");
    check_says(
        &r, 0,
        "{\"same\":true,\"budget\":\"0.2\",\"compared\":1,\"over\":0,\"first\":null,"
        "\"only_a\":[],\"only_b\":[],\"tensors\":[{\"name\":\"h.12.x\",\"verdict\":\"within\","
        "\"error\":1,\"relative\":0.2,\"largest\":5,"
        "\"cosine\":0.99399908");
    r = diff_of("h.12.x", 2, 2, A, B, "|--json|--budget|0.19");
    check_says(&r, ERROR_ANSWER_NO,
               "\"allowed\":0.95,\"layer\":12,\"position\":1,\"element\":1,\"a\":4,"
               "\"b\":5,\"elements_over\":1}");
    r = diff_of("h.12.x", 2, 2, A, B, "");
    check_says(
        &r, ERROR_ANSWER_NO,
        "The first that differs is h.12.x (layer 12), at position 1, element 1: 4 in A, 5 in "
        "B; 1 of 1 tensor is over the budget f32.");
    r = diff_of("h.12.x", 2, 2, A, B, "");
    CHECK(strstr(r.err, "run: 1 tensor differs, the first is h.12.x\n"), "%s", r.err);
    test_run_free(&r);
    r = diff_of("h.12.x", 2, 2, A, A, "|--budget|0");
    check_says(&r, 0, "The one tensor is within the budget 0");
}

// Figures at their widest, a name that is cut and one that just fits.
Test(diff, the_table_fits_into_80_columns) {
    static const float A[] = {1e-30f, -1}, B[] = {-1e-30f, 1e30f}, NOT[] = {0, NAN};
    static const struct {
        const char *name;
        const float *b;
        const char *row;
    } CASES[] = {
        {"model.layers.0.self_attn.attn_weights", B,
         "\nmodel.layers.0.self_attn.attn_weights 1.00e+30 1.00e+00 -1.00000000 "},
        {"model.layers.29.post_attention_layernorm", B,
         "\n...layers.29.post_attention_layernorm 1.00e+30 1.00e+00 -1.00000000 "},
        {"model.layers.29.post_attention_layernorm", NOT, "   not finite\n"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        TestRun r = diff_of(CASES[i].name, 1, 2, A, CASES[i].b, "|--budget|1e-30");
        check_status(&r, ERROR_ANSWER_NO);
        CHECK(strstr(r.out, CASES[i].row), "%s", r.out);
        for (char *at = r.out; strncmp(at, "The first", 9); at += strcspn(at, "\n") + 1)
            CHECK(strcspn(at, "\n") <= 80, "%.*s", (int)strcspn(at, "\n"), at);
        test_run_free(&r);
    }
}

// 2.5e-4 for logits and 1e-4 for attention weights, however small; else relative to the largest.
Test(diff, budgets_of_f32_are_those_of_the_reference_models) {
    static const float A[] = {1, 0}, B[] = {1, 2.4e-4f}, C[] = {1, 2.6e-4f}, D[] = {1, 0.9e-4f},
                       E[] = {1, 1.1e-4f}, F[] = {1, 2.9e-5f}, G[] = {1, 3.1e-5f};
    static const struct {
        const char *name;
        const float *within, *over;
    } CASES[] = {{"lm_head", B, C},
                 {"model.layers.0.self_attn.heads", D, E},
                 {"logits", B, C},
                 {"model.layers.1.self_attn.attn_weights", D, E},
                 {"model.layers.1", F, G}};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        TestRun r = diff_of(CASES[i].name, 1, 2, A, CASES[i].within, "");
        check_says(&r, 0, "within the budget f32");
        r = diff_of(CASES[i].name, 1, 2, A, CASES[i].over, "");
        check_says(&r, ERROR_ANSWER_NO, "over the budget f32");
    }
}

Test(diff, what_is_not_finite_is_named_in_either_file) {
    static const float GOOD[] = {1, 2, 3, 4}, NANS[] = {1, 2, NAN, 4}, INFS[] = {9, INFINITY, 3, 4};
    TestRun r = diff_of("x", 2, 2, GOOD, NANS, "|--budget|1e9");
    check_says(&r, ERROR_ANSWER_NO,
               "at position 1, element 0: 3 in A, nan in B, not a finite number");
    r = diff_of("x", 2, 2, INFS, GOOD, "");
    check_says(&r, ERROR_ANSWER_NO,
               "at position 0, element 1: inf in A, 2 in B, not a finite number");
    r = diff_of("x", 2, 2, NANS, NANS, "|--budget|0");
    check_says(&r, ERROR_ANSWER_NO, "nan in A, nan in B, not a finite number");
    r = diff_of("x", 2, 2, NANS, GOOD, "|--json");
    check_says(&r, ERROR_ANSWER_NO, "\"a\":null,\"b\":3");
}

// BF16 and F16 against F32: 1.5 is 0x3fc0 and 0x3e00, -2 is 0xc000 in both.
Test(diff, half_precisions_are_converted) {
    static const float F32[] = {1.5f, -2};
    static const uint16_t BF16[] = {0x3fc0, 0xc000}, F16[] = {0x3e00, 0xc000};
    WriterTensor a = floats("x", 1, 2, F32), b = floats("x", 1, 2, (const float *)BF16);
    char *path_a = write_tensors("a.safetensors", &a, 1);
    b.bytes = sizeof BF16;
    for (int i = 0; i < 2; i++) {
        b.dtype = i ? "F16" : "BF16";
        b.data = i ? F16 : BF16;
        char *path_b = write_tensors("b.safetensors", &b, 1);
        TestRun r = program("diff|%s|%s|--budget|0", path_a, path_b);
        check_says(&r, 0, "The one tensor is within the budget 0");
        free(path_b);
    }
    free(path_a);
}

Test(diff, tensors_without_a_partner_are_listed_and_other_shapes_named) {
    static const float V[] = {1, 2, 3, 4, 5, 6};
    WriterTensor a[] = {floats("here", 1, 2, V), floats("both", 3, 2, V), floats("last", 1, 1, V)};
    WriterTensor b[] = {floats("both", 2, 3, V), floats("th\\u001bre", 1, 2, V),
                        floats("last", 1, 1, V)};
    char *path_a = write_tensors("a.safetensors", a, 3),
         *path_b = write_tensors("b.safetensors", b, 3);
    TestRun r = program("diff|%s|%s", path_a, path_b);
    CHECK(strstr(r.out, "only in") && strstr(r.out, ": 1\n    here\n"), "%s", r.out);
    CHECK(strstr(r.out, ": 1\n    th\\x1bre\n"), "%s", r.out);
    check_says(
        &r, ERROR_ANSWER_NO,
        "The first that differs is both, (3, 2) in A and (2, 3) in B; 1 of 2 tensors is over");
    r = program("diff|%s|%s|--only|here", path_a, path_b);
    check_says(&r, ERROR_ANSWER_NO, "Nothing could be compared: no name is in both files.");
    r = program("diff|%s|%s|--only|last", path_a, path_b);
    check_says(&r, 0, "The one tensor is within the budget f32");
    free(path_a);
    free(path_b);
}

Test(diff, integers_are_not_compared) {
    static const float V[] = {1, 2};
    WriterTensor a = floats("x", 1, 1, V);
    a.dtype = "I64";
    a.bytes = 8;
    char *path = write_tensors("a.safetensors", &a, 1);
    TestRun r = program("diff|%s|%s", path, path);
    check_says(&r, ERROR_ANSWER_NO, "Nothing could be compared: no tensor is floating-point");
    free(path);
}

Test(diff, says_how_many_were_not_compared) {
    static const float V[] = {1, 2};
    WriterTensor a[] = {floats("x", 1, 1, V), floats("y", 1, 1, V)};
    a[1].dtype = "I64";
    a[1].bytes = 8;
    char *path = write_tensors("a.safetensors", a, 2);
    TestRun r = program("diff|%s|%s", path, path);
    check_says(&r, 0, "Not compared, since not floating-point in both files: 1 (");
    free(path);
}

// Three tensors in each of two files, the second of which has an order.
static void write_ordered(char *paths[2], const char *order) {
    static const float V[2][2] = {{1, 2}, {3, 4}};
    static const WriteTensor TENSORS[] = {
        {"a", "F32", 1, {2}}, {"b", "F32", 1, {2}}, {"c", "F32", 1, {2}}};
    WriteMetadata metadata[] = {{"order", order}};
    Error error = {0};
    for (int i = 0; i < 2; i++) {
        paths[i] = strdup(test_temporary(i ? "y.safetensors" : "x.safetensors"));
        SafetensorsWriter *w =
            safetensors_writer_open(&(OutputFile){.path = paths[i], .force = true}, TENSORS, 3,
                                    metadata, (size_t)i, &error);
        CHECK(w, "%s", error.message);
        for (size_t t = 0; t < 3; t++) // c is the same in both
            CHECK(safetensors_writer_put(w, t, 0, V[t < 2 && i], sizeof *V, &error), "%s",
                  error.message);
        CHECK(safetensors_writer_finish(w, &error), "%s", error.message);
        safetensors_writer_close(w);
    }
}

// The file that has it is named, whichever of the two it is.
Test(diff, an_order_that_has_a_name_twice_is_of_a_file) {
    char *paths[2];
    write_ordered(paths, "c\nb\nc");
    for (int i = 0; i < 2; i++) {
        TestRun r = program("diff|%s|%s", paths[i], paths[!i]);
        check_refused(&r, ERROR_FILE,
                      test_text("run: %s: line of \"order\" \"c\" appears twice", paths[1]));
        r = program("view|%s|%s|-o|%s", paths[i], paths[!i], test_temporary("order.html"));
        check_refused(&r, ERROR_FILE,
                      test_text("run: %s: line of \"order\" \"c\" appears twice", paths[1]));
    }
    free(paths[0]);
    free(paths[1]);
}

// Python writes tensors sorted by name; "order" has the order of computation.
Test(diff, the_order_of_the_metadata_decides_which_is_first) {
    char *paths[2];
    write_ordered(paths, "c\nb\na");
    TestRun r = program("diff|%s|%s", paths[0], paths[1]); // the second has the order
    check_says(&r, ERROR_ANSWER_NO, "The first that differs is b, at position 0: 1 in A, 3 in B");
    r = program("diff|%s|%s", paths[1], paths[0]);
    check_says(&r, ERROR_ANSWER_NO, "The first that differs is b, at position 0: 3 in A, 1 in B");
    r = program("diff|%s|%s|--all", paths[0], paths[1]);
    const char *b = strstr(r.out, "\nb "), *c = strstr(r.out, "\nc "), *a = strstr(r.out, "\na ");
    CHECK(c && b && a && c < b && b < a, "%s", r.out);
    test_run_free(&r);
    free(paths[0]);
    free(paths[1]);
}

// ---- prompts ----

Test(diff, different_tokens_are_reported_and_nothing_is_compared) {
    char *model = made_model();
    char *a = write_trace(model, "--prompt-ids|7,8,9", "a.safetensors");
    char *b = write_trace(model, "--prompt-ids|7,8,9,10", "b.safetensors");
    char *c = write_trace(model, "--prompt-ids|7,5,9", "c.safetensors");
    TestRun r = program("diff|%s|%s", a, b);
    check_says(&r, ERROR_ANSWER_NO, "The traces have different tokens: A has 3, B 4.");
    r = program("diff|%s|%s", a, c);
    check_says(&r, ERROR_ANSWER_NO, "A has 3, B 3; at position 1 8 and 5.");
    r = program("diff|%s|%s|--json", a, c);
    check_says(&r, ERROR_ANSWER_NO, "\"same\":false,\"compared\":0,\"tokens_differ_at\":1");
    free(a);
    free(b);
    free(c);
    free(model);
}

// Row 1 of the logits chooses the last of three tokens: in A by 2.5 over 2.25, in B by 2.5
// over 1.5.
Test(diff, where_greedy_texts_part_it_says_how_close_the_choice_was) {
    static const int64_t IDS_A[] = {3, 1, 0}, IDS_B[] = {3, 1, 2};
    static const float A[] = {0, 9, 0, 0, 2.5f, 0, 2.25f, 0, 0, 0, 0, 0};
    static const float B[] = {0, 9, 0, 0, 1.5f, 0, 2.5f, 0, 0, 0, 0, 0};
    WriterTensor a[] = {{"input_ids", "I64", 1, {3}, IDS_A, 24}, floats("lm_head", 3, 4, A)};
    WriterTensor b[] = {{"input_ids", "I64", 1, {3}, IDS_B, 24}, floats("lm_head", 3, 4, B)};
    char *path_a = write_tensors("a.safetensors", a, 2);
    char *path_b = write_tensors("b.safetensors", b, 2);
    TestRun r = program("diff|%s|%s", path_a, path_b);
    check_says(
        &r, ERROR_ANSWER_NO,
        "at position 2 0 and 2.\nA's logits prefer its token by 0.25, B's logits prefer its own "
        "by 1.\n");
    r = program("diff|%s|%s|--json", path_a, path_b);
    check_says(&r, ERROR_ANSWER_NO, "\"tokens_differ_at\":2,\"gap_a\":0.25,\"gap_b\":1}");
    free(path_b);
    b[1] = floats("lm_head", 3, 4, A); // its token was not the likelier one: it was given
    path_b = write_tensors("b.safetensors", b, 2);
    r = program("diff|%s|%s|--json", path_a, path_b);
    check_says(&r, ERROR_ANSWER_NO, "\"tokens_differ_at\":2}");
    free(path_a);
    free(path_b);
}

// ---- errors ----

Test(diff, refuses_what_is_no_pair_of_traces) {
    static const float V[] = {1, 2};
    WriterTensor x = floats("x", 1, 2, V);
    char *good = write_tensors("good.safetensors", &x, 1);
    char *cut = strdup(test_temporary("cut.safetensors"));
    size_t size = 0;
    char *bytes = test_read_file(good, &size);
    test_write_file(cut, bytes, size - 3);
    TestRun r = program("diff|%s", good);
    check_refused(&r, ERROR_USAGE, "two trace files are needed");
    r = program("diff");
    check_refused(&r, ERROR_USAGE, "two trace files are needed");
    r = program("diff|%s|%s|third", good, good);
    check_refused(&r, ERROR_USAGE, "third");
    r = program("diff|%s|%s|--budget|much", good, good);
    check_refused(&r, ERROR_USAGE, "--budget: got \"much\"");
    r = program("diff|%s|%s|--budget|-1", good, good);
    check_refused(&r, ERROR_USAGE, "--budget");
    r = program("diff|%s|%s", good, "/nonexistent");
    check_refused(&r, ERROR_IO, "/nonexistent");
    r = program("diff|%s|%s", "/tmp", good);
    check_refused(&r, ERROR_IO, "/tmp");
    r = program("diff|%s|%s", good, cut);
    check_refused(&r, ERROR_FILE, "cut.safetensors");
    r = program("diff|%s|%s", "LICENSE", good);
    check_refused(&r, ERROR_FILE, "LICENSE: this is a text, not a safetensors file: `run trace");
    r = program("diff|%s|%s", good, "LICENSE");
    check_refused(&r, ERROR_FILE, "LICENSE: this is a text, not a safetensors file: `run trace");
    char *gguf = strdup(test_temporary("model.gguf"));
    test_write_file(gguf, "GGUF\3\0\0\0", 8);
    r = program("diff|%s|%s", gguf, good);
    check_refused(&r, ERROR_FILE, "a GGUF model, not a trace: `run trace");
    free(gguf);
    free(bytes);
    free(good);
    free(cut);
}

// As many tensors as a file may have.
Test(diff, of_65536_tensors_takes_less_than_a_second) {
    enum { MOST = 65536 };
    static const float V[] = {1, 2};
    WriterTensor *tensors = calloc(MOST, sizeof *tensors);
    for (int i = 0; i < MOST; i++) {
        char name[40];
        snprintf(name, sizeof name, "layers.%d.o_proj", i);
        tensors[i] = floats(name, 1, 2, V);
    }
    char *path = write_tensors("many.safetensors", tensors, MOST);
    free(tensors);
    struct rusage before, after;
    getrusage(RUSAGE_CHILDREN, &before);
    TestRun r = program("diff|%s|%s|-q", path, path);
    getrusage(RUSAGE_CHILDREN, &after);
    check_status(&r, 0);
    CHECK(strstr(r.out, "All 65536 tensors are within the budget"), "%s", r.out);
    double seconds = (double)(after.ru_utime.tv_sec - before.ru_utime.tv_sec) +
                     1e-6 * (double)(after.ru_utime.tv_usec - before.ru_utime.tv_usec);
    CHECK(seconds < 1 || TEST_SANITIZED, "%g s", seconds);
    test_run_free(&r);
    free(path);
}

Test(diff, a_closed_standard_output_is_exit_4) {
    static const float V[] = {1, 2};
    WriterTensor x = floats("x", 1, 2, V);
    char *path = write_tensors("x.safetensors", &x, 1), script[800];
    snprintf(script, sizeof script, "$RUN diff %s %s >&-", path, path);
    TestRun r = program_shell(script);
    check_refused(&r, ERROR_IO, "standard output");
    snprintf(script, sizeof script, "$RUN diff %s %s >/dev/full", path, path);
    r = program_shell(script);
    check_refused(&r, ERROR_IO, "standard output");
    free(path);
}

// Nobody has read the answer no.
Test(diff, a_lost_answer_is_exit_4_and_not_1) {
    static const float A[] = {1, 2}, B[] = {1, 3};
    WriterTensor a = floats("x", 1, 2, A), b = floats("x", 1, 2, B);
    char *first = write_tensors("a.safetensors", &a, 1),
         *second = write_tensors("b.safetensors", &b, 1);
    TestRun r = program("diff|%s|%s|--budget|0", first, second);
    CHECK_INT(r.status, ERROR_ANSWER_NO);
    test_run_free(&r);
    char script[800];
    snprintf(script, sizeof script, "$RUN diff %s %s --budget 0 --json -q >/dev/full", first,
             second);
    r = program_shell(script);
    check_refused(&r, ERROR_IO, "standard output");
    free(first);
    free(second);
}
