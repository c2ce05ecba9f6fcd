// Config and Vocabulary -> keys: config.c, families.c and vocabulary.c the other
// way. What an architecture implies is checked, what it has no key for is refused by name.
//
//     gguf_put_model    general.*  ->  sizes  ->  scales, windows, rope  ->  vocabulary
//
// The rule for every put_ function: reading the key back has to give the same Config. Where a key
// does not exist, the value has to be the one that the architecture implies; anything else is
// refused (cannot), never rounded or left out.
#include "weights/container.h"
#include "weights/gguf/gguf.h"
#include "weights/out/gguf.h"
#include "weights/quant.h"
#include "weights/roles.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Put {
    GgufKeys *keys;
    const Config *config;
    const char *architecture;
    Error *error;
} Put;

typedef char KeyText[96];

// ".block_count" -> "llama.block_count"
static const char *key_of(KeyText out, const Put *p, const char *key) {
    snprintf(out, sizeof(KeyText), "%s%s", p->architecture, key);
    return out;
}

// Types as llama.cpp reads them: sizes are u32, scales f32.
static void number(const Put *p, const char *key, int value) {
    KeyText text;
    gguf_put_u32(p->keys, key_of(text, p, key), (uint32_t)value);
}

static void real(const Put *p, const char *key, float value) {
    KeyText text;
    gguf_put_f32(p->keys, key_of(text, p, key), value);
}

static void word(const Put *p, const char *key, const char *value) {
    KeyText text;
    gguf_put_text(p->keys, key_of(text, p, key), (TextSpan){value, strlen(value)});
}

// False, with exit code 3.
static bool cannot(const Put *p, const char *what) {
    return error_set(p->error, ERROR_FILE, "GGUF architecture \"%s\" has no key for %s",
                     p->architecture, what);
}

// ---- sizes and kinds ----

// All are written, also those with a default: other programs need some of them.
static void put_sizes(const Put *p) {
    const Config *c = p->config;
    number(p, ".block_count", c->n_layers);
    number(p, ".context_length", c->max_seq_len);
    number(p, ".embedding_length", c->dim);
    number(p, ".feed_forward_length", c->hidden_dim);
    number(p, ".vocab_size", c->vocab_size);
    number(p, ".attention.head_count", c->n_heads);
    number(p, ".attention.head_count_kv", c->n_kv_heads);
    number(p, ".attention.key_length", c->head_dim);
    number(p, ".attention.value_length", c->head_dim);
    real(p,
         c->norm == NORM_LAYER ? ".attention.layer_norm_epsilon"
                               : ".attention.layer_norm_rms_epsilon",
         c->norm_eps);
}

static bool same_kinds(const Put *p, const Config *implied) {
    const Config *c = p->config;
    if (c->activation != implied->activation) return cannot(p, "its activation");
    if (c->norm != implied->norm || c->qk_norm != implied->qk_norm ||
        c->qk_norm_after_rope != implied->qk_norm_after_rope)
        return cannot(p, "its norms");
    const GgufScales can = gguf_scales(p->architecture);
    if (c->gated_ffn != implied->gated_ffn || c->position != implied->position ||
        (c->parallel_residual != implied->parallel_residual && !can.parallel))
        return cannot(p, "the form of its layers");
    if (c->rope.sign != implied->rope.sign) return cannot(p, "the direction of its rotation");
    if (c->embedding_scale != implied->embedding_scale && !can.granite)
        return cannot(p, "the scale of its embedding");
    bool none = can.rope_switch && c->layers[0].no_rope; // then in no layer
    for (int l = 0; l < c->n_layers; l++)
        if (c->layers[l].no_rope != (none || implied->layers[l].no_rope))
            return cannot(p, "which of its layers do not rotate");
    return true;
}

// The kinds of arithmetic are the architecture's: what a reader will take it for must be what the
// model does.
//
// `implied` is built as the reader builds it, then compared field by field.
static bool check_kinds(const Put *p, const Outgoing *out) {
    Config *implied = malloc(sizeof *implied); // too large for the stack
    if (!implied) return error_set(p->error, ERROR_MEMORY, "out of memory for a configuration");
    config_init(implied);
    implied->n_layers = p->config->n_layers;
    implied->dim = p->config->dim;
    for (int l = 0; l < p->config->n_layers; l++)
        implied->layers[l].window = p->config->layers[l].window;
    family_defaults(out->family, implied);
    gguf_implied(p->architecture, implied);
    bool same = same_kinds(p, implied);
    free(implied);
    return same;
}

