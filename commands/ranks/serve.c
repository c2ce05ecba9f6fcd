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
#include <time.h>

static bool may_have_ranks(const Command *command) {
    return (command->bit & (FOR_GENERATE | FOR_PERPLEXITY | FOR_BENCH)) != 0;
}

static bool has_ranks(const Command *command, const Options *o) {
    // Processes share the lines of a file of prompts, unless their layers are shared by name.
    if (o->prompts && !o->layers_per_rank.count) return false;
    return may_have_ranks(command) && (command->bit == FOR_BENCH || o->mode == MODE_GENERATE);
}

static bool has_work_of_its_own; // this process does, so that its errors are its own too

void ranks_expect(const Command *command) {
    has_work_of_its_own = !may_have_ranks(command);
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
    has_work_of_its_own = !has_ranks(command, o);
    if (!has_work_of_its_own && !ranks_begin(list->values, list->count, error)) return false;
    sandbox_begin(o, command->bit);
    if (transport_rank()) return serve(o, error);
    return command->run(o, error);
}

bool ranks_started(void) {
    return transport_has_others();
}

// Nearly always rank 0 has the same command line, prints the line and ends, and mpirun then ends
// this process. If it still runs after three seconds, its own command line alone is wrong, and the
// others are waiting for it. (Under a launcher that ends nobody every rank prints the line.)
static bool outlives_rank_0(void) {
    struct timespec left = {.tv_sec = 3}; // machines start their processes at different times
    return transport_count() == 1 && !nanosleep(&left, NULL);
}

// Before ranks_begin the number is not known but by the environment of Open MPI and PMI.
bool ranks_tell(const Error *error) {
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    if (!rank) rank = getenv("PMI_RANK");
    return has_work_of_its_own || error->code != ERROR_USAGE || !transport_has_others() || !rank ||
           rank[0] == '0' || outlives_rank_0();
}

void ranks_end(const Error *error) {
    ranks_finish();
    transport_end((int)error->code);
}
