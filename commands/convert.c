// convert: a model from any container into a GGUF or a directory of safetensors, tensor by tensor,
// never the whole of it in memory. The output appears whole or not at all.
//
//   path of OUT -> may it be written? -> open the model -> --importance: run it over a text
//     -> plan names and types of all tensors
//     -> open the output (GGUF keys, or config.json and the tokenizer's files)
//     -> for each tensor: read rows, convert, write -> put all files in their place -> --check
//
// Which name and type a tensor gets is decided in weights/out/; the other files of a directory are
// written by convert/files.c.
#include "commands/convert/convert.h"
#include "commands/commands.h"
#include "commands/shared/interrupt.h"
#include "commands/shared/output.h"
#include "tokenizer/tokenizer.h"
#include "weights/llama2c/llama2c.h"
#include "weights/out/gguf.h"
#include "weights/out/write.h"
#include "weights/quant.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Bytes of output that are in memory at once, but at least one row of a tensor.
enum { CHUNK_BYTES = 4 << 20 };

typedef struct Conversion {
    Session *session;
    OutPlace place;
    TypesWanted types;
    SampleText calibration, sample; // of --importance, --check
    Importance importance;
    Outgoing out;
    Encoder encoder;
    TensorWriter *file;
    uint64_t written, total; // bytes
    Progress progress;
} Conversion;

// ---- tensors ----

static bool put_rows(Conversion *c, size_t i, uint64_t first, uint64_t count, const uint8_t *bytes,
                     Error *error) {
    size_t row_bytes = outgoing_row_bytes(&c->out, i);
    if (c->place.kind == OUT_BIN)
        return llama2c_put(c->file, &c->out, i, first, count, bytes, error);
    return tensor_writer_put(c->file, i, first * row_bytes, bytes, count * row_bytes, error);
}

// Tensor i in chunks of whole rows, `bytes` being room for one chunk. False: the file is
// incomplete, and what was written is removed by tensor_writer_close.
static bool convert_tensor(Conversion *c, size_t i, uint8_t *bytes, Error *error) {
    size_t row_bytes = outgoing_row_bytes(&c->out, i);
    uint64_t rows = outgoing_row_count(&c->out, i), first = 0;
    uint64_t chunk = row_bytes < CHUNK_BYTES ? CHUNK_BYTES / row_bytes : 1;
    for (; first < rows; first += chunk) {
        if (chunk > rows - first) chunk = rows - first;
        if (!encoder_rows(&c->encoder, i, first, (size_t)chunk, bytes, error) ||
            !put_rows(c, i, first, chunk, bytes, error))
            return false;
        c->written += chunk * row_bytes;
        progress_update(&c->progress, (double)c->written / (double)c->total);
    }
    return true;
}

// One buffer for all tensors: CHUNK_BYTES, or the longest row. session_result comes last, since a
// file that is cut short reads as zeros.
static bool convert_tensors(Conversion *c, Error *error) {
    size_t room = CHUNK_BYTES;
    for (size_t i = 0; i < c->out.n; i++) {
        if (outgoing_row_bytes(&c->out, i) > room) room = outgoing_row_bytes(&c->out, i);
        c->total += c->out.tensors[i].bytes;
    }
    uint8_t *bytes = malloc(room);
    bool good = bytes || error_set(error, ERROR_MEMORY, "out of memory: %zu bytes", room);
    int threads = (int)c->session->options->threads.values[0];
    good = good && encoder_open(&c->encoder, &c->out, threads, error);
    progress_begin(&c->progress, "converting", c->session->options->quiet);
    for (size_t i = 0; good && i < c->out.n; i++)
        good = convert_tensor(c, i, bytes, error);
    progress_end(&c->progress);
    free(bytes);
    good = good && checkpoint_check_whole(c->session->checkpoint, error);
    return session_result(c->session, good, error);
}

// ---- the containers ----

// The vocabulary of the output: the model's own, else its tokenizer's. If that cannot be exported,
// it is an error where -z named it; else a note says so and the output has none.
static bool find_vocabulary(const Session *s, Vocabulary *v, Arena *arena, Error *error) {
    const Vocabulary *inside = checkpoint_vocabulary(s->checkpoint);
    *v = *inside;
    if (inside->model && !s->options->tokenizer) return true;
    TextSpan chat_template = inside->chat_template;
    Error cause = {0};
    const char *problem = s->file->no_tokenizer.message;
    if (s->tokenizer && tokenizer_export(s->tokenizer, v, arena, &cause)) {
        // llama2.c's models end a text with BOS, other programs look for EOS.
        int32_t stop = -1;
        size_t stops = tokenizer_stops(s->tokenizer, &stop, 1);
        if (stops && (is_llama2c(s->checkpoint) || !s->config->n_eos_ids)) v->eos_id = stop;
        v->chat_template = chat_template;
        return true;
    }
    if (cause.code == ERROR_MEMORY) return error_copy(error, &cause);
    if (cause.code && s->options->tokenizer) {
        error_copy(error, &cause);
        return error_prefix(error, s->options->tokenizer);
    }
    *v = VOCABULARY_ABSENT;
    if (cause.code) problem = cause.message;
    // A tokenizer that is there and lost is no matter of -q.
    if (!s->options->quiet || cause.code) note("the tokenizer is left out: %s", problem);
    return true;
}

