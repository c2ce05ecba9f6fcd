// The file of answers. It grows by whole lines, so that whatever ends a run leaves a file whose
// whole lines are answers: --resume drops what is behind the last newline and goes on from there.
// The answers have the order of the prompts, so the file is the same for any --parallel, and what
// is missing is its end.
#include "base/json.h"
#include "base/text.h"
#include "commands/commands.h"
#include "commands/prompts/prompts.h"
#include "commands/shared/inputs.h"
#include "commands/shared/output.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const double SYNC_SECONDS = 5;
static const char SHARD_KEY[] = ",\"shard\":\"";
static const char BEGINNING[] = "{\"limpid\":\"limpid-answers";
static const char END_KEY[] = "{\"end\":true,";

static bool fail(const Answers *a, Error *error) {
    return error_set(error, errno == ENOMEM ? ERROR_MEMORY : ERROR_IO, "%s: %s", a->path,
                     strerror(errno));
}

static bool no_memory(const Answers *a, Error *error) {
    return error_set(error, ERROR_MEMORY, "%s: no memory for a line", a->path);
}

// ---- the first line ----

static void put_text_key(Buffer *b, const char *key, const char *text) {
    if (!text) return;
    buffer_print(b, ",\"%s\":", key);
    buffer_quote(b, text, strlen(text));
}

static const char *chat_format_name(const Session *s) {
    const ChatTemplate *found = chat_format(s->checkpoint, s->tokenizer);
    if (s->options->chat_template) return s->options->chat_template;
    return found ? chat_template_name(found) : NULL;
}

// The tokens' texts, and which of them begin and end a text.
static uint64_t vocabulary_digest(const Session *s) {
    const limpid_model *m = s->file;
    uint64_t digest = fnv1a(FNV_START, m->stops, m->n_stops * sizeof *m->stops);
    if (!s->tokenizer) return digest;
    const uint64_t of_tokenizer = tokenizer_digest(s->tokenizer);
    const int begins[] = {tokenizer_bos(s->tokenizer), tokenizer_adds_bos(s->tokenizer)};
    return fnv1a(fnv1a(digest, &of_tokenizer, sizeof of_tokenizer), begins, sizeof begins);
}

// Whether all of it is UTF-8; adds its bytes to the hash.
static bool hash_text(uint64_t *hash, const char *text) {
    size_t length = text ? strlen(text) : 0, at = 0;
    uint32_t character;
    if (text) *hash = fnv1a(*hash, text, length + 1);
    for (size_t n = 1; at < length && n; at += n)
        n = utf8_decode(text + at, length - at, &character);
    return at >= length;
}

// Where a text of the options is not UTF-8, JSON has U+FFFD in its place: their hash tells them
// apart.
static void put_texts_hash(Buffer *b, const Options *o) {
    const TextList *const lists[] = {&o->stops, &o->dry_breakers};
    uint64_t hash = FNV_START;
    bool good = hash_text(&hash, o->system);
    for (int l = 0; l < 2; l++)
        for (int i = 0; i < lists[l]->count; i++)
            good &= hash_text(&hash, lists[l]->texts[i]);
    if (!good) buffer_print(b, ",\"texts\":\"%016" PRIx64 "\"", hash);
}

// What decides the answers: all but the number of threads and of texts side by side. Of files their
// content: they may be edited, or lie elsewhere on another machine. The backend is known once the
// model is open, and left out before.
static bool make_header(Answers *a, const Session *s, const Shard *shard, Error *error) {
    static const OptionId WITHOUT[] = {OPTION_THREADS, OPTION_TOKENIZER, OPTION_COUNT};
    char backend[BACKEND_NAME];
    Buffer *b = &a->header;
    b->size = 0;
    buffer_print(b, "{\"limpid\":\"%s\",\"version\":\"%s\",\"model\":\"%s\"", ANSWERS_FORMAT,
                 LIMPID_VERSION, a->model);
    buffer_print(b, ",\"vocabulary\":\"%016" PRIx64 "\"", vocabulary_digest(s));
    if (s->model) {
        session_backend(backend, s);
        put_text_key(b, "backend", backend);
    }
    buffer_print(b, ",\"options\":");
    recording_put_options(b, s->options, WITHOUT);
    put_text_key(b, "system", s->options->system);
    put_text_key(b, "template", chat_format_name(s));
    put_texts_hash(b, s->options);
    if (s->grammar)
        buffer_print(b, ",\"%s\":\"%016" PRIx64 "\"",
                     s->options->grammar ? "grammar" : "json_schema", s->grammar_digest);
    if (shard->count > 1) buffer_print(b, "%s%d/%d\"", SHARD_KEY, shard->index, shard->count);
    buffer_print(b, "}\n");
    return !b->failed || no_memory(a, error);
}

