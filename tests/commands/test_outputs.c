// What every writer does with files that are there: one that this run reads is never replaced, any
// other only with --force. The program as a child process; each case is a file that would be lost.
#include "base/error.h"
#include "tests/support/faults.h"
#include "tests/support/files/hf_directory.h"
#include "tests/support/files/llama2c_writer.h"
#include "tests/support/program.h"
#include "weights/checkpoint.h"

#include <sys/stat.h>
#include <unistd.h>

// A directory with a model and files that belong to it, some of which no command reads.
static const char *model_directory(const char *name) {
    const char *directory = hf_tiny_model(name, true);
    hf_write(directory, "generation_config.json", "{}");
    hf_write(directory, "tokenizer.json", "{\"a tokenizer\": 1}");
    hf_write(directory, "README.md", "about the model");
    return directory;
}

static const char *in(const char *directory, const char *name) {
    return test_text("%s/%s", directory, name);
}

// Runs `format`, whose %s is `path`, without --force and with it: refused as an input, and the file
// keeps its bytes.
static void check_input_kept(const char *format, const char *path) {
    char line[4000], *mine = strdup(path);
    size_t before_size, after_size;
    char *before = test_read_file(mine, &before_size);
    snprintf(line, sizeof line, format, mine);
    for (int force = 0; force < 2; force++) {
        if (force) strcat(line, "|--force");
        TestRun run = program_input(line, NULL, 0);
        check_refused(&run, ERROR_USAGE, "is read by this run; give another output");
        char *after = test_read_file(mine, &after_size);
        CHECK(after_size == before_size && !memcmp(after, before, before_size), "%s: %s", line,
              mine);
        free(after);
    }
    free(before);
    free(mine);
}

// The same for a file that the run does not read: refused, kept, and replaced with --force.
static void check_wants_force(const char *format, const char *path) {
    char line[4000], *mine = strdup(path);
    size_t size;
    test_write_file(mine, "precious", 8);
    snprintf(line, sizeof line, format, mine);
    TestRun run = program_input(line, NULL, 0);
    check_refused(&run, ERROR_USAGE, "is there already; --force replaces it");
    char *kept = test_read_file(mine, &size);
    CHECK_STRING(kept, "precious");
    free(kept);
    strcat(line, "|--force");
    run = program_input(line, NULL, 0);
    check_status(&run, 0);
    test_run_free(&run);
    char *new = test_read_file(mine, &size);
    CHECK(strcmp(new, "precious") != 0, "%s: not replaced", line);
    free(new);
    free(mine);
}

static const char *const INSIDE[] = {"model.safetensors", "config.json", "generation_config.json",
                                     "tokenizer.json", "README.md"};
enum { N_INSIDE = sizeof INSIDE / sizeof *INSIDE };

// In cron and CI standard input is /dev/null: that is no file that the run reads.
Test(outputs, a_device_is_no_file_to_write_to_whatever_standard_input_is) {
    need_builtin();
    TestRun r = program_shell("$RUN trace -i Hi -o /dev/null --force </dev/null");
    check_refused(&r, ERROR_IO, "/dev/null: is a device, a pipe or a socket, not a file");
}

// ---- trace ----

Test(outputs, trace_replaces_no_file_of_a_models_directory) {
    char *directory = strdup(model_directory("traced")), format[1000];
    snprintf(format, sizeof format, "trace|%s|--prompt-ids|1,2,3|--out|%%s", directory);
    for (int i = 0; i < N_INSIDE; i++)
        check_input_kept(format, in(directory, INSIDE[i]));
    // Nor by another name: a hard link, a symbolic link, a longer way.
    char *model = strdup(in(directory, "model.safetensors"));
    char *hard = strdup(test_temporary("hard")), *soft = strdup(test_temporary("soft"));
    CHECK(!link(model, hard) && !symlink(model, soft));
    check_input_kept(format, hard);
    check_input_kept(format, soft);
    check_input_kept(format, test_text("%s/../traced/model.safetensors", directory));
    // Nor what the directory has only a link to, as caches of downloads are laid out.
    char *blob = strdup(test_temporary("blob"));
    CHECK(!rename(model, blob) && !symlink(blob, model));
    check_input_kept(format, blob);
    hf_check_opens(directory);
    free(directory), free(model), free(hard), free(soft), free(blob);
}

