/* test_duplicates.c: the duplicate rules over merges, against the oracle's reading of them: every
 * mode, groups folded in parts, and what happens to a group that could not be completed. */
#include "duplicates.h"
#include "merge_support.h"

#include <stdio.h>

static const etl_duplicates modes[] = {ETL_KEEP_ALL, ETL_KEEP_FIRST, ETL_KEEP_LAST,
                                       ETL_APPEND,   ETL_REDUCE,     ETL_REJECT};

/* A reduce that looks at its arguments, counts its calls and fails when it is told to. */
static struct {
    enum oracle_fold fold;
    size_t calls;
    size_t values_most;
    size_t fail_at; /* this call, from 1 on; 0: none */
    int fail_with;
} reducing;

static int reduce(void *context, etl_slice key, const etl_slice *values, size_t count,
                  etl_bytes *result) {
    assert_ptr_equal(context, &reducing);
    assert_non_null(key.data);
    assert_true(count >= 2);
    if (count > reducing.values_most)
        reducing.values_most = count;
    if (++reducing.calls == reducing.fail_at)
        return reducing.fail_with;
    return reducing.fold == ORACLE_TRIM ? oracle_reduce_trim(NULL, key, values, count, result)
                                        : oracle_reduce_affine(NULL, key, values, count, result);
}

static struct etl__rules rules_of(etl_duplicates duplicates, bool order_values,
                                  enum oracle_fold fold, size_t fold_bytes) {
    memset(&reducing, 0, sizeof reducing);
    reducing.fold = fold;
    return (struct etl__rules){.duplicates = duplicates,
                               .order_values = order_values,
                               .reduce = reduce,
                               .reduce_ctx = &reducing,
                               .fold_bytes = fold_bytes};
}

/* What the rules make of the sources' pairs. False with ETL_REJECT and a duplicate: the expected
 * pairs end where it is noticed. */
static bool settle(const struct sources *sources, const struct etl__rules *rules,
                   struct oracle *expected) {
    const struct oracle_rules oracle_rules = {rules->duplicates, rules->order_values,
                                              reducing.fold};
    return oracle_settle(&sources->pairs, &oracle_rules, expected);
}

static void assert_outputs(struct etl__output *output, const struct oracle *expected, size_t from,
                           size_t to) {
    for (size_t i = from; i < to; i++) {
        const struct etl__pair *pair;
        ASSERT_OK(NULL, etl__output_next(output, &pair, &ground.error));
        if (!same_pair(&expected->pairs[i], pair))
            fail_msg("pair %zu of %zu differs", i, expected->count);
    }
}

static void assert_status(struct etl__output *output, int expected) {
    const struct etl__pair *pair;
    assert_int_equal(etl__output_next(output, &pair, &ground.error), expected);
}

/* Everything under one rule, then from some keys on. */
static void assert_rule(struct sources *sources, const struct etl__rules *rules,
                        struct prng *prng) {
    struct etl__merge merge;
    struct etl__output output;
    struct oracle expected = {0};
    bool accepted = settle(sources, rules, &expected);
    sources_open(sources, &merge);
    etl__output_open(&output, &ground.memory, &merge, rules);
    assert_outputs(&output, &expected, 0, expected.count);
    assert_status(&output, accepted ? ETL_END : ETL_E_DUPLICATE);
    for (int i = 0; i < 5 && expected.count != 0; i++) {
        etl_slice key = oracle_key(&expected.pairs[prng_below(prng, expected.count)]);
        size_t from = oracle_lower_bound(&expected, key);
        assert_int_equal(etl__output_seek(&output, key.data, key.size, &ground.error), ETL_OK);
        assert_outputs(&output, &expected, from, expected.count);
        assert_status(&output, accepted ? ETL_END : ETL_E_DUPLICATE);
    }
    etl__output_close(&output);
    etl__merge_close(&merge);
    oracle_clear(&expected);
}

