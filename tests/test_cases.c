/* test_cases.c: what went wrong in other systems of this kind, one test for each, named after it:
 * order and duplicates at the borders of runs, limits of the process, many collectors. */
#include "oracle.h"
#include "support.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static etl_collector *create(const etl_options *options) {
    etl_collector *collector = NULL;
    ASSERT_OK(NULL, etl_collector_create(&collector, options));
    return collector;
}

static etl_stats stats_of(const etl_collector *collector) {
    etl_stats stats = {.struct_size = sizeof stats};
    assert_int_equal(etl_collector_stats(collector, &stats), ETL_OK);
    return stats;
}

/* ---- Order and duplicates */

/* Each string is a run, each of its characters a key, '.' the empty one; a value is the number of
 * the pair. */
static void check_runs(const char *const *runs, const struct oracle_rules *rules, unsigned width) {
    etl_options options = support_options(MIB);
    oracle_apply(rules, &options);
    options.merge_width = width;
    options.threads = ETL_THREADS_NONE;
    support_make_fast(&options);
    etl_collector *collector = create(&options);
    struct oracle input = {NULL, 0, 0}, expected = {NULL, 0, 0};
    for (; *runs != NULL; runs++) {
        for (const char *at = *runs; *at != '\0'; at++) {
            char value[24];
            snprintf(value, sizeof value, "%zu,", input.count);
            const etl_slice key = etl_slice_of(at, *at != '.');
            ASSERT_OK(collector, etl_collect(collector, key, etl_slice_str(value)));
            oracle_add(&input, key, etl_slice_str(value));
        }
        if (runs[1] != NULL)
            ASSERT_OK(collector, etl_flush(collector));
    }
    bool accepted = oracle_settle(&input, rules, &expected);
    struct oracle_check check = {&expected, 0, 0, 0};
    ASSERT_STATUS(accepted ? ETL_OK : ETL_E_DUPLICATE, collector,
                  etl_load(collector, oracle_load, &check));
    assert_int_equal(check.at, expected.count);
    oracle_clear(&input);
    oracle_clear(&expected);
    etl_collector_destroy(collector);
}

