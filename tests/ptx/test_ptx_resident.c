// nvcc's PTX of a kernel whose blocks wait for each other and that copies in bulk (resident.cu),
// and what the interpreter makes of mistakes in it: lines exchanged in the text.
#include "tests/ptx/ptx.h"
#include "tests/test.h"

enum { BLOCKS = 2, THREADS = 64, LANES = 32, CHUNKS = 4, MEMORY = 2 * 272 };

typedef struct Arrays {
    _Alignas(16) float weights[CHUNKS][LANES];
    float out[BLOCKS][THREADS], x[BLOCKS][THREADS], sums[BLOCKS][THREADS];
    uint32_t counter;
} Arrays;

static void fill(Arrays *a) {
    static const float CHUNK_WEIGHTS[CHUNKS] = {1, 2, 4, 8};
    memset(a, 0xff, sizeof *a);
    a->counter = 0;
    for (int c = 0; c < CHUNKS; c++)
        for (int l = 0; l < LANES; l++)
            a->weights[c][l] = CHUNK_WEIGHTS[c];
}

#define BUFFERS_OF(a)                                                                              \
    ((const PtxBuffer[5]){{(a)->out, sizeof(a)->out},                                              \
                          {(a)->x, sizeof(a)->x},                                                  \
                          {(a)->sums, sizeof(a)->sums},                                            \
                          {(a)->weights, sizeof(a)->weights},                                      \
                          {&(a)->counter, sizeof(a)->counter}})

static const PtxLaunch ALL_AT_ONCE = {BLOCKS, THREADS, MEMORY, true};

static const char *kernel_text(void) {
    static char text[16384];
    FILE *file = fopen("tests/ptx/resident.ptx", "r");
    CHECK(file, "tests/ptx/resident.ptx");
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    return text;
}

// The kernel's text, or one that was exchanged before, with the first `old` exchanged.
static const char *exchanged_in(const char *text, const char *old, const char *new) {
    static char changed[2][16384];
    char *to = changed[text == changed[0]];
    const char *at = strstr(text, old);
    CHECK(at, "the PTX has no %s", old);
    snprintf(to, sizeof changed[0], "%.*s%s%s", (int)(at - text), text, new, at + strlen(old));
    return to;
}
static const char *exchanged(const char *old, const char *new) {
    return exchanged_in(kernel_text(), old, new);
}

static int wrong_values(const char *text) {
    static Arrays a;
    int wrong = 0;
    fill(&a);
    ptx_launch(text, "resident", ALL_AT_ONCE, BUFFERS_OF(&a), 5);
    for (int i = 0; i < BLOCKS * THREADS; i++)
        wrong += a.out[i / THREADS][i % THREADS] != 15;
    return wrong;
}

static void finds_at(int line, const char *text, PtxLaunch launch, const char *words) {
    static Arrays a;
    fill(&a);
    const char *said = ptx_complaint(text, "resident", launch, BUFFERS_OF(&a), 5);
    CHECK(strstr(said, words), "line %d: '%s' is not in: %s", line, words, said);
}
#define FINDS(text, words) finds_at(__LINE__, text, ALL_AT_ONCE, words)

#define WAIT "mbarrier.try_wait.parity.shared::cta.b64 p, [%r"
#define EXPECT "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r10], %r20;"
#define COPY                                                                                       \
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r14], [%rd7], %r20, "     \
    "[%r10];"

Test(ptx_resident, blocks_of_a_cooperative_launch_wait_for_each_other) {
    CHECK(wrong_values(kernel_text()) == 0);
}

Test(ptx_resident, a_slot_that_is_read_before_its_copy_is_not_a_number) {
    const char *without = exchanged("ld.shared.f32 \t%f11, [%r71+128];", "");
    const char *early = exchanged_in(without, "mov.u32 \t%r65, 1;",
                                     "mov.u32 %r65, 1; ld.shared.f32 %f11, [%r40+144];");
    CHECK(wrong_values(early) == BLOCKS * THREADS);
}

Test(ptx_resident, blocks_that_do_not_run_at_once_wait_for_ever) {
    PtxLaunch one_by_one = ALL_AT_ONCE;
    one_by_one.cooperative = false;
    finds_at(__LINE__, kernel_text(), one_by_one, "waits for what no other thread will do");
}

Test(ptx_resident, mistakes_with_copy_barriers_are_errors) {
    FINDS(exchanged("mov.u32 \t%r36, 0;", "mov.u32 %r36, 1;"), "before the phase before");
    FINDS(exchanged("mbarrier.init.shared::cta.b64 [%r21], 1;", ""), "not initialised");
    FINDS(exchanged("mbarrier.init.shared::cta.b64 [%r21], 1;",
                    "mbarrier.init.shared::cta.b64 [%r21], 2;"),
          "2 arrivals");
    FINDS(exchanged(EXPECT, ""), "before the copies_expected");
    FINDS(exchanged(EXPECT, EXPECT EXPECT), "before the phase before");
    FINDS(exchanged(COPY, ""), "waits for what no other thread will do");
    FINDS(exchanged(COPY, COPY COPY), "more bytes than copies_expected");
    FINDS(exchanged("add.s32 \t%r14, %r10, 16;", "add.s32 %r14, %r10, 8;"), "multiple of 16");
}

Test(ptx_resident, a_copy_from_or_to_nowhere_is_an_error) {
    FINDS(exchanged("add.s64 \t%rd20, %rd7, 384;", "add.s64 %rd20, %rd7, 400;"), "outside");
    finds_at(__LINE__, kernel_text(), (PtxLaunch){BLOCKS, THREADS, MEMORY - 16, true}, "outside");
}

Test(ptx_resident, a_block_that_ends_while_it_copies_is_an_error) {
    FINDS(exchanged(WAIT "8], %r65;", "setp.eq.u32 p, 0, 0;"), "ends with bulk copies");
}
