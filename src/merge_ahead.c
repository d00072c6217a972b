/* merge_ahead.c: a ring of batches between the thread that merges and whoever takes them.
 *
 * A pair costs its consumer more when another processor has merged it: its lines are in that one's
 * cache. So this can pay only where the consumer takes about as long as the merge or longer;
 * duplicates.c weighs them, and stops it where it does not. A batch holds hundreds of pairs, so
 * that one lock for all of it costs nothing, and the thread sleeps until half of the ring is free. It
 * ends after some bytes: mapped pages behind the merge are released, and must not be while pairs in
 * them wait in the ring; and a reader who waits for a batch sees nothing else until it comes. */
#include "merge_ahead.h"
#include "os.h"

enum {
    BATCHES = 8,
    BATCH_PAIRS = 512,
    BATCH_BYTES = 48 * 1024,          /* of records: the batch is full */
    TAKEN = 64,                       /* pairs at once, before that is looked at */
    RING_BYTES = BATCHES * 64 * 1024, /* with what a take may add, of records of a usual size: */
    LARGEST_RECORD = 1024,            /* on average */
    MEMORY_SHARE = 2                  /* of what is left, the most that the ring takes */
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
    uint64_t bytes = 0;
    batch->count = 0;
    while (batch->count + TAKEN <= BATCH_PAIRS && bytes < BATCH_BYTES &&
           !atomic_load_explicit(&ahead->stopping, memory_order_relaxed)) {
        struct etl__pair *pairs = batch->pairs + batch->count;
        size_t taken;
        ETL__TRY(etl__merge_take(ahead->merge, pairs, TAKEN, &taken, &ahead->error));
        for (size_t i = 0; i < taken; i++)
            bytes += (uint64_t)pairs[i].key_size + pairs[i].value_size;
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
    if (etl__memory_left(merge->memory) / MEMORY_SHARE < sizeof(struct etl__merge_ahead) ||
        !etl__merge_lasts(merge, RING_BYTES) || etl__merge_record_size(merge) > LARGEST_RECORD)
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

static void take_back(struct etl__merge_ahead *ahead) {
    ahead->given_back += ahead->lent;
    ahead->lent = false;
}

/* The next batch that was made; when there is none, what comes behind them. */
static int lend(struct etl__merge_ahead *ahead, const struct etl__pair **pairs, size_t *taken,
                struct etl__error *error) {
    if (ahead->made != ahead->given_back) {
        const struct ring_batch *batch = &ahead->batches[ahead->given_back % BATCHES];
        *pairs = batch->pairs;
        *taken = batch->count;
        ahead->lent = true;
        return ETL_OK;
    }
    if (ahead->status != ETL_OK && ahead->status != ETL_END)
        *error = ahead->error;
    return ahead->status;
}

int etl__merge_ahead_take(struct etl__merge_ahead *ahead, const struct etl__pair **pairs,
                          size_t *taken, struct etl__error *error) {
    *taken = 0;
    if (!ahead->started) { /* any more */
        take_back(ahead);
        return lend(ahead, pairs, taken, error);
    }
    etl__os_lock(&ahead->lock);
    take_back(ahead);
    if (ahead->made - ahead->given_back == BATCHES / 2)
        etl__os_wake_all(&ahead->lock);
    ahead->reader_waits = true;
    while (ahead->made == ahead->given_back && ahead->status == ETL_OK)
        etl__os_wait(&ahead->lock);
    ahead->reader_waits = false;
    int status = lend(ahead, pairs, taken, error);
    etl__os_unlock(&ahead->lock);
    return status;
}

void etl__merge_ahead_halt(struct etl__merge_ahead *ahead) {
    if (ahead->started)
        etl__os_thread_stop(ahead->thread, &ahead->lock, &ahead->stopping);
    ahead->started = false;
}

void etl__merge_ahead_close(struct etl__merge_ahead *ahead) {
    etl__merge_ahead_halt(ahead);
    etl__free(ahead->merge->memory, ahead, sizeof *ahead);
}
