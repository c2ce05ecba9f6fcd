// GGUF, versions 2 and 3, little-endian. (https://github.com/ggml-org/ggml, docs/gguf.md)
//
//   "GGUF" | u32 version | u64 n_tensors | u64 n_keys
//   n_keys times:    string key | u32 type | value         string: u64 length, bytes
//   n_tensors times: string name | u32 n_dims | u64 dims[n_dims], fastest first | u32 type |
//                    u64 offset from the start of the data
//   padding to general.alignment | the data of the tensors, each padded to it
//
// This file walks the header and makes the plan; values.c looks keys up, config.c and
// vocabulary.c say what they mean.
//
//     read_model     header -> read_keys -> family -> read_tensors -> vocabulary -> config
//     read_keys      g->values[i], indexed by name in g->keys
//     read_tensors   the plan: names, shapes, types, then places in the file
//
// Every number is checked against what is left of the file before it is used: a count bounds an
// allocation, an offset a range. Nothing is computed from a tensor before all of them are accepted.
// (The drawing above: integers are little-endian.)
#include "weights/gguf/gguf.h"
#include "weights/quant.h"

#include <stdio.h>
#include <string.h>

enum {
    // The least that one entry takes, so that a count can be refused before anything is allocated.
    LEAST_KEY_BYTES = 8 + 1 + 4 + 1,
    LEAST_TENSOR_BYTES = 8 + 1 + 4 + 8 + 4 + 8,
    DEFAULT_ALIGNMENT = 32,
    LONGEST_TENSOR_NAME = 63,
};

typedef struct Header {
    uint32_t version;
    uint64_t n_tensors, n_keys;
} Header;

// A count is compared with the file's size too, not only with its limit: a file of a hundred bytes
// that claims 65536 keys allocates nothing. `least`: bytes that each takes.
static bool check_count(Bytes *in, size_t at, const char *what, uint64_t count, uint64_t least,
                        uint64_t limit) {
    if (count <= limit && count <= bytes_left(in) / least) return true;
    if (count <= limit) bytes_lack(in, count * least);
    return bytes_fail(in, at, "%llu %s in %zu bytes (at most %llu are read)",
                      (unsigned long long)count, what, bytes_left(in), (unsigned long long)limit);
}

static bool read_header(Bytes *in, Header *header) {
    bytes_take(in, 4, "header");
    header->version = bytes_u32(in, "header");
    if (in->failed) return false;
    // The versions 2 and 3 with their bytes in reverse. (Version 1 has 32-bit counts and is refused
    // below.)
    if (header->version == 0x02000000 || header->version == 0x03000000)
        return bytes_fail(in, 4, "GGUF in big-endian byte order, which limpid does not read");
    if (header->version != 2 && header->version != 3)
        return bytes_fail(in, 4, "GGUF version %u is not supported, wanted 2 or 3",
                          header->version);
    header->n_tensors = bytes_u64(in, "header");
    header->n_keys = bytes_u64(in, "header");
    return !in->failed &&
           check_count(in, 8, "tensors", header->n_tensors, LEAST_TENSOR_BYTES, LIMIT_TENSORS) &&
           check_count(in, 16, "keys", header->n_keys, LEAST_KEY_BYTES, LIMIT_KEYS);
}

// A key or a tensor's name: printable ASCII, `longest` bytes at most.
//
// Keys and names go into messages and are compared as text.
static bool read_name(Bytes *in, const char *what, size_t longest, TextSpan *out) {
    size_t start = in->pos;
    uint64_t length = bytes_u64(in, what);
    if (in->failed) return false;
    if (!length || length > longest)
        return bytes_fail(in, start, "%s of %llu bytes, wanted 1 to %zu", what,
                          (unsigned long long)length, longest);
    const uint8_t *text = bytes_take(in, length, what);
    if (!text) return false;
    *out = (TextSpan){(const char *)text, (size_t)length};
    for (size_t i = 0; i < length; i++)
        if (text[i] < 0x21 || text[i] > 0x7e || text[i] == '/') {
            char shown[100];
            return bytes_fail(in, start, "%s \"%s\" holds byte 0x%02x", what,
                              escape_bytes(shown, sizeof shown, text, (size_t)length), text[i]);
        }
    return true;
}

// ---- keys ----

// The value's bytes stay in the loaded part of the file; nothing is copied.
static bool read_string(Bytes *in, GgufValue *value) {
    TextSpan text = bytes_string(in, "string");
    value->count = text.length;
    value->bytes = (const uint8_t *)text.text;
    return !in->failed;
}

