// Chat templates: messages -> token ids in the format a chat model was trained with. The Jinja
// program in a model file is never run: it is recognised, and formats.c has the same format as a
// table row.
//
//     const ChatTemplate *t = chat_template_detect(tokenizer, vocabulary->chat_template, family);
//     chat_template_render(t, tokenizer, &ids, messages, count, &error);  // a conversation
//     chat_template_next(t, tokenizer, &ids, text, length, &error);       // its next user message
#pragma once

#include "tokenizer/tokenizer.h"

typedef struct ChatTemplate ChatTemplate;

typedef enum ChatRole { CHAT_SYSTEM, CHAT_USER, CHAT_ASSISTANT } ChatRole;

// Of "system", "user", "assistant"; false: another name, or NULL.
bool chat_role_by_name(ChatRole *role, const char *name);

typedef struct ChatMessage {
    ChatRole role;
    const char *text;
    size_t length;
} ChatMessage;

// One of chat_template_names; NULL where the name is unknown.
const ChatTemplate *chat_template_by_name(const char *name);
const char *chat_template_name(const ChatTemplate *chat_template);
const char *chat_template_names(void); // "chatml qwen3[-nothink|-think] ..." for messages

// The format of a model: from its template text if it has one, else from its special tokens and
// family. NULL: no known chat format.
const ChatTemplate *chat_template_detect(const Tokenizer *tokenizer, TextSpan template_text,
                                         const char *family);

// The format of a conversation with this system message. It differs from `chat_template` for
// SmolLM3 only, where "/no_think" or "/think" in the system message chooses between two formats.
// chat_template_render does this itself; chat_template_next has to be given the result.
const ChatTemplate *chat_template_for_system(const ChatTemplate *chat_template, const char *system,
                                             size_t length);

// Whether this answer is written in another way once a message follows it: without its thoughts, or
// those that the prompt began. Then chat_template_next does not go on as chat_template_render of
// the whole conversation would.
bool chat_template_forgets(const ChatTemplate *chat_template, const char *answer, size_t length);

// Appends the ids of a conversation and the generation prompt, after which the model writes the
// assistant's message. Control tokens come from the format only; the text of a message never
// becomes one. Includes BOS if the format has it. False: exit code 2 (the roles are in an order
// that the format does not allow, or the vocabulary lacks a token of the format) or 5.
bool chat_template_render(const ChatTemplate *chat_template, const Tokenizer *tokenizer,
                          IdList *ids, const ChatMessage *messages, size_t count, Error *error);

// Continues a conversation in the same KV cache: appends the end of the assistant's message, the
// next user message, and the generation prompt. The stop token is among the appended ids, so the
// caller does not pass the sampled one to the model; a truncated answer is ended in the same way.
bool chat_template_next(const ChatTemplate *chat_template, const Tokenizer *tokenizer, IdList *ids,
                        const char *user_text, size_t length, Error *error);
