/* test_contracts_resources.c: the contracts about memory, disk, descriptors and temporary
 * directories: what is held, how much of it, and that all of it is given back. */
#include "oracle.h"
#include "support.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

/* ---- Memory */

static void check_steady_rounds(uint64_t pairs, int threads, etl_access access) {
    struct support_memory memory = {0};
    etl_options options = support_options(MIB);
    options.threads = threads;
    options.access = access;
    options.allocator = support_allocator(&memory);
    etl_collector *collector = create(&options);
    size_t calls = 0;
    uint64_t allocations = 0;
    for (unsigned round = 0; round < 6; round++) {
        if (round == 3) {
            calls = atomic_load(&memory.calls);
            allocations = stats_of(collector).allocations;
        }
        ASSERT_OK(collector, counted_collect_all(collector, pairs));
        counted_assert_load(collector, pairs);
    }
    /* With a thread it is a matter of time how many runs there are, and one more than ever before
     * takes a few blocks. */
    size_t few = threads == ETL_THREADS_NONE ? 0 : 12;
    if (atomic_load(&memory.calls) > calls + few)
        print_error("pairs %llu threads %d access %d: %zu allocations in 3 steady rounds\n",
                    (unsigned long long)pairs, threads, (int)access,
                    atomic_load(&memory.calls) - calls);
    assert_in_range(atomic_load(&memory.calls), calls, calls + few);
    assert_in_range(stats_of(collector).allocations, allocations, allocations + few);
    etl_collector_destroy(collector);
    support_memory_check(&memory);
}

static void a_steady_round_in_memory_allocates_nothing(void **state) {
    (void)state;
    check_steady_rounds(1, ETL_THREADS_NONE, ETL_ACCESS_MMAP);
    check_steady_rounds(5000, ETL_THREADS_NONE, ETL_ACCESS_MMAP);
    check_steady_rounds(5000, 1, ETL_ACCESS_MMAP);
}

static void a_steady_round_that_spills_allocates_nothing(void **state) {
    (void)state;
    for (int access = ETL_ACCESS_MMAP; access <= ETL_ACCESS_READ; access++) {
        check_steady_rounds(100000, ETL_THREADS_NONE, (etl_access)access);
        check_steady_rounds(100000, 1, (etl_access)access);
    }
}

static void all_memory_comes_from_the_hook_and_goes_back(void **state) {
    (void)state;
    for (int threads = ETL_THREADS_NONE; threads <= 2; threads++) {
        struct support_memory memory = {0};
        etl_options options = support_options(2 * MIB);
        options.threads = threads;
        options.allocator = support_allocator(&memory);
        etl_collector *collector = create(&options);
        ASSERT_OK(collector, counted_collect_all(collector, 100000));
        etl_stats stats = stats_of(collector);
        assert_true(atomic_load(&memory.bytes) > MIB);
        /* the handle itself stands outside the account that it holds */
        assert_in_range(stats.allocations, atomic_load(&memory.calls) - 1,
                        atomic_load(&memory.calls));
        assert_in_range(stats.memory_bytes, atomic_load(&memory.bytes) - 16 * KIB,
                        atomic_load(&memory.bytes));
        etl_iter *iter;
        ASSERT_OK(collector, etl_iter_open(&iter, collector, NULL));
        ASSERT_OK(collector, etl_iter_next(iter, NULL, NULL));
        etl_collector_destroy(collector);
        etl_iter_close(iter);
        support_memory_check(&memory);
    }
}

/* size is that of the value; the pairs make about `bytes`. */
static void collect_sized(etl_collector *collector, size_t size, size_t bytes) {
    unsigned char *value = malloc(size + 1);
    assert_non_null(value);
    memset(value, 'v', size);
    for (uint64_t i = 0; i < bytes / (size + 10) + 1; i++) {
        uint64_t key = i * 0x9E3779B97F4A7C15u;
        ASSERT_OK(collector, etl_collect(collector, etl_slice_of(&key, sizeof key),
                                         etl_slice_of(value, size)));
    }
    free(value);
}

static int ignore(void *context, etl_slice key, etl_slice value) {
    (void)context, (void)key, (void)value;
    return 0;
}

