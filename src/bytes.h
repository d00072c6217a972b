/* bytes.h: bytes that grow: the values of a group while they are joined or folded. */
#ifndef LIBETL_BYTES_H
#define LIBETL_BYTES_H

#include "alloc.h"

struct etl_bytes {
    struct etl__memory *memory;
    uint8_t *data;
    size_t size;
    size_t capacity;
};

void etl__bytes_init(struct etl_bytes *bytes, struct etl__memory *memory);
void etl__bytes_end(struct etl_bytes *bytes);

/* A slice of all bytes that is never nil. */
etl_slice etl__bytes_slice(const struct etl_bytes *bytes);

#endif
