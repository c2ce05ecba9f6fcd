// Chains: while a pass is being captured its steps are kept until something else is to be launched,
// and then become one launch of the persistent kernel if they are enough, or else a kernel each.
// Steps go to the GPU before the capture, when the kernels' code does too: the capture finds the
// chains in the order in which they were made.
#include "kernels/cuda/persistent/chain.h"

#include <stdlib.h>

// A launch of fewer steps than LEAST gains less than its start costs. A model of 128 layers has
// 641 steps.
enum { LEAST = 8, MOST = 1024 };

// Owned by the pass that is being captured, then by its graph.
struct MadeChain {
    MadeChain *next;
    void *memory; // owned, on the GPU: the counter, then the steps
    InputForm form;
    Chain chain;
};

struct Chains {
    Step *waiting; // (MOST), on the device's list
    int count;
    InputForm form;   // of those that wait
    bool running;     // they are being launched
    MadeChain *made;  // of this pass, in order
    MadeChain **next; // the one that the capture wants; while they are made, the end of the list
};

enum { COUNTER_BYTES = 256 }; // steps begin at a multiple of it

// ---- whose they are ----

bool chains_open(Device *device) {
    device->chains = (Chains *)host_alloc(device, sizeof(Chains));
    return device->chains != NULL;
}

void chains_free(Device *device, MadeChain *chains) {
    for (MadeChain *next; chains; chains = next) {
        next = chains->next;
        device_free(device, chains->memory);
        host_free(device, chains);
    }
}

void chains_begin(Device *device) {
    Chains *c = device->chains;
    chains_free(device, c->made); // of a capture that failed
    c->made = NULL;
    chains_rewind(device);
}

void chains_rewind(Device *device) {
    device->chains->next = &device->chains->made;
}

MadeChain *chains_take(Device *device) {
    MadeChain *made = device->chains->made;
    device->chains->made = NULL;
    return made;
}

// ---- what a step can be ----

// The room for the rings is what is left of a block's shared memory.
static unsigned ring_bytes(const Device *device, InputForm form) {
    size_t taken = persistent_bytes(form);
    if (device->block_memory <= taken) return 0;
    return (unsigned)((device->block_memory - taken) / WARPS / 128 * 128);
}

// A piece is long, since each costs a warp some hundred instructions; where rings are short, less.
// Each of its planes is copied with up to 30 bytes around it. An empty ring has room for a piece
// wherever it begins: it may be that the end is left free.
enum { LONG_PIECE = 4608, SHORT_PIECE = 2560, AROUND = 32 * N_PLANES };

static unsigned piece_limit(unsigned ring) {
    return ring >= 3 * (LONG_PIECE + AROUND) ? LONG_PIECE : SHORT_PIECE;
}
static bool has_room(const Device *device, InputForm form) {
    return ring_bytes(device, form) >= 2 * (SHORT_PIECE + AROUND);
}

bool chains_have_room(const Device *device) {
    return has_room(device, FLOAT_VECTOR) && has_room(device, TWO_DIGITS);
}

// Rows in pieces of equal numbers of columns, as many as fit in `limit` bytes: a multiple of what
// all lanes of a warp take at once, a power of two times.
static PieceSize piece_size(const Planes &w, unsigned limit) {
    Layout layout = layout_of(w.dtype);
    size_t element = w.dtype == DTYPE_F32 ? 4 : 2;
    PieceSize size = {};
    if (layout.low_bits) {
        size.columns = WARP * CHUNK;
        const unsigned chunk[N_PLANES] = {(unsigned)low_bytes(layout), (unsigned)high_bytes(layout),
                                          (unsigned)scale_bytes(layout), 0};
        for (int p = 0; p < N_PLANES; p++)
            size.bytes[p] = WARP * chunk[p];
        size.bytes[3] = WARP / SUPER_CHUNKS * (unsigned)super_bytes(layout);
    } else {
        size.columns = WARP * FLOAT_LOAD;
        size.bytes[0] = (unsigned)(size.columns * element);
    }
    unsigned all = 0;
    for (unsigned bytes : size.bytes)
        all += bytes;
    for (; 2 * all <= limit; all *= 2) {
        size.columns *= 2;
        for (unsigned &bytes : size.bytes)
            bytes *= 2;
    }
    return size;
}

