/* load.c: a collector into an LMDB table, consumed when the last commit has succeeded.
 *
 * etl_load consumes when its last callback has returned, which is before the commit that may yet
 * fail. So pairs are pulled through an iterator, which consumes nothing, and the collector is reset
 * behind the last commit. The iterator can also go back: to behind the last committed key, when
 * the map was full and has grown. */
#include "writer.h"

#include <stdlib.h>
#include <time.h>

enum { TICK_PAIRS = 1024, TICK_NS = 100000000 };

struct load {
    etl_collector *const *collectors;
    size_t count;
    MDB_env *env;
    MDB_dbi dbi;
    etl_lmdb_options options;
    struct etl__lmdb_message message;
    etl_iter *iter;
    etl_lmdb_writer *writer;
    unsigned char *from; /* where to go on: the smallest key behind a given one */
    size_t from_size;
    uint64_t start_ns, told_ns;
    uint64_t again; /* pairs to come that were counted before the map grew */
    etl_progress progress;
};

/* ---- Progress */

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void start_progress(struct load *load) {
    load->start_ns = load->told_ns = now_ns();
    load->progress = (etl_progress){.phase = ETL_LOADING, .label = ""};
    for (size_t i = 0; i < load->count; i++) {
        etl_stats stats = {.struct_size = sizeof stats};
        if (etl_collector_stats(load->collectors[i], &stats) == ETL_OK) {
            load->progress.pairs_all += stats.pairs;
            load->progress.bytes_all += stats.key_bytes + stats.value_bytes;
        }
    }
    if (load->options.after.data != NULL) /* nobody has counted those behind it */
        load->progress.pairs_all = load->progress.bytes_all = 0;
}

static int tell(struct load *load) {
    uint64_t now = now_ns();
    if (now - load->told_ns < TICK_NS)
        return ETL_OK;
    load->told_ns = now;
    load->progress.elapsed_ns = now - load->start_ns;
    if (load->options.progress(load->options.progress_ctx, &load->progress) == 0)
        return ETL_OK;
    return etl__lmdb_fail(&load->message, ETL_E_CANCELLED, "the progress callback said so");
}

/* ---- One way from `from` to the end */

static int fail_collector(const struct load *load, int status) {
    const etl_collector *first = load->count != 0 ? load->collectors[0] : NULL;
    const char *text = first != NULL ? etl_collector_message(first) : "";
    if (text[0] == '\0')
        text = etl_status_string(status);
    return etl__lmdb_fail(&load->message, status, "%s", text);
}

static int set_from(struct load *load, etl_slice behind) {
    unsigned char *from = malloc(behind.size + 1);
    if (from == NULL)
        return etl__lmdb_fail(&load->message, ETL_E_NOMEM, "no memory for a key");
    if (behind.size != 0)
        memcpy(from, behind.data, behind.size);
    from[behind.size] = 0;
    free(load->from);
    load->from = from;
    load->from_size = behind.size + 1;
    return ETL_OK;
}

static int deliver(struct load *load) {
    etl_slice key, value;
    int status;
    while ((status = etl_iter_next(load->iter, &key, &value)) == ETL_OK) {
        status = etl_lmdb_writer_put(load->writer, key, value);
        if (status != ETL_OK)
            return status;
        if (load->again != 0) {
            load->again--;
            continue;
        }
        load->progress.bytes_done += key.size + value.size;
        if (++load->progress.pairs_done % TICK_PAIRS == 0 && load->options.progress != NULL)
            status = tell(load);
        if (status != ETL_OK)
            return status;
    }
    return status == ETL_END ? etl_lmdb_writer_commit(load->writer) : fail_collector(load, status);
}

/* ---- Growing */

