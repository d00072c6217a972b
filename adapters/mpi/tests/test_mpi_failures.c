/* test_mpi_failures.c: what fails on one rank ends the load on all of them, with its status and its
 * message, and consumes nothing: loading again gives every pair. Callbacks, cancelling, arguments,
 * memory that is refused, and MPI calls that fail. */
#include "mpi_faults.h"
#include "mpi_support.h"

#include <string.h>

enum { PAIRS = 4000, STOP = 4711 };

static const struct oracle_rules keep_all = {.duplicates = ETL_KEEP_ALL};

/* PAIRS random pairs on all ranks together, with blocks of 1 KiB: many are on their way at any
 * time. */
static void open_scene(struct scene *scene, uint64_t number) {
    struct prng prng;
    memset(scene, 0, sizeof *scene);
    prng_start(&prng, number);
    for (size_t i = 0; i < PAIRS; i++) {
        uint64_t key = prng_next(&prng);
        unsigned char value[60];
        memset(value, (int)i, sizeof value);
        oracle_add(&scene->input, etl_slice_of(&key, sizeof key),
                   etl_slice_of(value, prng_below(&prng, sizeof value)));
    }
    scene_deal(scene, &prng, &keep_all, 0);
}

static const etl_mpi_options small_blocks = {sizeof(etl_mpi_options), 1, NULL};

/* Of many ranks the first, the last and one between. */
static int some_ranks(void) {
    return team_size > 3 ? (team_size - 1) / 2 : 1;
}

/* ---- Callbacks */

struct stopper {
    size_t pairs, stop_at;
    int value;
    etl_collector *cancelled; /* instead of returning value */
};

static int stop(void *context, etl_slice key, etl_slice value) {
    struct stopper *stopper = context;
    (void)key, (void)value;
    if (stopper->pairs++ != stopper->stop_at)
        return 0;
    if (stopper->cancelled == NULL)
        return stopper->value;
    etl_cancel(stopper->cancelled);
    return 0;
}

static void stop_on(const struct scene *scene, int rank, size_t at, int value) {
    etl_options options = support_options(MIB);
    etl_collector *collector = scene_collect(scene, &options);
    struct stopper stopper = {.stop_at = team_rank == rank ? at : SIZE_MAX, .value = value};
    ASSERT_STATUS(value, collector,
                  etl_mpi_load(collector, MPI_COMM_WORLD, stop, &stopper, &small_blocks));
    assert_message_names(collector, rank);
    assert_non_null(strstr(etl_collector_message(collector), "load callback returned"));
    scene_load(scene, collector, &small_blocks);
    etl_collector_destroy(collector);
}

static void test_a_callback_stops_all_ranks(void **state) {
    (void)state;
    struct scene scene;
    open_scene(&scene, 1);
    size_t middle = PAIRS / (size_t)team_size / 4;
    for (int rank = 0; rank < team_size; rank += some_ranks()) {
        stop_on(&scene, rank, 0, STOP);
        stop_on(&scene, rank, middle, -5);
        stop_on(&scene, rank, middle, ETL_END);
    }
    scene_clear(&scene);
}

static void test_several_ranks_stop_at_once(void **state) {
    (void)state;
    struct scene scene;
    etl_options options = support_options(MIB);
    open_scene(&scene, 2);
    for (size_t at = 0; at < 20; at++) {
        etl_collector *collector = scene_collect(&scene, &options);
        struct stopper stopper = {.stop_at = at, .value = STOP + team_rank};
        int status = etl_mpi_load(collector, MPI_COMM_WORLD, stop, &stopper, &small_blocks);
        assert_true(status >= STOP && status < STOP + team_size);
        team_assert_same(status);
        assert_message_names(collector, status - STOP);
        scene_load(&scene, collector, &small_blocks);
        etl_collector_destroy(collector);
    }
    scene_clear(&scene);
}

/* ---- Cancelling */

static void cancel_on(const struct scene *scene, int rank, size_t at) {
    etl_options options = support_options(MIB);
    etl_collector *collector = scene_collect(scene, &options);
    struct stopper stopper = {.stop_at = at, .cancelled = team_rank == rank ? collector : NULL};
    if (at == SIZE_MAX && team_rank == rank)
        etl_cancel(collector);
    ASSERT_STATUS(ETL_E_CANCELLED, collector,
                  etl_mpi_load(collector, MPI_COMM_WORLD, stop, &stopper, &small_blocks));
    assert_message_names(collector, rank);
    if (team_rank == rank)
        etl_resume(collector);
    scene_load(scene, collector, &small_blocks);
    etl_collector_destroy(collector);
}

