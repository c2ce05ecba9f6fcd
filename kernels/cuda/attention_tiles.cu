// Attention of a prompt's rows on the tensor cores, in one pass over the keys (Dao 2023, arXiv
// 2307.08691): a block takes QUERIES query vectors of one key-value head and walks tiles of KEYS
// keys; each of its warps keeps 16 queries' scores and sums in registers.
//
//   queries of a key-value head, in order:   row 0 head 0, row 0 head 1, .., row 1 head 0, ..
//   per tile:  s = q k^T;   M = max(m, max s);   p = e^(s - M);   l = l e^(m - M) + sum p
//              a = a e^(m - M) + p v;   m = M                     at the end:  out = a / l
//
// so all query heads of a group share the loaded keys and values. The cache holds f16, which the
// tensor cores multiply exactly. q (scaled to 1 .. 2 by a power of two) and p are each the sum of
// two f16 values, within 2^-22 of the largest: two products, and the accuracy of float32. With an
// f32 cache or precision f32 attention.cu does the work.
//
// Keys and values have a buffer each, filled by copies that no register passes: while one is
// multiplied the other is on its way.
//
//   keys:     arrive | q k^T, softmax    | arrive ..       of the next tile
//   values:          | on their way      | p v             | on their way ..
#include "kernels/cuda/tile_queries.h"

enum { PAD = 8 }; // elements between rows in shared memory: no two lanes of a load share a bank

template <int DIM> struct TileMemory {
    alignas(16) uint16_t keys[KEYS<DIM>][DIM + PAD], values[KEYS<DIM>][DIM + PAD];
    int positions[QUERIES], sequences[QUERIES]; // -1: no such query
    int nonfinite_tile; // the last one, as the block counts them, with a value that is not finite
};

// Neighbouring queries of one sequence, and the keys that they see some of.
struct Run {
    int first, end; // queries of the tile
    int sequence, last_key;
    KeyReach reach; // of all of them: what the lowest position sees, and all after it
    const uint16_t *keys, *values; // of position 0
};

// ---- runs and tiles ----

template <int DIM>
static __device__ void note_positions(TileMemory<DIM> &m, const TileWork &w, int tile) {
    for (int i = threadIdx.x; i < QUERIES; i += THREADS) {
        int query = queries_before(tile) + i, row = query / w.group;
        m.positions[i] = query < w.n_queries ? w.op.rows.positions[row] : -1;
        m.sequences[i] = query < w.n_queries ? w.op.rows.sequences[row] : -1;
    }
    if (!threadIdx.x) m.nonfinite_tile = -1;
    __syncthreads();
}

// Every warp finds it. first: a query that there is.
template <int DIM>
static __device__ Run next_run(const TileMemory<DIM> &m, const TileWork &w, const ScoreRules &rules,
                               int first) {
    static_assert(QUERIES == 2 * WARP, "two queries a lane");
    Run run = {first, 0, m.sequences[first], -1, {}, NULL, NULL};
    unsigned lane = threadIdx.x % WARP;
    const int queries[2] = {(int)lane, (int)(WARP + lane)};
    uint64_t same = 0;
    UNROLL
    for (int half = 0; half < 2; half++)
        same |= (uint64_t)__ballot_sync(ALL_LANES, m.sequences[queries[half]] == run.sequence)
                << half * WARP;
    uint64_t others = ~same >> first; // bit 0: the query `first`, which is no other
    run.end = others ? first + __ffsll((long long)others) - 1 : QUERIES;
    uint64_t lowest = 0, highest = 0; // as the largest of what falls as positions rise
    UNROLL
    for (int half = 0; half < 2; half++) {
        if (queries[half] < first || queries[half] >= run.end) continue;
        uint64_t position = (uint64_t)m.positions[queries[half]];
        uint64_t falling = ~position;
        lowest = falling > lowest ? falling : lowest;
        highest = position > highest ? position : highest;
    }
    run.last_key = (int)warp_largest(highest);
    run.reach = key_reach(&rules.pattern, (int)~warp_largest(lowest));
    run.reach.last = run.last_key;
    size_t head = kv_index(w.kv, run.sequence, blockIdx.y, 0);
    run.keys = (const uint16_t *)w.kv.keys + head;
    run.values = (const uint16_t *)w.kv.values + head;
    return run;
}

// Whether some query of the run may see key p; the others are not read.
static __device__ __forceinline__ bool reads_key(const ScoreRules &rules, const Run &run, int p) {
    return p <= run.last_key && (!rules.pattern.n_parts || first_seen(run.reach, p) == p);
}

