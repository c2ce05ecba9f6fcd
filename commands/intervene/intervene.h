// Interventions: changes to stages on their way through the model, as --ablate, --patch and --steer
// ask for them.
//
//     Interventions *changes = NULL;
//     good = interventions_open(&changes, options, checkpoint, &error) && ... open the model ... &&
//            interventions_attach(changes, model, prompt, n_prompt, &error);
//     interventions_close(changes);     // after the model's last pass
//
//   --ablate L3.H5,L4.H*,L2.ffn      a head, all heads of a layer, a branch: to zero, or with
//                                    --ablate-to mean to its mean over the prompt's positions
//   --patch NAME[2:5,17]=VALUE       elements of a stage, indexed as in NumPy, to a number
//   --patch NAME[4]=FILE             its rows to those of the same name in a trace of another run
//   --steer FILE:0.5@L4-L8           adds half of a vector to what leaves the layers 4 to 8
//
// All of them become Change: in the order steer, patch, ablate, so that what is ablated is gone.
// Heads are ablated where their output meets wo (att_heads), as is usual: Michel et al. 2019,
// arxiv.org/abs/1905.10650. Patching: Meng et al. 2022, arxiv.org/abs/2202.05262. Steering adds to
// the residual stream: Turner et al. 2023, arxiv.org/abs/2308.10248.
#pragma once

#include "base/buffer.h"
#include "base/file_set.h"
#include "commands/shared/options.h"
#include "commands/shared/stage_names.h"
#include "model/model.h"
#include "weights/hf/safetensors.h"

typedef enum ChangeKind {
    CHANGE_TO_VALUE,
    CHANGE_TO_ROWS, // row p of `rows` for position p
    CHANGE_TO_MEAN, // of the prompt's positions: `rows` has one row, filled by attach
    CHANGE_ADDS,    // `rows` has one row, times `value`
} ChangeKind;

// A half-open range of an index; `end` is INT_MAX for "to the end". Negative numbers count from the
// end, until interventions_attach has resolved them.
typedef struct Range {
    int begin, end;
} Range;

typedef struct Change {
    StagePlace place;
    ChangeKind kind;
    int sequence;    // -1: of every sequence
    Range positions; // from the end: of the prompt
    Range index[2];  // of a row: (heads, head_dim), or (1, width) for stages without heads
    int n_index;     // how many of its dimensions the text names; the rest are whole
    float value;     // of CHANGE_TO_VALUE; the scale of CHANGE_ADDS
    float *rows;     // (n_rows, row_size) owned
    size_t n_rows;
    size_t row_size;  // elements of a row of the stage
    size_t width;     // of its last dimension
    const char *text; // where the user asked for it, for messages; borrowed from argv
    bool seen;        // the model computes this stage
} Change;

typedef struct Interventions {
    Change *changes; // (count) owned
    size_t count, room;
    Error failure; // of a listener, which returns no error
    const Checkpoint *checkpoint;
    size_t n_prompt;
} Interventions;

// Whether one of the three options was given.
bool interventions_asked(const Options *options);

// Parses the three options and reads their files. *out is NULL where none was given. False: exit
// code 2, 3, 4 or 5; nothing is to be closed.
bool interventions_open(Interventions **out, const Options *options, const Checkpoint *checkpoint,
                        Error *error);

// Appends a change, `change` copied (its rows change owner). False, with its rows freed: exit
// code 5.
bool interventions_add(Interventions *i, const Change *change, Error *error);

// Sets a head's output to zero in one sequence (-1: in all).
bool interventions_ablate_head(Interventions *i, int layer, int head, int sequence, Error *error);

// Checks every change against the model's own stages, by a pass of the first token; works out means
// by a pass of the prompt; then attaches the changes to the model. The cache is empty afterwards.
// NULL changes nothing. Once only. False: exit code 2 (a stage that this model does not compute, an
// index outside it), or that of a pass.
bool interventions_attach(Interventions *i, Model *model, const int32_t *prompt, size_t n_prompt,
                          Error *error);

void interventions_close(Interventions *i); // NULL is fine

// Adds the files of --patch and --steer to those that a command reads. False: exit code 4 or 5.
bool interventions_inputs(FileSet *inputs, const Options *options, Error *error);

// Whether a change is at this stage of the layer. NULL: no.
bool interventions_change(const Interventions *i, StageId id, int layer);

// Whether something else than heads and FFNs is added to the residual stream, or its norm or the
// logits are changed: then their parts of a logit do not add up to it. NULL: no.
bool interventions_break_parts(const Interventions *i);

// False: exit code 2. A lens gives earlier layers the final norm and head of the model, unchanged.
bool interventions_check_lens(const Interventions *i, Error *error);

// Appends "--ablate L3.H5 --patch logits=0", the options as they were given.
void interventions_describe(Buffer *out, const Options *options);

// ---- files, internal to commands/intervene/ ----

// Fills c->rows, n_rows and row_size with the tensor `name` (T, ..) of a trace, of any
// floating-point type. False: exit code 3 (it lacks the tensor, or has it in another shape), 4
// or 5.
bool intervention_rows(Change *c, const char *path, const char *name, Error *error);

// A safetensors file with one floating-point tensor, (dim) or (n_layers, dim): a vector for all
// layers, or one for each.
typedef struct SteeringFile {
    SafetensorsFile file;
    const SafetensorsTensor *tensor; // NULL: closed
    size_t dim;
} SteeringFile;

// False: exit code 3 (another shape, or several tensors), 4 or 5.
bool steering_open(SteeringFile *file, const char *path, const Config *config, Error *error);
float *steering_vector(const SteeringFile *file, int layer, Error *error); // (dim) owned by the
void steering_close(SteeringFile *file); // caller, or NULL: exit code 4 or 5. Zeroed is fine
