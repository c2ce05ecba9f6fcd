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
#include "kernels/cuda/steps.h"

enum { QUERIES = 64, THREADS = 128, WARP_QUERIES = 16 };
enum { PAD = 8 }; // elements between rows in shared memory: no two lanes of a load share a bank

// Shared memory is 48 kB: long heads have short tiles.
template <int DIM> constexpr int KEYS = DIM > 128 ? 32 : 64;

template <int DIM> struct TileMemory {
    alignas(16) uint16_t keys[KEYS<DIM>][DIM + PAD], values[KEYS<DIM>][DIM + PAD];
    int positions[QUERIES], sequences[QUERIES]; // -1: no such query
    int nonfinite_tile; // the last one, as the block counts them, with a value that is not finite
};

struct TileWork {
    AttentionOperation op; // out NULL: nothing reads the floats
    InputParts to;         // of the product that follows; a row is a row of out
    KvLayer kv;
    int group, n_queries; // query heads per key-value head; rows times group
};

// Neighbouring queries of one sequence, and the keys that they see some of.
struct Run {
    int first, end; // queries of the tile
    int sequence, last_key;
    KeyReach reach; // of all of them: what the lowest position sees, and all after it
    const uint16_t *keys, *values; // of position 0
};

// Whether a lane has registers for its part of the queries; else they are loaded for every tile.
template <int DIM> constexpr bool KEEPS_QUERIES = DIM <= 128;

// What a lane keeps of its two queries, i and i + 8 of its warp's 16 (multiply_halves).
template <int DIM> struct QueryState {
    const float *q[2]; // NULL past the end
    float up[2], scale[2];
    unsigned high[KEEPS_QUERIES<DIM> ? DIM / 16 : 1][4], low[KEEPS_QUERIES<DIM> ? DIM / 16 : 1][4];
    float largest[2], sums[2]; // of this lane's keys, until the end
    float out[DIM / 8][4];
};

// ---- queries ----

static __device__ __forceinline__ float quad_sum(float v) {
    v += __shfl_xor_sync(ALL_LANES, v, 1);
    return v + __shfl_xor_sync(ALL_LANES, v, 2);
}
static __device__ __forceinline__ float quad_max(float v) {
    v = fmaxf(v, __shfl_xor_sync(ALL_LANES, v, 1));
    return fmaxf(v, __shfl_xor_sync(ALL_LANES, v, 2));
}

// The power of two that brings `largest` to 1 .. 2; 1 where there is none.
static __device__ __forceinline__ float power_for(float largest) {
    uint32_t bits, exponent;
    memcpy(&bits, &largest, sizeof bits);
    exponent = bits >> 23;
    if (exponent < 1 || exponent > 253) return 1.0f;
    bits = (254 - exponent) << 23;
    memcpy(&largest, &bits, sizeof bits);
    return largest;
}

// a and b as sums of two f16 values each: `high` packs the nearest ones, `low` the remainders.
static __device__ __forceinline__ void split_pair(unsigned &high, unsigned &low, float a, float b) {
    uint16_t a_high = half_bits(a), b_high = half_bits(b);
    uint16_t a_low = half_bits(a - half_value(a_high)), b_low = half_bits(b - half_value(b_high));
    high = a_high | (unsigned)b_high << 16;
    low = a_low | (unsigned)b_low << 16;
}

// Channels 16 k .. 16 k + 15 of the warp's queries.
template <int DIM>
static __device__ __forceinline__ void load_queries(unsigned (&high)[4], unsigned (&low)[4],
                                                    const QueryState<DIM> &s, int k, int dim) {
    for (int i = 0; i < 4; i++) {
        int r = i % 2, c = 16 * k + threadIdx.x % 4 * 2 + i / 2 * 8;
        float a = s.q[r] && c < dim ? s.q[r][c] * s.up[r] : 0.0f;
        float b = s.q[r] && c < dim ? s.q[r][c + 1] * s.up[r] : 0.0f; // dim is even
        split_pair(high[i], low[i], a, b);
    }
}

static __device__ __forceinline__ int queries_before(int tile) {
    return tile * QUERIES;
}

template <int DIM>
static __device__ __forceinline__ void open_queries(QueryState<DIM> &s, const TileWork &w,
                                                    int tile) {
    int lane = threadIdx.x % WARP, dim = w.op.shape.head_dim;
    for (int r = 0; r < 2; r++) {
        int query = queries_before(tile) + threadIdx.x / WARP * WARP_QUERIES + lane / 4 + 8 * r;
        size_t head =
            (size_t)(query / w.group) * w.op.shape.n_heads + blockIdx.y * w.group + query % w.group;
        s.q[r] = query < w.n_queries ? w.op.q + head * dim : NULL;
        float largest = 0.0f;
        for (int c = lane % 4; s.q[r] && c < dim; c += 4)
            largest = fmaxf(largest, fabsf(s.q[r][c]));
        s.up[r] = power_for(quad_max(largest));
        s.scale[r] = w.op.shape.scale / s.up[r];
        s.largest[r] = -INFINITY, s.sums[r] = 0.0f;
    }
    if constexpr (KEEPS_QUERIES<DIM>) {
        UNROLL
        for (int k = 0; k < DIM / 16; k++)
            load_queries<DIM>(s.high[k], s.low[k], s, k, dim);
    }
    UNROLL
    for (int n = 0; n < DIM / 8; n++)
        for (int e = 0; e < 4; e++)
            s.out[n][e] = 0.0f;
}

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

