/* test_pool.c: collectors that share a pool: their lives, what they hold together, and that none
 * of them starves. Each sentence of etl.h about pools is a test here, or in test_pool_rounds.c where
 * it is about what one round leaves to the next, or in test_pool_threads.c where threads come in. */
#include "pool_support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Arguments and life */

static void arguments_are_checked(void **state) {
    (void)state;
    etl_pool *pool = (etl_pool *)(uintptr_t)1;
    etl_pool_options options = LIBETL_POOL_OPTIONS_INIT;
    assert_int_equal(etl_pool_create(NULL, &options), ETL_E_INVALID);
    options.struct_size = 3;
    assert_int_equal(etl_pool_create(&pool, &options), ETL_E_INVALID);
    assert_null(pool);
    struct support_memory memory = {.refuse_from = 1};
    options = (etl_pool_options){.allocator = support_allocator(&memory)};
    assert_int_equal(etl_pool_create(&pool, &options), ETL_E_NOMEM);
    assert_null(pool);
    etl_pool_destroy(NULL);
    etl_pool_stats stats = {.struct_size = sizeof stats};
    assert_int_equal(etl_pool_get_stats(NULL, &stats), ETL_E_INVALID);
    ASSERT_OK(NULL, etl_pool_create(&pool, NULL));
    assert_int_equal(etl_pool_get_stats(pool, NULL), ETL_E_INVALID);
    stats.struct_size = 0;
    assert_int_equal(etl_pool_get_stats(pool, &stats), ETL_E_INVALID);
    stats = (etl_pool_stats){.struct_size = sizeof stats, .memory_bytes = 7};
    assert_int_equal(etl_pool_get_stats(pool, &stats), ETL_OK);
    assert_int_equal(stats.memory_bytes, 0);
    etl_pool_destroy(pool);
}

/* In which order they go shows in no result, and nothing is lost or held. */
static void destroying_in_any_order_is_safe(void **state) {
    (void)state;
    for (unsigned order = 0; order < 24; order++) { /* of three collectors and the pool */
        struct support_memory memory = {0};
        etl_pool *pool = pool_create(4 * MIB, 0, &memory);
        etl_collector *collectors[3];
        etl_iter *iter = NULL;
        for (unsigned i = 0; i < 3; i++) {
            collectors[i] = pool_collector(pool, 0, NULL);
            ASSERT_OK(collectors[i], counted_collect_all(collectors[i], 20000));
        }
        if (order % 2 == 0)
            ASSERT_OK(collectors[1], etl_iter_open_many(&iter, collectors, 3, NULL));
        unsigned things[4] = {0, 1, 2, 3}, code = order;
        for (unsigned left = 4; left > 0; left--) {
            unsigned at = code % left;
            code /= left;
            if (things[at] == 3) {
                etl_pool_destroy(pool);
            } else {
                if (iter == NULL)
                    counted_assert_load(collectors[things[at]], 20000);
                etl_collector_destroy(collectors[things[at]]);
            }
            things[at] = things[left - 1];
        }
        if (iter != NULL)
            assert_int_equal(etl_iter_next(iter, NULL, NULL), ETL_E_STATE);
        etl_iter_close(iter);
        support_memory_check(&memory);
    }
}

static void a_destroyed_pool_lives_until_its_last_collector(void **state) {
    (void)state;
    struct support_memory memory = {0};
    etl_pool *pool = pool_create(8 * MIB, 0, &memory);
    etl_collector *collector = pool_collector(pool, 0, NULL);
    ASSERT_OK(collector, counted_collect_all(collector, 10000));
    counted_assert_load(collector, 10000);
    assert_true(pool_stats(pool).retained_bytes != 0);
    etl_pool_destroy(pool);
    for (unsigned round = 0; round < 3; round++) {
        assert_true(atomic_load(&memory.bytes) < 32 * KIB); /* nothing is retained any more */
        ASSERT_OK(collector, counted_collect_all(collector, support_scaled(300000)));
        counted_assert_load(collector, support_scaled(300000));
        assert_true(atomic_load(&memory.bytes_peak) <= 8 * MIB + 64 * KIB);
    }
    etl_collector_destroy(collector);
    support_memory_check(&memory);
}

