/* merge_ahead.c: a ring of batches between the thread that merges and whoever takes them.
 *
 * A pair costs its consumer more when another processor has merged it: its lines are in that one's
 * cache. So this pays where the consumer takes about as long as the merge or longer, and then nearly
 * the whole of the shorter of the two; duplicates.c weighs them. Batches hold hundreds of pairs, so
 * that one lock for all of it costs nothing, and the thread sleeps until half of the ring is free. */
#include "merge_ahead.h"
#include "os.h"

enum {
    BATCHES = 8,
    BATCH_PAIRS = 512,
    MEMORY_SHARE = 2 /* of what is left, the most that the ring takes */
};

struct ring_batch {
    size_t count;
    struct etl__pair pairs[BATCH_PAIRS];
};

struct etl__merge_ahead {
    struct etl__merge *merge;
    etl__os_thread thread;
    bool started;
    atomic_bool stopping;
    struct etl__os_lock lock;  /* of all that follows, but for the batches */
    uint64_t made, given_back; /* batches, counted without end; used in turn */
    bool lent;                 /* the first that was not given back is the reader's */
    bool reader_waits;
    int status;              /* not ETL_OK: nothing comes behind the batches made */
    struct etl__error error; /* its text */
    struct ring_batch batches[BATCHES];
};

static int fill_batch(struct etl__merge_ahead *ahead, struct ring_batch *batch) {
    batch->count = 0;
    while (batch->count < BATCH_PAIRS &&
           !atomic_load_explicit(&ahead->stopping, memory_order_relaxed)) {
        size_t taken;
        ETL__TRY(etl__merge_take(ahead->merge, batch->pairs + batch->count,
                                 BATCH_PAIRS - batch->count, &taken, &ahead->error));
        batch->count += taken;
    }
    return ETL_OK;
}

static void *merge_batches(void *argument) {
    struct etl__merge_ahead *ahead = argument;
    int status = ETL_OK;
    etl__os_lock(&ahead->lock);
    while (status == ETL_OK && !ahead->stopping) {
        if (ahead->made - ahead->given_back == BATCHES) {
            etl__os_wait(&ahead->lock);
            continue;
        }
        struct ring_batch *batch = &ahead->batches[ahead->made % BATCHES];
        etl__os_unlock(&ahead->lock);
        status = fill_batch(ahead, batch);
        etl__os_lock(&ahead->lock);
        ahead->made += batch->count != 0;
        ahead->status = status;
        if (ahead->reader_waits)
            etl__os_wake_all(&ahead->lock);
    }
    etl__os_unlock(&ahead->lock);
    return NULL;
}

struct etl__merge_ahead *etl__merge_ahead_open(struct etl__merge *merge) {
    if (etl__memory_left(merge->memory) / MEMORY_SHARE < sizeof(struct etl__merge_ahead))
        return NULL;
    struct etl__merge_ahead *ahead = etl__alloc_zeroed(merge->memory, sizeof *ahead);
    if (ahead != NULL)
        ahead->merge = merge;
    return ahead;
}

bool etl__merge_ahead_start(struct etl__merge_ahead *ahead) {
    if (etl__os_lock_init(&ahead->lock) != 0)
        return false;
    ahead->started = etl__os_thread_start(&ahead->thread, merge_batches, ahead) == 0;
    if (!ahead->started)
        etl__os_lock_end(&ahead->lock);
    return ahead->started;
}

int etl__merge_ahead_take(struct etl__merge_ahead *ahead, const struct etl__pair **pairs,
                          size_t *taken, struct etl__error *error) {
    *taken = 0;
    etl__os_lock(&ahead->lock);
    ahead->given_back += ahead->lent;
    ahead->lent = false;
    if (ahead->made - ahead->given_back == BATCHES / 2)
        etl__os_wake_all(&ahead->lock);
    ahead->reader_waits = true;
    while (ahead->made == ahead->given_back && ahead->status == ETL_OK)
        etl__os_wait(&ahead->lock);
    ahead->reader_waits = false;
    int status = ETL_OK;
    if (ahead->made != ahead->given_back) {
        const struct ring_batch *batch = &ahead->batches[ahead->given_back % BATCHES];
        *pairs = batch->pairs;
        *taken = batch->count;
        ahead->lent = true;
    } else {
        status = ahead->status;
        if (status != ETL_END)
            *error = ahead->error;
    }
    etl__os_unlock(&ahead->lock);
    return status;
}

void etl__merge_ahead_close(struct etl__merge_ahead *ahead) {
    if (ahead->started)
        etl__os_thread_stop(ahead->thread, &ahead->lock, &ahead->stopping);
    etl__free(ahead->merge->memory, ahead, sizeof *ahead);
}
