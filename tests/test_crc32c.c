/* test_crc32c.c: both implementations against published values, the definition, and each other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "crc32c.h"
#include "os.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t state;

static uint8_t random_byte(void) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint8_t)(state >> 56);
}

/* Bit by bit, as it is defined. */
static uint32_t oracle(uint32_t checksum, const uint8_t *data, size_t size) {
    uint32_t crc = ~checksum;
    for (size_t i = 0; i < size; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (0x82F63B78u & (0u - (crc & 1)));
    }
    return ~crc;
}

static void assert_both(const void *data, size_t size, uint32_t expected) {
    assert_int_equal(etl__crc32c(0, data, size), expected);
    assert_int_equal(etl__crc32c_portable(0, data, size), expected);
}

/* RFC 3720, appendix B.4, and the customary check value. */
static void test_published(void **unused) {
    uint8_t bytes[32];
    (void)unused;
    assert_both("123456789", 9, 0xE3069283u);
    assert_both("", 0, 0);
    memset(bytes, 0, sizeof bytes);
    assert_both(bytes, sizeof bytes, 0x8A9136AAu);
    memset(bytes, 0xFF, sizeof bytes);
    assert_both(bytes, sizeof bytes, 0x62A8AB43u);
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)i;
    assert_both(bytes, sizeof bytes, 0x46DD794Eu);
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(31 - i);
    assert_both(bytes, sizeof bytes, 0x113FDB5Cu);
}

/* Every size around the lengths of the interleaved rounds, at every alignment. */
static void test_sizes(void **unused) {
    static const size_t around[] = {0, 336 * 3, 336 * 6, 5456 * 3, 5456 * 3 + 336 * 3, 16384};
    static uint8_t bytes[40000];
    (void)unused;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = random_byte();
    for (size_t i = 0; i < sizeof around / sizeof around[0]; i++)
        for (size_t size = around[i] > 9 ? around[i] - 9 : 0; size < around[i] + 20; size++) {
            const uint8_t *at = bytes + size % 8;
            uint32_t start = (uint32_t)size * 2654435761u, expected = oracle(start, at, size);
            assert_int_equal(etl__crc32c(start, at, size), expected);
            assert_int_equal(etl__crc32c_portable(start, at, size), expected);
        }
}

/* Going on from a part gives what the whole gives, wherever it is cut. */
static void test_parts(void **unused) {
    static uint8_t bytes[20000];
    (void)unused;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = random_byte();
    uint32_t whole = oracle(0, bytes, sizeof bytes);
    for (int round = 0; round < 200; round++) {
        size_t cut = (size_t)(random_byte() << 8 | random_byte()) % sizeof bytes;
        uint32_t head = etl__crc32c(0, bytes, cut);
        assert_int_equal(head, etl__crc32c_portable(0, bytes, cut));
        assert_int_equal(etl__crc32c(head, bytes + cut, sizeof bytes - cut), whole);
        assert_int_equal(etl__crc32c_portable(head, bytes + cut, sizeof bytes - cut), whole);
    }
}

int main(void) {
    const char *seed = getenv("LIBETL_TEST_SEED");
    state = seed != NULL ? strtoull(seed, NULL, 0) : etl__os_random();
    printf("seed: LIBETL_TEST_SEED=0x%llx\n", (unsigned long long)state);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
