// Files that appear in a directory together, and what happens to those that are there.
#include "base/directory_writer.h"
#include "tests/test.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

// ---- a set of three files: one, two, last; "ours-" begins the names of others of its kind ----

static bool is_ours(const char *name, const void *context) {
    return !strcmp(name, "one") || !strcmp(name, "two") || !strcmp(name, context) ||
           !strncmp(name, "ours-", 5);
}

static OutputDirectory output(const char *path, bool force) {
    return (OutputDirectory){.path = path,
                             .force = force,
                             .owns = is_ours,
                             .context = "last",
                             .set = "s",
                             .last = "last"};
}

static char *at(const char *directory, const char *name) {
    return strdup(test_text("%s/%s", directory, name));
}

// An empty directory of the test's own; the target is "out" in it.
static char *home(const char *name, char **out) {
    char *path = strdup(test_temporary(name));
    CHECK_INT(mkdir(path, 0777), 0);
    *out = at(path, "out");
    return path;
}

static void put(const char *directory, const char *name, const char *text) {
    char *path = at(directory, name);
    test_write_file(path, text, strlen(text));
    free(path);
}

static void check(const char *directory, const char *name, const char *wanted) {
    char *path = at(directory, name);
    if (wanted) {
        char *text = test_read_file(path, NULL);
        CHECK_STRING(text, wanted);
        free(text);
    } else {
        struct stat status;
        CHECK(lstat(path, &status), "%s is there", path);
    }
    free(path);
}

static void stage(DirectoryWriter *writer, const char *name, const char *text) {
    Error error = {0};
    const char *path = directory_writer_file(writer, name, &error);
    CHECK(path, "%s", error.message);
    FileWriter *file = file_writer_open(&(OutputFile){.path = path}, strlen(text), &error);
    CHECK(file && file_writer_put(file, 0, text, strlen(text), &error) &&
              file_writer_finish(file, &error),
          "%s", error.message);
    file_writer_close(file);
}

// Opened, with two of the files: "new one", "new last".
static DirectoryWriter *begin(const OutputDirectory *out) {
    Error error = {0};
    DirectoryWriter *writer = directory_writer_open(out, &error);
    CHECK(writer, "%s", error.message);
    stage(writer, "one", "new one");
    stage(writer, "last", "new last");
    return writer;
}

static void write_set(const char *path, bool force) {
    Error error = {0};
    OutputDirectory out = output(path, force);
    CHECK(output_directory_check(&out, &error), "%s", error.message);
    DirectoryWriter *writer = begin(&out);
    CHECK(directory_writer_finish(writer, &error), "%s", error.message);
    directory_writer_close(writer);
    check(path, "one", "new one");
    check(path, "last", "new last");
}

// Neither checked nor opened, for this reason.
static void check_refused(const OutputDirectory *out, ErrorCode code, const char *because) {
    for (int open = 0; open < 2; open++) {
        Error error = {0};
        DirectoryWriter *writer = NULL;
        bool good = open ? (writer = directory_writer_open(out, &error)) != NULL
                         : output_directory_check(out, &error);
        CHECK(!good, "%s", out->path);
        CHECK(error.code == code && strstr(error.message, because), "%d %s", (int)error.code,
              error.message);
        CHECK(!strncmp(error.message, out->path, strlen(out->path)), "%s", error.message);
    }
}

// The finish is refused for this reason.
static void check_not_finished(DirectoryWriter *writer, ErrorCode code, const char *because) {
    Error error = {0};
    CHECK(!directory_writer_finish(writer, &error), "finished");
    CHECK(error.code == code && strstr(error.message, because), "%d %s", (int)error.code,
          error.message);
    directory_writer_close(writer);
}

// ---- into place ----

Test(directory_writer, a_new_directory_appears_whole) {
    char *out, *parent = home("new", &out);
    OutputDirectory place = output(out, false);
    DirectoryWriter *writer = begin(&place);
    CHECK(access(out, F_OK), "there before finish");
    CHECK(directory_writer_finish(writer, NULL));
    directory_writer_close(writer);
    check(out, "last", "new last");
    CHECK_INT(test_entries(out), 2);
    CHECK_INT(test_entries(parent), 1);
    free(out), free(parent);
}

