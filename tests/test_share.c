/* test_share.c: the buckets of a dealt buffer shared by a reader that takes them one by one and
 * whoever cuts off the upper ones meanwhile: none is lost, and none is read twice. */
#include "dealt_support.h"
#include "provider_partition.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>

enum { LEAST_LEFT = 4, MOST = 40 /* buckets */ };

static uint64_t range_of(const struct etl__share *share) {
    return atomic_load(&share->range);
}

/* ---- Where it is cut */

static const char *const sizes[] = {"equal",          "random",    "some empty", "one heavy",
                                    "the last heavy", "all empty", "growing"};

/* Buckets of which only their sizes are known. */
static void make_sizes(struct etl__partition *partition, size_t kind, uint32_t count,
                       struct prng *prng) {
    memset(partition, 0, sizeof *partition);
    partition->splitters.count = count;
    for (uint32_t i = 0; i < count; i++) {
        const size_t of_kind[] = {1000,
                                  prng_below(prng, 1000),
                                  prng_permille(prng, 500) ? 0 : 77,
                                  i == count / 2 ? 100000 : 10,
                                  i == count - 1 ? 100000 : 10,
                                  0,
                                  i * i};
        partition->buckets[i].closed_bytes = of_kind[kind];
    }
}

static uint64_t bytes_in(const struct etl__partition *partition, uint32_t from, uint32_t to) {
    uint64_t bytes = 0;
    for (; from < to; from++)
        bytes += etl__bucket_bytes(&partition->buckets[from]);
    return bytes;
}

/* The least upper part that has half of what is left; `end` when nothing has to be in it. */
static uint32_t middle_of(const struct etl__partition *partition, uint32_t next, uint32_t end) {
    uint64_t half = bytes_in(partition, next, end) / 2;
    uint32_t middle = end;
    while (bytes_in(partition, middle, end) < half)
        middle--;
    return middle;
}

static bool check_halving(const struct etl__partition *partition, uint32_t first, uint32_t next,
                          uint32_t end) {
    struct etl__share share;
    etl__share_init(&share, first, end);
    assert_int_equal(range_of(&share), (uint64_t)first << 32 | end);
    atomic_store(&share.range, (uint64_t)next << 32 | end);
    uint32_t from = UINT32_MAX, middle = middle_of(partition, next, end);
    uint64_t bytes = UINT64_MAX, before = range_of(&share);
    bool pays = next != first && middle >= next + LEAST_LEFT && end - middle >= LEAST_LEFT;
    assert_int_equal(etl__share_halve(&share, partition, &from, &bytes), pays);
    if (!pays) {
        assert_int_equal(range_of(&share), before);
        return false;
    }
    assert_int_equal(from, middle);
    assert_int_equal(bytes, bytes_in(partition, middle, end));
    assert_int_equal(range_of(&share), (uint64_t)next << 32 | middle);
    etl__share_restart(&share);
    assert_int_equal(range_of(&share), (uint64_t)first << 32 | middle);
    assert_false(etl__share_halve(&share, partition, &from, &bytes)); /* nothing is taken yet */
    return true;
}

static void test_halving(void **unused) {
    (void)unused;
    static struct etl__partition partition;
    struct prng prng;
    prng_start(&prng, 1);
    for (size_t kind = 0; kind < COUNT_OF(sizes); kind++) {
        size_t halved = 0;
        for (uint32_t count = 0; count <= MOST; count++) {
            make_sizes(&partition, kind, count, &prng);
            for (uint32_t first = 0; first <= count; first += 1 + first * 3)
                for (uint32_t next = first; next <= count; next++)
                    halved += check_halving(&partition, first, next, count);
        }
        printf("%s: halved %zu times\n", sizes[kind], halved);
        assert_int_equal(halved != 0, kind < 4 || kind == 6);
    }
}

/* ---- What readers see of it */

static struct etl__buffer buffer;
static struct oracle pairs, sorted;
static size_t begins[ETL__BUCKETS_MOST + 1]; /* of bucket i, in `sorted` */

