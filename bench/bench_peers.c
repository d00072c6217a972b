/* bench_peers.c: the library and other sorters do the same work with the same memory, in turn.
 *
 * Each workload is sorted twice: with far more data than memory, and in memory. Peers are built
 * where their packages were found; what each of them does is told in its file. All get a second
 * thread where they can use one. The consumer is the same for all: it folds every byte, compares
 * each key with the one before and copies it.
 *
 * Checksums: the order of keys counts for all. The order among equal keys counts for the library
 * and the peers that promise it ("collected" in the column order of the table); the sum of the
 * others ("keys") does not depend on it.
 *
 * Wall time is from opening to closing, temporary files removed; user and system time are of the
 * process and those it started. Peak anonymous memory is sampled; pages of files are not in it:
 * LMDB works in these alone, and is bounded by nothing else. */
#include "bench.h"
#include "peers.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS_MOST = 32 };
enum metric { WALL, USER, SYSTEM, ANONYMOUS, METRICS };

static const char *const metric_names[METRICS] = {"wall", "user", "system", "peak anonymous"};

/* The library first: it is what the others are compared with. */
static const struct peer *const peers[] = {
    &peer_libetl,   &peer_libetl_alone,
#ifdef LIBETL_PEER_STXXL
    &peer_stxxl,
#endif
#ifdef LIBETL_PEER_GNU_SORT
    &peer_gnu_sort,
#endif
#ifdef LIBETL_PEER_MTBL
    &peer_mtbl,
#endif
#ifdef LIBETL_PEER_ROCKSDB
    &peer_rocksdb,
#endif
#ifdef LIBETL_PEER_SQLITE
    &peer_sqlite,
#endif
#ifdef LIBETL_PEER_LMDB
    &peer_lmdb,
#endif
};
enum { PEERS = sizeof peers / sizeof peers[0] };

struct entrant {
    const struct peer *peer;
    size_t rounds;
    bool failed;
    double values[METRICS][ROUNDS_MOST];
};

struct set {
    struct bench *bench;
    char name[96];
    bool external;
    struct pass pass;
    uint64_t input_sum;
    struct output expected; /* the library's */
    struct entrant entrants[PEERS];
    size_t count, rounds;
};

/* ---- One pass in a process of its own. */

static double seconds_of(struct timeval self, struct timeval children) {
    return (double)(self.tv_sec + children.tv_sec) +
           (double)(self.tv_usec + children.tv_usec) / 1e6;
}

struct job {
    const struct peer *peer;
    struct peer_report *report;
    uint64_t peak;
};

static void run_here(void *context, const struct pass *pass) {
    const struct job *job = context;
    struct peer_report *report = job->report;
    if (freopen("/dev/null", "w", stdout) == NULL) /* some peers talk */
        _exit(1);
    struct rusage self, children;
    report->base = bench_anonymous(0);
    uint64_t start = bench_now_ns();
    job->peer->run(pass, report);
    output_end(&report->output);
    report->wall = (double)(bench_now_ns() - start) / 1e9;
    getrusage(RUSAGE_SELF, &self);
    getrusage(RUSAGE_CHILDREN, &children);
    report->user = seconds_of(self.ru_utime, children.ru_utime);
    report->system = seconds_of(self.ru_stime, children.ru_stime);
    report->done = true;
}

/* Wait for the process, and note the peak of its memory. */
static void watch(void *context, pid_t child) {
    struct job *job = context;
    const struct peer_report *report = job->report;
    const struct timespec step = {.tv_nsec = 2000000};
    uint64_t peak = 0;
    int status;
    while (waitpid(child, &status, WNOHANG) == 0) {
        pid_t helper = report->helper;
        uint64_t now = bench_anonymous(child) + (helper != 0 ? bench_anonymous(helper) : 0);
        if (now > peak)
            peak = now;
        nanosleep(&step, NULL);
    }
    job->peak = peak > report->base ? peak - report->base : 0;
}

/* ---- What the peers share. */

size_t peer_number_size(const struct pass *pass) {
    return pass->letter == 'D' || pass->letter == 'U' ? PEER_NUMBER_SIZE : 0;
}

void peer_key_make(struct peer_key *key, const struct workload_pair *pair, size_t number_size,
                   uint64_t number) {
    memcpy(key->bytes, pair->key, pair->key_size);
    for (size_t i = 0; i < number_size; i++)
        key->bytes[pair->key_size + i] = (unsigned char)(number >> 8 * (number_size - 1 - i));
    key->size = pair->key_size + number_size;
}

