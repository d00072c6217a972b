/* pool.c: the budget, and the blocks that are retained.
 *
 * Claims are counted under one lock, together with the check whether they fit, so that members on
 * any number of threads cannot pass the limit together. The lock is held for moments: blocks are
 * allocated and freed, and with that the caller's hook is called, after it was released.
 *
 * Retained blocks lie in bins by size, four to each power of two. What nobody took for some cycles
 * is freed, so that one huge round does not pin its peak; in a cycle each member begins one round
 * at most.
 *
 * Not chosen: shares of the limit for each member, which many idle ones make small for the few
 * that work; and waiting for memory, which dead-locks as soon as one thread has two collectors. */
#include "pool.h"
#include "os.h"

#include <assert.h>

enum {
    LEAST_BLOCK = 64,
    BINS = 4 * 58,
    LABELS = 64, /* that are remembered; the oldest makes way */
    PLAN_SHARE = 32,
    FADING = 8 /* cycles */
};
#define DEFAULT_LIMIT  ((size_t)256 << 20)
#define LEAST_LIMIT    ((size_t)1 << 20)
#define MOST_LIMIT     (SIZE_MAX / 4)
#define LEAST_NEWCOMER ((size_t)4 << 20) /* held back for members that begin; at most a quarter */

/* What stands in a block that is retained. */
struct retained {
    struct retained *next;
    size_t size;
    uint64_t cycle; /* in which it was given back */
};

struct label {
    uint64_t hash;
    size_t bytes;
};

struct etl_pool {
    struct etl__heap heap;
    size_t limit, retain_limit;
    int64_t process; /* that made it: in a forked child nothing is touched */
    struct etl__os_lock lock;
    size_t references; /* members, and the one who created it */
    size_t active;
    size_t committed;      /* claims, or floors of active members where these are higher */
    size_t idle_floors;    /* of members that are not active */
    size_t held, peak;     /* from the heap: by members, and retained */
    size_t retained;       /* of held */
    uint64_t allocations;  /* of the heap */
    bool wanted;           /* a member with less than an even share was refused */
    uint64_t cycle, faded; /* the current one, and when what is old was freed last */
    size_t next_label;
    struct label labels[LABELS];
    struct retained *bins[ETL__PURPOSES][BINS]; /* what was given back last comes first */
};

/* ---- Life */

static void end_pool(etl_pool *pool) {
    struct etl__heap heap = pool->heap;
    etl__os_lock_end(&pool->lock);
    (void)etl__heap_give(&heap, pool, sizeof *pool);
    (void)etl__heap_give_again(&heap);
}

int etl_pool_create(etl_pool **out, const etl_pool_options *options) {
    etl_pool_options complete = {0};
    struct etl__heap heap;
    if (out == NULL)
        return ETL_E_INVALID;
    *out = NULL;
    if (options != NULL && !etl__take_struct(&complete, sizeof complete, options))
        return ETL_E_INVALID;
    size_t limit = complete.memory_limit != 0 ? complete.memory_limit : DEFAULT_LIMIT;
    limit = limit < LEAST_LIMIT ? LEAST_LIMIT : limit > MOST_LIMIT ? MOST_LIMIT : limit;
    etl__heap_init(&heap, &complete.allocator);
    etl_pool *pool = etl__heap_take(&heap, sizeof *pool);
    if (pool == NULL)
        return ETL_E_NOMEM;
    memset(pool, 0, sizeof *pool);
    if (etl__os_lock_init(&pool->lock) != 0) {
        (void)etl__heap_give(&heap, pool, sizeof *pool);
        return ETL_E_NOMEM;
    }
    etl__heap_init(&pool->heap, &complete.allocator);
    pool->limit = limit;
    pool->retain_limit = complete.retain_limit != 0 ? complete.retain_limit : limit;
    pool->process = etl__os_process_id();
    pool->references = 1;
    pool->cycle = pool->faded = 1;
    *out = pool;
    return ETL_OK;
}

size_t etl__pool_limit(const struct etl_pool *pool) {
    return pool->limit;
}

const etl_allocator *etl__pool_allocator(const struct etl_pool *pool) {
    return &pool->heap.hook;
}

size_t etl__pool_plan(const struct etl_pool *pool) {
    size_t plan = pool->limit / PLAN_SHARE;
    return plan < LEAST_LIMIT ? LEAST_LIMIT : plan;
}

/* ---- Retained blocks */

static size_t bin_of(size_t size) {
    size_t doubling = 6;
    while (doubling < 63 && size >> doubling >= 2)
        doubling++;
    return 4 * (doubling - 6) + (size >> (doubling - 2) & 3);
}

