/* test_contracts_many.c: the contracts about several collectors taken together, about pairs that
 * are reserved, and about callbacks that fail. */
#include "oracle.h"
#include "support.h"

#include <stdlib.h>
#include <string.h>

enum { STOP = 4711, PAIRS = 60000 };

static etl_collector *create(const etl_options *options) {
    etl_collector *collector = NULL;
    ASSERT_OK(NULL, etl_collector_create(&collector, options));
    return collector;
}

/* count collectors, the counted pairs [0, pairs) dealt to them. */
static void create_many(etl_collector **collectors, size_t count, uint64_t pairs) {
    etl_options options = support_options(MIB);
    for (size_t i = 0; i < count; i++)
        collectors[i] = create(&options);
    for (uint64_t i = 0; i < pairs; i++)
        ASSERT_OK(collectors[i % count], counted_collect(collectors[i % count], i));
}

static void destroy_many(etl_collector **collectors, size_t count) {
    for (size_t i = 0; i < count; i++)
        etl_collector_destroy(collectors[i]);
}

static void assert_load_many(etl_collector **collectors, size_t count, uint64_t pairs) {
    struct counted counted = {0, pairs, 0};
    ASSERT_OK(collectors[0], etl_load_many(collectors, count, counted_load, &counted));
    assert_int_equal(counted.next, pairs);
    assert_int_equal(counted.wrong, 0);
}

/* ---- Several collectors */

static void a_call_refused_for_one_collector_leaves_the_others_usable(void **state) {
    (void)state;
    etl_collector *collectors[3];
    create_many(collectors, 3, 300);
    struct counted counted = {0, 300, 0};
    etl_iter *open, *many = NULL;
    ASSERT_OK(collectors[1], etl_iter_open(&open, collectors[1], NULL));
    ASSERT_STATUS(ETL_E_STATE, NULL, etl_load_many(collectors, 3, counted_load, &counted));
    ASSERT_OK(collectors[0], etl_iter_open_many(&many, collectors, 3, NULL)); /* may be several */
    etl_iter_close(many);
    ASSERT_OK(collectors[0], counted_collect(collectors[0], 300));
    ASSERT_OK(collectors[2], counted_collect(collectors[2], 301));
    etl_iter_close(open);
    etl_cancel(collectors[2]);
    ASSERT_STATUS(ETL_E_CANCELLED, NULL, etl_load_many(collectors, 3, counted_load, &counted));
    ASSERT_STATUS(ETL_E_CANCELLED, NULL, etl_iter_open_many(&many, collectors, 3, NULL));
    assert_null(many);
    etl_resume(collectors[2]);
    assert_int_equal(counted.next, 0);
    assert_load_many(collectors, 3, 302);
    destroy_many(collectors, 3);
}

static void a_collector_given_twice_is_refused(void **state) {
    (void)state;
    etl_collector *collectors[2];
    create_many(collectors, 1, 100);
    collectors[1] = collectors[0];
    struct counted counted = {0, 100, 0};
    int status = etl_load_many(collectors, 2, counted_load, &counted);
    assert_true(status == ETL_E_INVALID || status == ETL_E_STATE);
    assert_int_equal(counted.next, 0);
    etl_iter *iter = NULL;
    status = etl_iter_open_many(&iter, collectors, 2, NULL);
    assert_true(status == ETL_E_INVALID || status == ETL_E_STATE);
    assert_null(iter);
    assert_load_many(collectors, 1, 100);
    etl_collector_destroy(collectors[0]);
}

struct cancelling {
    struct counted counted;
    etl_collector *collector;
    uint64_t at;
};

static int cancelling_load(void *context, etl_slice key, etl_slice value) {
    struct cancelling *cancelling = context;
    if (cancelling->counted.next == cancelling->at)
        etl_cancel(cancelling->collector);
    return counted_load(&cancelling->counted, key, value);
}

