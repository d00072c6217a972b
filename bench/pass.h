/* pass.h: one pass of the library over a workload, and the check of what comes out of a sorter,
 * be it the library or a peer.
 *
 * An output takes in every byte of every pair. It keeps three sums of the pairs' own sums:
 *
 *     ordered    in the order of the pairs
 *     grouped    in the order of the keys; among equal keys any order gives the same, for sorters
 *                that do not promise one
 *     unordered  of the pairs alone: that of the input must be the same
 *
 * and counts where the order is wrong. This costs a comparison and a copy of each key. */
#ifndef LIBETL_BENCH_PASS_H
#define LIBETL_BENCH_PASS_H

#include "etl.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { PASS_SEED = 1, PASS_KEY_ROOM = 128 };

struct pass {
    char letter;           /* of workload.h */
    uint64_t size, pairs;  /* bytes of keys and values, and what workload_pairs makes of them */
    size_t limit;          /* of memory */
    int threads;           /* as etl_options.threads */
    etl_pool *pool;        /* as etl_options.pool */
    const char *directory; /* for temporary files */
};

struct output {
    uint64_t pairs, ordered, grouped, unordered;
    uint64_t descents;  /* keys below their predecessor */
    uint64_t misplaced; /* pairs with an equal key before them that was collected later */
    uint64_t group;
    bool has_last;
    uint64_t last_number;
    size_t last_size;
    unsigned char last_key[PASS_KEY_ROOM];
};

/* A failed call on collector ends the program with its message. collector may be NULL. */
void pass_check(int status, const etl_collector *collector);

etl_collector *pass_create(const struct pass *pass);

/* Collect all pairs. */
void pass_collect(const struct pass *pass, etl_collector *collector);

/* What output.unordered must be. */
uint64_t pass_input_sum(const struct pass *pass);

/* Start from an output that is all zero. */
void output_take(struct output *output, const void *key, size_t key_size, const void *value,
                 size_t value_size);
int output_load(void *output, etl_slice key, etl_slice value); /* the same as an etl_load_fn */

/* The stream has ended; another one may follow into the same output. */
void output_end(struct output *output);

#ifdef __cplusplus
}
#endif

#endif
