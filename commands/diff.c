// diff: compares two traces and names the first tensor that differs.
//
//   pair the tensors of both files by name -> choose the budget -> do they have the same tokens?
//     -> compare every pair -> a table and one sentence, or JSON
//
// With different tokens a comparison of tensors says nothing, so that alone is reported. trace/ has
// the parts: pair.c, comparison.c, report.c.
#include "commands/commands.h"
#include "commands/shared/output.h"
#include "commands/trace/trace_diff.h"

// Exit code 1; the answer itself is on standard output.
static bool answer_no(const TraceDiff *d, Error *error) {
    if (d->first)
        return error_set(error, ERROR_ANSWER_NO, "%zu tensors differ, the first is %.120s",
                         d->n_over, d->first->a->plan.name);
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

bool diff_command(const Options *o, Error *error) {
    TraceDiff diff;
    Budget budget;
    if (!o->model || !o->other)
        return error_set(error, ERROR_USAGE, "two trace files are needed: run diff A B");
    if (o->budget && !budget_parse(&budget, o->budget, error)) return false;
    if (!trace_diff_open(&diff, o->model, o->other, &o->only_names, error)) return false;
    bool good = compare(&diff, o, o->budget ? &budget : NULL, error);
    output_flush();
    trace_diff_close(&diff);
    return good;
}
