/* test_attach.c: what is refused when a run is attached, and what is told when it is read: other
 * kinds of files, damage at every byte, every length, other versions, files that change under the
 * reader. A refused attach changes nothing. Saved files are read by an independent reader. */
#include "crc32c.h"
#include "run_format.h"
#include "support.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static etl_collector *create(size_t memory_limit, etl_access access) {
    etl_options options = support_options(memory_limit);
    etl_collector *collector;
    support_make_fast(&options);
    options.access = access;
    ASSERT_OK(NULL, etl_collector_create(&collector, &options));
    return collector;
}

/* A file with counted pairs [0, count). */
static void save_counted(const char *path, uint64_t count) {
    etl_collector *collector = create(MIB, ETL_ACCESS_MMAP);
    ASSERT_OK(collector, counted_collect_all(collector, count));
    ASSERT_OK(collector, etl_save(collector, path));
    etl_collector_destroy(collector);
}

static uint8_t *read_file(const char *path, size_t *size) {
    struct stat status;
    assert_int_equal(stat(path, &status), 0);
    *size = (size_t)status.st_size;
    uint8_t *bytes = malloc(*size);
    int descriptor = open(path, O_RDONLY);
    assert_non_null(bytes);
    assert_int_equal(read(descriptor, bytes, *size), *size);
    close(descriptor);
    return bytes;
}

static void write_file(const char *path, const uint8_t *bytes, size_t size) {
    int descriptor = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0600);
    assert_true(descriptor >= 0);
    assert_int_equal(write(descriptor, bytes, size), size);
    close(descriptor);
}

static void assert_refused(etl_collector *collector, int expected, const char *path,
                           const char *words) {
    int status = etl_attach_run(collector, path);
    if (status != expected || strstr(etl_collector_message(collector), words) == NULL)
        fail_msg("%d, \"%s\", expected %d, \"%s\"", status, etl_collector_message(collector),
                 expected, words);
}

static void other_kinds_of_files(void **state) {
    (void)state;
    const char *path = support_path("x");
    static const uint8_t text[] =
        "This is no run, however long it may be: a text of more than the "
        "192 bytes that a run has at least, which somebody gave by "
        "mistake, and which is to be told apart from a run that was "
        "damaged on its way here.";
    etl_collector *collector = create(MIB, ETL_ACCESS_MMAP);
    ASSERT_OK(collector, counted_collect(collector, 0));
    assert_int_equal(etl_attach_run(NULL, path), ETL_E_INVALID);
    assert_refused(collector, ETL_E_INVALID, NULL, "NULL");
    assert_refused(collector, ETL_E_INVALID, "", "empty");
    assert_refused(collector, ETL_E_IO, path, strerror(ENOENT));
    assert_refused(collector, ETL_E_INVALID, support_directory(), "a directory");
    assert_refused(collector, ETL_E_INVALID, "/dev/zero", "not a regular file");
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_refused(collector, ETL_E_INVALID, path, "not a regular file");
    assert_int_equal(unlink(path), 0);
    write_file(path, text, sizeof text);
    assert_refused(collector, ETL_E_CORRUPT, path, "is not a run file");
    write_file(path, text, 20);
    assert_refused(collector, ETL_E_CORRUPT, path, "is not a run file");
    if (geteuid() != 0) {
        assert_int_equal(chmod(path, 0), 0);
        assert_refused(collector, ETL_E_IO, path, strerror(EACCES));
    }
    assert_int_equal(unlink(path), 0);
    counted_assert_load(collector, 1); /* nothing was changed */
    assert_refused(collector, ETL_E_IO, path, strerror(ENOENT));
    etl_stats stats = {.struct_size = sizeof stats};
    ASSERT_OK(collector, etl_collector_stats(collector, &stats));
    assert_int_equal(stats.runs, 0);
    counted_assert_load(collector, 0);
    etl_collector_destroy(collector);
}

/* Attach and load: the pairs, or ETL_E_CORRUPT from one of the two; then the collector is as
 * before the attach, after a reset at least. */
static void assert_corrupt(etl_collector *collector, const char *path) {
    struct counted counted = {0, UINT64_MAX, 0};
    int status = etl_attach_run(collector, path);
    if (status == ETL_OK) {
        status = etl_load(collector, counted_load, &counted);
        assert_int_equal(counted.wrong, 0);
    }
    ASSERT_STATUS(ETL_E_CORRUPT, collector, status);
    assert_non_null(strstr(etl_collector_message(collector), path));
    ASSERT_OK(collector, etl_reset(collector));
}

