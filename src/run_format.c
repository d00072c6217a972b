/* run_format.c: header and footer of a run file, byte by byte.
 *
 * Decoding trusts nothing: a file may be damaged, or made by somebody who computed the checksums
 * anew, so that every sum is checked before it is formed. What decode lets through is consistent
 * in itself and with the size of the file; a reader need only keep below data_end. */
#include "run_format.h"
#include "crc32c.h"
#include <string.h>

static const uint8_t header_magic[8] = {0x89, 'E', 'T', 'L', 'R', 'U', 'N', '\n'};
static const uint8_t footer_magic[8] = {0x89, 'E', 'T', 'L', 'E', 'N', 'D', '\n'};

enum {
    HEADER_VERSION = 8,
    HEADER_BLOCK = 12,
    HEADER_RESERVED = 16,
    HEADER_CRC = ETL__RUN_HEADER_SIZE - 4,
    FOOTER_DATA_END = 8,
    FOOTER_BLOCKS = 16,
    FOOTER_PAIRS = 24,
    FOOTER_KEY_BYTES = 32,
    FOOTER_VALUE_BYTES = 40,
    FOOTER_FIRST_RECORD = 48,
    FOOTER_LAST_RECORD = 56,
    FOOTER_TABLE_CRC = 64,
    FOOTER_FLAGS = 68,
    FOOTER_RECORD_MOST = 72,
    FOOTER_RESERVED = 80,
    FOOTER_CRC = ETL__RUN_FOOTER_SIZE - 4,
    RECORD_MIN = 2
};

static bool fail(const char **reason, const char *why) {
    *reason = why;
    return false;
}

static bool all_zero(const uint8_t *from, const uint8_t *to) {
    while (from < to && *from == 0)
        from++;
    return from == to;
}

void etl__run_header_encode(uint8_t header[ETL__RUN_HEADER_SIZE]) {
    memset(header, 0, ETL__RUN_HEADER_SIZE);
    memcpy(header, header_magic, sizeof header_magic);
    etl__put_u32(header + HEADER_VERSION, ETL__RUN_VERSION);
    etl__put_u32(header + HEADER_BLOCK, ETL__RUN_BLOCK);
    etl__put_u32(header + HEADER_CRC, etl__crc32c(0, header, HEADER_CRC));
}

bool etl__run_header_has_magic(const uint8_t *header, size_t size) {
    return memcmp(header, header_magic, size < sizeof header_magic ? size : sizeof header_magic) ==
           0;
}

bool etl__run_header_decode(const uint8_t header[ETL__RUN_HEADER_SIZE], const char **reason) {
    if (memcmp(header, header_magic, sizeof header_magic) != 0)
        return fail(reason, "not a run file");
    if (etl__get_u32(header + HEADER_CRC) != etl__crc32c(0, header, HEADER_CRC))
        return fail(reason, "header checksum");
    if (etl__get_u32(header + HEADER_VERSION) != ETL__RUN_VERSION)
        return fail(reason, "unknown version");
    if (etl__get_u32(header + HEADER_BLOCK) != ETL__RUN_BLOCK)
        return fail(reason, "unknown block size");
    if (!all_zero(header + HEADER_RESERVED, header + HEADER_CRC))
        return fail(reason, "unknown header field");
    return true;
}

/* Magic, version and the checksum of 64 bytes stay where they are in every version. */
bool etl__run_header_is_newer(const uint8_t header[ETL__RUN_HEADER_SIZE], uint32_t *version) {
    *version = etl__get_u32(header + HEADER_VERSION);
    return memcmp(header, header_magic, sizeof header_magic) == 0 &&
           etl__get_u32(header + HEADER_CRC) == etl__crc32c(0, header, HEADER_CRC) &&
           *version > ETL__RUN_VERSION;
}

