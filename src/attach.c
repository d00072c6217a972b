/* attach.c: a run file that has a name joins the merge, by a sequence number of its own: what was
 * collected before is sealed, so that the number lies behind it.
 *
 * With order_values the merge needs the values of equal keys in order inside each run. Where the
 * file does not say that it has them so, its pairs are written to temporary runs: the values of
 * one key are gathered, sorted, and written. When they are more than the memory for it takes, the
 * run ends in the middle of the key and the next one begins there: each is in order, and the merge
 * does the rest. So memory is bounded whatever the file holds. The runs join the others together,
 * when all are whole. */
#include "handle.h"
#include "provider_file.h"

#include <stdlib.h>

enum {
    LEAST_GROUP = 64 * 1024,
    MOST_GROUP = 4 * 1024 * 1024,
    READ_BUFFER = 128 * 1024,
    RELEASE_STEP = 1024 * 1024,
    REORDERED_A_TICK = 1024
};

/* ---- Putting values in order ---- */

struct reorder {
    struct etl__store *store;
    const struct etl__run *source;
    struct etl__provider *provider;
    struct etl__pair next; /* read, not consumed */
    bool has_next, ended;
    uint64_t consumed; /* pairs */
    uint64_t begun;    /* consumed when the run under way was begun */

    /* The values of one key. */
    size_t most; /* bytes */
    size_t taken;
    bool has_key;
    struct etl_bytes key, values;
    etl_slice *slices; /* data only says whether it is nil until the group is complete */
    size_t slice_count, slice_capacity;

    struct etl__run **runs; /* whole */
    size_t run_count, run_capacity;
};

/* The first pair is number `begun`: a run that one directory had no room for is begun anew. */
static int go_to_start(struct reorder *reorder, struct etl__error *error) {
    if (reorder->provider != NULL && reorder->consumed == reorder->begun)
        return ETL_OK;
    if (reorder->provider != NULL)
        reorder->provider->close(reorder->provider);
    reorder->provider = NULL;
    reorder->has_next = reorder->ended = false;
    ETL__TRY(etl__provider_file_open(&reorder->provider, reorder->source, &reorder->store->memory,
                                     READ_BUFFER, RELEASE_STEP, error));
    for (reorder->consumed = 0; reorder->consumed < reorder->begun; reorder->consumed++)
        ETL__TRY(etl__provider_read(reorder->provider, &reorder->next, error));
    return ETL_OK;
}

static int compare_slices(const void *a, const void *b) {
    const etl_slice *x = a, *y = b;
    if (x->data == NULL || y->data == NULL)
        return (x->data != NULL) - (y->data != NULL);
    return etl__key_compare(x->data, x->size, y->data, y->size);
}

/* The group is complete, or as much as is to be in this run. */
static int write_group(struct reorder *reorder, struct etl__run_writer *writer,
                       struct etl__error *error) {
    const uint8_t *at = reorder->values.data;
    for (size_t i = 0; i < reorder->slice_count; i++)
        if (reorder->slices[i].size != 0) {
            reorder->slices[i].data = at;
            at += reorder->slices[i].size;
        }
    if (reorder->slice_count > 1)
        qsort(reorder->slices, reorder->slice_count, sizeof *reorder->slices, compare_slices);
    etl_slice key = etl__bytes_slice(&reorder->key);
    for (size_t i = 0; i < reorder->slice_count; i++) {
        struct etl__pair pair = {.key = key.data,
                                 .value = reorder->slices[i].data,
                                 .key_size = (uint32_t)key.size,
                                 .value_size = (uint32_t)reorder->slices[i].size};
        ETL__TRY(etl__run_writer_append(writer, &pair, error));
    }
    reorder->slice_count = reorder->taken = 0;
    reorder->values.size = 0;
    return ETL_OK;
}

static int gather(struct reorder *reorder, struct etl__error *error) {
    const struct etl__pair *pair = &reorder->next;
    struct etl__memory *memory = &reorder->store->memory;
    if (!etl__grow(memory, (void **)&reorder->slices, &reorder->slice_capacity,
                   reorder->slice_count + 1, sizeof *reorder->slices) ||
        etl_bytes_append(&reorder->values, pair->value, pair->value_size) != ETL_OK)
        return etl__fail_memory(error, reorder->taken + pair->value_size, "the values of a key");
    reorder->slices[reorder->slice_count++] =
        etl_slice_of(pair->value != NULL ? "" : NULL, pair->value_size);
    return ETL_OK;
}

/* Consume the next pair: into the group, or where that has no room for it alone, into the run. */
static int consume(struct reorder *reorder, struct etl__run_writer *writer,
                   struct etl__error *error) {
    const struct etl__pair *pair = &reorder->next;
    if (pair->value_size > reorder->most)
        ETL__TRY(etl__run_writer_append(writer, pair, error));
    else
        ETL__TRY(gather(reorder, error));
    reorder->taken += pair->value_size + sizeof *reorder->slices;
    reorder->has_next = false;
    reorder->consumed++;
    return ETL_OK;
}

static int begin_group(struct reorder *reorder, struct etl__error *error) {
    reorder->key.size = 0;
    reorder->has_key = true;
    if (etl_bytes_append(&reorder->key, reorder->next.key, reorder->next.key_size) != ETL_OK)
        return etl__fail_memory(error, reorder->next.key_size, "a key");
    return ETL_OK;
}

