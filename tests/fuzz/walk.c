// The structures that mutate.c changes. The walkers check bounds alone: what they do not understand
// they leave out, or they give up.
#include "tests/fuzz/mutate.h"
#include "weights/gguf/gguf.h"

#include <string.h>

// A reader that stops at the end of the file, for good.
typedef struct Reader {
    const uint8_t *file;
    size_t size, pos;
    bool failed;
    Layout *layout;
} Reader;

static size_t skip(Reader *r, uint64_t count) {
    size_t at = r->pos;
    r->failed |= count > r->size - r->pos;
    if (!r->failed) r->pos += (size_t)count;
    return at;
}

static uint64_t number(Reader *r, size_t n) {
    uint64_t value = 0;
    size_t at = skip(r, n);
    if (r->failed) return 0;
    memcpy(&value, r->file + at, n);
    layout_add(r->layout, (Span){.begin = at, .end = at + n, .kind = SPAN_NUMBER});
    return value;
}

static void counted_string(Reader *r, int length_size) {
    size_t at = r->pos;
    uint64_t length = number(r, (size_t)length_size);
    skip(r, length);
    if (!r->failed)
        layout_add(
            r->layout,
            (Span){.begin = at, .end = r->pos, .kind = SPAN_STRING, .length_size = length_size});
}

static void entry(Reader *r, size_t begin, size_t count_at) {
    if (!r->failed)
        layout_add(r->layout,
                   (Span){.begin = begin, .end = r->pos, .kind = SPAN_ENTRY, .count_at = count_at});
}

// ---- GGUF ----

static size_t value_size(uint64_t type) {
    static const uint8_t SIZES[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    return type < sizeof SIZES ? SIZES[type] : 0;
}

static void gguf_value(Reader *r, uint64_t type, size_t count_at) {
    size_t begin = r->pos;
    if (type == GGUF_STRING)
        counted_string(r, 8);
    else if (value_size(type))
        number(r, value_size(type));
    else
        r->failed = true;
    if (count_at) entry(r, begin, count_at);
}

static void gguf_key(Reader *r) {
    size_t begin = r->pos;
    counted_string(r, 8);
    uint64_t type = number(r, 4);
    if (type == GGUF_ARRAY) {
        type = number(r, 4);
        size_t count_at = r->pos;
        uint64_t n = number(r, 8);
        for (uint64_t i = 0; i < n && !r->failed; i++)
            gguf_value(r, type, count_at);
    } else {
        gguf_value(r, type, 0);
    }
    entry(r, begin, 16);
}

static void gguf_tensor(Reader *r) {
    size_t begin = r->pos;
    counted_string(r, 8);
    uint64_t n_dims = number(r, 4);
    for (uint64_t i = 0; i < n_dims && !r->failed; i++)
        number(r, 8);
    number(r, 4);
    number(r, 8);
    entry(r, begin, 8);
}

bool fuzz_walk_gguf(Layout *layout, const uint8_t *file, size_t size) {
    Reader r = {.file = file, .size = size, .layout = layout};
    if (size < 24 || memcmp(file, "GGUF", 4) != 0) return false;
    skip(&r, 4);
    number(&r, 4);
    uint64_t n_tensors = number(&r, 8), n_keys = number(&r, 8);
    for (uint64_t i = 0; i < n_keys && !r.failed; i++)
        gguf_key(&r);
    for (uint64_t i = 0; i < n_tensors && !r.failed; i++)
        gguf_tensor(&r);
    layout->head = r.failed ? size : r.pos;
    layout->alignment = 32;
    return true;
}

// ---- JSON ----

enum { MOST_DEPTH = 64 };

static bool is_of_number(uint8_t c) {
    return (c >= '0' && c <= '9') || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E';
}

static void json_text(Reader *r) {
    size_t begin = r->pos++;
    while (r->pos < r->size && r->file[r->pos] != '"')
        r->pos += r->file[r->pos] == '\\' ? 2 : 1;
    r->failed |= r->pos >= r->size;
    r->pos++;
    if (!r->failed)
        layout_add(r->layout, (Span){.begin = begin, .end = r->pos, .kind = SPAN_STRING});
}

static void json_number(Reader *r) {
    size_t begin = r->pos;
    while (r->pos < r->size && is_of_number(r->file[r->pos]))
        r->pos++;
    layout_add(r->layout, (Span){.begin = begin, .end = r->pos, .kind = SPAN_DIGITS});
}

// From the brace on to the one that closes it; `begins` has where the open entries began.
static void json_value(Reader *r) {
    size_t begins[MOST_DEPTH];
    int depth = 0;
    do {
        uint8_t c = r->file[r->pos];
        if (c == '"') {
            json_text(r);
            continue;
        }
        if (is_of_number(c)) {
            json_number(r);
            continue;
        }
        bool closes = c == '}' || c == ']';
        if ((closes || c == ',') && depth) entry(r, begins[depth - 1], 0);
        r->pos++;
        if (c == ',' && depth) begins[depth - 1] = r->pos;
        if (closes) depth--;
        if (c != '{' && c != '[') continue;
        if (depth == MOST_DEPTH) return;
        begins[depth++] = r->pos;
    } while (depth > 0 && r->pos < r->size && !r->failed);
}

bool fuzz_walk_json(Layout *layout, const uint8_t *file, size_t size) {
    Reader r = {.file = file, .size = size, .layout = layout};
    if (!size || *file != '{') return false;
    json_value(&r);
    layout->head = size;
    layout->separator = ',';
    return true;
}

bool fuzz_walk_safetensors(Layout *layout, const uint8_t *file, size_t size) {
    Reader r = {.file = file, .size = size, .layout = layout};
    uint64_t length = size > 8 ? number(&r, 8) : 0;
    if (!length || length > size - 8 || file[8] != '{') return false;
    r.size = 8 + (size_t)length;
    json_value(&r);
    layout->head = r.size;
    layout->length_first = true;
    layout->separator = ',';
    return true;
}

// ---- tokenizers ----

bool fuzz_walk_tokenizer_bin(Layout *layout, const uint8_t *file, size_t size) {
    Reader r = {.file = file, .size = size, .layout = layout};
    number(&r, 4);
    while (!r.failed && r.pos < r.size) {
        size_t begin = r.pos;
        number(&r, 4);
        counted_string(&r, 4);
        entry(&r, begin, 0);
    }
    layout->head = size;
    return layout->count > 0;
}

static uint64_t varint(Reader *r) {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        size_t at = skip(r, 1);
        if (r->failed) return 0;
        value |= (uint64_t)(r->file[at] & 127) << shift;
        if (!(r->file[at] & 128)) return value;
    }
    r->failed = true;
    return 0;
}

