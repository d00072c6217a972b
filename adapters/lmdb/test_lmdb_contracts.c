/* test_lmdb_contracts.c: what etl_lmdb.h promises one by one: full pages, limits, statuses and
 * messages, progress, a map that grows, and tables as sources. */
#include "lmdb_support.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const struct kind plain = {"plain", 0, false, false, 0, 0};
static const struct kind values = {"values", MDB_DUPSORT, false, false, 0, 0};

static etl_collector *new_collector(void) {
    etl_collector *collector;
    etl_options options = support_options(MIB);
    ASSERT_OK(NULL, etl_collector_create(&collector, &options));
    return collector;
}

static etl_slice number_key(unsigned char key[8], uint64_t number) {
    for (int i = 0; i < 8; i++)
        key[i] = (unsigned char)(number >> 8 * (7 - i));
    return etl_slice_of(key, 8);
}

static MDB_stat table_stat(const struct table *table) {
    MDB_txn *txn;
    MDB_stat stat;
    ASSERT_MDB(mdb_txn_begin(table->env, NULL, MDB_RDONLY, &txn));
    ASSERT_MDB(mdb_stat(txn, table->dbi, &stat));
    mdb_txn_abort(txn);
    return stat;
}

static size_t pages_used(const struct table *table) {
    MDB_envinfo info;
    ASSERT_MDB(mdb_env_info(table->env, &info));
    return info.me_last_pgno + 1;
}

/* ---- Appending */

/* 32 + 32 bytes and 8 of head, and 2 of index: 55 to a page of 4096. */
static void an_empty_table_gets_full_pages(void **state) {
    (void)state;
    enum { PAIRS = 5500 };
    for (int behind = 0; behind < 2; behind++) {
        struct table table;
        etl_collector *collector = new_collector();
        unsigned char key[32] = "k", value[32] = "v";
        table_open(&table, &plain, 0);
        if (behind)
            table_put(&table, etl_slice_str("a"), etl_slice_str("before all others"));
        for (uint64_t i = 0; i < PAIRS; i++) {
            number_key(key + 1, (i * 7919) % PAIRS);
            ASSERT_OK(collector, etl_collect(collector, etl_slice_of(key, sizeof key),
                                             etl_slice_of(value, sizeof value)));
        }
        etl_lmdb_options options = LIBETL_LMDB_OPTIONS_INIT;
        options.commit_pairs = behind ? 1000 : 0; /* goes on appending in the next transaction */
        assert_int_equal(etl_lmdb_load(collector, table.env, table.dbi, &options), ETL_OK);
        MDB_stat stat = table_stat(&table);
        assert_int_equal(stat.ms_entries, PAIRS + behind);
        if (stat.ms_psize == 4096)
            assert_true(stat.ms_leaf_pages <= PAIRS / 55 + 1);
        table_close(&table);
        etl_collector_destroy(collector);
    }
}

/* Values of one key, which LMDB keeps in a tree of their own: in order they fill its pages. */
static void ascending_values_are_appended(void **state) {
    (void)state;
    struct table table;
    size_t pages[2];
    for (int ordered = 0; ordered < 2; ordered++) {
        etl_collector *collector;
        etl_options options = support_options(MIB);
        options.order_values = ordered;
        ASSERT_OK(NULL, etl_collector_create(&collector, &options));
        unsigned char value[8];
        table_open(&table, &values, 0);
        for (uint64_t i = 0; i < 20000; i++)
            ASSERT_OK(collector, etl_collect(collector, etl_slice_str("key"),
                                             number_key(value, (i * 7919) % 20000)));
        assert_int_equal(etl_lmdb_load(collector, table.env, table.dbi, NULL), ETL_OK);
        assert_int_equal(table_stat(&table).ms_entries, 20000);
        pages[ordered] = pages_used(&table);
        table_close(&table);
        etl_collector_destroy(collector);
    }
    assert_true(pages[1] * 5 < pages[0] * 4);
}

/* ---- Limits */

