// Runs the pre-tokenizer patterns with PCRE2. UTF-8 is checked once per text, here; PCRE2 would
// check the rest of the text again at every match, in quadratic time.
//
//     text -> valid stretches -> NFC, where the rule has it -> pass 0 -> pass 1 .. -> words
//
// Each pass cuts every piece into its matches and what lies between them, in order, so the words
// together are the text. Which patterns there are is in rules.c.
#include "tokenizer/split/pretokenize.h"

#include "base/text.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <assert.h>
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

struct Pretokenizer {
    SplitRule rule;
    pcre2_code *codes[LIMIT_PASSES];
    pcre2_match_data *match;
    pcre2_match_context *limits;
};

// In PCRE2 \s matches U+180E too; the reference engines match White_Space exactly.
#define WHITE_SPACE                                                                                \
    "\\t-\\r "                                                                                     \
    "\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"

// Copies the published pattern to out[size] with \s and \S replaced by explicit classes.
//
// \s inside a class becomes the bare list, outside a class a class of its own. The assertion holds
// for the constant patterns.
static void expand_white_space(char *out, size_t size, const char *regex) {
    bool in_class = false;
    size_t at = 0;
    for (const char *p = regex; *p; p++) {
        const char *text = p;
        size_t length = 1;
        if (*p == '[') in_class = true;
        if (*p == ']') in_class = false;
        if (*p == '\\') {
            p++;
            length = 2;
            if (*p == 's') text = in_class ? WHITE_SPACE : "[" WHITE_SPACE "]";
            if (*p == 'S') text = "[^" WHITE_SPACE "]";
            if (*p == 's' || *p == 'S') length = strlen(text);
        }
        assert(length < size - at);
        memcpy(out + at, text, length);
        at += length;
    }
    out[at] = '\0';
}

// NULL: out of memory.
static pcre2_code *compile(int pattern) {
    char expanded[2048];
    int code;
    PCRE2_SIZE offset;
    expand_white_space(expanded, sizeof expanded, split_pattern_regex(pattern));
    pcre2_code *compiled = pcre2_compile((PCRE2_SPTR)expanded, PCRE2_ZERO_TERMINATED,
                                         PCRE2_UTF | PCRE2_UCP, &code, &offset, NULL);
    // Where JIT compilation is not possible, the interpreter gives the same matches.
    if (compiled) pcre2_jit_compile(compiled, PCRE2_JIT_COMPLETE);
    return compiled;
}

void pretokenizer_reserve(void) {
    int code;
    PCRE2_SIZE offset;
    pcre2_code *compiled =
        pcre2_compile((PCRE2_SPTR) ".", PCRE2_ZERO_TERMINATED, 0, &code, &offset, NULL);
    if (compiled) pcre2_jit_compile(compiled, PCRE2_JIT_COMPLETE);
    pcre2_code_free(compiled);
}

Pretokenizer *pretokenizer_open(const SplitRule *rule, Error *error) {
    Pretokenizer *p = calloc(1, sizeof *p);
    bool good = p != NULL;
    if (good) {
        p->rule = *rule;
        p->match = pcre2_match_data_create(1, NULL);
        p->limits = pcre2_match_context_create(NULL);
        good = p->match && p->limits;
    }
    // The patterns are constants that are known to compile: the only failure is out of memory.
    for (int i = 0; good && i < rule->n_passes; i++)
        good = (p->codes[i] = compile(rule->passes[i])) != NULL;
    if (good) {
        pcre2_set_match_limit(p->limits, UINT32_MAX); // the default fails on long runs of spaces
        return p;
    }
    error_set(error, ERROR_MEMORY, "out of memory for the pre-tokenizer patterns");
    pretokenizer_close(p);
    return NULL;
}

void pretokenizer_close(Pretokenizer *p) {
    if (!p) return;
    for (int i = 0; i < LIMIT_PASSES; i++)
        pcre2_code_free(p->codes[i]);
    pcre2_match_data_free(p->match);
    pcre2_match_context_free(p->limits);
    free(p);
}

