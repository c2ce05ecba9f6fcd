// Where the files gather (the stage), and the one step that puts them in their place.
//
//   output_directory_check    resolve the path -> examine what is there -> can it be exchanged?
//                             -> can files be made there?
//   directory_writer_open     the first three -> remove leftovers -> make the stage -> rehearse
//   directory_writer_file     a path inside the stage
//   directory_writer_finish   RENAME: rename the stage        MOVE: move its files
//                             EXCHANGE: link the other files into it, exchange, remove the old
//   directory_writer_close    remove the stage, where it is still there
//
// What is checked before long work is checked again when the set is put in its place, or a system
// call ensures it there (RENAME_NOREPLACE), since the directory may have changed meanwhile.
// Everything is synced before the step that makes it visible.
#include "base/directory_writer.h"

#include "base/arena.h"
#include "base/hash.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

typedef enum Way {
    WAY_RENAME,   // nothing is there
    WAY_MOVE,     // a directory without files of the set
    WAY_EXCHANGE, // one with files of the set
} Way;

struct DirectoryWriter {
    Arena arena;
    OutputDirectory out;
    const char *target; // with links followed; absolute
    const char *name;   // its last part
    const char *above;  // the directory that it is in
    Way way;
    int old;  // the directory that is there; -1: none
    int home; // where the stage is made: `above`, or the target itself (WAY_MOVE); -1: not open
    const char *stage; // its path; NULL: there is none
    int files;         // the stage, open and locked; -1: not open
    bool in_place;     // the set is in its place
};

// The error of a system call, by errno. False.
static bool fail(const DirectoryWriter *w, Error *error, const char *what) {
    error_set(error, errno == ENOMEM ? ERROR_MEMORY : ERROR_IO, "cannot %s: %s", what,
              strerror(errno));
    return error_prefix(error, w->out.path);
}

// Exit code 2 for something that cannot be exchanged. False.
static bool refuse(const DirectoryWriter *w, Error *error, const char *what) {
    error_set(error, ERROR_USAGE, "%s cannot be replaced as a whole; give another output", what);
    return error_prefix(error, w->out.path);
}

// directory + "/" + name, in the arena. NULL: exit code 5.
static const char *join(DirectoryWriter *w, const char *directory, const char *name, Error *error) {
    size_t length = strlen(directory), more = strlen(name);
    char *path = arena_alloc(&w->arena, length + more + 2, 1, error);
    if (!path) return NULL;
    memcpy(path, directory, length);
    if (length && path[length - 1] != '/') path[length++] = '/';
    memcpy(path + length, name, more);
    return path;
}

