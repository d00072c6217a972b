/* oracle.h: what the library must answer, computed naively.
 *
 * An array of owned pairs, a comparison of its own, libc's qsort with the index as the last word,
 * and the duplicate rules read off the contract one group at a time. It shares no code with the
 * library, so that a mistake would have to be made twice. */
#ifndef LIBETL_TESTS_ORACLE_H
#define LIBETL_TESTS_ORACLE_H

#include "etl.h"

struct oracle_pair {
    unsigned char *key;
    unsigned char *value; /* NULL: nil */
    size_t key_size;
    size_t value_size;
    size_t index; /* in collection order */
};

struct oracle { /* zero: empty */
    struct oracle_pair *pairs;
    size_t count;
    size_t capacity;
};

/* Folds that are associative but where order and grouping show:
 * ORACLE_TRIM    the values' concatenation, of which only the first and last 24 bytes are kept
 * ORACLE_AFFINE  each value is x -> a x + b modulo 2^64, as two numbers of 8 bytes; the fold
 *                composes the maps, so that a change anywhere in the group changes the result */
enum oracle_fold { ORACLE_TRIM, ORACLE_AFFINE };

struct oracle_rules {
    etl_duplicates duplicates;
    bool order_values;
    enum oracle_fold fold;
};

void oracle_add(struct oracle *oracle, etl_slice key, etl_slice value);
void oracle_clear(struct oracle *oracle);

/* Sort in place by (key, [value,] index). */
void oracle_sort(struct oracle *oracle, bool order_values);

/* Number the pairs in the order in which they stand: that of their collection. */
void oracle_renumber(struct oracle *oracle);

/* The library's whole output for this input, into out (which is cleared first). With ETL_REJECT
 * and a key that comes twice: false, with out holding the pairs up to the second one of the first
 * such key. */
bool oracle_settle(const struct oracle *input, const struct oracle_rules *rules,
                   struct oracle *out);

/* The position of the first pair of a sorted oracle with a key >= this one. */
size_t oracle_lower_bound(const struct oracle *sorted, etl_slice key);

etl_slice oracle_key(const struct oracle_pair *pair);
etl_slice oracle_value(const struct oracle_pair *pair);
bool oracle_same(const struct oracle_pair *pair, etl_slice key, etl_slice value);

/* The folds as the library's callbacks. */
int oracle_reduce_trim(void *context, etl_slice key, const etl_slice *values, size_t count,
                       etl_bytes *result);
int oracle_reduce_affine(void *context, etl_slice key, const etl_slice *values, size_t count,
                         etl_bytes *result);

/* Set the fields of options that the rules stand for. */
void oracle_apply(const struct oracle_rules *rules, etl_options *options);

/* Compares what a load delivers with a settled oracle, pair by pair. */
struct oracle_check {
    const struct oracle *expected;
    size_t at;      /* pairs delivered so far */
    size_t stop_at; /* stop before this pair ... */
    int stop_value; /* ... with this value; 0: do not stop */
};

enum { ORACLE_MISMATCH = 77001 };

/* context is a struct oracle_check. ORACLE_MISMATCH where a pair differs. */
int oracle_load(void *context, etl_slice key, etl_slice value);

#endif