static void test_modes(void **unused) {
    (void)unused;
    struct prng prng;
    static struct sources sources;
    prng_start(&prng, 1);
    for (size_t i = support_scaled(300); i != 0; i--)
        for (size_t mode = 0; mode < COUNT_OF(modes); mode++) {
            bool order_values = prng_permille(&prng, 400);
            ground_start(64 * MIB, true);
            sources_start(&sources, prng_between(&prng, 1, 5), order_values);
            sources_fill(&sources, &prng, (int)prng_below(&prng, KINDS - 1),
                         prng_below(&prng, 80));
            struct etl__rules rules =
                rules_of(modes[mode], order_values, ORACLE_TRIM, 1 + prng_below(&prng, 60));
            assert_rule(&sources, &rules, &prng);
            sources_end(&sources);
            ground_end();
        }
}

/* ---- Values: nil, empty and not */

static void test_nil_and_empty(void **unused) {
    (void)unused;
    static const etl_slice values[] = {{NULL, 0}, {"", 0}, {"v", 1}};
    struct prng prng;
    static struct sources sources;
    prng_start(&prng, 2);
    for (unsigned group = 0; group < 3 * 3 * 3 * 3; group++)
        for (size_t mode = 0; mode < COUNT_OF(modes); mode++) {
            ground_start(1 * MIB, true);
            sources_start(&sources, 2, false);
            unsigned digits = group;
            for (size_t i = 0; i < 4; i++, digits /= 3)
                sources_add(&sources, i / 2, etl_slice_str("key"), values[digits % 3]);
            sources_add(&sources, 1, etl_slice_str("other"), values[group % 3]);
            struct etl__rules rules = rules_of(modes[mode], false, ORACLE_TRIM, 1000);
            assert_rule(&sources, &rules, &prng);
            sources_end(&sources);
            ground_end();
        }
}

/* ---- Large groups */

/* count values of 16 bytes for one key, between two keys that come once. */
static void add_group(struct sources *sources, struct prng *prng, size_t count) {
    uint64_t map[2] = {3, 4};
    sources_add(sources, 0, etl_slice_str("a"), etl_slice_of(map, sizeof map));
    for (size_t i = 0; i < count; i++) {
        map[0] = prng_next(prng) | 1;
        map[1] = prng_next(prng);
        sources_add(sources, i * sources->count / count, etl_slice_str("group"),
                    etl_slice_of(map, sizeof map));
    }
    sources_add(sources, 0, etl_slice_str("z"), etl_slice_of(map, sizeof map));
}

static void test_folded_in_parts(void **unused) {
    (void)unused;
    static const struct {
        size_t count, fold_bytes, values_most;
    } cases[] = {
        {2, 1 << 16, 2},        {4095, 1 << 16, 4095}, {4096, 1 << 16, 4096},
        {4097, 1 << 16, 4096},  {8191, 1 << 16, 4096}, {8192, 1 << 16, 4096},
        {20000, 1 << 16, 4096}, {1000, 160, 10},       {1000, 176, 11},
        {1000, 1, 2},           {1000, 0, 2},          {10000, 16000, 1000},
    };
    struct prng prng;
    static struct sources sources;
    prng_start(&prng, 3);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        ground_start(64 * MIB, false);
        sources_start(&sources, 3, false);
        add_group(&sources, &prng, cases[i].count);
        struct etl__rules rules = rules_of(ETL_REDUCE, false, ORACLE_AFFINE, cases[i].fold_bytes);
        assert_rule(&sources, &rules, &prng);
        assert_int_equal(reducing.values_most, cases[i].values_most);
        sources_end(&sources);
        ground_end();
    }
}

/* Memory for a group that is folded does not grow with the group. */
static void test_fold_is_bounded(void **unused) {
    (void)unused;
    enum { VALUE = 10000 };
    static const uint8_t value[VALUE];
    struct prng prng;
    static struct sources sources;
    prng_start(&prng, 4);
    ground_start(64 * MIB, false);
    sources_start(&sources, 2, false);
    for (size_t i = 0; i < 1000; i++)
        sources_add(&sources, i / 500, etl_slice_str("key"), etl_slice_of(value, VALUE));
    struct etl__rules rules = rules_of(ETL_REDUCE, false, ORACLE_TRIM, 10 * VALUE);
    size_t before = atomic_load(&ground.memory.used);
    assert_rule(&sources, &rules, &prng);
    assert_int_equal(reducing.values_most, 11); /* ten, and what was made before */
    assert_true(atomic_load(&ground.memory.peak) <= before + 64 * VALUE);
    sources_end(&sources);
    ground_end();
}

