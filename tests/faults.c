/* faults.c: see faults.h. The linker sends each call of a wrapped function f to __wrap_f, and
 * __real_f to f. */
#include "faults.h"
#include "etl.h"

#include <stdint.h>

#if defined(__GLIBC__) && !defined(__LP64__) /* as os_posix.c has it */
#define _FILE_OFFSET_BITS  64
#define NAME(prefix, call) prefix##call##64
#else
#define NAME(prefix, call) prefix##call
#endif

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* ---- What can happen */

#define WAY(error, effect, status) \
    { error, #error, effect, status, NULL }

static const struct faults_way stat_ways[] = {WAY(EACCES, FAULTS_MUST, ETL_E_IO),
                                              WAY(EIO, FAULTS_MUST, ETL_E_IO),
                                              WAY(ENOMEM, FAULTS_MUST, ETL_E_NOMEM)};
static const struct faults_way ignored_ways[] = {
    WAY(EIO, FAULTS_NONE, ETL_OK), WAY(ENOSYS, FAULTS_NONE, ETL_OK),
    WAY(EINVAL, FAULTS_NONE, ETL_OK), WAY(ENOMEM, FAULTS_NONE, ETL_OK)};
static const struct faults_way tmpfile_ways[] = {
    WAY(ENOSPC, FAULTS_MUST, ETL_E_NOSPACE), WAY(EDQUOT, FAULTS_MUST, ETL_E_NOSPACE),
    WAY(EIO, FAULTS_MUST, ETL_E_IO),         WAY(EMFILE, FAULTS_MUST, ETL_E_IO),
    WAY(ENFILE, FAULTS_MUST, ETL_E_IO),      WAY(ENOMEM, FAULTS_MUST, ETL_E_NOMEM),
    WAY(EINTR, FAULTS_NONE, ETL_OK),         WAY(EOPNOTSUPP, FAULTS_NONE, ETL_OK),
    WAY(EISDIR, FAULTS_NONE, ETL_OK),        WAY(EINVAL, FAULTS_NONE, ETL_OK)};
static const struct faults_way open_ways[] = {
    WAY(ENOSPC, FAULTS_MUST, ETL_E_NOSPACE), WAY(EDQUOT, FAULTS_MUST, ETL_E_NOSPACE),
    WAY(EIO, FAULTS_MUST, ETL_E_IO),         WAY(EMFILE, FAULTS_MUST, ETL_E_IO),
    WAY(ENFILE, FAULTS_MUST, ETL_E_IO),      WAY(ENOMEM, FAULTS_MUST, ETL_E_NOMEM),
    WAY(EACCES, FAULTS_MUST, ETL_E_IO),      WAY(EINTR, FAULTS_NONE, ETL_OK)};
static const struct faults_way unlink_ways[] = {WAY(EIO, FAULTS_MUST, ETL_E_IO),
                                                WAY(EPERM, FAULTS_MUST, ETL_E_IO),
                                                WAY(ENOMEM, FAULTS_MUST, ETL_E_NOMEM)};
static const struct faults_way link_ways[] = {
    WAY(EIO, FAULTS_MUST, ETL_E_IO), WAY(ENOSPC, FAULTS_MUST, ETL_E_NOSPACE),
    WAY(EACCES, FAULTS_MUST, ETL_E_IO), WAY(EINTR, FAULTS_NONE, ETL_OK)};
static const struct faults_way sync_ways[] = {
    WAY(EIO, FAULTS_MUST, ETL_E_IO), WAY(ENOSPC, FAULTS_MUST, ETL_E_NOSPACE),
    WAY(EDQUOT, FAULTS_MUST, ETL_E_NOSPACE), WAY(EINTR, FAULTS_NONE, ETL_OK)};
static const struct faults_way sync_directory_ways[] = {WAY(EIO, FAULTS_MUST, ETL_E_IO),
                                                        WAY(EINVAL, FAULTS_NONE, ETL_OK),
                                                        WAY(EINTR, FAULTS_NONE, ETL_OK)};
/* Of a file that was written: the descriptor is gone all the same, but not all that was written
 * may have come to the disk. */
static const struct faults_way close_ways[] = {
    WAY(EIO, FAULTS_MUST, ETL_E_IO), WAY(EINTR, FAULTS_NONE, ETL_OK),
    WAY(ENOSPC, FAULTS_MUST, ETL_E_NOSPACE), WAY(EDQUOT, FAULTS_MUST, ETL_E_NOSPACE)};
static const struct faults_way write_ways[] = {
    WAY(ENOSPC, FAULTS_MUST, ETL_E_NOSPACE),
    WAY(EIO, FAULTS_MUST, ETL_E_IO),
    {FAULTS_FULL, "full", FAULTS_MUST, ETL_E_NOSPACE, NULL},
    WAY(EINTR, FAULTS_NONE, ETL_OK),
    {FAULTS_HALF, "half", FAULTS_NONE, ETL_OK, NULL},
    WAY(EDQUOT, FAULTS_MUST, ETL_E_NOSPACE),
    WAY(EFBIG, FAULTS_MUST, ETL_E_NOSPACE),
    {FAULTS_ZERO, "zero", FAULTS_MUST, ETL_E_IO, NULL},
    WAY(ENOMEM, FAULTS_MUST, ETL_E_NOMEM),
    WAY(EAGAIN, FAULTS_MUST, ETL_E_IO),
    {FAULTS_BYTE, "byte", FAULTS_NONE, ETL_OK, NULL}};
static const struct faults_way read_ways[] = {
    WAY(EIO, FAULTS_MUST, ETL_E_IO),
    {FAULTS_ZERO, "zero", FAULTS_MUST, ETL_E_CORRUPT, "ends"},
    WAY(EINTR, FAULTS_NONE, ETL_OK),
    {FAULTS_HALF, "half", FAULTS_NONE, ETL_OK, NULL},
    WAY(ENOMEM, FAULTS_MUST, ETL_E_NOMEM),
    WAY(EAGAIN, FAULTS_MUST, ETL_E_IO),
    {FAULTS_BYTE, "byte", FAULTS_NONE, ETL_OK, NULL}};
static const struct faults_way allocate_ways[] = {
    WAY(EOPNOTSUPP, FAULTS_NONE, ETL_OK), WAY(ENOSPC, FAULTS_NONE, ETL_OK),
    WAY(EINTR, FAULTS_NONE, ETL_OK),      WAY(ENOSYS, FAULTS_NONE, ETL_OK),
    WAY(EFBIG, FAULTS_NONE, ETL_OK),      WAY(EDQUOT, FAULTS_NONE, ETL_OK),
    WAY(EIO, FAULTS_NONE, ETL_OK)};
static const struct faults_way truncate_ways[] = {
    WAY(EIO, FAULTS_MUST, ETL_E_IO), WAY(EINTR, FAULTS_NONE, ETL_OK),
    WAY(ENOSPC, FAULTS_MUST, ETL_E_NOSPACE), WAY(EFBIG, FAULTS_MUST, ETL_E_NOSPACE)};
static const struct faults_way fstat_ways[] = {WAY(EIO, FAULTS_MUST, ETL_E_IO),
                                               WAY(ENOMEM, FAULTS_MUST, ETL_E_NOMEM)};
static const struct faults_way map_file_ways[] = {
    WAY(ENOMEM, FAULTS_NONE, ETL_OK), WAY(ENODEV, FAULTS_NONE, ETL_OK),
    WAY(EAGAIN, FAULTS_NONE, ETL_OK), WAY(EACCES, FAULTS_NONE, ETL_OK)};
static const struct faults_way unmap_ways[] = {
    {ENOMEM, "ENOMEM", FAULTS_NONE, ETL_E_NOMEM, "memory"}};
static const struct faults_way memory_ways[] = {
    {ENOMEM, "ENOMEM", FAULTS_MAY, ETL_E_NOMEM, "memory"}};
static const struct faults_way lock_ways[] = {
    {ENOMEM, "ENOMEM", FAULTS_MUST, ETL_E_NOMEM, "memory"},
    {EAGAIN, "EAGAIN", FAULTS_MUST, ETL_E_NOMEM, "memory"}};
static const struct faults_way thread_ways[] = {WAY(EAGAIN, FAULTS_NONE, ETL_OK),
                                                WAY(EPERM, FAULTS_NONE, ETL_OK)};

#define WAYS(ways) ways, sizeof(ways) / sizeof(ways)[0]
#define MAKE       "make a temporary file in|make a file beside"

static const struct {
    const char *name;
    const struct faults_way *ways;
    size_t count;
    const char *operation;
    bool has_path;
} calls[FAULTS_CALLS] = {
    [FAULTS_STAT] = {"stat", WAYS(stat_ways), "temporary directory", true},
    [FAULTS_LSTAT] = {"lstat", WAYS(stat_ways), "look at", true},
    [FAULTS_ACCESS] = {"access", WAYS(stat_ways), "temporary directory", true},
    [FAULTS_STATVFS] = {"statvfs", WAYS(ignored_ways), "", false},
    [FAULTS_GETRLIMIT] = {"getrlimit", WAYS(ignored_ways), "", false},
    [FAULTS_GETENTROPY] = {"getentropy", WAYS(ignored_ways), "", false},
    [FAULTS_OPEN_TMPFILE] = {"open-tmpfile", WAYS(tmpfile_ways), MAKE, true},
    [FAULTS_OPEN] = {"open", WAYS(open_ways), MAKE "|open the run file|open the directory of",
                     true},
    [FAULTS_UNLINK] = {"unlink", WAYS(unlink_ways), MAKE, true},
    [FAULTS_READLINK] = {"readlink", WAYS(ignored_ways), "", false},
    [FAULTS_LINK] = {"linkat", WAYS(link_ways), "name a file beside", true},
    [FAULTS_RENAME] = {"rename", WAYS(link_ways), "rename a file to", true},
    [FAULTS_SYNC] = {"fsync", WAYS(sync_ways), "sync", true},
    [FAULTS_SYNC_DIRECTORY] = {"fsync-directory", WAYS(sync_directory_ways),
                               "the file is in its place", true},
    [FAULTS_FCHMOD] = {"fchmod", WAYS(ignored_ways), "", false},
    [FAULTS_CLOSE] = {"close", WAYS(close_ways), "close", true},
    [FAULTS_WRITE] = {"pwrite", WAYS(write_ways), "write", true},
    [FAULTS_READ] = {"pread", WAYS(read_ways), "run in|the run file", true},
    [FAULTS_ALLOCATE] = {"fallocate", WAYS(allocate_ways), "", false},
    [FAULTS_TRUNCATE] = {"ftruncate", WAYS(truncate_ways), "cut to its length", true},
    [FAULTS_FSTAT] = {"fstat", WAYS(fstat_ways), "ask for the size|open the run file", true},
    [FAULTS_MAP_FILE] = {"mmap-file", WAYS(map_file_ways), "", false},
    [FAULTS_MAP_MEMORY] = {"mmap-memory", WAYS(memory_ways), "", false},
    [FAULTS_UNMAP] = {"munmap", WAYS(unmap_ways), "", false},
    [FAULTS_MADVISE] = {"madvise", WAYS(ignored_ways), "", false},
    [FAULTS_FADVISE] = {"posix_fadvise", WAYS(ignored_ways), "", false},
    [FAULTS_MALLOC] = {"malloc", WAYS(memory_ways), "", false},
    [FAULTS_LOCK] = {"lock", WAYS(lock_ways), "", false},
    [FAULTS_THREAD] = {"pthread_create", WAYS(thread_ways), "", false}};

const char *faults_call_name(enum faults_call call) {
    return calls[call].name;
}

const char *faults_operation(enum faults_call call) {
    return calls[call].operation;
}

bool faults_names_path(enum faults_call call) {
    return calls[call].has_path;
}

const struct faults_way *faults_ways(enum faults_call call, size_t *count) {
    *count = calls[call].count;
    return calls[call].ways;
}

const char *faults_cause(const struct faults_way *way) {
    int error = way->how > 0 ? way->how : way->how == FAULTS_FULL ? ENOSPC : EIO;
    return way->cause != NULL ? way->cause : strerror(error);
}

/* ---- What does happen */

static struct fault fault;   /* written while the library has no thread */
static unsigned unsupported; /* likewise */
static atomic_bool armed, lifted;
static atomic_size_t seen[FAULTS_CALLS], given;
static atomic_llong blocks, descriptors, mapped;
static _Thread_local bool outside; /* of the library, on a thread of the test */
static _Thread_local unsigned interrupts;

void faults_start(const struct fault *next, unsigned next_unsupported) {
    static const struct fault none;
    fault = next != NULL ? *next : none;
    unsupported = next_unsupported;
    for (int i = 0; i < FAULTS_CALLS; i++)
        atomic_store(&seen[i], 0);
    atomic_store(&given, 0);
    atomic_store(&blocks, 0);
    atomic_store(&descriptors, 0);
    atomic_store(&mapped, 0);
    atomic_store(&lifted, false);
    outside = true;
    atomic_store(&armed, true);
}

void faults_lift(void) {
    atomic_store(&lifted, true);
}

bool faults_end(void) {
    if (!atomic_exchange(&armed, false))
        return true;
    long long held[] = {atomic_load(&blocks), atomic_load(&descriptors), atomic_load(&mapped)};
    if (held[0] == 0 && held[1] == 0 && held[2] == 0)
        return true;
    fprintf(stderr, "not given back: %lld blocks, %lld descriptors, %lld bytes mapped\n", held[0],
            held[1], held[2]);
    return false;
}

void faults_enter(void) {
    outside = false;
}

void faults_leave(void) {
    outside = true;
}

size_t faults_seen(enum faults_call call) {
    return atomic_load(&seen[call]);
}

size_t faults_given(void) {
    return atomic_load(&given);
}

static bool is_library(void) {
    return !outside && atomic_load(&armed);
}

/* How this call fails; 0: it does not. */
static int fate(enum faults_call call) {
    if (!is_library())
        return 0;
    if ((unsupported >> call & 1) != 0)
        return call == FAULTS_MAP_FILE ? ENODEV : EOPNOTSUPP;
    size_t number = atomic_fetch_add(&seen[call], 1) + 1;
    size_t last = fault.lasting ? SIZE_MAX : fault.from + (fault.how == FAULTS_FULL);
    if (call != fault.call || fault.from == 0 || number < fault.from || number > last ||
        atomic_load(&lifted))
        return 0;
    /* What is interrupted again and again goes through in the end. */
    if (fault.how == EINTR && fault.lasting && ++interrupts % 4 == 0)
        return 0;
    atomic_fetch_add(&given, 1);
    if (fault.how == FAULTS_FULL)
        return number == fault.from ? FAULTS_HALF : ENOSPC;
    return fault.how;
}

/* For a call that returns 0, or -1 and errno. */
static bool fails(enum faults_call call) {
    int how = fate(call);
    if (how != 0)
        errno = how;
    return how != 0;
}

static void count(atomic_llong *held, long long change) {
    if (is_library())
        atomic_fetch_add(held, change);
}

/* ---- The calls */

#define DOUBLE_OF(type, real, wrap, ...) \
    type real(__VA_ARGS__);              \
    type wrap(__VA_ARGS__);              \
    type wrap(__VA_ARGS__)
#define DOUBLE(type, call, ...) DOUBLE_OF(type, __real_##call, __wrap_##call, __VA_ARGS__)

/* Of those that have a variant for large files. */
#define REAL_FILE(call) NAME(__real_, call)
#define DOUBLE_FILE(type, call, ...) \
    DOUBLE_OF(type, NAME(__real_, call), NAME(__wrap_, call), __VA_ARGS__)

DOUBLE_FILE(int, stat, const char *path, struct stat *status) {
    return fails(FAULTS_STAT) ? -1 : REAL_FILE(stat)(path, status);
}

DOUBLE_FILE(int, lstat, const char *path, struct stat *status) {
    return fails(FAULTS_LSTAT) ? -1 : REAL_FILE(lstat)(path, status);
}

DOUBLE(int, access, const char *path, int mode) {
    return fails(FAULTS_ACCESS) ? -1 : __real_access(path, mode);
}

DOUBLE_FILE(int, statvfs, const char *path, struct statvfs *status) {
    return fails(FAULTS_STATVFS) ? -1 : REAL_FILE(statvfs)(path, status);
}

/* glibc's declaration has an enum here, an int to the linker. */
DOUBLE_FILE(int, getrlimit, int resource, struct rlimit *limit) {
    return fails(FAULTS_GETRLIMIT) ? -1 : REAL_FILE(getrlimit)(resource, limit);
}

DOUBLE(int, getentropy, void *buffer, size_t size) {
    return fails(FAULTS_GETENTROPY) ? -1 : __real_getentropy(buffer, size);
}

DOUBLE_FILE(int, open, const char *path, int flags, ...) {
    mode_t mode = 0;
    bool unnamed = (flags & O_TMPFILE) == O_TMPFILE;
    if (unnamed || (flags & O_CREAT) != 0) {
        va_list arguments;
        va_start(arguments, flags);
        mode = va_arg(arguments, mode_t);
        va_end(arguments);
    }
    if (fails(unnamed ? FAULTS_OPEN_TMPFILE : FAULTS_OPEN))
        return -1;
    int descriptor = REAL_FILE(open)(path, flags, mode);
    count(&descriptors, descriptor >= 0);
    return descriptor;
}

DOUBLE(int, unlink, const char *path) {
    return fails(FAULTS_UNLINK) ? -1 : __real_unlink(path);
}

DOUBLE(ssize_t, readlink, const char *path, char *out, size_t size) {
    return fails(FAULTS_READLINK) ? -1 : __real_readlink(path, out, size);
}

DOUBLE(int, linkat, int from_in, const char *from, int to_in, const char *to, int flags) {
    return fails(FAULTS_LINK) ? -1 : __real_linkat(from_in, from, to_in, to, flags);
}

DOUBLE(int, rename, const char *from, const char *to) {
    return fails(FAULTS_RENAME) ? -1 : __real_rename(from, to);
}

DOUBLE(int, fchmod, int descriptor, mode_t mode) {
    return fails(FAULTS_FCHMOD) ? -1 : __real_fchmod(descriptor, mode);
}

/* As Linux has it: whatever it says, the descriptor is free again. */
DOUBLE(int, close, int descriptor) {
    int how = fate(FAULTS_CLOSE), result = __real_close(descriptor);
    count(&descriptors, result == 0 ? -1 : 0);
    if (how == 0)
        return result;
    errno = how;
    return -1;
}

/* Bytes that are read or written all the same; -1 with errno: none. */
static ssize_t passing(int how, size_t size) {
    if (how > 0) {
        errno = how;
        return -1;
    }
    size_t part = how == FAULTS_ZERO ? 0 : how == FAULTS_BYTE ? 1 : (size + 1) / 2;
    return (ssize_t)(how != 0 && part < size ? part : size);
}

DOUBLE_FILE(ssize_t, pwrite, int descriptor, const void *data, size_t size, off_t offset) {
    ssize_t part = passing(fate(FAULTS_WRITE), size);
    return part <= 0 ? part : REAL_FILE(pwrite)(descriptor, data, (size_t)part, offset);
}

DOUBLE_FILE(ssize_t, pread, int descriptor, void *data, size_t size, off_t offset) {
    ssize_t part = passing(fate(FAULTS_READ), size);
    return part <= 0 ? part : REAL_FILE(pread)(descriptor, data, (size_t)part, offset);
}

DOUBLE_FILE(int, fallocate, int descriptor, int mode, off_t offset, off_t size) {
    return fails(FAULTS_ALLOCATE) ? -1 : REAL_FILE(fallocate)(descriptor, mode, offset, size);
}

DOUBLE_FILE(int, ftruncate, int descriptor, off_t size) {
    return fails(FAULTS_TRUNCATE) ? -1 : REAL_FILE(ftruncate)(descriptor, size);
}

DOUBLE_FILE(int, fstat, int descriptor, struct stat *status) {
    return fails(FAULTS_FSTAT) ? -1 : REAL_FILE(fstat)(descriptor, status);
}

DOUBLE(int, fsync, int descriptor) {
    struct stat status;
    bool of_directory = REAL_FILE(fstat)(descriptor, &status) == 0 && S_ISDIR(status.st_mode);
    return fails(of_directory ? FAULTS_SYNC_DIRECTORY : FAULTS_SYNC) ? -1
                                                                     : __real_fsync(descriptor);
}

static long long whole_pages(size_t size) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (long long)((size + page - 1) / page * page);
}

