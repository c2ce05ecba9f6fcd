// The operations of a forward pass as values: what kernels.h was called with. Between device_begin
// and device_end they are kept, then run in order; neighbours that a pattern of fused.cu knows run
// as one kernel, and a pass that was seen before is replayed as a CUDA graph (recording.cu).
#pragma once

#include <stddef.h>

struct Device;
struct Recording;
struct SampleScratch;
struct Blas;
struct BlasScratch;
struct Clock;

enum OperationKind {
    OPERATION_EMBED,
    OPERATION_NORM,
    OPERATION_PROJECT,
    OPERATION_ROPE,
    OPERATION_KV_WRITE,
    OPERATION_ATTENTION,
    OPERATION_ACTIVATE,
    OPERATION_ADD,
    OPERATION_SCALE,
    OPERATION_SOFTCAP,
    OPERATION_COUNT
};

struct EmbedOperation {
    float *out;
    const DeviceMatrix *table, *learned;
    float scale;
    Rows rows;
};

struct NormOperation { // rmsnorm, or layernorm
    float *out;
    const float *x, *weight, *bias;
    int n, dim;
    float eps;
    bool centred; // layernorm
};

// Matrices with one input: q, k and v, or gate and up.
enum { MAX_PROJECTIONS = 4 };
struct ProjectOperation {
    const float *x;
    int n, count;
    Projection projections[MAX_PROJECTIONS];
};

struct RopeOperation {
    float *x;
    int n_heads, head_dim;
    RopeTable table;
    Rows rows;
};

struct KvWriteOperation {
    KvView view;
    const float *k, *v;
    Rows rows;
};

struct AttentionOperation {
    float *out;
    const float *q;
    KvView view;
    Rows rows;
    AttentionShape shape;
    float *weights_out;
    bool naive; // out comes from weights_out
};

struct ActivateOperation {
    float *gate;
    const float *up;
    size_t count;
    ActivationKind kind;
};

struct AddOperation {
    float *x;
    const float *y;
    size_t count;
};

struct ScaleOperation {
    float *x;
    size_t count;
    float factor;
};

struct SoftcapOperation {
    float *x;
    size_t count;
    float cap;
};

// Zeroed before it is filled, so that two that say the same are equal byte for byte.
struct Operation {
    OperationKind kind;
    union {
        EmbedOperation embed;
        NormOperation norm;
        ProjectOperation project;
        RopeOperation rope;
        KvWriteOperation kv_write;
        AttentionOperation attention;
        ActivateOperation activate;
        AddOperation add;
        ScaleOperation scale;
        SoftcapOperation softcap;
    };
};

// Runs one operation now: OPERATIONS[kind] in recording.cu, each beside its kernel.
void run_embed(Device *device, const Operation *operation);
void run_norm(Device *device, const Operation *operation);
void run_project(Device *device, const Operation *operation);
void run_rope(Device *device, const Operation *operation);
void run_kv_write(Device *device, const Operation *operation);
void run_attention(Device *device, const Operation *operation);
void run_activate(Device *device, const Operation *operation);
void run_add(Device *device, const Operation *operation);
void run_scale(Device *device, const Operation *operation);
void run_softcap(Device *device, const Operation *operation);

// An operation of that kind, zeroed but for it.
Operation operation_of(OperationKind kind);

// Field by field: the padding of a caller's struct is undefined.
static inline void copy_rows(Rows *to, const Rows *from) {
    to->n = from->n, to->tokens = from->tokens;
    to->positions = from->positions, to->sequences = from->sequences;
}
static inline void copy_view(KvView *to, const KvView *from) {
    to->kv = from->kv, to->layer = from->layer;
}

// Keeps the operation for device_end, or runs it now where nothing is being recorded.
void perform(Device *device, const Operation *operation);

// The number of positions that attention must be ready for in this pass.
int pass_positions(const Device *device, int max_seq_len);

// A norm as a kernel of its own; with `residual` (n, dim), residual += out too.
void launch_norm(Device *device, const NormOperation *op, float *residual);

// Whether n rows over such a cache go by tiles of queries on the tensor cores (attention_tiles.cu);
// if so, run_tiles does it, but for weights_out.
bool fits_tiles(const Device *device, const KvShape *cache, int n);
void run_tiles(Device *device, const AttentionOperation *op);

// The softmax into weights_out, and with `naive` the result from it (attention_weights.cu).
void run_weights(Device *device, const AttentionOperation *op);

// ---- fused.cu ----

// Runs the first operations of the list as one kernel where a pattern fits: how many it took, 0
// where none does.
size_t run_fused(Device *device, const Operation *operations, size_t count);

// The same for a prompt: what comes before and after products of cuBLASLt (fused_prompts.cu). A row
// of PATTERNS.
size_t fuse_prompt(Device *device, const Operation *operations, size_t count);

// By cuBLASLt; the input's parts are made already (blas_input, or blas_split). `residual` not NULL:
// the one result is added to it, and what is in its own place afterwards has no meaning.
void project_by_blas(Device *device, const ProjectOperation *op, float *residual);

// ---- recording.cu: what has been recorded since device_begin, and the graphs of earlier passes
// ----

// NULL after a failure, kept in the device.
Recording *recording_open(Device *device);
void recording_close(Device *device); // where there is one

// Drops the graphs of passes seen before, and their chains: memory that they use is about to go.
void recording_forget(Device *device);
