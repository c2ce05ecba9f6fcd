// Fuses neighbouring operations of a decode step into one kernel. Each pattern is a row of
// PATTERNS; operations that fit none run one at a time. A fused kernel gives the bits of the
// sequence that it replaces, and writes every buffer that the sequence writes.
//
// A layer of a Llama becomes five kernels:
//
//   rmsnorm, project q k v, (QK norms,) rope q, rope k, kv_write   1   project_one.cu, steps.h
//   attention                                                      2   attention.cu
//   project o, add                                                 3   project_one.cu
//   rmsnorm, project gate up, activate                             4   project_one.cu
//   project down, add                                              5   project_one.cu
//
// where project_few.cu stands for project_one.cu if weights are quantised or rows are several.
// With LIMPID_CUDA=persistent these steps of all layers, and the head, are one launch
// (persistent/chain.h).
//
// Norms behind a block (Gemma 3) are two more: norm and add. Where gate and up have different
// types, the activation is a kernel of its own. Where some of q, k and v are quantised and others
// are not, the norm before them and norm_and_rotate_qk.cu are kernels of their own.
#include "kernels/cuda/device.h"
#include "kernels/cuda/project/project.h"
#include "kernels/cuda/steps.h"

// All matrices of the call in one launch for few rows.
static bool fits_one_launch(const Device *device, ProjectWork *work, const ProjectOperation *op) {
    return project_work(device, work, op, 0) == op->count && fits_few(device, work->n);
}

// Blocks of a launch run in no order: each may read x and the norm's output until the last one
// ends. Whether the launch may write to `to`, (count), too: it overlaps neither.
static bool is_disjoint(const ProjectWork *work, const float *to, size_t count) {
    size_t read = (size_t)work->n * work->weights[0].cols;
    const float *taken[] = {work->x, work->norm_out};
    for (const float *from : taken)
        if (from && to < from + read && from < to + count) return false;
    return true;
}

static bool results_are_disjoint(const ProjectWork *work) {
    for (int i = 0; i < work->count; i++)
        if (!is_disjoint(work, work->out[i], (size_t)work->n * work->weights[i].rows)) return false;
    return true;
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
    return results_are_disjoint(work);
}

// ---- what follows a project: each returns how many operations it adds to the launch ----

// gate = f(gate) * up
static size_t add_activation(ProjectWork *work, const Operation *operations, size_t count) {
    if (!count || operations->kind != OPERATION_ACTIVATE) return 0;
    const ActivateOperation *activate = &operations->activate;
    if (work->count != 2 || activate->up != work->out[0] || activate->gate != work->out[1] ||
        activate->count != (size_t)work->n * work->weights[1].rows ||
        work->weights[0].rows != work->weights[1].rows ||
        work->weights[0].dtype != work->weights[1].dtype)
        return 0;
    work->epilogue = EPILOGUE_ACTIVATE;
    work->activation = activate->kind;
    return 1;
}

// The output, added to the residual stream.
static size_t add_residual(ProjectWork *work, const Operation *operations, size_t count) {
    if (!count || operations->kind != OPERATION_ADD || work->count != 1) return 0;
    const AddOperation *add = &operations->add;
    if (add->y != work->out[0] || add->count != (size_t)work->n * work->weights[0].rows ||
        !is_disjoint(work, add->x, add->count))
        return 0;
    work->epilogue = EPILOGUE_ADD;
    work->residual = add->x;
    return 1;
}

// Whether q, k and v are the three matrices, with heads of whole blocks of rows.
static bool are_q_k_v(const Device *device, const ProjectWork *work, const HeadsWork *heads) {
    size_t head_dim = (size_t)heads->kv.head_dim, kv_rows = head_dim * (size_t)heads->k.n_heads;
    size_t counters = work->first_row[3] / head_dim * few_groups(device, work);
    return work->n == heads->rows.n && head_dim % ROWS_PER_BLOCK == 0 &&
           counters <= MAX_HEAD_COUNTERS && work->out[0] == heads->q.x &&
           work->out[1] == heads->k.x && work->out[2] == heads->v &&
           work->weights[1].rows == kv_rows && work->weights[2].rows == kv_rows &&
           work->weights[0].rows == head_dim * (size_t)heads->q.n_heads;
}

// Norms and rotation of queries and keys, and the write to the cache.
static size_t add_norm_and_rotate(const Device *device, ProjectWork *work,
                                  const Operation *operations, size_t count) {
    HeadsWork *heads = &work->heads;
    size_t taken = work->count == 3 && device->head_counters
                       ? match_norm_and_rotate_qk(heads, operations, count)
                       : 0;
    if (!taken) return 0;
    if (taken == 1 && operations->kv_write.k == work->out[1]) { // neither norms nor rotation
        heads->q.x = work->out[0], heads->k.x = work->out[1];
        heads->q.n_heads = (int)(work->weights[0].rows / (size_t)heads->kv.head_dim);
        heads->k.n_heads = heads->kv.n_kv_heads;
    }
    if (!are_q_k_v(device, work, heads)) return 0;
    work->epilogue = EPILOGUE_HEADS;
    work->arrived = device->head_counters;
    return taken;
}

// (norm,) project, and one of those above.
static size_t fuse_project(Device *device, const Operation *operations, size_t count) {
    size_t at = count > 1 && operations[0].kind == OPERATION_NORM ? 1 : 0;
    ProjectWork work = {};
    if (operations[at].kind != OPERATION_PROJECT ||
        !fits_one_launch(device, &work, &operations[at].project) ||
        (at && !add_norm(&work, &operations[0].norm)))
        return 0;
    const Operation *rest = operations + ++at;
    size_t more = add_activation(&work, rest, count - at);
    if (!more) more = add_residual(&work, rest, count - at);
    if (!more) more = add_norm_and_rotate(device, &work, rest, count - at);
    launch_few(device, &work);
    return at + more;
}

// The norm behind a block, and what it adds to the residual stream.
static size_t fuse_norm_add(Device *device, const Operation *operations, size_t count) {
    if (count < 2 || operations[0].kind != OPERATION_NORM || operations[1].kind != OPERATION_ADD)
        return 0;
    const NormOperation *norm = &operations[0].norm;
    const AddOperation *add = &operations[1].add;
    if (add->y != norm->out || add->count != (size_t)norm->n * (size_t)norm->dim) return 0;
    launch_norm(device, norm, add->x);
    return 2;
}

// ---- the table ----

// In this order: the first pattern that fits takes its operations.
typedef size_t Fuse(Device *device, const Operation *operations, size_t count);
static Fuse *const PATTERNS[] = {fuse_project, fuse_norm_and_rotate_qk, fuse_norm_add, fuse_prompt};

size_t run_fused(Device *device, const Operation *operations, size_t count) {
    for (Fuse *fuse : PATTERNS) {
        size_t taken = fuse(device, operations, count);
        if (taken) return taken;
    }
    return 0;
}
