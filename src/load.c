/* load.c: push: every pair through a callback, over one merge.
 *
 * Where there may be threads and the runs are mapped, one takes its share of the merge (ranges.c).
 *
 * Nothing is consumed until the last pair has been delivered and counted: providers only read, and
 * what they read is dropped when the merge has ended well. */
#include "handle.h"
#include "os.h"

enum {
    LOADED_A_TICK = 256,
    SHARE_SLACK = 512 * 1024 /* what a second merge takes beside ordering */
};

/* Providers over all that the collectors hold, the first collector's first. */
static int open_providers(etl_collector *const *collectors, size_t count,
                          struct etl__provider **providers, size_t *opened,
                          struct etl__ahead *ahead, struct etl__error *error) {
    *opened = 0;
    for (size_t i = 0; i < count; i++)
        ETL__TRY(
            etl__store_open_providers(&collectors[i]->store, 1, providers, opened, ahead, error));
    return ETL_OK;
}

static int check_rules(etl_collector *const *collectors, size_t count, struct etl__error *error) {
    const struct etl__rules *first = &collectors[0]->store.rules;
    for (size_t i = 1; i < count; i++) {
        const struct etl__rules *rules = &collectors[i]->store.rules;
        if (rules->duplicates != first->duplicates || rules->order_values != first->order_values)
            return etl__fail(error, ETL_E_INVALID,
                             "collectors 0 and %zu differ in duplicates or order_values", i);
    }
    return ETL_OK;
}

/* What is read by iterators already was prepared for them, and must stay as it is. */
static int prepare(etl_collector *const *collectors, size_t count, size_t *sources,
                   struct etl__error *error) {
    *sources = 0;
    for (size_t i = 0; i < count; i++) {
        if (collectors[i]->iterators == NULL)
            ETL__TRY(etl__store_prepare(&collectors[i]->store, error));
        *sources += etl__store_sources(&collectors[i]->store);
    }
    return ETL_OK;
}

static int open_prepared(struct etl__merge *merge, etl_collector *const *collectors, size_t count,
                         size_t sources, struct etl__ahead *ahead) {
    struct etl__store *first = &collectors[0]->store;
    struct etl__error *error = &collectors[0]->error;
    size_t size = (sources + 1) * sizeof(struct etl__provider *), opened;
    struct etl__provider **providers = etl__alloc(&first->memory, size);
    if (providers == NULL)
        return etl__fail_memory(error, size, "merging");
    int status = open_providers(collectors, count, providers, &opened, ahead, error);
    if (status == ETL_OK)
        status = etl__merge_open(merge, &first->memory, providers, opened,
                                 first->rules.order_values, &first->cancel, error);
    else
        for (size_t i = 0; i < opened; i++)
            providers[i]->close(providers[i]);
    etl__free(&first->memory, providers, size);
    return status;
}

int etl__open_merge(struct etl__merge *merge, etl_collector *const *collectors, size_t count,
                    struct etl__ahead *ahead) {
    struct etl__store *first = &collectors[0]->store;
    size_t sources;
    ETL__TRY(check_rules(collectors, count, &collectors[0]->error));
    ETL__TRY(prepare(collectors, count, &sources, &collectors[0]->error));
    if (ahead != NULL)
        etl__ahead_open(ahead, &first->memory, first->runs.may_thread ? sources : 0);
    int status = open_prepared(merge, collectors, count, sources, ahead);
    if (status != ETL_OK && ahead != NULL)
        etl__ahead_close(ahead);
    return status;
}

/* Progress is told for the first collector; any of them may be cancelled. */
static int tick_all(etl_collector *const *collectors, size_t count) {
    struct etl__error *error = &collectors[0]->error;
    for (size_t i = 1; i < count; i++)
        if (atomic_load_explicit(&collectors[i]->store.cancel, memory_order_relaxed) != 0)
            return etl__fail(error, ETL_E_CANCELLED, "collector %zu was cancelled", i);
    return etl__watch_tick(&collectors[0]->store.watch, error);
}

/* After each pair: the callback may take its time, and pairs may be large. */
static bool any_cancelled(etl_collector *const *collectors, size_t count) {
    int cancelled = 0;
    for (size_t i = 0; i < count; i++)
        cancelled |= atomic_load_explicit(&collectors[i]->store.cancel, memory_order_relaxed);
    return cancelled != 0;
}

