/* sort_support.h: for the tests of sorting: pairs and their index under construction, the order
 * that the library must give them, and keys in many shapes. */
#ifndef LIBETL_TESTS_SORT_SUPPORT_H
#define LIBETL_TESTS_SORT_SUPPORT_H

#include "sort.h"
#include "support.h"

#include <stdlib.h>
#include <string.h>

/* Pairs under construction, in collection order. */
struct input {
    uint8_t *arena;
    size_t used, room;
    struct etl__entry *entries;
    size_t count, capacity;
};

static inline void *get(size_t size) {
    void *memory = malloc(size + 1);
    assert_non_null(memory);
    return memory;
}

static inline struct etl__slots slots_of(const struct input *input) {
    enum { SHIFT = 28 };
    static const uint8_t *bases[16];
    for (size_t i = 0; i < COUNT_OF(bases); i++)
        bases[i] = input->arena + (i << SHIFT);
    return (struct etl__slots){bases, SHIFT};
}

static inline void input_start(struct input *input, size_t capacity, size_t bytes) {
    *input = (struct input){.room = bytes + 24 * capacity, .capacity = capacity};
    input->arena = get(input->room);
    input->entries = get(capacity * sizeof *input->entries);
}

static inline void input_end(struct input *input) {
    free(input->arena);
    free(input->entries);
}

/* nil: value is NULL. */
static inline void add(struct input *input, const void *key, size_t key_size, const void *value,
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

static inline int order_bytes(const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size) {
    for (size_t i = 0; i < a_size && i < b_size; i++)
        if (a[i] != b[i])
            return a[i] < b[i] ? -1 : 1;
    return a_size < b_size ? -1 : a_size > b_size;
}

static inline int order_pairs(const void *left, const void *right) {
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

static inline size_t make_key(enum shape shape, struct prng *prng, size_t i, size_t count,
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

static inline void shuffle(struct input *input, struct prng *prng) {
    for (size_t i = input->count; i > 1; i--) {
        size_t other = prng_below(prng, i);
        struct etl__entry entry = input->entries[i - 1];
        input->entries[i - 1] = input->entries[other];
        input->entries[other] = entry;
    }
}

static inline void fill(struct input *input, enum shape shape, struct prng *prng, size_t count) {
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

#endif
