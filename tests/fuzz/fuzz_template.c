// Chat templates: any template text is recognised or not, and any conversation is rendered or
// refused. What a user writes never becomes a control token.
// Exercises: tokenizer/template/ tokenizer/added_tokens.c
#include "tests/fuzz/use_tokenizer.h"
#include "tests/support/files/made_vocabulary.h"
#include "tokenizer/template/template.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t count);

static const char *const FORMATS[] = {
    "chatml", "smollm2",    "qwen2.5",    "qwen3",          "smollm3",     "llama2", "llama3.2",
    "llama3", "mistral-v1", "mistral-v3", "mistral-tekken", "mistral-v7",  "gemma",  "phi3",
    "olmo2",  "nanochat",   "granite3",   "granite4",       "olmo3-think", "exaone4"};
static const char *const CONTROLS[] = {"<s>",
                                       "</s>",
                                       "<|im_start|>",
                                       "<|im_end|>",
                                       "<|begin_of_text|>",
                                       "<|eot_id|>",
                                       "<bos>",
                                       "<|start_header_id|>",
                                       "<|end_header_id|>",
                                       "<|eom_id|>",
                                       "<|user|>",
                                       "<|end|>",
                                       "<|system|>",
                                       "<|assistant|>",
                                       "<start_of_turn>",
                                       "<end_of_turn>",
                                       "[INST]",
                                       "[/INST]",
                                       "[SYSTEM_PROMPT]",
                                       "[/SYSTEM_PROMPT]",
                                       "<|endoftext|>",
                                       "<|bos|>",
                                       "<|user_start|>",
                                       "<|user_end|>",
                                       "<|assistant_start|>",
                                       "<|assistant_end|>",
                                       "<|start_of_role|>",
                                       "<|end_of_role|>",
                                       "<|end_of_text|>",
                                       "[|system|]",
                                       "[|user|]",
                                       "[|assistant|]",
                                       "[|endofturn|]"};
enum { N_FORMATS = sizeof FORMATS / sizeof *FORMATS, FIRST_CONTROL = 256, MOST_MESSAGES = 8 };

static Tokenizer *make_tokenizer(void) {
    static MadeVocabulary made;
    static const char *const NO_MERGES[] = {NULL};
    made_vocabulary(&made, "llama3", NO_MERGES);
    for (size_t i = 0; i < sizeof CONTROLS / sizeof *CONTROLS; i++)
        made_vocabulary_add(&made, CONTROLS[i], strlen(CONTROLS[i]), TOKEN_CONTROL);
    TokenizerSource source = {.vocabulary = &made.vocabulary};
    Tokenizer *t = tokenizer_open(&source, NULL);
    if (!t) abort();
    return t;
}

// -1: it was refused.
static int controls_of(const ChatTemplate *format, const Tokenizer *t, const ChatMessage *messages,
                       size_t count) {
    IdList ids = {0};
    Error error = {0};
    int controls = 0;
    bool good = chat_template_render(format, t, &ids, messages, count, &error);
    if (good != !error.code) abort();
    for (size_t i = 0; i < ids.count; i++)
        controls += ids.ids[i] >= FIRST_CONTROL;
    id_list_free(&ids);
    return good ? controls : -1;
}

static void converse(const ChatTemplate *format, const Tokenizer *t, const char *text,
                     size_t length) {
    ChatMessage messages[MOST_MESSAGES], plain = {CHAT_USER, "x", 1};
    size_t count = 0;
    for (size_t at = 0; at < length && count < MOST_MESSAGES; at++) {
        const char *end = memchr(text + at, '\0', length - at);
        size_t bytes = end ? (size_t)(end - text) - at : length - at;
        messages[count++] = (ChatMessage){(ChatRole)((uint8_t)text[at] % 3), text + at, bytes};
        at += bytes;
    }
    controls_of(format, t, messages, count);
    ChatMessage user = {CHAT_USER, text, length};
    if (controls_of(format, t, &user, 1) != controls_of(format, t, &plain, 1)) abort();
    IdList ids = {0};
    Error error = {0};
    format = chat_template_for_system(format, text, length);
    if (chat_template_next(format, t, &ids, text, length, &error) != !error.code) abort();
    id_list_free(&ids);
}

// The first byte: the format for the text behind it; or 255, then a template up to the first NUL.
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t count) {
    static Tokenizer *t;
    if (!t) t = make_tokenizer();
    if (count < 2) return 0;
    char *text = malloc(count - 1);
    if (!text) return 0;
    memcpy(text, data + 1, count - 1);
    const ChatTemplate *format = chat_template_by_name(FORMATS[data[0] % N_FORMATS]);
    if (!format) abort();
    size_t skip = 0;
    if (data[0] == 255) {
        const char *nul = memchr(text, '\0', count - 1);
        skip = nul ? (size_t)(nul - text) : count - 1;
        const ChatTemplate *found = chat_template_detect(t, (TextSpan){text, skip}, "llama");
        if (found) format = found;
    }
    converse(format, t, text + skip, count - 1 - skip);
    free(text);
    return 0;
}
