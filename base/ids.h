// IdList: token ids in a list that grows. Owned by the caller: zero it first, then id_list_free it.
//
//     IdList ids = {0};
//     if (!id_list_push(&ids, 42, &error)) ...
//     id_list_free(&ids);
#pragma once

#include "base/error.h"

#include <stdint.h>

typedef struct IdList {
    int32_t *ids; // (capacity), the first `count` are set
    size_t count, capacity;
} IdList;

// False: exit code 5; the list stays as it was.
bool id_list_push(IdList *list, int32_t id, Error *error);
void id_list_free(IdList *list);
