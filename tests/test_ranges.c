/* test_ranges.c: a merge shared with a thread gives what it would give alone, in the same order,
 * errors and cancelling included; and a load shares it where there may be threads. */
#include "merge_support.h"
#include "ranges.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { PAIRS = 9000 };

/* Sources, what is expected of them, and two merges over them. */
struct shared {
    struct sources sources;
    struct oracle sorted;
    struct etl__merge merge, second;
};

static struct shared shared; /* large */

static void start(struct prng *prng, size_t sources, int kind, size_t pairs) {
    static const struct oracle_rules all;
    memset(&shared, 0, sizeof shared);
    ground_start(256 * MIB, true);
    sources_start(&shared.sources, sources, false);
    sources_fill(&shared.sources, prng, kind, pairs);
    assert_true(oracle_settle(&shared.sources.pairs, &all, &shared.sorted));
    sources_open(&shared.sources, &shared.merge);
    sources_open(&shared.sources, &shared.second);
}

static void end(void) {
    etl__merge_close(&shared.merge);
    etl__merge_close(&shared.second);
    sources_end(&shared.sources);
    oracle_clear(&shared.sorted);
    ground_end();
}

static struct etl__ranges *open_ranges(size_t ranges, size_t batches) {
    struct etl__ranges *opened;
    struct etl__ranges_plan plan = {.ranges = ranges, .batches = batches};
    ASSERT_OK(NULL,
              etl__ranges_open(&opened, &plan, &shared.merge, &shared.second, &ground.error));
    return opened;
}

/* Take pairs until `most` or more came, or a status, which is given. */
static size_t take_some(struct etl__ranges *ranges, const struct oracle *sorted, size_t at,
                        size_t most, int *status) {
    for (*status = ETL_OK; *status == ETL_OK && at < most;) {
        const struct etl__pair *pairs;
        size_t taken;
        *status = etl__ranges_take(ranges, &pairs, &taken, &ground.error);
        assert_true(*status == ETL_OK ? taken != 0 : taken == 0);
        assert_true(taken <= sorted->count - at);
        for (size_t i = 0; i < taken; i++)
            if (!same_pair(&sorted->pairs[at + i], &pairs[i]))
                fail_msg("pair %zu of %zu differs", at + i, sorted->count);
        at += taken;
    }
    return at;
}

static void same_as_alone(void **unused) {
    (void)unused;
    static const size_t plans[][2] = {{2, 1}, {3, 64}, {16, 2}, {500, 5}}; /* ranges, batches */
    static const size_t widths[] = {1, 2, 7, 40};
    struct prng prng;
    prng_start(&prng, 1);
    for (size_t i = 0; i < COUNT_OF(plans); i++)
        for (int kind = 0; kind < KINDS; kind++) {
            bool is_long = kind == KINDS - 1;
            size_t width = widths[((size_t)kind + i) % COUNT_OF(widths)];
            start(&prng, width, kind, is_long ? PAIRS / 10 : PAIRS);
            struct etl__ranges *ranges = open_ranges(plans[i][0], plans[i][1]);
            if (ranges != NULL) {
                int status;
                assert_int_equal(take_some(ranges, &shared.sorted, 0, SIZE_MAX, &status),
                                 shared.sorted.count);
                for (int again = 0; again < 2; again++) {
                    assert_int_equal(status, ETL_END);
                    take_some(ranges, &shared.sorted, shared.sorted.count, SIZE_MAX, &status);
                }
                etl__ranges_close(ranges);
            } else { /* nothing to cut: one key, or next to none */
                assert_true(kind == 3 || kind == 4 || shared.sorted.count == 0);
            }
            end();
        }
}

static void ends_anywhere(void **unused) {
    (void)unused;
    struct prng prng;
    prng_start(&prng, 2);
    for (size_t most = 0; most < PAIRS; most += 1 + most * 2) {
        int status;
        start(&prng, 5, 0, PAIRS);
        struct etl__ranges *ranges = open_ranges(9, 3);
        assert_non_null(ranges);
        size_t at = take_some(ranges, &shared.sorted, 0, most, &status);
        assert_true(status == ETL_OK || (status == ETL_END && at == shared.sorted.count));
        etl__ranges_close(ranges);
        end();
    }
}

/* Each of the two may see it first; then the status stays. */
static void is_cancelled(void **unused) {
    (void)unused;
    struct prng prng;
    size_t cancelled = 0;
    prng_start(&prng, 3);
    for (size_t most = 0; most < 8000; most += 500) {
        int status;
        start(&prng, 3, 0, PAIRS);
        struct etl__ranges *ranges = open_ranges(8, 2);
        assert_non_null(ranges);
        size_t at = take_some(ranges, &shared.sorted, 0, most, &status);
        atomic_store(&ground.cancel, 1);
        at = take_some(ranges, &shared.sorted, at, SIZE_MAX, &status);
        assert_true(status == ETL_E_CANCELLED || (status == ETL_END && at == shared.sorted.count));
        int again;
        assert_int_equal(take_some(ranges, &shared.sorted, at, SIZE_MAX, &again), at);
        assert_int_equal(again, status);
        cancelled += status == ETL_E_CANCELLED;
        assert_true(status == ETL_END || strcmp(ground.error.text, "merging: cancelled") == 0);
        etl__ranges_close(ranges);
        atomic_store(&ground.cancel, 0);
        end();
    }
    assert_true(cancelled != 0);
}