typedef struct Visit {
    const Pretokenizer *pretokenizer;
    WordVisitor visit;
    void *context;
} Visit;

// The next match of a pass in text[from .. length); *begin == length: none.
//
// False: exit code 5. PCRE2_NO_UTF_CHECK: the text has been checked, and PCRE2 would check the rest
// of it at each match.
static bool next_match(const Pretokenizer *p, int pass, const char *text, size_t from,
                       size_t length, size_t *begin, size_t *end, Error *error) {
    uint32_t options = PCRE2_NO_UTF_CHECK;
    int result =
        pcre2_match(p->codes[pass], (PCRE2_SPTR)text, length, from, options, p->match, p->limits);
    if (result == PCRE2_ERROR_JIT_STACKLIMIT) // the interpreter keeps its frames on the heap
        result = pcre2_match(p->codes[pass], (PCRE2_SPTR)text, length, from, options | PCRE2_NO_JIT,
                             p->match, p->limits);
    *begin = *end = length;
    if (result == PCRE2_ERROR_NOMATCH) return true;
    if (result < 0)
        return error_set(error, ERROR_MEMORY, "PCRE2 gave up (%d) on %zu bytes of text", result,
                         length);
    *begin = pcre2_get_ovector_pointer(p->match)[0];
    *end = pcre2_get_ovector_pointer(p->match)[1];
    assert(*end > *begin); // no pattern matches the empty string
    return true;
}

// Splits valid UTF-8 with passes[pass ..]. Recursion depth is at most LIMIT_PASSES.
//
// The last pass hands its pieces to `visit`.
static bool split_pass(const Visit *v, int pass, const char *text, size_t length, Error *error) {
    if (pass == v->pretokenizer->rule.n_passes) return v->visit(v->context, text, length, error);
    for (size_t at = 0, begin, end; at < length; at = end) {
        if (!next_match(v->pretokenizer, pass, text, at, length, &begin, &end, error)) return false;
        if (begin > at && !split_pass(v, pass + 1, text + at, begin - at, error)) return false;
        if (end > begin && !split_pass(v, pass + 1, text + begin, end - begin, error)) return false;
    }
    return true;
}

// `normal` is the text itself where NFC changes nothing.
static bool split_valid(const Visit *v, const char *text, size_t length, Error *error) {
    if (!v->pretokenizer->rule.nfc) return split_pass(v, 0, text, length, error);
    char *normal;
    size_t normal_length;
    if (!nfc(&normal, &normal_length, text, length, error)) return false;
    bool good = split_pass(v, 0, normal, normal_length, error);
    if (normal != text) free(normal);
    return good;
}

// An invalid byte ends a stretch and is a word of its own.
bool pretokenizer_split(const Pretokenizer *p, const char *text, size_t length, WordVisitor visit,
                        void *context, Error *error) {
    Visit v = {p, visit, context};
    uint32_t c;
    for (size_t at = 0, end; at < length; at = end) {
        size_t step;
        end = at;
        while ((step = utf8_decode(text + end, length - end, &c)))
            end += step;
        if (end > at && !split_valid(&v, text + at, end - at, error)) return false;
        if (end == length) break;
        if (!visit(context, text + end, 1, error)) return false; // the invalid byte
        end++;
    }
    return true;
}

// \w as in the reference engines: letters, marks, decimal digits, connectors, joiners.
//
// (Unicode Technical Standard 18, Annex C; U+200C and U+200D are the joiners.)
static bool is_word(uint32_t c) {
    switch (utf8proc_category((utf8proc_int32_t)c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC: return true;
    default: return c == 0x200c || c == 0x200d;
    }
}

bool starts_with_word(const char *text, size_t length) {
    uint32_t c;
    return utf8_decode(text, length, &c) && is_word(c);
}

// Backwards: the shortest end that is a whole character.
bool ends_with_word(const char *text, size_t length) {
    uint32_t c;
    for (size_t n = 1; n <= 4 && n <= length; n++)
        if (utf8_decode(text + length - n, n, &c) == n) return is_word(c);
    return false;
}
