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

Test(documentation, and_comments_have_one_name_for_one_thing) {
    check_shell("/usr/bin/python3 tests/programs/check_words.py");
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

// Before minutes of measuring, and before a page is written.
Test(documentation, scripts_that_measure_refuse_wrong_arguments) {
    check_shell("refused() { said=$(/usr/bin/python3 \"$@\" 2>&1); code=$?; "
                "    [ $code = 2 ] || { echo \"$*: exit $code: $said\"; exit 1; }; }; "
                "refused scripts/conversions --models builtin --types q9; "
                "refused scripts/how_exact --only nosuch --out /dev/null; "
                "refused scripts/bench_peers --publish --models stories260K --python false");
}

Test(documentation, scripts_of_the_readme_answer_help) {
    check_shell(
        "for s in get_model setup test run_tests; do "
        "said=$(scripts/$s --help 2>/dev/null) && [ \"$said\" ] || "
        "{ echo \"$s --help: $?, $said\"; exit 1; }; "
        "scripts/$s nosuch >/dev/null 2>&1; [ $? = 2 ] || { echo \"$s nosuch\"; exit 1; }; done");
}

// Before the work that needs it. -S: without the packages of Debian.
Test(documentation, scripts_say_in_a_line_what_is_missing) {
    check_shell("missing() { wanted=$1; shift; said=$(\"$@\" 2>&1); code=$?; "
                "    [ \"$code $said\" = \"4 $wanted\" ] || { echo \"$*: exit $code: $said\"; exit "
                "1; }; }; "
                "none() { wanted=$1; shift; PATH=/nonexistent missing \"$wanted\" /usr/bin/python3 "
                "\"$@\"; }; "
                "none 'coverage: no clang, llvm-profdata, llvm-cov: apt install clang llvm' "
                "scripts/coverage json; "
                "none 'messages: no clang, llvm-profdata, llvm-cov: apt install clang llvm' "
                "scripts/messages; "
                "none 'mutation: no clang: apt install clang' scripts/mutation json; "
                "none 'same_output: no gcc, g++, clang, clang++: apt install gcc g++ clang' "
                "scripts/same_output; "
                "none 'torture_convert: no nosuch/run: make all build/cpu-release/tests/faults.so, "
                "or name another "
                "--build' scripts/torture_convert --build nosuch; "
                "none 'quant_vectors: needs gguf, numpy: pip install gguf numpy' -S "
                "scripts/quant_vectors.py; "
                "none 'record_chat: needs pyte: apt install python3-pyte, or pip install pyte' -S "
                "scripts/record_chat");
}

// As where the disk is full: 512 bytes are the most that a file may have.
Test(documentation, a_page_that_cannot_be_written_stays_as_it_was) {
    char line[1000];
    snprintf(line, sizeof line,
             "o=%s; echo old >$o; (ulimit -f 1; "
             "/usr/bin/python3 scripts/how_exact --render --out $o 2>$o.said); "
             "[ $? = 4 ] && [ \"$(cat $o)\" = old ] && [ ! -e $o.part ] && "
             "[ \"$(cat $o.said)\" = \"how_exact: $(realpath $o): File too large\" ] || "
             "{ head -n 5 $o $o.said; exit 1; }",
             test_temporary("exactness.md"));
    check_shell(line);
}

// The same keys, with the built-in model: docs/chat.md has the steps that the script takes today,
// and each shows what it is about.
Test(documentation, the_recorded_conversation_is_one_of_this_program) {
    static const char SCRIPT[] =
        "o=%s; /usr/bin/python3 scripts/record_chat --run $RUN --model $MODEL --out $o && "
        "grep -E '^(##|Typed)' $o >$o.steps && grep -E '^(##|Typed)' docs/chat.md | diff $o.steps "
        "- && "
        "for shown in 'What is the capital of France?$' '^- two apples' 'answer are forgotten' "
        "'capital of Italy?' '^[.] and a dog' 'temperature is 0.8' 'exchanges* left it' "
        "'of 300 tokens of the context' '/udno is no command' 'ends the conversation$' '^mind, "
        "never mind,$' "
        "'^  /exit            ends the$'; do "
        "grep -q \"$shown\" $o || { echo \"no $shown\"; cat $o; exit 1; }; done";
    char line[2000];
    if (!TEST_EDIT || strcmp(TEST_BACKEND, "cpu") != 0) SKIP("a CPU build with a line editor");
    if (TEST_SANITIZED) SKIP("a sanitizer sees nothing in it that the tests of the chat do not");
    if (system("/usr/bin/python3 -c 'import pyte' 2>/dev/null")) SKIP("no pyte");
    snprintf(line, sizeof line, SCRIPT, test_temporary("chat.md"));
    check_shell(line);
}

// The lines of docs/prompts.md, answered: each answer but the header, whose options it cuts short,
// and the digest stand there.
Test(documentation, the_answers_of_prompts_are_those_of_this_program) {
    static const char SCRIPT[] =
        "d=%s; mkdir $d && sed -n '/^. cat prompts.jsonl/,/^. .\\/run/p' docs/prompts.md | "
        "grep '^{' >$d/in && test $(wc -l <$d/in) = 4 && "
        "{ $RUN $MODEL --prompts $d/in --out $d/out 2>$d/said || { cat $d/said; exit 1; }; } && "
        "sed 1d $d/out >$d/lines && "
        "while IFS= read -r line; do grep -qxF -- \"$line\" docs/prompts.md || "
        "{ echo \"$line\"; exit 1; }; done <$d/lines && "
        "grep -q \"$(grep -o 'digest [0-9a-f]*' $d/said)\\$\" docs/prompts.md";
    char line[1200];
    if (strcmp(TEST_BACKEND, "cpu") != 0) SKIP("other last bits");
    snprintf(line, sizeof line, SCRIPT, test_temporary("answered"));
    TestRun r = program_shell(line);
    if (strstr(r.out, "without jansson")) SKIP("this build reads no JSON");
    CHECK(r.status == 0, "%s%s", r.out, r.err);
    test_run_free(&r);
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
