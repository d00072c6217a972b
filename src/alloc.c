/* alloc.c: the one place where memory is taken and given back.
 *
 * Freed small blocks of one size are a list through the blocks themselves. Several threads of
 * one collector take and give (the caller's, those that spill), each for a moment, so a spin lock
 * guards the lists. */
#include "alloc.h"
#include "os.h"

#include <assert.h>

/* What stands in a block that waits to be taken again. */
struct etl__kept {
    struct etl__kept *next;
};

/* What stands beside a mapping of a file that munmap refused, until it can be returned. */
struct unmapped {
    struct unmapped *next;
    const void *map;
    size_t size, block_size;
};

void etl__memory_init(struct etl__memory *memory, const etl_allocator *hook, size_t limit) {
    etl__heap_init(&memory->heap, hook);
    atomic_init(&memory->unmapped, NULL);
    memory->pool = NULL;
    memory->limit = memory->plan = limit;
    atomic_init(&memory->used, 0);
    atomic_init(&memory->peak, 0);
    atomic_init(&memory->allocations, 0);
    atomic_flag_clear(&memory->kept_lock);
    atomic_init(&memory->kept_bytes, 0);
    memset(memory->kept, 0, sizeof memory->kept);
}

void etl__memory_join(struct etl__memory *memory, struct etl_pool *pool) {
    size_t plan = etl__pool_plan(pool);
    memory->pool = pool;
    memory->plan = plan < memory->limit ? plan : memory->limit;
    etl__pool_join(pool, &memory->member);
}

/* The size class of a small block; ETL__KEPT_CLASSES or more for a large one. */
static size_t class_of(size_t size) {
    size_t doubling = 0;
    while (doubling < ETL__KEPT_DOUBLINGS && (size_t)ETL__KEPT_LEAST << doubling < size)
        doubling++;
    if (doubling == 0)
        return 0;
    /* Between half and all of this power of two, in quarters of the half. */
    size_t half = (size_t)ETL__KEPT_LEAST << (doubling - 1);
    size_t quarters = (size - half + half / 4 - 1) / (half / 4);
    return size > ETL__KEPT_MOST ? ETL__KEPT_CLASSES : 4 * (doubling - 1) + quarters;
}

static size_t class_size(size_t kind) {
    size_t base = (size_t)ETL__KEPT_LEAST << kind / 4;
    return base + kind % 4 * (base / 4);
}

/* In a pool in steps of the smallest block, so that an array that gets a block which is larger
 * than it asked for can use, and give back, all of it. */
size_t etl__large_cost(const struct etl__memory *memory, size_t size) {
    if (memory->pool != NULL && size < SIZE_MAX - ETL__KEPT_LEAST)
        size = (size + ETL__KEPT_LEAST - 1) / ETL__KEPT_LEAST * ETL__KEPT_LEAST;
    return etl__heap_cost(&memory->heap, size);
}

size_t etl__memory_left(struct etl__memory *memory) {
    size_t used = atomic_load_explicit(&memory->used, memory_order_relaxed);
    size_t kept = atomic_load_explicit(&memory->kept_bytes, memory_order_relaxed);
    used = used > kept ? used - kept : 0;
    if (memory->pool != NULL)
        used += memory->member.pledged; /* by this thread */
    size_t left = used < memory->limit ? memory->limit - used : 0;
    if (memory->pool == NULL)
        return left;
    size_t shared = etl__pool_left(memory->pool, &memory->member) + kept;
    return shared < left ? shared : left;
}

void etl__memory_pledge(struct etl__memory *memory, size_t before, size_t now) {
    if (memory->pool != NULL && before != now)
        etl__pool_pledge(memory->pool, &memory->member, before, now);
}

static void count_taken(struct etl__memory *memory, size_t size, bool is_new) {
    size_t used = atomic_fetch_add_explicit(&memory->used, size, memory_order_relaxed) + size;
    size_t peak = atomic_load_explicit(&memory->peak, memory_order_relaxed);
    while (used > peak &&
           !atomic_compare_exchange_weak_explicit(&memory->peak, &peak, used, memory_order_relaxed,
                                                  memory_order_relaxed))
        ;
    atomic_fetch_add_explicit(&memory->allocations, is_new, memory_order_relaxed);
}

static void lock_kept(struct etl__memory *memory) {
    while (atomic_flag_test_and_set_explicit(&memory->kept_lock, memory_order_acquire))
        ;
}

static void unlock_kept(struct etl__memory *memory) {
    atomic_flag_clear_explicit(&memory->kept_lock, memory_order_release);
}

static void *take_kept(struct etl__memory *memory, size_t kind) {
    lock_kept(memory);
    struct etl__kept *block = memory->kept[kind];
    if (block != NULL) {
        memory->kept[kind] = block->next;
        atomic_fetch_sub_explicit(&memory->kept_bytes, class_size(kind), memory_order_relaxed);
    }
    unlock_kept(memory);
    return block;
}

/* From the pool, or from the heap. */
static void *take(struct etl__memory *memory, const struct etl__wish *wish, size_t *size) {
    bool is_new = true;
    void *block;
    *size = wish->wanted;
    if (atomic_load_explicit(&memory->used, memory_order_relaxed) + *size > memory->limit)
        etl__memory_trim(memory); /* what is kept makes way */
    if (memory->pool != NULL)
        block = etl__pool_take(memory->pool, &memory->member, wish, size, &is_new);
    else
        block = etl__heap_take(&memory->heap, *size);
    if (block != NULL)
        count_taken(memory, *size, is_new);
    return block;
}

