/* peer_lmdb.c: LMDB without a sorter: puts in random order into its B+tree, then a cursor. What a
 * program does that does not sort first. No syncs, a writable map, commits every 100,000 puts. Its
 * memory is the page cache and cannot be limited. It keeps one value a key, so that repeated keys
 * carry their number. */
#include "peers.h"

#include <lmdb.h>
#include <stdio.h>
#include <unistd.h>

enum { COMMIT_PAIRS = 100000 };

static void check(int status) {
    if (status != MDB_SUCCESS)
        apart_fail("lmdb", mdb_strerror(status));
}

static MDB_env *open_store(const struct pass *pass, const char *path) {
    MDB_env *env;
    check(mdb_env_create(&env));
    check(mdb_env_set_mapsize(env, (size_t)pass->size * 8 + ((size_t)64 << 20)));
    check(mdb_env_open(env, path, MDB_NOSUBDIR | MDB_NOSYNC | MDB_WRITEMAP | MDB_NOLOCK, 0600));
    return env;
}

static void collect(const struct pass *pass, MDB_env *env, size_t number_size) {
    MDB_txn *txn = NULL;
    MDB_dbi dbi = 0;
    struct workload *workload = workload_open(pass->letter, PASS_SEED, pass->size);
    for (uint64_t i = 0; i < pass->pairs; i++) {
        struct workload_pair pair;
        struct peer_key key;
        workload_next(workload, &pair);
        peer_key_make(&key, &pair, number_size, i);
        if (txn == NULL) {
            check(mdb_txn_begin(env, NULL, 0, &txn));
            check(mdb_dbi_open(txn, NULL, 0, &dbi));
        }
        MDB_val k = {key.size, key.bytes}, v = {pair.value_size, (void *)pair.value};
        check(mdb_put(txn, dbi, &k, &v, MDB_NOOVERWRITE));
        if ((i + 1) % COMMIT_PAIRS == 0 || i + 1 == pass->pairs) {
            check(mdb_txn_commit(txn));
            txn = NULL;
        }
    }
    workload_close(workload);
}

static void load(MDB_env *env, size_t number_size, struct output *output) {
    MDB_txn *txn;
    MDB_dbi dbi;
    MDB_cursor *cursor;
    MDB_val key, value;
    check(mdb_txn_begin(env, NULL, MDB_RDONLY, &txn));
    check(mdb_dbi_open(txn, NULL, 0, &dbi));
    check(mdb_cursor_open(txn, dbi, &cursor));
    int status = mdb_cursor_get(cursor, &key, &value, MDB_FIRST);
    for (; status == MDB_SUCCESS; status = mdb_cursor_get(cursor, &key, &value, MDB_NEXT))
        output_take(output, key.mv_data, key.mv_size - number_size, value.mv_data, value.mv_size);
    if (status != MDB_NOTFOUND)
        check(status);
    mdb_cursor_close(cursor);
    mdb_txn_abort(txn);
}

static void run(const struct pass *pass, struct peer_report *report) {
    char path[4200];
    snprintf(path, sizeof path, "%s/lmdb", pass->directory);
    size_t number_size = peer_number_size(pass);
    MDB_env *env = open_store(pass, path);
    collect(pass, env, number_size);
    load(env, number_size, &report->output);
    mdb_env_close(env);
    unlink(path);
}

const struct peer peer_lmdb = {"LMDB", true, true, run};
