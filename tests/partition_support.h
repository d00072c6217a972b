/* partition_support.h: keys in the shapes that dealing by key ranges has to cope with. */
#ifndef LIBETL_TESTS_PARTITION_SUPPORT_H
#define LIBETL_TESTS_PARTITION_SUPPORT_H

#include "support.h"

#include <string.h>

enum { LONGEST_KEY = 128 };

enum shape { RANDOM, COMMON, LONG_COMMON, TINY, ZEROS, SERIAL, NESTED, FEW, SHAPES };

/* The first bytes of one long text. */
static inline void copy_text(uint8_t *to, size_t size) {
    for (size_t i = 0; i < size; i++)
        to[i] = (uint8_t)(i * 7 + i / 37);
}

/* Random bytes, or some of these. */
static inline size_t spread(uint8_t *to, struct prng *prng, size_t size, const char *of,
                            size_t kinds) {
    for (size_t i = 0; i < size; i++)
        to[i] = of == NULL ? (uint8_t)prng_next(prng) : (uint8_t)of[prng_below(prng, kinds)];
    return size;
}

/* Into room for LONGEST_KEY bytes. */
static inline etl_slice draw_key(enum shape shape, struct prng *prng, uint8_t *room) {
    size_t common = shape == COMMON ? 13 : shape == LONG_COMMON ? 70 : 0, size = 0;
    copy_text(room, common);
    switch (shape) {
    case RANDOM:
    case COMMON:
    case LONG_COMMON:
        size = spread(room + common, prng, prng_between(prng, 3, 20), NULL, 0);
        if (shape == LONG_COMMON) /* or no two keys would differ where splitters look */
            room[60] = (uint8_t)prng_next(prng);
        break;
    case TINY:
        size = spread(room, prng, prng_below(prng, 14), "ab", 2);
        break;
    case ZEROS:
        size = spread(room, prng, prng_below(prng, 12), "\0\0\1\xff", 4);
        break;
    case SERIAL:
        memset(room, 0, 8);
        room[6] = (uint8_t)prng_below(prng, 40);
        room[7] = (uint8_t)prng_next(prng);
        size = 8;
        break;
    case NESTED: /* prefixes of one another */
        copy_text(room, LONGEST_KEY);
        size = prng_below(prng, LONGEST_KEY);
        break;
    default:
        copy_text(room, 40);
        size = 38 + prng_below(prng, 3);
    }
    return etl_slice_of(room, common + size);
}

#endif
