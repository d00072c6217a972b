/* provider_partition.c: the pairs of a dealt buffer, bucket by bucket.
 *
 * A bucket is ordered when the reader comes to it, on one shelf that every bucket uses again, and
 * shown as one window: iterating costs about what reading in sequence does. Where there may be
 * threads they order the buckets behind the first one ahead of the reader, until it seeks. Nothing
 * is written to the buffer: several threads may read it, each with a provider of its own. */
#include "provider_partition.h"

enum { LEAST_LEFT = 4 /* buckets, for each half */ };

struct partition_provider {
    struct etl__provider base;
    const struct etl__buffer *buffer;
    struct etl__memory *memory;
    uint32_t next;            /* the bucket to be shown next */
    struct etl__share *share; /* NULL: all buckets are this reader's */
    struct etl__shelf shelf;  /* for what this reader orders itself */
    unsigned threads;         /* that may order ahead of it */
    struct etl__order_ahead *ahead;
};

static const struct etl__bucket *bucket_at(const struct partition_provider *provider, uint32_t i) {
    return &provider->buffer->partition->buckets[i];
}

static uint32_t bucket_count(const struct partition_provider *provider) {
    return provider->buffer->partition->splitters.count;
}

static void show_shelf(struct partition_provider *provider, const struct etl__shelf *shelf,
                       uint32_t bucket) {
    provider->base.slots = shelf->sort.slots;
    provider->base.entry = shelf->index;
    provider->base.entry_end = shelf->index + bucket_at(provider, bucket)->pairs;
    provider->next = bucket + 1;
}

/* Order bucket i and show it. */
static void show_bucket(struct partition_provider *provider, uint32_t i) {
    etl__shelf_order(&provider->shelf, bucket_at(provider, i));
    show_shelf(provider, &provider->shelf, i);
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

/* Threads are started for who comes to a second bucket. */
static bool is_ordered_ahead(struct partition_provider *provider) {
    if (provider->threads != 0 && provider->next != 0) {
        provider->ahead = etl__order_ahead_start(provider->buffer, provider->memory,
                                                 provider->next, provider->threads);
        provider->threads = 0;
    }
    return provider->ahead != NULL;
}

static int partition_refill(struct etl__provider *base, uint64_t need, struct etl__error *error) {
    struct partition_provider *provider = (struct partition_provider *)base;
    (void)need;
    (void)error;
    if (is_ordered_ahead(provider)) {
        uint32_t bucket;
        const struct etl__shelf *shelf = etl__order_ahead_next(provider->ahead, &bucket);
        if (shelf == NULL)
            return ETL_END;
        show_shelf(provider, shelf, bucket);
        return ETL_OK;
    }
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
    return etl_slice_of(etl__entry_key(&provider->shelf.sort.slots, entry), entry->key_size);
}

/* The entry of the first key >= this one, in the bucket that is shown. */
static const struct etl__entry *find_entry(const struct partition_provider *provider,
                                           const struct etl__entry *end, const uint8_t *key,
                                           size_t size) {
    const struct etl__entry *low = provider->shelf.index, *high = end;
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

static void stop_ahead(struct partition_provider *provider) {
    if (provider->ahead != NULL)
        etl__order_ahead_stop(provider->ahead);
    provider->ahead = NULL;
    provider->threads = 0;
}

static int partition_seek(struct etl__provider *base, const uint8_t *key, size_t size,
                          struct etl__error *error) {
    struct partition_provider *provider = (struct partition_provider *)base;
    (void)error;
    uint32_t bucket = etl__splitters_find(&provider->buffer->partition->splitters, key, size);
    bool elsewhere = provider->next != bucket + 1 || provider->ahead != NULL;
    stop_ahead(provider);
    if (elsewhere)
        show_bucket(provider, bucket);
    base->entry_end = provider->shelf.index + bucket_at(provider, bucket)->pairs;
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
    stop_ahead(provider);
    etl__shelf_close(&provider->shelf);
    etl__free(provider->memory, provider, sizeof *provider);
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
                                            .stays = true,
                                            .bytes = etl__buffer_record_bytes(buffer),
                                            .pairs = buffer->pairs};
    if (share != NULL) {
        etl__share_restart(share);
        provider->share = share;
        provider->base.refill = refill_share;
        provider->base.pairs = 0;
    }
    if (!etl__shelf_open(&provider->shelf, buffer, memory)) {
        partition_close(&provider->base);
        return etl__fail_memory(error, buffer->partition->most_pairs * sizeof(struct etl__entry),
                                "ordering a bucket");
    }
    *out = &provider->base;
    return ETL_OK;
}

void etl__provider_partition_order_ahead(struct etl__provider *base, unsigned threads) {
    struct partition_provider *provider = (struct partition_provider *)base;
    provider->threads = threads;
}
