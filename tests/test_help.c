/* test_help.c: the caller, who would wait for a thread that writes a region, writes half of it.
 * Each test has the thread wait in a write of its own until the caller has made one, so that the
 * help surely happens, and fails, where the test wants it. */
#include "help_support.h"

#include <errno.h>
#include <stdio.h>

/* ---- Help that goes well */

/* Meet whenever it can be, and see what comes out. */
static void help_all_along(const etl_options *options, bool accepted, unsigned least_met) {
    etl_collector *collector = create(options);
    size_t at = 0;
    int status;
    unsigned thread_at = (unsigned)options->duplicates % 3 + 1;
    meeting_expect(collector, (struct meeting_plan){.thread_at = thread_at, .times = 1000});
    while ((status = collect_to_meeting(collector, &at)) == ETL_OK)
        continue;
    ASSERT_STATUS(ETL_END, collector, status);
    if (!meeting_awaited(collector))
        meeting_end();
    assert_loads(collector, accepted ? ETL_OK : ETL_E_DUPLICATE);
    etl_stats stats = stats_of(collector);
    printf("threads %d, duplicates %d, %s: met %u times, %llu runs, %llu passes\n",
           options->threads, (int)options->duplicates, options->access ? "read" : "mapped",
           meeting.met, (unsigned long long)stats.runs, (unsigned long long)stats.merge_passes);
    assert_true(meeting.met >= least_met);
    assert_true(stats.runs >= 2 * meeting.met); /* the thread's half and the caller's */
    assert_within(collector, options);
    end(collector);
}

static void test_threads(void **unused) {
    (void)unused;
    for (int threads = 1; threads <= (support_light() ? 2 : 3); threads++) {
        etl_access access = threads == 2 ? ETL_ACCESS_READ : ETL_ACCESS_MMAP;
        etl_options options = options_of(threads, access, NULL);
        (void)begin_pairs(bytes_for(threads, 1), false, &collection_order);
        help_all_along(&options, true, threads == 1 ? 2 : 1);
    }
}

static void test_duplicates(void **unused) {
    (void)unused;
    static const struct {
        struct oracle_rules rules;
        bool distinct;
    } all[] = {
        {{ETL_KEEP_ALL, true, ORACLE_TRIM}, false},  {{ETL_KEEP_FIRST, false, ORACLE_TRIM}, false},
        {{ETL_KEEP_LAST, true, ORACLE_TRIM}, false}, {{ETL_APPEND, false, ORACLE_TRIM}, false},
        {{ETL_APPEND, true, ORACLE_TRIM}, false},    {{ETL_REJECT, false, ORACLE_TRIM}, false},
        {{ETL_REJECT, true, ORACLE_TRIM}, true}};
    for (size_t i = 0; i < COUNT_OF(all); i += support_light() ? 3 : 1) {
        bool accepted = begin_pairs(bytes_for(1, 1), all[i].distinct, &all[i].rules);
        etl_options options = options_of(1, (etl_access)(i % 2), &all[i].rules);
        help_all_along(&options, accepted, 2);
    }
}

/* The two runs of a region, and those of others, are merged in passes. */
static void merge_passes(unsigned width, unsigned times, etl_access access,
                         const struct oracle_rules *rules) {
    etl_options options = options_of(1, access, rules);
    options.merge_width = width;
    assert_true(begin_pairs(bytes_for(1, times), false, rules));
    etl_collector *collector = create(&options);
    size_t at = 0, collected = 0;
    meeting_expect(collector, (struct meeting_plan){.times = times});
    while (meeting.met < times)
        ASSERT_OK(collector, collect_to_meeting(collector, &at));
    meeting_end();
    assert_int_equal(collector->store.runs.count, 2 * times);
    for (; at < pairs.count; at++) {
        ASSERT_OK(collector, collect(collector, at));
        if (++collected % (pairs.count / 60) == 0)
            ASSERT_OK(collector, etl_flush(collector));
    }
    assert_loads(collector, ETL_OK);
    assert_true(stats_of(collector).merge_passes >= 1);
    end(collector);
}

static void test_merge_passes(void **unused) {
    (void)unused;
    merge_passes(4, 1, ETL_ACCESS_MMAP, &collection_order);
    if (support_light())
        return;
    merge_passes(4, 1, ETL_ACCESS_READ,
                 &(struct oracle_rules){.duplicates = ETL_KEEP_LAST, .order_values = true});
    merge_passes(12, 2, ETL_ACCESS_MMAP, &(struct oracle_rules){.duplicates = ETL_APPEND});
}

