// A GGUF's vocabulary as tokenizer.model or tokenizer.json, the files that transformers reads.
//
// tokenizer.model is protobuf (sentencepiece_model.proto): a tag is field << 3 | wire type; wire
// type 0 is a varint, 2 a length and bytes, 5 four bytes.
//   ModelProto       1: SentencePiece, repeated   2: TrainerSpec   3: NormalizerSpec
//   SentencePiece    1: text   2: score, a float   3: type
//   TrainerSpec      3: model_type (2: BPE)   4: vocab_size   35: byte_fallback   40 .. 43: ids of
//                    unk, bos, eos, pad   45 .. 48: their texts
//   NormalizerSpec   1: name   3: add_dummy_prefix   4: remove_extra_whitespaces   5: escape
#include "tokenizer/tokenizer.h"

#include "base/text.h"
#include "tokenizer/internal.h"
#include "tokenizer/split/pretokenize.h"

#include <stdlib.h>
#include <string.h>

// The inverse of open.c's open_vocabulary: convert writes a GGUF from any tokenizer file. Each
// algorithm adds its own fields (TokenizerKind.describe).
bool tokenizer_export(const Tokenizer *t, Vocabulary *out, Arena *arena, Error *error) {
    *out = VOCABULARY_ABSENT;
    out->n_tokens = t->n_tokens;
    out->tokens = t->tokens;
    out->types = t->types;
    out->scores = t->scores;
    out->bos_id = t->bos_id;
    out->add_bos = t->adds_bos;
    for (size_t i = 0; i < t->n_tokens && out->unk_id < 0; i++)
        if (t->types[i] == TOKEN_UNKNOWN) out->unk_id = (int)i;
    Error cause = {0};
    if (t->kind->describe(t, out, arena, &cause)) return true;
    return error_copy(error, &cause);
}

// ---- tokenizer.model ----

// Seven bits a byte, the lowest first; the top bit says that more follow.
static void put_varint(Buffer *b, uint64_t value) {
    for (; value > 0x7f; value >>= 7)
        buffer_put(b, &(uint8_t){(uint8_t)(value | 0x80)}, 1);
    buffer_put(b, &(uint8_t){(uint8_t)value}, 1);
}

// Wire type 0. Bools and enums are numbers too.
static void put_number(Buffer *b, uint32_t field, uint64_t value) {
    put_varint(b, (uint64_t)field << 3);
    put_varint(b, value);
}

// Wire type 2: texts and nested messages.
static void put_bytes(Buffer *b, uint32_t field, const void *data, size_t size) {
    put_varint(b, (uint64_t)field << 3 | 2);
    put_varint(b, size);
    buffer_put(b, data, size);
}

// A nested message. Empties `inner`.
static void put_message(Buffer *b, uint32_t field, Buffer *inner) {
    b->failed |= inner->failed;
    put_bytes(b, field, inner->bytes, inner->size);
    inner->size = 0;
}

// The id's field and, five numbers further, its text: 40 and 45 for unk, up to 43 and 48 for pad.
static void put_id(Buffer *b, uint32_t field, const Vocabulary *v, int id) {
    put_number(b, field, (uint64_t)(int64_t)id); // -1: none
    if (id >= 0) put_bytes(b, field + 5, v->tokens[id].text, v->tokens[id].length);
}

static bool has_all_bytes(const Vocabulary *v) {
    size_t count = 0;
    for (size_t i = 0; i < v->n_tokens; i++)
        count += v->types && v->types[i] == TOKEN_BYTE;
    return count == 256;
}

// The library wants exactly one unknown piece: token 0 where the vocabulary has none.
static int find_unknown(const Vocabulary *v) {
    if (v->unk_id >= 0) return v->unk_id;
    for (size_t i = 0; v->types && i < v->n_tokens; i++)
        if (v->types[i] == TOKEN_UNKNOWN) return (int)i;
    return 0;
}

// The library wants either all 256 byte pieces (byte fallback) or none.
static uint64_t piece_type(const Vocabulary *v, size_t id, int unknown, bool all_bytes) {
    if ((int)id == unknown) return TOKEN_UNKNOWN;
    uint8_t type = v->types ? v->types[id] : TOKEN_NORMAL;
    if (type == TOKEN_BYTE && !all_bytes) return TOKEN_UNUSED;
    return type == TOKEN_UNDEFINED || type == TOKEN_UNKNOWN ? TOKEN_UNUSED : type;
}

