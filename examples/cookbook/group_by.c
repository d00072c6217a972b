/* Count, sum, least and most of the numbers of each group: group_by < lines of "group TAB number"
 *
 * A value is a partial result, and so is what two of them are folded into. */
#include <etl.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct totals {
    uint64_t count;
    int64_t sum, least, most;
};

static int fold(void *context, etl_slice group, const etl_slice *values, size_t count,
                etl_bytes *result) {
    struct totals all, one;
    (void)context, (void)group;
    memcpy(&all, values[0].data, sizeof all);
    for (size_t i = 1; i < count; i++) {
        memcpy(&one, values[i].data, sizeof one); /* slices are not aligned */
        all.count += one.count;
        all.sum += one.sum;
        all.least = one.least < all.least ? one.least : all.least;
        all.most = one.most > all.most ? one.most : all.most;
    }
    return etl_bytes_append(result, &all, sizeof all);
}

static int collect_lines(etl_collector *groups, FILE *in) {
    char *line = NULL, *tab;
    size_t room = 0;
    int status = ETL_OK;
    while (status == ETL_OK && getline(&line, &room, in) > 0) {
        if ((tab = strchr(line, '\t')) == NULL)
            continue; /* no number */
        int64_t number = strtoll(tab + 1, NULL, 10);
        struct totals one = {1, number, number, number};
        status = etl_collect(groups, etl_slice_of(line, (size_t)(tab - line)),
                             etl_slice_of(&one, sizeof one));
    }
    if (status == ETL_OK && !feof(in))
        status = errno;
    free(line);
    return status;
}

static int print(void *context, etl_slice group, etl_slice value) {
    struct totals all;
    (void)context;
    memcpy(&all, value.data, sizeof all);
    int size =
        printf("%.*s\t%" PRIu64 "\t%" PRId64 "\t%" PRId64 "\t%" PRId64 "\n", (int)group.size,
               (const char *)group.data, all.count, all.sum, all.least, all.most);
    return size < 0 ? errno : 0;
}

int main(void) {
    etl_options options = LIBETL_OPTIONS_INIT;
    options.duplicates = ETL_REDUCE;
    options.reduce = fold;
    etl_collector *groups = NULL;
    int status = etl_collector_create(&groups, &options);
    if (status == ETL_OK)
        status = collect_lines(groups, stdin);
    if (status == ETL_OK)
        status = etl_load(groups, print, NULL);
    if (status == ETL_OK && fflush(stdout) != 0)
        status = errno;
    if (status > 0) /* errno, of what was read or written */
        fprintf(stderr, "group_by: %s\n", strerror(status));
    else if (status != ETL_OK)
        fprintf(stderr, "group_by: %s: %s\n", etl_status_string(status),
                etl_collector_message(groups));
    etl_collector_destroy(groups);
    return status != ETL_OK;
}
