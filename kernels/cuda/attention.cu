// Grouped-query attention over the cache, split along it: a block takes SPLIT positions of one
// key-value head for up to HEADS of its query heads, so that keys and values are read once for all
// of them; the partial sums of the splits are joined by the last block to finish.
//
//   split s of row i, head h:   m = max score,  l = sum e^(score - m),  a = sum e^(score - m) v
//   joined, in order of s:      M = max m;  out = sum a e^(m - M) / sum l e^(m - M)
//
// Which splits a row has depends on its position alone, so its result is the same in any batch.
#include "kernels/cuda/attention.h"

enum { SPLIT = 64, HEADS = 8, THREADS = 128, MAX_HEAD_DIM = 1024 };

struct AttentionMemory {
    float q[HEADS][MAX_HEAD_DIM]; // scaled
    float scores[HEADS][SPLIT];
    float largest[HEADS], sums[HEADS];
    bool last; // the other splits of this row have ended
};

struct AttentionWork {
    AttentionOperation op;
    KvLayer kv;
    int first_row, splits; // of this launch
    int head_tiles, group; // query heads per key-value head, and tiles of HEADS of them
    float *partial;        // (rows, n_heads, splits, head_dim)
    float *largest, *sums; // (rows, n_heads, splits)
    unsigned *arrived;     // (rows, n_kv_heads x head_tiles), 0 before and after
};

// Of one block.
struct Tile {
    int row, position, sequence; // row within the batch
    int kv_head, head, n_heads;  // first query head, and how many
    int first, end;              // positions
};

static __device__ __forceinline__ Tile tile_of_block(const AttentionWork &w) {
    Tile t;
    t.row = w.first_row + blockIdx.z;
    t.position = w.op.rows.positions[t.row];
    t.sequence = w.op.rows.sequences[t.row];
    t.kv_head = blockIdx.y / w.head_tiles;
    int in_group = blockIdx.y % w.head_tiles * HEADS;
    t.head = t.kv_head * w.group + in_group;
    t.n_heads = w.group - in_group < HEADS ? w.group - in_group : HEADS;
    t.first = blockIdx.x * SPLIT;
    t.end = t.first + SPLIT < t.position + 1 ? t.first + SPLIT : t.position + 1;
    return t;
}

static __device__ void load_queries(AttentionMemory &memory, const AttentionWork &w,
                                    const Tile &t) {
    int dim = w.op.shape.head_dim;
    const float *q = w.op.q + ((size_t)t.row * w.op.shape.n_heads + t.head) * dim;
    for (int j = threadIdx.x; j < t.n_heads * dim; j += THREADS)
        memory.q[j / dim][j % dim] = q[j] * w.op.shape.scale;
    __syncthreads();
}

// One warp per key, all heads of the tile at once.
static __device__ void score_keys(AttentionMemory &memory, const AttentionWork &w, const Tile &t) {
    int dim = w.op.shape.head_dim, lane = threadIdx.x % WARP;
    for (int p = t.first + threadIdx.x / WARP; p < t.first + SPLIT; p += THREADS / WARP) {
        bool seen = p < t.end && key_visible(&w.op.shape.pattern, t.position, p);
        float dots[HEADS];
        for (int h = 0; h < HEADS; h++)
            dots[h] = 0.0f;
        size_t k = kv_index(w.kv, t.sequence, t.kv_head, p);
        for (int j = lane; seen && j < dim; j += WARP) {
            float key = kv_element(w.kv, w.kv.keys, k + j);
            for (int h = 0; h < HEADS; h++)
                if (h < t.n_heads) dots[h] = fmaf(memory.q[h][j], key, dots[h]);
        }
        for (int h = 0; h < t.n_heads; h++) {
            float score = warp_sum(dots[h]);
            if (!lane) memory.scores[h][p - t.first] = seen ? score : -INFINITY;
        }
    }
    __syncthreads();
}

// NaN stays NaN: fmaxf would lose it, so sums carry it.
static __device__ void exponentials(AttentionMemory &memory, const Tile &t) {
    int lane = threadIdx.x % WARP;
    for (int h = threadIdx.x / WARP; h < t.n_heads; h += THREADS / WARP) {
        float largest = -INFINITY, sum = 0.0f;
        for (int p = lane; p < SPLIT; p += WARP)
            largest = fmaxf(largest, memory.scores[h][p]);
        largest = warp_max(largest);
        for (int p = lane; p < SPLIT; p += WARP) {
            float score = memory.scores[h][p];
            float e = score == -INFINITY ? 0.0f : expf(score - largest);
            memory.scores[h][p] = e;
            sum += e;
        }
        sum = warp_sum(sum);
        if (!lane) memory.largest[h] = largest, memory.sums[h] = sum;
    }
    __syncthreads();
}

