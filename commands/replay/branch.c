// --at N --token ID: the recorded run up to token N, another token there, and on from it with the
// numbers that the recording has for the tokens behind, then the generator's own.
//
//     prompt | 0 .. N-1 | N           | N+1 ..
//     recorded, fed     | ID instead  | sampled with the numbers N+1 ..
#include "commands/replay/replay.h"
#include "commands/shared/logprobs.h"
#include "commands/shared/output.h"
#include "commands/shared/prompt.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Branch {
    Replay *replay;
    size_t at;
    bool same_bits;        // the row of logits of token `at` has the recorded hash
    int32_t ids[2];        // at that place: recorded, now
    double probability[2]; // of each now
    int rank[2];           // from 1, of each now
    IdList texts[2];       // prompt and new tokens of each
    StopReason stop[2];
    size_t max_new, made;
    Progress progress;
} Branch;

// ---- which token ----

// The token that decodes to this text. Not by encoding it: SPM kinds put a space in front. The
// bytes of a vocabulary have low ids, so the highest is the token that texts are made of.
static bool find_token(const Replay *r, int32_t *id, Error *error) {
    const char *text = r->given->new_token;
    size_t wanted = strlen(text), length = 0;
    if (!session_need_tokenizer(&r->session, error)) return false;
    for (*id = tokenizer_size(r->session.tokenizer) - 1; wanted && *id >= 0; --*id) {
        const char *piece = tokenizer_piece(r->session.tokenizer, *id, false, true, &length);
        if (length == wanted && !memcmp(piece, text, length)) return true;
    }
    return error_set(error, ERROR_USAGE, "--token: \"%.60s\" is no token of this vocabulary", text);
}

// An id, or a text that is one token.
static bool parse_token(const Replay *r, int32_t *id, Error *error) {
    const char *text = r->given->new_token;
    int vocab_size = r->recorded.vocab_size;
    int64_t number = 0;
    if (!parse_integer(&number, text)) return find_token(r, id, error);
    *id = (int32_t)number;
    return (number >= 0 && number < vocab_size) ||
           error_set(error, ERROR_USAGE, "--token: got %" PRId64 ", wanted an id below %d", number,
                     vocab_size);
}

bool replay_check_branch(Replay *r, Error *error) {
    if (!r->recorded.n_tokens)
        return error_set(error, ERROR_USAGE, "--at: the recording has no tokens");
    if ((uint64_t)r->given->at >= r->recorded.n_tokens)
        return error_set(error, ERROR_USAGE,
                         "--at: got %" PRId64 ", the recording has tokens 0 .. %" PRId64,
                         r->given->at, (int64_t)r->recorded.n_tokens - 1);
    return parse_token(r, &r->new_id, error);
}

// ---- the run ----

// Where the recording was made, and where the new token stands in that row.
static void look_at_row(Branch *b, const float *logits) {
    int vocab_size = b->replay->recorded.vocab_size;
    uint64_t hash = fnv1a(FNV_START, logits, (size_t)vocab_size * sizeof *logits);
    double total = log_sum_exp_f64(logits, vocab_size);
    b->same_bits = hash == b->replay->recorded.tokens[b->at].hash;
    for (int i = 0; i < 2; i++) {
        float logit = logits[b->ids[i]];
        b->probability[i] = exp((double)logit - total);
        b->rank[i] = 1;
        for (int t = 0; t < vocab_size; t++)
            b->rank[i] += logits[t] > logit;
    }
}

static void show_progress(void *context, int32_t id, const float *logits, const char *piece,
                          size_t length) {
    (void)id, (void)logits, (void)piece, (void)length;
    Branch *b = context;
    progress_update(&b->progress, (double)++b->made / (double)b->max_new);
}

// The piece of texts[text]'s token `i`. NULL without a tokenizer.
static const char *piece_of(const Branch *b, int text, size_t i, size_t *length) {
    Tokenizer *tokenizer = b->replay->session.tokenizer;
    const int32_t *ids = b->texts[text].ids;
    bool first = i == 0 || (i == 1 && tokenizer && ids[0] == tokenizer_bos(tokenizer));
    *length = 0;
    return tokenizer ? tokenizer_piece(tokenizer, ids[i], first, false, length) : NULL;
}

