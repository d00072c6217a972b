/* heap.c: blocks of MAPPED_FROM bytes and more are anonymous mappings: they are given back to the
 * system as soon as they are freed. The size that a block was taken with comes back at its end, so
 * no block needs a head. */
#include "heap.h"
#include "os.h"

#include <stdlib.h>

enum { MAPPED_FROM = 128 * 1024 };

/* What stands in a mapping that munmap refused, until it can be returned. */
struct unreturned {
    struct unreturned *next;
    size_t size;
};

void etl__heap_init(struct etl__heap *heap, const etl_allocator *hook) {
    heap->hook = *hook;
    atomic_init(&heap->unreturned, NULL);
}

static bool is_mapped(const struct etl__heap *heap, size_t size) {
    return heap->hook.resize == NULL && size >= MAPPED_FROM;
}

size_t etl__heap_cost(const struct etl__heap *heap, size_t size) {
    if (!is_mapped(heap, size))
        return size;
    size_t page = etl__os_page_size();
    return size > SIZE_MAX - page ? SIZE_MAX : (size + page - 1) / page * page;
}

void *etl__heap_take(struct etl__heap *heap, size_t size) {
    if (heap->hook.resize != NULL)
        return heap->hook.resize(heap->hook.context, NULL, 0, size);
    return is_mapped(heap, size) ? etl__os_map_memory(etl__heap_cost(heap, size)) : malloc(size);
}

static void keep_unreturned(struct etl__heap *heap, struct unreturned *kept) {
    void *head = atomic_load(&heap->unreturned);
    do
        kept->next = head;
    while (!atomic_compare_exchange_weak(&heap->unreturned, &head, kept));
}

static size_t unmap(struct etl__heap *heap, void *block, size_t size) {
    if (etl__os_unmap_memory(block, size) == 0)
        return size;
    struct unreturned *kept = block;
    kept->size = size;
    keep_unreturned(heap, kept);
    return 0;
}

size_t etl__heap_give_again(struct etl__heap *heap) {
    size_t returned = 0;
    struct unreturned *kept = atomic_exchange(&heap->unreturned, NULL);
    while (kept != NULL) {
        struct unreturned *next = kept->next;
        returned += unmap(heap, kept, kept->size);
        kept = next;
    }
    return returned;
}

size_t etl__heap_give(struct etl__heap *heap, void *block, size_t size) {
    size_t returned = 0;
    if (ETL__UNLIKELY(atomic_load_explicit(&heap->unreturned, memory_order_relaxed) != NULL))
        returned = etl__heap_give_again(heap);
    if (is_mapped(heap, size))
        return returned + unmap(heap, block, etl__heap_cost(heap, size));
    if (heap->hook.resize != NULL)
        (void)heap->hook.resize(heap->hook.context, block, size, 0);
    else
        free(block);
    return returned + size;
}
