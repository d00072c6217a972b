/* iter.c: pull: one pair a call, over one merge that belongs to the iterator.
 *
 * Nothing that an iterator reads is changed while it is open, so any number may read at once, each
 * on a thread of its own: providers, heap and buffers are the iterator's. A collector knows its
 * iterators, since destroying it ends them; an iterator over several collectors is on the list of
 * each. */
#include "handle.h"

struct etl__iter_link {
    struct etl__iter_link *next; /* in the collector's list */
    etl_iter *iter;
    etl_collector *collector; /* NULL once it was destroyed */
};

struct etl_iter {
    struct etl__memory memory; /* for what outlives the collectors: the iterator itself */
    struct etl__merge merge;
    struct etl__ahead ahead; /* unless it seeks */
    struct etl__output output;
    struct etl__error error;
    struct etl_bytes from, to, sought;
    bool over;   /* until a seek */
    bool orphan; /* a collector was destroyed */
    size_t count;
    struct etl__iter_link links[];
};

static size_t iter_size(size_t count) {
    return sizeof(etl_iter) + count * sizeof(struct etl__iter_link);
}

static void link_iter(etl_iter *iter) {
    for (size_t i = 0; i < iter->count; i++) {
        struct etl__iter_link *link = &iter->links[i];
        link->next = link->collector->iterators;
        link->collector->iterators = link;
        link->collector->attention |= ETL__ITERATING;
    }
}

static void unlink_iter(etl_iter *iter) {
    for (size_t i = 0; i < iter->count; i++) {
        struct etl__iter_link *link = &iter->links[i];
        struct etl__iter_link **at = &link->collector->iterators;
        while (*at != link)
            at = &(*at)->next;
        *at = link->next;
        if (link->collector->iterators == NULL)
            link->collector->attention &= ~(unsigned)ETL__ITERATING;
    }
}

/* Give back what is the collectors'. */
static void detach(etl_iter *iter) {
    etl__ahead_close(&iter->ahead);
    etl__output_close(&iter->output);
    etl__merge_close(&iter->merge);
    unlink_iter(iter);
    iter->orphan = true;
}

void etl__iter_end_all(struct etl_collector *collector) {
    while (collector->iterators != NULL)
        detach(collector->iterators->iter);
}

static int keep_range(etl_iter *iter, const etl_range *range) {
    if (range == NULL)
        return ETL_OK;
    ETL__TRY(etl_bytes_append(&iter->from, range->from.data, range->from.size));
    return etl_bytes_append(&iter->to, range->to.data, range->to.size);
}

static int make_iter(etl_iter **out, etl_collector *const *collectors, size_t count,
                     const etl_range *range, struct etl__error *error) {
    const etl_allocator *hook = &collectors[0]->store.memory.heap.hook;
    struct etl__memory memory;
    etl__memory_init(&memory, hook, SIZE_MAX);
    etl_iter *iter = etl__alloc_zeroed(&memory, iter_size(count));
    if (iter == NULL)
        return etl__fail_memory(error, iter_size(count), "an iterator");
    etl__memory_init(&iter->memory, hook, SIZE_MAX);
    iter->count = count;
    for (size_t i = 0; i < count; i++)
        iter->links[i] = (struct etl__iter_link){.iter = iter, .collector = collectors[i]};
    etl__bytes_init(&iter->from, &iter->memory);
    etl__bytes_init(&iter->to, &iter->memory);
    etl__bytes_init(&iter->sought, &iter->memory);
    *out = iter;
    int status = keep_range(iter, range);
    return status == ETL_OK ? ETL_OK
                            : etl__fail(error, status, "iterating: the range cannot be kept: %s",
                                        etl_status_string(status));
}

static void free_iter(etl_iter *iter) {
    struct etl__memory memory;
    etl__bytes_end(&iter->from);
    etl__bytes_end(&iter->to);
    etl__bytes_end(&iter->sought);
    etl__memory_end(&iter->memory);
    etl__memory_init(&memory, &iter->memory.heap.hook, SIZE_MAX);
    etl__free(&memory, iter, iter_size(iter->count));
    etl__memory_end(&memory);
}

static bool is_behind_range(const etl_iter *iter, const uint8_t *key, size_t size) {
    return iter->output.bound.is_set &&
           etl__key_compare(key, size, iter->to.data, iter->to.size) >= 0;
}

