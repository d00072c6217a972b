/* test_run_damage.c: a run is whole or it is ETL_E_CORRUPT. Every truncation and every flipped bit
 * of a small run, of one block and of several; then damage with all checksums made right again, where a reader may give other
 * pairs but never crashes, never reads past the data, and takes no memory that the file's size
 * does not account for. */
#include "merge.h"
#include "run_support.h"
#include <unistd.h>

struct image {
    uint8_t *bytes;
    uint64_t size;
    int descriptor; /* of a file with these bytes */
};

static struct image image_of(const struct pairs *pairs) {
    struct etl__run *run = write_run(pairs, pairs_bytes(pairs), 1 << 16, ETL_ACCESS_READ);
    struct image image = {run_bytes(run), run->file_size, -1};
    end_run(run);
    assert_int_equal(etl__os_temp_open(TEMP, "damage", &image.descriptor), 0);
    assert_int_equal(etl__os_write(image.descriptor, image.bytes, (size_t)image.size, 0), 0);
    return image;
}

static void image_free(struct image *image) {
    etl__os_close(image->descriptor);
    free(image->bytes);
}

static int open_image(const struct image *image, etl_access access, struct etl__run **run) {
    int descriptor = dup(image->descriptor);
    assert_true(descriptor >= 0);
    return etl__run_open(run, &memory, descriptor, access, TEMP, &failure);
}

/* All that a reader can do with a run. ETL_E_CORRUPT, or ETL_OK; with `pairs`, they were these. */
static int use_run(const struct etl__run *run, const struct pairs *pairs) {
    struct etl__provider *provider;
    struct etl__pair pair;
    etl_slice first, last;
    static volatile uint8_t sink;
    assert_int_equal(etl__provider_file_open(&provider, run, &memory, 1, 1, &failure), ETL_OK);
    int status;
    uint64_t count = 0;
    while ((status = etl__provider_read(provider, &pair, &failure)) == ETL_OK) {
        assert_true(++count <= run->file_size);
        for (uint32_t i = 0; i < pair.key_size; i++)
            sink ^= pair.key[i];
        for (uint32_t i = 0; i < pair.value_size; i++)
            sink ^= pair.value[i];
        if (pairs != NULL)
            assert_true(count <= pairs->count && same_pair(&pair, &pairs->pair[count - 1]));
    }
    if (pairs != NULL && status == ETL_END)
        assert_int_equal(count, pairs->count);
    int result = status == ETL_END ? ETL_OK : status;
    status = provider->bounds(provider, &first, &last, &failure);
    if (status < 0)
        result = status;
    for (int i = 0; i < 3; i++) {
        uint8_t key[4] = {0, 0, (uint8_t)(i * 40), 7};
        status = provider->seek(provider, key, sizeof key, &failure);
        if (status == ETL_OK)
            status = etl__provider_read(provider, &pair, &failure);
        if (status < 0)
            result = status;
    }
    (void)sink;
    provider->close(provider);
    if (result < 0)
        assert_int_equal(result, ETL_E_CORRUPT);
    return result;
}

static int open_and_use(const struct image *image, etl_access access, const struct pairs *pairs) {
    struct etl__run *run;
    int status = open_image(image, access, &run);
    if (status == ETL_OK) {
        status = use_run(run, pairs);
        etl__run_close(run, &memory);
    }
    if (status != ETL_OK) {
        assert_int_equal(status, ETL_E_CORRUPT);
        assert_non_null(strstr(failure.text, TEMP));
        assert_non_null(strstr(failure.text, "offset"));
    }
    return status;
}

static struct pairs small_pairs(size_t count) {
    struct pairs pairs = {NULL, 0, 0};
    for (size_t i = 0; i < count; i++)
        pairs_add_next(&pairs, 4 + i % 9, i % 5 == 0 ? 140 : i % 7);
    return pairs;
}

/* Three blocks and a part of a fourth. */
static struct pairs several_blocks(void) {
    struct pairs pairs = small_pairs(700);
    while (pairs_bytes(&pairs) < 3 * ETL__RUN_BLOCK + 500)
        pairs_add_next(&pairs, 9, 130);
    return pairs;
}

