/* duplicates.h: a merged stream in, the stream that the caller is to see out: the one home of what
 * happens to pairs with equal keys. */
#ifndef LIBETL_DUPLICATES_H
#define LIBETL_DUPLICATES_H

#include "bytes.h"
#include "ranges.h"

struct etl__rules {
    etl_duplicates duplicates;
    bool order_values;
    etl_reduce_fn *reduce;
    void *reduce_ctx;
    size_t fold_bytes; /* one group is folded in parts of about this size */
};

/* What holds while runs are written: a pair that later pairs can no longer bring back may be
 * dropped early, but nothing is refused, and where values are to be ordered over all runs they are
 * joined and folded at the end only. */
struct etl__rules etl__rules_for_runs(const struct etl__rules *rules);

/* Pairs taken from the merge at once, where each is handed out as it is; prefetched pairs. */
enum { ETL__OUTPUT_BATCH = 64, ETL__OUTPUT_AHEAD = 12 };

struct etl__output {
    struct etl__merge *merge;      /* borrowed */
    struct etl__ranges *ranges;    /* of it, shared with a thread; or NULL; borrowed */
    const struct etl__pair *batch; /* own, or of these */
    size_t given, taken;           /* of it */
    uint64_t received;             /* pairs of the merge, in all */
    struct etl__pair own[ETL__OUTPUT_BATCH];
    struct etl__rules rules;
    struct etl__pair pair;   /* what is handed out for a group of several */
    struct etl_bytes key;    /* of that group */
    struct etl_bytes values; /* joined, or those to be folded, back to back */
    struct etl_bytes folded; /* what reduce makes of them */
    etl_slice *slices; /* of the values to be folded; data is an offset until they are complete */
    size_t slice_count, slice_capacity;
    struct etl__bound bound; /* no group behind it is gathered, whose fold might fail */
    bool restart;            /* a group was not completed: go back to its first pair */
};

void etl__output_open(struct etl__output *output, struct etl__memory *memory,
                      struct etl__merge *merge, const struct etl__rules *rules);
void etl__output_close(struct etl__output *output);

/* Take the merge's pairs from these ranges of it, which must be all of it. Where each pair is handed
 * out as it is, before the first, and not together with seeking or a bound. */
void etl__output_share(struct etl__output *output, struct etl__ranges *ranges);

/* Continue before the first pair with a key >= this one, which must not lie in what was handed
 * out: providers overwrite that. */
int etl__output_seek(struct etl__output *output, const uint8_t *key, size_t size,
                     struct etl__error *error);

/* End before the first pair with a key >= `to`, which stays the caller's. */
void etl__output_bound(struct etl__output *output, etl_slice to);

/* The next pair where none is left of the batch. */
int etl__output_more(struct etl__output *output, const struct etl__pair **pair,
                     struct etl__error *error);

/* The next pair, valid until the next call: ETL_OK, ETL_END, an error, or what reduce returned. */
static inline int etl__output_next(struct etl__output *output, const struct etl__pair **pair,
                                   struct etl__error *error) {
    if (ETL__UNLIKELY(output->given == output->taken))
        return etl__output_more(output, pair, error);
    const struct etl__pair *next = &output->batch[output->given++];
    if (output->ranges != NULL && output->taken - output->given > ETL__OUTPUT_AHEAD) {
        ETL__PREFETCH(next[ETL__OUTPUT_AHEAD].key); /* another processor's cache may have it */
        ETL__PREFETCH(next[ETL__OUTPUT_AHEAD].key + 64);
    }
    *pair = next;
    return ETL_OK;
}

/* Pairs of the merge that were handed out, or left out, so far. */
static inline uint64_t etl__output_passed(const struct etl__output *output) {
    return output->received - (output->taken - output->given);
}

#endif
