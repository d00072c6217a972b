/* test_alloc.c: what is counted is what is held.
 *
 * Kept blocks, large blocks and mappings against the numbers that alloc.h promises, with a hook
 * that notices a wrong old size, and against a munmap that refuses: it is defined here, so that
 * the library's calls come to this one. */
#include "alloc.h"
#include "os.h"
#include "support.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static const etl_allocator no_hook;
static size_t munmap_calls, munmap_refused;
static bool munmap_refuses;

#if defined(SYS_munmap)
int munmap(void *memory, size_t size) {
    munmap_calls++;
    if (munmap_refuses) {
        munmap_refused++;
        errno = ENOMEM;
        return -1;
    }
    return (int)syscall(SYS_munmap, memory, size);
}
#endif

static void assert_counts(const struct etl__memory *memory, size_t used, size_t kept,
                          uint64_t allocations) {
    assert_int_equal(atomic_load(&memory->used), used);
    assert_int_equal(atomic_load(&memory->kept_bytes), kept);
    assert_int_equal(atomic_load(&memory->allocations), allocations);
}

/* Small blocks: 64 bytes, or a power of two and none to three quarters more. Large ones: as they
 * are, or in whole pages. */
static size_t cost_of(size_t size, bool mapped) {
    if (size <= ETL__KEPT_LEAST)
        return ETL__KEPT_LEAST;
    size_t step = 16, page = mapped ? etl__os_page_size() : 1;
    if (size > ETL__KEPT_MOST)
        return (size + page - 1) / page * page;
    while (8 * step < size)
        step *= 2;
    return (size + step - 1) / step * step;
}

static const size_t edges[] = {0,
                               1,
                               63,
                               64,
                               65,
                               128,
                               129,
                               1000,
                               4096,
                               4097,
                               128 * KIB - 1,
                               128 * KIB,
                               128 * KIB + 1,
                               256 * KIB - 1,
                               256 * KIB,
                               256 * KIB + 1,
                               448 * KIB,
                               448 * KIB + 1,
                               512 * KIB,
                               512 * KIB + 1,
                               1 * MIB,
                               1 * MIB + 1,
                               4 * MIB,
                               5 * MIB + 12345};

static void test_one_block(void **unused) {
    (void)unused;
    for (int hooked = 0; hooked <= 1; hooked++)
        for (size_t i = 0; i < COUNT_OF(edges); i++) {
            struct support_memory held = {0};
            etl_allocator hook = hooked ? support_allocator(&held) : no_hook;
            struct etl__memory memory;
            etl__memory_init(&memory, &hook, 64 * MIB);
            size_t cost = cost_of(edges[i], !hooked);
            bool is_kept = edges[i] <= ETL__KEPT_MOST;
            if (!is_kept)
                assert_int_equal(etl__large_cost(&memory, edges[i]), cost);
            uint8_t *block = etl__alloc(&memory, edges[i]);
            assert_non_null(block);
            assert_int_equal((uintptr_t)block % _Alignof(max_align_t), 0);
            memset(block, 0xEE, edges[i]);
            assert_counts(&memory, cost, 0, 1);
            assert_int_equal(etl__memory_left(&memory), 64 * MIB - cost);
            if (hooked)
                assert_int_equal(atomic_load(&held.bytes), cost);
            etl__free(&memory, block, edges[i]);
            assert_counts(&memory, is_kept ? cost : 0, is_kept ? cost : 0, 1);
            assert_int_equal(etl__memory_left(&memory), 64 * MIB);
            assert_int_equal(atomic_load(&memory.peak), cost);
            etl__memory_end(&memory);
            assert_counts(&memory, 0, 0, 1);
            support_memory_check(&held);
        }
}

