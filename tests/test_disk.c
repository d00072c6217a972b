/* test_disk.c: a disk that is really full: a small file system of its own (tmpfs, and ext4 in a
 * loop device), mounted where only this test's children see it. Skipped where that is not allowed.
 */
#include "disk_support.h"
#include "oracle.h"
#include "pwrite_support.h"
#include "support.h"

#include <sys/resource.h>

enum { SMALL_DISK = 16 * 1024 * 1024, ROOM = 3 * 1024 * 1024 };

static char small[300], large[300];

static const char *small_directory(void) {
    return small;
}

static const char *large_directory(void) {
    return large;
}

/* What the bodies below, which take no arguments, are to do. */
static struct {
    enum disk_kind kind;
    int threads;
    etl_access access;
} now;

static etl_options small_options(void) {
    static const char *directories[2];
    directories[0] = small_directory();
    etl_options options = support_options(MIB);
    options.temp_dirs = directories;
    options.threads = now.threads;
    options.access = now.access;
    return options;
}

static etl_collector *create(const etl_options *options) {
    etl_collector *collector;
    CHILD_CHECK(etl_collector_create(&collector, options) == ETL_OK);
    return collector;
}

static etl_stats stats_of(const etl_collector *collector) {
    etl_stats stats = {.struct_size = sizeof stats};
    CHILD_CHECK(etl_collector_stats(collector, &stats) == ETL_OK);
    return stats;
}

static uint64_t collect_until_full(etl_collector *collector, uint64_t from) {
    int status;
    while ((status = counted_collect(collector, from)) == ETL_OK)
        from++;
    CHILD_CHECK(status == ETL_E_NOSPACE);
    return from;
}

static void collect_range(etl_collector *collector, uint64_t from, uint64_t to) {
    for (uint64_t i = from; i < to; i++)
        CHILD_CHECK(counted_collect(collector, i) == ETL_OK);
}

static void check_load(etl_collector *collector, uint64_t count) {
    struct counted counted = {0, count, 0};
    int status = etl_load(collector, counted_load, &counted);
    if (status != ETL_OK)
        fprintf(stderr, "%d: %s\n", status, etl_collector_message(collector));
    CHILD_CHECK(status == ETL_OK);
    CHILD_CHECK(counted.next == count && counted.wrong == 0);
}

static void check_message(const etl_collector *collector) {
    const char *message = etl_collector_message(collector);
    CHILD_CHECK(strstr(message, small_directory()) != NULL);
    CHILD_CHECK(strpbrk(message, "0123456789") != NULL);
}

/* ---- Full while spilling: on the caller's thread, on one of the library's, on two of them */

static void fill_and_free(void) {
    disk_mount(now.kind, small_directory(), SMALL_DISK);
    uint64_t space = disk_free_bytes(small_directory());
    const char *ballast = disk_fill(small_directory(), ROOM);
    etl_options options = small_options();
    etl_collector *collector = create(&options);
    uint64_t accepted = collect_until_full(collector, 0);
    CHILD_CHECK(accepted >= 30000);
    for (unsigned again = 0; again < 3; again++) {
        int status = counted_collect(collector, accepted); /* there may be memory for one more */
        CHILD_CHECK(status == ETL_OK || status == ETL_E_NOSPACE);
        accepted += status == ETL_OK;
        CHILD_CHECK(etl_flush(collector) == ETL_E_NOSPACE);
        check_message(collector);
    }
    CHILD_CHECK(unlink(ballast) == 0);
    collect_range(collector, accepted, accepted + 20000);
    check_load(collector, accepted + 20000);
    CHILD_CHECK(disk_is_free_again(small_directory(), space));
    accepted = collect_until_full(collector, 0); /* once more, and read what there is */
    struct counted counted = {0, accepted, 0};
    int status = etl_load(collector, counted_load, &counted);
    CHILD_CHECK(status == ETL_E_NOSPACE || (status == ETL_OK && counted.next == accepted));
    CHILD_CHECK(counted.wrong == 0);
    etl_collector_destroy(collector);
    CHILD_CHECK(disk_is_free_again(small_directory(), space));
}

