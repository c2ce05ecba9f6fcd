// Runs gdb as a child process. A script ends at its first error, with exit code 1.
#include "tests/support/debugger.h"

TestRun debugger(const char *script, const char *line) {
    const char *argv[40] = {"gdb", "-nx", "-batch", "-x", "scripts/limpid-gdb.py", "-x"};
    int count = 6;
    char words[2000];
    argv[count] = test_temporary("script.gdb");
    test_write_file(argv[count++], script, strlen(script));
    argv[count++] = "--args";
    argv[count++] = TEST_RUN;
    snprintf(words, sizeof words, "%s", line);
    for (char *rest = words, *word; count < 39 && (word = strsep(&rest, " "));)
        argv[count++] = word;
    return test_run(argv, NULL, 0);
}

bool debugger_calls(void) {
    if (TEST_SANITIZED) SKIP("a leak check cannot run under gdb");
    TestRun r =
        debugger("break main\nrun\npython print('can ' + 'trace')\n"
                 "python gdb.parse_and_eval('(int)getpid()')\npython print('can ' + 'call')",
                 "--help");
    bool there = r.status != 127, traces = strstr(r.out, "can trace");
    bool named = strstr(r.out, "Breakpoint 1, main (argc=2"), calls = strstr(r.out, "can call");
    test_run_free(&r);
    if (!there) SKIP("no gdb on this machine");
    if (!traces) SKIP("gdb may not trace a program here");
    if (!named) SKIP("built without -g");
    return calls;
}

static void skip_without(bool calls) {
    if (!calls)
        SKIP("gdb cannot call functions of a program here: before version 14 it knows no AMX");
}

// What is in GPU memory is copied by functions of the program.
void need_debugger(void) {
    bool calls = debugger_calls();
    if (!strcmp(TEST_BACKEND, "cuda")) skip_without(calls);
}

void need_calls(void) {
    skip_without(debugger_calls());
}

const char *debugged_line(void) {
    static char line[600];
    snprintf(line, sizeof line,
             "%s --prompt-ids 1,435,462,262,410 -t 0 --ids --max-tokens 2 -j 1 -q --precision f32",
             small_model());
    return line;
}

void check_prints(const TestRun *r, const char *wanted) {
    CHECK(strstr(r->out, wanted), "no \"%s\" in %s%s", wanted, r->out, r->err);
    CHECK(!strstr(r->out, "Traceback") && !strstr(r->err, "Traceback"), "%s%s", r->out, r->err);
    CHECK(!strstr(r->err, "Python Exception"), "%s", r->err);
}

void check_good(const TestRun *r) {
    CHECK(r->status == 0, "exit %d: %s%s", r->status, r->out, r->err);
}

const char *attempts(const char *const commands[], size_t count) {
    static char scripts[4][3000];
    static int used;
    char *script = scripts[used++ % 4];
    strcpy(script, "python\ndef attempt(line):\n    try: gdb.execute(line)\n"
                   "    except gdb.error as error: print('refused:', error)\n");
    for (size_t i = 0; i < count; i++)
        sprintf(script + strlen(script), "attempt('%s')\n", commands[i]);
    strcat(script, "end\n");
    return script;
}