struct limit {
    struct kind kind;
    size_t key_size, value_size; /* SIZE_MAX: nil */
    const char *message;
};

static void what_lmdb_cannot_hold_is_refused(void **state) {
    (void)state;
    const unsigned fixed = MDB_DUPSORT | MDB_DUPFIXED;
    const struct limit limits[] = {
        {plain, 0, 1, "a key of 0 bytes (key ): LMDB has no empty keys"},
        {plain, 0, SIZE_MAX, "a key of 0 bytes (key ): LMDB has no empty keys"},
        {plain, 512, 1, "a key of 512 bytes (key 6b6b"},
        {plain, 512, SIZE_MAX, "too long for this environment"},
        {{"", MDB_INTEGERKEY, false, false, 0, 0}, 5, 1, "no size of an MDB_INTEGERKEY"},
        {{"", MDB_INTEGERKEY, false, false, 8, 0}, 4, 1, "the table's keys have another size"},
        {values, 3, 0, "a value of 0 bytes (key 6b6b6b): empty, among sorted duplicates"},
        {values, 3, 512, "too long for MDB_DUPSORT"},
        {{"", fixed, false, false, 0, 5}, 3, 4, "the table's values have another size"},
        {{"", fixed | MDB_INTEGERDUP, false, false, 0, 0}, 3, 5, "no size of an MDB_INTEGERDUP"},
        {{"", fixed | MDB_INTEGERDUP, false, false, 0, 8}, 3, 4, "values have another size"},
    };
    unsigned char bytes[600], first[600];
    memset(bytes, 'k', sizeof bytes);
    memset(first, 'a', sizeof first);
    for (size_t i = 0; i < COUNT_OF(limits); i++) {
        const struct limit *limit = &limits[i];
        struct table table;
        char message[256] = "";
        etl_lmdb_options options = LIBETL_LMDB_OPTIONS_INIT;
        etl_collector *collector = new_collector();
        options.message = message;
        options.message_size = sizeof message;
        table_open(&table, &limit->kind, 0);
        if (limit->kind.key_size != 0 || limit->kind.value_size != 0)
            table_put(&table, etl_slice_of(first, limit->kind.key_size ? limit->kind.key_size : 1),
                      etl_slice_of(first, limit->kind.value_size ? limit->kind.value_size : 1));
        ASSERT_OK(collector, etl_collect(collector, etl_slice_of(bytes, limit->key_size),
                                         limit->value_size != SIZE_MAX
                                             ? etl_slice_of(bytes, limit->value_size)
                                             : etl_slice_of(NULL, 0)));
        assert_int_equal(etl_lmdb_load(collector, table.env, table.dbi, &options),
                         MDB_BAD_VALSIZE);
        if (strstr(message, limit->message) == NULL)
            fail_msg("%s does not say %s", message, limit->message);
        assert_int_equal(pairs_in(collector), 1);
        table_check(&table, &table.model);
        table_close(&table);
        etl_collector_destroy(collector);
    }
}

/* The longest key, and the writer after a refusal: as before. */
static void a_refused_pair_leaves_the_writer_as_it_was(void **state) {
    (void)state;
    struct table table;
    etl_lmdb_writer *writer;
    unsigned char bytes[512] = {1};
    table_open(&table, &plain, 0);
    assert_int_equal(etl_lmdb_writer_open(&writer, table.env, table.dbi, NULL), ETL_OK);
    etl_slice longest = etl_slice_of(bytes, 511), longer = etl_slice_of(bytes, 512);
    assert_int_equal(etl_lmdb_writer_put(writer, longest, etl_slice_str("")), ETL_OK);
    assert_int_equal(etl_lmdb_writer_put(writer, longer, etl_slice_str("")), MDB_BAD_VALSIZE);
    assert_int_equal(etl_lmdb_writer_put(writer, longest, etl_slice_of(NULL, 1)), ETL_E_INVALID);
    assert_int_equal(etl_lmdb_writer_put(writer, etl_slice_of(NULL, 1), longest), ETL_E_INVALID);
    assert_int_equal(etl_lmdb_writer_put(NULL, longest, longest), ETL_E_INVALID);
    assert_int_equal(etl_lmdb_writer_commit(writer), ETL_OK);
    assert_int_equal(etl_lmdb_writer_commit(writer), ETL_OK); /* nothing since */
    assert_int_equal(etl_lmdb_writer_put(writer, etl_slice_str("b"), longest), ETL_OK);
    etl_lmdb_writer_close(writer); /* and drops it */
    etl_lmdb_writer_close(NULL);
    model_apply(&plain, &table.model, longest, etl_slice_str(""));
    table_check(&table, &table.model);
    table_close(&table);
}

