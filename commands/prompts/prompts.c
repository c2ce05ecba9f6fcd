// generate --prompts: reads lines as the scheduler wants them, and writes answers in their order.
//
//   line -> is it of this shard? -> request -> window, scheduler
//   pass after pass: the requests at the front of the window that are answered -> file
#include "commands/prompts/prompts.h"
#include "base/file_reader.h"
#include "commands/commands.h"
#include "commands/shared/inputs.h"
#include "commands/shared/interrupt.h"
#include "commands/shared/output.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// DEFAULT_PARALLEL: eight texts side by side are 1.4 to 2.5 times as fast as one on two cores; more
// add little and cost a cache each. DEFAULT_SEED: without --seed a file of prompts has this one, so
// that it can be gone on with, and shards of it belong together.
enum { DEFAULT_PARALLEL = 8, DEFAULT_CONTEXT = 4096, DEFAULT_SEED = 1 };

typedef struct Run {
    Session session;
    Options options; // the command line's, with what --prompts fills in
    Shard shard;
    LineReader lines;
    uint64_t size; // of the file of prompts; 0: a pipe
    IdSet ids;
    size_t index; // lines so far, without blank ones
    Answers answers;
    Scheduler *scheduler;
    Request *window[WINDOW]; // a ring: those without an answer in the file, in the order of lines
    size_t first, count;
    bool ended; // the file of prompts
    double started;
    Progress progress;
    char label[64];
} Run;

// ---- options ----

static bool check_options(const Options *o, Error *error) {
    static const OptionId EXCLUDED[] = {
        OPTION_PROMPT,    OPTION_FILE,         OPTION_PROMPT_IDS,  OPTION_STEPS,
        OPTION_IDS,       OPTION_JSON,         OPTION_LOGPROBS,    OPTION_RECORD,
        OPTION_NO_CACHE,  OPTION_ABLATE,       OPTION_PATCH,       OPTION_STEER,
        OPTION_SPECULATE, OPTION_DRAFT,        OPTION_CACHE,       OPTION_CACHE_READ_ONLY,
        OPTION_OVERFLOW,  OPTION_DRAFT_TOKENS, OPTION_KEEP_NEWLINE};
    const char *excluded = options_first_given(o, EXCLUDED, sizeof EXCLUDED / sizeof *EXCLUDED);
    if (excluded) return error_set(error, ERROR_USAGE, "--prompts does not go with --%s", excluded);
    if (o->mode == MODE_CHAT || o->color == COLOR_SURPRISE)
        return error_set(error, ERROR_USAGE, "--prompts does not go with %s",
                         o->mode == MODE_CHAT ? "-m chat: a line has \"messages\""
                                              : "--color surprise");
    if (!o->out)
        return error_set(error, ERROR_USAGE, "--prompts FILE wants --out FILE for the answers");
    if (o->chat_template && !chat_template_by_name(o->chat_template))
        return error_set(error, ERROR_USAGE, "--template: got \"%.20s\", wanted one of %s",
                         o->chat_template, chat_template_names());
    return !o->resume || !o->force ||
           error_set(error, ERROR_USAGE, "--resume keeps what --force replaces: give one of them");
}

static bool open_lines(Run *run, Error *error) {
    const char *path = run->options.prompts;
    bool is_stdin = !strcmp(path, "-");
    struct stat status;
    run->lines =
        (LineReader){.most = LIMIT_PROMPT_LINE, .path = is_stdin ? "standard input" : path};
    run->lines.file = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (run->lines.file < 0 || fstat(run->lines.file, &status))
        return file_cannot(error, "open it") || error_prefix(error, run->lines.path);
    errno = EISDIR;
    if (S_ISDIR(status.st_mode))
        return file_cannot(error, "read it") || error_prefix(error, run->lines.path);
    run->size = S_ISREG(status.st_mode) ? (uint64_t)status.st_size : 0;
    return true;
}

// ---- how many side by side ----

static double cache_bytes(const Session *s, int n) {
    const Config *c = s->config;
    KvShape shape = {.n_layers = c->n_layers,
                     .n_sequences = n,
                     .n_kv_heads = c->n_kv_heads,
                     .head_dim = c->head_dim,
                     .max_seq_len = (int)s->options->context,
                     .type = (KvType)s->options->kv};
    return (double)kv_bytes(&shape);
}

// By --parallel, else eight, or fewer where their caches would take more than a quarter of the
// machine's memory. False: exit code 5, where even those that were asked for would take all of it.
static bool choose_parallel(const Session *s, int *n, Error *error) {
    bool given = option_given(s->options, OPTION_PARALLEL);
    double memory = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    *n = given ? (int)s->options->parallel : DEFAULT_PARALLEL;
    while (!given && *n > 1 && cache_bytes(s, *n) > memory / 4)
        --*n;
    double bytes = cache_bytes(s, *n);
    if (bytes < memory) return true;
    return error_set(error, ERROR_MEMORY,
                     "the caches of %d texts with a context of %d take %.0f MB, this machine has "
                     "%.0f MB (--parallel, -c)",
                     *n, (int)s->options->context, bytes / 1e6, memory / 1e6);
}

