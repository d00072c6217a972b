/* test_sort.c: etl__sort_index against a naive oracle.
 *
 * The oracle is libc's qsort over copies of the pairs with a comparison of its own. Sizes go
 * through every threshold of the sort; the scratch is small in most tests, so that few entries
 * take the paths of many. Inputs made to be slow or deep are sorted on a 64 KiB stack and would
 * not end in time if they were not handled. */
#include "support.h"
#include "radix.h"
#include "sort.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Pairs under construction, in collection order. */
struct input {
    uint8_t *arena;
    size_t used, room;
    struct etl__entry *entries;
    size_t count, capacity;
};

static const uint8_t *bases[16];
enum { SHIFT = 28 };

static void *get(size_t size) {
    void *memory = malloc(size + 1);
    assert_non_null(memory);
    return memory;
}

static struct etl__slots slots_of(const struct input *input) {
    for (size_t i = 0; i < COUNT_OF(bases); i++)
        bases[i] = input->arena + (i << SHIFT);
    return (struct etl__slots){bases, SHIFT};
}

static void input_start(struct input *input, size_t capacity, size_t bytes) {
    *input = (struct input){.room = bytes + 24 * capacity, .capacity = capacity};
    input->arena = get(input->room);
    input->entries = get(capacity * sizeof *input->entries);
}

static void input_end(struct input *input) {
    free(input->arena);
    free(input->entries);
}

/* nil: value is NULL. */
static void add(struct input *input, const void *key, size_t key_size, const void *value,
                size_t value_size) {
    assert_true(input->count < input->capacity);
    assert_true(input->used + key_size + value_size + 2 * ETL__VARINT_MAX <= input->room);
    uint8_t *record = input->arena + input->used;
    uint8_t *at =
        etl__record_write_head(record, key_size, etl__value_code(value == NULL, value_size));
    if (key_size != 0)
        memcpy(at, key, key_size);
    if (value_size != 0)
        memcpy(at + key_size, value, value_size);
    input->entries[input->count++] = (struct etl__entry){
        etl__key_prefix(at, key_size), (uint32_t)input->used, (uint32_t)key_size};
    input->used = (size_t)(at - input->arena) + key_size + value_size;
}

/* ---- The oracle */

static const struct input *oracle_input;
static bool oracle_values;

static int order_bytes(const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size) {
    for (size_t i = 0; i < a_size && i < b_size; i++)
        if (a[i] != b[i])
            return a[i] < b[i] ? -1 : 1;
    return a_size < b_size ? -1 : a_size > b_size;
}

static int order_pairs(const void *left, const void *right) {
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    struct etl__pair x, y;
    etl__record_view(oracle_input->arena + a, &x);
    etl__record_view(oracle_input->arena + b, &y);
    int order = order_bytes(x.key, x.key_size, y.key, y.key_size);
    if (order == 0 && oracle_values) {
        if (x.value == NULL || y.value == NULL)
            order = (x.value != NULL) - (y.value != NULL);
        else
            order = order_bytes(x.value, x.value_size, y.value, y.value_size);
    }
    return order != 0 ? order : a < b ? -1 : 1;
}

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

/* ---- Distributions */

enum shape {
    RANDOM_8,   /* 8 random bytes */
    RANDOM_20,  /* 20 */
    FEW,        /* one of count / 8 + 1 keys */
    BINARY,     /* 0 to 20 bytes out of 0 and 1: zeros at the end, prefixes of one another */
    PREFIXED,   /* 11 constant bytes, 3 random ones out of four */
    LAST_BYTE,  /* 0, 7, 8, 9, 16 or 17 equal bytes, the last one out of three */
    ASCENDING,  /* count in big-endian */
    DESCENDING, /* with equal neighbours */
    PIPE,       /* up and down again */
    SAW,        /* teeth of 37 */
    OUTLIERS,   /* small numbers and a few at the other end */
    SQUARES,    /* dense at the low end: bins overflow */
    CONSTANT,   /* all equal */
    SHAPES
};

static size_t make_key(enum shape shape, struct prng *prng, size_t i, size_t count,
                       uint8_t key[32]) {
    uint64_t number = prng_next(prng), draw = number;
    size_t size = 8;
    memset(key, 7, 32);
    switch (shape) {
    case RANDOM_20:
        for (size_t j = 8; j < 20; j++)
            key[j] = (uint8_t)prng_next(prng);
        size = 20;
        break;
    case FEW:
        number = number % (count / 8 + 1) * 0x9E3779B97F4A7C15u;
        break;
    case BINARY:
        size = draw % 21;
        for (size_t j = 0; j < size; j++)
            key[j] = (uint8_t)((draw >> 20 >> j) & (draw >> 41 >> j % 20) & 1);
        return size;
    case PREFIXED:
        for (size_t j = 11; j < 14; j++)
            key[j] = (uint8_t)(prng_next(prng) & 3);
        return 14;
    case LAST_BYTE:
        size = (size_t[]){0, 7, 8, 9, 16, 17}[draw % 6];
        if (size != 0)
            key[size - 1] = (uint8_t)(draw >> 8) % 3;
        return size;
    case ASCENDING:
        number = i;
        break;
    case DESCENDING:
        number = (count - i) / 3;
        break;
    case PIPE:
        number = i < count / 2 ? i : count - i;
        break;
    case SAW:
        number = i % 37;
        break;
    case OUTLIERS:
        number = draw % 50 == 0 ? ~(draw >> 60) : draw >> 50;
        break;
    case SQUARES:
        number = (draw >> 32) * (draw >> 32) >> (draw & 31);
        break;
    case CONSTANT:
        number = 42;
        break;
    case RANDOM_8:
    case SHAPES:
        break;
    }
    for (int j = 0; j < 8; j++)
        key[j] = (uint8_t)(number >> (56 - 8 * j));
    return size;
}

static void shuffle(struct input *input, struct prng *prng) {
    for (size_t i = input->count; i > 1; i--) {
        size_t other = prng_below(prng, i);
        struct etl__entry entry = input->entries[i - 1];
        input->entries[i - 1] = input->entries[other];
        input->entries[other] = entry;
    }
}

static void fill(struct input *input, enum shape shape, struct prng *prng, size_t count) {
    input_start(input, count, count * 64);
    for (size_t i = 0; i < count; i++) {
        uint8_t key[32], value[12];
        size_t size = make_key(shape, prng, i, count, key);
        uint64_t draw = prng_next(prng);
        for (size_t j = 0; j < sizeof value; j++)
            value[j] = (uint8_t)(draw >> 8 >> j & 1);
        add(input, key, size, draw % 5 == 0 ? NULL : value,
            draw % 5 == 0 ? 0 : draw / 8 % (sizeof value + 1));
    }
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

/* ---- Inputs made to be slow or deep */

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
        cmocka_unit_test(test_every_small_size),
        cmocka_unit_test(test_sizes_around_thresholds),
        cmocka_unit_test(test_large_sizes),
        cmocka_unit_test(test_exhaustive),
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
    return cmocka_run_group_tests_name("sort", tests, support_setup, support_teardown);
}
