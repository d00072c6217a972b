/* writer.c: sorted pairs into an LMDB table.
 *
 * MDB_APPEND writes behind the table's last key without a search, and fills each page before it
 * begins the next; a plain put there splits the last page in halves. So a key behind the end is
 * appended and any other is put. LMDB compares an appended key with the last one by the table's
 * own comparison and refuses it with MDB_KEYEXIST, changing nothing: where an order that cannot be
 * seen from outside (mdb_set_compare) is not the bytes', the key is put after all.
 *
 * One state decides: `appending`, whether the end of the table is the last key stored. It starts
 * as false, and a key above a copy of the table's end turns it on; that end is read once a
 * transaction, and again when LMDB refuses. Deletions only move the true end down, where the copy
 * costs a put, not an error.
 *
 * Values of one key in a table with MDB_DUPSORT: as long as the key was appended and its values
 * ascend, each goes behind the last (MDB_APPENDDUP).
 *
 * Memory: the writer, and copies of four keys and a value as large as the table allows. LMDB reads
 * the numbers of MDB_INTEGERKEY and MDB_INTEGERDUP as such, so these copies are aligned. */
#include "writer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { ALIGNMENT = 16, SHOWN = 24 };

struct held {
    unsigned char *bytes; /* room for the largest key, and one byte more */
    size_t size;
};

struct etl_lmdb_writer {
    MDB_env *env;
    MDB_dbi dbi;
    etl_lmdb_options options;
    struct etl__lmdb_message message;
    MDB_txn *txn; /* NULL between a commit and the next pair */
    MDB_cursor *cursor;
    unsigned flags; /* the table's */
    size_t key_max;
    size_t key_size;   /* that all keys must have; 0: any */
    size_t value_size; /* likewise */
    int failed;        /* what every call returns from now on */
    bool has_end;      /* the table had a last key */
    bool appending;
    bool has_key;   /* in this transaction: a key was stored */
    bool absent;    /* it was deleted after that */
    bool ascending; /* it was appended, and its values ascend */
    bool has_committed;
    uint64_t pending;   /* pairs since the last commit */
    uint64_t committed; /* pairs */
    struct held end, key, value, committed_key;
};

/* ---- Statuses and options */

const char *etl_lmdb_status_string(int status) {
    bool is_etl = status <= ETL_E_INVALID && status >= ETL_E_CANCELLED;
    return is_etl || status == ETL_OK || status == ETL_END ? etl_status_string(status)
                                                           : mdb_strerror(status);
}

int etl__lmdb_fail(const struct etl__lmdb_message *message, int status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    if (message->text != NULL && message->size != 0)
        (void)vsnprintf(message->text, message->size, format, arguments);
    va_end(arguments);
    return status;
}

int etl__lmdb_fail_call(const struct etl__lmdb_message *message, int status, const char *what) {
    return etl__lmdb_fail(message, status, "%s: %s", what, etl_lmdb_status_string(status));
}

int etl__lmdb_take_options(etl_lmdb_options *complete, const etl_lmdb_options *given) {
    memset(complete, 0, sizeof *complete);
    if (given == NULL)
        return ETL_OK;
    size_t known = given->struct_size != 0 ? given->struct_size : sizeof *complete;
    if (known < sizeof known)
        return ETL_E_INVALID;
    for (size_t i = sizeof *complete; i < known; i++)
        if (((const unsigned char *)given)[i] != 0)
            return ETL_E_INVALID; /* set what this version does not know */
    memcpy(complete, given, known < sizeof *complete ? known : sizeof *complete);
    return ETL_OK;
}

/* ---- Transactions */

/* Give up the transaction, if it is ours, and remember why. */
static int fail(etl_lmdb_writer *writer, int status, const char *what) {
    if (writer->cursor != NULL)
        mdb_cursor_close(writer->cursor);
    writer->cursor = NULL;
    if (writer->options.txn == NULL && writer->txn != NULL)
        mdb_txn_abort(writer->txn);
    writer->txn = NULL;
    writer->pending = 0;
    writer->failed = status;
    return etl__lmdb_fail_call(&writer->message, status, what);
}

static void hold(struct held *held, const void *data, size_t size) {
    memcpy(held->bytes, data, size);
    held->size = size;
}

