/* collector.c: the public life cycle: options, states, collecting, statistics.
 *
 * The common call is etl_collect into a buffer with room: one look at `attention` and the cancel
 * flag says that nothing else is to be done, the record is written behind the last one, and the
 * call returns. Everything that happens rarely (a round that begins, a reserved pair, an open
 * iterator, a full buffer) stands behind those two looks and the buffer's end. */
#include "durable.h"
#include "handle.h"

#include <stdio.h>

#define DEFAULT_LIMIT ((size_t)256 << 20)
#define LEAST_LIMIT   ((size_t)1 << 20)
#define MOST_LIMIT    (SIZE_MAX / 4)
#define MOST_THREADS  64
#define SHORT         126 /* bytes of a key or value whose lengths and copies are simple */

/* ---- Life ---- */

static int check_options(const etl_options *options, struct etl__error *error) {
    int duplicates = (int)options->duplicates, access = (int)options->access;
    if (duplicates < ETL_KEEP_ALL || duplicates > ETL_REJECT)
        return etl__fail(error, ETL_E_INVALID, "duplicates: %d is no etl_duplicates", duplicates);
    if (access < ETL_ACCESS_MMAP || access > ETL_ACCESS_MMAP_ALL)
        return etl__fail(error, ETL_E_INVALID, "access: %d is no etl_access", access);
    if (options->duplicates == ETL_REDUCE && options->reduce == NULL)
        return etl__fail(error, ETL_E_INVALID, "reduce: ETL_REDUCE needs a callback");
    if (options->threads < ETL_THREADS_NONE || options->threads > MOST_THREADS)
        return etl__fail(error, ETL_E_INVALID, "threads: %d is not between -1 and %d",
                         options->threads, MOST_THREADS);
    if (options->merge_width == 1)
        return etl__fail(error, ETL_E_INVALID, "merge_width: 1 run cannot be merged");
    if (options->pool != NULL && options->allocator.resize != NULL)
        return etl__fail(error, ETL_E_INVALID, "allocator: with a pool, the pool's is used");
    return ETL_OK;
}

/* The options in full: a struct of an older header has fewer, and 0 means the default. */
static int complete_options(etl_options *complete, const etl_options *options,
                            struct etl__error *error) {
    memset(complete, 0, sizeof *complete);
    if (options != NULL && !etl__take_struct(complete, sizeof *complete, options))
        return etl__fail(error, ETL_E_INVALID, "struct_size: %zu, of which this version knows %zu",
                         options->struct_size, sizeof *options);
    if (complete->memory_limit == 0)
        complete->memory_limit = DEFAULT_LIMIT;
    if (complete->memory_limit < LEAST_LIMIT)
        complete->memory_limit = LEAST_LIMIT;
    if (complete->memory_limit > MOST_LIMIT)
        complete->memory_limit = MOST_LIMIT;
    ETL__TRY(check_options(complete, error));
    if (complete->pool != NULL) {
        size_t limit = etl__pool_limit(complete->pool);
        complete->allocator = *etl__pool_allocator(complete->pool);
        complete->memory_limit = complete->memory_limit < limit ? complete->memory_limit : limit;
    }
    return ETL_OK;
}

/* The collector itself is allocated before its memory account exists, and freed after. */
static struct etl__memory own_memory(const etl_allocator *allocator) {
    struct etl__memory memory;
    etl__memory_init(&memory, allocator, SIZE_MAX);
    return memory;
}

int etl__collector_create(etl_collector **out, const etl_options *options, const char *directory,
                          struct etl__error *error) {
    etl_options complete;
    struct etl__durable *durable = NULL;
    const char *only[] = {NULL, NULL};
    *out = NULL;
    ETL__TRY(complete_options(&complete, options, error));
    if (directory != NULL) {
        ETL__TRY(etl__durable_open(&durable, &complete.allocator, directory, error));
        only[0] = durable->directory;
        complete.temp_dirs = only;
        if (complete.access == ETL_ACCESS_MMAP) /* all its runs will have names */
            complete.access = ETL_ACCESS_READ;
    }
    struct etl__memory memory = own_memory(&complete.allocator);
    etl_collector *collector = etl__alloc_zeroed(&memory, sizeof *collector);
    if (collector == NULL) {
        etl__durable_close(durable);
        return etl__fail_memory(error, sizeof *collector, "a collector");
    }
    collector->durable = durable;
    collector->process = etl__os_process_id();
    collector->attention = ETL__ROUND_OVER;
    atomic_flag_clear(&collector->error_lock);
    int status = etl__store_init(&collector->store, &complete, error);
    if (status != ETL_OK) {
        etl_collector_destroy(collector);
        return status;
    }
    *out = collector;
    return ETL_OK;
}

