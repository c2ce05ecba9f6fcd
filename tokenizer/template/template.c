// Renders a conversation with a row of formats.c. The text between two control tokens, from the
// format and from a message, is concatenated before it is encoded, since one token may span both:
// "\n" + "\n\nHi". It is encoded with `special` off: control tokens come from the format only.
//
//     chat_template_render   begin, system turn, messages, prompt
//     put_format             a string of the format: plain text to put, {..} to put_placeholder
//     put                    collects text; encode_text encodes it when a control token comes
#include "base/text.h"
#include "tokenizer/internal.h"
#include "tokenizer/template/formats.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct Renderer {
    const ChatTemplate *format;
    const Tokenizer *tokenizer;
    IdList *ids;
    char *text; // the text since the last control token; owned
    size_t length, capacity;
    bool after_token; // a control token precedes `text`
    bool failed;
    Error *error;
} Renderer;

// Grows by doubling. A failure is remembered in r->failed, and everything after it does nothing.
static void put(Renderer *r, const char *text, size_t length) {
    if (r->failed) return;
    if (length > r->capacity - r->length) {
        size_t capacity = 2 * r->capacity + length;
        char *grown = length > SIZE_MAX / 4 ? NULL : realloc(r->text, capacity);
        if (!grown) {
            r->failed = !error_set(r->error, ERROR_MEMORY, "out of memory for the chat template");
            return;
        }
        r->text = grown;
        r->capacity = capacity;
    }
    if (length) memcpy(r->text + r->length, text, length);
    r->length += length;
}

static void put_string(Renderer *r, const char *text) {
    put(r, text, strlen(text));
}

// SPM tokenizers put a space before a text. If the format's text begins with that space ("[INST]
// Hi"), it is removed here, so that there is one. If the text is only a space, it is the token
// U+2581.
static void encode_text(Renderer *r) {
    const char *text = r->text;
    size_t length = r->length;
    bool prefix = r->tokenizer->prefixes_space;
    r->length = 0;
    if (r->failed || !length) return;
    if (prefix && r->after_token && (r->format->rules & RULE_TOKEN_EATS_SPACE)) {
        size_t eaten = leading_space(text, length);
        text += eaten;
        length -= eaten;
    }
    if (prefix && length && *text == ' ') {
        text++;
        length--;
        int id = length ? -1 : tokenizer_find(r->tokenizer, "\xe2\x96\x81");
        if (id >= 0 && !id_list_push(r->ids, id, r->error)) r->failed = true;
    }
    if (length && !tokenizer_encode(r->tokenizer, r->ids, text, length, false, r->error))
        r->failed = true;
}

// The text so far is encoded first, then the token follows.
static void put_token(Renderer *r, int id) {
    encode_text(r);
    r->after_token = true;
    if (!r->failed && !id_list_push(r->ids, id, r->error)) r->failed = true;
}

static const int64_t MOST_SECONDS = 253402300799; // the end of the year 9999

// `name`: "=date" 26 July 2024, "=short date" 26 Jul 2024, "=month date" July 26, 2024. If
// SOURCE_DATE_EPOCH is set, it is the time, so that a run can be reproduced
// (reproducible-builds.org).
static void put_date(Renderer *r, const char *name) {
    static const char *const MONTHS[] = {"January",   "February", "March",    "April",
                                         "May",       "June",     "July",     "August",
                                         "September", "October",  "November", "December"};
    const char *fixed = getenv("SOURCE_DATE_EPOCH");
    if (fixed && !*fixed) fixed = NULL;
    uint64_t seconds = 0;
    size_t length = fixed ? strlen(fixed) : 0;
    if (decimal_take(fixed ? fixed : "", length, &seconds) != length ||
        seconds > (uint64_t)MOST_SECONDS) {
        r->failed = !error_set(r->error, ERROR_USAGE,
                               "SOURCE_DATE_EPOCH: wanted seconds since 1970, at most %lld, got "
                               "\"%.40s\"",
                               (long long)MOST_SECONDS, fixed ? fixed : "");
        return;
    }
    time_t now = fixed ? (time_t)seconds : time(NULL);
    struct tm date;
    if (!(fixed ? gmtime_r(&now, &date) : localtime_r(&now, &date))) {
        r->failed = !error_set(r->error, ERROR_USAGE, "the clock shows no date");
        return;
    }
    char out[64];
    const char *month = MONTHS[date.tm_mon];
    long year = 1900L + date.tm_year;
    if (!strcmp(name, "=month date"))
        snprintf(out, sizeof out, "%s %02d, %ld", month, date.tm_mday, year);
    else
        snprintf(out, sizeof out, "%02d %.*s %ld", date.tm_mday, strcmp(name, "=date") ? 3 : 9,
                 month, year);
    put_string(r, out);
}

