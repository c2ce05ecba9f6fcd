// merge: the files of answers of all shards as one, in the order of the prompts. It is the file
// that one machine would have written.
//
//   one of the files -> its first line says how many there are -> all of them are opened
//   -> the first lines agree -> an answer of each in turn, every id once -> the last lines
//   -> with --out all of it again, into the file
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
#include <sys/resource.h>
#include <unistd.h>

#ifdef WITHOUT_JSON
bool merge_command(const Options *options, Error *error) {
    return error_set(error, ERROR_FILE,
                     "%s: answers are JSON, and this program was built without jansson",
                     options->model ? options->model : "merge");
}
#else

typedef struct Part {
    char *path; // owned
    LineReader reader;
    size_t answers; // so far
} Part;

typedef struct Merge {
    Part *parts; // (count)
    int count;
    Buffer header; // without the shard
    IdSet ids;
    size_t answers, errors;
    uint64_t digest, size;
    FileWriter *out; // NULL: the files are only looked at
    FileSet inputs;
} Merge;

// ---- which files ----

// "answers.2-of-4.jsonl" with another index in the place of 2.
static char *name_of(const char *path, int known, int index, int count, Error *error) {
    char *here = text_print(error, ".%d-of-%d", known, count), *at = NULL, *name = NULL;
    const char *slash = strrchr(path, '/');
    for (char *next = here ? strstr(slash ? slash : path, here) : NULL; next;
         next = strstr(next + 1, here))
        at = next; // the last one
    if (at)
        name = text_print(error, "%.*s.%d-of-%d%s", (int)(at - path), path, index, count,
                          at + strlen(here));
    else if (here)
        error_set(error, ERROR_USAGE,
                  "%s: has shard %d of %d, and no \"%s\" in its name, so the others are not found",
                  path, known, count, here);
    free(here);
    return name;
}

static bool open_part(Part *part, Error *error) {
    part->reader = (LineReader){.file = open(part->path, O_RDONLY | O_CLOEXEC),
                                .most = LIMIT_ANSWER_LINE,
                                .path = part->path};
    part->answers = 0;
    return part->reader.file >= 0 ||
           error_set(error, errno == ENOMEM ? ERROR_MEMORY : ERROR_IO, "%s: cannot open it: %s%s",
                     part->path, strerror(errno), errno == EMFILE ? " (ulimit -n)" : "");
}

static bool read_header(Part *part, Buffer *common, int *index, int *count, Error *error) {
    Line line;
    bool ended = false;
    if (!line_next(&part->reader, &line, &ended, error)) return false;
    if (ended || answers_header_is_cut(&line)) {
        error_set(error, ERROR_FILE, "has no answers yet");
        return error_prefix(error, part->path);
    }
    return answers_read_header(&line, common, index, count, error) ||
           error_prefix(error, part->path);
}

// The file that was named says how many there are.
static bool find_parts(Merge *m, const char *path, int *known, Error *error) {
    Part first = {.path = (char *)path};
    bool good =
        open_part(&first, error) && read_header(&first, &m->header, known, &m->count, error);
    if (first.reader.file >= 0) close(first.reader.file);
    line_reader_free(&first.reader);
    if (!good) return false;
    if (m->count > MOST_SHARDS)
        return error_set(error, ERROR_FILE, "%s: has a shard of %d (at most %d)", path, m->count,
                         (int)MOST_SHARDS);
    m->parts = calloc((size_t)m->count, sizeof *m->parts);
    for (int i = 0; m->parts && i < m->count; i++)
        m->parts[i].reader.file = -1;
    return m->parts || error_set(error, ERROR_MEMORY, "no memory for %d files", m->count);
}

static bool check_part(const Merge *m, int i, Error *error) {
    Buffer common = {0};
    int index = 0, count = 0;
    Part *part = &m->parts[i];
    bool good = read_header(part, &common, &index, &count, error);
    if (good && (index != i || count != m->count))
        good = error_set(error, ERROR_FILE, "%s: has shard %d of %d", part->path, index, count);
    const char *what = NULL;
    if (good &&
        (common.size != m->header.size || memcmp(common.bytes, m->header.bytes, common.size) != 0))
        good = answers_difference(&what, &common, &m->header, error);
    if (good && what)
        good = error_set(error, ERROR_FILE, "%s: is of %s than %s", part->path, what,
                         m->parts[0].path);
    buffer_free(&common);
    return good;
}

static void close_parts(Merge *m) {
    for (int i = 0; m->parts && i < m->count; i++) {
        Part *part = &m->parts[i];
        if (part->reader.file >= 0) close(part->reader.file);
        line_reader_free(&part->reader);
        part->reader.file = -1;
    }
}

// All are open at once, and a process that does not ask may have 1,024 files open. Where it may not
// have as many as it asks for, opening them says so.
static void ask_for_files(int count) {
    enum { OTHERS = 64 }; // standard streams, libraries, the output
    struct rlimit limit;
    rlim_t wanted = (rlim_t)count + OTHERS;
    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= wanted) return;
    limit.rlim_cur = wanted < limit.rlim_max ? wanted : limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

static bool open_parts(Merge *m, const char *path, int known, Error *error) {
    ask_for_files(m->count);
    for (int i = 0; i < m->count; i++) {
        Part *part = &m->parts[i];
        if (!part->path)
            part->path = m->count == 1 ? text_print(error, "%s", path)
                                       : name_of(path, known, i, m->count, error);
        if (!part->path || !open_part(part, error) || !check_part(m, i, error) ||
            !file_set_add(&m->inputs, part->path, error))
            return false;
    }
    return true;
}