int etl_collector_create_message(etl_collector **out, const etl_options *options, char *message,
                                 size_t size) {
    struct etl__error error = {.text = ""};
    int status = out != NULL
                     ? etl__collector_create(out, options, NULL, &error)
                     : etl__fail(&error, ETL_E_INVALID, "out: NULL, nowhere to put a collector");
    if (message != NULL && size != 0)
        (void)snprintf(message, size, "%s", error.text);
    return status;
}

int etl_collector_create(etl_collector **out, const etl_options *options) {
    return etl_collector_create_message(out, options, NULL, 0);
}

void etl_collector_destroy(etl_collector *collector) {
    if (collector == NULL || collector->process != etl__os_process_id())
        return;
    etl_allocator allocator = collector->store.memory.heap.hook;
    etl__iter_end_all(collector);
    etl__split_free(collector);
    atomic_store(&collector->store.cancel, 1); /* what threads are writing is not wanted */
    etl__store_end(&collector->store);
    etl__durable_close(collector->durable);
    struct etl__memory memory = own_memory(&allocator);
    etl__free(&memory, collector, sizeof *collector);
    etl__memory_end(&memory);
}

/* ---- States ---- */

/* A pair that was reserved has been written by now: it counts. */
static void commit_pending(struct etl_collector *collector) {
    if ((collector->attention & ETL__PENDING) == 0)
        return;
    collector->attention &= ~(unsigned)ETL__PENDING;
    etl__buffer_commit(&collector->store.filling->buffer, collector->pending_key,
                       collector->pending_key_size);
}

static int enter(struct etl_collector *collector, bool iterating) {
    struct etl__error *error = &collector->error;
    if ((collector->attention & ETL__ACTIVE) != 0)
        return etl__fail(error, ETL_E_STATE, "called from a callback of this collector");
    if ((collector->attention & ETL__ITERATING) != 0 && !iterating)
        return etl__fail(error, ETL_E_STATE, "an iterator is open: close it first");
    commit_pending(collector);
    if (atomic_load_explicit(&collector->store.cancel, memory_order_relaxed) != 0)
        return etl__fail(error, ETL_E_CANCELLED, "cancelled, until etl_resume or etl_reset");
    collector->attention |= ETL__ACTIVE;
    return ETL_OK;
}

static int check_distinct(etl_collector *const *collectors, size_t count) {
    for (size_t i = 1; i < count; i++)
        for (size_t j = 0; j < i; j++)
            if (collectors[i] == collectors[j])
                return etl__fail(&collectors[0]->error, ETL_E_INVALID,
                                 "collectors %zu and %zu are the same", j, i);
    return ETL_OK;
}

int etl__enter(etl_collector *const *collectors, size_t count, bool iterating) {
    ETL__TRY(check_distinct(collectors, count));
    for (size_t i = 0; i < count; i++) {
        int status = enter(collectors[i], iterating);
        if (status == ETL_OK)
            continue;
        if (i != 0)
            etl__keep_error(collectors[0], &collectors[i]->error);
        (void)etl__leave(collectors, i, status);
        return status;
    }
    return ETL_OK;
}

int etl__leave(etl_collector *const *collectors, size_t count, int status) {
    for (size_t i = 0; i < count; i++)
        collectors[i]->attention &= ~(unsigned)ETL__ACTIVE;
    return count != 0 ? etl__public_status(&collectors[0]->error, status) : status;
}

static inline void store_count(_Atomic(uint64_t) *counter, uint64_t value) {
    atomic_store_explicit(counter, value, memory_order_relaxed);
}

