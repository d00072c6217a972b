/* target.h: where runs are written: the temporary directories, in order, the next one when one is
 * full; or a directory of checkpoints, to files with a name. */
#ifndef LIBETL_TARGET_H
#define LIBETL_TARGET_H

#include "run_writer.h"

struct etl__target {
    struct etl__memory *memory;
    struct etl__disk disk;
    char **directories; /* absolute; owned */
    size_t directory_count, directory_capacity;
    _Atomic(size_t) preferred; /* the directory that took the last run */
    _Atomic(uint64_t) written; /* bytes, since the round began */
    char *label;               /* owned */
    etl_access access;
    size_t write_buffer; /* bytes of each run writer's */
    const atomic_int *cancel;
    const char *durable;         /* the directory of checkpoints; NULL: the temporary ones */
    _Atomic(uint64_t) next_file; /* number of the next file there */
    atomic_bool left_behind;     /* files stay that no manifest will name */
};

/* options->temp_dirs, else $TMPDIR, else /var/tmp, else /tmp: made absolute and checked. */
int etl__target_init(struct etl__target *target, struct etl__memory *memory,
                     const etl_options *options, struct etl__error *error);
void etl__target_end(struct etl__target *target);

/* A writer for runs to this target; one a thread. */
int etl__target_writer(struct etl__target *target, struct etl__run_writer **writer,
                       struct etl__error *error);

/* Appends all pairs of a run to the writer; called anew for each directory that is tried. */
typedef int etl__produce_fn(void *context, struct etl__run_writer *writer,
                            struct etl__error *error);

/* Write one run, of about `expected` bytes of records. ETL_E_NOSPACE only when every directory is
 * full. */
int etl__target_write(struct etl__target *target, struct etl__run_writer *writer,
                      uint64_t expected, etl__produce_fn *produce, void *context,
                      struct etl__run **run, struct etl__error *error);

/* Write one run to an empty file that is the caller's, open for reading and writing, and counts in
 * `disk`; produce is called once. */
int etl__target_write_file(struct etl__run_writer *writer, int descriptor, const char *path,
                           struct etl__disk *disk, uint64_t expected, etl__produce_fn *produce,
                           void *context, struct etl__error *error);

/* From now on write runs to this directory, which outlives the target, to files numbered from here
 * on. They are on the disk when they are whole, but their names may not be. */
void etl__target_go_to(struct etl__target *target, const char *directory, uint64_t next_file);
void etl__target_run_path(const struct etl__target *target, uint64_t file,
                          char path[ETL__OS_PATH]);

/* Close a run and give its disk back. A file that no manifest can name is removed; one that the
 * caller named, and its disk, are the caller's. */
void etl__target_drop(struct etl__target *target, struct etl__run *run);

#endif
