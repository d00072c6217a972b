/* run_reference.h: what a run file says, read naively from docs/RUN_FORMAT.md: all of it at once,
 * without windows, buffers or bisection. */
#ifndef LIBETL_TESTS_RUN_REFERENCE_H
#define LIBETL_TESTS_RUN_REFERENCE_H

#include "run_format.h"
#include "record.h"

#include <stddef.h>

struct reference {
    bool may_open;           /* header, footer and table are such that a reader can begin */
    bool reads_to_end;       /* so are all blocks and records */
    bool counted;            /* the number of records is right, and keys never descend */
    bool whole;              /* everything is as a writer makes it */
    struct etl__pair *pairs; /* those before the first damage */
    uint64_t *starts;        /* where each record begins */
    size_t count;
    struct etl__run_footer footer; /* not checked; once may_open */
};

void reference_read(struct reference *reference, const uint8_t *file, size_t size);
void reference_free(struct reference *reference);

/* The record at `at` of [at, end): its bytes, or 0 where it is not whole. */
uint64_t reference_record(const uint8_t *at, const uint8_t *end, struct etl__pair *pair);

/* Make every checksum right that the file has a place for. */
void reference_seal(uint8_t *file, size_t size);

#endif
