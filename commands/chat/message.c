// A message typed at a terminal: one line, or several.
//
//   a line that ends with a backslash   the next line belongs to it
//   """                                 all lines up to the next """
//   a paste                             one line of the editor, newlines included
#include "commands/chat/chat.h"

#include "commands/shared/output.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define QUOTES "\"\"\""
enum { QUOTES_LENGTH = 3, TERMINAL_LINE = 4095 };

// Standard error where there is no editor, since the mark is not part of the result.
static bool read_plain(Chat *chat, const char *mark, Buffer *line, const TextLimit *limit,
                       LineEnd *end, Error *error) {
    Text text = {0};
    bool ended = false;
    fprintf(stderr, chat->color ? "\033[1m%s\033[0m" : "%s", mark);
    fflush(stderr);
    bool good = text_read_line(&text, limit, &ended, error);
    line->size = 0;
    if (good) buffer_put(line, text.bytes, text.length);
    text_free(&text);
    if (line->size >= TERMINAL_LINE)
        note("a terminal takes %d bytes of a line where there is no line editor, so this one may "
             "have been cut: it was not sent (-f FILE takes any length, \"\"\" several lines)",
             TERMINAL_LINE);
    if (line->size >= TERMINAL_LINE) line->size = 0;
    *end = ended ? LINE_ENDED : LINE_READ;
    return good && (!line->failed || error_set(error, ERROR_MEMORY, "no memory for the message"));
}

static bool read_line(Chat *chat, const char *mark, Buffer *line, const TextLimit *limit,
                      LineEnd *end, Error *error) {
    if (!chat->editor) return read_plain(chat, mark, line, limit, end, error);
    return line_editor_read(chat->editor, mark, line, limit->bytes, end, error);
}

static bool begins_with_quotes(const Buffer *line) {
    return line->size >= QUOTES_LENGTH && !memcmp(line->bytes, QUOTES, QUOTES_LENGTH);
}

// Whether the message ends with quotes that are not those it began with.
static bool ends_with_quotes(const Buffer *message) {
    return message->size >= 2 * QUOTES_LENGTH &&
           !memcmp(message->bytes + message->size - QUOTES_LENGTH, QUOTES, QUOTES_LENGTH);
}

// Takes the quotes away, and the newlines beside them.
static void unquote(Buffer *message) {
    size_t begin = QUOTES_LENGTH, end = message->size - QUOTES_LENGTH;
    if (begin < end && message->bytes[begin] == '\n') begin++;
    if (begin < end && message->bytes[end - 1] == '\n') end--;
    memmove(message->bytes, message->bytes + begin, end - begin);
    message->size = end - begin;
}

// Whether another line belongs to the message; a backslash at its end is taken away.
static bool goes_on(Buffer *message, bool quoted) {
    if (quoted) return !ends_with_quotes(message);
    if (!message->size || message->bytes[message->size - 1] != '\\') return false;
    message->size--;
    return true;
}

bool message_read(Chat *chat, Buffer *message, const TextLimit *limit, LineEnd *end, Error *error) {
    Buffer line = {0};
    bool good = read_line(chat, "> ", message, limit, end, error);
    bool quoted = good && *end == LINE_READ && begins_with_quotes(message), several = false;
    while (good && *end == LINE_READ && goes_on(message, quoted)) {
        good = read_line(chat, ". ", &line, limit, end, error);
        several = true;
        buffer_put(message, "\n", 1);
        buffer_put(message, line.bytes, line.size);
        if (good && message->size > limit->bytes)
            good =
                error_set(error, ERROR_USAGE, "the message has more than %zu bytes", limit->bytes);
    }
    if (good && *end == LINE_READ && quoted) unquote(message);
    if (message->failed) good = error_set(error, ERROR_MEMORY, "no memory for the message");
    // Several lines are work that is not lost where they are not sent.
    bool kept = several || (good && *end == LINE_READ);
    if (kept && message->size && chat->editor)
        line_editor_remember(chat->editor, (const char *)message->bytes, message->size);
    buffer_free(&line);
    return good;
}