static void test_kept_by_class(void **unused) {
    (void)unused;
    struct support_memory held = {0};
    etl_allocator hook = support_allocator(&held);
    struct etl__memory memory;
    etl__memory_init(&memory, &hook, 64 * MIB);
    void *small = etl__alloc(&memory, 65), *large = etl__alloc(&memory, 256 * KIB);
    etl__free(&memory, small, 65);
    etl__free(&memory, large, 256 * KIB);
    assert_counts(&memory, 80 + 256 * KIB, 80 + 256 * KIB, 2);
    /* Another size of the same class takes the block that waits, one of another class does not. */
    assert_ptr_equal(etl__alloc(&memory, 80), small);
    assert_ptr_equal(etl__alloc(&memory, 224 * KIB + 1), large);
    assert_counts(&memory, 80 + 256 * KIB, 0, 2);
    void *other = etl__alloc(&memory, 64), *second = etl__alloc(&memory, 70);
    assert_counts(&memory, 80 + 256 * KIB + 64 + 80, 0, 4);
    etl__free(&memory, small, 80);
    etl__free(&memory, second, 70);
    assert_ptr_equal(etl__alloc(&memory, 66), second);
    assert_ptr_equal(etl__alloc(&memory, 66), small);
    etl__free(&memory, small, 66);
    etl__free(&memory, second, 66);
    etl__free(&memory, other, 64);
    etl__free(&memory, large, 224 * KIB + 1);
    etl__free(&memory, NULL, 1000);
    assert_int_equal(atomic_load(&held.calls), 4);
    etl__memory_trim(&memory);
    assert_counts(&memory, 0, 0, 4);
    support_memory_check(&held);
    etl__memory_end(&memory);
}

/* Asked for as large, a block of any size is of exactly this size and is not kept. */
static void test_large(void **unused) {
    (void)unused;
    for (int hooked = 0; hooked <= 1; hooked++)
        for (size_t i = 1; i < COUNT_OF(edges); i++) {
            struct support_memory held = {0};
            etl_allocator hook = hooked ? support_allocator(&held) : no_hook;
            struct etl__memory memory;
            etl__memory_init(&memory, &hook, 64 * MIB);
            uint8_t *block = etl__alloc_large(&memory, edges[i]);
            assert_non_null(block);
            memset(block, 0xEE, edges[i]);
            assert_counts(&memory, etl__large_cost(&memory, edges[i]), 0, 1);
            if (hooked)
                assert_int_equal(atomic_load(&held.bytes), edges[i]);
            etl__free_large(&memory, block, edges[i]);
            assert_counts(&memory, 0, 0, 1);
            etl__memory_end(&memory);
            support_memory_check(&held);
        }
}

static void test_zeroed(void **unused) {
    (void)unused;
    static const uint8_t zeros[300 * 1024];
    struct etl__memory memory;
    etl__memory_init(&memory, &no_hook, 64 * MIB);
    for (size_t size = 1; size <= sizeof zeros; size = size * 3 + 7) {
        void *block = etl__alloc(&memory, size);
        memset(block, 0xEE, size);
        etl__free(&memory, block, size);
        block = etl__alloc_zeroed(&memory, size);
        assert_memory_equal(block, zeros, size);
        etl__free(&memory, block, size);
    }
    etl__memory_end(&memory);
    assert_int_equal(atomic_load(&memory.used), 0);
}

/* Blocks that wait do not count against what may be taken, and make way for what is taken. */
static void test_left(void **unused) {
    (void)unused;
    struct support_memory held = {0};
    etl_allocator hook = support_allocator(&held);
    struct etl__memory memory;
    etl__memory_init(&memory, &hook, 1 * MIB);
    void *blocks[3];
    for (size_t i = 0; i < 3; i++)
        blocks[i] = etl__alloc(&memory, 256 * KIB);
    assert_int_equal(etl__memory_left(&memory), 256 * KIB);
    etl__free(&memory, blocks[0], 256 * KIB);
    etl__free(&memory, blocks[1], 256 * KIB);
    assert_int_equal(etl__memory_left(&memory), 768 * KIB);
    void *large = etl__alloc(&memory, 768 * KIB);
    assert_non_null(large);
    assert_counts(&memory, 1 * MIB, 0, 4);
    assert_int_equal(atomic_load(&memory.peak), 1 * MIB);
    assert_int_equal(atomic_load(&held.bytes), 1 * MIB);
    assert_int_equal(etl__memory_left(&memory), 0);
    /* The limit is the caller's to keep: past it memory is still given, and left stays at 0. */
    void *past = etl__alloc(&memory, 2 * MIB);
    assert_non_null(past);
    assert_int_equal(etl__memory_left(&memory), 0);
    assert_int_equal(atomic_load(&memory.peak), 3 * MIB);
    etl__free(&memory, past, 2 * MIB);
    assert_int_equal(etl__memory_left(&memory), 0);
    etl__free(&memory, large, 768 * KIB);
    assert_int_equal(etl__memory_left(&memory), 768 * KIB);
    etl__free(&memory, blocks[2], 256 * KIB);
    etl__memory_end(&memory);
    assert_int_equal(atomic_load(&memory.peak), 3 * MIB);
    support_memory_check(&held);
}