// Gives `stop_text` the tokens behind the prompt up to the new one: a stop text may begin in any of
// them. *found: the new token completes one.
static bool push_text(const Branch *b, StopText *stop_text, bool *found, Error *error) {
    bool good = true;
    *found = false;
    for (size_t i = b->replay->recorded.prompt.count; good && i < b->texts[1].count; i++) {
        size_t length = 0, shown = 0;
        const char *piece = piece_of(b, 1, i, &length), *out = NULL;
        good = stop_text_push(stop_text, piece, length, &out, &shown, found, error);
    }
    return good;
}

// Appends to texts[1] what comes behind the new token.
static bool go_on(Branch *b, StopText *stop_text, Error *error) {
    Replay *r = b->replay;
    Generation g = {.session = &r->session,
                    .sampler = r->sampler,
                    .max_new = b->max_new,
                    .stops = &r->options.stops,
                    .stop_text = *stop_text,
                    .ignore_eos = r->options.ignore_eos,
                    .catch_interrupt = true,
                    .token = show_progress,
                    .context = b};
    progress_begin(&b->progress, "replay", r->given->quiet);
    // Not another text: the sampler is behind the tokens of this one.
    sampler_accept(r->sampler->sampler, b->ids[1]);
    bool good = generation_run(&g, &b->ids[1], 1, error);
    progress_end(&b->progress);
    b->stop[1] = g.stop;
    for (size_t i = 0; good && i < g.ids.count; i++)
        good = id_list_push(&b->texts[1], g.ids.ids[i], error);
    if (good && g.stop == STOP_EOS) good = id_list_push(&b->texts[1], g.end_id, error);
    *stop_text = (StopText){0}; // freed with the generation
    generation_free(&g);
    return good;
}

// The new token may end the text, or be the last that there is room for.
static bool run_branch(Branch *b, Error *error) {
    const Replay *r = b->replay;
    const Model *model = r->session.model;
    StopText stop_text = {.stops = &r->options.stops};
    bool found = false;
    b->max_new = (size_t)r->recorded.options.max_tokens - b->at - 1;
    b->stop[1] = STOP_EOS;
    if (!r->options.ignore_eos && session_stops_at(&r->session, b->ids[1])) return true;
    bool good = push_text(b, &stop_text, &found, error);
    if (found)
        b->stop[1] = STOP_AT_TEXT;
    else if (!b->max_new)
        b->stop[1] = STOP_LENGTH;
    else if (kv_cache_length(&model->cache, 0) == model->options.context)
        b->stop[1] = STOP_CONTEXT;
    else
        good = good && go_on(b, &stop_text, error);
    stop_text_free(&stop_text);
    return good;
}

static bool begin_texts(Branch *b, Error *error) {
    const Recording *recorded = &b->replay->recorded;
    bool good = true;
    b->stop[0] = recorded->stop;
    for (int text = 0; text < 2; text++) {
        IdList *ids = &b->texts[text];
        for (size_t i = 0; good && i < recorded->prompt.count; i++)
            good = id_list_push(ids, recorded->prompt.ids[i], error);
        for (size_t i = 0; good && i < (text ? b->at : recorded->n_tokens); i++)
            good = id_list_push(ids, recorded->tokens[i].id, error);
    }
    return good && id_list_push(&b->texts[1], b->ids[1], error);
}

// ---- the report ----

// The tokens [from .. to) of texts[text], which begins with the prompt; without a tokenizer ids.
static void put_text(Buffer *out, const Branch *b, int text, size_t from, size_t to) {
    for (size_t i = from; i < to; i++) {
        size_t length = 0;
        char number[16];
        const char *piece = piece_of(b, text, i, &length);
        if (!piece)
            length = (size_t)snprintf(number, sizeof number, "%d ", (int)b->texts[text].ids[i]);
        buffer_put(out, piece ? piece : number, length);
    }
}

// At once: a character may be of several tokens.
static void print_text(const Branch *b, int text, size_t from, size_t to, bool *good) {
    Buffer out = {0};
    put_text(&out, b, text, from, to);
    output_text((const char *)out.bytes, out.size);
    *good &= !out.failed;
    buffer_free(&out);
}

