/* test_keys_refused.c: readers of keys refuse whatever no writer writes, without a look outside
 * the key (which lies in a block of just its size, for the sanitizers) and without a change. */
#include "keys_support.h"

#include <stdlib.h>
#include <string.h>

static const etl_key_order both[] = {ETL_KEY_ASCENDING, ETL_KEY_DESCENDING};

/* The reader of this type gives this status for these bytes, read or skipped, and changes nothing.
 */
static void check_refused(int expected, enum kind kind, etl_key_order order, const void *bytes,
                          size_t size) {
    uint8_t *copy = malloc(size + (size == 0));
    assert_non_null(copy);
    if (size != 0)
        memcpy(copy, bytes, size);
    for (int skip = 0; skip < 2; skip++) {
        struct component marked = {.u = 0xA5A5A5A5, .i = -77, .f = 7, .d = 7, .size = 99}, back;
        memset(marked.bytes, 0xA5, sizeof marked.bytes);
        marked.kind = kind;
        marked.order = order;
        memcpy(&back, &marked, sizeof back);
        etl_slice key = etl_slice_of(copy, size);
        assert_int_equal(get(&key, &back, skip), expected);
        assert_ptr_equal(key.data, copy);
        assert_int_equal(key.size, size);
        if (kind >= FLOAT)
            assert_memory_equal(&back, &marked, sizeof back);
    }
    free(copy);
}

/* A NULL slice of size 0 is a key that has ended. */
static void test_truncated(void **unused) {
    (void)unused;
    uint8_t bytes[ETL_KEY_BYTES_MAX(STRING_MAX)];
    for (size_t o = 0; o < COUNT_OF(both); o++)
        for (enum kind kind = U8; kind < KINDS; kind++) {
            struct component value = {.kind = kind, .order = both[o], .u = 5, .i = 5, .f = 5};
            value.size = 4;
            memcpy(value.bytes, "a\0\0", 4);
            size_t size = put_all(bytes, &value, 1);
            for (size_t cut = 0; cut < size; cut++)
                check_refused(ETL_E_CORRUPT, kind, both[o], bytes, cut);
            etl_slice none = {NULL, 0};
            assert_int_equal(get(&none, &value, false), ETL_E_CORRUPT);
            assert_null(none.data);
        }
}

/* Nothing is changed in the caller's numbers either. */
static void test_numbers_unchanged(void **unused) {
    (void)unused;
    uint8_t u8 = 9;
    uint16_t u16 = 9;
    uint32_t u32 = 9;
    uint64_t u64 = 9;
    int8_t i8 = 9;
    int16_t i16 = 9;
    int32_t i32 = 9;
    int64_t i64 = 9;
    etl_slice key = etl_slice_of("1234567", 7), end = etl_slice_of("", 0);
    etl_slice three = etl_slice_of("123", 3), one = etl_slice_of("1", 1);
    assert_int_equal(etl_key_get_u8(&end, &u8, ETL_KEY_ASCENDING), ETL_E_CORRUPT);
    assert_int_equal(etl_key_get_u16(&one, &u16, ETL_KEY_ASCENDING), ETL_E_CORRUPT);
    assert_int_equal(etl_key_get_u32(&three, &u32, ETL_KEY_ASCENDING), ETL_E_CORRUPT);
    assert_int_equal(etl_key_get_u64(&key, &u64, ETL_KEY_ASCENDING), ETL_E_CORRUPT);
    assert_int_equal(etl_key_get_i8(&end, &i8, ETL_KEY_DESCENDING), ETL_E_CORRUPT);
    assert_int_equal(etl_key_get_i16(&one, &i16, ETL_KEY_DESCENDING), ETL_E_CORRUPT);
    assert_int_equal(etl_key_get_i32(&three, &i32, ETL_KEY_DESCENDING), ETL_E_CORRUPT);
    assert_int_equal(etl_key_get_i64(&key, &i64, ETL_KEY_DESCENDING), ETL_E_CORRUPT);
    assert_true(u8 == 9 && u16 == 9 && u32 == 9 && u64 == 9);
    assert_true(i8 == 9 && i16 == 9 && i32 == 9 && i64 == 9);
    assert_true(key.size == 7 && three.size == 3 && one.size == 1 && end.size == 0);
}

