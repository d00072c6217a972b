/* provider_memory.c: the pairs of a sealed buffer, in order, by reference into its arena.
 *
 * A buffer that was collected in ascending order has no index: its extents are the windows, as
 * they are. Otherwise the whole index is one window. Nothing is copied, and nothing is written to
 * the buffer, so several threads may read. */
#include "provider_memory.h"
#include "provider_partition.h"

enum { STRETCHES = 64, WEIGHED = 16 /* records of each */ };

struct memory_provider {
    struct etl__provider base;
    const struct etl__buffer *buffer;
    struct etl__memory *memory;
    size_t extent;   /* the next to be shown, where there is no index */
    double *weights; /* of the index's stretches, once samples were asked for */
    double weight;   /* of all */
};

static bool is_indexed(const struct etl__buffer *buffer) {
    return (buffer->order & ETL__ASCENDING) == 0;
}

static int memory_refill(struct etl__provider *base, uint64_t need, struct etl__error *error) {
    struct memory_provider *provider = (struct memory_provider *)base;
    (void)need; /* records never straddle extents */
    (void)error;
    const struct etl__buffer *buffer = provider->buffer;
    if (is_indexed(buffer) || provider->extent == buffer->filled)
        return ETL_END;
    const struct etl__extent *extent = &buffer->extents[provider->extent++];
    base->at = extent->data;
    base->end = extent->data + extent->size;
    return ETL_OK;
}

static int compare_record(const uint8_t *record, const uint8_t *key, size_t size) {
    struct etl__pair pair;
    etl__record_view(record, &pair);
    return etl__key_compare(pair.key, pair.key_size, key, size);
}

