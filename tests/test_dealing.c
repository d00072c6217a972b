/* test_dealing.c: many small pairs in no order, several times the memory limit, whose keys come in
 * ways that please or upset dealing by key ranges: every setting gives the same bytes, in order,
 * each pair once, within the limit. */
#include "oracle.h"
#include "support.h"

#include <stdlib.h>
#include <string.h>

/* ---- Pairs that a stream gives again and again */

enum kind {
    RANDOM,
    COMMON,    /* all keys begin alike */
    HEAVY,     /* every other pair has one key */
    MOVING,    /* a time with a random tail */
    ASCENDING, /* random, and from the first eighth on ascending */
    BELOW,     /* random, and then all below those before */
    FEW,       /* keys come some times each */
    LARGE,     /* now and then a value above any chunk */
    KINDS
};

struct stream {
    enum kind kind;
    size_t count, value_size;
};

static void put_number(uint8_t *to, uint64_t x) {
    for (int i = 0; i < 8; i++)
        to[i] = (uint8_t)(x >> (56 - 8 * i));
}

static uint64_t number_of(const void *at) {
    uint64_t x = 0;
    for (int i = 0; i < 8; i++)
        x = x << 8 | ((const uint8_t *)at)[i];
    return x;
}

static uint64_t mix(uint64_t x) {
    struct prng prng = {x};
    return prng_next(&prng);
}

enum { MOST_VALUE = 300 * 1024 };

static uint8_t value_room[MOST_VALUE];

/* Pair i; its value begins with i. */
static void stream_pair(const struct stream *stream, size_t i, uint8_t key[32], etl_slice *key_of,
                        etl_slice *value) {
    uint64_t x = mix(i);
    size_t at = 0, size = stream->value_size;
    bool late = i > stream->count / 8;
    if (stream->kind == COMMON) {
        memcpy(key, "a common prefix/", 16);
        at = 16;
    }
    if (stream->kind == HEAVY && i % 2 == 0)
        x = UINT64_MAX / 3;
    if (stream->kind == MOVING)
        x = (uint64_t)(i / 64) << 32 | x >> 32;
    if (stream->kind == ASCENDING && late)
        x = i * 1000003;
    if (stream->kind == BELOW)
        x = late ? x >> 2 : x | (uint64_t)1 << 63;
    if (stream->kind == FEW)
        x = mix(x % (stream->count / 5 + 1));
    if (stream->kind == LARGE && i % 20011 == 20010)
        size = MOST_VALUE;
    put_number(key + at, x);
    put_number(value_room, i);
    *key_of = etl_slice_of(key, at + 8);
    *value = etl_slice_of(value_room, size);
}

static void feed(etl_collector *collector, const struct stream *stream, size_t from, size_t to,
                 size_t reserve_each) {
    uint8_t room[32];
    for (size_t i = from; i < to; i++) {
        etl_slice key, value;
        void *key_at, *value_at;
        stream_pair(stream, i, room, &key, &value);
        int status;
        if (reserve_each != 0 && i % reserve_each == reserve_each - 1) {
            status = etl_reserve(collector, key.size, value.size, &key_at, &value_at);
            if (status == ETL_OK) {
                memcpy(key_at, key.data, key.size);
                memcpy(value_at, value.data, value.size);
            }
        } else {
            status = etl_collect(collector, key, value);
        }
        ASSERT_OK(collector, status);
    }
}

/* Looks at what is loaded: in order, ties as collected, each pair whole and once. */
struct look {
    size_t count, wrong;
    uint64_t sum;         /* over the pairs' numbers, in any order */
    uint64_t fingerprint; /* of everything, in this order */
    uint8_t key[32];      /* the last one */
    uint64_t number;
    const struct stream *stream;
};

static int look_at(void *context, etl_slice key, etl_slice value) {
    struct look *look = context;
    etl_slice expected_key, expected_value;
    uint8_t room[32];
    uint64_t number = value.size >= 8 ? number_of(value.data) : UINT64_MAX;
    if (number >= look->stream->count) {
        look->wrong++;
        return 0;
    }
    stream_pair(look->stream, number, room, &expected_key, &expected_value);
    if (key.size != expected_key.size || memcmp(key.data, room, key.size) != 0 ||
        value.size != expected_value.size || memcmp(value.data, value_room, value.size) != 0)
        look->wrong++;
    int order = memcmp(look->key, room, key.size);
    if (look->count != 0 && (order > 0 || (order == 0 && number < look->number)))
        look->wrong++;
    memcpy(look->key, room, sizeof room);
    look->number = number;
    look->count++;
    look->sum += mix(number);
    look->fingerprint = mix(look->fingerprint ^ number) + value.size;
    return 0;
}

