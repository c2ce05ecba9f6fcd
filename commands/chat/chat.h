// Parts of the command chat: a conversation over one cache.
//
//   line_editor.c   a line typed at a terminal, by libedit (without_libedit.c: none)
//   history.c       the messages of earlier sessions
//   message.c       a message of one or several lines
#pragma once

#include "commands/chat/line_editor.h"
#include "commands/shared/generation.h"
#include "commands/shared/prompt.h"
#include "tokenizer/template/template.h"

typedef struct Chat {
    Session session;
    const ChatTemplate *format;
    Sampler *sampler;
    IdList ids;      // of the next message, with the tokens that come before it
    int32_t pending; // the last token of an answer that was cut off: sampled, not yet in the cache
    bool begun;      // the cache holds a part of the conversation
    bool full;       // nothing more fits
    bool introduced; // format and seed have been printed
    uint64_t seed;
    bool color;
    LineEditor *editor; // NULL: none
} Chat;

// The next message typed at a terminal, without the marks that continue it or quote it, in
// `message`. LINE_CLEARED: Ctrl-C; it is empty where nothing had been typed. False: exit code 2
// (longer than the limit), 4 or 5.
bool message_read(Chat *chat, Buffer *message, const TextLimit *limit, LineEnd *end, Error *error);
