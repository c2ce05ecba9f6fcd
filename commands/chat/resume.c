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

#include <stdlib.h>
#include <string.h>

struct ChatSession {
    CacheFile file; // until it is restored
    FileSet inputs;
    OutputFile out;
    char digest[FNV_HEX];
    CacheKey key;
    bool is_there;
};

enum { KEY_MODEL = 2 };

static bool check_options(const Options *o, Error *error) {
    if (!cache_file_possible("--session", error)) return false;
    if (!o->transcript || strcmp(o->session, o->transcript) != 0) return true;
    return error_set(error, ERROR_USAGE, "--session and --transcript name one file");
}

bool chat_session_open(Chat *chat, Error *error) {
    const Options *o = &chat->options;
    if (!o->session) return true;
    ChatSession *s = chat->saved = calloc(1, sizeof *s);
    if (!s) return error_set(error, ERROR_MEMORY, "no memory for --session");
    if (!check_options(o, error) || !cache_file_is_one(o->session, &s->is_there, error))
        return false;
    s->out = (OutputFile){.path = o->session, .inputs = &s->inputs, .force = s->is_there};
    if (!inputs_find(&s->inputs, o, error) || !inputs_check(&s->out, o, error)) return false;
    FileWriter *probe = file_writer_open(&s->out, 0, error);
    file_writer_close(probe);
    return probe && (!s->is_there || cache_file_open(&s->file, o->session, error)) &&
           model_digest(s->digest, &chat->session, error);
}

// ---- going on ----

// Which value of the key differs; CACHE_KEYS: none, and the state in the file is that of this run.
static int difference(const ChatSession *s) {
    int which;
    cache_key_equal(&s->file.key, &s->key, &which);
    return which;
}

// Whether the tokens of the file are the conversation: of this model, as this run would have them.
static bool has_tokens(const Chat *chat, const char *format) {
    const ChatSession *s = chat->saved;
    return s->file.ids.count && !strcmp(s->file.key.values[KEY_MODEL], s->digest) &&
           !strcmp(format, chat_template_name(chat->format));
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
    return !*other || conversation_set_system(chat, system, length, error);
}

bool chat_session_restore(Chat *chat, Error *error) {
    ChatSession *s = chat->saved;
    char format[64] = "";
    if (!s) return true;
    cache_key_of(&s->key, &chat->session, s->digest);
    if (!s->is_there) {
        if (!chat->options.quiet) note("%s: a new conversation", chat->options.session);
        return true;
    }
    TextSpan text = s->file.text;
    bool other = false;
    if (!conversation_read(chat, text.text, text.length, format, sizeof format, error))
        return error_prefix(error, s->file.path);
    if (!set_system(chat, &other, error)) return false;
    bool fits = s->file.cached <= chat->session.model->options.context;
    bool good = true, begun = !other && fits && has_tokens(chat, format);
    if (begun)
        good = fill_cache(chat, error);
    else if (chat->n_turns && !chat->options.quiet)
        note("%s: %zu exchange%s, which the model will read again", s->file.path, chat->n_turns,
             chat->n_turns == 1 ? "" : "s");
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

bool chat_session_save(Chat *chat, Error *error) {
    ChatSession *s = chat->saved;
    Buffer text = {0};
    if (!s || (!chat->n_turns && !s->is_there)) return true;
    conversation_print(&text, chat, s->digest);
    int cached = tokens_in_cache(chat);
    CacheContent content = {.key = &s->key,
                            .ids = chat->accepted.ids,
                            .n_ids = cached ? chat->accepted.count : 0,
                            .cached = cached,
                            .text = {(const char *)text.bytes, text.size},
                            .cache = &chat->session.model->cache};
    bool good = !text.failed || error_set(error, ERROR_MEMORY, "no memory for the conversation");
    good = good && cache_file_write(&s->out, &content, error);
    buffer_free(&text);
    if (good && !chat->options.quiet) note("the conversation is kept in %s", chat->options.session);
    return good;
}

void chat_session_close(ChatSession *s) {
    if (!s) return;
    cache_file_close(&s->file);
    file_set_free(&s->inputs);
    free(s);
}
