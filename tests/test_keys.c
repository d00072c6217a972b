/* test_keys.c: the order of encodings is the order of values, for every type and direction, alone
 * and in tuples, beside a comparison that knows nothing of bytes, and what was written reads
 * back. */
#include "keys_support.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const etl_key_order both[] = {ETL_KEY_ASCENDING, ETL_KEY_DESCENDING};

static int sign(int order) {
    return (order > 0) - (order < 0);
}

static void check_pair(const struct component *a, const struct component *b, size_t count) {
    uint8_t a_key[KEY_MAX], b_key[KEY_MAX];
    size_t a_size = put_all(a_key, a, count), b_size = put_all(b_key, b, count);
    int expected = 0;
    for (size_t i = 0; i < count && expected == 0; i++)
        expected = compare(&a[i], &b[i]);
    assert_int_equal(sign(compare_bytes(a_key, a_size, b_key, b_size)), expected);
    check_round_trip(a_key, a_size, a, count);
}

/* ---- Every value of 8 and 16 bits, and of the upper 16 bits of floating-point numbers */

static void check_ascending(struct component *values, size_t count) {
    for (size_t o = 0; o < COUNT_OF(both); o++)
        for (size_t i = 0; i < count; i++) {
            values[i].order = both[o];
            if (i == 0)
                continue;
            struct component *pair = &values[i - 1];
            assert_true(sign(compare(&pair[0], &pair[1])) == (o == 0 ? -1 : 1));
            check_pair(&pair[0], &pair[1], 1);
            check_pair(&pair[1], &pair[0], 1);
        }
}

static void test_small_exhaustive(void **unused) {
    (void)unused;
    static struct component values[65536];
    for (enum kind kind = U8; kind <= I16; kind++) {
        if (number_size[kind] > 2)
            continue;
        size_t count = (size_t)1 << 8 * number_size[kind];
        for (size_t i = 0; i < count; i++) {
            values[i] = (struct component){.kind = kind, .u = i};
            values[i].i = (int64_t)i - (int64_t)(count / 2);
        }
        check_ascending(values, count);
    }
}

static void test_floats_upper_bits(void **unused) {
    (void)unused;
    static struct component values[65536];
    for (enum kind kind = FLOAT; kind <= DOUBLE; kind++) {
        size_t count = 0;
        for (uint32_t i = 0; i < 65536; i++) {
            uint32_t upper = i < 32768 ? 65535 - i : i - 32768; /* the negative ones fall */
            uint32_t bits = upper << 16;
            uint64_t wide = (uint64_t)upper << 48;
            struct component *value = &values[count];
            *value = (struct component){.kind = kind};
            memcpy(&value->f, &bits, sizeof bits);
            memcpy(&value->d, &wide, sizeof wide);
            if (!isnan(kind == FLOAT ? (double)value->f : value->d))
                count++;
        }
        check_ascending(values, count);
    }
}

/* ---- Extremes of each type, all against all */

static void test_integer_edges(void **unused) {
    (void)unused;
    for (enum kind kind = U8; kind <= I64; kind++) {
        unsigned bits = 8 * (unsigned)number_size[kind];
        int64_t least = bits == 64 ? INT64_MIN : -((int64_t)1 << (bits - 1));
        struct component values[4 * 64];
        size_t count = 0;
        for (unsigned bit = 0; bit < bits; bit++)
            for (int near = -1; near <= 1; near++) {
                uint64_t u = ((uint64_t)1 << bit) + (uint64_t)near;
                struct component *value = &values[count++];
                *value = (struct component){.kind = kind, .u = u};
                value->i = near < 0 ? least + (int64_t)(u >> 1) : -1 - (int64_t)(u >> 1);
                if (near == 0)
                    value->i = (int64_t)((uint64_t)1 << bit >> 1);
            }
        values[count++] = (struct component){.kind = kind, .u = UINT64_MAX >> (64 - bits)};
        values[count - 1].i = -1 - least;
        for (size_t o = 0; o < COUNT_OF(both); o++)
            for (size_t a = 0; a < count; a++)
                for (size_t b = 0; b < count; b++) {
                    values[a].order = values[b].order = both[o];
                    check_pair(&values[a], &values[b], 1);
                }
    }
}

