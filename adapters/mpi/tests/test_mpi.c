/* test_mpi.c: what all ranks together are given is, pair for pair, what one collector would have
 * given. Random inputs and settings, large values, heavy keys, and the memory limit. */
#include "mpi_support.h"

#include <stdlib.h>
#include <string.h>

enum { SMALL_CASES = 16, LARGE_CASES = 2, LONG_FACTOR = 50 };

static size_t cases(size_t count) {
    const char *longer = getenv("LIBETL_TEST_LONG");
    return longer != NULL && longer[0] == '1' ? LONG_FACTOR * count : support_scaled(count);
}

/* ---- Random scenes */

/* Settings may differ from rank to rank in all that is not a rule. */
static void own_setting(struct setting *setting, const struct oracle_rules *rules, uint64_t number,
                        bool large) {
    struct prng own;
    prng_start(&own, number * 64 + (uint64_t)team_rank + 7000000);
    setting_draw(setting, &own);
    setting->rules = *rules;
    setting->flushes =
        large ? setting->flushes % 50 : setting->flushes; /* few runs of many pairs */
}

static void check_stats(const struct scene *scene, const etl_mpi_stats *stats, size_t delivered) {
    assert_int_equal(stats->pairs_delivered, delivered);
    assert_int_equal(team_sum((long long)stats->pairs_sent),
                     team_sum((long long)stats->pairs_received));
    if (scene->rules.duplicates == ETL_KEEP_ALL)
        assert_int_equal(stats->pairs_received, delivered);
}

static void run_scene(uint64_t number, bool large) {
    struct prng prng;
    struct workload workload;
    struct setting setting;
    struct support_memory memory = {.calls = 0};
    struct scene scene = {.accepted = false};
    prng_start(&prng, number);
    if (large)
        workload_draw_large(&workload, &prng, 3 * MIB);
    else
        workload_draw_small(&workload, &prng);
    setting_draw(&setting, &prng);
    setting.rules.fold = workload.maps ? ORACLE_AFFINE : ORACLE_TRIM;
    workload_make(&workload, &prng, &scene.input);
    scene_deal(&scene, &prng, &setting.rules, prng_below(&prng, 5));
    etl_mpi_stats stats = {.struct_size = sizeof stats};
    etl_mpi_options mpi_options = LIBETL_MPI_OPTIONS_INIT;
    mpi_options.exchange_memory = prng_permille(&prng, 600) ? 1 : 0; /* blocks of 1 KiB */
    mpi_options.stats = &stats;
    struct oracle_rules rules = setting.rules;
    own_setting(&setting, &rules, number, large);
    setting_print(&setting, &workload, number);

    etl_options options = setting_options(&setting, &memory);
    support_make_fast(&options);
    etl_collector *collector;
    ASSERT_OK(NULL, etl_collector_create(&collector, &options));
    setting_feed(&setting, &prng, collector, &scene.input, scene.from[team_rank],
                 scene.from[team_rank + 1]);
    size_t delivered = scene_load(&scene, collector, &mpi_options);
    if (scene.accepted) {
        check_stats(&scene, &stats, delivered);
        scene_load(&(struct scene){.accepted = true}, collector, &mpi_options); /* it is empty */
    } else {
        scene_load(&scene, collector, &mpi_options); /* it still holds all */
    }
    etl_collector_destroy(collector);
    support_memory_check(&memory);
    scene_clear(&scene);
}

static void test_random_scenes(void **state) {
    (void)state;
    size_t small = cases(SMALL_CASES), large = cases(LARGE_CASES);
    for (uint64_t i = 0; i < small; i++)
        run_scene(i, false);
    for (uint64_t i = 0; i < large; i++)
        run_scene(1000000 + i, true);
}

/* ---- Shapes of input */