/* Says whether it does; all settings are tried, so that a failure shows its pattern. */
static bool stays_within(size_t limit, size_t size, int threads, etl_access access) {
    struct support_memory memory = {0};
    etl_options options = support_options(limit);
    options.threads = threads;
    options.access = access;
    options.allocator = support_allocator(&memory);
    etl_collector *collector = create(&options);
    size_t bytes = support_scaled(5 * limit + 3 * MIB);
    for (unsigned round = 0; round < 2; round++) {
        collect_sized(collector, size, bytes);
        ASSERT_OK(collector, etl_load(collector, ignore, NULL));
    }
    uint64_t peak = stats_of(collector).memory_bytes_peak;
    if (peak > limit + 64 * KIB)
        print_error("limit %zu, values of %zu, threads %d, access %d: peak %llu\n", limit, size,
                    threads, (int)access, (unsigned long long)peak);
    bool within = peak <= limit + 64 * KIB && atomic_load(&memory.bytes_peak) <= limit + 64 * KIB;
    etl_collector_destroy(collector);
    support_memory_check(&memory);
    return within;
}

static void memory_stays_within_the_limit(void **state) {
    (void)state;
    static const size_t sizes[] = {0, 1, 30, 120, 1000, 10000, 100000};
    unsigned failures = 0;
    for (size_t i = 0; i < COUNT_OF(sizes); i++)
        for (int threads = ETL_THREADS_NONE; threads <= 2; threads++)
            for (int access = ETL_ACCESS_MMAP; access <= ETL_ACCESS_READ; access++)
                failures += !stays_within(MIB, sizes[i], threads, (etl_access)access);
    failures += !stays_within(8 * MIB, 30, 1, ETL_ACCESS_MMAP);
    failures += !stays_within(8 * MIB, 30, 2, ETL_ACCESS_READ);
    assert_int_equal(failures, 0);
}

/* ---- Pairs larger than the limit */

static void a_pair_larger_than_the_limit_costs_its_own_run(void **state) {
    (void)state;
    for (int threads = ETL_THREADS_NONE; threads <= 1; threads++) {
        struct support_memory memory = {0};
        etl_options options = support_options(MIB);
        options.threads = threads;
        options.allocator = support_allocator(&memory);
        options.access = threads == 1 ? ETL_ACCESS_READ : ETL_ACCESS_MMAP;
        etl_collector *collector = create(&options);
        const size_t size = 3 * MIB;
        unsigned char *large = malloc(size);
        assert_non_null(large);
        memset(large, 'L', size);
        struct oracle input = {NULL, 0, 0};
        for (unsigned i = 0; i < 30000; i++) {
            char key[16];
            snprintf(key, sizeof key, "%05u", i * 7 % 30000);
            etl_slice value =
                i % 10000 == 5000 ? etl_slice_of(large, size - i) : etl_slice_str(key);
            ASSERT_OK(collector, etl_collect(collector, etl_slice_str(key), value));
            oracle_add(&input, etl_slice_str(key), value);
        }
        ASSERT_OK(collector,
                  etl_collect(collector, etl_slice_of(large, size), etl_slice_str("k")));
        oracle_add(&input, etl_slice_of(large, size), etl_slice_str("k"));
        etl_stats stats = stats_of(collector);
        assert_in_range(stats.runs, 4, 4 + 12);
        if (stats.memory_bytes_peak > MIB + 64 * KIB)
            print_error("peak %llu\n", (unsigned long long)stats.memory_bytes_peak);
        assert_true(stats.memory_bytes_peak <= MIB + 64 * KIB);
        oracle_sort(&input, false);
        struct oracle_check check = {&input, 0, 0, 0};
        ASSERT_OK(collector, etl_load(collector, oracle_load, &check));
        assert_int_equal(check.at, input.count);
        etl_collector_destroy(collector);
        support_memory_check(&memory);
        oracle_clear(&input);
        free(large);
    }
}