// The library looks for user-defined pieces in a text whose spaces are escaped; GGUF has them with
// spaces.
static void put_piece(Buffer *out, const Vocabulary *v, size_t i) {
    static const TextSpan SPACE = {" ", 1}, ESCAPED = {"\u2581", 3};
    TextSpan piece = v->tokens[i];
    bool user_defined = v->types && v->types[i] == TOKEN_USER_DEFINED;
    char *escaped = user_defined ? malloc(ESCAPED.length * piece.length + 1) : NULL;
    if (user_defined && !escaped) out->failed = true;
    if (escaped) piece = (TextSpan){escaped, span_replace(escaped, piece, SPACE, ESCAPED)};
    put_bytes(out, 1, piece.text, piece.length);
    free(escaped);
}

// Order of the file: all pieces, then trainer_spec and normalizer_spec. "identity" replaces no
// characters; spaces are escaped as U+2581, and extra ones are kept.
static void write_model(Buffer *out, const Vocabulary *v) {
    Buffer inner = {0};
    int unk = find_unknown(v);
    bool all_bytes = has_all_bytes(v);
    for (size_t i = 0; i < v->n_tokens; i++) {
        put_piece(&inner, v, i);
        put_varint(&inner, 2 << 3 | 5);
        buffer_f32(&inner, v->scores ? v->scores[i] : 0.0f);
        put_number(&inner, 3, piece_type(v, i, unk, all_bytes));
        put_message(out, 1, &inner);
    }
    put_number(&inner, 3, 2);
    put_number(&inner, 4, v->n_tokens);
    put_number(&inner, 35, all_bytes);
    put_id(&inner, 40, v, unk);
    put_id(&inner, 41, v, v->bos_id);
    put_id(&inner, 42, v, v->eos_id);
    put_id(&inner, 43, v, v->pad_id);
    put_message(out, 2, &inner);
    put_bytes(&inner, 1, "identity", 8);
    put_number(&inner, 3, v->add_space_prefix != 0);
    put_number(&inner, 4, 0);
    put_number(&inner, 5, 1);
    put_message(out, 3, &inner);
    buffer_free(&inner);
}

// ---- tokenizer.json ----

static void put_quoted(Buffer *b, TextSpan text) {
    buffer_quote(b, text.text, text.length);
}

// Valid UTF-8, which JSON strings must be.
static bool is_utf8(TextSpan text) {
    uint32_t character;
    for (size_t i = 0, n; i < text.length; i += n)
        if (!(n = utf8_decode(text.text + i, text.length - i, &character))) return false;
    return true;
}

// Control and unknown tokens are "special" there, user-defined ones are not.
static void write_added(Buffer *b, const Vocabulary *v) {
    bool comma = false;
    buffer_print(b, "\"added_tokens\":[");
    for (size_t i = 0; i < v->n_tokens; i++) {
        bool control = v->types && (v->types[i] == TOKEN_CONTROL || v->types[i] == TOKEN_UNKNOWN);
        if (!control && !(v->types && v->types[i] == TOKEN_USER_DEFINED)) continue;
        buffer_print(b, "%s\n{\"id\":%zu,\"content\":", comma ? "," : "", i);
        put_quoted(b, v->tokens[i]);
        buffer_print(b,
                     ",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,"
                     "\"normalized\":false,\"special\":%s}",
                     control ? "true" : "false");
        comma = true;
    }
    buffer_print(b, "],\n");
}

// Each pass as a Split step with the published pattern, then ByteLevel without a pattern of its
// own, which only spells bytes.
static void write_splits(Buffer *b, const SplitRule *rule) {
    buffer_print(b, "\"normalizer\":%s,\n", rule->nfc ? "{\"type\":\"NFC\"}" : "null");
    buffer_print(b, "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[");
    for (int i = 0; i < rule->n_passes; i++) {
        const char *regex = split_pattern_regex(rule->passes[i]);
        buffer_print(b, "{\"type\":\"Split\",\"pattern\":{\"Regex\":");
        buffer_quote(b, regex, strlen(regex));
        buffer_print(b, "},\"behavior\":\"Isolated\",\"invert\":false},");
    }
    buffer_print(b, "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,"
                    "\"use_regex\":false}]},\n");
}