static void assert_looks(const struct look *look, size_t from, size_t to) {
    uint64_t sum = 0;
    for (size_t i = from; i < to; i++)
        sum += mix(i);
    assert_int_equal(look->wrong, 0);
    assert_int_equal(look->count, to - from);
    assert_true(look->sum == sum);
}

static etl_stats stats_of(const etl_collector *collector) {
    etl_stats stats = {.struct_size = sizeof stats};
    ASSERT_OK(collector, etl_collector_stats(collector, &stats));
    return stats;
}

static void assert_within(const etl_collector *collector, size_t limit) {
    etl_stats stats = stats_of(collector);
    if (stats.memory_bytes_peak > limit + 64 * KIB)
        fail_msg("a peak %zu above the limit", (size_t)stats.memory_bytes_peak - limit);
}

/* ---- Settings: each has regions large enough to be dealt */

struct setting {
    size_t limit;
    int threads;
    etl_access access;
};

static const struct setting settings[] = {
    {10 * MIB, ETL_THREADS_NONE, ETL_ACCESS_MMAP},
    {24 * MIB, 1, ETL_ACCESS_READ},
    {20 * MIB, 1, ETL_ACCESS_MMAP},
    {13 * MIB, ETL_THREADS_NONE, ETL_ACCESS_READ},
    {32 * MIB, 2, ETL_ACCESS_MMAP},
};

static etl_collector *create(const struct setting *setting, const struct oracle_rules *rules) {
    etl_options options = support_options(setting->limit);
    etl_collector *collector;
    options.threads = setting->threads;
    options.access = setting->access;
    if (rules != NULL)
        oracle_apply(rules, &options);
    support_make_fast(&options);
    ASSERT_OK(NULL, etl_collector_create(&collector, &options));
    return collector;
}

/* Lighter: the same, of fewer and larger pairs. */
static struct stream stream_of(enum kind kind, size_t bytes) {
    size_t value_size = support_light() ? 230 : 60;
    return (struct stream){kind, bytes / (value_size + 10), value_size};
}

static uint64_t load_all(const struct setting *setting, const struct stream *stream,
                         size_t reserve_each) {
    struct look look = {.stream = stream};
    etl_collector *collector = create(setting, NULL);
    feed(collector, stream, 0, stream->count, reserve_each);
    ASSERT_OK(collector, etl_load(collector, look_at, &look));
    assert_looks(&look, 0, stream->count);
    assert_within(collector, setting->limit);
    assert_true(setting->limit > 20 * MIB || stats_of(collector).runs >= 1);
    etl_collector_destroy(collector);
    return look.fingerprint;
}

static void test_kinds(void **unused) {
    (void)unused;
    for (enum kind kind = 0; kind < KINDS; kind++) {
        struct stream stream = stream_of(kind, 27 * MIB);
        uint64_t first = load_all(&settings[0], &stream, 0);
        assert_true(load_all(&settings[1 + kind % 4], &stream, 0) == first);
        if (kind % 2 == 0)
            assert_true(load_all(&settings[1 + (kind + 2) % 4], &stream, 0) == first);
    }
}

/* Reserved pairs have no key yet, and end the dealing; some are in its midst. */
static void test_reserve(void **unused) {
    (void)unused;
    struct stream stream = stream_of(FEW, 27 * MIB);
    uint64_t first = load_all(&settings[0], &stream, 0);
    for (size_t i = 0; i < COUNT_OF(settings); i++)
        assert_true(load_all(&settings[i], &stream, stream.count / 3 + i) == first);
}

/* A reserve that has to spill, and fails: whatever follows, nothing is lost. */
static void test_reserve_fails(void **unused) {
    (void)unused;
    for (int threads = -1; threads <= 1; threads++) {
        etl_options options = support_options(threads < 0 ? 10 * MIB : 22 * MIB);
        struct stream stream = {RANDOM, options.memory_limit / (threads < 0 ? 100 : 150), 60};
        struct look look = {.stream = &stream};
        etl_collector *collector;
        void *key, *value;
        options.threads = threads;
        options.disk_limit = 1 * MIB;
        ASSERT_OK(NULL, etl_collector_create(&collector, &options));
        feed(collector, &stream, 0, stream.count - 1, 0);
        int status = ETL_E_NOSPACE;
        for (int again = 0; again < 3 && status != ETL_OK; again++) {
            status = etl_reserve(collector, 8, 60, &key, &value);
            assert_true(status == ETL_OK || status == ETL_E_NOSPACE);
        }
        if (status == ETL_OK) {
            uint8_t room[32];
            etl_slice key_of, value_of;
            stream_pair(&stream, stream.count - 1, room, &key_of, &value_of);
            memcpy(key, room, 8);
            memcpy(value, value_of.data, 60);
        } else {
            stream.count--;
        }
        ASSERT_OK(collector, etl_load(collector, look_at, &look));
        assert_looks(&look, 0, stream.count);
        etl_collector_destroy(collector);
    }
}

