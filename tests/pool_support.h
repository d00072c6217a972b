/* pool_support.h: pools and collectors in them, for the tests of pools. */
#ifndef LIBETL_TESTS_POOL_SUPPORT_H
#define LIBETL_TESTS_POOL_SUPPORT_H

#include "support.h"

#include <string.h>

/* memory may be NULL: libc's and the system's. */
static inline etl_pool *pool_create(size_t limit, size_t retain, struct support_memory *memory) {
    etl_pool_options options = LIBETL_POOL_OPTIONS_INIT;
    etl_pool *pool = NULL;
    options.memory_limit = limit;
    options.retain_limit = retain;
    if (memory != NULL)
        options.allocator = support_allocator(memory);
    ASSERT_OK(NULL, etl_pool_create(&pool, &options));
    return pool;
}

/* limit 0: that of the pool. */
static inline etl_collector *pool_collector(etl_pool *pool, size_t limit, const char *label) {
    etl_options options = support_options(limit);
    etl_collector *collector = NULL;
    options.pool = pool;
    options.label = label;
    ASSERT_OK(NULL, etl_collector_create(&collector, &options));
    return collector;
}

static inline etl_pool_stats pool_stats(const etl_pool *pool) {
    etl_pool_stats stats = {.struct_size = sizeof stats};
    assert_int_equal(etl_pool_get_stats(pool, &stats), ETL_OK);
    return stats;
}

static inline etl_stats collector_stats(const etl_collector *collector) {
    etl_stats stats = {.struct_size = sizeof stats};
    assert_int_equal(etl_collector_stats(collector, &stats), ETL_OK);
    return stats;
}

/* Counts the pairs of a load, and those whose key is below the one before. */
struct pool_order {
    uint64_t count, wrong;
    unsigned char last[64];
    size_t last_size;
};

static inline int pool_order_load(void *context, etl_slice key, etl_slice value) {
    struct pool_order *order = context;
    size_t size = key.size < sizeof order->last ? key.size : sizeof order->last;
    size_t common = size < order->last_size ? size : order->last_size;
    int compared = memcmp(key.data, order->last, common);
    order->wrong += compared < 0 || (compared == 0 && size < order->last_size);
    memcpy(order->last, key.data, size);
    order->last_size = size;
    order->count++;
    (void)value;
    return 0;
}

#endif