static bool is_light(void) {
    const char *light = getenv("LIBETL_TEST_LIGHT");
    return light != NULL && light[0] == '1';
}

static void truncate_everywhere(struct pairs pairs, uint64_t step) {
    struct image image = image_of(&pairs);
    assert_int_equal(open_and_use(&image, ETL_ACCESS_MMAP, &pairs), ETL_OK);
    assert_int_equal(open_and_use(&image, ETL_ACCESS_READ, &pairs), ETL_OK);
    for (uint64_t size = image.size; size-- != 0;) {
        if (size % step != 0)
            continue;
        assert_int_equal(etl__os_truncate(image.descriptor, size), 0);
        assert_int_equal(open_and_use(&image, ETL_ACCESS_MMAP, NULL), ETL_E_CORRUPT);
        assert_int_equal(open_and_use(&image, ETL_ACCESS_READ, NULL), ETL_E_CORRUPT);
    }
    image_free(&image);
    pairs_free(&pairs);
}

static void test_truncated(void **unused) {
    (void)unused;
    truncate_everywhere(small_pairs(60), 1);
    truncate_everywhere(several_blocks(), is_light() ? 61 : 1);
}

/* A run that is read tells of a file that shrinks after it was opened. */
static void test_shrinks(void **unused) {
    (void)unused;
    struct pairs pairs = pairs_of_shape(3);
    struct image image = image_of(&pairs);
    for (uint64_t size = 0; size < image.size; size += 4999) {
        struct etl__run *run;
        assert_int_equal(etl__os_write(image.descriptor, image.bytes, (size_t)image.size, 0), 0);
        assert_int_equal(open_image(&image, ETL_ACCESS_READ, &run), ETL_OK);
        assert_int_equal(etl__os_truncate(image.descriptor, size), 0);
        assert_int_equal(use_run(run, NULL), ETL_E_CORRUPT);
        etl__run_close(run, &memory);
    }
    image_free(&image);
    pairs_free(&pairs);
}

static void flip(const struct image *image, uint64_t bit, const struct pairs *pairs) {
    uint8_t damaged = image->bytes[bit / 8] ^ (uint8_t)(1u << bit % 8);
    assert_int_equal(etl__os_write(image->descriptor, &damaged, 1, bit / 8), 0);
    assert_int_equal(open_and_use(image, ETL_ACCESS_MMAP, pairs), ETL_E_CORRUPT);
    assert_int_equal(open_and_use(image, ETL_ACCESS_READ, pairs), ETL_E_CORRUPT);
    assert_int_equal(etl__os_write(image->descriptor, image->bytes + bit / 8, 1, bit / 8), 0);
}

static void test_flipped_bits(void **unused) {
    (void)unused;
    struct pairs pairs = small_pairs(30);
    struct image image = image_of(&pairs);
    for (uint64_t bit = 0; bit < 8 * image.size; bit++)
        flip(&image, bit, &pairs);
    image_free(&image);
    pairs_free(&pairs);
}

/* Where a byte is beside the ends of the file, or of a block. */
static bool is_at_edge(uint64_t data_end, uint64_t at) {
    enum { EDGE = 24 };
    uint64_t in_block = at % ETL__RUN_BLOCK;
    return at < ETL__RUN_HEADER_SIZE + EDGE || at + EDGE >= data_end || in_block < EDGE ||
           in_block >= ETL__RUN_BLOCK - EDGE;
}

/* Every bit at the edges, and one of every fourth byte between them; LIBETL_TEST_LONG=1 in the
 * environment: every bit. */
