/* run_writer.c: sorted pairs -> a run file, in one pass, through one buffer.
 *
 * A record is encoded straight into the write buffer, which is a whole number of blocks of the
 * file. When a block is full its checksum is taken, while it is still in the cache, and where the
 * next record begins is noted; when the buffer is full it is written. What is larger than the
 * buffer goes to the file from the caller's memory, in whole blocks. So every byte is copied once
 * at most and read once more for its checksum.
 *
 * The table of blocks is gathered by the piece and written behind the place where the records are
 * expected to end. Where they end exactly there it is in its place already; else it is moved at
 * close. When the records outgrow the guess the table is moved out of their way first, to at least
 * twice as far, so that all moves together cost a two-thousandth of the data.
 *
 * Disk    etl__disk counts what has been written of data, table and footer, not what is reserved:
 *         an upper guess is no use of the limit, and closing cuts the file to its length.
 * Order   is checked by the keys' first eight bytes, which costs nothing here and catches a
 *         shuffled index; the merge compares whole keys.
 * Memory  buffer, and 8 KiB of table, for runs of any size. Nothing is allocated after create but
 *         the finished run.
 * Not chosen: writev of the callers' slices, and stores through a mapping: both slower, and a full
 * disk behind a mapping is a signal; the table in memory: it grows with the run. */
#include "run_writer.h"
#include "copy.h"
#include "crc32c.h"
#include "key.h"
#include <assert.h>
#include <stdio.h>
#include <string.h>

enum {
    TABLE_PIECE = 4096,    /* of the table */
    SHORT_RECORD = 255,    /* what the common path of append writes at most */
    THROUGH_MAX = 4 << 20, /* bytes written between two looks at `cancel` */
    THROUGH_BLOCKS = THROUGH_MAX / ETL__RUN_BLOCK
};

struct etl__run_writer {
    /* What the common path of append touches. */
    uint8_t *at;        /* where the next record goes */
    uint8_t *block_end; /* of the block that the byte before `at` is in */
    uint64_t previous;  /* prefix of the last key */
    uint64_t pairs, key_bytes;

    uint8_t *buffer;
    size_t buffer_size;
    uint64_t base;        /* file offset of the buffer's start */
    uint64_t last_across; /* file offset of the last record that append_across wrote */
    uint64_t record_most; /* no record so far is larger */
    uint64_t long_heads;  /* bytes of record heads above two each */
    uint32_t block_first; /* where the first record of this block begins; none yet:
                             ETL__NO_RECORD */

    uint64_t table_at;    /* where the table is gathered */
    uint64_t table_bytes; /* of it in the file */
    size_t piece_bytes;   /* of it in `piece` */
    uint32_t table_crc;   /* of what is in the file */

    int descriptor; /* -1: no run is begun */
    bool borrowed;  /* the descriptor */
    uint32_t flags;
    const char *place; /* for messages: directory or path */
    uint64_t extent;   /* the file is at most this long */
    uint64_t charged;  /* of disk->used */
    uint64_t written, finished;
    struct etl__memory *memory;
    struct etl__disk *disk; /* of this run: own_disk, but for a file of the caller's */
    struct etl__disk *own_disk;
    const atomic_int *cancel;
    uint8_t piece[TABLE_PIECE + ETL__RUN_FOOTER_SIZE];
    uint8_t moving[TABLE_PIECE];
};

/* ---- Disk */

/* Count bytes that are about to be written. */
static int charge(struct etl__run_writer *writer, uint64_t bytes, struct etl__error *error) {
    ETL__TRY(etl__disk_charge(writer->disk, bytes, writer->place, error));
    writer->charged += bytes;
    return ETL_OK;
}

static int write_at(struct etl__run_writer *writer, const uint8_t *data, size_t size,
                    uint64_t offset, struct etl__error *error) {
    int os_error = etl__os_write(writer->descriptor, data, size, offset);
    if (os_error != 0) {
        char operation[96];
        snprintf(operation, sizeof operation, "write %zu bytes at %llu of a run in", size,
                 (unsigned long long)offset);
        return etl__fail_os(error, os_error, operation, writer->place);
    }
    writer->written += size;
    if (offset + size > writer->extent)
        writer->extent = offset + size;
    return ETL_OK;
}

/* ---- Table */

