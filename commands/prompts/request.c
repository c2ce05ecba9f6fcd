// From a line of JSON to a request. The line may come from anybody: it is parsed within limits,
// each key is known, each value in the range of the option of the same name.
//
//   {"id":"a","prompt":"Once upon","max_tokens":20}
//     -> json_parse -> id (not twice) -> options of the command line, with the line's -> ids
#include "base/json.h"
#include "commands/prompts/prompts.h"
#include "commands/shared/output.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ID = 1024, MOST_MESSAGES = 4096 };
static const JsonLimits LIMITS = {.bytes = LIMIT_PROMPT_LINE, .values = 1 << 20};
// A vocabulary may have a token for the byte 0, so an answer may have one.
static const JsonLimits ANSWER_LIMITS = {
    .bytes = LIMIT_ANSWER_LINE, .values = 1 << 24, .nul = true};

// The keys that are options of the command line too.
static const struct {
    const char *key;
    OptionId id;
} OPTIONS[] = {{"max_tokens", OPTION_MAX_TOKENS}, {"temperature", OPTION_TEMPERATURE},
               {"top_k", OPTION_TOP_K},           {"top_p", OPTION_TOP_P},
               {"min_p", OPTION_MIN_P},           {"seed", OPTION_SEED}};
enum { N_OPTIONS = sizeof OPTIONS / sizeof *OPTIONS };

static const char *const OTHER_KEYS[] = {"id",   "prompt",  "prompt_ids",   "messages",
                                         "stop", "samples", "continuation", "continuation_ids"};
enum { N_OTHER_KEYS = sizeof OTHER_KEYS / sizeof *OTHER_KEYS };

static bool wrong_kind(const char *key, const char *wanted, const json_t *value, Error *error) {
    return error_set(error, ERROR_FILE, "\"%s\": wanted %s, got %s", key, wanted, json_kind(value));
}

// ---- id ----

