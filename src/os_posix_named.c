/* os_posix_named.c: the system calls for files that have a name and outlive the process, for
 * Linux, macOS and the BSDs. The rules at the head of os_posix.c hold here too.
 *
 * Drafts     A file that is to take a name is written as a draft in the same directory: without a
 *            name where the file system can (O_TMPFILE, and /proc to link it by), so that a killed
 *            process leaves nothing; else under a random one.
 * EINTR      A call that makes, moves or removes a name may have done so before it was
 *            interrupted, and says after a restart that the name is there, or is not. The names
 *            are random, so nobody else did it.
 * Opening    never waits: a FIFO without a writer is opened without blocking, and refused. */
#if !defined(__LP64__)
#define _FILE_OFFSET_BITS 64 /* as os_posix.c has it */
#endif
#include "os.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef O_CLOEXEC
#define O_CLOEXEC 0
#endif
#ifndef O_NOCTTY
#define O_NOCTTY 0
#endif
#ifndef O_DIRECTORY
#define O_DIRECTORY 0
#endif

enum { DRAFT_TRIES = 100 };

static int open_into(const char *path, int flags, int *descriptor) {
    do
        *descriptor = open(path, flags, S_IRUSR | S_IWUSR);
    while (*descriptor < 0 && errno == EINTR);
    return *descriptor < 0 ? errno : 0;
}

/* The directory that a path is in: what stands before its last slash. */
static int directory_of(const char *path, char out[ETL__OS_PATH]) {
    const char *slash = strrchr(path, '/');
    size_t size = slash != NULL ? (size_t)(slash - path) : 0;
    if (size >= ETL__OS_PATH)
        return ENAMETOOLONG;
    if (size == 0) {
        strcpy(out, slash != NULL ? "/" : ".");
        return 0;
    }
    memcpy(out, path, size);
    out[size] = '\0';
    return 0;
}

int etl__os_check_replaceable(const char *path) {
    struct stat status;
    if (lstat(path, &status) != 0)
        return errno == ENOENT ? 0 : errno;
    if (S_ISDIR(status.st_mode))
        return EISDIR;
    return S_ISREG(status.st_mode) || S_ISLNK(status.st_mode) ? 0 : EINVAL;
}

/* ---- Drafts */

static int draft_name(const char *path, char name[ETL__OS_PATH]) {
    char directory[ETL__OS_PATH];
    int error = directory_of(path, directory);
    if (error != 0)
        return error;
    int written = snprintf(name, ETL__OS_PATH, "%s/etl-%016llx.tmp", directory,
                           (unsigned long long)etl__os_random());
    return written < 0 || written >= ETL__OS_PATH ? ENAMETOOLONG : 0;
}

#if defined(__linux__) && defined(O_TMPFILE)

/* By this path a file without a name can be linked without a privilege. That of the thread: a
 * process whose first thread has ended has no other. */
static void own_path(int descriptor, char path[64]) {
    snprintf(path, 64, "/proc/thread-self/fd/%d", descriptor);
}

static bool open_nameless(const char *path, int *descriptor) {
    char directory[ETL__OS_PATH], own[64], seen[8];
    if (directory_of(path, directory) != 0 ||
        open_into(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, descriptor) != 0)
        return false;
    own_path(*descriptor, own);
    if (readlink(own, seen, sizeof seen) > 0)
        return true;
    (void)etl__os_close(*descriptor);
    return false;
}

static int link_once(int descriptor, const char *name) {
    char own[64];
    bool interrupted = false;
    own_path(descriptor, own);
    while (linkat(AT_FDCWD, own, AT_FDCWD, name, AT_SYMLINK_FOLLOW) != 0) {
        if (errno == EEXIST && interrupted)
            return 0;
        if (errno != EINTR)
            return errno;
        interrupted = true;
    }
    return 0;
}

#else

static bool open_nameless(const char *path, int *descriptor) {
    (void)path, (void)descriptor;
    return false;
}

