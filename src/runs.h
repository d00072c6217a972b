/* runs.h: the runs of one collector, by sequence, and merging them into fewer. */
#ifndef LIBETL_RUNS_H
#define LIBETL_RUNS_H

#include "ahead.h"
#include "duplicates.h"
#include "target.h"
#include "watch.h"

/* A run, and which sequence numbers it covers: those of the runs that it was merged from. */
struct etl__held_run {
    struct etl__run *run;
    uint64_t first, last;
};

struct etl__runs {
    struct etl__target *target;
    struct etl__rules rules; /* those for runs */
    struct etl__watch *watch;
    struct etl__run_writer *writer; /* the caller's; made when first needed */
    size_t read_memory;             /* set aside for the buffers of runs that are read */
    unsigned merge_width;           /* as asked for; 0: to be derived */
    bool may_thread;                /* a thread may read ahead, and close with the caller */
    struct etl__held_run *items;    /* ascending */
    size_t count, capacity;
    uint64_t merged_pairs;              /* in this round, for the progress */
    _Atomic(uint64_t) merge_ns, passes; /* in this round */
};

void etl__runs_init(struct etl__runs *runs, struct etl__target *target,
                    const struct etl__rules *rules, struct etl__watch *watch,
                    unsigned merge_width);
void etl__runs_end(struct etl__runs *runs);

/* Close all runs and give their disk back; many of them by two threads. */
void etl__runs_clear(struct etl__runs *runs);

/* Free what is kept for the next runs, when there are none. */
void etl__runs_trim(struct etl__runs *runs);

/* The writer of the caller's thread. */
int etl__runs_writer(struct etl__runs *runs, struct etl__run_writer **writer,
                     struct etl__error *error);

/* Make sure that the next `more` calls of etl__runs_add succeed. */
int etl__runs_reserve(struct etl__runs *runs, size_t more, struct etl__error *error);

/* Take over a run of this sequence number; on failure it stays the caller's. */
int etl__runs_add(struct etl__runs *runs, struct etl__run *run, uint64_t sequence,
                  struct etl__error *error);

/* While collecting: 0, or to how many the runs are to be reduced, since more are alive than
 * descriptors and mappings allow. */
size_t etl__runs_reduce_to(const struct etl__runs *runs);

/* The most sources that can be merged at once with the memory that is left now. */
size_t etl__runs_width(const struct etl__runs *runs);

/* The same where `merges` are open at once, each over all sources, beside `apart` bytes for other
 * things; at least 1. */
size_t etl__runs_width_of_many(const struct etl__runs *runs, size_t merges, size_t apart);

/* Does a merge need memory beyond what is set aside for it? */
bool etl__runs_outgrow_reserve(const struct etl__runs *runs);

/* Merge neighbours, etl__runs_width at once, until at most `most` are left. Where regions that are
 * still in memory lie between runs, more may be left. */
int etl__runs_reduce(struct etl__runs *runs, size_t most, struct etl__error *error);

/* In a directory of checkpoints: has every run a file there? Write those that have none. */
bool etl__runs_all_named(const struct etl__runs *runs);
int etl__runs_name(struct etl__runs *runs, struct etl__error *error);

/* A provider over a run, one of `together` that are open at once; ahead may be NULL. */
int etl__runs_open_provider(const struct etl__runs *runs, size_t index, size_t together,
                            struct etl__ahead *ahead, struct etl__provider **provider,
                            struct etl__error *error);

#endif
