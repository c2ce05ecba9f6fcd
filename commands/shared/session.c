// Opens what a command needs in the right order, and checks what every command has to check.
//
//   session_open         checkpoint -> tokenizer -> ids that end a text
//   session_open_model   options -> model, with a progress bar
//   session_feed         tokens -> passes of max_rows, with a progress bar, until Ctrl-C
//
// The order lets a command check its options against the config, and encode its prompt, before the
// weights are loaded; and lets the prompt's length decide the context.
#include "commands/shared/session.h"
#include "base/mapping.h"
#include "base/sandbox.h"
#include "base/text.h"
#include "commands/shared/interrupt.h"
#include "commands/shared/output.h"
#include "weights/checkpoint.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

bool is_llama2c(const Checkpoint *checkpoint) {
    return checkpoint_container(checkpoint) == CONTAINER_LLAMA2C;
}

// llama2.c files have no vocabulary: it lies beside them, under one of these names. The caller
// frees the path. NULL: exit code 3 where there is none, or 5.
static char *tokenizer_beside(const char *path, Error *error) {
    static const char *const NAMES[] = {"tokenizer.bin", "tokenizer.model"};
    for (int i = 0; i < 2; i++) {
        char *found = path_beside(path, NAMES[i], error);
        if (!found || !access(found, R_OK)) return found;
        free(found);
    }
    error_set(error, ERROR_FILE, "no tokenizer.bin or tokenizer.model beside %s: give one with -z",
              path);
    return NULL;
}

// The tokenizer of a model: the vocabulary inside a GGUF, or the files beside the weights.
static Tokenizer *open_tokenizer_of(const Checkpoint *checkpoint, Error *error) {
    const char *path = checkpoint_path(checkpoint);
    const Vocabulary *vocabulary = checkpoint_vocabulary(checkpoint);
    bool inside = vocabulary->model;
    char *found = NULL;
    TokenizerSource source = {.path = path,
                              .vocab_size = checkpoint_config(checkpoint)->vocab_size};
    if (inside) {
        source = (TokenizerSource){.vocabulary = vocabulary};
    } else if (is_llama2c(checkpoint) || !is_directory(path)) {
        found =
            is_llama2c(checkpoint) ? tokenizer_beside(path, error) : path_beside(path, "", error);
        if (!found) return NULL;
        source.path = found;
    }
    Tokenizer *tokenizer = tokenizer_open(&source, error);
    if (!tokenizer && inside) error_prefix(error, path); // else it has a path itself
    free(found);
    return tokenizer;
}

// A model begins with "GGUF"; tokenizer files of every kind do not.
bool path_is_gguf(const char *path) {
    char magic[4];
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) return false; // opening it as a tokenizer reports why
    bool is = read(file, magic, sizeof magic) == sizeof magic && !memcmp(magic, "GGUF", 4);
    close(file);
    return is;
}

// In this order: a vocabulary inside a GGUF or the built-in model; a tokenizer file; the tokenizer
// beside another kind of model. If it is none of these, the message is that of opening it as a
// tokenizer file.
bool session_open_tokenizer(Session *s, const char *path, int vocab_size, Error *error) {
    if (builtin_is_meant(path) || path_is_gguf(path)) {
        if (!checkpoint_open_vocabulary(&s->tokenizer_owner, path, error)) return false;
        s->tokenizer = open_tokenizer_of(s->tokenizer_owner, error);
        return s->tokenizer;
    }
    Error first = {0}, second = {0};
    TokenizerSource source = {.path = path, .vocab_size = vocab_size};
    s->tokenizer = tokenizer_open(&source, &first);
    if (s->tokenizer) return true;
    // Not a tokenizer; perhaps a model that has one beside it.
    if (first.code == ERROR_FILE && !is_directory(path) &&
        checkpoint_open(&s->tokenizer_owner, path, &second)) {
        s->tokenizer = open_tokenizer_of(s->tokenizer_owner, error);
        return s->tokenizer;
    }
    return error_copy(error, &first);
}

// Each id once; those beyond the capacity are left out.
static void add_stop(Session *s, int32_t id) {
    enum { CAPACITY = sizeof s->stops / sizeof *s->stops };
    if (id >= 0 && !session_stops_at(s, id) && s->n_stops < CAPACITY) s->stops[s->n_stops++] = id;
}

