/* test_contracts.c: the contracts about loading, failing, iterating and the states between: one
 * test for each, named after it. What is said of arguments, of cancelling and of resources stands
 * in test_contracts_arguments.c, test_contracts_cancel.c and test_contracts_resources.c. */
#include "oracle.h"
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { STOP = 4711, SPILLED_PAIRS = 60000 };

static etl_collector *create(const etl_options *options) {
    etl_collector *collector = NULL;
    ASSERT_OK(NULL, etl_collector_create(&collector, options));
    return collector;
}

static etl_collector *create_default(void) {
    etl_options options = support_options(MIB);
    return create(&options);
}

/* Pairs (letter, number): a key for each character of keys, in this order. */
static void collect_letters(etl_collector *collector, const char *keys) {
    for (size_t i = 0; keys[i] != '\0'; i++) {
        char value[24];
        snprintf(value, sizeof value, "%zu", i);
        ASSERT_OK(collector,
                  etl_collect(collector, etl_slice_of(&keys[i], 1), etl_slice_str(value)));
    }
}

static uint64_t runs_of(const etl_collector *collector) {
    etl_stats stats = {.struct_size = sizeof stats};
    assert_int_equal(etl_collector_stats(collector, &stats), ETL_OK);
    return stats.runs;
}

/* ---- Loading */

struct stopping {
    struct counted counted;
    uint64_t stop_at;
    int value;
};

static int stopping_load(void *context, etl_slice key, etl_slice value) {
    struct stopping *stopping = context;
    if (stopping->counted.next == stopping->stop_at)
        return stopping->value;
    return counted_load(&stopping->counted, key, value);
}

static void check_consumes_on_success_only(uint64_t pairs) {
    etl_collector *collector = create_default();
    ASSERT_OK(collector, counted_collect_all(collector, pairs));
    assert_true((runs_of(collector) != 0) == (pairs > 50000));
    const uint64_t stops[] = {0, 1, pairs / 2, pairs - 1};
    const int values[] = {STOP, -1, 1, ETL_E_CORRUPT, INT32_MIN};
    for (size_t i = 0; i < COUNT_OF(stops); i++)
        for (size_t j = 0; j < COUNT_OF(values); j++) {
            struct stopping stopping = {{0, pairs, 0}, stops[i], values[j]};
            ASSERT_STATUS(values[j], collector, etl_load(collector, stopping_load, &stopping));
            assert_int_equal(stopping.counted.next, stops[i]);
            assert_int_equal(stopping.counted.wrong, 0);
        }
    counted_assert_load(collector, pairs);
    counted_assert_load(collector, 0);
    etl_collector_destroy(collector);
}

static void load_consumes_on_success_only(void **state) {
    (void)state;
    check_consumes_on_success_only(100);
    check_consumes_on_success_only(SPILLED_PAIRS);
}

static void load_many_consumes_all_or_none(void **state) {
    (void)state;
    etl_collector *collectors[2] = {create_default(), create_default()};
    for (uint64_t i = 0; i < 1000; i++)
        ASSERT_OK(collectors[i % 2], counted_collect(collectors[i % 2], i));
    ASSERT_OK(collectors[0], etl_flush(collectors[0]));
    struct stopping stopping = {{0, 1000, 0}, 500, STOP};
    ASSERT_STATUS(STOP, NULL, etl_load_many(collectors, 2, stopping_load, &stopping));
    struct counted counted = {0, 1000, 0};
    ASSERT_OK(NULL, etl_load_many(collectors, 2, counted_load, &counted));
    assert_int_equal(counted.next, 1000);
    assert_int_equal(counted.wrong, 0);
    for (size_t i = 0; i < 2; i++) {
        counted_assert_load(collectors[i], 0);
        etl_collector_destroy(collectors[i]);
    }
}

static void a_collector_serves_many_rounds(void **state) {
    (void)state;
    etl_collector *collector = create_default();
    const uint64_t sizes[] = {10, SPILLED_PAIRS, 0, 1, SPILLED_PAIRS, 1000};
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        if (sizes[i] != 0)
            ASSERT_OK(collector, counted_collect_all(collector, sizes[i]));
        counted_assert_load(collector, sizes[i]);
    }
    etl_collector_destroy(collector);
}

