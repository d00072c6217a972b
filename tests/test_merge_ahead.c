/* test_merge_ahead.c: a merge on a thread of its own gives what it would give without one, in the
 * same order, errors and cancelling included; and a load starts one where its callback is slow. */
#include "merge_ahead.h"
#include "merge_support.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { PAIRS = 20000 };

static void start(struct sources *sources, struct prng *prng, size_t count, struct oracle *sorted,
                  struct etl__merge *merge) {
    static const struct oracle_rules all;
    ground_start(256 * MIB, true);
    sources_start(sources, count, false);
    sources_fill(sources, prng, 0, PAIRS);
    assert_true(oracle_settle(&sources->pairs, &all, sorted));
    sources_open(sources, merge);
}

static struct etl__merge_ahead *start_ahead(struct etl__merge *merge) {
    struct etl__merge_ahead *ahead = etl__merge_ahead_open(merge);
    assert_non_null(ahead);
    assert_true(etl__merge_ahead_start(ahead));
    return ahead;
}

static void end(struct sources *sources, struct oracle *sorted, struct etl__merge *merge) {
    etl__merge_close(merge);
    sources_end(sources);
    oracle_clear(sorted);
    ground_end();
}

/* Take batches until `most` pairs or more came, or a status, which is given; or, after a halt, no
 * more. */
static size_t take_some(struct etl__merge_ahead *ahead, const struct oracle *sorted, size_t at,
                        size_t most, int *status) {
    size_t taken;
    for (*status = ETL_OK; at < most; at += taken) {
        const struct etl__pair *pairs;
        *status = etl__merge_ahead_take(ahead, &pairs, &taken, &ground.error);
        if (*status != ETL_OK || taken == 0)
            break;
        assert_true(taken <= sorted->count - at);
        for (size_t i = 0; i < taken; i++)
            if (!same_pair(&sorted->pairs[at + i], &pairs[i]))
                fail_msg("pair %zu of %zu differs", at + i, sorted->count);
    }
    return at;
}

static void same_as_without(void **unused) {
    (void)unused;
    static const size_t widths[] = {1, 2, 7, 40};
    static struct sources sources;
    struct prng prng;
    prng_start(&prng, 1);
    for (size_t i = 0; i < COUNT_OF(widths); i++)
        for (size_t most = 0; most < 300; most += 100) {
            struct oracle sorted = {0};
            struct etl__merge merge;
            start(&sources, &prng, widths[i], &sorted, &merge);
            size_t before = most < sorted.count ? most : sorted.count; /* without a thread */
            assert_true(etl__merge_lasts(&merge, SIZE_MAX));
            assert_merges(&merge, &sorted, 0, before, true);
            assert_int_equal(etl__merge_left(&merge), sorted.count - before);
            struct etl__merge_ahead *ahead = start_ahead(&merge);
            int status;
            assert_int_equal(take_some(ahead, &sorted, before, SIZE_MAX, &status), sorted.count);
            assert_int_equal(status, ETL_END);
            take_some(ahead, &sorted, sorted.count, SIZE_MAX, &status);
            assert_int_equal(status, ETL_END);
            etl__merge_ahead_close(ahead);
            end(&sources, &sorted, &merge);
        }
}

/* Closed anywhere; or halted, and what was merged comes, and the rest is the merge's again. */
static void ends_anywhere(void **unused) {
    (void)unused;
    static struct sources sources;
    struct prng prng;
    prng_start(&prng, 2);
    for (int halt = 0; halt <= 1; halt++)
        for (size_t most = 0; most < PAIRS; most += 1 + most * 2) {
            struct oracle sorted = {0};
            struct etl__merge merge;
            int status;
            start(&sources, &prng, 5, &sorted, &merge);
            struct etl__merge_ahead *ahead = start_ahead(&merge);
            size_t at = take_some(ahead, &sorted, 0, most, &status);
            assert_true(status == ETL_OK || (status == ETL_END && at == sorted.count));
            if (halt) {
                etl__merge_ahead_halt(ahead);
                at = take_some(ahead, &sorted, at, SIZE_MAX, &status);
                assert_true(status == ETL_OK || (status == ETL_END && at == sorted.count));
                assert_int_equal(merge.delivered, at);
                assert_merges(&merge, &sorted, at, sorted.count, at == 0);
                assert_merge_status(&merge, ETL_END);
            }
            etl__merge_ahead_close(ahead);
            end(&sources, &sorted, &merge);
        }
}

/* What was merged before it was cancelled comes first; then the status stays. */
static void is_cancelled(void **unused) {
    (void)unused;
    static struct sources sources;
    struct prng prng;
    size_t cancelled = 0;
    prng_start(&prng, 3);
    for (size_t most = 0; most < 8000; most += 1000) {
        struct oracle sorted = {0};
        struct etl__merge merge;
        int status;
        start(&sources, &prng, 3, &sorted, &merge);
        struct etl__merge_ahead *ahead = start_ahead(&merge);
        size_t at = take_some(ahead, &sorted, 0, most, &status);
        atomic_store(&ground.cancel, 1);
        at = take_some(ahead, &sorted, at, SIZE_MAX, &status);
        assert_true(status == ETL_E_CANCELLED || (status == ETL_END && at == sorted.count));
        int again;
        assert_int_equal(take_some(ahead, &sorted, at, SIZE_MAX, &again), at);
        assert_int_equal(again, status);
        cancelled += status == ETL_E_CANCELLED;
        assert_true(status == ETL_END || strcmp(ground.error.text, "merging: cancelled") == 0);
        etl__merge_ahead_close(ahead);
        atomic_store(&ground.cancel, 0);
        end(&sources, &sorted, &merge);
    }
    assert_true(cancelled != 0);
}

