/* merge_support.h: for the tests of merges and duplicate rules: keys of many kinds dealt to
 * several buffers, merges over them, and providers that are made to fail or to lie. */
#ifndef LIBETL_TESTS_MERGE_SUPPORT_H
#define LIBETL_TESTS_MERGE_SUPPORT_H

#include "merge.h"
#include "source_support.h"

enum { SOURCES_MOST = 64 };

/* Sealed buffers, and all their pairs in collection order: the first buffer's first. */
struct sources {
    struct etl__buffer buffers[SOURCES_MOST];
    size_t count;
    struct oracle pairs;
};

static inline void sources_start(struct sources *sources, size_t count, bool order_values) {
    memset(sources, 0, sizeof *sources);
    sources->count = count;
    for (size_t i = 0; i < count; i++)
        etl__buffer_init(&sources->buffers[i], &ground.arena, 64 * MIB, order_values);
}

static inline void sources_add(struct sources *sources, size_t source, etl_slice key,
                               etl_slice value) {
    oracle_add(&sources->pairs, key, value);
    assert_int_equal(put(&sources->buffers[source], key, value), ETL_OK);
}

static inline void sources_end(struct sources *sources) {
    for (size_t i = 0; i < sources->count; i++)
        etl__buffer_end(&sources->buffers[i]);
    oracle_clear(&sources->pairs);
}

static inline void sources_open(struct sources *sources, struct etl__merge *merge) {
    struct etl__provider *providers[SOURCES_MOST];
    bool order_values = sources->count != 0 && sources->buffers[0].order_values;
    for (size_t i = 0; i < sources->count; i++) {
        seal(&sources->buffers[i]);
        providers[i] = provider_over(&sources->buffers[i]);
    }
    ASSERT_OK(NULL, etl__merge_open(merge, &ground.memory, providers, sources->count, order_values,
                                    &ground.cancel, &ground.error));
}

/* ---- Keys */

enum { KINDS = 14, KEY_ROOM = 4016 };

/* A key of this kind into room[KEY_ROOM]. */
static inline etl_slice key_of_kind(struct prng *prng, int kind, uint8_t *room) {
    static const size_t prefixes[] = {5, 6, 7, 11, 12, 13, 4000};
    size_t size = 0;
    if (kind == 0) { /* any */
        for (size = prng_below(prng, 20); size > 8 || size > prng_below(prng, 20); size--)
            if (prng_permille(prng, 500))
                break;
        for (size_t i = 0; i < size; i++)
            room[i] = (uint8_t)prng_next(prng);
    } else if (kind == 1) { /* many duplicates */
        size = 8 + prng_below(prng, 2);
        memset(room, 'd', size);
        room[size - 1] = (uint8_t)prng_below(prng, 4);
    } else if (kind == 2) { /* nothing but zeros behind an x, and the empty key */
        size = prng_below(prng, 16);
        memset(room, 0, size);
        if (size != 0)
            room[0] = 'x';
    } else if (kind == 3) { /* empty keys, and others */
        size = prng_below(prng, 2);
        room[0] = (uint8_t)prng_below(prng, 3);
    } else if (kind == 4) { /* all of one key */
        size = 7;
        memset(room, 'k', size);
    } else if (kind == 5) { /* words of two letters */
        size = prng_below(prng, 14);
        for (size_t i = 0; i < size; i++)
            room[i] = prng_permille(prng, 700) ? 'a' : 'b';
    } else if (kind == 6) { /* stretches that lie in one source each, by the seeds of callers */
        size = 3;
        room[0] = (uint8_t)prng_below(prng, 8);
        room[1] = (uint8_t)(prng->state >> 17);
        room[2] = (uint8_t)(prng->state >> 33);
    } else { /* a common prefix and little behind it */
        size_t prefix = prefixes[(size_t)kind - 7];
        memset(room, 'p', prefix);
        size = prefix + prng_below(prng, 9);
        for (size_t i = prefix; i < size; i++)
            room[i] = (uint8_t)(prng_below(prng, 3) * 127);
    }
    return etl_slice_of(room, size);
}

/* About `count` pairs, a random part of them in each source. With order_values, values are few,
 * so that they are equal now and then; else each says where it comes from. */
static inline void sources_fill(struct sources *sources, struct prng *prng, int kind,
                                size_t count) {
    uint8_t room[KEY_ROOM];
    for (size_t source = 0; source < sources->count; source++) {
        bool few = sources->buffers[source].order_values;
        for (size_t n = prng_below(prng, 2 * count / sources->count + 1); n != 0; n--) {
            uint64_t value = few ? prng_below(prng, 5) : sources->pairs.count * 1000 + source;
            size_t value_size = few ? prng_below(prng, 4) : sizeof value;
            bool nil = few && prng_permille(prng, 200);
            sources_add(sources, source, key_of_kind(prng, kind, room),
                        nil ? etl_slice_of(NULL, 0) : etl_slice_of(&value, value_size));
        }
    }
}

/* ---- What is expected */

static inline bool same_key(const struct oracle_pair *a, const struct oracle_pair *b) {
    return oracle_same(a, oracle_key(b), oracle_value(a));
}

/* The merge gives sorted[from, to), one by one and several at once in turn, its flags being right
 * for each that was delivered last. `began`: it has delivered nothing since it was opened or
 * sought. */