// The options are those of the session, and of every line that does not say otherwise.
static void fill_in(Run *run) {
    Options *o = &run->options;
    int most = run->session.config->max_seq_len;
    if (!option_given(o, OPTION_CONTEXT))
        o->context = most < DEFAULT_CONTEXT ? most : DEFAULT_CONTEXT;
    if (!option_given(o, OPTION_SEED)) o->seed = DEFAULT_SEED;
    o->given[OPTION_CONTEXT] = o->given[OPTION_SEED] = true;
}

static bool check_input(const Run *run, Error *error) {
    const Shard *shard = &run->shard;
    if (shard->launched < 2 || strcmp(run->options.prompts, "-") != 0) return true;
    return error_set(error, ERROR_USAGE,
                     "--prompts -: mpirun gives standard input to one of its %d processes: name a "
                     "file",
                     shard->launched);
}

static bool open_run(Run *run, Error *error) {
    Session *s = &run->session;
    const Options *o = &run->options;
    int n = 0;
    if (!sampling_check(o, error) || !shard_find(&run->shard, o, error) ||
        !check_input(run, error) || !open_lines(run, error) || !session_open(s, o, error) ||
        !session_check_context(s, error))
        return false;
    session_note_split(s);
    fill_in(run);
    if (!session_open_grammar(s, error)) return false;
    if (!choose_parallel(s, &n, error) || !answers_open(&run->answers, s, &run->shard, error))
        return false;
    SessionModel wanted = {.context = (int)o->context,
                           .full_cache = true, // beginnings of any length are shared
                           .n_sequences = n,
                           .max_rows = n + PROMPT_ROWS,
                           .max_logit_rows = n + SCORE_ROWS};
    if (!session_open_model(s, &wanted, error)) return false;
    run->scheduler = scheduler_open(s, n, error);
    return run->scheduler && answers_begin(&run->answers, s, &run->shard, error);
}

// ---- lines ----

// The next line that says something. *ended: there is none.
static bool next_line(Run *run, Line *line, bool *ended, Error *error) {
    do
        if (!line_next(&run->lines, line, ended, error)) return false;
    while (!*ended && line_is_blank(line));
    run->index += !*ended;
    return true;
}

static bool is_ours(const Run *run) {
    return (run->index - 1) % (size_t)run->shard.count == (size_t)run->shard.index;
}

// The next line of this shard. The ids of the others count too: no id stands twice.
static bool next_own_line(Run *run, Line *line, bool *ended, Error *error) {
    for (;;) {
        Buffer id = {0};
        if (!next_line(run, line, ended, error)) return false;
        if (*ended || is_ours(run)) return true;
        bool good = request_id(&id, line, run->lines.line, &run->ids, error);
        buffer_free(&id);
        if (!good) return false;
    }
}

// The next line is the one that this answer is of: its id, and every byte of it.
static bool check_kept(Run *run, const AnswerKey *kept, Error *error) {
    Buffer id = {0};
    Line line;
    char hash[FNV_HEX] = "";
    bool ended = false;
    int shown = kept->id.size < 80 ? (int)kept->id.size : 80;
    if (!next_own_line(run, &line, &ended, error)) return false;
    if (!ended) line_hash(hash, &line);
    bool good = ended || request_id(&id, &line, run->lines.line, &run->ids, error);
    bool same = !ended && id.size == kept->id.size && !memcmp(id.bytes, kept->id.bytes, id.size);
    buffer_free(&id);
    if (good && !same)
        return error_set(error, ERROR_FILE,
                         "%s: answer %zu has the id %.*s, and %s %s there: other prompts",
                         run->answers.path, run->answers.count, shown, (const char *)kept->id.bytes,
                         run->lines.path, ended ? "has no line" : "has another id");
    if (good && strcmp(hash, kept->line_hash) != 0)
        return error_set(error, ERROR_FILE,
                         "%s: the prompt with the id %.*s is not the one that was answered "
                         "(line %zu of %s was edited; --force begins anew)",
                         run->answers.path, shown, (const char *)kept->id.bytes, run->lines.line,
                         run->lines.path);
    return good;
}

// --resume: passes over the lines that have their answers.
static bool pass_kept(Run *run, Error *error) {
    bool there = true, good = true;
    while (good && there && !interrupt_asked()) {
        AnswerKey kept = {0};
        good = answers_next_kept(&run->answers, &kept, &there, error) &&
               (!there || check_kept(run, &kept, error));
        buffer_free(&kept.id);
    }
    return good;
}