/* ---- Flushed, iterated and collected on in the midst */

static void iterate(etl_collector *collector, const struct stream *stream, size_t to) {
    struct look look = {.stream = stream};
    etl_slice key, value;
    etl_iter *iter;
    ASSERT_OK(collector, etl_iter_open(&iter, collector, NULL));
    int status;
    while ((status = etl_iter_next(iter, &key, &value)) == ETL_OK)
        look_at(&look, key, value);
    assert_int_equal(status, ETL_END);
    assert_looks(&look, 0, to);
    etl_iter_close(iter);
}

static void test_in_the_midst(void **unused) {
    (void)unused;
    for (size_t i = 0; i < 3; i++) {
        struct stream stream = stream_of(i == 1 ? MOVING : FEW, 20 * MIB);
        struct look look = {.stream = &stream};
        etl_collector *collector = create(&settings[i], NULL);
        size_t at = 0;
        for (size_t part = 1; part <= 4; part++) {
            feed(collector, &stream, at, stream.count / 4 * part, 0);
            at = stream.count / 4 * part;
            if (part % 2 != 0)
                iterate(collector, &stream, at);
            else
                ASSERT_OK(collector, etl_flush(collector));
        }
        feed(collector, &stream, at, stream.count, 0);
        ASSERT_OK(collector, etl_load(collector, look_at, &look));
        assert_looks(&look, 0, stream.count);
        assert_within(collector, settings[i].limit);
        etl_collector_destroy(collector);
    }
}

/* ---- Beside the oracle: duplicates, values in order, ranges, seeks, parts */

static void make_pairs(struct oracle *pairs, size_t count, size_t value_size) {
    struct prng prng;
    uint8_t key[12];
    prng_start(&prng, count);
    for (size_t i = 0; i < count; i++) {
        size_t at = i % 3 == 0 && count > 1000 ? 4 : 8; /* shorter keys, which come again */
        put_number(key, prng_next(&prng) & (at == 4 ? 0xffff000000000000 : UINT64_MAX));
        put_number(value_room, prng_below(&prng, 50));
        bool nil = prng_permille(&prng, 30), empty = prng_permille(&prng, 30);
        oracle_add(pairs, etl_slice_of(key, at),
                   etl_slice_of(nil ? NULL : value_room, nil || empty ? 0 : value_size));
    }
}

static void collect_all(etl_collector *collector, const struct oracle *pairs) {
    for (size_t i = 0; i < pairs->count; i++)
        ASSERT_OK(collector, etl_collect(collector, oracle_key(&pairs->pairs[i]),
                                         oracle_value(&pairs->pairs[i])));
}

static void test_duplicates(void **unused) {
    (void)unused;
    struct oracle pairs = {0}, expected = {0};
    make_pairs(&pairs, 70000, 225);
    for (int duplicates = ETL_KEEP_ALL; duplicates <= ETL_REJECT; duplicates++)
        for (int order_values = 0; order_values <= 1; order_values++) {
            struct oracle_rules rules = {(etl_duplicates)duplicates, order_values, ORACLE_TRIM};
            bool accepted = oracle_settle(&pairs, &rules, &expected);
            etl_collector *collector =
                create(&settings[(size_t)(duplicates + order_values) % 3], &rules);
            collect_all(collector, &pairs);
            struct oracle_check check = {.expected = &expected};
            ASSERT_STATUS(accepted ? ETL_OK : ETL_E_DUPLICATE, collector,
                          etl_load(collector, oracle_load, &check));
            assert_true(!accepted || check.at == expected.count);
            etl_collector_destroy(collector);
        }
    oracle_clear(&pairs);
    oracle_clear(&expected);
}

