// The chat formats as data, for template.c and template_detect.c.
#pragma once

#include "tokenizer/template/template.h"

#include <stdint.h>

typedef enum SystemPlace {
    SYSTEM_TURN,          // a turn of its own, before all others
    SYSTEM_IN_FIRST_USER, // inside the first user turn, before its text
    SYSTEM_IN_LAST_USER,  // inside the last one
} SystemPlace;

enum {
    RULE_ALTERNATE = 1 << 0,   // user, assistant, user, ..., else the conversation is refused
    RULE_TRIM = 1 << 1,        // white space around every message goes
    RULE_TRIM_ANSWER = 1 << 2, // ... around the assistant's only
    RULE_TRIM_SYSTEM = 1 << 3, // ... around the system message too
    RULE_SKIP_EMPTY_SYSTEM = 1 << 4,
    RULE_DROP_THOUGHTS = 1 << 5,    // of an answer, only what follows its last </think>
    RULE_DROP_NEWLINES = 1 << 6,    // of an answer, newlines at its start go
    RULE_THINK_FLAGS = 1 << 7,      // SmolLM3: /think and /no_think in the system message
    RULE_TOKEN_EATS_SPACE = 1 << 8, // an SPM vocabulary drops white space after a control token
};

// In the strings, {name} is the control token of that spelling, which the vocabulary must have;
// {?name} is that token, or the same text where there is none; {=date} and {=short date} are
// today's; {=bos} is BOS where the model's file asks for one. All the rest is text.
struct ChatTemplate {
    const char *name;
    const char *begin;          // once, before everything
    const char *before[3];      // a message, by its ChatRole; a system message that is inside a
    const char *after[3];       // user turn stands between that turn's `before` and its text
    const char *prompt;         // after the last message: the assistant is to speak
    const char *default_system; // the system message where the conversation brings none, or NULL
    SystemPlace system;
    uint32_t rules;
};

extern const ChatTemplate CHAT_TEMPLATES[];
extern const size_t CHAT_TEMPLATE_COUNT;
