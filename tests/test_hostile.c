/* test_hostile.c: a host that does everything at the wrong moment: files that shrink under the
 * reader, cancels in every phase, locked memory, a
 * thousand collectors at once. */
#include "disk_support.h"
#include "oracle.h"
#include "pwrite_support.h"
#include "support.h"

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

static etl_collector *create(const etl_options *options) {
    etl_collector *collector = NULL;
    ASSERT_OK(NULL, etl_collector_create(&collector, options));
    return collector;
}

/* ---- Runs that another process shrinks */

enum { SHRUNK_PAIRS = 90000 };

/* A descriptor of a run, by its number among those in the temporary directory; -1: none. */
static int find_run(size_t number) {
    int found = -1;
    DIR *stream = opendir("/proc/self/fd");
    if (stream == NULL)
        return -1;
    for (struct dirent *entry; found < 0 && (entry = readdir(stream)) != NULL;) {
        char link[300], target[1024];
        snprintf(link, sizeof link, "/proc/self/fd/%s", entry->d_name);
        ssize_t size = readlink(link, target, sizeof target - 1);
        target[size > 0 ? size : 0] = '\0';
        if (strstr(target, support_directory()) != NULL && number-- == 0)
            found = atoi(entry->d_name);
    }
    closedir(stream);
    return found;
}

