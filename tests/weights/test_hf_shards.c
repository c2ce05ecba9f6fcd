// Hugging Face directories of several files under an index: HOSTILE S21 with its accepted twins.
#include "base/bytes.h"
#include "tests/support/files/hf_directory.h"
#include "tests/support/files/safetensors_writer.h"
#include "tests/test.h"

#include <unistd.h>

Test(hf_shards, s21_shards_are_plain_files_of_the_same_directory) {
    const char *directory = hf_sharded_model("index-good", HF_SHARD);
    hf_check_opens(directory);
    hf_write(directory, "m.gguf", "no model"); // the index comes first
    hf_check_opens(directory);
    static const char *const ESCAPES[] = {"../../etc/passwd",
                                          "/etc/passwd",
                                          "../index-good/" HF_SHARD,
                                          "./" HF_SHARD,
                                          "/tmp/x.safetensors",
                                          "model.safetensors.index.json",
                                          "config.json",
                                          "..",
                                          "",
                                          ".hidden.safetensors",
                                          ".safetensors",
                                          "a/" HF_SHARD,
                                          "\\u001b[2J"};
    for (size_t i = 0; i < sizeof ESCAPES / sizeof *ESCAPES; i++) {
        char name[32];
        snprintf(name, sizeof name, "index%zu", i);
        hf_check_refused(hf_sharded_model(name, ESCAPES[i]), ERROR_FILE, "wanted a plain name");
    }
    hf_check_refused(hf_sharded_model("index-missing", "shard-2.safetensors"), ERROR_FILE,
                     "there is no shard-2.safetensors");
}

Test(hf_shards, as_many_shards_as_the_limit_and_no_more) {
    const char *directory = hf_sharded_model("index-many", HF_SHARD);
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
    const char *directory = hf_sharded_model("index-tensor", HF_SHARD);
    hf_patch(directory, "model.safetensors.index.json", "model.norm.weight", "model.morm.weight");
    hf_check_refused(directory, ERROR_FILE, "tensor \"model.morm.weight\" is not in " HF_SHARD);
    directory = hf_sharded_model("index-type", HF_SHARD);
    hf_patch(directory, "model.safetensors.index.json", "norm.weight\":\"" HF_SHARD "\"",
             "norm.weight\":7");
    hf_check_refused(directory, ERROR_FILE, "wanted a file name, got an integer");
    directory = hf_sharded_model("index-empty", HF_SHARD);
    hf_write(directory, "model.safetensors.index.json", "{\"weight_map\":{}}");
    hf_check_refused(directory, ERROR_FILE, "0 files of tensors");
    hf_write(directory, "model.safetensors.index.json", "{}");
    hf_check_refused(directory, ERROR_FILE, "\"weight_map\" is missing");
    hf_write(directory, "model.safetensors.index.json", "{\"weight_map\":[]}");
    hf_check_refused(directory, ERROR_FILE, "\"weight_map\": wanted an object, got an array");
}

Test(hf_shards, s21_a_tensor_in_two_shards_is_refused) {
    const char *directory = hf_sharded_model("index-twice", HF_SHARD);
    size_t size;
    char *file = hf_read(directory, HF_SHARD, &size), path[700];
    hf_path(path, directory, "shard-2.safetensors");
    test_write_file(path, file, size);
    free(file);
    hf_patch(directory, "model.safetensors.index.json", "norm.weight\":\"" HF_SHARD,
             "norm.weight\":\"shard-2.safetensors");
    hf_check_refused(directory, ERROR_FILE, "twice");
}

Test(hf_shards, a_shard_that_is_no_file_of_tensors_is_named) {
    const char *directory = hf_sharded_model("index-bad", HF_SHARD);
    hf_write(directory, HF_SHARD, "nothing of the kind");
    hf_check_refused(directory, ERROR_FILE,
                     "model.safetensors.index.json: " HF_SHARD
                     ": this is a text, not a safetensors file");
}

Test(hf_shards, a_shard_that_was_cut_off_is_named) {
    const char *directory = hf_sharded_model("index-cut", HF_SHARD);
    size_t size;
    char path[700], *file = hf_read(directory, HF_SHARD, &size);
    free(file);
    hf_path(path, directory, HF_SHARD);
    CHECK(!truncate(path, (off_t)size - 1));
    hf_check_refused(
        directory, ERROR_FILE,
        test_text(HF_SHARD ": the file is incomplete: %zu of at least %zu bytes", size - 1, size));
}

Test(hf_shards, names_of_files_have_255_bytes_and_no_more) {
    char name[257 + sizeof ".safetensors"];
    for (int length = 255; length <= 256; length++) {
        memset(name, 'n', sizeof name);
        strcpy(name + length - 12, ".safetensors");
        const char *directory = hf_sharded_model(length == 255 ? "name255" : "name256", name);
        hf_check_refused(directory, ERROR_FILE,
                         length == 255 ? "there is no nnn" : "wanted a plain name");
    }
}

Test(hf_shards, an_index_has_32_megabytes_and_no_more) {
    const char *directory = hf_sharded_model("index-large", HF_SHARD);
    char path[700];
    hf_path(path, directory, "model.safetensors.index.json");
    CHECK(!truncate(path, (32 << 20) + 1));
    hf_check_refused(directory, ERROR_FILE, "a file of 33554433 bytes, at most 33554432 are read");
}

