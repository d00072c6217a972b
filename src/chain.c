/* chain.c: interval partitioning over the providers' key ranges.
 *
 * In the order of their first keys, each provider goes behind the first chain that ends below it,
 * or begins a chain: the greedy rule, which needs no more chains than there are providers over any
 * one key. Sorted input gives one chain whatever the number of runs; runs of random keys all
 * overlap and give one each. A run that begins with the key another one ends with does not follow
 * it: ties are the heap's to decide. */
#include "chain.h"

struct key_range {
    etl_slice first, last;
    uint32_t provider;
};

static int compare_keys(etl_slice a, etl_slice b) {
    return etl__key_compare(a.data, a.size, b.data, b.size);
}

/* Put a range into its place among ranges[0..count), by first key. */
static void insert(struct key_range *ranges, size_t count, struct key_range range) {
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare_keys(ranges[middle].first, range.first) <= 0)
            low = middle + 1;
        else
            high = middle;
    }
    memmove(ranges + low + 1, ranges + low, (count - low) * sizeof *ranges);
    ranges[low] = range;
}

static int read_ranges(struct etl__provider *const *providers, size_t count,
                       struct key_range *ranges, size_t *used, struct etl__error *error) {
    *used = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct key_range range = {.provider = i};
        int status = providers[i]->bounds(providers[i], &range.first, &range.last, error);
        if (status == ETL_END)
            continue;
        ETL__TRY(status);
        insert(ranges, (*used)++, range);
    }
    return ETL_OK;
}

int etl__chain(struct etl__memory *memory, struct etl__provider *const *providers, size_t count,
               uint32_t *heads, uint32_t *next, size_t *chains, struct etl__error *error) {
    size_t size = count * (sizeof(struct key_range) + sizeof(etl_slice) + sizeof(uint32_t));
    struct key_range *ranges = etl__alloc(memory, size);
    if (ranges == NULL)
        return etl__fail_memory(error, size, "the runs' key ranges");
    etl_slice *ends = (etl_slice *)(ranges + count);
    uint32_t *tails = (uint32_t *)(ends + count);
    size_t used;
    int status = read_ranges(providers, count, ranges, &used, error);
    *chains = 0;
    for (size_t i = 0; status == ETL_OK && i < used; i++) {
        uint32_t provider = ranges[i].provider;
        size_t chain = 0;
        while (chain < *chains && compare_keys(ends[chain], ranges[i].first) >= 0)
            chain++;
        if (chain == *chains)
            heads[(*chains)++] = provider;
        else
            next[tails[chain]] = provider;
        next[provider] = ETL__CHAIN_END;
        tails[chain] = provider;
        ends[chain] = ranges[i].last;
    }
    etl__free(memory, ranges, size);
    return status;
}