static void the_limit_of_a_collector_is_capped_by_its_pools(void **state) {
    (void)state;
    struct support_memory memory = {0};
    etl_pool *pool = pool_create(3 * MIB, 0, &memory);
    etl_collector *large = pool_collector(pool, 64 * MIB, NULL);
    ASSERT_OK(large, counted_collect_all(large, 200000));
    assert_true(pool_stats(pool).memory_bytes_peak <= 3 * MIB);
    counted_assert_load(large, 200000);
    etl_collector *small = pool_collector(pool, MIB, NULL);
    ASSERT_OK(small, counted_collect_all(small, 200000));
    counted_assert_load(small, 200000);
    assert_true(collector_stats(small).memory_bytes_peak <= MIB + 64 * KIB);
    assert_true(pool_stats(pool).memory_bytes_peak <= 3 * MIB + 64 * KIB);
    etl_collector_destroy(small);
    etl_collector_destroy(large);
    etl_pool_destroy(pool);
    support_memory_check(&memory);
}

/* ---- Sharing */

static void one_active_among_200_idle_gets_the_pool(void **state) {
    (void)state;
    enum { IDLE = 200 };
    etl_pool *pool = pool_create(64 * MIB, 0, NULL);
    etl_collector *idle[IDLE];
    for (unsigned i = 0; i < IDLE; i++) {
        idle[i] = pool_collector(pool, 0, NULL);
        if (i % 2 == 0) {
            ASSERT_OK(idle[i], counted_collect_all(idle[i], 100));
            counted_assert_load(idle[i], 100);
        }
    }
    etl_collector *active = pool_collector(pool, 0, NULL);
    uint64_t pairs = support_scaled(1200000), i = 0;
    while (i < pairs && collector_stats(active).runs == 0)
        ASSERT_OK(active, counted_collect(active, i++));
    if (!support_light())
        assert_true(collector_stats(active).memory_bytes_peak > 40 * MIB);
    assert_true(pool_stats(pool).memory_bytes_peak <= 64 * MIB);
    counted_assert_load(active, i);
    etl_collector_destroy(active);
    for (unsigned j = 0; j < IDLE; j++)
        etl_collector_destroy(idle[j]);
    etl_pool_destroy(pool);
}

/* One holds all that there is and makes no call: the others have their floors, and go on. */
static void nobody_starves_beside_one_that_holds_the_pool(void **state) {
    (void)state;
    enum { OTHERS = 16 };
    const size_t limit = 16 * MIB;
    struct support_memory memory = {0};
    etl_pool *pool = pool_create(limit, 0, &memory);
    etl_collector *others[OTHERS], *holder = pool_collector(pool, 0, NULL);
    for (unsigned i = 0; i < OTHERS; i++)
        others[i] = pool_collector(pool, 0, NULL);
    uint64_t held = 0;
    while (collector_stats(holder).memory_bytes < 8 * MIB)
        ASSERT_OK(holder, counted_collect(holder, held++));
    uint64_t pairs = support_scaled(20000);
    for (uint64_t j = 0; j < pairs; j++)
        for (unsigned i = 0; i < OTHERS; i++)
            ASSERT_OK(others[i], counted_collect(others[i], j));
    /* the holder gives back at one of its next calls */
    uint64_t before = collector_stats(holder).memory_bytes;
    for (unsigned j = 0; j < 4000; j++)
        ASSERT_OK(holder, counted_collect(holder, held++));
    if (!support_light() && before > 4 * MIB)
        assert_true(collector_stats(holder).memory_bytes < before / 2);
    for (unsigned i = 0; i < OTHERS; i++)
        counted_assert_load(others[i], pairs);
    counted_assert_load(holder, held);
    uint64_t peak = pool_stats(pool).memory_bytes_peak;
    if (peak > limit + limit / 20)
        print_error("peak %llu\n", (unsigned long long)peak);
    assert_true(peak <= limit + limit / 20);
    assert_true(atomic_load(&memory.bytes_peak) <= limit + limit / 20);
    for (unsigned i = 0; i < OTHERS; i++)
        etl_collector_destroy(others[i]);
    etl_collector_destroy(holder);
    etl_pool_destroy(pool);
    support_memory_check(&memory);
}