static const double special[] = {-INFINITY, -DBL_MAX, -FLT_MAX, -1e10,    -1.5,       -1.0,
                                 -FLT_MIN,  -DBL_MIN, -5e-324,  -0.0,     0.0,        5e-324,
                                 DBL_MIN,   1e-45,    FLT_MIN,  1.0,      1.5,        16777216.0,
                                 1e10,      FLT_MAX,  DBL_MAX,  INFINITY, (double)NAN};

static void test_float_specials(void **unused) {
    (void)unused;
    struct component values[COUNT_OF(special)];
    for (enum kind kind = FLOAT; kind <= DOUBLE; kind++)
        for (size_t o = 0; o < COUNT_OF(both); o++) {
            for (size_t i = 0; i < COUNT_OF(special); i++) {
                values[i] = (struct component){.kind = kind, .order = both[o], .d = special[i]};
                if (fabs(special[i]) <= (double)FLT_MAX || !isfinite(special[i]))
                    values[i].f = (float)special[i];
            }
            for (size_t a = 0; a < COUNT_OF(special); a++)
                for (size_t b = 0; b < COUNT_OF(special); b++)
                    check_pair(&values[a], &values[b], 1);
        }
}

/* Both zeros come back with their sign, and any NaN as the one that the header promises. */
static void test_zeros_and_nans(void **unused) {
    (void)unused;
    uint8_t key[8], other[8];
    static const uint64_t nans[] = {0x7FF0000000000001, 0x7FF8000000000000, 0xFFF8000000000000,
                                    0xFFFFFFFFFFFFFFFF, 0x7FFFFFFFFFFFFFFF, 0xFFF0000000000001};
    static const uint32_t float_nans[] = {0x7F800001, 0x7FC00000, 0xFFC00000,
                                          0xFFFFFFFF, 0x7FFFFFFF, 0xFF800001};
    for (size_t i = 0; i < COUNT_OF(nans); i++) {
        double d;
        float f;
        memcpy(&d, &nans[i], sizeof d);
        etl_key_put_double(key, d, ETL_KEY_ASCENDING);
        assert_memory_equal(key, "\xFF\xF8\0\0\0\0\0\0", 8);
        memcpy(&f, &float_nans[i], sizeof f);
        etl_key_put_float(key, f, ETL_KEY_DESCENDING);
        assert_memory_equal(key, "\x00\x3F\xFF\xFF", 4);
    }
    for (int negative = 0; negative < 2; negative++) {
        double zero = negative ? -0.0 : 0.0, back = 1;
        etl_slice slice = etl_slice_of(key, 8);
        etl_key_put_double(key, zero, ETL_KEY_ASCENDING);
        assert_int_equal(etl_key_get_double(&slice, &back, ETL_KEY_ASCENDING), ETL_OK);
        assert_true(back == 0 && !signbit(back) == !negative);
        etl_key_put_double(key, zero + 0.0, ETL_KEY_ASCENDING);
        etl_key_put_double(other, 0.0, ETL_KEY_ASCENDING);
        assert_memory_equal(key, other, 8);
    }
}

/* ---- Strings: all of up to 4 bytes of those that matter, before what may follow */

static void test_strings_exhaustive(void **unused) {
    (void)unused;
    static const uint8_t letters[] = {0x00, 0x01, 0xFE, 0xFF};
    static struct component strings[341];
    size_t count = 0;
    for (size_t size = 0; size <= 4; size++)
        for (size_t number = 0; number < (size_t)1 << 2 * size; number++) {
            struct component *string = &strings[count++];
            *string = (struct component){.kind = BYTES, .size = size};
            for (size_t i = 0; i < size; i++)
                string->bytes[i] = letters[number >> 2 * i & 3];
        }
    assert_int_equal(count, COUNT_OF(strings));
    size_t step = support_light() ? 7 : 1;
    for (size_t o = 0; o < COUNT_OF(both); o++)
        for (size_t a = 0; a < count; a++)
            for (size_t b = a % step; b < count; b += step) {
                struct component left[2] = {strings[a], {.kind = U8, .u = a & 1 ? 0xFF : 0}};
                struct component right[2] = {strings[b], {.kind = U8, .u = b & 2 ? 0xFF : 0}};
                left[0].order = right[0].order = both[o];
                check_pair(left, right, 2);
            }
}

