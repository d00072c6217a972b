/* test_partition.c: a buffer whose pairs were dealt to buckets gives what a plain one gives,
 * within its limit. */
#include "dealt_support.h"

#include <pthread.h>

enum { FILLER = 300 * 1024 };

static uint8_t filler[FILLER];
static struct etl__splitters splitters; /* of the buffer dealt last */

static int setup(void **state) {
    for (size_t i = 0; i < FILLER; i++)
        filler[i] = (uint8_t)(i * 7 + i / 251);
    return support_setup(state);
}

static etl_slice draw_value(struct prng *prng, size_t most) {
    size_t size = prng_below(prng, most + 1);
    if (size == 0 || prng_permille(prng, 50))
        return etl_slice_of(prng_permille(prng, 500) ? "" : NULL, 0);
    return etl_slice_of(filler + prng_below(prng, FILLER - size), size);
}

/* ---- A dealt buffer */

static void add_drawn(struct etl__buffer *buffer, struct oracle *pairs, struct prng *prng,
                      enum shape shape, size_t count) {
    uint8_t room[LONGEST_KEY];
    for (size_t i = 0; i < count; i++) {
        etl_slice key = draw_key(shape, prng, room);
        bool large = pairs->count > 500 && prng_permille(prng, 2); /* than a chunk */
        etl_slice value = draw_value(prng, large ? FILLER / 4 : 30);
        assert_int_equal(put_any(buffer, key, value), ETL_OK);
        oracle_add(pairs, key, value);
    }
}

static int deal(struct etl__buffer *buffer) {
    return etl__buffer_deal(buffer, &ground.sort, &splitters, &ground.error);
}

static void buffer_begin(struct etl__buffer *buffer, size_t limit, bool order_values) {
    etl__buffer_init(buffer, &ground.arena, limit, order_values);
}

/* Seek with each of some keys, in any order, and what is near to it; read one pair. */
static void check_seeks(const struct etl__buffer *buffer, const struct oracle *pairs,
                        struct prng *prng, size_t count) {
    struct oracle sorted = {0};
    const struct oracle_rules all = {.order_values = buffer->order_values};
    assert_true(oracle_settle(pairs, &all, &sorted));
    struct etl__provider *provider = provider_over(buffer);
    struct etl__pair pair;
    uint8_t room[LONGEST_KEY + 1];
    for (size_t i = 0; i < count; i++) {
        const struct oracle_pair *near = &sorted.pairs[prng_below(prng, sorted.count)];
        size_t size = near->key_size;
        memcpy(room, near->key, size);
        room[size] = 0;
        size = i % 4 == 0 ? size + 1 : i % 4 == 1 ? prng_below(prng, size + 1) : size;
        if (i % 4 == 2 && size != 0)
            room[prng_below(prng, size)] = (uint8_t)prng_next(prng);
        assert_int_equal(provider->seek(provider, room, size, &ground.error), ETL_OK);
        size_t at = oracle_lower_bound(&sorted, etl_slice_of(room, size));
        for (size_t more = 0; more < 3; more++, at++) {
            int status = etl__provider_read(provider, &pair, &ground.error);
            assert_int_equal(status, at < sorted.count ? ETL_OK : ETL_END);
            assert_true(at >= sorted.count || same_pair(&sorted.pairs[at], &pair));
        }
    }
    provider->close(provider);
    oracle_clear(&sorted);
}

static uint64_t largest_bucket(const struct etl__partition *partition) {
    uint64_t most = 0;
    for (uint32_t i = 0; i < partition->splitters.count; i++) {
        const struct etl__bucket *bucket = &partition->buckets[i];
        uint64_t bytes = bucket->pairs != 0 ? bucket->closed_bytes + bucket->last->used : 0;
        most = bytes > most ? bytes : most;
    }
    return most;
}

static uint64_t bytes_before(const struct oracle *pairs, size_t end) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < end; i++)
        bytes += record_size(pairs->pairs[i].key_size, oracle_value(&pairs->pairs[i]));
    return bytes;
}

