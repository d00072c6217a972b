/* cuts.h: where the pairs of all ranks are cut into a range for each. */
#ifndef LIBETL_MPI_CUTS_H
#define LIBETL_MPI_CUTS_H

#include "agree.h"
#include "store.h"

/* Before all pairs with this key that come from rank `source` or a later one; those of earlier
 * ranks are on the left. */
struct etl__cut {
    const uint8_t *key; /* a zero byte stands behind it */
    size_t size;
    int source;
    bool is_end; /* behind everything */
};

struct etl__cuts {
    struct etl__memory *memory;
    struct etl__cut *cuts; /* size - 1 of them, ascending */
    size_t count;
    uint8_t *samples; /* of all ranks: what the cuts point into */
    size_t samples_size;
};

/* Collective: sample what all ranks hold, with `memory` bytes for it, and cut it evenly. What it
 * returns has been agreed on. To be freed on failure too. */
int etl__cuts_make(struct etl__cuts *cuts, struct etl__team *team, struct etl__store *store,
                   size_t memory, struct etl__error *error);
void etl__cuts_free(struct etl__cuts *cuts);

/* The range of this rank's pairs that goes to rank `to`; false when it has none. */
bool etl__cuts_range(const struct etl__cuts *cuts, int rank, int to, etl_range *range);

#endif
