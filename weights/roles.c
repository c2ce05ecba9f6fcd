// Fills Weights from the plan: finds each tensor by its name, compares its type and shape with the
// Config, and stores a Matrix over the file's bytes or a float32 copy.
//
// The order for each layer, and before them for the tensors outside the layers (layer -1):
//
//    run_pass      every list of the family's tensors
//    run_list        every row of a list: look its name up in the plan
//    take              its roles, rows first .. first + count of the tensor
//    take_vector         norms, biases: a float32 copy; 1 added to Gemma's norms
//    take_matrix         a Matrix over the file's bytes, nothing copied
//    take_transposed     GPT-2's Conv1D: a transposed copy
//    fill_ones     norms without a weight
//
// Names and families are tables in families.c; this file has the one about roles. The way back, for
// files that are written, is out/outgoing.c and out/encode_rows.c.
#include "weights/roles.h"
#include "weights/container.h"
#include "weights/quant.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

// What a dimension of a role is called; extent() computes it from the Config.
typedef enum Extent {
    ONE,
    DIM,
    HIDDEN,
    Q_DIM,
    KV_DIM,
    Q_NORM,
    K_NORM,
    VOCAB,
    CONTEXT,
    PAIRS
} Extent;
// The struct in which a role's field lies.
typedef enum Home { IN_WEIGHTS, IN_LAYER, IN_CONFIG } Home;

typedef enum Trait {
    PLAIN,
    ROTARY,      // rows follow RoPE's pairing
    NORM,        // the weight of a norm
    ROTARY_NORM, // both
} Trait;

typedef struct RoleInfo {
    const char *name; // as Weights has it
    Home home;
    size_t offset;     // in Weights, LayerWeights or Config
    Extent rows, cols; // cols ONE: a float32 vector, else a Matrix
    Trait trait;
} RoleInfo;

// The first three columns of a row of ROLES, so that the name in messages is the field's own.
#define WEIGHT(field) #field, IN_WEIGHTS, offsetof(Weights, field)
#define LAYER(field) #field, IN_LAYER, offsetof(LayerWeights, field)

// Columns: name, home and offset of the field; rows; columns; trait.
static const RoleInfo ROLES[ROLE_COUNT] = {
    [ROLE_EMBEDDING] = {WEIGHT(token_embedding), VOCAB, DIM, PLAIN},
    [ROLE_POSITION] = {WEIGHT(position_embedding), CONTEXT, DIM, PLAIN},
    [ROLE_EMBEDDING_NORM] = {WEIGHT(embedding_norm), DIM, ONE, NORM},
    [ROLE_FINAL_NORM] = {WEIGHT(final_norm), DIM, ONE, NORM},
    [ROLE_FINAL_NORM_BIAS] = {WEIGHT(final_norm_bias), DIM, ONE, PLAIN},
    [ROLE_HEAD] = {WEIGHT(head), VOCAB, DIM, PLAIN},
    [ROLE_ROPE_DIVISORS] = {"rope.divisors", IN_CONFIG, offsetof(Config, rope.divisors), PAIRS, ONE,
                            PLAIN},
    [ROLE_ATT_NORM] = {LAYER(att_norm), DIM, ONE, NORM},
    [ROLE_ATT_NORM_BIAS] = {LAYER(att_norm_bias), DIM, ONE, PLAIN},
    [ROLE_WQ] = {LAYER(wq), Q_DIM, DIM, ROTARY},
    [ROLE_WK] = {LAYER(wk), KV_DIM, DIM, ROTARY},
    [ROLE_WV] = {LAYER(wv), KV_DIM, DIM, PLAIN},
    [ROLE_WO] = {LAYER(wo), DIM, Q_DIM, PLAIN},
    [ROLE_BQ] = {LAYER(bq), Q_DIM, ONE, ROTARY},
    [ROLE_BK] = {LAYER(bk), KV_DIM, ONE, ROTARY},
    [ROLE_BV] = {LAYER(bv), KV_DIM, ONE, PLAIN},
    [ROLE_BO] = {LAYER(bo), DIM, ONE, PLAIN},
    [ROLE_Q_NORM] = {LAYER(q_norm), Q_NORM, ONE, ROTARY_NORM},
    [ROLE_K_NORM] = {LAYER(k_norm), K_NORM, ONE, ROTARY_NORM},
    [ROLE_ATT_POST_NORM] = {LAYER(att_post_norm), DIM, ONE, NORM},
    [ROLE_FFN_NORM] = {LAYER(ffn_norm), DIM, ONE, NORM},
    [ROLE_FFN_NORM_BIAS] = {LAYER(ffn_norm_bias), DIM, ONE, PLAIN},
    [ROLE_W_GATE] = {LAYER(w_gate), HIDDEN, DIM, PLAIN},
    [ROLE_W_UP] = {LAYER(w_up), HIDDEN, DIM, PLAIN},
    [ROLE_W_DOWN] = {LAYER(w_down), DIM, HIDDEN, PLAIN},
    [ROLE_B_UP] = {LAYER(b_up), HIDDEN, ONE, PLAIN},
    [ROLE_B_DOWN] = {LAYER(b_down), DIM, ONE, PLAIN},
    [ROLE_FFN_POST_NORM] = {LAYER(ffn_post_norm), DIM, ONE, NORM},
};

