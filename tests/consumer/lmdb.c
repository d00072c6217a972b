/* lmdb.c: a stranger's program with the adapter for LMDB: pairs into a table, and its keys, which
 * are numbers in text, printed in the table's order. */
#include <etl_lmdb.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void check(int status, const char *what) {
    if (status == ETL_OK)
        return;
    fprintf(stderr, "%s: %s\n", what, etl_lmdb_status_string(status));
    exit(1);
}

int main(int argc, char **argv) {
    unsigned long pairs = argc > 1 ? strtoul(argv[1], NULL, 10) : 1000;
    char path[] = "/tmp/consumer_lmdb-XXXXXX", key[24];
    etl_collector *collector;
    etl_lmdb_options options = LIBETL_LMDB_OPTIONS_INIT;
    etl_lmdb_source *source;
    etl_slice k, v;
    MDB_env *env;
    MDB_txn *txn;
    MDB_dbi dbi;
    int status = close(mkstemp(path));
    check(etl_collector_create(&collector, NULL), "create");
    for (unsigned long i = 0; i < pairs; i++) {
        snprintf(key, sizeof key, "%012lu", i * 7919 % pairs);
        check(etl_collect(collector, etl_slice_str(key), etl_slice_str("v")), "collect");
    }
    check(mdb_env_create(&env), "mdb_env_create");
    check(mdb_env_open(env, path, MDB_NOSUBDIR | MDB_NOLOCK, 0600), "mdb_env_open");
    check(mdb_txn_begin(env, NULL, 0, &txn), "mdb_txn_begin");
    check(mdb_dbi_open(txn, NULL, 0, &dbi), "mdb_dbi_open");
    options.txn = txn;
    check(etl_lmdb_load(collector, env, dbi, &options), "etl_lmdb_load");
    check(etl_lmdb_source_open(&source, txn, dbi, NULL, NULL, 0), "etl_lmdb_source_open");
    while ((status = etl_lmdb_source_next(source, &k, &v)) == ETL_OK)
        printf("%.*s\n", (int)k.size, (const char *)k.data);
    etl_lmdb_source_close(source);
    mdb_txn_abort(txn);
    mdb_env_close(env);
    unlink(path);
    etl_collector_destroy(collector);
    return status != ETL_END;
}
