// Sorted, the tokens that begin alike are neighbours: a node is a range of them, and its depth the
// bytes that all of the range share. Its children are the ranges that share one byte more.
#include "tokenizer/bpe/spm.h"

#include "base/text.h"

#include <stdlib.h>
#include <string.h>

// Sets *count; NULL: exit code 3, 5.
static uint32_t *choose_tokens(size_t *count, const Tokenizer *t, unsigned types, Error *error) {
    uint32_t *chosen = malloc((t->n_tokens + 1) * sizeof *chosen);
    *count = 0;
    if (!chosen) error_set(error, ERROR_MEMORY, "out of memory for %zu pieces", t->n_tokens);
    for (size_t i = 0; chosen && i < t->n_tokens; i++) {
        if (!(types >> t->types[i] & 1)) continue;
        if (t->tokens[i].length > LIMIT_PIECE) {
            error_set(error, ERROR_FILE, "piece %zu: %zu bytes long (at most %d)", i,
                      t->tokens[i].length, LIMIT_PIECE);
            free(chosen);
            return NULL;
        }
        chosen[(*count)++] = (uint32_t)i;
    }
    return chosen;
}

// The end of the sorted tokens from `begin` on that have the same byte behind `depth`.
static size_t range_end(const PieceTrie *t, const uint32_t *sorted, size_t begin, size_t end,
                        size_t depth) {
    char byte = t->pieces[sorted[begin]].text[depth];
    size_t i = begin + 1;
    while (i < end && t->pieces[sorted[i]].text[depth] == byte)
        i++;
    return i;
}

// The children of node i, whose range is sorted[begin .. end). Until a node is reached, its `piece`
// and `first` are the bounds of its range.
static void add_children(PieceTrie *t, const uint32_t *sorted, size_t begin, size_t end,
                         size_t depth) {
    for (size_t from = begin, to; from < end; from = to) {
        to = range_end(t, sorted, from, end, depth);
        TextSpan first = t->pieces[sorted[from]], last = t->pieces[sorted[to - 1]];
        t->bytes[t->n_nodes] = (uint8_t)first.text[depth];
        t->nodes[t->n_nodes++] =
            (PieceNode){.piece = (uint32_t)from,
                        .first = (uint32_t)to,
                        .depth = (uint32_t)span_common_prefix(first, last) & 0x7fffffff};
    }
}

// Returns how many nodes the longest path has. Of the tokens in a range only the first can be as
// long as what all share.
static int add_nodes(PieceTrie *t, const uint32_t *sorted, size_t count) {
    size_t level_end = 1;
    int levels = 1;
    t->nodes[0] = (PieceNode){.piece = 0, .first = (uint32_t)count};
    t->n_nodes = 1;
    for (size_t i = 0; i < t->n_nodes; i++) {
        if (i == level_end) {
            level_end = t->n_nodes;
            levels++;
        }
        size_t begin = t->nodes[i].piece, end = t->nodes[i].first, depth = t->nodes[i].depth;
        bool ends = i && t->pieces[sorted[begin]].length == depth;
        t->nodes[i] = (PieceNode){.piece = begin < end ? sorted[begin] : 0,
                                  .first = (uint32_t)t->n_nodes,
                                  .depth = (uint32_t)depth & 0x7fffffff,
                                  .ends = ends};
        add_children(t, sorted, begin + ends, end, depth);
    }
    t->nodes[t->n_nodes] = (PieceNode){.first = (uint32_t)t->n_nodes};
    return levels;
}

// A node is a token or has two children, so there are at most two for each token, and the root.
static bool make_nodes(PieceTrie *trie, uint32_t *chosen, size_t count, Error *error) {
    trie->nodes = malloc((2 * count + 2) * sizeof *trie->nodes);
    trie->bytes = malloc(2 * count + 1);
    if (!trie->nodes || !trie->bytes)
        return error_set(error, ERROR_MEMORY, "out of memory for a trie of %zu pieces", count);
    spans_sort_indices(chosen, count, trie->pieces);
    int levels = add_nodes(trie, chosen, count);
    return levels <= LIMIT_TRIE_DEPTH ||
           error_set(error, ERROR_FILE, "a trie of pieces %d nodes deep (at most %d)", levels,
                     LIMIT_TRIE_DEPTH);
}

bool piece_trie_open(PieceTrie *trie, const Tokenizer *t, unsigned types, Error *error) {
    size_t count;
    *trie = (PieceTrie){.pieces = t->tokens};
    uint32_t *chosen = choose_tokens(&count, t, types, error);
    bool good = chosen && make_nodes(trie, chosen, count, error);
    free(chosen);
    if (!good) piece_trie_close(trie);
    return good;
}

void piece_trie_close(PieceTrie *t) {
    free(t->nodes);
    free(t->bytes);
    *t = (PieceTrie){0};
}

// Whether the text has the bytes on the way to a node after the first, which has been compared.
static bool shares_rest(const PieceTrie *t, const PieceNode *node, size_t depth, const char *text,
                        size_t length) {
    size_t end = node->depth;
    return end == depth + 1 ||
           (end <= length &&
            !memcmp(text + depth + 1, t->pieces[node->piece].text + depth + 1, end - depth - 1));
}

int32_t piece_trie_next(const PieceTrie *t, uint32_t *node, const char *text, size_t length) {
    for (;;) {
        const PieceNode *n = &t->nodes[*node];
        if (n->depth >= length) return -1;
        const uint8_t *child =
            memchr(t->bytes + n->first, (uint8_t)text[n->depth], n[1].first - n->first);
        if (!child) return -1;
        *node = (uint32_t)(child - t->bytes);
        const PieceNode *next = &t->nodes[*node];
        if (!shares_rest(t, next, n->depth, text, length)) return -1;
        if (next->ends) return (int32_t)next->piece;
    }
}

size_t piece_trie_longest(const PieceTrie *t, const char *text, size_t length) {
    uint32_t node = 0;
    size_t longest = 0;
    for (int32_t id; (id = piece_trie_next(t, &node, text, length)) >= 0;)
        longest = t->pieces[id].length;
    return longest;
}
