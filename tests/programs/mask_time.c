// How long the masks of a grammar take, along a text that the grammar allows.
//
//     mask_time TOKENIZER GRAMMAR TEXT [unprepared]
//
// The grammar is GBNF, or a JSON schema where its name ends in .json. mask_times.py makes both.
//
// Prints the trie's size and time, that of matcher_prepare, the first mask's, and of the others the
// median, the 99th percentile, the largest, the mean, in microseconds, and which took more than 50.
// It is the thread's own processor time, and of each mask the least of five runs, each with a
// matcher of its own: on a machine with other work single ones are interrupted. The text is read
// twice by each matcher: the second time it has kept what it found.
#include "base/file_reader.h"
#include "grammar/matcher.h"
#include "tokenizer/tokenizer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// Not the wall's: on a machine with other work a thread waits for milliseconds.
static double thread_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

enum { RUNS = 5 };

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
        if (times[i] > 50e-6) printf("    mask %zu: %.1f us\n", i, 1e6 * times[i]);
    }
    qsort(times + 1, n - 1, sizeof *times, compare_times);
    printf("%s: %zu masks; first %.1f us; then median %.2f, p99 %.1f, largest %.1f, mean %.2f us; "
           "%d over 50 us\n",
           name, n, 1e6 * first, 1e6 * times[1 + (n - 1) / 2], 1e6 * times[1 + (n - 1) * 99 / 100],
           1e6 * times[n - 1], 1e6 * sum / (double)(n - 1), slow);
}

// Times get less, or stay.
static bool read_text(Matcher *m, Tokenizer *tokenizer, const IdList *ids, double *times,
                      Error *error) {
    if (!matcher_reset(m, error)) return false;
    for (size_t i = 0; i < ids->count; i++) {
        double from = thread_seconds();
        const uint64_t *mask = matcher_mask(m, error);
        double time = thread_seconds() - from;
        if (time < times[i]) times[i] = time;
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

static Grammar *read_grammar(const char *path, const FileCopy *file, Error *error) {
    const char *text = (const char *)file->bytes, *ending = strrchr(path, '.');
    if (!ending || strcmp(ending, ".json") != 0) return grammar_parse(text, file->size, error);
    char *converted = grammar_of_json_schema(text, file->size, error);
    Grammar *g = converted ? grammar_parse(converted, strlen(converted), error) : NULL;
    free(converted);
    return g;
}

static double *infinite(size_t n) {
    double *times = malloc((n + 1) * sizeof *times);
    for (size_t i = 0; i < n; i++)
        times[i] = INFINITY;
    return times;
}

static bool time_masks(const Grammar *g, const Trie *trie, Tokenizer *tokenizer, const IdList *ids,
                       bool prepare, double *times[2], double *prepared, Error *error) {
    Matcher *m = matcher_open(g, trie, NULL, error);
    double from = thread_seconds();
    if (!m || (prepare && !matcher_prepare(m, error))) return false;
    double time = thread_seconds() - from;
    if (time < *prepared) *prepared = time;
    for (int again = 0; again < 2; again++)
        if (!read_text(m, tokenizer, ids, times[again], error)) return false;
    matcher_close(m);
    return true;
}

static bool run(char **argv, bool prepare, Error *error) {
    TokenizerSource source = {.path = argv[1]};
    FileCopy grammar_text, text;
    IdList ids = {0};
    Trie trie;
    Tokenizer *tokenizer = tokenizer_open(&source, error);
    if (!tokenizer || !file_copy_open(&grammar_text, argv[2], 1 << 20, error) ||
        !file_copy_open(&text, argv[3], 1 << 24, error) ||
        !tokenizer_encode(tokenizer, &ids, (const char *)text.bytes, text.size, false, error))
        return false;
    double from = thread_seconds();
    if (!program_trie(&trie, tokenizer, error)) return false;
    printf("%d tokens, %zu nodes: %.1f ms\n", tokenizer_size(tokenizer), trie.n_nodes,
           1e3 * (thread_seconds() - from));
    Grammar *g = read_grammar(argv[2], &grammar_text, error);
    double *times[2] = {infinite(ids.count), infinite(ids.count)}, prepared = INFINITY;
    for (int i = 0; g && i < RUNS; i++)
        if (!time_masks(g, &trie, tokenizer, &ids, prepare, times, &prepared, error)) return false;
    if (!g) return false;
    printf("prepared: %.1f ms\n", prepare ? 1e3 * prepared : 0.0);
    print_times("new states ", times[0], ids.count);
    print_times("seen before", times[1], ids.count);
    free(times[0]);
    free(times[1]);
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
    if (argc != 4 && argc != 5) {
        fprintf(stderr, "mask_time TOKENIZER GRAMMAR TEXT\n");
        return ERROR_USAGE;
    }
    if (!run(argv, argc == 4, &error)) fprintf(stderr, "mask_time: %s\n", error.message);
    return (int)error.code;
}
