// Chat formats by name. A model file's own template program is never run: it is recognised, and the
// format that it stands for is written here in C.
//
//     const ChatTemplate *t = chat_template_detect(tokenizer, &vocabulary->chat_template, family);
//     chat_template_turn(t, tokenizer, &ids, CHAT_USER, text, length, &error);
#pragma once

#include "tokenizer/tokenizer.h"

typedef struct ChatTemplate ChatTemplate;

typedef enum ChatRole { CHAT_SYSTEM, CHAT_USER, CHAT_ASSISTANT } ChatRole;

typedef struct ChatMessage {
    ChatRole role;
    const char *text;
    size_t length;
} ChatMessage;

// One of chat_template_names; NULL where the name is unknown.
const ChatTemplate *chat_template_by_name(const char *name);
const char *chat_template_name(const ChatTemplate *chat_template);
const char *chat_template_names(void); // "chatml, smollm2, ..." for messages

// The format of a model, from its template text where there is one, else from its special tokens
// and family; NULL: this does not look like a chat model.
const ChatTemplate *chat_template_detect(const Tokenizer *tokenizer, TextSpan template_text,
                                         const char *family);

// The format of a conversation with this system message: SmolLM3's has "/no_think" or "/think" in
// it choose between two. What is rendered with either of them is the same; chat_template_next needs
// the one that holds.
const ChatTemplate *chat_template_for_system(const ChatTemplate *chat_template, const char *system,
                                             size_t length);

// Appends the ids of a whole conversation, ready for the answer of the assistant (generation prompt
// included). Control tokens come from the format alone; message text never produces one. BOS is
// included where the format has one. False: exit code 2 (roles do not alternate, system not
// supported, named) or 5.
bool chat_template_render(const ChatTemplate *chat_template, const Tokenizer *tokenizer,
                          IdList *ids, const ChatMessage *messages, size_t count, Error *error);

// Appends what stands between an answer and the next user message, that message, and the generation
// prompt: a conversation goes on in one cache. The token that ends a turn is part of what is
// appended, so the caller does not feed the sampled stop token to the model; an answer that was cut
// short is closed in the same way.
bool chat_template_next(const ChatTemplate *chat_template, const Tokenizer *tokenizer, IdList *ids,
                        const char *user_text, size_t length, Error *error);
