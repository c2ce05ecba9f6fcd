// What a message that begins with a slash does. Nothing of it goes to the model, an unknown command
// included; what fails is said in a line, and the conversation goes on.
#include "commands/chat/chat.h"

#include "commands/shared/option_rows.h"
#include "commands/shared/output.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct Command {
    const char *name, *argument, *meaning; // argument: NULL where it takes none
    bool optional;
    SlashResult (*run)(Chat *chat, const char *argument, Buffer *message);
} Command;

static SlashResult say_help(Chat *chat, const char *argument, Buffer *message);

static SlashResult leave(Chat *chat, const char *argument, Buffer *message) {
    (void)chat, (void)argument, (void)message;
    return SLASH_EXIT;
}

static SlashResult set_system(Chat *chat, const char *argument, Buffer *message) {
    Error error = {0};
    (void)message;
    int context = chat->session.model->options.context;
    if (!conversation_set_system(chat, argument, strlen(argument), context, &error))
        note("/system: %s", error.message);
    else
        note("the system message is set, for the conversation so far too");
    return SLASH_DONE;
}

// The file that is meant: without quotes around it, and under the home directory where it begins
// with "~/", as a shell has it. Borrowed until the next call.
static const char *file_named(const char *path) {
    static char bare[4096], whole[4096]; // a stack frame has no room for them
    const char *home = getenv("HOME");
    size_t length = strlen(path);
    if (length > 2 && length < sizeof bare && (*path == '"' || *path == '\'') &&
        path[length - 1] == *path) {
        memcpy(bare, path + 1, length - 2);
        bare[length - 2] = '\0';
        path = bare;
    }
    if (path[0] != '~' || path[1] != '/' || !home || !*home) return path;
    int bytes = snprintf(whole, sizeof whole, "%s%s", home, path + 1);
    return bytes > 0 && (size_t)bytes < sizeof whole ? whole : path;
}

// Appends to the transcript what was done with the messages before; a failure is only said.
static void record(Chat *chat, const char *event, const char *file) {
    Error error = {0};
    if (!transcript_event(chat, event, file, &error)) note("%s", error.message);
}

static SlashResult clear(Chat *chat, const char *argument, Buffer *message) {
    (void)argument, (void)message;
    conversation_clear(chat);
    record(chat, "clear", NULL);
    note("the conversation begins anew%s", chat->has_system ? "; the system message stays" : "");
    return SLASH_DONE;
}

static SlashResult save(Chat *chat, const char *argument, Buffer *message) {
    Error error = {0};
    (void)message;
    static const char FORCE[] = "--force ";
    bool force = !strncmp(argument, FORCE, strlen(FORCE));
    const char *path = file_named(force ? argument + strlen(FORCE) : argument);
    const char *last = strrchr(argument, ' ');
    if (!strcmp(last ? last + 1 : argument, "--force") || !strncmp(argument, "--force=", 8)) {
        note("/save: --force comes first, then the file: /save --force FILE");
        return SLASH_DONE;
    }
    if (conversation_save(chat, path, force, &error)) {
        note("saved: %s", path);
    } else {
        bool replaceable = !force && strstr(error.message, "is there already");
        note("/save: %s%s", error.message, replaceable ? " (/save --force FILE)" : "");
    }
    return SLASH_DONE;
}

static SlashResult load(Chat *chat, const char *argument, Buffer *message) {
    Error error = {0};
    (void)message;
    const char *path = file_named(argument);
    bool loaded = conversation_load(chat, path, &error);
    if (loaded) record(chat, "load", path);
    if (loaded)
        note("loaded: %zu exchange%s%s", chat->n_turns, chat->n_turns == 1 ? "" : "s",
             chat->has_system ? " and a system message" : "");
    else
        note("/load: %s", error.message);
    return SLASH_DONE;
}

static SlashResult undo(Chat *chat, const char *argument, Buffer *message) {
    (void)argument, (void)message;
    note(chat->n_turns ? "the last message and its answer are forgotten"
                       : "there is nothing before");
    if (chat->n_turns) record(chat, "undo", NULL);
    conversation_undo(chat);
    return SLASH_DONE;
}

static SlashResult retry(Chat *chat, const char *argument, Buffer *message) {
    return chat->n_turns ? SLASH_RETRY : undo(chat, argument, message);
}

// ---- /set ----

// Those of the sampler, and the length of an answer.
static bool may_be_set(OptionId id) {
    return (id >= OPTION_TEMPERATURE && id <= OPTION_SEED) || id == OPTION_MAX_TOKENS;
}

// The row of an option that may be set, by its long name, with '_' for '-' too.
static const OptionRow *row_to_set(char *name) {
    for (char *c = name; *c; c++)
        if (*c == '_') *c = '-';
    for (const OptionRow *row = option_rows(); row->name; row++)
        if (!strcmp(row->name, name) && (row->commands & FOR_CHAT) && may_be_set(row->id))
            return row;
    return NULL;
}

static void say_settings(Chat *chat) {
    Buffer line = {0};
    conversation_print_settings(&line, chat);
    buffer_zeros(&line, 1);
    if (!line.failed) note("%s", (const char *)line.bytes);
    buffer_free(&line);
}

