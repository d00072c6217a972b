/* parallel_support.h: what the tests of several threads share: inputs of known distributions, dealt
 * to collectors, and threads that feed them or read them and hold what they read against the
 * oracle. Threads do not assert, which cmocka allows on the test's own only: they note what went
 * wrong. */
#ifndef LIBETL_TESTS_PARALLEL_SUPPORT_H
#define LIBETL_TESTS_PARALLEL_SUPPORT_H

#include "handle.h"
#include "oracle.h"
#include "support.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum { STOP = 4711, COLLECTORS_MOST = 4, THREADS_MOST = 8, PREFIX_MOST = 90 };

/* How keys are distributed. */
enum shape {
    RANDOM,
    SORTED,
    FEW,    /* each key a hundred times */
    HALF,   /* one key has half of the pairs */
    PREFIX, /* a long one, common to all */
    UNEVEN, /* values grow with keys */
    DRIFT,  /* random, and at the end ascending below all before */
    SHAPES
};

struct scene {
    struct prng prng;
    enum shape shape;
    struct oracle_rules rules;
    struct oracle inputs[COLLECTORS_MOST]; /* of each collector */
    struct oracle all;                     /* one after the other */
    struct oracle expected;
    bool accepted; /* false: ETL_REJECT has a key that came twice */
    etl_collector *collectors[COLLECTORS_MOST];
    size_t count;
};

/* ---- Inputs */

static inline etl_slice scene_key(struct scene *scene, size_t i, size_t pairs, size_t prefix,
                                  unsigned char *room) {
    uint64_t number = prng_next(&scene->prng);
    if (scene->shape == SORTED || (scene->shape == DRIFT && i % pairs > pairs / 5 * 4))
        number = (uint64_t)i << 24;
    if (scene->shape == FEW)
        number = number % (pairs / 100 + 1) * 0x9E3779B97F4A7C15u;
    if (scene->shape == HALF && number % 2 == 0)
        number = UINT64_MAX / 5 * 3;
    memset(room, 'p', prefix);
    for (size_t byte = 0; byte < 8; byte++)
        room[prefix + byte] = (unsigned char)(number >> (56 - 8 * byte));
    return etl_slice_of(room, prefix + 8);
}

/* pairs for each of count collectors; values begin with the pair's number. */
static inline void scene_make(struct scene *scene, size_t count, size_t pairs, size_t value_size) {
    unsigned char key[PREFIX_MOST + 8], value[1024] = {0};
    size_t prefix = scene->shape == PREFIX ? (prng_permille(&scene->prng, 500) ? 40 : 90) : 0;
    scene->count = count;
    for (size_t i = 0; i < count * pairs; i++) {
        etl_slice key_slice = scene_key(scene, i, pairs, prefix, key);
        memcpy(value, &i, sizeof i);
        size_t size = scene->shape == UNEVEN && key[0] >= 128 ? 3 * value_size : value_size;
        size_t kind = prng_below(&scene->prng, 20);
        etl_slice value_slice = etl_slice_of(kind != 0 ? value : NULL, kind > 1 ? size : 0);
        oracle_add(&scene->inputs[i / pairs], key_slice, value_slice);
        oracle_add(&scene->all, key_slice, value_slice);
    }
    scene->accepted = oracle_settle(&scene->all, &scene->rules, &scene->expected);
}

static inline void scene_create(struct scene *scene, const etl_options *options) {
    for (size_t i = 0; i < scene->count; i++)
        ASSERT_OK(NULL, etl_collector_create(&scene->collectors[i], options));
}

static inline void scene_close(struct scene *scene) {
    for (size_t i = 0; i < scene->count; i++) {
        etl_collector_destroy(scene->collectors[i]);
        oracle_clear(&scene->inputs[i]);
    }
    oracle_clear(&scene->all);
    oracle_clear(&scene->expected);
}

static inline uint64_t scene_runs(const etl_collector *collector) {
    etl_stats stats = {.struct_size = sizeof stats};
    ASSERT_OK(collector, etl_collector_stats(collector, &stats));
    return stats.runs;
}

static inline bool scene_is_dealt(const struct scene *scene) {
    bool dealt = false;
    for (size_t i = 0; i < scene->count; i++)
        for (size_t j = 0; j < scene->collectors[i]->store.region_count; j++)
            dealt |= scene->collectors[i]->store.regions[j].buffer.partition != NULL;
    return dealt;
}

/* ---- Threads that feed */

struct feeder {
    pthread_t thread;
    etl_collector *collector;
    const struct oracle *pairs;
    size_t flush_after; /* this many pairs; 0: never */
    bool reserve;       /* which keeps buffers from being dealt */
    int status;
};

static inline int feed_pair(const struct feeder *feeder, const struct oracle_pair *pair) {
    void *key, *value;
    if (!feeder->reserve)
        return etl_collect(feeder->collector, oracle_key(pair), oracle_value(pair));
    int status = etl_reserve(feeder->collector, pair->key_size, pair->value_size, &key,
                             pair->value != NULL ? &value : NULL);
    if (status != ETL_OK)
        return status;
    memcpy(key, pair->key, pair->key_size);
    if (pair->value_size != 0)
        memcpy(value, pair->value, pair->value_size);
    return ETL_OK;
}

