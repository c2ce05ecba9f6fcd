// The boundary between the model and the machine. A backend is a folder that implements this
// header: reference/ in plain loops (the specification), cpu/ fast, cuda/ on an NVIDIA GPU.
//
//     Device *device = device_open(0, PRECISION_A16);
//     DeviceMatrix *w = device_matrix(device, &matrix);
//     device_reserve(device, 512);
//     device_begin(device, &(PassShape){.n = 1, .max_position = 17});
//     rmsnorm(device, x_norm, x, weight, 1, dim, eps);
//     project(device, x_norm, 1, &(Projection){.out = q, .weight = w}, 1);
//     device_end(device);
//     device_download(device, host, q, bytes);
//     if (device_error(device)->code) ...
//
// Every pointer to floats or ints below is device memory (device_alloc) unless it says host.
// Operations take the number of rows n: a prompt and a single token are one code path. They return
// nothing: the first failure is kept in the device, and device_error returns it. Between
// device_begin and device_end an operation may be recorded instead of run; it has run after
// device_end, device_download or device_sync. Recorded arguments are copied; device memory named in
// them lives until device_close.
//
// On the cpu backend a row of any result does not depend on the number of threads, on how many
// rows share the call, or on the instruction set: the same bits. precision.h has the arithmetic.
#pragma once

#include "base/error.h"
#include "kernels/key_pattern.h"
#include "kernels/kv_shape.h"
#include "weights/matrix.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Device Device;
typedef struct DeviceMatrix DeviceMatrix;
typedef struct Kv Kv;

// The type of activations when they are multiplied with quantised weights; kernels/precision.h has
// the exact rules.
typedef enum Precision {
    PRECISION_F32, // float32: the reference's numbers
    PRECISION_A16, // int16 with one scale per 32, the two largest of a row float32; float weights
                   // meet float32
    PRECISION_A8, // int8 in the same way (float weights: bf16); docs/exactness.md has what it costs
} Precision;

// ---- memory ----

// What must happen before a process gives up rights that it has (base/sandbox.h): the first use of a
// GPU since the machine's start may run a program that loads the driver. May be left out.
void device_prepare(void);

// A handle on the machine with `threads` threads (0: as many as this process may use). NULL only
// where there is no memory for the handle itself; any other trouble is in device_error.
Device *device_open(int threads, Precision precision);
void device_close(Device *device); // NULL is fine; frees all that belongs to the device

// The first failure since device_open; code ERROR_NONE while all is well. Borrowed from the device.
const Error *device_error(const Device *device);
// Takes a failure of device_alloc back: there was no memory for something new, and all that was
// there before is as it was. Other failures stay.
void device_clear_memory_error(Device *device);

// Fixed by device_open, but for `description`, to which a backend may append what it finds missing.
typedef struct DeviceInfo {
    char description[224]; // for people: "cpu, 2 threads, avx512 (vnni, bf16)"
    int threads;           // host threads that compute
    int pipeline_depth;    // how many sampled tokens the device should be ahead of the host, which
                           // reads them with device_receive; 0: it works only while the host waits
    bool batch_invariant;  // a row of any result has the same bits however many rows share the call
    bool borrows_weights;  // device_matrix keeps a pointer to the host's bytes
} DeviceInfo;
const DeviceInfo *device_info(const Device *device); // borrowed

// Whether the host can read device memory as its own. A constant and no function, for debuggers,
// which cannot call one everywhere; nothing else reads it.
extern const bool DEVICE_MEMORY_IS_HOST;

// `bytes` of zeroed device memory, 64-byte aligned; NULL after a failure (see device_error).
void *device_alloc(Device *device, size_t bytes);
void device_free(Device *device, void *memory); // NULL is fine
void device_upload(Device *device, void *to, const void *from_host, size_t bytes);
void device_download(Device *device, void *to_host, const void *from, size_t bytes);

