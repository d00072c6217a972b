/* test_kill.c: a process that is killed at any moment leaves no file and no space behind, on file
 * systems that know files without a name and on those that do not. */
#include "disk_support.h"
#include "oracle.h"
#include "support.h"

#include <signal.h>
#include <sys/wait.h>

enum { DISK = 24 * 1024 * 1024, KILLS = 50, LATEST_US = 30000 };

static const char *disk_directory(void) {
    static char path[300];
    snprintf(path, sizeof path, "%s/disk", support_directory());
    return path;
}

static struct {
    enum disk_kind kind;
    bool nameless;
} now;

/* Collect, merge, load and iterate until it is killed. */
static _Noreturn void work(unsigned number) {
    const char *directories[] = {disk_directory(), NULL};
    etl_options options = support_options(MIB);
    options.temp_dirs = directories;
    options.threads = number % 3 == 0 ? ETL_THREADS_NONE : (int)(number % 3);
    options.access = number % 2 ? ETL_ACCESS_MMAP : ETL_ACCESS_READ;
    options.merge_width = number % 5 == 0 ? 2 : 0;
    alarm(60); /* should nobody come */
    for (;;) {
        etl_collector *collector;
        CHILD_CHECK(etl_collector_create(&collector, &options) == ETL_OK);
        for (unsigned round = 0; round < 3; round++) {
            CHILD_CHECK(counted_collect_all(collector, 60000) == ETL_OK);
            if (round == 1)
                CHILD_CHECK(etl_reset(collector) == ETL_OK);
            else
                CHILD_CHECK(counted_load_matches(collector, 60000));
        }
        etl_collector_destroy(collector);
    }
}

/* What has no name is gone with its process. Where each file has one for a moment, before anything
 * is written, a name may be left by each of the three threads: of an empty file. */
static void check_names(void) {
    if (now.nameless) {
        CHILD_CHECK(support_entries(disk_directory()) == 0);
        return;
    }
    char command[400];
    snprintf(command, sizeof command, "test -z \"$(find '%s' -type f -size +0)\"",
             disk_directory());
    CHILD_CHECK(system(command) == 0);
    CHILD_CHECK(support_entries(disk_directory()) <= 3);
    snprintf(command, sizeof command, "find '%s' -type f -delete", disk_directory());
    CHILD_CHECK(system(command) == 0);
}

static void kill_and_look(void) {
    disk_mount(now.kind, disk_directory(), DISK);
    char of_ext4[400];
    snprintf(of_ext4, sizeof of_ext4, "%s/lost+found", disk_directory());
    (void)rmdir(of_ext4);
    if (!now.nameless)
        disk_forget_nameless_files();
    const uint64_t space = disk_free_bytes(disk_directory());
    struct prng prng;
    prng_start(&prng, (uint64_t)now.kind * 2 + now.nameless);
    size_t kills = support_scaled(KILLS), used = 0;
    for (unsigned i = 0; i < kills; i++) {
        pid_t child = support_fork();
        CHILD_CHECK(child >= 0);
        if (child == 0)
            work(i);
        usleep((useconds_t)prng_below(&prng, LATEST_US));
        while (i + 1 == kills && disk_free_bytes(disk_directory()) >= space)
            usleep(1000); /* the last one has files for certain */
        used += disk_free_bytes(disk_directory()) < space;
        CHILD_CHECK(kill(child, SIGKILL) == 0);
        int status;
        CHILD_CHECK(waitpid(child, &status, 0) == child);
        CHILD_CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        check_names();
        CHILD_CHECK(disk_is_free_again(disk_directory(), space));
    }
    printf("%zu of %zu were killed while they had files\n", used, kills);
    CHILD_CHECK(used != 0);
}

static void kill_on(enum disk_kind kind, bool nameless) {
    now.kind = kind;
    now.nameless = nameless;
    support_in_child(kill_and_look);
}

static void sigkill_at_any_moment_leaves_nothing_on_a_tmpfs(void **state) {
    (void)state;
    kill_on(DISK_TMPFS, true);
}

static void sigkill_at_any_moment_leaves_nothing_on_an_ext4(void **state) {
    (void)state;
    kill_on(DISK_EXT4, true);
}

static void sigkill_leaves_no_bytes_where_files_need_a_name(void **state) {
    (void)state;
    kill_on(DISK_EXT4, false);
}

static int setup(void **state) {
    return support_setup(state) == 0 && mkdir(disk_directory(), 0700) == 0 ? 0 : -1;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sigkill_at_any_moment_leaves_nothing_on_a_tmpfs),
        cmocka_unit_test(sigkill_at_any_moment_leaves_nothing_on_an_ext4),
        cmocka_unit_test(sigkill_leaves_no_bytes_where_files_need_a_name),
    };
    return cmocka_run_group_tests(tests, setup, support_teardown);
}