// Each thread has some channels; where the row has one split, that is the result.
static __device__ void weigh_values(AttentionMemory &memory, const AttentionWork &w, const Tile &t,
                                    bool alone) {
    int dim = w.op.shape.head_dim;
    for (int j = threadIdx.x; j < dim; j += THREADS) {
        float acc[HEADS];
        for (int h = 0; h < HEADS; h++)
            acc[h] = 0.0f;
        size_t v = kv_index(w.kv, t.sequence, t.kv_head, t.first) + j;
        for (int p = 0; p < t.end - t.first; p++, v += dim) {
            float value = kv_element(w.kv, w.kv.values, v);
            for (int h = 0; h < HEADS; h++)
                if (h < t.n_heads && memory.scores[h][p] != 0.0f)
                    acc[h] = fmaf(memory.scores[h][p], value, acc[h]);
        }
        for (int h = 0; h < t.n_heads; h++) {
            size_t head = (size_t)t.row * w.op.shape.n_heads + t.head + h;
            size_t part = ((size_t)blockIdx.z * w.op.shape.n_heads + t.head + h) * w.splits;
            if (alone)
                w.op.out[head * dim + j] = acc[h] / memory.sums[h];
            else
                w.partial[(part + blockIdx.x) * dim + j] = acc[h];
        }
    }
    if (!alone && (int)threadIdx.x < t.n_heads) {
        int h = threadIdx.x;
        size_t part = ((size_t)blockIdx.z * w.op.shape.n_heads + t.head + h) * w.splits;
        w.largest[part + blockIdx.x] = memory.largest[h];
        w.sums[part + blockIdx.x] = memory.sums[h];
    }
}

static __device__ void join_splits(const AttentionWork &w, const Tile &t, int n_splits) {
    int dim = w.op.shape.head_dim;
    for (int h = 0; h < t.n_heads; h++) {
        size_t head = (size_t)t.row * w.op.shape.n_heads + t.head + h;
        size_t part = ((size_t)blockIdx.z * w.op.shape.n_heads + t.head + h) * w.splits;
        float largest = -INFINITY, sum = 0.0f;
        for (int s = 0; s < n_splits; s++)
            largest = fmaxf(largest, w.largest[part + s]);
        for (int s = 0; s < n_splits; s++)
            if (w.largest[part + s] != -INFINITY || isnan(w.sums[part + s]))
                sum = fmaf(w.sums[part + s], expf(w.largest[part + s] - largest), sum);
        for (int j = threadIdx.x; j < dim; j += THREADS) {
            float acc = 0.0f;
            for (int s = 0; s < n_splits; s++)
                if (w.largest[part + s] != -INFINITY || isnan(w.sums[part + s]))
                    acc = fmaf(w.partial[(part + s) * dim + j], expf(w.largest[part + s] - largest),
                               acc);
            w.op.out[head * dim + j] = acc / sum;
        }
    }
}

// Grid: splits, tiles of heads, rows.
static __global__ void __launch_bounds__(THREADS) attention_kernel(AttentionWork w) {
    AttentionMemory &memory = block_memory<AttentionMemory>();
    wait_for_earlier_kernels();
    Tile t = tile_of_block(w);
    int n_splits = t.position / SPLIT + 1;
    let_next_kernel_start();
    if ((int)blockIdx.x >= n_splits) return;
    load_queries(memory, w, t);
    score_keys(memory, w, t);
    exponentials(memory, t);
    weigh_values(memory, w, t, n_splits == 1);
    unsigned *counter = w.arrived + blockIdx.z * gridDim.y + blockIdx.y;
    if (n_splits > 1 && arrives_last(counter, (unsigned)n_splits, memory.last))
        join_splits(w, t, n_splits);
}

// Somebody looks: the softmax itself, one block per row and query head, three plain passes.
struct WeightsMemory {
    float parts[THREADS / WARP];
};
static __global__ void weights_kernel(AttentionOperation op, KvLayer kv, int group) {
    WeightsMemory &memory = block_memory<WeightsMemory>();
    int i = blockIdx.x, h = blockIdx.y, dim = op.shape.head_dim;
    int position = op.rows.positions[i], sequence = op.rows.sequences[i];
    const float *q = op.q + ((size_t)i * op.shape.n_heads + h) * dim;
    float *out = op.weights_out + ((size_t)i * op.shape.n_heads + h) * kv.max_seq_len;
    float largest = -INFINITY, sum = 0.0f;
    for (int p = threadIdx.x; p < kv.max_seq_len; p += THREADS) {
        out[p] = -INFINITY;
        if (!key_visible(&op.shape.pattern, position, p)) continue;
        size_t k = kv_index(kv, sequence, h / group, p);
        float dot = 0.0f;
        for (int j = 0; j < dim; j++)
            dot = fmaf(q[j] * op.shape.scale, kv_element(kv, kv.keys, k + j), dot);
        out[p] = dot;
        largest = fmaxf(largest, dot);
    }
    largest = block_max<THREADS>(largest, memory.parts);
    for (int p = threadIdx.x; p < kv.max_seq_len; p += THREADS) {
        out[p] = out[p] == -INFINITY ? 0.0f : expf(out[p] - largest);
        sum += out[p];
    }
    sum = block_sum<THREADS>(sum, memory.parts);
    for (int p = threadIdx.x; p < kv.max_seq_len; p += THREADS)
        out[p] /= sum;
}

