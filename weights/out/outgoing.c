// The plan goes through the same tables as roles.c and undoes what that file does: rows back to
// Meta's order, 1 taken off Gemma's norms, parts stacked, GPT-2's matrices transposed.
//
//     outgoing_plan    family of the container -> for every row of its lists: wanted? -> add
//     wanted           a REQUIRED or OPTIONAL row whose roles the model has
//     add              name, shape (roles stacked by rows), type -> out->tensors, out->sources
//     all_done         every role of the model is in some tensor
//
// Types are chosen in types.c. Nothing is converted here: encode_rows.c makes the rows when they
// are written, one tensor at a time.
#include "weights/out/outgoing.h"

#include "base/bytes.h"
#include "weights/container.h"
#include "weights/quant.h"
#include "weights/roles.h"

#include <string.h>

// ---- the plan ----

typedef struct Planning {
    Outgoing *out;
    const OutgoingType *type;
    const char *prefix;
    bool head;  // the head is written, though it is the embedding
    bool *done; // (ROLE_COUNT) in this layer
    Error *error;
} Planning;

// `done` marks the roles of the row, so that a fused tensor and its parts are not both written.
static bool add(const Planning *p, const TensorName *row, int layer) {
    Outgoing *out = p->out;
    TensorNameText name;
    tensor_name_text(name, row->pattern, p->prefix, layer);
    TensorPlan *tensor = &out->tensors[out->n];
    out->sources[out->n++] = (OutgoingSource){.row = row, .layer = layer};
    tensor->name = arena_text(&out->arena, name, strlen(name), p->error);
    if (!tensor->name) return false;
    RoleView first = role_view(out->from, row->roles[0], layer);
    tensor->n_dims = first.vector ? 1 : 2;
    tensor->shape[1] = first.vector ? 0 : first.cols;
    for (int i = 0; i < 3 && row->roles[i]; i++) {
        RoleView view = role_view(out->from, row->roles[i], layer);
        tensor->shape[0] += view.rows;
        p->done[row->roles[i]] = true;
    }
    if (outgoing_is_transposed(out, &first)) {
        uint64_t rows = tensor->shape[0];
        tensor->shape[0] = tensor->shape[1];
        tensor->shape[1] = rows;
    }
    tensor->dtype = outgoing_tensor_type(out, p->type, tensor, &out->sources[out->n - 1]);
    return plan_measure(tensor, p->error);
}

static bool is_filled(const Outgoing *out, Role role, int layer) {
    RoleView view = role_view(out->from, role, layer);
    return view.vector || view.matrix;
}

// Whether the row is written: something of it is there, nothing of it was written before.
//
// False only with an error: a REQUIRED row whose roles the model does not have, or a fused row of
// which it has some. ALTERNATIVE rows are never written, so attn_q, not attn_qkv.
static bool wanted(const Planning *p, const TensorName *row, int layer, bool *wants) {
    const Outgoing *out = p->out;
    *wants = false;
    if ((row->need != REQUIRED && row->need != OPTIONAL) || p->done[row->roles[0]]) return true;
    if (row->roles[0] == ROLE_HEAD && !p->head) return p->done[ROLE_HEAD] = true;
    int there = 0, parts = 0;
    for (; parts < 3 && row->roles[parts]; parts++)
        there += is_filled(out, row->roles[parts], layer);
    *wants = there == parts;
    if (*wants || (!there && row->need == OPTIONAL)) return true;
    TensorNameText name;
    tensor_name_text(name, row->pattern, p->prefix, layer);
    return error_set(p->error, ERROR_FILE,
                     "the model has no \"%s\", which %s models of this "
                     "container must have",
                     name, out->from->config.family);
}

// Roles that need no tensor: norms without a weight, and divisors, which add_frequencies writes.
static bool is_implied(const Family *family, Role role) {
    for (const Role *one = family->ones; *one; one++)
        if (*one == role) return true;
    return role == ROLE_ROPE_DIVISORS; // rope_llama3_divisors
}

// Nothing of the model may be left behind.
static bool all_done(const Planning *p, int layer) {
    const Outgoing *out = p->out;
    for (Role role = 1; role < ROLE_COUNT; role++) {
        RoleView view = role_view(out->from, role, layer < 0 ? 0 : layer);
        if (view.of_layer != (layer >= 0) || !(view.vector || view.matrix) || p->done[role] ||
            is_implied(out->family, role))
            continue;
        return error_set(p->error, ERROR_FILE,
                         "the model has %s, which %s models of this container do not have",
                         view.name, out->from->config.family);
    }
    return true;
}

// Layer -1: the tensors outside the layers.
static bool run_lists(Planning *p, int layer) {
    const Outgoing *out = p->out;
    bool done[ROLE_COUNT] = {false}, wants;
    p->done = done;
    for (int i = 0; i < N_LISTS && out->family->tensors[out->naming][i]; i++) {
        for (const TensorName *row = out->family->tensors[out->naming][i]; row->pattern; row++) {
            if ((strchr(row->pattern, '#') != NULL) != (layer >= 0)) continue;
            if (!wanted(p, row, layer, &wants) || (wants && !add(p, row, layer))) return false;
        }
    }
    return all_done(p, layer);
}

static bool has_row(const Outgoing *out, const char *pattern) {
    for (int i = 0; i < N_LISTS && out->family->tensors[out->naming][i]; i++)
        for (const TensorName *row = out->family->tensors[out->naming][i]; row->pattern; row++)
            if (!strcmp(row->pattern, pattern)) return true;
    return false;
}

