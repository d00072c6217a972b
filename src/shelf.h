/* shelf.h: one bucket of a dealt buffer, in order. */
#ifndef LIBETL_SHELF_H
#define LIBETL_SHELF_H

#include "buffer.h"

/* Index, scratch and table of chunks, large enough for any bucket of its buffer. */
struct etl__shelf {
    const struct etl__buffer *buffer;
    struct etl__memory *memory;
    struct etl__entry *index;
    size_t index_capacity;
    struct etl__sort sort;  /* its slots are those of the index */
    const uint8_t **chunks; /* what slots stand for */
    size_t chunk_capacity;
};

/* Take memory for a shelf; false where there is none. It is to be closed all the same. */
bool etl__shelf_open(struct etl__shelf *shelf, const struct etl__buffer *buffer,
                     struct etl__memory *memory);
void etl__shelf_close(struct etl__shelf *shelf);

/* Order a bucket: `index` then has its pairs. The buffer is only read. */
void etl__shelf_order(struct etl__shelf *shelf, const struct etl__bucket *bucket);

#endif
