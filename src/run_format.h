/* run_format.h: the layout of a run file. docs/RUN_FORMAT.md is its specification; this and
 * record.h are the only code that knows it.
 *
 *     header   64 bytes
 *     records  back to back, each contiguous: it may be larger than any block
 *     table    8 bytes a block of ETL__RUN_BLOCK bytes of [0, data_end): CRC-32C, and where in the
 *              block the first record starts (ETL__NO_RECORD: none does)
 *     footer   128 bytes, the last of the file
 *
 * Blocks are counted from the start of the file, so block 0 has the header in it. Little-endian
 * everywhere. */
#ifndef LIBETL_RUN_FORMAT_H
#define LIBETL_RUN_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ETL__RUN_VERSION 1

enum {
    ETL__RUN_BLOCK = 16384,
    ETL__RUN_HEADER_SIZE = 64,
    ETL__RUN_FOOTER_SIZE = 128,
    ETL__RUN_TABLE_ENTRY = 8
};

#define ETL__NO_RECORD 0xFFFFFFFFu

/* The values of equal keys ascend bytewise, nil first: the order that order_values wants. */
#define ETL__RUN_VALUES_ASCEND 1u

struct etl__run_footer {
    uint64_t data_end; /* the first byte behind the records; the table follows */
    uint64_t blocks;   /* (data_end + ETL__RUN_BLOCK - 1) / ETL__RUN_BLOCK */
    uint64_t pairs;
    uint64_t key_bytes;
    uint64_t value_bytes;
    uint64_t first_record; /* file offset of the first record (the header's size); of data_end when
                              there is none */
    uint64_t last_record;  /* file offset of the last record, whose key is the run's last */
    uint64_t record_most;  /* no record is larger: what a reader's buffer should hold */
    uint32_t table_crc;    /* CRC-32C of the table */
    uint32_t flags;        /* ETL__RUN_VALUES_ASCEND or 0 */
};

static inline void etl__put_u32(uint8_t *at, uint32_t value) {
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(value >> (8 * i));
}

static inline void etl__put_u64(uint8_t *at, uint64_t value) {
    for (int i = 0; i < 8; i++)
        at[i] = (uint8_t)(value >> (8 * i));
}

static inline uint32_t etl__get_u32(const uint8_t *at) {
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static inline uint64_t etl__get_u64(const uint8_t *at) {
    return (uint64_t)etl__get_u32(at) | (uint64_t)etl__get_u32(at + 4) << 32;
}

/* Encode; decode and check magic, version, block size, checksums and the sums that the fields must
 * obey in a file of file_size bytes. On failure decode gives false and a few words of why in
 * *reason. A file that etl__run_header_is_newer is not damaged; one without the magic, of which
 * size bytes are there, is something else. */
void etl__run_header_encode(uint8_t header[ETL__RUN_HEADER_SIZE]);
bool etl__run_header_decode(const uint8_t header[ETL__RUN_HEADER_SIZE], const char **reason);
bool etl__run_header_has_magic(const uint8_t *header, size_t size);
bool etl__run_header_is_newer(const uint8_t header[ETL__RUN_HEADER_SIZE], uint32_t *version);
void etl__run_footer_encode(uint8_t bytes[ETL__RUN_FOOTER_SIZE],
                            const struct etl__run_footer *footer);
bool etl__run_footer_decode(const uint8_t bytes[ETL__RUN_FOOTER_SIZE], uint64_t file_size,
                            struct etl__run_footer *footer, const char **reason);

#endif
