/* test_merge.c: k sorted providers in, the naive stable sort's order out, for keys and ranges of
 * every kind; what fails in a provider comes through, and what a provider gets wrong is noticed.
 */
#include "merge_support.h"

#include <stdio.h>

static const size_t widths[] = {0, 1, 2, 3, 5, 8, 17, 64};

static void settle(const struct sources *sources, struct oracle *sorted) {
    const struct oracle_rules all = {.order_values =
                                         sources->count != 0 && sources->buffers[0].order_values};
    assert_true(oracle_settle(&sources->pairs, &all, sorted));
}

static void assert_seeks(struct etl__merge *merge, const struct oracle *sorted, etl_slice key,
                         size_t most) {
    size_t from = oracle_lower_bound(sorted, key);
    ASSERT_OK(NULL, etl__merge_seek(merge, key.data, key.size, &ground.error));
    size_t to = sorted->count - from > most ? from + most : sorted->count;
    assert_merges(merge, sorted, from, to, true);
    if (to == sorted->count)
        assert_merge_status(merge, ETL_END);
}

/* All of it, then seeks to keys that are there and that are not, from anywhere and the end. */
static void assert_sources(struct sources *sources, struct prng *prng, int kind) {
    struct etl__merge merge;
    struct oracle sorted = {0};
    uint8_t room[KEY_ROOM];
    settle(sources, &sorted);
    sources_open(sources, &merge);
    uint64_t allocations = ground_allocations();
    assert_merges(&merge, &sorted, 0, sorted.count, true);
    assert_merge_status(&merge, ETL_END);
    for (int i = 0; i < 10; i++)
        assert_seeks(&merge, &sorted, key_of_kind(prng, kind, room),
                     prng_below(prng, 2) * sorted.count + 20);
    assert_seeks(&merge, &sorted, etl_slice_of("\xff\xff\xff\xff\xff\xff\xff\xff\xff", 9), 1);
    assert_seeks(&merge, &sorted, etl_slice_of("", 0), sorted.count + 1);
    assert_int_equal(ground_allocations(), allocations);
    etl__merge_close(&merge);
    oracle_clear(&sorted);
}

static void test_kinds(void **unused) {
    (void)unused;
    struct prng prng;
    static struct sources sources;
    prng_start(&prng, 1);
    for (int kind = 0; kind < KINDS; kind++)
        for (size_t width = 0; width < COUNT_OF(widths); width++)
            for (int order_values = 0; order_values <= 1; order_values++) {
                ground_start((size_t)1 << 30, false);
                sources_start(&sources, widths[width], order_values != 0);
                sources_fill(&sources, &prng, kind, support_scaled(kind < KINDS - 1 ? 700 : 150));
                assert_sources(&sources, &prng, kind);
                sources_end(&sources);
                ground_end();
            }
}

/* Many small merges: what few pairs do to a heap. */
static void test_small(void **unused) {
    (void)unused;
    struct prng prng;
    static struct sources sources;
    prng_start(&prng, 2);
    for (size_t i = support_scaled(1500); i != 0; i--) {
        int kind = (int)prng_below(&prng, KINDS - 1);
        ground_start(64 * MIB, false);
        sources_start(&sources, prng_between(&prng, 1, 9), prng_permille(&prng, 300));
        sources_fill(&sources, &prng, kind, prng_between(&prng, 1, 40));
        assert_sources(&sources, &prng, kind);
        sources_end(&sources);
        ground_end();
    }
}

/* Prefixes around and above the 6 * 65532 bytes that a code can tell apart. */
static void test_very_long_prefixes(void **unused) {
    (void)unused;
    static const size_t prefixes[] = {393185, 393186, 393191, 393192, 393193, 393198, 500000};
    enum { ROOM = 500016 };
    struct prng prng;
    static struct sources sources;
    prng_start(&prng, 3);
    uint8_t *key = malloc(ROOM);
    assert_non_null(key);
    memset(key, 'p', ROOM);
    for (size_t i = 0; i < COUNT_OF(prefixes); i++) {
        ground_start((size_t)1 << 30, false);
        sources_start(&sources, 3, false);
        for (unsigned pair = 0; pair < 15; pair++) {
            size_t size = prefixes[i] + prng_below(&prng, 14);
            for (size_t byte = prefixes[i]; byte < size; byte++)
                key[byte] = (uint8_t)prng_below(&prng, 2);
            sources_add(&sources, pair / 5, etl_slice_of(key, size), etl_slice_of(&pair, 4));
        }
        struct etl__merge merge;
        struct oracle sorted = {0};
        settle(&sources, &sorted);
        sources_open(&sources, &merge);
        assert_merges(&merge, &sorted, 0, sorted.count, true);
        assert_merge_status(&merge, ETL_END);
        assert_seeks(&merge, &sorted, oracle_key(&sorted.pairs[7]), sorted.count);
        etl__merge_close(&merge);
        sources_end(&sources);
        oracle_clear(&sorted);
        ground_end();
    }
    free(key);
}