// Frequencies that a GGUF has as tensors and config.json as numbers.
// `values` is borrowed until the tensor is written.
static bool add_values(Outgoing *out, const char *name, const float *values, size_t count,
                       Error *error) {
    if (!has_row(out, name))
        return error_set(error, ERROR_FILE,
                         "the model has \"%s\", which %s models of this container do not have",
                         name, out->from->config.family);
    TensorPlan *tensor = &out->tensors[out->n];
    out->sources[out->n++] = (OutgoingSource){.values = values};
    *tensor = (TensorPlan){.name = name, .dtype = DTYPE_F32, .n_dims = 1, .shape = {count}};
    return plan_measure(tensor, error);
}

static bool add_frequencies(Outgoing *out, Error *error) {
    const RopeConfig *rope = &out->from->config.rope;
    size_t count = (size_t)out->from->config.rope_dim / 2;
    if (out->naming != NAMES_GGUF) return true;
    if (rope->scaling == ROPE_LONGROPE)
        return add_values(out, "rope_factors_long.weight", rope->long_factor, count, error) &&
               add_values(out, "rope_factors_short.weight", rope->short_factor, count, error);
    if (rope->scaling != ROPE_LLAMA3) return true;
    float *divisors = arena_alloc(&out->arena, count, sizeof *divisors, error);
    if (!divisors) return false;
    rope_llama3_divisors(divisors, rope, out->from->config.rope_dim);
    return add_values(out, "rope_freqs.weight", divisors, count, error);
}

// ---- the family ----

// In a GGUF a Mistral is called llama, an OLMo 3 olmo2, a Granite 4 granite; to transformers a
// llama with a window is a Mistral, an OLMo 2 with one an OLMo 3.
static const char *other_name(Naming naming, const Config *c) {
    static const struct {
        const char *windowed, *plain;
    } PAIRS[] = {{"mistral", "llama"}, {"olmo3", "olmo2"}};
    if (naming == NAMES_GGUF && !strcmp(c->family, "granitemoehybrid")) return "granite";
    bool windows = false;
    for (int l = 0; l < c->n_layers; l++)
        windows |= c->layers[l].window > 0;
    for (size_t i = 0; i < sizeof PAIRS / sizeof *PAIRS; i++) {
        if (naming == NAMES_GGUF && !strcmp(c->family, PAIRS[i].windowed)) return PAIRS[i].plain;
        if (naming == NAMES_HF && windows && !strcmp(c->family, PAIRS[i].plain))
            return PAIRS[i].windowed;
    }
    return NULL;
}

// NULL with `error` set where the container knows no such family.
static const Family *family_in(Naming naming, const Checkpoint *from, Error *error) {
    const Config *c = &from->config;
    const char *name = from->family->called[naming], *other = other_name(naming, c);
    if (other) name = other;
    if (naming == NAMES_META && !name) {
        error_set(error, ERROR_FILE, "a llama2.c file holds llama models, this one is %s",
                  c->family);
        return NULL;
    }
    return family_find(naming, name ? name : c->family, error);
}

// The longest row that any matrix has, or that a vector is.
//
// A thread converts one row at a time, so this is all the memory that it needs besides the plan.
static uint64_t widest_row(const Outgoing *out) {
    uint64_t widest = 1;
    for (size_t i = 0; i < out->n; i++)
        for (int d = 0; d < 2; d++)
            if (out->sources[i].row && d < (int)out->tensors[i].n_dims &&
                (out->tensors[i].n_dims == 1 || d == 1 || out->family->transposed[out->naming]) &&
                out->tensors[i].shape[d] > widest)
                widest = out->tensors[i].shape[d];
    return widest;
}

bool outgoing_scratch(OutgoingScratch *scratch, Outgoing *out, Error *error) {
    uint64_t widest = widest_row(out);
    float **parts[] = {&scratch->values, &scratch->weights, &scratch->back};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        *parts[i] = arena_alloc(&out->arena, widest, sizeof(float), error);
        if (!*parts[i]) return false;
    }
    return true;
}

bool outgoing_plan(Outgoing *out, const Checkpoint *from, Naming naming, const OutgoingType *type,
                   Error *error) {
    *out = (Outgoing){
        .from = from, .naming = naming, .importance = type->importance, .stop = type->stop};
    out->family = family_in(naming, from, error);
    if (!out->family || !outgoing_check_type(naming, type, error)) return false;
    out->dtype = outgoing_common_type(out, type);
    const Weights *w = &from->weights;
    const char *prefix = out->family->prefixes[naming][0];
    Planning p = {.out = out, .type = type, .prefix = prefix ? prefix : "", .error = error};
    p.head = w->head.data != w->token_embedding.data || family_needs_head(out->family, naming);
    // Every role of every layer and outside, each a tensor of its own, and longrope's two lists.
    uint64_t most = (uint64_t)(from->config.n_layers + 1) * ROLE_COUNT + 2;
    out->tensors = arena_alloc(&out->arena, most, sizeof *out->tensors, error);
    out->sources = arena_alloc(&out->arena, most, sizeof *out->sources, error);
    if (!out->tensors || !out->sources) return false;
    for (int layer = -1; layer < from->config.n_layers; layer++)
        if (!run_lists(&p, layer)) return false;
    return add_frequencies(out, error);
}

void outgoing_free(Outgoing *out) {
    arena_free(&out->arena);
    *out = (Outgoing){0};
}
