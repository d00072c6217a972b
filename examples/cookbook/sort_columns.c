/* Sorts lines of "name TAB amount TAB number" by the amount, the largest first, then by the name
 * backwards, then by the number: sort_columns < lines
 *
 * The key is three encodings one behind the other; the line is the value. */
#include <etl.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static int collect_line(etl_collector *lines, char *line, size_t size) {
    void *key, *value;
    char *amount = memchr(line, '\t', size);
    char *number = amount != NULL ? strchr(amount + 1, '\t') : NULL;
    if (number == NULL)
        return ETL_OK; /* not three columns */
    etl_slice name = etl_slice_of(line, (size_t)(amount - line));
    size_t key_size = sizeof(double) + etl_key_bytes_size(name) + sizeof(int64_t);
    int status = etl_reserve(lines, key_size, size, &key, &value);
    if (status != ETL_OK)
        return status;
    uint8_t *end = key;
    end = etl_key_put_double(end, strtod(amount + 1, NULL), ETL_KEY_DESCENDING);
    end = etl_key_put_bytes(end, name, ETL_KEY_DESCENDING);
    etl_key_put_i64(end, strtoll(number + 1, NULL, 10), ETL_KEY_ASCENDING);
    memcpy(value, line, size);
    return ETL_OK;
}

static int print(void *context, etl_slice key, etl_slice line) {
    (void)context, (void)key;
    bool good = fwrite(line.data, 1, line.size, stdout) == line.size && putchar('\n') != EOF;
    return good ? 0 : errno;
}

int main(void) {
    char *line = NULL;
    size_t room = 0;
    ssize_t size;
    etl_collector *lines = NULL;
    int status = etl_collector_create(&lines, NULL);
    while (status == ETL_OK && (size = getline(&line, &room, stdin)) > 0) {
        size -= line[size - 1] == '\n';
        status = collect_line(lines, line, (size_t)size);
    }
    if (status == ETL_OK && !feof(stdin))
        status = errno;
    if (status == ETL_OK)
        status = etl_load(lines, print, NULL);
    if (status == ETL_OK && fflush(stdout) != 0)
        status = errno;
    if (status > 0) /* errno, of what was read or written */
        fprintf(stderr, "sort_columns: %s\n", strerror(status));
    else if (status != ETL_OK)
        fprintf(stderr, "sort_columns: %s: %s\n", etl_status_string(status),
                etl_collector_message(lines));
    free(line);
    etl_collector_destroy(lines);
    return status != ETL_OK;
}
