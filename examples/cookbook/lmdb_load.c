/* Fills an LMDB database with lines "key TAB value" and prints what is then in it:
 * lmdb_load DIRECTORY < lines
 *
 * In key order every pair goes behind the last, so that MDB_APPEND writes each page once and
 * full. The last of equal keys is kept, as a sequence of puts would. */
#include <etl.h>

#include <errno.h>
#include <lmdb.h>
#include <stdio.h>
#include <stdlib.h>

struct target {
    MDB_txn *transaction;
    MDB_dbi database;
};

static int collect_lines(etl_collector *pairs, FILE *in) {
    char *line = NULL, *tab;
    size_t room = 0;
    ssize_t size;
    int status = ETL_OK;
    while (status == ETL_OK && (size = getline(&line, &room, in)) > 0) {
        size -= line[size - 1] == '\n';
        if ((tab = memchr(line, '\t', (size_t)size)) != NULL)
            status = etl_collect(pairs, etl_slice_of(line, (size_t)(tab - line)),
                                 etl_slice_of(tab + 1, (size_t)(line + size - tab - 1)));
    }
    if (status == ETL_OK && !feof(in))
        status = errno;
    free(line);
    return status;
}

static int put(void *context, etl_slice key, etl_slice value) {
    struct target *target = context;
    MDB_val k = {key.size, (void *)key.data}, v = {value.size, (void *)value.data};
    return mdb_put(target->transaction, target->database, &k, &v, MDB_APPEND);
}

static int print_all(const struct target *target) {
    MDB_cursor *cursor;
    MDB_val key, value;
    int status = mdb_cursor_open(target->transaction, target->database, &cursor);
    if (status != MDB_SUCCESS)
        return status;
    while ((status = mdb_cursor_get(cursor, &key, &value, MDB_NEXT)) == MDB_SUCCESS)
        if (printf("%.*s\t%.*s\n", (int)key.mv_size, (char *)key.mv_data, (int)value.mv_size,
                   (char *)value.mv_data) < 0)
            break;
    if (status == MDB_SUCCESS || fflush(stdout) != 0)
        status = errno;
    mdb_cursor_close(cursor);
    return status == MDB_NOTFOUND ? MDB_SUCCESS : status;
}

static int fill(MDB_env *environment, const char *directory, etl_collector *pairs) {
    struct target target;
    int status = mdb_env_set_mapsize(environment, (size_t)1 << 30); /* the most it may grow to */
    if (status == MDB_SUCCESS)
        status = mdb_env_open(environment, directory, 0, 0666);
    if (status == MDB_SUCCESS)
        status = mdb_txn_begin(environment, NULL, 0, &target.transaction);
    if (status != MDB_SUCCESS)
        return status;
    status = mdb_dbi_open(target.transaction, NULL, 0, &target.database);
    if (status == MDB_SUCCESS)
        status = etl_load(pairs, put, &target); /* an error of LMDB comes back as it is */
    if (status == MDB_SUCCESS)
        status = print_all(&target);
    if (status == MDB_SUCCESS)
        return mdb_txn_commit(target.transaction);
    mdb_txn_abort(target.transaction);
    return status;
}

int main(int argc, char **argv) {
    etl_options options = LIBETL_OPTIONS_INIT;
    options.duplicates = ETL_KEEP_LAST;
    etl_collector *pairs = NULL;
    MDB_env *environment = NULL;
    if (argc != 2) {
        fprintf(stderr, "Usage: lmdb_load DIRECTORY < lines\n");
        return 1;
    }
    int status = etl_collector_create(&pairs, &options);
    if (status == ETL_OK)
        status = collect_lines(pairs, stdin);
    if (status == ETL_OK)
        status = mdb_env_create(&environment);
    if (status == MDB_SUCCESS)
        status = fill(environment, argv[1], pairs);
    if (status > 0 || status <= MDB_LAST_ERRCODE) /* errno or LMDB's; libetl's are between */
        fprintf(stderr, "lmdb_load: %s\n", mdb_strerror(status));
    else if (status != ETL_OK)
        fprintf(stderr, "lmdb_load: %s: %s\n", etl_status_string(status),
                etl_collector_message(pairs));
    if (environment != NULL)
        mdb_env_close(environment);
    etl_collector_destroy(pairs);
    return status != ETL_OK;
}
