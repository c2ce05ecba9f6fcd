// model.safetensors.index.json beside a config and two shards: the model opens, or one error.
// Exercises: weights/hf/checkpoint.c weights/hf/safetensors.c base/json.c
#include "tests/fuzz/file.h"
#include "tests/fuzz/mutate.h"
#include "tests/fuzz/patch.h"
#include "weights/checkpoint.h"

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
#define F16(name, shape, begin, end)                                                               \
    "\"model." name ".weight\":{\"dtype\":\"F16\",\"shape\":[" shape "],\"data_offsets\":[" begin  \
    "," end "]}"
#define LAYER "layers.0."
static const char FIRST[] =
    "{" F16("embed_tokens", "3,4", "0", "24") "," F16("norm", "4", "24", "32") "}";
static const char SECOND[] =
    "{" F16(LAYER "input_layernorm", "4", "0", "8") "," F16(LAYER "self_attn.q_proj", "4,4", "8", "40") "," F16(
        LAYER "self_attn.k_proj", "4,4", "40",
        "72") "," F16(LAYER "self_attn.v_proj", "4,4", "72",
                      "104") "," F16(LAYER "self_attn.o_proj", "4,4", "104",
                                     "136") "," F16(LAYER "post_attention_layernorm", "4", "136",
                                                    "144") "," F16(LAYER "mlp.gate_proj", "2,4",
                                                                   "144",
                                                                   "160") "," F16(LAYER
                                                                                  "mlp.up_proj",
                                                                                  "2,4", "160",
                                                                                  "176") "," F16(LAYER
                                                                                                 "m"
                                                                                                 "l"
                                                                                                 "p"
                                                                                                 "."
                                                                                                 "d"
                                                                                                 "o"
                                                                                                 "w"
                                                                                                 "n"
                                                                                                 "_"
                                                                                                 "p"
                                                                                                 "r"
                                                                                                 "o"
                                                                                                 "j",
                                                                                                 "4"
                                                                                                 ","
                                                                                                 "2",
                                                                                                 "1"
                                                                                                 "7"
                                                                                                 "6",
                                                                                                 "1"
                                                                                                 "9"
                                                                                                 "2") "}";
static const char INDEX[] =
    "{\"metadata\":{\"total_size\":224},\"weight_map\":{"
    "\"model.embed_tokens.weight\":\"a.safetensors\",\"model.norm.weight\":\"a.safetensors\","
    "\"model.layers.0.input_layernorm.weight\":\"b.safetensors\","
    "\"model.layers.0.mlp.down_proj.weight\":\"b.safetensors\"}}";

static const char *const NAMES[] = {"config.json", "a.safetensors", "b.safetensors",
                                    "model.safetensors.index.json"};

static const char *path_of(int which) {
    static char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", fuzz_directory(), NAMES[which]);
    return path;
}

// All four are links to files in memory; file 3 is the one that changes.
static void put(int which, const void *bytes, size_t size) {
    if (symlink(fuzz_file(which, bytes, size), path_of(which))) abort();
}

static bool opens(const void *index, size_t size) {
    Checkpoint *checkpoint = NULL;
    Error error = {0};
    fuzz_file(3, index, size);
    bool good = checkpoint_open(&checkpoint, fuzz_directory(), &error);
    if (good != !error.code || good != (checkpoint != NULL)) abort();
    checkpoint_close(checkpoint);
    return good;
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc, (void)argv;
    uint8_t shard[2048];
    put(0, CONFIG, sizeof CONFIG - 1);
    put(1, shard, fuzz_safetensors(shard, FIRST, 32, 1));
    put(2, shard, fuzz_safetensors(shard, SECOND, 192, 1));
    put(3, INDEX, sizeof INDEX - 1);
    if (!opens(INDEX, sizeof INDEX - 1)) abort();
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed) {
    return fuzz_mutate(data, size, room, seed, fuzz_walk_json, INDEX, sizeof INDEX - 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t count) {
    size_t size;
    uint8_t *index = fuzz_patched(&size, data, count, INDEX, sizeof INDEX - 1);
    if (index) opens(index, size);
    free(index);
    return 0;
}
