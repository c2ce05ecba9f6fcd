// Grammar: which texts are allowed, as a GBNF file says it (llama.cpp's grammars/README.md), or a
// JSON schema.
//
//     Grammar *grammar = grammar_parse(text, size, &error);
//     Matcher *matcher = matcher_open(grammar, trie, stop, &error);   // grammar/matcher.h
//     ...
//     grammar_close(grammar);
//
//     text -> gbnf.c: a tree of expressions -> compile.c: a graph over bytes with a stack
//
// Characters are code points in a grammar and UTF-8 in a text, so a token may end inside one.
// Of GBNF it takes all that llama.cpp documents but tokens, <[1000]> and <think>.
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

// Bounds on what a hostile grammar may ask for, each refused with its number.
enum {
    LIMIT_GRAMMAR_BYTES = 1 << 20,
    LIMIT_GRAMMAR_RULES = 4096,
    LIMIT_GRAMMAR_DEPTH = 64,         // of groups inside groups
    LIMIT_GRAMMAR_REPEAT = 1 << 24,   // in {m,n}; a counter, so it takes no memory
    LIMIT_GRAMMAR_NODES = 1 << 17,    // of the graph
    LIMIT_GRAMMAR_POSITIONS = 65536,  // places of it where a text may be at once
    LIMIT_GRAMMAR_STACKS = 1024,      // stacks that it may be on at once
    LIMIT_GRAMMAR_MEMORY = 512 << 20, // bytes that one token needs
};

typedef struct Grammar Grammar;

// Owned. NULL: exit code 3 with the line ("line 3: ..."): not GBNF, no rule `root`, a rule that is
// left-recursive or not defined, a grammar that no text satisfies, beyond a limit; or 5.
Grammar *grammar_parse(const char *text, size_t size, Error *error);
void grammar_close(Grammar *grammar); // NULL is fine

// The GBNF of a JSON schema (json_schema.c says of which keywords), terminated, for free(); every
// text that it allows is JSON that the schema accepts. NULL: exit code 3 where a keyword, which the
// message names, cannot be followed, or 5.
char *grammar_of_json_schema(const char *text, size_t size, Error *error);