/* ---- Arguments and statuses */

static void wrong_arguments_are_refused(void **state) {
    (void)state;
    struct table table;
    etl_collector *collector = new_collector(), *missing[] = {collector, NULL};
    etl_lmdb_writer *writer;
    char message[128] = "";
    table_open(&table, &plain, 0);
    struct {
        etl_lmdb_options options;
        unsigned char more[8];
    } newer = {LIBETL_LMDB_OPTIONS_INIT, {0}};
    etl_lmdb_options *options = &newer.options;
    options->struct_size = sizeof newer;
    assert_int_equal(etl_lmdb_load(collector, table.env, table.dbi, options), ETL_OK);
    newer.more[7] = 1;
    assert_int_equal(etl_lmdb_load(collector, table.env, table.dbi, options), ETL_E_INVALID);
    assert_int_equal(etl_lmdb_writer_open(&writer, table.env, table.dbi, options), ETL_E_INVALID);
    options->struct_size = 1;
    assert_int_equal(etl_lmdb_load(collector, table.env, table.dbi, options), ETL_E_INVALID);
    options->struct_size = 0;
    assert_int_equal(etl_lmdb_load(collector, table.env, table.dbi, options), ETL_OK);
    options->message = message;
    options->message_size = sizeof message;
    assert_int_equal(etl_lmdb_load_many(NULL, 1, table.env, table.dbi, options), ETL_E_INVALID);
    assert_int_equal(etl_lmdb_load_many(missing, 0, table.env, table.dbi, options), ETL_E_INVALID);
    assert_int_equal(etl_lmdb_load_many(missing, 2, table.env, table.dbi, options), ETL_E_INVALID);
    assert_string_equal(message, "collector 1 is NULL");
    assert_int_equal(etl_lmdb_load(collector, NULL, table.dbi, options), ETL_E_INVALID);
    assert_int_equal(etl_lmdb_load(collector, table.env, 77, options), EINVAL);
    assert_non_null(strstr(message, "mdb_dbi_flags: "));
    options->map_size_max = 1;
    assert_int_equal(etl_lmdb_writer_open(&writer, table.env, table.dbi, options), ETL_E_INVALID);
    assert_null(writer);
    assert_int_equal(etl_lmdb_writer_open(NULL, table.env, table.dbi, NULL), ETL_E_INVALID);
    assert_int_equal(etl_lmdb_writer_commit(NULL), ETL_E_INVALID);
    etl_collector_destroy(collector);
    table_close(&table);
}

static void statuses_have_words(void **state) {
    (void)state;
    assert_string_equal(etl_lmdb_status_string(ETL_E_CORRUPT), etl_status_string(ETL_E_CORRUPT));
    assert_string_equal(etl_lmdb_status_string(ETL_E_INVALID), etl_status_string(ETL_E_INVALID));
    assert_string_equal(etl_lmdb_status_string(ETL_END), etl_status_string(ETL_END));
    assert_string_equal(etl_lmdb_status_string(ETL_OK), etl_status_string(ETL_OK));
    assert_string_equal(etl_lmdb_status_string(MDB_MAP_FULL), mdb_strerror(MDB_MAP_FULL));
    assert_string_equal(etl_lmdb_status_string(ENOSPC), strerror(ENOSPC));
}

