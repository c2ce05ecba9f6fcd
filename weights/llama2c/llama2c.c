// llama2.c's .bin files: v0 (no magic, float32), v1 (float32) and v2 (int8 in groups).
//
//   v0   | dim hidden_dim n_layers n_heads n_kv_heads vocab_size seq_len: 7 x i32 | tensors |
//        vocab_size is negative where the output head is not tied; nothing but the exact size of
//        the file tells that it is one of these
//   v1   | "ak42" backwards: u32 | 1: i32 | the same 7 | tied: u8 | zeros up to 256 | tensors |
//   v2   | the same with 2                    | tied: u8 | group_size: i32 | .. 256 | tensors |
//        norms float32; every matrix is its int8 elements, then a float32 scale per group
//
// A tensor's place is known from the header alone: the layers of one role stand together. Rows of
// wq and wk are in Meta's interleaved order. Source: llama2.c, export.py and run.c.
//
//     v0, bytes     0   4          8        12      16         20         24      28
//                 | dim | hidden_dim | n_layers | n_heads | n_kv_heads | vocab_size | seq_len | ..
//
// V0_TENSORS and V1_TENSORS are the order of the file; the plan is made from them before the size
// of the file is compared with it. Everything else of a model (epsilon, theta, special ids) the
// format cannot say: fill_config has what run.c assumes.
#include "weights/llama2c/llama2c.h"

#include "base/bytes.h"
#include "weights/container.h"

#include <stdio.h>
#include <string.h>

// The sizes that dimensions of tensors are made of; size_of gives their numbers.
typedef enum Size { SIZE_ONE, SIZE_DIM, SIZE_KV, SIZE_HIDDEN, SIZE_VOCAB, SIZE_COUNT } Size;

// One tensor in the order of the file, under the name that Meta's checkpoints have.
typedef struct FileTensor {
    const char *name; // "%d": one for each layer
    Size rows, cols;  // rows SIZE_ONE: a vector
    bool skipped;     // no tensor, only its room
} FileTensor;

#define LAYER "layers.%d."
// Columns: name, rows, columns, skipped. A role with "%d" stands for n_layers tensors, one after
// another. V0 has the RoPE tables between the final norm and the head.
static const FileTensor V0_TENSORS[] = {
    {"tok_embeddings.weight", SIZE_VOCAB, SIZE_DIM, false},
    {LAYER "attention_norm.weight", SIZE_ONE, SIZE_DIM, false},
    {LAYER "attention.wq.weight", SIZE_DIM, SIZE_DIM, false},
    {LAYER "attention.wk.weight", SIZE_KV, SIZE_DIM, false},
    {LAYER "attention.wv.weight", SIZE_KV, SIZE_DIM, false},
    {LAYER "attention.wo.weight", SIZE_DIM, SIZE_DIM, false},
    {LAYER "ffn_norm.weight", SIZE_ONE, SIZE_DIM, false},
    {LAYER "feed_forward.w1.weight", SIZE_HIDDEN, SIZE_DIM, false},
    {LAYER "feed_forward.w2.weight", SIZE_DIM, SIZE_HIDDEN, false},
    {LAYER "feed_forward.w3.weight", SIZE_HIDDEN, SIZE_DIM, false},
    {"norm.weight", SIZE_ONE, SIZE_DIM, false},
    {"freq_cis", SIZE_ONE, SIZE_COUNT, true}, // cos and sin; the model makes its own
    {"output.weight", SIZE_VOCAB, SIZE_DIM, false},
};
// V1 and V2: all vectors come first, which stay float32 in v2; no RoPE tables.
static const FileTensor V1_TENSORS[] = {
    {LAYER "attention_norm.weight", SIZE_ONE, SIZE_DIM, false},
    {LAYER "ffn_norm.weight", SIZE_ONE, SIZE_DIM, false},
    {"norm.weight", SIZE_ONE, SIZE_DIM, false},
    {"tok_embeddings.weight", SIZE_VOCAB, SIZE_DIM, false},
    {LAYER "attention.wq.weight", SIZE_DIM, SIZE_DIM, false},
    {LAYER "attention.wk.weight", SIZE_KV, SIZE_DIM, false},
    {LAYER "attention.wv.weight", SIZE_KV, SIZE_DIM, false},
    {LAYER "attention.wo.weight", SIZE_DIM, SIZE_DIM, false},
    {LAYER "feed_forward.w1.weight", SIZE_HIDDEN, SIZE_DIM, false},
    {LAYER "feed_forward.w2.weight", SIZE_DIM, SIZE_HIDDEN, false},
    {LAYER "feed_forward.w3.weight", SIZE_HIDDEN, SIZE_DIM, false},
    {"output.weight", SIZE_VOCAB, SIZE_DIM, false},
};
enum {
    V0_COUNT = sizeof V0_TENSORS / sizeof *V0_TENSORS,
    V1_COUNT = sizeof V1_TENSORS / sizeof *V1_TENSORS,
};