/* Samples are keys of the buffer, each in the bucket in which that share of the bytes is. */
static void check_samples(const struct etl__buffer *buffer, const struct oracle *pairs) {
    struct oracle sorted = {0};
    const struct oracle_rules all = {.order_values = false};
    assert_true(oracle_settle(pairs, &all, &sorted));
    struct etl__provider *provider = provider_over(buffer);
    uint64_t bytes = bytes_before(pairs, pairs->count), most = largest_bucket(buffer->partition);
    assert_int_equal(provider->bytes, bytes);
    assert_int_equal(etl__buffer_record_bytes(buffer), bytes);
    for (uint64_t part = 0; part < 40; part++) {
        etl_slice key;
        assert_int_equal(provider->sample(provider, part, 40, &key, &ground.error), ETL_OK);
        size_t at = oracle_lower_bound(&sorted, key);
        assert_true(at < sorted.count);
        assert_true(oracle_same(&sorted.pairs[at], key, oracle_value(&sorted.pairs[at])));
        uint64_t before = bytes_before(&sorted, at), wanted = part * bytes / 40;
        assert_true(before <= wanted + most && wanted <= before + most);
    }
    provider->close(provider);
    oracle_clear(&sorted);
}

static void test_dealt(void **unused) {
    (void)unused;
    struct prng prng;
    prng_start(&prng, 2);
    for (int round = 0; round < 2 * SHAPES; round++) {
        enum shape shape = round % SHAPES;
        ground_start(256 * MIB, round % 3 == 0);
        struct etl__buffer buffer;
        struct oracle pairs = {0};
        buffer_begin(&buffer, round % 4 == 0 ? 130 * MIB : 20 * MIB, round >= SHAPES);
        add_drawn(&buffer, &pairs, &prng, shape, 4000);
        int status = deal(&buffer);
        assert_int_equal(buffer.partition != NULL, status == ETL_OK);
        assert_true(status == ETL_OK || (status == ETL_END && (shape == FEW || shape == NESTED ||
                                                               shape == TINY || shape == ZEROS)));
        for (int part = 0; part < 3; part++) { /* appended to after it was sealed */
            seal(&buffer);
            assert_holds(&buffer, &pairs);
            if (buffer.partition != NULL)
                check_samples(&buffer, &pairs);
            check_seeks(&buffer, &pairs, &prng, support_scaled(300));
            add_drawn(&buffer, &pairs, &prng, part == 0 ? shape : (enum shape)part, 1000);
            assert_false(buffer.sealed);
        }
        etl__buffer_end(&buffer);
        oracle_clear(&pairs);
        ground_end();
    }
}

/* ---- The limit */

static size_t order_cost(const struct etl__buffer *buffer) {
    struct etl__memory *memory = &ground.memory;
    size_t before = atomic_load(&memory->used) - atomic_load(&memory->kept_bytes);
    struct etl__provider *provider = provider_over(buffer);
    size_t taken = atomic_load(&memory->used) - atomic_load(&memory->kept_bytes) - before;
    struct etl__pair pair;
    uint64_t pairs = 0;
    while (etl__provider_read(provider, &pair, &ground.error) == ETL_OK)
        pairs++;
    provider->close(provider);
    assert_int_equal(pairs, buffer->pairs);
    return taken;
}

/* Random keys in records of one size until the buffer is full; dealt on the way. */
static void fill_up(size_t size, size_t limit, size_t memory_limit) {
    struct prng prng;
    prng_start(&prng, size);
    ground_start(memory_limit, false);
    struct etl__buffer buffer;
    buffer_begin(&buffer, limit, false);
    uint8_t key[16];
    size_t key_size = size - 2 < 16 ? size - 2 : 16;
    int status = ETL_OK;
    bool tried = false;
    while (status == ETL_OK) {
        spread(key, &prng, key_size, NULL, 0);
        size_t value_size = size - 2 - key_size;
        status = put_any(&buffer, etl_slice_of(key, key_size), etl_slice_of(filler, value_size));
        if (!tried && etl__buffer_is_sample(&buffer)) {
            tried = true;
            (void)deal(&buffer);
        }
    }
    bool ample = memory_limit > 2 * limit; /* else it is the memory that ends it */
    assert_int_equal(status, ample ? ETL_END : ETL_E_NOMEM);
    if (ample && size >= 12 && size <= 250)
        assert_non_null(buffer.partition);
    if (size < 12 || size >= 300)
        assert_null(buffer.partition);
    seal(&buffer);
    size_t cost = order_cost(&buffer), peak = atomic_load(&ground.memory.peak);
    size_t all = buffer.held + buffer.index_capacity * sizeof(struct etl__entry) + cost;
    if (all > limit + limit / 32) /* the last chunks fill without a further look */
        fail_msg("records of %zu bytes: %zu above %zu, with %zu to order", size, all - limit,
                 limit, cost);
    if (!ample && peak > memory_limit + memory_limit / 32) /* less than a store's reserve */
        fail_msg("records of %zu bytes: a peak %zu above %zu", size, peak - memory_limit,
                 memory_limit);
    etl__buffer_end(&buffer);
    ground_end();
}

