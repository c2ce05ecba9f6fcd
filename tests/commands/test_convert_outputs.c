// Where convert writes: nothing is lost that was there, and nothing is left where it fails.
#include "base/error.h"
#include "tests/support/files/conversions.h"
#include "tests/support/files/hf_directory.h"
#include "tests/support/program.h"
#include "weights/checkpoint.h"

#include <sys/stat.h>
#include <unistd.h>

Test(convert_outputs, an_output_that_is_there_wants_force) {
    char *from = strdup(conversion_tiny("a.gguf")), *to = strdup(test_temporary("there.gguf"));
    test_write_file(to, "precious", 8);
    check_no_conversion("%s|%s", from, to, ERROR_USAGE, "is there already; --force replaces it");
    size_t size;
    char *text = test_read_file(to, &size);
    CHECK_STRING(text, "precious");
    free(text);
    convert("%s|%s|--force", from, to);
    checkpoint_close(open_converted(to));
    free(from);
    free(to);
}

Test(convert_outputs, the_model_itself_is_never_replaced) {
    char *from = strdup(conversion_tiny("self.gguf"));
    char *link_path = strdup(test_temporary("link.gguf")), *hard = strdup(test_temporary("h.gguf"));
    CHECK(!symlink(from, link_path) && !link(from, hard));
    const char *outs[] = {from, link_path, hard};
    for (int i = 0; i < 3; i++)
        check_no_conversion("%s|%s|--force", from, outs[i], ERROR_USAGE, "is read by this run");
    checkpoint_close(open_converted(from));
    free(from);
    free(link_path);
    free(hard);
}

// A .bin beside has its tokenizer in a file of a model's name: it stays. A GGUF has none.
Test(convert_outputs, beside_a_bin_leave_its_tokenizer) {
    char path[300], *from = strdup(conversion_tiny("third.gguf"));
    char *to = strdup(test_temporary("beside"));
    const char *because = "tokenizer.model may be that of stories.bin: give another directory";
    CHECK_INT(mkdir(to, 0700), 0);
    hf_write(to, "stories.bin", "a model");
    hf_write(to, "tokenizer.model", "its tokenizer");
    snprintf(path, sizeof path, "%s/x.safetensors", to);
    check_no_conversion("%s|%s|--force", from, path, ERROR_USAGE, because);
    check_no_conversion("%s|%s|--force", from, to, ERROR_USAGE, because);
    CHECK_INT(test_entries(to), 2);
    free(from);
    free(to);
}

Test(convert_outputs, beside_a_gguf_are_replaced_with_force) {
    char path[300], *from = strdup(conversion_tiny("fourth.gguf"));
    char *to = strdup(test_temporary("beside-gguf"));
    CHECK_INT(mkdir(to, 0700), 0);
    hf_write(to, "m.gguf", "a model");
    snprintf(path, sizeof path, "%s/x.safetensors", to);
    for (int i = 0; i < 2; i++) {
        TestRun run = program("convert|%s|%s%s", from, path, i ? "|--force" : "");
        if (strstr(run.err, "has no JSON")) SKIP("this build writes no directories");
        check_status(&run, 0);
        test_run_free(&run);
    }
    size_t size;
    char *model = hf_read(to, "m.gguf", &size);
    CHECK(size == 7 && !memcmp(model, "a model", 7), "%zu bytes", size);
    free(model);
    free(from);
    free(to);
}

// --force is not named where it is no way out.
Test(convert_outputs, beside_another_model_wants_another_directory) {
    char *from = strdup(conversion_tiny("second.gguf")), *to = strdup(hf_tiny_model("taken", true));
    char inside[300];
    snprintf(inside, sizeof inside, "%s/other.safetensors", to);
    const char *because = "may be that of model.safetensors: give another directory";
    check_no_conversion("%s|%s", from, inside, ERROR_USAGE, because);
    check_no_conversion("%s|%s|--force", from, inside, ERROR_USAGE, because);
    free(from);
    free(to);
}