/* Every byte of a small file, one bit each, is part of some checksum; every length but its own is
 * none. */
static void damage_anywhere(void **state) {
    (void)state;
    const char *path = support_fast_path("damaged");
    size_t size;
    save_counted(path, 20);
    uint8_t *bytes = read_file(path, &size);
    for (int access = ETL_ACCESS_MMAP; access <= ETL_ACCESS_MMAP_ALL; access++) {
        etl_collector *collector = create(MIB, (etl_access)access);
        for (size_t at = 0; at < size; at++) {
            bytes[at] ^= (uint8_t)(1 << at % 8);
            write_file(path, bytes, size);
            bytes[at] ^= (uint8_t)(1 << at % 8);
            assert_corrupt(collector, path);
        }
        for (size_t length = 0; length < size; length++) {
            write_file(path, bytes, length);
            assert_corrupt(collector, path);
        }
        write_file(path, bytes, size);
        ASSERT_OK(collector, etl_attach_run(collector, path));
        counted_assert_load(collector, 20);
        etl_collector_destroy(collector);
    }
    free(bytes);
    assert_int_equal(unlink(path), 0);
}

/* A larger file: a bit in each of some hundred places, header, records, table and footer. */
static void damage_in_a_large_file(void **state) {
    (void)state;
    const char *path = support_fast_path("damaged");
    struct prng prng;
    size_t size;
    prng_start(&prng, 1);
    save_counted(path, 30000);
    uint8_t *bytes = read_file(path, &size);
    etl_collector *collector = create(MIB, ETL_ACCESS_MMAP);
    for (size_t i = 0; i < support_scaled(60); i++) {
        size_t at = prng_below(&prng, size);
        int descriptor = open(path, O_WRONLY);
        uint8_t byte = bytes[at] ^ (uint8_t)(1 << prng_below(&prng, 8));
        assert_int_equal(pwrite(descriptor, &byte, 1, (off_t)at), 1);
        assert_corrupt(collector, path);
        assert_int_equal(pwrite(descriptor, &bytes[at], 1, (off_t)at), 1);
        close(descriptor);
    }
    ASSERT_OK(collector, etl_attach_run(collector, path));
    counted_assert_load(collector, 30000);
    etl_collector_destroy(collector);
    free(bytes);
    assert_int_equal(unlink(path), 0);
}

static void other_versions(void **state) {
    (void)state;
    const char *path = support_fast_path("version");
    size_t size;
    save_counted(path, 20);
    uint8_t *bytes = read_file(path, &size);
    etl_collector *collector = create(MIB, ETL_ACCESS_MMAP);
    for (uint32_t version = 0; version <= 3; version += version == 0 ? 2 : 1) {
        etl__put_u32(bytes + 8, version);
        etl__put_u32(bytes + ETL__RUN_HEADER_SIZE - 4,
                     etl__crc32c(0, bytes, ETL__RUN_HEADER_SIZE - 4));
        write_file(path, bytes, size);
        if (version == 0)
            assert_refused(collector, ETL_E_CORRUPT, path, "unknown version");
        else
            assert_refused(collector, ETL_E_INVALID, path, "take a newer libetl");
    }
    etl__put_u32(bytes + 8, ETL__RUN_VERSION);
    etl__put_u32(bytes + ETL__RUN_HEADER_SIZE - 4,
                 etl__crc32c(0, bytes, ETL__RUN_HEADER_SIZE - 4));
    uint8_t *footer = bytes + size - ETL__RUN_FOOTER_SIZE; /* a flag that nobody knows */
    footer[68] |= 2;
    etl__put_u32(footer + ETL__RUN_FOOTER_SIZE - 4,
                 etl__crc32c(0, footer, ETL__RUN_FOOTER_SIZE - 4));
    write_file(path, bytes, size);
    assert_refused(collector, ETL_E_CORRUPT, path, "unknown footer field");
    etl_collector_destroy(collector);
    free(bytes);
    assert_int_equal(unlink(path), 0);
}