static int read_end(etl_lmdb_writer *writer) {
    MDB_val key, value;
    int status = mdb_cursor_get(writer->cursor, &key, &value, MDB_LAST);
    writer->has_end = status == MDB_SUCCESS;
    if (status == MDB_NOTFOUND)
        return MDB_SUCCESS;
    if (status != MDB_SUCCESS)
        return status;
    /* A longer one was written by an LMDB built for such keys; its beginning is below it. */
    hold(&writer->end, key.mv_data, key.mv_size < writer->key_max ? key.mv_size : writer->key_max);
    if (writer->flags & MDB_INTEGERKEY)
        writer->key_size = key.mv_size;
    if (writer->flags & (MDB_DUPFIXED | MDB_INTEGERDUP))
        writer->value_size = value.mv_size;
    return MDB_SUCCESS;
}

static int begin(etl_lmdb_writer *writer) {
    int status = MDB_SUCCESS;
    writer->txn = writer->options.txn;
    if (writer->txn == NULL)
        status = mdb_txn_begin(writer->env, NULL, 0, &writer->txn);
    if (status != MDB_SUCCESS) {
        writer->txn = NULL;
        return fail(writer, status, "mdb_txn_begin");
    }
    status = mdb_dbi_flags(writer->txn, writer->dbi, &writer->flags);
    if (status != MDB_SUCCESS)
        return fail(writer, status, "mdb_dbi_flags");
    status = mdb_cursor_open(writer->txn, writer->dbi, &writer->cursor);
    if (status != MDB_SUCCESS)
        return fail(writer, status, "mdb_cursor_open");
    status = read_end(writer);
    if (status != MDB_SUCCESS)
        return fail(writer, status, "mdb_cursor_get");
    writer->appending = writer->has_key = false;
    return ETL_OK;
}

static int tell(etl_lmdb_writer *writer) {
    if (writer->options.committed == NULL)
        return ETL_OK;
    const etl_lmdb_commit commit = etl__lmdb_writer_committed(writer);
    int status = writer->options.committed(writer->options.committed_ctx, &commit);
    if (status != 0) {
        writer->failed = status;
        etl__lmdb_fail(&writer->message, status, "the commit callback returned %d", status);
    }
    return status;
}

int etl_lmdb_writer_commit(etl_lmdb_writer *writer) {
    if (writer == NULL)
        return ETL_E_INVALID;
    if (writer->failed != 0)
        return writer->failed;
    if (writer->options.txn != NULL || writer->txn == NULL)
        return ETL_OK;
    mdb_cursor_close(writer->cursor);
    writer->cursor = NULL;
    int status = mdb_txn_commit(writer->txn);
    writer->txn = NULL; /* gone, whatever was returned */
    if (status != MDB_SUCCESS)
        return fail(writer, status, "mdb_txn_commit");
    if (writer->pending == 0)
        return ETL_OK;
    writer->committed += writer->pending;
    writer->pending = 0;
    writer->has_committed = true;
    hold(&writer->committed_key, writer->key.bytes, writer->key.size);
    return tell(writer);
}

/* ---- Pairs */

static int refuse(const etl_lmdb_writer *writer, etl_slice key, const char *what, size_t size,
                  const char *why) {
    static const char digits[] = "0123456789abcdef";
    char hex[2 * SHOWN + 4] = "", *to = hex;
    const unsigned char *bytes = key.data;
    for (size_t i = 0; i < key.size && i < SHOWN; i++) {
        *to++ = digits[bytes[i] >> 4];
        *to++ = digits[bytes[i] & 15];
    }
    memcpy(to, key.size > SHOWN ? "..." : "", key.size > SHOWN ? 4 : 1);
    return etl__lmdb_fail(&writer->message, MDB_BAD_VALSIZE, "a %s of %zu bytes (key %s): %s",
                          what, size, hex, why);
}

static bool is_integer_size(size_t size) {
    return size == sizeof(unsigned) || size == sizeof(size_t);
}

/* What LMDB refuses, and what it would take and then confuse: numbers of different sizes, and empty
 * values among sorted duplicates, which it takes first but not later. */