static int open_directory(int at, const char *path) {
    return openat(at, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

// ---- what is there ----

// `path`, which exists, as an absolute path without links. NULL: with errno, or with `error`.
static const char *real_path(DirectoryWriter *w, const char *path, Error *error) {
    char *whole = realpath(path, NULL);
    const char *copy = whole ? arena_text(&w->arena, whole, strlen(whole), error) : NULL;
    free(whole);
    return copy;
}

// The target does not exist: the directory above it does, or there is no place for it.
static bool find_place(DirectoryWriter *w, const char *path, Error *error) {
    const char *slash = strrchr(path, '/');
    size_t length = slash ? (size_t)(slash - path) + 1 : 0;
    struct stat status;
    if (!lstat(path, &status)) return fail(w, error, "follow the link");
    const char *above = arena_text(&w->arena, length ? path : "./", length ? length : 2, error);
    if (above) above = real_path(w, above, error);
    if (above) w->target = join(w, above, slash ? slash + 1 : path, error);
    return w->target || fail(w, error, "make the directory");
}

// target = above + "/" + name; name is empty for "/".
static bool split_target(DirectoryWriter *w, Error *error) {
    const char *slash = strrchr(w->target, '/');
    size_t length = slash == w->target ? 1 : (size_t)(slash - w->target);
    w->name = slash + 1;
    w->above = arena_text(&w->arena, w->target, length, error);
    return w->above;
}

// Finds the directory that out.path leads to, or will be made at, and opens it (w->old). The way is
// RENAME or MOVE from here on; examine changes MOVE to EXCHANGE. False: the error is filled.
static bool resolve(DirectoryWriter *w, Error *error) {
    size_t length = strlen(w->out.path);
    while (length > 1 && w->out.path[length - 1] == '/')
        length--;
    char *path = arena_text(&w->arena, w->out.path, length, error);
    if (!path) return false;
    w->old = open_directory(AT_FDCWD, path);
    w->way = w->old < 0 ? WAY_RENAME : WAY_MOVE;
    if (w->old < 0 && errno != ENOENT) return fail(w, error, "write there");
    if (w->old >= 0)
        w->target = real_path(w, path, error);
    else if (!find_place(w, path, error))
        return false;
    return w->target ? split_target(w, error) : fail(w, error, "look at it");
}

// Of all names for which a rule was broken, the first, so that a message does not depend on the
// order in which a directory is read.
static void keep_first(char first[NAME_MAX + 1], const char *name) {
    if (!*first || strcmp(name, first) < 0) snprintf(first, NAME_MAX + 1, "%s", name);
}

// Names that break a rule: a file of the set that this run reads; a directory with the name of such
// a file; a file of the set.
typedef struct Found {
    char input[NAME_MAX + 1], directory[NAME_MAX + 1], file[NAME_MAX + 1];
} Found;

// Notes one entry of the directory. It is looked at twice: through a link, for what it leads to,
// and as itself, since a link of the set would be replaced. False: with errno.
static bool look_at(const DirectoryWriter *w, const char *name, Found *found) {
    struct stat status;
    if (!w->out.owns(name, w->out.context)) return true;
    if (!fstatat(w->old, name, &status, 0)) {
        if (file_set_has(w->out.inputs, &status)) keep_first(found->input, name);
    } else if (errno != ENOENT && errno != ELOOP) {
        return false;
    }
    if (fstatat(w->old, name, &status, AT_SYMLINK_NOFOLLOW)) return errno == ENOENT;
    keep_first(S_ISDIR(status.st_mode) ? found->directory : found->file, name);
    return true;
}

// Looks for files of the set in the directory that is there.
static bool examine(DirectoryWriter *w, Error *error) {
    Found found = {0};
    bool good = true;
    int copy = w->old < 0 ? -1 : open_directory(w->old, ".");
    DIR *entries = copy < 0 ? NULL : fdopendir(copy);
    if (!entries && copy >= 0) close(copy);
    if (!entries) return w->old < 0 || fail(w, error, "look at it");
    for (struct dirent *e; good && (errno = 0, e = readdir(entries));)
        good = look_at(w, e->d_name, &found);
    if (!good || errno) good = fail(w, error, "look at it");
    closedir(entries);
    const char *name = *found.input ? found.input : *found.directory ? found.directory : found.file;
    const char *path = good ? join(w, w->out.path, name, error) : NULL;
    if (!path) return false;
    if (*found.input) return refuse_input(path, error);
    if (*found.directory) {
        error_set(error, ERROR_IO, "is a directory, not a file to write to");
        return error_prefix(error, path);
    }
    if (*found.file && !w->out.force) return refuse_existing(path, error);
    if (*found.file) w->way = WAY_EXCHANGE;
    return true;
}

// Whether `path` is `directory` or lies below it; both absolute, without links.
static bool is_above(const char *directory, const char *path) {
    size_t length = strlen(directory);
    return !strncmp(path, directory, length) && (!path[length] || path[length] == '/');
}

// Whether the directory that is there can be exchanged for another.
static bool check_exchange(DirectoryWriter *w, Error *error) {
    struct statx status;
    char *current = getcwd(NULL, 0);
    if (!current && errno == ENOMEM) return fail(w, error, "look at it");
    bool inside = current && is_above(w->target, current);
    free(current);
    if (inside || !*w->name) return refuse(w, error, "the current directory, or one above it,");
    if (statx(w->old, "", AT_EMPTY_PATH, 0, &status)) return fail(w, error, "look at it");
    if (status.stx_attributes & STATX_ATTR_MOUNT_ROOT) return refuse(w, error, "a mount point");
    return true;
}

// All that can be known without writing. release is called after it in any case.
static bool prepare(DirectoryWriter *w, const OutputDirectory *out, Error *error) {
    *w = (DirectoryWriter){.out = *out, .old = -1, .home = -1, .files = -1};
    return resolve(w, error) && examine(w, error) &&
           (w->way != WAY_EXCHANGE || check_exchange(w, error));
}

static void release(DirectoryWriter *w) {
    const int open[] = {w->old, w->home, w->files};
    for (int i = 0; i < 3; i++)
        if (open[i] >= 0) close(open[i]);
    arena_free(&w->arena);
}

// ---- the stage ----

static const char *home_path(const DirectoryWriter *w) {
    return w->way == WAY_MOVE ? w->target : w->above;
}

// Names of stages begin with it: of this set, in the directory above and in the target itself. A
// hash, since the name itself may be too long to have a prefix put in front.
typedef char StagePrefix[40];

static void stage_prefix(StagePrefix out, const DirectoryWriter *w, bool inside) {
    uint64_t hash = fnv1a(FNV_START, w->out.set, strlen(w->out.set) + 1);
    if (!inside) hash = fnv1a(hash, w->name, strlen(w->name));
    snprintf(out, sizeof(StagePrefix), TEMPORARY_PREFIX "%016llx-", (unsigned long long)hash);
}

// The lock of a run that lasts is held.
static void remove_leftover(DirectoryWriter *w, int home, const char *path, const char *name) {
    int left = openat(home, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (left < 0) return;
    path = flock(left, LOCK_EX | LOCK_NB) ? NULL : join(w, path, name, NULL);
    if (path) tree_remove(path, w->old, &w->out);
    close(left);
}

// What killed runs left of this set.
static void remove_leftovers(DirectoryWriter *w, bool inside) {
    StagePrefix prefix;
    const char *path = inside ? w->target : w->above;
    DIR *entries = opendir(path);
    stage_prefix(prefix, w, inside);
    for (struct dirent *e; entries && (e = readdir(entries));)
        if (!strncmp(e->d_name, prefix, strlen(prefix)))
            remove_leftover(w, dirfd(entries), path, e->d_name);
    if (entries) closedir(entries);
}

static const char *stage_name(const DirectoryWriter *w) {
    return strrchr(w->stage, '/') + 1;
}

// Makes the directory w->stage. Between mkdir and flock another run may take it for a leftover:
// EEXIST, and the next name is tried.
static bool try_stage(DirectoryWriter *w) {
    struct stat opened, named;
    const char *name = stage_name(w);
    if (mkdirat(w->home, name, 0777)) return false;
    w->files = openat(w->home, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (w->files >= 0 && (!flock(w->files, LOCK_EX | LOCK_NB) || errno != EWOULDBLOCK) &&
        !fstat(w->files, &opened) && !fstatat(w->home, name, &named, 0) &&
        same_file(&opened, &named))
        return true;
    int cause = errno;
    unlinkat(w->home, name, AT_REMOVEDIR);
    if (w->files >= 0) close(w->files);
    w->files = -1;
    errno = cause == ENOENT || cause == EWOULDBLOCK ? EEXIST : cause;
    return false;
}

static bool make_stage(DirectoryWriter *w, Error *error) {
    StagePrefix prefix;
    char name[sizeof prefix + 40];
    stage_prefix(prefix, w, w->way == WAY_MOVE);
    for (int attempt = 0; attempt < 1000; attempt++) {
        snprintf(name, sizeof name, "%s%ld-%d", prefix, (long)getpid(), attempt);
        w->stage = join(w, home_path(w), name, error);
        if (!w->stage) return false;
        if (try_stage(w)) return true;
        w->stage = NULL;
        if (errno != EEXIST) break;
    }
    return fail(w, error, w->way == WAY_RENAME ? "make the directory" : "write there");
}

// Everything that the exchange will do, on two directories inside the stage: what cannot be done is
// said before long work.
static bool rehearse(DirectoryWriter *w, Error *error) {
    static const char A[] = TEMPORARY_PREFIX "0-0", B[] = TEMPORARY_PREFIX "0-1";
    const char *linked = join(w, w->stage, B, error);
    if (!linked) return false;
    if (mkdirat(w->files, A, 0700) || mkdirat(w->files, B, 0700))
        return fail(w, error, "write there");
    int a = open_directory(w->files, A);
    if (a < 0) return fail(w, error, "write there");
    bool good = tree_link(w->target, a, &w->out, error);
    // A then holds links of all other files; after the exchange B has its content, and is removed
    // as the old directory will be.
    close(a);
    if (!good) return false;
    if (renameat2(w->files, A, w->files, B, RENAME_EXCHANGE)) {
        if (errno != EINVAL && errno != ENOSYS) return fail(w, error, "exchange directories there");
        return refuse(w, error, "a directory of this file system");
    }
    if (!tree_remove(linked, w->old, &w->out) || unlinkat(w->files, A, AT_REMOVEDIR))
        return fail(w, error, "write there");
    return true;
}

DirectoryWriter *directory_writer_open(const OutputDirectory *out, Error *error) {
    DirectoryWriter *w = malloc(sizeof *w);
    if (!w) {
        error_set(error, ERROR_MEMORY, "out of memory: %zu bytes", sizeof *w);
        return NULL;
    }
    bool good = prepare(w, out, error);
    if (good) {
        remove_leftovers(w, false);
        if (w->old >= 0) remove_leftovers(w, true);
        w->home = open_directory(AT_FDCWD, home_path(w));
        good = (w->home >= 0 || fail(w, error, "write there")) && make_stage(w, error);
    }
    good = good && (w->way != WAY_EXCHANGE || rehearse(w, error));
    if (good) return w;
    directory_writer_close(w);
    return NULL;
}

// Of a file without a name nothing is left, however the program ends. Where the file system has
// none, the real thing is begun.
bool output_directory_check(const OutputDirectory *out, Error *error) {
    DirectoryWriter w, *begun;
    bool good = prepare(&w, out, error);
    int file = good ? open(home_path(&w), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600) : -1;
    bool unknown = good && file < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL);
    if (good && file < 0 && !unknown) good = fail(&w, error, "write there");
    if (file >= 0) close(file);
    release(&w);
    if (!unknown) return good;
    begun = directory_writer_open(out, error);
    directory_writer_close(begun);
    return begun;
}

const char *directory_writer_file(DirectoryWriter *w, const char *name, Error *error) {
    return join(w, w->stage, name, error);
}

// ---- into place ----

// File systems that cannot sync a directory do not need it.
static bool sync_directory(const DirectoryWriter *w, int directory, Error *error) {
    return !fsync(directory) || errno == EINVAL || errno == EROFS ||
           fail(w, error, "write the directory to the disk");
}

// Without RENAME_NOREPLACE (some file systems): a second link, then removal of the first; linkat
// never replaces either. False: the file is still in the stage.
static bool move_file(DirectoryWriter *w, const char *name, Error *error) {
    if (!renameat2(w->files, name, w->old, name, RENAME_NOREPLACE)) return true;
    if ((errno == EINVAL || errno == ENOSYS) && !linkat(w->files, name, w->old, name, 0)) {
        unlinkat(w->files, name, 0); // close tries again
        return true;
    }
    if (errno != EEXIST) return fail(w, error, "put it in its place");
    const char *path = join(w, w->out.path, name, error);
    return path ? refuse_existing(path, error) : false;
}

typedef struct Names {
    char **names;
    size_t count;
} Names;

// The files of the stage, `last` at the end.
static bool list_files(DirectoryWriter *w, Names *list, Error *error) {
    enum { MOST = 64 }; // files of one set
    int copy = open_directory(w->files, ".");
    DIR *entries = copy < 0 ? NULL : fdopendir(copy);
    bool good = entries && (list->names = arena_alloc(&w->arena, MOST, sizeof *list->names, error));
    for (struct dirent *e; good && (errno = 0, e = readdir(entries));) {
        if (e->d_name[0] == '.' || !strcmp(e->d_name, w->out.last)) continue;
        good = list->count + 1 < MOST && (list->names[list->count++] = arena_text(
                                              &w->arena, e->d_name, strlen(e->d_name), error));
    }
    if (!good || errno) good = fail(w, error, "look at it");
    if (entries)
        closedir(entries);
    else if (copy >= 0)
        close(copy);
    if (good) list->names[list->count++] = (char *)(uintptr_t)w->out.last;
    return good;
}

// Where one cannot be moved, the others go back, so that nothing of the set is left.
static bool move_files(DirectoryWriter *w, Error *error) {
    Names list = {0};
    size_t moved = 0;
    if (!list_files(w, &list, error) || !sync_directory(w, w->files, error)) return false;
    while (moved < list.count && move_file(w, list.names[moved], error))
        moved++;
    w->in_place = moved == list.count;
    if (w->in_place) return sync_directory(w, w->old, error);
    while (moved--)
        if (renameat2(w->old, list.names[moved], w->files, list.names[moved], RENAME_NOREPLACE) &&
            (errno == EINVAL || errno == ENOSYS))
            unlinkat(w->old, list.names[moved], 0);
    return false;
}

// Some overlays rename no directories: then the files are moved into a new one, as into one that
// was there.
static bool move_into_new(DirectoryWriter *w, Error *error) {
    if (mkdirat(w->home, w->name, 0777)) return fail(w, error, "make the directory");
    w->old = open_directory(w->home, w->name);
    bool good = w->old < 0 ? fail(w, error, "write there") : move_files(w, error);
    if (!good) unlinkat(w->home, w->name, AT_REMOVEDIR);
    return good;
}

// WAY_RENAME. The stage is the directory from here on, so there is none to remove.
static bool rename_stage(DirectoryWriter *w, Error *error) {
    if (!sync_directory(w, w->files, error)) return false;
    // Over a file or a directory with files in it this fails.
    if (renameat(w->home, stage_name(w), w->home, w->name)) {
        if (errno == EXDEV) return move_into_new(w, error);
        if (errno == EEXIST || errno == ENOTEMPTY || errno == ENOTDIR)
            return refuse_existing(w->out.path, error);
        return fail(w, error, "put it in its place");
    }
    w->in_place = true;
    w->stage = NULL;
    return sync_directory(w, w->home, error);
}

// Of the old directory and of the files that the new ones replace.
static bool copy_rights(DirectoryWriter *w, Error *error) {
    struct stat status;
    if (fstat(w->old, &status)) return fail(w, error, "look at it");
    return (tree_take_rights(w->old, w->files) && take_rights(w->files, w->target, &status)) ||
           fail(w, error, "write there");
}

// The path still leads to the directory that was examined; what has appeared in it since is
// examined here.
static bool examine_again(DirectoryWriter *w, Error *error) {
    struct stat opened, named;
    if (fstat(w->old, &opened) || fstatat(w->home, w->name, &named, AT_SYMLINK_NOFOLLOW))
        return fail(w, error, "look at it");
    errno = EBUSY; // somebody else has replaced it
    return same_file(&opened, &named) ? examine(w, error) : fail(w, error, "replace it");
}

// The old directory has the stage's name now, and `files` is the new one.
static bool remove_old(DirectoryWriter *w, Error *error) {
    char shown[100];
    if (tree_remove(w->stage, w->files, &w->out)) {
        w->stage = NULL;
        return true;
    }
    const char *cause = strerror(errno), *name = stage_name(w);
    error_set(error, errno == ENOMEM ? ERROR_MEMORY : ERROR_IO,
              "the new files are there; of the old ones %s beside them remains: %s",
              escape_bytes(shown, sizeof shown, name, strlen(name)), cause);
    return error_prefix(error, w->out.path);
}

// WAY_EXCHANGE. Before RENAME_EXCHANGE nothing of the old directory has changed; after it the set
// is in its place, and a failure is only one of tidying up.
static bool exchange(DirectoryWriter *w, Error *error) {
    if (!examine_again(w, error) || !copy_rights(w, error) ||
        !tree_link(w->target, w->files, &w->out, error) || !sync_directory(w, w->files, error))
        return false;
    if (renameat2(w->home, stage_name(w), w->home, w->name, RENAME_EXCHANGE)) {
        if (errno != EXDEV) return fail(w, error, "put it in its place");
        return refuse(w, error, "a directory from below an overlay");
    }
    w->in_place = true;
    return sync_directory(w, w->home, error) && remove_old(w, error);
}

bool directory_writer_finish(DirectoryWriter *w, Error *error) {
    switch (w->way) {
    case WAY_RENAME: return rename_stage(w, error);
    case WAY_MOVE: return move_files(w, error);
    default: return exchange(w, error);
    }
}

void directory_writer_close(DirectoryWriter *w) {
    if (!w) return;
    bool exchanged = w->in_place && w->way == WAY_EXCHANGE;
    // After an exchange the stage's name leads to the old directory: files that only it has move to
    // the new.
    if (w->stage) tree_remove(w->stage, exchanged ? w->files : w->old, &w->out);
    release(w);
    free(w);
}
