/* provider.h: "next pair, please": the one interface that merge knows.
 *
 * A provider hands out sorted pairs by reference. So that the common step costs no call, it shows
 * its next records as a window which the reader decodes inline: either whole encoded records back
 * to back in [at, end), or, for a sorted buffer, index entries in [entry, entry_end) that name
 * them. When both are used up the reader calls refill, which shows the next window: of a run file
 * the next checked block, of a buffer the next chunk.
 *
 * A pair that was read stays valid until the second refill after it (so a reader may hold the
 * current pair while it decodes the one behind it). */
#ifndef LIBETL_PROVIDER_H
#define LIBETL_PROVIDER_H

#include "entry.h"

struct etl__provider {
    const uint8_t *at, *end;
    const struct etl__entry *entry, *entry_end;
    struct etl__slots slots; /* of the entries */

    /* Show a window with at least one whole record at `at`, or at least one entry. Called with the
     * window used up, or with a record at `at` of which not all is in the window: `need` is then
     * its size, or 0 where its head is cut too. ETL_OK, ETL_END after the last pair, or an error
     * with its text in *error. */
    int (*refill)(struct etl__provider *provider, uint64_t need, struct etl__error *error);

    /* Move before the first pair with a key >= this one; the window is then empty or shows it. */
    int (*seek)(struct etl__provider *provider, const uint8_t *key, size_t size,
                struct etl__error *error);

    /* The first and the last key, valid until close; ETL_END when there are none. */
    int (*bounds)(struct etl__provider *provider, etl_slice *first, etl_slice *last,
                  struct etl__error *error);

    /* The key of a pair that has about part / parts of the bytes before it, valid until the next
     * call; ETL_END when there is none. 0 <= part < parts. */
    int (*sample)(struct etl__provider *provider, uint64_t part, uint64_t parts, etl_slice *key,
                  struct etl__error *error);

    void (*close)(struct etl__provider *provider); /* frees the provider itself too */

    bool stays;     /* what was read stays where it is until close */
    uint64_t bytes; /* of records, in all */
    uint64_t pairs; /* in all, whatever was sought */
};

/* Out of line: the window is used up or the record at its head is not whole. */
int etl__provider_read_slow(struct etl__provider *provider, struct etl__pair *pair,
                            struct etl__error *error);

enum { ETL__PROVIDER_AHEAD = 256, ETL__PROVIDER_BLOCK_AHEAD = 16 * 1024, ETL__ENTRIES_AHEAD = 16 };

/* The pair of the next entry, of which there is one. */
static ETL__INLINE void etl__provider_read_entry(struct etl__provider *provider,
                                                 struct etl__pair *pair) {
    const struct etl__entry *entry = provider->entry++;
    if (ETL__LIKELY(provider->entry_end - entry > ETL__ENTRIES_AHEAD)) {
        const uint8_t *ahead =
            etl__slots_record(&provider->slots, entry[ETL__ENTRIES_AHEAD].reference);
        ETL__PREFETCH(ahead);
        ETL__PREFETCH(ahead + 64);
    }
    etl__record_view(etl__slots_record(&provider->slots, entry->reference), pair);
}

/* The next pair of those shown, where it is a short record or an entry: no refill, no failure. */
static ETL__INLINE bool etl__provider_read_shown(struct etl__provider *provider,
                                                 struct etl__pair *pair) {
    enum { MOST = 2 + 127 + 126 }; /* a record with lengths of one byte each */
    const uint8_t *at = provider->at;
    if (ETL__LIKELY(provider->end - at >= MOST && ((at[0] | at[1]) & 128) == 0)) {
        uint32_t key_size = at[0], code = at[1];
        pair->key = at + 2;
        pair->key_size = key_size;
        pair->value = code != 0 ? at + 2 + key_size : NULL;
        pair->value_size = code - (code != 0);
        provider->at = at + 2 + key_size + pair->value_size;
        return true;
    }
    if (provider->at < provider->end || provider->entry == provider->entry_end)
        return false;
    etl__provider_read_entry(provider, pair);
    return true;
}

/* The next pair: ETL_OK, ETL_END or an error. */
static ETL__INLINE int etl__provider_read(struct etl__provider *provider, struct etl__pair *pair,
                                          struct etl__error *error) {
    const uint8_t *at = provider->at;
    if (ETL__LIKELY(provider->end - at >= 2 && ((at[0] | at[1]) & 128) == 0)) {
        size_t key_size = at[0], value_size = (size_t)at[1] - (at[1] != 0);
        const uint8_t *key = at + 2;
        if (ETL__LIKELY(key_size + value_size <= (size_t)(provider->end - key))) {
            pair->key = key;
            pair->key_size = (uint32_t)key_size;
            pair->value = at[1] != 0 ? key + key_size : NULL;
            pair->value_size = (uint32_t)value_size;
            provider->at = key + key_size + value_size;
            return ETL_OK;
        }
    } else if (provider->entry < provider->entry_end) {
        etl__provider_read_entry(provider, pair);
        return ETL_OK;
    }
    return etl__provider_read_slow(provider, pair, error);
}

#endif
