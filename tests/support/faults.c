#include "tests/support/faults.h"

#include <unistd.h>

static const char SHIM[] = TEST_BUILD "/tests/faults.so";

void need_faults(void) {
    if (TEST_SANITIZED) SKIP("sanitizers bring their own allocator");
    if (access(SHIM, R_OK)) SKIP("no %s", SHIM);
    if (access(TEST_RUN, X_OK)) SKIP("no %s", TEST_RUN);
}

static void set_number(const char *name, long value) {
    char text[24];
    snprintf(text, sizeof text, "%ld", value);
    setenv(name, text, 1);
}

TestRun run_with_fault(const Fault *fault, const char *const *argv) {
    static const char *const NAMES[] = {"LD_PRELOAD", "FAULT",       "FAULT_AT",   "FAULT_COUNT",
                                        "FAULT_ON",   "FAULT_ERRNO", "FAULT_PLAIN"};
    setenv("LD_PRELOAD", SHIM, 1);
    setenv("FAULT", fault->kind, 1);
    set_number("FAULT_AT", fault->at);
    if (fault->count_path) setenv("FAULT_COUNT", fault->count_path, 1);
    if (fault->for_ever) setenv("FAULT_ON", "1", 1);
    if (fault->error) set_number("FAULT_ERRNO", fault->error);
    if (fault->plain) setenv("FAULT_PLAIN", "1", 1);
    TestRun run = test_run(argv, fault->input, fault->input ? strlen(fault->input) : 0);
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        unsetenv(NAMES[i]);
    return run;
}

long count_calls(const Fault *fault, const char *const *argv) {
    Fault none = *fault;
    none.at = 0;
    none.count_path = test_temporary("count");
    TestRun run = run_with_fault(&none, argv);
    CHECK_INT(run.status, 0);
    test_run_free(&run);
    char *text = test_read_file(none.count_path, NULL);
    long count = atol(text);
    free(text);
    return count;
}
