// Model: Config + device weights + scratch + KvCache, and the forward pass over them.
//
//     Model *model = model_open(config, weights, &(ModelOptions){.context = 512}, &error);
//     model_forward(model, &(Batch){.n = 3, .tokens = ids}, &error);
//     const float *logits = model_logits(model, 0);   // (vocab_size) of the last row
//     model_close(model);
//
// After model_open nothing allocates, except model_listen, model_intervene and decoder_begin with
// `recompute`.
#pragma once

#include "base/error.h"
#include "kernels/kernels.h"
#include "model/kv_cache.h"
#include "model/observe.h"
#include "weights/config.h"
#include "weights/weights.h"

// Rows of one or several sequences for one model_forward. A prompt, the next token of a generation
// and many prompts side by side are all the same thing.
typedef struct Batch {
    int n;
    const int32_t *tokens;    // (n) ids below vocab_size
    const int32_t *positions; // (n) or NULL: each row continues its sequence where the cache ends
    const int32_t *sequences; // (n) or NULL: all rows belong to sequence 0
    const bool *wants_logits; // (n) or NULL: the last row only
    bool tentative; // kv_cache_write_tentatively: one sequence, at most KV_RING_TENTATIVE rows
} Batch;

// Layers first .. end - 1.
typedef struct LayerRange {
    int first, end;
} LayerRange;

typedef struct ModelOptions {
    int threads; // 0: as many as this process may use
    Precision precision;
    KvType kv_type;
    int context;     // positions per sequence; 0: the model's max_seq_len
    int n_sequences; // 0: 1
    // Rows of a chunk: those that go through the layers together. A GPU is faster with many, since
    // it dequantises the weights once per chunk; on a host the results do not depend on it. 0:
    // min(512, context), but at least one for every sequence.
    int max_rows;
    int max_logit_rows; // rows of logits kept from one call; 0: 1
    bool full_cache;    // layers with a window keep all positions, which some look back at
    void (*progress)(void *context, double share); // loading, 0 .. 1; may be NULL
    void *progress_context;
    // NULL, or what ends a model_forward or a Decoder early while it is not 0: exit code 130, and
    // the cache as it was; a sequence is empty where a batch of more than max_rows rows has taken
    // what a window sees of it. A signal handler may set it.
    const int *stop;
    // The layers of this process (model/ranks.h); end 0: all. With the first layer go the
    // embeddings, with the last one the final norm and the head.
    LayerRange layers;
} ModelOptions;

// A norm: weight (dim) and bias (dim) or NULL; weight NULL: the model has none here.
typedef struct DeviceNorm {
    float *weight, *bias;
} DeviceNorm;

typedef struct DeviceLinear {
    DeviceMatrix *weight; // NULL: absent
    float *bias;          // NULL: none
} DeviceLinear;

typedef struct DeviceLayer {
    DeviceNorm att_norm, att_post_norm, ffn_norm, ffn_post_norm, q_norm, k_norm;
    DeviceLinear wq, wk, wv, wo, w_gate, w_up, w_down;
} DeviceLayer;

// One buffer, one meaning; all are device memory.
typedef struct Scratch {
    float *x;         // (max_rows, dim) the residual stream
    float *x_norm;    // (max_rows, dim) what a block reads
    float *branch;    // (max_rows, dim) what a block adds
    float *q;         // (max_rows, n_heads, head_dim)
    float *k, *v;     // (max_rows, n_kv_heads, head_dim)
    float *att_heads; // (max_rows, n_heads, head_dim) weighted sums of values
    float *gate;      // (max_rows, hidden_dim); NULL without a gate
    float *up;        // (max_rows, hidden_dim)
    float *last;      // (min(max_rows, max_logit_rows), dim) rows that want logits, after the norm
    float *logits;    // (max_logit_rows, vocab_size)
    int32_t *tokens, *positions, *sequences; // (max_rows)
    int32_t *sampled; // (max_rows) tokens that a Decoder sampled from the logits
} Scratch;

// The rows of one pass: at most max_rows of a Batch. These are the host's copies.
typedef struct Chunk {
    int32_t *tokens, *positions, *sequences;                   // (max_rows)
    int32_t *logit_tokens, *logit_positions, *logit_sequences; // (max_rows) of those that
    int *logit_rows;                                           // want logits
    int n, n_logit_rows, max_position;
} Chunk;

typedef struct WeightBytes {
    double matrices, largest; // as they are stored: all, and the largest one
    size_t vectors;           // norms and biases, float32
} WeightBytes;

struct Model {
    Config config;
    int windows[LIMIT_LAYERS]; // those of config.layers, for the cache
    ModelOptions options;      // with the defaults filled in
    StopFlag stop;             // of options.stop
    WeightBytes weight_bytes;
    Device *device;
    DeviceMatrix *token_embedding, *position_embedding, *head; // head may be token_embedding
    DeviceNorm embedding_norm, final_norm;
    DeviceLayer *layers;                      // (n_layers)
    RopeTable rope, rope_local, rope_queries; // the last where queries have a table of their own
    KvCache cache;
    Scratch scratch;
    void *scratch_block; // all of the scratch but the logits
    Chunk chunk;
    bool ranked;        // other processes have the other layers (ranks.h). Then:
    float *host_stream; // (max_rows, dim) the residual stream, to or from them
    int32_t *host_rows; // (3, max_rows) positions, sequences and rows that want logits
    int n_logit_rows;   // rows of scratch.logits that are filled
    int n_host_rows;    // of these, rows that are in host_logits
    float *host_logits; // (max_logit_rows, vocab_size)
    // (n_sequences) of the cache, around one model_forward
    int *lengths_before, *lengths_planned, *lowest_planned;
    KeyPattern pattern; // of every layer, within its own window; zeroed hides nothing. May be set
                        // between two passes.
    Listener *listener; // NULL: none is attached
    void *listener_context;
    Intervention *intervention; // called before the listener, which sees what the pass goes on with
    void *intervention_context;
    uint32_t intervention_stages; // bit i: at stage i; 0: none is attached
    float *att_weights; // (max_rows, n_heads, context) device; NULL unless the listener wants them
    float *host_stage;  // what observe copies to; NULL while nothing listens
};

