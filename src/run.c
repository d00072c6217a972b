/* run.c: a finished run, opened and checked.
 *
 * Opening reads header, footer and table once through the descriptor, a few KiB at a time, and so
 * touches one byte in two thousand; the records are checked block by block when a provider enters
 * them. Then the file is mapped and its descriptor closed, so that the number of runs is not
 * bounded by descriptors; where the system refuses the mapping (address space, number of mappings)
 * the descriptor stays and the run is read. A file that is shorter than it was is ETL_E_CORRUPT
 * when it is read; behind a mapping it would be SIGBUS, which is why reading can be asked for, and
 * why files with a name are only mapped when that is.
 *
 * Memory: the struct, and the path of a file that has one. */
#include "run.h"
#include "crc32c.h"
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { PIECE = 4096, PIECE_ENTRIES = PIECE / ETL__RUN_TABLE_ENTRY };

int etl__run_corrupt(const struct etl__run *run, uint64_t offset, const char *what,
                     struct etl__error *error) {
    unsigned long long at = offset, of = run->file_size;
    char block[32] = "";
    if (offset < run->footer.data_end)
        snprintf(block, sizeof block, ", block %llu", at / ETL__RUN_BLOCK);
    if (run->path != NULL)
        return etl__fail(
            error, ETL_E_CORRUPT,
            "the run file %s is damaged: %s at offset %llu of %llu%s: save it anew or "
            "take another copy",
            run->path, what, at, of, block);
    return etl__fail(error, ETL_E_CORRUPT, "a run in %s is damaged: %s at offset %llu of %llu%s",
                     run->place, what, at, of, block);
}

int etl__run_read(const struct etl__run *run, uint64_t offset, void *data, size_t size,
                  struct etl__error *error) {
    size_t done;
    int os_error = etl__os_read(run->descriptor, data, size, offset, &done);
    if (os_error != 0) {
        char operation[96];
        snprintf(operation, sizeof operation, "read %zu bytes at %llu of a run in", size,
                 (unsigned long long)offset);
        return etl__fail_os(error, os_error, operation, run->place);
    }
    if (done != size)
        return etl__run_corrupt(run, offset + done, "the file ends", error);
    return ETL_OK;
}

size_t etl__run_block_size(const struct etl__run *run, uint64_t block) {
    uint64_t left = run->footer.data_end - block * ETL__RUN_BLOCK;
    return left < ETL__RUN_BLOCK ? (size_t)left : ETL__RUN_BLOCK;
}

int etl__run_table(const struct etl__run *run, uint64_t first, uint64_t count, uint8_t *bytes,
                   const uint8_t **entries, struct etl__error *error) {
    assert(first + count <= run->footer.blocks);
    uint64_t offset = run->footer.data_end + first * ETL__RUN_TABLE_ENTRY;
    if (run->map != NULL) {
        *entries = run->map + offset;
        return ETL_OK;
    }
    *entries = bytes;
    return etl__run_read(run, offset, bytes, (size_t)count * ETL__RUN_TABLE_ENTRY, error);
}

int etl__run_check_block(const struct etl__run *run, uint64_t block, const uint8_t *data,
                         const uint8_t *entry, struct etl__error *error) {
    if (ETL__LIKELY(etl__crc32c(0, data, etl__run_block_size(run, block)) == etl__get_u32(entry)))
        return ETL_OK;
    return etl__run_corrupt(run, block * ETL__RUN_BLOCK, "checksum of the block", error);
}

int etl__run_record_at_block(const struct etl__run *run, uint64_t block, uint64_t *offset,
                             struct etl__error *error) {
    uint8_t bytes[PIECE];
    while (block < run->footer.blocks) {
        uint64_t count = run->footer.blocks - block;
        const uint8_t *entry;
        if (count > PIECE_ENTRIES)
            count = PIECE_ENTRIES;
        ETL__TRY(etl__run_table(run, block, count, bytes, &entry, error));
        for (; count != 0; count--, block++, entry += ETL__RUN_TABLE_ENTRY) {
            uint32_t first = etl__get_u32(entry + 4);
            if (first == ETL__NO_RECORD)
                continue;
            *offset = block * ETL__RUN_BLOCK + first;
            if (first >= etl__run_block_size(run, block) || *offset < ETL__RUN_HEADER_SIZE)
                return etl__run_corrupt(run, run->footer.data_end + block * ETL__RUN_TABLE_ENTRY,
                                        "position of a record in the table", error);
            return ETL_OK;
        }
    }
    *offset = run->footer.data_end;
    return ETL_OK;
}

static int check_table(const struct etl__run *run, struct etl__error *error) {
    uint8_t piece[PIECE];
    uint32_t crc = 0;
    uint64_t at = run->footer.data_end, end = run->file_size - ETL__RUN_FOOTER_SIZE;
    while (at < end) {
        size_t size = end - at < PIECE ? (size_t)(end - at) : PIECE;
        ETL__TRY(etl__run_read(run, at, piece, size, error));
        crc = etl__crc32c(crc, piece, size);
        at += size;
    }
    if (crc != run->footer.table_crc)
        return etl__run_corrupt(run, run->footer.data_end, "checksum of the table", error);
    return ETL_OK;
}