// ---- header ----

// `at` is the file's offset of the number, for the message.
static bool check_field(Bytes *in, size_t at, const char *name, int64_t value, int limit) {
    if (value >= 1 && value <= limit) return true;
    return bytes_fail(in, at, "%s: wanted 1 .. %d, got %lld", name, limit, (long long)value);
}

// The seven numbers, each in its range before any of them is multiplied or divided by.
static bool read_sizes(Bytes *in, Llama2cHeader *header) {
    const struct {
        const char *name;
        int *field, limit;
    } FIELDS[] = {
        {"dim", &header->dim, LIMIT_DIM},
        {"hidden_dim", &header->hidden_dim, LIMIT_DIM},
        {"n_layers", &header->n_layers, LIMIT_LAYERS},
        {"n_heads", &header->n_heads, LIMIT_HEADS},
        {"n_kv_heads", &header->n_kv_heads, LIMIT_HEADS},
        {"vocab_size", &header->vocab_size, LIMIT_VOCAB},
        {"seq_len", &header->seq_len, LIMIT_CONTEXT},
    };
    for (size_t i = 0; i < sizeof FIELDS / sizeof *FIELDS; i++) {
        size_t at = in->pos;
        int64_t value = (int32_t)bytes_u32(in, FIELDS[i].name); // 0 where it fails
        // The sign says whether the head is tied. A value of 0 is refused below.
        if (header->version == 0 && FIELDS[i].field == &header->vocab_size) {
            header->tied = value > 0;
            if (value < 0) value = -value;
        }
        if (!check_field(in, at, FIELDS[i].name, value, FIELDS[i].limit)) return false;
        *FIELDS[i].field = (int)value;
    }
    return true;
}

// What the numbers must be to each other; `at` is where they begin.
//
// Offsets 12 and 16 are n_heads and n_kv_heads behind dim. An even number of channels, since RoPE
// rotates pairs.
static bool check_heads(Bytes *in, size_t at, const Llama2cHeader *h) {
    if (h->dim % h->n_heads)
        return bytes_fail(in, at + 12, "n_heads: %d does not divide dim %d", h->n_heads, h->dim);
    if (h->dim / h->n_heads % 2)
        return bytes_fail(in, at + 12, "n_heads: heads of %d channels, wanted an even number",
                          h->dim / h->n_heads);
    if (h->n_heads % h->n_kv_heads)
        return bytes_fail(in, at + 16, "n_kv_heads: %d does not divide n_heads %d", h->n_kv_heads,
                          h->n_heads);
    return true;
}

static bool read_tail(Bytes *in, Llama2cHeader *header) {
    uint8_t tied = bytes_u8(in, "shared_classifier");
    if (tied > 1)
        return bytes_fail(in, in->pos - 1, "shared_classifier: wanted 0 or 1, got %d", tied);
    header->tied = tied;
    if (header->version == 2) {
        size_t at = in->pos;
        int32_t group = (int32_t)bytes_u32(in, "group_size");
        if (in->failed || !check_field(in, at, "group_size", group, header->dim)) return false;
        // llama2.c's exporter halves the group until it divides dim but does not look at
        // hidden_dim; its runq.c would drop the end of such rows.
        if (header->dim % group || header->hidden_dim % group)
            return bytes_fail(in, at, "group_size: %d does not divide dim %d and hidden_dim %d",
                              group, header->dim, header->hidden_dim);
        header->group_size = group;
    }
    bytes_take(in, LLAMA2C_HEADER_BYTES - in->pos, "header");
    return !in->failed;
}

