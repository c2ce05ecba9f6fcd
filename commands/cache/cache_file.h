// CacheFile: what the model has computed of a text, as a file, so that another run goes on behind
// it with the same bits. generate --cache and chat --session write and read it; docs/cache.md has
// the format.
//
//     CacheFile file;
//     if (!cache_file_open(&file, path, &error)) ...           // ids, text and key are checked
//     if (!cache_key_equal(&file.key, &key, &which)) ...       // of another model or precision
//     KvSnapshot saved = {file.cached, file.lowest};
//     int length = kv_cache_checkpoint(&model->cache, &saved, wanted);
//     good = cache_file_restore(&file, &model->cache, vocab_size, length, &error);
//     cache_file_close(&file);
//
// It is read as any file that nobody vouches for: copied, checked, then used. A checksum tells
// accidents, not malice: whoever writes the file decides what the model seems to have read.
#pragma once

#include "base/buffer.h"
#include "base/file_reader.h"
#include "base/file_writer.h"
#include "base/hash.h"
#include "base/text.h"
#include "commands/shared/session.h"

// What two runs must have in common for one to go on where the other ended, as text.
enum { CACHE_KEYS = 7, CACHE_KEY_SIZE = 128 };
typedef struct CacheKey {
    char values[CACHE_KEYS][CACHE_KEY_SIZE];
} CacheKey;

// Exit code 2 with layers in several processes: each has the cache of its own layers alone.
// `option` names what asked for a file.
bool cache_file_possible(const char *option, Error *error);

// Of the open model; `digest` is model_digest's.
void cache_key_of(CacheKey *key, const Session *session, const char digest[FNV_HEX]);
// False: *which is the first value that differs.
bool cache_key_equal(const CacheKey *a, const CacheKey *b, int *which);
const char *cache_key_name(int which); // "model", "precision", ...

typedef struct CacheFile { // zeroed: none is open
    const char *path;      // borrowed
    CacheKey key;
    IdList ids;    // the tokens of the text
    int cached;    // the first of them, whose state is in the file,
    int lowest;    // and the least length but 0 that it can be restored at; 0: any
    TextSpan text; // what else belongs to it: chat's conversation; inside `header`
    // internal
    FileReader file;
    uint8_t *header; // owned
    size_t n_parts, parts_bytes, parts_at;
} CacheFile;

// *is_there: the path has a file that begins as a cache file does, whatever follows; an empty file
// is as good as none. False: exit code 3 (another file) or 4.
bool cache_file_is_one(const char *path, bool *is_there, Error *error);

// False: exit code 3 (no cache file, another version, a damaged header), 4 or 5; nothing is left to
// close. The rest may be damaged, or not all there: cache_file_restore looks at it.
bool cache_file_open(CacheFile *file, const char *path, Error *error);

// Sequence 0 of a cache is then as it was after the first `length` tokens: a checkpoint of
// `cached`. The keys are equal. Each part is checked before it is used. False: exit code 3, 4, 5 or
// 6, and the sequence is empty.
bool cache_file_restore(CacheFile *file, KvCache *cache, int vocab_size, int length, Error *error);
void cache_file_close(CacheFile *file);

// What is written: `cached` of the ids are in sequence 0 of the cache, which is not changed.
typedef struct CacheContent {
    const CacheKey *key;
    const int32_t *ids;
    size_t n_ids;
    int cached;
    TextSpan text;
    const KvCache *cache;
} CacheContent;

// Whole or not at all. False: exit code 2, 4, 5 or 6.
bool cache_file_write(const OutputFile *out, const CacheContent *content, Error *error);
