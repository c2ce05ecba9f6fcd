// One open descriptor, and the steps from there to a name: sync the bytes, link, rename, sync the
// directory. The order is what makes a crash at any point leave the old file or the new one.
//
//   file_writer_open    follow links -> may it be replaced? -> open the directory -> remove what
//                       killed runs left -> open a file without a name -> reserve its size
//   file_writer_put     pwrite
//   file_writer_finish  write back, fsync -> give it a temporary name -> close -> rename
//                       -> fsync the directory
//
// A file without a name cannot be renamed over another one, so it gets a temporary name first
// (linkat), and only the rename replaces the target.
#include "base/file_writer.h"

#include "base/arena.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

struct FileWriter {
    Arena arena;
    const char *path;   // as the user gave it, for messages
    const char *target; // with links followed
    const FileSet *inputs;
    bool force;
    const int *stop;
    int directory;  // where the target lies; -1: not open
    int descriptor; // -1: not open
    int lock;       // the same file, locked until it is in its place; -1: not open
    bool unnamed;   // no name yet (O_TMPFILE)
    bool linked;    // `temporary` exists in the directory
    char temporary[40];
    const char *name; // of the target in the directory
    uint64_t size;
};

// The error of a system call, by errno, with the path in front. False.
static bool fail(const FileWriter *file, Error *error, const char *what) {
    error_set(error, errno == ENOMEM ? ERROR_MEMORY : ERROR_IO, "cannot %s: %s", what,
              strerror(errno));
    return error_prefix(error, file->path);
}

// Bytes between two looks at *stop: some tens of milliseconds of writing to a disk.
enum { STRIDE = 4 << 20 };

// ---- opening ----

bool refuse_input(const char *path, Error *error) {
    error_set(error, ERROR_USAGE, "is read by this run; give another output");
    return error_prefix(error, path);
}

bool refuse_existing(const char *path, Error *error) {
    error_set(error, ERROR_USAGE, "is there already; --force replaces it");
    return error_prefix(error, path);
}

// False: exit code 2 or 4. Asked when the file is opened and again before the rename.
static bool may_replace(const FileWriter *file, const struct stat *status, Error *error) {
    if (!S_ISREG(status->st_mode)) { // also where standard input is the same /dev/null
        error_set(error, ERROR_IO, "%s, not a file to write to",
                  S_ISDIR(status->st_mode) ? "is a directory" : "is a device, a pipe or a socket");
        return error_prefix(error, file->path);
    }
    if (file_set_has(file->inputs, status)) return refuse_input(file->path, error);
    return file->force || refuse_existing(file->path, error);
}

// Where the path leads, and what is known of the file that will be replaced (st_mode 0: there is
// none).
static bool resolve(FileWriter *file, const OutputFile *out, struct stat *there, Error *error) {
    struct stat status;
    file->path = out->shown ? out->shown : out->path;
    file->path = arena_text(&file->arena, file->path, strlen(file->path), error);
    file->target = arena_text(&file->arena, out->path, strlen(out->path), error);
    file->inputs = out->inputs;
    file->force = out->force;
    if (!file->path || !file->target) return false;
    size_t length = strlen(out->path);
    if (!length) return error_set(error, ERROR_IO, "the name of the output is empty");
    if (out->path[length - 1] == '/') {
        error_set(error, ERROR_IO, "is the name of a directory; give that of a file");
        return error_prefix(error, file->path);
    }
    if (!strcmp(out->path, "-"))
        return error_set(error, ERROR_USAGE,
                         "-: a file is written here, not standard output (./- is a file named so)");
    if (lstat(file->target, &status)) return errno == ENOENT || fail(file, error, "look at it");
    if (S_ISLNK(status.st_mode)) {
        // /dev/stdout leads to a pipe, which has no path.
        if (!stat(file->target, &status) && !S_ISREG(status.st_mode))
            return may_replace(file, &status, error);
        char *whole = realpath(file->target, NULL);
        if (!whole) return fail(file, error, "follow the link");
        file->target = arena_text(&file->arena, whole, strlen(whole), error);
        free(whole);
        if (!file->target) return false;
        if (stat(file->target, &status)) return fail(file, error, "look at it");
    }
    *there = status;
    return may_replace(file, &status, error);
}

