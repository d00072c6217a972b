/* test_contracts_arguments.c: the contracts about options, arguments, sizes, statuses and
 * messages, and about the helpers: prefix ends, splits and transforms. */
#include "oracle.h"
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static etl_collector *create(const etl_options *options) {
    etl_collector *collector = NULL;
    ASSERT_OK(NULL, etl_collector_create(&collector, options));
    return collector;
}

static int ignore(void *context, etl_slice key, etl_slice value) {
    (void)context, (void)key, (void)value;
    return 0;
}

/* ---- Statuses */

static void statuses_have_words(void **state) {
    (void)state;
    for (int status = ETL_E_CANCELLED; status <= ETL_E_INVALID; status++) {
        assert_non_null(etl_status_string(status));
        assert_string_not_equal(etl_status_string(status), etl_status_string(4711));
        for (int other = ETL_E_CANCELLED; other < status; other++)
            assert_string_not_equal(etl_status_string(status), etl_status_string(other));
    }
    assert_string_not_equal(etl_status_string(ETL_OK), etl_status_string(4711));
    assert_string_not_equal(etl_status_string(ETL_END), etl_status_string(4711));
    assert_string_equal(etl_status_string(4711), "unknown status");
    assert_string_equal(etl_status_string(INT32_MIN), "unknown status");
}

static void version_is_that_of_the_header(void **state) {
    (void)state;
    char expected[64];
    snprintf(expected, sizeof expected, "%d.%d.%d", LIBETL_VERSION_MAJOR, LIBETL_VERSION_MINOR,
             LIBETL_VERSION_PATCH);
    assert_string_equal(etl_version(), expected);
}

static void message_is_empty_until_something_failed(void **state) {
    (void)state;
    etl_options options = support_options(MIB);
    etl_collector *collector = create(&options);
    assert_string_equal(etl_collector_message(collector), "");
    ASSERT_STATUS(ETL_E_INVALID, collector,
                  etl_collect(collector, etl_slice_of(NULL, 1), etl_slice_of(NULL, 0)));
    assert_true(etl_collector_message(collector)[0] != '\0');
    etl_collector_destroy(collector);
}

/* ---- Options */

static void null_and_zero_options_are_the_defaults(void **state) {
    (void)state;
    const etl_options zero = {0};
    const etl_options initial = LIBETL_OPTIONS_INIT;
    const etl_options *const options[] = {NULL, &zero, &initial};
    for (size_t i = 0; i < COUNT_OF(options); i++) {
        etl_collector *collector = create(options[i]);
        ASSERT_OK(collector, counted_collect_all(collector, 100));
        counted_assert_load(collector, 100);
        etl_collector_destroy(collector);
    }
    etl_collector_destroy(NULL);
    etl_iter_close(NULL);
}

static void assert_refused(const etl_options *options, int expected) {
    etl_collector *collector = (etl_collector *)(uintptr_t)1;
    ASSERT_STATUS(expected, NULL, etl_collector_create(&collector, options));
    assert_null(collector);
    char message[200] = "untouched";
    collector = (etl_collector *)(uintptr_t)1;
    ASSERT_STATUS(expected, NULL,
                  etl_collector_create_message(&collector, options, message, sizeof message));
    assert_null(collector);
    assert_true(message[0] != '\0' && strcmp(message, "untouched") != 0);
    char cut[4] = "abc";
    ASSERT_STATUS(expected, NULL,
                  etl_collector_create_message(&collector, options, cut, sizeof cut));
    assert_int_equal(strlen(cut), 3);
    assert_memory_equal(cut, message, 3);
    ASSERT_STATUS(expected, NULL, etl_collector_create_message(&collector, options, NULL, 0));
}

static void options_out_of_range_are_refused(void **state) {
    (void)state;
    etl_options options = support_options(MIB);
    options.duplicates = (etl_duplicates)6;
    assert_refused(&options, ETL_E_INVALID);
    options.duplicates = (etl_duplicates)-1;
    assert_refused(&options, ETL_E_INVALID);
    options.duplicates = ETL_REDUCE; /* without a callback */
    assert_refused(&options, ETL_E_INVALID);
    options = support_options(MIB);
    options.access = (etl_access)3;
    assert_refused(&options, ETL_E_INVALID);
    options = support_options(MIB);
    options.threads = -2;
    assert_refused(&options, ETL_E_INVALID);
    options.threads = 65;
    assert_refused(&options, ETL_E_INVALID);
    options = support_options(MIB);
    options.merge_width = 1;
    assert_refused(&options, ETL_E_INVALID);
    options = support_options(MIB);
    struct support_memory memory = {0};
    options.allocator = support_allocator(&memory);
    ASSERT_OK(NULL, etl_pool_create(&options.pool, NULL));
    assert_refused(&options, ETL_E_INVALID); /* the pool's allocator or its own */
    etl_pool_destroy(options.pool);
    options = support_options(MIB);
    assert_int_equal(etl_collector_create(NULL, &options), ETL_E_INVALID);
}

