/* store.c: the plan of the memory, and the way back out: what a collector holds as sorted
 * providers.
 *
 * What holds the memory limit: everything is taken through `memory`, which counts it. Fixed parts
 * (sort scratch, write buffers, what a merge needs) are taken off the limit first, and the rest is
 * divided into regions: one without threads, threads + 1 with them, so that one is filled while
 * others are written. In a pool the fixed parts are planned from a share of it, and promised for
 * each round; regions divide what is left when they begin to be filled.
 *
 * Sequence numbers say what was collected earlier, over regions and runs alike; they are the last
 * word between equal keys. */
#include "store.h"
#include "provider_memory.h"

enum {
    MOST_SCRATCH = 64 * 1024, /* entries: 1 MiB, which stays in the cache */
    LEAST_WRITE_BUFFER = 32 * 1024,
    MOST_WRITE_BUFFER = 256 * 1024,
    MOST_MERGE_RESERVE = 2 * 1024 * 1024,
    WRITER_STATE = 12 * 1024,
    LEAST_REGION = 128 * 1024,
    BOOK_SHARE = 256,         /* of the limit, and */
    BOOK_KEEPING = 32 * 1024, /* lists of runs and extents, names, the regions themselves */
    MOST_FOLD = 4 * 1024 * 1024
};

/* What is fixed of the limit; the rest is for regions. */
static void plan_memory(struct etl__store *store, unsigned *threads) {
    size_t limit = store->memory.plan;
    size_t write_buffer = etl__clamp(limit / 32, LEAST_WRITE_BUFFER, MOST_WRITE_BUFFER) /
                          ETL__RUN_BLOCK * ETL__RUN_BLOCK;
    store->target.write_buffer = write_buffer;
    store->scratch_plan =
        etl__clamp(limit / 64 / sizeof(struct etl__entry), ETL__LEAST_SCRATCH, MOST_SCRATCH);
    store->scratch_most = etl__clamp(store->memory.limit / 64 / sizeof(struct etl__entry),
                                     ETL__LEAST_SCRATCH, MOST_SCRATCH);
    store->rules.fold_bytes = etl__clamp(limit / 64, 16 * 1024, MOST_FOLD);
    bool reads = store->target.access == ETL_ACCESS_READ;
    size_t merging = reads ? limit / 4 : etl__clamp(limit / 16, 0, MOST_MERGE_RESERVE);
    store->runs.read_memory = store->arena.reserve = merging;
    size_t fixed = store->scratch_plan * sizeof(struct etl__entry) + merging + BOOK_KEEPING +
                   limit / BOOK_SHARE;
    if (store->rules.duplicates == ETL_REDUCE) /* values, results and slices, while they double */
        fixed += 6 * store->rules.fold_bytes;
    /* Each thread holds a writer, and wants a region that is worth a run. */
    size_t writer = write_buffer + WRITER_STATE;
    size_t most_threads = (limit - fixed) / (writer + LEAST_REGION);
    if (*threads != 0 && *threads + 1 > most_threads)
        *threads = most_threads > 1 ? (unsigned)most_threads - 1 : 0;
    store->fixed = fixed + (*threads + 1) * writer;
    if (store->memory.pool != NULL)
        etl__pool_promise(store->memory.pool, &store->memory.member, store->fixed + ETL__OWED,
                          merging);
}

static int make_regions(struct etl__store *store, size_t count, struct etl__error *error) {
    size_t share = store->memory.limit - store->fixed;
    /* References reach 4 GiB; a larger share is several regions. */
    size_t most = (size_t)ETL__BUFFER_SLOTS - 64;
    if (share / count / ((size_t)1 << ETL__BUFFER_SHIFT) > most)
        count = etl__clamp(share / ((size_t)1 << ETL__BUFFER_SHIFT) / most + 1, count, 64);
    store->regions = etl__alloc_zeroed(&store->memory, count * sizeof *store->regions);
    if (store->regions == NULL)
        return etl__fail_memory(error, count * sizeof *store->regions, "regions");
    store->region_count = count;
    store->region_share = share / count;
    for (size_t i = 0; i < count; i++)
        etl__buffer_init(&store->regions[i].buffer, &store->arena, store->region_share,
                         store->rules.order_values);
    store->filling = &store->regions[0];
    store->filling->state = ETL__FILLING;
    store->may_deal = true;
    return ETL_OK;
}