/* Pairs with keys of 8 bytes, of which `heavy` permille are one key, and values of 40. */
static void fill(struct scene *scene, struct prng *prng, size_t count, unsigned heavy) {
    for (size_t i = 0; i < count; i++) {
        uint64_t key = prng_next(prng);
        unsigned char value[40];
        if (prng_permille(prng, heavy))
            key = 0x7777777777777777u;
        memset(value, (int)i, sizeof value);
        memcpy(value, &i, sizeof i);
        oracle_add(&scene->input, etl_slice_of(&key, sizeof key),
                   etl_slice_of(value, sizeof value));
    }
}

/* The largest share of a rank, where 1 is an even one. */
static double largest_share(const struct scene *scene, const etl_options *options) {
    etl_collector *collector = scene_collect(scene, options);
    size_t got = scene_load(scene, collector, NULL);
    etl_collector_destroy(collector);
    return (double)team_most((long long)got) * team_size / (double)scene->expected.count;
}

static double share_of(size_t count, unsigned heavy, etl_duplicates duplicates,
                       enum workload_order order, size_t empty) {
    struct prng prng;
    struct scene scene = {.accepted = false};
    struct oracle_rules rules = {.duplicates = duplicates};
    etl_options options = support_options(MIB);
    options.duplicates = duplicates;
    prng_start(&prng, 42);
    fill(&scene, &prng, count, heavy);
    if (order != ORDER_RANDOM)
        oracle_sort(&scene.input, false);
    for (size_t i = 0; order == ORDER_REVERSE && i < count / 2; i++) {
        struct oracle_pair pair = scene.input.pairs[i];
        scene.input.pairs[i] = scene.input.pairs[count - 1 - i];
        scene.input.pairs[count - 1 - i] = pair;
    }
    scene_deal(&scene, &prng, &rules, empty);
    double share = largest_share(&scene, &options);
    print_message("heavy %u duplicates %d order %d: largest share %.3f\n", heavy, (int)duplicates,
                  (int)order, share);
    scene_clear(&scene);
    return share;
}

static void test_ranks_get_even_shares(void **state) {
    (void)state;
    size_t count = team_size > 4 ? 14000 : 30000;
    assert_true(share_of(count, 0, ETL_KEEP_ALL, ORDER_RANDOM, 0) < 1.1);
    assert_true(share_of(count, 0, ETL_KEEP_ALL, ORDER_SORTED, 0) < 1.1);
    assert_true(share_of(count, 0, ETL_KEEP_ALL, ORDER_REVERSE, 0) < 1.1);
    assert_true(share_of(count, 0, ETL_KEEP_ALL, ORDER_RANDOM, 2) < 1.3);
}

/* Of a key with half of all pairs, and of one with all of them, each rank gets what some ranks
 * have collected: a cut goes between these. Where the key is folded, it is one pair. */
static void test_a_heavy_key_is_shared(void **state) {
    (void)state;
    size_t count = team_size > 4 ? 14000 : 30000;
    assert_true(share_of(count, 500, ETL_KEEP_ALL, ORDER_RANDOM, 0) < 1.35);
    assert_true(share_of(count, 1000, ETL_KEEP_ALL, ORDER_RANDOM, 0) < 1.1);
    share_of(count, 500, ETL_APPEND, ORDER_RANDOM, 0);
    share_of(count, 1000, ETL_KEEP_LAST, ORDER_RANDOM, 0);
}

static void test_ranks_may_have_nothing(void **state) {
    (void)state;
    share_of(0, 0, ETL_KEEP_ALL, ORDER_RANDOM, 0);
    share_of(1, 0, ETL_KEEP_ALL, ORDER_RANDOM, 0);
    share_of(3, 1000, ETL_KEEP_ALL, ORDER_RANDOM, 0);
    share_of(3, 1000, ETL_APPEND, ORDER_RANDOM, 1); /* rank 0 or the last has all */
}

/* ---- Large pairs */

