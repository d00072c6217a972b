/* source.c: an LMDB table as the source of a transform: one cursor, slices into the map. */
#include "writer.h"

#include <stdlib.h>

struct etl_lmdb_source {
    MDB_txn *txn;
    MDB_dbi dbi;
    MDB_cursor *cursor;
    MDB_cursor_op next;
    struct etl__lmdb_message message;
    bool at_end;
    bool bounded;
    size_t to_size;
    size_t from_size;
    void *to; /* in one block of its own, aligned for LMDB's integers */
    void *from;
};

static int copy_key(void **copy, size_t *size, etl_slice key) {
    *size = key.size;
    *copy = malloc(key.size != 0 ? key.size : 1);
    if (*copy == NULL)
        return ETL_E_NOMEM;
    if (key.size != 0)
        memcpy(*copy, key.data, key.size);
    return ETL_OK;
}

/* LMDB compares numbers of one size only, and has no empty keys: nothing is below one. */
static int check_end(const etl_lmdb_source *source, etl_slice key) {
    unsigned flags;
    int status = mdb_dbi_flags(source->txn, source->dbi, &flags);
    if (status != MDB_SUCCESS)
        return etl__lmdb_fail_call(&source->message, status, "mdb_dbi_flags");
    if (key.data == NULL && key.size != 0)
        return etl__lmdb_fail(&source->message, ETL_E_INVALID, "range: NULL data with a size");
    if (key.size == 0 || !(flags & MDB_INTEGERKEY))
        return ETL_OK;
    MDB_val first, value;
    status = mdb_cursor_get(source->cursor, &first, &value, MDB_FIRST);
    if (status == MDB_NOTFOUND)
        return ETL_OK;
    if (status == MDB_SUCCESS && first.mv_size == key.size)
        return ETL_OK;
    return etl__lmdb_fail(&source->message, status != MDB_SUCCESS ? status : MDB_BAD_VALSIZE,
                          "range: %zu bytes are no key of this table", key.size);
}

static int set_range(etl_lmdb_source *source, const etl_range *range) {
    int status = check_end(source, range->from);
    if (status == ETL_OK)
        status = check_end(source, range->to);
    if (status != ETL_OK)
        return status;
    source->bounded = range->to.data != NULL;
    status = copy_key(&source->from, &source->from_size, range->from);
    if (status == ETL_OK)
        status = copy_key(&source->to, &source->to_size, range->to);
    return status == ETL_OK
               ? ETL_OK
               : etl__lmdb_fail(&source->message, status, "no memory for a range of keys");
}

int etl_lmdb_source_open(etl_lmdb_source **out, MDB_txn *txn, MDB_dbi dbi, const etl_range *range,
                         char *message, size_t message_size) {
    const struct etl__lmdb_message where = {message, message_size};
    if (out == NULL)
        return ETL_E_INVALID;
    *out = NULL;
    if (txn == NULL)
        return etl__lmdb_fail(&where, ETL_E_INVALID, "txn is NULL");
    etl_lmdb_source *source = calloc(1, sizeof *source);
    if (source == NULL)
        return etl__lmdb_fail(&where, ETL_E_NOMEM, "no memory for a source");
    *source = (etl_lmdb_source){.txn = txn, .dbi = dbi, .message = where, .next = MDB_FIRST};
    int status = mdb_cursor_open(txn, dbi, &source->cursor);
    if (status != MDB_SUCCESS)
        etl__lmdb_fail_call(&where, status, "mdb_cursor_open");
    else if (range != NULL)
        status = set_range(source, range);
    if (status != ETL_OK) {
        etl_lmdb_source_close(source);
        return status;
    }
    if (source->from_size != 0)
        source->next = MDB_SET_RANGE;
    *out = source;
    return ETL_OK;
}

static bool is_behind(const etl_lmdb_source *source, const MDB_val *key) {
    MDB_val to = {source->to_size, source->to};
    return source->bounded &&
           (to.mv_size == 0 || mdb_cmp(source->txn, source->dbi, key, &to) >= 0);
}

int etl_lmdb_source_next(void *context, etl_slice *key, etl_slice *value) {
    etl_lmdb_source *source = context;
    if (source == NULL || key == NULL || value == NULL)
        return ETL_E_INVALID;
    if (source->at_end)
        return ETL_END;
    MDB_val at = {source->from_size, source->from}, data;
    int status = mdb_cursor_get(source->cursor, &at, &data, source->next);
    source->next = MDB_NEXT;
    if (status == MDB_NOTFOUND || (status == MDB_SUCCESS && is_behind(source, &at))) {
        source->at_end = true;
        return ETL_END;
    }
    if (status != MDB_SUCCESS)
        return etl__lmdb_fail_call(&source->message, status, "mdb_cursor_get");
    *key = etl_slice_of(at.mv_data, at.mv_size);
    *value = etl_slice_of(data.mv_data != NULL ? data.mv_data : "", data.mv_size);
    return ETL_OK;
}

void etl_lmdb_source_close(etl_lmdb_source *source) {
    if (source == NULL)
        return;
    if (source->cursor != NULL)
        mdb_cursor_close(source->cursor);
    free(source->from);
    free(source->to);
    free(source);
}
