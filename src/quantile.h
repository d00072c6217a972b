/* quantile.h: keys that cut what a merge has into parts of about equal bytes. */
#ifndef LIBETL_QUANTILE_H
#define LIBETL_QUANTILE_H

#include "merge.h"

struct etl__kept_keys;

/* At most parts - 1 keys, ascending; fewer where keys are few. `samples` of the sources' keys are
 * looked at for each part. What they point at is put in front of *kept. */
int etl__quantiles(const struct etl__merge *merge, size_t parts, size_t samples, etl_slice *keys,
                   size_t *key_count, struct etl__kept_keys **kept, struct etl__error *error);

/* About what that takes for as long as it lasts. */
uint64_t etl__quantiles_bytes(const struct etl__merge *merge, size_t parts, size_t samples);

void etl__kept_keys_free(struct etl__memory *memory, struct etl__kept_keys *keys);

#endif
