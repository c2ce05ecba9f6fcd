// Every allocation and every call on files of generate --prompts and of merge fails, once alone and
// once with all later ones: one error line and the right exit code, or the usual answers.
#include "tests/support/faults.h"

static const char LINES[] =
    "{\"id\":\"a\",\"prompt_ids\":[1,3,4],\"stop\":[\"zz\"],\"max_tokens\":2}\n"
    "{\"id\":\"b\",\"prompt\":\"a b\",\"samples\":2,\"max_tokens\":2}\n"
    "{\"prompt\":\"a b a\",\"continuation\":\" b\"}\n"
    "{\"id\":\"a\"}\nno JSON\n";

typedef struct Files {
    char prompts[300], out[300];
} Files;

static Files files_open(void) {
    Files f = {0};
    snprintf(f.prompts, sizeof f.prompts, "%s", test_temporary("prompts"));
    snprintf(f.out, sizeof f.out, "%s", test_temporary("out.jsonl"));
    test_write_file(f.prompts, LINES, sizeof LINES - 1);
    return f;
}

#define GENERATE(kind_, other_, f_, ...)                                                           \
    WALK(kind_, other_, "generate", fault_gguf(), "--prompts", (f_)->prompts, "--out", (f_)->out,  \
         "-q", "-j", "1", "--parallel", "2", __VA_ARGS__)

Test(prompts_faults, memory_of_prompts) {
    Files f = files_open();
    GENERATE("memory", 0, &f, "--force");
}

Test(prompts_faults, files_of_prompts) {
    Files f = files_open();
    GENERATE("files", 4, &f, "--force");
}

// Each run finds what the one before has left.
Test(prompts_faults, memory_and_files_of_resume) {
    Files f = files_open();
    GENERATE("memory", 0, &f, "--resume");
    GENERATE("files", 4, &f, "--resume");
}

Test(prompts_faults, memory_and_files_of_merge) {
    Files f = files_open();
    char first[400], merged[300];
    snprintf(merged, sizeof merged, "%s", test_temporary("merged"));
    for (int i = 0; i < 2; i++) {
        TestRun run = program("generate|%s|--prompts|%s|--out|%s|-q|--shard|%d/2", fault_gguf(),
                              f.prompts, f.out, i);
        check_status(&run, 0);
        test_run_free(&run);
    }
    snprintf(first, sizeof first, "%.*s.0-of-2.jsonl", (int)strlen(f.out) - 6, f.out);
    WALK("memory", 0, "merge", first, "--out", merged, "--force");
    WALK("files", 4, "merge", first, "--out", merged, "--force");
}
