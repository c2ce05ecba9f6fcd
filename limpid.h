// limpid.h: small language models in a C program. docs/library.md explains it.
//
//     limpid_model *model = limpid_open("SmolLM2.gguf", NULL, &error);
//     limpid_context *context = limpid_context_open(model, NULL, &error);
//     limpid_sampler *sampler = limpid_sampler_open(context, NULL, &error);
//     int n = limpid_tokenize(model, "Once upon a time", 16, LIMPID_BEGIN, ids, 64, &error);
//     limpid_eval(context, &(limpid_batch){.n = n, .tokens = ids}, &error);
//     int id = limpid_sample(sampler, limpid_logits(context, 0), &error);
//
// What can fail returns NULL, false or -1, and then fills `error` (NULL: nobody asks). Nothing is
// printed, no signal is handled, nothing is kept outside the handles: several models may run in
// several threads at once, a model with all that was opened of it in one thread at a time. Samplers
// are closed before their context and grammar, these before their model; closing NULL does nothing.
//
// A handle that is NULL, and any other NULL where something is needed, is an error of code 2
// ("model is NULL: see the error of limpid_open") or, of a function without `error`, what it
// returns where there is nothing. So the lines above may run unchecked: each behind one that
// failed fails too, and overwrites `error`, which is why a program checks each or has several.
#ifndef LIMPID_H
#define LIMPID_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif
#define LIMPID_VERSION "0.1.0"
#pragma GCC visibility push(default) // these names alone leave the shared library
const char *limpid_version(void);    // of the library that is linked

typedef struct limpid_model limpid_model;     // a file: config, tokenizer, chat format
typedef struct limpid_context limpid_context; // its weights at work, a cache of keys and values
typedef struct limpid_grammar limpid_grammar; // which texts are allowed
typedef struct limpid_sampler limpid_sampler; // logits -> token, with a generator of its own

// 2 arguments, 3 file, 4 input/output, 5 memory, 6 device, 7 NaN or infinity, 130 stopped.
typedef struct limpid_error {
    int code;
    char message[384]; // printable ASCII, one line
} limpid_error;

// A .gguf, .safetensors or llama2.c .bin file, a directory with them, or "builtin". `tokenizer`: a
// file or directory of its own; NULL: the model's, which some models lack. Files stay mapped.
limpid_model *limpid_open(const char *path, const char *tokenizer, limpid_error *error);
// The bytes of a GGUF or llama2.c file, borrowed until limpid_close.
limpid_model *limpid_open_memory(const void *bytes, size_t size, const char *tokenizer,
                                 limpid_error *error);
void limpid_close(limpid_model *model);

typedef struct limpid_info {
    const char *family, *tokenizer, *chat; // "llama", ..; NULL: has none. Borrowed from the model
    int vocab_size, max_context, dim, n_layers, n_heads, n_kv_heads, head_dim, bos; // bos -1: none
} limpid_info;
limpid_info limpid_describe(const limpid_model *model);

// Text to ids and back. Both return how many ids or bytes there are, and write those that fit.
enum {
    LIMPID_BEGIN = 1,   // the text begins here: BOS where the model wants one, a leading space of
                        // SPM vocabularies is dropped
    LIMPID_SPECIAL = 2, // control tokens: "<|im_end|>" is one, and is written
};
int limpid_tokenize(const limpid_model *model, const char *text, size_t length, int flags,
                    int32_t *ids, size_t capacity, limpid_error *error);
// A character may be in two tokens: bytes, not terminated.
int limpid_detokenize(limpid_model *model, const int32_t *ids, size_t count, int flags, char *text,
                      size_t capacity, limpid_error *error);
bool limpid_ends(const limpid_model *model, int32_t id); // a text or an answer

// The ids of a conversation in the model's format, with the beginning of an answer. `role`:
// "system", "user" or "assistant". As limpid_tokenize; code 2 where the format is not known, and
// then LIMPID_SPECIAL reads a text that has the control tokens in it.
typedef struct limpid_message {
    const char *role, *text;
} limpid_message;
int limpid_chat(const limpid_model *model, const limpid_message *messages, size_t count,
                int32_t *ids, size_t capacity, limpid_error *error);