/* By a process that has nothing of this one but the way through /proc. */
static void shrink(int descriptor, off_t size) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%ld/fd/%d", (long)getpid(), descriptor);
    pid_t child = support_fork();
    assert_true(child >= 0);
    if (child == 0) {
        int own = open(path, O_RDWR | O_CLOEXEC);
        support_child_leave(own >= 0 && ftruncate(own, size) == 0 ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static off_t size_of(int descriptor) {
    struct stat file;
    assert_int_equal(fstat(descriptor, &file), 0);
    return file.st_size;
}

static void assert_corrupt(etl_collector *collector) {
    struct counted counted = {0, SHRUNK_PAIRS, 0};
    ASSERT_STATUS(ETL_E_CORRUPT, collector, etl_load(collector, counted_load, &counted));
    assert_true(counted.next < SHRUNK_PAIRS);
    assert_int_equal(counted.wrong, 0); /* what came was right */
    const char *message = etl_collector_message(collector);
    assert_non_null(strstr(message, support_directory()));
    assert_non_null(strpbrk(message + strlen(support_directory()), "0123456789"));
}

static etl_collector *create_with_read_runs(int threads) {
    etl_options options = support_options(MIB);
    options.access = ETL_ACCESS_READ;
    options.threads = threads;
    etl_collector *collector = create(&options);
    ASSERT_OK(collector, counted_collect_all(collector, SHRUNK_PAIRS));
    ASSERT_OK(collector, etl_flush(collector));
    return collector;
}

static void a_run_shrunk_by_another_process_is_corrupt(void **state) {
    (void)state;
    SKIP_WITHOUT_PROC();
    for (unsigned way = 0; way < 6; way++) {
        etl_collector *collector = create_with_read_runs(way % 2 ? 1 : ETL_THREADS_NONE);
        int run = find_run(way % 3);
        assert_true(run >= 0);
        const off_t whole = size_of(run);
        static const unsigned per_mille[] = {0, 1, 250, 500, 900, 999};
        shrink(run, whole / 1000 * per_mille[way]);
        assert_corrupt(collector);
        assert_corrupt(collector); /* for good */
        etl_iter *iter = NULL;
        int status = etl_iter_open(&iter, collector, NULL);
        while (status == ETL_OK)
            status = etl_iter_next(iter, NULL, NULL);
        ASSERT_STATUS(ETL_E_CORRUPT, collector, status);
        etl_iter_close(iter);
        ASSERT_OK(collector, etl_reset(collector));
        ASSERT_OK(collector, counted_collect_all(collector, SHRUNK_PAIRS));
        counted_assert_load(collector, SHRUNK_PAIRS);
        etl_collector_destroy(collector);
    }
}

static void a_run_shrunk_under_an_iterator_is_corrupt(void **state) {
    (void)state;
    SKIP_WITHOUT_PROC();
    etl_collector *collector = create_with_read_runs(1);
    etl_iter *iter;
    ASSERT_OK(collector, etl_iter_open(&iter, collector, NULL)); /* it may merge some of them */
    int run = find_run(0);
    assert_true(run >= 0);
    struct counted counted = {0, SHRUNK_PAIRS, 0};
    etl_slice key, value;
    int status;
    while ((status = etl_iter_next(iter, &key, &value)) == ETL_OK) {
        counted_load(&counted, key, value);
        if (counted.next == 1000)
            shrink(run, 64);
    }
    ASSERT_STATUS(ETL_E_CORRUPT, collector, status);
    assert_in_range(counted.next, 1000, SHRUNK_PAIRS - 1);
    assert_int_equal(counted.wrong, 0);
    etl_iter_close(iter);
    etl_collector_destroy(collector);
}

/* ---- Cancelling, in each phase. How long it takes is printed; it is promised to be 100 ms. The
 * assertion leaves room for a machine that is busy otherwise. */

enum { PROMISED_MS = 100, GENEROUS_MS = 10000 };

static _Atomic(uint64_t) cancelled_at;
static etl_collector *to_be_cancelled;

static uint64_t now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static void cancel_now(int signal_number) {
    (void)signal_number;
    atomic_store(&cancelled_at, now_us());
    etl_cancel(to_be_cancelled);
}

struct canceller {
    pthread_t thread, caller;
    useconds_t after;
    bool by_signal;
};

static void *cancel_later(void *argument) {
    struct canceller *canceller = argument;
    usleep(canceller->after);
    if (canceller->by_signal)
        pthread_kill(canceller->caller, SIGUSR1);
    else
        cancel_now(0);
    return NULL;
}

enum phase { COLLECTING, SORTING, SPILLING, MERGING, LOADING, ITERATING, PHASES };

static ssize_t write_slowly(int descriptor, size_t size) {
    (void)descriptor;
    for (unsigned i = 0; i < 20; i++)
        usleep(1000); /* a signal ends only one of them */
    return (ssize_t)size;
}

/* Runs forever, nearly. */
static int load_slowly(void *context, etl_slice key, etl_slice value) {
    if (((struct counted *)context)->next % 128 == 0)
        usleep(1000);
    return counted_load(context, key, value);
}

static int iterate_for_ever(etl_collector *collector) {
    etl_iter *iter;
    int status = etl_iter_open(&iter, collector, NULL);
    while (status == ETL_OK || status == ETL_END)
        status = status == ETL_OK ? etl_iter_next(iter, NULL, NULL)
                                  : etl_iter_seek(iter, etl_slice_str(""));
    etl_iter_close(iter);
    return status;
}

/* What goes on until it is cancelled; *collected pairs go in meanwhile. */
static int work(enum phase phase, etl_collector *collector, uint64_t *collected) {
    struct counted counted = {0, *collected, 0};
    int status = ETL_OK;
    if (phase == COLLECTING)
        while ((status = counted_collect(collector, *collected)) == ETL_OK)
            ++*collected;
    else if (phase == SORTING || phase == SPILLING)
        status = etl_flush(collector);
    else if (phase == ITERATING)
        status = iterate_for_ever(collector);
    else
        status = etl_load(collector, phase == LOADING ? load_slowly : counted_load, &counted);
    assert_int_equal(counted.wrong, 0);
    return status;
}

/* Microseconds from the cancel to the end of the call; 0 where it was over before. */
static uint64_t time_cancel(enum phase phase, int threads, bool by_signal) {
    bool large = phase == SORTING || phase == SPILLING;
    etl_options options = support_options(large ? 64 * MIB : MIB);
    options.threads = threads;
    options.merge_width = phase == MERGING ? 2 : 0;
    etl_collector *collector = to_be_cancelled = create(&options);
    uint64_t pairs = support_scaled(large ? 800000 : 200000);
    ASSERT_OK(collector, counted_collect_all(collector, pairs));
    if (phase == COLLECTING || phase == SPILLING || phase == MERGING)
        atomic_store(&before_pwrite, write_slowly);
    struct canceller canceller = {.caller = pthread_self(), .by_signal = by_signal};
    canceller.after = phase == SORTING ? 5000 : 50000;
    assert_int_equal(pthread_create(&canceller.thread, NULL, cancel_later, &canceller), 0);
    int status = work(phase, collector, &pairs);
    uint64_t returned_at = now_us();
    pthread_join(canceller.thread, NULL);
    atomic_store(&before_pwrite, NULL);
    if (status != ETL_OK)
        ASSERT_STATUS(ETL_E_CANCELLED, collector, status);
    etl_resume(collector);
    counted_assert_load(collector, status == ETL_OK && phase == MERGING ? 0 : pairs);
    etl_collector_destroy(collector);
    return status == ETL_OK ? 0 : returned_at - atomic_load(&cancelled_at) + 1;
}

/* A machine may stop a process for as long as it likes: what counts is the best of three. */
static void check_cancel(enum phase phase, int threads, bool by_signal) {
    static const char *const names[] = {"collecting", "sorting", "spilling",
                                        "merging",    "loading", "iterating"};
    uint64_t took = 0;
    for (unsigned again = 0; again < 3; again++) {
        took = time_cancel(phase, threads, by_signal);
        if (took != 0 && took <= PROMISED_MS * 1000)
            break;
    }
    print_message("%s, threads %d, cancelled by a %s: %llu us%s\n", names[phase], threads,
                  by_signal ? "signal" : "thread", (unsigned long long)took,
                  took == 0                   ? ", over before"
                  : took > PROMISED_MS * 1000 ? ", later than promised"
                                              : "");
    assert_true(took < GENEROUS_MS * 1000);
    assert_true(took != 0 || phase == SORTING || phase == SPILLING || phase == MERGING);
}

static void a_cancel_ends_every_phase(void **state) {
    (void)state;
    struct sigaction action = {.sa_handler = cancel_now}, before;
    assert_int_equal(sigaction(SIGUSR1, &action, &before), 0);
    for (int phase = 0; phase < PHASES; phase++)
        for (int threads = ETL_THREADS_NONE; threads <= 1; threads += 2)
            for (int by_signal = 0; by_signal <= 1; by_signal++)
                check_cancel((enum phase)phase, threads, by_signal != 0);
    sigaction(SIGUSR1, &before, NULL);
}

static int cancel_at_first(void *context, etl_slice key, etl_slice value) {
    uint64_t *delivered = context;
    (void)key, (void)value;
    if ((*delivered)++ == 0)
        etl_cancel(to_be_cancelled);
    return 0;
}

/* A callback may take its time: a cancelled load calls it no more, be it the last pair. */
static void a_cancelled_load_ends_before_the_next_pair(void **state) {
    (void)state;
    for (uint64_t pairs = 1; pairs <= 1000; pairs *= 10) {
        etl_options options = support_options(MIB);
        etl_collector *collector = to_be_cancelled = create(&options);
        ASSERT_OK(collector, counted_collect_all(collector, pairs));
        uint64_t delivered = 0;
        ASSERT_STATUS(ETL_E_CANCELLED, collector,
                      etl_load(collector, cancel_at_first, &delivered));
        assert_int_equal(delivered, 1);
        etl_resume(collector);
        counted_assert_load(collector, pairs);
        etl_collector_destroy(collector);
    }
}

/* ---- Many at once */

enum { CROWD_THREADS = 8, CROWD = 1000 };

static pthread_barrier_t all_have_runs;

static void *crowd(void *argument) {
    static etl_collector *collectors[CROWD];
    size_t *failures = argument, mine = *failures;
    size_t share = support_scaled(CROWD) / CROWD_THREADS, from = mine * share;
    *failures = 0;
    for (size_t i = from; i < from + share; i++) {
        etl_options options = support_options(MIB);
        options.threads = i % 4 == 0 ? 1 : ETL_THREADS_NONE;
        options.label = "crowd";
        if (etl_collector_create(&collectors[i], &options) != ETL_OK) {
            ++*failures;
            continue;
        }
        for (uint64_t j = 0; j < 20 + i % 7; j++)
            *failures += counted_collect(collectors[i], j) != ETL_OK;
        *failures += etl_flush(collectors[i]) != ETL_OK;
    }
    pthread_barrier_wait(&all_have_runs);
    for (size_t i = from; i < from + share; i++) {
        *failures += !counted_load_matches(collectors[i], 20 + i % 7);
        etl_collector_destroy(collectors[i]);
    }
    return NULL;
}

static void meet(void) {
    pthread_t threads[CROWD_THREADS];
    size_t failures[CROWD_THREADS];
    CHILD_CHECK(pthread_barrier_init(&all_have_runs, NULL, CROWD_THREADS) == 0);
    for (size_t i = 0; i < CROWD_THREADS; i++) {
        failures[i] = i;
        CHILD_CHECK(pthread_create(&threads[i], NULL, crowd, &failures[i]) == 0);
    }
    for (size_t i = 0; i < CROWD_THREADS; i++) {
        pthread_join(threads[i], NULL);
        CHILD_CHECK(failures[i] == 0);
    }
    CHILD_CHECK(support_files_held(support_directory()) == 0);
}

static void meet_with_names(void) {
    disk_forget_nameless_files();
    meet();
    CHILD_CHECK(support_entries(support_directory()) == 0);
}

static void a_thousand_collectors_of_eight_threads_do_not_meet(void **state) {
    (void)state;
    support_in_child(meet);
    support_in_child(meet_with_names);
}

/* ---- Locked memory */

static void lock_and_work(void) {
    if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0)
        disk_skip("mlockall");
    for (int threads = ETL_THREADS_NONE; threads <= 1; threads += 2)
        for (int access = ETL_ACCESS_MMAP; access <= ETL_ACCESS_READ; access++) {
            etl_options options = support_options(2 * MIB);
            options.threads = threads;
            options.access = (etl_access)access;
            etl_collector *collector;
            CHILD_CHECK(etl_collector_create(&collector, &options) == ETL_OK);
            CHILD_CHECK(counted_collect_all(collector, 200000) == ETL_OK);
            CHILD_CHECK(counted_load_matches(collector, 200000));
            etl_collector_destroy(collector);
        }
}

static void locked_memory_is_worked_with(void **state) {
    (void)state;
    if (TEST_SANITIZED || support_light())
        skip(); /* they would lock their shadow memory */
    support_in_child(lock_and_work);
}

/* ---- Clocks: whoever asks for the time of day would hang or go back when it is set */

static atomic_bool clocks_watched;
static atomic_size_t steps_seen;

#if HAVE_OWN_PWRITE
int clock_gettime(clockid_t clock, struct timespec *now) {
    if (clock == CLOCK_REALTIME && atomic_load(&clocks_watched))
        atomic_fetch_add(&steps_seen, 1);
    return (int)syscall(SYS_clock_gettime, clock, now);
}

time_t time(time_t *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out != NULL)
        *out = now.tv_sec;
    return now.tv_sec;
}
#endif

