/* test_parallel.c: the contracts under threads of the caller's own: a collector for each thread and
 * one merge over all; iterators over the parts that etl_split cuts, each advanced by its thread;
 * and one of several that seeks, fails or is cancelled while the others go on. */
#include "parallel_support.h"

/* ---- Collecting */

static void check_load(struct scene *scene) {
    struct oracle_check check = {&scene->expected, 0, 0, 0};
    ASSERT_STATUS(scene->accepted ? ETL_OK : ETL_E_DUPLICATE, scene->collectors[0],
                  etl_load_many(scene->collectors, scene->count, oracle_load, &check));
    if (scene->accepted)
        assert_int_equal(check.at, scene->expected.count);
}

static void check_iterate(struct scene *scene) {
    struct reader reader;
    reader_open(&reader, scene, scene->count, &scene->expected, NULL);
    reader.stop_at = scene->accepted ? 0 : scene->expected.count;
    read_all(&reader);
    if (!scene->accepted)
        ASSERT_STATUS(ETL_E_DUPLICATE, NULL, etl_iter_next(reader.iter, NULL, NULL));
    etl_iter_close(reader.iter);
    assert_false(reader.failed);
    assert_int_equal(reader.at, scene->expected.count);
}

/* The oracle is fed in the order of the collectors: what one collector would give. */
static void check_collecting(uint64_t number, etl_duplicates duplicates, int threads,
                             bool spills) {
    struct scene scene = {.rules = {duplicates, false, ORACLE_TRIM}};
    prng_start(&scene.prng, number);
    scene.shape = (enum shape)prng_below(&scene.prng, SHAPES);
    scene.rules.order_values = prng_permille(&scene.prng, 200);
    scene_make(&scene, prng_between(&scene.prng, 1, COLLECTORS_MOST), 5000, spills ? 300 : 20);
    etl_options options = support_options(spills ? MIB : 64 * MIB);
    oracle_apply(&scene.rules, &options);
    options.threads = threads;
    options.access = (etl_access)prng_below(&scene.prng, 2);
    scene_create(&scene, &options);
    for (int round = 0; round < 2; round++) {
        scene_feed(&scene, 0, prng_permille(&scene.prng, 300));
        for (size_t i = 0; i < scene.count; i++)
            assert_int_equal(scene_runs(scene.collectors[i]) != 0, spills);
        check_iterate(&scene);
        check_load(&scene);
        if (!scene.accepted)
            for (size_t i = 0; i < scene.count; i++)
                ASSERT_OK(scene.collectors[i], etl_reset(scene.collectors[i]));
    }
    scene_close(&scene);
}

static void collectors_filled_by_threads_read_as_one(void **state) {
    (void)state;
    uint64_t number = 0;
    for (int duplicates = ETL_KEEP_ALL; duplicates <= ETL_REJECT; duplicates++)
        for (int threads = ETL_THREADS_NONE; threads <= 2; threads += 1 + (threads < 0))
            for (int spills = 0; spills < 2; spills++, number++)
                if (!support_light() || (number + support_seed()) % 6 == 0)
                    check_collecting(number, (etl_duplicates)duplicates, threads, spills != 0);
}

/* ---- Parts */

static size_t pair_bytes(const struct oracle_pair *pair) {
    return pair->key_size + pair->value_size;
}

static size_t bytes_between(const struct oracle *pairs, size_t from, size_t to) {
    size_t bytes = 0;
    for (; from < to; from++)
        bytes += pair_bytes(&pairs->pairs[from]);
    return bytes;
}

/* Of the key that has the most. */
static size_t heaviest(const struct oracle *sorted) {
    size_t most = 0, bytes = 0;
    for (size_t i = 0; i < sorted->count; i++) {
        const struct oracle_pair *pair = &sorted->pairs[i];
        bool same = i > 0 && pair->key_size == pair[-1].key_size &&
                    memcmp(pair->key, pair[-1].key, pair->key_size) == 0;
        bytes = (same ? bytes : 0) + pair_bytes(pair);
        most = bytes > most ? bytes : most;
    }
    return most;
}

