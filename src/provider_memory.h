/* provider_memory.h: a provider over a sealed buffer. */
#ifndef LIBETL_PROVIDER_MEMORY_H
#define LIBETL_PROVIDER_MEMORY_H

#include "buffer.h"
#include "provider.h"

/* Over all pairs of a sealed buffer, which must stay as it is until the provider is closed. Any
 * number may be open over one buffer, each used by a thread of its own. ETL_E_NOMEM. */
int etl__provider_memory_open(struct etl__provider **out, const struct etl__buffer *buffer,
                              struct etl__memory *memory, struct etl__error *error);

#endif
