/* copy.h: short copies inline. Most keys and values are below 64 bytes, where a call of memcpy
 * costs more than the copy: two overlapping moves of one width cover every size up to twice that
 * width. */
#ifndef LIBETL_COPY_H
#define LIBETL_COPY_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline void etl__copy(uint8_t *to, const uint8_t *from, size_t size) {
    if (size > 64) {
        memcpy(to, from, size);
    } else if (size > 32) {
        uint8_t head[32], tail[32];
        memcpy(head, from, 32);
        memcpy(tail, from + size - 32, 32);
        memcpy(to, head, 32);
        memcpy(to + size - 32, tail, 32);
    } else if (size >= 16) {
        uint8_t head[16], tail[16];
        memcpy(head, from, 16);
        memcpy(tail, from + size - 16, 16);
        memcpy(to, head, 16);
        memcpy(to + size - 16, tail, 16);
    } else if (size >= 8) {
        uint64_t head, tail;
        memcpy(&head, from, 8);
        memcpy(&tail, from + size - 8, 8);
        memcpy(to, &head, 8);
        memcpy(to + size - 8, &tail, 8);
    } else {
        for (size_t i = 0; i < size; i++)
            to[i] = from[i];
    }
}

#endif
