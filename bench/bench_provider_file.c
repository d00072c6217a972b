/* bench_provider_file.c: reading a run end to end through a mapping and through buffered reads,
 * every block checked against its CRC-32C in both.
 *
 * The consumer looks at sizes and at the first byte of each key: what is timed is the provider,
 * which reads every byte for its checksum. Files are in the page cache. What a pass allocates is
 * the library's own count: on opening, and while reading.
 *
 * Last, a sequential read of one file against pread(2) alone, and against pread and the checksum,
 * which is the least that a checking reader can do. */
#include "bench.h"
#include "crc32c.h"
#include "provider_file.h"
#include "run_writer.h"

#include <unistd.h>

enum { BUFFER = 256 << 10, RELEASE_STEP = 1 << 20, VALUE_MOST = 4096, CHUNK = 64 << 10 };

struct reading {
    struct bench *bench;
    struct etl__memory memory;
    struct etl__disk disk;
    struct etl__run_writer *writer;
    struct etl__error error;
};

static struct reading reading;

struct source {
    struct etl__run *run;
    uint64_t sum; /* of all bytes that were written */
};

static void check(int status) {
    if (status != ETL_OK)
        bench_check(status, "run", reading.error.text);
}

static void write_run(struct source *source, const struct bench_shape *shape, etl_access access) {
    uint8_t key[64] = {0}, value[VALUE_MOST] = {0};
    uint64_t expected = shape->pairs * (shape->key_size + shape->value_size + 3);
    source->sum = 0;
    check(etl__run_writer_open(reading.writer, reading.bench->scratch, "bench", expected,
                               &reading.error));
    for (uint64_t i = 0; i < shape->pairs; i++) {
        bench_pair(shape, i, key, value);
        const struct etl__pair pair = {key, value, (uint32_t)shape->key_size,
                                       (uint32_t)shape->value_size};
        check(etl__run_writer_append(reading.writer, &pair, &reading.error));
        source->sum = bench_fold_pair(source->sum, etl_slice_of(key, shape->key_size),
                                      etl_slice_of(value, shape->value_size));
    }
    check(etl__run_writer_close(reading.writer, access, &source->run, &reading.error));
}

static struct etl__provider *open_provider(struct source *source) {
    struct etl__provider *provider;
    check(etl__provider_file_open(&provider, source->run, &reading.memory, BUFFER, RELEASE_STEP,
                                  &reading.error));
    return provider;
}

static uint64_t read_all(struct etl__provider *provider) {
    struct etl__pair pair;
    uint64_t sum = 0;
    int status;
    while ((status = etl__provider_read(provider, &pair, &reading.error)) == ETL_OK)
        sum += pair.key[0] + (uint64_t)pair.key_size + pair.value_size;
    check(status == ETL_END ? ETL_OK : status);
    return sum;
}

static uint64_t run_pass(void *context) {
    struct etl__provider *provider = open_provider(context);
    uint64_t sum = read_all(provider);
    provider->close(provider);
    return sum;
}

static void check_output(const char *set, struct source *source) {
    struct etl__provider *provider = open_provider(source);
    struct etl__pair pair;
    uint64_t sum = 0;
    while (etl__provider_read(provider, &pair, &reading.error) == ETL_OK)
        sum = bench_fold_pair(sum, etl_slice_of(pair.key, pair.key_size),
                              etl_slice_of(pair.value, pair.value_size));
    provider->close(provider);
    if (sum != source->sum)
        bench_wrong(reading.bench, set, "output", sum, source->sum);
}

static void count_allocations(const char *set, const char *name, struct source *source) {
    uint64_t used = reading.memory.used, before = reading.memory.allocations;
    struct etl__provider *provider = open_provider(source);
    uint64_t opened = reading.memory.allocations, held = reading.memory.used;
    read_all(provider);
    uint64_t after = reading.memory.allocations;
    provider->close(provider);
    bench_figure(reading.bench, set, name, "allocated on opening", (double)(held - used), "bytes");
    bench_figure(reading.bench, set, name, "allocations on opening", (double)(opened - before),
                 "");
    bench_figure(reading.bench, set, name, "allocations while reading", (double)(after - opened),
                 "");
}

static void close_run(struct source *source) {
    uint64_t size = source->run->file_size;
    etl__run_close(source->run, &reading.memory);
    etl__disk_give(&reading.disk, size);
}

