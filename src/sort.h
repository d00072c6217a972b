/* sort.h: an index of records into key order.
 *
 * Records stay where they are; what is sorted is an index of 16-byte entries. An entry names its
 * record by a 32-bit reference into a table of slots: slot number above ETL__SLOT_BITS(shift) bits
 * of offset. References ascend in collection order, which is what makes every tie decidable: equal
 * keys leave in the order of their references. */
#ifndef LIBETL_SORT_H
#define LIBETL_SORT_H

#include "key.h"
#include "record.h"
#include "status.h"
#include <stdatomic.h>

struct etl__entry {
    uint64_t
        prefix; /* etl__key_prefix of the key; sorting may leave another part of the key here */
    uint32_t reference; /* slot << shift | offset of the record in the slot */
    uint32_t key_size;
};
_Static_assert(sizeof(struct etl__entry) == 16, "four entries a cache line");

/* Where the records of an index lie. */
struct etl__slots {
    const uint8_t **base;
    unsigned shift;
};

static inline const uint8_t *etl__slots_record(const struct etl__slots *slots,
                                               uint32_t reference) {
    return slots->base[reference >> slots->shift] +
           (reference & (((uint32_t)1 << slots->shift) - 1));
}

/* The key of an entry's record, and where its value code stands. */
static inline const uint8_t *etl__entry_key(const struct etl__slots *slots,
                                            const struct etl__entry *entry) {
    const uint8_t *at = etl__slots_record(slots, entry->reference);
    if (ETL__LIKELY(((at[0] | at[1]) & 128) == 0))
        return at + 2;
    while (*at++ >= 128)
        ;
    while (*at++ >= 128)
        ;
    return at;
}

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
