/* ranges.c: one merge by two: the caller and a thread take ranges of keys in turn.
 *
 * Keys that the block indexes tell cut the key space (quantile.c), so that two merges over the same
 * sources can work at once (Iyer, Ricard and Varman, "Percentile Finding Algorithm for Multiple
 * Sorted Runs", VLDB 1989). The caller merges a range and is given its pairs as they come; a thread
 * merges a later one into a ring of references, which the caller is given when it gets there.
 *
 * Who merges what is not fixed. The caller merges each range that it finds unclaimed. The thread,
 * when it is done with one, claims the next that is free, where the caller will be busy with what
 * lies before that for about as long as merging it takes; else it leaves that one to the caller and
 * claims the one behind it. So for a slow callback the thread merges everything ahead, and for a
 * quick one half of it.
 *
 * Order    is that of one merge: pairs with equal keys lie in one range.
 * Errors   come where their pairs would have come.
 * Memory   The ring, of blocks that are kept between rounds. Sources must stay where they are:
 *          mapped runs, or memory. Pages that a run's reader has let go of before their pairs were
 *          taken from the ring are mapped again by who reads them.
 * Not chosen: parts for each of the two with no ring between: pairs come in order, so one of them
 * would wait. */
#include "ranges.h"
#include "os.h"
#include "quantile.h"
#include <assert.h>

enum {
    BATCH_PAIRS = 682,                /* 16 KiB with the head */
    SLAB_BATCHES = 64,                /* 1 MiB */
    RING_BATCHES = 12 * SLAB_BATCHES, /* half a million pairs */
    MEMORY_SHARE = 8,                 /* of the limit, the most that the ring takes */
    RANGES_LEAST = 4,
    RANGES_MOST = 512,
    SAMPLES = 8,              /* for each range */
    RANGE_BYTES = 1 << 20,    /* of each source, for seeking in it to be cheap against that */
    LEAST_PAIRS = 256 * 1024, /* for a thread to pay */
    LARGEST_RECORD = 1024,    /* on average */
    OWN_PAIRS = 64            /* at once, of what the caller merges */
};

struct batch {
    uint32_t count;
    bool last; /* of its range */
    struct etl__pair pairs[BATCH_PAIRS];
};

struct slab {
    struct batch batches[SLAB_BATCHES];
};

/* One of the two. */
struct lane {
    struct etl__merge *merge;
    struct etl__bound bound; /* of the range that it is in */
};

struct etl__ranges {
    struct etl__memory *memory;
    uint64_t pairs, delivered; /* of all */
    size_t count;
    etl_slice *cuts; /* count - 1 keys */
    size_t cut_capacity;
    struct etl__kept_keys *kept;

    /* The caller's. */
    struct lane own;
    struct etl__pair own_pairs[OWN_PAIRS];
    bool begun, from_ring;
    int ended; /* not ETL_OK: it was told */

    struct lane ahead; /* the thread's */
    etl__os_thread thread;
    bool started;
    atomic_bool stopping;
    _Atomic(uint64_t) own_done; /* pairs of the range that the caller merges */

    struct etl__os_lock lock;  /* of all that follows, but for the batches */
    size_t at, ahead_at;       /* the range of the caller, and the thread's */
    uint64_t own_began_ns;     /* 0: the caller takes from the ring */
    double own_ns;             /* a pair of its range before: merged and consumed */
    double ahead_ns;           /* merging by the thread, in all ... */
    uint64_t ahead_pairs;      /* ... of so many */
    uint64_t made, given_back; /* batches, counted without end; used in turn */
    bool lent;                 /* the first that was not given back is the caller's */
    bool caller_waits;
    int status;              /* of the thread; an error: behind the batches made */
    struct etl__error error; /* its text */
    size_t batches, slab_count;
    struct slab *slabs[RING_BATCHES / SLAB_BATCHES];
    bool claimed[RANGES_MOST]; /* by the thread */
};

/* ---- Lanes */