enum { LIMPID_F32 = 1, LIMPID_A16, LIMPID_A8 };            // activations: float32, int16, int8
enum { LIMPID_KV_F32 = 1, LIMPID_KV_F16, LIMPID_KV_BF16 }; // what the cache holds
typedef struct limpid_options {
    int context;         // tokens of a sequence; 0: the model's most, up to 4096
    int sequences;       // texts in the cache; 0: 1
    int threads;         // 0: as many as this process may use
    int precision, kv;   // 0: LIMPID_A16; LIMPID_KV_F16, and F32 with precision F32
    int max_rows;        // tokens computed together; 0: 512
    int max_logit_rows;  // rows of logits from one limpid_eval; 0: 1
    const char *pattern; // keys that a token sees, "local:64+global:4"; NULL: as the model has it
    // NULL, or what ends a limpid_eval early while it is not 0. It is read by relaxed atomic loads;
    // another thread sets it by an atomic store, a signal handler also as a sig_atomic_t (an int).
    // It ends what a grammar works out as well: limpid_sampler_open, _sample, _accept, _ending.
    const int *stop;
    void (*progress)(void *user, double share); // NULL, or of loading: 0 .. 1
    void *user;
    bool full_cache; // layers with a window keep every token, not only what the window still sees
} limpid_options;
// Loads the weights. options NULL: all 0. Sequences share the weights, contexts do not.
limpid_context *limpid_context_open(limpid_model *model, const limpid_options *options,
                                    limpid_error *error);
void limpid_context_close(limpid_context *context);

typedef struct limpid_batch {
    int n;
    const int32_t *tokens;    // (n)
    const int32_t *positions; // (n) or NULL: each row continues its sequence
    const int32_t *sequences; // (n) or NULL: all 0
    const bool *wants_logits; // (n) or NULL: the last row alone
} limpid_batch;
// Computes the rows and adds them to the cache. False: the cache is as it was, unless the code is
// 6, 7, or 130: then limpid_length says how many tokens each sequence still has. A batch of at most
// max_rows rows that continue their sequences leaves all of it.
bool limpid_eval(limpid_context *context, const limpid_batch *batch, limpid_error *error);
// (vocab_size) of the i-th row that wanted them, borrowed until the next limpid_eval; or NULL.
const float *limpid_logits(const limpid_context *context, int i);

// The cache: tokens in a sequence (-1: no such sequence), the first `length` of them kept, one
// sequence made equal to another. False: there is no such sequence or length, or layers with a
// window have lost what it needs: limpid_rewinds is the least length but 0 that they can go back to
// (0: any): max_rows tokens before the longest that the sequence has been, or less.
int limpid_length(const limpid_context *context, int sequence);
int limpid_rewinds(const limpid_context *context, int sequence);
bool limpid_truncate(limpid_context *context, int sequence, int length);
bool limpid_copy(limpid_context *context, int to, int from);
// What a sequence holds, as bytes for a context of the same model and options: limpid_save fills
// limpid_state_size of them; `length` is the sequence's when they were saved. The ids are not in
// it.
size_t limpid_state_size(const limpid_context *context, int length); // 0: none, or too long
bool limpid_save(const limpid_context *context, int sequence, void *bytes, limpid_error *error);
bool limpid_restore(limpid_context *context, int sequence, int length, const void *bytes,
                    size_t size, limpid_error *error);

// GBNF or a JSON schema (docs/grammar.md); the text is not needed afterwards. What ends a text is
// allowed where the grammar accepts the text so far. LIMPID_ENDLESS: such ids end none.
enum { LIMPID_GBNF = 1, LIMPID_JSON_SCHEMA = 2, LIMPID_ENDLESS = 4 };
limpid_grammar *limpid_grammar_open(limpid_model *model, int flags, const char *text, size_t length,
                                    limpid_error *error);
