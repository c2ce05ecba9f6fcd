// The program file, as the loader reads it: what the compiler and the linker put around the code.
// And what the program says of its sandbox, which tests/base/test_sandbox.c looks at from inside.
#include "tests/support/program.h"

#include <elf.h>

typedef struct ElfFile {
    char *bytes;
    size_t size;
    const Elf64_Ehdr *header;
    const Elf64_Phdr *segments;
} ElfFile;

static ElfFile open_program(void) {
    ElfFile f = {.bytes = test_read_file(TEST_RUN, &f.size)};
    CHECK(f.size > sizeof(Elf64_Ehdr) && !memcmp(f.bytes, ELFMAG, SELFMAG), "%s is no ELF file",
          TEST_RUN);
    if (f.bytes[EI_CLASS] != ELFCLASS64) SKIP("a 32-bit program");
    f.header = (const void *)f.bytes;
    f.segments = (const void *)(f.bytes + f.header->e_phoff);
    return f;
}

static const Elf64_Phdr *segment(const ElfFile *f, uint32_t type) {
    for (int i = 0; i < f->header->e_phnum; i++)
        if (f->segments[i].p_type == type) return &f->segments[i];
    return NULL;
}

// The value of an entry of the dynamic section; 0: there is none.
static uint64_t dynamic(const ElfFile *f, int64_t tag) {
    const Elf64_Phdr *segment_ = segment(f, PT_DYNAMIC);
    CHECK(segment_, "not linked dynamically");
    for (const Elf64_Dyn *d = (const void *)(f->bytes + segment_->p_offset); d->d_tag; d++)
        if (d->d_tag == tag) return d->d_un.d_val;
    return 0;
}

// Whether a symbol that ends in `end` is imported. The first segment is loaded at 0, so addresses
// of the string table are places in the file.
static bool imports(const ElfFile *f, const char *end) {
    const char *names = f->bytes + dynamic(f, DT_STRTAB);
    size_t size = dynamic(f, DT_STRSZ), length = strlen(end);
    for (size_t i = 0; i < size; i += strlen(names + i) + 1) {
        size_t own = strlen(names + i);
        if (own >= length && !strcmp(names + i + own - length, end)) return true;
    }
    return false;
}

Test(program_file, has_no_segment_that_can_be_written_and_executed) {
    ElfFile f = open_program();
    for (int i = 0; i < f.header->e_phnum; i++)
        CHECK((f.segments[i].p_flags & (PF_W | PF_X)) != (PF_W | PF_X), "segment %d", i);
    CHECK(segment(&f, PT_GNU_STACK), "the stack is executable where nothing says that it is not");
    free(f.bytes);
}

Test(program_file, is_loaded_at_a_random_address_and_bound_before_it_starts) {
    ElfFile f = open_program();
    CHECK_INT(f.header->e_type, ET_DYN);
    CHECK(dynamic(&f, DT_FLAGS_1) & DF_1_PIE, "not a position-independent executable");
    CHECK(dynamic(&f, DT_FLAGS_1) & DF_1_NOW, "functions are bound when they are first called");
    CHECK(segment(&f, PT_GNU_RELRO), "the table of functions stays writable");
    free(f.bytes);
}

Test(program_file, checks_its_stack_and_the_sizes_of_copies) {
    ElfFile f = open_program();
    CHECK(imports(&f, "__stack_chk_fail"), "no stack protector");
    // A sanitizer's checks take their place; without optimisation there are none.
#if defined(__GLIBC__) && defined(__OPTIMIZE__) && !TEST_SANITIZED
    CHECK(imports(&f, "__memcpy_chk"), "no _FORTIFY_SOURCE: memcpy");
    CHECK(imports(&f, "__snprintf_chk"), "no _FORTIFY_SOURCE: snprintf");
#endif
    free(f.bytes);
}

// ---- the sandbox, by its option ----

Test(program, runs_in_a_sandbox_unless_it_is_told_not_to) {
    static const char *const LINES[] = {"generate|%s|-i|Once|-t|0|--max-tokens|4|-v",
                                        "generate|%s|-i|Once|-t|0|--max-tokens|4|-v|--no-sandbox"};
    TestRun version = program("--version"), runs[2];
    const char *what = strstr(version.out, "sandbox: ");
    CHECK(what, "%s", version.out);
    for (int i = 0; i < 2; i++) {
        runs[i] = program(LINES[i], small_model());
        check_status(&runs[i], 0);
    }
    // The text ends with what --version said.
    CHECK(strstr(runs[0].err, what), "%s, and --version: %s", runs[0].err, what);
    CHECK(strstr(runs[1].err, "sandbox: none: --no-sandbox\n"), "%s", runs[1].err);
    CHECK_STRING(runs[0].out, runs[1].out);
    test_run_free(&version);
    test_run_free(&runs[0]);
    test_run_free(&runs[1]);
}