// Every thread walks the same list.
template <int DIM>
static __device__ Run next_run(const TileMemory<DIM> &m, const TileWork &w, int first) {
    Run run = {first, first, m.sequences[first], -1, {}, NULL, NULL};
    int lowest = m.positions[first];
    for (; run.end < QUERIES && m.sequences[run.end] == run.sequence; run.end++) {
        int position = m.positions[run.end];
        lowest = position < lowest ? position : lowest;
        run.last_key = position > run.last_key ? position : run.last_key;
    }
    run.reach = key_reach(&w.op.shape.pattern, lowest);
    run.reach.last = run.last_key;
    size_t head = kv_index(w.kv, run.sequence, blockIdx.y, 0);
    run.keys = (const uint16_t *)w.kv.keys + head;
    run.values = (const uint16_t *)w.kv.values + head;
    return run;
}

// Whether some query of the run may see key p; the others are not read.
static __device__ __forceinline__ bool reads_key(const TileWork &w, const Run &run, int p) {
    return p <= run.last_key && (!w.op.shape.pattern.n_parts || first_seen(run.reach, p) == p);
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
                                                 const TileWork &w, const Run &run, int from) {
    int c = threadIdx.x % EIGHTS<DIM> * 8, mine = threadIdx.x / EIGHTS<DIM>, dim = w.kv.head_dim;
    int first = kv_slot(w.kv.slots, from);           // what a run sees is no longer than a ring
    int end = c < dim ? run.last_key + 1 - from : 0; // of the rows that are wanted
    if (c < dim) rows += c;
    if (!w.op.shape.pattern.n_parts) { // the common case: few instructions a row, so unrolled
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
            load_queries<DIM>(high, low, s, k, dim);
        if (!KEEPS_QUERIES<DIM> || !k) __syncwarp();
        UNROLL
        for (int n = 0; n < KEYS<DIM> / 8; n += 2) {
            // Keys 8 n .., then 8 n + 8 ..; of each channels 16 k .., then 16 k + 8 ..
            unsigned b[4];
            load_matrices(b, &m.keys[8 * n + lane / 16 * 8 + lane % 8][16 * k + lane / 8 % 2 * 8]);
            UNROLL
            for (int i = 0; i < 2; i++) {
                multiply_halves(scores[n + i], low, b[2 * i], b[2 * i + 1]);
                multiply_halves(scores[n + i], high, b[2 * i], b[2 * i + 1]);
            }
        }
    }
}

// Whether a query sees the whole tile, as most do: then no key is tested by itself.
template <int DIM>
static __device__ __forceinline__ bool sees_tile(const KeyPattern &pattern, int position,
                                                 int from) {
    return !pattern.n_parts && from + KEYS<DIM> - 1 <= position &&
           (!pattern.window || position - from < pattern.window);
}

// Scores -> e^(score - largest); what was summed before is brought to the new largest. A NaN is no
// largest, and makes the sum NaN.
template <int DIM>
static __device__ __forceinline__ void weigh_scores(float (&scores)[KEYS<DIM> / 8][4],
                                                    QueryState<DIM> &s, const AttentionShape &shape,
                                                    const int (&positions)[2], int from) {
    float largest[2] = {s.largest[0], s.largest[1]}, base[2], factor[2];
    const KeyPattern &pattern = shape.pattern;
    const bool whole[2] = {sees_tile<DIM>(pattern, positions[0], from),
                           sees_tile<DIM>(pattern, positions[1], from)};
    UNROLL
    for (int n = 0; n < KEYS<DIM> / 8; n++)
        for (int e = 0; e < 4; e++) {
            int r = e / 2, key = from + 8 * n + threadIdx.x % 4 * 2 + e % 2;
            bool seen = whole[r] || key_visible(&pattern, positions[r], key);
            scores[n][e] = seen ? bend(scores[n][e] * s.scale[r], shape.cap) : -INFINITY;
            largest[r] = fmaxf(largest[r], scores[n][e]);
        }
    for (int r = 0; r < 2; r++) {
        largest[r] = quad_max(largest[r]);
        base[r] = largest[r] == -INFINITY ? 0.0f : largest[r];
        factor[r] = expf(s.largest[r] - base[r]);
        s.largest[r] = largest[r];
        s.sums[r] *= factor[r];
    }
    UNROLL
    for (int n = 0; n < KEYS<DIM> / 8; n++)
        for (int e = 0; e < 4; e++) {
            scores[n][e] = expf(scores[n][e] - base[e / 2]);
            s.sums[e / 2] += scores[n][e];
        }
    UNROLL
    for (int n = 0; n < DIM / 8; n++)
        for (int e = 0; e < 4; e++)
            s.out[n][e] *= factor[e / 2];
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
        for (int n = 0; n < DIM / 8; n += 2) {
            // Keys 16 k .., then 16 k + 8 ..; of channels 8 n .., then of 8 n + 8 ..
            unsigned b[4];
            load_matrices_transposed(
                b, &m.values[16 * k + lane / 8 % 2 * 8 + lane % 8][8 * n + lane / 16 * 8]);
            UNROLL
            for (int i = 0; i < 2; i++) {
                multiply_halves(s.out[n + i], low, b[2 * i], b[2 * i + 1]);
                multiply_halves(s.out[n + i], high, b[2 * i], b[2 * i + 1]);
            }
        }
    }
}

