// limpid diff: the stage at hand beside that of a trace which `run trace` wrote.
#include "tests/support/debugger.h"

// A trace of these tokens in float32; the path is borrowed until the test ends.
static const char *trace_of(const char *name, const char *ids) {
    const char *path = test_temporary(name);
    TestRun r = program("trace|%s|--prompt-ids|%s|--precision|f32|--attention|--out|%s|-q",
                        small_model(), ids, path);
    check_good(&r);
    test_run_free(&r);
    return path;
}

static char script[8000];

// The budget is that of `run diff`: 3e-5 of the largest value for float32.
Test(gdb_diff, equal_stages_are_within_the_budget) {
    need_calls();
    const char *path = trace_of("six.safetensors", "1,435,462,262,410,1999");
    snprintf(script, sizeof script,
             "limpid break k_rotated 2\nrun\nlimpid diff %s\nlimpid next ffn_up 5\nlimpid diff %s\n"
             "limpid next logits\nlimpid diff %s\ndelete\nlimpid next q 1\nlimpid where\n"
             "limpid diff %s\nlimpid next final_norm\nlimpid diff %s\n",
             path, path, path, path, path);
    TestRun r = debugger(script, debugged_line());
    check_good(&r);
    static const char *const NAMES[] = {
        "\nmodel.layers.2.self_attn.k_rotated: largest error ",
        "\nmodel.layers.5.mlp.fc1: largest error ", "\nlogits: largest error ",
        "\nmodel.layers.1.self_attn.q_proj: largest error ", "\nmodel.norm: largest error "};
    const char *at = r.out;
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        at = strstr(at, NAMES[i]);
        CHECK(at, "no%s in %s", NAMES[i], r.out);
        double error, largest, cosine;
        const char *numbers = at + strlen(NAMES[i]);
        int read = sscanf(numbers, "%lf of %lf, cosine %lf", &error, &largest, &cosine);
        CHECK_INT(read, 3);
        CHECK(largest > 0.5 && error < 3e-5 * largest && cosine > 0.9999999, "%s", at);
        CHECK(strstr(at, "\nwithin the budget of f32, "), "%s", at);
    }
    check_prints(&r, "row 0   sequence 0, position 5    token 1999 ");
    test_run_free(&r);
}

Test(gdb_diff, names_the_first_element_that_differs) {
    need_calls();
    const char *path = trace_of("five.safetensors", "1,435,462,262,410");
    snprintf(script, sizeof script,
             "limpid break att_out 2\nrun\nlimpid set att_out[3, 5:7] = 64\n"
             "limpid set att_out[4, 1] = nan\nlimpid diff %s\n",
             path);
    TestRun r = debugger(script, debugged_line());
    check_good(&r);
    check_prints(&r, " of 64, cosine 0.");
    check_prints(&r, "over the budget of f32, 0.00192: 3 of 960 elements\n"
                     "the first: row 3, position 3, element 5: 64 here, ");
    test_run_free(&r);
}

// Attention weights are (heads, T, T) in a trace, and (n, heads, context) in the program.
Test(gdb_diff, compares_attention_weights) {
    need_calls();
    const char *path = trace_of("weights.safetensors", "1,435,462,262,410");
    char line[1000];
    snprintf(line, sizeof line,
             "trace %s --prompt-ids 1,435,462,262,410 --precision f32 --attention --out %s -q",
             small_model(), test_temporary("other.safetensors"));
    // The first pass, of one token, plans the file.
    snprintf(script, sizeof script,
             "limpid break att_weights 3\nrun\nlimpid next att_weights 3\nlimpid diff %s\n"
             "limpid set stage[2, 4, 1] = 0.75\nlimpid diff %s\n",
             path, path);
    TestRun r = debugger(script, line);
    check_good(&r);
    check_prints(&r, "model.layers.3.self_attn.attn_weights: largest error 0 of 1, cosine 1\n"
                     "within the budget of f32, 0.0001\n");
    check_prints(&r, "the sums of values, att_heads, were computed before\n");
    check_prints(&r, test_text("the first: row 2, position 2, element %d: 0.75 here, ", 4 * 5 + 1));
    test_run_free(&r);
}

Test(gdb_diff, says_why_it_cannot_compare) {
    need_calls();
    const char *path = trace_of("good.safetensors", "1,435,462,262,410");
    const char *other = trace_of("other.safetensors", "1,435,500,262,410");
    const char *shorter = trace_of("shorter.safetensors", "1,435,462");
    const char *cut = test_temporary("cut.safetensors"), *text = test_temporary("text");
    const char *list = test_temporary("list"), *empty = test_temporary("empty");
    const char *null = test_temporary("null");
    size_t size;
    char *bytes = test_read_file(path, &size);
    test_write_file(cut, bytes, size / 2);
    free(bytes);
    test_write_file(text, "not a trace at all", 18);
    test_write_file(list, "\2\0\0\0\0\0\0\0[]", 10);
    test_write_file(empty, "", 0);
    test_write_file(null, "\25\0\0\0\0\0\0\0{\"__metadata__\":null}", 29);
    const char *paths[] = {other, shorter, cut, text, list, empty, null, "/nowhere/x", "/tmp"};
    enum { PATHS = sizeof paths / sizeof *paths };
    char commands[PATHS][200];
    const char *lines[PATHS];
    for (int i = 0; i < PATHS; i++) {
        snprintf(commands[i], sizeof commands[i], "limpid diff %s", paths[i]);
        lines[i] = commands[i];
    }
    snprintf(script, sizeof script,
             "limpid break layer_out 5\nrun\n%sdelete\nbreak sampler_sample\ncontinue\n%s",
             attempts(lines, PATHS),
             attempts((const char *const[]){"limpid diff x", "limpid diff"}, 2));
    TestRun r = debugger(script, debugged_line());
    check_good(&r);
    check_prints(&r, "other.safetensors is of another text: position 2 has token 500, here 462\n");
    check_prints(&r, "shorter.safetensors has the positions 0 .. 2, and this pass is at 4\n");
    check_prints(&r, "has a wrong size, or the file is cut short\n");
    check_prints(&r, "text: not a safetensors file\n");
    check_prints(&r, "list: not a safetensors file\n");
    check_prints(&r, "null: not a safetensors file\n");
    check_prints(&r, "empty: not a safetensors file\n");
    check_prints(&r, "refused: /nowhere/x: No such file or directory\n");
    check_prints(&r, "refused: /tmp: Is a directory\n");
    check_prints(&r, "refused: no stage is at hand: limpid next, or limpid break STAGE [LAYER]\n"
                     "refused: limpid diff FILE\n");
    test_run_free(&r);
}
