/* durable.h: a directory of checkpoints: who holds it, what it names, what may go from it. */
#ifndef LIBETL_DURABLE_H
#define LIBETL_DURABLE_H

#include "manifest.h"
#include "os.h"

struct etl__durable {
    struct etl__memory memory;     /* beside the collector's limit */
    char directory[ETL__OS_PATH];  /* absolute */
    char manifest[ETL__OS_PATH];   /* the path of it */
    bool made;                     /* the directory: by this process */
    int lock;                      /* held; -1: not */
    bool litter;                   /* there may be files that the manifest does not name */
    struct etl__manifest restored; /* what is kept of it: the token */
    uint64_t number;               /* of the last checkpoint */
};

/* Make the directory if it is missing, and lock it: ETL_E_STATE when another collector or process
 * has it. */
int etl__durable_open(struct etl__durable **out, const etl_allocator *hook, const char *directory,
                      struct etl__error *error);

/* Unlock, and free; NULL is allowed. */
void etl__durable_close(struct etl__durable *durable);

/* The last checkpoint, into durable->restored: ETL_OK; ETL_END, there is none; or why it cannot be
 * read. Afterwards what was found, or that there is nothing, holds without power too. */
int etl__durable_read(struct etl__durable *durable, struct etl__error *error);

/* Make a manifest the last one, in one step. Its runs have their names already. *tried: it may be
 * the last one even though this failed. */
int etl__durable_publish(struct etl__durable *durable, const struct etl__manifest *manifest,
                         bool *tried, struct etl__error *error);

/* Remove what has our names and is not in the manifest, which is the last one. What cannot be
 * removed is left for the next time. */
void etl__durable_sweep(struct etl__durable *durable, const struct etl__manifest *manifest);

/* The token that was restored is not needed any more. */
void etl__durable_forget_token(struct etl__durable *durable);

#endif
