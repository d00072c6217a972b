/* copy.h: short copies inline. Most keys and values are below 64 bytes, where a call of memcpy
 * costs more than the copy: two overlapping moves of one width cover every size up to twice that
 * width. */
#ifndef LIBETL_COPY_H
#define LIBETL_COPY_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { ETL__COPY_SHORT = 128 };

/* At most ETL__COPY_SHORT bytes. No call is made, so that a function which copies nothing longer
 * on its common path needs no stack; the two memories never overlap, so that the moves go through
 * registers. */
static inline void etl__copy_short(uint8_t *restrict to, const uint8_t *restrict from,
                                   size_t size) {
    if (size > 64) {
        memcpy(to, from, 64);
        memcpy(to + size - 64, from + size - 64, 64);
    } else if (size > 32) {
        memcpy(to, from, 32);
        memcpy(to + size - 32, from + size - 32, 32);
    } else if (size >= 16) {
        memcpy(to, from, 16);
        memcpy(to + size - 16, from + size - 16, 16);
    } else if (size >= 8) {
        memcpy(to, from, 8);
        memcpy(to + size - 8, from + size - 8, 8);
    } else if (size >= 4) {
        memcpy(to, from, 4);
        memcpy(to + size - 4, from + size - 4, 4);
    } else if (size != 0) {
        to[0] = from[0];
        to[size / 2] = from[size / 2];
        to[size - 1] = from[size - 1];
    }
}

static inline void etl__copy(uint8_t *restrict to, const uint8_t *restrict from, size_t size) {
    if (size <= ETL__COPY_SHORT)
        etl__copy_short(to, from, size);
    else
        memcpy(to, from, size);
}

#endif
