/* bench_parallel.c: what a second processor gains, by the library's background thread and by the
 * caller's own threads.
 *
 *     machine  the same arithmetic in one thread and in two: the ratio that nothing can undercut
 *     sort     collect and load more than the limit holds, with no and with one background thread
 *     parts    one load, against two parts that etl_split cuts, each iterated in a thread of its
 *              own; from runs and from memory
 *     collect  one thread with one collector, against two threads with one each, of half the
 *              memory, then one load over both, or two parts
 *     heavy    as parts, with a consumer that costs about as much as the merge
 *
 * The consumer folds every byte in order. Before the timing the output is verified in one pass:
 * order, stability, and that all pairs came out. A load that is to be repeated is stopped by its
 * callback at the last pair, which consumes nothing. */
#include "bench.h"
#include "pass.h"
#include "workload.h"

#include <pthread.h>

enum { PARTS = 2, STOP = 1, WEIGHT_MOST = 64 };

struct choice {
    uint64_t size, limit;
    const char *workload, *parts;
};

/* Folds a stream in two halves, so that two threads can. */
struct consumer {
    uint64_t sums[PARTS];
    uint64_t cut;  /* pairs before the second part */
    uint64_t stop; /* at this many pairs; 0: never */
    uint64_t pairs;
    unsigned weight; /* how often each pair is folded */
};

static inline uint64_t fold_heavily(uint64_t sum, unsigned weight, etl_slice key,
                                    etl_slice value) {
    for (; weight != 0; weight--)
        sum = bench_fold_pair(sum, key, value);
    return sum;
}

static int consume(void *context, etl_slice key, etl_slice value) {
    struct consumer *consumer = context;
    uint64_t *sum = &consumer->sums[consumer->pairs >= consumer->cut];
    *sum = fold_heavily(*sum, consumer->weight, key, value);
    return ++consumer->pairs == consumer->stop ? STOP : 0;
}

static uint64_t total(const uint64_t *sums) {
    return bench_fold(0, sums, PARTS * sizeof *sums);
}

/* ---- Two parts, each in its thread. */

struct part {
    pthread_t thread;
    etl_iter *iter;
    uint64_t sum, pairs;
    unsigned weight;
    int status;
};

static void *read_part(void *context) {
    struct part *part = context;
    etl_slice key, value;
    uint64_t sum = 0, pairs = 0;
    while ((part->status = etl_iter_next(part->iter, &key, &value)) == ETL_OK) {
        sum = fold_heavily(sum, part->weight, key, value);
        pairs++;
    }
    part->sum = sum;
    part->pairs = pairs;
    return NULL;
}

/* Returns the total; *cut, where wanted, gets the pairs before the second part. */
static uint64_t read_parts(etl_collector *const *collectors, size_t count, unsigned weight,
                           uint64_t *cut) {
    struct part parts[PARTS] = {{.weight = weight}, {.weight = weight}};
    uint64_t sums[PARTS];
    etl_slice key = etl_slice_of(NULL, 0);
    size_t keys;
    pass_check(etl_split(collectors, count, PARTS, &key, &keys), collectors[0]);
    const etl_range ranges[PARTS] = {{{NULL, 0}, key}, {key, {NULL, 0}}};
    for (size_t i = 0; i < PARTS; i++)
        pass_check(etl_iter_open_many(&parts[i].iter, collectors, count, &ranges[i]),
                   collectors[0]);
    bench_check(pthread_create(&parts[1].thread, NULL, read_part, &parts[1]) == 0 ? ETL_OK
                                                                                  : ETL_E_NOMEM,
                "a thread", NULL);
    read_part(&parts[0]);
    pthread_join(parts[1].thread, NULL);
    for (size_t i = 0; i < PARTS; i++) {
        pass_check(parts[i].status == ETL_END ? ETL_OK : parts[i].status, collectors[0]);
        etl_iter_close(parts[i].iter);
        sums[i] = parts[i].sum;
    }
    if (cut != NULL)
        *cut = parts[0].pairs;
    return total(sums);
}

/* ---- machine: what there is to gain. */

enum { MACHINE_ROUNDS = 1 << 20 };

static void *compute(void *context) {
    uint64_t *result = context, sum = *result, numbers[8] = {sum};
    for (size_t i = 0; i < MACHINE_ROUNDS; i++)
        numbers[i % 8] = sum = bench_fold(sum, numbers, sizeof numbers);
    *result = sum;
    return NULL;
}

static uint64_t compute_in_one(void *context) {
    uint64_t sums[PARTS] = {1, 2};
    (void)context;
    for (size_t i = 0; i < PARTS; i++)
        compute(&sums[i]);
    return total(sums);
}

