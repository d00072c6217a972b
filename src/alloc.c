/* alloc.c: the one place where memory is taken and given back.
 *
 * Freed small blocks of one size are a list through the blocks themselves. Several threads of
 * one collector take and give (the caller's, those that spill), each for a moment, so a spin lock
 * guards the lists.
 *
 * Blocks of MAPPED_FROM bytes and more are anonymous mappings: they are given back to the system
 * as soon as they are freed, and large ones come aligned for huge pages. The size that a block was
 * taken with comes back at its end, so no block needs a head. */
#include "alloc.h"
#include "os.h"

#include <assert.h>
#include <stdlib.h>

enum { MAPPED_FROM = 128 * 1024 };

/* What stands in a block that waits to be taken again. */
struct etl__kept {
    struct etl__kept *next;
};

/* What stands in a mapping that munmap refused, or in a block beside it when it cannot be written
 * to, until it can be returned. */
struct unreturned {
    struct unreturned *next;
    const void *map;
    size_t size;
    size_t block_size; /* 0: it stands in the mapping */
};

void etl__memory_init(struct etl__memory *memory, const etl_allocator *hook, size_t limit) {
    memory->hook = *hook;
    memory->limit = limit;
    atomic_init(&memory->used, 0);
    atomic_init(&memory->peak, 0);
    atomic_init(&memory->allocations, 0);
    atomic_init(&memory->unreturned, NULL);
    atomic_flag_clear(&memory->kept_lock);
    atomic_init(&memory->kept_bytes, 0);
    memset(memory->kept, 0, sizeof memory->kept);
}

static bool is_mapped(const struct etl__memory *memory, size_t size) {
    return memory->hook.resize == NULL && size >= MAPPED_FROM;
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

size_t etl__large_cost(const struct etl__memory *memory, size_t size) {
    if (!is_mapped(memory, size))
        return size;
    size_t page = etl__os_page_size();
    return size > SIZE_MAX - page ? SIZE_MAX : (size + page - 1) / page * page;
}

size_t etl__memory_left(const struct etl__memory *memory) {
    size_t used = atomic_load_explicit(&memory->used, memory_order_relaxed);
    size_t kept = atomic_load_explicit(&memory->kept_bytes, memory_order_relaxed);
    used = used > kept ? used - kept : 0;
    return used < memory->limit ? memory->limit - used : 0;
}

static void count_taken(struct etl__memory *memory, size_t size) {
    size_t used = atomic_fetch_add_explicit(&memory->used, size, memory_order_relaxed) + size;
    size_t peak = atomic_load_explicit(&memory->peak, memory_order_relaxed);
    while (used > peak &&
           !atomic_compare_exchange_weak_explicit(&memory->peak, &peak, used, memory_order_relaxed,
                                                  memory_order_relaxed))
        ;
    atomic_fetch_add_explicit(&memory->allocations, 1, memory_order_relaxed);
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

void *etl__alloc_large(struct etl__memory *memory, size_t size) {
    size_t cost = etl__large_cost(memory, size);
    void *block;
    if (atomic_load_explicit(&memory->used, memory_order_relaxed) + cost > memory->limit)
        etl__memory_trim(memory); /* what is kept makes way */
    if (memory->hook.resize != NULL)
        block = memory->hook.resize(memory->hook.context, NULL, 0, size);
    else if (is_mapped(memory, size))
        block = etl__os_map_memory(cost);
    else
        block = malloc(size);
    if (block != NULL)
        count_taken(memory, cost);
    return block;
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

static void keep_unreturned(struct etl__memory *memory, struct unreturned *kept) {
    void *head = atomic_load(&memory->unreturned);
    do
        kept->next = head;
    while (!atomic_compare_exchange_weak(&memory->unreturned, &head, kept));
}

static void unmap(struct etl__memory *memory, void *block, size_t size) {
    if (etl__os_unmap_memory(block, size) == 0) {
        atomic_fetch_sub_explicit(&memory->used, size, memory_order_relaxed);
        return;
    }
    struct unreturned *kept = block;
    *kept = (struct unreturned){.map = block, .size = size};
    keep_unreturned(memory, kept);
}

void etl__unmap_later(struct etl__memory *memory, const void *map, size_t size, void *block,
                      size_t block_size) {
    struct unreturned *kept = block;
    assert(block_size >= sizeof *kept);
    *kept = (struct unreturned){.map = map, .size = size, .block_size = block_size};
    keep_unreturned(memory, kept);
}

void etl__memory_return(struct etl__memory *memory) {
    if (ETL__LIKELY(atomic_load_explicit(&memory->unreturned, memory_order_relaxed) == NULL))
        return;
    struct unreturned *kept = atomic_exchange(&memory->unreturned, NULL);
    while (kept != NULL) {
        struct unreturned *next = kept->next;
        if (kept->block_size == 0)
            unmap(memory, kept, kept->size);
        else if (etl__os_unmap_file(kept->map, kept->size) != 0)
            keep_unreturned(memory, kept);
        else
            etl__free(memory, kept, kept->block_size);
        kept = next;
    }
}

void etl__free_large(struct etl__memory *memory, void *block, size_t size) {
    if (block == NULL)
        return;
    etl__memory_return(memory);
    if (is_mapped(memory, size)) {
        unmap(memory, block, etl__large_cost(memory, size));
        return;
    }
    if (memory->hook.resize != NULL)
        (void)memory->hook.resize(memory->hook.context, block, size, 0);
    else
        free(block);
    atomic_fetch_sub_explicit(&memory->used, size, memory_order_relaxed);
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
