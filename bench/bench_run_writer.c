/* bench_run_writer.c: writing records with their checksums into a run: to /dev/null, so that only
 * the writer's own work is timed, and to a file.
 *
 * Compared with the least that has to be done: memcpy of head, key and value into one buffer, and
 * CRC-32C over it while it is in the cache (and, for files, the same writes). The writer's ratio
 * is at most 1.25 where it reaches 0.8 of that speed.
 *
 * The writer makes its own files. So that it can be led to /dev/null, it is compiled into this
 * program, with the calls that make files and reserve disk replaced. */
#include "bench.h"
#include "os.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

static bool to_null;

static int choose_file(const char *directory, const char *label, int *descriptor) {
    if (!to_null)
        return etl__os_temp_open(directory, label, descriptor);
    *descriptor = open("/dev/null", O_RDWR | O_CLOEXEC);
    return *descriptor < 0 ? errno : 0;
}

static int choose_reserve(int descriptor, uint64_t offset, uint64_t size) {
    return to_null ? 0 : etl__os_allocate(descriptor, offset, size);
}

#define etl__os_temp_open choose_file
#define etl__os_allocate  choose_reserve
#include "run_writer.c"
#include "provider_file.h"
#undef etl__os_temp_open
#undef etl__os_allocate

enum { WRITE_BUFFER = 256 << 10, KEY_MOST = 64, VALUE_MOST = 16384 };

struct records {
    struct bench *bench;
    size_t key_size, value_size, record_size;
    uint64_t count;
    uint8_t key[KEY_MOST], value[VALUE_MOST];

    struct etl__memory memory;
    struct etl__disk disk;
    struct etl__run_writer *writer;
    struct etl__run *run; /* the last one written to a file */
    struct etl__error error;

    uint8_t *buffer; /* of the least */
    int descriptor;
};

static void check(struct records *r, int status) {
    if (status != ETL_OK)
        bench_check(status, "run writer", r->error.text);
}

static void next_pair(struct records *r, uint64_t i) {
    const struct bench_shape shape = {BENCH_SORTED, r->count, r->key_size, r->value_size};
    bench_pair(&shape, i, r->key, r->value);
}

static void append_all(struct records *r) {
    check(r, etl__run_writer_open(r->writer, r->bench->scratch, "bench", r->count * r->record_size,
                                  &r->error));
    const struct etl__pair pair = {r->key, r->value, (uint32_t)r->key_size,
                                   (uint32_t)r->value_size};
    for (uint64_t i = 0; i < r->count; i++) {
        next_pair(r, i);
        int status = etl__run_writer_append(r->writer, &pair, &r->error);
        if (status != ETL_OK)
            check(r, status);
    }
}

/* A device cannot be read back: the run is dropped once all its pairs are in. */
static uint64_t writer_to_null(void *context) {
    struct records *r = context;
    uint64_t before = etl__run_writer_written(r->writer);
    append_all(r);
    uint64_t size = r->count * r->record_size;
    uint64_t written = etl__run_writer_written(r->writer) - before;
    etl__run_writer_abandon(r->writer);
    return written + 2 * WRITE_BUFFER + size / 1024 >= size ? r->count : 0;
}

static uint64_t writer_to_file(void *context) {
    struct records *r = context;
    append_all(r);
    check(r, etl__run_writer_close(r->writer, ETL_ACCESS_MMAP, &r->run, &r->error));
    return r->run->footer.pairs;
}

static void drop_files(void *context) {
    struct records *r = context;
    if (r->run != NULL) {
        uint64_t size = r->run->file_size;
        etl__run_close(r->run, &r->memory);
        etl__disk_give(&r->disk, size);
        r->run = NULL;
    }
    if (r->descriptor >= 0)
        close(r->descriptor);
    r->descriptor = -1;
}

static void new_file(void *context) {
    drop_files(context);
    to_null = false;
}

static void use_null(void *context) {
    drop_files(context);
    to_null = true;
}

/* ---- The least. */

static void put_buffer(const struct records *r, size_t size, uint64_t offset) {
    if (r->descriptor >= 0 &&
        pwrite(r->descriptor, r->buffer, size, (off_t)offset) != (ssize_t)size)
        bench_check(ETL_E_IO, "pwrite", NULL);
}

static uint64_t copy_and_check(struct records *r) {
    uint64_t offset = 0;
    uint32_t crc = 0;
    size_t used = 0;
    uint64_t code = etl__value_code(false, r->value_size);
    for (uint64_t i = 0; i < r->count; i++) {
        if (WRITE_BUFFER - used < r->record_size) {
            crc = etl__crc32c(crc, r->buffer, used);
            put_buffer(r, used, offset);
            offset += used;
            used = 0;
        }
        next_pair(r, i);
        uint8_t *at = etl__record_write_head(r->buffer + used, r->key_size, code);
        memcpy(at, r->key, r->key_size);
        memcpy(at + r->key_size, r->value, r->value_size);
        used += r->record_size;
    }
    crc = etl__crc32c(crc, r->buffer, used);
    put_buffer(r, used, offset);
    return crc;
}