/* ---- Random tuples */

static void draw(struct component *c, struct prng *prng) {
    uint64_t bits = prng_next(prng);
    if (prng_permille(prng, 500))
        bits >>= prng_below(prng, 64);
    if (prng_permille(prng, 300))
        bits = ~bits;
    c->u = c->kind <= U64 ? bits >> (64 - 8 * number_size[c->kind]) : 0;
    if (c->kind >= I8 && c->kind <= I64) {
        int64_t half = (int64_t)(bits >> (65 - 8 * number_size[c->kind]));
        c->i = prng_permille(prng, 500) ? half : -1 - half;
    }
    uint32_t upper = (uint32_t)(bits >> 32);
    memcpy(&c->f, &upper, sizeof c->f);
    memcpy(&c->d, &bits, sizeof c->d);
    if (prng_permille(prng, 300)) {
        c->d = special[prng_below(prng, COUNT_OF(special))];
        c->f = fabs(c->d) <= (double)FLT_MAX || !isfinite(c->d) ? (float)c->d : 0;
    }
    c->size = c->kind == BYTES ? prng_below(prng, STRING_MAX + 1) : 0;
    static const uint8_t letters[] = {0, 0, 1, 0xFE, 0xFF, 0xFF, 'a', 'b'};
    for (size_t i = 0; i < c->size; i++)
        c->bytes[i] = letters[prng_below(prng, COUNT_OF(letters))];
}

/* The neighbour of a tuple: one component drawn anew, or a string cut or made longer. */
static void change(struct component *c, struct prng *prng) {
    if (c->kind != BYTES || prng_permille(prng, 300))
        draw(c, prng);
    else if (c->size > 0 && prng_permille(prng, 500))
        c->size--;
    else if (c->size < STRING_MAX)
        c->bytes[c->size++] = prng_permille(prng, 500) ? 0 : 0xFF;
}

static void test_random_tuples(void **unused) {
    (void)unused;
    struct prng prng;
    prng_start(&prng, 1);
    size_t rounds = support_scaled(300000);
    for (size_t round = 0; round < rounds; round++) {
        struct component a[TUPLE_MAX] = {{.kind = U8}}, b[TUPLE_MAX];
        size_t count = prng_between(&prng, 1, TUPLE_MAX);
        for (size_t i = 0; i < count; i++) {
            a[i].kind = prng_permille(&prng, 300) ? BYTES : (enum kind)prng_below(&prng, KINDS);
            a[i].order = both[prng_below(&prng, 2)];
            draw(&a[i], &prng);
        }
        memcpy(b, a, sizeof a);
        for (size_t changes = prng_below(&prng, 3); changes > 0; changes--)
            change(&b[prng_below(&prng, count)], &prng);
        check_pair(a, b, count);
    }
}

/* ---- The layouts that docs/KEYS.md shows */

