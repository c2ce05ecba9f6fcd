// Collects the files that this run reads, by device and inode, and refuses outputs that would be
// one of them, or that would be read with the model from the next run on.
#include "commands/shared/inputs.h"
#include "base/mapping.h"
#include "base/sandbox.h"
#include "commands/intervene/intervene.h"
#include "commands/shared/output.h"
#include "pictures/picture.h"
#include "tokenizer/split/pretokenize.h"
#include "weights/checkpoint.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

const char *const MODEL_FILES[] = {"config.json",
                                   "generation_config.json",
                                   "tokenizer.json",
                                   "tokenizer.model",
                                   "tokenizer_config.json",
                                   "special_tokens_map.json",
                                   "added_tokens.json",
                                   "chat_template.jinja",
                                   "vocab.json",
                                   "merges.txt",
                                   NULL};

bool is_model_file(const char *name) {
    for (size_t i = 0; MODEL_FILES[i]; i++)
        if (!strcmp(name, MODEL_FILES[i])) return true;
    return false;
}

void model_directory(char out[MODEL_PATH_SIZE], const char *model) {
    const char *slash = strrchr(model, '/');
    if (is_directory(model))
        snprintf(out, MODEL_PATH_SIZE, "%s/", model);
    else
        snprintf(out, MODEL_PATH_SIZE, "%.*s", slash ? (int)(slash - model + 1) : 0, model);
}

// The file `name` in the directory of `path`, if it exists.
static bool add_beside(FileSet *inputs, const char *path, const char *name, Error *error) {
    char directory[MODEL_PATH_SIZE], beside[MODEL_PATH_SIZE];
    model_directory(directory, path);
    if (snprintf(beside, sizeof beside, "%s%s", directory, name) >= MODEL_PATH_SIZE)
        return true; // no file has such a path
    return file_set_add(inputs, beside, error);
}

// A model or a tokenizer.
static bool add_model(FileSet *inputs, const char *path, Error *error) {
    if (!path || builtin_is_meant(path)) return true;
    if (!file_set_add(inputs, path, error)) return false;
    if (is_directory(path)) return file_set_add_entries(inputs, path, error);
    bool good = add_beside(inputs, path, "tokenizer.bin", error);
    for (size_t i = 0; good && MODEL_FILES[i]; i++)
        good = add_beside(inputs, path, MODEL_FILES[i], error);
    return good;
}

bool inputs_find(FileSet *inputs, const Options *o, Error *error) {
    // Standard input is added too: it may be redirected from the file that the output names.
    const char *const FILES[] = {o->file, o->ids_file, o->kl};
    bool good = add_model(inputs, o->model, error) && add_model(inputs, o->tokenizer, error) &&
                file_set_add_open(inputs, STDIN_FILENO, error) &&
                interventions_inputs(inputs, o, error);
    for (size_t i = 0; good && i < sizeof FILES / sizeof *FILES; i++)
        good = !FILES[i] || file_set_add(inputs, FILES[i], error);
    return good;
}

static bool is_typed_chat(const Options *o, CommandBit command) {
    bool chats = command == FOR_CHAT || (command == FOR_GENERATE && o->mode == MODE_CHAT);
    return chats && !o->prompt && !o->file && isatty(STDIN_FILENO);
}

void sandbox_begin(const Options *o, CommandBit command) {
    const char *const NAMED[] = {o->out,
                                 o->svg,
                                 o->png,
                                 o->html,
                                 o->record,
                                 o->save_logits,
                                 o->transcript,
                                 // A typed chat names its files as it goes: /save, the history.
                                 is_typed_chat(o, command) ? "/" : NULL,
                                 command == FOR_CONVERT ? o->other : NULL};
    SandboxOutputs outputs = {.directories = command == FOR_CONVERT};
    char what[100];
    for (size_t i = 0; i < sizeof NAMED / sizeof *NAMED; i++)
        if (NAMED[i]) outputs.paths[outputs.count++] = NAMED[i];
    pretokenizer_reserve();
    if (command & (FOR_ATTENTION | FOR_LENS | FOR_COST | FOR_MASK)) picture_prepare();
    sandbox_describe(what, sizeof what); // nothing can be asked from inside
    if (!o->no_sandbox && !sandbox_enter(&outputs) && strncmp(what, "none", 4) != 0)
        snprintf(what, sizeof what, "none: the kernel refused it");
    if (o->verbose) note("sandbox: %s", o->no_sandbox ? "none: --no-sandbox" : what);
}

// A name that a reader looks for in a model's directory.
static bool is_looked_for(const char *name) {
    return is_model_file(name) || !strcmp(name, "tokenizer.bin") ||
           !strcmp(name, "model.safetensors") || !strcmp(name, "model.safetensors.index.json");
}

// Whether `out` has a name that a reader looks for, in the directory of that model.
static bool goes_with(const char *out, const char *model) {
    char directory[MODEL_PATH_SIZE], above[MODEL_PATH_SIZE];
    const char *slash = strrchr(out, '/');
    struct stat a, b;
    if (!model || builtin_is_meant(model) || !is_looked_for(slash ? slash + 1 : out)) return false;
    model_directory(directory, model);
    snprintf(above, sizeof above, "%.*s", slash ? (int)(slash - out + 1) : 0, out);
    return !stat(*directory ? directory : ".", &a) && !stat(*above ? above : ".", &b) &&
           same_file(&a, &b);
}

bool inputs_check(const OutputFile *out, const Options *o, Error *error) {
    if (!output_file_check(out, error)) return false;
    if (!goes_with(out->path, o->model) && !goes_with(out->path, o->tokenizer)) return true;
    error_set(error, ERROR_USAGE, "would be read with the model; give another output");
    return error_prefix(error, out->path);
}
