/* test_run.c: what is written to a run is what its providers give: shapes of pairs by buffers by
 * both kinds of access, seeks and bounds against a linear oracle, and the limits of the writer. */
#include "run_support.h"
#include <sys/stat.h>
#include <unistd.h>

static const size_t write_buffers[] = {ETL__RUN_BLOCK, 3 * ETL__RUN_BLOCK, 16 * ETL__RUN_BLOCK};

static void test_round_trip(void **unused) {
    (void)unused;
    for (int shape = 0; shape < SHAPES; shape++) {
        struct pairs pairs = pairs_of_shape(shape);
        for (size_t buffer = 0; buffer < 3; buffer++)
            for (int access = ETL_ACCESS_MMAP; access <= ETL_ACCESS_READ; access++) {
                struct etl__run *run = write_run(&pairs, pairs_bytes(&pairs),
                                                 write_buffers[buffer], (etl_access)access);
                assert_int_equal(run->map != NULL, access == ETL_ACCESS_MMAP);
                assert_int_equal(run->descriptor >= 0, access == ETL_ACCESS_READ);
                assert_int_equal(run->footer.pairs, pairs.count);
                assert_int_equal(run->footer.data_end, 64 + pairs_bytes(&pairs));
                for (size_t size = 1; size <= 20 * ETL__RUN_BLOCK; size = size * 3 + 8000)
                    assert_run_equals(run, &pairs, size);
                end_run(run);
            }
        pairs_free(&pairs);
    }
}

/* The guess of the size, and the buffer, decide about speed and never about a byte. */
static void test_expected(void **unused) {
    (void)unused;
    struct pairs pairs = {NULL, 0, 0};
    for (int i = 0; i < 2500; i++) /* 25 MB: a table of three pieces */
        pairs_add_next(&pairs, 20, 10000);
    uint64_t exact = pairs_bytes(&pairs);
    const uint64_t expected[] = {exact, 0, 1, exact / 3, exact - 1, exact + 1, 3 * exact};
    uint8_t *model = NULL;
    uint64_t model_size = 0;
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        struct etl__run *run = write_run(&pairs, expected[i], write_buffers[i % 3],
                                         i % 2 == 0 ? ETL_ACCESS_MMAP : ETL_ACCESS_READ);
        uint8_t *bytes = run_bytes(run);
        if (model == NULL) {
            model = bytes;
            model_size = run->file_size;
            assert_run_equals(run, &pairs, 1 << 18);
        } else {
            assert_int_equal(run->file_size, model_size);
            assert_memory_equal(bytes, model, model_size);
            free(bytes);
        }
        end_run(run);
    }
    free(model);
    pairs_free(&pairs);
}

/* Every count of pairs around a block's end: which record is the last, and where blocks begin. */
static void test_counts(void **unused) {
    (void)unused;
    for (size_t count = 0; count < 520; count += count < 3 || count > 240 ? 1 : 79) {
        struct pairs pairs = {NULL, 0, 0};
        for (size_t i = 0; i < count; i++)
            pairs_add_next(&pairs, 32, 30 + i % 2);
        struct etl__run *run =
            write_run(&pairs, pairs_bytes(&pairs), ETL__RUN_BLOCK, ETL_ACCESS_MMAP);
        uint64_t offset = ETL__RUN_HEADER_SIZE, last = offset, found, block = 0;
        for (size_t i = 0; i < count; i++) {
            for (; block * ETL__RUN_BLOCK <= offset; block++) {
                assert_int_equal(etl__run_record_at_block(run, block, &found, &failure), ETL_OK);
                assert_int_equal(found, offset);
            }
            last = offset;
            offset += record_bytes(&pairs.pair[i]);
        }
        assert_int_equal(run->footer.last_record, last);
        assert_int_equal(run->footer.data_end, offset);
        assert_int_equal(etl__run_record_at_block(run, block, &found, &failure), ETL_OK);
        assert_int_equal(found, offset);
        end_run(run);
        pairs_free(&pairs);
    }
}

