// A file appears whole or not at all, whatever stands in its way.
#include "base/file_writer.h"
#include "tests/test.h"

#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

// An empty directory of the test's own.
static const char *fresh(const char *name) {
    const char *path = test_temporary(name);
    CHECK_INT(mkdir(path, 0777), 0);
    return path;
}

static char *inside(const char *directory, const char *name) {
    char *path = malloc(strlen(directory) + strlen(name) + 2);
    sprintf(path, "%s/%s", directory, name);
    return path;
}

// With `force`: what is there is replaced.
static FileWriter *begin(const char *path, uint64_t size, Error *error) {
    return file_writer_open(&(OutputFile){.path = path, .force = true}, size, error);
}

static void write_text(const char *path, const char *text) {
    Error error = {0};
    FileWriter *file = begin(path, strlen(text), &error);
    CHECK(file, "%s", error.message);
    CHECK(file_writer_put(file, 0, text, strlen(text), &error), "%s", error.message);
    CHECK(file_writer_finish(file, &error), "%s", error.message);
    file_writer_close(file);
}

static void check_content(const char *path, const char *wanted) {
    size_t size;
    char *text = test_read_file(path, &size);
    CHECK_STRING(text, wanted);
    free(text);
}

static void check_refused(const char *path, const char *because) {
    Error early = {0}, error = {0};
    CHECK(!output_file_check(&(OutputFile){.path = path, .force = true}, &early), "%s", path);
    FileWriter *file = begin(path, 4, &error);
    CHECK(!file, "%s was opened", path);
    CHECK_STRING(early.message, error.message);
    CHECK_INT(error.code, ERROR_IO);
    CHECK(strstr(error.message, because), "\"%s\" is not in \"%s\"", because, error.message);
    CHECK(!strncmp(error.message, path, strlen(path)), "no path in \"%s\"", error.message);
}

Test(file_writer, pieces_in_any_order_make_the_file) {
    const char *directory = fresh("order");
    char *path = inside(directory, "out");
    Error error = {0};
    FileWriter *file = begin(path, 11, &error);
    CHECK(file, "%s", error.message);
    CHECK(file_writer_put(file, 6, "world", 5, &error), "%s", error.message);
    CHECK(file_writer_put(file, 0, "hello ", 6, &error), "%s", error.message);
    CHECK(access(path, F_OK), "there before finish");
    CHECK(file_writer_finish(file, &error), "%s", error.message);
    file_writer_close(file);
    check_content(path, "hello world");
    CHECK_INT(test_entries(directory), 1);
    free(path);
}

Test(file_writer, what_is_never_put_is_zeros) {
    const char *directory = fresh("zeros");
    char *path = inside(directory, "out");
    Error error = {0};
    FileWriter *file = begin(path, 5, &error);
    CHECK(file && file_writer_put(file, 4, "x", 1, &error), "%s", error.message);
    CHECK(file_writer_finish(file, &error), "%s", error.message);
    file_writer_close(file);
    size_t size;
    char *bytes = test_read_file(path, &size);
    CHECK_INT(size, 5);
    CHECK(!memcmp(bytes, "\0\0\0\0x", 5), "other bytes");
    free(bytes);
    free(path);
}

Test(file_writer, without_finish_nothing_is_left) {
    const char *directory = fresh("left");
    char *path = inside(directory, "out");
    Error error = {0};
    FileWriter *file = begin(path, 4, &error);
    CHECK(file && file_writer_put(file, 0, "half", 4, &error), "%s", error.message);
    file_writer_close(file);
    CHECK_INT(test_entries(directory), 0);
    file_writer_close(NULL);
    free(path);
}

Test(file_writer, the_old_file_stays_until_finish_and_keeps_its_mode) {
    const char *directory = fresh("old");
    char *path = inside(directory, "out");
    struct stat status;
    Error error = {0};
    write_text(path, "old");
    CHECK_INT(chmod(path, 0640), 0);
    FileWriter *file = begin(path, 3, &error);
    CHECK(file && file_writer_put(file, 0, "new", 3, &error), "%s", error.message);
    check_content(path, "old");
    CHECK(file_writer_finish(file, &error), "%s", error.message);
    file_writer_close(file);
    check_content(path, "new");
    CHECK(!stat(path, &status) && (status.st_mode & 0777) == 0640, "mode %o", status.st_mode);
    CHECK_INT(test_entries(directory), 1);
    free(path);
}

