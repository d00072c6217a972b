/* arena.c: segments, by size. There are few of them (a buffer's segments double in size), so a
 * sorted list serves. */
#include "arena.h"
#include "os.h"

enum { LEAST_POOLED = 16 * 1024 }; /* of a pool's segments none is worth taking below that */

void etl__arena_init(struct etl__arena *arena, struct etl__memory *memory) {
    memset(arena, 0, sizeof *arena);
    arena->memory = memory;
}

static void free_segment(struct etl__arena *arena, struct etl__segment *segment) {
    etl__free_segment(arena->memory, segment, segment->size);
}

/* Take the segment behind *link out of the waiting list. */
static struct etl__segment *unlink_waiting(struct etl__arena *arena, struct etl__segment **link) {
    struct etl__segment *segment = *link;
    *link = segment->next;
    segment->next = NULL;
    arena->waiting_bytes -= segment->size;
    return segment;
}

void etl__arena_end(struct etl__arena *arena) {
    while (arena->waiting != NULL)
        free_segment(arena, unlink_waiting(arena, &arena->waiting));
}

static struct etl__segment **largest(struct etl__arena *arena) {
    struct etl__segment **link = &arena->waiting;
    while ((*link)->next != NULL)
        link = &(*link)->next;
    return link;
}

/* The largest first: few calls give much back. */
static void free_largest(struct etl__arena *arena) {
    free_segment(arena, unlink_waiting(arena, largest(arena)));
}

bool etl__arena_make_room(struct etl__arena *arena, size_t bytes) {
    while (etl__memory_left(arena->memory) < bytes && arena->waiting != NULL)
        free_largest(arena);
    return etl__memory_left(arena->memory) >= bytes;
}

static struct etl__segment *count_segment(struct etl__arena *arena, struct etl__segment *segment) {
    arena->taken_bytes += segment->size;
    if (arena->taken_bytes > arena->round_peak)
        arena->round_peak = arena->taken_bytes;
    return segment;
}

/* Of the waiting segments of [least, most] bytes the largest that is not above `wanted`, else the
 * smallest: buffers that ask for the sizes they asked for in the round before get the same
 * segments. */
static struct etl__segment *take_waiting(struct etl__arena *arena, size_t least, size_t wanted,
                                         size_t most) {
    struct etl__segment **found = NULL;
    for (struct etl__segment **link = &arena->waiting; *link != NULL; link = &(*link)->next)
        if ((*link)->size >= least && (*link)->size <= most &&
            (found == NULL || (*link)->size <= wanted))
            found = link;
    return found != NULL ? unlink_waiting(arena, found) : NULL;
}

size_t etl__arena_owed(const struct etl__arena *arena, size_t ordering) {
    size_t gone = arena->taken_bytes + ordering;
    return arena->memory->pool != NULL && gone < ETL__OWED ? ETL__OWED - gone : 0;
}

static struct etl__segment *take_new_segment(struct etl__arena *arena, size_t size) {
    struct etl__segment *segment = etl__alloc_large(arena->memory, size);
    if (segment == NULL)
        return NULL;
    segment->next = NULL;
    segment->size = size;
    return count_segment(arena, segment);
}

size_t etl__arena_segment_size(size_t needed) {
    size_t page = etl__os_page_size();
    if (needed > SIZE_MAX - sizeof(struct etl__segment) - page)
        return SIZE_MAX;
    return (needed + sizeof(struct etl__segment) + page - 1) / page * page;
}

/* A size that will be asked for again, though not to the byte: a sixteenth of its power of two. */
static size_t round_down(size_t size) {
    size_t step = etl__os_page_size();
    while (step < size / 32)
        step *= 2;
    return size / step * step;
}

/* From the pool: of about `wanted` bytes, or what it has retained. */
static struct etl__segment *take_pooled(struct etl__arena *arena, size_t least, size_t wanted,
                                        size_t most) {
    size_t left = etl__memory_left(arena->memory), owed = etl__arena_owed(arena, 0);
    left = left > arena->reserve ? left - arena->reserve : 0;
    left = left > owed ? left : owed;
    most = most < left ? most : left;
    size_t size = wanted < most ? wanted : most;
    if (size != wanted)
        size = round_down(size);
    size = size / ETL__KEPT_LEAST * ETL__KEPT_LEAST;
    size = size < least ? least : size;
    if (size > most)
        return NULL;
    if (least < LEAST_POOLED && size >= LEAST_POOLED)
        least = LEAST_POOLED;
    bool within = arena->taken_bytes + size > ETL__OWED;
    struct etl__segment *segment =
        etl__alloc_segment(arena->memory, least, size, most, within, &size);
    if (segment == NULL)
        return NULL;
    segment->next = NULL;
    segment->size = size;
    return count_segment(arena, segment);
}

struct etl__segment *etl__arena_take(struct etl__arena *arena, size_t needed, size_t wanted,
                                     size_t most) {
    size_t least = etl__arena_segment_size(needed);
    if (least > most)
        return NULL;
    if (arena->memory->pool != NULL)
        return take_pooled(arena, least, wanted, most);
    struct etl__segment *segment = take_waiting(arena, least, wanted, most);
    if (segment != NULL)
        return count_segment(arena, segment);
    size_t size = wanted > most ? round_down(most) : wanted;
    if (size < least)
        size = least;
    if (!etl__arena_make_room(arena, size + arena->reserve)) {
        size_t left = etl__memory_left(arena->memory);
        size = left > arena->reserve ? round_down(left - arena->reserve) : 0;
        if (size < least)
            return NULL;
    }
    return take_new_segment(arena, size);
}

struct etl__segment *etl__arena_take_over_limit(struct etl__arena *arena, size_t needed) {
    size_t size = etl__arena_segment_size(needed);
    if (size == SIZE_MAX)
        return NULL;
    etl__arena_make_room(arena, size);
    return take_new_segment(arena, size);
}

void etl__arena_give(struct etl__arena *arena, struct etl__segment *list) {
    while (list != NULL) {
        struct etl__segment *segment = list, **link = &arena->waiting;
        list = segment->next;
        arena->taken_bytes -= segment->size;
        /* a pool's, or an oversized pair's, which is never kept */
        if (arena->memory->pool != NULL || segment->size > arena->memory->limit) {
            free_segment(arena, segment);
            continue;
        }
        while (*link != NULL && (*link)->size < segment->size)
            link = &(*link)->next;
        segment->next = *link;
        *link = segment;
        arena->waiting_bytes += segment->size;
    }
}

void etl__arena_end_round(struct etl__arena *arena) {
    size_t faded = arena->keep - arena->keep / 8;
    arena->keep = arena->round_peak > faded ? arena->round_peak : faded;
    arena->round_peak = arena->taken_bytes;
    while (arena->waiting != NULL &&
           arena->waiting_bytes + arena->taken_bytes >= arena->keep + (*largest(arena))->size)
        free_largest(arena);
}
