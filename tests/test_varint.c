/* test_varint.c: every edge of the encoding, and what a reader must refuse. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "os.h"
#include "varint.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t state;

static uint64_t random_u64(void) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return state ^ state >> 29;
}

static void check_value(uint64_t value) {
    uint8_t bytes[ETL__VARINT_MAX + 1];
    memset(bytes, 0xAA, sizeof bytes);
    size_t size = 1;
    for (uint64_t rest = value >> 7; rest != 0; rest >>= 7)
        size++;
    assert_int_equal(etl__varint_size(value), size);
    assert_ptr_equal(etl__varint_write(bytes, value), bytes + size);
    assert_int_equal(bytes[size], 0xAA);
    uint64_t back = ~value;
    assert_ptr_equal(etl__varint_read(bytes, bytes + sizeof bytes, &back), bytes + size);
    assert_true(back == value);
    back = ~value;
    assert_ptr_equal(etl__varint_read(bytes, bytes + size, &back), bytes + size);
    assert_true(back == value);
    for (size_t cut = 0; cut < size; cut++)
        assert_null(etl__varint_read(bytes, bytes + cut, &back));
}

static void test_edges(void **unused) {
    (void)unused;
    for (unsigned bit = 0; bit < 64; bit++)
        for (uint64_t near = 0; near < 3; near++) {
            check_value(((uint64_t)1 << bit) - near);
            check_value(((uint64_t)1 << bit) + near);
        }
    check_value(UINT64_MAX);
    for (uint64_t value = 0; value < 20000; value++)
        check_value(value);
}

static void test_random(void **unused) {
    (void)unused;
    for (int i = 0; i < 100000; i++)
        check_value(random_u64() >> (random_u64() & 63));
}

static void test_known_bytes(void **unused) {
    uint8_t bytes[ETL__VARINT_MAX];
    (void)unused;
    assert_ptr_equal(etl__varint_write(bytes, 300), bytes + 2);
    assert_memory_equal(bytes, "\xAC\x02", 2);
    assert_ptr_equal(etl__varint_write(bytes, UINT64_MAX), bytes + 10);
    assert_memory_equal(bytes, "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01", 10);
}

/* More than 64 bits, and no end within ten bytes. */
static void test_refused(void **unused) {
    uint64_t value;
    (void)unused;
    const uint8_t too_large[] = {255, 255, 255, 255, 255, 255, 255, 255, 255, 2};
    const uint8_t endless[] = {128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 0};
    assert_null(etl__varint_read(too_large, too_large + sizeof too_large, &value));
    assert_null(etl__varint_read(endless, endless + sizeof endless, &value));
    assert_null(etl__varint_read(endless, endless, &value));
}

int main(void) {
    const char *seed = getenv("LIBETL_TEST_SEED");
    state = seed != NULL ? strtoull(seed, NULL, 0) : etl__os_random();
    printf("seed: LIBETL_TEST_SEED=0x%llx\n", (unsigned long long)state);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_edges),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_known_bytes),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
