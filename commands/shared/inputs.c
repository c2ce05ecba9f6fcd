// Collects the files that this run reads, by device and inode, and refuses outputs that would be
// one of them, or that would be read with the model from the next run on.
#include "commands/shared/inputs.h"
#include "base/mapping.h"
#include "base/sandbox.h"
#include "base/text.h"
#include "base/transport/transport.h"
#include "commands/intervene/intervene.h"
#include "commands/shared/output.h"
#include "pictures/picture.h"
#include "tokenizer/split/pretokenize.h"
#include "weights/checkpoint.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
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

char *model_directory(const char *model, Error *error) {
    return is_directory(model) ? text_print(error, "%s/", model) : path_beside(model, "", error);
}

// The file `name` in the directory of the file `path`, if it exists.
static bool add_beside(FileSet *inputs, const char *path, const char *name, Error *error) {
    char *beside = path_beside(path, name, error);
    if (!beside) return false;
    // No file has a longer path.
    bool good = strlen(beside) >= PATH_MAX || file_set_add(inputs, beside, error);
    free(beside);
    return good;
}

// A model or a tokenizer.
static bool add_model(FileSet *inputs, const char *path, Error *error) {
    if (!path || builtin_is_meant(path)) return true;
    if (!file_set_add(inputs, path, error)) return false;
    if (is_directory(path)) return file_set_add_entries(inputs, path, error);
    bool good = add_beside(inputs, path, TOKENS_FILE, error);
    for (size_t i = 0; good && MODEL_FILES[i]; i++)
        good = add_beside(inputs, path, MODEL_FILES[i], error);
    return good;
}

bool inputs_find(FileSet *inputs, const Options *o, Error *error) {
    // Standard input is added too: it may be redirected from the file that the output names.
    const char *const FILES[] = {o->file,
                                 o->ids_file,
                                 o->kl,
                                 o->grammar,
                                 o->json_schema,
                                 o->importance,
                                 o->check,
                                 o->cache_read_only ? o->cache : NULL,
                                 o->prompts && strcmp(o->prompts, "-") ? o->prompts : NULL};
    bool good = add_model(inputs, o->model, error) && add_model(inputs, o->tokenizer, error) &&
                add_model(inputs, o->draft, error) &&
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
    const char *const NAMED[] = {o->out, o->svg, o->png, o->html, o->record, o->save_logits,
                                 o->transcript, o->cache, o->session,
                                 // A typed chat names its files as it goes: /save, the history.
                                 is_typed_chat(o, command) ? "/" : NULL,
                                 command == FOR_CONVERT ? o->other : NULL};
    SandboxOutputs outputs = {.directories = command == FOR_CONVERT};
    char what[100];
    for (size_t i = 0; i < sizeof NAMED / sizeof *NAMED; i++)
        if (NAMED[i]) outputs.paths[outputs.count++] = NAMED[i];
    pretokenizer_reserve();
    if (command & (FOR_ATTENTION | FOR_LENS | FOR_COST | FOR_MASK)) picture_prepare();
    device_prepare();
    sandbox_describe(what, sizeof what); // nothing can be asked from inside
    // Ranks open connections when they need them, and on one machine read each other's memory.
    const char *without = o->no_sandbox ? "none: --no-sandbox" : NULL;
    if (transport_count() > 1) without = "none: this process talks to other ranks";
    if (!without && !sandbox_enter(&outputs) && strncmp(what, "none", 4) != 0)
        snprintf(what, sizeof what, "none: the kernel refused it");
    if (o->verbose && !transport_rank()) note("sandbox: %s", without ? without : what);
}

// A name that a reader looks for in a model's directory.
static bool is_looked_for(const char *name) {
    return is_model_file(name) || !strcmp(name, TOKENS_FILE) ||
           !strcmp(name, "model.safetensors") || !strcmp(name, "model.safetensors.index.json");
}

// *goes: `out` has a name that a reader looks for, in the directory of that model. False: exit code
// 5.
static bool goes_with(bool *goes, const char *out, const char *model, Error *error) {
    const char *slash = strrchr(out, '/');
    struct stat a, b;
    *goes = false;
    if (!model || builtin_is_meant(model) || !is_looked_for(slash ? slash + 1 : out)) return true;
    char *directory = model_directory(model, error);
    char *above = directory ? path_beside(out, "", error) : NULL;
    *goes = above && !stat(directory, &a) && !stat(above, &b) && same_file(&a, &b);
    bool good = above;
    free(directory);
    free(above);
    return good;
}

bool inputs_check(const OutputFile *out, const Options *o, Error *error) {
    const char *const MODELS[] = {o->model, o->tokenizer, o->draft};
    if (!output_file_check(out, error)) return false;
    for (size_t i = 0; i < sizeof MODELS / sizeof *MODELS; i++) {
        bool goes;
        if (!goes_with(&goes, out->path, MODELS[i], error)) return false;
        if (!goes) continue;
        error_set(error, ERROR_USAGE, "would be read with the model; give another output");
        return error_prefix(error, out->path);
    }
    return true;
}
