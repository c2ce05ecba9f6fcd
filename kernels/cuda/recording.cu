// Between device_begin and device_end operations are recorded and run at the end. So neighbours can
// be fused into one kernel (fused.cu), and a decode step, which is the same list every time, is one
// launch: a CUDA graph, kept for each list and each power of two of positions. Tokens and positions
// are in GPU memory, so a replay needs no new arguments. A long prompt goes in pieces of max_rows
// rows, which are the same list too: the first is run one launch at a time, the second is captured,
// all others are replayed.
#include "kernels/cuda/device.h"

#include <stdlib.h>
#include <string.h>

// A pass of so many rows is a decode step, which will come again: it is captured at once. With more
// rows only a pass of max_rows can be expected again.
// And so many kernels are known to be loaded: more than there are.
enum { GRAPH_ROWS = 32, MAX_GRAPHS = 16, MAX_LOADED = 256 };

// A list of operations as it was captured, and the executable graph made from it.
struct Graph {
    Operation *operations; // owned
    size_t count;
    // What the capture was made for: the grids of attention by splits are sized by it, all other
    // grids by the operations themselves. 0: no operation asked (pass_positions), so the graph is
    // good for any.
    int positions;
    cudaGraphExec_t instance;
    MadeChain *chains; // that it launches; owned
    uint64_t last_used;
};

// A full piece of a prompt that was run without a graph: the next one is compared with it.
struct Piece {
    Operation *operations; // owned, (room)
    size_t count, room;
    int positions; // as a Graph's
};

