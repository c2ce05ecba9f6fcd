// Transport over MPI, point to point. Every wait is a loop that tests and sleeps, not a blocking
// call: MPI's own would keep a core busy, and would not end where a process has gone.
//
//   mpirun -> watcher -> fork -> the program: MPI_Init, layers, passes
//             '-> waits; where the program was killed: one line, exit code 6, and mpirun ends all
//
// mpirun itself would end the job with the exit code of the signal, and with -q without a word.
#include "base/transport/transport.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <mpi.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SLOTS = 32, DEFAULT_SECONDS = 300 };

// A message on its way: MPI reads `bytes` until the request is done.
typedef struct Slot {
    void *bytes;
    size_t capacity;
    MPI_Request request;
} Slot;

// MPI is one for the whole process, and so is this.
static struct {
    bool begun;
    int rank, count;
    double patience; // seconds
    Error failure;
    Slot slots[SLOTS];
    int next;            // slot: the one that was used first
    MPI_Request *posted; // (capacity) receives
    int n_posted, capacity;
} team = {.count = 1};

static volatile sig_atomic_t program, asked; // the watcher's child; whether mpirun ends the job

// ---- failures ----

void transport_fail(ErrorCode code, const char *reason) {
    error_set(&team.failure, code, "%s", reason);
}

const Error *transport_error(void) {
    return &team.failure;
}

// False after a failure, of MPI's or an earlier one.
static bool check(int result) {
    char text[MPI_MAX_ERROR_STRING] = "MPI failed";
    int length = 0;
    if (result != MPI_SUCCESS) {
        MPI_Error_string(result, text, &length);
        transport_fail(ERROR_DEVICE, text);
    }
    return !team.failure.code;
}

// ---- the watcher ----

// mpirun ends a job by SIGTERM: a rank has gone, or Ctrl-C.
static void end_program(int number) {
    asked = number;
    if (program > 0) kill((pid_t)program, SIGKILL);
}

// Does not return: the process ends as the program did.
static void watch(void) {
    int status = 0;
    while (waitpid((pid_t)program, &status, 0) < 0 && errno == EINTR)
        continue;
    if (WIFEXITED(status)) _exit(WEXITSTATUS(status));
    static const char OUTER[] = "OMPI_COMM_WORLD_RANK";
    const char *rank = getenv(OUTER);
    int number = WTERMSIG(status);
    if (!asked && number != SIGINT)
        fprintf(stderr, "%s: rank %s was killed by signal %d (%s)\n", program_invocation_short_name,
                rank ? rank : "?", number, strsignal(number));
    _exit(asked || number == SIGINT ? ERROR_INTERRUPTED : ERROR_DEVICE);
}

// The program dies with its watcher.
static bool divide(Error *error) {
    pid_t watcher = getpid();
    signal(SIGTERM, end_program);
    pid_t child = fork();
    if (child < 0) return error_set(error, ERROR_DEVICE, "fork: %s", strerror(errno));
    program = child;
    if (child) watch();
    signal(SIGTERM, SIG_DFL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    return getppid() == watcher || error_set(error, ERROR_DEVICE, "the watcher has gone");
}

// ---- begin and end ----

static bool read_patience(Error *error) {
    const char *text = getenv("LIMPID_RANK_SECONDS");
    char *end = NULL;
    team.patience = text ? strtod(text, &end) : DEFAULT_SECONDS;
    if (team.patience > 0 && isfinite(team.patience) && !(text && *end)) return true;
    return error_set(error, ERROR_USAGE, "LIMPID_RANK_SECONDS=%s: seconds are expected, as 300",
                     text);
}

// By the variables of Open MPI, PMIx and MPICH: MPI_Init of a process that nobody started with
// others would start a daemon.
bool transport_has_others(void) {
    return getenv("OMPI_COMM_WORLD_SIZE") || getenv("PMIX_RANK") || getenv("PMI_RANK");
}

void transport_end(int exit_code) {
    if (!team.begun) return;
    if (team.failure.code) MPI_Abort(MPI_COMM_WORLD, exit_code ? exit_code : ERROR_DEVICE);
    MPI_Finalize();
    for (int i = 0; i < SLOTS; i++)
        free(team.slots[i].bytes);
    free(team.posted);
    memset(team.slots, 0, sizeof team.slots);
    team.posted = NULL;
    team.begun = false;
    team.count = 1;
}

bool transport_begin(Error *error) {
    int provided = 0;
    if (team.begun || !transport_has_others()) return true;
    if (!read_patience(error) || !divide(error)) return false;
    // Open MPI would read the memory of the other ranks of a machine, and complain where one has
    // gone or may not be read. A message is copied through shared memory instead.
    setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", 0);
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS)
        return error_set(error, ERROR_DEVICE, "MPI_Init failed");
    team.begun = true;
    for (int i = 0; i < SLOTS; i++)
        team.slots[i].request = MPI_REQUEST_NULL;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (!check(MPI_Comm_rank(MPI_COMM_WORLD, &team.rank)) ||
        !check(MPI_Comm_size(MPI_COMM_WORLD, &team.count)))
        return error_copy(error, &team.failure);
    // Of ranks that wait for one another the one beside the missing rank is to tell it.
    if (!team.rank) team.patience *= 1.5;
    if (team.count == 1) transport_end(0);
    return true;
}