static void an_open_iterator_is_told_when_all_is_committed(void **state) {
    (void)state;
    struct table table;
    etl_iter *iter;
    etl_collector *collector = new_collector();
    table_open(&table, &plain, 0);
    ASSERT_OK(collector, etl_collect(collector, etl_slice_str("k"), etl_slice_str("v")));
    ASSERT_OK(collector, etl_iter_open(&iter, collector, NULL));
    assert_int_equal(etl_lmdb_load(collector, table.env, table.dbi, NULL), ETL_E_STATE);
    etl_iter_close(iter);
    model_apply(&plain, &table.model, etl_slice_str("k"), etl_slice_str("v"));
    table_check(&table, &table.model);
    assert_int_equal(pairs_in(collector), 1);
    assert_int_equal(etl_lmdb_load(collector, table.env, table.dbi, NULL), ETL_OK);
    assert_int_equal(pairs_in(collector), 0);
    table_check(&table, &table.model);
    etl_collector_destroy(collector);
    table_close(&table);
}

static void what_the_collector_says_is_passed_on(void **state) {
    (void)state;
    struct table table;
    char message[256] = "";
    etl_collector *collector;
    etl_options options = support_options(MIB);
    etl_lmdb_options load = LIBETL_LMDB_OPTIONS_INIT;
    load.message = message;
    load.message_size = sizeof message;
    options.duplicates = ETL_REJECT;
    ASSERT_OK(NULL, etl_collector_create(&collector, &options));
    table_open(&table, &plain, 0);
    for (int i = 0; i < 2; i++)
        ASSERT_OK(collector, etl_collect(collector, etl_slice_str("key"), etl_slice_str("v")));
    assert_int_equal(etl_lmdb_load(collector, table.env, table.dbi, &load), ETL_E_DUPLICATE);
    assert_string_equal(message, etl_collector_message(collector));
    etl_cancel(collector);
    assert_int_equal(etl_lmdb_load(collector, table.env, table.dbi, &load), ETL_E_CANCELLED);
    assert_string_equal(message, etl_collector_message(collector));
    table_check(&table, &table.model);
    etl_collector_destroy(collector);
    table_close(&table);
}

/* ---- Progress, and a map that grows */

struct watcher {
    etl_progress last;
    size_t calls, stop_at;
};

static int watch(void *context, const etl_progress *progress) {
    struct watcher *watcher = context;
    assert_int_equal(progress->phase, ETL_LOADING);
    assert_true(progress->pairs_done >= watcher->last.pairs_done);
    assert_true(progress->bytes_done >= watcher->last.bytes_done);
    assert_true(progress->elapsed_ns > watcher->last.elapsed_ns);
    assert_true(progress->pairs_all == 0 || progress->pairs_done <= progress->pairs_all);
    watcher->last = *progress;
    return ++watcher->calls == watcher->stop_at;
}

static int committed_slowly(void *context, const etl_lmdb_commit *commit) {
    const struct timespec step = {.tv_nsec = 120000000};
    (void)context, (void)commit;
    nanosleep(&step, NULL);
    return 0;
}

static void fill(etl_collector *collector, uint64_t pairs) {
    unsigned char key[8];
    for (uint64_t i = 0; i < pairs; i++)
        ASSERT_OK(collector, etl_collect(collector, number_key(key, (i * 7919) % pairs),
                                         etl_slice_str("a value of some bytes")));
}

static void progress_is_told_and_cancels(void **state) {
    (void)state;
    struct table table;
    etl_collector *collector = new_collector();
    etl_lmdb_options options = LIBETL_LMDB_OPTIONS_INIT;
    struct watcher watcher = {.stop_at = 3};
    table_open(&table, &plain, 0);
    fill(collector, 5000);
    options.commit_pairs = 1000;
    options.committed = committed_slowly;
    options.progress = watch;
    options.progress_ctx = &watcher;
    assert_int_equal(etl_lmdb_load(collector, table.env, table.dbi, &options), ETL_E_CANCELLED);
    assert_int_equal(watcher.calls, 3);
    assert_int_equal(watcher.last.pairs_all, 5000);
    assert_int_equal(table_stat(&table).ms_entries, 3000);
    unsigned char key[8];
    watcher = (struct watcher){.stop_at = 0};
    options.after = number_key(key, 2999);
    assert_int_equal(etl_lmdb_load(collector, table.env, table.dbi, &options), ETL_OK);
    assert_true(watcher.calls != 0);
    assert_int_equal(watcher.last.pairs_all, 0);
    assert_int_equal(table_stat(&table).ms_entries, 5000);
    etl_collector_destroy(collector);
    table_close(&table);
}

