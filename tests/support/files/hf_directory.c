#include "tests/support/files/hf_directory.h"

#include "tests/support/files/llama2c_writer.h"
#include "tests/support/files/safetensors_writer.h"
#include "tests/test.h"
#include "weights/checkpoint.h"

const char *hf_tiny_model(const char *name, bool tied) {
    const char *directory = test_temporary(name);
    BinShape shape = bin_shape_tiny(0, tied);
    size_t size;
    char *bin = bin_bytes(&size, &shape, 7);
    write_hugging_face(directory, bin, size);
    free(bin);
    return directory;
}

void hf_make_shard(const char *directory, const char *name) {
    char from[700], to[700], text[4000];
    hf_path(from, directory, "model.safetensors");
    hf_path(to, directory, HF_SHARD);
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
}

const char *hf_sharded_model(const char *name, const char *shard) {
    const char *directory = hf_tiny_model(name, true);
    hf_make_shard(directory, shard);
    return directory;
}

void hf_path(char path[700], const char *directory, const char *name) {
    snprintf(path, 700, "%s/%s", directory, name);
}

void hf_write(const char *directory, const char *name, const char *text) {
    char path[700];
    hf_path(path, directory, name);
    test_write_file(path, text, strlen(text));
}

char *hf_read(const char *directory, const char *name, size_t *size) {
    char path[700];
    hf_path(path, directory, name);
    return test_read_file(path, size);
}

void hf_check_opens(const char *path) {
    Checkpoint *checkpoint = NULL;
    Error error = {0};
    bool good = checkpoint_open(&checkpoint, path, &error);
    checkpoint_close(checkpoint);
    CHECK(good, "%s", error.message);
}

void hf_check_refused(const char *path, ErrorCode code, const char *message) {
    Checkpoint *checkpoint = NULL;
    Error error = {0};
    bool good = checkpoint_open(&checkpoint, path, &error);
    checkpoint_close(checkpoint);
    CHECK(!good && !checkpoint, "accepted, wanted \"%s\"", message);
    CHECK(strstr(error.message, message), "\"%s\" is not in \"%s\"", message, error.message);
    CHECK(!strncmp(error.message, path, strlen(path)), "no path in front of %s", error.message);
    CHECK_INT(error.code, code);
}

void hf_patch(const char *directory, const char *name, const char *old, const char *new) {
    size_t size;
    char *text = hf_read(directory, name, &size), path[700];
    char *at = memmem(text, size, old, strlen(old));
    CHECK(at, "no %s in %s", old, name);
    size_t before = (size_t)(at - text), after = size - before - strlen(old);
    char *out = malloc(size + strlen(new));
    memcpy(out, text, before);
    memcpy(out + before, new, strlen(new));
    memcpy(out + before + strlen(new), at + strlen(old), after);
    hf_path(path, directory, name);
    test_write_file(path, out, before + strlen(new) + after);
    free(out);
    free(text);
}
