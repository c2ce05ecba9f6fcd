// chat --session: a conversation that goes on in the next run, from a file with its turns, its
// tokens and what the model has computed of them (commands/cache/cache_file.h).
//
//   the same model and options    the cache comes from the file
//   the same model                its tokens are read again, so the conversation is the same one
//   another model, another format the conversation is read again, from its text
//
// The file is written at the end, whole, in place of the one that was there.
#include "commands/cache/cache_file.h"
#include "commands/chat/chat.h"
#include "commands/shared/inputs.h"
#include "commands/shared/output.h"
#include "commands/shared/recording.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct ChatSession {
    CacheFile file; // until it is restored
    FileSet inputs;
    OutputFile out;
    char digest[FNV_HEX];
    CacheKey key;
    bool is_there;
    bool is_new;    // the file was made, empty, to be locked
    int lock;       // a descriptor of it; -1: none
    size_t n_turns; // that were read from it
};

enum { KEY_MODEL = 2 };

static bool check_options(const Options *o, Error *error) {
    if (!cache_file_possible("--session", error)) return false;
    if (!o->transcript || !output_files_same(o->session, o->transcript)) return true;
    return error_set(error, ERROR_USAGE, "--session and --transcript name one file");
}

// A prompt's file has no conversation. With --force a damaged one is as good as none.
static bool read_file(ChatSession *s, const Options *o, Error *error) {
    Error problem = {0};
    if (!s->is_there) return true;
    if (cache_file_open(&s->file, o->session, &problem)) {
        if (s->file.text.length) return true;
        return error_set(error, ERROR_FILE,
                         "%s: holds a prompt of generate --cache, no conversation", o->session);
    }
    if (problem.code != ERROR_FILE) return error_copy(error, &problem);
    if (!o->force)
        return error_set(error, ERROR_FILE, "%s; --force begins it anew", problem.message);
    if (!o->quiet) note("%s; --force: it begins anew", problem.message);
    s->is_there = false;
    return true;
}

bool chat_session_open(Chat *chat, Error *error) {
    const Options *o = &chat->options;
    if (!o->session) return true;
    ChatSession *s = chat->saved = calloc(1, sizeof *s);
    if (!s) return error_set(error, ERROR_MEMORY, "no memory for --session");
    s->lock = -1;
    if (!check_options(o, error) || !cache_file_is_one(o->session, &s->is_there, error))
        return false;
    s->out =
        (OutputFile){.path = o->session, .inputs = &s->inputs, .force = !access(o->session, F_OK)};
    if (!inputs_find(&s->inputs, o, error) || !inputs_check(&s->out, o, error) ||
        !locked_file_open(o->session, O_RDONLY, true, &s->lock, &s->is_new, error) ||
        !cache_file_is_one(o->session, &s->is_there, error))
        return false;
    s->out.force = true; // the file of this name is locked
    return read_file(s, o, error) && model_digest(s->digest, &chat->session, error);
}

// ---- going on ----

// Which value of the key differs; CACHE_KEYS: none, and the state in the file is that of this run.
static int difference(const ChatSession *s) {
    int which;
    cache_key_equal(&s->file.key, &s->key, &which);
    return which;
}

// Whether the tokens of the file are the conversation: of this model, as this run would have them.
// Else `why` says what differs.
typedef struct Difference {
    bool other_system, more; // more: exchanges that had left a smaller context fit into this one
    char why[400];
} Difference;

static bool has_tokens(const Chat *chat, const ChatOrigin *origin, Difference *d) {
    const ChatSession *s = chat->saved;
    const char *format = chat_template_name(chat->format);
    int context = chat->session.model->options.context;
    d->why[0] = '\0';
    if (strcmp(s->file.key.values[KEY_MODEL], s->digest) != 0)
        snprintf(d->why, sizeof d->why, "the session is of another model: %s", origin->model);
    else if (strcmp(origin->format, format) != 0)
        snprintf(d->why, sizeof d->why, "the session has the chat format %s, this run %s",
                 origin->format, format);
    else if (d->other_system)
        snprintf(d->why, sizeof d->why, "the session has another system message than -y");
    else if (s->file.cached > context)
        snprintf(d->why, sizeof d->why, "the session has %d tokens, the context room for %d",
                 s->file.cached, context);
    else if (d->more)
        snprintf(d->why, sizeof d->why, "the context has room for more of it");
    else
        return s->file.ids.count;
    return false;
}

