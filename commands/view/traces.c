#include "commands/view/view.h"
bool view_is_trace(const char *path) {
    (void)path;
    return false;
}
bool view_traces(const Options *options, const OutputFile *out, Error *error) {
    (void)options, (void)out;
    return error_set(error, ERROR_USAGE, "not yet");
}
