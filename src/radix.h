/* radix.h: entries into the order of their prefixes, read as plain numbers.
 *
 * Order of calls: etl__radix_init, then any number of etl__radix_sort (what fits the scratch) and
 * etl__radix_split (what does not). Nothing is kept in the scratch between two calls, so the
 * caller may sort one part's parts before it goes on with the next. */
#ifndef LIBETL_RADIX_H
#define LIBETL_RADIX_H

#include "entry.h"
#include <stdatomic.h>

/* Entries that a plain insertion sort takes. */
#define ETL__RADIX_SMALL 24

struct etl__radix {
    struct etl__entry *scratch;
    size_t capacity; /* entries that etl__radix_sort takes */
    void *counters;  /* the scratch's tail */
    size_t counter_bytes;
    unsigned misses; /* times in a row that spreading by multiplication did not pay */
    size_t rest;     /* entries to sort without trying it again */
    const atomic_int *cancel;
};

void etl__radix_init(struct etl__radix *radix, struct etl__entry *scratch, size_t scratch_count,
                     const atomic_int *cancel);

static inline bool etl__radix_cancelled(const struct etl__radix *radix) {
    return radix->cancel != NULL &&
           ETL__UNLIKELY(atomic_load_explicit(radix->cancel, memory_order_relaxed) != 0);
}

/* Sort entries[0..count) by prefix, stably; count is at most radix->capacity. */
void etl__radix_sort(struct etl__radix *radix, struct etl__entry *entries, size_t count);

/* Bring entries[0..count) into the order of prefix >> *shift, in place and not stably; more than
 * that when they turn out to ascend already (*shift is 0 then, and they have not moved). *shift is
 * below the highest bit in which prefixes differ, so two parts at least are told apart, or 0 where
 * all are equal. Returns ETL_OK, or ETL_E_CANCELLED with the entries in some order. */
int etl__radix_split(struct etl__radix *radix, struct etl__entry *entries, size_t count,
                     unsigned *shift);

#endif
