// Ranks: a model whose layers are in several processes, for one that a single machine cannot hold.
//
//   rank 0: embedding, layers 0 .. a-1  --x-->  rank 1: layers a .. b-1  --x-->  rank 2: .. head
//     ^   '------- order, positions -----------------'----------------------------'       |
//     '-------------------------- logits -------------------------------------------------'
//
// Rank 0 drives: it has the prompt, samples, and calls model_forward as if all layers were its own.
// The others serve: they wait for orders of rank 0. For each row of a chunk dim floats go from rank
// to rank, bit by bit, so that the logits are those of one process. Rank 0 does not wait for the
// logits of a chunk before the next chunk of the same batch: while rank 1 is at the first, rank 0
// is at the second.
//
//     ranks_begin(NULL, 0, &error);
//     if (transport_rank()) good = ranks_serve(config, weights, NULL, &error);
//     else ... model_open, model_forward, model_close ...; ranks_finish();
//     transport_end(error.code);
#pragma once

#include "base/transport/transport.h"
#include "model/model.h"

enum {
    RANKS_MOST = 64, // processes
    RANK_ROWS = 32,  // of a chunk, by default: small chunks keep more ranks at work
};

// ---- which layers are whose ----

// ranges[n]: by `per_rank` (n layers each), or NULL: by the bytes that a token reads, to the
// nearest layer. The last rank has its share with the head, and the others share the rest. The
// embedding is not counted, since a token reads one row of it. False, more ranks than layers or
// another sum: exit code 2.
bool ranks_split(LayerRange *ranges, int n, const int *per_rank, const Config *config,
                 const Weights *weights, Error *error);

// Bytes of matrices that one more token reads in these layers, and in the head behind the last.
double ranks_token_bytes(LayerRange range, const Config *config, const Weights *weights);

// Rows of a chunk where the options do not say it.
int ranks_rows(const ModelOptions *options);

// ---- this process ----

// Joins the others. per_rank[n]: for ranks_split; n 0: none. False: exit code 2 or 6.
bool ranks_begin(const int *per_rank, int n, Error *error);
LayerRange ranks_layers(int rank); // of a model that is open

// Rank 0: no more orders will come. Nothing in a process that is alone.
void ranks_finish(void);

// The other ranks: opens the part of the model that rank 0 asks for, and runs passes, until
// ranks_finish. `trouble`: why there is no model here, for rank 0 to know; else NULL. False: exit
// code 6, after which all ranks are to end.
bool ranks_serve(const Config *config, const Weights *weights, const Error *trouble, Error *error);

const Error *ranks_error(void); // a rank did not answer: exit code 6; borrowed

// ---- the parts of a pass that cross processes: model/ alone calls these ----

// model_open of every rank. Before: `options` gets the layers of this rank; rank 0 gives the order.
// After: rank 0 hears how the others fared; returns m, or NULL where any failed: exit code 2 or 6.
bool ranks_open(ModelOptions *options, const Config *config, const Weights *weights, Error *error);
Model *ranks_opened(Model *m, Error *error);
void ranks_close(void);

// Around the layers of a chunk: rank 0 tells the others of its rows; the others get the residual
// stream. Then it goes on to the next rank, and from the last one the logits to rank 0.
void ranks_receive(Model *m);
void ranks_send(Model *m);

// Rank 0: waits for the logits of all chunks, and uploads them as if they came from its own head;
// NaN where they did not come.
void ranks_collect(Model *m);

// kv_cache_copy on the other ranks.
void ranks_copy(int to, int from, int count);
