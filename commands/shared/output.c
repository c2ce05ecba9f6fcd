// Standard output goes through stdio, whose first failure is kept here; standard error is written
// directly. The parts: writing and its failures, the filter for terminals, the window, JSON,
// messages and the progress bar.
//
// A model's text may be hostile: on a terminal, escape sequences could move the cursor, change the
// title or fake a prompt. So active characters are replaced there. In pipes and files the bytes
// stay as they are.
#include "commands/shared/output.h"
#include "base/text.h"
#include "commands/shared/options.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

bool output_is_terminal(void) {
    return isatty(STDOUT_FILENO);
}

bool error_is_terminal(void) {
    const char *term = getenv("TERM");
    return isatty(STDERR_FILENO) && (!term || strcmp(term, "dumb"));
}

// errno of the first failed write, which stdio does not keep: state of this file, as stdout is one
// for the process.
static int first_failure;
static bool outlives_readers;

// A closed stream is opened with O_PATH: reading and writing fail with EBADF, and no file of the
// run gets its number. "/" exists also where /dev does not.
bool output_guard(Error *error) {
    signal(SIGXFSZ, SIG_IGN);
    for (int fd = 0; fd <= 2; fd++) {
        if (fcntl(fd, F_GETFD) != -1 || errno != EBADF) continue;
        if (fd == STDOUT_FILENO) first_failure = EBADF;
        // open() takes the lowest free number: this one, since those below are open by now.
        if (open("/", O_PATH) != fd) break;
    }
    return !first_failure || error_set(error, ERROR_IO, "standard output: %s", strerror(EBADF));
}

// Also where the parent process, or this one, ignores SIGPIPE.
static void end_quietly(void) {
    signal(SIGPIPE, SIG_DFL);
    raise(SIGPIPE);
}

// After each write: the first errno. EPIPE means that the reader has gone (as in `| head`): the
// program ends quietly.
static void keep_failure(bool failed) {
    if (first_failure || !(failed || ferror(stdout))) return;
    first_failure = errno ? errno : EIO;
    if (first_failure == EPIPE && !outlives_readers) end_quietly();
}

void output_outlive_readers(void) {
    outlives_readers = true;
    signal(SIGPIPE, SIG_IGN);
}

void output_bytes(const void *bytes, size_t length) {
    errno = 0;
    keep_failure(fwrite(bytes, 1, length, stdout) != length);
}

void output_print(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    errno = 0;
    // Without memory for what it formats, vprintf fails and stdout has no error.
    keep_failure(vprintf(format, arguments) < 0);
    va_end(arguments);
}

void output_flush(void) {
    errno = 0;
    keep_failure(fflush(stdout) != 0);
}

bool output_good(void) {
    return !first_failure;
}

bool output_close(Error *error) {
    output_flush();
    errno = 0;
    if (close(STDOUT_FILENO) && !first_failure)
        first_failure = errno; // a network disk may report a failed write here
    if (!first_failure) return true;
    if (first_failure == EPIPE) end_quietly();
    return error_set(error, first_failure == ENOMEM ? ERROR_MEMORY : ERROR_IO,
                     "standard output: %s", strerror(first_failure));
}

// U+2028 and U+2029 separate lines; U+061C is the Arabic letter mark, which changes the direction.
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

// On a terminal in pieces of 256 bytes: the filter may make three bytes of each.
void output_text(const char *bytes, size_t length) {
    if (!output_is_terminal()) {
        output_bytes(bytes, length);
        return;
    }
    char filtered[3 * 256];
    while (length) {
        // Cut between characters: a continuation byte never begins a chunk.
        size_t n = length < 256 ? length : 256;
        while (n < length && n > 252 && ((unsigned char)bytes[n] & 0xc0) == 0x80)
            n--;
        output_bytes(filtered, terminal_filter(filtered, bytes, n));
        bytes += n;
        length -= n;
    }
}

// ---- the window ----

// --color first, then NO_COLOR (no-color.org), TERM and COLORTERM as terminals set them.
// COLOR_SURPRISE says what the colours are for, and wants them in a pipe too.
static ColorDepth color_depth(int color) {
    const char *none = getenv("NO_COLOR"), *term = getenv("TERM"), *depth = getenv("COLORTERM");
    bool terminal = output_is_terminal();
    bool refused = (none && *none) || (terminal && term && !strcmp(term, "dumb"));
    if (color == COLOR_NEVER || (refused && color != COLOR_ALWAYS) ||
        (color == COLOR_AUTO && !terminal))
        return COLORS_NONE;
    bool full = depth && (!strcmp(depth, "truecolor") || !strcmp(depth, "24bit"));
    return full ? COLORS_24_BIT : COLORS_256;
}

Terminal output_window(int color) {
    struct winsize size = {0};
    Terminal t = {.columns = 80, .lines = INT_MAX / 4, .colors = color_depth(color)};
    if (!output_is_terminal() || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size)) return t;
    if (size.ws_col) t.columns = size.ws_col;
    if (size.ws_row) t.lines = size.ws_row;
    return t;
}

