// A safetensors file in memory beside a fixed config.json: the header, the plan, the roles, and
// every byte of what was accepted.
// Exercises: weights/hf/safetensors.c weights/hf/safetensors_json.c weights/hf/checkpoint.c
// base/json.c
#include "tests/fuzz/file.h"
#include "tests/fuzz/mutate.h"
#include "tests/fuzz/patch.h"
#include "weights/checkpoint.h"
#include "weights/hf/safetensors.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t count);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed);

static const char CONFIG[] =
    "{\"model_type\":\"llama\",\"hidden_size\":4,\"intermediate_size\":2,\"num_hidden_layers\":1,"
    "\"num_attention_heads\":1,\"vocab_size\":3,\"max_position_embeddings\":8,"
    "\"tie_word_embeddings\":true}";

static char model_path[PATH_MAX];
static uint8_t base[2048];
static size_t base_size;

// A tiny Llama in F16, so that the smallest valid file is there to be changed.
static void make_base(void) {
    static const struct {
        const char *name;
        int rows, cols;
    } TENSORS[] = {
        {"embed_tokens", 3, 4},
        {"norm", 4, 0},
        {"layers.0.input_layernorm", 4, 0},
        {"layers.0.self_attn.q_proj", 4, 4},
        {"layers.0.self_attn.k_proj", 4, 4},
        {"layers.0.self_attn.v_proj", 4, 4},
        {"layers.0.self_attn.o_proj", 4, 4},
        {"layers.0.post_attention_layernorm", 4, 0},
        {"layers.0.mlp.gate_proj", 2, 4},
        {"layers.0.mlp.up_proj", 2, 4},
        {"layers.0.mlp.down_proj", 4, 2},
    };
    char *json = (char *)base + 8;
    int length = 0, begin = 0;
    for (size_t i = 0; i < sizeof TENSORS / sizeof *TENSORS; i++) {
        char shape[32];
        int cols = TENSORS[i].cols, end = begin + 2 * TENSORS[i].rows * (cols ? cols : 1);
        snprintf(shape, sizeof shape, cols ? "%d,%d" : "%d", TENSORS[i].rows, cols);
        length += sprintf(json + length,
                          "%c\"model.%s.weight\":{\"dtype\":\"F16\",\"shape\":[%s],"
                          "\"data_offsets\":[%d,%d]}",
                          i ? ',' : '{', TENSORS[i].name, shape, begin, end);
        begin = end;
    }
    json[length++] = '}';
    base[0] = (uint8_t)length;
    base[1] = (uint8_t)(length >> 8);
    base_size = 8 + (size_t)(length + begin);
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc, (void)argv;
    char config_path[PATH_MAX];
    snprintf(config_path, sizeof config_path, "%s/config.json", fuzz_directory());
    snprintf(model_path, sizeof model_path, "%s/model.safetensors", fuzz_directory());
    if (symlink(fuzz_file(0, CONFIG, sizeof CONFIG - 1), config_path)) abort();
    make_base();
    Checkpoint *checkpoint = NULL;
    Error error = {0};
    if (!checkpoint_open_memory(&checkpoint, model_path, base, base_size, &error)) abort();
    checkpoint_close(checkpoint);
    return 0;
}

static void read_all(const Checkpoint *checkpoint) {
    size_t count;
    const TensorPlan *tensors = checkpoint_tensors(checkpoint, &count);
    volatile uint8_t sum = 0;
    for (size_t i = 0; i < count; i++)
        for (uint64_t j = 0; j < tensors[i].bytes; j++)
            sum = (uint8_t)(sum + tensors[i].data[j]);
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed) {
    return fuzz_mutate(data, size, room, seed, fuzz_walk_safetensors, base, base_size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t count) {
    size_t size;
    uint8_t *file = fuzz_patched(&size, data, count, base, base_size);
    Checkpoint *checkpoint = NULL;
    Error error = {0};
    if (!file) return 0;
    if (checkpoint_open_memory(&checkpoint, model_path, file, size, &error))
        read_all(checkpoint);
    else if (!error.code || !error.message[0])
        abort();
    checkpoint_close(checkpoint);
    // The plain reader takes more kinds of element, and no config.
    SafetensorsTensor *tensors;
    size_t n_tensors;
    Arena arena = {0};
    error = (Error){0};
    if (!safetensors_parse(&tensors, &n_tensors, bytes_over(file, size, &error), &arena) &&
        !error.code)
        abort();
    arena_free(&arena);
    free(file);
    return 0;
}
