// project: one list of work over the panels of all matrices of the call.
//
// The inputs are prepared once, in the forms that the matrices of the call need (integers, floats),
// by all threads when there are many rows. Then threads take panels from the list. Few narrow
// matrices and a long prompt: each panel is listed once per segment of input rows.
#include "kernels/cpu/cpu.h"
#include "kernels/host.h"
#include "kernels/precision.h"

#include <string.h>

// Work is counted in bytes of weights read for one input row: 16 KB are half a microsecond or more.
enum {
    MOST_PROJECTIONS = 16,
    PARALLEL_BYTES = 48 * 1024,  // less is done before another thread has joined
    CHUNK_BYTES = 32 * 1024,     // a thread takes so much at once, or more
    CHUNKS_PER_THREAD = 16,      // so that the last chunk does not keep the others waiting for long
    PREPARED_ROWS = 8,           // input rows that a thread prepares together
    PREPARED_AT_ONCE = 2048,     // elements of them: some microseconds
    SEGMENT_ROWS = 96,           // a panel is unpacked once for so many input rows at least
    ROWS_AT_MEMORY_SPEED = 4,    // input rows that multiply in the time that a weight is read
};

struct ProjectScratch {
    InputBlock *blocks; // of max_rows rows
    int32_t *pairs;
    float *scales;
    int32_t *sums;
    int32_t *digits; // of a few rows
    int32_t *quads;  // a8
    int32_t *tiles;  // where there is a matrix unit
    Outlier *outliers;
    float *x;
    uint8_t *panels; // per thread
    size_t panel_bytes;
};

enum { SCRATCH_PARTS = 10 };
static void scratch_parts(MemoryPart parts[SCRATCH_PARTS], const Device *device,
                          struct ProjectScratch *s, int max_rows) {
    size_t cols = device->max_cols, cells = cols / CELL_COLS, rows = (size_t)max_rows;
    size_t integer_rows = device->needs_integers ? rows : 0;
    size_t float_rows = device->needs_floats ? rows : 0;
    bool bytes = device->precision == PRECISION_A8;
    size_t most = (size_t)device->kernels->project->digit_rows;
    size_t few_rows = integer_rows < most ? integer_rows : most;
    size_t quad_rows = bytes ? integer_rows : 0, digit_rows = bytes ? 0 : few_rows;
    size_t tile_rows = device->kernels->project->tile_rows ? integer_rows : 0;
    s->panel_bytes = PANEL_SCRATCH_BYTES(cols);
    if (tile_rows && s->panel_bytes < TILE_SCRATCH_BYTES(cols))
        s->panel_bytes = TILE_SCRATCH_BYTES(cols);
    s->panel_bytes = (s->panel_bytes + 63) / 64 * 64;
    const MemoryPart table[SCRATCH_PARTS] = {
        {&s->panels, (size_t)device->info.threads * s->panel_bytes},
        {&s->blocks, (rows + 1) * sizeof *s->blocks},
        {&s->pairs, integer_rows * cells * 16 * sizeof *s->pairs},
        {&s->scales, integer_rows * cells * 4 * sizeof *s->scales},
        {&s->sums, integer_rows * cells * 3 * sizeof *s->sums},
        {&s->outliers, integer_rows * OUTLIERS * sizeof *s->outliers},
        {&s->quads, quad_rows * cells * 8 * sizeof *s->quads},
        {&s->digits, digit_rows * cells * 16 * sizeof *s->digits},
        {&s->tiles, tile_rows * cells * 8 * (bytes ? 1 : 2) * sizeof *s->tiles},
        {&s->x, float_rows * cols * sizeof *s->x},
    };
    memcpy(parts, table, sizeof table);
}

size_t project_needs(Device *device, int max_rows) {
    MemoryPart parts[SCRATCH_PARTS];
    struct ProjectScratch none;
    scratch_parts(parts, device, &none, max_rows);
    return sizeof none + parts_bytes(parts, SCRATCH_PARTS);
}

void project_reserve(Device *device, int max_rows) {
    MemoryPart parts[SCRATCH_PARTS];
    struct ProjectScratch *s = device_alloc(device, sizeof *s);
    if (!s) return;
    device->project = s;
    scratch_parts(parts, device, s, max_rows);
    parts_alloc(device, parts, SCRATCH_PARTS);
}

float *project_scratch_row(const Device *device, int thread) {
    const struct ProjectScratch *s = device->project;
    return (float *)(s->panels + (size_t)thread * s->panel_bytes);
}

// ---- inputs ----

// The rows of the next block, of `left`: the largest of the sizes that the kernels have which
// leaves no block of one or two rows, since that costs nearly as much as a larger one.
static int block_size(int left, int most) {
    static const int SIZES[] = {TILE_ROWS, 8, 6, 4, 3, 2, 1};
    for (int i = 0;; i++) {
        int rest = left - SIZES[i];
        // Five are 2 and 3. A tile takes as long for 8 as for 16, and is no reason for two of them.
        bool leaves_few = rest == 1 || rest == 2 || (rest == 5 && SIZES[i] < TILE_ROWS);
        if (SIZES[i] <= most && rest >= 0 && !leaves_few) return SIZES[i];
    }
}

