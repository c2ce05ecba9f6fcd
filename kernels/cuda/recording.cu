// Between device_begin and device_end operations are recorded and run at the end. So neighbours can
// be fused into one kernel (fused.cu), and a decode step, which is the same list every time, is one
// launch: a CUDA graph, kept for each list and each power of two of positions. Tokens and positions
// are in GPU memory, so a replay needs no new arguments.
#include "kernels/cuda/device.h"

#include <stdlib.h>
#include <string.h>

// Passes with more rows take so long that launching one kernel at a time costs little.
enum { GRAPH_ROWS = 32, MAX_GRAPHS = 16 };

// A list of operations as it was captured, and the executable graph made from it.
struct Graph {
    Operation *operations; // owned
    size_t count;
    // What the capture was made for: the grids of attention are sized by it, all other grids by the
    // operations themselves.
    int positions;
    cudaGraphExec_t instance;
    uint64_t last_used;
};

struct Recording {
    bool active;
    PassShape shape;
    bool interrupted;      // synchronised before its end: the rest is not captured
    Operation *operations; // (room)
    size_t count, room;
    Graph graphs[MAX_GRAPHS];
    int n_graphs;
    uint64_t passes;
};

typedef void Run(Device *device, const Operation *operation);
static Run *const OPERATIONS[OPERATION_COUNT] = {
    run_embed,     run_norm,     run_project, run_rope,  run_kv_write,
    run_attention, run_activate, run_add,     run_scale, run_softcap,
};

Recording *recording_open(Device *device) {
    return (Recording *)host_alloc(device, sizeof(Recording));
}

static void graph_free(Graph *graph) {
    free(graph->operations);
    if (graph->instance) cudaGraphExecDestroy(graph->instance);
    *graph = Graph{};
}

void recording_forget(Recording *recording) {
    for (int i = 0; i < recording->n_graphs; i++)
        graph_free(&recording->graphs[i]);
    recording->n_graphs = 0;
}

// The struct itself belongs to the device's list.
// operations come from realloc and are not on that list.
void recording_close(Recording *recording) {
    if (!recording) return;
    recording_forget(recording);
    free(recording->operations);
    recording->operations = NULL;
}

Operation operation_of(OperationKind kind) {
    Operation operation;
    memset((void *)&operation, 0, sizeof operation);
    operation.kind = kind;
    return operation;
}

// A fused pattern takes several operations, any other takes one.
static void run_all(Device *device, const Operation *operations, size_t count) {
    for (size_t i = 0, taken; i < count && device_ok(device); i += taken) {
        taken = device->switches.nofuse ? 0 : run_fused(device, operations + i, count - i);
        if (taken) continue;
        OPERATIONS[operations[i].kind](device, operations + i);
        taken = 1;
    }
}

static bool make_room(Device *device, Recording *r) {
    if (r->count < r->room) return true;
    // A pass has about fifteen operations for each layer, so the array seldom grows.
    size_t room = r->room ? 2 * r->room : 1024;
    Operation *larger = (Operation *)realloc((void *)r->operations, room * sizeof *larger);
    if (!larger) {
        device_fail(device, ERROR_MEMORY, "no memory to record %zu operations", room);
        return false;
    }
    r->operations = larger;
    r->room = room;
    return true;
}

void perform(Device *device, const Operation *operation) {
    if (!device_ok(device)) return;
    Recording *r = device->recording;
    // What is recorded is a copy of the arguments: the caller may reuse its structs at once.
    if (!r->active)
        run_all(device, operation, 1);
    else if (make_room(device, r))
        memcpy((void *)&r->operations[r->count++], operation, sizeof *operation);
}

// The next power of two, so that a graph serves many steps; at least 256.
static int rounded_positions(int positions) {
    int rounded = 256;
    while (rounded < positions)
        rounded *= 2;
    return rounded;
}

int pass_positions(const Device *device, int max_seq_len) {
    const Recording *r = device->recording;
    if (!r->active) return max_seq_len;
    int positions = rounded_positions(r->shape.max_position + 1);
    return positions < max_seq_len ? positions : max_seq_len;
}

void device_begin(Device *device, const PassShape *shape) {
    if (!device_ok(device)) return;
    Recording *r = device->recording;
    r->active = true;
    r->interrupted = false;
    r->shape = *shape;
    r->count = 0;
}

// Runs what is recorded so far, and keeps recording.
// For what cannot wait for the end of the pass: a download, a copy of the cache, a sample. The
// operations keep their order in the stream.
void device_sync(Device *device) {
    if (!device_ok(device)) return;
    Recording *r = device->recording;
    if (!r->active || !r->count) return;
    run_all(device, r->operations, r->count);
    r->count = 0;
    r->interrupted = true;
}

// memcmp of all arguments: a list is the same if every pointer and every number is.
static Graph *find_graph(Recording *r, int positions) {
    for (int i = 0; i < r->n_graphs; i++) {
        Graph *g = &r->graphs[i];
        if (g->positions == positions && g->count == r->count &&
            !memcmp((void *)g->operations, (void *)r->operations, g->count * sizeof *g->operations))
            return g;
    }
    return NULL;
}

// The slot of a new graph: a free one, or that of the least recently used graph.
static Graph *graph_slot(Recording *r) {
    if (r->n_graphs < MAX_GRAPHS) return &r->graphs[r->n_graphs++];
    Graph *oldest = r->graphs;
    for (int i = 1; i < MAX_GRAPHS; i++)
        if (r->graphs[i].last_used < oldest->last_used) oldest = &r->graphs[i];
    graph_free(oldest);
    return oldest;
}

// Captures the recorded operations and keeps the graph; NULL after a failure.
static Graph *capture_graph(Device *device, Recording *r, int positions) {
    cudaGraph_t captured = NULL;
    if (!CUDA_CHECK(device,
                    cudaStreamBeginCapture(device->stream, cudaStreamCaptureModeThreadLocal)))
        return NULL;
    run_all(device, r->operations, r->count);
    // The capture is ended also after a failure: until then the stream would take no other work.
    bool ended = CUDA_CHECK(device, cudaStreamEndCapture(device->stream, &captured));
    Graph *g = ended && device_ok(device) ? graph_slot(r) : NULL;
    if (g) {
        // A copy of the list, to compare later passes with.
        size_t bytes = r->count * sizeof *g->operations;
        g->operations = (Operation *)malloc(bytes);
        if (!g->operations)
            device_fail(device, ERROR_MEMORY, "no memory for a recording of %zu bytes", bytes);
        else if (CUDA_CHECK(device, cudaGraphInstantiate(&g->instance, captured, 0))) {
            memcpy((void *)g->operations, (void *)r->operations, bytes);
            g->count = r->count;
            g->positions = positions;
        }
    }
    if (captured) cudaGraphDestroy(captured);
    return device_ok(device) ? g : NULL;
}

void device_end(Device *device) {
    Recording *r = device->recording;
    if (!r) return;
    if (device_ok(device) && r->count) {
        int positions = rounded_positions(r->shape.max_position + 1);
        Graph *g = NULL;
        if (r->shape.n > GRAPH_ROWS || r->interrupted || device->switches.nograph) {
            clock_begin(device);
            run_all(device, r->operations, r->count);
        } else {
            g = find_graph(r, positions);
            if (!g) g = capture_graph(device, r, positions);
            clock_begin(device);
            if (g && CUDA_CHECK(device, cudaGraphLaunch(g->instance, device->stream)))
                g->last_used = ++r->passes;
        }
        clock_end(device);
    }
    r->active = false;
    r->count = 0;
}
