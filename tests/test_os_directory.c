/* test_os_directory.c: directories that one collector holds, at the level of the system calls. */
#include "os.h"
#include "support.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void a_directory_is_made_or_found(void **state) {
    (void)state;
    const char *path = support_path("made");
    struct stat status;
    bool made = false;
    assert_int_equal(etl__os_directory_make(path, &made), 0);
    assert_true(made);
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0700);
    assert_int_equal(etl__os_directory_make(path, &made), 0);
    assert_false(made);
    assert_int_equal(rmdir(path), 0);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fclose(file);
    assert_int_equal(etl__os_directory_make(path, &made), ENOTDIR);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(etl__os_directory_make(support_path("no/such"), &made), ENOENT);
}

static const char *held;

static void hold_in_another_process(void) {
    int descriptor;
    CHILD_CHECK(etl__os_hold(held, &descriptor) == EBUSY);
    CHILD_CHECK(descriptor == -1);
}

static void die_with_the_lock(void) {
    int descriptor;
    CHILD_CHECK(etl__os_hold(held, &descriptor) == 0);
}

static void a_lock_is_for_one_opening_and_ends_with_its_process(void **state) {
    (void)state;
    int first, second;
    held = support_path("lock");
    assert_int_equal(etl__os_hold(held, &first), 0);
    assert_int_equal(etl__os_hold(held, &second), EBUSY);
    support_in_child(hold_in_another_process);
    etl__os_release(first);
    support_in_child(die_with_the_lock);
    assert_int_equal(etl__os_hold(held, &second), 0);
    etl__os_release(second);
    assert_int_equal(etl__os_hold(support_path("no/such"), &second), ENOENT);
}

struct seen {
    size_t count;
    bool lock;
};

static void see(void *context, const char *name) {
    struct seen *seen = context;
    seen->count++;
    seen->lock |= strcmp(name, "lock") == 0;
    if (strcmp(name, "lock") == 0)
        assert_int_equal(unlink(support_path(name)), 0);
}

static void names_are_listed_and_may_be_removed(void **state) {
    (void)state;
    struct seen seen = {0, false};
    assert_int_equal(etl__os_directory_list(support_directory(), see, &seen), 0);
    assert_in_range(seen.count, 3, 100); /* "." and ".." too */
    assert_true(seen.lock);
    assert_int_equal(etl__os_directory_list(support_path("no"), see, &seen), ENOENT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_directory_is_made_or_found),
        cmocka_unit_test(a_lock_is_for_one_opening_and_ends_with_its_process),
        cmocka_unit_test(names_are_listed_and_may_be_removed),
    };
    return cmocka_run_group_tests(tests, support_setup, support_teardown);
}