// A text or an integer, as JSON. False: it is neither (3), or memory (5).
static bool put_id(Buffer *out, const json_t *value, Error *error) {
    if (json_is_integer(value)) {
        buffer_print(out, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    } else if (json_is_string(value)) {
        if (json_string_length(value) > MOST_ID)
            return error_set(error, ERROR_FILE, "\"id\": %zu bytes (at most %d)",
                             json_string_length(value), MOST_ID);
        JsonWriter w = {.out = out};
        writer_text(&w, NULL, json_string_value(value), json_string_length(value));
    } else {
        return wrong_kind("id", "a text or an integer", value, error);
    }
    return !out->failed || error_set(error, ERROR_MEMORY, "no memory for an id");
}

// The id of a line, which is its number where it has none. False: there is none that can be used
// (3), or memory (5); *id is then as it was.
static bool find_id(Buffer *id, const json_t *object, size_t number, IdSet *ids, Error *error) {
    const json_t *value = json_object_get(object, "id");
    Buffer found = {0};
    bool is_new = true, good = true;
    if (value)
        good = put_id(&found, value, error);
    else
        buffer_print(&found, "%zu", number);
    if (found.failed) good = error_set(error, ERROR_MEMORY, "no memory for an id");
    good = good && id_set_add(ids, found.bytes, found.size, &is_new, error);
    if (good && !is_new)
        good = error_set(error, ERROR_FILE,
                         value ? "\"id\": %.*s stands on an earlier line too"
                               : "its number, %.*s, is the id of an earlier line: give it an id",
                         found.size < 80 ? (int)found.size : 80, (const char *)found.bytes);
    if (good) buffer_put(id, found.bytes, found.size);
    buffer_free(&found);
    return good;
}

// The line as an object. NULL: exit code 3 or 5.
static json_t *parse_line(const Line *line, const JsonLimits *limits, Error *error) {
    if (line->too_long) {
        error_set(error, ERROR_FILE, "a line of more than %zu bytes", limits->bytes);
        return NULL;
    }
    json_t *root = json_parse(line->bytes, line->length, limits, error);
    if (!root || json_is_object(root)) return root;
    error_set(error, ERROR_FILE, "wanted an object, got %s", json_kind(root));
    json_decref(root);
    return NULL;
}

// What is wrong with a line is no failure of the run; memory is.
static bool end_id(Buffer *id, const Error *cause, Error *error) {
    if (cause->code && cause->code != ERROR_FILE) return error_copy(error, cause);
    if (cause->code) buffer_print(id, "null");
    return !id->failed || error_set(error, ERROR_MEMORY, "no memory for an id");
}

bool request_id(Buffer *id, const Line *line, size_t number, IdSet *ids, Error *error) {
    Error cause = {0};
    json_t *root = parse_line(line, &LIMITS, &cause);
    if (root) find_id(id, root, number, ids, &cause);
    json_decref(root);
    return end_id(id, &cause, error);
}

bool answer_key(AnswerKey *key, const Line *line, Error *error) {
    *key = (AnswerKey){0};
    json_t *root = parse_line(line, &ANSWER_LIMITS, error);
    const json_t *value = json_object_get(root, "id");
    const char *hash = json_string_value(json_object_get(root, "line_hash"));
    bool good = root;
    key->failed = root && json_object_get(root, "error");
    if (hash) snprintf(key->line_hash, FNV_HEX, "%s", hash);
    if (good && json_is_null(value))
        buffer_print(&key->id, "null");
    else if (good)
        good = put_id(&key->id, value, error);
    if (good && key->id.failed) good = error_set(error, ERROR_MEMORY, "no memory for an id");
    json_decref(root);
    return good;
}

// ---- options ----

// The value of a number or a seed as the command line would have it; false: exit code 3.
static bool number_text(char out[40], const json_t *value, const char *key, OptionKind kind,
                        Error *error) {
    bool whole = kind != KIND_NUMBER;
    out[0] = '\0';
    if (kind == KIND_UNSIGNED && json_is_string(value) && json_string_length(value) < 40)
        snprintf(out, 40, "%s", json_string_value(value));
    else if (json_is_integer(value))
        snprintf(out, 40, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else if (!whole && json_is_real(value))
        snprintf(out, 40, "%.17g", json_real_value(value));
    else if (json_is_real(value) && fabs(json_real_value(value)) < 0x1p53 &&
             json_real_value(value) == floor(json_real_value(value)))
        snprintf(out, 40, "%.0f", json_real_value(value)); // 20.0, as some writers have integers
    else
        return wrong_kind(key, whole ? "an integer" : "a number", value, error);
    return true;
}

static bool read_options(Request *r, const json_t *root, Error *error) {
    for (size_t i = 0; i < N_OPTIONS; i++) {
        const char *key = OPTIONS[i].key;
        OptionRow row = *recorded_option(OPTIONS[i].id);
        const json_t *value = json_object_get(root, key);
        char text[40];
        Error cause = {0};
        if (!value) continue;
        if (!number_text(text, value, key, row.kind, error)) return false;
        r->options.given[row.id] = true;
        row.name = row.meaning = NULL; // of the command line
        if (option_store(&r->options, &row, NULL, text, FOR_GENERATE, &cause)) continue;
        return error_set(error, ERROR_FILE, "\"%s\": %s", key, cause.message);
    }
    return true;
}

static bool add_stop(Request *r, const json_t *value, Error *error) {
    TextList *stops = &r->options.stops;
    if (!json_is_string(value)) return wrong_kind("stop", "texts", value, error);
    if (!json_string_length(value))
        return error_set(error, ERROR_FILE, "\"stop\": the text is empty");
    if (stops->count == OPTIONS_MAX_STOPS)
        return error_set(error, ERROR_FILE, "\"stop\": more than %d texts", OPTIONS_MAX_STOPS);
    const char **text = &stops->texts[stops->count];
    *text = arena_text(&r->arena, json_string_value(value), json_string_length(value), error);
    stops->count += *text != NULL;
    return *text;
}

// A text or several, in the place of those of the command line.
static bool read_stops(Request *r, const json_t *root, Error *error) {
    const json_t *value = json_object_get(root, "stop");
    if (!value) return true;
    r->options.stops.count = 0;
    if (!json_is_array(value)) return add_stop(r, value, error);
    for (size_t i = 0; i < json_array_size(value); i++)
        if (!add_stop(r, json_array_get(value, i), error)) return false;
    return true;
}

static bool read_samples(Request *r, const json_t *root, Error *error) {
    const json_t *value = json_object_get(root, "samples");
    uint64_t count = 1;
    r->has_samples = value;
    if (value && !json_to_size(value, "\"samples\"", &count, error)) return false;
    if (count < 1 || count > MOST_SAMPLES)
        return error_set(error, ERROR_FILE, "\"samples\": wanted 1 .. %d, got %" PRIu64,
                         MOST_SAMPLES, count);
    r->n_samples = (size_t)count;
    return true;
}

// ---- the prompt ----

static bool read_ids(IdList *ids, const json_t *value, const char *key, const Session *s,
                     Error *error) {
    if (!json_is_array(value)) return wrong_kind(key, "an array of ids", value, error);
    for (size_t i = 0; i < json_array_size(value); i++) {
        const json_t *id = json_array_get(value, i);
        if (!json_is_integer(id)) return wrong_kind(key, "integers", id, error);
        json_int_t number = json_integer_value(id);
        if (number < 0 || number >= s->config->vocab_size)
            return error_set(error, ERROR_FILE,
                             "\"%s\": id %" JSON_INTEGER_FORMAT
                             " is not below the vocabulary size %d",
                             key, number, s->config->vocab_size);
        if (!id_list_push(ids, (int32_t)number, error)) return false;
    }
    return true;
}

// The ids of a text as generate -i has them, or of one in the middle of a text.
static bool encode(IdList *ids, const Session *s, const char *text, size_t length, bool begins,
                   Error *error) {
    int flags = (begins ? LIMPID_BEGIN : 0) | (s->options->special ? LIMPID_SPECIAL : 0);
    return session_need_tokenizer(s, error) &&
           text_to_ids(s->tokenizer, ids, text, length, flags, error);
}

static bool read_message(ChatMessage *out, const json_t *value, size_t i, Error *error) {
    const json_t *content = json_object_get(value, "content");
    const char *role = json_string_value(json_object_get(value, "role"));
    if (!role || !json_is_string(content) || json_object_size(value) != 2)
        return error_set(error, ERROR_FILE,
                         "\"messages\": message %zu: wanted role and content, both texts, and "
                         "nothing else",
                         i);
    out->text = json_string_value(content);
    out->length = json_string_length(content);
    return chat_role_by_name(&out->role, role) ||
           error_set(error, ERROR_FILE,
                     "\"messages\": got the role \"%.40s\", wanted system, user or assistant",
                     role);
}

static bool render(IdList *ids, const Session *s, const ChatMessage *messages, size_t count,
                   Error *error) {
    const char *name = s->options->chat_template;
    if (!session_need_tokenizer(s, error)) return false;
    const ChatTemplate *t =
        name ? chat_template_by_name(name) : chat_format(s->checkpoint, s->tokenizer);
    if (!t)
        return error_set(error, ERROR_FILE, "\"messages\": %s: --template NAME sets a format",
                         chat_format_missing(s->checkpoint));
    return chat_template_render(t, s->tokenizer, ids, messages, count, error);
}

// The system message of the command line stands in front where the line has none.
static bool read_messages(IdList *ids, const json_t *value, const Session *s, Error *error) {
    size_t count = json_array_size(value);
    const char *system = s->options->system;
    if (!json_is_array(value) || !count || count > MOST_MESSAGES)
        return error_set(error, ERROR_FILE, "\"messages\": wanted an array of 1 .. %d messages",
                         MOST_MESSAGES);
    ChatMessage *messages = calloc(count + 1, sizeof *messages);
    if (!messages) return error_set(error, ERROR_MEMORY, "no memory for %zu messages", count);
    bool good = true;
    for (size_t i = 0; good && i < count; i++)
        good = read_message(&messages[i + 1], json_array_get(value, i), i, error);
    bool front = system && messages[1].role != CHAT_SYSTEM;
    if (front) messages[0] = (ChatMessage){CHAT_SYSTEM, system, strlen(system)};
    good = good && render(ids, s, messages + !front, count + front, error);
    free(messages);
    return good;
}

static bool read_prompt(Request *r, const json_t *root, const Session *s, Error *error) {
    const json_t *text = json_object_get(root, "prompt"),
                 *ids = json_object_get(root, "prompt_ids");
    const json_t *messages = json_object_get(root, "messages");
    int given = !!text + !!ids + !!messages;
    if (given != 1)
        return error_set(error, ERROR_FILE,
                         "wanted one of \"prompt\", \"prompt_ids\" and \"messages\", got %s",
                         given ? given == 2 ? "two" : "three" : "none");
    if (text && !json_is_string(text)) return wrong_kind("prompt", "a text", text, error);
    bool good =
        text  ? encode(&r->ids, s, json_string_value(text), json_string_length(text), true, error)
        : ids ? read_ids(&r->ids, ids, "prompt_ids", s, error)
              : read_messages(&r->ids, messages, s, error);
    r->prompt = r->ids.count;
    if (!good || r->prompt) return good;
    return error_set(error, ERROR_FILE,
                     ids ? "\"prompt_ids\": there are none"
                         : "the prompt is empty and this model has no BOS token");
}

// ---- the continuation ----

// Prompt and continuation are encoded as one text, since a tokenizer may join their bytes: what
// differs from the prompt's own ids is then scored.
static bool encode_joined(Request *r, const json_t *prompt, const json_t *continuation,
                          const Session *s, Error *error) {
    Buffer text = {0};
    IdList all = {0};
    buffer_put(&text, json_string_value(prompt), json_string_length(prompt));
    buffer_put(&text, json_string_value(continuation), json_string_length(continuation));
    bool good = !text.failed || error_set(error, ERROR_MEMORY, "no memory for a text");
    good = good && encode(&all, s, (const char *)text.bytes, text.size, true, error);
    buffer_free(&text);
    size_t same = 0;
    while (good && same < r->prompt && same < all.count && r->ids.ids[same] == all.ids[same])
        same++;
    if (good && !same)
        good = error_set(error, ERROR_FILE,
                         "\"continuation\": nothing of the prompt is left in front of it");
    if (good) {
        id_list_free(&r->ids);
        r->ids = all;
        r->prompt = same;
    } else {
        id_list_free(&all);
    }
    return good;
}

// What decides how a text is sampled: nothing is, where a continuation is scored.
static bool check_scored_keys(const json_t *root, Error *error) {
    static const char *const KEYS[] = {"samples", "stop"};
    const char *found = NULL;
    for (size_t i = 0; i < N_OPTIONS; i++)
        if (json_object_get(root, OPTIONS[i].key)) found = OPTIONS[i].key;
    for (size_t i = 0; i < sizeof KEYS / sizeof *KEYS; i++)
        if (json_object_get(root, KEYS[i])) found = KEYS[i];
    return !found ||
           error_set(error, ERROR_FILE,
                     "\"%s\" does not go with a continuation, which is not sampled", found);
}

static bool read_continuation(Request *r, const json_t *root, const Session *s, Error *error) {
    const json_t *text = json_object_get(root, "continuation");
    const json_t *ids = json_object_get(root, "continuation_ids");
    const json_t *prompt = json_object_get(root, "prompt");
    r->scores = text || ids;
    if (!r->scores) return true;
    if (text && ids)
        return error_set(error, ERROR_FILE,
                         "wanted one of \"continuation\" and \"continuation_ids\"");
    if (!check_scored_keys(root, error)) return false;
    if (text && !json_is_string(text)) return wrong_kind("continuation", "a text", text, error);
    bool good = ids      ? read_ids(&r->ids, ids, "continuation_ids", s, error)
                : prompt ? encode_joined(r, prompt, text, s, error)
                         : encode(&r->ids, s, json_string_value(text), json_string_length(text),
                                  false, error);
    if (!good || r->ids.count > r->prompt) return good;
    return error_set(error, ERROR_FILE, "\"%s\": there is nothing to score",
                     ids ? "continuation_ids" : "continuation");
}

// ---- the whole ----

static bool is_key(const char *key) {
    for (size_t i = 0; i < N_OPTIONS; i++)
        if (!strcmp(key, OPTIONS[i].key)) return true;
    for (size_t i = 0; i < N_OTHER_KEYS; i++)
        if (!strcmp(key, OTHER_KEYS[i])) return true;
    return false;
}

// A key that is misspelt would be left out in silence.
static bool check_keys(json_t *root, Error *error) {
    for (void *at = json_object_iter(root); at; at = json_object_iter_next(root, at))
        if (!is_key(json_object_iter_key(at)))
            return error_set(error, ERROR_FILE, "\"%.60s\" is no key of a prompt",
                             json_object_iter_key(at));
    return true;
}

// What the context has room for; a continuation's last token is not fed.
static bool check_room(const Request *r, const Session *s, Error *error) {
    return session_check_room(r->scores ? "the continuation" : "the prompt",
                              r->ids.count - r->scores, s->options->context, error);
}

static bool read_all(Request *r, json_t *root, const Session *s, Error *error) {
    if (!check_keys(root, error) || !read_options(r, root, error) || !read_stops(r, root, error) ||
        !read_samples(r, root, error) || !read_prompt(r, root, s, error) ||
        !read_continuation(r, root, s, error) || !check_room(r, s, error))
        return false;
    r->samples = calloc(r->n_samples, sizeof *r->samples);
    if (!r->samples)
        return error_set(error, ERROR_MEMORY, "no memory for %zu samples", r->n_samples);
    for (size_t i = 0; i < r->n_samples; i++)
        r->samples[i].seed = r->options.seed + i;
    return true;
}

Request *request_read(const Line *line, size_t number, const Session *s, IdSet *ids, Error *error) {
    Request *r = calloc(1, sizeof *r);
    if (!r) {
        error_set(error, ERROR_MEMORY, "no memory for a prompt");
        return NULL;
    }
    Error cause = {0};
    r->line = number;
    line_hash(r->line_hash, line);
    r->options = *s->options;
    json_t *root = parse_line(line, &LIMITS, &r->error);
    if (root && find_id(&r->id, root, number, ids, &r->error)) read_all(r, root, s, &r->error);
    json_decref(root);
    if (r->error.code) id_list_free(&r->ids);
    bool runs = r->error.code != ERROR_MEMORY && r->error.code != ERROR_IO;
    if (!r->id.size) buffer_print(&r->id, "null");
    if (r->id.failed) runs = error_set(&cause, ERROR_MEMORY, "no memory for an id");
    if (runs) return r;
    error_copy(error, cause.code ? &cause : &r->error);
    request_free(r);
    return NULL;
}

bool request_blame(Request *r, const Sample *sample, const Error *cause, Error *error) {
    bool finite = cause->code != ERROR_NONFINITE;
    if (finite && cause->code != ERROR_USAGE && cause->code != ERROR_FILE)
        return error_copy(error, cause);
    if (r->error.code && sample >= r->failed) return true;
    r->error = (Error){0};
    r->failed = sample;
    if (finite)
        error_copy(&r->error, cause);
    else // which number is the first depends on the passes that computed the text
        error_set(&r->error, ERROR_NONFINITE,
                  "the model's numbers are not finite (NaN or infinity): `generate` with this "
                  "prompt names the first");
    return true;
}

void request_free(Request *r) {
    if (!r) return;
    for (size_t i = 0; r->samples && i < r->n_samples; i++) {
        buffer_free(&r->samples[i].text);
        id_list_free(&r->samples[i].ids);
        free(r->samples[i].logprobs);
    }
    free(r->samples);
    id_list_free(&r->ids);
    buffer_free(&r->id);
    arena_free(&r->arena);
    free(r);
}
