// generate: continues a prompt. Reading order: run.c, this file, commands/shared/generation.c,
// model/decoder.c.
//
//   options -> prompt ids -> how many tokens, how large a context -> model -> sampler
//     -> generation_run, which calls the Sink below for text and tokens -> statistics
//     -> with --record the file that replay reads
#include "commands/cache/prompt_cache.h"
#include "commands/commands.h"
#include "commands/generate/surprise.h"
#include "commands/prompts/prompts.h"
#include "commands/shared/generation.h"
#include "commands/shared/inputs.h"
#include "commands/shared/interrupt.h"
#include "commands/shared/logprobs.h"
#include "commands/shared/output.h"
#include "commands/shared/prompt.h"
#include "commands/shared/recording.h"
#include "commands/speculation/speculation.h"
#include "tokenizer/template/template.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef WITHOUT_JSON
// In the place of commands/prompts/.
bool prompts_command(const Options *options, Error *error) {
    return error_set(error, ERROR_FILE,
                     "%s: prompts are JSON, and this program was built without jansson",
                     options->prompts);
}
#endif

// The context of a generation's callbacks.
typedef struct Sink {
    const Session *session;
    const IdList *prompt;
    bool begun;          // the prompt has been printed, so that a newline ends the output
    Surprise surprise;   // --color surprise
    double *prompt_bits; // (prompt->count) then; NaN for the first token; owned
    Logprobs logprobs;
    char *text; // --json, --record: all bytes so far; owned
    size_t length, capacity;
    bool out_of_memory;
    limpid_sampler *sampler;
    Recording recording; // --record
    PromptCache *cache;
} Sink;

// --record: the file, and what it must not replace.
typedef struct RecordFile {
    FileSet inputs;
    OutputFile out;
    char digest[FNV_HEX]; // of the model
} RecordFile;

// The files that a run writes besides its text.
typedef struct Files {
    RecordFile record;
    PromptCache *cache; // owned
} Files;

// ---- text and tokens ----

// `show` with --json or --record: the text is kept for the object at the end. Memory that runs out
// is noted, since a callback returns nothing.
static void collect_text(void *context, const char *bytes, size_t length) {
    Sink *sink = context;
    if (sink->length + length > sink->capacity) {
        size_t capacity = 2 * (sink->length + length);
        char *grown = realloc(sink->text, capacity);
        if (!grown) {
            sink->out_of_memory = true;
            return;
        }
        sink->text = grown;
        sink->capacity = capacity;
    }
    memcpy(sink->text + sink->length, bytes, length);
    sink->length += length;
}

// `show`: whole characters, flushed at once so that text appears as it is generated.
static void print_text(void *context, const char *bytes, size_t length) {
    Sink *sink = context;
    output_text(bytes, length);
    output_flush();
    if (sink->session->options->record) collect_text(context, bytes, length);
}

// ---- --color surprise ----

static void show_surprising(Sink *sink, const char *piece, size_t length, double bits) {
    if (!surprise_push(&sink->surprise, bits, length, NULL) ||
        !surprise_show(&sink->surprise, piece, length, NULL))
        sink->out_of_memory = true;
}

// `read`: the logits after a prompt token say how surprising the next one is.
static void weigh_prompt(void *context, size_t index, const float *logits) {
    Sink *sink = context;
    sink->prompt_bits[index + 1] =
        surprise_bits(&sink->surprise, logits, sink->prompt->ids[index + 1]);
}

// `before`
static void weigh_token(void *context, int32_t id, const float *logits, size_t length) {
    Sink *sink = context;
    double bits = surprise_bits(&sink->surprise, logits, id);
    if (!surprise_push(&sink->surprise, bits, length, NULL)) sink->out_of_memory = true;
}

// `show`
static void print_surprising(void *context, const char *bytes, size_t length) {
    Sink *sink = context;
    if (!surprise_show(&sink->surprise, bytes, length, NULL)) sink->out_of_memory = true;
    if (sink->session->options->record) collect_text(context, bytes, length);
}

// `was_read`
static bool keep_prompt(void *context, Error *error) {
    Sink *sink = context;
    return prompt_cache_save(sink->cache, error);
}

