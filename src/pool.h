/* pool.h: memory that several collectors share: one budget, and blocks kept for all of them.
 *
 * Each collector is a member. What it holds, and what it will need for what it holds (its pledges:
 * an index for the pairs so far, memory to merge with), is its claim. In a round it may always
 * claim its floor, whatever the others do; that much counts as gone even while it holds less. All
 * else goes to who comes first, but for a share that is held back so that idle members find their
 * floors when they begin. Nobody ever waits for another member: one that is refused spills what it
 * has, and one that has more than an even share is asked to, at its next call.
 *
 * Blocks that members free are retained, up to a cap, and taken again by any of them. They count
 * in what the pool holds and make way, largest first, when that would pass the limit. */
#ifndef LIBETL_POOL_H
#define LIBETL_POOL_H

#include "heap.h"

/* What a collector has in its pool. Guarded by the pool's lock. */
struct etl__member {
    size_t claimed; /* held or pledged */
    size_t pledged; /* by its buffers, of that */
    size_t floor;   /* what it may always claim in a round */
    size_t reserve; /* pledged for as long as a round is open */
    bool active;    /* a round is open */
    uint64_t cycle; /* in which its last round began */
};

/* Segments may be of any size; blocks are taken again for what is of about the same. */
enum etl__purpose { ETL__BLOCK, ETL__SEGMENT, ETL__PURPOSES };

struct etl__wish {
    enum etl__purpose purpose;
    size_t least, wanted, most; /* a new one is of wanted bytes, a retained one may differ */
    bool within;                /* only what is left to the member */
};

/* The pool lives until it was destroyed and its last member has left. */
void etl__pool_join(struct etl_pool *pool, struct etl__member *member);
void etl__pool_quit(struct etl_pool *pool, struct etl__member *member);

size_t etl__pool_limit(const struct etl_pool *pool);
const etl_allocator *etl__pool_allocator(const struct etl_pool *pool);

/* What the member's fixed parts are planned from. */
size_t etl__pool_plan(const struct etl_pool *pool);

/* Between rounds: how much it is owed in one. */
void etl__pool_promise(struct etl_pool *pool, struct etl__member *member, size_t floor,
                       size_t reserve);

/* A round begins, and ends. bytes_needed is what rounds with this label needed last: 0 when that
 * is not known, or there is no label. */
size_t etl__pool_enter(struct etl_pool *pool, struct etl__member *member, const char *label);
void etl__pool_leave(struct etl_pool *pool, struct etl__member *member, const char *label,
                     size_t bytes_needed);

/* A block, its size in *size, and whether it was allocated for this. NULL when the wish does not
 * fit what is left, or the system has none. */
void *etl__pool_take(struct etl_pool *pool, struct etl__member *member,
                     const struct etl__wish *wish, size_t *size, bool *is_new);
void etl__pool_give(struct etl_pool *pool, struct etl__member *member, enum etl__purpose purpose,
                    void *block, size_t size);

/* Change a pledge. */
void etl__pool_pledge(struct etl_pool *pool, struct etl__member *member, size_t before,
                      size_t now);

/* What the member may still claim, its reserve included. */
size_t etl__pool_left(struct etl_pool *pool, const struct etl__member *member);

/* This member was refused what it wanted. If it has less than an even share, those that have more
 * are asked to give back. */
void etl__pool_want(struct etl_pool *pool, const struct etl__member *member);

/* Is this member asked to give back? Each demand asks one. */
bool etl__pool_asks(struct etl_pool *pool, const struct etl__member *member);

#endif
