// Limits that a shell sets (ulimit): with few open files, no threads or little processor time, the
// program answers, or ends with the right code and one line.
#include "base/error.h"
#include "tests/support/files/conversions.h"
#include "tests/support/program.h"

#include <signal.h>

// Its result, or one line and code 4 or 5; 127 is the loader's, from before main. Returns whether
// there was a result.
static bool check_limited(const char *script) {
    TestRun r = program_shell(script);
    bool done = r.status == 0;
    bool refused = (r.status == ERROR_IO || r.status == ERROR_MEMORY) &&
                   !strncmp(r.err, "run: ", 5) && strchr(r.err, '\n') == r.err + r.err_size - 1;
    CHECK(done || refused || r.status == 127, "%s: exit %d, %s", script, r.status, r.err);
    test_run_free(&r);
    return done;
}

static const char *const LINES[] = {
    "limited $RUN $MODEL -n 5 -q -i x -j 4",
    "limited $RUN tokenize $MODEL -i x",
    "limited $RUN inspect $MODEL",
    "limited $RUN perplexity $MODEL -f LICENSE --window 32 --windows 1 -q -j 4",
    "echo x | limited $RUN chat $MODEL --template llama2 --max-tokens 2 -q -j 4",
    "limited $RUN bench $MODEL --pp 8 --tg 4 -r 1 --no-limits -j 4",
    "limited $RUN selftest $MODEL -j 4",
    "limited $RUN lens $MODEL -i x -j 4",
};

// Files: 3 are the standard streams. convert needs the most of them.
Test(resource_limits, of_open_files) {
    static const char CONVERT[] =
        "D=$(mktemp -d); limited $RUN convert $MODEL $D/out.gguf -q --type f16; E=$?; "
        "L=$(ls -A $D | wc -l); rm -r $D; "
        "if [ $E != 0 ] && [ $L != 0 ]; then E=99; fi; exit $E";
    if (TEST_SANITIZED) SKIP("sanitizers open files of their own");
    for (size_t i = 0; i <= sizeof LINES / sizeof *LINES; i++) {
        const char *line = i ? LINES[i - 1] : CONVERT;
        bool done = false;
        for (int files = 3; files <= 12 && !done; files++) {
            char script[700];
            snprintf(script, sizeof script, "limited() { (ulimit -n %d; exec \"$@\"); }; %s", files,
                     line);
            done = check_limited(script);
        }
        CHECK(done, "%s: 12 files are not enough", line);
    }
}

// Threads: none can be started. Root has no such limit, and is not root here.
Test(resource_limits, of_threads) {
    static const char LIMITED[] =
        "limited() { if [ $(id -u) = 0 ]; then setpriv --reuid 65534 --regid 65534 --clear-groups "
        "prlimit --nproc=1 \"$@\"; else prlimit --nproc=1 \"$@\"; fi; }; ";
    char script[900];
    if (TEST_SANITIZED) SKIP("sanitizers start threads of their own");
    snprintf(script, sizeof script, "%slimited test -x $RUN -a -r $MODEL", LIMITED);
    TestRun r = program_shell(script);
    bool can = r.status == 0;
    test_run_free(&r);
    if (!can) SKIP("no prlimit or setpriv here, or another user may not run the program");
    snprintf(script, sizeof script, "%slimited sh -c 'true | true; true'", LIMITED);
    r = program_shell(script);
    CHECK(r.status, "the limit is none");
    test_run_free(&r);
    for (size_t i = 0; i < sizeof LINES / sizeof *LINES; i++) {
        snprintf(script, sizeof script, "%s%s", LIMITED, LINES[i]);
        check_limited(script);
    }
}

// Processor time: the signal of the soft limit ends the text as Ctrl-C does.
Test(resource_limits, of_processor_time) {
    const char *path = conversion_endless();
    char script[600];
    snprintf(script, sizeof script,
             "(ulimit -S -t 1; exec $RUN %s -n 0 -i a --ignore-eos -s 1 -j 2 >/dev/null)", path);
    TestRun r = program_shell(script);
    CHECK(r.status == 128 + SIGXCPU, "exit %d: %s", r.status, r.err);
    CHECK(strstr(r.err, "run: prompt "), "no statistics: %s", r.err);
    test_run_free(&r);
}