Test(directory_writer, a_directory_of_others_files_gets_the_set) {
    char *out, *parent = home("others", &out);
    struct stat before, after;
    CHECK_INT(mkdir(out, 0700), 0);
    put(out, "theirs", "theirs");
    CHECK(!stat(out, &before));
    write_set(out, false);
    CHECK(!stat(out, &after) && same_file(&before, &after), "it is another directory");
    check(out, "theirs", "theirs");
    CHECK_INT(test_entries(out), 3);
    CHECK_INT(test_entries(parent), 1);
    free(out), free(parent);
}

Test(directory_writer, an_old_set_is_exchanged_and_everything_else_stays) {
    char *out, *parent = home("exchanged", &out);
    struct stat before, after;
    CHECK_INT(mkdir(out, 0700), 0);
    CHECK_INT(chmod(out, 0751), 0);
    char *deep = at(out, "deep"), *deeper = at(deep, "deeper"), *soft = at(out, "soft");
    char *theirs = at(out, "theirs");
    CHECK(!mkdir(deep, 0700) && !mkdir(deeper, 0710) && !symlink("theirs", soft));
    put(out, "theirs", "theirs");
    put(deeper, "one", "of the name of a file of the set");
    put(out, "one", "old one");
    put(out, "two", "old two");
    put(out, "ours-3", "old three");
    put(out, ".limpid-notes", "notes");
    char *one = at(out, "one");
    CHECK_INT(chmod(one, 0600), 0);
    CHECK_INT(utimensat(AT_FDCWD, deeper, (struct timespec[]){{1000, 0}, {2000, 0}}, 0), 0);
    CHECK(!stat(theirs, &before));
    write_set(out, true);
    CHECK(!stat(theirs, &after) && same_file(&before, &after) && after.st_nlink == 1, "a copy");
    check(deeper, "one", "of the name of a file of the set");
    check(out, "soft", "theirs");
    check(out, ".limpid-notes", "notes");
    check(out, "two", NULL);
    check(out, "ours-3", NULL);
    CHECK(!stat(out, &after) && (after.st_mode & 07777) == 0751, "mode %o", after.st_mode);
    CHECK(!stat(one, &after) && (after.st_mode & 07777) == 0600, "mode %o", after.st_mode);
    CHECK(!stat(deeper, &after) && (after.st_mode & 07777) == 0710 && after.st_mtime == 2000,
          "mode %o", after.st_mode);
    CHECK_INT(test_entries(out), 6);
    CHECK_INT(test_entries(parent), 1);
    free(out), free(parent), free(deep), free(deeper), free(soft), free(theirs), free(one);
}

Test(directory_writer, a_link_to_a_directory_stays_a_link) {
    char *out, *parent = home("linked", &out), *real = at(parent, "real");
    struct stat status;
    CHECK(!mkdir(real, 0700) && !symlink("real", out));
    put(real, "one", "old one");
    write_set(out, true);
    check(real, "one", "new one");
    CHECK(!lstat(out, &status) && S_ISLNK(status.st_mode), "the link is gone");
    CHECK_INT(test_entries(parent), 2);
    free(out), free(parent), free(real);
}

// A file of the set that is a link is replaced, and what it leads to stays.
Test(directory_writer, a_link_in_the_set_is_not_followed) {
    char *out, *parent = home("inner", &out), *one = at(out, "one");
    struct stat status;
    CHECK(!mkdir(out, 0700) && !symlink("../blob", one));
    put(parent, "blob", "blob");
    write_set(out, true);
    check(parent, "blob", "blob");
    CHECK(!lstat(one, &status) && S_ISREG(status.st_mode), "still a link");
    free(out), free(parent), free(one);
}

Test(directory_writer, without_finish_nothing_is_left) {
    char *out, *parent = home("left", &out);
    OutputDirectory place = output(out, true);
    directory_writer_close(begin(&place));
    CHECK_INT(test_entries(parent), 0);
    CHECK_INT(mkdir(out, 0700), 0);
    put(out, "theirs", "theirs");
    directory_writer_close(begin(&place));
    CHECK_INT(test_entries(out), 1);
    put(out, "one", "old one");
    directory_writer_close(begin(&place));
    check(out, "theirs", "theirs");
    check(out, "one", "old one");
    CHECK_INT(test_entries(out), 2);
    CHECK_INT(test_entries(parent), 1);
    directory_writer_close(NULL);
    free(out), free(parent);
}