// ---- two shards ----

static const float NUMBERS[96];

static WriterTensor tensor_of(const char *name, size_t rows, size_t cols) {
    WriterTensor tensor = {.dtype = "F32",
                           .rank = cols ? 2 : 1,
                           .shape = {rows, cols},
                           .data = NUMBERS,
                           .bytes = 4 * rows * (cols ? cols : 1)};
    snprintf(tensor.name, sizeof tensor.name, "%s", name);
    return tensor;
}

static void write_shard(const char *directory, const char *name, const WriterTensor *tensors,
                        size_t count) {
    char path[700];
    size_t size;
    char *bytes = safetensors_bytes(&size, tensors, count, 0);
    hf_path(path, directory, name);
    test_write_file(path, bytes, size);
    free(bytes);
}

// The norm is alone in a.safetensors, but for `more`, which is in front of it or behind it; the
// other tensors are in b.safetensors. The index has an entry for each of these, and those of
// `entries`.
static const char *two_shards(const char *name, const WriterTensor *more, bool behind,
                              const char *norm_is_in, const char *entries) {
    static const struct {
        const char *name;
        size_t rows, cols;
    } OTHERS[] = {
        {"model.embed_tokens.weight", 6, 8},
        {"model.layers.0.input_layernorm.weight", 8, 0},
        {"model.layers.0.self_attn.q_proj.weight", 8, 8},
        {"model.layers.0.self_attn.k_proj.weight", 4, 8},
        {"model.layers.0.self_attn.v_proj.weight", 4, 8},
        {"model.layers.0.self_attn.o_proj.weight", 8, 8},
        {"model.layers.0.post_attention_layernorm.weight", 8, 0},
        {"model.layers.0.mlp.gate_proj.weight", 12, 8},
        {"model.layers.0.mlp.down_proj.weight", 8, 12},
        {"model.layers.0.mlp.up_proj.weight", 12, 8},
    };
    enum { N_OTHERS = sizeof OTHERS / sizeof *OTHERS };
    const char *directory = hf_sharded_model(name, HF_SHARD);
    WriterTensor a[2] = {tensor_of("model.norm.weight", 8, 0)}, b[N_OTHERS];
    if (more) a[1] = *more;
    if (more && !behind) {
        a[1] = a[0];
        a[0] = *more;
    }
    char index[4000];
    int length =
        sprintf(index, "{\"weight_map\":{%s\"model.norm.weight\":\"%s\"", entries, norm_is_in);
    for (size_t i = 0; i < N_OTHERS; i++) {
        b[i] = tensor_of(OTHERS[i].name, OTHERS[i].rows, OTHERS[i].cols);
        length += sprintf(index + length, ",\"%s\":\"b.safetensors\"", OTHERS[i].name);
    }
    strcpy(index + length, "}}");
    write_shard(directory, "a.safetensors", a, more ? 2 : 1);
    write_shard(directory, "b.safetensors", b, N_OTHERS);
    hf_write(directory, "model.safetensors.index.json", index);
    return directory;
}

#define UNUSED_NAME "model.layers.0.self_attn.rotary_emb.inv_freq"

Test(hf_shards, two_files_are_one_model) {
    hf_check_opens(two_shards("two", NULL, false, "a.safetensors", ""));
    hf_check_refused(two_shards("two-wrong", NULL, false, "b.safetensors", // nothing is in a
                                "\"x\":\"a.safetensors\","),
                     ERROR_FILE, "tensor \"x\" is not in a.safetensors");
    hf_check_refused(two_shards("two-norm", NULL, false, "b.safetensors",
                                "\"" UNUSED_NAME "\":\"a.safetensors\","),
                     ERROR_FILE, "tensor \"model.norm.weight\" is not in b.safetensors");
    const char *swapped = two_shards("two-embed", NULL, false, "a.safetensors", "");
    hf_patch(swapped, "model.safetensors.index.json", "embed_tokens.weight\":\"b.",
             "embed_tokens.weight\":\"a.");
    hf_check_refused(swapped, ERROR_FILE,
                     "tensor \"model.embed_tokens.weight\" is not in a.safetensors");
}

// The index may name a tensor that the family does not use and that is nowhere; where it is there,
// the first of all too, it has to be where the index says.
Test(hf_shards, a_tensor_without_use_may_be_absent_but_not_elsewhere) {
    WriterTensor unused = tensor_of(UNUSED_NAME, 2, 0);
    hf_check_opens(two_shards("unused-absent", NULL, false, "a.safetensors",
                              "\"" UNUSED_NAME "\":\"a.safetensors\","));
    hf_check_opens(two_shards("unused-first", &unused, false, "a.safetensors",
                              "\"" UNUSED_NAME "\":\"a.safetensors\","));
    hf_check_refused(two_shards("unused-elsewhere", &unused, false, "a.safetensors",
                                "\"" UNUSED_NAME "\":\"b.safetensors\","),
                     ERROR_FILE, "tensor \"" UNUSED_NAME "\" is not in b.safetensors");
}

Test(hf_shards, an_empty_tensor_may_be_the_last_of_its_file) {
    WriterTensor empty = tensor_of("nothing", 0, 0);
    hf_check_opens(
        two_shards("empty-last", &empty, true, "a.safetensors", "\"nothing\":\"a.safetensors\","));
}
