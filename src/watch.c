/* watch.c: progress and cancelling, polled. */
#include "watch.h"
#include "os.h"

#define TELL_EVERY_NS 100000000u

void etl__watch_start(struct etl__watch *watch) {
    watch->started_ns = watch->told_ns = etl__os_now_ns();
}

void etl__watch_enter(struct etl__watch *watch, etl_phase phase, uint64_t pairs_done,
                      uint64_t pairs_all, uint64_t bytes_done, uint64_t bytes_all) {
    watch->state.phase = phase;
    watch->state.pairs_done = pairs_done;
    watch->state.pairs_all = pairs_all;
    watch->state.bytes_done = bytes_done;
    watch->state.bytes_all = bytes_all;
}

static void tell(struct etl__watch *watch) {
    uint64_t now = etl__os_now_ns();
    if (now - watch->told_ns < TELL_EVERY_NS)
        return;
    watch->told_ns = now;
    watch->state.elapsed_ns = now - watch->started_ns;
    if (watch->tell(watch->tell_ctx, &watch->state) != 0)
        atomic_store(watch->cancel, 1);
}

int etl__watch_tick(struct etl__watch *watch, struct etl__error *error) {
    if (watch->tell != NULL)
        tell(watch);
    if (atomic_load_explicit(watch->cancel, memory_order_relaxed) == 0)
        return ETL_OK;
    return etl__fail(error, ETL_E_CANCELLED, "cancelled");
}
