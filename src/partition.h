/* partition.h: pairs dealt to buckets by key while they are collected.
 *
 * Sorting a large buffer and copying its records out in order are random reads all over it, and
 * cost more than everything else. Dealt to some hundred buckets by key ranges, each bucket's
 * records and index fit the cache: the same work becomes local, for the price of a look-up and a
 * scattered append a pair. A run is then the buckets one behind the other.
 *
 * The ranges come from a sorted sample of the data (samplesort: Frazer and McKellar 1970).
 * Splitters are eight bytes of key behind the prefix that all of the sample share. */
#ifndef LIBETL_PARTITION_H
#define LIBETL_PARTITION_H

#include "arena.h"
#include "entry.h"

enum {
    ETL__BUCKETS_MOST = 256,
    ETL__SPLITTER_PREFIX = 64, /* bytes of a common prefix that are stripped */
    ETL__LOOKUP_BITS = 12,
    ETL__ORDER_SCRATCH =
        70 * 1024 /* entries that ordering a bucket takes at most beside its index */
};

/* Bucket j takes the keys from splitter j - 1 on, and below splitter j. */
struct etl__splitters {
    uint64_t keys[ETL__BUCKETS_MOST]; /* ascending strictly; count - 1 of them */
    uint32_t count;                   /* of buckets */
    uint32_t common;                  /* bytes of prefix[] that keys are expected to begin with */
    uint8_t prefix[ETL__SPLITTER_PREFIX];
    uint64_t base;  /* keys[0] */
    uint32_t shift; /* (key - base) >> shift is a place in lookup[] */
    uint32_t last;  /* the last place that is used */
    uint16_t lookup[(1 << ETL__LOOKUP_BITS) + 1]; /* the first bucket that such a key may be in */
};

/* Splitters for `buckets` buckets of about equal size, from a sorted index of a sample. False
 * where the keys are too much alike to be divided. */
bool etl__splitters_choose(struct etl__splitters *splitters, uint32_t buckets,
                           const struct etl__slots *slots, const struct etl__entry *index,
                           size_t count);

/* The bucket of a key; never descends while keys ascend. */
static inline uint32_t etl__splitters_find(const struct etl__splitters *splitters,
                                           const uint8_t *key, size_t size) {
    size_t common = splitters->common;
    if (common != 0) {
        int order =
            etl__key_compare(key, size < common ? size : common, splitters->prefix, common);
        if (ETL__UNLIKELY(order != 0))
            return order < 0 ? 0 : splitters->count - 1;
    }
    uint64_t x = etl__key_prefix(key + common, size - common);
    if (ETL__UNLIKELY(x < splitters->base))
        return 0;
    uint64_t place = (x - splitters->base) >> splitters->shift;
    uint32_t bucket = splitters->lookup[place < splitters->last ? place : splitters->last];
    while (bucket + 1 < splitters->count && splitters->keys[bucket] <= x)
        bucket++;
    return bucket;
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