// Prints the prompt as the tokenizer decodes it, as llama2.c does; with -n only as many tokens of
// it as there are passes.
static void echo_prompt(void *context) {
    Sink *sink = context;
    const Options *o = sink->session->options;
    Tokenizer *tokenizer = sink->session->tokenizer;
    const IdList *ids = sink->prompt;
    bool cut = option_given(o, OPTION_STEPS) && o->steps && ids->count > (size_t)o->steps;
    size_t count = cut ? (size_t)o->steps + 1 : ids->count, rest = 0;
    Utf8Stream characters = {0}; // a token may end inside one
    const char *out = NULL;
    for (size_t i = 0; i < count; i++) {
        size_t length = 0;
        const char *piece = text_piece(tokenizer, ids->ids, i, true, false, &length);
        if (sink->prompt_bits)
            show_surprising(sink, piece, length, sink->prompt_bits[i]);
        else if (utf8_stream_push(&characters, piece, length, &out, &length, NULL))
            output_text(out, length);
        else
            sink->out_of_memory = true;
    }
    utf8_stream_flush(&characters, &out, &rest);
    output_text(out, rest);
    utf8_stream_free(&characters);
    output_flush();
    sink->begun = true;
}

// ---- lines and recordings ----

// `sampled` with --record.
static bool record_token(void *context, int32_t id, const float *logits, Error *error) {
    Sink *sink = context;
    RecordedToken token = recorded_token(id, limpid_sampler_number(sink->sampler), logits,
                                         sink->session->config->vocab_size);
    return recording_add(&sink->recording, &token, error);
}

// `token` with --ids or --logprobs: one line.
static void print_token(void *context, int32_t id, const float *logits, const char *piece,
                        size_t length) {
    Sink *sink = context;
    if (option_given(sink->session->options, OPTION_LOGPROBS))
        logprobs_print(&sink->logprobs, id, logits, piece, length);
    else
        output_print("%" PRId32 "\n", id);
    output_flush();
}

// Without -c there would be nothing that a token does not see.
static bool plan_sinks(Session *s, Error *error) {
    const Options *o = s->options;
    if (o->overflow != OVERFLOW_SINKS) return true;
    if (option_given(o, OPTION_CONTEXT)) return session_use_sinks(s, (int)o->context, error);
    return error_set(error, ERROR_USAGE,
                     "--context-overflow sinks wants -c N, how many tokens each one sees; the "
                     "model has room for %d",
                     s->config->max_seq_len);
}

// *max_new: how many new tokens; *context: positions of the cache. -n counts forward passes as
// llama2.c does: the first one takes the first token (BOS), and N of them give N tokens after it.
static bool plan_length(Session *s, size_t prompt, size_t *max_new, int *context, Error *error) {
    const Options *o = s->options;
    int64_t limit = option_given(o, OPTION_CONTEXT) ? o->context : s->config->max_seq_len;
    // With sinks -c is what a token sees, and the cache holds all of the text.
    if (o->overflow == OVERFLOW_SINKS && limit < s->config->max_seq_len)
        limit = s->config->max_seq_len;
    // The context is no larger than this run can use, since the cache is allocated as a whole.
    if (!session_check_context(s, error) ||
        !session_check_room("the prompt", prompt, limit, error) || !plan_sinks(s, error))
        return false;
    int64_t count = o->max_tokens;
    if (option_given(o, OPTION_STEPS)) {
        // 0: more than fit, so that the context ends the text; one that shifts has no end.
        int64_t all = o->overflow == OVERFLOW_SHIFT ? INT64_MAX / 2 : limit + 1;
        int64_t steps = o->steps ? o->steps : all;
        int64_t after_prompt = steps + 1 - (int64_t)prompt;
        if (!option_given(o, OPTION_MAX_TOKENS) || after_prompt < count) count = after_prompt;
    }
    if (count < 0) count = 0;
    if (!count && o->max_tokens && !o->quiet)
        note("-n %" PRId64 " counts all tokens but the first, %zu of the prompt among them, as in "
             "llama2.c, so none is new; --max-tokens %" PRId64 " counts new ones",
             o->steps, prompt ? prompt - 1 : 0, o->steps);
    *max_new = (size_t)count;
    int64_t needed = (int64_t)prompt + count;
    bool whole = option_given(o, OPTION_CONTEXT) && o->overflow != OVERFLOW_SINKS;
    *context = (int)(whole || needed > limit ? limit : needed);
    return true;
}

