/* pwrite_support.h: the pwrite of this test program, so that the library's writes can be looked at,
 * slowed down and refused. It is defined here and not asked of the linker, so that the library, which
 * is linked statically, calls it. Include it in one file of a program. */
#ifndef LIBETL_TESTS_PWRITE_SUPPORT_H
#define LIBETL_TESTS_PWRITE_SUPPORT_H

#include <errno.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#if defined(__linux__) && defined(SYS_pwrite64) && defined(__LP64__)
#define HAVE_OWN_PWRITE 1
#else
#define HAVE_OWN_PWRITE 0
#endif

/* Called before each write, on whatever thread; what it returns is written, or when negative is
 * given back as the error -errno. NULL: nothing is done. */
static ssize_t (*_Atomic before_pwrite)(int descriptor, size_t size);

/* Where that write goes. */
static _Thread_local off_t pwrite_offset;

#if HAVE_OWN_PWRITE
ssize_t pwrite(int descriptor, const void *data, size_t size, off_t offset) {
    ssize_t (*before)(int, size_t) = atomic_load(&before_pwrite);
    pwrite_offset = offset;
    ssize_t part = before != NULL ? before(descriptor, size) : (ssize_t)size;
    if (part < 0) {
        errno = (int)-part;
        return -1;
    }
    return (ssize_t)syscall(SYS_pwrite64, descriptor, data, (size_t)part, offset);
}
#endif

#endif