// Without the magic it has to be a v0 file: read_sizes then reads the first bytes as dim.
static bool read_header(Bytes *in, Llama2cHeader *header) {
    Bytes beginning = *in;
    bool magic = bytes_u32(&beginning, "magic") == LLAMA2C_MAGIC;
    if (magic) {
        *in = beginning;
        int32_t version = (int32_t)bytes_u32(in, "version");
        if (!in->failed && version != 1 && version != 2)
            return bytes_fail(in, 4, "llama2.c version %d is unknown (0, 1 and 2 are known)",
                              version);
        header->version = version;
    }
    size_t at = in->pos;
    if (in->failed || !read_sizes(in, header) || !check_heads(in, at, header) ||
        (magic && !read_tail(in, header)))
        return false;
    header->start = in->pos;
    return true;
}

// ---- plan ----

// SIZE_COUNT is the room of both RoPE tables: seq_len rows of head_dim / 2 cos, and as many sin.
static uint64_t size_of(const Llama2cHeader *h, Size size) {
    switch (size) {
    case SIZE_ONE: return 1;
    case SIZE_DIM: return (uint64_t)h->dim;
    case SIZE_KV: return (uint64_t)(h->dim / h->n_heads) * (uint64_t)h->n_kv_heads;
    case SIZE_HIDDEN: return (uint64_t)h->hidden_dim;
    case SIZE_VOCAB: return (uint64_t)h->vocab_size;
    case SIZE_COUNT: break;
    }
    return (uint64_t)h->seq_len * (uint64_t)(h->dim / h->n_heads); // cos and sin of half a head
}

// The next tensor of the file; *end moves behind it. The ranges of the header keep all of this far
// below 64 bits.
//
// Only offsets are set here; place_tensors adds the address. A quantised tensor is followed by its
// scales, one float32 for each group, which the plan reaches through `scales`.
static bool plan_tensor(Checkpoint *checkpoint, TensorPlan *tensor, const Llama2cHeader *h,
                        const FileTensor *role, int layer, uint64_t *end, Error *error) {
    char name[64];
    uint64_t rows = size_of(h, role->rows), cols = size_of(h, role->cols);
    bool quantised = h->version == 2 && role->rows != SIZE_ONE;
    // The format strings are the constants above.
    int length =
        layer < 0 ? snprintf(name, sizeof name, "%s", role->name)
                  : snprintf(name, sizeof name, LAYER "%s", layer, role->name + sizeof LAYER - 1);
    tensor->name = arena_text(&checkpoint->arena, name, (size_t)length, error);
    if (!tensor->name) return false;
    tensor->dtype = quantised ? DTYPE_Q8_GROUP : DTYPE_F32;
    tensor->n_dims = role->rows == SIZE_ONE ? 1 : 2;
    tensor->shape[0] = role->rows == SIZE_ONE ? cols : rows;
    tensor->shape[1] = role->rows == SIZE_ONE ? 0 : cols;
    tensor->group_size = quantised ? (uint32_t)h->group_size : 0;
    if (!plan_measure(tensor, error)) return false;
    tensor->offset = *end;
    *end += tensor->bytes;
    if (quantised) *end += rows * cols / (uint64_t)h->group_size * sizeof(float);
    return true;
}

// All tensors one after another; *end is then what the size of the file must be.
bool llama2c_plan(Checkpoint *checkpoint, const Llama2cHeader *h, uint64_t *end, Error *error) {
    const FileTensor *roles = h->version ? V1_TENSORS : V0_TENSORS;
    size_t n_roles = h->version ? V1_COUNT : V0_COUNT, n = 0;
    if (h->tied) n_roles--; // the head is the last
    for (size_t i = 0; i < n_roles; i++)
        n += roles[i].skipped ? 0 : strchr(roles[i].name, '%') ? (size_t)h->n_layers : 1;
    if (!plan_reserve(checkpoint, n, error)) return false;
    TensorPlan *tensor = checkpoint->tensors;
    *end = h->start;
    for (size_t i = 0; i < n_roles; i++) {
        bool layered = strchr(roles[i].name, '%') != NULL;
        if (roles[i].skipped) *end += size_of(h, roles[i].cols) * sizeof(float);
        for (int l = 0; !roles[i].skipped && l < (layered ? h->n_layers : 1); l++)
            if (!plan_tensor(checkpoint, tensor++, h, &roles[i], layered ? l : -1, end, error))
                return false;
    }
    return true;
}

