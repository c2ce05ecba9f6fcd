// Opens what a command needs in the right order, and checks what every command has to check.
//
//   session_open         limpid_open: checkpoint -> tokenizer -> ids that end a text
//   session_open_model   options -> limpid_context_open, with a progress bar
//   session_feed         tokens -> passes of max_rows, with a progress bar, until Ctrl-C
//
// The order lets a command check its options against the config, and encode its prompt, before the
// weights are loaded; and lets the prompt's length decide the context.
#include "commands/shared/session.h"
#include "base/buffer.h"
#include "base/hash.h"
#include "base/sandbox.h"
#include "base/text.h"
#include "commands/shared/interrupt.h"
#include "commands/shared/output.h"
#include "commands/shared/prompt.h"
#include "model/ranks.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

bool session_problem(Error *error, bool good, const limpid_error *problem) {
    return good || error_set(error, (ErrorCode)problem->code, "%s", problem->message);
}

bool session_open_tokenizer(Session *s, const char *path, int vocab_size, Error *error) {
    bool good = own_tokenizer_open(&s->own, path, vocab_size, error);
    s->tokenizer = s->own.tokenizer;
    return good;
}

static bool open_file(Session *s, Error *error) {
    limpid_error problem = {0};
    s->file = limpid_open(s->options->model, s->options->tokenizer, &problem);
    if (!session_problem(error, s->file, &problem)) return false;
    s->checkpoint = s->file->checkpoint;
    s->config = s->file->config;
    s->tokenizer = s->file->own.tokenizer;
    return true;
}

bool session_guesses_split(const Session *s) {
    const OwnTokenizer *own = s->file ? &s->file->own : &s->own;
    const Checkpoint *from = own->owner;
    if (!from && s->file && !s->options->tokenizer) from = s->checkpoint;
    const Vocabulary *v = from ? checkpoint_vocabulary(from) : NULL;
    return s->tokenizer && v && v->model && !v->pre && !strcmp(v->model, "gpt2");
}

void session_note_split(const Session *s) {
    if (!s->options->quiet && session_guesses_split(s))
        note("the file does not say how text is split (tokenizer.ggml.pre): llama.cpp's default is "
             "used, which may be wrong");
}

bool session_open_quietly(Session *s, const Options *options, Error *error) {
    *s = (Session){.options = options, .started = seconds_now()};
    KeyPattern pattern;
    if (options->pattern && !attention_pattern_parse(&pattern, options->pattern, error))
        return false;
    return open_file(s, error) &&
           interventions_open(&s->interventions, options, s->checkpoint, error);
}

bool session_open(Session *s, const Options *options, Error *error) {
    if (!session_open_quietly(s, options, error)) return false;
    size_t unused = checkpoint_unused(s->checkpoint);
    if (unused && !options->quiet) {
        const char *name = checkpoint_unused_name(s->checkpoint, 0);
        char escaped[80];
        note("%zu tensors of the file are not used, the first is %s", unused,
             escape_bytes(escaped, sizeof escaped, name, strlen(name)));
    }
    return true;
}

bool session_need_tokenizer(const Session *s, Error *error) {
    if (s->tokenizer) return true;
    return error_copy(error, &s->file->no_tokenizer);
}

// ---- a grammar ----

// llama.cpp's option of this name takes the grammar itself.
static bool check_grammar_path(const Options *o, Error *error) {
    const char *path = o->grammar ? o->grammar : o->json_schema;
    const char *own = path + strspn(path, " \t\r\n");
    if (o->grammar && o->json_schema)
        return error_set(error, ERROR_USAGE, "a text has one of --grammar and --json-schema");
    if (!strcmp(path, "-")) // the prompt may come from there
        return error_set(error, ERROR_USAGE,
                         "%s takes the name of a file (standard input is /dev/stdin)",
                         o->grammar ? "--grammar" : "--json-schema");
    if (!strstr(own, "::=") && *own != '{') return true;
    return error_set(error, ERROR_USAGE, "%s takes the name of a file, not the text itself",
                     o->grammar ? "--grammar" : "--json-schema");
}

bool session_grammar_prefix(const Session *s, Error *error) {
    const Options *o = s->options;
    return s->grammar && error_prefix(error, o->grammar ? o->grammar : o->json_schema);
}