static void test_known_bytes(void **unused) {
    (void)unused;
    static const struct {
        struct component value;
        const char *bytes;
    } known[] = {
        {{.kind = U8, .u = 7}, "\x07"},
        {{.kind = U16, .u = 258}, "\x01\x02"},
        {{.kind = U32, .u = 1}, "\x00\x00\x00\x01"},
        {{.kind = U64, .u = 1, .order = ETL_KEY_DESCENDING}, "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFE"},
        {{.kind = I8, .i = -128}, "\x00"},
        {{.kind = I16, .i = -1}, "\x7F\xFF"},
        {{.kind = I32, .i = 1}, "\x80\x00\x00\x01"},
        {{.kind = I64, .i = 0}, "\x80\x00\x00\x00\x00\x00\x00\x00"},
        {{.kind = FLOAT, .f = 1}, "\xBF\x80\x00\x00"},
        {{.kind = FLOAT, .f = -1}, "\x40\x7F\xFF\xFF"},
        {{.kind = DOUBLE, .d = 0.0}, "\x80\x00\x00\x00\x00\x00\x00\x00"},
        {{.kind = DOUBLE, .d = -0.0}, "\x7F\xFF\xFF\xFF\xFF\xFF\xFF\xFF"},
        {{.kind = BYTES, .bytes = "ab", .size = 2}, "ab\x00\x00"},
        {{.kind = BYTES, .bytes = "a\0b", .size = 3}, "a\x00\xFF\x62\x00\x00"},
        {{.kind = BYTES, .bytes = "a", .size = 1, .order = ETL_KEY_DESCENDING}, "\x9E\xFF\xFF"},
        {{.kind = BYTES, .bytes = "\0", .size = 1, .order = ETL_KEY_DESCENDING},
         "\xFF\x00\xFF\xFF"},
    };
    for (size_t i = 0; i < COUNT_OF(known); i++) {
        uint8_t bytes[ETL_KEY_BYTES_MAX(STRING_MAX)];
        size_t size = put_all(bytes, &known[i].value, 1);
        assert_memory_equal(bytes, known[i].bytes, size);
        check_round_trip(bytes, size, &known[i].value, 1);
    }
}

/* ---- What they are for: a collector gives composite keys in the tuples' order. */

struct ascent {
    struct component last[3];
    size_t seen;
};

static int ascend(void *context, etl_slice key, etl_slice value) {
    struct ascent *ascent = context;
    struct component tuple[3] = {{.kind = BYTES},
                                 {.kind = DOUBLE, .order = ETL_KEY_DESCENDING},
                                 {.kind = I32, .order = ETL_KEY_DESCENDING}};
    (void)value;
    int order = ascent->seen == 0 ? -1 : 0;
    for (size_t i = 0; i < 3; i++) {
        if (get(&key, &tuple[i], false) != ETL_OK)
            return 1;
        if (order == 0)
            order = compare(&ascent->last[i], &tuple[i]);
    }
    memcpy(ascent->last, tuple, sizeof tuple);
    ascent->seen++;
    return key.size != 0 || order > 0;
}

static void test_collector(void **unused) {
    (void)unused;
    struct prng prng;
    prng_start(&prng, 2);
    etl_options options = support_options(1 * MIB);
    etl_collector *collector;
    ASSERT_OK(NULL, etl_collector_create(&collector, &options));
    size_t count = support_scaled(20000);
    for (size_t i = 0; i < count; i++) {
        struct component tuple[3] = {{.kind = BYTES},
                                     {.kind = DOUBLE, .order = ETL_KEY_DESCENDING},
                                     {.kind = I32, .order = ETL_KEY_DESCENDING}};
        for (size_t part = 0; part < 3; part++)
            draw(&tuple[part], &prng);
        uint8_t key[KEY_MAX];
        size_t size = put_all(key, tuple, 3);
        ASSERT_OK(collector,
                  etl_collect(collector, etl_slice_of(key, size), etl_slice_of(NULL, 0)));
    }
    struct ascent ascent = {.seen = 0};
    ASSERT_OK(collector, etl_load(collector, ascend, &ascent));
    assert_int_equal(ascent.seen, count);
    etl_collector_destroy(collector);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_bytes),        cmocka_unit_test(test_small_exhaustive),
        cmocka_unit_test(test_floats_upper_bits),  cmocka_unit_test(test_integer_edges),
        cmocka_unit_test(test_float_specials),     cmocka_unit_test(test_zeros_and_nans),
        cmocka_unit_test(test_strings_exhaustive), cmocka_unit_test(test_random_tuples),
        cmocka_unit_test(test_collector),
    };
    return cmocka_run_group_tests(tests, support_setup, support_teardown);
}
