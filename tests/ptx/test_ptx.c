// The PTX interpreter itself: single instructions against values by hand, the ways of a warp's
// lanes, and the mistakes of a kernel that it must find.
#include "tests/ptx/ptx.h"
#include "tests/test.h"

enum { LANES = 32, IN = 16, OUT = 4 };

// A kernel around `body`: lane l has its 16 words of `in` in %i0 .. %i15, and leaves %o0 .. %o3, at
// first 0, in its 4 words of `out`. %in and %out are their addresses.
static const char *kernel_text(const char *body) {
    static char text[16384];
    snprintf(
        text, sizeof text,
        ".version 8.0\n.target sm_90\n.address_size 64\n"
        ".shared .align 16 .b8 shared_memory[1024];\n"
        ".entry test(\n.param .u64 test_param_0,\n.param .u64 test_param_1\n)\n{\n"
        ".reg .b32 %%i<16>; .reg .b32 %%o<4>; .reg .b64 %%in; .reg .b64 %%out; .reg .b64 %%at;\n"
        ".reg .b16 %%rs<8>; .reg .b32 %%r<32>; .reg .f32 %%f<16>; .reg .f64 %%fd<4>;\n"
        ".reg .b64 %%rd<8>; .reg .pred %%p<8>;\n"
        "ld.param.u64 %%in, [test_param_0];\nld.param.u64 %%out, [test_param_1];\n"
        "mov.u32 %%r0, %%tid.x;\nmul.wide.u32 %%at, %%r0, 64;\nadd.s64 %%in, %%in, %%at;\n"
        "mul.wide.u32 %%at, %%r0, 16;\nadd.s64 %%out, %%out, %%at;\n"
        "ld.global.v4.u32 {%%i0, %%i1, %%i2, %%i3}, [%%in];\n"
        "ld.global.v4.u32 {%%i4, %%i5, %%i6, %%i7}, [%%in+16];\n"
        "ld.global.v4.u32 {%%i8, %%i9, %%i10, %%i11}, [%%in+32];\n"
        "ld.global.v4.u32 {%%i12, %%i13, %%i14, %%i15}, [%%in+48];\n"
        "mov.u32 %%o0, 0; mov.u32 %%o1, 0; mov.u32 %%o2, 0; mov.u32 %%o3, 0;\n"
        "%s\n"
        "st.global.v4.u32 [%%out], {%%o0, %%o1, %%o2, %%o3};\nret;\n}\n",
        body);
    return text;
}

typedef struct Words {
    _Alignas(16) uint32_t in[LANES][IN], out[LANES][OUT];
} Words;

#define ONE_BLOCK(n) ((PtxLaunch){.blocks = 1, .threads = (n)})
#define BUFFERS_OF(words)                                                                          \
    ((const PtxBuffer[2]){{(words)->in, sizeof(words)->in}, {(words)->out, sizeof(words)->out}})

static void run(const char *body, Words *words, unsigned threads) {
    ptx_launch(kernel_text(body), "test", ONE_BLOCK(threads), BUFFERS_OF(words), 2);
}

// The first word that a lane leaves, with a, b and c in its first three.
static uint32_t one(const char *body, uint32_t a, uint32_t b, uint32_t c) {
    Words words = {0};
    for (int l = 0; l < LANES; l++)
        words.in[l][0] = a, words.in[l][1] = b, words.in[l][2] = c;
    run(body, &words, LANES);
    return words.out[7][0];
}

