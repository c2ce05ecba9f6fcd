// view: one HTML page of a run, of a trace, or of two traces: tokens, lens, heads, the stream,
// every number. The page needs no network and no other file.
//
//   options -> prompt ids -> model -> view_capture: one pass, everything kept
//     -> blocks (candidates, lens, heads, branches, attention, stages, weights) -> core -> the page
#include "commands/view/view.h"
#include "commands/commands.h"
#include "commands/shared/inputs.h"
#include "commands/shared/interrupt.h"
#include "commands/shared/output.h"
#include "commands/shared/prompt.h"

#include <string.h>

// Before anything is opened: false with exit code 2, 4 or 5.
static bool check_out(const OutputFile *out, const Options *o, Error *error) {
    if (!out->path)
        return error_set(error, ERROR_USAGE, "--out FILE is needed: where to write the page");
    return inputs_check(out, o, error);
}

// These are of a trace.
static bool check_options(const Options *o, Error *error) {
    if (o->budget) return error_set(error, ERROR_USAGE, "--budget is of two traces");
    return check_prompt(o, error);
}

static bool check_length(View *v, Error *error) {
    const Session *s = v->session;
    size_t room = (size_t)config_longest_context(s->config);
    size_t more = (size_t)s->options->new_tokens;
    v->n_prompt = v->ids.count;
    v->n = v->n_prompt + more;
    if (v->n_prompt > room || more > room - v->n_prompt)
        return error_set(
            error, ERROR_USAGE,
            "the prompt has %zu tokens and %zu are to be generated, the model's context is %zu",
            v->n_prompt, more, room);
    v->layers = s->config->n_layers;
    return (!s->options->layers || view_choose_layers(v, error)) && view_check_size(v, error);
}

// In the order of the page.
static bool make_blocks(View *v, Page *page, Error *error) {
    if (!view_capture(v, error)) return false;
    view_open_at(v);
    return (v->exact || view_choose_layers(v, error)) && view_candidates(v, page, error) &&
           view_lens(v, page, error) && view_heads(v, page, error) && view_scores(v, page, error) &&
           view_branches(v, page, error) && view_attention_blocks(v, page, error) &&
           view_stage_blocks(v, page, error) && view_weights(v, page, error);
}

bool view_write(const View *v, const Page *page, const OutputFile *out, Error *error) {
    Buffer core = {0};
    uint64_t bytes = 0;
    char name[200];
    bool good = view_core(v, &core, error);
    if (good && interrupt_asked()) good = error_set(error, ERROR_INTERRUPTED, "interrupted");
    good = good && page_write(page, &core, out, &bytes, error);
    buffer_free(&core);
    if (good && !v->options->quiet)
        note("%s: %zu tokens, %.2f MB; open it in a browser",
             escape_bytes(name, sizeof name, out->path, strlen(out->path)), v->n,
             (double)bytes / 1e6);
    return good;
}

static bool view(View *v, const OutputFile *out, Error *error) {
    Page page = {0};
    int rows = view_rows(v);
    SessionModel wanted = {.context = (int)v->n, .max_rows = rows, .max_logit_rows = rows};
    if (!interventions_check_lens(v->session->interventions, error) ||
        !session_open_model(v->session, &wanted, error) ||
        !session_intervene(v->session, v->ids.ids, v->ids.count, error))
        return false;
    interrupt_begin();
    bool good = make_blocks(v, &page, error) && view_write(v, &page, out, error);
    interrupt_end();
    page_free(&page);
    return good;
}

static bool view_model(const Options *o, const OutputFile *out, Error *error) {
    Session s = {0};
    View v = {.options = o, .session = &s};
    bool good = check_options(o, error) && session_open(&s, o, error) &&
                prompt_encode(&v.ids, &s, error) && check_length(&v, error) && view(&v, out, error);
    view_free(&v);
    session_close(&s);
    return good;
}

bool view_command(const Options *o, Error *error) {
    FileSet inputs = {0};
    OutputFile out = {
        .path = o->out, .inputs = &inputs, .force = o->force, .stop = interrupt_flag()};
    bool good = inputs_find(&inputs, o, error) &&
                (!o->other || file_set_add(&inputs, o->other, error)) && check_out(&out, o, error);
    good = good && (o->other || view_is_trace(o->model) ? view_traces(o, &out, error)
                                                        : view_model(o, &out, error));
    file_set_free(&inputs);
    return good;
}
