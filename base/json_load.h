// The one call into jansson's parser: part of json.c, which has looked at the text before.
#pragma once

#include "base/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct JsonText {
    const char *bytes;
    size_t size;
    size_t offset;       // of the text in what the user knows, for messages
    size_t longest_word; // a bound on the bytes of every string and number
    bool member;         // a member of an object: the brackets around it are added
} JsonText;

// Owned (json_decref). NULL: exit code 3 with the offset, or 5.
json_t *json_load_text(const JsonText *text, Error *error);
