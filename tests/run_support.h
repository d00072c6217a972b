/* run_support.h: for the tests of runs: sorted pairs of many shapes, runs made of them and of
 * bytes, and the comparison of what a provider gives with what went in. */
#ifndef LIBETL_TEST_RUN_SUPPORT_H
#define LIBETL_TEST_RUN_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "crc32c.h"
#include "key.h"
#include "provider_file.h"
#include "run_writer.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEMP "/tmp"

static struct etl__memory memory;
static struct etl__disk disk;
static struct etl__error failure;
static uint64_t random_state;

static inline uint64_t random_u64(void) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return random_state ^ random_state >> 29;
}

static inline size_t random_below(size_t limit) {
    return (size_t)(random_u64() >> 11) % limit;
}

static inline int run_setup(void **unused) {
    static const etl_allocator none;
    const char *seed = getenv("LIBETL_TEST_SEED");
    (void)unused;
    random_state = seed != NULL ? strtoull(seed, NULL, 0) : etl__os_random();
    printf("seed: LIBETL_TEST_SEED=0x%llx\n", (unsigned long long)random_state);
    etl__memory_init(&memory, &none, (size_t)1 << 30);
    return 0;
}

/* All memory and disk is given back. */
static inline int run_teardown(void **unused) {
    (void)unused;
    etl__memory_end(&memory);
    return memory.used != 0 || disk.used != 0;
}

/* ---- Pairs */

struct pairs {
    struct etl__pair *pair;
    size_t count, capacity;
};

static inline void pairs_add(struct pairs *pairs, const void *key, size_t key_size,
                             size_t value_size, bool nil) {
    if (pairs->count == pairs->capacity) {
        pairs->capacity = pairs->capacity * 2 + 16;
        pairs->pair = realloc(pairs->pair, pairs->capacity * sizeof *pairs->pair);
        assert_non_null(pairs->pair);
    }
    struct etl__pair *pair = &pairs->pair[pairs->count++];
    uint8_t *bytes = malloc(key_size + value_size + 1);
    assert_non_null(bytes);
    if (key_size != 0)
        memcpy(bytes, key, key_size);
    for (size_t i = 0; i < value_size; i++)
        bytes[key_size + i] = (uint8_t)(random_state >> (i & 31)) ^ (uint8_t)i;
    pair->key = bytes;
    pair->key_size = (uint32_t)key_size;
    pair->value = nil ? NULL : bytes + key_size;
    pair->value_size = nil ? 0 : (uint32_t)value_size;
}

/* A key that begins with the number of the pair, so that they ascend, where there is room. */
static inline void pairs_add_next(struct pairs *pairs, size_t key_size, size_t value_size) {
    uint8_t *key = malloc(key_size + 4);
    assert_non_null(key);
    memset(key, (int)(random_u64() >> 40), key_size);
    for (size_t i = 0; i < 4 && i < key_size; i++)
        key[i] = (uint8_t)(pairs->count >> (24 - 8 * i));
    pairs_add(pairs, key, key_size, value_size, value_size == 0 && (random_u64() >> 40) % 2 == 0);
    free(key);
}

static inline int compare_pairs(const void *a, const void *b) {
    const struct etl__pair *x = a, *y = b;
    return etl__key_compare(x->key, x->key_size, y->key, y->key_size);
}

static inline void pairs_free(struct pairs *pairs) {
    for (size_t i = 0; i < pairs->count; i++)
        free((void *)(uintptr_t)pairs->pair[i].key);
    free(pairs->pair);
}

static inline uint64_t record_bytes(const struct etl__pair *pair) {
    uint64_t code = etl__value_code(pair->value == NULL, pair->value_size);
    return etl__record_head_size(pair->key_size, code) + pair->key_size + pair->value_size;
}

static inline uint64_t pairs_bytes(const struct pairs *pairs) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < pairs->count; i++)
        bytes += record_bytes(&pairs->pair[i]);
    return bytes;
}

enum { SHAPES = 9 };