// ---- JSON ----

static void put(const JsonWriter *w, const char *bytes, size_t length) {
    if (w->out)
        buffer_put(w->out, bytes, length);
    else
        output_bytes(bytes, length);
}

static void put_escape(const JsonWriter *w, uint32_t character) {
    char text[12];
    put(w, text, (size_t)snprintf(text, sizeof text, "\\u%04x", (unsigned)character));
}

// Inside an HTML page: what could end the element, or a line of a script.
static bool is_markup(uint32_t character) {
    return character == '<' || character == 0x2028 || character == 0x2029;
}

// A JSON string. Active characters are escaped as well, since JSON is looked at on terminals too.
static void quoted(const JsonWriter *w, const char *bytes, size_t length) {
    put(w, "\"", 1);
    for (size_t i = 0; i < length;) {
        unsigned char c = (unsigned char)bytes[i];
        uint32_t character = 0;
        size_t n = utf8_decode(bytes + i, length - i, &character);
        if (!n)
            put(w, "\ufffd", 3);
        else if (c == '"' || c == '\\')
            put(w, (char[]){'\\', (char)c}, 2);
        else if (c == '\n')
            put(w, "\\n", 2);
        else if (c == '\t' || is_active_character(character) || (w->out && is_markup(character)))
            put_escape(w, character);
        else
            put(w, bytes + i, n);
        i += n ? n : 1;
    }
    put(w, "\"", 1);
}

// The comma in front of a value, and its key in an object.
static void start(JsonWriter *w, const char *key) {
    if (w->comma) put(w, ",", 1);
    w->comma = true;
    if (!key) return;
    quoted(w, key, strlen(key));
    put(w, ":", 1);
}

void writer_begin(JsonWriter *w, const char *key, char bracket) {
    start(w, key);
    put(w, &bracket, 1);
    w->comma = false;
}

void writer_end(JsonWriter *w, char bracket) {
    put(w, &bracket, 1);
    w->comma = true;
}

void writer_text(JsonWriter *w, const char *key, const char *bytes, size_t length) {
    start(w, key);
    quoted(w, bytes, length);
}

void writer_string(JsonWriter *w, const char *key, const char *text) {
    start(w, key);
    if (text)
        quoted(w, text, strlen(text));
    else
        put(w, "null", 4);
}

// With 6, 9 or 17 digits: the first that reads back as the same double.
void writer_number(JsonWriter *w, const char *key, double value) {
    static const int DIGITS[] = {6, 9, 17};
    char text[40] = "null";
    start(w, key);
    for (int i = 0; i < 3 && isfinite(value); i++) {
        snprintf(text, sizeof text, "%.*g", DIGITS[i], value);
        if (strtod(text, NULL) == value) break;
    }
    put(w, text, strlen(text));
}

void writer_float(JsonWriter *w, const char *key, float value) {
    char text[40];
    if (!isfinite(value)) {
        writer_string(w, key, isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
        return;
    }
    start(w, key);
    snprintf(text, sizeof text, "%.6g", (double)value);
    if (strtof(text, NULL) != value) snprintf(text, sizeof text, "%.9g", (double)value);
    put(w, text, strlen(text));
}

void writer_integer(JsonWriter *w, const char *key, int64_t value) {
    char text[24];
    start(w, key);
    put(w, text, (size_t)snprintf(text, sizeof text, "%" PRId64, value));
}

void writer_bool(JsonWriter *w, const char *key, bool value) {
    start(w, key);
    put(w, value ? "true" : "false", value ? 4 : 5);
}

void writer_ids(JsonWriter *w, const char *key, const int32_t *ids, size_t count) {
    writer_begin(w, key, '[');
    for (size_t i = 0; i < count; i++)
        writer_integer(w, NULL, ids[i]);
    writer_end(w, ']');
}

void writer_floats(JsonWriter *w, const char *key, const float *values, size_t count) {
    writer_begin(w, key, '[');
    for (size_t i = 0; i < count; i++)
        writer_number(w, NULL, (double)values[i]);
    writer_end(w, ']');
}

void writer_line(JsonWriter *w) {
    put(w, "\n", 1);
    w->comma = false;
}

// ---- standard error ----

// The only other state of this file, as a process has one name.
static const char *name_called_by = "run";

void set_program_name(const char *path) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    size_t length = strlen(name);
    if (!length || length > 60) return;
    for (const char *c = name; *c; c++)
        if (*c <= ' ' || *c > '~') return;
    name_called_by = name;
}

const char *program_name(void) {
    return name_called_by;
}

// The columns of standard error's window; `unknown` where there is none.
static int error_columns(int unknown) {
    struct winsize size = {0};
    return !ioctl(STDERR_FILENO, TIOCGWINSZ, &size) && size.ws_col ? size.ws_col : unknown;
}

