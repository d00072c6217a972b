/* save.c: every pair into one run file with a name.
 *
 * A load whose pairs go to a run writer: one merge, the duplicate rules, one pass. The file is
 * begun before the merge is, so that a name which cannot be had costs no sorting; it takes its
 * place when it is whole (publish.c). Nothing is consumed. */
#include "handle.h"
#include "publish.h"

enum { SAVED_A_TICK = 1024 };

struct save {
    struct etl__store *store;
    struct etl__merge *merge;
};

static int write_all(const struct save *save, struct etl__output *output,
                     struct etl__run_writer *writer, struct etl__error *error) {
    etl_progress *progress = &save->store->watch.state;
    const struct etl__pair *pair;
    uint64_t ticked = 0, bytes = 0;
    int status;
    while ((status = etl__output_next(output, &pair, error)) == ETL_OK) {
        bytes += (uint64_t)pair->key_size + pair->value_size;
        ETL__TRY(etl__run_writer_append(writer, pair, error));
        if (ETL__UNLIKELY(etl__output_passed(output) - ticked >= SAVED_A_TICK)) {
            ticked = etl__output_passed(output);
            progress->pairs_done = ticked;
            progress->bytes_done = bytes;
            ETL__TRY(etl__watch_tick(&save->store->watch, error));
        }
    }
    bool every = save->store->rules.duplicates == ETL_KEEP_ALL;
    if (!every || !save->merge->repeated || save->store->rules.order_values)
        etl__run_writer_values_ascend(writer);
    return status == ETL_END ? ETL_OK : status;
}

static int produce_saved(void *context, struct etl__run_writer *writer, struct etl__error *error) {
    const struct save *save = context;
    struct etl__output output;
    etl__output_open(&output, &save->store->memory, save->merge, &save->store->rules);
    int status = write_all(save, &output, writer, error);
    etl__output_close(&output);
    return status;
}

static int save_to(etl_collector *collector, struct etl__draft *draft) {
    struct etl__store *store = &collector->store;
    struct etl__run_writer *writer;
    struct etl__merge merge;
    struct etl__ahead ahead;
    int status = etl__runs_writer(&store->runs, &writer, &collector->error);
    if (status == ETL_OK)
        status = etl__open_merge(&merge, &collector, 1, &ahead);
    if (status != ETL_OK) {
        etl__draft_drop(draft);
        return status;
    }
    struct save save = {store, &merge};
    uint64_t pairs = 0, bytes = 0, began = etl__os_now_ns();
    for (size_t i = 0; i < merge.provider_count; i++) {
        pairs += merge.providers[i]->pairs;
        bytes += merge.providers[i]->bytes;
    }
    etl__watch_enter(&store->watch, ETL_LOADING, 0, pairs, 0, 0);
    status = etl__run_publish(writer, draft, bytes, produce_saved, &save, &collector->error);
    etl__ahead_close(&ahead);
    etl__merge_close(&merge);
    atomic_fetch_add(&store->merge_ns, etl__os_now_ns() - began);
    return status;
}

static int save_entered(etl_collector *collector, const char *path) {
    struct etl__store *store = &collector->store;
    struct etl__draft draft;
    /* In a pool there is memory in a round only: this one has no pairs. */
    bool idle = store->memory.pool != NULL && (collector->attention & ETL__ROUND_OVER) != 0;
    ETL__TRY(etl__draft_open(&draft, path, &collector->error));
    if (idle)
        etl__store_begin_round(store);
    int status = save_to(collector, &draft);
    if (idle)
        etl__store_clear(store);
    return status;
}

int etl_save(etl_collector *collector, const char *path) {
    if (collector == NULL)
        return ETL_E_INVALID;
    if (path == NULL)
        return etl__fail(&collector->error, ETL_E_INVALID, "save: path is NULL");
    ETL__TRY(etl__enter(&collector, 1, true));
    int status = save_entered(collector, path);
    return etl__leave(&collector, 1, status);
}