// A QK norm has one weight for each channel of a head, or one for each channel of all heads.
static size_t extent(const Config *c, Extent what) {
    int per_head = c->qk_norm == QK_NORM_FULL_WIDTH ? 0 : c->head_dim;
    switch (what) {
    case ONE: return 1;
    case DIM: return (size_t)c->dim;
    case HIDDEN: return (size_t)c->hidden_dim;
    case Q_DIM: return (size_t)c->q_dim;
    case KV_DIM: return (size_t)c->kv_dim;
    case Q_NORM: return (size_t)(per_head ? per_head : c->q_dim);
    case K_NORM: return (size_t)(per_head ? per_head : c->kv_dim);
    case VOCAB: return (size_t)c->vocab_size;
    case CONTEXT: return (size_t)c->max_seq_len;
    case PAIRS: return (size_t)c->rope_dim / 2;
    }
    return 0;
}

// One walk over the table for one layer, or for the tensors outside the layers (layer -1).
typedef struct Pass {
    Checkpoint *checkpoint;
    const char *prefix;
    int layer;
    Error *error;
} Pass;

// The address of `const float *` for a vector, of a Matrix otherwise.
static void *role_field(const Pass *pass, Role role) {
    Checkpoint *c = pass->checkpoint;
    char *home = ROLES[role].home == IN_LAYER    ? (char *)&c->weights.layers[pass->layer]
                 : ROLES[role].home == IN_CONFIG ? (char *)&c->config
                                                 : (char *)&c->weights;
    return home + ROLES[role].offset;
}

static bool is_vector(Role role) {
    return ROLES[role].cols == ONE;
}

static bool is_norm(Role role) {
    return ROLES[role].trait == NORM || ROLES[role].trait == ROTARY_NORM;
}

// Whether the file stores this matrix transposed (see transpose).
static bool is_transposed(const Checkpoint *c, Role role) {
    return c->family->transposed[c->naming] && ROLES[role].home == IN_LAYER && !is_vector(role);
}

// Weights begin as zeros, so a field that no tensor has filled is NULL.
static bool role_filled(const Pass *pass, Role role) {
    const void *field = role_field(pass, role);
    return is_vector(role) ? *(const float *const *)field != NULL
                           : ((const Matrix *)field)->data != NULL;
}