static void reset_drops_all_pairs(void **state) {
    (void)state;
    etl_collector *collector = create_default();
    ASSERT_OK(collector, counted_collect_all(collector, SPILLED_PAIRS));
    ASSERT_OK(collector, etl_reset(collector));
    counted_assert_load(collector, 0);
    ASSERT_OK(collector, counted_collect_all(collector, 10));
    counted_assert_load(collector, 10);
    etl_collector_destroy(collector);
}

static void collecting_goes_on_after_flush_and_iteration(void **state) {
    (void)state;
    etl_collector *collector = create_default();
    for (uint64_t i = 0; i < 900; i++) {
        ASSERT_OK(collector, counted_collect(collector, i * 7 % 900));
        if (i % 300 == 99)
            ASSERT_OK(collector, etl_flush(collector));
        if (i % 300 == 199) {
            etl_iter *iter;
            ASSERT_OK(collector, etl_iter_open(&iter, collector, NULL));
            for (uint64_t j = 0; j <= i; j++)
                ASSERT_OK(collector, etl_iter_next(iter, NULL, NULL));
            ASSERT_STATUS(ETL_END, collector, etl_iter_next(iter, NULL, NULL));
            etl_iter_close(iter);
        }
    }
    counted_assert_load(collector, 900);
    etl_collector_destroy(collector);
}

/* ---- A failed call changes nothing */

/* Pairs collected until the status given comes; its message names sizes. */
static uint64_t collect_until(etl_collector *collector, int expected, uint64_t most) {
    for (uint64_t i = 0; i < most; i++) {
        int status = counted_collect(collector, i);
        if (status != ETL_OK) {
            ASSERT_STATUS(expected, collector, status);
            return i;
        }
    }
    return most;
}

static void check_disk_limit(int threads) {
    etl_options options = support_options(MIB);
    options.disk_limit = 2 * MIB;
    options.threads = threads;
    etl_collector *collector = create(&options);
    uint64_t accepted = collect_until(collector, ETL_E_NOSPACE, 1000000);
    assert_in_range(accepted, 2 * MIB / 64, 999999);
    assert_non_null(strpbrk(etl_collector_message(collector), "0123456789"));
    for (unsigned i = 0; i < 3; i++) { /* there may still be memory, never disk */
        while (counted_collect(collector, accepted) == ETL_OK)
            accepted++;
        ASSERT_STATUS(ETL_E_NOSPACE, collector, etl_flush(collector));
    }
    etl_stats stats = {.struct_size = sizeof stats};
    ASSERT_OK(collector, etl_collector_stats(collector, &stats));
    assert_int_equal(stats.pairs, accepted);
    assert_in_range(stats.disk_bytes_peak, 1, options.disk_limit);
    counted_assert_load(collector, accepted);
    ASSERT_OK(collector, counted_collect_all(collector, 1000));
    counted_assert_load(collector, 1000);
    etl_collector_destroy(collector);
}

static void failed_call_changes_nothing_at_the_disk_limit(void **state) {
    (void)state;
    check_disk_limit(ETL_THREADS_NONE);
    check_disk_limit(1);
}

static void check_vanished_directory(int threads) {
    const char *directories[] = {support_path("vanishing"), NULL};
    assert_int_equal(mkdir(directories[0], 0700), 0);
    etl_options options = support_options(MIB);
    options.temp_dirs = directories;
    options.threads = threads;
    etl_collector *collector = create(&options);
    for (uint64_t i = 0; i < 100; i++)
        ASSERT_OK(collector, counted_collect(collector, i));
    assert_int_equal(rmdir(directories[0]), 0);
    for (unsigned i = 0; i < 3; i++) {
        ASSERT_STATUS(ETL_E_IO, collector, etl_flush(collector));
        assert_non_null(strstr(etl_collector_message(collector), "vanishing"));
    }
    assert_int_equal(mkdir(directories[0], 0700), 0);
    ASSERT_OK(collector, etl_flush(collector));
    for (uint64_t i = 100; i < 200; i++)
        ASSERT_OK(collector, counted_collect(collector, i));
    counted_assert_load(collector, 200);
    etl_collector_destroy(collector);
    assert_int_equal(rmdir(directories[0]), 0);
}

static void failed_call_changes_nothing_while_the_directory_is_gone(void **state) {
    (void)state;
    check_vanished_directory(ETL_THREADS_NONE);
    check_vanished_directory(2);
}

