/* lmdb_support.c: see lmdb_support.h. The model shares no code with the adapter, and compares keys
 * as the flags' documentation says, not by asking LMDB. */
#include "lmdb_support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Orders */

static int compare_sizes(size_t a, size_t b) {
    return (a > b) - (a < b);
}

static int compare_forward(const unsigned char *a, size_t a_size, const unsigned char *b,
                           size_t b_size) {
    for (size_t i = 0; i < a_size && i < b_size; i++)
        if (a[i] != b[i])
            return a[i] < b[i] ? -1 : 1;
    return compare_sizes(a_size, b_size);
}

static int compare_backward(const unsigned char *a, size_t a_size, const unsigned char *b,
                            size_t b_size) {
    for (size_t i = 0; i < a_size && i < b_size; i++)
        if (a[a_size - 1 - i] != b[b_size - 1 - i])
            return a[a_size - 1 - i] < b[b_size - 1 - i] ? -1 : 1;
    return compare_sizes(a_size, b_size);
}

static uint64_t number_of(const unsigned char *bytes, size_t size) {
    unsigned small;
    size_t large;
    if (size == sizeof small) {
        memcpy(&small, bytes, sizeof small);
        return small;
    }
    memcpy(&large, bytes, sizeof large);
    return large;
}

static int compare_as(bool backward, bool integer, bool folded, const unsigned char *a,
                      size_t a_size, const unsigned char *b, size_t b_size) {
    if (folded)
        return compare_forward(b, b_size, a, a_size);
    if (integer) {
        uint64_t x = number_of(a, a_size), y = number_of(b, b_size);
        return (x > y) - (x < y);
    }
    return backward ? compare_backward(a, a_size, b, b_size)
                    : compare_forward(a, a_size, b, b_size);
}

static const struct kind *sorting; /* what qsort(3) cannot be given */

static int by_table(const void *left, const void *right) {
    const struct oracle_pair *a = left, *b = right;
    int order = compare_as(sorting->flags & MDB_REVERSEKEY, sorting->flags & MDB_INTEGERKEY,
                           sorting->folded, a->key, a->key_size, b->key, b->key_size);
    if (order != 0)
        return order;
    return compare_as(sorting->flags & MDB_REVERSEDUP, sorting->flags & MDB_INTEGERDUP,
                      sorting->folded_values, a->value, a->value_size, b->value, b->value_size);
}

static int by_folded_bytes(const MDB_val *a, const MDB_val *b) {
    return compare_forward(b->mv_data, b->mv_size, a->mv_data, a->mv_size);
}

/* ---- The model */

static bool same_bytes(const unsigned char *a, size_t a_size, etl_slice b) {
    return a_size == b.size && (b.size == 0 || memcmp(a, b.data, b.size) == 0);
}

static void remove_at(struct oracle *model, size_t at) {
    free(model->pairs[at].key);
    free(model->pairs[at].value);
    model->pairs[at] = model->pairs[--model->count];
}

void model_apply(const struct kind *kind, struct oracle *model, etl_slice key, etl_slice value) {
    for (size_t i = model->count; i-- > 0;) {
        struct oracle_pair *pair = &model->pairs[i];
        if (!same_bytes(pair->key, pair->key_size, key))
            continue;
        bool stays = value.data != NULL && (kind->flags & MDB_DUPSORT) &&
                     !same_bytes(pair->value, pair->value_size, value);
        if (!stays)
            remove_at(model, i);
    }
    if (value.data != NULL)
        oracle_add(model, key, value);
}

void model_apply_all(const struct kind *kind, struct oracle *model, const struct oracle *pairs,
                     const etl_slice *last) {
    for (size_t i = 0; i < pairs->count; i++) {
        etl_slice key = oracle_key(&pairs->pairs[i]);
        if (last == NULL || compare_forward(key.data, key.size, last->data, last->size) <= 0)
            model_apply(kind, model, key, oracle_value(&pairs->pairs[i]));
    }
}

