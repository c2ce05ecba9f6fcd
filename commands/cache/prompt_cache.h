// PromptCache: generate --cache. The longest common beginning of the prompt and of the file's is
// taken from the file, the rest is computed; afterwards the file begins with the prompt.
//
//     PromptCache *cache = NULL;
//     good = prompt_cache_check(options, &error) &&               // before anything is opened
//            prompt_cache_open(&cache, options, &error) &&
//            prompt_cache_digest(cache, &session, &error) && session_open_model(...) &&
//            prompt_cache_restore(cache, &session, &prompt, &error) &&
//            ... the prompt from prompt_cache_used(cache) on ... && prompt_cache_save(cache,
//            &error);
//     prompt_cache_close(cache);
//
// Without --cache it stays NULL, and all of these do nothing.
#pragma once

#include "commands/cache/cache_file.h"

typedef struct PromptCache {
    const Options *options; // borrowed
    CacheFile file;
    FileSet inputs;
    OutputFile out;
    char digest[FNV_HEX];
    CacheKey key;
    const Session *session; // from prompt_cache_restore on; borrowed, as the prompt is
    const IdList *prompt;
    size_t used;    // tokens of the prompt that came from the file
    bool is_there;  // the file, and it can be read
    bool holds_all; // the file begins with the whole prompt, and stays as it is
} PromptCache;

// Exit code 2 where other options forbid it.
bool prompt_cache_check(const Options *options, Error *error);

// Reads the file where it is there, and tries whether it can be written. A file that is no cache
// file, or holds a conversation, is never replaced; with --force a damaged one is, and one that
// does not fit. False: exit code 2, 3, 4 or 5.
bool prompt_cache_open(PromptCache **cache, const Options *options, Error *error);
bool prompt_cache_digest(PromptCache *cache, const Session *session, Error *error);

// Fills the model's cache with the first `used` tokens, and says so on standard error. False: exit
// code 3 (made with another model or other options; damaged), 4, 5 or 6.
bool prompt_cache_restore(PromptCache *cache, const Session *session, const IdList *prompt,
                          Error *error);

// When the model has read the whole prompt, and nothing else. False: exit code 2, 4, 5 or 6.
bool prompt_cache_save(PromptCache *cache, Error *error);
void prompt_cache_close(PromptCache *cache);
static inline size_t prompt_cache_used(const PromptCache *cache) {
    return cache ? cache->used : 0;
}