static bool is_utf8(TextSpan text) {
    uint32_t c;
    for (size_t i = 0, n; i < text.length; i += n)
        if (!(n = utf8_decode(text.text + i, text.length - i, &c))) return false;
    return true;
}

// general.name of the output: the model's own name, else the last part of its path; bytes that are
// no UTF-8, as no GGUF may have them, are escaped into `escaped`.
static TextSpan find_name(char escaped[128], const Session *s) {
    const char *path = checkpoint_path(s->checkpoint);
    TextSpan name = checkpoint_name(s->checkpoint);
    if (!name.length) {
        size_t end = strlen(path);
        while (end > 1 && path[end - 1] == '/')
            end--;
        size_t begin = end;
        while (begin && path[begin - 1] != '/')
            begin--;
        name = (TextSpan){path + begin, end - begin};
    }
    if (is_utf8(name)) return name;
    escape_bytes(escaped, 128, name.text, name.length);
    return (TextSpan){escaped, strlen(escaped)};
}

// A GGUF is one file: the vocabulary is among its keys.
static bool open_gguf(Conversion *c, const Vocabulary *vocabulary, Error *error) {
    GgufKeys keys = {0};
    OutputFile place;
    char escaped[128];
    TextSpan name = find_name(escaped, c->session);
    if (gguf_put_model(&keys, &c->out, vocabulary, name, error) &&
        out_place_tensors(&c->place, &place, error))
        c->file = gguf_writer_open(&place, &keys, c->out.tensors, c->out.n, error);
    gguf_keys_free(&keys);
    return c->file;
}

// `vocabulary` NULL: the tokenizer's files are copied from the model's directory.
static bool open_safetensors(Conversion *c, const Vocabulary *vocabulary, Error *error) {
    static const WriteMetadata METADATA[] = {{"format", "pt"}}; // transformers insists on it
    OutputFile place;
    WriteTensor *tensors = calloc(c->out.n + 1, sizeof *tensors);
    if (!tensors) return error_set(error, ERROR_MEMORY, "out of memory for %zu tensors", c->out.n);
    for (size_t i = 0; i < c->out.n; i++) {
        const TensorPlan *t = &c->out.tensors[i];
        tensors[i] = (WriteTensor){.name = t->name,
                                   .type = dtype_info(t->dtype)->name,
                                   .rank = t->n_dims,
                                   .shape = {t->shape[0], t->shape[1]}};
    }
    if (out_place_fill(&c->place, c->session, &c->out, vocabulary, error) &&
        out_place_tensors(&c->place, &place, error))
        c->file = safetensors_writer_open(&place, tensors, c->out.n, METADATA, 1, error);
    free(tensors);
    return c->file;
}

// A .bin has no vocabulary, and llama2.c no other way to find one than its own tokenizer.bin.
static bool open_bin(Conversion *c, Error *error) {
    OutputFile place;
    if (!out_place_tensors(&c->place, &place, error)) return false;
    c->file = llama2c_writer_open(&place, &c->out, c->types.version, error);
    if (!c->file || c->session->options->quiet) return c->file;
    note("a .bin has no tokenizer: give one with -z, or keep tokenizer.bin beside it");
    const Config *config = c->session->config;
    bool usual = config->bos_id < 0 || config->bos_id == 1;
    for (int i = 0; i < config->n_eos_ids; i++)
        usual = usual && (config->eos_ids[i] == 1 || config->eos_ids[i] == 2);
    if (!usual)
        note("a .bin names no BOS and EOS: its readers begin texts with token 1 and end them at 1 "
             "and 2, unlike this model");
    return c->file;
}

