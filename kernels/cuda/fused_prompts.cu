// Fuses neighbouring operations of a prompt: PROMPT_ROWS rows and more, whose products are
// cuBLASLt's. What computes the input of a product writes it as the bf16 parts that the product
// takes (project_blas.cu), and its floats only where something else reads them; what a product
// gives is added to the residual stream by the product itself. A layer of a Llama becomes
//
//   rmsnorm, project q k v             1 + 3   norm.cu
//   rope q, rope k, kv_write           1       norm_and_rotate_qk.cu
//   attention, project o, add          1 + 1   attention_tiles.cu
//   rmsnorm, project gate up           1 + 2
//   activate, project down, add        1 + 1   activate.cu
//
// launches where x has one part (a8) and weights are stored as bf16: 12 instead of 18. Parts are
// those of the same floats and sums have the same order, so the numbers are those of the single
// operations, but for a cuBLASLt that splits columns among processors and adds C to a part of them.
// Unlike a pattern of a decode step this leaves out buffers that nothing reads.
#include "kernels/cuda/project/project.h"

// ---- what reads what ----

// Floats of device memory.
struct Floats {
    const float *first;
    size_t count;
};

static bool overlap(const Floats &a, const Floats &b) {
    return a.first && b.first && a.first < b.first + b.count && b.first < a.first + a.count;
}

static bool covers(const Floats &outer, const Floats &inner) {
    return outer.first && outer.first <= inner.first &&
           inner.first + inner.count <= outer.first + outer.count;
}

// All floats that an operation reads, and all that it writes; {} at the end.
struct Access {
    Floats reads[3], writes[MAX_PROJECTIONS + 1];
};

static Floats rows_of(const float *first, int n, size_t width) {
    return Floats{first, (size_t)n * width};
}

static Access access_of_project(const ProjectOperation *op) {
    Access a = {{rows_of(op->x, op->n, op->projections[0].weight->planes.cols)}, {}};
    for (int i = 0; i < op->count; i++)
        a.writes[i] =
            rows_of(op->projections[i].out, op->n, op->projections[i].weight->planes.rows);
    return a;
}

static Access access_of_attention(const AttentionOperation *op) {
    size_t width = (size_t)op->shape.n_heads * (size_t)op->shape.head_dim;
    return Access{{rows_of(op->q, op->rows.n, width)}, {rows_of(op->out, op->rows.n, width)}};
}

static Access access_of(const Operation *o) {
    switch (o->kind) {
    case OPERATION_EMBED:
        return Access{{}, {rows_of(o->embed.out, o->embed.rows.n, o->embed.table->planes.cols)}};
    case OPERATION_NORM: {
        size_t dim = (size_t)o->norm.dim;
        return Access{{rows_of(o->norm.x, o->norm.n, dim)}, {rows_of(o->norm.out, o->norm.n, dim)}};
    }
    case OPERATION_PROJECT: return access_of_project(&o->project);
    case OPERATION_ROPE: {
        size_t width = (size_t)o->rope.n_heads * (size_t)o->rope.head_dim;
        Floats x = rows_of(o->rope.x, o->rope.rows.n, width);
        return Access{{x}, {x}};
    }
    case OPERATION_KV_WRITE: {
        const KvLayer kv = kv_layer(&o->kv_write.view);
        size_t width = (size_t)kv.n_kv_heads * (size_t)kv.head_dim;
        return Access{{rows_of(o->kv_write.k, o->kv_write.rows.n, width),
                       rows_of(o->kv_write.v, o->kv_write.rows.n, width)},
                      {}};
    }
    case OPERATION_ATTENTION: return access_of_attention(&o->attention);
    case OPERATION_ACTIVATE: {
        Floats gate = {o->activate.gate, o->activate.count};
        return Access{{gate, {o->activate.up, o->activate.count}}, {gate}};
    }
    case OPERATION_ADD: {
        Floats x = {o->add.x, o->add.count};
        return Access{{x, {o->add.y, o->add.count}}, {x}};
    }
    case OPERATION_SCALE: {
        Floats x = {o->scale.x, o->scale.count};
        return Access{{x}, {x}};
    }
    case OPERATION_SOFTCAP: {
        Floats x = {o->softcap.x, o->softcap.count};
        return Access{{x}, {x}};
    }
    case OPERATION_COUNT: break;
    }
    return Access{};
}

