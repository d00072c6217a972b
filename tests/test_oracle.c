/* test_oracle.c: random inputs under random settings, compared with the oracle byte for byte,
 * through every way out of the library: load, iterators, ranges, seeks, several collectors at
 * once, and partitions. A failing case prints itself; LIBETL_TEST_SEED replays it. */
#include "oracle.h"
#include "support.h"
#include "workload.h"

#include <stdlib.h>
#include <string.h>

enum { MANY_MAX = 4, SMALL_CASES = 900, LARGE_CASES = 24, STOP = 4711 };

/* One input, dealt to `count` collectors. */
struct scene {
    uint64_t number;
    struct prng prng;
    struct workload workload;
    struct setting setting;
    struct support_memory memory;
    struct oracle parts[MANY_MAX]; /* what each collector is given */
    struct oracle input;           /* all parts, one after the other */
    struct oracle expected;
    bool accepted; /* false: ETL_REJECT has a key that came twice */
    etl_collector *collectors[MANY_MAX];
    size_t count;
};

static void scene_feed(struct scene *scene) {
    for (size_t i = 0; i < scene->count; i++)
        setting_feed(&scene->setting, &scene->prng, scene->collectors[i], &scene->parts[i], 0,
                     scene->parts[i].count);
}

/* Everything but the workload and the setting, which are drawn before. */
static void scene_open(struct scene *scene, size_t count) {
    struct oracle pairs = {NULL, 0, 0};
    scene->setting.rules.fold = scene->workload.maps ? ORACLE_AFFINE : ORACLE_TRIM;
    workload_make(&scene->workload, &scene->prng, &pairs);
    scene->count = count;
    for (size_t i = 0; i < pairs.count; i++)
        oracle_add(&scene->parts[prng_below(&scene->prng, count)], oracle_key(&pairs.pairs[i]),
                   oracle_value(&pairs.pairs[i]));
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < scene->parts[i].count; j++)
            oracle_add(&scene->input, oracle_key(&scene->parts[i].pairs[j]),
                       oracle_value(&scene->parts[i].pairs[j]));
    oracle_clear(&pairs);
    scene->accepted = oracle_settle(&scene->input, &scene->setting.rules, &scene->expected);
    etl_options options = setting_options(&scene->setting, &scene->memory);
    if (scene->setting.flushes > 5)
        support_make_fast(&options);
    for (size_t i = 0; i < count; i++)
        ASSERT_OK(NULL, etl_collector_create(&scene->collectors[i], &options));
    scene_feed(scene);
}

static void scene_close(struct scene *scene) {
    for (size_t i = 0; i < scene->count; i++) {
        etl_collector_destroy(scene->collectors[i]);
        oracle_clear(&scene->parts[i]);
    }
    support_memory_check(&scene->memory);
    oracle_clear(&scene->input);
    oracle_clear(&scene->expected);
}

static void scene_draw(struct scene *scene, uint64_t number) {
    memset(scene, 0, sizeof *scene);
    scene->number = number;
    prng_start(&scene->prng, number);
}

/* ---- Ways out */

static int load(struct scene *scene, struct oracle_check *check) {
    if (scene->count == 1 && prng_permille(&scene->prng, 500))
        return etl_load(scene->collectors[0], oracle_load, check);
    return etl_load_many(scene->collectors, scene->count, oracle_load, check);
}

static void check_load(struct scene *scene) {
    const struct oracle *expected = &scene->expected;
    if (scene->accepted && expected->count != 0 && prng_permille(&scene->prng, 300)) {
        struct oracle_check stopped = {expected, 0, prng_below(&scene->prng, expected->count),
                                       STOP};
        ASSERT_STATUS(STOP, scene->collectors[0], load(scene, &stopped));
    }
    struct oracle_check check = {expected, 0, 0, 0};
    ASSERT_STATUS(scene->accepted ? ETL_OK : ETL_E_DUPLICATE, scene->collectors[0],
                  load(scene, &check));
    if (scene->accepted)
        assert_int_equal(check.at, expected->count);
}

