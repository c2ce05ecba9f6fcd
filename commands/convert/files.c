// Paths, checks and small files of convert's output. Four forms, by the name that the user gives:
//
//   OUT.gguf, OUT.bin   one file, by a FileWriter of its own
//   OUT.safetensors     OUT.safetensors, config.json, ... in the directory of OUT
//   OUT or OUT/         OUT/model.safetensors, OUT/config.json, ...
//
// The last two are a set of files (base/directory_writer.h): they appear together or not at all,
// and config.json last, since a reader begins there.
#include "base/buffer.h"
#include "base/mapping.h"
#include "base/text.h"
#include "commands/convert/convert.h"
#include "commands/shared/inputs.h"
#include "commands/shared/interrupt.h"
#include "commands/shared/output.h"
#include "tokenizer/tokenizer.h"
#include "weights/out/outgoing.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// Of OutPlace: directory + name; a directory ends with its slash. False: exit code 2.
static bool join(OutPath out, const char *directory, const char *name, Error *error) {
    if (snprintf(out, sizeof(OutPath), "%s%s", directory, name) < (int)sizeof(OutPath)) return true;
    return error_set(error, ERROR_USAGE, "a path of more than %zu bytes", sizeof(OutPath) - 1);
}

static const char SINGLE[] = "model.safetensors", INDEX[] = "model.safetensors.index.json";
static const char CONFIG[] = "config.json";

// ---- the paths of the output ----

// The extension of ours that is one slip away from the path's; NULL: none is.
static const char *misspelt_extension(const char *path) {
    static const char *const OURS[] = {".gguf", ".safetensors", ".bin"};
    const char *dot = strrchr(path, '.');
    char small[16] = "";
    for (size_t i = 0; dot && dot[i] && i + 1 < sizeof small; i++)
        small[i] = (char)tolower((unsigned char)dot[i]);
    for (size_t i = 0; i < sizeof OURS / sizeof *OURS; i++)
        if (edit_distance((TextSpan){small, strlen(small)}, (TextSpan){OURS[i], strlen(OURS[i])}) <=
            1)
            return OURS[i];
    return NULL;
}

// An existing directory, or a name that ends with '/', is a directory whatever its extension.
bool out_place_find(OutPlace *place, const char *path, Error *error) {
    const char *slash = strrchr(path, '/');
    size_t length = slash ? (size_t)(slash - path) + 1 : 0;
    *place = (OutPlace){.kind = OUT_DIRECTORY};
    if (!*path) return error_set(error, ERROR_USAGE, "the output has no name");
    if (!strcmp(path, "-"))
        return error_set(error, ERROR_USAGE,
                         "-: convert does not write to standard output (./- names a directory)");
    if (is_directory(path) || path[strlen(path) - 1] == '/')
        return join(place->directory, path, path[strlen(path) - 1] == '/' ? "" : "/", error) &&
               join(place->tensors, place->directory, SINGLE, error);
    if (ends_with(path, ".gguf") || ends_with(path, ".safetensors") || ends_with(path, ".bin")) {
        place->kind = ends_with(path, ".gguf")  ? OUT_GGUF
                      : ends_with(path, ".bin") ? OUT_BIN
                                                : OUT_FILE;
        if (length >= sizeof place->directory) length = 0; // then join refuses the path
        memcpy(place->directory, path, length);
        return join(place->tensors, path, "", error);
    }
    // Names that convert is asked for by mistake. A name near to none of these is a directory's.
    static const char *const OTHERS[] = {".model", ".json", ".pt",  ".pth", ".txt",
                                         ".ggml",  ".onnx", ".npz", ".zip", ".md"};
    for (size_t i = 0; i < sizeof OTHERS / sizeof *OTHERS; i++)
        if (ends_with(path, OTHERS[i]))
            return error_set(error, ERROR_USAGE,
                             "%.200s: convert writes .gguf, .bin, .safetensors, and directories "
                             "with model.safetensors, no %s",
                             path, OTHERS[i]);
    const char *meant = misspelt_extension(path);
    if (meant)
        return error_set(
            error, ERROR_USAGE,
            "%.200s: did you mean %s? (%.200s/ is a directory, with model.safetensors)", path,
            meant, path);
    return join(place->directory, path, "/", error) &&
           join(place->tensors, place->directory, SINGLE, error);
}

// ---- which files are one model ----