void etl__run_footer_encode(uint8_t bytes[ETL__RUN_FOOTER_SIZE],
                            const struct etl__run_footer *footer) {
    memset(bytes, 0, ETL__RUN_FOOTER_SIZE);
    memcpy(bytes, footer_magic, sizeof footer_magic);
    etl__put_u64(bytes + FOOTER_DATA_END, footer->data_end);
    etl__put_u64(bytes + FOOTER_BLOCKS, footer->blocks);
    etl__put_u64(bytes + FOOTER_PAIRS, footer->pairs);
    etl__put_u64(bytes + FOOTER_KEY_BYTES, footer->key_bytes);
    etl__put_u64(bytes + FOOTER_VALUE_BYTES, footer->value_bytes);
    etl__put_u64(bytes + FOOTER_FIRST_RECORD, footer->first_record);
    etl__put_u64(bytes + FOOTER_LAST_RECORD, footer->last_record);
    etl__put_u32(bytes + FOOTER_TABLE_CRC, footer->table_crc);
    etl__put_u32(bytes + FOOTER_FLAGS, footer->flags);
    etl__put_u64(bytes + FOOTER_RECORD_MOST, footer->record_most);
    etl__put_u32(bytes + FOOTER_CRC, etl__crc32c(0, bytes, FOOTER_CRC));
}

static bool check_sizes(const struct etl__run_footer *footer, uint64_t file_size,
                        const char **reason) {
    if (footer->data_end < ETL__RUN_HEADER_SIZE || footer->data_end > file_size)
        return fail(reason, "records end outside the file");
    uint64_t blocks =
        footer->data_end / ETL__RUN_BLOCK + (footer->data_end % ETL__RUN_BLOCK != 0 ? 1 : 0);
    if (footer->blocks != blocks)
        return fail(reason, "number of blocks");
    /* blocks is at most 2^50, so its table's size cannot wrap. */
    if (file_size - footer->data_end != blocks * ETL__RUN_TABLE_ENTRY + ETL__RUN_FOOTER_SIZE)
        return fail(reason, "file size");
    return true;
}

static bool check_counts(const struct etl__run_footer *footer, const char **reason) {
    uint64_t room = footer->data_end - ETL__RUN_HEADER_SIZE;
    if (footer->pairs > room / RECORD_MIN || (footer->pairs == 0) != (room == 0))
        return fail(reason, "number of pairs");
    room -= footer->pairs * RECORD_MIN;
    if (footer->key_bytes > room || footer->value_bytes > room - footer->key_bytes)
        return fail(reason, "bytes of keys and values");
    if (footer->first_record != ETL__RUN_HEADER_SIZE)
        return fail(reason, "position of the first record");
    uint64_t last = footer->last_record;
    bool fits = footer->pairs == 0
                    ? last == footer->data_end
                    : last >= ETL__RUN_HEADER_SIZE && last <= footer->data_end - RECORD_MIN &&
                          (last - ETL__RUN_HEADER_SIZE) / RECORD_MIN >= footer->pairs - 1;
    if (!fits || (footer->pairs == 1 && last != ETL__RUN_HEADER_SIZE))
        return fail(reason, "position of the last record");
    return true;
}

bool etl__run_footer_decode(const uint8_t bytes[ETL__RUN_FOOTER_SIZE], uint64_t file_size,
                            struct etl__run_footer *footer, const char **reason) {
    if (memcmp(bytes, footer_magic, sizeof footer_magic) != 0)
        return fail(reason, "no footer");
    if (etl__get_u32(bytes + FOOTER_CRC) != etl__crc32c(0, bytes, FOOTER_CRC))
        return fail(reason, "footer checksum");
    footer->flags = etl__get_u32(bytes + FOOTER_FLAGS);
    if ((footer->flags & ~ETL__RUN_VALUES_ASCEND) != 0 ||
        !all_zero(bytes + FOOTER_RESERVED, bytes + FOOTER_CRC))
        return fail(reason, "unknown footer field");
    footer->data_end = etl__get_u64(bytes + FOOTER_DATA_END);
    footer->blocks = etl__get_u64(bytes + FOOTER_BLOCKS);
    footer->pairs = etl__get_u64(bytes + FOOTER_PAIRS);
    footer->key_bytes = etl__get_u64(bytes + FOOTER_KEY_BYTES);
    footer->value_bytes = etl__get_u64(bytes + FOOTER_VALUE_BYTES);
    footer->first_record = etl__get_u64(bytes + FOOTER_FIRST_RECORD);
    footer->last_record = etl__get_u64(bytes + FOOTER_LAST_RECORD);
    footer->table_crc = etl__get_u32(bytes + FOOTER_TABLE_CRC);
    footer->record_most = etl__get_u64(bytes + FOOTER_RECORD_MOST);
    return check_sizes(footer, file_size, reason) && check_counts(footer, reason);
}
