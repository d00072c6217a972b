/* partition.c: splitters and buckets.
 *
 * The look-up takes the first thirteen bits of a key's distance from the first bound into a table,
 * and goes on from there by comparing: about one comparison a key, nearly always with the same
 * outcome, where a binary search would take eight unpredictable ones. */
#include "partition.h"

enum { LEAST_SCRATCH = 256 };

/* The part of a key that splitters compare. */
static uint64_t splitting_part(const struct etl__slots *slots, const struct etl__entry *entry,
                               size_t common) {
    const uint8_t *key = etl__entry_key(slots, entry);
    return etl__key_prefix(key + common, entry->key_size - common);
}

static void find_common(struct etl__splitters *splitters, const struct etl__slots *slots,
                        const struct etl__entry *first, const struct etl__entry *last) {
    const uint8_t *a = etl__entry_key(slots, first), *b = etl__entry_key(slots, last);
    size_t limit = first->key_size < last->key_size ? first->key_size : last->key_size;
    if (limit > ETL__SPLITTER_PREFIX)
        limit = ETL__SPLITTER_PREFIX;
    splitters->common = (uint32_t)etl__key_common(a, b, 0, limit);
    memset(splitters->prefix, 0, sizeof splitters->prefix);
    memcpy(splitters->prefix, a, splitters->common);
}

static void fill_lookup(struct etl__splitters *splitters) {
    uint64_t range = splitters->bounds[splitters->count - 2] - splitters->bounds[0];
    splitters->base = splitters->bounds[0];
    splitters->shift = 0;
    while (range >> splitters->shift >= (uint64_t)1 << ETL__LOOKUP_BITS)
        splitters->shift++;
    splitters->last = (uint32_t)(range >> splitters->shift);
    uint32_t bucket = 0;
    for (uint32_t place = 0; place <= splitters->last; place++) {
        uint64_t from = splitters->base + ((uint64_t)place << splitters->shift);
        while (from > splitters->bounds[bucket])
            bucket++;
        splitters->lookup[place] = (uint8_t)bucket;
    }
}

bool etl__splitters_choose(struct etl__splitters *splitters, uint32_t buckets,
                           const struct etl__slots *slots, const struct etl__entry *index,
                           size_t count) {
    uint32_t used = 0;
    if (count < buckets)
        return false;
    find_common(splitters, slots, &index[0], &index[count - 1]);
    for (uint32_t i = 1; i < buckets; i++) {
        size_t quantile = (size_t)((uint64_t)count * i / buckets);
        uint64_t part = splitting_part(slots, &index[quantile], splitters->common);
        if (part != 0 && (used == 0 || part - 1 > splitters->bounds[used - 1]))
            splitters->bounds[used++] = part - 1;
    }
    splitters->bounds[used] = UINT64_MAX;
    splitters->count = used + 1;
    if (splitters->count < buckets / 4) /* few distinct parts: most pairs would share a bucket */
        return false;
    fill_lookup(splitters);
    return true;
}

void etl__partition_init(struct etl__partition *partition, const struct etl__splitters *splitters,
                         size_t chunk_size) {
    partition->splitters = *splitters;
    partition->chunk_size = chunk_size;
    partition->carve = partition->carve_end = NULL;
    partition->most_pairs = 0;
    memset(partition->buckets, 0, splitters->count * sizeof *partition->buckets);
}

size_t etl__partition_order_scratch(size_t pairs) {
    size_t entries = pairs + pairs / 8 + LEAST_SCRATCH; /* the sort keeps its counters in it too */
    return entries < ETL__ORDER_SCRATCH ? entries : ETL__ORDER_SCRATCH;
}

size_t etl__partition_order_bytes(const struct etl__partition *partition) {
    size_t pairs = partition->most_pairs, entries = pairs + etl__partition_order_scratch(pairs);
    return entries * sizeof(struct etl__entry) + pairs / 16 * sizeof(void *);
}

static size_t open_bytes(const struct etl__bucket *bucket) {
    return bucket->last == NULL ? 0 : (size_t)(bucket->at - etl__chunk_data(bucket->last));
}

uint64_t etl__bucket_bytes(const struct etl__bucket *bucket) {
    return bucket->closed_bytes + open_bytes(bucket);
}

uint64_t etl__partition_bytes(const struct etl__partition *partition) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < partition->splitters.count; i++)
        bytes += etl__bucket_bytes(&partition->buckets[i]);
    return bytes;
}

static void close_chunk(struct etl__bucket *bucket) {
    if (bucket->last != NULL)
        bucket->last->used = open_bytes(bucket);
}

bool etl__partition_open_chunk(struct etl__partition *partition, uint32_t index, size_t size) {
    struct etl__bucket *bucket = &partition->buckets[index];
    size_t whole = sizeof(struct etl__chunk) + size,
           left = (size_t)(partition->carve_end - partition->carve);
    if (whole < partition->chunk_size)
        whole = partition->chunk_size;
    whole = (whole + 15) / 16 * 16;
    if (whole > left)
        return false;
    struct etl__chunk *chunk = (struct etl__chunk *)partition->carve;
    partition->carve += whole;
    chunk->next = NULL;
    close_chunk(bucket);
    bucket->closed_bytes += open_bytes(bucket);
    if (bucket->last != NULL)
        bucket->last->next = chunk;
    else
        bucket->first = chunk;
    bucket->last = chunk;
    uint32_t full = bucket->chunks++; /* chunks before this one */
    bucket->at = etl__chunk_data(chunk);
    /* In a chunk larger than others only its first record begins: offsets stay below chunk_size.
     * */
    bucket->end = whole > partition->chunk_size ? bucket->at + size : (uint8_t *)chunk + whole;
    uint32_t expected =
        bucket->pairs + (full != 0 ? bucket->pairs / full : 0); /* when it is full */
    if (expected > partition->most_pairs)
        partition->most_pairs = expected;
    return true;
}

void etl__partition_close(struct etl__partition *partition) {
    for (uint32_t i = 0; i < partition->splitters.count; i++) {
        struct etl__bucket *bucket = &partition->buckets[i];
        close_chunk(bucket);
        if (bucket->pairs > partition->most_pairs)
            partition->most_pairs = bucket->pairs;
    }
}

bool etl__partition_is_skewed(const struct etl__partition *partition, uint64_t pairs) {
    uint32_t most = 0;
    for (uint32_t i = 0; i < partition->splitters.count; i++)
        most = partition->buckets[i].pairs > most ? partition->buckets[i].pairs : most;
    return most > pairs / 8;
}
