// Finds a model's chat format. The template text of a model file is a Jinja program; it is searched
// for strings that only one format's program contains, and never run.
//
//     template text -> TEXT_SIGNS -> mistral_version      where a file has a template
//     no text       -> TOKEN_SIGNS -> mistral_version     by the tokens of the vocabulary
//
// Where none is recognised, the user names one with --template.
#include "tokenizer/template/formats.h"

#include <string.h>

static bool contains(TextSpan text, const char *part) {
    return text.length && memmem(text.text, text.length, part, strlen(part));
}

const ChatTemplate *chat_template_by_name(const char *name) {
    for (size_t i = 0; i < CHAT_TEMPLATE_COUNT; i++) {
        if (!strcmp(name, CHAT_TEMPLATES[i].name)) return &CHAT_TEMPLATES[i];
    }
    return NULL;
}

bool chat_role_by_name(ChatRole *role, const char *name) {
    static const char *const NAMES[] = {"system", "user", "assistant"};
    for (int i = 0; name && i < 3; i++) {
        if (strcmp(name, NAMES[i])) continue;
        *role = (ChatRole)i;
        return true;
    }
    return false;
}

const ChatTemplate *chat_template_for_system(const ChatTemplate *format, const char *system,
                                             size_t length) {
    if (!(format->rules & RULE_THINK_FLAGS)) return format;
    TextSpan text = {system, length};
    if (contains(text, "/no_think")) return chat_template_by_name("smollm3-nothink");
    return contains(text, "/think") ? chat_template_by_name("smollm3") : format;
}

const char *chat_template_name(const ChatTemplate *chat_template) {
    return chat_template->name;
}

// A constant for messages; test_template_detect.c compares it with the table.
const char *chat_template_names(void) {
    return "chatml smollm2 smollm3[-nothink] qwen1.5 qwen2 qwen2.5 qwen3[-nothink|-think] llama2 "
           "llama3[.1|.2] mistral-v1 mistral-v3 mistral-tekken mistral-v7[-tekken] gemma phi3 "
           "phi4[-mini] olmo2 olmo3[-think|.1] nanochat granite[3|4] exaone4[-think] "
           "hunyuan[-7b] ernie4.5 ministral3-reasoning deepseek[-r1]";
}

#define IM_SYSTEM "<|im_start|>system"

// The length of the one of these that text[0 .. length) begins with; 0: of none.
static size_t separator(const char *text, size_t length) {
    static const char *const ALL[] = {"\\n", "\n", "<|im_sep|>"};
    for (int i = 0; i < 3; i++)
        if (length >= strlen(ALL[i]) && !memcmp(text, ALL[i], strlen(ALL[i])))
            return strlen(ALL[i]);
    return 0;
}

// Whether a ChatML program has a default system message: "<|im_start|>system\n" and a letter. The
// newline may be one, or a backslash and an n.
static bool has_default_message(TextSpan text) {
    const char *end = text.text + text.length, *at = text.text;
    while ((at = memmem(at, (size_t)(end - at), IM_SYSTEM, sizeof IM_SYSTEM - 1))) {
        at += sizeof IM_SYSTEM - 1;
        const char *next = at;
        for (size_t n = 1; n; next += n)
            n = separator(next, (size_t)(end - next));
        bool letter = next < end && (((*next | 32) >= 'a' && (*next | 32) <= 'z') || *next & 0x80);
        if (next > at && letter) return true;
    }
    return false;
}

static bool has_thoughts(TextSpan text) {
    return contains(text, "<think>") || contains(text, "</think>");
}

// Matches if the template contains all of `text`. The first matching row decides.
typedef struct Sign {
    const char *text[3];
    const char *format;
} Sign;

#define DS_USER "<\xef\xbd\x9cUser\xef\xbd\x9c>"
#define DS_ASSISTANT                                                                               \
    "<\xef\xbd\x9c"                                                                                \
    "Assistant\xef\xbd\x9c>"

