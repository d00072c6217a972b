/* fault_support.h: for test_fault_sweep: what lives consist of, and what they are given. */
#ifndef LIBETL_TESTS_FAULT_SUPPORT_H
#define LIBETL_TESTS_FAULT_SUPPORT_H

#include "faults.h"
#include "oracle.h"
#include "support.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Jobs */

struct job {
    const char *name;
    size_t count, value_size, keys; /* pairs, their values, and how many keys there are */
    size_t flush_each;              /* pairs; 0: never, and the memory limit is what spills */
    size_t large;                   /* bytes of one value collected, one reserved; 0: none */
    struct oracle_rules rules;
    int threads; /* in the background */
    etl_access access;
    unsigned merge_width;
    unsigned unsupported; /* calls, as bits */
    size_t collectors;    /* 0: one */
    bool two_directories;
    bool transform; /* in one call */
    bool save;      /* half of the pairs go through a file, and are attached */
    size_t sample; /* 0: every way to fail at each call; n: the ways by turns, at each n-th call */
};

enum { ANY_KEYS = 1000000 };

#define LACKS(call) (1u << (call))

static const struct job jobs[] = {
    {.name = "memory", .count = 100, .value_size = 20, .keys = ANY_KEYS},
    {.name = "passes",
     .count = 70,
     .value_size = 20,
     .keys = ANY_KEYS,
     .flush_each = 10,
     .merge_width = 3},
    {.name = "passes-read",
     .count = 60,
     .value_size = 20,
     .keys = ANY_KEYS,
     .flush_each = 10,
     .access = ETL_ACCESS_READ,
     .merge_width = 2,
     .sample = 2},
    {.name = "named",
     .count = 30,
     .value_size = 20,
     .keys = ANY_KEYS,
     .flush_each = 10,
     .unsupported = LACKS(FAULTS_OPEN_TMPFILE) | LACKS(FAULTS_ALLOCATE)},
    {.name = "unmapped",
     .count = 60,
     .value_size = 20,
     .keys = ANY_KEYS,
     .flush_each = 15,
     .merge_width = 3,
     .unsupported = LACKS(FAULTS_MAP_FILE),
     .sample = 2},
    {.name = "two-directories",
     .count = 40,
     .value_size = 20,
     .keys = ANY_KEYS,
     .flush_each = 15,
     .two_directories = true},
    {.name = "many",
     .count = 60,
     .value_size = 20,
     .keys = 40,
     .flush_each = 15,
     .rules = {.order_values = true},
     .collectors = 2},
    {.name = "first",
     .count = 60,
     .value_size = 30,
     .keys = 15,
     .flush_each = 25,
     .rules = {.duplicates = ETL_KEEP_FIRST}},
    {.name = "last",
     .count = 60,
     .value_size = 30,
     .keys = 15,
     .flush_each = 25,
     .access = ETL_ACCESS_READ,
     .rules = {.duplicates = ETL_KEEP_LAST},
     .sample = 2},
    {.name = "append",
     .count = 60,
     .value_size = 300,
     .keys = 15,
     .flush_each = 25,
     .merge_width = 2,
     .rules = {.duplicates = ETL_APPEND}},
    {.name = "reduce",
     .count = 60,
     .value_size = 16,
     .keys = 15,
     .flush_each = 25,
     .merge_width = 2,
     .rules = {.duplicates = ETL_REDUCE, .fold = ORACLE_AFFINE}},
    {.name = "reject",
     .count = 60,
     .value_size = 30,
     .keys = 100,
     .flush_each = 25,
     .rules = {.duplicates = ETL_REJECT}},
    {.name = "transform",
     .count = 200,
     .value_size = 6000,
     .keys = ANY_KEYS,
     .transform = true,
     .sample = 1},
    {.name = "save",
     .count = 40,
     .value_size = 20,
     .keys = ANY_KEYS,
     .flush_each = 15,
     .save = true},
    {.name = "save-named",
     .count = 40,
     .value_size = 20,
     .keys = ANY_KEYS,
     .access = ETL_ACCESS_MMAP_ALL,
     .unsupported = LACKS(FAULTS_OPEN_TMPFILE),
     .save = true},
    {.name = "save-reorder",
     .count = 60,
     .value_size = 5000,
     .keys = 4,
     .rules = {.order_values = true},
     .sample = 2,
     .save = true},
    {.name = "limit", .count = 240, .value_size = 6000, .keys = ANY_KEYS, .sample = 3},
    {.name = "limit-read",
     .count = 240,
     .value_size = 6000,
     .keys = ANY_KEYS,
     .access = ETL_ACCESS_READ,
     .sample = 9},
    {.name = "large",
     .count = 40,
     .value_size = 20,
     .keys = ANY_KEYS,
     .large = MIB + MIB / 4,
     .access = ETL_ACCESS_READ,
     .sample = 40},
    {.name = "thread",
     .count = 40,
     .value_size = 20,
     .keys = ANY_KEYS,
     .flush_each = 10,
     .threads = 1,
     .merge_width = 3,
     .sample = 1},
    {.name = "thread-limit",
     .count = 240,
     .value_size = 6000,
     .keys = ANY_KEYS,
     .threads = 1,
     .sample = 3}};