static uint32_t bits_of(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

#define SAME(got, wanted) same(__LINE__, got, wanted)
static void same(int line, uint32_t got, uint32_t wanted) {
    CHECK(got == wanted, "line %d: 0x%08x, wanted 0x%08x", line, got, wanted);
}

// ---- single instructions ----

Test(ptx, dp4a_adds_four_products_of_bytes) {
    // 2 3 + 127 1 + 1 2 + -128 -1 + 5
    SAME(one("dp4a.s32.s32 %o0, %i0, %i1, %i2;", 0x80017f02, 0xff020103, 5), 268);
    // 2 3 + 127 1 + 1 2 + 128 255 + 5
    SAME(one("dp4a.u32.u32 %o0, %i0, %i1, %i2;", 0x80017f02, 0xff020103, 5), 32780);
}

Test(ptx, prmt_picks_bytes_of_two_words) {
    SAME(one("prmt.b32 %o0, %i0, %i1, 0x7531;", 0x33221100, 0x77665544, 0), 0x77553311);
    SAME(one("prmt.b32 %o0, %i0, %i1, %i2;", 0x33228100, 0x77665544, 0x4096), 0x4400ff66);
}

Test(ptx, bfi_puts_bits_into_a_word) {
    SAME(one("bfi.b32 %o0, %i0, %i1, 8, 12;", 0xabcdef, 0x11111111, 0), 0x111def11);
    SAME(one("bfe.u32 %o0, %i0, 4, 8;", 0x12345f8f, 0, 0), 0xf8);
    SAME(one("bfe.s32 %o0, %i0, 4, 8;", 0x12345f8f, 0, 0), 0xfffffff8);
}

Test(ptx, shifts_by_the_width_or_more_leave_nothing_but_the_sign) {
    SAME(one("shl.b32 %o0, %i0, %i1;", 0xffffffff, 32, 0), 0);
    SAME(one("shr.u32 %o0, %i0, %i1;", 0x80000000, 33, 0), 0);
    SAME(one("shr.s32 %o0, %i0, %i1;", 0x80000000, 40, 0), 0xffffffff);
    SAME(one("shf.l.wrap.b32 %o0, %i0, %i1, 8;", 0xaabbccdd, 0x11223344, 0), 0x223344aa);
}

Test(ptx, integer_arithmetic_wraps_and_keeps_signs) {
    SAME(one("add.s32 %o0, %i0, %i1;", 0x7fffffff, 1, 0), 0x80000000);
    SAME(one("mad.lo.s32 %o0, %i0, %i1, %i2;", 65536, 65537, 7), 65543);
    SAME(one("div.s32 %o0, %i0, %i1;", (uint32_t)-7, 2, 0), (uint32_t)-3);
    SAME(one("rem.s32 %o0, %i0, %i1;", (uint32_t)-7, 2, 0), (uint32_t)-1);
    SAME(one("min.u32 %o0, %i0, %i1;", 0xffffffff, 1, 0), 1);
    SAME(one("min.s32 %o0, %i0, %i1;", 0xffffffff, 1, 0), 0xffffffff);
    SAME(one("mul.wide.s32 %rd0, %i0, %i1; shr.u64 %rd0, %rd0, 32; cvt.u32.u64 %o0, %rd0;",
             (uint32_t)-2, 3, 0),
         0xffffffff);
}

Test(ptx, conversions_to_bfloat16_round_ties_to_even) {
    static const char PAIR[] =
        "mov.b32 %f0, %i0; mov.b32 %f1, %i1; cvt.rn.bf16x2.f32 %o0, %f0, %f1;";
    SAME(one(PAIR, bits_of(1.0f), bits_of(-2.5f), 0), 0x3f80c020); // the first is the upper half
    SAME(one(PAIR, 0x3f808000, 0x3f818000, 0), 0x3f803f82);
    SAME(one(PAIR, 0x3f808001, 0x7f7fffff, 0), 0x3f817f80); // too large: infinity
}

Test(ptx, conversions_to_half_round_ties_to_even) {
    static const char HALF[] = "mov.b32 %f0, %i0; {  cvt.rn.f16.f32 %rs0, %f0;} mov.u16 %rs1, 0; "
                               "mov.b32 %o0, {%rs0, %rs1};";
    SAME(one(HALF, bits_of(1.0f + 0x1p-11f), 0, 0), 0x3c00);
    SAME(one(HALF, bits_of(1.0f + 0x3p-11f), 0, 0), 0x3c02);
    SAME(one(HALF, bits_of(-0x1p-24f), 0, 0), 0x8001);
}

Test(ptx, conversions_of_floats_to_integers_round_as_they_say) {
    SAME(one("mov.b32 %f0, %i0; cvt.rzi.s32.f32 %o0, %f0;", bits_of(-2.7f), 0, 0), (uint32_t)-2);
    SAME(one("mov.b32 %f0, %i0; cvt.rni.s32.f32 %o0, %f0;", bits_of(2.5f), 0, 0), 2);
    SAME(one("mov.b32 %f0, %i0; cvt.rzi.s32.f32 %o0, %f0;", bits_of(3e9f), 0, 0), 0x7fffffff);
    SAME(one("mov.b32 %f0, %i0; cvt.rzi.s32.f32 %o0, %f0;", 0x7fc00000, 0, 0), 0); // NaN
    SAME(one("mov.b32 %f0, %i0; cvt.rni.f32.f32 %f1, %f0; mov.b32 %o0, %f1;", bits_of(3.5f), 0, 0),
         bits_of(4.0f));
    SAME(one("mov.b32 %f0, %i0; cvt.sat.f32.f32 %f1, %f0; mov.b32 %o0, %f1;", bits_of(3.5f), 0, 0),
         bits_of(1.0f));
    SAME(one("cvt.u16.u32 %rs0, %i0; cvt.s32.s8 %o0, %rs0;", 0x1280, 0, 0), (uint32_t)-128);
}

Test(ptx, fma_has_one_rounding_in_the_direction_it_names) {
    // (1 + 2^-12)^2 - 1 = 2^-11 + 2^-24: a product that was rounded first would lose the last part.
    SAME(one("mov.b32 %f0, %i0; mov.b32 %f1, %i1; mov.b32 %f2, %i2; fma.rn.f32 %f3, %f0, %f1, %f2; "
             "mov.b32 %o0, %f3;",
             bits_of(1 + 0x1p-12f), bits_of(1 + 0x1p-12f), bits_of(-1)),
         bits_of(0x1p-11f + 0x1p-24f));
    // 1 - 2^-60: down, to the float below 1.
    SAME(one("mov.b32 %f0, %i0; mov.b32 %f1, %i1; mov.b32 %f2, %i2; fma.rm.f32 %f3, %f0, %f1, %f2; "
             "mov.b32 %o0, %f3;",
             bits_of(0x1p-30f), bits_of(-0x1p-30f), bits_of(1)),
         bits_of(1 - 0x1p-24f));
}

Test(ptx, minimum_and_maximum_pass_over_a_nan) {
    static const char BODY[] = "mov.b32 %f0, %i0; mov.b32 %f1, %i1; max.f32 %f2, %f0, %f1; "
                               "mov.b32 %o0, %f2;";
    SAME(one(BODY, 0x7fc00000, bits_of(2), 0), bits_of(2));
    SAME(one(BODY, bits_of(-0.0f), bits_of(0), 0), bits_of(0));
}

Test(ptx, comparisons_with_a_nan_are_false_unless_they_name_it) {
    static const char LESS[] = "mov.b32 %f0, %i0; mov.b32 %f1, %i1; setp.lt.f32 %p0, %f0, %f1; "
                               "selp.b32 %o0, 1, 0, %p0;";
    static const char OR_NAN[] = "mov.b32 %f0, %i0; mov.b32 %f1, %i1; setp.ltu.f32 %p0, %f0, %f1; "
                                 "selp.b32 %o0, 1, 0, %p0;";
    SAME(one(LESS, 0x7fc00000, 0, 0), 0);
    SAME(one(OR_NAN, 0x7fc00000, 0, 0), 1);
    SAME(one(OR_NAN, bits_of(2), bits_of(1), 0), 0);
}

// ---- lanes together ----

static Words numbered_lanes(void) {
    Words words = {0};
    for (unsigned l = 0; l < LANES; l++)
        words.in[l][0] = 100 + l;
    return words;
}

Test(ptx, shuffles_exchange_registers_of_lanes) {
    Words words = numbered_lanes();
    run("shfl.sync.bfly.b32 %o0|%p0, %i0, 4, 31, -1;\n"
        "shfl.sync.idx.b32 %o1|%p1, %i0, 9, 31, -1;\n"
        "shfl.sync.up.b32 %o2|%p2, %i0, 1, 0, -1;\n"
        "shfl.sync.down.b32 %o3|%p3, %i0, 2, 0x181f, -1;",
        &words, LANES);
    for (unsigned l = 0; l < LANES; l++) {
        SAME(words.out[l][0], 100 + (l ^ 4));
        SAME(words.out[l][1], 109);
        SAME(words.out[l][2], l ? 99 + l : 100);
        SAME(words.out[l][3], l % 8 < 6 ? 102 + l : 100 + l); // in segments of eight
    }
}

Test(ptx, reductions_and_votes_join_all_lanes) {
    Words words = numbered_lanes();
    run("redux.sync.max.u32 %o0, %i0, -1;\nredux.sync.add.s32 %o1, %i0, -1;\n"
        "setp.ge.u32 %p0, %i0, 128;\nvote.sync.ballot.b32 %o2, %p0, -1;",
        &words, LANES);
    for (unsigned l = 0; l < LANES; l++) {
        SAME(words.out[l][0], 131);
        SAME(words.out[l][1], 3200 + 496);
        SAME(words.out[l][2], 0xf0000000);
    }
}

// Where the PTX ISA puts elements of the fragments of m16n8k16 with 16 bits, and of m16n8k32
// with 8.
static void fill_fragments(Words *words, int bits, uint32_t a(int row, int k),
                           uint32_t b(int k, int column)) {
    int per_word = 32 / bits, half = 4 * per_word;
    for (int l = 0; l < LANES; l++) {
        int group = l >> 2, in_group = l & 3;
        for (int i = 0; i < 4 * per_word; i++) {
            int row = i / per_word % 2 ? group + 8 : group;
            int k = in_group * per_word + i % per_word + (i >= 2 * per_word ? half : 0);
            words->in[l][i / per_word] |= a(row, k) << (bits * (i % per_word));
        }
        for (int i = 0; i < 2 * per_word; i++) {
            int k = in_group * per_word + i % per_word + (i >= per_word ? half : 0);
            words->in[l][4 + i / per_word] |= b(k, group) << (bits * (i % per_word));
        }
    }
}

// A is 16 row + k; B moves column 8 + j to column j.
static uint32_t count_a(int row, int k) {
    return bits_of((float)(16 * row + k)) >> 16;
}
static uint32_t shifting_b(int k, int column) {
    return k == column + 8 ? 0x3f80 : 0;
}

#define PRODUCT(a, b)                                                                              \
    "mov.b32 %f0, %i8; mov.b32 %f1, %i8; mov.b32 %f2, %i8; mov.b32 %f3, %i8;\n"                    \
    "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f4, %f5, %f6, %f7}, " a ", " b          \
    ", {%f0, %f1, %f2, %f3};\n"                                                                    \
    "mov.b32 %o0, %f4; mov.b32 %o1, %f5; mov.b32 %o2, %f6; mov.b32 %o3, %f7;"

static int wrong_products(const char *body) {
    Words words = {0};
    fill_fragments(&words, 16, count_a, shifting_b);
    for (int l = 0; l < LANES; l++)
        words.in[l][8] = bits_of(0.5f);
    run(body, &words, LANES);
    int wrong = 0;
    for (int l = 0; l < LANES; l++)
        for (int e = 0; e < 4; e++) {
            int row = (l >> 2) + (e < 2 ? 0 : 8), column = (l & 3) * 2 + (e & 1);
            wrong += words.out[l][e] != bits_of((float)(16 * row + column + 8) + 0.5f);
        }
    return wrong;
}

Test(ptx, a_bfloat16_product_has_the_fragments_of_the_manual) {
    CHECK(wrong_products(PRODUCT("{%i0, %i1, %i2, %i3}", "{%i4, %i5}")) == 0);
}

Test(ptx, a_product_with_two_words_of_a_fragment_swapped_is_wrong) {
    CHECK(wrong_products(PRODUCT("{%i0, %i2, %i1, %i3}", "{%i4, %i5}")) == 64); // the upper rows
    CHECK(wrong_products(PRODUCT("{%i0, %i1, %i2, %i3}", "{%i5, %i4}")) == 128);
}

static uint32_t signed_a(int row, int k) {
    return (uint8_t)(4 * row - k);
}
static uint32_t picking_b(int k, int column) {
    return k == 4 * column + 1 ? (uint8_t)-2 : 0;
}

Test(ptx, a_product_of_bytes_has_the_fragments_of_the_manual) {
    Words words = {0};
    fill_fragments(&words, 8, signed_a, picking_b);
    run("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%o0, %o1, %o2, %o3}, {%i0, %i1, %i2, "
        "%i3}, "
        "{%i4, %i5}, {%i8, %i8, %i8, %i8};",
        &words, LANES);
    for (int l = 0; l < LANES; l++)
        for (int e = 0; e < 4; e++) {
            int row = (l >> 2) + (e < 2 ? 0 : 8), column = (l & 3) * 2 + (e & 1);
            SAME(words.out[l][e], (uint32_t)(-2 * (4 * row - (4 * column + 1))));
        }
}

// Row r of the matrix is 16 bytes of lane r: elements 16 r + c.
Test(ptx, ldmatrix_hands_rows_to_lanes) {
    Words words = {0};
    for (unsigned l = 0; l < 8; l++)
        for (unsigned c = 0; c < 8; c++)
            words.in[l][c / 2] |= (16 * l + c) << (16 * (c % 2));
    run("shl.b32 %r1, %r0, 4; mov.u32 %r2, shared_memory; add.s32 %r1, %r1, %r2;\n"
        "st.shared.v4.u32 [%r1], {%i0, %i1, %i2, %i3};\nbar.warp.sync -1;\n"
        "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%o0}, [%r1];\n"
        "ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%o1}, [%r1];",
        &words, LANES);
    for (unsigned l = 0; l < LANES; l++) {
        unsigned r = l / 4, c = l % 4 * 2;
        SAME(words.out[l][0], (16 * r + c) | (16 * r + c + 1) << 16);
        SAME(words.out[l][1], (16 * c + r) | (16 * (c + 1) + r) << 16);
    }
}

Test(ptx, an_asynchronous_copy_is_there_when_it_was_waited_for) {
    Words words = numbered_lanes();
    run("shl.b32 %r1, %r0, 4; cp.async.cg.shared.global [%r1], [%in], 16;\n"
        "cp.async.commit_group;\nld.shared.u32 %o0, [%r1];\ncp.async.wait_group 0;\n"
        "ld.shared.u32 %o1, [%r1]; mov.u32 %r2, shared_memory; add.u32 %o2, %r2, 0;",
        &words, LANES);
    SAME(words.out[7][0], 0xffffffff);
    SAME(words.out[7][1], 107);
}

Test(ptx, atomics_count_every_lane) {
    Words words = {0};
    run("mov.u32 %r1, shared_memory; mov.u32 %r2, 0; st.shared.u32 [%r1], %r2;\nbar.sync 0;\n"
        "atom.shared.add.u32 %o0, [%r1], 3;\nbar.sync 0;\nld.shared.u32 %o1, [%r1];",
        &words, LANES);
    for (unsigned l = 0; l < LANES; l++) {
        SAME(words.out[l][0], 3 * l);
        SAME(words.out[l][1], 96);
    }
}

// ---- the ways of lanes ----

// Lane l goes around l times; then all shuffle, which needs them to have met again.
Test(ptx, lanes_that_part_meet_again) {
    Words words = {0};
    run("mov.u32 %r1, 0; mov.u32 %r2, 0;\n"
        "again:\nsetp.ge.u32 %p0, %r1, %r0;\n@%p0 bra done;\nadd.s32 %r1, %r1, 1;\n"
        "add.s32 %r2, %r2, %r1;\nbra.uni again;\n"
        "done:\nshfl.sync.idx.b32 %o0|%p1, %r2, 31, 31, -1;\nmov.u32 %o1, %r2;",
        &words, LANES);
    for (unsigned l = 0; l < LANES; l++) {
        SAME(words.out[l][0], 496);
        SAME(words.out[l][1], l * (l + 1) / 2);
    }
}

Test(ptx, a_guard_leaves_other_lanes_alone) {
    Words words = {0};
    run("setp.lt.u32 %p0, %r0, 5;\n@%p0 mov.u32 %o0, 7;\n@!%p0 mov.u32 %o1, 9;", &words, LANES);
    for (unsigned l = 0; l < LANES; l++) {
        SAME(words.out[l][0], l < 5 ? 7 : 0);
        SAME(words.out[l][1], l < 5 ? 0 : 9);
    }
}

// ---- mistakes ----

static const char *complaint(const char *body) {
    static Words words;
    return ptx_complaint(kernel_text(body), "test", ONE_BLOCK(LANES), BUFFERS_OF(&words), 2);
}

#define FINDS(body, ...) finds(__LINE__, body, (const char *const[]){__VA_ARGS__, NULL})
static void finds(int line, const char *body, const char *const *words) {
    const char *said = complaint(body);
    for (; *words; words++)
        CHECK(strstr(said, *words), "line %d: '%s' is not in: %s", line, *words, said);
}

Test(ptx, a_register_that_was_never_set_is_an_error_where_it_is_used) {
    FINDS("add.s32 %o0, %r7, 1;", "never set", "kernel test", "thread (0,0,0)", "%r7");
    FINDS("setp.lt.u32 %p0, %r0, 5;\n@%p0 mov.u32 %r7, 1;\nadd.s32 %o0, %r7, 1;", "thread (5,0,0)");
    CHECK(!*complaint("mov.u32 %r8, %r7;")); // a copy alone is not
}

Test(ptx, an_address_outside_of_memory_is_an_error) {
    FINDS("ld.global.u32 %o0, [%in+4096];", "outside", "thread (0,0,0)", "[%in+4096]");
    FINDS("ld.global.u32 %o0, [%in+768];", "thread (28,0,0)"); // past the end of the output
    FINDS("ld.global.u32 %o0, [%in+2];", "not a multiple");
    FINDS("mov.u32 %r1, 1024; st.shared.u32 [%r1], %r0;", "outside");
}

Test(ptx, an_unknown_instruction_is_an_error_that_shows_it) {
    FINDS("frobnicate.b32 %o0, %i0;", "not a known instruction", "frobnicate.b32 %o0, %i0");
    FINDS("add.rz.f32 %f0, %f1, %f2;", "add.rz.f32");
    FINDS("add.s32 %o0, %i0;", "not so many operands");
}

Test(ptx, lanes_that_never_come_are_an_error) {
    FINDS("setp.lt.u32 %p0, %r0, 5;\n@%p0 bra out;\nshfl.sync.idx.b32 %o0, %i0, 0, 31, -1;\nout:",
          "never come");
    FINDS("setp.lt.u32 %p0, %r0, 5;\n@%p0 ret;\nshfl.sync.idx.b32 %o0, %i0, 0, 31, -1;",
          "returned");
    FINDS("setp.lt.u32 %p0, %r0, 5;\n@%p0 bra out;\nbar.sync 0;\nout:", "never come");
}
