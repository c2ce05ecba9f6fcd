// selftest --golden: runs a model file on the prompts of the table and compares.
//
//   file -> sha256 -> its row of the table, or none
//   session -> for each precision: open the model -> for each prompt: an empty cache, greedy tokens
//   -> a GoldenHash -> a line; at the end JSON or the count
#include "commands/selftest/golden.h"
#include "base/mapping.h"
#include "commands/shared/generation.h"
#include "commands/shared/interrupt.h"
#include "commands/shared/output.h"
#include "commands/shared/prompt.h"
#include "kernels/precision.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct GoldenRun {
    char sha256[SHA256_HEX];
    const GoldenModel *model; // NULL: not in the table
    char device[224];
    bool promised; // the backend promises the bits
    GoldenHash got[GOLDEN_PROMPTS][GOLDEN_PRECISIONS];
    int same_logits, same_texts;
} GoldenRun;

enum { RESULTS = GOLDEN_PROMPTS * GOLDEN_PRECISIONS };

// ---- the file ----

// Of the file as it lies there; of the model inside the program its bytes.
static bool file_sum(char sum[SHA256_HEX], const char *path, Error *error) {
    Mapping file = {0};
    if (builtin_is_meant(path)) {
        size_t size;
        const uint8_t *bytes = builtin_bytes(&size);
        sha256_hex(sum, bytes, size);
        return true;
    }
    if (is_directory(path))
        return error_set(error, ERROR_USAGE,
                         "%s is a directory: --golden takes one model file, .gguf or .bin", path);
    if (!mapping_open(&file, path, error)) return error_prefix(error, path);
    sha256_hex(sum, file.data, file.size);
    bool cut = mapping_damaged(&file);
    mapping_close(&file);
    return !cut || error_set(error, ERROR_IO, "%s: the file was cut short while in use", path);
}

// ---- one result ----

static void hash_text(void *context, const char *bytes, size_t length) {
    uint64_t *hash = context;
    *hash = fnv1a(*hash, bytes, length);
}

// Into an empty cache.
static bool run_prompt(GoldenHash *out, Session *s, const IdList *ids, Error *error) {
    limpid_error problem = {0};
    out->text = FNV_START;
    Generation g = {.session = s,
                    .sampler = limpid_sampler_open(s->context, NULL, &problem), // greedy
                    .max_new = GOLDEN_TOKENS,
                    .stops = &s->options->stops,
                    .ignore_eos = true,
                    .wants_hash = true,
                    .catch_interrupt = true,
                    .show = hash_text,
                    .context = &out->text};
    kv_cache_reset(&s->model->cache, 0);
    bool good = session_problem(error, g.sampler, &problem) &&
                begin_text(g.sampler, ids->ids, ids->count, false, error) &&
                generation_run(&g, ids->ids, ids->count, error);
    interrupt_end();
    if (good && g.stop == STOP_INTERRUPT) good = error_set(error, ERROR_INTERRUPTED, "interrupted");
    if (good && output_good() && g.stop != STOP_LENGTH)
        good = error_set(error, ERROR_FILE, "a text of %d tokens ended early: %s", GOLDEN_TOKENS,
                         stop_reason_name(g.stop));
    out->logits = g.logits_hash;
    limpid_sampler_close(g.sampler);
    generation_free(&g);
    return good;
}

// ---- output ----

static const char *verdict(const GoldenRun *r, int p, int precision) {
    if (!r->model) return "computed";
    const GoldenHash *got = &r->got[p][precision], *wanted = &r->model->results[p][precision];
    if (got->logits == wanted->logits && got->text == wanted->text) return "same bits";
    return got->text == wanted->text ? "same text" : "OTHER";
}

static void print_result(const GoldenRun *r, int p, int precision) {
    const GoldenHash *got = &r->got[p][precision];
    output_print("%-10s prompt %d  %-4s logits %016" PRIx64 "  text %016" PRIx64 "\n",
                 verdict(r, p, precision), p + 1, precision_name((Precision)precision), got->logits,
                 got->text);
    output_flush();
}

static void write_hash(JsonWriter *w, const char *key, uint64_t hash) {
    char text[FNV_HEX];
    snprintf(text, sizeof text, "%016" PRIx64, hash);
    writer_string(w, key, text);
}

static void write_run(const GoldenRun *r) {
    JsonWriter w = {0};
    writer_begin(&w, NULL, '{');
    writer_string(&w, "sha256", r->sha256);
    writer_string(&w, "model", r->model ? r->model->name : NULL);
    writer_string(&w, "device", r->device);
    writer_bool(&w, "promised", r->promised);
    writer_begin(&w, "results", '[');
    for (int i = 0; i < RESULTS; i++) {
        int p = i / GOLDEN_PRECISIONS, precision = i % GOLDEN_PRECISIONS;
        writer_begin(&w, NULL, '{');
        writer_string(&w, "prompt", GOLDEN_TEXTS[p]);
        writer_string(&w, "precision", precision_name((Precision)precision));
        write_hash(&w, "logits_hash", r->got[p][precision].logits);
        write_hash(&w, "text_hash", r->got[p][precision].text);
        writer_string(&w, "result", verdict(r, p, precision));
        writer_end(&w, '}');
    }
    writer_end(&w, ']');
    writer_integer(&w, "same_logits", r->same_logits);
    writer_integer(&w, "same_texts", r->same_texts);
    writer_end(&w, '}');
    writer_line(&w);
}

// ---- the command ----

