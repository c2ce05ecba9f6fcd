// Whether a large message arrives while its sender does nothing but transport_progress:
//
//     mpirun -n 2 large_message FILE
//
// Rank 0 sends 4 MB to rank 1, which makes FILE when it has them. Exit code 1: not within 20 s,
// many thousand times what the copy takes.
#include "base/transport/transport.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { BYTES = 4 << 20, MILLISECONDS = 20000 };

static int send_large(const char *file, const char *bytes) {
    const struct timespec millisecond = {.tv_nsec = 1000 * 1000};
    transport_send(1, TAG_STREAM, bytes, BYTES);
    for (int i = 0; i < MILLISECONDS; i++) {
        if (!access(file, F_OK)) return 0;
        transport_progress();
        nanosleep(&millisecond, NULL);
    }
    return fprintf(stderr, "the message has not arrived\n"), 1;
}

static int receive_large(const char *file, char *bytes) {
    if (!transport_receive(0, TAG_STREAM, bytes, BYTES, true)) return 1;
    FILE *made = fopen(file, "w");
    return !made || fclose(made);
}

int main(int argc, char **argv) {
    Error error = {0};
    char *bytes = calloc(1, BYTES);
    if (argc != 2 || !bytes || !transport_begin(&error) || transport_count() != 2) {
        fprintf(stderr, "usage: mpirun -n 2 large_message FILE\n");
        return 2;
    }
    int status = transport_rank() ? receive_large(argv[1], bytes) : send_large(argv[1], bytes);
    transport_end(status);
    free(bytes);
    return status;
}