bool answers_header_is_cut(const Line *line) {
    size_t most = sizeof BEGINNING - 1, length = line->length < most ? line->length : most;
    return line->cut && !line->too_long && !memcmp(line->bytes, BEGINNING, length);
}

// Files of earlier versions are none that this one goes on with, but no broken ones either.
static bool refuse_format(const char *format, Error *error) {
    size_t name = strcspn(ANSWERS_FORMAT, " ");
    if (format && !strncmp(format, ANSWERS_FORMAT, name + 1) && strlen(format) < 40)
        return error_set(error, ERROR_FILE, "has answers of another version of limpid (%s)",
                         format);
    return error_set(error, ERROR_FILE, "is not a file of answers (%s)", ANSWERS_FORMAT);
}

bool answers_read_header(const Line *line, Buffer *common, int *index, int *count, Error *error) {
    static const JsonLimits LIMITS = {.bytes = 1 << 20, .values = 1 << 12};
    Error cause = {0};
    json_t *root = json_parse(line->bytes, line->length, &LIMITS, &cause);
    const char *format = json_string_value(json_object_get(root, "limpid"));
    const char *shard = json_string_value(json_object_get(root, "shard"));
    bool is_ours = root && format && !strcmp(format, ANSWERS_FORMAT), good = is_ours;
    size_t length = line->length;
    // Of "\r\n" the line still has one byte, and the digests of all lines are others.
    bool is_changed = is_ours && line->bytes[length - 1] != '}';
    if (is_changed)
        good = error_set(&cause, ERROR_FILE,
                         "its lines do not end as they were written: have they become \"\\r\\n\"?");
    *index = 0;
    *count = 1;
    if (good && shard) {
        // The text is the writer's, so that the key stands at the end.
        uint64_t i = 0, n = 0;
        size_t digits = decimal_take(shard, strlen(shard), &i), behind = strlen(shard) + 2;
        size_t key = sizeof SHARD_KEY - 1;
        good = digits && shard[digits] == '/' && parse_unsigned(&n, shard + digits + 1) && i < n &&
               n <= INT32_MAX && length > key + behind &&
               !memcmp(line->bytes + length - behind - key, SHARD_KEY, key);
        *index = (int)i;
        *count = (int)n;
        length -= good ? behind + key : 0;
    } else if (good) {
        length--; // the bracket
    }
    if (cause.code == ERROR_MEMORY || is_changed)
        error_copy(error, &cause);
    else if (!good)
        refuse_format(format, error);
    json_decref(root);
    if (!good) return false;
    buffer_put(common, line->bytes, length);
    buffer_print(common, "}\n");
    return !common->failed || error_set(error, ERROR_MEMORY, "no memory for a line");
}

bool answers_difference(const char **what, const Buffer *a, const Buffer *b, Error *error) {
    static const JsonLimits LIMITS = {.bytes = 1 << 20, .values = 1 << 12};
    static const struct {
        const char *key, *what;
    } KEYS[] = {{"version", "another version of limpid"},
                {"model", "another model"},
                {"vocabulary", "another vocabulary"},
                {"options", "other options"},
                {"system", "another system message"},
                {"template", "another chat format"},
                {"grammar", "another grammar"},
                {"json_schema", "another JSON schema"},
                {"backend", "another backend"}};
    json_t *first = json_parse((const char *)a->bytes, a->size, &LIMITS, error);
    json_t *second = first ? json_parse((const char *)b->bytes, b->size, &LIMITS, error) : NULL;
    *what = NULL;
    for (size_t i = 0; i < sizeof KEYS / sizeof *KEYS && second && !*what; i++) {
        const json_t *x = json_object_get(first, KEYS[i].key);
        const json_t *y = json_object_get(second, KEYS[i].key);
        // json_equal of two that are absent is false.
        if (x != y && !json_equal(x, y)) *what = KEYS[i].what;
    }
    bool good = second;
    if (good && !*what) *what = "other options";
    json_decref(first);
    json_decref(second);
    return good;
}