static void cancelling_any_of_several_ends_their_load(void **state) {
    (void)state;
    for (size_t cancelled = 0; cancelled < 3; cancelled++) {
        etl_collector *collectors[3];
        create_many(collectors, 3, PAIRS);
        struct cancelling cancelling = {{0, PAIRS, 0}, collectors[cancelled], 1000};
        ASSERT_STATUS(ETL_E_CANCELLED, NULL,
                      etl_load_many(collectors, 3, cancelling_load, &cancelling));
        assert_true(cancelling.counted.next < PAIRS);
        etl_resume(collectors[cancelled]);
        assert_load_many(collectors, 3, PAIRS);
        destroy_many(collectors, 3);
    }
}

static void cancelling_any_of_several_reaches_their_iterator(void **state) {
    (void)state;
    for (size_t cancelled = 0; cancelled < 3; cancelled++) {
        etl_collector *collectors[3];
        create_many(collectors, 3, 300);
        etl_iter *iter;
        ASSERT_OK(NULL, etl_iter_open_many(&iter, collectors, 3, NULL));
        ASSERT_OK(NULL, etl_iter_next(iter, NULL, NULL));
        etl_cancel(collectors[cancelled]);
        ASSERT_STATUS(ETL_E_CANCELLED, NULL, etl_iter_next(iter, NULL, NULL));
        ASSERT_STATUS(ETL_E_CANCELLED, NULL, etl_iter_seek(iter, etl_slice_str("")));
        etl_resume(collectors[cancelled]);
        for (unsigned i = 1; i < 300; i++)
            ASSERT_OK(NULL, etl_iter_next(iter, NULL, NULL));
        ASSERT_STATUS(ETL_END, NULL, etl_iter_next(iter, NULL, NULL));
        etl_iter_close(iter);
        destroy_many(collectors, 3);
    }
}

static void destroying_any_of_several_ends_their_iterator(void **state) {
    (void)state;
    for (size_t destroyed = 0; destroyed < 3; destroyed++) {
        etl_collector *collectors[3];
        create_many(collectors, 3, PAIRS);
        etl_iter *iter;
        ASSERT_OK(NULL, etl_iter_open_many(&iter, collectors, 3, NULL));
        ASSERT_OK(NULL, etl_iter_next(iter, NULL, NULL));
        etl_collector_destroy(collectors[destroyed]);
        ASSERT_STATUS(ETL_E_STATE, NULL, etl_iter_next(iter, NULL, NULL));
        ASSERT_STATUS(ETL_E_STATE, NULL, etl_iter_seek(iter, etl_slice_str("")));
        etl_iter_close(iter);
        for (size_t i = 0; i < 3; i++)
            if (i != destroyed) {
                ASSERT_OK(collectors[i], counted_collect(collectors[i], 0));
                etl_collector_destroy(collectors[i]);
            }
    }
}

/* Equal keys leave in the order of the collectors, whatever was collected first. */
static void the_first_collector_comes_first_among_equal_keys(void **state) {
    (void)state;
    etl_options options = support_options(MIB);
    etl_collector *collectors[2] = {create(&options), create(&options)};
    ASSERT_OK(NULL, etl_collect(collectors[1], etl_slice_str("k"), etl_slice_str("3")));
    ASSERT_OK(NULL, etl_flush(collectors[1]));
    ASSERT_OK(NULL, etl_collect(collectors[0], etl_slice_str("k"), etl_slice_str("1")));
    ASSERT_OK(NULL, etl_collect(collectors[1], etl_slice_str("k"), etl_slice_str("4")));
    ASSERT_OK(NULL, etl_flush(collectors[0]));
    ASSERT_OK(NULL, etl_collect(collectors[0], etl_slice_str("k"), etl_slice_str("2")));
    etl_iter *iter;
    ASSERT_OK(NULL, etl_iter_open_many(&iter, collectors, 2, NULL));
    for (size_t i = 0; i < 4; i++) {
        etl_slice value;
        ASSERT_OK(NULL, etl_iter_next(iter, NULL, &value));
        assert_memory_equal(value.data, &"1234"[i], 1);
    }
    etl_iter_close(iter);
    destroy_many(collectors, 2);
}