static void options_are_copied(void **state) {
    (void)state;
    char *directory = strdup(support_directory()), *label = strdup("label");
    const char **directories = calloc(2, sizeof *directories);
    etl_options *options = malloc(sizeof *options);
    assert_true(directory != NULL && label != NULL && directories != NULL && options != NULL);
    *options = support_options(MIB);
    directories[0] = directory;
    options->temp_dirs = directories;
    options->label = label;
    etl_collector *collector = create(options);
    memset(directory, 'x', strlen(directory));
    memset(label, 'x', strlen(label));
    free(directory);
    free(label);
    free(directories);
    free(options);
    ASSERT_OK(collector, counted_collect_all(collector, 100));
    ASSERT_OK(collector, etl_flush(collector));
    counted_assert_load(collector, 100);
    etl_collector_destroy(collector);
}

/* ---- Arguments */

static void arguments_that_are_wrong_change_nothing(void **state) {
    (void)state;
    etl_options options = support_options(MIB);
    etl_collector *collector = create(&options);
    const etl_slice one = etl_slice_str("1"), wrong = etl_slice_of(NULL, 1);
    ASSERT_STATUS(ETL_E_INVALID, collector, etl_collect(collector, wrong, one));
    ASSERT_STATUS(ETL_E_INVALID, collector, etl_collect(collector, one, wrong));
    ASSERT_STATUS(ETL_E_INVALID, collector, etl_load(collector, NULL, NULL));
    ASSERT_STATUS(ETL_E_INVALID, collector, etl_iter_open(NULL, collector, NULL));
    etl_iter *iter = (etl_iter *)(uintptr_t)1;
    const etl_range range = {wrong, wrong};
    ASSERT_STATUS(ETL_E_INVALID, collector, etl_iter_open(&iter, collector, &range));
    assert_null(iter);
    ASSERT_STATUS(ETL_E_INVALID, collector, etl_collector_stats(collector, NULL));
    counted_assert_load(collector, 0);
    etl_collector_destroy(collector);
}

static void too_large_is_refused_before_it_is_read(void **state) {
    (void)state;
    etl_options options = support_options(MIB);
    etl_collector *collector = create(&options);
    ASSERT_OK(collector, counted_collect(collector, 0));
    const size_t sizes[] = {(size_t)ETL_SIZE_MAX + 1, (size_t)UINT32_MAX, SIZE_MAX};
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        const etl_slice large = etl_slice_of("x", sizes[i]), small = etl_slice_of("x", 1);
        void *key, *value;
        ASSERT_STATUS(ETL_E_TOO_LARGE, collector, etl_collect(collector, large, small));
        ASSERT_STATUS(ETL_E_TOO_LARGE, collector, etl_collect(collector, small, large));
        ASSERT_STATUS(ETL_E_TOO_LARGE, collector,
                      etl_reserve(collector, sizes[i], 1, &key, &value));
        ASSERT_STATUS(ETL_E_TOO_LARGE, collector,
                      etl_reserve(collector, 1, sizes[i], &key, &value));
    }
    counted_assert_load(collector, 1);
    etl_collector_destroy(collector);
}

static void collectors_taken_together_must_agree(void **state) {
    (void)state;
    etl_options options = support_options(MIB);
    etl_collector *first = create(&options);
    options.duplicates = ETL_KEEP_LAST;
    etl_collector *second = create(&options);
    options.duplicates = ETL_KEEP_ALL;
    options.order_values = true;
    etl_collector *third = create(&options);
    etl_collector *const pairs[][2] = {{first, second}, {first, third}};
    for (size_t i = 0; i < COUNT_OF(pairs); i++) {
        etl_iter *iter = (etl_iter *)(uintptr_t)1;
        ASSERT_STATUS(ETL_E_INVALID, first, etl_iter_open_many(&iter, pairs[i], 2, NULL));
        assert_null(iter);
        ASSERT_STATUS(ETL_E_INVALID, first, etl_load_many(pairs[i], 2, ignore, NULL));
    }
    etl_collector_destroy(first);
    etl_collector_destroy(second);
    etl_collector_destroy(third);
}

static void duplicate_names_the_key(void **state) {
    (void)state;
    for (unsigned spilled = 0; spilled < 2; spilled++) {
        etl_options options = support_options(MIB);
        options.duplicates = ETL_REJECT;
        etl_collector *collector = create(&options);
        ASSERT_OK(collector, etl_collect(collector, etl_slice_str("needle"), etl_slice_str("1")));
        ASSERT_OK(collector, counted_collect_all(collector, 1000));
        if (spilled)
            ASSERT_OK(collector, etl_flush(collector));
        ASSERT_OK(collector, etl_collect(collector, etl_slice_str("needle"), etl_slice_str("2")));
        for (unsigned i = 0; i < 2; i++) {
            ASSERT_STATUS(ETL_E_DUPLICATE, collector, etl_load(collector, ignore, NULL));
            assert_non_null(strstr(etl_collector_message(collector), "needle"));
        }
        etl_collector_destroy(collector);
    }
}

