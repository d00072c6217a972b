/* bench_end_to_end.c: collect and load a workload that is larger than the memory limit, with
 * different numbers of background threads, against the floor.
 *
 * The floor is measured in the same run, in turn with the others: generate the pairs, copy each
 * once into a buffer, write the same bytes to a file, map it and fold them. No external sort can
 * do less. The consumer folds every byte of key and value.
 *
 * Before the timing one pass is verified: keys ascend, equal keys are in the order of collection
 * (values hold the pair's number), and all pairs that went in came out. Its checksum, which
 * depends on the order, is what every timed pass must give. */
#include "bench.h"
#include "pass.h"
#include "workload.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

enum { CHUNK = 256 << 10, CASES_MOST = 16, ROUNDS_MOST = 64 };

/* What one pass measures; printed as medians, in this order. */
enum metric {
    WALL,
    COLLECT,
    LOAD,
    USER,
    SYSTEM,
    SORT,
    SPILL,
    MERGE,
    WAIT,
    WRITTEN,
    ANONYMOUS,
    RUNS,
    METRICS
};

static const struct {
    const char *name, *unit;
} metrics[METRICS] = {{"wall", "s"},
                      {"collect", "s"},
                      {"load", "s"},
                      {"user", "s"},
                      {"system", "s"},
                      {"sort", "s"},
                      {"spill", "s"},
                      {"merge", "s"},
                      {"wait", "s"},
                      {"written", "MiB"},
                      {"peak anonymous", "MiB"},
                      {"runs", ""}};

struct job {
    struct bench *bench;
    struct pass pass;
    uint64_t sum;       /* of the output, in its order */
    uint64_t floor_sum; /* of the input, in its order */
};

struct variant {
    const char *name;
    int threads;
    bool floor;
    double values[METRICS][ROUNDS_MOST];
};

static double seconds(uint64_t from, uint64_t to) {
    return (double)(to - from) / 1e9;
}

/* ---- libetl. */

static uint64_t library_pass(const struct job *job, int threads, double *values) {
    uint64_t sum = 0;
    struct pass pass = job->pass;
    pass.threads = threads;
    etl_stats stats = {.struct_size = sizeof stats};
    etl_collector *collector = pass_create(&pass);
    uint64_t start = bench_now_ns();
    pass_collect(&pass, collector);
    uint64_t collected = bench_now_ns();
    pass_check(etl_load(collector, bench_load_fold, &sum), collector);
    uint64_t loaded = bench_now_ns();
    pass_check(etl_collector_stats(collector, &stats), collector);
    etl_collector_destroy(collector);
    values[WALL] = seconds(start, loaded);
    values[COLLECT] = seconds(start, collected);
    values[LOAD] = seconds(collected, loaded);
    values[SORT] = (double)stats.sort_ns / 1e9;
    values[SPILL] = (double)stats.spill_ns / 1e9;
    values[MERGE] = (double)stats.merge_ns / 1e9;
    values[WAIT] = (double)stats.wait_ns / 1e9;
    values[WRITTEN] = (double)stats.spilled_bytes / (1 << 20);
    values[RUNS] = (double)stats.runs;
    return sum;
}

/* ---- The floor. */

static void write_chunk(int descriptor, const void *chunk, size_t size, uint64_t offset) {
    bench_check(pwrite(descriptor, chunk, size, (off_t)offset) == (ssize_t)size ? ETL_OK
                                                                                : ETL_E_IO,
                "floor: pwrite", NULL);
}

/* Returns the bytes written. */
static uint64_t floor_write(const struct job *job, int descriptor) {
    struct workload *workload = workload_open(job->pass.letter, PASS_SEED, job->pass.size);
    unsigned char *chunk = bench_alloc(CHUNK);
    size_t used = 0;
    uint64_t offset = 0;
    for (uint64_t i = 0; i < job->pass.pairs; i++) {
        struct workload_pair pair;
        workload_next(workload, &pair);
        if (CHUNK - used < pair.key_size + pair.value_size) {
            write_chunk(descriptor, chunk, used, offset);
            offset += used;
            used = 0;
        }
        memcpy(chunk + used, pair.key, pair.key_size);
        memcpy(chunk + used + pair.key_size, pair.value, pair.value_size);
        used += pair.key_size + pair.value_size;
    }
    write_chunk(descriptor, chunk, used, offset);
    free(chunk);
    workload_close(workload);
    return offset + used;
}

