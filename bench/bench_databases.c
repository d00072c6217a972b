/* bench_databases.c: filling a real database through libetl, and pair by pair in the order in which
 * they come, which is random: 32-byte keys, 32-byte values.
 *
 * Databases are built in where their packages were found; what each way does is told in its file.
 * Ways of one database alternate. Wall time is from opening the database to having closed it,
 * sorting and syncs included; user and system time are of the process, all its threads; the size
 * is that of all files left. After each pass the database is read in order: every pair has to be
 * there, once. */
#include "bench.h"
#include "databases.h"

#include <ftw.h>
#include <sys/stat.h>

enum { ROUNDS_MOST = 32, WAYS_MOST = 4 };
enum metric { WALL, USER, SYSTEM, SIZE, METRICS };

static const char *const metric_names[METRICS] = {"wall", "user", "system", "size"};
static const char *const metric_units[METRICS] = {"s", "s", "s", "MiB"};

struct report { /* shared with the process of the pass */
    double values[METRICS];
    struct output output;
    volatile bool done;
};

struct set {
    struct bench *bench;
    const struct database_way *ways;
    size_t count, rounds;
    char name[96];
    struct pass pass;
    uint64_t input_sum;
    size_t taken[WAYS_MOST];
    double values[WAYS_MOST][METRICS][ROUNDS_MOST];
};

/* ---- One pass in a process of its own. */

static uint64_t directory_bytes;

static int add_size(const char *path, const struct stat *status, int type, struct FTW *where) {
    (void)path, (void)where;
    if (type == FTW_F)
        directory_bytes += (uint64_t)status->st_size;
    return 0;
}

struct job {
    const struct database_way *way;
    struct report *report;
};

static void run_here(void *context, const struct pass *pass) {
    const struct job *job = context;
    struct report *report = job->report;
    struct bench_cpu before = bench_cpu_now();
    uint64_t start = bench_now_ns();
    job->way->load(pass);
    report->values[WALL] = (double)(bench_now_ns() - start) / 1e9;
    struct bench_cpu after = bench_cpu_now();
    report->values[USER] = after.user - before.user;
    report->values[SYSTEM] = after.system - before.system;
    nftw(pass->directory, add_size, 16, FTW_PHYS);
    report->values[SIZE] = (double)directory_bytes / (1 << 20);
    job->way->scan(pass, &report->output);
    output_end(&report->output);
    report->done = true;
}

/* ---- Rounds and tables. */

static void check_sum(struct set *set, const char *name, const char *what, uint64_t got,
                      uint64_t expected) {
    char text[64];
    snprintf(text, sizeof text, "%s, %s", name, what);
    if (got != expected)
        bench_wrong(set->bench, set->name, text, got, expected);
}

static void run_way(struct set *set, size_t at, struct report *report) {
    const struct database_way *way = &set->ways[at];
    struct job job = {way, report};
    memset(report, 0, sizeof *report);
    apart_run(set->bench, &set->pass, run_here, NULL, &job);
    if (!report->done) {
        fprintf(stderr, "bench_databases: %s, %s: failed\n", way->database, way->name);
        set->bench->failed = true;
        return;
    }
    check_sum(set, way->name, "pairs", report->output.pairs, set->pass.pairs);
    check_sum(set, way->name, "pairs' sum", report->output.unordered, set->input_sum);
    check_sum(set, way->name, "keys out of order", report->output.descents, 0);
    size_t round = set->taken[at]++;
    for (size_t metric = 0; metric < METRICS; metric++)
        set->values[at][metric][round] = report->values[metric];
}

