/* disk.h: the bytes that a collector's runs take on disk, counted against its limit. */
#ifndef LIBETL_DISK_H
#define LIBETL_DISK_H

#include "status.h"
#include <stdatomic.h>

/* Of live runs and of those being written: a limit exact to one write buffer. */
struct etl__disk {
    uint64_t limit; /* 0: none */
    _Atomic(uint64_t) used;
    _Atomic(uint64_t) peak;
};

/* Count bytes that are about to be written; ETL_E_NOSPACE where that would pass the limit. `place`
 * is for the message. */
int etl__disk_charge(struct etl__disk *disk, uint64_t bytes, const char *place,
                     struct etl__error *error);

/* A run that was there before takes disk, whatever the limit; or gives it back. */
void etl__disk_take(struct etl__disk *disk, uint64_t bytes);
void etl__disk_give(struct etl__disk *disk, uint64_t bytes);

#endif
