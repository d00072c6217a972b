/* provider_partition.h: a provider over a dealt buffer. */
#ifndef LIBETL_PROVIDER_PARTITION_H
#define LIBETL_PROVIDER_PARTITION_H

#include "buffer.h"
#include "provider.h"

/* As etl__provider_memory_open, which leads here for a dealt buffer. */
int etl__provider_partition_open(struct etl__provider **out, const struct etl__buffer *buffer,
                                 struct etl__memory *memory, struct etl__error *error);

#endif