// The exponent of a half that is not finite is all ones: one more carries into its sign.
static __device__ __forceinline__ bool has_nonfinite_half(int4 v) {
    unsigned carries = 0;
    for (int word : {v.x, v.y, v.z, v.w})
        carries |= ((unsigned)word & 0x7c007c00u) + 0x04000400u;
    return carries & 0x80008000u;
}

// f16 values that are not finite become 0: a weight of 0 times one of them would be NaN.
static __device__ __forceinline__ int without_nonfinite(int word) {
    if ((word & 0x7c00) == 0x7c00) word &= (int)0xffff0000;
    if ((word & 0x7c000000) == 0x7c000000) word &= 0xffff;
    return word;
}

// A thread copies the same eight channels of every ROW_STEP-th key, or value, of a tile.
template <int DIM> constexpr int EIGHTS = DIM / 8;
template <int DIM> constexpr int ROW_STEP = THREADS / EIGHTS<DIM>;

template <int DIM> using TileRows = uint16_t[KEYS<DIM>][DIM + PAD];

// Asks for the row at `slot`, or for zeros.
static __device__ __forceinline__ void copy_row(uint16_t *to, const uint16_t *rows, unsigned slot,
                                                unsigned head_dim, bool wanted) {
    copy_async(to, wanted ? rows + (size_t)slot * head_dim : rows, wanted);
}

// Asks for the rows `from` on; zeros for those that are not read. No thread still reads `to`.
template <int DIM>
static __device__ __forceinline__ void copy_tile(TileRows<DIM> &to, const uint16_t *rows,
                                                 const TileWork &w, const ScoreRules &rules,
                                                 const Run &run, int from) {
    int c = threadIdx.x % EIGHTS<DIM> * 8, mine = threadIdx.x / EIGHTS<DIM>, dim = w.kv.head_dim;
    int first = kv_slot(w.kv.slots, from);           // what a run sees is no longer than a ring
    int end = c < dim ? run.last_key + 1 - from : 0; // of the rows that are wanted
    if (c < dim) rows += c;
    if (!rules.pattern.n_parts) { // the common case: few instructions a row, so unrolled
        UNROLL
        for (int i = 0; i < KEYS<DIM> / ROW_STEP<DIM>; i++) {
            int row = mine + i * ROW_STEP<DIM>;
            copy_row(&to[row][c], rows, kv_slot_behind(w.kv.slots, first, row), dim, row < end);
        }
        return;
    }
    NO_UNROLL // a pattern is much code
    for (int row = mine; row < KEYS<DIM>; row += ROW_STEP<DIM>)
        copy_row(&to[row][c], rows, kv_slot_behind(w.kv.slots, first, row), dim,
                 row < end && first_seen(run.reach, from + row) == from + row);
}

// What this thread has copied of the values of tile number `count`: finite, or noted.
template <int DIM>
static __device__ __forceinline__ void check_values(TileMemory<DIM> &m, int count) {
    for (int row = threadIdx.x / EIGHTS<DIM>; row < KEYS<DIM>; row += ROW_STEP<DIM>) {
        int4 *eight = (int4 *)&m.values[row][threadIdx.x % EIGHTS<DIM> * 8];
        int4 v = *eight;
        if (!has_nonfinite_half(v)) continue;
        *eight = int4{without_nonfinite(v.x), without_nonfinite(v.y), without_nonfinite(v.z),
                      without_nonfinite(v.w)};
        m.nonfinite_tile = count;
    }
}

// ---- one tile ----
//
// The tensor cores, and loads of their matrices, want all lanes of a warp in step, and behind a
// branch on a key's pattern or a query's row a GPU does not promise that: hence __syncwarp.

// sums += (high + low) b for AT_ONCE neighbouring sums. Two products that add to the same sum wait
// for each other, so others are between them.
enum { AT_ONCE = 4 };
static __device__ __forceinline__ void multiply_split(float (*sums)[4], const unsigned (&high)[4],
                                                      const unsigned (&low)[4],
                                                      const unsigned (&b)[AT_ONCE / 2][4]) {
    UNROLL
    for (int i = 0; i < AT_ONCE; i++)
        multiply_halves(sums[i], low, b[i / 2][i % 2 * 2], b[i / 2][i % 2 * 2 + 1]);
    UNROLL
    for (int i = 0; i < AT_ONCE; i++)
        multiply_halves(sums[i], high, b[i / 2][i % 2 * 2], b[i / 2][i % 2 * 2 + 1]);
}

