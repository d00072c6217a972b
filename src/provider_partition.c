/* provider_partition.c: the pairs of a dealt buffer, bucket by bucket.
 *
 * A bucket is ordered when the reader comes to it: an index is made by walking its chunks and
 * sorted, in memory of the provider's own that every bucket uses again, and shown as one window.
 * Records, index and scratch of a bucket fit the cache, so that iterating costs about what reading
 * in sequence does. Nothing is written to the buffer: several threads may read it, each with a
 * provider of its own. */
#include "provider_partition.h"

enum { CHUNK_AHEAD = 1024, LEAST_LEFT = 4 /* buckets, for each half */ };

struct partition_provider {
    struct etl__provider base;
    const struct etl__buffer *buffer;
    struct etl__memory *memory;
    uint32_t next;            /* the bucket to be shown next */
    struct etl__share *share; /* NULL: all buckets are this reader's */
    struct etl__entry *index;
    size_t index_capacity;
    struct etl__sort sort;
    const uint8_t **chunks; /* the table of slots */
    size_t chunk_capacity;
};

static const struct etl__bucket *bucket_at(const struct partition_provider *provider, uint32_t i) {
    return &provider->buffer->partition->buckets[i];
}

static uint32_t bucket_count(const struct partition_provider *provider) {
    return provider->buffer->partition->splitters.count;
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

/* Order bucket i and show it. */
static void show_bucket(struct partition_provider *provider, uint32_t i) {
    const struct etl__bucket *bucket = bucket_at(provider, i);
    struct etl__entry *entry = provider->index;
    uint32_t slot = 0;
    for (struct etl__chunk *chunk = bucket->first; chunk != NULL; chunk = chunk->next) {
        provider->chunks[slot] = etl__chunk_data(chunk);
        entry = walk_chunk(chunk, slot++ << provider->sort.slots.shift, entry);
    }
    (void)etl__sort_index(&provider->sort, provider->index,
                          bucket->pairs); /* nothing cancels it */
    provider->base.entry = provider->index;
    provider->base.entry_end = provider->index + bucket->pairs;
    provider->next = i + 1;
}

void etl__share_init(struct etl__share *share, uint32_t next, uint32_t end) {
    atomic_init(&share->range, (uint64_t)next << 32 | end);
    share->first = next;
}

void etl__share_restart(struct etl__share *share) {
    uint64_t range = atomic_load(&share->range), first = (uint64_t)share->first << 32;
    while (!atomic_compare_exchange_weak(&share->range, &range, first | (range & UINT32_MAX)))
        continue;
}

/* The next bucket, or `end` when all are taken. */
static uint32_t take_bucket(struct etl__share *share, uint32_t end) {
    uint64_t range = atomic_load(&share->range);
    while (range >> 32 < (range & UINT32_MAX))
        if (atomic_compare_exchange_weak(&share->range, &range, range + ((uint64_t)1 << 32)))
            return (uint32_t)(range >> 32);
    return end;
}

bool etl__share_halve(struct etl__share *share, const struct etl__partition *partition,
                      uint32_t *from, uint64_t *bytes) {
    uint64_t range = atomic_load(&share->range);
    for (;;) {
        uint32_t next = (uint32_t)(range >> 32), end = (uint32_t)range, middle = end;
        uint64_t all = 0, upper = 0;
        for (uint32_t i = next; i < end; i++)
            all += etl__bucket_bytes(&partition->buckets[i]);
        while (middle > next && upper < all / 2)
            upper += etl__bucket_bytes(&partition->buckets[--middle]);
        if (next == share->first || middle < next + LEAST_LEFT || end - middle < LEAST_LEFT)
            return false;
        if (!atomic_compare_exchange_weak(&share->range, &range, (range >> 32 << 32) | middle))
            continue;
        *from = middle;
        *bytes = upper;
        return true;
    }
}

static int refill_share(struct etl__provider *base, uint64_t need, struct etl__error *error) {
    struct partition_provider *provider = (struct partition_provider *)base;
    uint32_t count = bucket_count(provider), i;
    (void)need;
    (void)error;
    do {
        i = take_bucket(provider->share, count);
        if (i == count)
            return ETL_END;
    } while (bucket_at(provider, i)->pairs == 0);
    base->pairs += bucket_at(provider, i)->pairs;
    show_bucket(provider, i);
    return ETL_OK;
}

static int partition_refill(struct etl__provider *base, uint64_t need, struct etl__error *error) {
    struct partition_provider *provider = (struct partition_provider *)base;
    (void)need;
    (void)error;
    while (provider->next < bucket_count(provider) &&
           bucket_at(provider, provider->next)->pairs == 0)
        provider->next++;
    if (provider->next == bucket_count(provider))
        return ETL_END;
    show_bucket(provider, provider->next);
    return ETL_OK;
}

static etl_slice key_at(const struct partition_provider *provider,
                        const struct etl__entry *entry) {
    return etl_slice_of(etl__entry_key(&provider->sort.slots, entry), entry->key_size);
}

/* The entry of the first key >= this one, in the bucket that is shown. */
static const struct etl__entry *find_entry(const struct partition_provider *provider,
                                           const struct etl__entry *end, const uint8_t *key,
                                           size_t size) {
    const struct etl__entry *low = provider->index, *high = end;
    while (low < high) {
        const struct etl__entry *middle = low + (high - low) / 2;
        etl_slice found = key_at(provider, middle);
        if (etl__key_compare(found.data, found.size, key, size) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static int partition_seek(struct etl__provider *base, const uint8_t *key, size_t size,
                          struct etl__error *error) {
    struct partition_provider *provider = (struct partition_provider *)base;
    (void)error;
    uint32_t bucket = etl__splitters_find(&provider->buffer->partition->splitters, key, size);
    if (provider->next != bucket + 1)
        show_bucket(provider, bucket);
    base->entry_end = provider->index + bucket_at(provider, bucket)->pairs;
    base->entry = find_entry(provider, base->entry_end, key, size);
    return ETL_OK;
}

/* The least or the greatest key of a bucket, unordered: a walk. */
static etl_slice extreme(const struct etl__bucket *bucket, bool greatest) {
    struct etl__pair found = {.key = NULL}, pair;
    for (struct etl__chunk *chunk = bucket->first; chunk != NULL; chunk = chunk->next) {
        const uint8_t *at = etl__chunk_data(chunk), *end = at + chunk->used;
        while (at < end) {
            etl__record_view(at, &pair);
            at = pair.key + pair.key_size + pair.value_size;
            int order = found.key == NULL
                            ? -1
                            : etl__key_compare(pair.key, pair.key_size, found.key, found.key_size);
            if (found.key == NULL || (greatest ? order > 0 : order < 0))
                found = pair;
        }
    }
    return etl_slice_of(found.key, found.key_size);
}

static int partition_bounds(struct etl__provider *base, etl_slice *first, etl_slice *last,
                            struct etl__error *error) {
    struct partition_provider *provider = (struct partition_provider *)base;
    (void)error;
    uint32_t low = 0, high = bucket_count(provider);
    while (low < high && bucket_at(provider, low)->pairs == 0)
        low++;
    while (high > low && bucket_at(provider, high - 1)->pairs == 0)
        high--;
    if (low == high)
        return ETL_END;
    *first = extreme(bucket_at(provider, low), false);
    *last = extreme(bucket_at(provider, high - 1), true);
    return ETL_OK;
}

/* A key of the bucket in which that part lies. Inside a bucket keys are in no order: what begins its
 * chunks is drawn at random from its range, so that a bucket that holds much can be cut too. */
static int partition_sample(struct etl__provider *base, uint64_t part, uint64_t parts,
                            etl_slice *key, struct etl__error *error) {
    struct partition_provider *provider = (struct partition_provider *)base;
    (void)error;
    uint64_t wanted = (uint64_t)((double)part / (double)parts * (double)base->bytes);
    for (uint32_t i = 0; i < bucket_count(provider); i++) {
        const struct etl__bucket *bucket = bucket_at(provider, i);
        for (struct etl__chunk *chunk = bucket->first; chunk != NULL; chunk = chunk->next) {
            if (wanted < chunk->used) {
                struct etl__pair pair;
                etl__record_view(etl__chunk_data(chunk), &pair);
                *key = etl_slice_of(pair.key, pair.key_size);
                return ETL_OK;
            }
            wanted -= chunk->used;
        }
    }
    return ETL_END;
}

static void partition_close(struct etl__provider *base) {
    struct partition_provider *provider = (struct partition_provider *)base;
    struct etl__memory *memory = provider->memory;
    etl__free(memory, provider->index, provider->index_capacity * sizeof *provider->index);
    etl__free(memory, provider->sort.scratch,
              provider->sort.scratch_count * sizeof *provider->sort.scratch);
    etl__free(memory, (void *)provider->chunks,
              provider->chunk_capacity * sizeof *provider->chunks);
    etl__free(memory, provider, sizeof *provider);
}

/* Index, scratch and table for the largest bucket. */
static bool take_chunk(struct partition_provider *provider) {
    uint32_t chunks = 1;
    for (uint32_t i = 0; i < bucket_count(provider); i++) {
        const struct etl__bucket *bucket = bucket_at(provider, i);
        chunks = bucket->chunks > chunks ? bucket->chunks : chunks;
    }
    size_t pairs = provider->buffer->partition->most_pairs;
    size_t scratch = etl__partition_order_scratch(pairs);
    provider->index = etl__alloc(provider->memory, pairs * sizeof *provider->index);
    provider->sort.scratch = etl__alloc(provider->memory, scratch * sizeof(struct etl__entry));
    provider->chunks = etl__alloc(provider->memory, chunks * sizeof *provider->chunks);
    provider->index_capacity = pairs;
    provider->sort.scratch_count = scratch;
    provider->chunk_capacity = chunks;
    return provider->index != NULL && provider->sort.scratch != NULL && provider->chunks != NULL;
}

int etl__provider_partition_open(struct etl__provider **out, const struct etl__buffer *buffer,
                                 struct etl__share *share, struct etl__memory *memory,
                                 struct etl__error *error) {
    struct partition_provider *provider = etl__alloc_zeroed(memory, sizeof *provider);
    if (provider == NULL)
        return etl__fail_memory(error, sizeof *provider, "reading a buffer");
    provider->buffer = buffer;
    provider->memory = memory;
    provider->base = (struct etl__provider){.refill = partition_refill,
                                            .seek = partition_seek,
                                            .bounds = partition_bounds,
                                            .sample = partition_sample,
                                            .close = partition_close,
                                            .bytes = etl__buffer_record_bytes(buffer),
                                            .pairs = buffer->pairs};
    if (share != NULL) {
        etl__share_restart(share);
        provider->share = share;
        provider->base.refill = refill_share;
        provider->base.pairs = 0;
    }
    if (!take_chunk(provider)) {
        partition_close(&provider->base);
        return etl__fail_memory(error, buffer->partition->most_pairs * sizeof(struct etl__entry),
                                "ordering a bucket");
    }
    while ((size_t)1 << provider->sort.slots.shift < buffer->partition->chunk_size)
        provider->sort.slots.shift++;
    provider->sort.slots.base = provider->chunks;
    provider->sort.order_values = buffer->order_values;
    provider->base.slots = provider->sort.slots;
    *out = &provider->base;
    return ETL_OK;
}
