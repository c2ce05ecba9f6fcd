// jansson, and memory that runs out inside it.
#include "base/json_load.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

// Where the buffer of the word at hand cannot grow, jansson drops a byte and goes on, past the end
// of the buffer if that byte was a closing quote; elsewhere it takes missing memory for a wrong
// text. So our allocator remembers, lives on a reserve from then on, and the text ends there (see
// feed). Since jansson gives it no context, this is one of the two places that cannot do without a
// global (the other is mapping.c).
typedef struct Reserve {
    bool in_use; // memory has run out
    char *bytes; // owned
    size_t size, used, largest;
} Reserve;

static _Thread_local Reserve reserve;
static pthread_once_t installed = PTHREAD_ONCE_INIT;

static void *allocate(size_t size) {
    void *memory = reserve.in_use ? NULL : malloc(size);
    if (memory || !reserve.bytes) return memory;
    reserve.in_use = true;
    size_t room = (size + 15) & ~(size_t)15;
    if (size > reserve.largest || room > reserve.size - reserve.used) return NULL;
    reserve.used += room;
    return reserve.bytes + reserve.used - room;
}

static void release(void *memory) {
    uintptr_t at = (uintptr_t)memory, begin = (uintptr_t)reserve.bytes;
    if (!begin || at < begin || at >= begin + reserve.size) free(memory);
}

static void install_allocator(void) {
    json_set_alloc_funcs(allocate, release);
}

// jansson reads ahead by 1 KiB, which makes at most a thousand values of some 200 bytes, and a word
// grows by doubling: larger requests are a container's, and their failure is seen.
enum { VALUES_BEHIND_THE_END = 256 << 10 };

static bool reserve_memory(size_t longest_word, Error *error) {
    pthread_once(&installed, install_allocator);
    size_t largest = 2 * longest_word + 4096;
    reserve = (Reserve){.largest = largest, .size = 4 * largest + VALUES_BEHIND_THE_END};
    reserve.bytes = malloc(reserve.size);
    return reserve.bytes || error_set(error, ERROR_MEMORY, "out of memory for JSON");
}

// What jansson has read of the text; `pos` counts a bracket in front too.
typedef struct Feed {
    const JsonText *text;
    size_t pos;
} Feed;

static size_t feed(void *buffer, size_t room, void *context) {
    Feed *f = context;
    const JsonText *t = f->text;
    char *out = buffer;
    size_t n = 0, around = t->member, end = t->size + 2 * around;
    if (reserve.in_use) return 0;
    for (; n < room && f->pos < end; n++, f->pos++) {
        bool bracket = around && (f->pos == 0 || f->pos == end - 1);
        out[n] = !bracket ? t->bytes[f->pos - around] : f->pos == 0 ? '{' : '}';
    }
    return n;
}

json_t *json_load_text(const JsonText *text, Error *error) {
    json_error_t cause;
    if (!reserve_memory(text->longest_word, error)) return NULL;
    json_t *root = json_load_callback(feed, &(Feed){.text = text}, JSON_REJECT_DUPLICATES, &cause);
    if (reserve.in_use) {
        json_decref(root);
        root = NULL;
        error_set(error, ERROR_MEMORY, "out of memory for JSON");
    } else if (!root) {
        size_t position = text->offset + (size_t)(cause.position > 0 ? cause.position : 0);
        error_set(error, ERROR_FILE, "offset %zu: invalid JSON: %s", position, cause.text);
    }
    free(reserve.bytes);
    reserve = (Reserve){0};
    return root;
}
