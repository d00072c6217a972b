/* test_disk.c: a disk that is really full: a small file system of its own, mounted where only this
 * test's children see it. Skipped where that is not allowed. */
#include "oracle.h"
#include "support.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#if defined(__linux__)
#include <sched.h>
#include <sys/mount.h>
#endif

enum { SMALL_DISK = 12 * 1024 * 1024, BALLAST = 9 * 1024 * 1024 };

static const char *small_directory(void) {
    static char path[300];
    snprintf(path, sizeof path, "%s/small", support_directory());
    return path;
}

static const char *large_directory(void) {
    static char path[300];
    snprintf(path, sizeof path, "%s/large", support_directory());
    return path;
}

/* In a child: mount a file system of SMALL_DISK bytes at small_directory(). */
static void mount_small_disk(void) {
#if defined(__linux__)
    if (unshare(CLONE_NEWNS) == 0) {
        mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL);
        char size[32];
        snprintf(size, sizeof size, "size=%d", SMALL_DISK);
        if (mount("tmpfs", small_directory(), "tmpfs", 0, size) == 0)
            return;
    }
#endif
    _exit(SUPPORT_CHILD_SKIP);
}

static uint64_t free_bytes(const char *path) {
    struct statvfs disk;
    CHILD_CHECK(statvfs(path, &disk) == 0);
    return (uint64_t)disk.f_bfree * disk.f_frsize;
}

static const char *put_ballast(void) {
    static char path[320];
    snprintf(path, sizeof path, "%s/ballast", small_directory());
    int descriptor = open(path, O_CREAT | O_WRONLY, 0600);
    CHILD_CHECK(descriptor >= 0);
    static const char zeros[64 * 1024];
    for (size_t done = 0; done < BALLAST; done += sizeof zeros)
        CHILD_CHECK(write(descriptor, zeros, sizeof zeros) == (ssize_t)sizeof zeros);
    close(descriptor);
    return path;
}

static uint64_t collect_until_full(etl_collector *collector, uint64_t from) {
    int status;
    while ((status = counted_collect(collector, from)) == ETL_OK)
        from++;
    CHILD_CHECK(status == ETL_E_NOSPACE);
    return from;
}

static void check_load(etl_collector *collector, uint64_t count) {
    struct counted counted = {0, count, 0};
    int status = etl_load(collector, counted_load, &counted);
    if (status != ETL_OK)
        fprintf(stderr, "%d: %s\n", status, etl_collector_message(collector));
    CHILD_CHECK(status == ETL_OK);
    CHILD_CHECK(counted.next == count && counted.wrong == 0);
}

static void fill_and_free(int threads, etl_access access) {
    const char *directories[] = {small_directory(), NULL};
    mount_small_disk();
    uint64_t space = free_bytes(small_directory());
    const char *ballast = put_ballast();
    etl_options options = support_options(MIB);
    options.temp_dirs = directories;
    options.threads = threads;
    options.access = access;
    etl_collector *collector;
    CHILD_CHECK(etl_collector_create(&collector, &options) == ETL_OK);
    uint64_t accepted = collect_until_full(collector, 0);
    CHILD_CHECK(accepted >= 30000);
    for (unsigned again = 0; again < 3; again++) {
        int status = counted_collect(collector, accepted); /* there may be memory for one more */
        CHILD_CHECK(status == ETL_OK || status == ETL_E_NOSPACE);
        accepted += status == ETL_OK;
        CHILD_CHECK(etl_flush(collector) == ETL_E_NOSPACE);
        CHILD_CHECK(strstr(etl_collector_message(collector), small_directory()) != NULL);
        CHILD_CHECK(strpbrk(etl_collector_message(collector), "0123456789") != NULL);
    }
    CHILD_CHECK(unlink(ballast) == 0);
    CHILD_CHECK(counted_collect(collector, accepted) == ETL_OK);
    for (uint64_t i = accepted + 1; i < accepted + 20000; i++)
        CHILD_CHECK(counted_collect(collector, i) == ETL_OK);
    check_load(collector, accepted + 20000);
    CHILD_CHECK(free_bytes(small_directory()) == space);
    accepted = collect_until_full(collector, 0); /* once more, and read what there is */
    struct counted counted = {0, accepted, 0};
    int status = etl_load(collector, counted_load, &counted);
    CHILD_CHECK(status == ETL_E_NOSPACE || (status == ETL_OK && counted.next == accepted));
    CHILD_CHECK(counted.wrong == 0);
    if (status == ETL_OK) /* merging may need a little disk, or not */
        collect_until_full(collector, 0);
    CHILD_CHECK(etl_reset(collector) == ETL_OK);
    CHILD_CHECK(free_bytes(small_directory()) == space);
    collect_until_full(collector, 0);
    etl_collector_destroy(collector);
    CHILD_CHECK(free_bytes(small_directory()) == space);
}

static void fill_mapped_without_threads(void) {
    fill_and_free(ETL_THREADS_NONE, ETL_ACCESS_MMAP);
}

static void fill_mapped(void) {
    fill_and_free(1, ETL_ACCESS_MMAP);
}

static void fill_read(void) {
    fill_and_free(2, ETL_ACCESS_READ);
}

static void a_full_disk_is_no_space_until_there_is_some(void **state) {
    (void)state;
    support_in_child(fill_mapped_without_threads);
    support_in_child(fill_mapped);
    support_in_child(fill_read);
}

static void two_directories(int threads) {
    const char *directories[] = {small_directory(), large_directory(), NULL};
    mount_small_disk();
    uint64_t space = free_bytes(small_directory());
    etl_options options = support_options(MIB);
    options.temp_dirs = directories;
    options.threads = threads;
    etl_collector *collector;
    CHILD_CHECK(etl_collector_create(&collector, &options) == ETL_OK);
    for (unsigned round = 0; round < 2; round++) {
        const uint64_t pairs = 750000; /* twice what the first holds */
        CHILD_CHECK(counted_collect_all(collector, pairs) == ETL_OK);
        CHILD_CHECK(support_files_held(large_directory()) != 0);
        if (round == 0)
            CHILD_CHECK(support_files_held(small_directory()) != 0);
        CHILD_CHECK(counted_load_matches(collector, pairs));
        CHILD_CHECK(free_bytes(small_directory()) == space);
    }
    etl_collector_destroy(collector);
}

static void two_directories_without_threads(void) {
    two_directories(ETL_THREADS_NONE);
}

static void two_directories_with_threads(void) {
    two_directories(2);
}

static void the_next_directory_is_used_when_one_is_full(void **state) {
    (void)state;
    support_in_child(two_directories_without_threads);
    support_in_child(two_directories_with_threads);
}

static int setup(void **state) {
    return support_setup(state) == 0 && mkdir(small_directory(), 0700) == 0 &&
                   mkdir(large_directory(), 0700) == 0
               ? 0
               : -1;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_disk_is_no_space_until_there_is_some),
        cmocka_unit_test(the_next_directory_is_used_when_one_is_full),
    };
    return cmocka_run_group_tests(tests, setup, support_teardown);
}
