/* key.c: helpers for keys that are no part of sorting. */
#include "etl.h"

int etl_prefix_end(etl_slice prefix, void *end, size_t *end_size) {
    if (end_size == NULL || (prefix.size != 0 && (prefix.data == NULL || end == NULL)))
        return ETL_E_INVALID;
    const uint8_t *from = prefix.data;
    uint8_t *to = end;
    size_t size = prefix.size;
    while (size > 0 && from[size - 1] == 0xFF)
        size--;
    *end_size = size;
    if (size == 0)
        return ETL_END;
    memmove(to, from, size);
    to[size - 1]++;
    return ETL_OK;
}
