// Parses a SentencePiece .model (protobuf) and checks it.
//
//     protobuf   a tag (field << 3 | wire type), then what the wire type says (enum below)
//     messages   read_model -> read_piece, read_trainer_spec, read_normalizer_spec
//     checks     types of pieces, the charsmap
//
// Unknown fields are passed over, as protobuf wants it.
#include "tokenizer/sentencepiece/sentencepiece.h"

#include "base/bytes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- protobuf ----

enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

typedef struct Field {
    size_t offset; // in the file
    uint64_t number;
    unsigned wire;
    uint64_t value; // of a varint, or the bits of a 32- or 64-bit number
    Bytes body;     // of WIRE_BYTES: over the whole file, but ends where the field ends
} Field;

// Seven bits a byte, the lowest first; the tenth byte has room for one bit. 0 on a failure.
static uint64_t read_varint(Bytes *in, const char *what) {
    uint64_t value = 0;
    size_t start = in->pos;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        uint8_t byte = bytes_u8(in, what);
        if (shift == 63 && byte > 1) break;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) return value;
    }
    bytes_fail(in, start, "%s: a number of more than 64 bits", what);
    return 0;
}

// The next field of a message; false at its end or on an error (in->failed).
static bool next_field(Bytes *in, Field *field) {
    if (in->failed || !bytes_left(in)) return false;
    *field = (Field){.offset = in->pos};
    uint64_t tag = read_varint(in, "field");
    field->number = tag >> 3;
    field->wire = tag & 7;
    if (in->failed) return false;
    // Tags of real messages have 32 bits; a larger one is other data.
    if (tag > UINT32_MAX || !field->number)
        return bytes_fail(in, field->offset, "not protobuf: field number %llu",
                          (unsigned long long)field->number);
    if (field->wire == WIRE_VARINT)
        field->value = read_varint(in, "number");
    else if (field->wire == WIRE_64)
        field->value = bytes_u64(in, "number");
    else if (field->wire == WIRE_32)
        field->value = bytes_u32(in, "number");
    else if (field->wire == WIRE_BYTES) {
        uint64_t length = read_varint(in, "length");
        field->body = *in;
        if (!bytes_take(in, length, "field") && in->failed) return false;
        field->body.size = in->pos;
    } else {
        return bytes_fail(in, field->offset, "field %d has wire type %u (wanted 0, 1, 2 or 5)",
                          (int)field->number, field->wire);
    }
    return !in->failed;
}

// Checks the wire type of a known field.
static bool check_wire(Bytes *in, const Field *field, unsigned wire, const char *name) {
    if (field->wire == wire) return true;
    return bytes_fail(in, field->offset, "%s: wire type %u, wanted %u", name, field->wire, wire);
}

// read_text and read_bool leave *out as it is where the wire type is wrong; in->failed says so.
static void read_text(Bytes *in, const Field *field, TextSpan *out, const char *name) {
    if (!check_wire(in, field, WIRE_BYTES, name)) return;
    const Bytes *body = &field->body;
    *out = (TextSpan){(const char *)body->base + body->pos, bytes_left(body)};
}

static void read_bool(Bytes *in, const Field *field, bool *out, const char *name) {
    if (check_wire(in, field, WIRE_VARINT, name)) *out = field->value != 0;
}

// ---- the messages ----

// Absent fields have the defaults of the .proto: score 0, type NORMAL. The text is required.
static bool read_piece(Bytes *in, SentencePieceModel *model, size_t i) {
    size_t start = in->pos;
    uint64_t type = TOKEN_NORMAL;
    Field field;
    while (next_field(in, &field)) {
        if (field.number == 1) {
            read_text(in, &field, &model->pieces[i], "piece");
        } else if (field.number == 2) {
            if (!check_wire(in, &field, WIRE_32, "score")) return false;
            uint32_t bits = (uint32_t)field.value;
            memcpy(&model->scores[i], &bits, sizeof bits);
        } else if (field.number == 3) {
            if (!check_wire(in, &field, WIRE_VARINT, "piece type")) return false;
            type = field.value;
        }
    }
    if (in->failed) return false;
    size_t length = model->pieces[i].length;
    if (!length) return bytes_fail(in, start, "piece %zu: empty", i);
    if (length > LIMIT_TOKEN_LENGTH)
        return bytes_fail(in, start, "piece %zu: %zu bytes long (at most %d)", i, length,
                          LIMIT_TOKEN_LENGTH);
    if (!isfinite(model->scores[i]))
        return bytes_fail(in, start, "piece %zu: its score is not finite", i);
    if (type < TOKEN_NORMAL || type > TOKEN_BYTE)
        return bytes_fail(in, start, "piece %zu: unknown type %llu (wanted 1 to 6)", i,
                          (unsigned long long)type);
    model->types[i] = (uint8_t)type;
    return true;
}

