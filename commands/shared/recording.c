// Collects a recording and writes it; replay/read.c reads it. An option is written under its long
// name and read within its row's range, so that the table of options is the only list of both.
#include "commands/shared/recording.h"
#include "base/buffer.h"
#include "commands/commands.h"
#include "commands/shared/logprobs.h"
#include "commands/shared/output.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const OptionId RECORDED_OPTIONS[] = {
    OPTION_TEMPERATURE,
    OPTION_TOP_P,
    OPTION_TOP_K,
    OPTION_MIN_P,
    OPTION_TYPICAL_P,
    OPTION_REPEAT_PENALTY,
    OPTION_PRESENCE_PENALTY,
    OPTION_FREQUENCY_PENALTY,
    OPTION_REPEAT_LAST,
    OPTION_SEED,
    OPTION_MAX_TOKENS,
    OPTION_STOP,
    OPTION_IGNORE_EOS,
    OPTION_SPECIAL,
    OPTION_TOKENIZER,
    OPTION_THREADS,
    OPTION_CONTEXT,
    OPTION_KV,
    OPTION_PRECISION,
    OPTION_PATTERN,
    OPTION_NO_CACHE,
    OPTION_LOGIT_BIAS, // from here on only those that were given
    OPTION_XTC_PROBABILITY,
    OPTION_XTC_THRESHOLD,
    OPTION_DRY_MULTIPLIER,
    OPTION_DRY_BASE,
    OPTION_DRY_ALLOWED_LENGTH,
    OPTION_DRY_LAST,
    OPTION_DRY_BREAKERS,
    OPTION_MIROSTAT,
    OPTION_MIROSTAT_LR,
    OPTION_MIROSTAT_ENT,
    OPTION_COUNT,
};

const OptionRow *recorded_option(OptionId id) {
    const OptionRow *row = option_rows();
    while (row->id != id)
        row++;
    return row;
}

// By the list above, whose order is its own: OptionId has another.
bool recorded_if_given(OptionId id) {
    const OptionId *at = RECORDED_OPTIONS;
    while (*at != OPTION_LOGIT_BIAS)
        at++;
    while (*at != OPTION_COUNT && *at != id)
        at++;
    return *at == id;
}

// ---- the model's digest ----

// Name, type and shape come first, so that tensors cannot change places.
static void hash_tensor(uint64_t lanes[8], const TensorPlan *t) {
    fnv1a_lanes(lanes, t->name, strlen(t->name));
    fnv1a_lanes(lanes, &t->dtype, sizeof t->dtype);
    fnv1a_lanes(lanes, t->shape, t->n_dims * sizeof *t->shape);
    fnv1a_lanes(lanes, t->data, t->bytes);
    if (t->scales) fnv1a_lanes(lanes, t->scales, plan_elements(t) / t->group_size * sizeof(float));
}

bool model_digest(char out[FNV_HEX], const Session *s, Error *error) {
    uint64_t lanes[8];
    size_t count = 0;
    const TensorPlan *tensors = checkpoint_tensors(s->checkpoint, &count);
    Progress progress;
    progress_begin(&progress, "digest", s->options->quiet);
    fnv1a_lanes_begin(lanes);
    config_hash(lanes, s->config);
    for (size_t i = 0; i < count; i++) {
        hash_tensor(lanes, &tensors[i]);
        progress_update(&progress, (double)(i + 1) / (double)count);
    }
    progress_end(&progress);
    snprintf(out, FNV_HEX, "%016" PRIx64, fnv1a_lanes_end(lanes));
    return session_result(s, true, error);
}

// ---- collecting ----

// More would be refused by replay, so they are refused here, before the work.
bool recording_check(size_t prompt, size_t max_new, int context, Error *error) {
    size_t room = (size_t)context - prompt + 1;
    size_t tokens = max_new < room ? max_new : room;
    if (prompt > RECORDING_MOST_TOKENS)
        return error_set(error, ERROR_USAGE,
                         "--record: the prompt has %zu tokens, a recording at most %d", prompt,
                         RECORDING_MOST_TOKENS);
    if (tokens <= RECORDING_MOST_TOKENS) return true;
    return error_set(error, ERROR_USAGE,
                     "--record: this may give %zu tokens, a recording has at most %d "
                     "(--max-tokens N)",
                     tokens, RECORDING_MOST_TOKENS);
}