// Values that are not finite reach those queries that see them, and no others.
template <int DIM>
static __device__ __forceinline__ void add_nonfinite_values(QueryState<DIM> &s, const TileWork &w,
                                                            const Run &run,
                                                            const int (&positions)[2], int from) {
    for (int p = from; p < from + KEYS<DIM> && p <= run.last_key; p++) {
        if (!reads_key(w, run, p)) continue;
        const uint16_t *value =
            (const uint16_t *)w.kv.values + kv_index(w.kv, run.sequence, blockIdx.y, p);
        UNROLL
        for (int n = 0; n < DIM / 8; n++)
            for (int e = 0; e < 4; e++) {
                int c = 8 * n + threadIdx.x % 4 * 2 + e % 2;
                if (c >= w.kv.head_dim || (value[c] & 0x7c00) != 0x7c00) continue;
                if (key_visible(&w.op.shape.pattern, positions[e / 2], p))
                    s.out[n][e] += half_value(value[c]);
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
        if (!s.q[r]) continue;
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
                                                QueryState<DIM> &s, const Run &run, int from,
                                                int &count) {
    int mine = threadIdx.x / WARP * WARP_QUERIES; // of the warp
    int positions[2], query = mine + threadIdx.x % WARP / 4;
    for (int r = 0; r < 2; r++, query += 8)
        positions[r] = query >= run.first && query < run.end ? m.positions[query] : -1;
    bool idle = run.end <= mine || run.first >= mine + WARP_QUERIES;
    for (int next; from <= run.last_key; from = next, count++) {
        float scores[KEYS<DIM> / 8][4];
        wait_for_copies();
        __syncthreads(); // the keys are there, and no thread still reads the last values
        copy_tile<DIM>(m.values, run.values, w, run, from);
        if (!idle) {
            score_tile<DIM>(scores, m, s, w.op.shape.head_dim);
            weigh_scores<DIM>(scores, s, w.op.shape, positions, from);
        }
        wait_for_copies();
        check_values<DIM>(m, count);
        __syncthreads(); // the values are there, and no thread still reads the keys
        next = first_seen(run.reach, from + KEYS<DIM>);
        if (next <= run.last_key) copy_tile<DIM>(m.keys, run.keys, w, run, next);
        if (idle) continue;
        add_values<DIM>(s, m, scores);
        if (m.nonfinite_tile == count) add_nonfinite_values<DIM>(s, w, run, positions, from);
    }
}

// Grid: tiles of queries, those with the most keys first; key-value heads.
template <int DIM> static __global__ void __launch_bounds__(THREADS) tiles_kernel(TileWork w) {
    TileMemory<DIM> &m = block_memory<TileMemory<DIM>>();
    int tile = (int)gridDim.x - 1 - (int)blockIdx.x, count = 0;
    wait_for_earlier_kernels();
    note_positions<DIM>(m, w, tile);
    QueryState<DIM> s;
    for (int first = 0; first < QUERIES && m.sequences[first] >= 0;) {
        Run run = next_run<DIM>(m, w, first);
        int from = first_seen(run.reach, 0);
        if (from <= run.last_key) copy_tile<DIM>(m.keys, run.keys, w, run, from);
        if (!first) open_queries<DIM>(s, w, tile); // while the first keys arrive
        walk_run<DIM>(m, w, s, run, from, count);
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
        LAUNCH(device, tiles_kernel<64>, grid, THREADS, w);
    else if (op->shape.head_dim <= 128)
        LAUNCH(device, tiles_kernel<128>, grid, THREADS, w);
    else
        LAUNCH(device, tiles_kernel<256>, grid, THREADS, w);
}
