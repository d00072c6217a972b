/* ahead.c: checking blocks ahead of a merge.
 *
 * A merge comes to a block of some run every few microseconds: page faults, memory that no cache
 * holds and the checksum are then in its way, and make a third of its time. A thread that is idle
 * while the caller loads takes them off it: it keeps a window of checked blocks before each reader.
 * What it leaves behind is clean lines in the cache that the processors share and a page that is
 * mapped; nothing that it writes is read for each pair.
 *
 * A block that it has not come to, or found wrong, is checked by the reader, who tells. So no
 * reader ever waits, and without a thread all is as it would be without this file. The thread is
 * started when some blocks were read: who looks at a few pairs only does not pay for one. */
#include "ahead.h"

enum {
    WINDOW_BLOCKS = 256, /* of all readers together: 4 MiB, which a shared cache holds */
    WINDOW_MOST = 16,
    WINDOW_LEAST = 2,
    LEAST_BLOCKS = 512 /* of all runs together, for a thread to pay */
};

void etl__ahead_open(struct etl__ahead *ahead, struct etl__memory *memory, size_t capacity) {
    memset(ahead, 0, sizeof *ahead);
    ahead->memory = memory;
    if (capacity != 0)
        ahead->readers = etl__alloc_zeroed(memory, capacity * sizeof *ahead->readers);
    if (ahead->readers != NULL)
        ahead->capacity = capacity;
}

struct etl__ahead_reader *etl__ahead_add(struct etl__ahead *ahead, const struct etl__run *run) {
    if (run->map == NULL || ahead->count == ahead->capacity)
        return NULL;
    struct etl__ahead_reader *reader = &ahead->readers[ahead->count++];
    reader->run = run;
    return reader;
}

/* Fill a reader's window; false when it was full. */
static bool check_window(struct etl__ahead *ahead, struct etl__ahead_reader *reader) {
    const struct etl__run *run = reader->run;
    uint64_t wanted = atomic_load_explicit(&reader->wanted, memory_order_relaxed);
    uint64_t checked = atomic_load_explicit(&reader->checked, memory_order_relaxed);
    uint64_t end = wanted + ahead->window;
    end = end < run->footer.blocks ? end : run->footer.blocks;
    checked = checked < wanted ? wanted : checked;
    if (checked >= end)
        return false;
    for (; checked < end; checked++) {
        struct etl__error ignored;
        const uint8_t *entry;
        if (etl__run_table(run, checked, 1, NULL, &entry, &ignored) != ETL_OK ||
            etl__run_check_block(run, checked, run->map + checked * ETL__RUN_BLOCK, entry,
                                 &ignored) != ETL_OK)
            return false;
        atomic_store_explicit(&reader->checked, checked + 1, memory_order_release);
    }
    return true;
}

static void *run_ahead(void *argument) {
    struct etl__ahead *ahead = argument;
    while (!atomic_load_explicit(&ahead->stopping, memory_order_relaxed)) {
        bool worked = false;
        for (size_t i = 0; i < ahead->count; i++)
            worked |= check_window(ahead, &ahead->readers[i]);
        if (worked)
            continue;
        etl__os_lock(&ahead->lock);
        atomic_store_explicit(&ahead->sleeping, true, memory_order_relaxed);
        if (!atomic_load_explicit(&ahead->stopping, memory_order_relaxed))
            etl__os_wait(&ahead->lock);
        atomic_store_explicit(&ahead->sleeping, false, memory_order_relaxed);
        etl__os_unlock(&ahead->lock);
    }
    return NULL;
}

/* Where it pays, and the system gives a thread. */
void etl__ahead_start(struct etl__ahead *ahead) {
    uint64_t blocks = 0;
    for (size_t i = 0; i < ahead->count; i++)
        blocks += ahead->readers[i].run->footer.blocks;
    if (blocks < LEAST_BLOCKS || etl__os_lock_init(&ahead->lock) != 0)
        return;
    ahead->window = etl__clamp(WINDOW_BLOCKS / ahead->count, WINDOW_LEAST, WINDOW_MOST);
    ahead->started = etl__os_thread_start(&ahead->thread, run_ahead, ahead) == 0;
    if (!ahead->started)
        etl__os_lock_end(&ahead->lock);
}

void etl__ahead_wake(struct etl__ahead *ahead) {
    etl__os_lock(&ahead->lock);
    etl__os_wake_all(&ahead->lock);
    etl__os_unlock(&ahead->lock);
}

void etl__ahead_stop(struct etl__ahead *ahead) {
    ahead->taken = ETL__AHEAD_TAKEN;
    if (!ahead->started)
        return;
    etl__os_thread_stop(ahead->thread, &ahead->lock, &ahead->stopping);
    ahead->started = false;
    ahead->window = 0;
}

void etl__ahead_close(struct etl__ahead *ahead) {
    etl__ahead_stop(ahead);
    etl__free(ahead->memory, ahead->readers, ahead->capacity * sizeof *ahead->readers);
}
