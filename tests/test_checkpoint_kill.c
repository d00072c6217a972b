/* test_checkpoint_kill.c: a process that collects and checkpoints is killed at random moments, and
 * each time the next one goes on from what it restores: the prefix of the input that the token
 * names. The last one comes to the end, with the output of the oracle.
 *
 * How many kills: the first argument, else 40. Prints "N kills, N right restores". */
#include "checkpoint_support.h"

#include <signal.h>
#include <sys/wait.h>

enum { KILLS = 40, PAIRS = 1 << 30, LATEST_US = 20000, KEYS = 5000 };

static size_t kills_wanted = KILLS;
static const char *directory;

/* Keys come often, so that every rule has something to fold; the value says when it came. */
static void pair_of(uint64_t i, unsigned char key[8], unsigned char value[24]) {
    uint64_t drawn = (i * 0x9E3779B97F4A7C15u >> 20) % KEYS;
    for (int byte = 0; byte < 8; byte++)
        key[byte] = (unsigned char)(drawn >> (56 - 8 * byte));
    memset(value, (int)(i & 255), 24);
    memcpy(value, &i, sizeof i);
}

static int collect(etl_collector *collector, uint64_t i) {
    unsigned char key[8], value[24];
    pair_of(i, key, value);
    return etl_collect(collector, etl_slice_of(key, 8), etl_slice_of(value, 24));
}

/* Each process has other settings; the rules stay. */
static etl_options options_of(unsigned series, size_t process) {
    static const etl_duplicates rules[] = {ETL_KEEP_ALL, ETL_KEEP_FIRST, ETL_APPEND};
    etl_options options = support_options((1 + process % 3) * MIB);
    options.duplicates = rules[series % COUNT_OF(rules)];
    options.threads = process % 3 == 0 ? ETL_THREADS_NONE : (int)(process % 3);
    options.access = process % 2 ? ETL_ACCESS_MMAP : ETL_ACCESS_READ;
    options.merge_width = process % 4 == 0 ? 2 : 0;
    return options;
}

/* Collect and checkpoint until it is killed; goes on from what it restores. */
static _Noreturn void work(unsigned series, size_t process) {
    etl_options options = options_of(series, process);
    etl_collector *collector;
    etl_slice token;
    uint64_t at;
    struct prng prng;
    prng_start(&prng, process);
    alarm(60); /* should nobody come */
    CHILD_CHECK(etl_restore(&collector, &options, directory, &token) == ETL_OK);
    at = number_of(token);
    for (;;) {
        uint64_t to = at + prng_between(&prng, 1, prng_permille(&prng, 30) ? 20000 : 500);
        while (at < to)
            CHILD_CHECK(collect(collector, at++) == ETL_OK);
        CHILD_CHECK(etl_checkpoint(collector, directory, token_of(&at)) == ETL_OK);
    }
}

/* What is restored is the input's prefix, to the byte; and it stays so. */
static uint64_t check(unsigned series, size_t process, struct oracle *input) {
    etl_options options = options_of(series, process);
    const struct oracle_rules rules = {.duplicates = options.duplicates};
    struct oracle expected = {NULL, 0, 0};
    uint64_t number;
    etl_collector *collector = restored(directory, &options, &number);
    assert_in_range(number, input->count, PAIRS);
    while (input->count < number) {
        unsigned char key[8], value[24];
        pair_of(input->count, key, value);
        oracle_add(input, etl_slice_of(key, 8), etl_slice_of(value, 24));
    }
    (void)oracle_settle(input, &rules, &expected);
    struct oracle_check load = {&expected, 0, 0, 0};
    ASSERT_OK(collector, etl_load(collector, oracle_load, &load));
    assert_int_equal(load.at, expected.count);
    etl_collector_destroy(collector);
    oracle_clear(&expected);
    return number;
}

static void kill_one(unsigned series, size_t process, struct prng *prng) {
    pid_t child = support_fork();
    assert_true(child >= 0);
    if (child == 0)
        work(series, process);
    usleep((useconds_t)prng_below(prng, LATEST_US));
    int status;
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void a_killed_process_is_gone_on_from(void **state) {
    (void)state;
    enum { SERIES = 10 }; /* kills of one collector */
    struct prng prng;
    prng_start(&prng, 0);
    size_t kills = 0, right = 0, moved = 0;
    for (unsigned series = 0; kills < kills_wanted; series++) {
        struct oracle input = {NULL, 0, 0};
        directory = new_directory();
        for (size_t i = 0; i < SERIES && kills < kills_wanted; i++, kills++) {
            uint64_t before = input.count;
            kill_one(series, kills, &prng);
            moved += check(series, kills, &input) > before;
            right++;
        }
        /* To the end, in peace. */
        etl_options options = options_of(series, kills);
        uint64_t at;
        etl_collector *collector = restored(directory, &options, &at);
        for (uint64_t to = at + 5000; at < to; at++)
            ASSERT_OK(collector, collect(collector, at));
        ASSERT_OK(collector, etl_checkpoint(collector, directory, token_of(&at)));
        etl_collector_destroy(collector);
        assert_int_equal(check(series, kills + 1, &input), at);
        oracle_clear(&input);
        remove_directory(directory);
    }
    printf("%zu kills, %zu right restores\n", kills, right);
    printf("%zu of them had come further than the process before\n", moved);
    assert_int_equal(kills, right);
    assert_true(moved != 0);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_killed_process_is_gone_on_from)};
    kills_wanted = argc > 1 ? strtoul(argv[1], NULL, 10) : support_scaled(KILLS);
    return cmocka_run_group_tests(tests, support_setup, support_teardown);
}
