/* agree.h: what several ranks decide together, and MPI's errors as ours. */
#ifndef LIBETL_MPI_AGREE_H
#define LIBETL_MPI_AGREE_H

#include "status.h"

#include <mpi.h>

struct etl__team {
    MPI_Comm comm;
    int rank, size;
    uint64_t idle_ns; /* spent in naps */
};

/* An MPI call returned `code`: ETL_E_IO, with MPI's text. */
int etl__fail_mpi(struct etl__error *error, int code, const char *call);

#define ETL__TRY_MPI(error, call)                           \
    do {                                                    \
        int try_code = (call);                              \
        if (try_code != MPI_SUCCESS)                        \
            return etl__fail_mpi((error), try_code, #call); \
    } while (0)

/* Nothing happened `turns` times in a row: let others have the processor, and then sleep. */
void etl__nap(struct etl__team *team, unsigned turns);

/* Wait for a request without keeping a processor busy. */
int etl__wait(struct etl__team *team, MPI_Request *request, struct etl__error *error);

/* Collective: *agreed is ETL_OK where every rank comes with that; else, on every rank, the status
 * of the lowest rank that did not. *told has this rank's text, and gets that one's behind
 * "rank N: ". *failures is how many did not. own: this rank's status is its own (not what it heard
 * from others). Returns ETL_OK, or an error of MPI with its text in *error. */
int etl__agree(struct etl__team *team, int status, bool own, int *failures, int *agreed,
               struct etl__error *told, struct etl__error *error);

/* The same between two phases: returns what was agreed, or MPI's error. */
int etl__agree_on(struct etl__team *team, int status, struct etl__error *told);

#endif
