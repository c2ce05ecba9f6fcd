// Outgoing: a model's tensors in the names, order and types of another container, by the same
// family tables that the readers use.
//
//     Outgoing out = {0};
//     good = outgoing_plan(&out, checkpoint, NAMES_GGUF, &(OutgoingType){.given = true,
//                          .dtype = DTYPE_Q8_0}, &error);
//     good = good && outgoing_scratch(&scratch, &out, &error);
//     ... outgoing_rows(&out, &scratch, i, first, count, bytes, &error) ...
//     outgoing_free(&out);
//
// What is written is what `model/` computes with: where a tensor keeps its type its blocks are
// copied, so the file that comes out gives the same logits, bit for bit.
#pragma once

#include "base/arena.h"
#include "base/buffer.h"
#include "weights/checkpoint.h"
#include "weights/roles.h"

// Tensors by name (name_matches, base/text.h).
typedef struct OutgoingChoice {
    const char *pattern; // borrowed
    DType dtype;
    size_t used; // by how many tensors; set by outgoing_plan
} OutgoingChoice;

// The mean square of each input channel of the matrices, over some text: weights of the error that
// searched scales are to make small. NULL: 1.
typedef struct LayerImportance {
    float *att_in, *att_heads;  // (dim) of wq, wk, wv; (q_dim) of wo
    float *ffn_in, *ffn_hidden; // (dim) of w_gate, w_up; (hidden_dim) of w_down
} LayerImportance;

typedef struct OutgoingImportance {
    LayerImportance *layers; // (n_layers)
    float *head;             // (dim); of the embedding too, where that is the head
} OutgoingImportance;

typedef struct OutgoingType {
    bool given;  // false: a matrix keeps its type where the container supports it
    DType dtype; // of the matrices (safetensors: F32, F16 or BF16)
    // Of the embedding and the head. false: `dtype`, but at least Q8_0 or what they are now.
    bool head_given;
    DType head;
    bool mixed;              // some matrices in more than `dtype`, which is Q4_K or Q5_K (types.c)
    OutgoingChoice *choices; // (n_choices) before all that; of those that match, the last
    size_t n_choices;
    const OutgoingImportance *importance; // borrowed until outgoing_free; NULL: none
    // NULL, or what ends outgoing_rows while it is not 0; a signal handler may set it.
    const int *stop;
} OutgoingType;

// Where a tensor comes from: the roles of a row of the table, or a list of numbers.
typedef struct OutgoingSource {
    const TensorName *row; // NULL: `values`
    const float *values;   // (shape[0])
    int layer;
} OutgoingSource;

typedef struct Outgoing {
    Arena arena;
    const Checkpoint *from;  // borrowed
    const Family *family;    // that the container knows the model as
    Naming naming;           // of the container
    TensorPlan *tensors;     // (n) name, dtype, n_dims, shape, bytes, as they will be written
    OutgoingSource *sources; // (n)
    size_t n;
    DType dtype;    // of the embedding, where it may keep it, or what was asked for
    size_t n_exact; // matrices of a type that the container does not have, written as F32
    // Matrices whose rows are no whole blocks, by the type that they get, and the first of them.
    size_t n_other[DTYPE_COUNT];
    const char *first_other[DTYPE_COUNT];
    size_t n_again; // quantised matrices that are quantised again, to another type
    DType again;    // the type that the first of them has now
    const OutgoingImportance *importance; // or NULL
    const int *stop;                      // or NULL
} Outgoing;

// What outgoing_rows needs besides the plan; each thread has its own. Lives until outgoing_free.
typedef struct OutgoingScratch {
    float *values, *weights, *back; // (widest row)
} OutgoingScratch;

// False: exit code 3 where the model has something that the container's form of its family cannot
// hold, named; 2 where the type is not one of the container's; 5.
bool outgoing_plan(Outgoing *out, const Checkpoint *from, Naming naming, const OutgoingType *type,
                   Error *error);
void outgoing_free(Outgoing *out);

// Stored rows of tensor `i`: shape[0] of them, or 1 of a vector, each `outgoing_row_bytes` long.
uint64_t outgoing_row_count(const Outgoing *out, size_t i);
size_t outgoing_row_bytes(const Outgoing *out, size_t i);

// Whether several threads are faster: rows are quantised, not copied. A transposed tensor's rows
// are not shared, since each call reads every row of its matrices.
bool outgoing_is_slow(const Outgoing *out, size_t i);

bool outgoing_scratch(OutgoingScratch *scratch, Outgoing *out, Error *error); // false: exit code 5

// bytes = rows first .. first + count. Several threads may do this at once, each with its scratch.
// False: exit code 7 where a number is not finite or too large for its type, 130 where *stop was
// set.
bool outgoing_rows(const Outgoing *out, OutgoingScratch *scratch, size_t i, uint64_t first,
                   uint64_t count, void *bytes, Error *error);

// ---- types of the tensors (types.c) ----

bool outgoing_holds(Naming naming, DType dtype); // whether the container has the type
// False: exit code 2, the container does not have it.
bool outgoing_check_type(Naming naming, const OutgoingType *type, Error *error);
// The type that most matrices will have: of the embedding, or the one that was asked for.
DType outgoing_common_type(const Outgoing *out, const OutgoingType *type);
// Of one tensor, whose name and shape are known; counts it in n_exact, n_other and n_again.
DType outgoing_tensor_type(Outgoing *out, const OutgoingType *type, const TensorPlan *tensor,
                           const OutgoingSource *source);

// Whether the container stores this matrix transposed (GPT-2 in safetensors).
bool outgoing_is_transposed(const Outgoing *out, const RoleView *view);

// ---- config.json and generation_config.json (hf.c) ----

// Appends the text of a config.json that makes this model again, in the spelling that transformers
// 4 and 5 both read. False: exit code 3 where the family's class has no key for what the model
// does, named.
bool hf_config_write(Buffer *json, const Outgoing *out, Error *error);

// The same for generation_config.json: sampling defaults and the ids that end a text.
void hf_generation_write(Buffer *json, const Checkpoint *from);
