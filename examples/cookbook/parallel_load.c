/* Sorts lines into files of about the same size, written by a thread each:
 * parallel_load PREFIX PARTS < lines
 *
 * PREFIX.0, PREFIX.1 ... one after the other are the sorted lines. There may be fewer parts than
 * asked for, never more. */
#include <etl.h>

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST = 64 };

struct part {
    pthread_t thread;
    etl_iter *iter; /* advanced by this thread alone */
    FILE *file;
    int status;
};

static void *write_part(void *context) {
    struct part *part = context;
    etl_slice line;
    while ((part->status = etl_iter_next(part->iter, &line, NULL)) == ETL_OK)
        if (fwrite(line.data, 1, line.size, part->file) != line.size ||
            putc('\n', part->file) == EOF) {
            part->status = errno;
            return NULL;
        }
    if (part->status == ETL_END)
        part->status = ETL_OK;
    return NULL;
}

static int open_part(struct part *part, etl_collector *lines, const etl_range *range,
                     const char *prefix, size_t number) {
    char name[4096];
    snprintf(name, sizeof name, "%s.%zu", prefix, number);
    if ((part->file = fopen(name, "wb")) == NULL)
        return errno;
    int status = etl_iter_open(&part->iter, lines, range);
    if (status == ETL_OK)
        status = pthread_create(&part->thread, NULL, write_part, part);
    if (status == ETL_OK)
        return ETL_OK;
    etl_iter_close(part->iter);
    fclose(part->file);
    return status;
}

static int write_parts(etl_collector *lines, const char *prefix, size_t wanted) {
    static struct part parts[MOST];
    etl_slice keys[MOST];
    size_t cuts = 0, open = 0;
    int status = etl_split(&lines, 1, wanted, keys, &cuts);
    for (; status == ETL_OK && open <= cuts; open += status == ETL_OK) {
        etl_range range = {{NULL, 0}, {NULL, 0}};
        if (open > 0)
            range.from = keys[open - 1];
        if (open < cuts)
            range.to = keys[open];
        status = open_part(&parts[open], lines, &range, prefix, open);
    }
    for (size_t i = 0; i < open; i++) {
        pthread_join(parts[i].thread, NULL);
        etl_iter_close(parts[i].iter);
        if (fclose(parts[i].file) != 0 && parts[i].status == ETL_OK)
            parts[i].status = errno;
        if (status == ETL_OK)
            status = parts[i].status;
    }
    if (status == ETL_OK)
        printf("%zu parts\n", open);
    return status;
}

int main(int argc, char **argv) {
    char *line = NULL;
    size_t room = 0;
    ssize_t size;
    etl_collector *lines = NULL;
    size_t parts = argc == 3 ? strtoul(argv[2], NULL, 10) : 0;
    if (parts < 1 || parts > MOST) {
        fprintf(stderr, "Usage: parallel_load PREFIX PARTS < lines; at most %d parts\n", MOST);
        return 1;
    }
    int status = etl_collector_create(&lines, NULL);
    while (status == ETL_OK && (size = getline(&line, &room, stdin)) > 0) {
        size -= line[size - 1] == '\n';
        status = etl_collect(lines, etl_slice_of(line, (size_t)size), etl_slice_str(NULL));
    }
    if (status == ETL_OK && !feof(stdin))
        status = errno;
    if (status == ETL_OK)
        status = write_parts(lines, argv[1], parts);
    if (status == ETL_OK && fflush(stdout) != 0)
        status = errno;
    if (status > 0) /* errno, of what was read or written */
        fprintf(stderr, "parallel_load: %s\n", strerror(status));
    else if (status != ETL_OK)
        fprintf(stderr, "parallel_load: %s: %s\n", etl_status_string(status),
                etl_collector_message(lines));
    free(line);
    etl_collector_destroy(lines);
    return status != ETL_OK;
}
