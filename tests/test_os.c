/* test_os.c: the seam to the system: modes and masks whatever the process has set, limits, maps.
 */
#include "os.h"
#include "support.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char directory[64];

static int make_directory(void **unused) {
    (void)unused;
    snprintf(directory, sizeof directory, "/tmp/etl-test-os-XXXXXX");
    return mkdtemp(directory) != NULL ? 0 : -1;
}

/* Fails where anything was left behind. */
static int remove_directory(void **unused) {
    (void)unused;
    return rmdir(directory);
}

static int open_temp(void) {
    int descriptor;
    assert_int_equal(etl__os_temp_open(directory, "label/with .. odd\nbytes", &descriptor), 0);
    return descriptor;
}

static void test_temp_file(void **unused) {
    static const mode_t masks[] = {0, 022, 077, 0777};
    (void)unused;
    for (size_t i = 0; i < sizeof masks / sizeof masks[0]; i++) {
        mode_t before = umask(masks[i]);
        int descriptor = open_temp();
        assert_int_equal(umask(before), masks[i]);
        struct stat status;
        assert_int_equal(fstat(descriptor, &status), 0);
        assert_int_equal(status.st_mode & 07777, 0600);
        assert_int_equal(status.st_nlink, 0);
        assert_true((fcntl(descriptor, F_GETFD) & FD_CLOEXEC) != 0);
        uint8_t data[3] = "ab";
        size_t done;
        assert_int_equal(etl__os_write(descriptor, data, 2, 5), 0);
        memset(data, 0, sizeof data);
        assert_int_equal(etl__os_read(descriptor, data, 3, 5, &done), 0);
        assert_int_equal(done, 2);
        assert_memory_equal(data, "ab", 2);
        uint64_t size;
        assert_int_equal(etl__os_file_size(descriptor, &size), 0);
        assert_int_equal(size, 7);
        assert_int_equal(etl__os_truncate(descriptor, 3), 0);
        assert_int_equal(etl__os_read(descriptor, data, 3, 5, &done), 0);
        assert_int_equal(done, 0);
        assert_int_equal(etl__os_close(descriptor), 0);
    }
}

static void test_temp_directory_errors(void **unused) {
    char path[128];
    int descriptor;
    (void)unused;
    snprintf(path, sizeof path, "%s/missing", directory);
    assert_int_equal(etl__os_temp_open(path, "x", &descriptor), ENOENT);
    assert_int_equal(etl__os_directory_check(path), ENOENT);
    assert_int_equal(etl__os_directory_check(directory), 0);
    assert_int_equal(etl__os_directory_check("/dev/null"), ENOTDIR);
    assert_int_equal(etl__os_temp_open("/dev/null", "x", &descriptor), ENOTDIR);
    if (geteuid() != 0) {
        assert_int_equal(chmod(directory, 0500), 0);
        assert_int_equal(etl__os_directory_check(directory), EACCES);
        assert_int_equal(chmod(directory, 0700), 0);
    }
}

static void test_absolute(void **unused) {
    char out[512], here[256], expected[512];
    (void)unused;
    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(etl__os_absolute("/a/b//", out, sizeof out), 0);
    assert_string_equal(out, "/a/b");
    assert_int_equal(etl__os_absolute("///", out, sizeof out), 0);
    assert_string_equal(out, "/");
    assert_int_equal(etl__os_absolute("x/", out, sizeof out), 0);
    snprintf(expected, sizeof expected, "%s/x", strcmp(here, "/") == 0 ? "" : here);
    assert_string_equal(out, expected);
    assert_int_equal(etl__os_absolute("", out, sizeof out), ENOENT);
    assert_int_equal(etl__os_absolute("/abc", out, 5), 0);
    for (size_t size = 0; size < 5; size++)
        assert_int_equal(etl__os_absolute("/abc", out, size), ENAMETOOLONG);
    for (size_t size = 0; size <= strlen(expected); size++)
        assert_int_equal(etl__os_absolute("x", out, size), ENAMETOOLONG);
    assert_int_equal(etl__os_absolute("x", out, strlen(expected) + 1), 0);
}

