/* Joins two files of lines "key TAB value" on their keys: join LEFT RIGHT
 *
 * Two iterators go up the keys side by side. Rows of the left with one key are appended to one
 * value, so that each of the right's rows meets all of them without going back: the left should be
 * the side with fewer rows a key. */
#include <etl.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static int collect_rows(etl_collector *rows, const char *name) {
    char *line = NULL, *tab;
    size_t room = 0;
    ssize_t size;
    int status = ETL_OK;
    FILE *in = fopen(name, "r");
    if (in == NULL)
        return errno;
    while (status == ETL_OK && (size = getline(&line, &room, in)) > 0) {
        if (line[size - 1] != '\n')
            line[size++] = '\n'; /* in the place of the NUL; values end in a newline here */
        if ((tab = memchr(line, '\t', (size_t)size)) != NULL)
            status = etl_collect(rows, etl_slice_of(line, (size_t)(tab - line)),
                                 etl_slice_of(tab + 1, (size_t)(line + size - tab - 1)));
    }
    if (status == ETL_OK && !feof(in))
        status = errno;
    free(line);
    fclose(in);
    return status;
}

static int compare(etl_slice a, etl_slice b) {
    int order = memcmp(a.data, b.data, a.size < b.size ? a.size : b.size);
    return order != 0 ? order : (a.size > b.size) - (a.size < b.size);
}

/* One row of the right with all of the left's. */
static int print_rows(etl_slice key, etl_slice left, etl_slice right) {
    const char *at = left.data, *end = at + left.size;
    while (at < end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        if (printf("%.*s\t%.*s\t%.*s", (int)key.size, (const char *)key.data, (int)(newline - at),
                   at, (int)right.size, (const char *)right.data) < 0)
            return errno;
        at = newline + 1;
    }
    return 0;
}

static int join(etl_iter *left, etl_iter *right) {
    int failed;
    etl_slice key, other, left_rows, right_row;
    int status = etl_iter_next(left, &key, &left_rows);
    if (status == ETL_OK)
        status = etl_iter_next(right, &other, &right_row);
    while (status == ETL_OK) {
        int order = compare(key, other);
        if (order == 0 && (failed = print_rows(key, left_rows, right_row)) != 0)
            return failed;
        status = order < 0 ? etl_iter_next(left, &key, &left_rows)
                           : etl_iter_next(right, &other, &right_row);
    }
    return status == ETL_END ? ETL_OK : status; /* of either side */
}

int main(int argc, char **argv) {
    etl_options appending = LIBETL_OPTIONS_INIT;
    appending.duplicates = ETL_APPEND;
    etl_collector *lefts = NULL, *rights = NULL;
    etl_iter *left = NULL, *right = NULL;
    const char *name = NULL; /* of what is read or written */
    if (argc != 3) {
        fprintf(stderr, "Usage: join LEFT RIGHT\n");
        return 1;
    }
    int status = etl_collector_create(&lefts, &appending);
    if (status == ETL_OK)
        status = etl_collector_create(&rights, NULL);
    if (status == ETL_OK)
        status = collect_rows(lefts, name = argv[1]);
    if (status == ETL_OK)
        status = collect_rows(rights, name = argv[2]);
    if (status == ETL_OK)
        status = etl_iter_open(&left, lefts, NULL);
    if (status == ETL_OK)
        status = etl_iter_open(&right, rights, NULL);
    name = status == ETL_OK ? "standard output" : name;
    if (status == ETL_OK)
        status = join(left, right);
    if (status == ETL_OK && fflush(stdout) != 0)
        status = errno;
    if (status > 0)
        fprintf(stderr, "join: %s: %s\n", name, strerror(status));
    else if (status != ETL_OK)
        fprintf(stderr, "join: %s: %s%s\n", etl_status_string(status),
                etl_collector_message(lefts), etl_collector_message(rights));
    etl_iter_close(right);
    etl_iter_close(left);
    etl_collector_destroy(rights);
    etl_collector_destroy(lefts);
    return status != ETL_OK;
}
