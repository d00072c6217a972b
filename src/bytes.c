/* bytes.c: a growing array, doubling. */
#include "bytes.h"

void etl__bytes_init(struct etl_bytes *bytes, struct etl__memory *memory) {
    *bytes = (struct etl_bytes){.memory = memory};
}

void etl__bytes_end(struct etl_bytes *bytes) {
    etl__free(bytes->memory, bytes->data, bytes->capacity);
    etl__bytes_init(bytes, bytes->memory);
}

int etl_bytes_append(etl_bytes *bytes, const void *data, size_t size) {
    if (bytes == NULL || (data == NULL && size != 0))
        return ETL_E_INVALID;
    if (size > ETL_SIZE_MAX - bytes->size)
        return ETL_E_TOO_LARGE;
    if (size == 0)
        return ETL_OK;
    if (!etl__grow(bytes->memory, (void **)&bytes->data, &bytes->capacity, bytes->size + size, 1))
        return ETL_E_NOMEM;
    memcpy(bytes->data + bytes->size, data, size);
    bytes->size += size;
    return ETL_OK;
}

etl_slice etl__bytes_slice(const struct etl_bytes *bytes) {
    return etl_slice_of(bytes->size != 0 ? (const void *)bytes->data : "", bytes->size);
}