/* In a child: the signal must neither kill, nor stay, nor swallow one that was pending before. */
static int pass_file_limit(bool pending_before) {
    static uint8_t data[100000];
    struct rlimit limit = {65536, RLIM_INFINITY};
    sigset_t set, before, after;
    sigemptyset(&set);
    sigaddset(&set, SIGXFSZ);
    int descriptor;
    if (etl__os_temp_open(directory, "limit", &descriptor) != 0)
        return 1;
    if (getrlimit(RLIMIT_FSIZE, &limit) != 0)
        return 2;
    limit.rlim_cur = 65536;
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0)
        return 2;
    if (pending_before) {
        pthread_sigmask(SIG_BLOCK, &set, NULL);
        raise(SIGXFSZ);
    }
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    if (etl__os_write(descriptor, data, sizeof data, 0) != EFBIG)
        return 3;
    int allocated = etl__os_allocate(descriptor, 0, 1 << 20);
    if (allocated != EFBIG && allocated != 0)
        return 4;
    if (etl__os_truncate(descriptor, 1 << 20) != EFBIG)
        return 5;
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    if (sigismember(&before, SIGXFSZ) != sigismember(&after, SIGXFSZ))
        return 6;
    sigset_t pending;
    sigpending(&pending);
    if ((sigismember(&pending, SIGXFSZ) == 1) != pending_before)
        return 7;
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0 ||
        etl__os_write(descriptor, data, sizeof data, 0) != 0)
        return 8;
    return 0;
}

static void test_file_limit(void **unused) {
    (void)unused;
    for (int pending = 0; pending < 2; pending++) {
        int status;
        pid_t child = support_fork();
        assert_true(child >= 0);
        if (child == 0)
            support_child_leave(pass_file_limit(pending == 1));
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
}

static void test_write_errors(void **unused) {
    (void)unused;
    int descriptor = open("/dev/full", O_WRONLY);
    if (descriptor >= 0) {
        assert_int_equal(etl__os_write(descriptor, "x", 1, 0), ENOSPC);
        close(descriptor);
    }
    assert_int_equal(etl__os_write(-1, "x", 1, 0), EBADF);
    assert_int_equal(etl__os_write(-1, "x", 1, UINT64_MAX), EFBIG);
    assert_int_equal(etl__os_allocate(-1, 1, INT64_MAX), EFBIG);
    size_t done;
    uint8_t byte;
    assert_int_equal(etl__os_read(-1, &byte, 1, 0, &done), EBADF);
}

static void test_allocate(void **unused) {
    uint64_t size;
    (void)unused;
    int descriptor = open_temp();
    assert_int_equal(etl__os_allocate(descriptor, 0, 0), 0);
    assert_int_equal(etl__os_allocate(descriptor, 0, 1 << 20), 0);
    assert_int_equal(etl__os_file_size(descriptor, &size), 0);
    assert_true(size == 0 || size == 1 << 20);
    /* What a pipe says is no word about space. */
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(etl__os_allocate(ends[1], 0, 4096), 0);
    close(ends[0]);
    close(ends[1]);
    etl__os_close(descriptor);
}

static void test_memory(void **unused) {
    static const size_t sizes[] = {1, 4096, (4u << 20) - 1, 4u << 20, (5u << 20) + 12345};
    (void)unused;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint8_t *memory = etl__os_map_memory(sizes[i]);
        assert_non_null(memory);
        assert_int_equal(memory[0] | memory[sizes[i] - 1], 0);
        memory[0] = memory[sizes[i] - 1] = 1;
        if (sizes[i] >= 4u << 20)
            assert_int_equal((uintptr_t)memory & ((2u << 20) - 1), 0);
        assert_int_equal(etl__os_unmap_memory(memory, sizes[i]), 0);
    }
    assert_null(etl__os_map_memory(SIZE_MAX));
    assert_null(etl__os_map_memory(SIZE_MAX / 2));
}

