// Detection of a model's chat format: from its template text, else from its tokens.
#include "tests/support/files/byte_tokenizer.h"
#include "tests/test.h"
#include "tokenizer/template/formats.h"

static void check_detected(Tokenizer *t, const char *text, const char *family, const char *wanted) {
    TextSpan span = {text, text ? strlen(text) : 0};
    const ChatTemplate *found = chat_template_detect(t, span, family);
    CHECK_STRING(found ? chat_template_name(found) : "none", wanted);
}

Test(template_detect, is_known_by_what_its_program_contains) {
    Tokenizer *t = byte_tokenizer(false, UINT64_MAX, false),
              *plain = byte_tokenizer(true, 0, false);
    check_detected(t, "{{'<|im_start|>' + role}} {{ content }}", "qwen3", "chatml");
    check_detected(t, "<|im_start|> You are a helpful AI assistant named SmolLM, trained", "",
                   "smollm2");
    check_detected(t, "<|im_start|> Reasoning Mode named SmolLM", "", "smollm3");
    check_detected(t, "<|im_start|> You are Qwen, created by Alibaba Cloud", "", "qwen2.5");
    check_detected(t, "<|im_start|> content.split('</think>')", "", "qwen3");
    check_detected(t, "'<|start_header_id|>' + role", "llama", "llama3");
    check_detected(t, "<|start_header_id|> Cutting Knowledge Date", "llama", "llama3.1");
    check_detected(t, "<|start_header_id|> Cutting Knowledge Date strftime_now", "", "llama3.2");
    check_detected(t, "'<start_of_turn>' + role", "gemma3", "gemma");
    check_detected(t, "'<|user|>\\n' + '<|end|>'", "phi3", "phi3");
    check_detected(t, "<|user_start|>", "nanochat", "nanochat");
    check_detected(plain, "'[INST] ' + '<<SYS>>\\n'", "llama", "llama2");
    check_detected(plain, "' [INST] ' + message + ' [/INST]'", "llama", "mistral-v1");
    check_detected(t, "\"[INST] \" + message + \"[/INST]\"", "llama", "mistral-v3");
    check_detected(t, "\"[INST]\" + message + \"[/INST]\"", "llama", "mistral-tekken");
    check_detected(plain, "{{ messages }}", "llama", "none");
    check_detected(t, "'[INST] ' + x + '[/INST]' '[SYSTEM_PROMPT] '", "llama", "mistral-v7");
    check_detected(t, "'[INST]' + x + '[/INST]' '[SYSTEM_PROMPT]'", "llama", "mistral-v7-tekken");
    check_detected(t,
                   "{{ bos_token }} '<|user|>\\n' + message['content'] + '\\n' '<|assistant|>\\n'",
                   "olmo2", "olmo2");
    tokenizer_close(t);
    tokenizer_close(plain);
}

Test(template_detect, without_a_program_the_special_tokens_tell) {
    static const struct {
        uint64_t markers;
        const char *family, *wanted;
    } CASES[] = {{0x3, "llama", "chatml"},
                 {0x3, "qwen3", "qwen3"},
                 {0x3, "qwen2", "qwen2.5"},
                 {0x3, "smollm3", "smollm3"},
                 {0x1, "llama", "none"},
                 {0x18, "llama", "llama3"},
                 {0x600, "gemma3", "gemma"},
                 {0x5000, "phi3", "phi3"},
                 {0xc0, "llama", "mistral-tekken"},
                 {0x2000c0, "llama", "mistral-v7-tekken"},
                 {0x3, "olmo2", "olmo2"},
                 {0x50000, "nanochat", "nanochat"},
                 {0, "llama", "none"},
                 {0x3, NULL, "chatml"}};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        Tokenizer *t = byte_tokenizer(true, CASES[i].markers, false);
        check_detected(t, NULL, CASES[i].family, CASES[i].wanted);
        tokenizer_close(t);
    }
}

Test(template_detect, every_name_is_listed_and_found) {
    const char *names = chat_template_names();
    size_t listed = 0;
    for (size_t i = 0; i < CHAT_TEMPLATE_COUNT; i++) {
        const ChatTemplate *chat = &CHAT_TEMPLATES[i];
        CHECK(chat_template_by_name(chat_template_name(chat)) == chat);
    }
    // "a b[-c|-d]" is a, b, b-c and b-d.
    for (const char *word = names; *word; word += strspn(word, " ")) {
        size_t length = strcspn(word, " "), base = strcspn(word, " [");
        CHECK(chat_template_by_name(test_text("%.*s", (int)base, word)), "%s", word);
        for (size_t at = base + 1, end; ++listed, at < length; at = end + 1) {
            end = at + strcspn(word + at, "|]");
            const char *name = test_text("%.*s%.*s", (int)base, word, (int)(end - at), word + at);
            CHECK(chat_template_by_name(name), "no format %s", name);
        }
        word += length;
    }
    CHECK_INT(listed, CHAT_TEMPLATE_COUNT);
    CHECK(strlen(names) + 60 < ERROR_MESSAGE_SIZE); // --template: got "...", wanted one of ...
    CHECK(!chat_template_by_name("jinja"));
}