// Arrays do not nest, so this is a loop and no recursion.
static bool read_array(Bytes *in, GgufValue *value) {
    size_t start = in->pos;
    value->element = bytes_u32(in, "array");
    value->count = bytes_u64(in, "array");
    size_t size = gguf_type_size(value->element);
    if (!size && value->element != GGUF_STRING)
        return bytes_fail(in, start, "array of %s",
                          value->element == GGUF_ARRAY ? "arrays, which GGUF does not have"
                                                       : "an unknown type");
    // A string takes at least its length, 8 bytes.
    size_t least = size ? size : 8;
    if (value->count > bytes_left(in) / least) {
        uint64_t bytes;
        if (mul_ok(value->count, least, &bytes)) bytes_lack(in, bytes);
        return bytes_fail(in, start, "array of %llu elements in %zu bytes",
                          (unsigned long long)value->count, bytes_left(in));
    }
    value->bytes = in->base + in->pos;
    if (size) bytes_take(in, value->count * size, "array");
    // Strings have different lengths, so the array is walked once to find its end; vocabulary.c
    // walks it again to make spans.
    for (uint64_t i = 0; !size && i < value->count && !in->failed; i++)
        bytes_string(in, "string in an array");
    value->size = (size_t)(in->base + in->pos - value->bytes);
    return !in->failed;
}

// Reads the type and the value behind it. A bool must be 0 or 1.
static bool read_value(Bytes *in, GgufValue *value) {
    size_t start = in->pos;
    value->type = bytes_u32(in, "value type");
    if (in->failed) return false;
    if (value->type == GGUF_STRING) return read_string(in, value);
    if (value->type == GGUF_ARRAY) return read_array(in, value);
    size_t size = gguf_type_size(value->type);
    if (!size) return bytes_fail(in, start, "value type %u is not known", value->type);
    value->bytes = bytes_take(in, size, "value");
    if (value->type == GGUF_BOOL && value->bytes && *value->bytes > 1)
        return bytes_fail(in, start, "bool of value %u", *value->bytes);
    return !in->failed;
}

// What a conversion to GGUF takes along (keys.c).
static bool is_kept(TextSpan name) {
    return (name.length > 8 && !memcmp(name.text, "general.", 8)) ||
           (name.length > 10 && !memcmp(name.text, "tokenizer.", 10));
}

// In the order of the file; names_index then sorts the entries and refuses a key that occurs twice.
static bool read_keys(Gguf *g, Bytes *in, uint64_t n_keys, Error *error) {
    Arena *arena = &g->checkpoint->arena;
    NameEntry *entries = arena_alloc(arena, n_keys, sizeof *entries, error);
    g->values = arena_alloc(arena, n_keys, sizeof *g->values, error);
    Checkpoint *c = g->checkpoint;
    c->keys = arena_alloc(arena, n_keys, sizeof *c->keys, error);
    if (!entries || !g->values || !c->keys) return false;
    for (uint32_t i = 0; i < n_keys; i++) {
        const char *start = (const char *)in->base + in->pos;
        entries[i].item = i;
        if (!read_name(in, "key", LIMIT_KEY_LENGTH, &entries[i].name)) return false;
        if (!read_value(in, &g->values[i])) {
            char key[100];
            error_prefix(
                error, escape_bytes(key, sizeof key, entries[i].name.text, entries[i].name.length));
            return false;
        }
        if (is_kept(entries[i].name))
            c->keys[c->n_keys++] =
                (TextSpan){start, (size_t)((const char *)in->base + in->pos - start)};
    }
    return names_index(&g->keys, entries, (size_t)n_keys, "key", error);
}

// The format wants a multiple of 8, llama.cpp a power of two; LIMIT_ALIGNMENT bounds the padding.
static bool read_alignment(const Gguf *g, uint32_t *alignment, Error *error) {
    *alignment = DEFAULT_ALIGNMENT;
    if (!gguf_u32(g, "general.alignment", false, alignment, error)) return false;
    uint32_t a = *alignment;
    if (a < 8 || a > LIMIT_ALIGNMENT || (a & (a - 1)))
        return gguf_fail(g, "general.alignment", error,
                         "got %u, wanted a power of two from 8 to %d", a, LIMIT_ALIGNMENT);
    return true;
}

// llama.cpp's gguf-split writes split.count into every part of a model of several files. The first
// part alone would look like a model with missing tensors. A count of 1 is a whole model.
static bool refuse_split(const Gguf *g, Error *error) {
    const GgufValue *count = gguf_find(g, "split.count");
    bool single = count && count->type == GGUF_U16 && load_u16(count->bytes) <= 1;
    if (count && !single)
        return error_set(error, ERROR_FILE,
                         "split files are not supported: join them into one GGUF first");
    return true;
}