static void compare(uint64_t pairs, size_t value_size) {
    struct bench_shape shape = {BENCH_SORTED, pairs, 32, value_size};
    struct source mapped, buffered;
    write_run(&mapped, &shape, ETL_ACCESS_MMAP);
    write_run(&buffered, &shape, ETL_ACCESS_READ);
    struct bench_case cases[] = {
        {.name = "mmap", .context = &mapped, .compared_with = "buffered reads"},
        {.name = "buffered reads", .context = &buffered},
    };
    for (size_t i = 0; i < 2; i++) {
        cases[i].run = run_pass;
        /* the first byte of every key is 0 */
        cases[i].expected = pairs * (32 + value_size);
        cases[i].work = (double)pairs;
        cases[i].unit = "ns/pair";
    }
    char set[64];
    snprintf(set, sizeof set, "%llu pairs of 32 + %zu", (unsigned long long)pairs, value_size);
    bench_compare(reading.bench, set, cases, 2);
    count_allocations(set, "mmap", &mapped);
    count_allocations(set, "buffered reads", &buffered);
    check_output(set, &mapped);
    check_output(set, &buffered);
    close_run(&mapped);
    close_run(&buffered);
}

/* ---- The sequential read. */

struct plain {
    int descriptor;
    uint64_t size;
    uint8_t *chunk;
};

static uint64_t read_chunks(const struct plain *plain, bool checksum) {
    uint32_t crc = 0;
    uint64_t offset = 0;
    while (offset < plain->size) {
        ssize_t got = pread(plain->descriptor, plain->chunk, CHUNK, (off_t)offset);
        bench_check(got > 0 ? ETL_OK : ETL_E_IO, "pread", NULL);
        if (checksum)
            crc = etl__crc32c(crc, plain->chunk, (size_t)got);
        offset += (uint64_t)got;
    }
    return checksum ? crc : offset;
}

static uint64_t run_pread(void *context) {
    return read_chunks(context, false);
}

static uint64_t run_pread_checked(void *context) {
    return read_chunks(context, true);
}

static void make_plain(struct plain *plain, uint64_t size) {
    plain->descriptor = bench_scratch_file(reading.bench);
    plain->size = size;
    plain->chunk = bench_alloc(CHUNK);
    for (size_t i = 0; i < CHUNK; i++)
        plain->chunk[i] = (uint8_t)(i * 31 + i / 256);
    for (uint64_t offset = 0; offset < size; offset += CHUNK)
        bench_check(pwrite(plain->descriptor, plain->chunk, CHUNK, (off_t)offset) == CHUNK
                        ? ETL_OK
                        : ETL_E_IO,
                    "pwrite", NULL);
}

static void compare_sequential(uint64_t size) {
    struct bench_shape shape = {BENCH_SORTED, size / (32 + 1024 + 3), 32, 1024};
    struct source mapped, buffered;
    struct plain plain;
    write_run(&mapped, &shape, ETL_ACCESS_MMAP);
    write_run(&buffered, &shape, ETL_ACCESS_READ);
    make_plain(&plain, size);
    uint32_t crc = 0;
    for (uint64_t offset = 0; offset < size; offset += CHUNK)
        crc = etl__crc32c(crc, plain.chunk, CHUNK);
    uint64_t sum = shape.pairs * (32 + 1024);
    struct bench_case cases[] = {
        {.name = "mmap",
         .run = run_pass,
         .context = &mapped,
         .expected = sum,
         .compared_with = "pread and CRC-32C"},
        {.name = "buffered reads",
         .run = run_pass,
         .context = &buffered,
         .expected = sum,
         .compared_with = "pread and CRC-32C"},
        {.name = "pread and CRC-32C",
         .run = run_pread_checked,
         .context = &plain,
         .expected = crc,
         .compared_with = "pread"},
        {.name = "pread", .run = run_pread, .context = &plain, .expected = size},
    };
    size_t count = sizeof cases / sizeof cases[0];
    for (size_t i = 0; i < count; i++) {
        cases[i].work = (double)size / (1 << 20);
        cases[i].unit = "ns/MiB";
    }
    bench_compare(reading.bench,
                  reading.bench->quick ? "sequential, 8 MiB" : "sequential, 128 MiB", cases,
                  count);
    close(plain.descriptor);
    free(plain.chunk);
    close_run(&mapped);
    close_run(&buffered);
}

int main(int argc, char **argv) {
    struct bench bench;
    bench_start(&bench, "bench_provider_file", argc, argv, NULL, 0);
    reading.bench = &bench;
    etl__memory_init(&reading.memory, &(etl_allocator){NULL, NULL}, SIZE_MAX);
    check(etl__run_writer_create(&reading.writer, &reading.memory, &reading.disk, BUFFER, NULL,
                                 &reading.error));
    const size_t values[] = {32, 128, 1024};
    const uint64_t many = bench.quick ? 40000 : 2000000;
    for (size_t v = 0; v < 3; v++) {
        compare(10000, values[v]);
        compare(many, values[v]);
    }
    compare_sequential((uint64_t)(bench.quick ? 8 : 128) << 20);
    etl__run_writer_destroy(reading.writer);
    etl__memory_end(&reading.memory);
    return bench_end(&bench);
}