typedef struct WorkList {
    const Device *device;
    const Projection *projections;
    int count;
    size_t ends[MOST_PROJECTIONS]; // of each matrix in the list of items
    const float *x;
    size_t n_blocks, segment_blocks;
    int n;          // rows of the call
    int block_rows; // of its largest block
} WorkList;

// The forms that the quantised matrices of the call take of a block: 1 << INPUT_WORDS and so on.
static unsigned forms_of(const WorkList *list, int block_rows) {
    const Device *device = list->device;
    bool bytes = device->precision == PRECISION_A8;
    unsigned forms = 0;
    for (int i = 0; i < list->count; i++) {
        DType dtype = list->projections[i].weight->dtype;
        if (dtype_is_float(dtype)) continue;
        forms |= 1u << device->kernels->project->form(dtype, list->n, block_rows, bytes);
    }
    return forms;
}

// The rows of the largest block, which suits all matrices of the call: TILE_ROWS only where every
// one takes tiles, since other kernels hold the sums of MAX_BLOCK_ROWS.
static int largest_block(const WorkList *list) {
    const ProjectKernels *kernels = list->device->kernels->project;
    bool floats = list->device->precision == PRECISION_F32;
    bool bytes = list->device->precision == PRECISION_A8;
    bool tiles = kernels->tile_rows && !floats;
    int most = MAX_BLOCK_ROWS;
    for (int i = 0; i < list->count; i++) {
        DType dtype = list->projections[i].weight->dtype;
        int rows = kernels->block_rows(floats ? DTYPE_F32 : dtype, list->n, bytes);
        if (rows < most) most = rows;
        if (dtype_is_float(dtype)) tiles = false;
    }
    if (tiles && forms_of(list, kernels->tile_rows) == 1u << INPUT_TILES) most = kernels->tile_rows;
    return list->n < most ? list->n : most;
}

// Cuts the rows of the call into blocks. Returns their number.
static size_t cut_blocks(const WorkList *list, size_t cols) {
    const struct ProjectScratch *s = list->device->project;
    size_t digits = list->device->precision == PRECISION_A8 ? 1 : 2;
    size_t count = 0;
    for (int first = 0, size; first < list->n; first += size) {
        size = block_size(list->n - first, list->block_rows);
        size_t row = (size_t)first, cells = cols / CELL_COLS;
        InputBlock *block = &s->blocks[count++];
        *block = (InputBlock){.first = first, .n = size};
        if (s->pairs) {
            unsigned forms = forms_of(list, size);
            if (forms & 1u << INPUT_WORDS) block->pairs = s->pairs + row * cells * 16;
            if (forms & 1u << INPUT_DIGITS) block->digits = s->digits + row * cells * 16;
            if (forms & 1u << INPUT_QUADS) block->quads = s->quads + row * cells * 8;
            if (forms & 1u << INPUT_TILES) block->tiles = s->tiles + row * cells * 8 * digits;
            block->scales = s->scales + row * cells * 4;
            block->sums = s->sums + row * cells * 3;
            block->outliers = s->outliers + row * OUTLIERS;
        }
        if (s->x) block->x = size == 1 ? list->x + row * cols : s->x + row * cols;
    }
    return count;
}

typedef struct Preparing {
    Device *device;
    const float *x; // (n, cols)
    size_t n, cols;
    size_t parts, part_rows; // of each block, and of a part
    bool integers, floats;
} Preparing;

// Items are parts of blocks, of up to PREPARED_ROWS rows.
static void prepare_task(void *context, size_t begin, size_t end, int thread) {
    const Preparing *p = context;
    const struct ProjectScratch *s = p->device->project;
    int levels = p->device->precision == PRECISION_A8 ? A8_LEVELS : A16_LEVELS;
    float *scratch = project_scratch_row(p->device, thread);
    for (size_t item = begin; item < end; item++) {
        const InputBlock *block = &s->blocks[item / p->parts];
        size_t row = (size_t)block->first, n = (size_t)block->n;
        size_t first = item % p->parts * p->part_rows;
        size_t last = first + p->part_rows < n ? first + p->part_rows : n; // <= first: no row
        const float *x = p->x + row * p->cols;
        for (size_t i = first; i < last && p->integers; i++)
            p->device->kernels->project->quantise(block, i, x + i * p->cols, p->cols, levels,
                                                  scratch);
        for (size_t i = first; i < last && p->floats && n > 1; i++)
            for (size_t k = 0; k < p->cols; k++)
                s->x[row * p->cols + k * n + i] = x[i * p->cols + k];
    }
}