// An answer that was cut off has one token that is not in the cache yet.
static bool take_tokens(Chat *chat, Error *error) {
    CacheFile *f = &chat->saved->file;
    size_t behind = f->ids.count - (size_t)f->cached;
    if (behind > 1)
        return error_set(error, ERROR_FILE, "%s: %zu ids behind the cached ones, wanted at most 1",
                         f->path, behind);
    for (size_t i = 0; i < f->ids.count; i++)
        if (f->ids.ids[i] >= chat->session.config->vocab_size)
            return error_set(error, ERROR_FILE,
                             "%s: token id %d is not below the vocabulary size %d", f->path,
                             (int)f->ids.ids[i], chat->session.config->vocab_size);
    chat->pending = behind ? f->ids.ids[f->cached] : -1;
    id_list_free(&chat->accepted);
    chat->accepted = f->ids;
    f->ids = (IdList){0};
    return true;
}

// The cache, computed again. False: as a pass, or 130.
static bool read_again(Chat *chat, int length, Error *error) {
    size_t fed = 0;
    if (!take_tokens(chat, error) ||
        !session_feed(&chat->session, chat->accepted.ids, (size_t)length, &fed, error))
        return false;
    return fed == (size_t)length || error_set(error, ERROR_INTERRUPTED, "interrupted");
}

// The cache, from the file or, where that is of other options or damaged, computed again.
static bool fill_cache(Chat *chat, Error *error) {
    ChatSession *s = chat->saved;
    const Session *session = &chat->session;
    int length = s->file.cached, which = difference(s);
    bool quiet = chat->options.quiet;
    Error problem = {0};
    if (which < CACHE_KEYS) {
        if (!quiet)
            note("%s was made with %s %.60s, this run has %.60s: its %d tokens are read again",
                 s->file.path, cache_key_name(which), s->file.key.values[which],
                 s->key.values[which], length);
        return read_again(chat, length, error);
    }
    // Before its ids are taken, which are checked with it.
    if (cache_file_restore(&s->file, &session->model->cache, session->config->vocab_size, length,
                           &problem)) {
        if (!quiet)
            note("%zu exchange%s, %d tokens of the conversation from %s", chat->n_turns,
                 chat->n_turns == 1 ? "" : "s", length, s->file.path);
        return take_tokens(chat, error);
    }
    if (problem.code != ERROR_FILE) return error_copy(error, &problem);
    if (!quiet) note("%s; its %d tokens are read again", problem.message, length);
    return read_again(chat, length, error);
}

// The system message of the command line, where the conversation has another. *other: it had.
static bool set_system(Chat *chat, bool *other, Error *error) {
    const char *system = chat->options.system;
    size_t length = system ? strlen(system) : 0;
    *other = system && !(chat->has_system && chat->system.size == length &&
                         !memcmp(chat->system.bytes, system, length));
    return !*other || conversation_set_system(chat, system, length, 0, error);
}

static void say_read_again(const Chat *chat, const char *why) {
    size_t n = chat->n_turns - chat->left;
    note("%s: %s%s%zu exchange%s, which the model will read again", chat->saved->file.path, why,
         *why ? "; " : "", n, n == 1 ? "" : "s");
}

bool chat_session_restore(Chat *chat, Error *error) {
    ChatSession *s = chat->saved;
    ChatOrigin origin;
    if (!s) return true;
    cache_key_of(&s->key, &chat->session, s->digest);
    if (!s->is_there) {
        if (!chat->options.quiet) note("%s: a new conversation", chat->options.session);
        return true;
    }
    TextSpan text = s->file.text;
    Difference d = {0};
    if (!conversation_read(chat, text.text, text.length, &origin, error))
        return error_prefix(error, s->file.path);
    s->n_turns = chat->n_turns;
    if (!set_system(chat, &d.other_system, error) || !conversation_take_back(chat, &d.more, error))
        return false;
    bool good = true, begun = has_tokens(chat, &origin, &d);
    if (begun)
        good = fill_cache(chat, error);
    else if (chat->n_turns && !chat->options.quiet)
        say_read_again(chat, d.why);
    chat->begun = begun;
    Speculation *drafts = drafting_speculation(chat->drafting);
    if (begun && good && drafts)
        speculation_text(drafts, 0, chat->accepted.ids,
                         kv_cache_length(&chat->session.model->cache, 0));
    cache_file_close(&s->file);
    return good;
}

