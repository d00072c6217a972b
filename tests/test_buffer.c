/* test_buffer.c: what was put into a buffer comes out in the oracle's order, within the limit, and
 * out of memory that is used again. */
#include "source_support.h"
#include <stdio.h>

#define FILLER_SIZE (2 * MIB)

static uint8_t *filler;

static int setup(void **state) {
    filler = malloc(FILLER_SIZE);
    if (filler == NULL)
        return -1;
    for (size_t i = 0; i < FILLER_SIZE; i++)
        filler[i] = (uint8_t)(i * 7 + i / 251);
    return support_setup(state);
}

static int teardown(void **state) {
    free(filler);
    return support_teardown(state);
}

static etl_slice text(const char *string) {
    return etl_slice_str(string);
}

/* From 0 bytes to a MiB, small ones as often as large ones. */
static size_t any_size(struct prng *prng) {
    return (size_t)(prng_next(prng) >> (44 + prng_below(prng, 20)));
}

static etl_slice any_key(struct prng *prng, uint8_t *room, size_t most) {
    size_t size = prng_below(prng, most + 1);
    for (size_t i = 0; i < size; i++)
        room[i] = (uint8_t)('a' + prng_below(prng, 3));
    return etl_slice_of(room, size);
}

static etl_slice any_value(struct prng *prng, size_t size) {
    if (size == 0)
        return etl_slice_of(prng_permille(prng, 500) ? "" : NULL, 0);
    return etl_slice_of(filler + prng_below(prng, FILLER_SIZE - size + 1), size);
}

static void add_random(struct prng *prng, struct oracle *pairs, struct etl__buffer *buffer,
                       size_t bytes) {
    uint8_t room[20];
    while (bytes != 0) {
        etl_slice key = any_key(prng, room, sizeof room);
        etl_slice value = any_value(prng, any_size(prng));
        size_t size = record_size(key.size, value);
        oracle_add(pairs, key, value);
        assert_int_equal(put(buffer, key, value), ETL_OK);
        bytes -= size < bytes ? size : bytes;
    }
}

static void test_all_sizes(void **unused) {
    (void)unused;
    struct prng prng;
    prng_start(&prng, 1);
    for (int round = 0; round < 4; round++) {
        ground_start(64 * MIB, round % 2 != 0);
        struct etl__buffer buffer;
        etl__buffer_init(&buffer, &ground.arena, 48 * MIB, round / 2 % 2 != 0);
        struct oracle pairs = {0};
        for (int times = 0; times < 2; times++) { /* emptied in between */
            seal(&buffer);
            assert_holds(&buffer, &pairs);
            for (int part = 0; part < 3; part++) { /* appended to after it was sealed */
                add_random(&prng, &pairs, &buffer, support_scaled(1 * MIB));
                assert_false(buffer.sealed);
                seal(&buffer);
                assert_holds(&buffer, &pairs);
                seal(&buffer);
            }
            etl__buffer_clear(&buffer);
            oracle_clear(&pairs);
        }
        etl__buffer_end(&buffer);
        ground_end();
    }
}

/* ---- The order in which keys came */

struct order_case {
    const char *keys; /* a comma between two */
    bool order_values;
    unsigned expected;
};

static const struct order_case orders[] = {
    {"", false, ETL__ASCENDING | ETL__DESCENDING},
    {"a", false, ETL__ASCENDING | ETL__DESCENDING},
    {"a,b", false, ETL__ASCENDING},
    {"b,a", false, ETL__DESCENDING},
    {"a,a", false, ETL__ASCENDING},
    {"a,a", true, 0},
    {"b,a,a", false, 0},
    {"a,b,b,c", false, ETL__ASCENDING},
    {"a,b,b,c", true, 0},
    {"a,b,c", true, ETL__ASCENDING},
    {"c,b,a", true, ETL__DESCENDING},
    {"a,b,a", false, 0},
    {"b,a,b", false, 0},
    {"c,b,b", false, 0},
    {",a", false, ETL__ASCENDING},
    {"a,", false, ETL__DESCENDING},
    {"a,aa,aaa", false, ETL__ASCENDING},
    {"aaa,aa,a", false, ETL__DESCENDING},
    {"12345678,123456789,12345678:", false, ETL__ASCENDING},
    {"12345678:,123456789,12345678", false, ETL__DESCENDING},
    {"123456789a,123456789b,123456789a", false, 0},
    {"z,\x80,\xff,\xff\xff", false, ETL__ASCENDING},
};