// ---- the lines ----

static bool put(Merge *m, const void *bytes, size_t size, Error *error) {
    m->size += size;
    return !m->out || file_writer_put(m->out, m->size - size, bytes, size, error);
}

// An answer: its id is new. Those of lines without one are null.
static bool take_answer(Merge *m, const Part *part, const Line *line, Error *error) {
    AnswerKey key;
    bool is_new = true;
    char place[40];
    snprintf(place, sizeof place, "line %zu", part->reader.line);
    bool good = answer_key(&key, line, error) ||
                (error_prefix(error, place), error_prefix(error, part->path));
    const Buffer *id = &key.id;
    if (good && (id->size != 4 || memcmp(id->bytes, "null", 4) != 0))
        good = id_set_add(&m->ids, id->bytes, id->size, &is_new, error);
    if (good && !is_new)
        good = error_set(error, ERROR_FILE, "%s: line %zu: the id %.*s stands twice", part->path,
                         part->reader.line, id->size < 80 ? (int)id->size : 80,
                         (const char *)id->bytes);
    buffer_free(&key.id);
    m->digest = fnv1a(fnv1a(m->digest, line->bytes, line->length), "\n", 1);
    m->answers++;
    m->errors += key.failed;
    return good && put(m, line->bytes, line->length, error) && put(m, "\n", 1, error);
}

// The last line has the number of answers.
static bool check_end(const Part *part, const Line *line, Error *error) {
    Buffer wanted = {0};
    answers_put_end(&wanted, part->answers);
    bool same = !wanted.failed && wanted.size == line->length + 1 &&
                !memcmp(wanted.bytes, line->bytes, line->length);
    bool good = !wanted.failed || error_set(error, ERROR_MEMORY, "no memory for a line");
    buffer_free(&wanted);
    if (!good || same) return good;
    return error_set(error, ERROR_FILE, "%s: has %zu answers, and its last line counts others",
                     part->path, part->answers);
}

// The next line of a part. *end: its last. A part that stops before that is not complete.
static bool next_answer(Part *part, Line *line, bool *end, Error *error) {
    bool ended = false;
    if (!line_next(&part->reader, line, &ended, error)) return false;
    if (ended || line->cut)
        return error_set(error, ERROR_FILE,
                         "%s: is not complete: start its run again with --resume", part->path);
    *end = answer_is_end(line);
    if (*end) {
        if (!check_end(part, line, error) || !line_next(&part->reader, line, &ended, error))
            return false;
        return ended || error_set(error, ERROR_FILE,
                                  "%s: line %zu: there is more behind the end of the answers",
                                  part->path, part->reader.line);
    }
    part->answers++;
    return true;
}

// One answer of each part in turn. Once one has ended, the others end in this round too.
static bool walk(Merge *m, Error *error) {
    Buffer last = {0};
    m->answers = m->errors = 0;
    m->size = 0;
    m->digest = FNV_START;
    bool good = put(m, m->header.bytes, m->header.size, error), any_end = false;
    for (int i = 0, left = m->count; good && left; i = (i + 1) % m->count) {
        Line line;
        bool end = false;
        good = next_answer(&m->parts[i], &line, &end, error);
        if (good && end) {
            any_end = true;
            left--;
        } else if (good && any_end) {
            good = error_set(error, ERROR_FILE,
                             "%s: has more answers than the parts before it: not of one file of "
                             "prompts",
                             m->parts[i].path);
        } else if (good) {
            good = take_answer(m, &m->parts[i], &line, error);
        }
    }
    answers_put_end(&last, m->answers);
    if (last.failed) good = error_set(error, ERROR_MEMORY, "no memory for a line");
    good = good && put(m, last.bytes, last.size, error);
    buffer_free(&last);
    return good;
}

// ---- the command ----

static bool write_merged(Merge *m, const Options *o, int known, Error *error) {
    OutputFile out = {.path = o->out, .inputs = &m->inputs, .force = o->force};
    if (!o->out) return true;
    close_parts(m);
    id_set_free(&m->ids);
    if (!output_file_check(&out, error)) return false;
    uint64_t size = m->size, digest = m->digest;
    m->out = file_writer_open(&out, size, error);
    if (!m->out || !open_parts(m, o->model, known, error) || !walk(m, error)) return false;
    if (m->size != size || m->digest != digest)
        return error_set(error, ERROR_IO, "the answers changed while they were read");
    return file_writer_finish(m->out, error);
}

static bool merge_all(Merge *m, const Options *o, Error *error) {
    int known = 0;
    if (!o->model)
        return error_set(error, ERROR_USAGE,
                         "merge wants one of the files of answers, such as answers.0-of-4.jsonl");
    if (!find_parts(m, o->model, &known, error) || !open_parts(m, o->model, known, error) ||
        !walk(m, error) || !write_merged(m, o, known, error))
        return false;
    output_print("%zu answer%s, %zu of them errors, from %d file%s; digest %016" PRIx64 "\n",
                 m->answers, m->answers == 1 ? "" : "s", m->errors, m->count,
                 m->count == 1 ? "" : "s", m->digest);
    return true;
}

bool merge_command(const Options *options, Error *error) {
    Merge m = {0};
    bool good = merge_all(&m, options, error);
    file_writer_close(m.out);
    close_parts(&m);
    for (int i = 0; m.parts && i < m.count; i++)
        free(m.parts[i].path);
    free(m.parts);
    file_set_free(&m.inputs);
    buffer_free(&m.header);
    id_set_free(&m.ids);
    return good;
}
#endif