static etl_iter *open_iter(struct scene *scene, const etl_range *range) {
    etl_iter *iter = NULL;
    if (scene->count == 1 && prng_permille(&scene->prng, 500))
        ASSERT_OK(scene->collectors[0], etl_iter_open(&iter, scene->collectors[0], range));
    else
        ASSERT_OK(scene->collectors[0],
                  etl_iter_open_many(&iter, scene->collectors, scene->count, range));
    return iter;
}

/* Read at most `most` pairs, which must be those at [*at, end); at the end it must stay ETL_END.
 */
static void read_pairs(const struct scene *scene, etl_iter *iter, size_t *at, size_t end,
                       size_t most) {
    for (; most != 0; most--) {
        etl_slice key, value;
        int status = etl_iter_next(iter, &key, &value);
        if (*at < end) {
            assert_int_equal(status, ETL_OK);
            assert_true(oracle_same(&scene->expected.pairs[*at], key, value));
            (*at)++;
        } else {
            assert_int_equal(status, scene->accepted ? ETL_END : ETL_E_DUPLICATE);
            if (status == ETL_END)
                assert_int_equal(etl_iter_next(iter, NULL, NULL), ETL_END);
            return;
        }
    }
}

static void check_iterate(struct scene *scene) {
    etl_iter *iter = open_iter(scene, NULL);
    size_t at = 0;
    read_pairs(scene, iter, &at, scene->expected.count, SIZE_MAX);
    etl_iter_close(iter);
}

/* The pairs [*from, *to) of the expected output that a range holds. */
static void range_bounds(const struct scene *scene, const etl_range *range, size_t *from,
                         size_t *to) {
    const struct oracle *expected = &scene->expected;
    *from = range->from.data != NULL ? oracle_lower_bound(expected, range->from) : 0;
    *to = range->to.data != NULL ? oracle_lower_bound(expected, range->to) : expected->count;
    if (*to < *from)
        *to = *from;
}

/* One random range, a few random seeks in and around it, one of them to the key just read. */
static void check_range(struct scene *scene) {
    struct prng *prng = &scene->prng;
    unsigned char buffers[3][64];
    etl_range range = {{NULL, 0}, {NULL, 0}};
    if (prng_permille(prng, 800))
        range.from = workload_probe(prng, &scene->input, buffers[0]);
    if (prng_permille(prng, 800))
        range.to = workload_probe(prng, &scene->input, buffers[1]);
    size_t from, to;
    range_bounds(scene, &range, &from, &to);
    etl_iter *iter = open_iter(scene, &range);
    size_t at = from;
    for (size_t seeks = prng_below(prng, 6);; seeks--) {
        read_pairs(scene, iter, &at, to, seeks == 0 ? SIZE_MAX : prng_below(prng, 40));
        if (seeks == 0)
            break;
        etl_slice target = workload_probe(prng, &scene->input, buffers[2]);
        if (at < to && prng_permille(prng, 200)) {
            assert_int_equal(etl_iter_next(iter, &target, NULL), ETL_OK);
            target.size = prng_below(prng, target.size + 1);
            at = oracle_lower_bound(&scene->expected, etl_slice_of(target.data, target.size));
        } else {
            at = oracle_lower_bound(&scene->expected, target);
        }
        at = at < from ? from : at > to ? to : at;
        assert_int_equal(etl_iter_seek(iter, target), ETL_OK);
    }
    etl_iter_close(iter);
}

/* Load by the ranges that etl_split cuts: together they are everything, in order. */
static void check_split(struct scene *scene) {
    etl_slice keys[8];
    size_t parts = prng_between(&scene->prng, 1, COUNT_OF(keys) + 1), count = 99, at = 0;
    ASSERT_OK(scene->collectors[0],
              etl_split(scene->collectors, scene->count, parts, keys, &count));
    assert_in_range(count, 0, parts - 1);
    for (size_t i = 0; i <= count; i++) {
        etl_range range = {{NULL, 0}, {NULL, 0}};
        if (i > 0)
            range.from = keys[i - 1];
        if (i < count)
            range.to = keys[i];
        if (i < count)
            assert_true(keys[i].size != 0);
        size_t from, to;
        range_bounds(scene, &range, &from, &to);
        assert_int_equal(from, at);
        etl_iter *iter = open_iter(scene, &range);
        read_pairs(scene, iter, &at, to, SIZE_MAX);
        etl_iter_close(iter);
    }
    assert_int_equal(at, scene->expected.count);
}