// `name`: the text between { and } in a format.
//
// The names are constants of formats.c and fit `spelling`.
static void put_placeholder(Renderer *r, const char *name, size_t length) {
    char spelling[64];
    memcpy(spelling, name, length);
    spelling[length] = '\0';
    bool optional = spelling[0] == '?';
    if (!strcmp(spelling, "=bos")) {
        int bos = tokenizer_adds_bos(r->tokenizer) ? tokenizer_bos(r->tokenizer) : -1;
        if (bos >= 0) put_token(r, bos);
    } else if (spelling[0] == '=') {
        put_date(r, spelling);
    } else {
        int id = tokenizer_find(r->tokenizer, spelling + optional);
        if (id >= 0)
            put_token(r, id);
        else if (optional)
            put_string(r, spelling + 1);
        else
            r->failed = !error_set(r->error, ERROR_USAGE,
                                   "the chat format %s needs the token %s, which this vocabulary "
                                   "does not have",
                                   r->format->name, spelling);
    }
}

static void put_format(Renderer *r, const char *format) {
    while (format && *format && !r->failed) {
        size_t plain = strcspn(format, "{");
        put(r, format, plain);
        format += plain;
        if (!*format) break;
        size_t length = strcspn(format + 1, "}");
        put_placeholder(r, format + 1, length);
        format += length + 2;
    }
}

// Encodes what is left. False where anything has failed.
static bool renderer_end(Renderer *r) {
    encode_text(r);
    free(r->text);
    return !r->failed;
}

// ---- message text ----

// White space is that of Python's str.strip, which Jinja's trim calls: White_Space and the ASCII
// separators 1C-1F.
static bool is_separator(char c) {
    return c >= 0x1c && c <= 0x1f;
}

// One kind of white space at a time, until neither is left.
static TextSpan trim_start(TextSpan span) {
    for (size_t step;; span.length -= step) {
        step = leading_space(span.text, span.length);
        if (!step && span.length && is_separator(span.text[0])) step = 1;
        if (!step) return span;
        span.text += step;
    }
}

static TextSpan trim_end(TextSpan span) {
    for (size_t step;; span.length -= step) {
        step = trailing_space(span.text, span.length);
        if (!step && span.length && is_separator(span.text[span.length - 1])) step = 1;
        if (!step) return span;
    }
}

// The text of an assistant message after the format's rules.
//
// RULE_DROP_THOUGHTS keeps what follows the last </think>, as Qwen 3's template does in answers
// before the last user message, which here are all of them.
static TextSpan answer_text(const ChatTemplate *format, TextSpan span) {
    static const char THINK_END[] = "</think>";
    size_t mark = sizeof THINK_END - 1;
    bool thought = false;
    if (format->rules & RULE_DROP_THOUGHTS) {
        for (size_t end = span.length; end >= mark && !thought; end--) {
            thought = !memcmp(span.text + end - mark, THINK_END, mark);
            if (thought) span = (TextSpan){span.text + end, span.length - end};
        }
    }
    bool thoughtful = thought && !(format->rules & RULE_KEEP_NEWLINES);
    if (thoughtful || (format->rules & RULE_DROP_NEWLINES)) {
        for (; span.length && *span.text == '\n'; span.length--)
            span.text++;
    }
    bool trim = (format->rules & (RULE_TRIM | RULE_TRIM_ANSWER)) ||
                (thought && (format->rules & RULE_TRIM_THOUGHTFUL));
    return trim ? trim_end(trim_start(span)) : span;
}

bool chat_template_forgets(const ChatTemplate *format, const char *answer, size_t length) {
    return (format->rules & RULE_DROP_THOUGHTS) &&
           (strcmp(format->prompt, format->before[CHAT_ASSISTANT]) != 0 ||
            (length && memmem(answer, length, "</think>", strlen("</think>"))));
}

// One user message. `system`: the system message that the format puts inside it, or NULL.
//
// Order: the beginning of the turn, the system message between its own strings, the text, the end.
static void put_user(Renderer *r, const TextSpan *system, TextSpan text) {
    const ChatTemplate *f = r->format;
    bool trim = f->rules & RULE_TRIM;
    // Llama 2 trims both messages as one text: the white space between them stays.
    bool joined = system && f->before[CHAT_SYSTEM][0];
    if (trim) text = trim_end(joined ? text : trim_start(text));
    put_format(r, f->before[CHAT_USER]);
    if (system) {
        put_format(r, f->before[CHAT_SYSTEM]);
        put(r, system->text, system->length);
        put_format(r, f->after[CHAT_SYSTEM]);
    }
    put(r, text.text, text.length);
    put_format(r, f->after[CHAT_USER]);
}

// ---- the system message ----

// Removes every `word` from text[*length]; returns whether there was one.
static bool remove_word(char *text, size_t *length, const char *word) {
    size_t n = strlen(word), kept = 0, before = *length;
    for (size_t i = 0; i < before;) {
        if (before - i >= n && !memcmp(text + i, word, n))
            i += n;
        else
            text[kept++] = text[i++];
    }
    *length = kept;
    return kept != before;
}