static struct retained *unlink_at(etl_pool *pool, struct retained **link) {
    struct retained *block = *link;
    *link = block->next;
    block->next = NULL;
    pool->retained -= block->size;
    return block;
}

static void add_victim(etl_pool *pool, struct retained **link, struct retained **victims) {
    struct retained *block = unlink_at(pool, link);
    pool->held -= block->size;
    block->next = *victims;
    *victims = block;
}

/* In one bin, of the blocks of [least, most] bytes the largest, or the smallest. */
static struct retained **find_in(struct retained **link, size_t least, size_t most, bool largest) {
    struct retained **found = NULL;
    for (; *link != NULL; link = &(*link)->next) {
        size_t size = (*link)->size;
        if (size < least || size > most)
            continue;
        if (found == NULL || (largest ? size > (*found)->size : size < (*found)->size))
            found = link;
        if (size == (largest ? most : least))
            break;
    }
    return found;
}

/* The largest that is not above wanted, else the smallest: members that ask for the sizes they
 * asked for in the round before get the same blocks. */
static struct retained **find_fitting(struct retained **bins, const struct etl__wish *wish,
                                      size_t most) {
    struct retained **found = NULL;
    size_t wanted = wish->wanted < most ? wish->wanted : most;
    size_t low = bin_of(wish->least), middle = bin_of(wanted), high = bin_of(most);
    for (size_t bin = middle + 1; bin-- > low && found == NULL;)
        found = find_in(&bins[bin], wish->least, wanted, true);
    for (size_t bin = middle; bin <= high && found == NULL; bin++)
        found = find_in(&bins[bin], wanted, most, false);
    return found;
}

/* Of what was retained for the same purpose; or for the other, when something would have to make
 * way for a new one. */
static struct retained *unlink_fitting(etl_pool *pool, const struct etl__wish *wish, size_t most) {
    struct retained **found = find_fitting(pool->bins[wish->purpose], wish, most);
    if (found == NULL && pool->held + wish->wanted > pool->limit)
        found = find_fitting(pool->bins[1 - wish->purpose], wish, most);
    return found != NULL ? unlink_at(pool, found) : NULL;
}

static bool is_surplus(const etl_pool *pool, size_t keep, size_t more) {
    return pool->retained > keep || pool->held > pool->limit || more > pool->limit - pool->held;
}

/* Unlink the largest until no more than `keep` bytes are retained, and all that is held, with
 * `more`, is within the limit: to be freed once the lock is released. */
static struct retained *unlink_surplus(etl_pool *pool, size_t keep, size_t more) {
    struct retained *victims = NULL;
    for (size_t bin = BINS; bin-- > 0 && pool->retained != 0 && is_surplus(pool, keep, more);)
        for (int purpose = 0; purpose < ETL__PURPOSES; purpose++)
            while (pool->bins[purpose][bin] != NULL && is_surplus(pool, keep, more))
                add_victim(pool, &pool->bins[purpose][bin], &victims);
    return victims;
}

/* Unlink what nobody took for some cycles. */
static struct retained *unlink_old(etl_pool *pool) {
    struct retained *victims = NULL;
    for (int purpose = 0; purpose < ETL__PURPOSES; purpose++)
        for (size_t bin = 0; bin < BINS && pool->retained != 0; bin++)
            for (struct retained **link = &pool->bins[purpose][bin]; *link != NULL;)
                if ((*link)->cycle < pool->faded)
                    add_victim(pool, link, &victims);
                else
                    link = &(*link)->next;
    pool->faded = pool->cycle;
    return victims;
}

/* Without the lock. */
static void free_all(etl_pool *pool, struct retained *victims) {
    size_t counted = 0, returned = 0;
    while (victims != NULL) {
        struct retained *next = victims->next;
        size_t size = victims->size;
        counted += size;
        returned += etl__heap_give(&pool->heap, victims, size);
        victims = next;
    }
    if (counted == returned)
        return;
    etl__os_lock(&pool->lock);
    pool->held += counted - returned; /* what munmap refused is still held */
    etl__os_unlock(&pool->lock);
}

/* ---- Claims */

static size_t weight(const struct etl__member *member) {
    return member->active && member->floor > member->claimed ? member->floor : member->claimed;
}

static void claim(etl_pool *pool, struct etl__member *member, size_t less, size_t more) {
    pool->committed -= weight(member);
    member->claimed = member->claimed - less + more;
    pool->committed += weight(member);
}