/* ---- Reserved pairs */

static void reserve_one(etl_collector *collector, uint64_t number) {
    void *key, *value;
    ASSERT_OK(collector, etl_reserve(collector, 8, 8, &key, &value));
    for (unsigned byte = 0; byte < 8; byte++)
        ((unsigned char *)key)[byte] = (unsigned char)(number >> (56 - 8 * byte));
    memcpy(value, key, 8);
}

static int check_reserved(void *context, etl_slice key, etl_slice value) {
    uint64_t *next = context, number = 0;
    for (unsigned byte = 0; byte < 8 && key.size == 8; byte++)
        number = number << 8 | ((const unsigned char *)key.data)[byte];
    bool same = key.size == 8 && value.size == 8 && memcmp(key.data, value.data, 8) == 0;
    return same && number == (*next)++ ? 0 : ORACLE_MISMATCH;
}

static void a_reserved_pair_counts_from_the_next_call_on(void **state) {
    (void)state;
    etl_options options = support_options(MIB);
    etl_collector *collector = create(&options);
    etl_iter *iter;
    uint64_t next = 0;
    reserve_one(collector, 2);
    reserve_one(collector, 1);
    ASSERT_OK(collector, etl_flush(collector));
    reserve_one(collector, 0);
    ASSERT_OK(collector, etl_iter_open(&iter, collector, NULL));
    for (unsigned i = 0; i < 3; i++)
        ASSERT_OK(collector, etl_iter_next(iter, NULL, NULL));
    ASSERT_STATUS(ETL_END, collector, etl_iter_next(iter, NULL, NULL));
    etl_iter_close(iter);
    reserve_one(collector, 3);
    etl_cancel(collector);
    ASSERT_STATUS(ETL_E_CANCELLED, collector, etl_load(collector, check_reserved, &next));
    etl_resume(collector);
    ASSERT_OK(collector, etl_load(collector, check_reserved, &next));
    assert_int_equal(next, 4);
    reserve_one(collector, 7);
    ASSERT_OK(collector, etl_reset(collector));
    counted_assert_load(collector, 0);
    reserve_one(collector, 7);
    etl_collector_destroy(collector);
}

static void reserved_pairs_spill_as_others_do(void **state) {
    (void)state;
    for (int threads = ETL_THREADS_NONE; threads <= 2; threads++) {
        etl_options options = support_options(MIB);
        options.threads = threads;
        etl_collector *collector = create(&options);
        for (uint64_t i = 0; i < PAIRS; i++)
            reserve_one(collector, PAIRS - 1 - i);
        uint64_t next = 0;
        ASSERT_OK(collector, etl_load(collector, check_reserved, &next));
        assert_int_equal(next, PAIRS);
        etl_collector_destroy(collector);
    }
}

/* ---- Callbacks that fail */

struct failing {
    unsigned calls, fail_at; /* the call that fails, from 1; 0: none */
};

static int failing_reduce(void *context, etl_slice key, const etl_slice *values, size_t count,
                          etl_bytes *result) {
    struct failing *failing = context;
    if (++failing->calls == failing->fail_at)
        return STOP;
    return oracle_reduce_trim(NULL, key, values, count, result);
}

/* Several of each of many keys, so that folding happens while spilling and while merging. A call
 * that a failing fold ended is made again, and the output is as if it never had.
 */