static void in_every_setting(void (*body)(void)) {
    for (int kind = DISK_TMPFS; kind <= DISK_EXT4; kind++)
        for (int threads = ETL_THREADS_NONE; threads <= 2; threads += threads < 0 ? 2 : 1) {
            now.kind = (enum disk_kind)kind;
            now.threads = threads;
            now.access = threads == 2 ? ETL_ACCESS_READ : ETL_ACCESS_MMAP;
            support_in_child(body);
        }
}

static void a_full_disk_is_no_space_until_there_is_some(void **state) {
    (void)state;
    in_every_setting(fill_and_free);
}

/* ---- Full while merging */

static void fill_before_a_load(void) {
    enum { PAIRS = 120000 };
    disk_mount(now.kind, small_directory(), SMALL_DISK);
    uint64_t space = disk_free_bytes(small_directory());
    etl_options options = small_options();
    options.merge_width = 2;
    etl_collector *collector = create(&options);
    CHILD_CHECK(counted_collect_all(collector, PAIRS) == ETL_OK);
    CHILD_CHECK(etl_flush(collector) == ETL_OK);
    CHILD_CHECK(stats_of(collector).runs >= 4);
    const char *ballast = disk_fill(small_directory(), 64 * KIB);
    for (unsigned again = 0; again < 2; again++) {
        struct counted counted = {0, PAIRS, 0};
        CHILD_CHECK(etl_load(collector, counted_load, &counted) == ETL_E_NOSPACE);
        check_message(collector);
        CHILD_CHECK(counted.next == 0);
        etl_iter *iter;
        CHILD_CHECK(etl_iter_open(&iter, collector, NULL) == ETL_E_NOSPACE && iter == NULL);
        CHILD_CHECK(stats_of(collector).merge_passes == 0);
    }
    CHILD_CHECK(unlink(ballast) == 0);
    check_load(collector, PAIRS);
    CHILD_CHECK(stats_of(collector).merge_passes >= 2);
    CHILD_CHECK(disk_is_free_again(small_directory(), space));
    etl_collector_destroy(collector);
}

static void a_full_disk_in_a_merge_pass_of_a_load(void **state) {
    (void)state;
    in_every_setting(fill_before_a_load);
}

/* Few descriptors: runs that are read are merged while collecting. There is room for the next run
 * but not for that. */
static void fill_before_a_pass(void) {
    disk_mount(now.kind, small_directory(), SMALL_DISK);
    struct rlimit limit;
    CHILD_CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    limit.rlim_cur = 32;
    CHILD_CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    etl_options options = small_options();
    options.access = ETL_ACCESS_READ;
    etl_collector *collector = create(&options);
    uint64_t collected = 0;
    while (stats_of(collector).runs < 7)
        collect_range(collector, collected, collected + 100), collected += 100;
    const uint64_t a_run = stats_of(collector).disk_bytes / 7;
    const char *ballast = disk_fill(small_directory(), 9 * a_run / 2);
    collected = collect_until_full(collector, collected);
    if (now.threads == ETL_THREADS_NONE) { /* a thread's runs may be fewer, and merged in time */
        CHILD_CHECK(stats_of(collector).merge_passes == 0);
        CHILD_CHECK(disk_free_bytes(small_directory()) > a_run);
    }
    check_message(collector);
    CHILD_CHECK(unlink(ballast) == 0);
    collect_range(collector, collected, collected + 20000);
    CHILD_CHECK(stats_of(collector).merge_passes >= 1);
    check_load(collector, collected + 20000);
    etl_collector_destroy(collector);
}

static void a_full_disk_in_a_merge_pass_of_collecting(void **state) {
    (void)state;
    in_every_setting(fill_before_a_pass);
}

