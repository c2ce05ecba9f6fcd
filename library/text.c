// Text to ids and back, and conversations. All three count what there is and write what fits, so
// that a caller may ask for the size first.
#include "library/handles.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

bool text_to_ids(const Tokenizer *tokenizer, IdList *ids, const char *text, size_t length,
                 int flags, Error *error) {
    int bos = tokenizer_bos(tokenizer);
    // An empty text begins with BOS in every model that has one: a model continues something.
    bool wants_bos = flags & LIMPID_BEGIN && (tokenizer_adds_bos(tokenizer) || !length);
    return (!wants_bos || bos < 0 || id_list_push(ids, bos, error)) &&
           tokenizer_encode(tokenizer, ids, length ? text : "", length, flags & LIMPID_SPECIAL,
                            error);
}

const char *text_piece(Tokenizer *tokenizer, const int32_t *ids, size_t i, bool begin, bool special,
                       size_t *length) {
    bool first = begin && (i == 0 || (i == 1 && ids[0] == tokenizer_bos(tokenizer)));
    return tokenizer_piece(tokenizer, ids[i], first, special, length);
}

const ChatTemplate *chat_format(const Checkpoint *checkpoint, const Tokenizer *tokenizer) {
    if (!tokenizer) return NULL;
    return chat_template_detect(tokenizer, checkpoint_vocabulary(checkpoint)->chat_template,
                                checkpoint_config(checkpoint)->family);
}

const char *chat_format_missing(const Checkpoint *checkpoint) {
    return checkpoint_vocabulary(checkpoint)->chat_template.length
               ? "its chat template is none that limpid knows"
               : "no known chat format in this model";
}

// ---- limpid.h ----

static bool check_flags(int flags, Error *error) {
    if (!(flags & ~(LIMPID_BEGIN | LIMPID_SPECIAL))) return true;
    return error_set(error, ERROR_USAGE, "flags: got %d, wanted LIMPID_BEGIN and LIMPID_SPECIAL",
                     flags);
}

static bool check_tokenizer(const limpid_model *m, Error *error) {
    return model_given(m, error) && (m->own.tokenizer || error_copy(error, &m->no_tokenizer));
}

// Copies what fits of `list` and frees it; how many there are, or -1.
static int give_ids(IdList *list, bool good, int32_t *ids, size_t capacity, const Error *cause,
                    limpid_error *error) {
    Error many = {.code = ERROR_USAGE, .message = "more tokens than an int can count"};
    Error no_room = {0};
    size_t count = list->count, fits = count < capacity ? count : capacity;
    if (good && count > INT_MAX) {
        good = false;
        cause = &many;
    } else if (good && fits && !library_given(ids, "ids", NULL, &no_room)) {
        good = false;
        cause = &no_room;
    }
    if (good && fits) memcpy(ids, list->ids, fits * sizeof *ids);
    id_list_free(list);
    return library_result(error, good, cause) ? (int)count : -1;
}

int limpid_tokenize(const limpid_model *m, const char *text, size_t length, int flags, int32_t *ids,
                    size_t capacity, limpid_error *error) {
    Error cause = {0};
    IdList list = {0};
    bool good = check_flags(flags, &cause) && check_tokenizer(m, &cause) &&
                (!length || library_given(text, "text", NULL, &cause)) &&
                text_to_ids(m->own.tokenizer, &list, text, length, flags, &cause);
    return give_ids(&list, good, ids, capacity, &cause, error);
}

int limpid_detokenize(limpid_model *m, const int32_t *ids, size_t count, int flags, char *text,
                      size_t capacity, limpid_error *error) {
    Error cause = {0};
    size_t total = 0;
    bool good = check_flags(flags, &cause) && check_tokenizer(m, &cause) &&
                (!count || library_given(ids, "ids", NULL, &cause)) &&
                (!capacity || library_given(text, "text", NULL, &cause));
    for (size_t i = 0; good && i < count; i++) {
        size_t length = 0;
        if (!(good = library_id(ids[i], m->config->vocab_size, &cause))) break;
        const char *piece = text_piece(m->own.tokenizer, ids, i, flags & LIMPID_BEGIN,
                                       flags & LIMPID_SPECIAL, &length);
        size_t room = total < capacity ? capacity - total : 0;
        size_t fits = length < room ? length : room;
        if (fits) memcpy(text + total, piece, fits);
        total += length;
    }
    if (good && total > INT_MAX)
        good = error_set(&cause, ERROR_USAGE, "%zu bytes, more than an int can count", total);
    return library_result(error, good, &cause) ? (int)total : -1;
}

// ---- conversations ----

static bool convert_message(ChatMessage *to, const limpid_message *from, Error *error) {
    if (!library_given(from->role, "role", NULL, error) ||
        !library_given(from->text, "text", NULL, error))
        return false;
    to->text = from->text;
    to->length = strlen(to->text);
    if (chat_role_by_name(&to->role, from->role)) return true;
    return error_set(error, ERROR_USAGE, "role: got \"%.60s\", wanted system, user or assistant",
                     from->role);
}

static bool render(const limpid_model *m, const limpid_message *messages, size_t count,
                   IdList *list, Error *error) {
    if (!check_tokenizer(m, error) || (count && !library_given(messages, "messages", NULL, error)))
        return false;
    const ChatTemplate *format = chat_format(m->checkpoint, m->own.tokenizer);
    if (!format)
        return error_set(error, ERROR_USAGE, "%s: %s", checkpoint_path(m->checkpoint),
                         chat_format_missing(m->checkpoint));
    ChatMessage *converted = calloc(count ? count : 1, sizeof *converted);
    if (!converted) return error_set(error, ERROR_MEMORY, "no memory for %zu messages", count);
    bool good = true;
    for (size_t i = 0; good && i < count; i++)
        good = convert_message(&converted[i], &messages[i], error);
    good = good && chat_template_render(format, m->own.tokenizer, list, converted, count, error);
    free(converted);
    return good;
}

int limpid_chat(const limpid_model *m, const limpid_message *messages, size_t count, int32_t *ids,
                size_t capacity, limpid_error *error) {
    Error cause = {0};
    IdList list = {0};
    bool good = render(m, messages, count, &list, &cause);
    return give_ids(&list, good, ids, capacity, &cause, error);
}
