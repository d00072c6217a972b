/* test_help_cancel.c: cancelled while the caller helps its thread, or waits for it afterwards: nothing
 * is lost, no run is left behind; and a region whose runs do not add up is told. */
#include "help_support.h"

/* ---- Cancelled */

static int cancel_when_met(void *context, const etl_progress *progress) {
    (void)context, (void)progress;
    return meeting.met != 0;
}

/* In the caller's half. */
static void cancelled_in_half(bool by_progress, unsigned caller_at, enum ending ending) {
    etl_options options = options_of(1, ETL_ACCESS_MMAP, NULL);
    if (by_progress)
        options.progress = cancel_when_met;
    etl_collector *collector = create(&options);
    size_t at = 0;
    meeting_expect(collector, (struct meeting_plan){.caller_at = caller_at,
                                                    .cancels = !by_progress,
                                                    .takes_time = by_progress,
                                                    .by_hand = true});
    ASSERT_STATUS(ETL_E_CANCELLED, collector, collect_to_meeting(collector, &at));
    const struct etl__region *region = region_in(collector, ETL__WRITING, ETL__WRITING);
    assert_true(region != NULL && region->halved && region->upper == NULL);
    ASSERT_STATUS(ETL_E_CANCELLED, collector, collect(collector, at));
    collector->store.watch.tell = NULL;
    if (ending != BY_DESTROY && caller_at % 2 != 0)
        etl_resume(collector); /* before the thread goes on, or after it has seen the cancel */
    meeting_release();
    if (caller_at % 2 == 0)
        while (region_in(collector, ETL__WRITING, ETL__WRITING) != NULL)
            nanosleep(&(struct timespec){.tv_nsec = 100 * 1000}, NULL);
    etl_resume(collector);
    end_by(collector, ending, at);
}

static void test_cancelled_in_half(void **unused) {
    (void)unused;
    (void)begin_pairs(bytes_for(1, 1), false, &collection_order);
    cancelled_in_half(false, 1, BY_LOAD);
    cancelled_in_half(false, 2, BY_LOAD);
    cancelled_in_half(false, 1, BY_RESET);
    cancelled_in_half(false, 2, BY_DESTROY);
    cancelled_in_half(true, 1, BY_LOAD);
    cancelled_in_half(true, 2, BY_RESET);
}

static struct etl__region *helped_region(etl_collector *collector) {
    for (size_t i = 0; i < collector->store.region_count; i++)
        if (collector->store.regions[i].upper != NULL)
            return &collector->store.regions[i];
    return NULL;
}

static int cancel_behind_the_half(void *context, const etl_progress *progress) {
    etl_collector **collector = context;
    (void)progress;
    return *collector != NULL && helped_region(*collector) != NULL;
}

/* Until the caller has written its half, and waits for the thread, which waits too. */
static etl_collector *cancelled_behind_half(size_t *at) {
    static etl_collector *collector;
    etl_options options = options_of(1, ETL_ACCESS_MMAP, NULL);
    options.progress = cancel_behind_the_half;
    options.progress_ctx = &collector;
    collector = NULL;
    collector = create(&options);
    meeting_expect(collector, (struct meeting_plan){.by_hand = true});
    ASSERT_STATUS(ETL_E_CANCELLED, collector, collect_to_meeting(collector, at));
    assert_non_null(helped_region(collector));
    return collector;
}

static void wait_for_thread(etl_collector *collector) {
    meeting_release();
    while (region_in(collector, ETL__QUEUED, ETL__WRITING) != NULL)
        nanosleep(&(struct timespec){.tv_nsec = 100 * 1000}, NULL);
}

static void test_cancelled_behind_half(void **unused) {
    (void)unused;
    (void)begin_pairs(bytes_for(1, 1), false, &collection_order);
    for (enum ending ending = BY_LOAD; ending < ENDINGS; ending++)
        for (int resumed = 0; resumed <= 1; resumed++) {
            size_t at = 0;
            etl_collector *collector = cancelled_behind_half(&at);
            if (resumed)
                etl_resume(collector);
            wait_for_thread(collector);
            etl_resume(collector);
            size_t runs = collector->store.runs.count;
            assert_int_equal(region_in(collector, ETL__WRITTEN, ETL__WRITTEN) != NULL, resumed);
            collector->store.watch.tell = NULL;
            if (ending == BY_LOAD) {
                ASSERT_OK(collector, collect(collector, at++));
                if (resumed)
                    assert_int_equal(collector->store.runs.count, runs + 2);
                ASSERT_OK(collector, etl_flush(collector));
                assert_flushed(collector, at);
            }
            end_by(collector, ending, at);
        }
}

/* ---- Pairs in equal pairs out */

static void miscounted(etl_collector *collector, struct etl__run_footer *footer) {
    footer->pairs--;
    for (int again = 0; again < 2; again++) {
        ASSERT_STATUS(ETL_E_CORRUPT, collector, etl_flush(collector));
        assert_non_null(strstr(etl_collector_message(collector), "pairs of"));
        ASSERT_STATUS(ETL_E_CORRUPT, collector, etl_load(collector, oracle_load, NULL));
    }
    footer->pairs++;
}

static void test_counted(void **unused) {
    (void)unused;
    (void)begin_pairs(bytes_for(1, 1), false, &collection_order);
    for (enum ending ending = BY_LOAD; ending < ENDINGS; ending++) {
        size_t at = 0;
        etl_collector *collector = cancelled_behind_half(&at);
        etl_resume(collector);
        wait_for_thread(collector);
        collector->store.watch.tell = NULL;
        struct etl__region *region = helped_region(collector);
        assert_true(region->run != NULL && region->state == ETL__WRITTEN);
        miscounted(collector, &region->run->footer);
        miscounted(collector, &region->upper->footer);
        end_by(collector, ending, at);
    }
}

int main(void) {
    if (!HAVE_OWN_PWRITE)
        return 0;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cancelled_in_half),
                                       cmocka_unit_test(test_cancelled_behind_half),
                                       cmocka_unit_test(test_counted)};
    int failed = cmocka_run_group_tests(tests, support_setup, support_teardown);
    oracle_clear(&pairs);
    oracle_clear(&expected);
    return failed;
}
