// Neighbours in a decode step that one kernel does. Each pattern is a row of PATTERNS; what does
// not fit runs one operation at a time. The fused forms give the bits of the sequences they
// replace, and leave in every buffer what those leave there.
//
// A layer of a Llama becomes five kernels:
//
//   rmsnorm, project q k v, (QK norms,) rope q, rope k, kv_write   1   project_few.cu, place.h
//   attention                                                      2   attention.cu
//   project o, add                                                 3   project_few.cu
//   rmsnorm, project gate up, activate                             4   project_few.cu
//   project down, add                                              5   project_few.cu
//
// Norms behind a block (Gemma 3) are two more: norm and add. Where gate and up are of two types,
// activating is a kernel of its own; where of q, k and v some are quantised and others not, so are
// their norm and placing (place.cu).
#include "kernels/cuda/fused.h"
#include "kernels/cuda/place.h"
#include "kernels/cuda/project/project.h"

// All matrices of the call in one launch for few rows.
static bool takes_all(ProjectWork *work, const ProjectOperation *op) {
    return project_work(work, op, 0) == op->count && fits_few(work->n);
}

// Blocks read x until the last of them is done, and write what the norm makes of it: whether the
// launch can write to `to`, (count), too. Operations that run one after another may say x again.
static bool lies_apart(const ProjectWork *work, const float *to, size_t count) {
    size_t read = (size_t)work->n * work->weights[0].cols;
    const float *taken[] = {work->x, work->norm_out};
    for (const float *from : taken)
        if (from && to < from + read && from < to + count) return false;
    return true;
}

static bool results_lie_apart(const ProjectWork *work) {
    for (int i = 0; i < work->count; i++)
        if (!lies_apart(work, work->out[i], (size_t)work->n * work->weights[i].rows)) return false;
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
    return results_lie_apart(work);
}

// ---- what follows a project: how many operations of the list it takes along ----

// Gate and up, gated.
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

// What was projected, added to the residual stream.
static size_t add_residual(ProjectWork *work, const Operation *operations, size_t count) {
    if (!count || operations->kind != OPERATION_ADD || work->count != 1) return 0;
    const AddOperation *add = &operations->add;
    if (add->y != work->out[0] || add->count != (size_t)work->n * work->weights[0].rows ||
        !lies_apart(work, add->x, add->count))
        return 0;
    work->epilogue = EPILOGUE_ADD;
    work->residual = add->x;
    return 1;
}

// Whole blocks of rows make a head, and q, k and v are these three matrices.
static bool places_these(const ProjectWork *work, const PlaceWork *place) {
    size_t head_dim = (size_t)place->kv.head_dim, kv_rows = head_dim * (size_t)place->k.n_heads;
    size_t counters = work->first_row[3] / head_dim * few_groups(work->n);
    return work->n == place->rows.n && head_dim % ROWS_PER_BLOCK == 0 &&
           counters <= MAX_PLACE_COUNTERS && work->out[0] == place->q.x &&
           work->out[1] == place->k.x && work->out[2] == place->v &&
           work->weights[1].rows == kv_rows && work->weights[2].rows == kv_rows &&
           work->weights[0].rows == head_dim * (size_t)place->q.n_heads;
}

// Queries, keys and values, brought to their place.
static size_t add_place(ProjectWork *work, const Operation *operations, size_t count,
                        unsigned *counters) {
    PlaceWork *place = &work->place;
    size_t taken = work->count == 3 && counters ? take_place(place, operations, count) : 0;
    if (!taken) return 0;
    if (taken == 1 && operations->kv_write.k == work->out[1]) { // they are where they belong
        place->q.x = work->out[0], place->k.x = work->out[1];
        place->q.n_heads = (int)(work->weights[0].rows / (size_t)place->kv.head_dim);
        place->k.n_heads = place->kv.n_kv_heads;
    }
    if (!places_these(work, place)) return 0;
    work->epilogue = EPILOGUE_PLACE;
    work->arrived = counters;
    return taken;
}

// (norm,) project, and what follows.
static size_t fuse_project(Device *device, const Operation *operations, size_t count) {
    size_t at = count > 1 && operations[0].kind == OPERATION_NORM ? 1 : 0;
    ProjectWork work = {};
    if (operations[at].kind != OPERATION_PROJECT || !takes_all(&work, &operations[at].project) ||
        (at && !add_norm(&work, &operations[0].norm)))
        return 0;
    const Operation *rest = operations + ++at;
    size_t more = add_activation(&work, rest, count - at);
    if (!more) more = add_residual(&work, rest, count - at);
    if (!more) more = add_place(&work, rest, count - at, device->place_counters);
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

typedef size_t Fuse(Device *device, const Operation *operations, size_t count);
static Fuse *const PATTERNS[] = {fuse_project, fuse_place, fuse_norm_add};

size_t run_fused(Device *device, const Operation *operations, size_t count) {
    for (Fuse *fuse : PATTERNS) {
        size_t taken = fuse(device, operations, count);
        if (taken) return taken;
    }
    return 0;
}