bool session_open_grammar(Session *s, Error *error) {
    const Options *o = s->options;
    const char *path = o->grammar ? o->grammar : o->json_schema;
    int flags =
        (o->grammar ? LIMPID_GBNF : LIMPID_JSON_SCHEMA) | (o->ignore_eos ? LIMPID_ENDLESS : 0);
    limpid_error problem = {0};
    Text text;
    TextLimit limit = {.bytes = LIMIT_GRAMMAR_BYTES};
    if (!path) return true;
    // Any file, so that a shell's <(command) is one.
    if (!check_grammar_path(o, error) || !session_need_tokenizer(s, error)) return false;
    Error cause = {0};
    if (!text_read(&text, &(Options){.file = path}, &limit, &cause)) {
        if (cause.code == ERROR_USAGE) cause.code = ERROR_FILE; // too long
        return error_copy(error, &cause);
    }
    s->grammar_digest = fnv1a(FNV_START, text.bytes, text.length);
    s->grammar = limpid_grammar_open(s->file, flags, text.bytes, text.length, &problem);
    text_free(&text);
    return session_problem(error, s->grammar, &problem) || error_prefix(error, path);
}

// Which layers are whose, and the memory of this process alone.
static void print_ranks(void) {
    Buffer line = {0};
    for (int r = 0; r < transport_count(); r++) {
        LayerRange l = ranks_layers(r);
        buffer_print(&line, "%s%d: %d-%d", r ? ", " : "", r, l.first, l.end - 1);
    }
    buffer_zeros(&line, 1);
    if (!line.failed) note("layers of ranks %s; memory is that of rank 0", (char *)line.bytes);
    buffer_free(&line);
}

// -v: what was opened and what memory it takes.
static void print_model(const Session *s) {
    const Checkpoint *c = s->checkpoint;
    ModelMemory memory = model_memory(s->model, &s->model->options);
    note("%s, %s, %.1f MB; %s", s->config->family, checkpoint_container_name(c),
         (double)checkpoint_file_bytes(c) / 1e6,
         s->tokenizer ? tokenizer_description(s->tokenizer) : "no tokenizer");
    note("%s; context %d: weights %.1f MB, cache %.1f MB, scratch %.1f MB",
         device_info(s->model->device)->description, s->model->options.context,
         memory.weights / 1e6, memory.cache / 1e6,
         (memory.scratch + memory.rope + memory.operations + memory.host) / 1e6);
    if (s->model->ranked) print_ranks();
}

bool session_open_model(Session *s, const SessionModel *wanted, Error *error) {
    const Options *o = s->options;
    Progress progress;
    progress_begin(&progress, "loading", o->quiet);
    limpid_options options = {
        .context = wanted->context ? wanted->context : s->config->max_seq_len,
        .sequences = wanted->n_sequences,
        .threads = !wanted->threads ? o->threads.values[0] : wanted->threads,
        .precision = LIMPID_F32 + (int)o->precision,
        .kv = LIMPID_KV_F32 + (int)o->kv,
        .max_rows = wanted->max_rows,
        .max_logit_rows = wanted->max_logit_rows,
        .full_cache = wanted->full_cache,
        .pattern = *s->sinks ? s->sinks : o->pattern,
        .stop = interrupt_flag(),
        .progress = progress_update,
        .user = &progress,
    };
    limpid_error problem = {0};
    s->context = limpid_context_open(s->file, &options, &problem);
    progress_end(&progress);
    if (!session_problem(error, s->context, &problem)) return false;
    s->model = s->context->run;
    if (o->verbose) print_model(s);
    return session_result(s, true, error);
}

bool session_intervene(const Session *s, const int32_t *prompt, size_t count, Error *error) {
    sandbox_close_files();
    return session_result(s, interventions_attach(s->interventions, s->model, prompt, count, error),
                          error);
}

void session_close_model(Session *s) {
    limpid_context_close(s->context);
    s->context = NULL;
    s->model = NULL;
}

// Bytes without a token are left out of a text, as the reference does; whoever gave it should know,
// also with -q: it is another text.
static void note_dropped(const Session *s) {
    int byte = s->tokenizer ? tokenizer_dropped(s->tokenizer) : -1;
    if (byte >= 0)
        note("bytes that have no token in this vocabulary were left out of the text: the first is "
             "0x%02x",
             byte);
}

void session_close(Session *s) {
    note_dropped(s);
    session_close_model(s);
    interventions_close(s->interventions);
    limpid_grammar_close(s->grammar);
    own_tokenizer_close(&s->own);
    limpid_close(s->file);
    *s = (Session){0};
}

// Weights of a file that was cut read as zeros, so the cut is the cause of the errors that follow.
bool session_result(const Session *s, bool good, Error *error) {
    const char *cut = checkpoint_damaged(s->checkpoint);
    if (!cut) return good;
    if (error) *error = (Error){0};
    return error_set(error, ERROR_IO, "%s: the file was cut short while in use", cut);
}

int session_feed_rows(const Session *s) {
    enum { CHUNKS = 16 };
    return s->model->options.max_rows * (s->model->ranked ? CHUNKS : 1);
}

