// The format of cache files: what was written is read back, and anything else is refused with its
// place. A file that is rewritten while it is read is one version of it or an error.
#include "base/bytes.h"
#include "commands/cache/cache_file.h"
#include "tests/support/files/rewriting.h"
#include "tests/support/files/tiny_model.h"
#include "tests/test.h"

enum { TOKENS = 11, CONTEXT = 20, N_PARTS = 2 };

static TinyModel *tiny;
static const CacheKey KEY = {
    {"0.1.0", "cpu", "0123456789abcdef", "a16", "f16", "causal", "the model's own"}};

static Model *run_open(void) {
    TinyShape shape = tiny_shape();
    shape.n_layers = N_PARTS;
    if (!tiny) tiny = tiny_model_open(&shape);
    return tiny_model_run(tiny, (ModelOptions){.context = CONTEXT, .kv_type = KV_F16});
}

// A file of that many tokens, the first of them `first`; all but the last are cached.
static Content written(const char *name, int first, const char *text) {
    Model *model = run_open();
    Error error = {0};
    int32_t ids[TOKENS];
    for (int i = 0; i < TOKENS; i++)
        ids[i] = first + i;
    tiny_model_forward(model, &(Batch){.n = TOKENS - 1, .tokens = ids});
    OutputFile out = {.path = test_temporary(name), .force = true};
    CHECK(cache_file_write(&out,
                           &(CacheContent){.key = &KEY,
                                           .ids = ids,
                                           .n_ids = TOKENS,
                                           .cached = TOKENS - 1,
                                           .text = {text, strlen(text)},
                                           .cache = &model->cache},
                           &error),
          "%s", error.message);
    model_close(model);
    Content content;
    content.bytes = test_read_file(out.path, &content.size);
    return content;
}

// All that a reader takes from the file, hashed. False: refused.
static bool read_cache(const char *path, uint64_t *print, Error *error) {
    CacheFile file;
    Model *model = run_open();
    bool good = cache_file_open(&file, path, error);
    if (good) {
        *print = fnv1a(FNV_START, file.ids.ids, file.ids.count * sizeof *file.ids.ids);
        *print = fnv1a(*print, &file.key, sizeof file.key);
        *print = fnv1a(*print, file.text.text, file.text.length);
        good =
            cache_file_restore(&file, &model->cache, tiny->config.vocab_size, file.cached, error);
        cache_file_close(&file);
    }
    for (int i = 0; good && i < N_PARTS; i++) {
        KvSnapshot as = {.length = kv_cache_length(&model->cache, 0)};
        size_t bytes = kv_cache_part_bytes(&model->cache, i, &as);
        void *part = malloc(bytes);
        good = kv_cache_save(&model->cache, 0, i, &as, part, error);
        *print = fnv1a(*print, part, bytes);
        free(part);
    }
    CHECK(good == !error->code, "%s", error->message);
    model_close(model);
    return good;
}

Test(cache_file, gives_back_what_was_written) {
    Content content = written("a.kv", 5, "the text");
    CacheFile file;
    Error error = {0};
    int which;
    CHECK(cache_file_open(&file, test_temporary("a.kv"), &error), "%s", error.message);
    CHECK_INT(file.ids.count, TOKENS);
    CHECK_INT(file.cached, TOKENS - 1);
    for (int i = 0; i < TOKENS; i++)
        CHECK_INT(file.ids.ids[i], 5 + i);
    CHECK(cache_key_equal(&file.key, &KEY, &which), "%s", cache_key_name(which));
    CHECK(file.text.length == 8 && !memcmp(file.text.text, "the text", 8), "%zu", file.text.length);
    CacheKey other = KEY;
    strcpy(other.values[3], "a8");
    CHECK(!cache_key_equal(&file.key, &other, &which), "equal");
    CHECK_STRING(cache_key_name(which), "precision");
    cache_file_close(&file);
    free((void *)content.bytes);
}

static void check_bytes_refused(const char *bytes, size_t size, const char *because) {
    const char *path = test_temporary("refused.kv");
    uint64_t print;
    Error error = {0};
    test_write_file(path, bytes, size);
    CHECK(!read_cache(path, &print, &error), "accepted: %s", because);
    CHECK_INT(error.code, ERROR_FILE);
    CHECK(strstr(error.message, because), "%s, not %s", error.message, because);
    CHECK(!strncmp(error.message, path, strlen(path)), "%s", error.message);
}

Test(cache_file, cut_anywhere_is_refused) {
    Content content = written("b.kv", 5, "");
    for (size_t size = 1; size < content.size; size += 1 + size / 40)
        check_bytes_refused(content.bytes, size, "");
    check_bytes_refused("", 0, "empty");
    char *longer = malloc(content.size + 1);
    memcpy(longer, content.bytes, content.size);
    check_bytes_refused(longer, content.size + 1, "do not make a file of");
    free(longer);
    free((void *)content.bytes);
}