static void load_large(size_t memory_limit, size_t exchange, size_t value_most) {
    struct prng prng;
    struct scene scene = {.accepted = false};
    struct oracle_rules rules = {.duplicates = ETL_KEEP_ALL};
    etl_options options = support_options(memory_limit);
    etl_mpi_options mpi_options = LIBETL_MPI_OPTIONS_INIT;
    mpi_options.exchange_memory = exchange;
    unsigned char *value = malloc(value_most);
    assert_non_null(value);
    prng_start(&prng, value_most);
    for (size_t i = 0; i < 24; i++) {
        size_t size = i % 3 == 0 ? value_most - prng_below(&prng, 100) : prng_below(&prng, 900);
        size_t key_size = i % 8 == 1 ? prng_between(&prng, 1000, 70000) : 4;
        for (size_t at = 0; at < size; at++)
            value[at] = (unsigned char)(at * 7 + at / 255 + i);
        value[0] = (unsigned char)prng_next(&prng);
        oracle_add(&scene.input, etl_slice_of(value, key_size < size ? key_size : size),
                   etl_slice_of(value, size));
    }
    free(value);
    scene_deal(&scene, &prng, &rules, 0);
    etl_collector *collector = scene_collect(&scene, &options);
    scene_load(&scene, collector, &mpi_options);
    etl_collector_destroy(collector);
    scene_clear(&scene);
}

static void test_values_larger_than_a_block(void **state) {
    (void)state;
    load_large(16 * MIB, 1, 1000);       /* pairs that just fit a block, or do not */
    load_large(16 * MIB, 1, 100000);     /* a hundred pieces */
    load_large(64 * MIB, 0, 1500000);    /* larger than the largest block */
    load_large(MIB, 0, 2 * MIB + 12345); /* larger than the limit */
}

/* ---- Memory */

static void hold_limit(size_t limit, etl_access access, size_t pairs) {
    struct prng prng;
    etl_options options = support_options(limit);
    options.access = access;
    etl_collector *collector;
    struct oracle got = {NULL, 0, 0};
    prng_start(&prng, limit + (uint64_t)team_rank);
    ASSERT_OK(NULL, etl_collector_create(&collector, &options));
    uint64_t sum = 0;
    for (size_t i = 0; i < pairs; i++) {
        uint64_t key = prng_next(&prng);
        unsigned char value[92] = {0};
        sum += key;
        memcpy(value, &key, sizeof key);
        ASSERT_OK(collector, etl_collect(collector, etl_slice_of(&key, sizeof key),
                                         etl_slice_of(value, sizeof value)));
    }
    ASSERT_OK(collector, etl_mpi_load(collector, MPI_COMM_WORLD, keep_pair, &got, NULL));
    for (size_t i = 0; i < got.count; i++) {
        uint64_t key;
        memcpy(&key, got.pairs[i].key, sizeof key);
        sum -= key;
    }
    assert_int_equal(team_sum((long long)got.count), (long long)pairs * team_size);
    assert_int_equal(team_sum((long long)sum), 0);
    etl_stats stats = {.struct_size = sizeof stats};
    etl_collector_stats(collector, &stats);
    print_message("limit %zu access %d: %llu bytes at most, %llu runs\n", limit, (int)access,
                  (unsigned long long)stats.memory_bytes_peak, (unsigned long long)stats.runs);
    assert_true(stats.memory_bytes_peak <= limit);
    etl_collector_destroy(collector);
    oracle_clear(&got);
}

static void test_the_memory_limit_holds(void **state) {
    (void)state;
    size_t pairs = support_scaled(30000);
    hold_limit(2 * MIB, ETL_ACCESS_MMAP, pairs);
    hold_limit(2 * MIB, ETL_ACCESS_READ, pairs);
    hold_limit(4 * MIB, ETL_ACCESS_MMAP, pairs); /* 3 of it are in memory when all is collected */
    hold_limit(16 * MIB, ETL_ACCESS_READ, pairs);
}

int main(int argc, char **argv) {
    team_begin(&argc, &argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranks_may_have_nothing),
        cmocka_unit_test(test_random_scenes),
        cmocka_unit_test(test_ranks_get_even_shares),
        cmocka_unit_test(test_a_heavy_key_is_shared),
        cmocka_unit_test(test_values_larger_than_a_block),
        cmocka_unit_test(test_the_memory_limit_holds),
    };
    return TEAM_RUN(tests);
}
