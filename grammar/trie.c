// Sorted, the tokens that share their first bytes stand together, and the nodes come in preorder.
#include "grammar/matcher.h"

#include <stdlib.h>
#include <string.h>

// ids: those of all tokens with bytes, in their order. Returns the sum of their new bytes: the
// nodes below the root.
static size_t sort_tokens(Trie *t, const TextSpan *tokens) {
    size_t nodes = 0;
    for (size_t i = 0; i < t->n_tokens; i++)
        if (tokens[i].length) t->ids[t->n_ids++] = (uint32_t)i;
    spans_sort_indices(t->ids, t->n_ids, tokens);
    for (size_t i = 0; i < t->n_ids; i++) {
        TextSpan token = tokens[t->ids[i]];
        nodes += token.length - (i ? span_common_prefix(tokens[t->ids[i - 1]], token) : 0);
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
        size_t shared = i ? span_common_prefix(tokens[t->ids[i - 1]], token) : 0;
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

// ---- kinds ----

//    0 .. 3    tab, newline, carriage return, other control characters
//    4 .. 36   space .. @      one each, as in 39 and 47
//   37 .. 38   A-F, G-Z
//   39 .. 44   [ .. `
//   45 .. 46   a-f, g-z
//   47 .. 51   { .. delete
unsigned trie_kind(uint8_t c) {
    if (c < ' ') return c == '\t' ? 0 : c == '\n' ? 1 : c == '\r' ? 2 : 3;
    if (c <= '@') return c - ' ' + 4u;
    if (c <= 'Z') return c <= 'F' ? 37 : 38;
    if (c <= '`') return c - '[' + 39u;
    if (c <= 'z') return c <= 'f' ? 45 : 46;
    return c - '{' + 47u;
}

// What ends at a node. bytes: those on the way to it; *begins: where the character of the last one
// begins, and afterwards that of the next one. A character that goes on is none yet, unless a token
// ends in it. A byte that no character begins with is one by itself: tokens begin inside of one.
static uint64_t kind_at(const char *bytes, uint32_t depth, bool ends_token, uint32_t *begins) {
    uint8_t first = (uint8_t)bytes[*begins];
    uint32_t length = depth - *begins, c;
    uint32_t wanted = first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    if (length < wanted) return ends_token ? TRIE_CUT : 0;
    bool good = utf8_decode(bytes + *begins, length, &c) == length;
    *begins = depth;
    if (!good) return TRIE_CUT;
    return first < 0x80 ? (uint64_t)1 << trie_kind(first) : TRIE_OTHERS;
}

static uint64_t kinds_below(const Trie *t, size_t node) {
    uint64_t kinds = 0;
    for (size_t i = node + 1; i < t->nodes[node].skip; i = t->nodes[i].skip)
        kinds |= t->kinds[i];
    return kinds;
}

// path (depth + 1): where a character begins, by depth; bytes (depth): those on the way to a node.
static void find_kinds(Trie *t, uint32_t *path, char *bytes) {
    path[0] = 0;
    for (size_t i = 1; i < t->n_nodes; i++) {
        const TrieNode *n = &t->nodes[i];
        uint32_t depth = trie_depth(n);
        bytes[depth - 1] = (char)n->place;
        path[depth] = path[depth - 1];
        t->kinds[i] = kind_at(bytes, depth, n->first < n[1].first, &path[depth]);
    }
    for (size_t i = t->n_nodes; i-- > 0;) // those below are complete
        t->kinds[i] |= kinds_below(t, i);
    for (size_t i = 0; i < t->n_nodes; i++) // without the node's own
        t->kinds[i] = kinds_below(t, i);
}

bool trie_open(Trie *t, const TextSpan *tokens, size_t n_tokens, Error *error) {
    *t = (Trie){.n_tokens = n_tokens};
    t->ids = malloc((n_tokens + 1) * sizeof *t->ids);
    size_t nodes = t->ids ? sort_tokens(t, tokens) : 0;
    if (t->ids && nodes < UINT32_MAX - 2) t->nodes = malloc((nodes + 2) * sizeof *t->nodes);
    uint32_t *path = malloc((t->depth + 1) * sizeof *path);
    char *bytes = malloc(t->depth + 1);
    t->kinds = calloc(nodes + 1, sizeof *t->kinds);
    bool good = t->ids && t->nodes && t->kinds && path && bytes;
    if (good) add_nodes(t, tokens, path);
    if (good) find_kinds(t, path, bytes);
    free(path);
    free(bytes);
    if (good) return true;
    trie_close(t);
    return error_set(error, ERROR_MEMORY, "no memory for a trie of %zu tokens", n_tokens);
}

void trie_close(Trie *t) {
    free(t->nodes);
    free(t->ids);
    free(t->kinds);
    *t = (Trie){0};
}
