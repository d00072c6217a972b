/* provider_file.h: a provider over a run file. */
#ifndef LIBETL_PROVIDER_FILE_H
#define LIBETL_PROVIDER_FILE_H

#include "provider.h"
#include "run.h"

/* A provider over a whole run. For runs that are read, buffer_size bytes are used twice (rounded
 * down to blocks, at least two: one may be taken by a record that the window before it cut; never
 * more than the run has), and more while a record is larger. release_step is how many mapped bytes
 * may stay resident behind the reader. */
int etl__provider_file_open(struct etl__provider **out, const struct etl__run *run,
                            struct etl__memory *memory, size_t buffer_size, size_t release_step,
                            struct etl__error *error);

#endif