static size_t lower_bound(const struct pairs *pairs, const uint8_t *key, size_t size) {
    size_t i = 0;
    while (i < pairs->count &&
           etl__key_compare(pairs->pair[i].key, pairs->pair[i].key_size, key, size) < 0)
        i++;
    return i;
}

static void check_seeks(struct etl__provider *provider, const struct pairs *pairs) {
    size_t capacity = 1 << 18;
    uint8_t *key = malloc(capacity);
    assert_non_null(key);
    for (int round = 0; round < 60; round++) {
        size_t size = random_below(8);
        for (size_t i = 0; i < size; i++)
            key[i] = (uint8_t)(random_below(3) * (random_below(2) == 0 ? 1 : 127));
        if (pairs->count != 0 && round % 4 != 0) { /* a key that is there, or close to one */
            const struct etl__pair *near = &pairs->pair[random_below(pairs->count)];
            size = near->key_size;
            memcpy(key, near->key, size);
            if (round % 4 == 2)
                key[size++] = 0;
            if (round % 4 == 3 && size != 0)
                size--;
        }
        assert_int_equal(provider->seek(provider, key, size, &failure), ETL_OK);
        size_t from = lower_bound(pairs, key, size), limit = random_below(300);
        int status = read_and_compare(provider, pairs, from, limit);
        assert_int_equal(status, limit > pairs->count - from ? ETL_END : ETL_OK);
    }
    free(key);
}

static void check_bounds(struct etl__provider *provider, const struct pairs *pairs) {
    etl_slice first, last;
    int status = provider->bounds(provider, &first, &last, &failure);
    if (pairs->count == 0) {
        assert_int_equal(status, ETL_END);
        return;
    }
    assert_int_equal(status, ETL_OK);
    const struct etl__pair *head = &pairs->pair[0], *tail = &pairs->pair[pairs->count - 1];
    assert_int_equal(etl__key_compare(first.data, first.size, head->key, head->key_size), 0);
    assert_int_equal(etl__key_compare(last.data, last.size, tail->key, tail->key_size), 0);
}

static void test_seek_and_bounds(void **unused) {
    (void)unused;
    for (int shape = 0; shape < SHAPES; shape++) {
        struct pairs pairs = pairs_of_shape(shape);
        for (int access = ETL_ACCESS_MMAP; access <= ETL_ACCESS_READ; access++) {
            struct etl__run *run =
                write_run(&pairs, pairs_bytes(&pairs), 1 << 16, (etl_access)access);
            for (size_t size = 1; size <= 1 << 18; size <<= 6) {
                struct etl__provider *provider;
                assert_int_equal(
                    etl__provider_file_open(&provider, run, &memory, size, 1 << 17, &failure),
                    ETL_OK);
                /* Bounds in the midst of reading disturb nothing. */
                size_t half = pairs.count / 2;
                assert_int_equal(read_and_compare(provider, &pairs, 0, half), ETL_OK);
                check_bounds(provider, &pairs);
                assert_int_equal(read_and_compare(provider, &pairs, half, SIZE_MAX), ETL_END);
                check_seeks(provider, &pairs);
                check_bounds(provider, &pairs);
                provider->close(provider);
            }
            end_run(run);
        }
        pairs_free(&pairs);
    }
}

/* Neither reading nor appending asks for memory, once opened; large records do and give it back.
 */