// Granite's scales, its rope that may be off, GPT-NeoX's form of a layer, Ministral's queries.
static bool put_other_scales(const Put *p, const GgufScales *can) {
    const Config *c = p->config;
    KeyText text;
    if (can->granite) {
        real(p, ".embedding_scale", c->embedding_scale);
        real(p, ".residual_scale", c->residual_scale);
        real(p, ".logit_scale", c->logit_divisor);
    }
    if (!can->granite && (c->residual_scale != 1.0f || c->logit_divisor != 1.0f))
        return cannot(p, "the scales of its blocks and logits");
    if (can->rope_switch && c->layers[0].no_rope)
        gguf_put_bool(p->keys, key_of(text, p, ".rope.scaling.finetuned"), false);
    if (can->parallel)
        gguf_put_bool(p->keys, key_of(text, p, ".use_parallel_residual"), c->parallel_residual);
    if (can->query_growth && c->rope.query_growth > 0.0f) {
        real(p, ".attention.temperature_scale", c->rope.query_growth);
        if (c->rope.scaling != ROPE_YARN && c->rope.scaling != ROPE_LONGROPE) // which write it too
            number(p, ".rope.scaling.original_context_length", c->rope.original_max_seq_len);
    }
    return can->query_growth || c->rope.query_growth == 0.0f || cannot(p, "queries that grow");
}

// Gemma always gets the key, since its reader takes another default for its largest model.
static bool put_scales(const Put *p) {
    const Config *c = p->config;
    const GgufScales can = gguf_scales(p->architecture);
    float scale = c->layers[0].attention_scale, usual = (float)(1.0 / sqrt((double)c->head_dim));
    for (int l = 1; l < c->n_layers; l++)
        if (c->layers[l].attention_scale != scale)
            return cannot(p, "scores that are scaled differently in every layer");
    if (scale != usual || !strcmp(p->architecture, "gemma3") || !strcmp(p->architecture, "gemma2"))
        real(p, ".attention.scale", scale);
    if (c->logit_softcap > 0.0f || can.logit_cap > 0.0f)
        real(p, ".final_logit_softcapping", c->logit_softcap);
    if (can.score_cap > 0.0f)
        real(p, ".attn_logit_softcapping", c->score_softcap);
    else if (c->score_softcap != 0.0f)
        return cannot(p, "a cap of its scores");
    return put_other_scales(p, &can);
}

// ---- windows ----

// The theta of the layers with a window, where it is a number of its own.
static bool put_local_rope(const Put *p, const GgufWindows *can, const bool *slides) {
    const Config *c = p->config;
    for (int l = 0; l < c->n_layers; l++)
        if (c->layers[l].local_rope != (can->local_rope && slides[l]))
            return cannot(p, "which of its layers have a theta of their own");
    if (!can->local_rope) return true;
    if (c->rope_local.scaling != ROPE_PLAIN)
        return cannot(p, "a scaling of the rope in layers with a window");
    if (can->theta_key || c->rope_local.theta != c->rope.theta)
        real(p, ".rope.freq_base_swa", c->rope_local.theta);
    return true;
}

// Whether all layers rotate alike.
static bool has_one_rope(const Config *c) {
    bool local = false;
    for (int l = 0; l < c->n_layers; l++)
        local |= c->layers[l].local_rope;
    return !local || (c->rope_local.theta == c->rope.theta && c->rope.scaling == ROPE_PLAIN &&
                      c->rope_local.scaling == ROPE_PLAIN);
}

// slides: the model; implied: what the architecture says without a key. The pattern key is written
// only where they differ and the architecture has one.
static bool put_windows(const Put *p) {
    const Config *c = p->config;
    bool slides[LIMIT_LAYERS], implied[LIMIT_LAYERS], usual = true, all = true;
    int window = 0;
    GgufWindows can = gguf_implied_windows(p->architecture, c->n_layers, implied);
    for (int l = 0; l < c->n_layers; l++) {
        int here = c->layers[l].window;
        if (here && window && here != window) return cannot(p, "windows of several sizes");
        if (here) window = here;
        slides[l] = here > 0;
        usual &= slides[l] == implied[l];
        all &= slides[l];
    }
    if (!window && can.window) return cannot(p, "layers without a window, which it implies");
    if (!window)
        return has_one_rope(c) || cannot(p, "which of its layers have a rope of their own");
    if (!can.pattern && !all) return cannot(p, "windows in some of its layers");
    number(p, ".attention.sliding_window", window);
    KeyText text;
    if (can.pattern && !usual)
        gguf_put_bools(p->keys, key_of(text, p, ".attention.sliding_window_pattern"), slides,
                       (size_t)c->n_layers);
    return put_local_rope(p, &can, slides);
}

