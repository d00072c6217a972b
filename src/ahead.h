/* ahead.h: the blocks of mapped runs, checked on a thread ahead of whoever merges them. */
#ifndef LIBETL_AHEAD_H
#define LIBETL_AHEAD_H

#include "run.h"

/* One reader of a run, in order of its blocks. */
struct etl__ahead_reader {
    const struct etl__run *run;
    _Atomic(uint64_t) wanted;  /* where the reader is: those before it were found right */
    _Atomic(uint64_t) checked; /* likewise, by either of the two */
    uint8_t apart[40];         /* from the next reader's cache line */
};

struct etl__ahead {
    struct etl__memory *memory;
    struct etl__ahead_reader *readers;
    size_t count, capacity;
    uint64_t window; /* blocks to be ahead of each reader; 0 until the thread is started */
    uint64_t taken;  /* blocks, before that */
    struct etl__os_lock lock;
    etl__os_thread thread;
    bool started;
    atomic_bool sleeping, stopping;
};

/* For at most so many readers; without memory there will be none. */
void etl__ahead_open(struct etl__ahead *ahead, struct etl__memory *memory, size_t capacity);

/* Register a reader, before the start; NULL where that does not serve it. It must outlive `ahead`. */
struct etl__ahead_reader *etl__ahead_add(struct etl__ahead *ahead, const struct etl__run *run);

/* Stop and join for good: from now on readers check by themselves. */
void etl__ahead_stop(struct etl__ahead *ahead);

/* Stop, and forget the readers. */
void etl__ahead_close(struct etl__ahead *ahead);

void etl__ahead_start(struct etl__ahead *ahead);
void etl__ahead_wake(struct etl__ahead *ahead);

enum { ETL__AHEAD_TAKEN = 64 /* blocks, before a thread is worth it */ };

/* The reader comes to `block`: was it checked? If not it does so itself. All readers are one
 * thread's. */
static inline bool etl__ahead_take(struct etl__ahead *ahead, struct etl__ahead_reader *reader,
                                   uint64_t block) {
    atomic_store_explicit(&reader->wanted, block, memory_order_relaxed);
    if (ETL__UNLIKELY(ahead->taken < ETL__AHEAD_TAKEN)) {
        if (++ahead->taken == ETL__AHEAD_TAKEN)
            etl__ahead_start(ahead);
        return false;
    }
    uint64_t checked = atomic_load_explicit(&reader->checked, memory_order_acquire);
    if (checked < block + ahead->window / 2 &&
        atomic_load_explicit(&ahead->sleeping, memory_order_relaxed))
        etl__ahead_wake(ahead);
    return block < checked;
}

#endif
