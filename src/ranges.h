/* ranges.h: one merge by two, who take ranges of keys in turn. */
#ifndef LIBETL_RANGES_H
#define LIBETL_RANGES_H

#include "merge.h"

struct etl__ranges;

struct etl__ranges_plan {
    size_t ranges;  /* at most so many; 0: sharing would not pay */
    size_t batches; /* of the ring */
    size_t bytes;   /* that it takes, with what finding the ranges does */
};

struct etl__ranges_plan etl__ranges_plan(const struct etl__merge *merge);

/* Share `merge`, of which nothing was taken, with a thread that merges by `second`: another merge
 * over the same sources, which all stay. Both remain the caller's, and nobody else may touch them
 * until the close. *out is NULL where keys are too few to be cut, or where memory or a thread is
 * missing; an error is one of reading. */
int etl__ranges_open(struct etl__ranges **out, const struct etl__ranges_plan *plan,
                     struct etl__merge *merge, struct etl__merge *second,
                     struct etl__error *error);

/* The next pairs of all, in order, valid until the next call: at least one. ETL_OK, ETL_END or an
 * error, which stays. */
int etl__ranges_take(struct etl__ranges *ranges, const struct etl__pair **pairs, size_t *taken,
                     struct etl__error *error);

void etl__ranges_close(struct etl__ranges *ranges);

#endif