// One object, after the text is complete. docs/scripting.md describes the keys.
static void print_json(const Generation *g, const IdList *prompt, const Sink *sink) {
    JsonWriter w = {0};
    char hash[FNV_HEX];
    snprintf(hash, sizeof hash, "%016" PRIx64, g->logits_hash);
    writer_begin(&w, NULL, '{');
    writer_ids(&w, "prompt_ids", prompt->ids, prompt->count);
    writer_ids(&w, "ids", g->ids.ids, g->ids.count);
    if (g->session->tokenizer)
        writer_text(&w, "text", sink->text ? sink->text : "", sink->length);
    else
        writer_string(&w, "text", NULL);
    writer_string(&w, "stop", stop_reason_name(g->stop));
    writer_string(&w, "logits_hash", hash);
    if (g->session->options->cache) writer_integer(&w, "cached_tokens", (int64_t)g->cached);
    if (g->shifts) writer_integer(&w, "context_shifts", (int64_t)g->n_shifts);
    writer_number(&w, "prompt_tokens_per_second", prompt_rate(g));
    writer_number(&w, "decode_tokens_per_second", decode_rate(g));
    writer_number(&w, "time_to_first_token_s",
                  g->first_token_at ? g->first_token_at - g->session->started : NAN);
    if (g->session->options->draft || g->session->options->speculate) {
        writer_integer(&w, "drafted_tokens", (int64_t)g->drafts.drafted);
        writer_integer(&w, "accepted_tokens", (int64_t)g->drafts.accepted);
    }
    writer_integer(&w, "peak_memory_bytes", (int64_t)peak_memory_bytes());
    writer_end(&w, '}');
    writer_line(&w);
}

// What a full context has meant.
static void print_overflow(const Generation *g) {
    const Options *o = g->session->options;
    int context = g->session->model->options.context;
    size_t seen = (size_t)o->context, all = g->prompt_tokens + g->ids.count;
    if (g->stop == STOP_CONTEXT) note("the context of %d tokens is full", context);
    if (o->quiet) return;
    if (g->n_shifts)
        note("the context of %d tokens was full %zu time%s: the oldest left it, and the other %zu "
             "were read again as a text of their own",
             context, g->n_shifts, g->n_shifts == 1 ? "" : "s", g->kept);
    if (o->overflow == OVERFLOW_SINKS && all > seen)
        note("from token %zu on each saw the first %d tokens and the newest %zu (attention sinks), "
             "at their places in the text, none of those between",
             seen + 1, SESSION_SINKS, seen - SESSION_SINKS);
}

// After a failure of standard output only its error line is printed.
static void print_end(const Generation *g) {
    const Options *o = g->session->options;
    if (!output_good()) return;
    print_overflow(g);
    print_incomplete(g);
    if (o->quiet) return;
    session_hint_at_chat(g->session);
    print_statistics(g);
}

// Whether the text is coloured. It is not where the environment forbids colours, which is said
// once.
static bool wants_surprise(const Session *s) {
    const Options *o = s->options;
    if (o->color != COLOR_SURPRISE) return false;
    if (output_window(o->color).colors != COLORS_NONE) return true;
    if (!o->quiet) note("NO_COLOR or TERM=dumb is set: the text has no colours");
    return false;
}

// False: exit code 5.
static bool open_surprise(Sink *sink, Generation *g, Error *error) {
    const Session *s = g->session;
    size_t count = sink->prompt->count;
    if (!wants_surprise(s)) return true;
    sink->surprise = (Surprise){.colors = output_window(s->options->color).colors,
                                .vocab_size = s->config->vocab_size};
    sink->prompt_bits = malloc(count * sizeof *sink->prompt_bits);
    if (!sink->prompt_bits)
        return error_set(error, ERROR_MEMORY, "no memory for %zu tokens", count);
    for (size_t i = 0; i < count; i++)
        sink->prompt_bits[i] = NAN;
    g->wants_logits = true;
    g->read = weigh_prompt;
    g->before = weigh_token;
    g->show = print_surprising;
    return true;
}