Test(convert_outputs, a_directory_is_not_converted_into_itself) {
    char *from = strdup(hf_tiny_model("dir", true));
    char inside[300];
    snprintf(inside, sizeof inside, "%s/other.safetensors", from);
    check_no_conversion("%s|%s|--force", from, from, ERROR_USAGE, "is read by this run");
    check_no_conversion("%s|%s|--force", from, inside, ERROR_USAGE, "is read by this run");
    // Nor by a link that leads back.
    char *to = strdup(test_temporary("linked")), config[300], link_path[300];
    CHECK_INT(mkdir(to, 0700), 0);
    snprintf(config, sizeof config, "%s/config.json", from);
    snprintf(link_path, sizeof link_path, "%s/config.json", to);
    CHECK_INT(symlink(config, link_path), 0);
    check_no_conversion("%s|%s|--force", from, to, ERROR_USAGE, "config.json: is read by this run");
    // Beside a GGUF lies no config.json, but it would seem to be its.
    char *gguf = strdup(conversion_tiny("alone.gguf"));
    snprintf(inside, sizeof inside, "%s", test_temporary("alone.safetensors"));
    check_no_conversion("%s|%s", gguf, inside, ERROR_USAGE, "would be written beside");
    free(gguf);
    free(to);
    convert("%s|%s", from, test_temporary("elsewhere"));
    free(from);
}

// Files that a user had beside the tensors are as good as the tensors.
Test(convert_outputs, a_config_that_is_there_wants_force) {
    char *from = strdup(conversion_tiny("b.gguf"));
    const char *directory = test_temporary("mine");
    char config[300];
    CHECK_INT(mkdir(directory, 0700), 0);
    snprintf(config, sizeof config, "%s/config.json", directory);
    test_write_file(config, "{}", 2);
    check_no_conversion("%s|%s", from, directory, ERROR_USAGE, "config.json: is there already");
    CHECK_INT(test_entries(directory), 1);
    free(from);
}

Test(convert_outputs, outputs_that_cannot_be) {
    char *from = strdup(conversion_tiny("c.gguf"));
    char *fifo = strdup(test_temporary("fifo.gguf")), *directory = strdup(test_temporary("d.gguf"));
    char below[300];
    CHECK(!mkfifo(fifo, 0600) && !mkdir(directory, 0700));
    snprintf(below, sizeof below, "%s/no/such.gguf", directory);
    check_no_conversion("%s|%s|--force", from, fifo, ERROR_IO, "a pipe");
    check_no_conversion("%s|%s", from, below, ERROR_IO, "No such file or directory");
    check_no_conversion("%s|%s", from, "/dev/full", ERROR_IO, "/dev/full/");
    check_no_conversion("%s|%s", from, "out.pt", ERROR_USAGE,
                        "convert writes .gguf, .bin, .safetensors");
    check_no_conversion("%s|%s", from, "out.txt", ERROR_USAGE, "no .txt");
    check_no_conversion("%s|%s", from, "out.ggfu", ERROR_USAGE, "did you mean .gguf?");
    check_no_conversion("%s|%s", from, "", ERROR_USAGE, "no name");
    check_no_conversion("%s%s", from, "", ERROR_USAGE, "convert wants a model and an output");
    check_no_conversion("%s|%s|third", from, "x.gguf", ERROR_USAGE, "one argument too many");
    check_no_conversion("%s|%s|--type|q9_9", from, "x.gguf", ERROR_USAGE,
                        "one of f32|f16|bf16|q8_0|q4_0");
    check_no_conversion("%s|%s|--type|q8_0", from, test_temporary("refused"), ERROR_USAGE,
                        "bf16 for safetensors");
    check_no_conversion("%s|%s", "no-such-model.gguf", "x.gguf", ERROR_IO, "no-such-model.gguf");
    CHECK(!exists(test_temporary("refused")), "a directory was made");
    free(from);
    free(fifo);
    free(directory);
}

// A limit on file sizes stands for a full disk.
Test(convert_outputs, a_full_disk_is_exit_4_and_leaves_nothing) {
    char script[600];
    const char *directory = test_temporary("full");
    CHECK_INT(mkdir(directory, 0700), 0);
    snprintf(script, sizeof script, "ulimit -f 64; $RUN convert $MODEL %s/out.gguf --type f32",
             directory);
    TestRun run = program_shell(script);
    check_refused(&run, ERROR_IO, "no room for its");
    CHECK_INT(test_entries(directory), 0);
}
