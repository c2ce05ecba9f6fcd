// limpid_open: the checkpoint, its tokenizer, and the ids that end a text.
//
//   path -> Checkpoint: config, weights checked and mapped, not yet loaded
//        -> tokenizer: the one named, else the vocabulary inside a GGUF, else files beside the
//        model
//        -> stops: of the config, of the tokenizer's well-known names, for llama2.c BOS
#include "library/handles.h"

#include "base/file_set.h"
#include "base/mapping.h"
#include "base/text.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *limpid_version(void) {
    return LIMPID_VERSION;
}

_Static_assert(sizeof((limpid_error){0}.message) == ERROR_MESSAGE_SIZE, "messages fit");

bool library_result(limpid_error *error, bool good, const Error *cause) {
    if (good || !error) return good;
    error->code = (int)cause->code;
    memcpy(error->message, cause->message, sizeof error->message);
    return good;
}

bool library_given(const void *given, const char *name, const char *from, Error *error) {
    if (given) return true;
    return from ? error_set(error, ERROR_USAGE, "%s is NULL: see the error of %s", name, from)
                : error_set(error, ERROR_USAGE, "%s is NULL", name);
}

bool library_id(int32_t id, int vocab_size, Error *error) {
    if (id >= 0 && id < vocab_size) return true;
    return error_set(error, ERROR_USAGE, "token id %d is not below the vocabulary size %d", (int)id,
                     vocab_size);
}

// ---- which tokenizer ----

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

bool own_tokenizer_open(OwnTokenizer *own, const char *path, int vocab_size, Error *error) {
    if (builtin_is_meant(path) || path_is_gguf(path)) {
        if (!checkpoint_open_vocabulary(&own->owner, path, error)) return false;
        own->tokenizer = open_tokenizer_of(own->owner, error);
        return own->tokenizer;
    }
    Error first = {0}, second = {0};
    TokenizerSource source = {.path = path, .vocab_size = vocab_size};
    own->tokenizer = tokenizer_open(&source, &first);
    if (own->tokenizer) return true;
    // Not a tokenizer; perhaps a model that has one beside it.
    if ((first.code == ERROR_FILE || is_directory(path)) &&
        checkpoint_open(&own->owner, path, &second)) {
        own->tokenizer = open_tokenizer_of(own->owner, error);
        return own->tokenizer;
    }
    return error_copy(error, &first);
}

bool own_tokenizer_fits(const OwnTokenizer *own, int vocab_size, Error *error) {
    return tokenizer_limit(own->tokenizer, vocab_size) ||
           error_set(error, ERROR_FILE, "the tokenizer has %d tokens, the model only %d",
                     tokenizer_size(own->tokenizer), vocab_size);
}

void own_tokenizer_close(OwnTokenizer *own) {
    tokenizer_close(own->tokenizer);
    checkpoint_close(own->owner);
    *own = (OwnTokenizer){0};
}

// A model that has no tokenizer is no error here: not all that can be done with it needs one. The
// one that was named has to open.
static bool open_tokenizer(limpid_model *m, const char *path, Error *error) {
    int vocab_size = m->config->vocab_size;
    if (path) {
        if (!own_tokenizer_open(&m->own, path, vocab_size, error)) return false;
    } else if (m->in_memory && !checkpoint_vocabulary(m->checkpoint)->model) {
        error_set(&m->no_tokenizer, ERROR_FILE, "the bytes have no vocabulary: give a tokenizer");
    } else {
        m->own.tokenizer = open_tokenizer_of(m->checkpoint, &m->no_tokenizer);
        ErrorCode code = m->no_tokenizer.code;
        if (code && code != ERROR_FILE) return error_copy(error, &m->no_tokenizer);
    }
    return !m->own.tokenizer || own_tokenizer_fits(&m->own, vocab_size, error) ||
           error_prefix(error, path ? path : checkpoint_path(m->checkpoint));
}

// ---- opening ----

bool limpid_ends(const limpid_model *m, int32_t id) {
    for (size_t i = 0; m && i < m->n_stops; i++)
        if (m->stops[i] == id) return true;
    return false;
}