/* ---- Where there is none */

static int release_a_waiting_thread(void *context, const etl_progress *progress) {
    (void)context;
    if (progress->phase == ETL_SPILLING && meeting_now() == WAITING)
        meeting_release();
    return 0;
}

static void expect_no_help(etl_options options) {
    options.progress = release_a_waiting_thread;
    (void)begin_pairs(bytes_for(1, 1), false, &collection_order);
    etl_collector *collector = create(&options);
    size_t at = 0;
    meeting_expect(collector, (struct meeting_plan){.thread_at = 1});
    collect_to_waiting(collector, &at);
    const struct etl__region *region = region_in(collector, ETL__WRITING, ETL__WRITING);
    assert_non_null(region->buffer.partition); /* it could be halved */
    ASSERT_OK(collector, collect_to_meeting(collector, &at));
    assert_int_equal(meeting_now(), MET); /* the caller waited */
    assert_int_equal(meeting.caller_writes, 0);
    meeting_end();
    collect_rest(collector, at);
    assert_loads(collector, ETL_OK);
    end(collector);
}

static void test_no_help(void **unused) {
    (void)unused;
    etl_options options = options_of(1, ETL_ACCESS_MMAP, NULL);
    options.merge_width = 2;
    expect_no_help(options);
    options.merge_width = 0;
    etl_pool_options of_pool = LIBETL_POOL_OPTIONS_INIT;
    of_pool.memory_limit = options.memory_limit;
    ASSERT_OK(NULL, etl_pool_create(&options.pool, &of_pool));
    expect_no_help(options);
    etl_pool_destroy(options.pool);
}

/* The account has what both have written, and not what either expects to write. */
static void test_disk_limit(void **unused) {
    (void)unused;
    (void)begin_pairs(bytes_for(1, 1), false, &collection_order);
    etl_options options = options_of(1, ETL_ACCESS_MMAP, NULL);
    options.disk_limit = pairs.count * PAIR + MIB;
    etl_collector *collector = create(&options);
    size_t at = 0;
    meeting_expect(collector, (struct meeting_plan){.thread_at = 1});
    ASSERT_OK(collector, collect_to_meeting(collector, &at));
    assert_int_equal(collector->store.runs.count, 2);
    assert_true(stats_of(collector).disk_bytes_peak <= at * PAIR + MIB / 4);
    meeting_end();
    collect_rest(collector, at);
    assert_loads(collector, ETL_OK);
    end(collector);
}

/* ---- The caller's half fails */

/* In its first or a later write: the thread writes all of the region again, alone. */
static void caller_fails(int threads, int os_error, unsigned caller_at) {
    etl_options options =
        options_of(threads, caller_at == 1 ? ETL_ACCESS_READ : ETL_ACCESS_MMAP, NULL);
    etl_collector *collector = create(&options);
    size_t at = 0;
    meeting_expect(collector, (struct meeting_plan){.caller_at = caller_at,
                                                    .caller_error = os_error,
                                                    .thread_at = caller_at});
    ASSERT_OK(collector, collect_to_meeting(collector, &at));
    assert_int_equal(meeting.caller_writes, caller_at); /* no more help with these pairs */
    assert_string_equal(etl_collector_message(collector), "");
    if (threads == 1)
        assert_int_equal(collector->store.runs.count, 1);
    meeting_end();
    ASSERT_OK(collector, etl_flush(collector));
    assert_flushed(collector, at);
    collect_rest(collector, at);
    assert_loads(collector, ETL_OK);
    assert_within(collector, &options);
    end(collector);
}

static void test_caller_fails(void **unused) {
    (void)unused;
    (void)begin_pairs(bytes_for(1, 1), false, &collection_order);
    caller_fails(1, ENOSPC, 1);
    caller_fails(1, EIO, 3);
}

/* The region after the one that was written alone is helped with again. */
static void test_alone_only_once(void **unused) {
    (void)unused;
    etl_options options = options_of(1, ETL_ACCESS_MMAP, NULL);
    (void)begin_pairs(bytes_for(1, 3), false, &collection_order);
    etl_collector *collector = create(&options);
    size_t at = 0;
    meeting_expect(collector, (struct meeting_plan){.caller_error = ENOSPC});
    ASSERT_OK(collector, collect_to_meeting(collector, &at));
    meeting_expect(collector, (struct meeting_plan){.times = 2}); /* one is in the same memory */
    while (meeting.met < 2)
        ASSERT_OK(collector, collect_to_meeting(collector, &at));
    meeting_end();
    collect_rest(collector, at);
    assert_loads(collector, ETL_OK);
    end(collector);
}

