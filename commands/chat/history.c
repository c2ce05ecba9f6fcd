// The history of the chat: one message on a line, with \n for a newline and \\ for a backslash.
// Messages are appended one at a time, so that two chats share a file and a killed one has lost
// nothing. What fails is not reported: a chat goes on without its history.
#include "commands/chat/line_editor.h"

#include "base/file_reader.h"
#include "base/file_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

// Of a longer file the end is read; one that is longer than FILE_BYTES is cut to that end.
// A message of more than MESSAGE_BYTES is not kept: it would take the place of all others.
enum { READ_BYTES = 256 << 10, FILE_BYTES = 1 << 20, MESSAGE_BYTES = 64 << 10, PATH_BYTES = 4096 };

// A relative XDG_STATE_HOME is not used, as the XDG base directory specification has it.
const char *history_path(char *out, size_t size) {
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    int length = -1;
    if (state && *state == '/')
        length = snprintf(out, size, "%s/limpid/history", state);
    else if (home && *home == '/')
        length = snprintf(out, size, "%s/.local/state/limpid/history", home);
    return length > 0 && (size_t)length < size ? out : NULL;
}

// A regular file, never one that a link leads to. Opening a FIFO does not wait.
static int open_history(const char *path, int flags) {
    int file = open(path, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0600);
    struct stat state;
    if (file < 0 || (!fstat(file, &state) && S_ISREG(state.st_mode))) return file;
    close(file);
    return -1;
}

// Until the file is closed. A lock that stays is not worth waiting for: some 50 ms, then without.
static void lock(int file) {
    const struct timespec pause = {.tv_nsec = 5000000};
    for (int i = 0; i < 10 && flock(file, LOCK_EX | LOCK_NB); i++)
        nanosleep(&pause, NULL);
}

// The last READ_BYTES from the beginning of a line, malloced, with their number: 0 where the last
// line is longer. NULL: nothing.
static char *read_end(int file, size_t *size) {
    struct stat state;
    if (fstat(file, &state)) return NULL;
    off_t from = state.st_size > READ_BYTES ? state.st_size - READ_BYTES : 0;
    FileReader reader = {.descriptor = file, .size = (size_t)state.st_size};
    char *bytes = malloc(READ_BYTES);
    *size = reader.size - (size_t)from;
    if (!bytes || !file_reader_get(&reader, bytes, (size_t)from, *size, NULL)) {
        free(bytes);
        return NULL;
    }
    char *newline = from ? memchr(bytes, '\n', *size - 1) : NULL; // not that of the last line
    if (from && !newline) *size = 0;
    if (newline) {
        *size -= (size_t)(newline + 1 - bytes);
        memmove(bytes, newline + 1, *size);
    }
    return bytes;
}

// In place; returns the length.
static size_t unescape(char *text, size_t length) {
    size_t used = 0;
    for (size_t i = 0; i < length; i++) {
        bool escaped = text[i] == '\\' && i + 1 < length;
        if (escaped) i++;
        text[used++] = escaped && text[i] == 'n' ? '\n' : text[i];
    }
    return used;
}

void history_load(const char *path, void (*each)(void *context, const char *text, size_t length),
                  void *context) {
    size_t size = 0;
    int file = open_history(path, O_RDWR);
    if (file < 0) file = open_history(path, O_RDONLY); // then it is not cut
    if (file < 0) return;
    lock(file); // another chat appends before the cut or behind it
    char *bytes = read_end(file, &size);
    struct stat state;
    bool cut = bytes && size && !fstat(file, &state) && state.st_size > FILE_BYTES;
    // Where that fails some messages are there twice.
    if (cut && write_whole(file, bytes, size) && ftruncate(file, (off_t)size)) errno = 0;
    close(file);
    for (size_t i = 0; bytes && i < size;) {
        const char *newline = memchr(bytes + i, '\n', size - i);
        size_t end = newline ? (size_t)(newline - bytes) : size;
        size_t length = unescape(bytes + i, end - i);
        if (length) each(context, bytes + i, length);
        i = end + 1;
    }
    free(bytes);
}

// The directories of a path, those that are absent.
static void make_directories(const char *path) {
    static char part[PATH_BYTES]; // a stack frame has no room for a path
    if ((size_t)snprintf(part, sizeof part, "%s", path) >= sizeof part) return;
    for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(part, 0700);
        *slash = '/';
    }
}

// Whether the file ends with `line`: a newline, the message, a newline. In front of the first
// message there is none.
static bool ends_with_line(int file, const Buffer *line) {
    struct stat state;
    if (fstat(file, &state) || (uint64_t)state.st_size + 1 < line->size) return false;
    FileReader reader = {.descriptor = file, .size = (size_t)state.st_size};
    size_t size = reader.size < line->size ? line->size - 1 : line->size;
    char *end = malloc(size);
    bool same = end && file_reader_get(&reader, end, reader.size - size, size, NULL) &&
                !memcmp(end, line->bytes + line->size - size, size);
    free(end);
    return same;
}

// A message that is the last one already is not written again, as in the editor.
void history_append(const char *path, const char *text, size_t length) {
    Buffer line = {0};
    if (length > MESSAGE_BYTES) return;
    buffer_put(&line, "\n", 1);
    for (size_t i = 0; i < length; i++) {
        const char *escape = text[i] == '\n' ? "\\n" : text[i] == '\\' ? "\\\\" : NULL;
        buffer_put(&line, escape ? escape : text + i, escape ? 2 : 1);
    }
    buffer_put(&line, "\n", 1);
    make_directories(path);
    int file = line.failed ? -1 : open_history(path, O_RDWR | O_APPEND | O_CREAT);
    if (file >= 0) {
        lock(file);
        if (!ends_with_line(file, &line)) write_whole(file, line.bytes + 1, line.size - 1);
        close(file);
    }
    buffer_free(&line);
}
