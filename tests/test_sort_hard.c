/* test_sort_hard.c: etl__sort_index where the input is made to be slow or deep, and where it is
 * cancelled. Sorted on a 64 KiB stack; none of them would end in time if it were not handled. */
#include "radix.h"
#include "sort_support.h"

#include <pthread.h>

struct task {
    struct etl__sort sort;
    struct etl__entry *entries;
    size_t count;
    int status;
};

static void *run_task(void *context) {
    struct task *task = context;
    task->status = etl__sort_index(&task->sort, task->entries, task->count);
    return NULL;
}

/* Sort in a thread whose stack is 64 KiB, and look at neighbours only: the oracle would be what
 * takes long. */
static void check_hard(struct input *input, size_t scratch_count, bool order_values) {
    size_t count = input->count;
    struct etl__entry *scratch = get(scratch_count * sizeof *scratch);
    struct task task = {.sort = {.slots = slots_of(input),
                                 .scratch = scratch,
                                 .scratch_count = scratch_count,
                                 .order_values = order_values},
                        .entries = input->entries,
                        .count = count,
                        .status = ETL_E_INVALID};
    pthread_attr_t attributes;
    pthread_t thread;
    assert_int_equal(pthread_attr_init(&attributes), 0);
    if (!TEST_SANITIZED)
        assert_int_equal(pthread_attr_setstacksize(&attributes, 64 * KIB), 0);
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += input->entries[i].reference * (uint64_t)0x9E3779B97F4A7C15u >> 7;
    assert_int_equal(pthread_create(&thread, &attributes, run_task, &task), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    pthread_attr_destroy(&attributes);
    assert_int_equal(task.status, ETL_OK);
    for (size_t i = 0; i < count; i++)
        sum -= input->entries[i].reference * (uint64_t)0x9E3779B97F4A7C15u >> 7;
    assert_true(sum == 0);
    oracle_input = input;
    oracle_values = order_values;
    for (size_t i = 1; i < count; i++)
        if (order_pairs(&input->entries[i - 1].reference, &input->entries[i].reference) >= 0)
            fail_msg("%zu pairs: pair %zu is out of order", count, i);
    free(scratch);
}

static void test_all_equal(void **state) {
    (void)state;
    size_t count = support_scaled(1000000);
    struct prng prng;
    for (int order_values = 0; order_values < 2; order_values++) {
        prng_start(&prng, (uint64_t)order_values);
        struct input input;
        input_start(&input, count, count * 20);
        for (size_t i = 0; i < count; i++) {
            uint64_t draw = prng_next(&prng);
            add(&input, "the same", 8, draw % 7 == 0 ? NULL : &draw, draw % 7 == 0 ? 0 : 8);
        }
        shuffle(&input, &prng);
        check_hard(&input, 65536, order_values != 0);
        input_end(&input);
    }
}

/* Equal values too, and long ones: nothing decides but the reference. */
static void test_all_equal_with_long_values(void **state) {
    (void)state;
    size_t count = support_scaled(20000);
    uint8_t *value = get(1000);
    memset(value, 'v', 1000);
    struct input input;
    struct prng prng;
    prng_start(&prng, 1);
    input_start(&input, count, count * 1010);
    for (size_t i = 0; i < count; i++)
        add(&input, "key", 3, value, i % 3 == 0 ? 1000 : i % 1000);
    shuffle(&input, &prng);
    check_hard(&input, 1024, true);
    input_end(&input);
    free(value);
}

static void test_keys_within_keys(void **state) {
    (void)state;
    size_t count = support_light() ? 1000 : 10000;
    uint8_t *key = get(count);
    struct prng prng;
    prng_start(&prng, 2);
    for (int zeros = 0; zeros < 2; zeros++) {
        memset(key, zeros ? 0 : 'a', count);
        struct input input;
        input_start(&input, count, count * count / 2 + count);
        for (size_t i = 0; i < count; i++)
            add(&input, key, count - i, NULL, 0);
        shuffle(&input, &prng);
        check_hard(&input, zeros ? 65536 : 4096, false);
        input_end(&input);
    }
    free(key);
}

/* Keys of 10,000 bytes with ever shorter prefixes in common, so that each one read shortens the
 * guess of what all have in common. */
static void test_long_common_prefixes(void **state) {
    (void)state;
    size_t size = support_light() ? 1000 : 5000, count = size;
    uint8_t *key = get(size);
    memset(key, 'p', size);
    struct prng prng;
    prng_start(&prng, 3);
    for (int staircase = 0; staircase < 2; staircase++) {
        struct input input;
        input_start(&input, count, count * size);
        for (size_t i = 0; i < count; i++) {
            size_t at = staircase ? size - 1 - i : size - 2;
            bool sampled = i == 0 || i == count - 1 || i == count / 2 || i == count / 4;
            uint8_t byte = key[sampled ? size - 1 : at];
            key[sampled ? size - 1 : at] = (uint8_t)prng_next(&prng);
            add(&input, key, size, NULL, 0);
            key[sampled ? size - 1 : at] = byte;
        }
        check_hard(&input, 65536, false);
        input_end(&input);
    }
    free(key);
}

/* Each byte of the key splits off a few entries and leaves nearly all together. */
static void test_deep_and_lopsided(void **state) {
    (void)state;
    size_t count = support_scaled(200000);
    struct prng prng;
    prng_start(&prng, 4);
    for (size_t scratch_count = 256; scratch_count <= 65536; scratch_count *= 16) {
        struct input input;
        input_start(&input, count, count * 64);
        for (size_t i = 0; i < count; i++) {
            uint8_t key[64] = {0};
            uint64_t draw = prng_next(&prng);
            unsigned bit = (unsigned)(draw % 640 < 512 ? draw % 512 : 511);
            key[bit / 8] = (uint8_t)(128 >> bit % 8);
            add(&input, key, sizeof key - (draw >> 60), NULL, 0);
        }
        check_hard(&input, scratch_count, false);
        input_end(&input);
    }
}

/* Numbers whose lowest quarter fills one bin again and again: spreading must give up early. */
static void test_overflowing_bins(void **state) {
    (void)state;
    size_t count = support_scaled(300000);
    struct prng prng;
    prng_start(&prng, 5);
    for (enum shape shape = PIPE; shape < CONSTANT; shape++) {
        struct input input;
        fill(&input, shape, &prng, count);
        check_hard(&input, 65536, shape == SAW);
        input_end(&input);
    }
    struct input input;
    input_start(&input, count, count * 24);
    for (size_t i = 0; i < count; i++) { /* one bin of descending entries in each part */
        uint64_t number = (uint64_t)(i % 16) << 40 | (count - i) << (i % 64 == 0 ? 18 : 0);
        uint8_t key[8];
        for (int j = 0; j < 8; j++)
            key[j] = (uint8_t)(number >> (56 - 8 * j));
        add(&input, key, 8, NULL, 0);
    }
    check_hard(&input, 65536, false);
    input_end(&input);
}

/* Ascending in every piece between two looks at the cancel flag, but not as a whole. */
static void test_long_teeth(void **state) {
    (void)state;
    if (support_light())
        skip();
    size_t tooth = (size_t)1 << 20, count = 2 * tooth + 5;
    struct input input;
    input_start(&input, count, count * 8);
    for (size_t i = 0; i < count; i++) {
        size_t number = i % tooth;
        const uint8_t key[3] = {(uint8_t)(number >> 16), (uint8_t)(number >> 8), (uint8_t)number};
        add(&input, key, sizeof key, NULL, 0);
    }
    check_hard(&input, 65536, false);
    input_end(&input);
}

/* All but one in one bin, descending: the insertion pass must stop at its budget, which leaves a
 * miss behind, and it must not where bins are even. */
static void test_budget_of_moves(void **state) {
    (void)state;
    enum { COUNT = 3000, SCRATCH = 4096 };
    struct etl__entry *scratch = get(SCRATCH * sizeof *scratch);
    struct etl__entry *entries = get(COUNT * sizeof *entries);
    struct etl__radix radix;
    etl__radix_init(&radix, scratch, SCRATCH, NULL);
    for (unsigned round = 0; round < 3; round++) {
        bool even = round == 1;
        for (size_t i = 0; i < COUNT; i++)
            entries[i] = (struct etl__entry){(COUNT - i) << (even ? 50 : 3), (uint32_t)i, 0};
        entries[COUNT / 2].prefix = even ? 0 : UINT64_MAX;
        etl__radix_sort(&radix, entries, COUNT);
        assert_int_equal(radix.misses, !even);
        for (size_t i = 1; i < COUNT; i++)
            assert_true(entries[i - 1].prefix < entries[i].prefix);
    }
    free(entries);
    free(scratch);
}

/* ---- Cancel */

static void test_cancel(void **state) {
    (void)state;
    size_t count = 1200000;
    struct input input;
    struct prng prng;
    prng_start(&prng, 6);
    input_start(&input, count, count * 16);
    for (size_t i = 0; i < count; i++) {
        uint64_t key = prng_next(&prng) % count;
        add(&input, &key, 8, NULL, 0);
    }
    struct etl__entry *scratch = get(65536 * sizeof *scratch);
    uint8_t *seen = calloc(input.used + 1, 1);
    assert_non_null(seen);
    atomic_int cancel = 1;
    struct etl__sort sort = {
        .slots = slots_of(&input), .scratch = scratch, .scratch_count = 65536, .cancel = &cancel};
    assert_int_equal(etl__sort_index(&sort, input.entries, count), ETL_E_CANCELLED);
    for (size_t i = 0; i < count; i++) /* nothing was lost, nothing came twice */
        assert_int_equal(seen[input.entries[i].reference]++, 0);
    free(seen);
    free(scratch);
    input_end(&input);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_equal),
        cmocka_unit_test(test_all_equal_with_long_values),
        cmocka_unit_test(test_keys_within_keys),
        cmocka_unit_test(test_long_common_prefixes),
        cmocka_unit_test(test_deep_and_lopsided),
        cmocka_unit_test(test_overflowing_bins),
        cmocka_unit_test(test_long_teeth),
        cmocka_unit_test(test_budget_of_moves),
        cmocka_unit_test(test_cancel),
    };
    return cmocka_run_group_tests_name("sort_hard", tests, support_setup, support_teardown);
}
