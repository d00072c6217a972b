/* checkpoint.c: what a collector holds, made to survive the process, and taken up again.
 *
 * From its first checkpoint on a collector belongs to its directory: whatever it spills or merges
 * goes there, to files with a name, which have come to the disk when they are whole (target.c). So a
 * checkpoint has only to spill what is in memory and to publish a manifest that names the runs
 * (durable.c); nothing that is durable is written again, but for runs of which there are too many.
 * A run that was written but is named by no manifest yet is removed when it is dropped; one that
 * may be named by a manifest stays, whatever the collector does, until a later manifest that does
 * not name it has come to the disk.
 *
 * Not chosen: to spill to the temporary directories and copy at each checkpoint, which writes
 * every pair twice; a log of changes to one manifest, which needs a format for changes, and
 * rewriting anyway: a manifest of 64 runs has 2 KiB. */
#include "durable.h"
#include "handle.h"

#include <stdio.h>

enum { MOST_RUNS = 64 };

static const char *const duplicates_names[] = {"ETL_KEEP_ALL", "ETL_KEEP_FIRST", "ETL_KEEP_LAST",
                                               "ETL_APPEND",   "ETL_REDUCE",     "ETL_REJECT"};

/* ---- Checkpoint ---- */

static int check_directory(const struct etl__durable *durable, const char *directory,
                           struct etl__error *error) {
    char absolute[ETL__OS_PATH];
    int os_error = etl__os_absolute(directory, absolute, sizeof absolute);
    if (os_error != 0)
        return etl__fail_os(error, os_error, "directory of checkpoints", directory);
    if (strcmp(absolute, durable->directory) != 0)
        return etl__fail(error, ETL_E_INVALID,
                         "directory: %s, but this collector's checkpoints are in %s", absolute,
                         durable->directory);
    return ETL_OK;
}

/* A directory for a collector that was made without one: it must be new, or what is in it would
 * be lost. */
static int take_directory(struct etl__durable *durable, struct etl__store *store,
                          struct etl__error *error) {
    const struct etl__manifest none = {.run_count = 0};
    int status = etl__durable_read(durable, error);
    if (status == ETL_OK)
        return etl__fail(error, ETL_E_STATE,
                         "there is a checkpoint in %s: go on with it by etl_restore, or remove it",
                         durable->directory);
    if (status != ETL_END)
        return status;
    ETL__TRY(etl__store_settle(store, error)); /* no thread is writing */
    etl__durable_sweep(durable, &none);
    etl__target_go_to(&store->target, durable->directory, 1);
    return ETL_OK;
}

static int bind_directory(etl_collector *collector, const char *directory) {
    struct etl__error *error = &collector->error;
    struct etl__store *store = &collector->store;
    struct etl__durable *durable;
    if (collector->durable != NULL)
        return check_directory(collector->durable, directory, error);
    ETL__TRY(etl__durable_open(&durable, &store->memory.heap.hook, directory, error));
    int status = take_directory(durable, store, error);
    if (status == ETL_OK)
        collector->durable = durable;
    else
        etl__durable_close(durable);
    return status;
}

/* Everything in runs that have a name, and not too many of them. */
static int write_new_runs(struct etl__store *store, struct etl__error *error) {
    ETL__TRY(etl__store_flush(store, error));
    size_t most = store->runs.count > MOST_RUNS ? MOST_RUNS / 2 : SIZE_MAX;
    if (most == SIZE_MAX && etl__runs_all_named(&store->runs))
        return ETL_OK;
    etl__arena_make_room(&store->arena, store->memory.limit / 2);
    ETL__TRY(etl__runs_name(&store->runs, error));
    return etl__runs_reduce(&store->runs, most, error);
}

static void list_runs(const struct etl__runs *runs, struct etl__manifest *manifest) {
    for (size_t i = 0; i < manifest->run_count; i++) {
        const struct etl__run *run = runs->items[i].run;
        manifest->runs[i] = (struct etl__manifest_run){.file = run->file,
                                                       .size = run->file_size,
                                                       .pairs = run->footer.pairs,
                                                       .table_crc = run->footer.table_crc};
    }
}