// SmolLM3: /no_think or /think in the system message chooses the mode; /system_override drops the
// format's own text, so that only the message remains.
//
// The flags are removed from the message. An empty message then becomes the mode's default.
static void put_smollm3_system(Renderer *r, TextSpan given) {
    char *copy = malloc(given.length + 1);
    if (!copy) {
        r->failed = !error_set(r->error, ERROR_MEMORY, "out of memory for the system message");
        return;
    }
    if (given.length) memcpy(copy, given.text, given.length);
    TextSpan text = {copy, given.length};
    r->format = chat_template_for_system(r->format, given.text, given.length);
    remove_word(copy, &text.length, "/no_think");
    remove_word(copy, &text.length, "/think");
    bool override = remove_word(copy, &text.length, "/system_override");
    text = trim_end(text);
    if (!text.length && !override) {
        text = (TextSpan){r->format->default_system, strlen(r->format->default_system)};
    }
    put_format(r, override ? "{<|im_start|>}system\n" : r->format->before[CHAT_SYSTEM]);
    put(r, text.text, text.length);
    put_format(r, override ? "{<|im_end|>}\n" : r->format->after[CHAT_SYSTEM]);
    free(copy);
}

// `given`: the conversation's system message, or NULL.
//
// The default message is part of the format: it may have placeholders, and no rule changes it.
static void put_system_turn(Renderer *r, const TextSpan *given) {
    const ChatTemplate *f = r->format;
    if (given && !given->length && (f->rules & RULE_DEFAULT_IF_EMPTY)) given = NULL;
    if (!given && !f->default_system) return;
    if (f->rules & RULE_THINK_FLAGS) {
        put_smollm3_system(r, given ? *given : (TextSpan){"", 0});
        return;
    }
    TextSpan text = given ? *given : (TextSpan){"", 0};
    if (f->rules & RULE_TRIM_SYSTEM) text = trim_end(trim_start(text));
    if (given && !text.length && (f->rules & RULE_SKIP_EMPTY_SYSTEM)) return;
    put_format(r, f->before[CHAT_SYSTEM]);
    put(r, text.text, text.length);
    if (!given) put_format(r, f->default_system);
    put_format(r, f->after[CHAT_SYSTEM]);
}

// ---- conversations ----

// False: exit code 2, with the number of the message from 1.
static bool check_conversation(const ChatTemplate *format, const ChatMessage *messages,
                               size_t count, Error *error) {
    if (!count || messages[count - 1].role != CHAT_USER)
        return error_set(error, ERROR_USAGE, "a conversation must end with a user message");
    size_t first = messages[0].role == CHAT_SYSTEM;
    for (size_t i = first; i < count; i++) {
        if (messages[i].role == CHAT_SYSTEM)
            return error_set(error, ERROR_USAGE,
                             "message %zu: only the first message can be a system message", i + 1);
        bool user_turn = (i - first) % 2 == 0;
        if ((format->rules & RULE_ALTERNATE) && user_turn != (messages[i].role == CHAT_USER))
            return error_set(
                error, ERROR_USAGE,
                "message %zu: the chat format %s requires alternating user and assistant messages",
                i + 1, format->name);
    }
    return true;
}

bool chat_template_render(const ChatTemplate *chat_template, const Tokenizer *tokenizer,
                          IdList *ids, const ChatMessage *messages, size_t count, Error *error) {
    if (!check_conversation(chat_template, messages, count, error)) return false;
    Renderer r = {.format = chat_template, .tokenizer = tokenizer, .ids = ids, .error = error};
    TextSpan system = {messages[0].text, messages[0].length};
    bool has_system = messages[0].role == CHAT_SYSTEM;
    bool kept = has_system && (system.length || !(r.format->rules & RULE_SKIP_EMPTY_SYSTEM));
    put_format(&r, r.format->begin);
    if (r.format->system == SYSTEM_TURN) put_system_turn(&r, has_system ? &system : NULL);
    for (size_t i = has_system; i < count; i++) {
        TextSpan text = {messages[i].text, messages[i].length};
        if (messages[i].role == CHAT_ASSISTANT) {
            text = answer_text(r.format, text);
            put_format(&r, r.format->before[CHAT_ASSISTANT]);
            put(&r, text.text, text.length);
            put_format(&r, r.format->after[CHAT_ASSISTANT]);
            continue;
        }
        // Whether this user message takes the system message in.
        bool here = r.format->system == SYSTEM_IN_FIRST_USER  ? i == has_system
                    : r.format->system == SYSTEM_IN_LAST_USER ? i == count - 1
                                                              : false;
        put_user(&r, here && kept ? &system : NULL, text);
    }
    put_format(&r, r.format->prompt);
    return renderer_end(&r);
}

// The system message is not repeated: it is in the KV cache already.
bool chat_template_next(const ChatTemplate *chat_template, const Tokenizer *tokenizer, IdList *ids,
                        const char *user_text, size_t length, Error *error) {
    Renderer r = {.format = chat_template, .tokenizer = tokenizer, .ids = ids, .error = error};
    put_format(&r, chat_template->after[CHAT_ASSISTANT]);
    put_user(&r, NULL, (TextSpan){user_text, length});
    put_format(&r, chat_template->prompt);
    return renderer_end(&r);
}
