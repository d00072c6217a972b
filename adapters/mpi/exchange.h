/* exchange.h: blocks between all ranks, in both directions at once. */
#ifndef LIBETL_MPI_EXCHANGE_H
#define LIBETL_MPI_EXCHANGE_H

#include "agree.h"
#include "outlet.h"

enum {
    ETL__SEND_SLOTS = 2, /* for each rank that is sent to */
    ETL__RECEIVE_SLOTS =
        4, /* for each rank that is received from: two may be held by its reader */
    ETL__SLOTS = ETL__SEND_SLOTS + ETL__RECEIVE_SLOTS
};

/* Another rank failed: what it was is learned when all agree. */
#define ETL__E_ALERTED (-20098)

/* What is on its way to a rank. */
struct etl__sending {
    struct etl__outlet outlet;
    uint64_t blocks; /* begun to be sent */
};

enum etl__slot_state { ETL__SLOT_FREE = 0, ETL__SLOT_POSTED, ETL__SLOT_FULL, ETL__SLOT_HELD };

/* What is on its way from a rank. */
struct etl__receiving {
    enum etl__slot_state states[ETL__RECEIVE_SLOTS];
    size_t sizes[ETL__RECEIVE_SLOTS];
    uint8_t posted[ETL__RECEIVE_SLOTS]; /* a queue of slots, in the order of their posting */
    unsigned posted_count;
    uint64_t blocks_posted, blocks_taken; /* taken: received, in order */
    bool ended;                           /* its last block was taken */
};

struct etl__exchange {
    struct etl__team *team;
    struct etl__store *store;
    struct etl__memory *memory;
    size_t block_size;
    uint8_t *blocks; /* ETL__SLOTS of each rank */
    struct etl__sending *sending;
    struct etl__receiving *receiving;
    MPI_Request *requests;       /* as the blocks; then that of the alert */
    MPI_Request *alert_requests; /* to each rank */
    MPI_Status *statuses;
    int *indices;
    uint64_t *counts; /* of blocks: to each rank, then from each */
    int alert;        /* the rank that it came from */
    int alerts;       /* received */
    bool draining;    /* what arrives is dropped */
    uint64_t pairs_received;
    size_t bytes; /* of memory, in all */
};

/* The size of a block, where `memory` bytes are for all; and what blocks of a size take in all. */
size_t etl__exchange_block_size(size_t memory, int ranks);
size_t etl__exchange_bytes(size_t block_size, int ranks);

/* Take memory; block_size is the same on all ranks. The outlets of `sending` are the caller's to
 * open. On failure too the exchange must be ended. */
int etl__exchange_begin(struct etl__exchange *exchange, struct etl__team *team,
                        struct etl__store *store, size_t block_size, struct etl__error *error);

/* Be ready for everybody's blocks: once all ranks have begun. */
int etl__exchange_post(struct etl__exchange *exchange, struct etl__error *error);

/* Go on with everything that can be done now. ETL_OK, an error, or ETL__E_ALERTED. */
int etl__exchange_poll(struct etl__exchange *exchange, bool *worked, struct etl__error *error);

/* The next block of a rank, waited for, and its slot, to be given back. */
int etl__exchange_take(struct etl__exchange *exchange, int source, unsigned *slot,
                       const uint8_t **block, size_t *size, struct etl__error *error);
int etl__exchange_give(struct etl__exchange *exchange, int source, unsigned slot,
                       struct etl__error *error);

/* Send what is left, until all of it has arrived. */
int etl__exchange_finish(struct etl__exchange *exchange, struct etl__error *error);

/* Collective: this rank's status in, that of all out, as etl__agree. Nothing is on its way then.
 * Every rank that began comes here, and holds no slot any more. */
int etl__exchange_settle(struct etl__exchange *exchange, int status, struct etl__error *error);

/* Give the memory back. */
void etl__exchange_end(struct etl__exchange *exchange);

#endif