static int enter_range(const struct etl__ranges *ranges, struct lane *lane, size_t range,
                       struct etl__error *error) {
    const etl_slice first = etl_slice_of("", 0), *cuts = ranges->cuts;
    etl_slice from = range == 0 ? first : cuts[range - 1];
    lane->bound = range + 1 < ranges->count ? etl__bound_at(cuts[range]) : (struct etl__bound){0};
    return etl__merge_seek(lane->merge, from.data, from.size, error);
}

static int take_of_range(struct lane *lane, struct etl__pair *pairs, size_t most, size_t *taken,
                         struct etl__error *error) {
    return etl__merge_take_before(lane->merge, &lane->bound, pairs, most, taken, error);
}

/* ---- The thread */

static struct batch *batch_at(const struct etl__ranges *ranges, uint64_t number) {
    uint64_t place = number % ranges->batches;
    return &ranges->slabs[place / SLAB_BATCHES]->batches[place % SLAB_BATCHES];
}

/* How long until the caller wants the range behind its own and what is in the ring? */
static double free_ns(const struct etl__ranges *ranges, double each, double merging_ns) {
    double left = 0, own_ns = ranges->own_ns;
    if (ranges->own_began_ns != 0) {
        double done = (double)atomic_load_explicit(&ranges->own_done, memory_order_relaxed);
        left = done < each ? each - done : 0;
        if (done > each / 8)
            own_ns = (double)(etl__os_now_ns() - ranges->own_began_ns) / done;
    }
    double taking_ns = own_ns > merging_ns ? own_ns - merging_ns : 0;
    double waiting = (double)(ranges->made - ranges->given_back) * BATCH_PAIRS;
    return left * own_ns + waiting * taking_ns;
}

/* The thread's next range, or a number that no range has. */
static size_t claim_range(struct etl__ranges *ranges) {
    size_t next = ranges->ahead_at > ranges->at ? ranges->ahead_at : ranges->at;
    next++;
    if (ranges->ahead_pairs != 0) {
        double merging_ns = ranges->ahead_ns / (double)ranges->ahead_pairs;
        double each = (double)ranges->pairs / (double)ranges->count;
        next += free_ns(ranges, each, merging_ns) < each * merging_ns * 3 / 4;
    }
    ranges->ahead_at = next;
    if (next < ranges->count)
        ranges->claimed[next] = true;
    return next;
}

static int fill_batch(struct etl__ranges *ranges, struct batch *batch) {
    struct lane *lane = &ranges->ahead;
    int status = ETL_OK;
    batch->count = 0;
    while (status == ETL_OK && batch->count < BATCH_PAIRS &&
           !atomic_load_explicit(&ranges->stopping, memory_order_relaxed)) {
        size_t taken;
        status = take_of_range(lane, batch->pairs + batch->count, BATCH_PAIRS - batch->count,
                               &taken, &ranges->error);
        batch->count += (uint32_t)taken;
    }
    batch->last = status == ETL_END;
    return status;
}

/* With the lock. */
static int merge_range(struct etl__ranges *ranges, size_t range) {
    etl__os_unlock(&ranges->lock);
    int status = enter_range(ranges, &ranges->ahead, range, &ranges->error);
    etl__os_lock(&ranges->lock);
    while (status == ETL_OK && !ranges->stopping) {
        if (ranges->made - ranges->given_back == ranges->batches) {
            etl__os_wait(&ranges->lock);
            continue;
        }
        struct batch *batch = batch_at(ranges, ranges->made);
        etl__os_unlock(&ranges->lock);
        uint64_t began = etl__os_now_ns();
        status = fill_batch(ranges, batch);
        uint64_t took = etl__os_now_ns() - began;
        etl__os_lock(&ranges->lock);
        ranges->ahead_ns += (double)took;
        ranges->ahead_pairs += batch->count;
        ranges->made++;
        if (ranges->caller_waits)
            etl__os_wake_all(&ranges->lock);
    }
    return status;
}

static void *merge_ahead(void *argument) {
    struct etl__ranges *ranges = argument;
    int status = ETL_OK;
    etl__os_lock(&ranges->lock);
    while (!ranges->stopping && (status == ETL_OK || status == ETL_END)) {
        size_t range = claim_range(ranges);
        if (range >= ranges->count)
            break;
        status = merge_range(ranges, range);
    }
    ranges->status = status;
    etl__os_wake_all(&ranges->lock);
    etl__os_unlock(&ranges->lock);
    return NULL;
}