static void a_map_grows_up_to_its_limit(void **state) {
    (void)state;
    enum { PAIRS = 6000 }; /* a quarter of a megabyte */
    for (uint64_t commits = 0; commits <= 1000; commits += 1000) {
        struct table table;
        etl_collector *collector = new_collector();
        etl_lmdb_options options = LIBETL_LMDB_OPTIONS_INIT;
        struct watcher watcher = {.stop_at = 0};
        MDB_envinfo info;
        table_open(&table, &plain, 80 * KIB);
        fill(collector, PAIRS);
        options.commit_pairs = commits;
        options.map_size_max = 160 * KIB + 7;
        options.committed = commits != 0 ? committed_slowly : NULL;
        options.progress = watch;
        options.progress_ctx = &watcher;
        assert_int_equal(etl_lmdb_load(collector, table.env, table.dbi, &options), MDB_MAP_FULL);
        ASSERT_MDB(mdb_env_info(table.env, &info));
        assert_int_equal(info.me_mapsize, 160 * KIB);
        assert_true(table_stat(&table).ms_entries < PAIRS);
        watcher = (struct watcher){.stop_at = 0};
        options.map_size_max = 64 * MIB;
        assert_int_equal(etl_lmdb_load(collector, table.env, table.dbi, &options), ETL_OK);
        assert_int_equal(table_stat(&table).ms_entries, PAIRS);
        if (commits != 0) /* pairs that came again were not counted again */
            assert_int_equal(watcher.last.pairs_done, 5 * 1024);
        etl_collector_destroy(collector);
        table_close(&table);
    }
}

static void a_read_only_environment_is_refused(void **state) {
    (void)state;
    struct table table;
    MDB_env *env;
    char message[128] = "";
    etl_lmdb_options options = LIBETL_LMDB_OPTIONS_INIT;
    etl_collector *collector = new_collector();
    table_open(&table, &plain, 0);
    mdb_env_close(table.env);
    ASSERT_MDB(mdb_env_create(&env));
    ASSERT_MDB(mdb_env_set_maxdbs(env, 4));
    ASSERT_MDB(mdb_env_open(env, support_path("table.mdb"), MDB_NOSUBDIR | MDB_RDONLY | MDB_NOLOCK,
                            0600));
    options.message = message;
    options.message_size = sizeof message;
    assert_int_equal(etl_lmdb_load(collector, env, table.dbi, &options), EACCES);
    assert_non_null(strstr(message, "mdb_txn_begin: "));
    table.env = env;
    table_close(&table);
    etl_collector_destroy(collector);
}

/* ---- Sources */