/* One run: to the end of the file, or of what memory holds of one key. */
static int produce_reordered(void *context, struct etl__run_writer *writer,
                             struct etl__error *error) {
    struct reorder *reorder = context;
    struct etl__watch *watch = &reorder->store->watch;
    ETL__TRY(go_to_start(reorder, error));
    reorder->has_key = false;
    reorder->slice_count = reorder->taken = 0;
    reorder->values.size = 0;
    for (;;) {
        const struct etl__pair *next = &reorder->next;
        int status = reorder->has_next
                         ? ETL_OK
                         : etl__provider_read(reorder->provider, &reorder->next, error);
        if (status == ETL_END) {
            reorder->ended = true;
            return write_group(reorder, writer, error);
        }
        ETL__TRY(status);
        reorder->has_next = true;
        etl_slice key = etl__bytes_slice(&reorder->key);
        bool same = reorder->has_key &&
                    etl__key_compare(next->key, next->key_size, key.data, key.size) == 0;
        if (same && reorder->taken + next->value_size > reorder->most)
            return write_group(reorder, writer, error);
        if (!same) {
            ETL__TRY(write_group(reorder, writer, error));
            ETL__TRY(begin_group(reorder, error));
        }
        ETL__TRY(consume(reorder, writer, error));
        if (reorder->consumed % REORDERED_A_TICK == 0) {
            watch->state.pairs_done = reorder->consumed;
            ETL__TRY(etl__watch_tick(watch, error));
        }
    }
}

static int write_runs(struct reorder *reorder, struct etl__error *error) {
    struct etl__store *store = reorder->store;
    struct etl__run_writer *writer;
    const struct etl__run_footer *footer = &reorder->source->footer;
    ETL__TRY(etl__runs_writer(&store->runs, &writer, error));
    while (!reorder->ended) {
        if (!etl__grow(&store->memory, (void **)&reorder->runs, &reorder->run_capacity,
                       reorder->run_count + 1, sizeof(struct etl__run *)))
            return etl__fail_memory(error, sizeof(struct etl__run *), "attaching a run");
        reorder->begun = reorder->consumed;
        ETL__TRY(etl__target_write(&store->target, writer, footer->data_end - footer->first_record,
                                   produce_reordered, reorder, &reorder->runs[reorder->run_count],
                                   error));
        reorder->run_count++;
    }
    if (reorder->consumed != footer->pairs)
        return etl__run_corrupt(reorder->source, footer->data_end, "number of pairs", error);
    return etl__runs_reserve(&store->runs, reorder->run_count, error);
}

/* The pairs of a run that lacks the order of values, in runs that have it. */
static int attach_reordered(struct etl__store *store, const struct etl__run *source,
                            struct etl__error *error) {
    struct etl__memory *memory = &store->memory;
    struct reorder reorder = {.store = store, .source = source};
    reorder.most = etl__clamp(etl__memory_left(memory) / 4, LEAST_GROUP, MOST_GROUP);
    etl__bytes_init(&reorder.key, memory);
    etl__bytes_init(&reorder.values, memory);
    etl__watch_enter(&store->watch, ETL_MERGING, 0, source->footer.pairs, 0, 0);
    int status = write_runs(&reorder, error);
    for (size_t i = 0; i < reorder.run_count; i++)
        if (status == ETL_OK)
            (void)etl__runs_add(&store->runs, reorder.runs[i], store->next_sequence++, error);
        else
            etl__target_drop(&store->target, reorder.runs[i]);
    if (reorder.provider != NULL)
        reorder.provider->close(reorder.provider);
    etl__free(memory, reorder.runs, reorder.run_capacity * sizeof(struct etl__run *));
    etl__free(memory, reorder.slices, reorder.slice_capacity * sizeof *reorder.slices);
    etl__bytes_end(&reorder.values);
    etl__bytes_end(&reorder.key);
    return status;
}

/* ---- Attaching ---- */

static bool lacks_order(const struct etl__store *store, const struct etl__run *run) {
    return store->rules.order_values && (run->footer.flags & ETL__RUN_VALUES_ASCEND) == 0;
}

static int attach(struct etl__store *store, struct etl__run *run, struct etl__error *error) {
    ETL__TRY(etl__store_cut(store, error));
    ETL__TRY(etl__runs_reserve(&store->runs, 1, error));
    if (!lacks_order(store, run))
        return etl__runs_add(&store->runs, run, store->next_sequence++, error);
    ETL__TRY(attach_reordered(store, run, error));
    etl__target_drop(&store->target, run);
    return ETL_OK;
}

static void count(_Atomic(uint64_t) *counter, uint64_t more) {
    atomic_fetch_add_explicit(counter, more, memory_order_relaxed);
}

static int attach_entered(etl_collector *collector, const char *path) {
    struct etl__store *store = &collector->store;
    struct etl__error *error = &collector->error;
    bool map = store->target.access == ETL_ACCESS_MMAP_ALL;
    struct etl__run *run;
    ETL__TRY(etl__run_open_named(&run, &store->memory, path, map, error));
    const struct etl__run_footer footer = run->footer;
    int status = attach(store, run, error);
    if (status != ETL_OK) {
        etl__target_drop(&store->target, run);
        return status;
    }
    count(&collector->pairs, footer.pairs);
    count(&collector->key_bytes, footer.key_bytes);
    count(&collector->value_bytes, footer.value_bytes);
    count(&store->spiller.runs, 1);
    return ETL_OK;
}

int etl_attach_run(etl_collector *collector, const char *path) {
    if (collector == NULL)
        return ETL_E_INVALID;
    if (path == NULL || path[0] == '\0')
        return etl__fail(&collector->error, ETL_E_INVALID, "attach: path is %s",
                         path == NULL ? "NULL" : "empty");
    ETL__TRY(etl__enter(&collector, 1, false));
    bool begins = (collector->attention & ETL__ROUND_OVER) != 0;
    if (begins)
        etl__begin_round(collector);
    int status = attach_entered(collector, path);
    if (status != ETL_OK && begins)
        etl__end_round(collector);
    return etl__leave(&collector, 1, status);
}