static SlashResult set(Chat *chat, const char *argument, Buffer *message) {
    Error error = {0};
    char name[32] = "";
    size_t length = strcspn(argument, " =");
    const char *value = argument + length + strspn(argument + length, " =");
    (void)message;
    if (length < sizeof name) memcpy(name, argument, length);
    const OptionRow *row = row_to_set(name);
    if (length && !row)
        note("/set: there is no \"%.*s\"", (int)(length < 40 ? length : 40), argument);
    if (row && !*value) note("/set %s: the value is missing", name);
    if (!row || !*value) {
        if (!length) say_settings(chat);
        note("/set NAME VALUE: temperature, top-p, top-k, min-p, typical-p, repeat-penalty, "
             "repeat-last-n, presence-penalty, frequency-penalty, xtc-probability, xtc-threshold, "
             "dry-multiplier, dry-base, dry-allowed-length, dry-penalty-last-n, mirostat, "
             "mirostat-lr, mirostat-ent, max-tokens, seed");
        return SLASH_DONE;
    }
    Options before = chat->options;
    if (option_store(&chat->options, row, row->name, value, FOR_CHAT, &error)) {
        chat->options.given[row->id] = true;
        if (conversation_open_sampler(chat, &error)) {
            note("%s is %s", row->name, value);
            return SLASH_DONE;
        }
    }
    chat->options = before;
    note("/set: %s", error.message);
    return SLASH_DONE;
}

static SlashResult say_statistics(Chat *chat, const char *argument, Buffer *message) {
    const Model *model = chat->session.model;
    (void)argument, (void)message;
    char left[48] = "", used[64] = "the next message is read with all before it";
    if (chat->left)
        snprintf(left, sizeof left, ", %zu of them in the context", chat->n_turns - chat->left);
    if (chat->begun || !chat->n_turns)
        snprintf(used, sizeof used, "%d of %d tokens of the context",
                 chat->begun ? kv_cache_length(&model->cache, 0) : 0, model->options.context);
    note("%zu exchange%s%s; %s; seed %" PRIu64, chat->n_turns, chat->n_turns == 1 ? "" : "s", left,
         used, chat->seed);
    if (chat->decode_rate > 0)
        note("the last answer: prompt %.1f tokens/s, text %.1f tokens/s; memory %.1f MB",
             chat->prompt_rate, chat->decode_rate, (double)peak_memory_bytes() / 1e6);
    return SLASH_DONE;
}

static const Command COMMANDS[] = {
    {"help", NULL, "what can be typed", false, say_help},
    {"exit", NULL, "ends the conversation, as Ctrl-D and /bye do", false, leave},
    {"quit", NULL, NULL, false, leave},
    {"bye", NULL, NULL, false, leave},
    {"?", NULL, NULL, false, say_help},
    {"clear", NULL, "forgets the conversation", false, clear},
    {"system", "TEXT", "sets the system message", false, set_system},
    {"undo", NULL, "forgets the last message and its answer", false, undo},
    {"retry", NULL, "asks for another answer to the last message", false, retry},
    {"set", "NAME VALUE", "temperature 0.5, ...; alone: all", true, set},
    {"save", "FILE", "writes JSON; --force FILE replaces", false, save},
    {"load", "FILE", "goes on with a saved one", false, load},
    {"stats", NULL, "context in use, tokens per second", false, say_statistics},
    {.name = NULL},
};

static void say_row(const char *left, const char *right) {
    enum { COLUMN = 19 };
    fprintf(stderr, "  %-16s ", left);
    error_print(right, COLUMN, COLUMN);
}

static SlashResult say_help(Chat *chat, const char *argument, Buffer *message) {
    (void)chat, (void)argument, (void)message;
    for (const Command *c = COMMANDS; c->name; c++) {
        char left[32];
        snprintf(left, sizeof left, "/%s %s", c->name, c->argument ? c->argument : "");
        if (c->meaning) say_row(left, c->meaning);
    }
    say_row("//...", "sends a message that begins with a slash");
    say_row("\"\"\"", "begins and ends a message of several lines; so does \\ at an end");
    return SLASH_DONE;
}

// The text without blanks around it, in place.
static char *trimmed(char *text) {
    text += strspn(text, " \t\n");
    for (size_t n = strlen(text); n && strchr(" \t\n", text[n - 1]); n--)
        text[n - 1] = '\0';
    return text;
}

SlashResult slash_run(Chat *chat, Buffer *message) {
    size_t blanks = 0;
    while (blanks < message->size && memchr(" \t\n", message->bytes[blanks], 3))
        blanks++;
    if (blanks == message->size) return SLASH_DONE;
    // Of several lines the first may be indented: that is a text.
    if (blanks && memchr(message->bytes, '\n', message->size)) return SLASH_SEND;
    if (message->bytes[blanks] != '/') return SLASH_SEND;
    memmove(message->bytes, message->bytes + blanks, message->size -= blanks);
    if (message->size > 1 && message->bytes[1] == '/') {
        memmove(message->bytes, message->bytes + 1, --message->size);
        return SLASH_SEND;
    }
    buffer_zeros(message, 1);
    if (message->failed) return SLASH_DONE;
    char *word = (char *)message->bytes + 1;
    size_t length = strcspn(word, " \t\n");
    char *argument = trimmed(word + length);
    for (const Command *c = COMMANDS; c->name; c++) {
        if (strlen(c->name) != length || memcmp(c->name, word, length)) continue;
        if (!c->argument == !*argument || c->optional) return c->run(chat, argument, message);
        note(c->argument ? "/%s %s: %s" : "/%s takes nothing after it", c->name, c->argument,
             c->meaning);
        return SLASH_DONE;
    }
    note("/%.*s is no command here (/help lists them, // sends a slash)",
         (int)(length < 40 ? length : 40), word);
    return SLASH_DONE;
}