/* No part is much above its share, but for a key that cannot be cut; and where no key has more
 * than a hundredth of a share, all the parts are there and none is much below. */
static void check_even(const struct scene *scene, const struct reader *readers, size_t count,
                       size_t parts) {
    size_t heavy = heaviest(&scene->expected);
    size_t share = bytes_between(&scene->expected, 0, scene->expected.count) / parts;
    for (size_t i = 0; i < count; i++) {
        size_t bytes = bytes_between(&scene->expected, readers[i].from, readers[i].to);
        assert_true(bytes <= share + share / 3 + heavy);
        assert_true(heavy > share / 100 || bytes >= share / 3 * 2);
    }
    assert_true(heavy > share / 100 || count == parts);
}

/* Every part at once, each in its thread: together they are the whole. */
static void check_parts(struct scene *scene, size_t parts) {
    struct reader readers[THREADS_MOST];
    etl_slice keys[THREADS_MOST];
    size_t count;
    ASSERT_OK(scene->collectors[0],
              etl_split(scene->collectors, scene->count, parts, keys, &count));
    assert_in_range(count, 0, parts - 1);
    for (size_t i = 0; i <= count; i++) {
        etl_range range = {{NULL, 0}, {NULL, 0}};
        if (i > 0)
            range.from = keys[i - 1];
        if (i < count)
            range.to = keys[i];
        reader_open(&readers[i], scene, scene->count, &scene->expected, &range);
        assert_int_equal(readers[i].from, i > 0 ? readers[i - 1].to : 0);
    }
    assert_int_equal(readers[count].to, scene->expected.count);
    check_even(scene, readers, count + 1, parts);
    readers_start(readers, count + 1);
    readers_end(readers, count + 1);
    for (size_t i = 0; i <= count; i++)
        assert_int_equal(readers[i].at, readers[i].to);
}

/* Half of it in a run, and the rest in memory; large enough to be dealt, or kept from it. */
static void open_scene(struct scene *scene, enum shape shape, etl_access access, bool plain) {
    enum { PAIRS = 60000, FLUSH_AFTER = PAIRS / 3, VALUE = 64 };
    scene->shape = shape;
    scene_make(scene, prng_between(&scene->prng, 1, 2), PAIRS, VALUE);
    etl_options options = support_options(12 * MIB);
    oracle_apply(&scene->rules, &options);
    options.threads = ETL_THREADS_NONE;
    options.access = access;
    scene_create(scene, &options);
    scene_feed(scene, FLUSH_AFTER, plain);
    assert_true(scene_runs(scene->collectors[0]) != 0);
    if (plain || shape == RANDOM || shape == DRIFT)
        assert_int_equal(scene_is_dealt(scene), !plain);
}

static void parts_read_at_once_are_the_whole(void **state) {
    (void)state;
    static const size_t parts[] = {2, 3, 8};
    for (uint64_t number = 0; number < SHAPES * 4; number++) {
        if (support_light() && (number + support_seed()) % 7 != 0)
            continue;
        struct scene scene = {.rules = {ETL_KEEP_ALL, false, ORACLE_TRIM}};
        prng_start(&scene.prng, 100 + number);
        open_scene(&scene, (enum shape)(number / 4), (etl_access)(number & 1), (number & 2) != 0);
        for (size_t i = 0; i < COUNT_OF(parts); i++)
            check_parts(&scene, parts[i]);
        check_load(&scene);
        scene_close(&scene);
    }
}

/* ---- One of several */

static void one_seeks_and_one_leaves_while_the_others_go_on(void **state) {
    (void)state;
    for (uint64_t number = 0; number < (support_light() ? 1 : 4); number++) {
        struct scene scene = {.rules = {ETL_KEEP_ALL, false, ORACLE_TRIM}};
        struct reader readers[4];
        prng_start(&scene.prng, 200 + number);
        open_scene(&scene, (enum shape)prng_below(&scene.prng, SHAPES), (etl_access)(number & 1),
                   (number & 2) != 0);
        for (size_t i = 0; i < COUNT_OF(readers); i++)
            reader_open(&readers[i], &scene, scene.count, &scene.expected, NULL);
        readers[0].seeks = readers[1].seeks = 100;
        readers[2].stop_at = prng_between(&scene.prng, 1, scene.expected.count);
        readers_start(readers, COUNT_OF(readers));
        readers_end(readers, COUNT_OF(readers));
        scene_close(&scene);
    }
}