static void a_pair_larger_than_the_limit_can_be_reserved(void **state) {
    (void)state;
    etl_options options = support_options(MIB);
    etl_collector *collector = create(&options);
    ASSERT_OK(collector, etl_collect(collector, etl_slice_str("b"), etl_slice_str("1")));
    void *key, *value;
    const size_t size = 3 * MIB;
    ASSERT_OK(collector, etl_reserve(collector, 1, size, &key, &value));
    memcpy(key, "a", 1);
    memset(value, 'L', size);
    ASSERT_OK(collector, etl_collect(collector, etl_slice_str("c"), etl_slice_str("2")));
    ASSERT_OK(collector, etl_reserve(collector, 1, size, &key, &value));
    memcpy(key, "d", 1);
    memset(value, 'M', size);
    etl_iter *iter;
    ASSERT_OK(collector, etl_iter_open(&iter, collector, NULL));
    static const char keys[] = "abcd";
    for (size_t i = 0; i < 4; i++) {
        etl_slice found, bytes;
        ASSERT_OK(collector, etl_iter_next(iter, &found, &bytes));
        assert_memory_equal(found.data, &keys[i], 1);
        assert_int_equal(bytes.size, i % 3 == 0 ? size : 1);
        assert_int_equal(((const unsigned char *)bytes.data)[bytes.size - 1], "L12M"[i]);
    }
    etl_iter_close(iter);
    etl_collector_destroy(collector);
}

/* ---- Disk and descriptors */

static void nothing_touches_the_disk_until_something_spills(void **state) {
    (void)state;
    const char *directories[] = {support_path("untouched"), NULL};
    assert_int_equal(mkdir(directories[0], 0700), 0);
    etl_options options = support_options(64 * MIB);
    options.temp_dirs = directories;
    etl_collector *collector = create(&options);
    assert_int_equal(rmdir(directories[0]), 0); /* so that touching it would fail */
    for (unsigned round = 0; round < 2; round++) {
        ASSERT_OK(collector, counted_collect_all(collector, 100000));
        assert_int_equal(stats_of(collector).disk_bytes, 0);
        counted_assert_load(collector, 100000);
    }
    assert_int_equal(stats_of(collector).disk_bytes_peak, 0);
    etl_collector_destroy(collector);
}

static void load_reset_and_destroy_give_every_block_back(void **state) {
    (void)state;
    SKIP_WITHOUT_PROC();
    size_t descriptors = support_descriptors(), threads = support_threads();
    for (int access = ETL_ACCESS_MMAP; access <= ETL_ACCESS_READ; access++) {
        etl_options options = support_options(MIB);
        options.access = (etl_access)access;
        etl_collector *collector = create(&options);
        ASSERT_OK(collector, counted_collect_all(collector, 100000));
        assert_int_equal(support_entries(support_directory()), 0);
        counted_assert_load(collector, 100000);
        assert_int_equal(support_files_held(support_directory()), 0);
        assert_int_equal(stats_of(collector).disk_bytes, 0);
        ASSERT_OK(collector, counted_collect_all(collector, 100000));
        ASSERT_OK(collector, etl_reset(collector));
        assert_int_equal(support_files_held(support_directory()), 0);
        assert_int_equal(stats_of(collector).disk_bytes, 0);
        ASSERT_OK(collector, counted_collect_all(collector, 100000));
        etl_collector_destroy(collector);
        assert_int_equal(support_files_held(support_directory()), 0);
        assert_int_equal(support_entries(support_directory()), 0);
        assert_int_equal(support_descriptors(), descriptors);
        if (!TEST_SANITIZED)
            assert_int_equal(support_threads(), threads);
    }
}

static void mapped_runs_hold_no_descriptor(void **state) {
    (void)state;
    SKIP_WITHOUT_PROC();
    etl_options options = support_options(MIB);
    etl_collector *collector = create(&options);
    size_t descriptors = support_descriptors();
    ASSERT_OK(collector, counted_collect_all(collector, 100000));
    ASSERT_OK(collector, etl_flush(collector));
    assert_int_equal(support_descriptors(), descriptors);
    counted_assert_load(collector, 100000);
    etl_collector_destroy(collector);
}

/* ---- Temporary directories */

static void assert_no_directory(const char *directory) {
    const char *directories[] = {directory, NULL};
    etl_options options = support_options(MIB);
    options.temp_dirs = directories;
    etl_collector *collector = (etl_collector *)(uintptr_t)1;
    char message[300] = "";
    ASSERT_STATUS(ETL_E_IO, NULL,
                  etl_collector_create_message(&collector, &options, message, sizeof message));
    assert_null(collector);
    assert_non_null(strstr(message, directory));
}

