/* handle.h: what stands behind an etl_collector, for the files that implement its calls. */
#ifndef LIBETL_HANDLE_H
#define LIBETL_HANDLE_H

#include "store.h"

/* Why a call cannot simply begin. */
enum {
    ETL__PENDING = 1,    /* a reserved pair is to be counted first */
    ETL__ROUND_OVER = 2, /* the next pair begins a round */
    ETL__ACTIVE = 4,     /* a call is under way: this one came from a callback */
    ETL__ITERATING = 8   /* an iterator is open */
};

struct etl__iter_link; /* iter.c */
struct etl__durable;

struct etl_collector {
    struct etl__store store;
    struct etl__error error;
    atomic_flag error_lock; /* iterators on several threads may fail at once */
    unsigned attention;     /* the flags above; 0 while nothing but collecting goes on */
    const uint8_t *pending_key;
    size_t pending_key_size, pending_value_size;
    _Atomic(uint64_t) pairs, key_bytes, value_bytes; /* of the round */
    struct etl__iter_link *iterators;
    struct etl__kept_keys *split_keys; /* handed out by etl_split */
    struct etl__durable *durable;      /* its directory of checkpoints; NULL: none */
    int64_t process;                   /* that made it: in a forked child nothing is touched */
};

static inline bool etl__are_collectors(etl_collector *const *collectors, size_t count) {
    for (size_t i = 0; collectors != NULL && i < count; i++)
        if (collectors[i] == NULL)
            return false;
    return collectors != NULL;
}

/* Make a collector; directory: of checkpoints, which is made and locked, or NULL. */
int etl__collector_create(etl_collector **out, const etl_options *options, const char *directory,
                          struct etl__error *error);

/* Begin a call that needs these collectors, none of them NULL, for itself (iterating: together
 * with open iterators): ETL_E_STATE or ETL_E_CANCELLED, with the text in the first one's message;
 * or ETL_OK, and etl__leave must follow. Reserved pairs are counted. */
int etl__enter(etl_collector *const *collectors, size_t count, bool iterating);

/* End it: the status for the caller. */
int etl__leave(etl_collector *const *collectors, size_t count, int status);

/* The first pair of a round is about to come. */
void etl__begin_round(struct etl_collector *collector);

/* All pairs are consumed or dropped. */
void etl__end_round(struct etl_collector *collector);

/* Take over the text of an error that happened off the collector's own call. */
void etl__keep_error(struct etl_collector *collector, const struct etl__error *error);

/* Sort what several collectors hold, which have been entered, and open one merge over it. The
 * first one's memory and error are used, and whether it has threads decides about `ahead`, which
 * is opened too, and may be NULL. */
int etl__open_merge(struct etl__merge *merge, etl_collector *const *collectors, size_t count,
                    struct etl__ahead *ahead);

/* End all iterators over a collector that is destroyed. */
void etl__iter_end_all(struct etl_collector *collector);

/* Free what etl_split handed out. */
void etl__split_free(struct etl_collector *collector);

#endif
