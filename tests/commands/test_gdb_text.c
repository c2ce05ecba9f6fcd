// The gdb commands that move along layers and text, and back.
#include "tests/support/debugger.h"

Test(gdb_text, steps_from_layer_to_layer) {
    need_debugger();
    TestRun r = debugger("limpid break q_rotated 4\nrun\ndelete\nlimpid next-layer\n"
                         "limpid next-layer\nlimpid next-layer\nlimpid next-layer\nlimpid where\n",
                         debugged_line());
    check_good(&r);
    check_prints(&r, "\nlayer 5 of 6, attention: att_norm, ");
    check_prints(&r, "\nlogits: final_norm, ");
    check_prints(&r, "\nlayer 0 of 6, attention: att_norm, ");
    check_prints(&r, "\nlayer 1 of 6, attention: att_norm, ");
    check_prints(&r, "row 0   sequence 0, position 5    token 1999 ");
    test_run_free(&r);
}

// A breakpoint that was not reached would stop the next run.
Test(gdb_text, leaves_no_breakpoint_behind) {
    need_debugger();
    TestRun r = debugger("limpid break q_rotated 4\nrun\ndelete\nlimpid next embedding\n"
                         "limpid next embedding\n"
                         "run\npython print('ended:', not gdb.selected_thread())\n",
                         debugged_line());
    check_good(&r);
    check_prints(&r, "the program has ended\n");
    check_prints(&r, "ended: True\n");
    CHECK(!strstr(r.out, "in observe at"), "%s", r.out);
    test_run_free(&r);
}
