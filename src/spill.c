/* spill.c: sealed buffers become runs.
 *
 * The caller sorts; a background thread copies the records out in order and writes them, while the
 * caller fills the next region. Sorting on the thread as well would leave the caller idle: copying
 * out alone takes as long as collecting and sorting do. Where threads are not wanted, or the
 * system gives none, the same function runs on the caller's thread.
 *
 * When the caller has to wait for a dealt region it helps: buckets are disjoint ranges of keys, so
 * the upper half of those left become a second run, which the merge chains to the first one. What
 * either of the two needs lies in the buffer; nothing passes between the processors' caches.
 *
 * A region keeps all its pairs until its runs are whole, so a full disk costs nothing but time. */
#include "spill.h"
#include "os.h"
#include "provider_memory.h"

enum { TICK_PAIRS = 4096, TICK_MS = 20 };

struct copy_job {
    const struct etl__buffer *buffer;
    struct etl__share *share; /* of a dealt buffer */
    const struct etl__rules *rules;
    struct etl__memory *memory;
    struct etl__watch *watch; /* NULL on a background thread */
};

static int tick(const struct copy_job *job, uint64_t done, struct etl__error *error) {
    if (job->watch == NULL || done % TICK_PAIRS != 0)
        return ETL_OK;
    job->watch->state.pairs_done += done == 0 ? 0 : TICK_PAIRS;
    return etl__watch_tick(job->watch, error);
}

/* Every pair, as it lies. */
static int copy_all(const struct copy_job *job, struct etl__provider *provider,
                    struct etl__run_writer *writer, struct etl__error *error) {
    struct etl__pair pair;
    int status;
    for (uint64_t done = 0; (status = etl__provider_read(provider, &pair, error)) == ETL_OK;
         done++) {
        ETL__TRY(etl__run_writer_append(writer, &pair, error));
        ETL__TRY(tick(job, done, error));
    }
    return status == ETL_END ? ETL_OK : status;
}

/* What the duplicate rules leave. */
static int copy_some(const struct copy_job *job, struct etl__provider *provider,
                     struct etl__run_writer *writer, struct etl__error *error) {
    struct etl__merge merge;
    struct etl__output output;
    const struct etl__pair *pair;
    ETL__TRY(
        etl__merge_open(&merge, job->memory, &provider, 1, job->rules->order_values, NULL, error));
    etl__output_open(&output, job->memory, &merge, job->rules);
    int status;
    for (uint64_t done = 0; (status = etl__output_next(&output, &pair, error)) == ETL_OK; done++) {
        status = etl__run_writer_append(writer, pair, error);
        if (status == ETL_OK)
            status = tick(job, done, error);
        if (status != ETL_OK)
            break;
    }
    etl__output_close(&output);
    etl__merge_close(&merge);
    return status == ETL_END ? ETL_OK : status;
}

static int produce_copy(void *context, struct etl__run_writer *writer, struct etl__error *error) {
    const struct copy_job *job = context;
    struct etl__provider *provider;
    if (job->share != NULL)
        ETL__TRY(
            etl__provider_partition_open(&provider, job->buffer, job->share, job->memory, error));
    else
        ETL__TRY(etl__provider_memory_open(&provider, job->buffer, job->memory, error));
    if (job->rules->duplicates != ETL_KEEP_ALL)
        return copy_some(job, provider, writer, error);
    int status = copy_all(job, provider, writer, error);
    provider->close(provider);
    return status;
}

/* Pairs of a sealed buffer, about `bytes` of records, as a run. */
static int write_run(struct etl__spiller *spiller, struct etl__run_writer *writer,
                     const struct etl__buffer *buffer, struct etl__share *share, uint64_t bytes,
                     struct etl__watch *watch, struct etl__run **run, struct etl__error *error) {
    struct copy_job job = {.buffer = buffer,
                           .share = share,
                           .rules = &spiller->rules,
                           .memory = spiller->target->memory,
                           .watch = watch};
    uint64_t began = etl__os_now_ns();
    int status = etl__target_write(spiller->target, writer, bytes, produce_copy, &job, run, error);
    atomic_fetch_add(&spiller->spill_ns, etl__os_now_ns() - began);
    atomic_fetch_add(&spiller->runs, status == ETL_OK);
    return status;
}

/* Nobody has taken anything yet. */
static void share_all(struct etl__region *region) {
    if (region->buffer.partition != NULL)
        etl__share_init(&region->share, 0, region->buffer.partition->splitters.count);
}

/* What is in the region's share, or all of a plain one, in region->run. */
static int write_region(struct etl__spiller *spiller, struct etl__run_writer *writer,
                        struct etl__region *region, struct etl__watch *watch,
                        struct etl__error *error) {
    struct etl__share *share = region->buffer.partition != NULL ? &region->share : NULL;
    return write_run(spiller, writer, &region->buffer, share,
                     etl__buffer_record_bytes(&region->buffer), watch, &region->run, error);
}

int etl__spiller_help(struct etl__spiller *spiller, struct etl__run_writer *writer,
                      struct etl__region *region, struct etl__watch *watch,
                      struct etl__error *error) {
    const struct etl__buffer *buffer = &region->buffer;
    uint32_t from;
    uint64_t bytes;
    if (region->halved || region->alone || buffer->partition == NULL ||
        etl__spiller_state(spiller, region) != ETL__WRITING ||
        !etl__share_halve(&region->share, buffer->partition, &from, &bytes))
        return ETL_END;
    struct etl__share upper;
    etl__share_init(&upper, from, buffer->partition->splitters.count);
    region->halved = true;
    return write_run(spiller, writer, buffer, &upper, bytes, watch, &region->upper, error);
}