/* ---- The library. */

static void run_libetl(const struct pass *pass, struct peer_report *report) {
    etl_collector *collector = pass_create(pass);
    pass_collect(pass, collector);
    pass_check(etl_load(collector, output_load, &report->output), collector);
    etl_collector_destroy(collector);
}

static void run_libetl_alone(const struct pass *pass, struct peer_report *report) {
    struct pass alone = *pass;
    alone.threads = ETL_THREADS_NONE;
    run_libetl(&alone, report);
}

const struct peer peer_libetl = {"libetl", true, false, run_libetl};
const struct peer peer_libetl_alone = {"libetl no thread", true, false, run_libetl_alone};

/* ---- Checks. */

static void check_sum(struct set *set, const char *name, const char *what, uint64_t got,
                      uint64_t expected) {
    char text[64];
    snprintf(text, sizeof text, "%s, %s", name, what);
    if (got != expected)
        bench_wrong(set->bench, set->name, text, got, expected);
}

static void check(struct set *set, const struct peer *peer, const struct output *output) {
    if (peer == peers[0] && set->expected.pairs == 0)
        set->expected = *output;
    const char *name = peer->name;
    check_sum(set, name, "pairs", output->pairs, set->pass.pairs);
    check_sum(set, name, "pairs' sum", output->unordered, set->input_sum);
    check_sum(set, name, "keys out of order", output->descents, 0);
    check_sum(set, name, "checksum", output->grouped, set->expected.grouped);
    if (peer->stable) {
        check_sum(set, name, "equal keys out of order", output->misplaced, 0);
        check_sum(set, name, "ordered checksum", output->ordered, set->expected.ordered);
    }
}

/* ---- Rounds and tables. */

static void run_entrant(struct set *set, struct entrant *entrant, struct peer_report *report,
                        bool keep) {
    struct job job = {entrant->peer, report, 0};
    memset(report, 0, sizeof *report);
    apart_run(set->bench, &set->pass, run_here, watch, &job);
    if (!report->done) {
        fprintf(stderr, "bench_peers: %s, %s: failed\n", set->name, entrant->peer->name);
        set->bench->failed = entrant->failed = true;
        return;
    }
    check(set, entrant->peer, &report->output);
    if (!keep)
        return;
    size_t round = entrant->rounds++;
    entrant->values[WALL][round] = report->wall;
    entrant->values[USER][round] = report->user;
    entrant->values[SYSTEM][round] = report->system;
    entrant->values[ANONYMOUS][round] = (double)job.peak / (1 << 20);
}

static void print_entrant(const struct set *set, const struct entrant *entrant,
                          const double *median, double least, const double *base) {
    const struct bench *bench = set->bench;
    const char *name = entrant->peer->name;
    double processor = (median[USER] + median[SYSTEM]) / (base[USER] + base[SYSTEM]);
    if (!bench->csv) {
        printf("  %-18s %8.2f %8.2f %7.2f %8.2f %8.2f %7.2f %15.0f %7zu  %s\n", name, median[WALL],
               least, median[WALL] / base[WALL], median[USER], median[SYSTEM], processor,
               median[ANONYMOUS], entrant->rounds, entrant->peer->stable ? "collected" : "keys");
        return;
    }
    for (size_t metric = 0; metric < METRICS; metric++)
        bench_figure(bench, set->name, name, metric_names[metric], median[metric],
                     metric == ANONYMOUS ? "MiB" : "s");
    bench_figure(bench, set->name, name, "minimum", least, "s");
    bench_figure(bench, set->name, name, "ratio", median[WALL] / base[WALL], "libetl");
    bench_figure(bench, set->name, name, "processor ratio", processor, "libetl");
}

static void print_set(struct set *set) {
    double base[METRICS] = {0};
    if (!set->bench->csv)
        printf("\n%s: medians, seconds and MiB; compared with the first\n  %-18s %8s %8s %7s %8s "
               "%8s %7s %15s %7s  %s\n",
               set->name, "", "wall", "minimum", "ratio", "user", "system", "ratio",
               "peak anonymous", "rounds", "order");
    for (size_t i = 0; i < set->count; i++) {
        struct entrant *entrant = &set->entrants[i];
        double median[METRICS];
        if (entrant->failed || entrant->rounds == 0)
            continue;
        for (size_t metric = 0; metric < METRICS; metric++)
            median[metric] = bench_median(entrant->values[metric], entrant->rounds);
        if (i == 0)
            memcpy(base, median, sizeof base);
        print_entrant(set, entrant, median, entrant->values[WALL][0], base);
    }
    fflush(stdout);
}

