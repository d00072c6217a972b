/* test_contracts_cancel.c: the contracts about cancelling, progress, stats, and the threads that
 * may look on. */
#include "oracle.h"
#include "support.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
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

static int ignore(void *context, etl_slice key, etl_slice value) {
    (void)context, (void)key, (void)value;
    return 0;
}

/* ---- Cancelling */

static void cancel_holds_until_resume_and_loses_nothing(void **state) {
    (void)state;
    etl_options options = support_options(MIB);
    etl_collector *collector = create(&options);
    ASSERT_OK(collector, counted_collect_all(collector, 60000));
    const etl_slice one = etl_slice_str("1");
    etl_iter *iter = NULL;
    void *key, *value;
    for (unsigned round = 0; round < 3; round++) {
        etl_cancel(collector);
        etl_cancel(collector);
        for (unsigned again = 0; again < 2; again++) {
            ASSERT_STATUS(ETL_E_CANCELLED, collector, etl_collect(collector, one, one));
            ASSERT_STATUS(ETL_E_CANCELLED, collector, etl_reserve(collector, 1, 1, &key, &value));
            ASSERT_STATUS(ETL_E_CANCELLED, collector, etl_flush(collector));
            ASSERT_STATUS(ETL_E_CANCELLED, collector, etl_load(collector, ignore, NULL));
            ASSERT_STATUS(ETL_E_CANCELLED, collector, etl_iter_open(&iter, collector, NULL));
            assert_null(iter);
        }
        etl_resume(collector);
        ASSERT_OK(collector, counted_collect(collector, 60000 + round));
    }
    counted_assert_load(collector, 60003);
    etl_collector_destroy(collector);
}

static void cancel_reaches_open_iterators(void **state) {
    (void)state;
    etl_options options = support_options(MIB);
    etl_collector *collector = create(&options);
    ASSERT_OK(collector, counted_collect_all(collector, 1000));
    etl_iter *iter;
    ASSERT_OK(collector, etl_iter_open(&iter, collector, NULL));
    struct counted counted = {0, 1000, 0};
    etl_slice key, value;
    for (uint64_t i = 0; i < 1000; i++) {
        if (i % 100 == 50) {
            etl_cancel(collector);
            ASSERT_STATUS(ETL_E_CANCELLED, collector, etl_iter_next(iter, &key, &value));
            ASSERT_STATUS(ETL_E_CANCELLED, collector, etl_iter_next(iter, &key, &value));
            etl_resume(collector);
        }
        ASSERT_OK(collector, etl_iter_next(iter, &key, &value));
        counted_load(&counted, key, value);
    }
    ASSERT_STATUS(ETL_END, collector, etl_iter_next(iter, &key, &value));
    assert_int_equal(counted.wrong, 0);
    etl_iter_close(iter);
    etl_collector_destroy(collector);
}

static void reset_undoes_a_cancel(void **state) {
    (void)state;
    etl_options options = support_options(MIB);
    etl_collector *collector = create(&options);
    ASSERT_OK(collector, counted_collect_all(collector, 100));
    etl_cancel(collector);
    ASSERT_OK(collector, etl_reset(collector));
    ASSERT_OK(collector, counted_collect_all(collector, 50));
    counted_assert_load(collector, 50);
    etl_cancel(collector);
    etl_collector_destroy(collector);
}

static void *cancel_from_thread(void *argument) {
    etl_cancel(argument);
    return NULL;
}

static void cancel_from_another_thread_ends_collecting(void **state) {
    (void)state;
    for (int threads = ETL_THREADS_NONE; threads <= 2; threads++) {
        etl_options options = support_options(MIB);
        options.threads = threads;
        etl_collector *collector = create(&options);
        ASSERT_OK(collector, counted_collect_all(collector, 30000));
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, cancel_from_thread, collector), 0);
        uint64_t accepted = 30000;
        int status;
        while ((status = counted_collect(collector, accepted)) == ETL_OK)
            if (++accepted == 200000)
                break;
        pthread_join(thread, NULL);
        if (status == ETL_OK)
            status = counted_collect(collector, accepted);
        ASSERT_STATUS(ETL_E_CANCELLED, collector, status);
        etl_resume(collector);
        counted_assert_load(collector, accepted);
        etl_collector_destroy(collector);
    }
}