/* ---- Helpers */

static void prefix_end_is_the_smallest_key_after_the_prefix(void **state) {
    (void)state;
    static const struct {
        const char *prefix;
        size_t size;
        const char *end; /* NULL: none */
        size_t end_size;
    } rows[] = {{"", 0, NULL, 0},
                {"\xff", 1, NULL, 0},
                {"\xff\xff\xff", 3, NULL, 0},
                {"a", 1, "b", 1},
                {"a\xff", 2, "b", 1},
                {"a\xff\xff", 3, "b", 1},
                {"\0", 1, "\1", 1},
                {"ab\0", 3, "ab\1", 3},
                {"\xfe\xff", 2, "\xff", 1},
                {"\xff\x00\xff", 3, "\xff\x01", 2},
                {"a\x7f", 2, "a\x80", 2}};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        unsigned char *end = malloc(rows[i].size + 1);
        assert_non_null(end);
        size_t end_size = 99;
        int status = etl_prefix_end(etl_slice_of(rows[i].prefix, rows[i].size), end, &end_size);
        assert_int_equal(status, rows[i].end != NULL ? ETL_OK : ETL_END);
        assert_int_equal(end_size, rows[i].end_size);
        if (rows[i].end != NULL)
            assert_memory_equal(end, rows[i].end, end_size);
        free(end);
    }
    size_t end_size = 99;
    assert_int_equal(etl_prefix_end(etl_slice_of(NULL, 0), NULL, &end_size), ETL_END);
    assert_int_equal(end_size, 0);
}

static size_t count_range(etl_collector *collector, etl_slice from, etl_slice to) {
    const etl_range range = {from, to};
    etl_iter *iter;
    ASSERT_OK(collector, etl_iter_open(&iter, collector, &range));
    size_t count = 0;
    while (etl_iter_next(iter, NULL, NULL) == ETL_OK)
        count++;
    etl_iter_close(iter);
    return count;
}

static void split_cuts_into_even_parts(void **state) {
    (void)state;
    enum { PAIRS = 60000 };
    for (size_t limit = 1; limit <= 64; limit += 63)
        for (size_t parts = 1; parts <= 5; parts++) {
            etl_options options = support_options(limit * MIB);
            etl_collector *collector = create(&options);
            ASSERT_OK(collector, counted_collect_all(collector, PAIRS));
            etl_slice keys[4];
            size_t count = 99;
            ASSERT_OK(collector, etl_split(&collector, 1, parts, keys, &count));
            assert_int_equal(count, parts - 1);
            size_t sum = 0;
            for (size_t i = 0; i <= count; i++) {
                size_t size = count_range(collector, i > 0 ? keys[i - 1] : etl_slice_of(NULL, 0),
                                          i < count ? keys[i] : etl_slice_of(NULL, 0));
                assert_in_range(size, PAIRS / parts / 2, PAIRS / parts * 2);
                sum += size;
            }
            assert_int_equal(sum, PAIRS);
            counted_assert_load(collector, PAIRS);
            etl_collector_destroy(collector);
        }
}

static void split_gives_fewer_keys_where_there_are_fewer(void **state) {
    (void)state;
    etl_options options = support_options(MIB);
    etl_collector *collector = create(&options);
    etl_slice keys[9];
    size_t count = 99;
    ASSERT_OK(collector, etl_split(&collector, 1, 10, keys, &count));
    assert_int_equal(count, 0);
    for (size_t i = 0; i < 100; i++)
        ASSERT_OK(collector, etl_collect(collector, etl_slice_str(""), etl_slice_str("x")));
    ASSERT_OK(collector, etl_split(&collector, 1, 10, keys, &count));
    assert_int_equal(count, 0);
    for (size_t i = 0; i < 100; i++)
        ASSERT_OK(collector,
                  etl_collect(collector, etl_slice_str(i % 2 ? "a" : "b"), etl_slice_str("x")));
    ASSERT_OK(collector, etl_split(&collector, 1, 10, keys, &count));
    assert_in_range(count, 1, 2);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(keys[i].size, 1);
        assert_true(i == 0 || memcmp(keys[i - 1].data, keys[i].data, 1) < 0);
    }
    etl_collector_destroy(collector);
}

/* ---- Transform */

struct source {
    unsigned next, end;
    unsigned fail_at; /* with 91 */
    char key[16];
};