static void a_failing_reduce_is_returned_and_changes_nothing(void **state) {
    (void)state;
    enum { KEYS = 9000, COPIES = 4 };
    static const unsigned fail_at[] = {1, 2, 1000, KEYS, KEYS + KEYS / 2, 2 * KEYS};
    struct oracle_rules rules = {ETL_REDUCE, false, ORACLE_TRIM};
    for (size_t row = 0; row < COUNT_OF(fail_at); row++) {
        struct failing failing = {0, fail_at[row]};
        etl_options options = support_options(MIB);
        oracle_apply(&rules, &options);
        options.reduce = failing_reduce;
        options.reduce_ctx = &failing;
        etl_collector *collector = create(&options);
        struct oracle input = {NULL, 0, 0}, expected = {NULL, 0, 0};
        unsigned failures = 0;
        for (uint64_t i = 0; i < (uint64_t)KEYS * COPIES; i++) {
            uint64_t key = i / 2 % KEYS * 0x9E3779B97F4A7C15u;
            const etl_slice pair[2] = {etl_slice_of(&key, sizeof key), etl_slice_of(&i, 4)};
            oracle_add(&input, pair[0], pair[1]);
            ASSERT_OK(collector, etl_collect(collector, pair[0], pair[1]));
            if (i % (2 * KEYS) == KEYS && etl_flush(collector) != ETL_OK) {
                assert_true(etl_collector_message(collector)[0] != '\0');
                failures++;
                ASSERT_OK(collector, etl_flush(collector));
            }
        }
        oracle_settle(&input, &rules, &expected);
        struct oracle_check check = {&expected, 0, 0, 0};
        int status = etl_load(collector, oracle_load, &check);
        if (status != ETL_OK) {
            ASSERT_STATUS(STOP, collector, status);
            failures++;
            check.at = 0;
            ASSERT_OK(collector, etl_load(collector, oracle_load, &check));
        }
        assert_int_equal(check.at, expected.count);
        assert_int_equal(failures, 1);
        etl_collector_destroy(collector);
        oracle_clear(&input);
        oracle_clear(&expected);
    }
}

/* As a load, so an iterator: the fold that failed is done again with the next call. */
static void a_failing_reduce_can_be_tried_again_by_an_iterator(void **state) {
    (void)state;
    struct failing failing = {0, 0};
    etl_options options = support_options(MIB);
    options.duplicates = ETL_REDUCE;
    options.reduce = failing_reduce;
    options.reduce_ctx = &failing;
    etl_collector *collector = create(&options);
    for (unsigned i = 0; i < 300; i++) {
        unsigned char key = (unsigned char)(i % 100);
        ASSERT_OK(collector, etl_collect(collector, etl_slice_of(&key, 1), etl_slice_str("v")));
    }
    etl_iter *iter;
    ASSERT_OK(collector, etl_iter_open(&iter, collector, NULL));
    for (unsigned i = 0; i < 100; i++) {
        etl_slice key, value;
        if (i % 10 == 5) {
            failing.fail_at = failing.calls + 1;
            ASSERT_STATUS(STOP, collector, etl_iter_next(iter, &key, &value));
        }
        ASSERT_OK(collector, etl_iter_next(iter, &key, &value));
        assert_int_equal(*(const unsigned char *)key.data, i);
        assert_int_equal(value.size, 3);
    }
    ASSERT_STATUS(ETL_END, collector, etl_iter_next(iter, NULL, NULL));
    etl_iter_close(iter);
    etl_collector_destroy(collector);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_refused_for_one_collector_leaves_the_others_usable),
        cmocka_unit_test(a_collector_given_twice_is_refused),
        cmocka_unit_test(cancelling_any_of_several_ends_their_load),
        cmocka_unit_test(cancelling_any_of_several_reaches_their_iterator),
        cmocka_unit_test(destroying_any_of_several_ends_their_iterator),
        cmocka_unit_test(the_first_collector_comes_first_among_equal_keys),
        cmocka_unit_test(a_reserved_pair_counts_from_the_next_call_on),
        cmocka_unit_test(reserved_pairs_spill_as_others_do),
        cmocka_unit_test(a_failing_reduce_is_returned_and_changes_nothing),
        cmocka_unit_test(a_failing_reduce_can_be_tried_again_by_an_iterator),
    };
    return cmocka_run_group_tests(tests, support_setup, support_teardown);
}
