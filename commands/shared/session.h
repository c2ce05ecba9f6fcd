// Session: what every command that runs a model has open, and in what order it is opened: the
// checkpoint, the tokenizer, then (when the context is known) the model.
//
//     Session s = {0};
//     good = session_open(&s, options, &error) && session_need_tokenizer(&s, &error) && ...
//            session_open_model(&s, &(SessionModel){.context = 512}, &error);
//     session_close(&s);
#pragma once

#include "commands/shared/options.h"
#include "model/model.h"
#include "tokenizer/tokenizer.h"
#include "weights/checkpoint.h"

typedef struct Session {
    const Options *options; // borrowed
    double started;         // seconds_now of session_open: time to the first token counts from here
    Checkpoint *checkpoint;
    const Config *config;        // of the checkpoint
    Tokenizer *tokenizer;        // NULL where the model has none; session_need_tokenizer says so
    Checkpoint *tokenizer_owner; // a GGUF that -z named, or NULL
    Model *model;
    char tokenizer_problem[ERROR_MESSAGE_SIZE]; // why it is NULL
    ErrorCode tokenizer_code;
    int32_t stops[64]; // ids that end a text
    size_t n_stops;
} Session;

typedef struct SessionModel {
    int context;        // 0: the model's
    int threads;        // 0: as the options say
    int n_sequences;    // 0: 1
    int max_rows;       // 0: the default
    int max_logit_rows; // 0: 1
} SessionModel;

// Opens the model file that the options name, and its tokenizer where it has one. The tokenizer is
// the one of -z, else the vocabulary inside the GGUF, else the files beside the weights.
bool session_open(Session *session, const Options *options, Error *error);
// Exit code 3 (or what opening it said) where there is no tokenizer.
bool session_need_tokenizer(Session *session, Error *error);
bool session_open_model(Session *session, const SessionModel *wanted, Error *error);
void session_close(Session *session); // zeroed or half-opened is fine

// The tokenizer of a path given by -z, whatever it is: a tokenizer file, a GGUF, a directory.
// vocab_size 0: unknown.
bool session_open_tokenizer(Session *session, const char *path, int vocab_size, Error *error);

// Feeds `count` tokens of sequence 0 behind what the cache holds, in pieces, so that a Ctrl-C and a
// file that was cut are seen in between. True with *fed < count where Ctrl-C came.
bool session_feed(Session *session, const int32_t *ids, size_t count, size_t *fed, Error *error);

// Exit code 4 where the model file was cut short since it was opened.
bool session_check(const Session *session, Error *error);

bool session_stops_at(const Session *session, int32_t id);

// Ids below the model's vocabulary size? Else exit code 2.
bool session_check_ids(const Session *session, const IdList *ids, Error *error);

uint64_t peak_memory_bytes(void); // of this process so far
