// Recording: what it takes to run a generation again and to see whether it gives the same bits: the
// options, the model, the ids, and of every sampled token the uniform number, the hash of its row
// of logits and how close the choice was. One JSON object; docs/scripting.md has its keys. generate
// --record writes it, replay reads it.
//
//     Recording r = {0};
//     good = recording_check(prompt.count, max_new, context, &error) &&
//            model_digest(r.digest, &session, &error) && session_open_model(...) &&
//            recording_describe(&r, &session, &prompt, max_new, seed, &error) &&
//            recording_add(&r, &token, &error) && ... &&      // one call for each token
//            recording_write(&r, &output_file, &error);
//     recording_free(&r);
#pragma once

#include "base/arena.h"
#include "base/file_writer.h"
#include "base/hash.h"
#include "commands/shared/generation.h"
#include "commands/shared/option_rows.h"

#define RECORDING_FORMAT "limpid-recording 1"
enum {
    RECORDING_MOST_TOKENS = 65536, // of the prompt, and of those that were sampled
    RECORDING_MOST_BYTES = 64 << 20,
};

// A sampled token. Logits are the model's, before penalties and temperature, and probabilities
// their softmax, so that two runs can be compared.
typedef struct RecordedToken {
    int32_t id, other; // other: the likeliest token that is not `id`; -1: there is none
    float uniform;     // in [0, 1): what it was sampled with
    uint64_t hash;     // FNV-1a of the row of logits
    float logit, other_logit;
    double probability, other_probability;
} RecordedToken;

typedef struct Recording {
    Options options;       // those of RECORDED_OPTIONS, and the model's path; max_tokens, context,
                           // threads and seed as they came to be
    char digest[FNV_HEX];  // of the model
    const char *device;    // backend, threads and instruction set, for people
    const char *version;   // of limpid
    int vocab_size;        // of the model
    IdList prompt;         // its tokens
    RecordedToken *tokens; // (n_tokens) owned; the one that ended the text is the last
    size_t n_tokens, capacity;
    StopReason stop;
    const char *text; // of the new tokens, NULL without a tokenizer; not read back
    size_t text_length;
    Arena arena; // of the texts of a recording that was read; else they are borrowed
} Recording;     // zero it first

// False: exit code 2, --record with what a replay cannot repeat.
bool recording_allows(const Options *options, Error *error);

// The options that decide a text, by their long names; ends with OPTION_COUNT. Of some a recording
// has only those that were given: older ones have none of them.
extern const OptionId RECORDED_OPTIONS[];
const OptionRow *recorded_option(OptionId id); // its row
bool recorded_if_given(OptionId id);

// Appends them as a JSON object, but for those of `without`, which ends with OPTION_COUNT.
void recording_put_options(Buffer *b, const Options *options, const OptionId *without);

// Whether a recording has room for a run: `context` holds the prompt. False: exit code 2.
bool recording_check(size_t prompt, size_t max_new, int context, Error *error);

// Fills in what is known before the first token, but for the digest: options, model, device,
// prompt. The model is open. False: exit code 5.
bool recording_describe(Recording *r, const Session *session, const IdList *prompt, size_t max_new,
                        uint64_t seed, Error *error);

// What is recorded of a row of logits (vocab_size) from which `id` was sampled.
RecordedToken recorded_token(int32_t id, float uniform, const float *logits, int vocab_size);
bool recording_add(Recording *r, const RecordedToken *token, Error *error); // false: exit code 5

// False: exit code 2, 4 or 5; nothing is left behind.
bool recording_write(const Recording *r, const OutputFile *place, Error *error);
void recording_free(Recording *r);

// A hash of the shapes and the tensors as they lie in the file: another for another model, and also
// for the same one in another container or type. Reads all of it: best before the model is opened,
// which drops the pages of what it has copied. False: exit code 4 (the file was cut meanwhile).
bool model_digest(char out[FNV_HEX], const Session *session, Error *error);