// From one directory to another the tokenizer's files are copied unchanged.
static bool open_output(Conversion *c, Error *error) {
    const Session *s = c->session;
    bool gguf = c->place.kind == OUT_GGUF;
    bool files = !gguf && !s->options->tokenizer && !is_llama2c(s->checkpoint) &&
                 !checkpoint_vocabulary(s->checkpoint)->model;
    Vocabulary vocabulary;
    Arena arena = {0};
    if (c->place.kind == OUT_BIN) return open_bin(c, error);
    bool good = files || find_vocabulary(s, &vocabulary, &arena, error);
    good = good && (gguf ? open_gguf(c, &vocabulary, error)
                         : open_safetensors(c, files ? NULL : &vocabulary, error));
    arena_free(&arena);
    return good;
}

// ---- notes ----

static void tell_window(const Conversion *c) {
    bool llama = !strcmp(c->session->config->family, "mistral") && c->place.kind == OUT_GGUF;
    if (llama && c->session->config->layers[0].window)
        note("the window is kept, but llama.cpp runs architecture llama without one");
}

static void tell_result(const Conversion *c) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < c->file->n; i++)
        bytes += c->file->tensors[i].bytes;
    note("%s: %zu tensors, %.1f MB", c->place.tensors, c->out.n, (double)bytes / 1e6);
}

// The texts are read before anything is written or computed.
static bool read_texts(Conversion *c, Error *error) {
    const Options *o = c->session->options;
    return (!o->importance ||
            sample_text_read(&c->calibration, o->importance, c->session, error)) &&
           (!o->check || sample_text_read(&c->sample, o->check, c->session, error));
}

static bool gather(Conversion *c, Error *error) {
    if (!c->session->options->importance) return true;
    if (!importance_gather(&c->importance, c->session, &c->calibration, error)) return false;
    c->types.type.importance = &c->importance.of;
    return true;
}

// A directory ends with its slash, so that none is taken for the built-in model.
static bool check(Conversion *c, Error *error) {
    const char *path = c->place.kind == OUT_DIRECTORY ? c->place.directory : c->place.tensors;
    return !c->session->options->check || check_output(c->session, &c->sample, path, error);
}

// The plan refuses what the container cannot express before a file is opened.
static bool run(Conversion *c, Error *error) {
    const Options *o = c->session->options;
    static const Naming NAMES[] = {[OUT_GGUF] = NAMES_GGUF,
                                   [OUT_BIN] = NAMES_META,
                                   [OUT_FILE] = NAMES_HF,
                                   [OUT_DIRECTORY] = NAMES_HF};
    c->types.type.stop = interrupt_flag();
    if (!outgoing_plan(&c->out, c->session->checkpoint, NAMES[c->place.kind], &c->types.type,
                       error))
        return error_prefix(error, checkpoint_path(c->session->checkpoint));
    if (!types_check(&c->types, error)) return false;
    if (!o->quiet) {
        char escaped[128], name[128];
        TextSpan own = find_name(escaped, c->session);
        escape_bytes(name, sizeof name, own.text, own.length);
        bool is_own = builtin_is_meant(checkpoint_path(c->session->checkpoint));
        types_tell(&c->out, c->place.kind, is_own ? NULL : name);
        tell_window(c);
    }
    interrupt_begin(); // from the first file on, so that Ctrl-C leaves none
    bool good = open_output(c, error) && convert_tensors(c, error) &&
                tensor_writer_finish(c->file, error) && not_stopped(interrupt_flag(), error) &&
                out_place_finish(&c->place, error);
    interrupt_end();
    if (good && !o->quiet) tell_result(c);
    return good && check(c, error);
}

bool convert_command(const Options *options, Error *error) {
    Session session = {0};
    if (!options->other)
        return error_set(error, ERROR_USAGE,
                         "convert wants a model and an output: `run convert MODEL OUT`");
    if (options->json && !options->check)
        return error_set(error, ERROR_USAGE, "--json is the form of what --check prints");
    if (option_given(options, OPTION_WINDOWS) && !options->check && !options->importance)
        return error_set(error, ERROR_USAGE, "--windows goes with --check or --importance");
    Conversion *c = calloc(1, sizeof *c); // its paths are too long for the stack
    if (!c) return error_set(error, ERROR_MEMORY, "out of memory for a conversion");
    c->session = &session;
    bool good = out_place_find(&c->place, options->other, error) &&
                out_place_check(&c->place, options, error) &&
                types_read(&c->types, options, c->place.kind, error) &&
                session_open(&session, options, error) && read_texts(c, error) &&
                gather(c, error) && run(c, error);
    tensor_writer_close(c->file);
    out_place_close(&c->place);
    outgoing_free(&c->out);
    importance_free(&c->importance);
    sample_text_free(&c->calibration);
    sample_text_free(&c->sample);
    session_close(&session);
    free(c);
    return good;
}
