/* block.h: what a message between two ranks holds: a head, and behind it
 *
 *     whole records back to back                        `whole` is their size in all
 *  or a piece of a record that is larger than a block   `whole` is the record's size
 *
 * Records are as record.h has them. The last block of a stream says how many pairs there were. */
#ifndef LIBETL_MPI_BLOCK_H
#define LIBETL_MPI_BLOCK_H

#include <stdint.h>

enum { ETL__BLOCK_RECORDS = 0x52434553, ETL__BLOCK_PIECE = 0x50494543 };

struct etl__block_head {
    uint32_t kind;
    uint32_t is_last;
    uint64_t whole;
    uint64_t pairs; /* of the stream, in its last block */
};

enum { ETL__BLOCK_HEAD = sizeof(struct etl__block_head) };
_Static_assert(ETL__BLOCK_HEAD == 24, "the same on every rank");

#endif