static void test_a_cancel_ends_all_ranks(void **state) {
    (void)state;
    struct scene scene;
    open_scene(&scene, 3);
    for (int rank = 0; rank < team_size; rank += some_ranks()) {
        cancel_on(&scene, rank, SIZE_MAX); /* before the load */
        cancel_on(&scene, rank, 10);
        cancel_on(&scene, rank, PAIRS / (size_t)team_size / 4);
    }
    scene_clear(&scene);
}

/* ---- Arguments */

static int count_pair(void *context, etl_slice key, etl_slice value) {
    (void)key, (void)value;
    ++*(size_t *)context;
    return 0;
}

/* One rank comes with something wrong, the others with nothing. */
static void expect_refused(int status, int rank, etl_collector *collector, bool no_collector,
                           etl_load_fn *load, const etl_mpi_options *options) {
    size_t pairs = 0;
    ASSERT_STATUS(
        status, collector,
        etl_mpi_load(no_collector ? NULL : collector, MPI_COMM_WORLD, load, &pairs, options));
    assert_int_equal(pairs, 0);
    if (!no_collector)
        assert_non_null(strstr(etl_collector_message(collector), "rank "));
    (void)rank;
}

static void refuse_on(const struct scene *scene, int rank) {
    bool me = team_rank == rank;
    etl_mpi_stats no_size = {.struct_size = 0};
    etl_mpi_options small = {2, 0, NULL}, unsized = {sizeof unsized, 0, &no_size};
    etl_options options = support_options(MIB);
    etl_collector *collector = scene_collect(scene, &options);
    expect_refused(ETL_E_INVALID, rank, collector, me, count_pair, NULL);
    expect_refused(ETL_E_INVALID, rank, collector, false, me ? NULL : count_pair, NULL);
    expect_refused(ETL_E_INVALID, rank, collector, false, count_pair, me ? &small : NULL);
    expect_refused(ETL_E_INVALID, rank, collector, false, count_pair, me ? &unsized : NULL);
    etl_iter *iter = NULL;
    if (me)
        ASSERT_OK(collector, etl_iter_open(&iter, collector, NULL));
    expect_refused(ETL_E_STATE, rank, collector, false, count_pair, NULL);
    etl_iter_close(iter);
    scene_load(scene, collector, NULL);
    etl_collector_destroy(collector);
}

static void test_what_one_rank_gets_wrong_is_told_to_all(void **state) {
    (void)state;
    struct scene scene;
    open_scene(&scene, 4);
    for (int rank = 0; rank < team_size; rank += some_ranks())
        refuse_on(&scene, rank);
    scene_clear(&scene);
}

static void test_ranks_must_agree_on_rules(void **state) {
    (void)state;
    struct scene scene;
    open_scene(&scene, 5);
    etl_options options = support_options(MIB);
    if (team_rank == team_size - 1)
        options.order_values = true;
    etl_collector *collector = scene_collect(&scene, &options);
    if (team_size > 1)
        expect_refused(ETL_E_INVALID, team_size - 1, collector, false, count_pair, NULL);
    etl_collector_destroy(collector);
    scene_clear(&scene);
}

static void test_without_a_communicator(void **state) {
    (void)state;
    etl_options options = support_options(MIB);
    etl_collector *collector;
    size_t pairs = 0;
    ASSERT_OK(NULL, etl_collector_create(&collector, &options));
    ASSERT_STATUS(ETL_E_INVALID, collector,
                  etl_mpi_load(collector, MPI_COMM_NULL, count_pair, &pairs, NULL));
    if (team_size > 1) {
        MPI_Comm half, between;
        MPI_Comm_split(MPI_COMM_WORLD, team_rank % 2, 0, &half);
        MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - team_rank % 2, 9, &between);
        ASSERT_STATUS(ETL_E_INVALID, collector,
                      etl_mpi_load(collector, between, count_pair, &pairs, NULL));
        MPI_Comm_free(&between);
        MPI_Comm_free(&half);
    }
    etl_collector_destroy(collector);
}

