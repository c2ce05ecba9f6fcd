// diff: compares two traces and names the first tensor that differs.
//
//   pair the tensors of both files by name -> choose the budget -> do they have the same tokens?
//     -> compare every pair -> a table and one sentence, or JSON
//
// With different tokens a comparison of tensors says nothing, so that alone is reported. trace/ has
// the parts: pair.c, comparison.c, report.c.
#include "base/mapping.h"
#include "base/text.h"
#include "commands/commands.h"
#include "commands/shared/output.h"
#include "commands/shared/session.h"
#include "commands/trace/trace_diff.h"

// Exit code 1; the answer itself is on standard output.
static bool answer_no(const TraceDiff *d, Error *error) {
    if (d->first)
        return error_set(error, ERROR_ANSWER_NO, "%zu tensor%s, the first is %.120s", d->n_over,
                         d->n_over == 1 ? " differs" : "s differ", d->first->a->plan.name);
    return error_set(error, ERROR_ANSWER_NO, "nothing could be compared");
}

// `asked`: the budget of --budget; NULL: the one of the precisions in the files. False with exit
// code 1 where they differ, or another error.
static bool compare(TraceDiff *d, const Options *o, const Budget *asked, Error *error) {
    Budget budget;
    if (!trace_diff_budget(d, &budget, error)) return false;
    if (asked) budget = *asked;
    DiffReport report = {d, &budget, o->model, o->other, o->all};
    int64_t position = trace_diff_tokens(d);
    if (position >= 0) {
        diff_report_tokens(&report, (uint64_t)position, o->json);
        return error_set(error, ERROR_ANSWER_NO, "the traces have different tokens");
    }
    Progress progress;
    progress_begin(&progress, "diff", o->quiet);
    bool good = trace_diff_run(d, &budget, progress_update, &progress, error);
    progress_end(&progress);
    if (!good) return false;
    if (o->json)
        diff_report_json(&report);
    else
        diff_report_print(&report);
    return (d->n_compared && !d->first) || answer_no(d, error);
}

// What is no safetensors file is called by its name; any other failure is told where it is opened
// to be read.
static bool check_tensors(const char *path, Error *error) {
    Mapping file;
    Error cause = {0};
    if (!mapping_open(&file, path, &cause)) return true;
    bool other = safetensors_is_other(&file, &cause);
    mapping_close(&file);
    if (!other || cause.code != ERROR_FILE) return true;
    error_set(error, ERROR_FILE, "%s: `run trace MODEL --out FILE` writes a trace", cause.message);
    return error_prefix(error, path);
}

// Models are what diff is given by mistake: their values are in the files that trace writes.
static bool check_trace(const char *path, Error *error) {
    static const char WHAT[] = "not a trace: `run trace MODEL --out FILE` writes one";
    if (path_is_gguf(path))
        error_set(error, ERROR_FILE, "a GGUF model, %s", WHAT);
    else if (is_directory(path))
        error_set(error, ERROR_IO, "a directory, %s", WHAT);
    else
        return check_tensors(path, error);
    return error_prefix(error, path);
}

// The weights of two models can be compared too.
static void note_weights(const TraceDiff *d, const Options *o) {
    if (d->ids_a || d->ids_b || !d->a.count || o->quiet) return;
    if (ends_with(d->a.tensors[0].plan.name, ".weight"))
        note("these are weights; the values of a run are in what `run trace` writes");
}

bool diff_command(const Options *o, Error *error) {
    TraceDiff diff;
    Budget budget;
    if (!o->model || !o->other)
        return error_set(error, ERROR_USAGE, "two trace files are needed: `run diff A B`");
    if (!check_trace(o->model, error) || !check_trace(o->other, error)) return false;
    if (o->budget && !budget_parse(&budget, o->budget, error)) return false;
    if (!trace_diff_open(&diff, o->model, o->other, &o->only_names, error)) return false;
    note_weights(&diff, o);
    bool good = compare(&diff, o, o->budget ? &budget : NULL, error);
    output_flush();
    trace_diff_close(&diff);
    return good;
}
