/* help_support.h: for the tests of a caller that helps its thread: pairs enough for some regions that
 * can be halved, collected until the two meet, and what must hold afterwards. */
#ifndef LIBETL_TESTS_HELP_SUPPORT_H
#define LIBETL_TESTS_HELP_SUPPORT_H

#include "meeting_support.h"
#include "oracle.h"

#include <stdlib.h>
#include <string.h>

/* ---- Pairs, several times what the regions hold */

enum { VALUE = 240, PAIR = 250 };

static inline void make_pairs(struct oracle *made, size_t bytes, bool distinct) {
    struct prng prng;
    uint8_t key[8], value[VALUE] = {0};
    size_t count = bytes / PAIR;
    prng_start(&prng, count);
    for (size_t i = 0; i < count; i++) {
        uint64_t x = prng_next(&prng);
        size_t size = i % 4 == 0 && !distinct ? 2 : 8; /* shorter ones come again and again */
        for (size_t j = 0; j < size; j++)
            key[j] = (uint8_t)(x >> 8 * j);
        x = prng_next(&prng);
        memcpy(value, &x, sizeof x);
        bool nil = prng_permille(&prng, 20), empty = prng_permille(&prng, 20);
        oracle_add(made, etl_slice_of(key, size),
                   etl_slice_of(nil ? NULL : value, nil || empty ? 0 : VALUE));
    }
}

/* Enough for `more` regions beyond those of a collector, each a share of its limit. */
static inline size_t limit_of(int threads) {
    return (size_t)(threads + 1) * 12 * MIB;
}

static inline size_t bytes_for(int threads, size_t more) {
    return limit_of(threads) + more * 11 * MIB;
}

/* ---- The collector that is looked at */

static struct oracle pairs, expected;

static inline etl_options options_of(int threads, etl_access access,
                                     const struct oracle_rules *rules) {
    etl_options options = support_options(limit_of(threads));
    options.threads = threads;
    options.access = access;
    if (rules != NULL)
        oracle_apply(rules, &options);
    return options;
}

static inline etl_collector *create(const etl_options *options) {
    etl_collector *collector;
    ASSERT_OK(NULL, etl_collector_create(&collector, options));
    meeting.late = false;
    return collector;
}

static const struct oracle_rules collection_order = {.duplicates = ETL_KEEP_ALL};

/* Pairs that are to be collected, and what is expected to come out; false where the rules reject
 * them. Nothing is done when they are there already. */
static inline bool begin_pairs(size_t bytes, bool distinct, const struct oracle_rules *rules) {
    static struct oracle_rules settled_by;
    static bool were_distinct, accepted;
    bool are_made = bytes / PAIR == pairs.count && distinct == were_distinct;
    if (are_made && rules->duplicates == settled_by.duplicates &&
        rules->order_values == settled_by.order_values)
        return accepted;
    if (!are_made) {
        oracle_clear(&pairs);
        make_pairs(&pairs, bytes, distinct);
    }
    were_distinct = distinct;
    settled_by = *rules;
    accepted = oracle_settle(&pairs, rules, &expected);
    return accepted;
}

static inline etl_stats stats_of(const etl_collector *collector) {
    etl_stats stats = {.struct_size = sizeof stats};
    ASSERT_OK(collector, etl_collector_stats(collector, &stats));
    return stats;
}

static inline int collect(etl_collector *collector, size_t i) {
    return etl_collect(collector, oracle_key(&pairs.pairs[i]), oracle_value(&pairs.pairs[i]));
}

/* A region takes many times as many pairs: between two looks none is handed to a thread and waited
 * for as well. */
enum { LOOK = 256 };

/* Collect from pair *at on, always looking whether a thread is to wait first, until a call does not
 * return ETL_OK, which is returned, or the caller and the thread have met; ETL_END after the last
 * pair. */
static inline int collect_to_meeting(etl_collector *collector, size_t *at) {
    unsigned released = meeting.released;
    (void)meeting_awaited(collector);
    while (*at < pairs.count) {
        if (*at % LOOK == 0)
            (void)meeting_awaited(collector);
        int status = collect(collector, *at);
        if (status != ETL_OK)
            return status;
        ++*at;
        if (meeting.released != released)
            return ETL_OK;
    }
    return ETL_END;
}

/* Until a thread waits. */
static inline void collect_to_waiting(etl_collector *collector, size_t *at) {
    while (*at % LOOK != 0 || !meeting_awaited(collector)) {
        assert_true(*at < pairs.count);
        ASSERT_OK(collector, collect(collector, *at));
        ++*at;
    }
}

static inline void collect_rest(etl_collector *collector, size_t at) {
    for (; at < pairs.count; at++)
        ASSERT_OK(collector, collect(collector, at));
}

static inline size_t files_held(void) {
    return support_files_held(support_directory());
}

static inline void assert_disk_free(const etl_collector *collector) {
    assert_int_equal(stats_of(collector).disk_bytes, 0);
    if (files_held() != SIZE_MAX)
        assert_int_equal(files_held(), 0);
}

/* Everything is on disk, once, and no file is there but the runs'. */
static inline void assert_flushed(etl_collector *collector, uint64_t collected) {
    const struct etl__runs *runs = &collector->store.runs;
    uint64_t found = 0, bytes = 0;
    assert_null(region_in(collector, ETL__SEALED, ETL__FAILED));
    for (size_t i = 0; i < runs->count; i++) {
        found += runs->items[i].run->footer.pairs;
        bytes += runs->items[i].run->file_size;
    }
    assert_int_equal(found, collected);
    assert_int_equal(stats_of(collector).disk_bytes, bytes);
    if (files_held() != SIZE_MAX)
        assert_int_equal(files_held(), runs->count);
}

static inline void assert_within(const etl_collector *collector, const etl_options *options) {
    etl_stats stats = stats_of(collector);
    if (stats.memory_bytes_peak > options->memory_limit)
        fail_msg("a peak %zu above the limit",
                 (size_t)stats.memory_bytes_peak - options->memory_limit);
}

static inline void assert_loads(etl_collector *collector, int status) {
    struct oracle_check check = {.expected = &expected};
    ASSERT_STATUS(status, collector, etl_load(collector, oracle_load, &check));
    assert_true(status != ETL_OK || check.at == expected.count);
    assert_false(meeting.late);
    if (status == ETL_OK)
        assert_disk_free(collector);
}

static inline void end(etl_collector *collector) {
    meeting_end();
    assert_false(meeting.late);
    etl_collector_destroy(collector);
    if (files_held() != SIZE_MAX)
        assert_int_equal(files_held(), 0);
}

/* ---- Ways to end, from wherever a failure left it */

enum ending { BY_LOAD, BY_RESET, BY_DESTROY, ENDINGS };

/* The collector is left as it is, by each of the ways; reset can be followed by another round. */
static inline void end_by(etl_collector *collector, enum ending ending, size_t at) {
    meeting_end();
    if (ending == BY_LOAD) {
        collect_rest(collector, at);
        assert_loads(collector, ETL_OK);
    }
    if (ending == BY_RESET) {
        ASSERT_OK(collector, etl_reset(collector));
        assert_disk_free(collector);
        collect_rest(collector, 0);
        ASSERT_OK(collector, etl_flush(collector));
        assert_flushed(collector, pairs.count);
        assert_loads(collector, ETL_OK);
    }
    end(collector);
}

#endif
