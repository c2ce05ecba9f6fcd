// A chain of steps that one launch of a persistent kernel does: what one row of x goes through
// between its embedding and its logits. Each block of the launch has a processor to itself and
// keeps it for the whole chain; between two steps is a grid barrier (persistent.cu). So weights
// need not wait for the end of a kernel: every warp asks for its next ones as long as there is room
// in its ring (ring.h), far beyond the step at hand, and they arrive while blocks wait for each
// other and while x is made ready.
//
//   step     q k v | attention | o | gate up | down | q k v | ..
//   weights  ==============================================>  as memory delivers them
//
// persistent.cu has the kernel, chain.cu what becomes a chain.
#pragma once

#include "kernels/cuda/attention_splits.h"
#include "kernels/cuda/project/pack.h"
#include "kernels/cuda/project/project.h"

// Weights travel in pieces of rows: so many columns, and their bytes in each plane.
struct PieceSize {
    unsigned columns, bytes[N_PLANES];
};

struct ProjectStep {
    ProjectWork work;
    PieceSize pieces[MAX_PROJECTIONS];
    const float *norm_weight; // as in `work`, where a block copies it to shared memory
};

enum { NORM_COLUMNS = 4096 }; // of a norm's weights in shared memory

enum StepKind { STEP_PROJECT, STEP_ATTENTION };

struct alignas(16) Step {
    StepKind kind;
    union {
        ProjectStep project;
        AttentionWork attention;
    };
};

struct Chain {
    const Step *steps; // on the GPU
    int count;
    unsigned ring_bytes;  // of each warp
    unsigned piece_bytes; // of a piece at most, as it is copied
    unsigned *arrived;    // at the grid barriers; 0 between launches
};

// All steps of a chain meet x in one form. false: there is no kernel for that one.
bool has_persistent_kernel(InputForm form);
void launch_chain(Device *device, InputForm form, const Chain &chain);

// Bytes of shared memory that the kernel takes besides the rings.
size_t persistent_bytes(InputForm form);
