/* test_process.c: the library inside a process that forks, takes signals, has limits and dies. */
#include "oracle.h"
#include "support.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAIRS = 100000 };

static etl_collector *create(const etl_options *options) {
    etl_collector *collector = NULL;
    ASSERT_OK(NULL, etl_collector_create(&collector, options));
    return collector;
}

/* ---- fork */

/* A child that does nothing but destroy, which must return at once: it has 20 seconds. */
static void assert_child_may_destroy(etl_collector *collector) {
    fflush(NULL);
    pid_t child = support_fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(20);
        etl_collector_destroy(collector);
        support_child_leave(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void a_forked_child_may_destroy_at_any_moment(void **state) {
    (void)state;
    for (int threads = ETL_THREADS_NONE; threads <= 2; threads++)
        for (int access = ETL_ACCESS_MMAP; access <= ETL_ACCESS_READ; access++) {
            etl_options options = support_options(MIB);
            options.threads = threads;
            options.access = (etl_access)access;
            etl_collector *collector = create(&options);
            assert_child_may_destroy(collector);
            for (uint64_t i = 0; i < PAIRS; i++) {
                ASSERT_OK(collector, counted_collect(collector, i * 7 % PAIRS));
                if (i % 15000 == 14999) /* a spill is under way at some of them */
                    assert_child_may_destroy(collector);
            }
            etl_iter *iter;
            ASSERT_OK(collector, etl_iter_open(&iter, collector, NULL));
            ASSERT_OK(collector, etl_iter_next(iter, NULL, NULL));
            assert_child_may_destroy(collector);
            ASSERT_OK(collector, etl_iter_next(iter, NULL, NULL));
            etl_iter_close(iter);
            counted_assert_load(collector, PAIRS);
            etl_collector_destroy(collector);
        }
}

static int fork_in_the_middle(void *context, etl_slice key, etl_slice value) {
    struct counted *counted = context;
    if (counted->next == PAIRS / 2) {
        pid_t child = support_fork();
        if (child == 0)
            support_child_leave(0); /* says goodbye without a word */
        int status;
        counted->wrong += child < 0 || waitpid(child, &status, 0) != child || status != 0;
    }
    return counted_load(context, key, value);
}

static void a_fork_inside_a_callback_leaves_the_parent_whole(void **state) {
    (void)state;
    etl_options options = support_options(MIB);
    etl_collector *collector = create(&options);
    ASSERT_OK(collector, counted_collect_all(collector, PAIRS));
    struct counted counted = {0, PAIRS, 0};
    ASSERT_OK(collector, etl_load(collector, fork_in_the_middle, &counted));
    assert_int_equal(counted.next, PAIRS);
    assert_int_equal(counted.wrong, 0);
    etl_collector_destroy(collector);
}

/* A child may make collectors of its own, also when its parent has threads at work. */
static etl_collector *inherited;

static void use_a_collector_of_its_own(void) {
    etl_options options = support_options(MIB);
    etl_collector *own;
    etl_collector_destroy(inherited);
    options.threads = ETL_THREADS_NONE;
    CHILD_CHECK(etl_collector_create(&own, &options) == ETL_OK);
    CHILD_CHECK(counted_collect_all(own, 60000) == ETL_OK);
    CHILD_CHECK(counted_load_matches(own, 60000));
    etl_collector_destroy(own);
}

static void a_forked_child_may_have_collectors_of_its_own(void **state) {
    (void)state;
    etl_options options = support_options(MIB);
    inherited = create(&options);
    ASSERT_OK(inherited, counted_collect_all(inherited, 60000));
    support_in_child(use_a_collector_of_its_own);
    counted_assert_load(inherited, 60000);
    etl_collector_destroy(inherited);
}

/* ---- Signals */

static const int SIGNALS[] = {SIGUSR1, SIGUSR2, SIGTERM, SIGINT, SIGHUP, SIGALRM, SIGCHLD, SIGIO};

static atomic_int handled;

static void count_signal(int signal_number) {
    (void)signal_number;
    atomic_fetch_add(&handled, 1);
}

/* The signals go to the process while this thread blocks them: one that a library thread would
 * take is handled, else it stays pending. The threads are born before, when nothing is blocked. */
static void background_threads_take_no_signals(void **state) {
    (void)state;
    struct sigaction action = {.sa_handler = count_signal}, before[COUNT_OF(SIGNALS)];
    sigset_t set, old;
    sigemptyset(&set);
    etl_options options = support_options(MIB);
    options.threads = 3;
    etl_collector *collector = create(&options);
    ASSERT_OK(collector, counted_collect_all(collector, PAIRS));
    for (size_t i = 0; i < COUNT_OF(SIGNALS); i++) {
        sigaction(SIGNALS[i], &action, &before[i]);
        sigaddset(&set, SIGNALS[i]);
    }
    atomic_store(&handled, 0);
    assert_int_equal(pthread_sigmask(SIG_BLOCK, &set, &old), 0);
    for (size_t i = 0; i < COUNT_OF(SIGNALS); i++)
        kill(getpid(), SIGNALS[i]);
    int status = counted_collect_all(collector, PAIRS);
    status = status != ETL_OK ? status : etl_flush(collector);
    int handled_by_threads = atomic_load(&handled);
    sigset_t pending;
    sigpending(&pending);
    pthread_sigmask(SIG_SETMASK, &old, NULL); /* they are handled here and now */
    for (size_t i = 0; i < COUNT_OF(SIGNALS); i++)
        sigaction(SIGNALS[i], &before[i], NULL);
    ASSERT_OK(collector, status);
    assert_int_equal(handled_by_threads, 0);
    for (size_t i = 0; i < COUNT_OF(SIGNALS); i++)
        assert_int_equal(sigismember(&pending, SIGNALS[i]), 1);
    assert_int_equal(atomic_load(&handled), COUNT_OF(SIGNALS));
    etl_collector_destroy(collector);
}

static void assert_mask(const sigset_t *expected) {
    sigset_t now;
    assert_int_equal(pthread_sigmask(SIG_BLOCK, NULL, &now), 0);
    for (int i = 1; i < 32; i++)
        assert_int_equal(sigismember(&now, i), sigismember(expected, i));
}

static int check_mask_load(void *context, etl_slice key, etl_slice value) {
    (void)key, (void)value;
    assert_mask(context);
    return 0;
}

static void the_mask_of_the_caller_is_never_changed(void **state) {
    (void)state;
    sigset_t mask, before;
    sigemptyset(&mask);
    sigaddset(&mask, SIGUSR2);
    pthread_sigmask(SIG_SETMASK, &mask, &before);
    for (int threads = ETL_THREADS_NONE; threads <= 1; threads++) {
        etl_options options = support_options(MIB);
        options.threads = threads;
        etl_collector *collector = create(&options);
        assert_mask(&mask);
        for (uint64_t i = 0; i < PAIRS; i++) {
            ASSERT_OK(collector, counted_collect(collector, i));
            if (i % 512 == 0)
                assert_mask(&mask);
        }
        ASSERT_OK(collector, etl_flush(collector));
        assert_mask(&mask);
        ASSERT_OK(collector, etl_load(collector, check_mask_load, &mask));
        assert_mask(&mask);
        etl_collector_destroy(collector);
        assert_mask(&mask);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void no_handler_is_installed(void **state) {
    (void)state;
    struct sigaction before[32], after;
    for (int i = 1; i < 32; i++)
        sigaction(i, NULL, &before[i]);
    etl_options options = support_options(MIB);
    etl_collector *collector = create(&options);
    ASSERT_OK(collector, counted_collect_all(collector, PAIRS));
    for (int i = 1; i < 32; i++)
        if (sigaction(i, NULL, &after) == 0)
            assert_ptr_equal(after.sa_handler, before[i].sa_handler);
    counted_assert_load(collector, PAIRS);
    etl_collector_destroy(collector);
}

/* ---- Limits. SIGXFSZ has its default here, which is to kill. */

static void set_soft_limit(int resource, rlim_t soft) {
    struct rlimit limit;
    CHILD_CHECK(getrlimit(resource, &limit) == 0);
    limit.rlim_cur = soft < limit.rlim_max ? soft : limit.rlim_max;
    CHILD_CHECK(setrlimit(resource, &limit) == 0);
}

static void file_size_limit(int threads) {
    etl_options options = support_options(MIB);
    options.threads = threads;
    etl_collector *collector;
    CHILD_CHECK(etl_collector_create(&collector, &options) == ETL_OK);
    set_soft_limit(RLIMIT_FSIZE, 100000);
    uint64_t accepted = 0;
    int status = ETL_OK;
    while (accepted < PAIRS && (status = counted_collect(collector, accepted)) == ETL_OK)
        accepted++;
    CHILD_CHECK(status == ETL_E_NOSPACE);
    for (unsigned again = 0; again < 3; again++) {
        CHILD_CHECK(counted_collect(collector, accepted) == ETL_E_NOSPACE);
        CHILD_CHECK(etl_flush(collector) == ETL_E_NOSPACE);
        CHILD_CHECK(etl_collector_message(collector)[0] != '\0');
    }
    sigset_t pending;
    sigpending(&pending);
    CHILD_CHECK(!sigismember(&pending, SIGXFSZ));
    set_soft_limit(RLIMIT_FSIZE, RLIM_INFINITY);
    CHILD_CHECK(counted_collect(collector, accepted) == ETL_OK);
    for (uint64_t i = accepted + 1; i < PAIRS; i++)
        CHILD_CHECK(counted_collect(collector, i) == ETL_OK);
    CHILD_CHECK(counted_load_matches(collector, PAIRS));
    etl_collector_destroy(collector);
}

static void file_size_limit_without_threads(void) {
    file_size_limit(ETL_THREADS_NONE);
}

static void file_size_limit_with_a_thread(void) {
    file_size_limit(1);
}

static void the_file_size_limit_is_no_space_and_no_signal(void **state) {
    (void)state;
    support_in_child(file_size_limit_without_threads);
    support_in_child(file_size_limit_with_a_thread);
}

static size_t address_space(void) {
    FILE *file = fopen("/proc/self/statm", "re");
    unsigned long long pages = 0;
    if (file == NULL || fscanf(file, "%llu", &pages) != 1)
        _exit(SUPPORT_CHILD_SKIP);
    fclose(file);
    return (size_t)pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* Runs of 30 MiB in all, of which the address space holds a few. */
static void little_address_space(void) {
    etl_options options = support_options(2 * MIB);
    etl_collector *collector;
    CHILD_CHECK(etl_collector_create(&collector, &options) == ETL_OK);
    set_soft_limit(RLIMIT_AS, address_space() + 12 * MIB);
    const uint64_t pairs = 900000;
    int status = counted_collect_all(collector, pairs);
    if (status != ETL_OK)
        fprintf(stderr, "%s\n", etl_collector_message(collector));
    CHILD_CHECK(status == ETL_OK);
    CHILD_CHECK(counted_load_matches(collector, pairs));
    etl_collector_destroy(collector);
}

static void a_refused_mapping_falls_back_to_reads(void **state) {
    (void)state;
    if (TEST_SANITIZED || support_light())
        skip(); /* these tools need the address space themselves */
    support_in_child(little_address_space);
}

static void *do_nothing(void *argument) {
    return argument;
}

static void no_threads_at_all(void) {
    CHILD_CHECK(chmod(support_directory(), 0777) == 0);
    struct rlimit limit = {0, 0};
    CHILD_CHECK(setrlimit(RLIMIT_NPROC, &limit) == 0);
    if (geteuid() == 0 && setuid(65534) != 0)
        _exit(SUPPORT_CHILD_SKIP);
    pthread_t thread;
    if (pthread_create(&thread, NULL, do_nothing, NULL) != EAGAIN)
        _exit(SUPPORT_CHILD_SKIP); /* the limit does not bind here */
    for (int threads = 0; threads <= 3; threads += 3) {
        etl_options options = support_options(MIB);
        options.threads = threads;
        etl_collector *collector;
        CHILD_CHECK(etl_collector_create(&collector, &options) == ETL_OK);
        CHILD_CHECK(counted_collect_all(collector, PAIRS) == ETL_OK);
        CHILD_CHECK(counted_load_matches(collector, PAIRS));
        etl_collector_destroy(collector);
    }
}

static void a_refused_thread_is_done_without(void **state) {
    (void)state;
    support_in_child(no_threads_at_all);
}

/* ---- Death */

/* Killed while its runs are on disk: they never had a name. */
static void sigkill_leaves_nothing_in_the_directory(void **state) {
    (void)state;
    for (int access = ETL_ACCESS_MMAP; access <= ETL_ACCESS_READ; access++) {
        int ready[2];
        assert_int_equal(pipe(ready), 0);
        fflush(NULL);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            alarm(60);
            etl_options options = support_options(MIB);
            options.access = (etl_access)access;
            etl_collector *collector;
            CHILD_CHECK(etl_collector_create(&collector, &options) == ETL_OK);
            for (uint64_t i = 0;; i++) { /* until it is killed */
                CHILD_CHECK(counted_collect(collector, i) == ETL_OK);
                if (i == PAIRS)
                    CHILD_CHECK(write(ready[1], "x", 1) == 1);
                if (i == 20 * PAIRS)
                    pause();
            }
        }
        close(ready[1]);
        char byte;
        assert_int_equal(read(ready[0], &byte, 1), 1);
        close(ready[0]);
        assert_int_equal(support_entries(support_directory()), 0);
        kill(child, SIGKILL);
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        assert_int_equal(support_entries(support_directory()), 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_forked_child_may_destroy_at_any_moment),
        cmocka_unit_test(a_fork_inside_a_callback_leaves_the_parent_whole),
        cmocka_unit_test(a_forked_child_may_have_collectors_of_its_own),
        cmocka_unit_test(background_threads_take_no_signals),
        cmocka_unit_test(the_mask_of_the_caller_is_never_changed),
        cmocka_unit_test(no_handler_is_installed),
        cmocka_unit_test(the_file_size_limit_is_no_space_and_no_signal),
        cmocka_unit_test(a_refused_mapping_falls_back_to_reads),
        cmocka_unit_test(a_refused_thread_is_done_without),
        cmocka_unit_test(sigkill_leaves_nothing_in_the_directory),
    };
    return cmocka_run_group_tests(tests, support_setup, support_teardown);
}