// The first line of the file that is there is the one that this run would write. Before the model
// is open its backend is not known, and passed over.
static bool check_header(const Answers *a, const Line *there, bool is_open, Error *error) {
    Buffer theirs = {0}, ours = {0};
    int index[2], count[2];
    Line own = {.bytes = (const char *)a->header.bytes, .length = a->header.size - 1};
    bool good = answers_read_header(there, &theirs, &index[0], &count[0], error) &&
                answers_read_header(&own, &ours, &index[1], &count[1], error);
    if (good && (index[0] != index[1] || count[0] != count[1]))
        good = error_set(error, ERROR_FILE, "has shard %d of %d, this run is %d of %d", index[0],
                         count[0], index[1], count[1]);
    bool same = good && ours.size == theirs.size && !memcmp(ours.bytes, theirs.bytes, ours.size);
    const char *what = NULL;
    if (good && !same) good = answers_difference(&what, &ours, &theirs, error);
    if (good && what && (is_open || strcmp(what, "another backend") != 0))
        good = error_set(error, ERROR_FILE, "the answers there are of %s", what);
    buffer_free(&theirs);
    buffer_free(&ours);
    return good || error_prefix(error, a->path);
}

// ---- opening ----

// What --force begins anew, with the first line in it.
static bool replace_old(Answers *a, Error *error) {
    OutputFile out = {.path = a->path, .inputs = &a->inputs, .force = true};
    a->replaces = false;
    a->size = a->header.size;
    return locked_file_replace(&out, a->header.bytes, a->header.size, &a->file, error);
}

// A line of its own: nothing of it stays where it could not be written whole.
static bool append(Answers *a, const Buffer *line, Error *error) {
    if (line->failed) return no_memory(a, error);
    if (a->replaces && !replace_old(a, error)) return false;
    if (!write_whole(a->file, line->bytes, line->size)) {
        fail(a, error);
        if (ftruncate(a->file, (off_t)a->size)) errno = 0;
        return false;
    }
    a->size += line->size;
    return true;
}

static bool cut_to_size(Answers *a, Error *error) {
    a->keeping = false;
    line_reader_free(&a->kept);
    return !ftruncate(a->file, (off_t)a->size) || fail(a, error);
}

// Moves *line behind as much of `text` as it has. False: it has something else there.
static bool pass(Line *line, const char *text, size_t length) {
    size_t most = line->length < length ? line->length : length;
    if (memcmp(line->bytes, text, most) != 0) return false;
    line->bytes += most;
    line->length -= most;
    return true;
}

// Whether a run like this one began it and was killed: as far as it goes, the line is what this one
// would write. Of that the backend's name alone is not known yet, and left out of the header.
static bool is_begun(const Answers *a, Line line) {
    static const char BACKEND[] = ",\"backend\":\"", OPTIONS[] = ",\"options\":";
    const char *header = (const char *)a->header.bytes;
    const char *rest = memmem(header, a->header.size, OPTIONS, sizeof OPTIONS - 1);
    size_t least = strcspn(BEGINNING, ":");
    if (!rest || !answers_header_is_cut(&line) || line.length <= least ||
        !pass(&line, header, (size_t)(rest - header)) || !pass(&line, BACKEND, sizeof BACKEND - 1))
        return false;
    const char *end = memchr(line.bytes, '"', line.length);
    size_t name = end ? (size_t)(end - line.bytes) : line.length;
    line.bytes += name;
    line.length -= name;
    return name < BACKEND_NAME && pass(&line, "\"", 1) &&
           pass(&line, rest, a->header.size - (size_t)(rest - header)) && !line.length;
}

