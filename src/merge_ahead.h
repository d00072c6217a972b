/* merge_ahead.h: a merge on a thread of its own, ahead of a slow consumer. */
#ifndef LIBETL_MERGE_AHEAD_H
#define LIBETL_MERGE_AHEAD_H

#include "merge.h"

struct etl__merge_ahead;

/* Go on with a merge whose providers are all lasting, on a thread; until the stop nobody else may
 * touch it. NULL where a thread, or memory of the merge's account, is not to be had. */
struct etl__merge_ahead *etl__merge_ahead_start(struct etl__merge *merge);

/* The next pairs, all valid until the next call. Says what etl__merge_take does, in the same
 * order; an error is the last that it says. */
int etl__merge_ahead_take(struct etl__merge_ahead *ahead, const struct etl__pair **pairs,
                          size_t *taken, struct etl__error *error);

/* Stop and join; what was merged and not taken is lost to the merge. */
void etl__merge_ahead_stop(struct etl__merge_ahead *ahead);

#endif