// ---- the end ----

// The cache holds the tokens of the conversation, but for a pending one: not after a failure.
static int tokens_in_cache(const Chat *chat) {
    int length = kv_cache_length(&chat->session.model->cache, 0);
    size_t pending = chat->pending >= 0;
    return chat->begun && (size_t)length + pending == chat->accepted.count ? length : 0;
}

// Whether the name leads to nothing, or to the file that is locked, as long as that is a session.
static bool is_still_ours(const ChatSession *s) {
    Error problem = {0};
    bool is_there;
    if (access(s->out.path, F_OK)) return errno == ENOENT;
    return locked_file_is_at(s->out.path, s->lock) &&
           cache_file_is_one(s->out.path, &is_there, &problem);
}

// A name beside it that is free; owned. NULL: there is none, or no memory.
static char *free_name(const char *path, Error *error) {
    for (int i = 1; i < 100; i++) {
        char *name = text_print(error, "%s.%d", path, i);
        if (!name || access(name, F_OK)) return name;
        free(name);
    }
    error_set(error, ERROR_IO, "%s: is no longer the session, and no name beside it is free", path);
    return NULL;
}

// Where there is no room for what the model has computed, the texts alone.
static bool write_content(const OutputFile *out, CacheContent *content, Error *error) {
    Error problem = {0};
    if (cache_file_write(out, content, &problem)) return true;
    content->n_ids = 0;
    content->cached = 0;
    if (!cache_file_write(out, content, NULL)) return error_copy(error, &problem);
    note("%s; the texts alone are kept, which the model reads again", problem.message);
    return true;
}

// What has come to the file's name is not replaced. *beside: it is written to another name, and
// `error` says that.
static bool write_file(const ChatSession *s, CacheContent *content, bool *beside, Error *error) {
    *beside = false;
    if (is_still_ours(s)) return write_content(&s->out, content, error);
    char *name = free_name(s->out.path, error);
    OutputFile out = {.path = name, .inputs = s->out.inputs};
    *beside = name && write_content(&out, content, error);
    const char *slash = *beside ? strrchr(name, '/') : NULL;
    if (*beside)
        error_set(error, ERROR_IO,
                  "%s: another file has come to this name, and stays; the "
                  "conversation is beside it, in %s",
                  s->out.path, slash ? slash + 1 : name);
    free(name);
    return false;
}

// After a failure the file is written where something was said before it, and what hinders that is
// said here: `error` has the failure.
bool chat_session_save(Chat *chat, bool failed, Error *error) {
    ChatSession *s = chat->saved;
    Buffer text = {0};
    Error problem = {0};
    bool beside = false;
    if (!s || (!chat->n_turns && !s->is_there)) return true;
    if (failed && !chat->typed && chat->n_turns == s->n_turns) return true;
    conversation_print(&text, chat, s->digest);
    int cached = tokens_in_cache(chat);
    CacheContent content = {.key = &s->key,
                            .ids = chat->accepted.ids,
                            .n_ids = cached ? chat->accepted.count : 0,
                            .cached = cached,
                            .text = {(const char *)text.bytes, text.size},
                            .cache = &chat->session.model->cache};
    bool good = !text.failed || error_set(&problem, ERROR_MEMORY, "no memory for the conversation");
    good = good && write_file(s, &content, &beside, &problem);
    buffer_free(&text);
    s->is_new = s->is_new && !good;
    if (good && !chat->options.quiet)
        note("%s is kept in %s", failed ? "what was said before" : "the conversation",
             chat->options.session);
    if (good) return true;
    if (!failed) return error_copy(error, &problem);
    note(beside ? "%s" : "the conversation is lost: %s", problem.message);
    return false;
}

void chat_session_close(ChatSession *s) {
    if (!s) return;
    cache_file_close(&s->file);
    // While it is locked, and is what the name leads to. An empty file says nothing that its
    // absence does not; another may have written into it.
    struct stat state;
    if (s->is_new && locked_file_is_at(s->out.path, s->lock) && !fstat(s->lock, &state) &&
        !state.st_size)
        unlink(s->out.path);
    if (s->lock >= 0) close(s->lock);
    file_set_free(&s->inputs);
    free(s);
}
