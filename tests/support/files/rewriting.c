#include "tests/support/files/rewriting.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/mapping.h"
#include "tests/support/tokenizers.h"
#include "tests/test.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

void rewrite_in_place(const char *file, const void *bytes, size_t size) {
    int descriptor = open(file, O_WRONLY | O_CLOEXEC);
    bool good = descriptor >= 0 && pwrite(descriptor, bytes, size, 0) == (ssize_t)size &&
                !ftruncate(descriptor, (off_t)size);
    close(descriptor);
    CHECK(good, "cannot rewrite %s", file);
}

// ---- where the reader is stopped ----

typedef struct Stop {
    bool armed;
    int calls, at;    // the file is rewritten in front of call `at`, from 1
    const char *file; // NULL: `memory` is rewritten
    uint8_t *memory;  // (memory_size)
    size_t memory_size;
    Content content;
    bool unnoticed; // the time of modification stays what it was
} Stop;

static Stop stop;

static void set_time(const char *file) {
    struct timespec long_ago[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
    CHECK(!utimensat(AT_FDCWD, file, long_ago, 0));
}

static void may_stop(void) {
    if (!stop.armed || ++stop.calls != stop.at) return;
    stop.armed = false;
    size_t size = stop.content.size < stop.memory_size ? stop.content.size : stop.memory_size;
    if (!stop.file) {
        memcpy(stop.memory, stop.content.bytes, size);
        return;
    }
    rewrite_in_place(stop.file, stop.content.bytes, stop.content.size);
    if (stop.unnoticed) set_time(stop.file);
}

#define STOP_AT(result, name, parameters, ...)                                                     \
    result __real_##name parameters;                                                               \
    result __wrap_##name parameters;                                                               \
    result __wrap_##name parameters {                                                              \
        may_stop();                                                                                \
        return __real_##name(__VA_ARGS__);                                                         \
    }
STOP_AT(void *, malloc, (size_t size), size)
STOP_AT(void *, calloc, (size_t count, size_t size), count, size)
STOP_AT(void *, realloc, (void *old, size_t size), old, size)
STOP_AT(int, posix_memalign, (void **out, size_t alignment, size_t size), out, alignment, size)
STOP_AT(void *, mmap, (void *at, size_t length, int protection, int flags, int fd, off_t offset),
        at, length, protection, flags, fd, offset)
STOP_AT(ssize_t, pread, (int fd, void *buffer, size_t size, off_t offset), fd, buffer, size, offset)
STOP_AT(int, fstat, (int fd, struct stat *status), fd, status)
STOP_AT(int, close, (int fd), fd)

// ---- what it read ----

typedef struct Outcome {
    bool good;
    uint64_t print;
    Error error;
} Outcome;

static Outcome outcome_of(const Rewriting *r) {
    Outcome o = {0};
    o.good = r->read(r->path, &o.print, &o.error);
    return o;
}

static bool same(const Outcome *a, const Outcome *b) {
    return a->good && b->good && a->print == b->print;
}

// The other content alone.
static Outcome outcome_with(const Rewriting *r, Content content, Content first) {
    rewrite_in_place(r->file, content.bytes, content.size);
    Outcome o = outcome_of(r);
    rewrite_in_place(r->file, first.bytes, first.size);
    return o;
}

// Reads the file and rewrites it in front of call `at`; 0: never. Returns the number of calls.
static int read_stopped(const Rewriting *r, Content content, bool unnoticed, int at,
                        Outcome *outcome) {
    set_time(r->file);
    stop = (Stop){
        .armed = true, .at = at, .file = r->file, .content = content, .unnoticed = unnoticed};
    *outcome = outcome_of(r);
    stop.armed = false;
    return stop.calls;
}

// A file that was cut is an error of reading (exit code 4) that names it, unless it was cut before
// the reader looked at its size: then it is a bad file like any other that ends too early.
static bool tells_cut(const Rewriting *r, const Outcome *got, const Outcome *alone) {
    const char *slash = strrchr(r->file, '/');
    if (got->error.code == ERROR_IO) return strstr(got->error.message, slash ? slash + 1 : r->file);
    return !alone->good && !strcmp(got->error.message, alone->error.message);
}

