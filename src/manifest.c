/* manifest.c: the manifest, byte by byte.
 *
 * Reading trusts nothing: the header's sums are checked against the size of the file before
 * anything is allocated, so that no number of a damaged file takes memory, and the checksum at the
 * end covers the whole. A newer version may lay out everything but magic, version and the header's
 * checksum differently, which is why those are looked at first, and in this order: a flipped bit
 * in the version is damage, not a newer version. */
#include "manifest.h"
#include "crc32c.h"
#include "os.h"
#include "run_format.h"

static const uint8_t magic[8] = {0x89, 'E', 'T', 'L', 'C', 'K', 'P', '\n'};

enum {
    AT_VERSION = 8,
    AT_DUPLICATES = 12,
    AT_ORDER_VALUES = 16,
    AT_RESERVED = 20,
    AT_NUMBER = 24,
    AT_NEXT_FILE = 32,
    AT_PAIRS = 40,
    AT_KEY_BYTES = 48,
    AT_VALUE_BYTES = 56,
    AT_RUN_COUNT = 64,
    AT_TOKEN_SIZE = 72,
    AT_GAP = 80,
    AT_CRC = ETL__MANIFEST_HEADER - 4,
    RUN_FILE = 0,
    RUN_SIZE = 8,
    RUN_PAIRS = 16,
    RUN_CRC = 24,
    RUN_GAP = 28,
    PIECE_RUNS = 64
};

/* ---- Writing ---- */

struct output {
    int descriptor;
    const char *path;
    uint64_t at;
    uint32_t crc;
};

static int put(struct output *output, const void *data, size_t size, struct etl__error *error) {
    int os_error = etl__os_write(output->descriptor, data, size, output->at);
    if (os_error != 0)
        return etl__fail_os(error, os_error, "write", output->path);
    output->crc = etl__crc32c(output->crc, data, size);
    output->at += size;
    return ETL_OK;
}

static void encode_header(uint8_t bytes[ETL__MANIFEST_HEADER],
                          const struct etl__manifest *manifest) {
    memset(bytes, 0, ETL__MANIFEST_HEADER);
    memcpy(bytes, magic, sizeof magic);
    etl__put_u32(bytes + AT_VERSION, ETL__MANIFEST_VERSION);
    etl__put_u32(bytes + AT_DUPLICATES, (uint32_t)manifest->duplicates);
    etl__put_u32(bytes + AT_ORDER_VALUES, manifest->order_values);
    etl__put_u64(bytes + AT_NUMBER, manifest->number);
    etl__put_u64(bytes + AT_NEXT_FILE, manifest->next_file);
    etl__put_u64(bytes + AT_PAIRS, manifest->pairs);
    etl__put_u64(bytes + AT_KEY_BYTES, manifest->key_bytes);
    etl__put_u64(bytes + AT_VALUE_BYTES, manifest->value_bytes);
    etl__put_u64(bytes + AT_RUN_COUNT, manifest->run_count);
    etl__put_u64(bytes + AT_TOKEN_SIZE, manifest->token.size);
    etl__put_u32(bytes + AT_CRC, etl__crc32c(0, bytes, AT_CRC));
}

static void encode_run(uint8_t bytes[ETL__MANIFEST_RUN], const struct etl__manifest_run *run) {
    etl__put_u64(bytes + RUN_FILE, run->file);
    etl__put_u64(bytes + RUN_SIZE, run->size);
    etl__put_u64(bytes + RUN_PAIRS, run->pairs);
    etl__put_u32(bytes + RUN_CRC, run->table_crc);
    etl__put_u32(bytes + RUN_GAP, 0);
}

int etl__manifest_write(const struct etl__manifest *manifest, int descriptor, const char *path,
                        struct etl__error *error) {
    struct output output = {.descriptor = descriptor, .path = path};
    uint8_t header[ETL__MANIFEST_HEADER], runs[PIECE_RUNS * ETL__MANIFEST_RUN],
        end[ETL__MANIFEST_END];
    encode_header(header, manifest);
    ETL__TRY(put(&output, header, sizeof header, error));
    for (size_t i = 0; i < manifest->run_count;) {
        size_t count = 0;
        for (; count < PIECE_RUNS && i < manifest->run_count; count++, i++)
            encode_run(runs + count * ETL__MANIFEST_RUN, &manifest->runs[i]);
        ETL__TRY(put(&output, runs, count * ETL__MANIFEST_RUN, error));
    }
    if (manifest->token.size != 0)
        ETL__TRY(put(&output, manifest->token.data, manifest->token.size, error));
    etl__put_u32(end, output.crc);
    return put(&output, end, sizeof end, error);
}

/* ---- Reading ---- */

struct input {
    int descriptor;
    const char *path;
    uint64_t at, size;
    uint32_t crc;
};

static int corrupt(const struct input *input, const char *what, struct etl__error *error) {
    return etl__fail(error, ETL_E_CORRUPT, "%s is damaged: %s (%llu bytes)", input->path, what,
                     (unsigned long long)input->size);
}

static int read_bytes(struct input *input, void *data, size_t size, struct etl__error *error) {
    size_t done;
    int os_error = etl__os_read(input->descriptor, data, size, input->at, &done);
    if (os_error != 0)
        return etl__fail_os(error, os_error, "read", input->path);
    if (done != size)
        return corrupt(input, "the file ends", error);
    input->crc = etl__crc32c(input->crc, data, size);
    input->at += size;
    return ETL_OK;
}