/* The directory goes while pairs stream in: every pair that was accepted is delivered. */
static void failed_collect_refuses_one_pair_only(void **state) {
    (void)state;
    for (int threads = ETL_THREADS_NONE; threads <= 1; threads++) {
        const char *directories[] = {support_path("vanishing"), NULL};
        assert_int_equal(mkdir(directories[0], 0700), 0);
        etl_options options = support_options(MIB);
        options.temp_dirs = directories;
        options.threads = threads;
        etl_collector *collector = create(&options);
        assert_int_equal(rmdir(directories[0]), 0);
        uint64_t accepted = collect_until(collector, ETL_E_IO, 1000000);
        assert_in_range(accepted, 1, 999999);
        assert_int_equal(mkdir(directories[0], 0700), 0);
        for (uint64_t i = accepted; i < accepted + 1000; i++)
            ASSERT_OK(collector, counted_collect(collector, i));
        counted_assert_load(collector, accepted + 1000);
        etl_collector_destroy(collector);
        assert_int_equal(rmdir(directories[0]), 0);
    }
}

static void failed_allocation_changes_nothing(void **state) {
    (void)state;
    for (size_t refuse_after = 0; refuse_after < 12; refuse_after++) {
        struct support_memory memory = {0};
        etl_options options = support_options(4 * MIB);
        options.allocator = support_allocator(&memory);
        etl_collector *collector = create(&options);
        atomic_store(&memory.refuse_from, atomic_load(&memory.calls) + 1 + refuse_after);
        uint64_t accepted = collect_until(collector, ETL_E_NOMEM, 200000);
        atomic_store(&memory.refuse_from, 0);
        for (uint64_t i = accepted; i < accepted + 100; i++)
            ASSERT_OK(collector, counted_collect(collector, i));
        counted_assert_load(collector, accepted + 100);
        etl_collector_destroy(collector);
        support_memory_check(&memory);
    }
}

/* ---- Iterators and slices */

static void slices_live_until_the_next_call_on_the_iterator(void **state) {
    (void)state;
    for (int access = ETL_ACCESS_MMAP; access <= ETL_ACCESS_READ; access++) {
        etl_options options = support_options(MIB);
        options.access = (etl_access)access;
        etl_collector *collector = create(&options), *other = create(&options);
        ASSERT_OK(collector, counted_collect_all(collector, SPILLED_PAIRS));
        etl_iter *a, *b;
        ASSERT_OK(collector, etl_iter_open(&a, collector, NULL));
        ASSERT_OK(collector, etl_iter_open(&b, collector, NULL));
        struct counted counted = {0, SPILLED_PAIRS, 0};
        for (uint64_t i = 0; i < SPILLED_PAIRS; i++) {
            etl_slice key, value;
            ASSERT_OK(collector, etl_iter_next(a, &key, &value));
            ASSERT_OK(collector, etl_iter_next(b, NULL, NULL));
            ASSERT_OK(other, etl_collect(other, key, value));
            counted_load(&counted, key, value);
        }
        assert_int_equal(counted.wrong, 0);
        etl_iter_close(a);
        etl_iter_close(b);
        etl_collector_destroy(collector);
        counted_assert_load(other, SPILLED_PAIRS);
        etl_collector_destroy(other);
    }
}

static int collect_into(void *context, etl_slice key, etl_slice value) {
    return etl_collect(context, key, value);
}

static void slices_of_a_load_go_into_another_collector(void **state) {
    (void)state;
    etl_collector *from = create_default(), *to = create_default();
    ASSERT_OK(from, counted_collect_all(from, SPILLED_PAIRS));
    ASSERT_OK(from, etl_load(from, collect_into, to));
    counted_assert_load(to, SPILLED_PAIRS);
    etl_collector_destroy(from);
    etl_collector_destroy(to);
}

static void assert_next_key(etl_iter *iter, const char *expected) {
    etl_slice key;
    int status = etl_iter_next(iter, &key, NULL);
    if (expected == NULL) {
        assert_int_equal(status, ETL_END);
        return;
    }
    assert_int_equal(status, ETL_OK);
    assert_int_equal(key.size, strlen(expected));
    assert_memory_equal(key.data, expected, key.size);
}