/* ---- The caller */

/* Go on with the range behind the present one, or with the first: from where? */
static int next_range(struct etl__ranges *ranges, struct etl__error *error) {
    size_t range = ranges->begun ? ranges->at + 1 : 0;
    if (range == ranges->count) {
        if (ranges->delivered == ranges->pairs)
            return ETL_END;
        return etl__fail(error, ETL_E_CORRUPT, "merging: %llu pairs went in, %llu came out",
                         (unsigned long long)ranges->pairs, (unsigned long long)ranges->delivered);
    }
    uint64_t now = etl__os_now_ns();
    etl__os_lock(&ranges->lock);
    uint64_t done = atomic_load_explicit(&ranges->own_done, memory_order_relaxed);
    if (ranges->own_began_ns != 0 && done != 0)
        ranges->own_ns = (double)(now - ranges->own_began_ns) / (double)done;
    ranges->begun = true;
    ranges->at = range;
    ranges->from_ring = ranges->claimed[range];
    ranges->own_began_ns = ranges->from_ring ? 0 : now;
    atomic_store_explicit(&ranges->own_done, 0, memory_order_relaxed);
    etl__os_unlock(&ranges->lock);
    return ranges->from_ring ? ETL_OK : enter_range(ranges, &ranges->own, range, error);
}

static void take_back(struct etl__ranges *ranges) {
    if (!ranges->lent)
        return;
    ranges->given_back++;
    ranges->lent = false;
    if (ranges->made - ranges->given_back == ranges->batches - 1 - ranges->batches / 4)
        etl__os_wake_all(&ranges->lock);
}

/* The next batch of the ring; ETL_END behind the last of a range. */
static int take_from_ring(struct etl__ranges *ranges, const struct etl__pair **pairs,
                          size_t *taken, struct etl__error *error) {
    int status = ETL_OK;
    etl__os_lock(&ranges->lock);
    bool was_last = ranges->lent && batch_at(ranges, ranges->given_back)->last;
    take_back(ranges);
    ranges->caller_waits = true;
    while (!was_last && ranges->made == ranges->given_back && ranges->status == ETL_OK)
        etl__os_wait(&ranges->lock);
    ranges->caller_waits = false;
    if (was_last) {
        status = ETL_END;
    } else if (ranges->made != ranges->given_back) {
        const struct batch *batch = batch_at(ranges, ranges->given_back);
        *pairs = batch->pairs;
        *taken = batch->count;
        ranges->lent = true;
    } else {
        status = ranges->status;
        *error = ranges->error;
    }
    etl__os_unlock(&ranges->lock);
    return status;
}

static int take_own(struct etl__ranges *ranges, const struct etl__pair **pairs, size_t *taken,
                    struct etl__error *error) {
    uint64_t done = atomic_load_explicit(&ranges->own_done, memory_order_relaxed);
    ETL__TRY(take_of_range(&ranges->own, ranges->own_pairs, OWN_PAIRS, taken, error));
    atomic_store_explicit(&ranges->own_done, done + *taken, memory_order_relaxed);
    *pairs = ranges->own_pairs;
    return ETL_OK;
}

int etl__ranges_take(struct etl__ranges *ranges, const struct etl__pair **pairs, size_t *taken,
                     struct etl__error *error) {
    *taken = 0;
    while (ranges->ended == ETL_OK) {
        int status = !ranges->begun      ? ETL_END
                     : ranges->from_ring ? take_from_ring(ranges, pairs, taken, error)
                                         : take_own(ranges, pairs, taken, error);
        ranges->delivered += *taken;
        if (status == ETL_OK && *taken != 0)
            return ETL_OK;
        if (status == ETL_END)
            status = next_range(ranges, error);
        ranges->ended = status;
    }
    return ranges->ended;
}

/* ---- Open, close */

/* A range is about as many pairs as the ring holds: the thread is busy while the caller merges one,
 * and the bytes of a range are still in the cache that both share. */
