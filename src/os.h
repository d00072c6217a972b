/* os.h: every system call that the library makes, as a handful of functions.
 *
 * All return 0 or an errno value (never -1 with errno), restart after EINTR, and complete short
 * reads and writes, so that nothing above this line knows about either. os_posix.c,
 * os_posix_named.c and os_posix_directory.c are the only files that include a system header for
 * them. */
#ifndef LIBETL_OS_H
#define LIBETL_OS_H

#include <stdatomic.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- Files. Offsets and sizes are in bytes. */

/* Can files be made in this directory? 0, ENOENT, ENOTDIR, EACCES, EROFS, … */
int etl__os_directory_check(const char *directory);

/* The absolute form of a path against the working directory of now, without a trailing slash, into
 * out[size]: ENAMETOOLONG when it does not fit. */
int etl__os_absolute(const char *path, char *out, size_t size);

/* A new file without a name, 0600 whatever the umask, closed on exec, open for reading and
 * writing: O_TMPFILE, or where the file system has none a random name "label-…", O_EXCL, unlinked
 * at once. Decided anew for each file. */
int etl__os_temp_open(const char *directory, const char *label, int *descriptor);

int etl__os_close(int descriptor);

/* Write all of it. A write that passes the file-size limit gives EFBIG and no SIGXFSZ. 0 bytes
 * written is EIO. */
int etl__os_write(int descriptor, const void *data, size_t size, uint64_t offset);

/* Read up to size bytes; *done is less only at the end of the file. */
int etl__os_read(int descriptor, void *data, size_t size, uint64_t offset, size_t *done);

/* Reserve disk for [offset, offset + size) without writing zeros. Where the file system cannot: 0,
 * and nothing is reserved. ENOSPC, EDQUOT and EFBIG (no SIGXFSZ) are true: the space is not there.
 */
int etl__os_allocate(int descriptor, uint64_t offset, uint64_t size);

int etl__os_truncate(int descriptor, uint64_t size);
int etl__os_file_size(int descriptor, uint64_t *size);

/* ---- Files with a name (os_posix_named.c). Paths should be absolute: another thread may change
 * the working directory between two calls. */

enum { ETL__OS_PATH = 4096 }; /* bytes of a path, its end included */

/* May a new file take this name? 0: nothing is there, or a regular file or a symbolic link, which
 * it replaces; EISDIR; EINVAL: what is there is no file of bytes. */
int etl__os_check_replaceable(const char *path);

/* A draft: a new file in the directory of `path`, 0600 whatever the umask, open for reading and
 * writing, whose name is random, or "" while it has none; what has a name is dropped by
 * etl__os_unlink. */
int etl__os_draft_open(const char *path, char name[ETL__OS_PATH], int *descriptor);

/* The draft is complete: put it in the place of what is at `path`. The order is what makes it so
 * that after a crash at any moment there is the old file or the new one, whole: its bytes are
 * synced before they have a name there, and it is closed before too, since a close that fails tells
 * of bytes that are not there (network file systems write then). etl__os_directory_sync is to
 * follow. The descriptor is closed in any case. 0, and name is ""; or the error of *operation, and
 * name is that of what is left. */
int etl__os_draft_take_place(int descriptor, const char *path, char name[ETL__OS_PATH],
                             const char **operation);

int etl__os_unlink(const char *path);

/* So that names are on the disk too: open the directory that `path` is in, while failing is still cheap; sync it
 * after a name was made, moved or removed. Where the file system syncs no directories: 0. */
int etl__os_directory_open(const char *path, int *descriptor);
int etl__os_directory_sync(int descriptor);

/* Open what is there for reading, if it is a file of bytes: else EISDIR or EINVAL. Never waits. */
int etl__os_open_regular(const char *path, int *descriptor);

/* ---- Directories that are held (os_posix_directory.c). */

/* Make a directory, 0700, unless there is one. Whether it was made or found, its name may not be on
 * the disk yet. */
int etl__os_directory_make(const char *path, bool *made);

/* Open a file, made 0600 if it is missing, and lock it: EBUSY when it is locked already, by this
 * process or another. etl__os_release unlocks and closes; the end of the process does too. */
int etl__os_hold(const char *path, int *descriptor);
void etl__os_release(int descriptor);

/* Call each for every name in a directory. It may remove that name. */
int etl__os_directory_list(const char *path, void (*each)(void *context, const char *name),
                           void *context);

/* ---- Memory. */

size_t etl__os_page_size(void);

/* Map a file of this size for reading, shared. */
int etl__os_map_file(int descriptor, size_t size, const uint8_t **data);
int etl__os_unmap_file(const uint8_t *data, size_t size);

/* Anonymous memory; from 4 MiB on aligned to 2 MiB and advised for huge pages. NULL when refused.
 */
void *etl__os_map_memory(size_t size);
int etl__os_unmap_memory(void *memory, size_t size);

/* Advice, which may fail without consequence: the pages inside [data, data + size) of a mapped
 * file are not needed for now; a file is read from front to back from offset on. */
void etl__os_release_pages(const uint8_t *data, size_t size);
void etl__os_read_ahead(int descriptor, uint64_t offset, size_t size);

/* ---- Clock, identity, limits. */

uint64_t etl__os_now_ns(void); /* monotonic */
uint64_t etl__os_random(void); /* for names: unpredictable, not cryptographic */
int64_t etl__os_process_id(void);
size_t etl__os_descriptor_limit(void); /* soft RLIMIT_NOFILE; SIZE_MAX when unlimited */

/* ---- Threads. A started thread blocks every asynchronous signal from birth; the caller's mask is
 * unchanged. */

struct etl__os_lock {
    pthread_mutex_t mutex;
    pthread_cond_t changed; /* waits on it are bounded by the monotonic clock */
};

int etl__os_lock_init(struct etl__os_lock *lock);
void etl__os_lock_end(struct etl__os_lock *lock);
void etl__os_lock(struct etl__os_lock *lock);
void etl__os_unlock(struct etl__os_lock *lock);
void etl__os_wake_all(struct etl__os_lock *lock);
void etl__os_wait(struct etl__os_lock *lock); /* until woken; may wake early */
void etl__os_wait_ms(struct etl__os_lock *lock,
                     unsigned limit); /* until woken or limit ms are over */

typedef pthread_t etl__os_thread;
int etl__os_thread_start(etl__os_thread *thread, void *(*run)(void *), void *argument);
void etl__os_thread_join(etl__os_thread thread);

/* Set what a thread looks at before it waits for this lock, wake it, join, and end the lock. */
void etl__os_thread_stop(etl__os_thread thread, struct etl__os_lock *lock, atomic_bool *stopping);

#endif