/* ---- Sources that fail or lie */

static void open_made(const struct oracle *pairs, size_t fail_at, struct etl__merge *merge) {
    struct made *made = made_over(pairs, pairs->count);
    made->fail_at = fail_at;
    made->status = fail_at < pairs->count ? ETL_E_IO : ETL_OK;
    made->base.stays = true;
    struct etl__provider *provider = &made->base;
    ASSERT_OK(NULL,
              etl__merge_open(merge, &ground.memory, &provider, 1, false, NULL, &ground.error));
}

static void number_pairs(struct oracle *pairs, unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        char key[16];
        snprintf(key, sizeof key, "%08u", i);
        oracle_add(pairs, etl_slice_str(key), etl_slice_of(&i, sizeof i));
    }
}

static void tells_failures_in_order(void **unused) {
    (void)unused;
    struct oracle pairs = {0};
    number_pairs(&pairs, 5000);
    for (size_t good = 0; good < pairs.count; good += 1 + good / 2) {
        int status;
        ground_start(16 * MIB, false);
        open_made(&pairs, good, &shared.merge);
        open_made(&pairs, good, &shared.second);
        struct etl__ranges *ranges = open_ranges(7, 4);
        assert_non_null(ranges);
        size_t at = take_some(ranges, &pairs, 0, SIZE_MAX, &status);
        assert_in_range(at, good == 0 ? 0 : good - 1, good); /* read one ahead */
        assert_int_equal(status, ETL_E_IO);
        assert_string_equal(ground.error.text, "made to fail");
        etl__ranges_close(ranges);
        etl__merge_close(&shared.merge);
        etl__merge_close(&shared.second);
        ground_end();
    }
    oracle_clear(&pairs);
}

static void counts_what_comes_out(void **unused) {
    (void)unused;
    struct oracle pairs = {0};
    int status;
    number_pairs(&pairs, 5000);
    ground_start(16 * MIB, false);
    open_made(&pairs, SIZE_MAX, &shared.merge);
    open_made(&pairs, SIZE_MAX, &shared.second);
    shared.merge.providers[0]->pairs++;
    struct etl__ranges *ranges = open_ranges(4, 4);
    assert_non_null(ranges);
    assert_int_equal(take_some(ranges, &pairs, 0, SIZE_MAX, &status), pairs.count);
    assert_int_equal(status, ETL_E_CORRUPT);
    assert_string_equal(ground.error.text, "merging: 5001 pairs went in, 5000 came out");
    etl__ranges_close(ranges);
    etl__merge_close(&shared.merge);
    etl__merge_close(&shared.second);
    ground_end();
    oracle_clear(&pairs);
}

/* Without memory for any part of it there is none, and nothing has changed; but splitting says so. */
static void needs_memory(void **unused) {
    (void)unused;
    struct prng prng;
    prng_start(&prng, 4);
    int status = ETL_OK, missing = 0;
    for (long refused = 1;; refused++) {
        struct etl__ranges_plan plan = {.ranges = 4, .batches = 100};
        struct etl__ranges *ranges;
        start(&prng, 3, 0, PAIRS);
        atomic_store(&ground.held.refuse_from, refused);
        int opened =
            etl__ranges_open(&ranges, &plan, &shared.merge, &shared.second, &ground.error);
        atomic_store(&ground.held.refuse_from, 0);
        if (ranges != NULL) {
            etl__ranges_close(ranges);
            end();
            break;
        }
        missing++;
        status = opened != ETL_OK ? opened : status;
        assert_merges(&shared.merge, &shared.sorted, 0, shared.sorted.count, true);
        end();
    }
    assert_in_range(missing, 4, 1000);
    assert_int_equal(status, ETL_E_NOMEM);
}

/* ---- Loading */

/* So few bytes that no thread checks blocks ahead: one more thread is the one that merges. */
enum { LOADED = 300000 };

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
static void load_shares(void **unused) {
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
            bool shares = threads != ETL_THREADS_NONE && options.access == ETL_ACCESS_MMAP;
            assert_int_equal(slow.threads, before + shares);
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(same_as_alone),
                                       cmocka_unit_test(ends_anywhere),
                                       cmocka_unit_test(is_cancelled),
                                       cmocka_unit_test(tells_failures_in_order),
                                       cmocka_unit_test(counts_what_comes_out),
                                       cmocka_unit_test(needs_memory),
                                       cmocka_unit_test(load_shares)};
    return cmocka_run_group_tests(tests, support_setup, support_teardown);
}
