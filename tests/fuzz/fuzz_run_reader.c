/* fuzz_run_reader.c: bytes as a run file, read in every way that the library has, beside a naive
 * reference.
 *
 * The first byte chooses what the others are:
 *   0  the file, as it is
 *   1  the file, with all checksums made right: what is behind them is reached
 *   2  records to make a file of, by size and key, and patches to it before it is sealed: so that
 *      a short input makes many blocks, and files that are almost right
 * The rest of that byte are flags of the third kind.
 *
 * Whatever the bytes are: a whole run gives its pairs, and seeks, bounds and samples are right; any
 * other gives ETL_E_CORRUPT after at most the pairs that stand before the damage; and memory is
 * taken only for what the file has. */
#include "fuzz.h"
#include "key.h"
#include "merge.h"
#include "provider_file.h"
#include "run_reference.h"

#include <string.h>

enum { MOST_FILE = 1 << 17, SORTED = 4, LARGE_VALUES = 8, PROBES = 6 };

static struct etl__memory memory;
static struct etl__error failure;

/* ---- A file */

struct file {
    uint8_t bytes[MOST_FILE];
    size_t size;
};

struct described {
    const uint8_t *key;
    size_t key_size, value_size;
    bool nil;
};

static int compare_described(const void *a, const void *b) {
    const struct described *x = a, *y = b;
    return etl__key_compare(x->key, x->key_size, y->key, y->key_size);
}

static size_t take_records(struct fuzz_input *input, struct described *records, size_t most,
                           unsigned flags) {
    size_t count = 0;
    for (; fuzz_left(input) != 0 && count < most; count++) {
        struct described *record = &records[count];
        unsigned sizes = fuzz_byte(input);
        record->key_size = sizes & 15;
        record->key = fuzz_bytes(input, &record->key_size);
        record->value_size = sizes >> 5;
        record->nil = (sizes & 16) != 0;
        if ((flags & LARGE_VALUES) != 0 && !record->nil)
            record->value_size = fuzz_byte(input) << (sizes >> 5);
    }
    if ((flags & SORTED) != 0)
        qsort(records, count, sizeof *records, compare_described);
    return count;
}

/* Records, a table and a footer as a writer makes them; checksums are still to be sealed. */
static void make_file(struct file *file, const struct described *records, size_t count) {
    enum { RESERVED = ETL__RUN_FOOTER_SIZE + MOST_FILE / ETL__RUN_BLOCK * 8 };
    struct etl__run_footer footer = {.first_record = ETL__RUN_HEADER_SIZE, .record_most = 300};
    uint8_t *bytes = file->bytes, firsts[MOST_FILE / ETL__RUN_BLOCK][4];
    size_t at = ETL__RUN_HEADER_SIZE;
    etl__run_header_encode(bytes);
    memset(firsts, 0xFF, sizeof firsts);
    for (size_t i = 0; i < count; i++) {
        const struct described *record = &records[i];
        size_t value_size = record->nil ? 0 : record->value_size;
        if (at + 20 + record->key_size + value_size > MOST_FILE - RESERVED)
            break;
        uint8_t *first = firsts[at / ETL__RUN_BLOCK];
        if (etl__get_u32(first) == ETL__NO_RECORD)
            etl__put_u32(first, (uint32_t)(at % ETL__RUN_BLOCK));
        footer.last_record = at;
        uint8_t *to = etl__record_write_head(bytes + at, record->key_size,
                                             etl__value_code(record->nil, value_size));
        if (record->key_size != 0)
            memcpy(to, record->key, record->key_size);
        memset(to + record->key_size, (int)i, value_size);
        at = (size_t)(to - bytes) + record->key_size + value_size;
        footer.pairs++;
        footer.key_bytes += record->key_size;
        footer.value_bytes += value_size;
    }
    if (footer.pairs == 0)
        footer.last_record = at;
    footer.data_end = at;
    footer.blocks = (at + ETL__RUN_BLOCK - 1) / ETL__RUN_BLOCK;
    for (size_t i = 0; i < footer.blocks; i++, at += 8)
        memcpy(bytes + at + 4, firsts[i], 4);
    etl__run_footer_encode(bytes + at, &footer);
    file->size = at + ETL__RUN_FOOTER_SIZE;
}

/* One patch: three bytes. What: a field of the footer, an entry of the table, or any byte. */
static void patch(struct file *file, uint64_t data_end, const uint8_t *with) {
    unsigned what = with[0];
    uint64_t value = (uint64_t)with[2] << (with[1] & 63);
    uint8_t *footer = file->bytes + file->size - ETL__RUN_FOOTER_SIZE;
    if (what < 64) {
        uint8_t *field = footer + 8 + 8 * (what % 9);
        etl__put_u64(field, (what & 32) != 0 ? value : etl__get_u64(field) ^ value);
    } else if (what < 128) {
        size_t blocks = ((size_t)(footer - file->bytes) - (size_t)data_end) / 8;
        uint8_t *first = file->bytes + data_end + what % blocks * 8 + 4;
        etl__put_u32(first, etl__get_u32(first) ^ (uint32_t)value);
    } else {
        file->bytes[(((what & 127u) << 8) + with[1]) % file->size] = with[2];
    }
}

