// Lines of a file or a pipe, one at a time. Memory holds the longest line, and no line is longer
// than the limit: the rest of it is passed over.
#include "base/file_reader.h"
#include "commands/prompts/prompts.h"
#include "commands/shared/interrupt.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    FIRST_ROOM = 65536,
    ENDLESS = 64, // a line this many times the limit is refused: it is a device such as /dev/zero
};

// Room for more bytes: what was given goes, then the buffer doubles, up to one byte over the limit.
static bool make_room(LineReader *r, Error *error) {
    if (r->from) {
        memmove(r->bytes, r->bytes + r->from, r->to - r->from);
        r->to -= r->from;
        r->from = 0;
    }
    if (r->to < r->room) return true;
    size_t room = r->room ? 2 * r->room : FIRST_ROOM;
    if (room > r->most + 1) room = r->most + 1;
    char *grown = realloc(r->bytes, room);
    if (!grown) return error_set(error, ERROR_MEMORY, "%s: no memory for a line", r->path);
    r->bytes = grown;
    r->room = room;
    return true;
}

static bool fill(LineReader *r, Error *error) {
    if (!make_room(r, error)) return false;
    ssize_t got = -1;
    do {
        if (!interrupt_wait(r->file)) return error_set(error, ERROR_INTERRUPTED, "interrupted");
        got = read(r->file, r->bytes + r->to, r->room - r->to);
    } while (got < 0 && errno == EINTR);
    if (got < 0) return file_cannot(error, "read it") || error_prefix(error, r->path);
    r->at_end = !got;
    r->to += (size_t)got;
    return true;
}

bool line_is_ready(const LineReader *r) {
    struct pollfd input = {.fd = r->file, .events = POLLIN};
    return r->at_end || (r->bytes && memchr(r->bytes + r->from, '\n', r->to - r->from)) ||
           poll(&input, 1, 0) > 0;
}

// Passes over what is left of a line that is too long. False: it does not seem to end.
static bool skip_rest(LineReader *r, Line *line, Error *error) {
    const uint64_t begin = r->read, most = (uint64_t)ENDLESS * r->most;
    for (;;) {
        char *end = memchr(r->bytes + r->from, '\n', r->to - r->from);
        size_t n = end ? (size_t)(end - r->bytes) + 1 - r->from : r->to - r->from;
        line->hash = fnv1a(line->hash, r->bytes + r->from, n - !!end);
        r->from += n;
        r->read += n;
        line->cut = !end;
        if (end || r->at_end) return true;
        if (r->read - begin >= most)
            return error_set(error, ERROR_FILE, "%s: line %zu has no end: over %" PRIu64 " MB",
                             r->path, r->line, most >> 20);
        if (!fill(r, error)) return false;
    }
}

bool line_next(LineReader *r, Line *line, bool *ended, Error *error) {
    size_t seen = 0;
    *line = (Line){0};
    for (;;) {
        char *end =
            r->bytes ? memchr(r->bytes + r->from + seen, '\n', r->to - r->from - seen) : NULL;
        seen = end ? (size_t)(end - r->bytes) - r->from : r->to - r->from;
        line->too_long = seen > r->most;
        line->cut = !end;
        if (end || r->at_end || line->too_long) break;
        if (!fill(r, error)) return false;
    }
    *ended = !seen && line->cut && !line->too_long;
    if (*ended) return true;
    line->bytes = r->bytes + r->from;
    line->length = seen;
    line->hash = fnv1a(FNV_START, line->bytes, seen);
    r->line++;
    size_t taken = seen + !line->cut;
    r->from += taken;
    r->read += taken;
    if (!line->too_long) return true;
    // The bytes move, and all that is said of such a line is its number and its hash.
    line->bytes = "";
    line->length = 0;
    return !line->cut || skip_rest(r, line, error);
}

void line_reader_free(LineReader *r) {
    free(r->bytes);
    r->bytes = NULL;
}

void line_hash(char out[FNV_HEX], const Line *line) {
    snprintf(out, FNV_HEX, "%016" PRIx64, line->hash);
}

bool line_is_blank(const Line *line) {
    for (size_t i = 0; i < line->length; i++)
        if (!memchr(" \t\r", line->bytes[i], 3)) return false;
    return !line->too_long;
}
