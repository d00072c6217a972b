/* os_posix.c: every system call, for Linux, macOS and the BSDs.
 *
 * The rules that hold for all of them: an errno value is returned, never left behind; EINTR
 * restarts the call; short reads and writes go on; nothing of the process is changed that another
 * thread could see: no umask, no handlers, no working directory.
 *
 * Temporary files  are opened without a name (O_TMPFILE) where the file system can, which is asked
 *                  anew each time: it differs from mount to mount. Elsewhere the name is unlinked
 *                  before anything is written. A killed process leaves nothing behind.
 * SIGXFSZ          is blocked in the calling thread around calls that may pass the file-size
 *                  limit, and taken back out of the pending set if they raised it. It is directed
 *                  at the thread, so no other one sees it.
 * Reservation      is fallocate on Linux alone: posix_fallocate may fall back to writing zeros.
 * Memory           from 4 MiB on is aligned to 2 MiB, by reserving more and cutting the ends off,
 *                  so that all of it can be huge pages. */
#if !defined(__LP64__)
#define _FILE_OFFSET_BITS 64 /* there off_t would have 32; elsewhere nothing is to be renamed */
#endif
#include "os.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>
#if defined(__linux__) || defined(__APPLE__)
#include <sys/random.h>
#endif

#ifndef O_CLOEXEC
#define O_CLOEXEC 0
#endif
#if !defined(MAP_ANONYMOUS) && defined(MAP_ANON)
#define MAP_ANONYMOUS MAP_ANON
#endif

enum {
    HUGE_PAGE = 2 << 20,
    HUGE_FROM = 4 << 20,
    CALL_MAX = 1 << 30, /* some systems fail above INT_MAX bytes a call */
    NAME_TRIES = 100,
    LABEL_MAX = 32,
    ALLOCATE_TRIES = 100
};

/* ---- SIGXFSZ */

struct signal_guard {
    sigset_t before;
    bool was_pending;
};

static void guard_begin(struct signal_guard *guard) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &set, &guard->before);
    guard->was_pending = false;
    /* One that was not blocked cannot have been pending here: it would have been delivered. */
    if (sigismember(&guard->before, SIGXFSZ) == 1) {
        sigset_t pending;
        sigemptyset(&pending);
        sigpending(&pending);
        guard->was_pending = sigismember(&pending, SIGXFSZ) == 1;
    }
}

/* Take back the signal that this thread's own call raised. */
static void guard_consume(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGXFSZ);
#if defined(__APPLE__) || defined(__OpenBSD__)
    sigset_t pending;
    int number;
    sigemptyset(&pending);
    sigpending(&pending);
    if (sigismember(&pending, SIGXFSZ) == 1)
        sigwait(&set, &number);
#else
    struct timespec none = {0, 0};
    while (sigtimedwait(&set, NULL, &none) < 0 && errno == EINTR)
        ;
#endif
}

static int guard_end(struct signal_guard *guard, int error) {
    if (error == EFBIG && !guard->was_pending)
        guard_consume();
    pthread_sigmask(SIG_SETMASK, &guard->before, NULL);
    return error;
}

/* ---- Directories and temporary files */

int etl__os_directory_check(const char *directory) {
    struct stat status;
    if (stat(directory, &status) != 0)
        return errno;
    if (!S_ISDIR(status.st_mode))
        return ENOTDIR;
    if (access(directory, W_OK | X_OK) != 0)
        return errno;
    struct statvfs volume;
    if (statvfs(directory, &volume) == 0 && (volume.f_flag & ST_RDONLY) != 0)
        return EROFS;
    return 0;
}

int etl__os_absolute(const char *path, char *out, size_t size) {
    size_t used = 0, length = strlen(path);
    if (length == 0)
        return ENOENT;
    if (size == 0)
        return ENAMETOOLONG;
    if (path[0] != '/') {
        if (getcwd(out, size) == NULL)
            return errno == ERANGE ? ENAMETOOLONG : errno;
        used = strlen(out);
        if (used == 0 || out[used - 1] != '/') {
            if (used + 1 >= size)
                return ENAMETOOLONG;
            out[used++] = '/';
        }
    }
    if (length >= size - used)
        return ENAMETOOLONG;
    memcpy(out + used, path, length + 1);
    used += length;
    while (used > 1 && out[used - 1] == '/')
        out[--used] = '\0';
    return 0;
}

