// The file, little-endian; docs/cache.md says the same in words:
//
//   "limpidkv"  version 1  parts  header bytes  bytes of a part  ids  cached
//    8 bytes    u32        u32    u64           u64              u32  u32
//   7 strings of the key, each with its u64 length; the ids, i32 each; the text with its length
//   u64 checksum of all before it                                    <- "header bytes" end here
//   part 0, u64 checksum; part 1, ...           (kv_cache_save has what is in a part)
//
// The checksum of a part is also over its number and the header's checksum, so that parts of two
// files do not make a third, even where one is written over the other while it is read.
//
// The header says how long the file must be, and every size in it is compared with that before
// memory is taken.
#include "commands/cache/cache_file.h"
#include "base/bytes.h"
#include "commands/commands.h"
#include "base/transport.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char MAGIC[8] = {'l', 'i', 'm', 'p', 'i', 'd', 'k', 'v'};
enum { VERSION = 1, PREFIX_BYTES = 40, CHECKSUM_BYTES = 8 };

static uint64_t part_checksum(const uint8_t *part, size_t bytes, uint64_t header, size_t i) {
    const uint64_t all[] = {fnv1a_wide(part, bytes), header, i};
    return fnv1a(FNV_START, all, sizeof all);
}

// ---- the key ----

static const char *const KEY_NAMES[CACHE_KEYS] = {
    "limpid", "backend", "model", "precision", "cache type", "pattern", "rotary positions"};

const char *cache_key_name(int which) {
    return KEY_NAMES[which];
}

bool cache_key_equal(const CacheKey *a, const CacheKey *b, int *which) {
    for (*which = 0; *which < CACHE_KEYS; ++*which)
        if (strcmp(a->values[*which], b->values[*which]) != 0) return false;
    return true;
}

// "cpu" for every instruction set and number of threads, which give the same bits; of a GPU its
// name too: "cuda, NVIDIA H200".
static void print_backend(char out[CACHE_KEY_SIZE], const char *description) {
    size_t length = strcspn(description, ",");
    if (!strncmp(description, "cuda,", 5)) length += 1 + strcspn(description + length + 1, ",");
    snprintf(out, CACHE_KEY_SIZE, "%.*s", (int)length, description);
}

// Two scalings choose their frequencies by the context of the run, from which on it matters.
static void print_rotation(char out[CACHE_KEY_SIZE], const Config *c, int context) {
    bool ntk = c->rope.scaling == ROPE_DYNAMIC_NTK, longrope = c->rope.scaling == ROPE_LONGROPE;
    bool beyond = context > c->rope.original_max_seq_len;
    if (ntk && beyond)
        snprintf(out, CACHE_KEY_SIZE, "of a context of %d", context);
    else if (longrope && beyond)
        snprintf(out, CACHE_KEY_SIZE, "of a context over %d", c->rope.original_max_seq_len);
    else
        snprintf(out, CACHE_KEY_SIZE, "the model's own");
}

void cache_key_of(CacheKey *key, const Session *s, const char digest[FNV_HEX]) {
    static const char *const PRECISIONS[] = {"f32", "a16", "a8"};
    static const char *const TYPES[KV_TYPE_COUNT] = {"f32", "f16", "bf16"};
    const ModelOptions *o = &s->model->options;
    char pattern[PATTERN_TEXT];
    attention_pattern_print(pattern, &s->model->pattern);
    *key = (CacheKey){0};
    snprintf(key->values[0], CACHE_KEY_SIZE, "%s", LIMPID_VERSION);
    print_backend(key->values[1], device_info(s->model->device)->description);
    snprintf(key->values[2], CACHE_KEY_SIZE, "%s", digest);
    snprintf(key->values[3], CACHE_KEY_SIZE, "%s", PRECISIONS[o->precision]);
    snprintf(key->values[4], CACHE_KEY_SIZE, "%s", TYPES[o->kv_type]);
    snprintf(key->values[5], CACHE_KEY_SIZE, "%s", pattern);
    print_rotation(key->values[6], s->config, o->context);
}