/* A range, and seeks in it; three pairs behind each. */
static void check_range(etl_collector *collector, const struct oracle *sorted, struct prng *prng) {
    etl_slice a = oracle_key(&sorted->pairs[prng_below(prng, sorted->count)]);
    etl_slice b = oracle_key(&sorted->pairs[prng_below(prng, sorted->count)]), key, value;
    size_t from = oracle_lower_bound(sorted, a), to = oracle_lower_bound(sorted, b);
    etl_range range = {from < to ? a : b, from < to ? b : a};
    size_t low = from < to ? from : to, high = from < to ? to : from;
    etl_iter *iter;
    ASSERT_OK(collector, etl_iter_open(&iter, collector, &range));
    for (size_t i = 0; i < 40; i++) {
        size_t at = low;
        if (i != 0) {
            uint8_t probe[8];
            put_number(probe, prng_next(prng));
            key = i % 2 != 0 ? oracle_key(&sorted->pairs[prng_below(prng, sorted->count)])
                             : etl_slice_of(i == 2 ? NULL : probe, i == 2 ? 0 : 1 + i % 8);
            at = oracle_lower_bound(sorted, key);
            at = at < low ? low : at;
            ASSERT_OK(collector, etl_iter_seek(iter, key));
        }
        for (size_t more = 0; more < 3; more++, at++) {
            ASSERT_STATUS(at < high ? ETL_OK : ETL_END, collector,
                          etl_iter_next(iter, &key, &value));
            if (at >= high)
                break;
            assert_true(oracle_same(&sorted->pairs[at], key, value));
        }
    }
    etl_iter_close(iter);
}

/* The parts that etl_split cuts are all pairs, and about equal. */
static void check_split(etl_collector *collector, const struct oracle *sorted) {
    etl_slice keys[7], key, value;
    size_t count, at = 0;
    ASSERT_OK(collector, etl_split(&collector, 1, 8, keys, &count));
    assert_int_equal(count, 7);
    for (size_t part = 0; part <= count; part++) {
        etl_range range = {part == 0 ? etl_slice_of(NULL, 0) : keys[part - 1],
                           part == count ? etl_slice_of(NULL, 0) : keys[part]};
        size_t began = at;
        etl_iter *iter;
        ASSERT_OK(collector, etl_iter_open(&iter, collector, &range));
        for (; etl_iter_next(iter, &key, &value) == ETL_OK; at++)
            assert_true(at < sorted->count && oracle_same(&sorted->pairs[at], key, value));
        etl_iter_close(iter);
        assert_true(at - began < sorted->count / 4 && at - began > sorted->count / 32);
    }
    assert_int_equal(at, sorted->count);
}

static void test_ranges(void **unused) {
    (void)unused;
    struct prng prng;
    prng_start(&prng, 9);
    for (size_t i = 0; i < 4; i++) {
        struct oracle pairs = {0}, sorted = {0};
        const struct oracle_rules rules = {ETL_KEEP_ALL, i % 2 != 0, ORACLE_TRIM};
        make_pairs(&pairs, i == 3 ? 25000 : 90000, 210); /* the last in memory */
        assert_true(oracle_settle(&pairs, &rules, &sorted));
        etl_collector *collector = create(&settings[i], &rules);
        collect_all(collector, &pairs);
        for (size_t times = 0; times < 5; times++)
            check_range(collector, &sorted, &prng);
        check_split(collector, &sorted);
        assert_within(collector, settings[i].limit);
        etl_collector_destroy(collector);
        oracle_clear(&pairs);
        oracle_clear(&sorted);
    }
}

/* ---- Rounds like the one before allocate nothing */

static void steady(const struct setting *setting, enum kind kind, size_t bytes, bool spills) {
    struct stream stream = stream_of(kind, bytes);
    etl_collector *collector = create(setting, NULL);
    uint64_t allocations = 0;
    for (int round = 0; round < 5; round++) {
        struct look look = {.stream = &stream};
        feed(collector, &stream, 0, stream.count, 0);
        ASSERT_OK(collector, etl_load(collector, look_at, &look));
        assert_looks(&look, 0, stream.count);
        etl_stats stats = stats_of(collector);
        assert_int_equal(stats.runs != 0, spills);
        if (round >= 2 && stats.allocations != allocations)
            fail_msg("threads %d, kind %d, %s: %d allocations in round %d", setting->threads,
                     (int)kind, spills ? "spilled" : "in memory",
                     (int)(stats.allocations - allocations), round);
        allocations = stats.allocations;
    }
    assert_within(collector, setting->limit);
    etl_collector_destroy(collector);
}

static void test_steady(void **unused) {
    (void)unused;
    steady(&settings[0], RANDOM, 5 * MIB, false);
    steady(&settings[0], RANDOM, 15 * MIB, true);
    steady(&settings[2], RANDOM, 5 * MIB, false);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kinds),        cmocka_unit_test(test_reserve),
        cmocka_unit_test(test_in_the_midst), cmocka_unit_test(test_duplicates),
        cmocka_unit_test(test_ranges),       cmocka_unit_test(test_steady),
        cmocka_unit_test(test_reserve_fails)};
    return cmocka_run_group_tests(tests, support_setup, support_teardown);
}
