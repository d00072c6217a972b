/* duplicates.h: a merged stream in, the stream that the caller is to see out: the one home of what
 * happens to pairs with equal keys; and whether the stream is merged here, or ahead on a thread. */
#ifndef LIBETL_DUPLICATES_H
#define LIBETL_DUPLICATES_H

#include "ahead.h"
#include "bytes.h"
#include "merge_ahead.h"

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

/* What merging and consuming take, of some batches; and later the two at once. */
struct etl__pace {
    uint64_t merging_ns, consuming_ns, handed_ns, pairs;
    unsigned batches, weighed;
    uint64_t before_ps; /* for a pair, one after the other */
    uint64_t began_ns;  /* when so many pairs began */
};

struct etl__output {
    struct etl__merge *merge;      /* borrowed */
    const struct etl__pair *batch; /* own, or of the merge that runs ahead */
    size_t given, taken;           /* of it */
    uint64_t received;             /* pairs of the merge, in all */
    struct etl__pair own[ETL__OUTPUT_BATCH];
    struct etl__merge_ahead *ring; /* NULL: the merge stays this output's */
    struct etl__ahead *checks;     /* stopped when the merge runs ahead */
    bool weighs, runs_ahead;       /* one or the other, or neither */
    struct etl__pace pace;
    struct etl__rules rules;
    struct etl__pair pair;   /* what is handed out for a group of several */
    struct etl_bytes key;    /* of that group */
    struct etl_bytes values; /* joined, or those to be folded, back to back */
    struct etl_bytes folded; /* what reduce makes of them */
    etl_slice *slices; /* of the values to be folded; data is an offset until they are complete */
    size_t slice_count, slice_capacity;
    etl_slice to;       /* keys from here on are the end, when it is */
    bool bounded;       /* so: no group behind it is gathered, whose fold might fail */
    uint64_t to_prefix; /* of `to`: decides nearly always */
    bool over;          /* it was reached */
    bool restart;       /* a group was not completed: go back to its first pair */
};

void etl__output_open(struct etl__output *output, struct etl__memory *memory,
                      struct etl__merge *merge, const struct etl__rules *rules);
void etl__output_close(struct etl__output *output);

/* From now on pairs that are handed out as they are may be merged on a thread of their own, once
 * the consumer was found to be slow. checks: what checks blocks for the same merge. Not together
 * with seeking. */
void etl__output_may_run_ahead(struct etl__output *output, struct etl__ahead *checks);

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
    if (output->runs_ahead && output->taken - output->given > ETL__OUTPUT_AHEAD) {
        ETL__PREFETCH(next[ETL__OUTPUT_AHEAD].key); /* another processor's cache has it */
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