static void test_limit(void **unused) {
    (void)unused;
    static const size_t sizes[] = {2, 3, 4, 5, 6, 8, 11, 16, 25, 40, 66, 100, 150, 200, 250, 300};
    for (size_t i = 0; i < COUNT_OF(sizes); i += support_light() ? 3 : 1) {
        fill_up(sizes[i], 8 * MIB, 64 * MIB);
        if (i % 3 == 0 && !support_light())
            fill_up(sizes[i], 33 * MIB, 80 * MIB);
        fill_up(sizes[i], 16 * MIB, 9 * MIB);
    }
}

/* ---- What fails changes nothing */

static void test_failures(void **unused) {
    (void)unused;
    struct prng prng;
    prng_start(&prng, 3);
    int status = ETL_E_NOMEM;
    for (size_t nth = 1; status != ETL_OK; nth++) {
        ground_start(64 * MIB, true);
        struct etl__buffer buffer;
        struct oracle pairs = {0};
        buffer_begin(&buffer, 8 * MIB, nth % 2 != 0);
        add_drawn(&buffer, &pairs, &prng, COMMON, 8000);
        size_t held = buffer.held;
        atomic_store(&ground.cancel, 1);
        assert_int_equal(deal(&buffer), ETL_E_CANCELLED);
        atomic_store(&ground.cancel, 0);
        etl__buffer_drop_index(&buffer);
        atomic_store(&ground.held.refuse_from, atomic_load(&ground.held.calls) + nth);
        status = deal(&buffer);
        if (nth % 3 != 0)
            atomic_store(&ground.held.refuse_from, 0);
        if (status != ETL_OK) {
            assert_true(status == ETL_E_NOMEM || status == ETL_END);
            assert_null(buffer.partition);
            assert_int_equal(buffer.held, held);
            assert_int_equal(buffer.pairs, pairs.count);
            atomic_store(&ground.held.refuse_from, 0);
            add_drawn(&buffer, &pairs, &prng, COMMON, 100);
        }
        seal(&buffer);
        atomic_store(&ground.held.refuse_from, 0);
        assert_holds(&buffer, &pairs);
        etl__buffer_end(&buffer);
        oracle_clear(&pairs);
        ground_end();
        assert_true(nth < 100);
    }
}

/* Too full to be dealt; no memory to read it. */
static void test_no_room(void **unused) {
    (void)unused;
    struct prng prng;
    prng_start(&prng, 4);
    ground_start(64 * MIB, true);
    struct etl__buffer buffer;
    struct oracle pairs = {0};
    uint8_t room[LONGEST_KEY];
    buffer_begin(&buffer, 2 * MIB, false);
    for (;;) {
        etl_slice key = draw_key(RANDOM, &prng, room), value = etl_slice_of(filler, 100);
        if (put(&buffer, key, value) != ETL_OK)
            break;
        oracle_add(&pairs, key, value);
    }
    assert_int_equal(deal(&buffer), ETL_END);
    assert_null(buffer.partition);
    seal(&buffer);
    assert_holds(&buffer, &pairs);
    buffer.limit = 8 * MIB;
    assert_int_equal(deal(&buffer), ETL_OK);
    seal(&buffer);
    int status = ETL_E_NOMEM;
    for (size_t nth = 1; status != ETL_OK; nth++) {
        struct etl__provider *provider;
        etl__memory_trim(&ground.memory);
        atomic_store(&ground.held.refuse_from, atomic_load(&ground.held.calls) + nth);
        status = etl__provider_memory_open(&provider, &buffer, &ground.memory, &ground.error);
        atomic_store(&ground.held.refuse_from, 0);
        if (status == ETL_OK)
            provider->close(provider);
        else
            assert_int_equal(status, ETL_E_NOMEM);
    }
    assert_holds(&buffer, &pairs);
    etl__buffer_end(&buffer);
    oracle_clear(&pairs);
    ground_end();
}

/* ---- The same splitters again; skew; two threads */

