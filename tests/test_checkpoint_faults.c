/* test_checkpoint_faults.c: each system call and each allocation of a durable collector fails,
 * once, thrice in a row, or interrupted: restoring, spilling, checkpoints, merging. The call that
 * meets it tells it, or has a way around; the same call succeeds when it is over; and what is
 * restored afterwards is right, with no file, block or descriptor left behind.
 *
 * The system calls fail in the double of power.h. */
#include "checkpoint_support.h"
#include "power.h"

#include <errno.h>

enum { CALLS_MOST = 100000, ALLOCATIONS_MOST = 5000 };

/* A life, with one fault. */
struct life {
    const char *directory;
    etl_options options;
    etl_collector *collector;
    uint64_t at;
    int error;  /* that of a system call; 0: of the allocator */
    bool alone; /* one fault: cleaning up after it works */
    size_t told;
};

static bool again(struct life *life, int status, const char *message) {
    if (status == ETL_OK)
        return false;
    const char *cause = life->error != 0 ? strerror(life->error) : "no memory";
    int expected = life->error == 0        ? ETL_E_NOMEM
                   : life->error == ENOSPC ? ETL_E_NOSPACE
                                           : ETL_E_IO;
    if (status != expected || strstr(message, cause) == NULL || life->told++ > 4)
        fail_msg("told %d for %d: \"%s\"", status, expected, message);
    if (life->alone)
        assert_int_equal(count_files(life->directory, ".tmp"), 0);
    return true;
}

static void restore(struct life *life, uint64_t expected) {
    char message[640] = "";
    etl_slice token;
    while (again(life,
                 etl_restore_message(&life->collector, &life->options, life->directory, &token,
                                     message, sizeof message),
                 message))
        assert_null(life->collector);
    assert_int_equal(number_of(token), expected);
}

#define LIVE(life, call)                                                      \
    do {                                                                      \
        while (again((life), (call), etl_collector_message(life->collector))) \
            ;                                                                 \
    } while (0)

static void collect(struct life *life) {
    for (int i = 0; i < 3; i++, life->at++)
        LIVE(life, counted_collect(life->collector, life->at));
}

static void checkpoint(struct life *life) {
    LIVE(life, etl_checkpoint(life->collector, life->directory, token_of(&life->at)));
}

static void live(struct life *life) {
    etl_iter *iter;
    restore(life, 0);
    for (int i = 0; i < 3; i++) {
        collect(life);
        checkpoint(life);
    }
    etl_collector_destroy(life->collector);
    restore(life, life->at);
    collect(life);
    LIVE(life, etl_flush(life->collector));
    collect(life);
    LIVE(life, etl_iter_open(&iter, life->collector, NULL)); /* merges */
    etl_iter_close(iter);
    checkpoint(life);
}

/* Bytes of the runs, as the collector counts them and as they are there. */
static void check_disk(const struct life *life) {
    etl_stats stats = {.struct_size = sizeof stats};
    assert_int_equal(etl_collector_stats(life->collector, &stats), ETL_OK);
    assert_int_equal(stats.disk_bytes, bytes_of_files(life->directory, ".run"));
}

/* The fault is over. */
static void check(struct life *life) {
    checkpoint(life);
    assert_int_equal(count_files(life->directory, ".tmp"), 0);
    check_disk(life);
    size_t files = count_files(life->directory, "");
    etl_collector_destroy(life->collector);
    restore(life, life->at);
    check_disk(life);
    assert_int_equal(count_files(life->directory, ""), files); /* nothing was left to remove */
    counted_assert_load(life->collector, life->at);
    etl_collector_destroy(life->collector);
}

static struct life new_life(int error) {
    struct life life = {
        .directory = new_directory(), .options = support_options(MIB), .error = error};
    life.options.threads = ETL_THREADS_NONE;
    life.options.merge_width = 2;
    return life;
}

/* False where the life has fewer calls. */
static bool fault(size_t call, int error, size_t count) {
    struct life life = new_life(error);
    life.alone = count == 1;
    power_start(life.directory, call % 2 == 0 ? 0 : POWER_NO_NAMELESS);
    power_fault_at(call, error, count);
    live(&life);
    bool given = power_faults() != 0;
    power_fault_at(0, 0, 0);
    check(&life);
    power_end();
    return given;
}

static void system_calls_fail_and_nothing_is_lost(void **state) {
    (void)state;
    static const struct {
        int error;
        size_t count;
    } faults[] = {{EIO, 1}, {ENOSPC, 1}, {EIO, 3}, {EINTR, 2}, {EACCES, 1}};
    size_t descriptors = support_descriptors(), points = 0, call = 1;
    for (bool given = true; given; call++) {
        given = false;
        for (size_t i = 0; i < COUNT_OF(faults); i++) {
            if (support_light() && (call + i) % COUNT_OF(faults) != 0 && i != 0)
                continue;
            given |= fault(call, faults[i].error, faults[i].count);
            points++;
        }
        assert_in_range(call, 1, CALLS_MOST);
    }
    printf("%zu calls, %zu fault points\n", call - 1, points);
    assert_in_range(call, 200, CALLS_MOST);
    assert_int_equal(support_descriptors(), descriptors);
}

/* /home is not for each of its users to open, nor to sync. */
static void a_parent_that_may_not_be_read_is_done_without(void **state) {
    (void)state;
    enum { CALLS = 6 }; /* open and lock, no manifest, the parent */
    bool done = false;
    for (size_t call = 1; call <= CALLS; call++) {
        struct life life = new_life(EACCES);
        assert_int_equal(mkdir(life.directory, 0700), 0);
        power_start(life.directory, 0);
        power_fault_at(call, EACCES, 1);
        restore(&life, 0);
        done |= life.told == 0 && power_faults() != 0;
        power_fault_at(0, 0, 0);
        etl_collector_destroy(life.collector);
        power_end();
    }
    assert_true(done);
}

static void allocations_fail_and_nothing_is_lost(void **state) {
    (void)state;
    size_t number = 1;
    for (bool given = true; given; number++) {
        static struct support_memory memory;
        struct life life = new_life(0);
        memset(&memory, 0, sizeof memory);
        life.options.allocator = support_allocator(&memory);
        atomic_store(&memory.refuse_from, number);
        atomic_store(&memory.refuse_count, 1 + number % 2);
        live(&life);
        given = atomic_load(&memory.calls) >= number;
        atomic_store(&memory.refuse_from, 0);
        check(&life);
        support_memory_check(&memory);
        remove_directory(life.directory);
        assert_in_range(number, 1, ALLOCATIONS_MOST);
    }
    printf("%zu allocations\n", number - 1);
    assert_in_range(number, 20, ALLOCATIONS_MOST);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(system_calls_fail_and_nothing_is_lost),
        cmocka_unit_test(a_parent_that_may_not_be_read_is_done_without),
        cmocka_unit_test(allocations_fail_and_nothing_is_lost),
    };
    return cmocka_run_group_tests(tests, support_setup, support_teardown);
}
