// The corpus of bad GGUF files, and the valid ones close to them, through the program with this
// backend and through that for the CPU: the same exit code and the same line.
#include "tests/support/files/gguf_corpus.h"
#include "tests/support/program.h"

#include <unistd.h>

static const char CPU_RUN[] = "build/cpu-release/run";

static TestRun run_of(const char *run, const char *path) {
    const char *const argv[] = {run,  "generate", path, "--prompt-ids", "1,3", "--max-tokens",
                                "2",  "-t",       "0",  "-j",           "1",   "--ids",
                                "-q", NULL};
    return test_run(argv, NULL, 0);
}

Test(cuda_hostile, every_file_is_answered_as_by_the_program_for_the_cpu) {
    const char *path = test_temporary("case.gguf");
    int wrong = 0, refused = 0, accepted = 0;
    if (access(CPU_RUN, X_OK)) SKIP("no %s to compare with", CPU_RUN);
    for (size_t i = 0; i < gguf_corpus_count(); i++) {
        const GgufCase *row = gguf_corpus(i);
        size_t size;
        uint8_t *bytes = gguf_case_write(row, &size);
        test_write_file(path, bytes, size);
        free(bytes);
        TestRun cuda = run_of(TEST_RUN, path), cpu = run_of(CPU_RUN, path);
        if (cuda.status != cpu.status || strcmp(cuda.err, cpu.err) || strcmp(cuda.out, cpu.out)) {
            fprintf(stderr, "%s: %d, \"%s%s\"; on the CPU %d, \"%s%s\"\n", row->id, cuda.status,
                    cuda.out, cuda.err, cpu.status, cpu.out, cpu.err);
            wrong++;
        }
        refused += cuda.status == 3;
        accepted += cuda.status == 0;
        test_run_free(&cuda);
        test_run_free(&cpu);
    }
    CHECK_INT(wrong, 0);
    CHECK(refused > 100 && accepted > 10, "%d refused, %d accepted", refused, accepted);
}
