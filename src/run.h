/* run.h: a finished run file: made by a run writer or named by the caller, read by file providers,
 * closed when its last pair is consumed.
 *
 * A run is immutable, and may be read by any number of providers at once, from any thread. Mapped
 * runs hold no descriptor; where mapping is refused, or reads were asked for, the descriptor stays
 * open instead. */
#ifndef LIBETL_RUN_H
#define LIBETL_RUN_H

#include "alloc.h"
#include "os.h"
#include "record.h"
#include "run_format.h"
#include "status.h"

struct etl__run {
    const uint8_t *map; /* the whole file, or NULL: read through the descriptor */
    int descriptor;     /* -1 when mapped */
    uint64_t file_size;
    struct etl__run_footer footer;
    const char *place; /* for messages: the directory, which outlives the run; or the path */
    char *path;        /* of a file that has a name, owned; NULL: it has none */
    uint64_t file;     /* its number in a directory of checkpoints; 0: it is no file of one */
    bool is_published; /* such a one, and a manifest may name it: it is not to be removed */
};

/* Take over a descriptor (closed on failure too) of a finished run file, check header and footer,
 * and map it unless access is ETL_ACCESS_READ or the system refuses. */
int etl__run_open(struct etl__run **out, struct etl__memory *memory, int descriptor,
                  etl_access access, const char *directory, struct etl__error *error);

/* Open a run file that has a name, and check header, footer and table. It may shrink under us, so
 * it is mapped only when that is asked for. ETL_E_INVALID: not a file of bytes, or of a newer
 * version. */
int etl__run_open_named(struct etl__run **out, struct etl__memory *memory, const char *path,
                        bool map, struct etl__error *error);

/* Unmap or close, and free; NULL is allowed. A file with a name stays. */
void etl__run_close(struct etl__run *run, struct etl__memory *memory);

/* Bytes of a block: ETL__RUN_BLOCK, or what the last one has. */
size_t etl__run_block_size(const struct etl__run *run, uint64_t block);

/* Read all of [offset, offset + size); a file that ends before is ETL_E_CORRUPT. */
int etl__run_read(const struct etl__run *run, uint64_t offset, void *data, size_t size,
                  struct etl__error *error);

/* Entries [first, first + count) of the table: *entries points into the map, or at bytes (room for
 * count entries), into which they are read. */
int etl__run_table(const struct etl__run *run, uint64_t first, uint64_t count, uint8_t *bytes,
                   const uint8_t **entries, struct etl__error *error);

/* Compare a block's bytes with its entry of the table. */
int etl__run_check_block(const struct etl__run *run, uint64_t block, const uint8_t *data,
                         const uint8_t *entry, struct etl__error *error);

/* ETL_E_CORRUPT, with place, file offset and (where it is in one) block in the text. */
int etl__run_corrupt(const struct etl__run *run, uint64_t offset, const char *what,
                     struct etl__error *error);

/* The first record that starts in or behind a block, as a file offset; the data's end when there
 * is none. */
int etl__run_record_at_block(const struct etl__run *run, uint64_t block, uint64_t *offset,
                             struct etl__error *error);

#endif
