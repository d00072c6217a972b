/* test_checkpoint_contracts.c: what etl.h says of checkpoints, one case after the other: tokens, files,
 * what a load leaves, and what is refused. */
#include "checkpoint_support.h"

/* ---- What is kept */

static etl_collector *collector_with(const char *directory, uint64_t pairs) {
    etl_options options = support_options(MIB);
    etl_collector *collector;
    ASSERT_OK(NULL, etl_collector_create(&collector, &options));
    ASSERT_OK(collector, counted_collect_all(collector, pairs));
    ASSERT_OK(collector, etl_checkpoint(collector, directory, token_of(&pairs)));
    return collector;
}

static void a_missing_directory_is_made_and_gives_an_empty_collector(void **state) {
    (void)state;
    const char *directory = new_directory();
    etl_collector *collector = NULL;
    etl_slice token = etl_slice_of("x", 1);
    ASSERT_OK(NULL, etl_restore(&collector, NULL, directory, &token));
    assert_null(token.data);
    assert_int_equal(token.size, 0);
    counted_assert_load(collector, 0);
    etl_collector_destroy(collector);
    struct stat status;
    assert_int_equal(stat(directory, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0700);
    remove_directory(directory);
}

static void tokens_of_any_size_come_back(void **state) {
    (void)state;
    static const size_t sizes[] = {0, 1, 7, 4096, 100003, 3 * MIB};
    const char *directory = new_directory();
    unsigned char *bytes = malloc(3 * MIB);
    assert_non_null(bytes);
    for (size_t i = 0; i < 3 * MIB; i++)
        bytes[i] = (unsigned char)(i * 31 >> 3);
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        etl_collector *collector;
        etl_slice token;
        ASSERT_OK(NULL, etl_restore(&collector, NULL, directory, &token));
        assert_int_equal(token.size, i == 0 ? 0 : sizes[i - 1]);
        assert_true((token.data == NULL) == (i == 0));
        if (token.size != 0)
            assert_memory_equal(token.data, bytes, token.size);
        /* the token that was restored may be given too */
        ASSERT_OK(collector, etl_checkpoint(collector, directory, token));
        ASSERT_OK(collector, etl_checkpoint(collector, directory, etl_slice_of(bytes, sizes[i])));
        etl_collector_destroy(collector);
    }
    free(bytes);
    remove_directory(directory);
}

static void a_checkpoint_adds_files_and_rewrites_none(void **state) {
    (void)state;
    const char *directory = new_directory();
    etl_options options = support_options(8 * MIB);
    uint64_t number, collected = 0;
    etl_collector *collector = restored(directory, &options, &number);
    size_t files = 0, merges = 0;
    for (int i = 0; i < 200; i++) {
        etl_stats before = {.struct_size = sizeof before}, after = before;
        for (int j = 0; j < 10; j++)
            ASSERT_OK(collector, counted_collect(collector, collected++));
        (void)etl_collector_stats(collector, &before);
        ASSERT_OK(collector, etl_checkpoint(collector, directory, token_of(&collected)));
        (void)etl_collector_stats(collector, &after);
        size_t now = count_files(directory, ".run");
        if (after.merge_passes == before.merge_passes) {
            assert_int_equal(now, files + 1);
            assert_in_range(after.spilled_bytes - before.spilled_bytes, 1, 1000);
        } else {
            merges++;
        }
        assert_in_range(now, 1, 64);
        files = now;
    }
    assert_in_range(merges, 1, 10);
    ASSERT_OK(collector, etl_checkpoint(collector, directory, token_of(&collected)));
    assert_int_equal(count_files(directory, ".run"), files); /* nothing was new */
    etl_collector_destroy(collector);
    collector = restored(directory, &options, &number);
    assert_int_equal(number, collected);
    counted_assert_load(collector, collected);
    etl_collector_destroy(collector);
    remove_directory(directory);
}

