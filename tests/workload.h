/* workload.h: random inputs and random settings, each drawn from a seed and told in one line. */
#ifndef LIBETL_TESTS_WORKLOAD_H
#define LIBETL_TESTS_WORKLOAD_H

#include "oracle.h"
#include "support.h"

enum workload_order { ORDER_RANDOM, ORDER_SORTED, ORDER_REVERSE, ORDER_ALMOST, ORDER_CLUSTERED };

/* What the input looks like. Chances are in permille. */
struct workload {
    size_t count;
    unsigned alphabet; /* bytes that a key is made of: 1 to 256 */
    size_t key_max;
    size_t prefix;      /* bytes that all keys begin with */
    size_t distinct;    /* keys to choose from; 0: each pair draws its own */
    unsigned long_keys; /* of 1 to 20 KB */
    unsigned nil_values, empty_values, long_values;
    size_t value_max;
    bool maps; /* every value is 16 bytes: for ORACLE_AFFINE */
    enum workload_order order;
};

/* How it is sorted. Whatever stands here, the output may not depend on it, but for the rules. */
struct setting {
    struct oracle_rules rules;
    size_t memory_limit;
    int threads;
    etl_access access;
    unsigned merge_width;
    unsigned flushes;  /* permille of the pairs that are followed by etl_flush */
    unsigned reserves; /* permille of the pairs that are written by etl_reserve */
    bool hooked;       /* memory comes from the checking allocator */
};

/* Small inputs: few pairs; large ones: about `bytes` in all. */
void workload_draw_small(struct workload *workload, struct prng *prng);
void workload_draw_large(struct workload *workload, struct prng *prng, size_t bytes);

/* Fill pairs, in collection order. */
void workload_make(const struct workload *workload, struct prng *prng, struct oracle *pairs);

void setting_draw(struct setting *setting, struct prng *prng);
void setting_print(const struct setting *setting, const struct workload *workload,
                   uint64_t number);

/* Options for this setting; memory is used when it is hooked. */
etl_options setting_options(const struct setting *setting, struct support_memory *memory);

/* Collect pairs [from, to) as the setting says; fails the test on any error. */
void setting_feed(const struct setting *setting, struct prng *prng, etl_collector *collector,
                  const struct oracle *pairs, size_t from, size_t to);

/* A key to seek or to cut a range with: one of the pairs', or one near to it, or any. Lives in
 * buffer (room for 64 bytes) or in the pairs. */
etl_slice workload_probe(struct prng *prng, const struct oracle *pairs, unsigned char buffer[64]);

#endif