// Each id once; those beyond the capacity are left out.
static void add_stop(limpid_model *m, int32_t id) {
    enum { CAPACITY = sizeof m->stops / sizeof *m->stops };
    if (id >= 0 && !limpid_ends(m, id) && m->n_stops < CAPACITY) m->stops[m->n_stops++] = id;
}

static void find_stops(limpid_model *m) {
    int32_t of_tokenizer[32];
    size_t count = m->own.tokenizer ? tokenizer_stops(m->own.tokenizer, of_tokenizer, 32) : 0;
    for (int i = 0; i < m->config->n_eos_ids; i++)
        add_stop(m, m->config->eos_ids[i]);
    for (size_t i = 0; i < count && i < 32; i++)
        add_stop(m, of_tokenizer[i]);
    // llama2.c was trained on stories one after another, so BOS ends one.
    if (is_llama2c(m->checkpoint)) add_stop(m, m->config->bos_id);
}

// The end of both kinds of opening. `opened`: m has its checkpoint.
static limpid_model *complete(limpid_model *m, bool opened, const char *tokenizer, Error *cause,
                              limpid_error *error) {
    if (opened) m->config = checkpoint_config(m->checkpoint);
    if (library_result(error, opened && open_tokenizer(m, tokenizer, cause), cause)) {
        find_stops(m);
        return m;
    }
    limpid_close(m);
    return NULL;
}

static limpid_model *model_new(Error *cause) {
    limpid_model *m = calloc(1, sizeof *m);
    if (!m) error_set(cause, ERROR_MEMORY, "no memory for a model");
    return m;
}

// Its files are opened one after another: those of two directories are no model.
static bool still_there(const char *path, const struct stat *directory, Error *error) {
    struct stat now;
    if (!S_ISDIR(directory->st_mode) || (!stat(path, &now) && same_file(&now, directory)))
        return true;
    error_set(error, ERROR_IO, "the directory was replaced while it was read: try again");
    return error_prefix(error, path);
}

limpid_model *limpid_open(const char *path, const char *tokenizer, limpid_error *error) {
    Error cause = {0};
    struct stat directory;
    limpid_model *m = library_given(path, "path", NULL, &cause) ? model_new(&cause) : NULL;
    if (!m || stat(path, &directory)) directory = (struct stat){0};
    bool opened = m && checkpoint_open(&m->checkpoint, path, &cause);
    m = complete(m, opened, tokenizer, &cause, error);
    if (!m || library_result(error, still_there(path, &directory, &cause), &cause)) return m;
    limpid_close(m);
    return NULL;
}

limpid_model *limpid_open_memory(const void *bytes, size_t size, const char *tokenizer,
                                 limpid_error *error) {
    Error cause = {0};
    limpid_model *m = library_given(bytes, "bytes", NULL, &cause) ? model_new(&cause) : NULL;
    bool opened = m && checkpoint_open_memory(&m->checkpoint, "memory", bytes, size, &cause);
    if (m) m->in_memory = true;
    return complete(m, opened, tokenizer, &cause, error);
}

void limpid_close(limpid_model *m) {
    if (!m) return;
    own_tokenizer_close(&m->own);
    checkpoint_close(m->checkpoint);
    free(m);
}

limpid_info limpid_describe(const limpid_model *m) {
    if (!m) return (limpid_info){.bos = -1};
    const Config *c = m->config;
    const Tokenizer *tokenizer = m->own.tokenizer;
    const ChatTemplate *chat = chat_format(m->checkpoint, tokenizer);
    return (limpid_info){
        .family = c->family,
        .tokenizer = tokenizer ? tokenizer_description(tokenizer) : NULL,
        .chat = chat ? chat_template_name(chat) : NULL,
        .vocab_size = c->vocab_size,
        .max_context = config_longest_context(c),
        .dim = c->dim,
        .n_layers = c->n_layers,
        .n_heads = c->n_heads,
        .n_kv_heads = c->n_kv_heads,
        .head_dim = c->head_dim,
        .bos = tokenizer ? tokenizer_bos(tokenizer) : c->bos_id,
    };
}
