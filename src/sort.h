/* sort.h: an index into key order. */
#ifndef LIBETL_SORT_H
#define LIBETL_SORT_H

#include "entry.h"
#include <stdatomic.h>

struct etl__sort {
    struct etl__slots slots;
    struct etl__entry *scratch; /* room for scratch_count entries, contents undefined */
    size_t scratch_count;       /* at least 256; 65536 is best */
    bool order_values;          /* ties by value bytes (nil first) before the reference */
    const atomic_int *cancel;   /* looked at now and then; NULL: never */
};

/* Sort entries[0..count), whose prefixes are those of the whole keys, by (key, [value,]
 * reference). In place but for the scratch, any count, any keys; the stack used is below 24
 * KiB whatever the data. Returns ETL_OK, or ETL_E_CANCELLED with the entries in some order,
 * their prefixes lost. */
int etl__sort_index(const struct etl__sort *sort, struct etl__entry *entries, size_t count);

#endif
