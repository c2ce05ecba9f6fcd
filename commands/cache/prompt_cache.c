// What generate does with the file of --cache, from the command line to the new file.
#include "commands/cache/prompt_cache.h"

#include "commands/intervene/intervene.h"
#include "commands/shared/inputs.h"
#include "commands/shared/output.h"
#include "commands/shared/recording.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

bool prompt_cache_check(const Options *o, Error *error) {
    if (!o->cache) {
        if (!o->cache_read_only) return true;
        return error_set(error, ERROR_USAGE, "--cache-read-only: of what --cache FILE names");
    }
    if (o->mode == MODE_CHAT)
        return error_set(error, ERROR_USAGE, "--cache is of generate; chat has --session FILE");
    if (!cache_file_possible("--cache", error)) return false;
    if (o->no_cache) return error_set(error, ERROR_USAGE, "--cache excludes --no-cache");
    if (interventions_asked(o))
        return error_set(error, ERROR_USAGE,
                         "--cache excludes --ablate, --patch and --steer: the file is of the model "
                         "alone");
    if (o->color == COLOR_SURPRISE)
        return error_set(error, ERROR_USAGE,
                         "--cache excludes --color surprise, which needs the logits of every "
                         "token of the prompt");
    if (o->record && output_files_same(o->record, o->cache))
        return error_set(error, ERROR_USAGE, "--cache and --record name one file");
    return true;
}

// A damaged file is an error, or with --force as good as none.
static bool begin_damaged(PromptCache *c, const Error *problem, Error *error) {
    const Options *o = c->options;
    if (problem->code != ERROR_FILE || o->cache_read_only) return error_copy(error, problem);
    if (!o->force)
        return error_set(error, ERROR_FILE, "%s; --force begins it anew", problem->message);
    if (!o->quiet) note("%s; --force: it begins anew", problem->message);
    c->is_there = false;
    return true;
}

// A conversation is never replaced by a prompt.
static bool open_file(PromptCache *c, Error *error) {
    const char *path = c->options->cache;
    Error problem = {0};
    if (!cache_file_open(&c->file, path, &problem)) return begin_damaged(c, &problem, error);
    if (!c->file.text.length) return true;
    return error_set(error, ERROR_FILE,
                     "%s: holds a conversation of chat --session, which --cache does not replace",
                     path);
}

// What the file may be replaced by is known to be one of ours. Whether a new one can be written
// there is tried before the work, since the file comes behind it.
static bool open_output(PromptCache *c, Error *error) {
    const Options *o = c->options;
    c->out = (OutputFile){.path = o->cache, .inputs = &c->inputs, .force = !access(o->cache, F_OK)};
    if (!inputs_find(&c->inputs, o, error)) return false;
    Error problem = {0};
    if (inputs_check(&c->out, o, &problem)) return true;
    return error_set(
        error, problem.code, "%s%s", problem.message,
        c->out.force && problem.code == ERROR_IO ? " (--cache-read-only uses what is there)" : "");
}