static void test_flipped_bits_of_several_blocks(void **unused) {
    (void)unused;
    struct pairs pairs = several_blocks();
    struct image image = image_of(&pairs);
    uint64_t data_end = ETL__RUN_HEADER_SIZE + pairs_bytes(&pairs);
    bool light = is_light(), all = getenv("LIBETL_TEST_LONG") != NULL;
    for (uint64_t bit = 0; bit < 8 * image.size; bit++) {
        bool edge = is_at_edge(data_end, bit / 8);
        if (all || bit % (light ? 8 * 61 + 1 : 8 * 4 + 1) == 0 || (edge && !light))
            flip(&image, bit, &pairs);
    }
    image_free(&image);
    pairs_free(&pairs);
}

/* ---- With right checksums */

/* Checksums of what is in `bytes` now; blocks and data_end as the file had them. */
static void seal(struct image *image, uint64_t data_end) {
    uint8_t *bytes = image->bytes, *footer = bytes + image->size - ETL__RUN_FOOTER_SIZE;
    etl__put_u32(bytes + 60, etl__crc32c_portable(0, bytes, 60));
    uint8_t *entry = bytes + data_end;
    for (uint64_t at = 0; at < data_end; at += ETL__RUN_BLOCK, entry += 8) {
        uint64_t size = data_end - at < ETL__RUN_BLOCK ? data_end - at : ETL__RUN_BLOCK;
        etl__put_u32(entry, etl__crc32c_portable(0, bytes + at, (size_t)size));
    }
    etl__put_u32(footer + 64,
                 etl__crc32c_portable(0, bytes + data_end, (size_t)(footer - bytes - data_end)));
    etl__put_u32(footer + 124, etl__crc32c_portable(0, footer, 124));
}

static void use_sealed(struct image *image, uint64_t data_end) {
    seal(image, data_end);
    assert_int_equal(etl__os_write(image->descriptor, image->bytes, (size_t)image->size, 0), 0);
    etl__memory_trim(&memory);
    memory.peak = memory.used;
    open_and_use(image, ETL_ACCESS_MMAP, NULL);
    open_and_use(image, ETL_ACCESS_READ, NULL);
    /* The structs, two buffers of two blocks, and a record that may be as large as the file. */
    assert_true(memory.peak <= 4 * image->size + 8 * ETL__RUN_BLOCK);
}

static void test_crafted_records(void **unused) {
    static const uint8_t values[] = {0, 1, 2, 126, 127, 128, 200, 255};
    (void)unused;
    struct pairs pairs = small_pairs(40);
    struct image image = image_of(&pairs);
    uint64_t data_end = ETL__RUN_HEADER_SIZE + pairs_bytes(&pairs);
    for (uint64_t at = ETL__RUN_HEADER_SIZE; at < data_end; at++)
        for (size_t i = 0; i < sizeof values; i++) {
            uint8_t before = image.bytes[at];
            image.bytes[at] = values[i];
            use_sealed(&image, data_end);
            image.bytes[at] = before;
        }
    /* Long varints at every place: lengths near each limit that arithmetic could wrap at. */
    static const uint64_t lengths[] = {ETL_SIZE_MAX, ETL_SIZE_MAX + 1, ETL_SIZE_MAX + 2,
                                       UINT32_MAX,   INT64_MAX,        UINT64_MAX};
    uint8_t saved[2 * ETL__VARINT_MAX];
    for (uint64_t at = ETL__RUN_HEADER_SIZE; at + sizeof saved <= data_end; at++)
        for (int i = 0; i < 36; i++) {
            memcpy(saved, image.bytes + at, sizeof saved);
            etl__varint_write(etl__varint_write(image.bytes + at, lengths[i / 6]), lengths[i % 6]);
            use_sealed(&image, data_end);
            memcpy(image.bytes + at, saved, sizeof saved);
        }
    image_free(&image);
    pairs_free(&pairs);
}