/* Double the map; MDB_MAP_FULL when it may not grow. */
static int grow(const struct load *load) {
    MDB_envinfo info;
    MDB_stat stat;
    int status = mdb_env_info(load->env, &info);
    if (status == MDB_SUCCESS)
        status = mdb_env_stat(load->env, &stat);
    if (status != MDB_SUCCESS)
        return status;
    size_t most = load->options.map_size_max - load->options.map_size_max % stat.ms_psize;
    size_t size = info.me_mapsize <= most / 2 ? info.me_mapsize * 2 : most;
    if (size <= info.me_mapsize)
        return MDB_MAP_FULL;
    status = mdb_env_set_mapsize(load->env, size);
    return status == MDB_SUCCESS
               ? ETL_OK
               : etl__lmdb_fail_call(&load->message, status, "mdb_env_set_mapsize");
}

/* Put the iterator and the writer behind the last commit again. */
static int go_back(struct load *load) {
    etl_lmdb_commit commit = etl__lmdb_writer_committed(load->writer);
    int status = commit.key.data != NULL ? set_from(load, commit.key) : ETL_OK;
    if (status != ETL_OK)
        return status;
    status = etl_iter_seek(load->iter, etl_slice_of(load->from, load->from_size));
    if (status != ETL_OK)
        return fail_collector(load, status);
    load->again = load->progress.pairs_done - commit.pairs;
    etl__lmdb_writer_restart(load->writer);
    return ETL_OK;
}

static int deliver_growing(struct load *load) {
    bool may_grow = load->options.map_size_max != 0 && load->options.txn == NULL;
    int status;
    while ((status = deliver(load)) == MDB_MAP_FULL && may_grow) {
        status = grow(load);
        if (status == ETL_OK)
            status = go_back(load);
        if (status != ETL_OK)
            break;
    }
    return status;
}

/* ---- The whole */

static int consume(const struct load *load) {
    for (size_t i = 0; i < load->count; i++) {
        int status = etl_reset(load->collectors[i]);
        if (status != ETL_OK)
            return etl__lmdb_fail(&load->message, status, "all is committed, nothing consumed: %s",
                                  etl_collector_message(load->collectors[i]));
    }
    return ETL_OK;
}

static int run(struct load *load) {
    etl_range range = {{NULL, 0}, {NULL, 0}};
    int status = ETL_OK;
    if (load->options.after.data != NULL)
        status = set_from(load, load->options.after);
    if (status != ETL_OK)
        return status;
    range.from = etl_slice_of(load->from, load->from_size);
    /* Sorting and merging before the write lock is taken. */
    status = etl_iter_open_many(&load->iter, load->collectors, load->count,
                                load->from != NULL ? &range : NULL);
    if (status != ETL_OK)
        return fail_collector(load, status);
    start_progress(load);
    status = etl__lmdb_writer_open(&load->writer, load->env, load->dbi, &load->options);
    return status == ETL_OK ? deliver_growing(load) : status;
}

int etl_lmdb_load_many(etl_collector *const *collectors, size_t count, MDB_env *env, MDB_dbi dbi,
                       const etl_lmdb_options *options) {
    struct load load = {.collectors = collectors, .count = count, .env = env, .dbi = dbi};
    if (collectors == NULL || count == 0 ||
        etl__lmdb_take_options(&load.options, options) != ETL_OK)
        return ETL_E_INVALID;
    load.message = (struct etl__lmdb_message){load.options.message, load.options.message_size};
    for (size_t i = 0; i < count; i++)
        if (collectors[i] == NULL)
            return etl__lmdb_fail(&load.message, ETL_E_INVALID, "collector %zu is NULL", i);
    int status = run(&load);
    etl_lmdb_writer_close(load.writer);
    etl_iter_close(load.iter);
    free(load.from);
    if (status == ETL_OK && load.options.txn == NULL)
        status = consume(&load);
    return status;
}

int etl_lmdb_load(etl_collector *collector, MDB_env *env, MDB_dbi dbi,
                  const etl_lmdb_options *options) {
    return etl_lmdb_load_many(&collector, 1, env, dbi, options);
}
