// What a rank does with the command line. Which commands have ranks: those that call for whole
// passes alone. Others look at stages, of which each process has some.
//
//   words -> Options -> the other processes, where there are any -> sandbox -> rank 0: the command
//                                                                 others: ranks_serve
//         -> the error line -> the end of all
#include "commands/commands.h"
#include "commands/shared/inputs.h"
#include "commands/shared/output.h"
#include "model/ranks.h"
#include "weights/checkpoint.h"

#include <stdlib.h>

static bool has_ranks(const Command *command, const Options *o) {
    // Processes share the lines of a file of prompts, unless their layers are shared by name.
    if (o->prompts && !o->layers_per_rank.count) return false;
    return (command->bit & (FOR_GENERATE | FOR_PERPLEXITY)) != 0 ? o->mode == MODE_GENERATE
                                                                 : command->bit == FOR_BENCH;
}

// A model that is not here is told when rank 0 asks for it: it may have none either.
static bool serve(const Options *o, Error *error) {
    Checkpoint *checkpoint = NULL;
    Error trouble = {0};
    bool good = checkpoint_open(&checkpoint, o->model, &trouble);
    good = ranks_serve(good ? checkpoint_config(checkpoint) : NULL,
                       good ? checkpoint_weights(checkpoint) : NULL, good ? NULL : &trouble, error);
    checkpoint_close(checkpoint);
    return good;
}

// -v: which layers are whose comes with the model (session.c).
bool ranks_run(const Command *command, const Options *o, Error *error) {
    const IntegerList *list = &o->layers_per_rank;
    if (has_ranks(command, o) && !ranks_begin(list->values, list->count, error)) return false;
    sandbox_begin(o, command->bit);
    if (transport_rank()) return serve(o, error);
    return command->run(o, error);
}

bool ranks_started(void) {
    return transport_has_others();
}

// Before ranks_begin the number is not known but by the environment of Open MPI and PMI.
bool ranks_tell(const Error *error) {
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    if (!rank) rank = getenv("PMI_RANK");
    return error->code != ERROR_USAGE || !transport_has_others() || !rank || rank[0] == '0';
}

void ranks_end(const Error *error) {
    ranks_finish();
    transport_end((int)error->code);
}
