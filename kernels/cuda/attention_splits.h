// Grouped-query attention over the cache, split along it: a block takes SPLIT positions of one
// key-value head for up to HEADS of its query heads, so that keys and values are read once for all
// of them; the partial sums of the splits are joined as attention_join.h says.
//
//   split s of row i, head h:   m = max score,  l = sum e^(score - m),  a = sum e^(score - m) v
//
// Which splits a row has depends on its position and on the pattern alone, so its result is the
// same in any batch. Keys that the pattern hides are not read; a split of nothing else has l = 0.
//
// A lane takes eight channels of a key or value, 16 bytes of a cache in 16 bits; as many lanes
// stand side by side as a head needs, so that a warp takes four positions of 64 channels in one
// load, two of 128. The warps of a block divide its positions: at short contexts the time of the
// kernel is what one warp does in sequence.
#pragma once

#include "kernels/cuda/attention_join.h"
#include "kernels/cuda/project/dot.h"
#include "kernels/cuda/steps.h"
extern "C" {
#include "kernels/limits.h"
}

enum { SPLIT = 64, ATTENTION_THREADS = JOIN_THREADS, MAX_HEAD_DIM = 1024 };
enum { ATTENTION_WARPS = ATTENTION_THREADS / WARP };
enum { HEADS = 4, CHANNELS = 8 }; // of a block at most; of a lane's load
static_assert((int)HEADS <= (int)JOIN_HEADS, "the join has room for them");

// For heads of up to DIM channels: 64, 128, 256 or MAX_HEAD_DIM.
template <int DIM> struct Lanes {
    static constexpr int SIDE = DIM < 256 ? DIM / CHANNELS : WARP; // lanes of one position
    static constexpr int WIDTH = SIDE * CHANNELS;                  // channels that they load
    static constexpr int PASSES = DIM / WIDTH;                     // until a head is whole
    static constexpr int STEP = ATTENTION_THREADS / SIDE;          // positions that a block loads
    // Of a thread, STEP apart: those whose loads are in flight together, and how often.
    static constexpr int EACH = SPLIT / STEP, AT_ONCE = EACH < 4 ? EACH : 4;
    static constexpr int BATCHES = EACH / AT_ONCE;
};

template <int DIM, int H> struct AttentionMemory {
    float scores[H][SPLIT];
    alignas(16) float parts[ATTENTION_WARPS][H][Lanes<DIM>::WIDTH]; // of the warps' sums of values
    float largest[H], sums[H];
    JoinMemory join;
};

struct AttentionWork {
    AttentionOperation op;
    KvLayer kv;
    int first_row;         // of this launch
    int head_tiles, group; // query heads per key-value head, and tiles of HEADS of them
    Parts parts;
};

// Launches the kernel for the rows from w.first_row on that there is scratch for. The second,
// before it: true where the step is kept to run later (persistent/chain.cu).
void launch_attention(Device *device, const AttentionWork *w);
bool chain_attention(Device *device, const AttentionWork *w);

// The tiles of heads of a row.
static __device__ __forceinline__ int row_tiles(const AttentionWork &w) {
    return w.kv.n_kv_heads * w.head_tiles;
}

// What a block takes at a time.
struct Tile {
    int split, tile, launch_row; // of the grid; which row of this launch
    int row, position, sequence; // row within the batch
    int kv_head, head, n_heads;  // first query head, and how many
    int first_split, n_splits;   // of the row: those from the first on have keys to see
    int first, end;              // positions of this block
    int slot;                    // of the first
    bool sees;                   // one of them at least
};

// PLAIN: heads have DIM channels, and of the keys that a window shows none is hidden.
template <bool PLAIN>
static __device__ __forceinline__ Tile tile_at(const AttentionWork &w, int split, int tile,
                                               int launch_row) {
    Tile t;
    t.split = split, t.tile = tile, t.launch_row = launch_row;
    t.row = w.first_row + launch_row;
    t.position = w.op.rows.positions[t.row];
    t.sequence = w.op.rows.sequences[t.row];
    t.kv_head = tile / w.head_tiles;
    int in_group = tile % w.head_tiles * HEADS;
    t.head = t.kv_head * w.group + in_group;
    t.n_heads = w.group - in_group < HEADS ? w.group - in_group : HEADS;
    KeyReach reach = {};
    int window = w.op.shape.pattern.window;
    int visible = window && t.position >= window ? t.position - window + 1 : 0;
    if (!PLAIN) {
        reach = key_reach(&w.op.shape.pattern, t.position);
        visible = first_seen(reach, 0);
    }
    t.first_split = visible / SPLIT;
    t.n_splits = t.position / SPLIT + 1;
    t.first = split == t.first_split ? visible : split * SPLIT;
    t.end = split + 1 < t.n_splits ? (split + 1) * SPLIT : t.position + 1;
    t.slot = kv_slot(w.kv.slots, t.first);
    t.sees = PLAIN || first_seen(reach, t.first) < t.end;
    return t;
}

