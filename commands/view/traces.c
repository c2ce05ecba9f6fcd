// The page of one trace or two. A file is untrusted: its tensors were checked when it was opened,
// their shapes and the metadata are checked here.
//
//   A            -> stages, attention, logits -> blocks -> the page
//   A and B      -> as above of A, and what `diff` says of every pair
#include "commands/view/view.h"

#include "commands/shared/interrupt.h"
#include "commands/shared/output.h"

#include <string.h>

static bool has_tokens(const SafetensorsFile *file) {
    const SafetensorsTensor *ids = safetensors_find(file, "input_ids");
    return ids && !strcmp(ids->type->name, "I64") && ids->plan.n_dims == 1 && ids->plan.shape[0];
}

bool view_is_trace(const char *path) {
    SafetensorsFile file;
    if (!path || builtin_is_meant(path) || !safetensors_open(&file, path, NULL)) return false;
    bool is = has_tokens(&file);
    safetensors_close(&file);
    return is;
}

// A run of a model has these, a trace has not.
static bool check_options(const Options *o, Error *error) {
    static const OptionId OF_A_RUN[] = {OPTION_PATTERN, OPTION_ABLATE,    OPTION_PATCH,
                                        OPTION_STEER,   OPTION_ABLATE_TO, OPTION_PRECISION,
                                        OPTION_KV,      OPTION_SPECIAL};
    const char *of_a_run = options_first_given(o, OF_A_RUN, sizeof OF_A_RUN / sizeof *OF_A_RUN);
    if (o->prompt || o->file || o->prompt_ids || option_given(o, OPTION_NEW_TOKENS))
        return error_set(error, ERROR_USAGE,
                         "a trace has its tokens: no -i, -f, --prompt-ids or -n with it");
    if (o->budget && !o->other) return error_set(error, ERROR_USAGE, "--budget is of two traces");
    return !of_a_run || error_set(error, ERROR_USAGE, "--%s is of a run, not of a trace", of_a_run);
}

static bool make_blocks(View *v, Page *page, Error *error) {
    view_open_at(v);
    return view_choose_layers(v, error) && view_candidates(v, page, error) &&
           view_heads(v, page, error) && view_flow(v, page, error) &&
           view_attention_blocks(v, page, error) && view_stage_blocks(v, page, error);
}

// As of a model (limpid_open): one with more tokens is another's.
static bool check_vocabulary(const View *v, Error *error) {
    return !v->vocab_known || own_tokenizer_fits(&v->session->own, v->vocab_size, error);
}

static bool view_file(View *v, const OutputFile *out, Error *error) {
    Page page = {0};
    const Options *o = v->options;
    if (!has_tokens(v->trace)) {
        error_set(error, ERROR_FILE, "no trace: it has no tensor input_ids (T), I64");
        return error_prefix(error, v->trace->mapping.path);
    }
    interrupt_begin();
    bool good = view_load_trace(v, error);
    if (good && o->tokenizer)
        good = session_open_tokenizer(v->session, o->tokenizer, v->vocab_size, error) &&
               check_vocabulary(v, error);
    good = good && make_blocks(v, &page, error);
    if (mapping_damaged(&v->trace->mapping))
        good = error_set(error, ERROR_IO, "%s: the file was cut short while it was read",
                         v->trace->mapping.path);
    good = good && view_write(v, &page, out, error);
    interrupt_end();
    page_free(&page);
    return good;
}

static bool view_one(View *v, const OutputFile *out, Error *error) {
    SafetensorsFile file;
    if (!safetensors_open(&file, v->options->model, error)) return false;
    v->trace = &file;
    bool good = view_file(v, out, error);
    view_free(v);
    safetensors_close(&file);
    return good;
}

// Compares all tensors, as `diff` does.
static bool compare(TraceDiff *d, const Options *o, Error *error) {
    Budget budget;
    Progress progress;
    int64_t position = trace_diff_tokens(d);
    if (position >= 0)
        return error_set(error, ERROR_ANSWER_NO,
                         "the traces have different tokens from position %lld on, so their "
                         "tensors say nothing of each other (`run diff A B`)",
                         (long long)position);
    if (o->budget ? !budget_parse(&budget, o->budget, error)
                  : !trace_diff_budget(d, &budget, error))
        return false;
    progress_begin(&progress, "diff", o->quiet);
    bool good = trace_diff_run(d, &budget, progress_update, &progress, error);
    progress_end(&progress);
    return good;
}

static bool view_two(View *v, const OutputFile *out, Error *error) {
    static const TextList all = {0};
    const Options *o = v->options;
    TraceDiff diff;
    if (!trace_diff_open(&diff, o->model, o->other, &all, error)) return false;
    v->trace = &diff.a;
    v->diff = &diff;
    bool good = compare(&diff, o, error) && view_file(v, out, error);
    view_free(v);
    trace_diff_close(&diff);
    return good;
}

bool view_traces(const Options *o, const OutputFile *out, Error *error) {
    Session s = {.options = o};
    View v = {.options = o, .session = &s};
    bool good =
        check_options(o, error) && (o->other ? view_two(&v, out, error) : view_one(&v, out, error));
    session_close(&s);
    return good;
}
