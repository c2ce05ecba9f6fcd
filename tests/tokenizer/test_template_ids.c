// Conversations in the ids of real vocabularies, as the Rust tokenizers library (PyPI's tokenizers
// 0.23, add_special_tokens=False) encodes the output of the published template.
#include "tests/test.h"
#include "tokenizer/template/template.h"

static void check_ids(const char *path, const char *format, const ChatMessage *messages,
                      size_t count, const int32_t *wanted, size_t n_wanted) {
    Error error = {0};
    IdList ids = {0};
    Tokenizer *t = tokenizer_open(&(TokenizerSource){.path = test_data(path)}, &error);
    if (!t) TEST_FAIL("%s", error.message);
    const ChatTemplate *chat = chat_template_by_name(format);
    CHECK(chat_template_render(chat, t, &ids, messages, count, &error), "%s", error.message);
    for (size_t i = 0; i < n_wanted && i < ids.count; i++)
        CHECK(ids.ids[i] == wanted[i], "id %zu is %d, wanted %d", i, ids.ids[i], wanted[i]);
    CHECK_INT(ids.count, n_wanted);
    id_list_free(&ids);
    tokenizer_close(t);
}

#define SAY(role, text)                                                                            \
    { role, text, sizeof text - 1 }
#define COUNT(array) (sizeof array / sizeof *array)

Test(template_ids, llama3) {
    static const ChatMessage TALK[] = {SAY(CHAT_SYSTEM, "Be brief."),
                                       SAY(CHAT_USER, "\xc3\xa9t\xc3\xa9? Hi there\n")};
    static const int32_t WANTED[] = {128000, 128006, 9125,   128007, 271,    3513,  10015, 13,
                                     128009, 128006, 882,    128007, 271,    39883, 30,    21694,
                                     1070,   128009, 128006, 78191,  128007, 271};
    check_ids("tokenizers/llama3/tokenizer.json", "llama3", TALK, COUNT(TALK), WANTED,
              COUNT(WANTED));
}

// The newline of the format and the one of the message are one token, 271; <think> is user-defined,
// so it is recognised inside a message too.
Test(template_ids, qwen3) {
    static const ChatMessage TALK[] = {SAY(CHAT_SYSTEM, "Be brief."),
                                       SAY(CHAT_USER, "\n Hi <think>\nthere\n\n")};
    static const int32_t WANTED[] = {151644, 8948,   198, 3430,   9814,  13,     151645, 198,
                                     151644, 872,    271, 21018,  220,   151667, 198,    18532,
                                     271,    151645, 198, 151644, 77091, 198};
    check_ids("tokenizers/qwen3/tokenizer.json", "qwen3", TALK, COUNT(TALK), WANTED, COUNT(WANTED));
}