bool recording_describe(Recording *r, const Session *s, const IdList *prompt, size_t max_new,
                        uint64_t seed, Error *error) {
    const DeviceInfo *device = device_info(s->model->device);
    r->options = *s->options;
    r->options.seed = seed;
    r->options.max_tokens = (int64_t)max_new;
    r->options.context = s->model->options.context;
    r->options.threads.values[0] = device->threads;
    r->device = device->description;
    r->version = LIMPID_VERSION;
    r->vocab_size = s->config->vocab_size;
    for (size_t i = 0; i < prompt->count; i++)
        if (!id_list_push(&r->prompt, prompt->ids[i], error)) return false;
    return true;
}

RecordedToken recorded_token(int32_t id, float uniform, const float *logits, int vocab_size) {
    double total = log_sum_exp_f64(logits, vocab_size);
    RecordedToken t = {.id = id,
                       .other = -1,
                       .uniform = uniform,
                       .hash = fnv1a(FNV_START, logits, (size_t)vocab_size * sizeof *logits),
                       .logit = logits[id],
                       .probability = exp((double)logits[id] - total)};
    for (int i = 0; i < vocab_size; i++)
        if (i != id && (t.other < 0 || logits[i] > logits[t.other])) t.other = i;
    if (t.other < 0) return t;
    t.other_logit = logits[t.other];
    t.other_probability = exp((double)t.other_logit - total);
    return t;
}

bool recording_add(Recording *r, const RecordedToken *token, Error *error) {
    if (r->n_tokens == r->capacity) {
        size_t capacity = r->capacity ? 2 * r->capacity : 64;
        RecordedToken *grown = realloc(r->tokens, capacity * sizeof *grown);
        if (!grown)
            return error_set(error, ERROR_MEMORY, "no memory for %zu recorded tokens", capacity);
        r->tokens = grown;
        r->capacity = capacity;
    }
    r->tokens[r->n_tokens++] = *token;
    return true;
}

void recording_free(Recording *r) {
    id_list_free(&r->prompt);
    free(r->tokens);
    arena_free(&r->arena);
    *r = (Recording){0};
}

// A recording is JSON, whose texts are UTF-8: other bytes would come back as other bytes.
static bool check_text(const char *text, const char *what, Error *error) {
    for (size_t left = text ? strlen(text) : 0, used; left; text += used, left -= used) {
        uint32_t codepoint;
        used = utf8_decode(text, left, &codepoint);
        if (!used)
            return error_set(error, ERROR_USAGE, "--record: %s is not UTF-8, which JSON must be",
                             what);
    }
    return true;
}

static bool check_texts(const TextList *list, const char *what, Error *error) {
    for (int i = 0; i < list->count; i++)
        if (!check_text(list->texts[i], what, error)) return false;
    return true;
}

// A replay has the model alone, in one context.
bool recording_allows(const Options *o, Error *error) {
    const char *excluded = o->overflow != OVERFLOW_STOP   ? "--context-overflow"
                           : o->ablate                    ? "--ablate"
                           : o->patches.count             ? "--patch"
                           : o->steers.count              ? "--steer"
                           : o->grammar || o->json_schema ? "--grammar and --json-schema"
                                                          : NULL;
    if (o->record && excluded)
        return error_set(error, ERROR_USAGE,
                         "--record excludes %s: a replay has the model alone, in one context",
                         excluded);
    return !o->record || (check_texts(&o->stops, "--stop", error) &&
                          check_texts(&o->dry_breakers, "--dry-sequence-breaker", error) &&
                          check_text(o->model, "the path of the model", error) &&
                          check_text(o->tokenizer, "--tokenizer", error));
}

// ---- writing ----

// A string, or null.
static void put_text(Buffer *b, const char *text) {
    if (text)
        buffer_quote(b, text, strlen(text));
    else
        buffer_print(b, "null");
}

static void put_texts(Buffer *b, const TextList *list) {
    for (int i = 0; i < list->count; i++) {
        buffer_print(b, i ? "," : "[");
        put_text(b, list->texts[i]);
    }
    buffer_print(b, list->count ? "]" : "[]");
}

// The word of a choice: the index-th of "f32|f16|bf16".
static void put_choice(Buffer *b, const char *choices, int index) {
    for (; index; index--)
        choices += strcspn(choices, "|") + 1;
    buffer_quote(b, choices, strcspn(choices, "|"));
}