static void check_content(const Rewriting *r, Content first, Content other, const char *name) {
    // A parser may allocate a thousand times, but what it relies on is counted before.
    enum { FIRST_STOPS = 20, LATER_STOPS = TEST_SANITIZED ? 5 : 20 };
    Outcome whole, got, alone = outcome_with(r, other, first);
    int calls = read_stopped(r, other, false, 0, &whole);
    for (int at = 1; at <= calls; at += at < FIRST_STOPS ? 1 : 1 + calls / LATER_STOPS) {
        for (int unnoticed = 0; unnoticed < 2; unnoticed++) {
            read_stopped(r, other, unnoticed, at, &got);
            rewrite_in_place(r->file, first.bytes, first.size);
            bool refused = !got.good && got.error.message[0] &&
                           (got.error.code == ERROR_FILE || got.error.code == ERROR_IO);
            bool mixed = r->in_steps && unnoticed && got.good;
            bool cut = other.size < first.size && !memcmp(other.bytes, first.bytes, other.size);
            CHECK(!refused || !cut || tells_cut(r, &got, &alone), "%s: cut at call %d of %d: %s",
                  r->path, at, calls, got.error.message);
            CHECK(same(&got, &whole) || same(&got, &alone) || refused || mixed,
                  "%s: rewritten with %s at call %d of %d: a result of neither content, %s",
                  r->path, name, at, calls, got.error.message);
        }
    }
}

// ---- contents ----

enum { GENERAL = 7 };
static const char *const GENERAL_NAMES[GENERAL] = {
    "ones", "zeros", "random", "a byte less", "a cut", "one byte", "all of it twice"};

static Content general_content(Content first, int kind) {
    size_t size = first.size;
    uint8_t *bytes = malloc(2 * size);
    TestRandom random = {kind};
    memcpy(bytes, first.bytes, size);
    memcpy(bytes + size, first.bytes, size);
    if (kind < 2) memset(bytes, kind ? 0 : 0xff, size);
    for (size_t i = 0; kind == 2 && i < size; i++)
        bytes[i] = (uint8_t)test_random(&random);
    if (kind == 3) memmove(bytes, bytes + 1, --size);
    if (kind == 4) size /= 2;
    if (kind == 5) size = 1;
    if (kind == 6) size *= 2;
    return (Content){bytes, size};
}

static Content read_first(const Rewriting *r) {
    Content first;
    first.bytes = test_read_file(r->file, &first.size);
    Outcome whole = outcome_of(r);
    bool absent = strstr(whole.error.message, "this build") ||
                  strstr(whole.error.message, "this program was built without");
    if (absent) SKIP("%s", whole.error.message);
    CHECK(whole.good, "%s", whole.error.message);
    return first;
}

void rewriting_check(const Rewriting *r, const Content *hostile, size_t count) {
    mapping_guard(); // as the program has it
    Content first = read_first(r);
    for (size_t i = 0; i < count; i++)
        check_content(r, first, hostile[i], "another file");
    for (int kind = 0; kind < GENERAL; kind++) {
        Content content = general_content(first, kind);
        check_content(r, first, content, GENERAL_NAMES[kind]);
        free((void *)content.bytes);
    }
    free((void *)first.bytes);
}

// ---- in memory ----

// Returns the number of calls.
static int read_bytes_stopped(ReadBytes *read, Content first, Content other, int at) {
    uint8_t *bytes = malloc(first.size);
    Error error = {0};
    memcpy(bytes, first.bytes, first.size);
    stop = (Stop){
        .armed = true, .at = at, .memory = bytes, .memory_size = first.size, .content = other};
    bool good = read(bytes, first.size, &error);
    stop.armed = false;
    free(bytes);
    if (strstr(error.message, "this build")) SKIP("%s", error.message);
    CHECK(good || (at && error.code == ERROR_FILE && error.message[0]), "%s", error.message);
    return stop.calls;
}

void rewriting_check_bytes(ReadBytes *read, Content first, const Content *hostile, size_t count) {
    for (size_t i = 0; i < count; i++) {
        int calls = read_bytes_stopped(read, first, hostile[i], 0);
        for (int at = 1; at <= calls; at += 1 + at / 50)
            read_bytes_stopped(read, first, hostile[i], at);
    }
}

// ---- a race ----

typedef struct Race {
    const char *file;
    const Content *contents;
    size_t count;
    atomic_bool over;
    atomic_int rewritten;
} Race;

static void *keep_rewriting(void *context) {
    Race *race = context;
    for (size_t i = 0; !atomic_load(&race->over); i++) {
        const Content *content = &race->contents[i % race->count];
        rewrite_in_place(race->file, content->bytes, content->size);
        atomic_fetch_add(&race->rewritten, 1);
    }
    return NULL;
}