/* Everything from `from` to `to` in the table's order, which is that of the scan without a range. */
static void check_range(const struct table *table, const MDB_val *from, const MDB_val *to) {
    MDB_txn *txn;
    etl_lmdb_source *all, *some;
    etl_slice key, value, k, v;
    const etl_range range = {{from->mv_data, from->mv_size}, {to->mv_data, to->mv_size}};
    ASSERT_MDB(mdb_txn_begin(table->env, NULL, MDB_RDONLY, &txn));
    assert_int_equal(etl_lmdb_source_open(&all, txn, table->dbi, NULL, NULL, 0), ETL_OK);
    assert_int_equal(etl_lmdb_source_open(&some, txn, table->dbi, &range, NULL, 0), ETL_OK);
    while (etl_lmdb_source_next(all, &key, &value) == ETL_OK) {
        MDB_val at = {key.size, (void *)key.data};
        bool in = from->mv_size == 0 || mdb_cmp(txn, table->dbi, &at, from) >= 0;
        in = in &&
             (to->mv_data == NULL || (to->mv_size != 0 && mdb_cmp(txn, table->dbi, &at, to) < 0));
        if (!in)
            continue;
        assert_int_equal(etl_lmdb_source_next(some, &k, &v), ETL_OK);
        assert_true(k.data == key.data && k.size == key.size);
        assert_true(v.data == value.data && v.size == value.size && v.data != NULL);
    }
    for (int twice = 0; twice < 2; twice++)
        assert_int_equal(etl_lmdb_source_next(some, &k, &v), ETL_END);
    etl_lmdb_source_close(some);
    etl_lmdb_source_close(all);
    mdb_txn_abort(txn);
}

static void sources_give_ranges_in_the_tables_order(void **state) {
    (void)state;
    const struct kind kinds[] = {plain,
                                 values,
                                 {"", MDB_REVERSEKEY, false, false, 0, 0},
                                 {"", MDB_INTEGERKEY, false, false, 4, 0},
                                 {"", 0, true, false, 0, 0}};
    struct prng prng;
    prng_start(&prng, 1);
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        struct table table;
        unsigned char keys[60][4];
        size_t sizes[60];
        table_open(&table, &kinds[i], 0);
        for (size_t k = 0; k < 60; k++) {
            sizes[k] = kinds[i].key_size != 0 ? 4 : prng_between(&prng, 1, 4);
            for (size_t byte = 0; byte < 4; byte++)
                keys[k][byte] = (unsigned char)prng_below(&prng, 3);
            if (k < 40)
                table_put(&table, etl_slice_of(keys[k], sizes[k]),
                          etl_slice_of(keys[k], k % 4 + (kinds[i].flags & MDB_DUPSORT ? 1u : 0)));
        }
        for (size_t n = 0; n < 300; n++) {
            size_t a = prng_below(&prng, 60), b = prng_below(&prng, 60);
            MDB_val from = {sizes[a], keys[a]}, to = {sizes[b], keys[b]};
            if (n % 10 == 0)
                from = (MDB_val){0, n % 20 == 0 ? NULL : keys[0]};
            if (n % 7 == 0)
                to = (MDB_val){0, n % 14 == 0 ? NULL : keys[0]};
            check_range(&table, &from, &to);
        }
        table_close(&table);
    }
}

static void wrong_sources_are_refused(void **state) {
    (void)state;
    struct table table;
    struct kind integers = {"", MDB_INTEGERKEY, false, false, 4, 0};
    MDB_txn *txn;
    etl_lmdb_source *source;
    etl_slice slice;
    char message[128] = "";
    etl_range range = {{"abcdefgh", 8}, {NULL, 0}};
    table_open(&table, &integers, 0);
    assert_int_equal(etl_lmdb_source_open(&source, NULL, 1, NULL, message, sizeof message),
                     ETL_E_INVALID);
    assert_string_equal(message, "txn is NULL");
    ASSERT_MDB(mdb_txn_begin(table.env, NULL, MDB_RDONLY, &txn));
    assert_int_equal(etl_lmdb_source_open(NULL, txn, table.dbi, NULL, NULL, 0), ETL_E_INVALID);
    assert_int_equal(etl_lmdb_source_open(&source, txn, 77, NULL, message, sizeof message),
                     EINVAL);
    assert_int_equal(etl_lmdb_source_open(&source, txn, table.dbi, &range, NULL, 0), ETL_OK);
    assert_int_equal(etl_lmdb_source_next(source, &slice, &slice), ETL_END); /* an empty table */
    assert_int_equal(etl_lmdb_source_next(NULL, &slice, &slice), ETL_E_INVALID);
    assert_int_equal(etl_lmdb_source_next(source, NULL, &slice), ETL_E_INVALID);
    etl_lmdb_source_close(source);
    etl_lmdb_source_close(NULL);
    mdb_txn_abort(txn);
    table_put(&table, etl_slice_of("abcd", 4), etl_slice_str("v"));
    ASSERT_MDB(mdb_txn_begin(table.env, NULL, MDB_RDONLY, &txn));
    assert_int_equal(
        etl_lmdb_source_open(&source, txn, table.dbi, &range, message, sizeof message),
        MDB_BAD_VALSIZE);
    assert_string_equal(message, "range: 8 bytes are no key of this table");
    range.from = etl_slice_of(NULL, 3);
    assert_int_equal(
        etl_lmdb_source_open(&source, txn, table.dbi, &range, message, sizeof message),
        ETL_E_INVALID);
    assert_null(source);
    mdb_txn_abort(txn);
    table_close(&table);
}

