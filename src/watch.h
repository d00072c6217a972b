/* watch.h: what the caller sees of long work, and how it stops it. All on the caller's thread,
 * except that the cancel flag may be set from anywhere. */
#ifndef LIBETL_WATCH_H
#define LIBETL_WATCH_H

#include "status.h"
#include <stdatomic.h>

struct etl__watch {
    atomic_int *cancel;
    etl_progress_fn *tell;
    void *tell_ctx;
    uint64_t started_ns; /* the round */
    uint64_t told_ns;
    etl_progress state;
};

/* A round begins. */
void etl__watch_start(struct etl__watch *watch);

/* Work goes on in this phase; the counts are the caller's to keep in watch->state. */
void etl__watch_enter(struct etl__watch *watch, etl_phase phase, uint64_t pairs_done,
                      uint64_t pairs_all, uint64_t bytes_done, uint64_t bytes_all);

/* Call now and then: ETL_OK, or ETL_E_CANCELLED. Tells the progress about 10 times a second. */
int etl__watch_tick(struct etl__watch *watch, struct etl__error *error);

#endif