/* Did the manifest before this one name a run that is held no longer? Or may it have? */
static bool leaves_litter(const struct etl__durable *durable, const struct etl__target *target) {
    return durable->litter || atomic_load(&target->left_behind);
}

static int publish(etl_collector *collector, const struct etl__manifest *manifest) {
    struct etl__durable *durable = collector->durable;
    struct etl__store *store = &collector->store;
    bool tried;
    int status = etl__durable_publish(durable, manifest, &tried, &collector->error);
    for (size_t i = 0; tried && i < store->runs.count; i++)
        store->runs.items[i].run->is_published = true;
    if (status != ETL_OK)
        return status;
    if (leaves_litter(durable, &store->target)) {
        atomic_store(&store->target.left_behind, false);
        etl__durable_sweep(durable, manifest);
    }
    etl__durable_forget_token(durable);
    return ETL_OK;
}

static int checkpoint(etl_collector *collector, const char *directory, etl_slice token) {
    struct etl__store *store = &collector->store;
    ETL__TRY(bind_directory(collector, directory));
    ETL__TRY(write_new_runs(store, &collector->error));
    struct etl__durable *durable = collector->durable;
    struct etl__manifest manifest = {.duplicates = store->rules.duplicates,
                                     .order_values = store->rules.order_values,
                                     .number = durable->number + 1,
                                     .next_file = atomic_load(&store->target.next_file),
                                     .run_count = store->runs.count,
                                     .token = token};
    if ((collector->attention & ETL__ROUND_OVER) == 0) {
        manifest.pairs = atomic_load(&collector->pairs);
        manifest.key_bytes = atomic_load(&collector->key_bytes);
        manifest.value_bytes = atomic_load(&collector->value_bytes);
    }
    size_t size = manifest.run_count * sizeof *manifest.runs;
    if (size != 0) {
        manifest.runs = etl__alloc(&durable->memory, size);
        if (manifest.runs == NULL)
            return etl__fail_memory(&collector->error, size, "a checkpoint");
    }
    list_runs(&store->runs, &manifest);
    int status = publish(collector, &manifest);
    etl__free(&durable->memory, manifest.runs, size);
    return status;
}

int etl_checkpoint(etl_collector *collector, const char *directory, etl_slice token) {
    if (collector == NULL)
        return ETL_E_INVALID;
    struct etl__error *error = &collector->error;
    if (directory == NULL || !etl__is_slice(token))
        return etl__fail(error, ETL_E_INVALID, "checkpoint: %s",
                         directory == NULL ? "no directory" : "a token of NULL data with a size");
    if (token.size > ETL_TOKEN_MAX)
        return etl__fail(error, ETL_E_TOO_LARGE, "token of %zu bytes: the most is %zu", token.size,
                         ETL_TOKEN_MAX);
    ETL__TRY(etl__enter(&collector, 1, false));
    int status = checkpoint(collector, directory, token);
    return etl__leave(&collector, 1, status);
}

/* ---- Restore ---- */

static int check_same_rules(const etl_collector *collector, struct etl__error *error) {
    const struct etl__durable *durable = collector->durable;
    const struct etl__manifest *manifest = &durable->restored;
    const struct etl__rules *rules = &collector->store.rules;
    if (rules->duplicates != manifest->duplicates)
        return etl__fail(error, ETL_E_INVALID,
                         "duplicates: %s, but the checkpoint in %s was made with %s",
                         duplicates_names[rules->duplicates], durable->directory,
                         duplicates_names[manifest->duplicates]);
    if (rules->order_values != manifest->order_values)
        return etl__fail(error, ETL_E_INVALID,
                         "order_values: %s, but the checkpoint in %s was made with %s",
                         rules->order_values ? "true" : "false", durable->directory,
                         manifest->order_values ? "true" : "false");
    return ETL_OK;
}