// Host memory for what is downloaded at every step: copies into it take a GPU less time than into
// any other. Not zeroed; NULL after a failure. Free it before the device is closed.
void *device_host_alloc(Device *device, size_t bytes);
void device_host_free(Device *device, void *memory); // NULL is fine

// A host matrix in the backend's own layout; it lives until device_close. The host's bytes are not
// needed afterwards, unless DeviceInfo says that the backend borrows them. NULL after a failure.
DeviceMatrix *device_matrix(Device *device, const Matrix *matrix);

// Called once, after all matrices and before the first operation: allocates what the
// operations need for up to `max_rows` rows. From here on nothing allocates.
void device_reserve(Device *device, int max_rows);

// ---- rows and keys ----

// The rows of one forward pass; device arrays of n entries each.
typedef struct Rows {
    int n;
    const int32_t *tokens;    // token id
    const int32_t *positions; // position in its sequence, from 0
    const int32_t *sequences; // which sequence of the cache
} Rows;

// ---- the cache ----

// The keys and values of all layers and sequences, in the backend's own layout, zeroed. NULL after
// a failure. KvView names one layer of it.
Kv *kv_open(Device *device, const KvShape *shape);
void kv_close(Device *device, Kv *kv);
size_t kv_bytes(const KvShape *shape); // what kv_open takes

typedef struct KvView {
    Kv *kv;
    int layer;
} KvView;

// cache[sequences[i], positions[i]] = k[i], v[i];   k, v (n, n_kv_heads, head_dim).
// Positions are below max_seq_len: the caller has checked. In a ring this takes the slot of the
// position kv_slots before.
void kv_write(Device *device, const KvView *view, const float *k, const float *v, const Rows *rows);

// Positions 0 .. count-1 of sequence `from`, in every layer, become those of sequence `to`; in a
// ring those that it holds.
void kv_copy(Device *device, Kv *kv, int to, int from, int count);

// Host k[head_dim], v[head_dim] = one cached key and value (either may be NULL).
void kv_read(Device *device, const KvView *view, int sequence, int kv_head, int position,
             float *k_host, float *v_host);

// Positions of one head: first .. end - 1, no more than the layer has slots.
typedef struct KvSpan {
    int sequence, kv_head, first, end;
} KvSpan;

// Host keys and values (end - first, head_dim) = those positions, and back. They are elements of
// the cache's type, in the same order in every backend, so nothing is rounded.
void kv_save(Device *device, const KvView *view, const KvSpan *span, void *keys_host,
             void *values_host);
void kv_restore(Device *device, const KvView *view, const KvSpan *span, const void *keys_host,
                const void *values_host);

// ---- memory that will be needed ----

// Announces memory before any of it is allocated: device_plan_matrix for every matrix, then
// device_plan for the rest. A device with memory of its own fails here if that is too small, and
// names what is needed and what is free, instead of failing after a long upload. A backend that
// copies the matrices into host memory fails where they exceed what the process can have; one that
// reads them from the mapped file does nothing.
typedef struct MemoryPlan {
    size_t bytes;  // of device_alloc, all together
    KvShape cache; // of kv_open
    int n_heads;   // query heads that attend to the cache
    int max_rows;  // of device_reserve
} MemoryPlan;
void device_plan_matrix(Device *device, const Matrix *matrix); // its shape; data is not read
void device_plan(Device *device, const MemoryPlan *plan);

// What the announced matrices and a plan come to, in bytes of the device's memory. The functions
// that give these sizes are those that allocation goes by, so they are equal to the byte.
typedef struct DeviceMemory {
    size_t matrices;   // as the backend stores them
    size_t cache;      // of kv_open; SIZE_MAX: more than can be counted
    size_t operations; // of device_reserve, and of attention
    size_t others;     // MemoryPlan.bytes
} DeviceMemory;
DeviceMemory device_needs(Device *device, const MemoryPlan *plan);
size_t device_taken(const Device *device); // bytes that are allocated now

// ---- a forward pass ----

