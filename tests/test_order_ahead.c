/* test_order_ahead.c: buckets that threads order ahead of a reader: the same pairs for any number
 * of threads, wherever the reader stops or seeks, and no thread where memory has no room. */
#include "dealt_support.h"
#include "provider_partition.h"

enum { PAIRS = 20000 };

static struct etl__splitters splitters;

/* A sealed, dealt buffer; of half of them keys in the middle are missing, so that buckets are
 * empty. */
static void fill(struct etl__buffer *buffer, struct oracle *pairs, struct prng *prng, bool gaps,
                 bool order_values) {
    uint8_t room[LONGEST_KEY] = {0};
    etl__buffer_init(buffer, &ground.arena, 64 * MIB, order_values);
    for (size_t i = 0; i < PAIRS; i++) {
        etl_slice key = draw_key(i % 8 == 0 ? SERIAL : RANDOM, prng, room);
        if (gaps && buffer->partition != NULL && room[0] >= 40 && room[0] < 200)
            room[0] = (uint8_t)(room[0] % 40);
        etl_slice value = etl_slice_of(room, prng_below(prng, 20));
        assert_int_equal(put_any(buffer, key, value), ETL_OK);
        oracle_add(pairs, key, value);
        if (i == PAIRS / 8)
            assert_int_equal(etl__buffer_deal(buffer, &ground.sort, &splitters, &ground.error),
                             ETL_OK);
    }
    seal(buffer);
}

static struct etl__provider *provider_ahead(const struct etl__buffer *buffer, unsigned threads) {
    struct etl__provider *provider = provider_over(buffer);
    etl__provider_partition_order_ahead(provider, threads);
    return provider;
}

/* Read `count` pairs at most, which are those from `at` on. */
static size_t read_some(struct etl__provider *provider, const struct oracle *sorted, size_t at,
                        size_t count) {
    struct etl__pair pair;
    for (; count != 0; count--, at++) {
        int status = etl__provider_read(provider, &pair, &ground.error);
        assert_int_equal(status, at < sorted->count ? ETL_OK : ETL_END);
        if (status == ETL_END)
            break;
        assert_true(same_pair(&sorted->pairs[at], &pair));
    }
    return at;
}

static void same_for_any_threads(void **unused) {
    (void)unused;
    struct prng prng;
    prng_start(&prng, 1);
    for (int round = 0; round < 4; round++) {
        struct etl__buffer buffer;
        struct oracle pairs = {0}, sorted = {0};
        const struct oracle_rules all = {.order_values = round >= 2};
        ground_start(256 * MIB, round % 2 == 0);
        fill(&buffer, &pairs, &prng, round % 2 == 1, round >= 2);
        assert_true(oracle_settle(&pairs, &all, &sorted));
        for (unsigned threads = 0; threads <= 20; threads += 1 + threads / 3) {
            struct etl__provider *provider = provider_ahead(&buffer, threads);
            assert_int_equal(read_some(provider, &sorted, 0, SIZE_MAX), PAIRS);
            provider->close(provider);
            /* closed early, and sought from there */
            for (int i = 0; i < 6; i++) {
                provider = provider_ahead(&buffer, threads);
                size_t at = read_some(provider, &sorted, 0, prng_below(&prng, PAIRS));
                const struct oracle_pair *to = &sorted.pairs[prng_below(&prng, PAIRS)];
                if (i % 2 == 0) {
                    at = oracle_lower_bound(&sorted, oracle_key(to));
                    assert_int_equal(
                        provider->seek(provider, to->key, to->key_size, &ground.error), ETL_OK);
                }
                read_some(provider, &sorted, at, prng_below(&prng, PAIRS));
                provider->close(provider);
            }
        }
        etl__buffer_end(&buffer);
        oracle_clear(&pairs);
        oracle_clear(&sorted);
        ground_end();
    }
}

/* Several readers of one buffer at once, in turn. */
static void readers_share_nothing(void **unused) {
    (void)unused;
    enum { READERS = 3 };
    struct prng prng;
    struct etl__buffer buffer;
    struct oracle pairs = {0}, sorted = {0};
    const struct oracle_rules all = {.order_values = false};
    struct etl__provider *providers[READERS];
    size_t at[READERS] = {0}, left = READERS;
    prng_start(&prng, 2);
    ground_start(256 * MIB, false);
    fill(&buffer, &pairs, &prng, true, false);
    assert_true(oracle_settle(&pairs, &all, &sorted));
    for (size_t i = 0; i < READERS; i++)
        providers[i] = provider_ahead(&buffer, (unsigned)i + 1);
    while (left != 0) {
        size_t i = prng_below(&prng, READERS), before = at[i];
        if (before == SIZE_MAX)
            continue;
        at[i] = read_some(providers[i], &sorted, before, prng_between(&prng, 1, 3000));
        if (at[i] == PAIRS && before == PAIRS) {
            at[i] = SIZE_MAX;
            left--;
        }
    }
    for (size_t i = 0; i < READERS; i++)
        providers[i]->close(providers[i]);
    etl__buffer_end(&buffer);
    oracle_clear(&pairs);
    oracle_clear(&sorted);
    ground_end();
}

/* Shelves are taken from what is left below the limit, or not at all. */
static void no_shelves_above_the_limit(void **unused) {
    (void)unused;
    struct prng prng;
    struct etl__buffer buffer;
    struct oracle pairs = {0};
    prng_start(&prng, 3);
    ground_start(256 * MIB, false);
    fill(&buffer, &pairs, &prng, false, false);
    size_t used = atomic_load(&ground.memory.used) - atomic_load(&ground.memory.kept_bytes);
    size_t each = etl__partition_order_bytes(buffer.partition);
    for (size_t shelves = 0; shelves < 12; shelves++) {
        ground.memory.limit = used + shelves * each;
        struct etl__order_ahead *ahead =
            etl__order_ahead_start(&buffer, &ground.memory, 0, (unsigned)shelves);
        assert_true(ahead == NULL || shelves >= 4);
        assert_true(ahead != NULL || shelves < 6);
        size_t now = atomic_load(&ground.memory.used) - atomic_load(&ground.memory.kept_bytes);
        assert_true(now <= ground.memory.limit);
        if (ahead != NULL)
            etl__order_ahead_stop(ahead);
    }
    ground.memory.limit = 256 * MIB;
    etl__buffer_end(&buffer);
    oracle_clear(&pairs);
    ground_end();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_for_any_threads),
        cmocka_unit_test(readers_share_nothing),
        cmocka_unit_test(no_shelves_above_the_limit),
    };
    return cmocka_run_group_tests(tests, support_setup, support_teardown);
}