static void test_allocations(void **unused) {
    (void)unused;
    struct pairs pairs = pairs_of_shape(3);
    struct etl__run_writer *writer;
    struct etl__provider *provider;
    assert_int_equal(
        etl__run_writer_create(&writer, &memory, &disk, ETL__RUN_BLOCK, NULL, &failure), ETL_OK);
    for (int round = 0; round < 3; round++)
        for (int access = ETL_ACCESS_MMAP; access <= ETL_ACCESS_READ; access++) {
            struct etl__run *run;
            uint64_t before = memory.allocations;
            assert_int_equal(etl__run_writer_open(writer, TEMP, "test", 1, &failure), ETL_OK);
            for (size_t i = 0; i < pairs.count; i++)
                assert_int_equal(etl__run_writer_append(writer, &pairs.pair[i], &failure), ETL_OK);
            assert_int_equal(memory.allocations, before);
            assert_int_equal(etl__run_writer_close(writer, (etl_access)access, &run, &failure),
                             ETL_OK);
            assert_int_equal(
                etl__provider_file_open(&provider, run, &memory, 1 << 16, 1 << 16, &failure),
                ETL_OK);
            before = memory.allocations;
            assert_int_equal(read_and_compare(provider, &pairs, 0, SIZE_MAX), ETL_END);
            assert_int_equal(memory.allocations, before);
            provider->close(provider);
            end_run(run);
        }
    etl__run_writer_destroy(writer);
    pairs_free(&pairs);

    struct pairs mixed = {NULL, 0, 0};
    pairs_add_next(&mixed, 8, 4 << 20); /* more than small blocks that are kept */
    for (int i = 0; i < 20; i++)
        pairs_add_next(&mixed, 8, 10000);
    struct etl__run *run = write_run(&mixed, 0, 1 << 16, ETL_ACCESS_READ);
    assert_int_equal(etl__provider_file_open(&provider, run, &memory, 1 << 16, 1 << 16, &failure),
                     ETL_OK);
    size_t opened = memory.used;
    assert_int_equal(read_and_compare(provider, &mixed, 0, 1), ETL_OK);
    assert_true(memory.used >= opened + (4 << 20));
    assert_int_equal(read_and_compare(provider, &mixed, 1, SIZE_MAX), ETL_END);
    assert_int_equal(memory.used, opened);
    provider->close(provider);
    end_run(run);
    pairs_free(&mixed);
}

static void test_disk_limit(void **unused) {
    (void)unused;
    struct pairs pairs = pairs_of_shape(3);
    struct etl__run_writer *writer;
    struct etl__run *run;
    uint64_t file_size = 64 + pairs_bytes(&pairs) + 128;
    file_size += (64 + pairs_bytes(&pairs) + ETL__RUN_BLOCK - 1) / ETL__RUN_BLOCK * 8;
    assert_int_equal(
        etl__run_writer_create(&writer, &memory, &disk, ETL__RUN_BLOCK, NULL, &failure), ETL_OK);
    const uint64_t limits[] = {1, 20000, file_size - 1, file_size, file_size + 1};
    for (size_t i = 0; i < 5; i++) {
        disk.limit = limits[i];
        disk.peak = 0;
        int status = etl__run_writer_open(writer, TEMP, "test", pairs_bytes(&pairs), &failure);
        for (size_t k = 0; status == ETL_OK && k < pairs.count; k++)
            status = etl__run_writer_append(writer, &pairs.pair[k], &failure);
        if (status == ETL_OK)
            status = etl__run_writer_close(writer, ETL_ACCESS_MMAP, &run, &failure);
        assert_int_equal(status, limits[i] < file_size ? ETL_E_NOSPACE : ETL_OK);
        if (status == ETL_OK) {
            assert_int_equal(disk.used, file_size);
            assert_run_equals(run, &pairs, 1);
            end_run(run);
        } else {
            assert_non_null(strstr(failure.text, TEMP));
            assert_true(disk.used <= limits[i]);
            etl__run_writer_abandon(writer);
        }
        assert_int_equal(disk.used, 0);
        assert_true(disk.peak <= limits[i]);
    }
    disk.limit = 0;
    etl__run_writer_destroy(writer);
    pairs_free(&pairs);
}

