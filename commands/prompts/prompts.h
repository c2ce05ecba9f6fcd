// A file of prompts: generate --prompts FILE --out FILE. Lines of JSON become requests, a scheduler
// answers several of them at once, and the answers are written in the order of the lines.
//
//   lines.c -> request.c -> scheduler.c -> answers.c      prompts.c is the loop over these
//                                                         shard.c, ids.c, merge.c: several machines
//
// A row of the model has the same bits whatever shares its pass, so that an answer is the same as
// that of `generate` alone. What may become large is bounded: one line is read at a time, and at
// most WINDOW of them wait for the answer of an earlier one.
#pragma once

#include "base/arena.h"
#include "base/bytes.h"
#include "base/hash.h"
#include "commands/shared/generation.h"
#include "commands/shared/recording.h"

#include <sys/types.h>

enum {
    MOST_PARALLEL = 1024,
    MOST_SAMPLES = 1024, // of one line
    WINDOW = 1024,       // lines between the first without an answer and the last that is begun
};

// ---- lines of a file (lines.c) ----

typedef struct LineReader {
    int file; // borrowed
    size_t most;
    const char *path; // for messages; borrowed
    char *bytes;      // owned
    size_t from, to, room;
    size_t line;   // number of the last line, from 1
    uint64_t read; // bytes of the file that lines were given of
    bool at_end;
} LineReader; // set file, most and path

typedef struct Line {
    const char *bytes; // borrowed until the next; without the newline
    size_t length;
    uint64_t hash; // FNV-1a 64 of all of it
    bool too_long; // more than `most`: `bytes` is empty
    bool cut;      // the file ended before a newline
} Line;

// The next line; *ended: there is none. False: exit code 3 (a line without an end), 4 or 5.
bool line_next(LineReader *reader, Line *line, bool *ended, Error *error);
// Whether a line, or a part of one, can be had without waiting.
bool line_is_ready(const LineReader *reader);
void line_reader_free(LineReader *reader);

// ---- ids that must not occur twice (ids.c) ----

typedef struct IdSet {
    uint64_t (*entries)[2]; // 128 bits of hash each, 0: free; owned
    size_t count, room;
    HashKey keys[2];
} IdSet; // zero it first

// Adds bytes; *is_new: they were not in it. False: exit code 5.
bool id_set_add(IdSet *set, const void *bytes, size_t length, bool *is_new, Error *error);
void id_set_free(IdSet *set);

// ---- what a line asks for (request.c) ----

// One text of a request.
typedef struct Sample {
    Buffer text;
    IdList ids;
    StopReason stop;
    uint64_t seed, logits_hash;
    double logprob;   // of all ids
    double *logprobs; // of a continuation's ids; owned
    bool greedy;      // a continuation: each of its ids is the likeliest
} Sample;

typedef struct Request {
    size_t line; // of the file, from 1
    char line_hash[FNV_HEX];
    Buffer id;       // as JSON; "null" where it has none that can be used
    Options options; // of the command line, with what the line says in their place
    Arena arena;     // of the texts in `options`
    IdList ids;      // of the prompt; with `scores` those of the continuation too
    size_t prompt;   // how many are of the prompt
    bool scores, has_samples;
    size_t n_samples, begun, ended;
    Sample *samples;      // (n_samples) owned
    Error error;          // code 0: the line can be answered
    const Sample *failed; // whose error that is; NULL: the line's
} Request;

// Reads a line, its prompt encoded: owned. The session needs no model yet, its options the context.
// What is wrong with the line is in request->error. NULL:
// what ends the run, exit code 5.
Request *request_read(const Line *line, size_t number, const Session *session, IdSet *ids,
                      Error *error);
void request_free(Request *request); // NULL is fine

// A sample has failed. What is to blame on its line becomes the line's answer, the same whatever
// else was computed with it: of several samples the error of the first. False: it ends the run.
bool request_blame(Request *request, const Sample *sample, const Error *cause, Error *error);

// Only the line's id, as JSON, as request_read finds it. False: exit code 5.
bool request_id(Buffer *id, const Line *line, size_t number, IdSet *ids, Error *error);

// What a line of answers says of its prompt.
typedef struct AnswerKey {
    Buffer id;               // as JSON; owned
    char line_hash[FNV_HEX]; // empty: none
    bool failed;             // it holds an error
} AnswerKey;

// False: exit code 3 (no answer) or 5. *key is zeroed first, and to be freed in either case.
bool answer_key(AnswerKey *key, const Line *line, Error *error);

// FNV-1a 64 of the line's bytes, in hexadecimal digits: on --resume it is the line that was
// answered.
void line_hash(char out[FNV_HEX], const Line *line);

// Whether a line says nothing: blanks alone. It counts for the numbers of lines, and has no answer.
bool line_is_blank(const Line *line);