// ---- refusals ----

Test(directory_writer, a_set_that_is_there_wants_force) {
    char *out, *parent = home("force", &out);
    OutputDirectory place = output(out, false);
    CHECK_INT(mkdir(out, 0700), 0);
    put(out, "two", "old two");
    check_refused(&place, ERROR_USAGE, "/two: is there already; --force replaces it");
    put(out, "ours-9", "old");
    check_refused(&place, ERROR_USAGE, "/ours-9: is there already");
    CHECK_INT(test_entries(out), 2);
    free(out), free(parent);
}

Test(directory_writer, an_input_is_never_replaced) {
    char *out, *parent = home("inputs", &out), *input = at(parent, "input");
    char *names[] = {at(out, "two"), at(out, "ours-hard"), at(out, "theirs")};
    FileSet inputs = {0};
    put(parent, "input", "input");
    CHECK(file_set_add(&inputs, input, NULL));
    OutputDirectory place = output(out, true);
    place.inputs = &inputs;
    CHECK(!mkdir(out, 0700) && !link(input, names[2]));
    write_set(out, true); // under a name that is not of the set it may be there
    CHECK(!symlink(input, names[0]));
    check_refused(&place, ERROR_USAGE, "/two: is read by this run");
    CHECK(!unlink(names[0]) && !link(input, names[1]));
    check_refused(&place, ERROR_USAGE, "/ours-hard: is read by this run");
    for (int i = 0; i < 3; i++)
        free(names[i]);
    file_set_free(&inputs);
    free(out), free(parent), free(input);
}

Test(directory_writer, what_cannot_hold_the_set) {
    char *out, *parent = home("odd", &out), *inner = at(out, "two"), *far = at(out, "no/where");
    OutputDirectory place = output(out, true);
    put(parent, "out", "a file");
    check_refused(&place, ERROR_IO, "Not a directory");
    CHECK(!unlink(out) && !symlink("nowhere", out));
    check_refused(&place, ERROR_IO, "cannot follow the link");
    CHECK(!unlink(out) && !mkdir(out, 0700) && !mkdir(inner, 0700));
    check_refused(&place, ERROR_IO, "/two: is a directory");
    place.path = far;
    check_refused(&place, ERROR_IO, "No such file or directory");
    place.path = "/proc/none"; // nobody makes directories there
    check_refused(&place, ERROR_IO, "No such file or directory");
    free(out), free(parent), free(inner), free(far);
}

// A shell that stands in it, or below it, would be left in the old one.
Test(directory_writer, the_current_directory_is_filled_but_not_exchanged) {
    char *out, *parent = home("current", &out), *below = at(out, "below"), before[1000];
    CHECK(getcwd(before, sizeof before) && !mkdir(out, 0700) && !mkdir(below, 0700));
    CHECK_INT(chdir(below), 0);
    write_set("..", false);
    OutputDirectory above = output("..", true), here = output(".", true);
    check_refused(&above, ERROR_USAGE,
                  "the current directory, or one above it, cannot be replaced");
    CHECK(!chdir("..") && !rename("one", "keep"));
    check_refused(&here, ERROR_USAGE, "the current directory, or one above it, cannot be replaced");
    CHECK_INT(chdir(before), 0);
    free(out), free(parent), free(below);
}

Test(directory_writer, more_files_than_it_keeps) {
    char *out, *parent = home("many", &out), *many = at(out, "many"), path[900];
    OutputDirectory place = output(out, true);
    Error error = {0};
    CHECK(!mkdir(out, 0700) && !mkdir(many, 0700));
    put(out, "one", "old one");
    for (int i = 0; i < DIRECTORY_WRITER_KEEPS; i++) { // with their directory, one too many
        snprintf(path, sizeof path, "%s/%d", many, i);
        int file = open(path, O_CREAT | O_WRONLY, 0600);
        CHECK(file >= 0 && !close(file), "%s", path);
    }
    CHECK(!directory_writer_open(&place, &error), "opened");
    CHECK(strstr(error.message, "the directory has too many files"), "%s", error.message);
    CHECK_INT(test_entries(parent), 1);
    CHECK_INT(unlink(path), 0);
    write_set(out, true);
    CHECK_INT(test_entries(many), DIRECTORY_WRITER_KEEPS - 1);
    free(out), free(parent), free(many);
}

