/* test_memory_faults.c: memory that is refused, once or from then on, at each allocation in turn,
 * through a whole life: create, collect, reserve, spill, merge, iterate, split, load, destroy.
 *
 * Whatever is refused, a call gives ETL_E_NOMEM or has found a way around it; after that the same
 * call succeeds, what comes out is the oracle's, and all memory and files are given back. */
#include "oracle.h"
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What is collected and how. */
struct plan {
    size_t count, value_size, keys; /* pairs, their values, and how many keys there are */
    size_t flush_each;              /* pairs; 0: never */
    size_t large;                   /* bytes of one value collected, one reserved; 0: none */
    struct oracle_rules rules;
    size_t memory_limit;
    int threads;
    etl_access access;
    unsigned merge_width;
};

struct life {
    const struct plan *plan;
    const struct oracle *input, *expected;
    struct support_memory memory;
    unsigned refusals; /* that a call told of */
};

/* Is the call that gave this status to be made again, now that there is memory? */
static bool again(struct life *life, int status, const etl_collector *collector) {
    if (status == ETL_E_NOMEM && atomic_load(&life->memory.refuse_from) != 0) {
        if (collector != NULL)
            assert_true(etl_collector_message(collector)[0] != '\0');
        atomic_store(&life->memory.refuse_from, 0);
        life->refusals++;
        return true;
    }
    ASSERT_OK(collector, status);
    return false;
}

/* Make a call, and once more where memory was refused to it. */
#define LIVE(life, collector, call)                \
    do {                                           \
        while (again((life), (call), (collector))) \
            ;                                      \
    } while (0)

static etl_options options_of(struct life *life) {
    const struct plan *plan = life->plan;
    etl_options options = support_options(plan->memory_limit);
    support_make_fast(&options);
    oracle_apply(&plan->rules, &options);
    options.threads = plan->threads;
    options.access = plan->access;
    options.merge_width = plan->merge_width;
    options.allocator = support_allocator(&life->memory);
    return options;
}

static etl_collector *create(struct life *life) {
    etl_options options = options_of(life);
    etl_collector *collector = NULL;
    char message[100] = "";
    int status = etl_collector_create_message(&collector, &options, message, sizeof message);
    if (again(life, status, NULL)) {
        assert_null(collector);
        assert_true(message[0] != '\0');
        support_memory_check(&life->memory);
        ASSERT_OK(NULL, etl_collector_create(&collector, &options));
    }
    return collector;
}

static int reserve(etl_collector *collector, etl_slice key, etl_slice value) {
    void *key_at, *value_at;
    int status = etl_reserve(collector, key.size, value.size, &key_at, &value_at);
    if (status == ETL_OK) {
        memcpy(key_at, key.data, key.size);
        memcpy(value_at, value.data, value.size);
    }
    return status;
}

static void collect(struct life *life, etl_collector *collector) {
    const struct plan *plan = life->plan;
    for (size_t i = 0; i < life->input->count; i++) {
        etl_slice key = oracle_key(&life->input->pairs[i]);
        etl_slice value = oracle_value(&life->input->pairs[i]);
        if (i % 5 == 2 && value.data != NULL)
            LIVE(life, collector, reserve(collector, key, value));
        else
            LIVE(life, collector, etl_collect(collector, key, value));
        if (plan->flush_each != 0 && i % plan->flush_each == plan->flush_each - 1)
            LIVE(life, collector, etl_flush(collector));
    }
}

/* From the first key of the range to the end. After an error only a seek brings pairs again. */
static void iterate(struct life *life, etl_collector *collector) {
    const struct oracle *expected = life->expected;
    size_t from = expected->count / 3;
    const etl_slice first = oracle_key(&expected->pairs[from]);
    const etl_range range = {first, {NULL, 0}};
    etl_iter *iter;
    from = oracle_lower_bound(expected, first);
    LIVE(life, collector, etl_iter_open(&iter, collector, &range));
    for (unsigned round = 0; round < 2; round++) {
        size_t at = from;
        etl_slice key, value;
        int status;
        while ((status = etl_iter_next(iter, &key, &value)) != ETL_END) {
            if (again(life, status, collector)) {
                LIVE(life, collector, etl_iter_seek(iter, etl_slice_str("")));
                at = from;
                continue;
            }
            assert_true(at < expected->count);
            assert_true(oracle_same(&expected->pairs[at++], key, value));
        }
        assert_int_equal(at, expected->count);
        LIVE(life, collector, etl_iter_seek(iter, etl_slice_str("")));
    }
    etl_iter_close(iter);
}

