/* mpi_faults.c: see mpi_faults.h. */
#include "mpi_faults.h"

#include <mpi.h>
#include <stdbool.h>

static size_t left[MPI_CALLS];

void mpi_fault_set(enum mpi_call call, size_t n) {
    left[call] = n;
}

static bool fails(enum mpi_call call) {
    return left[call] != 0 && --left[call] == 0;
}

/* Define a call that fails when it is its turn, and else is MPI's own. */
#define CALL(which, name, parameters, arguments) \
    int name parameters {                        \
        if (fails(which))                        \
            return MPI_ERR_OTHER;                \
        return P##name arguments;                \
    }

CALL(MPI_CALL_ISSEND, MPI_Issend,
     (const void *buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
      MPI_Request *request),
     (buffer, count, type, to, tag, comm, request))
CALL(MPI_CALL_IRECV, MPI_Irecv,
     (void *buffer, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
      MPI_Request *request),
     (buffer, count, type, from, tag, comm, request))
CALL(MPI_CALL_TESTSOME, MPI_Testsome,
     (int count, MPI_Request requests[], int *done, int indices[], MPI_Status statuses[]),
     (count, requests, done, indices, statuses))
CALL(MPI_CALL_GET_COUNT, MPI_Get_count, (const MPI_Status *status, MPI_Datatype type, int *count),
     (status, type, count))
CALL(MPI_CALL_DUP, MPI_Comm_dup, (MPI_Comm comm, MPI_Comm *copy), (comm, copy))
CALL(MPI_CALL_IALLREDUCE, MPI_Iallreduce,
     (const void *from, void *to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
      MPI_Request *request),
     (from, to, count, type, op, comm, request))
CALL(MPI_CALL_ALLREDUCE, MPI_Allreduce,
     (const void *from, void *to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm),
     (from, to, count, type, op, comm))
CALL(MPI_CALL_BCAST, MPI_Bcast,
     (void *buffer, int count, MPI_Datatype type, int root, MPI_Comm comm),
     (buffer, count, type, root, comm))
CALL(MPI_CALL_IALLGATHER, MPI_Iallgather,
     (const void *from, int from_count, MPI_Datatype from_type, void *to, int to_count,
      MPI_Datatype to_type, MPI_Comm comm, MPI_Request *request),
     (from, from_count, from_type, to, to_count, to_type, comm, request))
CALL(MPI_CALL_IALLGATHERV, MPI_Iallgatherv,
     (const void *from, int from_count, MPI_Datatype from_type, void *to, const int counts[],
      const int offsets[], MPI_Datatype to_type, MPI_Comm comm, MPI_Request *request),
     (from, from_count, from_type, to, counts, offsets, to_type, comm, request))
CALL(MPI_CALL_RANK, MPI_Comm_rank, (MPI_Comm comm, int *rank), (comm, rank))