static void make_patched(struct file *file, struct fuzz_input *input, unsigned flags) {
    enum { MOST_RECORDS = 1024 };
    static struct described records[MOST_RECORDS];
    size_t patches = 3 * (flags >> 4 & 7);
    const uint8_t *with = fuzz_bytes(input, &patches);
    make_file(file, records, take_records(input, records, MOST_RECORDS, flags));
    uint64_t data_end = etl__get_u64(file->bytes + file->size - ETL__RUN_FOOTER_SIZE + 8);
    reference_seal(file->bytes, file->size); /* what patches leave alone is right */
    for (size_t i = 0; i + 3 <= patches; i += 3)
        patch(file, data_end, with + i);
    if ((flags & 128) == 0)
        reference_seal(file->bytes, file->size);
}

static void make(struct file *file, struct fuzz_input *input) {
    unsigned flags = fuzz_byte(input), kind = flags & 3;
    if (kind >= 2) {
        make_patched(file, input, flags);
        return;
    }
    file->size = MOST_FILE;
    const uint8_t *bytes = fuzz_bytes(input, &file->size);
    if (file->size != 0)
        memcpy(file->bytes, bytes, file->size);
    if (kind == 1)
        reference_seal(file->bytes, file->size);
}

/* ---- Reading it */

static struct etl__run *open_run(const struct file *file, etl_access access) {
    static int descriptor = -1;
    struct etl__run *run;
    if (descriptor < 0)
        FUZZ_CHECK(etl__os_temp_open(fuzz_directory(), "fuzz", &descriptor) == 0);
    FUZZ_CHECK(etl__os_truncate(descriptor, file->size) == 0);
    FUZZ_CHECK(etl__os_write(descriptor, file->bytes, file->size, 0) == 0);
    int status = etl__run_open(&run, &memory, dup(descriptor), access, "there", &failure);
    FUZZ_CHECK(status == ETL_OK || (status == ETL_E_CORRUPT && run == NULL));
    FUZZ_CHECK(status == ETL_OK || strstr(failure.text, "offset") != NULL);
    return run;
}

static bool same(const struct etl__pair *a, const struct etl__pair *b) {
    return a->key_size == b->key_size && a->value_size == b->value_size &&
           (a->value == NULL) == (b->value == NULL) && a->key != NULL &&
           memcmp(a->key, b->key, a->key_size) == 0 &&
           (a->value == NULL || memcmp(a->value, b->value, a->value_size) == 0);
}

/* A pair stays valid while the next one is read. */
static void read_all(struct etl__provider *provider, const struct reference *reference) {
    struct etl__pair pair, before;
    size_t count = 0;
    int status;
    while ((status = etl__provider_read(provider, &pair, &failure)) == ETL_OK) {
        FUZZ_CHECK(count < reference->count);
        FUZZ_CHECK(same(&pair, &reference->pairs[count]));
        FUZZ_CHECK(count == 0 || same(&before, &reference->pairs[count - 1]));
        before = pair;
        count++;
    }
    FUZZ_CHECK(status == ETL_E_CORRUPT || (status == ETL_END && reference->reads_to_end));
    FUZZ_CHECK(status == ETL_END || !reference->reads_to_end);
    FUZZ_CHECK(status != ETL_END || count == reference->count);
}

static size_t lower_bound(const struct reference *reference, const uint8_t *key, size_t size) {
    size_t i = 0;
    while (i < reference->count &&
           etl__key_compare(reference->pairs[i].key, reference->pairs[i].key_size, key, size) < 0)
        i++;
    return i;
}

static void seek(struct etl__provider *provider, const struct reference *reference,
                 const uint8_t *key, size_t size) {
    struct etl__pair pair;
    int status = provider->seek(provider, key, size, &failure);
    FUZZ_CHECK(status == ETL_OK || (status == ETL_E_CORRUPT && !reference->whole));
    size_t at = lower_bound(reference, key, size);
    for (int i = 0; i < 3; i++, at++) {
        status = etl__provider_read(provider, &pair, &failure);
        FUZZ_CHECK(status == ETL_OK || status == ETL_END || status == ETL_E_CORRUPT);
        if (reference->whole) {
            FUZZ_CHECK(status == (at < reference->count ? ETL_OK : ETL_END));
            FUZZ_CHECK(status == ETL_END || same(&pair, &reference->pairs[at]));
        }
        if (status != ETL_OK)
            return;
        FUZZ_CHECK(same(&pair, &pair)); /* all of it can be read */
    }
}

