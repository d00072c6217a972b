/* lmdb_support.h: what the adapter's tests share: an environment for each case, and what its table
 * must hold, computed naively: a list of pairs, to which loads are applied one pair after the
 * other. */
#ifndef LIBETL_LMDB_SUPPORT_H
#define LIBETL_LMDB_SUPPORT_H

#include "support.h"
#include "etl_lmdb.h"
#include "oracle.h"

/* A kind of table. Its orders are known to the model by these flags alone. */
struct kind {
    const char *name;
    unsigned flags;
    bool folded;        /* mdb_set_compare: bytes from the highest down */
    bool folded_values; /* mdb_set_dupsort, likewise */
    size_t key_size;    /* of all keys; 0: any */
    size_t value_size;  /* likewise */
};

struct table {
    const struct kind *kind;
    MDB_env *env;
    MDB_dbi dbi;
    struct oracle model; /* pairs in no order; values are never nil */
};

#define ASSERT_MDB(call) assert_int_equal((call), MDB_SUCCESS)

/* A new environment with one empty table. map_size 0: 64 MiB. */
void table_open(struct table *table, const struct kind *kind, size_t map_size);
void table_close(struct table *table);

/* Put one pair by LMDB alone, and in the model. */
void table_put(struct table *table, etl_slice key, etl_slice value);

/* What a load of this pair does to the model. */
void model_apply(const struct kind *kind, struct oracle *model, etl_slice key, etl_slice value);

/* The same of all pairs, or of those with keys up to last. */
void model_apply_all(const struct kind *kind, struct oracle *model, const struct oracle *pairs,
                     const etl_slice *last);

void model_copy(struct oracle *to, const struct oracle *from);

/* Fail the test unless the table holds what the model does, in the table's order. */
void table_check(const struct table *table, struct oracle *model);

/* Collect all pairs. */
void collect_all(etl_collector *collector, const struct oracle *pairs);

uint64_t pairs_in(etl_collector *collector);

#endif
