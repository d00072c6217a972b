/* test_huge.c: more pairs than 32 bits count: 2^32 + 1 of the smallest that can still be told
 * apart. Not one of the others' presets: it takes 34 GB in the temporary directory and some
 * ten minutes.
 *
 * Environment: LIBETL_TEST_PAIRS asks for another number, to see how long it takes here. */
#include "support.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_SIZE = 5 };

static uint64_t pairs_wanted(void) {
    const char *given = getenv("LIBETL_TEST_PAIRS");
    return given != NULL && given[0] != '\0' ? strtoull(given, NULL, 0) : (UINT64_C(1) << 32) + 1;
}

static void write_key(unsigned char key[KEY_SIZE], uint64_t number) {
    for (unsigned byte = 0; byte < KEY_SIZE; byte++)
        key[byte] = (unsigned char)(number >> (8 * (KEY_SIZE - 1 - byte)));
}

/* A bijection of [0, 2^bits), from the low bits up: an odd factor, and a shift that folds the high
 * bits in (as in splitmix64). Numbers that leave the range below `count` go round again. */
static uint64_t scatter(uint64_t number, uint64_t count, unsigned bits) {
    const uint64_t mask = (UINT64_C(1) << bits) - 1;
    do {
        number = number * UINT64_C(0x9E3779B97F4A7C15) & mask;
        number ^= number >> (bits / 2 + 1);
        number = number * UINT64_C(0xBF58476D1CE4E5B9) & mask;
        number ^= number >> (bits / 2 + 1);
    } while (number >= count);
    return number;
}

struct expected {
    uint64_t next, wrong, bytes;
};

static int load(void *context, etl_slice key, etl_slice value) {
    struct expected *expected = context;
    unsigned char wanted[KEY_SIZE];
    write_key(wanted, expected->next++);
    expected->wrong +=
        key.size != KEY_SIZE || memcmp(key.data, wanted, KEY_SIZE) != 0 || value.data != NULL;
    expected->bytes += key.size + value.size;
    return 0;
}

static void more_pairs_than_32_bits_count(void **state) {
    (void)state;
    const uint64_t count = pairs_wanted();
    unsigned bits = 4;
    while ((UINT64_C(1) << bits) < count)
        bits++;
    etl_options options = support_options(1024 * MIB);
    etl_collector *collector;
    ASSERT_OK(NULL, etl_collector_create(&collector, &options));
    for (uint64_t i = 0; i < count; i++) {
        unsigned char key[KEY_SIZE];
        write_key(key, scatter(i, count, bits));
        int status = etl_collect(collector, etl_slice_of(key, sizeof key), etl_slice_of(NULL, 0));
        if (status != ETL_OK)
            ASSERT_OK(collector, status);
    }
    etl_stats stats = {.struct_size = sizeof stats};
    ASSERT_OK(collector, etl_collector_stats(collector, &stats));
    assert_true(stats.pairs == count && stats.key_bytes == count * KEY_SIZE);
    struct expected expected = {0};
    ASSERT_OK(collector, etl_load(collector, load, &expected));
    assert_true(expected.next == count && expected.wrong == 0);
    assert_true(expected.bytes == count * KEY_SIZE);
    ASSERT_OK(collector, etl_collector_stats(collector, &stats));
    print_message("%" PRIu64 " pairs: %" PRIu64 " runs, %" PRIu64 " passes, %" PRIu64
                  " MB on disk at most\n",
                  count, stats.runs, stats.merge_passes, stats.disk_bytes_peak / 1000000);
    etl_collector_destroy(collector);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(more_pairs_than_32_bits_count)};
    return cmocka_run_group_tests(tests, support_setup, support_teardown);
}
