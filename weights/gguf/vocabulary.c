// The vocabulary of a GGUF file: lists of equal length, typed numbers, ids that exist. What pieces,
// scores and merges mean is the tokenizer's business.
//
//     tokenizer.ggml.
//     .model      string     "llama": SPM-BPE, "gpt2": byte-level BPE
//     .pre        string     byte-level BPE: the name of its splitting pattern
//     .tokens     string[n]  spellings: "▁the" in SPM, "Ġthe" in byte-level BPE
//     .scores     f32[n]     SPM: a higher score merges first
//     .token_type i32[n]     TokenType
//     .merges     string[]   byte-level BPE: "left right", the first has the lowest rank
//     .bos_token_id ..       u32; add_bos_token ..: bool
//
// All but model and tokens may be absent. Spans point into the loaded header, which lives as long
// as the checkpoint.
#include "weights/gguf/gguf.h"

#include <math.h>
#include <string.h>

// The strings of an array as spans.
// NULL with `error` set where an entry is longer than `longest`. The lengths have been walked once
// by gguf.c, so they are inside the array.
static const TextSpan *read_spans(const Gguf *g, const char *key, const GgufValue *array,
                                  size_t longest, Error *error) {
    TextSpan *spans = arena_alloc(&g->checkpoint->arena, array->count, sizeof *spans, error);
    Bytes in = bytes_over(array->bytes, array->size, error);
    for (uint64_t i = 0; spans && i < array->count; i++) {
        spans[i] = bytes_string(&in, key);
        if (spans[i].length > longest)
            gguf_fail(g, key, error, "entry %llu has %zu bytes, at most %zu are read",
                      (unsigned long long)i, spans[i].length, longest);
        if (in.failed || spans[i].length > longest) return NULL;
    }
    return spans;
}

// scores and token_type have one entry for each token.
static bool same_length(const Gguf *g, const char *key, const GgufValue *array, Error *error) {
    size_t wanted = g->checkpoint->vocabulary.n_tokens;
    return array->count == wanted || gguf_fail(g, key, error, "%llu entries for %zu tokens",
                                               (unsigned long long)array->count, wanted);
}

// The number of tokens comes from here; the other lists are compared with it.
static bool read_tokens(const Gguf *g, Vocabulary *v, Error *error) {
    static const char KEY[] = "tokenizer.ggml.tokens";
    const GgufValue *array;
    if (!gguf_array(g, KEY, GGUF_STRING, &array, error)) return false;
    if (!array) return gguf_fail(g, KEY, error, "is missing");
    if (array->count < 1 || array->count > LIMIT_VOCAB)
        return gguf_fail(g, KEY, error, "%llu entries, wanted 1 to %d",
                         (unsigned long long)array->count, LIMIT_VOCAB);
    v->n_tokens = (size_t)array->count;
    v->tokens = read_spans(g, KEY, array, LIMIT_TOKEN_LENGTH, error);
    return v->tokens != NULL;
}

// NaN is refused: the merge queue orders by score, and NaN has no place in an order.
static bool read_scores(const Gguf *g, Vocabulary *v, Error *error) {
    static const char KEY[] = "tokenizer.ggml.scores";
    const GgufValue *array = gguf_find(g, KEY);
    if (!array) return true;
    bool integers = array->type == GGUF_ARRAY && array->element == GGUF_I32; // rare, but it is met
    if (!gguf_array(g, KEY, integers ? GGUF_I32 : GGUF_F32, &array, error) ||
        !same_length(g, KEY, array, error))
        return false;
    float *scores = arena_alloc(&g->checkpoint->arena, array->count, sizeof *scores, error);
    if (!scores) return false;
    for (size_t i = 0; i < v->n_tokens; i++) {
        const uint8_t *at = array->bytes + 4 * i;
        scores[i] = integers ? (float)(int32_t)load_u32(at) : load_f32(at);
        if (isnan(scores[i])) return gguf_fail(g, KEY, error, "entry %zu is not a number", i);
    }
    v->scores = scores;
    return true;
}

