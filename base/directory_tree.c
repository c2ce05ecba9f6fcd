// Links of a whole directory in another one, and the removal of either. Both walk a tree with open
// descriptors and names relative to them (openat, linkat, unlinkat), so that a directory that
// somebody renames or replaces by a link meanwhile is not left by mistake.
//
//   walk_open -> walk_next: FILE | ENTER dir .. FILE .. LEAVE dir | ... -> END -> walk_close
//
// A file or a directory that disappears while the walk goes on is no failure (`gone`).
#include "base/directory_writer.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// A call that did its work, or whose file has been removed by somebody else meanwhile.
static bool gone(int failed) {
    return !failed || errno == ENOENT;
}

// ---- the walk: everything below a directory; links are not followed ----

// One descriptor is open for each level.
enum { MOST_LEVELS = 64 };

typedef enum Step {
    STEP_END,
    STEP_FAILED, // with errno; the walk can go on
    STEP_FILE,   // anything but a directory
    STEP_ENTER,  // a directory, before what is in it
    STEP_LEAVE,  // and after
} Step;

typedef struct Walk {
    char path[PATH_MAX];         // of the entry, below the root
    const char *name;            // its last part
    int around;                  // the directory that the entry is in, open
    struct stat status;          // of the entry, which STEP_LEAVE does not set
    DIR *dirs[MOST_LEVELS];      // open
    size_t lengths[MOST_LEVELS]; // of their paths
    int depth;
} Walk;