// Written as root, it still is the user's; and what a user replaces that belongs to a group of
// which the user is none gets no right for another group.
Test(file_writer, the_new_file_belongs_to_whom_the_old_one_did) {
    enum { USER = 4321, GROUP = 4322 };
    const char *directory = fresh("owner");
    char *path = inside(directory, "out");
    struct stat status;
    if (geteuid()) SKIP("only root gives files away");
    write_text(path, "old");
    CHECK(!chown(path, USER, GROUP) && !chmod(path, 0664), "cannot prepare");
    write_text(path, "new");
    CHECK_INT(stat(path, &status), 0);
    CHECK_INT(status.st_uid, USER);
    CHECK_INT(status.st_gid, GROUP);
    CHECK((status.st_mode & 0777) == 0664, "mode %o", status.st_mode);

    CHECK(!chmod(directory, 0777) && !chdir(directory), "cannot prepare");
    pid_t child = fork();
    if (!child) {
        // A process that gives up its rights loses sight of /proc/self/fd, unless it is dumpable.
        bool user = !setgroups(0, NULL) && !setresgid(USER, USER, USER) &&
                    !setresuid(USER, USER, USER) && !prctl(PR_SET_DUMPABLE, 1);
        if (user) write_text("out", "newer");
        _exit(!user);
    }
    int ended;
    CHECK_INT(waitpid(child, &ended, 0), child);
    CHECK_INT(ended, 0);
    check_content("out", "newer");
    CHECK_INT(stat("out", &status), 0);
    CHECK_INT(status.st_gid, USER);
    CHECK((status.st_mode & 0777) == 0644, "mode %o", status.st_mode);
    free(path);
}

Test(file_writer, a_file_that_nobody_may_read_stays_so) {
    const char *directory = fresh("closed");
    char *path = inside(directory, "out");
    struct stat status;
    write_text(path, "old");
    CHECK_INT(chmod(path, 0), 0);
    write_text(path, "new");
    CHECK(!stat(path, &status) && (status.st_mode & 0777) == 0, "mode %o", status.st_mode);
    free(path);
}

// The bits of the group are the mask of such a list: as a mode they would give the group what the
// list gives to somebody else.
Test(file_writer, an_access_control_list_stays) {
    static const char NAME[] = "system.posix_acl_access";
    enum { USER_OBJ = 1, USER = 2, GROUP_OBJ = 4, MASK = 16, OTHER = 32, NOBODY = -1 };
    const struct {
        uint16_t tag, rights;
        int32_t id;
    } list[] = {{USER_OBJ, 6, NOBODY},
                {USER, 6, 4321},
                {GROUP_OBJ, 0, NOBODY},
                {MASK, 6, NOBODY},
                {OTHER, 0, NOBODY}};
    char wanted[4 + sizeof list] = {2}, got[200]; // the version, little-endian
    memcpy(wanted + 4, list, sizeof list);
    const char *directory = fresh("acl");
    char *path = inside(directory, "out");
    write_text(path, "old");
    if (setxattr(path, NAME, wanted, sizeof wanted, 0)) SKIP("no access control lists here");
    write_text(path, "new");
    ssize_t size = getxattr(path, NAME, got, sizeof got);
    CHECK(size == sizeof wanted && !memcmp(got, wanted, sizeof wanted), "%zd bytes", size);
    free(path);
}

Test(file_writer, new_files_follow_the_umask) {
    const char *directory = fresh("umask");
    char *path = inside(directory, "out");
    struct stat status;
    mode_t before = umask(027);
    write_text(path, "x");
    umask(before);
    CHECK(!stat(path, &status) && (status.st_mode & 0777) == 0640, "mode %o", status.st_mode);
    free(path);
}

Test(file_writer, writes_through_a_link) {
    const char *directory = fresh("links");
    char *path = inside(directory, "link"), *target = inside(directory, "target");
    struct stat status;
    write_text(target, "old");
    CHECK_INT(symlink("target", path), 0);
    write_text(path, "new");
    check_content(target, "new");
    CHECK(!lstat(path, &status) && S_ISLNK(status.st_mode), "the link is gone");
    free(path);
    free(target);
}

Test(file_writer, refuses_what_is_no_file) {
    const char *directory = fresh("odd");
    char *fifo = inside(directory, "fifo"), *dangling = inside(directory, "dangling");
    char *loop = inside(directory, "loop"), *below = inside(directory, "no/such");
    char *slash = inside(directory, "new/");
    CHECK_INT(mkfifo(fifo, 0600), 0);
    CHECK_INT(symlink("nowhere", dangling), 0);
    CHECK_INT(symlink("loop", loop), 0);
    check_refused(directory, "is a directory");
    check_refused(fifo, "a pipe");
    check_refused("/dev/full", "is a device");
    check_refused(dangling, "cannot follow the link");
    check_refused(loop, "cannot follow the link");
    check_refused(below, "No such file or directory");
    check_refused(slash, "is the name of a directory; give that of a file");
    int ends[2];
    char piped[40];
    CHECK(!pipe(ends), "no pipe");
    snprintf(piped, sizeof piped, "/proc/self/fd/%d", ends[1]); // as /dev/stdout may be
    check_refused(piped, "is a device, a pipe or a socket");
    close(ends[0]);
    close(ends[1]);
    check_refused("", "the name of the output is empty");
    char *long_name = calloc(1, 6001);
    memset(long_name, 'x', 6000);
    Error error = {0};
    CHECK(!begin(long_name, 4, &error), "a name of 6000 bytes");
    CHECK_INT(error.code, ERROR_IO);
    CHECK_INT(test_entries(directory), 3);
    free(long_name);
    free(fifo);
    free(dangling);
    free(loop);
    free(below);
    free(slash);
}

