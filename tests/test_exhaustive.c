/* test_exhaustive.c: every input of a few pairs, cut into runs in every way, under every duplicate
 * rule: loaded, iterated and compared with the oracle.
 *
 * What goes wrong in a merge goes wrong with few pairs: the empty key, nil beside empty, the last
 * group, a key that ends one run and begins the next. Here all of them are tried. One collector
 * serves all cases of a rule, so that each case also begins where another one ended. */
#include "oracle.h"
#include "support.h"

#include <stdlib.h>
#include <string.h>

enum { PAIRS_MAX = 4 };

struct letter {
    etl_slice key, value;
};

/* Every key with every value of an alphabet. */
struct alphabet {
    struct letter letters[16];
    size_t count;
};

static void alphabet_make(struct alphabet *alphabet, const etl_slice *keys, size_t key_count,
                          const etl_slice *values, size_t value_count) {
    alphabet->count = 0;
    for (size_t i = 0; i < key_count; i++)
        for (size_t j = 0; j < value_count; j++) {
            alphabet->letters[alphabet->count].key = keys[i];
            alphabet->letters[alphabet->count++].value = values[j];
        }
}

/* The case under way. Bit i of cuts: a flush after pair i. */
static struct {
    const struct alphabet *alphabet;
    size_t letters[PAIRS_MAX];
    size_t count;
    unsigned cuts;
    struct oracle_rules rules;
    bool under_way;
} now;

static int tell_failed_case(void **state) {
    (void)state;
    if (!now.under_way)
        return 0;
    print_message("duplicates %d order_values %d:", (int)now.rules.duplicates,
                  now.rules.order_values);
    for (size_t i = 0; i < now.count; i++) {
        const struct letter *letter = &now.alphabet->letters[now.letters[i]];
        print_message(" (%.*s%s, %s)%s", (int)letter->key.size, (const char *)letter->key.data,
                      letter->key.size == 2 ? "\\0" : "",
                      letter->value.data == NULL ? "nil"
                      : letter->value.size == 0  ? "empty"
                                                 : (const char *)letter->value.data,
                      now.cuts >> i & 1 ? " |" : "");
    }
    print_message("\n");
    now.under_way = false;
    return 0;
}

static void check_iterate(etl_collector *collector, const struct oracle *expected, int end) {
    etl_iter *iter;
    ASSERT_OK(collector, etl_iter_open(&iter, collector, NULL));
    etl_slice key, value;
    for (size_t i = 0; i < expected->count; i++) {
        ASSERT_OK(collector, etl_iter_next(iter, &key, &value));
        assert_true(oracle_same(&expected->pairs[i], key, value));
    }
    ASSERT_STATUS(end, collector, etl_iter_next(iter, &key, &value));
    etl_iter_close(iter);
}

static void check_case(etl_collector *collector, const struct oracle *expected, bool accepted) {
    for (size_t i = 0; i < now.count; i++) {
        const struct letter *letter = &now.alphabet->letters[now.letters[i]];
        ASSERT_OK(collector, etl_collect(collector, letter->key, letter->value));
        if (now.cuts >> i & 1)
            ASSERT_OK(collector, etl_flush(collector));
    }
    if ((now.cuts + now.letters[0]) % 3 == 0)
        check_iterate(collector, expected, accepted ? ETL_END : ETL_E_DUPLICATE);
    struct oracle_check check = {expected, 0, 0, 0};
    ASSERT_STATUS(accepted ? ETL_OK : ETL_E_DUPLICATE, collector,
                  etl_load(collector, oracle_load, &check));
    assert_int_equal(check.at, expected->count);
    if (!accepted)
        ASSERT_OK(collector, etl_reset(collector));
}

static void check_sequence(etl_collector *collector) {
    struct oracle input = {NULL, 0, 0}, expected = {NULL, 0, 0};
    for (size_t i = 0; i < now.count; i++) {
        const struct letter *letter = &now.alphabet->letters[now.letters[i]];
        oracle_add(&input, letter->key, letter->value);
    }
    bool accepted = oracle_settle(&input, &now.rules, &expected);
    for (now.cuts = 0; now.cuts < 1u << now.count; now.cuts++)
        check_case(collector, &expected, accepted);
    oracle_clear(&input);
    oracle_clear(&expected);
}

/* Every sequence of `count` letters under the rules of `now`. */
static void check_rules(const struct alphabet *alphabet, size_t count) {
    etl_options options = support_options(MIB);
    support_make_fast(&options);
    options.threads = ETL_THREADS_NONE;
    oracle_apply(&now.rules, &options);
    etl_collector *collector;
    ASSERT_OK(NULL, etl_collector_create(&collector, &options));
    now.alphabet = alphabet;
    now.count = count;
    now.under_way = true;
    size_t sequences = 1;
    for (size_t i = 0; i < count; i++)
        sequences *= alphabet->count;
    /* light work visits every 31st: a step that keeps visiting all letters */
    for (size_t sequence = 0; sequence < sequences; sequence += support_light() ? 31 : 1) {
        size_t rest = sequence;
        for (size_t i = 0; i < count; i++, rest /= alphabet->count)
            now.letters[i] = rest % alphabet->count;
        check_sequence(collector);
    }
    now.under_way = false;
    etl_collector_destroy(collector);
}

static void check_all_rules(const struct alphabet *alphabet, size_t count) {
    for (int duplicates = ETL_KEEP_ALL; duplicates <= ETL_REJECT; duplicates++)
        for (int order_values = 0; order_values < 2; order_values++) {
            now.rules.duplicates = (etl_duplicates)duplicates;
            now.rules.order_values = order_values != 0;
            now.rules.fold = ORACLE_TRIM;
            check_rules(alphabet, count);
        }
}

static const etl_slice KEYS[] = {{"", 0}, {"a", 1}, {"a\0", 2}};
static const etl_slice VALUES[] = {{NULL, 0}, {"", 0}, {"x", 1}, {"y", 1}};

static void every_sequence_of_up_to_three_pairs(void **state) {
    (void)state;
    struct alphabet alphabet;
    alphabet_make(&alphabet, KEYS, COUNT_OF(KEYS), VALUES, 3);
    for (size_t count = 1; count <= 3; count++)
        check_all_rules(&alphabet, count);
}

/* Four pairs of two keys and of few values: the shapes that three pairs do not have, which are two
 * groups of two and runs that lie inside one another. */
static void every_sequence_of_four_pairs_of_two_keys(void **state) {
    (void)state;
    struct alphabet alphabet;
    alphabet_make(&alphabet, KEYS, 2, VALUES + 2, 2);
    check_all_rules(&alphabet, 4);
}

static void every_sequence_of_four_pairs_of_three_keys(void **state) {
    (void)state;
    struct alphabet alphabet;
    alphabet_make(&alphabet, KEYS, 3, VALUES + 2, 1);
    check_all_rules(&alphabet, 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(every_sequence_of_up_to_three_pairs, tell_failed_case),
        cmocka_unit_test_teardown(every_sequence_of_four_pairs_of_two_keys, tell_failed_case),
        cmocka_unit_test_teardown(every_sequence_of_four_pairs_of_three_keys, tell_failed_case),
    };
    return cmocka_run_group_tests(tests, support_setup, support_teardown);
}