// The first line of what is there, or a new file where there is none. A first line without its
// newline is dropped only where a run of ours began it: the file may be anybody's.
static bool read_kept(Answers *a, Error *error) {
    Line line;
    bool ended = false;
    a->kept = (LineReader){.file = a->file, .most = LIMIT_ANSWER_LINE, .path = a->path};
    if (!line_next(&a->kept, &line, &ended, error)) return false;
    if (ended || is_begun(a, line)) return true;
    if (line.cut && !line.too_long)
        return error_set(
            error, ERROR_FILE,
            "%s: is not a file of answers that this run goes on with: its one line has no "
            "end; --force begins anew",
            a->path);
    a->keeping = true;
    if (!check_header(a, &line, false, error)) return false;
    a->size = a->kept.read;
    buffer_put(&a->there, line.bytes, line.length);
    return !a->there.failed || no_memory(a, error);
}

// What a run leaves that was ended while it loaded its model.
static bool is_empty(const char *path) {
    struct stat status;
    return !stat(path, &status) && S_ISREG(status.st_mode) && !status.st_size;
}

static bool open_file(Answers *a, const Options *o, Error *error) {
    OutputFile out = {.path = a->path,
                      .inputs = &a->inputs,
                      .force = o->force || o->resume || is_empty(a->path),
                      .grows = o->resume};
    if (!inputs_find(&a->inputs, o, error) || !inputs_check(&out, o, error) ||
        !locked_file_open(a->path, O_RDWR | O_APPEND, out.force, &a->file, &a->made, error))
        return false;
    a->replaces = !a->made && !o->resume;
    return true;
}

bool answers_open(Answers *a, const Session *s, const Shard *shard, Error *error) {
    const Options *o = s->options;
    *a = (Answers){.file = -1, .digest = FNV_START, .synced = seconds_now()};
    a->path = shard_path(o->out, shard->index, shard->count, error);
    return a->path && model_digest(a->model, s, error) && make_header(a, s, shard, error) &&
           open_file(a, o, error) && (!o->resume || read_kept(a, error));
}

bool answers_begin(Answers *a, const Session *s, const Shard *shard, Error *error) {
    const Line there = {.bytes = (const char *)a->there.bytes, .length = a->there.size};
    if (!make_header(a, s, shard, error)) return false;
    if (a->keeping) return check_header(a, &there, true, error);
    if (a->replaces) return true; // with the first answer
    return cut_to_size(a, error) && append(a, &a->header, error);
}

bool answers_next_kept(Answers *a, AnswerKey *key, bool *there, Error *error) {
    Line line;
    bool ended = false;
    *there = false;
    if (!a->keeping) return true;
    if (!line_next(&a->kept, &line, &ended, error)) return false;
    if (answer_is_end(&line)) {
        size_t at = a->kept.line;
        if (!line_next(&a->kept, &line, &ended, error)) return false;
        if (!ended)
            return error_set(error, ERROR_FILE,
                             "%s: line %zu: there is more behind the end of the answers; --force "
                             "begins anew",
                             a->path, at + 1);
    }
    if (ended || line.cut) return cut_to_size(a, error);
    Error cause = {0};
    if (!answer_key(key, &line, &cause)) {
        // No run that was ended leaves such a line, so nobody knows what else is damaged.
        const char *advice = "; cut the file in front of this line, or --force begins anew";
        return error_set(error, cause.code, "%s: line %zu: %s%s", a->path, a->kept.line,
                         cause.message, cause.code == ERROR_FILE ? advice : "");
    }
    // The digest is over the lines with their newlines.
    a->digest = fnv1a(fnv1a(a->digest, line.bytes, line.length), "\n", 1);
    a->size = a->kept.read;
    a->count++;
    a->errors += key->failed;
    *there = true;
    return true;
}

// ---- answers ----

static void put_text(JsonWriter *w, const Session *s, const Sample *sample) {
    char hash[FNV_HEX];
    snprintf(hash, sizeof hash, "%016" PRIx64, sample->logits_hash);
    if (s->tokenizer)
        writer_text(w, "text", sample->text.size ? (const char *)sample->text.bytes : "",
                    sample->text.size);
    else
        writer_string(w, "text", NULL);
    writer_ids(w, "ids", sample->ids.ids, sample->ids.count);
    writer_string(w, "stop", stop_reason_name(sample->stop));
    writer_number(w, "logprob", sample->logprob);
    writer_string(w, "logits_hash", hash);
}