static void test_arguments(void **unused) {
    (void)unused;
    for (enum kind kind = U8; kind < KINDS; kind++) {
        struct component value = {.kind = kind};
        etl_slice wrong = {NULL, 100};
        assert_int_equal(get(NULL, &value, false), ETL_E_INVALID);
        assert_int_equal(get(&wrong, &value, false), ETL_E_INVALID);
        assert_int_equal(wrong.size, 100);
        check_refused(ETL_E_INVALID, kind, (etl_key_order)2, "\0\0\0\0\0\0\0\0", 8);
        check_refused(ETL_E_INVALID, kind, (etl_key_order)-1, "\0\0\0\0\0\0\0\0", 8);
    }
}

/* After a zero comes the end, an escaped zero, or damage. */
static void test_escapes(void **unused) {
    (void)unused;
    for (size_t o = 0; o < COUNT_OF(both); o++)
        for (unsigned after = 0; after < 256; after++) {
            uint8_t bytes[] = {'x', 0, (uint8_t)after, 0, 0};
            for (size_t i = 0; i < sizeof bytes && both[o] == ETL_KEY_DESCENDING; i++)
                bytes[i] ^= 0xFF;
            struct component back = {.kind = BYTES, .order = both[o]};
            etl_slice key = etl_slice_of(bytes, sizeof bytes);
            if (after != 0 && after != 0xFF) {
                check_refused(ETL_E_CORRUPT, BYTES, both[o], bytes, sizeof bytes);
                continue;
            }
            assert_int_equal(get(&key, &back, false), ETL_OK);
            assert_int_equal(back.size, after == 0 ? 1 : 2);
            assert_memory_equal(back.bytes, "x\0", back.size);
            assert_int_equal(key.size, after == 0 ? 2 : 0);
        }
}

/* Only the NaN that is written is read. */
static void test_nans(void **unused) {
    (void)unused;
    static const char *const doubles[] = {
        "\xFF\xF8\0\0\0\0\0\1",         "\xFF\xF0\0\0\0\0\0\1", "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF",
        "\0\7\xFF\xFF\xFF\xFF\xFF\xFF", "\0\0\0\0\0\0\0\0",     "\0\x0F\xFF\xFF\xFF\xFF\xFF\xFE"};
    static const char *const floats[] = {"\xFF\xC0\0\1",   "\xFF\x80\0\1", "\xFF\xFF\xFF\xFF",
                                         "\0\x3F\xFF\xFF", "\0\0\0\0",     "\0\x7F\xFF\xFE"};
    for (size_t i = 0; i < COUNT_OF(doubles); i++)
        for (size_t o = 0; o < COUNT_OF(both); o++) {
            uint8_t wide[8], narrow[4];
            for (size_t at = 0; at < 8; at++)
                wide[at] = (uint8_t)((uint8_t)doubles[i][at] ^ (o == 0 ? 0 : 0xFF));
            for (size_t at = 0; at < 4; at++)
                narrow[at] = (uint8_t)((uint8_t)floats[i][at] ^ (o == 0 ? 0 : 0xFF));
            check_refused(ETL_E_CORRUPT, DOUBLE, both[o], wide, 8);
            check_refused(ETL_E_CORRUPT, FLOAT, both[o], narrow, 4);
        }
}

