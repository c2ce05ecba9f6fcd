// Neighbours in a decode step that one kernel does. Each pattern is a row of PATTERNS; what does
// not fit runs one operation at a time. The fused forms give the bits of the sequences they
// replace, and leave in every buffer what those leave there.
//
// A layer of a Llama becomes six kernels:
//
//   rmsnorm, project q k v               1   project_few.cu
//   (QK norms,) rope q, rope k, kv_write 2   place_kernel below
//   attention                            3   attention.cu
//   project o, add                       4   project_few.cu
//   rmsnorm, project gate up, activate   5   project_few.cu
//   project down, add                    6   project_few.cu
#include "kernels/cuda/fused.h"
#include "kernels/cuda/kv.h"
#include "kernels/cuda/norm.h"
#include "kernels/cuda/project.h"
#include "kernels/cuda/rope.h"

#include <string.h>

static bool has_kinds(const Operation *operations, size_t count,
                      std::initializer_list<OperationKind> kinds) {
    if (count < kinds.size()) return false;
    for (OperationKind kind : kinds)
        if (operations++->kind != kind) return false;
    return true;
}

// ---- project with its neighbours ----

// All matrices of the call in one launch for few rows.
static bool takes_all(const Device *device, ProjectWork *work, const ProjectOperation *op) {
    return project_work(work, op, 0) == op->count && fits_few(device, work);
}

// Adds the norm before it to the work of a project; false where it is not that project's norm.
static bool add_norm(ProjectWork *work, const NormOperation *norm) {
    if (norm->centred || norm->bias || norm->out != work->x || norm->n != work->n ||
        (size_t)norm->dim != work->weights[0].cols || norm->x == norm->out)
        return false;
    work->x = norm->x;
    work->norm_weight = norm->weight;
    work->norm_eps = norm->eps;
    work->norm_out = norm->out;
    return true;
}

static bool add_activation(ProjectWork *work, const ActivateOperation *activate) {
    if (work->count != 2 || activate->up != work->out[0] || activate->gate != work->out[1] ||
        activate->count != (size_t)work->n * work->weights[1].rows ||
        work->weights[0].rows != work->weights[1].rows)
        return false;
    work->epilogue = EPILOGUE_ACTIVATE;
    work->activation = activate->kind;
    return true;
}

// norm, project, activate; or norm and project.
static size_t fuse_norm_project(Device *device, const Operation *operations, size_t count) {
    if (!has_kinds(operations, count, {OPERATION_NORM, OPERATION_PROJECT})) return 0;
    ProjectWork work = {};
    if (!takes_all(device, &work, &operations[1].project) || !add_norm(&work, &operations[0].norm))
        return 0;
    bool gated = count > 2 && operations[2].kind == OPERATION_ACTIVATE &&
                 add_activation(&work, &operations[2].activate);
    launch_few(device, &work);
    return gated ? 3 : 2;
}

// project and add, of what it has projected.
static size_t fuse_project_add(Device *device, const Operation *operations, size_t count) {
    if (!has_kinds(operations, count, {OPERATION_PROJECT, OPERATION_ADD})) return 0;
    const AddOperation *add = &operations[1].add;
    ProjectWork work = {};
    if (operations[0].project.count != 1 || !takes_all(device, &work, &operations[0].project) ||
        add->y != work.out[0] || add->count != (size_t)work.n * work.weights[0].rows)
        return 0;
    work.epilogue = EPILOGUE_ADD;
    work.residual = add->x;
    launch_few(device, &work);
    return 2;
}

// ---- queries and keys to their place ----

// What is done to one head of q or k; n_heads 0: nothing.
struct HeadWork {
    float *x; // (n, n_heads, head_dim)
    int n_heads;
    const float *norm_weight; // NULL: no norm
    float norm_eps;
};

struct PlaceWork {
    HeadWork q, k;
    const float *v;
    RopeTable table;
    bool norm_after_rope;
    KvLayer kv;
    Rows rows;
};

struct PlaceMemory {
    float parts[NORM_THREADS / WARP];
};

static __device__ void norm_head(PlaceMemory &memory, const HeadWork &w, float *x, int head_dim) {
    if (!w.norm_weight) return;
    float factor = norm_factor(x, (size_t)head_dim, 0.0f, w.norm_eps, memory.parts);
    for (int j = threadIdx.x; j < head_dim; j += NORM_THREADS)
        x[j] = x[j] * factor * w.norm_weight[j];
    __syncthreads();
}

