/* source_support.h: for the tests of buffers, merges and duplicate rules: buffers filled from an
 * oracle's pairs, and what providers over them give compared with what an oracle says. */
#ifndef LIBETL_TESTS_SOURCE_SUPPORT_H
#define LIBETL_TESTS_SOURCE_SUPPORT_H

#include "buffer.h"
#include "oracle.h"
#include "provider_memory.h"
#include "support.h"

#include <stdlib.h>
#include <string.h>

/* What buffers stand on. One at a time. */
static struct ground {
    struct support_memory held;
    struct etl__memory memory;
    struct etl__arena arena;
    struct etl__entry scratch[4096];
    atomic_int cancel;
    struct etl__sort sort;
    struct etl__error error;
} ground;

/* hooked: from the checking allocator, which touches all that it gives. */
static inline void ground_start(size_t limit, bool hooked) {
    memset(&ground, 0, sizeof ground);
    etl_allocator hook = {NULL, NULL};
    if (hooked)
        hook = support_allocator(&ground.held);
    etl__memory_init(&ground.memory, &hook, limit);
    etl__arena_init(&ground.arena, &ground.memory);
    ground.sort = (struct etl__sort){.scratch = ground.scratch,
                                     .scratch_count = COUNT_OF(ground.scratch),
                                     .cancel = &ground.cancel};
}

static inline void ground_end(void) {
    etl__arena_end(&ground.arena);
    etl__memory_end(&ground.memory);
    assert_int_equal(atomic_load(&ground.memory.used), 0);
    support_memory_check(&ground.held);
}

static inline uint64_t ground_allocations(void) {
    return atomic_load(&ground.memory.allocations);
}

static inline size_t record_size(size_t key_size, etl_slice value) {
    uint64_t code = etl__value_code(value.data == NULL, value.size);
    return etl__record_head_size(key_size, code) + key_size + value.size;
}

/* Where there is room already. */
static inline void place(struct etl__buffer *buffer, etl_slice key, etl_slice value) {
    uint64_t code = etl__value_code(value.data == NULL, value.size);
    uint8_t *to = etl__buffer_place(buffer, key.size, code, value.size);
    assert_true(buffer->at <= buffer->end);
    if (key.size != 0)
        memcpy(to, key.data, key.size);
    if (value.size != 0)
        memcpy(to + key.size, value.data, value.size);
    etl__buffer_commit(buffer, to, key.size);
}

/* As collecting does: ETL_OK, or what etl__buffer_extend says. */
static inline int put(struct etl__buffer *buffer, etl_slice key, etl_slice value) {
    size_t size = record_size(key.size, value);
    if (size > (size_t)(buffer->end - buffer->at)) {
        int status = etl__buffer_extend(buffer, size);
        if (status != ETL_OK)
            return status;
    }
    place(buffer, key, value);
    return ETL_OK;
}

static inline void put_all(struct etl__buffer *buffer, const struct oracle *pairs, size_t from,
                           size_t to) {
    for (size_t i = from; i < to; i++)
        assert_int_equal(put(buffer, oracle_key(&pairs->pairs[i]), oracle_value(&pairs->pairs[i])),
                         ETL_OK);
}

static inline void seal(struct etl__buffer *buffer) {
    ASSERT_OK(NULL, etl__buffer_seal(buffer, &ground.sort, &ground.error));
    assert_true(buffer->sealed);
}

static inline struct etl__provider *provider_over(const struct etl__buffer *buffer) {
    struct etl__provider *provider;
    ASSERT_OK(NULL, etl__provider_memory_open(&provider, buffer, &ground.memory, &ground.error));
    return provider;
}

static inline bool same_pair(const struct oracle_pair *expected, const struct etl__pair *pair) {
    return oracle_same(expected, etl_slice_of(pair->key, pair->key_size),
                       etl_slice_of(pair->value, pair->value_size));
}

/* The provider gives the pairs from here on, and then ends. */
static inline void assert_gives(struct etl__provider *provider, const struct oracle *sorted,
                                size_t from) {
    struct etl__pair pair;
    for (size_t i = from; i < sorted->count; i++) {
        assert_int_equal(etl__provider_read(provider, &pair, &ground.error), ETL_OK);
        if (!same_pair(&sorted->pairs[i], &pair))
            fail_msg("pair %zu of %zu differs", i, sorted->count);
    }
    for (int again = 0; again < 2; again++)
        assert_int_equal(etl__provider_read(provider, &pair, &ground.error), ETL_END);
}

/* The buffer, sealed, holds exactly these pairs, in the order of the naive sort. */
static inline void assert_holds(const struct etl__buffer *buffer, const struct oracle *pairs) {
    struct oracle sorted = {0};
    const struct oracle_rules all = {.order_values = buffer->order_values};
    assert_true(oracle_settle(pairs, &all, &sorted));
    assert_int_equal(buffer->pairs, pairs->count);
    struct etl__provider *provider = provider_over(buffer);
    assert_int_equal(provider->pairs, pairs->count);
    etl_slice first, last;
    int status = provider->bounds(provider, &first, &last, &ground.error);
    assert_int_equal(status, pairs->count != 0 ? ETL_OK : ETL_END);
    if (pairs->count != 0) {
        const struct oracle_pair *least = &sorted.pairs[0];
        const struct oracle_pair *most = &sorted.pairs[sorted.count - 1];
        assert_true(oracle_same(least, first, oracle_value(least)));
        assert_true(oracle_same(most, last, oracle_value(most)));
    }
    assert_gives(provider, &sorted, 0);
    for (size_t i = 0; i < sorted.count; i += sorted.count / 7 + 1) {
        etl_slice key = oracle_key(&sorted.pairs[i]);
        assert_int_equal(provider->seek(provider, key.data, key.size, &ground.error), ETL_OK);
        assert_gives(provider, &sorted, oracle_lower_bound(&sorted, key));
    }
    provider->close(provider);
    oracle_clear(&sorted);
}

#endif