/* A load of which the first pair is told to another thread, which cancels; the callback waits for
 * it, so that everything behind the first pair is delivered to a cancelled load. */
struct cancelled_load {
    struct counted counted;
    etl_collector *collector;
    sem_t first_pair, cancelled;
};

static void *cancel_at_first_pair(void *argument) {
    struct cancelled_load *load = argument;
    while (sem_wait(&load->first_pair) != 0)
        ;
    etl_cancel(load->collector);
    sem_post(&load->cancelled);
    return NULL;
}

static int wait_for_cancel(void *context, etl_slice key, etl_slice value) {
    struct cancelled_load *load = context;
    if (load->counted.next == 0) {
        sem_post(&load->first_pair);
        while (sem_wait(&load->cancelled) != 0)
            ;
    }
    return counted_load(&load->counted, key, value);
}

static void cancel_from_another_thread_ends_a_load(void **state) {
    (void)state;
    enum { PAIRS = 200000 };
    for (size_t limit = 1; limit <= 64; limit += 63) {
        etl_options options = support_options(limit * MIB);
        struct cancelled_load load = {{0, PAIRS, 0}, create(&options), {{0}}, {{0}}};
        ASSERT_OK(load.collector, counted_collect_all(load.collector, PAIRS));
        sem_init(&load.first_pair, 0, 0);
        sem_init(&load.cancelled, 0, 0);
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, cancel_at_first_pair, &load), 0);
        ASSERT_STATUS(ETL_E_CANCELLED, load.collector,
                      etl_load(load.collector, wait_for_cancel, &load));
        pthread_join(thread, NULL);
        assert_true(load.counted.next < PAIRS);
        assert_int_equal(load.counted.wrong, 0);
        etl_resume(load.collector);
        counted_assert_load(load.collector, PAIRS);
        etl_collector_destroy(load.collector);
        sem_destroy(&load.first_pair);
        sem_destroy(&load.cancelled);
    }
}

static etl_collector *cancelled_by_signal;

static void cancel_on_signal(int signal_number) {
    (void)signal_number;
    etl_cancel(cancelled_by_signal);
}

static int raise_at_middle(void *context, etl_slice key, etl_slice value) {
    struct counted *counted = context;
    if (counted->next == counted->end / 2)
        raise(SIGUSR1);
    return counted_load(context, key, value);
}

static void cancel_from_a_signal_handler(void **state) {
    (void)state;
    struct sigaction action = {.sa_handler = cancel_on_signal}, before;
    assert_int_equal(sigaction(SIGUSR1, &action, &before), 0);
    etl_options options = support_options(MIB);
    etl_collector *collector = cancelled_by_signal = create(&options);
    ASSERT_OK(collector, counted_collect_all(collector, 100000));
    raise(SIGUSR1);
    ASSERT_STATUS(ETL_E_CANCELLED, collector, counted_collect(collector, 1));
    etl_resume(collector);
    struct counted counted = {0, 100000, 0};
    ASSERT_STATUS(ETL_E_CANCELLED, collector, etl_load(collector, raise_at_middle, &counted));
    assert_in_range(counted.next, 50000, 99999);
    etl_resume(collector);
    counted_assert_load(collector, 100000);
    etl_collector_destroy(collector);
    sigaction(SIGUSR1, &before, NULL);
}

/* ---- Progress */

struct progress {
    etl_progress last;
    unsigned calls, wrong;
    int answer;
    pthread_t thread;
};

static int watch(void *context, const etl_progress *now) {
    struct progress *progress = context;
    const etl_progress *last = &progress->last;
    if (now->pairs_all != 0 && now->pairs_done > now->pairs_all)
        progress->wrong++;
    if (now->bytes_all != 0 && now->bytes_done > now->bytes_all)
        progress->wrong++;
    if (progress->calls != 0 && now->phase == last->phase &&
        (now->pairs_done < last->pairs_done || now->bytes_done < last->bytes_done))
        progress->wrong++;
    if (progress->calls != 0 && now->elapsed_ns < last->elapsed_ns)
        progress->wrong++;
    if (strcmp(now->label, "test") != 0 || !pthread_equal(progress->thread, pthread_self()))
        progress->wrong++;
    progress->last = *now;
    progress->calls++;
    return progress->answer;
}

