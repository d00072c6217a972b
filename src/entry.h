/* entry.h: an index over records that stay where they are.
 *
 * An entry names its record by a 32-bit reference into a table of slots: the slot's number, and
 * below it `shift` bits of offset. References ascend in collection order, which is what makes
 * every tie decidable: equal keys leave in the order of their references. */
#ifndef LIBETL_ENTRY_H
#define LIBETL_ENTRY_H

#include "key.h"
#include "record.h"
#include "status.h"

struct etl__entry {
    uint64_t prefix;    /* etl__key_prefix of the key; sorting may leave another part of it here */
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

#endif
