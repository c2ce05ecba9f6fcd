// Where the program's words leave it. Nothing here knows what they mean.
#include "commands/shared/output.h"
#include "base/utf8.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void output_guard(void) {
    // A file that may grow no further is a failed write, not a signal.
    signal(SIGXFSZ, SIG_IGN);
    for (int fd = 0; fd <= 2; fd++) {
        if (fcntl(fd, F_GETFD) != -1 || errno != EBADF) continue;
        // The lowest free number is this one, since those below are open by now.
        if (open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) != fd) return;
    }
}

bool output_is_terminal(void) {
    return isatty(STDOUT_FILENO);
}

bool error_is_terminal(void) {
    const char *term = getenv("TERM");
    return isatty(STDERR_FILENO) && (!term || strcmp(term, "dumb"));
}

// What a write that failed leaves behind: stdio forgets errno, so it is kept here. The one piece of
// state of this file, as stdout itself is one.
static int first_failure;

static void keep_failure(void) {
    if (first_failure || !ferror(stdout)) return;
    first_failure = errno ? errno : EIO;
    if (first_failure != EPIPE) return;
    // Whoever started us ignores SIGPIPE; end as a program that does not.
    signal(SIGPIPE, SIG_DFL);
    raise(SIGPIPE);
}

void output_bytes(const void *bytes, size_t length) {
    errno = 0;
    fwrite(bytes, 1, length, stdout);
    keep_failure();
}

void output_print(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    errno = 0;
    vprintf(format, arguments);
    keep_failure();
    va_end(arguments);
}

void output_flush(void) {
    errno = 0;
    fflush(stdout);
    keep_failure();
}

bool output_good(void) {
    return !first_failure;
}

bool output_close(Error *error) {
    output_flush();
    errno = 0;
    if (close(STDOUT_FILENO) && !first_failure)
        first_failure = errno; // a network disk may say so here
    if (!first_failure) return true;
    return error_set(error, ERROR_IO, "standard output: %s", strerror(first_failure));
}

bool is_active_character(uint32_t c) {
    if (c < 0x20) return c != '\n' && c != '\t';
    if (c >= 0x7f && c < 0xa0) return true;      // DEL and C1
    if (c >= 0x202a && c <= 0x202e) return true; // bidirectional overrides
    if (c == 0x200e || c == 0x200f) return true; // and marks
    if (c == 0x2028 || c == 0x2029 || c == 0x61c) return true;
    return c >= 0x2066 && c <= 0x2069; // isolates
}

size_t terminal_filter(char *out, const char *bytes, size_t length) {
    size_t used = 0;
    for (size_t i = 0; i < length;) {
        uint32_t c = 0;
        size_t n = utf8_decode(bytes + i, length - i, &c);
        if (!n || is_active_character(c)) {
            memcpy(out + used, "\xef\xbf\xbd", 3);
            used += 3;
        } else {
            memcpy(out + used, bytes + i, n);
            used += n;
        }
        i += n ? n : 1;
    }
    return used;
}

void output_text(const char *bytes, size_t length) {
    if (!output_is_terminal()) {
        output_bytes(bytes, length);
        return;
    }
    char filtered[3 * 256];
    while (length) {
        // Cut between characters: a piece of 256 bytes ends before a continuation byte.
        size_t n = length < 256 ? length : 256;
        while (n < length && n > 252 && ((unsigned char)bytes[n] & 0xc0) == 0x80)
            n--;
        output_bytes(filtered, terminal_filter(filtered, bytes, n));
        bytes += n;
        length -= n;
    }
}

void note(const char *format, ...) {
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    fprintf(stderr, "run: %s\n", line);
}
