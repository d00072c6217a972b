/* support.h: what every test needs: a temporary directory, numbers that can be replayed, an
 * allocator that notices misuse, and a look at what the process holds.
 *
 * Environment: LIBETL_TEST_SEED replays a run (the seed is printed at the start);
 * LIBETL_TEST_LIGHT=1 does about a tenth of the work, for valgrind and the sanitizers. */
#ifndef LIBETL_TESTS_SUPPORT_H
#define LIBETL_TESTS_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>
#include <cmocka.h>

#include "etl.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
#define KIB             ((size_t)1024)
#define MIB             ((size_t)1024 * 1024)

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TEST_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
    __has_feature(memory_sanitizer)
#define TEST_SANITIZED 1
#endif
#endif
#ifndef TEST_SANITIZED
#define TEST_SANITIZED 0
#endif

/* ---- Statuses */

/* Fails the test unless call gives the expected status; prints the collector's message (NULL:
 * there is none to ask). */
#define ASSERT_STATUS(expected, collector, call) \
    support_assert_status((expected), (call), (collector), #call, __FILE__, __LINE__)
#define ASSERT_OK(collector, call) ASSERT_STATUS(ETL_OK, collector, call)

void support_assert_status(int expected, int status, const etl_collector *collector,
                           const char *call, const char *file, int line);

/* ---- How much work */

bool support_light(void);

/* count, or about a tenth of it (at least 1) when the work is to be light. */
size_t support_scaled(size_t count);

/* ---- Numbers: splitmix64, one independent stream for each number given. */

struct prng {
    uint64_t state;
};

/* From LIBETL_TEST_SEED, else new; printed when it is first asked for. */
uint64_t support_seed(void);
void prng_start(struct prng *prng, uint64_t stream);
uint64_t prng_next(struct prng *prng);
size_t prng_below(struct prng *prng, size_t bound);
size_t prng_between(struct prng *prng, size_t least, size_t most);
bool prng_permille(struct prng *prng, unsigned chance);

/* ---- A temporary directory for the whole test program; cmocka group fixtures. */

int support_setup(void **state);
int support_teardown(void **state);
const char *support_directory(void);

/* Names in a directory, "." and ".." not counted. */
size_t support_entries(const char *directory);

/* A path inside the temporary directory; static, valid until the fourth call after it. */
const char *support_path(const char *name);

/* Defaults, with the temporary directory and this memory limit. */
etl_options support_options(size_t memory_limit);

/* Let the runs go to memory where the system has a directory there: for tests that make tens of
 * thousands of tiny ones, which some file systems are slow to create. */
void support_make_fast(etl_options *options);

/* As support_path, where syncing costs nothing. */
const char *support_fast_path(const char *name);

/* ---- What the process holds, as /proc tells; SIZE_MAX where there is none */

#define SKIP_WITHOUT_PROC()                    \
    do {                                       \
        if (support_descriptors() == SIZE_MAX) \
            skip();                            \
    } while (0)

size_t support_descriptors(void);
size_t support_threads(void);
size_t support_mappings(void);

/* Descriptors that point to, and mappings of, files in a directory, whether they still have a name
 * or not. */
size_t support_files_held(const char *directory);

/* ---- An allocator hook: counts, poisons what is fresh and what is freed, and notices a wrong
 * old_size, a block that it never gave, writes past the end, and leaks. Any thread. */

struct support_memory {
    atomic_size_t calls; /* that asked for memory */
    atomic_size_t blocks;
    atomic_size_t bytes;
    atomic_size_t bytes_peak;
    atomic_size_t mistakes;
    atomic_size_t refuse_from;  /* refuse calls from this one on; 0: never */
    atomic_size_t refuse_count; /* so many of them; 0: all */
};

etl_allocator support_allocator(struct support_memory *memory);

/* Fails the test where a mistake was seen or a block is still held. */
void support_memory_check(const struct support_memory *memory);

/* ---- Child processes: test bodies that change limits, fork or die. */

/* In a child: leave with the line number on stderr. cmocka's asserts would jump into the runner.
 */
#define CHILD_CHECK(condition)                                    \
    do {                                                          \
        if (!(condition))                                         \
            support_child_failed(#condition, __FILE__, __LINE__); \
    } while (0)

enum { SUPPORT_CHILD_SKIP = 77 };

/* As fork, but what stdio holds is written before; in a build for coverage the child counts for
 * itself, from nothing, and what it counted is kept when it leaves by support_child_leave. */
pid_t support_fork(void);
_Noreturn void support_child_leave(int code);

_Noreturn void support_child_failed(const char *condition, const char *file, int line);

/* Run body in a forked child, which is killed after a minute; the test fails unless the child
 * leaves with 0, and is skipped when it leaves with SUPPORT_CHILD_SKIP. */
void support_in_child(void (*body)(void));

/* ---- Counted pairs: key i is i as 8 bytes, big-endian; value i says i too. Enough where an
 * oracle would only cost time. */

struct counted {
    uint64_t next;  /* expected */
    uint64_t end;   /* pairs in all */
    uint64_t wrong; /* pairs out of place */
};

enum { COUNTED_VALUE_SIZE = 24 };

int counted_collect(etl_collector *collector, uint64_t i);

/* Collect counted pairs [0, count) in scattered order; the status of the first failure. */
int counted_collect_all(etl_collector *collector, uint64_t count);

/* Checks the pairs one by one. context is a struct counted. */
int counted_load(void *context, etl_slice key, etl_slice value);

/* Load and compare with [0, count); fails the test on any difference. */
void counted_assert_load(etl_collector *collector, uint64_t count);

/* The same without asserts, for children and threads. */
bool counted_load_matches(etl_collector *collector, uint64_t count);

#endif
