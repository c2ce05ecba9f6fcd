// The table of tensors as text: a row for each, or a row for all layers that are equal, which
// shows where a file has its types mixed.
//
//   blk.0-1,3     3 equal layers of 9 tensors      blk.2     1 layer of 9 tensors
//
// "Q4_1 +2": most bytes are of that type, and there are two others. Layers are equal if their
// tensors have the same names behind the number, types and shapes.
#include "base/hash.h"
#include "base/text.h"
#include "commands/inspect/inspect.h"
#include "commands/shared/output.h"
#include "weights/quant.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Layer {
    uint64_t signature, bytes; // the signature is a sum: the order does not count
    size_t tensors;
    uint64_t of_type[DTYPE_COUNT]; // bytes
    int first;                     // the first layer that equals this one
} Layer;

typedef struct LayerTable {
    const TensorPlan *tensors;
    size_t count;
    TextSpan prefix; // of the layers' names: "blk."
    Layer layers[LIMIT_LAYERS];
    int n_layers; // the largest number and 1
} LayerTable;

enum { RANGES_SIZE = 40 };

// The columns of the short table and of --all: a row for equal layers has to fit 80 columns.
static const int NAME_WIDTH[] = {30, 44}, BYTES_WIDTH[] = {12, 14};

// "blk.12.ffn_up.weight": the length of "blk." and the number; -1: no layer.
static int layer_of(const char *name, size_t *prefix) {
    for (const char *dot = name; (dot = strchr(dot, '.')); dot++) {
        uint64_t number;
        size_t digits = decimal_take(dot + 1, strlen(dot + 1), &number);
        if (!digits || digits > 4 || dot[1 + digits] != '.') continue;
        *prefix = (size_t)(dot + 1 - name);
        return number < LIMIT_LAYERS ? (int)number : -1;
    }
    return -1;
}

// The layer of tensor i; -1: it is shown alone. Layers are those with the first prefix of the file.
static int layer_in(LayerTable *table, size_t i) {
    const char *name = table->tensors[i].name;
    size_t prefix = 0;
    int l = layer_of(name, &prefix);
    if (l < 0) return -1;
    if (!table->prefix.text) table->prefix = (TextSpan){name, prefix};
    return span_compare(table->prefix, (TextSpan){name, prefix}) ? -1 : l;
}

static void add_tensor(Layer *layer, const TensorPlan *t, const char *rest) {
    uint64_t hash = fnv1a(FNV_START, rest, strlen(rest) + 1);
    hash = fnv1a(hash, &t->dtype, sizeof t->dtype);
    layer->signature += fnv1a(hash, t->shape, t->n_dims * sizeof *t->shape);
    layer->bytes += t->bytes;
    layer->of_type[t->dtype] += t->bytes;
    layer->tensors++;
}

static void find_layers(LayerTable *table) {
    for (size_t i = 0; i < table->count; i++) {
        int l = layer_in(table, i);
        if (l < 0) continue;
        add_tensor(&table->layers[l], &table->tensors[i],
                   strchr(table->tensors[i].name + table->prefix.length, '.'));
        if (l >= table->n_layers) table->n_layers = l + 1;
    }
    for (int l = 0; l < table->n_layers; l++) {
        Layer *layer = &table->layers[l];
        while (table->layers[layer->first].signature != layer->signature)
            layer->first++;
    }
}

// "0-2,5", cut with ".." where it is too long. How many layers these are.
static int list_equal(char out[RANGES_SIZE], const LayerTable *table, int first) {
    int count = 0;
    size_t used = 0;
    for (int l = first, end; l < table->n_layers; l = end + 1) {
        end = l;
        if (table->layers[l].first != first) continue;
        while (end + 1 < table->n_layers && table->layers[end + 1].first == first)
            end++;
        count += end - l + 1;
        char range[16];
        int length =
            snprintf(range, sizeof range, end > l ? "%s%d-%d" : "%s%d", used ? "," : "", l, end);
        if (used + (size_t)length + 3 < RANGES_SIZE)
            used += (size_t)snprintf(out + used, RANGES_SIZE - used, "%s", range);
        else if (used && out[used - 1] != '.')
            used += (size_t)snprintf(out + used, RANGES_SIZE - used, "..");
    }
    return count;
}

static void print_layers(const LayerTable *table, int first) {
    const Layer *layer = &table->layers[first];
    char ranges[RANGES_SIZE], name[120], type[20];
    int count = list_equal(ranges, table, first), most = 0, types = 0;
    for (int t = 0; t < DTYPE_COUNT; t++) {
        types += layer->of_type[t] > 0;
        if (layer->of_type[t] > layer->of_type[most]) most = t;
    }
    size_t used = strlen(escape_bytes(name, 60, table->prefix.text, table->prefix.length));
    snprintf(name + used, sizeof name - used, "%s", ranges);
    int length = snprintf(type, sizeof type, "%s", dtype_info((DType)most)->name);
    if (types > 1) snprintf(type + length, sizeof type - (size_t)length, " +%d", types - 1);
    output_print("%-*s %-8s %*" PRIu64 "  ", NAME_WIDTH[0], name, type, BYTES_WIDTH[0],
                 (uint64_t)count * layer->bytes);
    if (count > 1)
        output_print("%d equal layers, %zu tensors\n", count, layer->tensors);
    else
        output_print("1 layer, %zu tensors\n", layer->tensors);
}

// In the order of the file. Names come from the file, so they are escaped.
static void print_tensor(const TensorPlan *t, bool all) {
    char name[160];
    output_print("%-*s %-8s %*" PRIu64 "  (", NAME_WIDTH[all],
                 escape_bytes(name, sizeof name, t->name, strlen(t->name)),
                 dtype_info(t->dtype)->name, BYTES_WIDTH[all], t->bytes);
    for (uint32_t d = 0; d < t->n_dims; d++)
        output_print("%s%" PRIu64, d ? ", " : "", t->shape[d]);
    output_print(")\n");
}

bool inspect_print_tensors(const TensorPlan *tensors, size_t count, bool all, Error *error) {
    LayerTable *table = calloc(1, sizeof *table);
    if (!table) return error_set(error, ERROR_MEMORY, "no memory for the table of tensors");
    table->tensors = tensors;
    table->count = count;
    if (!all) find_layers(table);
    output_print("\n%-*s %-8s %*s  %s\n", NAME_WIDTH[all], "tensor", "type", BYTES_WIDTH[all],
                 "bytes", "shape");
    for (size_t i = 0; i < count; i++) {
        int l = all ? -1 : layer_in(table, i);
        if (l < 0) {
            print_tensor(&tensors[i], all);
            continue;
        }
        // A row for the first layer of a kind, where its first tensor is.
        Layer *layer = &table->layers[l];
        if (layer->first == l && layer->tensors) print_layers(table, l);
        if (layer->first == l) layer->tensors = 0;
    }
    free(table);
    return true;
}