// As short as it reads back the same.
static void put_number(Buffer *b, double value) {
    char text[32];
    snprintf(text, sizeof text, "%.15g", value);
    if (strtod(text, NULL) != value) snprintf(text, sizeof text, "%.17g", value);
    buffer_print(b, "%s", text);
}

// A seed is a text, since JSON readers keep 53 bits of a number.
static void put_option(Buffer *b, const OptionRow *row, const Options *o) {
    const void *field = (const char *)o + row->offset;
    buffer_print(b, "\"%s\":", row->name);
    switch (row->kind) {
    case KIND_FLAG: buffer_print(b, "%s", *(const bool *)field ? "true" : "false"); break;
    case KIND_TEXT: put_text(b, *(const char *const *)field); break;
    case KIND_TEXTS: put_texts(b, field); break;
    case KIND_INTEGER: buffer_print(b, "%" PRId64, *(const int64_t *)field); break;
    case KIND_UNSIGNED: buffer_print(b, "\"%" PRIu64 "\"", *(const uint64_t *)field); break;
    case KIND_NUMBER: put_number(b, *(const double *)field); break;
    case KIND_LIST: buffer_print(b, "%d", ((const IntegerList *)field)->values[0]); break;
    case KIND_CHOICE: put_choice(b, row->choices, *(const int *)field); break;
    }
}

static void put_token(Buffer *b, const RecordedToken *t) {
    buffer_print(b, "{\"id\":%d,\"uniform\":%.9g,\"hash\":\"%016" PRIx64 "\",", (int)t->id,
                 (double)t->uniform, t->hash);
    buffer_print(b, "\"logit\":%.9g,\"probability\":%.9g,", (double)t->logit, t->probability);
    if (t->other < 0)
        buffer_print(b, "\"other\":null}");
    else
        buffer_print(b, "\"other\":{\"id\":%d,\"logit\":%.9g,\"probability\":%.9g}}", (int)t->other,
                     (double)t->other_logit, t->other_probability);
}

void recording_put_options(Buffer *b, const Options *o, const OptionId *without) {
    const char *between = "{";
    for (size_t i = 0; RECORDED_OPTIONS[i] != OPTION_COUNT; i++) {
        OptionId id = RECORDED_OPTIONS[i];
        const OptionId *left_out = without;
        while (*left_out != OPTION_COUNT && *left_out != id)
            left_out++;
        if (*left_out == id || (recorded_if_given(id) && !option_given(o, id))) continue;
        buffer_print(b, "%s", between);
        put_option(b, recorded_option(id), o);
        between = ",";
    }
    buffer_print(b, "}");
}

static void put_recording(Buffer *b, const Recording *r) {
    buffer_print(b, "{\"format\":\"%s\",\"limpid\":\"%s\",\n\"device\":", RECORDING_FORMAT,
                 r->version);
    put_text(b, r->device);
    buffer_print(b, ",\n\"model\":{\"path\":");
    put_text(b, r->options.model);
    buffer_print(b, ",\"digest\":\"%s\",\"vocab_size\":%d},\n\"options\":", r->digest,
                 r->vocab_size);
    recording_put_options(b, &r->options, &(OptionId){OPTION_COUNT});
    buffer_print(b, ",\n\"prompt_ids\":[");
    for (size_t i = 0; i < r->prompt.count; i++)
        buffer_print(b, "%s%d", i ? "," : "", (int)r->prompt.ids[i]);
    buffer_print(b, "],\n\"tokens\":[");
    for (size_t i = 0; i < r->n_tokens; i++) {
        buffer_print(b, i ? ",\n" : "\n");
        put_token(b, &r->tokens[i]);
    }
    buffer_print(b, "],\n\"stop\":\"%s\",\"text\":", stop_reason_name(r->stop));
    if (r->text)
        buffer_quote(b, r->text, r->text_length);
    else
        buffer_print(b, "null");
    buffer_print(b, "}\n");
}

bool recording_write(const Recording *r, const OutputFile *place, Error *error) {
    Buffer b = {0};
    put_recording(&b, r);
    bool good = !b.failed || error_set(error, ERROR_MEMORY, "no memory for the recording");
    if (good && b.size > RECORDING_MOST_BYTES)
        good = error_set(error, ERROR_USAGE, "--record: %zu bytes, a recording has at most %d",
                         b.size, RECORDING_MOST_BYTES);
    if (good) good = file_write(place, b.bytes, b.size, error);
    buffer_free(&b);
    return good;
}
