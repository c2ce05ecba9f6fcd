// lens: what the model would predict after each half of each layer, and which parts of the model
// make a token's logit.
//
//   options -> session -> prompt as ids
//     -> lens_capture         -> grid and table | files | CSV | JSON
//     -> attribution_compute  -> table | CSV | JSON            with --attribute
#include "commands/lens/lens.h"
#include "commands/commands.h"
#include "commands/lens/attribution.h"
#include "commands/shared/output.h"
#include "commands/shared/prompt.h"

#include <inttypes.h>

enum { DEFAULT_TOP = 3, DEFAULT_PARTS = 15 };

static bool check_options(const Options *o, Error *error) {
    if (o->csv && o->json) return error_set(error, ERROR_USAGE, "--csv and --json: one of them");
    if (o->attribute && (o->svg || o->png))
        return error_set(error, ERROR_USAGE,
                         "--svg and --png are pictures of the lens, not of "
                         "--attribute");
    if (option_given(o, OPTION_TOKEN) && !o->attribute)
        return error_set(error, ERROR_USAGE, "--token is of --attribute");
    return true;
}

// --position, by default the last; --top; --token.
static bool check_range(const Options *o, const Config *c, size_t n, Error *error) {
    if (option_given(o, OPTION_POSITION) && (size_t)o->position >= n)
        return error_set(error, ERROR_USAGE,
                         "--position: got %" PRId64 ", the prompt has positions 0 .. %zu",
                         o->position, n - 1);
    if (!o->attribute && option_given(o, OPTION_TOP) && o->top > c->vocab_size)
        return error_set(error, ERROR_USAGE, "--top: got %" PRId64 ", the vocabulary has %d",
                         o->top, c->vocab_size);
    if (option_given(o, OPTION_TOKEN) && o->token >= c->vocab_size)
        return error_set(error, ERROR_USAGE,
                         "--token: got %" PRId64 ", the vocabulary has ids 0 .. %d", o->token,
                         c->vocab_size - 1);
    return true;
}

static size_t chosen_position(const Options *o, const IdList *tokens) {
    return option_given(o, OPTION_POSITION) ? (size_t)o->position : tokens->count - 1;
}

// ---- the lens ----

// The part of it for one position, which owns nothing.
static LensCapture at_position(const LensCapture *c, size_t position) {
    size_t skipped = position - c->first, cells = skipped * (size_t)lens_depths(c);
    LensCapture one = *c;
    one.first = position;
    one.count = 1;
    one.winners += skipped;
    one.cells += cells;
    one.top_tokens += cells * (size_t)c->top;
    return one;
}

static bool print_lens(const LensCapture *c, const PictureFiles *files, Error *error) {
    const Options *o = c->session->options;
    if (picture_files_wanted(files) && !lens_write_files(c, files, error)) return false;
    LensCapture numbers =
        option_given(o, OPTION_POSITION) ? at_position(c, (size_t)o->position) : *c;
    if (o->csv)
        lens_print_csv(&numbers);
    else if (o->json)
        lens_print_json(&numbers);
    else if (!picture_files_wanted(files))
        return lens_print(c, chosen_position(o, c->tokens), error);
    return true;
}

// With --position the numbers are those of that position, the picture is of all.
static bool run_lens(Session *s, const IdList *tokens, const PictureFiles *files, Error *error) {
    const Options *o = s->options;
    bool one =
        option_given(o, OPTION_POSITION) && (o->csv || o->json) && !picture_files_wanted(files);
    LensCapture c = {.session = s,
                     .tokens = tokens,
                     .first = one ? (size_t)o->position : 0,
                     .count = one ? 1 : tokens->count,
                     .top = option_given(o, OPTION_TOP) ? (int)o->top : DEFAULT_TOP};
    if (c.top > s->config->vocab_size) c.top = s->config->vocab_size;
    if (!interventions_check_lens(s->interventions, error)) return false;
    LensSizes sizes = lens_sizes(&c);
    int rows = sizes.rows > sizes.unembedded ? sizes.rows : sizes.unembedded;
    SessionModel wanted = {
        .context = (int)tokens->count, .max_rows = rows, .max_logit_rows = sizes.unembedded};
    if (!session_open_model(s, &wanted, error) ||
        !session_intervene(s, tokens->ids, tokens->count, error) || !lens_capture(&c, error))
        return false;
    bool good = print_lens(&c, files, error);
    lens_capture_free(&c);
    return good;
}

// ---- attribution ----

// Heads and FFNs are all that adds to the stream of a run that nothing else is added to.
static bool check_parts(const Session *s, Error *error) {
    return !interventions_break_parts(s->interventions) ||
           error_set(error, ERROR_USAGE,
                     "--attribute adds up what heads and FFNs write, and a steered stream or a "
                     "patched sum is no such part: ablate heads (L2.H*) or FFNs (L2.ffn)");
}

static bool run_attribution(Session *s, const IdList *tokens, Error *error) {
    const Options *o = s->options;
    Attribution a = {.session = s,
                     .tokens = tokens,
                     .position = chosen_position(o, tokens),
                     .token = option_given(o, OPTION_TOKEN) ? (int32_t)o->token : -1};
    SessionModel wanted = {.context = (int)tokens->count,
                           .max_rows = session_rows(tokens->count, (size_t)s->config->dim)};
    if (!check_parts(s, error) || !session_open_model(s, &wanted, error) ||
        !session_intervene(s, tokens->ids, tokens->count, error) || !attribution_compute(&a, error))
        return false;
    bool good = true;
    if (o->csv)
        attribution_print_csv(&a);
    else if (o->json)
        attribution_print_json(&a);
    else
        good = attribution_print(&a, option_given(o, OPTION_TOP) ? (size_t)o->top : DEFAULT_PARTS,
                                 error);
    attribution_free(&a);
    return good;
}

bool lens_command(const Options *o, Error *error) {
    Session s = {0};
    IdList tokens = {0};
    PictureFiles files = {0};
    bool good =
        check_options(o, error) && check_prompt(o, error) && picture_files_open(&files, o, error) &&
        session_open(&s, o, error) && prompt_encode(&tokens, &s, error) &&
        session_check_room("the prompt", tokens.count, config_longest_context(s.config), error) &&
        check_range(o, s.config, tokens.count, error) &&
        (o->attribute ? run_attribution(&s, &tokens, error) : run_lens(&s, &tokens, &files, error));
    id_list_free(&tokens);
    picture_files_free(&files);
    session_close(&s);
    return good;
}
