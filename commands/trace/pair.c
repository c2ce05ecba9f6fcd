// Opens two files of tensors and pairs them by name, in the order of computation. The files may
// come from other programs: all that is used of them is checked here or by
// weights/hf/safetensors.c.
//
//   order    metadata "order" of A, else of B, else the order of the data in A
//   pairs    A: q k v x        tensors q k v      only in A: x
//            B: v k y q                           only in B: y
#include "base/bytes.h"
#include "base/text.h"
#include "commands/trace/trace_diff.h"

#include <stdlib.h>
#include <string.h>

// ---- the order of computation ----

typedef struct Listed {
    const SafetensorsTensor *tensor;
    int64_t line; // in the metadata's "order"
} Listed;

// The metadata "order" of a file.
typedef struct Order {
    const char *lines; // names; NULL: the file has none
    const char *path;  // of the file; borrowed
} Order;

static bool read_order(Order *order, SafetensorsFile *file, Error *error) {
    *order = (Order){.path = file->mapping.path};
    return safetensors_metadata(file, "order", &order->lines, error) ||
           error_prefix(error, order->path);
}

// The lines of the order, numbered. A name that it has twice is an error.
static bool index_lines(NameIndex *index, const Order *order, Arena *arena, Error *error) {
    size_t count = 1;
    const char *line = order->lines;
    for (const char *at = line; *at; at++)
        count += *at == '\n';
    NameEntry *entries = arena_alloc(arena, count, sizeof *entries, error);
    if (!entries) return false;
    for (size_t i = 0; i < count; i++) {
        size_t length = strcspn(line, "\n");
        entries[i] = (NameEntry){{line, length}, (uint32_t)i};
        line += length + (i + 1 < count);
    }
    return names_index(index, entries, count, "line of \"order\"", error) ||
           error_prefix(error, order->path);
}

// By line of the order, then by place in the file; tensors that the order lacks have the last line.
static int by_line(const void *a, const void *b) {
    const Listed *x = a, *y = b;
    uint64_t at_x = x->tensor->plan.offset, at_y = y->tensor->plan.offset;
    if (x->line != y->line) return x->line < y->line ? -1 : 1;
    return (at_x > at_y) - (at_x < at_y);
}

// The tensors of a file that match `only`, without the tokens: first in the order of `order`, then
// the rest in the order of their data.
static Listed *list_tensors(SafetensorsFile *file, const TextList *only, const Order *order,
                            size_t *count, Error *error) {
    NameIndex lines = {0};
    Listed *list = arena_alloc(&file->arena, file->count, sizeof *list, error);
    if (!list || (order->lines && !index_lines(&lines, order, &file->arena, error))) return NULL;
    *count = 0;
    for (size_t i = 0; i < file->count; i++) {
        const char *name = file->tensors[i].plan.name;
        if (!strcmp(name, "input_ids") || !only_matches(only, name)) continue;
        int64_t line = names_find(&lines, name);
        list[(*count)++] = (Listed){&file->tensors[i], line < 0 ? INT64_MAX : line};
    }
    qsort(list, *count, sizeof *list, by_line);
    return list;
}

const SafetensorsTensor **trace_tensors(SafetensorsFile *file, size_t *count, Error *error) {
    static const TextList all = {0};
    Order order;
    if (!read_order(&order, file, error)) return NULL;
    Listed *list = list_tensors(file, &all, &order, count, error);
    const SafetensorsTensor **out =
        list ? arena_alloc(&file->arena, *count + 1, sizeof *out, error) : NULL;
    for (size_t i = 0; out && i < *count; i++)
        out[i] = list[i].tensor;
    return out;
}

int trace_layer(const char *name) {
    for (const char *dot = strchr(name, '.'); dot; dot = strchr(dot + 1, '.')) {
        uint64_t layer;
        size_t digits = decimal_take(dot + 1, strlen(dot + 1), &layer);
        if (digits && digits < 7 && (!dot[1 + digits] || dot[1 + digits] == '.')) return (int)layer;
    }
    return -1;
}

// ---- pairs ----

// All names of a file, for looking up the other's. A name that appears twice: exit code 3.
static bool index_tensors(NameIndex *index, SafetensorsFile *file, Error *error) {
    NameEntry *entries = arena_alloc(&file->arena, file->count, sizeof *entries, error);
    if (!entries) return false;
    for (size_t i = 0; i < file->count; i++) {
        const char *name = file->tensors[i].plan.name;
        entries[i] = (NameEntry){{name, strlen(name)}, (uint32_t)i};
    }
    return names_index(index, entries, file->count, "tensor", error) ||
           error_prefix(error, file->mapping.path);
}

static bool is_listed(const char *pattern, const Listed *list, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (name_matches(pattern, list[i].tensor->plan.name)) return true;
    return false;
}

// One --only at least means a tensor of A or B.
static bool check_only(const TextList *only, const Listed *a, size_t n_a, const Listed *b,
                       size_t n_b, Error *error) {
    for (int i = 0; i < only->count; i++)
        if (is_listed(only->texts[i], a, n_a) || is_listed(only->texts[i], b, n_b)) return true;
    return !only->count ||
           error_set(error, ERROR_USAGE, "--only %.60s: no tensor has such a name", only->texts[0]);
}