static void test_refused(void **unused) {
    (void)unused;
    struct etl__run_writer *writer;
    atomic_int cancel = 0;
    assert_int_equal(
        etl__run_writer_create(&writer, &memory, &disk, ETL__RUN_BLOCK, &cancel, &failure),
        ETL_OK);
    struct etl__pair high = {(const uint8_t *)"b", NULL, 1, 0};
    struct etl__pair low = {(const uint8_t *)"a", NULL, 1, 0};
    assert_int_equal(etl__run_writer_open(writer, TEMP, "test", 0, &failure), ETL_OK);
    assert_int_equal(etl__run_writer_append(writer, &high, &failure), ETL_OK);
    assert_int_equal(etl__run_writer_append(writer, &high, &failure), ETL_OK);
    assert_int_equal(etl__run_writer_append(writer, &low, &failure), ETL_E_CORRUPT);
    etl__run_writer_abandon(writer);
    etl__run_writer_abandon(writer);

    assert_int_equal(etl__run_writer_open(writer, "/no/such/place", "test", 0, &failure),
                     ETL_E_IO);
    assert_non_null(strstr(failure.text, "/no/such/place"));
    assert_int_equal(etl__run_writer_open(writer, TEMP, "test", UINT64_MAX, &failure),
                     ETL_E_NOSPACE);

    assert_int_equal(etl__run_writer_open(writer, TEMP, "test", 0, &failure), ETL_OK);
    cancel = 1;
    int status = ETL_OK;
    for (int i = 0; status == ETL_OK && i < 100000; i++)
        status = etl__run_writer_append(writer, &high, &failure);
    assert_int_equal(status, ETL_E_CANCELLED);
    etl__run_writer_destroy(writer); /* abandons */
    assert_int_equal(disk.used, 0);
}

/* The reader that was written from the specification agrees. */
static void test_stranger(void **unused) {
    static const char hex[] = "0123456789abcdef";
    char place[] = TEMP "/etl-test-run-XXXXXX", name[64], command[4096];
    (void)unused;
    if (system("python3 -c '' 2>/dev/null") != 0)
        skip();
    const char *source = strrchr(__FILE__, '/');
    int folder = source != NULL ? (int)(source - __FILE__) : 1;
    assert_non_null(mkdtemp(place));
    snprintf(name, sizeof name, "%s/run", place);
    for (int shape = 0; shape < SHAPES; shape++) {
        struct pairs pairs = pairs_of_shape(shape);
        struct etl__run *run = write_run(&pairs, 0, 1 << 16, ETL_ACCESS_READ);
        uint8_t *bytes = run_bytes(run);
        FILE *file = fopen(name, "wb");
        assert_non_null(file);
        assert_int_equal(fwrite(bytes, 1, (size_t)run->file_size, file), run->file_size);
        assert_int_equal(fclose(file), 0);
        snprintf(command, sizeof command, "python3 '%.*s/run_reader.py' --dump '%s'", folder,
                 source != NULL ? __FILE__ : ".", name);
        FILE *dump = popen(command, "r");
        assert_non_null(dump);
        for (size_t i = 0; i < pairs.count; i++) {
            const struct etl__pair *pair = &pairs.pair[i];
            for (size_t k = 0; k < pair->key_size; k++) {
                assert_int_equal(getc(dump), hex[pair->key[k] >> 4]);
                assert_int_equal(getc(dump), hex[pair->key[k] & 15]);
            }
            assert_int_equal(getc(dump), '\t');
            for (size_t k = 0; k < pair->value_size; k++) {
                assert_int_equal(getc(dump), hex[pair->value[k] >> 4]);
                assert_int_equal(getc(dump), hex[pair->value[k] & 15]);
            }
            if (pair->value == NULL)
                assert_int_equal(getc(dump), '-');
            assert_int_equal(getc(dump), '\n');
        }
        assert_int_equal(getc(dump), EOF);
        assert_int_equal(pclose(dump), 0);
        free(bytes);
        end_run(run);
        pairs_free(&pairs);
    }
    assert_int_equal(unlink(name), 0);
    assert_int_equal(rmdir(place), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),  cmocka_unit_test(test_expected),
        cmocka_unit_test(test_counts),      cmocka_unit_test(test_seek_and_bounds),
        cmocka_unit_test(test_allocations), cmocka_unit_test(test_disk_limit),
        cmocka_unit_test(test_refused),     cmocka_unit_test(test_stranger),
    };
    return cmocka_run_group_tests(tests, run_setup, run_teardown);
}
