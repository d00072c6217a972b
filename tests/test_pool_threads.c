/* test_pool_threads.c: 17 collectors share 256 MiB, in 1 and in 8 threads (16 MiB, or 8, when it is to
 * be quick; with the argument `long` in full), against the oracle.
 *
 * The collectors differ in threads, access and duplicate rules. A thread feeds those that it has
 * in turn, so that all rounds are open at once, loads them, and begins again. Between them they
 * collect several times the limit, so all spill; that the test ends says that none waits for
 * another. What all hold together is measured by the pool and by its allocator. */
#include "oracle.h"
#include "pool_support.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { COLLECTORS = 17, ROUNDS = 2, SLICE = 300 };

static size_t limit = 16 * MIB;

struct job {
    pthread_t thread;
    etl_pool *pool;
    unsigned first, step; /* its collectors */
    uint64_t wrong, runs;
    char message[200];
};

static const struct oracle_rules rules[] = {
    {ETL_KEEP_ALL, false, ORACLE_TRIM},  {ETL_KEEP_LAST, false, ORACLE_TRIM},
    {ETL_KEEP_ALL, true, ORACLE_TRIM},   {ETL_REDUCE, false, ORACLE_TRIM},
    {ETL_KEEP_FIRST, true, ORACLE_TRIM},
};

static void make_pairs(struct oracle *pairs, unsigned collector, unsigned round) {
    struct prng prng;
    prng_start(&prng, 1000 * collector + round);
    size_t bytes = 2 * limit / COLLECTORS, value_most = 1 + 40 * (collector % 4);
    unsigned char key[24], value[160];
    memset(value, 'v', sizeof value);
    for (size_t made = 0; made < bytes;) {
        size_t key_size = prng_between(&prng, 6, sizeof key);
        size_t value_size = prng_below(&prng, value_most);
        for (size_t i = 0; i < sizeof key; i += 8) {
            uint64_t x = prng_next(&prng) >> (collector % 3 == 0 ? 44 : 0);
            memcpy(key + i, &x, 8);
        }
        memcpy(value, &made, sizeof made);
        oracle_add(pairs, etl_slice_of(key, key_size), etl_slice_of(value, value_size));
        made += key_size + value_size + 2;
    }
}

static etl_collector *make_collector(const struct job *job, unsigned number) {
    etl_options options = support_options(0);
    etl_collector *collector = NULL;
    char label[16];
    snprintf(label, sizeof label, "label-%u", number % 5);
    oracle_apply(&rules[number % COUNT_OF(rules)], &options);
    options.pool = job->pool;
    options.label = label;
    options.threads = (int)(number % 4) - 1;
    options.access = number % 3 == 1 ? ETL_ACCESS_READ : ETL_ACCESS_MMAP;
    (void)etl_collector_create(&collector, &options);
    return collector;
}

static void expect(struct job *job, const etl_collector *collector, int status) {
    if (status == ETL_OK)
        return;
    job->wrong++;
    snprintf(job->message, sizeof job->message, "%d: %s", status,
             etl_collector_message(collector));
}

static void load(struct job *job, unsigned number, etl_collector *collector,
                 struct oracle *pairs) {
    struct oracle settled = {NULL, 0, 0};
    (void)oracle_settle(pairs, &rules[number % COUNT_OF(rules)], &settled);
    struct oracle_check check = {&settled, 0, 0, 0};
    job->runs += collector_stats(collector).runs;
    expect(job, collector, etl_load(collector, oracle_load, &check));
    job->wrong += check.at != settled.count;
    oracle_clear(&settled);
    oracle_clear(pairs);
}

/* Without asserts: they belong to the main thread. */
static void *run_job(void *context) {
    struct job *job = context;
    etl_collector *collectors[COLLECTORS] = {NULL};
    struct oracle pairs[COLLECTORS];
    memset(pairs, 0, sizeof pairs);
    for (unsigned c = job->first; c < COLLECTORS; c += job->step)
        collectors[c] = make_collector(job, c);
    for (unsigned round = 0; round < ROUNDS; round++) {
        bool more = true;
        for (unsigned c = job->first; c < COLLECTORS; c += job->step)
            make_pairs(&pairs[c], c, round);
        for (size_t from = 0; more; from += SLICE) {
            more = false;
            for (unsigned c = job->first; c < COLLECTORS; c += job->step)
                for (size_t i = from; i < from + SLICE && i < pairs[c].count; i++, more = true)
                    expect(job, collectors[c],
                           etl_collect(collectors[c], oracle_key(&pairs[c].pairs[i]),
                                       oracle_value(&pairs[c].pairs[i])));
        }
        for (unsigned c = job->first; c < COLLECTORS; c += job->step)
            load(job, c, collectors[c], &pairs[c]);
    }
    for (unsigned c = job->first; c < COLLECTORS; c += job->step)
        etl_collector_destroy(collectors[c]);
    return NULL;
}

static void check_threads(unsigned threads) {
    struct support_memory memory = {0};
    etl_pool *pool = pool_create(limit, 0, &memory);
    struct job jobs[8];
    uint64_t runs = 0;
    for (unsigned i = 0; i < threads; i++) {
        jobs[i] = (struct job){.pool = pool, .first = i, .step = threads};
        assert_int_equal(pthread_create(&jobs[i].thread, NULL, run_job, &jobs[i]), 0);
    }
    for (unsigned i = 0; i < threads; i++)
        assert_int_equal(pthread_join(jobs[i].thread, NULL), 0);
    for (unsigned i = 0; i < threads; i++) {
        if (jobs[i].wrong != 0)
            fail_msg("thread %u: %llu wrong; %s", i, (unsigned long long)jobs[i].wrong,
                     jobs[i].message);
        runs += jobs[i].runs;
    }
    etl_pool_stats stats = pool_stats(pool);
    print_message("%u threads: %llu runs, peak %llu of %zu\n", threads, (unsigned long long)runs,
                  (unsigned long long)stats.memory_bytes_peak, limit);
    assert_true(runs >= COLLECTORS);
    assert_int_equal(stats.collectors, 0);
    assert_true(stats.memory_bytes_peak <= limit + limit / 20);
    assert_true(atomic_load(&memory.bytes_peak) <= limit + limit / 20);
    etl_pool_destroy(pool);
    support_memory_check(&memory);
}

static void seventeen_collectors_in_one_thread(void **state) {
    (void)state;
    check_threads(1);
}

static void seventeen_collectors_in_eight_threads(void **state) {
    (void)state;
    check_threads(8);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(seventeen_collectors_in_one_thread),
        cmocka_unit_test(seventeen_collectors_in_eight_threads),
    };
    if (support_light())
        limit = 8 * MIB;
    if (argc > 1 && strcmp(argv[1], "long") == 0)
        limit = 256 * MIB;
    return cmocka_run_group_tests(tests, support_setup, support_teardown);
}