static void test_orders(void **unused) {
    (void)unused;
    for (size_t i = 0; i < COUNT_OF(orders); i++) {
        ground_start(4 * MIB, true);
        struct etl__buffer buffer;
        etl__buffer_init(&buffer, &ground.arena, 2 * MIB, orders[i].order_values);
        struct oracle pairs = {0};
        char value = '9'; /* against the order in which they come */
        for (const char *at = orders[i].keys; *orders[i].keys != '\0' && at != NULL; value--) {
            const char *comma = strchr(at, ',');
            size_t size = comma != NULL ? (size_t)(comma - at) : strlen(at);
            oracle_add(&pairs, etl_slice_of(at, size), etl_slice_of(&value, 1));
            at = comma != NULL ? comma + 1 : NULL;
        }
        put_all(&buffer, &pairs, 0, pairs.count);
        if (buffer.order != orders[i].expected)
            fail_msg("\"%s\": %u", orders[i].keys, buffer.order);
        seal(&buffer);
        bool needs_index = (orders[i].expected & ETL__ASCENDING) == 0;
        assert_int_equal(buffer.index_capacity != 0, needs_index);
        assert_holds(&buffer, &pairs);
        etl__buffer_end(&buffer);
        oracle_clear(&pairs);
        ground_end();
    }
}

/* Keys that differ by the zeros at their end are not equal. */
static void test_zeros_at_the_end(void **unused) {
    (void)unused;
    for (int descending = 0; descending <= 1; descending++) {
        ground_start(4 * MIB, true);
        struct etl__buffer buffer;
        etl__buffer_init(&buffer, &ground.arena, 2 * MIB, false);
        struct oracle pairs = {0};
        static const char zeros[20] = "x";
        for (size_t i = 0; i < sizeof zeros; i++)
            oracle_add(&pairs, etl_slice_of(zeros, descending ? sizeof zeros - i : i), text("v"));
        put_all(&buffer, &pairs, 0, pairs.count);
        assert_int_equal(buffer.order, descending ? ETL__DESCENDING : ETL__ASCENDING);
        seal(&buffer);
        assert_holds(&buffer, &pairs);
        etl__buffer_end(&buffer);
        oracle_clear(&pairs);
        ground_end();
    }
}

/* ---- The limit */

/* Pairs of this size (0: any up to 64 KiB) until the limit. Returns the bytes of their records. */
static uint64_t fill(struct etl__buffer *buffer, struct prng *prng, size_t size) {
    for (;;) {
        size_t value_size = size != 0 ? size - 2 : any_size(prng) / 16;
        etl_slice value = etl_slice_of(filler, value_size);
        uint32_t number = (uint32_t)prng_next(prng);
        size_t key_size = value_size < sizeof number ? value_size : sizeof number;
        value.size -= key_size;
        int status = put(buffer, etl_slice_of(&number, key_size), value);
        size_t taken = buffer->held + (size_t)buffer->pairs * sizeof *buffer->index;
        if (taken > buffer->limit)
            fail_msg("records of %zu bytes: %zu of %zu", size, taken, buffer->limit);
        if (status != ETL_OK) {
            assert_int_equal(status, ETL_END);
            return etl__buffer_record_bytes(buffer);
        }
    }
}