/* ---- Ranges */

enum shape { DISJOINT, TOUCHING, NESTED, STREAKS, EMPTY_BETWEEN, SHAPES };

static void add_number(struct sources *sources, size_t source, unsigned number) {
    char key[16];
    snprintf(key, sizeof key, "%08u", number);
    unsigned value = (unsigned)sources->pairs.count;
    sources_add(sources, source, etl_slice_str(key), etl_slice_of(&value, sizeof value));
}

static void fill_shape(struct sources *sources, struct prng *prng, enum shape shape) {
    unsigned count = (unsigned)sources->count;
    for (unsigned source = 0; source < count; source++) {
        unsigned place = shape == NESTED ? source : (source * 7 + 3) % count; /* 7: prime to all */
        unsigned from = place * 1000, to = from + (shape == TOUCHING ? 1000 : 999);
        if (shape == NESTED)
            to = (2 * count - place) * 1000;
        if (shape == EMPTY_BETWEEN && source % 2 == 1)
            continue;
        if (shape == STREAKS) { /* blocks of 100 numbers, each in one source */
            for (unsigned block = 0; block < 40; block++)
                for (unsigned i = 0; i < 100 && (block * 31 + 5) % count == source; i++)
                    add_number(sources, source, block * 100 + i);
            add_number(sources, source, 0);
            add_number(sources, source, 5000);
            continue;
        }
        add_number(sources, source, to);
        for (unsigned i = 0; i < 30; i++)
            add_number(sources, source, from + (unsigned)prng_below(prng, to - from + 1));
        add_number(sources, source, from);
    }
}

static size_t expected_players(enum shape shape, size_t count) {
    switch (shape) {
    case DISJOINT:
        return count != 0;
    case EMPTY_BETWEEN:
        return count != 0;
    case TOUCHING:
        return count < 2 ? count : 2;
    case NESTED:
    case STREAKS:
    default:
        return count;
    }
}

static void test_ranges(void **unused) {
    (void)unused;
    struct prng prng;
    static struct sources sources;
    prng_start(&prng, 4);
    for (int shape = 0; shape < SHAPES; shape++)
        for (size_t width = 0; width < COUNT_OF(widths); width++) {
            ground_start((size_t)1 << 30, false);
            sources_start(&sources, widths[width], false);
            fill_shape(&sources, &prng, (enum shape)shape);
            struct etl__merge merge;
            struct oracle sorted = {0};
            settle(&sources, &sorted);
            sources_open(&sources, &merge);
            assert_int_equal(merge.player_count,
                             expected_players((enum shape)shape, widths[width]));
            assert_merges(&merge, &sorted, 0, sorted.count, true);
            assert_merge_status(&merge, ETL_END);
            for (size_t i = 0; i < sorted.count; i += 1 + sorted.count / 20)
                assert_seeks(&merge, &sorted, oracle_key(&sorted.pairs[i]), 80);
            etl__merge_close(&merge);
            sources_end(&sources);
            oracle_clear(&sorted);
            ground_end();
        }
}