template <int DIM>
static __device__ __forceinline__ void score_tile(float (&scores)[KEYS<DIM> / 8][4],
                                                  const TileMemory<DIM> &m,
                                                  const QueryState<DIM> &s, int dim) {
    int lane = threadIdx.x % WARP;
    UNROLL
    for (int n = 0; n < KEYS<DIM> / 8; n++)
        for (int e = 0; e < 4; e++)
            scores[n][e] = 0.0f;
    UNROLL
    for (int k = 0; k < DIM / 16; k++) {
        unsigned high[4], low[4];
        if constexpr (KEEPS_QUERIES<DIM>)
            for (int i = 0; i < 4; i++)
                high[i] = s.high[k][i], low[i] = s.low[k][i];
        else
            split_queries<DIM>(high, low, s, load_pairs<DIM>(s, k, dim));
        if (!KEEPS_QUERIES<DIM> || !k) __syncwarp();
        UNROLL
        for (int n = 0; n < KEYS<DIM> / 8; n += AT_ONCE) {
            // Keys 8 n .., then 8 n + 8 ..; of each channels 16 k .., then 16 k + 8 ..
            unsigned b[AT_ONCE / 2][4];
            UNROLL
            for (int i = 0; i < AT_ONCE / 2; i++)
                load_matrices(
                    b[i],
                    &m.keys[8 * n + 16 * i + lane / 16 * 8 + lane % 8][16 * k + lane / 8 % 2 * 8]);
            multiply_split(&scores[n], high, low, b);
        }
    }
}

template <int DIM>
static __device__ __forceinline__ void add_values(QueryState<DIM> &s, const TileMemory<DIM> &m,
                                                  const float (&weights)[KEYS<DIM> / 8][4]) {
    int lane = threadIdx.x % WARP;
    __syncwarp();
    UNROLL
    for (int k = 0; k < KEYS<DIM> / 16; k++) {
        unsigned high[4], low[4];
        for (int i = 0; i < 4; i++) {
            const float *pair = &weights[2 * k + i / 2][i % 2 * 2];
            split_pair(high[i], low[i], pair[0], pair[1]);
        }
        UNROLL
        for (int n = 0; n < DIM / 8; n += AT_ONCE) {
            // Keys 16 k .., then 16 k + 8 ..; of channels 8 n .., then of 8 n + 8 ..
            unsigned b[AT_ONCE / 2][4];
            UNROLL
            for (int i = 0; i < AT_ONCE / 2; i++)
                load_matrices_transposed(b[i], &m.values[16 * k + lane / 8 % 2 * 8 + lane % 8]
                                                        [8 * n + 16 * i + lane / 16 * 8]);
            multiply_split(&s.out[n], high, low, b);
        }
    }
}

// Values that are not finite reach those queries that see them, and no others.
template <int DIM>
static __device__ __forceinline__ void add_nonfinite_values(QueryState<DIM> &s, const TileWork &w,
                                                            const ScoreRules &rules, const Run &run,
                                                            const int (&positions)[2], int from) {
    for (int p = from; p < from + KEYS<DIM> && p <= run.last_key; p++) {
        if (!reads_key(rules, run, p)) continue;
        const uint16_t *value =
            (const uint16_t *)w.kv.values + kv_index(w.kv, run.sequence, blockIdx.y, p);
        const bool sees[2] = {key_visible(&rules.pattern, positions[0], p),
                              key_visible(&rules.pattern, positions[1], p)};
        UNROLL
        for (int n = 0; n < DIM / 8; n++)
            UNROLL
        for (int e = 0; e < 4; e++) {
            int c = 8 * n + threadIdx.x % 4 * 2 + e % 2;
            if (c >= w.kv.head_dim || (value[c] & 0x7c00) != 0x7c00) continue;
            if (sees[e / 2]) s.out[n][e] += half_value(value[c]);
        }
    }
}

// ---- the kernel ----

static __device__ __forceinline__ void store_pair(const TileWork &w, size_t at, float a, float b) {
    if (w.op.out) w.op.out[at] = a, w.op.out[at + 1] = b;
    for (int p = 0; p < MAX_PARTS; p++) {
        if (!w.to.parts[p]) continue;
        unsigned low = take_part(a), high = take_part(b);
        *(unsigned *)(w.to.parts[p] + at) = low | high << 16;
    }
}

template <int DIM>
static __device__ __forceinline__ void store_queries(const QueryState<DIM> &s, const TileWork &w) {
    int dim = w.op.shape.head_dim;
    UNROLL
    for (int r = 0; r < 2; r++) {
        float sum = quad_sum(s.sums[r]);
        if (!s.there[r]) continue;
        size_t first = (size_t)(s.q[r] - w.op.q);
        UNROLL
        for (int n = 0; n < DIM / 8; n++) {
            int c = 8 * n + threadIdx.x % 4 * 2; // dim is a multiple of 8
            if (c < dim) store_pair(w, first + c, s.out[n][2 * r] / sum, s.out[n][2 * r + 1] / sum);
        }
    }
}