struct Recording {
    bool active;
    PassShape shape;
    bool interrupted;      // synchronised before its end: the rest is not captured
    bool asked;            // pass_positions was called
    Operation *operations; // (room)
    size_t count, room;
    Graph graphs[MAX_GRAPHS];
    int n_graphs;
    Piece piece;
    const void *loaded[MAX_LOADED]; // kernels whose code is on the GPU
    int n_loaded;
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

static void graph_free(Device *device, Graph *graph) {
    free(graph->operations);
    if (graph->instance) cudaGraphExecDestroy(graph->instance);
    chains_free(device, graph->chains);
    *graph = Graph{};
}

void recording_forget(Device *device) {
    Recording *r = device->recording;
    for (int i = 0; i < r->n_graphs; i++)
        graph_free(device, &r->graphs[i]);
    r->n_graphs = 0;
}

// The struct itself belongs to the device's list.
// operations come from realloc and are not on that list.
void recording_close(Device *device) {
    Recording *recording = device->recording;
    if (!recording) return;
    recording_forget(device);
    free(recording->operations);
    free(recording->piece.operations);
    recording->operations = NULL;
    recording->piece = Piece{};
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
    if (device->steps_waiting) chain_run(device);
}

// Makes a list longer; false after a failure.
static bool make_room(Device *device, Operation **operations, size_t *room, size_t wanted) {
    if (wanted <= *room) return true;
    // A pass has about fifteen operations for each layer, so the array seldom grows.
    size_t more = *room ? *room : 1024;
    while (more < wanted)
        more *= 2;
    Operation *larger = (Operation *)realloc((void *)*operations, more * sizeof *larger);
    if (!larger) {
        device_fail(device, ERROR_MEMORY, "no memory to record %zu operations", more);
        return false;
    }
    *operations = larger;
    *room = more;
    return true;
}

void perform(Device *device, const Operation *operation) {
    if (!device_ok(device)) return;
    Recording *r = device->recording;
    // What is recorded is a copy of the arguments: the caller may reuse its structs at once.
    if (!r->active)
        run_all(device, operation, 1);
    else if (make_room(device, &r->operations, &r->room, r->count + 1))
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
    Recording *r = device->recording;
    if (!r->active) return max_seq_len;
    r->asked = true;
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

// Whether the recorded operations are that list, in a pass of so many positions. memcmp of all
// arguments: a list is the same if every pointer and every number is.
static bool is_recorded(const Recording *r, int positions, const Operation *operations,
                        size_t count, int positions_of_list) {
    return (!positions_of_list || positions_of_list == positions) && count == r->count &&
           !memcmp((const void *)operations, (const void *)r->operations,
                   count * sizeof *operations);
}

static Graph *find_graph(Recording *r, int positions) {
    for (int i = 0; i < r->n_graphs; i++) {
        Graph *g = &r->graphs[i];
        if (is_recorded(r, positions, g->operations, g->count, g->positions)) return g;
    }
    return NULL;
}

// The slot of a new graph: a free one, or that of the least recently used graph.
static Graph *graph_slot(Device *device) {
    Recording *r = device->recording;
    if (r->n_graphs < MAX_GRAPHS) return &r->graphs[r->n_graphs++];
    Graph *oldest = r->graphs;
    for (int i = 1; i < MAX_GRAPHS; i++)
        if (r->graphs[i].last_used < oldest->last_used) oldest = &r->graphs[i];
    graph_free(device, oldest);
    return oldest;
}

void kernel_load(Device *device, const char *name, const void *kernel) {
    Recording *r = device->recording;
    for (int i = 0; i < r->n_loaded; i++)
        if (r->loaded[i] == kernel) return;
    cudaFuncAttributes attributes; // asking for them loads the code
    if (cuda_check(device, cudaFuncGetAttributes(&attributes, kernel), name) &&
        r->n_loaded < MAX_LOADED)
        r->loaded[r->n_loaded++] = kernel;
}

// The code of all kernels that the recorded operations launch.
static void load_kernels(Device *device, const Recording *r) {
    chains_begin(device);
    device->loading = true;
    run_all(device, r->operations, r->count);
    device->loading = false;
}

// Captures the recorded operations and keeps the graph; NULL after a failure. Relaxed: a library
// that allocates is not refused. There is one stream, so that nothing else could get into the
// graph.
static Graph *capture_graph(Device *device, Recording *r, int positions) {
    cudaGraph_t captured = NULL;
    if (!CUDA_CHECK(device, cudaStreamBeginCapture(device->stream, cudaStreamCaptureModeRelaxed)))
        return NULL;
    r->asked = false;
    chains_rewind(device);
    device->capturing = true;
    run_all(device, r->operations, r->count);
    device->capturing = false;
    // The capture is ended also after a failure: until then the stream would take no other work.
    bool ended = CUDA_CHECK(device, cudaStreamEndCapture(device->stream, &captured));
    Graph *g = ended && device_ok(device) ? graph_slot(device) : NULL;
    if (g) {
        // A copy of the list, to compare later passes with.
        size_t bytes = r->count * sizeof *g->operations;
        g->operations = (Operation *)malloc(bytes);
        if (!g->operations)
            device_fail(device, ERROR_MEMORY, "no memory for a recording of %zu bytes", bytes);
        else if (CUDA_CHECK(device, cudaGraphInstantiate(&g->instance, captured, 0))) {
            memcpy((void *)g->operations, (void *)r->operations, bytes);
            g->count = r->count;
            g->positions = r->asked ? positions : 0;
            g->chains = chains_take(device);
        }
    }
    if (captured) cudaGraphDestroy(captured);
    return device_ok(device) ? g : NULL;
}

// Runs the operations one launch at a time; of a full piece it remembers which they were.
static void run_plainly(Device *device, Recording *r, int positions, bool is_piece) {
    clock_begin(device);
    r->asked = false;
    run_all(device, r->operations, r->count);
    Piece *p = &r->piece;
    if (!is_piece || !make_room(device, &p->operations, &p->room, r->count)) return;
    memcpy((void *)p->operations, (void *)r->operations, r->count * sizeof *p->operations);
    p->count = r->count;
    p->positions = r->asked ? positions : 0;
}

// The graph of the recorded pass, captured now if it is worth it; NULL where it is not, or after a
// failure. A capture costs about as much as two passes' launches, and calls of libraries are only
// known to be harmless in it when they were made before: so of prompts only what comes a second
// time is captured.
static Graph *graph_of_pass(Device *device, Recording *r, int positions, bool is_piece) {
    bool is_step = r->shape.n <= GRAPH_ROWS;
    if (r->interrupted || device->switches.nograph || (!is_step && !is_piece)) return NULL;
    Graph *g = find_graph(r, positions);
    const Piece *p = &r->piece;
    if (g || (!is_step && !is_recorded(r, positions, p->operations, p->count, p->positions)))
        return g;
    if (is_step) load_kernels(device, r); // a piece has run before
    return device_ok(device) ? capture_graph(device, r, positions) : NULL;
}

void device_end(Device *device) {
    Recording *r = device->recording;
    if (!r) return;
    if (device_ok(device) && r->count) {
        int positions = rounded_positions(r->shape.max_position + 1);
        bool is_piece = r->shape.n > GRAPH_ROWS && r->shape.n == device->max_rows;
        Graph *g = graph_of_pass(device, r, positions, is_piece);
        if (g) {
            clock_begin(device);
            if (CUDA_CHECK(device, cudaGraphLaunch(g->instance, device->stream)))
                g->last_used = ++r->passes;
        } else if (device_ok(device)) {
            run_plainly(device, r, positions, is_piece && !r->interrupted);
        }
        clock_end(device);
    }
    r->active = false;
    r->count = 0;
}
