// The file, little-endian; docs/cache.md says the same in words:
//
//   "limpidkv"  version 2  parts  header bytes  bytes of all parts  ids  cached  lowest  0
//    8 bytes    u32        u32    u64           u64                 u32  u32     u32     u32
//   7 strings of the key, each with its u64 length; the ids, i32 each; the text with its length
//   u64 checksum of all before it                                    <- "header bytes" end here
//   part 0, u64 checksum; part 1, ...           (kv_cache_save has what is in a part, of which
//   layers with a window have fewer positions: what a length of `lowest` needs)
//
// The checksum of a part is also over its number and the header's checksum, so that parts of two
// files do not make a third, even where one is written over the other while it is read.
//
// The header says how long the file must be, and every size in it is compared with that before
// memory is taken.
#include "commands/cache/cache_file.h"
#include "base/bytes.h"
#include "base/transport/transport.h"
#include "commands/commands.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char MAGIC[8] = {'l', 'i', 'm', 'p', 'i', 'd', 'k', 'v'};
enum { VERSION = 2, PREFIX_BYTES = 48, CHECKSUM_BYTES = 8 };

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
    session_backend(key->values[1], s);
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
        good = error_set(error, ERROR_FILE, "no file of limpid's --cache or chat --session");
    return good || error_prefix(error, path);
}

// What the first PREFIX_BYTES say.
typedef struct Prefix {
    uint64_t header_bytes, parts_bytes; // of all parts, their checksums too
    uint32_t n_parts, n_ids, cached, lowest;
} Prefix;