static const unsigned char *floor_map(int descriptor, uint64_t size) {
    void *map = mmap(NULL, (size_t)size, PROT_READ, MAP_SHARED, descriptor, 0);
    bench_check(map != MAP_FAILED ? ETL_OK : ETL_E_IO, "floor: mmap", NULL);
    return map;
}

static uint64_t floor_pass(const struct job *job, double *values) {
    int descriptor = bench_scratch_file(job->bench);
    uint64_t start = bench_now_ns();
#if defined(__linux__)
    (void)fallocate(descriptor, 0, 0, (off_t)job->pass.size); /* as the library does */
#endif
    uint64_t size = floor_write(job, descriptor);
    uint64_t written = bench_now_ns();
    const unsigned char *map = floor_map(descriptor, size);
    uint64_t sum = bench_fold(0, map, (size_t)size);
    uint64_t done = bench_now_ns();
    munmap((void *)map, (size_t)size);
    close(descriptor);
    values[WALL] = seconds(start, done);
    values[COLLECT] = seconds(start, written);
    values[LOAD] = seconds(written, done);
    values[WRITTEN] = (double)size / (1 << 20);
    return sum;
}

/* The floor's file holds the pairs as they are made; its checksum. */
static uint64_t verify_floor(const struct job *job, const char *set) {
    int descriptor = bench_scratch_file(job->bench);
    uint64_t size = floor_write(job, descriptor), at = 0, wrong = 0;
    const unsigned char *map = floor_map(descriptor, size);
    struct workload *workload = workload_open(job->pass.letter, PASS_SEED, job->pass.size);
    for (uint64_t i = 0; i < job->pass.pairs; i++) {
        struct workload_pair pair;
        workload_next(workload, &pair);
        wrong += memcmp(map + at, pair.key, pair.key_size) != 0 ||
                 memcmp(map + at + pair.key_size, pair.value, pair.value_size) != 0;
        at += pair.key_size + pair.value_size;
    }
    workload_close(workload);
    if (wrong != 0 || at != size)
        bench_wrong(job->bench, set, "floor", wrong, 0);
    uint64_t sum = bench_fold(0, map, (size_t)size);
    munmap((void *)map, (size_t)size);
    close(descriptor);
    return sum;
}

/* ---- The verified pass. */

struct verified {
    struct output output;
    uint64_t sum;
};

static int verify_pair(void *context, etl_slice key, etl_slice value) {
    struct verified *v = context;
    output_load(&v->output, key, value);
    return bench_load_fold(&v->sum, key, value);
}

static void verify(struct job *job, const char *set) {
    struct verified v = {.sum = 0};
    etl_collector *collector = pass_create(&job->pass);
    pass_collect(&job->pass, collector);
    pass_check(etl_load(collector, verify_pair, &v), collector);
    etl_collector_destroy(collector);
    uint64_t input_sum = pass_input_sum(&job->pass);
    if (v.output.pairs != job->pass.pairs || v.output.unordered != input_sum)
        bench_wrong(job->bench, set, "pairs out", v.output.unordered, input_sum);
    if (v.output.descents + v.output.misplaced != 0)
        bench_wrong(job->bench, set, "order", v.output.descents + v.output.misplaced, 0);
    job->sum = v.sum;
}

/* ---- Rounds and tables. */

static void run_variant(const struct job *job, const char *set, struct variant *variant,
                        size_t round) {
    double values[METRICS] = {0};
    struct bench_sampler *sampler = bench_sampler_start();
    struct bench_cpu before = bench_cpu_now();
    uint64_t sum =
        variant->floor ? floor_pass(job, values) : library_pass(job, variant->threads, values);
    struct bench_cpu after = bench_cpu_now();
    values[ANONYMOUS] = (double)bench_sampler_stop(sampler) / (1 << 20);
    values[USER] = after.user - before.user;
    values[SYSTEM] = after.system - before.system;
    uint64_t expected = variant->floor ? job->floor_sum : job->sum;
    if (sum != expected)
        bench_wrong(job->bench, set, variant->name, sum, expected);
    for (size_t metric = 0; metric < METRICS; metric++)
        variant->values[metric][round] = values[metric];
}