static void give(struct etl__memory *memory, enum etl__purpose purpose, void *block, size_t size) {
    if (block == NULL)
        return;
    size_t returned = etl__large_cost(memory, size);
    if (memory->pool != NULL)
        etl__pool_give(memory->pool, &memory->member, purpose, block, returned);
    else
        returned = etl__heap_give(&memory->heap, block, size);
    atomic_fetch_sub_explicit(&memory->used, returned, memory_order_relaxed);
}

void *etl__alloc_large(struct etl__memory *memory, size_t size) {
    size_t cost = etl__large_cost(memory, size);
    struct etl__wish wish = {ETL__BLOCK, cost, cost, cost, false};
    return take(memory, &wish, &cost);
}

void etl__free_large(struct etl__memory *memory, void *block, size_t size) {
    give(memory, ETL__BLOCK, block, size);
}

void *etl__alloc_between(struct etl__memory *memory, size_t least, size_t wanted, size_t most,
                         size_t *size) {
    struct etl__wish wish = {ETL__BLOCK, etl__large_cost(memory, least),
                             etl__large_cost(memory, wanted), most, false};
    if (wish.most < wish.wanted)
        wish.most = wish.wanted;
    return take(memory, &wish, size);
}

void *etl__alloc_segment(struct etl__memory *memory, size_t least, size_t wanted, size_t most,
                         bool within, size_t *size) {
    struct etl__wish wish = {ETL__SEGMENT, least, wanted, most, within};
    return take(memory, &wish, size);
}

void etl__free_segment(struct etl__memory *memory, void *block, size_t size) {
    give(memory, ETL__SEGMENT, block, size);
}

void *etl__alloc(struct etl__memory *memory, size_t size) {
    size_t kind = class_of(size);
    if (kind >= ETL__KEPT_CLASSES)
        return etl__alloc_large(memory, size);
    void *block = take_kept(memory, kind);
    return block != NULL ? block : etl__alloc_large(memory, class_size(kind));
}

void *etl__alloc_zeroed(struct etl__memory *memory, size_t size) {
    void *block = etl__alloc(memory, size);
    if (block != NULL)
        memset(block, 0, size);
    return block;
}

static void keep_unmapped(struct etl__memory *memory, struct unmapped *kept) {
    void *head = atomic_load(&memory->unmapped);
    do
        kept->next = head;
    while (!atomic_compare_exchange_weak(&memory->unmapped, &head, kept));
}

void etl__unmap_later(struct etl__memory *memory, const void *map, size_t size, void *block,
                      size_t block_size) {
    struct unmapped *kept = block;
    assert(block_size >= sizeof *kept);
    *kept = (struct unmapped){.map = map, .size = size, .block_size = block_size};
    keep_unmapped(memory, kept);
}

static void unmap_again(struct etl__memory *memory) {
    struct unmapped *kept = atomic_exchange(&memory->unmapped, NULL);
    while (kept != NULL) {
        struct unmapped *next = kept->next;
        if (etl__os_unmap_file(kept->map, kept->size) != 0)
            keep_unmapped(memory, kept);
        else
            etl__free(memory, kept, kept->block_size);
        kept = next;
    }
}

void etl__memory_return(struct etl__memory *memory) {
    if (ETL__UNLIKELY(atomic_load_explicit(&memory->heap.unreturned, memory_order_relaxed) !=
                      NULL))
        atomic_fetch_sub_explicit(&memory->used, etl__heap_give_again(&memory->heap),
                                  memory_order_relaxed);
    if (ETL__UNLIKELY(atomic_load_explicit(&memory->unmapped, memory_order_relaxed) != NULL))
        unmap_again(memory);
}

void etl__free(struct etl__memory *memory, void *block, size_t size) {
    if (block == NULL)
        return;
    size_t kind = class_of(size);
    if (kind >= ETL__KEPT_CLASSES) {
        etl__free_large(memory, block, size);
        return;
    }
    struct etl__kept *kept = block;
    lock_kept(memory);
    kept->next = memory->kept[kind];
    memory->kept[kind] = kept;
    atomic_fetch_add_explicit(&memory->kept_bytes, class_size(kind), memory_order_relaxed);
    unlock_kept(memory);
}

void etl__memory_trim(struct etl__memory *memory) {
    if (atomic_load_explicit(&memory->kept_bytes, memory_order_relaxed) == 0)
        return;
    for (size_t kind = 0; kind < ETL__KEPT_CLASSES; kind++) {
        void *block;
        while ((block = take_kept(memory, kind)) != NULL)
            etl__free_large(memory, block, class_size(kind));
    }
}

void etl__memory_end(struct etl__memory *memory) {
    etl__memory_return(memory);
    etl__memory_trim(memory);
    etl__memory_return(memory); /* what trimming could not return */
    if (memory->pool != NULL)
        etl__pool_quit(memory->pool, &memory->member);
    memory->pool = NULL;
}

bool etl__grow(struct etl__memory *memory, void **array, size_t *capacity, size_t needed,
               size_t item_size) {
    if (needed <= *capacity)
        return true;
    size_t grown = *capacity < 8 ? 8 : *capacity;
    while (grown < needed) {
        if (grown > SIZE_MAX / 2)
            return false;
        grown *= 2;
    }
    if (grown > SIZE_MAX / item_size)
        return false;
    void *moved = etl__alloc(memory, grown * item_size);
    if (moved == NULL)
        return false;
    if (*capacity != 0)
        memcpy(moved, *array, *capacity * item_size);
    etl__free(memory, *array, *capacity * item_size);
    *array = moved;
    *capacity = grown;
    return true;
}
