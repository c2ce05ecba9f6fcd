// The rows of a block as integers, from every instruction set: the numbers of activation_quantise,
// in the places that project_kernels.h gives.
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/project_kernels.h"
#include "tests/test.h"

#include <float.h>
#include <math.h>

enum { CELLS = 67, COLS = 32 * CELLS };

typedef struct Forms {
    int32_t pairs[CELLS * 4 * MAX_BLOCK_ROWS * 4], digits[CELLS * 4 * MAX_BLOCK_ROWS * 4];
    int32_t quads[CELLS * 4 * MAX_BLOCK_ROWS * 2], sums[CELLS * MAX_BLOCK_ROWS * 3];
    int32_t tiles[CELLS * 2 * MAX_BLOCK_ROWS * 8];
    float scales[CELLS * MAX_BLOCK_ROWS * 4];
    Outlier outliers[MAX_BLOCK_ROWS * OUTLIERS];
} Forms;

// ---- rows of many kinds ----

static void random_row(float *x, int cols, TestRandom *random, float scale) {
    for (int i = 0; i < cols; i++)
        x[i] = test_random_normal(random) * scale;
}

enum { KINDS = 12 };
static void fill_row(float *x, int cols, int kind, TestRandom *random) {
    random_row(x, cols, random, kind == 1 ? 1e-39f : kind == 2 ? 1e36f : 1.0f);
    switch (kind) {
    case 3: memset(x, 0, (size_t)cols * sizeof *x); break;
    case 4: x[cols - 26] = 5000.0f, x[cols - 25] = -4000.0f; break; // both outliers in one cell
    case 5: x[3] = 1e9f, x[4] = NAN; break;                         // beside what is no number
    case 6: x[0] = INFINITY, x[cols - 1] = 1e20f; break;            // the first is none: not finite
    case 7: x[10] = FLT_MAX, x[cols - 16] = -FLT_MAX; break;        // equal: the lower column first
    case 8: memset(x + 16, 0, (size_t)(cols - 16) * sizeof *x); break;
    case 9: // one number in the row
        memset(x, 0, (size_t)cols * sizeof *x);
        x[cols - 7] = -3.0f;
        break;
    case 10: x[cols - 1] = 50.0f, x[cols / 2] = -60.0f; break;
    case 11: x[cols - 1] = NAN; break; // the last column
    default: break;
    }
}

// ---- what is where ----

static int32_t pair_of(int16_t low, int16_t high) {
    return (int32_t)((uint32_t)(uint16_t)low | (uint32_t)(uint16_t)high << 16);
}

// z = 256 h + l with l in -128 .. 127: the lower bytes of l or h of the columns 0 4 1 5, or of
// 2 6 3 7 (`second`), of eight.
static int32_t bytes_of(const int16_t *z, bool second, bool high) {
    static const int COLUMNS[2][4] = {{0, 4, 1, 5}, {2, 6, 3, 7}};
    uint32_t word = 0;
    for (int i = 0; i < 4; i++) {
        int value = z[COLUMNS[second][i]], l = (value + 32768 + 128) % 256 - 128;
        word |= (uint32_t)((high ? (value - l) / 256 : l) & 255) << 8 * i;
    }
    return word > INT32_MAX ? (int32_t)(word - 0x80000000u) - INT32_MAX - 1 : (int32_t)word;
}

static bool same(float a, float b) {
    return !memcmp(&a, &b, sizeof a) || (isnan(a) && isnan(b));
}

