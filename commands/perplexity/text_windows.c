#include "commands/perplexity/text_windows.h"

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

bool text_window(TextWindow *w, const TextWindows *windows, size_t count, size_t i) {
    size_t size = windows->window, begin = i * windows->stride;
    if (count < 2 || (windows->most && i >= windows->most)) return false;
    if (windows->second_half) {
        size_t end = begin + size;
        *w = (TextWindow){begin, end - 1, begin + size / 2 + 1, end};
        return end <= count;
    }
    // The one before has scored up to its own end.
    size_t first = i ? begin - windows->stride + size + 1 : 1;
    *w = (TextWindow){begin, smaller(begin + size, count), first, smaller(begin + size + 1, count)};
    return first < count;
}

size_t text_windows_scored(const TextWindows *windows, size_t count, size_t *used) {
    size_t scored = 0;
    TextWindow w;
    *used = 0;
    for (size_t i = 0; text_window(&w, windows, count, i); i++) {
        scored += w.after - w.first;
        *used = w.after;
    }
    return scored;
}
