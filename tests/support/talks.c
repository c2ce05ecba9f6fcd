#include "tests/support/talks.h"

const Talk TALK_ONE = {{SAY(CHAT_USER, " Hi there\n")}};
const Talk TALK_MODES = {{SAY(CHAT_SYSTEM, "Be brief. /no_think  "), SAY(CHAT_USER, "Hi")}};

static size_t talk_length(const Talk *talk) {
    size_t count = 0;
    while (count < 5 && talk->messages[count].text)
        count++;
    return count;
}

bool talk_render(const char *name, Tokenizer *t, IdList *ids, const Talk *talk, Error *error) {
    setenv("SOURCE_DATE_EPOCH", "1738540800", 1); // 3 February 2025
    const ChatTemplate *chat = chat_template_by_name(name);
    CHECK(chat, "no format %s", name);
    return chat_template_render(chat, t, ids, talk->messages, talk_length(talk), error);
}

void talk_check(const char *name, Tokenizer *t, const Talk *talk, const char *wanted) {
    Error error = {0};
    IdList ids = {0};
    if (!talk_render(name, t, &ids, talk, &error)) TEST_FAIL("%s: %s", name, error.message);
    const char *got = byte_tokenizer_text(t, &ids);
    CHECK(!strcmp(got, wanted), "%s:\n  got    \"%s\"\n  wanted \"%s\"", name, got, wanted);
    id_list_free(&ids);
}