/* Cut after it was attached, and while it is iterated: never a signal, never a quiet end. */
static void a_file_that_shrinks(void **state) {
    (void)state;
    const char *path = support_fast_path("shrinks");
    save_counted(path, 100000);
    struct stat status;
    assert_int_equal(stat(path, &status), 0);
    for (int access = ETL_ACCESS_MMAP; access <= ETL_ACCESS_READ; access++) {
        etl_collector *collector = create(MIB, (etl_access)access);
        etl_iter *iter;
        ASSERT_OK(collector, etl_attach_run(collector, path));
        ASSERT_OK(collector, etl_iter_open(&iter, collector, NULL));
        ASSERT_OK(collector, etl_iter_next(iter, NULL, NULL));
        assert_int_equal(truncate(path, status.st_size / 2), 0);
        int given;
        while ((given = etl_iter_next(iter, NULL, NULL)) == ETL_OK)
            ;
        ASSERT_STATUS(ETL_E_CORRUPT, collector, given);
        assert_non_null(strstr(etl_collector_message(collector), path));
        etl_iter_close(iter);
        ASSERT_OK(collector, etl_reset(collector));
        assert_refused(collector, ETL_E_CORRUPT, path, "no footer");
        etl_collector_destroy(collector);
        save_counted(path, 100000);
    }
    assert_int_equal(unlink(path), 0);
}

/* More files than descriptors are left to a collector: passes write them to temporary runs. The
 * disk limit has no room for any of them. */
static void many_files(void **state) {
    (void)state;
    enum { FILES = 40, EACH = 500 };
    char names[FILES][64];
    for (int i = 0; i < FILES; i++) {
        etl_collector *part = create(MIB, ETL_ACCESS_MMAP);
        for (uint64_t at = 0; at < EACH; at++)
            ASSERT_OK(part, counted_collect(part, at * FILES + (uint64_t)i));
        snprintf(names[i], sizeof names[i], "part-%d", i);
        ASSERT_OK(part, etl_save(part, support_fast_path(names[i])));
        etl_collector_destroy(part);
    }
    for (unsigned width = 0; width <= 3; width += 3) {
        etl_options options = support_options(MIB);
        etl_collector *collector;
        options.merge_width = width;
        options.disk_limit = width == 0 ? 1 : 0; /* byte */
        options.memory_limit = 32 * MIB;
        ASSERT_OK(NULL, etl_collector_create(&collector, &options));
        for (int i = 0; i < FILES; i++)
            ASSERT_OK(collector, etl_attach_run(collector, support_fast_path(names[i])));
        etl_stats stats = {.struct_size = sizeof stats};
        ASSERT_OK(collector, etl_collector_stats(collector, &stats));
        assert_int_equal(stats.runs, FILES);
        assert_int_equal(stats.pairs, FILES * EACH);
        assert_int_equal(stats.disk_bytes, 0);
        counted_assert_load(collector, FILES * EACH);
        ASSERT_OK(collector, etl_collector_stats(collector, &stats));
        assert_true(width == 0 ? stats.merge_passes == 0 : stats.merge_passes != 0);
        assert_int_equal(stats.disk_bytes, 0);
        assert_int_equal(support_files_held("part-"), 0);
        etl_collector_destroy(collector);
    }
    for (int i = 0; i < FILES; i++)
        assert_int_equal(unlink(support_fast_path(names[i])), 0);
}

/* Members of a pool, idle and not, save and attach; what they took they give back. */
static void in_a_pool(void **state) {
    (void)state;
    const char *path = support_fast_path("pooled");
    etl_pool_options pool_options = LIBETL_POOL_OPTIONS_INIT;
    pool_options.memory_limit = 8 * MIB;
    etl_pool *pool;
    assert_int_equal(etl_pool_create(&pool, &pool_options), ETL_OK);
    etl_options options = support_options(0);
    options.pool = pool;
    etl_collector *greedy, *modest;
    ASSERT_OK(NULL, etl_collector_create(&greedy, &options));
    ASSERT_OK(NULL, etl_collector_create(&modest, &options));
    ASSERT_OK(modest, etl_save(modest, path));
    ASSERT_OK(modest, etl_attach_run(modest, path));
    counted_assert_load(modest, 0);
    ASSERT_OK(greedy, counted_collect_all(greedy, 200000)); /* has most of it now */
    ASSERT_OK(greedy, etl_save(greedy, path));
    ASSERT_OK(modest, counted_collect_all(modest, 0));
    for (int i = 0; i < 2; i++) {
        ASSERT_OK(modest, etl_attach_run(modest, path));
        ASSERT_OK(modest, etl_save(modest, path));
        counted_assert_load(modest, 200000);
    }
    assert_refused(modest, ETL_E_IO, support_fast_path("missing"), strerror(ENOENT));
    counted_assert_load(greedy, 200000);
    etl_pool_stats stats = {.struct_size = sizeof stats};
    assert_int_equal(etl_pool_get_stats(pool, &stats), ETL_OK);
    assert_int_equal(stats.collectors_active, 0);
    assert_in_range(stats.memory_bytes_peak, 0, 8 * MIB);
    etl_collector_destroy(greedy);
    etl_collector_destroy(modest);
    etl_pool_destroy(pool);
    assert_int_equal(unlink(path), 0);
}

