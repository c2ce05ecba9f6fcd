// In place of mpi.c, in a program that was made without MPI: there is one process, the
// first and the last rank at once, and so nobody to send to. Which functions are called then:
//
//   transport_begin   nothing happens, however many processes mpirun has started: each is alone
//   transport_count   1, by which ranks.c knows that all layers are here
//   the others        never: they come after a count of more than one
#include "base/transport/transport.h"

#include <assert.h>

bool transport_begin(Error *error) {
    (void)error;
    return true;
}

bool transport_has_others(void) {
    return false;
}

int transport_rank(void) {
    return 0;
}

int transport_count(void) {
    return 1;
}

void transport_send(int to, TransportTag tag, const void *bytes, size_t count) {
    (void)to, (void)tag, (void)bytes, (void)count;
    assert(false);
}

void transport_progress(void) {}

bool transport_receive(int from, TransportTag tag, void *out, size_t count, bool patient) {
    (void)from, (void)tag, (void)out, (void)count, (void)patient;
    return false;
}

void transport_post(int from, TransportTag tag, void *out, size_t count) {
    (void)from, (void)tag, (void)out, (void)count;
    assert(false);
}

bool transport_wait(void) {
    return true;
}

const Error *transport_error(void) {
    static const Error NONE = {0};
    return &NONE;
}

void transport_fail(ErrorCode code, const char *reason) {
    (void)code, (void)reason;
}

void transport_end(int exit_code) {
    (void)exit_code;
}
