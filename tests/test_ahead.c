/* test_ahead.c: blocks that a thread checks ahead of their reader: it fills its window, what is
 * read is the same, and a block that is not right is told by whoever reads it, however it comes
 * there. */
#include "ahead.h"
#include "run_support.h"
#include <sched.h>
#include <unistd.h>

enum { READERS = 3, PAIR = 1000, DEADLINE_SECONDS = 60 };

/* A mapped run of about `blocks` blocks. */
static struct pairs pairs_of(size_t blocks) {
    struct pairs pairs = {NULL, 0, 0};
    for (size_t i = 0; i < blocks * ETL__RUN_BLOCK / PAIR; i++)
        pairs_add_next(&pairs, 12, PAIR - 20 + random_below(16));
    return pairs;
}

/* Several are alive at once: their disk is not counted. */
static struct etl__run *make_run(const struct pairs *pairs, etl_access access) {
    struct etl__run *run = write_run(pairs, pairs_bytes(pairs), 1 << 16, access);
    etl__disk_give(&disk, run->file_size);
    return run;
}

static struct etl__provider *open_reader(const struct etl__run *run, struct etl__ahead *ahead) {
    struct etl__provider *provider;
    assert_int_equal(etl__provider_file_open(&provider, run, &memory, 1, 1 << 20, &failure),
                     ETL_OK);
    etl__provider_file_check_ahead(provider, ahead);
    return provider;
}

static bool has_come_to(struct etl__ahead_reader *reader, uint64_t block) {
    for (uint64_t began = etl__os_now_ns();
         etl__os_now_ns() - began < DEADLINE_SECONDS * UINT64_C(1000000000); sched_yield())
        if (atomic_load(&reader->checked) >= block)
            return true;
    return false;
}

/* Readers take turns; the thread is waited for now and then. */
static void windows_are_filled(void **unused) {
    (void)unused;
    struct pairs pairs[READERS];
    struct etl__run *runs[READERS];
    struct etl__provider *readers[READERS];
    struct etl__ahead ahead;
    size_t at[READERS] = {0}, left = READERS;
    etl__ahead_open(&ahead, &memory, READERS);
    for (int i = 0; i < READERS; i++) {
        pairs[i] = pairs_of(i == 1 ? 40 : 400);
        runs[i] = make_run(&pairs[i], ETL_ACCESS_MMAP);
        readers[i] = open_reader(runs[i], &ahead);
    }
    assert_null(etl__ahead_add(&ahead, runs[0])); /* there is no room for more */
    while (left != 0) {
        size_t i = random_below(READERS), steps = 1 + random_below(200);
        if (at[i] == SIZE_MAX)
            continue;
        int status = read_and_compare(readers[i], &pairs[i], at[i], steps);
        at[i] += steps;
        if (status == ETL_END) {
            at[i] = SIZE_MAX;
            left--;
        } else {
            assert_int_equal(status, ETL_OK);
        }
        struct etl__ahead_reader *reader = &ahead.readers[i];
        uint64_t wanted = atomic_load(&reader->wanted), blocks = runs[i]->footer.blocks;
        if (ahead.started && wanted != 0 && random_below(20) == 0)
            assert_true(has_come_to(reader, wanted + 2 < blocks ? wanted + 2 : blocks));
    }
    assert_true(ahead.started);
    etl__ahead_close(&ahead);
    for (int i = 0; i < READERS; i++) {
        readers[i]->close(readers[i]);
        etl__run_close(runs[i], &memory);
        pairs_free(&pairs[i]);
    }
}

/* Runs that are small, or read through buffers, are not worth a thread. */
static void small_runs_have_no_thread(void **unused) {
    (void)unused;
    struct pairs pairs = pairs_of(200);
    for (int access = ETL_ACCESS_MMAP; access <= ETL_ACCESS_READ; access++) {
        struct etl__run *run = make_run(&pairs, (etl_access)access);
        struct etl__ahead ahead;
        etl__ahead_open(&ahead, &memory, 1);
        struct etl__provider *provider = open_reader(run, &ahead);
        assert_int_equal(read_and_compare(provider, &pairs, 0, SIZE_MAX), ETL_END);
        assert_false(ahead.started);
        etl__ahead_close(&ahead);
        provider->close(provider);
        etl__run_close(run, &memory);
    }
    pairs_free(&pairs);
}

