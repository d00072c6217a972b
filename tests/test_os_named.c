/* test_os_named.c: files with a name, at the seam to the system: drafts that take a name, and what
 * is refused at once. */
#include "os.h"
#include "support.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void make_file(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void assert_text(const char *path, const char *text) {
    char data[16];
    size_t done;
    int descriptor;
    assert_int_equal(etl__os_open_regular(path, &descriptor), 0);
    assert_int_equal(etl__os_read(descriptor, data, sizeof data, 0, &done), 0);
    assert_int_equal(etl__os_close(descriptor), 0);
    assert_int_equal(done, strlen(text));
    assert_memory_equal(data, text, done);
}

/* A draft takes the place of what is there, or is dropped. */
static void live_draft(const char *path, const char *text, bool publish) {
    char name[ETL__OS_PATH];
    const char *operation;
    int descriptor, directory;
    struct stat status;
    assert_int_equal(etl__os_check_replaceable(path), 0);
    assert_int_equal(etl__os_directory_open(path, &directory), 0);
    mode_t before = umask(0777);
    assert_int_equal(etl__os_draft_open(path, name, &descriptor), 0);
    assert_int_equal(umask(before), 0777);
    assert_true((fcntl(descriptor, F_GETFD) & FD_CLOEXEC) != 0);
    assert_true((fcntl(directory, F_GETFD) & FD_CLOEXEC) != 0);
    assert_int_equal(etl__os_write(descriptor, text, strlen(text), 0), 0);
    if (publish) {
        assert_int_equal(etl__os_draft_take_place(descriptor, path, name, &operation), 0);
        assert_string_equal(name, "");
        assert_int_equal(stat(path, &status), 0);
        assert_int_equal(status.st_mode & 07777, 0600);
        assert_int_equal(status.st_nlink, 1);
    } else { /* where a directory is it cannot go, and then it has a name */
        const char *taken = support_path("taken");
        assert_int_equal(mkdir(taken, 0700), 0);
        assert_int_equal(etl__os_draft_take_place(descriptor, taken, name, &operation), EISDIR);
        assert_string_equal(operation, "rename a file to");
        assert_int_equal(etl__os_unlink(name), 0);
        assert_int_equal(etl__os_unlink(name), ENOENT);
        assert_int_equal(rmdir(taken), 0);
    }
    assert_int_equal(fcntl(descriptor, F_GETFD), -1);
    assert_int_equal(etl__os_directory_sync(directory), 0);
    assert_int_equal(etl__os_close(directory), 0);
}

static void test_draft(void **unused) {
    const char *path = support_path("draft");
    (void)unused;
    live_draft(path, "new", true);
    assert_text(path, "new");
    live_draft(path, "newer", true);
    assert_text(path, "newer");
    live_draft(path, "dropped", false);
    assert_text(path, "newer");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(support_entries(support_directory()), 0);
}

/* Relative to the working directory, and in the root. */
static void test_where(void **unused) {
    char here[1024], name[ETL__OS_PATH], longest[ETL__OS_PATH + 64];
    int descriptor;
    (void)unused;
    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(chdir(support_directory()), 0);
    live_draft("relative", "x", true);
    assert_int_equal(unlink("relative"), 0);
    assert_int_equal(chdir(here), 0);
    assert_int_equal(etl__os_directory_open("/x", &descriptor), 0);
    assert_int_equal(etl__os_close(descriptor), 0);
    assert_int_equal(etl__os_draft_open(support_path("missing/x"), name, &descriptor), ENOENT);
    assert_string_equal(name, "");
    assert_int_equal(etl__os_directory_open(support_path("missing/x"), &descriptor), ENOENT);
    memset(longest, 'x', sizeof longest);
    longest[0] = longest[sizeof longest - 3] = '/';
    longest[sizeof longest - 1] = '\0';
    assert_int_equal(etl__os_draft_open(longest, name, &descriptor), ENAMETOOLONG);
    assert_int_equal(etl__os_directory_open(longest, &descriptor), ENAMETOOLONG);
}

static void test_other_kinds(void **unused) {
    const char *file = support_path("file"), *other = support_path("other");
    int descriptor;
    (void)unused;
    assert_int_equal(etl__os_open_regular(file, &descriptor), ENOENT);
    make_file(file, "file");
    assert_text(file, "file");
    assert_int_equal(etl__os_open_regular(support_directory(), &descriptor), EISDIR);
    assert_int_equal(etl__os_check_replaceable(support_directory()), EISDIR);
    assert_int_equal(etl__os_open_regular("/dev/null", &descriptor), EINVAL);
    assert_int_equal(etl__os_check_replaceable("/dev/null"), EINVAL);
    assert_int_equal(mkfifo(other, 0600), 0);
    assert_int_equal(etl__os_open_regular(other, &descriptor), EINVAL);
    assert_int_equal(etl__os_check_replaceable(other), EINVAL);
    assert_int_equal(unlink(other), 0);
    assert_int_equal(symlink(file, other), 0);
    assert_text(other, "file");
    live_draft(other, "link", true); /* the link is replaced, not what it points to */
    assert_text(file, "file");
    assert_text(other, "link");
    assert_int_equal(unlink(other), 0);
    assert_int_equal(unlink(file), 0);
    assert_int_equal(support_entries(support_directory()), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_draft),
        cmocka_unit_test(test_where),
        cmocka_unit_test(test_other_kinds),
    };
    return cmocka_run_group_tests(tests, support_setup, support_teardown);
}
