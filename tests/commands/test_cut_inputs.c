// Input files of commands that are cut short while their tensors are read: exit code 4, and the
// name of the file.
#include "base/hash.h"
#include "base/mapping.h"
#include "commands/perplexity/saved_logits.h"
#include "commands/trace/trace_diff.h"
#include "tests/support/files/hf_directory.h"
#include "tests/support/files/llama2c_writer.h"
#include "tests/support/files/safetensors_writer.h"
#include "tests/support/program.h"
#include "weights/checkpoint.h"

#include <sys/stat.h>
#include <unistd.h>

static void check_error(const Error *error, const char *file) {
    CHECK_INT(error->code, ERROR_IO);
    CHECK(strstr(error->message, file) && strstr(error->message, "the file was cut short while"),
          "\"%s\" does not name %s", error->message, file);
}

// ---- diff ----

enum { COUNT = 100000 };

static void write_zeros(const char *path) {
    static const float ZEROS[COUNT];
    Error error = {0};
    WriteTensor tensor = {"values", "F32", 1, {COUNT}};
    SafetensorsWriter *out = safetensors_writer_open(&(OutputFile){.path = path, .force = true},
                                                     &tensor, 1, NULL, 0, &error);
    CHECK(out && safetensors_writer_put(out, 0, 0, ZEROS, sizeof ZEROS, &error) &&
              safetensors_writer_finish(out, &error),
          "%s", error.message);
    safetensors_writer_close(out);
}

Test(cut_inputs, of_diff) {
    mapping_guard();
    static const char *const NAMES[] = {"a.safetensors", "b.safetensors"};
    for (int i = 0; i < 2; i++) {
        char paths[2][300];
        TraceDiff d;
        Budget budget;
        Error error = {0};
        for (int j = 0; j < 2; j++) {
            snprintf(paths[j], sizeof paths[j], "%s", test_temporary(NAMES[j]));
            write_zeros(paths[j]);
        }
        CHECK(budget_parse(&budget, "f32", &error), "%s", error.message);
        CHECK(trace_diff_open(&d, paths[0], paths[1], &(TextList){0}, &error), "%s", error.message);
        CHECK(!truncate(paths[i], 100));
        CHECK(!trace_diff_run(&d, &budget, NULL, NULL, &error));
        check_error(&error, paths[i]);
        trace_diff_close(&d);
    }
}

// ---- perplexity --kl ----

enum { ROWS = 4, VOCABULARY = 20000 };

Test(cut_inputs, of_saved_logits) {
    mapping_guard();
    static const int32_t IDS[] = {1, 2, 3, 4, 5};
    static float row[VOCABULARY];
    LogitsKey key = {.windows = {ROWS, ROWS, 0, false},
                     .vocab_size = VOCABULARY,
                     .rows = ROWS,
                     .used = ROWS + 1,
                     .ids = IDS,
                     .model = "made",
                     .precision = "f32",
                     .kv = "f32"};
    const char *path = test_temporary("logits.safetensors");
    Error error = {0};
    LogitsWriter writer;
    SavedLogits saved;
    CHECK(logits_writer_open(&writer, &(OutputFile){.path = path, .force = true}, &key, &error),
          "%s", error.message);
    for (int i = 0; i < ROWS; i++)
        CHECK(logits_writer_put(&writer, row, &error), "%s", error.message);
    CHECK(logits_writer_finish(&writer, &error), "%s", error.message);
    logits_writer_close(&writer);
    CHECK(saved_logits_open(&saved, path, &key, &error), "%s", error.message);
    CHECK(saved_logits_next(&saved, &error), "%s", error.message);
    CHECK(!truncate(path, 100));
    CHECK(!saved_logits_next(&saved, &error));
    check_error(&error, path);
    CHECK_STRING(saved.model, "made"); // of the metadata
    saved_logits_close(&saved);
}

// ---- a model of several files ----

// Shards that are larger than what is loaded of them. The model has no use for the second one.
static const char *two_shards(void) {
    static float values[40000];
    const char *directory = test_temporary("two");
    BinShape shape = bin_shape_tiny(0, true);
    WriterTensor extra = {"extra.weight", "F32", 1, {40000}, values, sizeof values};
    size_t size;
    char path[700];
    shape.vocab_size = 10000;
    char *bytes = bin_bytes(&size, &shape, 7);
    write_hugging_face(directory, bytes, size);
    free(bytes);
    hf_make_shard(directory, HF_SHARD);
    bytes = safetensors_bytes(&size, &extra, 1, 0);
    hf_path(path, directory, "shard-2.safetensors");
    test_write_file(path, bytes, size);
    free(bytes);
    hf_patch(directory, "model.safetensors.index.json", "\"weight_map\":{",
             "\"weight_map\":{\"extra.weight\":\"shard-2.safetensors\",");
    return directory;
}

static void need_json(const Error *error) {
    if (strstr(error->message, "this build")) SKIP("%s", error->message);
}

Test(cut_inputs, the_shard_that_was_cut_is_named) {
    static const char *const NAMES[] = {HF_SHARD, "shard-2.safetensors"};
    for (int i = 0; i < 2; i++) {
        const char *directory = two_shards();
        char path[700];
        Checkpoint *checkpoint = NULL;
        Error error = {0};
        mapping_guard();
        bool opens = checkpoint_open(&checkpoint, directory, &error);
        need_json(&error);
        CHECK(opens, "%s", error.message);
        hf_path(path, directory, NAMES[i]);
        CHECK(!truncate(path, 1));
        size_t count;
        const TensorPlan *tensors = checkpoint_tensors(checkpoint, &count);
        CHECK(!checkpoint_damaged(checkpoint));
        volatile uint64_t hash = FNV_START; // so that all is read
        for (size_t t = 0; t < count; t++)
            hash = fnv1a(hash, tensors[t].data, tensors[t].bytes);
        CHECK(checkpoint_damaged(checkpoint), "nothing was read behind the end of %s", path);
        CHECK_STRING(checkpoint_damaged(checkpoint), path);
        checkpoint_close(checkpoint);
    }
}

// The program has opened the model and waits for the tokens, from a FIFO; their weights are not
// read before.
Test(cut_inputs, of_a_program_with_a_model_of_shards) {
    const char *directory = two_shards();
    char script[1500];
    Checkpoint *checkpoint = NULL;
    Error error = {0};
    checkpoint_open(&checkpoint, directory, &error);
    checkpoint_close(checkpoint);
    need_json(&error);
    snprintf(script, sizeof script,
             "D=%s; mkfifo $D/ids; exec 3<>$D/ids; $RUN perplexity $D --ids $D/ids -q 3>&- & P=$!; "
             "for i in $(seq 500); do grep -q shard-2 /proc/$P/maps && break; sleep 0.02; done; "
             "sleep 0.2; truncate -s 10 $D/" HF_SHARD "; echo 1,2,3,1,2 >&3; exec 3>&-; "
             "wait $P",
             directory);
    TestRun r = program_shell(script);
    check_refused(&r, ERROR_IO, HF_SHARD ": the file was cut short while");
}
