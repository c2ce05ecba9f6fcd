// Hugging Face directories of several files under an index: HOSTILE S21 with its accepted twins.
#include "base/bytes.h"
#include "tests/support/files/hf_directory.h"
#include "tests/test.h"

Test(hf_shards, s21_shards_are_plain_files_of_the_same_directory) {
    hf_check_opens(hf_sharded_model("index-good", HF_SHARD));
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
    hf_check_refused(directory, ERROR_FILE, "model.safetensors.index.json: " HF_SHARD ": offset 0");
}
