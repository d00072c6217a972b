/* etl_lmdb.h: load a collector into an LMDB table, and read a table as the source of a transform.
 *
 * A B+tree that is filled in key order writes each page once, full; filled in random order it
 * splits pages in halves all over the file. Here libetl sorts, and LMDB appends (MDB_APPEND)
 * wherever a key lies behind the end of the table; elsewhere pairs are put.
 *
 * The order of calls:
 *
 *     etl_collect* -> etl_lmdb_load                        a collector into a table
 *     etl_lmdb_source_open -> etl_transform -> ..._close   a table, through extract, to any load
 *     etl_lmdb_writer_open -> etl_lmdb_writer_put* -> etl_lmdb_writer_commit -> ..._close
 *                                                          as the load of a transform
 *
 * Meaning  As if the pairs were put one by one in the collector's order. A nil value deletes its
 *          key (with MDB_DUPSORT: all its values), the empty value is put as empty. A table without
 *          MDB_DUPSORT keeps the last value of a key; one with it the set of them.
 * Order    A table in an order of its own (MDB_REVERSEKEY, MDB_INTEGERKEY, mdb_set_compare) gets
 *          the same pairs by puts, which gain less.
 * Limits   LMDB's: keys of 1 to mdb_env_get_maxkeysize() bytes (511, as it is usually built), and
 *          values likewise where the table has MDB_DUPSORT; MDB_INTEGERKEY and MDB_INTEGERDUP take
 *          sizeof(unsigned) or sizeof(size_t), and they and MDB_DUPFIXED one size in a table. A pair
 *          beyond them is MDB_BAD_VALSIZE, with the key and its size in the message.
 * Status   ETL_E_* as in etl.h; LMDB's own codes (MDB_*, and errno values) and callbacks' values
 *          verbatim. etl_lmdb_status_string() knows all but the last.
 * Threads  As LMDB: a write transaction stays on its thread, so a load, and a writer from open to
 *          close, belong to one thread. Different ones may be used by different threads; in one
 *          environment LMDB makes the second writer wait. There is no global state. */
#ifndef LIBETL_ETL_LMDB_H
#define LIBETL_ETL_LMDB_H

#include <etl.h>
#include <lmdb.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A few words for a status of libetl, of LMDB or of the system; never NULL. As mdb_strerror, it may
 * use the buffer of strerror(). */
const char *etl_lmdb_status_string(int status);

/* ---- Options of a load and of a writer */

/* What a commit has made safe. */
typedef struct etl_lmdb_commit {
    etl_slice key;  /* the last one: all pairs with it and before it are in. Lives until the
                       callback returns */
    uint64_t pairs; /* of this load or writer, committed so far */
} etl_lmdb_commit;

/* Called after each commit, with no transaction open. Non-zero stops, and is returned; what was
 * committed stays. */
typedef int etl_lmdb_commit_fn(void *context, const etl_lmdb_commit *commit);

/* All zero means the defaults. Start from LIBETL_LMDB_OPTIONS_INIT and set what differs. What it
 * points to must live until the load returns, or the writer is closed. */
typedef struct etl_lmdb_options {
    size_t struct_size; /* sizeof(etl_lmdb_options); 0 is taken as that */
    MDB_txn *txn;       /* write in this transaction, which the caller commits, or aborts after an
                           error. Default NULL: begin and commit own ones */

    uint64_t commit_pairs; /* commit after so many pairs, when the key changes: all values of a key
                              are in one commit. Default 0: once, at the end */

    etl_lmdb_commit_fn *committed; /* called after each commit */
    void *committed_ctx;           /* its context */

    /* The rest but message is for loads only. */
    etl_slice after;     /* only keys behind this one. Default nil: all */
    size_t map_size_max; /* bytes up to which the environment's map is doubled when it is full.
                                  Default 0: MDB_MAP_FULL is returned */
    etl_progress_fn *progress; /* called about 10 times a second in ETL_LOADING; non-zero cancels.
                                  Sorting and merging before it: etl_options.progress */
    void *progress_ctx;        /* its context */

    char *message; /* NULL, or room for message_size bytes: why it failed, cut to fit */
    size_t message_size;
} etl_lmdb_options;

#define LIBETL_LMDB_OPTIONS_INIT \
    { sizeof(etl_lmdb_options), NULL, 0, NULL, NULL, {NULL, 0}, 0, NULL, NULL, NULL, 0 }

/* ---- Loading a collector */