// Of the tile's first head and split `split`, as an index into the sums of the parts.
static __device__ __forceinline__ size_t part_of(const AttentionWork &w, const Tile &t, int split) {
    size_t head = (size_t)t.launch_row * w.op.shape.n_heads + t.head;
    return head * w.parts.splits + split;
}

// Eight elements from `index` on, a multiple of 8.
template <DType D>
static __device__ __forceinline__ Eight<D> load_whole(const void *array, size_t index) {
    const int4 *from = (const int4 *)((const char *)array + index * (D == DTYPE_F32 ? 4 : 2));
    Eight<D> x;
    for (int i = 0; i < (D == DTYPE_F32 ? 2 : 1); i++)
        x.bits[i] = from[i];
    return x;
}

// Eight channels from `channel` on of what begins at `index`, 0 for those that the head does not
// have. Where head_dim is no multiple of 8 they come one at a time.
template <DType D>
static __device__ __forceinline__ Eight<D> load_channels(const void *array, size_t index,
                                                         int channel, int dim) {
    constexpr int WORDS = D == DTYPE_F32 ? 8 : 4;
    if (dim % CHANNELS == 0 && channel < dim) return load_whole<D>(array, index + (size_t)channel);
    Eight<D> x;
    int words[WORDS];
    for (int i = 0; i < WORDS; i++)
        words[i] = 0;
    UNROLL
    for (int i = 0; i < CHANNELS; i++) {
        if (channel + i >= dim) continue;
        size_t at = index + (size_t)(channel + i);
        if (D == DTYPE_F32)
            words[i % WORDS] = ((const int *)array)[at];
        else
            words[i / 2 % WORDS] |= (int)((unsigned)((const uint16_t *)array)[at] << (i % 2 * 16));
    }
    for (int i = 0; i < WORDS / 4; i++)
        x.bits[i] = int4{words[4 * i], words[4 * i + 1], words[4 * i + 2], words[4 * i + 3]};
    return x;
}

// Eight channels of a query from `channel` on, scaled; 0 for those that the head does not have.
template <bool PLAIN>
static __device__ __forceinline__ void load_query(float (&q)[CHANNELS], const AttentionWork &w,
                                                  const Tile &t, int h, int channel) {
    int dim = w.op.shape.head_dim, head = t.head + (h < t.n_heads ? h : 0);
    const float *from = w.op.q + ((size_t)t.row * w.op.shape.n_heads + head) * dim + channel;
    if constexpr (PLAIN) {
        const float4 low = *(const float4 *)from, high = *(const float4 *)(from + 4);
        const float eight[CHANNELS] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
        UNROLL
        for (int i = 0; i < CHANNELS; i++)
            q[i] = eight[i] * w.op.shape.scale;
    } else {
        UNROLL
        for (int i = 0; i < CHANNELS; i++)
            q[i] = channel + i < dim ? from[i] * w.op.shape.scale : 0.0f;
    }
}

// Eight channels of a batch's positions, from `from` on; seen: whether they are.
// PLAIN: past the end the last position is loaded again, without a branch, which would wait.
template <DType D, int DIM, bool PLAIN>
static __device__ __forceinline__ void
load_positions(Eight<D> (&x)[Lanes<DIM>::AT_ONCE], bool (&seen)[Lanes<DIM>::AT_ONCE],
               const AttentionWork &w, const Tile &t, const void *array, int from, int channel) {
    UNROLL
    for (int u = 0; u < Lanes<DIM>::AT_ONCE; u++) {
        int p = from + u * Lanes<DIM>::STEP;
        seen[u] = p < t.end && (PLAIN || key_visible(&w.op.shape.pattern, t.position, p));
        if (!PLAIN && !seen[u]) continue;
        if (PLAIN && p >= t.end) p = t.end - 1;
        // What a row sees is no longer than a ring, so that this goes round once at most.
        int slot = kv_slot_behind(w.kv.slots, t.slot, p - t.first);
        size_t index = slot_index(w.kv, t.sequence, t.kv_head, slot);
        x[u] = PLAIN ? load_whole<D>(array, index + (size_t)channel)
                     : load_channels<D>(array, index, channel, w.op.shape.head_dim);
    }
}

// The first position of a batch of this thread.
template <int DIM> static __device__ __forceinline__ int own_position(const Tile &t, int batch) {
    typedef Lanes<DIM> L;
    return t.first + (int)threadIdx.x / L::SIDE + batch * L::AT_ONCE * L::STEP;
}

