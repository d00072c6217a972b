/* store.h: the pairs of one collector, wherever they are: in regions of memory, or in runs on
 * disk, by sequence. */
#ifndef LIBETL_STORE_H
#define LIBETL_STORE_H

#include "runs.h"
#include "spill.h"

struct etl__store {
    struct etl__memory memory;
    struct etl__arena arena;
    struct etl__target target;
    struct etl__rules rules;
    struct etl__spiller spiller;
    struct etl__runs runs;
    atomic_int cancel;
    struct etl__watch watch;

    struct etl__region *regions;
    size_t region_count;
    struct etl__region *filling;      /* never NULL */
    bool may_deal;                    /* to buckets */
    bool splitters_hold;              /* for the next region too */
    struct etl__splitters *splitters; /* made when first needed */
    bool spilling; /* this round has come to the disk: spill as early as possible */
    uint64_t next_sequence;
    uint64_t calls; /* that may spill: tells what was tried for which */

    struct etl__sort sort; /* scratch and cancel */
    size_t scratch_most;

    _Atomic(uint64_t) sort_ns, wait_ns, merge_ns; /* of the round; merge_ns without the passes */
    uint64_t spilled_pairs, spilled_bytes;        /* harvested, for the progress */
};

/* options are complete and checked. */
int etl__store_init(struct etl__store *store, const etl_options *options,
                    struct etl__error *error);
void etl__store_end(struct etl__store *store);

/* Room in store->filling for a record of `size` bytes with this key. Sorts and spills when the
 * limit is reached. ETL_END: such a record does not fit the limit even alone. */
int etl__store_make_room(struct etl__store *store, etl_slice key, size_t size,
                         struct etl__error *error);

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

/* Everything sorted, and no more runs than can be merged at once. */
int etl__store_prepare(struct etl__store *store, struct etl__error *error);

/* How many sources a prepared store has; a provider over each, by ascending sequence, appended to
 * providers. On failure those appended stay, to be closed by the caller. */
size_t etl__store_sources(const struct etl__store *store);
int etl__store_open_providers(struct etl__store *store, struct etl__provider **providers,
                              size_t *count, struct etl__error *error);

/* The round is over, or dropped: no pairs, memory kept, disk given back. */
void etl__store_clear(struct etl__store *store);

#endif