/* Fails once, at one key. */
struct failing {
    atomic_bool armed;
    etl_slice key;
};

static int failing_reduce(void *context, etl_slice key, const etl_slice *values, size_t count,
                          etl_bytes *result) {
    struct failing *failing = context;
    if (atomic_load(&failing->armed) && key.size == failing->key.size &&
        memcmp(key.data, failing->key.data, key.size) == 0 &&
        atomic_exchange(&failing->armed, false))
        return STOP;
    return oracle_reduce_trim(NULL, key, values, count, result);
}

/* Or the part before the one that fails would fail too. */
static void a_group_behind_the_range_is_not_folded(void **state) {
    (void)state;
    static const char *const keys[] = {"a", "b", "a", "b"};
    struct failing failing = {.armed = true, .key = etl_slice_str("b")};
    etl_options options = support_options(MIB);
    options.duplicates = ETL_REDUCE;
    options.reduce = failing_reduce;
    options.reduce_ctx = &failing;
    etl_collector *collector = NULL;
    ASSERT_OK(NULL, etl_collector_create(&collector, &options));
    for (size_t i = 0; i < COUNT_OF(keys); i++)
        ASSERT_OK(collector, etl_collect(collector, etl_slice_str(keys[i]), etl_slice_str("v")));
    const etl_range range = {etl_slice_of(NULL, 0), failing.key};
    etl_iter *iter;
    ASSERT_OK(collector, etl_iter_open(&iter, collector, &range));
    ASSERT_OK(collector, etl_iter_next(iter, NULL, NULL));
    ASSERT_STATUS(ETL_END, collector, etl_iter_next(iter, NULL, NULL));
    assert_true(atomic_load(&failing.armed));
    etl_iter_close(iter);
    etl_collector_destroy(collector);
}

/* The fold of one part fails; there it is done again, and the other parts do not notice. */
static void one_part_fails_while_the_others_go_on(void **state) {
    (void)state;
    enum { PARTS = 3 };
    struct scene scene = {.rules = {ETL_REDUCE, false, ORACLE_TRIM}, .shape = FEW};
    struct failing failing = {.armed = false};
    struct reader readers[PARTS];
    etl_slice keys[PARTS];
    size_t count;
    prng_start(&scene.prng, 300);
    scene_make(&scene, 2, 8000, 30);
    etl_options options = support_options(MIB);
    oracle_apply(&scene.rules, &options);
    options.reduce = failing_reduce;
    options.reduce_ctx = &failing;
    scene_create(&scene, &options);
    scene_feed(&scene, 4000, false);
    failing.key = oracle_key(&scene.all.pairs[prng_below(&scene.prng, scene.all.count)]);
    ASSERT_OK(NULL, etl_split(scene.collectors, scene.count, PARTS, keys, &count));
    assert_int_equal(count, PARTS - 1);
    for (size_t i = 0; i < PARTS; i++) {
        etl_range range = {i > 0 ? keys[i - 1] : etl_slice_of(NULL, 0),
                           i < count ? keys[i] : etl_slice_of(NULL, 0)};
        reader_open(&readers[i], &scene, scene.count, &scene.expected, &range);
        size_t at = oracle_lower_bound(&scene.expected, failing.key);
        readers[i].retries = at >= readers[i].from && at < readers[i].to;
        readers[i].retry_on = STOP;
    }
    atomic_store(&failing.armed, true);
    readers_start(readers, PARTS);
    readers_end(readers, PARTS);
    for (size_t i = 0; i < PARTS; i++)
        assert_int_equal(readers[i].met, readers[i].retries);
    assert_false(atomic_load(&failing.armed));
    scene_close(&scene);
}