/* What is held back for members that begin. */
static size_t newcomers_share(const etl_pool *pool) {
    size_t share = pool->limit / 4 < LEAST_NEWCOMER ? pool->limit / 4 : LEAST_NEWCOMER;
    share = pool->limit / 8 > share ? pool->limit / 8 : share;
    return pool->idle_floors < share ? pool->idle_floors : share;
}

/* What a member may still claim beyond what it has. */
static size_t left_for(const etl_pool *pool, const struct etl__member *member) {
    size_t gone = pool->committed + newcomers_share(pool);
    size_t common = gone < pool->limit ? pool->limit - gone : 0;
    return weight(member) - member->claimed + common;
}

size_t etl__pool_left(etl_pool *pool, const struct etl__member *member) {
    etl__os_lock(&pool->lock);
    size_t left = left_for(pool, member) + (member->active ? member->reserve : 0);
    etl__os_unlock(&pool->lock);
    return left;
}

void etl__pool_pledge(etl_pool *pool, struct etl__member *member, size_t before, size_t now) {
    etl__os_lock(&pool->lock);
    claim(pool, member, before, now);
    member->pledged = member->pledged - before + now;
    etl__os_unlock(&pool->lock);
}

static size_t even_share(const etl_pool *pool) {
    return pool->limit / (pool->active != 0 ? pool->active : 1);
}

void etl__pool_want(etl_pool *pool, const struct etl__member *member) {
    etl__os_lock(&pool->lock);
    if (member->claimed < even_share(pool))
        pool->wanted = true;
    etl__os_unlock(&pool->lock);
}

bool etl__pool_asks(etl_pool *pool, const struct etl__member *member) {
    etl__os_lock(&pool->lock);
    bool asks = pool->wanted && member->claimed > even_share(pool);
    if (asks)
        pool->wanted = false;
    etl__os_unlock(&pool->lock);
    return asks;
}

/* ---- Blocks */

/* A new block, whose size is claimed. When the system has none, what is retained goes first. */
static void *take_new(etl_pool *pool, size_t size) {
    etl__os_lock(&pool->lock);
    struct retained *victims = unlink_surplus(pool, SIZE_MAX, size);
    pool->held += size;
    if (pool->held > pool->peak)
        pool->peak = pool->held;
    pool->allocations++;
    etl__os_unlock(&pool->lock);
    free_all(pool, victims);
    void *block = etl__heap_take(&pool->heap, size);
    if (block != NULL)
        return block;
    etl__os_lock(&pool->lock);
    victims = unlink_surplus(pool, 0, 0);
    etl__os_unlock(&pool->lock);
    if (victims == NULL)
        return NULL;
    free_all(pool, victims);
    return etl__heap_take(&pool->heap, size);
}

void *etl__pool_take(etl_pool *pool, struct etl__member *member, const struct etl__wish *wish,
                     size_t *size, bool *is_new) {
    size_t most = wish->most;
    struct retained *found = NULL;
    etl__os_lock(&pool->lock);
    if (wish->within) {
        size_t left = left_for(pool, member);
        most = left < most ? left : most;
    }
    *size = wish->wanted < most ? wish->wanted : most;
    bool fits = wish->least <= most && (!wish->within || wish->wanted <= most);
    if (fits) {
        found = unlink_fitting(pool, wish, most);
        if (found != NULL)
            *size = found->size;
        claim(pool, member, 0, *size);
    }
    etl__os_unlock(&pool->lock);
    *is_new = found == NULL;
    if (!fits || found != NULL)
        return found;
    void *block = take_new(pool, *size);
    if (block != NULL)
        return block;
    etl__os_lock(&pool->lock);
    pool->held -= *size;
    pool->allocations--;
    claim(pool, member, *size, 0);
    etl__os_unlock(&pool->lock);
    return NULL;
}

void etl__pool_give(etl_pool *pool, struct etl__member *member, enum etl__purpose purpose,
                    void *block, size_t size) {
    assert(size >= LEAST_BLOCK);
    struct retained *given = block;
    etl__os_lock(&pool->lock);
    claim(pool, member, size, 0);
    *given = (struct retained){
        .next = pool->bins[purpose][bin_of(size)], .size = size, .cycle = pool->cycle};
    pool->bins[purpose][bin_of(size)] = given;
    pool->retained += size;
    struct retained *victims = unlink_surplus(pool, pool->retain_limit, 0);
    etl__os_unlock(&pool->lock);
    free_all(pool, victims);
}

/* ---- Members and rounds */