static void split(struct life *life, etl_collector *collector) {
    etl_slice keys[3];
    size_t count = 99;
    LIVE(life, collector, etl_split(&collector, 1, 4, keys, &count));
    assert_in_range(count, 1, 3);
    for (size_t i = 1; i < count; i++)
        assert_true(memcmp(keys[i - 1].data, keys[i].data, keys[i].size) < 0);
}

static void load(struct life *life, etl_collector *collector) {
    struct oracle_check check = {life->expected, 0, 0, 0};
    if (again(life, etl_load(collector, oracle_load, &check), collector)) {
        check.at = 0;
        ASSERT_OK(collector, etl_load(collector, oracle_load, &check));
    }
    assert_int_equal(check.at, life->expected->count);
}

/* Returns how many allocations it took. */
static size_t live(struct life *life, size_t refuse_from, size_t refuse_count) {
    memset(&life->memory, 0, sizeof life->memory);
    atomic_store(&life->memory.refuse_from, refuse_from);
    atomic_store(&life->memory.refuse_count, refuse_count);
    etl_collector *collector = create(life);
    collect(life, collector);
    if (refuse_from % 2 == 0)
        iterate(life, collector);
    if (refuse_from % 3 == 0)
        split(life, collector);
    load(life, collector);
    counted_assert_load(collector, 0);
    etl_collector_destroy(collector);
    support_memory_check(&life->memory);
    return atomic_load(&life->memory.calls);
}

static void make_input(const struct plan *plan, struct oracle *input) {
    struct prng prng;
    prng_start(&prng, plan->count);
    size_t most = plan->large > plan->value_size ? plan->large : plan->value_size;
    unsigned char *value = malloc(most + 1);
    assert_non_null(value);
    memset(value, 'v', most);
    for (size_t i = 0; i < plan->count; i++) {
        char key[16];
        snprintf(key, sizeof key, "%08zu", prng_below(&prng, plan->keys));
        memcpy(value, &i, sizeof i);
        bool large = plan->large != 0 && i % 5 > 1 && i / 5 == plan->count / 10 && i % 5 < 4;
        oracle_add(input, etl_slice_str(key),
                   i % 7 == 6 ? etl_slice_of(NULL, 0)
                              : etl_slice_of(value, large ? plan->large : plan->value_size));
    }
    free(value);
}

/* Each allocation refused, all after it too or none of them. Every step-th one, from a random one
 * on. */
static void sweep(const struct plan *plan, size_t step) {
    struct prng prng;
    prng_start(&prng, step);
    struct oracle input = {NULL, 0, 0}, expected = {NULL, 0, 0};
    make_input(plan, &input);
    assert_true(oracle_settle(&input, &plan->rules, &expected));
    struct life life = {.plan = plan, .input = &input, .expected = &expected};
    size_t calls = live(&life, 0, 0);
    step = support_light() ? 7 * step : step;
    for (size_t refuse_count = 0; refuse_count < 2; refuse_count++)
        for (size_t from = prng_between(&prng, 1, step); from <= calls; from += step)
            live(&life, from, refuse_count);
    print_message("  %zu pairs, threads %d, access %d: %zu allocations, %u refusals told\n",
                  plan->count, plan->threads, (int)plan->access, calls, life.refusals);
    assert_true(step != 1 || life.refusals != 0); /* a sample may hit none that is told */
    assert_int_equal(support_entries(support_directory()), 0);
    oracle_clear(&input);
    oracle_clear(&expected);
}

/* Everything that threads and access may be. */
static void sweep_all(struct plan plan, size_t step) {
    for (plan.threads = ETL_THREADS_NONE; plan.threads <= 1; plan.threads += 2)
        for (int access = ETL_ACCESS_MMAP; access <= ETL_ACCESS_READ; access++) {
            plan.access = (etl_access)access;
            sweep(&plan, step);
        }
}

static void refused_in_memory(void **state) {
    (void)state;
    const struct plan plan = {
        .count = 500, .value_size = 20, .keys = 1000000, .memory_limit = 4 * MIB};
    sweep_all(plan, 1);
}

/* Small runs, more than are merged at once. */
static void refused_while_merging(void **state) {
    (void)state;
    const struct plan plan = {.count = 70,
                              .value_size = 20,
                              .keys = 1000000,
                              .flush_each = 10,
                              .memory_limit = MIB,
                              .merge_width = 3};
    sweep_all(plan, 1);
}

/* The limit is what makes it spill. */
static void refused_while_spilling(void **state) {
    (void)state;
    const struct plan plan = {
        .count = 400, .value_size = 6000, .keys = 1000000, .memory_limit = MIB};
    sweep_all(plan, 19);
}

