// Attention of few rows: the kernel of attention_splits.h, which parts it needs room for, and which
// of its variants a cache and a pattern take.
#include "kernels/cuda/attention_splits.h"

// Grid: splits, tiles of heads, rows.
template <DType D, int DIM, int H, bool PLAIN>
static __global__ void __launch_bounds__(ATTENTION_THREADS, 2) attention_kernel(AttentionWork w) {
    AttentionMemory<DIM, H> &memory = block_memory<AttentionMemory<DIM, H>>();
    wait_for_earlier_kernels();
    let_next_kernel_start();
    Tile t = tile_at<PLAIN>(w, (int)blockIdx.x, (int)blockIdx.y, (int)blockIdx.z);
    attend_tile<D, DIM, H, PLAIN>(memory, w, t);
}

// ---- scratch ----

enum { SCRATCH_ROWS = 64 }; // rows of long caches per launch

static int tiles_of(int n_heads, int n_kv_heads) {
    return n_kv_heads * (int)blocks_for((size_t)(n_heads / n_kv_heads), HEADS);
}

// What the parts of attention over such a cache take: nothing where no row has two splits.
struct PartsRoom {
    size_t floats, counters;
};

static PartsRoom parts_room(const KvShape *cache, int n_heads) {
    size_t splits = blocks_for((size_t)cache->max_seq_len, SPLIT);
    if (splits == 1) return PartsRoom{};
    size_t parts = SCRATCH_ROWS * (size_t)n_heads * splits;
    size_t tiles = (size_t)tiles_of(n_heads, cache->n_kv_heads);
    return PartsRoom{parts * ((size_t)part_stride(cache->head_dim) + 2),
                     SCRATCH_ROWS * tiles * (size_t)groups_of((int)splits)};
}

static size_t room_bytes(const PartsRoom &room) {
    return room.floats * sizeof(float) + room.counters * sizeof(unsigned);
}

size_t attention_bytes(const MemoryPlan *plan) {
    return room_bytes(parts_room(&plan->cache, plan->n_heads));
}

// Made by the first attention, before anything is captured. Counters are behind the floats of the
// largest cache so far, so that they are 0 whatever lies before them.
static bool reserve_scratch(Device *device, const KvView *view, const AttentionShape *shape) {
    PartsRoom wanted = parts_room(&view->kv->shape, shape->n_heads);
    if (wanted.floats <= device->attention_floats && wanted.counters <= device->attention_counters)
        return device_ok(device);
    if (wanted.floats < device->attention_floats) wanted.floats = device->attention_floats;
    if (wanted.counters < device->attention_counters) wanted.counters = device->attention_counters;
    recording_forget(device); // graphs would write to what is freed here
    device_free(device, device->attention_scratch);
    device->attention_scratch = (float *)device_alloc(device, room_bytes(wanted));
    device->attention_floats = wanted.floats;
    device->attention_counters = wanted.counters;
    return device_ok(device);
}

// ---- the operation ----

template <DType D, int DIM>
static void launch_heads(Device *device, dim3 grid, const AttentionWork &w) {
    if constexpr (DIM != MAX_HEAD_DIM) {
        if (!w.op.shape.pattern.n_parts && w.op.shape.head_dim == DIM && is_aligned(w.op.q)) {
            if (w.group <= 2)
                LAUNCH_OVERLAPPED(device, (attention_kernel<D, DIM, 2, true>), grid,
                                  ATTENTION_THREADS, w);
            else
                LAUNCH_OVERLAPPED(device, (attention_kernel<D, DIM, HEADS, true>), grid,
                                  ATTENTION_THREADS, w);
            return;
        }
    }
    LAUNCH_OVERLAPPED(device, (attention_kernel<D, DIM, HEADS, false>), grid, ATTENTION_THREADS, w);
}

template <DType D> static void launch_splits(Device *device, dim3 grid, const AttentionWork &w) {
    if (w.op.shape.head_dim <= 64)
        launch_heads<D, 64>(device, grid, w);
    else if (w.op.shape.head_dim <= 128)
        launch_heads<D, 128>(device, grid, w);
    else if (w.op.shape.head_dim <= 256)
        launch_heads<D, 256>(device, grid, w);
    else
        launch_heads<D, MAX_HEAD_DIM>(device, grid, w);
}

void launch_attention(Device *device, const AttentionWork *work) {
    const AttentionWork &w = *work;
    unsigned tiles = (unsigned)tiles_of(w.op.shape.n_heads, w.op.shape.n_kv_heads);
    int left = w.op.rows.n - w.first_row, n = left < SCRATCH_ROWS ? left : SCRATCH_ROWS;
    dim3 grid((unsigned)w.parts.splits, tiles, (unsigned)n);
    if (w.kv.type == KV_F32) launch_splits<DTYPE_F32>(device, grid, w);
    if (w.kv.type == KV_F16) launch_splits<DTYPE_F16>(device, grid, w);
    if (w.kv.type == KV_BF16) launch_splits<DTYPE_BF16>(device, grid, w);
}

static void run_splits(Device *device, const AttentionOperation *op) {
    AttentionWork w = {};
    w.op = *op;
    w.kv = kv_layer(&op->view);
    w.group = op->shape.n_heads / op->shape.n_kv_heads;
    w.head_tiles = (w.group + HEADS - 1) / HEADS;
    w.parts.splits = (int)blocks_for((size_t)pass_positions(device, w.kv.max_seq_len), SPLIT);
    w.parts.stride = part_stride(op->shape.head_dim);
    size_t parts = (size_t)SCRATCH_ROWS * (size_t)op->shape.n_heads * (size_t)w.parts.splits;
    if (device->attention_scratch) { // else no row has two splits
        w.parts.sums_of_values = device->attention_scratch;
        w.parts.largest = w.parts.sums_of_values + parts * (size_t)w.parts.stride;
        w.parts.sums = w.parts.largest + parts;
        w.parts.arrived = (unsigned *)(device->attention_scratch + device->attention_floats);
    }
    for (; w.first_row < op->rows.n; w.first_row += SCRATCH_ROWS)
        if (!chain_attention(device, &w)) launch_attention(device, &w);
}

void run_attention(Device *device, const Operation *operation) {
    const AttentionOperation *op = &operation->attention;
    bool tiles = fits_tiles(device, &op->view.kv->shape, op->rows.n);
    if (!op->naive && tiles) run_tiles(device, op);
    if (!op->naive && !tiles) run_splits(device, op);
    if (op->weights_out) run_weights(device, op);
}

static void attend(Device *device, float *out, const float *q, const KvView *view, const Rows *rows,
                   const AttentionShape *shape, float *weights_out, bool naive) {
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
    op->naive = naive;
    copy_view(&op->view, view);
    copy_rows(&op->rows, rows);
    perform(device, &operation);
}

void attention(Device *device, float *out, const float *q, const KvView *view, const Rows *rows,
               const AttentionShape *shape, float *weights_out) {
    attend(device, out, q, view, rows, shape, weights_out, false);
}

void attention_naive(Device *device, float *out, const float *q, const KvView *view,
                     const Rows *rows, const AttentionShape *shape, float *weights) {
    attend(device, out, q, view, rows, shape, weights, true);
}
