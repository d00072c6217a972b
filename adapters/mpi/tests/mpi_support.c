/* mpi_support.c: see mpi_support.h. */
#include "mpi_support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int team_rank, team_size;

void team_begin(int *argc, char ***argv) {
    int given;
    setenv("CMOCKA_TEST_ABORT", "1", 1); /* a rank that failed must not leave others waiting */
    if (MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &given) != MPI_SUCCESS)
        exit(2);
    MPI_Comm_rank(MPI_COMM_WORLD, &team_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &team_size);
    if (team_rank != 0 && freopen("/dev/null", "w", stdout) == NULL)
        exit(2);
    char text[32] = "";
    if (team_rank == 0)
        snprintf(text, sizeof text, "%llu", (unsigned long long)support_seed());
    MPI_Bcast(text, sizeof text, MPI_CHAR, 0, MPI_COMM_WORLD);
    setenv("LIBETL_TEST_SEED", text, 1);
}

int team_end(int failed) {
    MPI_Finalize();
    return failed != 0;
}

void team_assert_same(long long number) {
    long long numbers[2] = {number, -number}, most[2];
    MPI_Allreduce(numbers, most, 2, MPI_LONG_LONG, MPI_MAX, MPI_COMM_WORLD);
    assert_int_equal(most[0], -most[1]);
}

static long long reduce(long long number, MPI_Op op) {
    long long all;
    MPI_Allreduce(&number, &all, 1, MPI_LONG_LONG, op, MPI_COMM_WORLD);
    return all;
}

long long team_sum(long long number) {
    return reduce(number, MPI_SUM);
}

long long team_most(long long number) {
    return reduce(number, MPI_MAX);
}

/* ---- Scenes */

static int compare_sizes(const void *a, const void *b) {
    size_t x = *(const size_t *)a, y = *(const size_t *)b;
    return (x > y) - (x < y);
}

void scene_deal(struct scene *scene, struct prng *prng, const struct oracle_rules *rules,
                size_t empty) {
    size_t ranks = (size_t)team_size, count = scene->input.count;
    scene->from[0] = 0;
    for (size_t i = 1; i < ranks; i++)
        scene->from[i] = empty != 0 ? prng_below(prng, count + 1) : count * i / ranks;
    qsort(scene->from, ranks, sizeof *scene->from, compare_sizes);
    scene->from[ranks] = count;
    for (size_t i = 1; empty != 0 && i < ranks; i++)
        if (prng_below(prng, empty) == 0)
            scene->from[i] = scene->from[i - 1];
    scene->rules = *rules;
    oracle_renumber(&scene->input);
    scene->accepted = oracle_settle(&scene->input, rules, &scene->expected);
}

void scene_clear(struct scene *scene) {
    oracle_clear(&scene->input);
    oracle_clear(&scene->expected);
}

etl_collector *scene_collect(const struct scene *scene, const etl_options *options) {
    etl_collector *collector;
    ASSERT_OK(NULL, etl_collector_create(&collector, options));
    for (size_t i = scene->from[team_rank]; i < scene->from[team_rank + 1]; i++)
        ASSERT_OK(collector, etl_collect(collector, oracle_key(&scene->input.pairs[i]),
                                         oracle_value(&scene->input.pairs[i])));
    return collector;
}

int keep_pair(void *context, etl_slice key, etl_slice value) {
    oracle_add(context, key, value);
    return 0;
}

void assert_message_names(const etl_collector *collector, int rank) {
    const char *message = etl_collector_message(collector);
    int named = -1;
    if (sscanf(message, "rank %d: ", &named) != 1 || named < 0 || named >= team_size ||
        (rank >= 0 && named != rank)) {
        print_error("message: \"%s\", expected of rank %d\n", message, rank);
        fail();
    }
    team_assert_same(named);
}

/* This rank's pairs are a stretch of what is expected: the one behind those of lower ranks. */
static void compare(const struct scene *scene, const struct oracle *got) {
    long long count = (long long)got->count, before = 0;
    MPI_Exscan(&count, &before, 1, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (team_rank == 0)
        before = 0;
    assert_int_equal(team_sum(count), scene->expected.count);
    for (size_t i = 0; i < got->count; i++) {
        const struct oracle_pair *pair = &got->pairs[i];
        if (!oracle_same(&scene->expected.pairs[(size_t)before + i], oracle_key(pair),
                         oracle_value(pair))) {
            print_error("rank %d: pair %zu, %lld of all, differs\n", team_rank, i,
                        before + (long long)i);
            fail();
        }
    }
}

size_t scene_load(const struct scene *scene, etl_collector *collector,
                  const etl_mpi_options *options) {
    struct oracle got = {NULL, 0, 0};
    int expected = scene->accepted ? ETL_OK : ETL_E_DUPLICATE;
    ASSERT_STATUS(expected, collector,
                  etl_mpi_load(collector, MPI_COMM_WORLD, keep_pair, &got, options));
    size_t count = got.count;
    if (scene->accepted)
        compare(scene, &got);
    else
        assert_message_names(collector, -1);
    oracle_clear(&got);
    return count;
}