static void refused_for_pairs_above_the_limit(void **state) {
    (void)state;
    const struct plan plan = {.count = 60,
                              .value_size = 20,
                              .keys = 1000000,
                              .large = MIB + MIB / 2,
                              .memory_limit = MIB};
    sweep_all(plan, 29);
}

/* Joined and folded values are memory too, that callbacks ask for. */
static void refused_while_folding(void **state) {
    (void)state;
    struct plan plan = {.count = 120,
                        .value_size = 300,
                        .keys = 15,
                        .flush_each = 50,
                        .memory_limit = MIB,
                        .rules = {ETL_APPEND, false, ORACLE_TRIM}};
    sweep_all(plan, 1);
    plan.rules.duplicates = ETL_REDUCE;
    sweep_all(plan, 1);
}

/* ---- Many small pairs, dealt to buckets while they are collected */

static void live_dealt(struct life *life, uint64_t pairs, size_t refuse_from,
                       size_t refuse_count) {
    memset(&life->memory, 0, sizeof life->memory);
    atomic_store(&life->memory.refuse_from, refuse_from);
    atomic_store(&life->memory.refuse_count, refuse_count);
    etl_collector *collector = create(life);
    for (uint64_t i = 0; i < pairs; i++) /* scattered: the step is prime to all numbers of pairs */
        LIVE(life, collector, counted_collect(collector, i * 1000003 % pairs));
    struct counted counted = {0, pairs, 0};
    if (again(life, etl_load(collector, counted_load, &counted), collector)) {
        counted = (struct counted){0, pairs, 0};
        ASSERT_OK(collector, etl_load(collector, counted_load, &counted));
    }
    assert_true(counted.next == pairs && counted.wrong == 0);
    etl_collector_destroy(collector);
    support_memory_check(&life->memory);
}

static void refused_while_dealing(void **state) {
    (void)state;
    enum { PAIRS = 300000 };
    struct plan plan = {.memory_limit = 10 * MIB, .threads = ETL_THREADS_NONE};
    struct life life = {.plan = &plan};
    live_dealt(&life, PAIRS, 0, 0);
    size_t calls = atomic_load(&life.memory.calls);
    size_t step = calls / (support_light() ? 2 : 10) + 1;
    struct prng prng;
    prng_start(&prng, PAIRS);
    for (size_t from = prng_between(&prng, 1, step), turn = 0; from <= calls;
         from += step, turn++) {
        plan.access = turn % 2 == 0 ? ETL_ACCESS_MMAP : ETL_ACCESS_READ;
        live_dealt(&life, PAIRS, from, turn % 3 == 0);
    }
    print_message("  dealt: %zu allocations, %u refusals told\n", calls, life.refusals);
}

/* ---- A transform, whose collector comes and goes */

static int give(void *context, etl_slice *key, etl_slice *value) {
    unsigned *next = context;
    static const char keys[] = "hgfedcba";
    if (*next == 8)
        return ETL_END;
    *key = *value = etl_slice_of(&keys[(*next)++], 1);
    return ETL_OK;
}

static int take(void *context, etl_slice key, etl_slice value) {
    unsigned *taken = context;
    bool right =
        key.size == 1 && value.size == 1 && *(const char *)key.data == (char)('a' + *taken);
    ++*taken;
    return right ? 0 : ORACLE_MISMATCH;
}

static void refused_to_a_transform(void **state) {
    (void)state;
    int status = ETL_E_NOMEM;
    for (size_t from = 1; status != ETL_OK; from++) {
        struct support_memory memory = {.refuse_from = from};
        etl_options options = support_options(MIB);
        options.allocator = support_allocator(&memory);
        unsigned given = 0, taken = 0;
        char message[100] = "";
        const etl_transform_args args = {.options = &options,
                                         .source = give,
                                         .source_ctx = &given,
                                         .load = take,
                                         .load_ctx = &taken,
                                         .message = message,
                                         .message_size = sizeof message};
        status = etl_transform(&args);
        assert_true(status == ETL_OK || status == ETL_E_NOMEM);
        assert_int_equal(taken, status == ETL_OK ? 8 : 0);
        assert_true((message[0] != '\0') == (status != ETL_OK));
        support_memory_check(&memory);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refused_in_memory),
        cmocka_unit_test(refused_while_merging),
        cmocka_unit_test(refused_while_spilling),
        cmocka_unit_test(refused_for_pairs_above_the_limit),
        cmocka_unit_test(refused_while_folding),
        cmocka_unit_test(refused_while_dealing),
        cmocka_unit_test(refused_to_a_transform),
    };
    return cmocka_run_group_tests(tests, support_setup, support_teardown);
}
