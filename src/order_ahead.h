/* order_ahead.h: the buckets of a dealt buffer, ordered by threads before a reader comes to them. */
#ifndef LIBETL_ORDER_AHEAD_H
#define LIBETL_ORDER_AHEAD_H

#include "shelf.h"

struct etl__order_ahead;

/* Let up to `threads` threads order the buckets from `bucket` on, while the memory limit has room
 * for shelves. NULL, and nothing is begun, where that is not so or the system gives no thread. */
struct etl__order_ahead *etl__order_ahead_start(const struct etl__buffer *buffer,
                                                struct etl__memory *memory, uint32_t bucket,
                                                unsigned threads);

/* The next bucket that has pairs, in order, and its number; NULL when there is none. Valid until
 * the next call. */
const struct etl__shelf *etl__order_ahead_next(struct etl__order_ahead *ahead, uint32_t *bucket);

/* Stop, join and free. */
void etl__order_ahead_stop(struct etl__order_ahead *ahead);

#endif
