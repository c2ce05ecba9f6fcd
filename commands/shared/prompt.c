// Where text comes from, how much of it is read, and how it becomes ids.
//
//   -i | -f FILE | standard input -> text_read (bytes, at most the limit) -> tokenizer -> ids
//   --prompt-ids                  -> ids_parse ---------------------------------------> ids
#include "commands/shared/prompt.h"

#include "base/bytes.h"
#include "base/file_reader.h"
#include "commands/shared/interrupt.h"
#include "commands/shared/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STDIN_NAME "standard input"

// Makes room for another byte: twice as much as before, but never more than one byte over the
// limit, so that an endless input takes no more memory than the longest one allowed.
static bool grow(Text *text, const TextLimit *limit, const char *name, Error *error) {
    if (text->length < text->capacity) return true;
    size_t capacity = text->capacity ? 2 * text->capacity : 65536;
    if (capacity > limit->bytes) capacity = limit->bytes + 1;
    char *grown = realloc(text->bytes, capacity);
    if (!grown) return error_set(error, ERROR_MEMORY, "%s: out of memory", name);
    text->bytes = grown;
    text->capacity = capacity;
    return true;
}

// The limit is checked as the text grows, so that an endless input ends after the limit, not with
// the memory. Exit code 2.
static bool check_limit(const Text *text, const TextLimit *limit, const char *name, Error *error) {
    if (text->length <= limit->bytes) return true;
    if (!limit->context)
        return error_set(error, ERROR_USAGE, "%s: more than %zu bytes (see --limits)", name,
                         limit->bytes);
    return error_set(error, ERROR_USAGE,
                     "%s: more than %zu bytes, the limit for a context of %d tokens (see --limits)",
                     name, limit->bytes, limit->context);
}

static bool cannot_read(const char *name, Error *error) {
    return file_cannot(error, "read it") || error_prefix(error, name);
}

// Reads a descriptor to its end. Reading is what fails for a directory and for a bad disk.
static bool read_all(Text *text, int fd, const TextLimit *limit, const char *name, Error *error) {
    for (;;) {
        if (!check_limit(text, limit, name, error) || !grow(text, limit, name, error)) return false;
        ssize_t got = read(fd, text->bytes + text->length, text->capacity - text->length);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return cannot_read(name, error);
        if (got == 0) return true;
        text->length += (size_t)got;
    }
}

// "-" is standard input, as in other programs.
static bool read_file(Text *text, const char *path, const TextLimit *limit, Error *error) {
    if (!strcmp(path, "-")) return read_all(text, STDIN_FILENO, limit, STDIN_NAME, error);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return file_cannot(error, "open it") || error_prefix(error, path);
    bool good = read_all(text, file, limit, path, error);
    close(file);
    return good;
}

TextLimit text_limit(void) {
    return (TextLimit){.bytes = LIMIT_TEXT};
}

TextLimit prompt_limit(const Session *s) {
    bool given = option_given(s->options, OPTION_CONTEXT);
    int context = given ? (int)s->options->context : config_longest_context(s->config);
    // Generous: LIMIT_PROMPT_TOKEN bytes for each token of the context. A longer text
    // would hardly fit, and is refused before it is encoded.
    size_t bytes = LIMIT_PROMPT + (size_t)context * LIMIT_PROMPT_TOKEN;
    return (TextLimit){bytes < LIMIT_TEXT ? bytes : LIMIT_TEXT, context};
}

// What was read of standard input and is of no line yet: a terminal gives a line at a time, a pipe
// several.
static struct {
    size_t at, end;
    bool ended; // a terminal would go on
    char bytes[4096];
} input;

// *more: there is something. False: exit code 4 or 130.
static bool read_more(bool *more, Error *error) {
    ssize_t got = 0;
    do {
        if (input.ended) break;
        if (!interrupt_wait(STDIN_FILENO))
            return error_set(error, ERROR_INTERRUPTED, "interrupted");
        got = read(STDIN_FILENO, input.bytes, sizeof input.bytes);
    } while (got < 0 && (errno == EINTR || errno == EAGAIN));
    if (got < 0) return cannot_read(STDIN_NAME, error);
    *more = got > 0;
    input.ended = !*more;
    input.at = 0;
    input.end = (size_t)got;
    return true;
}