static bool is_on(const Device *device) {
    return device->persistent && (device->loading || device->capturing) && !device->chains->running;
}

// A place for one more step of that form, zeroed; NULL: it is not for a chain.
static Step *add_step(Device *device, InputForm form) {
    Chains *c = device->chains;
    if (c->count == MOST || (c->count && c->form != form)) chain_run(device);
    if (!c->waiting) c->waiting = (Step *)host_alloc(device, MOST * sizeof(Step));
    if (!device_ok(device)) return NULL;
    c->form = form;
    device->steps_waiting = true;
    Step *step = &c->waiting[c->count++];
    *step = Step{};
    return step;
}

bool chain_project(Device *device, const ProjectWork *work) {
    InputForm form = form_of(device, work);
    size_t room = form == FLOAT_VECTOR ? float_room(1) : integer_room(1);
    if (!is_on(device) || work->n != 1 || work->weights[0].cols > room ||
        !has_persistent_kernel(form))
        return false;
    unsigned limit = piece_limit(ring_bytes(device, form));
    Step *step = add_step(device, form);
    if (!step) return false;
    step->kind = STEP_PROJECT;
    step->project.work = *work;
    for (int p = 0; p < work->count; p++)
        step->project.pieces[p] = piece_size(work->weights[p], limit);
    if (work->weights[0].cols <= NORM_COLUMNS) step->project.norm_weight = work->norm_weight;
    return true;
}

// After a projection: an attention by itself begins no chain.
bool chain_attention(Device *device, const AttentionWork *work) {
    const AttentionShape *shape = &work->op.shape;
    Chains *c = device->chains;
    if (!is_on(device) || !c->count || work->op.rows.n != 1 || work->kv.type != KV_F16 ||
        shape->pattern.n_parts || !is_aligned(work->op.q) ||
        (shape->head_dim != 64 && shape->head_dim != 128))
        return false;
    Step *step = add_step(device, c->form);
    if (!step) return false;
    step->kind = STEP_ATTENTION;
    step->attention = *work;
    return true;
}

// ---- running one ----

// The steps that wait, on the GPU; NULL after a failure.
static MadeChain *make_chain(Device *device) {
    Chains *c = device->chains;
    size_t bytes = (size_t)c->count * sizeof(Step);
    MadeChain *made = (MadeChain *)host_alloc(device, sizeof *made);
    if (!made) return NULL;
    *c->next = made;
    c->next = &made->next;
    uint8_t *memory = (uint8_t *)device_alloc(device, COUNTER_BYTES + bytes); // zeroed
    if (!memory) return NULL;
    upload_now(device, memory + COUNTER_BYTES, c->waiting, bytes);
    made->memory = memory;
    made->form = c->form;
    unsigned ring = ring_bytes(device, c->form);
    made->chain = Chain{(const Step *)(memory + COUNTER_BYTES), c->count, ring,
                        piece_limit(ring) + AROUND, (unsigned *)memory};
    return made;
}

// The one that was made of these steps.
static MadeChain *made_chain(Device *device) {
    Chains *c = device->chains;
    MadeChain *made = *c->next;
    if (made) c->next = &made->next;
    return made;
}

void chain_run(Device *device) {
    Chains *c = device->chains;
    device->steps_waiting = false;
    c->running = true; // what is launched now is not kept again
    MadeChain *made = NULL;
    if (c->count >= LEAST) made = device->loading ? make_chain(device) : made_chain(device);
    if (made) launch_chain(device, made->form, made->chain);
    for (int i = 0; !made && i < c->count && device_ok(device); i++) {
        const Step *step = &c->waiting[i];
        if (step->kind == STEP_PROJECT)
            launch_few(device, &step->project.work);
        else
            launch_attention(device, &step->attention);
    }
    c->count = 0;
    c->running = false;
}