static void end_text(Sink *sink) {
    if (sink->prompt_bits) surprise_end(&sink->surprise);
    if (sink->begun) output_bytes("\n", 1);
}

static void sink_free(Sink *sink) {
    surprise_free(&sink->surprise);
    free(sink->prompt_bits);
    free(sink->text);
}

// ---- the recording ----

// Its size is known at the end only, and a text has gone by then: so it is asked here whether it
// can be written.
static bool open_record(RecordFile *file, const Options *o, Error *error) {
    if (!o->record) return true;
    file->out = (OutputFile){.path = o->record, .inputs = &file->inputs, .force = o->force};
    if (o->cache && !file_set_add(&file->inputs, o->cache, error)) return false;
    return inputs_find(&file->inputs, o, error) && inputs_check(&file->out, o, error);
}

static bool prepare_record(RecordFile *file, const Session *s, size_t prompt, size_t max_new,
                           int context, Error *error) {
    return !s->options->record || (recording_check(prompt, max_new, context, error) &&
                                   model_digest(file->digest, s, error));
}

// A text that Ctrl-C ended is one too.
static bool write_record(Sink *sink, const Generation *g, const RecordFile *file, Error *error) {
    Recording *r = &sink->recording;
    r->stop = g->stop;
    memcpy(r->digest, file->digest, sizeof r->digest);
    r->text = !sink->session->tokenizer ? NULL : sink->text ? sink->text : "";
    r->text_length = sink->length;
    return recording_write(r, &file->out, error);
}

// ---- the text ----

// What the options ask to be called for.
static void choose_callbacks(Generation *g, const Options *o) {
    bool prints_lines = o->ids || option_given(o, OPTION_LOGPROBS);
    bool prints_text = !prints_lines && !o->json;
    g->wants_hash = o->json;
    g->wants_logits = option_given(o, OPTION_LOGPROBS);
    if (prints_text) g->begin = echo_prompt;
    g->show = prints_text ? print_text : o->json || o->record ? collect_text : NULL;
    // A JSON object holds the ids itself; log-probabilities are lines before it.
    if (prints_lines && !(o->json && o->ids)) g->token = print_token;
    if (o->record) g->sampled = record_token;
}

// One of three outputs: the text as it comes, a line per token, or a JSON object at the end.
static bool generate_text(Session *s, const IdList *prompt, size_t max_new, Files *files,
                          Speculation *speculation, Error *error) {
    const Options *o = s->options;
    Sink sink = {.session = s,
                 .prompt = prompt,
                 .logprobs = {.tokenizer = s->tokenizer,
                              .vocab_size = s->config->vocab_size,
                              .count = (int)o->logprobs},
                 .cache = files->cache};
    uint64_t seed = 0;
    Generation g = {
        .session = s,
        .sampler = open_sampler(s, &(SamplerWanted){0}, &seed, error),
        .max_new = max_new,
        .stops = &o->stops,
        .speculation = speculation,
        .ignore_eos = o->ignore_eos,
        .no_cache = o->no_cache,
        .shifts = o->overflow == OVERFLOW_SHIFT,
        .catch_interrupt = true,
        .told_seed = !option_given(o, OPTION_SEED) && o->temperature > 0 ? &seed : NULL,
        .first =
            prompt->count == 1 && s->tokenizer && prompt->ids[0] == tokenizer_bos(s->tokenizer),
        .cached = prompt_cache_used(files->cache),
        .was_read = keep_prompt,
        .context = &sink,
    };
    if (!g.sampler) return false;
    sink.sampler = g.sampler;
    choose_callbacks(&g, o);
    bool good = !o->record || recording_describe(&sink.recording, s, prompt, max_new, seed, error);
    good = good && open_surprise(&sink, &g, error) &&
           begin_text(g.sampler, prompt->ids, prompt->count, g.first, error) &&
           generation_run(&g, prompt->ids, prompt->count, error);
    interrupt_end();
    end_text(&sink);
    if (sink.out_of_memory) good = error_set(error, ERROR_MEMORY, "text: out of memory");
    // Where standard output failed, the text ended there and not where it was to end.
    if (good && o->record && output_good()) good = write_record(&sink, &g, &files->record, error);
    if (good && o->json) print_json(&g, prompt, &sink);
    output_flush();
    if (good && sink.prompt_bits && !o->quiet) surprise_print_legend(&sink.surprise);
    if (good) print_end(&g);
    if (good && g.stop == STOP_INTERRUPT) good = error_set(error, ERROR_INTERRUPTED, "interrupted");
    limpid_sampler_close(g.sampler);
    generation_free(&g);
    recording_free(&sink.recording);
    sink_free(&sink);
    return good;
}

