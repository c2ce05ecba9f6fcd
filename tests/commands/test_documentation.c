// The pages of the repository: what they name exists, and what is generated is as generated.
#include "tests/support/program.h"

static void check_shell(const char *script) {
    if (system("/usr/bin/python3 -c 'from collections import Counter; Counter().total()' 2>&1"))
        SKIP("no python3 of version 3.10 or later");
    TestRun r = program_shell(script);
    CHECK(r.status == 0, "%s%s", r.out, r.err);
    test_run_free(&r);
}

Test(documentation, names_files_and_headings_that_exist) {
    check_shell("/usr/bin/python3 tests/programs/check_docs.py");
}

Test(documentation, evidence_names_tests_that_exist) {
    check_shell("/usr/bin/python3 tests/programs/check_evidence.py");
}

// Figures are changed by measuring, and never in the page alone.
Test(documentation, measured_tables_are_those_of_the_results) {
    check_shell("/usr/bin/python3 scripts/bench_peers --check");
    check_shell("/usr/bin/python3 scripts/how_exact --check");
    check_shell("/usr/bin/python3 scripts/conversions --check");
}

Test(documentation, the_readme_has_at_most_200_lines) {
    check_shell("test $(wc -l <README.md) -le 200 || { wc -l README.md; exit 1; }");
}

Test(documentation, ratios_are_taken_within_a_round) {
    check_shell("/usr/bin/python3 -m doctest peers/interleave.py");
}

Test(documentation, the_picture_of_the_readme_is_below_200_kb) {
    check_shell("test $(stat -c %s docs/page.png) -lt 200000 || { ls -l docs/page.png; exit 1; }");
}
