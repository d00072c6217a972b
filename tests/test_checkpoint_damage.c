/* test_checkpoint_damage.c: whatever the files of a checkpoint have become, restoring tells it,
 * takes no memory for a number that nobody checked, and leaves the files as they are. A manifest
 * of right checksums and wrong numbers is refused or harmless. */
#include "checkpoint_support.h"
#include "crc32c.h"
#include "run_format.h"

enum { HEADER = 96, RUN = 32, PAIRS = 300, RUNS = 3, EDITS = 3000 };

static struct {
    const char *directory;
    const char *manifest;
    unsigned char *bytes; /* of the whole manifest */
    size_t size;
} made;

static int setup(void **state) {
    static char manifest[400];
    if (support_setup(state) != 0)
        return -1;
    uint64_t at = 0;
    made.directory = new_directory();
    etl_collector *collector = restored(made.directory, NULL, &at);
    for (int run = 0; run < RUNS; run++) {
        for (int i = 0; i < PAIRS / RUNS; i++)
            ASSERT_OK(collector, counted_collect(collector, at++));
        ASSERT_OK(collector, etl_checkpoint(collector, made.directory, token_of(&at)));
    }
    etl_collector_destroy(collector);
    snprintf(manifest, sizeof manifest, "%s", file_in(made.directory, "etl-manifest"));
    made.manifest = manifest;
    made.bytes = read_file(manifest, &made.size);
    assert_int_equal(made.size, HEADER + RUNS * RUN + sizeof at + 4);
    return 0;
}

static int teardown(void **state) {
    free(made.bytes);
    remove_directory(made.directory);
    return support_teardown(state);
}

/* The layout that docs/CHECKPOINTS.md says. */
static void a_manifest_is_as_documented(void **state) {
    (void)state;
    const unsigned char *bytes = made.bytes;
    assert_memory_equal(bytes,
                        "\x89"
                        "ETLCKP\n",
                        8);
    assert_int_equal(etl__get_u32(bytes + 8), 1); /* version */
    assert_int_equal(etl__get_u32(bytes + 12), ETL_KEEP_ALL);
    assert_int_equal(etl__get_u32(bytes + 16), 0);    /* order_values */
    assert_int_equal(etl__get_u64(bytes + 24), RUNS); /* checkpoints */
    assert_int_equal(etl__get_u64(bytes + 32), RUNS + 1);
    assert_int_equal(etl__get_u64(bytes + 40), PAIRS);
    assert_int_equal(etl__get_u64(bytes + 48), PAIRS * 8);
    assert_int_equal(etl__get_u64(bytes + 56), PAIRS * COUNTED_VALUE_SIZE);
    assert_int_equal(etl__get_u64(bytes + 64), RUNS);
    assert_int_equal(etl__get_u64(bytes + 72), 8);
    assert_int_equal(etl__get_u32(bytes + 92), etl__crc32c(0, bytes, 92));
    for (uint64_t i = 0; i < RUNS; i++) {
        const unsigned char *run = bytes + HEADER + i * RUN;
        struct stat status;
        char name[40];
        assert_int_equal(etl__get_u64(run), i + 1);
        snprintf(name, sizeof name, "etl-%016llx.run", (unsigned long long)(i + 1));
        assert_int_equal(stat(file_in(made.directory, name), &status), 0);
        assert_int_equal(etl__get_u64(run + 8), status.st_size);
        assert_int_equal(etl__get_u64(run + 16), PAIRS / RUNS);
    }
    assert_int_equal(etl__get_u64(bytes + HEADER + RUNS * RUN), PAIRS);
    assert_int_equal(etl__get_u32(bytes + made.size - 4), etl__crc32c(0, bytes, made.size - 4));
}

static int restore(char message[640]) {
    etl_collector *collector;
    etl_slice token;
    size_t runs = count_files(made.directory, ".run");
    int status = etl_restore_message(&collector, NULL, made.directory, &token, message, 640);
    assert_true(status == ETL_OK || count_files(made.directory, ".run") == runs);
    etl_collector_destroy(collector);
    return status;
}