bool cache_file_possible(const char *option, Error *error) {
    return transport_count() == 1 ||
           error_set(
               error, ERROR_USAGE,
               "%s: not with layers in several processes, which have a part of the cache each",
               option);
}

// ---- reading ----

bool cache_file_is_one(const char *path, bool *is_there, Error *error) {
    struct stat status;
    FileReader file;
    char magic[sizeof MAGIC] = "";
    *is_there = false;
    if (stat(path, &status) ? errno == ENOENT : S_ISREG(status.st_mode) && !status.st_size)
        return true;
    bool good = file_reader_open(&file, path, error);
    if (!good) return error_prefix(error, path);
    *is_there = true;
    if (file.size >= sizeof MAGIC) good = file_reader_get(&file, magic, 0, sizeof magic, error);
    file_reader_close(&file);
    if (good && memcmp(magic, MAGIC, sizeof MAGIC) != 0)
        good = error_set(error, ERROR_FILE, "not a cache file of limpid");
    return good || error_prefix(error, path);
}

// What the first PREFIX_BYTES say.
typedef struct Prefix {
    uint64_t header_bytes, part_bytes;
    uint32_t n_parts, n_ids, cached;
} Prefix;

static bool check_prefix(Bytes *in, Prefix *p, size_t file_bytes) {
    const uint8_t *magic = bytes_take(in, sizeof MAGIC, "magic");
    uint32_t version = bytes_u32(in, "version");
    p->n_parts = bytes_u32(in, "number of parts");
    p->header_bytes = bytes_u64(in, "header bytes");
    p->part_bytes = bytes_u64(in, "bytes of a part");
    p->n_ids = bytes_u32(in, "number of ids");
    p->cached = bytes_u32(in, "number of cached ids");
    if (in->failed) return false;
    if (memcmp(magic, MAGIC, sizeof MAGIC) != 0)
        return bytes_fail(in, 0, "not a cache file of limpid");
    if (version != VERSION)
        return bytes_fail(in, 8, "version %u, wanted %d", (unsigned)version, VERSION);
    if (p->n_ids > LIMIT_CONTEXT || p->cached > p->n_ids)
        return bytes_fail(in, 32, "%u ids, %u of them cached, wanted at most %d",
                          (unsigned)p->n_ids, (unsigned)p->cached, LIMIT_CONTEXT);
    if (p->n_parts > LIMIT_LAYERS || !p->n_parts != !p->cached || !p->part_bytes != !p->cached)
        return bytes_fail(in, 12, "%u parts for %u cached ids", (unsigned)p->n_parts,
                          (unsigned)p->cached);
    if (p->header_bytes < PREFIX_BYTES + CHECKSUM_BYTES || p->header_bytes > LIMIT_METADATA ||
        p->header_bytes > file_bytes)
        return bytes_fail(in, 16, "a header of %llu bytes in a file of %zu",
                          (unsigned long long)p->header_bytes, file_bytes);
    uint64_t part, parts, all;
    if (!add_ok(p->part_bytes, CHECKSUM_BYTES, &part) || !mul_ok(part, p->n_parts, &parts) ||
        !add_ok(parts, p->header_bytes, &all) || all != file_bytes)
        return bytes_fail(in, 24, "%u parts of %llu bytes do not make a file of %zu",
                          (unsigned)p->n_parts, (unsigned long long)p->part_bytes, file_bytes);
    return true;
}

static bool read_key(CacheKey *key, Bytes *in) {
    for (int i = 0; i < CACHE_KEYS; i++) {
        size_t at = in->pos;
        TextSpan value = bytes_string(in, KEY_NAMES[i]);
        if (!value.text) return false;
        if (value.length >= CACHE_KEY_SIZE || memchr(value.text, 0, value.length))
            return bytes_fail(in, at, "%s: a text of %zu bytes, wanted fewer than %d", KEY_NAMES[i],
                              value.length, CACHE_KEY_SIZE);
        memcpy(key->values[i], value.text, value.length);
    }
    return true;
}