// Uploads the weights and allocates everything. NULL with `error`: exit code 3 (weights that do not
// fit the config are a bad file), 5 or 6. config and weights are not needed afterwards, except
// that a backend which borrows matrices (reference) needs the checkpoint to stay open.
Model *model_open(const Config *config, const Weights *weights, const ModelOptions *options,
                  Error *error);
void model_close(Model *model); // NULL is fine

// Runs a batch of any length, in chunks of max_rows; logits of the rows that want them are kept (at
// most max_logit_rows, checked). Tokens, positions and sequences are checked: exit code 2 with both
// numbers when a position does not fit the context, or is one that layers with a window cannot go
// back to (kv_cache.h). False also on a device failure (6) and where a logit is not finite (7,
// naming the first stage that holds NaN or infinity); then the rows are in the cache. Where
// options.stop was set (130) they are not.
bool model_forward(Model *model, const Batch *batch, Error *error);
// After a model_forward that has failed: the cache as it was before the batch, but for positions
// that the batch has written anew.
void model_forget(Model *model, const Batch *batch);

// Logits (vocab_size) of the i-th row that wanted them in the last model_forward, or of the i-th
// row of the last model_unembed; borrowed until the next of either. A Decoder has its own,
// decoder_logits.
const float *model_logits(const Model *model, int i);

// The final norm and the head, with the soft cap, on residual streams that a listener saw: host
// x (n, dim), n at most max_rows and max_logit_rows. model_logits(model, i) then has the logits of
// row i: those of model_forward where x is the last layer's (the same bits where the device is
// batch-invariant). The cache stays as it is. Not from inside a listener, nor while a Decoder is
// begun. False: exit code 6, 7 (a logit is not finite) or 130.
bool model_unembed(Model *model, const float *x, int n, Error *error);

// Sets the listener of all stages (NULL: none) and allocates the host copy of a stage that it
// reads; with attention_weights also (max_rows, n_heads, context) floats on the device, which
// attention then fills: without a listener too, for an intervention. False, without a listener:
// exit code 5 or 6.
bool model_listen(Model *model, Listener *listener, void *context, bool attention_weights,
                  Error *error);

// Sets what changes numbers on their way (NULL: nothing): ablation, patching, steering. It is
// called before the listener, and only at the stages whose bits are set (bit i: stage i), since
// each of them costs a copy from the device. False, with nothing attached: exit code 5.
bool model_intervene(Model *model, Intervention *intervention, void *context, uint32_t stages,
                     Error *error);

// Whether a listener is attached that is called at this stage; at any.
static inline bool model_observes(const Model *model, StageId id) {
    return model->listener || model->intervention_stages >> id & 1;
}
static inline bool model_has_listener(const Model *model) {
    return model->listener || model->intervention_stages;
}

// ---- memory ----

// What RoPE's cos and sin are multiplied by: 1, but for YaRN and LongRoPE.
double rope_magnitude(const RopeConfig *rope);

// A model with nothing allocated, for model_memory: its shapes are checked, no weight is read. The
// data of the weights may be any address. NULL: exit code 2, 3 or 5. A device that cannot be used
// (no GPU) is no failure here.
Model *model_plan(const Config *config, const Weights *weights, const ModelOptions *options,
                  Error *error);

// Bytes that a model takes, equal to what model_open allocates: it goes by the same table.
typedef struct ModelMemory {
    // on the device
    double weights;    // matrices as the device stores them, norms and biases
    double cache;      // keys and values of all sequences
    double scratch;    // activations of max_rows rows, max_logit_rows rows of logits
    double rope;       // cos and sin of every position
    double operations; // what the operations need besides
    // on the host
    double host; // logits for the caller, lists of rows and layers
    double file; // of the file, while it is loaded: its largest matrix, which is in memory twice;
                 // where the device borrows the matrices all of them, as long as the model is open
} ModelMemory;

// Of a model that is open or planned, with these options. Threads and precision are the model's.
ModelMemory model_memory(const Model *model, const ModelOptions *options);
double model_memory_device(const ModelMemory *memory);

double model_memory_peak(const ModelMemory *memory); // all of it: on a GPU two memories

// ---- which keys a query sees ----

// Those of the model's pattern that are in the layer's own window.
KeyPattern model_pattern(const Model *model, int layer);
KeyPattern attention_pattern_within(const KeyPattern *pattern, int window); // window 0: all of it

// "causal", "window:8", "local:8", "strided:4", "global:4", "block:8", or up to PATTERN_MAX_PARTS
// of them: "local:64+global:4". False, with the part that is wrong: exit code 2.
bool attention_pattern_parse(KeyPattern *pattern, const char *text, Error *error);

// That text of a pattern, without the name of what it came from: "causal" where nothing is hidden.
enum { PATTERN_TEXT = 96 };
void attention_pattern_print(char out[PATTERN_TEXT], const KeyPattern *pattern);

// How many keys the queries at the positions start .. start + count - 1 see, all together.
uint64_t attention_pattern_keys(const KeyPattern *pattern, int start, int count);

// How many keys at least one of them sees: those that a pass of these queries reads.
int attention_pattern_read(const KeyPattern *pattern, int start, int count);