static bool print_branch(const Branch *b, char **labels, Error *error) {
    static const char *const NAMES[] = {"recorded", "now"};
    size_t shared = b->replay->recorded.prompt.count + b->at;
    bool good = true;
    print_text(b, 0, 0, shared, &good);
    for (int i = 0; i < 2; i++) {
        output_print("\n\n--- %s: token %zu is %d ", NAMES[i], b->at, (int)b->ids[i]);
        output_text(labels[i], strlen(labels[i]));
        output_print(" (probability %.6f, rank %d)\n", b->probability[i], b->rank[i]);
        print_text(b, i, shared, b->texts[i].count, &good);
    }
    output_print("\n");
    return good || error_set(error, ERROR_MEMORY, "text: out of memory");
}

static void write_side(JsonWriter *w, const Branch *b, int i, char **labels, const Buffer *text) {
    size_t shared = b->replay->recorded.prompt.count + b->at;
    writer_begin(w, i ? "now" : "recorded", '{');
    writer_integer(w, "id", b->ids[i]);
    writer_string(w, "token", labels[i]);
    writer_number(w, "probability", b->probability[i]);
    writer_integer(w, "rank", b->rank[i]);
    writer_ids(w, "ids", b->texts[i].ids + shared, b->texts[i].count - shared);
    if (b->replay->session.tokenizer)
        writer_text(w, "text", (const char *)text->bytes, text->size);
    else
        writer_string(w, "text", NULL);
    writer_string(w, "stop", stop_reason_name(b->stop[i]));
    writer_end(w, '}');
}

static bool write_branch(const Branch *b, char **labels, Error *error) {
    size_t shared = b->replay->recorded.prompt.count + b->at;
    Buffer texts[2] = {{0}, {0}};
    for (int i = 0; i < 2; i++)
        put_text(&texts[i], b, i, shared, b->texts[i].count);
    bool good = !texts[0].failed && !texts[1].failed;
    JsonWriter w = {0};
    if (good) {
        writer_begin(&w, NULL, '{');
        writer_integer(&w, "at", (int64_t)b->at);
        writer_bool(&w, "same_bits", b->same_bits);
        writer_ids(&w, "prompt_ids", b->texts[0].ids, b->replay->recorded.prompt.count);
        writer_ids(&w, "shared_ids", b->texts[0].ids + b->replay->recorded.prompt.count, b->at);
        for (int i = 0; i < 2; i++)
            write_side(&w, b, i, labels, &texts[i]);
        writer_end(&w, '}');
        writer_line(&w);
    }
    buffer_free(&texts[0]);
    buffer_free(&texts[1]);
    return good || error_set(error, ERROR_MEMORY, "no memory for the texts");
}

static bool report(const Branch *b, Error *error) {
    const Replay *r = b->replay;
    int32_t ids[] = {b->ids[0], b->ids[1]};
    char **labels = token_labels(&r->session, &(IdList){.ids = ids, .count = 2}, error);
    if (!labels) return false;
    if (!b->same_bits && !r->given->quiet)
        note("the row of logits of token %zu has other bits than the recorded one", b->at);
    bool good = true;
    if (r->given->json)
        good = write_branch(b, labels, error);
    else
        good = print_branch(b, labels, error);
    free(labels);
    if (good && b->stop[1] == STOP_INTERRUPT)
        return error_set(error, ERROR_INTERRUPTED, "interrupted");
    return good;
}

bool replay_branch(Replay *r, Error *error) {
    size_t at = (size_t)r->given->at;
    Branch b = {.replay = r, .at = at, .ids = {r->recorded.tokens[at].id, r->new_id}};
    bool good = begin_texts(&b, error) && replay_feed(r, b.at, error);
    if (good) {
        look_at_row(&b, model_logits(r->session.model, 0));
        // The number of the token that is changed.
        sampler_follow(r->sampler->sampler, model_logits(r->session.model, 0), r->new_id);
        good = run_branch(&b, error) && report(&b, error);
    }
    id_list_free(&b.texts[0]);
    id_list_free(&b.texts[1]);
    return good;
}
