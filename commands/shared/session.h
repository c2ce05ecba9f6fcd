// Session: what a command that runs a model has open. The checkpoint is opened first, then the
// tokenizer, then, when the context is known, the model.
//
//     Session s = {0};
//     good = session_open(&s, options, &error) && session_need_tokenizer(&s, &error) && ...
//            session_open_model(&s, &(SessionModel){.context = 512}, &error);
//     session_close(&s);
#pragma once

#include "commands/intervene/intervene.h"
#include "commands/shared/options.h"
#include "library/handles.h"

typedef struct Session {
    const Options *options;  // borrowed
    double started;          // seconds_now of session_open, or of a chat message: time to the first
                             // token counts from here
    limpid_model *file;      // of limpid_open
    limpid_context *context; // of limpid_context_open
    OwnTokenizer own;        // of session_open_tokenizer
    // What these hold, borrowed.
    Checkpoint *checkpoint;
    const Config *config; // of the checkpoint
    Tokenizer *tokenizer; // NULL where the model has none; session_need_tokenizer says so
    Model *model;
    limpid_grammar *grammar;      // of --grammar or --json-schema, or NULL
    uint64_t grammar_digest;      // FNV-1a of the file
    Interventions *interventions; // of --ablate, --patch and --steer, or NULL
    char sinks[48];               // the pattern of session_use_sinks, or ""
} Session;

typedef struct SessionModel {
    int context;        // 0: the model's
    int threads;        // 0: as the options say
    int n_sequences;    // 0: 1
    int max_rows;       // 0: the default
    int max_logit_rows; // 0: 1
    bool full_cache;    // as in ModelOptions
} SessionModel;

// Opens the model file that the options name, and its tokenizer where it has one. The tokenizer is
// the one of -z, else the vocabulary inside the GGUF, else the files beside the weights.
bool session_open(Session *session, const Options *options, Error *error);
// Without notes about what is odd in the file: `inspect` has them in its report.
bool session_open_quietly(Session *session, const Options *options, Error *error);
// Exit code 3 (or what opening it said) where there is no tokenizer.
bool session_need_tokenizer(const Session *session, Error *error);
// Opens what --grammar or --json-schema names; nothing without them. False: exit code 2 (both
// options, or a grammar that no token can begin), 3 (no grammar, or one beyond a limit; no
// tokenizer), 4, 5.
bool session_open_grammar(Session *session, Error *error);
// Puts the grammar's path before an error that came of it later. False.
bool session_grammar_prefix(const Session *session, Error *error);
bool session_open_model(Session *session, const SessionModel *wanted, Error *error);
void session_close_model(Session *session); // and another one may be opened
void session_close(Session *session);       // zeroed or half-opened is fine

// Attaches what --ablate, --patch and --steer ask for, before the first pass: `prompt` is what
// positions from the end and means are of. Nothing where they were not given. From here on no file
// can be opened but outputs (base/sandbox.h). False: exit code 2, or that of a pass.
bool session_intervene(const Session *session, const int32_t *prompt, size_t count, Error *error);

// The tokenizer of a path given by -z: a tokenizer file, a GGUF or a directory.
// A tokenizer without a model, as own_tokenizer_open. vocab_size 0: unknown.
bool session_open_tokenizer(Session *session, const char *path, int vocab_size, Error *error);

// What results depend on beside model and options: "cpu" for every instruction set and number of
// threads, which give the same bits; of a GPU its name too: "cuda, NVIDIA H200". The model is open.
enum { BACKEND_NAME = 128 };
void session_backend(char out[BACKEND_NAME], const Session *session);

// The result of something that read the model: `good` and `error` as they are, unless the file was
// cut short since it was opened. That outranks every other error: exit code 4.
bool session_result(const Session *session, bool good, Error *error);

// An error of limpid.h as one of the house's. Returns `good`.
bool session_problem(Error *error, bool good, const limpid_error *problem);

enum { SESSION_MAX_ROWS = 256 };
// Rows per forward pass of n_tokens where each row has `width` floats in memory: those of all rows
// take 64 MiB, but there are at least 8 rows, and at most SESSION_MAX_ROWS or n_tokens.
int session_rows(size_t n_tokens, size_t width);

// Rows of a prompt for one session_forward: a chunk, or several that follow one another through the
// ranks of a model.
int session_feed_rows(const Session *session);

// limpid_eval with session_result.
bool session_forward(const Session *session, const Batch *batch, Error *error);

// Appends `count` tokens to sequence 0, session_feed_rows of them in each session_forward. Between
// two of these Ctrl-C is seen: then the result is true with *fed < count.
bool session_feed(Session *session, const int32_t *ids, size_t count, size_t *fed, Error *error);

// Exit code 2 where -c asks for more positions than the model has.
bool session_check_context(const Session *session, Error *error);

// The file's byte-level BPE has no tokenizer.ggml.pre, which says how text is split: llama.cpp's
// default is used.
bool session_guesses_split(const Session *session);
void session_note_split(const Session *session); // says so, before a text is encoded

// Says that it is a chat model, where its file has a chat template: it continues a plain text
// badly, which a beginner may take for a fault. Only to a person: a script's log does not need it.
void session_hint_at_chat(const Session *session);
// --context-overflow sinks: from here on no token sees more than SESSION_SINKS tokens of the
// beginning and the newest, `context` in all: a KeyPattern, which hides nothing from the first
// `context` tokens. False: exit code 2, beside --pattern and for a context of SESSION_SINKS or
// fewer.
enum { SESSION_SINKS = 4 };
bool session_use_sinks(Session *session, int context, Error *error);
// Exit code 2 where `what` ("the prompt") has more tokens than the context has room for.
bool session_check_room(const char *what, size_t count, int64_t room, Error *error);

bool session_stops_at(const Session *session, int32_t id);

// Exit code 2 where an id is not below the model's vocabulary size.
bool session_check_ids(const Session *session, const IdList *ids, Error *error);

// For the end of a line of statistics: "; a debug build .." where the program was not optimised.
const char *build_remark(void);
uint64_t peak_memory_bytes(void); // of this process so far
