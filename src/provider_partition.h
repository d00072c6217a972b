/* provider_partition.h: a provider over a dealt buffer. */
#ifndef LIBETL_PROVIDER_PARTITION_H
#define LIBETL_PROVIDER_PARTITION_H

#include "order_ahead.h"
#include "provider.h"

/* The buckets [next, end) that a reader has yet to take. Another thread may cut off the upper ones
 * while it reads. */
struct etl__share {
    _Atomic(uint64_t) range; /* next << 32 | end */
    uint32_t first;
};

void etl__share_init(struct etl__share *share, uint32_t next, uint32_t end);

/* Begin with the first bucket again; what was cut off stays cut off. */
void etl__share_restart(struct etl__share *share);

/* Cut off the upper half, by bytes, of what is left: *from is its first bucket, *bytes what it
 * holds. False when it is not worth it, or nothing was taken yet. */
bool etl__share_halve(struct etl__share *share, const struct etl__partition *partition,
                      uint32_t *from, uint64_t *bytes);

/* As etl__provider_memory_open, which leads here for a dealt buffer. With a share, only its
 * buckets, as they are taken from it: `pairs` then counts those taken so far, bounds are those of
 * the whole buffer, and it must not seek. */
int etl__provider_partition_open(struct etl__provider **out, const struct etl__buffer *buffer,
                                 struct etl__share *share, struct etl__memory *memory,
                                 struct etl__error *error);

/* Before its first pair, for a provider without a share: up to so many threads may order buckets
 * before the reader comes to them, until it seeks. */
void etl__provider_partition_order_ahead(struct etl__provider *provider, unsigned threads);

#endif