static void test_limit(void **unused) {
    (void)unused;
    static const size_t sizes[] = {2,    3,    4,    10,    17,    100,   500,   1000, 4000,
                                   4096, 5000, 8191, 10000, 16384, 20000, 40000, 65536};
    struct prng prng;
    prng_start(&prng, 2);
    for (size_t limit = 256 * KIB; limit <= 6 * MIB; limit = limit * 5 / 2 + 777)
        for (size_t i = 0; i <= COUNT_OF(sizes); i++) {
            size_t size = i < COUNT_OF(sizes) ? sizes[i] : 0;
            ground_start(2 * limit + 2 * MIB, false);
            struct etl__buffer buffer;
            etl__buffer_init(&buffer, &ground.arena, limit, false);
            uint64_t bytes = fill(&buffer, &prng, size);
            uint64_t used = bytes + buffer.pairs * sizeof *buffer.index;
            if (size != 0 && size < limit / 64 && used < limit / 4 * 3)
                fail_msg("%zu of %zu bytes used with records of %zu", (size_t)used, limit, size);
            uint64_t pairs = buffer.pairs;
            seal(&buffer);
            assert_int_equal(buffer.pairs, pairs);
            assert_int_equal(etl__buffer_extend(&buffer, FILLER_SIZE + limit), ETL_END);
            etl__buffer_end(&buffer);
            ground_end();
        }
}

/* Segments and index keep to the memory limit, where the buffer's own is
 * above it. */
static void test_memory_limit(void **unused) {
    (void)unused;
    struct prng prng;
    prng_start(&prng, 3);
    for (int i = 0; i < 200; i++) {
        size_t limit = prng_between(&prng, 512 * KIB, 2 * MIB), most = prng_between(&prng, 1, 14);
        ground_start(limit, false);
        struct etl__buffer buffer;
        etl__buffer_init(&buffer, &ground.arena, limit + 64 * KIB, false);
        int status;
        do {
            size_t size = prng_next(&prng) >> (50 + prng_below(&prng, most));
            uint32_t key = (uint32_t)prng_next(&prng);
            status = put(&buffer, etl_slice_of(&key, 4), etl_slice_of(filler, size));
        } while (status == ETL_OK);
        assert_true(status == ETL_E_NOMEM || status == ETL_END);
        assert_true(etl__buffer_record_bytes(&buffer) + 16 * buffer.pairs > limit / 2);
        seal(&buffer);
        if (atomic_load(&ground.memory.peak) > limit)
            fail_msg("%zu of %zu bytes taken", atomic_load(&ground.memory.peak), limit);
        etl__buffer_end(&buffer);
        ground_end();
    }
}

/* A pair above the limit gets a segment of its own, which is not kept. */
static void test_over_limit(void **unused) {
    (void)unused;
    ground_start(1 * MIB, true);
    struct etl__buffer buffer;
    etl__buffer_init(&buffer, &ground.arena, 512 * KIB, false);
    struct oracle pairs = {0};
    for (int round = 0; round < 3; round++) {
        etl_slice value = etl_slice_of(filler, FILLER_SIZE);
        oracle_add(&pairs, text("middle"), text("small"));
        put_all(&buffer, &pairs, 0, 1);
        size_t size = record_size(5, value);
        assert_int_equal(etl__buffer_extend(&buffer, size), ETL_END);
        assert_int_equal(etl__buffer_extend(&buffer, SIZE_MAX), ETL_END);
        assert_false(etl__buffer_extend_over_limit(&buffer, SIZE_MAX));
        atomic_store(&ground.held.refuse_from, 1);
        assert_false(etl__buffer_extend_over_limit(&buffer, size));
        atomic_store(&ground.held.refuse_from, 0);
        seal(&buffer);
        assert_holds(&buffer, &pairs);
        assert_true(etl__buffer_extend_over_limit(&buffer, size));
        place(&buffer, text("large"), value);
        oracle_add(&pairs, text("large"), value);
        assert_int_equal(etl__buffer_extend(&buffer, FILLER_SIZE), ETL_END);
        seal(&buffer);
        assert_holds(&buffer, &pairs);
        etl__buffer_clear(&buffer);
        oracle_clear(&pairs);
        assert_true(ground.arena.waiting_bytes < 512 * KIB);
        assert_true(etl__memory_left(&ground.memory) > 512 * KIB);
    }
    etl__buffer_end(&buffer);
    ground_end();
}

