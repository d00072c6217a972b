/* provider_file.h: a provider over a run file. */
#ifndef LIBETL_PROVIDER_FILE_H
#define LIBETL_PROVIDER_FILE_H

#include "ahead.h"
#include "provider.h"

/* A provider over a whole run. For runs that are read, buffer_size bytes are used twice (rounded
 * down to blocks, at least two: one may be taken by a record that the window before it cut; never
 * more than the run has), and more while a record is larger. release_step is how many mapped bytes
 * may stay resident behind the reader. */
int etl__provider_file_open(struct etl__provider **out, const struct etl__run *run,
                            struct etl__memory *memory, size_t buffer_size, size_t release_step,
                            struct etl__error *error);

/* Before its first pair: let `ahead` check blocks before this provider comes to them, until it
 * seeks. */
void etl__provider_file_check_ahead(struct etl__provider *provider, struct etl__ahead *ahead);

/* Where the next record begins in the file; the end of the data when there is none. */
uint64_t etl__provider_file_offset(const struct etl__provider *provider);

#endif
