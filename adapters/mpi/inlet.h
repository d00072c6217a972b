/* inlet.h: the blocks of one rank as a provider: what the merge reads. */
#ifndef LIBETL_MPI_INLET_H
#define LIBETL_MPI_INLET_H

#include "exchange.h"

/* A provider over what rank `source` sends, with the memory of the exchange's store. */
int etl__inlet_open(struct etl__provider **out, struct etl__exchange *exchange, int source,
                    struct etl__error *error);

#endif
