/* chain.h: which providers can be read one behind the other, as one input of the heap. */
#ifndef LIBETL_CHAIN_H
#define LIBETL_CHAIN_H

#include "alloc.h"
#include "provider.h"

#define ETL__CHAIN_END UINT32_MAX

/* Deal providers to chains such that in each the last key of one is below the first key of the
 * next. heads[0..*chains) are the chains' first providers, next[i] the one behind provider i. Both
 * have room for count. Providers without pairs are left out. */
int etl__chain(struct etl__memory *memory, struct etl__provider *const *providers, size_t count,
               uint32_t *heads, uint32_t *next, size_t *chains, struct etl__error *error);

#endif