/* ---- Failures */

/* Any value that is not 0 stops, also one that means something inside; with the next call the
 * group begins anew. */
static void test_reduce_fails(void **unused) {
    (void)unused;
    static const uint8_t last[] = "z";
    static const int answers[] = {
        1, -1, 42, INT32_MIN, INT32_MAX, ETL_END, ETL_E_CANCELLED, ETL_E_IO, ETL__E_CALLBACK};
    struct prng prng;
    static struct sources sources;
    prng_start(&prng, 5);
    for (size_t i = 0; i < COUNT_OF(answers); i++)
        for (size_t fail_at = 1; fail_at < 11; fail_at++) {
            ground_start(1 * MIB, true);
            sources_start(&sources, 3, false);
            add_group(&sources, &prng, 100);
            struct etl__rules rules = rules_of(ETL_REDUCE, false, ORACLE_AFFINE, 11 * 16);
            struct oracle expected = {0};
            assert_true(settle(&sources, &rules, &expected));
            struct etl__merge merge;
            struct etl__output output;
            sources_open(&sources, &merge);
            etl__output_open(&output, &ground.memory, &merge, &rules);
            assert_outputs(&output, &expected, 0, 1);
            for (int again = 0; again < 2; again++) {
                reducing.calls = 0;
                reducing.fail_at = fail_at;
                reducing.fail_with = answers[i];
                assert_status(&output, ETL__E_CALLBACK);
                assert_int_equal(ground.error.callback, answers[i]);
                assert_int_equal(etl__public_status(&ground.error, ETL__E_CALLBACK), answers[i]);
                assert_int_equal(reducing.calls, fail_at);
            }
            reducing.fail_at = 0;
            assert_outputs(&output, &expected, 1, expected.count);
            assert_status(&output, ETL_END);
            /* A seek forgets the group. */
            assert_int_equal(etl__output_seek(&output, NULL, 0, &ground.error), ETL_OK);
            assert_outputs(&output, &expected, 0, 1);
            reducing.calls = 0;
            reducing.fail_at = 1;
            assert_status(&output, ETL__E_CALLBACK);
            assert_int_equal(etl__output_seek(&output, last, 1, &ground.error), ETL_OK);
            assert_outputs(&output, &expected, 2, 3);
            assert_status(&output, ETL_END);
            etl__output_close(&output);
            etl__merge_close(&merge);
            oracle_clear(&expected);
            sources_end(&sources);
            ground_end();
        }
}

/* Cancelled or out of memory at any time, and called again: nothing is lost or comes twice. */
static void interrupt(struct sources *sources, const struct etl__rules *rules, struct prng *prng,
                      bool cancel) {
    struct oracle expected = {0};
    assert_true(settle(sources, rules, &expected));
    struct etl__merge merge;
    struct etl__output output;
    sources_open(sources, &merge);
    etl__output_open(&output, &ground.memory, &merge, rules);
    size_t interrupted = 0;
    for (size_t at = 0; at < expected.count;) {
        const struct etl__pair *pair;
        etl__memory_trim(&ground.memory);
        bool now = interrupted == 0 || prng_permille(prng, 400);
        atomic_store(&ground.cancel, now && cancel);
        atomic_store(&ground.held.refuse_from, now && !cancel);
        int status = etl__output_next(&output, &pair, &ground.error);
        atomic_store(&ground.cancel, 0);
        atomic_store(&ground.held.refuse_from, 0);
        if (status == ETL_OK && !same_pair(&expected.pairs[at++], pair))
            fail_msg("pair %zu of %zu differs", at - 1, expected.count);
        if (status != ETL_OK)
            assert_int_equal(status, cancel ? ETL_E_CANCELLED : ETL_E_NOMEM);
        interrupted += status != ETL_OK;
    }
    assert_true(interrupted != 0);
    assert_status(&output, ETL_END);
    etl__output_close(&output);
    etl__merge_close(&merge);
    oracle_clear(&expected);
}