/* By the key's first byte: some buckets stay empty, or one takes more than all others. */
enum spreading { EVEN, GAPS, HEAVY, SPREADINGS };

static etl_slice draw(enum spreading spreading, struct prng *prng, uint8_t *key) {
    size_t size = spread(key, prng, 12, NULL, 0);
    if (spreading == GAPS)
        key[0] &= 0x9f;
    if (spreading == HEAVY && !prng_permille(prng, 250))
        key[0] = 0x71;
    return etl_slice_of(key, size);
}

/* Pairs dealt by splitters that were chosen for even ones. */
static void begin_buffer(enum spreading spreading, size_t count) {
    static struct etl__splitters splitters;
    struct prng prng;
    uint8_t key[12];
    prng_start(&prng, 10 + (uint64_t)spreading);
    ground_start(64 * MIB, false);
    etl__buffer_init(&buffer, &ground.arena, 16 * MIB, false);
    for (size_t i = 0; i < 4000; i++)
        assert_int_equal(put(&buffer, draw(EVEN, &prng, key), etl_slice_of(NULL, 0)), ETL_OK);
    assert_int_equal(etl__buffer_deal(&buffer, &ground.sort, &splitters, &ground.error), ETL_OK);
    etl__buffer_clear(&buffer);
    assert_true(etl__buffer_deal_as_before(&buffer, &splitters));
    for (size_t i = 0; i < count; i++) {
        etl_slice value = etl_slice_of(draw(spreading, &prng, key).data, i % 12);
        oracle_add(&pairs, etl_slice_of(key, 12), value);
        assert_int_equal(put_any(&buffer, etl_slice_of(key, 12), value), ETL_OK);
    }
    seal(&buffer);
    assert_true(
        oracle_settle(&pairs, &(struct oracle_rules){.duplicates = ETL_KEEP_ALL}, &sorted));
    for (uint32_t i = 0; i < splitters.count; i++)
        begins[i + 1] = begins[i] + buffer.partition->buckets[i].pairs;
    assert_int_equal(begins[splitters.count], sorted.count);
}

static void end_buffer(void) {
    etl__buffer_end(&buffer);
    oracle_clear(&pairs);
    oracle_clear(&sorted);
    ground_end();
}

static struct etl__provider *open_share(struct etl__share *share) {
    struct etl__provider *provider;
    ASSERT_OK(NULL, etl__provider_partition_open(&provider, &buffer, share, &ground.memory,
                                                 &ground.error));
    assert_int_equal(provider->pairs, 0);
    return provider;
}

/* Reads pairs from number `from` up to `to`; where the first one differs, or the source ends. */
static size_t read_from(struct etl__provider *provider, size_t from, size_t to,
                        struct etl__error *error) {
    struct etl__pair pair;
    while (from < to && etl__provider_read(provider, &pair, error) == ETL_OK &&
           same_pair(&sorted.pairs[from], &pair))
        from++;
    return from;
}

/* The share gives buckets [first, end), from the first on each time it is opened. */
static void assert_share_gives(struct etl__share *share, uint32_t first, uint32_t end) {
    for (int again = 0; again < 2; again++) {
        struct etl__provider *provider = open_share(share);
        struct etl__pair pair;
        assert_int_equal(read_from(provider, begins[first], begins[end], &ground.error),
                         begins[end]);
        assert_int_equal(etl__provider_read(provider, &pair, &ground.error), ETL_END);
        assert_int_equal(etl__provider_read(provider, &pair, &ground.error), ETL_END);
        assert_int_equal(provider->pairs, begins[end] - begins[first]);
        provider->close(provider);
    }
}

