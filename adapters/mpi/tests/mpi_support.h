/* mpi_support.h: what the tests of libetl-mpi share. Every rank runs the same program with the same
 * numbers, makes the whole input, collects its own part of it, and holds what it was given against
 * its stretch of the oracle's answer. An assertion that fails ends all ranks. */
#ifndef LIBETL_MPI_SUPPORT_H
#define LIBETL_MPI_SUPPORT_H

#include "etl_mpi.h"
#include "oracle.h"
#include "support.h"
#include "workload.h"

extern int team_rank, team_size;

/* Runs the tests on all ranks; the exit status. */
#define TEAM_RUN(tests) team_end(cmocka_run_group_tests((tests), support_setup, support_teardown))

/* MPI is up, all ranks have rank 0's seed, and only rank 0 prints. */
void team_begin(int *argc, char ***argv);
int team_end(int failed);

/* Does every rank come with the same number? */
void team_assert_same(long long number);
long long team_sum(long long number);
long long team_most(long long number);

/* The same input on every rank, and where the part of each begins. */
struct scene {
    struct oracle input, expected;
    bool accepted; /* false: ETL_REJECT has a key that came twice */
    size_t from[65];
    struct oracle_rules rules;
};

/* Deal scene->input, which is filled, to the ranks in contiguous parts; every empty-th rank gets
 * none (0: each gets some, where there are enough). */
void scene_deal(struct scene *scene, struct prng *prng, const struct oracle_rules *rules,
                size_t empty);
void scene_clear(struct scene *scene);

/* This rank's collector, filled with its part. */
etl_collector *scene_collect(const struct scene *scene, const etl_options *options);

/* Load by etl_mpi_load and hold all that comes against what is expected; the pairs that this rank
 * got. Fails the test on any difference. */
size_t scene_load(const struct scene *scene, etl_collector *collector,
                  const etl_mpi_options *options);

/* A load callback that keeps the pairs in a struct oracle. */
int keep_pair(void *context, etl_slice key, etl_slice value);

/* Does the message of a failure begin with this rank? rank -1: any, the same for all. */
void assert_message_names(const etl_collector *collector, int rank);

#endif
