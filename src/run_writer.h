/* run_writer.h: sorted pairs -> a run file, in one pass, through one buffer. */
#ifndef LIBETL_RUN_WRITER_H
#define LIBETL_RUN_WRITER_H

#include "disk.h"
#include "run.h"

struct etl__run_writer; /* its memory is kept from run to run: nothing is allocated in a steady
                           state */

/* A writer with a buffer of buffer_size bytes (a multiple of ETL__RUN_BLOCK). cancel may be NULL.
 */
int etl__run_writer_create(struct etl__run_writer **out, struct etl__memory *memory,
                           struct etl__disk *disk, size_t buffer_size, const atomic_int *cancel,
                           struct etl__error *error);
void etl__run_writer_destroy(struct etl__run_writer *writer);

/* Begin a run in this directory. expected is what the records will take in bytes, exact where that
 * is known, else an upper guess: only speed depends on it (disk is reserved for it, and the table
 * is gathered behind it). */
int etl__run_writer_open(struct etl__run_writer *writer, const char *directory, const char *label,
                         uint64_t expected, struct etl__error *error);

/* Begin a run in a file of the caller's, empty and open for reading and writing, which counts in
 * `disk`; it stays the caller's to close. path is for messages. etl__run_writer_finish ends it. */
int etl__run_writer_open_file(struct etl__run_writer *writer, int descriptor, const char *path,
                              struct etl__disk *disk, uint64_t expected, struct etl__error *error);

/* The pair, whose key must not be below the one before (ETL_E_CORRUPT): it is copied.
 * ETL_E_NOSPACE, ETL_E_IO, ETL_E_CANCELLED: the run must be abandoned. */
int etl__run_writer_append(struct etl__run_writer *writer, const struct etl__pair *pair,
                           struct etl__error *error);

/* Table and footer; then the run, open for reading (the disk it takes stays in disk->used until
 * etl__disk_give(disk, run->file_size)). On failure the run is abandoned. */
int etl__run_writer_close(struct etl__run_writer *writer, etl_access access, struct etl__run **run,
                          struct etl__error *error);

/* Before the end: values of equal keys ascend in this run, or every key is another one. */
void etl__run_writer_values_ascend(struct etl__run_writer *writer);

/* Table and footer, of a run in a file of the caller's. On failure the run is abandoned. */
int etl__run_writer_finish(struct etl__run_writer *writer, struct etl__error *error);

/* Drop the run that was begun, if any, and give its disk back. */
void etl__run_writer_abandon(struct etl__run_writer *writer);

/* Bytes written to files since create. */
uint64_t etl__run_writer_written(const struct etl__run_writer *writer);

/* The same for the run that etl__run_writer_finish ended last: what its file counts in its disk. */
uint64_t etl__run_writer_finished(const struct etl__run_writer *writer);

#endif