static int open_restarting(const char *path, int flags) {
    int descriptor;
    do
        descriptor = open(path, flags, S_IRUSR | S_IWUSR);
    while (descriptor < 0 && errno == EINTR);
    return descriptor;
}

static bool has_no_tmpfile(int error) {
    /* EISDIR and ENOENT are what kernels say that take the flag for O_DIRECTORY; where the
     * directory is really missing, the named attempt fails with ENOENT too. */
    return error == EOPNOTSUPP || error == ENOTSUP || error == EISDIR || error == EINVAL ||
           error == ENOENT || error == ENOSYS;
}

static int open_named(const char *directory, const char *label, int *descriptor) {
    char path[PATH_MAX], name[LABEL_MAX + 1];
    size_t length = 0;
    for (; label != NULL && label[length] != '\0' && length < LABEL_MAX; length++) {
        char c = label[length];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                     c == '-' || c == '_';
        name[length] = c;
        if (!plain)
            name[length] = '_';
    }
    name[length] = '\0';
    for (int attempt = 0; attempt < NAME_TRIES; attempt++) {
        int written = snprintf(path, sizeof path, "%s/%s-%016llx", directory,
                               length != 0 ? name : "etl", (unsigned long long)etl__os_random());
        if (written < 0 || (size_t)written >= sizeof path)
            return ENAMETOOLONG;
        int opened = open_restarting(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC);
        if (opened >= 0) {
            if (unlink(path) != 0 && errno != ENOENT) {
                int error = errno;
                close(opened);
                return error;
            }
            *descriptor = opened;
            return 0;
        }
        if (errno != EEXIST)
            return errno;
    }
    return EEXIST;
}

int etl__os_temp_open(const char *directory, const char *label, int *descriptor) {
    int error = ENOSYS;
    *descriptor = -1;
#if defined(O_TMPFILE)
    *descriptor = open_restarting(directory, O_TMPFILE | O_RDWR | O_EXCL | O_CLOEXEC);
    error = *descriptor < 0 ? errno : 0;
#endif
    if (error != 0 && has_no_tmpfile(error))
        error = open_named(directory, label, descriptor);
    if (error != 0)
        return error;
    /* A umask can only have taken bits of 0600 away, so where this fails nothing is exposed. */
    (void)fchmod(*descriptor, S_IRUSR | S_IWUSR);
    return 0;
}

int etl__os_close(int descriptor) {
    /* Never again after EINTR: the descriptor is gone already, and may be another's by now. */
    return close(descriptor) == 0 || errno == EINTR ? 0 : errno;
}

/* ---- Reading and writing */

int etl__os_write(int descriptor, const void *data, size_t size, uint64_t offset) {
    const uint8_t *from = data;
    int error = 0;
    if (offset > INT64_MAX || size > INT64_MAX - offset)
        return EFBIG;
    struct signal_guard guard;
    guard_begin(&guard);
    while (size != 0) {
        ssize_t done = pwrite(descriptor, from, size < CALL_MAX ? size : CALL_MAX, (off_t)offset);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0) {
            error = done < 0 ? errno : EIO;
            break;
        }
        from += done;
        size -= (size_t)done;
        offset += (uint64_t)done;
    }
    return guard_end(&guard, error);
}

