/* merge_ahead.h: a merge on a thread of its own, ahead of a slow consumer. */
#ifndef LIBETL_MERGE_AHEAD_H
#define LIBETL_MERGE_AHEAD_H

#include "merge.h"

struct etl__merge_ahead;

/* Memory for it, of the merge's account; NULL where that has too little, or where what lies in the
 * ring might be released before it is taken. Whether it will be used is a question of time, but what
 * a round takes must not be. */
struct etl__merge_ahead *etl__merge_ahead_open(struct etl__merge *merge);

/* Go on with the merge on a thread; until a halt, or the close, nobody else may touch it. False
 * where no thread is to be had. */
bool etl__merge_ahead_start(struct etl__merge_ahead *ahead);

/* The next pairs, all valid until the next call. Says what etl__merge_take does, in the same
 * order; an error is the last that it says. After a halt: what was merged by then, and then ETL_OK
 * with no pairs, where the merge has more. */
int etl__merge_ahead_take(struct etl__merge_ahead *ahead, const struct etl__pair **pairs,
                          size_t *taken, struct etl__error *error);

/* Stop and join: when all that was merged is taken the merge is its owner's again. */
void etl__merge_ahead_halt(struct etl__merge_ahead *ahead);

/* Halt, and free; what was merged and not taken is lost to the merge. */
void etl__merge_ahead_close(struct etl__merge_ahead *ahead);

#endif