static inline void assert_merges(struct etl__merge *merge, const struct oracle *sorted,
                                 size_t from, size_t to, bool began) {
    const struct oracle_pair *pairs = sorted->pairs;
    for (size_t i = from, turn = from; i < to; turn++) {
        struct etl__pair taken[9];
        size_t most = turn % 5 < 3 ? 1 : 2 + turn % 8, count = 1;
        const struct etl__pair *pair = taken;
        if (turn % 5 == 0)
            ASSERT_OK(NULL, etl__merge_next(merge, &pair, &ground.error));
        else
            ASSERT_OK(NULL, etl__merge_take(merge, taken, most < to - i ? most : to - i, &count,
                                            &ground.error));
        assert_in_range(count, 1, most);
        for (size_t j = 0; j < count; j++)
            if (!same_pair(&pairs[i + j], &pair[j]))
                fail_msg("pair %zu of %zu differs, %zu of %zu at once", i + j, sorted->count, j,
                         count);
        size_t last = i + count - 1;
        i = last + 1;
        bool before =
            last != 0 && (last != from || !began) && same_key(&pairs[last - 1], &pairs[last]);
        bool next = i < sorted->count && same_key(&pairs[last], &pairs[i]);
        if (etl__merge_same_as_before(merge) != before)
            fail_msg("pair %zu of %zu: same as before: %d", last, sorted->count, !before);
        if (etl__merge_same_as_next(merge) != next)
            fail_msg("pair %zu of %zu: same as next: %d", last, sorted->count, !next);
    }
}

static inline void assert_merge_status(struct etl__merge *merge, int expected) {
    const struct etl__pair *pair;
    for (int again = 0; again < 2; again++)
        assert_int_equal(etl__merge_next(merge, &pair, &ground.error), expected);
}

/* ---- Providers that are made: pairs as they stand in an oracle, in windows of few records, each
 * of which is gone as early as provider.h allows, if its pairs need not stay. */

struct made {
    struct etl__provider base;
    const struct oracle *pairs;
    size_t at;
    size_t window;   /* records in each */
    size_t fail_at;  /* this pair is not shown ... */
    int status;      /* ... but this; 0: do not fail */
    uint8_t **shown; /* all windows */
    size_t shown_count;
};

static inline int made_refill(struct etl__provider *base, uint64_t need,
                              struct etl__error *error) {
    struct made *made = (struct made *)base;
    assert_int_equal(need, 0);
    assert_ptr_equal(base->at, base->end);
    if (made->shown_count >= 2 && !base->stays) {
        free(made->shown[made->shown_count - 2]);
        made->shown[made->shown_count - 2] = NULL;
    }
    if (made->status != 0 && made->at >= made->fail_at)
        return etl__fail(error, made->status, "made to fail");
    size_t left = made->pairs->count - made->at, size = 0;
    size_t count = left < made->window ? left : made->window;
    if (made->status != 0 && count > made->fail_at - made->at)
        count = made->fail_at - made->at;
    if (count == 0)
        return ETL_END;
    const struct oracle_pair *pairs = made->pairs->pairs + made->at;
    for (size_t i = 0; i < count; i++)
        size += record_size(pairs[i].key_size, oracle_value(&pairs[i]));
    uint8_t *to = malloc(size);
    assert_non_null(to);
    made->shown = realloc(made->shown, (made->shown_count + 1) * sizeof *made->shown);
    assert_non_null(made->shown);
    base->at = made->shown[made->shown_count++] = to;
    base->end = to + size;
    for (size_t i = 0; i < count; i++) {
        to = etl__record_write_head(to, pairs[i].key_size,
                                    etl__value_code(pairs[i].value == NULL, pairs[i].value_size));
        etl__copy(to, pairs[i].key, pairs[i].key_size);
        if (pairs[i].value_size != 0)
            etl__copy(to + pairs[i].key_size, pairs[i].value, pairs[i].value_size);
        to += pairs[i].key_size + pairs[i].value_size;
    }
    made->at += count;
    return ETL_OK;
}

static inline int made_seek(struct etl__provider *base, const uint8_t *key, size_t size,
                            struct etl__error *error) {
    struct made *made = (struct made *)base;
    (void)error;
    made->at = oracle_lower_bound(made->pairs, etl_slice_of(key, size));
    base->at = base->end = NULL;
    return ETL_OK;
}

static inline int made_bounds(struct etl__provider *base, etl_slice *first, etl_slice *last,
                              struct etl__error *error) {
    const struct oracle *pairs = ((struct made *)base)->pairs;
    (void)error;
    if (pairs->count == 0)
        return ETL_END;
    *first = oracle_key(&pairs->pairs[0]);
    *last = oracle_key(&pairs->pairs[pairs->count - 1]);
    return ETL_OK;
}

static inline int made_sample(struct etl__provider *base, uint64_t part, uint64_t parts,
                              etl_slice *key, struct etl__error *error) {
    const struct oracle *pairs = ((struct made *)base)->pairs;
    (void)error;
    if (pairs->count == 0)
        return ETL_END;
    *key = oracle_key(&pairs->pairs[part * pairs->count / parts]);
    return ETL_OK;
}

static inline void made_close(struct etl__provider *base) {
    struct made *made = (struct made *)base;
    for (size_t i = 0; i < made->shown_count; i++)
        free(made->shown[i]);
    free(made->shown);
    free(made);
}

static inline struct made *made_over(const struct oracle *pairs, size_t window) {
    struct made *made = calloc(1, sizeof *made);
    assert_non_null(made);
    made->pairs = pairs;
    made->window = window;
    made->base = (struct etl__provider){.refill = made_refill,
                                        .seek = made_seek,
                                        .bounds = made_bounds,
                                        .sample = made_sample,
                                        .close = made_close,
                                        .pairs = pairs->count};
    return made;
}

#endif
