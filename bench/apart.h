/* apart.h: a pass in a process of its own, so that what one takes of memory, time and caches is not
 * the next one's, with a directory of its own. */
#ifndef LIBETL_BENCH_APART_H
#define LIBETL_BENCH_APART_H

#include "pass.h"

#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct bench;

/* Run `body` in a child; what it tells stands in memory that is shared (apart_shared). `watch`, in
 * the parent, returns when the child has ended; NULL: only wait. The directory is removed. */
void apart_run(const struct bench *bench, const struct pass *pass,
               void (*body)(void *context, const struct pass *pass),
               void (*watch)(void *context, pid_t child), void *context);

/* Memory that the child shares, all zero. */
void *apart_shared(size_t size);

/* In the child: end it with a message; NULL: errno's. */
#if defined(__GNUC__)
__attribute__((noreturn))
#endif
void apart_fail(const char *what, const char *message);

#ifdef __cplusplus
}
#endif

#endif
