/* run_reference.c: see run_reference.h. */
#include "run_reference.h"
#include "crc32c.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCK = 16384, HEADER = 64, FOOTER = 128, ENTRY = 8 };

static uint64_t varint(const uint8_t **at, const uint8_t *end, bool *good) {
    uint64_t value = 0;
    for (unsigned i = 0; i < 10 && *at < end; i++) {
        uint8_t byte = *(*at)++;
        if (i == 9 && byte > 1)
            break;
        value |= (uint64_t)(byte & 127) << (7 * i);
        if (byte < 128)
            return value;
    }
    *good = false;
    return 0;
}

uint64_t reference_record(const uint8_t *at, const uint8_t *end, struct etl__pair *pair) {
    const uint8_t *from = at;
    bool good = true;
    uint64_t key_size = varint(&at, end, &good), code = good ? varint(&at, end, &good) : 0;
    uint64_t value_size = code != 0 ? code - 1 : 0;
    if (!good || key_size > ETL_SIZE_MAX || value_size > ETL_SIZE_MAX ||
        key_size + value_size > (uint64_t)(end - at))
        return 0;
    pair->key = at;
    pair->key_size = (uint32_t)key_size;
    pair->value = code != 0 ? at + key_size : NULL;
    pair->value_size = (uint32_t)value_size;
    return (uint64_t)(at - from) + key_size + value_size;
}

static bool is_zero(const uint8_t *from, const uint8_t *to) {
    for (; from < to; from++)
        if (*from != 0)
            return false;
    return true;
}

static uint64_t blocks_of(uint64_t data_end) {
    return data_end / BLOCK + (data_end % BLOCK != 0);
}

static bool has_sizes(uint64_t data_end, size_t size) {
    return size >= HEADER + FOOTER && data_end >= HEADER && data_end <= size &&
           data_end + blocks_of(data_end) * ENTRY + FOOTER == size;
}

static void read_footer(struct etl__run_footer *footer, const uint8_t *at) {
    footer->data_end = etl__get_u64(at + 8);
    footer->blocks = etl__get_u64(at + 16);
    footer->pairs = etl__get_u64(at + 24);
    footer->key_bytes = etl__get_u64(at + 32);
    footer->value_bytes = etl__get_u64(at + 40);
    footer->first_record = etl__get_u64(at + 48);
    footer->last_record = etl__get_u64(at + 56);
    footer->table_crc = etl__get_u32(at + 64);
    footer->record_most = etl__get_u64(at + 72);
}

static bool may_open(struct reference *reference, const uint8_t *file, size_t size) {
    if (size < HEADER + FOOTER)
        return false;
    const uint8_t *end = file + size - FOOTER;
    struct etl__run_footer *footer = &reference->footer;
    read_footer(footer, end);
    return memcmp(file, "\x89\x45TLRUN\n", 8) == 0 && etl__get_u32(file + 8) == 1 &&
           etl__get_u32(file + 12) == BLOCK && is_zero(file + 16, file + 60) &&
           etl__get_u32(file + 60) == etl__crc32c_portable(0, file, 60) &&
           memcmp(end, "\x89\x45TLEND\n", 8) == 0 && end[68] <= 1 && is_zero(end + 69, end + 72) &&
           is_zero(end + 80, end + 124) &&
           etl__get_u32(end + 124) == etl__crc32c_portable(0, end, 124) &&
           has_sizes(footer->data_end, size) && footer->blocks == blocks_of(footer->data_end) &&
           footer->table_crc ==
               etl__crc32c(0, file + footer->data_end, (size_t)(footer->blocks * ENTRY));
}

static size_t block_size(uint64_t data_end, uint64_t block) {
    uint64_t left = data_end - block * BLOCK;
    return left < BLOCK ? (size_t)left : BLOCK;
}

/* Where the first block with a wrong checksum begins; data_end when there is none. */
static uint64_t good_until(const struct etl__run_footer *footer, const uint8_t *file) {
    for (uint64_t i = 0; i < footer->blocks; i++)
        if (etl__get_u32(file + footer->data_end + i * ENTRY) !=
            etl__crc32c(0, file + i * BLOCK, block_size(footer->data_end, i)))
            return i * BLOCK;
    return footer->data_end;
}

