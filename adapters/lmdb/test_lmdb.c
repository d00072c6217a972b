/* test_lmdb.c: random pairs into random tables in every mode, stopped in the middle and taken up
 * again, compared with a model to which the same pairs are applied one by one. A failing case
 * prints itself; LIBETL_TEST_SEED replays it. */
#include "lmdb_support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CASES = 1200, STOP = 4711 };

static const struct kind kinds[] = {
    {"plain", 0, false, false, 0, 0},
    {"plain, again", 0, false, false, 0, 0},
    {"reverse keys", MDB_REVERSEKEY, false, false, 0, 0},
    {"integer keys", MDB_INTEGERKEY, false, false, sizeof(unsigned), 0},
    {"large integer keys", MDB_INTEGERKEY, false, false, sizeof(size_t), 0},
    {"own order", 0, true, false, 0, 0},
    {"values", MDB_DUPSORT, false, false, 0, 0},
    {"values, again", MDB_DUPSORT, false, false, 0, 0},
    {"fixed values", MDB_DUPSORT | MDB_DUPFIXED, false, false, 0, 12},
    {"reverse values", MDB_DUPSORT | MDB_REVERSEDUP, false, false, 0, 0},
    {"integer values", MDB_DUPSORT | MDB_DUPFIXED | MDB_INTEGERDUP, false, false, 0,
     sizeof(size_t)},
    {"values in own order", MDB_DUPSORT, false, true, 0, 0},
    {"all in own order", MDB_DUPSORT, true, true, 0, 0},
    {"integers", MDB_DUPSORT | MDB_INTEGERKEY | MDB_DUPFIXED | MDB_INTEGERDUP, false, false,
     sizeof(size_t), sizeof(unsigned)},
};

enum mode { OWN, CALLERS, MANY, PUSHED, GROWING, MODES };
enum stop { NEVER, BY_COMMIT, BY_CANCEL, BY_FULL_MAP, STOPS };

struct scene {
    uint64_t number;
    struct prng prng;
    const struct kind *kind;
    enum mode mode;
    enum stop stop;
    struct oracle_rules rules;
    uint64_t commit_pairs;
    struct oracle input, expected;
    struct table table;
    etl_collector *collectors[2];
    size_t count;
    /* what commits told */
    unsigned char last[512];
    etl_slice last_key;
    uint64_t commits, told;
    size_t stop_at;
    char message[256];
};

/* ---- Drawing */

static etl_slice draw(struct prng *prng, unsigned char *bytes, size_t fixed, size_t least,
                      unsigned alphabet) {
    size_t size = fixed != 0                ? fixed
                  : prng_permille(prng, 10) ? prng_between(prng, 400, 511)
                                            : prng_between(prng, least, 14);
    for (size_t i = 0; i < size; i++)
        bytes[i] = (unsigned char)prng_below(prng, alphabet);
    return etl_slice_of(bytes, size);
}

static void draw_pairs(struct scene *scene) {
    static const unsigned alphabets[] = {2, 4, 256};
    struct prng *prng = &scene->prng;
    unsigned char key[512], value[2048];
    bool sorts_values = scene->kind->flags & MDB_DUPSORT;
    unsigned alphabet = alphabets[prng_below(prng, 3)];
    unsigned nil = prng_permille(prng, 500) ? 150 : 0;
    size_t count = prng_below(prng, prng_permille(prng, 300) ? 600 : 40);
    for (size_t i = 0; i < count; i++) {
        etl_slice k = draw(prng, key, scene->kind->key_size, 1, alphabet);
        etl_slice v = draw(prng, value, scene->kind->value_size, sorts_values ? 1 : 0, alphabet);
        if (!sorts_values && prng_permille(prng, 20))
            v = etl_slice_of(memset(value, 'v', sizeof value), sizeof value);
        oracle_add(&scene->input, k, prng_permille(prng, nil) ? etl_slice_of(NULL, 0) : v);
    }
    etl_duplicates rules[] = {ETL_KEEP_ALL, ETL_KEEP_ALL, ETL_KEEP_FIRST, ETL_KEEP_LAST};
    scene->rules.duplicates = rules[prng_below(prng, 4)];
    scene->rules.order_values = prng_permille(prng, 500);
    assert_true(oracle_settle(&scene->input, &scene->rules, &scene->expected));
}

