// The table of chat formats, for template.c and detect.c.
#pragma once

#include "tokenizer/template/template.h"

#include <stdint.h>

typedef enum SystemPlace {
    SYSTEM_TURN,          // a message by itself, before all others
    SYSTEM_IN_FIRST_USER, // inside the first user message, before its text
    SYSTEM_IN_LAST_USER,  // inside the last user message, before its text
} SystemPlace;

enum {
    RULE_ALTERNATE = 1 << 0,   // roles must be user, assistant, user, ...
    RULE_TRIM = 1 << 1,        // remove white space around user and assistant messages
    RULE_TRIM_ANSWER = 1 << 2, // ... around assistant messages only
    RULE_TRIM_SYSTEM = 1 << 3, // ... around the system message as well
    RULE_SKIP_EMPTY_SYSTEM = 1 << 4,
    RULE_DROP_THOUGHTS = 1 << 5,    // of an assistant message, keep the text after </think>
    RULE_DROP_NEWLINES = 1 << 6,    // of an assistant message, remove newlines at the start
    RULE_THINK_FLAGS = 1 << 7,      // SmolLM3: /think and /no_think in the system message
    RULE_TOKEN_EATS_SPACE = 1 << 8, // with an SPM vocabulary, no white space after a control token
    RULE_TRIM_THOUGHTFUL = 1 << 9, // where </think> was dropped, remove white space around the rest
    RULE_DEFAULT_IF_EMPTY = 1 << 10, // an empty system message is as good as none
    RULE_KEEP_NEWLINES = 1 << 11,    // those after a </think> that was dropped
};

// Placeholders in the strings: {name} is the control token of that name, which the vocabulary must
// have; {?name} is that token, or the same text if there is none; {=date}, {=short date} and
// {=month date} are today's date; {=bos} is BOS if the tokenizer adds one. The rest is plain text.
struct ChatTemplate {
    const char *name;
    const char *begin;          // once, before everything
    const char *before[3];      // of a message, by its ChatRole. A system message inside a user
    const char *after[3];       // message goes between that message's `before` and its text
    const char *prompt;         // the generation prompt, after the last message
    const char *default_system; // used if the conversation has no system message; or NULL
    SystemPlace system;
    uint32_t rules;
};

extern const ChatTemplate CHAT_TEMPLATES[];
extern const size_t CHAT_TEMPLATE_COUNT;