void model_copy(struct oracle *to, const struct oracle *from) {
    for (size_t i = 0; i < from->count; i++)
        oracle_add(to, oracle_key(&from->pairs[i]), oracle_value(&from->pairs[i]));
}

/* ---- The table */

void table_open(struct table *table, const struct kind *kind, size_t map_size) {
    MDB_txn *txn;
    const char *path = support_path("table.mdb");
    memset(table, 0, sizeof *table);
    table->kind = kind;
    unlink(path);
    ASSERT_MDB(mdb_env_create(&table->env));
    ASSERT_MDB(mdb_env_set_mapsize(table->env, map_size != 0 ? map_size : 64 * MIB));
    ASSERT_MDB(mdb_env_set_maxdbs(table->env, 4));
    ASSERT_MDB(
        mdb_env_open(table->env, path, MDB_NOSUBDIR | MDB_NOSYNC | MDB_NOLOCK | MDB_NOTLS, 0600));
    ASSERT_MDB(mdb_txn_begin(table->env, NULL, 0, &txn));
    ASSERT_MDB(mdb_dbi_open(txn, "table", MDB_CREATE | kind->flags, &table->dbi));
    if (kind->folded)
        ASSERT_MDB(mdb_set_compare(txn, table->dbi, by_folded_bytes));
    if (kind->folded_values)
        ASSERT_MDB(mdb_set_dupsort(txn, table->dbi, by_folded_bytes));
    ASSERT_MDB(mdb_txn_commit(txn));
}

void table_close(struct table *table) {
    mdb_env_close(table->env);
    unlink(support_path("table.mdb"));
    oracle_clear(&table->model);
}

void table_put(struct table *table, etl_slice key, etl_slice value) {
    MDB_txn *txn;
    MDB_val k = {key.size, (void *)key.data}, v = {value.size, (void *)value.data};
    ASSERT_MDB(mdb_txn_begin(table->env, NULL, 0, &txn));
    ASSERT_MDB(mdb_put(txn, table->dbi, &k, &v, 0));
    ASSERT_MDB(mdb_txn_commit(txn));
    model_apply(table->kind, &table->model, key, value);
}

void table_check(const struct table *table, struct oracle *model) {
    MDB_txn *txn;
    MDB_cursor *cursor;
    MDB_val key, value;
    sorting = table->kind;
    if (model->count != 0)
        qsort(model->pairs, model->count, sizeof *model->pairs, by_table);
    ASSERT_MDB(mdb_txn_begin(table->env, NULL, MDB_RDONLY, &txn));
    ASSERT_MDB(mdb_cursor_open(txn, table->dbi, &cursor));
    for (size_t i = 0; i < model->count; i++) {
        ASSERT_MDB(mdb_cursor_get(cursor, &key, &value, MDB_NEXT));
        assert_true(oracle_same(&model->pairs[i], etl_slice_of(key.mv_data, key.mv_size),
                                etl_slice_of(value.mv_data, value.mv_size)));
    }
    assert_int_equal(mdb_cursor_get(cursor, &key, &value, MDB_NEXT), MDB_NOTFOUND);
    mdb_cursor_close(cursor);
    mdb_txn_abort(txn);
}

void collect_all(etl_collector *collector, const struct oracle *pairs) {
    for (size_t i = 0; i < pairs->count; i++)
        ASSERT_OK(collector, etl_collect(collector, oracle_key(&pairs->pairs[i]),
                                         oracle_value(&pairs->pairs[i])));
}

uint64_t pairs_in(etl_collector *collector) {
    etl_iter *iter;
    uint64_t count = 0;
    ASSERT_OK(collector, etl_iter_open(&iter, collector, NULL));
    while (etl_iter_next(iter, NULL, NULL) == ETL_OK)
        count++;
    etl_iter_close(iter);
    return count;
}
