/* arena.h: segments of memory for records, kept between rounds.
 *
 * A segment never moves and is never resized. Buffers take segments as they grow and give them
 * back when they are emptied; a segment given back waits, sorted by size, to be taken again, so
 * that a steady state allocates nothing. What waits is freed when the memory is wanted for
 * something else, and by and by when rounds have become smaller.
 *
 * In a pool nothing waits here: segments come from the pool and go back there at once. */
#ifndef LIBETL_ARENA_H
#define LIBETL_ARENA_H

#include "alloc.h"

/* In a pool: what a collector's buffers may always hold, with what ordering takes, however short
 * memory is: it can then spill and go on. */
enum { ETL__OWED = 128 * 1024 };

struct etl__segment {
    struct etl__segment *next;
    size_t size; /* of the whole, this head included */
};

static inline uint8_t *etl__segment_data(struct etl__segment *segment) {
    return (uint8_t *)(segment + 1);
}

struct etl__arena {
    struct etl__memory *memory;
    struct etl__segment *waiting; /* ascending by size */
    size_t waiting_bytes;
    size_t reserve;     /* of the memory limit, which buffers leave to others */
    size_t taken_bytes; /* by buffers now */
    size_t round_peak;  /* of taken_bytes since the last etl__arena_end_round */
    size_t keep;        /* what may wait after a round */
};

void etl__arena_init(struct etl__arena *arena, struct etl__memory *memory);
void etl__arena_end(struct etl__arena *arena);

/* What a segment with room for `needed` bytes takes at least; SIZE_MAX when that is no size. */
size_t etl__arena_segment_size(size_t needed);

/* A segment with room for `needed` bytes and, where that is possible, of about `wanted`; of at
 * most `most` bytes with its head. NULL when there is none within `most` and the memory limit, or
 * the system has no memory. */
struct etl__segment *etl__arena_take(struct etl__arena *arena, size_t needed, size_t wanted,
                                     size_t most);

/* As etl__arena_take for one record of exactly this size, above the limit if need be. */
struct etl__segment *etl__arena_take_over_limit(struct etl__arena *arena, size_t needed);

/* In a pool: what of that is left, where ordering will take so much; else 0. */
size_t etl__arena_owed(const struct etl__arena *arena, size_t ordering);

/* Give back a list of segments. */
void etl__arena_give(struct etl__arena *arena, struct etl__segment *list);

/* Free what waits until `bytes` may be taken below the memory limit; false when that is not
 * enough. */
bool etl__arena_make_room(struct etl__arena *arena, size_t bytes);

/* A round is over: free what has not been needed for some rounds. One huge round does not pin its
 * peak. */
void etl__arena_end_round(struct etl__arena *arena);

#endif