static inline uint64_t count_of(const _Atomic(uint64_t) *counter) {
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static void zero_counters(struct etl_collector *collector) {
    struct etl__store *store = &collector->store;
    store_count(&collector->pairs, 0);
    store_count(&collector->key_bytes, 0);
    store_count(&collector->value_bytes, 0);
    store_count(&store->target.written, 0);
    store_count(&store->spiller.runs, 0);
    store_count(&store->spiller.spill_ns, 0);
    store_count(&store->runs.merge_ns, 0);
    store_count(&store->runs.passes, 0);
    store_count(&store->sort_ns, 0);
    store_count(&store->wait_ns, 0);
    store_count(&store->merge_ns, 0);
}

void etl__begin_round(struct etl_collector *collector) {
    collector->attention &= ~(unsigned)ETL__ROUND_OVER;
    zero_counters(collector);
    etl__watch_start(&collector->store.watch);
    etl__store_begin_round(&collector->store);
}

void etl__end_round(struct etl_collector *collector) {
    etl__split_free(collector);
    etl__store_clear(&collector->store);
    collector->attention |= ETL__ROUND_OVER;
}

void etl__keep_error(struct etl_collector *collector, const struct etl__error *error) {
    while (atomic_flag_test_and_set_explicit(&collector->error_lock, memory_order_acquire))
        ;
    memcpy(collector->error.text, error->text, sizeof error->text);
    atomic_flag_clear_explicit(&collector->error_lock, memory_order_release);
}

const char *etl_collector_message(const etl_collector *collector) {
    return collector != NULL ? collector->error.text : "no collector";
}

int etl_reset(etl_collector *collector) {
    if (collector == NULL)
        return ETL_E_INVALID;
    if ((collector->attention & (ETL__ACTIVE | ETL__ITERATING)) != 0)
        return etl__fail(&collector->error, ETL_E_STATE,
                         "reset: an iterator is open, or called from a callback");
    collector->attention &= ~(unsigned)ETL__PENDING;
    etl__end_round(collector);
    zero_counters(collector);
    etl_resume(collector);
    return ETL_OK;
}

void etl_cancel(etl_collector *collector) {
    if (collector != NULL)
        atomic_store(&collector->store.cancel, 1);
}

void etl_resume(etl_collector *collector) {
    if (collector != NULL)
        atomic_store(&collector->store.cancel, 0);
}

/* ---- Collecting ---- */

static inline void count_pair(struct etl_collector *collector, size_t key_size,
                              size_t value_size) {
    store_count(&collector->pairs, count_of(&collector->pairs) + 1);
    store_count(&collector->key_bytes, count_of(&collector->key_bytes) + key_size);
    store_count(&collector->value_bytes, count_of(&collector->value_bytes) + value_size);
}

static int check_pair(struct etl_collector *collector, etl_slice key, etl_slice value) {
    struct etl__error *error = &collector->error;
    if (!etl__is_slice(key) || !etl__is_slice(value))
        return etl__fail(error, ETL_E_INVALID, "%s: NULL data with a size of %zu",
                         etl__is_slice(key) ? "value" : "key",
                         etl__is_slice(key) ? value.size : key.size);
    if (key.size > ETL_SIZE_MAX || value.size > ETL_SIZE_MAX)
        return etl__fail(error, ETL_E_TOO_LARGE, "%s of %zu bytes: the most is %llu",
                         key.size > ETL_SIZE_MAX ? "key" : "value",
                         key.size > ETL_SIZE_MAX ? key.size : value.size,
                         (unsigned long long)ETL_SIZE_MAX);
    return ETL_OK;
}

/* Everything that may stand before a pair; afterwards there is room for `size` bytes, or ETL_END
 * says that the limit has none for so large a pair. */
static int prepare_pair(struct etl_collector *collector, etl_slice key, size_t size) {
    struct etl__store *store = &collector->store;
    struct etl__bucket *bucket;
    ETL__TRY(etl__enter(&collector, 1, false));
    if ((collector->attention & ETL__ROUND_OVER) != 0)
        etl__begin_round(collector);
    int status = ETL_OK;
    if (!etl__buffer_has_room(&store->filling->buffer, key.data, key.size, size, &bucket)) {
        etl__watch_enter(&store->watch, ETL_COLLECTING, count_of(&collector->pairs), 0,
                         count_of(&collector->key_bytes) + count_of(&collector->value_bytes), 0);
        status = etl__watch_tick(&store->watch, &collector->error);
        if (status == ETL_OK)
            status = etl__store_make_room(store, key, size, &collector->error);
    }
    return etl__leave(&collector, 1, status);
}

static int write_through(struct etl_collector *collector, etl_slice key, etl_slice value) {
    struct etl__pair pair = {.key = key.data,
                             .value = value.data,
                             .key_size = (uint32_t)key.size,
                             .value_size = (uint32_t)value.size};
    ETL__TRY(etl__enter(&collector, 1, false));
    int status = etl__store_write_through(&collector->store, &pair, &collector->error);
    return etl__leave(&collector, 1, status);
}

static bool needs_attention(const struct etl_collector *collector) {
    return (collector->attention != 0) |
           (atomic_load_explicit(&collector->store.cancel, memory_order_relaxed) != 0);
}

/* Whatever etl_collect may meet. */
static ETL__NOINLINE int collect_any(etl_collector *collector, etl_slice key, etl_slice value) {
    static const uint8_t empty[1];
    if (collector == NULL)
        return ETL_E_INVALID;
    ETL__TRY(check_pair(collector, key, value));
    if (key.data == NULL)
        key.data = empty;
    uint64_t code = etl__value_code(value.data == NULL, value.size);
    size_t size = etl__record_head_size(key.size, code) + key.size + value.size;
    struct etl__buffer *buffer = &collector->store.filling->buffer;
    struct etl__bucket *bucket;
    if (needs_attention(collector) ||
        !etl__buffer_has_room(buffer, key.data, key.size, size, &bucket)) {
        int status = prepare_pair(collector, key, size);
        if (status == ETL_END) {
            ETL__TRY(write_through(collector, key, value));
            count_pair(collector, key.size, value.size);
            return ETL_OK;
        }
        if (status != ETL_OK)
            return status;
        buffer = &collector->store.filling->buffer;
        (void)etl__buffer_has_room(buffer, key.data, key.size, size, &bucket);
    }
    uint8_t *to = bucket == NULL ? etl__buffer_place(buffer, key.size, code, value.size)
                                 : etl__bucket_place(buffer, bucket, key.size, code, value.size);
    etl__copy(to, key.data, key.size);
    if (value.size != 0)
        etl__copy(to + key.size, value.data, value.size);
    if (bucket == NULL)
        etl__buffer_commit(buffer, to, key.size);
    count_pair(collector, key.size, value.size);
    return ETL_OK;
}

/* A short pair, behind the last one. */
static ETL__NOINLINE int collect_behind(etl_collector *collector, etl_slice key, etl_slice value) {
    struct etl__buffer *buffer = &collector->store.filling->buffer;
    if (ETL__UNLIKELY(2 + key.size + value.size > (size_t)(buffer->end - buffer->at)))
        return collect_any(collector, key, value);
    uint8_t *to = etl__buffer_place(buffer, key.size, value.size + 1, value.size);
    etl__copy_short(to, key.data, key.size);
    etl__copy_short(to + key.size, value.data, value.size);
    etl__buffer_commit(buffer, to, key.size);
    count_pair(collector, key.size, value.size);
    return ETL_OK;
}

/* Short pairs whose bucket has room go the way without a call, for which nothing is to be saved. */
int etl_collect(etl_collector *collector, etl_slice key, etl_slice value) {
    if (ETL__UNLIKELY(collector == NULL || key.data == NULL || value.data == NULL ||
                      key.size > SHORT || value.size > SHORT || needs_attention(collector)))
        return collect_any(collector, key, value);
    struct etl__buffer *buffer = &collector->store.filling->buffer;
    if (buffer->partition == NULL)
        return collect_behind(collector, key, value);
    struct etl__bucket *bucket = etl__buffer_find_bucket(buffer, key.data, key.size);
    if (ETL__UNLIKELY(bucket == NULL ||
                      2 + key.size + value.size > (size_t)(bucket->end - bucket->at)))
        return collect_any(collector, key, value);
    uint8_t *to = etl__bucket_place(buffer, bucket, key.size, value.size + 1, value.size);
    etl__copy_short(to, key.data, key.size);
    etl__copy_short(to + key.size, value.data, value.size);
    count_pair(collector, key.size, value.size);
    return ETL_OK;
}

/* Room for a pair whose key is not known yet. */
static int prepare_reserved(struct etl_collector *collector, size_t size) {
    const struct etl__store *store = &collector->store;
    if (store->may_deal || store->filling->buffer.partition != NULL) {
        ETL__TRY(etl__enter(&collector, 1, false));
        int status = etl__store_stop_dealing(&collector->store, &collector->error);
        ETL__TRY(etl__leave(&collector, 1, status));
    }
    return prepare_pair(collector, etl_slice_of("", 0), size);
}

static int make_room_over_limit(struct etl_collector *collector, size_t size) {
    ETL__TRY(etl__enter(&collector, 1, false));
    int status = etl__store_make_room_over_limit(&collector->store, size, &collector->error);
    return etl__leave(&collector, 1, status);
}

int etl_reserve(etl_collector *collector, size_t key_size, size_t value_size, void **key,
                void **value) {
    if (collector == NULL)
        return ETL_E_INVALID;
    if (key == NULL || (value == NULL && value_size != 0))
        return etl__fail(&collector->error, ETL_E_INVALID, "reserve: nowhere to put the %s",
                         key == NULL ? "key" : "value");
    ETL__TRY(check_pair(collector, etl_slice_of("", key_size), etl_slice_of("", value_size)));
    uint64_t code = etl__value_code(value == NULL, value_size);
    size_t size = etl__record_head_size(key_size, code) + key_size + value_size;
    int status = prepare_reserved(collector, size);
    if (status == ETL_END)
        status = make_room_over_limit(collector, size);
    if (status != ETL_OK)
        return status;
    uint8_t *to = etl__buffer_place(&collector->store.filling->buffer, key_size, code, value_size);
    *key = to;
    if (value != NULL)
        *value = to + key_size;
    collector->pending_key = to;
    collector->pending_key_size = key_size;
    collector->attention |= ETL__PENDING;
    count_pair(collector, key_size, value_size);
    return ETL_OK;
}

int etl_flush(etl_collector *collector) {
    if (collector == NULL)
        return ETL_E_INVALID;
    ETL__TRY(etl__enter(&collector, 1, false));
    int status = etl__store_flush(&collector->store, &collector->error);
    return etl__leave(&collector, 1, status);
}

/* ---- Statistics ---- */

int etl_collector_stats(const etl_collector *collector, etl_stats *stats) {
    if (collector == NULL || stats == NULL || stats->struct_size < sizeof stats->struct_size)
        return ETL_E_INVALID;
    const struct etl__store *store = &collector->store;
    etl_stats now = {
        .struct_size = stats->struct_size,
        .pairs = count_of(&collector->pairs),
        .key_bytes = count_of(&collector->key_bytes),
        .value_bytes = count_of(&collector->value_bytes),
        .runs = count_of(&store->spiller.runs),
        .spilled_bytes = count_of(&store->target.written),
        .merge_passes = count_of(&store->runs.passes),
        .memory_bytes = atomic_load_explicit(&store->memory.used, memory_order_relaxed),
        .memory_bytes_peak = atomic_load_explicit(&store->memory.peak, memory_order_relaxed),
        .disk_bytes = count_of(&store->target.disk.used),
        .disk_bytes_peak = count_of(&store->target.disk.peak),
        .sort_ns = count_of(&store->sort_ns),
        .spill_ns = count_of(&store->spiller.spill_ns),
        .merge_ns = count_of(&store->merge_ns) + count_of(&store->runs.merge_ns),
        .wait_ns = count_of(&store->wait_ns),
        .allocations = count_of(&store->memory.allocations),
    };
    size_t size = stats->struct_size < sizeof now ? stats->struct_size : sizeof now;
    memcpy(stats, &now, size);
    return ETL_OK;
}
