// Opens the model that drafts, after a look at its vocabulary, and says where drafts are off.
//
// Ids are all that the two models exchange, so equal vocabularies are what is needed: as many
// tokens, and the same bytes for each. How a text becomes ids is the session's alone.
#include "commands/speculation/speculation.h"
#include "base/text.h"
#include "base/transport/transport.h"
#include "commands/shared/output.h"
#include "model/decoder.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct Drafting {
    Options options; // of the draft's session
    Session session; // zeroed: there is no draft model
    Speculation *speculation;
};

bool drafting_check(const Options *o, Error *error) {
    if (o->draft && o->speculate)
        return error_set(error, ERROR_USAGE,
                         "drafts come from one of --draft and --speculate lookup");
    if (o->draft && o->draft[strspn(o->draft, "0123456789")] == '\0')
        return error_set(error, ERROR_USAGE,
                         "--draft names a model; the number of drafted tokens is --draft-tokens "
                         "%.20s",
                         o->draft);
    if (option_given(o, OPTION_DRAFT_TOKENS) && !o->draft && !o->speculate)
        return error_set(error, ERROR_USAGE,
                         "--draft-tokens is for --speculate lookup and --draft MODEL");
    return true;
}

// ---- the vocabularies ----

// Both tokenizers own the piece that they return, until their next one.
static bool same_piece(Tokenizer *a, Tokenizer *b, int32_t id, TextSpan pieces[2]) {
    pieces[0].text = tokenizer_piece(a, id, false, true, &pieces[0].length);
    pieces[1].text = tokenizer_piece(b, id, false, true, &pieces[1].length);
    return pieces[0].length == pieces[1].length &&
           !memcmp(pieces[0].text, pieces[1].text, pieces[0].length);
}

static bool compare_sizes(const Session *draft, int other, int mine, Error *error) {
    return mine == other ||
           error_set(error, ERROR_USAGE,
                     "--draft %s: its vocabulary has %d tokens, that of the model %d: a draft "
                     "needs the same",
                     checkpoint_path(draft->checkpoint), other, mine);
}

// Of models without tokenizers the size is all that is known.
static bool compare_vocabularies(const Session *s, const Session *draft, Error *error) {
    Tokenizer *mine = s->tokenizer, *other = draft->tokenizer;
    const char *path = checkpoint_path(draft->checkpoint);
    if (!mine) return compare_sizes(draft, draft->config->vocab_size, s->config->vocab_size, error);
    if (!compare_sizes(draft, tokenizer_size(other), tokenizer_size(mine), error)) return false;
    for (int32_t id = 0; id < tokenizer_size(mine); id++) {
        TextSpan pieces[2];
        char here[60], there[60];
        if (same_piece(mine, other, id, pieces)) continue;
        return error_set(error, ERROR_USAGE,
                         "--draft %s: token %" PRId32 " is \"%s\", that of the model \"%s\": a "
                         "draft needs the same vocabulary",
                         path, id,
                         escape_bytes(there, sizeof there, pieces[1].text, pieces[1].length),
                         escape_bytes(here, sizeof here, pieces[0].text, pieces[0].length));
    }
    return true;
}

// ---- opening ----

// What drafts are off with: interventions would be called for other rows, and the ranks have one
// model at a time.
static const char *off_with(const Options *o) {
    if (o->no_cache) return "--no-cache";
    if (transport_count() > 1) return "layers in several processes";
    return interventions_asked(o) ? "--ablate, --patch and --steer" : NULL;
}

static bool open_draft(Drafting *d, const Session *s, Error *error) {
    Options *o = &d->options;
    *o = *s->options;
    o->model = s->options->draft;
    o->tokenizer = NULL;
    o->verbose = false;
    bool good = session_open(&d->session, o, error);
    if (good && !d->session.tokenizer && s->options->tokenizer) { // -z is for both then
        session_close(&d->session);
        d->session = (Session){0};
        o->tokenizer = s->options->tokenizer;
        good = session_open(&d->session, o, error);
    }
    bool none = good && !s->tokenizer && !d->session.tokenizer;
    if (!good || (!none && !session_need_tokenizer(&d->session, error)))
        return error_prefix(error, "--draft");
    return (none || session_need_tokenizer(s, error)) &&
           compare_vocabularies(s, &d->session, error);
}

// --speculate off beside --draft, too.
static bool is_off(const Options *o) {
    return !o->speculate && (!o->draft || option_given(o, OPTION_SPECULATE));
}

bool drafting_open(Drafting **drafting, const Session *s, Error *error) {
    const Options *o = s->options;
    if (is_off(o)) return true;
    const char *other = off_with(o);
    if (other) {
        if (!o->quiet) note("drafts are off with %s", other);
        return true;
    }
    *drafting = calloc(1, sizeof **drafting);
    if (!*drafting) return error_set(error, ERROR_MEMORY, "no memory for drafts");
    return !o->draft || open_draft(*drafting, s, error);
}

int drafting_rows(const Drafting *d) {
    return d ? SPECULATION_MAX + 1 : 1;
}

// The draft's context may be shorter: behind it there are no drafts.
static bool open_draft_model(Drafting *d, int context, Error *error) {
    int longest = d->session.config->max_seq_len;
    SessionModel wanted = {.context = context < longest ? context : longest};
    return session_open_model(&d->session, &wanted, error);
}

bool drafting_begin(Drafting *d, const Session *s, Error *error) {
    const char *why;
    if (!d) return true;
    if (!decoder_speculates(s->model, &why)) {
        if (!s->options->quiet) note("drafts are off with %s", why);
        return true;
    }
    int context = s->model->options.context;
    if (s->options->draft && !open_draft_model(d, context, error)) return false;
    d->speculation = speculation_open(&(SpeculationOptions){.vocab_size = s->config->vocab_size,
                                                            .context = context,
                                                            .draft = d->session.model,
                                                            .fixed = (int)s->options->draft_tokens},
                                      error);
    return d->speculation;
}

Speculation *drafting_speculation(const Drafting *d) {
    return d ? d->speculation : NULL;
}

void drafting_close(Drafting *d) {
    if (!d) return;
    speculation_close(d->speculation);
    session_close(&d->session);
    free(d);
}
