/* The lines with the largest numbers at their beginning, the largest first: top_n N < lines
 *
 * The callback ends the load when it has enough. What it returned comes back as it was. */
#include <etl.h>

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { ENOUGH = 1000 }; /* no status of the library, and no errno */

static int collect_lines(etl_collector *lines, FILE *in) {
    uint8_t key[sizeof(double)];
    char *line = NULL;
    size_t room = 0;
    ssize_t size;
    int status = ETL_OK;
    while (status == ETL_OK && (size = getline(&line, &room, in)) > 0) {
        double number = strtod(line, NULL);
        if (isnan(number))
            continue; /* it would come before all numbers */
        size -= line[size - 1] == '\n';
        etl_key_put_double(key, number + 0.0, ETL_KEY_DESCENDING); /* -0 is 0 */
        status =
            etl_collect(lines, etl_slice_of(key, sizeof key), etl_slice_of(line, (size_t)size));
    }
    if (status == ETL_OK && !feof(in))
        status = errno;
    free(line);
    return status;
}

static int print(void *context, etl_slice key, etl_slice line) {
    unsigned long *left = context;
    (void)key;
    if (*left == 0)
        return ENOUGH;
    --*left;
    bool good = fwrite(line.data, 1, line.size, stdout) == line.size && putchar('\n') != EOF;
    return good ? 0 : errno;
}

int main(int argc, char **argv) {
    if (argc != 2 || argv[1][strspn(argv[1], "0123456789")] != '\0') {
        fprintf(stderr, "Usage: top_n N < lines\n");
        return 1;
    }
    unsigned long left = strtoul(argv[1], NULL, 10);
    etl_collector *lines = NULL;
    int status = etl_collector_create(&lines, NULL);
    if (status == ETL_OK)
        status = collect_lines(lines, stdin);
    if (status == ETL_OK)
        status = etl_load(lines, print, &left);
    if (status == ENOUGH)
        status = ETL_OK; /* and the collector still has all lines */
    if (status == ETL_OK && fflush(stdout) != 0)
        status = errno;
    if (status > 0) /* errno, of what was read or written */
        fprintf(stderr, "top_n: %s\n", strerror(status));
    else if (status != ETL_OK)
        fprintf(stderr, "top_n: %s: %s\n", etl_status_string(status),
                etl_collector_message(lines));
    etl_collector_destroy(lines);
    return status != ETL_OK;
}