// ---- rope ----

// cos and sin are multiplied by (0.1 ln factor + 1) times this key. The nearest that comes back as
// the factor meant, where the model's is not the formula's; where none does, a second key has the
// factor itself, which llama.cpp does not read.
static void put_yarn_factor(const Put *p, float wanted) {
    const RopeConfig *rope = &p->config->rope;
    float formula = rope->factor > 1.0f ? 0.1f * logf(rope->factor) + 1.0f : 1.0f;
    float factor = wanted / formula, up = nextafterf(factor, INFINITY),
          down = nextafterf(factor, 0.0f);
    if (factor * formula != wanted && up * formula == wanted) factor = up;
    if (factor * formula != wanted && down * formula == wanted) factor = down;
    real(p, ".rope.scaling.attn_factor", factor);
    if (factor * formula != wanted) real(p, ".rope.scaling.yarn_attn_factor", wanted);
}

// mscale and mscale_all_dim have no keys: where they are equal their quotient is 1, which
// attn_factor can say.
static bool put_yarn(const Put *p) {
    const RopeConfig *rope = &p->config->rope;
    bool both = rope->mscale > 0.0f && rope->mscale_all_dim > 0.0f;
    bool log_key = gguf_scales(p->architecture).query_growth && rope->mscale == 1.0f;
    word(p, ".rope.scaling.type", "yarn");
    real(p, ".rope.scaling.factor", rope->factor);
    number(p, ".rope.scaling.original_context_length", rope->original_max_seq_len);
    real(p, ".rope.scaling.yarn_beta_fast", rope->beta_fast > 0.0f ? rope->beta_fast : 32.0f);
    real(p, ".rope.scaling.yarn_beta_slow", rope->beta_slow > 0.0f ? rope->beta_slow : 1.0f);
    if (rope->no_truncate) return cannot(p, "YaRN without rounding (\"truncate\": false)");
    if (rope->attention_factor > 0.0f)
        put_yarn_factor(p, rope->attention_factor);
    else if (both && log_key)
        real(p, ".rope.scaling.yarn_log_multiplier", rope->mscale_all_dim);
    else if (both && rope->mscale != rope->mscale_all_dim)
        return cannot(p, "YaRN with two mscales");
    else if (both)
        put_yarn_factor(p, 1.0f);
    return true;
}

// The presence of the factor tensors marks longrope. llama.cpp needs the attention factor as a
// number where transformers computes it, and would read a rope.scaling.factor as linear scaling.
static void put_longrope(const Put *p) {
    const RopeConfig *rope = &p->config->rope;
    bool formula = rope->attention_factor == 0.0f;
    number(p, ".rope.scaling.original_context_length", rope->original_max_seq_len);
    real(p, ".rope.scaling.attn_factor",
         formula ? gguf_longrope_factor(rope) : rope->attention_factor);
}

static bool put_rope(const Put *p) {
    const Config *c = p->config;
    const RopeConfig *rope = &c->rope;
    if (c->position != POSITION_ROPE) return true;
    if (rope->exponent_dim) return cannot(p, "an odd number of rotary channels");
    number(p, ".rope.dimension_count", c->rope_dim);
    real(p, ".rope.freq_base", rope->theta);
    switch (rope->scaling) {
    case ROPE_PLAIN:
    case ROPE_LLAMA3: break; // a tensor: outgoing.c
    case ROPE_LINEAR:
        word(p, ".rope.scaling.type", "linear");
        real(p, ".rope.scaling.factor", rope->factor);
        break;
    case ROPE_YARN: return put_yarn(p);
    case ROPE_LONGROPE: put_longrope(p); break;
    case ROPE_DYNAMIC_NTK: return cannot(p, "rope scaling that grows with the text (dynamic NTK)");
    }
    return true;
}

// ---- what a file says of itself ----

// general.file_type, as llama.cpp numbers what most of the tensors are.
// (enum llama_ftype in llama.cpp's include/llama.h.) It is information only; readers use each
// tensor's own type. The K-quants are numbered as their medium mixes.
static uint32_t file_type(DType dtype) {
    switch (dtype) {
    case DTYPE_F32: return 0;
    case DTYPE_Q4_0: return 2;
    case DTYPE_Q4_1: return 3;
    case DTYPE_Q8_0: return 7;
    case DTYPE_Q5_0: return 8;
    case DTYPE_Q5_1: return 9;
    case DTYPE_Q2_K: return 10;
    case DTYPE_Q3_K: return 12;
    case DTYPE_Q4_K: return 15;
    case DTYPE_Q5_K: return 17;
    case DTYPE_Q6_K: return 18;
    case DTYPE_BF16: return 32;
    default: return 1; // F16
    }
}