// A batch of positions, all heads of the tile.
template <DType D, int DIM, int H, bool PLAIN>
static __device__ __forceinline__ void
score_positions(AttentionMemory<DIM, H> &memory, const AttentionWork &w, const Tile &t, int from) {
    constexpr int SIDE = Lanes<DIM>::SIDE, AT_ONCE = Lanes<DIM>::AT_ONCE;
    int lane = threadIdx.x % SIDE;
    float dots[H][AT_ONCE] = {};
    bool seen[AT_ONCE];
    for (int pass = 0; pass < Lanes<DIM>::PASSES; pass++) {
        int channel = pass * Lanes<DIM>::WIDTH + lane * CHANNELS;
        Eight<D> keys[AT_ONCE];
        load_positions<D, DIM, PLAIN>(keys, seen, w, t, w.kv.keys, from, channel);
        UNROLL
        for (int h = 0; h < H; h++) {
            float q[CHANNELS];
            load_query<PLAIN>(q, w, t, h, channel);
            UNROLL
            for (int u = 0; u < AT_ONCE; u++) {
                if (!PLAIN && !seen[u]) continue;
                UNROLL
                for (int i = 0; i < CHANNELS; i++)
                    dots[h][u] = fmaf(element_of<D>(keys[u], i), q[i], dots[h][u]);
            }
        }
    }
    UNROLL
    for (int h = 0; h < H; h++) {
        UNROLL
        for (int u = 0; u < AT_ONCE; u++) {
            for (int bits = SIDE / 2; bits; bits /= 2)
                dots[h][u] += __shfl_xor_sync(ALL_LANES, dots[h][u], bits);
            int p = from + u * Lanes<DIM>::STEP;
            if (!lane && p < t.end)
                memory.scores[h][p - t.first] =
                    seen[u] ? bend(dots[h][u], w.op.shape.cap) : -INFINITY;
        }
    }
}

// NaN stays NaN: fmaxf would lose it, so sums carry it.
template <int DIM, int H>
static __device__ __forceinline__ void exponentials(AttentionMemory<DIM, H> &memory,
                                                    const Tile &t) {
    static_assert(H <= ATTENTION_WARPS, "a warp for each head");
    int lane = threadIdx.x % WARP, count = t.end - t.first, h = threadIdx.x / WARP;
    if (h < t.n_heads) {
        float largest = -INFINITY, sum = 0.0f, scores[SPLIT / WARP];
        UNROLL
        for (int i = 0; i < SPLIT / WARP; i++) {
            scores[i] = lane + i * WARP < count ? memory.scores[h][lane + i * WARP] : -INFINITY;
            largest = fmaxf(largest, scores[i]);
        }
        largest = warp_max(largest);
        UNROLL
        for (int i = 0; i < SPLIT / WARP; i++) {
            float e = scores[i] == -INFINITY ? 0.0f : expf(scores[i] - largest);
            memory.scores[h][lane + i * WARP] = e; // 0 where there is no position
            sum += e;
        }
        sum = warp_sum(sum);
        if (!lane) memory.largest[h] = largest, memory.sums[h] = sum;
    }
    __syncthreads();
}

template <DType D, int DIM, int H>
static __device__ __forceinline__ void
add_values(float (&acc)[H][CHANNELS], const AttentionMemory<DIM, H> &memory, const Tile &t,
           const Eight<D> (&values)[Lanes<DIM>::AT_ONCE], const bool (&seen)[Lanes<DIM>::AT_ONCE],
           int from) {
    UNROLL
    for (int u = 0; u < Lanes<DIM>::AT_ONCE; u++) {
        int at = from + u * Lanes<DIM>::STEP - t.first;
        UNROLL
        for (int h = 0; h < H; h++) {
            float e = seen[u] && h < t.n_heads ? memory.scores[h][at] : 0.0f;
            if (e == 0.0f) continue; // times infinity it would be NaN
            UNROLL
            for (int i = 0; i < CHANNELS; i++)
                acc[h][i] = fmaf(e, element_of<D>(values[u], i), acc[h][i]);
        }
    }
}