static bool read_ids(CacheFile *f, Bytes *in, size_t n_ids, Error *error) {
    if (n_ids > bytes_left(in) / sizeof(int32_t))
        return bytes_fail(in, in->pos, "truncated: %zu ids", n_ids);
    for (size_t i = 0; i < n_ids; i++) {
        size_t at = in->pos;
        uint32_t id = bytes_u32(in, "an id");
        if (id >= LIMIT_VOCAB) return bytes_fail(in, at, "%u is no token id", (unsigned)id);
        if (!id_list_push(&f->ids, (int32_t)id, error)) return false;
    }
    return true;
}

// The header is in memory: all of it but the checksum is covered by that.
static bool read_header(CacheFile *f, const Prefix *p, Error *error) {
    size_t size = (size_t)p->header_bytes - CHECKSUM_BYTES;
    Bytes in = bytes_over(f->header, size, error);
    if (load_u64(f->header + size) != fnv1a_wide(f->header, size))
        return bytes_fail(&in, size, "the checksum is another: the file is damaged");
    bytes_take(&in, PREFIX_BYTES, "prefix");
    if (!read_key(&f->key, &in) || !read_ids(f, &in, p->n_ids, error)) return false;
    f->text = bytes_string(&in, "text");
    if (in.failed) return false;
    if (bytes_left(&in))
        return bytes_fail(&in, in.pos, "%zu bytes behind the text", bytes_left(&in));
    f->cached = (int)p->cached;
    f->n_parts = p->n_parts;
    f->part_bytes = (size_t)p->part_bytes;
    f->parts_at = (size_t)p->header_bytes;
    return true;
}

static bool copy_header(CacheFile *f, Prefix *p, Error *error) {
    uint8_t prefix[PREFIX_BYTES];
    size_t first = f->file.size < PREFIX_BYTES ? f->file.size : PREFIX_BYTES;
    if (!file_reader_get(&f->file, prefix, 0, first, error)) return false;
    Bytes in = bytes_over(prefix, first, error);
    if (!check_prefix(&in, p, f->file.size)) return false;
    f->header = malloc((size_t)p->header_bytes);
    if (!f->header)
        return error_set(error, ERROR_MEMORY, "no memory for a header of %llu bytes",
                         (unsigned long long)p->header_bytes);
    // From the file what is behind the prefix: that was checked in this copy.
    memcpy(f->header, prefix, PREFIX_BYTES);
    return file_reader_get(&f->file, f->header + PREFIX_BYTES, PREFIX_BYTES,
                           (size_t)p->header_bytes - PREFIX_BYTES, error);
}

bool cache_file_open(CacheFile *f, const char *path, Error *error) {
    Prefix prefix;
    *f = (CacheFile){.path = path, .file.descriptor = -1};
    if (file_reader_open(&f->file, path, error) && copy_header(f, &prefix, error) &&
        read_header(f, &prefix, error))
        return true;
    cache_file_close(f);
    return error_prefix(error, path);
}

// One part through `part`, which has room for it and its checksum.
static bool restore_part(CacheFile *f, KvCache *cache, size_t i, uint8_t *part, int length,
                         Error *error) {
    size_t each = f->part_bytes + CHECKSUM_BYTES;
    if (!file_reader_get(&f->file, part, f->parts_at + i * each, each, error)) return false;
    uint64_t header = load_u64(f->header + f->parts_at - CHECKSUM_BYTES);
    if (load_u64(part + f->part_bytes) != part_checksum(part, f->part_bytes, header, i))
        return error_set(error, ERROR_FILE, "part %zu: the checksum is another: it is damaged", i);
    kv_cache_restore(cache, 0, (int)i, part, f->cached, length);
    return true;
}

static bool check_fit(const CacheFile *f, const KvCache *cache, int vocab_size, Error *error) {
    size_t parts = (size_t)kv_cache_parts(cache);
    size_t bytes = kv_cache_part_bytes(cache, f->cached);
    if (f->n_parts != parts || f->part_bytes != bytes)
        return error_set(error, ERROR_FILE, "%zu parts of %zu bytes, wanted %zu of %zu", f->n_parts,
                         f->part_bytes, parts, bytes);
    for (size_t i = 0; i < f->ids.count; i++)
        if (f->ids.ids[i] >= vocab_size)
            return error_set(error, ERROR_FILE, "token id %d is not below the vocabulary size %d",
                             (int)f->ids.ids[i], vocab_size);
    return true;
}

