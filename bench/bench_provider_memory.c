/* bench_provider_memory.c: 10,000 pairs of a sorted buffer, read end to end: by reference, as the
 * in-memory provider hands them out, and copied into a reused buffer, as it would be done without
 * slices into the arena.
 *
 * The consumer looks at the sizes and at the first byte of the key and of the value's place, so
 * that what is timed is the provider. `sorted input` has no index, its records are read as they
 * lie; `shuffled input` goes through the index. */
#include "bench.h"
#include "provider_memory.h"

enum { PAIRS = 10000, KEY_MOST = 64, VALUE_MOST = 1024 };

struct source {
    struct etl__buffer buffer;
    size_t key_size, value_size;
    uint8_t copy[KEY_MOST + VALUE_MOST];
};

struct reading {
    struct etl__memory memory;
    struct etl__arena arena;
    struct etl__error error;
};

static struct reading reading;

static void check(int status) {
    if (status != ETL_OK)
        bench_check(status, "provider", reading.error.text);
}

static void append(struct source *source, uint64_t number) {
    uint8_t key[KEY_MOST] = {0}, value[VALUE_MOST] = {0};
    const struct bench_shape shape = {BENCH_SORTED, PAIRS, source->key_size, source->value_size};
    bench_pair(&shape, number, key, value);
    struct etl__buffer *buffer = &source->buffer;
    uint64_t code = etl__value_code(false, source->value_size);
    size_t size =
        etl__record_head_size(source->key_size, code) + source->key_size + source->value_size;
    if ((size_t)(buffer->end - buffer->at) < size)
        bench_check(etl__buffer_extend(buffer, size), "buffer", NULL);
    uint8_t *at = etl__buffer_place(buffer, source->key_size, code, source->value_size);
    memcpy(at, key, source->key_size);
    memcpy(at + source->key_size, value, source->value_size);
    etl__buffer_commit(buffer, at, source->key_size);
}

/* 7919 is a prime that does not divide PAIRS: every number once, out of order. */
static void fill(struct source *source, bool shuffled) {
    static struct etl__entry scratch[65536];
    etl__buffer_init(&source->buffer, &reading.arena, (size_t)64 << 20, false);
    for (uint64_t i = 0; i < PAIRS; i++)
        append(source, shuffled ? i * 7919 % PAIRS : i);
    const struct etl__sort sort = {.scratch = scratch, .scratch_count = 65536};
    check(etl__buffer_seal(&source->buffer, &sort, &reading.error));
}

static struct etl__provider *open_provider(struct source *source) {
    struct etl__provider *provider;
    check(etl__provider_memory_open(&provider, &source->buffer, &reading.memory, &reading.error));
    return provider;
}

static uint64_t by_reference(void *context) {
    struct etl__provider *provider = open_provider(context);
    struct etl__pair pair;
    uint64_t sum = 0;
    int status;
    while ((status = etl__provider_read(provider, &pair, &reading.error)) == ETL_OK)
        sum += pair.key[0] + (uint64_t)pair.key_size + pair.value_size + (pair.value != NULL);
    check(status == ETL_END ? ETL_OK : status);
    provider->close(provider);
    return sum;
}

static uint64_t copied(void *context) {
    struct source *source = context;
    struct etl__provider *provider = open_provider(source);
    struct etl__pair pair;
    uint64_t sum = 0;
    int status;
    while ((status = etl__provider_read(provider, &pair, &reading.error)) == ETL_OK) {
        memcpy(source->copy, pair.key, pair.key_size);
        memcpy(source->copy + pair.key_size, pair.value, pair.value_size);
        __asm__ volatile("" : : "r"(source->copy) : "memory");
        sum += source->copy[0] + (uint64_t)pair.key_size + pair.value_size + (pair.value != NULL);
    }
    check(status == ETL_END ? ETL_OK : status);
    provider->close(provider);
    return sum;
}

/* Every byte, against pairs made anew. */
static void check_output(struct bench *bench, const char *set, struct source *source) {
    struct bench_sorted sorted;
    const struct bench_shape shape = {BENCH_SORTED, PAIRS, source->key_size, source->value_size};
    bench_sorted_make(&sorted, &shape, false);
    struct etl__provider *provider = open_provider(source);
    struct etl__pair pair;
    uint64_t sum = 0;
    while (etl__provider_read(provider, &pair, &reading.error) == ETL_OK)
        sum = bench_fold_pair(sum, etl_slice_of(pair.key, pair.key_size),
                              etl_slice_of(pair.value, pair.value_size));
    provider->close(provider);
    if (sum != sorted.sum)
        bench_wrong(bench, set, "output", sum, sorted.sum);
    bench_sorted_free(&sorted);
}

static void compare(struct bench *bench, size_t key_size, size_t value_size) {
    struct source *sorted = bench_alloc(sizeof *sorted), *shuffled = bench_alloc(sizeof *shuffled);
    sorted->key_size = shuffled->key_size = key_size;
    sorted->value_size = shuffled->value_size = value_size;
    fill(sorted, false);
    fill(shuffled, true);
    struct bench_case cases[] = {
        {.name = "sorted, by reference",
         .run = by_reference,
         .context = sorted,
         .compared_with = "sorted, copied"},
        {.name = "sorted, copied",
         .run = copied,
         .context = sorted,
         .compared_with = "sorted, by reference"},
        {.name = "shuffled, by reference",
         .run = by_reference,
         .context = shuffled,
         .compared_with = "shuffled, copied"},
        {.name = "shuffled, copied",
         .run = copied,
         .context = shuffled,
         .compared_with = "shuffled, by reference"},
    };
    /* the first byte of every key is 0 */
    uint64_t expected = (uint64_t)PAIRS * (key_size + value_size + 1);
    size_t count = sizeof cases / sizeof cases[0];
    for (size_t i = 0; i < count; i++) {
        cases[i].expected = expected;
        cases[i].work = PAIRS;
        cases[i].unit = "ns/pair";
    }
    char set[64];
    snprintf(set, sizeof set, "%zu + %zu", key_size, value_size);
    bench_compare(bench, set, cases, count);
    check_output(bench, set, sorted);
    check_output(bench, set, shuffled);
    etl__buffer_end(&sorted->buffer);
    etl__buffer_end(&shuffled->buffer);
    free(sorted);
    free(shuffled);
}

int main(int argc, char **argv) {
    struct bench bench;
    bench_start(&bench, "bench_provider_memory", argc, argv, NULL, 0);
    bench.set_seconds /= 2; /* twelve sets of short runs */
    etl__memory_init(&reading.memory, &(etl_allocator){NULL, NULL}, SIZE_MAX);
    etl__arena_init(&reading.arena, &reading.memory);
    const size_t keys[] = {20, 32, 64}, values[] = {32, 128, 256, VALUE_MOST};
    for (size_t k = 0; k < 3; k++)
        for (size_t v = 0; v < 4; v++)
            compare(&bench, keys[k], values[v]);
    etl__arena_end(&reading.arena);
    etl__memory_end(&reading.memory);
    return bench_end(&bench);
}
