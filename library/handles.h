// What is behind the handles of limpid.h, and the steps that its functions and the commands share.
// Who includes this may read the structs; they are made and freed by the functions of limpid.h.
//
//   limpid_open          -> Checkpoint -> Tokenizer -> ids that end a text      (file.c)
//   limpid_context_open  -> Model: weights on the device, cache, scratch        (context.c)
//   limpid_grammar_open  -> Grammar, the vocabulary's Trie                      (grammar.c)
//   limpid_sampler_open  -> Sampler; Matcher of one text                        (sampler.c)
#pragma once

#include "base/error.h"
#include "grammar/matcher.h"
#include "limpid.h"
#include "model/model.h"
#include "model/sampler.h"
#include "tokenizer/template/template.h"
#include "tokenizer/tokenizer.h"
#include "weights/checkpoint.h"

// A tokenizer and, where it is one of a GGUF, the checkpoint that its strings lie in.
typedef struct OwnTokenizer {
    Tokenizer *tokenizer;
    Checkpoint *owner;
} OwnTokenizer;

struct limpid_model {
    Checkpoint *checkpoint;
    const Config *config; // of the checkpoint
    OwnTokenizer own;     // own.tokenizer NULL: there is none, and no_tokenizer says why
    Error no_tokenizer;
    bool in_memory;    // no path of it leads anywhere
    int32_t stops[64]; // ids that end a text
    size_t n_stops;
};

struct limpid_context {
    limpid_model *model; // borrowed
    Model *run;
    limpid_listener *listener;
    void *user;
};

// One text that a grammar holds.
typedef struct Constraint {
    const limpid_grammar *grammar; // borrowed; NULL: any text is allowed
    Matcher *matcher;
    uint64_t *mask;  // (words) a bit for each token, where has_mask
    uint64_t *other; // (words) where is_narrow: the mask before
    size_t words, bytes;
    IdList text;    // tokens so far
    size_t most;    // of them, within which the text is to be complete; 0: no bound
    uint32_t least; // of them the shortest text takes; MATCHER_ENDLESS: more, or not known
    Error problem;  // of constraint_refuses
    bool begins;    // the first one's bytes are its own
    bool is_behind; // the matcher has not read `text`
    bool has_mask, must_end;
    bool is_narrow; // the mask has only tokens that leave enough to complete the text
    bool gives_up;  // the bound does not count for this token
} Constraint;

struct limpid_sampler {
    Sampler *sampler;
    int vocab_size;
    Constraint constraint;
};

// How every function of limpid.h ends: `error` (NULL is fine) gets the cause where `good` is false.
// Returns good.
bool library_result(limpid_error *error, bool good, const Error *cause);

// Refuses a NULL of the caller's, with exit code 2. `from`: the function whose error says why it
// is NULL; NULL: there is none.
bool library_given(const void *given, const char *name, const char *from, Error *error);
static inline bool model_given(const limpid_model *m, Error *error) {
    return library_given(m, "model", "limpid_open", error);
}
static inline bool context_given(const limpid_context *c, Error *error) {
    return library_given(c, "context", "limpid_context_open", error);
}
static inline bool sampler_given(const limpid_sampler *s, Error *error) {
    return library_given(s, "sampler", "limpid_sampler_open", error);
}
bool library_id(int32_t id, int vocab_size, Error *error); // of the vocabulary; else exit code 2

// ---- which tokenizer (file.c) ----

// In this order: a vocabulary inside a GGUF or the built-in model; a tokenizer file; the tokenizer
// beside another kind of model. If it is none of these, the message is that of opening it as a
// tokenizer file. vocab_size 0: unknown. False: exit code 3, 4 or 5; `own` is to be closed.
bool own_tokenizer_open(OwnTokenizer *own, const char *path, int vocab_size, Error *error);
// Leaves out control tokens that a model of so many tokens has no weights for (tokenizer_limit).
// False: exit code 3, it is the tokenizer of another model.
bool own_tokenizer_fits(const OwnTokenizer *own, int vocab_size, Error *error);
void own_tokenizer_close(OwnTokenizer *own); // zeroed is fine

// Whether the checkpoint is a llama2.c file, of any version.
bool is_llama2c(const Checkpoint *checkpoint);
bool path_is_gguf(const char *path); // by its first bytes; false also where it cannot be read

// ---- text (text.c) ----

// Appends the ids of a text, with the flags of limpid_tokenize. False: exit code 5.
bool text_to_ids(const Tokenizer *tokenizer, IdList *ids, const char *text, size_t length,
                 int flags, Error *error);

// The bytes of ids[i], which stands at the beginning of a text where `begin`: the first token of it
// then has no leading space, nor has one behind BOS. As tokenizer_piece.
const char *text_piece(Tokenizer *tokenizer, const int32_t *ids, size_t i, bool begin, bool special,
                       size_t *length);

// The format that the model's template or tokens show; NULL: it has none, or no tokenizer.
const ChatTemplate *chat_format(const Checkpoint *checkpoint, const Tokenizer *tokenizer);
// Why there is none, for a message.
const char *chat_format_missing(const Checkpoint *checkpoint);

// ---- sampling (sampler.c) ----

// What limpid_sample does before and after the model's sampler, for who samples with a Decoder:
// the grammar's mask, and whether it has the token. *ended: nothing but an end of the text may
// follow. False: exit code 2, where nothing at all may, or 3, 5, 130.
bool sampler_prepare(limpid_sampler *sampler, bool *ended, Error *error);
bool sampler_check(const limpid_sampler *sampler, int32_t id, Error *error);

// DRY's sequence breakers, by rising head (breakers.c). False: exit code 2 (too many), 3, 5 or 130;
// the caller frees `at`.
typedef struct BreakerList {
    DryBreaker *at; // owned
    size_t count, capacity;
} BreakerList;
bool breakers_find(BreakerList *list, const limpid_model *model, const limpid_sampling *sampling,
                   const int *stop, Error *error);

// ---- one text of a grammar (grammar.c) ----

// Zero it first; the grammar is borrowed until constraint_close. False: exit code 2 (the grammar of
// another model), 3, 5 or 130.
bool constraint_open(Constraint *c, const limpid_grammar *grammar, const limpid_model *model,
                     const int *stop, Error *error);
void constraint_close(Constraint *c); // zeroed is fine
// A text begins; `begins`: as `first` of tokenizer_piece, of its first token.
void constraint_begin(Constraint *c, bool begins);
void constraint_forget(Constraint *c, size_t n); // the newest n tokens; all where there are fewer

// Fills the mask of what may follow. False: as sampler_prepare.
bool constraint_find(Constraint *c, bool *ended, Error *error);
bool constraint_allows(const Constraint *c, int32_t id); // behind constraint_find
// The text is to be complete within so many more tokens; 0: no bound, as constraint_begin leaves
// it.
void constraint_within(Constraint *c, size_t tokens);
// A SamplerRefuses, behind constraint_find: true where the text could not be completed in time
// behind this token, but behind others; these alone are then in the mask. A failure stays in
// `problem`.
bool constraint_refuses(void *constraint, int32_t id);
// False, and nothing has changed: exit code 2 where the grammar does not allow it, or 3, 5, 130.
bool constraint_accept(Constraint *c, int32_t id, Error *error);
// Whether the text so far is one of the grammar's. False: exit code 3, 5, 130.
bool constraint_complete(Constraint *c, bool *complete, Error *error);