static inline void *feed(void *context) {
    struct feeder *feeder = context;
    feeder->status = ETL_OK;
    for (size_t i = 0; i < feeder->pairs->count && feeder->status == ETL_OK; i++) {
        feeder->status = feed_pair(feeder, &feeder->pairs->pairs[i]);
        if (feeder->status == ETL_OK && i + 1 == feeder->flush_after)
            feeder->status = etl_flush(feeder->collector);
    }
    return NULL;
}

/* Each collector by a thread of its own. */
static inline void scene_feed(struct scene *scene, size_t flush_after, bool reserve) {
    struct feeder feeders[COLLECTORS_MOST];
    for (size_t i = 0; i < scene->count; i++) {
        feeders[i] = (struct feeder){.collector = scene->collectors[i],
                                     .pairs = &scene->inputs[i],
                                     .flush_after = flush_after,
                                     .reserve = reserve};
        assert_int_equal(pthread_create(&feeders[i].thread, NULL, feed, &feeders[i]), 0);
    }
    for (size_t i = 0; i < scene->count; i++)
        pthread_join(feeders[i].thread, NULL);
    for (size_t i = 0; i < scene->count; i++)
        ASSERT_OK(scene->collectors[i], feeders[i].status);
}

/* ---- Threads that read */

struct reader {
    pthread_t thread;
    etl_iter *iter;
    const struct oracle *expected;
    size_t from, to; /* what the iterator's range holds of it */
    size_t at;       /* the pair to come next */
    struct prng prng;
    size_t seeks;      /* to be made, a few pairs after each */
    size_t stop_at;    /* read no further; 0: to the end */
    size_t retries;    /* statuses to be met and tried again: */
    int retry_on;      /* this one */
    atomic_size_t met; /* how often it was */
    atomic_bool ended;
    bool failed;     /* another status, or a wrong pair */
    atomic_bool *go; /* wait for it before each retry, or NULL */
};

static inline void read_next(struct reader *reader, bool *over) {
    etl_slice key, value;
    int status = etl_iter_next(reader->iter, &key, &value);
    if (status == reader->retry_on && reader->retry_on != ETL_OK &&
        reader->met < reader->retries) {
        atomic_fetch_add(&reader->met, 1);
        while (reader->go != NULL && !atomic_load(reader->go))
            sched_yield();
    } else if (status == ETL_OK && reader->at < reader->to &&
               oracle_same(&reader->expected->pairs[reader->at], key, value)) {
        reader->at++;
    } else {
        reader->failed = status != ETL_END || reader->at != reader->to;
        *over = true;
    }
}

static inline void *read_all(void *context) {
    struct reader *reader = context;
    bool over = false;
    for (size_t seeks = reader->seeks; seeks != 0 && !over; seeks--) {
        for (size_t pairs = prng_below(&reader->prng, 50); pairs != 0 && !over; pairs--)
            read_next(reader, &over);
        size_t target = prng_below(&reader->prng, reader->expected->count);
        etl_slice key = oracle_key(&reader->expected->pairs[target]);
        target = oracle_lower_bound(reader->expected, key);
        reader->at = target < reader->from ? reader->from
                     : target > reader->to ? reader->to
                                           : target;
        over = false; /* the end is one only until the next seek */
        reader->failed |= etl_iter_seek(reader->iter, key) != ETL_OK;
    }
    while (!over && !reader->failed && (reader->stop_at == 0 || reader->at < reader->stop_at))
        read_next(reader, &over);
    atomic_store(&reader->ended, true);
    return NULL;
}

/* Open over the scene's first `collectors`, whose pairs are `expected`. */
static inline void reader_open(struct reader *reader, struct scene *scene, size_t collectors,
                               const struct oracle *expected, const etl_range *range) {
    memset(reader, 0, sizeof *reader);
    ASSERT_OK(scene->collectors[0],
              etl_iter_open_many(&reader->iter, scene->collectors, collectors, range));
    reader->expected = expected;
    reader->to = expected->count;
    if (range != NULL && range->from.data != NULL)
        reader->from = oracle_lower_bound(expected, range->from);
    if (range != NULL && range->to.data != NULL)
        reader->to = oracle_lower_bound(expected, range->to);
    reader->at = reader->from;
    prng_start(&reader->prng, prng_next(&scene->prng));
}

static inline void readers_start(struct reader *readers, size_t count) {
    for (size_t i = 0; i < count; i++)
        assert_int_equal(pthread_create(&readers[i].thread, NULL, read_all, &readers[i]), 0);
}

/* All are joined before the first is closed: closing counts as using the collector. */
static inline void readers_end(struct reader *readers, size_t count) {
    bool failed = false;
    for (size_t i = 0; i < count; i++) {
        pthread_join(readers[i].thread, NULL);
        failed |= readers[i].failed;
    }
    for (size_t i = 0; i < count; i++)
        etl_iter_close(readers[i].iter);
    assert_false(failed);
}

#endif