// Special rows before general ones.
static const Sign TEXT_SIGNS[] = {
    {{"<|im_start|>", "Reasoning Mode", "SmolLM"}, "smollm3"},
    {{"<|im_start|>", "named SmolLM"}, "smollm2"},
    {{"<|im_start|>", "You are Qwen, created by Alibaba Cloud"}, "qwen2.5"},
    // 3.1 Think and 32B Think differ from olmo3-think in the default message alone.
    {{"<|im_start|>", "<functions></functions>", "<think>"}, "olmo3-think"},
    {{"<|im_start|>", "<functions></functions>", "You are Olmo, a helpful AI"}, "olmo3.1"},
    {{"<|im_start|>", "<functions></functions>"}, "olmo3"},
    {{"<|im_start|>", "<|im_sep|>"}, "phi4"},
    {{IM_SYSTEM "\\nYou are a helpful assistant.<|im_end|>"}, "qwen2"},
    {{IM_SYSTEM "\nYou are a helpful assistant.<|im_end|>"}, "qwen2"},
    {{IM_SYSTEM "\\nYou are a helpful assistant<|im_end|>"}, "qwen1.5"},
    {{IM_SYSTEM "\nYou are a helpful assistant<|im_end|>"}, "qwen1.5"},
    {{"<|im_start|>assistant\\n<think>\\n", "</think>"}, "qwen3-think"},
    {{"<|im_start|>assistant\n<think>\n", "</think>"}, "qwen3-think"},
    {{"<|im_start|>", "</think>"}, "qwen3"},
    {{"<|im_start|>"}, "chatml"},
    {{DS_ASSISTANT "<think>\\n"}, "deepseek-r1"},
    {{DS_ASSISTANT "<think>\n"}, "deepseek-r1"},
    {{DS_ASSISTANT, "'</think>'"}, "deepseek"},
    {{"<|start_header_id|>", "Cutting Knowledge Date", "strftime_now"}, "llama3.2"},
    {{"<|start_header_id|>", "Cutting Knowledge Date"}, "llama3.1"},
    {{"<|start_header_id|>"}, "llama3"},
    {{"<start_of_turn>"}, "gemma"},
    {{"<|user_start|>"}, "nanochat"},
    // Files of 4.0 that have a default message and do not use it are like those without one.
    {{"<|start_of_role|>", "+ ns.default_system_message +"}, "granite4"},
    {{"<|start_of_role|>", "You are Granite, developed by IBM", "strftime_now"}, "granite3"},
    {{"<|start_of_role|>"}, "granite"},
    {{"[|assistant|]", "[|endofturn|]", "[|tool|]"}, "exaone4"},
    {{"<\xef\xbd\x9chy_User\xef\xbd\x9c>", "<\xef\xbd\x9chy_Assistant\xef\xbd\x9c>"}, "hunyuan"},
    {{"<|startoftext|>", "<|extra_0|>", "<|extra_4|>"}, "hunyuan-7b"},
    {{"\"Assistant: \" + message[\"content\"] + sep_token"}, "ernie4.5"},
    {{"<|/tool|>", "<|end|>"}, "phi4-mini"},
    {{"<|user|>", "<|end|>"}, "phi3"},
    {{"[INST]", "# HOW YOU SHOULD THINK AND ANSWER", "[THINK]"}, "ministral3-reasoning"},
    {{"{{ bos_token }}", "'<|user|>\\n' + message['content'] + '\\n'", "<|assistant|>"}, "olmo2"},
    {{"[INST]", "<<SYS>>"}, "llama2"},
};

// Matches if the vocabulary has all of `tokens` and the model is of this family (NULL: any).
typedef struct TokenSign {
    const char *tokens[2];
    const char *family;
    const char *format;
} TokenSign;

// The same order. The family decides between models with the same tokens.
static const TokenSign TOKEN_SIGNS[] = {
    {{DS_USER, DS_ASSISTANT}, NULL, "deepseek-r1"}, // some have ChatML's tokens too
    {{"<|im_start|>", "<|im_end|>"}, "qwen3", "qwen3"},
    {{"<|im_start|>", "<|im_end|>"}, "qwen2", "qwen2.5"},
    {{"<|im_start|>", "<|im_end|>"}, "smollm3", "smollm3"},
    {{"<|im_start|>", "<|im_end|>"}, "olmo2", "olmo2"}, // has these tokens but does not use them
    {{"<|im_start|>", "<|im_end|>"}, "olmo3", "olmo3"},
    {{"<|im_start|>", "<|im_end|>"}, NULL, "chatml"},
    {{"<|start_header_id|>", "<|eom_id|>"}, NULL, "llama3.1"},
    {{"<|start_header_id|>", "<|eot_id|>"}, NULL, "llama3"},
    {{"<start_of_turn>", "<end_of_turn>"}, NULL, "gemma"},
    {{"<|user_start|>", "<|assistant_start|>"}, NULL, "nanochat"},
    {{"<|start_of_role|>", "<|end_of_role|>"}, NULL, "granite"},
    {{"[|assistant|]", "[|endofturn|]"}, NULL, "exaone4"},
    {{"<\xef\xbd\x9chy_User\xef\xbd\x9c>", "<\xef\xbd\x9chy_Assistant\xef\xbd\x9c>"},
     NULL,
     "hunyuan"},
    {{"<|extra_0|>", "<|extra_4|>"}, "hunyuan", "hunyuan-7b"},
    {{"<|begin_of_sentence|>", "<|end_of_sentence|>"}, "ernie4_5", "ernie4.5"},
    {{"<|/tool|>", "<|end|>"}, NULL, "phi4-mini"},
    {{"<|user|>", "<|end|>"}, NULL, "phi3"},
};

