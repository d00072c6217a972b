/* test_contracts_invalid.c: every public function given what it must refuse: it says
 * ETL_E_INVALID, and what was collected before is loaded after. */
#include "support.h"

#include <string.h>

enum { PAIRS = 100 };

static etl_collector *create(const etl_options *options) {
    etl_collector *collector = NULL;
    ASSERT_OK(NULL, etl_collector_create(&collector, options));
    return collector;
}

static etl_collector *create_filled(void) {
    etl_options options = support_options(MIB);
    etl_collector *collector = create(&options);
    ASSERT_OK(collector, counted_collect_all(collector, PAIRS));
    return collector;
}

static void end_filled(etl_collector *collector) {
    counted_assert_load(collector, PAIRS);
    etl_collector_destroy(collector);
}

static int ignore(void *context, etl_slice key, etl_slice value) {
    (void)context, (void)key, (void)value;
    return 0;
}

/* ---- The size of options, which tells the version of the header that the caller has */

static void options_of_newer_and_older_headers(void **state) {
    (void)state;
    struct {
        etl_options known;
        unsigned char later[40];
    } options;
    memset(&options, 0, sizeof options);
    options.known = support_options(MIB);
    etl_collector *collector = NULL;
    for (size_t extra = 0; extra <= sizeof options.later; extra += 8) {
        options.known.struct_size = sizeof options.known + extra;
        etl_collector_destroy(create(&options.known)); /* nothing set that is not known */
        for (size_t i = 0; i < sizeof options.later; i++) {
            options.later[i] = 1;
            ASSERT_STATUS(i < extra ? ETL_E_INVALID : ETL_OK, NULL,
                          etl_collector_create(&collector, &options.known));
            assert_true((collector != NULL) == (i >= extra));
            etl_collector_destroy(collector);
            options.later[i] = 0;
        }
    }
    /* What an older header lacks is the default, whatever stands there. */
    options.known.access = (etl_access)77;
    options.known.struct_size = offsetof(etl_options, duplicates);
    etl_collector_destroy(create(&options.known));
    for (size_t size = 1; size < sizeof size; size++) {
        char message[100] = "";
        options.known.struct_size = size;
        ASSERT_STATUS(
            ETL_E_INVALID, NULL,
            etl_collector_create_message(&collector, &options.known, message, sizeof message));
        assert_null(collector);
        assert_non_null(strstr(message, "struct_size"));
    }
}

static void create_without_a_place_says_so(void **state) {
    (void)state;
    char message[100] = "";
    assert_int_equal(etl_collector_create_message(NULL, NULL, message, sizeof message),
                     ETL_E_INVALID);
    assert_non_null(strstr(message, "out"));
    assert_int_equal(etl_collector_create_message(NULL, NULL, NULL, 0), ETL_E_INVALID);
}

/* ---- No collector */

static void functions_without_a_collector(void **state) {
    (void)state;
    const etl_slice slice = etl_slice_str("x");
    etl_stats stats = {.struct_size = sizeof stats};
    etl_iter *iter = (etl_iter *)(uintptr_t)1;
    void *key, *value;
    assert_int_equal(etl_collect(NULL, slice, slice), ETL_E_INVALID);
    assert_int_equal(etl_reserve(NULL, 1, 1, &key, &value), ETL_E_INVALID);
    assert_int_equal(etl_flush(NULL), ETL_E_INVALID);
    assert_int_equal(etl_load(NULL, ignore, NULL), ETL_E_INVALID);
    assert_int_equal(etl_reset(NULL), ETL_E_INVALID);
    assert_int_equal(etl_collector_stats(NULL, &stats), ETL_E_INVALID);
    assert_int_equal(etl_iter_open(&iter, NULL, NULL), ETL_E_INVALID);
    assert_null(iter);
    assert_non_null(etl_collector_message(NULL));
    etl_cancel(NULL);
    etl_resume(NULL);
    etl_collector_destroy(NULL);
}

static void functions_without_an_iterator(void **state) {
    (void)state;
    etl_slice key, value;
    assert_int_equal(etl_iter_next(NULL, &key, &value), ETL_E_INVALID);
    assert_int_equal(etl_iter_seek(NULL, etl_slice_str("x")), ETL_E_INVALID);
    etl_iter_close(NULL);
}

/* ---- One collector */

