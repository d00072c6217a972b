/* databases.h: a way of filling a database, for bench_databases: through libetl, or pair by pair as
 * they come. One file a database, database_NAME.c.
 *
 * Each pass runs in a process of its own and makes one database in pass->directory, which is empty
 * and its own. load() ends with the database closed and as safe on the disk as its defaults make
 * it, and is what is timed; scan() opens it again and hands all pairs in order to output_take(). */
#ifndef LIBETL_BENCH_DATABASES_H
#define LIBETL_BENCH_DATABASES_H

#include "apart.h"
#include "workload.h"

struct database_way {
    const char *database, *name;
    bool slow; /* one round is enough */
    void (*load)(const struct pass *pass);
    void (*scan)(const struct pass *pass, struct output *output);
};

/* The first is through libetl: what the others are compared with. */
extern const struct database_way database_lmdb[3], database_sqlite[2], database_rocksdb[2];

#endif