struct etl__ranges_plan etl__ranges_plan(const struct etl__merge *merge) {
    struct etl__ranges_plan plan = {.batches = RING_BATCHES};
    uint64_t pairs = etl__merge_left(merge), bytes = etl__merge_record_size(merge) * pairs;
    size_t most = merge->memory->limit / MEMORY_SHARE / sizeof(struct batch);
    uint64_t needed = pairs / RANGES_LEAST / BATCH_PAIRS;
    plan.batches = plan.batches < most ? plan.batches : most;
    plan.batches = plan.batches < needed ? plan.batches : (size_t)needed;
    if (pairs < LEAST_PAIRS || plan.batches == 0 || bytes / pairs > LARGEST_RECORD ||
        !etl__merge_stays(merge))
        return plan;
    uint64_t by_ring = pairs / (plan.batches * BATCH_PAIRS);
    uint64_t by_bytes = bytes / RANGE_BYTES / merge->provider_count;
    uint64_t ranges = by_ring < by_bytes ? by_ring : by_bytes;
    if (ranges >= RANGES_LEAST && by_ring / 2 <= by_bytes)
        plan.ranges = etl__clamp((size_t)ranges, RANGES_LEAST, RANGES_MOST);
    plan.bytes = (plan.batches + SLAB_BATCHES - 1) / SLAB_BATCHES * sizeof(struct slab) +
                 (size_t)etl__quantiles_bytes(merge, plan.ranges, SAMPLES);
    return plan;
}

static bool take_memory(struct etl__ranges *ranges, const struct etl__ranges_plan *plan) {
    ranges->batches = plan->batches;
    ranges->cut_capacity = plan->ranges - 1;
    ranges->cuts = etl__alloc(ranges->memory, ranges->cut_capacity * sizeof *ranges->cuts);
    if (ranges->cuts == NULL)
        return false;
    while (ranges->slab_count * SLAB_BATCHES < plan->batches) {
        struct slab *slab = etl__alloc(ranges->memory, sizeof *slab);
        if (slab == NULL)
            return false;
        ranges->slabs[ranges->slab_count++] = slab;
    }
    return true;
}

static bool start(struct etl__ranges *ranges) {
    if (etl__os_lock_init(&ranges->lock) != 0)
        return false;
    ranges->started = etl__os_thread_start(&ranges->thread, merge_ahead, ranges) == 0;
    if (!ranges->started)
        etl__os_lock_end(&ranges->lock);
    return ranges->started;
}

void etl__ranges_close(struct etl__ranges *ranges) {
    struct etl__memory *memory = ranges->memory;
    if (ranges->started)
        etl__os_thread_stop(ranges->thread, &ranges->lock, &ranges->stopping);
    for (size_t i = 0; i < ranges->slab_count; i++)
        etl__free(memory, ranges->slabs[i], sizeof *ranges->slabs[i]);
    etl__kept_keys_free(memory, ranges->kept);
    etl__free(memory, ranges->cuts, ranges->cut_capacity * sizeof *ranges->cuts);
    etl__free(memory, ranges, sizeof *ranges);
}

int etl__ranges_open(struct etl__ranges **out, const struct etl__ranges_plan *plan,
                     struct etl__merge *merge, struct etl__merge *second,
                     struct etl__error *error) {
    assert(plan->ranges <= RANGES_MOST && plan->batches <= RING_BATCHES);
    *out = NULL;
    struct etl__ranges *ranges = etl__alloc_zeroed(merge->memory, sizeof *ranges);
    if (ranges == NULL)
        return ETL_OK;
    ranges->memory = merge->memory;
    ranges->pairs = etl__merge_left(merge);
    ranges->own.merge = merge;
    ranges->ahead.merge = second;
    size_t cuts = 0;
    int status = ETL_OK;
    if (take_memory(ranges, plan))
        status = etl__quantiles(merge, plan->ranges, SAMPLES, ranges->cuts, &cuts, &ranges->kept,
                                error);
    ranges->count = cuts + 1;
    if (status == ETL_OK && cuts != 0 && start(ranges))
        *out = ranges;
    else
        etl__ranges_close(ranges);
    return status;
}