/* A provider that fails behind `good` pairs. */
static void tells_failures_in_order(void **unused) {
    (void)unused;
    struct oracle pairs = {0};
    for (unsigned i = 0; i < 5000; i++) {
        char key[16];
        snprintf(key, sizeof key, "%08u", i);
        oracle_add(&pairs, etl_slice_str(key), etl_slice_of(&i, sizeof i));
    }
    for (size_t good = 0; good < pairs.count; good += 1 + good / 2) {
        ground_start(16 * MIB, false);
        struct made *made = made_over(&pairs, pairs.count);
        made->fail_at = good;
        made->status = ETL_E_IO;
        made->base.lasts = SIZE_MAX; /* all its pairs are one window */
        struct etl__provider *provider = &made->base;
        struct etl__merge merge;
        ASSERT_OK(NULL, etl__merge_open(&merge, &ground.memory, &provider, 1, false, NULL,
                                        &ground.error));
        struct etl__merge_ahead *ahead = start_ahead(&merge);
        int status;
        size_t at = take_some(ahead, &pairs, 0, SIZE_MAX, &status);
        assert_in_range(at, good == 0 ? 0 : good - 1, good); /* read one ahead */
        assert_int_equal(status, ETL_E_IO);
        assert_string_equal(ground.error.text, "made to fail");
        etl__merge_ahead_close(ahead);
        etl__merge_close(&merge);
        ground_end();
    }
    oracle_clear(&pairs);
}

static void needs_memory(void **unused) {
    (void)unused;
    static struct sources sources;
    struct prng prng;
    prng_start(&prng, 4);
    struct oracle sorted = {0};
    struct etl__merge merge;
    start(&sources, &prng, 3, &sorted, &merge);
    merge.memory->limit = 0;
    assert_null(etl__merge_ahead_open(&merge));
    merge.memory->limit = 256 * MIB;
    atomic_store(&ground.held.refuse_from, 1);
    assert_null(etl__merge_ahead_open(&merge));
    atomic_store(&ground.held.refuse_from, 0);
    struct etl__merge_ahead *never = etl__merge_ahead_open(&merge); /* and never started */
    assert_non_null(never);
    etl__merge_ahead_close(never);
    assert_merges(&merge, &sorted, 0, sorted.count, true);
    end(&sources, &sorted, &merge);
}

/* ---- Loading */

/* So few bytes that no thread checks blocks ahead: one more thread is the one that merges. */
enum { LOADED = 220000 };

struct slow {
    struct counted counted;
    etl_collector *collector;
    uint64_t fail_at, cancel_at;
    size_t threads; /* the most seen */
    long nanoseconds;
};

static size_t count_threads(void) {
    size_t count = 0;
    DIR *tasks = opendir("/proc/self/task");
    assert_non_null(tasks);
    while (readdir(tasks) != NULL)
        count++;
    closedir(tasks);
    return count - 2; /* . and .. */
}

static int take_slowly(void *context, etl_slice key, etl_slice value) {
    struct slow *slow = context;
    uint64_t number = slow->counted.next;
    if (number % 1000 == 0) {
        size_t threads = count_threads();
        slow->threads = threads > slow->threads ? threads : slow->threads;
    }
    if (number % 100 == 0 && slow->nanoseconds != 0)
        nanosleep(&(struct timespec){.tv_nsec = slow->nanoseconds}, NULL);
    if (number == slow->cancel_at)
        etl_cancel(slow->collector);
    return number == slow->fail_at ? 7 : counted_load(&slow->counted, key, value);
}

/* Runs, a callback that stops late or cancels, and then all of it. */
static void runs_ahead_of_a_slow_callback(void **unused) {
    (void)unused;
    for (int threads = ETL_THREADS_NONE; threads <= 1; threads++)
        for (int access = 0; access < 2; access++) {
            etl_options options = support_options(16 * MIB);
            options.threads = threads;
            options.access = access == 0 ? ETL_ACCESS_MMAP : ETL_ACCESS_READ;
            struct slow slow = {.fail_at = LOADED / 2, .cancel_at = UINT64_MAX};
            slow.nanoseconds = 20000;
            ASSERT_OK(NULL, etl_collector_create(&slow.collector, &options));
            ASSERT_OK(slow.collector, counted_collect_all(slow.collector, LOADED));
            ASSERT_OK(slow.collector, etl_flush(slow.collector));
            size_t before = count_threads();
            assert_int_equal(etl_load(slow.collector, take_slowly, &slow), 7);
            assert_int_equal(slow.counted.next, LOADED / 2);
            bool ahead = threads != ETL_THREADS_NONE && options.access == ETL_ACCESS_MMAP;
            assert_int_equal(slow.threads, before + ahead);
            assert_int_equal(count_threads(), before);
            slow.counted.next = 0;
            slow.fail_at = UINT64_MAX;
            slow.cancel_at = LOADED / 2;
            ASSERT_STATUS(ETL_E_CANCELLED, slow.collector,
                          etl_load(slow.collector, take_slowly, &slow));
            assert_int_equal(slow.counted.next, LOADED / 2 + 1);
            etl_resume(slow.collector);
            slow.counted.next = 0;
            slow.cancel_at = UINT64_MAX;
            ASSERT_OK(slow.collector, etl_load(slow.collector, take_slowly, &slow));
            assert_int_equal(slow.counted.next, LOADED);
            assert_int_equal(slow.counted.wrong, 0);
            etl_collector_destroy(slow.collector);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_as_without), cmocka_unit_test(ends_anywhere),
        cmocka_unit_test(is_cancelled),    cmocka_unit_test(tells_failures_in_order),
        cmocka_unit_test(needs_memory),    cmocka_unit_test(runs_ahead_of_a_slow_callback)};
    return cmocka_run_group_tests(tests, support_setup, support_teardown);
}