/* Move what is in the file of the table. Front to back, so it may overlap when it moves down. */
static int table_move(struct etl__run_writer *writer, uint64_t to, uint8_t *through, size_t step,
                      struct etl__error *error) {
    for (uint64_t done = 0; done < writer->table_bytes && to != writer->table_at; done += step) {
        uint64_t left = writer->table_bytes - done;
        size_t size = left < step ? (size_t)left : step, got;
        int os_error =
            etl__os_read(writer->descriptor, through, size, writer->table_at + done, &got);
        if (os_error != 0)
            return etl__fail_os(error, os_error, "read the table of a run in", writer->place);
        if (got != size)
            return etl__fail(error, ETL_E_CORRUPT,
                             "a run in %s ends at offset %llu while it is being written",
                             writer->place, (unsigned long long)(writer->table_at + done + got));
        ETL__TRY(write_at(writer, through, size, to + done, error));
    }
    writer->table_at = to;
    return ETL_OK;
}

/* Data reaches up to `end`: keep the table behind it. */
static int table_make_room(struct etl__run_writer *writer, uint64_t end,
                           struct etl__error *error) {
    if (ETL__LIKELY(end <= writer->table_at))
        return ETL_OK;
    return table_move(writer, 2 * end, writer->moving, TABLE_PIECE, error);
}

/* The block that ends at file offset `end` is complete. */
static int table_append(struct etl__run_writer *writer, const uint8_t *block, size_t size,
                        uint32_t first, uint64_t end, struct etl__error *error) {
    if (writer->piece_bytes == TABLE_PIECE) {
        ETL__TRY(charge(writer, TABLE_PIECE, error));
        ETL__TRY(table_make_room(writer, end, error));
        ETL__TRY(write_at(writer, writer->piece, TABLE_PIECE,
                          writer->table_at + writer->table_bytes, error));
        writer->table_crc = etl__crc32c(writer->table_crc, writer->piece, TABLE_PIECE);
        writer->table_bytes += TABLE_PIECE;
        writer->piece_bytes = 0;
    }
    etl__put_u32(writer->piece + writer->piece_bytes, etl__crc32c(0, block, size));
    etl__put_u32(writer->piece + writer->piece_bytes + 4, first);
    writer->piece_bytes += ETL__RUN_TABLE_ENTRY;
    return ETL_OK;
}

/* ---- Data */

/* Write the next bytes of the data; the buffer's start moves behind them. */
static int write_data(struct etl__run_writer *writer, const uint8_t *data, size_t size,
                      struct etl__error *error) {
    if (writer->cancel != NULL && atomic_load_explicit(writer->cancel, memory_order_relaxed) != 0)
        return etl__fail(error, ETL_E_CANCELLED, "cancelled while writing a run in %s",
                         writer->place);
    ETL__TRY(charge(writer, size, error));
    ETL__TRY(table_make_room(writer, writer->base + size, error));
    ETL__TRY(write_at(writer, data, size, writer->base, error));
    writer->base += size;
    return ETL_OK;
}

static int flush_buffer(struct etl__run_writer *writer, struct etl__error *error) {
    size_t size = (size_t)(writer->at - writer->buffer);
    if (size != 0)
        ETL__TRY(write_data(writer, writer->buffer, size, error));
    writer->at = writer->buffer;
    return ETL_OK;
}

/* `at` is at the end of a full block: complete it and go on in the next. */
static int next_block(struct etl__run_writer *writer, struct etl__error *error) {
    assert(writer->at == writer->block_end);
    ETL__TRY(table_append(writer, writer->block_end - ETL__RUN_BLOCK, ETL__RUN_BLOCK,
                          writer->block_first,
                          writer->base + (uint64_t)(writer->at - writer->buffer), error));
    writer->block_first = ETL__NO_RECORD;
    if (writer->at == writer->buffer + writer->buffer_size)
        ETL__TRY(flush_buffer(writer, error));
    writer->block_end = writer->at + ETL__RUN_BLOCK;
    return ETL_OK;
}

/* The whole blocks at *data, from where they are. The buffer is empty. */
static int write_past_buffer(struct etl__run_writer *writer, const uint8_t **data, size_t *size,
                             struct etl__error *error) {
    while (*size >= ETL__RUN_BLOCK) {
        size_t blocks = *size / ETL__RUN_BLOCK;
        if (blocks > THROUGH_BLOCKS)
            blocks = THROUGH_BLOCKS;
        for (size_t i = 0; i < blocks; i++)
            ETL__TRY(table_append(writer, *data + i * ETL__RUN_BLOCK, ETL__RUN_BLOCK,
                                  ETL__NO_RECORD, writer->base + (i + 1) * ETL__RUN_BLOCK, error));
        ETL__TRY(write_data(writer, *data, blocks * ETL__RUN_BLOCK, error));
        *data += blocks * ETL__RUN_BLOCK;
        *size -= blocks * ETL__RUN_BLOCK;
    }
    return ETL_OK;
}

