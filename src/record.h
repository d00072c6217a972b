/* record.h: a pair as bytes, the same in an arena and in a run file:
 *
 *     varint(key size)  varint(0 for nil, else value size + 1)  key  value
 *
 * so that spilling copies records as they are, and a slice can point into either. */
#ifndef LIBETL_RECORD_H
#define LIBETL_RECORD_H

#include "etl.h"
#include "varint.h"

#include <string.h>

/* A pair by reference. value == NULL is nil; key is never NULL. */
struct etl__pair {
    const uint8_t *key;
    const uint8_t *value;
    uint32_t key_size;
    uint32_t value_size;
};

static inline uint64_t etl__value_code(bool nil, uint64_t value_size) {
    return nil ? 0 : value_size + 1;
}

/* Bytes of the record's head, and of the whole. */
static inline size_t etl__record_head_size(uint64_t key_size, uint64_t value_code) {
    return (key_size | value_code) < 128
               ? 2
               : etl__varint_size(key_size) + etl__varint_size(value_code);
}

static inline uint8_t *etl__record_write_head(uint8_t *at, uint64_t key_size,
                                              uint64_t value_code) {
    if ((key_size | value_code) < 128) {
        const uint8_t head[2] = {(uint8_t)key_size, (uint8_t)value_code};
        memcpy(at, head, sizeof head); /* one store */
        return at + 2;
    }
    return etl__varint_write(etl__varint_write(at, key_size), value_code);
}

/* The record at `at`, which this library wrote into memory itself: nothing is checked. */
static inline void etl__record_view(const uint8_t *at, struct etl__pair *pair) {
    uint64_t key_size = at[0], code = at[1];
    const uint8_t *data = at + 2;
    if (((key_size | code) & 128) != 0) {
        data = etl__varint_read(at, at + ETL__VARINT_MAX, &key_size);
        data = etl__varint_read(data, data + ETL__VARINT_MAX, &code);
    }
    pair->key = data;
    pair->key_size = (uint32_t)key_size;
    pair->value = code != 0 ? data + key_size : NULL;
    pair->value_size = (uint32_t)(code - (code != 0));
}

/* Read the record at `at`, all of which must lie before `end`. Returns the first byte behind it;
 * NULL when the head is damaged or the record is not all there, with *need set to the bytes it
 * takes, or to 0 where even the head is not. */
static inline const uint8_t *etl__record_read(const uint8_t *at, const uint8_t *end,
                                              struct etl__pair *pair, uint64_t *need) {
    uint64_t key_size, code;
    const uint8_t *data;
    if (end - at >= 2 && ((at[0] | at[1]) & 128) == 0) {
        key_size = at[0];
        code = at[1];
        data = at + 2;
    } else {
        *need = 0;
        data = etl__varint_read(at, end, &key_size);
        if (data == NULL)
            return NULL;
        data = etl__varint_read(data, end, &code);
        if (data == NULL || key_size > ETL_SIZE_MAX || code > ETL_SIZE_MAX + 1)
            return NULL;
    }
    uint64_t value_size = code - (code != 0);
    if (key_size + value_size > (uint64_t)(end - data)) {
        *need = (uint64_t)(data - at) + key_size + value_size;
        return NULL;
    }
    pair->key = data;
    pair->key_size = (uint32_t)key_size;
    pair->value = code != 0 ? data + key_size : NULL;
    pair->value_size = (uint32_t)value_size;
    return data + key_size + value_size;
}

#endif