/* Large and small records in turn: what is left of a segment is used behind the large record. */
static void test_spare_room(void **unused) {
    (void)unused;
    ground_start(64 * MIB, false);
    struct etl__buffer buffer;
    etl__buffer_init(&buffer, &ground.arena, 32 * MIB, false);
    struct oracle pairs = {0};
    char key[16];
    for (unsigned i = 0; i < 24; i++) {
        snprintf(key, sizeof key, "%u", i * 7919 % 1000);
        oracle_add(&pairs, text(key), etl_slice_of(filler + i, i % 2 == 0 ? 5000 : 1900000));
    }
    put_all(&buffer, &pairs, 0, pairs.count);
    uint64_t bytes = etl__buffer_record_bytes(&buffer);
    assert_true(buffer.held <= bytes + 12 * etl__arena_segment_size(1) + 128 * KIB);
    seal(&buffer);
    assert_holds(&buffer, &pairs);
    etl__buffer_end(&buffer);
    oracle_clear(&pairs);
    ground_end();
}

/* ---- Numbering */

/* Scattered keys. The value is not written, so that its pages are never touched. */
static int put_untouched(struct etl__buffer *buffer, uint32_t number, size_t value_size) {
    uint32_t scattered = number * 2654435761u;
    uint8_t key[8] = {0,
                      0,
                      0,
                      0,
                      (uint8_t)(scattered >> 24),
                      (uint8_t)(scattered >> 16),
                      (uint8_t)(scattered >> 8),
                      (uint8_t)scattered};
    size_t size = etl__record_head_size(8, value_size + 1) + 8 + value_size;
    if (size > (size_t)(buffer->end - buffer->at)) {
        int status = etl__buffer_extend(buffer, size);
        if (status != ETL_OK)
            return status;
    }
    uint8_t *to = etl__buffer_place(buffer, 8, value_size + 1, value_size);
    memcpy(to, key, 8);
    etl__buffer_commit(buffer, to, 8);
    return ETL_OK;
}

/* Sealed, the pairs numbered up to count come by their keys, each once. */
static void assert_scattered(struct etl__buffer *buffer, uint32_t count) {
    assert_int_equal(buffer->order, 0);
    seal(buffer);
    struct etl__provider *provider = provider_over(buffer);
    struct etl__pair pair;
    uint64_t sum = 0, expected = 0, before = 0;
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(etl__provider_read(provider, &pair, &ground.error), ETL_OK);
        uint64_t key = etl__load_be64(pair.key);
        if (i != 0 && key <= before)
            fail_msg("pair %u of %u is out of order", i, count);
        before = key;
        sum += key;
        expected += (uint32_t)(i * 2654435761u);
    }
    assert_int_equal(etl__provider_read(provider, &pair, &ground.error), ETL_END);
    assert_int_equal(sum, expected);
    provider->close(provider);
}

/* 4096 slots are all that a reference can name: the buffer is full before it has more. A segment
 * that waits may be larger than any that is made. */
static void number_all(bool large_waits) {
    ground_start((size_t)1 << 33, false);
    struct etl__buffer buffer, other;
    etl__buffer_init(&buffer, &ground.arena, (size_t)1 << 32, false);
    etl__buffer_init(&other, &ground.arena, (size_t)1 << 32, false);
    assert_int_equal(put_untouched(&other, 0, 64 * MIB), ETL_OK);
    uint32_t count = 0;
    for (; count < 4070; count++)
        assert_int_equal(put_untouched(&buffer, count, 300 * KIB), ETL_OK);
    if (large_waits)
        etl__buffer_clear(&other);
    int status;
    while ((status = put_untouched(&buffer, count, 300 * KIB)) == ETL_OK)
        count++;
    assert_int_equal(status, ETL_END);
    assert_scattered(&buffer, count);
    etl__buffer_end(&buffer);
    etl__buffer_end(&other);
    ground_end();
}

static void test_numbering(void **unused) {
    (void)unused;
    number_all(false);
}

static void test_numbering_reused(void **unused) {
    (void)unused;
    number_all(true);
}

/* ---- Memory between rounds */

