/* test_pool_rounds.c: what a round in a pool leaves to the next one, and what it does not. */
#include "pool_support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void refill(etl_collector *collector, uint64_t pairs) {
    unsigned char key[40] = {0}, value[24] = {0};
    for (uint64_t i = 0; i < pairs; i++) {
        uint64_t x = (i + 1) * 0x9E3779B97F4A7C15u;
        memcpy(key, &x, sizeof x);
        memcpy(value, &i, sizeof i);
        ASSERT_OK(collector, etl_collect(collector, etl_slice_of(key, sizeof key),
                                         etl_slice_of(value, sizeof value)));
    }
    struct pool_order order = {.count = 0};
    ASSERT_OK(collector, etl_load(collector, pool_order_load, &order));
    assert_int_equal(order.count, pairs);
    assert_int_equal(order.wrong, 0);
}

/* Rounds of 40 + 24 bytes under 32 MB, as a program fills its tables from one pool. */
static void a_steady_state_allocates_nothing(void **state) {
    (void)state;
    static const uint64_t sizes[] = {1, 10000, 300000};
    for (size_t i = 0; i < COUNT_OF(sizes); i++)
        for (int labelled = 0; labelled <= 1; labelled++)
            for (int fresh = 0; fresh <= 1; fresh++) {
                struct support_memory memory = {0};
                uint64_t pairs = sizes[i] == 1 ? 1 : support_scaled(sizes[i]);
                etl_pool *pool = pool_create(32 * MIB, 0, &memory);
                etl_collector *collector = NULL;
                uint64_t first = 0;
                for (unsigned round = 0; round < 20; round++) {
                    if (fresh || round == 0)
                        collector = pool_collector(pool, 0, labelled ? "refill" : NULL);
                    refill(collector, pairs);
                    if (fresh)
                        etl_collector_destroy(collector);
                    /* a label changes how the second round begins */
                    if (round == (labelled ? 1 : 0))
                        first = pool_stats(pool).allocations;
                    if (first != 0 && pool_stats(pool).allocations != first)
                        fail_msg("%llu pairs, %s, labelled %d: %llu allocations in round %u",
                                 (unsigned long long)pairs, fresh ? "fresh" : "kept", labelled,
                                 (unsigned long long)(pool_stats(pool).allocations - first),
                                 round);
                }
                if (!fresh)
                    etl_collector_destroy(collector);
                etl_pool_destroy(pool);
                support_memory_check(&memory);
            }
}

/* Also with spilling: without threads, whose timing decides how much is in use at once. */
static void a_steady_state_that_spills_allocates_nothing(void **state) {
    (void)state;
    for (int i = 0; i < 4; i++) {
        etl_pool *pool = pool_create(2 * MIB, 0, NULL);
        etl_options options = support_options(0);
        options.pool = pool;
        options.threads = ETL_THREADS_NONE;
        options.access = i % 2 == 0 ? ETL_ACCESS_MMAP : ETL_ACCESS_READ;
        options.label = i < 2 ? "spilling" : NULL;
        etl_collector *collector;
        ASSERT_OK(NULL, etl_collector_create(&collector, &options));
        uint64_t before = 0;
        for (unsigned round = 0; round < 9; round++) {
            if (round == 5) /* until the pool has a block of every size that a round takes */
                before = pool_stats(pool).allocations;
            ASSERT_OK(collector, counted_collect_all(collector, 100000));
            assert_true(collector_stats(collector).runs != 0);
            counted_assert_load(collector, 100000);
        }
        assert_int_equal(pool_stats(pool).allocations, before);
        etl_collector_destroy(collector);
        etl_pool_destroy(pool);
    }
}

static void idle_collectors_hold_nothing(void **state) {
    (void)state;
    enum { COLLECTORS = 50 };
    struct support_memory memory = {0};
    etl_pool *pool = pool_create(16 * MIB, 0, &memory);
    etl_collector *collectors[COLLECTORS];
    for (unsigned i = 0; i < COLLECTORS; i++) {
        collectors[i] = pool_collector(pool, 0, "idle");
        uint64_t made = collector_stats(collectors[i]).memory_bytes;
        ASSERT_OK(collectors[i], counted_collect_all(collectors[i], 20000));
        if (i % 4 == 1)
            ASSERT_OK(collectors[i], etl_flush(collectors[i]));
        if (i % 2 == 0)
            counted_assert_load(collectors[i], 20000);
        else
            ASSERT_OK(collectors[i], etl_reset(collectors[i]));
        assert_int_equal(collector_stats(collectors[i]).memory_bytes, made);
        assert_true(made < 8 * KIB);
    }
    etl_pool_stats stats = pool_stats(pool);
    assert_int_equal(stats.collectors, COLLECTORS);
    assert_int_equal(stats.collectors_active, 0);
    assert_true(stats.memory_bytes - stats.retained_bytes < COLLECTORS * 8 * KIB);
    assert_true(stats.retained_bytes < 4 * MIB); /* what one of them needed, for all */
    for (unsigned i = 0; i < COLLECTORS; i++)
        etl_collector_destroy(collectors[i]);
    etl_pool_destroy(pool);
    support_memory_check(&memory);
}

