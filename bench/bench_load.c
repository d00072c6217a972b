/* bench_load.c: loading: from memory, from runs, random and sorted keys, and keys with four values
 * each.
 *
 * `load` is etl_load alone, collecting done before it and not timed (what a background thread has
 * left to do at that moment is); `collect and load` is the whole. The consumer folds every byte.
 * The floor is the same consumer over the same pairs, already sorted, in one block. */
#include "bench.h"

struct loading {
    struct bench_shape shape;
    etl_collector *collector;
    bool flush; /* everything to files before the load */
    struct bench_sorted sorted;
    uint64_t runs; /* of the last round */
    unsigned char key[4096], value[4096];
};

static void check(struct loading *l, int status, const char *what) {
    if (status != ETL_OK)
        bench_check(status, what, l->collector != NULL ? etl_collector_message(l->collector) : "");
}

static void collect(void *context) {
    struct loading *l = context;
    etl_slice key = etl_slice_of(l->key, l->shape.key_size);
    etl_slice value = etl_slice_of(l->value, l->shape.value_size);
    for (uint64_t i = 0; i < l->shape.pairs; i++) {
        bench_pair(&l->shape, i, l->key, l->value);
        int status = etl_collect(l->collector, key, value);
        if (status != ETL_OK)
            check(l, status, "collect");
    }
    if (l->flush)
        check(l, etl_flush(l->collector), "flush");
}

static uint64_t load(void *context) {
    struct loading *l = context;
    uint64_t sum = 0;
    check(l, etl_load(l->collector, bench_load_fold, &sum), "load");
    etl_stats stats = {.struct_size = sizeof stats};
    check(l, etl_collector_stats(l->collector, &stats), "stats");
    l->runs = stats.runs;
    return sum;
}

static uint64_t collect_and_load(void *context) {
    collect(context);
    return load(context);
}

static uint64_t scan(void *context) {
    const struct loading *l = context;
    return bench_sorted_scan(&l->sorted);
}

static void compare(struct bench *bench, const char *what, struct bench_shape shape, size_t limit,
                    bool flush, bool by_value) {
    char set[96];
    snprintf(set, sizeof set, "%s, %llu pairs, %zu MiB", what, (unsigned long long)shape.pairs,
             limit >> 20);
    struct loading *l = bench_alloc(sizeof *l);
    etl_options options = LIBETL_OPTIONS_INIT;
    options.memory_limit = limit;
    options.order_values = by_value;
    check(l, etl_collector_create(&l->collector, &options), "create");
    l->shape = shape;
    l->flush = flush;
    bench_sorted_make(&l->sorted, &shape, by_value);
    struct bench_case cases[] = {
        {.name = "load", .prepare = collect, .run = load, .compared_with = "scan a sorted block"},
        {.name = "collect and load",
         .run = collect_and_load,
         .compared_with = "scan a sorted block"},
        {.name = "scan a sorted block", .run = scan},
    };
    size_t count = sizeof cases / sizeof cases[0];
    for (size_t i = 0; i < count; i++) {
        cases[i].context = l;
        cases[i].expected = l->sorted.sum;
        cases[i].work = (double)shape.pairs;
        cases[i].unit = "ns/pair";
    }
    bench_compare(bench, set, cases, count);
    bench_figure(bench, set, "load", "time of one load", cases[0].median * cases[0].work / 1e6,
                 "ms");
    bench_figure(bench, set, "load", "runs", (double)l->runs, "");
    bench_sorted_free(&l->sorted);
    etl_collector_destroy(l->collector);
    free(l);
}

int main(int argc, char **argv) {
    struct bench bench;
    bench_start(&bench, "bench_load", argc, argv, NULL, 0);
    const size_t memory = (size_t)256 << 20, two = (size_t)2 << 20, ten = (size_t)10 << 20;
    const uint64_t small = bench.quick ? 10000 : 100000, large = 5 * small;
    const struct bench_shape random = {BENCH_RANDOM, small, 32, 64};
    const struct bench_shape sorted = {BENCH_SORTED, small, 32, 64};
    const struct bench_shape four = {BENCH_FOUR_VALUES, small * 4, 8, 8};
    struct bench_shape shape = random;

    compare(&bench, "random", random, two, false, false);
    shape.pairs = large;
    compare(&bench, "random", shape, ten, false, false);
    compare(&bench, "sorted", sorted, two, false, false);
    shape = sorted;
    shape.pairs = large;
    compare(&bench, "sorted", shape, ten, false, false);
    compare(&bench, "4 a key", four, (size_t)1 << 20, false, false);
    compare(&bench, "4 a key, by value", four, (size_t)1 << 20, false, true);
    shape = four;
    shape.pairs = large * 4;
    compare(&bench, "4 a key, by value", shape, (size_t)5 << 20, false, true);
    shape = random;
    shape.pairs = small / 10;
    compare(&bench, "in memory", shape, memory, false, false);
    compare(&bench, "one file", shape, memory, true, false);
    compare(&bench, "in memory", random, memory, false, false);
    compare(&bench, "one file", random, memory, true, false);
    return bench_end(&bench);
}
