/* provider.c: what every provider does when a pair is not simply there. */
#include "provider.h"

int etl__provider_read_slow(struct etl__provider *provider, struct etl__pair *pair,
                            struct etl__error *error) {
    uint64_t need = 0;
    for (;;) {
        if (provider->entry < provider->entry_end)
            return etl__provider_read(provider, pair, error);
        if (provider->at < provider->end) {
            const uint8_t *next = etl__record_read(provider->at, provider->end, pair, &need);
            if (next != NULL) {
                provider->at = next;
                return ETL_OK;
            }
        }
        ETL__TRY(provider->refill(provider, need, error));
    }
}
