#include "base/ids.h"

#include <stdlib.h>

bool id_list_push(IdList *list, int32_t id, Error *error) {
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? 2 * list->capacity : 64;
        int32_t *grown = capacity > SIZE_MAX / sizeof *grown
                             ? NULL
                             : realloc(list->ids, capacity * sizeof *grown);
        if (!grown) return error_set(error, ERROR_MEMORY, "out of memory for %zu ids", capacity);
        list->ids = grown;
        list->capacity = capacity;
    }
    list->ids[list->count++] = id;
    return true;
}

void id_list_free(IdList *list) {
    free(list->ids);
    *list = (IdList){0};
}
