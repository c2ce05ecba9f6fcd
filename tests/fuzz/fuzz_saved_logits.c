// perplexity --kl: the logits that another run saved are read row by row, or refused.
// Exercises: commands/perplexity/saved_logits.c weights/hf/safetensors.c base/
#include "commands/perplexity/saved_logits.h"
#include "tests/fuzz/file.h"
#include "tests/fuzz/mutate.h"
#include "tests/fuzz/patch.h"

#include <math.h>
#include <stdlib.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t count);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed);

// Three rows of four logits, for the ids 0 0 0 0 in a window of 8. The hash is of 16 zero bytes.
static const int32_t IDS[4] = {0};
static const LogitsKey KEY = {
    .windows = {.window = 8, .stride = 8}, .vocab_size = 4, .rows = 3, .used = 4, .ids = IDS};
static const char JSON[] =
    "{\"__metadata__\":{\"format\":\"limpid-logits\",\"vocab_size\":\"4\",\"window\":\"8\","
    "\"stride\":\"8\",\"second_half\":\"false\",\"text_hash\":\"88201fb960ff6465\","
    "\"model\":\"m\",\"precision\":\"f32\",\"kv\":\"f32\"},"
    "\"targets\":{\"dtype\":\"I64\",\"shape\":[3],\"data_offsets\":[0,24]},"
    "\"logits\":{\"dtype\":\"F32\",\"shape\":[3,4],\"data_offsets\":[24,72]}}";

static uint8_t base[1024];
static size_t base_size;

// False: the file was refused.
static bool read_rows(const uint8_t *file, size_t size) {
    SavedLogits saved;
    Error error = {0};
    if (!saved_logits_open(&saved, fuzz_file(0, file, size), &KEY, &error)) {
        if (!error.code || !error.message[0]) abort();
        return false;
    }
    const float *row = NULL;
    fuzz_guard(&saved.file.mapping);
    for (size_t i = 0; i < KEY.rows && (row = saved_logits_next(&saved, &error)); i++)
        for (int j = 0; j < KEY.vocab_size; j++)
            if (!isfinite(row[j])) abort();
    if (!row && error.code != ERROR_FILE) abort();
    fuzz_unguard(&saved.file.mapping);
    saved_logits_close(&saved);
    return true;
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc, (void)argv;
    base_size = fuzz_safetensors(base, JSON, 72, 0);
    if (!read_rows(base, base_size)) abort();
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed) {
    return fuzz_mutate(data, size, room, seed, fuzz_walk_safetensors, base, base_size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t count) {
    size_t size;
    uint8_t *file = fuzz_patched(&size, data, count, base, base_size);
    if (file) read_rows(file, size);
    free(file);
    return 0;
}