/* A length that the file cannot have is found at once, and nothing is taken for it. */
static void test_crafted_length(void **unused) {
    (void)unused;
    struct pairs pairs = pairs_of_shape(3);
    struct image image = image_of(&pairs);
    uint64_t data_end = ETL__RUN_HEADER_SIZE + pairs_bytes(&pairs);
    etl__varint_write(image.bytes + ETL__RUN_HEADER_SIZE, ETL_SIZE_MAX);
    use_sealed(&image, data_end);
    struct etl__run *run;
    assert_int_equal(open_image(&image, ETL_ACCESS_READ, &run), ETL_OK);
    etl__memory_trim(&memory);
    memory.peak = memory.used;
    assert_int_equal(use_run(run, NULL), ETL_E_CORRUPT);
    assert_true(memory.peak <= memory.used + 8 * ETL__RUN_BLOCK);
    etl__run_close(run, &memory);
    image_free(&image);
    pairs_free(&pairs);
}

static void test_crafted_table(void **unused) {
    static const uint32_t firsts[] = {0,     1,     63,       64,         16383,         16384,
                                      16385, 65536, 1u << 31, 0xFFFFFFFE, ETL__NO_RECORD};
    (void)unused;
    struct pairs pairs = pairs_of_shape(3);
    struct image image = image_of(&pairs);
    uint64_t data_end = ETL__RUN_HEADER_SIZE + pairs_bytes(&pairs);
    uint64_t blocks = (data_end + ETL__RUN_BLOCK - 1) / ETL__RUN_BLOCK;
    for (uint64_t block = 0; block < blocks; block++)
        for (size_t i = 0; i < sizeof firsts / sizeof firsts[0]; i++) {
            uint8_t *first = image.bytes + data_end + block * 8 + 4;
            uint32_t before = etl__get_u32(first);
            etl__put_u32(first, firsts[i]);
            use_sealed(&image, data_end);
            etl__put_u32(first, before);
        }
    image_free(&image);
    pairs_free(&pairs);
}

static void test_crafted_footer(void **unused) {
    (void)unused;
    struct pairs pairs = small_pairs(40);
    struct image image = image_of(&pairs);
    uint64_t data_end = ETL__RUN_HEADER_SIZE + pairs_bytes(&pairs);
    uint8_t *footer = image.bytes + image.size - ETL__RUN_FOOTER_SIZE;
    for (size_t field = 0; field < ETL__RUN_FOOTER_SIZE - 8; field += 8) {
        uint64_t before = etl__get_u64(footer + field);
        for (unsigned bit = 0; bit < 64; bit++)
            for (int way = 0; way < 4; way++) {
                uint64_t one = (uint64_t)1 << bit;
                const uint64_t made[] = {before ^ one, one, one - 1, 0 - one};
                etl__put_u64(footer + field, made[way]);
                use_sealed(&image, data_end);
            }
        etl__put_u64(footer + field, before);
    }
    /* What stands in reserved bytes belongs to a version that this one does not know. */
    for (size_t at = 68; at < 124; at++) {
        if (at == 72)
            at = 80;                   /* behind record_most */
        footer[at] = at == 68 ? 2 : 1; /* 1 is a flag */
        seal(&image, data_end);
        assert_int_equal(etl__os_write(image.descriptor, image.bytes, (size_t)image.size, 0), 0);
        assert_int_equal(open_and_use(&image, ETL_ACCESS_READ, NULL), ETL_E_CORRUPT);
        footer[at] = 0;
    }
    for (size_t at = 8; at < 60; at++) {
        image.bytes[at] ^= 1;
        seal(&image, data_end);
        assert_int_equal(etl__os_write(image.descriptor, image.bytes, (size_t)image.size, 0), 0);
        assert_int_equal(open_and_use(&image, ETL_ACCESS_READ, NULL), ETL_E_CORRUPT);
        image.bytes[at] ^= 1;
    }
    image_free(&image);
    pairs_free(&pairs);
}

/* ---- All of a run, as load reads it */