static int put_bytes(struct etl__run_writer *writer, const uint8_t *data, size_t size,
                     struct etl__error *error) {
    while (size != 0) {
        if (writer->at == writer->block_end) {
            ETL__TRY(next_block(writer, error));
            if (writer->at == writer->buffer && size >= writer->buffer_size) {
                ETL__TRY(write_past_buffer(writer, &data, &size, error));
                continue;
            }
        }
        size_t room = (size_t)(writer->block_end - writer->at);
        size_t part = size < room ? size : room;
        memcpy(writer->at, data, part);
        writer->at += part;
        data += part;
        size -= part;
    }
    return ETL_OK;
}

/* ---- Pairs */

static void count_record(struct etl__run_writer *writer, const struct etl__pair *pair) {
    writer->pairs++;
    writer->key_bytes += pair->key_size;
}

static ETL__NOINLINE int refuse_order(const struct etl__run_writer *writer,
                                      struct etl__error *error) {
    return etl__fail(error, ETL_E_CORRUPT,
                     "pair %llu of a run in %s is below the one before it: its source is out of "
                     "order",
                     (unsigned long long)writer->pairs, writer->place);
}

/* A record with a longer head, or one that does not fit its block. */
static ETL__NOINLINE int append_across(struct etl__run_writer *writer,
                                       const struct etl__pair *pair, struct etl__error *error) {
    if (writer->at == writer->block_end) {
        ETL__TRY(next_block(writer, error));
        writer->block_first = 0;
    }
    uint8_t head[2 * ETL__VARINT_MAX];
    uint8_t *head_end = etl__record_write_head(
        head, pair->key_size, etl__value_code(pair->value == NULL, pair->value_size));
    writer->last_across = writer->base + (uint64_t)(writer->at - writer->buffer);
    writer->long_heads += (uint64_t)(head_end - head) - 2;
    uint64_t size = (uint64_t)(head_end - head) + pair->key_size + pair->value_size;
    if (size > writer->record_most)
        writer->record_most = size;
    ETL__TRY(put_bytes(writer, head, (size_t)(head_end - head), error));
    ETL__TRY(put_bytes(writer, pair->key, pair->key_size, error));
    if (pair->value != NULL)
        ETL__TRY(put_bytes(writer, pair->value, pair->value_size, error));
    /* Whatever comes next begins here; close looks whether anything did. */
    if (writer->block_first == ETL__NO_RECORD && writer->at < writer->block_end)
        writer->block_first =
            (uint32_t)(writer->at - (writer->block_end - (ptrdiff_t)ETL__RUN_BLOCK));
    count_record(writer, pair);
    return ETL_OK;
}

int etl__run_writer_append(struct etl__run_writer *writer, const struct etl__pair *pair,
                           struct etl__error *error) {
    assert(writer->descriptor >= 0);
    const uint8_t *key = pair->key, *value = pair->value;
    size_t key_size = pair->key_size, value_size = pair->value_size;
    uint64_t prefix = etl__key_prefix(key, key_size);
    if (ETL__UNLIKELY(prefix < writer->previous))
        return refuse_order(writer, error);
    writer->previous = prefix;
    uint8_t *at = writer->at;
    size_t body = key_size + value_size;
    if (ETL__UNLIKELY(key_size >= 128 || value_size >= 127 ||
                      body + 2 > (size_t)(writer->block_end - at)))
        return append_across(writer, pair, error);
    uint8_t head[2] = {(uint8_t)key_size, (uint8_t)etl__value_code(value == NULL, value_size)};
    memcpy(at, head, sizeof head);
    if (value == key + key_size && body <= ETL__COPY_SHORT) {
        etl__copy_short(at + 2, key, body);
    } else {
        etl__copy_short(at + 2, key, key_size);
        etl__copy_short(at + 2 + key_size, value, value_size);
    }
    writer->at = at + 2 + body;
    count_record(writer, pair);
    return ETL_OK;
}

/* ---- Life */