// Some vocabularies make a long line take a minute to encode: meanwhile Ctrl-C ends the program at
// once. The file has whole answers at any moment.
static bool read_request(Run *run, Error *error) {
    enum { LONG_LINE = 256 << 10 };
    Line line;
    if (!next_own_line(run, &line, &run->ended, error)) return false;
    if (run->ended) return true;
    bool is_long = line.length > LONG_LINE && !interrupt_asked();
    if (is_long) interrupt_end();
    Request *r = request_read(&line, run->lines.line, &run->session, &run->ids, error);
    if (is_long) interrupt_begin();
    if (!r) return false;
    run->window[(run->first + run->count++) % WINDOW] = r;
    if (!r->error.code) scheduler_add(run->scheduler, r);
    return true;
}

// ---- answers ----

static bool is_answered(const Request *r) {
    return r->error.code ? r->begun == r->ended && (!r->begun || r->begun == r->n_samples)
                         : r->ended == r->n_samples;
}

static bool write_answers(Run *run, Error *error) {
    while (run->count && is_answered(run->window[run->first])) {
        Request *r = run->window[run->first];
        if (!answers_put(&run->answers, &run->session, r, error)) return false;
        request_free(r);
        run->first = (run->first + 1) % WINDOW;
        run->count--;
    }
    return true;
}

static void show_progress(Run *run) {
    SchedulerCounts counts = scheduler_counts(run->scheduler);
    double seconds = seconds_now() - run->started;
    if (seconds > 0)
        snprintf(run->label, sizeof run->label, "%zu answers, %.0f tokens/s", run->answers.count,
                 (double)counts.new_tokens / seconds);
    if (run->size) progress_update(&run->progress, (double)run->lines.read / (double)run->size);
}

static bool answer_all(Run *run, Error *error) {
    for (;;) {
        // A pipe may give its next line when it has the answer to this one.
        while (!run->ended && run->count < WINDOW && scheduler_wants(run->scheduler) &&
               !interrupt_asked() && (!run->count || line_is_ready(&run->lines)))
            if (!read_request(run, error) || !write_answers(run, error)) return false;
        if (interrupt_asked()) return error_set(error, ERROR_INTERRUPTED, "interrupted");
        if (run->ended && !run->count) return true;
        if (!scheduler_step(run->scheduler, error) || !write_answers(run, error)) return false;
        show_progress(run);
    }
}

// ---- the end ----

static void print_summary(const Run *run) {
    SchedulerCounts c = scheduler_counts(run->scheduler);
    double seconds = seconds_now() - run->started;
    const Answers *a = &run->answers;
    note("answers %zu, errors %zu; prompts %" PRIu64 " tokens, %" PRIu64 " shared; text %" PRIu64
         ", %.0f/s; %.1f MB; digest %016" PRIx64 "%s",
         a->count, a->errors, c.prompt_tokens, c.shared_tokens, c.new_tokens,
         seconds > 0 ? (double)c.new_tokens / seconds : 0, (double)peak_memory_bytes() / 1e6,
         a->digest, build_remark());
}

static bool answer_file(Run *run, Error *error) {
    const Options *o = &run->options;
    if (!open_run(run, error)) return false;
    if (run->shard.count > 1 && !o->quiet)
        note("shard %d of %d (%s) to %s", run->shard.index, run->shard.count, run->shard.source,
             run->answers.path);
    interrupt_begin();
    run->started = seconds_now();
    if (!pass_kept(run, error)) return false;
    if (run->answers.count && !o->quiet)
        note("answers that are there: %zu; going on behind them", run->answers.count);
    progress_begin(&run->progress, run->label, o->quiet);
    bool good = answer_all(run, error);
    progress_end(&run->progress);
    good = good && answers_finish(&run->answers, error);
    if (good && !o->quiet) print_summary(run);
    if (!good && run->answers.count && !o->quiet)
        note("answers in %s: %zu; --resume goes on", run->answers.path, run->answers.count);
    return good;
}

bool prompts_command(const Options *options, Error *error) {
    if (!check_options(options, error)) return false;
    sampling_note(options);
    Run *run = calloc(1, sizeof *run);
    if (!run) return error_set(error, ERROR_MEMORY, "no memory for the prompts");
    run->options = *options;
    run->answers.file = run->lines.file = -1;
    bool good = answer_file(run, error);
    interrupt_end();
    scheduler_close(run->scheduler);
    for (size_t i = 0; i < run->count; i++)
        request_free(run->window[(run->first + i) % WINDOW]);
    answers_close(&run->answers);
    line_reader_free(&run->lines);
    if (run->lines.file > STDIN_FILENO) close(run->lines.file);
    id_set_free(&run->ids);
    session_close(&run->session);
    free(run);
    return good;
}