static void temporary_directories_are_checked_at_create(void **state) {
    (void)state;
    assert_no_directory(support_path("missing"));
    const char *file = support_path("file");
    int descriptor = open(file, O_CREAT | O_WRONLY, 0600);
    assert_true(descriptor >= 0);
    close(descriptor);
    assert_no_directory(file);
    unlink(file);
    if (geteuid() != 0) { /* root may write anywhere */
        const char *locked = support_path("locked");
        assert_int_equal(mkdir(locked, 0500), 0);
        assert_no_directory(locked);
        rmdir(locked);
    }
}

/* Spill into a collector made by these options, and say whether the run lies in the directory. */
static bool spills_into(const etl_options *options, const char *directory) {
    etl_options reading = *options;
    reading.access = ETL_ACCESS_READ;
    etl_collector *collector = create(&reading);
    ASSERT_OK(collector, counted_collect_all(collector, 10));
    ASSERT_OK(collector, etl_flush(collector));
    bool held = support_files_held(directory) != 0;
    counted_assert_load(collector, 10);
    etl_collector_destroy(collector);
    return held;
}

static void a_relative_directory_is_made_absolute_at_create(void **state) {
    (void)state;
    SKIP_WITHOUT_PROC();
    const char *inner = support_path("inner");
    assert_int_equal(mkdir(inner, 0700), 0);
    char before[1024];
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(support_directory()), 0);
    const char *directories[] = {"inner/", NULL};
    etl_options options = support_options(MIB);
    options.temp_dirs = directories;
    options.access = ETL_ACCESS_READ;
    etl_collector *collector = create(&options);
    assert_int_equal(chdir("/"), 0);
    ASSERT_OK(collector, counted_collect_all(collector, 10));
    ASSERT_OK(collector, etl_flush(collector));
    assert_true(support_files_held(inner) != 0);
    counted_assert_load(collector, 10);
    etl_collector_destroy(collector);
    assert_int_equal(chdir(before), 0);
    assert_int_equal(rmdir(inner), 0);
}

static void tmpdir_is_the_default(void **state) {
    (void)state;
    SKIP_WITHOUT_PROC();
    const char *set = getenv("TMPDIR");
    char *before = set != NULL ? strdup(set) : NULL;
    etl_options options = support_options(MIB);
    options.temp_dirs = NULL;
    setenv("TMPDIR", support_directory(), 1);
    assert_true(spills_into(&options, support_directory()));
    char slash[300];
    snprintf(slash, sizeof slash, "%s//", support_directory());
    setenv("TMPDIR", slash, 1);
    assert_true(spills_into(&options, support_directory()));
    setenv("TMPDIR", "/dev/null", 1);
    etl_collector *collector = (etl_collector *)(uintptr_t)1;
    ASSERT_STATUS(ETL_E_IO, NULL, etl_collector_create(&collector, &options));
    assert_null(collector);
    setenv("TMPDIR", "", 1);
    assert_true(spills_into(&options, "/var/tmp") || access("/var/tmp", W_OK) != 0);
    unsetenv("TMPDIR");
    assert_true(spills_into(&options, "/var/tmp") || access("/var/tmp", W_OK) != 0);
    if (before != NULL)
        setenv("TMPDIR", before, 1);
    free(before);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_steady_round_in_memory_allocates_nothing),
        cmocka_unit_test(a_steady_round_that_spills_allocates_nothing),
        cmocka_unit_test(all_memory_comes_from_the_hook_and_goes_back),
        cmocka_unit_test(memory_stays_within_the_limit),
        cmocka_unit_test(a_pair_larger_than_the_limit_costs_its_own_run),
        cmocka_unit_test(a_pair_larger_than_the_limit_can_be_reserved),
        cmocka_unit_test(nothing_touches_the_disk_until_something_spills),
        cmocka_unit_test(load_reset_and_destroy_give_every_block_back),
        cmocka_unit_test(mapped_runs_hold_no_descriptor),
        cmocka_unit_test(temporary_directories_are_checked_at_create),
        cmocka_unit_test(a_relative_directory_is_made_absolute_at_create),
        cmocka_unit_test(tmpdir_is_the_default),
    };
    return cmocka_run_group_tests(tests, support_setup, support_teardown);
}