// A last line without a newline counts. \r\n is a newline too.
bool text_read_line(Text *line, const TextLimit *limit, bool *ended, Error *error) {
    line->length = 0;
    *ended = false;
    for (bool more = true;;) {
        if (input.at == input.end && !read_more(&more, error)) return false;
        if (!more) {
            *ended = !line->length;
            return true;
        }
        char c = input.bytes[input.at++];
        if (c == '\n') {
            if (line->length && line->bytes[line->length - 1] == '\r') line->length--;
            return true;
        }
        if (!grow(line, limit, STDIN_NAME, error)) return false;
        line->bytes[line->length++] = c;
        if (!check_limit(line, limit, STDIN_NAME, error)) return false;
    }
}

bool text_read(Text *text, const Options *options, const TextLimit *limit, Error *error) {
    *text = (Text){0};
    bool good = true;
    if (options->prompt) {
        text->length = strlen(options->prompt);
        text->bytes = strdup(options->prompt);
        if (!text->bytes) good = error_set(error, ERROR_MEMORY, "prompt: out of memory");
    } else if (options->file) {
        good = read_file(text, options->file, limit, error);
    } else if (!isatty(STDIN_FILENO)) {
        good = read_all(text, STDIN_FILENO, limit, STDIN_NAME, error);
    }
    if (!good) text_free(text);
    return good;
}

static bool text_ends_with(const Text *text, const char *end) {
    size_t length = strlen(end);
    return text->length >= length && !memcmp(text->bytes + text->length - length, end, length);
}

// What other systems' editors write into a file, and a model was not trained on.
static void note_marks(const Text *text) {
    static const char MARK[] = "\xef\xbb\xbf";
    if (text->length >= 3 && !memcmp(text->bytes, MARK, 3))
        note("the prompt begins with a byte order mark (EF BB BF), which is part of it");
    if (memmem(text->bytes, text->length, "\r\n", 2))
        note("the prompt has \\r\\n at the ends of lines, and \\r is part of it");
}

bool prompt_read(Text *text, const Options *o, const TextLimit *limit, Error *error) {
    if (!text_read(text, o, limit, error)) return false;
    bool typed = o->prompt || o->keep_newline; // -i has what was meant
    if (!typed && text_ends_with(text, "\n")) text->length -= text_ends_with(text, "\r\n") ? 2 : 1;
    if (!typed && !o->quiet) note_marks(text);
    return true;
}

void text_free(Text *text) {
    free(text->bytes);
    *text = (Text){0};
}

bool ids_parse(IdList *ids, const char *text, size_t length, const char *what, Error *error) {
    static const char BETWEEN[] = ", \t\r\n[]";
    for (size_t i = 0; i < length;) {
        if (text[i] && strchr(BETWEEN, text[i])) {
            i++;
            continue;
        }
        size_t begin = i;
        int64_t id = 0;
        // At most 10 digits, so that id cannot overflow before it is compared.
        while (i < length && text[i] >= '0' && text[i] <= '9' && i - begin < 10)
            id = 10 * id + (text[i++] - '0');
        bool ended = i == length || (text[i] && strchr(BETWEEN, text[i]));
        if (i == begin || !ended || id > INT32_MAX)
            return error_set(error, ERROR_USAGE, "%s: byte %zu is no token id", what, begin);
        if (!id_list_push(ids, (int32_t)id, error)) return false;
    }
    return true;
}

bool check_prompt(const Options *o, Error *error) {
    if (!!o->prompt + !!o->file + !!o->prompt_ids <= 1) return true;
    return error_set(error, ERROR_USAGE, "the prompt is one of -i, -f and --prompt-ids");
}

