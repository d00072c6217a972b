/* split.c: keys that cut what several collectors hold into parts of about equal bytes.
 *
 * Every source gives keys at equal distances of bytes, by its block index or its sorted index,
 * nothing being read through. Sorted together, each standing for the bytes up to the next, they
 * are a sketch of the key distribution; the cuts are read off it. The keys are copied, so that
 * they stay where they are when runs are merged. */
#include "handle.h"

#include <stdlib.h>

enum { SAMPLES_PER_PART = 32, LEAST_SAMPLES = 64, MOST_SAMPLES = 65536 };

struct etl__split_keys {
    struct etl__split_keys *next;
    size_t size; /* of this block */
    uint8_t bytes[];
};

struct sample {
    struct etl__split_keys *kept; /* the key */
    size_t size;
    double weight;
};

void etl__split_free(struct etl_collector *collector) {
    struct etl__split_keys *keys = collector->split_keys;
    collector->split_keys = NULL;
    while (keys != NULL) {
        struct etl__split_keys *next = keys->next;
        etl__free(&collector->store.memory, keys, keys->size);
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
static void choose(struct etl_collector *owner, struct sample *samples, size_t count, size_t parts,
                   etl_slice *keys, size_t *key_count) {
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
            sample->kept->next = owner->split_keys;
            owner->split_keys = sample->kept;
            sample->kept = NULL;
        }
        passed += sample->weight;
    }
}

static int split_merge(struct etl_collector *owner, const struct etl__merge *merge, size_t parts,
                       etl_slice *keys, size_t *key_count) {
    size_t providers = merge->provider_count;
    if (providers == 0 || parts < 2)
        return ETL_OK;
    size_t each = parts > MOST_SAMPLES / SAMPLES_PER_PART ? MOST_SAMPLES
                                                          : parts * SAMPLES_PER_PART / providers;
    each = each < LEAST_SAMPLES ? LEAST_SAMPLES : each;
    struct etl__memory *memory = merge->memory;
    size_t size = each * providers * sizeof(struct sample), count = 0;
    struct sample *samples = etl__alloc_zeroed(memory, size);
    if (samples == NULL)
        return etl__fail_memory(&owner->error, size, "splitting");
    int status = take_samples(merge, each, samples, &count, &owner->error);
    if (status == ETL_OK) {
        qsort(samples, count, sizeof *samples, compare_samples);
        choose(owner, samples, count, parts, keys, key_count);
    }
    for (size_t i = 0; i < count; i++)
        if (samples[i].kept != NULL)
            etl__free(memory, samples[i].kept, samples[i].kept->size);
    etl__free(memory, samples, size);
    return status;
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
        status = split_merge(collectors[0], &merge, parts, keys, key_count);
        etl__merge_close(&merge);
    }
    return etl__leave(collectors, count, status);
}
