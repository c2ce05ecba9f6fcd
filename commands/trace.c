// trace: writes every stage of every layer of a run to a file, named as in the Hugging Face model.
//
//   options -> prompt ids -> model -> list the tensors (a pass of one token) -> begin the file
//     -> feed the prompt in chunks; a listener writes each stage -> generate, feed -> finish
//
// The layout of the file is fixed before the first pass, since the number of tokens is known. So
// each row of each stage has its place, and nothing is kept in memory but one chunk.
#include "commands/commands.h"
#include "commands/shared/inputs.h"
#include "commands/shared/interrupt.h"
#include "commands/shared/logprobs.h"
#include "commands/shared/output.h"
#include "commands/shared/prompt.h"
#include "commands/trace/file.h"

#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

// Rows per forward pass: their logits and attention weights are held in memory.
static int chunk_rows(const Config *c, size_t n_tokens) {
    size_t weights = (size_t)c->n_heads * n_tokens, width = (size_t)c->vocab_size;
    return session_rows(n_tokens, weights > width ? weights : width);
}

// Before anything is opened: false with exit code 2, 4 or 5.
static bool check_out(const OutputFile *out, const Options *options, Error *error) {
    if (!out->path)
        return error_set(error, ERROR_USAGE, "--out FILE is needed: where to write the trace");
    return inputs_check(out, options, error);
}

// *n_tokens: prompt and generated tokens. All are fed, the last generated one too, so that each has
// its rows in the file.
static bool check_length(const Session *s, size_t n_prompt, size_t *n_tokens, Error *error) {
    size_t room = (size_t)config_longest_context(s->config), more = (size_t)s->options->new_tokens;
    *n_tokens = n_prompt + more;
    if (n_prompt <= room && more <= room - n_prompt) return true;
    return error_set(
        error, ERROR_USAGE,
        "the prompt has %zu tokens and %zu are to be generated, the model's context is %zu",
        n_prompt, more, room);
}

typedef struct Run {
    TraceFile *file;
    Progress progress;
    Error nonfinite; // the first ERROR_NONFINITE of the model
} Run;

// Runs one batch. Values that are not finite do not stop a trace, since it shows where they come
// from: the error is kept and reported at the end.
static bool run_chunk(Run *run, const Batch *batch, Error *error) {
    TraceFile *f = run->file;
    Error cause = {0};
    bool good = session_forward(f->session, batch, &cause);
    if (!good && cause.code != ERROR_NONFINITE) return error_copy(error, &cause);
    if (!good) error_copy(&run->nonfinite, &cause);
    if (f->failure.code) return error_copy(error, &f->failure);
    if (interrupt_asked()) return error_set(error, ERROR_INTERRUPTED, "interrupted");
    return true;
}

// Feeds tokens[begin .. count).
static bool feed(Run *run, const IdList *tokens, size_t begin, Error *error) {
    size_t max_rows = (size_t)run->file->session->model->options.max_rows;
    bool all[SESSION_MAX_ROWS], good = true;
    // Every row wants logits if a tensor after the last layer is traced; else the last alone, for
    // the next token.
    memset(all, true, sizeof all);
    for (size_t at = begin; good && at < tokens->count;) {
        size_t left = tokens->count - at, n = left < max_rows ? left : max_rows;
        Batch batch = {.n = (int)n, .tokens = tokens->ids + at};
        if (trace_file_wants_logits(run->file)) batch.wants_logits = all;
        good = run_chunk(run, &batch, error);
        at += n;
        progress_update(&run->progress, (double)at / (double)run->file->n_tokens);
    }
    return good;
}

// Appends the likeliest token, whether it ends the text or not, and feeds it.
static bool generate_token(Run *run, IdList *tokens, Error *error) {
    const Model *m = run->file->session->model;
    size_t fed = tokens->count;
    // After NaN there is no likeliest token: the trace ends there with that error.
    if (run->nonfinite.code) return error_copy(error, &run->nonfinite);
    int32_t next = likeliest(model_logits(m, m->n_logit_rows - 1), m->config.vocab_size);
    return id_list_push(tokens, next, error) && feed(run, tokens, fed, error);
}

// Ctrl-C is seen inside passes and while their stages are written; the file is then removed.
static bool run_model(Run *run, IdList *tokens, Error *error) {
    progress_begin(&run->progress, "trace", run->file->session->options->quiet);
    bool good = feed(run, tokens, 0, error);
    while (good && tokens->count < run->file->n_tokens)
        good = generate_token(run, tokens, error);
    progress_end(&run->progress);
    return good;
}

static void say_what_was_written(const TraceFile *f, double seconds) {
    const Options *o = f->session->options;
    char name[200];
    output_print("%s: %zu tokens, %zu tensors, %.1f MB\n",
                 escape_bytes(name, sizeof name, o->out, strlen(o->out)), f->n_tokens, f->count,
                 (double)f->bytes / 1e6);
    output_flush();
    if (!o->quiet && output_good())
        note("%.1f s; memory %.1f MB%s", seconds, (double)peak_memory_bytes() / 1e6,
             build_remark());
}

// Before anything is written.
static bool check_size(const TraceFile *f, Error *error) {
    struct statvfs disk;
    const char *path = f->place->path;
    char *directory = path_beside(path, "", error);
    if (!directory) return false;
    double left = statvfs(directory, &disk) ? -1 : (double)disk.f_bavail * (double)disk.f_frsize;
    free(directory);
    if (!trace_check_size(path, (double)f->bytes, left, error)) return false;
    if (f->bytes >= TRACE_LARGE && !f->session->options->quiet)
        note("the trace takes %.1f GB; --only NAME makes it smaller", (double)f->bytes / 1e9);
    return true;
}

static bool trace(Session *s, const OutputFile *out, IdList *tokens, size_t n_tokens,
                  Error *error) {
    TraceFile file = {.session = s, .place = out, .tokens = tokens, .n_tokens = n_tokens};
    Run run = {.file = &file};
    double started = seconds_now();
    interrupt_begin();
    bool good = trace_file_plan(&file, error) && check_size(&file, error) &&
                trace_file_open(&file, error) && run_model(&run, tokens, error) &&
                trace_file_finish(&file, error);
    interrupt_end();
    if (good) say_what_was_written(&file, seconds_now() - started);
    trace_file_close(&file);
    // A trace with NaN in it is complete, and still an error: exit code 7.
    if (good && run.nonfinite.code) good = error_copy(error, &run.nonfinite);
    return good;
}

bool trace_command(const Options *options, Error *error) {
    Session s = {0};
    IdList tokens = {0};
    size_t n_tokens = 0;
    FileSet inputs = {0};
    OutputFile out = {
        .path = options->out, .inputs = &inputs, .force = options->force, .stop = interrupt_flag()};
    bool good = check_prompt(options, error) && inputs_find(&inputs, options, error) &&
                check_out(&out, options, error) && session_open(&s, options, error) &&
                prompt_encode(&tokens, &s, error) &&
                check_length(&s, tokens.count, &n_tokens, error);
    int rows = good ? chunk_rows(s.config, n_tokens) : 0;
    SessionModel wanted = {.context = (int)n_tokens, .max_rows = rows, .max_logit_rows = rows};
    good = good && session_open_model(&s, &wanted, error) &&
           session_intervene(&s, tokens.ids, tokens.count, error) &&
           trace(&s, &out, &tokens, n_tokens, error);
    id_list_free(&tokens);
    file_set_free(&inputs);
    session_close(&s);
    return good;
}
