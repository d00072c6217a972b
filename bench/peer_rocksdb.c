/* peer_rocksdb.c: RocksDB as one sorts with it: bulk load settings (sorted files stay on level 0,
 * no compaction), the memtable that is a vector sorted when it is full, no log, no compression,
 * batches of puts, then one iterator that merges files and memtable. A third of the limit for each
 * of two memtables, the one that fills and the one that a background thread writes; the vectors
 * and the files' writer and readers take the rest. It keeps one value a key, so that repeated keys
 * carry their number. */
#include "peers.h"

#include <rocksdb/c.h>
#include <stdio.h>

enum { BATCH_PAIRS = 256, BLOCK_CACHE = 1 << 20 };

static void check(const char *error) {
    if (error != NULL)
        apart_fail("rocksdb", error);
}

static rocksdb_options_t *make_options(const struct pass *pass) {
    rocksdb_options_t *options = rocksdb_options_create();
    rocksdb_options_prepare_for_bulk_load(options);
    rocksdb_options_set_create_if_missing(options, 1);
    rocksdb_options_set_memtable_vector_rep(options);
    rocksdb_options_set_allow_concurrent_memtable_write(options, 0);
    rocksdb_options_set_write_buffer_size(options, pass->limit / 3);
    rocksdb_options_set_max_write_buffer_number(options, 2);
    rocksdb_options_set_compression(options, rocksdb_no_compression);
    rocksdb_options_set_max_open_files(options, -1);
    rocksdb_block_based_table_options_t *table = rocksdb_block_based_options_create();
    rocksdb_cache_t *cache = rocksdb_cache_create_lru(BLOCK_CACHE);
    rocksdb_block_based_options_set_block_cache(table, cache);
    rocksdb_options_set_block_based_table_factory(options, table);
    rocksdb_block_based_options_destroy(table);
    rocksdb_cache_destroy(cache);
    return options;
}

static void collect(const struct pass *pass, rocksdb_t *db, size_t number_size) {
    char *error = NULL;
    rocksdb_writeoptions_t *options = rocksdb_writeoptions_create();
    rocksdb_writeoptions_disable_WAL(options, 1);
    rocksdb_writebatch_t *batch = rocksdb_writebatch_create();
    struct workload *workload = workload_open(pass->letter, PASS_SEED, pass->size);
    for (uint64_t i = 0; i < pass->pairs; i++) {
        struct workload_pair pair;
        struct peer_key key;
        workload_next(workload, &pair);
        peer_key_make(&key, &pair, number_size, i);
        rocksdb_writebatch_put(batch, (const char *)key.bytes, key.size, pair.value,
                               pair.value_size);
        if ((i + 1) % BATCH_PAIRS == 0 || i + 1 == pass->pairs) {
            rocksdb_write(db, options, batch, &error);
            check(error);
            rocksdb_writebatch_clear(batch);
        }
    }
    workload_close(workload);
    rocksdb_writebatch_destroy(batch);
    rocksdb_writeoptions_destroy(options);
}

static void load(rocksdb_t *db, size_t number_size, struct output *output) {
    char *error = NULL;
    rocksdb_readoptions_t *options = rocksdb_readoptions_create();
    rocksdb_readoptions_set_fill_cache(options, 0);
    rocksdb_iterator_t *iter = rocksdb_create_iterator(db, options);
    for (rocksdb_iter_seek_to_first(iter); rocksdb_iter_valid(iter); rocksdb_iter_next(iter)) {
        size_t key_size, value_size;
        const char *key = rocksdb_iter_key(iter, &key_size);
        const char *value = rocksdb_iter_value(iter, &value_size);
        output_take(output, key, key_size - number_size, value, value_size);
    }
    rocksdb_iter_get_error(iter, &error);
    check(error);
    rocksdb_iter_destroy(iter);
    rocksdb_readoptions_destroy(options);
}

static void run(const struct pass *pass, struct peer_report *report) {
    char path[4200], *error = NULL;
    snprintf(path, sizeof path, "%s/rocksdb", pass->directory);
    size_t number_size = peer_number_size(pass);
    rocksdb_options_t *options = make_options(pass);
    rocksdb_t *db = rocksdb_open(options, path, &error);
    check(error);
    collect(pass, db, number_size);
    load(db, number_size, &report->output);
    rocksdb_close(db);
    rocksdb_destroy_db(options, path, &error);
    check(error);
    rocksdb_options_destroy(options);
}

const struct peer peer_rocksdb = {"RocksDB", true, false, run};
