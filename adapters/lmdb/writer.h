/* writer.h: what the adapter's files share: its statuses' messages, and what a load asks of the
 * writer beyond etl_lmdb.h. */
#ifndef LIBETL_LMDB_WRITER_H
#define LIBETL_LMDB_WRITER_H

#include "etl_lmdb.h"

#if defined(__GNUC__)
#define ETL__LMDB_PRINTF(at, from) __attribute__((format(printf, at, from)))
#else
#define ETL__LMDB_PRINTF(at, from)
#endif

/* Where the caller wants to read why; text may be NULL. */
struct etl__lmdb_message {
    char *text;
    size_t size;
};

/* Write the text and return status. */
int etl__lmdb_fail(const struct etl__lmdb_message *message, int status, const char *format, ...)
    ETL__LMDB_PRINTF(3, 4);

/* The same with "what: " before the status' words. */
int etl__lmdb_fail_call(const struct etl__lmdb_message *message, int status, const char *what);

/* Complete options as this version knows them. Errors: ETL_E_INVALID. */
int etl__lmdb_take_options(etl_lmdb_options *complete, const etl_lmdb_options *given);

/* A writer whose options are complete and may have those of a load. */
int etl__lmdb_writer_open(etl_lmdb_writer **out, MDB_env *env, MDB_dbi dbi,
                          const etl_lmdb_options *options);

/* What the writer has committed; its key is NULL before the first commit, and lives until the
 * next. Also of a writer that has failed. */
etl_lmdb_commit etl__lmdb_writer_committed(const etl_lmdb_writer *writer);

/* Go on behind the last commit after a call that failed. Own transactions only. */
void etl__lmdb_writer_restart(etl_lmdb_writer *writer);

#endif