// ---- others at work in the same place ----

Test(directory_writer, what_appears_meanwhile_is_kept) {
    char *out, *parent = home("meanwhile", &out);
    OutputDirectory place = output(out, false), forced = output(out, true);
    DirectoryWriter *writer = begin(&place);
    CHECK_INT(mkdir(out, 0700), 0);
    put(out, "theirs", "theirs");
    check_not_finished(writer, ERROR_USAGE, "is there already");
    check(out, "theirs", "theirs");
    writer = begin(&place);
    put(out, "one", "theirs too");
    check_not_finished(writer, ERROR_USAGE, "/one: is there already");
    check(out, "one", "theirs too");
    check(out, "last", NULL);
    // With force: what is not of the set is linked at the end, not at the beginning.
    writer = begin(&forced);
    put(out, "later", "later");
    CHECK(directory_writer_finish(writer, NULL));
    directory_writer_close(writer);
    check(out, "later", "later");
    CHECK_INT(test_entries(parent), 1);
    free(out), free(parent);
}

Test(directory_writer, an_input_that_appears_meanwhile_is_kept) {
    char *out, *parent = home("appears", &out), *input = at(parent, "input"), *two = at(out, "two");
    FileSet inputs = {0};
    OutputDirectory place = output(out, true);
    put(parent, "input", "input");
    CHECK(file_set_add(&inputs, input, NULL) && !mkdir(out, 0700));
    place.inputs = &inputs;
    put(out, "one", "old one");
    DirectoryWriter *writer = begin(&place);
    CHECK_INT(link(input, two), 0);
    check_not_finished(writer, ERROR_USAGE, "/two: is read by this run");
    check(out, "one", "old one");
    file_set_free(&inputs);
    free(out), free(parent), free(input), free(two);
}

// The first to finish has its set there; the second replaces it, as whole.
Test(directory_writer, two_at_once_leave_one_whole_set) {
    char *out, *parent = home("two", &out);
    OutputDirectory place = output(out, true);
    CHECK_INT(mkdir(out, 0700), 0);
    put(out, "one", "old one");
    put(out, "theirs", "theirs");
    DirectoryWriter *first = begin(&place), *second = begin(&place);
    stage(second, "two", "of the second");
    CHECK(directory_writer_finish(first, NULL));
    directory_writer_close(first);
    check(out, "two", NULL);
    check_not_finished(second, ERROR_IO, "cannot replace it"); // it is another directory now
    check(out, "one", "new one");
    check(out, "theirs", "theirs");
    CHECK_INT(test_entries(out), 3);
    CHECK_INT(test_entries(parent), 1);
    free(out), free(parent);
}

// A file that is only in the directory of a killed run is somebody's: it comes back.
Test(directory_writer, what_a_killed_run_left_is_removed_and_nothing_is_lost) {
    char *out, *parent = home("killed", &out), *left = NULL;
    OutputDirectory place = output(out, true);
    CHECK_INT(mkdir(out, 0700), 0);
    put(out, "one", "old one");
    put(out, "theirs", "theirs");
    DirectoryWriter *writer = begin(&place);
    left = strdup(directory_writer_file(writer, "", NULL));
    left[strlen(left) - 1] = '\0';
    char *kept = strdup(test_text("%s9", left)), *copy = at(kept, "theirs"),
         *theirs = at(out, "theirs");
    directory_writer_close(writer);
    CHECK(!mkdir(kept, 0700) && !link(theirs, copy));
    put(kept, "one", "half written");
    put(kept, "saved-late", "in the old directory after the links were made");
    write_set(out, true);
    check(out, "theirs", "theirs");
    check(out, "saved-late", "in the old directory after the links were made");
    CHECK_INT(test_entries(parent), 1);
    free(out), free(parent), free(left), free(kept), free(copy), free(theirs);
}