// From the config, from the tokenizer's well-known names, and for llama2.c BOS.
static void find_stops(Session *s) {
    int32_t of_tokenizer[32];
    size_t count = s->tokenizer ? tokenizer_stops(s->tokenizer, of_tokenizer, 32) : 0;
    for (int i = 0; i < s->config->n_eos_ids; i++)
        add_stop(s, s->config->eos_ids[i]);
    for (size_t i = 0; i < count; i++)
        add_stop(s, of_tokenizer[i]);
    // llama2.c was trained on stories one after another, so BOS ends one.
    if (is_llama2c(s->checkpoint)) add_stop(s, s->config->bos_id);
}

// -z, else the model's own. A missing tokenizer is no error here; memory that runs out, a file that
// cannot be read and a bad -z are.
static bool open_tokenizer(Session *s, Error *error) {
    Error problem = {0};
    int vocab_size = s->config->vocab_size;
    const char *path = s->options->tokenizer;
    if (path) {
        if (!session_open_tokenizer(s, path, vocab_size, error)) return false;
    } else {
        s->tokenizer = open_tokenizer_of(s->checkpoint, &problem);
    }
    if (problem.code && problem.code != ERROR_FILE) {
        *error = problem;
        return false;
    }
    if (!s->tokenizer) {
        // Not every command needs one; session_need_tokenizer reports this.
        s->tokenizer_code = problem.code;
        snprintf(s->tokenizer_problem, sizeof s->tokenizer_problem, "%s", problem.message);
        return true;
    }
    if (tokenizer_size(s->tokenizer) > vocab_size)
        return error_set(error, ERROR_FILE, "the tokenizer has %d tokens, the model only %d",
                         tokenizer_size(s->tokenizer), vocab_size);
    return true;
}

bool session_open(Session *s, const Options *options, Error *error) {
    *s = (Session){.options = options, .started = seconds_now()};
    if (options->pattern && !attention_pattern_parse(&s->pattern, options->pattern, error))
        return false;
    if (!checkpoint_open(&s->checkpoint, options->model, error)) return false;
    s->config = checkpoint_config(s->checkpoint);
    if (!interventions_open(&s->interventions, options, s->checkpoint, error)) return false;
    if (!open_tokenizer(s, error)) return false;
    find_stops(s);
    size_t unused = checkpoint_unused(s->checkpoint);
    if (unused && !options->quiet) {
        const char *name = checkpoint_unused_name(s->checkpoint, 0);
        char escaped[80];
        note("%zu tensors of the file are not used, the first is %s", unused,
             escape_bytes(escaped, sizeof escaped, name, strlen(name)));
    }
    return true;
}

bool session_need_tokenizer(const Session *s, Error *error) {
    if (s->tokenizer) return true;
    return error_set(error, s->tokenizer_code, "%s", s->tokenizer_problem);
}

// -v: what was opened and what memory it takes.
static void print_model(const Session *s) {
    const Checkpoint *c = s->checkpoint;
    ModelMemory memory = model_memory(s->model, &s->model->options);
    note("%s, %s, %.1f MB; %s", s->config->family, checkpoint_container_name(c),
         (double)checkpoint_file_bytes(c) / 1e6,
         s->tokenizer ? tokenizer_description(s->tokenizer) : "no tokenizer");
    note("%s; context %d: weights %.1f MB, cache %.1f MB, scratch %.1f MB",
         device_info(s->model->device)->description, s->model->options.context,
         memory.weights / 1e6, memory.cache / 1e6,
         (memory.scratch + memory.rope + memory.operations + memory.host) / 1e6);
}

bool session_open_model(Session *s, const SessionModel *wanted, Error *error) {
    const Options *o = s->options;
    Progress progress;
    progress_begin(&progress, "loading", o->quiet);
    ModelOptions options = {
        .threads = !wanted->threads ? o->threads.values[0] : wanted->threads,
        .precision = (Precision)o->precision,
        .kv_type = (KvType)o->kv,
        .context = wanted->context,
        .n_sequences = wanted->n_sequences,
        .max_rows = wanted->max_rows,
        .max_logit_rows = wanted->max_logit_rows,
        .progress = progress_update,
        .progress_context = &progress,
        .stop = interrupt_flag(),
    };
    s->model = model_open(s->config, checkpoint_weights(s->checkpoint), &options, error);
    progress_end(&progress);
    if (!s->model) return error_prefix(error, checkpoint_path(s->checkpoint));
    s->model->pattern = s->pattern;
    if (o->verbose) print_model(s);
    return session_result(s, true, error);
}