static void a_load_leaves_the_checkpoint_until_the_next_one(void **state) {
    (void)state;
    const char *directory = new_directory();
    for (int reset = 0; reset < 2; reset++) {
        uint64_t number = 0, done = 7;
        etl_collector *collector =
            reset ? restored(directory, NULL, &number) : collector_with(directory, 30000);
        if (reset) {
            assert_int_equal(number, 7); /* of the empty collector */
            ASSERT_OK(collector, counted_collect_all(collector, 30000));
            number = 30000;
            ASSERT_OK(collector, etl_checkpoint(collector, directory, token_of(&number)));
            ASSERT_OK(collector, etl_reset(collector));
        } else {
            counted_assert_load(collector, 30000);
        }
        /* What is spilled now and not in a checkpoint is not kept. */
        ASSERT_OK(collector, counted_collect_all(collector, 5));
        ASSERT_OK(collector, etl_flush(collector));
        etl_collector_destroy(collector);
        size_t runs = count_files(directory, ".run");
        collector = restored(directory, NULL, &number);
        assert_int_equal(count_files(directory, ".run"), runs);
        assert_int_equal(number, 30000);
        counted_assert_load(collector, 30000);
        ASSERT_OK(collector, etl_checkpoint(collector, directory, token_of(&done)));
        assert_int_equal(count_files(directory, ".run"), 0);
        etl_collector_destroy(collector);
    }
    remove_directory(directory);
}

static void only_files_of_ours_are_removed(void **state) {
    (void)state;
    static const char *const ours[] = {"etl-00000000000000ff.run", "etl-0123456789abcdef.tmp"};
    static const char *const others[] = {"notes.txt",
                                         "etl-",
                                         "etl-lock2",
                                         "etl-00000000000000fg.run",
                                         "etl-00000000000000ff.runs",
                                         "etl-00000000000000FF.run",
                                         "xetl-0000000000000ff.run",
                                         "etl-00000000000000ff.bak"};
    const char *directory = new_directory();
    etl_collector_destroy(collector_with(directory, 1000));
    size_t runs = count_files(directory, ".run");
    for (size_t i = 0; i < COUNT_OF(ours); i++)
        write_file(file_in(directory, ours[i]), "x", 1);
    for (size_t i = 0; i < COUNT_OF(others); i++)
        write_file(file_in(directory, others[i]), "x", 1);
    uint64_t number;
    etl_collector *collector = restored(directory, NULL, &number);
    for (size_t i = 0; i < COUNT_OF(ours); i++)
        assert_int_not_equal(access(file_in(directory, ours[i]), F_OK), 0);
    for (size_t i = 0; i < COUNT_OF(others); i++)
        assert_int_equal(unlink(file_in(directory, others[i])), 0);
    assert_int_equal(count_files(directory, ".run"), runs);
    counted_assert_load(collector, 1000);
    etl_collector_destroy(collector);
    remove_directory(directory);
}

/* What the caller attached is the caller's to remove, once there is a checkpoint. */
static void attached_runs_are_copied(void **state) {
    (void)state;
    const char *directory = new_directory(), *file = support_path("attached.run");
    etl_options options = support_options(MIB);
    etl_collector *collector;
    uint64_t number, count = 40000;
    ASSERT_OK(NULL, etl_collector_create(&collector, &options));
    ASSERT_OK(collector, counted_collect_all(collector, count / 2));
    ASSERT_OK(collector, etl_save(collector, file));
    etl_collector_destroy(collector);
    collector = restored(directory, &options, &number);
    for (uint64_t i = count / 2; i < count; i++)
        ASSERT_OK(collector, counted_collect(collector, i));
    ASSERT_OK(collector, etl_attach_run(collector, file));
    ASSERT_OK(collector, etl_checkpoint(collector, directory, token_of(&count)));
    etl_collector_destroy(collector);
    assert_int_equal(unlink(file), 0);
    collector = restored(directory, &options, &number);
    counted_assert_load(collector, count);
    etl_collector_destroy(collector);
    remove_directory(directory);
}

