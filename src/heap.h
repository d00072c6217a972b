/* heap.h: where blocks come from, and go back to: the caller's hook; without one, malloc for small
 * blocks and anonymous mappings for large ones, aligned and advised for huge pages where they are
 * large enough, so that giving them back really gives them back. Any thread. */
#ifndef LIBETL_HEAP_H
#define LIBETL_HEAP_H

#include "status.h"
#include <stdatomic.h>

struct etl__heap {
    etl_allocator hook;
    _Atomic(void *) unreturned; /* mappings that munmap refused: tried again later */
};

void etl__heap_init(struct etl__heap *heap, const etl_allocator *hook);

/* What a block of this size takes: whole pages where it is mapped. */
size_t etl__heap_cost(const struct etl__heap *heap, size_t size);

/* A block, or NULL; aligned for any type, contents undefined. */
void *etl__heap_take(struct etl__heap *heap, size_t size);

/* Give a block back, told the size that it was taken with. How many bytes really went: its cost; 0
 * where munmap refused; or more, where earlier ones went with it. */
size_t etl__heap_give(struct etl__heap *heap, void *block, size_t size);

/* Try again what was refused: how many bytes went. */
size_t etl__heap_give_again(struct etl__heap *heap);

#endif
