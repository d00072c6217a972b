/* bench_scaling.c: how the cost of a pair and the memory grow.
 *
 *     size        64 MiB to 16 GiB of data under one limit
 *     runs        1 to 1,024 runs of the same data, made by flushing; all merged
 *     threads     none, 1 and 2 background threads
 *     collectors  1 to 64 open at once, each with its share of the limit; pairs are dealt to them
 *                 in turn, and they are loaded one after the other
 *     pool        the same collectors, sharing the limit as a pool
 *     memory      anonymous memory over the time of a pass, against the limit
 *
 * The points of a part run in turn, round after round. The consumer checks that keys ascend, that
 * equal keys are in the order of collection and that the output is the input. */
#include "bench.h"
#include "pass.h"
#include "workload.h"

enum { POINTS_MOST = 16, ROUNDS_MOST = 16, COLLECTORS_MOST = 64 };

enum metric { WALL, COLLECT, LOAD, PROCESSOR, RUNS, PASSES, ANONYMOUS, HELD, METRICS };

static const struct {
    const char *name, *unit;
} metrics[METRICS] = {{"wall", "ns/pair"},       {"collect", "ns/pair"}, {"load", "ns/pair"},
                      {"processor", "ns/pair"},  {"runs", ""},           {"merges", ""},
                      {"peak anonymous", "MiB"}, {"peak held", "MiB"}};

struct point {
    char name[32];
    struct pass pass;
    uint64_t flushes; /* how often; 0: only what the limit asks for */
    size_t collectors;
    bool pooled;
    uint64_t input_sum;
    size_t rounds;
    double values[METRICS][ROUNDS_MOST];
    struct bench_series series;
};

struct part {
    struct bench *bench;
    char name[64];
    struct point points[POINTS_MOST];
    size_t count;
};

struct choice {
    uint64_t largest, size, limit;
    const char *workload, *parts;
};

/* ---- One pass. */

static void collect(const struct point *point, etl_collector **collectors) {
    const struct pass *pass = &point->pass;
    struct workload *workload = workload_open(pass->letter, PASS_SEED, pass->size);
    uint64_t flushed = 0;
    for (uint64_t i = 0; i < pass->pairs; i++) {
        struct workload_pair pair;
        workload_next(workload, &pair);
        etl_collector *collector = collectors[i % point->collectors];
        int status = etl_collect(collector, etl_slice_of(pair.key, pair.key_size),
                                 etl_slice_of(pair.value, pair.value_size));
        if (status == ETL_OK && point->flushes != 0 &&
            i + 1 == pass->pairs * (flushed + 1) / point->flushes) {
            status = etl_flush(collector);
            flushed++;
        }
        if (status != ETL_OK)
            pass_check(status, collector);
    }
    workload_close(workload);
}

static void load(const struct point *point, etl_collector **collectors, struct output *output) {
    for (size_t i = 0; i < point->collectors; i++) {
        pass_check(etl_load(collectors[i], output_load, output), collectors[i]);
        output_end(output);
    }
}

static void close_all(const struct point *point, etl_collector **collectors, double *values) {
    for (size_t i = 0; i < point->collectors; i++) {
        etl_stats stats = {.struct_size = sizeof stats};
        pass_check(etl_collector_stats(collectors[i], &stats), collectors[i]);
        values[RUNS] += (double)stats.runs;
        values[PASSES] += (double)stats.merge_passes;
        values[HELD] += (double)stats.memory_bytes_peak / (1 << 20);
        etl_collector_destroy(collectors[i]);
    }
}

static etl_pool *create_pool(size_t limit) {
    etl_pool_options options = LIBETL_POOL_OPTIONS_INIT;
    etl_pool *pool;
    options.memory_limit = limit;
    pass_check(etl_pool_create(&pool, &options), NULL);
    return pool;
}

/* What was held at most, in MiB. */
static double close_pool(etl_pool *pool) {
    etl_pool_stats stats = {.struct_size = sizeof stats};
    pass_check(etl_pool_get_stats(pool, &stats), NULL);
    etl_pool_destroy(pool);
    return (double)stats.memory_bytes_peak / (1 << 20);
}

static void check(const struct part *part, const struct point *point,
                  const struct output *output) {
    uint64_t misplaced = output->descents + output->misplaced;
    if (output->pairs != point->pass.pairs || output->unordered != point->input_sum)
        bench_wrong(part->bench, part->name, point->name, output->unordered, point->input_sum);
    if (misplaced != 0)
        bench_wrong(part->bench, part->name, point->name, misplaced, 0);
}