RoleView role_view(const Checkpoint *c, Role role, int layer) {
    const RoleInfo *info = &ROLES[role];
    Pass pass = {.checkpoint = (Checkpoint *)(uintptr_t)c, .layer = layer}; // only looked at
    RoleView view = {.name = info->name,
                     .of_layer = info->home == IN_LAYER,
                     .rotary = info->trait == ROTARY || info->trait == ROTARY_NORM,
                     .norm = is_norm(role),
                     .rows = extent(&c->config, info->rows),
                     .cols = extent(&c->config, info->cols)};
    const void *field = role_field(&pass, role);
    if (!role_filled(&pass, role)) return view;
    if (is_vector(role))
        view.vector = *(const float *const *)field;
    else
        view.matrix = field;
    return view;
}

// "49152, 576", for messages; cut where it does not fit.
static void shape_text(char *out, size_t size, const uint64_t *shape, uint32_t n_dims) {
    size_t used = 0;
    for (uint32_t i = 0; i < n_dims && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%" PRIu64, i ? ", " : "", shape[i]);
}

// The shape that the roles of a tensor add up to, against the one it has.
static bool shape_fits(const Pass *pass, const TensorPlan *tensor, const Role *roles) {
    const Config *config = &pass->checkpoint->config;
    uint64_t wanted[2] = {0, extent(config, ROLES[roles[0]].cols)};
    uint32_t n_dims = is_vector(roles[0]) ? 1 : 2;
    for (int i = 0; i < 3 && roles[i]; i++)
        wanted[0] += extent(config, ROLES[roles[i]].rows);
    // A Conv1D has its parts side by side in columns, not stacked in rows: (cols, sum of rows).
    if (is_transposed(pass->checkpoint, roles[0])) {
        uint64_t rows = wanted[0];
        wanted[0] = wanted[1];
        wanted[1] = rows;
    }
    if (tensor->n_dims == n_dims && tensor->shape[0] == wanted[0] &&
        (n_dims == 1 || tensor->shape[1] == wanted[1]))
        return true;
    char wanted_text[64] = "", got_text[128] = "", layer[24] = "";
    shape_text(wanted_text, sizeof wanted_text, wanted, n_dims);
    shape_text(got_text, sizeof got_text, tensor->shape, tensor->n_dims);
    if (pass->layer >= 0) snprintf(layer, sizeof layer, "layers.%d.", pass->layer);
    return error_set(pass->error, ERROR_FILE, "tensor \"%s\" (%s%s): wanted (%s), got (%s)",
                     tensor->name, layer, ROLES[roles[0]].name, wanted_text, got_text);
}

// Rows of q and k as the container has them: only the row order of the Matrix matters.
static Matrix row_order(const Checkpoint *c, Role role) {
    Matrix order = {0};
    bool rotary = ROLES[role].trait == ROTARY || ROLES[role].trait == ROTARY_NORM;
    if (rotary && c->family->interleaved[c->naming]) {
        order.head_dim = (uint32_t)c->config.head_dim;
        order.rope_dim = (uint32_t)c->config.rope_dim;
    }
    return order;
}

// Elements first .. first + count of the tensor, as float32 in the model's row order, owned by the
// arena: kernels take norms and biases as aligned float32. Quantised types are refused.
static bool take_vector(const Pass *pass, const TensorPlan *tensor, Role role, size_t first,
                        size_t count) {
    Checkpoint *c = pass->checkpoint;
    if (!dtype_is_float(tensor->dtype))
        return error_set(pass->error, ERROR_FILE,
                         "tensor \"%s\" (%s): type %s, wanted F32, F16 or BF16", tensor->name,
                         ROLES[role].name, dtype_info(tensor->dtype)->name);
    float *values = arena_alloc(&c->arena, count, sizeof *values, pass->error);
    if (!values) return false;
    Matrix order = row_order(c, role);
    size_t size = dtype_row_bytes(tensor->dtype, 1);
    for (size_t i = 0; i < count; i++)
        dequantise(values + i, tensor->dtype,
                   tensor->data + (first + matrix_stored_row(&order, i)) * size, 1);
    // Gemma multiplies by (1 + w) and stores w.
    bool minus_one = c->family->norms_stored_minus_one[c->naming] && is_norm(role);
    for (size_t i = 0; minus_one && i < count; i++)
        values[i] += 1.0f;
    *(const float **)role_field(pass, role) = values;
    return true;
}

// A norm without a weight gets a vector of ones.
static bool fill_ones(const Pass *pass) {
    Checkpoint *c = pass->checkpoint;
    for (const Role *role = c->family->ones; *role; role++) {
        if ((ROLES[*role].home == IN_LAYER) != (pass->layer >= 0)) continue;
        size_t count = extent(&c->config, ROLES[*role].rows);
        float *ones = arena_alloc(&c->arena, count, sizeof *ones, pass->error);
        if (!ones) return false;
        for (size_t i = 0; i < count; i++)
            ones[i] = 1.0f;
        *(const float **)role_field(pass, *role) = ones;
    }
    return true;
}

// GPT-2's Conv1D stores y = x W, a matrix (in, out) with a fused q|k|v in its columns:
//
//             q cols   k cols   v cols                   rows of wk, one for each of k's columns
//     in 0  | ...... | ...... | ...... |                 in 0, in 1, in 2 ..
//     in 1  | ...... | ...... | ...... |       ->        in 0, in 1, in 2 ..
//
// Columns first .. first + rows of `from`, (cols, width), become the rows of `to`, (rows, cols), by
// square tiles that fit the cache.
static void transpose(uint8_t *to, const uint8_t *from, size_t rows, size_t cols, size_t width,
                      size_t first, size_t size) {
    enum { SIDE = 32 };
    for (size_t r0 = 0; r0 < rows; r0 += SIDE)
        for (size_t c0 = 0; c0 < cols; c0 += SIDE)
            for (size_t r = r0; r < rows && r < r0 + SIDE; r++)
                for (size_t c = c0; c < cols && c < c0 + SIDE; c++)
                    memcpy(to + (r * cols + c) * size, from + (c * width + first + r) * size, size);
}

// The transposed copy is in the checkpoint's arena. Only float types: a quantised block spans
// elements of one row.
static bool take_transposed(const Pass *pass, const TensorPlan *tensor, Role role, size_t first,
                            size_t count) {
    Checkpoint *c = pass->checkpoint;
    if (!dtype_is_float(tensor->dtype))
        return error_set(pass->error, ERROR_FILE,
                         "tensor \"%s\" (%s): type %s, wanted F32, F16 or BF16", tensor->name,
                         ROLES[role].name, dtype_info(tensor->dtype)->name);
    size_t cols = (size_t)tensor->shape[0], width = (size_t)tensor->shape[1];
    size_t size = dtype_row_bytes(tensor->dtype, 1);
    uint8_t *data = arena_alloc(&c->arena, count, cols * size, pass->error);
    if (!data) return false;
    transpose(data, tensor->data, count, cols, width, first, size);
    *(Matrix *)role_field(pass, role) =
        (Matrix){.dtype = tensor->dtype, .rows = count, .cols = cols, .data = data};
    return true;
}

// Rows first .. first + count of the tensor. Nothing is copied: data points into the mapping, and a
// fused tensor becomes several matrices over parts of it.
static bool take_matrix(const Pass *pass, const TensorPlan *tensor, Role role, size_t first,
                        size_t count) {
    if (is_transposed(pass->checkpoint, role))
        return take_transposed(pass, tensor, role, first, count);
    Matrix matrix = row_order(pass->checkpoint, role);
    size_t cols = (size_t)tensor->shape[1];
    matrix.dtype = tensor->dtype;
    matrix.rows = count;
    matrix.cols = cols;
    matrix.data = tensor->data + first * dtype_row_bytes(tensor->dtype, cols);
    if (tensor->dtype == DTYPE_Q8_GROUP) {
        matrix.group_size = tensor->group_size;
        matrix.scales = tensor->scales + first * (cols / tensor->group_size) * sizeof(float);
    }
    *(Matrix *)role_field(pass, role) = matrix;
    return true;
}

// A copy of the tensor, in the checkpoint's arena, with the rows of q, k and v one after another
// (roles.h). False: exit code 3 or 5.
static bool regroup_heads(const Pass *pass, TensorPlan *copy, const TensorPlan *tensor) {
    Checkpoint *c = pass->checkpoint;
    if (c->config.n_heads != c->config.n_kv_heads || !dtype_is_float(tensor->dtype))
        return error_set(pass->error, ERROR_FILE,
                         "tensor \"%s\": wanted F32, F16 or BF16 and as many heads of keys as of "
                         "queries",
                         tensor->name);
    size_t rows = (size_t)tensor->shape[0];
    size_t row_bytes =
        dtype_row_bytes(tensor->dtype, tensor->n_dims > 1 ? (size_t)tensor->shape[1] : 1);
    uint8_t *data = arena_alloc(&c->arena, rows, row_bytes, pass->error);
    if (!data) return false;
    for (size_t row = 0; row < rows; row++)
        memcpy(data + row * row_bytes,
               tensor->data + by_heads_stored_row(&c->config, row) * row_bytes, row_bytes);
    *copy = *tensor;
    copy->data = data;
    return true;
}

// Fills every role of one tensor. A role that two names bring is a contradiction.
static bool take(const Pass *pass, size_t item, const TensorName *name) {
    Checkpoint *c = pass->checkpoint;
    const TensorPlan *tensor = &c->tensors[item];
    TensorPlan regrouped;
    c->used[item] = true;
    if (name->need == IGNORED) return true;
    if (!shape_fits(pass, tensor, name->roles)) return false;
    if (c->family->by_heads[c->naming] && name->roles[2]) {
        if (!regroup_heads(pass, &regrouped, tensor)) return false;
        tensor = &regrouped;
    }
    size_t first = 0;
    for (int i = 0; i < 3 && name->roles[i]; i++) {
        Role role = name->roles[i];
        size_t count = extent(&c->config, ROLES[role].rows);
        if (role_filled(pass, role))
            return error_set(pass->error, ERROR_FILE, "tensor \"%s\": %s stands there already",
                             tensor->name, ROLES[role].name);
        if (is_vector(role) ? !take_vector(pass, tensor, role, first, count)
                            : !take_matrix(pass, tensor, role, first, count))
            return false;
        first += count;
    }
    return true;
}

// Whether the row names a tensor of each layer.
static bool of_layer(const TensorName *name) {
    return strchr(name->pattern, '#') != NULL;
}

// After each row a required role must be filled, by this tensor or by an earlier, fused one: GGUF's
// attn_qkv stands before attn_q in the lists.
static bool run_list(const Pass *pass, const TensorName *list) {
    const Checkpoint *c = pass->checkpoint;
    TensorNameText text;
    for (const TensorName *name = list; name && name->pattern; name++) {
        if (name->need == UNSTORED || of_layer(name) != (pass->layer >= 0)) continue;
        tensor_name_text(text, name->pattern, pass->prefix, pass->layer);
        int64_t item = names_find(&c->names, text);
        if (item >= 0 && !take(pass, (size_t)item, name)) return false;
        // The head is optional in the table, but required where the file says that it is not tied.
        bool wanted = name->need == REQUIRED || (name->roles[0] == ROLE_HEAD && c->head_required);
        if (wanted && !role_filled(pass, name->roles[0]))
            return error_set(pass->error, ERROR_FILE, "tensor \"%s\" is missing", text);
    }
    return true;
}

static bool run_pass(const Pass *pass) {
    const Checkpoint *c = pass->checkpoint;
    for (int i = 0; i < N_LISTS; i++)
        if (!run_list(pass, c->family->tensors[c->naming][i])) return false;
    return fill_ones(pass);
}

// ---- outlines ----

static bool outline_has(const TensorName *name, const OutlineFlags *flags) {
    if (name->need == REQUIRED) return true;
    if (name->need != OPTIONAL) return false;
    return name->roles[0] == ROLE_HEAD ? !flags->tied : flags->all_biases;
}

// Roles of one tensor. The head has an address of its own, which says that it is not the embedding.
static void outline(const Pass *pass, const TensorName *name, DType dtype) {
    static const float NOWHERE[2];
    for (int i = 0; i < 3 && name->roles[i]; i++) {
        Role role = name->roles[i];
        const RoleInfo *info = &ROLES[role];
        const float *at = &NOWHERE[role == ROLE_HEAD];
        size_t rows = extent(&pass->checkpoint->config, info->rows);
        size_t cols = extent(&pass->checkpoint->config, info->cols);
        if (is_vector(role))
            *(const float **)role_field(pass, role) = at;
        else
            *(Matrix *)role_field(pass, role) = (Matrix){
                .dtype = dtype_fitting(dtype, cols), .rows = rows, .cols = cols, .data = at};
    }
}

bool families_outline(Checkpoint *c, const OutlineFlags *flags, DType dtype, Error *error) {
    c->weights.layers =
        arena_alloc(&c->arena, (uint64_t)c->config.n_layers, sizeof *c->weights.layers, error);
    if (!c->weights.layers) return false;
    for (int layer = -1; layer < c->config.n_layers; layer++) {
        Pass pass = {.checkpoint = c, .layer = layer, .error = error};
        for (int i = 0; i < N_LISTS; i++)
            for (const TensorName *name = c->family->tensors[c->naming][i]; name && name->pattern;
                 name++)
                if (of_layer(name) == (layer >= 0) && outline_has(name, flags))
                    outline(&pass, name, dtype);
        if (!fill_ones(&pass)) return false;
    }
    if (!c->weights.head.data) c->weights.head = c->weights.token_embedding; // tied
    return true;
}

// Collects the tensors that nothing took. One that belongs to the model is an error, since leaving
// it out would change the result; the others become warnings.
static bool list_unused(Checkpoint *c, const char *prefix, Error *error) {
    size_t count = 0;
    for (size_t i = 0; i < c->n_tensors; i++)
        count += !c->used[i];
    c->unused = arena_alloc(&c->arena, count, sizeof *c->unused, error);
    if (!c->unused) return false;
    for (size_t i = 0; i < c->n_tensors; i++) {
        if (c->used[i]) continue;
        if (tensor_name_belongs(c, c->tensors[i].name, prefix))
            return error_set(error, ERROR_FILE,
                             "tensor \"%s\" has no use in architecture \"%s\" with %d layers",
                             c->tensors[i].name, c->family->name, c->config.n_layers);
        c->unused[c->n_unused++] = (uint32_t)i;
    }
    return true;
}

// Frequencies are divided by these, so 0, negative numbers and NaN are refused.
static bool divisors_sound(const Config *config, Error *error) {
    for (int i = 0; config->rope.divisors && i < config->rope_dim / 2; i++) {
        float divisor = config->rope.divisors[i];
        if (!(divisor >= 1e-6f && divisor <= 1e9f))
            return error_set(error, ERROR_FILE, "rope_freqs.weight: element %d is %g", i,
                             (double)divisor);
    }
    return true;
}

// `prefix` is found before anything is looked up by it; layers and their tensors come after the
// tensors outside (layer -1), the check of unused tensors last.
bool families_assign(Checkpoint *c, Error *error) {
    const char *prefix = tensor_name_prefix(c);
    c->weights.layers =
        arena_alloc(&c->arena, (uint64_t)c->config.n_layers, sizeof *c->weights.layers, error);
    if (!c->weights.layers) return false;
    for (int layer = -1; layer < c->config.n_layers; layer++)
        if (!run_pass(&(Pass){c, prefix, layer, error})) return false;
    if (!c->weights.head.data) c->weights.head = c->weights.token_embedding; // tied
    if (!divisors_sound(&c->config, error)) return false;
    rope_recognise_llama3(&c->config.rope, c->config.rope_dim);
    return list_unused(c, prefix, error);
}