static uint64_t compute_in_two(void *context) {
    uint64_t first = 1, sums[PARTS] = {0, 2};
    pthread_t thread;
    (void)context;
    bench_check(pthread_create(&thread, NULL, compute, &sums[1]) == 0 ? ETL_OK : ETL_E_NOMEM,
                "a thread", NULL);
    compute(&first);
    pthread_join(thread, NULL);
    sums[0] = first;
    return total(sums);
}

/* ---- sort: the background thread. */

static uint64_t sort_pass(void *context) {
    const struct pass *pass = context;
    uint64_t sum = 0;
    etl_collector *collector = pass_create(pass);
    pass_collect(pass, collector);
    pass_check(etl_load(collector, bench_load_fold, &sum), collector);
    etl_collector_destroy(collector);
    return sum;
}

struct verifying {
    struct output output;
    uint64_t sum;
};

static int verifying_load(void *context, etl_slice key, etl_slice value) {
    struct verifying *verifying = context;
    output_take(&verifying->output, key.data, key.size, value.data, value.size);
    return bench_load_fold(&verifying->sum, key, value);
}

/* Did all that is in the input come, in order? */
static void verify(struct bench *bench, const char *set, const struct output *output,
                   uint64_t pairs, uint64_t input_sum) {
    if (output->pairs != pairs || output->unordered != input_sum)
        bench_wrong(bench, set, "verified", output->unordered, input_sum);
    if (output->descents + output->misplaced != 0)
        bench_wrong(bench, set, "verified", output->descents + output->misplaced, 0);
}

static struct pass make_pass(const struct bench *bench, const struct choice *choice, uint64_t size,
                             uint64_t limit, int threads) {
    char letter = choice->workload[0];
    return (struct pass){.letter = letter,
                         .size = size,
                         .pairs = workload_pairs(letter, size),
                         .limit = (size_t)limit,
                         .threads = threads,
                         .directory = bench->scratch};
}

static void compare(struct bench *bench, const char *set, struct bench_case *cases, size_t count,
                    uint64_t expected, uint64_t work, const char *unit) {
    for (size_t i = 0; i < count; i++) {
        cases[i].expected = expected;
        cases[i].work = (double)work;
        cases[i].unit = unit;
        cases[i].compared_with = i != 0 ? cases[0].name : NULL;
    }
    bench_compare(bench, set, cases, count);
}

static void bench_machine(struct bench *bench) {
    struct bench_case cases[] = {
        {.name = "1 thread", .run = compute_in_one},
        {.name = "2 threads", .run = compute_in_two},
    };
    compare(bench, "machine", cases, 2, compute_in_one(NULL), PARTS * MACHINE_ROUNDS, "ns/fold");
}

static void bench_sort(struct bench *bench, const struct choice *choice) {
    struct pass none = make_pass(bench, choice, choice->size, choice->limit, ETL_THREADS_NONE);
    struct pass one = make_pass(bench, choice, choice->size, choice->limit, 1);
    struct verifying verifying = {.sum = 0};
    char set[96];
    snprintf(set, sizeof set, "sort %c, goal 0.65", none.letter);
    etl_collector *collector = pass_create(&none);
    pass_collect(&none, collector);
    pass_check(etl_load(collector, verifying_load, &verifying), collector);
    etl_collector_destroy(collector);
    verify(bench, set, &verifying.output, none.pairs, pass_input_sum(&none));
    struct bench_case cases[] = {
        {.name = "no thread", .run = sort_pass, .context = &none},
        {.name = "1 background thread", .run = sort_pass, .context = &one},
    };
    compare(bench, set, cases, 2, verifying.sum, none.pairs, "ns/pair");
}

/* ---- parts and heavy: loading by ranges. */

struct loading {
    etl_collector *collector;
    uint64_t pairs, cut;
    unsigned weight;
};

static uint64_t load_once(void *context) {
    const struct loading *loading = context;
    struct consumer consumer = {
        .cut = loading->cut, .stop = loading->pairs, .weight = loading->weight};
    int status = etl_load(loading->collector, consume, &consumer);
    if (status != STOP)
        pass_check(status, loading->collector);
    return total(consumer.sums);
}

static uint64_t iterate_once(void *context) {
    const struct loading *loading = context;
    struct consumer consumer = {.cut = loading->cut, .weight = loading->weight};
    etl_iter *iter;
    etl_slice key, value;
    pass_check(etl_iter_open(&iter, loading->collector, NULL), loading->collector);
    while (etl_iter_next(iter, &key, &value) == ETL_OK)
        consume(&consumer, key, value);
    etl_iter_close(iter);
    return total(consumer.sums);
}