// A tokenizer takes any bytes, but a text in another encoding is seldom meant.
void text_note_encoding(const Text *text, const char *what, const Options *o) {
    uint32_t c = 0;
    for (size_t i = 0, n; i < text->length && !o->quiet; i += n) {
        n = utf8_decode(text->bytes + i, text->length - i, &c);
        if (n) continue;
        note("%s is not UTF-8 (byte %zu is 0x%02x): it is encoded all the same", what, i,
             (unsigned char)text->bytes[i]);
        return;
    }
}

bool text_encode(IdList *ids, const Session *s, bool is_prompt, const TextLimit *limit,
                 size_t *length, Error *error) {
    Text text = {0};
    bool (*read)(Text *, const Options *, const TextLimit *, Error *) =
        is_prompt ? prompt_read : text_read;
    if (!session_need_tokenizer(s, error) || !read(&text, s->options, limit, error)) return false;
    session_note_split(s);
    text_note_encoding(&text, is_prompt ? "the prompt" : "the text", s->options);
    // A prompt of nothing begins with BOS, a text of nothing is none.
    int flags =
        (is_prompt || text.length ? LIMPID_BEGIN : 0) | (s->options->special ? LIMPID_SPECIAL : 0);
    bool good = text_to_ids(s->tokenizer, ids, text.bytes, text.length, flags, error);
    *length = text.length;
    text_free(&text);
    return good;
}

bool prompt_encode(IdList *ids, const Session *s, Error *error) {
    const char *given = s->options->prompt_ids;
    TextLimit limit = prompt_limit(s);
    size_t length = 0;
    if (given) {
        if (!ids_parse(ids, given, strlen(given), "--prompt-ids", error) ||
            !session_check_ids(s, ids, error))
            return false;
    } else if (!text_encode(ids, s, true, &limit, &length, error)) {
        return false;
    }
    if (ids->count) return true;
    return error_set(error, ERROR_USAGE,
                     given ? "--prompt-ids: there are none"
                           : "the prompt is empty and this model has no BOS token");
}

// ---- labels ----

enum { LABEL_SIZE = 48 }; // bytes of a label; longer ones are cut between characters

// Appends a character, where there is room for it and the NUL.
static size_t append(char label[LABEL_SIZE], size_t at, const char *bytes, size_t length) {
    if (at + length >= LABEL_SIZE) return at;
    memcpy(label + at, bytes, length);
    return at + length;
}

// One label, NUL-terminated, of whole characters; "…" where it is cut.
static void make_label(char label[LABEL_SIZE], const char *text, size_t length) {
    static const char CUT[] = "\u2026";
    size_t at = 0, cut = 0;
    for (size_t i = 0; i < length;) {
        uint32_t c = 0;
        size_t n = utf8_decode(text + i, length - i, &c), before = at;
        if (n && c == ' ')
            at = append(label, at, "\u2423", 3);
        else if (n && c == '\n')
            at = append(label, at, "\\n", 2);
        else if (!n || c == '\t' || is_active_character(c))
            at = append(label, at, "\ufffd", 3);
        else
            at = append(label, at, text + i, n);
        if (at == before) { // no room
            memcpy(label + cut, CUT, sizeof CUT);
            return;
        }
        if (at + sizeof CUT <= LABEL_SIZE) cut = at;
        i += n ? n : 1;
    }
    label[at] = '\0';
}

char **token_labels(const Session *s, const IdList *ids, Error *error) {
    // The pointers and the texts in one block, so that one free is enough.
    char **labels = malloc(ids->count * (sizeof *labels + LABEL_SIZE) + 1);
    if (!labels) {
        error_set(error, ERROR_MEMORY, "no memory for the labels of %zu tokens", ids->count);
        return NULL;
    }
    char *block = (char *)(labels + ids->count);
    for (size_t i = 0; i < ids->count; i++) {
        size_t length = 0;
        labels[i] = block + i * LABEL_SIZE;
        const char *text =
            s->tokenizer ? tokenizer_piece(s->tokenizer, ids->ids[i], false, true, &length) : NULL;
        if (length)
            make_label(labels[i], text, length);
        else
            snprintf(labels[i], LABEL_SIZE, "%d", (int)ids->ids[i]);
    }
    return labels;
}
