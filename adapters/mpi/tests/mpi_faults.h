/* mpi_faults.h: MPI calls that fail when told so. The program's own definitions of these calls come
 * before the library's, and go on to its profiling interface. */
#ifndef LIBETL_MPI_FAULTS_H
#define LIBETL_MPI_FAULTS_H

#include <stddef.h>

enum mpi_call {
    MPI_CALL_ISSEND,
    MPI_CALL_IRECV,
    MPI_CALL_TESTSOME,
    MPI_CALL_GET_COUNT,
    MPI_CALL_DUP,
    MPI_CALL_IALLREDUCE,
    MPI_CALL_ALLREDUCE,
    MPI_CALL_BCAST,
    MPI_CALL_IALLGATHER,
    MPI_CALL_IALLGATHERV,
    MPI_CALL_RANK,
    MPI_CALLS
};

/* From now on the n-th of these calls fails, once; 0: none does. */
void mpi_fault_set(enum mpi_call call, size_t n);

#endif