Test(file_writer, a_name_as_long_as_names_may_be) {
    const char *directory = fresh("long");
    char name[256] = "";
    memset(name, 'n', 255);
    char *path = inside(directory, name);
    write_text(path, "x");
    check_content(path, "x");
    free(path);
}

// A limit on file sizes stands for a full disk: taking the room fails at once.
Test(file_writer, no_room_is_said_before_anything_is_written) {
    const char *directory = fresh("full");
    char *path = inside(directory, "out");
    struct rlimit before, small;
    Error error = {0};
    getrlimit(RLIMIT_FSIZE, &before);
    small = (struct rlimit){.rlim_cur = 1 << 16, .rlim_max = before.rlim_max};
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &small);
    FileWriter *file = begin(path, 1 << 20, &error);
    setrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, handler);
    CHECK(!file, "opened");
    CHECK_INT(error.code, ERROR_IO);
    CHECK(strstr(error.message, "no room for its 1048576 bytes"), "%s", error.message);
    CHECK_INT(test_entries(directory), 0);
    error = (Error){0};
    CHECK(!begin(path, UINT64_MAX, &error), "2^64 - 1 bytes");
    CHECK_INT(error.code, ERROR_IO);
    CHECK(!begin(path, (uint64_t)1 << 62, NULL), "2^62 bytes");
    free(path);
}

Test(file_writer, nothing_is_put_behind_the_end) {
    const char *directory = fresh("behind");
    char *path = inside(directory, "out");
    Error error = {0};
    FileWriter *file = begin(path, 4, &error);
    CHECK(file, "%s", error.message);
    CHECK(file_writer_put(file, 4, "", 0, &error), "%s", error.message);
    CHECK(!file_writer_put(file, 1, "1234", 4, &error), "one too many");
    CHECK_INT(error.code, ERROR_IO);
    CHECK(!file_writer_put(file, 5, "", 0, NULL), "behind the end");
    CHECK(!file_writer_put(file, UINT64_MAX, "12", 2, NULL), "around the corner");
    file_writer_close(file);
    free(path);
}

Test(file_writer, a_directory_that_vanishes_fails_the_finish) {
    const char *directory = fresh("gone");
    char *path = inside(directory, "out");
    Error error = {0};
    FileWriter *file = begin(path, 4, &error);
    CHECK(file && file_writer_put(file, 0, "half", 4, &error), "%s", error.message);
    if (rmdir(directory)) SKIP("the temporary has a name here");
    CHECK(!file_writer_finish(file, &error), "finished in no directory");
    CHECK_INT(error.code, ERROR_IO);
    file_writer_close(file);
    free(path);
}

// ---- what is there ----

static void check_kept(const OutputFile *out, const char *because) {
    for (int open = 0; open < 2; open++) {
        Error error = {0};
        CHECK(open ? !file_writer_open(out, 4, &error) : !output_file_check(out, &error), "%s",
              out->path);
        CHECK_INT(error.code, ERROR_USAGE);
        CHECK(strstr(error.message, because), "%s", error.message);
        CHECK(!strncmp(error.message, out->path, strlen(out->path)), "%s", error.message);
    }
}

Test(file_writer, what_is_there_is_replaced_only_with_force) {
    const char *directory = fresh("force");
    char *path = inside(directory, "out"), *soft = inside(directory, "soft");
    write_text(path, "old");
    CHECK_INT(symlink("out", soft), 0);
    check_kept(&(OutputFile){.path = path}, "is there already; --force replaces it");
    check_kept(&(OutputFile){.path = soft}, "is there already; --force replaces it");
    check_content(path, "old");
    CHECK(output_file_check(&(OutputFile){.path = path, .force = true}, NULL));
    write_text(path, "new");
    check_content(path, "new");
    free(path), free(soft);
}

Test(file_writer, a_dash_is_refused_with_or_without_force) {
    check_kept(&(OutputFile){.path = "-"}, "not standard output");
    check_kept(&(OutputFile){.path = "-", .force = true}, "./- is a file named so");
}