static bool check_prefix(Bytes *in, Prefix *p, size_t file_bytes) {
    const uint8_t *magic = bytes_take(in, sizeof MAGIC, "magic");
    uint32_t version = bytes_u32(in, "version");
    p->n_parts = bytes_u32(in, "number of parts");
    p->header_bytes = bytes_u64(in, "header bytes");
    p->parts_bytes = bytes_u64(in, "bytes of all parts");
    p->n_ids = bytes_u32(in, "number of ids");
    p->cached = bytes_u32(in, "number of cached ids");
    p->lowest = bytes_u32(in, "least length");
    uint32_t zero = bytes_u32(in, "zero");
    if (in->failed) return false;
    if (memcmp(magic, MAGIC, sizeof MAGIC) != 0)
        return bytes_fail(in, 0, "no file of limpid's --cache or chat --session");
    if (version != VERSION)
        return bytes_fail(in, 8, "version %u, wanted %d", (unsigned)version, VERSION);
    if (p->n_ids > LIMIT_CONTEXT || p->cached > p->n_ids)
        return bytes_fail(in, 32, "%u ids, %u of them cached, wanted at most %d",
                          (unsigned)p->n_ids, (unsigned)p->cached, LIMIT_CONTEXT);
    if (p->lowest > p->cached || zero)
        return bytes_fail(in, 40, "a least length of %u for %u cached ids, and %u, wanted 0",
                          (unsigned)p->lowest, (unsigned)p->cached, (unsigned)zero);
    if (p->n_parts > LIMIT_LAYERS || !p->n_parts != !p->cached || !p->parts_bytes != !p->cached)
        return bytes_fail(in, 12, "%u parts for %u cached ids", (unsigned)p->n_parts,
                          (unsigned)p->cached);
    if (p->header_bytes < PREFIX_BYTES + CHECKSUM_BYTES || p->header_bytes > LIMIT_METADATA ||
        p->header_bytes > file_bytes)
        return bytes_fail(in, 16, "a header of %llu bytes in a file of %zu",
                          (unsigned long long)p->header_bytes, file_bytes);
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
    f->lowest = (int)p->lowest;
    f->n_parts = p->n_parts;
    f->parts_bytes = (size_t)p->parts_bytes;
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

// One part at *at through `part`, which has room for it and its checksum.
static bool restore_part(CacheFile *f, KvCache *cache, int i, size_t *at, uint8_t *part, int length,
                         Error *error) {
    KvSnapshot saved = {f->cached, f->lowest};
    size_t bytes = kv_cache_part_bytes(cache, i, &saved);
    if (!file_reader_get(&f->file, part, *at, bytes + CHECKSUM_BYTES, error)) return false;
    uint64_t header = load_u64(f->header + f->parts_at - CHECKSUM_BYTES);
    if (load_u64(part + bytes) != part_checksum(part, bytes, header, (size_t)i))
        return error_set(error, ERROR_FILE, "part %d: the checksum is another: it is damaged", i);
    kv_cache_restore(cache, 0, i, part, &saved, length);
    *at += bytes + CHECKSUM_BYTES;
    return true;
}

// Of the largest part and its checksum, behind each other; of all of them.
typedef struct PartSizes {
    size_t largest, all;
} PartSizes;

static PartSizes part_sizes(const KvCache *cache, const KvSnapshot *of) {
    PartSizes sizes = {0};
    for (int i = 0; i < kv_cache_parts(cache); i++) {
        size_t bytes = kv_cache_part_bytes(cache, i, of) + CHECKSUM_BYTES;
        sizes.all += bytes;
        if (bytes > sizes.largest) sizes.largest = bytes;
    }
    return sizes;
}

// A file that was cut still has its header, and with it the text: so this is asked when the parts
// are wanted.
static bool check_size(const CacheFile *f, Error *error) {
    size_t all;
    if (add_ok(f->parts_at, f->parts_bytes, &all) && all == f->file.size) return true;
    return error_set(error, ERROR_FILE,
                     "%zu parts of %zu bytes do not make a file of %zu: it is damaged", f->n_parts,
                     f->parts_bytes, f->file.size);
}

static bool check_fit(const CacheFile *f, const KvCache *cache, int vocab_size, Error *error) {
    size_t parts = (size_t)kv_cache_parts(cache);
    PartSizes sizes = part_sizes(cache, &(KvSnapshot){f->cached, f->lowest});
    if (f->n_parts != parts || f->parts_bytes != sizes.all)
        return error_set(error, ERROR_FILE, "%zu parts of %zu bytes, wanted %zu of %zu", f->n_parts,
                         f->parts_bytes, parts, sizes.all);
    for (size_t i = 0; i < f->ids.count; i++)
        if (f->ids.ids[i] >= vocab_size)
            return error_set(error, ERROR_FILE, "token id %d is not below the vocabulary size %d",
                             (int)f->ids.ids[i], vocab_size);
    return true;
}

bool cache_file_restore(CacheFile *f, KvCache *cache, int vocab_size, int length, Error *error) {
    kv_cache_reset(cache, 0);
    bool good = check_size(f, error) && (!f->cached || check_fit(f, cache, vocab_size, error));
    if (!good) return error_prefix(error, f->path);
    if (!length) return true;
    KvSnapshot saved = {f->cached, f->lowest};
    size_t largest = part_sizes(cache, &saved).largest, at = f->parts_at;
    uint8_t *part = malloc(largest);
    if (!part) good = error_set(error, ERROR_MEMORY, "no memory for %zu bytes", largest);
    for (int i = 0; good && i < kv_cache_parts(cache); i++)
        good = restore_part(f, cache, i, &at, part, length, error);
    free(part);
    good = good && file_reader_finish(&f->file, error);
    if (!good) return error_prefix(error, f->path);
    return kv_cache_restored(cache, 0, &saved, length, error);
}

void cache_file_close(CacheFile *f) {
    if (f->path) file_reader_close(&f->file);
    id_list_free(&f->ids);
    free(f->header);
    *f = (CacheFile){0};
}

// ---- writing ----

static KvSnapshot snapshot_of(const CacheContent *c) {
    return (KvSnapshot){c->cached, c->cached ? kv_cache_lowest(c->cache, 0, c->cached) : 0};
}

static void put_header(Buffer *b, const CacheContent *c, size_t n_parts, size_t parts_bytes) {
    uint64_t size = PREFIX_BYTES + c->n_ids * sizeof(int32_t) + 8 + c->text.length + CHECKSUM_BYTES;
    for (int i = 0; i < CACHE_KEYS; i++)
        size += 8 + strlen(c->key->values[i]);
    buffer_put(b, MAGIC, sizeof MAGIC);
    buffer_u32(b, VERSION);
    buffer_u32(b, (uint32_t)n_parts);
    buffer_u64(b, size);
    buffer_u64(b, parts_bytes);
    buffer_u32(b, (uint32_t)c->n_ids);
    buffer_u32(b, (uint32_t)c->cached);
    buffer_u32(b, (uint32_t)snapshot_of(c).lowest);
    buffer_u32(b, 0);
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
                      Error *error) {
    uint64_t of_header = load_u64(header->bytes + header->size - CHECKSUM_BYTES);
    size_t at = header->size, bytes;
    KvSnapshot as = snapshot_of(c);
    for (int i = 0; i < kv_cache_parts(c->cache); i++, at += bytes + CHECKSUM_BYTES) {
        bytes = kv_cache_part_bytes(c->cache, i, &as);
        if (!kv_cache_save(c->cache, 0, i, &as, part, error)) return false;
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
    KvSnapshot as = snapshot_of(c);
    PartSizes sizes = {0};
    if (c->cached) sizes = part_sizes(c->cache, &as);
    put_header(&header, c, n_parts, sizes.all);
    uint8_t *part = malloc(sizes.largest + 1);
    bool good =
        (part && !header.failed) || error_set(error, ERROR_MEMORY, "no memory for the cache file");
    FileWriter *file = NULL;
    if (good) file = file_writer_open(out, header.size + sizes.all, error);
    good = file && file_writer_put(file, 0, header.bytes, header.size, error) &&
           (!n_parts || put_parts(file, c, &header, part, error)) &&
           file_writer_finish(file, error);
    file_writer_close(file);
    free(part);
    buffer_free(&header);
    return good;
}
