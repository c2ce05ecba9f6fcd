// How long the masks of a grammar take, along a text that the grammar allows.
//
//     mask_time TOKENIZER GRAMMAR TEXT
//
// Prints the trie's size and time, the first mask's time, and of the others the median, the 99th
// percentile, the largest, the mean, in microseconds, and how many took more than 50. The text is
// read a second time, for a matcher that has kept what it found.
#include "base/clock.h"
#include "base/file_reader.h"
#include "grammar/matcher.h"
#include "tokenizer/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int compare_times(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print_times(const char *name, double *times, size_t n) {
    double sum = 0, first = times[0];
    int slow = 0;
    for (size_t i = 1; i < n; i++) {
        sum += times[i];
        slow += times[i] > 50e-6;
    }
    qsort(times + 1, n - 1, sizeof *times, compare_times);
    printf("%s: %zu masks; first %.1f us; then median %.2f, p99 %.1f, largest %.1f, mean %.2f us; "
           "%d over 50 us\n",
           name, n, 1e6 * first, 1e6 * times[1 + (n - 1) / 2], 1e6 * times[1 + (n - 1) * 99 / 100],
           1e6 * times[n - 1], 1e6 * sum / (double)(n - 1), slow);
}

static bool read_text(Matcher *m, Tokenizer *tokenizer, const IdList *ids, double *times,
                      Error *error) {
    if (!matcher_reset(m, error)) return false;
    for (size_t i = 0; i < ids->count; i++) {
        double from = seconds_now();
        const uint64_t *mask = matcher_mask(m, error);
        times[i] = seconds_now() - from;
        size_t length;
        const char *piece = tokenizer_piece(tokenizer, ids->ids[i], false, false, &length);
        bool fits = false;
        if (!mask || !matcher_read(m, piece, length, &fits, error)) return false;
        if (!fits || !(mask[ids->ids[i] / 64] >> ids->ids[i] % 64 & 1))
            return error_set(error, ERROR_ANSWER_NO, "token %zu \"%.*s\" is not allowed", i,
                             (int)length, piece);
    }
    return true;
}

static bool program_trie(Trie *trie, Tokenizer *tokenizer, Error *error) {
    size_t n = (size_t)tokenizer_size(tokenizer);
    TextSpan *tokens = calloc(n, sizeof *tokens);
    for (size_t i = 0; i < n; i++) {
        const char *piece = tokenizer_piece(tokenizer, (int32_t)i, false, false, &tokens[i].length);
        tokens[i].text = memcpy(malloc(tokens[i].length + 1), piece, tokens[i].length);
    }
    bool good = trie_open(trie, tokens, n, error);
    for (size_t i = 0; i < n; i++)
        free((void *)(uintptr_t)tokens[i].text);
    free(tokens);
    return good;
}

static bool run(char **argv, Error *error) {
    TokenizerSource source = {.path = argv[1]};
    FileCopy grammar_text, text;
    IdList ids = {0};
    Trie trie;
    Tokenizer *tokenizer = tokenizer_open(&source, error);
    if (!tokenizer || !file_copy_open(&grammar_text, argv[2], 1 << 20, error) ||
        !file_copy_open(&text, argv[3], 1 << 24, error) ||
        !tokenizer_encode(tokenizer, &ids, (const char *)text.bytes, text.size, false, error))
        return false;
    double from = seconds_now();
    if (!program_trie(&trie, tokenizer, error)) return false;
    printf("%d tokens, %zu nodes: %.1f ms\n", tokenizer_size(tokenizer), trie.n_nodes,
           1e3 * (seconds_now() - from));
    Grammar *g = grammar_parse((const char *)grammar_text.bytes, grammar_text.size, error);
    Matcher *m = g ? matcher_open(g, &trie, NULL, error) : NULL;
    double *times = malloc(ids.count * sizeof *times);
    if (!m || !times || !read_text(m, tokenizer, &ids, times, error)) return false;
    print_times("new states ", times, ids.count);
    if (!read_text(m, tokenizer, &ids, times, error)) return false;
    print_times("seen before", times, ids.count);
    free(times);
    matcher_close(m);
    grammar_close(g);
    trie_close(&trie);
    id_list_free(&ids);
    file_copy_close(&text);
    file_copy_close(&grammar_text);
    tokenizer_close(tokenizer);
    return true;
}

int main(int argc, char **argv) {
    Error error = {0};
    if (argc != 4) {
        fprintf(stderr, "mask_time TOKENIZER GRAMMAR TEXT\n");
        return ERROR_USAGE;
    }
    if (!run(argv, &error)) fprintf(stderr, "mask_time: %s\n", error.message);
    return (int)error.code;
}