/* Cut when the reader has taken buckets up to `taken`, and again as long as it pays. */
static uint32_t read_and_halve(uint32_t taken) {
    uint32_t count = buffer.partition->splitters.count, end = count, from;
    uint64_t bytes;
    struct etl__share share, upper;
    etl__share_init(&share, 0, count);
    struct etl__provider *provider = open_share(&share);
    assert_int_equal(read_from(provider, 0, begins[taken], &ground.error), begins[taken]);
    assert_int_equal(provider->pairs, begins[taken]);
    while (etl__share_halve(&share, buffer.partition, &from, &bytes)) {
        assert_true(from < end && from >= taken);
        assert_int_equal(bytes, bytes_in(buffer.partition, from, end));
        etl__share_init(&upper, from, end);
        assert_share_gives(&upper, from, end);
        end = from;
    }
    struct etl__pair pair;
    assert_int_equal(read_from(provider, begins[taken], begins[end], &ground.error), begins[end]);
    assert_int_equal(etl__provider_read(provider, &pair, &ground.error), ETL_END);
    assert_int_equal(provider->pairs, begins[end]);
    provider->close(provider);
    assert_share_gives(&share, 0, end); /* what was cut off stays so */
    return end;
}

static void test_readers(void **unused) {
    (void)unused;
    for (enum spreading spreading = EVEN; spreading < SPREADINGS; spreading++) {
        begin_buffer(spreading, 3000);
        uint32_t count = buffer.partition->splitters.count, cut = 0, empty = 0;
        for (uint32_t i = 0; i < count; i++)
            empty += buffer.partition->buckets[i].pairs == 0;
        assert_int_equal(empty != 0, spreading == GAPS);
        for (uint32_t taken = 0; taken <= count; taken++)
            cut += read_and_halve(taken) < count;
        assert_true(cut != 0 && cut <= count - 2 * LEAST_LEFT);
        end_buffer();
    }
}

/* ---- Two threads at once */

struct taker {
    struct etl__share share;
    atomic_uint opened; /* that often */
    atomic_uint cut;    /* by the other one */
    atomic_bool done;
    size_t read; /* pairs, all of them right, when it was opened last */
    bool ended;
};

enum { REOPENED = 3 };

/* As a thread whose directory is full does: begin again, and again. No asserts here. */
static void *take_all(void *context) {
    struct taker *taker = context;
    struct etl__error error;
    for (unsigned opened = 1; opened <= REOPENED; opened++) {
        struct etl__provider *provider;
        struct etl__pair pair;
        if (etl__provider_partition_open(&provider, &buffer, &taker->share, &ground.memory,
                                         &error) != ETL_OK)
            break;
        taker->read = read_from(provider, 0, begins[opened], &error);
        atomic_store(&taker->opened, opened);
        while (opened == 1 && atomic_load(&taker->cut) == 0)
            sched_yield(); /* they surely meet once */
        if (opened == REOPENED) {
            taker->read = read_from(provider, taker->read, sorted.count, &error);
            taker->ended = etl__provider_read(provider, &pair, &error) == ETL_END;
        }
        provider->close(provider);
    }
    atomic_store(&taker->done, true);
    return NULL;
}

static void test_two_threads(void **unused) {
    (void)unused;
    begin_buffer(EVEN, 3000);
    uint32_t count = buffer.partition->splitters.count;
    for (size_t round = 0; round < support_scaled(200); round++) {
        struct taker taker = {.opened = 0};
        pthread_t thread;
        uint32_t end = count, from;
        uint64_t bytes;
        etl__share_init(&taker.share, 0, count);
        assert_int_equal(pthread_create(&thread, NULL, take_all, &taker), 0);
        while (!atomic_load(&taker.done))
            if (etl__share_halve(&taker.share, buffer.partition, &from, &bytes)) {
                assert_true(from < end);
                assert_int_equal(bytes, bytes_in(buffer.partition, from, end));
                atomic_fetch_add(&taker.cut, 1);
                end = from;
            }
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_true(atomic_load(&taker.cut) != 0 && taker.ended);
        assert_int_equal(taker.read, begins[end]);
        struct etl__share upper;
        etl__share_init(&upper, end, count);
        assert_share_gives(&upper, end, count);
    }
    end_buffer();
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_halving),
                                       cmocka_unit_test(test_readers),
                                       cmocka_unit_test(test_two_threads)};
    return cmocka_run_group_tests(tests, support_setup, support_teardown);
}