static void print_way(const struct set *set, const char *name, size_t rounds, const double *median,
                      double least, const double *base) {
    if (!set->bench->csv) {
        printf("  %-14s %8.2f %8.2f %7.2f %8.2f %8.2f %9.0f %7.2f %7zu\n", name, median[WALL],
               least, median[WALL] / base[WALL], median[USER], median[SYSTEM], median[SIZE],
               median[SIZE] / base[SIZE], rounds);
        return;
    }
    for (size_t metric = 0; metric < METRICS; metric++)
        bench_figure(set->bench, set->name, name, metric_names[metric], median[metric],
                     metric_units[metric]);
    bench_figure(set->bench, set->name, name, "minimum", least, "s");
    bench_figure(set->bench, set->name, name, "ratio", median[WALL] / base[WALL], "libetl");
    bench_figure(set->bench, set->name, name, "size ratio", median[SIZE] / base[SIZE], "libetl");
}

static void print_set(struct set *set) {
    double base[METRICS] = {0};
    if (!set->bench->csv)
        printf("\n%s: medians, seconds and MiB; compared with the first\n  %-14s %8s %8s %7s %8s "
               "%8s %9s %7s %7s\n",
               set->name, "", "wall", "minimum", "ratio", "user", "system", "size", "ratio",
               "rounds");
    for (size_t i = 0; i < set->count && set->taken[0] != 0; i++) {
        double median[METRICS];
        if (set->taken[i] == 0)
            continue;
        for (size_t metric = 0; metric < METRICS; metric++)
            median[metric] = bench_median(set->values[i][metric], set->taken[i]);
        if (i == 0)
            memcpy(base, median, sizeof base);
        print_way(set, set->ways[i].name, set->taken[i], median, set->values[i][WALL][0], base);
    }
    fflush(stdout);
}

static void run_set(struct set *set, struct report *report) {
    snprintf(set->name, sizeof set->name, "%s: %llu pairs in %zu MiB", set->ways[0].database,
             (unsigned long long)set->pass.pairs, set->pass.limit >> 20);
    for (size_t round = 0; round < set->rounds; round++)
        for (size_t i = 0; i < set->count; i++)
            if (round == 0 || !set->ways[i].slow)
                run_way(set, i, report);
    print_set(set);
}

int main(int argc, char **argv) {
    struct bench bench;
    uint64_t pairs = 0, limit = (uint64_t)256 << 20;
    const char *names = "LMDB,SQLite,RocksDB";
    const struct bench_flag flags[] = {
        {"pairs", "of 64 bytes each (default 10000000; quick: 20000)", &pairs, NULL},
        {"limit", "memory of the collector (default 256M; quick: 1M)", &limit, NULL},
        {"databases", "default LMDB,SQLite,RocksDB", NULL, &names}};
    bench_start(&bench, "bench_databases", argc, argv, flags, 3);
    if (pairs == 0)
        pairs = bench.quick ? 20000 : 10000000;
    if (bench.quick)
        limit = 1 << 20;
    static const struct {
        const struct database_way *ways;
        size_t count;
    } databases[] = {
#ifdef LIBETL_DATABASE_LMDB
        {database_lmdb, sizeof database_lmdb / sizeof database_lmdb[0]},
#endif
#ifdef LIBETL_DATABASE_SQLITE
        {database_sqlite, sizeof database_sqlite / sizeof database_sqlite[0]},
#endif
#ifdef LIBETL_DATABASE_ROCKSDB
        {database_rocksdb, sizeof database_rocksdb / sizeof database_rocksdb[0]},
#endif
        {NULL, 0}};
    struct report *report = apart_shared(sizeof *report);
    for (size_t i = 0; databases[i].ways != NULL; i++) {
        if (strstr(names, databases[i].ways->database) == NULL)
            continue;
        struct set *set = bench_alloc(sizeof *set);
        set->bench = &bench;
        set->ways = databases[i].ways;
        set->count = databases[i].count;
        set->rounds = bench.rounds != 0 ? (size_t)bench.rounds : bench.quick ? 1 : 3;
        if (set->rounds > ROUNDS_MOST)
            set->rounds = ROUNDS_MOST;
        set->pass = (struct pass){
            .letter = 'B', .size = pairs * 64, .pairs = pairs, .limit = (size_t)limit};
        set->input_sum = pass_input_sum(&set->pass);
        run_set(set, report);
        free(set);
    }
    return bench_end(&bench);
}
