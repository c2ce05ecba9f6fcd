// replay: runs a recording of generate --record again. Without --at it answers whether the bits are
// the same; with --at N --token ID it changes one token and shows how the text goes on from there.
//
//   recording -> its options, with those of the command line in their place -> model -> is it the
//     recorded one? -> sampler with the recorded numbers -> replay_compare or replay_branch
#include "commands/replay/replay.h"
#include "commands/commands.h"
#include "commands/shared/interrupt.h"
#include "commands/shared/output.h"
#include "kernels/precision.h"
#include "weights/checkpoint.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef WITHOUT_JSON
// In the place of replay/read.c.
bool recording_read(Recording *r, const char *path, const Options *defaults, Error *error) {
    r->options = *defaults;
    return error_set(error, ERROR_FILE,
                     "%s: a recording is JSON, and this program was built without jansson", path);
}
#endif

static bool check_options(const Options *o, Error *error) {
    if (!o->model)
        return error_set(error, ERROR_USAGE, "replay wants the file of a generate --record");
    if (option_given(o, OPTION_AT) == (o->new_token != NULL)) return true;
    return error_set(error, ERROR_USAGE, "--at N and --token ID go together");
}

// The recorded options, with what the command line says of the machine and the numbers.
static void choose_options(Replay *r) {
    const Options *given = r->given;
    Options *o = &r->options;
    *o = r->recorded.options;
    if (given->other_model) o->model = given->other_model;
    if (option_given(given, OPTION_TOKENIZER)) o->tokenizer = given->tokenizer;
    if (option_given(given, OPTION_THREADS)) o->threads = given->threads;
    if (option_given(given, OPTION_PRECISION)) o->precision = given->precision;
    if (option_given(given, OPTION_KV)) o->kv = given->kv;
}

static bool is_missing(const char *path) {
    return path && !builtin_is_meant(path) && access(path, R_OK);
}

// Where a file is no longer there, the way out is in the message.
static bool open_session(Replay *r, Error *error) {
    Error cause = {0};
    if (session_open(&r->session, &r->options, &cause)) return true;
    const char *model = r->given->other_model ? NULL : r->options.model;
    const char *tokenizer = option_given(r->given, OPTION_TOKENIZER) ? NULL : r->options.tokenizer;
    const char *other = is_missing(model)       ? "--model PATH"
                        : is_missing(tokenizer) ? "-z FILE"
                                                : NULL;
    if (cause.code != ERROR_IO || !other) return error_copy(error, &cause);
    return error_set(error, cause.code, "%s (the recorded path; %s gives another)", cause.message,
                     other);
}

// A vocabulary of another size has other rows of logits. A context that is too long would be
// allocated.
static bool check_shapes(const Replay *r, Error *error) {
    const Config *c = r->session.config;
    if (c->vocab_size != r->recorded.vocab_size)
        return error_set(error, ERROR_FILE,
                         "%s: a vocabulary of %d tokens, the recording is of one of %d",
                         r->options.model, c->vocab_size, r->recorded.vocab_size);
    if (r->options.context <= config_longest_context(c)) return true;
    return error_set(error, ERROR_FILE, "%s: recorded with a context of %d, the model has %d",
                     r->given->model, (int)r->options.context, c->max_seq_len);
}

static bool check_digest(Replay *r, Error *error) {
    if (!model_digest(r->digest, &r->session, error)) return false;
    if (!strcmp(r->digest, r->recorded.digest)) return true;
    if (!r->given->any_model)
        return error_set(error, ERROR_FILE,
                         "%s: another model (digest %s) than the recorded one (%s); --any-model "
                         "takes it",
                         r->options.model, r->digest, r->recorded.digest);
    if (!r->given->quiet)
        note("another model: digest %s, recorded %s", r->digest, r->recorded.digest);
    return true;
}