/* Through a merge, which counts: the right pairs to the end, or ETL_E_CORRUPT. */
static int merge_all(const struct image *image, etl_access access, const struct pairs *pairs) {
    struct etl__run *run;
    struct etl__merge merge;
    struct etl__provider *provider;
    const struct etl__pair *pair;
    int status = open_image(image, access, &run);
    if (status != ETL_OK)
        return status;
    assert_int_equal(etl__provider_file_open(&provider, run, &memory, 1, 1, &failure), ETL_OK);
    status = etl__merge_open(&merge, &memory, &provider, 1, false, NULL, &failure);
    if (status != ETL_OK) {
        etl__run_close(run, &memory);
        return status;
    }
    size_t count = 0;
    while ((status = etl__merge_next(&merge, &pair, &failure)) == ETL_OK) {
        assert_true(count < pairs->count && same_pair(pair, &pairs->pair[count]));
        count++;
    }
    if (status == ETL_END)
        assert_int_equal(count, pairs->count);
    etl__merge_close(&merge);
    etl__run_close(run, &memory);
    return status == ETL_END ? ETL_OK : status;
}

static int merge_sealed(struct image *image, uint64_t data_end, const struct pairs *pairs) {
    seal(image, data_end);
    assert_int_equal(etl__os_write(image->descriptor, image->bytes, (size_t)image->size, 0), 0);
    int status = merge_all(image, ETL_ACCESS_MMAP, pairs);
    assert_int_equal(merge_all(image, ETL_ACCESS_READ, pairs), status);
    if (status != ETL_OK)
        assert_int_equal(status, ETL_E_CORRUPT);
    return status;
}

/* Offsets of footer fields (docs/RUN_FORMAT.md). */
enum { DATA_END = 8, BLOCKS = 16, PAIRS = 24, FIRST_RECORD = 48, RECORD_MOST = 72 };

/* A count or a place that is not what a reader finds. Sums of sizes, the place of the last record
 * and the size for buffers are hints: wrong ones never change what is read. */
static void test_crafted_counts(void **unused) {
    (void)unused;
    struct pairs pairs = several_blocks();
    struct image image = image_of(&pairs);
    uint64_t data_end = ETL__RUN_HEADER_SIZE + pairs_bytes(&pairs);
    uint8_t *footer = image.bytes + image.size - ETL__RUN_FOOTER_SIZE;
    assert_int_equal(merge_sealed(&image, data_end, &pairs), ETL_OK);
    for (size_t field = DATA_END; field <= RECORD_MOST; field += 8) {
        uint64_t before = etl__get_u64(footer + field);
        bool read = field <= PAIRS || field == FIRST_RECORD;
        for (unsigned bit = 0; bit < 64 && field != 64; bit++)
            for (int way = 0; way < 4; way++) {
                uint64_t one = (uint64_t)1 << bit;
                const uint64_t made[] = {before ^ one, before + one, before - one, one};
                etl__put_u64(footer + field, made[way]);
                int status = merge_sealed(&image, data_end, &pairs);
                if (read && made[way] != before)
                    assert_int_equal(status, ETL_E_CORRUPT);
            }
        etl__put_u64(footer + field, before);
    }
    image_free(&image);
    pairs_free(&pairs);
}

/* Bytes of chance with the right ends around them. */
static void test_noise(void **unused) {
    (void)unused;
    struct pairs pairs = pairs_of_shape(3);
    struct image image = image_of(&pairs);
    uint64_t data_end = ETL__RUN_HEADER_SIZE + pairs_bytes(&pairs);
    for (int round = 0; round < 200; round++) {
        unsigned mask = round % 2 == 0 ? 255 : 31;
        for (uint64_t at = ETL__RUN_HEADER_SIZE; at < data_end; at++)
            image.bytes[at] = (uint8_t)(random_u64() >> 33 & mask);
        use_sealed(&image, data_end);
    }
    image_free(&image);
    pairs_free(&pairs);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_truncated),
        cmocka_unit_test(test_shrinks),
        cmocka_unit_test(test_flipped_bits),
        cmocka_unit_test(test_flipped_bits_of_several_blocks),
        cmocka_unit_test(test_crafted_counts),
        cmocka_unit_test(test_crafted_records),
        cmocka_unit_test(test_crafted_length),
        cmocka_unit_test(test_crafted_table),
        cmocka_unit_test(test_crafted_footer),
        cmocka_unit_test(test_noise),
    };
    return cmocka_run_group_tests(tests, run_setup, run_teardown);
}
