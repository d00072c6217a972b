/* shelf.c: ordering a bucket: an index is made by walking its chunks, and sorted. Records, index
 * and scratch of a bucket fit the cache. The memory is used again for the next bucket. */
#include "shelf.h"

enum { CHUNK_AHEAD = 1024 };

bool etl__shelf_open(struct etl__shelf *shelf, const struct etl__buffer *buffer,
                     struct etl__memory *memory) {
    const struct etl__partition *partition = buffer->partition;
    uint32_t chunks = 1;
    for (uint32_t i = 0; i < partition->splitters.count; i++)
        chunks = partition->buckets[i].chunks > chunks ? partition->buckets[i].chunks : chunks;
    size_t pairs = partition->most_pairs, scratch = etl__partition_order_scratch(pairs);
    memset(shelf, 0, sizeof *shelf);
    shelf->buffer = buffer;
    shelf->memory = memory;
    shelf->index = etl__alloc(memory, pairs * sizeof *shelf->index);
    shelf->index_capacity = pairs;
    shelf->sort.scratch = etl__alloc(memory, scratch * sizeof(struct etl__entry));
    shelf->sort.scratch_count = scratch;
    shelf->chunks = etl__alloc(memory, chunks * sizeof *shelf->chunks);
    shelf->chunk_capacity = chunks;
    shelf->sort.slots.base = shelf->chunks;
    while ((size_t)1 << shelf->sort.slots.shift < partition->chunk_size)
        shelf->sort.slots.shift++;
    shelf->sort.order_values = buffer->order_values;
    return shelf->index != NULL && shelf->sort.scratch != NULL && shelf->chunks != NULL;
}

void etl__shelf_close(struct etl__shelf *shelf) {
    if (shelf->memory == NULL)
        return;
    etl__free(shelf->memory, shelf->index, shelf->index_capacity * sizeof *shelf->index);
    etl__free(shelf->memory, shelf->sort.scratch,
              shelf->sort.scratch_count * sizeof *shelf->sort.scratch);
    etl__free(shelf->memory, (void *)shelf->chunks, shelf->chunk_capacity * sizeof *shelf->chunks);
}

/* Index a chunk's records; each chunk is a slot. */
static struct etl__entry *walk_chunk(struct etl__chunk *chunk, uint32_t base,
                                     struct etl__entry *entry) {
    const uint8_t *data = etl__chunk_data(chunk), *at = data, *end = data + chunk->used;
    while (at < end) {
        struct etl__pair pair;
        etl__record_view(at, &pair);
        ETL__PREFETCH(at + CHUNK_AHEAD);
        entry->prefix = etl__key_prefix(pair.key, pair.key_size);
        entry->reference = base + (uint32_t)(at - data);
        entry->key_size = pair.key_size;
        entry++;
        at = pair.key + pair.key_size + pair.value_size;
    }
    return entry;
}

void etl__shelf_order(struct etl__shelf *shelf, const struct etl__bucket *bucket) {
    struct etl__entry *entry = shelf->index;
    uint32_t slot = 0;
    for (struct etl__chunk *chunk = bucket->first; chunk != NULL; chunk = chunk->next) {
        shelf->chunks[slot] = etl__chunk_data(chunk);
        for (size_t i = 0; i < CHUNK_AHEAD && chunk->next != NULL; i += 64)
            ETL__PREFETCH((const uint8_t *)chunk->next + i);
        entry = walk_chunk(chunk, slot++ << shelf->sort.slots.shift, entry);
    }
    (void)etl__sort_index(&shelf->sort, shelf->index, bucket->pairs); /* nothing cancels it */
}