static void assert_damaged(const void *bytes, size_t size) {
    char message[640] = "";
    write_file(made.manifest, bytes, size);
    assert_int_equal(restore(message), ETL_E_CORRUPT);
    assert_non_null(strstr(message, made.manifest));
}

static void put_right(void) {
    uint64_t number;
    write_file(made.manifest, made.bytes, made.size);
    etl_collector *collector = restored(made.directory, NULL, &number);
    assert_int_equal(number, PAIRS);
    counted_assert_load(collector, PAIRS);
    etl_collector_destroy(collector);
}

/* Nor is it taken for none by a collector that was made without one. */
static void a_damaged_manifest_is_not_overwritten(void **state) {
    (void)state;
    etl_collector *collector;
    write_file(made.manifest, made.bytes, made.size - 1);
    ASSERT_OK(NULL, etl_collector_create(&collector, NULL));
    ASSERT_STATUS(ETL_E_CORRUPT, collector,
                  etl_checkpoint(collector, made.directory, etl_slice_of(NULL, 0)));
    etl_collector_destroy(collector);
    put_right();
}

static void every_flipped_bit_and_every_length_is_noticed(void **state) {
    (void)state;
    unsigned char *bytes = malloc(made.size + 1);
    assert_non_null(bytes);
    for (size_t bit = 0; bit < 8 * made.size; bit++) {
        memcpy(bytes, made.bytes, made.size);
        bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
        assert_damaged(bytes, made.size);
    }
    for (size_t size = 0; size < made.size; size++)
        assert_damaged(made.bytes, size);
    memcpy(bytes, made.bytes, made.size);
    bytes[made.size] = 0;
    assert_damaged(bytes, made.size + 1);
    free(bytes);
    put_right();
}

/* Make the checksums right again. */
static void sign(unsigned char *bytes, size_t size) {
    etl__put_u32(bytes + 92, etl__crc32c(0, bytes, 92));
    etl__put_u32(bytes + size - 4, etl__crc32c(0, bytes, size - 4));
}

static void assert_edit_refused(size_t at, uint64_t value, size_t width, int expected) {
    unsigned char bytes[512];
    char message[640] = "";
    memcpy(bytes, made.bytes, made.size);
    for (size_t i = 0; i < width; i++)
        bytes[at + i] = (unsigned char)(value >> 8 * i);
    sign(bytes, made.size);
    write_file(made.manifest, bytes, made.size);
    int status = restore(message);
    if (status != expected)
        fail_msg("%llu at %zu: %d, \"%s\"", (unsigned long long)value, at, status, message);
    assert_int_not_equal(strlen(message), 0);
}

static void edited_numbers_are_refused(void **state) {
    (void)state;
    assert_edit_refused(8, 2, 4, ETL_E_INVALID); /* a newer version */
    assert_edit_refused(8, 0, 4, ETL_E_INVALID);
    assert_edit_refused(12, 6, 4, ETL_E_CORRUPT); /* duplicates */
    assert_edit_refused(12, ETL_REDUCE, 4, ETL_E_INVALID);
    assert_edit_refused(16, 2, 4, ETL_E_CORRUPT);
    assert_edit_refused(16, 1, 4, ETL_E_INVALID);
    assert_edit_refused(20, 1, 4, ETL_E_CORRUPT); /* reserved */
    assert_edit_refused(84, 1, 8, ETL_E_CORRUPT);
    assert_edit_refused(80, 1, 8, ETL_E_CORRUPT);
    assert_edit_refused(32, RUNS, 8, ETL_E_CORRUPT); /* the next file */
    assert_edit_refused(64, RUNS + 1, 8, ETL_E_CORRUPT);
    assert_edit_refused(64, UINT64_MAX / RUN, 8, ETL_E_CORRUPT);
    assert_edit_refused(72, 9, 8, ETL_E_CORRUPT); /* the token */
    assert_edit_refused(72, UINT64_MAX, 8, ETL_E_CORRUPT);
    assert_edit_refused(72, 8 + RUN, 8, ETL_E_CORRUPT);
    assert_edit_refused(HEADER, 0, 8, ETL_E_CORRUPT); /* a run's file */
    assert_edit_refused(HEADER, RUNS + 1, 8, ETL_E_CORRUPT);
    assert_edit_refused(HEADER, 2, 8, ETL_E_CORRUPT); /* another's: it differs in its checksum */
    assert_edit_refused(HEADER + 8, 1, 8, ETL_E_CORRUPT);
    assert_edit_refused(HEADER + 16, 1, 8, ETL_E_CORRUPT);
    assert_edit_refused(HEADER + 24, 1, 4, ETL_E_CORRUPT);
    assert_edit_refused(HEADER + 28, 1, 4, ETL_E_CORRUPT);
    put_right();
}

