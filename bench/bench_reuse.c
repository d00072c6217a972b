/* bench_reuse.c: what keeping memory between rounds is worth.
 *
 * A round collects about 20 MiB in values of one size (at least one value) and drops them. `kept`
 * resets its collector, `fresh` makes and destroys one a round, `memcpy` copies the same values
 * into one block that is kept. Allocations are the library's own count, mappings included: with
 * kept memory there are none after the first round.
 *
 * The refills are rounds of 10,000 and 300,000 pairs of 40 + 24 bytes under 32 MiB, also by a new
 * collector each: in a pool that is empty, and in one that earlier rounds have filled. */
#include "bench.h"

struct round {
    size_t limit, key_size, value_size;
    uint64_t writes;
    etl_collector *kept;
    etl_pool *filled;     /* NULL: not for this set */
    unsigned char *value; /* what is collected */
    unsigned char *block; /* of memcpy */
    size_t block_size;
    unsigned char key[64];
};

static void check(int status, etl_collector *collector) {
    if (status != ETL_OK)
        bench_check(status, "reuse", collector != NULL ? etl_collector_message(collector) : NULL);
}

static void create(etl_collector **collector, size_t limit, etl_pool *pool) {
    etl_options options = LIBETL_OPTIONS_INIT;
    options.memory_limit = limit;
    options.pool = pool;
    check(etl_collector_create(collector, &options), NULL);
}

static etl_pool *create_pool(size_t limit) {
    etl_pool_options options = LIBETL_POOL_OPTIONS_INIT;
    etl_pool *pool;
    options.memory_limit = limit;
    check(etl_pool_create(&pool, &options), NULL);
    return pool;
}

static uint64_t pool_allocations(const etl_pool *pool) {
    etl_pool_stats stats = {.struct_size = sizeof stats};
    check(etl_pool_get_stats(pool, &stats), NULL);
    return stats.allocations;
}

static etl_stats stats_of(etl_collector *collector) {
    etl_stats stats = {.struct_size = sizeof stats};
    check(etl_collector_stats(collector, &stats), collector);
    return stats;
}

/* The keys of a refill are scattered; without a key there is nothing to make. */
static void next_key(struct round *r, uint64_t i) {
    if (r->key_size != 0) {
        uint64_t x = i * 6364136223846793005u;
        memcpy(r->key, &x, sizeof x);
    }
}

static void collect(struct round *r, etl_collector *collector) {
    etl_slice key = etl_slice_of(r->key, r->key_size);
    etl_slice value = etl_slice_of(r->value, r->value_size);
    for (uint64_t i = 0; i < r->writes; i++) {
        next_key(r, i);
        int status = etl_collect(collector, key, value);
        if (status != ETL_OK)
            check(status, collector);
    }
}

static uint64_t pairs_and_bytes(etl_collector *collector) {
    etl_stats stats = stats_of(collector);
    return stats.pairs ^ stats.value_bytes << 20;
}

static uint64_t run_in(struct round *r, etl_pool *pool) {
    etl_collector *collector;
    create(&collector, r->limit, pool);
    collect(r, collector);
    uint64_t sum = pairs_and_bytes(collector);
    etl_collector_destroy(collector);
    return sum;
}

static uint64_t run_fresh(void *context) {
    return run_in(context, NULL);
}

static uint64_t run_empty_pool(void *context) {
    struct round *r = context;
    etl_pool *pool = create_pool(r->limit);
    uint64_t sum = run_in(r, pool);
    etl_pool_destroy(pool);
    return sum;
}

static uint64_t run_filled_pool(void *context) {
    struct round *r = context;
    return run_in(r, r->filled);
}

static uint64_t run_kept(void *context) {
    struct round *r = context;
    collect(r, r->kept);
    uint64_t sum = pairs_and_bytes(r->kept);
    check(etl_reset(r->kept), r->kept);
    return sum;
}

static uint64_t run_memcpy(void *context) {
    struct round *r = context;
    unsigned char *at = r->block, *end = r->block + r->block_size;
    size_t size = r->key_size + r->value_size;
    for (uint64_t i = 0; i < r->writes; i++) {
        if ((size_t)(end - at) < size)
            at = r->block;
        next_key(r, i);
        memcpy(at, r->key, r->key_size);
        memcpy(at + r->key_size, r->value, r->value_size);
        at += size;
    }
    return r->writes ^ r->writes * r->value_size << 20;
}

/* All values of a round are the same, so its output is known whatever the order of its keys was;
 * the keys are summed. */
struct output {
    const struct round *round;
    uint64_t pairs, wrong;
};

static int check_pair(void *context, etl_slice key, etl_slice value) {
    struct output *output = context;
    const struct round *r = output->round;
    output->pairs++;
    output->wrong += key.size != r->key_size || value.size != r->value_size ||
                     memcmp(value.data, r->value, value.size) != 0;
    return 0;
}