/* More than floors fit: all of them get through, though not within the limit. */
static void a_crowd_in_a_small_pool_gets_through(void **state) {
    (void)state;
    enum { CROWD = 40 };
    etl_pool *pool = pool_create(MIB, 0, NULL);
    etl_collector *crowd[CROWD];
    uint64_t pairs = support_scaled(5000);
    unsigned char large[300000];
    memset(large, 'L', sizeof large);
    for (unsigned i = 0; i < CROWD; i++)
        crowd[i] = pool_collector(pool, 0, NULL);
    for (uint64_t j = 0; j < pairs; j++)
        for (unsigned i = 0; i < CROWD; i++)
            ASSERT_OK(crowd[i], counted_collect(crowd[i], j));
    for (unsigned i = 0; i < CROWD; i++) /* and one beyond their floors */
        ASSERT_OK(crowd[i], etl_collect(crowd[i], etl_slice_of(large, sizeof large),
                                        etl_slice_str("large")));
    for (unsigned i = 0; i < CROWD; i++) {
        struct pool_order order = {.count = 0};
        ASSERT_OK(crowd[i], etl_load(crowd[i], pool_order_load, &order));
        assert_int_equal(order.count, pairs + 1);
        assert_int_equal(order.wrong, 0);
        etl_collector_destroy(crowd[i]);
    }
    etl_pool_destroy(pool);
}

/* The region was given room when there was some: by the time it is wanted others have it. */
static void a_large_pair_is_written_through_when_the_pool_is_full(void **state) {
    (void)state;
    etl_pool *pool = pool_create(16 * MIB, 0, NULL);
    etl_collector *late = pool_collector(pool, 0, NULL), *holder = pool_collector(pool, 0, NULL);
    unsigned char *large = calloc(6, MIB);
    assert_non_null(large);
    ASSERT_OK(late, counted_collect(late, 0));
    ASSERT_OK(late, etl_flush(late));
    uint64_t held = 0;
    while (collector_stats(holder).memory_bytes < 8 * MIB)
        ASSERT_OK(holder, counted_collect(holder, held++));
    etl_iter *iter; /* it gives nothing back */
    ASSERT_OK(holder, etl_iter_open(&iter, holder, NULL));
    etl_collector *filler = pool_collector(pool, 0, NULL);
    for (uint64_t i = 0; collector_stats(filler).memory_bytes < 4 * MIB; i++)
        ASSERT_OK(filler, counted_collect(filler, i));
    ASSERT_OK(late, etl_collect(late, etl_slice_str("large"), etl_slice_of(large, 6 * MIB)));
    void *key, *value;
    ASSERT_OK(late, etl_reserve(late, 1, 6 * MIB, &key, &value));
    memcpy(key, "r", 1);
    memset(value, 'r', 6 * MIB);
    struct pool_order order = {.count = 0};
    ASSERT_OK(late, etl_load(late, pool_order_load, &order));
    assert_int_equal(order.count, 3);
    etl_iter_close(iter);
    counted_assert_load(holder, held);
    etl_collector_destroy(filler);
    etl_collector_destroy(holder);
    etl_collector_destroy(late);
    etl_pool_destroy(pool);
    free(large);
}

/* ---- Readers: what an iterator reads is nobody else's until it is closed */

