/* alloc.h: every allocation of the library, counted.
 *
 * One struct etl__memory belongs to one collector: it knows the caller's allocator, the limit, and
 * what is held now and was held at most. It does not refuse what passes the limit: whoever takes
 * memory that grows with the data (arena.c) asks etl__memory_left first, and spills instead.
 *
 * Small blocks (up to ETL__KEPT_MOST bytes) come in a few sizes and wait to be taken again when
 * they are freed, so that a round like the one before asks the allocator for nothing. Large blocks
 * are of their exact size, and kept by who took them.
 *
 * In a pool, what is not kept comes from there and goes back there, and what is left is what the
 * pool has left too. Kept blocks stay the collector's until its round is over. */
#ifndef LIBETL_ALLOC_H
#define LIBETL_ALLOC_H

#include "pool.h"

/* Sizes of small blocks: four to each power of two. */
enum {
    ETL__KEPT_LEAST = 64,
    ETL__KEPT_DOUBLINGS = 15,
    ETL__KEPT_CLASSES = 4 * ETL__KEPT_DOUBLINGS + 1
};
#define ETL__KEPT_MOST ((size_t)ETL__KEPT_LEAST << ETL__KEPT_DOUBLINGS) /* 2 MiB */

struct etl__memory {
    struct etl__heap heap;
    _Atomic(void *) unmapped; /* mappings of files that munmap refused: tried again later */
    struct etl_pool *pool;     /* NULL: none, then everything is the heap's */
    struct etl__member member; /* of the pool */
    size_t limit;
    size_t plan; /* what fixed parts are planned from: the limit, or less in a pool */
    _Atomic(size_t) used;
    _Atomic(size_t) peak;
    _Atomic(uint64_t) allocations;
    atomic_flag kept_lock;
    _Atomic(size_t) kept_bytes; /* in `used`, but free to be taken again, or given back */
    struct etl__kept *kept[ETL__KEPT_CLASSES]; /* freed blocks of each size */
};

static inline size_t etl__clamp(size_t value, size_t least, size_t most) {
    return value < least ? least : value > most ? most : value;
}

void etl__memory_init(struct etl__memory *memory, const etl_allocator *hook, size_t limit);

/* Share a pool from now on: before anything is taken. */
void etl__memory_join(struct etl__memory *memory, struct etl_pool *pool);

/* Give kept blocks back. */
void etl__memory_trim(struct etl__memory *memory);

/* Try again to return the mappings that munmap refused. */
void etl__memory_return(struct etl__memory *memory);

/* After the last block was freed: gives everything back, and leaves the pool. */
void etl__memory_end(struct etl__memory *memory);

/* Bytes that may still be taken below the limit, kept blocks included; 0 when at or over it. */
size_t etl__memory_left(struct etl__memory *memory);

/* In a pool: what buffers will need for ordering their pairs is gone for others already. */
void etl__memory_pledge(struct etl__memory *memory, size_t before, size_t now);

/* A small block, or a large one where size is above ETL__KEPT_MOST. NULL when there is no memory.
 * Contents are undefined, aligned for any type. Any thread. */
void *etl__alloc(struct etl__memory *memory, size_t size);
void *etl__alloc_zeroed(struct etl__memory *memory, size_t size);
void etl__free(struct etl__memory *memory, void *block, size_t size);

/* A block of this size, whatever it is; freed to the allocator. */
void *etl__alloc_large(struct etl__memory *memory, size_t size);
void etl__free_large(struct etl__memory *memory, void *block, size_t size);

/* A mapping that is not of `memory` and that munmap refused: tried again later, and by
 * etl__memory_end. Until then it stands in `block`, of block_size bytes of `memory`, which is
 * freed with it. */
void etl__unmap_later(struct etl__memory *memory, const void *map, size_t size, void *block,
                      size_t block_size);
/* A large block of `wanted` bytes, or in a pool one that is retained there, of at least `least` and
 * at most `most`; its size in *size, for etl__free_large. */
void *etl__alloc_between(struct etl__memory *memory, size_t least, size_t wanted, size_t most,
                         size_t *size);

/* As that, for a segment of an arena; within: only what the pool has left. */
void *etl__alloc_segment(struct etl__memory *memory, size_t least, size_t wanted, size_t most,
                         bool within, size_t *size);
void etl__free_segment(struct etl__memory *memory, void *block, size_t size);

/* What counts in `used` for a large block: whole pages where it is mapped. */
size_t etl__large_cost(const struct etl__memory *memory, size_t size);

/* Grow an array of `capacity` items to hold at least `needed`, at least doubling, keeping its
 * contents. *array and *capacity are changed on success only. */
bool etl__grow(struct etl__memory *memory, void **array, size_t *capacity, size_t needed,
               size_t item_size);

#endif