// Lines break at spaces; a word that is longer than a line is left to the terminal. Bytes are
// counted as columns, which is never too few.
void error_print(const char *text, int column, int indent) {
    int columns = error_columns(INT_MAX);
    while (*text) {
        int length = (int)strcspn(text, " "), spaces = (int)strspn(text + length, " ");
        bool last = !text[length + spaces];
        fprintf(stderr, "%.*s", length, text);
        column += length;
        text += length + spaces;
        bool breaks = !last && column + spaces + (int)strcspn(text, " ") > columns;
        fprintf(stderr, "%s%*s", breaks ? "\n" : "", breaks ? indent : spaces, "");
        column = breaks ? indent : column + spaces;
    }
    fputc('\n', stderr);
}

// "`run diff`" as it is typed here, "`limpid diff`".
static void name_commands(char *out, size_t size, const char *text) {
    static const char NAMED[] = "`run ";
    size_t used = 0, room = size - 1;
    while (*text && used < room) {
        if (strncmp(text, NAMED, sizeof NAMED - 1)) {
            out[used++] = *text++;
            continue;
        }
        used += (size_t)snprintf(out + used, size - used, "`%s ", program_name());
        text += sizeof NAMED - 1;
    }
    out[used < room ? used : room] = '\0';
}

void error_tell(const char *message) {
    char line[ERROR_MESSAGE_SIZE + 256];
    name_commands(line, sizeof line, message);
    fprintf(stderr, "%s: %s\n", program_name(), line);
}

// Cut at 511 bytes. Escaped here, whatever a path or a file's content put in.
void note(const char *format, ...) {
    char raw[512], escaped[512], line[768];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(raw, sizeof raw, format, arguments);
    va_end(arguments);
    escape_bytes(escaped, sizeof escaped, raw, strlen(raw));
    name_commands(line, sizeof line, escaped);
    fprintf(stderr, "%s: ", program_name());
    error_print(line, (int)strlen(program_name()) + 2, 2);
}

// Nothing is drawn before DELAY, so that short work stays silent, and not more often than INTERVAL.
static const double DELAY = 0.3, INTERVAL = 0.1; // seconds

void progress_begin(Progress *progress, const char *label, bool quiet) {
    double now = seconds_now();
    *progress = (Progress){label, !quiet && error_is_terminal(), 0, now, now};
}

// "0:07", "1:02:03"; empty where nothing is known yet.
static void print_time_left(char out[16], double seconds) {
    out[0] = '\0';
    if (!(seconds >= 0 && seconds < 360000)) return;
    int s = (int)(seconds + 0.5);
    if (s < 3600)
        snprintf(out, 16, "%d:%02d", s / 60, s % 60);
    else
        snprintf(out, 16, "%d:%02d:%02d", s / 3600, s / 60 % 60, s % 60);
}

int progress_line(char *out, size_t size, const char *label, double share, double seconds,
                  int columns) {
    enum { WIDEST = 30 };
    char bar[WIDEST + 1], time[16], end[32];
    share = share > 1 ? 1 : share > 0 ? share : 0; // NaN too
    print_time_left(time, share > 0 ? seconds / share - seconds : -1);
    snprintf(end, sizeof end, " %3.0f %%%s%s%s", 100 * share, *time ? ", " : "", time,
             *time ? " left" : "");
    // The last column stays free: a terminal may go on to the next line behind it.
    int width = columns - 1 - (int)strlen(label) - (int)strlen(end) - 3;
    if (width > WIDEST) width = WIDEST;
    if (width < 3) {
        snprintf(out, size, "%.*s", columns > 1 ? columns - 1 : 0, end + 1);
        return (int)strlen(out);
    }
    memset(bar, '.', (size_t)width);
    memset(bar, '#', (size_t)(share * width + 0.5));
    bar[width] = '\0';
    snprintf(out, size, "%s [%s]%s", label, bar, end);
    return (int)strlen(out);
}

// The bar is drawn over itself with \r, and blanks over what was longer.
void progress_update(void *context, double share) {
    Progress *progress = context;
    double now = seconds_now();
    if (!progress->enabled || now - progress->started < DELAY) return;
    if (progress->width && now - progress->drawn < INTERVAL) return;
    char line[120];
    int columns = error_columns(80);
    int width =
        progress_line(line, sizeof line, progress->label, share, now - progress->started, columns);
    int rest = progress->width < columns ? progress->width - width : 0;
    fprintf(stderr, "\r%s%*s", line, rest > 0 ? rest : 0, "");
    progress->drawn = now;
    if (width > progress->width || !rest) progress->width = width;
}

void progress_end(Progress *progress) {
    int columns = error_columns(80);
    int width = progress->width < columns ? progress->width : columns - 1;
    // Blanks, not an escape sequence: this works on any terminal.
    if (progress->width) fprintf(stderr, "\r%*s\r", width, "");
    progress->width = 0;
}
