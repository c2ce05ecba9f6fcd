// --patch, --steer and --ablate: any text and any file beside it change a run, or one error.
// Exercises: commands/intervene/ commands/shared/stage_names.c weights/hf/safetensors.c
#include "commands/intervene/intervene.h"
#include "tests/fuzz/file.h"
#include "tests/fuzz/patch.h"
#include "tests/support/files/gguf_writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t count);

enum { PATCH, STEER, ABLATE, KINDS };

// '#' stands for the file that follows the NUL.
static const char *const TEXTS[KINDS] = {"layers.0.att_out[1:2]=#", "#:0.5@L0-L1",
                                         "L0.H1,L1.ffn,L*.N0-2"};
static const char *const JSON[KINDS] = {
    "{\"model.layers.0.self_attn.o_proj\":{\"dtype\":\"F32\",\"shape\":[3,4],"
    "\"data_offsets\":[0,48]},\"layers.0.att_out\":{\"dtype\":\"F16\",\"shape\":[3,4],"
    "\"data_offsets\":[48,72]}}",
    "{\"v\":{\"dtype\":\"F32\",\"shape\":[2,4],\"data_offsets\":[0,32]}}", "{}"};
static const size_t DATA[KINDS] = {72, 32, 0};

static uint8_t bases[KINDS][1024];
static size_t base_sizes[KINDS];
static Checkpoint *checkpoint;
static Model *model;

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc, (void)argv;
    size_t size;
    Error error = {0};
    GgufFile *file = gguf_tiny_llama();
    uint8_t *bytes = gguf_write(file, &size); // kept, since the checkpoint points into it
    gguf_file_free(file);
    if (!checkpoint_open_memory(&checkpoint, "fuzz.gguf", bytes, size, &error)) abort();
    model = model_open(checkpoint_config(checkpoint), checkpoint_weights(checkpoint),
                       &(ModelOptions){.max_rows = 4, .context = 8, .threads = 1}, &error);
    if (!model) abort();
    for (int i = 0; i < KINDS; i++) {
        size_t length = strlen(TEXTS[i]) + 1;
        memcpy(bases[i], TEXTS[i], length);
        base_sizes[i] = length + fuzz_safetensors(bases[i] + length, JSON[i], DATA[i], 0x3c);
    }
    return 0;
}

// The text with the path of the file in place of each '#'. False: it names a file of this machine.
static bool expand(char *out, size_t size, const char *text, const char *path) {
    size_t used = 0, more = strlen(path);
    for (; *text && used + more < size; text++) {
        if (*text == '/') return false;
        if (*text == '#')
            memcpy(out + used, path, more), used += more;
        else
            out[used++] = *text;
    }
    out[used] = '\0';
    return !*text;
}

static void run_with(const Options *options) {
    static const int32_t PROMPT[3] = {1, 3, 4};
    Interventions *changes = NULL;
    FileSet inputs = {0};
    Error error = {0};
    Buffer described = {0};
    interventions_describe(&described, options);
    buffer_free(&described);
    if (!interventions_inputs(&inputs, options, &error)) error = (Error){0};
    file_set_free(&inputs);
    bool good = interventions_open(&changes, options, checkpoint, &error) &&
                interventions_attach(changes, model, PROMPT, 3, &error);
    if (good != !error.code) abort();
    model_intervene(model, NULL, NULL, 0, NULL);
    interventions_close(changes);
}

// The first byte: 1 as fuzz_patched, then the kind.
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t count) {
    int kind = count ? (data[0] >> 1) % KINDS : 0;
    size_t size;
    char text[2048];
    uint8_t *input = fuzz_patched(&size, data, count, bases[kind], base_sizes[kind]);
    uint8_t *nul = input ? memchr(input, '\0', size) : NULL;
    if (nul) {
        size_t length = (size_t)(nul - input) + 1;
        const char *path = fuzz_file(0, input + length, size - length);
        Options options = {.ablate_to = count > 1 ? data[1] >> 7 : 0};
        if (expand(text, sizeof text, (const char *)input, path)) {
            if (kind == ABLATE) options.ablate = text;
            TextList *list = kind == PATCH ? &options.patches : &options.steers;
            if (kind != ABLATE) *list = (TextList){.texts = {text}, .count = 1};
            run_with(&options);
        }
    }
    free(input);
    return 0;
}
