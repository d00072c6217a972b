/* keys_support.h: a component of a composite key, of any type and order; a comparison of two that
 * knows nothing of bytes; and the writer and the reader that belong to it. */
#ifndef LIBETL_TESTS_KEYS_SUPPORT_H
#define LIBETL_TESTS_KEYS_SUPPORT_H

#include "support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Components and their naive order */

enum kind { U8, U16, U32, U64, I8, I16, I32, I64, FLOAT, DOUBLE, BYTES, KINDS };

static const size_t number_size[] = {1, 2, 4, 8, 1, 2, 4, 8, 4, 8};

enum { STRING_MAX = 12, TUPLE_MAX = 4, KEY_MAX = TUPLE_MAX * ETL_KEY_BYTES_MAX(STRING_MAX) };

struct component {
    enum kind kind;
    etl_key_order order;
    uint64_t u;
    int64_t i;
    float f;
    double d;
    uint8_t bytes[STRING_MAX];
    size_t size;
};

static inline etl_slice slice_of(const struct component *component) {
    return etl_slice_of(component->bytes, component->size);
}

/* -infinity ... -0, +0 ... infinity, NaN. */
static inline int compare_doubles(double a, double b) {
    if (isnan(a) || isnan(b))
        return (isnan(a) != 0) - (isnan(b) != 0);
    if (a == 0 && b == 0)
        return (signbit(b) != 0) - (signbit(a) != 0);
    return (a > b) - (a < b);
}

static inline int compare_bytes(const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size) {
    for (size_t i = 0; i < a_size && i < b_size; i++)
        if (a[i] != b[i])
            return a[i] < b[i] ? -1 : 1;
    return (a_size > b_size) - (a_size < b_size);
}

static inline int compare(const struct component *a, const struct component *b) {
    int order;
    if (a->kind <= U64)
        order = (a->u > b->u) - (a->u < b->u);
    else if (a->kind <= I64)
        order = (a->i > b->i) - (a->i < b->i);
    else if (a->kind == FLOAT)
        order = compare_doubles(a->f, b->f);
    else if (a->kind == DOUBLE)
        order = compare_doubles(a->d, b->d);
    else
        order = compare_bytes(a->bytes, a->size, b->bytes, b->size);
    return a->order == ETL_KEY_DESCENDING ? -order : order;
}

/* ---- Writing and reading them */

static inline uint8_t *put(uint8_t *to, const struct component *c) {
    switch (c->kind) {
    case U8:
        return etl_key_put_u8(to, (uint8_t)c->u, c->order);
    case U16:
        return etl_key_put_u16(to, (uint16_t)c->u, c->order);
    case U32:
        return etl_key_put_u32(to, (uint32_t)c->u, c->order);
    case U64:
        return etl_key_put_u64(to, c->u, c->order);
    case I8:
        return etl_key_put_i8(to, (int8_t)c->i, c->order);
    case I16:
        return etl_key_put_i16(to, (int16_t)c->i, c->order);
    case I32:
        return etl_key_put_i32(to, (int32_t)c->i, c->order);
    case I64:
        return etl_key_put_i64(to, c->i, c->order);
    case FLOAT:
        return etl_key_put_float(to, c->f, c->order);
    case DOUBLE:
        return etl_key_put_double(to, c->d, c->order);
    default:
        return etl_key_put_bytes(to, slice_of(c), c->order);
    }
}

/* Reads what c->kind and c->order say; skip: gives NULL for the value. */
static inline int get(etl_slice *key, struct component *c, bool skip) {
    uint8_t u8 = 0;
    uint16_t u16 = 0;
    uint32_t u32 = 0;
    int8_t i8 = 0;
    int16_t i16 = 0;
    int32_t i32 = 0;
    int status;
    switch (c->kind) {
    case U8:
        status = etl_key_get_u8(key, skip ? NULL : &u8, c->order);
        c->u = u8;
        return status;
    case U16:
        status = etl_key_get_u16(key, skip ? NULL : &u16, c->order);
        c->u = u16;
        return status;
    case U32:
        status = etl_key_get_u32(key, skip ? NULL : &u32, c->order);
        c->u = u32;
        return status;
    case U64:
        return etl_key_get_u64(key, skip ? NULL : &c->u, c->order);
    case I8:
        status = etl_key_get_i8(key, skip ? NULL : &i8, c->order);
        c->i = i8;
        return status;
    case I16:
        status = etl_key_get_i16(key, skip ? NULL : &i16, c->order);
        c->i = i16;
        return status;
    case I32:
        status = etl_key_get_i32(key, skip ? NULL : &i32, c->order);
        c->i = i32;
        return status;
    case I64:
        return etl_key_get_i64(key, skip ? NULL : &c->i, c->order);
    case FLOAT:
        return etl_key_get_float(key, skip ? NULL : &c->f, c->order);
    case DOUBLE:
        return etl_key_get_double(key, skip ? NULL : &c->d, c->order);
    default:
        return etl_key_get_bytes(key, skip ? NULL : c->bytes, sizeof c->bytes,
                                 skip ? NULL : &c->size, c->order);
    }
}

static inline size_t encoded_size(const struct component *c) {
    return c->kind == BYTES ? etl_key_bytes_size(slice_of(c)) : number_size[c->kind];
}

static inline size_t put_all(uint8_t *to, const struct component *tuple, size_t count) {
    uint8_t *end = to;
    for (size_t i = 0; i < count; i++) {
        uint8_t *next = put(end, &tuple[i]);
        assert_int_equal(next - end, encoded_size(&tuple[i]));
        end = next;
    }
    return (size_t)(end - to);
}

/* From a block of just that size, so that sanitizers see a byte too many. */
static inline void check_round_trip(const uint8_t *encoded, size_t size,
                                    const struct component *tuple, size_t count) {
    uint8_t *copy = malloc(size);
    assert_non_null(copy);
    memcpy(copy, encoded, size);
    etl_slice key = etl_slice_of(copy, size);
    for (size_t i = 0; i < count; i++) {
        struct component back = {.kind = tuple[i].kind, .order = tuple[i].order};
        etl_slice skipped = key;
        assert_int_equal(get(&skipped, &back, true), ETL_OK);
        assert_int_equal(get(&key, &back, false), ETL_OK);
        assert_int_equal(compare(&back, &tuple[i]), 0);
        assert_ptr_equal(skipped.data, key.data);
        assert_int_equal(skipped.size, key.size);
    }
    assert_int_equal(key.size, 0);
    free(copy);
}

#endif