int transport_rank(void) {
    return team.rank;
}

int transport_count(void) {
    return team.count;
}

// ---- waiting ----

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// What the wait for one message has been so far.
typedef struct Waiting {
    double since;
    int turns;
} Waiting;

// First the core is offered to others, which the rank waited for may need; then naps of up to a
// millisecond, after a second without news: an answer that comes is late by a small part of the
// wait. False: too long.
static bool nap(Waiting *w, bool patient) {
    enum { YIELDS = 2000 };
    if (!w->turns++) w->since = now();
    if (w->turns < YIELDS) return !sched_yield() || true;
    double waited = now() - w->since, seconds = waited / 1000 < 1e-3 ? waited / 1000 : 1e-3;
    struct timespec t = {.tv_nsec = (long)(seconds * 1e9)};
    nanosleep(&t, NULL);
    return patient || waited < team.patience;
}

// `from`: for the message.
static bool finish(MPI_Request *request, int from, bool patient) {
    Waiting waiting = {0};
    for (int done = 0; !team.failure.code;) {
        if (!check(MPI_Test(request, &done, MPI_STATUS_IGNORE))) return false;
        if (done) return true;
        if (nap(&waiting, patient)) continue;
        char text[80];
        snprintf(text, sizeof text, "rank %d has not answered rank %d for %.0f s", from, team.rank,
                 team.patience);
        transport_fail(ERROR_DEVICE, text);
    }
    return false;
}

// ---- messages ----

static bool reserve(Slot *slot, size_t count) {
    if (count <= slot->capacity) return true;
    free(slot->bytes);
    slot->bytes = malloc(count);
    slot->capacity = slot->bytes ? count : 0;
    if (!slot->bytes) transport_fail(ERROR_MEMORY, "no memory for a message to another rank");
    return slot->bytes;
}

// All messages have a size that fits MPI's int: a chunk has so few rows (ranks.c).
void transport_send(int to, TransportTag tag, const void *bytes, size_t count) {
    Slot *slot = &team.slots[team.next];
    assert(count <= INT_MAX);
    if (team.failure.code || !finish(&slot->request, to, false) || !reserve(slot, count)) return;
    memcpy(slot->bytes, bytes, count);
    check(
        MPI_Isend(slot->bytes, (int)count, MPI_BYTE, to, (int)tag, MPI_COMM_WORLD, &slot->request));
    team.next = (team.next + 1) % SLOTS;
}

// Testing a request is a call of MPI, which moves all messages on.
void transport_progress(void) {
    for (int i = 0, done = 0; i < SLOTS && !team.failure.code; i++) {
        MPI_Request *request = &team.slots[i].request;
        if (*request != MPI_REQUEST_NULL) check(MPI_Test(request, &done, MPI_STATUS_IGNORE));
    }
}

bool transport_receive(int from, TransportTag tag, void *out, size_t count, bool patient) {
    MPI_Request request = MPI_REQUEST_NULL;
    assert(count <= INT_MAX);
    return !team.failure.code &&
           check(MPI_Irecv(out, (int)count, MPI_BYTE, from, (int)tag, MPI_COMM_WORLD, &request)) &&
           finish(&request, from, patient);
}

static bool room_to_post(void) {
    if (team.n_posted < team.capacity) return true;
    int capacity = team.capacity ? 2 * team.capacity : SLOTS;
    MPI_Request *grown = realloc(team.posted, (size_t)capacity * sizeof *grown);
    if (!grown) {
        transport_fail(ERROR_MEMORY, "no memory for the messages of other ranks");
        return false;
    }
    team.posted = grown;
    team.capacity = capacity;
    return true;
}

void transport_post(int from, TransportTag tag, void *out, size_t count) {
    assert(count <= INT_MAX);
    if (team.failure.code || !room_to_post()) return;
    if (check(MPI_Irecv(out, (int)count, MPI_BYTE, from, (int)tag, MPI_COMM_WORLD,
                        &team.posted[team.n_posted])))
        team.n_posted++;
}

bool transport_wait(void) {
    for (int i = 0; i < team.n_posted; i++)
        finish(&team.posted[i], team.count - 1, false);
    team.n_posted = 0;
    return !team.failure.code;
}