/* Load a collector's pairs into a table. env, and dbi opened in it, are the caller's and stay so;
 * the thread must have no write transaction open in env, but options->txn. options may be NULL.
 *
 * Consumes on success only, and only what a commit has made safe: after ETL_OK the collector is
 * empty and ready for the next round. With options->txn nothing is consumed, for the caller has
 * yet to commit: etl_reset the collector then. After any other value nothing was consumed, and the
 * table is as of the last commit (with options->txn: abort that). Then either
 *     load again: it puts every pair, the same ones too, and ends with the same table; or
 *     resume: load with options->after set to a copy of the last committed key. Pairs that were
 *     collected since, with keys up to that one, are not loaded by this.
 *
 * A full map ends a load with MDB_MAP_FULL; or, with map_size_max, the map is doubled and the load
 * goes on from the last commit. For that no transaction of this process may be open in env, not
 * even one that reads (mdb_env_set_mapsize has the reasons).
 *
 * Returns ETL_OK, what a callback returned (progress: ETL_E_CANCELLED), or
 *   ETL_E_INVALID    an argument is wrong
 *   ETL_E_STATE      an iterator is open on the collector: when it is found at the end, with all
 *                    pairs committed and none consumed
 *   ETL_E_CANCELLED  etl_cancel() was called, or progress returned non-zero
 *   MDB_BAD_VALSIZE  a pair that the table cannot hold
 *   MDB_MAP_FULL     the map is full, and may not grow
 *   other            as etl_iter_open and etl_iter_next; what LMDB returned: EACCES for a read-only
 *                    environment, MDB_MAP_RESIZED, ENOSPC, EIO ... */
int etl_lmdb_load(etl_collector *collector, MDB_env *env, MDB_dbi dbi,
                  const etl_lmdb_options *options);

/* As etl_lmdb_load, over several collectors as if their pairs had been collected in one: the first
 * collector's first among equal keys. They must agree on duplicates and order_values. All are
 * consumed on success, none otherwise. */
int etl_lmdb_load_many(etl_collector *const *collectors, size_t count, MDB_env *env, MDB_dbi dbi,
                       const etl_lmdb_options *options);

/* ---- Writing pair by pair: where libetl calls, as in etl_transform */

typedef struct etl_lmdb_writer etl_lmdb_writer;

/* Begin to write to a table; takes the environment's write lock (but with options->txn). While the
 * writer is open nobody else may write to the table in its transaction. options may be NULL; after,
 * map_size_max and progress must not be set.
 *
 * Returns ETL_OK and the writer in *out, to be given to etl_lmdb_writer_close; or, with
 * *out == NULL, ETL_E_INVALID, ETL_E_NOMEM or what LMDB returned. */
int etl_lmdb_writer_open(etl_lmdb_writer **out, MDB_env *env, MDB_dbi dbi,
                         const etl_lmdb_options *options);

/* Put one pair, or delete the key where value is nil: an etl_load_fn whose context is the writer.
 * Any order of keys is right, only that in which libetl loads is fast. The slices may point
 * anywhere but into the table.
 *
 * Returns ETL_OK; ETL_E_INVALID (NULL data with a size) or MDB_BAD_VALSIZE, after which the writer
 * is as before; or what LMDB or the callback returned: the pairs since the last commit are gone
 * then, and every call but close gives the same again. */
int etl_lmdb_writer_put(void *writer, etl_slice key, etl_slice value);

/* Commit what was put since the last commit, and tell the callback. More may be put behind it. With
 * options->txn it does nothing. Errors: what LMDB or the callback returned, as above.
 *
 * A collector given to etl_load has been consumed when this is called: should the commit fail, the
 * pairs are gone. etl_lmdb_load commits first. */
int etl_lmdb_writer_commit(etl_lmdb_writer *writer);

/* End a writer; NULL is allowed. What was not committed is dropped (with options->txn it is in
 * that transaction). */
void etl_lmdb_writer_close(etl_lmdb_writer *writer);

/* ---- A table as a source */

typedef struct etl_lmdb_source etl_lmdb_source;

/* Read a table's pairs in its order, from <= key < to in that order; range may be NULL: all. The
 * range is copied. txn is the caller's, and must outlive the source; where a transform writes to
 * the same environment, open that with MDB_NOTLS, for two transactions on one thread.
 *
 * message, NULL or room for message_size bytes, must live as long as the source: why it failed.
 *
 * Returns ETL_OK and the source in *out, to be given to etl_lmdb_source_close; or, with
 * *out == NULL, ETL_E_INVALID, ETL_E_NOMEM or what LMDB returned (MDB_BAD_VALSIZE: with
 * MDB_INTEGERKEY the ends of the range have the size of the table's keys). */
int etl_lmdb_source_open(etl_lmdb_source **out, MDB_txn *txn, MDB_dbi dbi, const etl_range *range,
                         char *message, size_t message_size);

/* The next pair: an etl_source_fn, for etl_transform_args.source with the source as its context.
 * ETL_OK and the slices, which point into the map and live as long as the transaction (a writing
 * one: until it writes next); values are never nil. ETL_END when there are no more, or what LMDB
 * returned. */
int etl_lmdb_source_next(void *source, etl_slice *key, etl_slice *value);

/* End a source; NULL is allowed. Before its transaction ends. */
void etl_lmdb_source_close(etl_lmdb_source *source);

#ifdef __cplusplus
}
#endif

#endif