/* A provider that runs ahead gives way to an equal key of an earlier one, and to its own end. */
static void test_runs_ahead(void **unused) {
    (void)unused;
    static struct sources sources;
    for (unsigned length = 0; length < 40; length++)
        for (size_t runner = 0; runner < 3; runner++) {
            ground_start(64 * MIB, false);
            sources_start(&sources, 3, length % 2 != 0);
            for (size_t source = 0; source < 3; source++) {
                for (unsigned i = 0; i < length && source == runner; i++)
                    add_number(&sources, source, i / 3);
                for (unsigned i = length / 3; i < length + 20; i += 5)
                    add_number(&sources, source, i);
            }
            struct etl__merge merge;
            struct oracle sorted = {0};
            settle(&sources, &sorted);
            sources_open(&sources, &merge);
            assert_merges(&merge, &sorted, 0, sorted.count, true);
            assert_merge_status(&merge, ETL_END);
            etl__merge_close(&merge);
            sources_end(&sources);
            oracle_clear(&sorted);
            ground_end();
        }
}

/* ---- Cancelling */

static void test_cancel(void **unused) {
    (void)unused;
    struct prng prng;
    static struct sources sources;
    prng_start(&prng, 5);
    ground_start(64 * MIB, false);
    sources_start(&sources, 5, false);
    uint8_t room[KEY_ROOM];
    for (size_t i = 0; i < 5000; i++)
        sources_add(&sources, i / 1000, key_of_kind(&prng, 5, room), etl_slice_of(&i, sizeof i));
    struct etl__merge merge;
    struct oracle sorted = {0};
    settle(&sources, &sorted);
    sources_open(&sources, &merge);
    const struct etl__pair *pair;
    atomic_store(&ground.cancel, 1);
    assert_int_equal(etl__merge_next(&merge, &pair, &ground.error), ETL_E_CANCELLED);
    atomic_store(&ground.cancel, 0);
    size_t at = 0, cancelled = 0;
    while (at < sorted.count) {
        size_t to = at + prng_below(&prng, 1000);
        to = to < sorted.count ? to : sorted.count;
        assert_merges(&merge, &sorted, at, to, at == 0);
        atomic_store(&ground.cancel, 1);
        int status = ETL_OK;
        for (at = to; at < sorted.count && at <= to + 256; at++) { /* noticed soon */
            status = etl__merge_next(&merge, &pair, &ground.error);
            if (status != ETL_OK)
                break;
            assert_true(same_pair(&sorted.pairs[at], pair));
        }
        assert_true(status == ETL_E_CANCELLED || at == sorted.count);
        cancelled += status == ETL_E_CANCELLED;
        atomic_store(&ground.cancel, 0);
    }
    assert_true(cancelled > 2);
    assert_merge_status(&merge, ETL_END);
    etl__merge_close(&merge);
    sources_end(&sources);
    oracle_clear(&sorted);
    ground_end();
}

/* ---- Faults */

enum { MADE = 3 };

/* Sorted pairs of three providers, with equal keys among them, and all of them merged. */
static void make_pairs(struct prng *prng, struct oracle pairs[MADE], struct oracle *sorted) {
    static const struct oracle_rules all;
    struct oracle together = {0};
    uint8_t room[KEY_ROOM];
    memset(pairs, 0, MADE * sizeof *pairs);
    for (size_t i = 0; i < MADE; i++) {
        for (size_t n = prng_between(prng, 10, 30); n != 0; n--) {
            uint64_t value = prng_next(prng);
            oracle_add(&pairs[i], key_of_kind(prng, 5, room), etl_slice_of(&value, sizeof value));
        }
        oracle_sort(&pairs[i], false);
        for (size_t j = 0; j < pairs[i].count; j++)
            oracle_add(&together, oracle_key(&pairs[i].pairs[j]),
                       oracle_value(&pairs[i].pairs[j]));
    }
    assert_true(oracle_settle(&together, &all, sorted));
    oracle_clear(&together);
}

static void free_pairs(struct oracle pairs[MADE], struct oracle *sorted) {
    for (size_t i = 0; i < MADE; i++)
        oracle_clear(&pairs[i]);
    oracle_clear(sorted);
}

static void open_made(struct etl__merge *merge, struct made *made[MADE], struct oracle pairs[MADE],
                      size_t window) {
    struct etl__provider *providers[MADE];
    for (size_t i = 0; i < MADE; i++)
        providers[i] = &(made[i] = made_over(&pairs[i], window))->base;
    ASSERT_OK(NULL,
              etl__merge_open(merge, &ground.memory, providers, MADE, false, NULL, &ground.error));
}

