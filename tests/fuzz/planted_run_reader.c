/* planted_run_reader.c: a bug for the fuzzer to find, linked before etl__run_check_block by
 * --wrap: the last block is taken on trust. */
#include "run.h"

int __real_etl__run_check_block(const struct etl__run *run, uint64_t block, const uint8_t *data,
                                const uint8_t *entry, struct etl__error *error);
int __wrap_etl__run_check_block(const struct etl__run *run, uint64_t block, const uint8_t *data,
                                const uint8_t *entry, struct etl__error *error);

int __wrap_etl__run_check_block(const struct etl__run *run, uint64_t block, const uint8_t *data,
                                const uint8_t *entry, struct etl__error *error) {
    if (block + 1 == run->footer.blocks)
        return ETL_OK;
    return __real_etl__run_check_block(run, block, data, entry, error);
}
