// The library as it is installed, and the programs of examples/ with it: what it exports, that the
// examples print what the program prints, and that nothing is left behind in memory.
#include "tests/support/program.h"

#include <unistd.h>

static void need_plain_build(void) {
    if (TEST_SANITIZED) SKIP("a sanitizer adds names and wants to be loaded first");
}

static void need_program(const char *probe) {
    TestRun run = test_run((const char *[]){"/bin/sh", "-c", probe, NULL}, NULL, 0);
    int status = run.status;
    test_run_free(&run);
    if (status) SKIP("not here: %s", probe);
}

static char *shell(const char *script) {
    TestRun run = test_run((const char *[]){"/bin/sh", "-c", script, NULL}, NULL, 0);
    CHECK_INT(run.status, 0);
    free(run.err);
    return run.out;
}

// What `first` and `second` print is the same.
static void check_same_output(const char *first, const char *second) {
    char *a = shell(first), *b = shell(second);
    CHECK(*a, "%s prints nothing", first);
    CHECK_STRING(a, b);
    free(a);
    free(b);
}

// ---- what the library exports ----

// The functions of the header, a line each.
#define DECLARED                                                                                   \
    "sed -n '/^typedef/d; s/^[a-z].*[ *]\\(limpid_[a-z_]*\\)(.*/\\1/p' limpid.h | sort"

Test(library_files, export_the_functions_of_the_header_and_nothing_else) {
    need_plain_build();
    char *declared = shell(DECLARED);
    CHECK(strstr(declared, "limpid_open\n") && strstr(declared, "limpid_sampler_open\n"), "%s",
          declared);
    free(declared);
    check_same_output(
        "nm -D --defined-only " TEST_BUILD "/liblimpid.so.0 | "
        "sed -n 's/.* T \\([a-z_]*\\)@@LIMPID_0$/\\1/p; s/.* [BDRV] /data: /p' | sort",
        DECLARED);
    check_same_output("nm -g --defined-only " TEST_BUILD "/liblimpid.a | "
                      "sed -n '/ /s/.* [A-Z] //p' | sort",
                      DECLARED);
}

// Constants with pointers are relocated and then read-only. What can be written: the table of
// mapping_guard, which the library does not call; what is made once for the process, the key of
// hash tables and jansson's allocator (base/hash.c, base/json.c); what the processes of a program
// under MPI know of each other, `here` of model/ranks.c, which one process alone does not touch;
// and names of the compiler's.
Test(library_files, have_no_variables_of_their_own) {
    need_plain_build();
    static const char KNOWN[] =
        " allocate_before here installed key_made page_bytes previous process_key "
        "release_before slots ";
    char *variables = shell("objdump -t " TEST_BUILD "/liblimpid.so.0 | awk '/ O \\.(bss|data)\t/ "
                            "{ print \" \" $NF \" \" }' | grep -v ' _\\| DW\\| completed'");
    CHECK(strstr(variables, " slots \n"), "%s", variables);
    for (char *name = strtok(variables, "\n"); name; name = strtok(NULL, "\n"))
        CHECK(strstr(KNOWN, name), "%s", name);
    free(variables);
}

Test(library_files, neither_print_nor_end_the_program) {
    need_plain_build();
    char *found = shell(
        "nm -D --undefined-only " TEST_BUILD "/liblimpid.so.0 | sed 's/.* //; s/@.*//' | "
        "grep -x 'pread\\|.*printf.*\\|.*puts\\|.*putc.*\\|f*write\\|perror\\|std[oe].*\\|_*exit\\|"
        "abort\\|quick_exit\\|setenv\\|setlocale\\|signal' | grep -v 'v*a*snprintf\\|vasprintf'");
    CHECK_STRING(found, "pread\n"); // which shows that names are found
    free(found);
}

// A C++ program with templates that the tokenizer has too, and a function with a name of ours.
Test(library_files, the_archive_leaves_the_callers_names_alone) {
    need_plain_build();
    need_program("c++ --version && pkg-config --version");
    const char *source = test_temporary("caller.cpp"), *program = test_temporary("caller");
    static const char TEXT[] =
        "#include \"limpid.h\"\n#include <string>\n#include <vector>\n#include <cstdio>\n"
        "extern \"C\" int model_open(void) { return 7; }\n"
        "int main() {\n"
        "    std::vector<std::string> words{\"a\", \"b\"};\n"
        "    words.push_back(\"c\");\n"
        "    std::printf(\"%s %d %zu\\n\", limpid_version(), model_open(), words.size());\n"
        "    return limpid_open(\"/no/such/file\", nullptr, nullptr) != nullptr;\n"
        "}\n";
    char script[2000];
    test_write_file(source, TEXT, strlen(TEXT));
    snprintf(
        script, sizeof script,
        "libs=$(PKG_CONFIG_PATH=%s pkg-config --static --libs-only-l --libs-only-other limpid) && "
        "c++ -I. -o %s %s %s/liblimpid.a ${libs#*-llimpid} && %s",
        TEST_BUILD, program, source, TEST_BUILD, program);
    char *said = shell(script);
    CHECK_STRING(said, "0.1.0 7 3\n");
    free(said);
}

// ---- the examples ----

#define PROMPT "'Once upon a time, there was a dog'"

static void check_generate(const char *program) {
    char script[1000], wanted[1000];
    snprintf(script, sizeof script, "%s %s " PROMPT " 7", program, small_model());
    snprintf(wanted, sizeof wanted, "%s %s -i " PROMPT " -t 0.8 -p 0.9 -s 7 --max-tokens 60 -q",
             TEST_RUN, small_model());
    check_same_output(script, wanted);
}

