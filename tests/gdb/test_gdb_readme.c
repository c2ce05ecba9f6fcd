// The debugger session of README.md: its commands are run, and print what the page shows. Numbers
// may differ in their last digits, since the page is of the plain loops. Where the program stops
// depends on the build, but every line of the source that a page shows is one of the source.
#include "tests/support/debugger.h"

enum { SESSION_SIZE = 4000 };

typedef struct Session {
    char program[200];             // what follows ./run
    char commands[SESSION_SIZE];   // a script
    char shown[SESSION_SIZE];      // lines of output
    int n_commands, n_lines_shown; // of these
} Session;

// Where a breakpoint is depends on the build: "Breakpoint 1, observe (..", "76<tab>    if (..".
static bool of_the_build(const char *line) {
    return !strncmp(line, "Breakpoint ", 11) || (*line >= '0' && *line <= '9');
}

static void append_line(char *text, const char *line) {
    CHECK(strlen(text) + strlen(line) + 2 < SESSION_SIZE, "the session is too long for this test");
    strcat(strcat(text, line), "\n");
}

static void take_line(Session *s, const char *line) {
    const char *program = strstr(line, "--args ./run");
    if (!strncmp(line, "$ gdb ", 6) && program) {
        snprintf(s->program, sizeof s->program, "%s", program + strlen("--args ./run"));
    } else if (!strncmp(line, "(gdb) ", 6)) {
        append_line(s->commands, line + 6);
        s->n_commands++;
    } else if (!of_the_build(line)) {
        append_line(s->shown, line);
        s->n_lines_shown++;
    }
}

static char *read_text(const char *path) {
    size_t size;
    char *text = test_read_file(path, &size);
    text = realloc(text, size + 1);
    CHECK(text);
    text[size] = '\0';
    return text;
}

static void read_session(Session *s) {
    char *page = read_text("README.md");
    char *begin = strstr(page, "## A debugger session");
    begin = begin ? strstr(begin, "```\n") : NULL;
    char *end = begin ? strstr(begin + 4, "```\n") : NULL;
    CHECK(end, "no session in README.md");
    *end = '\0';
    for (char *rest = begin + 4, *line; (line = strsep(&rest, "\n"));)
        if (*line) take_line(s, line);
    free(page);
}

// Words are equal, or numbers near each other, with the same punctuation behind them.
static bool same_word(const char *a, const char *b) {
    if (!strcmp(a, b)) return true;
    char *rest_a, *rest_b;
    double x = strtod(a, &rest_a), y = strtod(b, &rest_b);
    return rest_a != a && rest_b != b && !strcmp(rest_a, rest_b) &&
           fabs(x - y) <= 2e-3 * fmax(1, fabs(x));
}

static bool same_line(const char *a, const char *b) {
    char copies[2][400], *rests[2] = {copies[0], copies[1]};
    snprintf(copies[0], sizeof copies[0], "%s", a);
    snprintf(copies[1], sizeof copies[1], "%s", b);
    for (;;) {
        char *words[2];
        for (int i = 0; i < 2; i++)
            while ((words[i] = strsep(&rests[i], " ")) && !*words[i])
                ;
        if (!words[0] || !words[1]) return !words[0] && !words[1];
        if (!same_word(words[0], words[1])) return false;
    }
}

// Each line shown, in order; others may be between them.
static void check_shown(const TestRun *r, char *shown) {
    char *output = strdup(r->out), *rest = output;
    CHECK(output);
    for (char *line; (line = strsep(&shown, "\n")) && *line;) {
        char *printed = strsep(&rest, "\n");
        while (printed && !same_line(line, printed))
            printed = strsep(&rest, "\n");
        CHECK(printed, "README.md shows \"%s\", and gdb printed\n%s%s", line, r->out, r->err);
    }
    free(output);
}

Test(gdb_readme, the_session_prints_what_the_page_shows) {
    static Session s;
    need_calls();
    need_builtin();
    read_session(&s);
    CHECK(*s.program && s.n_commands >= 8 && s.n_lines_shown >= 8, "%d commands, %d lines",
          s.n_commands, s.n_lines_shown);
    const char *script = test_temporary("session.gdb");
    test_write_file(script, s.commands, strlen(s.commands));
    TestRun r = program_shell(test_text(
        "gdb -nx -batch -x scripts/limpid-gdb.py -x %s --args $RUN%s", script, s.program));
    check_good(&r);
    check_shown(&r, s.shown);
    test_run_free(&r);
}

static void check_source_line(const char *path, int number, const char *wanted) {
    char *source = read_text(path), *rest = source, *line = NULL;
    for (int i = 0; i < number; i++)
        line = strsep(&rest, "\n");
    CHECK(line && !strcmp(line, wanted), "line %d of %s is \"%s\", a page shows \"%s\"", number,
          path, line ? line : "", wanted);
    free(source);
}

// "Breakpoint 1 at 0x7e258: file PATH, line N." and, where it stops, "N<tab>TEXT". Returns how many
// lines of the source were shown.
static int check_stops(const char *page) {
    char *text = read_text(page), *rest = text, path[100] = "", where[120];
    int set = 0, shown, used, count = 0;
    for (char *line; (line = strsep(&rest, "\n"));) {
        sscanf(line, "Breakpoint %*d at %*x: file %99[^,], line %d.", path, &set);
        if (!strncmp(line, "Breakpoint 1, ", 14)) {
            snprintf(where, sizeof where, " at %s:%d", path, set);
            CHECK(strstr(line, where), "%s: no \"%s\" in \"%s\"", page, where, line);
        }
        if (sscanf(line, "%d%n", &shown, &used) != 1 || line[used] != '\t') continue;
        CHECK(shown == set, "%s: line %d, and the breakpoint is at %d", page, shown, set);
        check_source_line(path, shown, line + used + 1);
        count++;
    }
    free(text);
    return count;
}

Test(gdb_readme, lines_of_the_source_are_those_of_the_source) {
    CHECK_INT(check_stops("README.md"), 1);
    CHECK_INT(check_stops("docs/laboratory.md"), 1);
}