static void seek_takes_the_key_just_returned(void **state) {
    (void)state;
    for (int access = ETL_ACCESS_MMAP; access <= ETL_ACCESS_READ; access++) {
        etl_options options = support_options(MIB);
        options.access = (etl_access)access;
        options.duplicates = ETL_APPEND;
        etl_collector *collector = create(&options);
        collect_letters(collector, "abc");
        ASSERT_OK(collector, etl_flush(collector));
        collect_letters(collector, "bcd");
        etl_iter *iter;
        ASSERT_OK(collector, etl_iter_open(&iter, collector, NULL));
        for (const char *expected = "abcd"; *expected != '\0'; expected++)
            for (unsigned again = 0; again < 3; again++) {
                etl_slice key;
                ASSERT_OK(collector, etl_iter_next(iter, &key, NULL));
                assert_memory_equal(key.data, expected, 1);
                if (again < 2)
                    ASSERT_OK(collector, etl_iter_seek(iter, key));
            }
        assert_next_key(iter, NULL);
        etl_iter_close(iter);
        etl_collector_destroy(collector);
    }
}

static void seek_stays_inside_the_range(void **state) {
    (void)state;
    etl_collector *collector = create_default();
    collect_letters(collector, "gfedcba");
    const etl_range range = {etl_slice_str("c"), etl_slice_str("f")};
    etl_iter *iter;
    ASSERT_OK(collector, etl_iter_open(&iter, collector, &range));
    ASSERT_OK(collector, etl_iter_seek(iter, etl_slice_str("a")));
    assert_next_key(iter, "c");
    ASSERT_OK(collector, etl_iter_seek(iter, etl_slice_of(NULL, 0)));
    assert_next_key(iter, "c");
    ASSERT_OK(collector, etl_iter_seek(iter, etl_slice_str("dd")));
    assert_next_key(iter, "e");
    assert_next_key(iter, NULL);
    assert_next_key(iter, NULL);
    ASSERT_OK(collector, etl_iter_seek(iter, etl_slice_str("f")));
    assert_next_key(iter, NULL);
    ASSERT_OK(collector, etl_iter_seek(iter, etl_slice_str("e")));
    assert_next_key(iter, "e");
    etl_iter_close(iter);
    const etl_range backwards = {etl_slice_str("f"), etl_slice_str("c")};
    ASSERT_OK(collector, etl_iter_open(&iter, collector, &backwards));
    assert_next_key(iter, NULL);
    ASSERT_OK(collector, etl_iter_seek(iter, etl_slice_str("d")));
    assert_next_key(iter, NULL);
    etl_iter_close(iter);
    etl_collector_destroy(collector);
}

static void iterators_never_consume(void **state) {
    (void)state;
    etl_collector *collector = create_default();
    ASSERT_OK(collector, counted_collect_all(collector, SPILLED_PAIRS));
    for (unsigned i = 0; i < 3; i++) {
        etl_iter *iter;
        ASSERT_OK(collector, etl_iter_open(&iter, collector, NULL));
        while (etl_iter_next(iter, NULL, NULL) == ETL_OK)
            ;
        etl_iter_close(iter);
    }
    counted_assert_load(collector, SPILLED_PAIRS);
    etl_collector_destroy(collector);
}

/* ---- States */

static void assert_state_errors(etl_collector *collector) {
    void *key, *value;
    struct counted counted = {0, 0, 0};
    etl_slice one = etl_slice_str("1");
    assert_int_equal(etl_collect(collector, one, one), ETL_E_STATE);
    assert_int_equal(etl_reserve(collector, 1, 1, &key, &value), ETL_E_STATE);
    assert_int_equal(etl_flush(collector), ETL_E_STATE);
    assert_int_equal(etl_load(collector, counted_load, &counted), ETL_E_STATE);
    assert_int_equal(etl_load_many(&collector, 1, counted_load, &counted), ETL_E_STATE);
    assert_int_equal(etl_reset(collector), ETL_E_STATE);
}

static void while_an_iterator_is_open_the_pairs_stay(void **state) {
    (void)state;
    etl_collector *collector = create_default();
    ASSERT_OK(collector, counted_collect_all(collector, 100));
    etl_iter *a, *b;
    ASSERT_OK(collector, etl_iter_open(&a, collector, NULL));
    assert_state_errors(collector);
    ASSERT_OK(collector, etl_iter_open(&b, collector, NULL));
    etl_iter_close(a);
    assert_state_errors(collector);
    assert_true(etl_collector_message(collector)[0] != '\0');
    etl_iter_close(b);
    ASSERT_OK(collector, counted_collect(collector, 100));
    counted_assert_load(collector, 101);
    etl_collector_destroy(collector);
}

