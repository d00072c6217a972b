/* checkpoint_support.h: for the tests of checkpoints: a directory of them, and what is in it. */
#ifndef LIBETL_TESTS_CHECKPOINT_SUPPORT_H
#define LIBETL_TESTS_CHECKPOINT_SUPPORT_H

#include "oracle.h"
#include "support.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A directory that is not there yet, where syncing is quick. */
static inline const char *new_directory(void) {
    static char path[300];
    static unsigned number;
    etl_options options = support_options(MIB);
    support_make_fast(&options);
    snprintf(path, sizeof path, "%s/checkpoints-%u", options.temp_dirs[0], number++);
    return path;
}

/* Remove it and what is in it, if it is there. */
static inline void remove_directory(const char *path) {
    DIR *directory = opendir(path);
    if (directory == NULL)
        return;
    for (const struct dirent *entry; (entry = readdir(directory)) != NULL;)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            (void)unlinkat(dirfd(directory), entry->d_name, 0);
    closedir(directory);
    (void)rmdir(path);
}

/* Files in it whose names end so. */
static inline size_t count_files(const char *path, const char *ending) {
    DIR *directory = opendir(path);
    size_t count = 0, length = strlen(ending);
    if (directory == NULL)
        return 0;
    for (const struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        size_t size = strlen(entry->d_name);
        count += size >= length && strcmp(entry->d_name + size - length, ending) == 0;
    }
    closedir(directory);
    return count;
}

static inline uint64_t bytes_of_files(const char *path, const char *ending) {
    DIR *directory = opendir(path);
    uint64_t bytes = 0;
    struct stat status;
    assert_non_null(directory);
    for (const struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        const char *found = strstr(entry->d_name, ending);
        if (found != NULL && found[strlen(ending)] == '\0' &&
            fstatat(dirfd(directory), entry->d_name, &status, 0) == 0)
            bytes += (uint64_t)status.st_size;
    }
    closedir(directory);
    return bytes;
}

static inline const char *file_in(const char *directory, const char *name) {
    static char paths[4][400];
    static unsigned next;
    char *path = paths[next++ % COUNT_OF(paths)];
    int length = snprintf(path, sizeof paths[0], "%s/%s", directory, name);
    assert_in_range(length, 1, sizeof paths[0] - 1);
    return path;
}

static inline unsigned char *read_file(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    *size = (size_t)ftell(file);
    rewind(file);
    unsigned char *bytes = malloc(*size + 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, *size, file), *size);
    fclose(file);
    return bytes;
}

static inline void write_file(const char *path, const void *bytes, size_t size) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

/* ---- Tokens that are a number */

static inline etl_slice token_of(const uint64_t *number) {
    return etl_slice_of(number, sizeof *number);
}

/* The number in a token; 0 for none, or an empty one. */
static inline uint64_t number_of(etl_slice token) {
    uint64_t number = 0;
    if (token.size != 0) {
        assert_int_equal(token.size, sizeof number);
        memcpy(&number, token.data, sizeof number);
    }
    return number;
}

/* Restore, which must succeed. */
static inline etl_collector *restored(const char *directory, const etl_options *options,
                                      uint64_t *number) {
    etl_collector *collector = NULL;
    etl_slice token;
    char message[640] = "";
    if (etl_restore_message(&collector, options, directory, &token, message, sizeof message) !=
        ETL_OK)
        fail_msg("restore: %s", message);
    *number = number_of(token);
    return collector;
}

#endif
