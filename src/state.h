/* state.h: what one collector holds: regions of memory and runs on disk, by sequence. */
#ifndef LIBETL_STATE_H
#define LIBETL_STATE_H

#include "runs.h"
#include "spill.h"

enum { ETL__LEAST_SCRATCH = 1024 }; /* entries */

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

    struct etl__sort sort;             /* scratch and cancel */
    size_t scratch_most, scratch_plan; /* entries; in a pool the latter is sure */
    size_t fixed;                      /* of the limit: what regions do not divide */
    size_t region_share;               /* the limit of one, when all is there */

    _Atomic(uint64_t) sort_ns, wait_ns, merge_ns; /* of the round; merge_ns without the passes */
    uint64_t spilled_pairs, spilled_bytes;        /* harvested, for the progress */
};

#endif