static void run_point(const struct part *part, struct point *point, size_t round) {
    etl_collector *collectors[COLLECTORS_MOST];
    struct pass share = point->pass;
    struct output output = {.pairs = 0};
    double values[METRICS] = {0}, pairs = (double)point->pass.pairs;
    struct bench_sampler *sampler = bench_sampler_start();
    uint64_t processor = bench_cpu_ns(), start = bench_now_ns();
    if (point->pooled)
        share.pool = create_pool(share.limit);
    else
        share.limit /= point->collectors;
    for (size_t i = 0; i < point->collectors; i++)
        collectors[i] = pass_create(&share);
    collect(point, collectors);
    uint64_t collected = bench_now_ns();
    load(point, collectors, &output);
    uint64_t loaded = bench_now_ns();
    close_all(point, collectors, values);
    if (point->pooled)
        values[HELD] = close_pool(share.pool);
    values[WALL] = (double)(loaded - start) / pairs;
    values[COLLECT] = (double)(collected - start) / pairs;
    values[LOAD] = (double)(loaded - collected) / pairs;
    values[PROCESSOR] = (double)(bench_cpu_ns() - processor) / pairs;
    values[ANONYMOUS] = (double)bench_sampler_stop_series(sampler, &point->series) / (1 << 20);
    check(part, point, &output);
    for (size_t metric = 0; metric < METRICS; metric++)
        point->values[metric][round] = values[metric];
}

/* ---- Rounds and tables. */

static void print_point(const struct part *part, struct point *point, double *first) {
    const struct bench *bench = part->bench;
    double median[METRICS], limit = (double)point->pass.limit / (1 << 20);
    for (size_t metric = 0; metric < METRICS; metric++)
        median[metric] = bench_median(point->values[metric], point->rounds);
    if (*first == 0)
        *first = median[WALL];
    if (bench->csv) {
        for (size_t metric = 0; metric < METRICS; metric++)
            bench_figure(bench, part->name, point->name, metrics[metric].name, median[metric],
                         metrics[metric].unit);
        bench_figure(bench, part->name, point->name, "limit", limit, "MiB");
        bench_figure(bench, part->name, point->name, "ratio", median[WALL] / *first, "first");
        return;
    }
    printf("  %-12s %7.1f %6.2f", point->name, median[WALL], median[WALL] / *first);
    for (size_t metric = COLLECT; metric < METRICS; metric++)
        printf(" %*.*f", metric >= ANONYMOUS ? 14 : 9, metric <= PROCESSOR || metric >= ANONYMOUS,
               median[metric]);
    printf(" %8.1f %6zu\n", limit, point->rounds);
}

static void print_part(struct part *part) {
    double first = 0;
    if (!part->bench->csv) {
        printf("\n%s: medians, ns/pair and MiB; ratio to the first\n  %-12s %7s %6s", part->name,
               "", "wall", "ratio");
        for (size_t metric = COLLECT; metric < METRICS; metric++)
            printf(" %*s", metric >= ANONYMOUS ? 14 : 9, metrics[metric].name);
        printf(" %8s %6s\n", "limit", "rounds");
    }
    for (size_t i = 0; i < part->count; i++)
        print_point(part, &part->points[i], &first);
    fflush(stdout);
}

/* Points of more than 4 GiB run once. */
static void run_part(struct part *part) {
    struct bench *bench = part->bench;
    size_t rounds = bench->rounds != 0 ? (size_t)bench->rounds : bench->quick ? 1 : 3;
    if (rounds > ROUNDS_MOST)
        rounds = ROUNDS_MOST;
    for (size_t i = 0; i < part->count; i++) {
        struct point *point = &part->points[i];
        point->rounds = point->pass.size > (uint64_t)4 << 30 ? 1 : rounds;
        point->input_sum = pass_input_sum(&point->pass);
    }
    if (!bench->quick)
        run_point(part, &part->points[0], 0); /* warm up */
    for (size_t round = 0; round < rounds; round++)
        for (size_t i = 0; i < part->count; i++)
            if (round < part->points[i].rounds)
                run_point(part, &part->points[i], round);
    print_part(part);
}

/* ---- The parts. */

static struct part *open_part(struct bench *bench, const struct choice *choice, const char *name) {
    struct part *part = bench_alloc(sizeof *part);
    part->bench = bench;
    snprintf(part->name, sizeof part->name, "%s of %c", name, choice->workload[0]);
    return part;
}

static struct point *add_point(struct part *part, const struct choice *choice, uint64_t size,
                               uint64_t limit) {
    struct point *point = &part->points[part->count++];
    char letter = choice->workload[0];
    point->pass = (struct pass){.letter = letter,
                                .size = size,
                                .pairs = workload_pairs(letter, size),
                                .limit = (size_t)limit,
                                .directory = part->bench->scratch};
    point->collectors = 1;
    return point;
}

