// Transport: messages between the processes of a model whose layers are on several (model/ranks.h).
// mpi.c sends them with MPI, in a program of `make MPI=1`; without_mpi.c has one process
// and no messages. Ranks know nothing of MPI, and the transport nothing of models.
//
//     if (!transport_begin(&error)) ...                    first of all: processes are made here
//     transport_send(1, TAG_STREAM, x, bytes);             returns at once
//     if (!transport_receive(0, TAG_STREAM, x, bytes)) ... waits
//     transport_end(exit_code);
//
// The first failure stays, as a device's does: from then on nothing is sent, and whoever waits
// returns false. All calls come from one thread.
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

// Messages of one tag and sender come in the order in which they were sent.
typedef enum TransportTag {
    TAG_ORDER,  // what to do next: of the first rank
    TAG_ROWS,   // positions and sequences of a chunk: of the first rank
    TAG_STREAM, // the residual stream: of the rank before
    TAG_LOGITS, // of the last rank
    TAG_ANSWER, // how an order ended: to the first rank
} TransportTag;

// Joins the other processes where one has started several (mpirun), else does nothing. The process
// is divided: its first half waits and reports how the second one ended, which returns. False: exit
// code 6.
bool transport_begin(Error *error);

// Whether transport_begin has others to look for; before it too.
bool transport_has_others(void);

int transport_rank(void);  // of this process, from 0
int transport_count(void); // of processes: 1 before transport_begin, and where it found no others

// Copies the message and returns; where 32 are on their way it waits for the oldest. A failure is
// in transport_error.
void transport_send(int to, TransportTag tag, const void *bytes, size_t count);

// Lets messages on their way go on, and does not wait. MPI copies a large one in parts, and only
// while it is called: who computes for long between two sends calls this in between, else the
// receiver waits until the computing is over.
void transport_progress(void);

// Waits for a message of this size. `patient`: as long as it takes, else LIMPID_RANK_SECONDS, or
// 300. False: a failure, exit code 6.
bool transport_receive(int from, TransportTag tag, void *out, size_t count, bool patient);

// The same, without waiting: `out` is filled after transport_wait, which waits for all of these.
void transport_post(int from, TransportTag tag, void *out, size_t count);
bool transport_wait(void);

const Error *transport_error(void);                      // borrowed; code ERROR_NONE: all is well
void transport_fail(ErrorCode code, const char *reason); // keeps the first

// The last call. exit_code: that of this process; after a failure all others are ended.
void transport_end(int exit_code);