/* ---- Full while saving: the old file stays, and nothing else; then there is room */

static void fill_before_a_save(void) {
    char path[400];
    disk_mount(now.kind, small_directory(), SMALL_DISK);
    snprintf(path, sizeof path, "%s/saved", small_directory());
    const char *directories[] = {large_directory(), NULL};
    etl_options options = small_options();
    options.temp_dirs = directories;
    etl_collector *collector = create(&options), *other = create(&options);
    CHILD_CHECK(counted_collect_all(collector, 1000) == ETL_OK);
    CHILD_CHECK(etl_save(collector, path) == ETL_OK);
    collect_range(collector, 1000, 100000);
    uint64_t entries = support_entries(small_directory()), space;
    const char *ballast = disk_fill(small_directory(), ROOM / 2);
    space = disk_free_bytes(small_directory());
    for (unsigned again = 0; again < 2; again++) {
        CHILD_CHECK(etl_save(collector, path) == ETL_E_NOSPACE);
        check_message(collector);
        CHILD_CHECK(support_entries(small_directory()) == entries + 1);
        CHILD_CHECK(disk_is_free_again(small_directory(), space));
    }
    CHILD_CHECK(etl_attach_run(other, path) == ETL_OK);
    check_load(other, 1000);
    CHILD_CHECK(unlink(ballast) == 0);
    CHILD_CHECK(etl_save(collector, path) == ETL_OK);
    CHILD_CHECK(support_entries(small_directory()) == entries);
    CHILD_CHECK(etl_attach_run(other, path) == ETL_OK);
    check_load(other, 100000);
    check_load(collector, 100000);
    etl_collector_destroy(collector);
    etl_collector_destroy(other);
}

static void a_full_disk_while_saving(void **state) {
    (void)state;
    in_every_setting(fill_before_a_save);
}

/* ---- More than one directory */

static void two_directories(void) {
    disk_mount(now.kind, small_directory(), SMALL_DISK);
    uint64_t space = disk_free_bytes(small_directory());
    const char *ballast = disk_fill(small_directory(), ROOM);
    const char *directories[] = {small_directory(), large_directory(), NULL};
    etl_options options = small_options();
    options.temp_dirs = directories;
    etl_collector *collector = create(&options);
    for (unsigned round = 0; round < 2; round++) {
        const uint64_t pairs = 200000; /* twice what the first holds */
        CHILD_CHECK(counted_collect_all(collector, pairs) == ETL_OK);
        CHILD_CHECK(support_files_held(large_directory()) != 0);
        if (round == 0)
            CHILD_CHECK(support_files_held(small_directory()) != 0);
        check_load(collector, pairs);
    }
    CHILD_CHECK(unlink(ballast) == 0);
    CHILD_CHECK(disk_is_free_again(small_directory(), space));
    etl_collector_destroy(collector);
}

static void the_next_directory_is_used_when_one_is_full(void **state) {
    (void)state;
    in_every_setting(two_directories);
}

/* ---- All of it comes back */

static void give_back(void) {
    enum { PAIRS = 100000 };
    disk_mount(now.kind, small_directory(), SMALL_DISK);
    const char *directory = small_directory();
    uint64_t space = disk_free_bytes(directory);
    etl_options options = small_options();
    etl_collector *collector = create(&options);
    CHILD_CHECK(counted_collect_all(collector, PAIRS) == ETL_OK);
    CHILD_CHECK(disk_free_bytes(directory) < space);
    check_load(collector, PAIRS);
    CHILD_CHECK(disk_is_free_again(directory, space));
    CHILD_CHECK(counted_collect_all(collector, PAIRS) == ETL_OK);
    CHILD_CHECK(etl_reset(collector) == ETL_OK);
    CHILD_CHECK(disk_is_free_again(directory, space));
    CHILD_CHECK(counted_collect_all(collector, PAIRS) == ETL_OK);
    etl_iter *iter;
    CHILD_CHECK(etl_iter_open(&iter, collector, NULL) == ETL_OK);
    CHILD_CHECK(etl_iter_next(iter, NULL, NULL) == ETL_OK);
    etl_collector_destroy(collector); /* with an iterator that still stands in its files */
    CHILD_CHECK(disk_is_free_again(directory, space));
    etl_iter_close(iter);
    CHILD_CHECK(support_files_held(directory) == 0);
}