// Mistral's versions differ in spaces: v1 has one on each side of "[/INST]", v3 one after "[INST]"
// and
// "[/INST]", tekken none. v7 has tokens around the system message. Without a template text, tekken
// is recognised by its byte-level vocabulary, which has no token that begins with U+2581.
static const char *mistral_version(const Tokenizer *tokenizer, TextSpan text) {
    bool tekken = tokenizer_find(tokenizer, "\xe2\x96\x81the") < 0;
    if (tokenizer_find(tokenizer, "[INST]") < 0 || contains(text, " [/INST]")) return "mistral-v1";
    if (contains(text, "[INST]")) tekken = !contains(text, "[INST] ");
    bool v7 = contains(text, "[SYSTEM_PROMPT]");
    if (!text.length) v7 = tokenizer_find(tokenizer, "[SYSTEM_PROMPT]") >= 0;
    if (v7) return tekken ? "mistral-v7-tekken" : "mistral-v7";
    return tekken ? "mistral-tekken" : "mistral-v3";
}

// Whether a template with the signs of the format has what the format has not.
static bool is_another(const char *format, TextSpan text) {
    static const struct {
        const char *format;
        bool (*has)(TextSpan text);
    } UNLESS[] = {{"phi4", has_default_message},
                  {"qwen3", has_default_message},
                  {"qwen3-think", has_default_message},
                  {"chatml", has_default_message},
                  {"qwen1.5", has_thoughts},
                  {"qwen2", has_thoughts}};
    for (size_t i = 0; i < sizeof UNLESS / sizeof *UNLESS; i++)
        if (!strcmp(UNLESS[i].format, format)) return UNLESS[i].has(text);
    return false;
}

// NULL: no row matches.
static const char *from_text(const Tokenizer *tokenizer, TextSpan text) {
    for (size_t i = 0; i < sizeof TEXT_SIGNS / sizeof *TEXT_SIGNS; i++) {
        const Sign *sign = &TEXT_SIGNS[i];
        size_t found = 0;
        while (found < 3 && sign->text[found] && contains(text, sign->text[found]))
            found++;
        if (found < 3 && sign->text[found]) continue;
        return is_another(sign->format, text) ? NULL : sign->format;
    }
    return contains(text, "[INST]") ? mistral_version(tokenizer, text) : NULL;
}

// NULL: the vocabulary has no tokens of a chat format.
static const char *from_tokens(const Tokenizer *tokenizer, const char *family) {
    for (size_t i = 0; i < sizeof TOKEN_SIGNS / sizeof *TOKEN_SIGNS; i++) {
        const TokenSign *sign = &TOKEN_SIGNS[i];
        if (sign->family && (!family || strcmp(sign->family, family))) continue;
        if (tokenizer_find(tokenizer, sign->tokens[0]) >= 0 &&
            tokenizer_find(tokenizer, sign->tokens[1]) >= 0)
            return sign->format;
    }
    if (tokenizer_find(tokenizer, "[INST]") >= 0 && tokenizer_find(tokenizer, "[/INST]") >= 0)
        return mistral_version(tokenizer, (TextSpan){NULL, 0});
    return NULL;
}

const ChatTemplate *chat_template_detect(const Tokenizer *tokenizer, TextSpan template_text,
                                         const char *family) {
    const char *name =
        template_text.length ? from_text(tokenizer, template_text) : from_tokens(tokenizer, family);
    return name ? chat_template_by_name(name) : NULL;
}