static bool read_types(const Gguf *g, Vocabulary *v, Error *error) {
    static const char KEY[] = "tokenizer.ggml.token_type";
    const GgufValue *array;
    if (!gguf_array(g, KEY, GGUF_I32, &array, error)) return false;
    if (!array) return true;
    if (!same_length(g, KEY, array, error)) return false;
    uint8_t *types = arena_alloc(&g->checkpoint->arena, array->count, sizeof *types, error);
    if (!types) return false;
    for (size_t i = 0; i < v->n_tokens; i++) {
        uint32_t type = load_u32(array->bytes + 4 * i);
        if (type > TOKEN_BYTE)
            return gguf_fail(g, KEY, error, "entry %zu is %d, wanted 0 to %d", i, (int)type,
                             TOKEN_BYTE);
        types[i] = (uint8_t)type;
    }
    v->types = types;
    return true;
}

static bool read_merges(const Gguf *g, Vocabulary *v, Error *error) {
    static const char KEY[] = "tokenizer.ggml.merges";
    const GgufValue *array;
    if (!gguf_array(g, KEY, GGUF_STRING, &array, error)) return false;
    if (!array) return true;
    if (array->count > LIMIT_MERGES)
        return gguf_fail(g, KEY, error, "%llu entries, at most %d are read",
                         (unsigned long long)array->count, LIMIT_MERGES);
    v->n_merges = (size_t)array->count;
    // Two tokens and the space between them.
    v->merges = read_spans(g, KEY, array, 2 * LIMIT_TOKEN_LENGTH + 1, error);
    return v->merges != NULL;
}

// An id outside the vocabulary means that there is none; files say so with 2^32 - 1.
static bool read_ids(const Gguf *g, Vocabulary *v, Error *error) {
    const struct {
        const char *key;
        int *id;
    } ids[] = {
        {"tokenizer.ggml.bos_token_id", &v->bos_id},
        {"tokenizer.ggml.eos_token_id", &v->eos_id},
        {"tokenizer.ggml.eot_token_id", &v->eot_id},
        {"tokenizer.ggml.eom_token_id", &v->eom_id},
        {"tokenizer.ggml.unknown_token_id", &v->unk_id},
        {"tokenizer.ggml.padding_token_id", &v->pad_id},
    };
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        uint32_t id = UINT32_MAX;
        if (!gguf_u32(g, ids[i].key, false, &id, error)) return false;
        if (id < v->n_tokens) *ids[i].id = (int)id;
    }
    return true;
}

// An absent flag stays -1: the default depends on the model (tokenizer/).
static bool read_flags(const Gguf *g, Vocabulary *v, Error *error) {
    const struct {
        const char *key;
        int *flag;
    } flags[] = {
        {"tokenizer.ggml.add_bos_token", &v->add_bos},
        {"tokenizer.ggml.add_eos_token", &v->add_eos},
        {"tokenizer.ggml.add_space_prefix", &v->add_space_prefix},
    };
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        bool said = false;
        if (!gguf_find(g, flags[i].key)) continue;
        if (!gguf_bool(g, flags[i].key, &said, error)) return false;
        *flags[i].flag = said;
    }
    return true;
}

// Leaves v->model NULL, and returns true, where the file says that it has no vocabulary.
static bool read_kind(const Gguf *g, Vocabulary *v, Error *error) {
    static const char KEY[] = "tokenizer.ggml.model";
    TextSpan model = {0}, pre = {0};
    if (!gguf_text(g, KEY, false, &model, error) ||
        !gguf_text(g, "tokenizer.ggml.pre", false, &pre, error))
        return false;
    if (!model.text || span_equals(model, "none") || span_equals(model, "no_vocab")) return true;
    if (span_equals(model, "llama"))
        v->model = "llama";
    else if (span_equals(model, "gpt2"))
        v->model = "gpt2";
    else
        return gguf_fail(g, KEY, error, "\"%.*s\" is not supported, wanted llama or gpt2",
                         (int)(model.length < 100 ? model.length : 100), model.text);
    if (pre.text) v->pre = arena_text(&g->checkpoint->arena, pre.text, pre.length, error);
    return !pre.text || v->pre;
}

bool gguf_read_vocabulary(const Gguf *g, Error *error) {
    Vocabulary *v = &g->checkpoint->vocabulary;
    TextSpan template = {0};
    if (!read_kind(g, v, error)) return false;
    if (!v->model) return true;
    if (!read_tokens(g, v, error) || !read_scores(g, v, error) || !read_types(g, v, error) ||
        !read_merges(g, v, error) || !read_ids(g, v, error) || !read_flags(g, v, error) ||
        !gguf_text(g, "tokenizer.chat_template", false, &template, error))
        return false;
    if (template.length <= LIMIT_TEMPLATE) v->chat_template = template; // it is only looked at
    return true;
}