static void assert_no_calls_from_a_callback(etl_collector *collector) {
    etl_iter *iter = (etl_iter *)(uintptr_t)1;
    assert_state_errors(collector);
    assert_int_equal(etl_iter_open(&iter, collector, NULL), ETL_E_STATE);
    assert_null(iter);
}

static int calling_load(void *context, etl_slice key, etl_slice value) {
    (void)key, (void)value;
    assert_no_calls_from_a_callback(*(etl_collector **)context);
    return 0;
}

static int calling_reduce(void *context, etl_slice key, const etl_slice *values, size_t count,
                          etl_bytes *result) {
    (void)key;
    assert_no_calls_from_a_callback(*(etl_collector **)context);
    return etl_bytes_append(result, values[count - 1].data, values[count - 1].size);
}

static void callbacks_may_not_call_into_their_collector(void **state) {
    (void)state;
    etl_collector *collector = NULL;
    etl_options options = support_options(MIB);
    options.duplicates = ETL_REDUCE;
    options.reduce = calling_reduce;
    options.reduce_ctx = &collector;
    collector = create(&options);
    collect_letters(collector, "abab"); /* folded while spilling */
    ASSERT_OK(collector, etl_flush(collector));
    collect_letters(collector, "acac"); /* while merging */
    ASSERT_OK(collector, etl_load(collector, calling_load, &collector));
    counted_assert_load(collector, 0);
    etl_collector_destroy(collector);
}

static void destroy_ends_iterators_which_are_still_to_be_closed(void **state) {
    (void)state;
    struct support_memory memory = {0};
    etl_options options = support_options(MIB);
    options.allocator = support_allocator(&memory);
    etl_collector *collectors[2] = {create(&options), create(&options)};
    collect_letters(collectors[0], "ab");
    collect_letters(collectors[1], "cd");
    ASSERT_OK(NULL, etl_flush(collectors[0]));
    etl_iter *one, *untouched, *many;
    ASSERT_OK(NULL, etl_iter_open(&one, collectors[0], NULL));
    ASSERT_OK(NULL, etl_iter_open(&untouched, collectors[0], NULL));
    ASSERT_OK(NULL, etl_iter_open_many(&many, collectors, 2, NULL));
    assert_next_key(one, "a");
    assert_next_key(many, "a");
    etl_collector_destroy(collectors[0]);
    etl_iter *const iters[] = {one, untouched, many};
    for (size_t i = 0; i < COUNT_OF(iters); i++) {
        etl_slice key, value;
        assert_int_equal(etl_iter_next(iters[i], &key, &value), ETL_E_STATE);
        assert_int_equal(etl_iter_seek(iters[i], etl_slice_str("b")), ETL_E_STATE);
        etl_iter_close(iters[i]);
    }
    struct counted counted = {0, 0, 0};
    ASSERT_OK(collectors[1], etl_load(collectors[1], counted_load, &counted));
    assert_int_equal(counted.next, 2);
    etl_collector_destroy(collectors[1]);
    support_memory_check(&memory);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(load_consumes_on_success_only),
        cmocka_unit_test(load_many_consumes_all_or_none),
        cmocka_unit_test(a_collector_serves_many_rounds),
        cmocka_unit_test(reset_drops_all_pairs),
        cmocka_unit_test(collecting_goes_on_after_flush_and_iteration),
        cmocka_unit_test(failed_call_changes_nothing_at_the_disk_limit),
        cmocka_unit_test(failed_call_changes_nothing_while_the_directory_is_gone),
        cmocka_unit_test(failed_collect_refuses_one_pair_only),
        cmocka_unit_test(failed_allocation_changes_nothing),
        cmocka_unit_test(slices_live_until_the_next_call_on_the_iterator),
        cmocka_unit_test(slices_of_a_load_go_into_another_collector),
        cmocka_unit_test(seek_takes_the_key_just_returned),
        cmocka_unit_test(seek_stays_inside_the_range),
        cmocka_unit_test(iterators_never_consume),
        cmocka_unit_test(while_an_iterator_is_open_the_pairs_stay),
        cmocka_unit_test(callbacks_may_not_call_into_their_collector),
        cmocka_unit_test(destroy_ends_iterators_which_are_still_to_be_closed),
    };
    return cmocka_run_group_tests(tests, support_setup, support_teardown);
}