/* Values of one key that are more than memory takes, in an order that is not theirs: the runs are
 * cut in the middle of the key. */
static void values_put_in_order(void **state) {
    (void)state;
    const char *path = support_fast_path("values");
    enum { COUNT = 3000, SIZE = 4000 };
    static uint8_t value[SIZE];
    etl_collector *collector = create(MIB, ETL_ACCESS_MMAP);
    for (uint32_t i = 0; i < COUNT; i++) {
        uint32_t scattered = i * 1237 % COUNT;
        etl__put_u32(value, scattered >> 8 | (scattered & 255) << 8); /* big-endian */
        ASSERT_OK(collector,
                  etl_collect(collector, etl_slice_str("key"),
                              i == 7 ? etl_slice_of(NULL, 0) : etl_slice_of(value, SIZE)));
    }
    ASSERT_OK(collector, etl_save(collector, path));
    etl_collector_destroy(collector);
    etl_options options = support_options(MIB);
    options.order_values = true;
    ASSERT_OK(NULL, etl_collector_create(&collector, &options));
    ASSERT_OK(collector, etl_attach_run(collector, path));
    etl_stats stats = {.struct_size = sizeof stats};
    ASSERT_OK(collector, etl_collector_stats(collector, &stats));
    assert_in_range(stats.memory_bytes_peak, 0, 3 * MIB / 2);
    assert_int_equal(stats.pairs, COUNT);
    etl_iter *iter;
    ASSERT_OK(collector, etl_iter_open(&iter, collector, NULL));
    etl_slice now;
    uint8_t kept[SIZE];
    for (size_t i = 0; i < COUNT; i++) {
        ASSERT_OK(collector, etl_iter_next(iter, NULL, &now));
        assert_true((now.data == NULL) == (i == 0));
        if (i > 1)
            assert_true(memcmp(kept, now.data, SIZE) < 0);
        if (i > 0)
            memcpy(kept, now.data, SIZE);
    }
    assert_int_equal(etl_iter_next(iter, NULL, NULL), ETL_END);
    etl_iter_close(iter);
    etl_collector_destroy(collector);
    assert_int_equal(unlink(path), 0);
}

/* By tests/run_reader.py, which was written from docs/RUN_FORMAT.md alone. */
static void an_independent_reader(void **state) {
    (void)state;
    const char *path = support_fast_path("saved");
    char command[1200];
    const char *source = strrchr(__FILE__, '/');
    int folder = source != NULL ? (int)(source - __FILE__) : 1;
    if (system("python3 -c '' 2>/dev/null") != 0)
        skip();
    for (uint64_t count = 0; count <= 3000; count += 1500) {
        save_counted(path, count);
        snprintf(command, sizeof command,
                 "test \"$(python3 '%.*s/run_reader.py' --dump '%s' | wc -l)\" -eq %u", folder,
                 source != NULL ? __FILE__ : ".", path, (unsigned)count);
        assert_int_equal(system(command), 0);
    }
    assert_int_equal(unlink(path), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_kinds_of_files),
        cmocka_unit_test(damage_anywhere),
        cmocka_unit_test(damage_in_a_large_file),
        cmocka_unit_test(other_versions),
        cmocka_unit_test(a_file_that_shrinks),
        cmocka_unit_test(many_files),
        cmocka_unit_test(in_a_pool),
        cmocka_unit_test(values_put_in_order),
        cmocka_unit_test(an_independent_reader),
    };
    return cmocka_run_group_tests(tests, support_setup, support_teardown);
}