/* Two iterators over both collectors, two over the first alone, which the cancelling of the second
 * does not concern. Nothing is lost by it. */
static void cancelling_one_of_several_stops_only_its_iterators(void **state) {
    (void)state;
    enum { BOTH = 2, READERS = 4 };
    struct scene scene = {.rules = {ETL_KEEP_ALL, false, ORACLE_TRIM}, .shape = RANDOM};
    struct oracle first = {NULL, 0, 0};
    struct reader readers[READERS];
    atomic_bool resumed = false;
    prng_start(&scene.prng, 400);
    scene_make(&scene, 2, 5000, 30);
    oracle_settle(&scene.inputs[0], &scene.rules, &first);
    etl_options options = support_options(MIB);
    scene_create(&scene, &options);
    scene_feed(&scene, 3000, false);
    for (size_t i = 0; i < READERS; i++)
        reader_open(&readers[i], &scene, i < BOTH ? 2 : 1, i < BOTH ? &scene.expected : &first,
                    NULL);
    for (size_t i = 0; i < BOTH; i++) {
        readers[i].retry_on = ETL_E_CANCELLED;
        readers[i].retries = SIZE_MAX;
        readers[i].go = &resumed;
    }
    etl_cancel(scene.collectors[1]);
    readers_start(readers, READERS);
    for (size_t i = BOTH; i < READERS; i++) /* to their end, while the others wait */
        pthread_join(readers[i].thread, NULL);
    for (size_t i = 0; i < BOTH; i++)
        while (atomic_load(&readers[i].met) == 0 && !atomic_load(&readers[i].ended))
            sched_yield();
    etl_resume(scene.collectors[1]);
    atomic_store(&resumed, true);
    for (size_t i = BOTH; i < READERS; i++) {
        etl_iter_close(readers[i].iter);
        assert_false(readers[i].failed);
        assert_int_equal(readers[i].at, first.count);
    }
    readers_end(readers, BOTH);
    for (size_t i = 0; i < BOTH; i++) {
        assert_true(readers[i].met != 0);
        assert_int_equal(readers[i].at, scene.expected.count);
    }
    oracle_clear(&first);
    scene_close(&scene);
}

static void cancelling_again_and_again_loses_nothing(void **state) {
    (void)state;
    enum { READERS = 3, TIMES = 50 };
    struct scene scene = {.rules = {ETL_KEEP_ALL, false, ORACLE_TRIM}, .shape = FEW};
    struct reader readers[READERS];
    prng_start(&scene.prng, 500);
    scene_make(&scene, 2, 10000, 30);
    etl_options options = support_options(MIB);
    scene_create(&scene, &options);
    scene_feed(&scene, 6000, false);
    for (size_t i = 0; i < READERS; i++) {
        reader_open(&readers[i], &scene, 2, &scene.expected, NULL);
        readers[i].retry_on = ETL_E_CANCELLED;
        readers[i].retries = SIZE_MAX;
    }
    readers_start(readers, READERS);
    for (size_t i = 0; i < TIMES; i++) {
        etl_collector *collector = scene.collectors[prng_below(&scene.prng, 2)];
        etl_cancel(collector);
        sched_yield();
        etl_resume(collector);
    }
    readers_end(readers, READERS);
    for (size_t i = 0; i < READERS; i++)
        assert_int_equal(readers[i].at, scene.expected.count);
    scene_close(&scene);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(collectors_filled_by_threads_read_as_one),
        cmocka_unit_test(parts_read_at_once_are_the_whole),
        cmocka_unit_test(one_seeks_and_one_leaves_while_the_others_go_on),
        cmocka_unit_test(a_group_behind_the_range_is_not_folded),
        cmocka_unit_test(one_part_fails_while_the_others_go_on),
        cmocka_unit_test(cancelling_one_of_several_stops_only_its_iterators),
        cmocka_unit_test(cancelling_again_and_again_loses_nothing),
    };
    return cmocka_run_group_tests(tests, support_setup, support_teardown);
}