static void seek_index(struct memory_provider *provider, const uint8_t *key, size_t size) {
    const struct etl__buffer *buffer = provider->buffer;
    size_t low = 0, high = (size_t)buffer->pairs;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const uint8_t *record = etl__slots_record(&buffer->table, buffer->index[middle].reference);
        if (compare_record(record, key, size) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    provider->base.entry = buffer->index + low;
    provider->base.entry_end = buffer->index + buffer->pairs;
}

/* The last extent that begins below the key may hold it: bisection over the extents, then record
 * by record. */
static void seek_extents(struct memory_provider *provider, const uint8_t *key, size_t size) {
    const struct etl__buffer *buffer = provider->buffer;
    size_t low = 0, high = buffer->filled;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare_record(buffer->extents[middle].data, key, size) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    provider->extent = low == 0 ? 0 : low - 1;
    provider->base.at = provider->base.end = NULL;
    if (memory_refill(&provider->base, 0, NULL) != ETL_OK)
        return;
    struct etl__provider *base = &provider->base;
    while (base->at < base->end && compare_record(base->at, key, size) < 0) {
        struct etl__pair pair;
        etl__record_view(base->at, &pair);
        base->at = pair.key + pair.key_size + pair.value_size;
    }
}

static int memory_seek(struct etl__provider *base, const uint8_t *key, size_t size,
                       struct etl__error *error) {
    struct memory_provider *provider = (struct memory_provider *)base;
    (void)error;
    if (is_indexed(provider->buffer))
        seek_index(provider, key, size);
    else
        seek_extents(provider, key, size);
    return ETL_OK;
}

static etl_slice key_of(const uint8_t *record) {
    struct etl__pair pair;
    etl__record_view(record, &pair);
    return etl_slice_of(pair.key, pair.key_size);
}

static int memory_bounds(struct etl__provider *base, etl_slice *first, etl_slice *last,
                         struct etl__error *error) {
    const struct etl__buffer *buffer = ((struct memory_provider *)base)->buffer;
    (void)error;
    if (buffer->pairs == 0)
        return ETL_END;
    if (is_indexed(buffer)) {
        const struct etl__entry *index = buffer->index;
        *first = key_of(etl__slots_record(&buffer->table, index[0].reference));
        *last = key_of(etl__slots_record(&buffer->table, index[buffer->pairs - 1].reference));
    } else {
        *first = key_of(buffer->extents[0].data);
        *last = etl_slice_of(buffer->last_key, buffer->last_key_size);
    }
    return ETL_OK;
}

/* The last record of an extent that begins at or before an offset: a walk. */
static const uint8_t *record_behind(const struct etl__extent *extent, size_t offset) {
    const uint8_t *at = extent->data, *end = at + extent->size;
    for (;;) {
        struct etl__pair pair;
        etl__record_view(at, &pair);
        const uint8_t *next = pair.key + pair.key_size + pair.value_size;
        if (next >= end || (size_t)(next - extent->data) > offset)
            return at;
        at = next;
    }
}

static uint64_t entry_bytes(const struct etl__buffer *buffer, size_t at) {
    struct etl__pair pair;
    etl__record_view(etl__slots_record(&buffer->table, buffer->index[at].reference), &pair);
    return 2 + (uint64_t)pair.key_size + pair.value_size;
}

static size_t stretch_count(const struct etl__buffer *buffer) {
    return buffer->pairs < STRETCHES ? (size_t)buffer->pairs : STRETCHES;
}

/* Stretches of the index are weighed by some records each: sizes may go with keys, and those of
 * neighbours may differ. */
static int weigh(struct memory_provider *provider, struct etl__error *error) {
    const struct etl__buffer *buffer = provider->buffer;
    size_t stretches = stretch_count(buffer), size = STRETCHES * sizeof *provider->weights;
    provider->weights = etl__alloc_zeroed(provider->memory, size);
    if (provider->weights == NULL)
        return etl__fail_memory(error, size, "a sample of keys");
    double step = (double)buffer->pairs / (double)(stretches * WEIGHED);
    for (size_t i = 0; i < stretches; i++) {
        for (size_t j = i * WEIGHED; j < (i + 1) * WEIGHED; j++)
            provider->weights[i] += (double)entry_bytes(buffer, (size_t)((double)j * step));
        provider->weight += provider->weights[i];
    }
    return ETL_OK;
}

/* The entry that has about this share of the bytes before it. */
static size_t entry_behind(const struct memory_provider *provider, double share) {
    size_t stretches = stretch_count(provider->buffer);
    double step = (double)provider->buffer->pairs / (double)stretches, passed = 0;
    for (size_t i = 0; i < stretches; i++) {
        double wanted = share * provider->weight - passed;
        if (wanted < provider->weights[i])
            return (size_t)(((double)i + wanted / provider->weights[i]) * step);
        passed += provider->weights[i];
    }
    return (size_t)provider->buffer->pairs - 1;
}

static int memory_sample(struct etl__provider *base, uint64_t part, uint64_t parts, etl_slice *key,
                         struct etl__error *error) {
    struct memory_provider *provider = (struct memory_provider *)base;
    const struct etl__buffer *buffer = provider->buffer;
    if (buffer->pairs == 0)
        return ETL_END;
    double share = (double)part / (double)parts;
    if (is_indexed(buffer)) {
        if (provider->weights == NULL)
            ETL__TRY(weigh(provider, error));
        size_t at = entry_behind(provider, share);
        *key = key_of(etl__slots_record(&buffer->table, buffer->index[at].reference));
        return ETL_OK;
    }
    uint64_t wanted = (uint64_t)(share * (double)base->bytes);
    size_t extent = 0;
    while (extent + 1 < buffer->filled && wanted >= buffer->extents[extent].size)
        wanted -= buffer->extents[extent++].size;
    *key = key_of(record_behind(&buffer->extents[extent], (size_t)wanted));
    return ETL_OK;
}

static void memory_close(struct etl__provider *base) {
    struct memory_provider *provider = (struct memory_provider *)base;
    if (provider->weights != NULL)
        etl__free(provider->memory, provider->weights, STRETCHES * sizeof *provider->weights);
    etl__free(provider->memory, provider, sizeof *provider);
}

int etl__provider_memory_open(struct etl__provider **out, const struct etl__buffer *buffer,
                              struct etl__memory *memory, struct etl__error *error) {
    if (buffer->partition != NULL)
        return etl__provider_partition_open(out, buffer, NULL, memory, error);
    struct memory_provider *provider = etl__alloc_zeroed(memory, sizeof *provider);
    if (provider == NULL)
        return etl__fail_memory(error, sizeof *provider, "reading a buffer");
    provider->buffer = buffer;
    provider->memory = memory;
    provider->base = (struct etl__provider){.refill = memory_refill,
                                            .seek = memory_seek,
                                            .bounds = memory_bounds,
                                            .sample = memory_sample,
                                            .bytes = etl__buffer_record_bytes(buffer),
                                            .close = memory_close,
                                            .stays = true,
                                            .slots = buffer->table,
                                            .pairs = buffer->pairs};
    if (is_indexed(buffer)) {
        provider->base.entry = buffer->index;
        provider->base.entry_end = buffer->index + buffer->pairs;
    }
    *out = &provider->base;
    return ETL_OK;
}
