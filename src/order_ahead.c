/* order_ahead.c: a ring of shelves between threads that order buckets and a reader who takes them.
 *
 * Ordering a bucket takes longer than reading it, and buckets are independent of each other: each
 * thread claims the next one and orders it on a shelf of its own, and the reader is shown them in
 * turn. A bucket has thousands of pairs, so one lock for all of it costs nothing. */
#include "order_ahead.h"
#include "os.h"

enum { MOST_THREADS = 16 };

struct place {
    struct etl__shelf shelf;
    uint32_t bucket;
    bool ready;
};

struct etl__order_ahead {
    const struct etl__buffer *buffer;
    struct etl__memory *memory;
    struct etl__os_lock lock; /* of all that follows */
    uint32_t bucket;          /* to be claimed next */
    uint64_t claimed, taken;  /* places, counted without end; used in turn */
    bool showing;             /* the place taken last is the reader's */
    bool stopping;
    unsigned started;
    etl__os_thread threads[MOST_THREADS];
    uint32_t place_count;
    struct place places[];
};

static size_t ahead_size(uint32_t places) {
    return sizeof(struct etl__order_ahead) + places * sizeof(struct place);
}

static struct place *place_at(struct etl__order_ahead *ahead, uint64_t number) {
    return &ahead->places[number % ahead->place_count];
}

/* Is there a bucket left to be claimed? */
static bool has_bucket(struct etl__order_ahead *ahead) {
    const struct etl__partition *partition = ahead->buffer->partition;
    while (ahead->bucket < partition->splitters.count &&
           partition->buckets[ahead->bucket].pairs == 0)
        ahead->bucket++;
    return ahead->bucket < partition->splitters.count;
}

static void *order_buckets(void *argument) {
    struct etl__order_ahead *ahead = argument;
    etl__os_lock(&ahead->lock);
    while (!ahead->stopping && has_bucket(ahead)) {
        if (ahead->claimed - ahead->taken + ahead->showing >= ahead->place_count) {
            etl__os_wait(&ahead->lock);
            continue;
        }
        struct place *place = place_at(ahead, ahead->claimed++);
        place->bucket = ahead->bucket++;
        etl__os_unlock(&ahead->lock);
        etl__shelf_order(&place->shelf, &ahead->buffer->partition->buckets[place->bucket]);
        etl__os_lock(&ahead->lock);
        place->ready = true;
        etl__os_wake_all(&ahead->lock);
    }
    etl__os_unlock(&ahead->lock);
    return NULL;
}

/* Shelves for the reader and each thread, in half of the memory that is left. */
static struct etl__order_ahead *make(const struct etl__buffer *buffer, struct etl__memory *memory,
                                     uint32_t *places) {
    size_t each = etl__partition_order_bytes(buffer->partition) + sizeof(struct place);
    size_t most = etl__memory_left(memory) / 2 / each;
    *places = *places < most ? *places : (uint32_t)most;
    if (*places < 2)
        return NULL;
    struct etl__order_ahead *ahead = etl__alloc_zeroed(memory, ahead_size(*places));
    if (ahead == NULL)
        return NULL;
    ahead->buffer = buffer;
    ahead->memory = memory;
    ahead->place_count = *places;
    bool complete = etl__os_lock_init(&ahead->lock) == 0;
    if (!complete) {
        etl__free(memory, ahead, ahead_size(*places));
        return NULL;
    }
    for (uint32_t i = 0; i < *places; i++)
        complete &= etl__shelf_open(&ahead->places[i].shelf, buffer, memory);
    if (complete)
        return ahead;
    etl__order_ahead_stop(ahead);
    return NULL;
}

struct etl__order_ahead *etl__order_ahead_start(const struct etl__buffer *buffer,
                                                struct etl__memory *memory, uint32_t bucket,
                                                unsigned threads) {
    uint32_t places = (threads < MOST_THREADS ? threads : MOST_THREADS) + 1;
    struct etl__order_ahead *ahead = make(buffer, memory, &places);
    if (ahead == NULL)
        return NULL;
    ahead->bucket = bucket;
    while (ahead->started + 1 < places &&
           etl__os_thread_start(&ahead->threads[ahead->started], order_buckets, ahead) == 0)
        ahead->started++;
    if (ahead->started != 0)
        return ahead;
    etl__order_ahead_stop(ahead);
    return NULL;
}

const struct etl__shelf *etl__order_ahead_next(struct etl__order_ahead *ahead, uint32_t *bucket) {
    const struct place *shown = NULL;
    etl__os_lock(&ahead->lock);
    if (ahead->showing) {
        place_at(ahead, ahead->taken - 1)->ready = false;
        ahead->showing = false;
        etl__os_wake_all(&ahead->lock);
    }
    while (shown == NULL && (ahead->taken != ahead->claimed || has_bucket(ahead))) {
        struct place *next = place_at(ahead, ahead->taken);
        if (ahead->taken != ahead->claimed && next->ready)
            shown = next;
        else
            etl__os_wait(&ahead->lock);
    }
    if (shown != NULL) {
        ahead->taken++;
        ahead->showing = true;
        *bucket = shown->bucket;
    }
    etl__os_unlock(&ahead->lock);
    return shown != NULL ? &shown->shelf : NULL;
}

void etl__order_ahead_stop(struct etl__order_ahead *ahead) {
    etl__os_lock(&ahead->lock);
    ahead->stopping = true;
    etl__os_wake_all(&ahead->lock);
    etl__os_unlock(&ahead->lock);
    for (unsigned i = 0; i < ahead->started; i++)
        etl__os_thread_join(ahead->threads[i]);
    etl__os_lock_end(&ahead->lock);
    for (uint32_t i = 0; i < ahead->place_count; i++)
        etl__shelf_close(&ahead->places[i].shelf);
    etl__free(ahead->memory, ahead, ahead_size(ahead->place_count));
}