/* Deliver what comes, which must be right; returns how many, and what ended them. */
static size_t merge_until(struct etl__merge *merge, const struct oracle *sorted, int *status) {
    const struct etl__pair *pair;
    size_t count = 0;
    for (; (*status = etl__merge_next(merge, &pair, &ground.error)) == ETL_OK; count++)
        if (count == sorted->count || !same_pair(&sorted->pairs[count], pair))
            fail_msg("pair %zu of %zu differs", count, sorted->count);
    return count;
}

/* A pair is used no longer than its provider keeps it: windows vanish as early as they may. */
static void test_lifetimes(void **unused) {
    (void)unused;
    struct prng prng;
    prng_start(&prng, 6);
    for (size_t window = 1; window < 9; window++) {
        struct oracle pairs[MADE], sorted = {0};
        struct etl__merge merge;
        struct made *made[MADE];
        ground_start(1 * MIB, true);
        make_pairs(&prng, pairs, &sorted);
        open_made(&merge, made, pairs, window);
        assert_merges(&merge, &sorted, 0, sorted.count, true);
        assert_merge_status(&merge, ETL_END);
        for (size_t i = 0; i < sorted.count; i += 3)
            assert_seeks(&merge, &sorted, oracle_key(&sorted.pairs[i]), 10);
        etl__merge_close(&merge);
        free_pairs(pairs, &sorted);
        ground_end();
    }
}

/* A failing provider's status comes through, and stays until a seek, which may succeed. */
static void test_provider_fails(void **unused) {
    (void)unused;
    struct prng prng;
    prng_start(&prng, 7);
    struct oracle pairs[MADE], sorted = {0};
    ground_start(1 * MIB, true);
    make_pairs(&prng, pairs, &sorted);
    for (size_t which = 0; which < MADE; which++)
        for (size_t fail_at = 0; fail_at <= pairs[which].count; fail_at++) {
            struct etl__merge merge;
            struct made *made[MADE];
            open_made(&merge, made, pairs, 1 + fail_at % 4);
            made[which]->fail_at = fail_at;
            made[which]->status = ETL_E_IO;
            int status;
            size_t count = merge_until(&merge, &sorted, &status);
            assert_int_equal(status, ETL_E_IO);
            assert_true(count >= fail_at || count + 1 >= fail_at);
            assert_true(count < sorted.count);
            assert_merge_status(&merge, ETL_E_IO);
            assert_string_equal(ground.error.text, "made to fail");
            made[which]->status = 0;
            assert_merge_status(&merge, ETL_E_IO);
            assert_seeks(&merge, &sorted, oracle_key(&sorted.pairs[count]), sorted.count);
            etl__merge_close(&merge);
        }
    free_pairs(pairs, &sorted);
    ground_end();
}

static void test_out_of_order(void **unused) {
    (void)unused;
    struct prng prng;
    prng_start(&prng, 8);
    ground_start(1 * MIB, true);
    struct oracle pairs[MADE], sorted = {0};
    make_pairs(&prng, pairs, &sorted);
    for (size_t which = 0; which < MADE; which++)
        for (size_t i = 0; i + 1 < pairs[which].count; i++) {
            struct oracle_pair *wrong = &pairs[which].pairs[i], keep = wrong[0];
            if (same_key(&wrong[0], &wrong[1]))
                continue;
            wrong[0] = wrong[1];
            wrong[1] = keep;
            struct etl__merge merge;
            struct made *made[MADE];
            open_made(&merge, made, pairs, 1 + i % 4);
            const struct etl__pair *pair;
            int status;
            size_t count = 0;
            while ((status = etl__merge_next(&merge, &pair, &ground.error)) == ETL_OK)
                count++;
            assert_int_equal(status, ETL_E_CORRUPT);
            assert_true(count < sorted.count);
            assert_merge_status(&merge, ETL_E_CORRUPT);
            etl__merge_close(&merge);
            wrong[1] = wrong[0];
            wrong[0] = keep;
        }
    free_pairs(pairs, &sorted);
    ground_end();
}

/* Providers whose ranges do not overlap are read one after the other; where the first goes past the
 * beginning of the second, or only up to it, the ranges lied. */