/* The numbers of the header, against each other and the size of the file. */
static int check_header(const struct input *input, const uint8_t *bytes,
                        struct etl__manifest *manifest, struct etl__error *error) {
    uint32_t duplicates = etl__get_u32(bytes + AT_DUPLICATES),
             order_values = etl__get_u32(bytes + AT_ORDER_VALUES);
    uint64_t runs = etl__get_u64(bytes + AT_RUN_COUNT),
             token = etl__get_u64(bytes + AT_TOKEN_SIZE);
    if (duplicates > ETL_REJECT || order_values > 1)
        return corrupt(input, "unknown rules", error);
    if (etl__get_u32(bytes + AT_RESERVED) != 0 || etl__get_u64(bytes + AT_GAP) != 0 ||
        etl__get_u32(bytes + AT_GAP + 8) != 0)
        return corrupt(input, "unknown header field", error);
    if (runs > ETL__MANIFEST_MOST_RUNS || token > ETL_TOKEN_MAX ||
        input->size != ETL__MANIFEST_HEADER + runs * ETL__MANIFEST_RUN + token + ETL__MANIFEST_END)
        return corrupt(input, "number of runs or size of the token", error);
    manifest->duplicates = (etl_duplicates)duplicates;
    manifest->order_values = order_values != 0;
    manifest->number = etl__get_u64(bytes + AT_NUMBER);
    manifest->next_file = etl__get_u64(bytes + AT_NEXT_FILE);
    manifest->pairs = etl__get_u64(bytes + AT_PAIRS);
    manifest->key_bytes = etl__get_u64(bytes + AT_KEY_BYTES);
    manifest->value_bytes = etl__get_u64(bytes + AT_VALUE_BYTES);
    manifest->run_count = (size_t)runs;
    manifest->token.size = (size_t)token;
    return ETL_OK;
}

static int read_header(struct input *input, struct etl__manifest *manifest,
                       struct etl__error *error) {
    uint8_t bytes[ETL__MANIFEST_HEADER];
    if (input->size < ETL__MANIFEST_HEADER + ETL__MANIFEST_END)
        return corrupt(input, "the file ends", error);
    ETL__TRY(read_bytes(input, bytes, sizeof bytes, error));
    if (memcmp(bytes, magic, sizeof magic) != 0)
        return corrupt(input, "not a manifest", error);
    if (etl__get_u32(bytes + AT_CRC) != etl__crc32c(0, bytes, AT_CRC))
        return corrupt(input, "header checksum", error);
    uint32_t version = etl__get_u32(bytes + AT_VERSION);
    if (version != ETL__MANIFEST_VERSION)
        return etl__fail(error, ETL_E_INVALID,
                         "%s has format %u, this version of the library reads format %d",
                         input->path, (unsigned)version, ETL__MANIFEST_VERSION);
    return check_header(input, bytes, manifest, error);
}

static int read_runs(struct input *input, struct etl__manifest *manifest,
                     struct etl__error *error) {
    uint8_t bytes[ETL__MANIFEST_RUN];
    for (size_t i = 0; i < manifest->run_count; i++) {
        struct etl__manifest_run *run = &manifest->runs[i];
        ETL__TRY(read_bytes(input, bytes, sizeof bytes, error));
        run->file = etl__get_u64(bytes + RUN_FILE);
        run->size = etl__get_u64(bytes + RUN_SIZE);
        run->pairs = etl__get_u64(bytes + RUN_PAIRS);
        run->table_crc = etl__get_u32(bytes + RUN_CRC);
        if (run->file == 0 || run->file >= manifest->next_file ||
            etl__get_u32(bytes + RUN_GAP) != 0)
            return corrupt(input, "number of a run's file", error);
    }
    return ETL_OK;
}

/* Everything behind the header. */
static int read_rest(struct input *input, struct etl__manifest *manifest, uint8_t *token,
                     struct etl__error *error) {
    uint8_t end[ETL__MANIFEST_END];
    ETL__TRY(read_runs(input, manifest, error));
    if (manifest->token.size != 0)
        ETL__TRY(read_bytes(input, token, manifest->token.size, error));
    uint32_t crc = input->crc;
    ETL__TRY(read_bytes(input, end, sizeof end, error));
    return etl__get_u32(end) == crc ? ETL_OK : corrupt(input, "checksum", error);
}

int etl__manifest_read(struct etl__manifest *manifest, struct etl__memory *memory, int descriptor,
                       const char *path, struct etl__error *error) {
    struct input input = {.descriptor = descriptor, .path = path};
    memset(manifest, 0, sizeof *manifest);
    int os_error = etl__os_file_size(descriptor, &input.size);
    if (os_error != 0)
        return etl__fail_os(error, os_error, "ask for the size of", path);
    ETL__TRY(read_header(&input, manifest, error));
    size_t runs_size = manifest->run_count * sizeof *manifest->runs;
    uint8_t *token = NULL;
    if (runs_size != 0)
        manifest->runs = etl__alloc(memory, runs_size);
    if (manifest->token.size != 0)
        manifest->token.data = token = etl__alloc(memory, manifest->token.size);
    int status = ETL_OK;
    if ((runs_size != 0 && manifest->runs == NULL) || (manifest->token.size != 0 && token == NULL))
        status = etl__fail_memory(error, runs_size + manifest->token.size, "a checkpoint");
    if (status == ETL_OK)
        status = read_rest(&input, manifest, token, error);
    if (status != ETL_OK)
        etl__manifest_free(manifest, memory);
    return status;
}

void etl__manifest_free(struct etl__manifest *manifest, struct etl__memory *memory) {
    if (manifest->runs != NULL)
        etl__free(memory, manifest->runs, manifest->run_count * sizeof *manifest->runs);
    if (manifest->token.data != NULL)
        etl__free(memory, (void *)(uintptr_t)manifest->token.data, manifest->token.size);
    manifest->runs = NULL;
    manifest->run_count = 0;
    manifest->token = etl_slice_of(NULL, 0);
}