// A tensor of A is part of a pair, or only in A. Then those that are only in B.
static bool pair(TraceDiff *d, const TextList *only, const Order *order, Error *error) {
    NameIndex names_a, names_b;
    size_t n_a = 0, n_b = 0;
    Arena *arena = &d->a.arena;
    Listed *in_a = list_tensors(&d->a, only, order, &n_a, error);
    Listed *in_b = in_a ? list_tensors(&d->b, only, order, &n_b, error) : NULL;
    if (!in_b || !check_only(only, in_a, n_a, in_b, n_b, error) ||
        !index_tensors(&names_a, &d->a, error) || !index_tensors(&names_b, &d->b, error))
        return false;
    d->tensors = arena_alloc(arena, n_a, sizeof *d->tensors, error);
    d->only_a = arena_alloc(arena, n_a, sizeof *d->only_a, error);
    d->only_b = arena_alloc(arena, n_b, sizeof *d->only_b, error);
    if (!d->tensors || !d->only_a || !d->only_b) return false;
    for (size_t i = 0; i < n_a; i++) {
        const SafetensorsTensor *a = in_a[i].tensor;
        int64_t other = names_find(&names_b, a->plan.name);
        if (other >= 0)
            d->tensors[d->count++] = (TensorDiff){.a = a, .b = &d->b.tensors[other]};
        else
            d->only_a[d->n_only_a++] = a;
    }
    for (size_t i = 0; i < n_b; i++)
        if (names_find(&names_a, in_b[i].tensor->plan.name) < 0)
            d->only_b[d->n_only_b++] = in_b[i].tensor;
    return true;
}

// The tokens of a trace; NULL: the file has none.
static const SafetensorsTensor *find_ids(const SafetensorsFile *file) {
    const SafetensorsTensor *ids = safetensors_find(file, "input_ids");
    return ids && !strcmp(ids->type->name, "I64") && ids->plan.n_dims == 1 ? ids : NULL;
}

// The lists are in the arenas of the two files, and freed with them.
bool trace_diff_open(TraceDiff *d, const char *path_a, const char *path_b, const TextList *only,
                     Error *error) {
    *d = (TraceDiff){0};
    if (!safetensors_open(&d->a, path_a, error)) return false;
    if (!safetensors_open(&d->b, path_b, error)) {
        safetensors_close(&d->a);
        return false;
    }
    d->ids_a = find_ids(&d->a);
    d->ids_b = find_ids(&d->b);
    Order order;
    bool good = read_order(&order, &d->a, error) &&
                (order.lines || read_order(&order, &d->b, error)) && pair(d, only, &order, error);
    if (!good) trace_diff_close(d);
    return good;
}

void trace_diff_close(TraceDiff *d) {
    safetensors_close(&d->a);
    safetensors_close(&d->b);
    *d = (TraceDiff){0};
}

// ---- metadata and tokens ----

bool trace_diff_budget(TraceDiff *d, Budget *budget, Error *error) {
    const char *precisions[2], *caches[2];
    SafetensorsFile *files[2] = {&d->a, &d->b};
    // A file without these keys counts as float32 (budget_of_runs).
    for (int i = 0; i < 2; i++)
        if (!safetensors_metadata(files[i], "precision", &precisions[i], error) ||
            !safetensors_metadata(files[i], "kv", &caches[i], error))
            return error_prefix(error, files[i]->mapping.path);
    *budget = *budget_of_runs(precisions, caches);
    return true;
}

int64_t trace_token(const SafetensorsTensor *ids, uint64_t position) {
    int64_t id;
    memcpy(&id, ids->plan.data + position * sizeof id, sizeof id);
    return id;
}

int64_t trace_diff_tokens(const TraceDiff *d) {
    if (!d->ids_a || !d->ids_b) return -1;
    uint64_t a = d->ids_a->plan.shape[0], b = d->ids_b->plan.shape[0], both = a < b ? a : b;
    // A text that is the beginning of the other differs at its own length.
    for (uint64_t i = 0; i < both; i++)
        if (trace_token(d->ids_a, i) != trace_token(d->ids_b, i)) return (int64_t)i;
    return a == b ? -1 : (int64_t)both;
}

// The logit of `own` minus that of `other`, in the row that chose the token at `position`. False:
// there is no such row, or the row prefers `other`: then the token was given, not chosen.
static bool token_gap(const SafetensorsFile *file, uint64_t position, int64_t own, int64_t other,
                      double *gap) {
    const SafetensorsTensor *logits = safetensors_find(file, "logits"); // after a soft cap
    if (!logits) logits = safetensors_find(file, "lm_head");
    if (!logits || logits->plan.n_dims != 2 || logits->plan.dtype != DTYPE_F32) return false;
    uint64_t rows = logits->plan.shape[0], width = logits->plan.shape[1];
    if (!position || position > rows || own < 0 || other < 0 || (uint64_t)own >= width ||
        (uint64_t)other >= width)
        return false;
    const uint8_t *row = logits->plan.data + (position - 1) * width * sizeof(float);
    *gap = (double)load_f32(row + (uint64_t)own * sizeof(float)) -
           (double)load_f32(row + (uint64_t)other * sizeof(float));
    return *gap >= 0;
}

bool trace_token_gaps(const TraceDiff *d, uint64_t position, double gaps[2]) {
    const SafetensorsTensor *ids[2] = {d->ids_a, d->ids_b};
    for (int i = 0; i < 2; i++)
        if (!ids[i] || position >= ids[i]->plan.shape[0]) return false;
    int64_t a = trace_token(d->ids_a, position), b = trace_token(d->ids_b, position);
    return token_gap(&d->a, position, a, b, &gaps[0]) && token_gap(&d->b, position, b, a, &gaps[1]);
}