Test(outputs, trace_replaces_no_prompt_and_no_tokenizer) {
    char *prompt = strdup(test_temporary("prompt.txt")), *copy = strdup(test_temporary("z.gguf"));
    size_t size;
    char *model = test_read_file(small_model(), &size);
    test_write_file(prompt, "Once upon", 9);
    test_write_file(copy, model, size);
    check_input_kept(test_text("trace|%s|-q|-f|%s|-o|%%s", small_model(), prompt), prompt);
    check_input_kept(test_text("trace|%s|-q|-i|x|-z|%s|-o|%%s", small_model(), copy), copy);
    check_input_kept(test_text("trace|%s|-q|-i|x|-o|%%s", copy), copy);
    // From standard input.
    char script[2000];
    snprintf(script, sizeof script, "$RUN trace $MODEL -q --force -o %s <%s", prompt, prompt);
    TestRun run = program_shell(script);
    check_refused(&run, ERROR_USAGE, "is read by this run");
    char *kept = test_read_file(prompt, &size);
    CHECK_STRING(kept, "Once upon");
    free(kept), free(model), free(prompt), free(copy);
}

// A llama2.c file uses the tokenizer that lies beside it, a .safetensors file its config.json.
Test(outputs, trace_replaces_no_file_found_beside_the_model) {
    BinShape shape = bin_shape_tiny(0, true);
    size_t size;
    char *bytes = bin_bytes(&size, &shape, 7), *directory = strdup(test_temporary("beside"));
    CHECK_INT(mkdir(directory, 0700), 0);
    test_write_file(in(directory, "m.bin"), bytes, size);
    hf_write(directory, "tokenizer.bin", "a tokenizer");
    hf_write(directory, "tokenizer.model", "another");
    char format[1000];
    snprintf(format, sizeof format, "trace|%s/m.bin|--prompt-ids|1|--out|%%s", directory);
    check_input_kept(format, in(directory, "tokenizer.bin"));
    check_input_kept(format, in(directory, "tokenizer.model"));
    free(directory);
    directory = strdup(model_directory("beside-hf"));
    snprintf(format, sizeof format, "trace|%s/model.safetensors|--prompt-ids|1|--out|%%s",
             directory);
    check_input_kept(format, in(directory, "config.json"));
    check_input_kept(format, in(directory, "tokenizer.json"));
    free(directory), free(bytes);
}

// A new file under a name that is looked for would be taken for part of the model.
Test(outputs, nothing_is_added_to_a_models_files) {
    static const char *const NAMES[] = {"tokenizer.model", "chat_template.jinja",
                                        "model.safetensors.index.json", "tokenizer.bin"};
    char *directory = strdup(model_directory("added"));
    for (int i = 0; i < 4; i++) {
        TestRun run =
            program("trace|%s|--prompt-ids|1|--out|%s/%s", directory, directory, NAMES[i]);
        check_refused(&run, ERROR_USAGE, "would be read with the model; give another output");
        run = program("trace|%s/model.safetensors|--prompt-ids|1|--out|%s/%s", directory, directory,
                      NAMES[i]);
        check_refused(&run, ERROR_USAGE, "would be read with the model; give another output");
        CHECK(access(in(directory, NAMES[i]), F_OK), "%s was written", NAMES[i]);
    }
    TestRun run = program("trace|%s|--prompt-ids|1|--out|%s/run.safetensors", directory, directory);
    check_status(&run, 0);
    test_run_free(&run);
    hf_check_opens(directory);
    free(directory);
}

Test(outputs, a_trace_that_is_there_wants_force) {
    char *out = strdup(test_temporary("there.safetensors")),
         *link_path = strdup(test_temporary("to"));
    struct stat status;
    check_wants_force("trace|builtin|--prompt-ids|1,2|-q|--out|%s", out);
    // What a link leads to is replaced, and the link stays.
    CHECK_INT(symlink(out, link_path), 0);
    check_wants_force("trace|builtin|--prompt-ids|1,2|-q|--out|%s", link_path);
    CHECK(!lstat(link_path, &status) && S_ISLNK(status.st_mode), "the link is gone");
    CHECK(!lstat(out, &status) && S_ISREG(status.st_mode) && status.st_size > 1000,
          "not through it");
    free(out), free(link_path);
}

