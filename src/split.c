/* split.c: cutting what several collectors hold, by the keys that quantile.c finds. */
#include "handle.h"
#include "quantile.h"

enum { SAMPLES_PER_PART = 32 };

void etl__split_free(struct etl_collector *collector) {
    etl__kept_keys_free(&collector->store.memory, collector->split_keys);
    collector->split_keys = NULL;
}

int etl_split(etl_collector *const *collectors, size_t count, size_t parts, etl_slice *keys,
              size_t *key_count) {
    if (key_count == NULL)
        return ETL_E_INVALID;
    *key_count = 0;
    if (count == 0 || !etl__are_collectors(collectors, count) || parts == 0 ||
        (keys == NULL && parts > 1))
        return ETL_E_INVALID;
    struct etl__merge merge;
    ETL__TRY(etl__enter(collectors, count, true));
    int status = etl__open_merge(&merge, collectors, count, NULL);
    if (status == ETL_OK) {
        etl_collector *first = collectors[0];
        status = etl__quantiles(&merge, parts, SAMPLES_PER_PART, keys, key_count,
                                &first->split_keys, &first->error);
        etl__merge_close(&merge);
    }
    return etl__leave(collectors, count, status);
}