// ---- tensors ----

// Names of the types that limpid has no unpacking for, by number (enum ggml_type in ggml.h;
// of 31 to 38 all but TQ1_0 and TQ2_0 have been removed there, and older files have them).
static const char *const OTHER_TYPES[] = {
    [9] = "Q8_1",   [15] = "Q8_K",       [16] = "IQ2_XXS",    [17] = "IQ2_XS",     [18] = "IQ3_XXS",
    [19] = "IQ1_S", [20] = "IQ4_NL",     [21] = "IQ3_S",      [22] = "IQ2_S",      [23] = "IQ4_XS",
    [24] = "I8",    [25] = "I16",        [26] = "I32",        [27] = "I64",        [28] = "F64",
    [29] = "IQ1_M", [31] = "Q4_0_4_4",   [32] = "Q4_0_4_8",   [33] = "Q4_0_8_8",   [34] = "TQ1_0",
    [35] = "TQ2_0", [36] = "IQ4_NL_4_4", [37] = "IQ4_NL_4_8", [38] = "IQ4_NL_8_8", [39] = "MXFP4",
    [40] = "NVFP4", [41] = "Q1_0",
};

static bool refuse_type(Bytes *in, size_t start, const char *tensor, uint32_t type) {
    bool known = type < sizeof OTHER_TYPES / sizeof *OTHER_TYPES && OTHER_TYPES[type];
    if (known)
        return bytes_fail(in, start, "tensor \"%s\": type %s is not supported", tensor,
                          OTHER_TYPES[type]);
    return bytes_fail(in, start, "tensor \"%s\": type %u is not supported", tensor, type);
}

// False for a type that limpid has no unpacking for.
static bool dtype_of(uint32_t gguf_type, DType *out) {
    for (int dtype = 0; dtype < DTYPE_COUNT; dtype++)
        if (dtype_info((DType)dtype)->gguf_type == (int64_t)gguf_type) {
            *out = (DType)dtype;
            return true;
        }
    return false;
}

static bool read_dims(Bytes *in, TensorPlan *tensor) {
    size_t start = in->pos;
    tensor->n_dims = bytes_u32(in, "tensor dimensions");
    if (in->failed) return false;
    if (tensor->n_dims < 1 || tensor->n_dims > 4)
        return bytes_fail(in, start, "tensor \"%s\" has %u dimensions, wanted 1 to 4", tensor->name,
                          tensor->n_dims);
    for (uint32_t i = 0; i < tensor->n_dims; i++) {
        uint64_t size = bytes_u64(in, "tensor dimensions");
        if (!in->failed && !size)
            return bytes_fail(in, start, "tensor \"%s\": dimension %u is 0", tensor->name, i);
        tensor->shape[tensor->n_dims - 1 - i] = size; // stored fastest first
    }
    return !in->failed;
}

// One entry of the tensor list. offset is relative until place_tensor.
static bool read_tensor(Gguf *g, Bytes *in, TensorPlan *tensor, Error *error) {
    TextSpan name = {0};
    if (!read_name(in, "tensor name", LONGEST_TENSOR_NAME, &name)) return false;
    tensor->name = arena_text(&g->checkpoint->arena, name.text, name.length, error);
    if (!tensor->name || !read_dims(in, tensor)) return false;
    size_t start = in->pos;
    uint32_t type = bytes_u32(in, "tensor type");
    tensor->offset = bytes_u64(in, "tensor offset");
    if (in->failed) return false;
    if (!dtype_of(type, &tensor->dtype)) return refuse_type(in, start, tensor->name, type);
    return plan_measure(tensor, error);
}

// The size of the whole file, by its tensors; 0 where an offset lies behind where the tensors would
// end without gaps: then it is the offset that is wrong. (Offsets are still relative.)
static uint64_t whole_size(const Checkpoint *c, uint64_t data_start, uint32_t alignment) {
    uint64_t packed = 0, end = 0, last;
    for (size_t i = 0; i < c->n_tensors; i++) {
        const TensorPlan *tensor = &c->tensors[i];
        if (!add_ok(packed, tensor->bytes, &packed) || !align_ok(packed, alignment, &packed) ||
            !add_ok(tensor->offset, tensor->bytes, &last))
            return 0;
        if (last > end) end = last;
    }
    return end <= packed && add_ok(data_start, end, &end) ? end : 0;
}

