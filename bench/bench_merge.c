/* bench_merge.c: merging k runs, overlapping (consecutive parts of random input, each sorted) and
 * disjoint (consecutive parts of the sorted input).
 *
 * Compared with a plain binary heap that compares by memcmp, kept here, over the same providers;
 * and with a scan, which reads the k runs one after the other and so costs what no merge can
 * avoid. Every case opens its providers over mapped runs, checks all blocks, and folds the number
 * in each value, which says which pair it is: one checksum for one order. That all other bytes are
 * right too is looked at once, outside the timing. */
#include "bench.h"
#include "merge.h"
#include "provider_file.h"
#include "run_writer.h"
#include "workload.h"

enum { BUFFER = 256 << 10, RELEASE_STEP = 1 << 20, RUNS_MOST = 1024, BATCH = 64 };

struct input {
    uint8_t *bytes; /* key, value, key, value… in the order of collection */
    uint64_t *at;   /* of pair i; at[pairs] is the end */
    uint32_t *key_size;
    uint32_t *order; /* pairs in sorted order */
    uint32_t *dealt; /* the same, run after run */
    uint64_t pairs, sum, byte_sum;
};

struct merging {
    struct bench *bench;
    struct etl__memory memory;
    struct etl__disk disk;
    struct etl__run_writer *writer;
    struct etl__error error;
    struct input input;
    struct etl__run *runs[RUNS_MOST];
    size_t k;
};

static struct merging m;

static void check(int status) {
    if (status != ETL_OK)
        bench_check(status, "merge", m.error.text);
}

/* ---- Input: made once for a workload, sorted once by qsort(3). */

struct item {
    uint64_t prefix;
    uint32_t pair;
};

static etl_slice key_of(uint32_t pair) {
    return etl_slice_of(m.input.bytes + m.input.at[pair], m.input.key_size[pair]);
}

static etl_slice value_of(uint32_t pair) {
    uint64_t from = m.input.at[pair] + m.input.key_size[pair];
    return etl_slice_of(m.input.bytes + from, (size_t)(m.input.at[pair + 1] - from));
}

static int compare_keys(etl_slice a, etl_slice b) {
    int order = memcmp(a.data, b.data, a.size < b.size ? a.size : b.size);
    return order != 0 ? order : (a.size > b.size) - (a.size < b.size);
}

static int compare_items(const void *a, const void *b) {
    const struct item *x = a, *y = b;
    if (x->prefix != y->prefix)
        return x->prefix < y->prefix ? -1 : 1;
    int order = compare_keys(key_of(x->pair), key_of(y->pair));
    return order != 0 ? order : (x->pair > y->pair) - (x->pair < y->pair);
}

static inline uint64_t fold_number(uint64_t sum, const void *value) {
    uint64_t number;
    memcpy(&number, value, sizeof number);
    return bench_rotate(sum ^ number, 29) * 0x9E3779B97F4A7C15u;
}

static void make_input(char letter, uint64_t size) {
    struct input *input = &m.input;
    struct workload *workload = workload_open(letter, 1, size);
    uint64_t pairs = workload_pairs(letter, size), used = 0;
    size_t room = (size_t)size + (size_t)size / 4 + 4096; /* the lengths of U are an average */
    input->pairs = pairs;
    input->bytes = bench_alloc(room);
    input->at = bench_alloc((size_t)(pairs + 1) * sizeof *input->at);
    input->key_size = bench_alloc((size_t)pairs * sizeof *input->key_size);
    input->order = bench_alloc((size_t)pairs * sizeof *input->order);
    input->dealt = bench_alloc((size_t)pairs * sizeof *input->dealt);
    struct item *items = bench_alloc((size_t)pairs * sizeof *items);
    for (uint32_t i = 0; i < pairs; i++) {
        struct workload_pair pair;
        workload_next(workload, &pair);
        bench_check(used + pair.key_size + pair.value_size <= room ? ETL_OK : ETL_E_NOMEM,
                    "workload", NULL);
        memcpy(input->bytes + used, pair.key, pair.key_size);
        memcpy(input->bytes + used + pair.key_size, pair.value, pair.value_size);
        input->at[i] = used;
        input->key_size[i] = (uint32_t)pair.key_size;
        items[i] = (struct item){etl__key_prefix(input->bytes + used, pair.key_size), i};
        used += pair.key_size + pair.value_size;
    }
    input->at[pairs] = used;
    workload_close(workload);
    qsort(items, (size_t)pairs, sizeof *items, compare_items);
    input->sum = input->byte_sum = 0;
    for (uint64_t i = 0; i < pairs; i++) {
        uint32_t pair = input->order[i] = items[i].pair;
        input->sum = fold_number(input->sum, value_of(pair).data);
        input->byte_sum = bench_fold_pair(input->byte_sum, key_of(pair), value_of(pair));
    }
    free(items);
}