Test(cache_file, one_other_bit_anywhere_is_refused) {
    Content content = written("c.kv", 5, "");
    char *bytes = (char *)content.bytes;
    for (size_t i = 0; i < content.size; i += 1 + i / 50) {
        bytes[i] ^= 1 << i % 8;
        check_bytes_refused(bytes, content.size, "");
        bytes[i] ^= 1 << i % 8;
    }
    free(bytes);
}

// A number of the header set to another, with a checksum that is right again.
static void check_number(Content content, size_t at, int bytes, uint64_t value,
                         const char *because) {
    char *changed = malloc(content.size);
    memcpy(changed, content.bytes, content.size);
    uint64_t header = load_u64(changed + 16);
    memcpy(changed + at, &value, (size_t)bytes);
    uint64_t checksum = fnv1a_wide(changed, header - 8);
    memcpy(changed + header - 8, &checksum, 8);
    check_bytes_refused(changed, content.size, because);
    free(changed);
}

Test(cache_file, every_number_is_checked_before_it_is_used) {
    Content content = written("d.kv", 5, "");
    size_t key = 48, ids = key;
    for (int i = 0; i < CACHE_KEYS; i++)
        ids += 8 + strlen(KEY.values[i]);
    check_number(content, 0, 1, 'L', "no file of limpid's --cache");
    check_number(content, 8, 4, 1, "version 1, wanted 2");
    check_number(content, 8, 4, 0, "version 0, wanted 2");
    check_number(content, 12, 4, 3, "3 parts of");
    check_number(content, 12, 4, 0, "0 parts for 10 cached ids");
    check_number(content, 12, 4, 0xffffffff, "4294967295 parts for");
    check_number(content, 16, 8, 0, "a header of 0 bytes");
    check_number(content, 16, 8, 55, "a header of 55 bytes");
    check_number(content, 16, 8, 56, "the checksum is another");
    check_number(content, 16, 8, content.size + 1, "a header of");
    check_number(content, 16, 8, UINT64_MAX, "a header of 18446744073709551615 bytes");
    check_number(content, 24, 8, 0, "2 parts for 10 cached ids");
    check_number(content, 24, 8, UINT64_MAX, "2 parts of 18446744073709551615 bytes");
    check_number(content, 24, 8, (UINT64_MAX >> 1) - 7, "do not make a file");
    check_number(content, 32, 4, 0xffffffff, "4294967295 ids");
    check_number(content, 32, 4, TOKENS + 1, "truncated");
    check_number(content, 32, 4, TOKENS - 1, "text");
    check_number(content, 36, 4, TOKENS + 1, "11 ids, 12 of them cached");
    check_number(content, 36, 4, TOKENS, "parts of");
    check_number(content, 36, 4, 0, "2 parts for 0 cached ids");
    check_number(content, 40, 4, TOKENS, "a least length of 11 for 10 cached ids");
    check_number(content, 44, 4, 1, "a least length of 0 for 10 cached ids, and 1, wanted 0");
    check_number(content, key, 8, UINT64_MAX, "truncated: limpid");
    check_number(content, key, 8, 200, "truncated");
    check_number(content, key, 8, 6, "backend");
    check_number(content, key + 8, 1, 0, "limpid: a text of 5 bytes");
    check_number(content, ids, 4, 0xffffffff, "4294967295 is no token id");
    check_number(content, ids, 4, LIMIT_VOCAB, "4194304 is no token id");
    check_number(content, ids, 4, (uint64_t)tiny->config.vocab_size, "vocabulary size");
    check_number(content, ids + 4 * TOKENS, 8, 1, "truncated: text");
    free((void *)content.bytes);
}

// The checksums say nothing of a text that ends early, of bytes behind it.
Test(cache_file, bytes_behind_the_text_are_refused) {
    Content content = written("e.kv", 5, "ab");
    uint64_t header = load_u64((const char *)content.bytes + 16);
    check_number(content, header - 8 - 2 - 8, 8, 1, "1 bytes behind the text");
    free((void *)content.bytes);
}

Test(cache_file, rewritten_while_it_is_read_is_one_version_or_an_error) {
    Content first = written("f.kv", 5, "one"), other = written("g.kv", 6, "two");
    char *cut = malloc(other.size);
    memcpy(cut, other.bytes, other.size);
    memset(cut + 40, 0xff, 60);
    Content hostile[] = {other, {other.bytes, other.size / 2}, {cut, other.size}};
    const char *path = test_temporary("f.kv");
    Rewriting rewriting = {.read = read_cache, .path = path, .file = path};
    rewriting_check(&rewriting, hostile, 3);
    rewriting_race(&rewriting, hostile, 3, 0.2);
    free((void *)first.bytes);
    free((void *)other.bytes);
    free(cut);
}