int etl__store_init(struct etl__store *store, const etl_options *options,
                    struct etl__error *error) {
    memset(store, 0, sizeof *store);
    etl__memory_init(&store->memory, &options->allocator, options->memory_limit);
    if (options->pool != NULL)
        etl__memory_join(&store->memory, options->pool);
    etl__arena_init(&store->arena, &store->memory);
    store->rules = (struct etl__rules){.duplicates = options->duplicates,
                                       .order_values = options->order_values,
                                       .reduce = options->reduce,
                                       .reduce_ctx = options->reduce_ctx};
    store->sort.cancel = &store->cancel;
    store->watch.cancel = &store->cancel;
    store->watch.tell = options->progress;
    store->watch.tell_ctx = options->progress_ctx;
    int status = etl__target_init(&store->target, &store->memory, options, error);
    store->target.cancel = &store->cancel;
    etl__runs_init(&store->runs, &store->target, &store->rules, &store->watch,
                   options->merge_width);
    store->watch.state.label = store->target.label;
    /* Reduce runs on the caller's thread, and so does the spilling that folds. */
    unsigned threads = options->threads < 0 || options->duplicates == ETL_REDUCE ? 0
                       : options->threads == 0                                   ? 1
                                               : (unsigned)options->threads;
    plan_memory(store, &threads);
    store->runs.may_thread = threads != 0;
    if (status == ETL_OK)
        status = make_regions(store, threads + 1, error);
    if (status == ETL_OK)
        status = etl__spiller_init(&store->spiller, &store->target, &store->rules, threads, error);
    return status;
}

/* ---- Reading ---- */

/* Is it read from memory, in a prepared store? */
static bool is_source(const struct etl__region *region) {
    return region->buffer.pairs != 0;
}

size_t etl__store_sources(const struct etl__store *store) {
    size_t count = store->runs.count;
    for (size_t i = 0; i < store->region_count; i++)
        count += is_source(&store->regions[i]);
    return count;
}

/* No more sources than one merge takes. Regions in memory are sources that cannot be merged
 * before; when what they hold is what the merge lacks, they are written too. */
static int fit_width(struct etl__store *store, struct etl__error *error) {
    struct etl__runs *runs = &store->runs;
    size_t sources = etl__store_sources(store), in_memory = sources - runs->count;
    if (runs->count <= 1 || sources <= etl__runs_width(runs))
        return ETL_OK;
    if (in_memory != 0 && runs->merge_width == 0 && etl__runs_outgrow_reserve(runs)) {
        ETL__TRY(etl__store_flush(store, error));
        etl__arena_make_room(&store->arena, store->memory.limit / 2);
        in_memory = 0;
    }
    size_t width = etl__runs_width(runs);
    return etl__runs_reduce(runs, width > in_memory ? width - in_memory : 1, error);
}

int etl__store_prepare(struct etl__store *store, struct etl__error *error) {
    ETL__TRY(etl__store_settle(store, error));
    return fit_width(store, error);
}

size_t etl__store_order_bytes(const struct etl__store *store) {
    size_t bytes = 0;
    for (size_t i = 0; i < store->region_count; i++) {
        const struct etl__buffer *buffer = &store->regions[i].buffer;
        if (is_source(&store->regions[i]) && buffer->partition != NULL)
            bytes += etl__partition_order_bytes(buffer->partition);
    }
    return bytes;
}

