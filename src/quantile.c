/* quantile.c: keys that cut what a merge has into parts of about equal bytes.
 *
 * Every source gives keys at equal distances of bytes, by its block index or its sorted index,
 * nothing being read through. Sorted together, each standing for the bytes up to the next, they
 * are a sketch of the key distribution; the cuts are read off it. The keys are copied, so that
 * they stay where they are when runs are merged. */
#include "quantile.h"

#include <stdlib.h>

enum { LEAST_SAMPLES = 64, MOST_SAMPLES = 65536 };

struct etl__kept_keys {
    struct etl__kept_keys *next;
    size_t size; /* of this block */
    uint8_t bytes[];
};

struct sample {
    struct etl__kept_keys *kept; /* the key */
    size_t size;
    double weight;
};

void etl__kept_keys_free(struct etl__memory *memory, struct etl__kept_keys *keys) {
    while (keys != NULL) {
        struct etl__kept_keys *next = keys->next;
        etl__free(memory, keys, keys->size);
        keys = next;
    }
}

static int compare_samples(const void *a, const void *b) {
    const struct sample *x = a, *y = b;
    return etl__key_compare(x->kept->bytes, x->size, y->kept->bytes, y->size);
}

static int keep_sample(struct etl__memory *memory, struct sample *sample, etl_slice key,
                       double weight, struct etl__error *error) {
    size_t size = sizeof *sample->kept + key.size;
    sample->kept = etl__alloc(memory, size);
    if (sample->kept == NULL)
        return etl__fail_memory(error, size, "a splitting key");
    sample->kept->next = NULL;
    sample->kept->size = size;
    sample->size = key.size;
    sample->weight = weight;
    if (key.size != 0)
        memcpy(sample->kept->bytes, key.data, key.size);
    return ETL_OK;
}

/* `each` keys of every provider. */
static int take_samples(const struct etl__merge *merge, size_t each, struct sample *samples,
                        size_t *count, struct etl__error *error) {
    for (size_t i = 0; i < merge->provider_count; i++) {
        struct etl__provider *provider = merge->providers[i];
        for (size_t part = 0; part < each; part++) {
            etl_slice key;
            int status = provider->sample(provider, part, each, &key, error);
            if (status == ETL_END)
                break;
            ETL__TRY(status);
            ETL__TRY(keep_sample(merge->memory, &samples[*count], key,
                                 (double)provider->bytes / (double)each, error));
            ++*count;
        }
    }
    return ETL_OK;
}

/* Walk the sorted samples; where the next share of the bytes is passed, cut at the next key that
 * is a new one. */
static void choose(struct sample *samples, size_t count, size_t parts, etl_slice *keys,
                   size_t *key_count, struct etl__kept_keys **kept) {
    double total = 0, passed = 0;
    for (size_t i = 0; i < count; i++)
        total += samples[i].weight;
    *key_count = 0;
    for (size_t i = 0; i < count && *key_count < parts - 1; i++) {
        struct sample *sample = &samples[i];
        const etl_slice *last = *key_count != 0 ? &keys[*key_count - 1] : NULL;
        bool is_due = passed >= total * (double)(*key_count + 1) / (double)parts;
        bool is_new = last == NULL ? sample->size != 0
                                   : etl__key_compare(sample->kept->bytes, sample->size,
                                                      last->data, last->size) > 0;
        if (is_due && is_new) {
            keys[(*key_count)++] = etl_slice_of(sample->kept->bytes, sample->size);
            sample->kept->next = *kept;
            *kept = sample->kept;
            sample->kept = NULL;
        }
        passed += sample->weight;
    }
}

/* Keys to be looked at in each source. */
static size_t samples_of_each(const struct etl__merge *merge, size_t parts, size_t samples) {
    size_t each =
        parts > MOST_SAMPLES / samples ? MOST_SAMPLES : parts * samples / merge->provider_count;
    return each < LEAST_SAMPLES ? LEAST_SAMPLES : each;
}

uint64_t etl__quantiles_bytes(const struct etl__merge *merge, size_t parts, size_t samples) {
    if (merge->provider_count == 0)
        return 0;
    return (uint64_t)samples_of_each(merge, parts, samples) * merge->provider_count *
           (sizeof(struct sample) + sizeof(struct etl__kept_keys) + ETL__KEPT_LEAST +
            etl__merge_record_size(merge));
}

int etl__quantiles(const struct etl__merge *merge, size_t parts, size_t samples, etl_slice *keys,
                   size_t *key_count, struct etl__kept_keys **kept, struct etl__error *error) {
    size_t providers = merge->provider_count;
    *key_count = 0;
    if (providers == 0 || parts < 2)
        return ETL_OK;
    size_t each = samples_of_each(merge, parts, samples);
    struct etl__memory *memory = merge->memory;
    size_t size = each * providers * sizeof(struct sample), count = 0;
    struct sample *taken = etl__alloc_zeroed(memory, size);
    if (taken == NULL)
        return etl__fail_memory(error, size, "splitting");
    int status = take_samples(merge, each, taken, &count, error);
    if (status == ETL_OK) {
        qsort(taken, count, sizeof *taken, compare_samples);
        choose(taken, count, parts, keys, key_count, kept);
    }
    for (size_t i = 0; i < count; i++)
        if (taken[i].kept != NULL)
            etl__free(memory, taken[i].kept, taken[i].kept->size);
    etl__free(memory, taken, size);
    return status;
}