static inline struct pairs pairs_of_shape(int shape) {
    static const size_t edges[] = {0, 1, 125, 126, 127, 128, 129, 16382, 16383, 16384, 16385};
    enum { EDGES = sizeof edges / sizeof edges[0] };
    struct pairs pairs = {NULL, 0, 0};
    switch (shape) {
    case 0: /* none */
        break;
    case 1: /* nothing but heads */
        for (int i = 0; i < 20000; i++)
            pairs_add(&pairs, NULL, 0, 0, i % 3 == 0);
        break;
    case 2: /* short and of any size */
        for (int i = 0; i < 5000; i++) {
            uint8_t key[40];
            for (size_t k = 0; k < sizeof key; k++)
                key[k] = (uint8_t)random_below(3);
            pairs_add(&pairs, key, random_below(sizeof key), random_below(40), i % 7 == 0);
        }
        qsort(pairs.pair, pairs.count, sizeof *pairs.pair, compare_pairs);
        break;
    case 3: /* one size */
        for (int i = 0; i < 4000; i++)
            pairs_add_next(&pairs, 32, 32);
        break;
    case 4: /* each length that an encoding changes at, of keys by values */
        for (size_t i = 0; i < EDGES * EDGES; i++)
            pairs_add_next(&pairs, edges[i / EDGES] + 4, edges[i % EDGES]);
        break;
    case 5: /* records that end where blocks end, and one byte beside */
        pairs_add_next(&pairs, 10, ETL__RUN_BLOCK - ETL__RUN_HEADER_SIZE - 14);
        for (size_t i = 0; i < 30; i++)
            pairs_add_next(&pairs, 10, ETL__RUN_BLOCK - 14 - (i == 10) + (i == 20));
        for (size_t i = 0; i < 30; i++)
            pairs_add_next(&pairs, 10, ETL__RUN_BLOCK / 2 - 13);
        break;
    case 6: /* larger than blocks and buffers, small ones between */
        for (size_t i = 0; i < 60; i++) {
            pairs_add_next(&pairs, 8, i * ETL__RUN_BLOCK / 2 + i % 3 - (i != 0));
            for (size_t k = random_below(5); k != 0; k--)
                pairs_add_next(&pairs, 8, random_below(100));
        }
        break;
    case 7: /* large keys */
        for (size_t i = 0; i < 40; i++)
            pairs_add_next(&pairs, 4 + i * 3000, i * 10);
        break;
    default: /* one pair that fills its buffer and ends with a block */
        pairs_add_next(&pairs, 10, 8 * ETL__RUN_BLOCK - ETL__RUN_HEADER_SIZE - 14);
        break;
    }
    if (shape == 4) /* the two shortest keys came last among numbers that they cannot show */
        qsort(pairs.pair, pairs.count, sizeof *pairs.pair, compare_pairs);
    return pairs;
}

/* ---- Runs */

static inline struct etl__run *write_run(const struct pairs *pairs, uint64_t expected,
                                         size_t buffer_size, etl_access access) {
    struct etl__run_writer *writer;
    struct etl__run *run = NULL;
    assert_int_equal(etl__run_writer_create(&writer, &memory, &disk, buffer_size, NULL, &failure),
                     ETL_OK);
    int status = etl__run_writer_open(writer, TEMP, "test", expected, &failure);
    for (size_t i = 0; status == ETL_OK && i < pairs->count; i++)
        status = etl__run_writer_append(writer, &pairs->pair[i], &failure);
    if (status == ETL_OK)
        status = etl__run_writer_close(writer, access, &run, &failure);
    if (status != ETL_OK)
        fail_msg("%s", failure.text);
    assert_int_equal(disk.used, run->file_size);
    etl__run_writer_destroy(writer);
    return run;
}

static inline void end_run(struct etl__run *run) {
    etl__disk_give(&disk, run->file_size);
    etl__run_close(run, &memory);
}

/* A copy of the whole file. */
static inline uint8_t *run_bytes(const struct etl__run *run) {
    size_t size = (size_t)run->file_size, done = size;
    uint8_t *bytes = malloc(size);
    assert_non_null(bytes);
    if (run->map != NULL)
        memcpy(bytes, run->map, size);
    else
        assert_int_equal(etl__os_read(run->descriptor, bytes, size, 0, &done), 0);
    assert_int_equal(done, size);
    return bytes;
}

static inline bool same_pair(const struct etl__pair *a, const struct etl__pair *b) {
    return a->key_size == b->key_size && a->value_size == b->value_size &&
           (a->value == NULL) == (b->value == NULL) &&
           (a->key_size == 0 || memcmp(a->key, b->key, a->key_size) == 0) &&
           (a->value_size == 0 || memcmp(a->value, b->value, a->value_size) == 0);
}

/* Read up to `limit` pairs, which must be those from `from` on; the pair before stays valid while
 * the next one is read. ETL_OK when limit were read, else what the provider said. */
static inline int read_and_compare(struct etl__provider *provider, const struct pairs *pairs,
                                   size_t from, size_t limit) {
    struct etl__pair pair, before = {NULL, NULL, 0, 0};
    for (size_t i = from; i - from < limit; i++) {
        int status = etl__provider_read(provider, &pair, &failure);
        if (status == ETL_END)
            assert_int_equal(i, pairs->count);
        if (status != ETL_OK)
            return status;
        assert_true(i < pairs->count);
        assert_non_null(pair.key);
        assert_true(same_pair(&pair, &pairs->pair[i]));
        if (i > from)
            assert_true(same_pair(&before, &pairs->pair[i - 1]));
        before = pair;
    }
    return ETL_OK;
}

static inline void assert_run_equals(const struct etl__run *run, const struct pairs *pairs,
                                     size_t buffer_size) {
    struct etl__provider *provider;
    assert_int_equal(
        etl__provider_file_open(&provider, run, &memory, buffer_size, 1 << 16, &failure), ETL_OK);
    assert_int_equal(provider->pairs, pairs->count);
    int status = read_and_compare(provider, pairs, 0, SIZE_MAX);
    if (status != ETL_END)
        fail_msg("%s", failure.text);
    struct etl__pair pair;
    assert_int_equal(etl__provider_read(provider, &pair, &failure), ETL_END);
    provider->close(provider);
}

#endif