bool cache_file_restore(CacheFile *f, KvCache *cache, int vocab_size, int length, Error *error) {
    kv_cache_reset(cache, 0);
    bool good = !f->cached || check_fit(f, cache, vocab_size, error);
    if (!good) return error_prefix(error, f->path);
    if (!length) return true;
    uint8_t *part = malloc(f->part_bytes + CHECKSUM_BYTES);
    if (!part) good = error_set(error, ERROR_MEMORY, "no memory for %zu bytes", f->part_bytes);
    for (size_t i = 0; good && i < f->n_parts; i++)
        good = restore_part(f, cache, i, part, length, error);
    free(part);
    good = good && file_reader_finish(&f->file, error);
    if (!good) return error_prefix(error, f->path);
    return kv_cache_restored(cache, 0, length, error);
}

void cache_file_close(CacheFile *f) {
    if (f->path) file_reader_close(&f->file);
    id_list_free(&f->ids);
    free(f->header);
    *f = (CacheFile){0};
}

// ---- writing ----

static void put_header(Buffer *b, const CacheContent *c, size_t n_parts, size_t part_bytes) {
    uint64_t size = PREFIX_BYTES + c->n_ids * sizeof(int32_t) + 8 + c->text.length + CHECKSUM_BYTES;
    for (int i = 0; i < CACHE_KEYS; i++)
        size += 8 + strlen(c->key->values[i]);
    buffer_put(b, MAGIC, sizeof MAGIC);
    buffer_u32(b, VERSION);
    buffer_u32(b, (uint32_t)n_parts);
    buffer_u64(b, size);
    buffer_u64(b, part_bytes);
    buffer_u32(b, (uint32_t)c->n_ids);
    buffer_u32(b, (uint32_t)c->cached);
    for (int i = 0; i < CACHE_KEYS; i++) {
        buffer_u64(b, strlen(c->key->values[i]));
        buffer_put(b, c->key->values[i], strlen(c->key->values[i]));
    }
    for (size_t i = 0; i < c->n_ids; i++)
        buffer_u32(b, (uint32_t)c->ids[i]);
    buffer_u64(b, c->text.length);
    buffer_put(b, c->text.text, c->text.length);
    if (!b->failed) buffer_u64(b, fnv1a_wide(b->bytes, b->size));
}

// Each part through `part`, behind the header.
static bool put_parts(FileWriter *file, const CacheContent *c, const Buffer *header, uint8_t *part,
                      size_t bytes, Error *error) {
    uint64_t of_header = load_u64(header->bytes + header->size - CHECKSUM_BYTES);
    size_t at = header->size;
    for (int i = 0; i < kv_cache_parts(c->cache); i++, at += bytes + CHECKSUM_BYTES) {
        if (!kv_cache_save(c->cache, 0, i, c->cached, part, error)) return false;
        uint64_t checksum = part_checksum(part, bytes, of_header, (size_t)i);
        if (!file_writer_put(file, at, part, bytes, error) ||
            !file_writer_put(file, at + bytes, &checksum, sizeof checksum, error))
            return false;
    }
    return true;
}

bool cache_file_write(const OutputFile *out, const CacheContent *c, Error *error) {
    Buffer header = {0};
    size_t n_parts = c->cached ? (size_t)kv_cache_parts(c->cache) : 0;
    size_t bytes = c->cached ? kv_cache_part_bytes(c->cache, c->cached) : 0;
    put_header(&header, c, n_parts, bytes);
    uint8_t *part = malloc(bytes + 1);
    bool good =
        (part && !header.failed) || error_set(error, ERROR_MEMORY, "no memory for the cache file");
    FileWriter *file = NULL;
    if (good) file = file_writer_open(out, header.size + n_parts * (bytes + CHECKSUM_BYTES), error);
    good = file && file_writer_put(file, 0, header.bytes, header.size, error) &&
           (!n_parts || put_parts(file, c, &header, part, bytes, error)) &&
           file_writer_finish(file, error);
    file_writer_close(file);
    free(part);
    buffer_free(&header);
    return good;
}