static __device__ void turn_head(const PlaceWork &w, float *x, int position) {
    int half = w.table.rope_dim / 2;
    for (int j = threadIdx.x; j < half; j += NORM_THREADS) {
        size_t at = (size_t)position * half + j;
        turn_pair(x + j, x + half + j, w.table.cos[at], w.table.sin[at]);
    }
    __syncthreads();
}

// Grid: rows, heads of q and then of k. The block of a key writes it and its value to the cache.
static __global__ void __launch_bounds__(NORM_THREADS) place_kernel(PlaceWork w) {
    PlaceMemory &memory = block_memory<PlaceMemory>();
    int i = blockIdx.x, h = blockIdx.y, head_dim = w.kv.head_dim;
    bool is_key = h >= w.q.n_heads;
    const HeadWork &head = is_key ? w.k : w.q;
    if (is_key) h -= w.q.n_heads;
    wait_for_earlier_kernels();
    float *x = head.x + ((size_t)i * head.n_heads + h) * head_dim;
    int position = w.rows.positions[i];
    if (!w.norm_after_rope) norm_head(memory, head, x, head_dim);
    turn_head(w, x, position);
    if (w.norm_after_rope) norm_head(memory, head, x, head_dim);
    let_next_kernel_start();
    if (!is_key) return;
    size_t to = kv_index(w.kv, w.rows.sequences[i], h, position);
    const float *v = w.v + ((size_t)i * head.n_heads + h) * head_dim;
    for (int j = threadIdx.x; j < head_dim; j += NORM_THREADS) {
        kv_store(w.kv, w.kv.keys, to + j, x[j]);
        kv_store(w.kv, w.kv.values, to + j, v[j]);
    }
}

// A norm of each head by itself, in place.
static bool head_norm(HeadWork *head, const NormOperation *norm, int head_dim) {
    if (norm->centred || norm->bias || norm->dim != head_dim || norm->out != head->x ||
        norm->x != head->x)
        return false;
    head->norm_weight = norm->weight;
    head->norm_eps = norm->eps;
    return true;
}

static bool same_table(const RopeTable *a, const RopeTable *b) {
    return a->cos == b->cos && a->sin == b->sin && a->rope_dim == b->rope_dim;
}

// rope q, rope k and kv_write, with the norms of q and k before or after the two ropes.
static size_t fuse_place(Device *device, const Operation *operations, size_t count) {
    size_t ropes, norms = 5, taken = 5;
    if (has_kinds(operations, count, {OPERATION_ROPE, OPERATION_ROPE, OPERATION_KV_WRITE}))
        ropes = 0, taken = 3;
    else if (has_kinds(operations, count,
                       {OPERATION_ROPE, OPERATION_ROPE, OPERATION_NORM, OPERATION_NORM,
                        OPERATION_KV_WRITE}))
        ropes = 0, norms = 2;
    else if (has_kinds(operations, count,
                       {OPERATION_NORM, OPERATION_NORM, OPERATION_ROPE, OPERATION_ROPE,
                        OPERATION_KV_WRITE}))
        ropes = 2, norms = 0;
    else
        return 0;
    const RopeOperation *q = &operations[ropes].rope, *k = &operations[ropes + 1].rope;
    const KvWriteOperation *write = &operations[taken - 1].kv_write;
    PlaceWork w = {};
    w.kv = kv_layer(&write->view);
    w.q.x = q->x, w.q.n_heads = q->n_heads;
    w.k.x = k->x, w.k.n_heads = k->n_heads;
    w.v = write->v, w.table = q->table, w.rows = write->rows;
    w.norm_after_rope = norms > ropes;
    if (write->k != k->x || k->n_heads != w.kv.n_kv_heads || q->head_dim != w.kv.head_dim ||
        k->head_dim != w.kv.head_dim || !same_table(&q->table, &k->table))
        return 0;
    if (norms < taken && (!head_norm(&w.q, &operations[norms].norm, w.kv.head_dim) ||
                          !head_norm(&w.k, &operations[norms + 1].norm, w.kv.head_dim)))
        return 0;
    LAUNCH_OVERLAPPED(device, place_kernel,
                      dim3((unsigned)w.rows.n, (unsigned)(w.q.n_heads + w.k.n_heads)), NORM_THREADS,
                      w);
    return taken;
}

// ---- the table ----

typedef size_t Fuse(Device *device, const Operation *operations, size_t count);
static Fuse *const PATTERNS[] = {fuse_norm_project, fuse_project_add, fuse_place};

size_t run_fused(Device *device, const Operation *operations, size_t count) {
    for (Fuse *fuse : PATTERNS) {
        size_t taken = fuse(device, operations, count);
        if (taken) return taken;
    }
    return 0;
}
