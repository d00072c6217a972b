/* test_checkpoint.c: random lives of durable collectors: what is restored is what was collected up
 * to the last checkpoint, whatever the input, the options and the moment. */
#include "checkpoint_support.h"
#include "workload.h"

enum { CASES = 150, LARGE_CASES = 6, FLUSHES = 12 };

struct life {
    struct prng prng;
    struct workload workload;
    struct setting setting;
    struct support_memory memory;
    struct oracle input, expected;
    bool accepted;
    const char *directory;
    etl_collector *collector;
    size_t at, durable; /* pairs collected; of the last checkpoint */
};

/* Each flush makes a file: some ten in a life are enough. */
static void spare_files(struct life *life) {
    size_t most = FLUSHES * 1000 / (life->input.count + 1);
    if (life->setting.flushes > most)
        life->setting.flushes = (unsigned)most;
}

static etl_options draw_options(struct life *life) {
    struct oracle_rules rules = life->setting.rules;
    setting_draw(&life->setting, &life->prng);
    life->setting.rules = rules;
    if (prng_permille(&life->prng, 300))
        life->setting.access = ETL_ACCESS_MMAP_ALL;
    spare_files(life);
    return setting_options(&life->setting, &life->memory);
}

/* It is as if the process had died; or it ends in peace, which must make no difference. */
static void start_again(struct life *life) {
    uint64_t number;
    etl_collector_destroy(life->collector);
    support_memory_check(&life->memory);
    memset(&life->memory, 0, sizeof life->memory);
    etl_options options = draw_options(life);
    life->collector = restored(life->directory, &options, &number);
    assert_int_equal(number, life->durable);
    life->at = life->durable;
    etl_stats stats = {.struct_size = sizeof stats};
    assert_int_equal(etl_collector_stats(life->collector, &stats), ETL_OK);
    assert_int_equal(stats.pairs, life->at);
}

static void checkpoint(struct life *life) {
    uint64_t number = life->at;
    ASSERT_OK(life->collector,
              etl_checkpoint(life->collector, life->directory, token_of(&number)));
    life->durable = life->at;
}

/* What is collected so far, in order; the iterator may merge runs. */
static void look(struct life *life) {
    struct oracle part = {NULL, 0, 0}, settled = {NULL, 0, 0};
    for (size_t i = 0; i < life->at; i++)
        oracle_add(&part, oracle_key(&life->input.pairs[i]), oracle_value(&life->input.pairs[i]));
    bool accepted = oracle_settle(&part, &life->setting.rules, &settled);
    etl_iter *iter;
    etl_slice key, value;
    ASSERT_OK(life->collector, etl_iter_open(&iter, life->collector, NULL));
    assert_int_equal(etl_checkpoint(life->collector, life->directory, etl_slice_of(NULL, 0)),
                     ETL_E_STATE);
    for (size_t i = 0; i < settled.count; i++) {
        ASSERT_OK(life->collector, etl_iter_next(iter, &key, &value));
        assert_true(oracle_same(&settled.pairs[i], key, value));
    }
    assert_int_equal(etl_iter_next(iter, &key, &value), accepted ? ETL_END : ETL_E_DUPLICATE);
    etl_iter_close(iter);
    oracle_clear(&part);
    oracle_clear(&settled);
}

static void step(struct life *life) {
    size_t left = life->input.count - life->at;
    switch (prng_below(&life->prng, 8)) {
    case 0:
        start_again(life);
        break;
    case 1:
    case 2:
    case 3:
        checkpoint(life);
        break;
    case 4:
        look(life);
        break;
    default: {
        size_t to = life->at + prng_between(&life->prng, 0, left < 4 ? left : left / 2);
        setting_feed(&life->setting, &life->prng, life->collector, &life->input, life->at, to);
        life->at = to;
        break;
    }
    }
}

static void finish(struct life *life) {
    setting_feed(&life->setting, &life->prng, life->collector, &life->input, life->at,
                 life->input.count);
    life->at = life->input.count;
    if (prng_permille(&life->prng, 500)) {
        checkpoint(life);
        start_again(life);
    }
    struct oracle_check check = {&life->expected, 0, 0, 0};
    ASSERT_STATUS(life->accepted ? ETL_OK : ETL_E_DUPLICATE, life->collector,
                  etl_load(life->collector, oracle_load, &check));
    if (life->accepted)
        assert_int_equal(check.at, life->expected.count);
}

static void live(uint64_t number, size_t bytes) {
    struct life life = {.directory = new_directory()};
    prng_start(&life.prng, number);
    if (bytes != 0)
        workload_draw_large(&life.workload, &life.prng, bytes);
    else
        workload_draw_small(&life.workload, &life.prng);
    setting_draw(&life.setting, &life.prng);
    life.setting.rules.fold = life.workload.maps ? ORACLE_AFFINE : ORACLE_TRIM;
    workload_make(&life.workload, &life.prng, &life.input);
    spare_files(&life);
    life.accepted = oracle_settle(&life.input, &life.setting.rules, &life.expected);
    etl_options options = setting_options(&life.setting, &life.memory);
    if (prng_permille(&life.prng, 300)) { /* the directory comes with the first checkpoint */
        ASSERT_OK(NULL, etl_collector_create(&life.collector, &options));
        life.at = prng_below(&life.prng, life.input.count + 1);
        setting_feed(&life.setting, &life.prng, life.collector, &life.input, 0, life.at);
        checkpoint(&life);
    } else {
        uint64_t none;
        life.collector = restored(life.directory, &options, &none);
        assert_int_equal(none, 0);
    }
    size_t steps = prng_between(&life.prng, 0, 12);
    while (steps-- != 0)
        step(&life);
    finish(&life);
    etl_collector_destroy(life.collector);
    support_memory_check(&life.memory);
    assert_true(count_files(life.directory, ".tmp") == 0);
    remove_directory(life.directory);
    oracle_clear(&life.input);
    oracle_clear(&life.expected);
}

static void random_lives_restore_what_was_collected(void **state) {
    (void)state;
    size_t cases = support_scaled(CASES);
    for (uint64_t i = 0; i < cases; i++)
        live(i, 0);
}

static void large_ones_too(void **state) {
    (void)state;
    size_t cases = support_scaled(LARGE_CASES);
    for (uint64_t i = 0; i < cases; i++)
        live(10000 + i, 3 * MIB);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_lives_restore_what_was_collected),
        cmocka_unit_test(large_ones_too),
    };
    return cmocka_run_group_tests(tests, support_setup, support_teardown);
}
