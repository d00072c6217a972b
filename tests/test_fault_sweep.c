/* test_fault_sweep.c: each system call and each allocation of the library fails, in each way in
 * which it can, once or from then on, through whole lives: create, collect, spill, merge, iterate,
 * seek, split, load, destroy.
 *
 * Whatever fails, the call that meets it tells it with the right status and a message that names
 * operation, path and cause, or has found the way around it that the contract promises. When it is
 * over the same call succeeds and the output is the oracle's; nothing is left behind: no block, no
 * mapping, no descriptor, no file.
 *
 * Fault point   job, call, number of the call, way, mode: once; lasting (told twice, then over); or
 *               given up (lasting, and the collector is destroyed when it is told).
 * Environment   LIBETL_TEST_FAULT="job call number way mode" replays one, as a failure prints it.
 * Arguments     a job's name, or a pattern like "pass*": only those; `every`: every way at each
 *               call, else the longer jobs take the ways by turns.
 *
 * With a background thread the number of a call is a matter of time; what follows is not. */
#include "fault_support.h"

#include <signal.h>

/* ---- Fault points */

enum mode { ONCE, LASTING, GIVEN_UP, MODES };
static const char *const mode_names[MODES] = {"once", "lasting", "given-up"};

/* One life, with one fault. */
struct life {
    const struct job *job;
    const struct oracle *input, *expected;
    bool accepted; /* by ETL_REJECT */
    struct fault fault;
    const struct faults_way *way; /* NULL: no fault */
    enum faults_effect effect;
    enum mode mode;
    unsigned told;
    etl_collector *collectors[2];
    size_t collector_count;
    etl_collector *saver; /* for etl_save */
    etl_iter *iter;
    jmp_buf give_up;
};

static struct {
    size_t points, recovered;
    bool every;
    bool met[FAULTS_CALLS]; /* calls that a life came to */
    char at[200];           /* the point under way, to be replayed; "": none */
} sweep;

static void describe(const struct life *life) {
    snprintf(sweep.at, sizeof sweep.at, "%s %s %zu %s %s", life->job->name,
             faults_call_name(life->fault.call), life->fault.from, life->way->name,
             mode_names[life->mode]);
}

/* After each test, whether it has failed or not. */
static int tell_point(void **state) {
    (void)state;
    faults_lift();
    if (sweep.at[0] != '\0')
        print_error("  replay: LIBETL_TEST_FAULT=\"%s\"\n", sweep.at);
    sweep.at[0] = '\0';
    return 0;
}

static void tell_abort(int number) {
    static const char text[] = "aborted at fault point ";
    (void)!write(STDERR_FILENO, text, sizeof text - 1);
    (void)!write(STDERR_FILENO, sweep.at, strlen(sweep.at));
    (void)!write(STDERR_FILENO, "\n", 1);
    signal(number, SIG_DFL);
}

/* One of "these|or these". */
static bool has_operation(const char *message, const char *operations) {
    char words[160];
    for (;;) {
        size_t size = strcspn(operations, "|");
        assert_true(size < sizeof words);
        memcpy(words, operations, size);
        words[size] = '\0';
        if (strstr(message, words) != NULL)
            return true;
        if (operations[size] == '\0')
            return false;
        operations += size + 1;
    }
}

static void check_message(const struct life *life, const char *message) {
    enum faults_call call = life->fault.call;
    const char *cause = faults_cause(life->way);
    bool in_fast = strstr(message, "/libetl-test-") != NULL;
    if (!has_operation(message, faults_operation(call)) || strstr(message, cause) == NULL ||
        (faults_names_path(call) && !in_fast))
        fail_msg("no \"%s\", no path or no \"%s\" in \"%s\"", faults_operation(call), cause,
                 message);
}

/* Is the call that gave this status to be made again? */
static bool again(struct life *life, int status, const char *message) {
    const struct faults_way *way = life->way;
    if (status == ETL_OK)
        return false;
    if (way == NULL || status != way->status || life->effect == FAULTS_NONE ||
        faults_given() == 0 || life->told >= (life->mode == ONCE ? 1 : 2))
        fail_msg("status %d (%s), told %u times before: \"%s\"", status, etl_status_string(status),
                 life->told, message);
    check_message(life, message);
    life->told++;
    if (life->mode == GIVEN_UP)
        longjmp(life->give_up, 1);
    if (life->mode == ONCE || life->told == 2)
        faults_lift();
    return true;
}

static int inside(int status) {
    faults_leave();
    return status;
}

/* What a call of the library gives. */
#define IN(call) (faults_enter(), inside(call))

/* Make a call, and again where it told of a fault. */
#define LIVE(life, call)                                                              \
    do {                                                                              \
        while (again((life), IN(call), etl_collector_message((life)->collectors[0]))) \
            ;                                                                         \
    } while (0)

