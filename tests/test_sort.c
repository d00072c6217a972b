/* test_sort.c: etl__sort_index against a naive oracle.
 *
 * The oracle is libc's qsort over copies of the pairs with a comparison of its own. Sizes go
 * through every threshold of the sort; the scratch is small in most tests, so that few entries
 * take the paths of many. */
#include "radix.h"
#include "sort_support.h"

/* Sort a copy of the index and compare it with the oracle; the input stays as it was. */
static void check(const struct input *input, size_t scratch_count, bool order_values) {
    size_t count = input->count;
    struct etl__entry *entries = get(count * sizeof *entries);
    struct etl__entry *scratch = get(scratch_count * sizeof *scratch);
    uint32_t *expected = get(count * sizeof *expected);
    memcpy(entries, input->entries, count * sizeof *entries);
    for (size_t i = 0; i < count; i++)
        expected[i] = entries[i].reference;
    oracle_input = input;
    oracle_values = order_values;
    qsort(expected, count, sizeof *expected, order_pairs);
    struct etl__sort sort = {.slots = slots_of(input),
                             .scratch = scratch,
                             .scratch_count = scratch_count,
                             .order_values = order_values};
    assert_int_equal(etl__sort_index(&sort, entries, count), ETL_OK);
    for (size_t i = 0; i < count; i++) {
        if (entries[i].reference != expected[i])
            fail_msg("%zu pairs, scratch of %zu, order_values %d: pair %zu is wrong", count,
                     scratch_count, order_values, i);
        struct etl__pair pair;
        etl__record_view(input->arena + expected[i], &pair);
        assert_int_equal(entries[i].key_size, pair.key_size);
    }
    free(entries);
    free(scratch);
    free(expected);
}

static void check_shapes(size_t count, size_t scratch_count) {
    for (enum shape shape = 0; shape < SHAPES; shape++) {
        struct prng prng;
        prng_start(&prng, count * 64 + shape);
        struct input input;
        fill(&input, shape, &prng, count);
        check(&input, scratch_count, false);
        check(&input, scratch_count, true);
        shuffle(&input, &prng);
        check(&input, scratch_count, count % 2 != 0);
        input_end(&input);
    }
}

static void test_every_small_size(void **state) {
    (void)state;
    size_t step = support_light() ? 13 : 1;
    for (size_t count = 0; count <= 300; count += step)
        check_shapes(count, 256);
}

/* What the sort's thresholds depend on is the capacity that the scratch leaves. */
static void test_sizes_around_thresholds(void **state) {
    (void)state;
    static const size_t scratch_counts[] = {256, 257, 300, 1024};
    for (size_t s = 0; s < COUNT_OF(scratch_counts); s++) {
        size_t scratch_count = scratch_counts[s];
        struct etl__entry *scratch = get(scratch_count * sizeof *scratch);
        struct etl__radix radix;
        etl__radix_init(&radix, scratch, scratch_count, NULL);
        free(scratch);
        const size_t middles[] = {radix.capacity, scratch_count, 2 * radix.capacity};
        for (size_t m = 0; m < COUNT_OF(middles); m++)
            for (size_t count = middles[m] - 1; count <= middles[m] + 1; count++)
                if (!support_light() || count < 1000)
                    check_shapes(count, scratch_count);
    }
}

static void test_large_sizes(void **state) {
    (void)state;
    static const size_t counts[] = {3839, 3840,  3841,  4096,  8191,  8192,
                                    8193, 64511, 64512, 64513, 150000};
    for (size_t c = 0; c < COUNT_OF(counts); c++) {
        if (support_light() && c > 2)
            break;
        for (enum shape shape = (enum shape)(c % 2); shape < SHAPES; shape += 2) {
            struct prng prng;
            prng_start(&prng, counts[c] * 64 + shape);
            struct input input;
            fill(&input, shape, &prng, counts[c]);
            check(&input, 65536, c % 3 == 0);
            input_end(&input);
        }
    }
}

/* ---- Exhaustive over tiny inputs */

static void check_sequences(const etl_slice *keys, size_t key_count, size_t longest) {
    for (size_t length = 1; length <= longest; length++) {
        size_t sequences = 1;
        for (size_t i = 0; i < length; i++)
            sequences *= key_count;
        for (size_t s = 0; s < sequences; s++) {
            struct input input;
            input_start(&input, length, 1024);
            for (size_t i = 0, rest = s; i < length; i++, rest /= key_count) {
                uint8_t value = (uint8_t)((s ^ i * 3) % 3);
                add(&input, keys[rest % key_count].data, keys[rest % key_count].size,
                    value == 2 ? NULL : &value, value == 1);
            }
            check(&input, 256, s % 2 != 0);
            input_end(&input);
        }
    }
}

static void test_exhaustive(void **state) {
    (void)state;
    const etl_slice keys[] = {
        {"", 0}, {"x", 1}, {"x\0", 2}, {"x\0\0\0\0\0\0\0", 8}, {"x\0\0\0\0\0\0\0\0", 9}};
    const etl_slice long_keys[] = {
        {"abcdefgh", 8}, {"abcdefghi", 9}, {"abcdefghijklmnop", 16}, {"abcdefghijklmnopq", 17}};
    size_t longest = support_light() ? 4 : 6;
    check_sequences(keys, COUNT_OF(keys), longest);
    check_sequences(long_keys, COUNT_OF(long_keys), longest);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_small_size),
        cmocka_unit_test(test_sizes_around_thresholds),
        cmocka_unit_test(test_large_sizes),
        cmocka_unit_test(test_exhaustive),
    };
    return cmocka_run_group_tests_name("sort", tests, support_setup, support_teardown);
}
