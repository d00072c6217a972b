/* sqlite_load.c: lines of "key TAB value" into an SQLite table, in key order.
 *
 *     sqlite_load words.db words.tsv && sqlite_load -p words.db
 *
 * A table WITHOUT ROWID is a B-tree by its primary key, so keys that come in order go to its end.
 * One prepared statement, one transaction: either all lines are in the table or none. BLOBs compare
 * bytewise, as libetl does. */
#include "../loader.h"

#include <sqlite3.h>

struct target {
    sqlite3 *db;
    sqlite3_stmt *insert;
};

/* SQLite's codes are positive and none of libetl's: etl_load returns them as they are. */
static int insert(void *context, etl_slice key, etl_slice value) {
    struct target *target = context;
    sqlite3_stmt *insert = target->insert;
    int status = sqlite3_bind_blob64(insert, 1, key.data, key.size, SQLITE_STATIC);
    if (status == SQLITE_OK)
        status = sqlite3_bind_blob64(insert, 2, value.data, value.size, SQLITE_STATIC);
    if (status == SQLITE_OK && sqlite3_step(insert) == SQLITE_DONE)
        return sqlite3_reset(insert);
    status = sqlite3_errcode(target->db);
    return status != SQLITE_OK ? status : SQLITE_ERROR;
}

static int begin(struct target *target, const char *path) {
    int status = sqlite3_open(path, &target->db);
    if (status == SQLITE_OK)
        status = sqlite3_exec(target->db,
                              "CREATE TABLE IF NOT EXISTS pairs"
                              " (key BLOB PRIMARY KEY, value BLOB) WITHOUT ROWID; BEGIN",
                              NULL, NULL, NULL);
    if (status == SQLITE_OK)
        status = sqlite3_prepare_v2(target->db, "INSERT OR REPLACE INTO pairs VALUES (?, ?)", -1,
                                    &target->insert, NULL);
    return status;
}

static int load(etl_collector *collector, const char *path) {
    struct target target = {NULL, NULL};
    int status = begin(&target, path);
    if (status == SQLITE_OK)
        status = etl_load(collector, insert, &target);
    if (status < 0)
        loader_fail(path, etl_collector_message(collector));
    else if (status != SQLITE_OK)
        loader_fail(path, sqlite3_errmsg(target.db));
    sqlite3_finalize(target.insert);
    if (status == SQLITE_OK && sqlite3_exec(target.db, "COMMIT", NULL, NULL, NULL) != SQLITE_OK)
        status = loader_fail(path, sqlite3_errmsg(target.db));
    sqlite3_close(target.db); /* what is not committed is rolled back */
    return status != SQLITE_OK;
}

static int print(const char *path) {
    sqlite3 *db;
    sqlite3_stmt *select = NULL;
    int status = sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL);
    if (status == SQLITE_OK)
        status =
            sqlite3_prepare_v2(db, "SELECT key, value FROM pairs ORDER BY key", -1, &select, NULL);
    while (status == SQLITE_OK || status == SQLITE_ROW) {
        status = sqlite3_step(select);
        if (status != SQLITE_ROW)
            break;
        const void *key = sqlite3_column_blob(select, 0), *value = sqlite3_column_blob(select, 1);
        loader_print_pair(key, (size_t)sqlite3_column_bytes(select, 0), value,
                          (size_t)sqlite3_column_bytes(select, 1));
    }
    if (status != SQLITE_DONE)
        loader_fail(path, sqlite3_errmsg(db));
    sqlite3_finalize(select);
    sqlite3_close(db);
    return status != SQLITE_DONE;
}