static void runs_that_touch_nest_or_overlap_in_one_key_agree_in_every_mode(void **state) {
    (void)state;
    static const char *const rows[][6] = {
        {"abc", "cde", NULL},             /* touch */
        {"cde", "abc", NULL},             /* touch, the later run below */
        {"abc", "cccc", "cde", NULL},     /* a run of the shared key between them */
        {"az", "mn", "no", NULL},         /* nested */
        {"mn", "az", "no", NULL},         /* nested, the outer one later */
        {"ab", "cd", "ef", "gh", NULL},   /* apart */
        {"gh", "ef", "cd", "ab", NULL},   /* apart, backwards */
        {"a", "a", "a", "a", NULL},       /* one key */
        {"ab", "bc", "cd", "da", NULL},   /* a chain that closes */
        {".", ".a", "a.", "..", NULL},    /* the empty key */
        {"aabb", "abab", "bbaa", NULL},   /* groups across runs */
        {"abcz", "bcd", "efy", "y", NULL} /* nested in two ways */
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        for (int duplicates = ETL_KEEP_ALL; duplicates <= ETL_REJECT; duplicates++)
            for (unsigned order_values = 0; order_values < 2; order_values++)
                for (unsigned width = 0; width <= 3; width += width == 0 ? 2 : 1) {
                    const struct oracle_rules rules = {(etl_duplicates)duplicates,
                                                       order_values != 0, ORACLE_TRIM};
                    check_runs(rows[i], &rules, width);
                }
}

/* Sorted but for one break: at the first pair, the 150th, around a run's end, at the last. */
static void almost_sorted_producers(void **state) {
    (void)state;
    enum { PAIRS = 60000 };
    static const uint64_t breaks[] = {1, 150, PAIRS / 3, PAIRS / 2, PAIRS - 2};
    for (size_t i = 0; i < COUNT_OF(breaks); i++) {
        etl_options options = support_options(MIB);
        etl_collector *collector = create(&options);
        for (uint64_t j = 0; j < PAIRS; j++) {
            uint64_t key = j == breaks[i] ? j + 1 : j == breaks[i] + 1 ? j - 1 : j;
            if (i == 4)
                key = j == PAIRS - 1 ? 0 : j + 1; /* the smallest comes last */
            ASSERT_OK(collector, counted_collect(collector, key));
        }
        counted_assert_load(collector, PAIRS);
        etl_collector_destroy(collector);
    }
}

static int count_empty(void *context, etl_slice key, etl_slice value) {
    size_t *counts = context;
    counts[value.data == NULL]++;
    return key.size == 0 && value.size == 0 ? 0 : 1;
}

static void pairs_of_no_bytes_are_counted_and_delivered(void **state) {
    (void)state;
    etl_options options = support_options(MIB);
    etl_collector *collector = create(&options);
    size_t pairs = 200000, counts[2] = {0, 0};
    for (size_t i = 0; i < pairs; i++)
        ASSERT_OK(collector, etl_collect(collector, etl_slice_of(NULL, 0),
                                         i % 2 ? etl_slice_of(NULL, 0) : etl_slice_of("", 0)));
    assert_int_equal(stats_of(collector).pairs, pairs);
    assert_true(stats_of(collector).runs != 0);
    ASSERT_OK(collector, etl_load(collector, count_empty, counts));
    assert_int_equal(counts[0], pairs / 2);
    assert_int_equal(counts[1], pairs / 2);
    etl_collector_destroy(collector);
}

static void empty_keys_are_keys_in_every_mode(void **state) {
    (void)state;
    static const char *const rows[][4] = {{".", NULL},      {".", "", NULL},  {"..", NULL},
                                          {".", ".", NULL}, {"a", ".", NULL}, {".a", "b", NULL}};
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        for (int duplicates = ETL_KEEP_ALL; duplicates <= ETL_REJECT; duplicates++) {
            const struct oracle_rules rules = {(etl_duplicates)duplicates, false, ORACLE_TRIM};
            check_runs(rows[i], &rules, 0);
        }
}

/* {NULL, 0} wherever a slice is taken; nothing at all in, nothing out. */
static void null_and_nothing_work_in_every_call(void **state) {
    (void)state;
    const etl_slice nothing = etl_slice_of(NULL, 0);
    const etl_range all = {nothing, nothing};
    etl_options options = support_options(MIB);
    etl_collector *collector = create(&options);
    for (unsigned pairs = 0; pairs < 2; pairs++) {
        for (unsigned i = 0; i < pairs; i++)
            ASSERT_OK(collector, etl_collect(collector, nothing, nothing));
        ASSERT_OK(collector, etl_flush(collector));
        ASSERT_OK(collector, etl_flush(collector));
        etl_iter *iter;
        ASSERT_OK(collector, etl_iter_open_many(&iter, &collector, 1, &all));
        ASSERT_OK(collector, etl_iter_seek(iter, nothing));
        for (unsigned i = 0; i < pairs; i++)
            ASSERT_OK(collector, etl_iter_next(iter, NULL, NULL));
        ASSERT_STATUS(ETL_END, collector, etl_iter_next(iter, NULL, NULL));
        etl_iter_close(iter);
        size_t counts[2] = {0, 0};
        ASSERT_OK(collector, etl_load(collector, count_empty, counts));
        assert_int_equal(counts[1], pairs);
    }
    void *key;
    ASSERT_OK(collector, etl_reserve(collector, 0, 0, &key, NULL));
    size_t counts[2] = {0, 0};
    ASSERT_OK(collector, etl_load(collector, count_empty, counts));
    assert_int_equal(counts[1], 1);
    etl_collector_destroy(collector);
}

/* ---- Sizes and limits */

static void a_tiny_memory_limit_counts_as_one_mebibyte(void **state) {
    (void)state;
    etl_options options = support_options(1);
    etl_collector *collector = create(&options);
    ASSERT_OK(collector, counted_collect_all(collector, 60000));
    ASSERT_OK(collector, etl_flush(collector));
    assert_in_range(stats_of(collector).runs, 2, 30);
    counted_assert_load(collector, 60000);
    etl_collector_destroy(collector);
}

static void ten_pairs_hold_little_whatever_the_limit(void **state) {
    (void)state;
    static const size_t limits[] = {0, 1, 64 * MIB, SIZE_MAX};
    for (size_t i = 0; i < COUNT_OF(limits); i++) {
        etl_options options = support_options(limits[i]);
        etl_collector *collector = create(&options);
        ASSERT_OK(collector, counted_collect_all(collector, 10));
        assert_in_range(stats_of(collector).memory_bytes, 1, 256 * KIB);
        counted_assert_load(collector, 10);
        etl_collector_destroy(collector);
    }
}

static void hundreds_of_small_collectors_stay_small(void **state) {
    (void)state;
    enum { COLLECTORS = 500 };
    static etl_collector *collectors[COLLECTORS];
    etl_options options = support_options(MIB);
    uint64_t held = 0;
    for (size_t i = 0; i < COLLECTORS; i++) {
        collectors[i] = create(&options);
        ASSERT_OK(collectors[i], counted_collect_all(collectors[i], 100));
        held += stats_of(collectors[i]).memory_bytes;
    }
    assert_true(held < COLLECTORS * 256 * KIB);
    for (size_t i = 0; i < COLLECTORS; i++) {
        counted_assert_load(collectors[i], 100);
        etl_collector_destroy(collectors[i]);
    }
}

static void a_thousand_collectors_in_one_directory_do_not_meet(void **state) {
    (void)state;
    enum { COLLECTORS = 1000 };
    static etl_collector *collectors[COLLECTORS];
    size_t count = support_scaled(COLLECTORS);
    etl_options options = support_options(MIB);
    options.threads = ETL_THREADS_NONE;
    for (size_t i = 0; i < count; i++) {
        collectors[i] = create(&options);
        for (uint64_t j = 0; j < 10 + i % 10; j++)
            ASSERT_OK(collectors[i], counted_collect(collectors[i], j));
        ASSERT_OK(collectors[i], etl_flush(collectors[i]));
    }
    for (size_t i = 0; i < count; i++) {
        counted_assert_load(collectors[i], 10 + i % 10);
        etl_collector_destroy(collectors[i]);
    }
}

/* runs of three pairs each, without asserts: it runs in children too. */
static bool flush_many(etl_collector *collector, uint64_t runs) {
    for (uint64_t i = 0; i < 3 * runs; i++) {
        uint64_t scattered = i % 3 * runs + i / 3;
        if (counted_collect(collector, scattered) != ETL_OK ||
            (i % 3 == 2 && etl_flush(collector) != ETL_OK))
            return false;
    }
    return true;
}

static void thousand_runs_with_few_descriptors(etl_access access, int threads) {
    struct rlimit limit;
    CHILD_CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    limit.rlim_cur = 32;
    CHILD_CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    uint64_t runs = support_scaled(1000);
    etl_options options = support_options(MIB);
    options.access = access;
    options.threads = threads;
    support_make_fast(&options);
    etl_collector *collector;
    CHILD_CHECK(etl_collector_create(&collector, &options) == ETL_OK);
    bool flushed = flush_many(collector, runs);
    if (!flushed)
        fprintf(stderr, "%s\n", etl_collector_message(collector));
    CHILD_CHECK(flushed);
    CHILD_CHECK(counted_load_matches(collector, 3 * runs));
    etl_collector_destroy(collector);
}

static void thousand_mapped_runs(void) {
    thousand_runs_with_few_descriptors(ETL_ACCESS_MMAP, 1);
}

static void thousand_read_runs(void) {
    thousand_runs_with_few_descriptors(ETL_ACCESS_READ, 1);
}

static void thousand_read_runs_without_threads(void) {
    thousand_runs_with_few_descriptors(ETL_ACCESS_READ, ETL_THREADS_NONE);
}

static void a_thousand_runs_fit_32_descriptors_mapped(void **state) {
    (void)state;
    support_in_child(thousand_mapped_runs);
}

static void a_thousand_runs_fit_32_descriptors_read(void **state) {
    (void)state;
    support_in_child(thousand_read_runs);
    support_in_child(thousand_read_runs_without_threads);
}

static void thousands_of_tiny_flushes_keep_mappings_bounded(void **state) {
    (void)state;
    uint64_t runs = support_scaled(6000) + 1;
    size_t before = support_mappings(), most = 0;
    etl_options options = support_options(MIB);
    support_make_fast(&options);
    etl_collector *collector = create(&options);
    for (uint64_t i = 0; i < runs; i++) {
        ASSERT_OK(collector, counted_collect(collector, i * 7 % runs));
        ASSERT_OK(collector, etl_flush(collector));
        if (i % 100 == 99) {
            size_t now = support_mappings();
            most = now > most ? now : most;
        }
    }
    if (before != SIZE_MAX)
        assert_in_range(most, 0, before + 4096 + 64);
    assert_in_range(stats_of(collector).memory_bytes_peak, 1, MIB + 64 * KIB);
    counted_assert_load(collector, runs);
    etl_collector_destroy(collector);
}

/* ---- Files, threads */

/* Every descriptor that points into the directory: 0600, closed on exec. */
static size_t check_descriptors(const char *directory) {
    size_t found = 0;
    for (int descriptor = 3; descriptor < 256; descriptor++) {
        char link[64], target[1024];
        snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
        ssize_t size = readlink(link, target, sizeof target - 1);
        if (size <= 0)
            continue;
        target[size] = '\0';
        if (strstr(target, directory) == NULL)
            continue;
        struct stat file;
        assert_int_equal(fstat(descriptor, &file), 0);
        assert_int_equal(file.st_mode & 07777, 0600);
        assert_int_equal(file.st_nlink, 0);
        assert_true(fcntl(descriptor, F_GETFD) & FD_CLOEXEC);
        found++;
    }
    return found;
}

static void runs_are_private_nameless_and_closed_on_exec_under_any_umask(void **state) {
    (void)state;
    SKIP_WITHOUT_PROC();
    static const mode_t masks[] = {0, 0777, 022};
    for (size_t i = 0; i < COUNT_OF(masks); i++)
        for (int access = ETL_ACCESS_MMAP; access <= ETL_ACCESS_READ; access++) {
            mode_t before = umask(masks[i]);
            etl_options options = support_options(MIB);
            options.access = (etl_access)access;
            etl_collector *collector = create(&options);
            ASSERT_OK(collector, counted_collect_all(collector, 10));
            ASSERT_OK(collector, etl_flush(collector));
            assert_int_equal(umask(before), masks[i]); /* it is the process's own */
            assert_int_equal(support_entries(support_directory()), 0);
            size_t found = check_descriptors(support_directory());
            assert_true(access == ETL_ACCESS_MMAP ? found == 0 : found == 1);
            counted_assert_load(collector, 10);
            etl_collector_destroy(collector);
        }
}

static int append_values(void *context, etl_slice key, const etl_slice *values, size_t count,
                         etl_bytes *result) {
    return oracle_reduce_trim(context, key, values, count, result);
}

static void *work_on_a_small_stack(void *argument) {
    size_t failures = 0;
    for (int duplicates = ETL_KEEP_ALL; duplicates <= ETL_REDUCE; duplicates++) {
        etl_options options = support_options(MIB);
        options.duplicates = (etl_duplicates)duplicates;
        options.reduce = append_values;
        options.merge_width = 2;
        options.threads = duplicates % 2 ? 1 : ETL_THREADS_NONE;
        etl_collector *collector;
        if (etl_collector_create(&collector, &options) != ETL_OK) {
            failures++;
            continue;
        }
        failures += counted_collect_all(collector, 40000) != ETL_OK;
        etl_slice keys[3];
        size_t count;
        failures += etl_split(&collector, 1, 4, keys, &count) != ETL_OK;
        failures += !counted_load_matches(collector, 40000);
        etl_collector_destroy(collector);
    }
    *(size_t *)argument = failures;
    return NULL;
}

static void a_thread_stack_of_64_kib_is_enough(void **state) {
    (void)state;
    size_t failures = 99;
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    size_t size = TEST_SANITIZED ? 512 * KIB : 64 * KIB; /* sanitizers blow frames up */
    assert_int_equal(pthread_attr_setstacksize(&attributes, size), 0);
    assert_int_equal(pthread_create(&thread, &attributes, work_on_a_small_stack, &failures), 0);
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attributes);
    assert_int_equal(failures, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_that_touch_nest_or_overlap_in_one_key_agree_in_every_mode),
        cmocka_unit_test(almost_sorted_producers),
        cmocka_unit_test(pairs_of_no_bytes_are_counted_and_delivered),
        cmocka_unit_test(empty_keys_are_keys_in_every_mode),
        cmocka_unit_test(null_and_nothing_work_in_every_call),
        cmocka_unit_test(a_tiny_memory_limit_counts_as_one_mebibyte),
        cmocka_unit_test(ten_pairs_hold_little_whatever_the_limit),
        cmocka_unit_test(hundreds_of_small_collectors_stay_small),
        cmocka_unit_test(a_thousand_collectors_in_one_directory_do_not_meet),
        cmocka_unit_test(a_thousand_runs_fit_32_descriptors_mapped),
        cmocka_unit_test(a_thousand_runs_fit_32_descriptors_read),
        cmocka_unit_test(thousands_of_tiny_flushes_keep_mappings_bounded),
        cmocka_unit_test(runs_are_private_nameless_and_closed_on_exec_under_any_umask),
        cmocka_unit_test(a_thread_stack_of_64_kib_is_enough),
    };
    return cmocka_run_group_tests(tests, support_setup, support_teardown);
}