static void load_reset_and_destroy_give_all_space_back(void **state) {
    (void)state;
    in_every_setting(give_back);
}

/* ---- disk_limit, as the disk sees it at each write */

static uint64_t space_before;
static _Atomic(uint64_t) space_taken;

static ssize_t look_at_the_disk(int descriptor, size_t size) {
    (void)descriptor;
    usleep(200); /* all threads have begun by then */
    uint64_t taken = space_before - disk_free_bytes(small_directory());
    uint64_t most = atomic_load(&space_taken);
    while (taken > most && !atomic_compare_exchange_weak(&space_taken, &most, taken))
        ;
    return (ssize_t)size;
}

static void limited(void) {
    enum { WRITE_BUFFER = 256 * 1024, PAGE = 4096 };
    disk_mount(now.kind, small_directory(), SMALL_DISK);
    space_before = disk_free_bytes(small_directory());
    atomic_store(&before_pwrite, look_at_the_disk);
    etl_options options = small_options();
    options.memory_limit = 8 * MIB; /* regions that are large beside the limit */
    options.disk_limit = 3 * MIB;
    etl_collector *collector = create(&options);
    uint64_t collected = collect_until_full(collector, 0);
    etl_stats stats = stats_of(collector);
    const uint64_t taken = atomic_load(&space_taken);
    printf("disk_limit %llu, threads %d: %llu accounted at most, %llu taken\n",
           (unsigned long long)options.disk_limit, now.threads,
           (unsigned long long)stats.disk_bytes_peak, (unsigned long long)taken);
    CHILD_CHECK(stats.disk_bytes_peak <= options.disk_limit);
    CHILD_CHECK(stats.disk_bytes_peak + WRITE_BUFFER > options.disk_limit);
    if (HAVE_OWN_PWRITE) /* files are rounded up to pages */
        CHILD_CHECK(taken <= options.disk_limit + (stats.runs + 4) * PAGE);
    struct counted counted = {0, collected, 0};
    int status = etl_load(collector, counted_load, &counted);
    CHILD_CHECK(status == ETL_E_NOSPACE /* for a merge pass */ || counted.next == collected);
    CHILD_CHECK((status == ETL_E_NOSPACE || status == ETL_OK) && counted.wrong == 0);
    etl_collector_destroy(collector);
}

static void the_disk_limit_is_exact_to_a_write_buffer(void **state) {
    (void)state;
    in_every_setting(limited);
}

static int setup(void **state) {
    if (support_setup(state) != 0)
        return -1;
    snprintf(small, sizeof small, "%s/small", support_directory());
    snprintf(large, sizeof large, "%s/large", support_directory());
    return mkdir(small_directory(), 0700) == 0 && mkdir(large_directory(), 0700) == 0 ? 0 : -1;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_disk_is_no_space_until_there_is_some),
        cmocka_unit_test(a_full_disk_in_a_merge_pass_of_a_load),
        cmocka_unit_test(a_full_disk_in_a_merge_pass_of_collecting),
        cmocka_unit_test(a_full_disk_while_saving),
        cmocka_unit_test(the_next_directory_is_used_when_one_is_full),
        cmocka_unit_test(load_reset_and_destroy_give_all_space_back),
        cmocka_unit_test(the_disk_limit_is_exact_to_a_write_buffer),
    };
    return cmocka_run_group_tests(tests, setup, support_teardown);
}