static uint64_t load_parts(void *context) {
    const struct loading *loading = context;
    return read_parts(&loading->collector, 1, loading->weight, NULL);
}

/* How often a pair is to be folded so that this costs what the merge does. */
static unsigned heavy_weight(struct loading *loading) {
    double seconds[2];
    const unsigned weights[2] = {0, 8};
    for (size_t i = 0; i < 2; i++) {
        loading->weight = weights[i];
        load_once(loading); /* warm up */
        uint64_t start = bench_now_ns();
        load_once(loading);
        seconds[i] = (double)(bench_now_ns() - start);
    }
    double fold = (seconds[1] - seconds[0]) / weights[1];
    double weight = fold > 0 ? seconds[0] / fold + 0.5 : 1;
    return weight < 1 ? 1 : weight > WEIGHT_MOST ? WEIGHT_MOST : (unsigned)weight;
}

/* Verify what one collector holds, by an iterator, and find where the second part begins. */
static void prepare(struct bench *bench, const char *set, struct loading *loading,
                    const struct pass *pass) {
    struct output output = {.pairs = 0};
    etl_iter *iter;
    etl_slice key, value;
    loading->collector = pass_create(pass);
    pass_collect(pass, loading->collector);
    pass_check(etl_iter_open(&iter, loading->collector, NULL), loading->collector);
    while (etl_iter_next(iter, &key, &value) == ETL_OK)
        output_load(&output, key, value);
    etl_iter_close(iter);
    verify(bench, set, &output, pass->pairs, pass_input_sum(pass));
    loading->pairs = pass->pairs;
    read_parts(&loading->collector, 1, 1, &loading->cut);
}

static void bench_parts(struct bench *bench, const struct choice *choice, bool in_memory,
                        bool heavy) {
    uint64_t limit = in_memory ? 2 * choice->size + (64 << 20) : choice->limit;
    struct loading loading[2]; /* without and with a background thread */
    char set[96];
    snprintf(set, sizeof set, "%s %c, %s%s", heavy ? "heavy" : "parts", choice->workload[0],
             in_memory ? "in memory" : "from runs", heavy ? "" : ", goal 0.6");
    for (size_t i = 0; i < 2; i++) {
        struct pass pass =
            make_pass(bench, choice, choice->size, limit, i == 0 ? ETL_THREADS_NONE : 1);
        prepare(bench, set, &loading[i], &pass);
    }
    loading[0].weight = loading[1].weight = heavy ? heavy_weight(&loading[0]) : 1;
    loading[1].cut = loading[0].cut; /* only the parts of the first are read */
    struct bench_case cases[] = {
        {.name = "load", .run = load_once, .context = &loading[0]},
        {.name = "load, 1 background thread", .run = load_once, .context = &loading[1]},
        {.name = "iterate", .run = iterate_once, .context = &loading[0]},
        {.name = "2 parts, 2 threads", .run = load_parts, .context = &loading[0]},
    };
    compare(bench, set, cases, 4, load_once(&loading[0]), loading[0].pairs, "ns/pair");
    if (heavy)
        bench_figure(bench, set, "load", "weight", (double)loading[0].weight, "folds a pair");
    bench_figure(bench, set, "2 parts, 2 threads", "share of the first part",
                 (double)loading[0].cut / (double)loading[0].pairs, "");
    for (size_t i = 0; i < 2; i++)
        etl_collector_destroy(loading[i].collector);
}

/* ---- collect: a collector for each thread. */

struct gathering {
    struct pass half; /* the pairs and the size of one of two inputs */
    size_t limit;     /* in all */
    uint64_t cut;     /* pairs before the second part of the output; 0: not known yet */
    int threads;      /* in the background */
};

struct producer {
    pthread_t thread;
    const struct pass *half;
    etl_collector *collector;
    uint64_t seed;
};

/* Collect one half of the input. */
static void *produce(void *context) {
    const struct producer *producer = context;
    const struct pass *half = producer->half;
    struct workload *workload = workload_open(half->letter, producer->seed, half->size);
    for (uint64_t i = 0; i < half->pairs; i++) {
        struct workload_pair pair;
        workload_next(workload, &pair);
        pass_check(etl_collect(producer->collector, etl_slice_of(pair.key, pair.key_size),
                               etl_slice_of(pair.value, pair.value_size)),
                   producer->collector);
    }
    workload_close(workload);
    return NULL;
}

