/* room.c: how a collector that is full finds room.
 *
 * The region that is filled is sealed when it is full and another one takes its turn; sealed ones
 * are handed to threads, or written here where there are none; written ones give their run to the
 * others and are free again. When no region is free the caller waits: a slow disk slows the
 * caller, and takes no memory. Until three quarters of the memory are in use nothing is spilled,
 * so what fits never touches the disk.
 *
 * A region is emptied only when its run is whole. What a thread could not write is tried again by
 * the next call that needs room, which tells when it fails again. */
#include "room.h"
#include "os.h"

enum {
    HELPED_WIDTH = 4,
    ORDER_SLACK = 16 * 1024 /* what writing a run takes beside the writer */
};

/* Give back what was written of a region: its pairs are all in memory. */
static void drop_runs(struct etl__store *store, struct etl__region *region) {
    if (region->run != NULL)
        etl__target_drop(&store->target, region->run);
    if (region->upper != NULL)
        etl__target_drop(&store->target, region->upper);
    region->run = region->upper = NULL;
    region->halved = false;
}

/* Pairs in equal pairs out. */
static int check_pairs(const struct etl__store *store, const struct etl__region *region,
                       struct etl__error *error) {
    uint64_t pairs = region->run->footer.pairs;
    if (region->upper != NULL)
        pairs += region->upper->footer.pairs;
    if (pairs == region->buffer.pairs || store->spiller.rules.duplicates != ETL_KEEP_ALL)
        return ETL_OK;
    return etl__fail(error, ETL_E_CORRUPT, "spilling: %llu pairs of %llu were written",
                     (unsigned long long)pairs, (unsigned long long)region->buffer.pairs);
}

