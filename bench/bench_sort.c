/* bench_sort.c: sorting the index, against qsort(3) and std::sort over the same entries.
 *
 * Workloads A to D and U in collection order, and E, which is sorted, forwards and backwards, in
 * an arena of records as the library keeps them. Only the sort is timed; every run starts from a
 * copy of the same index. All must end in the order that qsort finds. */
#include "bench.h"
#include "record.h"
#include "sort.h"
#include "std_sort.h"
#include "workload.h"

_Static_assert(sizeof(struct bench_entry) == sizeof(struct etl__entry) &&
                   offsetof(struct bench_entry, position) ==
                       offsetof(struct etl__entry, reference) &&
                   offsetof(struct bench_entry, key_size) == offsetof(struct etl__entry, key_size),
               "peers sort a copy of the same index");

enum { SLOT_BITS = 28, SLOTS = 16, SCRATCH = 65536 };

struct index {
    uint8_t *arena;
    struct etl__entry *entries, *work; /* as collected; the copy that is sorted */
    struct etl__entry *scratch;
    size_t count;
    struct bench_records records;
};

static const struct bench_records *qsort_records; /* qsort has no context to pass them in */

static int qsort_compare(const void *a, const void *b) {
    return bench_entry_compare(qsort_records, a, b);
}

static void reset(void *context) {
    struct index *index = context;
    memcpy(index->work, index->entries, index->count * sizeof *index->work);
}

/* Of the order. Its terms do not wait for one another: this is timed too. */
static uint64_t checksum(const struct index *index) {
    uint64_t sum = 0, factor = 1;
    for (size_t i = 0; i < index->count; i++, factor += 0x9E3779B97F4A7C16u)
        sum += (index->work[i].reference + factor) * factor;
    return sum;
}

static void sort_libetl(struct index *index) {
    const uint8_t *bases[SLOTS];
    for (size_t i = 0; i < SLOTS; i++)
        bases[i] = index->arena + (i << SLOT_BITS);
    struct etl__sort sort = {
        .slots = {bases, SLOT_BITS}, .scratch = index->scratch, .scratch_count = SCRATCH};
    bench_check(etl__sort_index(&sort, index->work, index->count), "etl__sort_index", NULL);
}

static uint64_t run_libetl(void *context) {
    sort_libetl(context);
    return checksum(context);
}

static uint64_t run_qsort(void *context) {
    struct index *index = context;
    qsort_records = &index->records;
    qsort(index->work, index->count, sizeof *index->work, qsort_compare);
    return checksum(index);
}

#if defined(LIBETL_BENCH_STD_SORT)
static uint64_t run_std_sort(void *context) {
    struct index *index = context;
    std_sort(&index->records, (struct bench_entry *)(void *)index->work, index->count);
    return checksum(index);
}
#endif

/* Collect a workload's pairs, data_size bytes of them. */
static void collect(struct index *index, char letter, uint64_t data_size) {
    uint64_t most = workload_pairs(letter, data_size) * 5 / 4 + 16;
    index->arena = bench_alloc((size_t)(data_size + most * 8));
    index->entries = bench_alloc((size_t)most * sizeof *index->entries);
    index->work = bench_alloc((size_t)most * sizeof *index->work);
    index->scratch = bench_alloc(SCRATCH * sizeof *index->scratch);
    index->count = 0;
    struct workload *workload = workload_open(letter, 1, data_size);
    uint8_t *at = index->arena;
    uint64_t size = 0;
    while (size < data_size && index->count < most) {
        struct workload_pair pair;
        workload_next(workload, &pair);
        size += pair.key_size + pair.value_size;
        index->entries[index->count++] =
            (struct etl__entry){etl__key_prefix(pair.key, pair.key_size),
                                (uint32_t)(at - index->arena), (uint32_t)pair.key_size};
        uint8_t *key =
            etl__record_write_head(at, pair.key_size, etl__value_code(false, pair.value_size));
        index->records = (struct bench_records){index->arena, (size_t)(key - at)};
        memcpy(key, pair.key, pair.key_size);
        memcpy(key + pair.key_size, pair.value, pair.value_size);
        at = key + pair.key_size + pair.value_size;
    }
    workload_close(workload);
}

static void reverse(struct index *index) {
    for (size_t i = 0, j = index->count - 1; i < j; i++, j--) {
        struct etl__entry entry = index->entries[i];
        index->entries[i] = index->entries[j];
        index->entries[j] = entry;
    }
}

static void compare(struct bench *bench, const char *set, char letter, bool backwards,
                    uint64_t data_size) {
    struct index index;
    collect(&index, letter, data_size);
    if (backwards)
        reverse(&index);
    reset(&index);
    uint64_t expected = run_qsort(&index);
    struct bench_case cases[] = {
        {.name = "libetl", .run = run_libetl, .compared_with = "qsort"},
        {.name = "qsort", .run = run_qsort},
#if defined(LIBETL_BENCH_STD_SORT)
        {.name = "std::sort", .run = run_std_sort, .compared_with = "qsort"},
#endif
    };
    enum { CASES = sizeof cases / sizeof cases[0] };
    for (size_t i = 0; i < CASES; i++) {
        cases[i].prepare = reset;
        cases[i].context = &index;
        cases[i].expected = expected;
        cases[i].work = (double)index.count;
        cases[i].unit = "ns/pair";
    }
    bench_compare(bench, set, cases, CASES);
    free(index.arena);
    free(index.entries);
    free(index.work);
    free(index.scratch);
}

int main(int argc, char **argv) {
    struct bench bench;
    uint64_t data_size = 0;
    const char *letters = "ABCDUER";
    const struct bench_flag flags[] = {
        {"size", "bytes of keys and values (default: 256M; quick: 4M)", &data_size, NULL},
        {"workloads", "of A B C D U, E (sorted) and R (reverse); default: all", NULL, &letters},
    };
    bench_start(&bench, "bench_sort", argc, argv, flags, sizeof flags / sizeof flags[0]);
    if (data_size == 0)
        data_size = (uint64_t)(bench.quick ? 4 : 256) << 20;
    if (data_size > (uint64_t)2 << 30) {
        fputs("bench_sort: at most 2G, as much as references reach\n", stderr);
        return 2;
    }
    for (const char *letter = letters; *letter != '\0'; letter++) {
        bool backwards = *letter == 'R';
        char set[2] = {*letter, '\0'};
        compare(&bench,
                backwards        ? "reverse"
                : *letter == 'E' ? "sorted"
                                 : set,
                backwards ? 'E' : *letter, backwards, data_size);
    }
    return bench_end(&bench);
}