bool output_file_check(const OutputFile *out, Error *error) {
    if (!out->grows) {
        FileWriter *begun = file_writer_open(out, 0, error);
        file_writer_close(begun);
        return begun;
    }
    FileWriter file = {0};
    struct stat there = {0};
    bool good = resolve(&file, out, &there, error);
    arena_free(&file.arena);
    return good;
}

// The directory that a path leads to, and the name in it, owned. False: there is none.
static bool place_of(const char *path, struct stat *directory, char **name) {
    struct stat status;
    bool is_link = !lstat(path, &status) && S_ISLNK(status.st_mode);
    char *whole = is_link ? realpath(path, NULL) : strdup(path);
    char *slash = whole ? strrchr(whole, '/') : NULL;
    *name = whole ? strdup(slash ? slash + 1 : whole) : NULL;
    if (slash) slash[slash == whole] = '\0';
    bool good = *name && !stat(slash ? whole : ".", directory);
    free(whole);
    return good;
}

bool output_files_same(const char *a, const char *b) {
    struct stat of_a, of_b;
    char *name_a = NULL, *name_b = NULL;
    bool same = place_of(a, &of_a, &name_a) && place_of(b, &of_b, &name_b) &&
                same_file(&of_a, &of_b) && !strcmp(name_a, name_b);
    free(name_a);
    free(name_b);
    return same;
}

// Opens the directory of the target, relative to which all names are used from here on: if somebody
// renames it, the file still arrives in the directory that was checked.
static bool open_directory(FileWriter *file, Error *error) {
    const char *slash = strrchr(file->target, '/');
    size_t length = slash ? (size_t)(slash - file->target) : 0;
    const char *directory = !slash ? "." : length ? file->target : "/";
    if (slash && length) directory = arena_text(&file->arena, file->target, length, error);
    if (!directory) return false;
    file->name = slash ? slash + 1 : file->target;
    if (!*file->name)
        errno = *file->target ? EISDIR : ENOENT;
    else
        file->directory = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return file->directory >= 0 || fail(file, error, "write there");
}

// ".limpid-", for a directory a hash of 16 digits and "-", the process, "-", a number.
bool is_temporary(const char *name) {
    static const char DIGITS[] = "0123456789abcdef";
    // Strict, since what has such a name is removed: no file of a user should match by chance.
    enum { HASH = 16 };
    size_t length = sizeof TEMPORARY_PREFIX - 1;
    if (strncmp(name, TEMPORARY_PREFIX, length) != 0) return false;
    name += length;
    if (strspn(name, DIGITS) == HASH && name[HASH] == '-') name += HASH + 1;
    length = strspn(name, "0123456789");
    if (!length || name[length] != '-') return false;
    name += length + 1;
    length = strspn(name, "0123456789");
    return length && (!name[length] || name[length] == '/');
}

// A file that nobody has locked: its run was killed.
static void remove_leftover(int directory, const char *name) {
    struct stat status;
    int left = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (left < 0) return;
    if (!fstat(left, &status) && S_ISREG(status.st_mode) && !flock(left, LOCK_EX | LOCK_NB))
        unlinkat(directory, name, 0);
    close(left);
}