static void scale_size(struct bench *bench, const struct choice *choice) {
    struct part *part = open_part(bench, choice, "size");
    for (uint64_t size = choice->limit; size <= choice->largest && part->count < POINTS_MOST;
         size *= 2) {
        struct point *point = add_point(part, choice, size, choice->limit);
        snprintf(point->name, sizeof point->name, "%llu MiB", (unsigned long long)(size >> 20));
    }
    run_part(part);
    free(part);
}

static void scale_runs(struct bench *bench, const struct choice *choice) {
    struct part *part = open_part(bench, choice, "runs");
    uint64_t size = choice->size / 4, most = bench->quick ? 64 : 1024;
    for (uint64_t runs = 1; runs <= most; runs *= 2) {
        struct point *point = add_point(part, choice, size, 4 * size);
        snprintf(point->name, sizeof point->name, "%llu runs", (unsigned long long)runs);
        point->flushes = runs;
    }
    run_part(part);
    free(part);
}

static void scale_threads(struct bench *bench, const struct choice *choice) {
    struct part *part = open_part(bench, choice, "threads");
    const int threads[] = {ETL_THREADS_NONE, 1, 2};
    for (size_t i = 0; i < 3; i++) {
        struct point *point = add_point(part, choice, choice->size, choice->limit);
        snprintf(point->name, sizeof point->name, "%s", i == 0 ? "none" : i == 1 ? "1" : "2");
        point->pass.threads = threads[i];
    }
    run_part(part);
    free(part);
}

static void scale_sharers(struct bench *bench, const struct choice *choice, const char *name,
                          bool pooled) {
    struct part *part = open_part(bench, choice, name);
    for (size_t collectors = 1; collectors <= COLLECTORS_MOST; collectors *= 2) {
        struct point *point = add_point(part, choice, choice->size, choice->limit);
        snprintf(point->name, sizeof point->name, "%zu", collectors);
        point->collectors = collectors;
        point->pooled = pooled;
    }
    run_part(part);
    free(part);
}

static void scale_collectors(struct bench *bench, const struct choice *choice) {
    scale_sharers(bench, choice, "collectors", false);
}

static void scale_pool(struct bench *bench, const struct choice *choice) {
    scale_sharers(bench, choice, "pool", true);
}

static void memory_over_time(struct bench *bench, const struct choice *choice) {
    struct part *part = open_part(bench, choice, "memory");
    struct point *point = add_point(part, choice, choice->size, choice->limit);
    snprintf(point->name, sizeof point->name, "%llu MiB",
             (unsigned long long)(choice->size >> 20));
    run_part(part);
    const struct bench_series *series = &point->series;
    if (!bench->csv)
        printf("  of the last round, the peak of each %.3f s:\n", series->step_seconds);
    for (size_t i = 0; i < series->count; i++) {
        char name[48];
        snprintf(name, sizeof name, "after %.3f s", (double)(i + 1) * series->step_seconds);
        bench_figure(bench, part->name, name, "anonymous", (double)series->bytes[i] / (1 << 20),
                     "MiB");
    }
    free(part);
}

int main(int argc, char **argv) {
    struct bench bench;
    struct choice choice = {.workload = "B", .parts = "size,runs,threads,collectors,pool,memory"};
    const struct bench_flag flags[] = {
        {"largest", "bytes of the largest point of size (default 16G)", &choice.largest, NULL},
        {"size", "bytes of the others (default 1G, runs: a quarter)", &choice.size, NULL},
        {"limit", "memory limit, and the smallest size (default 64M)", &choice.limit, NULL},
        {"workload", "a letter of workload.h (default B)", NULL, &choice.workload},
        {"parts", "default size,runs,threads,collectors,pool,memory", NULL, &choice.parts}};
    bench_start(&bench, "bench_scaling", argc, argv, flags, 5);
    if (choice.limit == 0)
        choice.limit = bench.quick ? 1 << 20 : 64 << 20;
    if (choice.largest == 0)
        choice.largest = bench.quick ? 4 << 20 : (uint64_t)16 << 30;
    if (choice.size == 0)
        choice.size = bench.quick ? 4 << 20 : (uint64_t)1 << 30;
    static const struct {
        const char *name;
        void (*run)(struct bench *bench, const struct choice *choice);
    } parts[] = {{"size", scale_size},       {"runs", scale_runs},
                 {"threads", scale_threads}, {"collectors", scale_collectors},
                 {"pool", scale_pool},       {"memory", memory_over_time}};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (strstr(choice.parts, parts[i].name) != NULL)
            parts[i].run(&bench, &choice);
    return bench_end(&bench);
}