/* Every way out that does not consume, in random order, then a load, then a second round. */
static void check_scene(struct scene *scene, unsigned ranges) {
    struct prng *prng = &scene->prng;
    if (scene->accepted) {
        for (unsigned i = 0; i < ranges; i++)
            check_range(scene);
        if (prng_permille(prng, 300))
            check_split(scene);
    }
    if (prng_permille(prng, 600))
        check_iterate(scene);
    check_load(scene);
    if (prng_permille(prng, 250)) {
        if (!scene->accepted)
            for (size_t i = 0; i < scene->count; i++)
                ASSERT_OK(scene->collectors[i], etl_reset(scene->collectors[i]));
        scene_feed(scene);
        check_load(scene);
    }
}

/* ---- Tests */

/* The case under way: where it fails, the teardown tells it. */
static struct scene scene;
static bool under_way;

static int tell_failed_case(void **state) {
    (void)state;
    if (under_way)
        setting_print(&scene.setting, &scene.workload, scene.number);
    under_way = false;
    return 0;
}

static void run_case(size_t collectors, unsigned ranges) {
    under_way = true;
    scene_open(&scene, collectors);
    check_scene(&scene, ranges);
    scene_close(&scene);
    under_way = false;
}

static void small_inputs_in_one_collector(void **state) {
    (void)state;
    for (uint64_t i = 0; i < support_scaled(SMALL_CASES); i++) {
        scene_draw(&scene, 1000000 + i);
        workload_draw_small(&scene.workload, &scene.prng);
        setting_draw(&scene.setting, &scene.prng);
        run_case(1, 3);
    }
}

static void small_inputs_dealt_to_several_collectors(void **state) {
    (void)state;
    for (uint64_t i = 0; i < support_scaled(SMALL_CASES / 3); i++) {
        scene_draw(&scene, 2000000 + i);
        workload_draw_small(&scene.workload, &scene.prng);
        setting_draw(&scene.setting, &scene.prng);
        run_case(prng_between(&scene.prng, 2, MANY_MAX), 3);
    }
}

static void large_inputs_that_spill(void **state) {
    (void)state;
    for (uint64_t i = 0; i < support_scaled(LARGE_CASES); i++) {
        scene_draw(&scene, 3000000 + i);
        workload_draw_large(&scene.workload, &scene.prng, prng_between(&scene.prng, 3, 6) * MIB);
        setting_draw(&scene.setting, &scene.prng);
        scene.setting.memory_limit = (i % 4 == 3 ? 2 : 1) * MIB;
        scene.setting.rules.duplicates = (etl_duplicates)(i % (ETL_REJECT + 1));
        scene.setting.flushes = 0;
        run_case(i % 3 == 2 ? 2 : 1, 5);
    }
}

/* One input under many settings: the same bytes, which are the oracle's. */
static void output_is_a_function_of_the_input(void **state) {
    (void)state;
    static const size_t limits[] = {1, 2, 64};
    uint64_t settings = 0;
    for (size_t limit = 0; limit < COUNT_OF(limits); limit++)
        for (int threads = ETL_THREADS_NONE; threads <= 3; threads += 2)
            for (unsigned width = 0; width <= 2; width += 2, settings++) {
                scene_draw(&scene, 4000000);
                workload_draw_large(&scene.workload, &scene.prng,
                                    support_light() ? MIB / 2 : 3 * MIB);
                scene.workload.order = ORDER_RANDOM;
                scene.setting.memory_limit = limits[limit] * MIB;
                scene.setting.threads = threads;
                scene.setting.merge_width = width;
                scene.setting.access = (etl_access)(settings % 2);
                scene.setting.flushes = (unsigned)(settings % 3);
                run_case(1, 1);
            }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(small_inputs_in_one_collector, tell_failed_case),
        cmocka_unit_test_teardown(small_inputs_dealt_to_several_collectors, tell_failed_case),
        cmocka_unit_test_teardown(large_inputs_that_spill, tell_failed_case),
        cmocka_unit_test_teardown(output_is_a_function_of_the_input, tell_failed_case),
    };
    return cmocka_run_group_tests(tests, support_setup, support_teardown);
}