static void random_edits_are_harmless(void **state) {
    (void)state;
    struct prng prng;
    prng_start(&prng, 0);
    size_t edits = support_scaled(EDITS);
    for (size_t i = 0; i < edits; i++) {
        unsigned char bytes[512];
        char message[640];
        size_t size = prng_permille(&prng, 300) ? prng_between(&prng, 0, made.size) : made.size;
        memcpy(bytes, made.bytes, made.size);
        for (size_t edit = prng_between(&prng, 1, 4); edit != 0; edit--)
            bytes[prng_below(&prng, made.size)] = (unsigned char)prng_next(&prng);
        if (size == made.size)
            sign(bytes, size);
        write_file(made.manifest, bytes, size);
        /* Whatever it is now, it must not remove the runs of the others. */
        etl_collector *collector;
        int status =
            etl_restore_message(&collector, NULL, made.directory, NULL, message, sizeof message);
        etl_collector_destroy(collector);
        assert_true(status == ETL_OK || status == ETL_E_CORRUPT || status == ETL_E_INVALID ||
                    status == ETL_E_IO);
    }
    put_right();
}

static void damaged_runs_are_told(void **state) {
    (void)state;
    char run[400], other[400], message[640] = "";
    size_t size;
    snprintf(run, sizeof run, "%s", file_in(made.directory, "etl-0000000000000002.run"));
    snprintf(other, sizeof other, "%s", file_in(made.directory, "etl-0000000000000003.run"));
    unsigned char *bytes = read_file(run, &size);
    write_file(run, bytes, size - 1);
    assert_int_equal(restore(message), ETL_E_CORRUPT);
    assert_non_null(strstr(message, run));
    write_file(run, bytes, 0);
    assert_int_equal(restore(message), ETL_E_CORRUPT);
    assert_int_equal(unlink(run), 0);
    assert_int_equal(restore(message), ETL_E_IO);
    assert_non_null(strstr(message, run));
    /* Another run, whole, of the same size. */
    size_t other_size;
    unsigned char *other_bytes = read_file(other, &other_size);
    write_file(run, other_bytes, other_size);
    assert_int_equal(restore(message), ETL_E_CORRUPT);
    assert_non_null(strstr(message, run));
    free(other_bytes);
    /* A record that was changed is told when it is read. */
    bytes[100] ^= 1;
    write_file(run, bytes, size);
    uint64_t number;
    etl_collector *collector = restored(made.directory, NULL, &number);
    struct counted counted = {0, PAIRS, 0};
    ASSERT_STATUS(ETL_E_CORRUPT, collector, etl_load(collector, counted_load, &counted));
    etl_collector_destroy(collector);
    bytes[100] ^= 1;
    write_file(run, bytes, size);
    free(bytes);
    put_right();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_manifest_is_as_documented),
        cmocka_unit_test(a_damaged_manifest_is_not_overwritten),
        cmocka_unit_test(every_flipped_bit_and_every_length_is_noticed),
        cmocka_unit_test(edited_numbers_are_refused),
        cmocka_unit_test(random_edits_are_harmless),
        cmocka_unit_test(damaged_runs_are_told),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