static void check_row(const InputBlock *block, int row, const float *x, int cells, int levels,
                      const char *what) {
    int16_t z[COLS];
    float scales[CELLS];
    int32_t sums[CELLS];
    Outlier outliers[OUTLIERS];
    activation_quantise(z, scales, sums, outliers, x, (size_t)cells * 32, levels);
    for (int o = 0; o < OUTLIERS; o++) {
        Outlier got = block->outliers[row * OUTLIERS + o];
        CHECK(got.column == outliers[o].column && same(got.x, outliers[o].x), "%s: outlier %d",
              what, o);
    }
    for (int c = 0; c < cells; c++) {
        const float *at = block->scales + (c * block->n + row) * 4;
        int half = 0;
        for (int i = 0; i < 16; i++)
            half += z[32 * c + i];
        const int of[3] = {sums[c], half, sums[c] - half};
        CHECK(same(at[0], scales[c]), "%s: scale of cell %d: %g, wanted %g", what, c, (double)at[0],
              (double)scales[c]);
        for (int i = 0; i < 3; i++) {
            CHECK_INT(block->sums[(c * block->n + row) * 3 + i], of[i]);
            CHECK(same(at[1 + i], scales[c] * (float)of[i]), "%s: sum %d of cell %d", what, i, c);
        }
        for (int q = 0; q < 4; q++) {
            const int16_t *eight = z + 32 * c + 8 * q;
            int place = (c * 4 + q) * block->n + row;
            for (int j = 0; j < 4; j++) {
                if (block->pairs)
                    CHECK_INT(block->pairs[place * 4 + j], pair_of(eight[2 * j], eight[2 * j + 1]));
                if (block->digits)
                    CHECK_INT(block->digits[place * 4 + j], bytes_of(eight, j % 2, j < 2));
                if (block->quads && j < 2)
                    CHECK_INT(block->quads[place * 2 + j], bytes_of(eight, j, false));
                // The bytes h, where there are two digits, and behind them the bytes l.
                int digits = levels == A8_LEVELS ? 1 : 2, digit = j / 2, word = j % 2;
                int tile = ((c * digits + digit) * block->n + row) * 8 + 2 * q + word;
                if (block->tiles && digit < digits)
                    CHECK_INT(block->tiles[tile], bytes_of(eight, word, digits == 2 && !digit));
            }
        }
    }
}

static void check_set(const CpuKernels *kernels, int cells, int n, int levels) {
    static float x[MAX_BLOCK_ROWS][COLS];
    static Forms forms;
    float scratch[QUANTISE_SCRATCH(COLS)];
    TestRandom random = {(uint64_t)n};
    for (int kind = 0; kind < KINDS; kind++) {
        memset(&forms, 0x55, sizeof forms);
        InputBlock block = {.n = n,
                            .scales = forms.scales,
                            .sums = forms.sums,
                            .outliers = forms.outliers,
                            .pairs = kind % 3 == 2 ? NULL : forms.pairs,
                            .digits = levels == A16_LEVELS && kind % 2 ? forms.digits : NULL,
                            .quads = levels == A8_LEVELS ? forms.quads : NULL,
                            .tiles = kind % 4 == 1 ? forms.tiles : NULL};
        for (int row = 0; row < n; row++) {
            fill_row(x[row], 32 * cells, (kind + row) % KINDS, &random);
            kernels->project->quantise(&block, (size_t)row, x[row], (size_t)cells * 32, levels,
                                       scratch);
        }
        for (int row = 0; row < n; row++) {
            char what[120];
            snprintf(what, sizeof what, "%s, %d cells, row %d of %d, kind %d, %d levels",
                     kernels->name, cells, row, n, (kind + row) % KINDS, levels);
            check_row(&block, row, x[row], cells, levels, what);
        }
    }
}

Test(cpu_inputs, are_those_of_the_definition) {
    size_t count;
    const CpuKernels *const *list = isa_list(&count);
    for (size_t i = 0; i < count; i++) {
        if (!isa_supported(list[i])) continue;
        // 4 and 16 cells are folded together, and 64 are searched together.
        static const int SIZES[] = {1, 2, 3, 4, 5, 16, 18, 19, 64, CELLS};
        for (size_t c = 0; c < sizeof SIZES / sizeof *SIZES; c++)
            for (int n = 1; n <= MAX_BLOCK_ROWS; n++) {
                check_set(list[i], SIZES[c], n, A16_LEVELS);
                check_set(list[i], SIZES[c], n, A8_LEVELS);
            }
    }
}