// Whether some operation of the list reads any of the floats before another has overwritten them
// all. What is left at the end of the list may be read by who made it.
static bool is_read(const Floats &floats, const Operation *operations, size_t count) {
    for (size_t i = 0; i < count; i++) {
        Access a = access_of(operations + i);
        for (const Floats &read : a.reads)
            if (overlap(read, floats)) return true;
        for (const Floats &write : a.writes)
            if (covers(write, floats)) return false;
    }
    return true;
}

// ---- before a product ----

// Whether every product of the call takes its input as bf16 parts.
static bool takes_parts(const Device *device, const ProjectOperation *op) {
    for (int i = 0; i < op->count; i++)
        if (!blas_products(device, op->projections[i].weight->planes.dtype)) return false;
    return true;
}

// Whether the operation computes the whole input of the product, in a kernel that can write parts.
static bool makes_input(const Device *device, const Operation *operation,
                        const ProjectOperation *project) {
    const AttentionOperation *attention = &operation->attention;
    switch (operation->kind) {
    case OPERATION_NORM:
    case OPERATION_ACTIVATE: break;
    case OPERATION_ATTENTION:
        if (attention->naive || attention->weights_out ||
            !fits_tiles(device, &attention->view.kv->shape, attention->rows.n))
            return false;
        break;
    default: return false;
    }
    Floats made = access_of(operation).writes[0], input = access_of_project(project).reads[0];
    // A norm of heads has other rows than the product, but as many floats.
    bool rows = operation->kind != OPERATION_NORM || operation->norm.n == project->n;
    return rows && made.first == input.first && made.count == input.count &&
           takes_parts(device, project);
}

static void make_input(Device *device, const Operation *operation, const ProjectOperation *project,
                       bool keep) {
    size_t cols = project->projections[0].weight->planes.cols;
    InputParts to = blas_input(device, project->n, cols);
    if (operation->kind == OPERATION_NORM)
        launch_norm_parts(device, &operation->norm, to, keep);
    else if (operation->kind == OPERATION_ACTIVATE)
        launch_activate_parts(device, &operation->activate, cols, to, keep);
    else
        run_tiles_parts(device, &operation->attention, to, keep);
}

// ---- behind a product ----

// What the one result is added to by the next operation, where nothing else reads it; else NULL.
static float *residual_of(const ProjectOperation *project, const Operation *rest, size_t count) {
    if (!count || rest->kind != OPERATION_ADD || project->count != 1) return NULL;
    Access a = access_of_project(project);
    Floats x = {rest->add.x, rest->add.count}, out = a.writes[0];
    if (rest->add.y != out.first || x.count != out.count || overlap(x, out) ||
        overlap(x, a.reads[0]) || is_read(out, rest + 1, count - 1))
        return NULL;
    return rest->add.x;
}

// (norm | attention | activate,) project(, add)
size_t fuse_prompt(Device *device, const Operation *operations, size_t count) {
    size_t at = count > 1 && operations[0].kind != OPERATION_PROJECT ? 1 : 0;
    if (operations[at].kind != OPERATION_PROJECT) return 0;
    const ProjectOperation *project = &operations[at].project;
    if (!fits_blas(device, project->n) || (at && !makes_input(device, operations, project)))
        return 0;
    const Operation *rest = operations + at + 1;
    size_t left = count - at - 1;
    float *residual = residual_of(project, rest, left);
    if (!at && !residual) return 0; // run_project does it
    if (at)
        make_input(device, operations, project,
                   is_read(access_of(operations).writes[0], rest, left));
    else
        blas_split(device, project->x, project->n, project->projections[0].weight->planes.cols);
    project_by_blas(device, project, residual);
    return at + 1 + (residual != NULL);
}
