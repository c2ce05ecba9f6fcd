// The parts of cost: what a model computes, reads and takes, counted from its shapes alone.
#pragma once

#include "base/arena.h"
#include "base/file_writer.h"
#include "commands/shared/drawing.h"
#include "commands/shared/options.h"
#include "model/cost.h"
#include "weights/checkpoint.h"

// ---- machine.c: what the counts are compared with ----

typedef enum MachineKind { // in the order of --machine
    MACHINE_MEASURED,      // this one, with the threads, the precision and the type at hand
    MACHINE_A100,
    MACHINE_H100,
    MACHINE_H200,
} MachineKind;

typedef struct Machine {
    const char *name;
    double read;  // bytes/s; 0: not known
    double flops; // FLOP/s of products with weights; 0: not known
    double ridge; // FLOP per byte that was given in place of both; 0: none was
} Machine;

// MACHINE_MEASURED: opens a device with these options and measures how fast it multiplies, and how
// fast it reads memory, or `weight_bytes` again and again where that is faster, since caches hold
// them. `dtype` is the type of most weights.
Machine machine_open(MachineKind kind, const ModelOptions *options, DType dtype,
                     double weight_bytes);
double machine_ridge(const Machine *machine); // FLOP per byte; 0: not known
double machine_seconds(const Machine *machine, double flops, double bytes); // the least; 0: unknown
bool memory_is_limit(const Machine *machine, double flops, double bytes);

// ---- cost.c: the subject of all reports ----

typedef struct CostRun {
    const Options *options;
    const PictureFiles *files;
    Checkpoint *checkpoint; // a model, or an outline
    bool is_outline;
    Arena arena; // of `weights`, where --type changes them
    Weights weights;
    DType dtype; // of most bytes of the weights
    Model *planned;
    const Config *config; // its
    ModelOptions model_options;
    Machine machine;
    KeyPattern pattern; // of --pattern; zeroed without it
    double seq, batch;
} CostRun;

// The work that reports are about: the last token of `seq` in every sequence of the batch, and a
// prompt of `seq` tokens in each.
Work cost_decode(const CostRun *run, double seq);
Work cost_prompt(const CostRun *run, double seq);

// The matrices in another type, as shapes; false: exit code 5.
bool cost_retype(Weights *out, Arena *arena, const Weights *from, const Config *config, DType dtype,
                 Error *error);

// ---- report.c: operations, totals, memory, and what follows in one line ----

bool cost_print(const CostRun *run, Error *error); // false: exit code 5
bool cost_print_json(const CostRun *run, Error *error);

// ---- tables.c: what the cache and shared heads save, intensities, the presets ----

void cost_print_savings(const CostRun *run);
void cost_print_intensity(const CostRun *run);
bool cost_print_presets(const Options *options, Error *error);

// ---- sweep.c: from one token to --seq, and where attention outgrows the rest ----

bool cost_print_sweep(const CostRun *run, Error *error);

// The first length at which a prompt's attention takes as many FLOPs as the matrices: those of the
// attention block alone, or all. 0: at no length (a window bounds it).
double cost_crossover(const Config *config, bool attention_block);

// ---- fit.c: what fits into --max-memory ----

// "4G", "1.5g", "512M", "1000000": bytes, K, M, G and T being powers of 1024. False: exit code 2.
bool cost_parse_size(double *bytes, const char *text, Error *error);
bool cost_print_fit(const CostRun *run, Error *error);

// ---- ranks.c: what each of several processes takes, and what their network allows ----

bool cost_print_ranks(const CostRun *run, Error *error); // false: exit code 2 or 5

// ---- measure.c: the same, counted while it runs ----

// False: exit code 1 where a count is not the prediction.
bool cost_print_measure(const CostRun *run, Error *error);
