/* os_posix_directory.c: the system calls for a directory that belongs to one collector at a time,
 * for Linux, macOS and the BSDs. The rules at the head of os_posix.c hold here too.
 *
 * The lock is flock's: it belongs to the open file, so a second opening is refused in this process
 * as in another one, and it is gone when the process is, however that ended. A process's own locks
 * (fcntl's) would let a second collector of the process in; a file with a process number in it
 * would outlive a crash. */
#if !defined(__LP64__)
#define _FILE_OFFSET_BITS 64 /* as os_posix.c has it */
#endif
#include "os.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef O_CLOEXEC
#define O_CLOEXEC 0
#endif

int etl__os_directory_make(const char *path, bool *made) {
    struct stat status;
    *made = mkdir(path, S_IRWXU) == 0;
    if (*made)
        return 0;
    int error = errno;
    if (error != EEXIST)
        return error;
    if (stat(path, &status) != 0)
        return errno;
    return S_ISDIR(status.st_mode) ? 0 : ENOTDIR;
}

int etl__os_hold(const char *path, int *descriptor) {
    int error;
    do
        *descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC, S_IRUSR | S_IWUSR);
    while (*descriptor < 0 && errno == EINTR);
    if (*descriptor < 0)
        return errno;
    do
        error = flock(*descriptor, LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
    while (error == EINTR);
    if (error == 0)
        return 0;
    (void)etl__os_close(*descriptor);
    *descriptor = -1;
    return error == EWOULDBLOCK ? EBUSY : error;
}

void etl__os_release(int descriptor) {
    (void)flock(descriptor, LOCK_UN); /* a forked child may have it open too */
    (void)etl__os_close(descriptor);
}

int etl__os_directory_list(const char *path, void (*each)(void *context, const char *name),
                           void *context) {
    DIR *directory = opendir(path);
    if (directory == NULL)
        return errno;
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(directory);
        if (entry == NULL)
            break;
        each(context, entry->d_name);
    }
    int error = errno;
    (void)closedir(directory);
    return error;
}
