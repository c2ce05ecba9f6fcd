// Sorted, the pieces that begin alike stand together: a node is a range of them, and its depth the
// bytes that all of the range share. Its children are the ranges that share one byte more.
#include "tokenizer/sentencepiece/sentencepiece.h"

#include "base/text.h"

#include <stdlib.h>
#include <string.h>

// The end of the sorted pieces from `begin` on that have the same byte behind `depth`.
static size_t range_end(const PieceTrie *t, const uint32_t *sorted, size_t begin, size_t end,
                        size_t depth) {
    char byte = t->pieces[sorted[begin]].text[depth];
    size_t i = begin + 1;
    while (i < end && t->pieces[sorted[i]].text[depth] == byte)
        i++;
    return i;
}

// Until a node is reached, its `piece` and `first` are the bounds of its range. Of the pieces in a
// range only the first can be as long as what all share.
static void add_nodes(PieceTrie *t, const uint32_t *sorted, size_t count) {
    t->nodes[0] = (PieceNode){.piece = 0, .first = (uint32_t)count};
    t->n_nodes = 1;
    for (size_t i = 0; i < t->n_nodes; i++) {
        size_t begin = t->nodes[i].piece, end = t->nodes[i].first, depth = t->nodes[i].depth;
        bool ends = i && t->pieces[sorted[begin]].length == depth;
        t->nodes[i] = (PieceNode){.piece = begin < end ? sorted[begin] : 0,
                                  .first = (uint32_t)t->n_nodes,
                                  .depth = (uint32_t)depth & 0x7fffffff,
                                  .ends = ends};
        for (size_t from = begin + ends, to; from < end; from = to) {
            to = range_end(t, sorted, from, end, depth);
            TextSpan first = t->pieces[sorted[from]], last = t->pieces[sorted[to - 1]];
            t->bytes[t->n_nodes] = (uint8_t)first.text[depth];
            t->nodes[t->n_nodes++] =
                (PieceNode){.piece = (uint32_t)from,
                            .first = (uint32_t)to,
                            .depth = (uint32_t)span_common_prefix(first, last) & 0x7fffffff};
        }
    }
    t->nodes[t->n_nodes] = (PieceNode){.first = (uint32_t)t->n_nodes};
}

// A node is a piece or has two children, so there are at most two for each piece, and the root.
bool piece_trie_open(PieceTrie *t, const TextSpan *pieces, uint32_t *chosen, size_t n_chosen,
                     Error *error) {
    *t = (PieceTrie){.pieces = pieces};
    t->nodes = malloc((2 * n_chosen + 2) * sizeof *t->nodes);
    t->bytes = malloc(2 * n_chosen + 1);
    if (!t->nodes || !t->bytes) {
        piece_trie_close(t);
        return error_set(error, ERROR_MEMORY, "out of memory for a trie of %zu pieces", n_chosen);
    }
    spans_sort_indices(chosen, n_chosen, pieces);
    add_nodes(t, chosen, n_chosen);
    return true;
}

void piece_trie_close(PieceTrie *t) {
    free(t->nodes);
    free(t->bytes);
    *t = (PieceTrie){0};
}

// Whether the text has the bytes on the way to a node behind the first, which has been compared.
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
