/* bench.h: what every benchmark here shares: options, clocks, alternating runs, tables.
 *
 * A benchmark gives sets of cases that do the same work in different ways. The harness warms each
 * of them up once and then runs them in turn, A B A B, so that a machine that speeds up or slows
 * down does so for all of them alike; what is worth quoting is the ratio. A run returns the
 * checksum of its output, and a wrong one makes the program exit with 1. No time is ever asserted.
 */
#ifndef LIBETL_BENCH_H
#define LIBETL_BENCH_H

#include "etl.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* ---- Options: --quick, --csv, --cpu, --rounds N, --dir DIRECTORY, and a benchmark's own as
 * --name VALUE. */

struct bench_flag {
    const char *name;    /* without the dashes */
    const char *help;    /* with its default */
    uint64_t *number;    /* takes a suffix K, M or G (binary); or */
    const char **string; /* as it is */
};

struct bench {
    const char *name;
    bool quick;          /* small sizes, few rounds: about a second in all */
    bool csv;            /* bench,case,metric,value,unit */
    bool cpu;            /* time by the processor's clock of all threads: for busy machines */
    bool failed;         /* a checksum was wrong */
    uint64_t rounds;     /* of each set; 0: as many as fit set_seconds, at least 5 (quick: 3) */
    double set_seconds;  /* default 0.5 (quick: 0.02) */
    const char *scratch; /* directory for files: --dir, $TMPDIR, /var/tmp or /tmp */
};

/* Read the options; prints the usage and exits on --help (0) or a wrong one (2). */
void bench_start(struct bench *bench, const char *name, int argc, char **argv,
                 const struct bench_flag *flags, size_t flag_count);

/* The program's exit value. */
int bench_end(const struct bench *bench);

/* ---- Cases. */

struct bench_case {
    const char *name;
    void (*prepare)(void *context); /* before every run, not timed; NULL: nothing */
    uint64_t (*run)(void *context); /* timed; returns the checksum of its output */
    void *context;
    uint64_t expected;         /* that checksum */
    double work;               /* what one run does, in units: 10000 pairs */
    const char *unit;          /* of the time: "ns/pair" */
    const char *compared_with; /* the name of a case of the set, or NULL */
    double median, minimum;    /* out: in that unit */
    size_t runs;               /* out */
};

/* Run a set of up to BENCH_CASES_MAX cases alternately and print it. */
enum { BENCH_CASES_MAX = 16 };
void bench_compare(struct bench *bench, const char *set, struct bench_case *cases, size_t count);

/* Print one more figure of a case: allocations, bytes, runs. */
void bench_figure(const struct bench *bench, const char *set, const char *name, const char *metric,
                  double value, const char *unit);

/* The output of a set is not what it must be: say so and fail at the end. */
void bench_wrong(struct bench *bench, const char *set, const char *name, uint64_t got,
                 uint64_t expected);

/* Leave the program when a call of the library or the system failed: there is nothing to measure
 * then. message may be NULL. */
void bench_check(int status, const char *what, const char *message);
void *bench_alloc(size_t size); /* malloc, or the program is left; pages touched */

/* The middle and the least of values, which are left in order. */
double bench_median(double *values, size_t count);

/* ---- Clocks. */

static inline uint64_t bench_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline uint64_t bench_cpu_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

struct bench_cpu {
    double user, system; /* seconds of the process, all its threads */
};
struct bench_cpu bench_cpu_now(void);

/* ---- Anonymous memory: a thread that samples RssAnon every 5 ms. Linux; elsewhere 0. */

struct bench_sampler;
struct bench_sampler *bench_sampler_start(void);
uint64_t bench_sampler_stop(struct bench_sampler *sampler); /* peak: bytes above the start's */

/* The same over time: the maximum of each step. */
enum { BENCH_SERIES_MAX = 32 };
struct bench_series {
    size_t count;
    double step_seconds;
    uint64_t bytes[BENCH_SERIES_MAX];
};
uint64_t bench_sampler_stop_series(struct bench_sampler *sampler, struct bench_series *series);

/* RssAnon of a process now, 0 is this one. */
uint64_t bench_anonymous(int process);

/* A new file without a name in the scratch directory. */
int bench_scratch_file(const struct bench *bench);

/* ---- Checksums. */

static inline uint64_t bench_rotate(uint64_t x, unsigned bits) {
    return x << bits | x >> (64 - bits);
}

/* Take in every byte, and the size. Four multiplications that do not wait for each other take 32
 * bytes in one step of the chain: faster than memory, so that folding does not hide what is
 * measured. */
static inline uint64_t bench_fold(uint64_t sum, const void *data, size_t size) {
    const uint64_t k1 = 0x9E3779B97F4A7C15u, k2 = 0xC2B2AE3D27D4EB4Fu;
    const unsigned char *at = data;
    sum = bench_rotate(sum ^ size, 29) * k1;
    for (; size >= 32; size -= 32, at += 32) {
        uint64_t w[4];
        memcpy(w, at, 32);
        uint64_t mixed = bench_rotate(w[0] * k1, 31) ^ bench_rotate(w[1] * k2, 17) ^
                         bench_rotate(w[2] * k1, 47) ^ w[3] * k2;
        sum = bench_rotate(sum ^ mixed, 29) * k1;
    }
    for (; size >= 8; size -= 8, at += 8) {
        uint64_t w;
        memcpy(&w, at, 8);
        sum = bench_rotate(sum ^ w, 29) * k1;
    }
    if (size != 0) {
        uint64_t w = 0;
        memcpy(&w, at, size);
        sum = bench_rotate(sum ^ w, 29) * k1;
    }
    return sum;
}

/* One more pair of a stream, in its order; nil is not the empty value. */
static inline uint64_t bench_fold_pair(uint64_t sum, etl_slice key, etl_slice value) {
    sum = bench_fold(sum, key.data, key.size);
    return value.data != NULL ? bench_fold(sum, value.data, value.size) : ~sum;
}

/* An etl_load_fn that folds every byte into the uint64_t that context points to. */
int bench_load_fold(void *context, etl_slice key, etl_slice value);

/* ---- Pairs of the published benchmarks of collectors: pair i of a shape. */

enum bench_order { BENCH_RANDOM, BENCH_SORTED, BENCH_FOUR_VALUES };

struct bench_shape {
    enum bench_order order;
    uint64_t pairs;
    size_t key_size, value_size; /* at least 8 each, 16 for a random key; at most 4096 */
};

/* Random: x = i * 6364136223846793005; key bytes 0-7 big-endian x, 8-15 big-endian x ^ 0xdeadbeef.
 * Sorted: bytes 0-7 big-endian i. Four values: each key four times in a row, their values
 * descending. The value begins with big-endian i; all else stays as the caller left it (zero). */
void bench_pair(const struct bench_shape *shape, uint64_t i, unsigned char *key,
                unsigned char *value);

/* The shape's pairs, materialised and sorted by qsort(3): the oracle, and the floor of a load. */
struct bench_sorted {
    unsigned char *bytes; /* key, value, key, value… in order */
    struct bench_shape shape;
    uint64_t sum; /* their bench_fold_pair from 0 */
};
void bench_sorted_make(struct bench_sorted *sorted, const struct bench_shape *shape,
                       bool by_value);
uint64_t bench_sorted_scan(const struct bench_sorted *sorted); /* fold them again */
void bench_sorted_free(struct bench_sorted *sorted);

#endif