// ---- scratch ----

enum { SCRATCH_ROWS = 64, MAX_TILES = 1024 }; // rows of long caches per launch; counters per row

static constexpr size_t COUNTER_BYTES = SCRATCH_ROWS * MAX_TILES * sizeof(unsigned);

// Floats of partial sums that attention over such a cache may need at once.
static size_t partial_floats(const KvShape *cache, int n_heads) {
    size_t splits = blocks_for((size_t)cache->max_seq_len, SPLIT);
    if (splits == 1) return 0;
    return SCRATCH_ROWS * (size_t)n_heads * splits * ((size_t)cache->head_dim + 2);
}

size_t attention_bytes(const MemoryPlan *plan) {
    return COUNTER_BYTES + partial_floats(&plan->cache, plan->n_heads) * sizeof(float);
}

// Made when attention is first asked for, before anything is captured.
static bool reserve_scratch(Device *device, const KvView *view, const AttentionShape *shape) {
    size_t wanted = partial_floats(&view->kv->shape, shape->n_heads);
    if (!device->attention_counters)
        device->attention_counters = (unsigned *)device_alloc(device, COUNTER_BYTES);
    if (wanted > device->attention_scratch_floats) {
        device_free(device, device->attention_scratch);
        device->attention_scratch = (float *)device_alloc(device, wanted * sizeof(float));
        device->attention_scratch_floats = wanted;
    }
    return device_ok(device);
}

// ---- the operation ----

static void run_splits(Device *device, const AttentionOperation *op) {
    AttentionWork w = {};
    w.op = *op;
    w.kv = kv_layer(&op->view);
    w.group = op->shape.n_heads / op->shape.n_kv_heads;
    w.head_tiles = (w.group + HEADS - 1) / HEADS;
    w.splits = (int)blocks_for((size_t)pass_positions(device, w.kv.max_seq_len), SPLIT);
    size_t parts = (size_t)SCRATCH_ROWS * (size_t)op->shape.n_heads * (size_t)w.splits;
    w.partial = device->attention_scratch;
    if (w.partial) { // else no row has two splits
        w.largest = w.partial + parts * (size_t)op->shape.head_dim;
        w.sums = w.largest + parts;
    }
    w.arrived = device->attention_counters;
    unsigned tiles = (unsigned)(op->shape.n_kv_heads * w.head_tiles);
    for (int n; w.first_row < op->rows.n; w.first_row += n) {
        n = op->rows.n - w.first_row < SCRATCH_ROWS ? op->rows.n - w.first_row : SCRATCH_ROWS;
        LAUNCH_OVERLAPPED(device, attention_kernel, dim3((unsigned)w.splits, tiles, (unsigned)n),
                          THREADS, w);
    }
}

void run_attention(Device *device, const Operation *operation) {
    const AttentionOperation *op = &operation->attention;
    if (fits_tiles(device, op))
        run_tiles(device, op);
    else
        run_splits(device, op);
    if (op->weights_out)
        LAUNCH(device, weights_kernel, dim3((unsigned)op->rows.n, (unsigned)op->shape.n_heads),
               THREADS, *op, kv_layer(&op->view), op->shape.n_heads / op->shape.n_kv_heads);
}

void attention(Device *device, float *out, const float *q, const KvView *view, const Rows *rows,
               const AttentionShape *shape, float *weights_out) {
    if (!device_ok(device)) return;
    if (shape->head_dim > MAX_HEAD_DIM) {
        device_fail(device, ERROR_DEVICE, "GPU: heads of %d channels, at most %d are supported",
                    shape->head_dim, (int)MAX_HEAD_DIM);
        return;
    }
    if (!reserve_scratch(device, view, shape)) return;
    Operation operation = operation_of(OPERATION_ATTENTION);
    AttentionOperation *op = &operation.attention;
    op->out = out, op->q = q, op->shape = *shape, op->weights_out = weights_out;
    copy_view(&op->view, view);
    copy_rows(&op->rows, rows);
    perform(device, &operation);
}