static void a_readers_memory_stays_until_it_is_closed(void **state) {
    (void)state;
    struct support_memory memory = {0}; /* poisons what is freed, and what is retained is used */
    etl_pool *pool = pool_create(8 * MIB, 0, &memory);
    etl_collector *read = pool_collector(pool, 0, NULL), *other = pool_collector(pool, 0, NULL);
    uint64_t pairs = support_scaled(40000), wrong = 0;
    ASSERT_OK(read, counted_collect_all(read, pairs));
    etl_iter *iters[3];
    for (unsigned i = 0; i < 3; i++)
        ASSERT_OK(read, etl_iter_open(&iters[i], read, NULL));
    struct counted counted[3] = {{0, pairs, 0}, {0, pairs, 0}, {0, pairs, 0}};
    for (unsigned round = 0; round < 3;
         round++) { /* others fill, spill, load and drop meanwhile */
        for (uint64_t j = 0; j < pairs * (round + 1) / 4; j++) {
            ASSERT_OK(other, counted_collect(other, j));
            for (unsigned i = 0; i < 3; i++) {
                etl_slice key, value;
                if (j % (i + 1) == 0 && counted[i].next < pairs) {
                    ASSERT_OK(read, etl_iter_next(iters[i], &key, &value));
                    wrong += counted_load(&counted[i], key, value) != 0;
                }
            }
        }
        if (round % 2 == 0)
            counted_assert_load(other, pairs * (round + 1) / 4);
        else
            ASSERT_OK(other, etl_reset(other));
        ASSERT_STATUS(ETL_E_STATE, NULL, etl_reset(read));
        if (round < 2)
            etl_iter_close(iters[round]);
        iters[round] = round < 2 ? NULL : iters[round];
        if (round < 2)
            counted[round].next = pairs;
    }
    etl_iter_close(iters[2]);
    for (unsigned i = 0; i < 3; i++)
        wrong += counted[i].wrong;
    assert_int_equal(wrong, 0);
    counted_assert_load(read, pairs);
    etl_collector_destroy(other);
    etl_collector_destroy(read);
    etl_pool_destroy(pool);
    support_memory_check(&memory);
}

/* ---- Memory that is refused */

static void refused_memory_loses_nothing(void **state) {
    (void)state;
    uint64_t pairs = support_scaled(30000);
    for (size_t from = 1; from < 200; from += from < 20 ? 1 : 13) {
        struct support_memory memory = {0};
        etl_pool *pool = pool_create(2 * MIB, 0, &memory);
        etl_collector *one = pool_collector(pool, 0, NULL), *two = pool_collector(pool, 0, NULL);
        atomic_store(&memory.refuse_count, 5);
        atomic_store(&memory.refuse_from, atomic_load(&memory.calls) + from);
        for (uint64_t j = 0; j < pairs; j++)
            for (unsigned i = 0; i < 2; i++) {
                int status;
                do
                    status = counted_collect(i == 0 ? one : two, j);
                while (status == ETL_E_NOMEM);
                ASSERT_OK(one, status);
            }
        atomic_store(&memory.refuse_from, 0);
        counted_assert_load(one, pairs);
        counted_assert_load(two, pairs);
        etl_collector_destroy(one);
        etl_collector_destroy(two);
        etl_pool_destroy(pool);
        support_memory_check(&memory);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arguments_are_checked),
        cmocka_unit_test(destroying_in_any_order_is_safe),
        cmocka_unit_test(a_destroyed_pool_lives_until_its_last_collector),
        cmocka_unit_test(the_limit_of_a_collector_is_capped_by_its_pools),
        cmocka_unit_test(one_active_among_200_idle_gets_the_pool),
        cmocka_unit_test(nobody_starves_beside_one_that_holds_the_pool),
        cmocka_unit_test(a_crowd_in_a_small_pool_gets_through),
        cmocka_unit_test(a_large_pair_is_written_through_when_the_pool_is_full),
        cmocka_unit_test(a_readers_memory_stays_until_it_is_closed),
        cmocka_unit_test(refused_memory_loses_nothing),
    };
    return cmocka_run_group_tests(tests, support_setup, support_teardown);
}
