// Messages are built from untrusted names, so escaping happens here, once, for all of them. A name
// in a file may hold escape sequences, which a terminal would act on, or newlines, which would fake
// a second message.
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *escape_bytes(char *out, size_t size, const void *bytes, size_t count) {
    static const char HEX[] = "0123456789abcdef";
    const unsigned char *source = bytes;
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        bool printable = source[i] >= 0x20 && source[i] < 0x7f;
        size_t need = printable ? 1 : 4;
        size_t tail = i + 1 == count ? 1 : 4; // room for "..." unless this is the last byte
        if (used + need + tail > size) {
            if (used + 4 <= size) {
                memcpy(out + used, "...", 4);
                return out;
            }
            break;
        }
        if (printable) {
            out[used++] = (char)source[i];
        } else {
            out[used++] = '\\';
            out[used++] = 'x';
            out[used++] = HEX[source[i] >> 4];
            out[used++] = HEX[source[i] & 15];
        }
    }
    if (size) out[used] = '\0';
    return out;
}

bool error_set(Error *error, ErrorCode code, const char *format, ...) {
    if (!error || error->code) return false;
    char raw[2 * ERROR_MESSAGE_SIZE];
    // Longer than the result, so that it is escape_bytes that cuts a long message and adds "...".
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(raw, sizeof raw, format, arguments);
    va_end(arguments);
    size_t count = length < 0 ? 0 : (size_t)length;
    error->code = code;
    escape_bytes(error->message, sizeof error->message, raw,
                 count < sizeof raw ? count : sizeof raw - 1);
    return false;
}

bool error_copy(Error *error, const Error *cause) {
    if (error && !error->code) *error = *cause;
    return false;
}

bool error_prefix(Error *error, const char *prefix) {
    if (!error || !error->code) return false;
    Error whole = {0};
    // error_set would keep the first message, so the new one is made in an Error of its own.
    char name[200];
    // The prefix may take half of the message at most: the cause has to stay readable.
    escape_bytes(name, sizeof name, prefix, strlen(prefix));
    size_t length = strlen(name);
    if (!strncmp(error->message, name, length) && error->message[length] == ':') return false;
    error_set(&whole, error->code, "%s: %s", name, error->message);
    *error = whole;
    return false;
}

bool not_stopped(const int *stop, Error *error) {
    return !stop || !__atomic_load_n(stop, __ATOMIC_RELAXED) ||
           error_set(error, ERROR_INTERRUPTED, "interrupted");
}
