// The table of tensors as text: a row for each, or a row for all layers that are equal, which
// shows where a file has its types mixed.
//
//   blk.0-1,3     3 equal layers of 9 tensors      blk.2     1 layer of 9 tensors
//
// "Q4_1 +2": most bytes are of that type, and there are two others. Layers are equal if their
// tensors have the same names behind the number, types and shapes. Where these rows are still too
// many, as in mixes that give each layer other types, the smallest are counted in the last row.
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
    size_t row;                    // of the table and 1, of a first layer; 0: none yet
} Layer;

typedef struct LayerTable {
    const TensorPlan *tensors;
    size_t count;
    TextSpan prefix; // of the layers' names: "blk."
    Layer layers[LIMIT_LAYERS];
    int n_layers; // the largest number and 1
} LayerTable;

// A row of the table: equal layers, by the first of them, or a tensor.
typedef struct TableRow {
    int layer; // -1: none
    size_t tensor;
    uint64_t bytes;
    bool shown;
} TableRow;

// The columns of the short table and of --all: a row for equal layers has to fit 80 columns.
static const int NAME_WIDTH[] = {28, 44}, BYTES_WIDTH[] = {12, 14};
enum { NAME_SIZE = 29, PREFIX_MOST = 16, ESCAPED_SIZE = 4 * LIMIT_NAME_LENGTH + 1 };

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

// The layer of tensor i; -1: it is shown alone.
static int layer_in(const LayerTable *table, size_t i) {
    const char *name = table->tensors[i].name;
    size_t prefix = 0;
    int l = layer_of(name, &prefix);
    return l < 0 || span_compare(table->prefix, (TextSpan){name, prefix}) ? -1 : l;
}

// Layers are those with the prefix that more than half of the numbered tensors have (Boyer and
// Moore's majority vote), whatever else the file has in front of them.
static void find_prefix(LayerTable *table) {
    size_t votes = 0;
    for (size_t i = 0; i < table->count; i++) {
        size_t prefix = 0;
        const char *name = table->tensors[i].name;
        if (layer_of(name, &prefix) < 0) continue;
        TextSpan span = {name, prefix};
        if (!votes) table->prefix = span;
        if (span_compare(table->prefix, span))
            votes--;
        else
            votes++;
    }
}

static void add_tensor(Layer *layer, const TensorPlan *t, const char *rest) {
    uint64_t hash = fnv1a(FNV_START, rest, strlen(rest) + 1);
    hash = fnv1a(hash, &t->dtype, sizeof t->dtype);
    hash = fnv1a(hash, t->shape, t->n_dims * sizeof *t->shape);
    layer->signature += splitmix64(&hash); // FNV's differences would cancel in a sum
    layer->bytes += t->bytes;
    layer->of_type[t->dtype] += t->bytes;
    layer->tensors++;
}

