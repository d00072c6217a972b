/* spill.h: full buffer -> background thread -> run. */
#ifndef LIBETL_SPILL_H
#define LIBETL_SPILL_H

#include "buffer.h"
#include "duplicates.h"
#include "provider_partition.h"
#include "target.h"
#include "watch.h"

enum etl__region_state {
    ETL__FREE,    /* empty */
    ETL__FILLING, /* being collected into */
    ETL__SEALED,  /* sorted, in memory, nobody works on it */
    ETL__QUEUED,  /* waits for a thread */
    ETL__WRITING,
    ETL__WRITTEN, /* its run is whole; the buffer can be emptied */
    ETL__FAILED   /* it could not be written: status and error say why; all pairs are still in the
                     buffer */
};

/* A share of the memory limit. Its state is the owner's, except from QUEUED to WRITTEN or FAILED,
 * where the spiller's lock guards it. */
struct etl__region {
    struct etl__buffer buffer;
    enum etl__region_state state;
    uint64_t sequence; /* among all runs and regions, once sealed */
    bool tried_deal;   /* what it holds now was looked at as a sample */
    uint64_t tried;    /* the owner's call that had it written last */
    struct etl__region *next_queued;
    struct etl__run *run;
    struct etl__share share; /* of a dealt buffer: the buckets that the thread has yet to take */
    bool halved;             /* the owner took the upper ones of them, */
    struct etl__run *upper;  /* and this is their run; NULL: it failed, they have none */
    bool alone;              /* that failed once: not again with these pairs */
    int status;
    struct etl__error error;
};

struct etl__spiller {
    struct etl__target *target;
    struct etl__rules rules; /* those for runs */
    unsigned wanted;         /* threads */
    unsigned started;
    etl__os_thread *threads;
    struct etl__os_lock lock;
    struct etl__region *queue; /* ascending by sequence */
    bool stopping;
    _Atomic(uint64_t) spill_ns, runs; /* since the round began */
};

int etl__spiller_init(struct etl__spiller *spiller, struct etl__target *target,
                      const struct etl__rules *rules, unsigned threads, struct etl__error *error);

/* Stops and joins the threads. */
void etl__spiller_end(struct etl__spiller *spiller);

/* Hand a sealed region to a thread; starts one when there are fewer than wanted. False, and
 * nothing is done, where the system gives none: the caller writes it then. */
bool etl__spiller_submit(struct etl__spiller *spiller, struct etl__region *region);

/* A region's state; past WRITING it is the caller's again. */
enum etl__region_state etl__spiller_state(struct etl__spiller *spiller,
                                          struct etl__region *region);

/* Wait until a submitted region is written or has failed; ETL_E_CANCELLED when told to stop
 * waiting. */
int etl__spiller_wait(struct etl__spiller *spiller, struct etl__region *region,
                      struct etl__watch *watch, struct etl__error *error);

/* The caller, who would have to wait for a region that a thread writes, takes the upper half of the
 * buckets that are left and writes them into a run of their own. ETL_END, and nothing is done,
 * where that does not pay or cannot be; after another error the region, once written, is to be
 * written again. */
int etl__spiller_help(struct etl__spiller *spiller, struct etl__run_writer *writer,
                      struct etl__region *region, struct etl__watch *watch,
                      struct etl__error *error);

/* Take regions that no thread has begun with out of the queue: they are SEALED again. */
void etl__spiller_take_back(struct etl__spiller *spiller);

/* Write a sealed region on this thread: WRITTEN, or an error and still SEALED. watch may be NULL.
 */
int etl__spiller_write(struct etl__spiller *spiller, struct etl__run_writer *writer,
                       struct etl__region *region, struct etl__watch *watch,
                       struct etl__error *error);

#endif