// `asked`: NULL, or a number that anything may set, a signal handler too. Once it was seen not to
// be 0, operations up to device_end may leave out work. Who set it may take it back, so that it was
// seen is kept: the caller clears `seen` before a pass, and takes no result where it is set after.
typedef struct StopFlag {
    const int *asked;
    int seen;
} StopFlag;

typedef struct PassShape {
    int n;            // rows
    int max_position; // largest position among them
    StopFlag *stop;   // or NULL
} PassShape;

static inline bool pass_stopped(StopFlag *stop) {
    if (!stop || !stop->asked) return false;
    if (__atomic_load_n(&stop->seen, __ATOMIC_RELAXED)) return true;
    if (!__atomic_load_n(stop->asked, __ATOMIC_RELAXED)) return false;
    __atomic_store_n(&stop->seen, 1, __ATOMIC_RELAXED);
    return true;
}

void device_begin(Device *device, const PassShape *shape);
void device_end(Device *device);
void device_sync(Device *device); // runs what has been recorded, so that a listener can read it

// out[i] = scale * table[tokens[i]] (+ learned[positions[i]]);   out (n, cols of table).
// `learned` may be NULL. Tokens are below the table's rows: the caller has checked.
void embed(Device *device, float *out, const DeviceMatrix *table, const DeviceMatrix *learned,
           float scale, const Rows *rows);

// out[i] = x[i] / sqrt(mean(x[i]^2) + eps) * weight;   out, x (n, dim), weight (dim).
// In place is fine. Per-head norms call it with n * n_heads rows of head_dim.
// Zhang & Sennrich 2019, arXiv 1910.07467.
void rmsnorm(Device *device, float *out, const float *x, const float *weight, int n, int dim,
             float eps);

// out[i] = (x[i] - mean) / sqrt(var + eps) * weight + bias, var biased;   bias may be NULL.
void layernorm(Device *device, float *out, const float *x, const float *weight, const float *bias,
               int n, int dim, float eps);

// out[i] = W x[i] + bias for each of `count` matrices with the same number of columns:
// x (n, cols), out (n, rows of W) each, bias (rows of W) or NULL. q, k, v go together, gate and up
// go together: the activations are prepared once and all rows are one list of work.
typedef struct Projection {
    float *out;
    const DeviceMatrix *weight;
    const float *bias;
} Projection;
void project(Device *device, const float *x, int n, const Projection *projections, int count);

// Rotates the first rope_dim channels of every head, pairs (j, j + rope_dim / 2), by the angle of
// position and pair:   y_j = x_j c - x_{j+r/2} s,   y_{j+r/2} = x_{j+r/2} c + x_j s.
// In place; x (n, n_heads, head_dim), cos and sin (max_seq_len, rope_dim / 2) from model/rope.c,
// which also holds sign and scaling. Su et al. 2021, arXiv 2104.09864, half-split as in GPT-NeoX.
typedef struct RopeTable {
    const float *cos, *sin;
    int rope_dim;
} RopeTable;
void rope(Device *device, float *x, int n_heads, int head_dim, const RopeTable *table,
          const Rows *rows);

// Causal grouped-query attention of n rows over the cache.
//   out[i,h] = sum_t softmax_t(s[i,h,t]) v[t,g],   g = h / (n_heads / n_kv_heads)
//   s[i,h,t] = scale q[i,h] . k[t,g];   with a cap   cap tanh(scale q[i,h] . k[t,g] / cap)
// out, q (n, n_heads, head_dim); row i sees the keys of its own sequence at the positions that
// key_visible(pattern, positions[i], t) names, its own among them (kv_write came first); what is at
// the others has no influence, NaN neither. In a ring the pattern's window is the layer's or less.
// weights_out (n, n_heads, max_seq_len): the softmax, 0 where a key is not seen; or NULL.
typedef struct AttentionShape {
    int n_heads, n_kv_heads, head_dim;
    float scale;
    KeyPattern pattern;
    float cap; // 0: none. Hidden keys stay hidden.
} AttentionShape;
void attention(Device *device, float *out, const float *q, const KvView *view, const Rows *rows,
               const AttentionShape *shape, float *weights_out);