int session_rows(size_t n_tokens, size_t width) {
    enum { MIN_ROWS = 8, CHUNK_BYTES = 64 << 20 };
    size_t rows = CHUNK_BYTES / sizeof(float) / (width ? width : 1);
    if (rows > SESSION_MAX_ROWS) rows = SESSION_MAX_ROWS;
    if (rows < MIN_ROWS) rows = MIN_ROWS;
    return rows > n_tokens ? (int)n_tokens : (int)rows;
}

bool session_forward(const Session *s, const Batch *batch, Error *error) {
    limpid_error problem = {0};
    limpid_batch rows = {batch->n, batch->tokens, batch->positions, batch->sequences,
                         batch->wants_logits};
    bool good = limpid_eval(s->context, &rows, &problem);
    return session_result(s, session_problem(error, good, &problem), error);
}

// An interrupted pass leaves the cache as it was, so *fed says what it holds.
bool session_feed(Session *s, const int32_t *ids, size_t count, size_t *fed, Error *error) {
    Progress progress;
    progress_begin(&progress, "prompt", s->options->quiet);
    bool good = true;
    for (*fed = 0; good && *fed < count && !interrupt_asked();) {
        size_t left = count - *fed, most = (size_t)session_feed_rows(s);
        int n = (int)(left < most ? left : most);
        Error cause = {0};
        good = session_forward(s, &(Batch){.n = n, .tokens = ids + *fed}, &cause);
        if (!good && cause.code == ERROR_INTERRUPTED) {
            good = true;
            break;
        }
        error_copy(error, &cause);
        *fed += (size_t)n;
        progress_update(&progress, (double)*fed / (double)count);
    }
    progress_end(&progress);
    return good;
}

bool session_check_context(const Session *s, Error *error) {
    const Options *o = s->options;
    if (!option_given(o, OPTION_CONTEXT) || o->context <= config_longest_context(s->config))
        return true;
    return error_set(error, ERROR_USAGE, "-c: got %" PRId64 ", the model's context is %d",
                     o->context, s->config->max_seq_len);
}

// Attention sinks: Xiao et al. 2023, arXiv 2309.17453. There positions are those in the cache; here
// they are those in the text, so that no key is changed once it is in the cache.
bool session_use_sinks(Session *s, int context, Error *error) {
    if (s->options->pattern)
        return error_set(error, ERROR_USAGE,
                         "--context-overflow sinks is a pattern itself, and excludes --pattern");
    if (context <= SESSION_SINKS)
        return error_set(error, ERROR_USAGE, "--context-overflow sinks: got -c %d, wanted over %d",
                         context, SESSION_SINKS);
    snprintf(s->sinks, sizeof s->sinks, "global:%d+window:%d", SESSION_SINKS,
             context - SESSION_SINKS);
    return true;
}

bool session_check_room(const char *what, size_t count, int64_t room, Error *error) {
    if (count <= (size_t)room) return true;
    return error_set(error, ERROR_USAGE, "%s has %zu tokens, the context room for %" PRId64, what,
                     count, room);
}

bool session_stops_at(const Session *s, int32_t id) {
    return limpid_ends(s->file, id);
}

bool session_check_ids(const Session *s, const IdList *ids, Error *error) {
    for (size_t i = 0; i < ids->count; i++)
        if (ids->ids[i] < 0 || ids->ids[i] >= s->config->vocab_size)
            return error_set(error, ERROR_USAGE, "token id %d is not below the vocabulary size %d",
                             (int)ids->ids[i], s->config->vocab_size);
    return true;
}

// __OPTIMIZE__ is the compiler's own macro.
const char *build_remark(void) {
#ifdef __OPTIMIZE__
    return "";
#else
    return "; a debug build, slow (make)";
#endif
}

uint64_t peak_memory_bytes(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    // Linux gives kilobytes.
    return (uint64_t)usage.ru_maxrss * 1024;
}

void session_backend(char out[BACKEND_NAME], const Session *s) {
    const char *description = device_info(s->model->device)->description;
    size_t length = strcspn(description, ",");
    if (!strncmp(description, "cuda,", 5)) length += 1 + strcspn(description + length + 1, ",");
    snprintf(out, BACKEND_NAME, "%.*s", (int)length, description);
}

void session_hint_at_chat(const Session *s) {
    if (s->options->prompt_ids || !s->tokenizer || !error_is_terminal()) return;
    // By its tokens alone it may be a base model.
    if (!checkpoint_vocabulary(s->checkpoint)->chat_template.length) return;
    const ChatTemplate *t = chat_format(s->checkpoint, s->tokenizer);
    if (t) note("this is a chat model (%s): `run chat` talks with it", chat_template_name(t));
}