static const char *last_part(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

// OUT_FILE: `context` is the OutPlace. A TOKENS_FILE that is not replaced may be of a .bin that
// stays.
static bool is_of_file(const char *name, const void *context) {
    const OutPlace *place = context;
    return !strcmp(name, last_part(place->tensors)) || is_model_file(name) ||
           (place->takes_tokens && !strcmp(name, TOKENS_FILE));
}

// OUT_DIRECTORY: with the shards that a model there may have had.
static bool is_of_directory(const char *name, const void *context) {
    bool shard = !strncmp(name, "model-", 6) && strstr(name, "-of-");
    return is_of_file(name, context) || !strcmp(name, INDEX) ||
           (shard && ends_with(name, ".safetensors"));
}

// Whether a directory of safetensors has a TOKENS_FILE that goes along. False: exit code 5.
static bool find_tokens(OutPlace *place, const Options *o, Error *error) {
    if (o->tokenizer || builtin_is_meant(o->model) ||
        !(is_directory(o->model) || ends_with(o->model, ".safetensors")))
        return true;
    char *directory = model_directory(o->model, error);
    char *path = directory ? text_print(error, "%s%s", directory, TOKENS_FILE) : NULL;
    bool good = path;
    place->takes_tokens = path && !access(path, F_OK);
    free(directory);
    free(path);
    return good;
}

// What output_directory_check and the writer need to know of the set.
static void find_set(OutPlace *place) {
    const char *name = last_part(place->tensors);
    place->set = (OutputDirectory){
        .path = *place->directory ? place->directory : ".",
        .inputs = &place->inputs,
        .force = place->force,
        .owns = place->kind == OUT_FILE ? is_of_file : is_of_directory,
        .context = place,
        .set = name,
        .last = CONFIG,
    };
}

static bool is_single(const OutPlace *place) {
    return place->kind == OUT_GGUF || place->kind == OUT_BIN;
}

// ---- checks before anything is written ----

// The output's config.json would be read with the model from now on, if both are in one directory.
// False: exit code 2 or 5.
static bool check_source(const OutPlace *place, const char *model, Error *error) {
    struct stat from, to;
    if (builtin_is_meant(model)) return true;
    char *source = model_directory(model, error);
    if (!source) return false;
    bool same = !stat(source, &from) && !stat(place->set.path, &to) && same_file(&from, &to);
    free(source);
    if (!same) return true;
    return error_set(
        error, ERROR_USAGE,
        "the output's config.json would be written beside %.200s: give another directory", model);
}

// Another file of tensors in the directory, and a file that may belong to it and would be replaced
// or removed; "": none. False: exit code 4 or 5, the directory cannot be read.
typedef struct Others {
    char tensors[256], beside[256];
} Others;

// Beside .safetensors every file of a model may be theirs. A .bin of llama2.c has its tokenizer
// beside it, and a GGUF nothing.
static bool find_others(const OutPlace *place, Others *out, Error *error) {
    static const char TOKENIZER[] = "tokenizer.model";
    // `own`: a file of tensors that this output would replace, so that the others are most likely
    // the old output's.
    bool own = false, tokenizer = false;
    char bin[256] = "";
    DIR *entries = opendir(place->set.path);
    if (!entries && errno == ENOENT) return true;
    if (!entries)
        return error_set(error, errno == ENOMEM ? ERROR_MEMORY : ERROR_IO, "%.300s: %s",
                         place->set.path, strerror(errno));
    for (struct dirent *e; (e = readdir(entries));) {
        const char *name = e->d_name;
        bool owned = place->set.owns(name, place->set.context);
        own |= !is_model_file(name) && owned;
        tokenizer |= !strcmp(name, TOKENIZER);
        if (is_model_file(name) && strcmp(out->beside, CONFIG) != 0)
            snprintf(out->beside, sizeof out->beside, "%s", name);
        if (!owned && ends_with(name, ".safetensors"))
            snprintf(out->tensors, sizeof out->tensors, "%s", name);
        if (ends_with(name, ".bin") && strcmp(name, TOKENS_FILE) != 0)
            snprintf(bin, sizeof bin, "%s", name);
    }
    closedir(entries);
    // A directory's own model is the one that it is opened as.
    if (!*out->beside || (own && place->kind == OUT_DIRECTORY)) *out->tensors = '\0';
    if (!*out->tensors && *bin && tokenizer && !own) {
        memcpy(out->tensors, bin, sizeof bin);
        memcpy(out->beside, TOKENIZER, sizeof TOKENIZER);
    }
    return true;
}

// With --force the files of a model would be replaced; they must not be those of another one in the
// directory. Asked without it too, since --force is no way out there.
static bool check_others(const OutPlace *place, Error *error) {
    Others o = {0};
    if (!find_others(place, &o, error)) return false;
    return !*o.tensors || error_set(error, ERROR_USAGE,
                                    "%.250s%.50s may be that of %.100s: give another directory",
                                    place->directory, o.beside, o.tensors);
}

bool out_place_check(OutPlace *place, const Options *o, Error *error) {
    OutputFile file = {.path = place->tensors, .inputs = &place->inputs, .force = o->force};
    place->force = o->force;
    find_set(place);
    if (!find_tokens(place, o, error) || !inputs_find(&place->inputs, o, error)) return false;
    if (is_single(place)) return inputs_check(&file, o, error);
    Error problem = {0}; // before --force is named; whether it can be written is said below
    if (!o->force && !check_others(place, &problem) && problem.code == ERROR_USAGE)
        return error_copy(error, &problem);
    return output_directory_check(&place->set, error) && check_source(place, o->model, error) &&
           check_others(place, error);
}

// ---- files of a directory ----

// Writes one small file into the set. `shown`, in messages, is where it will be in the end, not the
// temporary directory.
static bool write_file(const OutPlace *place, const char *name, const void *bytes, size_t size,
                       Error *error) {
    const char *path = directory_writer_file(place->writer, name, error);
    char *shown = path ? text_print(error, "%s%s", place->directory, name) : NULL;
    bool good =
        shown && file_write(&(OutputFile){.path = path, .shown = shown}, bytes, size, error);
    free(shown);
    return good;
}

// Writes and frees the buffer; `good` false only frees it.
static bool write_buffer(const OutPlace *place, const char *name, Buffer *buffer, bool good,
                         Error *error) {
    if (buffer->failed) good = error_set(error, ERROR_MEMORY, "out of memory for %s", name);
    good = good && write_file(place, name, buffer->bytes, buffer->size, error);
    buffer_free(buffer);
    return good;
}

// Copies the file at `path`, if it exists, as `name`.
static bool copy_file(const OutPlace *place, const char *path, const char *name, Error *error) {
    Mapping file;
    if (access(path, F_OK))
        return errno != ENAMETOOLONG || error_set(error, ERROR_USAGE, "%.300s: too long", path);
    if (!mapping_open(&file, path, error)) return error_prefix(error, path);
    bool good = write_file(place, name, file.data, file.size, error);
    // A mapped file that is cut short reads as zeros: looked at after the copy.
    if (good && mapping_damaged(&file))
        good = error_set(error, ERROR_IO, "%.300s: the file was cut short while in use", path);
    mapping_close(&file);
    return good;
}

// Writes the vocabulary in the file format of its tokenizer kind.
static bool write_vocabulary(const OutPlace *place, const Vocabulary *v, Error *error) {
    TextSpan text = v->chat_template;
    Buffer bytes = {0};
    const char *name = NULL;
    if (text.length && !write_file(place, "chat_template.jinja", text.text, text.length, error))
        return false;
    if (!v->model) return true;
    vocabulary_write_config(&bytes, v);
    if (!write_buffer(place, "tokenizer_config.json", &bytes, true, error)) return false;
    bool good = vocabulary_write(&bytes, v, &name, error);
    return write_buffer(place, name, &bytes, good, error);
}

static const char GENERATION[] = "generation_config.json";

static bool write_generation(const OutPlace *place, const Session *s, Error *error) {
    Buffer json = {0};
    hf_generation_write(&json, s->checkpoint);
    return write_buffer(place, GENERATION, &json, true, error);
}

// The tokenizer's files as they are, so that nothing of them is lost. config.json is written anew.
static bool copy_files(const OutPlace *place, const Session *s, Error *error) {
    char *source = model_directory(checkpoint_path(s->checkpoint), error);
    bool good = source;
    // A GGUF has sampling defaults inside.
    const GenerationDefaults *g = checkpoint_generation(s->checkpoint);
    bool inside = checkpoint_container(s->checkpoint) == CONTAINER_GGUF &&
                  (g->temperature >= 0 || g->top_p >= 0 || g->top_k >= 0 || g->min_p >= 0 ||
                   g->repetition_penalty >= 0);
    if (inside) good = good && write_generation(place, s, error);
    for (size_t i = 0; good && MODEL_FILES[i]; i++) {
        const char *name = MODEL_FILES[i];
        if (!strcmp(name, CONFIG) || (inside && !strcmp(name, GENERATION))) continue;
        char *path = text_print(error, "%s%s", source, name);
        good = path && copy_file(place, path, name, error);
        free(path);
    }
    char *tokens =
        good && place->takes_tokens ? text_print(error, "%s%s", source, TOKENS_FILE) : NULL;
    if (good && place->takes_tokens) good = tokens && copy_file(place, tokens, TOKENS_FILE, error);
    free(tokens);
    free(source);
    return good;
}

bool out_place_fill(OutPlace *place, const Session *s, const Outgoing *out,
                    const Vocabulary *vocabulary, Error *error) {
    Buffer json = {0};
    bool good = hf_config_write(&json, out, error) &&
                (place->writer = directory_writer_open(&place->set, error));
    good = write_buffer(place, CONFIG, &json, good, error);
    if (!vocabulary) return good && copy_files(place, s, error);
    return good && write_generation(place, s, error) && write_vocabulary(place, vocabulary, error);
}

bool out_place_tensors(OutPlace *place, OutputFile *out, Error *error) {
    *out = (OutputFile){.path = place->tensors,
                        .inputs = &place->inputs,
                        .force = place->force,
                        .stop = interrupt_flag()};
    if (is_single(place)) return true;
    const char *path = directory_writer_file(place->writer, last_part(place->tensors), error);
    *out = (OutputFile){.path = path, .shown = place->tensors, .stop = interrupt_flag()};
    return path;
}

bool out_place_finish(OutPlace *place, Error *error) {
    return !place->writer || directory_writer_finish(place->writer, error);
}

void out_place_close(OutPlace *place) {
    directory_writer_close(place->writer);
    file_set_free(&place->inputs);
}