/* ---- A life */

static void create(struct life *life, etl_collector **collector, etl_options options) {
    char message[640] = "";
    while (again(life,
                 IN(etl_collector_create_message(collector, &options, message, sizeof message)),
                 message))
        assert_null(*collector);
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

/* Each collector gets its share, one after the other; the first one has the messages. */
static void collect(struct life *life) {
    const struct job *job = life->job;
    for (size_t i = 0; i < life->input->count; i++) {
        size_t which = i * life->collector_count / life->input->count;
        etl_collector *collector = life->collectors[which];
        const char *message = etl_collector_message(collector);
        etl_slice key = oracle_key(&life->input->pairs[i]);
        etl_slice value = oracle_value(&life->input->pairs[i]);
        if (i % 5 == 2 && value.data != NULL)
            while (again(life, IN(reserve(collector, key, value)), message))
                ;
        else
            while (again(life, IN(etl_collect(collector, key, value)), message))
                ;
        if (job->flush_each != 0 && i % job->flush_each == job->flush_each - 1)
            while (again(life, IN(etl_flush(collector)), message))
                ;
    }
}

static void collect_plain(struct life *life, etl_collector *collector, size_t from, size_t to) {
    for (size_t i = from; i < to; i++) {
        etl_slice key = oracle_key(&life->input->pairs[i]);
        etl_slice value = oracle_value(&life->input->pairs[i]);
        while (
            again(life, IN(etl_collect(collector, key, value)), etl_collector_message(collector)))
            ;
        if (life->job->flush_each != 0 && i % life->job->flush_each == 0)
            while (again(life, IN(etl_flush(collector)), etl_collector_message(collector)))
                ;
    }
}

/* Until the new file has its place the old one is there, whatever fails. */
static void save(struct life *life, const char *path) {
    int status;
    do {
        write_old_file(path);
        status = IN(etl_save(life->saver, path));
        bool placed = strstr(etl_collector_message(life->saver), "is in its place") != NULL;
        assert_int_equal(is_old_file(path), status != ETL_OK && !placed);
        check_directories(life->job, life->fault.call == FAULTS_UNLINK ? faults_given() : 0);
    } while (again(life, status, etl_collector_message(life->saver)));
}

/* The second half of the pairs comes by a file, in the collector's own order. */
static void collect_and_attach(struct life *life) {
    const char *path = saved_path(life->job);
    size_t half = life->input->count / 2;
    create(life, &life->saver, saver_options_of(life->job));
    collect_plain(life, life->saver, half, life->input->count);
    save(life, path);
    collect_plain(life, life->collectors[0], 0, half);
    LIVE(life, etl_attach_run(life->collectors[0], path));
}

/* To the end, from pair `from` on; after an error only a seek brings pairs again. */
static void iterate_from(struct life *life, size_t from) {
    const struct oracle *expected = life->expected;
    size_t at = from;
    for (;;) {
        etl_slice key, value;
        int status = IN(etl_iter_next(life->iter, &key, &value));
        if (status == ETL_END || (status == ETL_E_DUPLICATE && !life->accepted))
            break;
        if (again(life, status, etl_collector_message(life->collectors[0]))) {
            LIVE(life, etl_iter_seek(life->iter, oracle_key(&expected->pairs[from])));
            at = from;
            continue;
        }
        assert_true(at < expected->count);
        assert_true(oracle_same(&expected->pairs[at++], key, value));
    }
    assert_true(at == expected->count || !life->accepted);
}

static void iterate(struct life *life) {
    const struct oracle *expected = life->expected;
    const etl_slice first = oracle_key(&expected->pairs[expected->count / 4]);
    const etl_slice later = oracle_key(&expected->pairs[expected->count / 2]);
    const etl_range range = {first, {NULL, 0}};
    LIVE(life, etl_iter_open_many(&life->iter, life->collectors, life->collector_count, &range));
    iterate_from(life, oracle_lower_bound(expected, first));
    LIVE(life, etl_iter_seek(life->iter, later));
    iterate_from(life, oracle_lower_bound(expected, later));
    (void)IN((etl_iter_close(life->iter), 0));
    life->iter = NULL;
}

static void split(struct life *life) {
    etl_slice keys[3];
    size_t count = 0;
    LIVE(life, etl_split(life->collectors, life->collector_count, 4, keys, &count));
    assert_in_range(count, 1, 3);
}

/* Stopped half-way, then to the end. */
static void load(struct life *life) {
    struct oracle_check check = {life->expected, 0, life->expected->count / 2, 4711};
    int status;
    while ((status = IN(etl_load_many(life->collectors, life->collector_count, oracle_load,
                                      &check))) != check.stop_value &&
           again(life, status, etl_collector_message(life->collectors[0])))
        check.at = 0;
    assert_int_equal(status, check.stop_value);
    check.stop_value = 0;
    do {
        check.at = 0;
        status = IN(etl_load_many(life->collectors, life->collector_count, oracle_load, &check));
    } while ((status != ETL_E_DUPLICATE || life->accepted) &&
             again(life, status, etl_collector_message(life->collectors[0])));
    assert_int_equal(status, life->accepted ? ETL_OK : ETL_E_DUPLICATE);
    assert_true(check.at == life->expected->count || !life->accepted);
}

struct source {
    const struct oracle *input;
    size_t at;
};

static int give(void *context, etl_slice *key, etl_slice *value) {
    struct source *source = context;
    if (source->at == source->input->count)
        return ETL_END;
    *key = oracle_key(&source->input->pairs[source->at]);
    *value = oracle_value(&source->input->pairs[source->at++]);
    return ETL_OK;
}

static void transform(struct life *life) {
    etl_options options = options_of(life->job);
    struct source source = {life->input, 0};
    struct oracle_check check = {life->expected, 0, 0, 0};
    char message[640] = "";
    const etl_transform_args args = {.options = &options,
                                     .source = give,
                                     .source_ctx = &source,
                                     .load = oracle_load,
                                     .load_ctx = &check,
                                     .message = message,
                                     .message_size = sizeof message};
    while (again(life, IN(etl_transform(&args)), message))
        source.at = check.at = 0;
    assert_int_equal(check.at, life->expected->count);
}

static void live(struct life *life) {
    life->collector_count = life->job->collectors != 0 ? life->job->collectors : 1;
    if (setjmp(life->give_up) != 0)
        return;
    if (life->job->transform) {
        transform(life);
        return;
    }
    for (size_t i = 0; i < life->collector_count; i++)
        create(life, &life->collectors[i], options_of(life->job));
    if (life->job->save)
        collect_and_attach(life);
    else
        collect(life);
    iterate(life);
    split(life);
    load(life);
}

/* ---- The sweep */

/* One life and its end. False where the call came too few times. */
static bool live_and_end(struct life *life) {
    faults_start(&life->fault, life->job->unsupported);
    live(life);
    if (life->mode != GIVEN_UP)
        faults_lift();
    (void)IN((etl_iter_close(life->iter), 0));
    for (size_t i = 0; i < life->collector_count; i++)
        (void)IN((etl_collector_destroy(life->collectors[i]), 0));
    (void)IN((etl_collector_destroy(life->saver), 0));
    life->saver = NULL;
    assert_true(faults_end());
    if (life->job->save)
        (void)unlink(saved_path(life->job));
    /* a file whose unlink was refused has its name still */
    check_directories(life->job, life->fault.call == FAULTS_UNLINK ? faults_given() : 0);
    assert_true(life->effect != FAULTS_MUST || faults_given() == 0 || life->told != 0);
    return faults_given() != 0;
}

static enum faults_effect effect_of(const struct job *job, enum faults_call call,
                                    const struct faults_way *way, enum mode mode) {
    bool reads =
        job->access == ETL_ACCESS_READ || (job->unsupported & LACKS(FAULTS_MAP_FILE)) != 0;
    if (job->two_directories && way->status == ETL_E_NOSPACE && mode == ONCE)
        return FAULTS_NONE; /* the other one is taken */
    if (call == FAULTS_UNMAP && job->large != 0 && mode != ONCE)
        return FAULTS_MAY; /* what is not given back counts */
    if (call == FAULTS_CLOSE && reads)
        return FAULTS_NONE; /* the run is no longer needed */
    if (job->save && (call == FAULTS_CLOSE || call == FAULTS_OPEN_TMPFILE) &&
        way->effect == FAULTS_MUST)
        return FAULTS_MAY; /* of what was only read; a draft may have a name instead */
    return job->threads != 0 && way->effect == FAULTS_MUST ? FAULTS_MAY : way->effect;
}

static void live_through(const struct life *plain, const struct faults_way *way,
                         struct fault fault, enum mode mode) {
    struct life life = *plain;
    life.way = way;
    life.mode = mode;
    life.effect = effect_of(life.job, fault.call, way, mode);
    life.fault = fault;
    life.fault.how = way->how;
    life.fault.lasting = mode != ONCE;
    if (mode == GIVEN_UP && life.effect == FAULTS_NONE)
        return;
    if (mode != ONCE && way->how == FAULTS_BYTE && (life.job->sample != 0 || fault.from > 1))
        return; /* too many calls; halves come down to bytes as well */
    if (fault.call == FAULTS_UNMAP && (mode == GIVEN_UP || (life.job->transform && mode != ONCE)))
        return; /* the collector would end before the fault does */
    describe(&life);
    sweep.points++;
    if (live_and_end(&life))
        sweep.recovered++;
    else
        sweep.points--; /* it came to no fault */
    sweep.at[0] = '\0';
}

/* The n-th call of a kind. */
static void sweep_number(const struct life *life, enum faults_call call, size_t number) {
    size_t count;
    const struct faults_way *ways = faults_ways(call, &count);
    const struct fault fault = {.call = call, .from = number};
    bool by_turns = (life->job->sample != 0 && !sweep.every) || support_light();
    for (int mode = 0; mode < MODES; mode++)
        for (size_t i = 0; i < count; i++)
            if (!(by_turns || mode == GIVEN_UP) || (number + (size_t)mode) % count == i)
                live_through(life, &ways[i], fault, (enum mode)mode);
}

static bool parse(const char *point, const struct job *job, enum faults_call *call, size_t *number,
                  const struct faults_way **way, enum mode *mode) {
    char names[4][40];
    size_t count;
    if (sscanf(point, "%39s %39s %zu %39s %39s", names[0], names[1], number, names[2], names[3]) !=
            5 ||
        strcmp(names[0], job->name) != 0)
        return false;
    for (*call = 0; *call < FAULTS_CALLS && strcmp(names[1], faults_call_name(*call)) != 0;)
        ++*call;
    for (*mode = 0; *mode < MODES && strcmp(names[3], mode_names[*mode]) != 0;)
        ++*mode;
    if (*call == FAULTS_CALLS || *mode == MODES)
        return false;
    for (*way = faults_ways(*call, &count); count != 0; count--, ++*way)
        if (strcmp(names[2], (*way)->name) == 0)
            return true;
    return false;
}

static void sweep_all(struct life *life) {
    size_t counts[FAULTS_CALLS];
    const char *replayed = getenv("LIBETL_TEST_FAULT");
    if (replayed != NULL) {
        enum faults_call call;
        enum mode mode;
        struct fault fault = {0};
        const struct faults_way *way;
        if (!parse(replayed, life->job, &call, &fault.from, &way, &mode))
            return;
        fault.call = call;
        live_through(life, way, fault, mode);
        return;
    }
    struct life plain = *life;
    (void)live_and_end(&plain);
    for (int call = 0; call < FAULTS_CALLS; call++)
        sweep.met[call] |= (counts[call] = faults_seen((enum faults_call)call)) != 0;
    assert_true((counts[FAULTS_WRITE] != 0) == job_spills(life->job));
    struct prng prng;
    prng_start(&prng, life->job->count);
    size_t step = life->job->sample != 0 && !sweep.every ? life->job->sample : 1;
    step *= support_light() ? 11 : 1;
    for (int call = 0; call < FAULTS_CALLS; call++) {
        size_t first = prng_between(&prng, 1,
                                    counts[call] == 0     ? 1
                                    : counts[call] < step ? counts[call]
                                                          : step);
        for (size_t number = first; number <= counts[call]; number += step)
            sweep_number(life, (enum faults_call)call, number);
    }
}

static void sweep_job(void **state) {
    const struct job *job = *state;
    struct oracle input = {NULL, 0, 0}, expected = {NULL, 0, 0};
    size_t descriptors = support_descriptors(), before = sweep.points;
    make_input(job, &input);
    struct life life = {.job = job, .input = &input, .expected = &expected};
    life.accepted = oracle_settle(&input, &job->rules, &expected);
    sweep_all(&life);
    print_message("  %s: %zu fault points\n", job->name, sweep.points - before);
    assert_int_equal(support_descriptors(), descriptors);
    assert_int_equal(support_files_held("/libetl-test-"), 0);
    oracle_clear(&input);
    oracle_clear(&expected);
}

/* Else the double stands beside the library and not below it. */
static void every_call_was_met(void **state) {
    (void)state;
    if (getenv("LIBETL_TEST_FAULT") != NULL)
        skip();
    for (int call = 0; call < FAULTS_CALLS; call++)
        if (!sweep.met[call])
            fail_msg("no life called %s", faults_call_name((enum faults_call)call));
}

int main(int argc, char **argv) {
    struct CMUnitTest tests[COUNT_OF(jobs) + 1];
    for (size_t i = 0; i < COUNT_OF(jobs); i++)
        tests[i] = (struct CMUnitTest){jobs[i].name, sweep_job, NULL, tell_point,
                                       (void *)(uintptr_t)&jobs[i]};
    tests[COUNT_OF(jobs)] = (struct CMUnitTest)cmocka_unit_test(every_call_was_met);
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "every") == 0)
            sweep.every = true;
        else
            cmocka_set_test_filter(argv[i]);
    signal(SIGABRT, tell_abort);
    int failed = cmocka_run_group_tests(tests, support_setup, support_teardown);
    printf("%zu fault points, %zu recovered\n", sweep.points, sweep.recovered);
    return failed != 0 || sweep.points != sweep.recovered ? 1 : 0;
}
