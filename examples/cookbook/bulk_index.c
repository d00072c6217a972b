/* An index of a file of lines "key TAB value", and a search in it:
 *
 *     bulk_index FILE INDEX            makes the index: the offsets of the lines, by key
 *     bulk_index FILE INDEX KEY        prints the lines with this key, by bisection */
#include <etl.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static etl_slice key_of(const char *line, ssize_t size) {
    const char *tab = memchr(line, '\t', (size_t)size);
    return etl_slice_of(line, (size_t)((tab != NULL ? tab : line + size) - line));
}

static int write_offset(void *index, etl_slice key, etl_slice offset) {
    (void)key;
    return fwrite(offset.data, offset.size, 1, index) == 1 ? 0 : errno;
}

static int make(etl_collector *offsets, FILE *file, const char *name) {
    char *line = NULL;
    size_t room = 0;
    ssize_t size;
    int status = ETL_OK;
    for (int64_t at = 0; status == ETL_OK && (size = getline(&line, &room, file)) > 0; at += size)
        status = etl_collect(offsets, key_of(line, size - (line[size - 1] == '\n')),
                             etl_slice_of(&at, sizeof at));
    if (status == ETL_OK && !feof(file))
        status = errno;
    free(line);
    if (status != ETL_OK)
        return status;
    FILE *index = fopen(name, "wb"); /* a real one: beside it, and renamed when it is whole */
    if (index == NULL)
        return errno;
    status = etl_load(offsets, write_offset, index);
    return fclose(index) != 0 && status == ETL_OK ? errno : status;
}

/* The n-th line by key. */
static ssize_t read_line(FILE *index, FILE *file, long n, char **line, size_t *room) {
    int64_t offset;
    if (fseek(index, n * (long)sizeof offset, SEEK_SET) != 0 ||
        fread(&offset, sizeof offset, 1, index) != 1 || fseeko(file, (off_t)offset, SEEK_SET) != 0)
        return -1;
    ssize_t size = getline(line, room, file);
    return size > 0 && (*line)[size - 1] == '\n' ? size - 1 : size;
}

static int compare(etl_slice a, etl_slice b) {
    int order = memcmp(a.data, b.data, a.size < b.size ? a.size : b.size);
    return order != 0 ? order : (a.size > b.size) - (a.size < b.size);
}

static int find(FILE *file, const char *name, etl_slice key) {
    FILE *index = fopen(name, "rb");
    if (index == NULL)
        return errno;
    int status = fseek(index, 0, SEEK_END) == 0 ? ETL_OK : errno;
    long low = 0, end = status == ETL_OK ? ftell(index) / (long)sizeof(int64_t) : 0, high = end;
    char *line = NULL;
    size_t room = 0;
    ssize_t size = 0;
    /* Lines before low are below key, from high on they are not. */
    while (low < high && size >= 0) {
        long middle = low + (high - low) / 2;
        size = read_line(index, file, middle, &line, &room);
        if (size >= 0 && compare(key_of(line, size), key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < end && size >= 0 && status == ETL_OK; low++) {
        size = read_line(index, file, low, &line, &room);
        if (size < 0 || compare(key_of(line, size), key) != 0)
            break;
        if (printf("%.*s\n", (int)size, line) < 0)
            status = errno;
    }
    free(line);
    fclose(index);
    return size < 0 ? ETL_E_CORRUPT : status;
}

int main(int argc, char **argv) {
    etl_collector *offsets = NULL;
    if (argc != 3 && argc != 4) {
        fprintf(stderr, "Usage: bulk_index FILE INDEX [KEY]\n");
        return 1;
    }
    FILE *file = fopen(argv[1], "rb");
    int status = file != NULL ? etl_collector_create(&offsets, NULL) : errno;
    if (status == ETL_OK)
        status =
            argc > 3 ? find(file, argv[2], etl_slice_str(argv[3])) : make(offsets, file, argv[2]);
    if (status == ETL_OK && fflush(stdout) != 0)
        status = errno;
    if (status > 0)
        fprintf(stderr, "bulk_index: %s, %s: %s\n", argv[1], argv[2], strerror(status));
    else if (status == ETL_E_CORRUPT && *etl_collector_message(offsets) == '\0')
        fprintf(stderr, "bulk_index: %s is no index of %s\n", argv[2], argv[1]);
    else if (status != ETL_OK)
        fprintf(stderr, "bulk_index: %s: %s\n", etl_status_string(status),
                etl_collector_message(offsets));
    etl_collector_destroy(offsets);
    if (file != NULL)
        fclose(file);
    return status != ETL_OK;
}
