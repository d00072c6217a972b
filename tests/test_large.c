/* test_large.c: keys and values beyond 2 GiB, and the largest that are allowed. Takes a minute, and
 * 12 GB of memory; skipped where there is less. */
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static unsigned char *bytes;

/* Byte i of all of them, so that a shift by any size shows. */
static void fill_bytes(size_t size) {
    for (size_t i = 0; i + 8 <= size; i += 8) {
        uint64_t word = i * UINT64_C(0x9E3779B97F4A7C15);
        memcpy(bytes + i, &word, sizeof word);
    }
}

struct seen {
    size_t pairs, sizes[4], wrong;
};

static int look(void *context, etl_slice key, etl_slice value) {
    struct seen *seen = context;
    seen->wrong += key.size != 1 || memcmp(value.data, bytes, value.size) != 0;
    if (seen->pairs < COUNT_OF(seen->sizes))
        seen->sizes[seen->pairs++] = value.size;
    return 0;
}

static void check(size_t limit, etl_access access, size_t size) {
    etl_options options = support_options(limit);
    options.access = access;
    etl_collector *collector;
    ASSERT_OK(NULL, etl_collector_create(&collector, &options));
    static const char *const keys[] = {"c", "a", "b"};
    const size_t sizes[] = {1000, size, size - 12345};
    for (size_t i = 0; i < COUNT_OF(keys); i++)
        ASSERT_OK(collector,
                  etl_collect(collector, etl_slice_str(keys[i]), etl_slice_of(bytes, sizes[i])));
    struct seen seen = {0};
    ASSERT_OK(collector, etl_load(collector, look, &seen));
    assert_int_equal(seen.pairs, 3);
    assert_int_equal(seen.wrong, 0);
    assert_true(seen.sizes[0] == size && seen.sizes[1] == size - 12345 && seen.sizes[2] == 1000);
    etl_collector_destroy(collector);
}

static void values_above_2_gib(void **state) {
    (void)state;
    const size_t size = 2560 * MIB + 7;
    check(64 * MIB, ETL_ACCESS_MMAP, size);
    check(64 * MIB, ETL_ACCESS_READ, size);
}

static void the_largest_value_there_may_be(void **state) {
    (void)state;
    check(64 * MIB, ETL_ACCESS_MMAP, (size_t)ETL_SIZE_MAX);
}

static void the_largest_key_there_may_be(void **state) {
    (void)state;
    etl_options options = support_options(64 * MIB);
    etl_collector *collector;
    ASSERT_OK(NULL, etl_collector_create(&collector, &options));
    etl_slice key = etl_slice_of(bytes, (size_t)ETL_SIZE_MAX);
    ASSERT_OK(collector, etl_collect(collector, key, etl_slice_str("1")));
    key.size--;
    ASSERT_OK(collector, etl_collect(collector, key, etl_slice_of(NULL, 0)));
    key.size += 2;
    ASSERT_STATUS(ETL_E_TOO_LARGE, collector, etl_collect(collector, key, etl_slice_str("1")));
    etl_iter *iter;
    etl_slice found, value;
    ASSERT_OK(collector, etl_iter_open(&iter, collector, NULL));
    for (size_t i = 0; i < 2; i++) {
        ASSERT_OK(collector, etl_iter_next(iter, &found, &value));
        assert_true(found.size == (size_t)ETL_SIZE_MAX - 1 + i); /* the shorter first */
        assert_int_equal(memcmp(found.data, bytes, found.size), 0);
        assert_true((value.data == NULL) == (i == 0));
    }
    ASSERT_STATUS(ETL_END, collector, etl_iter_next(iter, &found, &value));
    etl_iter_close(iter);
    etl_collector_destroy(collector);
}

static int setup(void **state) {
    const uint64_t size = ETL_SIZE_MAX + 16;
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    if (pages > 0 && (uint64_t)pages * (uint64_t)page < 3 * size)
        exit(77);
    bytes = malloc(size);
    if (bytes == NULL)
        exit(77);
    fill_bytes(size);
    return support_setup(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_above_2_gib),
        cmocka_unit_test(the_largest_value_there_may_be),
        cmocka_unit_test(the_largest_key_there_may_be),
    };
    int status = cmocka_run_group_tests(tests, setup, support_teardown);
    free(bytes);
    return status;
}