static void test_capacity(void **unused) {
    (void)unused;
    uint8_t bytes[ETL_KEY_BYTES_MAX(5)];
    etl_slice value = etl_slice_of("a\0\xFF\0b", 5);
    for (size_t o = 0; o < COUNT_OF(both); o++) {
        assert_int_equal(etl_key_bytes_size(value), 9);
        assert_ptr_equal(etl_key_put_bytes(bytes, value, both[o]), bytes + 9);
        for (size_t capacity = 0; capacity <= 6; capacity++) {
            uint8_t *out = malloc(capacity + (capacity == 0));
            assert_non_null(out);
            memset(out, 0xA5, capacity);
            etl_slice key = etl_slice_of(bytes, 9);
            size_t size = 0;
            int status = etl_key_get_bytes(&key, out, capacity, &size, both[o]);
            assert_int_equal(size, 5);
            assert_int_equal(status, capacity < 5 ? ETL_E_TOO_LARGE : ETL_OK);
            assert_int_equal(key.size, capacity < 5 ? 9 : 0);
            if (status == ETL_OK)
                assert_memory_equal(out, value.data, 5);
            for (size_t i = status == ETL_OK ? 5 : 0; i < capacity; i++)
                assert_int_equal(out[i], 0xA5);
            free(out);
        }
        etl_slice key = etl_slice_of(bytes, 9);
        size_t size = 0;
        assert_int_equal(etl_key_get_bytes(&key, NULL, 0, &size, both[o]), ETL_OK);
        assert_true(size == 5 && key.size == 0);
    }
    /* Nil is written as empty, and an empty value needs no room. */
    etl_slice nil = {NULL, 0}, key = etl_slice_of(bytes, 2);
    uint8_t none;
    size_t size = 1;
    assert_int_equal(etl_key_bytes_size(nil), 2);
    assert_ptr_equal(etl_key_put_bytes(bytes, nil, ETL_KEY_ASCENDING), bytes + 2);
    assert_int_equal(etl_key_get_bytes(&key, &none, 0, &size, ETL_KEY_ASCENDING), ETL_OK);
    assert_true(size == 0 && key.size == 0);
    key = etl_slice_of(bytes, 2);
    assert_int_equal(etl_key_get_bytes(&key, &none, 0, NULL, ETL_KEY_ASCENDING), ETL_OK);
}

/* Whatever is read from any bytes is written as just these bytes: each value has one encoding. */
static void test_any_bytes(void **unused) {
    (void)unused;
    static const uint8_t letters[] = {0, 0, 0, 0xFF, 0xFF, 0xFF, 1, 0x7F, 0x80, 'a'};
    struct prng prng;
    prng_start(&prng, 1);
    size_t read = 0, refused = 0, rounds = support_scaled(300000);
    for (size_t round = 0; round < rounds; round++) {
        size_t size = prng_below(&prng, STRING_MAX + 1);
        uint8_t *bytes = malloc(size + (size == 0)), again[ETL_KEY_BYTES_MAX(STRING_MAX)];
        assert_non_null(bytes);
        for (size_t i = 0; i < size; i++)
            bytes[i] = prng_permille(&prng, 100) ? (uint8_t)prng_next(&prng)
                                                 : letters[prng_below(&prng, COUNT_OF(letters))];
        struct component back = {
            .kind = prng_permille(&prng, 500) ? BYTES : (enum kind)prng_below(&prng, KINDS)};
        back.order = both[prng_below(&prng, 2)];
        etl_slice key = etl_slice_of(bytes, size);
        if (get(&key, &back, false) == ETL_OK) {
            read++;
            size_t taken = put_all(again, &back, 1);
            assert_int_equal(taken, size - key.size);
            assert_ptr_equal(key.data, bytes + taken);
            assert_memory_equal(again, bytes, taken);
        } else {
            refused++;
            check_refused(ETL_E_CORRUPT, back.kind, back.order, bytes, size);
        }
        free(bytes);
    }
    assert_true(read > rounds / 10 && refused > rounds / 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_truncated), cmocka_unit_test(test_numbers_unchanged),
        cmocka_unit_test(test_arguments), cmocka_unit_test(test_escapes),
        cmocka_unit_test(test_nans),      cmocka_unit_test(test_capacity),
        cmocka_unit_test(test_any_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