static void run_set(struct set *set, struct peer_report *report) {
    set->input_sum = pass_input_sum(&set->pass);
    size_t first = set->bench->quick ? 1 : 0; /* round 0 warms up */
    for (size_t round = first; round <= set->rounds; round++) {
        for (size_t i = 0; i < set->count; i++) {
            struct entrant *entrant = &set->entrants[i];
            bool once = entrant->peer->slow && set->external;
            if (!entrant->failed && (!once || round == 1))
                run_entrant(set, entrant, report, round != 0);
        }
    }
    print_set(set);
}

/* ---- Options. */

struct choice {
    uint64_t size, limit, memory_size;
    const char *letters, *modes, *names;
};

/* Is name one of a list with commas? */
static bool listed(const char *list, const char *name) {
    size_t size = strlen(name);
    for (const char *at = list; at != NULL; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, name, size) == 0 && (at[size] == ',' || at[size] == '\0'))
            return true;
    }
    return false;
}

static size_t choose(struct entrant *entrants, const char *names) {
    size_t count = 0;
    for (size_t i = 0; i < PEERS; i++)
        if (i == 0 || names == NULL || listed(names, peers[i]->name))
            entrants[count++] = (struct entrant){.peer = peers[i]};
    return count;
}

static void run_mode(struct bench *bench, const struct choice *choice, char letter, bool external,
                     struct peer_report *report) {
    uint64_t share = bench->quick ? 1024 : letter == 'D' ? 4 : 1; /* of the full size */
    uint64_t size = choice->size != 0 ? choice->size : ((uint64_t)2 << 30) / share;
    uint64_t limit = choice->limit != 0 ? choice->limit : ((uint64_t)256 << 20) / share;
    if (!external) {
        size = choice->memory_size != 0 ? choice->memory_size : bench->quick ? 1 << 20 : limit / 4;
        limit = 4 * size;
    }
    struct set *set = bench_alloc(sizeof *set);
    set->bench = bench;
    set->external = external;
    set->pass = (struct pass){.letter = letter,
                              .size = size,
                              .pairs = workload_pairs(letter, size),
                              .limit = (size_t)limit};
    set->rounds = bench->rounds != 0 ? (size_t)bench->rounds : bench->quick ? 1 : 3;
    if (set->rounds > ROUNDS_MOST)
        set->rounds = ROUNDS_MOST;
    set->count = choose(set->entrants, choice->names);
    snprintf(set->name, sizeof set->name, "%c: %.1f MiB in %.1f MiB", letter,
             (double)size / (1 << 20), (double)limit / (1 << 20));
    run_set(set, report);
    free(set);
}

/* OpenMP's threads, which are STXXL's, spin while they wait and take the processor from the others
 * by that: many times the time on a busy machine. It can be told only before the program
 * starts. */
static void wait_without_spinning(char **argv) {
#ifdef LIBETL_PEER_STXXL
    if (getenv("OMP_WAIT_POLICY") == NULL && setenv("OMP_WAIT_POLICY", "passive", 1) == 0)
        execvp(argv[0], argv);
#else
    (void)argv;
#endif
}

int main(int argc, char **argv) {
    wait_without_spinning(argv);
    struct bench bench;
    struct choice choice = {.modes = "external,memory"};
    const struct bench_flag flags[] = {
        {"size", "bytes of keys and values (default 2G; D: 512M)", &choice.size, NULL},
        {"limit", "memory for them (default 256M; D: 64M)", &choice.limit, NULL},
        {"memory-size", "bytes in memory, in four times as many (default limit / 4)",
         &choice.memory_size, NULL},
        {"modes", "default external,memory", NULL, &choice.modes},
        {"workloads", "letters of workload.h (default ABCDEFU; quick: BDU)", NULL,
         &choice.letters},
        {"peers", "names with commas (default all that were built)", NULL, &choice.names}};
    bench_start(&bench, "bench_peers", argc, argv, flags, 6);
    if (choice.letters == NULL)
        choice.letters = bench.quick ? "BDU" : "ABCDEFU";
    struct peer_report *report = apart_shared(sizeof *report);
    for (const char *letter = choice.letters; *letter != '\0'; letter++) {
        if (listed(choice.modes, "external"))
            run_mode(&bench, &choice, *letter, true, report);
        if (listed(choice.modes, "memory"))
            run_mode(&bench, &choice, *letter, false, report);
    }
    return bench_end(&bench);
}