static int link_once(int descriptor, const char *name) {
    (void)descriptor, (void)name;
    return ENOSYS;
}

#endif

int etl__os_draft_open(const char *path, char name[ETL__OS_PATH], int *descriptor) {
    int error = EEXIST;
    name[0] = '\0';
    if (open_nameless(path, descriptor)) {
        (void)fchmod(*descriptor, S_IRUSR | S_IWUSR);
        return 0;
    }
    /* Whatever the reason was: where it is a true one, it is met again here. */
    for (int attempt = 0; attempt < DRAFT_TRIES && error == EEXIST; attempt++) {
        error = draft_name(path, name);
        if (error == 0)
            error = open_into(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, descriptor);
    }
    if (error != 0) {
        *descriptor = -1;
        name[0] = '\0';
        return error;
    }
    (void)fchmod(*descriptor, S_IRUSR | S_IWUSR);
    return 0;
}

static int link_draft(int descriptor, const char *path, char name[ETL__OS_PATH]) {
    int error = EEXIST;
    if (name[0] != '\0')
        return 0;
    for (int attempt = 0; attempt < DRAFT_TRIES && error == EEXIST; attempt++) {
        error = draft_name(path, name);
        if (error == 0)
            error = link_once(descriptor, name);
    }
    if (error != 0)
        name[0] = '\0';
    return error;
}

/* ---- Names */

static int rename_restarting(const char *from, const char *to) {
    bool interrupted = false;
    while (rename(from, to) != 0) {
        if (errno == ENOENT && interrupted)
            return 0;
        if (errno != EINTR)
            return errno;
        interrupted = true;
    }
    return 0;
}

int etl__os_unlink(const char *path) {
    bool interrupted = false;
    while (unlink(path) != 0) {
        if (errno == ENOENT && interrupted)
            return 0;
        if (errno != EINTR)
            return errno;
        interrupted = true;
    }
    return 0;
}

/* ---- Coming to the disk */

static int sync_restarting(int descriptor) {
    int error;
#if defined(F_FULLFSYNC) /* there fsync only comes to the disk's own cache */
    do
        error = fcntl(descriptor, F_FULLFSYNC) != -1 ? 0 : errno;
    while (error == EINTR);
    if (error == 0 || error == EIO)
        return error;
#endif
    do
        error = fsync(descriptor) == 0 ? 0 : errno;
    while (error == EINTR);
    return error;
}

int etl__os_draft_take_place(int descriptor, const char *path, char name[ETL__OS_PATH],
                             const char **operation) {
    int error = sync_restarting(descriptor);
    *operation = "sync";
    if (error == 0) {
        error = link_draft(descriptor, path, name);
        *operation = "name a file beside";
    }
    int close_error = etl__os_close(descriptor);
    if (error == 0 && close_error != 0) {
        error = close_error;
        *operation = "close";
    }
    if (error == 0) {
        error = rename_restarting(name, path);
        *operation = "rename a file to";
    }
    if (error == 0)
        name[0] = '\0';
    return error;
}

int etl__os_directory_open(const char *path, int *descriptor) {
    char directory[ETL__OS_PATH];
    int error = directory_of(path, directory);
    *descriptor = -1;
    if (error == 0)
        error = open_into(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC, descriptor);
    return error;
}

int etl__os_directory_sync(int descriptor) {
    int error = sync_restarting(descriptor);
    bool has_none = error == EINVAL || error == ENOTSUP || error == EOPNOTSUPP || error == ENOSYS;
    return has_none ? 0 : error;
}

/* ---- Reading */

int etl__os_open_regular(const char *path, int *descriptor) {
    struct stat status;
    int error = open_into(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, descriptor);
    if (error != 0)
        return error;
    if (fstat(*descriptor, &status) != 0)
        error = errno;
    else if (S_ISDIR(status.st_mode))
        error = EISDIR;
    else if (!S_ISREG(status.st_mode))
        error = EINVAL;
    if (error != 0) {
        (void)etl__os_close(*descriptor);
        *descriptor = -1;
    }
    return error;
}