Test(file_writer, an_input_is_not_replaced_under_any_name) {
    const char *directory = fresh("inputs");
    char *path = inside(directory, "in"), *soft = inside(directory, "soft");
    char *hard = inside(directory, "hard"), *other = inside(directory, "other");
    FileSet inputs = {0};
    write_text(path, "input");
    write_text(other, "other");
    CHECK(!symlink("in", soft) && !link(path, hard));
    CHECK(file_set_add(&inputs, soft, NULL) && file_set_add(&inputs, "no such file", NULL));
    CHECK_INT(inputs.count, 1);
    const char *const names[] = {path, soft, hard};
    for (int i = 0; i < 3; i++)
        check_kept(&(OutputFile){.path = names[i], .inputs = &inputs, .force = true},
                   "is read by this run");
    check_content(path, "input");
    OutputFile out = {.path = other, .inputs = &inputs, .force = true};
    CHECK(output_file_check(&out, NULL), "another file is an input");
    CHECK(file_set_add_entries(&inputs, directory, NULL));
    CHECK(!output_file_check(&out, NULL), "in a directory that is read");
    file_set_free(&inputs);
    free(path), free(soft), free(hard), free(other);
}

Test(file_writer, a_file_that_appears_meanwhile_is_kept) {
    const char *directory = fresh("meanwhile");
    char *path = inside(directory, "out"), *input = inside(directory, "in");
    FileSet inputs = {0};
    Error error = {0};
    write_text(input, "input");
    CHECK(file_set_add(&inputs, input, NULL));
    FileWriter *file = file_writer_open(&(OutputFile){.path = path}, 3, &error);
    CHECK(file && file_writer_put(file, 0, "new", 3, &error), "%s", error.message);
    test_write_file(path, "theirs", 6);
    CHECK(!file_writer_finish(file, &error) && error.code == ERROR_USAGE, "replaced");
    CHECK(strstr(error.message, "is there already"), "%s", error.message);
    file_writer_close(file);
    check_content(path, "theirs");
    CHECK_INT(unlink(path), 0);
    error = (Error){0};
    file =
        file_writer_open(&(OutputFile){.path = path, .inputs = &inputs, .force = true}, 3, &error);
    CHECK(file && file_writer_put(file, 0, "new", 3, &error), "%s", error.message);
    CHECK_INT(link(input, path), 0);
    CHECK(!file_writer_finish(file, &error) && error.code == ERROR_USAGE, "replaced");
    CHECK(strstr(error.message, "is read by this run"), "%s", error.message);
    file_writer_close(file);
    check_content(input, "input");
    CHECK_INT(test_entries(directory), 2);
    file_set_free(&inputs);
    free(path), free(input);
}

// What a killed run left under a temporary name has no lock; that of a run that lasts has one.
Test(file_writer, what_a_killed_run_left_is_removed) {
    const char *directory = fresh("leftovers");
    char *path = inside(directory, "out"), *left = inside(directory, ".limpid-1-0");
    char *locked = inside(directory, ".limpid-1-1"), *theirs = inside(directory, ".limpid-notes");
    test_write_file(left, "half", 4);
    test_write_file(locked, "half", 4);
    test_write_file(theirs, "theirs", 6);
    int lock = open(locked, O_RDONLY);
    CHECK(lock >= 0 && !flock(lock, LOCK_EX));
    write_text(path, "new");
    CHECK(access(left, F_OK) && !access(locked, F_OK) && !access(theirs, F_OK), "others");
    CHECK_INT(test_entries(directory), 3);
    close(lock);
    free(path), free(left), free(locked), free(theirs);
}

static void check_stopped(bool good, Error *error) {
    CHECK(!good && error->code == ERROR_INTERRUPTED, "%d: %s", error->code, error->message);
    *error = (Error){0};
}

// *stop is seen by the next piece that is written, and on the way to the disk.
Test(file_writer, a_stop_leaves_the_old_file) {
    const char *directory = fresh("stopped");
    char *path = inside(directory, "out");
    int stop = 0;
    Error error = {0};
    write_text(path, "old");
    for (int put = 0; put < 2; put++) {
        FileWriter *file =
            file_writer_open(&(OutputFile){.path = path, .force = true, .stop = &stop}, 3, &error);
        CHECK(file, "%s", error.message);
        stop = put;
        if (put) check_stopped(file_writer_put(file, 0, "new", 3, &error), &error);
        if (!put) CHECK(file_writer_put(file, 0, "new", 3, &error), "%s", error.message);
        stop = 1;
        check_stopped(file_writer_finish(file, &error), &error);
        stop = 0;
        file_writer_close(file);
        check_content(path, "old");
        CHECK_INT(test_entries(directory), 1);
    }
    free(path);
}