static void test_as_before(void **unused) {
    (void)unused;
    struct prng prng;
    prng_start(&prng, 5);
    ground_start(64 * MIB, true);
    struct etl__buffer buffer;
    struct oracle pairs = {0};
    uint64_t allocations = 0;
    buffer_begin(&buffer, 16 * MIB, false);
    add_drawn(&buffer, &pairs, &prng, RANDOM, 5000);
    assert_int_equal(deal(&buffer), ETL_OK);
    assert_false(etl__partition_is_skewed(buffer.partition, buffer.pairs));
    struct prng start = prng;
    for (int round = 0; round < 4; round++) {
        prng = start;
        etl__buffer_clear(&buffer);
        oracle_clear(&pairs);
        assert_null(buffer.partition);
        assert_true(etl__buffer_deal_as_before(&buffer, &splitters));
        assert_int_equal(etl__buffer_record_bytes(&buffer), 0);
        seal(&buffer);
        assert_holds(&buffer, &pairs); /* nothing */
        add_drawn(&buffer, &pairs, &prng, RANDOM, 4000);
        seal(&buffer);
        assert_holds(&buffer, &pairs);
        if (round > 1)
            assert_int_equal(ground_allocations(), allocations);
        allocations = ground_allocations();
    }
    etl__buffer_clear(&buffer);
    etl__memory_trim(&ground.memory);
    atomic_store(&ground.held.refuse_from, 1);
    assert_false(etl__buffer_deal_as_before(&buffer, &splitters));
    atomic_store(&ground.held.refuse_from, 0);
    oracle_clear(&pairs);
    add_drawn(&buffer, &pairs, &prng, RANDOM, 100);
    seal(&buffer);
    assert_holds(&buffer, &pairs);
    etl__buffer_end(&buffer);
    oracle_clear(&pairs);
    ground_end();
}

/* One key with more than an eighth of the pairs, or keys all behind the last splitter. */
static void test_skew(void **unused) {
    (void)unused;
    struct prng prng;
    prng_start(&prng, 6);
    for (int moved = 0; moved <= 1; moved++) {
        ground_start(64 * MIB, false);
        struct etl__buffer buffer;
        struct oracle pairs = {0};
        buffer_begin(&buffer, 16 * MIB, false);
        add_drawn(&buffer, &pairs, &prng, RANDOM, 5000);
        assert_int_equal(deal(&buffer), ETL_OK);
        uint8_t key[9] = "\xff\xff\xff\xff";
        for (size_t i = 0; i < 4000; i++) {
            uint64_t most = 0;
            for (uint32_t j = 0; j < buffer.partition->splitters.count; j++)
                if (buffer.partition->buckets[j].pairs > most)
                    most = buffer.partition->buckets[j].pairs;
            assert_int_equal(etl__partition_is_skewed(buffer.partition, buffer.pairs),
                             most > buffer.pairs / 8);
            if (moved)
                spread(key + 4, &prng, 4, NULL, 0);
            assert_int_equal(put_any(&buffer, etl_slice_of(key, 8), draw_value(&prng, 9)), 0);
        }
        assert_true(etl__partition_is_skewed(buffer.partition, buffer.pairs));
        etl__buffer_end(&buffer);
        oracle_clear(&pairs);
        ground_end();
    }
}

struct reader {
    const struct etl__buffer *buffer;
    const struct oracle *sorted;
    size_t right;
};

/* No asserts outside the test's own thread. */
static void *read_all(void *context) {
    struct reader *reader = context;
    struct etl__error error;
    struct etl__provider *provider;
    struct etl__pair pair;
    if (etl__provider_memory_open(&provider, reader->buffer, &ground.memory, &error) != ETL_OK)
        return NULL;
    while (reader->right < reader->sorted->count &&
           etl__provider_read(provider, &pair, &error) == ETL_OK &&
           same_pair(&reader->sorted->pairs[reader->right], &pair))
        reader->right++;
    provider->close(provider);
    return NULL;
}

static void test_two_threads(void **unused) {
    (void)unused;
    struct prng prng;
    prng_start(&prng, 7);
    ground_start(64 * MIB, false);
    struct etl__buffer buffer;
    struct oracle pairs = {0}, sorted = {0};
    const struct oracle_rules all = {.order_values = false};
    buffer_begin(&buffer, 32 * MIB, false);
    add_drawn(&buffer, &pairs, &prng, RANDOM, 5000);
    assert_int_equal(deal(&buffer), ETL_OK);
    add_drawn(&buffer, &pairs, &prng, RANDOM, support_scaled(50000));
    seal(&buffer);
    assert_true(oracle_settle(&pairs, &all, &sorted));
    struct reader readers[2] = {{&buffer, &sorted, 0}, {&buffer, &sorted, 0}};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, read_all, &readers[i]), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(readers[i].right, sorted.count);
    }
    etl__buffer_end(&buffer);
    oracle_clear(&pairs);
    oracle_clear(&sorted);
    ground_end();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dealt),      cmocka_unit_test(test_limit),
        cmocka_unit_test(test_failures),   cmocka_unit_test(test_no_room),
        cmocka_unit_test(test_as_before),  cmocka_unit_test(test_skew),
        cmocka_unit_test(test_two_threads)};
    return cmocka_run_group_tests(tests, setup, support_teardown);
}