Test(examples, generate_prints_what_the_program_prints) {
    check_generate(TEST_BUILD "/examples/generate-static");
    check_generate(TEST_BUILD "/examples/generate");
}

Test(examples, generate_tells_what_is_wrong_with_a_file) {
    TestRun run =
        test_run((const char *[]){TEST_BUILD "/examples/generate", "/no/such", NULL}, NULL, 0);
    check_refused_by("generate", &run, 1, "/no/such: cannot open it");
}

// Numbers of `attention --entropy`, which come another way: by a listener of model/, in a file.
Test(examples, entropy_prints_what_attention_prints) {
    char script[1000];
    snprintf(script, sizeof script, TEST_BUILD "/examples/entropy %s " PROMPT, small_model());
    char *table = shell(script), *at = strchr(table, '\n');
    snprintf(script, sizeof script, "%s attention %s -i " PROMPT " --entropy --json", TEST_RUN,
             small_model());
    char *json = shell(script);
    int heads = 0;
    CHECK(at, "%s", table);
    for (const char *head = json; (head = strstr(head, "{\"layer\":")); head++, heads++) {
        int layer = (int)strtol(head + 9, NULL, 10);
        const char *number = strstr(head, "\"head\":"),
                   *entropy = strstr(head, "\"entropy_bits\":");
        int column = (int)strtol(number + 7, NULL, 10);
        const char *line = at;
        for (int l = 0; l < layer; l++)
            CHECK((line = strchr(line + 1, '\n')), "layer %d", layer);
        CHECK_INT(strtol(line, (char **)&line, 10), layer);
        double got = 0;
        for (int h = 0; h <= column; h++)
            got = strtod(line, (char **)&line);
        CHECK_NEAR(got, strtod(entropy + 15, NULL), 0.0005001); // three digits
    }
    CHECK(heads >= 8, "%d heads", heads);
    free(table);
    free(json);
}

// Greedy, by numpy's own argmax of the logits.
Test(examples, python_sees_the_same_logits) {
    need_plain_build();
    need_program("/usr/bin/python3 -c 'import numpy'");
    char script[1000], wanted[1000];
    snprintf(script, sizeof script,
             "LIMPID_LIBRARY=%s/liblimpid.so.0 /usr/bin/python3 examples/generate.py %s " PROMPT
             " | sed 's/^ *\\([0-9]*\\) .*/\\1/'",
             TEST_BUILD, small_model());
    snprintf(wanted, sizeof wanted, "%s %s -i " PROMPT " -t 0 --max-tokens 20 -q --ids", TEST_RUN,
             small_model());
    check_same_output(script, wanted);
}

// Its blocks of C, one after the other, are a program; what it prints. `runner`: before its path.
static char *page_program(const char *runner) {
    char script[2000];
    const char *source = test_temporary("page.c"), *built = test_temporary("page");
    snprintf(
        script, sizeof script,
        "awk '/^```c$/ { inside = 1; next } /^```/ { inside = 0 } inside' docs/library.md >%s && "
        "cc -std=gnu11 -Wall -Werror -I. -o %s %s -L%s -llimpid -Wl,-rpath,$PWD/%s && %s %s",
        source, built, source, TEST_BUILD, TEST_BUILD, runner, built);
    return shell(script);
}

Test(library_page, its_program_runs_and_samples_what_the_program_samples) {
    need_plain_build();
    need_program("cc --version");
    char *said = page_program("");
    char *text = shell(TEST_RUN " -i 'Once upon a time' -t 0.8 -p 0.9 --repeat-penalty 1.1 -s 1 "
                                "--max-tokens 20 -q");
    CHECK(strlen(text) > 30 && strstr(said, text + strlen("Once upon a time")), "%s", said);
    CHECK(strstr(said, "limpid 0.1.0\nnanochat, 6 layers"), "%s", said);
    CHECK(strstr(said, "\n The dog was ") || strstr(said, "\n The cat was "), "%s", said);
    CHECK(strstr(said, "no known chat format") && strstr(said, "\nlayer 0: squared length"), "%s",
          said);
    free(said);
    free(text);
}

// Second names of options left out.
Test(library_page, has_every_option_of_generate) {
    char *missing = shell(
        TEST_RUN " --options | awk -F '\t' '$1 == \"generate\" && $2 ~ /^--/ { print $2 }' | "
                 "grep -vxe '--temperature\\|--n*-*predict\\|--mirostat-eta\\|--mirostat-tau\\|"
                 "--grammar-file\\|--json-schema-file\\|--system-prompt\\|--model-draft\\|--draft-"
                 "model' | while read -r name; do "
                 "grep -qe \"\\`$name\\`\" docs/library.md || echo \"$name\"; done; " TEST_RUN
                 " --options | grep -c '^generate.--mirostat.0'");
    CHECK_STRING(missing, "1\n"); // which shows that there is a list
    free(missing);
}

Test(examples, leave_nothing_in_memory) {
    need_plain_build();
    need_program("valgrind --version");
    char script[1000];
    snprintf(script, sizeof script,
             "LIMPID_ISA=avx2 valgrind -q --leak-check=full --error-exitcode=9 "
             "%s/examples/generate-static %s Once 3 && "
             "LIMPID_ISA=avx2 valgrind -q --leak-check=full --error-exitcode=9 "
             "%s/examples/entropy-static %s Once",
             TEST_BUILD, small_model(), TEST_BUILD, small_model());
    free(shell(script));
}

// Every function of the header but those of files, a grammar among them.
Test(library_page, its_program_leaves_nothing_in_memory) {
    need_plain_build();
    need_program("valgrind --version && cc --version");
    free(page_program("LIMPID_ISA=avx2 valgrind -q --leak-check=full --error-exitcode=9"));
}
