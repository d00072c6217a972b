/* deal.c: a buffer whose pairs are dealt to buckets by key while they are collected.
 *
 * A buffer begins as a plain one. When it has grown to a sample (4 MiB, or an eighth of its
 * limit), of small records in no order, it is sorted, splitters are taken from it, its records are
 * copied to their buckets, and collecting goes on there. Buffers after it begin with the same
 * splitters, unless one bucket took more than an eighth of the pairs: then the keys have moved, or
 * one of them is heavy, and a sample is taken anew.
 *
 * Memory: what the largest bucket takes to be ordered is held back from the limit, as the index is
 * for a plain buffer. Half a chunk of each bucket is empty on average: chunks are small enough for
 * that to be three hundredths of the limit.
 *
 * Not dealt: ascending or descending keys, which need no sorting; records below 12 bytes, of which
 * a chunk holds so many that what ordering takes is not known in time; records above 256 bytes,
 * whose copying costs more than sorting them; buffers below 8 MiB, which fit the cache. */
#include "buffer.h"

enum {
    LEAST_LIMIT = 8 * 1024 * 1024,
    LEAST_RECORD = 12,
    MOST_RECORD = 256,
    MOST_SAMPLE = 4 * 1024 * 1024,
    MOST_SAMPLE_PAIRS = 64 * 1024,
    LARGEST_BUCKET = 512 * 1024, /* with its index in a second-level cache */
    LEAST_BUCKETS = 16,
    LEAST_CHUNK = 8 * 1024,
    MOST_CHUNK = 32 * 1024
};

bool etl__buffer_is_sample(const struct etl__buffer *buffer) {
    if (buffer->partition != NULL || buffer->order != 0 || buffer->limit < LEAST_LIMIT)
        return false;
    size_t sample = buffer->limit / 8 < MOST_SAMPLE ? buffer->limit / 8 : MOST_SAMPLE;
    if (buffer->held < sample && buffer->pairs < MOST_SAMPLE_PAIRS)
        return false;
    uint64_t record = etl__buffer_record_bytes(buffer) / buffer->pairs;
    return record >= LEAST_RECORD && record <= MOST_RECORD;
}

static struct etl__partition *make_partition(struct etl__buffer *buffer,
                                             const struct etl__splitters *splitters) {
    struct etl__partition *partition = etl__alloc(buffer->arena->memory, sizeof *partition);
    if (partition != NULL) {
        size_t chunk = LEAST_CHUNK; /* so that half a chunk a bucket is a few hundredths of all */
        while (chunk < MOST_CHUNK && chunk * splitters->count * 32 < buffer->limit)
            chunk *= 2;
        etl__partition_init(partition, splitters, chunk);
    }
    return partition;
}

bool etl__buffer_deal_as_before(struct etl__buffer *buffer,
                                const struct etl__splitters *splitters) {
    if (buffer->limit < LEAST_LIMIT) /* in a pool that is short */
        return false;
    buffer->partition = make_partition(buffer, splitters);
    return buffer->partition != NULL;
}

int etl__buffer_extend_bucket(struct etl__buffer *buffer, uint32_t bucket, size_t size) {
    struct etl__partition *partition = buffer->partition;
    size_t limit = etl__buffer_unused_limit(buffer), memory = etl__buffer_unused_memory(buffer);
    if (limit < ETL__LEAST_GRANT || partition->buckets[bucket].pairs == UINT32_MAX)
        return ETL_END;
    if (memory < ETL__LEAST_GRANT)
        return ETL_E_NOMEM;
    etl__buffer_pledge(buffer, 0);
    if (etl__partition_open_chunk(partition, bucket, size))
        return ETL_OK;
    size_t needed = size + 2 * sizeof(struct etl__chunk);
    needed = needed < partition->chunk_size ? partition->chunk_size : needed;
    if (etl__arena_segment_size(needed) > limit)
        return ETL_END;
    struct etl__segment *segment = etl__arena_take(buffer->arena, needed, buffer->growth_most,
                                                   limit < memory ? limit : memory);
    if (segment == NULL)
        return ETL_E_NOMEM;
    segment->next = buffer->segments;
    buffer->segments = segment;
    buffer->held += segment->size;
    uint8_t *carve = partition->carve, *carve_end = partition->carve_end;
    partition->carve = etl__segment_data(segment);
    partition->carve_end = (uint8_t *)segment + segment->size;
    (void)etl__partition_open_chunk(partition, bucket, size);
    if (carve_end - carve > partition->carve_end - partition->carve) { /* a large record's own */
        partition->carve = carve;
        partition->carve_end = carve_end;
    }
    return ETL_OK;
}

/* Copy the records of an extent to their buckets. */
static bool deal_extent(struct etl__buffer *buffer, const struct etl__extent *extent) {
    for (const uint8_t *at = extent->data, *end = at + extent->size; at < end;) {
        struct etl__pair pair;
        etl__record_view(at, &pair);
        const uint8_t *next = pair.key + pair.key_size + pair.value_size;
        size_t size = (size_t)(next - at);
        uint32_t index =
            etl__splitters_find(&buffer->partition->splitters, pair.key, pair.key_size);
        struct etl__bucket *bucket = &buffer->partition->buckets[index];
        if (size > (size_t)(bucket->end - bucket->at) &&
            etl__buffer_extend_bucket(buffer, index, size) != ETL_OK)
            return false;
        etl__copy(bucket->at, at, size);
        bucket->at += size;
        bucket->pairs++;
        at = next;
    }
    return true;
}

/* Deal all extents to buckets in segments of their own; the old ones go only when it is done. */
static bool deal_all(struct etl__buffer *buffer) {
    struct etl__segment *old = buffer->segments;
    size_t held = buffer->held;
    bool done = true;
    buffer->segments = NULL;
    for (size_t i = 0; i < buffer->filled && done; i++)
        done = deal_extent(buffer, &buffer->extents[i]);
    etl__arena_give(buffer->arena, done ? old : buffer->segments);
    if (done) {
        buffer->held -= held;
        buffer->at = buffer->end = buffer->room_end = NULL;
        buffer->spare = buffer->spare_end = NULL;
        buffer->extent_count = 0;
        buffer->slots = 0;
    } else {
        buffer->segments = old;
        buffer->held = held;
    }
    return done;
}

int etl__buffer_deal(struct etl__buffer *buffer, const struct etl__sort *sort,
                     struct etl__splitters *splitters, struct etl__error *error) {
    uint32_t buckets = LEAST_BUCKETS;
    while (buckets < ETL__BUCKETS_MOST && buffer->limit / buckets > LARGEST_BUCKET)
        buckets *= 2;
    ETL__TRY(etl__buffer_seal(buffer, sort, error));
    buffer->sealed = false;
    if (!etl__splitters_choose(splitters, buckets, &buffer->table, buffer->index,
                               (size_t)buffer->pairs))
        return ETL_END;
    buffer->partition = make_partition(buffer, splitters);
    if (buffer->partition == NULL)
        return ETL_END;
    if (deal_all(buffer))
        return ETL_OK;
    etl__free(buffer->arena->memory, buffer->partition, sizeof *buffer->partition);
    buffer->partition = NULL;
    return ETL_END;
}