static void pools_and_disk_limits_hold(void **state) {
    (void)state;
    const char *directory = new_directory();
    etl_pool *pool;
    etl_pool_options shared = LIBETL_POOL_OPTIONS_INIT;
    shared.memory_limit = 16 * MIB;
    assert_int_equal(etl_pool_create(&pool, &shared), ETL_OK);
    etl_options options = support_options(0);
    options.pool = pool;
    uint64_t number, count = 100000;
    etl_collector *collector = restored(directory, &options, &number);
    ASSERT_OK(collector, counted_collect_all(collector, count));
    ASSERT_OK(collector, etl_checkpoint(collector, directory, token_of(&count)));
    etl_collector_destroy(collector);
    collector = restored(directory, &options, &number);
    etl_stats stats = {.struct_size = sizeof stats};
    (void)etl_collector_stats(collector, &stats);
    assert_in_range(stats.disk_bytes, count * 32, count * 48);
    counted_assert_load(collector, count);
    (void)etl_collector_stats(collector, &stats);
    assert_int_equal(stats.disk_bytes, 0);
    etl_collector_destroy(collector);
    etl_pool_destroy(pool);

    options = support_options(MIB);
    options.disk_limit = count * 33; /* less than is there */
    collector = restored(directory, &options, &number);
    int status = ETL_OK;
    for (uint64_t i = count; i < 2 * count && status == ETL_OK; i++)
        status = counted_collect(collector, i);
    ASSERT_STATUS(ETL_E_NOSPACE, collector, status);
    ASSERT_STATUS(ETL_E_NOSPACE, collector,
                  etl_checkpoint(collector, directory, token_of(&count)));
    etl_collector_destroy(collector);
    collector = restored(directory, NULL, &number);
    counted_assert_load(collector, count);
    etl_collector_destroy(collector);
    remove_directory(directory);
}

/* ---- What is refused */

#define ASSERT_MESSAGE(collector, part) \
    assert_non_null(strstr(etl_collector_message(collector), part))

static void assert_refused(int expected, const char *directory, const etl_options *options,
                           const char *part) {
    char message[640] = "";
    etl_slice token = etl_slice_of("x", 1);
    etl_collector *collector = (etl_collector *)&token;
    int status =
        etl_restore_message(&collector, options, directory, &token, message, sizeof message);
    if (status != expected || strstr(message, part) == NULL)
        fail_msg("%d for %d: \"%s\" for \"%s\"", status, expected, message, part);
    assert_null(collector);
    assert_null(token.data);
    assert_int_equal(etl_restore(&collector, options, directory, &token), expected);
}

static void arguments_are_checked(void **state) {
    (void)state;
    const char *directory = new_directory();
    etl_collector *collector = NULL;
    etl_slice none = etl_slice_of(NULL, 0);
    char message[40] = "";
    assert_int_equal(etl_checkpoint(NULL, directory, none), ETL_E_INVALID);
    assert_int_equal(etl_restore(NULL, NULL, directory, NULL), ETL_E_INVALID);
    assert_int_equal(etl_restore_message(NULL, NULL, directory, NULL, message, sizeof message),
                     ETL_E_INVALID);
    assert_non_null(strstr(message, "out"));
    assert_refused(ETL_E_INVALID, NULL, NULL, "directory");
    etl_options options = support_options(MIB);
    options.threads = 1000;
    assert_refused(ETL_E_INVALID, directory, &options, "threads");
    ASSERT_OK(NULL, etl_restore(&collector, NULL, directory, NULL));
    ASSERT_STATUS(ETL_E_INVALID, collector, etl_checkpoint(collector, NULL, none));
    ASSERT_STATUS(ETL_E_INVALID, collector,
                  etl_checkpoint(collector, directory, etl_slice_of(NULL, 1)));
    ASSERT_STATUS(ETL_E_TOO_LARGE, collector,
                  etl_checkpoint(collector, directory, etl_slice_of("", ETL_TOKEN_MAX + 1)));
    ASSERT_STATUS(ETL_E_INVALID, collector, etl_checkpoint(collector, "/elsewhere", none));
    ASSERT_MESSAGE(collector, directory);
    ASSERT_STATUS(ETL_E_IO, collector, etl_checkpoint(collector, "", none));
    etl_cancel(collector);
    ASSERT_STATUS(ETL_E_CANCELLED, collector, etl_checkpoint(collector, directory, none));
    etl_resume(collector);
    ASSERT_OK(collector, etl_checkpoint(collector, directory, none));
    etl_collector_destroy(collector);
    remove_directory(directory);
}

static void a_directory_that_cannot_be_is_refused(void **state) {
    (void)state;
    char path[5000];
    assert_refused(ETL_E_IO, "/proc/self/none/checkpoints", NULL, "directory of checkpoints");
    write_file(support_path("file"), "x", 1);
    assert_refused(ETL_E_IO, support_path("file"), NULL, "Not a directory");
    memset(path, 'd', sizeof path);
    path[0] = '/';
    path[sizeof path - 1] = '\0';
    assert_refused(ETL_E_IO, path, NULL, "directory of checkpoints /ddd");
    const char *directory = new_directory();
    assert_int_equal(mkdir(directory, 0700), 0);
    assert_int_equal(mkdir(file_in(directory, "etl-manifest"), 0700), 0);
    assert_refused(ETL_E_IO, directory, NULL, "etl-manifest");
    assert_int_equal(rmdir(file_in(directory, "etl-manifest")), 0);
    (void)unlink(file_in(directory, "etl-lock"));
    assert_int_equal(mkdir(file_in(directory, "etl-lock"), 0700), 0);
    assert_refused(ETL_E_IO, directory, NULL, "etl-lock");
    assert_int_equal(rmdir(file_in(directory, "etl-lock")), 0);
    remove_directory(directory);
}