static void test_equal_rounds(void **unused) {
    (void)unused;
    struct prng prng;
    prng_start(&prng, 4);
    for (size_t kind = 0; kind < 12; kind++) {
        ground_start(64 * MIB, kind % 2 != 0);
        struct etl__buffer buffer;
        etl__buffer_init(&buffer, &ground.arena, 8 * MIB, false);
        uint64_t allocations = 0;
        struct prng start = prng;
        for (int round = 0; round < 4; round++) {
            prng = start;
            fill(&buffer, &prng, kind == 0 ? 2 : kind < 4 ? 20 * kind * kind : 0);
            seal(&buffer);
            etl__buffer_clear(&buffer);
            etl__arena_end_round(&ground.arena);
            if (round == 0)
                allocations = ground_allocations();
            else if (ground_allocations() != allocations)
                fail_msg("kind %zu, round %d: %d more allocations", kind, round,
                         (int)(ground_allocations() - allocations));
        }
        etl__buffer_end(&buffer);
        ground_end();
    }
}

/* ---- What fails changes nothing */

static void test_failures(void **unused) {
    (void)unused;
    struct prng prng;
    prng_start(&prng, 5);
    ground_start(64 * MIB, true);
    struct etl__buffer buffer;
    etl__buffer_init(&buffer, &ground.arena, 16 * MIB, false);
    struct oracle pairs = {0};
    for (int round = 0; round < 10; round++) {
        add_random(&prng, &pairs, &buffer, 40000);
        atomic_store(&ground.held.refuse_from, 1);
        assert_int_equal(put(&buffer, text("more"), etl_slice_of(filler, 1 * MIB)), ETL_E_NOMEM);
        etl__memory_trim(&ground.memory);
        int status = etl__buffer_seal(&buffer, &ground.sort, &ground.error);
        assert_true(status == ETL_OK || status == ETL_E_NOMEM);
        atomic_store(&ground.held.refuse_from, 0);
        atomic_store(&ground.cancel, 1);
        status = etl__buffer_seal(&buffer, &ground.sort, &ground.error);
        assert_true(status == ETL_OK || status == ETL_E_CANCELLED);
        atomic_store(&ground.cancel, 0);
        assert_int_equal(put(&buffer, text("more"), text("w")), ETL_OK);
        oracle_add(&pairs, text("more"), text("w"));
        seal(&buffer);
        assert_holds(&buffer, &pairs);
    }
    etl__buffer_end(&buffer);
    oracle_clear(&pairs);
    ground_end();
}

/* Room that was made for a pair that then did not come: the buffer is as without it. */
static void test_room_not_used(void **unused) {
    (void)unused;
    for (int over_limit = 0; over_limit <= 1; over_limit++)
        for (unsigned step = 0; step < 3; step++) { /* ascending, in any order, descending */
            ground_start(4 * MIB, false);
            struct etl__buffer buffer;
            etl__buffer_init(&buffer, &ground.arena, 2 * MIB, false);
            struct oracle pairs = {0};
            char key[8];
            for (unsigned i = 0; i < 40; i++) {
                snprintf(key, sizeof key, "%02u", (2 + i * (step == 1 ? 7 : 1)) % 41);
                if (step == 2)
                    snprintf(key, sizeof key, "%02u", 60 - i);
                oracle_add(&pairs, text(key), etl_slice_of(filler, 3000));
            }
            put_all(&buffer, &pairs, 0, 20);
            for (size_t from = 20; from <= 40; from += 20) {
                if (over_limit)
                    assert_true(etl__buffer_extend_over_limit(&buffer, 300 * KIB));
                else
                    assert_int_equal(etl__buffer_extend(&buffer, 300 * KIB), ETL_OK);
                seal(&buffer);
                struct oracle first = {pairs.pairs, from, from};
                assert_holds(&buffer, &first);
                put_all(&buffer, &pairs, from, from < 40 ? from + 20 : from);
            }
            etl__buffer_end(&buffer);
            oracle_clear(&pairs);
            ground_end();
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_sizes),        cmocka_unit_test(test_orders),
        cmocka_unit_test(test_zeros_at_the_end), cmocka_unit_test(test_limit),
        cmocka_unit_test(test_memory_limit),     cmocka_unit_test(test_over_limit),
        cmocka_unit_test(test_spare_room),       cmocka_unit_test(test_numbering),
        cmocka_unit_test(test_equal_rounds),     cmocka_unit_test(test_failures),
        cmocka_unit_test(test_room_not_used),    cmocka_unit_test(test_numbering_reused)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