static int value_to_key(void *context, etl_collector *collector, etl_slice key, etl_slice value) {
    (void)context;
    return etl_collect(collector, value, key);
}

/* An index: value -> key, from one table into another of the same environment. */
static void a_transform_goes_from_table_to_table(void **state) {
    (void)state;
    struct table table, index;
    MDB_txn *txn;
    etl_lmdb_source *source;
    etl_lmdb_writer *writer;
    etl_options sort = support_options(MIB);
    unsigned char key[8], value[8];
    table_open(&table, &plain, 0);
    index = (struct table){.kind = &values, .env = table.env};
    for (uint64_t i = 0; i < 500; i++)
        table_put(&table, number_key(key, i), number_key(value, i * 7919 % 50));
    ASSERT_MDB(mdb_txn_begin(table.env, NULL, 0, &txn));
    ASSERT_MDB(mdb_dbi_open(txn, "index", MDB_CREATE | MDB_DUPSORT, &index.dbi));
    ASSERT_MDB(mdb_txn_commit(txn));
    ASSERT_MDB(mdb_txn_begin(table.env, NULL, MDB_RDONLY, &txn));
    assert_int_equal(etl_lmdb_source_open(&source, txn, table.dbi, NULL, NULL, 0), ETL_OK);
    assert_int_equal(etl_lmdb_writer_open(&writer, index.env, index.dbi, NULL), ETL_OK);
    etl_transform_args args = {.struct_size = sizeof args,
                               .options = &sort,
                               .source = etl_lmdb_source_next,
                               .source_ctx = source,
                               .extract = value_to_key,
                               .load = etl_lmdb_writer_put,
                               .load_ctx = writer};
    ASSERT_OK(NULL, etl_transform(&args));
    assert_int_equal(etl_lmdb_writer_commit(writer), ETL_OK);
    etl_lmdb_writer_close(writer);
    etl_lmdb_source_close(source);
    mdb_txn_abort(txn);
    for (uint64_t i = 0; i < 500; i++)
        model_apply(&values, &index.model, number_key(value, i * 7919 % 50), number_key(key, i));
    table_check(&index, &index.model);
    oracle_clear(&index.model);
    table_close(&table);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_table_gets_full_pages),
        cmocka_unit_test(ascending_values_are_appended),
        cmocka_unit_test(what_lmdb_cannot_hold_is_refused),
        cmocka_unit_test(a_refused_pair_leaves_the_writer_as_it_was),
        cmocka_unit_test(wrong_arguments_are_refused),
        cmocka_unit_test(statuses_have_words),
        cmocka_unit_test(an_open_iterator_is_told_when_all_is_committed),
        cmocka_unit_test(what_the_collector_says_is_passed_on),
        cmocka_unit_test(progress_is_told_and_cancels),
        cmocka_unit_test(a_map_grows_up_to_its_limit),
        cmocka_unit_test(a_read_only_environment_is_refused),
        cmocka_unit_test(sources_give_ranges_in_the_tables_order),
        cmocka_unit_test(wrong_sources_are_refused),
        cmocka_unit_test(a_transform_goes_from_table_to_table),
    };
    return cmocka_run_group_tests(tests, support_setup, support_teardown);
}
