/* room.h: how a collector that is full finds room. */
#ifndef LIBETL_ROOM_H
#define LIBETL_ROOM_H

#include "state.h"

/* Room in store->filling for a record of `size` bytes with this key. Sorts and spills when the
 * limit is reached. ETL_END: such a record does not fit the limit even alone. */
int etl__store_make_room(struct etl__store *store, etl_slice key, size_t size,
                         struct etl__error *error);

/* In a pool: let a region that is about to be filled have its part of what is left. The first
 * segment is to have room for first_bytes. */
void etl__store_share_pool(struct etl__store *store, struct etl__region *region,
                           size_t first_bytes);

/* Pairs are reserved before their keys are known: no more dealing to buckets. */
int etl__store_stop_dealing(struct etl__store *store, struct etl__error *error);

/* For a record that does not fit the limit: write it through to a run of its own. */
int etl__store_write_through(struct etl__store *store, const struct etl__pair *pair,
                             struct etl__error *error);

/* Or: make room for it above the limit. */
int etl__store_make_room_over_limit(struct etl__store *store, size_t size,
                                    struct etl__error *error);

/* Everything to disk. */
int etl__store_flush(struct etl__store *store, struct etl__error *error);

/* What was collected so far is sealed: the next sequence number comes behind all of it, and before
 * what is collected next. No more runs are alive than should be. */
int etl__store_cut(struct etl__store *store, struct etl__error *error);

/* Nothing is under way any more: what no thread has begun with is taken back, what one writes is
 * waited for, and the filling region is sorted. */
int etl__store_settle(struct etl__store *store, struct etl__error *error);

/* Forget all pairs, in regions and runs. */
void etl__store_drop(struct etl__store *store);

#endif