bool session_intervene(const Session *s, const int32_t *prompt, size_t count, Error *error) {
    sandbox_close_files();
    return session_result(s, interventions_attach(s->interventions, s->model, prompt, count, error),
                          error);
}

void session_close(Session *s) {
    model_close(s->model);
    interventions_close(s->interventions);
    tokenizer_close(s->tokenizer);
    checkpoint_close(s->tokenizer_owner);
    checkpoint_close(s->checkpoint);
    *s = (Session){0};
}

// Weights of a file that was cut read as zeros, so the cut is the cause of the errors that follow.
bool session_result(const Session *s, bool good, Error *error) {
    const char *cut = checkpoint_damaged(s->checkpoint);
    if (!cut) return good;
    if (error) *error = (Error){0};
    return error_set(error, ERROR_IO, "%s: the file was cut short while in use", cut);
}

int session_rows(size_t n_tokens, size_t width) {
    enum { MIN_ROWS = 8, CHUNK_BYTES = 64 << 20 };
    size_t rows = CHUNK_BYTES / sizeof(float) / (width ? width : 1);
    if (rows > SESSION_MAX_ROWS) rows = SESSION_MAX_ROWS;
    if (rows < MIN_ROWS) rows = MIN_ROWS;
    return rows > n_tokens ? (int)n_tokens : (int)rows;
}

bool session_forward(const Session *s, const Batch *batch, Error *error) {
    return session_result(s, model_forward(s->model, batch, error), error);
}

// An interrupted pass leaves the cache as it was, so *fed says what it holds.
bool session_feed(Session *s, const int32_t *ids, size_t count, size_t *fed, Error *error) {
    Progress progress;
    progress_begin(&progress, "prompt", s->options->quiet);
    bool good = true;
    for (*fed = 0; good && *fed < count && !interrupt_asked();) {
        size_t left = count - *fed, most = (size_t)s->model->options.max_rows;
        int n = (int)(left < most ? left : most);
        Error cause = {0};
        good = session_forward(s, &(Batch){.n = n, .tokens = ids + *fed}, &cause);
        if (!good && cause.code == ERROR_INTERRUPTED) {
            good = true;
            break;
        }
        error_copy(error, &cause);
        *fed += (size_t)n;
        progress_update(&progress, (double)*fed / (double)count);
    }
    progress_end(&progress);
    return good;
}

bool session_check_context(const Session *s, Error *error) {
    const Options *o = s->options;
    if (!option_given(o, OPTION_CONTEXT) || o->context <= config_longest_context(s->config))
        return true;
    return error_set(error, ERROR_USAGE, "-c: got %" PRId64 ", the model's context is %d",
                     o->context, s->config->max_seq_len);
}

bool session_check_room(const char *what, size_t count, int64_t room, Error *error) {
    if (count <= (size_t)room) return true;
    return error_set(error, ERROR_USAGE, "%s has %zu tokens, the context room for %" PRId64, what,
                     count, room);
}

bool session_stops_at(const Session *s, int32_t id) {
    for (size_t i = 0; i < s->n_stops; i++)
        if (s->stops[i] == id) return true;
    return false;
}

bool session_check_ids(const Session *s, const IdList *ids, Error *error) {
    for (size_t i = 0; i < ids->count; i++)
        if (ids->ids[i] < 0 || ids->ids[i] >= s->config->vocab_size)
            return error_set(error, ERROR_USAGE, "token id %d is not below the vocabulary size %d",
                             (int)ids->ids[i], s->config->vocab_size);
    return true;
}

// __OPTIMIZE__ is the compiler's own macro.
const char *build_remark(void) {
#ifdef __OPTIMIZE__
    return "";
#else
    return "; a debug build, slow (make)";
#endif
}

uint64_t peak_memory_bytes(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    // Linux gives kilobytes.
    return (uint64_t)usage.ru_maxrss * 1024;
}
