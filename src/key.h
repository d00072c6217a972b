/* key.h: the order of keys, once, for sort, merge, seek and checks: bytewise, then the shorter
 * first. */
#ifndef LIBETL_KEY_H
#define LIBETL_KEY_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Below 0, 0, above 0. NULL is fine with size 0. */
static inline int etl__key_compare(const uint8_t *a, size_t a_size, const uint8_t *b,
                                   size_t b_size) {
    size_t shared = a_size < b_size ? a_size : b_size;
    int order = shared != 0 ? memcmp(a, b, shared) : 0;
    return order != 0 ? order : (a_size > b_size) - (a_size < b_size);
}

/* Eight bytes as a number whose order is theirs. */
static inline uint64_t etl__load_be64(const uint8_t *at) {
    uint64_t x;
    memcpy(&x, at, sizeof x);
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    return x;
#elif defined(__GNUC__)
    return __builtin_bswap64(x);
#else
    const uint8_t *p = at;
    return (uint64_t)p[0] << 56 | (uint64_t)p[1] << 48 | (uint64_t)p[2] << 40 |
           (uint64_t)p[3] << 32 | (uint64_t)p[4] << 24 | (uint64_t)p[5] << 16 |
           (uint64_t)p[6] << 8 | (uint64_t)p[7];
#endif
}

/* The first eight bytes of a key as a number, zeros behind its end. Smaller prefix, smaller key;
 * equal prefixes decide nothing: "a" and "a\0" have the same. */
static inline uint64_t etl__key_prefix(const uint8_t *key, size_t size) {
    if (size >= 8)
        return etl__load_be64(key);
    uint64_t prefix = 0;
    for (size_t i = 0; i < size; i++)
        prefix |= (uint64_t)key[i] << (56 - 8 * i);
    return prefix;
}

/* Length of the common prefix of a and b, of which the first `from` bytes are known to be equal;
 * at most `limit`. */
static inline size_t etl__key_common(const uint8_t *a, const uint8_t *b, size_t from,
                                     size_t limit) {
    size_t i = from;
    for (; i + 8 <= limit; i += 8) {
        uint64_t difference = etl__load_be64(a + i) ^ etl__load_be64(b + i);
        if (difference != 0) {
#if defined(__GNUC__)
            return i + (size_t)__builtin_clzll(difference) / 8;
#else
            break;
#endif
        }
    }
    while (i < limit && a[i] == b[i])
        i++;
    return i;
}

#endif