int etl__os_read(int descriptor, void *data, size_t size, uint64_t offset, size_t *done) {
    uint8_t *to = data;
    *done = 0;
    if (offset > INT64_MAX || size > INT64_MAX - offset)
        return EINVAL;
    while (*done < size) {
        size_t left = size - *done;
        ssize_t got = pread(descriptor, to + *done, left < CALL_MAX ? left : CALL_MAX,
                            (off_t)(offset + *done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return errno;
        if (got == 0)
            break;
        *done += (size_t)got;
    }
    return 0;
}

int etl__os_allocate(int descriptor, uint64_t offset, uint64_t size) {
    if (offset > INT64_MAX || size > INT64_MAX - offset)
        return EFBIG;
#if defined(__linux__)
    int error = 0;
    struct signal_guard guard;
    if (size == 0)
        return 0;
    guard_begin(&guard);
    /* A busy timer can interrupt a long reservation again and again: it is then done without. */
    for (int attempt = 0; attempt < ALLOCATE_TRIES; attempt++) {
        error = fallocate(descriptor, 0, (off_t)offset, (off_t)size) == 0 ? 0 : errno;
        if (error != EINTR)
            break;
    }
    guard_end(&guard, error);
    return error == ENOSPC || error == EDQUOT || error == EFBIG ? error : 0;
#else
    (void)descriptor;
    return 0;
#endif
}

int etl__os_truncate(int descriptor, uint64_t size) {
    int error;
    if (size > INT64_MAX)
        return EFBIG;
    struct signal_guard guard;
    guard_begin(&guard);
    do
        error = ftruncate(descriptor, (off_t)size) == 0 ? 0 : errno;
    while (error == EINTR);
    return guard_end(&guard, error);
}

int etl__os_file_size(int descriptor, uint64_t *size) {
    struct stat status;
    if (fstat(descriptor, &status) != 0)
        return errno;
    *size = status.st_size > 0 ? (uint64_t)status.st_size : 0;
    return 0;
}

/* ---- Memory */

size_t etl__os_page_size(void) {
    long size = sysconf(_SC_PAGESIZE);
    return size > 0 ? (size_t)size : 4096;
}

int etl__os_map_file(int descriptor, size_t size, const uint8_t **data) {
    void *map = mmap(NULL, size, PROT_READ, MAP_SHARED, descriptor, 0);
    if (map == MAP_FAILED)
        return errno;
    *data = map;
    return 0;
}

int etl__os_unmap_file(const uint8_t *data, size_t size) {
    return munmap((void *)(uintptr_t)data, size) == 0 ? 0 : errno;
}

static void *map_anonymous(size_t size) {
    void *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return map == MAP_FAILED ? NULL : map;
}

/* Cutting an end off a mapping splits nothing and so cannot meet the limit on mappings; should it
 * fail all the same, addresses are lost and no memory. */
static void *map_aligned(size_t size) {
    size_t page = etl__os_page_size();
    if (size > SIZE_MAX - HUGE_PAGE - page)
        return NULL;
    size = (size + page - 1) / page * page;
    uint8_t *map = map_anonymous(size + HUGE_PAGE);
    if (map == NULL)
        return NULL;
    size_t before = (HUGE_PAGE - ((uintptr_t)map & (HUGE_PAGE - 1))) & (HUGE_PAGE - 1);
    if (before != 0)
        (void)munmap(map, before);
    (void)munmap(map + before + size, HUGE_PAGE - before);
    return map + before;
}

void *etl__os_map_memory(size_t size) {
    if (size < HUGE_FROM)
        return map_anonymous(size);
    void *map = map_aligned(size);
    if (map == NULL) /* the last of the address space, without the margin */
        map = map_anonymous(size);
#if defined(MADV_HUGEPAGE)
    if (map != NULL)
        (void)madvise(map, size, MADV_HUGEPAGE);
#endif
    return map;
}

int etl__os_unmap_memory(void *memory, size_t size) {
    return munmap(memory, size) == 0 ? 0 : errno;
}

void etl__os_release_pages(const uint8_t *data, size_t size) {
#if defined(MADV_DONTNEED)
    uintptr_t page = etl__os_page_size();
    uintptr_t from = ((uintptr_t)data + page - 1) / page * page;
    uintptr_t to = ((uintptr_t)data + size) / page * page;
    if (from < to)
        (void)madvise((void *)from, to - from, MADV_DONTNEED);
#else
    (void)data;
    (void)size;
#endif
}

void etl__os_read_ahead(int descriptor, uint64_t offset, size_t size) {
#if defined(POSIX_FADV_SEQUENTIAL) && !defined(__APPLE__)
    if (offset <= INT64_MAX && size <= INT64_MAX - offset)
        (void)posix_fadvise(descriptor, (off_t)offset, (off_t)size, POSIX_FADV_SEQUENTIAL);
#else
    (void)descriptor;
    (void)offset;
    (void)size;
#endif
}

/* ---- Clock, identity, limits */

uint64_t etl__os_now_ns(void) {
    struct timespec now = {0, 0};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t etl__os_random(void) {
    uint64_t random;
    if (getentropy(&random, sizeof random) == 0)
        return random;
    /* Without entropy still different for each thread and moment; O_EXCL settles the rest.
     * The mixing is that of splitmix64 (Steele, Lea and Flood 2014). */
    random = etl__os_now_ns() ^ (uint64_t)getpid() << 32 ^ (uint64_t)(uintptr_t)&random;
    random = (random ^ random >> 30) * 0xBF58476D1CE4E5B9u;
    random = (random ^ random >> 27) * 0x94D049BB133111EBu;
    return random ^ random >> 31;
}

int64_t etl__os_process_id(void) {
    return (int64_t)getpid();
}

size_t etl__os_descriptor_limit(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return _POSIX_OPEN_MAX;
    return limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur > SIZE_MAX ? SIZE_MAX
                                                                        : (size_t)limit.rlim_cur;
}

/* ---- Threads */

int etl__os_lock_init(struct etl__os_lock *lock) {
    pthread_condattr_t attributes;
    int error = pthread_mutex_init(&lock->mutex, NULL);
    if (error != 0)
        return error;
    error = pthread_condattr_init(&attributes);
    if (error != 0)
        goto no_attributes;
#if !defined(__APPLE__)
    error = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
#endif
    if (error == 0)
        error = pthread_cond_init(&lock->changed, &attributes);
    pthread_condattr_destroy(&attributes);
no_attributes:
    if (error != 0)
        pthread_mutex_destroy(&lock->mutex);
    return error;
}

void etl__os_lock_end(struct etl__os_lock *lock) {
    pthread_cond_destroy(&lock->changed);
    pthread_mutex_destroy(&lock->mutex);
}

void etl__os_lock(struct etl__os_lock *lock) {
    pthread_mutex_lock(&lock->mutex);
}

void etl__os_unlock(struct etl__os_lock *lock) {
    pthread_mutex_unlock(&lock->mutex);
}

void etl__os_wake_all(struct etl__os_lock *lock) {
    pthread_cond_broadcast(&lock->changed);
}

void etl__os_wait(struct etl__os_lock *lock) {
    pthread_cond_wait(&lock->changed, &lock->mutex);
}

void etl__os_wait_ms(struct etl__os_lock *lock, unsigned limit) {
    struct timespec until = {(time_t)(limit / 1000), (long)(limit % 1000) * 1000000};
#if defined(__APPLE__)
    pthread_cond_timedwait_relative_np(&lock->changed, &lock->mutex, &until);
#else
    struct timespec now = {0, 0};
    clock_gettime(CLOCK_MONOTONIC, &now);
    until.tv_sec += now.tv_sec;
    until.tv_nsec += now.tv_nsec;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    pthread_cond_timedwait(&lock->changed, &lock->mutex, &until);
#endif
}

int etl__os_thread_start(etl__os_thread *thread, void *(*run)(void *), void *argument) {
    /* What the processor raises stays open, so that the host's crash handlers see a fault here. */
    static const int synchronous[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS};
    sigset_t blocked, before;
    sigfillset(&blocked);
    for (size_t i = 0; i < sizeof synchronous / sizeof synchronous[0]; i++)
        sigdelset(&blocked, synchronous[i]);
    int error = pthread_sigmask(SIG_SETMASK, &blocked, &before);
    if (error != 0)
        return error;
    error = pthread_create(thread, NULL, run, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

void etl__os_thread_join(etl__os_thread thread) {
    pthread_join(thread, NULL);
}

void etl__os_thread_stop(etl__os_thread thread, struct etl__os_lock *lock, atomic_bool *stopping) {
    etl__os_lock(lock);
    atomic_store_explicit(stopping, true, memory_order_relaxed);
    etl__os_wake_all(lock);
    etl__os_unlock(lock);
    etl__os_thread_join(thread);
    etl__os_lock_end(lock);
}
