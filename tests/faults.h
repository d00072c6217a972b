/* faults.h: a test double for the system calls of the library, put between os_posix.c and libc by
 * the linker (--wrap), so that the retries and the fallbacks of os_posix.c are tested too.
 *
 * One fault at a time: the n-th call of one kind, or that one and all after it, fails in one way.
 * Only what the library calls counts: a thread of the library, or the test's own thread between
 * faults_enter and faults_leave. The double also keeps books on what the library holds. */
#ifndef LIBETL_TESTS_FAULTS_H
#define LIBETL_TESTS_FAULTS_H

#include <stdbool.h>
#include <stddef.h>

enum faults_call {
    FAULTS_STAT,
    FAULTS_LSTAT,
    FAULTS_ACCESS,
    FAULTS_STATVFS,
    FAULTS_GETRLIMIT,
    FAULTS_GETENTROPY,
    FAULTS_OPEN_TMPFILE, /* open with O_TMPFILE */
    FAULTS_OPEN,         /* any other */
    FAULTS_UNLINK,
    FAULTS_READLINK,
    FAULTS_LINK,
    FAULTS_RENAME,
    FAULTS_SYNC,           /* fsync of a file */
    FAULTS_SYNC_DIRECTORY, /* and of a directory */
    FAULTS_FCHMOD,
    FAULTS_CLOSE,
    FAULTS_WRITE,
    FAULTS_READ,
    FAULTS_ALLOCATE,
    FAULTS_TRUNCATE,
    FAULTS_FSTAT,
    FAULTS_MAP_FILE,
    FAULTS_MAP_MEMORY,
    FAULTS_UNMAP,
    FAULTS_MADVISE,
    FAULTS_FADVISE,
    FAULTS_MALLOC,
    FAULTS_LOCK, /* what makes mutexes and conditions */
    FAULTS_THREAD,
    FAULTS_CALLS
};

/* Ways to fail other than an errno value, which is positive. */
enum {
    FAULTS_HALF = -1, /* half of what was asked for is read or written */
    FAULTS_BYTE = -2, /* one byte of it */
    FAULTS_ZERO = -3, /* nothing of it, and no error */
    FAULTS_FULL = -4  /* half of it, and from the next call on ENOSPC */
};

/* What the library makes of it. */
enum faults_effect {
    FAULTS_NONE, /* the caller must not notice */
    FAULTS_MAY,  /* it is told, or there was a way around */
    FAULTS_MUST  /* it is told */
};

struct faults_way {
    int how;
    const char *name;
    enum faults_effect effect;
    int status;        /* where it is told, with */
    const char *cause; /* in the message; NULL: what the system says of the error */
};

const char *faults_call_name(enum faults_call call);
const char *faults_operation(enum faults_call call); /* words in the message, or "these|or these";
                                                        "": none */
bool faults_names_path(enum faults_call call);       /* is the directory in the message? */

const char *faults_cause(const struct faults_way *way);

/* The ways in which a call can fail. */
const struct faults_way *faults_ways(enum faults_call call, size_t *count);

struct fault {
    enum faults_call call;
    size_t from; /* the first call that fails, from 1 on; 0: none does */
    bool lasting;
    int how;
};

/* Calls that are refused all the time, as a system without them would, as bits 1 << call. */
void faults_start(const struct fault *fault, unsigned unsupported);

/* No more faults; the books are still kept. */
void faults_lift(void);

/* The end. Says whether the library has given everything back: blocks, mappings, descriptors. */
bool faults_end(void);

/* This thread goes into the library, and comes out of it. */
void faults_enter(void);
void faults_leave(void);

size_t faults_seen(enum faults_call call); /* calls since the start */
size_t faults_given(void);                 /* faults since the start */

#endif
