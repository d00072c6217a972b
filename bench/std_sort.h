/* std_sort.h: C++'s std::sort for bench_sort, which is C. */
#ifndef LIBETL_BENCH_STD_SORT_H
#define LIBETL_BENCH_STD_SORT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Laid out as the library's own entries. */
struct bench_entry {
    uint64_t prefix;
    uint32_t position; /* of the record in the records */
    uint32_t key_size;
};

/* Where the entries' keys are. */
struct bench_records {
    const unsigned char *bytes;
    size_t head_size; /* in front of each key */
};

/* The textbook comparison: by prefixes, then by keys, then by positions. */
static inline int bench_entry_compare(const struct bench_records *records,
                                      const struct bench_entry *a, const struct bench_entry *b) {
    if (a->prefix != b->prefix)
        return a->prefix < b->prefix ? -1 : 1;
    const unsigned char *keys = records->bytes + records->head_size;
    size_t shared = a->key_size < b->key_size ? a->key_size : b->key_size;
    int order = memcmp(keys + a->position, keys + b->position, shared);
    if (order == 0)
        order = (a->key_size > b->key_size) - (a->key_size < b->key_size);
    return order != 0 ? order : (a->position > b->position) - (a->position < b->position);
}

#ifdef __cplusplus
extern "C" {
#endif
void std_sort(const struct bench_records *records, struct bench_entry *entries, size_t count);
#ifdef __cplusplus
}
#endif

#endif
