/* rocksdb_load.c: lines of "key TAB value" into a RocksDB database, as one table file.
 *
 *     rocksdb_load words.rocksdb words.tsv && rocksdb_load -p words.rocksdb
 *
 * Keys that come in order are written straight to a table file (SstFileWriter), which the database
 * then takes in: no log, no memtable, no compaction of what was sorted already. It is there as a
 * whole or not at all. Such a file needs one pair or more, each key once. */
#include "../loader.h"

#include <rocksdb/c.h>

struct target {
    rocksdb_sstfilewriter_t *writer;
    uint64_t pairs;
    char *error;
};

static int add(void *context, etl_slice key, etl_slice value) {
    struct target *target = context;
    rocksdb_sstfilewriter_put(target->writer, key.data, key.size, value.data, value.size,
                              &target->error);
    target->pairs++;
    return target->error != NULL;
}

/* Returns 1 when there is no file to ingest, for whatever reason. */
static int write_file(etl_collector *collector, struct target *target, const char *file) {
    rocksdb_sstfilewriter_open(target->writer, file, &target->error);
    if (target->error != NULL)
        return 1;
    int status = etl_load(collector, add, target);
    if (status < 0)
        loader_fail(file, etl_collector_message(collector));
    if (status == ETL_OK && target->pairs != 0)
        rocksdb_sstfilewriter_finish(target->writer, &target->error);
    return status != ETL_OK || target->error != NULL;
}

static void ingest(rocksdb_t *db, struct target *target, const char *file) {
    const char *files[] = {file};
    rocksdb_ingestexternalfileoptions_t *options = rocksdb_ingestexternalfileoptions_create();
    rocksdb_ingestexternalfileoptions_set_move_files(options, 1);
    rocksdb_ingest_external_file(db, files, 1, options, &target->error);
    rocksdb_ingestexternalfileoptions_destroy(options);
}

static int load(etl_collector *collector, const char *path) {
    char file[4096];
    snprintf(file, sizeof file, "%s/load.sst", path); /* where it can be moved and not copied */
    struct target target = {NULL, 0, NULL};
    rocksdb_options_t *options = rocksdb_options_create();
    rocksdb_options_set_create_if_missing(options, 1);
    rocksdb_t *db = rocksdb_open(options, path, &target.error);
    if (db == NULL) {
        loader_fail(path, target.error);
        rocksdb_free(target.error);
        rocksdb_options_destroy(options);
        return 1;
    }
    rocksdb_envoptions_t *env = rocksdb_envoptions_create();
    target.writer = rocksdb_sstfilewriter_create(env, options);
    int failed = write_file(collector, &target, file);
    if (!failed && target.pairs != 0)
        ingest(db, &target, file);
    if (target.error != NULL)
        failed = loader_fail(path, target.error);
    unlink(file); /* where it was not moved */
    rocksdb_free(target.error);
    rocksdb_sstfilewriter_destroy(target.writer);
    rocksdb_envoptions_destroy(env);
    rocksdb_close(db);
    rocksdb_options_destroy(options);
    return failed;
}

static int print(const char *path) {
    char *error = NULL;
    rocksdb_options_t *options = rocksdb_options_create();
    rocksdb_t *db = rocksdb_open_for_read_only(options, path, 0, &error);
    if (db != NULL) {
        rocksdb_readoptions_t *read = rocksdb_readoptions_create();
        rocksdb_iterator_t *iter = rocksdb_create_iterator(db, read);
        for (rocksdb_iter_seek_to_first(iter); rocksdb_iter_valid(iter); rocksdb_iter_next(iter)) {
            size_t key_size, value_size;
            const char *key = rocksdb_iter_key(iter, &key_size);
            const char *value = rocksdb_iter_value(iter, &value_size);
            loader_print_pair(key, key_size, value, value_size);
        }
        rocksdb_iter_get_error(iter, &error);
        rocksdb_iter_destroy(iter);
        rocksdb_readoptions_destroy(read);
        rocksdb_close(db);
    }
    rocksdb_options_destroy(options);
    int failed = error != NULL ? loader_fail(path, error) : 0;
    rocksdb_free(error);
    return failed;
}
