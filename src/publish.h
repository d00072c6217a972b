/* publish.h: a run that gets a name: all of it, or none of it. */
#ifndef LIBETL_PUBLISH_H
#define LIBETL_PUBLISH_H

#include "target.h"

/* A file that is to take the place of what is at a path, if anything is. Some 8 KiB: not for the
 * stack of a thread that has little. */
struct etl__draft {
    char path[ETL__OS_PATH]; /* absolute */
    char name[ETL__OS_PATH]; /* of the file until then; "": it has none */
    int descriptor;          /* of the file: to be written, not to be closed */
    int directory;
};

/* Begin; what fails at once, and needs no bytes written, fails here: no such directory, or what is
 * at the path is none that a file may replace (ETL_E_INVALID). */
int etl__draft_open(struct etl__draft *draft, const char *path, struct etl__error *error);

/* The file is complete: onto the disk with it, and into its place. On failure it is dropped and
 * what was there stays; but for a directory that could not be synced after the last step: then
 * the file has its place, and the message says so. */
int etl__draft_publish(struct etl__draft *draft, struct etl__error *error);

void etl__draft_drop(struct etl__draft *draft);

/* Write a run of about `expected` bytes of records to a draft and publish it; on failure it is
 * dropped. It takes none of the collector's disk_limit. produce is called once. The writer has no
 * run begun. */
int etl__run_publish(struct etl__run_writer *writer, struct etl__draft *draft, uint64_t expected,
                     etl__produce_fn *produce, void *context, struct etl__error *error);

#endif