static void print(const struct job *job, const char *set, struct variant *variants, size_t count,
                  size_t rounds) {
    const struct bench *bench = job->bench;
    double floor_wall = bench_median(variants[0].values[WALL], rounds);
    if (!bench->csv) {
        printf("\n%s, %zu rounds: medians, seconds and MiB; compared with the floor\n", set,
               rounds);
        printf("  %-12s %6s %6s %6s", "threads", "wall", "min", "ratio");
        for (size_t metric = COLLECT; metric < METRICS; metric++)
            printf(" %*s", metric == ANONYMOUS ? 14 : 7, metrics[metric].name);
        putchar('\n');
    }
    for (size_t i = 0; i < count; i++) {
        double median[METRICS];
        for (size_t metric = 0; metric < METRICS; metric++)
            median[metric] = bench_median(variants[i].values[metric], rounds);
        double least = variants[i].values[WALL][0]; /* in order since bench_median */
        if (bench->csv) {
            for (size_t metric = 0; metric < METRICS; metric++)
                bench_figure(bench, set, variants[i].name, metrics[metric].name, median[metric],
                             metrics[metric].unit);
            bench_figure(bench, set, variants[i].name, "minimum", least, "s");
            bench_figure(bench, set, variants[i].name, "ratio", median[WALL] / floor_wall,
                         "floor");
            continue;
        }
        printf("  %-12s %6.2f %6.2f %6.2f", variants[i].name, median[WALL], least,
               median[WALL] / floor_wall);
        for (size_t metric = COLLECT; metric < METRICS; metric++)
            printf(" %*.*f", metric == ANONYMOUS ? 14 : 7, metric >= WRITTEN ? 0 : 2,
                   median[metric]);
        putchar('\n');
    }
    fflush(stdout);
}

static void run_job(struct job *job, struct variant *variants, size_t count) {
    struct bench *bench = job->bench;
    size_t rounds = bench->rounds != 0 ? (size_t)bench->rounds : bench->quick ? 1 : 5;
    if (rounds > ROUNDS_MOST)
        rounds = ROUNDS_MOST;
    char set[96];
    snprintf(set, sizeof set, "%c: %.1f MiB in %.1f MiB", job->pass.letter,
             (double)job->pass.size / (1 << 20), (double)job->pass.limit / (1 << 20));
    verify(job, set);
    job->floor_sum = verify_floor(job, set);
    for (size_t i = 0; i < count && !bench->quick; i++)
        run_variant(job, set, &variants[i], 0);
    for (size_t round = 0; round < rounds; round++)
        for (size_t i = 0; i < count; i++)
            run_variant(job, set, &variants[i], round);
    print(job, set, variants, count, rounds);
}

/* "none,0,2": the floor and one variant for each. */
static size_t make_variants(struct variant *variants, char *list) {
    size_t count = 1;
    variants[0] = (struct variant){.name = "floor", .floor = true};
    for (char *name = strtok(list, ","); name != NULL && count < CASES_MOST;
         name = strtok(NULL, ",")) {
        int threads = strcmp(name, "none") == 0 ? ETL_THREADS_NONE : atoi(name);
        variants[count++] = (struct variant){.name = name, .threads = threads};
    }
    return count;
}

int main(int argc, char **argv) {
    struct bench bench;
    uint64_t size = 0, limit = 0;
    const char *letters = "ABCDEFU", *threads = "none,0,1,2";
    const struct bench_flag flags[] = {
        {"size", "bytes of keys and values (default 2G; D: 512M)", &size, NULL},
        {"limit", "memory limit (default 256M; D: 64M)", &limit, NULL},
        {"workloads", "letters of workload.h (default ABCDEFU)", NULL, &letters},
        {"threads", "background threads (default none,0,1,2; 0 is one)", NULL, &threads}};
    bench_start(&bench, "bench_end_to_end", argc, argv, flags, 4);
    char *list = bench_alloc(strlen(threads) + 1);
    strcpy(list, threads);
    struct variant *variants = bench_alloc(CASES_MOST * sizeof *variants);
    size_t count = make_variants(variants, list);
    for (const char *letter = letters; *letter != '\0'; letter++) {
        uint64_t share = bench.quick ? 512 : *letter == 'D' ? 4 : 1; /* of the full size */
        struct job job = {
            .bench = &bench,
            .pass = {.letter = *letter,
                     .size = size != 0 ? size : ((uint64_t)2 << 30) / share,
                     .limit = (size_t)(limit != 0 ? limit : ((uint64_t)256 << 20) / share),
                     .directory = bench.scratch}};
        job.pass.pairs = workload_pairs(job.pass.letter, job.pass.size);
        run_job(&job, variants, count);
    }
    free(variants);
    free(list);
    return bench_end(&bench);
}