static void test_refused(void **unused) {
    (void)unused;
    struct support_memory held = {.refuse_from = 1};
    etl_allocator hook = support_allocator(&held);
    struct etl__memory memory;
    etl__memory_init(&memory, &hook, 64 * MIB);
    void *array = NULL;
    size_t capacity = 0;
    for (size_t i = 0; i < COUNT_OF(edges); i++) {
        assert_null(etl__alloc(&memory, edges[i]));
        assert_null(etl__alloc_zeroed(&memory, edges[i]));
    }
    assert_false(etl__grow(&memory, &array, &capacity, 1, 1));
    assert_null(etl__alloc_large(&memory, 100));
    assert_null(array);
    assert_int_equal(capacity, 0);
    assert_counts(&memory, 0, 0, 0);
    assert_int_equal(atomic_load(&memory.peak), 0);
    etl__memory_end(&memory);
    support_memory_check(&held);

    etl__memory_init(&memory, &no_hook, 64 * MIB);
    assert_int_equal(etl__large_cost(&memory, SIZE_MAX), SIZE_MAX);
    assert_null(etl__alloc(&memory, SIZE_MAX));
    assert_null(etl__alloc(&memory, SIZE_MAX / 2));
    assert_counts(&memory, 0, 0, 0);
    etl__memory_end(&memory);
}

static void test_grow(void **unused) {
    (void)unused;
    struct support_memory held = {0};
    etl_allocator hook = support_allocator(&held);
    struct etl__memory memory;
    etl__memory_init(&memory, &hook, 64 * MIB);
    uint32_t *array = NULL;
    size_t capacity = 0;
    for (size_t count = 1; count <= 100000; count++) {
        size_t before = capacity;
        assert_true(etl__grow(&memory, (void **)&array, &capacity, count, sizeof *array));
        assert_true(capacity >= count);
        assert_true(capacity == before || capacity >= 2 * before);
        array[count - 1] = (uint32_t)count * 2654435761u;
    }
    for (size_t i = 0; i < 100000; i++)
        if (array[i] != (uint32_t)(i + 1) * 2654435761u)
            fail_msg("item %zu was lost", i);
    /* One step as large as is wanted; contents stay where it fails. */
    size_t before = capacity;
    void *same = array;
    assert_false(etl__grow(&memory, (void **)&array, &capacity, SIZE_MAX / 2 + 2, 1));
    assert_false(etl__grow(&memory, (void **)&array, &capacity, SIZE_MAX / 4 + 2, 4));
    atomic_store(&held.refuse_from, 1);
    assert_false(etl__grow(&memory, (void **)&array, &capacity, capacity + 1, sizeof *array));
    assert_ptr_equal(array, same);
    assert_int_equal(capacity, before);
    atomic_store(&held.refuse_from, 0);
    assert_true(etl__grow(&memory, (void **)&array, &capacity, 1000000, sizeof *array));
    assert_true(capacity >= 1000000);
    assert_int_equal(array[99999], 100000 * 2654435761u);
    etl__free(&memory, array, capacity * sizeof *array);
    etl__memory_end(&memory);
    assert_int_equal(atomic_load(&memory.used), 0);
    support_memory_check(&held);
}

/* Any order of taking and giving: used is the sum of what is out and what waits. */
static void test_random(void **unused) {
    (void)unused;
    struct prng prng;
    prng_start(&prng, 1);
    for (int hooked = 0; hooked <= 1; hooked++) {
        struct support_memory held = {0};
        etl_allocator hook = hooked ? support_allocator(&held) : no_hook;
        struct etl__memory memory;
        etl__memory_init(&memory, &hook, 8 * MIB);
        uint8_t *blocks[40] = {NULL};
        size_t sizes[40], out = 0, peak = 0;
        for (size_t step = support_scaled(20000); step != 0; step--) {
            size_t i = prng_below(&prng, COUNT_OF(blocks));
            if (blocks[i] != NULL) {
                assert_int_equal(blocks[i][0], i);
                assert_int_equal(blocks[i][sizes[i] - 1], i);
                etl__free(&memory, blocks[i], sizes[i]);
                out -= cost_of(sizes[i], !hooked);
                blocks[i] = NULL;
            } else {
                sizes[i] = 1 + (size_t)(prng_next(&prng) >> (44 + prng_below(&prng, 20)));
                blocks[i] = etl__alloc(&memory, sizes[i]);
                assert_non_null(blocks[i]);
                blocks[i][0] = blocks[i][sizes[i] - 1] = (uint8_t)i;
                out += cost_of(sizes[i], !hooked);
            }
            size_t used = atomic_load(&memory.used), kept = atomic_load(&memory.kept_bytes);
            peak = used > peak ? used : peak;
            assert_int_equal(used, out + kept);
            assert_int_equal(atomic_load(&memory.peak), peak);
            assert_int_equal(etl__memory_left(&memory), out < 8 * MIB ? 8 * MIB - out : 0);
            assert_true(used <= 8 * MIB || kept == 0 || used <= peak);
            if (hooked)
                assert_int_equal(atomic_load(&held.bytes), used);
        }
        for (size_t i = 0; i < COUNT_OF(blocks); i++)
            etl__free(&memory, blocks[i], blocks[i] != NULL ? sizes[i] : 0);
        etl__memory_end(&memory);
        assert_int_equal(atomic_load(&memory.used), 0);
        support_memory_check(&held);
    }
}

