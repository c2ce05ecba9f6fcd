// The completions of bash, zsh and fish, each asked by its shell, against `run --options`.
#include "tests/support/program.h"

#include <unistd.h>

static char *words(const char *script) {
    TestRun run = program_shell(script);
    CHECK(run.status == 0, "%s: %s", script, run.err);
    free(run.err);
    return run.out;
}

static void need_shell(const char *name) {
    char probe[60];
    snprintf(probe, sizeof probe, "command -v %s >/dev/null || echo none", name);
    char *said = words(probe);
    bool none = *said;
    free(said);
    if (none) SKIP("no %s on this machine", name);
}

static bool has_line(const char *text, const char *line) {
    size_t length = strlen(line);
    for (const char *at = text; (at = strstr(at, line)); at++)
        if ((at == text || at[-1] == '\n') && (at[length] == '\n' || at[length] == '\t'))
            return true;
    return false;
}

Test(completion, the_list_has_commands_and_what_follows_their_options) {
    TestRun run = program("--options");
    check_status(&run, 0);
    static const char *const LINES[] = {
        "chat\t\ta conversation\n",   "generate\t--precision\tf32|a16|a8\n",
        "generate\t-i\tTEXT\n",       "generate\t--prompt\tTEXT\n",
        "generate\t--ids\t\n",        "perplexity\t--ids\tTEXT\n",
        "bench\t--threads\tNUMBER\n", "bench\t--only\tprefill|decode\n",
        "inspect\t--help\t\n",
    };
    for (size_t i = 0; i < sizeof LINES / sizeof *LINES; i++)
        CHECK(strstr(run.out, LINES[i]), "no %s", LINES[i]);
    CHECK(!strstr(run.out, "diff\t--temp"), "diff has no temperature");
    test_run_free(&run);
}

// What is offered for the last of some words, a line each.
typedef struct Case {
    const char *typed[4];
    const char *offered[3], *not_offered;
} Case;
static const Case CASES[] = {
    {{"chat", "--prec"}, {"--precision"}, "--temp"},
    {{"bench", "-"}, {"--threads", "--only", "--help"}, "--system"},
    {{"--precision", "a"}, {"a16", "a8"}, "f32"},
    {{"be"}, {"bench"}, "chat"},
    {{"--ver"}, {"--version", "--verbose"}, "--limits"},
    {{"generate", "--ver"}, {"--verbose"}, "--version"},
    {{"bench", "--only", ""}, {"prefill", "decode"}, "README.md"},
    {{"inspect", "READ"}, {"README.md"}, "--all"},
    {{"inspect", "--html", "READ"}, {"README.md"}, "--all"},
    {{"-i", "mask", "--temp"}, {"--temp", "--template"}, "--seq"}, // a command is the first word
    {{"chat", "--precision=a"}, {"a16", "a8"}, "f32"},
    {{"hel"}, {"help"}, "chat"},
    {{"help", ""}, {"chat", "bench", "generate"}, "README.md"},
    {{"help", "ch"}, {"chat"}, "README.md"},
};

// `ask`: a script that completes the arguments in "$@"; `limpid` is the program.
static void check_shell(const char *shell, const char *ask) {
    need_shell(shell);
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        const Case *c = &CASES[i];
        char script[2500], typed[200] = "";
        for (int w = 0; w < 4 && c->typed[w]; w++) {
            size_t at = strlen(typed);
            snprintf(typed + at, sizeof typed - at, " '%s'", c->typed[w]);
        }
        snprintf(script, sizeof script, "PATH=%s:$PATH; ln -sf $PWD/$RUN %s/limpid; %s%s",
                 test_temporary("."), test_temporary("."), ask, typed);
        char *got = words(script);
        // Of --option=value bash and zsh take the value, fish the whole word.
        for (char *at = got; (at = strstr(at, "--precision="));)
            memmove(at, strchr(at, '=') + 1, strlen(strchr(at, '=')));
        for (int o = 0; o < 3 && c->offered[o]; o++)
            CHECK(has_line(got, c->offered[o]), "%s%s: no %s in %s", shell, typed, c->offered[o],
                  got);
        CHECK(!has_line(got, c->not_offered), "%s%s: %s", shell, typed, c->not_offered);
        free(got);
    }
}

Test(completion, of_bash) {
    check_shell(
        "bash",
        "bash -c 'source scripts/completion/limpid.bash; COMP_WORDS=(limpid); "
        "for w; do case $w in --*=*) COMP_WORDS+=(\"${w%%=*}\" = \"${w#*=}\");; "
        "*) COMP_WORDS+=(\"$w\");; esac; done; "
        "COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _limpid; printf \"%s\\n\" \"${COMPREPLY[@]}\"' _");
}

// A name with a space is one answer, and bash is told to quote it.
Test(completion, of_bash_knows_names_with_spaces) {
    need_shell("bash");
    const char *directory = test_temporary("names");
    char script[1000];
    snprintf(script, sizeof script,
             "mkdir %s; touch '%s/my model.gguf' '%s/my other model.gguf'; bash -c '"
             "source scripts/completion/limpid.bash; compopt() { echo \"$*\"; }; "
             "COMP_WORDS=(\"$2\" inspect \"$1\"); COMP_CWORD=2; _limpid; "
             "printf \"<%%s>\\n\" \"${COMPREPLY[@]##*/}\" | sort' _ %s/my $RUN",
             directory, directory, directory, directory);
    char *got = words(script);
    CHECK_STRING(got, "-o filenames\n<my model.gguf>\n<my other model.gguf>\n");
    free(got);
}

Test(completion, of_fish) {
    check_shell("fish", "fish --no-config -c 'source scripts/completion/limpid.fish; "
                        "complete -C \"limpid $(string join -- \" \" $argv)\"' --");
}

// zsh completes in its line editor alone: one in a pseudo-terminal of zsh's own.
Test(completion, of_zsh) {
    check_shell("zsh", "zsh -f tests/support/complete.zsh");
}