void rewriting_race(const Rewriting *r, const Content *hostile, size_t count, double seconds) {
    mapping_guard();
    enum { LEAST_REWRITTEN = 100 };
    Content contents[16], first = read_first(r);
    size_t n = 0;
    CHECK(2 * count + 6 <= 16, "%zu contents", count);
    for (size_t i = 0; i < count; i++) {
        contents[n++] = first; // so that a reader gets as far as to what differs
        contents[n++] = hostile[i];
    }
    for (int kind = 2; kind < 5; kind++) {
        contents[n++] = first;
        contents[n++] = general_content(first, kind);
    }
    Race race = {.file = r->file, .contents = contents, .count = n};
    pthread_t thread;
    CHECK(!pthread_create(&thread, NULL, keep_rewriting, &race));
    int good = 0, refused = 0;
    double end = seconds_now() + seconds;
    while (seconds_now() < end || atomic_load(&race.rewritten) < LEAST_REWRITTEN) {
        Outcome o = outcome_of(r);
        CHECK(o.good || o.error.message[0], "refused without a word");
        good += o.good;
        refused += !o.good;
    }
    atomic_store(&race.over, true);
    pthread_join(thread, NULL);
    fprintf(stderr, "%s: read %d times, refused %d times\n", r->path, good, refused);
    rewrite_in_place(r->file, first.bytes, first.size);
    for (size_t i = 2 * count; i < n; i += 2)
        free((void *)contents[i + 1].bytes);
    free((void *)first.bytes);
}

// ---- prints ----

static uint64_t hash_text(uint64_t hash, TextSpan text) {
    hash = fnv1a(hash, &text.length, sizeof text.length);
    return text.length ? fnv1a(hash, text.text, text.length) : hash;
}

uint64_t print_tokenizer(Tokenizer *t) {
    static const char TEXT[] = "abc ab  a\xc3\xa9\n<s> <|x|> b\xff";
    uint64_t hash = FNV_START;
    Error error = {0};
    IdList ids = {0};
    for (int id = 0; id < tokenizer_size(t); id++) {
        TokenType type = tokenizer_type(t, id);
        size_t length;
        const char *piece = tokenizer_piece(t, id, false, true, &length);
        hash = hash_text(hash_text(hash, tokenizer_spelling(t, id)), (TextSpan){piece, length});
        hash = fnv1a(hash, &type, sizeof type);
    }
    CHECK(tokenizer_encode(t, &ids, TEXT, sizeof TEXT - 1, true, &error), "%s", error.message);
    hash = fnv1a(hash, ids.ids, ids.count * sizeof *ids.ids);
    id_list_free(&ids);
    return hash;
}

bool read_tokenizer(const char *path, uint64_t *print, Error *error) {
    Tokenizer *t = test_open_tokenizer(path, error);
    if (t) *print = print_tokenizer(t);
    tokenizer_close(t);
    return t;
}

static uint64_t hash_config(uint64_t hash, const Config *c) {
    hash = fnv1a(hash, c->family, sizeof c->family);
    hash = fnv1a(hash, c->name, strlen(c->name));
    hash = fnv1a(hash, &c->dim, offsetof(Config, norm) - offsetof(Config, dim));
    hash = fnv1a(hash, &c->norm_eps, sizeof c->norm_eps);
    hash = fnv1a(hash, &c->rope.theta, sizeof c->rope.theta);
    hash = fnv1a(hash, &c->bos_id, sizeof c->bos_id);
    return fnv1a(hash, c->eos_ids, sizeof c->eos_ids);
}

static uint64_t hash_vocabulary(uint64_t hash, const Vocabulary *v) {
    for (size_t i = 0; i < v->n_tokens; i++)
        hash = hash_text(hash, v->tokens[i]);
    for (size_t i = 0; i < v->n_merges; i++)
        hash = hash_text(hash, v->merges[i]);
    if (v->scores) hash = fnv1a(hash, v->scores, v->n_tokens * sizeof *v->scores);
    if (v->types) hash = fnv1a(hash, v->types, v->n_tokens);
    hash = fnv1a(hash, &v->bos_id, sizeof v->bos_id);
    return hash_text(hash, v->chat_template);
}

uint64_t print_checkpoint(const Checkpoint *c) {
    uint64_t hash = hash_config(FNV_START, checkpoint_config(c));
    hash = hash_vocabulary(hash, checkpoint_vocabulary(c));
    for (int i = 0; i < ABOUT_KEYS; i++)
        hash = hash_text(hash, checkpoint_about(c)[i]);
    size_t count;
    const TensorPlan *tensors = checkpoint_tensors(c, &count);
    for (size_t i = 0; i < count; i++) {
        const TensorPlan *t = &tensors[i];
        volatile uint64_t weights = fnv1a(FNV_START, t->data, t->bytes);
        (void)weights;
        hash = hash_text(hash, (TextSpan){t->name, strlen(t->name)});
        hash = fnv1a(hash, &t->dtype, sizeof t->dtype);
        hash = fnv1a(hash, t->shape, sizeof t->shape);
        hash = fnv1a(hash, &t->offset, sizeof t->offset);
    }
    return hash;
}

bool read_checkpoint(const char *path, uint64_t *print, Error *error) {
    Checkpoint *c = NULL;
    if (!checkpoint_open(&c, path, error)) return false;
    *print = print_checkpoint(c);
    checkpoint_close(c);
    return true;
}