/* Halves of the ranks load at the same time, and take no notice of each other. */
static void test_two_teams_at_once(void **state) {
    (void)state;
    etl_options options = support_options(MIB);
    etl_collector *collector;
    MPI_Comm half;
    MPI_Comm_split(MPI_COMM_WORLD, team_rank % 2, 0, &half);
    for (int round = 0; round < 5; round++) {
        size_t pairs = 0;
        long long mine, all = 0;
        int members;
        ASSERT_OK(NULL, etl_collector_create(&collector, &options));
        for (uint64_t i = 0; i < 1000; i++)
            ASSERT_OK(collector, counted_collect(collector, i * 7 % 1000));
        ASSERT_OK(collector, etl_mpi_load(collector, half, count_pair, &pairs, &small_blocks));
        mine = (long long)pairs;
        MPI_Comm_size(half, &members);
        MPI_Allreduce(&mine, &all, 1, MPI_LONG_LONG, MPI_SUM, half);
        assert_int_equal(all, 1000 * members);
        etl_collector_destroy(collector);
    }
    MPI_Comm_free(&half);
}

/* A callback may not call into its collector. */
static int call_back(void *context, etl_slice key, etl_slice value) {
    return etl_collect(context, key, value) == ETL_E_STATE ? 0 : STOP;
}

static void test_callbacks_are_kept_out(void **state) {
    (void)state;
    etl_options options = support_options(MIB);
    etl_collector *collector;
    ASSERT_OK(NULL, etl_collector_create(&collector, &options));
    ASSERT_OK(collector, counted_collect(collector, 1));
    ASSERT_OK(collector, etl_mpi_load(collector, MPI_COMM_WORLD, call_back, collector, NULL));
    etl_collector_destroy(collector);
}

/* ---- Memory that is refused */

/* On one rank the n-th allocation of the load fails, for every n until the load succeeds. */
static void refuse_memory_on(const struct scene *scene, int rank) {
    struct support_memory memory = {.calls = 0};
    etl_options options = support_options(MIB);
    options.allocator = support_allocator(&memory);
    options.threads = ETL_THREADS_NONE;
    size_t refused = 0;
    for (size_t n = 1;; n += team_size > 4 ? 5 : 1) {
        struct oracle got = {NULL, 0, 0};
        etl_collector *collector = scene_collect(scene, &options);
        atomic_store(&memory.refuse_count, 1);
        if (team_rank == rank)
            atomic_store(&memory.refuse_from, atomic_load(&memory.calls) + n);
        int status = etl_mpi_load(collector, MPI_COMM_WORLD, keep_pair, &got, &small_blocks);
        atomic_store(&memory.refuse_from, 0);
        team_assert_same(status);
        oracle_clear(&got);
        if (status != ETL_OK) {
            ASSERT_STATUS(ETL_E_NOMEM, collector, status);
            assert_message_names(collector, rank);
            scene_load(scene, collector, &small_blocks);
            refused++;
        }
        etl_collector_destroy(collector);
        if (status == ETL_OK)
            break;
    }
    print_message("rank %d: %zu allocations refused\n", rank, refused);
    assert_true(refused > 5);
    support_memory_check(&memory);
}

static void test_memory_is_refused_on_one_rank(void **state) {
    (void)state;
    struct scene scene;
    open_scene(&scene, 6);
    refuse_memory_on(&scene, team_size - 1);
    scene_clear(&scene);
}

/* A value of many blocks comes to a rank that has no memory for it. */
static void test_no_memory_for_a_large_pair(void **state) {
    (void)state;
    static unsigned char value[3 * 1024 * 1024];
    struct support_memory memory = {.calls = 0};
    etl_options options = support_options(16 * MIB);
    options.allocator = support_allocator(&memory);
    etl_collector *collector;
    size_t pairs = 0, failures = 0;
    ASSERT_OK(NULL, etl_collector_create(&collector, &options));
    ASSERT_OK(collector, etl_collect(collector, etl_slice_of(&team_rank, 4),
                                     etl_slice_of(value, sizeof value)));
    for (size_t n = 1;; n++, failures++) {
        atomic_store(&memory.refuse_count, 1);
        atomic_store(&memory.refuse_from, atomic_load(&memory.calls) + n);
        int status = etl_mpi_load(collector, MPI_COMM_WORLD, count_pair, &pairs, &small_blocks);
        atomic_store(&memory.refuse_from, 0);
        team_assert_same(status);
        if (status == ETL_OK)
            break;
        ASSERT_STATUS(ETL_E_NOMEM, collector, status);
    }
    assert_true(failures > 3);
    etl_collector_destroy(collector);
    support_memory_check(&memory);
}

