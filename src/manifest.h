/* manifest.h: the file that says what a checkpoint is made of. docs/CHECKPOINTS.md is its
 * specification; this is the only code that knows its layout.
 *
 *     header   96 bytes, with a CRC-32C of its own
 *     runs     32 bytes each, in collection order
 *     token    the caller's bytes
 *     CRC-32C  of everything before it, the last 4 bytes of the file
 *
 * Little-endian everywhere. */
#ifndef LIBETL_MANIFEST_H
#define LIBETL_MANIFEST_H

#include "alloc.h"
#include "status.h"

#define ETL__MANIFEST_VERSION 1

enum {
    ETL__MANIFEST_HEADER = 96,
    ETL__MANIFEST_RUN = 32,
    ETL__MANIFEST_END = 4,
    ETL__MANIFEST_MOST_RUNS = 65536 /* more is no manifest; checkpoints keep far below */
};

struct etl__manifest_run {
    uint64_t file; /* the number in its name */
    uint64_t size; /* bytes of the file */
    uint64_t pairs;
    uint32_t table_crc; /* of its footer: stands for all its bytes */
};

struct etl__manifest {
    etl_duplicates duplicates; /* those that its runs were written under */
    bool order_values;
    uint64_t number;                        /* of the checkpoint, from 1 on */
    uint64_t next_file;                     /* above the number of every file so far */
    uint64_t pairs, key_bytes, value_bytes; /* collected, before the duplicate rules */
    size_t run_count;
    struct etl__manifest_run *runs; /* ascending by sequence */
    etl_slice token;
};

/* Write all of it to a new file; path is for the message. */
int etl__manifest_write(const struct etl__manifest *manifest, int descriptor, const char *path,
                        struct etl__error *error);

/* Read and check: ETL_OK; ETL_E_CORRUPT; ETL_E_INVALID, of a newer version. On success runs and
 * token are blocks of `memory`, given back by etl__manifest_free. Trusts no byte. */
int etl__manifest_read(struct etl__manifest *manifest, struct etl__memory *memory, int descriptor,
                       const char *path, struct etl__error *error);
void etl__manifest_free(struct etl__manifest *manifest, struct etl__memory *memory);

#endif
