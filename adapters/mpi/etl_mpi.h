/* etl_mpi.h: load what the ranks of an MPI communicator have collected, in one global order.
 *
 * Every rank collects its own pairs in a collector of its own. etl_mpi_load is collective: it
 * cuts the keys into as many ranges as there are ranks, exchanges the pairs while they are merged,
 * and hands each rank the pairs of its range in order.
 *
 *     MPI_Init_thread -> etl_collector_create -> etl_collect* -> etl_mpi_load -> ... destroy
 *
 * Order    The pairs of rank 0, then those of rank 1 and so on, are exactly what one collector
 *          would have given that had collected all of rank 0's pairs, then all of rank 1's, and so
 *          on; under every duplicate rule, and with order_values.
 * Balance  Ranges of about equal bytes, by a sample of what all ranks hold. With ETL_KEEP_ALL in
 *          collection order a key that has many pairs is cut between the ranks that collected
 *          them, so its pairs may end one rank's range and begin the next one's. Under every other
 *          rule, and with order_values, all pairs of a key come to one rank; ETL_KEEP_FIRST,
 *          ETL_KEEP_LAST, ETL_APPEND and ETL_REDUCE make one pair of a key on each sending rank
 *          before it travels (with order_values ETL_APPEND and ETL_REDUCE on the receiving one
 *          only).
 * Failure  Ends the call on all ranks: each gets the status of the lowest rank that failed, and
 *          that rank's message behind "rank N: ". The library never calls MPI_Abort.
 * Memory   Within the collector's limit, exchange buffers included; a pair that is larger than a
 *          block of these takes memory of its size on the receiving rank beside them.
 * Threads  MPI is called on the caller's thread only: MPI_THREAD_FUNNELED is enough. As in any
 *          collective, no other is under way on the communicator.
 *
 * All ranks must run the same build, on machines of one byte order. */
#ifndef LIBETL_ETL_MPI_H
#define LIBETL_ETL_MPI_H

#include <etl.h>
#include <mpi.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What one rank did in a load. */
typedef struct etl_mpi_stats {
    size_t struct_size;       /* set by the caller: sizeof(etl_mpi_stats) */
    uint64_t pairs_sent;      /* to all ranks, this one included */
    uint64_t bytes_sent;      /* likewise, as records */
    uint64_t pairs_received;  /* from all ranks, this one included */
    uint64_t pairs_delivered; /* to the load callback */
    uint64_t prepare_ns;      /* sorting, and merging runs that are too many */
    uint64_t split_ns;        /* sampling, and agreeing on the ranges */
    uint64_t exchange_ns;     /* sending, receiving, merging; load callbacks included */
    uint64_t idle_ns;         /* of it: nothing to do but to wait for other ranks */
    uint64_t block_bytes;     /* of a message, at most */
    uint64_t exchange_bytes;  /* memory that the exchange took from the collector's limit */
} etl_mpi_stats;

/* All zero means the defaults. Start from LIBETL_MPI_OPTIONS_INIT and set what differs. */
typedef struct etl_mpi_options {
    size_t struct_size; /* sizeof(etl_mpi_options); 0 is taken as that */
    size_t
        exchange_memory;  /* bytes, of the collector's limit, for blocks on their way: six for each
                               rank, of 1 to 256 KiB. Default 0: a quarter of the limit */
    etl_mpi_stats *stats; /* to be filled, in success and failure; may be NULL */
} etl_mpi_options;

#define LIBETL_MPI_OPTIONS_INIT \
    { sizeof(etl_mpi_options), 0, NULL }

/* Collective over comm: hand each rank the pairs of its range, in order, to its load. Consumes on
 * success only, on all ranks or on none: after ETL_OK every collector is empty and ready for the
 * next round; after any other value each holds what it held, and loading again gives every pair.
 * The collectors must agree on duplicates and order_values; other options may differ. options may
 * be NULL, and may differ too.
 *
 * While a load callback runs, its rank neither sends nor receives: one that takes long delays the
 * others.
 *
 * Returns ETL_OK; or on all ranks the status of the lowest rank that failed, with a message which
 * names it in etl_collector_message:
 *   ETL_E_INVALID  an argument is wrong, or the collectors disagree; a NULL collector gets no text
 *   ETL_E_IO       also: an MPI call failed. The communication is then MPI's to define: where MPI
 *                  itself is no longer usable, other ranks may learn of it in their own way
 *   else as etl_load, a callback's own non-zero value included
 * Without any communication: ETL_E_STATE where MPI is not initialized or already finalized, and
 * ETL_E_INVALID for MPI_COMM_NULL or an intercommunicator. */
int etl_mpi_load(etl_collector *collector, MPI_Comm comm, etl_load_fn *load, void *context,
                 const etl_mpi_options *options);

#ifdef __cplusplus
}
#endif

#endif