static int check(const etl_lmdb_writer *writer, etl_slice key, etl_slice value) {
    if ((key.data == NULL && key.size != 0) || (value.data == NULL && value.size != 0))
        return etl__lmdb_fail(&writer->message, ETL_E_INVALID, "NULL data with a size");
    if (key.size == 0)
        return refuse(writer, key, "key", 0, "LMDB has no empty keys");
    if (key.size > writer->key_max)
        return refuse(writer, key, "key", key.size, "too long for this environment");
    if ((writer->flags & MDB_INTEGERKEY) && !is_integer_size(key.size))
        return refuse(writer, key, "key", key.size, "no size of an MDB_INTEGERKEY");
    if (writer->key_size != 0 && key.size != writer->key_size)
        return refuse(writer, key, "key", key.size, "the table's keys have another size");
    if (!(writer->flags & MDB_DUPSORT) || value.data == NULL)
        return ETL_OK;
    if (value.size == 0)
        return refuse(writer, key, "value", 0, "empty, among sorted duplicates");
    if (value.size > writer->key_max)
        return refuse(writer, key, "value", value.size, "too long for MDB_DUPSORT");
    if ((writer->flags & MDB_INTEGERDUP) && !is_integer_size(value.size))
        return refuse(writer, key, "value", value.size, "no size of an MDB_INTEGERDUP");
    if (writer->value_size != 0 && value.size != writer->value_size)
        return refuse(writer, key, "value", value.size, "the table's values have another size");
    return ETL_OK;
}

static int delete_key(etl_lmdb_writer *writer) {
    MDB_val key = {writer->key.size, writer->key.bytes}, value;
    writer->absent = true;
    writer->ascending = false;
    int status = mdb_cursor_get(writer->cursor, &key, &value, MDB_SET);
    if (status == MDB_SUCCESS)
        status = mdb_cursor_del(writer->cursor, writer->flags & MDB_DUPSORT ? MDB_NODUPDATA : 0);
    return status == MDB_NOTFOUND ? MDB_SUCCESS : status;
}

/* A key that is not in the table as far as we know: MDB_KEYEXIST when it cannot be appended. */
static int append(etl_lmdb_writer *writer, MDB_val *value) {
    MDB_val key = {writer->key.size, writer->key.bytes};
    if (writer->flags & (MDB_REVERSEKEY | MDB_INTEGERKEY))
        return MDB_KEYEXIST;
    if (!writer->appending && writer->has_end) {
        MDB_val end = {writer->end.size, writer->end.bytes};
        if (mdb_cmp(writer->txn, writer->dbi, &key, &end) <= 0)
            return MDB_KEYEXIST;
    }
    int status = mdb_cursor_put(writer->cursor, &key, value, MDB_APPEND);
    writer->appending = status == MDB_SUCCESS;
    writer->ascending = writer->appending;
    if (status != MDB_KEYEXIST)
        return status;
    status = read_end(writer);
    return status == MDB_SUCCESS ? MDB_KEYEXIST : status;
}

static int compare(etl_slice a, const struct held *b) {
    int order = memcmp(a.data, b->bytes, a.size < b->size ? a.size : b->size);
    return order != 0 ? order : (a.size > b->size) - (a.size < b->size);
}

/* One more value of the key before. MDB_KEYEXIST when it cannot be appended. */
static int append_value(etl_lmdb_writer *writer, etl_slice value) {
    if (!writer->ascending || (writer->flags & (MDB_REVERSEDUP | MDB_INTEGERDUP)))
        return MDB_KEYEXIST;
    int order = compare(value, &writer->value);
    if (order == 0)
        return MDB_SUCCESS; /* is there */
    writer->ascending = order > 0;
    if (!writer->ascending)
        return MDB_KEYEXIST;
    hold(&writer->value, value.data, value.size);
    MDB_val key = {writer->key.size, writer->key.bytes};
    MDB_val data = {writer->value.size, writer->value.bytes};
    int status = mdb_cursor_put(writer->cursor, &key, &data, MDB_APPENDDUP);
    writer->ascending = status == MDB_SUCCESS;
    return status;
}

static int put(etl_lmdb_writer *writer, etl_slice value, bool same) {
    bool sorts_values = (writer->flags & MDB_DUPSORT) != 0;
    MDB_val key = {writer->key.size, writer->key.bytes};
    MDB_val data = {value.size, (void *)value.data};
    int status = MDB_KEYEXIST;
    if (sorts_values && same && !writer->absent)
        status = append_value(writer, value);
    if (sorts_values && status == MDB_KEYEXIST) {
        hold(&writer->value, value.data, value.size);
        data.mv_data = writer->value.bytes;
    }
    if (!same || writer->absent) {
        writer->absent = writer->ascending = false;
        status = append(writer, &data);
    }
    if (status == MDB_KEYEXIST)
        status = mdb_cursor_put(writer->cursor, &key, &data, 0);
    return status;
}