// `chat --session` locks its file, which is empty at first.
static bool check_unlocked(const Options *o, Error *error) {
    int file = open(o->cache, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    bool taken = file >= 0 && flock(file, LOCK_SH | LOCK_NB) && errno == EWOULDBLOCK;
    if (file >= 0) close(file);
    return !taken || error_set(error, ERROR_IO, "%s: another run has it open", o->cache);
}

bool prompt_cache_open(PromptCache **out, const Options *o, Error *error) {
    if (!o->cache) return true;
    PromptCache *c = *out = calloc(1, sizeof *c);
    if (!c) return error_set(error, ERROR_MEMORY, "no memory for --cache");
    c->options = o;
    if (!check_unlocked(o, error) || !cache_file_is_one(o->cache, &c->is_there, error))
        return false;
    if (!o->cache_read_only && !open_output(c, error)) return false;
    if (c->is_there) return open_file(c, error);
    if (!o->cache_read_only) return true;
    return error_set(error, ERROR_IO,
                     "%s: is not there, or empty, and --cache-read-only makes none", o->cache);
}

bool prompt_cache_digest(PromptCache *c, const Session *s, Error *error) {
    return !c || model_digest(c->digest, s, error);
}

static size_t common_beginning(const IdList *a, const IdList *b) {
    size_t n = 0;
    while (n < a->count && n < b->count && a->ids[n] == b->ids[n])
        n++;
    return n;
}

// *fits: the file is of this model and these options. False: it is not, and --force is not given.
static bool check_key(PromptCache *c, bool *fits, Error *error) {
    int which;
    *fits = cache_key_equal(&c->file.key, &c->key, &which);
    if (*fits) return true;
    bool replaces = c->options->force && !c->options->cache_read_only;
    const char *had = c->file.key.values[which], *has = c->key.values[which];
    char escaped[CACHE_KEY_SIZE];
    escape_bytes(escaped, sizeof escaped, had, strlen(had));
    if (!replaces)
        return error_set(error, ERROR_FILE, "%s: made with %s %.60s, this run has %.60s%s",
                         c->options->cache, cache_key_name(which), escaped, has,
                         c->options->cache_read_only ? "" : "; --force begins it anew");
    if (!c->options->quiet)
        note("%s: made with %s %.60s, this run has %.60s; --force: it begins anew",
             c->options->cache, cache_key_name(which), escaped, has);
    return true;
}

// A common beginning that is in the file, and cannot be used.
static void say_lost(const PromptCache *c, int wanted, int length) {
    if (c->options->quiet || length == wanted) return;
    note(
        "%s: has the same first %d tokens, but of layers with a window only what tokens from %d on "
        "see: they are computed again",
        c->options->cache, wanted, c->file.lowest);
}

bool prompt_cache_restore(PromptCache *c, const Session *s, const IdList *prompt, Error *error) {
    if (!c) return true;
    bool fits = false;
    c->session = s;
    c->prompt = prompt;
    cache_key_of(&c->key, s, c->digest);
    if (c->is_there && !check_key(c, &fits, error)) return false;
    if (fits) {
        size_t common = common_beginning(prompt, &c->file.ids);
        if (common > (size_t)c->file.cached) common = (size_t)c->file.cached;
        c->holds_all = common == prompt->count;
        // The last token is always computed: its logits are what the text begins with.
        int wanted = (int)(common < prompt->count ? common : prompt->count - 1);
        KvSnapshot saved = {c->file.cached, c->file.lowest};
        int length = kv_cache_checkpoint(&s->model->cache, &saved, wanted);
        say_lost(c, wanted, length);
        Error problem = {0};
        bool good =
            cache_file_restore(&c->file, &s->model->cache, s->config->vocab_size, length, &problem);
        if (!good && !begin_damaged(c, &problem, error)) return false;
        c->used = good ? (size_t)length : 0;
        c->holds_all = c->holds_all && good;
    }
    cache_file_close(&c->file);
    if (c->options->quiet) return true;
    if (c->is_there)
        note("%zu of %zu prompt tokens from %s", c->used, prompt->count, c->options->cache);
    else
        note("%s: a new file, for the %zu token%s of the prompt", c->options->cache, prompt->count,
             prompt->count == 1 ? "" : "s");
    return true;
}

bool prompt_cache_save(PromptCache *c, Error *error) {
    if (!c || c->options->cache_read_only || c->holds_all) return true;
    Error problem = {0};
    struct stat now;
    // It was empty at first: another run has written it since.
    if (!c->is_there && !c->options->force && !stat(c->options->cache, &now) && now.st_size)
        c->out.force = false;
    bool good = cache_file_write(&c->out,
                                 &(CacheContent){.key = &c->key,
                                                 .ids = c->prompt->ids,
                                                 .n_ids = c->prompt->count,
                                                 .cached = (int)c->prompt->count,
                                                 .text = {.text = ""},
                                                 .cache = &c->session->model->cache},
                                 &problem);
    // Another run has made the file meanwhile: it stays, and this text has all that it needs.
    if (good || problem.code != ERROR_USAGE) return good || error_copy(error, &problem);
    if (!c->options->quiet)
        note("%s: another run has written it meanwhile, which stays", c->options->cache);
    return true;
}

void prompt_cache_close(PromptCache *c) {
    if (!c) return;
    cache_file_close(&c->file);
    file_set_free(&c->inputs);
    free(c);
}
