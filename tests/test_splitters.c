/* test_splitters.c: splitters send keys where a naive search sends them, and never back. */
#include "oracle.h"
#include "partition.h"
#include "partition_support.h"

#include <stdlib.h>

/* A sorted sample as a sorted buffer has it. */
struct sample {
    uint8_t *records;
    const uint8_t *base;
    struct etl__slots slots;
    struct etl__entry *index;
};

static void sample_make(struct sample *sample, struct oracle *keys) {
    oracle_sort(keys, false);
    sample->records = malloc(keys->count * (LONGEST_KEY + 16));
    sample->index = malloc(keys->count * sizeof *sample->index);
    assert_true(sample->records != NULL && sample->index != NULL);
    sample->base = sample->records;
    sample->slots = (struct etl__slots){&sample->base, 31};
    uint8_t *at = sample->records;
    for (size_t i = 0; i < keys->count; i++) {
        const struct oracle_pair *pair = &keys->pairs[i];
        sample->index[i] = (struct etl__entry){.reference = (uint32_t)(at - sample->records),
                                               .key_size = (uint32_t)pair->key_size};
        at = etl__record_write_head(at, pair->key_size, 0);
        memcpy(at, pair->key, pair->key_size);
        at += pair->key_size;
    }
}

/* Eight bytes of a key, zeros behind its end. */
static void part_of(etl_slice key, size_t from, uint8_t part[8]) {
    for (size_t i = 0; i < 8; i++)
        part[i] = from + i < key.size ? ((const uint8_t *)key.data)[from + i] : 0;
}

static uint32_t naive_find(const struct etl__splitters *chosen, etl_slice key) {
    const uint8_t *bytes = key.data;
    for (size_t i = 0; i < chosen->common; i++)
        if (i == key.size || bytes[i] != chosen->prefix[i])
            return i == key.size || bytes[i] < chosen->prefix[i] ? 0 : chosen->count - 1;
    uint8_t part[8], bound[8];
    part_of(key, chosen->common, part);
    uint32_t low = 0, high = chosen->count - 1; /* bounds below the part */
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        for (int i = 0; i < 8; i++)
            bound[i] = (uint8_t)(chosen->bounds[middle] >> (56 - 8 * i));
        if (memcmp(bound, part, 8) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* A bound as a key, that key's neighbours, longer and shorter. */
static void add_near(struct oracle *probes, const struct etl__splitters *chosen, uint64_t part) {
    uint8_t key[ETL__SPLITTER_PREFIX + 9] = {0};
    memcpy(key, chosen->prefix, chosen->common);
    for (uint64_t x = part - 1; x != part + 2; x++) {
        for (size_t i = 0; i < 8; i++)
            key[chosen->common + i] = (uint8_t)(x >> (56 - 8 * i));
        for (size_t less = 0; less < 10 && less <= chosen->common + 9; less++)
            oracle_add(probes, etl_slice_of(key, chosen->common + 9 - less),
                       etl_slice_of(NULL, 0));
    }
}

static void add_probes(struct oracle *probes, struct prng *prng, enum shape shape,
                       const struct etl__splitters *chosen) {
    uint8_t room[LONGEST_KEY];
    etl_slice nil = etl_slice_of(NULL, 0);
    for (uint32_t i = 0; i + 1 < chosen->count; i++)
        add_near(probes, chosen, chosen->bounds[i]);
    for (size_t i = 0; i < 2000; i++) {
        etl_slice key = draw_key(i % 2 != 0 ? shape : i / 2 % SHAPES, prng, room);
        if (key.size != 0 && i % 3 == 0)
            room[prng_below(prng, key.size)] = (uint8_t)prng_next(prng);
        oracle_add(probes, key, nil);
    }
    memset(room, 0xff, sizeof room);
    for (size_t size = 0; size <= chosen->common + 9; size++)
        oracle_add(probes, etl_slice_of(room, size), nil);
    memset(room, 0, sizeof room);
    for (size_t size = 0; size <= chosen->common + 9; size++)
        oracle_add(probes, etl_slice_of(room, size), nil);
}

static void check_find(const struct etl__splitters *chosen, struct oracle *probes) {
    uint32_t before = 0;
    oracle_sort(probes, false);
    for (size_t i = 0; i < probes->count; i++) {
        const struct oracle_pair *probe = &probes->pairs[i];
        uint32_t found = etl__splitters_find(chosen, probe->key, probe->key_size);
        if (found != naive_find(chosen, oracle_key(probe)) || found < before)
            fail_msg("probe %zu of %zu: bucket %u, behind %u", i, probes->count, found, before);
        before = found;
    }
}

/* What the header promises of chosen splitters; whether they had to be found. */
static void check_choice(const struct etl__splitters *chosen, bool found, uint32_t buckets,
                         const struct oracle *keys) {
    size_t distinct = 1, of_bucket[ETL__BUCKETS_MOST] = {0};
    uint8_t part[8], before[8];
    for (size_t i = 1; i < keys->count; i++) {
        part_of(oracle_key(&keys->pairs[i - 1]), chosen->common, before);
        part_of(oracle_key(&keys->pairs[i]), chosen->common, part);
        distinct += memcmp(part, before, 8) != 0;
    }
    if (distinct + 1 < buckets / 4)
        assert_false(found);
    if (distinct == keys->count)
        assert_true(found);
    if (!found)
        return;
    assert_true(chosen->count >= buckets / 4 && chosen->count >= 2 && chosen->count <= buckets);
    for (uint32_t i = 1; i + 1 < chosen->count; i++)
        assert_true(chosen->bounds[i] > chosen->bounds[i - 1]);
    for (size_t i = 0; i < keys->count; i++) {
        const struct oracle_pair *pair = &keys->pairs[i];
        assert_true(pair->key_size >= chosen->common);
        assert_memory_equal(pair->key, chosen->prefix, chosen->common);
        of_bucket[etl__splitters_find(chosen, pair->key, pair->key_size)]++;
    }
    for (uint32_t i = 0; i < chosen->count && distinct == keys->count; i++)
        assert_true(of_bucket[i] <= keys->count / buckets + 1);
}

static void choose_and_find(struct prng *prng, enum shape shape, uint32_t buckets, size_t count) {
    struct oracle keys = {0}, probes = {0};
    struct sample sample;
    struct etl__splitters chosen;
    uint8_t room[LONGEST_KEY];
    for (size_t i = 0; i < count; i++)
        oracle_add(&keys, draw_key(shape, prng, room), etl_slice_of(NULL, 0));
    sample_make(&sample, &keys);
    bool found = etl__splitters_choose(&chosen, buckets, &sample.slots, sample.index, keys.count);
    if (count < buckets)
        assert_false(found);
    else
        check_choice(&chosen, found, buckets, &keys);
    if (found) {
        add_probes(&probes, prng, shape, &chosen);
        check_find(&chosen, &probes);
        check_find(&chosen, &keys);
    }
    free(sample.records);
    free(sample.index);
    oracle_clear(&keys);
    oracle_clear(&probes);
}

static void test_splitters(void **unused) {
    (void)unused;
    struct prng prng;
    prng_start(&prng, 1);
    for (size_t round = 0; round < support_scaled(20); round++)
        for (enum shape shape = 0; shape < SHAPES; shape++)
            for (uint32_t buckets = 16; buckets <= ETL__BUCKETS_MOST; buckets *= 4)
                choose_and_find(&prng, shape, buckets,
                                round == 0 ? buckets - 1 : prng_between(&prng, buckets, 1500));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_splitters)};
    return cmocka_run_group_tests(tests, support_setup, support_teardown);
}