int etl__run_writer_create(struct etl__run_writer **out, struct etl__memory *memory,
                           struct etl__disk *disk, size_t buffer_size, const atomic_int *cancel,
                           struct etl__error *error) {
    assert(buffer_size >= ETL__RUN_BLOCK && buffer_size % ETL__RUN_BLOCK == 0);
    *out = NULL;
    struct etl__run_writer *writer = etl__alloc_zeroed(memory, sizeof *writer);
    if (writer == NULL)
        return etl__fail_memory(error, sizeof *writer, "a run writer");
    writer->buffer = etl__alloc(memory, buffer_size);
    if (writer->buffer == NULL) {
        etl__free(memory, writer, sizeof *writer);
        return etl__fail_memory(error, buffer_size, "a write buffer");
    }
    writer->buffer_size = buffer_size;
    writer->descriptor = -1;
    writer->memory = memory;
    writer->disk = writer->own_disk = disk;
    writer->cancel = cancel;
    *out = writer;
    return ETL_OK;
}

void etl__run_writer_destroy(struct etl__run_writer *writer) {
    if (writer == NULL)
        return;
    etl__run_writer_abandon(writer);
    etl__free(writer->memory, writer->buffer, writer->buffer_size);
    etl__free(writer->memory, writer, sizeof *writer);
}

/* Disk for the whole run at once is faster than block by block. Where there is too little, the
 * writes will tell: `expected` may be more than the run comes to. Not under a disk limit: what
 * several writers reserve at the same time is in no account, and could pass it. */
static void reserve(struct etl__run_writer *writer) {
    uint64_t blocks = (writer->table_at + ETL__RUN_BLOCK - 1) / ETL__RUN_BLOCK;
    uint64_t size = writer->table_at + blocks * ETL__RUN_TABLE_ENTRY + ETL__RUN_FOOTER_SIZE;
    writer->extent = size; /* at most */
    if (writer->disk->limit == 0)
        (void)etl__os_allocate(writer->descriptor, 0, size);
}

static int check_expected(uint64_t expected, const char *place, struct etl__error *error) {
    return expected <= (uint64_t)INT64_MAX / 2
               ? ETL_OK
               : etl__fail(error, ETL_E_NOSPACE, "reserve %llu bytes for a run in %s",
                           (unsigned long long)expected, place);
}

/* The descriptor, the place and the disk are set. */
static void begin(struct etl__run_writer *writer, uint64_t expected) {
    writer->table_at = ETL__RUN_HEADER_SIZE + expected;
    reserve(writer);
    etl__run_header_encode(writer->buffer);
    writer->at = writer->buffer + ETL__RUN_HEADER_SIZE;
    writer->block_end = writer->buffer + ETL__RUN_BLOCK;
    writer->block_first = ETL__RUN_HEADER_SIZE;
    writer->previous = 0;
    writer->pairs = writer->key_bytes = writer->long_heads = writer->last_across = 0;
    writer->record_most = SHORT_RECORD;
    writer->base = 0;
    writer->table_bytes = 0;
    writer->piece_bytes = 0;
    writer->table_crc = 0;
    writer->flags = 0;
}

int etl__run_writer_open(struct etl__run_writer *writer, const char *directory, const char *label,
                         uint64_t expected, struct etl__error *error) {
    assert(writer->descriptor < 0 && writer->charged == 0);
    ETL__TRY(check_expected(expected, directory, error));
    int os_error = etl__os_temp_open(directory, label, &writer->descriptor);
    if (os_error != 0) {
        writer->descriptor = -1;
        return etl__fail_os(error, os_error, "make a temporary file in", directory);
    }
    writer->borrowed = false;
    writer->disk = writer->own_disk;
    writer->place = directory;
    begin(writer, expected);
    return ETL_OK;
}

int etl__run_writer_open_file(struct etl__run_writer *writer, int descriptor, const char *path,
                              struct etl__disk *disk, uint64_t expected,
                              struct etl__error *error) {
    assert(writer->descriptor < 0 && writer->charged == 0);
    ETL__TRY(check_expected(expected, path, error));
    writer->descriptor = descriptor;
    writer->borrowed = true;
    writer->disk = disk;
    writer->place = path;
    begin(writer, expected);
    return ETL_OK;
}

void etl__run_writer_values_ascend(struct etl__run_writer *writer) {
    writer->flags = ETL__RUN_VALUES_ASCEND;
}

/* File offset of the last record. The common path of append does not note it (it is bound by the
 * number of its stores): what it wrote last is found from the last block's first record on. */
static uint64_t find_last_record(const struct etl__run_writer *writer) {
    const uint8_t *block = writer->block_end - ETL__RUN_BLOCK;
    if (writer->block_first >= (size_t)(writer->at - block)) /* or ETL__NO_RECORD */
        return writer->last_across;
    const uint8_t *record = block + writer->block_first, *next = record;
    while (next < writer->at) {
        struct etl__pair pair;
        record = next;
        etl__record_view(record, &pair);
        next = pair.key + pair.key_size + pair.value_size;
    }
    return writer->base + (uint64_t)(record - writer->buffer);
}

