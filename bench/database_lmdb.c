/* database_lmdb.c: an LMDB table, with LMDB's default flags: no writable map, a sync a commit.
 *
 *     libetl         collected, and loaded by etl_lmdb_load in one transaction
 *     put            mdb_put in the order of the input, in one transaction
 *     put, commits   the same with a commit every 100,000 pairs, which bounds the pages that a
 *                    transaction has changed */
#include "databases.h"
#include "etl_lmdb.h"

#include <stdio.h>

enum { COMMIT_PAIRS = 100000 };

static void check(int status) {
    if (status != MDB_SUCCESS)
        apart_fail("lmdb", mdb_strerror(status));
}

static MDB_env *open_store(const struct pass *pass) {
    char path[4200];
    MDB_env *env;
    snprintf(path, sizeof path, "%s/lmdb", pass->directory);
    check(mdb_env_create(&env));
    check(mdb_env_set_mapsize(env, (size_t)pass->size * 8 + ((size_t)64 << 20)));
    check(mdb_env_open(env, path, MDB_NOSUBDIR | MDB_NOLOCK, 0600));
    return env;
}

static MDB_dbi open_table(MDB_env *env) {
    MDB_txn *txn;
    MDB_dbi dbi;
    check(mdb_txn_begin(env, NULL, 0, &txn));
    check(mdb_dbi_open(txn, NULL, 0, &dbi));
    check(mdb_txn_commit(txn));
    return dbi;
}

static void load_sorted(const struct pass *pass) {
    char message[512] = "";
    etl_lmdb_options options = LIBETL_LMDB_OPTIONS_INIT;
    options.message = message;
    options.message_size = sizeof message;
    MDB_env *env = open_store(pass);
    MDB_dbi dbi = open_table(env);
    etl_collector *collector = pass_create(pass);
    pass_collect(pass, collector);
    if (etl_lmdb_load(collector, env, dbi, &options) != ETL_OK)
        apart_fail("etl_lmdb_load", message);
    etl_collector_destroy(collector);
    mdb_env_close(env);
}

static void put_all(const struct pass *pass, uint64_t commit_pairs) {
    MDB_env *env = open_store(pass);
    MDB_dbi dbi = open_table(env);
    MDB_txn *txn;
    check(mdb_txn_begin(env, NULL, 0, &txn));
    struct workload *workload = workload_open(pass->letter, PASS_SEED, pass->size);
    for (uint64_t i = 0; i < pass->pairs; i++) {
        struct workload_pair pair;
        workload_next(workload, &pair);
        MDB_val key = {pair.key_size, (void *)pair.key};
        MDB_val value = {pair.value_size, (void *)pair.value};
        check(mdb_put(txn, dbi, &key, &value, 0));
        if ((i + 1) % commit_pairs == 0) {
            check(mdb_txn_commit(txn));
            check(mdb_txn_begin(env, NULL, 0, &txn));
        }
    }
    workload_close(workload);
    check(mdb_txn_commit(txn));
    mdb_env_close(env);
}

static void put_at_once(const struct pass *pass) {
    put_all(pass, UINT64_MAX);
}

static void put_in_parts(const struct pass *pass) {
    put_all(pass, COMMIT_PAIRS);
}

static void scan(const struct pass *pass, struct output *output) {
    MDB_env *env = open_store(pass);
    MDB_dbi dbi = open_table(env);
    MDB_txn *txn;
    etl_lmdb_source *source;
    etl_slice key, value;
    check(mdb_txn_begin(env, NULL, MDB_RDONLY, &txn));
    check(etl_lmdb_source_open(&source, txn, dbi, NULL, NULL, 0));
    int status;
    while ((status = etl_lmdb_source_next(source, &key, &value)) == ETL_OK)
        output_take(output, key.data, key.size, value.data, value.size);
    if (status != ETL_END)
        check(status);
    etl_lmdb_source_close(source);
    mdb_txn_abort(txn);
    mdb_env_close(env);
}

const struct database_way database_lmdb[3] = {
    {"LMDB", "libetl", false, load_sorted, scan},
    {"LMDB", "put", false, put_at_once, scan},
    {"LMDB", "put, commits", true, put_in_parts, scan},
};
