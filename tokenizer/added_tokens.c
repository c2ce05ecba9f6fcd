// Finds added tokens (special tokens such as <|im_end|>) in a text, before the rest is
// pre-tokenized and merged. The tokens are sorted; a match narrows the range of candidates byte by
// byte, so each position costs at most LIMIT_ADDED_BYTES steps.
//
//     added, sorted:   <think>   <|eot_id|>   <|im_end|>   <|im_start|>
//     text "<|im_e..": all begin with '<', three go on with '|', two with "im_", one with 'e'
//
// added_first skips the bytes that begin no added token, which is nearly all of a text. lstrip,
// rstrip and single_word are options of tokenizer.json; other formats have none of them.
#include "base/text.h"
#include "tokenizer/internal.h"
#include "tokenizer/split/pretokenize.h"

#include <stdlib.h>
#include <string.h>

static int compare_added(const void *a, const void *b) {
    return span_compare(((const AddedToken *)a)->text, ((const AddedToken *)b)->text);
}

// Sets *total, the bytes of all texts, for the allocation.
static bool check_list(const AddedToken *list, size_t count, size_t *total, Error *error) {
    *total = 0;
    for (size_t i = 0; i < count; i++) {
        size_t length = list[i].text.length;
        if (!length)
            return error_set(error, ERROR_FILE, "added token %d: its text is empty",
                             (int)list[i].id);
        if (length > LIMIT_ADDED_BYTES)
            return error_set(error, ERROR_FILE, "added token %d: %zu bytes long (at most %d)",
                             (int)list[i].id, length, LIMIT_ADDED_BYTES);
        *total += length;
    }
    return true;
}

// One allocation: the entries, then their texts, which the entries point into.
bool added_set(Tokenizer *t, const AddedToken *list, size_t count, Error *error) {
    size_t total = 0;
    if (!count) return true;
    if (!check_list(list, count, &total, error)) return false;
    AddedToken *added = malloc(count * sizeof *added + total);
    if (!added) return error_set(error, ERROR_MEMORY, "out of memory for %zu added tokens", count);
    char *text = (char *)(added + count);
    for (size_t i = 0; i < count; i++) {
        added[i] = list[i];
        added[i].text.text = memcpy(text, list[i].text.text, list[i].text.length);
        text += list[i].text.length;
        t->added_first[(uint8_t)added[i].text.text[0]] = true;
    }
    qsort(added, count, sizeof *added, compare_added);
    free(t->added);
    t->added = added;
    t->n_added = count;
    for (size_t i = 1; i < count; i++)
        if (!compare_added(&added[i - 1], &added[i])) {
            char shown[96];
            return error_set(
                error, ERROR_FILE, "added tokens %d and %d have the same text \"%s\"",
                (int)added[i - 1].id, (int)added[i].id,
                escape_bytes(shown, sizeof shown, added[i].text.text, added[i].text.length));
        }
    return true;
}

bool added_from_types(Tokenizer *t, Error *error) {
    size_t count = 0;
    for (size_t i = 0; i < t->n_tokens; i++)
        count += t->types[i] == TOKEN_CONTROL || t->types[i] == TOKEN_USER_DEFINED;
    if (!count) return true;
    AddedToken *list = calloc(count, sizeof *list);
    if (!list) return error_set(error, ERROR_MEMORY, "out of memory for %zu added tokens", count);
    count = 0;
    for (size_t i = 0; i < t->n_tokens; i++) {
        // Of two tokens with the same spelling only the lower id can be found.
        if (t->types[i] != TOKEN_CONTROL && t->types[i] != TOKEN_USER_DEFINED) continue;
        if (vocabulary_find(t, t->tokens[i].text, t->tokens[i].length) != (int32_t)i) continue;
        list[count++] = (AddedToken){
            .text = t->tokens[i], .id = (int32_t)i, .control = t->types[i] == TOKEN_CONTROL};
    }
    bool good = added_set(t, list, count, error);
    free(list);
    return good;
}

// The byte of an entry at `depth`; -1: it ends there, and sorts first.
static int byte_at(const AddedToken *added, size_t i, size_t depth) {
    const TextSpan *text = &added[i].text;
    return text->length > depth ? (uint8_t)text->text[depth] : -1;
}

// The first index in added[low .. high) whose byte at `depth` is >= wanted. All entries of the
// range share the bytes before.
static size_t lower_bound(const AddedToken *added, size_t low, size_t high, size_t depth,
                          int wanted) {
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (byte_at(added, middle, depth) < wanted)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

// added[*low .. *high) becomes its entries with `byte` at `depth`. Steps that double from either
// end find where to search: mostly few entries go, or none, and then few are looked at.
static void narrow(const AddedToken *added, size_t *low, size_t *high, size_t depth, int byte) {
    size_t begin = *low, end = *high, step = 1;
    for (; end - begin >= step && byte_at(added, begin + step - 1, depth) < byte; step *= 2)
        begin += step;
    *low = lower_bound(added, begin, end - begin < step ? end : begin + step - 1, depth, byte);
    for (step = 1; end - *low >= step && byte_at(added, end - step, depth) > byte; step *= 2)
        end -= step;
    begin = end - *low < step ? *low : end - step + 1;
    *high = lower_bound(added, begin, end, depth, byte + 1);
}

// Whether the token may match at text[at]. A control token written by a user is plain text unless
// the caller asks for it; a single word has no word character on either side.
static bool accepts(const AddedToken *a, bool special, const char *text, size_t at, size_t length) {
    if (a->control && !special) return false;
    if (!a->single_word) return true;
    return !ends_with_word(text, at) &&
           !starts_with_word(text + at + a->text.length, length - at - a->text.length);
}

// The longest added token at text[at], or NULL.
//
// After `depth` bytes, added[low .. high) are the tokens that begin with these bytes. One that ends
// here sorts first; it is kept as the best so far, and longer ones are tried on.
static const AddedToken *longest_at(const Tokenizer *t, const char *text, size_t at, size_t length,
                                    bool special) {
    const AddedToken *best = NULL;
    size_t low = 0, high = t->n_added;
    for (size_t depth = 0; low < high; depth++) {
        const AddedToken *first = &t->added[low];
        if (first->text.length == depth) {
            if (accepts(first, special, text, at, length)) best = first;
            low++;
        }
        if (at + depth == length) break;
        narrow(t->added, &low, &high, depth, (uint8_t)text[at + depth]);
    }
    return best;
}

// The first place wins, and there the longest token. lstrip takes space back to `from` only: what
// comes before belongs to an earlier token.
const AddedToken *added_next(const Tokenizer *t, const char *text, size_t from, size_t length,
                             bool special, size_t *begin, size_t *end) {
    for (size_t at = from; at < length; at++) {
        if (!t->added_first[(uint8_t)text[at]]) continue;
        const AddedToken *found = longest_at(t, text, at, length, special);
        if (!found) continue;
        *begin = at;
        *end = at + found->text.length;
        if (found->lstrip) *begin -= trailing_space(text + from, at - from);
        if (found->rstrip) *end += leading_space(text + *end, length - *end);
        return found;
    }
    return NULL;
}
