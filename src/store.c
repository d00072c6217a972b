/* store.c: regions fill, are sealed, spilled and emptied; runs gather.
 *
 * What holds the memory limit: everything is taken through `memory`, which counts it. Fixed parts
 * (sort scratch, write buffers, what a merge needs) are taken off the limit first, and the rest is
 * divided into regions: one without threads, threads + 1 with them, so that one is filled while
 * others are written. Until memory is three quarters full nothing is spilled, so what fits never
 * touches the disk. When no region is free the caller waits: a slow disk slows the caller, and
 * takes no memory.
 *
 * Sequence numbers say what was collected earlier, over regions and runs alike; they are the last
 * word between equal keys. */
#include "store.h"
#include "os.h"
#include "provider_memory.h"

enum {
    LEAST_SCRATCH = 1024,     /* entries */
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

static size_t clamp(size_t value, size_t least, size_t most) {
    return value < least ? least : value > most ? most : value;
}

/* The share of the limit that regions divide, and what is fixed. */
static size_t plan_memory(struct etl__store *store, size_t limit, unsigned *threads) {
    size_t write_buffer =
        clamp(limit / 32, LEAST_WRITE_BUFFER, MOST_WRITE_BUFFER) / ETL__RUN_BLOCK * ETL__RUN_BLOCK;
    store->target.write_buffer = write_buffer;
    store->scratch_most =
        clamp(limit / 64 / sizeof(struct etl__entry), LEAST_SCRATCH, MOST_SCRATCH);
    store->rules.fold_bytes = clamp(limit / 64, 16 * 1024, MOST_FOLD);
    bool reads = store->target.access == ETL_ACCESS_READ;
    size_t merging = reads ? limit / 4 : clamp(limit / 16, 0, MOST_MERGE_RESERVE);
    store->runs.read_memory = store->arena.reserve = merging;
    size_t fixed = store->scratch_most * sizeof(struct etl__entry) + merging + BOOK_KEEPING +
                   limit / BOOK_SHARE;
    if (store->rules.duplicates == ETL_REDUCE) /* values, results and slices, while they double */
        fixed += 6 * store->rules.fold_bytes;
    /* Each thread holds a writer, and wants a region that is worth a run. */
    size_t writer = write_buffer + WRITER_STATE;
    size_t most_threads = (limit - fixed) / (writer + LEAST_REGION);
    if (*threads != 0 && *threads + 1 > most_threads)
        *threads = most_threads > 1 ? (unsigned)most_threads - 1 : 0;
    return limit - fixed - (*threads + 1) * writer;
}

static int make_regions(struct etl__store *store, size_t share, size_t count,
                        struct etl__error *error) {
    /* References reach 4 GiB; a larger share is several regions. */
    size_t most = (size_t)ETL__BUFFER_SLOTS - 64;
    if (share / count / ((size_t)1 << ETL__BUFFER_SHIFT) > most)
        count = clamp(share / ((size_t)1 << ETL__BUFFER_SHIFT) / most + 1, count, 64);
    store->regions = etl__alloc_zeroed(&store->memory, count * sizeof *store->regions);
    if (store->regions == NULL)
        return etl__fail_memory(error, count * sizeof *store->regions, "regions");
    store->region_count = count;
    for (size_t i = 0; i < count; i++)
        etl__buffer_init(&store->regions[i].buffer, &store->arena, share / count,
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
    size_t share = plan_memory(store, options->memory_limit, &threads);
    if (status == ETL_OK)
        status = make_regions(store, share, threads + 1, error);
    if (status == ETL_OK)
        status = etl__spiller_init(&store->spiller, &store->target, &store->rules, threads, error);
    return status;
}

/* ---- Sealing and spilling ---- */

/* A written region's run joins the others, and the region is free. */
static int harvest(struct etl__store *store, struct etl__region *region,
                   struct etl__error *error) {
    ETL__TRY(etl__runs_add(&store->runs, region->run, region->sequence, error));
    store->spilled_pairs += region->buffer.pairs;
    store->spilled_bytes += etl__buffer_record_bytes(&region->buffer);
    region->run = NULL;
    etl__buffer_clear(&region->buffer);
    region->tried_deal = false;
    region->state = ETL__FREE;
    return ETL_OK;
}

static int harvest_written(struct etl__store *store, struct etl__error *error) {
    for (size_t i = 0; i < store->region_count; i++)
        if (etl__spiller_state(&store->spiller, &store->regions[i]) == ETL__WRITTEN)
            ETL__TRY(harvest(store, &store->regions[i], error));
    return ETL_OK;
}

/* Scratch for sorting `pairs` entries; what there is serves when there is no more. */
static int reserve_scratch(struct etl__store *store, uint64_t pairs, struct etl__error *error) {
    size_t wanted = LEAST_SCRATCH;
    while (wanted < store->scratch_most && wanted < pairs)
        wanted *= 2;
    wanted = wanted < store->scratch_most ? wanted : store->scratch_most;
    struct etl__sort *sort = &store->sort;
    if (wanted <= sort->scratch_count)
        return ETL_OK;
    struct etl__entry *scratch = etl__alloc_large(&store->memory, wanted * sizeof *scratch);
    if (scratch == NULL)
        return sort->scratch_count != 0
                   ? ETL_OK
                   : etl__fail_memory(error, wanted * sizeof *scratch, "sorting");
    etl__free_large(&store->memory, sort->scratch, sort->scratch_count * sizeof *scratch);
    sort->scratch = scratch;
    sort->scratch_count = wanted;
    return ETL_OK;
}

static int seal(struct etl__store *store, struct etl__region *region, struct etl__error *error) {
    if (region->buffer.sealed)
        return ETL_OK;
    ETL__TRY(reserve_scratch(store, region->buffer.pairs, error));
    uint64_t began = etl__os_now_ns();
    int status = etl__buffer_seal(&region->buffer, &store->sort, error);
    atomic_fetch_add_explicit(&store->sort_ns, etl__os_now_ns() - began, memory_order_relaxed);
    return status;
}

static void enter_spilling(struct etl__store *store) {
    uint64_t pairs = store->spilled_pairs, bytes = store->spilled_bytes;
    for (size_t i = 0; i < store->region_count; i++) {
        pairs += store->regions[i].buffer.pairs;
        bytes += etl__buffer_record_bytes(&store->regions[i].buffer);
    }
    etl__watch_enter(&store->watch, ETL_SPILLING, store->spilled_pairs, pairs,
                     store->spilled_bytes, bytes);
}

/* Write a sealed region here and now. */
static int write_here(struct etl__store *store, struct etl__region *region,
                      struct etl__error *error) {
    struct etl__run_writer *writer;
    ETL__TRY(etl__runs_reserve(&store->runs, error));
    ETL__TRY(etl__runs_writer(&store->runs, &writer, error));
    enter_spilling(store);
    ETL__TRY(etl__spiller_write(&store->spiller, writer, region, &store->watch, error));
    return harvest(store, region, error);
}

/* Regions that a thread could not write are sealed as before. A failure is told when it was met on
 * behalf of this call; what was tried before may be over by now, and is tried again. */
static int report_failed(struct etl__store *store, struct etl__error *error) {
    for (size_t i = 0; i < store->region_count; i++) {
        struct etl__region *region = &store->regions[i];
        if (etl__spiller_state(&store->spiller, region) != ETL__FAILED)
            continue;
        region->state = ETL__SEALED;
        if (region->tried != store->calls)
            continue;
        memcpy(error, &region->error, sizeof *error);
        return region->status;
    }
    return ETL_OK;
}

static struct etl__region *oldest(struct etl__store *store, enum etl__region_state least,
                                  enum etl__region_state most) {
    struct etl__region *found = NULL;
    for (size_t i = 0; i < store->region_count; i++) {
        struct etl__region *region = &store->regions[i];
        enum etl__region_state state = etl__spiller_state(&store->spiller, region);
        if (state >= least && state <= most &&
            (found == NULL || region->sequence < found->sequence))
            found = region;
    }
    return found;
}

/* Hand all sealed regions to threads, or write them here where there are none. */
static int spill_sealed(struct etl__store *store, struct etl__error *error) {
    struct etl__region *region;
    store->spilling = true;
    while ((region = oldest(store, ETL__SEALED, ETL__SEALED)) != NULL) {
        region->tried = store->calls;
        if (!etl__spiller_submit(&store->spiller, region))
            ETL__TRY(write_here(store, region, error));
    }
    return ETL_OK;
}

static int wait_for(struct etl__store *store, struct etl__region *region,
                    struct etl__error *error) {
    uint64_t began = etl__os_now_ns();
    enter_spilling(store);
    int status = etl__spiller_wait(&store->spiller, region, &store->watch, error);
    atomic_fetch_add_explicit(&store->wait_ns, etl__os_now_ns() - began, memory_order_relaxed);
    return status;
}

/* Some region that can be filled: written ones are harvested, the oldest is waited for. */
static int free_region(struct etl__store *store, struct etl__region **free,
                       struct etl__error *error) {
    for (;;) {
        ETL__TRY(harvest_written(store, error));
        *free = oldest(store, ETL__FREE, ETL__FREE);
        if (*free != NULL)
            return ETL_OK;
        ETL__TRY(report_failed(store, error));
        ETL__TRY(spill_sealed(store, error));
        struct etl__region *busy = oldest(store, ETL__QUEUED, ETL__WRITING);
        if (busy != NULL)
            ETL__TRY(wait_for(store, busy, error));
    }
}

/* Write everything that is sealed, and wait for it. */
static int drain(struct etl__store *store, struct etl__error *error) {
    for (;;) {
        struct etl__region *busy;
        ETL__TRY(report_failed(store, error));
        ETL__TRY(spill_sealed(store, error));
        busy = oldest(store, ETL__QUEUED, ETL__WRITING);
        if (busy == NULL)
            break;
        ETL__TRY(wait_for(store, busy, error));
    }
    ETL__TRY(harvest_written(store, error));
    return report_failed(store, error);
}

/* Too many runs are alive: merge some. What regions hold is memory that the merge can use. */
static int keep_bounded(struct etl__store *store, struct etl__error *error) {
    size_t most = etl__runs_reduce_to(&store->runs);
    if (most == 0)
        return ETL_OK;
    ETL__TRY(drain(store, error));
    etl__arena_make_room(&store->arena, store->memory.limit / 2);
    return etl__runs_reduce(&store->runs, most, error);
}

/* The filling region is full: sort it, and fill another one. */
static int rotate(struct etl__store *store, struct etl__error *error) {
    struct etl__region *full = store->filling, *next;
    ETL__TRY(seal(store, full, error));
    if (full->buffer.partition != NULL &&
        etl__partition_is_skewed(full->buffer.partition, full->buffer.pairs))
        store->splitters_hold = false;
    if (store->region_count == 1) {
        store->spilling = true;
        full->sequence = store->next_sequence;
        ETL__TRY(write_here(store, full, error));
        store->next_sequence++;
        full->state = ETL__FILLING;
        if (store->splitters_hold)
            etl__buffer_deal_as_before(&full->buffer, store->splitters);
        return keep_bounded(store, error);
    }
    if (store->spilling)
        ETL__TRY(spill_sealed(store, error));
    ETL__TRY(free_region(store, &next, error));
    full->sequence = store->next_sequence++;
    full->state = ETL__SEALED;
    next->state = ETL__FILLING;
    store->filling = next;
    if (store->splitters_hold)
        etl__buffer_deal_as_before(&next->buffer, store->splitters);
    if (store->spilling)
        ETL__TRY(spill_sealed(store, error));
    return keep_bounded(store, error);
}

/* Three quarters of the memory are taken: what is sealed will have to go. */
static bool is_filling_up(const struct etl__store *store) {
    const struct etl__buffer *buffer = &store->filling->buffer;
    return store->region_count > 1 &&
           store->arena.taken_bytes >= buffer->limit / 4 * store->region_count * 3;
}

/* Indexes of buffers that are not sorted now are memory that records can use. */
static bool drop_idle_indexes(struct etl__store *store) {
    bool dropped = false;
    for (size_t i = 0; i < store->region_count; i++) {
        struct etl__region *region = &store->regions[i];
        bool idle =
            region == store->filling || etl__spiller_state(&store->spiller, region) == ETL__FREE;
        if (idle && region->buffer.index_capacity != 0) {
            etl__buffer_drop_index(&region->buffer);
            dropped = true;
        }
    }
    return dropped;
}

static bool all_others_free(struct etl__store *store) {
    return oldest(store, ETL__SEALED, ETL__FAILED) == NULL;
}

/* A plain buffer that is worth it is dealt to buckets, once. */
static int deal_sample(struct etl__store *store, struct etl__error *error) {
    struct etl__buffer *buffer = &store->filling->buffer;
    if (!store->may_deal || store->filling->tried_deal || !etl__buffer_is_sample(buffer))
        return ETL_OK;
    store->filling->tried_deal = true;
    if (store->splitters == NULL)
        store->splitters = etl__alloc(&store->memory, sizeof *store->splitters);
    if (store->splitters == NULL)
        return ETL_OK;
    ETL__TRY(reserve_scratch(store, buffer->pairs, error));
    uint64_t began = etl__os_now_ns();
    int status = etl__buffer_deal(buffer, &store->sort, store->splitters, error);
    atomic_fetch_add_explicit(&store->sort_ns, etl__os_now_ns() - began, memory_order_relaxed);
    store->splitters_hold = status == ETL_OK;
    return status == ETL_END || status == ETL_E_NOMEM ? ETL_OK : status;
}

static int extend(struct etl__buffer *buffer, etl_slice key, size_t size) {
    if (buffer->partition == NULL)
        return etl__buffer_extend(buffer, size);
    uint32_t bucket = etl__splitters_find(&buffer->partition->splitters, key.data, key.size);
    return etl__buffer_extend_bucket(buffer, bucket, size);
}

int etl__store_make_room(struct etl__store *store, etl_slice key, size_t size,
                         struct etl__error *error) {
    store->calls++;
    for (;;) {
        struct etl__bucket *bucket;
        struct etl__buffer *buffer = &store->filling->buffer;
        ETL__TRY(deal_sample(store, error));
        if (etl__buffer_has_room(buffer, key.data, key.size, size, &bucket))
            break;
        int status = extend(buffer, key, size);
        if (status == ETL_OK)
            break;
        if (status == ETL_E_NOMEM && drop_idle_indexes(store))
            continue;
        if (buffer->pairs != 0)
            ETL__TRY(rotate(store, error));
        else if (!all_others_free(store))
            ETL__TRY(drain(store, error));
        else if (status == ETL_END)
            return ETL_END;
        else
            return etl__fail_memory(error, size, "a pair");
    }
    if (is_filling_up(store))
        ETL__TRY(spill_sealed(store, error));
    return ETL_OK;
}

int etl__store_stop_dealing(struct etl__store *store, struct etl__error *error) {
    store->may_deal = store->splitters_hold = false;
    if (store->filling->buffer.partition == NULL)
        return ETL_OK;
    store->calls++;
    if (store->filling->buffer.pairs != 0)
        return rotate(store, error);
    etl__buffer_clear(&store->filling->buffer);
    return ETL_OK;
}

int etl__store_flush(struct etl__store *store, struct etl__error *error) {
    store->calls++;
    if (store->filling->buffer.pairs != 0)
        ETL__TRY(rotate(store, error));
    ETL__TRY(drain(store, error));
    return keep_bounded(store, error);
}

static int produce_pair(void *context, struct etl__run_writer *writer, struct etl__error *error) {
    return etl__run_writer_append(writer, context, error);
}

int etl__store_write_through(struct etl__store *store, const struct etl__pair *pair,
                             struct etl__error *error) {
    struct etl__run *run;
    struct etl__pair copy = *pair;
    uint64_t size = etl__record_head_size(pair->key_size,
                                          etl__value_code(pair->value == NULL, pair->value_size)) +
                    (uint64_t)pair->key_size + pair->value_size;
    struct etl__run_writer *writer;
    ETL__TRY(etl__store_flush(store, error));
    ETL__TRY(etl__runs_reserve(&store->runs, error));
    ETL__TRY(etl__runs_writer(&store->runs, &writer, error));
    uint64_t began = etl__os_now_ns();
    int status = etl__target_write(&store->target, writer, size, produce_pair, &copy, &run, error);
    atomic_fetch_add(&store->spiller.spill_ns, etl__os_now_ns() - began);
    ETL__TRY(status);
    ETL__TRY(etl__runs_add(&store->runs, run, store->next_sequence, error));
    atomic_fetch_add(&store->spiller.runs, 1);
    store->next_sequence++;
    return ETL_OK;
}

int etl__store_make_room_over_limit(struct etl__store *store, size_t size,
                                    struct etl__error *error) {
    ETL__TRY(etl__store_flush(store, error));
    if (!etl__buffer_extend_over_limit(&store->filling->buffer, size))
        return etl__fail_memory(error, size, "a pair larger than the memory limit");
    return ETL_OK;
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
    etl__spiller_take_back(&store->spiller);
    struct etl__region *busy;
    while ((busy = oldest(store, ETL__WRITING, ETL__WRITING)) != NULL)
        ETL__TRY(wait_for(store, busy, error));
    ETL__TRY(harvest_written(store, error));
    (void)report_failed(store, error); /* its pairs are merged from memory */
    ETL__TRY(seal(store, store->filling, error));
    store->filling->sequence = store->next_sequence;
    return fit_width(store, error);
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

int etl__store_open_providers(struct etl__store *store, struct etl__provider **providers,
                              size_t *count, struct etl__error *error) {
    const struct etl__runs *runs = &store->runs;
    const struct etl__region *region = region_after(store, 0);
    size_t run = 0;
    while (run < runs->count || region != NULL) {
        struct etl__provider **out = &providers[*count];
        if (region == NULL || (run < runs->count && runs->items[run].first < region->sequence)) {
            ETL__TRY(etl__runs_open_provider(runs, run++, runs->count, out, error));
        } else {
            ETL__TRY(etl__provider_memory_open(out, &region->buffer, &store->memory, error));
            region = region_after(store, region->sequence + 1);
        }
        ++*count;
    }
    return ETL_OK;
}

/* ---- The end of a round ---- */

static void drop_pairs(struct etl__store *store) {
    struct etl__error ignored;
    struct etl__region *busy;
    etl__spiller_take_back(&store->spiller);
    while ((busy = oldest(store, ETL__WRITING, ETL__WRITING)) != NULL)
        (void)etl__spiller_wait(&store->spiller, busy, NULL, &ignored);
    for (size_t i = 0; i < store->region_count; i++) {
        struct etl__region *region = &store->regions[i];
        if (region->run != NULL)
            etl__target_drop(&store->target, region->run);
        region->run = NULL;
        region->state = ETL__FREE;
        region->tried_deal = false;
        etl__buffer_clear(&region->buffer);
    }
    etl__runs_clear(&store->runs);
}

void etl__store_clear(struct etl__store *store) {
    drop_pairs(store);
    store->filling = &store->regions[0];
    store->filling->state = ETL__FILLING;
    store->spilling = store->splitters_hold = false;
    store->spilled_pairs = store->spilled_bytes = 0;
    for (size_t i = 0; i < store->region_count; i++)
        etl__buffer_end_round(&store->regions[i].buffer);
    etl__arena_end_round(&store->arena);
}

void etl__store_end(struct etl__store *store) {
    struct etl__memory *memory = &store->memory;
    if (store->regions != NULL)
        drop_pairs(store);
    etl__spiller_end(&store->spiller);
    for (size_t i = 0; i < store->region_count; i++)
        etl__buffer_end(&store->regions[i].buffer);
    etl__runs_end(&store->runs);
    etl__free(memory, store->splitters, sizeof *store->splitters);
    etl__free(memory, store->regions, store->region_count * sizeof *store->regions);
    etl__free_large(memory, store->sort.scratch,
                    store->sort.scratch_count * sizeof(struct etl__entry));
    etl__target_end(&store->target);
    etl__arena_end(&store->arena);
    etl__memory_end(memory);
}