/* The keys of some pairs, and what comes right before and behind them. */
static void seek_around(struct etl__provider *provider, const struct reference *reference) {
    uint8_t key[256];
    size_t step = reference->count / PROBES + 1;
    for (size_t i = 0; i < reference->count; i += step) {
        const struct etl__pair *pair = &reference->pairs[i * 7 % reference->count];
        size_t size = pair->key_size < sizeof key - 1 ? pair->key_size : sizeof key - 1;
        memcpy(key, pair->key, size);
        key[size] = 0;
        seek(provider, reference, key, size + i % 2);
        if (size != 0)
            seek(provider, reference, key, size - 1);
    }
    memset(key, 255, sizeof key);
    seek(provider, reference, key, sizeof key);
    seek(provider, reference, key, 0);
}

static void check_key(const struct reference *reference, int status, etl_slice key, size_t at) {
    FUZZ_CHECK(status == ETL_OK || status == ETL_END || status == ETL_E_CORRUPT);
    if (!reference->whole)
        return;
    FUZZ_CHECK(status == (reference->count != 0 ? ETL_OK : ETL_END));
    if (status == ETL_OK && at < reference->count)
        FUZZ_CHECK(key.size == reference->pairs[at].key_size &&
                   memcmp(key.data, reference->pairs[at].key, key.size) == 0);
}

static void bounds_and_samples(struct etl__provider *provider, const struct reference *reference) {
    etl_slice first = {NULL, 0}, last = {NULL, 0}, key = {NULL, 0};
    int status = provider->bounds(provider, &first, &last, &failure);
    check_key(reference, status, first, 0);
    check_key(reference, status, last, reference->count != 0 ? reference->count - 1 : 0);
    for (uint64_t part = 0; part < 5; part++) {
        status = provider->sample(provider, part, 5, &key, &failure);
        check_key(reference, status, key, SIZE_MAX);
        if (reference->whole && status == ETL_OK) {
            size_t at = lower_bound(reference, key.data, key.size);
            FUZZ_CHECK(at < reference->count);
            check_key(reference, status, key, at);
        }
    }
}

/* Over one provider, or over two of the same run: then each pair comes twice. */
static void merge(struct etl__provider **providers, size_t count,
                  const struct reference *reference) {
    struct etl__merge merge;
    const struct etl__pair *pair;
    size_t at = 0;
    int status = etl__merge_open(&merge, &memory, providers, count, false, NULL, &failure);
    FUZZ_CHECK(status == ETL_OK || (status == ETL_E_CORRUPT && !reference->whole));
    if (status != ETL_OK)
        return;
    while ((status = etl__merge_next(&merge, &pair, &failure)) == ETL_OK) {
        FUZZ_CHECK(at < count * reference->count);
        if (count == 1)
            FUZZ_CHECK(same(pair, &reference->pairs[at]));
        else if (reference->whole)
            FUZZ_CHECK(etl__key_compare(pair->key, pair->key_size, reference->pairs[at / 2].key,
                                        reference->pairs[at / 2].key_size) == 0);
        at++;
    }
    FUZZ_CHECK(status == ETL_E_CORRUPT || (status == ETL_END && reference->counted));
    FUZZ_CHECK(status == ETL_END || !reference->whole);
    FUZZ_CHECK(status == ETL_E_CORRUPT || at == count * reference->count);
    etl__merge_close(&merge);
}

static struct etl__provider *open_provider(const struct etl__run *run) {
    struct etl__provider *provider;
    FUZZ_CHECK(etl__provider_file_open(&provider, run, &memory, 1, 1, &failure) == ETL_OK);
    return provider;
}

static void use(const struct etl__run *run, const struct reference *reference) {
    struct etl__provider *provider = open_provider(run), *both[2];
    read_all(provider, reference);
    seek_around(provider, reference);
    bounds_and_samples(provider, reference);
    provider->close(provider);
    provider = open_provider(run);
    bounds_and_samples(provider, reference);
    read_all(provider, reference);
    provider->close(provider);
    both[0] = open_provider(run);
    merge(both, 1, reference);
    both[0] = open_provider(run);
    both[1] = open_provider(run);
    merge(both, 2, reference);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const etl_allocator none;
    static struct file file;
    struct fuzz_input input = {data, data + size};
    struct reference reference;
    make(&file, &input);
    reference_read(&reference, file.bytes, file.size);
    for (int access = ETL_ACCESS_MMAP; access <= ETL_ACCESS_READ; access++) {
        etl__memory_init(&memory, &none, SIZE_MAX);
        struct etl__run *run = open_run(&file, (etl_access)access);
        FUZZ_CHECK(run == NULL || reference.may_open);
        FUZZ_CHECK(run != NULL || !reference.whole);
        if (run != NULL) {
            use(run, &reference);
            etl__run_close(run, &memory);
        }
        /* Two providers: structs, buffers of two blocks, records as large as the file. */
        FUZZ_CHECK(memory.peak <= 10 * file.size + 24 * (size_t)ETL__RUN_BLOCK);
        FUZZ_CHECK(memory.used == memory.kept_bytes);
        etl__memory_end(&memory);
        FUZZ_CHECK(memory.used == 0);
    }
    reference_free(&reference);
    return 0;
}