// Converts offsets relative to the data section into file offsets.
static bool place_tensor(const Bytes *in, TensorPlan *tensor, uint64_t data_start,
                         uint32_t alignment, Error *error) {
    uint64_t size = in->size - data_start;
    if (tensor->offset % alignment)
        return error_set(error, ERROR_FILE, "tensor \"%s\": offset %llu is not a multiple of %u",
                         tensor->name, (unsigned long long)tensor->offset, alignment);
    if (tensor->offset > size || tensor->bytes > size - tensor->offset)
        return error_set(error, ERROR_FILE,
                         "tensor \"%s\" is not inside the file: %llu bytes at offset %llu of %llu",
                         tensor->name, (unsigned long long)tensor->bytes,
                         (unsigned long long)tensor->offset, (unsigned long long)size);
    tensor->offset += data_start;
    tensor->data = in->base + tensor->offset;
    return true;
}

// Tensors follow one another, each padded to the alignment, and nothing comes after them. (A file
// with room for hidden bytes is two things to two readers.)
static bool no_gaps(const Checkpoint *c, uint64_t data_start, uint64_t size, uint32_t alignment,
                    Error *error) {
    uint64_t expected = data_start;
    for (size_t i = 0; i < c->n_tensors; i++) {
        const TensorPlan *tensor = &c->tensors[c->plan_order[i]];
        if (tensor->offset != expected)
            return error_set(error, ERROR_FILE,
                             "gap of %llu bytes in front of tensor \"%s\" at offset %llu",
                             (unsigned long long)(tensor->offset - expected), tensor->name,
                             (unsigned long long)tensor->offset);
        align_ok(tensor->offset + tensor->bytes, alignment, &expected); // inside the file: no wrap
    }
    if (size > expected)
        return error_set(error, ERROR_FILE, "%llu bytes follow the last tensor",
                         (unsigned long long)(size - expected));
    return true;
}

// Offsets count from the first aligned byte behind the header, which is known only after all
// entries have been read. Hence two loops.
static bool read_tensors(Gguf *g, Bytes *in, uint64_t n_tensors, Error *error) {
    Checkpoint *c = g->checkpoint;
    uint32_t alignment;
    uint64_t data_start;
    if (!read_alignment(g, &alignment, error) || !plan_reserve(c, n_tensors, error)) return false;
    for (size_t i = 0; i < c->n_tensors; i++)
        if (!read_tensor(g, in, &c->tensors[i], error)) return false;
    if (!bytes_align(in, alignment, "padding in front of the tensors")) return false;
    data_start = in->pos;
    uint64_t whole = whole_size(c, data_start, alignment);
    if (whole > in->size) in->wanted = whole;
    for (size_t i = 0; i < c->n_tensors; i++)
        if (!place_tensor(in, &c->tensors[i], data_start, alignment, error)) return false;
    return plan_finish(c, error) && no_gaps(c, data_start, in->size, alignment, error);
}

// The vocabulary comes before the config, which takes the special ids and the number of tokens from
// it.
static bool read_model(Checkpoint *c, Bytes *in, bool vocabulary_only, Error *error) {
    Gguf g = {.checkpoint = c};
    Header header = {0};
    if (!read_header(in, &header)) return false;
    c->container = CONTAINER_GGUF;
    snprintf(c->container_name, sizeof c->container_name, "GGUF v%u", header.version);
    c->naming = NAMES_GGUF;
    if (!read_keys(&g, in, header.n_keys, error) || !refuse_split(&g, error)) return false;
    if (vocabulary_only) {
        if (!gguf_read_vocabulary(&g, error)) return false;
        return c->vocabulary.model ||
               error_set(error, ERROR_FILE, "key \"tokenizer.ggml.model\" is missing");
    }
    TextSpan name;
    if (!gguf_text(&g, "general.architecture", true, &name, error)) return false;
    g.architecture = arena_text(&c->arena, name.text, name.length < 64 ? name.length : 64, error);
    if (!g.architecture) return false;
    c->family = family_find(NAMES_GGUF, g.architecture, error);
    if (!c->family) return false;
    c->head_required = family_needs_head(c->family, NAMES_GGUF);
    if (!header.n_tensors)
        return error_set(error, ERROR_FILE, "no tensors: this file holds a vocabulary alone");
    return read_tensors(&g, in, header.n_tensors, error) && gguf_read_vocabulary(&g, error) &&
           gguf_read_config(&g, error);
}

bool gguf_read(Checkpoint *c, bool vocabulary_only, Error *error) {
    Bytes in = bytes_of_file(c->files, error);
    return read_model(c, &in, vocabulary_only, error) || bytes_incomplete(&in);
}