static void test_interrupted(void **unused) {
    (void)unused;
    struct prng prng;
    static struct sources sources;
    prng_start(&prng, 6);
    for (int cancel = 0; cancel <= 1; cancel++)
        for (size_t mode = 0; mode < COUNT_OF(modes); mode++) {
            bool copies = modes[mode] == ETL_APPEND || modes[mode] == ETL_REDUCE;
            if (modes[mode] == ETL_REJECT || (!cancel && !copies))
                continue; /* the others take no memory */
            ground_start(64 * MIB, true);
            sources_start(&sources, 3, false);
            char key[8];
            for (size_t i = 0; i < 3000; i++) {
                size_t number = i % 97 * (i % 97) % 101;
                snprintf(key, sizeof key, "%zu", number);
                char value[400] = {0};
                memset(value, (int)i, sizeof value);
                sources_add(&sources, i / 1000, etl_slice_str(key),
                            etl_slice_of(value, number * 3));
            }
            struct etl__rules rules = rules_of(modes[mode], false, ORACLE_TRIM, 500);
            interrupt(&sources, &rules, &prng, cancel != 0);
            sources_end(&sources);
            ground_end();
        }
}

/* ---- Rejecting, and what holds for runs */

static void reject(etl_slice key, const char *shown) {
    static struct sources sources;
    ground_start(1 * MIB, true);
    sources_start(&sources, 2, false);
    sources_add(&sources, 0, key, etl_slice_str("1"));
    sources_add(&sources, 1, key, etl_slice_str("2"));
    struct etl__merge merge;
    struct etl__output output;
    struct etl__rules rules = rules_of(ETL_REJECT, false, ORACLE_TRIM, 0);
    sources_open(&sources, &merge);
    etl__output_open(&output, &ground.memory, &merge, &rules);
    assert_status(&output, ETL_OK);
    assert_status(&output, ETL_E_DUPLICATE);
    if (strstr(ground.error.text, shown) == NULL)
        fail_msg("\"%s\" is not in \"%s\"", shown, ground.error.text);
    etl__output_close(&output);
    etl__merge_close(&merge);
    sources_end(&sources);
    ground_end();
}

static void test_reject(void **unused) {
    (void)unused;
    static const char zeros[100];
    reject(etl_slice_str("apple"), "\"apple\" (5 bytes)");
    reject(etl_slice_str(""), "\"\" (0 bytes)");
    reject(etl_slice_of("a\0\x7f\xff\\\n", 6), "\"a\\x00\\x7f\\xff\\x5c\\x0a\" (6 bytes)");
    reject(etl_slice_of(zeros, 48), "\\x00\" (48 bytes)");
    reject(etl_slice_of(zeros, 49), "\\x00\"... (49 bytes)");
}

/* Applied while runs are written, and again to the runs, the rules give what they give at once. */
static void test_rules_for_runs(void **unused) {
    (void)unused;
    for (size_t mode = 0; mode < COUNT_OF(modes); mode++)
        for (int order_values = 0; order_values <= 1; order_values++) {
            struct etl__rules rules = rules_of(modes[mode], order_values != 0, ORACLE_TRIM, 1000);
            struct etl__rules early = etl__rules_for_runs(&rules);
            bool late = modes[mode] == ETL_REJECT ||
                        (order_values && (modes[mode] == ETL_APPEND || modes[mode] == ETL_REDUCE));
            assert_int_equal(early.duplicates, late ? ETL_KEEP_ALL : modes[mode]);
            assert_int_equal(early.order_values, rules.order_values);
            assert_int_equal(early.fold_bytes, rules.fold_bytes);
            assert_true(early.reduce == rules.reduce && early.reduce_ctx == rules.reduce_ctx);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_modes),           cmocka_unit_test(test_nil_and_empty),
        cmocka_unit_test(test_folded_in_parts), cmocka_unit_test(test_fold_is_bounded),
        cmocka_unit_test(test_reduce_fails),    cmocka_unit_test(test_interrupted),
        cmocka_unit_test(test_reject),          cmocka_unit_test(test_rules_for_runs)};
    return cmocka_run_group_tests(tests, support_setup, support_teardown);
}
