// Sorted, the tokens that share their first bytes stand together, and the nodes come in preorder.
#include "grammar/matcher.h"

#include <stdlib.h>
#include <string.h>

static int compare_tokens(const void *a, const void *b, void *context) {
    const TextSpan *tokens = context;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    int order = span_compare(tokens[x], tokens[y]);
    return order ? order : (x > y) - (x < y);
}

static size_t shared_bytes(TextSpan a, TextSpan b) {
    size_t most = a.length < b.length ? a.length : b.length, i = 0;
    while (i < most && a.text[i] == b.text[i])
        i++;
    return i;
}

// ids: those of all tokens with bytes, in their order. Returns the sum of their new bytes: the
// nodes below the root.
static size_t sort_tokens(Trie *t, const TextSpan *tokens) {
    size_t nodes = 0;
    for (size_t i = 0; i < t->n_tokens; i++)
        if (tokens[i].length) t->ids[t->n_ids++] = (uint32_t)i;
    qsort_r(t->ids, t->n_ids, sizeof *t->ids, compare_tokens, (void *)(uintptr_t)tokens);
    for (size_t i = 0; i < t->n_ids; i++) {
        TextSpan token = tokens[t->ids[i]];
        nodes += token.length - (i ? shared_bytes(tokens[t->ids[i - 1]], token) : 0);
        if (token.length > t->depth) t->depth = token.length;
    }
    return nodes;
}

// path[d]: the newest node of depth d. A node ends where the next one of its depth, or above,
// begins.
static void add_nodes(Trie *t, const TextSpan *tokens, uint32_t *path) {
    size_t open = 0; // depth of the newest node
    t->nodes[0] = (TrieNode){0};
    t->n_nodes = 1;
    for (size_t i = 0; i < t->n_ids; i++) {
        TextSpan token = tokens[t->ids[i]];
        size_t shared = i ? shared_bytes(tokens[t->ids[i - 1]], token) : 0;
        for (; open > shared; open--)
            t->nodes[path[open]].skip = (uint32_t)t->n_nodes;
        for (; open < token.length; t->n_nodes++) {
            uint32_t place = (uint32_t)(open + 1) << 8 | (uint8_t)token.text[open];
            t->nodes[t->n_nodes] = (TrieNode){.first = (uint32_t)i, .place = place};
            path[++open] = (uint32_t)t->n_nodes;
        }
    }
    for (; open > 0; open--)
        t->nodes[path[open]].skip = (uint32_t)t->n_nodes;
    t->nodes[0].skip = (uint32_t)t->n_nodes;
    t->nodes[t->n_nodes] = (TrieNode){.first = (uint32_t)t->n_ids};
}

bool trie_open(Trie *t, const TextSpan *tokens, size_t n_tokens, Error *error) {
    *t = (Trie){.n_tokens = n_tokens};
    t->ids = malloc((n_tokens + 1) * sizeof *t->ids);
    size_t nodes = t->ids ? sort_tokens(t, tokens) : 0;
    if (t->ids && nodes < UINT32_MAX - 2) t->nodes = malloc((nodes + 2) * sizeof *t->nodes);
    uint32_t *path = malloc((t->depth + 1) * sizeof *path);
    bool good = t->ids && t->nodes && path;
    if (good) add_nodes(t, tokens, path);
    free(path);
    if (good) return true;
    trie_close(t);
    return error_set(error, ERROR_MEMORY, "no memory for a trie of %zu tokens", n_tokens);
}

void trie_close(Trie *t) {
    free(t->nodes);
    free(t->ids);
    *t = (Trie){0};
}