// Rows of logits that are kept of a pass: with --color surprise several of the prompt, to read it
// faster.
static int logit_rows(const Session *s, size_t prompt, const Drafting *drafting) {
    bool several = s->options->color == COLOR_SURPRISE;
    int rows = several ? session_rows(prompt, 2 * (size_t)s->config->vocab_size) : 1;
    int drafts = drafting_rows(drafting);
    return rows > drafts ? rows : drafts;
}

// Options that say something of --prompts alone.
static bool check_prompts(const Options *o, Error *error) {
    static const OptionId OF_PROMPTS[] = {OPTION_OUT, OPTION_PARALLEL, OPTION_RESUME, OPTION_SHARD};
    const char *name = options_first_given(o, OF_PROMPTS, sizeof OF_PROMPTS / sizeof *OF_PROMPTS);
    return !name || error_set(error, ERROR_USAGE, "--%s goes with --prompts FILE", name);
}

// -m chat is another command, which would pass over what it does not have.
static bool check_mode(const Options *o, Error *error) {
    for (const OptionRow *row = option_rows(); row->name && o->mode == MODE_CHAT; row++)
        if (option_given(o, row->id) && !option_is_of(row->name, strlen(row->name), FOR_CHAT))
            return error_set(error, ERROR_USAGE, "--%s does not go with -m chat", row->name);
    return true;
}

// What goes with no other option, before anything is opened.
static bool check_options(const Options *o, Error *error) {
    return check_prompts(o, error) && surprise_check(o, error) && sampling_check(o, error) &&
           drafting_check(o, error) && prompt_cache_check(o, error) && check_mode(o, error) &&
           recording_allows(o, error);
}

bool generate_command(const Options *options, Error *error) {
    if (options->prompts) return prompts_command(options, error);
    if (!check_options(options, error)) return false;
    if (options->mode == MODE_CHAT) return chat_command(options, error);
    sampling_note(options);
    const char *of_chat = options->system          ? "-y is the system prompt"
                          : options->chat_template ? "--template is the format"
                                                   : NULL;
    if (of_chat && !options->quiet)
        note("%s of a conversation (`run chat`); a plain text has none", of_chat);
    Session s = {0};
    Files files = {0};
    IdList prompt = {0};
    Drafting *drafting = NULL;
    size_t max_new = 0;
    int context = 0;
    // The prompt is encoded before the model is opened: its length decides the context.
    bool good = check_prompt(options, error) && open_record(&files.record, options, error) &&
                prompt_cache_open(&files.cache, options, error) &&
                session_open(&s, options, error) && session_open_grammar(&s, error) &&
                drafting_open(&drafting, &s, error) && prompt_encode(&prompt, &s, error);
    bool wants_text = !options->ids && !option_given(options, OPTION_LOGPROBS) && !options->json;
    good = good && (!wants_text || session_need_tokenizer(&s, error)) &&
           plan_length(&s, prompt.count, &max_new, &context, error) &&
           prepare_record(&files.record, &s, prompt.count, max_new, context, error) &&
           prompt_cache_digest(files.cache, &s, error) &&
           session_open_model(
               &s,
               &(SessionModel){.context = context,
                               .max_logit_rows = logit_rows(&s, prompt.count, drafting)},
               error);
    good = good && drafting_begin(drafting, &s, error) &&
           session_intervene(&s, prompt.ids, prompt.count, error) &&
           prompt_cache_restore(files.cache, &s, &prompt, error) &&
           generate_text(&s, &prompt, max_new, &files, drafting_speculation(drafting), error);
    drafting_close(drafting);
    prompt_cache_close(files.cache);
    file_set_free(&files.record.inputs);
    id_list_free(&prompt);
    session_close(&s);
    return good;
}
