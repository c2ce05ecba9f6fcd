// Opening things in the right order, and the few questions that every command asks of them.
#include "commands/shared/session.h"
#include "commands/shared/interrupt.h"
#include "commands/shared/output.h"
#include "commands/shared/progress.h"
#include "weights/builtin.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_SIZE = 4096 };

// Rows of a prompt between two looks at Ctrl-C. A device of its own takes all that the model works
// on at once: it unpacks quantised weights for every piece anew. A processor is at full speed with
// fewer and needs seconds for them; its bits do not depend on the cut.
static size_t feed_rows(const Session *s) {
    enum { OF_A_PROCESSOR = 256 };
    size_t most = (size_t)s->model->options.max_rows;
    return device_info(s->model->device)->pipeline_depth || most < OF_A_PROCESSOR ? most
                                                                                  : OF_A_PROCESSOR;
}

static bool is_directory(const char *path) {
    struct stat info;
    return !stat(path, &info) && S_ISDIR(info.st_mode);
}

// out = directory of `path` ("." where it has none), then `name` in it; false where it does not
// fit.
static bool beside(char out[PATH_SIZE], const char *path, const char *name) {
    const char *slash = strrchr(path, '/');
    if (!slash) return snprintf(out, PATH_SIZE, "./%s", name) < PATH_SIZE;
    return snprintf(out, PATH_SIZE, "%.*s%s", (int)(slash - path + 1), path, name) < PATH_SIZE;
}

static bool is_llama2c(const Checkpoint *checkpoint) {
    return !strncmp(checkpoint_container(checkpoint), "llama2.c", 8);
}

// A tokenizer out of a model: the vocabulary of a GGUF, or what lies beside its weights.
static Tokenizer *of_checkpoint(const Checkpoint *checkpoint, Error *error) {
    static const char *const NAMES[] = {"tokenizer.bin", "tokenizer.model"};
    const char *path = checkpoint_path(checkpoint);
    const Vocabulary *vocabulary = checkpoint_vocabulary(checkpoint);
    char found[PATH_SIZE] = "";
    TokenizerSource source = {.path = path,
                              .vocab_size = checkpoint_config(checkpoint)->vocab_size};
    if (vocabulary->model) {
        source = (TokenizerSource){.vocabulary = vocabulary};
    } else if (is_llama2c(checkpoint)) {
        bool there = false;
        for (int i = 0; i < 2 && !there; i++)
            there = beside(found, path, NAMES[i]) && !access(found, R_OK);
        source.path = found;
        if (!there) {
            error_set(error, ERROR_FILE,
                      "no tokenizer.bin or tokenizer.model beside %s: give one with -z", path);
            return NULL;
        }
    } else if (!is_directory(path) && beside(found, path, "")) {
        source.path = found;
    }
    return tokenizer_open(&source, error);
}

// A model begins with "GGUF"; tokenizer files of every kind do not.
static bool is_gguf(const char *path) {
    char magic[4];
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) return false; // whoever opens it next says why
    bool yes = read(file, magic, sizeof magic) == sizeof magic && !memcmp(magic, "GGUF", 4);
    close(file);
    return yes;
}

bool session_open_tokenizer(Session *s, const char *path, int vocab_size, Error *error) {
    if (builtin_is_meant(path) || is_gguf(path)) {
        if (!checkpoint_open_vocabulary(&s->tokenizer_owner, path, error)) return false;
        s->tokenizer = of_checkpoint(s->tokenizer_owner, error);
        return s->tokenizer;
    }
    Error first = {0}, second = {0};
    TokenizerSource source = {.path = path, .vocab_size = vocab_size};
    s->tokenizer = tokenizer_open(&source, &first);
    if (s->tokenizer) return true;
    // Not a tokenizer; perhaps a model that has one beside it.
    if (first.code == ERROR_FILE && !is_directory(path) &&
        checkpoint_open(&s->tokenizer_owner, path, &second)) {
        s->tokenizer = of_checkpoint(s->tokenizer_owner, error);
        return s->tokenizer;
    }
    return error_set(error, first.code, "%s", first.message);
}