static void add(struct reference *reference, const struct etl__pair *pair, uint64_t start) {
    size_t count = reference->count++;
    if ((count & (count + 1)) == 0) { /* 0, 1, 3, 7, … are full */
        size_t room = 2 * count + 1;
        reference->pairs = realloc(reference->pairs, room * sizeof *reference->pairs);
        reference->starts = realloc(reference->starts, room * sizeof *reference->starts);
        if (reference->pairs == NULL || reference->starts == NULL)
            abort();
    }
    reference->pairs[count] = *pair;
    reference->starts[count] = start;
}

static int compare(const struct etl__pair *a, const struct etl__pair *b) {
    size_t shared = a->key_size < b->key_size ? a->key_size : b->key_size;
    int order = memcmp(a->key, b->key, shared);
    return order != 0 ? order : (a->key_size > b->key_size) - (a->key_size < b->key_size);
}

/* Is the table's `first` of each block the start of the first record in it? */
static bool has_firsts(const struct reference *reference, const uint8_t *file) {
    const struct etl__run_footer *footer = &reference->footer;
    size_t at = 0;
    for (uint64_t i = 0; i < footer->blocks; i++) {
        while (at < reference->count && reference->starts[at] < i * BLOCK)
            at++;
        uint32_t first = ETL__NO_RECORD;
        if (at < reference->count && reference->starts[at] < (i + 1) * BLOCK)
            first = (uint32_t)(reference->starts[at] - i * BLOCK);
        if (etl__get_u32(file + footer->data_end + i * ENTRY + 4) != first)
            return false;
    }
    return true;
}

static void check_sums(struct reference *reference, const uint8_t *file) {
    const struct etl__run_footer *footer = &reference->footer;
    uint64_t key_bytes = 0, value_bytes = 0, count = reference->count;
    reference->counted = count == footer->pairs;
    for (size_t i = 0; i < count; i++) {
        const struct etl__pair *pair = &reference->pairs[i];
        key_bytes += pair->key_size;
        value_bytes += pair->value_size;
        if (i != 0 && compare(pair - 1, pair) > 0)
            reference->counted = false;
    }
    uint64_t last = count != 0 ? reference->starts[count - 1] : footer->data_end;
    reference->whole = reference->counted && footer->key_bytes == key_bytes &&
                       footer->value_bytes == value_bytes && footer->first_record == HEADER &&
                       footer->last_record == last && has_firsts(reference, file);
}

void reference_read(struct reference *reference, const uint8_t *file, size_t size) {
    memset(reference, 0, sizeof *reference);
    reference->may_open = may_open(reference, file, size);
    if (!reference->may_open)
        return;
    uint64_t end = reference->footer.data_end, good = good_until(&reference->footer, file);
    uint64_t at = HEADER;
    while (at < end) {
        struct etl__pair pair;
        uint64_t record = reference_record(file + at, file + end, &pair);
        if (record == 0 || at + record > good)
            return;
        add(reference, &pair, at);
        at += record;
    }
    reference->reads_to_end = good == end;
    if (reference->reads_to_end)
        check_sums(reference, file);
}

void reference_free(struct reference *reference) {
    free(reference->pairs);
    free(reference->starts);
}

void reference_seal(uint8_t *file, size_t size) {
    if (size < HEADER + FOOTER)
        return;
    uint8_t *footer = file + size - FOOTER;
    uint64_t data_end = etl__get_u64(footer + 8);
    etl__put_u32(file + 60, etl__crc32c(0, file, 60));
    if (has_sizes(data_end, size)) {
        uint8_t *table = file + data_end;
        for (uint64_t i = 0; i < blocks_of(data_end); i++)
            etl__put_u32(table + i * ENTRY,
                         etl__crc32c(0, file + i * BLOCK, block_size(data_end, i)));
        etl__put_u32(footer + 64, etl__crc32c(0, table, (size_t)(footer - table)));
    }
    etl__put_u32(footer + 124, etl__crc32c(0, footer, 124));
}