static uint64_t gather_in_one(void *context) {
    const struct gathering *gathering = context;
    struct pass pass = gathering->half;
    struct consumer consumer = {.cut = gathering->cut, .weight = 1};
    pass.limit = gathering->limit;
    pass.threads = gathering->threads;
    etl_collector *collector = pass_create(&pass);
    for (uint64_t i = 0; i < PARTS; i++)
        produce(&(struct producer){
            .half = &gathering->half, .collector = collector, .seed = PASS_SEED + i});
    pass_check(etl_load(collector, consume, &consumer), collector);
    etl_collector_destroy(collector);
    return total(consumer.sums);
}

/* Two threads collect into a collector each. */
static void gather(const struct gathering *gathering, etl_collector **collectors) {
    struct producer producers[PARTS];
    struct pass pass = gathering->half;
    pass.limit = gathering->limit / PARTS;
    pass.threads = gathering->threads;
    for (uint64_t i = 0; i < PARTS; i++) {
        collectors[i] = pass_create(&pass);
        producers[i] = (struct producer){
            .half = &gathering->half, .collector = collectors[i], .seed = PASS_SEED + i};
    }
    bench_check(pthread_create(&producers[1].thread, NULL, produce, &producers[1]) == 0
                    ? ETL_OK
                    : ETL_E_NOMEM,
                "a thread", NULL);
    produce(&producers[0]);
    pthread_join(producers[1].thread, NULL);
}

static uint64_t gather_in_two(void *context) {
    const struct gathering *gathering = context;
    etl_collector *collectors[PARTS];
    struct consumer consumer = {.cut = gathering->cut, .weight = 1};
    gather(gathering, collectors);
    pass_check(etl_load_many(collectors, PARTS, consume, &consumer), collectors[0]);
    for (size_t i = 0; i < PARTS; i++)
        etl_collector_destroy(collectors[i]);
    return total(consumer.sums);
}

static uint64_t gather_and_part(const struct gathering *gathering, uint64_t *cut) {
    etl_collector *collectors[PARTS];
    gather(gathering, collectors);
    uint64_t sum = read_parts(collectors, PARTS, 1, cut);
    for (size_t i = 0; i < PARTS; i++)
        etl_collector_destroy(collectors[i]);
    return sum;
}

static uint64_t gather_in_two_parts(void *context) {
    return gather_and_part(context, NULL);
}

static void bench_collect(struct bench *bench, const struct choice *choice) {
    struct gathering none = {
        .half = make_pass(bench, choice, choice->size / PARTS, 0, ETL_THREADS_NONE),
        .limit = (size_t)choice->limit,
        .threads = ETL_THREADS_NONE};
    char set[96];
    snprintf(set, sizeof set, "collect %c", none.half.letter);
    uint64_t expected = gather_and_part(&none, &none.cut);
    struct gathering one = none;
    one.threads = 1;
    struct bench_case cases[] = {
        {.name = "1 thread", .run = gather_in_one, .context = &none},
        {.name = "and 1 in the background", .run = gather_in_one, .context = &one},
        {.name = "2 threads", .run = gather_in_two, .context = &none},
        {.name = "2 threads, 2 parts", .run = gather_in_two_parts, .context = &none},
    };
    compare(bench, set, cases, 4, expected, PARTS * none.half.pairs, "ns/pair");
}

int main(int argc, char **argv) {
    struct bench bench;
    struct choice choice = {.workload = "B", .parts = "machine,sort,parts,collect,heavy"};
    const struct bench_flag flags[] = {
        {"size", "bytes of keys and values (default 1G)", &choice.size, NULL},
        {"limit", "memory limit (default an eighth of the size)", &choice.limit, NULL},
        {"workload", "a letter of workload.h (default B)", NULL, &choice.workload},
        {"parts", "default machine,sort,parts,collect,heavy", NULL, &choice.parts}};
    bench_start(&bench, "bench_parallel", argc, argv, flags, 4);
    if (choice.size == 0)
        choice.size = bench.quick ? 8 << 20 : (uint64_t)1 << 30;
    if (choice.limit == 0)
        choice.limit = choice.size / 8;
    if (strstr(choice.parts, "machine") != NULL)
        bench_machine(&bench);
    if (strstr(choice.parts, "sort") != NULL)
        bench_sort(&bench, &choice);
    for (size_t in_memory = 0; in_memory < 2; in_memory++)
        if (strstr(choice.parts, "parts") != NULL)
            bench_parts(&bench, &choice, in_memory != 0, false);
    if (strstr(choice.parts, "collect") != NULL)
        bench_collect(&bench, &choice);
    for (size_t in_memory = 0; in_memory < 2; in_memory++)
        if (strstr(choice.parts, "heavy") != NULL)
            bench_parts(&bench, &choice, in_memory != 0, true);
    return bench_end(&bench);
}