static void put_score(JsonWriter *w, const Sample *sample) {
    char hash[FNV_HEX];
    snprintf(hash, sizeof hash, "%016" PRIx64, sample->logits_hash);
    writer_ids(w, "ids", sample->ids.ids, sample->ids.count);
    writer_number(w, "logprob", sample->logprob);
    writer_begin(w, "logprobs", '[');
    for (size_t i = 0; i < sample->ids.count; i++)
        writer_number(w, NULL, sample->logprobs[i]);
    writer_end(w, ']');
    writer_bool(w, "greedy", sample->greedy);
    writer_string(w, "logits_hash", hash);
}

static void put_samples(JsonWriter *w, const Session *s, const Request *r) {
    writer_begin(w, "samples", '[');
    for (size_t i = 0; i < r->n_samples; i++) {
        char seed[24];
        snprintf(seed, sizeof seed, "%" PRIu64, r->samples[i].seed);
        writer_begin(w, NULL, '{');
        writer_string(w, "seed", seed);
        put_text(w, s, &r->samples[i]);
        writer_end(w, '}');
    }
    writer_end(w, ']');
}

static void put_answer(Buffer *line, const Session *s, const Request *r) {
    JsonWriter w = {.out = line, .comma = true};
    buffer_print(line, "{\"id\":");
    buffer_put(line, r->id.bytes, r->id.size);
    if (r->error.code) {
        writer_integer(&w, "line", (int64_t)r->line);
        writer_string(&w, "error", r->error.message);
    } else if (r->scores) {
        put_score(&w, &r->samples[0]);
    } else if (r->has_samples) {
        put_samples(&w, s, r);
    } else {
        put_text(&w, s, &r->samples[0]);
    }
    if (!r->error.code) writer_integer(&w, "prompt_tokens", (int64_t)r->prompt);
    writer_string(&w, "line_hash", r->line_hash);
    buffer_print(line, "}\n");
}

static bool sync_file(Answers *a, Error *error) {
    a->synced = seconds_now();
    // What cannot be synced is a device or a pipe that the user named.
    return !fdatasync(a->file) || errno == EINVAL || errno == EROFS || fail(a, error);
}

bool answers_put(Answers *a, const Session *s, const Request *r, Error *error) {
    a->line.size = 0;
    put_answer(&a->line, s, r);
    if (!append(a, &a->line, error)) return false;
    a->digest = fnv1a(a->digest, a->line.bytes, a->line.size);
    a->count++;
    a->errors += r->error.code != 0;
    return seconds_now() - a->synced < SYNC_SECONDS || sync_file(a, error);
}

// ---- the end ----

bool answer_is_end(const Line *line) {
    return line->length >= sizeof END_KEY - 1 && !memcmp(line->bytes, END_KEY, sizeof END_KEY - 1);
}

void answers_put_end(Buffer *line, size_t count) {
    buffer_print(line, "%s\"answers\":%zu}\n", END_KEY, count);
}

bool answers_finish(Answers *a, Error *error) {
    a->line.size = 0;
    answers_put_end(&a->line, a->count);
    if (!append(a, &a->line, error) || !sync_file(a, error)) return false;
    return locked_file_is_at(a->path, a->file) ||
           error_set(error, ERROR_IO,
                     "%s: no longer leads to the answers: the file was moved, replaced or removed "
                     "meanwhile",
                     a->path);
}

void answers_close(Answers *a) {
    struct stat status;
    // The run could not begin.
    if (a->made && !a->size && locked_file_is_at(a->path, a->file) && !fstat(a->file, &status) &&
        !status.st_size)
        unlink(a->path);
    if (a->file >= 0) close(a->file);
    line_reader_free(&a->kept);
    file_set_free(&a->inputs);
    buffer_free(&a->header);
    buffer_free(&a->there);
    buffer_free(&a->line);
    free(a->path);
    *a = (Answers){.file = -1};
}