/* Regions are written where many merges over them, or what stands apart, lack their memory. */
int etl__store_prepare_many(struct etl__store *store, size_t merges, size_t apart,
                            struct etl__error *error) {
    struct etl__runs *runs = &store->runs;
    ETL__TRY(etl__store_prepare(store, error));
    size_t needed = apart + merges * etl__store_order_bytes(store);
    bool fits = etl__arena_make_room(&store->arena, needed) &&
                etl__runs_width_of_many(runs, merges, needed) >= etl__store_sources(store);
    if (fits)
        return ETL_OK;
    ETL__TRY(etl__store_flush(store, error));
    etl__arena_make_room(&store->arena, apart + store->memory.limit / 2);
    return etl__runs_reduce(runs, etl__runs_width_of_many(runs, merges, apart), error);
}

static const struct etl__region *region_after(const struct etl__store *store, uint64_t from) {
    const struct etl__region *found = NULL;
    for (size_t i = 0; i < store->region_count; i++) {
        const struct etl__region *region = &store->regions[i];
        if (is_source(region) && region->sequence >= from &&
            (found == NULL || region->sequence < found->sequence))
            found = region;
    }
    return found;
}

int etl__store_open_providers(struct etl__store *store, size_t merges,
                              struct etl__provider **providers, size_t *count,
                              struct etl__ahead *ahead, struct etl__error *error) {
    const struct etl__runs *runs = &store->runs;
    const struct etl__region *region = region_after(store, 0);
    size_t run = 0;
    while (run < runs->count || region != NULL) {
        struct etl__provider **out = &providers[*count];
        if (region == NULL || (run < runs->count && runs->items[run].first < region->sequence)) {
            ETL__TRY(
                etl__runs_open_provider(runs, run++, runs->count * merges, ahead, out, error));
        } else {
            ETL__TRY(etl__provider_memory_open(out, &region->buffer, &store->memory, error));
            if (ahead != NULL && region->buffer.partition != NULL && store->memory.pool == NULL)
                etl__provider_partition_order_ahead(*out, store->spiller.wanted);
            region = region_after(store, region->sequence + 1);
        }
        ++*count;
    }
    return ETL_OK;
}

/* ---- The end of a round ---- */

void etl__store_begin_round(struct etl__store *store) {
    struct etl__memory *memory = &store->memory;
    if (memory->pool == NULL)
        return;
    size_t needed = etl__pool_enter(memory->pool, &memory->member, store->target.label);
    etl__store_share_pool(store, store->filling, needed);
}

static void free_scratch(struct etl__store *store) {
    struct etl__sort *sort = &store->sort;
    etl__free_large(&store->memory, sort->scratch, sort->scratch_count * sizeof *sort->scratch);
    sort->scratch = NULL;
    sort->scratch_count = 0;
}

/* Between rounds a member of a pool holds nothing but itself. */
static void give_to_pool(struct etl__store *store, size_t needed) {
    struct etl__memory *memory = &store->memory;
    etl__free(memory, store->splitters, sizeof *store->splitters);
    store->splitters = NULL;
    free_scratch(store);
    etl__runs_trim(&store->runs);
    etl__memory_trim(memory);
    etl__pool_leave(memory->pool, &memory->member, store->target.label, needed);
}

void etl__store_clear(struct etl__store *store) {
    size_t needed = store->arena.round_peak;
    etl__store_drop(store);
    store->filling = &store->regions[0];
    store->filling->state = ETL__FILLING;
    store->spilling = store->splitters_hold = false;
    store->spilled_pairs = store->spilled_bytes = 0;
    for (size_t i = 0; i < store->region_count; i++)
        etl__buffer_end_round(&store->regions[i].buffer);
    etl__arena_end_round(&store->arena);
    if (store->memory.pool != NULL)
        give_to_pool(store, needed);
}

void etl__store_end(struct etl__store *store) {
    struct etl__memory *memory = &store->memory;
    if (store->regions != NULL)
        etl__store_drop(store);
    etl__spiller_end(&store->spiller);
    for (size_t i = 0; i < store->region_count; i++)
        etl__buffer_end(&store->regions[i].buffer);
    etl__runs_end(&store->runs);
    etl__free(memory, store->splitters, sizeof *store->splitters);
    etl__free(memory, store->regions, store->region_count * sizeof *store->regions);
    free_scratch(store);
    etl__target_end(&store->target);
    etl__arena_end(&store->arena);
    etl__memory_end(memory);
}
