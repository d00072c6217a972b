/* dealt_support.h: for the tests of dealt buffers: their keys, and pairs put into their buckets. */
#ifndef LIBETL_TESTS_DEALT_SUPPORT_H
#define LIBETL_TESTS_DEALT_SUPPORT_H

#include "partition_support.h"
#include "source_support.h"

/* As collecting does. */
static inline int put_any(struct etl__buffer *buffer, etl_slice key, etl_slice value) {
    if (buffer->partition == NULL)
        return put(buffer, key, value);
    struct etl__bucket *bucket;
    size_t size = record_size(key.size, value);
    if (!etl__buffer_has_room(buffer, key.data, key.size, size, &bucket)) {
        uint32_t index = (uint32_t)(bucket - buffer->partition->buckets);
        int status = etl__buffer_extend_bucket(buffer, index, size);
        if (status != ETL_OK)
            return status;
        assert_true(etl__buffer_has_room(buffer, key.data, key.size, size, &bucket));
    }
    uint8_t *to = etl__bucket_place(buffer, bucket, key.size,
                                    etl__value_code(value.data == NULL, value.size), value.size);
    if (key.size != 0)
        memcpy(to, key.data, key.size);
    if (value.size != 0)
        memcpy(to + key.size, value.data, value.size);
    assert_true(bucket->at <= bucket->end);
    return ETL_OK;
}

#endif