/* A mapped run with a flipped bit in the middle of one of its blocks. */
static struct etl__run *damaged_run(const struct pairs *pairs, uint64_t block) {
    struct etl__run *run = make_run(pairs, ETL_ACCESS_MMAP);
    uint8_t *bytes = run_bytes(run);
    size_t size = (size_t)run->file_size;
    int descriptor;
    etl__run_close(run, &memory);
    bytes[block * ETL__RUN_BLOCK + ETL__RUN_BLOCK / 2] ^= 16;
    assert_int_equal(etl__os_temp_open(TEMP, "ahead", &descriptor), 0);
    assert_int_equal(etl__os_write(descriptor, bytes, size, 0), 0);
    assert_int_equal(etl__run_open(&run, &memory, descriptor, ETL_ACCESS_MMAP, TEMP, &failure),
                     ETL_OK);
    assert_non_null(run->map);
    free(bytes);
    return run;
}

static void damage_is_told_by_the_reader(void **unused) {
    (void)unused;
    struct pairs pairs = pairs_of(600);
    for (uint64_t block = 5; block < 600; block += 97 + random_below(97)) {
        struct etl__run *run = damaged_run(&pairs, block);
        struct etl__ahead ahead;
        etl__ahead_open(&ahead, &memory, 1);
        struct etl__provider *provider = open_reader(run, &ahead);
        struct etl__pair pair;
        size_t read = 0;
        int status;
        while ((status = etl__provider_read(provider, &pair, &failure)) == ETL_OK) {
            assert_true(same_pair(&pair, &pairs.pair[read]));
            read++;
        }
        assert_int_equal(status, ETL_E_CORRUPT);
        assert_true(read * PAIR <= (block + 1) * ETL__RUN_BLOCK);
        assert_true(atomic_load(&ahead.readers[0].checked) <= block);
        etl__ahead_close(&ahead);
        provider->close(provider);
        etl__run_close(run, &memory);
    }
    pairs_free(&pairs);
}

/* What lies between two places that were sought was checked by nobody. */
static void who_seeks_checks_by_itself(void **unused) {
    (void)unused;
    enum { DAMAGED = 300 };
    struct pairs pairs = pairs_of(600);
    struct etl__run *run = damaged_run(&pairs, DAMAGED);
    struct etl__ahead ahead;
    etl__ahead_open(&ahead, &memory, 1);
    struct etl__provider *provider = open_reader(run, &ahead);
    assert_int_equal(read_and_compare(provider, &pairs, 0, 1500), ETL_OK);
    assert_true(ahead.started);
    size_t behind = 400 * ETL__RUN_BLOCK / PAIR, before = 250 * ETL__RUN_BLOCK / PAIR;
    const struct etl__pair *to = &pairs.pair[behind];
    assert_int_equal(provider->seek(provider, to->key, to->key_size, &failure), ETL_OK);
    assert_int_equal(read_and_compare(provider, &pairs, behind, 1000), ETL_OK);
    to = &pairs.pair[before];
    assert_int_equal(provider->seek(provider, to->key, to->key_size, &failure), ETL_OK);
    assert_int_equal(read_and_compare(provider, &pairs, before, SIZE_MAX), ETL_E_CORRUPT);
    etl__ahead_close(&ahead);
    provider->close(provider);
    etl__run_close(run, &memory);
    pairs_free(&pairs);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(windows_are_filled),
        cmocka_unit_test(small_runs_have_no_thread),
        cmocka_unit_test(damage_is_told_by_the_reader),
        cmocka_unit_test(who_seeks_checks_by_itself),
    };
    return cmocka_run_group_tests(tests, run_setup, run_teardown);
}
