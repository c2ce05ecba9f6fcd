// Hugging Face directories of several files under an index: HOSTILE S21 with its accepted twins.
#include "base/bytes.h"
#include "tests/support/files/hf_directory.h"
#include "tests/test.h"

#define SHARD "shard-1.safetensors"

// The tiny model as one shard under an index whose file name for every tensor is `name`.
static const char *sharded(const char *directory_name, const char *name) {
    const char *directory = hf_tiny_model(directory_name, true);
    char from[700], to[700], text[4000];
    hf_path(from, directory, "model.safetensors");
    hf_path(to, directory, SHARD);
    CHECK(!rename(from, to));
    static const char *const NAMES[] = {"model.embed_tokens.weight",
                                        "model.norm.weight",
                                        "model.layers.0.input_layernorm.weight",
                                        "model.layers.0.self_attn.q_proj.weight",
                                        "model.layers.0.self_attn.k_proj.weight",
                                        "model.layers.0.self_attn.v_proj.weight",
                                        "model.layers.0.self_attn.o_proj.weight",
                                        "model.layers.0.post_attention_layernorm.weight",
                                        "model.layers.0.mlp.gate_proj.weight",
                                        "model.layers.0.mlp.down_proj.weight",
                                        "model.layers.0.mlp.up_proj.weight"};
    int length = sprintf(text, "{\"metadata\":{\"total_size\":1},\"weight_map\":{");
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        length += sprintf(text + length, "%s\"%s\":\"%s\"", i ? "," : "", NAMES[i], name);
    strcpy(text + length, "}}");
    hf_write(directory, "model.safetensors.index.json", text);
    return directory;
}

Test(hf_shards, s21_shards_are_plain_files_of_the_same_directory) {
    hf_check_opens(sharded("index-good", SHARD));
    static const char *const ESCAPES[] = {"../../etc/passwd",
                                          "/etc/passwd",
                                          "../index-good/" SHARD,
                                          "./" SHARD,
                                          "/tmp/x.safetensors",
                                          "model.safetensors.index.json",
                                          "config.json",
                                          "..",
                                          "",
                                          ".hidden.safetensors",
                                          ".safetensors",
                                          "a/" SHARD,
                                          "\\u001b[2J"};
    for (size_t i = 0; i < sizeof ESCAPES / sizeof *ESCAPES; i++) {
        char name[32];
        snprintf(name, sizeof name, "index%zu", i);
        hf_check_refused(sharded(name, ESCAPES[i]), ERROR_FILE, "wanted a plain name");
    }
    hf_check_refused(sharded("index-missing", "shard-2.safetensors"), ERROR_FILE,
                     "there is no shard-2.safetensors");
}

Test(hf_shards, as_many_shards_as_the_limit_and_no_more) {
    const char *directory = sharded("index-many", SHARD);
    for (int n = LIMIT_FILES; n <= LIMIT_FILES + 1; n++) {
        char *text = malloc((size_t)n * 40 + 40);
        int length = sprintf(text, "{\"weight_map\":{");
        for (int i = 0; i < n; i++)
            length +=
                sprintf(text + length, "%s\"t%d\":\"none-%d.safetensors\"", i ? "," : "", i, i);
        strcpy(text + length, "}}");
        hf_write(directory, "model.safetensors.index.json", text);
        free(text);
        hf_check_refused(directory, ERROR_FILE,
                         n > LIMIT_FILES ? "513 files of tensors, wanted 1 .. 512"
                                         : "there is no none-");
    }
}

Test(hf_shards, s21_an_index_that_is_wrong_about_a_tensor) {
    const char *directory = sharded("index-tensor", SHARD);
    hf_patch(directory, "model.safetensors.index.json", "model.norm.weight", "model.morm.weight");
    hf_check_refused(directory, ERROR_FILE, "tensor \"model.morm.weight\" is not in " SHARD);
    directory = sharded("index-type", SHARD);
    hf_patch(directory, "model.safetensors.index.json", "norm.weight\":\"" SHARD "\"",
             "norm.weight\":7");
    hf_check_refused(directory, ERROR_FILE, "wanted a file name, got an integer");
    directory = sharded("index-empty", SHARD);
    hf_write(directory, "model.safetensors.index.json", "{\"weight_map\":{}}");
    hf_check_refused(directory, ERROR_FILE, "0 files of tensors");
    hf_write(directory, "model.safetensors.index.json", "{}");
    hf_check_refused(directory, ERROR_FILE, "\"weight_map\" is missing");
    hf_write(directory, "model.safetensors.index.json", "{\"weight_map\":[]}");
    hf_check_refused(directory, ERROR_FILE, "\"weight_map\": wanted an object, got an array");
}

Test(hf_shards, s21_a_tensor_in_two_shards_is_refused) {
    const char *directory = sharded("index-twice", SHARD);
    size_t size;
    char *file = hf_read(directory, SHARD, &size), path[700];
    hf_path(path, directory, "shard-2.safetensors");
    test_write_file(path, file, size);
    free(file);
    hf_patch(directory, "model.safetensors.index.json", "norm.weight\":\"" SHARD,
             "norm.weight\":\"shard-2.safetensors");
    hf_check_refused(directory, ERROR_FILE, "twice");
}

Test(hf_shards, a_shard_that_is_no_file_of_tensors_is_named) {
    const char *directory = sharded("index-bad", SHARD);
    hf_write(directory, SHARD, "nothing of the kind");
    hf_check_refused(directory, ERROR_FILE, "model.safetensors.index.json: " SHARD ": offset 0");
}