/* ---- MPI calls that fail */

static int load_with_fault(const struct scene *scene, const struct support_memory *memory,
                           enum mpi_call call, size_t n, int rank) {
    struct oracle got = {NULL, 0, 0};
    etl_options options = support_options(MIB);
    options.allocator = support_allocator((struct support_memory *)memory);
    etl_collector *collector = scene_collect(scene, &options);
    mpi_fault_set(call, rank < 0 || team_rank == rank ? n : 0);
    int status = etl_mpi_load(collector, MPI_COMM_WORLD, keep_pair, &got, &small_blocks);
    mpi_fault_set(call, 0);
    oracle_clear(&got);
    team_assert_same(status);
    if (status != ETL_OK) {
        ASSERT_STATUS(ETL_E_IO, collector, status);
        if (rank >= 0)
            assert_message_names(collector, rank);
        assert_non_null(strstr(etl_collector_message(collector), "MPI_"));
        scene_load(scene, collector, &small_blocks);
    }
    etl_collector_destroy(collector);
    return status;
}

/* Calls between two ranks: the n-th fails on one of them. */
static void test_a_message_fails(void **state) {
    (void)state;
    static const enum mpi_call calls[] = {MPI_CALL_ISSEND, MPI_CALL_IRECV, MPI_CALL_TESTSOME,
                                          MPI_CALL_GET_COUNT};
    struct support_memory memory = {.calls = 0};
    struct scene scene;
    open_scene(&scene, 7);
    for (size_t i = 0; i < COUNT_OF(calls); i++)
        for (size_t n = 1; n < 40; n += n < 4 ? 1 : 9) {
            int status = load_with_fault(&scene, &memory, calls[i], n, (int)n % team_size);
            assert_true(status == ETL_E_IO || n >= 4); /* so many calls may not be needed */
        }
    support_memory_check(&memory);
    scene_clear(&scene);
}

/* Calls of all ranks together: the n-th fails on all of them. */
static void test_a_collective_call_fails(void **state) {
    (void)state;
    static const enum mpi_call calls[] = {
        MPI_CALL_DUP,        MPI_CALL_IALLREDUCE,  MPI_CALL_ALLREDUCE, MPI_CALL_BCAST,
        MPI_CALL_IALLGATHER, MPI_CALL_IALLGATHERV, MPI_CALL_RANK};
    struct support_memory memory = {.calls = 0};
    struct scene scene;
    open_scene(&scene, 8);
    for (size_t i = 0; i < COUNT_OF(calls); i++) {
        size_t n = 1;
        while (load_with_fault(&scene, &memory, calls[i], n, -1) != ETL_OK)
            n++;
        assert_true(n > 1);
    }
    support_memory_check(&memory);
    scene_clear(&scene);
}

int main(int argc, char **argv) {
    if (etl_mpi_load(NULL, MPI_COMM_WORLD, count_pair, NULL, NULL) != ETL_E_STATE)
        return 3; /* MPI is not up yet */
    team_begin(&argc, &argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_callback_stops_all_ranks),
        cmocka_unit_test(test_several_ranks_stop_at_once),
        cmocka_unit_test(test_a_cancel_ends_all_ranks),
        cmocka_unit_test(test_what_one_rank_gets_wrong_is_told_to_all),
        cmocka_unit_test(test_ranks_must_agree_on_rules),
        cmocka_unit_test(test_without_a_communicator),
        cmocka_unit_test(test_two_teams_at_once),
        cmocka_unit_test(test_callbacks_are_kept_out),
        cmocka_unit_test(test_memory_is_refused_on_one_rank),
        cmocka_unit_test(test_no_memory_for_a_large_pair),
        cmocka_unit_test(test_a_message_fails),
        cmocka_unit_test(test_a_collective_call_fails),
    };
    int failed = TEAM_RUN(tests);
    if (etl_mpi_load(NULL, MPI_COMM_WORLD, count_pair, NULL, NULL) != ETL_E_STATE)
        return 4; /* and now it is over */
    return failed;
}
