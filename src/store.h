/* store.h: the pairs of one collector, wherever they are: in regions of memory, or in runs on
 * disk, by sequence. */
#ifndef LIBETL_STORE_H
#define LIBETL_STORE_H

#include "room.h"

/* options are complete and checked. */
int etl__store_init(struct etl__store *store, const etl_options *options,
                    struct etl__error *error);
void etl__store_end(struct etl__store *store);

/* Everything sorted, and no more runs than can be merged at once. */
int etl__store_prepare(struct etl__store *store, struct etl__error *error);

/* The same for `merges` that are open at once, beside which `apart` bytes of the limit are for other
 * things. */
int etl__store_prepare_many(struct etl__store *store, size_t merges, size_t apart,
                            struct etl__error *error);

/* What a merge over a prepared store takes for ordering what is in memory. */
size_t etl__store_order_bytes(const struct etl__store *store);

/* How many sources a prepared store has; a provider over each, by ascending sequence, appended to
 * providers, for one of `merges` that are open at once. Runs are checked ahead where `ahead`, which
 * may be NULL, is started. On failure those appended stay, to be closed by the caller. */
size_t etl__store_sources(const struct etl__store *store);
int etl__store_open_providers(struct etl__store *store, size_t merges,
                              struct etl__provider **providers, size_t *count,
                              struct etl__ahead *ahead, struct etl__error *error);

/* The first pair of a round is about to come. */
void etl__store_begin_round(struct etl__store *store);

/* The round is over, or dropped: no pairs, memory kept (in a pool: given to it), disk given back. */
void etl__store_clear(struct etl__store *store);

#endif