// The tiles of a run, from the first key on, which is on its way; `count` tiles were before them.
template <int DIM>
static __device__ __forceinline__ void walk_run(TileMemory<DIM> &m, const TileWork &w,
                                                const ScoreRules &rules, QueryState<DIM> &s,
                                                const Run &run, int from, int &count) {
    int mine = threadIdx.x / WARP * WARP_QUERIES; // of the warp
    int positions[2], query = mine + threadIdx.x % WARP / 4;
    for (int r = 0; r < 2; r++, query += 8)
        positions[r] = query >= run.first && query < run.end ? m.positions[query] : -1;
    bool idle = run.end <= mine || run.first >= mine + WARP_QUERIES;
    for (int next; from <= run.last_key; from = next, count++) {
        float scores[KEYS<DIM> / 8][4];
        wait_for_copies();
        __syncthreads(); // the keys are there, and no thread still reads the last values
        copy_tile<DIM>(m.values, run.values, w, rules, run, from);
        if (!idle) {
            score_tile<DIM>(scores, m, s, w.op.shape.head_dim);
            weigh_scores<DIM>(scores, s, rules, positions, from);
        }
        wait_for_copies();
        check_values<DIM>(m, count);
        __syncthreads(); // the values are there, and no thread still reads the keys
        next = first_seen(run.reach, from + KEYS<DIM>);
        if (next <= run.last_key) copy_tile<DIM>(m.keys, run.keys, w, rules, run, next);
        if (idle) continue;
        add_values<DIM>(s, m, scores);
        if (m.nonfinite_tile == count) add_nonfinite_values<DIM>(s, w, rules, run, positions, from);
    }
}

// Grid: tiles of queries, those with the most keys first; key-value heads.
template <int DIM, bool PLAIN>
static __global__ void __launch_bounds__(THREADS) tiles_kernel(TileWork w) {
    const ScoreRules rules = rules_of<PLAIN>(w.op.shape);
    TileMemory<DIM> &m = block_memory<TileMemory<DIM>>();
    int tile = (int)gridDim.x - 1 - (int)blockIdx.x, count = 0;
    wait_for_earlier_kernels();
    QueryState<DIM> s;
    open_queries<DIM>(s, w, rules, tile);
    note_positions<DIM>(m, w, tile);
    for (int first = 0; first < QUERIES && m.sequences[first] >= 0;) {
        Run run = next_run<DIM>(m, w, rules, first);
        int from = first_seen(run.reach, 0);
        if (from <= run.last_key) copy_tile<DIM>(m.keys, run.keys, w, rules, run, from);
        walk_run<DIM>(m, w, rules, s, run, from, count);
        first = run.end;
    }
    store_queries<DIM>(s, w);
}

bool fits_tiles(const Device *device, const KvShape *cache, int n) {
    return n >= PROMPT_ROWS && !device->switches.notiles && device->precision != PRECISION_F32 &&
           cache->type == KV_F16 && cache->head_dim % 8 == 0 && cache->head_dim <= 256;
}

void run_tiles(Device *device, const AttentionOperation *op) {
    run_tiles_parts(device, op, InputParts{}, true);
}

template <int DIM> static void launch_tiles(Device *device, dim3 grid, const TileWork &w) {
    if (is_plain(w.op.shape))
        LAUNCH(device, (tiles_kernel<DIM, true>), grid, THREADS, w);
    else
        LAUNCH(device, (tiles_kernel<DIM, false>), grid, THREADS, w);
}

// Heads are multiples of 8 channels, so a row of parts is as long as one of out.
void run_tiles_parts(Device *device, const AttentionOperation *op, const InputParts &to,
                     bool keep) {
    TileWork w = {};
    w.op = *op, w.to = to;
    if (!keep) w.op.out = NULL;
    w.kv = kv_layer(&op->view);
    w.group = op->shape.n_heads / op->shape.n_kv_heads;
    w.n_queries = op->rows.n * w.group;
    dim3 grid(blocks_for((size_t)w.n_queries, QUERIES), (unsigned)op->shape.n_kv_heads);
    if (op->shape.head_dim <= 64)
        launch_tiles<64>(device, grid, w);
    else if (op->shape.head_dim <= 128)
        launch_tiles<128>(device, grid, w);
    else
        launch_tiles<256>(device, grid, w);
}