// The fields of a message, one level deep: lengths of more than a byte stay as they are. `outer` is
// where the length of the message is, if it has one byte.
static void protobuf_fields(Reader *r, size_t end, int depth, size_t outer) {
    while (r->pos < end && !r->failed) {
        size_t begin = r->pos, at;
        uint64_t type = varint(r) & 7, length = 0;
        at = r->pos;
        if (type == 2) length = varint(r);
        if (type == 0) varint(r);
        if (type == 1 || type == 5) skip(r, type == 1 ? 8 : 4);
        if (type == 3 || type == 4 || type > 5) r->failed = true;
        if (r->failed || length > end - r->pos) return;
        if (type != 2 || r->pos == at + 1)
            layout_add(r->layout, (Span){.begin = at, .end = r->pos, .kind = SPAN_NUMBER});
        bool one_byte = r->pos == at + 1;
        if (type == 2 && depth)
            protobuf_fields(r, r->pos + (size_t)length, depth - 1, one_byte ? at : 0);
        else
            skip(r, length);
        if (type == 2 && one_byte && outer && !r->failed)
            layout_add(r->layout, (Span){.begin = at,
                                         .end = r->pos,
                                         .kind = SPAN_STRING,
                                         .length_size = 1,
                                         .outer_at = outer});
        if (depth) entry(r, begin, 0);
    }
}

bool fuzz_walk_protobuf(Layout *layout, const uint8_t *file, size_t size) {
    Reader r = {.file = file, .size = size, .layout = layout};
    protobuf_fields(&r, size, 1, 0);
    layout->head = size;
    return layout->count > 0;
}

// ---- llama2.c ----

// Version 0 is seven numbers, 1 and 2 have a magic and a version in front and two more behind. What
// follows is weights, a row of which has no mark in the file.
bool fuzz_walk_llama2c(Layout *layout, const uint8_t *file, size_t size) {
    Reader r = {.file = file, .size = size, .layout = layout};
    bool versioned = size >= 41 && !memcmp(file, "24ka", 4);
    if (size < 28) return false;
    if (versioned) skip(&r, 4);
    for (int i = 0; i < (versioned ? 8 : 7); i++)
        number(&r, 4);
    if (versioned) number(&r, 1);
    if (versioned) number(&r, 4);
    layout->head = versioned && size >= 256 ? 256 : r.pos;
    size_t rows = layout->head; // of 16 bytes, to be dropped and doubled: too little, too much
    for (r.pos = rows; size - r.pos >= 16 && r.pos < rows + 64;) {
        size_t begin = skip(&r, 16);
        entry(&r, begin, 0);
    }
    layout->head = r.pos;
    return true;
}
