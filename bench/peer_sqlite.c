/* peer_sqlite.c: SQLite: insert into a table of a temporary database and SELECT ... ORDER BY,
 * which runs its external sorter (vdbesort.c). No journal, no sync, one transaction, one worker
 * thread. The page cache, the buffer that the sorter fills and the one that its worker sorts each
 * take up to cache_size, so that each gets a third of the limit. Its sorter is not stable. */
#include "peers.h"

#include <sqlite3.h>
#include <stdio.h>

static void check(sqlite3 *db, int status) {
    if (status != SQLITE_OK && status != SQLITE_ROW && status != SQLITE_DONE)
        apart_fail("sqlite", sqlite3_errmsg(db));
}

static void execute(sqlite3 *db, const char *text) {
    check(db, sqlite3_exec(db, text, NULL, NULL, NULL));
}

static sqlite3 *open_database(const struct pass *pass) {
    char text[256];
    sqlite3 *db;
    sqlite3_temp_directory = sqlite3_mprintf("%s", pass->directory);
    check(NULL, sqlite3_open("", &db)); /* a file without a name, written when the cache is full */
    snprintf(text, sizeof text, "PRAGMA cache_size = -%llu",
             (unsigned long long)(pass->limit / 3 >> 10));
    execute(db, "PRAGMA temp_store = FILE");
    execute(db, text);
    execute(db, "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA threads = 1");
    execute(db, "CREATE TABLE pairs (key BLOB, value BLOB)");
    return db;
}

static void collect(const struct pass *pass, sqlite3 *db) {
    sqlite3_stmt *insert;
    execute(db, "BEGIN");
    check(db, sqlite3_prepare_v2(db, "INSERT INTO pairs VALUES (?, ?)", -1, &insert, NULL));
    struct workload *workload = workload_open(pass->letter, PASS_SEED, pass->size);
    for (uint64_t i = 0; i < pass->pairs; i++) {
        struct workload_pair pair;
        workload_next(workload, &pair);
        check(db, sqlite3_bind_blob(insert, 1, pair.key, (int)pair.key_size, SQLITE_STATIC));
        check(db, sqlite3_bind_blob(insert, 2, pair.value, (int)pair.value_size, SQLITE_STATIC));
        check(db, sqlite3_step(insert));
        check(db, sqlite3_reset(insert));
    }
    workload_close(workload);
    check(db, sqlite3_finalize(insert));
    execute(db, "COMMIT");
}

static void load(sqlite3 *db, struct output *output) {
    sqlite3_stmt *select;
    check(db,
          sqlite3_prepare_v2(db, "SELECT key, value FROM pairs ORDER BY key", -1, &select, NULL));
    int status;
    while ((status = sqlite3_step(select)) == SQLITE_ROW) {
        const void *key = sqlite3_column_blob(select, 0), *value = sqlite3_column_blob(select, 1);
        output_take(output, key, (size_t)sqlite3_column_bytes(select, 0), value,
                    (size_t)sqlite3_column_bytes(select, 1));
    }
    check(db, status);
    check(db, sqlite3_finalize(select));
}

static void run(const struct pass *pass, struct peer_report *report) {
    sqlite3 *db = open_database(pass);
    collect(pass, db);
    load(db, &report->output);
    check(db, sqlite3_close(db));
}

const struct peer peer_sqlite = {"SQLite", false, true, run};
