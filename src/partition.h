/* partition.h: pairs dealt to buckets by key while they are collected.
 *
 * Sorting a large buffer and copying its records out in order are random reads all over it, and
 * cost more than everything else. Dealt to some hundred buckets by key ranges, each bucket's
 * records and index fit the cache: the same work becomes local, for the price of a look-up and a
 * scattered append a pair. A run is then the buckets one behind the other.
 *
 * The ranges come from a sorted sample of the data (samplesort: Frazer and McKellar 1970).
 * Splitters are eight bytes of key, its part, behind the prefix that all of the sample share. */
#ifndef LIBETL_PARTITION_H
#define LIBETL_PARTITION_H

#include "arena.h"
#include "entry.h"

enum {
    ETL__BUCKETS_MOST = 256,
    ETL__SPLITTER_PREFIX = 64, /* bytes of a common prefix that are stripped */
    ETL__LOOKUP_BITS = 13,
    ETL__ORDER_SCRATCH =
        70 * 1024 /* entries that ordering a bucket takes at most beside its index */
};

/* Bucket j takes the keys whose part is above bounds[j - 1], and at most bounds[j]. */
struct etl__splitters {
    uint64_t bounds[ETL__BUCKETS_MOST]; /* ascending strictly; the last one is UINT64_MAX */
    uint32_t count;                     /* of buckets */
    uint32_t common; /* bytes of prefix[] that keys are expected to begin with */
    uint8_t prefix[ETL__SPLITTER_PREFIX + 8]; /* zeros behind them */
    uint64_t base;                            /* bounds[0] */
    uint32_t shift;                           /* (part - base) >> shift is a place in lookup[] */
    uint32_t last;                            /* the last place that is used */
    uint8_t lookup[1 << ETL__LOOKUP_BITS];    /* the first bucket that such a key may be in */
};
_Static_assert(ETL__BUCKETS_MOST <= 256, "a bucket's number is a byte");

/* Splitters for `buckets` buckets of about equal size, from a sorted index of a sample. False
 * where the keys are too much alike to be divided. */
bool etl__splitters_choose(struct etl__splitters *splitters, uint32_t buckets,
                           const struct etl__slots *slots, const struct etl__entry *index,
                           size_t count);

static inline uint32_t etl__splitters_find_part(const struct etl__splitters *splitters,
                                                uint64_t part) {
    uint64_t place = (part < splitters->base ? 0 : part - splitters->base) >> splitters->shift;
    uint32_t bucket = splitters->lookup[place < splitters->last ? place : splitters->last];
    while (part > splitters->bounds[bucket])
        bucket++;
    return bucket;
}

/* Has the key eight bytes behind the common prefix, and begins with it? Makes no call. */
static inline bool etl__splitters_expect(const struct etl__splitters *splitters,
                                         const uint8_t *key, size_t size) {
    size_t common = splitters->common;
    if (size < common + 8)
        return false;
    for (size_t i = 0; i < common; i += 8) {
        uint64_t differs = etl__load_be64(key + i) ^ etl__load_be64(splitters->prefix + i);
        if ((i + 8 <= common ? differs : differs >> (64 - common % 8 * 8)) != 0)
            return false;
    }
    return true;
}

/* The bucket of a key; never descends while keys ascend. */
static inline uint32_t etl__splitters_find(const struct etl__splitters *splitters,
                                           const uint8_t *key, size_t size) {
    size_t common = splitters->common;
    int order = etl__key_compare(key, size < common ? size : common, splitters->prefix, common);
    if (ETL__UNLIKELY(order != 0))
        return order < 0 ? 0 : splitters->count - 1;
    return etl__splitters_find_part(splitters, etl__key_prefix(key + common, size - common));
}

/* Records back to back, a stretch of a bucket. */
struct etl__chunk {
    struct etl__chunk *next;
    size_t used; /* bytes; of the last one of a bucket only once it is closed */
};

static inline uint8_t *etl__chunk_data(struct etl__chunk *chunk) {
    return (uint8_t *)(chunk + 1);
}

struct etl__bucket {
    uint8_t *at, *end; /* room in the last chunk */
    struct etl__chunk *first, *last;
    size_t closed_bytes; /* in the chunks before the last */
    uint32_t pairs, chunks;
};

struct etl__partition {
    struct etl__splitters splitters;
    size_t chunk_size;
    uint8_t *carve, *carve_end; /* where the next chunk is cut from */
    uint32_t most_pairs;        /* that one bucket has, or will have when its chunks are full */
    struct etl__bucket buckets[ETL__BUCKETS_MOST];
};

void etl__partition_init(struct etl__partition *partition, const struct etl__splitters *splitters,
                         size_t chunk_size);

/* Entries of scratch for ordering a bucket of so many pairs. */
size_t etl__partition_order_scratch(size_t pairs);

/* What ordering the largest bucket takes: its index, its scratch and its table of chunks. */
size_t etl__partition_order_bytes(const struct etl__partition *partition);

/* Open a chunk for at least `size` bytes behind the bucket's last one, cut from the room at
 * `carve`; false when there is none. */
bool etl__partition_open_chunk(struct etl__partition *partition, uint32_t bucket, size_t size);

/* Bytes of records in a bucket, and in all buckets. */
uint64_t etl__bucket_bytes(const struct etl__bucket *bucket);
uint64_t etl__partition_bytes(const struct etl__partition *partition);

/* Let `used` of the last chunks be right. */
void etl__partition_close(struct etl__partition *partition);

/* Has one bucket so much more than the others that other splitters would serve better? */
bool etl__partition_is_skewed(const struct etl__partition *partition, uint64_t pairs);

#endif