// Before the model is read, which may take long.
Test(outputs, an_output_is_refused_before_the_work) {
    const char *out = test_temporary("first.safetensors");
    test_write_file(out, "precious", 8);
    TestRun run = program("trace|no-such-model|-f|no-such-prompt|--out|%s", out);
    check_refused(&run, ERROR_USAGE, "is there already");
    run = program("perplexity|no-such-model|-f|no-such-text|--save-logits|%s", out);
    check_refused(&run, ERROR_USAGE, "is there already");
    run =
        program("convert|no-such-model|%s.gguf", out); // nothing there: the model is what is wrong
    check_refused(&run, ERROR_IO, "no-such-model");
}

// A file that appears while the program waits for its prompt.
Test(outputs, a_file_that_appears_meanwhile_is_kept) {
    char script[3000];
    char *out = strdup(test_temporary("meanwhile")), *fifo = strdup(test_temporary("fifo"));
    size_t size;
    snprintf(script, sizeof script,
             "mkfifo %s; $RUN trace $MODEL -q -f %s --out %s & { sleep 0.2; printf precious >%s; "
             "printf 'Once upon'; } >%s; wait $!",
             fifo, fifo, out, out, fifo);
    TestRun run = program_shell(script);
    check_refused(&run, ERROR_USAGE, "is there already; --force replaces it");
    char *kept = test_read_file(out, &size);
    CHECK_STRING(kept, "precious");
    free(kept), free(out), free(fifo);
}

// On a mount of an object store: neither flags of rename nor hard links.
Test(outputs, a_disk_without_hard_links_is_written) {
    need_faults();
    size_t size;
    const Fault plain = {.kind = "files", .plain = 2};
    const char *out = test_temporary("no-links");
    const char *const argv[] = {TEST_RUN, "trace", fault_gguf(), "--prompt-ids", "1,3", "-q",
                                "--out",  out,     NULL};
    TestRun run = run_with_fault(&plain, argv);
    check_status(&run, 0);
    test_run_free(&run);
    char *trace = test_read_file(out, &size);
    CHECK(size > 8 && trace[8] == '{', "%zu bytes", size);
    free(trace);
    run = run_with_fault(&plain, argv);
    check_refused(&run, ERROR_USAGE, "is there already; --force replaces it");
}

// Also where the rename that follows fails: the name is free afterwards.
Test(outputs, a_disk_without_hard_links_is_left_without_an_empty_file) {
    need_faults();
    Fault plain = {.kind = "files", .plain = 2};
    const char *out = test_temporary("no-links");
    const char *const argv[] = {TEST_RUN, "trace", fault_gguf(), "--prompt-ids", "1,3", "-q",
                                "--out",  out,     NULL};
    long calls = count_calls(&plain, argv, 0), refused = 0;
    for (plain.at = calls; plain.at > 0 && plain.at > calls - 20; plain.at--) {
        struct stat status;
        unlink(out);
        TestRun run = run_with_fault(&plain, argv);
        refused += run.status == ERROR_IO;
        CHECK(stat(out, &status) || status.st_size, "call %ld of %ld: an empty file", plain.at,
              calls);
        test_run_free(&run);
    }
    CHECK(refused > 2, "%ld", refused);
}

// ---- perplexity ----

Test(outputs, saved_logits_replace_no_input) {
    char *directory = strdup(model_directory("scored")), *ids = strdup(test_temporary("ids"));
    char *text = strdup(test_temporary("text")), *exact = strdup(test_temporary("exact"));
    char format[2000];
    test_write_file(ids, "1 2 3 4 5", 9);
    test_write_file(text, "Once upon a time", 16);
    snprintf(format, sizeof format, "perplexity|%s|--ids|%s|--save-logits|%%s", directory, ids);
    for (int i = 0; i < N_INSIDE; i++)
        check_input_kept(format, in(directory, INSIDE[i]));
    check_input_kept(format, ids);
    check_input_kept(test_text("perplexity|builtin|-f|%s|--save-logits|%%s", text), text);
    TestRun run = program("perplexity|builtin|-q|--ids|%s|--save-logits|%s", ids, exact);
    check_status(&run, 0);
    test_run_free(&run);
    snprintf(format, sizeof format, "perplexity|builtin|--ids|%s|--kl|%s|--save-logits|%%s", ids,
             exact);
    check_input_kept(format, exact);
    free(directory), free(ids), free(text), free(exact);
}