static void what_is_retained_has_a_cap(void **state) {
    (void)state;
    struct support_memory memory = {0};
    etl_pool *pool = pool_create(32 * MIB, 2 * MIB, &memory);
    etl_collector *collector = pool_collector(pool, 0, NULL);
    ASSERT_OK(collector, counted_collect_all(collector, 300000));
    assert_true(pool_stats(pool).memory_bytes > 10 * MIB);
    counted_assert_load(collector, 300000);
    assert_true(pool_stats(pool).retained_bytes <= 2 * MIB);
    assert_true(pool_stats(pool).retained_bytes >= MIB);
    assert_true(atomic_load(&memory.bytes) <= 2 * MIB + 64 * KIB);
    etl_collector_destroy(collector);
    etl_pool_destroy(pool);
    support_memory_check(&memory);
}

static void one_huge_round_does_not_pin_its_peak(void **state) {
    (void)state;
    etl_pool *pool = pool_create(64 * MIB, 0, NULL);
    etl_collector *huge = pool_collector(pool, 0, NULL), *small = pool_collector(pool, 0, NULL);
    ASSERT_OK(huge, counted_collect_all(huge, 400000));
    counted_assert_load(huge, 400000);
    assert_true(pool_stats(pool).retained_bytes > 16 * MIB);
    for (unsigned round = 0; round < 40; round++) {
        ASSERT_OK(small, counted_collect_all(small, 2000));
        counted_assert_load(small, 2000);
    }
    assert_true(pool_stats(pool).memory_bytes < MIB);
    etl_collector_destroy(small);
    etl_collector_destroy(huge);
    etl_pool_destroy(pool);
}

/* The first block of a round is what collectors of this label needed in their last one. */
static void labels_size_the_first_allocation(void **state) {
    (void)state;
    struct support_memory memory = {0};
    etl_pool *pool = pool_create(64 * MIB, 1, &memory); /* nothing is retained */
    uint64_t needed[2], first[3];
    static const uint64_t pairs[] = {40000, 1000};
    static const char *const labels[] = {"large", "small", NULL};
    for (unsigned i = 0; i < 2; i++) {
        etl_collector *collector = pool_collector(pool, 0, labels[i]);
        uint64_t empty = collector_stats(collector).memory_bytes;
        ASSERT_OK(collector, counted_collect_all(collector, pairs[i]));
        needed[i] = collector_stats(collector).memory_bytes - empty;
        counted_assert_load(collector, pairs[i]);
        etl_collector_destroy(collector);
    }
    for (unsigned i = 0; i < 3; i++) {
        etl_collector *collector = pool_collector(pool, 0, labels[i]);
        uint64_t empty = collector_stats(collector).memory_bytes;
        ASSERT_OK(collector, counted_collect(collector, 1));
        first[i] = collector_stats(collector).memory_bytes - empty;
        if (i < 2) {
            uint64_t before = collector_stats(collector).allocations;
            for (uint64_t j = 2; j < pairs[i]; j++)
                ASSERT_OK(collector, counted_collect(collector, j));
            assert_true(collector_stats(collector).allocations <= before + 1);
        }
        etl_collector_destroy(collector);
    }
    assert_in_range(first[0], needed[0] / 2, needed[0] + needed[0] / 2);
    assert_in_range(first[1], needed[1] / 2, needed[1] + needed[1] / 2);
    assert_true(first[2] <= 32 * KIB);
    etl_pool_destroy(pool);
    support_memory_check(&memory);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_steady_state_allocates_nothing),
        cmocka_unit_test(a_steady_state_that_spills_allocates_nothing),
        cmocka_unit_test(idle_collectors_hold_nothing),
        cmocka_unit_test(what_is_retained_has_a_cap),
        cmocka_unit_test(one_huge_round_does_not_pin_its_peak),
        cmocka_unit_test(labels_size_the_first_allocation),
    };
    return cmocka_run_group_tests(tests, support_setup, support_teardown);
}