// Field numbers as in sentencepiece.h.
static bool read_trainer_spec(Bytes *in, SentencePieceModel *model) {
    Field field;
    while (next_field(in, &field)) {
        if (field.number == 3 && check_wire(in, &field, WIRE_VARINT, "model_type"))
            model->model_type = field.value;
        if (field.number == 24) read_bool(in, &field, &model->space_is_suffix, "suffix");
        if (field.number == 35) read_bool(in, &field, &model->byte_fallback, "byte_fallback");
        if (field.number == 46) read_text(in, &field, &model->bos_piece, "bos_piece");
        if (field.number == 47) read_text(in, &field, &model->eos_piece, "eos_piece");
    }
    return !in->failed;
}

static bool read_normalizer_spec(Bytes *in, NormalizerSpec *normalizer) {
    Field field;
    while (next_field(in, &field)) {
        if (field.number == 2) read_text(in, &field, &normalizer->charsmap, "charsmap");
        if (field.number == 3) read_bool(in, &field, &normalizer->add_dummy_prefix, "dummy prefix");
        if (field.number == 4)
            read_bool(in, &field, &normalizer->remove_extra_whitespaces, "extra whitespaces");
        if (field.number == 5)
            read_bool(in, &field, &normalizer->escape_whitespaces, "escape whitespaces");
    }
    return !in->failed;
}

// Protobuf allows fields in any order and repeated: messages are merged, the last number wins.
static bool read_model(SentencePieceModel *model, Bytes in) {
    Field field;
    size_t piece = 0;
    while (next_field(&in, &field)) {
        if (field.number > 3) continue;
        if (!check_wire(&in, &field, WIRE_BYTES, "model")) return false;
        if (field.number == 1 && piece == model->n_pieces)
            return bytes_fail(&in, field.offset, "more than the %zu pieces counted", piece);
        bool good = field.number == 1   ? read_piece(&field.body, model, piece++)
                    : field.number == 2 ? read_trainer_spec(&field.body, model)
                                        : read_normalizer_spec(&field.body, &model->normalizer);
        if (!good) return false;
    }
    if (!in.failed && piece < model->n_pieces)
        return bytes_fail(&in, in.pos, "%zu pieces, %zu were counted", piece, model->n_pieces);
    return !in.failed;
}

// A walk over the outer message only, so that the lists are allocated once.
static bool count_pieces(Bytes in, size_t *count) {
    Field field;
    *count = 0;
    while (next_field(&in, &field)) {
        if (field.number != 1) continue;
        if (++*count > LIMIT_PIECES)
            return bytes_fail(&in, field.offset, "more than %d pieces", LIMIT_PIECES);
    }
    if (!in.failed && !*count) return bytes_fail(&in, 0, "no pieces");
    return !in.failed;
}

// ---- checks across pieces ----

// Exactly one unknown piece; byte pieces for all 256 bytes with byte_fallback, for none without.
static bool check_types(const SentencePieceModel *m, Error *error) {
    bool seen[256] = {false};
    size_t unknown = 0, bytes = 0;
    for (size_t i = 0; i < m->n_pieces; i++) {
        uint8_t byte;
        unknown += m->types[i] == TOKEN_UNKNOWN;
        if (m->types[i] != TOKEN_BYTE) continue;
        if (!spm_byte_spelling(m->pieces[i], &byte))
            return error_set(error, ERROR_FILE,
                             "piece %zu: a byte piece whose spelling is not <0xNN>", i);
        bytes += !seen[byte];
        seen[byte] = true;
    }
    if (unknown != 1) return error_set(error, ERROR_FILE, "%zu unknown pieces (wanted 1)", unknown);
    if (bytes != (m->byte_fallback ? 256 : 0))
        return error_set(error, ERROR_FILE,
                         "%zu byte pieces (wanted %d, since byte_fallback is %s)", bytes,
                         m->byte_fallback ? 256 : 0, m->byte_fallback ? "on" : "off");
    return true;
}

// The initial values are the defaults of the .proto.
bool sentencepiece_model_read(SentencePieceModel *model, const uint8_t *bytes, size_t size,
                              Error *error) {
    *model = (SentencePieceModel){
        .model_type = SENTENCEPIECE_UNIGRAM,
        .bos_piece = {"<s>", 3},
        .eos_piece = {"</s>", 4},
        .normalizer = {{"", 0}, true, true, true},
    };
    Bytes in = bytes_over(bytes, size, error);
    if (!count_pieces(in, &model->n_pieces)) return false;
    model->pieces = calloc(model->n_pieces, sizeof *model->pieces);
    model->scores = calloc(model->n_pieces, sizeof *model->scores);
    model->types = calloc(model->n_pieces, sizeof *model->types);
    if (!model->pieces || !model->scores || !model->types)
        return error_set(error, ERROR_MEMORY, "out of memory for %zu pieces", model->n_pieces);
    if (!read_model(model, in)) return false;
    if (model->model_type != SENTENCEPIECE_UNIGRAM && model->model_type != SENTENCEPIECE_BPE)
        return error_set(error, ERROR_FILE, "model_type %llu (known: 1 unigram, 2 BPE)",
                         (unsigned long long)model->model_type);
    return check_types(model, error) && charsmap_check(model->normalizer.charsmap, error);
}

void sentencepiece_model_free(SentencePieceModel *model) {
    free(model->pieces);
    free(model->scores);
    free(model->types);
    model->pieces = NULL;
    model->scores = NULL;
    model->types = NULL;
}
