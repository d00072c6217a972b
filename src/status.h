/* status.h: every message of the library is made here.
 *
 * A function that can fail takes a struct etl__error and returns `return etl__fail(error, ETL_E_…,
 * "…")`: the status for the program, the text for the person. The text says what failed, on what,
 * and why; it is cut to fit, never allocated, so that it can be made when memory is what is
 * missing. */
#ifndef LIBETL_STATUS_H
#define LIBETL_STATUS_H

#include "etl.h"

struct etl__error {
    char text[640];
    int callback; /* what a callback returned, with ETL__E_CALLBACK */
};

/* Inside the library: a callback stopped the call. Its own value, which may be any (ETL_END too),
 * waits in error->callback until the public function returns it. */
#define ETL__E_CALLBACK (-20099)

#if defined(__GNUC__)
#define ETL__PRINTF(at, from)   __attribute__((format(printf, at, from)))
#define ETL__LIKELY(x)          __builtin_expect(!!(x), 1)
#define ETL__UNLIKELY(x)        __builtin_expect(!!(x), 0)
#define ETL__NOINLINE           __attribute__((noinline))
#define ETL__INLINE             inline __attribute__((always_inline)) /* in a hot loop */
#define ETL__PREFETCH(at)       __builtin_prefetch(at)
#define ETL__PREFETCH_WRITE(at) __builtin_prefetch(at, 1)
#else
#define ETL__PRINTF(at, from)
#define ETL__LIKELY(x)   (x)
#define ETL__UNLIKELY(x) (x)
#define ETL__NOINLINE
#define ETL__INLINE             inline
#define ETL__PREFETCH(at)       ((void)(at))
#define ETL__PREFETCH_WRITE(at) ((void)(at))
#endif

/* Leave a call on its first failure, where nothing is owned. */
#define ETL__TRY(call)            \
    do {                          \
        int try_status = (call);  \
        if (try_status != ETL_OK) \
            return try_status;    \
    } while (0)

/* Copy a struct whose first member is its struct_size as the caller knows it (0: as this version
 * does): what an older caller has not is 0. False where it sets what this version does not know,
 * or its size is none. */
bool etl__take_struct(void *complete, size_t size, const void *given);

static inline bool etl__is_slice(etl_slice slice) {
    return slice.data != NULL || slice.size == 0;
}

/* Write the text and return status. */
int etl__fail(struct etl__error *error, int status, const char *format, ...) ETL__PRINTF(3, 4);

/* A system call failed with errno value os_error: the text is "operation path: reason", and the
 * status is the one that this errno means to a caller (a full disk, no memory, or ETL_E_IO). */
int etl__fail_os(struct etl__error *error, int os_error, const char *operation, const char *path);

/* A callback returned `value`, which is not 0. Returns ETL__E_CALLBACK. */
int etl__fail_callback(struct etl__error *error, int value, const char *which);

/* What the public function returns for a status from inside. */
static inline int etl__public_status(const struct etl__error *error, int status) {
    return status == ETL__E_CALLBACK ? error->callback : status;
}

/* The status that an errno value means: ETL_E_NOSPACE for ENOSPC, EDQUOT and EFBIG, ETL_E_NOMEM
 * for ENOMEM. */
int etl__status_of_errno(int os_error);

/* "no memory: SIZE bytes for WHAT" */
int etl__fail_memory(struct etl__error *error, size_t size, const char *what);

#endif