Test(outputs, saved_logits_that_are_there_want_force) {
    char *ids = strdup(test_temporary("ids")), format[1000];
    test_write_file(ids, "1 2 3 4 5", 9);
    snprintf(format, sizeof format, "perplexity|builtin|-q|--ids|%s|--save-logits|%%s", ids);
    check_wants_force(format, test_temporary("logits.safetensors"));
    free(ids);
}

// ---- convert ----

// Of the files that convert writes beside a .safetensors or into a directory, none is replaced
// without --force: neither those that this model would get nor those that another one had.
Test(outputs, convert_replaces_no_file_of_a_directory_without_force) {
    static const char *const NAMES[] = {"config.json",
                                        "generation_config.json",
                                        "tokenizer.json",
                                        "tokenizer.model",
                                        "tokenizer_config.json",
                                        "special_tokens_map.json",
                                        "added_tokens.json",
                                        "chat_template.jinja",
                                        "vocab.json",
                                        "merges.txt",
                                        "model.safetensors",
                                        "model.safetensors.index.json",
                                        "out.safetensors",
                                        "model-00001-of-00002.safetensors"};
    enum { N_NAMES = sizeof NAMES / sizeof *NAMES, OF_A_DIRECTORY = 10 };
    for (int i = 0; i < N_NAMES; i++) {
        char *directory = strdup(test_temporary(test_text("project-%d", i)));
        CHECK_INT(mkdir(directory, 0700), 0);
        hf_write(directory, NAMES[i], "precious");
        bool of_file = i < OF_A_DIRECTORY || !strcmp(NAMES[i], "out.safetensors");
        for (int file = 0; file < 2; file++) {
            if (file ? !of_file : !strcmp(NAMES[i], "out.safetensors")) continue;
            TestRun run =
                program("convert|builtin|%s%s", directory, file ? "/out.safetensors" : "");
            check_refused(&run, ERROR_USAGE, test_text("%s: is there already", NAMES[i]));
            size_t size;
            char *kept = hf_read(directory, NAMES[i], &size);
            CHECK_STRING(kept, "precious");
            free(kept);
            CHECK_INT(test_entries(directory), 1);
        }
        free(directory);
    }
}

Test(outputs, convert_replaces_no_tokenizer_that_it_reads) {
    char *directory = strdup(test_temporary("used"));
    size_t size;
    char *model = test_read_file(small_model(), &size);
    CHECK_INT(mkdir(directory, 0700), 0);
    test_write_file(in(directory, "tokenizer.model"), model, size);
    char format[1000];
    snprintf(format, sizeof format, "convert|builtin|%s|-z|%%s", directory);
    check_input_kept(format, in(directory, "tokenizer.model"));
    CHECK_INT(test_entries(directory), 1);
    free(directory), free(model);
}

// config.json is one for all files of tensors in a directory.
Test(outputs, convert_takes_no_config_from_another_model) {
    char *directory = strdup(model_directory("shared"));
    TestRun run = program("convert|builtin|%s/second.safetensors|--force", directory);
    check_refused(&run, ERROR_USAGE, "config.json may be that of model.safetensors");
    hf_check_opens(directory);
    char from[700], to[700];
    hf_path(from, directory, "model.safetensors");
    hf_path(to, directory, "only.safetensors");
    CHECK_INT(rename(from, to), 0);
    run = program("convert|builtin|%s|--force", directory);
    check_refused(&run, ERROR_USAGE, "config.json may be that of only.safetensors");
    hf_check_opens(in(directory, "only.safetensors"));
    run = program("convert|builtin|%s/only.safetensors|--force|-q", directory);
    check_status(&run, 0);
    test_run_free(&run);
    hf_check_opens(in(directory, "only.safetensors"));
    free(directory);
}