static void find_layers(LayerTable *table) {
    find_prefix(table);
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

// A name of the file, escaped; of one that is longer than `most` the end.
static const char *end_of_name(char out[NAME_SIZE], const char *name, size_t length, size_t most) {
    char escaped[ESCAPED_SIZE];
    size_t used = strlen(escape_bytes(escaped, sizeof escaped, name, length));
    if (used > most) memcpy(escaped + used - most, "..", 2);
    snprintf(out, NAME_SIZE, "%.*s", NAME_SIZE - 1, escaped + (used > most ? used - most : 0));
    return out;
}

// "blk.0-2,5", cut with ".." where it is too long. How many layers these are.
static int list_equal(char out[NAME_SIZE], const LayerTable *table, int first) {
    int count = 0;
    end_of_name(out, table->prefix.text, table->prefix.length, PREFIX_MOST);
    size_t used = strlen(out), none = used;
    for (int l = first, end; l < table->n_layers; l = end + 1) {
        end = l;
        if (table->layers[l].first != first) continue;
        while (end + 1 < table->n_layers && table->layers[end + 1].first == first)
            end++;
        count += end - l + 1;
        char range[16];
        int length = snprintf(range, sizeof range, end > l ? "%s%d-%d" : "%s%d",
                              used > none ? "," : "", l, end);
        if (used + (size_t)length + 3 < NAME_SIZE)
            used += (size_t)snprintf(out + used, NAME_SIZE - used, "%s", range);
        else if (out[used - 1] != '.')
            used += (size_t)snprintf(out + used, NAME_SIZE - used, "..");
    }
    return count;
}

static void print_layers(const LayerTable *table, int first) {
    const Layer *layer = &table->layers[first];
    char name[NAME_SIZE], type[20];
    int count = list_equal(name, table, first), most = 0, types = 0;
    for (int t = 0; t < DTYPE_COUNT; t++) {
        types += layer->of_type[t] > 0;
        if (layer->of_type[t] > layer->of_type[most]) most = t;
    }
    int length = snprintf(type, sizeof type, "%s", dtype_info((DType)most)->name);
    if (types > 1) snprintf(type + length, sizeof type - (size_t)length, " +%d", types - 1);
    output_print("%-*s %-8s %*" PRIu64 "  ", NAME_WIDTH[0], name, type, BYTES_WIDTH[0],
                 (uint64_t)count * layer->bytes);
    if (count > 1)
        output_print("%d equal layers, %zu tensors\n", count, layer->tensors);
    else
        output_print("1 layer, %zu tensors\n", layer->tensors);
}

// Names come from the file, so they are escaped.
static void print_tensor(const TensorPlan *t, bool all) {
    char name[ESCAPED_SIZE], end[NAME_SIZE];
    const char *shown = all ? escape_bytes(name, sizeof name, t->name, strlen(t->name))
                            : end_of_name(end, t->name, strlen(t->name), NAME_SIZE - 1);
    output_print("%-*s %-8s %*" PRIu64 "  (", NAME_WIDTH[all], shown, dtype_info(t->dtype)->name,
                 BYTES_WIDTH[all], t->bytes);
    for (uint32_t d = 0; d < t->n_dims; d++)
        output_print("%s%" PRIu64, d ? ", " : "", t->shape[d]);
    output_print(")\n");
}

// Rows in the order of the file: layers stand where the first tensor of their kind is. Returns how
// many there are.
static size_t list_rows(TableRow *rows, LayerTable *table, bool all) {
    size_t n = 0;
    for (size_t i = 0; i < table->count; i++) {
        int l = all ? -1 : layer_in(table, i), first = l < 0 ? -1 : table->layers[l].first;
        if (l >= 0 && table->layers[first].row) {
            rows[table->layers[first].row - 1].bytes += table->tensors[i].bytes;
            continue;
        }
        rows[n++] = (TableRow){.layer = first, .tensor = i, .bytes = table->tensors[i].bytes};
        if (l >= 0) table->layers[first].row = n;
    }
    return n;
}

// Chooses all rows where `most` are enough or 0, else the largest and leaves a row for the others.
static void choose_rows(TableRow *rows, size_t n, size_t most) {
    bool all = !most || n <= most;
    for (size_t i = 0; all && i < n; i++)
        rows[i].shown = true;
    for (size_t taken = 1; !all && taken < most; taken++) {
        TableRow *largest = NULL;
        for (size_t i = 0; i < n; i++)
            if (!rows[i].shown && (!largest || rows[i].bytes > largest->bytes)) largest = &rows[i];
        largest->shown = true;
    }
}

static void print_table(LayerTable *table, TableRow *rows, int most_rows) {
    bool all = !most_rows;
    size_t n = list_rows(rows, table, all), others = 0;
    uint64_t bytes = 0;
    choose_rows(rows, n, (size_t)most_rows);
    output_print("\n%-*s %-8s %*s  %s\n", NAME_WIDTH[all], "tensor", "type", BYTES_WIDTH[all],
                 "bytes", "shape");
    for (size_t i = 0; i < n; i++) {
        if (!rows[i].shown) {
            bytes += rows[i].bytes;
            others++;
        } else if (rows[i].layer >= 0) {
            print_layers(table, rows[i].layer);
        } else {
            print_tensor(&table->tensors[rows[i].tensor], all);
        }
    }
    if (others)
        output_print("%-*s %-8s %*" PRIu64 "  %zu more rows: see --all\n", NAME_WIDTH[all],
                     "others", "", BYTES_WIDTH[all], bytes, others);
}

bool inspect_print_tensors(const TensorPlan *tensors, size_t count, int most_rows, Error *error) {
    LayerTable *table = calloc(1, sizeof *table);
    TableRow *rows = calloc(count ? count : 1, sizeof *rows);
    bool good = table && rows;
    if (good) {
        table->tensors = tensors;
        table->count = count;
        if (most_rows) find_layers(table);
        print_table(table, rows, most_rows);
    }
    free(table);
    free(rows);
    return good || error_set(error, ERROR_MEMORY, "no memory for the table of tensors");
}