static bool open_sampling(Replay *r, Error *error) {
    uint64_t seed = 0;
    size_t count = r->recorded.n_tokens;
    r->uniforms = malloc(count * sizeof *r->uniforms + 1);
    if (!r->uniforms) return error_set(error, ERROR_MEMORY, "no memory for %zu numbers", count);
    for (size_t i = 0; i < count; i++)
        r->uniforms[i] = r->recorded.tokens[i].uniform;
    SamplerWanted wanted = {.numbers = r->uniforms, .n_numbers = count};
    r->sampler = open_sampler(&r->session, &wanted, &seed, error);
    return r->sampler;
}

// What is different about this run; the recording's text is anybody's.
static void print_runs(const Replay *r) {
    const Options *then = &r->recorded.options, *now = &r->options;
    const char *by = r->recorded.version, *on = r->recorded.device;
    char version[20], device[224];
    if (r->given->quiet) return;
    note("recorded by limpid %s: %s, %s, kv %s",
         escape_bytes(version, sizeof version, by, strlen(by)),
         escape_bytes(device, sizeof device, on, strlen(on)),
         precision_name((Precision)then->precision), kv_name((KvType)then->kv));
    note("now: %s, %s, kv %s", device_info(r->session.model->device)->description,
         precision_name((Precision)now->precision), kv_name((KvType)now->kv));
}

// False with exit code 130 where Ctrl-C was pressed.
static bool feed(Replay *r, const int32_t *ids, size_t count, Error *error) {
    size_t fed = 0;
    for (size_t i = 0; i < count; i++)
        sampler_accept(r->sampler->sampler, ids[i]);
    if (!session_feed(&r->session, ids, count, &fed, error)) return false;
    return fed == count || error_set(error, ERROR_INTERRUPTED, "interrupted");
}

// A sampler that follows the text wants the logits that each token was sampled from, so these are
// fed one at a time; else prompt and tokens are one list.
bool replay_feed(Replay *r, size_t count, Error *error) {
    bool follows = sampler_follows(r->sampler->sampler), good = true;
    IdList ids = {0};
    for (size_t i = 0; good && i < r->recorded.prompt.count; i++)
        good = id_list_push(&ids, r->recorded.prompt.ids[i], error);
    for (size_t i = 0; good && !follows && i < count; i++) {
        good = id_list_push(&ids, r->recorded.tokens[i].id, error);
        sampler_uniform(r->sampler->sampler);
    }
    good = good && feed(r, ids.ids, ids.count, error);
    for (size_t i = 0; good && follows && i < count; i++) {
        int32_t id = r->recorded.tokens[i].id;
        sampler_follow(r->sampler->sampler, model_logits(r->session.model, 0), id);
        good = feed(r, &id, 1, error);
    }
    id_list_free(&ids);
    return good;
}

static bool open_all(Replay *r, Error *error) {
    if (!recording_read(&r->recorded, r->given->model, r->given, error)) return false;
    choose_options(r);
    SessionModel wanted = {.context = (int)r->options.context,
                           .max_rows = (int)r->given->prompt_rows};
    return open_session(r, error) && check_shapes(r, error) &&
           (!option_given(r->given, OPTION_AT) || replay_check_branch(r, error)) &&
           check_digest(r, error) && session_open_model(&r->session, &wanted, error) &&
           open_sampling(r, error);
}

bool replay_command(const Options *o, Error *error) {
    if (!check_options(o, error)) return false;
    Replay *r = calloc(1, sizeof *r); // with its options and names too large for the stack
    if (!r) return error_set(error, ERROR_MEMORY, "out of memory for a recording");
    r->given = o;
    bool good = open_all(r, error);
    if (good) {
        print_runs(r);
        interrupt_begin();
        good = option_given(o, OPTION_AT) ? replay_branch(r, error) : replay_compare(r, error);
        interrupt_end();
    }
    output_flush();
    limpid_sampler_close(r->sampler);
    free(r->uniforms);
    session_close(&r->session);
    recording_free(&r->recorded);
    free(r);
    return good;
}
