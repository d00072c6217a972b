/* varint.h: unsigned integers in 1 to 10 bytes, seven bits each, least significant first; the top
 * bit says that another byte follows (LEB128, as in Protocol Buffers). Lengths of real records fit
 * one byte, which is the path kept short. */
#ifndef LIBETL_VARINT_H
#define LIBETL_VARINT_H

#include <stddef.h>
#include <stdint.h>

#define ETL__VARINT_MAX 10

/* Bytes that the encoding of value takes. */
static inline size_t etl__varint_size(uint64_t value) {
#if defined(__GNUC__)
    unsigned bits = 64u - (unsigned)__builtin_clzll(value | 1);
    return (bits * 9 + 64) / 64; /* (bits + 6) / 7 without a division, exact for 1 to 64 */
#else
    size_t size = 1;
    for (; value >= 128; value >>= 7)
        size++;
    return size;
#endif
}

/* Write value at `at`, which has room for its size; returns the first byte behind it. */
static inline uint8_t *etl__varint_write(uint8_t *at, uint64_t value) {
    while (value >= 128) {
        *at++ = (uint8_t)(value | 128);
        value >>= 7;
    }
    *at++ = (uint8_t)value;
    return at;
}

/* Read a value from [at, end); returns the first byte behind it, or NULL when it is cut off or
 * does not fit 64 bits. */
static inline const uint8_t *etl__varint_read(const uint8_t *at, const uint8_t *end,
                                              uint64_t *value) {
    uint64_t result = 0;
    for (unsigned shift = 0; at < end && shift < 64; shift += 7) {
        uint64_t byte = *at++;
        result |= (byte & 127) << shift;
        if (byte < 128) {
            if (shift == 63 && byte > 1)
                return NULL;
            *value = result;
            return at;
        }
    }
    return NULL;
}

#endif
