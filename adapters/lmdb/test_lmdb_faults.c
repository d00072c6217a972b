/* test_lmdb_faults.c: every call of LMDB and every allocation fails once, the n-th for every n. The
 * load says so, nothing is consumed, the table is as of the last commit, and the same load goes
 * through when the fault is over.
 *
 * The calls are put between the adapter and LMDB by the linker (--wrap); LMDB's calls of itself
 * are not seen. */
#include "lmdb_support.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { FAULT = EIO };

static struct {
    bool on;
    size_t calls;
    size_t fail_at; /* 0: none */
    int kind;
} faults;

enum { IN_BEGIN = 1, IN_OTHER };

static bool is_faulty(void) {
    return faults.on && ++faults.calls == faults.fail_at;
}

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_malloc(size_t size) {
    return is_faulty() ? NULL : __real_malloc(size);
}

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size) {
    return is_faulty() ? NULL : __real_calloc(count, size);
}

#define WRAP(name, parameters, arguments)                     \
    int __real_##name parameters;                             \
    int __wrap_##name parameters;                             \
    int __wrap_##name parameters {                            \
        return is_faulty() ? FAULT : __real_##name arguments; \
    }

WRAP(mdb_txn_begin, (MDB_env * env, MDB_txn *parent, unsigned flags, MDB_txn **txn),
     (env, parent, flags, txn))
WRAP(mdb_dbi_flags, (MDB_txn * txn, MDB_dbi dbi, unsigned *flags), (txn, dbi, flags))
WRAP(mdb_cursor_open, (MDB_txn * txn, MDB_dbi dbi, MDB_cursor **cursor), (txn, dbi, cursor))
WRAP(mdb_cursor_get, (MDB_cursor * cursor, MDB_val *key, MDB_val *value, MDB_cursor_op op),
     (cursor, key, value, op))
WRAP(mdb_cursor_put, (MDB_cursor * cursor, MDB_val *key, MDB_val *value, unsigned flags),
     (cursor, key, value, flags))
WRAP(mdb_cursor_del, (MDB_cursor * cursor, unsigned flags), (cursor, flags))
WRAP(mdb_env_info, (MDB_env * env, MDB_envinfo *info), (env, info))
WRAP(mdb_env_set_mapsize, (MDB_env * env, size_t size), (env, size))

/* A commit that fails has ended its transaction. */
int __real_mdb_txn_commit(MDB_txn *txn);
int __wrap_mdb_txn_commit(MDB_txn *txn);
int __wrap_mdb_txn_commit(MDB_txn *txn) {
    if (!is_faulty())
        return __real_mdb_txn_commit(txn);
    mdb_txn_abort(txn);
    return FAULT;
}

/* ---- A load into a table that has some of the keys, with deletions, commits, and a map that has
 * to grow. */

static const struct kind kind = {"values", MDB_DUPSORT, false, false, 0, 0};

struct scene {
    struct table table;
    struct oracle input, sorted;
    etl_collector *collector;
    unsigned char last[16];
    etl_slice last_key;
};

static void scene_open(struct scene *scene) {
    struct oracle_rules rules = {ETL_KEEP_ALL, false, ORACLE_TRIM};
    unsigned char key[2] = "kk", value[400];
    etl_options options = support_options(MIB);
    options.threads = ETL_THREADS_NONE;
    memset(scene, 0, sizeof *scene);
    memset(value, 'v', sizeof value);
    table_open(&scene->table, &kind, 64 * KIB);
    for (unsigned i = 0; i < 8; i++) {
        key[1] = (unsigned char)(i * 10 % 80);
        table_put(&scene->table, etl_slice_of(key, 2), etl_slice_str("before"));
    }
    for (unsigned i = 0; i < 120; i++) {
        key[1] = (unsigned char)(i * 37 % 100);
        value[0] = (unsigned char)i;
        oracle_add(&scene->input, etl_slice_of(key, 2),
                   i % 9 == 4 ? etl_slice_of(NULL, 0) : etl_slice_of(value, sizeof value));
    }
    ASSERT_OK(NULL, etl_collector_create(&scene->collector, &options));
    collect_all(scene->collector, &scene->input);
    assert_true(oracle_settle(&scene->input, &rules, &scene->sorted));
}

