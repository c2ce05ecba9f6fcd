// Conversations as files: one JSON object, with the messages as other programs have them, and the
// ids that the model saw; or, as it goes, a JSON line for each message.
#include "commands/chat/chat.h"

#include "base/file_reader.h"
#include "commands/cache/cache_file.h"
#include "commands/commands.h"
#include "commands/shared/inputs.h"
#include "commands/shared/output.h"
#include "commands/shared/recording.h"
#ifndef WITHOUT_JSON
#include "base/json.h"
#endif

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHAT_FORMAT "limpid-chat 1"
enum { MOST_BYTES = 64 << 20 }; // of a file

// ---- writing ----

static void put_message(Buffer *b, const char *role, const void *text, size_t length) {
    buffer_print(b, "{\"role\":\"%s\",\"content\":", role);
    buffer_quote(b, length ? text : "", length);
}

static void put_messages(Buffer *b, const Chat *chat) {
    const char *between = "\n";
    buffer_print(b, "\"messages\":[");
    if (chat->has_system) {
        buffer_print(b, "%s", between);
        put_message(b, "system", chat->system.bytes, chat->system.size);
        buffer_print(b, "}");
        between = ",\n";
    }
    for (size_t i = 0; i < chat->n_turns; i++) {
        const Turn *turn = &chat->turns[i];
        buffer_print(b, "%s", between);
        put_message(b, "user", turn->user.bytes, turn->user.size);
        buffer_print(b, "},\n");
        put_message(b, "assistant", turn->answer.bytes, turn->answer.size);
        buffer_print(b, "}");
        between = ",\n";
    }
    buffer_print(b, "]");
}

void conversation_print(Buffer *b, const Chat *chat, const char *digest) {
    const char *model = chat->options.model;
    buffer_print(b, "{\"format\":\"%s\",\"limpid\":\"%s\",\n\"model\":{\"path\":", CHAT_FORMAT,
                 LIMPID_VERSION);
    buffer_quote(b, model, strlen(model));
    buffer_print(b, ",\"digest\":\"%s\"},\n\"template\":\"%s\",\n", digest,
                 chat_template_name(chat->format));
    put_messages(b, chat);
    if (chat->left)
        buffer_print(b, ",\n\"left\":%zu,\"left_context\":%d", chat->left, chat->left_context);
    // The tokens in the order in which the model saw them; none where they are to be read anew.
    buffer_print(b, ",\n\"ids\":[");
    for (size_t i = 0; chat->begun && i < chat->accepted.count; i++)
        buffer_print(b, "%s%d", i ? "," : "", (int)chat->accepted.ids[i]);
    buffer_print(b, "]}\n");
}

// What /save and --transcript may not replace: the model's files, the session, which is written at
// the end, and the transcript, which grows.
static bool inputs_of_chat(FileSet *inputs, const Options *o, Error *error) {
    const char *const mine[] = {o->session, o->transcript};
    if (!inputs_find(inputs, o, error)) return false;
    for (int i = 0; i < 2; i++)
        if (mine[i] && !access(mine[i], F_OK) && !file_set_add(inputs, mine[i], error))
            return false;
    return true;
}

// Whether the file holds a beginning of this conversation.
static bool is_saved_last(const Chat *chat, const char *path) {
    const Buffer *last = &chat->saved_last;
    FileCopy copy;
    Error cause = {0};
    if (!last->size || !file_copy_open(&copy, path, MOST_BYTES, &cause)) return false;
    bool same = copy.size == last->size && !memcmp(copy.bytes, last->bytes, last->size);
    file_copy_close(&copy);
    return same;
}

bool conversation_save(Chat *chat, const char *path, bool force, Error *error) {
    char digest[FNV_HEX];
    Buffer b = {0};
    FileSet inputs = {0};
    bool mine = is_saved_last(chat, path);
    OutputFile out = {
        .path = path, .inputs = &inputs, .force = force || mine || chat->options.force};
    bool good = inputs_of_chat(&inputs, &chat->options, error) &&
                inputs_check(&out, &chat->options, error) &&
                model_digest(digest, &chat->session, error);
    if (good) conversation_print(&b, chat, digest);
    if (b.failed) good = error_set(error, ERROR_MEMORY, "no memory for the file");
    good = good && file_write(&out, b.bytes, b.size, error);
    if (good) {
        buffer_free(&chat->saved_last);
        chat->saved_last = b;
    } else {
        buffer_free(&b);
    }
    file_set_free(&inputs);
    return good;
}

// ---- as it goes ----

static OutputFile transcript_output(const Options *o, const FileSet *inputs) {
    return (OutputFile){.path = o->transcript, .inputs = inputs, .force = o->force};
}