int etl__spiller_write(struct etl__spiller *spiller, struct etl__run_writer *writer,
                       struct etl__region *region, struct etl__watch *watch,
                       struct etl__error *error) {
    share_all(region);
    ETL__TRY(write_region(spiller, writer, region, watch, error));
    region->state = ETL__WRITTEN;
    return ETL_OK;
}

/* On a thread: write one region with the lock released. */
static void serve(struct etl__spiller *spiller, struct etl__region *region,
                  struct etl__run_writer **writer) {
    region->state = ETL__WRITING;
    etl__os_unlock(&spiller->lock);
    struct etl__error error = {.text = ""};
    int status = *writer != NULL ? ETL_OK : etl__target_writer(spiller->target, writer, &error);
    if (status == ETL_OK)
        status = write_region(spiller, *writer, region, NULL, &error);
    if (spiller->target->memory->pool != NULL) { /* an idle member holds no writer */
        etl__run_writer_destroy(*writer);
        *writer = NULL;
    }
    etl__os_lock(&spiller->lock);
    region->status = status;
    region->error = error;
    region->state = status == ETL_OK ? ETL__WRITTEN : ETL__FAILED;
    etl__os_wake_all(&spiller->lock);
}

static void *run_thread(void *argument) {
    struct etl__spiller *spiller = argument;
    struct etl__run_writer *writer = NULL;
    etl__os_lock(&spiller->lock);
    while (!spiller->stopping) {
        struct etl__region *region = spiller->queue;
        if (region == NULL) {
            etl__os_wait(&spiller->lock);
            continue;
        }
        spiller->queue = region->next_queued;
        serve(spiller, region, &writer);
    }
    etl__os_unlock(&spiller->lock);
    etl__run_writer_destroy(writer);
    return NULL;
}

int etl__spiller_init(struct etl__spiller *spiller, struct etl__target *target,
                      const struct etl__rules *rules, unsigned threads, struct etl__error *error) {
    memset(spiller, 0, sizeof *spiller);
    spiller->target = target;
    spiller->rules = etl__rules_for_runs(rules);
    if (threads == 0)
        return ETL_OK;
    spiller->threads = etl__alloc(target->memory, threads * sizeof *spiller->threads);
    if (spiller->threads == NULL || etl__os_lock_init(&spiller->lock) != 0) {
        etl__free(target->memory, spiller->threads, threads * sizeof *spiller->threads);
        return etl__fail_memory(error, threads * sizeof *spiller->threads, "threads");
    }
    spiller->wanted = threads;
    return ETL_OK;
}

void etl__spiller_end(struct etl__spiller *spiller) {
    if (spiller->wanted == 0)
        return;
    etl__os_lock(&spiller->lock);
    spiller->stopping = true;
    etl__os_wake_all(&spiller->lock);
    etl__os_unlock(&spiller->lock);
    for (unsigned i = 0; i < spiller->started; i++)
        etl__os_thread_join(spiller->threads[i]);
    etl__os_lock_end(&spiller->lock);
    etl__free(spiller->target->memory, spiller->threads,
              spiller->wanted * sizeof *spiller->threads);
}

bool etl__spiller_submit(struct etl__spiller *spiller, struct etl__region *region) {
    if (spiller->started < spiller->wanted &&
        etl__os_thread_start(&spiller->threads[spiller->started], run_thread, spiller) == 0)
        spiller->started++;
    if (spiller->started == 0)
        return false;
    share_all(region);
    etl__os_lock(&spiller->lock);
    struct etl__region **link = &spiller->queue;
    while (*link != NULL && (*link)->sequence < region->sequence)
        link = &(*link)->next_queued;
    region->next_queued = *link;
    *link = region;
    region->state = ETL__QUEUED;
    etl__os_wake_all(&spiller->lock);
    etl__os_unlock(&spiller->lock);
    return true;
}

enum etl__region_state etl__spiller_state(struct etl__spiller *spiller,
                                          struct etl__region *region) {
    if (spiller->wanted == 0)
        return region->state;
    etl__os_lock(&spiller->lock);
    enum etl__region_state state = region->state;
    etl__os_unlock(&spiller->lock);
    return state;
}

int etl__spiller_wait(struct etl__spiller *spiller, struct etl__region *region,
                      struct etl__watch *watch, struct etl__error *error) {
    int status = ETL_OK;
    etl__os_lock(&spiller->lock);
    while (status == ETL_OK && (region->state == ETL__QUEUED || region->state == ETL__WRITING)) {
        etl__os_wait_ms(&spiller->lock, TICK_MS);
        if (watch == NULL)
            continue;
        etl__os_unlock(&spiller->lock); /* the progress callback may take its time */
        status = etl__watch_tick(watch, error);
        etl__os_lock(&spiller->lock);
    }
    etl__os_unlock(&spiller->lock);
    return status;
}

void etl__spiller_take_back(struct etl__spiller *spiller) {
    if (spiller->wanted == 0)
        return;
    etl__os_lock(&spiller->lock);
    for (; spiller->queue != NULL; spiller->queue = spiller->queue->next_queued)
        spiller->queue->state = ETL__SEALED;
    etl__os_unlock(&spiller->lock);
}