/* All pairs to the callback; ETL_OK after the last one. */
static int deliver(struct etl__output *output, etl_collector *const *collectors, size_t count,
                   etl_load_fn *load, void *context) {
    struct etl__error *error = &collectors[0]->error;
    etl_progress *progress = &collectors[0]->store.watch.state;
    const struct etl__pair *pair;
    uint64_t ticked = 0, bytes = 0;
    int status;
    while ((status = etl__output_next(output, &pair, error)) == ETL_OK) {
        bytes += (uint64_t)pair->key_size + pair->value_size;
        int answer = load(context, etl_slice_of(pair->key, pair->key_size),
                          etl_slice_of(pair->value, pair->value_size));
        if (ETL__UNLIKELY(answer != 0))
            return etl__fail_callback(error, answer, "load");
        if (ETL__UNLIKELY(etl__output_passed(output) - ticked >= LOADED_A_TICK ||
                          any_cancelled(collectors, count))) {
            ticked = etl__output_passed(output);
            progress->pairs_done = ticked;
            progress->bytes_done = bytes;
            ETL__TRY(tick_all(collectors, count));
        }
    }
    return status == ETL_END ? ETL_OK : status;
}

/* Is there memory for ranges and a second merge over what the collectors hold? Only for runs: where
 * all is in memory, buckets are ordered ahead. */
static bool may_share(etl_collector *const *collectors, size_t count, size_t ranges) {
    struct etl__store *first = &collectors[0]->store;
    size_t runs = 0, needed = ranges + SHARE_SLACK;
    for (size_t i = 0; i < count; i++) {
        runs += collectors[i]->store.runs.count;
        needed += etl__store_order_bytes(&collectors[i]->store);
    }
    return runs != 0 && first->memory.pool == NULL && first->runs.may_thread &&
           first->rules.duplicates == ETL_KEEP_ALL && etl__arena_make_room(&first->arena, needed);
}

/* Where it pays the merge is shared with a thread, which takes the second one; else *ranges is
 * NULL. */
static int share(etl_collector *const *collectors, size_t count, struct etl__merge *merge,
                 struct etl__merge *second, struct etl__ranges **ranges) {
    struct etl__ranges_plan plan = etl__ranges_plan(merge);
    *ranges = NULL;
    if (plan.ranges == 0 || !may_share(collectors, count, plan.bytes))
        return ETL_OK;
    int status = open_prepared(second, collectors, count, merge->provider_count, NULL);
    if (status == ETL_OK) {
        status = etl__ranges_open(ranges, &plan, merge, second, &collectors[0]->error);
        if (*ranges == NULL)
            etl__merge_close(second);
    }
    return status == ETL_E_NOMEM ? ETL_OK : status; /* it goes without */
}

/* Through the ranges, where there are some. */
static int load_merge(etl_collector *const *collectors, size_t count, struct etl__merge *merge,
                      struct etl__ranges *ranges, etl_load_fn *load, void *context) {
    struct etl__store *store = &collectors[0]->store;
    struct etl__output output;
    etl__output_open(&output, &store->memory, merge, &store->rules);
    etl__output_share(&output, ranges);
    etl__watch_enter(&store->watch, ETL_LOADING, 0, etl__merge_left(merge), 0, 0);
    int status = deliver(&output, collectors, count, load, context);
    etl__output_close(&output);
    return status;
}

static int load_entered(etl_collector *const *collectors, size_t count, etl_load_fn *load,
                        void *context) {
    struct etl__store *store = &collectors[0]->store;
    struct etl__merge merge, second;
    struct etl__ahead ahead;
    struct etl__ranges *ranges;
    ETL__TRY(etl__open_merge(&merge, collectors, count, &ahead));
    uint64_t began = etl__os_now_ns();
    int status = share(collectors, count, &merge, &second, &ranges);
    if (ranges != NULL)
        etl__ahead_stop(&ahead); /* both check what they read */
    if (status == ETL_OK)
        status = load_merge(collectors, count, &merge, ranges, load, context);
    if (ranges != NULL) {
        etl__ranges_close(ranges);
        etl__merge_close(&second);
    }
    etl__ahead_close(&ahead);
    etl__merge_close(&merge);
    atomic_fetch_add(&store->merge_ns, etl__os_now_ns() - began);
    return status;
}

int etl_load_many(etl_collector *const *collectors, size_t count, etl_load_fn *load,
                  void *context) {
    if (count == 0)
        return load != NULL ? ETL_OK : ETL_E_INVALID;
    if (!etl__are_collectors(collectors, count))
        return ETL_E_INVALID;
    if (load == NULL)
        return etl__fail(&collectors[0]->error, ETL_E_INVALID, "load: no callback");
    ETL__TRY(etl__enter(collectors, count, false));
    int status = load_entered(collectors, count, load, context);
    for (size_t i = 0; i < count && status == ETL_OK; i++)
        etl__end_round(collectors[i]);
    return etl__leave(collectors, count, status);
}

int etl_load(etl_collector *collector, etl_load_fn *load, void *context) {
    return etl_load_many(&collector, 1, load, context);
}