static void reserve_needs_places_for_what_is_reserved(void **state) {
    (void)state;
    etl_collector *collector = create_filled();
    void *key = NULL, *value = NULL;
    ASSERT_STATUS(ETL_E_INVALID, collector, etl_reserve(collector, 1, 1, NULL, &value));
    assert_non_null(strstr(etl_collector_message(collector), "key"));
    ASSERT_STATUS(ETL_E_INVALID, collector, etl_reserve(collector, 1, 1, &key, NULL));
    assert_non_null(strstr(etl_collector_message(collector), "value"));
    assert_true(key == NULL && value == NULL);
    end_filled(collector);
}

static void seek_needs_a_key(void **state) {
    (void)state;
    etl_collector *collector = create_filled();
    etl_iter *iter;
    ASSERT_OK(collector, etl_iter_open(&iter, collector, NULL));
    ASSERT_OK(collector, etl_iter_next(iter, NULL, NULL));
    ASSERT_STATUS(ETL_E_INVALID, collector, etl_iter_seek(iter, etl_slice_of(NULL, 1)));
    for (unsigned i = 1; i < PAIRS; i++) /* it stands where it stood */
        ASSERT_OK(collector, etl_iter_next(iter, NULL, NULL));
    ASSERT_STATUS(ETL_END, collector, etl_iter_next(iter, NULL, NULL));
    ASSERT_OK(collector, etl_iter_seek(iter, etl_slice_of(NULL, 0))); /* the empty key */
    ASSERT_OK(collector, etl_iter_next(iter, NULL, NULL));
    etl_iter_close(iter);
    end_filled(collector);
}

static void statistics_fill_what_the_caller_has(void **state) {
    (void)state;
    etl_collector *collector = create_filled();
    struct {
        etl_stats known;
        uint64_t later;
    } stats;
    for (size_t size = 0; size <= sizeof stats; size++) {
        memset(&stats, 0xEE, sizeof stats);
        stats.known.struct_size = size;
        int status = etl_collector_stats(collector, &stats.known);
        assert_int_equal(status, size < sizeof size ? ETL_E_INVALID : ETL_OK);
        assert_int_equal(stats.known.struct_size, size);
        size_t filled = status == ETL_OK ? size : sizeof size;
        for (size_t i = filled; i < sizeof stats; i++) /* nothing is written behind */
            assert_int_equal(((unsigned char *)&stats)[i], 0xEE);
        if (size >= offsetof(etl_stats, key_bytes))
            assert_int_equal(stats.known.pairs, PAIRS);
    }
    end_filled(collector);
}

/* ---- Several collectors */

static void loading_none(void **state) {
    (void)state;
    etl_collector *const *none = NULL;
    assert_int_equal(etl_load_many(none, 0, NULL, NULL), ETL_E_INVALID);
    assert_int_equal(etl_load_many(none, 0, ignore, NULL), ETL_OK);
    assert_int_equal(etl_load_many(none, 1, ignore, NULL), ETL_E_INVALID);
    etl_iter *iter = (etl_iter *)(uintptr_t)1;
    assert_int_equal(etl_iter_open_many(&iter, none, 0, NULL), ETL_E_INVALID);
    assert_null(iter);
    iter = (etl_iter *)(uintptr_t)1;
    assert_int_equal(etl_iter_open_many(&iter, none, 1, NULL), ETL_E_INVALID);
    assert_null(iter);
    assert_int_equal(etl_iter_open_many(NULL, none, 0, NULL), ETL_E_INVALID);
}

/* What functions over these collectors give; nothing may come of the call. */
static void assert_many_refused(etl_collector *const *collectors, size_t count,
                                const etl_collector *asked, const char *message) {
    etl_iter *iter = (etl_iter *)(uintptr_t)1;
    etl_slice keys[2];
    size_t key_count = 99;
    for (unsigned function = 0; function < 3; function++) {
        int status = function == 0   ? etl_load_many(collectors, count, ignore, NULL)
                     : function == 1 ? etl_iter_open_many(&iter, collectors, count, NULL)
                                     : etl_split(collectors, count, 3, keys, &key_count);
        ASSERT_STATUS(ETL_E_INVALID, asked, status);
        if (message != NULL)
            assert_non_null(strstr(etl_collector_message(asked), message));
    }
    assert_null(iter);
    assert_int_equal(key_count, 0);
}

