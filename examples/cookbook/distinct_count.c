/* How many different second columns each first column has: distinct_count < "group TAB item" lines
 *
 * The whole line is the key. Lines of one group stand together in its order, each once. */
#include <etl.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct group {
    char *name; /* with the tab */
    size_t size, room;
    uint64_t count; /* of different items; 0 before the first group */
};

static int collect_lines(etl_collector *lines, FILE *in) {
    char *line = NULL;
    size_t room = 0;
    ssize_t size;
    int status = ETL_OK;
    while (status == ETL_OK && (size = getline(&line, &room, in)) > 0) {
        size -= line[size - 1] == '\n';
        if (memchr(line, '\t', (size_t)size) != NULL)
            status = etl_collect(lines, etl_slice_of(line, (size_t)size), etl_slice_str(NULL));
    }
    if (status == ETL_OK && !feof(in))
        status = errno;
    free(line);
    return status;
}

static int print(const struct group *group) {
    if (group->count > 0 &&
        printf("%.*s%" PRIu64 "\n", (int)group->size, group->name, group->count) < 0)
        return errno;
    return 0;
}

static int count(void *context, etl_slice line, etl_slice nil) {
    struct group *group = context;
    const char *tab = memchr(line.data, '\t', line.size);
    size_t size = (size_t)(tab + 1 - (const char *)line.data);
    (void)nil;
    if (group->count == 0 || size != group->size || memcmp(line.data, group->name, size) != 0) {
        int status = print(group);
        if (status != 0)
            return status;
        if (size > group->room) {
            char *more = realloc(group->name, size);
            if (more == NULL)
                return ETL_E_NOMEM;
            group->name = more;
            group->room = size;
        }
        memcpy(group->name, line.data, size); /* line lives until count returns */
        group->size = size;
        group->count = 0;
    }
    group->count++;
    return 0;
}

int main(void) {
    etl_options once = LIBETL_OPTIONS_INIT;
    once.duplicates = ETL_KEEP_FIRST; /* equal lines go while runs are written */
    etl_collector *lines = NULL;
    struct group group = {NULL, 0, 0, 0};
    int status = etl_collector_create(&lines, &once);
    if (status == ETL_OK)
        status = collect_lines(lines, stdin);
    if (status == ETL_OK)
        status = etl_load(lines, count, &group);
    if (status == ETL_OK)
        status = print(&group);
    if (status == ETL_OK && fflush(stdout) != 0)
        status = errno;
    if (status > 0) /* errno, of what was read or written */
        fprintf(stderr, "distinct_count: %s\n", strerror(status));
    else if (status != ETL_OK)
        fprintf(stderr, "distinct_count: %s: %s\n", etl_status_string(status),
                etl_collector_message(lines));
    free(group.name);
    etl_collector_destroy(lines);
    return status != ETL_OK;
}