/* The last block, and what is in the buffer. */
static int finish_data(struct etl__run_writer *writer, uint64_t *last_record,
                       struct etl__error *error) {
    *last_record = find_last_record(writer);
    const uint8_t *block = writer->block_end - ETL__RUN_BLOCK;
    size_t size = (size_t)(writer->at - block);
    if (size != 0) { /* 0: the last record was written through, up to a block's end */
        uint32_t first = writer->block_first == size ? ETL__NO_RECORD : writer->block_first;
        ETL__TRY(table_append(writer, block, size, first,
                              writer->base + (uint64_t)(writer->at - writer->buffer), error));
    }
    return flush_buffer(writer, error);
}

/* The table moves behind the data, its last piece and the footer follow, the rest is cut off. */
static int finish_file(struct etl__run_writer *writer, uint64_t last_record,
                       struct etl__error *error) {
    uint64_t data_end = writer->base;
    uint64_t heads = 2 * writer->pairs + writer->long_heads;
    ETL__TRY(table_move(writer, data_end, writer->buffer, writer->buffer_size, error));
    struct etl__run_footer footer = {
        .data_end = data_end,
        .blocks = (writer->table_bytes + writer->piece_bytes) / ETL__RUN_TABLE_ENTRY,
        .pairs = writer->pairs,
        .key_bytes = writer->key_bytes,
        .value_bytes = data_end - ETL__RUN_HEADER_SIZE - heads - writer->key_bytes,
        .first_record = ETL__RUN_HEADER_SIZE,
        .last_record = writer->pairs != 0 ? last_record : data_end,
        .record_most = writer->pairs != 0 ? writer->record_most : 0,
        .table_crc = etl__crc32c(writer->table_crc, writer->piece, writer->piece_bytes),
        .flags = writer->flags};
    etl__run_footer_encode(writer->piece + writer->piece_bytes, &footer);
    size_t rest = writer->piece_bytes + ETL__RUN_FOOTER_SIZE;
    uint64_t rest_at = data_end + writer->table_bytes;
    ETL__TRY(charge(writer, rest, error));
    ETL__TRY(write_at(writer, writer->piece, rest, rest_at, error));
    if (writer->extent > rest_at + rest) {
        int os_error = etl__os_truncate(writer->descriptor, rest_at + rest);
        if (os_error != 0)
            return etl__fail_os(error, os_error, "cut to its length a run in", writer->place);
    }
    return ETL_OK;
}

static int finish(struct etl__run_writer *writer, struct etl__error *error) {
    uint64_t last_record;
    ETL__TRY(finish_data(writer, &last_record, error));
    return finish_file(writer, last_record, error);
}

int etl__run_writer_close(struct etl__run_writer *writer, etl_access access, struct etl__run **run,
                          struct etl__error *error) {
    assert(writer->descriptor >= 0 && !writer->borrowed);
    *run = NULL;
    int status = finish(writer, error);
    if (status == ETL_OK) {
        int descriptor = writer->descriptor;
        writer->descriptor = -1; /* passes to the run, also on failure */
        status = etl__run_open(run, writer->memory, descriptor, access, writer->place, error);
    }
    if (status == ETL_OK)
        writer->charged = 0; /* the caller's now */
    else
        etl__run_writer_abandon(writer);
    return status;
}

int etl__run_writer_finish(struct etl__run_writer *writer, struct etl__error *error) {
    assert(writer->descriptor >= 0 && writer->borrowed);
    int status = finish(writer, error);
    if (status != ETL_OK) {
        etl__run_writer_abandon(writer);
        return status;
    }
    writer->descriptor = -1;
    writer->finished = writer->charged;
    writer->charged = 0;
    writer->disk = writer->own_disk;
    return ETL_OK;
}

void etl__run_writer_abandon(struct etl__run_writer *writer) {
    if (writer->descriptor >= 0 && !writer->borrowed)
        etl__os_close(writer->descriptor);
    writer->descriptor = -1;
    etl__disk_give(writer->disk, writer->charged);
    writer->charged = 0;
    writer->disk = writer->own_disk;
}

uint64_t etl__run_writer_written(const struct etl__run_writer *writer) {
    return writer->written;
}

uint64_t etl__run_writer_finished(const struct etl__run_writer *writer) {
    return writer->finished;
}