// "." is opened anew, since closedir closes the descriptor that it reads.
static void remove_leftovers(const FileWriter *file) {
    int copy = openat(file->directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *entries = copy < 0 ? NULL : fdopendir(copy);
    if (!entries && copy >= 0) close(copy);
    for (struct dirent *e; entries && (e = readdir(entries));)
        if (is_temporary(e->d_name)) remove_leftover(file->directory, e->d_name);
    if (entries) closedir(entries);
}

// The lock has a descriptor of its own, since `descriptor` is closed before the rename. False:
// another run took the file for a leftover before it was locked. A file system without locks is as
// good.
static bool lock(FileWriter *file) {
    struct stat status;
    file->lock = fcntl(file->descriptor, F_DUPFD_CLOEXEC, 0);
    if (file->lock >= 0 && flock(file->lock, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK)
        return false;
    return file->unnamed || fstat(file->descriptor, &status) || status.st_nlink;
}

// Closes what is open, without a look at the result.
static void close_all(FileWriter *file) {
    int *const open[] = {&file->descriptor, &file->lock};
    for (int i = 0; i < 2; i++) {
        if (*open[i] >= 0) close(*open[i]);
        *open[i] = -1;
    }
}

// Takes a file name that is not in use yet (O_EXCL). link: gives it to a file opened without a
// name.
static bool take_name(FileWriter *file, bool link, Error *error) {
    char self[40];
    snprintf(self, sizeof self, "/proc/self/fd/%d", file->descriptor);
    for (int attempt = 0; attempt < 1000; attempt++) {
        snprintf(file->temporary, sizeof file->temporary, TEMPORARY_PREFIX "%ld-%d", (long)getpid(),
                 attempt);
        if (link) {
            file->linked =
                !linkat(AT_FDCWD, self, file->directory, file->temporary, AT_SYMLINK_FOLLOW);
        } else {
            file->descriptor = openat(file->directory, file->temporary,
                                      O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
            file->linked = file->descriptor >= 0 && lock(file);
            if (file->descriptor >= 0 && !file->linked) {
                close_all(file);
                continue;
            }
        }
        if (file->linked) return true;
        if (errno != EEXIST) break;
    }
    return fail(file, error, "write there");
}

// Without /proc a file without a name could never be given one.
static bool open_descriptor(FileWriter *file, Error *error) {
    if (!access("/proc/self/fd", X_OK))
        file->descriptor = openat(file->directory, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0666);
    file->unnamed = file->descriptor >= 0;
    return file->unnamed ? lock(file) : take_name(file, false, error);
}

// Where the file system cannot reserve space, a full disk is only found when writing.
static bool reserve(FileWriter *file, Error *error) {
    int failed;
    // fallocate, so that a full disk is an error now and not after an hour of work.
    if (file->size > INT64_MAX) {
        errno = EFBIG;
        return fail(file, error, "write it");
    }
    if (!file->size) return true;
    do
        failed = fallocate(file->descriptor, 0, 0, (off_t)file->size);
    while (failed && errno == EINTR);
    if (failed && (errno == EOPNOTSUPP || errno == ENOSYS))
        failed = ftruncate(file->descriptor, (off_t)file->size);
    if (!failed) return true;
    error_set(error, ERROR_IO, "no room for its %llu bytes: %s", (unsigned long long)file->size,
              strerror(errno));
    return error_prefix(error, file->path);
}

// What a user, or a file system, may refuse.
static bool is_refusal(void) {
    return errno == EPERM || errno == ENOTSUP || errno == ENOSYS || errno == EINVAL;
}

bool take_rights(int descriptor, const char *path, const struct stat *there) {
    static const char ACL[] = "system.posix_acl_access";
    char acl[2048];
    mode_t mode = there->st_mode & (S_ISDIR(there->st_mode) ? 07777 : 0777);
    mode_t fewer = (mode & ~(mode_t)070) | (mode & 07) << 3;
    bool moved = !fchown(descriptor, there->st_uid, there->st_gid) ||
                 !fchown(descriptor, (uid_t)-1, there->st_gid);
    if (!moved && !is_refusal()) return false;
    // Where there is an access control list, the bits of the group are its mask.
    ssize_t bytes = getxattr(path, ACL, acl, sizeof acl);
    bool plain = bytes < 0 && (errno == ENODATA || errno == ENOTSUP);
    if (fchmod(descriptor, moved && plain ? mode : fewer)) return is_refusal();
    return !moved || bytes <= 0 || !fsetxattr(descriptor, ACL, acl, (size_t)bytes, 0) ||
           is_refusal();
}

FileWriter *file_writer_open(const OutputFile *out, uint64_t size, Error *error) {
    FileWriter *file = calloc(1, sizeof *file);
    if (!file) {
        error_set(error, ERROR_MEMORY, "out of memory: %zu bytes", sizeof *file);
        return NULL;
    }
    struct stat there = {0};
    file->directory = file->descriptor = file->lock = -1;
    file->size = size;
    file->stop = out->stop;
    bool good = resolve(file, out, &there, error) && open_directory(file, error);
    if (good) remove_leftovers(file);
    good = good && open_descriptor(file, error) && reserve(file, error);
    if (good && there.st_mode && !take_rights(file->descriptor, file->target, &there))
        good = fail(file, error, "write there");
    if (good) return file;
    file_writer_close(file);
    return NULL;
}

// ---- writing ----

bool file_writer_put(FileWriter *file, uint64_t offset, const void *data, uint64_t bytes,
                     Error *error) {
    const char *at = data;
    if (offset > file->size || bytes > file->size - offset) {
        errno = EFBIG;
        return fail(file, error, "write behind the end");
    }
    while (bytes) {
        if (!not_stopped(file->stop, error)) return false;
        size_t piece = bytes < STRIDE ? (size_t)bytes : STRIDE;
        ssize_t written = pwrite(file->descriptor, at, piece, (off_t)offset);
        if (written < 0 && errno == EINTR) continue;
        if (written == 0) errno = ENOSPC;
        if (written <= 0) return fail(file, error, "write it");
        at += written;
        offset += (uint64_t)written;
        bytes -= (uint64_t)written;
    }
    return true;
}

// On NFS, close may be the first call to report a failed write, so its result is checked.
static bool close_descriptor(FileWriter *file, Error *error) {
    int failed = close(file->descriptor);
    file->descriptor = -1;
    return !failed || errno == EINTR || fail(file, error, "write it");
}

// Mounts of object stores and shared folders often have neither flags of rename nor hard links. An
// empty file takes the name, if it is still free, and is replaced. Such a rename may take seconds:
// where it fails, the name is freed only if nobody has written there meanwhile.
static bool reserve_name_and_rename(FileWriter *file) {
    struct stat there;
    int at = file->directory;
    int reserved = openat(at, file->name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (reserved < 0) return false;
    close(reserved);
    file->linked = renameat(at, file->temporary, at, file->name) != 0;
    if (!file->linked) return true;
    int cause = errno;
    if (!fstatat(at, file->name, &there, AT_SYMLINK_NOFOLLOW) && S_ISREG(there.st_mode) &&
        !there.st_size)
        unlinkat(at, file->name, 0);
    errno = cause;
    return false;
}

// A file that has appeared since the file was opened stays, without `force`. RENAME_NOREPLACE is
// one step; where the file system has none, a second link and the removal of the first do the same.
static bool rename_to_free_name(FileWriter *file) {
    int at = file->directory;
    file->linked = renameat2(at, file->temporary, at, file->name, RENAME_NOREPLACE) != 0;
    if (!file->linked) return true;
    if (errno != EINVAL && errno != ENOSYS) return false;
    if (linkat(at, file->temporary, at, file->name, 0))
        return is_refusal() && reserve_name_and_rename(file);
    file->linked = unlinkat(at, file->temporary, 0) != 0; // close tries again
    return true;
}

// False: exit code 2 or 4; the target is as it was. With `force` rename replaces it in one step,
// after another look at what is there now.
static bool put_in_place(FileWriter *file, Error *error) {
    struct stat status;
    int at = file->directory;
    if (!file->force) {
        if (rename_to_free_name(file)) return true;
        if (errno == EEXIST) return refuse_existing(file->path, error);
        return fail(file, error, "put it in its place");
    }
    if (!fstatat(at, file->name, &status, AT_SYMLINK_NOFOLLOW)) {
        if (!may_replace(file, &status, error)) return false;
    } else if (errno != ENOENT) {
        return fail(file, error, "look at it");
    }
    file->linked = renameat(at, file->temporary, at, file->name) != 0;
    return !file->linked || fail(file, error, "put it in its place");
}

// fsync may take seconds and cannot be interrupted, so most bytes are written back before it,
// STRIDE at a time, a few strides ahead of the one that is waited for. Where the file system cannot
// do that, fsync writes all of them. Any other error has to be told here: the kernel reports an
// error of the disk once, and fsync would then succeed.
static bool write_back(FileWriter *file, Error *error) {
    enum { AHEAD = 4 * STRIDE };
    const unsigned wait =
        SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
    for (uint64_t begun = 0, at = 0; at < file->size; at += STRIDE) {
        int failed = 0;
        for (; !failed && begun < file->size && begun < at + AHEAD; begun += STRIDE)
            failed = sync_file_range(file->descriptor, (off_t)begun, STRIDE, SYNC_FILE_RANGE_WRITE);
        if (!failed) failed = sync_file_range(file->descriptor, (off_t)at, STRIDE, wait);
        if (failed && (errno == ENOSYS || errno == EINVAL || errno == ESPIPE ||
                       errno == EOPNOTSUPP || errno == EPERM))
            return true;
        if (failed) return fail(file, error, "write it to the disk");
        if (!not_stopped(file->stop, error)) return false;
    }
    return not_stopped(file->stop, error);
}

bool file_writer_finish(FileWriter *file, Error *error) {
    if (!write_back(file, error)) return false;
    if (fsync(file->descriptor)) return fail(file, error, "write it to the disk");
    if (file->unnamed && !take_name(file, true, error)) return false;
    if (!close_descriptor(file, error) || !put_in_place(file, error)) return false;
    // The name is there; file systems that cannot sync a directory do not need it.
    return !fsync(file->directory) || errno == EINVAL || errno == EROFS ||
           fail(file, error, "write the directory to the disk");
}

void file_writer_close(FileWriter *file) {
    if (!file) return;
    if (file->linked) unlinkat(file->directory, file->temporary, 0);
    close_all(file);
    if (file->directory >= 0) close(file->directory);
    arena_free(&file->arena);
    free(file);
}

bool file_write(const OutputFile *out, const void *bytes, uint64_t size, Error *error) {
    FileWriter *file = file_writer_open(out, size, error);
    bool good =
        file && file_writer_put(file, 0, bytes, size, error) && file_writer_finish(file, error);
    file_writer_close(file);
    return good;
}

// What was written, and not what has that name by now: `lock` is of the same open file.
bool locked_file_replace(const OutputFile *out, const void *bytes, uint64_t size, int *descriptor,
                         Error *error) {
    FileWriter *file = file_writer_open(out, size, error);
    bool good = file && file_writer_put(file, 0, bytes, size, error);
    if (good && fcntl(file->lock, F_SETFL, O_APPEND)) good = fail(file, error, "write it");
    good = good && file_writer_finish(file, error);
    if (good) {
        close(*descriptor); // the old one, which was locked until now
        *descriptor = file->lock;
        file->lock = -1;
    }
    file_writer_close(file);
    return good;
}

const char *file_writer_path(const FileWriter *file) {
    return file->path;
}

bool write_whole(int file, const void *bytes, size_t size) {
    const char *at = bytes;
    while (size) {
        ssize_t written = write(file, at, size);
        if (written < 0 && errno == EINTR) continue;
        if (written == 0) errno = ENOSPC;
        if (written <= 0) return false;
        at += written;
        size -= (size_t)written;
    }
    return true;
}