// Its result is a file, but a script that closed standard output is told as by every command.
Test(outputs, convert_with_a_closed_output_is_exit_4_and_writes_nothing) {
    char script[1000];
    const char *out = test_temporary("closed.gguf");
    snprintf(script, sizeof script, "$RUN convert $MODEL %s >&-", out);
    TestRun run = program_shell(script);
    check_refused(&run, ERROR_IO, "standard output: Bad file descriptor");
    CHECK(access(out, F_OK), "a file was written");
}

// A mount point cannot be renamed: files that are not there are written into it, and a model that
// is there is not replaced.
Test(outputs, convert_exchanges_no_mount_point) {
    char script[2000];
    char *directory = strdup(test_temporary("mounted"));
    CHECK_INT(mkdir(directory, 0700), 0);
    TestRun run = program_shell("unshare -rm mount -t tmpfs none /mnt");
    bool can = !run.status;
    test_run_free(&run);
    if (!can) SKIP("no mounts in a namespace of one's own on this machine");
    snprintf(script, sizeof script,
             "unshare -rm sh -c 'mount -t tmpfs none %s && '$RUN' convert builtin %s -q && '$RUN' "
             "convert builtin %s -q --force; echo $? $(ls %s | wc -l)'",
             directory, directory, directory, directory);
    run = program_shell(script);
    CHECK_STRING(run.out, "2 5\n");
    CHECK(strstr(run.err, "a mount point cannot be replaced as a whole"), "%s", run.err);
    test_run_free(&run);
    free(directory);
}

// The parent of ".." is another directory than its name says: the sandbox must not take the wrong
// one for that of the output.
// Two outputs of a run that are one file by other names: the second would replace the first.
Test(outputs, two_of_a_run_are_two_files) {
    char *svg = strdup(test_temporary("two.svg")), *link = strdup(test_temporary("two.png"));
    const char *slash = strrchr(svg, '/');
    char *other = strdup(test_text("%.*s/.%s", (int)(slash - svg), svg, slash));
    test_write_file(svg, "mine", 4);
    CHECK(!symlink(svg, link), "link");
    const char *const names[] = {svg, other, link};
    for (int i = 0; i < 3; i++) {
        TestRun run = program("mask|local:4|--seq|8|--svg|%s|--png|%s|--force", svg, names[i]);
        if (strstr(run.err, "libpng"))
            test_run_free(&run);
        else
            check_refused(&run, ERROR_USAGE, "--svg and --png are the same file");
        run = program("generate|builtin|-i|a|--max-tokens|1|--cache|%s|--record|%s|--force", svg,
                      names[i]);
        check_refused(&run, ERROR_USAGE, "--cache and --record name one file");
    }
    unlink(svg); // names of a file that is not there yet
    unlink(link);
    TestRun run =
        program("generate|builtin|-i|a|--max-tokens|1|--cache|%s|--record|%s", svg, other);
    check_refused(&run, ERROR_USAGE, "--cache and --record name one file");
    free(svg);
    free(link);
    free(other);
}

Test(outputs, convert_makes_no_file_that_its_source_would_be_read_with) {
    const char *directory = test_temporary("beside-model");
    CHECK(!mkdir(directory, 0700), "mkdir");
    char *model = strdup(in(directory, "model.bin"));
    BinShape shape = bin_shape_tiny(0, true);
    size_t size;
    char *bytes = bin_bytes(&size, &shape, 1);
    test_write_file(model, bytes, size);
    free(bytes);
    TestRun run = program("convert|%s|%s", model, in(directory, "tokenizer.bin"));
    check_refused(&run, ERROR_USAGE, "would be read with the model");
    free(model);
}

Test(outputs, a_directory_beside_this_one_is_written) {
    need_builtin();
    TestRun r =
        program_shell("R=$(realpath \"$RUN\"); D=$(mktemp -d); mkdir $D/one; cd $D/one; "
                      "\"$R\" convert builtin ../two/ -q && ls ../two/model.safetensors; rm -r $D");
    check_status(&r, 0);
    CHECK(strstr(r.out, "../two/model.safetensors"), "%s%s", r.out, r.err);
    test_run_free(&r);
}
