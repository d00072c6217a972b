/* outlet.h: the pairs of one range of a collector, as blocks for the rank that loads it. */
#ifndef LIBETL_MPI_OUTLET_H
#define LIBETL_MPI_OUTLET_H

#include "block.h"
#include "store.h"

struct etl__outlet {
    struct etl__merge merge;
    struct etl__output output;
    const struct etl__pair *pending; /* was read, and is in no block yet; NULL: none */
    uint64_t sent;                   /* of it, where it goes in pieces */
    uint64_t pairs, bytes;           /* that went into blocks */
    uint64_t held;                   /* pairs of the collector, in all ranges */
    bool is_open;
    bool ended; /* the last block was filled */
};

/* Open over [from, to) of a prepared store, of which `merges` are open at once. to.data NULL: to
 * the end. What the slices point to must outlive the outlet. */
int etl__outlet_open(struct etl__outlet *outlet, struct etl__store *store, size_t merges,
                     etl_slice from, etl_slice to, struct etl__error *error);
void etl__outlet_close(struct etl__outlet *outlet);

/* Fill a block of `capacity` bytes, its head included, and say how many it has. Not after the
 * last. An outlet that was not opened has one block, without records. */
int etl__outlet_fill(struct etl__outlet *outlet, uint8_t *block, size_t capacity, size_t *size,
                     struct etl__error *error);

#endif