static inline bool job_spills(const struct job *job) {
    return job->save || job->flush_each != 0 || job->large != 0 ||
           job->count * job->value_size > MIB;
}

/* ---- What they are given */

/* Composes maps as ORACLE_AFFINE does, with no call but the library's. */
static inline int compose(void *context, etl_slice key, const etl_slice *values, size_t count,
                          etl_bytes *result) {
    (void)context, (void)key;
    uint64_t map[2] = {1, 0};
    for (size_t i = 0; i < count; i++) {
        uint64_t next[2] = {0, 0};
        if (values[i].size != 0)
            memcpy(next, values[i].data, sizeof next);
        map[0] *= next[0];
        map[1] = map[1] * next[0] + next[1];
    }
    return etl_bytes_append(result, map, sizeof map);
}

static inline etl_options options_of(const struct job *job) {
    static const char *both[3];
    etl_options options = support_options(MIB);
    if (job->two_directories) {
        both[0] = both[1] = options.temp_dirs[0];
        support_make_fast(&options);
        both[1] = options.temp_dirs[0];
        options.temp_dirs = both;
    } else {
        support_make_fast(&options);
    }
    options.duplicates = job->rules.duplicates;
    options.order_values = job->rules.order_values;
    if (options.duplicates == ETL_REDUCE)
        options.reduce = compose;
    options.threads = job->threads != 0 ? job->threads : ETL_THREADS_NONE;
    options.access = job->access;
    options.merge_width = job->merge_width;
    return options;
}

/* Those of the collector that saves: the values come in the order of collection. */
static inline etl_options saver_options_of(const struct job *job) {
    etl_options options = options_of(job);
    options.duplicates = ETL_KEEP_ALL;
    options.order_values = false;
    return options;
}

/* The file that is saved to. What check_directories counts does not begin with a dot. */
static inline const char *saved_path(const struct job *job) {
    static char path[512];
    snprintf(path, sizeof path, "%s/.saved", options_of(job).temp_dirs[0]);
    return path;
}

static inline void write_old_file(const char *path) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fputs("old", file) < 0, 0);
    assert_int_equal(fclose(file), 0);
}

static inline bool is_old_file(const char *path) {
    char text[8] = "";
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    size_t size = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    return size == 3 && strcmp(text, "old") == 0;
}

static inline void make_input(const struct job *job, struct oracle *input) {
    struct prng prng;
    prng_start(&prng, job->count);
    size_t most = job->large > job->value_size ? job->large : job->value_size;
    unsigned char *value = malloc(most + 1);
    assert_non_null(value);
    memset(value, 'v', most);
    for (size_t i = 0; i < job->count; i++) {
        char key[16];
        snprintf(key, sizeof key, "%08zu", prng_below(&prng, job->keys));
        memcpy(value, &i, sizeof i);
        bool large = job->large != 0 && i / 5 == job->count / 10 && i % 5 > 1 && i % 5 < 4;
        oracle_add(input, etl_slice_str(key),
                   i % 7 == 6 ? etl_slice_of(NULL, 0)
                              : etl_slice_of(value, large ? job->large : job->value_size));
    }
    free(value);
}

/* ---- What they leave */

/* At most so many files may be left; they are removed. */
static inline void check_directories(const struct job *job, size_t most) {
    const etl_options options = options_of(job);
    size_t left = 0;
    for (const char *const *path = options.temp_dirs; *path != NULL; path++) {
        DIR *directory = opendir(*path);
        assert_non_null(directory);
        for (const struct dirent *entry; (entry = readdir(directory)) != NULL;)
            if (entry->d_name[0] != '.') {
                left++;
                assert_int_equal(unlinkat(dirfd(directory), entry->d_name, 0), 0);
            }
        closedir(directory);
    }
    assert_in_range(left, 0, most);
}

#endif