/* Long work, made of sleep: half a second in all. */
static int slow_load(void *context, etl_slice key, etl_slice value) {
    struct counted *counted = context;
    if (counted->next % 1000 == 0)
        usleep(5000);
    return counted_load(context, key, value);
}

static void progress_is_told_and_monotone(void **state) {
    (void)state;
    enum { PAIRS = 100000 };
    struct progress progress = {.thread = pthread_self()};
    etl_options options = support_options(MIB);
    options.progress = watch;
    options.progress_ctx = &progress;
    etl_collector *collector = create(&options);
    ASSERT_OK(collector, counted_collect_all(collector, PAIRS));
    struct counted counted = {0, PAIRS, 0};
    ASSERT_OK(collector, etl_load(collector, slow_load, &counted));
    assert_true(progress.calls != 0);
    assert_int_equal(progress.wrong, 0);
    assert_int_equal(progress.last.phase, ETL_LOADING);
    etl_collector_destroy(collector);
}

static void progress_that_is_not_zero_cancels(void **state) {
    (void)state;
    enum { PAIRS = 100000 };
    struct progress progress = {.thread = pthread_self()};
    etl_options options = support_options(MIB);
    options.progress = watch;
    options.progress_ctx = &progress;
    etl_collector *collector = create(&options);
    ASSERT_OK(collector, counted_collect_all(collector, PAIRS));
    progress.answer = 1;
    struct counted counted = {0, PAIRS, 0};
    ASSERT_STATUS(ETL_E_CANCELLED, collector, etl_load(collector, slow_load, &counted));
    ASSERT_STATUS(ETL_E_CANCELLED, collector, etl_load(collector, slow_load, &counted));
    progress.answer = 0;
    etl_resume(collector);
    counted_assert_load(collector, PAIRS);
    etl_collector_destroy(collector);
}

/* ---- Stats */

static void stats_count_the_round(void **state) {
    (void)state;
    etl_options options = support_options(MIB);
    etl_collector *collector = create(&options);
    for (unsigned round = 0; round < 2; round++) {
        ASSERT_OK(collector, counted_collect_all(collector, 60000));
        etl_stats stats = stats_of(collector);
        assert_int_equal(stats.pairs, 60000);
        assert_int_equal(stats.key_bytes, 60000 * 8);
        assert_int_equal(stats.value_bytes, 60000 * COUNTED_VALUE_SIZE);
        ASSERT_OK(collector, etl_flush(collector));
        stats = stats_of(collector);
        assert_in_range(stats.runs, 2, 60);
        assert_in_range(stats.spilled_bytes, 60000 * 34, 60000 * 40);
        assert_in_range(stats.disk_bytes, 60000 * 34, 60000 * 40);
        assert_true(stats.disk_bytes_peak >= stats.disk_bytes);
        assert_true(stats.memory_bytes_peak >= stats.memory_bytes && stats.memory_bytes != 0);
        assert_true(stats.allocations != 0 && stats.sort_ns != 0 && stats.spill_ns != 0);
        counted_assert_load(collector, 60000);
        stats = stats_of(collector);
        assert_int_equal(stats.pairs, 60000);
        assert_int_equal(stats.disk_bytes, 0);
        assert_true(stats.disk_bytes_peak != 0 && stats.merge_ns != 0);
    }
    ASSERT_OK(collector, counted_collect(collector, 0));
    etl_stats stats = stats_of(collector);
    assert_int_equal(stats.pairs, 1);
    assert_int_equal(stats.key_bytes, 8);
    assert_int_equal(stats.runs, 0);
    assert_int_equal(stats.spilled_bytes, 0);
    assert_int_equal(stats.merge_passes, 0);
    etl_collector_destroy(collector);
}