/* None, or some of the keys to come and others, or only lower ones. */
static void draw_table(struct scene *scene) {
    struct prng *prng = &scene->prng;
    unsigned char key[512], value[512];
    bool small = scene->stop == BY_FULL_MAP || scene->mode == GROWING;
    table_open(&scene->table, scene->kind, small ? 64 * KIB : 0);
    size_t pairs = prng_below(prng, 3) * prng_below(prng, small ? 4 : 30);
    unsigned highest = prng_permille(prng, 300) ? 1 : 256;
    for (size_t i = 0; i < pairs; i++) {
        etl_slice k = draw(prng, key, scene->kind->key_size, 1, highest);
        if (scene->input.count != 0 && highest != 1 && prng_permille(prng, 500))
            k = oracle_key(&scene->input.pairs[prng_below(prng, scene->input.count)]);
        table_put(&scene->table, k, draw(prng, value, scene->kind->value_size, 1, 256));
    }
}

static void draw_scene(struct scene *scene) {
    static const uint64_t commits[] = {0, 1, 2, 7, 100};
    struct prng *prng = &scene->prng;
    scene->kind = &kinds[prng_below(prng, COUNT_OF(kinds))];
    scene->mode = (enum mode)prng_below(prng, MODES);
    scene->stop = (enum stop)prng_below(prng, STOPS);
    if (scene->mode == GROWING && scene->stop == BY_FULL_MAP)
        scene->stop = BY_COMMIT;
    scene->commit_pairs = commits[prng_below(prng, COUNT_OF(commits))];
    scene->stop_at = prng_between(prng, 1, 5);
    scene->count = scene->mode == MANY ? 2 : 1;
    draw_pairs(scene);
    draw_table(scene);
    for (size_t i = 0; i < scene->count; i++) {
        etl_options options = support_options(MIB);
        oracle_apply(&scene->rules, &options);
        ASSERT_OK(NULL, etl_collector_create(&scene->collectors[i], &options));
    }
    for (size_t i = 0; i < scene->input.count; i++) {
        etl_collector *to = scene->collectors[i * scene->count / scene->input.count];
        const struct oracle_pair *pair = &scene->input.pairs[i];
        ASSERT_OK(to, etl_collect(to, oracle_key(pair), oracle_value(pair)));
        if (prng_permille(prng, 10))
            ASSERT_OK(to, etl_flush(to));
    }
}

/* ---- Loading */

static int committed(void *context, const etl_lmdb_commit *commit) {
    struct scene *scene = context;
    assert_true(commit->key.size <= sizeof scene->last);
    assert_true(commit->pairs > scene->told);
    memcpy(scene->last, commit->key.data, commit->key.size);
    scene->last_key = etl_slice_of(scene->last, commit->key.size);
    scene->told = commit->pairs;
    scene->commits++;
    if (scene->stop == BY_CANCEL && scene->commits == scene->stop_at)
        etl_cancel(scene->collectors[0]);
    return scene->stop == BY_COMMIT && scene->commits == scene->stop_at ? STOP : 0;
}

static etl_lmdb_options scene_options(struct scene *scene) {
    etl_lmdb_options options = LIBETL_LMDB_OPTIONS_INIT;
    options.commit_pairs = scene->commit_pairs;
    options.committed = committed;
    options.committed_ctx = scene;
    options.message = scene->message;
    options.message_size = sizeof scene->message;
    if (scene->mode == GROWING)
        options.map_size_max = 64 * MIB;
    return options;
}

static int load_in_callers(struct scene *scene, etl_lmdb_options *options) {
    MDB_txn *txn;
    ASSERT_MDB(mdb_txn_begin(scene->table.env, NULL, 0, &txn));
    options->txn = txn;
    int status = etl_lmdb_load(scene->collectors[0], scene->table.env, scene->table.dbi, options);
    if (status != ETL_OK) {
        mdb_txn_abort(txn);
        return status;
    }
    assert_int_equal(pairs_in(scene->collectors[0]), scene->expected.count);
    status = mdb_txn_commit(txn); /* which may need pages too */
    if (status != MDB_SUCCESS) {
        snprintf(scene->message, sizeof scene->message, "the caller's commit");
        return status;
    }
    ASSERT_OK(scene->collectors[0], etl_reset(scene->collectors[0]));
    return ETL_OK;
}