static int checkpoint_from_callback(void *context, etl_slice key, etl_slice value) {
    etl_collector *collector = *(etl_collector **)context;
    (void)key, (void)value;
    return etl_checkpoint(collector, "anywhere", etl_slice_of(NULL, 0)) == ETL_E_STATE ? 1 : 2;
}

static struct { const char *directory; } shared;

static void restore_in_another_process(void) {
    etl_collector *collector;
    etl_slice token;
    char message[640];
    CHILD_CHECK(etl_restore_message(&collector, NULL, shared.directory, &token, message,
                                    sizeof message) == ETL_E_STATE);
    CHILD_CHECK(strstr(message, shared.directory) != NULL);
}

static void a_directory_has_one_collector(void **state) {
    (void)state;
    const char *directory = new_directory();
    etl_collector *first = collector_with(directory, 100), *second;
    assert_refused(ETL_E_STATE, directory, NULL, directory);
    ASSERT_OK(NULL, etl_collector_create(&second, NULL));
    ASSERT_OK(second, counted_collect_all(second, 50));
    ASSERT_STATUS(ETL_E_STATE, second, etl_checkpoint(second, directory, etl_slice_of(NULL, 0)));
    ASSERT_MESSAGE(second, directory);
    shared.directory = directory;
    support_in_child(restore_in_another_process);
    ASSERT_STATUS(1, first, etl_load(first, checkpoint_from_callback, &first));
    etl_collector_destroy(first);
    /* It is free now, but has a checkpoint, which is not to be lost. */
    ASSERT_STATUS(ETL_E_STATE, second, etl_checkpoint(second, directory, etl_slice_of(NULL, 0)));
    ASSERT_MESSAGE(second, directory);
    ASSERT_MESSAGE(second, "etl_restore");
    counted_assert_load(second, 50);
    etl_collector_destroy(second);
    uint64_t number;
    first = restored(directory, NULL, &number);
    counted_assert_load(first, 100);
    etl_collector_destroy(first);
    remove_directory(directory);
}

static void other_rules_are_refused(void **state) {
    (void)state;
    const char *directory = new_directory();
    etl_options options = support_options(MIB);
    options.duplicates = ETL_KEEP_FIRST;
    uint64_t number;
    etl_collector *collector = restored(directory, &options, &number);
    etl_collector_destroy(collector); /* without a checkpoint there are no rules yet */
    options.duplicates = ETL_KEEP_LAST;
    collector = restored(directory, &options, &number);
    ASSERT_OK(collector, etl_checkpoint(collector, directory, etl_slice_of(NULL, 0)));
    etl_collector_destroy(collector);
    assert_refused(ETL_E_INVALID, directory, NULL, "ETL_KEEP_LAST");
    options.order_values = true;
    assert_refused(ETL_E_INVALID, directory, &options, "order_values");
    options.order_values = false;
    etl_collector_destroy(restored(directory, &options, &number));
    remove_directory(directory);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_missing_directory_is_made_and_gives_an_empty_collector),
        cmocka_unit_test(tokens_of_any_size_come_back),
        cmocka_unit_test(a_checkpoint_adds_files_and_rewrites_none),
        cmocka_unit_test(a_load_leaves_the_checkpoint_until_the_next_one),
        cmocka_unit_test(only_files_of_ours_are_removed),
        cmocka_unit_test(attached_runs_are_copied),
        cmocka_unit_test(pools_and_disk_limits_hold),
        cmocka_unit_test(arguments_are_checked),
        cmocka_unit_test(a_directory_that_cannot_be_is_refused),
        cmocka_unit_test(a_directory_has_one_collector),
        cmocka_unit_test(other_rules_are_refused),
    };
    return cmocka_run_group_tests(tests, support_setup, support_teardown);
}