static void a_missing_collector_and_one_that_comes_twice(void **state) {
    (void)state;
    etl_collector *first = create_filled(), *second = create_filled();
    for (size_t missing = 0; missing < 3; missing++) {
        etl_collector *collectors[3] = {first, second, second};
        collectors[missing] = NULL;
        assert_many_refused(collectors, 3, first, NULL);
    }
    etl_collector *const twice[] = {first, second, first};
    assert_many_refused(twice, 3, first, "same");
    etl_collector *const same[] = {second, second};
    assert_many_refused(same, 2, second, "same");
    end_filled(first);
    end_filled(second);
}

static void split_arguments(void **state) {
    (void)state;
    etl_collector *collector = create_filled();
    etl_slice keys[4];
    size_t count = 99;
    assert_int_equal(etl_split(&collector, 1, 2, keys, NULL), ETL_E_INVALID);
    ASSERT_STATUS(ETL_E_INVALID, collector, etl_split(&collector, 1, 0, keys, &count));
    assert_int_equal(count, 0);
    count = 99;
    ASSERT_STATUS(ETL_E_INVALID, collector, etl_split(&collector, 1, 2, NULL, &count));
    assert_int_equal(count, 0);
    count = 99;
    assert_int_equal(etl_split(NULL, 1, 2, keys, &count), ETL_E_INVALID);
    assert_int_equal(count, 0);
    assert_int_equal(etl_split(&collector, 0, 2, keys, &count), ETL_E_INVALID);
    ASSERT_OK(collector, etl_split(&collector, 1, 1, NULL, &count)); /* no key, no room for it */
    assert_int_equal(count, 0);
    end_filled(collector);
}

/* ---- Helpers */

static void prefix_end_arguments(void **state) {
    (void)state;
    unsigned char end[4] = {0};
    size_t size = 99;
    assert_int_equal(etl_prefix_end(etl_slice_str("a"), end, NULL), ETL_E_INVALID);
    assert_int_equal(etl_prefix_end(etl_slice_str("a"), NULL, &size), ETL_E_INVALID);
    assert_int_equal(etl_prefix_end(etl_slice_of(NULL, 1), end, &size), ETL_E_INVALID);
    assert_int_equal(etl_prefix_end(etl_slice_of(NULL, 0), NULL, NULL), ETL_E_INVALID);
    assert_int_equal(end[0], 0);
}

static int no_pairs(void *context, etl_slice *key, etl_slice *value) {
    (void)context, (void)key, (void)value;
    return ETL_END;
}

static void transform_arguments(void **state) {
    (void)state;
    const etl_options options = support_options(MIB), wrong = {.threads = 65};
    const etl_transform_args whole = {.options = &options, .source = no_pairs, .load = ignore};
    const struct {
        etl_transform_args args;
        const char *named; /* in the message */
    } rows[] = {
        {{.options = &options, .load = ignore}, "source"},
        {{.options = &options, .source = no_pairs}, "load"},
        {{.options = &wrong, .source = no_pairs, .load = ignore}, "threads"},
    };
    ASSERT_OK(NULL, etl_transform(&whole));
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char message[200] = "";
        etl_transform_args args = rows[i].args;
        assert_int_equal(etl_transform(&args), ETL_E_INVALID);
        args.message = message;
        args.message_size = sizeof message;
        assert_int_equal(etl_transform(&args), ETL_E_INVALID);
        if (strstr(message, rows[i].named) == NULL)
            fail_msg("\"%s\" does not say \"%s\"", message, rows[i].named);
    }
    assert_int_equal(etl_transform(NULL), ETL_E_INVALID);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_of_newer_and_older_headers),
        cmocka_unit_test(create_without_a_place_says_so),
        cmocka_unit_test(functions_without_a_collector),
        cmocka_unit_test(functions_without_an_iterator),
        cmocka_unit_test(reserve_needs_places_for_what_is_reserved),
        cmocka_unit_test(seek_needs_a_key),
        cmocka_unit_test(statistics_fill_what_the_caller_has),
        cmocka_unit_test(loading_none),
        cmocka_unit_test(a_missing_collector_and_one_that_comes_twice),
        cmocka_unit_test(split_arguments),
        cmocka_unit_test(prefix_end_arguments),
        cmocka_unit_test(transform_arguments),
    };
    return cmocka_run_group_tests(tests, support_setup, support_teardown);
}