static int check_ends(struct etl__run *run, struct etl__error *error) {
    uint8_t header[ETL__RUN_HEADER_SIZE] = {0}, bytes[ETL__RUN_FOOTER_SIZE];
    struct etl__run_footer footer;
    const char *reason;
    int os_error = etl__os_file_size(run->descriptor, &run->file_size);
    if (os_error != 0)
        return etl__fail_os(error, os_error, "ask for the size of a run in", run->place);
    size_t size = run->file_size < sizeof header ? (size_t)run->file_size : sizeof header;
    ETL__TRY(etl__run_read(run, 0, header, size, error));
    if (run->path != NULL && !etl__run_header_has_magic(header, size))
        return etl__fail(error, ETL_E_CORRUPT, "%s is not a run file, or its beginning is damaged",
                         run->place);
    if (run->file_size < ETL__RUN_HEADER_SIZE + ETL__RUN_FOOTER_SIZE)
        return etl__run_corrupt(run, run->file_size, "the file ends", error);
    uint32_t version;
    if (run->path != NULL && etl__run_header_is_newer(header, &version))
        return etl__fail(
            error, ETL_E_INVALID,
            "the run file %s has version %u of the format, and this libetl (%s) reads "
            "version %u: take a newer libetl",
            run->place, (unsigned)version, etl_version(), ETL__RUN_VERSION);
    if (!etl__run_header_decode(header, &reason))
        return etl__run_corrupt(run, 0, reason, error);
    uint64_t at = run->file_size - ETL__RUN_FOOTER_SIZE;
    ETL__TRY(etl__run_read(run, at, bytes, sizeof bytes, error));
    if (!etl__run_footer_decode(bytes, run->file_size, &footer, &reason))
        return etl__run_corrupt(run, at, reason, error);
    run->footer = footer;
    return check_table(run, error);
}

/* A run of this descriptor, which it takes over in any case. */
static int begin_run(struct etl__run **out, struct etl__memory *memory, int descriptor,
                     const char *place, struct etl__error *error) {
    *out = NULL;
    struct etl__run *run = etl__alloc_zeroed(memory, sizeof *run);
    if (run == NULL) {
        etl__os_close(descriptor);
        return etl__fail_memory(error, sizeof *run, "a run");
    }
    run->descriptor = descriptor;
    run->place = place;
    *out = run;
    return ETL_OK;
}

/* Map it and close the descriptor; where mapping is refused it stays open. */
static int map_run(struct etl__run *run, struct etl__error *error) {
    if (run->file_size > PTRDIFF_MAX ||
        etl__os_map_file(run->descriptor, (size_t)run->file_size, &run->map) != 0) {
        run->map = NULL;
        return ETL_OK;
    }
    int descriptor = run->descriptor;
    run->descriptor = -1;
    int os_error = etl__os_close(descriptor);
    if (os_error != 0) /* of a write that was only now carried out */
        return etl__fail_os(error, os_error, "close a run in", run->place);
    return ETL_OK;
}

/* On failure the run is closed. */
static int check_and_map(struct etl__run **out, struct etl__memory *memory, bool map,
                         struct etl__error *error) {
    struct etl__run *run = *out;
    int status = check_ends(run, error);
    if (status == ETL_OK && map)
        status = map_run(run, error);
    if (status != ETL_OK) {
        etl__run_close(run, memory);
        *out = NULL;
    } else if (run->map == NULL) {
        etl__os_read_ahead(run->descriptor, 0, 0);
    }
    return status;
}

int etl__run_open(struct etl__run **out, struct etl__memory *memory, int descriptor,
                  etl_access access, const char *directory, struct etl__error *error) {
    ETL__TRY(begin_run(out, memory, descriptor, directory, error));
    return check_and_map(out, memory, access != ETL_ACCESS_READ, error);
}

static int open_saved(const char *path, int *descriptor, struct etl__error *error) {
    int os_error = etl__os_open_regular(path, descriptor);
    if (os_error == EISDIR || os_error == EINVAL)
        return etl__fail(error, ETL_E_INVALID, "%s is %s, not a run file", path,
                         os_error == EISDIR ? "a directory" : "not a regular file");
    return os_error == 0 ? ETL_OK : etl__fail_os(error, os_error, "open the run file", path);
}

int etl__run_open_named(struct etl__run **out, struct etl__memory *memory, const char *path,
                        bool map, struct etl__error *error) {
    int descriptor;
    *out = NULL;
    ETL__TRY(open_saved(path, &descriptor, error));
    size_t size = strlen(path) + 1;
    char *copy = etl__alloc(memory, size);
    if (copy == NULL) {
        etl__os_close(descriptor);
        return etl__fail_memory(error, size, "the path of a run");
    }
    memcpy(copy, path, size);
    int status = begin_run(out, memory, descriptor, copy, error);
    if (status != ETL_OK) {
        etl__free(memory, copy, size);
        return status;
    }
    (*out)->path = copy;
    return check_and_map(out, memory, map, error);
}

void etl__run_close(struct etl__run *run, struct etl__memory *memory) {
    if (run == NULL)
        return;
    const uint8_t *map = run->map;
    size_t size = (size_t)run->file_size;
    if (run->path != NULL)
        etl__free(memory, run->path, strlen(run->path) + 1);
    if (run->descriptor >= 0)
        etl__os_close(run->descriptor);
    if (map != NULL && etl__os_unmap_file(map, size) != 0)
        etl__unmap_later(memory, map, size, run, sizeof *run);
    else
        etl__free(memory, run, sizeof *run);
}