static void test_out_of_order_between_chained(void **unused) {
    (void)unused;
    static const char *const lasts[] = {"07", "10", "105", "2"};
    ground_start(1 * MIB, true);
    for (size_t row = 0; row < COUNT_OF(lasts); row++)
        for (unsigned before = 0; before + 1 < MADE; before++) {
            struct oracle pairs[MADE] = {{0}};
            for (unsigned i = 0; i < MADE * 10; i++) {
                char key[8];
                snprintf(key, sizeof key, "%u%u", (i / 10 + MADE - before) % MADE, i % 10);
                oracle_add(&pairs[i / 10], etl_slice_str(key), etl_slice_str("v"));
            }
            struct etl__merge merge;
            struct made *made[MADE];
            const struct etl__pair *pair;
            open_made(&merge, made, pairs, 1);
            assert_int_equal(merge.player_count, 1);
            struct oracle_pair *last = &pairs[before].pairs[9]; /* of those with "0" */
            free(last->key);
            last->key_size = strlen(lasts[row]);
            last->key = (unsigned char *)strdup(lasts[row]);
            int status;
            size_t count = 0;
            while ((status = etl__merge_next(&merge, &pair, &ground.error)) == ETL_OK)
                count++;
            assert_int_equal(status, ETL_E_CORRUPT);
            assert_int_equal(count, row == 0 ? 8 : 10); /* it looks one pair ahead */
            assert_merge_status(&merge, ETL_E_CORRUPT);
            etl__merge_close(&merge);
            for (size_t i = 0; i < MADE; i++)
                oracle_clear(&pairs[i]);
        }
    ground_end();
}

/* Pairs in equal pairs out: less or more than a provider claims is noticed at the end. */
static void test_wrong_count(void **unused) {
    (void)unused;
    struct prng prng;
    prng_start(&prng, 9);
    ground_start(1 * MIB, true);
    struct oracle pairs[MADE], sorted = {0};
    make_pairs(&prng, pairs, &sorted);
    for (size_t which = 0; which < MADE; which++)
        for (int less = 0; less <= 1; less++) {
            struct etl__merge merge;
            struct made *made[MADE];
            open_made(&merge, made, pairs, 3);
            made[which]->base.pairs += less ? -(uint64_t)1 : 1;
            int status;
            assert_int_equal(merge_until(&merge, &sorted, &status), sorted.count);
            assert_int_equal(status, ETL_E_CORRUPT);
            assert_merge_status(&merge, ETL_E_CORRUPT);
            /* Only a part is wanted: nothing to count. */
            assert_seeks(&merge, &sorted, oracle_key(&sorted.pairs[5]), sorted.count);
            etl__merge_close(&merge);
        }
    free_pairs(pairs, &sorted);
    ground_end();
}

/* Opening takes the providers whether it succeeds or not: none is left open. */
static void test_open_fails(void **unused) {
    (void)unused;
    struct prng prng;
    prng_start(&prng, 10);
    struct oracle pairs[MADE], sorted = {0};
    make_pairs(&prng, pairs, &sorted);
    int status = ETL_E_NOMEM;
    for (size_t refuse_from = 1; status != ETL_OK; refuse_from++) {
        ground_start(1 * MIB, true);
        atomic_store(&ground.held.refuse_from, refuse_from);
        struct etl__provider *providers[MADE];
        for (size_t i = 0; i < MADE; i++)
            providers[i] = &made_over(&pairs[i], 2)->base;
        struct etl__merge merge;
        status =
            etl__merge_open(&merge, &ground.memory, providers, MADE, false, NULL, &ground.error);
        assert_true(status == ETL_E_NOMEM || refuse_from > 2);
        if (status == ETL_OK)
            etl__merge_close(&merge);
        ground_end();
    }
    free_pairs(pairs, &sorted);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kinds),        cmocka_unit_test(test_small),
        cmocka_unit_test(test_ranges),       cmocka_unit_test(test_very_long_prefixes),
        cmocka_unit_test(test_cancel),       cmocka_unit_test(test_runs_ahead),
        cmocka_unit_test(test_lifetimes),    cmocka_unit_test(test_provider_fails),
        cmocka_unit_test(test_out_of_order), cmocka_unit_test(test_out_of_order_between_chained),
        cmocka_unit_test(test_wrong_count),  cmocka_unit_test(test_open_fails)};
    return cmocka_run_group_tests(tests, support_setup, support_teardown);
}
