/* database_rocksdb.c: a RocksDB database, not compressed in either way, so that sizes tell the
 * layout alone.
 *
 *     libetl   collected, written in key order to one table file, and that file ingested
 *     put      put in the order of the input, without the log, then flushed
 *
 * RocksDB has no one transaction for so many pairs; what both have in common is that all pairs are
 * in synced table files at the end. It sorts by itself, in memtables and compactions: compactions
 * that are still due when it is closed are not waited for. */
#include "databases.h"

#include <rocksdb/c.h>
#include <stdio.h>

static void check(char *error) {
    if (error != NULL)
        apart_fail("rocksdb", error);
}

static rocksdb_options_t *make_options(void) {
    rocksdb_options_t *options = rocksdb_options_create();
    rocksdb_options_set_create_if_missing(options, 1);
    rocksdb_options_set_compression(options, rocksdb_no_compression);
    return options;
}

static rocksdb_t *open_store(const struct pass *pass, const rocksdb_options_t *options) {
    char path[4200], *error = NULL;
    snprintf(path, sizeof path, "%s/rocksdb", pass->directory);
    rocksdb_t *db = rocksdb_open(options, path, &error);
    check(error);
    return db;
}

static int add(void *context, etl_slice key, etl_slice value) {
    char *error = NULL;
    rocksdb_sstfilewriter_put(context, key.data, key.size, value.data, value.size, &error);
    check(error);
    return 0;
}

static void load_sorted(const struct pass *pass) {
    char path[4200], *error = NULL;
    snprintf(path, sizeof path, "%s/sorted.sst", pass->directory);
    const char *paths[] = {path};
    rocksdb_options_t *options = make_options();
    rocksdb_envoptions_t *env_options = rocksdb_envoptions_create();
    rocksdb_sstfilewriter_t *writer = rocksdb_sstfilewriter_create(env_options, options);
    etl_collector *collector = pass_create(pass);
    pass_collect(pass, collector);
    rocksdb_sstfilewriter_open(writer, path, &error);
    check(error);
    pass_check(etl_load(collector, add, writer), collector);
    rocksdb_sstfilewriter_finish(writer, &error);
    check(error);
    etl_collector_destroy(collector);
    rocksdb_ingestexternalfileoptions_t *ingest = rocksdb_ingestexternalfileoptions_create();
    rocksdb_ingestexternalfileoptions_set_move_files(ingest, 1);
    rocksdb_t *db = open_store(pass, options);
    rocksdb_ingest_external_file(db, paths, 1, ingest, &error);
    check(error);
    rocksdb_close(db);
    rocksdb_ingestexternalfileoptions_destroy(ingest);
    rocksdb_sstfilewriter_destroy(writer);
    rocksdb_envoptions_destroy(env_options);
    rocksdb_options_destroy(options);
}

static void put(const struct pass *pass) {
    char *error = NULL;
    rocksdb_options_t *options = make_options();
    rocksdb_t *db = open_store(pass, options);
    rocksdb_writeoptions_t *write = rocksdb_writeoptions_create();
    rocksdb_writeoptions_disable_WAL(write, 1);
    struct workload *workload = workload_open(pass->letter, PASS_SEED, pass->size);
    for (uint64_t i = 0; i < pass->pairs; i++) {
        struct workload_pair pair;
        workload_next(workload, &pair);
        rocksdb_put(db, write, pair.key, pair.key_size, pair.value, pair.value_size, &error);
        check(error);
    }
    workload_close(workload);
    rocksdb_flushoptions_t *flush = rocksdb_flushoptions_create();
    rocksdb_flush(db, flush, &error);
    check(error);
    rocksdb_close(db);
    rocksdb_flushoptions_destroy(flush);
    rocksdb_writeoptions_destroy(write);
    rocksdb_options_destroy(options);
}

static void scan(const struct pass *pass, struct output *output) {
    char *error = NULL;
    rocksdb_options_t *options = make_options();
    rocksdb_t *db = open_store(pass, options);
    rocksdb_readoptions_t *read = rocksdb_readoptions_create();
    rocksdb_iterator_t *iter = rocksdb_create_iterator(db, read);
    for (rocksdb_iter_seek_to_first(iter); rocksdb_iter_valid(iter); rocksdb_iter_next(iter)) {
        size_t key_size, value_size;
        const char *key = rocksdb_iter_key(iter, &key_size);
        const char *value = rocksdb_iter_value(iter, &value_size);
        output_take(output, key, key_size, value, value_size);
    }
    rocksdb_iter_get_error(iter, &error);
    check(error);
    rocksdb_iter_destroy(iter);
    rocksdb_readoptions_destroy(read);
    rocksdb_close(db);
    rocksdb_options_destroy(options);
}

const struct database_way database_rocksdb[2] = {
    {"RocksDB", "libetl", false, load_sorted, scan},
    {"RocksDB", "put", false, put, scan},
};
