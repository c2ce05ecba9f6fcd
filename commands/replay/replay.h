// Parts of the command replay: a recording that is run again.
//
//   read.c      a recording from its JSON, every key checked
//   compare.c   the same run: which tokens and which rows of logits have other bits
//   branch.c    --at N --token ID: the same run with one token changed
#pragma once

#include "commands/shared/recording.h"

typedef struct Replay {
    const Options *given; // the command line; borrowed
    Options options;      // the recorded ones with those of the command line in their place
    Recording recorded;
    Session session;
    limpid_sampler *sampler; // as it was before the first token of the prompt
    float *uniforms;         // (recorded.n_tokens) owned, given to the sampler
    char digest[FNV_HEX];    // of the model that is open
    int32_t new_id;          // of --token
} Replay;

// Reads a recording. Options that it does not hold are those of `defaults`. Everything is inside
// its limits afterwards: ids below vocab_size, numbers in the ranges of their options, no more
// tokens than the context has room for. False, with the path and the key in the message: exit code
// 3, 4 or 5.
bool recording_read(Recording *r, const char *path, const Options *defaults, Error *error);

// Runs all tokens, or up to the first that differs, and prints what it found. False: exit code 1
// where a token or a bit differs, else as generation_run.
bool replay_compare(Replay *replay, Error *error);

// Checks --at, and sets new_id by --token; the session is open, the model need not be. False: exit
// code 2 where there is no such token, 3 without a tokenizer for a text, 5.
bool replay_check_branch(Replay *replay, Error *error);
// Changes the token of --at to new_id, and prints the recorded text from there and the new one.
// False: as generation_run.
bool replay_branch(Replay *replay, Error *error);

// Feeds the prompt and the first `count` recorded tokens, which the sampler accepts; its numbers
// are those of token `count` next. The logits that token `count` was sampled from are
// model_logits(model, 0). False: as session_feed; also where Ctrl-C was pressed, exit code 130.
bool replay_feed(Replay *replay, size_t count, Error *error);
