/* test_pool_budget.c: who may claim how much of a pool: floors, pledges, what is held back, and
 * who is asked to give back. By the numbers that pool.h promises, without collectors. */
#include "pool.h"
#include "pool_support.h"

enum { FLOOR = 512 * 1024, RESERVE = 128 * 1024 };

static struct etl__member join(etl_pool *pool) {
    struct etl__member member;
    etl__pool_join(pool, &member);
    etl__pool_promise(pool, &member, FLOOR, RESERVE);
    return member;
}

static void *take(etl_pool *pool, struct etl__member *member, size_t size, bool within) {
    struct etl__wish wish = {ETL__SEGMENT, size, size, size, within};
    bool is_new;
    size_t taken;
    return etl__pool_take(pool, member, &wish, &taken, &is_new);
}

/* A member's floor is there whatever another has claimed, and no more than that. */
static void a_floor_is_always_left(void **state) {
    (void)state;
    etl_pool *pool = pool_create(64 * MIB, 0, NULL);
    struct etl__member greedy = join(pool), modest = join(pool);
    assert_int_equal(etl__pool_enter(pool, &greedy, ""), 0);
    size_t left = etl__pool_left(pool, &greedy) - RESERVE; /* modest's floor is held back */
    assert_int_equal(left, 64 * MIB - FLOOR - RESERVE);
    void *all = take(pool, &greedy, left, true);
    assert_non_null(all);
    assert_null(take(pool, &greedy, 4096, true));
    assert_int_equal(etl__pool_enter(pool, &modest, ""), 0);
    assert_int_equal(etl__pool_left(pool, &modest), FLOOR);
    void *floor = take(pool, &modest, FLOOR - RESERVE, true);
    assert_non_null(floor);
    assert_null(take(pool, &modest, 4096, true));
    /* what is not refused passes it, and is then missing for all */
    void *over = take(pool, &modest, MIB, false);
    assert_non_null(over);
    etl__pool_give(pool, &modest, ETL__SEGMENT, over, MIB);
    etl__pool_give(pool, &modest, ETL__SEGMENT, floor, FLOOR - RESERVE);
    etl__pool_give(pool, &greedy, ETL__SEGMENT, all, left);
    etl__pool_leave(pool, &greedy, "", 0);
    etl__pool_leave(pool, &modest, "", 0);
    etl__pool_quit(pool, &modest);
    etl__pool_quit(pool, &greedy);
    assert_true(pool_stats(pool).memory_bytes <= 64 * MIB);
    etl_pool_destroy(pool);
}

static void a_pledge_is_gone_for_others(void **state) {
    (void)state;
    etl_pool *pool = pool_create(64 * MIB, 0, NULL);
    struct etl__member one = join(pool), two = join(pool);
    (void)etl__pool_enter(pool, &one, "");
    (void)etl__pool_enter(pool, &two, "");
    size_t before = etl__pool_left(pool, &two);
    etl__pool_pledge(pool, &one, 0, 8 * MIB);
    assert_int_equal(etl__pool_left(pool, &two), before - 8 * MIB - RESERVE + FLOOR);
    etl__pool_pledge(pool, &one, 8 * MIB, MIB);
    assert_int_equal(etl__pool_left(pool, &two), before - MIB - RESERVE + FLOOR);
    etl__pool_pledge(pool, &one, MIB, 0);
    assert_int_equal(etl__pool_left(pool, &two), before);
    etl__pool_quit(pool, &one);
    etl__pool_quit(pool, &two);
    etl_pool_destroy(pool);
}

/* 200 idle members hold back an eighth, not their floors. */
static void idle_members_hold_little_back(void **state) {
    (void)state;
    enum { IDLE = 200 };
    etl_pool *pool = pool_create(64 * MIB, 0, NULL);
    struct etl__member idle[IDLE], active = join(pool);
    for (unsigned i = 0; i < IDLE; i++)
        idle[i] = join(pool);
    (void)etl__pool_enter(pool, &active, "");
    assert_int_equal(etl__pool_left(pool, &active), 56 * MIB);
    for (unsigned i = 0; i < IDLE; i++)
        etl__pool_quit(pool, &idle[i]);
    assert_int_equal(etl__pool_left(pool, &active), 64 * MIB);
    etl__pool_quit(pool, &active);
    etl_pool_destroy(pool);
}

static void who_has_more_than_an_even_share_is_asked(void **state) {
    (void)state;
    etl_pool *pool = pool_create(8 * MIB, 0, NULL);
    struct etl__member rich = join(pool), poor = join(pool);
    (void)etl__pool_enter(pool, &rich, "");
    (void)etl__pool_enter(pool, &poor, "");
    void *much = take(pool, &rich, 5 * MIB, true);
    assert_false(etl__pool_asks(pool, &rich)); /* nobody is short */
    etl__pool_want(pool, &rich);
    assert_false(etl__pool_asks(pool, &rich)); /* nor for himself */
    etl__pool_want(pool, &poor);
    assert_false(etl__pool_asks(pool, &poor));
    assert_true(etl__pool_asks(pool, &rich));
    assert_false(etl__pool_asks(pool, &rich)); /* once */
    etl__pool_give(pool, &rich, ETL__SEGMENT, much, 5 * MIB);
    etl__pool_quit(pool, &rich);
    etl__pool_quit(pool, &poor);
    etl_pool_destroy(pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_floor_is_always_left),
        cmocka_unit_test(a_pledge_is_gone_for_others),
        cmocka_unit_test(idle_members_hold_little_back),
        cmocka_unit_test(who_has_more_than_an_even_share_is_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