static int load_pushed(struct scene *scene, const etl_lmdb_options *options) {
    etl_lmdb_writer *writer;
    assert_int_equal(etl_lmdb_writer_open(&writer, scene->table.env, scene->table.dbi, options),
                     ETL_OK);
    int status = etl_load(scene->collectors[0], etl_lmdb_writer_put, writer);
    if (status == ETL_OK)
        status = etl_lmdb_writer_commit(writer);
    else if (status != ETL_E_CANCELLED)
        assert_int_equal(etl_lmdb_writer_commit(writer), status);
    etl_lmdb_writer_close(writer);
    return status;
}

static int load(struct scene *scene, const etl_slice *after) {
    etl_lmdb_options options = scene_options(scene);
    scene->told = 0;
    if (after != NULL)
        options.after = *after;
    if (scene->mode == PUSHED && after == NULL)
        return load_pushed(scene, &options);
    if (scene->mode == CALLERS)
        return load_in_callers(scene, &options);
    return etl_lmdb_load_many(scene->collectors, scene->count, scene->table.env, scene->table.dbi,
                              &options);
}

/* ---- A case */

/* The table is as of the last commit, and no pair was consumed. */
static void check_stopped(struct scene *scene, int status) {
    struct oracle model = {NULL, 0, 0};
    static const int statuses[STOPS] = {0, STOP, ETL_E_CANCELLED, MDB_MAP_FULL};
    assert_int_equal(status, statuses[scene->stop]);
    if (scene->stop != BY_CANCEL || scene->mode != PUSHED) /* there etl_load was told, not us */
        assert_true(scene->message[0] != '\0');
    model_copy(&model, &scene->table.model);
    if (scene->last_key.data != NULL)
        model_apply_all(scene->kind, &model, &scene->expected, &scene->last_key);
    table_check(&scene->table, &model);
    oracle_clear(&model);
    if (scene->stop == BY_FULL_MAP)
        ASSERT_MDB(mdb_env_set_mapsize(scene->table.env, 64 * MIB));
    scene->stop = NEVER;
}

static void play(struct scene *scene) {
    int status = load(scene, NULL);
    etl_resume(scene->collectors[0]);
    bool consumed = status == ETL_OK;
    /* A pushed load whose last commit fails has been consumed: that is what its contract says. */
    bool gone = scene->mode == PUSHED && pairs_in(scene->collectors[0]) == 0;
    if (!consumed && !gone) {
        check_stopped(scene, status);
        unsigned char copy[512];
        etl_slice after = scene->last_key;
        if (after.data != NULL)
            after = etl_slice_of(memcpy(copy, after.data, after.size), after.size);
        bool resume = after.data != NULL && prng_permille(&scene->prng, 500);
        scene->message[0] = '\0';
        assert_int_equal(load(scene, resume ? &after : NULL), ETL_OK);
        consumed = true;
    }
    if (consumed) {
        model_apply_all(scene->kind, &scene->table.model, &scene->expected, NULL);
        table_check(&scene->table, &scene->table.model);
    }
    for (size_t i = 0; i < scene->count; i++)
        assert_int_equal(pairs_in(scene->collectors[i]), 0);
}

static void run_case(uint64_t number) {
    struct scene *scene = calloc(1, sizeof *scene);
    assert_non_null(scene);
    scene->number = number;
    prng_start(&scene->prng, number);
    draw_scene(scene);
    play(scene);
    for (size_t i = 0; i < scene->count; i++)
        etl_collector_destroy(scene->collectors[i]);
    table_close(&scene->table);
    oracle_clear(&scene->input);
    oracle_clear(&scene->expected);
    free(scene);
}

static void random_loads_match_the_model(void **state) {
    (void)state;
    for (uint64_t number = 0; number < support_scaled(CASES); number++) {
        const char *one = getenv("LIBETL_TEST_CASE");
        if (one == NULL || strtoull(one, NULL, 10) == number) {
            printf("\rcase %llu ",
                   (unsigned long long)number); /* the last is the one that failed */
            run_case(number);
        }
    }
    puts("");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_loads_match_the_model)};
    return cmocka_run_group_tests(tests, support_setup, support_teardown);
}
