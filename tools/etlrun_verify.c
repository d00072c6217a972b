/* etlrun_verify.c: is a run file what its writer wrote?
 *
 * Checksums, lengths, order and the number of pairs are checked by whom they always are: the
 * library's reader, and run_file.c. Here stand the checks that only a tool makes, as they cost a
 * look at every record and a wrong answer harms nobody who merges: the sums of sizes, the longest
 * record, the last one's place, and where the table says that the first record of each block begins.
 *
 * When a checksum is wrong, the blocks from there on are gone through for others, so that one run
 * tells how much is lost. */
#include "run_file.h"

#include <getopt.h>

enum { BLOCK = ETL__RUN_BLOCK, ENTRY = ETL__RUN_TABLE_ENTRY, CACHED = 512, DAMAGE_TOLD = 10 };

/* What the records say, to be held against footer and table. */
struct sums {
    uint64_t key_bytes, value_bytes, last_record;
    uint64_t blocks;    /* of the table, checked so far */
    uint64_t cached_to; /* entries of blocks before this one are in cache, up to CACHED of them */
    uint8_t cache[CACHED * ENTRY];
};

/* The table's next entries, up to that of the block in which a record begins, which is the first
 * to begin there; at the end there is none: first is ETL__NO_RECORD, and all that is left is
 * looked at. EXIT_… */
static int check_entries(struct run_file *file, struct sums *sums, uint64_t block,
                         uint32_t first) {
    const struct etl__run *run = file->run;
    for (; sums->blocks <= block && sums->blocks < run->footer.blocks; sums->blocks++) {
        const uint8_t *entries;
        if (sums->blocks == sums->cached_to) {
            uint64_t left = run->footer.blocks - sums->blocks;
            uint64_t count = left < CACHED ? left : CACHED;
            int status =
                etl__run_table(run, sums->blocks, count, sums->cache, &entries, &file->error);
            if (status != ETL_OK)
                return run_file_failed(file, status);
            sums->cached_to += count;
        }
        uint32_t expected = sums->blocks == block ? first : ETL__NO_RECORD;
        if (etl__get_u32(sums->cache + sums->blocks % CACHED * ENTRY + 4) != expected)
            return run_file_damaged(file, run->footer.data_end + sums->blocks * ENTRY,
                                    "the table's first record of a block");
    }
    return EXIT_SUCCESS;
}

static int check_record(struct run_file *file, struct sums *sums) {
    sums->key_bytes += file->pair.key_size;
    sums->value_bytes += file->pair.value_size;
    sums->last_record = file->start;
    if (file->end - file->start > file->run->footer.record_most)
        return run_file_damaged(file, file->start, "a record longer than the longest");
    if (file->start / BLOCK < sums->blocks)
        return EXIT_SUCCESS;
    return check_entries(file, sums, file->start / BLOCK, (uint32_t)(file->start % BLOCK));
}

static int check_footer(struct run_file *file, struct sums *sums) {
    const struct etl__run_footer *footer = &file->run->footer;
    uint64_t at = file->run->file_size - ETL__RUN_FOOTER_SIZE;
    int status = check_entries(file, sums, UINT64_MAX, ETL__NO_RECORD);
    if (status != EXIT_SUCCESS)
        return status;
    if (sums->key_bytes != footer->key_bytes || sums->value_bytes != footer->value_bytes)
        return run_file_damaged(file, at, "bytes of keys and values");
    if (sums->last_record != footer->last_record)
        return run_file_damaged(file, at, "position of the last record");
    if (footer->pairs == 0 && footer->record_most != 0)
        return run_file_damaged(file, at, "the longest of no records");
    return EXIT_SUCCESS;
}

/* Blocks whose checksum is wrong, from the one on in which the reader failed; all before it were
 * right. How many there are, each told, and the number of those that are too many to tell. */
static uint64_t find_damage(struct run_file *file) {
    const struct etl__run *run = file->run;
    static uint8_t block[BLOCK];
    uint64_t found = 0;
    for (uint64_t i = file->end / BLOCK; i < run->footer.blocks; i++) {
        uint8_t bytes[ENTRY];
        const uint8_t *entry;
        size_t size = etl__run_block_size(run, i);
        int status = etl__run_table(run, i, 1, bytes, &entry, &file->error);
        if (status == ETL_OK)
            status = etl__run_read(run, i * BLOCK, block, size, &file->error);
        if (status != ETL_OK || etlrun_console.interrupted)
            break;
        status = etl__run_check_block(run, i, block, entry, &file->error);
        if (status != ETL_OK && ++found <= DAMAGE_TOLD)
            run_file_failed(file, status);
        etlrun_progress(file->name, i * BLOCK + size, run->footer.data_end);
    }
    if (found > DAMAGE_TOLD)
        console_complain(&etlrun_console, "%s: damaged: %" PRIu64 " blocks more", file->name,
                         found - DAMAGE_TOLD);
    return found;
}

static int check_records(struct run_file *file, struct sums *sums) {
    int status, result = EXIT_SUCCESS;
    while (result == EXIT_SUCCESS && (status = run_file_next(file)) != ETL_END) {
        if (status == ETL_OK) {
            result = check_record(file, sums);
            continue;
        }
        struct etl__error error = file->error;
        if (status == ETL_E_CORRUPT && find_damage(file) != 0)
            return EXIT_NO;
        file->error = error;
        return run_file_failed(file, status);
    }
    return result;
}

static int verify(const char *name, bool quiet) {
    struct run_file file;
    int status = run_file_open(&file, name);
    if (status != EXIT_SUCCESS)
        return status;
    struct sums sums = {.last_record = file.run->footer.data_end}; /* as where there is none */
    status = check_records(&file, &sums);
    if (status == EXIT_SUCCESS)
        status = check_footer(&file, &sums);
    if (status == EXIT_SUCCESS && !quiet) {
        etlrun_out_string(name);
        etlrun_out_string(": ok\n");
    }
    run_file_close(&file);
    return status;
}

int etlrun_verify(int argc, char **argv) {
    static const struct option options[] = {{"quiet", no_argument, NULL, 'q'},
                                            ETLRUN_COMMON_OPTIONS};
    bool quiet = false;
    for (int option; (option = getopt_long(argc, argv, "q", options, NULL)) != -1;) {
        int end = -1;
        if (option == 'q')
            quiet = true;
        else
            end = etlrun_common_option(option, "verify");
        if (end != -1)
            return end;
    }
    if (optind == argc)
        return etlrun_usage("verify", "no file was given");
    int status = EXIT_SUCCESS;
    for (int i = optind; i < argc && !etlrun_console.interrupted; i++)
        status = etlrun_worse(status, verify(argv[i], quiet));
    return status;
}