static int ignore_progress(void *context, const etl_progress *progress) {
    (void)context, (void)progress;
    return 0;
}

static void the_time_of_day_is_not_asked(void **state) {
    (void)state;
    for (int threads = ETL_THREADS_NONE; threads <= 2; threads++) {
        etl_options options = support_options(MIB);
        options.threads = threads;
        options.progress = ignore_progress;
        options.merge_width = 2;
        atomic_store(&clocks_watched, true);
        etl_collector *collector = create(&options);
        ASSERT_OK(collector, counted_collect_all(collector, 100000));
        counted_assert_load(collector, 100000);
        etl_collector_destroy(collector);
        atomic_store(&clocks_watched, false);
    }
    assert_int_equal(atomic_load(&steps_seen), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_shrunk_by_another_process_is_corrupt),
        cmocka_unit_test(a_run_shrunk_under_an_iterator_is_corrupt),
        cmocka_unit_test(a_cancel_ends_every_phase),
        cmocka_unit_test(a_cancelled_load_ends_before_the_next_pair),
        cmocka_unit_test(a_thousand_collectors_of_eight_threads_do_not_meet),
        cmocka_unit_test(locked_memory_is_worked_with),
        cmocka_unit_test(the_time_of_day_is_not_asked),
    };
    return cmocka_run_group_tests(tests, support_setup, support_teardown);
}