// NULL with errno, also when fdopendir fails.
static DIR *open_entries(int at, const char *path) {
    int directory = openat(at, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *entries = directory < 0 ? NULL : fdopendir(directory);
    int cause = errno;
    if (!entries && directory >= 0) close(directory);
    errno = cause;
    return entries;
}

// NULL with errno.
static Walk *walk_open(const char *root) {
    Walk *w = calloc(1, sizeof *w);
    if (w) w->dirs[0] = open_entries(AT_FDCWD, root);
    if (w && w->dirs[0]) {
        w->depth = 1;
        return w;
    }
    int cause = errno;
    free(w);
    errno = cause;
    return NULL;
}

// After STEP_ENTER: not into that directory.
static void walk_skip(Walk *w) {
    closedir(w->dirs[--w->depth]);
}

static void walk_close(Walk *w) {
    while (w && w->depth)
        walk_skip(w);
    free(w);
}

// Closes the deepest directory. The entry is then that directory itself, in the one above it.
static Step walk_leave(Walk *w) {
    int failure = errno; // of readdir
    const char *slash = strrchr(w->path, '/');
    w->name = slash ? slash + 1 : w->path;
    walk_skip(w);
    if (w->depth) w->around = dirfd(w->dirs[w->depth - 1]);
    errno = failure;
    return failure ? STEP_FAILED : w->depth ? STEP_LEAVE : STEP_END;
}

// Opens the directory that the entry is. Deeper than MOST_LEVELS: STEP_FAILED with ELOOP.
static Step walk_enter(Walk *w) {
    errno = ELOOP;
    if (w->depth == MOST_LEVELS) return STEP_FAILED;
    w->dirs[w->depth] = open_entries(w->around, w->name);
    if (!w->dirs[w->depth]) return STEP_FAILED;
    w->lengths[w->depth++] = strlen(w->path);
    return STEP_ENTER;
}

// The next entry, depth first; w->path, name, around and status describe it. errno is set before
// each call that may fail without setting it.
static Step walk_next(Walk *w) {
    struct dirent *e;
    if (!w->depth) return STEP_END;
    DIR *entries = w->dirs[w->depth - 1];
    size_t above = w->lengths[w->depth - 1];
    w->path[above] = '\0';
    do
        errno = 0, e = readdir(entries);
    while (e && (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")));
    if (!e) return walk_leave(w);
    size_t left = sizeof w->path - above;
    errno = ENAMETOOLONG;
    if ((size_t)snprintf(w->path + above, left, above ? "/%s" : "%s", e->d_name) >= left)
        return STEP_FAILED;
    w->name = w->path + above + (above ? 1 : 0);
    w->around = dirfd(entries);
    if (fstatat(w->around, w->name, &w->status, AT_SYMLINK_NOFOLLOW)) return STEP_FAILED;
    return S_ISDIR(w->status.st_mode) ? walk_enter(w) : STEP_FILE;
}

// The entry's path in the directory that it is compared with. What is in a temporary directory was
// meant for the directory around that.
static const char *below(const Walk *w) {
    const char *slash = strchr(w->path, '/');
    return is_temporary(w->path) && slash ? slash + 1 : w->path;
}

// Only entries of the directory itself can be of the set, not those of its subdirectories.
static bool is_of_set(const Walk *w, const OutputDirectory *out) {
    const char *name = below(w);
    return !strchr(name, '/') && (is_temporary(name) || out->owns(name, out->context));
}

// ---- links ----

// `to`: the open directory that links are made in; `device`: its file system; `count`: links so
// far.
typedef struct Linking {
    Walk *walk;
    const OutputDirectory *out;
    int to;
    dev_t device;
    size_t count;
} Linking;

// The message for the file that could not be linked. errno is the cause, with three that link_entry
// sets itself.
static bool cannot_keep(const Linking *l, Error *error) {
    char name[120];
    const char *cause = errno == E2BIG   ? "the directory has too many files"
                        : errno == ELOOP ? "its directories lie too deep"
                        : errno == EXDEV ? "it is on another file system"
                                         : strerror(errno);
    error_set(error, errno == ENOMEM ? ERROR_MEMORY : ERROR_IO,
              "\"%s\" cannot be kept: %s; give another output",
              escape_bytes(name, sizeof name, below(l->walk), strlen(below(l->walk))), cause);
    return error_prefix(error, l->out->path);
}

// A directory's mode, owner and time, once everything is in it.
static bool finish_directory(const Linking *l) {
    struct stat status;
    if (fstatat(l->walk->around, l->walk->name, &status, AT_SYMLINK_NOFOLLOW)) return gone(-1);
    struct timespec times[] = {status.st_atim, status.st_mtim};
    int made = openat(l->to, below(l->walk), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (made < 0) return false;
    if (fchown(made, status.st_uid, status.st_gid)) errno = 0; // only root may give files away
    bool good = !fchmod(made, status.st_mode & 07777) && !futimens(made, times) && !fsync(made);
    close(made);
    return good;
}

// One step of tree_link. False with errno. A directory gets mode 0700 first, and its own mode when
// all that is in it has been linked (finish_directory).
static bool link_entry(Linking *l, Step step) {
    const char *name = below(l->walk);
    if (step == STEP_FAILED) return errno == ENOENT;
    if (step == STEP_LEAVE) return finish_directory(l);
    if (is_of_set(l->walk, l->out)) {
        if (step == STEP_ENTER) walk_skip(l->walk);
        return true;
    }
    errno = E2BIG;
    if (++l->count > DIRECTORY_WRITER_KEEPS) return false;
    errno = EXDEV; // a mount point; of a file, link says so
    if (step == STEP_ENTER && l->walk->status.st_dev != l->device) return false;
    return step == STEP_ENTER ? !mkdirat(l->to, name, 0700)
                              : gone(linkat(l->walk->around, l->walk->name, l->to, name, 0));
}

bool tree_link(const char *from, int to, const OutputDirectory *out, Error *error) {
    struct stat status = {0};
    Linking l = {.walk = walk_open(from), .out = out, .to = to};
    bool good = l.walk && !fstat(to, &status);
    if (!good) {
        error_set(error, errno == ENOMEM ? ERROR_MEMORY : ERROR_IO, "cannot read it: %s",
                  strerror(errno));
        error_prefix(error, out->path);
    }
    l.device = status.st_dev;
    for (Step step; good && (step = walk_next(l.walk)) != STEP_END;)
        good = link_entry(&l, step) || cannot_keep(&l, error);
    walk_close(l.walk);
    return good;
}

// ---- removal ----

// Moves what has no other name to where it can be found.
static bool rescue(const Walk *w, int keeper) {
    return keeper >= 0 && gone(renameat2(w->around, w->name, keeper, below(w), RENAME_NOREPLACE));
}

// A file of the set is removed. Another one is removed only where `keeper` has a second name of the
// same file; else this is its only name, and it is moved there. False with errno.
static bool remove_file(const Walk *w, int keeper, const OutputDirectory *out) {
    struct stat kept;
    if (is_of_set(w, out)) return gone(unlinkat(w->around, w->name, 0));
    bool there = keeper >= 0 && !fstatat(keeper, below(w), &kept, AT_SYMLINK_NOFOLLOW);
    if (there && same_file(&kept, &w->status)) return gone(unlinkat(w->around, w->name, 0));
    errno = EEXIST;
    return rescue(w, keeper);
}

// One step of tree_remove. A directory that `keeper` lacks is moved there whole, so that nothing in
// it is lost. False with errno.
static bool remove_entry(Walk *w, Step step, int keeper, const OutputDirectory *out) {
    struct stat kept;
    if (step == STEP_FAILED) return errno == ENOENT;
    if (step == STEP_LEAVE) return gone(unlinkat(w->around, w->name, AT_REMOVEDIR));
    if (step == STEP_FILE) return remove_file(w, keeper, out);
    if (keeper < 0 || is_temporary(below(w))) return true;
    if (!fstatat(keeper, below(w), &kept, AT_SYMLINK_NOFOLLOW)) return true;
    bool moved = rescue(w, keeper);
    walk_skip(w);
    return moved;
}

bool tree_take_rights(int from, int to) {
    DIR *entries = open_entries(to, ".");
    bool good = entries;
    for (const struct dirent *e; good && (e = readdir(entries));) {
        char path[NAME_MAX + 40];
        struct stat there;
        if (fstatat(from, e->d_name, &there, AT_SYMLINK_NOFOLLOW) || !S_ISREG(there.st_mode))
            continue;
        int file = openat(to, e->d_name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
        snprintf(path, sizeof path, "/proc/self/fd/%d/%s", from, e->d_name);
        good = file >= 0 && take_rights(file, path, &there);
        int cause = errno;
        if (file >= 0) close(file);
        errno = cause;
    }
    int cause = errno;
    if (entries) closedir(entries);
    errno = cause;
    return good;
}

bool tree_remove(const char *path, int keeper, const OutputDirectory *out) {
    Walk *walk = walk_open(path);
    int failure = walk ? 0 : errno;
    // After a failure the walk goes on: as much as possible is removed, and the first cause is
    // reported.
    for (Step step; walk && (step = walk_next(walk)) != STEP_END;)
        if (!remove_entry(walk, step, keeper, out) && !failure) failure = errno;
    walk_close(walk);
    if (!failure && !gone(rmdir(path))) failure = errno;
    errno = failure;
    return !failure || failure == ENOENT;
}