static void free_input(void) {
    free(m.input.bytes);
    free(m.input.at);
    free(m.input.key_size);
    free(m.input.order);
    free(m.input.dealt);
}

/* ---- Runs. */

static size_t run_of(bool overlap, uint64_t pair, uint64_t place) {
    return (size_t)((overlap ? pair : place) * m.k / m.input.pairs);
}

static void write_run(size_t run, const uint32_t *pairs, uint64_t count) {
    uint64_t expected = 0;
    for (uint64_t i = 0; i < count; i++) {
        etl_slice key = key_of(pairs[i]), value = value_of(pairs[i]);
        expected += etl__record_head_size(key.size, value.size + 1) + key.size + value.size;
    }
    check(etl__run_writer_open(m.writer, m.bench->scratch, "bench", expected, &m.error));
    for (uint64_t i = 0; i < count; i++) {
        etl_slice key = key_of(pairs[i]), value = value_of(pairs[i]);
        const struct etl__pair pair = {key.data, value.data, (uint32_t)key.size,
                                       (uint32_t)value.size};
        check(etl__run_writer_append(m.writer, &pair, &m.error));
    }
    check(etl__run_writer_close(m.writer, ETL_ACCESS_MMAP, &m.runs[run], &m.error));
}

/* Deals the sorted pairs to their runs, which keeps each run sorted. Returns the checksum of a
 * scan. */
static uint64_t make_runs(bool overlap) {
    static uint64_t start[RUNS_MOST + 1], fill[RUNS_MOST + 1];
    const struct input *input = &m.input;
    memset(start, 0, sizeof start);
    for (uint64_t i = 0; i < input->pairs; i++)
        start[run_of(overlap, input->order[i], i) + 1]++;
    for (size_t run = 0; run < m.k; run++)
        start[run + 1] += start[run];
    memcpy(fill, start, sizeof fill);
    for (uint64_t i = 0; i < input->pairs; i++)
        input->dealt[fill[run_of(overlap, input->order[i], i)]++] = input->order[i];
    uint64_t sum = 0;
    for (uint64_t i = 0; i < input->pairs; i++)
        sum = fold_number(sum, value_of(input->dealt[i]).data);
    for (size_t run = 0; run < m.k; run++)
        write_run(run, input->dealt + start[run], start[run + 1] - start[run]);
    return sum;
}

static void drop_runs(void) {
    for (size_t run = 0; run < m.k; run++) {
        uint64_t size = m.runs[run]->file_size;
        etl__run_close(m.runs[run], &m.memory);
        etl__disk_give(&m.disk, size);
    }
}

static struct etl__provider *open_provider(size_t run) {
    struct etl__provider *provider;
    check(etl__provider_file_open(&provider, m.runs[run], &m.memory, BUFFER, RELEASE_STEP,
                                  &m.error));
    return provider;
}

/* ---- The three ways. */

static void open_merge(struct etl__merge *merge) {
    struct etl__provider *providers[RUNS_MOST];
    for (size_t run = 0; run < m.k; run++)
        providers[run] = open_provider(run);
    check(etl__merge_open(merge, &m.memory, providers, m.k, false, NULL, &m.error));
}

static uint64_t run_merge(void *context) {
    struct etl__merge merge;
    struct etl__pair pairs[BATCH];
    uint64_t sum = 0;
    size_t taken;
    int status;
    (void)context;
    open_merge(&merge);
    while ((status = etl__merge_take(&merge, pairs, BATCH, &taken, &m.error)) == ETL_OK)
        for (size_t i = 0; i < taken; i++)
            sum = fold_number(sum, pairs[i].value);
    check(status == ETL_END ? ETL_OK : status);
    etl__merge_close(&merge);
    return sum;
}

static uint64_t run_scan(void *context) {
    struct etl__pair pair;
    uint64_t sum = 0;
    (void)context;
    for (size_t run = 0; run < m.k; run++) {
        struct etl__provider *provider = open_provider(run);
        int status;
        while ((status = etl__provider_read(provider, &pair, &m.error)) == ETL_OK)
            sum = fold_number(sum, pair.value);
        check(status == ETL_END ? ETL_OK : status);
        provider->close(provider);
    }
    return sum;
}

struct leaf {
    struct etl__pair pair;
    struct etl__provider *provider;
    size_t run;
};

