/* disk.c: the account of disk. Several threads write runs at once, so that it is checked and
 * changed in one step. */
#include "disk.h"

static void note_peak(struct etl__disk *disk, uint64_t used) {
    uint64_t peak = atomic_load_explicit(&disk->peak, memory_order_relaxed);
    while (used > peak &&
           !atomic_compare_exchange_weak_explicit(&disk->peak, &peak, used, memory_order_relaxed,
                                                  memory_order_relaxed))
        ;
}

int etl__disk_charge(struct etl__disk *disk, uint64_t bytes, const char *place,
                     struct etl__error *error) {
    uint64_t used = atomic_load_explicit(&disk->used, memory_order_relaxed);
    do {
        if (disk->limit != 0 && (used > disk->limit || bytes > disk->limit - used))
            return etl__fail(error, ETL_E_NOSPACE,
                             "write a run in %s: disk_limit is %llu bytes, %llu are used and "
                             "%llu more are needed",
                             place, (unsigned long long)disk->limit, (unsigned long long)used,
                             (unsigned long long)bytes);
    } while (!atomic_compare_exchange_weak_explicit(&disk->used, &used, used + bytes,
                                                    memory_order_relaxed, memory_order_relaxed));
    note_peak(disk, used + bytes);
    return ETL_OK;
}

void etl__disk_take(struct etl__disk *disk, uint64_t bytes) {
    note_peak(disk, atomic_fetch_add_explicit(&disk->used, bytes, memory_order_relaxed) + bytes);
}

void etl__disk_give(struct etl__disk *disk, uint64_t bytes) {
    atomic_fetch_sub_explicit(&disk->used, bytes, memory_order_relaxed);
}