// What most bytes of the matrices are.
static DType usual_type(const Outgoing *out) {
    uint64_t bytes[DTYPE_COUNT] = {0};
    DType most = DTYPE_F32;
    for (size_t i = 0; i < out->n; i++)
        if (out->tensors[i].n_dims == 2) bytes[out->tensors[i].dtype] += out->tensors[i].bytes;
    for (DType dtype = 0; dtype < DTYPE_COUNT; dtype++)
        if (bytes[dtype] > bytes[most]) most = dtype;
    return most;
}

static void put_generation(const Put *p, const GenerationDefaults *defaults) {
    for (int i = 0; i < GGUF_SAMPLING_KEYS; i++) {
        float value;
        size_t offset = GGUF_SAMPLING[i].offset;
        memcpy(&value, (const char *)defaults + offset, sizeof value);
        if (value < 0.0f) continue;
        if (offset == offsetof(GenerationDefaults, top_k))
            gguf_put_i32(p->keys, GGUF_SAMPLING[i].key, (int32_t)value);
        else
            gguf_put_f32(p->keys, GGUF_SAMPLING[i].key, value);
    }
}

static void put_general(const Put *p, const Outgoing *out, TextSpan name) {
    gguf_put_text(p->keys, "general.architecture",
                  (TextSpan){p->architecture, strlen(p->architecture)});
    gguf_put_text(p->keys, "general.type", (TextSpan){"model", 5});
    if (name.length) gguf_put_text(p->keys, "general.name", name);
    for (int i = 0; i < ABOUT_KEYS; i++) {
        char key[64];
        snprintf(key, sizeof key, "general.%s", ABOUT_NAMES[i]);
        TextSpan text = checkpoint_about(out->from)[i];
        if (text.length) gguf_put_text(p->keys, key, text);
    }
    put_generation(p, checkpoint_generation(out->from));
    DType usual = usual_type(out);
    gguf_put_u32(p->keys, "general.file_type", file_type(usual));
    // GGML_QNT_VERSION of ggml.h.
    if (dtype_info(usual)->block > 1) gguf_put_u32(p->keys, "general.quantization_version", 2);
}

// ---- vocabulary ----

// An absent id or flag has no key.
static void put_id(GgufKeys *keys, const char *key, int id) {
    if (id >= 0) gguf_put_u32(keys, key, (uint32_t)id);
}

static void put_flag(GgufKeys *keys, const char *key, int flag) {
    if (flag >= 0) gguf_put_bool(keys, key, flag != 0);
}

// Ids that end a text: the vocabulary's, and what the Config has besides.
static bool put_ids(const Put *p, const Vocabulary *v) {
    const Config *c = p->config;
    int ends[3] = {v->eos_id, v->eot_id, v->eom_id};
    for (int i = 0; i < c->n_eos_ids; i++) {
        // Backwards, so that the first free place is the one that remains.
        int id = c->eos_ids[i], free_place = -1;
        bool known = false;
        for (int j = 2; j >= 0; j--) {
            known |= ends[j] == id;
            if (ends[j] < 0) free_place = j;
        }
        if (known) continue;
        if (free_place < 0) return cannot(p, "more than three ids that end a text");
        ends[free_place] = id;
    }
    put_id(p->keys, "tokenizer.ggml.bos_token_id", v->bos_id >= 0 ? v->bos_id : c->bos_id);
    put_id(p->keys, "tokenizer.ggml.eos_token_id", ends[0]);
    put_id(p->keys, "tokenizer.ggml.eot_token_id", ends[1]);
    put_id(p->keys, "tokenizer.ggml.eom_token_id", ends[2]);
    put_id(p->keys, "tokenizer.ggml.unknown_token_id", v->unk_id);
    put_id(p->keys, "tokenizer.ggml.padding_token_id", v->pad_id);
    put_flag(p->keys, "tokenizer.ggml.add_bos_token", v->add_bos);
    put_flag(p->keys, "tokenizer.ggml.add_eos_token", v->add_eos);
    put_flag(p->keys, "tokenizer.ggml.add_space_prefix", v->add_space_prefix);
    return true;
}

// llama.cpp's converter writes the user-defined pieces of SentencePiece with spaces, and llama.cpp
// looks for them in the text as it is.
static TextSpan spaced(Arena *arena, TextSpan piece, Error *error) {
    char *text = arena_alloc(arena, piece.length + 1, 1, error);
    if (!text) return (TextSpan){0};
    return (TextSpan){text, span_replace(text, piece, (TextSpan){"\u2581", 3}, (TextSpan){" ", 1})};
}