static void test_map_file(void **unused) {
    const uint8_t *map;
    (void)unused;
    size_t page = etl__os_page_size(), size = 5 * page + 1;
    assert_true(page >= 4096 && (page & (page - 1)) == 0);
    int descriptor = open_temp();
    assert_int_equal(etl__os_truncate(descriptor, size), 0);
    assert_int_equal(etl__os_write(descriptor, "z", 1, size - 1), 0);
    assert_int_equal(etl__os_map_file(descriptor, size, &map), 0);
    etl__os_read_ahead(descriptor, 0, size);
    etl__os_close(descriptor);
    assert_int_equal(map[size - 1], 'z');
    for (size_t from = 0; from < size; from += page / 3)
        etl__os_release_pages(map + from, size - from);
    assert_int_equal(map[size - 1], 'z');
    assert_int_equal(etl__os_unmap_file(map, size), 0);
    assert_int_not_equal(etl__os_map_file(-1, size, &map), 0);
}

static void *look_at_mask(void *argument) {
    pthread_sigmask(SIG_SETMASK, NULL, argument);
    return NULL;
}

static void test_thread(void **unused) {
    static const int asynchronous[] = {SIGTERM, SIGINT, SIGHUP, SIGALRM, SIGUSR1, SIGCHLD};
    sigset_t before, after, inside;
    etl__os_thread thread;
    (void)unused;
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    assert_int_equal(etl__os_thread_start(&thread, look_at_mask, &inside), 0);
    etl__os_thread_join(thread);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    for (size_t i = 0; i < sizeof asynchronous / sizeof asynchronous[0]; i++) {
        int number = asynchronous[i];
        assert_int_equal(sigismember(&inside, number), 1);
        assert_int_equal(sigismember(&before, number), sigismember(&after, number));
    }
    assert_int_equal(sigismember(&inside, SIGSEGV), 0);
}

struct shared {
    struct etl__os_lock lock;
    bool woken;
};

static void *wake(void *argument) {
    struct shared *shared = argument;
    etl__os_lock(&shared->lock);
    shared->woken = true;
    etl__os_wake_all(&shared->lock);
    etl__os_unlock(&shared->lock);
    return NULL;
}

static void test_lock(void **unused) {
    struct shared shared = {.woken = false};
    etl__os_thread thread;
    (void)unused;
    assert_int_equal(etl__os_lock_init(&shared.lock), 0);
    etl__os_lock(&shared.lock);
    uint64_t start = etl__os_now_ns();
    etl__os_wait_ms(&shared.lock, 20);
    assert_in_range(etl__os_now_ns() - start, 10u * 1000000u, 5000u * 1000000ull);
    assert_int_equal(etl__os_thread_start(&thread, wake, &shared), 0);
    while (!shared.woken)
        etl__os_wait(&shared.lock);
    etl__os_unlock(&shared.lock);
    etl__os_thread_join(thread);
    etl__os_lock_end(&shared.lock);
}

static void test_identity(void **unused) {
    (void)unused;
    assert_true(etl__os_random() != etl__os_random());
    assert_int_equal(etl__os_process_id(), getpid());
    assert_true(etl__os_descriptor_limit() >= 3);
    uint64_t now = etl__os_now_ns();
    assert_true(etl__os_now_ns() >= now);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_temp_file),    cmocka_unit_test(test_temp_directory_errors),
        cmocka_unit_test(test_absolute),     cmocka_unit_test(test_file_limit),
        cmocka_unit_test(test_write_errors), cmocka_unit_test(test_allocate),
        cmocka_unit_test(test_memory),       cmocka_unit_test(test_map_file),
        cmocka_unit_test(test_thread),       cmocka_unit_test(test_lock),
        cmocka_unit_test(test_identity),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
