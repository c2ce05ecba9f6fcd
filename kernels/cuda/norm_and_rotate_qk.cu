// Norms and rotation of queries and keys, and the write to the cache, as one kernel: where they do
// not run at the end of the projection (steps.h). And which lists of operations are these.
#include "kernels/cuda/steps.h"

enum { HEADS_PER_BLOCK = NORM_THREADS / WARP };

static DEVICE_FUNCTION inline unsigned heads_of(const HeadsWork &w) {
    return (unsigned)(w.q.n_heads + 2 * w.kv.n_kv_heads); // of q, of k and of v, in this order
}

// Grid: rows, heads.
static __global__ void __launch_bounds__(NORM_THREADS) norm_and_rotate_kernel(HeadsWork w) {
    unsigned head = blockIdx.y * HEADS_PER_BLOCK + threadIdx.x / WARP;
    wait_for_earlier_kernels();
    if (head < heads_of(w)) norm_and_rotate_head(w, (int)blockIdx.x, (int)head);
}

// Two operations of a kind side by side: for queries and for keys.
static bool is_pair(const Operation *operations, size_t count, OperationKind kind) {
    return count >= 2 && operations[0].kind == kind && operations[1].kind == kind;
}

// A norm of each head by itself, in place.
// A norm of heads is a norm whose rows are heads: n = rows * heads, dim = head_dim, in place.
static bool take_norm(HeadWork *head, const NormOperation *norm, const HeadsWork *w) {
    if (norm->centred || norm->bias || norm->dim != w->kv.head_dim || norm->out != norm->x ||
        (head->x && head->x != norm->x))
        return false;
    head->x = norm->out;
    head->n_heads = norm->n / w->rows.n;
    head->norm_weight = norm->weight;
    head->norm_eps = norm->eps;
    return true;
}

// Both rotations must have one table and one list of positions, which the kernel is given once.
static bool take_rope(HeadWork *head, const RopeOperation *rope, const HeadsWork *w) {
    if (rope->head_dim != w->kv.head_dim || rope->table.cos != w->table.cos ||
        rope->table.sin != w->table.sin || rope->table.rope_dim != w->table.rope_dim ||
        rope->rows.n != w->rows.n || rope->rows.positions != w->rows.positions)
        return false;
    head->x = rope->x;
    head->n_heads = rope->n_heads;
    return true;
}

size_t match_norm_and_rotate_qk(HeadsWork *w, const Operation *operations, size_t count) {
    const Operation *norms = NULL, *ropes = NULL;
    size_t at = 0;
    // A model may have norms and rotations in either order, one of them, or none: two turns find
    // them all.
    for (int i = 0; i < 2; i++) {
        const Operation *next = operations + at;
        if (!norms && is_pair(next, count - at, OPERATION_NORM))
            norms = next, w->norm_after_rope = ropes != NULL, at += 2;
        else if (!ropes && is_pair(next, count - at, OPERATION_ROPE))
            ropes = next, at += 2;
    }
    if (at >= count || operations[at].kind != OPERATION_KV_WRITE) return 0;
    const KvWriteOperation *write = &operations[at].kv_write;
    w->kv = kv_layer(&write->view);
    w->v = write->v, w->rows = write->rows;
    if (ropes) {
        w->table = ropes->rope.table;
        if (!take_rope(&w->q, &ropes[0].rope, w) || !take_rope(&w->k, &ropes[1].rope, w)) return 0;
    }
    if (norms && (!take_norm(&w->q, &norms[0].norm, w) || !take_norm(&w->k, &norms[1].norm, w)))
        return 0;
    // What is written to the cache must be the keys that were normed and rotated before.
    if (at && (w->k.x != write->k || w->k.n_heads != w->kv.n_kv_heads)) return 0;
    return at + 1;
}

size_t fuse_norm_and_rotate_qk(Device *device, const Operation *operations, size_t count) {
    HeadsWork w = {};
    size_t taken = match_norm_and_rotate_qk(&w, operations, count);
    // The write alone is no gain over its own kernel.
    if (taken < 2) return 0;
    dim3 grid((unsigned)w.rows.n, blocks_for(heads_of(w), HEADS_PER_BLOCK));
    LAUNCH_OVERLAPPED(device, norm_and_rotate_kernel, grid, NORM_THREADS, w);
    return taken;
}