// The embedding may have more rows than there are tokens: they get names, as llama.cpp's converter
// gives them. It may have fewer: tokens without a row cannot be used.
//
// The lists are made anew in an arena of this function; gguf_put_* copies them into the keys.
static bool put_tokens(const Put *p, const Vocabulary *v) {
    size_t rows = (size_t)p->config->vocab_size;
    Arena arena = {0};
    TextSpan *tokens = arena_alloc(&arena, rows, sizeof *tokens, p->error);
    float *scores = arena_alloc(&arena, rows, sizeof *scores, p->error);
    uint8_t *types = arena_alloc(&arena, rows, 1, p->error);
    bool good = tokens && scores && types;
    for (size_t i = 0; good && i < rows; i++) {
        bool there = i < v->n_tokens;
        char name[32];
        int length = there ? 0 : snprintf(name, sizeof name, "[PAD%zu]", i);
        const char *pad = there ? "" : arena_text(&arena, name, (size_t)length, p->error);
        good = pad != NULL;
        tokens[i] = there ? v->tokens[i] : (TextSpan){pad, (size_t)length};
        // -1e6: no merge can prefer a padding token.
        scores[i] = there && v->scores ? v->scores[i] : there ? 0.0f : -1e6f;
        types[i] = !there ? TOKEN_UNUSED : v->types ? v->types[i] : TOKEN_NORMAL;
        if (good && there && types[i] == TOKEN_USER_DEFINED && !strcmp(v->model, "llama"))
            good = (tokens[i] = spaced(&arena, tokens[i], p->error)).text;
    }
    if (good) gguf_put_texts(p->keys, "tokenizer.ggml.tokens", tokens, rows);
    if (good && v->scores) gguf_put_f32s(p->keys, "tokenizer.ggml.scores", scores, rows);
    if (good && v->types) gguf_put_types(p->keys, "tokenizer.ggml.token_type", types, rows);
    arena_free(&arena);
    return good;
}

static bool put_vocabulary(const Put *p, const Vocabulary *v) {
    gguf_put_text(p->keys, "tokenizer.ggml.model", (TextSpan){v->model, strlen(v->model)});
    if (v->pre) gguf_put_text(p->keys, "tokenizer.ggml.pre", (TextSpan){v->pre, strlen(v->pre)});
    if (!put_tokens(p, v)) return false;
    if (v->merges) gguf_put_texts(p->keys, "tokenizer.ggml.merges", v->merges, v->n_merges);
    if (!put_ids(p, v)) return false;
    if (v->chat_template.length)
        gguf_put_text(p->keys, "tokenizer.chat_template", v->chat_template);
    return true;
}

// Keys that only others use: ids for fill-in-the-middle, more chat templates, sources. Those of
// another vocabulary than the file's would be ids of other tokens.
static void put_others(const Put *p, const Checkpoint *from, bool same_tokens) {
    static const char *const OF_THE_FILE[] = {"general.alignment", "general.quantization_version"};
    for (size_t i = 0; i < from->n_keys; i++) {
        const char *name = from->keys[i].text + 8;
        size_t length = (size_t)load_u64((const uint8_t *)from->keys[i].text);
        bool left_out = !same_tokens && *name == 't';
        for (size_t j = 0; j < sizeof OF_THE_FILE / sizeof *OF_THE_FILE; j++)
            left_out |= length == strlen(OF_THE_FILE[j]) && !memcmp(name, OF_THE_FILE[j], length);
        if (!left_out) gguf_put_new(p->keys, from->keys[i]);
    }
}

// Without a vocabulary the special ids are left out: they would index an absent list.
bool gguf_put_model(GgufKeys *keys, const Outgoing *out, const Vocabulary *vocabulary,
                    TextSpan name, Error *error) {
    Put p = {.keys = keys,
             .config = &out->from->config,
             .architecture = out->family->called[NAMES_GGUF],
             .error = error};
    put_general(&p, out, name);
    put_sizes(&p);
    if (!check_kinds(&p, out) || !put_scales(&p) || !put_windows(&p) || !put_rope(&p)) return false;
    if (!vocabulary->model)
        gguf_put_text(keys, "tokenizer.ggml.model", (TextSpan){"none", 4});
    else if (!put_vocabulary(&p, vocabulary))
        return false;
    put_others(&p, out->from,
               vocabulary->model && vocabulary->tokens == out->from->vocabulary.tokens);
    return true;
}