/* A written region's runs join the others, and the region is free. */
static int harvest(struct etl__store *store, struct etl__region *region,
                   struct etl__error *error) {
    if (region->halved && region->upper == NULL) {
        drop_runs(store, region);
        region->alone = true;
        region->state = ETL__SEALED;
        return ETL_OK;
    }
    ETL__TRY(check_pairs(store, region, error));
    ETL__TRY(etl__runs_reserve(&store->runs, region->upper != NULL ? 2 : 1, error));
    ETL__TRY(etl__runs_add(&store->runs, region->run, region->sequence, error));
    if (region->upper != NULL)
        ETL__TRY(etl__runs_add(&store->runs, region->upper, region->sequence, error));
    store->spilled_pairs += region->buffer.pairs;
    store->spilled_bytes += etl__buffer_record_bytes(&region->buffer);
    region->run = region->upper = NULL;
    region->halved = region->alone = false;
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
    size_t wanted = ETL__LEAST_SCRATCH;
    while (wanted < store->scratch_most && wanted < pairs)
        wanted *= 2;
    wanted = wanted < store->scratch_most ? wanted : store->scratch_most;
    if (wanted > store->scratch_plan &&
        etl__memory_left(&store->memory) / 16 / sizeof(struct etl__entry) < wanted)
        wanted = store->scratch_plan;
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
    if (region->buffer.pairs != 0) /* between rounds a member of a pool has no scratch */
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
    ETL__TRY(etl__runs_reserve(&store->runs, 1, error));
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
        drop_runs(store, region);
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

/* Is there memory for ordering a bucket here too? Threads that have begun hold theirs already. */
static bool can_order(struct etl__store *store, const struct etl__region *region) {
    const struct etl__partition *partition = region->buffer.partition;
    return partition != NULL &&
           etl__memory_left(&store->memory) >= etl__partition_order_bytes(partition) + ORDER_SLACK;
}

/* Rather than wait for a region, write a half of it. Not in a pool, where memory is others' too, and
 * not when so many runs would come about that they could not be merged at once. A failure is no
 * reason to give up: the thread will write all of it then. */
static int help(struct etl__store *store, struct etl__region *region, struct etl__error *error) {
    struct etl__run_writer *writer;
    struct etl__error failure;
    if (store->memory.pool != NULL ||
        store->runs.count >= etl__runs_width(&store->runs) / HELPED_WIDTH ||
        etl__runs_writer(&store->runs, &writer, &failure) != ETL_OK || !can_order(store, region))
        return ETL_OK;
    int status = etl__spiller_help(&store->spiller, writer, region, &store->watch, &failure);
    if (status != ETL_E_CANCELLED)
        return ETL_OK;
    memcpy(error, &failure, sizeof *error);
    return status;
}

static int wait_for(struct etl__store *store, struct etl__region *region,
                    struct etl__error *error) {
    enter_spilling(store);
    ETL__TRY(help(store, region, error));
    uint64_t began = etl__os_now_ns();
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

/* Write everything that is sealed, and wait for it. What was written in vain is sealed again. */
static int drain(struct etl__store *store, struct etl__error *error) {
    for (;;) {
        ETL__TRY(harvest_written(store, error));
        ETL__TRY(report_failed(store, error));
        ETL__TRY(spill_sealed(store, error));
        struct etl__region *busy = oldest(store, ETL__QUEUED, ETL__FAILED);
        if (busy == NULL)
            return ETL_OK;
        ETL__TRY(wait_for(store, busy, error));
    }
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

void etl__store_share_pool(struct etl__store *store, struct etl__region *region,
                           size_t first_bytes) {
    struct etl__memory *memory = &store->memory;
    if (memory->pool == NULL)
        return;
    size_t all = atomic_load_explicit(&memory->used, memory_order_relaxed) +
                 memory->member.pledged + etl__memory_left(memory);
    all = all > store->fixed ? (all - store->fixed) / store->region_count : 0;
    size_t limit = etl__clamp(all, ETL__OWED, store->region_share);
    etl__buffer_set_limit(&region->buffer, limit, first_bytes);
}

/* An empty region is the one that is filled. */
static void fill_region(struct etl__store *store, struct etl__region *region) {
    region->state = ETL__FILLING;
    store->filling = region;
    etl__store_share_pool(store, region, 0);
    if (store->splitters_hold)
        etl__buffer_deal_as_before(&region->buffer, store->splitters);
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
        fill_region(store, full);
        return keep_bounded(store, error);
    }
    if (store->spilling)
        ETL__TRY(spill_sealed(store, error));
    ETL__TRY(free_region(store, &next, error));
    full->sequence = store->next_sequence++;
    full->state = ETL__SEALED;
    fill_region(store, next);
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

/* Others in the pool are short, and this collector has more than its share. */
static bool is_asked_back(const struct etl__store *store) {
    return store->memory.pool != NULL && store->arena.taken_bytes != 0 &&
           etl__pool_asks(store->memory.pool, &store->memory.member);
}

/* A record that a pool which is short cannot hold is written through. */
static bool is_above_owed(const struct etl__store *store, size_t size) {
    return store->memory.pool != NULL && size > ETL__OWED / 4;
}

int etl__store_make_room(struct etl__store *store, etl_slice key, size_t size,
                         struct etl__error *error) {
    store->calls++;
    etl__memory_return(&store->memory);
    if (is_asked_back(store))
        ETL__TRY(etl__store_flush(store, error));
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
        if (status == ETL_E_NOMEM && store->memory.pool != NULL)
            etl__pool_want(store->memory.pool, &store->memory.member);
        if (buffer->pairs != 0)
            ETL__TRY(rotate(store, error));
        else if (!all_others_free(store))
            ETL__TRY(drain(store, error));
        else if (status == ETL_END || is_above_owed(store, size))
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
    ETL__TRY(etl__runs_reserve(&store->runs, 1, error));
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

int etl__store_cut(struct etl__store *store, struct etl__error *error) {
    store->calls++;
    etl__memory_return(&store->memory);
    if (is_asked_back(store))
        ETL__TRY(etl__store_flush(store, error));
    return store->filling->buffer.pairs != 0 ? rotate(store, error) : keep_bounded(store, error);
}

int etl__store_settle(struct etl__store *store, struct etl__error *error) {
    struct etl__region *busy;
    etl__spiller_take_back(&store->spiller);
    while ((busy = oldest(store, ETL__WRITING, ETL__WRITING)) != NULL)
        ETL__TRY(wait_for(store, busy, error));
    ETL__TRY(harvest_written(store, error));
    (void)report_failed(store, error); /* its pairs are read from memory */
    ETL__TRY(seal(store, store->filling, error));
    store->filling->sequence = store->next_sequence;
    return ETL_OK;
}

void etl__store_drop(struct etl__store *store) {
    struct etl__error ignored;
    struct etl__region *busy;
    etl__spiller_take_back(&store->spiller);
    while ((busy = oldest(store, ETL__WRITING, ETL__WRITING)) != NULL)
        (void)etl__spiller_wait(&store->spiller, busy, NULL, &ignored);
    for (size_t i = 0; i < store->region_count; i++) {
        struct etl__region *region = &store->regions[i];
        drop_runs(store, region);
        region->state = ETL__FREE;
        region->tried_deal = region->alone = false;
        etl__buffer_clear(&region->buffer);
    }
    etl__runs_clear(&store->runs);
}
