/* bench_collect.c: collecting alone: 32 + 128 bytes a pair, random keys, into a fresh collector
 * and into one that is kept.
 *
 * A fresh collector pays for its creation, for new memory page by page, and for its end; a kept
 * one shows what etl_collect itself takes. Both spill where the limit is small (limits below 1 MiB
 * count as 1 MiB). The floor makes the same pairs and copies them behind each other into memory
 * that was used before. */
#include "bench.h"

struct collecting {
    struct bench_shape shape;
    size_t limit;
    etl_collector *kept;
    unsigned char *block; /* of the floor */
    uint64_t runs;        /* of the last run */
    unsigned char key[4096], value[4096];
};

static void check(int status, etl_collector *collector) {
    bench_check(status, "collect", collector != NULL ? etl_collector_message(collector) : NULL);
}

static void create(etl_collector **collector, size_t limit) {
    etl_options options = LIBETL_OPTIONS_INIT;
    options.memory_limit = limit;
    check(etl_collector_create(collector, &options), NULL);
}

static void collect(struct collecting *c, etl_collector *collector) {
    etl_slice key = etl_slice_of(c->key, c->shape.key_size);
    etl_slice value = etl_slice_of(c->value, c->shape.value_size);
    for (uint64_t i = 0; i < c->shape.pairs; i++) {
        bench_pair(&c->shape, i, c->key, c->value);
        int status = etl_collect(collector, key, value);
        if (status != ETL_OK)
            check(status, collector);
    }
}

static uint64_t pairs_of(struct collecting *c, etl_collector *collector) {
    etl_stats stats = {.struct_size = sizeof stats};
    check(etl_collector_stats(collector, &stats), collector);
    c->runs = stats.runs;
    return stats.pairs;
}

static uint64_t run_fresh(void *context) {
    struct collecting *c = context;
    etl_collector *collector;
    create(&collector, c->limit);
    collect(c, collector);
    uint64_t pairs = pairs_of(c, collector);
    etl_collector_destroy(collector);
    return pairs;
}

static uint64_t run_kept(void *context) {
    struct collecting *c = context;
    collect(c, c->kept);
    uint64_t pairs = pairs_of(c, c->kept);
    check(etl_reset(c->kept), c->kept);
    return pairs;
}

static uint64_t run_floor(void *context) {
    struct collecting *c = context;
    unsigned char *at = c->block;
    size_t key_size = c->shape.key_size, value_size = c->shape.value_size;
    for (uint64_t i = 0; i < c->shape.pairs; i++) {
        bench_pair(&c->shape, i, c->key, c->value);
        memcpy(at, c->key, key_size);
        memcpy(at + key_size, c->value, value_size);
        at += key_size + value_size;
    }
    return (uint64_t)(at - c->block) / (key_size + value_size);
}

/* What was collected comes out in order, every byte of it. */
static void check_output(struct bench *bench, const char *set, struct collecting *c) {
    struct bench_sorted sorted;
    bench_sorted_make(&sorted, &c->shape, false);
    uint64_t sum = 0;
    collect(c, c->kept);
    check(etl_load(c->kept, bench_load_fold, &sum), c->kept);
    if (sum != sorted.sum)
        bench_wrong(bench, set, "output", sum, sorted.sum);
    bench_sorted_free(&sorted);
}

static void compare(struct bench *bench, uint64_t pairs, size_t limit) {
    if (bench->quick)
        pairs /= 4;
    char set[64];
    snprintf(set, sizeof set, "%llu pairs, %zu KiB", (unsigned long long)pairs, limit >> 10);
    struct collecting *c = bench_alloc(sizeof *c);
    c->shape = (struct bench_shape){BENCH_RANDOM, pairs, 32, 128};
    c->limit = limit;
    c->block = bench_alloc((size_t)pairs * (32 + 128));
    create(&c->kept, limit);
    struct bench_case cases[] = {
        {.name = "fresh", .run = run_fresh, .compared_with = "kept"},
        {.name = "kept", .run = run_kept, .compared_with = "make and copy"},
        {.name = "make and copy", .run = run_floor},
    };
    size_t count = sizeof cases / sizeof cases[0];
    for (size_t i = 0; i < count; i++) {
        cases[i].context = c;
        cases[i].expected = pairs;
        cases[i].work = (double)pairs;
        cases[i].unit = "ns/pair";
    }
    bench_compare(bench, set, cases, count);
    run_kept(c);
    bench_figure(bench, set, "kept", "runs written", (double)c->runs, "");
    check_output(bench, set, c);
    etl_collector_destroy(c->kept);
    free(c->block);
    free(c);
}

int main(int argc, char **argv) {
    struct bench bench;
    bench_start(&bench, "bench_collect", argc, argv, NULL, 0);
    compare(&bench, 10000, (size_t)64 << 10);
    compare(&bench, 10000, (size_t)256 << 20);
    compare(&bench, 100000, (size_t)256 << 10);
    compare(&bench, 100000, (size_t)256 << 20);
    return bench_end(&bench);
}