/* A flush, too, ends only when what was helped with in vain is on disk. */
static void test_flush(void **unused) {
    (void)unused;
    for (int fails = 0; fails <= 1; fails++) {
        etl_options options = options_of(2, ETL_ACCESS_MMAP, NULL);
        (void)begin_pairs(bytes_for(2, 0), false, &collection_order);
        etl_collector *collector = create(&options);
        size_t at = 0;
        meeting_expect(collector, (struct meeting_plan){.caller_error = fails ? EIO : 0});
        collect_to_waiting(collector, &at);
        while (region_in(collector, ETL__QUEUED, ETL__QUEUED) != NULL ||
               region_in(collector, ETL__WRITTEN, ETL__WRITTEN) == NULL)
            nanosleep(&(struct timespec){.tv_nsec = 100 * 1000}, NULL);
        ASSERT_OK(collector, etl_flush(collector)); /* one region is free, and one waits */
        assert_int_equal(meeting.met, 1);
        meeting_end();
        assert_flushed(collector, at);
        collect_rest(collector, at);
        assert_loads(collector, ETL_OK);
        end(collector);
    }
}

/* ---- The thread's half fails, or both */

static void thread_fails(int thread_error, int caller_error, int status, enum ending ending) {
    etl_options options =
        options_of(1, ending == BY_RESET ? ETL_ACCESS_READ : ETL_ACCESS_MMAP, NULL);
    etl_collector *collector = create(&options);
    size_t at = 0;
    meeting_expect(collector, (struct meeting_plan){.thread_error = thread_error,
                                                    .caller_error = caller_error,
                                                    .caller_at = 2});
    ASSERT_STATUS(status, collector, collect_to_meeting(collector, &at));
    assert_int_equal(meeting.met, 1);
    assert_disk_free(collector);
    assert_non_null(strstr(etl_collector_message(collector), support_directory()));
    for (unsigned again = 0; again < 2; again++) {
        ASSERT_STATUS(status, collector, collect(collector, at));
        assert_disk_free(collector);
    }
    end_by(collector, ending, at);
}

static void test_thread_fails(void **unused) {
    (void)unused;
    (void)begin_pairs(bytes_for(1, 1), false, &collection_order);
    for (enum ending ending = BY_LOAD; ending < ENDINGS; ending++)
        thread_fails(EIO, 0, ETL_E_IO, ending);
    thread_fails(ENOSPC, 0, ETL_E_NOSPACE, BY_LOAD);
    thread_fails(ENOSPC, EIO, ETL_E_NOSPACE, BY_LOAD); /* both halves */
    thread_fails(EIO, ENOSPC, ETL_E_IO, BY_DESTROY);
}

/* A directory that is full for one of the two: its half goes to the next one. */
static void test_next_directory(void **unused) {
    (void)unused;
    (void)begin_pairs(bytes_for(1, 1), false, &collection_order);
    for (int of_caller = 0; of_caller <= 1; of_caller++) {
        const char *directories[] = {support_directory(), support_directory(), NULL};
        etl_options options = options_of(1, ETL_ACCESS_MMAP, NULL);
        options.temp_dirs = directories;
        etl_collector *collector = create(&options);
        size_t at = 0;
        meeting_expect(collector, (struct meeting_plan){.caller_at = 2,
                                                        .caller_error = of_caller ? ENOSPC : 0,
                                                        .thread_error = of_caller ? 0 : ENOSPC,
                                                        .fails_once = true});
        ASSERT_OK(collector, collect_to_meeting(collector, &at));
        assert_int_equal(collector->store.runs.count, 2);
        meeting_end();
        ASSERT_OK(collector, etl_flush(collector));
        assert_flushed(collector, at);
        collect_rest(collector, at);
        assert_loads(collector, ETL_OK);
        end(collector);
    }
}

int main(void) {
    if (!HAVE_OWN_PWRITE)
        return 0;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads),         cmocka_unit_test(test_duplicates),
        cmocka_unit_test(test_merge_passes),    cmocka_unit_test(test_no_help),
        cmocka_unit_test(test_disk_limit),      cmocka_unit_test(test_caller_fails),
        cmocka_unit_test(test_alone_only_once), cmocka_unit_test(test_flush),
        cmocka_unit_test(test_thread_fails),    cmocka_unit_test(test_next_directory)};
    int failed = cmocka_run_group_tests(tests, support_setup, support_teardown);
    oracle_clear(&pairs);
    oracle_clear(&expected);
    return failed;
}
