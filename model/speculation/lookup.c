// Chains of the places of each token. The end of the text "a b c d a b":
//
//   text       a   b   c   d   a   b
//   previous  -1  -1  -1  -1   0   1       newest: a 4, b 5, c 2, d 3
//
// b stood at 1 before, the tokens before it agree for 2 tokens (a b), so c d a b c d .. may follow.
// A chain is exact, unlike a table of hashed n-grams, and going back is one store for each token.
#include "model/speculation/drafts.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

bool lookup_init(Lookup *l, int vocab_size, int capacity, Error *error) {
    size_t texts = (size_t)capacity * sizeof(int32_t);
    size_t tokens = (size_t)vocab_size * sizeof(int32_t);
    *l = (Lookup){.vocab_size = vocab_size, .capacity = capacity};
    l->text = malloc(texts);
    l->previous = malloc(texts);
    l->newest = malloc(tokens);
    if (!l->text || !l->previous || !l->newest)
        return error_set(error, ERROR_MEMORY, "no memory to look up a text of %d", capacity);
    memset(l->newest, 0xff, tokens); // -1
    return true;
}

void lookup_free(Lookup *l) {
    free(l->text);
    free(l->previous);
    free(l->newest);
    *l = (Lookup){0};
}

void lookup_push(Lookup *l, int32_t token) {
    assert(l->count < l->capacity && token >= 0 && token < l->vocab_size);
    l->text[l->count] = token;
    l->previous[l->count] = l->newest[token];
    l->newest[token] = l->count++;
}

void lookup_truncate(Lookup *l, int count) {
    assert(count >= 0 && count <= l->count);
    while (l->count > count) {
        l->count--;
        l->newest[l->text[l->count]] = l->previous[l->count];
    }
}

// How many tokens that end at `place` equal those that end the text.
static int match_length(const Lookup *l, int place) {
    const int32_t *end = l->text + l->count - 1, *there = l->text + place;
    int length = 0;
    while (length < LOOKUP_LONGEST && length <= place && there[-length] == end[-length])
        length++;
    return length;
}

int lookup_find(const Lookup *l, int *next) {
    int longest = 0, place = l->count ? l->previous[l->count - 1] : -1;
    for (int i = 0; i < LOOKUP_PLACES && place >= 0 && longest < LOOKUP_LONGEST; i++) {
        int length = match_length(l, place);
        if (length > longest) {
            longest = length;
            *next = place + 1;
        }
        place = l->previous[place];
    }
    return longest;
}

void lookup_copy(const Lookup *l, int next, int32_t *out, int n) {
    int known = l->count - next;
    for (int i = 0; i < n; i++)
        out[i] = i < known ? l->text[next + i] : out[i - known];
}
