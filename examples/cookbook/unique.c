/* Each line once, in the order in which they first came: unique < lines
 *
 * Two rounds: the first keeps the first of equal lines with its number, the second sorts by the
 * numbers. For unique lines in the order of their bytes the first is enough. */
#include <etl.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static int collect_lines(etl_collector *lines, FILE *in) {
    char *line = NULL;
    size_t room = 0;
    ssize_t size;
    uint8_t number[sizeof(uint64_t)];
    int status = ETL_OK;
    for (uint64_t n = 0; status == ETL_OK && (size = getline(&line, &room, in)) > 0; n++) {
        size -= line[size - 1] == '\n';
        etl_key_put_u64(number, n, ETL_KEY_ASCENDING);
        status = etl_collect(lines, etl_slice_of(line, (size_t)size),
                             etl_slice_of(number, sizeof number));
    }
    if (status == ETL_OK && !feof(in))
        status = errno;
    free(line);
    return status;
}

static int collect_turned(void *by_number, etl_slice line, etl_slice number) {
    return etl_collect(by_number, number, line);
}

static int print(void *context, etl_slice number, etl_slice line) {
    (void)context, (void)number;
    bool good = fwrite(line.data, 1, line.size, stdout) == line.size && putchar('\n') != EOF;
    return good ? 0 : errno;
}

int main(void) {
    etl_options once = LIBETL_OPTIONS_INIT;
    once.duplicates = ETL_KEEP_FIRST;
    etl_collector *lines = NULL, *by_number = NULL;
    int status = etl_collector_create(&lines, &once);
    if (status == ETL_OK)
        status = etl_collector_create(&by_number, NULL);
    if (status == ETL_OK)
        status = collect_lines(lines, stdin);
    if (status == ETL_OK)
        status = etl_load(lines, collect_turned, by_number);
    if (status == ETL_OK)
        status = etl_load(by_number, print, NULL);
    if (status == ETL_OK && fflush(stdout) != 0)
        status = errno;
    if (status > 0) /* errno, of what was read or written */
        fprintf(stderr, "unique: %s\n", strerror(status));
    else if (status != ETL_OK)
        fprintf(stderr, "unique: %s: %s%s\n", etl_status_string(status),
                etl_collector_message(lines), etl_collector_message(by_number));
    etl_collector_destroy(by_number);
    etl_collector_destroy(lines);
    return status != ETL_OK;
}
