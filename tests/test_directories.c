/* test_directories.c: temporary directories that cannot serve, or stop serving. */
#include "disk_support.h"
#include "oracle.h"
#include "support.h"

static etl_collector *create(const etl_options *options) {
    etl_collector *collector = NULL;
    ASSERT_OK(NULL, etl_collector_create(&collector, options));
    return collector;
}

static void check_refused(const char *directory, int error) {
    const char *directories[] = {directory, NULL};
    etl_options options = support_options(MIB);
    options.temp_dirs = directories;
    etl_collector *collector = (etl_collector *)(uintptr_t)1;
    char message[600] = "";
    int status = etl_collector_create_message(&collector, &options, message, sizeof message);
    if (status != ETL_E_IO || strstr(message, strerror(error)) == NULL)
        fprintf(stderr, "%s: %d, %s\n", directory, status, message);
    CHILD_CHECK(status == ETL_E_IO && collector == NULL);
    CHILD_CHECK(strstr(message, directory) != NULL);
    CHILD_CHECK(strstr(message, strerror(error)) != NULL);
}

static void refuse_directories(void) {
    CHILD_CHECK(chmod(support_directory(), 0755) == 0);
    const char *path = support_path("a-directory");
    check_refused(path, ENOENT);
    int descriptor = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    CHILD_CHECK(descriptor >= 0 && close(descriptor) == 0);
    check_refused(path, ENOTDIR);
    CHILD_CHECK(unlink(path) == 0 && symlink("nowhere", path) == 0);
    check_refused(path, ENOENT);
    CHILD_CHECK(unlink(path) == 0 && symlink(path, path) == 0);
    check_refused(path, ELOOP);
    CHILD_CHECK(unlink(path) == 0 && mkdir(path, 0700) == 0);
    char inside[600];
    snprintf(inside, sizeof inside, "%s/inside", path);
    CHILD_CHECK(mkdir(inside, 0777) == 0);
    if (geteuid() == 0) {
        if (setgid(65534) != 0 || setuid(65534) != 0)
            disk_skip("another user");
        check_refused(path, EACCES);
        check_refused(inside, EACCES);
    } else {
        CHILD_CHECK(chmod(path, 0500) == 0);
        check_refused(path, EACCES);
        CHILD_CHECK(chmod(path, 0700) == 0);
    }
}

static void remove_directories(void) {
    char inside[600];
    snprintf(inside, sizeof inside, "%s/inside", support_path("a-directory"));
    rmdir(inside);
    rmdir(support_path("a-directory"));
}

static void directories_that_cannot_serve_are_refused_with_the_reason(void **state) {
    (void)state;
    support_in_child(refuse_directories);
    remove_directories();
}

static void read_only_and_full(void) {
    static char path[600];
    snprintf(path, sizeof path, "%s", support_path("a-directory"));
    disk_mount(DISK_TMPFS, path, 4 * MIB);
    disk_make_read_only(path, true);
    check_refused(path, EROFS);
    disk_make_read_only(path, false);
    const char *ballast = disk_fill(path, 0);
    const char *directories[] = {path, NULL};
    etl_options options = support_options(MIB);
    options.temp_dirs = directories;
    etl_collector *collector; /* it may have space when it is needed */
    CHILD_CHECK(etl_collector_create(&collector, &options) == ETL_OK);
    CHILD_CHECK(counted_collect_all(collector, 1000) == ETL_OK);
    for (unsigned again = 0; again < 2; again++) {
        CHILD_CHECK(etl_flush(collector) == ETL_E_NOSPACE);
        CHILD_CHECK(strstr(etl_collector_message(collector), path) != NULL);
    }
    CHILD_CHECK(unlink(ballast) == 0);
    CHILD_CHECK(etl_flush(collector) == ETL_OK);
    CHILD_CHECK(counted_load_matches(collector, 1000));
    etl_collector_destroy(collector);
}

static void a_read_only_disk_is_refused_and_a_full_one_told_at_the_first_spill(void **state) {
    (void)state;
    mkdir(support_path("a-directory"), 0700);
    support_in_child(read_only_and_full);
    rmdir(support_path("a-directory"));
}

static void a_directory_that_vanishes_is_named_and_serves_again_when_it_is_back(void **state) {
    (void)state;
    const char *path = support_path("vanishing");
    assert_int_equal(mkdir(path, 0700), 0);
    const char *directories[] = {path, NULL};
    for (int threads = ETL_THREADS_NONE; threads <= 1; threads += 2) {
        etl_options options = support_options(MIB);
        options.temp_dirs = directories;
        options.threads = threads;
        etl_collector *collector = create(&options);
        ASSERT_OK(collector, counted_collect_all(collector, 60000));
        assert_int_equal(rmdir(path), 0); /* runs in it stay whole */
        ASSERT_STATUS(ETL_E_IO, collector, etl_flush(collector));
        assert_non_null(strstr(etl_collector_message(collector), path));
        assert_int_equal(symlink("nowhere", path), 0);
        ASSERT_STATUS(ETL_E_IO, collector, etl_flush(collector));
        assert_int_equal(unlink(path), 0);
        int descriptor = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
        assert_true(descriptor >= 0 && close(descriptor) == 0);
        ASSERT_STATUS(ETL_E_IO, collector, etl_flush(collector));
        assert_int_equal(unlink(path), 0);
        assert_int_equal(mkdir(path, 0700), 0);
        ASSERT_OK(collector, etl_flush(collector));
        counted_assert_load(collector, 60000);
        etl_collector_destroy(collector);
        assert_int_equal(support_entries(path), 0);
    }
    assert_int_equal(rmdir(path), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(directories_that_cannot_serve_are_refused_with_the_reason),
        cmocka_unit_test(a_read_only_disk_is_refused_and_a_full_one_told_at_the_first_spill),
        cmocka_unit_test(a_directory_that_vanishes_is_named_and_serves_again_when_it_is_back),
    };
    return cmocka_run_group_tests(tests, support_setup, support_teardown);
}