// The one precision of all prompts. The device is a new one; the weights are packed again.
static bool run_precision(GoldenRun *r, Session *s, const IdList *ids, int precision,
                          Error *error) {
    Options options = *s->options;
    const Options *theirs = s->options;
    options.precision = precision;
    options.kv = KV_F16;
    s->options = &options;
    size_t longest = 0;
    for (int p = 0; p < GOLDEN_PROMPTS; p++)
        if (ids[p].count > longest) longest = ids[p].count;
    bool good =
        session_open_model(s, &(SessionModel){.context = (int)longest + GOLDEN_TOKENS}, error);
    if (good)
        snprintf(r->device, sizeof r->device, "%s", device_info(s->model->device)->description);
    for (int p = 0; good && p < GOLDEN_PROMPTS; p++) {
        good = run_prompt(&r->got[p][precision], s, &ids[p], error);
        if (!output_good()) break; // which ends a text early
        if (good && !options.json) print_result(r, p, precision);
    }
    session_close_model(s);
    s->options = theirs;
    return good;
}

static bool encode_prompts(IdList ids[GOLDEN_PROMPTS], Session *s, Error *error) {
    Options options = *s->options;
    Session with_text = *s;
    with_text.options = &options;
    for (int p = 0; p < GOLDEN_PROMPTS; p++) {
        options.prompt = GOLDEN_TEXTS[p];
        if (!prompt_encode(&ids[p], &with_text, error)) return false;
        int most = s->config->max_seq_len, wanted = (int)ids[p].count + GOLDEN_TOKENS;
        if (wanted > most)
            return error_set(
                error, ERROR_FILE,
                "%s: a context of %d is too short: prompt %d and its text have %d tokens",
                options.model, most, p + 1, wanted);
    }
    return true;
}

static bool run_file(GoldenRun *r, const Options *options, Error *error) {
    Session s = {0};
    IdList ids[GOLDEN_PROMPTS] = {0};
    bool good = session_open(&s, options, error) && session_need_tokenizer(&s, error) &&
                encode_prompts(ids, &s, error);
    for (int precision = 0; good && output_good() && precision < GOLDEN_PRECISIONS; precision++)
        good = run_precision(r, &s, ids, precision, error);
    for (int p = 0; p < GOLDEN_PROMPTS; p++)
        id_list_free(&ids[p]);
    session_close(&s);
    return good;
}

// What was compared, and what is promised; exit code 1 where a promise is not kept.
static bool conclude(GoldenRun *r, const Options *o, Error *error) {
    // One algorithm on every instruction set; the others add in another order, or in double.
    r->promised = !strncmp(r->device, "cpu,", 4);
    for (int i = 0; r->model && i < RESULTS; i++) {
        const GoldenHash *got = &r->got[0][0] + i, *wanted = &r->model->results[0][0] + i;
        r->same_logits += got->logits == wanted->logits;
        r->same_texts += got->text == wanted->text;
    }
    if (o->json) write_run(r);
    if (!r->model)
        return error_set(error, ERROR_ANSWER_NO,
                         "%s: not in the table of docs/golden.md: sha256 %s", o->model, r->sha256);
    if (!o->json)
        output_print("%s; %s: %d of %d have the bits of the table, %d the text\n", r->model->name,
                     r->device, r->same_logits, RESULTS, r->same_texts);
    if (!r->promised && !o->json)
        output_print("The cpu backend promises these bits; this one computes in another order.\n");
    bool same = r->same_logits == RESULTS && r->same_texts == RESULTS;
    return same || !r->promised ||
           error_set(error, ERROR_ANSWER_NO, "%s: %d of %d results are not those of docs/golden.md",
                     o->model, RESULTS - r->same_logits, RESULTS);
}

static bool check_options(const Options *o, Error *error) {
    static const struct {
        OptionId id;
        const char *name;
    } OTHERS[] = {{OPTION_PROMPT, "prompt"},         {OPTION_FILE, "file"},
                  {OPTION_PROMPT_IDS, "prompt-ids"}, {OPTION_KEEP_NEWLINE, "keep-newline"},
                  {OPTION_PRECISION, "precision"},   {OPTION_KV, "kv"}};
    for (size_t i = 0; i < sizeof OTHERS / sizeof *OTHERS; i++)
        if (option_given(o, OTHERS[i].id))
            return error_set(error, ERROR_USAGE,
                             "--golden has prompts, precisions and a cache of its own: leave out "
                             "--%s",
                             OTHERS[i].name);
    return true;
}

bool golden_command(const Options *o, Error *error) {
    if (!check_options(o, error)) return false;
    if (o->markdown && !builtin_is_meant(o->model))
        return error_set(error, ERROR_USAGE,
                         "--markdown prints the page of all files: leave out the model");
    if (o->markdown &&
        (o->json || option_given(o, OPTION_TOKENIZER) || option_given(o, OPTION_THREADS)))
        return error_set(error, ERROR_USAGE,
                         "--markdown prints the page of all files, and runs nothing: "
                         "leave out --json, --tokenizer and --threads");
    if (o->markdown) {
        golden_print_page();
        return true;
    }
    GoldenRun *run = calloc(1, sizeof *run);
    if (!run) return error_set(error, ERROR_MEMORY, "no memory for the results");
    bool good = file_sum(run->sha256, o->model, error);
    if (good) run->model = golden_find(run->sha256);
    good = good && run_file(run, o, error);
    // What standard output did not take is said in the end, and is no verdict.
    good = good && (!output_good() || conclude(run, o, error));
    free(run);
    return good;
}
