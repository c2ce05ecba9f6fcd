// A whole run on one input: a GGUF with its tokenizer is loaded, its last bytes are the prompt,
// four tokens are generated and decoded. A result, or one error at any step.
//
// Exercises: weights/gguf/ weights/roles.c model/ tokenizer/ kernels/reference/
#include "model/decoder.h"
#include "tests/fuzz/mutate.h"
#include "tests/fuzz/patch.h"
#include "tests/support/files/gguf_writer.h"
#include "tokenizer/tokenizer.h"
#include "weights/checkpoint.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t count);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed);

enum { CONTEXT = 32, NEW_TOKENS = 4, PROMPT_BYTES = 24 };

static uint8_t *base;
static size_t base_size;

static bool decode_tokens(Model *model, Tokenizer *t, Error *error) {
    Decoder decoder = {0};
    bool good = decoder_begin(&decoder, model, &(DecoderOptions){.max_tokens = NEW_TOKENS}, error);
    while (good && decoder_left(&decoder) > 0) {
        int id = decoder_next(&decoder, error);
        size_t length;
        volatile char sum = 0;
        good = id >= 0;
        const char *piece = good ? tokenizer_piece(t, id, false, false, &length) : NULL;
        for (size_t i = 0; good && i < length; i++)
            sum = (char)(sum + piece[i]);
    }
    decoder_end(&decoder);
    return good;
}

static bool generate(const Checkpoint *checkpoint, Model *model, Tokenizer *t, const char *prompt,
                     size_t length, Error *error) {
    IdList ids = {0};
    bool good = (!tokenizer_adds_bos(t) || id_list_push(&ids, tokenizer_bos(t), error)) &&
                tokenizer_encode(t, &ids, prompt, length, true, error);
    // As the commands do: a vocabulary may be larger than the model's, an id may not.
    for (size_t i = 0; good && i < ids.count; i++)
        if (ids.ids[i] < 0 || ids.ids[i] >= checkpoint_config(checkpoint)->vocab_size)
            good = error_set(error, ERROR_FILE, "an id outside the model's vocabulary");
    if (good && !ids.count) good = error_set(error, ERROR_USAGE, "an empty prompt");
    Batch batch = {.n = (int)ids.count, .tokens = ids.ids};
    good = good && model_forward(model, &batch, error) && decode_tokens(model, t, error);
    id_list_free(&ids);
    return good;
}

// The flags: 2 float32 instead of 16-bit activations, 4 a cache in float32.
static bool run_file(const uint8_t *file, size_t size, uint8_t flags, Error *error) {
    Checkpoint *checkpoint = NULL;
    if (!checkpoint_open_memory(&checkpoint, "fuzz.gguf", file, size, error)) return false;
    const Config *config = checkpoint_config(checkpoint);
    TokenizerSource source = {.vocabulary = checkpoint_vocabulary(checkpoint),
                              .vocab_size = config->vocab_size};
    int context = config->max_seq_len < CONTEXT ? config->max_seq_len : CONTEXT;
    ModelOptions options = {.threads = 1,
                            .context = context,
                            .precision = flags & 2 ? PRECISION_F32 : PRECISION_A16,
                            .kv_type = flags & 4 ? KV_F32 : KV_F16};
    Tokenizer *t = source.vocabulary->model ? tokenizer_open(&source, error) : NULL;
    Model *model = t ? model_open(config, checkpoint_weights(checkpoint), &options, error) : NULL;
    if (!t) error_set(error, ERROR_FILE, "no tokenizer");
    size_t length = size < PROMPT_BYTES ? size : PROMPT_BYTES;
    bool good =
        model && generate(checkpoint, model, t, (const char *)file + size - length, length, error);
    model_close(model);
    tokenizer_close(t);
    checkpoint_close(checkpoint);
    return good;
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc, (void)argv;
    Error error = {0};
    GgufFile *file = gguf_tiny_llama();
    base = gguf_write(file, &base_size);
    gguf_file_free(file);
    memcpy(base + base_size - 8, "a b ab a", 8); // floats of the last norm, and the prompt's end
    if (!run_file(base, base_size, 0, &error)) abort();
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed) {
    return fuzz_mutate(data, size, room, seed, fuzz_walk_gguf, base, base_size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t count) {
    size_t size;
    Error error = {0};
    uint8_t *file = fuzz_patched(&size, data, count, base, base_size);
    if (!file) return 0;
    bool good = run_file(file, size, count ? data[0] : 0, &error);
    if (good != !error.code || (error.code && !error.message[0])) abort();

    free(file);
    return 0;
}