static int source_next(void *context, etl_slice *key, etl_slice *value) {
    struct source *source = context;
    if (source->next == source->fail_at)
        return 91;
    if (source->next == source->end)
        return ETL_END;
    snprintf(source->key, sizeof source->key, "%03u", source->next * 7 % source->end);
    source->next++;
    *key = *value = etl_slice_str(source->key);
    return ETL_OK;
}

/* n % 3 pairs for key n; 92 at "042" when context says so. */
static int extract(void *context, etl_collector *collector, etl_slice key, etl_slice value) {
    unsigned number = (unsigned)strtoul(key.data, NULL, 10);
    if (context != NULL && number == 42)
        return 92;
    for (unsigned i = 0; i < number % 3; i++) {
        int status = etl_collect(collector, key, value);
        if (status != ETL_OK)
            return status;
    }
    return 0;
}

struct tally {
    unsigned pairs, disorder, stop_at;
    char last[16];
};

static int tally_load(void *context, etl_slice key, etl_slice value) {
    struct tally *tally = context;
    if (tally->stop_at != 0 && tally->pairs == tally->stop_at)
        return 93;
    tally->disorder += key.size != 3 || value.size != 3 ||
                       (tally->pairs != 0 && memcmp(key.data, tally->last, 3) < 0);
    memcpy(tally->last, key.data, 3);
    tally->pairs++;
    return 0;
}

static void transform_collects_sorts_and_loads(void **state) {
    (void)state;
    const etl_options options = support_options(MIB);
    struct source source = {0, 100, 1000, ""};
    struct tally tally = {0};
    char message[100] = "";
    etl_transform_args args = {.struct_size = sizeof args,
                               .options = &options,
                               .source = source_next,
                               .source_ctx = &source,
                               .load = tally_load,
                               .load_ctx = &tally,
                               .message = message,
                               .message_size = sizeof message};
    ASSERT_OK(NULL, etl_transform(&args)); /* the pair as it is */
    assert_int_equal(tally.pairs, 100);
    args.struct_size = 0;
    args.extract = extract;
    source.next = 0;
    memset(&tally, 0, sizeof tally);
    ASSERT_OK(NULL, etl_transform(&args)); /* 0 to 2 pairs each */
    assert_int_equal(tally.pairs, 99);
    assert_int_equal(tally.disorder, 0);
    args.range.from = etl_slice_str("010");
    args.range.to = etl_slice_str("020");
    args.extract = NULL;
    source.next = 0;
    memset(&tally, 0, sizeof tally);
    ASSERT_OK(NULL, etl_transform(&args)); /* a range of the source */
    assert_int_equal(tally.pairs, 10);
    assert_memory_equal(tally.last, "019", 3);
}

static void transform_returns_what_a_callback_returns(void **state) {
    (void)state;
    const etl_options options = support_options(MIB);
    for (int failing = 91; failing <= 93; failing++) {
        struct source source = {0, 100, failing == 91 ? 50 : 1000, ""};
        struct tally tally = {.stop_at = failing == 93 ? 7 : 0};
        etl_transform_args args = {.options = &options,
                                   .source = source_next,
                                   .source_ctx = &source,
                                   .extract = extract,
                                   .extract_ctx = failing == 92 ? &source : NULL,
                                   .load = tally_load,
                                   .load_ctx = &tally};
        ASSERT_STATUS(failing, NULL, etl_transform(&args));
        assert_int_equal(tally.pairs, failing == 93 ? 7 : 0);
    }
    char message[100] = "";
    etl_transform_args args = {.message = message, .message_size = sizeof message};
    ASSERT_STATUS(ETL_E_INVALID, NULL, etl_transform(&args));
    assert_true(message[0] != '\0');
    assert_int_equal(etl_transform(NULL), ETL_E_INVALID);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(statuses_have_words),
        cmocka_unit_test(version_is_that_of_the_header),
        cmocka_unit_test(message_is_empty_until_something_failed),
        cmocka_unit_test(null_and_zero_options_are_the_defaults),
        cmocka_unit_test(options_out_of_range_are_refused),
        cmocka_unit_test(options_are_copied),
        cmocka_unit_test(arguments_that_are_wrong_change_nothing),
        cmocka_unit_test(too_large_is_refused_before_it_is_read),
        cmocka_unit_test(collectors_taken_together_must_agree),
        cmocka_unit_test(duplicate_names_the_key),
        cmocka_unit_test(prefix_end_is_the_smallest_key_after_the_prefix),
        cmocka_unit_test(split_cuts_into_even_parts),
        cmocka_unit_test(split_gives_fewer_keys_where_there_are_fewer),
        cmocka_unit_test(transform_collects_sorts_and_loads),
        cmocka_unit_test(transform_returns_what_a_callback_returns),
    };
    return cmocka_run_group_tests(tests, support_setup, support_teardown);
}