static void check_output(struct bench *bench, const char *set, struct round *r) {
    struct output output = {.round = r};
    collect(r, r->kept);
    check(etl_load(r->kept, check_pair, &output), r->kept);
    if (output.pairs != r->writes || output.wrong != 0)
        bench_wrong(bench, set, "output", output.pairs - output.wrong, r->writes);
}

/* Allocations of a round in each pool, after those that were timed. */
static void compare_pools(struct bench *bench, const char *set, struct round *r, unsigned rounds) {
    etl_pool *empty = create_pool(r->limit);
    uint64_t before = pool_allocations(r->filled);
    (void)run_in(r, empty);
    for (unsigned i = 0; i < rounds; i++)
        (void)run_in(r, r->filled);
    bench_figure(bench, set, "empty pool", "allocations_per_round",
                 (double)pool_allocations(empty), "");
    bench_figure(bench, set, "filled pool", "allocations_per_round",
                 (double)(pool_allocations(r->filled) - before) / rounds, "");
    etl_pool_destroy(empty);
}

static void compare(struct bench *bench, const char *set, struct round *r, const char *unit) {
    size_t size = r->key_size + r->value_size;
    r->value = bench_alloc(r->value_size);
    for (size_t i = 0; i < r->value_size; i++)
        r->value[i] = (unsigned char)(i * 7 + i / 256);
    r->block_size = r->writes * size;
    r->block = bench_alloc(r->block_size);
    create(&r->kept, r->limit, NULL);
    uint64_t sum = r->writes ^ r->writes * r->value_size << 20;
    struct bench_case cases[] = {
        {.name = "kept", .run = run_kept, .compared_with = "memcpy"},
        {.name = "fresh", .run = run_fresh, .compared_with = "kept"},
        {.name = "memcpy", .run = run_memcpy},
        {.name = "empty pool", .run = run_empty_pool, .compared_with = "fresh"},
        {.name = "filled pool", .run = run_filled_pool, .compared_with = "kept"},
    };
    size_t count = sizeof cases / sizeof cases[0] - (r->filled != NULL ? 0 : 2);
    for (size_t i = 0; i < count; i++) {
        cases[i].context = r;
        cases[i].expected = sum;
        cases[i].work = (double)r->writes;
        cases[i].unit = unit;
    }
    bench_compare(bench, set, cases, count);

    const unsigned rounds = bench->quick ? 3 : 10;
    uint64_t before = stats_of(r->kept).allocations;
    for (unsigned i = 0; i < rounds; i++)
        if (run_kept(r) != sum)
            bench_wrong(bench, set, "kept", 0, sum);
    etl_stats after = stats_of(r->kept);
    bench_figure(bench, set, "kept", "allocations_per_round",
                 (double)(after.allocations - before) / rounds, "");
    bench_figure(bench, set, "kept", "memory between rounds",
                 (double)after.memory_bytes / (1 << 20), "MiB");
    if (r->filled != NULL)
        compare_pools(bench, set, r, rounds);
    check_output(bench, set, r);
    etl_collector_destroy(r->kept);
    free(r->block);
    free(r->value);
}

int main(int argc, char **argv) {
    struct bench bench;
    bench_start(&bench, "bench_reuse", argc, argv, NULL, 0);
    const struct {
        const char *name;
        size_t size;
    } sizes[] = {{"4 B", 4},           {"16 B", 16},           {"1 KiB", 1 << 10},
                 {"4 KiB", 4 << 10},   {"100 KiB", 100 << 10}, {"1 MiB", 1 << 20},
                 {"10 MiB", 10 << 20}, {"100 MiB", 100 << 20}, {"256 MiB", 256 << 20}};
    /* the two largest take seconds to prepare: not in a second */
    size_t count = sizeof sizes / sizeof sizes[0] - (bench.quick ? 2 : 0);
    for (size_t i = 0; i < count; i++) {
        uint64_t writes = ((uint64_t)20 << 20) / sizes[i].size;
        writes = writes > 1000000 ? 1000000 : writes == 0 ? 1 : writes;
        if (bench.quick)
            writes = writes / 10 + 1;
        struct round round = {
            .limit = (size_t)1 << 30, .value_size = sizes[i].size, .writes = writes};
        compare(&bench, sizes[i].name, &round, "ns/write");
    }
    static const struct {
        const char *name;
        uint64_t pairs;
    } refills[] = {{"refill 10k of 40 + 24", 10000}, {"refill 300k of 40 + 24", 300000}};
    for (size_t i = 0; i < 2; i++) {
        struct round round = {.limit = 32 << 20, .key_size = 40, .value_size = 24};
        round.writes = refills[i].pairs;
        round.filled = create_pool(round.limit);
        compare(&bench, refills[i].name, &round, "ns/pair");
        etl_pool_destroy(round.filled);
    }
    return bench_end(&bench);
}