static void *take_and_give(void *argument) {
    struct etl__memory *memory = argument;
    for (size_t i = 0; i < 20000; i++) {
        size_t size = 1 + i * 37 % 3000;
        uint8_t *block = etl__alloc(memory, size);
        if (block == NULL)
            return argument;
        memset(block, 0x11, size);
        etl__free(memory, block, size);
    }
    return NULL;
}

static void test_threads(void **unused) {
    (void)unused;
    struct support_memory held = {0};
    etl_allocator hook = support_allocator(&held);
    struct etl__memory memory;
    etl__memory_init(&memory, &hook, 64 * MIB);
    pthread_t threads[4];
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, take_and_give, &memory), 0);
    for (size_t i = 0; i < 4; i++) {
        void *failed;
        assert_int_equal(pthread_join(threads[i], &failed), 0);
        assert_null(failed);
    }
    /* At most one block of each class for each thread was ever needed. */
    assert_true(atomic_load(&memory.allocations) <= (uint64_t)4 * ETL__KEPT_CLASSES);
    assert_int_equal(atomic_load(&memory.used), atomic_load(&memory.kept_bytes));
    etl__memory_end(&memory);
    assert_int_equal(atomic_load(&memory.used), 0);
    support_memory_check(&held);
}

/* A mapping that the system does not take back stays in the account and is offered again. */
static void test_munmap_refused(void **unused) {
    (void)unused;
    struct etl__memory memory;
    etl__memory_init(&memory, &no_hook, 16 * MIB);
    void *blocks[4];
    size_t calls = munmap_calls;
    for (size_t i = 0; i < 4; i++)
        assert_non_null(blocks[i] = etl__alloc(&memory, 3 * MIB));
    etl__free(&memory, blocks[3], 3 * MIB);
    if (munmap_calls == calls) { /* the library's calls do not come here */
        for (size_t i = 0; i < 3; i++)
            etl__free(&memory, blocks[i], 3 * MIB);
        skip();
    }
    munmap_refuses = true;
    etl__free(&memory, blocks[0], 3 * MIB);
    assert_int_equal(munmap_refused, 1);
    etl__free(&memory, blocks[1], 3 * MIB);
    assert_counts(&memory, 9 * MIB, 0, 4);
    assert_int_equal(etl__memory_left(&memory), 7 * MIB);
    assert_true(munmap_refused >= 2);
    void *large = etl__alloc_large(&memory, 100);
    munmap_refuses = false;
    etl__free_large(&memory, large, 100); /* any large block given back is the occasion */
    assert_counts(&memory, 3 * MIB, 0, 5);

    munmap_refuses = true;
    etl__free(&memory, blocks[2], 3 * MIB);
    etl__memory_trim(&memory);
    assert_counts(&memory, 3 * MIB, 0, 5);
    munmap_refuses = false;
    etl__memory_end(&memory);
    assert_counts(&memory, 0, 0, 5);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_block), cmocka_unit_test(test_kept_by_class),
        cmocka_unit_test(test_large),     cmocka_unit_test(test_zeroed),
        cmocka_unit_test(test_left),      cmocka_unit_test(test_refused),
        cmocka_unit_test(test_grow),      cmocka_unit_test(test_random),
        cmocka_unit_test(test_threads),   cmocka_unit_test(test_munmap_refused)};
    return cmocka_run_group_tests(tests, support_setup, support_teardown);
}