static uint64_t least_to_null(void *context) {
    return copy_and_check(context);
}

static uint64_t least_to_file(void *context) {
    struct records *r = context;
    r->descriptor = bench_scratch_file(r->bench);
    (void)etl__os_allocate(r->descriptor, 0, r->count * r->record_size);
    return copy_and_check(r);
}

/* The same checksum, record by record, by the portable implementation. */
static uint64_t expected_checksum(struct records *r) {
    uint32_t crc = 0;
    uint8_t head[2 * ETL__VARINT_MAX];
    uint64_t code = etl__value_code(false, r->value_size);
    size_t head_size = etl__record_head_size(r->key_size, code);
    for (uint64_t i = 0; i < r->count; i++) {
        next_pair(r, i);
        etl__record_write_head(head, r->key_size, code);
        crc = etl__crc32c_portable(crc, head, head_size);
        crc = etl__crc32c_portable(crc, r->key, r->key_size);
        crc = etl__crc32c_portable(crc, r->value, r->value_size);
    }
    return crc;
}

/* The file reads back as what was written, and a run after the first allocates nothing but what
 * opening the finished one for reading takes. */
static void check_output(const char *set, struct records *r) {
    new_file(r);
    uint64_t before = r->memory.allocations;
    append_all(r);
    uint64_t appended = r->memory.allocations;
    check(r, etl__run_writer_close(r->writer, ETL_ACCESS_MMAP, &r->run, &r->error));
    bench_figure(r->bench, set, "run writer", "allocations, open and append",
                 (double)(appended - before), "");
    bench_figure(r->bench, set, "run writer", "allocations, close",
                 (double)(r->memory.allocations - appended), "");

    struct etl__provider *provider;
    struct etl__pair pair;
    uint64_t sum = 0, expected = 0;
    check(r, etl__provider_file_open(&provider, r->run, &r->memory, WRITE_BUFFER, 1 << 20,
                                     &r->error));
    while (etl__provider_read(provider, &pair, &r->error) == ETL_OK)
        sum = bench_fold_pair(sum, etl_slice_of(pair.key, pair.key_size),
                              etl_slice_of(pair.value, pair.value_size));
    provider->close(provider);
    for (uint64_t i = 0; i < r->count; i++) {
        next_pair(r, i);
        expected = bench_fold_pair(expected, etl_slice_of(r->key, r->key_size),
                                   etl_slice_of(r->value, r->value_size));
    }
    if (sum != expected)
        bench_wrong(r->bench, set, "output", sum, expected);
    drop_files(r);
}

static void compare(struct bench *bench, size_t key_size, size_t value_size, uint64_t size) {
    struct records *r = bench_alloc(sizeof *r);
    r->bench = bench;
    r->key_size = key_size;
    r->value_size = value_size;
    r->record_size = etl__record_head_size(key_size, etl__value_code(false, value_size)) +
                     key_size + value_size;
    r->count = size / r->record_size;
    r->buffer = bench_alloc(WRITE_BUFFER);
    r->descriptor = -1;
    etl__memory_init(&r->memory, &(etl_allocator){NULL, NULL}, SIZE_MAX);
    check(r,
          etl__run_writer_create(&r->writer, &r->memory, &r->disk, WRITE_BUFFER, NULL, &r->error));
    uint64_t crc = expected_checksum(r);
    struct bench_case cases[] = {
        {.name = "/dev/null, run writer",
         .prepare = use_null,
         .run = writer_to_null,
         .expected = r->count,
         .compared_with = "/dev/null, memcpy + CRC"},
        {.name = "/dev/null, memcpy + CRC",
         .prepare = use_null,
         .run = least_to_null,
         .expected = crc},
        {.name = "file, run writer",
         .prepare = new_file,
         .run = writer_to_file,
         .expected = r->count,
         .compared_with = "file, memcpy + CRC"},
        {.name = "file, memcpy + CRC", .prepare = new_file, .run = least_to_file, .expected = crc},
    };
    size_t count = sizeof cases / sizeof cases[0];
    for (size_t i = 0; i < count; i++) {
        cases[i].context = r;
        cases[i].work = (double)r->count;
        cases[i].unit = "ns/pair";
    }
    char set[64];
    snprintf(set, sizeof set, "%zu + %zu, %llu pairs", key_size, value_size,
             (unsigned long long)r->count);
    bench_compare(bench, set, cases, count);
    check_output(set, r);
    etl__run_writer_destroy(r->writer);
    etl__memory_end(&r->memory);
    free(r->buffer);
    free(r);
}

int main(int argc, char **argv) {
    struct bench bench;
    bench_start(&bench, "bench_run_writer", argc, argv, NULL, 0);
    uint64_t size = (uint64_t)(bench.quick ? 4 : 64) << 20;
    bench.set_seconds *= 4;
    compare(&bench, 32, 64, size);
    compare(&bench, 32, 10000, size);
    return bench_end(&bench);
}
