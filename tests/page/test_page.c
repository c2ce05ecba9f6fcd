// The page of `view` in a browser: tests/page/check_page.py clicks through it in Chromium and
// compares what it shows with a trace of the same run. Skipped where Chromium is absent.
#include "tests/support/program.h"

#include <unistd.h>

// Runs check_page.py on what the lines of shell before it made in the folder $DIR. Exit code 77:
// no Chromium. With sanitizers the lines before it are the test: the pages are those of other
// builds.
static void check_in_browser(const char *make, const char *check) {
    need_builtin();
    if (system("/usr/bin/python3 -c 'from collections import Counter; Counter().total()' 2>&1"))
        SKIP("no python3 of version 3.10 or later");
    char script[4000];
    snprintf(script, sizeof script,
             "DIR=%s.d; mkdir -p $DIR; trap 'rm -r $DIR' EXIT\n"
             "PROMPT='--prompt-ids 1,304,703,1379,352,266,284,299,268,501'\n"
             "CHECK='/usr/bin/python3 tests/page/check_page.py'\n%s\n%s\n",
             test_temporary("page"), make, TEST_SANITIZED ? "" : check);
    TestRun r = program_shell(script);
    bool absent = r.status == 77;
    if (!absent) CHECK(r.status == 0, "%s%s", r.out, r.err);
    test_run_free(&r);
    if (absent) SKIP("no Chromium on this machine");
}

Test(page, shows_the_numbers_of_the_trace) {
    check_in_browser("$RUN view $PROMPT -n 4 --out $DIR/page.html -q &&\n"
                     "$RUN trace $PROMPT -n 4 --attention --out $DIR/t.safetensors -q || exit",
                     "$CHECK $DIR/page.html $DIR/t.safetensors");
}

// From 25 tokens on most layers are pictures of 8 bits, and the page says "about".
Test(page, says_about_where_numbers_are_of_8_bits) {
    check_in_browser("LONG='--prompt-ids 1,304,703,1379,352,266,284,299,268,501,453,266,646,1990'\n"
                     "$RUN view $LONG -n 40 --layers 1,4-5 --out $DIR/page.html -q &&\n"
                     "$RUN trace $LONG -n 40 --attention --out $DIR/t.safetensors -q || exit",
                     "$CHECK $DIR/page.html $DIR/t.safetensors");
}

Test(page, of_a_trace_shows_its_tensors) {
    check_in_browser("$RUN trace $PROMPT -n 2 --attention --out $DIR/t.safetensors -q &&\n"
                     "$RUN view $DIR/t.safetensors --out $DIR/page.html -q || exit",
                     "$CHECK --trace $DIR/page.html $DIR/t.safetensors");
}

// A NaN is written over one number of the first trace.
Test(page, of_two_traces_opens_at_the_first_difference) {
    check_in_browser(
        "$RUN trace $PROMPT --attention --out $DIR/b.safetensors -q || exit\n"
        "/usr/bin/python3 - $DIR/b.safetensors $DIR/a.safetensors <<'END' || exit\n"
        "import json, struct, sys\n"
        "data = bytearray(open(sys.argv[1], 'rb').read())\n"
        "size = struct.unpack('<Q', data[:8])[0]\n"
        "entry = json.loads(data[8:8 + size])['model.layers.2.mlp.fc2']\n"
        "at = 8 + size + entry['data_offsets'][0] + 4 * (3 * entry['shape'][1] + 77)\n"
        "struct.pack_into('<f', data, at, float('nan'))\n"
        "open(sys.argv[2], 'wb').write(data)\n"
        "END\n"
        "$RUN view $DIR/a.safetensors $DIR/b.safetensors --out $DIR/page.html -q || exit",
        "$CHECK --diff $DIR/page.html $DIR/a.safetensors 2.ffn_out");
}