// ---- several at once (scheduler.c) ----

typedef struct Scheduler Scheduler;

// Rows of prompts in a pass, beside a row for each text that is being written; rows of logits that
// scores may take.
enum { PROMPT_ROWS = 128, SCORE_ROWS = 16 };

// For a session whose model is open, with `n` sequences, n + PROMPT_ROWS rows and n + SCORE_ROWS
// rows of logits. NULL: exit code 2, 3 or 5.
Scheduler *scheduler_open(const Session *session, int n, Error *error);
void scheduler_close(Scheduler *scheduler); // NULL is fine

// Adds a request, borrowed until all its samples have ended.
void scheduler_add(Scheduler *scheduler, Request *request);
bool scheduler_wants(const Scheduler *scheduler); // it has room for another request
bool scheduler_busy(const Scheduler *scheduler);  // something is not answered yet

// One forward pass and what follows from it. False: exit code 4, 5, 6 or 130. What a single line is
// to blame for, numbers that are not finite too, is in request->error.
bool scheduler_step(Scheduler *scheduler, Error *error);

typedef struct SchedulerCounts {
    uint64_t prompt_tokens, shared_tokens; // of prompts: all; those whose keys another one had
    uint64_t new_tokens;                   // sampled, or scored
    uint64_t passes;
} SchedulerCounts;
SchedulerCounts scheduler_counts(const Scheduler *scheduler);

// ---- which lines (shard.c) ----

typedef struct Shard {
    int index, count; // takes the lines index, index + count, ...
    int launched;    // by mpirun or mpiexec, which give standard input to one of them; 0: by others
    char source[96]; // for people: "--shard", or the variables of the environment
} Shard;

enum { MOST_SHARDS = 1 << 16 }; // merge has all their files open

// --shard I/N, else what Slurm, Open MPI or PMI say of this process, else all lines. False: exit
// code 2.
bool shard_find(Shard *shard, const Options *options, Error *error);
// "answers.jsonl" as "answers.2-of-4.jsonl", and as it is for count 1. The caller frees it. NULL:
// exit code 5.
char *shard_path(const char *path, int index, int count, Error *error);

// ---- the file of answers (answers.c) ----

#define ANSWERS_FORMAT "limpid-answers 2"

// A file: one line that says what made it, an answer a line, and one line at the end.
//
//   {"limpid":"limpid-answers 2","version":..,"model":..,"vocabulary":..,"backend":..,
//    "options":{..},"shard":"0/4"}
//   {"id":"a","text":..,"line_hash":..}
//   {"end":true,"answers":1}
typedef struct Answers {
    int file; // -1: closed
    char *path;
    FileSet inputs;
    char model[FNV_HEX]; // its digest
    Buffer header, line;
    Buffer there;    // --resume: the first line that is there
    LineReader kept; // --resume: of the answers that are there
    bool keeping;
    uint64_t size;   // bytes of whole lines
    bool made;       // by this run
    bool replaces;   // --force: what is there, when the first answer comes
    uint64_t digest; // of the lines of answers
    size_t count, errors;
    double synced; // when it was last written to the disk
} Answers;

// answers_open, before the model is: opens the file and, with --resume, refuses what another model,
// other options or another version made. answers_begin, once the model is open: refuses answers of
// another backend, or begins a new file; what --force replaces is whole until the first answer.
// False: exit code 2, 3, 4 or 5.
bool answers_open(Answers *answers, const Session *session, const Shard *shard, Error *error);
bool answers_begin(Answers *answers, const Session *session, const Shard *shard, Error *error);
// --resume: the next answer that is there. *there false: there is none, the file is cut
// behind the last whole one, and answers_put goes on. These: false with exit code 3, 4 or 5.
bool answers_next_kept(Answers *answers, AnswerKey *key, bool *there, Error *error);
bool answers_put(Answers *answers, const Session *session, const Request *request, Error *error);
// The last line, and all of it on the disk. False: exit code 4 or 5.
bool answers_finish(Answers *answers, Error *error);
void answers_close(Answers *answers); // zeroed with file -1 is fine

// ---- lines of such files, for merge ----

bool answer_is_end(const Line *line);
void answers_put_end(Buffer *line, size_t count);
// Whether a first line is the beginning of what a run writes there, up to where it was killed.
bool answers_header_is_cut(const Line *line);
// *common: the first line as a file of all shards has it. False: exit code 3 or 5.
bool answers_read_header(const Line *line, Buffer *common, int *index, int *count, Error *error);
// What differs between two first lines that are not the same bytes, for a message: "another model",
// "other options", ... False: exit code 5.
bool answers_difference(const char **what, const Buffer *a, const Buffer *b, Error *error);

// ---- the commands ----

bool prompts_command(const Options *options, Error *error);