void etl__pool_join(etl_pool *pool, struct etl__member *member) {
    *member = (struct etl__member){.cycle = 0};
    etl__os_lock(&pool->lock);
    pool->references++;
    etl__os_unlock(&pool->lock);
}

static void drop_reference(etl_pool *pool, bool keep_nothing) {
    etl__os_lock(&pool->lock);
    bool last = --pool->references == 0;
    if (keep_nothing)
        pool->retain_limit = 0;
    struct retained *victims = unlink_surplus(pool, last ? 0 : pool->retain_limit, 0);
    etl__os_unlock(&pool->lock);
    free_all(pool, victims);
    if (last)
        end_pool(pool);
}

void etl_pool_destroy(etl_pool *pool) {
    if (pool != NULL && pool->process == etl__os_process_id())
        drop_reference(pool, true);
}

void etl__pool_quit(etl_pool *pool, struct etl__member *member) {
    etl__pool_leave(pool, member, "", 0);
    etl__pool_promise(pool, member, 0, 0);
    drop_reference(pool, false);
}

void etl__pool_promise(etl_pool *pool, struct etl__member *member, size_t floor, size_t reserve) {
    etl__os_lock(&pool->lock);
    pool->idle_floors = pool->idle_floors - member->floor + floor;
    member->floor = floor;
    member->reserve = reserve;
    etl__os_unlock(&pool->lock);
}

/* FNV-1a; 0 stands for no label. */
static uint64_t hash_of(const char *label) {
    uint64_t hash = *label != '\0' ? 0xCBF29CE484222325u : 0;
    for (; *label != '\0'; label++)
        hash = (hash ^ (uint8_t)*label) * 0x100000001B3u;
    return hash;
}

static struct label *find_label(etl_pool *pool, uint64_t hash) {
    for (size_t i = 0; i < LABELS && hash != 0; i++)
        if (pool->labels[i].hash == hash)
            return &pool->labels[i];
    return NULL;
}

/* The second round of one member begins a cycle. */
static struct retained *turn_cycle(etl_pool *pool) {
    pool->cycle++;
    return pool->cycle - pool->faded >= FADING ? unlink_old(pool) : NULL;
}

size_t etl__pool_enter(etl_pool *pool, struct etl__member *member, const char *label) {
    struct retained *victims = NULL;
    etl__os_lock(&pool->lock);
    if (!member->active) {
        if (member->cycle == pool->cycle)
            victims = turn_cycle(pool);
        member->cycle = pool->cycle;
        pool->committed -= weight(member);
        pool->idle_floors -= member->floor;
        pool->active++;
        member->active = true;
        member->claimed += member->reserve;
        pool->committed += weight(member);
    }
    const struct label *known = find_label(pool, hash_of(label));
    size_t needed = known != NULL ? known->bytes : 0;
    etl__os_unlock(&pool->lock);
    free_all(pool, victims);
    return needed;
}

static void learn(etl_pool *pool, uint64_t hash, size_t bytes_needed) {
    struct label *known = find_label(pool, hash);
    if (known == NULL)
        known = &pool->labels[pool->next_label++ % LABELS];
    *known = (struct label){.hash = hash, .bytes = bytes_needed};
}

void etl__pool_leave(etl_pool *pool, struct etl__member *member, const char *label,
                     size_t bytes_needed) {
    etl__os_lock(&pool->lock);
    if (member->active) {
        pool->committed -= weight(member);
        pool->idle_floors += member->floor;
        pool->active--;
        member->active = false;
        member->claimed -= member->reserve;
        pool->committed += weight(member);
        if (*label != '\0' && bytes_needed != 0)
            learn(pool, hash_of(label), bytes_needed);
    }
    etl__os_unlock(&pool->lock);
}

int etl_pool_get_stats(const etl_pool *given, etl_pool_stats *stats) {
    etl_pool *pool = (etl_pool *)(uintptr_t)given; /* to be locked */
    if (pool == NULL || stats == NULL || stats->struct_size < sizeof stats->struct_size)
        return ETL_E_INVALID;
    etl__os_lock(&pool->lock);
    etl_pool_stats now = {.struct_size = stats->struct_size,
                          .memory_bytes = pool->held,
                          .memory_bytes_peak = pool->peak,
                          .retained_bytes = pool->retained,
                          .allocations = pool->allocations,
                          .collectors = pool->references - 1,
                          .collectors_active = pool->active};
    etl__os_unlock(&pool->lock);
    size_t size = stats->struct_size < sizeof now ? stats->struct_size : sizeof now;
    memcpy(stats, &now, size);
    return ETL_OK;
}