static void stats_fill_what_the_caller_knows(void **state) {
    (void)state;
    etl_options options = support_options(MIB);
    etl_collector *collector = create(&options);
    ASSERT_OK(collector, counted_collect_all(collector, 10));
    etl_stats stats;
    memset(&stats, 0x77, sizeof stats);
    stats.struct_size = offsetof(etl_stats, key_bytes);
    ASSERT_OK(collector, etl_collector_stats(collector, &stats));
    assert_int_equal(stats.pairs, 10);
    assert_int_equal(stats.key_bytes, UINT64_C(0x7777777777777777));
    etl_collector_destroy(collector);
}

struct watcher {
    const etl_collector *collector;
    atomic_bool done;
    uint64_t wrong;
};

static void *watch_stats(void *argument) {
    struct watcher *watcher = argument;
    etl_stats last = {.struct_size = sizeof last}, now = last;
    while (!atomic_load(&watcher->done)) {
        if (etl_collector_stats(watcher->collector, &now) != ETL_OK || now.pairs < last.pairs ||
            now.pairs > 100000 || now.memory_bytes_peak < last.memory_bytes_peak ||
            now.disk_bytes_peak < last.disk_bytes_peak)
            watcher->wrong++;
        last = now;
        usleep(100);
    }
    return NULL;
}

static void stats_can_be_read_from_another_thread(void **state) {
    (void)state;
    etl_options options = support_options(MIB);
    etl_collector *collector = create(&options);
    struct watcher watcher = {.collector = collector};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, watch_stats, &watcher), 0);
    int status = counted_collect_all(collector, 100000);
    bool matches = counted_load_matches(collector, 100000);
    atomic_store(&watcher.done, true);
    pthread_join(thread, NULL);
    ASSERT_OK(collector, status);
    assert_true(matches);
    assert_int_equal(watcher.wrong, 0);
    etl_collector_destroy(collector);
}

/* ---- Open iterators of one collector, each advanced by a thread of its own */

struct reader {
    etl_iter *iter;
    struct counted counted;
};

static void *read_all(void *argument) {
    struct reader *reader = argument;
    etl_slice key, value;
    while (etl_iter_next(reader->iter, &key, &value) == ETL_OK)
        counted_load(&reader->counted, key, value);
    return NULL;
}

static void iterators_are_advanced_by_different_threads(void **state) {
    (void)state;
    enum { PAIRS = 60000, READERS = 3 };
    for (int access = ETL_ACCESS_MMAP; access <= ETL_ACCESS_READ; access++) {
        etl_options options = support_options(2 * MIB);
        options.access = (etl_access)access;
        etl_collector *collector = create(&options);
        ASSERT_OK(collector, counted_collect_all(collector, PAIRS));
        struct reader readers[READERS] = {0};
        pthread_t threads[READERS];
        for (size_t i = 0; i < READERS; i++)
            ASSERT_OK(collector, etl_iter_open(&readers[i].iter, collector, NULL));
        for (size_t i = 0; i < READERS; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, read_all, &readers[i]), 0);
        for (size_t i = 0; i < READERS; i++)
            pthread_join(threads[i], NULL);
        for (size_t i = 0; i < READERS; i++) {
            assert_int_equal(readers[i].counted.next, PAIRS);
            assert_int_equal(readers[i].counted.wrong, 0);
            etl_iter_close(readers[i].iter);
        }
        etl_collector_destroy(collector);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cancel_holds_until_resume_and_loses_nothing),
        cmocka_unit_test(cancel_reaches_open_iterators),
        cmocka_unit_test(reset_undoes_a_cancel),
        cmocka_unit_test(cancel_from_another_thread_ends_collecting),
        cmocka_unit_test(cancel_from_another_thread_ends_a_load),
        cmocka_unit_test(cancel_from_a_signal_handler),
        cmocka_unit_test(progress_is_told_and_monotone),
        cmocka_unit_test(progress_that_is_not_zero_cancels),
        cmocka_unit_test(stats_count_the_round),
        cmocka_unit_test(stats_fill_what_the_caller_knows),
        cmocka_unit_test(stats_can_be_read_from_another_thread),
        cmocka_unit_test(iterators_are_advanced_by_different_threads),
    };
    return cmocka_run_group_tests(tests, support_setup, support_teardown);
}