static void add_stop(Session *s, int32_t id) {
    enum { CAPACITY = sizeof s->stops / sizeof *s->stops };
    if (id >= 0 && !session_stops_at(s, id) && s->n_stops < CAPACITY) s->stops[s->n_stops++] = id;
}

static void find_stops(Session *s) {
    int32_t of_tokenizer[32];
    size_t count = s->tokenizer ? tokenizer_stops(s->tokenizer, of_tokenizer, 32) : 0;
    for (int i = 0; i < s->config->n_eos_ids; i++)
        add_stop(s, s->config->eos_ids[i]);
    for (size_t i = 0; i < count; i++)
        add_stop(s, of_tokenizer[i]);
    // llama2.c's stories end in BOS: its training text is stories one after another.
    if (!strncmp(checkpoint_container(s->checkpoint), "llama2.c", 8))
        add_stop(s, s->config->bos_id);
}

static bool open_tokenizer(Session *s, Error *error) {
    Error problem = {0};
    int vocab_size = s->config->vocab_size;
    const char *path = s->options->tokenizer;
    if (path) {
        if (!session_open_tokenizer(s, path, vocab_size, error)) return false;
    } else {
        s->tokenizer = of_checkpoint(s->checkpoint, &problem);
    }
    if (problem.code && problem.code != ERROR_FILE) {
        *error = problem;
        return false;
    }
    if (!s->tokenizer) {
        // Not every command needs one; the one that does tells why there is none.
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
    if (!checkpoint_open(&s->checkpoint, options->model, error)) return false;
    s->config = checkpoint_config(s->checkpoint);
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

bool session_need_tokenizer(Session *s, Error *error) {
    if (s->tokenizer) return true;
    return error_set(error, s->tokenizer_code, "%s", s->tokenizer_problem);
}

static void tell_about_model(const Session *s) {
    const Checkpoint *c = s->checkpoint;
    ModelCost cost = model_cost(s->config, &s->model->options);
    note("%s, %s, %.1f MB; %s", s->config->family, checkpoint_container(c),
         (double)checkpoint_file_bytes(c) / 1e6,
         s->tokenizer ? tokenizer_description(s->tokenizer) : "no tokenizer");
    note("%s; context %d: cache %.1f MB, scratch %.1f MB",
         device_info(s->model->device)->description, s->model->options.context,
         (double)cost.cache / 1e6, (double)(cost.scratch + cost.logits + cost.rope) / 1e6);
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
    };
    s->model = model_open(s->config, checkpoint_weights(s->checkpoint), &options, error);
    progress_end(&progress);
    if (!s->model) return error_prefix(error, checkpoint_path(s->checkpoint));
    if (o->verbose) tell_about_model(s);
    return session_check(s, error);
}

void session_close(Session *s) {
    model_close(s->model);
    tokenizer_close(s->tokenizer);
    checkpoint_close(s->tokenizer_owner);
    checkpoint_close(s->checkpoint);
    *s = (Session){0};
}

bool session_check(const Session *s, Error *error) {
    if (!checkpoint_damaged(s->checkpoint)) return true;
    return error_set(error, ERROR_IO, "%s: the file was cut short while in use",
                     checkpoint_path(s->checkpoint));
}

bool session_feed(Session *s, const int32_t *ids, size_t count, size_t *fed, Error *error) {
    Progress progress;
    progress_begin(&progress, "prompt", s->options->quiet);
    bool good = true;
    for (*fed = 0; good && *fed < count && !interrupt_asked();) {
        size_t left = count - *fed, most = feed_rows(s);
        int n = (int)(left < most ? left : most);
        good = model_forward(s->model, &(Batch){.n = n, .tokens = ids + *fed}, error);
        // Numbers of a file that was cut are zeros; that cause comes before what they led to.
        if (checkpoint_damaged(s->checkpoint)) {
            if (error) *error = (Error){0};
            good = session_check(s, error);
        }
        *fed += (size_t)n;
        progress_update(&progress, (double)*fed / (double)count);
    }
    progress_end(&progress);
    return good;
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

uint64_t peak_memory_bytes(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (uint64_t)usage.ru_maxrss * 1024;
}
