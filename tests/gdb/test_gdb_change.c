// limpid set: numbers that gdb changes on their way, and what the pass makes of them.
#include "tests/support/debugger.h"

// The token of the largest logit is the one that is taken, on the device too.
Test(gdb_change, a_changed_logit_is_sampled_from) {
    need_debugger();
    TestRun r = debugger("limpid break logits\nrun\nlimpid set logits[0, 500] = 1e9\n"
                         "limpid logits 1\ndelete\nlimpid next-token\nlimpid next-token\n",
                         debugged_line());
    check_good(&r);
    check_prints(&r, "logits[0, 500]: was ");
    check_prints(&r, ", is 1e+09\n       1e+09  1.000000  500 \"");
    check_prints(&r, "token 1 of the text: 500 \"");
    test_run_free(&r);
}

// Nothing is added to the residual stream: it stays what the layer before it left.
Test(gdb_change, what_is_set_to_zero_is_not_added) {
    need_debugger();
    TestRun r = debugger("limpid break layer_out 1\nrun\npython print('before')\n"
                         "limpid tensor stage --row 4\nlimpid next att_out 2\n"
                         "limpid set att_out = 0\nlimpid next att_residual 2\n"
                         "python print('after')\nlimpid tensor stage --row 4\n",
                         debugged_line());
    check_good(&r);
    check_prints(&r, "att_out: 960 values are 0\n");
    const char *before = strstr(r.out, "before\n"), *after = strstr(r.out, "after\n");
    CHECK(before && after, "%s", r.out);
    // shape, statistics and the first numbers, in a line each
    const char *end = strstr(after + 6, "...\n");
    CHECK(end, "%s", after);
    CHECK(!strncmp(before + 7, after + 6, (size_t)(end - after - 6)), "%s", r.out);
    test_run_free(&r);
}

// Rows and columns of slices; the elements beside them stay.
Test(gdb_change, slices_are_rows_heads_and_elements) {
    need_debugger();
    TestRun r = debugger(
        "limpid break q 2\nrun\nlimpid set q[0:5, :, :] = 0\nlimpid set stage[1, 2, 30:] = 4\n"
        "limpid set q[3:, 5, :2] = -2.5\nlimpid set q[0, 0, 31] = 7\nlimpid set q[4] = 1\n"
        "python\nimport limpid_program as p\n"
        "rows = p.tensor(p.model(), 'stage').rows(0, 5)\n"
        "print([[(j, v) for j, v in enumerate(row) if v] for row in rows[:4]], set(rows[4]))\n"
        "end\n",
        debugged_line());
    check_good(&r);
    check_prints(&r,
                 "q: 960 values are 0\nstage: 2 values are 4\nq: 4 values are -2.5\n"
                 "q[0, 0, 31]: was 0, is 7\nq: 192 values are 1\n"
                 "[[(31, 7.0)], [(94, 4.0), (95, 4.0)], [], [(160, -2.5), (161, -2.5)]] {1.0}\n");
    test_run_free(&r);
}

// A planted NaN is found where it is; later stages have it everywhere in its row.
Test(gdb_change, a_planted_nan_is_found) {
    need_debugger();
    TestRun r = debugger("limpid break ffn_up 3\nrun\ndelete\n"
                         "limpid set ffn_up[2, 17] = nan\nlimpid nan\n"
                         "limpid set ffn_up[2, 17] = -inf\nlimpid nan\n"
                         "limpid set ffn_up[2, 17] = 0\nlimpid nan\n",
                         debugged_line());
    check_good(&r);
    check_prints(&r, "layers.3.ffn_up: row 2, element 17 is nan\n");
    check_prints(&r, "layers.3.ffn_up: row 2, element 17 is -inf\n");
    check_prints(&r, "ffn_up[2, 17]: was -inf, is 0\n");
    check_prints(&r, "the program has ended\n");
    test_run_free(&r);
}

Test(gdb_change, says_what_cannot_be_set) {
    static const char *const COMMANDS[] = {"limpid set",
                                           "limpid set att_out",
                                           "limpid set att_out[0 = 1",
                                           "limpid set att_out[0, 192] = 1",
                                           "limpid set att_out[5] = 1",
                                           "limpid set att_out[3:2] = 1",
                                           "limpid set att_out[0, 1, 2] = 1",
                                           "limpid set att_out[-1] = 1",
                                           "limpid set att_out[0] = one",
                                           "limpid set att_out[0] = 1e39",
                                           "limpid set att_out[0] = 1e400",
                                           "limpid set ffn_out[0] = 1",
                                           "limpid set tokens[0] = 1"};
    need_debugger();
    TestRun r = debugger(test_text("limpid break att_out 2\nrun\n%s", attempts(COMMANDS, 13)),
                         debugged_line());
    check_good(&r);
    check_prints(&r,
                 "refused: limpid set NAME[INDEX, ...] = VALUE\n"
                 "refused: limpid set NAME[INDEX, ...] = VALUE\n"
                 "refused: limpid set NAME[INDEX, ...] = VALUE\n"
                 "refused: att_out: got index 192, wanted 0 .. 191\n"
                 "refused: att_out: got index 5, wanted 0 .. 4\n"
                 "refused: att_out: got index 3:2, wanted 0 .. 4\n"
                 "refused: att_out (5, 192): got 3 indices\n"
                 "refused: att_out: got index \"-1\", wanted a number or a slice such as 2:5\n"
                 "refused: got \"one\", wanted a number that float32 holds, nan or inf\n"
                 "refused: got \"1e39\", wanted a number that float32 holds, nan or inf\n"
                 "refused: got \"1e400\", wanted a number that float32 holds, nan or inf\n"
                 "refused: limpid set changes att_out, the stage at hand, or x x_norm branch q ");
    check_prints(&r, " last logits, not tokens\n");
    test_run_free(&r);
}