// The one thing that tells a v0 file from any other bytes.
//
// `wanted` is exact, so one byte more or less is an error. Where the difference is exactly the
// head, the message says that the flag for it may be wrong; any other shorter file may be a part.
static bool check_file_size(const Llama2cHeader *h, uint64_t wanted, uint64_t size, Error *error) {
    uint64_t elements = size_of(h, SIZE_VOCAB) * size_of(h, SIZE_DIM), head = elements;
    if (h->version == 2)
        head += elements / (uint64_t)h->group_size * sizeof(float);
    else
        head *= sizeof(float);
    if (size == wanted) return true;
    const char *hint = size < wanted ? ": is it incomplete, a download that was interrupted?" : "";
    if (h->tied && size == wanted + head) hint = "; the size fits a head that is not tied";
    if (!h->tied && size == wanted - head) hint = "; the size fits a tied head";
    return error_set(error, ERROR_FILE,
                     "llama2.c v%d: the header wants a file of %llu bytes, got %llu%s", h->version,
                     (unsigned long long)wanted, (unsigned long long)size, hint);
}

// Called after the size has been checked: every tensor is inside the file.
static void place_tensors(Checkpoint *checkpoint, const uint8_t *base) {
    for (size_t i = 0; i < checkpoint->n_tensors; i++) {
        TensorPlan *tensor = &checkpoint->tensors[i];
        tensor->data = base + tensor->offset;
        if (tensor->dtype == DTYPE_Q8_GROUP) tensor->scales = tensor->data + tensor->bytes;
    }
}

// ---- config ----

// seq_len of the file bounds the context, as in run.c.
static void fill_config(Config *config, const Llama2cHeader *h) {
    config->dim = h->dim;
    config->hidden_dim = h->hidden_dim;
    config->n_layers = h->n_layers;
    config->n_heads = h->n_heads;
    config->n_kv_heads = h->n_kv_heads;
    config->head_dim = config->rope_dim = h->dim / h->n_heads;
    config->vocab_size = h->vocab_size;
    config->max_seq_len = h->seq_len;
    config->norm_eps = 1e-5f; // the format has no room for this and the next
    config->rope.theta = 10000;
    // run.c begins with 1 and stops at it too: a story's end is the next one's beginning.
    if (h->vocab_size > 1) config->bos_id = config->eos_ids[config->n_eos_ids++] = 1;
    if (h->vocab_size > 2) config->eos_ids[config->n_eos_ids++] = 2;
}

// head_required: a file of an untied head has output.weight, which must not be left out.
bool llama2c_read(Checkpoint *checkpoint, Error *error) {
    Mapping *file = checkpoint->files;
    Bytes in = bytes_of_file(file, error);
    Llama2cHeader header = {0};
    uint64_t size;
    if (!read_header(&in, &header)) return false;
    checkpoint->container = CONTAINER_LLAMA2C;
    snprintf(checkpoint->container_name, sizeof checkpoint->container_name, "llama2.c v%d",
             header.version);
    if (!llama2c_plan(checkpoint, &header, &size, error) ||
        !check_file_size(&header, size, file->size, error))
        return false;
    place_tensors(checkpoint, file->data);
    if (!plan_finish(checkpoint, error)) return false;
    checkpoint->naming = NAMES_META;
    checkpoint->family = family_find(NAMES_META, "llama", error);
    if (!checkpoint->family) return false;
    family_defaults(checkpoint->family, &checkpoint->config);
    fill_config(&checkpoint->config, &header);
    checkpoint->head_required = !header.tied;
    return true;
}