static void scene_close(struct scene *scene) {
    etl_collector_destroy(scene->collector);
    table_close(&scene->table);
    oracle_clear(&scene->input);
    oracle_clear(&scene->sorted);
}

static int committed(void *context, const etl_lmdb_commit *commit) {
    struct scene *scene = context;
    memcpy(scene->last, commit->key.data, commit->key.size);
    scene->last_key = etl_slice_of(scene->last, commit->key.size);
    return 0;
}

static int load(struct scene *scene, char *message, size_t size, etl_slice after, size_t fail_at) {
    etl_lmdb_options options = LIBETL_LMDB_OPTIONS_INIT;
    options.commit_pairs = 25;
    options.committed = committed;
    options.committed_ctx = scene;
    options.map_size_max = MIB;
    options.after = after;
    options.message = message;
    options.message_size = size;
    faults.calls = 0;
    faults.fail_at = fail_at;
    faults.on = true;
    int status = etl_lmdb_load(scene->collector, scene->table.env, scene->table.dbi, &options);
    faults.on = false;
    return status;
}

static void check_stopped(struct scene *scene) {
    struct oracle model = {NULL, 0, 0};
    model_copy(&model, &scene->table.model);
    if (scene->last_key.data != NULL)
        model_apply_all(&kind, &model, &scene->sorted, &scene->last_key);
    table_check(&scene->table, &model);
    oracle_clear(&model);
    assert_int_equal(pairs_in(scene->collector), scene->input.count);
}

static void every_call_may_fail(void **state) {
    (void)state;
    const etl_slice all = {NULL, 0};
    size_t told = 0;
    for (size_t n = 1;; n++) {
        struct scene scene;
        char message[256] = "";
        scene_open(&scene);
        int status = load(&scene, message, sizeof message, all, n);
        bool done = status == ETL_OK;
        if (!done) {
            told++;
            assert_true(status == FAULT || status == ETL_E_NOMEM);
            assert_true(message[0] != '\0');
            check_stopped(&scene);
            bool resume = n % 2 == 0 && scene.last_key.data != NULL;
            unsigned char copy[16];
            memcpy(copy, scene.last, sizeof copy);
            etl_slice after = resume ? etl_slice_of(copy, scene.last_key.size) : all;
            assert_int_equal(load(&scene, message, sizeof message, after, 0), ETL_OK);
        }
        model_apply_all(&kind, &scene.table.model, &scene.sorted, NULL);
        table_check(&scene.table, &scene.table.model);
        assert_int_equal(pairs_in(scene.collector), 0);
        bool reached = faults.calls >= n;
        scene_close(&scene);
        if (done) {
            assert_false(reached); /* a fault that nobody was told of */
            break;
        }
    }
    assert_true(told > 150);
}

/* The same of a source. */
static void every_call_of_a_source_may_fail(void **state) {
    (void)state;
    const struct kind integers = {"", MDB_INTEGERKEY, false, false, 4, 0};
    const etl_range range = {{"aaaa", 4}, {"zzzz", 4}};
    struct table table;
    MDB_txn *txn;
    table_open(&table, &integers, 0);
    table_put(&table, etl_slice_of("bbbb", 4), etl_slice_str("v"));
    ASSERT_MDB(mdb_txn_begin(table.env, NULL, MDB_RDONLY, &txn));
    bool failed = true;
    for (faults.fail_at = 1; failed; faults.fail_at++) {
        etl_lmdb_source *source;
        etl_slice key, value;
        char message[256] = "";
        faults.calls = 0;
        faults.on = true;
        int status =
            etl_lmdb_source_open(&source, txn, table.dbi, &range, message, sizeof message);
        if (status == ETL_OK)
            status = etl_lmdb_source_next(source, &key, &value);
        faults.on = false;
        failed = status != ETL_OK;
        if (failed) {
            assert_true(status == FAULT || status == ETL_E_NOMEM);
            assert_true(message[0] != '\0');
        }
        etl_lmdb_source_close(source);
    }
    assert_true(faults.fail_at > 9);
    mdb_txn_abort(txn);
    table_close(&table);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_call_may_fail),
                                       cmocka_unit_test(every_call_of_a_source_may_fail)};
    return cmocka_run_group_tests(tests, support_setup, support_teardown);
}