int etl_lmdb_writer_put(void *context, etl_slice key, etl_slice value) {
    etl_lmdb_writer *writer = context;
    if (writer == NULL)
        return ETL_E_INVALID;
    if (writer->failed != 0)
        return writer->failed;
    int status = check(writer, key, value);
    if (status != ETL_OK)
        return status;
    bool same = writer->has_key && compare(key, &writer->key) == 0;
    uint64_t most = writer->options.commit_pairs;
    if (most != 0 && !same && writer->pending >= most)
        status = etl_lmdb_writer_commit(writer);
    if (status == ETL_OK && writer->txn == NULL) {
        status = begin(writer);
        same = false;
    }
    if (status != ETL_OK)
        return status;
    if (!same) {
        hold(&writer->key, key.data, key.size);
        writer->has_key = true;
        writer->absent = false;
        writer->key_size = writer->flags & MDB_INTEGERKEY ? key.size : 0;
    }
    if (value.data != NULL && writer->flags & (MDB_DUPFIXED | MDB_INTEGERDUP))
        writer->value_size = value.size;
    status = value.data != NULL ? put(writer, value, same) : delete_key(writer);
    if (status != MDB_SUCCESS)
        return fail(writer, status, value.data != NULL ? "mdb_cursor_put" : "mdb_cursor_del");
    writer->pending++;
    return ETL_OK;
}

/* ---- From open to close */

static size_t round_up(size_t size) {
    return (size + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
}

int etl__lmdb_writer_open(etl_lmdb_writer **out, MDB_env *env, MDB_dbi dbi,
                          const etl_lmdb_options *options) {
    const struct etl__lmdb_message message = {options->message, options->message_size};
    *out = NULL;
    if (env == NULL || (options->txn != NULL && mdb_txn_env(options->txn) != env))
        return etl__lmdb_fail(&message, ETL_E_INVALID, "env is NULL, or not that of txn");
    size_t key_max = (size_t)mdb_env_get_maxkeysize(env);
    size_t head = round_up(sizeof(etl_lmdb_writer)), room = round_up(key_max + 1);
    etl_lmdb_writer *writer = calloc(1, head + 4 * room);
    if (writer == NULL)
        return etl__lmdb_fail(&message, ETL_E_NOMEM, "no memory for a writer");
    struct held *helds[] = {&writer->end, &writer->key, &writer->value, &writer->committed_key};
    for (size_t i = 0; i < 4; i++)
        helds[i]->bytes = (unsigned char *)writer + head + i * room;
    writer->env = env;
    writer->dbi = dbi;
    writer->options = *options;
    writer->message = message;
    writer->key_max = key_max;
    int status = begin(writer);
    if (status != ETL_OK) {
        etl_lmdb_writer_close(writer);
        return status;
    }
    *out = writer;
    return ETL_OK;
}

int etl_lmdb_writer_open(etl_lmdb_writer **out, MDB_env *env, MDB_dbi dbi,
                         const etl_lmdb_options *given) {
    etl_lmdb_options options;
    if (out == NULL)
        return ETL_E_INVALID;
    *out = NULL;
    if (etl__lmdb_take_options(&options, given) != ETL_OK)
        return ETL_E_INVALID;
    const struct etl__lmdb_message message = {options.message, options.message_size};
    if (options.after.data != NULL || options.map_size_max != 0 || options.progress != NULL)
        return etl__lmdb_fail(&message, ETL_E_INVALID,
                              "after, map_size_max and progress are options of a load");
    return etl__lmdb_writer_open(out, env, dbi, &options);
}

void etl_lmdb_writer_close(etl_lmdb_writer *writer) {
    if (writer == NULL)
        return;
    if (writer->cursor != NULL)
        mdb_cursor_close(writer->cursor);
    if (writer->options.txn == NULL && writer->txn != NULL)
        mdb_txn_abort(writer->txn);
    free(writer);
}

etl_lmdb_commit etl__lmdb_writer_committed(const etl_lmdb_writer *writer) {
    const struct held *key = &writer->committed_key;
    return (etl_lmdb_commit){.key = writer->has_committed ? etl_slice_of(key->bytes, key->size)
                                                          : etl_slice_of(NULL, 0),
                             .pairs = writer->committed};
}

void etl__lmdb_writer_restart(etl_lmdb_writer *writer) {
    writer->failed = 0;
    writer->has_key = false;
}
