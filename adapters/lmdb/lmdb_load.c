/* lmdb_load.c: lines of "key TAB value" into an LMDB table, in key order.
 *
 *     lmdb_load words.mdb words.tsv && lmdb_load -p words.mdb
 *
 * The map begins at 1 MiB and grows as the load needs it. Every 100,000 pairs are committed, so
 * that a load which is killed leaves what it said it had committed. Built with the adapter, for
 * loader.h; docs/COOKBOOK.md has one in a single file. */
#include "../loader.h"

#include "etl_lmdb.h"

static int fail(const char *what, int status) {
    return loader_fail(what, etl_lmdb_status_string(status));
}

static int open_environment(MDB_env **env, const char *path, unsigned flags) {
    int status = mdb_env_create(env);
    if (status == MDB_SUCCESS)
        status = mdb_env_open(*env, path, MDB_NOSUBDIR | flags, 0644);
    return status;
}

static int committed(void *context, const etl_lmdb_commit *commit) {
    (void)context;
    fprintf(stderr, "%llu pairs committed, up to %.*s\n", (unsigned long long)commit->pairs,
            (int)commit->key.size, (const char *)commit->key.data);
    return 0;
}

static int load(etl_collector *collector, const char *path) {
    char message[512] = "";
    etl_lmdb_options options = LIBETL_LMDB_OPTIONS_INIT;
    options.commit_pairs = 100000;
    options.committed = committed;
    options.map_size_max = (size_t)1 << 40;
    options.message = message;
    options.message_size = sizeof message;
    MDB_env *env = NULL;
    MDB_txn *txn;
    MDB_dbi dbi;
    int status = open_environment(&env, path, 0);
    if (status == MDB_SUCCESS)
        status = mdb_txn_begin(env, NULL, 0, &txn);
    if (status == MDB_SUCCESS) {
        status = mdb_dbi_open(txn, NULL, 0, &dbi); /* the unnamed table */
        mdb_txn_abort(txn);
    }
    if (status == MDB_SUCCESS)
        status = etl_lmdb_load(collector, env, dbi, &options);
    mdb_env_close(env);
    return status == ETL_OK     ? 0
           : message[0] != '\0' ? loader_fail(path, message)
                                : fail(path, status);
}

static int print(const char *path) {
    MDB_env *env = NULL;
    MDB_txn *txn = NULL;
    MDB_dbi dbi;
    etl_lmdb_source *source = NULL;
    etl_slice key, value;
    int status = open_environment(&env, path, MDB_RDONLY);
    if (status == MDB_SUCCESS)
        status = mdb_txn_begin(env, NULL, MDB_RDONLY, &txn);
    if (status == MDB_SUCCESS)
        status = mdb_dbi_open(txn, NULL, 0, &dbi);
    if (status == MDB_SUCCESS)
        status = etl_lmdb_source_open(&source, txn, dbi, NULL, NULL, 0);
    while (status == ETL_OK && (status = etl_lmdb_source_next(source, &key, &value)) == ETL_OK)
        loader_print_pair(key.data, key.size, value.data, value.size);
    etl_lmdb_source_close(source);
    if (txn != NULL)
        mdb_txn_abort(txn);
    mdb_env_close(env);
    return status == ETL_END ? 0 : fail(path, status);
}