void limpid_grammar_close(limpid_grammar *grammar);

typedef struct limpid_bias {
    int32_t id;
    float bias; // added to its logit; -INFINITY: never, unless all have it
} limpid_bias;
typedef struct limpid_sampling {                // all 0: the likeliest token
    float temperature, top_p, min_p, typical_p; // 0: off
    int top_k;
    float repeat_penalty, presence_penalty, frequency_penalty; // of tokens accepted; 0: off
    int repeat_last; // of the newest so many; 0: all, at most one more than the context
    uint64_t seed;
    float xtc_probability, xtc_threshold; // probability 0: off
    float mirostat_tau, mirostat_eta;     // tau 0: off; in place of the cuts: top_k .. xtc
    float dry_multiplier, dry_base;       // multiplier 0: off; usual base 1.75, length 2
    int dry_allowed_length, dry_last;     // dry_last as repeat_last
    const char *const *dry_breakers;      // (n_dry_breakers) texts; NULL: newline : " *
    const limpid_bias *biases;            // (n_biases)
    const float *numbers; // (n_numbers) in place of the generator's first, of limpid_sampler_number
    size_t n_dry_breakers, n_biases, n_numbers;
    const limpid_grammar *grammar; // NULL: any text. It and numbers are borrowed, all else copied
} limpid_sampling;
limpid_sampler *limpid_sampler_open(limpid_context *context, const limpid_sampling *sampling,
                                    limpid_error *error);
void limpid_sampler_close(limpid_sampler *sampler);
// A text begins behind these n tokens, which penalties count too: grammar and mirostat begin anew.
// LIMPID_BEGIN: its first token has no leading space, as behind BOS alone. The first text of a
// sampler needs this for penalties only.
bool limpid_sampler_begin(limpid_sampler *sampler, const int32_t *prompt, size_t n, int flags,
                          limpid_error *error);
// A text with a grammar should be complete after at most so many more tokens (0: no bound). In
// place of a token that leaves too few for the shortest completion limpid_sample draws another,
// with the next random number, where there is one that leaves enough. False: there is no sampler.
bool limpid_sampler_within(limpid_sampler *sampler, size_t tokens);
int32_t limpid_sample(limpid_sampler *sampler, const float *logits, limpid_error *error);
// The next token of the text. False, and nothing has changed: among others, the grammar forbids it.
bool limpid_sampler_accept(limpid_sampler *sampler, int32_t id, limpid_error *error);
// Takes back the newest n tokens of prompt and text; numbers and mirostat go on. False: too many.
bool limpid_sampler_forget(limpid_sampler *sampler, size_t n);
// Whether the grammar accepts the text so far, and whether anything may follow. -1: an error.
enum { LIMPID_GOES_ON, LIMPID_MAY_END, LIMPID_MUST_END };
int limpid_sampler_ending(limpid_sampler *sampler, limpid_error *error);
// In [0, 1): what the last token was drawn with. 0: none yet.
float limpid_sampler_number(const limpid_sampler *sampler);

// Intermediate results, as limpid_eval comes by them. All pointers are for the call only.
typedef struct limpid_stage {
    const char *name;                              // "q", "att_weights", "layer_out", ..
    int layer;                                     // -1: outside the layers
    int n;                                         // rows
    const int32_t *tokens, *positions, *sequences; // (n)
    int shape[4];                                  // slowest first, shape[0] is n; 0 ends it
    float *data;                                   // of that shape
} limpid_stage;
// True: it has changed the data. Changed "att_weights" change nothing: the values are summed
// already. Nor does a changed "att_norm" or "ffn_norm" in families without that norm (OLMo 2).
typedef bool limpid_listener(void *user, limpid_stage *stage);
// `stages`: their names with a space between; NULL: all but "att_weights". listener NULL: no more.
bool limpid_listen(limpid_context *context, const char *stages, limpid_listener *listener,
                   void *user, limpid_error *error);
#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