static bool check_transcript(FileSet *inputs, const Options *o, Error *error) {
    OutputFile out = transcript_output(o, inputs);
    return !o->transcript || (inputs_find(inputs, o, error) &&
                              (!o->session || file_set_add(inputs, o->session, error)) &&
                              inputs_check(&out, o, error));
}

bool transcript_check(const Options *o, Error *error) {
    FileSet inputs = {0};
    bool good = check_transcript(&inputs, o, error);
    file_set_free(&inputs);
    return good;
}

// It grows in place, since all of it is of use at any moment.
bool transcript_open(Chat *chat, Error *error) {
    const Options *o = &chat->options;
    const int flags = O_WRONLY | O_APPEND;
    FileSet inputs = {0};
    bool made, good = check_transcript(&inputs, o, error);
    OutputFile out = transcript_output(o, &inputs);
    if (good && o->transcript) {
        good = locked_file_open(o->transcript, flags, o->force, &chat->transcript, &made, error);
        if (good && !made) good = locked_file_replace(&out, "", 0, &chat->transcript, error);
    }
    file_set_free(&inputs);
    return good;
}

// Whole, or not at all.
static bool append(Chat *chat, const Buffer *lines, Error *error) {
    struct stat before;
    bool known = !fstat(chat->transcript, &before);
    if (lines->failed) return error_set(error, ERROR_MEMORY, "no memory for the transcript");
    if (write_whole(chat->transcript, lines->bytes, lines->size)) return true;
    error_set(error, ERROR_IO, "%s: %s", chat->options.transcript, strerror(errno));
    if (known && ftruncate(chat->transcript, before.st_size)) errno = 0; // it ends in half a line
    return false;
}

// At a terminal the conversation goes on without, and can be saved.
static bool append_lines(Chat *chat, Buffer *lines, Error *error) {
    Error problem = {0};
    bool good = append(chat, lines, &problem);
    buffer_free(lines);
    if (good) return true;
    if (!chat->typed) return error_copy(error, &problem);
    note("%s; the conversation goes on without its transcript", problem.message);
    close(chat->transcript);
    chat->transcript = -1;
    chat->transcript_failed = true;
    return true;
}

bool transcript_event(Chat *chat, const char *event, const char *file, Error *error) {
    Buffer line = {0};
    if (chat->transcript < 0) return true;
    buffer_print(&line, "{\"event\":\"%s\"", event);
    if (file) buffer_print(&line, ",\"file\":");
    if (file) buffer_quote(&line, file, strlen(file));
    buffer_print(&line, "}\n");
    return append_lines(chat, &line, error);
}

bool transcript_add(Chat *chat, const Turn *turn, const char *stop, Error *error) {
    Buffer lines = {0};
    if (chat->transcript < 0) return true;
    if (chat->retries) buffer_print(&lines, "{\"event\":\"undo\"}\n");
    put_message(&lines, "user", turn->user.bytes, turn->user.size);
    buffer_print(&lines, "}\n");
    put_message(&lines, "assistant", turn->answer.bytes, turn->answer.size);
    buffer_print(&lines, ",\"stop\":\"%s\"}\n", stop);
    return append_lines(chat, &lines, error);
}

// ---- reading ----

#ifdef WITHOUT_JSON
bool conversation_read(Chat *chat, const void *bytes, size_t size, ChatOrigin *origin,
                       Error *error) {
    (void)chat, (void)bytes, (void)size, (void)origin;
    return error_set(error, ERROR_FILE,
                     "a conversation is JSON, and this program was built without jansson");
}
#else

// Message `i`: *role is one of ours. False: exit code 3.
static bool read_message(const json_t *messages, size_t i, ChatRole *role, TextSpan *text,
                         Error *error) {
    const json_t *message = json_array_get(messages, i);
    const char *name = NULL;
    const json_t *content = json_is_object(message) ? json_object_get(message, "content") : NULL;
    if (!json_is_string(content) || !json_read_string(message, "role", &name, error) || !name)
        return error_set(error, ERROR_FILE, "message %zu: wanted role and content, both texts", i);
    *text = (TextSpan){json_string_value(content), json_string_length(content)};
    if (chat_role_by_name(role, name)) return true;
    return error_set(error, ERROR_FILE, "message %zu: got the role \"%.40s\", wanted %s", i, name,
                     "system, user or assistant");
}