// Puts BOS in front of a single text, as the library's template for it. A pair of texts, which
// language models do not get, has none.
static void write_post_processor(Buffer *b, const Vocabulary *v, bool adds_bos) {
    buffer_print(b, "\"post_processor\":");
    if (!adds_bos || v->bos_id < 0) {
        buffer_print(b, "null,\n");
        return;
    }
    TextSpan bos = v->tokens[v->bos_id];
    buffer_print(b, "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":");
    put_quoted(b, bos);
    buffer_print(b, ",\"type_id\":0}},{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}],\"pair\":["
                    "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}},"
                    "{\"Sequence\":{\"id\":\"B\",\"type_id\":1}}],\"special_tokens\":{");
    put_quoted(b, bos);
    buffer_print(b, ":{\"id\":");
    put_quoted(b, bos);
    buffer_print(b, ",\"ids\":[%d],\"tokens\":[", v->bos_id);
    put_quoted(b, bos);
    buffer_print(b, "]}}},\n");
}

static void write_merges(Buffer *b, const Vocabulary *v) {
    buffer_print(b, "\"merges\":[");
    for (size_t i = 0; i < v->n_merges; i++) {
        if (i) buffer_print(b, ",\n");
        put_quoted(b, v->merges[i]);
    }
    buffer_print(b, "]");
}

// False, exit code 3, where a token is not valid UTF-8 or the pattern has no name.
static bool write_json(Buffer *b, const Vocabulary *v, Error *error) {
    SplitRule rule;
    if (!split_rule_find(&rule, NULL, v->pre ? v->pre : "default", error)) return false;
    for (size_t i = 0; i < v->n_tokens; i++)
        if (!is_utf8(v->tokens[i]))
            return error_set(error, ERROR_FILE,
                             "token %zu is not UTF-8, so tokenizer.json cannot hold it", i);
    buffer_print(b, "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\n");
    write_added(b, v);
    write_splits(b, &rule);
    write_post_processor(b, v, v->add_bos >= 0 ? v->add_bos : rule.adds_bos);
    buffer_print(b,
                 "\"decoder\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,"
                 "\"trim_offsets\":true,\"use_regex\":false},\n"
                 "\"model\":{\"type\":\"BPE\",\"dropout\":null,\"unk_token\":null,"
                 "\"continuing_subword_prefix\":null,\"end_of_word_suffix\":null,"
                 "\"fuse_unk\":false,\"byte_fallback\":false,\"ignore_merges\":%s,\"vocab\":{",
                 rule.ignore_merges ? "true" : "false");
    // Names of rows that are no tokens, as a GGUF has them, would become tokens here.
    size_t count = v->n_tokens;
    while (count && v->types && v->types[count - 1] == TOKEN_UNUSED)
        count--;
    for (size_t i = 0; i < count; i++) {
        if (i) buffer_print(b, ",\n");
        put_quoted(b, v->tokens[i]);
        buffer_print(b, ":%zu", i);
    }
    buffer_print(b, "},\n");
    write_merges(b, v);
    buffer_print(b, "}}\n");
    return true;
}

// By the algorithm: scores need tokenizer.model, merges tokenizer.json.
bool vocabulary_write(Buffer *out, const Vocabulary *v, const char **name, Error *error) {
    bool spm = !strcmp(v->model, "llama");
    *name = spm ? "tokenizer.model" : "tokenizer.json";
    if (!spm) return write_json(out, v, error);
    write_model(out, v);
    return true;
}

// ---- tokenizer_config.json ----

// clean_up_tokenization_spaces would change decoded text ("a ." -> "a."), so it is switched off.
void vocabulary_write_config(Buffer *out, const Vocabulary *v) {
    const struct {
        const char *name;
        int id;
    } tokens[] = {{"bos_token", v->bos_id},
                  {"eos_token", v->eos_id},
                  {"unk_token", v->unk_id},
                  {"pad_token", v->pad_id}};
    bool spm = !strcmp(v->model, "llama");
    buffer_print(out, "{\n  \"tokenizer_class\": \"%s\"",
                 spm ? "LlamaTokenizer" : "PreTrainedTokenizerFast");
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++) {
        if (tokens[i].id < 0) continue;
        buffer_print(out, ",\n  \"%s\": ", tokens[i].name);
        put_quoted(out, v->tokens[tokens[i].id]);
    }
    if (v->add_bos >= 0)
        buffer_print(out, ",\n  \"add_bos_token\": %s", v->add_bos ? "true" : "false");
    if (v->add_eos >= 0)
        buffer_print(out, ",\n  \"add_eos_token\": %s", v->add_eos ? "true" : "false");
    if (spm)
        buffer_print(out, ",\n  \"add_prefix_space\": %s",
                     v->add_space_prefix != 0 ? "true" : "false");
    buffer_print(out, ",\n  \"clean_up_tokenization_spaces\": false\n}\n");
}
