/* loader.h: what the examples that load a database share: files with one "key TAB value" a line
 * into a collector, and the command line.
 *
 *     NAME_load [-m MIB] DATABASE FILE...    load; -m: memory to sort in, default 256
 *     NAME_load -p DATABASE                  print the table in key order, as such lines
 *
 * A line without a TAB is a key with an empty value; of equal keys the last line counts. */
#ifndef LOADER_H
#define LOADER_H

#include <etl.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* What each example has: 0, or 1 after a complaint. load consumes the collector. */
static int load(etl_collector *collector, const char *path);
static int print(const char *path);

static inline int loader_fail(const char *what, const char *why) {
    fprintf(stderr, "%s: %s\n", what, why);
    return 1;
}

static inline void loader_print_pair(const void *key, size_t key_size, const void *value,
                                     size_t value_size) {
    fwrite(key, 1, key_size, stdout);
    putchar('\t');
    fwrite(value, 1, value_size, stdout);
    putchar('\n');
}

static inline int loader_collect(etl_collector *collector, const char *name) {
    FILE *file = fopen(name, "r");
    if (file == NULL)
        return loader_fail(name, strerror(errno));
    char *line = NULL;
    size_t capacity = 0;
    ssize_t size;
    int status = ETL_OK;
    while (status == ETL_OK && (size = getline(&line, &capacity, file)) > 0) {
        size -= line[size - 1] == '\n';
        const char *tab = memchr(line, '\t', (size_t)size);
        size_t key_size = tab != NULL ? (size_t)(tab - line) : (size_t)size;
        const char *value = tab != NULL ? tab + 1 : line + size;
        status = etl_collect(collector, etl_slice_of(line, key_size),
                             etl_slice_of(value, (size_t)(line + size - value)));
    }
    bool unread = ferror(file) != 0;
    free(line);
    fclose(file);
    if (status != ETL_OK)
        return loader_fail(name, etl_collector_message(collector));
    return unread ? loader_fail(name, "cannot be read") : 0;
}

int main(int argc, char **argv) {
    etl_options options = LIBETL_OPTIONS_INIT;
    options.duplicates = ETL_KEEP_LAST;
    bool prints = false;
    for (int option; (option = getopt(argc, argv, "pm:")) != -1;) {
        if (option == 'm')
            options.memory_limit = (size_t)strtoull(optarg, NULL, 10) << 20;
        else if (option == 'p')
            prints = true;
        else
            return 2;
    }
    if (prints ? argc - optind != 1 : argc - optind < 2)
        return fprintf(stderr, "usage: %s [-m MIB] DATABASE FILE... | -p DATABASE\n", argv[0]), 2;
    const char *path = argv[optind++];
    if (prints)
        return print(path) != 0 || fflush(stdout) != 0 || ferror(stdout);
    char message[512] = "";
    etl_collector *collector;
    if (etl_collector_create_message(&collector, &options, message, sizeof message) != ETL_OK)
        return loader_fail(argv[0], message);
    int failed = 0;
    for (; optind < argc && !failed; optind++)
        failed = loader_collect(collector, argv[optind]);
    if (!failed)
        failed = load(collector, path);
    etl_collector_destroy(collector);
    return failed;
}

#endif