// After a system message, user and assistant alternating. False: exit code 3 or 5.
static bool read_messages(Chat *chat, const json_t *root, Error *error) {
    const json_t *messages = NULL;
    if (!json_read_array(root, "messages", &messages, error)) return false;
    if (!messages) return error_set(error, ERROR_FILE, "no messages in it");
    TextSpan text, user = {0};
    for (size_t i = 0; i < json_array_size(messages); i++) {
        ChatRole role = CHAT_SYSTEM;
        if (!read_message(messages, i, &role, &text, error)) return false;
        ChatRole wanted = user.text ? CHAT_ASSISTANT : CHAT_USER;
        if (role == CHAT_SYSTEM && !i) {
            if (!conversation_set_system(chat, text.text, text.length, 0, error)) return false;
            continue;
        }
        if (role != wanted)
            return error_set(error, ERROR_FILE, "message %zu: wanted one of the %s", i,
                             user.text ? "assistant" : "user");
        if (role == CHAT_ASSISTANT && !conversation_add(chat, user, text, error)) return false;
        user = role == CHAT_USER ? text : (TextSpan){0};
    }
    return !user.text || error_set(error, ERROR_FILE, "the last message has no answer");
}

// How many exchanges had left a context, and of which size. False: exit code 3.
static bool read_left(Chat *chat, const json_t *root, Error *error) {
    int left = 0;
    if (!json_read_int(root, "left", &left, error) ||
        !json_read_int(root, "left_context", &chat->left_context, error))
        return false;
    if (left < 0 || (size_t)left > chat->n_turns || chat->left_context < 0)
        return error_set(error, ERROR_FILE, "left is %d of %zu exchanges, of a context of %d", left,
                         chat->n_turns, chat->left_context);
    chat->left = (size_t)left;
    return true;
}

static bool read_origin(ChatOrigin *origin, const json_t *root, Error *error) {
    static const char FORMAT[] = "limpid-chat ";
    const char *format = NULL, *path = NULL, *digest = NULL;
    const json_t *model = NULL;
    *origin = (ChatOrigin){0};
    // Files of other programs have no format, or one of their own.
    const char *kind = json_string_value(json_object_get(root, "format"));
    if (kind && !strncmp(kind, FORMAT, sizeof FORMAT - 1) && strcmp(kind, "limpid-chat 1") != 0)
        return error_set(error, ERROR_FILE, "format: got %.40s, wanted limpid-chat 1", kind);
    if (!json_read_string(root, "template", &format, error) ||
        !json_read_object(root, "model", &model, error) ||
        (model && !(json_read_string(model, "path", &path, error) &&
                    json_read_string(model, "digest", &digest, error))))
        return false;
    if (digest) snprintf(origin->digest, sizeof origin->digest, "%s", digest);
    if (format) snprintf(origin->format, sizeof origin->format, "%s", format);
    if (path) escape_bytes(origin->model, sizeof origin->model, path, strlen(path));
    return true;
}

// Read beside the conversation, which is then exchanged.
bool conversation_read(Chat *chat, const void *bytes, size_t size, ChatOrigin *origin,
                       Error *error) {
    // A vocabulary may have a token for the byte 0, so an answer may have one.
    static const JsonLimits LIMITS = {.bytes = MOST_BYTES, .values = 1 << 22, .nul = true};
    Chat read = {.session = chat->session, .format = chat->format};
    json_t *root = json_parse(bytes, size, &LIMITS, error);
    bool good = root && read_origin(origin, root, error) && read_messages(&read, root, error) &&
                read_left(&read, root, error);
    json_decref(root);
    if (!good) {
        conversation_free(&read);
        return false;
    }
    conversation_clear(chat);
    Turn *old_turns = chat->turns;
    Buffer old_system = chat->system;
    chat->turns = read.turns;
    chat->n_turns = read.n_turns;
    chat->capacity = read.capacity;
    chat->left = read.left;
    chat->left_context = read.left_context;
    chat->system = read.system;
    chat->has_system = read.has_system;
    chat->format = read.format;
    read.turns = old_turns;
    read.n_turns = 0;
    read.system = old_system;
    conversation_free(&read);
    return true;
}
#endif

// A conversation of --session is no JSON, and is not said to be broken JSON.
static bool check_kind(const char *path, Error *error) {
    Error other = {0};
    bool is_session = false;
    if (!cache_file_is_one(path, &is_session, &other) || !is_session) return true;
    return error_set(
        error, ERROR_FILE,
        "%s: is a binary file, as chat --session writes it; /load reads what /save wrote", path);
}

bool conversation_load(Chat *chat, const char *path, Error *error) {
    FileCopy copy;
    ChatOrigin origin;
    bool more = false;
    if (!check_kind(path, error)) return false;
    if (!file_copy_open(&copy, path, MOST_BYTES, error)) return error_prefix(error, path);
    bool good = conversation_read(chat, copy.bytes, copy.size, &origin, error);
    file_copy_close(&copy);
    if (!good) return error_prefix(error, path);
    char digest[FNV_HEX];
    Error unknown = {0}; // a digest that cannot be had: the conversation is loaded all the same
    if (*origin.digest && model_digest(digest, &chat->session, &unknown) &&
        strcmp(digest, origin.digest) != 0)
        note("%s is of another model, %s: this one reads its texts", path, origin.model);
    return conversation_take_back(chat, &more, error);
}