static void prepare(Preparing *p, size_t n_blocks, size_t most) {
    // The rows of a block share cache lines: a quarter of a cell of four rows of words or of eight
    // rows of bytes has one. So the blocks of MAX_BLOCK_ROWS are not cut; nor are their columns,
    // since handing over costs more: with two threads 4 and 8 rows of SmolLM2 lost 2 to 3 % by it.
    p->part_rows = p->floats ? most : PREPARED_ROWS;
    p->parts = (most + p->part_rows - 1) / p->part_rows;
    size_t at_once = PREPARED_AT_ONCE / (p->part_rows * p->cols);
    device_run(p->device, prepare_task, p, n_blocks * p->parts, at_once ? at_once : 1);
}

// ---- the list of work ----

// Items of a matrix: panels, or strips of them where they are stored as strips.
static size_t panels_per_item(const DeviceMatrix *m) {
    return dtype_is_float(m->dtype) ? STRIP_PANELS : 1;
}

static size_t items_of(const DeviceMatrix *m) {
    return (m->n_panels + panels_per_item(m) - 1) / panels_per_item(m);
}

// Items begin .. end - 1 of one segment of the input rows.
static void project_items(const WorkList *list, size_t begin, size_t end, size_t segment,
                          int thread) {
    const struct ProjectScratch *s = list->device->project;
    size_t start = 0;
    for (int i = 0; i < list->count && begin < end; start = list->ends[i++]) {
        if (begin >= list->ends[i]) continue;
        const Projection *p = &list->projections[i];
        size_t stop = end < list->ends[i] ? end : list->ends[i], per = panels_per_item(p->weight);
        size_t first = segment * list->segment_blocks, left = list->n_blocks - first;
        PanelWork work = {
            .matrix = p->weight,
            .bias = p->bias,
            .out = p->out,
            .first_panel = (begin - start) * per,
            .end_panel = (stop - start) * per,
            .blocks = s->blocks + first,
            .n_blocks = left < list->segment_blocks ? left : list->segment_blocks,
            .as_floats = list->device->precision == PRECISION_F32,
            .n = list->n,
            .digits = list->device->precision == PRECISION_A8 ? 1 : 2,
            .prefetch = list->device->prefetch,
            .scratch = s->panels + (size_t)thread * s->panel_bytes,
        };
        if (work.end_panel > p->weight->n_panels) work.end_panel = p->weight->n_panels;
        list->device->kernels->project->panels(&work);
        begin = stop;
    }
}

static void project_task(void *context, size_t begin, size_t end, int thread) {
    const WorkList *list = context;
    size_t n_items = list->ends[list->count - 1];
    while (begin < end) { // the segments lie one after another in the list
        size_t segment = begin / n_items, first = begin % n_items, count = end - begin;
        if (count > n_items - first) count = n_items - first;
        project_items(list, first, first + count, segment, thread);
        begin += count;
    }
}

static void project_rows(Device *device, const float *x, int n, const Projection *projections,
                         int count) {
    WorkList list = {.device = device, .projections = projections, .count = count, .x = x, .n = n};
    size_t cols = projections->weight->cols, n_items = 0, bytes = 0;
    Preparing preparing = {.device = device, .x = x, .n = (size_t)n, .cols = cols};
    for (int i = 0; i < count; i++) {
        const DeviceMatrix *m = projections[i].weight;
        bool floats = dtype_is_float(m->dtype) || device->precision == PRECISION_F32;
        preparing.floats |= floats;
        preparing.integers |= !floats;
        list.ends[i] = n_items += items_of(m);
        bytes += m->n_panels * m->panel_bytes;
    }
    list.block_rows = largest_block(&list);
    list.n_blocks = cut_blocks(&list, cols);
    if (preparing.integers || n > 1) prepare(&preparing, list.n_blocks, (size_t)list.block_rows);

    size_t threads = (size_t)device->active_threads, segments = 1, chunk;
    size_t work = bytes * (1 + (size_t)n / ROWS_AT_MEMORY_SPEED);
    if (threads > 1 && work >= PARALLEL_BYTES) {
        size_t chunks = threads * CHUNKS_PER_THREAD, most = (size_t)n / SEGMENT_ROWS;
        segments = n_items < chunks ? (chunks + n_items - 1) / n_items : 1;
        if (segments > most) segments = most ? most : 1;
        if (chunks > work / CHUNK_BYTES) chunks = work / CHUNK_BYTES;
        chunks = (chunks + threads - 1) / threads * threads; // one each at least
        chunk = (n_items * segments + chunks - 1) / chunks;
    } else {
        chunk = n_items;
    }
    list.segment_blocks = (list.n_blocks + segments - 1) / segments;
    segments = (list.n_blocks + list.segment_blocks - 1) / list.segment_blocks;
    device_run(device, project_task, &list, n_items * segments, chunk);
}

void project(Device *device, const float *x, int n, const Projection *projections, int count) {
    if (!device_ok(device) || n <= 0) return;
    for (; count > 0; projections += MOST_PROJECTIONS, count -= MOST_PROJECTIONS) {
        int some = count < MOST_PROJECTIONS ? count : MOST_PROJECTIONS;
        project_rows(device, x, n, projections, some);
    }
}