/* A run that the manifest names, and is what it says. */
static int take_run(struct etl__store *store, const struct etl__manifest_run *named,
                    uint64_t sequence, struct etl__error *error) {
    char path[ETL__OS_PATH];
    struct etl__run *run;
    etl__target_run_path(&store->target, named->file, path);
    bool map = store->target.access == ETL_ACCESS_MMAP_ALL;
    ETL__TRY(etl__run_open_named(&run, &store->memory, path, map, error));
    int status = ETL_OK;
    if (run->file_size != named->size || run->footer.pairs != named->pairs ||
        run->footer.table_crc != named->table_crc)
        status = etl__fail(error, ETL_E_CORRUPT, "%s is another run than the one in the manifest",
                           path);
    if (status == ETL_OK)
        status = etl__runs_add(&store->runs, run, sequence, error);
    if (status != ETL_OK) {
        etl__run_close(run, &store->memory);
        return status;
    }
    run->file = named->file;
    run->is_published = true;
    etl__disk_take(&store->target.disk, run->file_size);
    return ETL_OK;
}

static int take_runs(etl_collector *collector, struct etl__error *error) {
    struct etl__store *store = &collector->store;
    const struct etl__manifest *manifest = &collector->durable->restored;
    etl__begin_round(collector);
    for (size_t i = 0; i < manifest->run_count; i++)
        ETL__TRY(take_run(store, &manifest->runs[i], store->next_sequence++, error));
    atomic_store(&collector->pairs, manifest->pairs);
    atomic_store(&collector->key_bytes, manifest->key_bytes);
    atomic_store(&collector->value_bytes, manifest->value_bytes);
    return ETL_OK;
}

static int take_up(etl_collector *collector, struct etl__error *error) {
    struct etl__durable *durable = collector->durable;
    const struct etl__manifest *manifest = &durable->restored;
    int status = etl__durable_read(durable, error);
    if (status != ETL_OK && status != ETL_END)
        return status;
    etl__target_go_to(&collector->store.target, durable->directory,
                      status == ETL_OK ? manifest->next_file : 1);
    if (status == ETL_OK)
        ETL__TRY(check_same_rules(collector, error));
    if (manifest->run_count != 0)
        ETL__TRY(take_runs(collector, error));
    etl__durable_sweep(durable, manifest);
    return ETL_OK;
}

static int restore(etl_collector **out, const etl_options *options, const char *directory,
                   etl_slice *token, struct etl__error *error) {
    etl_collector *collector;
    ETL__TRY(etl__collector_create(&collector, options, directory, error));
    int status = take_up(collector, error);
    if (status != ETL_OK) {
        etl_collector_destroy(collector);
        return status;
    }
    const struct etl__durable *durable = collector->durable;
    if (token != NULL && durable->number != 0)
        *token = durable->restored.token.size != 0 ? durable->restored.token : etl_slice_of("", 0);
    *out = collector;
    return ETL_OK;
}

int etl_restore_message(etl_collector **out, const etl_options *options, const char *directory,
                        etl_slice *token, char *message, size_t size) {
    struct etl__error error = {.text = ""};
    int status;
    if (out != NULL)
        *out = NULL;
    if (token != NULL)
        *token = etl_slice_of(NULL, 0);
    if (out == NULL || directory == NULL)
        status = etl__fail(&error, ETL_E_INVALID, "%s",
                           out == NULL ? "out: NULL, nowhere to put a collector"
                                       : "restore: no directory");
    else
        status = restore(out, options, directory, token, &error);
    if (message != NULL && size != 0)
        (void)snprintf(message, size, "%s", error.text);
    return status;
}

int etl_restore(etl_collector **out, const etl_options *options, const char *directory,
                etl_slice *token) {
    return etl_restore_message(out, options, directory, token, NULL, 0);
}
