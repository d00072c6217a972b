/* test_arena.c: what waits in an arena: for how many rounds, and for whom it makes way. */
#include "source_support.h"

static void one_round(struct etl__buffer *buffer, size_t bytes) {
    static const uint8_t value[993];
    for (size_t i = 0; i < bytes / 1000; i++)
        assert_int_equal(put(buffer, etl_slice_str("key"), etl_slice_of(value, sizeof value)),
                         ETL_OK);
    etl__buffer_clear(buffer);
    etl__arena_end_round(&ground.arena);
}

/* A huge round does not pin its peak, nor does one small round forget it. */
static void test_fade(void **unused) {
    (void)unused;
    ground_start(64 * MIB, false);
    struct etl__buffer buffer;
    etl__buffer_init(&buffer, &ground.arena, 48 * MIB, false);
    one_round(&buffer, 40 * MIB);
    size_t before = ground.arena.waiting_bytes;
    assert_true(before >= 39 * MIB);
    one_round(&buffer, 40 * MIB);
    assert_int_equal(ground.arena.waiting_bytes, before);
    for (int round = 0; round < 80; round++) {
        one_round(&buffer, 100000);
        assert_true(ground.arena.waiting_bytes <= before);
        before = ground.arena.waiting_bytes;
        if (round == 2)
            assert_true(before >= 20 * MIB);
        if (round == 20)
            assert_true(before <= 10 * MIB);
    }
    assert_true(before >= 100000 && before <= 400 * KIB);
    etl__buffer_end(&buffer);
    ground_end();
}

/* What waits is given up where something else wants the memory, and no sooner. */
static void test_make_room(void **unused) {
    (void)unused;
    ground_start(4 * MIB, true);
    struct etl__segment *large = etl__arena_take(&ground.arena, 2 * MIB, 0, SIZE_MAX);
    struct etl__segment *small = etl__arena_take(&ground.arena, 500 * KIB, 0, SIZE_MAX);
    size_t large_size = large->size, small_size = small->size;
    assert_null(etl__arena_take(&ground.arena, 2 * MIB, 0, SIZE_MAX));
    large->next = small;
    etl__arena_give(&ground.arena, large);
    assert_int_equal(ground.arena.taken_bytes, 0);
    assert_int_equal(ground.arena.waiting_bytes, large_size + small_size);
    assert_true(etl__arena_make_room(&ground.arena, 1 * MIB));
    assert_int_equal(ground.arena.waiting_bytes, large_size + small_size);
    assert_true(etl__arena_make_room(&ground.arena, 2 * MIB));
    assert_int_equal(ground.arena.waiting_bytes, small_size);
    struct etl__segment *other = etl__arena_take(&ground.arena, 400 * KIB, 0, 450 * KIB);
    assert_true(other != NULL && other != small && other->size <= 450 * KIB);
    assert_ptr_equal(etl__arena_take(&ground.arena, 400 * KIB, 0, 1 * MIB), small);
    etl__arena_give(&ground.arena, small);
    etl__arena_give(&ground.arena, other);
    assert_false(etl__arena_make_room(&ground.arena, 5 * MIB));
    assert_int_equal(ground.arena.waiting_bytes, 0);
    ground_end();
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_fade),
                                       cmocka_unit_test(test_make_room)};
    return cmocka_run_group_tests(tests, support_setup, support_teardown);
}