// The sums of all lanes and warps, in one order; where the row has one split, that is the result.
template <int DIM, int H>
static __device__ __forceinline__ void store_values(AttentionMemory<DIM, H> &memory,
                                                    const AttentionWork &w, const Tile &t, int pass,
                                                    float (&acc)[H][CHANNELS]) {
    constexpr int SIDE = Lanes<DIM>::SIDE, WIDTH = Lanes<DIM>::WIDTH;
    int dim = w.op.shape.head_dim, lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    UNROLL
    for (int h = 0; h < H; h++) {
        UNROLL
        for (int i = 0; i < CHANNELS; i++)
            for (int bits = SIDE; bits < WARP; bits *= 2)
                acc[h][i] += __shfl_xor_sync(ALL_LANES, acc[h][i], bits);
        float *to = memory.parts[warp][h] + lane % SIDE * CHANNELS;
        if (lane >= SIDE) continue;
        *(float4 *)to = float4{acc[h][0], acc[h][1], acc[h][2], acc[h][3]};
        *(float4 *)(to + 4) = float4{acc[h][4], acc[h][5], acc[h][6], acc[h][7]};
    }
    __syncthreads();
    bool is_result = t.first_split + 1 == t.n_splits;
    for (int at = threadIdx.x; at < t.n_heads * WIDTH; at += ATTENTION_THREADS) {
        int h = at / WIDTH, j = at % WIDTH, channel = pass * WIDTH + j;
        if (channel >= dim) continue;
        float sum = memory.parts[0][h][j];
        UNROLL
        for (int i = 1; i < ATTENTION_WARPS; i++)
            sum += memory.parts[i][h][j];
        size_t head = (size_t)t.row * w.op.shape.n_heads + t.head + h;
        size_t part = part_of(w, t, t.split) + (size_t)h * w.parts.splits;
        if (is_result)
            w.op.out[head * dim + channel] = sum / memory.sums[h];
        else
            w.parts.sums_of_values[part * w.parts.stride + channel] = sum;
        if (!pass && !j && !is_result)
            w.parts.largest[part] = memory.largest[h], w.parts.sums[part] = memory.sums[h];
    }
    __syncthreads();
}

// What a block does of a split that has keys to see. Where few registers hold them, the values are
// asked for together with the keys.
template <DType D, int DIM, int H, bool PLAIN>
static __device__ __forceinline__ void attend_split(AttentionMemory<DIM, H> &memory,
                                                    const AttentionWork &w, const Tile &t) {
    constexpr int AT_ONCE = Lanes<DIM>::AT_ONCE, BATCHES = Lanes<DIM>::BATCHES;
    constexpr bool AHEAD = D != DTYPE_F32 && BATCHES == 1 && PLAIN;
    int channel = (int)threadIdx.x % Lanes<DIM>::SIDE * CHANNELS;
    Eight<D> values[AT_ONCE];
    bool seen[AT_ONCE];
    if (AHEAD)
        load_positions<D, DIM, PLAIN>(values, seen, w, t, w.kv.values, own_position<DIM>(t, 0),
                                      channel);
    for (int batch = 0; batch < BATCHES; batch++)
        score_positions<D, DIM, H, PLAIN>(memory, w, t, own_position<DIM>(t, batch));
    __syncthreads();
    exponentials<DIM, H>(memory, t);
    for (int pass = 0; pass < Lanes<DIM>::PASSES; pass++) {
        float acc[H][CHANNELS] = {};
        for (int batch = 0; batch < BATCHES; batch++) {
            int from = own_position<DIM>(t, batch);
            if (!AHEAD)
                load_positions<D, DIM, PLAIN>(values, seen, w, t, w.kv.values, from,
                                              pass * Lanes<DIM>::WIDTH + channel);
            add_values<D, DIM, H>(acc, memory, t, values, seen, from);
        }
        store_values<DIM, H>(memory, w, t, pass, acc);
    }
}

// A split without visible keys; its row has others. Zeros, so that the join need not look which
// parts there are.
static inline __device__ void store_nothing(const AttentionWork &w, const Tile &t) {
    const Parts &parts = w.parts;
    for (int h = 0; h < t.n_heads; h++) {
        size_t part = part_of(w, t, t.split) + (size_t)h * parts.splits;
        for (int j = threadIdx.x; j < parts.stride; j += ATTENTION_THREADS)
            parts.sums_of_values[part * parts.stride + j] = 0.0f;
        if (!threadIdx.x) parts.largest[part] = -INFINITY, parts.sums[part] = 0.0f;
    }
}

static __device__ __forceinline__ void join_splits(JoinMemory &memory, const AttentionWork &w,
                                                   const Tile &t) {
    int dim = w.op.shape.head_dim, first = t.first_split;
    float *out = w.op.out + ((size_t)t.row * w.op.shape.n_heads + t.head) * dim;
    size_t tile = (size_t)t.launch_row * row_tiles(w) + t.tile;
    unsigned *arrived = w.parts.arrived + tile * groups_of(w.parts.splits);
    join_parts(memory, w.parts, part_of(w, t, first), t.n_heads, t.split - first,
               t.n_splits - first, arrived, out, dim);
}

// All that a block does with its tile.
template <DType D, int DIM, int H, bool PLAIN>
static __device__ __forceinline__ void attend_tile(AttentionMemory<DIM, H> &memory,
                                                   const AttentionWork &w, const Tile &t) {
    if (t.split < t.first_split || t.split >= t.n_splits) return;
    if (t.sees)
        attend_split<D, DIM, H, PLAIN>(memory, w, t);
    else
        store_nothing(w, t);
    if (t.first_split + 1 < t.n_splits) join_splits(memory.join, w, t);
}
