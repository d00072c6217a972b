/* database_sqlite.c: an SQLite table WITHOUT ROWID, which is a B-tree by its primary key; one
 * prepared statement, one transaction, its default journal and syncs.
 *
 *     libetl   collected, and inserted in key order
 *     put      inserted in the order of the input
 *
 * Its page cache is as large as the memory limit in both; its default of 2 MB would make random
 * inserts slower still. */
#include "databases.h"

#include <sqlite3.h>
#include <stdio.h>

struct table {
    sqlite3 *db;
    sqlite3_stmt *insert;
};

static void check(sqlite3 *db, int status) {
    if (status != SQLITE_OK && status != SQLITE_ROW && status != SQLITE_DONE)
        apart_fail("sqlite", sqlite3_errmsg(db));
}

static void execute(sqlite3 *db, const char *text) {
    check(db, sqlite3_exec(db, text, NULL, NULL, NULL));
}

static sqlite3 *open_database(const struct pass *pass) {
    char text[4200];
    sqlite3 *db;
    snprintf(text, sizeof text, "%s/sqlite", pass->directory);
    check(NULL, sqlite3_open(text, &db));
    snprintf(text, sizeof text, "PRAGMA cache_size = -%llu",
             (unsigned long long)(pass->limit >> 10));
    execute(db, text);
    return db;
}

static void begin(struct table *table, const struct pass *pass) {
    sqlite3 *db = table->db = open_database(pass);
    execute(db, "CREATE TABLE pairs (key BLOB PRIMARY KEY, value BLOB) WITHOUT ROWID");
    execute(db, "BEGIN");
    check(db, sqlite3_prepare_v2(db, "INSERT INTO pairs VALUES (?, ?)", -1, &table->insert, NULL));
}

static void commit(struct table *table) {
    check(table->db, sqlite3_finalize(table->insert));
    execute(table->db, "COMMIT");
    check(NULL, sqlite3_close(table->db));
}

static int insert(void *context, etl_slice key, etl_slice value) {
    struct table *table = context;
    check(table->db, sqlite3_bind_blob64(table->insert, 1, key.data, key.size, SQLITE_STATIC));
    check(table->db, sqlite3_bind_blob64(table->insert, 2, value.data, value.size, SQLITE_STATIC));
    check(table->db, sqlite3_step(table->insert));
    check(table->db, sqlite3_reset(table->insert));
    return 0;
}

static void load_sorted(const struct pass *pass) {
    struct table table;
    etl_collector *collector = pass_create(pass);
    pass_collect(pass, collector);
    begin(&table, pass);
    pass_check(etl_load(collector, insert, &table), collector);
    commit(&table);
    etl_collector_destroy(collector);
}

static void put(const struct pass *pass) {
    struct table table;
    begin(&table, pass);
    struct workload *workload = workload_open(pass->letter, PASS_SEED, pass->size);
    for (uint64_t i = 0; i < pass->pairs; i++) {
        struct workload_pair pair;
        workload_next(workload, &pair);
        insert(&table, etl_slice_of(pair.key, pair.key_size),
               etl_slice_of(pair.value, pair.value_size));
    }
    workload_close(workload);
    commit(&table);
}

static void scan(const struct pass *pass, struct output *output) {
    sqlite3 *db = open_database(pass);
    sqlite3_stmt *select;
    check(db, sqlite3_prepare_v2(db, "SELECT * FROM pairs ORDER BY key", -1, &select, NULL));
    int status;
    while ((status = sqlite3_step(select)) == SQLITE_ROW) {
        const void *key = sqlite3_column_blob(select, 0), *value = sqlite3_column_blob(select, 1);
        output_take(output, key, (size_t)sqlite3_column_bytes(select, 0), value,
                    (size_t)sqlite3_column_bytes(select, 1));
    }
    check(db, status);
    check(db, sqlite3_finalize(select));
    check(NULL, sqlite3_close(db));
}

const struct database_way database_sqlite[2] = {
    {"SQLite", "libetl", false, load_sorted, scan},
    {"SQLite", "put", false, put, scan},
};