static int open_entered(etl_iter **out, etl_collector *const *collectors, size_t count,
                        const etl_range *range) {
    struct etl__error *error = &collectors[0]->error;
    etl_iter *iter = NULL;
    int status = make_iter(&iter, collectors, count, range, error);
    if (status == ETL_OK)
        status = etl__open_merge(&iter->merge, collectors, count, &iter->ahead);
    if (status != ETL_OK) {
        if (iter != NULL)
            free_iter(iter);
        return status;
    }
    struct etl__store *store = &collectors[0]->store;
    etl__output_open(&iter->output, &store->memory, &iter->merge, &store->rules);
    if (range != NULL && range->to.data != NULL)
        etl__output_bound(&iter->output, etl__bytes_slice(&iter->to));
    link_iter(iter);
    if (iter->from.size != 0)
        status = etl__output_seek(&iter->output, iter->from.data, iter->from.size, error);
    if (status != ETL_OK) {
        etl_iter_close(iter);
        return status;
    }
    iter->merge.counting = range == NULL;
    *out = iter;
    return ETL_OK;
}

int etl_iter_open_many(etl_iter **out, etl_collector *const *collectors, size_t count,
                       const etl_range *range) {
    if (out == NULL)
        return ETL_E_INVALID;
    *out = NULL;
    if (count == 0 || !etl__are_collectors(collectors, count))
        return ETL_E_INVALID;
    if (range != NULL && (!etl__is_slice(range->from) || !etl__is_slice(range->to)))
        return etl__fail(&collectors[0]->error, ETL_E_INVALID,
                         "iterating: a range with NULL data and a size");
    ETL__TRY(etl__enter(collectors, count, true));
    int status = open_entered(out, collectors, count, range);
    return etl__leave(collectors, count, status);
}

int etl_iter_open(etl_iter **out, etl_collector *collector, const etl_range *range) {
    return etl_iter_open_many(out, &collector, 1, range);
}

/* A failure's text goes to the first collector, where the caller looks for it. */
static int fail_iter(etl_iter *iter, int status) {
    etl__keep_error(iter->links[0].collector, &iter->error);
    return etl__public_status(&iter->error, status);
}

static ETL__INLINE int check_alive(etl_iter *iter) {
    if (ETL__UNLIKELY(iter->orphan))
        return ETL_E_STATE;
    for (size_t i = 0; i < iter->count; i++)
        if (ETL__UNLIKELY(atomic_load_explicit(&iter->links[i].collector->store.cancel,
                                               memory_order_relaxed) != 0))
            return fail_iter(iter, etl__fail(&iter->error, ETL_E_CANCELLED,
                                             "cancelled, until etl_resume or etl_reset"));
    return ETL_OK;
}

int etl_iter_next(etl_iter *iter, etl_slice *key, etl_slice *value) {
    const struct etl__pair *pair;
    if (iter == NULL)
        return ETL_E_INVALID;
    ETL__TRY(check_alive(iter));
    if (iter->over)
        return ETL_END;
    int status = etl__output_next(&iter->output, &pair, &iter->error);
    if (ETL__UNLIKELY(status != ETL_OK)) {
        iter->over = status == ETL_END;
        return status == ETL_END ? ETL_END : fail_iter(iter, status);
    }
    if (key != NULL)
        *key = etl_slice_of(pair->key, pair->key_size);
    if (value != NULL)
        *value = etl_slice_of(pair->value, pair->value_size);
    return ETL_OK;
}

/* The key may be one that this iterator handed out, which seeking overwrites. */
static int keep_sought(etl_iter *iter, etl_slice key) {
    const struct etl_bytes *from = &iter->from;
    if (etl__key_compare(key.data, key.size, from->data, from->size) < 0)
        key = etl__bytes_slice(from);
    iter->sought.size = 0;
    int status = etl_bytes_append(&iter->sought, key.data, key.size);
    return status == ETL_OK
               ? ETL_OK
               : fail_iter(iter, etl__fail(&iter->error, status, "seeking: a key of %zu bytes: %s",
                                           key.size, etl_status_string(status)));
}

int etl_iter_seek(etl_iter *iter, etl_slice key) {
    if (iter == NULL || !etl__is_slice(key))
        return ETL_E_INVALID;
    ETL__TRY(check_alive(iter));
    ETL__TRY(keep_sought(iter, key));
    iter->over = is_behind_range(iter, iter->sought.data, iter->sought.size);
    if (iter->over)
        return ETL_OK;
    etl_slice sought = etl__bytes_slice(&iter->sought);
    int status = etl__output_seek(&iter->output, sought.data, sought.size, &iter->error);
    return status == ETL_OK ? ETL_OK : fail_iter(iter, status);
}

void etl_iter_close(etl_iter *iter) {
    if (iter == NULL)
        return;
    if (!iter->orphan)
        detach(iter);
    free_iter(iter);
}