// The functions of `activate`; model/ maps its Activation to them one to one.
typedef enum ActivationKind {
    ACTIVATE_SILU,
    ACTIVATE_GELU_TANH,
    ACTIVATE_GELU_ERF,
    ACTIVATE_RELU2,
} ActivationKind;

// gate[i] = f(gate[i]) * up[i], in place, for `count` elements; `up` may be NULL (factor 1).
void activate(Device *device, float *gate, const float *up, size_t count, ActivationKind kind);

// x[i] += y[i].
void add(Device *device, float *x, const float *y, size_t count);

// x[i] = factor x[i].
void scale(Device *device, float *x, size_t count, float factor);

// x[i] = cap tanh(x[i] / cap).
void softcap(Device *device, float *x, size_t count, float cap);

// One token from each row of logits (n, vocab_size), by inverse transform of uniform[i] in [0, 1).
// temperature 0: the largest logit, the lowest id among equals; uniform may be NULL.
// Otherwise every token has the integer weight
//   w[t] = (uint64_t)(2^40 exp_float((l[t] - max l) / temperature))     (precision.h; rounded down)
// and these cuts follow, each over what the one before has left. "In order" is by falling logit,
// the lower id first among equals; `total` is the sum of the weights that are left:
//   top_k      the first top_k in order (0: all)
//   top_p      the shortest prefix in order with (double)sum >= (double)top_p * total (1: all)
//   min_p      those with (double)w >= (double)min_p * 2^40 (0: all)
//   typical_p  with p = w / total and H = -sum p log p (double, in order, w > 0; log_double of
//              precision.h): the shortest prefix by rising |-log p - H|, ties in order, with
//              sum >= typical_p * total (1: all); Meister et al. 2022, arXiv 2202.00666
//   xtc        of those with (double)w >= (double)xtc * total only the last in order (0: all); the
//              others leave, "exclude top choices" as in llama.cpp
// At least one token always stays. Then out[i] is the first kept t by rising id with
//   w[0] + .. + w[t] > floor(uniform * total)      uniform = u / 2^24, exact in 128 bits.
// The sums are integers, so their order does not matter: every backend returns the same token.
// -infinity is weight 0, and where all are -infinity the token is 0. -1 where a logit is NaN or
// +infinity. Some matrix of the device has at least vocab_size rows (device_reserve goes by that).
typedef struct SampleRule {
    float temperature;
    int top_k;
    float top_p, min_p, typical_p;
    float xtc;
} SampleRule;
void sample(Device *device, int32_t *out, const float *logits, int n, int vocab_size,
            const SampleRule *rule, const float *uniform);

// ---- work that was done ----

// Counted in the loops that do it, since device_open. A row of a matrix is read once a call, for
// all rows of input; keys and values once for each query row, by the first head of a group.
typedef struct DeviceCounts {
    uint64_t weight_products;    // multiply-adds of project: weight times activation
    uint64_t attention_products; // those of q . k and of weights times values
    uint64_t weight_bytes;       // matrices, vectors, rows of embeddings: as they are stored
    uint64_t kv_read_bytes, kv_written_bytes;
} DeviceCounts;

// False in a backend that does not count: all but reference/.
bool device_counts(const Device *device, DeviceCounts *counts);

// ---- tokens that stay on the device ----

// A sampled token becomes that of the next pass without the host: sample, device_send for the host
// to read, advance, the next pass.

// The rows of the next pass:   tokens[i] = max(sampled[i], 0), positions[i] += 1.
void advance(Device *device, int32_t *tokens, int32_t *positions, const int32_t *sampled, int n);

// device_send starts to copy *from to the host and does not wait. device_receive waits for that
// number and returns it, -1 after a failure; then the slot (0 .. SEND_SLOTS - 1) is free again.
enum { SEND_SLOTS = 8 };
void device_send(Device *device, int slot, const int32_t *from);
int32_t device_receive(Device *device, int slot);
