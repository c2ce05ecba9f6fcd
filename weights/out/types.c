// Which type a tensor is written in: what the user asked for, what the container has, and what the
// length of the rows allows.
//
//   matrix    what was asked for, or its own -> at least Q8_0 for embedding and head -> whole
//   blocks vector    F32 in a GGUF, the type of the matrices in a directory where nothing is lost
//
// The embedding and the head get more than the layers: every token passes through both, and every
// logit is a sum over one row of the head, so that its rounding reaches the result undamped. (Q4_0
// throughout costs SmolLM2 a third of its perplexity, with a head of Q8_0 a fifth.)
#include "base/text.h"
#include "weights/container.h"
#include "weights/out/outgoing.h"
#include "weights/quant.h"

#include <string.h>

bool outgoing_holds(Naming naming, DType dtype) {
    if (naming == NAMES_META) return dtype == DTYPE_F32; // groups are made by the writer
    return naming == NAMES_HF ? dtype_is_float(dtype) : dtype != DTYPE_Q8_GROUP;
}

static bool check(Naming naming, bool given, DType dtype, Error *error) {
    if (!given || outgoing_holds(naming, dtype)) return true;
    return error_set(error, ERROR_USAGE, "type %s: wanted f32, f16 or bf16 for safetensors",
                     dtype_info(dtype)->name);
}

bool outgoing_check_type(Naming naming, const OutgoingType *type, Error *error) {
    for (size_t i = 0; i < type->n_choices; i++)
        if (!check(naming, true, type->choices[i].dtype, error)) return false;
    return check(naming, type->given, type->dtype, error) &&
           check(naming, type->head_given, type->head, error);
}

DType outgoing_common_type(const Outgoing *out, const OutgoingType *type) {
    DType dtype = type->given ? type->dtype : out->from->weights.token_embedding.dtype;
    return outgoing_holds(out->naming, dtype) ? dtype : DTYPE_F32;
}

// ---- matrices ----

static bool is_end(Role role) {
    return role == ROLE_EMBEDDING || role == ROLE_HEAD;
}

// Bytes of 256 elements; Q8_GROUP without its scales.
static size_t size_of(DType dtype) {
    return dtype_row_bytes(dtype, 256);
}

// Of the embedding or the head, where the layers are to be of type `dtype`. What the source has in
// fewer bytes is copied: nothing is lost, and writing it larger would bring nothing back.
static DType end_type(const Outgoing *out, const OutgoingType *type, DType own) {
    DType least = type->mixed ? DTYPE_Q6_K : DTYPE_Q8_0;
    if (size_of(type->dtype) >= size_of(least)) return type->dtype;
    bool copied = size_of(own) < size_of(least);
    return copied && outgoing_holds(out->naming, own) ? own : least;
}

// The mixes q4_k_m and q5_k_m, as llama.cpp has made them known: wv and w_down, whose rounding is
// not averaged over heads or smoothed by a softmax, are Q6_K in the first and the last eighth of
// the layers and in every third between; a fused q|k|v, of which wv is a third, is one type larger.
static DType mixed_type(const Outgoing *out, const OutgoingType *type,
                        const OutgoingSource *source) {
    int layers = out->from->config.n_layers, i = source->layer, eighth = layers / 8;
    const Role *roles = source->row->roles;
    bool more = i < eighth || i >= 7 * layers / 8 || (i - eighth) % 3 == 2;
    if (roles[2] == ROLE_WV) return type->dtype == DTYPE_Q4_K ? DTYPE_Q5_K : DTYPE_Q6_K;
    if (roles[0] != ROLE_WV && roles[0] != ROLE_W_DOWN) return type->dtype;
    return more ? DTYPE_Q6_K : type->dtype;
}

// The last choice that matches the name; NULL: none.
static OutgoingChoice *choice_of(const OutgoingType *type, const char *name) {
    for (size_t i = type->n_choices; i-- > 0;)
        if (name_matches(type->choices[i].pattern, name)) return &type->choices[i];
    return NULL;
}

// A type that the container does not have (blocks in safetensors; llama2.c's groups) becomes F32,
// which holds every value exactly; n_exact counts such matrices for the user.
static DType own_type(Outgoing *out, const OutgoingSource *source, DType own) {
    for (int i = 1; i < 3 && source->row->roles[i]; i++) // parts of several types have no other
        if (role_view(out->from, source->row->roles[i], source->layer).matrix->dtype != own)
            return DTYPE_F32;
    if (outgoing_holds(out->naming, own)) return own;
    out->n_exact++;
    return DTYPE_F32;
}

// Rows that are no whole blocks get another type; the first of each is named for the message.
static DType fitting(Outgoing *out, DType dtype, const TensorPlan *tensor) {
    DType fits = dtype_fitting(dtype, (size_t)tensor->shape[tensor->n_dims - 1]);
    if (fits != dtype && !out->n_other[fits]++) out->first_other[fits] = tensor->name;
    return fits;
}

static DType matrix_type(Outgoing *out, const OutgoingType *type, const TensorPlan *tensor,
                         const OutgoingSource *source) {
    Role role = source->row->roles[0];
    DType own = role_view(out->from, role, source->layer).matrix->dtype, dtype;
    OutgoingChoice *choice = choice_of(type, tensor->name);
    // The positions are read as they are, a row for each token.
    if (role == ROLE_POSITION && out->naming == NAMES_GGUF) return DTYPE_F32;
    if (choice) {
        choice->used++;
        dtype = choice->dtype;
    } else if (is_end(role) && type->head_given)
        dtype = type->head;
    else if (!type->given)
        dtype = own_type(out, source, own);
    else if (is_end(role))
        dtype = end_type(out, type, own);
    else
        dtype = type->mixed ? mixed_type(out, type, source) : type->dtype;
    dtype = fitting(out, dtype, tensor);
    if (dtype != own && !dtype_is_float(own) && !dtype_is_float(dtype) && !out->n_again++)
        out->again = own;
    return dtype;
}

// ---- vectors ----

// Whether every value survives the way to `dtype` and back, bit for bit.
static bool fits_exactly(const float *values, size_t count, DType dtype, bool minus_one) {
    for (size_t i = 0; i < count; i++) {
        float value = minus_one ? values[i] - 1.0f : values[i], back;
        uint32_t bytes;
        quantise(&bytes, dtype, &value, 1);
        dequantise(&back, dtype, &bytes, 1);
        if (memcmp(&back, &value, sizeof value) != 0) return false;
    }
    return true;
}

static DType vector_type(const Outgoing *out, const OutgoingSource *source) {
    if (out->naming == NAMES_GGUF) return DTYPE_F32;
    for (int i = 0; i < 3 && source->row->roles[i]; i++) {
        RoleView view = role_view(out->from, source->row->roles[i], source->layer);
        bool minus_one = out->family->norms_stored_minus_one[out->naming] && view.norm;
        if (!fits_exactly(view.vector, view.rows, out->dtype, minus_one)) return DTYPE_F32;
    }
    return out->dtype;
}

DType outgoing_tensor_type(Outgoing *out, const OutgoingType *type, const TensorPlan *tensor,
                           const OutgoingSource *source) {
    RoleView first = role_view(out->from, source->row->roles[0], source->layer);
    return first.vector ? vector_type(out, source) : matrix_type(out, type, tensor, source);
}