DOUBLE_FILE(void *, mmap, void *address, size_t size, int protection, int flags, int descriptor,
            off_t offset) {
    if (fails(descriptor >= 0 ? FAULTS_MAP_FILE : FAULTS_MAP_MEMORY))
        return MAP_FAILED;
    void *map = REAL_FILE(mmap)(address, size, protection, flags, descriptor, offset);
    count(&mapped, map != MAP_FAILED ? whole_pages(size) : 0);
    return map;
}

DOUBLE(int, munmap, void *map, size_t size) {
    if (fails(FAULTS_UNMAP))
        return -1;
    int result = __real_munmap(map, size);
    count(&mapped, result == 0 ? -whole_pages(size) : 0);
    return result;
}

DOUBLE(int, madvise, void *map, size_t size, int advice) {
    return fails(FAULTS_MADVISE) ? -1 : __real_madvise(map, size, advice);
}

DOUBLE_FILE(int, posix_fadvise, int descriptor, off_t offset, off_t size, int advice) {
    int how = fate(FAULTS_FADVISE);
    return how != 0 ? how : REAL_FILE(posix_fadvise)(descriptor, offset, size, advice);
}

DOUBLE(void *, malloc, size_t size) {
    if (fails(FAULTS_MALLOC))
        return NULL;
    void *block = __real_malloc(size);
    count(&blocks, block != NULL);
    return block;
}

DOUBLE(void, free, void *block) {
    count(&blocks, block != NULL ? -1 : 0);
    __real_free(block);
}

DOUBLE(int, pthread_mutex_init, pthread_mutex_t *mutex, const pthread_mutexattr_t *attributes) {
    int how = fate(FAULTS_LOCK);
    return how != 0 ? how : __real_pthread_mutex_init(mutex, attributes);
}

DOUBLE(int, pthread_condattr_init, pthread_condattr_t *attributes) {
    int how = fate(FAULTS_LOCK);
    return how != 0 ? how : __real_pthread_condattr_init(attributes);
}

DOUBLE(int, pthread_cond_init, pthread_cond_t *condition, const pthread_condattr_t *attributes) {
    int how = fate(FAULTS_LOCK);
    return how != 0 ? how : __real_pthread_cond_init(condition, attributes);
}

DOUBLE(int, pthread_create, pthread_t *thread, const pthread_attr_t *attributes,
       void *(*run)(void *), void *argument) {
    int how = fate(FAULTS_THREAD);
    return how != 0 ? how : __real_pthread_create(thread, attributes, run, argument);
}