static bool leaf_below(const struct leaf *a, const struct leaf *b) {
    int order = compare_keys(etl_slice_of(a->pair.key, a->pair.key_size),
                             etl_slice_of(b->pair.key, b->pair.key_size));
    return order != 0 ? order < 0 : a->run < b->run;
}

static void sift_down(struct leaf **heap, size_t count, size_t at) {
    struct leaf *moved = heap[at];
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= count)
            break;
        if (child + 1 < count && leaf_below(heap[child + 1], heap[child]))
            child++;
        if (!leaf_below(heap[child], moved))
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = moved;
}

static bool advance(struct leaf *leaf) {
    int status = etl__provider_read(leaf->provider, &leaf->pair, &m.error);
    if (status == ETL_OK)
        return true;
    check(status == ETL_END ? ETL_OK : status);
    leaf->provider->close(leaf->provider);
    return false;
}

static uint64_t run_binary_heap(void *context) {
    static struct leaf leaves[RUNS_MOST];
    struct leaf *heap[RUNS_MOST];
    size_t count = 0;
    uint64_t sum = 0;
    (void)context;
    for (size_t run = 0; run < m.k; run++) {
        leaves[run] = (struct leaf){.provider = open_provider(run), .run = run};
        if (advance(&leaves[run]))
            heap[count++] = &leaves[run];
    }
    for (size_t at = count / 2; at-- > 0;)
        sift_down(heap, count, at);
    while (count != 0) {
        sum = fold_number(sum, heap[0]->pair.value);
        if (!advance(heap[0]))
            heap[0] = heap[--count];
        if (count != 0)
            sift_down(heap, count, 0);
    }
    return sum;
}

static void check_output(const char *set) {
    struct etl__merge merge;
    const struct etl__pair *pair;
    uint64_t sum = 0;
    open_merge(&merge);
    while (etl__merge_next(&merge, &pair, &m.error) == ETL_OK)
        sum = bench_fold_pair(sum, etl_slice_of(pair->key, pair->key_size),
                              etl_slice_of(pair->value, pair->value_size));
    etl__merge_close(&merge);
    if (sum != m.input.byte_sum)
        bench_wrong(m.bench, set, "output", sum, m.input.byte_sum);
}

static void compare(char letter, bool overlap, size_t k) {
    m.k = k;
    uint64_t scan_sum = make_runs(overlap);
    struct bench_case cases[] = {
        {.name = "tree of losers",
         .run = run_merge,
         .expected = m.input.sum,
         .compared_with = "binary heap, memcmp"},
        {.name = "binary heap, memcmp",
         .run = run_binary_heap,
         .expected = m.input.sum,
         .compared_with = "scan"},
        {.name = "scan", .run = run_scan, .expected = scan_sum},
    };
    for (size_t i = 0; i < 3; i++) {
        cases[i].work = (double)m.input.pairs;
        cases[i].unit = "ns/pair";
    }
    char set[64];
    snprintf(set, sizeof set, "%c, k = %zu, %s", letter, k, overlap ? "overlapping" : "disjoint");
    bench_compare(m.bench, set, cases, 3);
    check_output(set);
    drop_runs();
}

int main(int argc, char **argv) {
    struct bench bench;
    uint64_t size = 0, most = 0;
    const char *letters = NULL;
    const struct bench_flag flags[] = {
        {"size", "bytes of keys and values (default 256M)", &size, NULL},
        {"runs", "most runs (default 1024)", &most, NULL},
        {"workloads", "letters of workload.h (default ABCU)", NULL, &letters}};
    bench_start(&bench, "bench_merge", argc, argv, flags, 3);
    size = size != 0 ? size : bench.quick ? (uint64_t)1 << 20 : (uint64_t)256 << 20;
    most = most != 0 && most <= RUNS_MOST ? most : bench.quick ? 64 : RUNS_MOST;
    letters = letters != NULL ? letters : bench.quick ? "BU" : "ABCU";
    m.bench = &bench;
    etl__memory_init(&m.memory, &(etl_allocator){NULL, NULL}, SIZE_MAX);
    check(etl__run_writer_create(&m.writer, &m.memory, &m.disk, BUFFER, NULL, &m.error));
    static const size_t runs[] = {1, 2, 4, 16, 64, 256, 1024};
    for (const char *letter = letters; *letter != '\0'; letter++) {
        make_input(*letter, size);
        for (size_t i = 0; i < sizeof runs / sizeof runs[0] && runs[i] <= most; i++)
            for (int overlap = runs[i] > 1; overlap >= 0; overlap--)
                compare(*letter, overlap, runs[i]);
        free_input();
    }
    etl__run_writer_destroy(m.writer);
    etl__memory_end(&m.memory);
    return bench_end(&bench);
}
